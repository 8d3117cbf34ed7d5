"""Child processes: whatever a program started ends with it, wherever it went; what cannot be ended is told."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fxai.effects.process import ChildProcess, Lines, _table
from tests.kit.every import every
from tests.kit.journal import turns

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system tells nothing of processes")

_SLEEP = "import time; time.sleep(60)"
_STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); "
    "time.sleep(60)"
)
_START = """
import os, subprocess, sys, time
def start(code, **options): return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], **options)
def tell(*pids): print(*pids, flush=True)
"""
PROGRAMS = {
    "a child in a session of its own": f"tell(start({_SLEEP!r}, start_new_session=True).pid)",
    "one that ignores being asked": f"start({_STUBBORN!r}, start_new_session=True)",
    "one with another environment": f"tell(start({_SLEEP!r}, start_new_session=True, env={{}}).pid)",
    "one that closed what it inherited": (
        f"tell(start({_SLEEP!r}, start_new_session=True, **dict.fromkeys(('stdin', 'stdout', 'stderr'), -3)).pid)"
    ),
    "the child of a child": (
        'inner = \'import subprocess, sys; print(subprocess.Popen([sys.executable, "-c", '
        f'"{_SLEEP}"], start_new_session=True).pid, flush=True); import time; time.sleep(60)\'\n'
        "start(inner, start_new_session=True)"
    ),
    "a daemon, whose parents have ended": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        tell(os.getpid())
        time.sleep(60)
    os._exit(0)
os.wait()
""",
    "one that comes when it is asked to end": f"""
import signal
def last(*_):
    start({_SLEEP!r}, start_new_session=True)
    os._exit(0)
signal.signal(signal.SIGTERM, last)
tell(start({_SLEEP!r}).pid)
time.sleep(60)
""",
}
"""Programs that start others and say their ids, by where those went."""


async def _start(code: str, **options: Any) -> ChildProcess:
    return await ChildProcess.start((sys.executable, "-I", "-S", "-c", _START + code), grace=0.2, **options)


