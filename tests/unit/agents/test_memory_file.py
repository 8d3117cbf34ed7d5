"""Memories in files: what stands in them, and what is done about a file that is damaged."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.effects import fx
from fxai.messages import Prompt
from tests.kit.every import every
from tests.kit.memories import approved, asked, chat, commit_all, looked_up

ONE, TWO, THREE = chat("one"), looked_up("two"), chat("three")
HEAD = b'{"format":"fxai memory","version":3,"commits":"000000000000","digest":"0000000000000000"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with three turns."""
    file = tmp_path / "memory.jsonl"
    fx.run(commit_all(Memory.file(file), [ONE, TWO, THREE]))
    return file


def _turns(path: Path) -> Any:
    return fx.run(Memory.file(path).turns())


def _refused(effect: Any) -> MemoryFailure:
    failure: MemoryFailure = fx.run_result(effect).failure()
    return failure


def test_a_file_is_lines_of_json(path: Path) -> None:
    """The first says what it is; each other one is a commit, with its turn."""
    fx.run(commit_all(Memory.file(path), [asked("a"), ONE, approved()]))
    first, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    assert {**first, "digest": ""} == {
        "format": "fxai memory",
        "version": 3,
        "commits": "000000000006",
        "digest": "",
    }
    assert [one["commit"] for one in lines] == [1, 2, 3, 4, 5, 6]
    assert [(one["entry"], one["part"], one["newest"]) for one in lines] == [
        *((1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 0, 4), (5, 0, 5), (4, 1, 5)),
    ]
    assert [Prompt.from_data(one["data"]).unwrap() for one in lines] == [
        *(ONE, TWO, THREE, asked("a"), ONE, approved()),
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights")
def test_a_file_is_its_owners_alone(path: Path) -> None:
    """Nobody else may read what was said."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a file nor a lock is made before the first commit."""
    memory = Memory.file(tmp_path / "a" / "memory.jsonl")

    assert (fx.run(memory.load()), list(tmp_path.iterdir())) == (Prompt.empty, [])


# -- a process that ended while it wrote


def test_a_last_line_cut_anywhere_is_left_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it ends, the others are read, and that is told; the next commit stands in its place."""
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    seen: list[bool] = []
    told: list[bool] = []
    for cut in [
        *range(start, start + 12),
        *range(start + 12, len(whole) - 4, 13),
        *range(len(whole) - 4, len(whole) - 1),
    ]:
        path.write_bytes(whole[:cut])
        before = _turns(path)
        fx.run(Memory.file(path).commit(ONE))
        seen.append(before == (ONE, TWO) and _turns(path) == (ONE, TWO, ONE))
        told.append(caplog.messages[0].startswith(f"the last commit of {path} is cut off and ignored. To keep it"))
        caplog.clear()

    assert len(seen) > 20
    assert all(seen)
    assert all(told)


def test_a_line_that_lacks_only_its_end_counts(path: Path) -> None:
    """An editor may have taken it away: nothing that was acknowledged is lost."""
    path.write_bytes(path.read_bytes()[:-1])
    before = _turns(path)
    fx.run(Memory.file(path).commit(ONE))

    assert before == (ONE, TWO, THREE)
    assert _turns(path) == (ONE, TWO, THREE, ONE)


def test_an_empty_file_gets_its_first_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning says so, because the file can have contained commits."""
    path = tmp_path / "memory.jsonl"
    path.touch(0o600)
    before = _turns(path)
    fx.run(Memory.file(path).commit(ONE))

    assert (before, _turns(path)) == ((), (ONE,))
    assert path.read_bytes().startswith(HEAD[:36] + b'"commits":"000000000001"')
    assert caplog.messages[0] == f"{path} is empty. If it contained commits, restore it from a backup."


@every("cut", [1, 20, 50, len(HEAD) - 1])
def test_a_first_line_that_was_cut_is_a_failure(cut: int, path: Path) -> None:
    """A commit writes the first line and the file in one step, so another program has cut it."""
    whole = path.read_bytes()[:cut]
    path.write_bytes(whole)
    failures = [_refused(one) for one in (Memory.file(path).turns(), Memory.file(path).commit(ONE))]

    assert all("is not a memory of this" in str(one) or "line 1 of" in str(one) for one in failures)
    assert path.read_bytes() == whole


def test_zeros_at_the_end_are_what_a_power_cut_leaves(path: Path) -> None:
    """Some file systems make a file longer before its bytes are there."""
    path.write_bytes(path.read_bytes() + b"\0" * 100)
    fx.run(Memory.file(path).commit(ONE))

    assert _turns(path) == (ONE, TWO, THREE, ONE)


@pytest.mark.parametrize("doing", ["write", "fsync"])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(doing: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a line is taken back, and the failure says why."""
    before = path.read_bytes()
    write = os.write

    def half(file: int, data: Any) -> int:
        write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    def unsynced(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, doing, half if doing == "write" else unsynced)
        failure = _refused(Memory.file(path).commit(ONE))

    assert "No space left on device" in str(failure)
    assert path.read_bytes() == before


def test_short_writes_are_finished(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take fewer bytes than it was given."""
    write = os.write

    def few(file: int, data: Any) -> int:
        return write(file, data[:7])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", few)
        fx.run(Memory.file(path).commit(ONE))

    assert _turns(path) == (ONE, TWO, THREE, ONE)


@pytest.mark.parametrize("size", [1, 8, 9, 30, 60])
def test_a_line_that_was_never_acknowledged_goes_without_a_word(
    size: int, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a process wrote that was killed before it could say that it is kept; zeros may stand behind it."""
    whole = path.read_bytes()
    line = whole.splitlines(keepends=True)[-1]
    for more in (line[:size], line[:size] + bytes(50)):
        path.write_bytes(whole + more)
        before = _turns(path)
        fx.run(Memory.file(path).commit(ONE))

        assert (before, _turns(path)) == ((ONE, TWO, THREE), (ONE, TWO, THREE, ONE))

    assert caplog.messages == []
    assert not path.with_name("memory.jsonl.torn").exists()


def test_a_line_that_was_kept_before_its_process_could_say_so_counts(path: Path) -> None:
    """The number in the first line is written behind it: a smaller one does no harm."""
    before = path.read_bytes()[:100]
    fx.run(commit_all(Memory.file(path), [ONE, TWO]))
    path.write_bytes(before + path.read_bytes()[100:])

    assert before.count(b"000000000003") == 1
    assert _turns(path) == (ONE, TWO, THREE, ONE, TWO)


def test_what_is_left_of_a_commit_is_put_beside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It was acknowledged: a person may want to look at it. Clearing the memory removes it too."""
    path.write_bytes(path.read_bytes()[:-20])
    fx.run(Memory.file(path).commit(ONE))
    torn = path.with_name("memory.jsonl.torn")
    rest, mode = torn.read_bytes(), stat.S_IMODE(torn.stat().st_mode)
    fx.run(Memory.file(path).clear())

    assert rest.startswith(b'{"entry":3,"part":0,"newest":3,"data":[')
    assert (mode, torn.exists(), path.exists()) == (0o600, False, False)
    assert caplog.messages[-1].endswith(f"to {torn}")


@pytest.mark.parametrize("how", ["cut", "zeroed"])
def test_an_end_with_several_commits_that_is_gone_is_a_failure(how: str, path: Path) -> None:
    """It says how many, and what to do; what it says helps."""
    whole = path.read_bytes()
    end = whole.index(b"\n", len(whole.splitlines()[0]) + 5) + 30  # in the second turn
    path.write_bytes(whole[:end] + (b"" if how == "cut" else bytes(len(whole) - end)))
    memory = Memory.file(path)
    failures = [_refused(one) for one in (memory.load(), memory.turns(), memory.commit(ONE))]
    text = path.read_bytes()
    first = text.index(b"\n") + 1
    path.write_bytes(HEAD + text[first:])
    fx.run(memory.commit(THREE))

    assert all("of its 3 commits the last 2 are missing. Restore the file" in one.description for one in failures)
    assert all(f"change its first line to {HEAD.decode().strip()}" in one.description for one in failures)
    assert fx.run(memory.turns()) == (ONE, THREE)


def test_lines_that_were_taken_out_are_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle and at the beginning."""
    fx.run(commit_all(Memory.file(path), [ONE, TWO]))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:4], lines[5]]))
    turns = _turns(path)

    assert turns == (TWO, THREE, TWO)
    assert caplog.messages == [
        f"1 commits after line 3 of {path} are missing",
        f"1 commits after line 1 of {path} are missing",
    ]


def test_a_number_of_commits_that_is_damaged_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The turns are read; the next commit writes it anew."""
    path.write_bytes(path.read_bytes().replace(b"000000000003", b"000000000002", 1))
    turns = _turns(path)
    told = list(caplog.messages)
    fx.run(Memory.file(path).commit(ONE))
    caplog.clear()

    assert turns == (ONE, TWO, THREE)
    assert told == [f"line 1 of {path} is damaged, so fxai cannot determine whether the newest commits are missing"]
    assert (_turns(path), caplog.messages) == ((ONE, TWO, THREE, ONE), [])


def test_a_first_line_that_is_damaged_is_a_failure(path: Path) -> None:
    """It says what to put in its place, and that helps."""
    text = path.read_bytes()
    path.write_bytes(text[:60] + text[70:])
    failure = _refused(Memory.file(path).load())
    path.write_bytes(HEAD + text[text.index(b"\n") + 1 :])

    assert failure.description.startswith(f"line 1 of {path} is damaged. Restore the file from a backup, or, to")
    assert _turns(path) == (ONE, TWO, THREE)


def test_a_commit_that_is_kept_never_fails_for_an_older_line(path: Path) -> None:
    """Whoever would try it again would have it twice."""
    _damaged(path, 2, b"rubbish\n")
    fx.run(Memory.file(path, keep=2).commit(ONE))

    assert fx.run(Memory.file(path, keep=2).turns()) == (THREE, ONE)


# -- a file that is damaged


def _damaged(path: Path, number: int, line: bytes | None) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1 : number] = [] if line is None else [line]
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"entry":2,"part":0,"newe\n', "not a commit of a memory"),
        (b"\xff\xfe\n", "not a commit of a memory"),
        (b'{"entry":2,"part":0,"newest":2,"data":[{"role":"nobody"}]}\n', "the entry contains no messages (/0/role"),
        (b'{"entry":2,"part":1,"newest":2,"data":[]}\n', "the start of its turn is missing"),
        (b'{"entry":3,"part":0,"newest":3,"data":[]}\n', "turn 3 also follows it"),
        (b'{"entry":2,"part":0,"newest":2,"data":[]}\n' * 2, "turn 2 also follows it"),
    ],
)
def test_a_damaged_line_is_named(line: bytes, said: str, path: Path) -> None:
    """It says the file, the line, what is wrong and what to do; nothing is changed."""
    _damaged(path, 3, line)
    before = path.read_bytes()
    failure = _refused(Memory.file(path).load())

    assert (failure.doing, failure.memory) == ("load", str(path))
    assert "line 3 of" in failure.description or "line 4 of" in failure.description
    assert said in failure.description
    assert "Restore the file from a backup, or remove this line" in failure.description
    assert path.read_bytes() == before


