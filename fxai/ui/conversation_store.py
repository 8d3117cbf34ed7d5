"""Stores of conversations. Use `Conversations` to save conversations in this process, in files, or in SQLite.

A conversation is a journal, see `fxai.storage`. The store writes a turn when it starts and again when it ends. It never
changes written entries. If a process ends during a turn, the store therefore still contains the user's messages.

>>> from fxai.effects import fx
>>> from fxai.messages.prompt import Prompt
>>> from fxai.ui.ui_message import UIMessage
>>> store = Conversations.in_process()
>>> turn = Turn.make("t1", None, UIMessage.make("u1", "user", "Hello"), "a1", Prompt.make("Hello"), 0.0)
>>> talk = fx.run(store.begin("c1", "ann", turn).and_then(store.load("c1")))
>>> talk.owner, talk.title, talk.head
('ann', 'Hello', 't1')
"""

from __future__ import annotations

import os
import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Never, TypeAlias, TypeVar, final

import msgspec
from returns.primitives.exceptions import UnwrapFailedError
from typing_extensions import override

from fxai.agents.state import PromptState
from fxai.effects.constructor import attempt_work, fail
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.effects.service import Clock, Service
from fxai.messages.message import handles_of
from fxai.messages.prompt import Prompt
from fxai.messages.wire import MessageError
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.storage.journal import JSON, Entry, Form
from fxai.storage.private_file import warn
from fxai.ui.conversation import Conversation, ConversationSummary, Turn
from fxai.ui.ui_message import read_message

if TYPE_CHECKING:
    from fxai.storage.journal_store import JournalStore
    from fxai.storage.result_store import ResultStore

_A = TypeVar("_A")
_Found: TypeAlias = list[ConversationSummary]

_Doing: TypeAlias = Literal["hold", "load", "list", "save", "delete"]
_DONE: Final = {"hold": "locked", "load": "loaded", "list": "listed", "save": "saved", "delete": "deleted"}
_TITLE: Final = 80  # characters
_SECRET: Final = "the secret"  # the name of its journal, which cannot be the id of a conversation
_INDEX_OF: Final = "the conversations of "  # the name of an index, before the name of its owner
_PROCESS_SECRET: Final = secrets.token_bytes(32)
_REMEDY: Final = "Restore it from a backup, or delete the conversation."


@final
class ConversationError(msgspec.Struct, frozen=True):
    """A failed operation on a conversation: lock, load, list, save, or delete. It contains the reason.

    >>> print(ConversationError("c1", "load", "no such file"))
    conversation 'c1' could not be loaded: no such file
    """

    conversation_id: str
    """The id of the conversation."""
    doing: _Doing
    """The operation that failed."""
    description: str
    """The reason."""

    @override
    def __str__(self) -> str:
        what = f"conversation {self.conversation_id!r}" if self.conversation_id else "conversations"
        return f"{what} could not be {_DONE[self.doing]}: {self.description}"


@final
class Busy(msgspec.Struct, frozen=True):
    """A conflict with an active turn of the conversation, in this process or in another process."""

    conversation_id: str
    """The id of the conversation."""

    @override
    def __str__(self) -> str:
        return f"conversation {self.conversation_id!r} has an active turn. Wait for its end, or stop it."