async def _first(process: ChildProcess) -> list[int]:
    """The process ids that a program says first."""
    with anyio.fail_after(20):
        return [int(word) for word in (await process.stdout.receive()).split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _with(word: str) -> list[int]:
    """The processes that have a word in their environment."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [int(path.parent.name)] if word.encode() in path.read_bytes() else []
        except OSError:
            continue
    return [pid for pid in found if _runs(pid)]


def _run(body: Callable[[], Any], backend: str) -> Any:
    return anyio.run(body, backend=backend)


@pytest.mark.slow
@every("where", PROGRAMS)
def test_what_a_program_started_ends_with_it(where: str, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    """A child that left its group, has another environment, lost its parents or ignores SIGTERM: none runs after."""
    word = uuid.uuid4().hex

    async def program() -> tuple[list[int], list[bool]]:
        process = await _start(PROGRAMS[where] + "\nsys.stdin.read()", env={**os.environ, "WORD": word})
        started = await _first(process)
        before = [_runs(pid) for pid in started]
        await process.end()
        return started, before

    started, before = _run(program, backend)

    assert before == [True]
    assert [pid for pid in started if _runs(pid)] == _with(word) == []
    assert caplog.text == ""


def test_a_program_that_ended_before_leaves_nothing_either(backend: str) -> None:
    """Its daemon, found by nothing but what it inherited, is ended though the program is gone since long."""

    async def program() -> tuple[list[int], int | None]:
        process = await _start(PROGRAMS["a daemon, whose parents have ended"])
        started = await _first(process)
        assert await process.gone_within(20)
        await process.end()
        return started, process.exit_code

    started, code = _run(program, backend)

    assert code == 0
    assert [pid for pid in started if _runs(pid)] == []


def test_what_may_be_its_own_is_told_and_not_ended(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    """A daemon with another environment that still holds the output is named in a warning, and left alone."""
    daemon = f"""
if os.fork() == 0:
    os.setsid()
    tell(start({_SLEEP!r}, env={{}}, start_new_session=True).pid)
    os._exit(0)
os.wait()
"""

    async def program() -> list[int]:
        process = await _start(daemon)
        started = await _first(process)
        assert await process.gone_within(20)
        await process.end()
        return started

    with caplog.at_level(logging.WARNING, "fxai.effects"):
        (left,) = _run(program, backend)
    try:
        assert _runs(left)
        assert f"{left} ('" in caplog.text
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("is_younger", [False, True])
def test_nobody_else_is_ended(is_younger: bool, backend: str) -> None:
    """A program that runs beside it, and one that another program started, live on, also where they began later."""

    async def program() -> list[bool]:
        first = await _start("sys.stdin.read()")
        beside = await _start(PROGRAMS["a child in a session of its own"] + "\nsys.stdin.read()")
        theirs = await _first(beside)
        last = await _start("sys.stdin.read()")
        await (first if is_younger else last).end()
        lives = [_runs(pid) for pid in (beside.pid, *theirs)]
        for one in (first, beside, last):
            await one.end()
        return [*lives, *(_runs(pid) for pid in theirs)]

    assert _run(program, backend) == [True, True, False]


def test_a_program_of_a_program_is_found_by_both(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark of whoever started us is passed on, also to a program with an environment of its own."""
    monkeypatch.setenv("FXAI_CHILD_OF", "above")

    async def said(**options: Any) -> str:
        process = await _start("print(os.environ['FXAI_CHILD_OF'], flush=True)", **options)
        try:
            return (await process.stdout.receive()).decode().strip()
        finally:
            await process.end()

    async def program() -> list[str]:
        return [await said(), await said(env={"PATH": os.environ["PATH"]}), await said(env={"FXAI_CHILD_OF": "other"})]

    ours, bare, given = _run(program, backend)

    assert ours.startswith("above:")
    assert bare.startswith("above:")
    assert given.startswith("other:")
    assert len({ours, bare}) == 2


def test_one_that_ends_by_itself_is_not_signalled(backend: str, tmp_path: Path) -> None:
    """It gets its time when its input is closed: what it does at its end is done."""

    async def program() -> int | None:
        process = await _start(f"sys.stdin.read(); time.sleep(0.05); open({str(tmp_path / 'done')!r}, 'w').close()")
        await process.end()
        return process.exit_code

    assert (_run(program, backend), (tmp_path / "done").exists()) == (0, True)


def test_one_that_is_not_to_be_waited_for_is_asked_at_once(backend: str) -> None:
    """Without patience the program is told to terminate when its input is closed."""

    async def program() -> int | None:
        process = await ChildProcess.start((sys.executable, "-I", "-S", "-c", _SLEEP), grace=60)
        with anyio.fail_after(30):
            await process.end(patient=False)
        return process.exit_code

    assert _run(program, backend) == -signal.SIGTERM


def test_one_that_is_asked_has_its_time_to_end(backend: str) -> None:
    """What it does when it is asked to terminate is done, within the grace: it is not killed meanwhile."""
    last = "def last(*_):\n time.sleep(0.1)\n os._exit(7)\n"
    code = f"import signal\n{last}signal.signal(signal.SIGTERM, last)\ntell(1)\ntime.sleep(60)"

    async def program() -> list[Any]:
        process = await ChildProcess.start((sys.executable, "-I", "-S", "-c", _START + code), grace=60)
        await _first(process)
        was_gone = await process.gone_within(0)
        with anyio.fail_after(50):
            await process.end(patient=False)
        return [was_gone, process.exit_code, await process.gone_within(0)]

    assert _run(program, backend) == [False, 7, True]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in its group", "elsewhere"])
def test_what_it_started_has_its_time_to_end(
    where: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that is asked to terminate does what it does at its end; it is not killed meanwhile."""
    monkeypatch.setattr("fxai.effects.process._CHILDREN", 20)
    if where == "in its group":
        monkeypatch.setattr("fxai.effects.process._PROC", Path("/no/such/folder"))
    inner = f"""
import os, signal, time
def last(*_):
    time.sleep(0.1)
    open({str(tmp_path / "done")!r}, "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, last)
print(os.getpid(), flush=True)
time.sleep(60)
"""

    async def program() -> list[int]:
        process = await _start(f"start({inner!r}, start_new_session={where == 'elsewhere'})\nsys.stdin.read()")
        started = await _first(process)
        await process.end()
        return started

    assert [pid for pid in _run(program, backend) if _runs(pid)] == []
    assert (tmp_path / "done").exists()


def test_what_cannot_be_ended_is_told(
    backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What runs after all that was tried is waited for no longer, and named in a warning."""
    monkeypatch.setattr("fxai.effects.process._KILL", signal.SIGTERM)
    monkeypatch.setattr("fxai.effects.process._LAST", 0.02)
    monkeypatch.setattr("fxai.effects.process._CHILDREN", 0.02)

    async def program() -> list[int]:
        process = await _start(PROGRAMS["one that ignores being asked"] + "\nsys.stdin.read()")
        started = await _first(process)
        with anyio.fail_after(50):
            await process.end()
        return started

    with caplog.at_level(logging.WARNING, "fxai.effects"):
        (left,) = _run(program, backend)
    try:
        assert _runs(left)
        assert f"{left} ('" in caplog.text
    finally:
        os.kill(left, signal.SIGKILL)


def test_its_pipes_are_closed_with_it(backend: str) -> None:
    """Nothing of a program that was ended stays open, though it said what nobody read."""

    async def program() -> tuple[int, int]:
        async def ended() -> ChildProcess:
            process = await _start("tell('much')\nprint('more', file=sys.stderr, flush=True)")
            await process.gone_within(20)
            await process.end()
            return process

        await ended()
        before = _open()
        kept = [await ended() for _ in range(3)]
        assert [process.exit_code for process in kept] == [0] * 3
        return before, _open()

    before, after = _run(program, backend)

    assert before == after


def test_the_systems_processes_are_those_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what `/proc` tells only whole entries count, of processes that have not ended; a name may hold anything."""
    monkeypatch.setattr("fxai.effects.process._PROC", tmp_path)
    after = " ".join(str(number) for number in range(1, 40))
    said = {"7": f"7 (a) S (b) S {after}", "8": f"8 (z) Z {after}", "9": f"9 (x) X {after}", "10": "10 (cut) S 1 2 3"}
    for name, text in {**said, "self": said["7"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(text, encoding="utf-8")
    (tmp_path / "11").mkdir()

    ((pid, entry),) = _table().items()

    assert (pid, entry.pid, entry.name) == (7, 7, "a) S (b")
    assert (entry.parent, entry.group, entry.session, entry.start) == (1, 2, 3, 19)


def test_a_cancellation_does_not_stop_the_end(backend: str) -> None:
    """Whoever is cancelled in the middle of ending a program leaves nothing running."""

    async def program() -> list[int]:
        process = await _start(PROGRAMS["one that ignores being asked"] + "\nsys.stdin.read()")
        started = [process.pid, *await _first(process)]
        with anyio.move_on_after(0.01):
            await process.end()
        return started

    assert [pid for pid in _run(program, backend) if _runs(pid)] == []


def test_many_threads_at_work_hold_up_no_end(backend: str) -> None:
    """Where all threads of the loop are busy a program is ended all the same."""

    async def program() -> int | None:
        process, over = await _start("sys.stdin.read()"), threading.Event()
        async with anyio.create_task_group() as group:
            anyio.to_thread.current_default_thread_limiter().total_tokens = 1
            group.start_soon(lambda: anyio.to_thread.run_sync(over.wait))
            await anyio.sleep(0.05)
            try:
                with anyio.move_on_after(20):
                    await process.end()
            finally:
                over.set()
        return process.exit_code

    assert _run(program, backend) == 0


def test_ending_twice_does_nothing_more(backend: str) -> None:
    """A program that has ended and was cleaned up may be ended again."""

    async def program() -> list[int | None]:
        process = await _start("sys.exit(3)")
        codes: list[int | None] = []
        for _ in range(2):
            await process.end()
            codes.append(process.exit_code)
        return codes

    assert _run(program, backend) == [3, 3]


def test_where_the_system_tells_nothing_the_group_is_asked(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `/proc` its group is there until all of it has ended; with it nobody has to ask."""

    async def program() -> list[bool]:
        process = await _start("sys.stdin.read()")
        there = process._group_is_there()
        await process.end()
        return [there, process._group_is_there()]

    known = _run(program, backend)
    monkeypatch.setattr("fxai.effects.process._PROC", Path("/no/such/folder"))

    assert (known, _run(program, backend)) == ([False, False], [True, False])


@pytest.mark.slow
def test_where_the_system_tells_nothing_the_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `/proc` what is in the program's group still ends with it."""
    monkeypatch.setattr("fxai.effects.process._PROC", Path("/no/such/folder"))
    sent: list[int] = []
    real = os.killpg

    def spied(group: int, number: int) -> None:
        sent.append(number)
        real(group, number)

    monkeypatch.setattr("fxai.effects.process.os.killpg", spied)

    async def program() -> list[int]:
        process = await _start(f"start({_STUBBORN!r})\nsys.stdin.read()")
        started = [process.pid, *await _first(process)]
        await process.end()
        return started

    assert [pid for pid in _run(program, "asyncio") if _runs(pid)] == []
    assert set(sent) == {0, signal.SIGTERM, signal.SIGKILL}


def test_its_end_is_whole_however_often_asyncio_cancels() -> None:
    """The task that ends it is cancelled twice: the program is gone when the cancellation goes on."""

    async def main() -> int | None:
        child = await ChildProcess.start([sys.executable, "-S", "-c", _SLEEP], grace=0.05)
        task = asyncio.ensure_future(child.end())
        for _ in range(2):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return child.exit_code

    assert asyncio.run(main()) is not None


def test_one_whose_start_is_cancelled_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a cancel scope, in each turn: none is left when the cancellation goes on."""
    started: list[Any] = []
    popen: Any = subprocess.Popen

    def noted(*args: Any, **options: Any) -> Any:
        started.append(popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)

    async def use() -> None:
        child = await ChildProcess.start([sys.executable, "-S", "-c", _SLEEP], grace=0.05)
        await child.end(patient=False)

    async def main() -> None:
        for number in range(1, 9):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(use)
                await turns(number)
                tasks.cancel_scope.cancel()
            assert all(one.returncode is not None for one in started)

    asyncio.run(main())
    assert started


@every(
    ("chunks", "lines", "is_long"),
    [
        ([b"abcd\n"], [b"abcd"], False),
        ([b"ab", b"cd", b"\nef"], [b"abcd"], False),
        ([b"ab\n\ncd\nef", b"gh", b"\n"], [b"ab", b"", b"cd", b"efgh"], False),
        ([b"abcde\n"], [None], False),
        ([b"ab\nabcde\ncd\n"], [b"ab", None, b"cd"], False),
        ([b"ab\n", b"abc", b"de"], [b"ab"], True),
        ([b"ab\n", b"abc", b"de\n"], [b"ab", None], False),
        ([b"abcd"], [], False),
        ([], [], False),
    ],
)
def test_lines_are_as_long_as_is_allowed(chunks: list[bytes], lines: list[bytes | None], is_long: bool) -> None:
    """They are what stands between the ends of lines, however it comes; one that is too long is None."""
    cut = Lines(4)

    assert [line for chunk in chunks for line in cut.feed(chunk)] == lines
    assert cut.is_long is is_long