def test_a_part_that_is_missing_is_noticed(path: Path) -> None:
    """A turn of three commits without its second one is not given as if it were whole."""
    both = asked("a") + Prompt(asked("b", "c2", "a2").messages[1:])
    fx.run(commit_all(Memory.file(path), [both, approved("c2", "a2"), approved()]))
    _damaged(path, 6, None)
    failure = _refused(Memory.file(path).load())

    assert "line 6 of" in failure.description
    assert "earlier parts of its turn are missing" in failure.description


@pytest.mark.parametrize(
    "order", [[1, 2, 3, 4, 5, 6, 6], [1, 2, 3, 4, 5, 5, 6], [1, 2, 3, 4, 6, 5], [1, 3, 2, 4, 5, 6]]
)
def test_a_line_that_is_doubled_or_moved_is_a_failure(order: list[int], path: Path) -> None:
    """By its number, also where the turns would come out as they were."""
    fx.run(commit_all(Memory.file(path), [asked("a"), ONE, approved()]))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in [0, *order]))

    assert "it is doubled or was moved" in _refused(Memory.file(path).turns()).description


def test_the_remedy_helps(path: Path) -> None:
    """Without the damaged line the others are read, and go on."""
    _damaged(path, 3, None)
    fx.run(Memory.file(path).commit(ONE))

    assert _turns(path) == (ONE, THREE, ONE)


