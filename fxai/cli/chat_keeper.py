"""Keepers store the turns of `fxai chat` while they run. This module also finds stored conversations.

A memory receives each turn when it ends. A store of conversations, which `fxai serve` can share, receives each run of
a turn at its start and at its end. The store therefore knows interrupted turns and pending calls.

>>> from fxai.ui import Conversations
>>> with BackgroundRunner() as background:
...     keeper = StoreKeeper(background, Conversations.in_process(), "c1")
...     keeper.start(Prompt.make("Hello"))
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.agents import Memory, MemoryFailure
from fxai.agents.draft import Draft
from fxai.agents.state import PromptState
from fxai.cli.exit import CliError, refusing, why_unwritable, wrong_use
from fxai.cli.run_program import BackgroundRunner
from fxai.cli.setting import DATABASE, OpenSetting, StateFile, StateMemory
from fxai.effects import Effect, EffectOf
from fxai.messages import Pending, Prompt
from fxai.models import ApprovalKey, ApprovalLedger
from fxai.schema.display import one_line
from fxai.storage.private_file import make_folder
from fxai.ui import Busy, Conversation, Conversations, ConversationSummary, Turn, from_prompt
from fxai.ui.conversation import Ended
from fxai.ui.turn import with_signer

OWNER: Final = "local"
"""The owner of the conversations of `fxai chat` and `fxai serve`."""


class Keeper:
    """A writer of finished turns of a conversation to a memory. Its methods block the main thread.

    `memory` contains the messages and the state of a stateful prompt.
    """

    def __init__(self, background: BackgroundRunner, memory: StateMemory) -> None:
        self.memory = memory
        self._value_of = background.value_of

    @property
    def left_open(self) -> tuple[Pending, ...]:
        """The open approvals of earlier turns that the user can still answer."""
        return ()

    def start(self, added: Prompt, late: Prompt = Prompt.empty) -> None:
        """Store the start of a run of a turn: its messages, and late answers to earlier approvals."""

    def end(self, draft: Draft, ended: Ended) -> None:
        """Store the end of a run. A `pending` turn continues. A `failed` turn is removed from the conversation."""
        if ended in ("done", "stopped"):
            kept = self.memory.commit_with(draft.messages, draft.state).and_then(self.memory.save())
            self._value_of(kept.uninterruptible())


@final
class StoreKeeper(Keeper):
    """A keeper that stores each run of a turn in a store of conversations and locks the conversation."""

    def __init__(
        self, background: BackgroundRunner, store: Conversations, id: str | None = None, state: StateFile | None = None
    ) -> None:
        """Continue the conversation `id`, or start a new conversation. Write the state also to the file `state`."""
        self._stored = _Stored(store, id or secrets.token_hex(6))
        super().__init__(background, StateMemory(self._stored, state))
        self._background = background
        self._held: str | None = None
        self._turn: Turn | None = None
        self._first: Turn | None = None  # the first run of the turn
        self._earlier = 0  # the number of messages from earlier runs of the turn
        if id is not None:
            self._hold()

    def find(self) -> Conversation | None:
        """Return the stored conversation, or None before its first turn."""
        return self._value_of(self._stored.find())

    def describe(self) -> tuple[str, bool]:
        """Return the title, and True if the process of the last turn ended during the turn."""
        found = self.find()
        path = () if found is None else found.path()
        title = repr(one_line("" if found is None else found.title, 60))
        return title, bool(path) and path[-1].ended is None

    @property
    @override
    def left_open(self) -> tuple[Pending, ...]:
        return () if (found := self.find()) is None else found.left_open()

    def with_key(self, ready: OpenSetting) -> EffectOf[OpenSetting, Any]:
        """Return the setting with the key and the ledger of the store. Another process can then approve a call."""

        def add(signer: tuple[ApprovalKey, ApprovalLedger]) -> OpenSetting:
            return msgspec.structs.replace(ready, services=with_signer(*signer, ready.services))

        return self._stored.store.signer().map(add)

    def _hold(self) -> None:
        def explain(error: Any) -> Any:
            remedy = "Continue it there, or start a new conversation."
            return CliError("another program uses this conversation", remedy) if isinstance(error, Busy) else error

        if self._held != self._stored.id:
            self._held = self._stored.id
            self._background.hold(self._stored.store.hold(self._held).map_error(explain))

    @override
    def start(self, added: Prompt, late: Prompt = Prompt.empty) -> None:
        """Store the messages. A turn with only late answers continues the last message of the agent."""
        self._hold()
        before = self.find()
        last = before.path()[-1] if before is not None and before.head is not None else None
        shown = Prompt.empty if len(late) else added
        user = next((one for one in from_prompt(shown, lambda: secrets.token_urlsafe(12)) if one.role == "user"), None)
        message_id = secrets.token_urlsafe(12) if user is not None or last is None else last.message_id
        self._turn = Turn.make(secrets.token_urlsafe(12), last and last.id, user, message_id, late + added, time.time())
        self._first = self._turn if user is not None or self._first is None else self._first
        self._value_of(self._stored.store.begin(self._stored.id, OWNER, self._turn))

    @override
    def end(self, draft: Draft, ended: Ended) -> None:
        turn, first = self._turn, self._first
        if turn is None or first is None:
            raise AssertionError("end was called before begin")
        new = Prompt(list(draft.messages)[self._earlier :])
        self._earlier = len(draft.messages) if ended == "pending" else 0
        self._turn = None
        message = self._message(new, turn)
        whole = msgspec.structs.replace(turn, message=message, messages=new, state=draft.state, ended=ended)
        keeping: EffectOf[None, Any] = self._stored.store.end(self._stored.id, whole)
        if ended == "failed":
            store, id_ = self._stored.store, self._stored.id
            keeping = keeping.and_then(store.delete(id_) if first.parent is None else store.choose(id_, first.parent))
        elif ended != "pending":
            self.memory.state = draft.state
            keeping = keeping.and_then(self.memory.save())
        self._first = first if ended == "pending" else None
        self._value_of(keeping.uninterruptible())

    def _message(self, new: Prompt, turn: Turn) -> Any:
        """Return the agent's message as a page shows it. Several runs can contribute to it."""
        conversation = self.find()
        before = Prompt.empty if conversation is None or turn.parent is None else conversation.history(turn.parent)
        if turn.user is None:  # only the model needs the note about a late answer
            new = Prompt(message for message in new if message.role != "user")
        shown = from_prompt(before + new)
        return msgspec.structs.replace(shown[-1], id=turn.message_id) if shown[-1].role == "assistant" else None


