"""Approval: whether somebody must agree to a call before it is run.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> pay = Tool.make("pay", parameters=int, needs_approval=lambda amount, call: amount > 100)
>>> [fx.run_sync(needs_asking(pay, amount, CallContext(pay))) for amount in (5, 500)]
[False, True]
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, Never, cast

import anyio

from fxai.effects.cause import Cause, Fail
from fxai.effects.concurrency import begin
from fxai.effects.effect import AwaitExit, EffectOf, Fold, Succeed, Suspend, Timeout
from fxai.effects.exit import Exit, Failed
from fxai.effects.fiber import Children, Fiber, Inside, inside
from fxai.tools.handler import CallContext

if TYPE_CHECKING:
    from fxai.tools.tool import Tool

__all__ = ["PREDICATE_SECONDS", "needs_asking"]

PREDICATE_SECONDS: Final = 10.0
"""How long a predicate may take, by the `Clock`, until the call is asked for without it."""

_CRASHED = "whether a call of %r needs approval is not known, so it does: the predicate ended with %r"


def needs_asking(tool: Tool[Any, Any, Any], params: Any, context: CallContext) -> EffectOf[bool, Never, Any]:
    """Whether a call with these decoded parameters must be approved first.

    It fails closed: a predicate that fails, breaks, gives anything but False, or an effect that takes longer than
    `PREDICATE_SECONDS`, asks. The log `fxai.tools` is told of all but the third. A plain function that blocks for ever
    cannot be stopped: what has to wait belongs into an effect.
    """
    needs = tool.needs_approval
    if isinstance(needs, bool):
        return Succeed(needs)

    def asked() -> EffectOf[Any, Any, Any]:
        said: Any = needs(params, context)
        is_effect = isinstance(cast(object, said), EffectOf)
        return _in_time(said) if is_effect else Succeed(said)

    def crashed(cause: Cause[Any]) -> EffectOf[bool] | None:
        if not cause.defects and not cause.failures:
            return None
        import logging  # few predicates break

        logging.getLogger("fxai.tools").warning(_CRASHED, tool.name, cause.squash())
        return Succeed(True)

    return Fold(Suspend(asked), crashed, lambda said: Succeed(said is not False))


def _in_time(effect: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
    """The effect, cut off in time. Unlike `Effect.timeout` it needs no event loop where it never waits."""

    def alone(env: Any) -> Children:
        return (yield from inside(effect, env)).ended()

    def start(fiber: Fiber) -> Any:
        if not fiber.fair:
            return Inside(alone(fiber.env))
        child, pending, _ = begin(effect, fiber)
        return child.ended() if pending is None else _waited(fiber, child, pending)

    return AwaitExit(start)


async def _waited(fiber: Fiber, child: Fiber, pending: Awaitable[Any]) -> Exit[Any, Any]:
    end: Exit[Any, Any] | None = None
    with anyio.CancelScope() as scope:
        async with fiber.clock().deadline(scope, PREDICATE_SECONDS):
            end = await child.drive(pending)

    late = Cause[Any]((Fail(Timeout(PREDICATE_SECONDS)),))
    return Failed(late.combine(child.besides())) if end is None else end
