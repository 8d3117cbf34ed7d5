"""What a response leaves in the history: one turn becomes an assistant message and the tool message that answers it.

>>> [message.role for message in fold([ToolCall("c", "add", {}), ToolResult("c", "add", 3)])]
['assistant', 'tool']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from fxai.messages.content import (
    AssistantContent,
    FilePart,
    ReasoningPart,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolResultPart,
)
from fxai.messages.gather import gather
from fxai.messages.message import AssistantMessage, Message, ToolMessage
from fxai.messages.part import (
    AnyPart,
    ApprovalRequest,
    Part,
    ToolCall,
    ToolResult,
)

__all__ = ["fold"]


def fold(parts: Iterable[AnyPart]) -> tuple[Message, ...]:
    """The messages that the parts of one response, or of several in a row, leave in the history.

    A turn ends with its `Finish`. Its assistant message holds, in order, its texts, reasoning, files, calls, approval
    requests and the results of tools that the provider ran; the tool message after it holds the results of its other
    calls. Requests and results are in the order of their calls, in whatever order they came. Results of calls made in
    an earlier turn come first, in a tool message of their own, right after that turn. Results are kept as encoded,
    preliminary ones dropped. Metadata stays with its part. Sources, warnings, errors and what the provider says of the
    response are no part of the conversation; nor is an empty text that carries nothing.
    """
    turn, messages = _Turn(), list[Message]()
    for part in gather(parts):
        if part.type == "finish":
            turn.finished = True
        elif part.type == "tool-result" and not part.provider_executed:
            turn.results.append(_result(part))
        elif (content := _content(part)) is not None:
            if turn.finished:
                messages.extend(turn.messages())
                turn = _Turn()
            turn.content.append(content)
            turn.asked += content.type == "tool-approval-request"
    messages.extend(turn.messages())
    return tuple(messages)


@final
class _Turn:
    """What was said until the next finish."""

    __slots__ = ("asked", "content", "finished", "results")

    def __init__(self) -> None:
        self.content: list[AssistantContent] = []
        self.results: list[ToolResultPart] = []
        self.asked = 0  # requests for approvals
        self.finished = False

    def messages(self) -> Iterable[Message]:
        calls = self._calls() if self.results or self.asked > 1 else {}
        own = [result for result in self.results if result.id in calls]
        if len(own) < len(self.results):
            yield ToolMessage(tuple([result for result in self.results if result.id not in calls]))
        if self.content:
            yield AssistantMessage(tuple(self.content if self.asked < 2 else self._in_order(calls)))
        if own:
            own.sort(key=lambda result: calls[result.id])
            yield ToolMessage(tuple(own))

    def _calls(self) -> dict[str, int]:
        """The place of each call by its id: the first one, where several have it."""
        at: dict[str, int] = {}
        for part in self.content:
            if part.type == "tool-call":
                at.setdefault(part.id, len(at))
        return at

    def _in_order(self, calls: dict[str, int]) -> list[AssistantContent]:
        """What the assistant message holds, each request for an approval where one stood, in the order of the calls."""
        asked = [part for part in self.content if part.type == "tool-approval-request"]
        ordered = iter(sorted(asked, key=lambda part: calls.get(part.tool_call_id, -1)))
        return [next(ordered) if part.type == "tool-approval-request" else part for part in self.content]


def _result(part: ToolResult) -> ToolResultPart:
    return ToolResultPart(
        part.id,
        part.name,
        part.encoded_result,
        part.is_failure,
        part.provider_executed,
        part.dynamic,
        metadata=part.metadata,
    )


def _content(part: Part) -> AssistantContent | None:
    match part.type:
        case "text":
            return TextPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "reasoning":
            return ReasoningPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "tool-call":
            return _call(part)
        case "tool-result":
            return _result(part)
        case "tool-approval-request":
            return _asked(part)
        case "file":
            return FilePart(part.media_type, part.data, part.file_name, metadata=part.metadata)
        case _:
            return None


def _asked(part: ApprovalRequest) -> ToolApprovalRequestPart:
    return ToolApprovalRequestPart(
        part.approval_id, part.tool_call_id, part.digest, part.expires, part.signature, metadata=part.metadata
    )


def _call(part: ToolCall) -> ToolCallPart:
    return ToolCallPart(
        part.id,
        part.name,
        part.params,
        part.provider_executed,
        part.dynamic,
        part.params_text,
        part.json_text,
        metadata=part.metadata,
    )
