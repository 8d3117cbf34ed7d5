"""Handlers that block: run in a worker thread, which Python cannot cancel."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, cast, final

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import msgspec
from returns.io import IOResult
from returns.result import Failure, Result, Success
from returns.unsafe import unsafe_perform_io

from fxai.effects.cancellation import shield
from fxai.effects.constructor import of_result
from fxai.effects.effect import AnyEffect, Await, EffectOf

__all__ = ["Blocking"]

_log = logging.getLogger("fxai.tools")
_LEFT_BEHIND = "the blocking handler of %r goes on after %s s: its thread is left behind"


@final
class Blocking(msgspec.Struct, frozen=True):
    """How to run a handler that blocks.

    A thread cannot be cancelled: a cancellation waits for it `grace` seconds, then leaves it behind and says so in the
    log `fxai.tools`. Such a handler returns a `Result` or an `IOResult`.
    """

    grace: float = 5.0

    def call(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> AnyEffect:
        """The effect of `f(*arguments)` in a worker thread."""
        ran: EffectOf[Any] = Await(lambda _: self._run(f, arguments, name))
        return ran.flat_map(lambda returned: of_result(_result(returned, name)))

    async def _run(self, f: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> Any:
        ended = anyio.Event()
        portal = anyio.lowlevel.current_token()
        turn = threading.Lock()  # taken by the thread when it begins, or by a cancellation that comes first

        def work() -> Any:
            if not turn.acquire(blocking=False):
                return None
            try:
                return f(*arguments)
            finally:
                with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # no task waits any more
                    anyio.from_thread.run_sync(ended.set, token=portal)

        cancelled = anyio.get_cancelled_exc_class()
        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except cancelled:
            if turn.acquire(blocking=False):  # it waited for a free thread, and never begins now
                raise
            try:
                await shield(self._in_time(ended))
            finally:
                if not ended.is_set():
                    _log.warning(_LEFT_BEHIND, name, self.grace)
            raise

    async def _in_time(self, ended: anyio.Event) -> None:
        with anyio.move_on_after(self.grace):
            await ended.wait()


def _result(returned: Any, name: str) -> Result[Any, Any]:
    if isinstance(returned, Success | Failure):
        given: Result[Any, Any] = cast(Any, returned)
        return given
    if isinstance(returned, IOResult):
        result: Result[Any, Any] = cast(Any, unsafe_perform_io)(returned)
        return result
    raise TypeError(
        f"the blocking handler of {name!r} returned {returned!r}: in a thread it must return a Result or an IOResult"
    )
