"""Log: a line for each run of a handler, with its fields for those who collect logs.

>>> from fxai.effects import fx
>>> from fxai.schema import Empty
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> fx.run_sync(six.call(Empty()).provide(log().wrap(six.handler(lambda _: Success(6)))))
6
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from fxai.effects.cause import Cause, Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Ask, EffectOf, Within
from fxai.effects.service import Clock
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.aspects.hook import Invocation, Wrap

__all__ = ["log"]

_INFO: Final = 20  # as in `logging`, which is slow to import


def log(*, logger: str = "fxai.tools", level: int = _INFO, content: bool = False) -> Aspect:
    """The aspect that logs the end of each run of a handler.

    The record says which tool, and in its fields `fxai_tool`, `fxai_call_id`, `fxai_outcome` (`"success"`,
    `"failure"`, `"defect"` or `"interrupted"`) and `fxai_seconds`, by the `Clock`; of a defect, in `fxai_defect`, the
    class of the exception.

    Args:
        logger: the name of the logger.
        level: `logging.INFO` by default; of successes, failures and interruptions; a defect is an error.
        content: whether the record holds what may be secret too: parameters and results, as `fxai_params` and
            `fxai_result`, and the traceback of a defect. Not by default; the defect goes up with its traceback anyway.
    """
    return Aspect.of(Logging(logger, level, content))


@final
class Logging(msgspec.Struct, frozen=True):
    """What is logged, and where."""

    logger: str
    level: int
    content: bool

    def __call__(self) -> Wrap:
        """What wraps handlers in a log."""
        return self._wrap

    def _wrap(self, call: Invocation[Any], proceed: AnyEffect) -> AnyEffect:
        def begin(context: ContextOf[Any]) -> AnyEffect:
            clock: Clock = context.fetch(Clock)
            started = clock.monotonic()

            def ended(end: Exit[Any, Any]) -> EffectOf[None]:
                return Ask(lambda _: self._write(call, end, clock.monotonic() - started))

            return proceed.on_exit(ended)

        return Within(begin)

    def _write(self, call: Invocation[Any], end: Exit[Any, Any], seconds: float) -> None:
        import logging

        outcome = "success" if isinstance(end, Succeeded) else _outcome(end.cause)
        logger = logging.getLogger(self.logger)
        level = logging.ERROR if outcome == "defect" else self.level
        if not logger.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "fxai_tool": call.tool.name,
            "fxai_call_id": call.call_id,
            "fxai_outcome": outcome,
            "fxai_seconds": seconds,
        }
        defect = None if isinstance(end, Succeeded) else next(iter(end.cause.defects), None)
        if defect is not None:
            fields["fxai_defect"] = type(defect).__name__
        if self.content:
            fields |= {"fxai_params": call.params, "fxai_result": _result(end)}
        shown = defect if self.content else None
        said = "the tool %s ended in %s after %.3f s"
        logger.log(level, said, call.tool.name, outcome, seconds, extra=fields, exc_info=shown)


def _outcome(cause: Cause[Any]) -> str:
    if cause.defects:
        return "defect"
    return "interrupted" if cause.interrupted else "failure"


def _result(end: Exit[Any, Any]) -> Any:
    return end.value if isinstance(end, Succeeded) else next(iter(end.cause.failures), None)
