"""Responses: the whole answer of a model, as a value.

>>> from fxai.messages.part import Finish, TextDelta, TextStart
>>> response = Response.from_stream([TextStart("1"), TextDelta("1", "Hel"), TextDelta("1", "lo"), Finish("stop")])
>>> response.text, response.finish_reason
('Hello', 'stop')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count
from typing import Any, TypeVar, final

import msgspec
from returns.result import Result

from fxai.messages.accumulate import gather
from fxai.messages.calls import Pending, pending_in
from fxai.messages.part import (
    AnyPart,
    ApprovalRequest,
    ErrorPart,
    File,
    FinishReason,
    Part,
    PrefixBreak,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamPart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    Usage,
    WarningPart,
)
from fxai.messages.reason import ContentPolicyError
from fxai.messages.wire import HISTORY_LIMITS, parts_from_data, parts_from_json, parts_to_data, parts_to_json
from fxai.schema.fault import DecodeFailure
from fxai.schema.parsing import Limits

_A = TypeVar("_A")


@final
class Response(msgspec.Struct, frozen=True):
    """A model's whole answer to one request, with the results of its calls once they are there.

    Attributes:
        content: The parts, in the order in which they started.
    """

    content: tuple[Part, ...] = ()

    @staticmethod
    def from_stream(parts: Iterable[AnyPart]) -> Response:
        """The response that a stream amounts to, in time that grows with its length.

        Pieces are joined by id, each part at the place where it started. A stream that was cut gives what came: text
        as far as it goes, and a call whose parameters broke off as one that cannot be run. Preliminary results are
        dropped.
        """
        return Response(gather(parts))

    @property
    def text(self) -> str:
        """The texts, joined; empty if there are none."""
        return "".join(part.text for part in self.content if part.type == "text")

    @property
    def reasoning_text(self) -> str | None:
        """The reasoning, joined; None if there is none."""
        texts = [part.text for part in self.content if part.type == "reasoning"]
        return "".join(texts) if texts else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order."""
        return tuple(part for part in self.content if part.type == "tool-call")

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The final results in the order of their calls; before them those of calls made in an earlier turn."""
        places = {call.id: place for place, call in enumerate(self.tool_calls)}
        final = (part for part in self.content if part.type == "tool-result" and not part.preliminary)
        return tuple(sorted(final, key=lambda result: places.get(result.id, -1)))

    @property
    def approval_requests(self) -> tuple[ApprovalRequest, ...]:
        """The approval requests, in order."""
        return tuple(part for part in self.content if part.type == "tool-approval-request")

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The open calls, in order: those that wait for an approval, and those whose results come from outside."""
        return pending_in(self.content)

    @property
    def files(self) -> tuple[File, ...]:
        """The files that the model made, in order."""
        return tuple(part for part in self.content if part.type == "file")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of the answer, in order."""
        return tuple(part for part in self.content if part.type == "source")

    @property
    def warnings(self) -> tuple[WarningPart, ...]:
        """The warnings, in order: what was asked for and not done."""
        return tuple(part for part in self.content if part.type == "warning")

    @property
    def errors(self) -> tuple[ErrorPart, ...]:
        """The errors that the provider reported in the middle of its answer, in order."""
        return tuple(part for part in self.content if part.type == "error")

    @property
    def finish_reason(self) -> FinishReason:
        """Why the turn ended; "unknown" without a `Finish`."""
        reasons: list[FinishReason] = [part.reason for part in self.content if part.type == "finish"]
        return reasons[-1] if reasons else "unknown"

    @property
    def refusal(self) -> ContentPolicyError | None:
        """The reason of a refusal: the words of the model or of the provider. None if the model did not refuse."""
        return _last(part.refusal for part in self.content if part.type == "finish")

    @property
    def usage(self) -> Usage:
        """The tokens that were used; all unknown without a `Finish`."""
        return sum((part.usage for part in self.content if part.type == "finish"), Usage())

    @property
    def id(self) -> str | None:
        """The provider's id of the response; None if it gave none."""
        return _last(part.id for part in self.content if part.type == "response-metadata")

    @property
    def model(self) -> str | None:
        """The model that answered, by the provider's name; None if it gave none."""
        return _last(part.model for part in self.content if part.type == "response-metadata")

    @property
    def timestamp(self) -> datetime | None:
        """When it answered, by the provider's clock; None if it gave no time."""
        return _last(part.timestamp for part in self.content if part.type == "response-metadata")

    @property
    def prefix_break(self) -> PrefixBreak | None:
        """Return the reason why the request did not extend the previous one, or None if the request extended it."""
        for part in self.content:
            if part.type == "response-metadata" and part.prefix_break is not None:
                return part.prefix_break
        return None

    def to_stream(self) -> Iterator[StreamPart]:
        """The response as stream parts, as `stream_of` gives them: `from_stream` makes it whole again."""
        return stream_of(self.content)

    def to_data(self) -> list[dict[str, Any]]:
        """The parts as plain JSON data; results in their encoded form.

        Raises:
            MessageError: A payload (parameters, a result, metadata) is no JSON data; the message names it.
        """
        return parts_to_data(self.content)

    def to_json(self) -> str:
        """The parts as JSON text, in the form of `to_data`."""
        return parts_to_json(self.content)

    @staticmethod
    def from_data(data: object) -> Result[Response, DecodeFailure]:
        """The response that plain JSON data holds.

        Fails with:
            DecodeFailure: An unknown kind of part, an unknown field or a wrong type, each by JSON pointer.
        """
        return parts_from_data(data).map(Response)

    @staticmethod
    def from_json(text: str | bytes, limits: Limits = HISTORY_LIMITS) -> Result[Response, DecodeFailure]:
        """The response that JSON text holds, of at most 1 GiB and 256 levels unless `limits` says otherwise.

        Fails with:
            DecodeFailure: As `from_data`, and what is not JSON or beyond the limits.
        """
        return parts_from_json(text, limits).map(Response)


def stream_of(parts: Iterable[Part]) -> Iterator[StreamPart]:
    """The stream parts of whole parts: texts, reasoning and the parameters of calls as start, one delta and end.

    Metadata of a text or of reasoning goes with its end, as providers send signatures. Ids are counted up from "0".

    >>> from fxai.messages.part import Finish
    >>> [part.type for part in stream_of([Text("Hello"), Finish("stop")])]
    ['text-start', 'text-delta', 'text-end', 'finish']
    """
    ids = map(str, count())
    for part in parts:
        match part:
            case Text(text=text, metadata=metadata):
                name = next(ids)
                yield from (TextStart(name), TextDelta(name, text), TextEnd(name, metadata=metadata))
            case Reasoning(text=text, metadata=metadata):
                name = next(ids)
                yield from (ReasoningStart(name), ReasoningDelta(name, text), ReasoningEnd(name, metadata=metadata))
            case ToolCall(id=name):
                yield ToolParamsStart(name, part.name, part.provider_executed, part.dynamic)
                yield ToolParamsDelta(name, _params_text(part))
                yield from (ToolParamsEnd(name), part)
            case _:
                yield part


def _last(values: Iterable[_A | None]) -> _A | None:
    return next((value for value in reversed(list(values)) if value is not None), None)


def _params_text(call: ToolCall) -> str:
    return msgspec.json.encode(call.params).decode() if call.params_text is None else call.params_text
