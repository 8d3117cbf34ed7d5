"""Keepers: where the turns of `fxai chat` are kept while they run, and how a conversation is found again.

A memory is given a turn when it is over. A store of conversations, which `fxai serve` can share, is told of each run of
a turn when it begins and when it ends: so it knows of one that was cut off, and of calls that still wait.

>>> from fxai.ui import Conversations
>>> with Background() as background:
...     keeper = StoreKeeper(background, Conversations.in_process(), "c1")
...     keeper.begin(Prompt.make("Hello"))
...     draft = Draft(Prompt.empty)
...     draft.messages = Prompt.make("Hello")
...     keeper.end(draft, "done")
...     len(background.value_of(keeper.memory.load()))
1
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from typing_extensions import override

from fxai.agents.draft import Draft
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.state import PromptState
from fxai.cli.exit import WRONG_USE, CliError, write_obstacle
from fxai.cli.run_program import Background
from fxai.cli.setting import OpenSetting
from fxai.cli.state_file import StateFile, StateMemory
from fxai.effects.effect import Effect, EffectOf
from fxai.messages.calls import Pending
from fxai.messages.prompt import Prompt
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.schema.display import one_line
from fxai.storage.private_file import make_folder

if TYPE_CHECKING:
    from fxai.ui import Conversation, Conversations, ConversationSummary, Turn
    from fxai.ui.conversation import Ended

OWNER: Final = "local"
"""The owner of the conversations of `fxai chat` and `fxai serve`."""

_DATABASE: Final = (".db", ".sqlite", ".sqlite3")
_MOST_LISTED: Final = 20
_MOST_NAMED: Final = 5


class Keeper(ABC):
    """Keeps the turns of a conversation. Its methods wait, in the main thread."""

    def __init__(self, background: Background, memory: StateMemory) -> None:
        self.memory = memory
        """The memory of the messages and of the state of a stateful prompt."""
        self._value_of = background.value_of

    @property
    def left_open(self) -> tuple[Pending, ...]:
        """The approvals that turns before the last one left open, and that can still be answered."""
        return ()

    @abstractmethod
    def begin(self, said: Prompt, late: Prompt = Prompt.empty) -> None:
        """Store the beginning of a run of a turn: its messages, and late answers to earlier approvals."""

    @abstractmethod
    def end(self, draft: Draft, ended: Ended) -> None:
        """A run has ended. A turn goes on where it is `pending`; one that `failed` leaves all as it was before it."""


@final
class MemoryKeeper(Keeper):
    """Gives a memory what has ended."""

    @override
    def begin(self, said: Prompt, late: Prompt = Prompt.empty) -> None:
        """Do nothing, because a memory stores whole turns."""

    @override
    def end(self, draft: Draft, ended: Ended) -> None:
        """Keeps the turn, if it is over."""
        if ended in ("done", "stopped"):
            kept = self.memory.commit_with(draft.messages, draft.state).and_then(self.memory.save())
            self._value_of(kept.uninterruptible())


@final
class StoreKeeper(Keeper):
    """Keeps each run of a turn in a store of conversations, and holds the conversation meanwhile."""

    def __init__(
        self, background: Background, store: Conversations, id: str | None = None, state: StateFile | None = None
    ) -> None:
        """Goes on with the conversation of this id, or begins a new one; `state`: where the state is kept besides."""
        self._stored = _Stored(store, id or secrets.token_hex(6))
        super().__init__(background, StateMemory(self._stored, state))
        self._background = background
        self._held: str | None = None
        self._turn: Turn | None = None
        self._first: Turn | None = None  # the run that the turn began with
        self._earlier = 0  # messages that the runs of the turn before this one gave
        if id is not None:
            self._hold()

    @property
    def conversation(self) -> Conversation | None:
        """The conversation as it is kept; None before its first turn."""
        return self._value_of(self._stored.find())

    @property
    def title(self) -> str:
        """The title of the conversation."""
        found = self.conversation
        return repr(one_line("" if found is None else found.title, 60))

    @property
    def is_cut(self) -> bool:
        """Whether the process of the last turn ended in the middle of it."""
        path = () if (found := self.conversation) is None else found.path()
        return bool(path) and path[-1].ended is None

    @property
    @override
    def left_open(self) -> tuple[Pending, ...]:
        """The approvals that turns before the last one left open, such as turns of a page."""
        return () if (found := self.conversation) is None else found.left_open()

    def with_key(self, ready: OpenSetting) -> EffectOf[OpenSetting, Any]:
        """Return the setting with the key and the ledger of the store. Another process can then approve a call."""
        from fxai.ui.chat_job import with_signer

        def add(signer: tuple[ApprovalKey, ApprovalLedger]) -> OpenSetting:
            return msgspec.structs.replace(ready, services=with_signer(*signer, ready.services))

        return self._stored.store.signer().map(add)

    def _hold(self) -> None:
        if self._held != self._stored.id:
            self._held = self._stored.id
            self._background.hold(self._stored.store.hold(self._held).map_error(_explain))

    @override
    def begin(self, said: Prompt, late: Prompt = Prompt.empty) -> None:
        """Store the messages. A turn with only late answers continues the last message of the agent."""
        from fxai.ui import Turn, from_prompt

        self._hold()
        before = self.conversation
        last = before.path()[-1] if before is not None and before.head is not None else None
        shown = Prompt.empty if len(late) else said
        user = next((one for one in from_prompt(shown, _new_id) if one.role == "user"), None)
        message_id = _new_id() if user is not None or last is None else last.message_id
        self._turn = Turn.make(_new_id(), last and last.id, user, message_id, late + said, time.time())
        self._first = self._turn if user is not None or self._first is None else self._first
        self._value_of(self._stored.store.begin(self._stored.id, OWNER, self._turn))

    @override
    def end(self, draft: Draft, ended: Ended) -> None:
        """Keeps what came of it."""
        turn, first = self._turn, self._first
        if turn is None or first is None:
            raise AssertionError("no run has begun")
        new = Prompt(list(draft.messages)[self._earlier :])
        self._earlier = len(draft.messages) if ended == "pending" else 0
        self._turn = None
        message = self._message(new, turn)
        whole = msgspec.structs.replace(turn, message=message, messages=new, state=draft.state, ended=ended)
        keeping: EffectOf[None, Any] = self._stored.store.end(self._stored.id, whole)
        if ended == "failed":
            keeping = keeping.and_then(self._leave_out(first))
        elif ended != "pending":
            self.memory.state = draft.state
            keeping = keeping.and_then(self.memory.save())
        self._first = first if ended == "pending" else None
        self._value_of(keeping.uninterruptible())

    def _message(self, new: Prompt, turn: Turn) -> Any:
        """The agent's message as a page shows it, which several runs may have made."""
        from fxai.ui import from_prompt

        conversation = self.conversation
        before = Prompt.empty if conversation is None or turn.parent is None else conversation.history(turn.parent)
        shown = from_prompt(before + (new if turn.user is not None else _without_users(new)))
        return msgspec.structs.replace(shown[-1], id=turn.message_id) if shown[-1].role == "assistant" else None

    def _leave_out(self, first: Turn) -> EffectOf[None, Any]:
        store, id_ = self._stored.store, self._stored.id
        return store.delete(id_) if first.parent is None else store.choose(id_, first.parent)


