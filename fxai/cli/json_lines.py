"""JSON lines: each part of a run as an object in a line, then a closing object; or the answer alone.

>>> import io
>>> from fxai.messages.part import Finish
>>> stdout = io.StringIO()
>>> JsonLines(stdout).part(Finish("stop"), turn=1)
>>> print(stdout.getvalue(), end="")
{"turn":1,"type":"finish","reason":"stop"}
"""

from __future__ import annotations

import base64
from typing import Any, TextIO, final

import msgspec

from fxai.cli.summary import Summary
from fxai.messages.part import StreamPart, ToolResult
from fxai.schema.display import clean, json_line

__all__ = ["AnswerOnly", "JsonLines"]


@final
class JsonLines:
    """Each part as a JSON object in a line, with the turn that it belongs to; a closing object of type `done`."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    def begin(self, agent: str, prompt: str) -> None:
        """Nothing."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Writes a part; a tool result as the model reads it."""
        self._write({"turn": turn, **_data(part)})

    def end(self, summary: Summary) -> None:
        """Writes the closing object."""
        self._write(summary.to_data())

    def _write(self, data: dict[str, Any]) -> None:
        self._out.write(json_line(data))
        self._out.flush()


@final
class AnswerOnly:
    """Nothing but the text of the last turn."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    def begin(self, agent: str, prompt: str) -> None:
        """Nothing."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Nothing."""

    def end(self, summary: Summary) -> None:
        """Writes the answer, if there is one."""
        if summary.trouble is None:
            self._out.write(clean(summary.text.rstrip("\n")) + "\n")
            self._out.flush()


def _data(part: StreamPart) -> dict[str, Any]:
    if not isinstance(part, ToolResult):
        data: dict[str, Any] = msgspec.to_builtins(part, enc_hook=_other)
        return data
    told = msgspec.structs.replace(part, result=None)
    data = msgspec.to_builtins(told)
    data["result"] = data.pop("encoded_result")
    return data


def _other(value: object) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
