r"""Output of a run for other programs. Use `JsonLines` for all parts, and `AnswerOnly` for the answer.

`JsonLines` writes each part as one JSON object per line, and a closing object:

>>> import io
>>> from fxai.messages.part import Finish
>>> stdout = io.StringIO()
>>> JsonLines(stdout).part(Finish("stop"), turn=1)
>>> print(stdout.getvalue(), end="")
{"turn":1,"type":"finish","reason":"stop"}

>>> record = Record(AnswerOnly(stdout))
>>> record.part(Finish("stop", Usage(400, 12)))
>>> record.line
'1 turn · 400 tokens in, 12 out · 0.0 s'
"""

from __future__ import annotations

import base64
import time
from typing import Any, Protocol, TextIO, final

import msgspec

from fxai.agents.state import PromptState, StateError
from fxai.cli.exit import CliError
from fxai.messages import AnyPart, Pending, StreamPart, ToolResult, Usage
from fxai.messages.calls import pending_in
from fxai.schema.display import clean, json_line


class Presenter(Protocol):
    """A view of a run while it happens."""

    def start(self, agent: str, prompt: str) -> None:
        """Show the start of a run."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Show a part of this turn."""

    def end(self, run: Record) -> None:
        """Show the end of a successful or failed run."""


@final
class Record:
    """A counter of the turns, tokens, and results of runs. It passes on each part to a presenter."""

    def __init__(self, presenter: Presenter) -> None:
        self._presenter = presenter
        self._reset()

    def _reset(self) -> None:
        self.turns: int = 0
        self.usage: Usage = Usage()
        self.seconds: float = 0.0
        self.finish_reason: str | None = None
        self.trouble: CliError | None = None
        """The error of a failed run."""
        self.state: PromptState | None = None
        """The state of the stateful prompt after a successful run."""
        self._since = time.monotonic()
        self._in_turn = False
        self._text: list[str] = []
        self._calls: list[AnyPart] = []

    def start(self, agent: str, prompt: str) -> None:
        """Start a run."""
        self._reset()
        self._presenter.start(agent, prompt)

    def part(self, part: StreamPart) -> None:
        """Count a part, and pass it on with the number of its turn, from 1."""
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
        self._presenter.part(part, self.turns)

    @property
    def waiting(self) -> tuple[Pending, ...]:
        """The pending calls at the end of the run."""
        return pending_in(self._calls) if self.finish_reason == "pending" else ()

    @property
    def text(self) -> str:
        """The text of the last turn, which is the answer."""
        return "".join(self._text)

    def end(self, trouble: CliError | None = None) -> None:
        """End the run, with its error if it failed."""
        self.trouble = trouble
        self.seconds = time.monotonic() - self._since
        self._presenter.end(self)

    @property
    def line(self) -> str:
        """The turns, tokens, and time as one line."""
        turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
        tokens = [
            f"{number:,}{unit}"
            for number, unit in ((self.usage.input_tokens, " tokens in"), (self.usage.output_tokens, " out"))
            if number is not None
        ]
        return " · ".join(part for part in (turns, ", ".join(tokens), f"{self.seconds:.1f} s") if part)

    def to_data(self) -> dict[str, Any]:
        """Return the run as JSON values. They are the closing object of `--json`."""
        data: dict[str, Any] = {"type": "done", "ok": self.trouble is None, "answer": self.text}
        data |= {"finish_reason": self.finish_reason, "turns": self.turns}
        data |= {"usage": msgspec.to_builtins(self.usage), "seconds": round(self.seconds, 3)}
        if self.state is not None:
            data["state"] = state_data(self.state)
        if self.trouble is not None:
            data["error"] = {"message": self.trouble.message, "remedy": self.trouble.remedy}
        return data


def state_data(state: PromptState) -> dict[str, Any]:
    """Return the values as JSON values for display. A value that JSON cannot express becomes a string."""
    try:
        data: dict[str, Any] = state.to_data()["values"]
    except StateError:
        data = msgspec.to_builtins(dict(state.values), enc_hook=str)
    return data


class JsonLines:
    """A presenter that writes each part with the number of its turn as JSON, and a closing object of type `done`."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    def start(self, agent: str, prompt: str) -> None:
        """Write nothing."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Write a part. A tool result has the form that the model reads."""
        if isinstance(part, ToolResult):
            data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(part, result=None))
            data["result"] = data.pop("encoded_result")
        else:
            data = msgspec.to_builtins(
                part, enc_hook=lambda one: base64.b64encode(one).decode() if isinstance(one, bytes) else str(one)
            )
            if not part.metadata:
                data.pop("metadata", None)
        self._write({"turn": turn, **data})

    def end(self, run: Record) -> None:
        """Write the closing object."""
        self._write(run.to_data())

    def _write(self, data: dict[str, Any]) -> None:
        self._out.write(json_line(data))


@final
class AnswerOnly:
    """A presenter that writes only the text of the last turn."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    def start(self, agent: str, prompt: str) -> None:
        """Write nothing."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Write nothing."""

    def end(self, run: Record) -> None:
        """Write the answer of a successful run."""
        if run.trouble is None:
            self._out.write(clean(run.text.rstrip("\n")) + "\n")
