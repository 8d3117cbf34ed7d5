"""The screen shows a run to people while it happens. Use `TerminalScreen` for a terminal, or for a file without color.

Use `Spinner` and `LoadProgress` while the user waits. In outputs that are not terminals, they write at most one line.

>>> import sys
>>> from fxai.messages.part import Finish
>>> record = Record(TerminalScreen(sys.stdout))
>>> record.part(Finish("stop", Usage(400, 12)))
Turn 1
>>> record.line
'1 turn · 400 tokens in, 12 out · 0.0 s'
"""

from __future__ import annotations

import base64
import os
import re
import textwrap
import time
from collections.abc import Sequence
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast, final

import msgspec
from typing_extensions import override

from fxai.agents.state import PromptState, StateError
from fxai.cli.exit import INTERRUPTED, CliError, Outlet
from fxai.cli.picture import picture_codes, picture_protocol
from fxai.cli.run_program import is_server_failure
from fxai.messages import AnyPart, File, FileUrl, Pending, StreamPart, ToolCall, ToolResult, Usage
from fxai.messages.calls import pending_in
from fxai.schema.display import clean, in_line, json_line, one_line, quote_name
from fxai.tools import OutcomeUnknown
from fxai.tools.tool_error import Unanswered

if TYPE_CHECKING:
    from rich.console import Console

    from fxai.providers.local import Progress


class Presenter:
    """A view of a run while it happens. By default, it shows nothing."""

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


