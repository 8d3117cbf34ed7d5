"""Chats on disk: as JSON files, or in a SQLite database.

A file is replaced as a whole, a row in one transaction: whoever is killed leaves the history before or after its turn.
A chat is held by a lock of the operating system, which is free again when its process ends.

>>> file_name("anna/7")
'anna_7-...'
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal, Never, TypeVar, final

import anyio
import msgspec
from returns.result import Success

from fxai.effects.constructor import attempt_async
from fxai.effects.effect import Effect, EffectOf, Fetch, FlatMap
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.service import Clock
from fxai.effects.thread import in_thread
from fxai.messages.prompt import Prompt
from fxai.models.chat_error import ChatStoreError
from fxai.storage.private_file import (
    free_lock,
    full_path,
    is_intact,
    open_lock,
    own_folder,
    read_file,
    read_record,
    remove_file,
    replace_file,
    sealed,
    take_lock,
)

__all__ = ["ChatFiles", "ChatTable", "file_name"]

_A = TypeVar("_A")
_REMEDY: Final = "put it back from a copy, or move it away to begin anew"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS chat (id TEXT PRIMARY KEY, history TEXT, expires REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS chat_id (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",  # by which a lost row is noticed
)
_FIRST_PAUSE, _LAST_PAUSE = 0.005, 0.1  # seconds between two looks at a lock


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a file holds."""

    chat: str
    expires: float | None
    history: msgspec.Raw
    digest: str | None = None  # of all that stands before it; earlier versions wrote none


def file_name(chat_id: str) -> str:
    """The name of a chat's file, without a suffix: readable, and different for every id on every file system.

    Raises:
        OSError: the id is no text that can be written.
    """
    from hashlib import sha256

    readable = "".join(one if one.isascii() and one.isalnum() else "_" for one in chat_id[:40])
    try:
        digest = sha256(chat_id.encode()).hexdigest()[:32]
    except UnicodeEncodeError as error:
        raise OSError("the id holds half a surrogate pair; give one of whole characters") from error
    return f"{readable}-{digest}"


@final
class ChatFiles:
    """Histories as JSON files in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = full_path(folder)

    def _path(self, chat_id: str) -> Path:
        return self._folder / f"{file_name(chat_id)}.json"

    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        """Holds a chat, as `ChatStore.hold`."""
        return _hold(chat_id, self._folder)

    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        """The history, as `ChatStore.load`."""
        return _timed(chat_id, "load", lambda now: _read(self._path(chat_id), chat_id, now))

    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        """Puts a history in the place of what was there, as `ChatStore.save`."""

        def saved(_: float) -> None:
            kept = _Kept(chat_id, expires, msgspec.Raw(history.to_json().encode()))
            replace_file(self._path(chat_id), sealed(msgspec.json.encode(kept)))

        return _timed(chat_id, "save", saved)

    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        """Forgets a chat, as `ChatStore.delete`."""
        return _timed(chat_id, "delete", lambda _: remove_file(self._path(chat_id)))


@final
class ChatTable:
    """Histories in a SQLite database."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from fxai.storage.database import database_path  # only where it is asked for

        self._path = database_path(path)

    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        """Holds a chat, as `ChatStore.hold`."""
        return _hold(chat_id, self._path.with_name(f"{self._path.name}.locks"), is_own=True)

    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        """The history, as `ChatStore.load`."""
        return _timed(chat_id, "load", lambda now: self._loaded(chat_id, now))

    def _loaded(self, chat_id: str, now: float) -> Prompt | None:
        rows = self._done(("SELECT history, expires FROM chat WHERE id = ?", (chat_id,)))
        if rows:
            row = _row(*rows[0])
            return None if _is_over(row.expires, now) else _history(bytes(row.history))
        if self._done(("SELECT id FROM chat_id WHERE id = ?", (chat_id,))):
            said = f"its row is missing in {self._path}; put the database back from a copy, or delete the chat"
            raise OSError(f"{said} to begin anew")
        return None

    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        """Puts a history in the place of what was there, as `ChatStore.save`."""
        statement = "INSERT INTO chat VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET history = ?2, expires = ?3"

        def saved(_: float) -> None:
            row = _Row(expires, msgspec.Raw(history.to_json().encode()))
            values = (chat_id, sealed(msgspec.json.encode(row)).decode(), expires)
            self._done(("INSERT OR IGNORE INTO chat_id VALUES (?)", (chat_id,)), (statement, values))

        return _timed(chat_id, "save", saved)

    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        """Forgets a chat, as `ChatStore.delete`."""
        tables = ("chat", "chat_id")

        def deleted(_: float) -> None:
            self._done(*[(f"DELETE FROM {table} WHERE id = ?", (chat_id,)) for table in tables])

        return _timed(chat_id, "delete", deleted)

    def _done(self, *statements: tuple[str, tuple[Any, ...]]) -> list[Any]:
        """What the last of these statements gives, which are one transaction."""
        from fxai.storage.database import connected, writing  # only where it is asked for

        with connected(self._path, *_TABLES) as database:
            if len(statements) == 1:
                return database.execute(*statements[0]).fetchall()
            with writing(database):
                return [database.execute(*one).fetchall() for one in statements][-1]