def test_a_damaged_line_matters_to_whoever_needs_it(path: Path) -> None:
    """A window that ends before it is loaded, and turns are appended."""
    _damaged(path, 3, b"rubbish\n")
    memory = Memory.file(path, Compaction.window(2))
    fx.run(memory.commit(ONE))

    assert fx.run(memory.load()) == THREE + ONE
    assert "line 3" in str(_refused(memory.turns()))


def test_rubbish_at_the_end_is_not_taken_for_a_cut_line(path: Path) -> None:
    """What no commit begins with was not left by one: it is refused, and nothing is removed."""
    path.write_bytes(path.read_bytes() + b"notes of mine")
    before = path.read_bytes()
    failures = [_refused(one) for one in (Memory.file(path).load(), Memory.file(path).commit(ONE))]

    assert all("line 5 of" in one.description for one in failures)
    assert path.read_bytes() == before


@every("doing", ["load", "commit", "turns", "clear"])
@every("text", [b"my diary", b'{"format":"fxai memory","version":2}\n', b"\n"])
def test_a_file_of_somebody_else_is_left_alone(doing: str, text: bytes, tmp_path: Path) -> None:
    """A path given by mistake costs nobody his file."""
    path = tmp_path / "diary.txt"
    path.write_bytes(text)
    memory = Memory.file(path)
    effects: dict[str, Any] = {"load": memory.load(), "commit": memory.commit(ONE)}
    failure = _refused({**effects, "turns": memory.turns(), "clear": memory.clear()}[doing])

    assert failure.doing == doing
    assert "not a memory of this version of fxai. Use another path, or move it away." in failure.description
    assert path.read_bytes() == text