class JsonLines(Presenter):
    """A presenter that writes each part with the number of its turn as JSON, and a closing object of type `done`."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    @override
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

    @override
    def end(self, run: Record) -> None:
        self._write(run.to_data())

    def _write(self, data: dict[str, Any]) -> None:
        self._out.write(json_line(data))


@final
class AnswerOnly(Presenter):
    """A presenter that writes only the text of the last turn."""

    def __init__(self, stdout: TextIO) -> None:
        self._out = stdout

    @override
    def end(self, run: Record) -> None:
        if run.trouble is None:
            self._out.write(clean(run.text.rstrip("\n")) + "\n")


_PIECE: Final = re.compile(r"\n|[^\S\n]*[^\s]+|[^\S\n]+")
_REASONS: Final = {"length": "it reached the token limit", "content-filter": "the provider's filter stopped it"}


def console(file: TextIO, color: bool | None = None) -> Console:
    """Return a console that writes styled text and cleans it.

    By default, the console uses color only if `file` is a terminal with color. `color` overrides this choice.
    The console honors `NO_COLOR`, `FORCE_COLOR`, and `TERM=dumb`. Without color, it writes no escape codes.
    """
    from rich.console import Console

    class Cleaned(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(clean(each) if isinstance(each, str) else each for each in objects), **options)

    if color is None and os.environ.get("NO_COLOR"):
        color = False
    plain, there = color is False, cast(object, file)
    return Cleaned(
        file=there.styled if isinstance(there, Outlet) else file,
        force_terminal=color or None,
        color_system=None if plain else "auto",
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return each row as a line, with aligned columns."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, wide)).rstrip() for row in rows]


class TerminalScreen(Presenter):
    """A presenter that shows each part as it arrives."""

    def __init__(self, stdout: TextIO, *, color: bool | None = None, numbered: bool = True) -> None:
        """Write to `stdout`. If `numbered` is true, each turn starts with its number."""
        self._out = console(stdout, color)
        self._file = stdout
        self._numbered = numbered
        self._turn = 0
        self._open: str | None = None
        self._width: int | None = None
        self._column = 0
        self._spaced = False
        self._names: dict[str, str] = {}

    @override
    def start(self, agent: str, prompt: str) -> None:
        if self._turn:
            self._print()
        self._turn = 0
        self._print(f"{one_line(agent)} ", "bold", end="")
        self._print(one_line(prompt, 400))

    @override
    def part(self, part: StreamPart, turn: int) -> None:
        # read for each part, because the user can resize the terminal
        self._width = self._out.width - 1 if self._out.is_terminal else None
        if turn != self._turn:
            self._turn = turn
            if self._numbered:
                self._print(f"Turn {turn}", "dim")
        self._show_part(part)
        if part.type == "finish":
            self._names.clear()  # some models reuse the ids of calls in each turn

    @override
    def end(self, run: Record) -> None:
        stopped = run.trouble is not None and run.trouble.code == INTERRUPTED
        if stopped and self._width and self._open is None:
            self._print()  # the terminal wrote ^C on the current line
        self.end_line()
        if run.turns:
            self._print(run.line, "dim")

    def _show_part(self, part: StreamPart) -> None:
        match part.type:
            case "text-delta":
                self._flow(part.id, part.delta, "")
            case "reasoning-delta":
                self._flow(part.id, part.delta, "dim italic")
            case "tool-params-start":
                self.end_line()
                self._print("  → ", "cyan", end="")
                self._print(f"{quote_name(part.name)} ", "bold cyan", end="")
                self._column = len(quote_name(part.name)) + 5
                self._open = part.id
                self._names[part.id] = part.name
            case "tool-params-delta":
                self._flow(part.id, part.delta, "cyan")
            case "text-end" | "reasoning-end" | "tool-params-end":
                self.end_line()
            case "tool-call":
                self._show_call(part)
            case "tool-result":
                self._show_result(part)
            case _:
                self._note(part)

    def _note(self, part: StreamPart) -> None:
        match part.type:
            case "warning":
                self._line("!", f"warning: {part.message}", "yellow")
            case "error":
                self._line("!", part.error.message, "red")
            case "file":
                self._show_file(part)
            case "source":
                self._line("+", f"source {part.title or part.url or part.id}", "")
            case "tool-approval-request":
                waiting = self._names.get(part.tool_call_id, part.tool_call_id)
                self._line("?", f"{waiting} needs an approval", "yellow")
            case "finish" if part.reason not in ("stop", "tool-calls", "pending"):
                self._line("!", f"the turn ended early: {_REASONS.get(part.reason, part.reason)}", "yellow")
            case _:
                pass

    # -- parts in pieces: text, and the arguments of calls

    def _flow(self, id_: str, delta: str, style: str) -> None:
        if self._open != id_:
            self.end_line()
            self._print("  ", end="")
            self._column = 2
            self._open = id_
        self._print("".join(self._wrap(piece) for piece in _PIECE.findall(clean(delta))), style, end="")

    def _wrap(self, piece: str) -> str:
        """Return a word with the space before it, on a new line if it does not fit into the terminal."""
        full = self._width is not None and self._column + len(piece) > self._width
        if piece == "\n" or (full and (self._spaced or piece[0].isspace())):
            self._column = 0
            piece = "\n  " + piece.lstrip()
        self._column += len(piece.lstrip("\n"))
        self._spaced = piece[-1].isspace()
        return piece

    def end_line(self) -> None:
        """End an open line of text before other output."""
        if self._open is not None:
            self._open = None
            self._print()

    # -- whole parts

    def _show_call(self, call: ToolCall) -> None:
        if call.id in self._names and not call.repaired:
            return
        self._names[call.id] = call.name
        self.end_line()
        self._print("  → ", "cyan", end="")
        self._print(f"{quote_name(call.name)} ", "bold cyan", end="")
        self._print(clean(_compact(call.params if call.params_text is None else call.params_text)), "cyan", end="")
        self._print("  (repaired)" if call.repaired else "", "dim")

    def _show_result(self, result: ToolResult) -> None:
        text = _compact(result.encoded_result)
        if result.preliminary:
            self._line("…", f"{result.name} {text}", "dim")
        elif isinstance(result.result, OutcomeUnknown):
            self._line("✗", str(result.result), "yellow")
        elif isinstance(result.result, Unanswered):
            self._line("✗", f"{result.name} did not run: {result.result}", "yellow")
        elif is_server_failure(result.result):
            self._line("✗", str(result.result), "red")
        elif result.is_failure:
            failure = result.result
            kind = "" if isinstance(failure, str | dict | None) else f"{type(failure).__name__}: "
            self._line("✗", f"{result.name} failed: {kind}{text}", "red")
        else:
            self._line("←", f"{result.name} {text}", "green")

    def _show_file(self, file: File) -> None:
        """Show a line about a file, and its picture if the terminal supports pictures."""
        about = file.media_type if isinstance(file.data, FileUrl) else f"{file.media_type}, {len(file.data):,} bytes"
        self._line("+", f"file {file.file_name} ({about})" if file.file_name else f"file {about}", "")
        protocol = picture_protocol(os.environ) if self._width and self._out.color_system is not None else None
        if protocol is None or self._width is None or not isinstance(file.data, bytes):
            return
        codes = picture_codes(file.data, protocol, self._width - 4)
        if codes is not None:
            self._out.file.write(f"    {codes}\n")
            self._file.flush()

    def _line(self, sign: str, text: str, style: str) -> None:
        self.end_line()
        line = one_line(text, 800)
        if self._width:
            line = textwrap.fill(line, max(20, self._width - 4), subsequent_indent="    ", break_on_hyphens=False)
        self._print(f"  {sign} {line}", style)

    def _print(self, text: str = "", style: str = "", *, end: str = "\n") -> None:
        self._out.print(text, style=style or None, end=end)
        self._file.flush()


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else in_line(value)


@final
class Spinner:
    """A spinner that runs during its block. Other output stays readable."""

    def __init__(self, stderr: TextIO, what: str, *, patience: float = 0.7) -> None:
        self._stderr = stderr
        self._what = what
        self._lock = Lock()
        self._timer = Timer(patience, self._show)
        self._timer.daemon = True
        self._status: Any = None
        self._over = False

    def __enter__(self) -> Self:
        if self._stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _show(self) -> None:
        from rich.text import Text

        with self._lock:
            if not self._over:
                self._status = console(self._stderr).status(Text(f"{one_line(self._what)} …"))
                self._status.start()

    def end(self) -> None:
        """Remove the spinner."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
                self._status = None


@final
class LoadProgress:
    """A view of progress during its block. Any thread can report progress."""

    def __init__(self, stderr: TextIO, *, color: bool | None = None, quiet: bool = False) -> None:
        self._stderr = stderr
        self._quiet = quiet
        self._color = color
        self._stage: str | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._stderr.isatty() and not self._quiet:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

            columns = (TextColumn("[dim]{task.description}"), BarColumn(bar_width=30), DownloadColumn())
            self._bar = Progress(*columns, console=console(self._stderr, self._color), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __call__(self, progress: Progress) -> None:
        """Show `progress`."""
        began = progress.stage != self._stage
        self._stage = progress.stage
        if self._bar is None:
            if began and not self._quiet:
                self._stderr.write(f"fxai: {progress.stage} the model, {progress.total / 1_000_000:.0f} MB\n")
            return
        if began:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{progress.stage} the model", total=progress.total)
        self._bar.update(self._task, completed=progress.done)

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
