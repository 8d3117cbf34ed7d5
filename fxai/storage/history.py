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

from fxai.effects.concurrency import Lock
from fxai.effects.effect import EffectOf
from fxai.effects.scope import Scope
from fxai.messages.prompt import Prompt
from fxai.storage import is_intact, read_record, seal
from fxai.storage.private_file import file_name, hold_file, own_folder, read_file, remove_file, replace_file

__all__ = ["FileHistories", "Histories", "ProcessHistories", "TableHistories"]

_REMEDY: Final = "put it back from a copy, or move it away to begin anew"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS chat (id TEXT PRIMARY KEY, history TEXT, expires REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS chat_id (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",  # by which a lost row is noticed
)


class Histories(ABC):
    """Histories by id. Its methods block where `blocks` says so; then they are for worker threads."""

    blocks: bool = True
    """Whether it waits for the disk and for other processes."""

    @abstractmethod
    def hold(self, chat_id: str) -> EffectOf[None, OSError, Scope]:
        """Waits until no other program holds the id, then holds it until the scope closes."""

    @abstractmethod
    def load(self, chat_id: str, now: float) -> Prompt | None:
        """The history; None where there is none, or where its time was up before `now`.

        Raises:
            OSError: it cannot be read, or what stands there is no history.
        """

    @abstractmethod
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        """Puts a history in the place of the one that is there, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """

    @abstractmethod
    def delete(self, chat_id: str) -> None:
        """Removes a history; nothing happens where there is none.

        Raises:
            OSError: it cannot be removed.
        """


@final
class ProcessHistories(Histories):
    """Histories that end with the process."""

    blocks = False

    def __init__(self) -> None:
        self._histories: dict[str, tuple[Prompt, float | None]] = {}
        self._locks: dict[str, Lock] = {}

    @override
    def hold(self, chat_id: str) -> EffectOf[None, OSError, Scope]:
        return self._locks.setdefault(chat_id, Lock()).hold()

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


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a file holds."""

    chat: str
    expires: float | None
    history: msgspec.Raw
    digest: str | None = None  # of all that stands before it; the first version wrote none


@final
class FileHistories(Histories):
    """Histories as JSON files in a folder, with a lock file beside each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def hold(self, chat_id: str) -> EffectOf[None, OSError, Scope]:
        return hold_file(lambda: self._folder / f"{file_name(chat_id)}.lock")

    def _path(self, chat_id: str) -> Path:
        return self._folder / f"{file_name(chat_id)}.json"

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        path = self._path(chat_id)
        try:
            text = read_file(path)
        except FileNotFoundError:
            return None
        try:
            file = read_record(text, _File)
        except ValueError as error:
            raise OSError(f"{path} holds no chat: {error}; {_REMEDY}") from error
        if file.digest is not None and not is_intact(text):
            raise OSError(f"{path} is damaged: what stands in it is not what was written; {_REMEDY}")
        if file.chat != chat_id:
            raise OSError(f"{path} holds another chat, {file.chat!r}; {_REMEDY}")
        return None if _is_over(file.expires, now) else _history(file.history)

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        replace_file(self._path(chat_id), seal(_File(chat_id, expires, _raw(history))))

    @override
    def delete(self, chat_id: str) -> None:
        remove_file(self._path(chat_id))


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a row holds; the first version wrote the history alone."""

    expires: float | None
    history: msgspec.Raw
    digest: str | None = None


@final
class TableHistories(Histories):
    """Histories in a SQLite database, with lock files in a folder beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def hold(self, chat_id: str) -> EffectOf[None, OSError, Scope]:
        folder = self._path.with_name(f"{self._path.name}.locks")
        return hold_file(lambda: own_folder(folder) / f"{file_name(chat_id)}.lock")

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        rows = self._execute(("SELECT history, expires FROM chat WHERE id = ?", (chat_id,)))
        if rows:
            row = _read_row(*rows[0])
            return None if _is_over(row.expires, now) else _history(row.history)
        if self._execute(("SELECT id FROM chat_id WHERE id = ?", (chat_id,))):
            missing = f"its row is missing in {self._path}"
            raise OSError(f"{missing}; put the database back from a copy, or delete the chat to begin anew")
        return None

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        statement = "INSERT INTO chat VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET history = ?2, expires = ?3"
        row = seal(_Row(expires, _raw(history))).decode()
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


def _read_row(text: object, expires: object) -> _Row:
    if not isinstance(text, str) or not (expires is None or isinstance(expires, float)):  # of a damaged database
        raise OSError(f"the row is damaged: it holds no text, or no time at which it ends; {_REMEDY}")
    record = text.encode()
    if not text.startswith("{"):
        return _Row(expires, msgspec.Raw(record))
    try:
        row = read_record(record, _Row)
    except ValueError as error:
        raise OSError(f"the row holds no chat: {error}; {_REMEDY}") from error
    if not is_intact(record) or row.expires != expires:
        raise OSError(f"the row is damaged: what stands in it is not what was written; {_REMEDY}")
    return row


def _raw(history: Prompt) -> msgspec.Raw:
    return msgspec.Raw(history.to_json().encode())


def _history(text: msgspec.Raw) -> Prompt:
    read = Prompt.from_json(bytes(text))
    if isinstance(read, Success):
        history: Prompt = read.unwrap()
        return history
    raise OSError(f"what is kept is no history: {read.failure()}; {_REMEDY}")


def _is_over(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now