def test_blank_lines_and_other_line_ends_do_no_harm(path: Path) -> None:
    """As editors leave them behind the first line."""
    first, *lines = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + b"\r\n\r\n".join(lines) + b"\r\n\r\n")
    fx.run(Memory.file(path).commit(ONE))

    assert _turns(path) == (ONE, TWO, THREE, ONE)


# -- long files


def test_lines_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    """Turns of hundreds of kilobytes, and short ones between them."""
    path = tmp_path / "memory.jsonl"
    turns = [chat("x" * size) for size in (200_000, 1, 65_000, 65_536, 131_072, 0, 70_000)]
    fx.run(commit_all(Memory.file(path), turns))

    assert _turns(path) == tuple(turns)


def test_a_window_reads_the_end_of_a_file_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many turns, two are decoded."""
    fx.run(commit_all(Memory.file(path), [chat(str(n)) for n in range(100)]))
    read: list[object] = []
    from_json = Prompt.from_json

    def counted(text: str | bytes) -> Any:
        read.append(text)
        return from_json(text)

    monkeypatch.setattr(Prompt, "from_json", staticmethod(counted))
    said = fx.run(Memory.file(path, Compaction.window(2)).load())

    assert (said, len(read)) == (chat("98") + chat("99"), 2)


def test_dropping_old_turns_keeps_the_file_short(tmp_path: Path) -> None:
    """It holds less than twice the turns that are kept; answers are put where they belong before."""
    path = tmp_path / "memory.jsonl"
    memory = Memory.file(path, keep=3)
    lengths: list[int] = []
    for n in range(20):
        fx.run(memory.commit(chat(str(n))))
        lengths.append(path.read_bytes().count(b"\n") - 1)
    fx.run(commit_all(memory, [THREE, asked("a"), ONE, approved(), TWO]))

    assert max(lengths) == 5
    assert _turns(path) == (asked("a") + approved(), ONE, TWO)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["memory.jsonl", "memory.jsonl.lock"]


def test_a_file_that_cannot_be_written_anew_loses_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn is kept and the file stays long; the next commit tries again."""
    memory = Memory.file(tmp_path / "memory.jsonl", keep=1)
    fx.run(commit_all(memory, [ONE]))
    with monkeypatch.context() as patched:
        patched.setattr("fxai.storage.journal_file.replace_file", _full)
        fx.run(memory.commit(TWO))
        kept = fx.run(memory.turns())
        long = len(_turns(tmp_path / "memory.jsonl"))
    fx.run(memory.commit(THREE))

    assert (kept, long) == ((TWO,), 2)
    assert _turns(tmp_path / "memory.jsonl") == (THREE,)


def _full(_: object, __: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _never(_: int) -> bool:
    return False


def test_a_lock_that_nobody_lets_go_is_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process hangs: it says which lock, and what to do, and the file is as it was."""
    before = path.read_bytes()
    monkeypatch.setattr("fxai.storage.private_file.take_lock", _never)
    monkeypatch.setattr("fxai.storage.private_file.time.monotonic", iter(range(0, 1000, 20)).__next__)
    failure = _refused(Memory.file(path).commit(ONE))

    assert "memory.jsonl.lock for 30 s. End the process that blocks it" in failure.description
    assert path.read_bytes() == before
