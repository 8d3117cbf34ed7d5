"""What goes wrong with a host: one record, and the reason that it is where the host is a model.

>>> print(HostFailure("translate", "ended", "it ended before its answer was complete", exit_code=3))
The program 'translate' has ended (exit code 3): it ended before its answer was complete. Run it by hand ...
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import msgspec

from fxai.messages.reason import (
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    Reason,
    RequestTimeoutError,
    UnknownError,
)

__all__ = ["HostFailure", "HostProblem", "reason_of"]

HostProblem: TypeAlias = Literal[
    "not-found", "refused", "invalid-input", "ended", "timeout", "invalid-output", "too-much", "reported"
]
"""What is wrong: the program is not there or may not be run; it refused its `params`; what it should be asked cannot be
said to it; it ended, or closed its output,
before its answer was complete; it did not answer in time; what it said is not the protocol; it said more than is read;
it answered with an error of its own."""

_SAID: Final[dict[HostProblem, tuple[str, str]]] = {
    "not-found": ("cannot be started", "Check the command, `cwd` and whether the file may be run"),
    "refused": ("refused its params", "Change `params` to what it wants"),
    "invalid-input": ("cannot be asked this", "Change what is asked, or how the program is spoken to"),
    "ended": ("has ended", "Run it by hand with the same input and look at what it writes to stderr"),
    "timeout": ("did not answer in time", "Allow more by `silence` or `timeout`, or see what it waits for"),
    "invalid-output": ("said what is not the protocol", "Write one line of the protocol for each message to stdout"),
    "too-much": ("said more than is read", "Let it say less, or allow more by `max_line` or `max_answer`"),
    "reported": ("reports an error", "See what it says"),
}
_RETRYABLE: Final = ("ended", "timeout", "invalid-output")
_SHOWN: Final = 500


@final
class HostFailure(msgspec.Struct, frozen=True):
    """What went wrong with a host.

    Attributes:
        program: The command, without its directory and its arguments.
        problem: What, by one of a closed set of words.
        description: The same in words: the host's own, where it reported an error.
        exit_code: What the program ended with, where it has; negative for a signal.
        seconds: How long it was waited for, where it did not answer in time.
        stderr: The last that it wrote to stderr, at most some 4,000 characters.
        retryable: Whether the host says that asking again can help.
        retry_after: The seconds to wait before that, if the host says.
    """

    program: str
    problem: HostProblem
    description: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    stderr: str = ""
    retryable: bool = False
    retry_after: float | None = None

    @property
    def is_retryable(self) -> bool:
        """Whether asking again can help: where it ended, was silent or wrote nonsense, or where it says so."""
        return self.retryable or self.problem in _RETRYABLE

    @property
    def message(self) -> str:
        """What happened, in one line, without what it wrote to stderr."""
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        within = "" if self.seconds is None else f" ({self.seconds:g} s)"
        said = f": {self.description}" if self.description else ""
        return f"The program {self.program!r} {_SAID[self.problem][0]}{code}{within}{said}"

    @property
    def advice(self) -> str:
        """What to do about it, in one line."""
        return _SAID[self.problem][1]

    @property
    def full_message(self) -> str:
        """The message, with the end of what it wrote to stderr behind it."""
        end = self.stderr.strip()[-_SHOWN:]
        return f"{self.message}; its stderr ends: {end}" if end else self.message

    def __str__(self) -> str:
        return f"{self.full_message}. {self.advice}"


def reason_of(failure: HostFailure) -> Reason:
    """The reason of an `AiError` that a failure is, where the host is a model."""
    said = failure.full_message
    match failure.problem:
        case "not-found":
            return ModelUnavailableError(model=failure.program, problem="missing", description=said)
        case "refused":
            return InvalidRequestError(parameter="params", description=said)
        case "invalid-input":
            return InvalidUserInputError(said)
        case "timeout":
            return RequestTimeoutError(seconds=failure.seconds, description=said)
        case "invalid-output" | "too-much":
            return InvalidOutputError(said)
        case "ended":
            return InternalProviderError(said)
        case "reported":
            if failure.retryable:
                return InternalProviderError(said, retry_after=failure.retry_after)
            return UnknownError(said)
