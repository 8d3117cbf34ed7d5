"""Programs that misbehave: each is a clear failure, none hangs, and nothing is left running."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from fxai.effects import Effect, Gen, fx
from fxai.messages import InternalProviderError, InvalidOutputError, RequestTimeoutError, TextDelta
from fxai.models import LanguageModel
from fxai.providers import host
from fxai.testing import TestClock
from tests.kit.every import every
from tests.kit.hosts import Backend, asked, failed, gone, python, shell

NOTED = "note(sys.argv[1], os.getpid())\n"


def reason(backend: Backend, command: tuple[str, ...], **options: Any) -> Any:
    """Why a program that is asked once does not answer."""
    options.setdefault("grace", 0.3)
    return failed(backend, LanguageModel.generate_text("Hi").provide(host.model(*command, **options)))


@pytest.mark.slow
def test_one_that_hangs_is_ended_when_the_silence_is_too_long(backend: Backend, tmp_path: Path) -> None:
    """Silence is a timeout by the clock, and the program is gone, also one that ignores SIGTERM, with its children."""
    hangs = (
        NOTED
        + """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
note(sys.argv[1], subprocess.Popen(["sleep", "60"]).pid)
say(type="progress", message="begun")
time.sleep(60)
"""
    )
    found = reason(backend, python(hangs, tmp_path / "pids"), silence=1.5)

    assert isinstance(found, RequestTimeoutError)
    assert found.seconds == 1.5
    assert "`silence`" in found.description
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert gone(tmp_path / "pids")


def test_a_child_in_a_session_of_its_own_ends_with_the_program(backend: Backend, tmp_path: Path) -> None:
    """What a program started apart from itself is gone when its answer is there and its scope is closed."""
    starts = (
        NOTED
        + """
import subprocess
note(sys.argv[1], subprocess.Popen(["sleep", "60"], start_new_session=True).pid)
for m in asked(): say(type="result", text="done")
"""
    )
    response = asked(backend, python(starts, tmp_path / "pids"), grace=0.3)

    assert response.text == "done"
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert gone(tmp_path / "pids")


def test_one_that_goes_on_and_on_is_ended_when_the_time_is_over(backend: Backend) -> None:
    """Progress breaks the silence, but an answer that is never complete is a timeout too."""
    goes_on = 'import time\nwhile True:\n    say(type="progress", message="still"); time.sleep(0.02)'
    found = reason(backend, python(goes_on), silence=5.0, timeout=0.5)

    assert isinstance(found, RequestTimeoutError)
    assert found.seconds == 0.5
    assert "`timeout`" in found.description


def test_the_clock_says_when_the_silence_is_too_long(backend: Backend) -> None:
    """Silence is measured by the `Clock`: an hour passes when the test says so."""
    clock = TestClock()
    asking = LanguageModel.generate_text("Hi").provide(host.model("sleep", "600", silence=3600, grace=0.1))

    @fx.gen
    def hour() -> Gen[Any, Any, Any]:
        handle = yield from fx.fork(asking.exit())
        while not clock.sleepers:
            yield from fx.wait(_moment)
        yield from clock.advance(3600)
        return (yield from handle.join())

    ended: Any = fx.run(fx.scoped(hour()).provide(clock.layer), backend=backend)

    assert ended.cause.failures[0].reason.seconds == 3600


def _reason(error: Any) -> Effect[str]:
    return fx.succeed(type(error.reason).__name__)


async def _moment() -> None:
    await anyio.sleep(0.01)


async def _gone(where: Path) -> None:
    """Waits until a program that ends by itself has, and we were told."""
    while not gone(where):
        await _moment()
    for _ in range(10):
        await _moment()


def test_one_that_does_not_acknowledge_its_params_is_a_timeout(backend: Backend) -> None:
    """The answer to `init` is waited for as any other."""
    found = reason(backend, ("sleep", "60"), params={}, silence=0.2)

    assert isinstance(found, RequestTimeoutError)


def test_one_that_ends_before_it_acknowledges_its_params_says_how(backend: Backend) -> None:
    """The same for `init`: the exit code and the end of stderr."""
    found = reason(backend, shell("echo 'no licence' >&2; exit 5"), params={})

    assert isinstance(found, InternalProviderError)
    assert "exit code 5" in found.description
    assert "before it acknowledged `init`" in found.description
    assert "no licence" in found.description


@pytest.mark.parametrize("format_", ["text", "json"])
def test_one_that_ends_before_it_answers_says_how(backend: Backend, format_: str) -> None:
    """The exit code and the end of stderr are in the failure, which is retryable."""
    found = reason(backend, shell("echo 'no key' >&2; read line; exit 3"), format=format_)

    assert isinstance(found, InternalProviderError)
    assert found.is_retryable
    assert "exit code 3" in found.description
    assert "no key" in found.description


def test_one_that_ends_in_the_middle_of_its_answer_keeps_what_came(backend: Backend) -> None:
    """What was said before the end is in the stream; then comes the failure."""
    dies = """
