"""Where things are kept: paths that can be none, working folders that change, names and files of strangers."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fxai.agents import Memory, MemoryFailure
from fxai.effects import EffectOf, Failed, Gen, fx
from fxai.mcp import McpError, Pins
from fxai.messages import AiError, Prompt
from fxai.models import ApprovalLedger, ChatStore, ChatStoreError
from fxai.storage.private_file import file_name
from tests.kit.every import every

Make = Callable[[str], Any]

DATABASES: list[Make] = [Memory.sqlite, ChatStore.sqlite, ApprovalLedger.sqlite]
FILES: list[Make] = [Memory.file, ApprovalLedger.file, Pins.file, *DATABASES]
HALF = "\ud800"
DEEP = "[" * 100_000 + "]" * 100_000
SAID = Prompt.make("Hello")


def _failure(effect: Any) -> Any:
    end = fx.run_exit(effect)
    assert isinstance(end, Failed)
    (failure,) = end.cause.failures
    return failure


def _stored(layer: Any, chat_id: str, use: str, *given: Any) -> Any:
    """What a store of chats does."""
    return fx.gen(_asked)(chat_id, use, *given).provide(layer)


def _asked(chat_id: str, use: str, *given: Any) -> Gen[Any, ChatStoreError, ChatStore]:
    store = yield from ChatStore
    does: Callable[..., EffectOf[Any, ChatStoreError]] = getattr(store, use)
    return (yield from does(chat_id, *given))


def _claimed(name: str) -> Gen[tuple[str, ...], AiError, None]:
    ledger = yield from ApprovalLedger
    return (yield from ledger.claim({name: None}))


@every("make", [*FILES, ChatStore.files])
@every("path", ["a\0b", f"{HALF}.x"])
def test_what_can_be_no_path_is_refused_at_once(make: Make, path: str) -> None:
    """With words that say why, before anything is kept there."""
    with pytest.raises(ValueError, match="it contains a NUL or half a surrogate pair"):
        make(path)


@every("make", FILES)
@every("path", ["", ".", "..", "/", "a/.."])
def test_a_folder_is_no_file(make: Make, path: str) -> None:
    """A file is asked for, and the path says that it is a folder."""
    with pytest.raises(ValueError, match=r"is a directory\. Use the path of a file"):
        make(path)


@pytest.mark.parametrize("make", DATABASES)
def test_a_database_that_nothing_keeps_is_refused(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's `:memory:` would be a new database each time: an approval would be used twice."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="a database that ends with its connection"):
        make(":memory:")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Works in a folder; what it gives goes to another one."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return lambda: monkeypatch.chdir(tmp_path / "there")


def test_an_approval_is_used_once_wherever_the_process_works(folders: Callable[[], None]) -> None:
    """A ledger stays where it was when the working folder changes."""
    layer = ApprovalLedger.sqlite("ledger.db")
    first = fx.run(fx.gen(_claimed)("a").provide(layer))
    folders()

    assert (first, fx.run(fx.gen(_claimed)("a").provide(layer))) == ((), ("a",))


def test_what_was_pinned_stays_pinned_wherever_the_process_works(folders: Callable[[], None]) -> None:
    """Pins stay where they were when the working folder changes."""
    pins = Pins.file("pins.json")
    fx.run(pins.review("git", {"log": {"description": "a"}}))
    folders()

    assert fx.run(pins.review("git", {"log": {"description": "b"}})) == {"log": ("description",)}


@pytest.mark.parametrize("make", [ChatStore.files, ChatStore.sqlite])
def test_a_chat_goes_on_wherever_the_process_works(make: Make, folders: Callable[[], None]) -> None:
    """Chats stay where they were when the working folder changes."""
    layer = make("chats")
    fx.run(_stored(layer, "ann", "save", SAID, None))
    folders()

    assert fx.run(_stored(layer, "ann", "load")) == SAID


@every("make", [ChatStore.files, ChatStore.sqlite])
@every("use", [("save", SAID, None), ("load",), ("delete",)])
def test_an_id_that_cannot_be_written_is_a_typed_failure(make: Make, use: tuple[Any, ...], tmp_path: Path) -> None:
    """An id of a stranger may hold half a surrogate pair."""
    failure = _failure(_stored(make(str(tmp_path / "chats")), HALF, *use))

    assert isinstance(failure, ChatStoreError)
    assert "half a surrogate pair" in str(failure)


def test_a_chat_whose_id_cannot_be_written_is_not_held(tmp_path: Path) -> None:
    """Nor does it leave a lock."""
    held = fx.scoped(_stored(ChatStore.files(tmp_path), HALF, "hold"))

    assert isinstance(_failure(held), ChatStoreError)
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_and_an_approval_that_cannot_be_written_are_typed_failures(tmp_path: Path) -> None:
    """In databases as in files."""
    memory = Memory.sqlite(tmp_path / "memory.db", conversation=HALF)
    ledger = ApprovalLedger.sqlite(tmp_path / "ledger.db")

    for effect in (memory.commit(SAID), memory.load()):
        assert isinstance(failure := _failure(effect), MemoryFailure)
        assert "half a surrogate pair" in str(failure)
    assert isinstance(_failure(fx.gen(_claimed)(HALF).provide(ledger)), AiError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_disk_that_is_full_is_told_with_what_helps(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another path would be as full."""

    def full(*_: object) -> None:
        raise OSError(number, "it is full")

    monkeypatch.setattr("os.fsync", full)
    failure = _failure(Memory.file(tmp_path / "memory.jsonl").commit(SAID))

    assert isinstance(failure, MemoryFailure)
    assert failure.description == "it is full. Free some space."


