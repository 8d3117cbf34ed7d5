"""The process of one contender: it reads requests from its standard input and prints a measurement for each.

This module needs only the standard library, because each contender runs in an environment of its own. The times are
CPU times, divided by the time of a fixed block of interpreter work directly before and after. Therefore a change of
the speed of the machine changes both sides of a ratio.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

__all__ = ["QUIET", "Prepare", "Work", "awaited", "block", "repeated", "serve"]

Work: TypeAlias = Callable[[int], object]
"""Do the work so many times."""

Prepare: TypeAlias = Callable[[], Work]
"""Prepare a work, outside the measurement."""

QUIET = 1e-3
"""The seconds of `block` on a quiet core: absolute costs are scaled to it."""

BATCH = 0.04
"""The CPU seconds of a batch, at least."""


def block() -> float:
    """Return the CPU seconds of a fixed block of interpreter work."""
    begun = time.process_time()
    total = 0
    for number in range(60):
        value = {"a": number, "b": [number, number + 1, str(number)], "c": {"d": None, "e": True, "f": number * 0.5}}
        for _ in range(8):
            total += len(json.dumps(value)) + len(list(value))
    return time.process_time() - begun


def repeated(do: Callable[[], object]) -> Work:
    """Return the work that calls a function."""

    def work(times: int) -> None:
        for _ in range(times):
            do()

    return work


_LOOPS: list[asyncio.AbstractEventLoop] = []


def awaited(do: Callable[[], Coroutine[Any, Any, object]]) -> Work:
    """Return the work that awaits a coroutine in the event loop of the process."""

    async def many(times: int) -> None:
        for _ in range(times):
            await do()

    return lambda times: in_loop(many(times))


def in_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the event loop of the process."""
    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
    return _LOOPS[0].run_until_complete(coroutine)


def serve(works: Mapping[str, Prepare]) -> None:
    """Answer requests until the input ends: `{"work": name}` for seconds, or `{"memory": name}` for bytes."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints does not belong to the answers
    prepared: dict[str, tuple[Work, int]] = {}
    for line in sys.stdin:
        request: dict[str, str] = json.loads(line)
        name = request.get("work") or request["memory"]
        try:
            if name not in prepared:
                work = works[name]()
                prepared[name] = (work, _batch(work))
            work, times = prepared[name]
            answer: dict[str, Any] = _seconds(work, times) if "work" in request else {"bytes": _bytes(work)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


def _batch(work: Work) -> int:
    """Return how often a batch repeats the work."""
    work(1)  # fills caches
    times = 1
    while True:
        begun = time.process_time()
        work(times)
        took = time.process_time() - begun
        if took >= BATCH:
            return times
        times = max(times * 2, int(times * BATCH / max(took, 1e-4)))


def _seconds(work: Work, times: int) -> dict[str, float]:
    gc.collect()
    gc.freeze()  # the objects of the imports, which a full collection would visit, do not belong to the work
    before = block()
    begun = time.process_time()
    work(times)
    took = (time.process_time() - begun) / times
    unit = (before + block()) / 2
    return {"seconds": took, "blocks": took / unit}


def _bytes(work: Work) -> int:
    gc.collect()
    tracemalloc.start()
    work(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
