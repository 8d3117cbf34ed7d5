"""Journals: the same in process, in a file and in SQLite; one owner, whatever the process; damage is named."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Result, Success

from fxai.effects import Backend, Effect, Gen, Scope, fx
from fxai.storage.journal import JSON, Entry, Journal, ProcessJournal, TableJournal
from fxai.storage.journal_file import FileJournal
from tests.kit.trials import examples

ROOT = Path(__file__).parents[3]
KINDS = ("process", "file", "sqlite")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
between_processes = pytest.mark.parametrize("kind", KINDS[1:])


def _journal(kind: str, folder: Path, keep: int | None = None, name: str = "run 7") -> Journal[Any]:
    if kind == "process":
        return ProcessJournal(keep)
    if kind == "file":
        return FileJournal(folder / "run.jsonl", JSON, keep)
    return TableJournal(folder / "runs.db", name, JSON, keep)


def _all(journal: Journal[Any]) -> list[tuple[int, tuple[Any, ...]]]:
    return journal.read(lambda entries: [(one.number, one.parts) for one in entries])[::-1]


def _to(number: int) -> Callable[[Iterator[Entry[Any]]], Entry[Any] | None]:
    return lambda entries: next((one for one in entries if one.number == number), None)


# -- entries


@of_each_kind
def test_a_part_goes_on_with_the_entry_that_is_chosen(kind: str, tmp_path: Path) -> None:
    """What is written ahead is one part, what came of it the next; an entry that lacks that is in doubt."""
    journal = _journal(kind, tmp_path)
    for path in ("a", "b"):
        journal.append({"call": path})
    journal.append({"result": [1, None]}, _to(1))

    assert _all(journal) == [(1, ({"call": "a"}, {"result": [1, None]})), (2, ({"call": "b"},))]
    assert [number for number, parts in _all(journal) if len(parts) == 1] == [2]


@of_each_kind
def test_who_chooses_sees_the_newest_first_and_reads_no_more(kind: str, tmp_path: Path) -> None:
    """Of many entries, as many as it asks for."""
    journal, seen = _journal(kind, tmp_path), list[int]()
    for number in range(9):
        journal.append(number)

    def second(entries: Iterator[Entry[Any]]) -> Entry[Any]:
        seen.append(next(entries).number)
        return next(entries)

    journal.append("more", second)

    assert seen == [9]
    assert _all(journal)[7:] == [(8, (7, "more")), (9, (8,))]


def test_journal_in_the_process_copies_no_entries_for_a_reader_of_the_newest() -> None:
    """A reader of one entry uses the same memory for a long journal as for a short one."""

    def peak(size: int) -> int:
        journal = ProcessJournal[int]()
        for number in range(size):
            journal.append(number)
        tracemalloc.start()
        try:
            assert journal.read(next).number == size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    assert peak(10_000) < peak(1) + 1_000


@of_each_kind
def test_nothing_is_appended_where_the_choice_fails(kind: str, tmp_path: Path) -> None:
    """It is as it was, and goes on."""

    def refuse(_: Iterator[Entry[Any]]) -> None:
        raise ZeroDivisionError

    journal = _journal(kind, tmp_path)
    journal.append("one")
    with pytest.raises(ZeroDivisionError):
        journal.append("two", refuse)
    journal.append("three")

    assert _all(journal) == [(1, ("one",)), (2, ("three",))]


def test_journals_of_a_database_are_apart(tmp_path: Path) -> None:
    """Each has its own entries and numbers; so has what is no journal."""
    one, other = (_journal("sqlite", tmp_path, name=name) for name in ("run 1", "run 2"))
    one.append("a")
    other.append("b")
    one.clear()

    assert (_all(one), _all(other)) == ([], [(1, ("b",))])


KIND_OF_STEP = st.sampled_from(["begin", "begin", "go on", "clear"])
STATES = st.none() | st.integers() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
STEPS = st.lists(st.tuples(KIND_OF_STEP, st.integers(0, 5), st.text(max_size=3), STATES), max_size=10)


@settings(max_examples=examples(15))
@given(STEPS, st.none() | st.integers(1, 3))
def test_journals_of_every_kind_are_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str, Any]], keep: int | None
) -> None:
    """The same entries and the same state after the same steps."""

    def run(kind: str) -> list[Any]:
        journal, seen = _journal(kind, tmp_path_factory.mktemp("journal"), keep), list[Any]()
        for step, location, text, state in steps:
            numbers = [number for number, _ in _all(journal)]
            if step == "clear":
                journal.clear()
            elif step == "begin" or not numbers:
                journal.append(text, state=state)
            else:
                journal.append(text, _to(numbers[location % len(numbers)]), state)
            seen.append((_all(journal), journal.read_state()))
        return seen

    def last_state() -> Any:
        begun = max((at for at, (step, *_) in enumerate(steps) if step == "clear"), default=-1)
        given_ = [state for *_, state in steps[begun + 1 :] if state is not None]
        return given_[-1] if given_ else None

    process, file, sqlite = (run(kind) for kind in KINDS)

    assert process == file == sqlite
    assert all(keep is None or len(entries) <= keep for entries, _ in process)
    assert not steps or process[-1][1] == last_state()


@of_each_kind
def test_a_state_that_was_appended_last_counts(kind: str, tmp_path: Path) -> None:
    """Whichever entry it came with, and though that is not kept any more; a part without one leaves it."""
    journal, seen = _journal(kind, tmp_path, keep=2), list[Any]()
    seen.append(journal.read_state())
    for part, to, state in (("a", None, 1), ("b", None, 2), ("c", _to(1), 3), *[(n, None, None) for n in range(9)]):
        journal.append(part, to, state)
        seen.append(journal.read_state())

    assert seen == [None, 1, 2, *[3] * 10]
    assert len(_all(journal)) == 2


def test_a_part_without_a_state_is_written_as_ever(tmp_path: Path) -> None:
    """The lines of a file do not mention a state."""
    journal = _journal("file", tmp_path)
    journal.append("a")
    journal.read_state()
    journal.clear()
    journal.append("b")

    assert "state" not in (tmp_path / "run.jsonl").read_text()


@between_processes
def test_nothing_is_appended_with_a_state_that_cannot_be_written(kind: str, tmp_path: Path) -> None:
    """Neither of both."""
    journal = _journal(kind, tmp_path)
    journal.append("one", state=1)
    with pytest.raises(TypeError):
        journal.append("two", state=object())

    assert (_all(journal), journal.read_state()) == ([(1, ("one",))], 1)


# -- damage


@between_processes
def test_what_was_changed_is_named(kind: str, tmp_path: Path) -> None:
    """With the names that its form gives it."""
    journal = _journal(kind, tmp_path)
    journal.append("milk")
    if isinstance(journal, FileJournal):
        journal.path.write_bytes(journal.path.read_bytes().replace(b"milk", b"beer"))
        said = r"line 2 of .* is damaged: not a commit of a journal"
    else:
        import sqlite3

        database = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        database.execute("UPDATE journal_entry SET data = replace(data, 'milk', 'beer')")
        database.close()
        said = r"entry 1 is damaged: the row was changed\. Restore .*, or remove .* from the table journal_entry"

    with pytest.raises(OSError, match=said):
        _all(journal)


@between_processes
def test_a_state_that_was_changed_is_named(kind: str, tmp_path: Path) -> None:
    """Where it stands, and what to do about it."""
    import sqlite3

    journal = _journal(kind, tmp_path)
    journal.append("a", state="milk")
    if isinstance(journal, FileJournal):
        journal.path.write_bytes(journal.path.read_bytes().replace(b"milk", b"beer"))
        said = r"line 2 of .* is damaged: not a commit of a journal, or changed"
    else:
        database = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        database.execute("UPDATE journal_state SET state = replace(state, 'milk', 'beer')")
        database.close()
        said = r"the state in the table journal_state is damaged: the row was changed\. Restore the database"

    with pytest.raises(OSError, match=said):
        journal.read_state()


def test_a_file_of_another_form_is_left_alone(tmp_path: Path) -> None:
    """A memory is no journal of runs."""
    path = tmp_path / "run.jsonl"
    path.write_text('{"format":"fxai memory","version":1}\n')

    journal = _journal("file", tmp_path)
    uses: list[Callable[[], Any]] = [lambda: journal.append("x"), journal.clear, lambda: _all(journal)]
    for use in uses:
        with pytest.raises(OSError, match=r"not a journal of this version of fxai\. Use another path"):
            use()
    assert path.read_text() == '{"format":"fxai memory","version":1}\n'


# -- owners


def _tried(journal: Journal[Any]) -> Effect[Result[None, OSError]]:
    return fx.scoped(journal.own(wait=False)).result()


@of_each_kind
def test_one_program_owns_it_at_a_time(kind: str, tmp_path: Path, backend: Backend) -> None:
    """The others wait for it."""
    journal, seen = _journal(kind, tmp_path), list[str]()

    @fx.gen
    def own(name: str) -> Gen[None, OSError, Scope]:
        yield from journal.own()
        seen.append(name)
        yield from fx.checkpoint()
        seen.append(name)

    fx.run(fx.for_each("abc", lambda name: fx.scoped(own(name)), concurrency=None), backend=backend)

    assert sorted(seen[::2]) == ["a", "b", "c"]
    assert seen[::2] == seen[1::2]


@of_each_kind
def test_who_does_not_wait_for_an_owner_is_told(kind: str, tmp_path: Path, backend: Backend) -> None:
    """By a failure of its own type; writers are not held off, and it is free again when the scope has closed."""
    journal = _journal(kind, tmp_path)

    @fx.gen
    def own() -> Gen[Result[None, OSError], OSError, Scope]:
        yield from journal.own()
        journal.append("x")
        return (yield from _tried(journal))

    refused = fx.run(fx.scoped(own()), backend=backend)

    assert isinstance(refused.failure(), BlockingIOError)
    assert fx.run(_tried(journal), backend=backend) == Success(None)
    assert _all(journal) == [(1, ("x",))]


MAKE = """
import sys
import tracemalloc
from pathlib import Path
from fxai.storage.journal import JSON, TableJournal
from fxai.storage.journal_file import FileJournal
folder = Path(sys.argv[2])
if sys.argv[1] == "file":
    journal = FileJournal(folder / "run.jsonl", JSON)