def _without_users(messages: Prompt) -> Prompt:
    """Return the messages without the note of a late answer, which is for the model alone."""
    return Prompt(message for message in messages if message.role != "user")


def _explain(error: Any) -> Any:
    from fxai.ui import Busy

    if not isinstance(error, Busy):
        return error
    return CliError("another program goes on with this conversation", "leave it there, or begin a new one")


def _new_id() -> str:
    return secrets.token_urlsafe(12)


@final
class _Stored(Memory):
    """A conversation of a store, to be read and forgotten; a keeper writes its turns."""

    def __init__(self, store: Conversations, id_: str) -> None:
        self.store = store
        self.id = id_

    def find(self) -> Effect[Conversation | None, Any]:
        return self.store.load(self.id)

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return self.find().map(lambda found: Prompt.empty if found is None else found.history())

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        return self.find().map(lambda found: None if found is None else found.state())

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        raise NotImplementedError("its turns are written by a keeper")

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self.load().map(lambda whole: (whole,) if len(whole) else ())

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def begin_anew(_: object) -> None:
            self.id = secrets.token_hex(6)

        forgotten: Effect[None, Any] = self.store.delete(self.id).map(begin_anew)
        return forgotten


# -- where conversations are kept


def store_at(path: str | None) -> Conversations:
    """The conversations in a folder, or in a SQLite database by the end of its name; None: in the user's own folder.

    Raises:
        CliError: nothing can be kept there.
    """
    from fxai.ui import Conversations

    if path is None:
        place = _data_folder() / "chats"
        try:
            make_folder(place.parent)
        except OSError as error:
            said = f"nothing can be kept in {place}: {error.strerror or error}"
            raise CliError(said, "name another place with --store", cause=error, code=WRONG_USE) from None
    else:
        place = Path(path)
        require_place(path)
    return Conversations.sqlite(place) if is_database(place) else Conversations.files(place / "conversations")


