"""How many functions are called meanwhile: a cost that does not depend on the speed of the machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["CallCount", "count_calls"]


class CallCount:
    """What was counted."""

    calls = 0


def is_python_call(event: str, function: Any) -> bool:
    """Whether a function of Python is called."""
    return event == "call"


@contextmanager
def count_calls(counts: Callable[[str, Any], bool] = is_python_call) -> Generator[CallCount]:
    """Counts the calls made inside, by this thread; `counts` is given the profiler's event and its argument.

    The collector is off meanwhile: it would call the finalizers of what other tests have left.
    """
    count = CallCount()

    def profile(_: FrameType, event: str, argument: object) -> None:
        count.calls += counts(event, argument)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