else:
    journal = TableJournal(folder / "runs.db", "run 7", JSON)
"""

OWNER = f"""{MAKE}
from fxai.effects import fx

@fx.gen
def own():
    yield from journal.own()
    journal.append("begun")
    print("owned", flush=True)
    sys.stdin.read()

fx.run(fx.scoped(own()))
"""


def _owner(kind: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, kind, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@between_processes
def test_a_process_that_is_killed_owns_nothing_any_more(kind: str, tmp_path: Path) -> None:
    """Of two that want to go on with it one does; the other takes over when that is killed, and sees its entries."""
    journal = _journal(kind, tmp_path)
    first = _owner(kind, tmp_path)
    said = [_line(first)]
    second = _owner(kind, tmp_path)
    refused = fx.run(_tried(journal))
    while_owned = len(_all(journal))
    first.kill()
    first.communicate()
    said.append(_line(second))
    second.communicate("")

    assert said == ["owned", "owned"]
    assert isinstance(refused.failure(), BlockingIOError)
    assert while_owned == 1
    assert _all(journal) == [(1, ("begun",)), (2, ("begun",))]
    assert fx.run(_tried(journal)) == Success(None)


WRITER = f"""{MAKE}
who = sys.argv[3]
for n in range(8):
    journal.append([who, n])
    journal.append("done", lambda entries: next(one for one in entries if one.parts[0] == [who, n]))
