r"""Output of a run for programs: JSON lines or the answer alone; and the summary of its turns, tokens, time and result.

Each part of a run is an object in a line, then comes a closing object:

>>> import io
>>> from fxai.messages.part import Finish
>>> stdout = io.StringIO()
>>> JsonLines(stdout).part(Finish("stop"), turn=1)
>>> print(stdout.getvalue(), end="")
{"turn":1,"type":"finish","reason":"stop"}

>>> print(Summary(turns=2, usage=Usage(400, 12), seconds=3.04, text="42").line)
2 turns · 400 tokens in, 12 out · 3.0 s
"""

from __future__ import annotations

import base64
from typing import Any, TextIO, final

import msgspec

from fxai.agents.state import PromptState
from fxai.cli.exit import CliError
from fxai.cli.state_file import state_data
from fxai.messages.calls import Pending, pending_in
from fxai.messages.part import AnyPart, StreamPart, ToolResult, Usage
from fxai.schema.display import clean, json_line


@final
class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run, with its turns, tokens and time."""

    turns: int
    usage: Usage
    seconds: float
    text: str
    """The text of the last turn: the answer."""
    finish_reason: str | None = None
    trouble: CliError | None = None
    state: PromptState | None = None
    """The state of a stateful prompt after it."""

    @property
    def line(self) -> str:
        """The summary in a line."""
        turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
        tokens = [
            f"{number:,}{unit}"
            for number, unit in ((self.usage.input_tokens, " tokens in"), (self.usage.output_tokens, " out"))
            if number is not None
        ]
        return " · ".join(part for part in (turns, ", ".join(tokens), f"{self.seconds:.1f} s") if part)

    def to_data(self) -> dict[str, Any]:
        """The summary as plain JSON data: the closing object of `--json`."""
        data: dict[str, Any] = {"type": "done", "ok": self.trouble is None, "answer": self.text}
        data |= {"finish_reason": self.finish_reason, "turns": self.turns}
        data |= {"usage": msgspec.to_builtins(self.usage), "seconds": round(self.seconds, 3)}
        if self.state is not None:
            data["state"] = state_data(self.state)
        if self.trouble is not None:
            data["error"] = {"message": self.trouble.message, "remedy": self.trouble.remedy}
        return data


@final
class Record:
    """Counts the parts of a run as they pass by."""

    def __init__(self) -> None:
        self.turns: int = 0
        self.usage: Usage = Usage()
        self.finish_reason: str | None = None
        self.state: PromptState | None = None
        """The state of a stateful prompt, when it has succeeded."""
        self._in_turn = False
        self._text: list[str] = []
        self._calls: list[AnyPart] = []

    def part(self, part: StreamPart) -> int:
        """Takes a part; gives the turn that it belongs to, from 1."""
        if not self._in_turn:
            self._in_turn = True
            self.turns += 1
            self._text = []
        if part.type == "text-delta":
            self._text.append(part.delta)
        elif part.type in ("tool-call", "tool-result", "tool-approval-request"):
            self._calls.append(part)
        elif part.type == "finish":
            self._in_turn = False
            self.usage = self.usage + part.usage
            self.finish_reason = part.reason
        return self.turns

    @property
    def waiting(self) -> tuple[Pending, ...]:
        """The calls that the run left open, where it ended so."""
        return pending_in(self._calls) if self.finish_reason == "pending" else ()

    def summary(self, seconds: float, trouble: CliError | None = None) -> Summary:
        """The summary of the parts so far."""
        return Summary(
            turns=self.turns,
            usage=self.usage,
            seconds=seconds,
            text="".join(self._text),
            finish_reason=self.finish_reason,
            trouble=trouble,
            state=self.state,
        )


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
        return data if part.metadata else {name: value for name, value in data.items() if name != "metadata"}
    bare = msgspec.structs.replace(part, result=None)
    data = msgspec.to_builtins(bare)
    data["result"] = data.pop("encoded_result")
    return data


def _other(value: object) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
