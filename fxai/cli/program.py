"""Programs: an effect run as the work of this process, which ends with a value, a failure or a signal.

>>> from fxai.effects import fx
>>> value_of(fx.succeed(3))
3
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import anyio
from anyio.abc import TaskStatus
from typing_extensions import TypeVar

from fxai.cli.cli_error import INTERRUPTED, TERMINATED, CliError, error_of
from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.effect import EffectOf

__all__ = ["success_of", "value_of"]

_A = TypeVar("_A")


def value_of(program: EffectOf[_A, Any, Any]) -> _A:
    """Runs a program to its end, finalizers included, and gives its value.

    Raises:
        CliError: it failed or broke, or a signal ended it.
    """
    try:
        ended = anyio.run(_run_until_signal, program)
    except* KeyboardInterrupt:  # before signals are received; on Windows always
        ended = _interruption()
    if isinstance(ended, CliError):
        raise ended
    return success_of(ended)


def success_of(ended: Exit[_A, Any]) -> _A:
    """The value of a program that succeeded.

    Raises:
        CliError: it failed or broke.
    """
    if isinstance(ended, Succeeded):
        return ended.value
    raise error_of(ended.cause)


async def _run_until_signal(program: EffectOf[_A, Any, Any]) -> Exit[_A, Any] | CliError:
    """The exit of a program, or the error for the signal that ended it; its finalizers have run.

    A signal cancels a scope, not the task as asyncio alone would do: uninterruptible work is not cut short.
    """
    told: list[CliError] = []
    end: Exit[_A, Any] | None = None
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            await group.start(_listen, scope, told)
        with scope:
            end = await fx.run_async_exit(program)
        group.cancel_scope.cancel()
    return told[0] if end is None else end


async def _listen(
    scope: anyio.CancelScope, told: list[CliError], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    with anyio.open_signal_receiver(*heard) as signals:
        task_status.started()
        async for number in signals:
            if told:  # a second signal: leave at once, without finalizers
                os._exit(told[0].code)
            told.append(_interruption() if number == signal.SIGINT else CliError("terminated", "", code=TERMINATED))
            scope.cancel()


def _interruption() -> CliError:
    return CliError("interrupted", "", code=INTERRUPTED)