"""


@pytest.mark.slow
@between_processes
def test_processes_that_append_at_once_lose_nothing(kind: str, tmp_path: Path) -> None:
    """Each entry of each process is there once, in its order, and has its second part."""
    command = [sys.executable, "-c", WRITER, kind, str(tmp_path)]
    started = [subprocess.Popen([*command, who], cwd=ROOT, stderr=subprocess.PIPE) for who in "xyz"]
    complaints = [one.communicate()[1] for one in started]
    entries = _all(_journal(kind, tmp_path))

    assert complaints == [b"", b"", b""]
    assert [number for number, _ in entries] == list(range(1, 25))
    for who in "xyz":
        assert [parts for _, parts in entries if parts[0][0] == who] == [([who, n], "done") for n in range(8)]


def test_a_file_is_lines_of_json(tmp_path: Path) -> None:
    """With the names of its form."""
    journal = _journal("file", tmp_path)
    journal.append({"a": 1})
    head, line = [json.loads(text) for text in (tmp_path / "run.jsonl").read_text().splitlines()]

    assert (head["format"], head["commits"]) == ("fxai journal", "000000000001")
    assert {**line, "digest": ""} == {"entry": 1, "part": 0, "newest": 1, "data": {"a": 1}, "commit": 1, "digest": ""}


# -- losses


def _delete(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "runs.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def _lines(folder: Path) -> list[bytes]:
    return (folder / "run.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("part", [0, 1])
def test_table_journal_refuses_an_entry_without_one_of_its_parts(part: int, tmp_path: Path) -> None:
    """A call is not read without its result, and a result is not read without its call."""
    journal = _journal("sqlite", tmp_path)
    journal.append("call")
    journal.append("result", _to(1))
    journal.append("another")
    _delete(tmp_path, f"DELETE FROM journal_entry WHERE number = 1 AND part = {part}")

    with pytest.raises(OSError, match="entry 1 is damaged: a part is missing"):
        _all(journal)


def test_file_journal_refuses_an_entry_without_its_first_part(tmp_path: Path) -> None:
    """The error names the line of the part that remains."""
    journal = _journal("file", tmp_path)
    journal.append("call")
    journal.append("another")
    journal.append("result", _to(1))
    head, _, *others = _lines(tmp_path)
    (tmp_path / "run.jsonl").write_bytes(b"".join([head, *others]))

    with pytest.raises(OSError, match=r"line 3 .*the start of its entry is missing"):
        _all(journal)


def test_table_journal_warns_of_missing_oldest_entries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The other entries are read."""
    journal = _journal("sqlite", tmp_path)
    for number in range(3):
        journal.append(number)
    _delete(tmp_path, "DELETE FROM journal_entry WHERE number = 1")

    assert [number for number, _ in _all(journal)] == [2, 3]
    assert [message.partition(" of ")[0] for message in caplog.messages] == ["entry 1 is missing"]


