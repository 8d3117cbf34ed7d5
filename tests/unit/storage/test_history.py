"""Histories in files and databases: saves that append, saves that replace, and damage."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import AssistantMessage, Prompt, ToolMessage, ToolResultPart, UserMessage
from fxai.storage import history as storage_history
from fxai.storage.history import FileHistories, Histories, ProcessHistories, TableHistories
from fxai.storage.journal import TableJournal
from fxai.storage.journal_file import FileJournal
from fxai.storage.private_file import file_name
from tests.kit.memories import chat
from tests.kit.reaching import Reached
from tests.kit.trials import examples

KINDS = ("files", "sqlite")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
LONG = "x" * 2_000


def _histories(kind: str, folder: Path) -> Histories:
    return FileHistories(folder) if kind == "files" else TableHistories(folder / "chats.db")


def _file(folder: Path, chat_id: str = "a") -> Path:
    return folder / f"{file_name(chat_id)}.json"


def _result(text: str) -> ToolMessage:
    return ToolMessage.make(ToolResultPart("c1", "wipe", text))


def _load(histories: Histories) -> Prompt | None:
    return histories.load("a", now=0.0)


# -- cost


def _written(what: str = "wchar") -> int:
    """Return how many bytes this process has written, or read."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


@pytest.mark.skipif(sys.platform != "linux", reason="bytes are counted in /proc")
@of_each_kind
def test_a_turn_writes_as_much_in_a_long_history_as_in_a_short_one(kind: str, tmp_path: Path) -> None:
    """Also a turn whose results replace the results "outcome unknown" of the save before."""
    histories = _histories(kind, tmp_path)
    history, costs = Prompt.empty, list[int]()

    def turn(number: int) -> Prompt:
        asked = history.append(UserMessage.make(f"{number} {LONG}"), AssistantMessage.make("calls"))
        histories.save("a", asked, None)
        histories.save("a", asked.append(_result("unknown")), None)
        ended = asked.append(_result("gone"), AssistantMessage.make(LONG))
        histories.save("a", ended, None)
        return ended

    for number in range(30):
        before = _written()
        history = turn(number)
        costs.append(_written() - before)

    assert _load(histories) == history
    assert max(costs[-10:]) < 1.5 * max(costs[1:11]), costs