# -- files


def _read(path: Path, chat_id: str, now: float) -> Prompt | None:
    try:
        text = read_file(path)
    except FileNotFoundError:
        return None
    try:
        kept = read_record(text, _Kept)
    except ValueError as error:
        raise OSError(f"{path} holds no chat: {error}; {_REMEDY}") from error
    if kept.digest is not None and not is_intact(text):
        raise OSError(f"{path} is damaged: what stands in it is not what was written; {_REMEDY}")
    if kept.chat != chat_id:
        raise OSError(f"{path} holds another chat, {kept.chat!r}; {_REMEDY}")
    return None if _is_over(kept.expires, now) else _history(bytes(kept.history))


def _history(text: str | bytes) -> Prompt:
    read = Prompt.from_json(text)
    if isinstance(read, Success):
        history: Prompt = read.unwrap()
        return history
    raise OSError(f"what is kept is no history: {read.failure()}; {_REMEDY}")


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a row holds; earlier versions wrote the history alone."""

    expires: float | None
    history: msgspec.Raw
    digest: str | None = None


def _row(text: object, expires: object) -> _Row:
    if not isinstance(text, str) or not (expires is None or isinstance(expires, float)):  # of a damaged database
        raise OSError(f"the row is damaged: it holds no text, or no time at which it ends; {_REMEDY}")
    kept = text.encode()
    if not kept.startswith(b"{"):
        return _Row(expires, msgspec.Raw(kept))
    try:
        row = read_record(kept, _Row)
    except ValueError as error:
        raise OSError(f"the row holds no chat: {error}; {_REMEDY}") from error
    if not is_intact(kept) or row.expires != expires:
        raise OSError(f"the row is damaged: what stands in it is not what was written; {_REMEDY}")
    return row


def _is_over(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now


def _timed(
    chat_id: str, doing: Literal["load", "save", "delete"], work: Callable[[float], _A]
) -> EffectOf[_A, ChatStoreError]:
    """What a thread does, to its end even when the run is cancelled; it is told the time."""

    def failed(error: Exception) -> ChatStoreError | None:
        return ChatStoreError(chat_id, doing, str(error)) if isinstance(error, OSError) else None

    def start(now: float) -> Awaitable[_A]:
        return in_thread(lambda: work(now))

    clock: EffectOf[Clock] = Fetch(Clock)
    return clock.flat_map(lambda clock: attempt_async(lambda: start(clock.now()), failed))


# -- locks


def _hold(chat_id: str, folder: Path, *, is_own: bool = False) -> EffectOf[None, ChatStoreError, Scope]:
    def failed(error: Exception) -> ChatStoreError | None:
        return ChatStoreError(chat_id, "hold", str(error)) if isinstance(error, OSError) else None

    def within(scope: Scope) -> EffectOf[None, ChatStoreError]:
        return attempt_async(lambda: _lock(folder, file_name(chat_id), scope, is_own), failed)

    return FlatMap(Fetch(Scope), within)


async def _lock(folder: Path, name: str, scope: Scope, is_own: bool) -> None:
    if is_own:
        own_folder(folder)
    file = open_lock(folder / f"{name}.lock")  # not in a thread, whose answer a cancellation could lose
    pause = _FIRST_PAUSE
    try:
        while not take_lock(file):
            await anyio.sleep(pause)  # no matter of the `Clock`: another process lives in real time
            pause = min(2 * pause, _LAST_PAUSE)
    except BaseException:
        free_lock(file)
        raise

    def released(_: object) -> EffectOf[None, Never]:
        free_lock(file)
        return NOTHING

    scope.add(released)