class Conversations(Service):
    """A store of conversations, by id. A store is a value; `store.layer` provides it as the service.

    `Conversations.files(folder)` has one file per conversation, `Conversations.sqlite(path)` has one database. Several
    processes can use them together. All methods fail with `ConversationError` if the system refuses the operation or if
    the data is damaged.
    """

    @abstractmethod
    def hold(self, conversation_id: str) -> Effect[None, ConversationError | Busy, Scope]:
        """Lock the conversation until the scope closes. Fail with `Busy` if another program has locked it.

        If a process dies, its locks end.
        """

    @abstractmethod
    def load(self, conversation_id: str) -> Effect[Conversation | None, ConversationError]:
        """Return the conversation, or None if it does not exist."""

    @abstractmethod
    def summary(self, conversation_id: str) -> Effect[ConversationSummary | None, ConversationError]:
        """Return the summary of the conversation without reading its turns, or None if it does not exist."""

    @abstractmethod
    def list(
        self, owner: str, *, limit: int = 50, before: float | None = None
    ) -> Effect[tuple[ConversationSummary, ...], ConversationError]:
        """Return the conversations of one owner, most recently changed first.

        Args:
            owner: The name of the owner.
            limit: Maximum number of conversations.
            before: Time in seconds since 1970. Return only conversations that changed before it. None returns all.
        """

    @abstractmethod
    def begin(self, conversation_id: str, owner: str, turn: Turn) -> Effect[None, ConversationError]:
        """Add a turn that starts, and make it the head. The first turn creates the conversation.

        Args:
            conversation_id: The id of the conversation.
            owner: The owner of a new conversation.
            turn: The turn.
        """

    @abstractmethod
    def end(self, conversation_id: str, turn: Turn) -> Effect[None, ConversationError]:
        """Save the result of a turn. Fail if the conversation was deleted during the turn."""

    @abstractmethod
    def choose(self, conversation_id: str, turn_id: str) -> Effect[None, ConversationError]:
        """Make a turn the head."""

    @abstractmethod
    def rename(self, conversation_id: str, title: str) -> Effect[None, ConversationError]:
        """Change the title of the conversation."""

    @abstractmethod
    def delete(self, conversation_id: str) -> Effect[None, ConversationError]:
        """Delete the conversation if it exists."""

    def secret(self) -> Effect[bytes, ConversationError]:
        """Return the secret of 32 bytes of this store. It signs approvals if the context contains no other key.

        The store creates the secret at the first call. Processes that share the store share the secret. By default, the
        secret ends with the process. A store that overrides this method must also override `ledger`.
        """
        return Succeed(_PROCESS_SECRET)

    def ledger(self) -> ApprovalLedger:
        """Return the ledger of used approvals, which all processes of the store share.

        By default, the ledger ends with the process, like the default secret.
        """
        return ApprovalLedger.default()

    def signer(self) -> Effect[tuple[ApprovalKey, ApprovalLedger], ConversationError]:
        """Return the key that signs approvals, and the ledger that records their use.

        Fails with:
            ConversationError: If the store saves the secret but no ledger. After a restart, an approval could then run
                its call again.
        """
        own = type(self)
        if own.secret is not Conversations.secret and own.ledger is Conversations.ledger:
            text = f"{own.__name__} saves the secret of approvals, but no ledger of their use. Override ledger() also."
            return fail(ConversationError("", "load", text))
        return self.secret().map(lambda secret: (ApprovalKey(secret), self.ledger()))

    @property
    def layer(self) -> LayerOf[Conversations, Never, None]:
        """The layer that provides this store as the service `Conversations`."""
        return LayerOf.succeed(Conversations, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[Conversations, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(store)`

    # -- constructors

    @staticmethod
    def in_process(*, results: ResultStore | None = None) -> Conversations:
        """Return a new store that ends with the process.

        Args:
            results: The store of the large results that `delete` removes together with the conversation, or None.
        """
        from fxai.storage.journal_store import ProcessJournals  # imported only if a program uses a store

        ledger = ApprovalLedger.in_process()
        return _JournalConversations(ProcessJournals(), lambda: ledger, results)

    @staticmethod
    def files(folder: str | os.PathLike[str], *, results: ResultStore | None = None) -> Conversations:
        """Return the store of files in a directory. The store creates the directory if necessary.

        Args:
            folder: The path of the directory.
            results: The store of the large results, as in `in_process`.

        Raises:
            ValueError: If the path is invalid.
        """
        from fxai.storage.journal_store import FileJournals
        from fxai.storage.private_file import full_path

        location = full_path(folder)
        ledger = partial(ApprovalLedger.file, location / "approvals.json")
        return _JournalConversations(FileJournals(location, _form()), ledger, results)

    @staticmethod
    def sqlite(path: str | os.PathLike[str], *, results: ResultStore | None = None) -> Conversations:
        """Return the store in a SQLite database. The store creates the database and a directory of locks next to it.

        Args:
            path: The path of the database.
            results: The store of the large results, as in `in_process`.

        Raises:
            ValueError: If the path is invalid.
        """
        from fxai.storage.database import database_path
        from fxai.storage.journal_store import TableJournals

        location = database_path(path)
        ledger = partial(ApprovalLedger.sqlite, location)
        return _JournalConversations(TableJournals(location, _form()), ledger, results)


def _form() -> Form[Any]:
    return msgspec.structs.replace(JSON, name="conversation", entry="turn")


@final
class _JournalConversations(Conversations):
    """Conversations as journals. Each turn is an entry with two parts, its start and its end.

    An entry with one part can also be the choice of a head, or a title. The state of a journal is the summary.
    """

    def __init__(
        self, journals: JournalStore, ledger: Callable[[], ApprovalLedger], results: ResultStore | None
    ) -> None:
        self._journals = journals
        self._results = results
        self._ledger = ledger

    @override
    def hold(self, conversation_id: str) -> Effect[None, ConversationError | Busy, Scope]:
        def explain(error: OSError) -> ConversationError | Busy:
            if isinstance(error, BlockingIOError):
                return Busy(conversation_id)
            return ConversationError(conversation_id, "hold", str(error))

        return self._journals.journal(conversation_id).own(wait=False).map_error(explain)

    @override
    def load(self, conversation_id: str) -> Effect[Conversation | None, ConversationError]:
        def load() -> Conversation | None:
            journal = self._journals.journal(conversation_id)
            entries: list[Entry[Any]] = journal.read(list)
            return _conversation(conversation_id, entries[::-1], journal.read_state()) if entries else None

        return self._attempt(conversation_id, "load", load)

    @override
    def summary(self, conversation_id: str) -> Effect[ConversationSummary | None, ConversationError]:
        def read() -> ConversationSummary | None:
            state = self._journals.journal(conversation_id).read_state()
            return None if state is None else _summary(state)

        return self._attempt(conversation_id, "load", read)

    @override
    def list(
        self, owner: str, *, limit: int = 50, before: float | None = None
    ) -> Effect[tuple[ConversationSummary, ...], ConversationError]:
        def find() -> tuple[ConversationSummary, ...]:
            own = self._journals.journal(_INDEX_OF + owner).read(lambda newest: self._page(newest, limit, before))
            return tuple(sorted(own, key=lambda summary: summary.changed, reverse=True))

        return self._attempt("", "list", find)

    @override
    def begin(self, conversation_id: str, owner: str, turn: Turn) -> Effect[None, ConversationError]:
        def begin() -> None:
            journal = self._journals.journal(conversation_id)
            state = journal.read_state()
            title = "" if turn.user is None else " ".join(turn.user.text.split())[:_TITLE]
            new = ConversationSummary(conversation_id, owner, title or "…", turn.created, turn.created)
            summary = new if state is None else msgspec.structs.replace(_summary(state), changed=turn.created)
            self._touch(summary.owner, conversation_id, summary.changed, is_new=state is None)
            begun = {
                "turn": turn.id,
                "parent": turn.parent,
                "user": None if turn.user is None else turn.user.to_data(),
                "messageId": turn.message_id,
                "said": turn.messages.to_data(),
                "created": turn.created,
            }
            journal.append(begun, state=msgspec.to_builtins(summary))

        return self._attempt(conversation_id, "save", begin)

    @override
    def end(self, conversation_id: str, turn: Turn) -> Effect[None, ConversationError]:
        def find(newest: Iterator[Entry[Any]]) -> Entry[Any]:
            found = next((one for one in newest if one.parts[0].get("turn") == turn.id), None)
            if found is None:
                raise OSError(f"turn {turn.id!r} does not exist, because the conversation was deleted during the turn")
            return found

        def work(now: float) -> None:
            state = self._state_with(conversation_id, changed=now)
            self._touch(state["owner"], conversation_id, now)
            ended = {
                "ended": turn.ended,
                "error": turn.error,
                "message": None if turn.message is None else turn.message.to_data(),
                "messages": turn.messages.to_data(),
                "state": None if turn.state is None else turn.state.to_data(),
            }
            self._journals.journal(conversation_id).append(ended, find, state)

        clock: EffectOf[Clock] = Fetch(Clock)
        return clock.flat_map(lambda clock: self._attempt(conversation_id, "save", lambda: work(clock.now())))

    @override
    def choose(self, conversation_id: str, turn_id: str) -> Effect[None, ConversationError]:
        return self._attempt(conversation_id, "save", lambda: self._note(conversation_id, {"head": turn_id}))

    @override
    def rename(self, conversation_id: str, title: str) -> Effect[None, ConversationError]:
        note = {"title": title[:_TITLE]}
        return self._attempt(conversation_id, "save", lambda: self._note(conversation_id, note, **note))

    @override
    def delete(self, conversation_id: str) -> Effect[None, ConversationError]:
        def delete() -> None:
            journal = self._journals.journal(conversation_id)
            state, handles = journal.read_state(), frozenset[str]()
            if self._results is not None:
                entries: list[Entry[Any]] = journal.read(list)
                talk = _conversation(conversation_id, entries[::-1], state) if entries else None
                turns = () if talk is None else talk.turns
                handles = handles_of(message for turn in turns for message in turn.messages)
            self._journals.remove(conversation_id)
            if self._results is not None:
                self._results.remove(handles)
            if state is not None:
                self._journals.journal(_INDEX_OF + state["owner"]).append({"id": conversation_id, "gone": True})

        return self._attempt(conversation_id, "delete", delete)

    @override
    def secret(self) -> Effect[bytes, ConversationError]:
        def find() -> bytes:
            journal = self._journals.journal(_SECRET)
            entries: list[Entry[Any]] = journal.read(list)
            if not entries:
                journal.append(secrets.token_hex(32))
                entries = journal.read(list)
            return bytes.fromhex(entries[-1].parts[0])  # the oldest secret, if several processes created one

        return self._attempt("", "load", find)

    @override
    def ledger(self) -> ApprovalLedger:
        return self._ledger()

    # -- the index: one journal per owner names the conversations that changed, so that a list reads only its own page

    def _touch(self, owner: str, id_: str, changed: float, *, is_new: bool = False) -> None:
        """Note in the index that a conversation will change. Consecutive changes need only one note."""
        index = self._journals.journal(_INDEX_OF + owner)
        newest: Entry[Any] | None = None if is_new else index.read(lambda entries: next(entries, None))
        if newest is None or newest.parts[0].get("id") != id_ or "gone" in newest.parts[0]:
            index.append({"id": id_, "changed": changed})

    def _page(self, newest: Iterator[Entry[Any]], limit: int, before: float | None) -> _Found:
        """Return the first conversations of an index, which names a conversation once per change."""
        seen: set[str] = set()
        found: _Found = []
        for entry in newest:
            note: Any = entry.parts[0]
            if note["id"] in seen:
                continue
            seen.add(note["id"])
            if "gone" in note or (before is not None and note["changed"] >= before):
                continue
            summary = self._find_summary(note["id"])
            if summary is not None and (before is None or summary.changed < before):
                found.append(summary)
            if len(found) >= limit:
                break
        return found

    def _find_summary(self, id_: str) -> ConversationSummary | None:
        journal = self._journals.journal(id_)
        try:
            state = journal.read_state()
            return None if state is None else _summary(state)
        except OSError as error:
            warn("%s is missing from the list: %s", journal.location, error)
            return None

    def _note(self, conversation_id: str, note: dict[str, str], **changes: Any) -> None:
        self._journals.journal(conversation_id).append(note, state=self._state_with(conversation_id, **changes))

    def _state_with(self, conversation_id: str, **changes: Any) -> Any:
        """Return the state of a conversation with these changes."""
        state = self._journals.journal(conversation_id).read_state()
        if state is None:
            raise OSError("the conversation does not exist, because it was deleted")
        return {**state, **changes}

    def _attempt(self, id_: str, doing: _Doing, work: Callable[[], _A]) -> EffectOf[_A, ConversationError]:
        def explain(error: Exception) -> ConversationError | None:
            return ConversationError(id_, doing, str(error)) if isinstance(error, OSError | MessageError) else None

        return attempt_work(work, explain, in_thread=self._journals.blocks)


# -- data of journals


def _summary(state: Any) -> ConversationSummary:
    try:
        return msgspec.convert(state, ConversationSummary)
    except msgspec.ValidationError as error:
        raise OSError(f"damaged summary: {error}. {_REMEDY}") from error


def _conversation(id_: str, entries: list[Entry[Any]], state: Any) -> Conversation:
    """Return the conversation of its entries, oldest first."""
    turns: list[Turn] = []
    head: str | None = None
    for entry in entries:
        first: Any = entry.parts[0]
        if "turn" in first:
            turns.append(_turn(first, entry.parts[1] if len(entry.parts) > 1 else None))
            head = turns[-1].id
        head = first.get("head", head)
    summary = _summary(state)
    return Conversation(id_, summary.owner, summary.title, summary.created, summary.changed, tuple(turns), head)


def _turn(begun: Mapping[str, Any], ended: Mapping[str, Any] | None) -> Turn:
    try:
        turn = Turn(
            begun["turn"],
            begun["parent"],
            None if begun["user"] is None else read_message(begun["user"]).unwrap(),
            begun["messageId"],
            Prompt.from_data(begun["said"]).unwrap(),
            begun["created"],
        )
        if ended is None:
            return turn
        return msgspec.structs.replace(
            turn,
            ended=ended["ended"],
            error=ended.get("error"),
            message=None if ended["message"] is None else read_message(ended["message"]).unwrap(),
            messages=Prompt.from_data(ended["messages"]).unwrap(),
            state=None if ended["state"] is None else PromptState.from_data(ended["state"]).unwrap(),
        )
    except (KeyError, UnwrapFailedError) as error:
        raise OSError(f"damaged turn: {error}. {_REMEDY}") from error
