"""Outputs: the typed answer of a run, read from the text of a turn.

>>> from fxai.messages.part import Finish, Text
>>> wrong = Wrong(Response((Text('{"n": "three"}'), Finish("stop"))), DecodeFailure((Fault("/n", "int", "str"),)))
>>> print(wrong.correction.content[0].text)
Your answer does not fit the form that was asked for:
- /n: expected int, found str
Answer again, in that form alone.
"""

from __future__ import annotations

from typing import Any, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.messages.errors import AiError, StructuredOutputError
from fxai.messages.message import TextPart, UserMessage
from fxai.messages.response import Response
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure, Fault

__all__ = ["Wrong", "read_output"]

_NO_TEXT = DecodeFailure((Fault("", "JSON", "no text"),))


@final
class Wrong(msgspec.Struct, frozen=True, eq=False):
    """An answer that does not fit, and why."""

    response: Response
    failure: DecodeFailure

    @property
    def correction(self) -> UserMessage:
        """What the model is told of it: every fault."""
        faults = "\n".join([f"- {fault}" for fault in self.failure.faults])
        said = f"Your answer does not fit the form that was asked for:\n{faults}\nAnswer again, in that form alone."
        return UserMessage((TextPart(said),))

    @property
    def error(self) -> AiError:
        """What the run fails with when it is not asked again."""
        results = tuple(
            {"id": r.id, "name": r.name, "result": r.encoded_result, "is_failure": r.is_failure}
            for r in self.response.tool_results
        )
        text, pointer = self.response.text, self.failure.faults[0].pointer
        reason = StructuredOutputError(text=text, pointer=pointer, description=str(self.failure), tool_results=results)
        return AiError("Agent", "execute", reason)


def read_output(response: Response, schema: Schema[Any]) -> Result[Any, Wrong]:
    """The value that the text of a turn holds, or what is wrong with it."""
    text = response.text
    read: Result[Any, DecodeFailure] = schema.decode_json(text) if text.strip() else Failure(_NO_TEXT)
    return read if isinstance(read, Success) else Failure(Wrong(response, read.failure()))
