"""The pieces of the command line: progress, the screen in a narrow terminal, models by name."""

from __future__ import annotations

import io
import signal
import sys
import threading

import pytest
from returns.result import Failure
from typing_extensions import override

from fxai.cli.exit import CliError
from fxai.cli.input import read_stdin, wake_on_signal
from fxai.cli.run_program import BackgroundRunner
from fxai.cli.screen import LoadProgress, Spinner, TerminalScreen
from fxai.effects import fx
from fxai.messages import (
    AiError,
    Finish,
    ModelUnavailableError,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
)
from fxai.models import LanguageModel
from fxai.providers import from_name, openai, provider_names
from fxai.providers.local import Progress
from fxai.schema.display import one_line


class Terminal(io.StringIO):
    """A terminal that keeps what it was given."""

    @override
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_a_stage_where_it_is_piped() -> None:
    """Each stage is told once, without escape codes."""
    stderr = io.StringIO()
    with LoadProgress(stderr) as loading:
        for done in range(0, 250_000_001, 50_000_000):
            loading(Progress("assembling", done, 250_000_000))
        loading(Progress("loading", 0, 250_000_000))

    assert stderr.getvalue() == "fxai: assembling the model, 250 MB\nfxai: loading the model, 250 MB\n"


def test_progress_is_a_bar_in_a_terminal_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows a bar with the stage, and it is cleared when the model is there."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stderr = Terminal()
    with LoadProgress(stderr) as loading:
        loading(Progress("assembling", 100_000_000, 250_000_000))
        loading(Progress("loading", 0, 250_000_000))

    assert "loading the model" in stderr.getvalue()
    assert stderr.getvalue().endswith("\x1b[1A\x1b[2K")


def test_quiet_progress_is_silent() -> None:
    """With --quiet nothing is told, in a terminal neither."""
    for stderr in (io.StringIO(), Terminal()):
        with LoadProgress(stderr, quiet=True) as loading:
            loading(Progress("loading", 0, 250_000_000))

        assert stderr.getvalue() == ""