def _planted(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def _rewritten(path: Path, statement: str, *values: Any) -> None:
    database = sqlite3.connect(path)
    database.execute(statement, values)
    database.commit()
    database.close()


def test_files_that_nest_without_end_are_typed_failures(tmp_path: Path) -> None:
    """Whoever writes such a file ends no program."""
    memory = Memory.file(_planted(tmp_path / "m", f'{{"format":"fxai memory","version":1}}\n{{"turn":1,"x":{DEEP}}}\n'))
    torn = Memory.file(_planted(tmp_path / "t", f'{{"format":"fxai memory","version":1}}\n{{"turn":1,"x":{DEEP}'))
    _planted(tmp_path / "chats" / f"{file_name('ann')}.json", f'{{"chat":"ann","expires":null,"history":{DEEP}}}')
    pins = Pins.file(_planted(tmp_path / "pins.json", f'{{"version":1,"x":{DEEP}}}'))

    assert isinstance(_failure(memory.load()), MemoryFailure)
    assert isinstance(_failure(memory.commit(SAID)), MemoryFailure)
    assert isinstance(_failure(torn.load()), MemoryFailure)
    assert isinstance(_failure(_stored(ChatStore.files(tmp_path / "chats"), "ann", "load")), ChatStoreError)
    assert isinstance(_failure(pins.review("git", {})), McpError)


def test_rows_that_nest_without_end_are_typed_failures(tmp_path: Path) -> None:
    """In databases as in files."""
    memory, chats = tmp_path / "memory.db", tmp_path / "chats.db"
    fx.run(Memory.sqlite(memory).commit(SAID))
    fx.run(_stored(ChatStore.sqlite(chats), "ann", "save", SAID, None))
    _rewritten(memory, "UPDATE memory_turn SET data = ?", f'{{"data":{DEEP}}}')
    _rewritten(chats, "UPDATE chat_save SET data = ?", f'{{"data":{DEEP}}}')

    assert isinstance(_failure(Memory.sqlite(memory).load()), MemoryFailure)
    assert isinstance(_failure(_stored(ChatStore.sqlite(chats), "ann", "load")), ChatStoreError)


@every(("number", "data"), [("one", "{}"), (b"\xff", "{}"), (1, b"\xff"), (1, 7), (1, None)])
def test_a_row_whose_values_are_of_other_types_is_a_typed_failure(number: Any, data: Any, tmp_path: Path) -> None:
    """SQLite holds them to their types when they are written, not when a damaged file is read."""
    path = tmp_path / "chats.db"
    _rewritten(path, "CREATE TABLE chat_save (name TEXT, number, part, data, PRIMARY KEY (name, number, part))")
    _rewritten(path, "CREATE TABLE chat_head (name TEXT PRIMARY KEY, oldest, newest)")
    _rewritten(path, "INSERT INTO chat_save VALUES ('ann', ?, 0, ?)", number, data)
    _rewritten(path, "INSERT INTO chat_head VALUES ('ann', 1, 1)")

    failure = _failure(_stored(ChatStore.sqlite(path), "ann", "load"))

    assert isinstance(failure, ChatStoreError)
    assert "damaged" in str(failure)
