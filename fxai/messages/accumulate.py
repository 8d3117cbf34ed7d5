"""From the parts of a response to what they amount to: whole parts, and the messages that they leave in the history.

>>> from fxai.messages.part import ToolResult
>>> gather([TextStart("1"), TextDelta("1", "Hel"), ToolCall("c", "add", {}), TextDelta("1", "lo")])
(Text(text='Hello', metadata={}), ToolCall(id='c', name='add', params={}, ...))
>>> [message.role for message in fold([ToolCall("c", "add", {}), ToolResult("c", "add", 3)])]
['assistant', 'tool']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    merge_metadata,
)
from fxai.messages.part import (
    AnyPart,
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)

# Ids are unique within a family only: a text and a line of reasoning may both be called "0".
_FAMILY: Final[Mapping[type[Any], str]] = {
    **dict.fromkeys((TextStart, TextDelta, TextEnd), "text"),
    **dict.fromkeys((ReasoningStart, ReasoningDelta, ReasoningEnd), "reasoning"),
    **dict.fromkeys((ToolParamsStart, ToolParamsDelta, ToolParamsEnd), "tool-params"),
}


_Start: TypeAlias = TextStart | ReasoningStart | ToolParamsStart
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolParamsDelta
_End: TypeAlias = TextEnd | ReasoningEnd | ToolParamsEnd


@final
class _Open(msgspec.Struct):
    """A part that comes in pieces."""

    family: str
    id: str
    place: int  # among the parts of the response
    metadata: Mapping[str, Any] = {}
    name: str = ""
    provider_executed: bool = False
    dynamic: bool = False
    deltas: list[str] = []


_Places: TypeAlias = "list[Part | _Open]"
_OpenParts: TypeAlias = dict[tuple[str, str], _Open]


def gather(parts: Iterable[AnyPart]) -> tuple[Part, ...]:
    """The whole parts that a stream amounts to; parts that are whole already pass through.

    Every delta is looked at once and every text joined once, so the work grows with the length of the stream and no
    faster. Text that was never ended, as when a stream is cut, is kept as far as it came. Parameters whose call never
    came are kept as a call that cannot be run, with the text in `params_text`. Preliminary results are dropped. A
    repaired call takes the place of the call that it stands for.
    """
    # By `type` and a table, not by class patterns: those cost several times as much on a Struct, for every part.
    parts = tuple(parts)
    for part in parts:
        if part.__class__ in _FAMILY or (part.type == "tool-result" and part.preliminary):
            break
        if part.type == "tool-call" and part.repaired:
            break
    else:
        return cast("tuple[Part, ...]", parts)
    places: _Places = []
    open_parts: _OpenParts = {}
    calls: dict[str, int] = {}  # where each call of this turn is
    for part in parts:
        if part.__class__ in _FAMILY:
            _join(cast("_Start | _Delta | _End", part), places, open_parts)
        elif part.type == "tool-call":
            _place_call(part, places, open_parts, calls)
        elif part.type != "tool-result" or not part.preliminary:
            if part.type == "finish":
                calls.clear()
            places.append(cast("Part", part))
    for place, item in enumerate(places):
        if isinstance(item, _Open):
            places[place] = _whole(item)
    return cast("tuple[Part, ...]", tuple(places))


def _join(piece: _Start | _Delta | _End, places: _Places, open_parts: _OpenParts) -> None:
    """Add a piece to the part that it belongs to; one without a start, as in a stream joined late, begins a part."""
    key = _FAMILY[piece.__class__], piece.id
    opened = open_parts.get(key)
    match piece.type:
        case "text-delta" | "reasoning-delta" | "tool-params-delta":
            if opened is None:
                opened = open_parts[key] = _Open(*key, len(places))
                places.append(opened)
            opened.deltas.append(piece.delta)
            if piece.metadata:
                opened.metadata = merge_metadata(opened.metadata, piece.metadata)
        case "text-end" | "reasoning-end" | "tool-params-end":
            if opened is not None and piece.metadata:
                opened.metadata = merge_metadata(opened.metadata, piece.metadata)
            if piece.type != "tool-params-end":  # the call itself is still to come, and takes this place
                open_parts.pop(key, None)
        case _:
            opened = open_parts[key] = _Open(*key, len(places), piece.metadata)
            places.append(opened)
            if piece.type == "tool-params-start":
                opened.name, opened.dynamic = piece.name, piece.dynamic
                opened.provider_executed = piece.provider_executed


def _place_call(call: ToolCall, places: _Places, open_parts: _OpenParts, calls: dict[str, int]) -> None:
    """Put a call in the place of its pieces, or of the call that it repairs; else behind all."""
    opened = open_parts.pop(("tool-params", call.id), None)
    place = opened.place if opened is not None else calls.get(call.id) if call.repaired else None
    if place is None:
        calls[call.id] = len(places)
        places.append(call)
        return
    calls[call.id] = place
    if earlier := places[place].metadata:
        call = msgspec.structs.replace(call, metadata=merge_metadata(earlier, call.metadata))
    places[place] = call


def _whole(part: _Open) -> Part:
    text = "".join(part.deltas)
    if part.family == "text":
        return Text(text, metadata=part.metadata)
    if part.family == "reasoning":
        return Reasoning(text, metadata=part.metadata)
    return ToolCall(part.id, part.name, None, part.provider_executed, part.dynamic, text, metadata=part.metadata)


def fold(parts: Iterable[AnyPart]) -> tuple[Message, ...]:
    """The messages that the parts of one response, or of several in a row, leave in the history.

    A turn ends with its `Finish`. Its assistant message holds, in order, its texts, reasoning, files, calls, approval
    requests and the results of tools that the provider ran; the tool message after it holds the results of its other
    calls. Requests and results are in the order of their calls, in whatever order they came. Results of calls made in
    an earlier turn come first, in a tool message of their own, right after that turn. Results are kept as encoded,
    preliminary ones dropped. Metadata stays with its part. Sources, warnings, errors and the provider's data about the
    response are no part of the conversation; nor is an empty text that carries nothing.
    """
    messages: list[Message] = []
    content: list[AssistantContent] = []
    results: list[ToolResultPart] = []
    finished = False
    for part in gather(parts):
        made = _content_of(part)
        if made is None:
            finished = finished or part.type == "finish"
        elif made.type == "tool-result" and not made.provider_executed:
            results.append(made)
        else:
            if finished:
                _end_turn(messages, content, results)
                content, results, finished = [], [], False
            content.append(made)
    _end_turn(messages, content, results)
    return tuple(messages)


def _end_turn(messages: list[Message], content: list[AssistantContent], results: list[ToolResultPart]) -> None:
    """Add the messages of one turn: results of earlier calls, the model's message, results of its own calls."""
    calls: dict[str, int] = {}  # the place of each call by its id: the first one, where several have it
    requests: list[ToolApprovalRequestPart] = []
    for part in content:
        if part.type == "tool-call":
            calls.setdefault(part.id, len(calls))
        elif part.type == "tool-approval-request":
            requests.append(part)
    own = [result for result in results if result.id in calls]
    if len(own) < len(results):
        early = [result for result in results if result.id not in calls]
        messages.append(ToolMessage(tuple(early)))
    if content:
        if len(requests) > 1:  # each where one stood, in the order of the calls
            ordered = iter(sorted(requests, key=lambda part: calls.get(part.tool_call_id, -1)))
            content = [next(ordered) if part.type == "tool-approval-request" else part for part in content]
        messages.append(AssistantMessage(tuple(content)))
    if own:
        if len(own) > 1:
            own.sort(key=lambda result: calls[result.id])
        messages.append(ToolMessage(tuple(own)))


def _content_of(part: Part) -> AssistantContent | None:
    """What a part of a response is in the history; None where it leaves nothing there."""
    match part.type:
        case "text":
            return TextPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "reasoning":
            return ReasoningPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "tool-call":
            return _call_part(part)
        case "tool-result":
            return ToolResultPart(
                part.id,
                part.name,
                part.encoded_result,
                part.is_failure,
                part.provider_executed,
                part.dynamic,
                metadata=part.metadata,
            )
        case "tool-approval-request":
            return ToolApprovalRequestPart(
                part.approval_id, part.tool_call_id, part.digest, part.expires, part.signature, metadata=part.metadata
            )
        case "file":
            return FilePart(part.media_type, part.data, part.file_name, metadata=part.metadata)
        case _:
            return None


def _call_part(part: ToolCall) -> ToolCallPart:
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
