"""Trouble: what went wrong with a command, in one line with the remedy, and the exit code that says so.

>>> print(Trouble("there is no file x.py", "check the path"))
there is no file x.py; check the path
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from typing_extensions import override

from fxai.agents.budget import BudgetExceeded
from fxai.effects.cause import Cause
from fxai.effects.context import MissingServiceError
from fxai.messages.errors import AiError
from fxai.tools.failure import HandlerFailed, InvalidResult
from fxai.tools.toolkit import HandlerError

__all__ = ["FAILED", "INTERRUPTED", "PIPE_CLOSED", "TERMINATED", "WRONG_USE", "Trouble", "one_line", "trouble_of"]

FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""As shells say it of a program that was stopped by Ctrl-C."""
PIPE_CLOSED: Final = 141
"""As shells say it of a program whose reader went away."""
TERMINATED: Final = 143
"""As shells say it of a program that was told to end."""

_LONGEST: Final = 600


@final
class Trouble(Exception):
    """Something that a command stops at. `cause` is what lies behind it, for `--debug`; `data` says more in JSON."""

    def __init__(
        self,
        message: str,
        remedy: str,
        *,
        code: int = FAILED,
        cause: BaseException | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, remedy)
        self.message = one_line(message)
        self.remedy = one_line(remedy)
        self.code = code
        self.cause = cause
        self.data = dict(data or {})

    def to_data(self) -> dict[str, Any]:
        """What happened and what to do, as plain JSON data."""
        return {"message": self.message, "remedy": self.remedy, **self.data}

    @override
    def __str__(self) -> str:
        return f"{self.message.rstrip('.')}; {self.remedy}" if self.remedy else self.message


def one_line(text: str, longest: int = _LONGEST) -> str:
    """The text in one line without control characters, cut in the middle where it is longer than `longest`."""
    line = "".join(c if c.isprintable() else " " for c in text[: longest * 8])
    line = " ".join(line.split())
    if len(line) <= longest:
        return line
    return f"{line[: longest * 2 // 3]} … {line[-longest // 3 :]}"


def trouble_of(cause: Cause[Any]) -> Trouble:
    """What a run that did not succeed stopped at: a failure, or else a defect."""
    for failure in cause.failures:
        return _failed(failure)
    for defect in cause.defects:
        return _broken(defect)
    return Trouble("the program was interrupted from inside", "ask again", cause=cause.squash())


def _failed(failure: object) -> Trouble:
    if isinstance(failure, Trouble):
        return failure
    if isinstance(failure, AiError):
        return Trouble(failure.message, _lower(failure.advice))
    said = str(failure)
    if isinstance(failure, BudgetExceeded):
        return Trouble(
            f"the model still called tools in round {failure.limit}, the last that it has",
            f"allow more with --rounds {failure.limit * 2}",
        )
    if isinstance(failure, HandlerFailed):
        return Trouble(said, 'with failure_mode="return" the model reads the failure, and the run goes on')
    if isinstance(failure, InvalidResult):
        return Trouble(said, "correct the handler, or the type that the tool declares")
    return Trouble(f"the run failed: {said}", "--debug shows more")


def _broken(defect: BaseException) -> Trouble:
    if isinstance(defect, Trouble):
        return defect
    if isinstance(defect, MissingServiceError):
        name = getattr(defect.key, "__qualname__", str(defect.key))
        said = f"the service {name} is needed, and no layer gives it"
        return Trouble(said, "give a layer that supplies it with --layer module:name", cause=defect)
    if isinstance(defect, HandlerError):
        return Trouble(str(defect), "give each tool of the layer's toolkit one handler", cause=defect)
    kind = type(defect).__name__
    return Trouble(f"the program broke: {kind}: {defect}", "--debug shows where", cause=defect)


def _lower(advice: str) -> str:
    return advice[:1].lower() + advice[1:]
