"""Lines that a user types or pipes, and the signals that end a command, without a terminal of their own."""

from __future__ import annotations

import signal
import threading
from io import StringIO
from typing import Any

import pytest

from fxai.cli.exit import CliError
from fxai.cli.input import PipedInput, TerminalInput, read_entry
from fxai.cli.run_program import BackgroundRunner
from fxai.effects import fx


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Shown(StringIO):
    """A stream with a buffer: the user sees its text once it is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def flush(self) -> None:
        """Show the text to the user."""
        self.seen = self.getvalue()


def _typed(text: str) -> tuple[TerminalInput, StringIO, Shown]:
    out, err = StringIO(), Shown()
    return TerminalInput(Terminal(text), out, err), out, err


def test_a_prompt_is_written_to_stderr_if_stdout_is_a_file() -> None:
    """A file or a pipe receives the answers only. The prompt is visible before the user types."""
    lines, out, err = _typed("first\nsecond\n")

    assert (lines.line("> "), lines.answer("Sure? ")) == ("first", "second")
    assert (out.getvalue(), err.seen) == ("", "> Sure? ")
    assert lines.by_person is True


def test_a_prompt_is_cleaned() -> None:
    """Control characters of a prompt do not arrive at the terminal."""
    lines, _, err = _typed("x\n")

    lines.line("\x1b[31mred\x07> ")

    assert "\x1b" not in err.getvalue()
    assert "\x07" not in err.getvalue()
    assert "red" in err.getvalue()


def test_the_end_of_the_input_is_none() -> None:
    """An empty line is an empty string, and the end of the file is None."""
    lines, _, _ = _typed("\nlast")

    assert [lines.line("> "), lines.line("> "), lines.line("> ")] == ["", "last", None]


@pytest.mark.parametrize("kind", ["typed", "piped"])
def test_a_line_can_be_put_back(kind: str) -> None:
    """The line is the next line again. fxai writes no prompt for it."""
    typed, _, err = _typed("one\ntwo\n")
    lines: Any = typed if kind == "typed" else PipedInput(["one\r\n", "two\n"])
    first = lines.line("> ")

    lines.back("again")
    lines.keep("nothing to keep")

    assert [first, lines.line("> "), lines.line("> "), lines.line("> ")] == ["one", "again", "two", None]
    assert err.getvalue() == ("> > > " if kind == "typed" else "")


def test_a_piped_input_is_not_a_person() -> None:
    """A program that reads a pipe does not ask for approvals."""
    assert PipedInput([]).by_person is False
    assert PipedInput([]).answer("Sure? ") is None


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("one\\\ntwo\nthree\n", ["one\ntwo", "three"]),
        ('"""\none\n\ntwo\n"""\nthree\n', ["one\n\ntwo", "three"]),
        ('"""\nno end', ["no end"]),
        ("no next\\\n", ["no next\n"]),
    ],
)
def test_an_entry_can_have_many_lines(text: str, entries: list[str]) -> None:
    """A backslash continues a line, and three quotation marks start and end a block."""
    lines = PipedInput(text.splitlines(keepends=True))

    assert list(iter(lambda: read_entry(lines), None)) == entries


@pytest.fixture
def default_signals() -> Any:
    """Signals with their default action, also if the runner of the tests handles them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "the terminal closed")],
)
def test_a_signal_ends_the_program_with_its_code(number: signal.Signals, code: int, said: str) -> None:
    """SIGTERM and SIGHUP raise an error in the main thread, and the finalizers of the program run."""
    finalized: list[str] = []

    with BackgroundRunner() as background:
        handler: Any = signal.getsignal(number)
        waiting = background.here(lambda: handler(number, None))
        program = waiting.ensuring(fx.sync(lambda: finalized.append("one")))
        with pytest.raises(CliError, match=said) as raised:
            background.value_of(program)

    assert raised.value.code == code
    assert finalized == ["one"]
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.usefixtures("default_signals")
def test_a_signal_that_the_program_handles_stays_its_own() -> None:
    """`nohup` ignores SIGHUP, and a program can handle SIGTERM. A command changes neither."""
    received: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    own = signal.getsignal(signal.SIGTERM)

    with BackgroundRunner():
        during = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)

    assert during == (own, signal.SIG_IGN)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == during


@pytest.mark.usefixtures("default_signals")
def test_another_thread_handles_no_signals() -> None:
    """Python accepts handlers in the main thread only, so a command in another thread changes none."""
    found: list[Any] = []

    def run() -> None:
        with BackgroundRunner() as background:
            found.extend([background.value_of(fx.succeed(1)), signal.getsignal(signal.SIGTERM)])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert found == [1, signal.SIG_DFL]
