"""Failures of a run: what failed, with the conversation until then.

>>> from fxai.messages.errors import NetworkError
>>> failed = RunFailed.of(AiError("Acme", "generate_text", NetworkError("TransportError")), Prompt.make("Hello"))
>>> isinstance(failed, AiError), failed.is_retryable, len(failed.history)
(True, True, 1)
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

from typing_extensions import override

from fxai.agents.budget import BudgetExceeded
from fxai.messages.errors import AiError
from fxai.messages.prompt import Prompt
from fxai.tools.failure import ToolError

__all__ = ["RunError", "RunFailed"]


@final
class RunFailed(AiError, frozen=True, tag="AiError"):
    """An `AiError` that ended a run, with the conversation until then: a run can go on from its history.

    It is written as any `AiError`, without the conversation, which may hold what is not for a log.
    """

    history: Prompt
    """What was said before the turn that failed, with the results of all calls."""

    @staticmethod
    def of(error: AiError, history: Prompt) -> RunFailed:
        """The error with a conversation; one that has its own keeps it."""
        return error if isinstance(error, RunFailed) else RunFailed(error.module, error.method, error.reason, history)

    @property
    def error(self) -> AiError:
        """The error without the conversation."""
        return AiError(self.module, self.method, self.reason)

    @override
    def to_data(self) -> dict[str, Any]:
        """The error as plain JSON data, without the conversation."""
        return self.error.to_data()

    @override
    def to_json(self) -> str:
        """The error as JSON text, without the conversation."""
        return self.error.to_json()

    @override
    def __str__(self) -> str:
        return str(self.error)


RunError: TypeAlias = RunFailed | ToolError | BudgetExceeded
"""What can go wrong in a run; each holds the `history`."""