@of_each_kind
@pytest.mark.parametrize("is_known", [True, False])
def test_histories_encode_and_digest_only_the_messages_of_a_turn(
    kind: str, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first turn of a program digests the stored messages, to read them."""
    encoded, digested, decoded = list[int](), list[int](), list[int]()
    for name, counts in (("messages_to_json", encoded), ("_next_mark", digested), ("_history", decoded)):
        monkeypatch.setattr(storage_history, name, _counting(getattr(storage_history, name), counts))
    known, costs = None, list[tuple[int, int, int]]()
    histories = _histories(kind, tmp_path)
    histories.save("a", chat("first"), None)
    for number in range(20):
        for counts in (encoded, digested, decoded):
            counts.clear()
        history = histories.reload("a", known, 0.0)
        assert history is not None
        asked = history.append(UserMessage.make(str(number)), AssistantMessage.make("calls"))
        doubt = asked.append(_result("unknown"))
        ended = Prompt(asked).append(_result("gone"), AssistantMessage.make("done"))
        for saved in (asked, doubt, ended):
            histories.save("a", saved, None)
        known = ended if is_known else None
        costs.append((len(encoded), len(digested), len(decoded)))

    assert _load(_histories(kind, tmp_path)) == histories.reload("a", known, 0.0)
    assert [one for one, *_ in costs] == [5] * 20
    assert not is_known or costs[1:] == [(5, 5, 0)] * 19


def _counting(f: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    def count(*given: Any) -> Any:
        calls.append(1)
        return f(*given)

    return count


@pytest.mark.skipif(sys.platform != "linux", reason="bytes are counted in /proc")
@of_each_kind
def test_a_turn_reads_as_much_in_a_long_history_as_in_a_short_one(kind: str, tmp_path: Path) -> None:
    """The program that saved the last turn reads only the last save."""
    histories = _histories(kind, tmp_path)
    histories.save("a", chat("first"), None)
    known, costs = histories.reload("a", None, 0.0), list[int]()
    for _ in range(40):
        before = _written("rchar")
        history = histories.reload("a", known, 0.0)
        assert history is not None
        known = history + chat(LONG)
        histories.save("a", known, None)
        costs.append(_written("rchar") - before)

    assert max(costs[-10:]) < 1.5 * max(costs[5:15]), costs


@of_each_kind
def test_a_stored_history_takes_about_as_much_room_as_its_messages(kind: str, tmp_path: Path) -> None:
    """Histories that are edited again and again leave nothing behind."""
    histories = _histories(kind, tmp_path)
    for number in range(15):
        histories.save("a", Prompt.make(f"{number} {LONG * 5}") + chat(LONG), None)
        histories.save("a", Prompt.make(f"{number} {LONG * 5}") + chat(LONG) + chat("more"), None)

    size = sum(one.stat().st_size for one in tmp_path.rglob("*") if one.is_file())

    assert size < 10 * len(LONG) * 5


# -- one meaning


@st.composite
def _steps(draw: st.DrawFn) -> tuple[str, int, str]:
    kinds = ["extend", "extend", "extend", "doubt", "settle", "edit", "shorten", "delete", "expire", "same", "other"]
    return draw(st.sampled_from(kinds)), draw(st.integers(0, 6)), draw(st.text(max_size=3))


def _next(history: Prompt, step: str, location: int, text: str) -> Prompt:
    """The history that is saved next."""
    if step in ("extend", "other"):
        return history + chat(text)
    if step == "doubt":
        return history.append(_result("unknown"))
    if step == "settle":
        ends = [at for at, message in enumerate(history) if message.role == "tool"][-1:]
        return Prompt(history.messages[: ends[0] if ends else None]).append(_result(text), AssistantMessage.make(text))
    if step == "edit":
        return Prompt(history.messages[:location]) + chat(f"edited {text}")
    return Prompt(history.messages[:location]) if step == "shorten" else history


@of_each_kind
def test_histories_of_every_kind_are_one(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """After the same saves they load the same history, from the same or from another object.

    One object continues the histories that it reloaded. In the step "other", another program saves.
    """
    reached = Reached()

    @settings(max_examples=examples(40))
    @given(st.lists(_steps(), max_size=12))
    def holds(steps: list[tuple[str, int, str]]) -> None:
        folder, process, history = tmp_path_factory.mktemp("histories"), ProcessHistories(), Prompt.empty
        histories, known = _histories(kind, folder), None
        for step, location, text in steps:
            reached(step)
            if step == "delete":
                histories.delete("a")
                process.delete("a")
                history = Prompt.empty
            else:
                history = _next(known or history, step, location, text)
                for one in (_histories(kind, folder) if step == "other" else histories, process):
                    one.save("a", history, 1.0 if step == "expire" else None)
            known = histories.reload("a", history, 0.0)
            assert known == process.load("a", 0.0)
            assert histories.reload("a", known, 2.0) == process.load("a", 2.0)
            for now in (0.0, 2.0):
                assert _histories(kind, folder).load("a", now) == process.load("a", now)

    reached.by(holds, extend=3, doubt=3, settle=3, edit=3, shorten=3, delete=3, expire=3, other=3)


@of_each_kind
def test_a_save_of_another_program_is_not_mixed_with_ours(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that saves between our look and our write: the history is ours, whole."""
    ours, theirs = _histories(kind, tmp_path), _histories(kind, tmp_path)
    ours.save("a", chat("one"), None)
    journal: Any = FileJournal if kind == "files" else TableJournal
    append, met = journal.append, list[bool]()

    def meet(*given: Any) -> None:
        if not met:
            met.append(True)
            theirs.save("a", chat("other"), None)
        append(*given)

    monkeypatch.setattr(journal, "append", meet)
    ours.save("a", chat("one") + chat("two"), None)

    assert met == [True]
    assert _load(theirs) == chat("one") + chat("two")


def test_what_was_edited_away_is_in_no_file(tmp_path: Path) -> None:
    """Only results in doubt may stay beside the results that replace them."""
    histories = FileHistories(tmp_path)
    histories.save("a", chat("hello") + chat("a secret"), None)
    histories.save("a", chat("hello") + chat("a secret").append(_result("unknown")), None)
    histories.save("a", chat("hello") + chat("edited"), None)

    assert [b"secret" in one.read_bytes() for one in tmp_path.iterdir()] == [False] * len(list(tmp_path.iterdir()))
    assert _load(histories) == chat("hello") + chat("edited")


# -- damage


def _uses(histories: Histories) -> list[Callable[[], object]]:
    return [lambda: _load(histories), lambda: histories.save("a", chat("x"), None)]


def _three_turns(histories: Histories) -> list[Prompt]:
    saved = [chat("one"), chat("one") + chat("two"), chat("one") + chat("two") + chat("three")]
    for history in saved:
        histories.save("a", history, None)
    return saved


def test_a_line_that_was_cut_while_it_was_written_is_dropped(tmp_path: Path) -> None:
    """Nobody was told that it is saved: the history before it stays, wherever the line ends, and goes on."""
    histories = FileHistories(tmp_path)
    path = _file(tmp_path)
    two = _three_turns(histories)[1]
    whole = path.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    histories.save("b", chat("one"), None)
    histories.save("b", chat("one") + chat("two"), None)
    head = _file(tmp_path, "b").read_bytes().split(b"\n")[0]  # of a file with two commits
    for end in [*range(start, len(whole) - 1, 31), len(whole) - 2]:
        path.write_bytes(head + whole[whole.index(b"\n") : end])

        assert _load(histories) == two

    histories.save("a", two + chat("again"), None)

    assert _load(histories) == two + chat("again")


def test_an_acknowledged_line_that_was_cut_is_an_error(tmp_path: Path) -> None:
    """Wherever it was cut, and when another turn is saved: what was said is not forgotten in silence."""
    histories = FileHistories(tmp_path)
    path = _file(tmp_path)
    history = _three_turns(histories)[-1]
    whole = path.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in [start - 1, *range(start, len(whole) - 1, 31), len(whole) - 2]:
        path.write_bytes(whole[:end])
        with pytest.raises(OSError, match=r"of its 3 commits the last 1 are missing\. Restore the file from a backup"):
            _load(histories)
        with pytest.raises(OSError, match="the last 1 are missing"):
            histories.save("a", history + chat("four"), None)

        assert path.read_bytes() == whole[:end]


def test_a_file_can_go_on_with_what_is_there(tmp_path: Path) -> None:
    """The words of the error say how."""
    histories = FileHistories(tmp_path)
    path = _file(tmp_path)
    two = _three_turns(histories)[1]
    head, first, second, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + first + second)
    with pytest.raises(OSError, match="change its first line to") as raised:
        _load(histories)
    mended = str(raised.value).partition("change its first line to ")[2]
    path.write_bytes(mended.encode() + b"\n" + first + second)

    assert _load(histories) == two