def test_waiting_is_told_in_a_terminal_once_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for is told in a terminal, and taken away; what is quick is not told, and no pipe hears of it."""
    monkeypatch.setenv("TERM", "xterm")
    slow, quick, pipe = Terminal(), Terminal(), io.StringIO()
    with Spinner(slow, "calling add", patience=0):
        while "calling add" not in slow.getvalue():
            pass
    for stderr in (quick, pipe):
        with Spinner(stderr, "calling add", patience=60):
            stderr.write("x")

    assert slow.getvalue().endswith("\x1b[2K")
    assert (quick.getvalue(), pipe.getvalue()) == ("x", "x")


def test_what_is_piped_in_is_read_and_a_terminal_is_asked_only_when_wanted() -> None:
    """Text and bytes are read, bytes that are no UTF-8 too; without stdin, or from a terminal, there is nothing."""
    odd = io.TextIOWrapper(io.BytesIO(b"a\xff"))

    assert (read_stdin(io.StringIO("a"), wait=True), read_stdin(odd, wait=True)) == ("a", "a\ufffd")
    assert (read_stdin(None, wait=True), read_stdin(Terminal("a"), wait=False)) == (None, None)


def test_a_terminal_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of 30 columns no line is longer, and no word is cut, however the text comes."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stdout = Terminal()
    screen = TerminalScreen(stdout)
    words = "a terminal wraps between words and not in the middle of one, whatever comes"
    screen.part(TextStart("t"), 1)
    for word in words.split():
        screen.part(TextDelta("t", f"{word} "), 1)
    screen.part(TextEnd("t"), 1)
    screen.part(ToolResult("c", "tool", words), 1)
    screen.part(Finish("stop"), 1)
    lines = stdout.getvalue().splitlines()

    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == f"Turn 1 {words} ← tool {words}"


def test_a_mended_call_is_shown_beside_the_broken_one() -> None:
    """A call that was repaired has the id of the one that it stands for, and is a line of its own."""
    stdout = io.StringIO()
    screen = TerminalScreen(stdout)
    broken = (ToolParamsStart("c", "add"), ToolParamsDelta("c", '{"a": 1'), ToolParamsEnd("c"))
    called = (ToolCall("c", "add", None, params_text='{"a": 1'), ToolCall("c", "add", {"a": 1}, repaired=True))
    for part in (*broken, *called, Finish("tool-calls"), ToolCall("c", "sub", {})):
        screen.part(part, 1)

    assert stdout.getvalue().splitlines()[1:] == ['  → add {"a": 1', '  → add {"a": 1}  (repaired)', "  → sub {}"]


def test_this_thread_is_asked_by_a_program_in_the_background() -> None:
    """What it says is the program's value; what it raises is the program's, and ends nothing else."""

    def fail() -> int:
        raise ValueError("no such thing")

    with BackgroundRunner() as background:
        where = background.value_of(background.here(threading.current_thread))
        failed = background.value_of(background.here(fail).catch_cause(lambda cause: fx.succeed(cause.squash())))
        after = background.value_of(fx.succeed(3))

    assert where is threading.current_thread()
    assert isinstance(failed, ValueError)
    assert after == 3


def test_a_question_that_nobody_waits_for_is_not_asked() -> None:
    """Where two are asked at once and the first ends the program, the second is never asked; the next program runs."""
    asked: list[int] = []

    def leave() -> None:
        asked.append(1)
        raise CliError("enough", "")

    with BackgroundRunner() as background:
        both = fx.for_each([leave, lambda: asked.append(2)], background.here, concurrency=None)
        with pytest.raises(CliError, match="enough"):
            background.value_of(both)
        after = background.value_of(fx.succeed(3))

    assert (asked, after) == ([1], 3)


def test_a_line_stays_one_and_is_cut_in_the_middle() -> None:
    """Whatever is put into a line of stderr, it stays a line, of bounded length."""
    assert one_line("two\nlines\x1b[31m\tand a tab") == "two lines [31m and a tab"
    assert len(one_line("x" * 1_000_000)) < 610


def test_a_model_has_a_name() -> None:
    """The rooms and the servers are the providers; an unknown one is a typed failure when the layer is built."""
    failed = fx.run_result(LanguageModel.generate_text("?").provide(from_name("gpt:5")))

    assert {"anthropic", "local", "openai"} == set(provider_names()) - set(openai.SERVERS)
    assert isinstance(failed, Failure)
    error = failed.failure()
    assert isinstance(error, AiError)
    assert isinstance(error.reason, ModelUnavailableError)
    assert (error.reason.model, error.reason.problem) == ("gpt:5", "unknown-model")


def test_options_reach_the_provider() -> None:
    """What is given besides the name goes to the provider's layer, the rest of the name as its model."""
    with pytest.raises(TypeError, match="nonsense"):
        from_name("local:tiny.gguf", nonsense=True)
    layer = from_name("local:/no/such.gguf", context=512)
    failed = fx.run_result(LanguageModel.generate_text("?").provide(layer))

    assert "/no/such.gguf" in str(failed.failure())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_signal_is_told_to_a_line_editor_for_as_long_as_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be so busy that the editor begins to wait long after the signal: it is interrupted then, too."""
    interrupted, often = list[int](), threading.Event()

    def interrupt(_: int, number: int) -> None:
        interrupted.append(number)
        if len(interrupted) == 100:
            often.set()

    def ignore(_: int, __: object) -> None:
        """It ends nothing."""

    monkeypatch.setattr("fxai.cli.input._LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(signal, "pthread_kill", interrupt)
    before = signal.signal(signal.SIGUSR1, ignore)
    try:
        with wake_on_signal():
            quiet = list(interrupted)
            signal.raise_signal(signal.SIGUSR1)
            assert often.wait(60)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert quiet == []
    assert set(interrupted) == {signal.SIGWINCH}