def require_place(path: str) -> None:
    """Makes sure that something can be kept there.

    Raises:
        CliError: it cannot.
    """
    place = Path(path)
    problem = write_obstacle(place / "conversations" if place.is_dir() else place)
    if place.is_dir() and (place / "conversations").is_dir():
        problem = None if os.access(place, os.W_OK) else "it may not be written"
    if place.is_file() and not is_database(place):
        problem = "it is a file, and is not named as a database"
    if problem is not None:
        raise CliError(f"nothing can be kept in {path}: {problem}", "name another place", code=WRONG_USE)


def is_database(place: Path) -> bool:
    """Whether it is named as a SQLite database."""
    return place.suffix.lower() in _DATABASE


def _data_folder() -> Path:
    """Return the folder in which the system keeps data of the user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fxai"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "fxai"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fxai"


# -- which conversation


def choose_conversation(known: Sequence[ConversationSummary], wanted: str) -> str:
    """The id of the conversation that is wanted, by its id or by words of its title; with no words, the newest.

    Args:
        known: the conversations, those that changed last first.
        wanted: what the user typed.

    Raises:
        CliError: there is none, or there are several.
    """
    if not known:
        raise CliError("there is no conversation to go on with", "begin one with fxai chat", code=WRONG_USE)
    if not wanted:
        return known[0].id
    named = [one for one in known if one.id == wanted]
    called = named or [one for one in known if one.title.casefold() == wanted.casefold()]
    found = called or [one for one in known if one.id.startswith(wanted) or wanted.casefold() in one.title.casefold()]
    if len(found) == 1:
        return found[0].id
    said = "no conversation is" if not found else "several conversations are"
    some = "; ".join(f"{one_line(one.id, 40)} {one_line(one.title, 40)!r}" for one in found[:_MOST_NAMED])
    said += f" called {one_line(wanted, 60)!r}" + (f": {some}" if found else "")
    raise CliError(said, "say the id of one; fxai chat --list shows them", code=WRONG_USE)


def conversation_lines(known: Sequence[ConversationSummary]) -> list[str]:
    """A line for each: its id, when it changed, and its title; at most 20 of them."""
    return [
        f"{one_line(one.id, 40)}  {_day(one.changed)}  {one_line(one.title, 60)}" for one in known[:_MOST_LISTED]
    ] + ([f"and {len(known) - _MOST_LISTED} older ones"] if len(known) > _MOST_LISTED else [])


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def list_conversations(background: Background, store: Conversations) -> Sequence[ConversationSummary]:
    """The conversations of the command line, those that changed last first; 1,000 at most."""
    known: Sequence[ConversationSummary] = background.value_of(store.list(OWNER, limit=1000))
    return known
