r"""Partial objects: a typed answer while the model writes it. `LanguageModel.stream_object` uses this module.

>>> from fxai.messages.part import TextDelta, TextStart
>>> reader = AnswerReader(Schema.of(list[int]))
>>> pieces = (TextStart("0"), TextDelta("0", "```json\n[1, "), TextDelta("0", "2, 3"), TextDelta("0", ']\n```'))
>>> [reader.value for piece in pieces if reader.read(piece)]
[[1], [1, 2], [1, 2, 3]]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, final

import msgspec
from returns.result import Success
from typing_extensions import TypeVar

from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart, TextDelta
from fxai.messages.reason import StructuredOutputError
from fxai.messages.response import Response
from fxai.messages.think_tag import ThinkTags
from fxai.models.structured_output import json_texts
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.schema.parsing import parse_json
from fxai.schema.partial_json import JsonReader

_V_co = TypeVar("_V_co", covariant=True)

_SPACE: Final = "\ufeff \t\r\n"
_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})[ \t]*[\w.+-]*[ \t]*\n?")
_LONGEST_LEAD: Final = 200  # maximum number of characters of a fence


@final
class ObjectPart(msgspec.Struct, Generic[_V_co], frozen=True, eq=False):
    """A state of a typed answer that grows. The partial of each part is a beginning of the next partial."""

    read: Callable[[], Any]
    """Returns the partial. `partial` calls it."""
    value: _V_co | None = None
    """The typed value in the last part of the stream, otherwise None."""
    response: Response | None = None
    """The turn with the results of its calls in the last part of the stream, otherwise None."""

    @property
    def partial(self) -> Any:
        """The JSON value so far, or `msgspec.UNSET` if only the last part has one.

        Strings and arrays grow at their end, objects gain members, and numbers appear when they are complete. Each
        complete member satisfies its schema. Each access assembles the value in time proportional to its open objects,
        arrays, and strings. Parts share complete members, so do not change them.
        """
        return self.read()


@final
class AnswerReader:
    """A reader of the parts of a turn for the JSON of its answer.

    It reads the JSON at the start of the text, also after reasoning in tags, a byte order mark, or the start of a
    fenced block. JSON at another position has no partial values.
    """

    def __init__(self, schema: Schema[Any]) -> None:
        self._schema = schema
        self._json = JsonReader(schema.document)
        self._tags = ThinkTags("fxai")
        self._texts: list[str] = []
        self._lead: str | None = ""  # the text before the JSON, or None after its start

    @property
    def value(self) -> Any:
        """The JSON value so far, or `msgspec.UNSET`."""
        return self._json.value

    @property
    def at_present(self) -> Callable[[], Any]:
        """A function that returns the present value at any time."""
        return partial(self._json.at, self._json.version)

    def read(self, part: StreamPart) -> bool:
        """Read a part of the turn. Return whether the value grew."""
        before = self._json.version
        if part.type == "text-delta":
            self._texts.append(part.delta)
        for piece in self._tags.read(part):
            if isinstance(piece, TextDelta):
                self._read_text(piece.delta)
        return self._json.version > before

    def _read_text(self, text: str) -> None:
        if self._lead is None:
            self._json.feed(text)
            return
        self._lead += text
        rest = self._lead.lstrip(_SPACE)
        if rest[:1] in ("`", "~") and len(rest) <= _LONGEST_LEAD:
            fence = _FENCE.match(rest)
            rest = "" if fence is None else rest[fence.end() :].lstrip(_SPACE)
        if rest:
            self._lead = None
            self._json.feed(rest)

    def error(self, module: str, method: str) -> AiError | None:
        """Return the error of the first invalid member, with the text so far and the location, or None."""
        if not self._json.faults:
            return None
        failure = DecodeFailure(self._json.faults)
        pointer = failure.faults[0].pointer
        reason = StructuredOutputError(text="".join(self._texts), pointer=pointer, description=str(failure))
        return AiError(module, method, reason)

    def whole(self, text: str) -> Callable[[], Any]:
        """Return a function that returns the whole JSON value of the text of a valid answer."""
        if self._json.is_complete:
            return self.at_present
        text = next(one for one in json_texts(text) if isinstance(self._schema.decode_json(one), Success))
        return lambda: parse_json(text).unwrap()
