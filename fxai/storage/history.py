"""Conversations by ID, in this process, in files, or in a SQLite database.

A history can expire. A program that holds an ID is the only program that continues its history, in any process. Other
programs wait. A process that ends releases its IDs.

Most turns only add messages to a history. Files and databases store each history in a journal of saves, see
`fxai.storage.journal`. A save that extends the stored history appends the new messages. A program that continues a
history with `reload` and `save` reads, encodes, and digests only the messages of its turn, because messages never
change. Results of approved calls replace the results "outcome unknown" of the save before, which is appended too.
Any other history (edited, shortened, compacted) replaces the whole journal in one step. Then the old messages are gone.

Each save has a digest that covers all messages up to its end. Therefore a missing or foreign save is an error.

>>> histories = ProcessHistories()
>>> histories.save("ann", Prompt.make("Hello"), None)
>>> histories.load("ann", now=0.0) == Prompt.make("Hello"), histories.load("bob", now=0.0)
(True, None)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, TypeAlias, final
from weakref import ref

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.effects.concurrency import Locks
from fxai.effects.effect import Effect
from fxai.effects.scope import Scope
from fxai.messages.message import Message
from fxai.messages.prompt import Prompt
from fxai.messages.wire import messages_to_json
from fxai.storage import read_record
from fxai.storage.journal import Entry, Form, TableJournal
from fxai.storage.journal_file import FileJournal
from fxai.storage.private_file import file_name, hold_file

_REMEDY: Final = "Restore it from a backup, or move it away to start again"


class Histories(ABC):
    """Histories by ID. If `blocks` is True, call the methods in a worker thread.

    The methods raise an `OSError` if the system refuses or the stored data is not a history.
    """

    blocks: bool = True
    """True if the methods wait for the disk and for other processes."""

    @abstractmethod
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        """Wait until no other program holds the ID, then hold it until the scope closes."""

    @abstractmethod
    def load(self, chat_id: str, now: float) -> Prompt | None:
        """Return the history. None if it does not exist or expired before `now`."""

    @abstractmethod
    def reload(self, chat_id: str, known: Prompt | None, now: float) -> Prompt | None:
        """Return the history, like `load`, for a program that saves the next history.

        Args:
            chat_id: The chat id.
            known: The result of the last `reload`, or the history of the last `save` after it, as the same object. If
                it is still the stored history, it is the result, and fxai reads only the last save. The payloads of its
                messages must not change in place.
            now: The time, in seconds since 1970.
        """

    @abstractmethod
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        """Replace the stored history with this history, completely or not at all."""

    @abstractmethod
    def delete(self, chat_id: str) -> None:
        """Remove a history. A missing history is ignored."""


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
    def reload(self, chat_id: str, known: Prompt | None, now: float) -> Prompt | None:
        return self.load(chat_id, now)

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        self._histories[chat_id] = (history, expires)

    @override
    def delete(self, chat_id: str) -> None:
        self._histories.pop(chat_id, None)


# -- saves


class _Save(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A save of a history: the messages after the messages that it keeps of the previous save."""

    chat: str
    expires: float | None
    kept: int
    """Number of messages that the save keeps of the previous save."""
    base: str
    """Digest of these messages."""
    mark: str
    """Digest of all messages up to its end."""
    messages: tuple[msgspec.Raw, ...]

    @property
    def count(self) -> int:
        """Number of messages of the history."""
        return self.kept + len(self.messages)


def _encode(save: _Save) -> str:
    return msgspec.json.encode(save).decode()


def _decode(text: bytes) -> _Save:
    try:
        return read_record(text, _Save)
    except ValueError as error:
        raise OSError(f"the save is invalid ({error})") from error


_FORM: Final[Form[_Save]] = Form("chat", "save", _encode, _decode, is_chain=True)
_Saves: TypeAlias = Iterator[Entry[_Save]]


def _next_mark(mark: str, message: bytes) -> str:
    from hashlib import blake2b  # only stores need it

    return blake2b(message, digest_size=16, key=mark.encode()).hexdigest()


def _marks(messages: list[bytes], base: str = "") -> list[str]:
    """Return the digests of the first 0, 1, 2, … messages after the messages with the digest `base`."""
    return list(accumulate(messages, _next_mark, initial=base))


def _texts(messages: Iterable[Message]) -> list[bytes]:
    """Return each message as JSON."""
    return [messages_to_json((message,))[1:-1].encode() for message in messages]


def _split(save: _Save, history: Prompt, shared: int) -> tuple[int, str, list[bytes]]:
    """Return the number of messages that the next save keeps, their digest, and the messages after them.

    The save can drop only results: the results of the in-doubt calls that it replaces.

    Args:
        save: The last save of the stored history.
        history: The next history.
        shared: Number of its first messages that are the same objects as in the stored history.
    """
    ends = [(save.count, save.mark)]
    if all(_is_result(bytes(one)) for one in save.messages):
        ends.append((save.kept, save.base))
    for count, mark in ends:
        if count <= shared:
            return count, mark, _texts(islice(history, count, None))
    messages = _texts(history)
    marks = _marks(messages)
    for count, mark in ends:
        if marks[count : count + 1] == [mark]:
            return count, mark, messages[count:]
    return 0, "", messages


class _Role(msgspec.Struct):
    role: str