@pytest.mark.parametrize("line", [1, 2])
def test_an_earlier_line_that_is_missing_is_an_error(line: int, tmp_path: Path) -> None:
    """A history is whole or is not read."""
    histories = FileHistories(tmp_path)
    _three_turns(histories)
    lines = _file(tmp_path).read_bytes().splitlines(keepends=True)
    _file(tmp_path).write_bytes(b"".join([*lines[:line], *lines[line + 1 :]]))

    with pytest.raises(OSError, match=r"an earlier save is missing or was changed\. Restore it from a backup"):
        _load(histories)


def test_lines_of_another_chat_are_an_error(tmp_path: Path) -> None:
    """Their numbers and digests are right, but they are not what was said here."""
    histories = FileHistories(tmp_path)
    _three_turns(histories)
    for history in (chat("x"), chat("x") + chat("y"), chat("x") + chat("y") + chat("z")):
        histories.save("b", history, None)
    ours, theirs = (_file(tmp_path, name).read_bytes().splitlines(keepends=True) for name in "ab")
    _file(tmp_path).write_bytes(b"".join([*ours[:2], theirs[2], ours[3]]))
    with pytest.raises(OSError, match="an earlier save is missing or was changed"):
        _load(histories)
    _file(tmp_path).write_bytes(b"".join(theirs))

    for use in _uses(histories):
        with pytest.raises(OSError, match=r"contains another chat, 'b'\. Restore it from a backup, or move it away"):
            use()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE chat_save SET data = replace(data, 'two', 'six') WHERE number = 2", "save 2 is damaged: the row was "),
        ("DELETE FROM chat_save WHERE number = 2", "an earlier save is missing or was changed. Restore it"),
        ("DELETE FROM chat_save WHERE number = 1", "an earlier save is missing or was changed. Restore it"),
        ("DELETE FROM chat_save WHERE number = 3", "save 3 is missing. Restore the database"),
        ("DELETE FROM chat_save", "saves 1 to 3 are missing. Restore the database"),
        ("UPDATE chat_save SET data = '{\"data\":7' WHERE number = 3", "save 3 is damaged: the row does not contain"),
    ],
)
def test_rows_that_were_changed_or_lost_are_an_error(statement: str, said: str, tmp_path: Path) -> None:
    """The chat can be deleted, which begins it anew."""
    histories = TableHistories(tmp_path / "chats.db")
    _three_turns(histories)
    with closing(sqlite3.connect(tmp_path / "chats.db", isolation_level=None)) as database:
        database.execute(statement)
    with pytest.raises(OSError, match=said):
        _load(histories)
    histories.delete("a")

    assert _load(histories) is None


@pytest.mark.parametrize("content", [b"", b"garbage", b'{"chat":"a","expires":null}', b'{"format":"fxai'])
def test_a_file_that_is_no_chat_is_left_alone_until_it_is_deleted(content: bytes, tmp_path: Path) -> None:
    """Neither read nor replaced; who deletes the chat begins it anew."""
    histories = FileHistories(tmp_path)
    _file(tmp_path).write_bytes(content)
    _file(tmp_path).chmod(0o600)
    for use in _uses(histories):
        with pytest.raises(OSError, match=r"chat|empty|cut off"):
            use()

    assert _file(tmp_path).read_bytes() == content

    histories.delete("a")

    assert _load(histories) is None