say(type="delta", text="Half")
sys.stdout.write('{"type": "res')
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""
    parts: list[Any] = []
    stream = LanguageModel.stream_text("Hi").provide(host.model(*python(dies)))
    found = failed(backend, stream.for_each(lambda part: fx.sync(lambda: parts.append(part))))

    assert [part.delta for part in parts if isinstance(part, TextDelta)] == ["Half"]
    assert isinstance(found, InternalProviderError)
    assert "exit code -9" in found.description
    assert "in the middle of a line" in found.description


def test_a_line_that_its_end_cut_short_is_an_answer_where_it_ended_well(backend: Backend) -> None:
    """The last line need not be ended by a line feed, unless the program failed."""
    well = asked(backend, shell("printf fine"), format="text")
    badly = reason(backend, shell("printf half; exit 1"), format="text")

    assert well.text == "fine"
    assert isinstance(badly, InternalProviderError)


def test_all_that_one_writes_is_text_of_utf8() -> None:
    """A line of plain text that is not UTF-8 is no answer, whether it is one of many or the whole."""
    for lifetime in ("scope", "request"):
        found = reason("asyncio", shell(r"read line; printf 'a\377\n'"), format="text", lifetime=lifetime)

        assert isinstance(found, InvalidOutputError)
        assert "a line is not UTF-8, at byte 1" in found.description


def test_all_that_one_writes_is_no_answer_where_it_fails_at_last(backend: Backend) -> None:
    """A process for one request that ends with another code than 0 has not answered."""
    found = reason(backend, shell("cat; exit 4"), format="text", lifetime="request")

    assert isinstance(found, InternalProviderError)
    assert "exit code 4" in found.description


def test_one_that_closes_its_output_and_lives_has_not_answered(backend: Backend, tmp_path: Path) -> None:
    """Closing the output is an end: the failure says so, and the program is ended."""
    closes = NOTED + "import time\nos.close(1)\ntime.sleep(60)"
    found = reason(backend, python(closes, tmp_path / "pids"))

    assert isinstance(found, InternalProviderError)
    assert "the program closed its output before its answer was complete" in found.description
    assert gone(tmp_path / "pids")


@every(
    ("states", "why"),
    [
        ('print(\'{"type": "result\')', "starts like a JSON object, but is invalid"),
        ('print(\'{"type": "resolt"}\')', "'resolt'"),
        ('say(type="result", text=3)', "Expected `str | null`, got `int` - at `$.text`"),
        ('say(type="delta")', "missing required field `text`"),
        ('say(type="init_ack")', 'unexpected message "init_ack"'),
        ('sys.stdout.buffer.write(b"\\xff\\xfe\\n")', "not UTF-8, at byte 0"),
        ('sys.stdout.write("{\\"a\\":" * 100000 + "\\n")', "128 levels"),
        ('say(type="delta", text="No"); say(type="result", text="Yes")', "does not start with the earlier pieces"),
        ('say(type="result", text="Yes", id=7)', "id of the answer is 7, expected 1"),
    ],
)
def test_one_that_does_not_speak_the_protocol_is_a_failure(states: str, why: str) -> None:
    """Garbage of each kind is refused with its reason."""
    found = reason("asyncio", python(f"next(asked())\n{states}\nsys.stdout.flush()\nsys.stdin.read()"))

    assert isinstance(found, InvalidOutputError)
    assert why in found.description


