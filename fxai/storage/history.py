"""Histories: conversations by id, each replaced as a whole, in this process, in files or in a SQLite database.

A history may have a time at which it is forgotten. A program that holds an id goes on with its history alone, whatever
the process: it waits for others that hold it, and a process that ends holds nothing any more.

>>> histories = ProcessHistories()
>>> histories.save("ann", Prompt.make("Hello"), None)
>>> histories.load("ann", now=0.0) == Prompt.make("Hello"), histories.load("bob", now=0.0)
(True, None)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final, final

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.effects.concurrency import Locks
from fxai.effects.effect import Effect
from fxai.effects.scope import Scope
from fxai.messages.prompt import Prompt
from fxai.storage import is_intact, read_record, seal
from fxai.storage.private_file import file_name, hold_file, own_folder, read_file, remove_file, replace_file

_REMEDY: Final = "put it back from a copy, or move it away to begin anew"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS chat (id TEXT PRIMARY KEY, history TEXT, expires REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS chat_id (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",  # by which a lost row is noticed
)


class Histories(ABC):
    """Histories by id. Its methods block where `blocks` says so; then they are for worker threads.

    They raise an `OSError` where the system refuses, or what stands there is no history.
    """

    blocks: bool = True
    """Whether it waits for the disk and for other processes."""

    @abstractmethod
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        """Waits until no other program holds the id, then holds it until the scope closes."""

    @abstractmethod
    def load(self, chat_id: str, now: float) -> Prompt | None:
        """The history; None where there is none, or where its time was up before `now`."""

    @abstractmethod
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        """Puts a history in the place of the one that is there, whole or not at all."""

    @abstractmethod
    def delete(self, chat_id: str) -> None:
        """Removes a history; nothing happens where there is none."""


@final
class ProcessHistories(Histories):
    """Histories that end with the process."""

    blocks = False

    def __init__(self) -> None:
        self._histories: dict[str, tuple[Prompt, float | None]] = {}
        self._locks = Locks()

    @override
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        return self._locks.hold(chat_id)

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        history, expires = self._histories.get(chat_id, (None, None))
        return None if _is_over(expires, now) else history

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        self._histories[chat_id] = (history, expires)

    @override
    def delete(self, chat_id: str) -> None:
        self._histories.pop(chat_id, None)


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a file or a row holds; in the first version files had no digest, and rows the history alone."""

    chat: str | None = None  # in a file
    expires: float | None
    history: msgspec.Raw
    digest: str | None = None


def _read(text: bytes, place: str) -> _Record:
    """The record in a file or a row; raises an `OSError` where it is damaged, and says so of the place."""
    try:
        record = read_record(text, _Record)
    except ValueError as error:
        raise OSError(f"{place} holds no chat: {error}; {_REMEDY}") from error
    if record.digest is not None and not is_intact(text):
        raise _damage(place)
    return record


def _damage(place: str) -> OSError:
    return OSError(f"{place} is damaged: what stands in it is not what was written; {_REMEDY}")


def _history(record: _Record, now: float) -> Prompt | None:
    if _is_over(record.expires, now):
        return None
    read = Prompt.from_json(bytes(record.history))
    if isinstance(read, Success):
        history: Prompt = read.unwrap()
        return history
    raise OSError(f"what is stored is no history: {read.failure()}; {_REMEDY}")


def _is_over(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now


def _text(history: Prompt, expires: float | None, chat_id: str | None = None) -> bytes:
    return seal(_Record(chat=chat_id, expires=expires, history=msgspec.Raw(history.to_json().encode())))


@final
class FileHistories(Histories):
    """Histories as JSON files in a folder, with a lock file beside each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        return hold_file(lambda: self._folder / f"{file_name(chat_id)}.lock")

    def _path(self, chat_id: str) -> Path:
        return self._folder / f"{file_name(chat_id)}.json"

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        path = self._path(chat_id)
        try:
            record = _read(read_file(path), str(path))
        except FileNotFoundError:
            return None
        if record.chat != chat_id:
            raise OSError(f"{path} holds another chat, {record.chat!r}; {_REMEDY}")
        return _history(record, now)

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        replace_file(self._path(chat_id), _text(history, expires, chat_id))

    @override
    def delete(self, chat_id: str) -> None:
        remove_file(self._path(chat_id))


@final
class TableHistories(Histories):
    """Histories in a SQLite database, with lock files in a folder beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        folder = self._path.with_name(f"{self._path.name}.locks")
        return hold_file(lambda: own_folder(folder) / f"{file_name(chat_id)}.lock")

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        rows = self._execute(("SELECT history, expires FROM chat WHERE id = ?", (chat_id,)))
        if rows:
            return _history(_read_row(*rows[0]), now)
        if self._execute(("SELECT id FROM chat_id WHERE id = ?", (chat_id,))):
            missing = f"its row is missing in {self._path}"
            raise OSError(f"{missing}; put the database back from a copy, or delete the chat to begin anew")
        return None

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        replace = "DO UPDATE SET history = excluded.history, expires = excluded.expires"
        statement = f"INSERT INTO chat VALUES (?, ?, ?) ON CONFLICT (id) {replace}"
        row = _text(history, expires).decode()
        self._execute(("INSERT OR IGNORE INTO chat_id VALUES (?)", (chat_id,)), (statement, (chat_id, row, expires)))

    @override
    def delete(self, chat_id: str) -> None:
        self._execute(*[(f"DELETE FROM {table} WHERE id = ?", (chat_id,)) for table in ("chat", "chat_id")])

    def _execute(self, *statements: tuple[str, tuple[Any, ...]]) -> list[Any]:
        """The rows of the last of these statements, which are one transaction."""
        from fxai.storage.database import connect, transact  # only where there is a database

        with connect(self._path, *_TABLES) as database:
            if len(statements) == 1:
                return database.execute(*statements[0]).fetchall()
            with transact(database):
                return [database.execute(*one).fetchall() for one in statements][-1]


def _read_row(text: object, expires: object) -> _Record:
    if not isinstance(text, str) or not (expires is None or isinstance(expires, float)):  # of a damaged database
        raise OSError(f"the row is damaged: it holds no text, or no time at which it ends; {_REMEDY}")
    if not text.startswith("{"):
        return _Record(expires=expires, history=msgspec.Raw(text.encode()))
    record = _read(text.encode(), "the row")
    if record.digest is None or record.expires != expires:
        raise _damage("the row")
    return record
