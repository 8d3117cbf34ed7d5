"""What tests of effects share: a journal of what happened, a clock that stands still, and a count of tasks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Never

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from typing_extensions import override

from fxai.effects import Clock, Effect, EffectOf, Exit, Failed, Scope, fx

__all__ = ["Journal", "Lost", "StandingClock", "boom", "ending_of", "running_tasks", "turns"]


class Lost(msgspec.Struct, frozen=True):
    """A typed failure that is no exception."""

    what: str = ""


def boom() -> Any:
    """Raises: a bug in a function of the user."""
    raise ZeroDivisionError("boom")


class Journal:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Write a line now."""
        self.lines.append(line)

    def note(self, line: str) -> Effect[None]:
        """The effect of writing a line."""
        return fx.sync(lambda: self.add(line))

    def held(self, name: str) -> EffectOf[str, Never, Scope | None]:
        """A resource: `+name` when acquired, `-name` when released."""
        return fx.acquire_release(self.note(f"+{name}").as_(name), lambda _: self.note(f"-{name}"))

    def ends(self, exit_: Exit[object, object]) -> Effect[None]:
        """The effect of writing how something ended."""
        return self.note(ending_of(exit_))


def ending_of(exit_: Exit[object, object]) -> str:
    """How a program ended, in words: success, failure, defect, interruption."""
    if not isinstance(exit_, Failed):
        return "success"
    kinds = {"Fail": "failure", "Die": "defect", "Interrupt": "interruption"}
    return " and ".join(kinds[type(reason).__name__] for reason in exit_.cause.reasons)


class StandingClock(Clock):
    """A clock that goes on only when somebody sleeps, by as much, at once."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    @override
    def now(self) -> float:
        return self.time

    @override
    def monotonic(self) -> float:
        return self.time

    @override
    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += max(seconds, 0.0)
        await checkpoint()

    @override
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        if seconds <= 0:
            scope.cancel()
        return nullcontext()


async def turns(number: int) -> None:
    """Let the other tasks run, `number` times."""
    for _ in range(number):
        await checkpoint()


def running_tasks() -> int:
    """How many tasks the event loop around runs, of any kind."""
    try:
        import asyncio

        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        root = trio.lowlevel.current_root_task()
        pending = [] if root is None else [root]
        number = 0
        while pending:
            number += 1
            pending.extend(child for nursery in pending.pop().child_nurseries for child in nursery.child_tasks)
        return number