def test_one_that_acknowledges_by_something_else_is_told_what_it_should_have_said() -> None:
    """The answer to `init` is `init_ack` or an error."""
    found = reason("asyncio", shell("echo ready"), params={})

    assert isinstance(found, InvalidOutputError)
    assert "init_ack" in found.description
    assert "'ready'" in found.description


def test_a_line_without_end_is_read_no_further_than_allowed(backend: Backend) -> None:
    """A huge line ends the program when it is longer than `max_line`."""
    found = reason(backend, ("cat", "/dev/zero"), max_line=100_000)

    assert isinstance(found, InvalidOutputError)
    assert "100000 bytes (`max_line`)" in found.description


def test_a_flood_of_lines_is_read_no_further_than_allowed(backend: Backend) -> None:
    """Lines without end are ended when they are more than `max_answer` together."""
    found = reason(backend, ("yes", '{"type": "delta", "text": "x"}'), max_answer=20_000)

    assert isinstance(found, InvalidOutputError)
    assert "20000 bytes (`max_answer`)" in found.description


def test_each_answer_has_all_of_what_is_allowed() -> None:
    """What earlier answers of the same process took, and its acknowledgement, do not count."""
    states = """
for m in asked():
    if m["type"] == "init": say(type="init_ack")
    else: say(type="result", text="x" * 400)
"""
    asking = LanguageModel.generate_text("Hi").map(lambda response: len(response.text))
    model = host.model(*python(states), params={}, max_answer=500)

    assert fx.run(fx.all_(asking, asking, asking).provide(model)) == (400, 400, 400)


def test_one_that_acknowledged_its_params_is_asked_and_no_other_started(tmp_path: Path) -> None:
    """The process that was told its params is the one that answers, each time."""
    states = NOTED + 'for m in asked(): say(type="init_ack" if m["type"] == "init" else "result")'
    asking = LanguageModel.generate_text("Hi")
    fx.run(fx.all_(asking, asking).provide(host.model(*python(states, tmp_path / "pids"), params={})))

    assert len((tmp_path / "pids").read_text().split()) == 1


def test_a_flood_on_stderr_holds_nobody_up(backend: Backend) -> None:
    """Stderr is read beside, so that a program that writes megabytes there goes on to its answer."""
    floods = 'for m in asked():\n    sys.stderr.write("x" * 3_000_000)\n    say(type="result", text="done")'

    assert asked(backend, python(floods)).text == "done"


def test_a_large_request_and_a_large_answer_do_not_block_each_other(backend: Backend) -> None:
    """The program may write before it has read all: both sides go on."""
    crossed = 'sys.stdout.write("y" * 1_000_000)\nsys.stdout.flush()\nsys.stdin.readline()\nprint()'
    response = asked(backend, python(crossed), "x" * 1_000_000, format="text")

    assert response.text == "y" * 1_000_000


def test_one_that_reads_nothing_of_a_large_request_is_ended(backend: Backend, tmp_path: Path) -> None:
    """What could not be written is given up when the silence is too long, and the program is gone."""
    sleeps = python(f"{NOTED}import time\ntime.sleep(60)", tmp_path / "pids")
    asking = LanguageModel.generate_text("x" * 1_000_000).provide(host.model(*sleeps, silence=1.0, grace=0.2))

    assert isinstance(failed(backend, asking), RequestTimeoutError)
    assert gone(tmp_path / "pids")


