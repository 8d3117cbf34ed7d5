"""Summaries: turns, tokens, time and result of a run.

>>> print(Summary(turns=2, usage=Usage(400, 12), seconds=3.04, text="42").line)
2 turns · 400 tokens in, 12 out · 3.0 s
"""

from __future__ import annotations

from typing import Any, final

import msgspec

from fxai.cli.cli_error import CliError
from fxai.messages.calls import Pending, pending_in
from fxai.messages.part import AnyPart, StreamPart, Usage

__all__ = ["Record", "Summary"]


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
        if self.trouble is not None:
            data["error"] = {"message": self.trouble.message, "remedy": self.trouble.remedy}
        return data


@final
class Record:
    """Counts the parts of a run as they pass by."""

    def __init__(self) -> None:
        self.turns = 0
        self.usage = Usage()
        self.finish_reason: str | None = None
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
        )
