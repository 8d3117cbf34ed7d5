"""Reports of functions that block the event loop. Handlers use them always, other functions in the development mode.

>>> time_calls(lambda: 2 + 3)()
5
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Any, Final, TypeVar
from weakref import WeakSet

from fxai.effects.cancellation import event_loop

_A = TypeVar("_A")

HELD_SECONDS: Final = 0.1
"""Seconds that a function can block the event loop before fxai reports the function."""

_HELD: Final = "%s blocked the event loop and all other programs for %.1f s. %s"
_REMEDY: Final = "Run it in a thread: fx.in_thread(…)."

_reported: WeakSet[Any] = WeakSet()  # functions
_locations: set[str] = set()  # places in files, because a program can create its functions again and again


def report_held(log: str, what: str, key: object, seconds: float, remedy: str) -> None:
    """Log that a function blocked the event loop, once per function.

    Args:
        log: The name of the log.
        what: The name of the function.
        key: The function, or its place in a file.
        seconds: The seconds that the function ran.
        remedy: The last sentence of the message.
    """
    seen: Any = _locations if isinstance(key, str) else _reported
    if event_loop() is None or key in seen:
        return
    seen.add(key)
    import logging

    logging.getLogger(log).warning(_HELD, what, seconds, remedy)


def time_calls(f: Callable[[], _A]) -> Callable[[], _A]:
    """Return a function that calls `f`, and logs to `fxai.effects` if it blocks the event loop for more than 100 ms."""

    @wraps(f)
    def call() -> _A:
        begun = perf_counter()
        try:
            return f()
        finally:
            seconds = perf_counter() - begun
            if seconds > HELD_SECONDS:
                code = getattr(inspect.unwrap(f), "__code__", None)
                where = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
                what = f"{getattr(f, '__qualname__', type(f).__qualname__)!r}{where}"
                report_held("fxai.effects", what, what, seconds, _REMEDY)

    return call
