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
    calls. Results of calls made in an earlier turn come first, in a tool message of their own, right after that turn.
    Results are kept as encoded, preliminary ones dropped. Metadata stays with its part. Sources, warnings, errors and
    what the provider says of the response are no part of the conversation; nor is an empty text that carries nothing.
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
    messages.extend(turn.messages())
    return tuple(messages)


@final
class _Turn:
    """What was said until the next finish."""

    __slots__ = ("content", "finished", "results")

    def __init__(self) -> None:
        self.content: list[AssistantContent] = []
        self.results: list[ToolResultPart] = []
        self.finished = False

    def messages(self) -> Iterable[Message]:
        calls = {part.id for part in self.content if part.type == "tool-call"} if self.results else ()
        own = [result for result in self.results if result.id in calls]
        if len(own) < len(self.results):
            yield ToolMessage(tuple([result for result in self.results if result.id not in calls]))
        if self.content:
            yield AssistantMessage(tuple(self.content))
        if own:
            yield ToolMessage(tuple(own))


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
        metadata=part.metadata,
    )