def test_one_that_reads_nothing_may_answer_all_the_same(backend: Backend) -> None:
    """A program that ends without reading its input has answered if it said a line."""
    response = asked(backend, ("echo", "hello world"), format="text")

    assert response.text == "hello world"


@pytest.mark.slow
def test_after_a_failure_the_next_request_starts_another(backend: Backend, tmp_path: Path) -> None:
    """One that died, was silent or has ended is started anew by the next request; the old one is gone."""
    dies = (
        NOTED
        + """
import time
for m in asked():
    if m["id"] == 1: sys.exit(1)
    if m["id"] == 2: time.sleep(60)
    say(type="result", text=str(m["id"]))
    if m["id"] == 3: break
"""
    )
    asking = LanguageModel.generate_text("Hi").map(lambda response: response.text)
    failing = asking.map(str).catch_all(_reason)
    ended = fx.wait(lambda: _gone(tmp_path / "pids"))
    four = fx.for_each([failing, failing, failing, ended.and_then(failing)], lambda asking: asking)
    model = host.model(*python(dies, tmp_path / "pids"), silence=2.0, grace=0.2)

    assert fx.run(four.provide(model), backend=backend) == ["InternalProviderError", "RequestTimeoutError", "3", "4"]
    assert len((tmp_path / "pids").read_text().split()) == 4
    assert gone(tmp_path / "pids")


def test_one_that_says_more_than_its_answer_is_found_out(backend: Backend) -> None:
    """What stands behind an answer is never taken for the next one."""
    asking = LanguageModel.generate_text("Hi").map(lambda response: response.text)
    failing = asking.map(str).catch_all(lambda error: fx.succeed(error.message))
    both = fx.all_(failing, failing, failing).provide(
        host.model(*shell("while read line; do printf 'one\\ntwo\\n'; done"), format="text", grace=0.2)
    )
    first, second, third = fx.run(both, backend=backend)

    assert (first, third) == ("one", "one")
    assert "extra output after the answer: 'two" in second


def test_whoever_stops_reading_ends_the_answer_and_the_next_is_whole(backend: Backend, tmp_path: Path) -> None:
    """A stream left in the middle ends the process; the next request is answered by another from its beginning."""
    counts = (
        NOTED
        + """
import time
for m in asked():
    for n in range(3 if m["id"] > 1 else 10**9): say(type="delta", text=str(n))
    say(type="result")
"""
    )

    @fx.gen
    def left() -> Gen[str, Any, Any]:
        yield from LanguageModel.stream_text("Hi").take(5).drain()
        return (yield from LanguageModel.generate_text("Hi")).text

    model = host.model(*python(counts, tmp_path / "pids"), grace=0.2)

    assert fx.run(left().provide(model), backend=backend) == "012"
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert gone(tmp_path / "pids")


def test_a_cancelled_request_leaves_nothing_running(backend: Backend, tmp_path: Path) -> None:
    """A run that is cut off ends the program and its children."""
    hangs = NOTED + 'import time\nnote(sys.argv[1], os.getpid())\nsay(type="progress")\ntime.sleep(60)'
    asking = (
        LanguageModel.generate_text("Hi").timeout(1.0).provide(host.model(*python(hangs, tmp_path / "pids"), grace=0.2))
    )
    begun = time.monotonic()
    ended = fx.run_exit(asking, backend=backend)

    assert ended.__class__.__name__ == "Failed"
    assert gone(tmp_path / "pids")
    assert begun <= time.monotonic()


def test_one_that_ends_well_is_given_the_time_to(backend: Backend, tmp_path: Path) -> None:
    """When its scope closes, its input ends first: it may finish what it does before it is told to end."""
    tidies = (
        NOTED
        + """
import time
for m in asked(): say(type="result", text="done")
time.sleep(0.1)
note(sys.argv[2], "tidied")
"""
    )
    response = asked(backend, python(tidies, tmp_path / "pids", tmp_path / "end"))

    assert response.text == "done"
    assert (tmp_path / "end").read_text() == "tidied\n"
    assert gone(tmp_path / "pids")