@final
class _Stored(Memory):
    """A memory that reads and deletes a conversation of a store. A keeper writes its turns."""

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
        raise NotImplementedError("a keeper writes the turns of this memory")

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self.load().map(lambda whole: (whole,) if len(whole) else ())

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def start_again(_: object) -> None:
            self.id = secrets.token_hex(6)

        forgotten: Effect[None, Any] = self.store.delete(self.id).map(start_again)
        return forgotten


# -- stores of conversations


def store_at(path: str | None) -> Conversations:
    """Return the store in a directory or SQLite database. None selects the data directory of the user.

    A path that ends with .db, .sqlite, or .sqlite3 is a database.
    """
    if path is None:
        location = _data_folder() / "chats"
        with refusing(f"cannot store conversations in {location}", "Name another path with --store."):
            make_folder(location.parent)
    else:
        location = Path(path)
        folder = location / "conversations"
        if location.is_dir() and folder.is_dir():
            problem = None if os.access(location, os.W_OK) else "no permission to write"
        elif location.is_file() and not is_database(location):
            problem = "the file does not have the suffix of a database"
        else:
            problem = why_unwritable(folder if location.is_dir() else location)
        if problem is not None:
            raise wrong_use(f"cannot store conversations in {path}: {problem}", "Name another path.")
    return Conversations.sqlite(location) if is_database(location) else Conversations.files(location / "conversations")


def is_database(location: Path) -> bool:
    """Return True if the path has the suffix of a SQLite database."""
    return location.suffix.lower() in DATABASE


def _data_folder() -> Path:
    """Return the directory for the data of the user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fxai"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "fxai"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fxai"


# -- selection of a conversation


def choose_conversation(known: Sequence[ConversationSummary], wanted: str) -> str:
    """Return the id of the conversation with this id or title. An empty string selects the newest conversation.

    `known` are the conversations, most recently changed first.
    """
    if not known:
        raise wrong_use("no conversation is stored", "Start a conversation with fxai chat.")
    if not wanted:
        return known[0].id
    named = [one for one in known if one.id == wanted]
    called = named or [one for one in known if one.title.casefold() == wanted.casefold()]
    found = called or [one for one in known if one.id.startswith(wanted) or wanted.casefold() in one.title.casefold()]
    if len(found) == 1:
        return found[0].id
    added = "no conversation matches" if not found else "several conversations match"
    some = "; ".join(f"{one_line(one.id, 40)} {one_line(one.title, 40)!r}" for one in found[:5])
    added += f" {one_line(wanted, 60)!r}" + (f": {some}" if found else "")
    raise wrong_use(added, "Pass an id. To list the ids, run fxai chat --list.")


def conversation_lines(known: Sequence[ConversationSummary]) -> list[str]:
    """Return one line per conversation with its id, the time of its last change, and its title, at most 20."""
    lines: list[str] = []
    for one in known[:20]:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        lines.append(f"{one_line(one.id, 40)}  {day}  {one_line(one.title, 60)}")
    return lines + ([f"and {len(known) - 20} older ones"] if len(known) > 20 else [])


def list_conversations(background: BackgroundRunner, store: Conversations) -> Sequence[ConversationSummary]:
    """Return the conversations of the command line, most recently changed first, at most 1,000."""
    return background.value_of(store.list(OWNER, limit=1000))