def test_table_journal_refuses_its_state_if_all_rows_are_lost(tmp_path: Path) -> None:
    """A run whose rows and state are gone is not taken for a new run."""
    journal = _journal("sqlite", tmp_path)
    journal.append("one", state={"step": 1})
    _delete(tmp_path, "DELETE FROM journal_entry", "DELETE FROM journal_state")

    with pytest.raises(OSError, match="the database is incomplete or damaged: entry 1 is missing"):
        journal.read_state()


def test_file_journal_drops_old_entries_when_it_contains_twice_as_many_as_it_keeps(tmp_path: Path) -> None:
    """Until then, a commit only appends a line."""
    journal, counts = _journal("file", tmp_path, keep=3), list[int]()
    for number in range(7):
        journal.append(number)
        counts.append(len(_lines(tmp_path)) - 1)

    assert counts == [1, 2, 3, 4, 5, 3, 4]
    assert [parts for _, parts in _all(journal)] == [(4,), (5,), (6,)]


def test_file_journal_reads_lines_that_a_person_wrote(tmp_path: Path) -> None:
    """Such a line has neither a digest nor the number of its commit."""
    journal = _journal("file", tmp_path)
    for number in range(3):
        journal.append(number)
    head, first, second, third = _lines(tmp_path)
    told = json.loads(second)
    written = json.dumps({name: told[name] for name in ("entry", "part", "newest", "data")}).encode() + b"\n"
    (tmp_path / "run.jsonl").write_bytes(head + first + written + third)

    assert _all(journal) == [(1, (0,)), (2, (1,)), (3, (2,))]


@pytest.mark.parametrize(("torn", "is_saved"), [(b"\0" * 9, False), (b'{"entry":2,"pa\0\0', True)])
def test_file_journal_saves_the_rest_of_a_cut_commit_unless_it_is_empty(
    torn: bytes, is_saved: bool, tmp_path: Path
) -> None:
    """After a power cut, the end of a file can consist of zeros."""
    journal = _journal("file", tmp_path)
    for number in range(2):
        journal.append(number)
    *others, _ = _lines(tmp_path)
    (tmp_path / "run.jsonl").write_bytes(b"".join(others) + torn)
    journal.append("again")

    assert [parts for _, parts in _all(journal)] == [(0,), ("again",)]
    assert (tmp_path / "run.jsonl.torn").exists() == is_saved
