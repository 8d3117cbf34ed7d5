"""Pending calls: what a turn leaves open, and the parts that answer it.

>>> from fxai.messages.part import ApprovalRequest, ToolCall
>>> (wipe,) = pending_in([ToolCall("c1", "wipe", {"disk": "a"}), ApprovalRequest("a1", "c1")])
>>> wipe.name, wipe.approve().approved, wipe.deny("not that one").reason
('wipe', True, 'not that one')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.messages.content import Content, ToolApprovalResponsePart, ToolResultPart
from fxai.messages.part import AnyPart

__all__ = ["UNANSWERED", "Pending", "pending_in"]

UNANSWERED: Final = {
    "expired": "nobody answered in time whether it may run, and nobody denied it",
    "unavailable": "nobody could be asked whether it may run, and nobody denied it",
}
"""What is told of a call whose approval nobody answered, unless there is another reason."""


@final
class Pending(msgspec.Struct, frozen=True):
    """A call that waits: for a person to approve it, or for somebody else's result."""

    id: str
    """The call's id."""
    name: str
    """The tool's name; empty where the call of an approval request is not there."""
    params: Any
    """The parameters, as plain JSON data."""
    approval_id: str | None = None
    """What an answer refers to; None for a call that somebody else runs."""
    dynamic: bool = False
    """Whether the tool is a dynamic one."""

    def approve(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """The answer that lets the call run, for a tool message behind the turn.

        Raises:
            ValueError: nobody asked for an approval; `answer` it.
        """
        return ToolApprovalResponsePart(self._require_request(), True, reason)

    def deny(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """The answer that keeps the call from running, for a tool message behind the turn.

        Raises:
            ValueError: nobody asked for an approval; `answer` it.
        """
        return ToolApprovalResponsePart(self._require_request(), False, reason)

    def expire(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """The answer where nobody answered in time: the call is not run, and the model does not read it as a denial.

        Raises:
            ValueError: nobody asked for an approval; `answer` it.
        """
        return ToolApprovalResponsePart(self._require_request(), False, reason or UNANSWERED["expired"], "expired")

    def abandon(self, reason: str | None = None) -> ToolApprovalResponsePart:
        """The answer where nobody can be asked: the call is not run, and the model does not read it as a denial.

        Raises:
            ValueError: nobody asked for an approval; `answer` it.
        """
        why = reason or UNANSWERED["unavailable"]
        return ToolApprovalResponsePart(self._require_request(), False, why, "unavailable")

    def answer(self, result: Any, *, is_failure: bool = False) -> ToolResultPart:
        """The result of a call that somebody else ran, plain JSON data, for a tool message behind the turn.

        Raises:
            ValueError: the call waits for an approval; `approve` or `deny` it.
        """
        if self.approval_id is not None:
            raise ValueError(f"the call {self.id!r} of {self.name!r} waits for an approval: approve or deny it")
        return ToolResultPart(self.id, self.name, result, is_failure, dynamic=self.dynamic)

    def _require_request(self) -> str:
        if self.approval_id is None:
            raise ValueError(
                f"the call {self.id!r} of {self.name!r} waits for a result, not for an approval: answer it"
            )
        return self.approval_id

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name, self.approval_id))


def pending_in(parts: Iterable[AnyPart | Content]) -> tuple[Pending, ...]:
    """What is open among the parts of a turn, or of a whole conversation, in order.

    That is each approval request without an answer, and each call without a result, but for those of a provider.
    """
    waiting: dict[str, Pending] = {}
    theirs: dict[str, Pending] = {}
    for part in parts:
        match part.type:
            case "tool-call":
                kept = theirs if part.provider_executed else waiting
                kept[part.id] = Pending(part.id, part.name, part.params, dynamic=part.dynamic)
            case "tool-result" if not getattr(part, "preliminary", False):
                waiting.pop(part.id, None)
            case "tool-approval-request":
                call = part.tool_call_id
                about = waiting.get(call) or theirs.get(call) or Pending(call, "", None)
                waiting[call] = msgspec.structs.replace(about, approval_id=part.approval_id)
            case "tool-approval-response":
                said = part.approval_id
                waiting = {id_: one for id_, one in waiting.items() if one.approval_id != said}
            case _:
                pass
    return tuple(waiting.values())
