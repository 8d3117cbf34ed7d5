"""Accumulation: combine streamed parts to whole parts, and convert them to messages in the history.

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

# Ids are unique only within a family: text and reasoning can both have the id "0".
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
    """A part that arrives in pieces."""

    family: str
    id: str
    index: int  # the index among the parts in the response
    metadata: Mapping[str, Any] = {}
    name: str = ""
    provider_executed: bool = False
    dynamic: bool = False
    deltas: list[str] = []


_Indexes: TypeAlias = "list[Part | _Open]"
_OpenParts: TypeAlias = dict[tuple[str, str], _Open]


def gather(parts: Iterable[AnyPart]) -> tuple[Part, ...]:
    """Return the whole parts of a stream. Whole parts in the stream stay unchanged.

    The function reads each delta once and joins each text once, so that its time is linear in the length of the stream.
    After an interrupted stream, the result contains the text so far. Parameters without their call become a call that
    cannot run, with the text in `params_text`. The function drops preliminary results. A repaired call replaces the
    original call.
    """
    # by `type` and a table, because class patterns take several times as long on a Struct, for every part
    parts = tuple(parts)
    for part in parts:
        if part.__class__ in _FAMILY or (part.type == "tool-result" and part.preliminary):
            break
        if part.type == "tool-call" and part.repaired:
            break
    else:
        return cast("tuple[Part, ...]", parts)
    locations: _Indexes = []
    open_parts: _OpenParts = {}
    calls: dict[str, int] = {}  # the index of each call of this turn
    for part in parts:
        if part.__class__ in _FAMILY:
            _join(cast("_Start | _Delta | _End", part), locations, open_parts)
        elif part.type == "tool-call":
            _put_call(part, locations, open_parts, calls)
        elif part.type != "tool-result" or not part.preliminary:
            if part.type == "finish":
                calls.clear()
            locations.append(cast("Part", part))
    for index, item in enumerate(locations):
        if isinstance(item, _Open):
            locations[index] = _whole(item)
    return cast("tuple[Part, ...]", tuple(locations))


def _join(piece: _Start | _Delta | _End, locations: _Indexes, open_parts: _OpenParts) -> None:
    """Add a piece to its part. A piece without a start, as in a stream that the reader joined late, starts a part."""
    key = _FAMILY[piece.__class__], piece.id
    opened = open_parts.get(key)
    match piece.type:
        case "text-delta" | "reasoning-delta" | "tool-params-delta":
            if opened is None:
                opened = open_parts[key] = _Open(*key, len(locations))
                locations.append(opened)
            opened.deltas.append(piece.delta)
            if piece.metadata:
                opened.metadata = merge_metadata(opened.metadata, piece.metadata)
        case "text-end" | "reasoning-end" | "tool-params-end":
            if opened is not None and piece.metadata:
                opened.metadata = merge_metadata(opened.metadata, piece.metadata)
            if piece.type != "tool-params-end":  # the call itself follows and replaces the pieces
                open_parts.pop(key, None)
        case _:
            opened = open_parts[key] = _Open(*key, len(locations), piece.metadata)
            locations.append(opened)
            if piece.type == "tool-params-start":
                opened.name, opened.dynamic = piece.name, piece.dynamic
                opened.provider_executed = piece.provider_executed


def _put_call(call: ToolCall, locations: _Indexes, open_parts: _OpenParts, calls: dict[str, int]) -> None:
    """Replace the pieces of a call, or the call that it repairs. Otherwise append the call."""
    opened = open_parts.pop(("tool-params", call.id), None)
    index = opened.index if opened is not None else calls.get(call.id) if call.repaired else None
    if index is None:
        calls[call.id] = len(locations)
        locations.append(call)
        return
    calls[call.id] = index
    if earlier := locations[index].metadata:
        call = msgspec.structs.replace(call, metadata=merge_metadata(earlier, call.metadata))
    locations[index] = call


def _whole(part: _Open) -> Part:
    text = "".join(part.deltas)
    if part.family == "text":
        return Text(text, metadata=part.metadata)
    if part.family == "reasoning":
        return Reasoning(text, metadata=part.metadata)
    return ToolCall(part.id, part.name, None, part.provider_executed, part.dynamic, text, metadata=part.metadata)


def fold(parts: Iterable[AnyPart]) -> tuple[Message, ...]:
    """Return the messages for the history from the parts of a response or of multiple responses.

    A turn ends with its `Finish`. Its assistant message contains, in order, its text, reasoning, files, calls,
    approval requests, and the results of tools that the provider ran. The next tool message contains the results of its
    other calls. Requests and results have the order of their calls. Results of calls in an earlier turn are first,
    in a separate tool message directly after that turn. Results are in encoded form, without preliminary results.
    Parts keep their metadata. The messages contain no sources, warnings, errors, data from the provider about the
    response, or empty text parts without metadata.
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
    """Add the messages in a turn: results of earlier calls, the message from the model, and results of its calls."""
    calls: dict[str, int] = {}  # the position of each call by its id, or of the first call if calls share an id
    requests: list[ToolApprovalRequestPart] = []
    for part in content:
        if part.type == "tool-call":
            calls.setdefault(part.id, len(calls))
        elif part.type == "tool-approval-request":
            requests.append(part)
    own: list[ToolResultPart] = []
    early: list[ToolResultPart] = []
    for result in results:
        (own if result.id in calls else early).append(result)
    if early:
        messages.append(ToolMessage(tuple(early)))
    if content:
        if len(requests) > 1:  # sort the requests in the order of the calls
            ordered = iter(sorted(requests, key=lambda part: calls.get(part.tool_call_id, -1)))
            content = [next(ordered) if part.type == "tool-approval-request" else part for part in content]
        messages.append(AssistantMessage(tuple(content)))
    if own:
        if len(own) > 1:
            own.sort(key=lambda result: calls[result.id])
        messages.append(ToolMessage(tuple(own)))


def _content_of(part: Part) -> AssistantContent | None:
    """Return the content for the history from a part in a response, or None if the history does not contain it."""
    match part.type:
        case "text":
            return TextPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "reasoning":
            return ReasoningPart(part.text, metadata=part.metadata) if part.text or part.metadata else None
        case "tool-call":
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
