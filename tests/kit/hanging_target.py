"""A module that workers cannot import: it never ends, or ends the process."""

from __future__ import annotations

import os
import sys
import time

from tests.kit.hostile_desk import desk

__all__ = ["desk"]

if os.environ.get("FXAI_TEST_IMPORT") == "exit":
    sys.exit(4)
while os.environ.get("FXAI_TEST_IMPORT") == "hang":
    time.sleep(0.05)