def _is_result(message: bytes) -> bool:
    return read_record(message, _Role).role == "tool"


def _join(saves: _Saves) -> tuple[_Save, list[bytes]] | None:
    """Return the newest save, and all messages up to its end. None if nothing was saved."""
    newest: _Save | None = None
    pieces: list[tuple[msgspec.Raw, ...]] = []
    needed = 0
    for entry in saves:
        save = entry.parts[0]
        if newest is None:
            newest, needed = save, save.count
        if save.count < needed:
            break
        pieces.append(save.messages[: max(needed - save.kept, 0)])
        needed = min(needed, save.kept)
        if not needed:
            break
    if newest is None:
        return None
    messages = [bytes(one) for piece in reversed(pieces) for one in piece]
    if needed or _marks(messages)[-1] != newest.mark:
        raise OSError(f"an earlier save is missing or was changed. {_REMEDY}.")
    return newest, messages


class _MovedError(Exception):
    """Another program has saved the history."""


class _JournalHistories(Histories):
    """Histories as journals of saves."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ref[Prompt], _Save]] = {}
        """The histories of the programs that use `reload`, each with its last save."""

    @abstractmethod
    def _journal(self, chat_id: str) -> FileJournal[_Save] | TableJournal[_Save]:
        """Return the journal of a chat."""

    @override
    def load(self, chat_id: str, now: float) -> Prompt | None:
        return self._load(chat_id, now)[0]

    @override
    def reload(self, chat_id: str, known: Prompt | None, now: float) -> Prompt | None:
        ours, newest = self._known.get(chat_id, (None, None))
        is_ours = ours is not None and known is not None and ours() is known
        if is_ours and newest is not None and self._journal(chat_id).read(_newest) == newest:
            return None if _is_over(newest.expires, now) else known
        history, newest = self._load(chat_id, now)
        if history is not None and newest is not None:
            self._remember(chat_id, history, newest)
        return history

    def _load(self, chat_id: str, now: float) -> tuple[Prompt | None, _Save | None]:
        journal = self._journal(chat_id)
        found = journal.read(_join)
        if found is None:
            return None, None
        newest, messages = found
        _check_chat(newest, chat_id, journal.location)
        return _history(b"[%s]" % b",".join(messages), newest.expires, now), newest

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> None:
        while True:
            try:
                saved = self._try_save(chat_id, history, expires)
            except _MovedError:
                continue
            if chat_id in self._known:
                self._remember(chat_id, history, saved)
            return

    def _try_save(self, chat_id: str, history: Prompt, expires: float | None) -> _Save:
        journal = self._journal(chat_id)
        stored = journal.read(_newest)
        if stored is None:
            kept, base, added = 0, "", _texts(history)
        else:
            _check_chat(stored, chat_id, journal.location)
            ours = self._known.get(chat_id)
            before = None if ours is None or ours[1] != stored else ours[0]()
            kept, base, added = _split(stored, history, 0 if before is None else history.count_shared(before))
        save = _Save(chat_id, expires, kept, base, _marks(added, base)[-1], tuple(map(msgspec.Raw, added)))
        if not kept:
            journal.replace(save)
            return save

        def follow(saves: _Saves) -> None:
            if _newest(saves) != stored:
                raise _MovedError

        journal.append(save, follow)
        return save

    def _remember(self, chat_id: str, history: Prompt, save: _Save) -> None:
        def forget(gone: ref[Prompt]) -> None:
            if self._known.get(chat_id, (None,))[0] is gone:
                del self._known[chat_id]

        self._known[chat_id] = ref(history, forget), save


def _check_chat(stored: _Save, chat_id: str, location: str) -> None:
    if stored.chat != chat_id:
        raise OSError(f"{location} contains another chat, {stored.chat!r}. {_REMEDY}.")


def _newest(saves: _Saves) -> _Save | None:
    return next((entry.parts[0] for entry in saves), None)


def _history(messages: bytes, expires: float | None, now: float) -> Prompt | None:
    if _is_over(expires, now):
        return None
    read = Prompt.from_json(messages)
    if isinstance(read, Success):
        history: Prompt = read.unwrap()
        return history
    raise OSError(f"the stored data is not a history: {read.failure()}. {_REMEDY}.")


def _is_over(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now


@final
class FileHistories(_JournalHistories):
    """Histories as journals of saves in the files of a directory, with lock files next to them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @override
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        return hold_file(lambda: self._folder / f"{file_name(chat_id)}.lock")

    @override
    def _journal(self, chat_id: str) -> FileJournal[_Save]:
        return FileJournal(self._folder / f"{file_name(chat_id)}.json", _FORM)

    @override
    def delete(self, chat_id: str) -> None:
        journal = self._journal(chat_id)
        if journal.path.exists():  # otherwise the deletion would leave a lock file
            journal.remove()


@final
class TableHistories(_JournalHistories):
    """Histories as journals of saves in a SQLite database, with lock files in a directory next to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @override
    def hold(self, chat_id: str) -> Effect[None, OSError, Scope]:
        return self._journal(chat_id).own()

    @override
    def _journal(self, chat_id: str) -> TableJournal[_Save]:
        return TableJournal(self._path, chat_id, _FORM)

    @override
    def delete(self, chat_id: str) -> None:
        self._journal(chat_id).clear()
