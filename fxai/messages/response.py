"""Responses: the whole answer from a model as a value. Use a response to read its text, calls, and usage.

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
from fxai.messages.wire import HISTORY_LIMITS, PARTS, part_to_data
from fxai.schema.fault import DecodeFailure
from fxai.schema.parsing import Limits

_A = TypeVar("_A")


@final
class Response(msgspec.Struct, frozen=True):
    """The whole answer of a model to a request, with the results of its calls after they ran."""

    content: tuple[Part, ...] = ()
    """The parts, in the order of their starts."""

    @staticmethod
    def from_stream(parts: Iterable[AnyPart]) -> Response:
        """Return the response of a stream, in time linear in its length.

        Pieces with the same id form a part, at the position of its start. If a stream was interrupted, the response
        contains the text so far, and a call with incomplete parameters as a call that cannot run. It contains no
        preliminary results.
        """
        return Response(gather(parts))

    @property
    def text(self) -> str:
        """The joined text parts. Empty if the response contains no text."""
        return "".join(part.text for part in self.content if part.type == "text")

    @property
    def reasoning_text(self) -> str | None:
        """The joined reasoning, or None."""
        texts = [part.text for part in self.content if part.type == "reasoning"]
        return "".join(texts) if texts else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order of the parts."""
        return tuple(part for part in self.content if part.type == "tool-call")

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The final results in the order of their calls. Results of calls in an earlier turn are first."""
        locations = {call.id: index for index, call in enumerate(self.tool_calls)}
        final = (part for part in self.content if part.type == "tool-result" and not part.preliminary)
        return tuple(sorted(final, key=lambda result: locations.get(result.id, -1)))

    @property
    def approval_requests(self) -> tuple[ApprovalRequest, ...]:
        """The approval requests."""
        return tuple(part for part in self.content if part.type == "tool-approval-request")

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The open calls: calls that need an approval, and calls that need an external result."""
        return pending_in(self.content)

    @property
    def files(self) -> tuple[File, ...]:
        """The files that the model created."""
        return tuple(part for part in self.content if part.type == "file")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of the answer."""
        return tuple(part for part in self.content if part.type == "source")

    @property
    def warnings(self) -> tuple[WarningPart, ...]:
        """The warnings about requested features that the provider did not apply."""
        return tuple(part for part in self.content if part.type == "warning")

    @property
    def errors(self) -> tuple[ErrorPart, ...]:
        """The errors that the provider reported during its answer."""
        return tuple(part for part in self.content if part.type == "error")

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the turn ended. "unknown" without a `Finish`."""
        reasons: list[FinishReason] = [part.reason for part in self.content if part.type == "finish"]
        return reasons[-1] if reasons else "unknown"

    @property
    def refusal(self) -> ContentPolicyError | None:
        """The refusal with the words from the model or the provider, or None."""
        return _last(part.refusal for part in self.content if part.type == "finish")

    @property
    def usage(self) -> Usage:
        """The token usage. Its numbers are unknown without a `Finish`."""
        return sum((part.usage for part in self.content if part.type == "finish"), Usage())

    @property
    def id(self) -> str | None:
        """The provider's id of the response, or None."""
        return _last(part.id for part in self.content if part.type == "response-metadata")

    @property
    def model(self) -> str | None:
        """The provider's name of the model that answered, or None."""
        return _last(part.model for part in self.content if part.type == "response-metadata")

    @property
    def timestamp(self) -> datetime | None:
        """The time of the answer by the provider's clock, or None."""
        return _last(part.timestamp for part in self.content if part.type == "response-metadata")

    @property
    def prefix_break(self) -> PrefixBreak | None:
        """The reason why the request did not extend the previous request, or None if it did."""
        for part in self.content:
            if part.type == "response-metadata" and part.prefix_break is not None:
                return part.prefix_break
        return None

    def to_stream(self) -> Iterator[StreamPart]:
        """Return the response as stream parts, see `stream_of`. `from_stream` converts them back."""
        return stream_of(self.content)

    def to_data(self) -> list[dict[str, Any]]:
        """Return the parts as JSON values, with results in encoded form.

        Raises:
            MessageError: If a payload (parameters, a result, metadata) is not a JSON value. The message names it.
        """
        return [part_to_data(part) for part in self.content]

    def to_json(self) -> str:
        """Return the parts as a JSON string, in the form of `to_data`."""
        return msgspec.json.encode(self.to_data()).decode()

    @staticmethod
    def from_data(data: object) -> Result[Response, DecodeFailure]:
        """Return the response from JSON values.

        Fails with:
            DecodeFailure: If a part has an unknown kind, an unknown field, or a wrong type. It contains JSON pointers.
        """
        return PARTS.decode(data).map(Response)

    @staticmethod
    def from_json(text: str | bytes, limits: Limits = HISTORY_LIMITS) -> Result[Response, DecodeFailure]:
        """Return the response from a JSON string. Default limits: 1 GiB and 256 levels.

        Fails with:
            DecodeFailure: See `from_data`. Also if the string is not JSON or exceeds the limits.
        """
        return PARTS.decode_json(text, limits).map(Response)


def stream_of(parts: Iterable[Part]) -> Iterator[StreamPart]:
    """Yield the stream parts of whole parts. Texts, reasoning, and parameters become a start, one delta, and an end.

    The end contains the metadata of a text or of reasoning, because providers send signatures there. Ids count from
    "0".

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
                text = msgspec.json.encode(part.params).decode() if part.params_text is None else part.params_text
                yield ToolParamsDelta(name, text)
                yield from (ToolParamsEnd(name), part)
            case _:
                yield part


def _last(values: Iterable[_A | None]) -> _A | None:
    return next((value for value in reversed(list(values)) if value is not None), None)
