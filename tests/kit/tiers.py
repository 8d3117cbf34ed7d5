"""Pages and programs by tier. Use it for tests that have one case per file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["in_tiers"]

# These files need a package of the extra `dev-servers`, start a cluster, or take several seconds.
_SLOW = {
    "70_one_program_four_models.py",
    "90_mcp_both_sides.py",
    "95_a_git_server_and_a_local_model.py",
    "96_tools_by_mode.py",
    "98_one_program_five_ways.py",
    "asyncio.md",
    "run-handlers-on-a-cluster.md",
    "use-an-mcp-server.md",
}


def in_tiers(paths: Iterable[Path]) -> list[Any]:
    """Return one parameter for each path. The listed files carry the mark `slow`."""
    return [pytest.param(path, marks=pytest.mark.slow if path.name in _SLOW else ()) for path in paths]
