"""Approval: whether somebody must agree to a call before it is run.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> pay = Tool.make("pay", parameters=int, needs_approval=lambda amount, call: amount > 100)
>>> [fx.run_sync(needs_asking(pay, amount, CallContext(pay))) for amount in (5, 500)]
[False, True]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, cast

from fxai.effects.cause import Cause
from fxai.effects.effect import EffectOf, Fold, Succeed, Suspend
from fxai.tools.handler import CallContext

if TYPE_CHECKING:
    from fxai.tools.tool import Tool

__all__ = ["needs_asking"]

_CRASHED = "whether a call of %r needs approval is not known, so it does: the predicate ended with %r"


def needs_asking(tool: Tool[Any, Any, Any], params: Any, context: CallContext) -> EffectOf[bool, Never, Any]:
    """Whether a call with these decoded parameters must be approved first.

    It fails closed: a predicate that fails, breaks, or gives anything but False, asks. The log `fxai.tools` is told
    of the first two.
    """
    needs = tool.needs_approval
    if isinstance(needs, bool):
        return Succeed(needs)

    def asked() -> EffectOf[Any, Any, Any]:
        said: Any = needs(params, context)
        is_effect = isinstance(cast(object, said), EffectOf)
        return said if is_effect else Succeed(said)

    def crashed(cause: Cause[Any]) -> EffectOf[bool] | None:
        if not cause.defects and not cause.failures:
            return None
        import logging  # few predicates break

        logging.getLogger("fxai.tools").warning(_CRASHED, tool.name, cause.squash())
        return Succeed(True)

    return Fold(Suspend(asked), crashed, lambda said: Succeed(said is not False))
