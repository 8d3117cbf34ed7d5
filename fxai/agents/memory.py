"""Memories: store the turns of an agent's earlier runs. Use a memory if an agent should continue its earlier runs.

A turn contains all messages of a run. It starts with the message from the user. A run starts with the turns of the
memory, or with the turns that its compaction keeps. When the run succeeds, it commits all its messages. Many runs can
use a memory concurrently. The memory also stores the state of a stateful prompt.

Agents read and extend a `Memory` automatically. For a program that talks with a model turn by turn without an agent,
use a `Chat` (`fxai.models`).

>>> from fxai.effects import fx
>>> memory = Memory.in_process()
>>> fx.run_sync(memory.commit(Prompt.make("I am Ann.")))
>>> fx.run_sync(memory.load())[0].text
'I am Ann.'
"""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeAlias, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.agents.state import PromptState, StateError
from fxai.effects.constructor import attempt_work, context, fail, gen
from fxai.effects.effect import Effect, Gen, Succeed
from fxai.effects.layer import LayerOf
from fxai.effects.service import Service
from fxai.messages.calls import pending_in
from fxai.messages.message import Message, ToolMessage, ToolResultPart, handles_of
from fxai.messages.part import Usage
from fxai.messages.prompt import Prompt
from fxai.messages.wire import MessageError, unwrap_or_raise
from fxai.models.compaction import Compaction, WindowStage, check_compaction, describe_call, split_window
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import estimated_tokens
from fxai.tools.tool_error import InDoubt

if TYPE_CHECKING:
    from fxai.storage.journal import Entry, Form, Journal
    from fxai.storage.result_store import ResultStore

_A = TypeVar("_A")

_COUNTING: Final = "the model did not count the tokens of the turns"
_FIRST_TURNS: Final = 16  # turns to read first if a model counts them; each further attempt reads four times as many
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the quota of a user, or a file is full

# -- memories

_Doing: TypeAlias = Literal["load", "commit", "turns", "clear"]
_DONE = {"load": "loaded", "commit": "committed to", "turns": "read", "clear": "cleared"}


@final
class MemoryFailure(msgspec.Struct, frozen=True):
    """The failure of a memory operation: the memory, the operation, and the reason."""

    memory: str
    """The location of the memory: a file, a conversation in a database, or "this process"."""
    doing: _Doing
    """The operation that failed."""
    description: str
    """The reason."""
    history: Prompt | None = None
    """The whole conversation if a finished run could not commit. Another run can continue from it."""
    state: PromptState | None = None
    """The state of the run's prompt, or None."""
    usage: Usage | None = None
    """The usage of the run that could not commit, or None."""

    @override
    def __str__(self) -> str:
        return f"memory in {self.memory} could not be {_DONE[self.doing]}: {self.description}"


class Memory(Service):
    """A store for the turns of runs. You can use a memory directly, or provide it as a service with `memory.layer`."""

    @abstractmethod
    def load(self) -> Effect[Prompt, MemoryFailure]:
        """Return the messages of the turns, oldest first. It never returns a part of a turn.

        If the compaction of the memory is a window without a trigger, it returns only the turns in the window.

        Fails with:
            MemoryFailure: If fxai cannot read the memory, or the memory does not contain turns.
        """

    @abstractmethod
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        """Append the messages of a run as a turn. If the effect fails, it appends no message.

        It omits system messages and does nothing if no other messages exist. Messages that start with a tool message
        (approvals, external results) continue the turn that needs this message. Messages that start with a message of
        the model continue the newest turn without pending calls. A run commits approved calls before they run, with
        unknown outcome (`InDoubt`). A later result replaces the unknown outcome. A result that the turn already
        contains counts once.

        Fails with:
            MemoryFailure: If fxai cannot write the memory, or no turn can continue with the messages.
        """

    @abstractmethod
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        """Return all turns, oldest first, including the turns outside the window.

        Fails with:
            MemoryFailure: See `load`.
        """

    @abstractmethod
    def clear(self) -> Effect[None, MemoryFailure]:
        """Remove all turns.

        Fails with:
            MemoryFailure: If fxai cannot write the memory.
        """

    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        """Return the state of the latest commit, including turns outside the window, or None.

        The default implementation stores no state and returns None.

        Fails with:
            MemoryFailure: See `load`.
        """
        return Succeed(None)

    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        """Commit messages together with the state of a prompt. If the effect fails, it commits neither.

        Args:
            messages: The messages, see `commit`. If the prompt is empty, fxai commits only the state.
            state: The new state, or None to leave the state unchanged.

        Fails with:
            MemoryFailure: See `commit`. Also if you pass a state and the class does not define this method.
        """
        return self.commit(messages) if state is None else fail(keeps_no_state(self))

    @property
    def compaction(self) -> Compaction | None:
        """The compaction for the runs of this memory, without the window that `load` applies. Default: None.

        A run uses it if its agent has no compaction. The messages in the memory stay whole.
        """
        return None

    @property
    def layer(self) -> LayerOf[Memory, Never, None]:
        """The layer that provides this memory as the service `Memory`."""
        return LayerOf.succeed(Memory, self)

    # -- constructors

    @staticmethod
    def in_process(
        compaction: Compaction | None = None, *, keep: int | None = None, results: ResultStore | None = None
    ) -> Memory:
        """Return a new memory that exists until the process ends.

        Args:
            compaction: The rule that shortens the messages for a run, or None for all messages. The memory stores all
                messages. A window without a trigger counts only the turns of the memory, and always keeps the newest
                turn, to answer its open calls.
            keep: Maximum number of stored turns, or None for no limit. The memory stores the newest turns.
            results: The store of large results. `clear` also removes the results of the turns. Default: None.

        Raises:
            TypeError: If `compaction` is not a `Compaction`.
            ValueError: If `keep` is less than 1.
        """
        from fxai.storage.journal import ProcessJournal

        _check(compaction, keep)
        described = describe_call("Memory.in_process", compaction, keep=keep)
        return _JournalMemory(ProcessJournal(keep), compaction, described, results)

    @staticmethod
    def file(
        path: str | os.PathLike[str],
        compaction: Compaction | None = None,
        *,
        keep: int | None = None,
        results: ResultStore | None = None,
    ) -> Memory:
        """Return a memory in a file of JSON lines, which the first commit creates. All local processes can use it.

        After a successful commit, the turn is on the disk, even if the process crashes. See
        `fxai.storage.journal_file`.

        Args:
            path: The file. Only its owner can read it. fxai also creates a file `.lock` next to it.
            compaction: The compaction, see `in_process`.
            keep: Maximum number of turns, see `in_process`. fxai removes many older turns from the file at a time.
            results: The store of large results, see `in_process`.

        Raises:
            TypeError, ValueError: See `in_process`. Also if `path` is not valid for a file.
        """
        from fxai.storage.journal_file import FileJournal
        from fxai.storage.private_file import file_path

        _check(compaction, keep)
        journal = FileJournal(file_path(path), _form(), keep)
        described = describe_call("Memory.file", str(journal.path), compaction, keep=keep)
        return _JournalMemory(journal, compaction, described, results)

    @staticmethod
    def sqlite(
        path: str | os.PathLike[str],
        compaction: Compaction | None = None,
        *,
        conversation: str = "default",
        keep: int | None = None,
        results: ResultStore | None = None,
    ) -> Memory:
        """Return the memory of a conversation in a SQLite database, which the first use creates.

        After a successful commit, the turn is on the disk, even if the process crashes.

        Args:
            path: The database in WAL mode. It can also contain other data.
            compaction: The compaction, see `in_process`.
            conversation: The name of the conversation in the database. Default: "default".
            keep: Maximum number of turns, see `in_process`.
            results: The store of large results, see `in_process`.

        Raises:
            TypeError, ValueError: See `in_process`. Also if `path` is not valid for a database.
        """
        from fxai.storage.database import database_path
        from fxai.storage.journal import TableJournal

        _check(compaction, keep)
        journal = TableJournal(database_path(path), conversation, _form(), keep)
        named = {"conversation": conversation, "keep": keep}
        described = describe_call("Memory.sqlite", str(journal.path), compaction, **named)
        return _JournalMemory(journal, compaction, described, results)


def keeps_no_state(memory: Memory) -> MemoryFailure:
    """Return the failure of a memory that cannot store the state of a prompt."""
    why = "the class stores no state of a stateful prompt. Define `load_state` and `commit_with` in the class."
    return MemoryFailure(type(memory).__qualname__, "commit", why)


def _check(compaction: object, keep: int | None) -> None:
    _ = check_compaction(compaction)
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}. Pass None to store all turns.")


def _form() -> Form[Prompt]:
    from fxai.storage.journal import Form

    return Form("memory", "turn", _encode, _decode, PromptState.to_json, _decode_state)


def _encode(messages: Prompt) -> str:
    """Return the messages as a JSON string after a check that fxai can read it again.

    Raises:
        MessageError: If a payload is not a JSON value or is too deep.
    """
    text = messages.to_json()
    unreadable = "messages have a JSON form that fxai cannot read again"
    unwrap_or_raise(Prompt.from_json(text), lambda failure: MessageError(f"{unreadable}: {failure}"))
    return text


def _decode(text: bytes) -> Prompt:
    return unwrap_or_raise(
        Prompt.from_json(text), lambda failure: OSError(f"the entry contains no messages ({failure})")
    )


def _decode_state(text: bytes) -> PromptState:
    read = PromptState.from_json(text)
    return unwrap_or_raise(read, lambda failure: OSError(f"the entry contains no state of a prompt ({failure})"))


@final
class _JournalMemory(Memory):
    """A memory that stores each turn as an entry of a journal. Each part of an entry is a commit."""

    def __init__(
        self, journal: Journal[Prompt], compaction: Compaction | None, described: str, results: ResultStore | None
    ) -> None:
        self._journal = journal
        self._results = results
        self._window, self._compaction = (None, None) if compaction is None else split_window(compaction)
        self._described = described
        self._counted: tuple[LanguageModel | None, dict[Prompt, int]] = (None, {})  # the model and its counts

    @override
    def __repr__(self) -> str:
        return self._described

    @property
    @override
    def compaction(self) -> Compaction | None:
        return self._compaction

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        def join(entries: Iterator[Entry[Prompt]]) -> Prompt:
            turns = tuple(_turns(entries))[::-1] if window is None else window.newest(_turns(entries))
            return Prompt(message for turn in turns for message in turn)

        window = self._window
        if window is not None and window.size == "model" and window.tokens is not None:
            return context().flat_map(lambda services: self._load_counted(window, services.find(LanguageModel)))
        return self._attempt("load", lambda: self._journal.read(join))

    @gen
    def _load_counted(self, window: WindowStage, model: LanguageModel | None) -> Gen[Prompt, MemoryFailure]:
        """Return the turns in the window. The model counts each turn once and reuses the counts of earlier loads."""
        known, counts = self._counted[1] if self._counted[0] is model else {}, dict[Prompt, int]()
        most, is_enough, newest = _FIRST_TURNS, False, tuple[Prompt, ...]()
        while not is_enough:  # read only the turns that the window needs, because a memory can contain years
            newest = yield from self._newest("load", most)
            left = window.tokens or 0
            for turn in newest:
                if turn not in counts:
                    counts[turn] = known[turn] if turn in known else (yield from self._count(turn, model))
                left -= counts[turn]
                if left < 0 and turn is not newest[0]:
                    break
            is_enough, most = left < 0 or len(newest) < most, most * 4
        self._counted = model, counts
        fitting = msgspec.structs.replace(window, size=counts.__getitem__).newest(newest)
        return Prompt(message for turn in fitting for message in turn)

    def _count(self, turn: Prompt, model: LanguageModel | None) -> Effect[int, MemoryFailure]:
        if model is None or turn.pending:
            return Succeed(estimated_tokens(turn))
        counting = model.count(ModelRequest(turn)).map(lambda counted: counted.tokens)
        return counting.map_error(lambda error: MemoryFailure(self._journal.location, "load", f"{_COUNTING}: {error}"))

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        return self._attempt("load", self._journal.read_state)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self._newest("turns", None).map(lambda newest: newest[::-1])

    def _newest(self, doing: _Doing, most: int | None) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self._attempt(doing, lambda: self._journal.read(lambda entries: tuple(islice(_turns(entries), most))))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return self.commit_with(messages, None)

    @override
    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        def commit() -> None:
            new = _without_system(messages)
            if len(new) or state is not None:
                self._journal.append(new, lambda entries: _find_entry(new, entries), state)

        return self._attempt("commit", commit)

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def clear() -> None:
            turns = () if self._results is None else self._journal.read(lambda entries: tuple(_turns(entries)))
            self._journal.clear()
            if self._results is not None:
                self._results.remove(handles_of(message for turn in turns for message in turn))

        return self._attempt("clear", clear)

    def _attempt(self, doing: _Doing, work: Callable[[], _A]) -> Effect[_A, MemoryFailure]:
        def fail(error: Exception) -> MemoryFailure | None:
            if isinstance(error, OSError) and error.errno is not None:
                remedy = "Free some space." if error.errno in _FULL else "Pass a path that this process can use."
                return MemoryFailure(self._journal.location, doing, f"{error.strerror}. {remedy}")
            is_known = isinstance(error, OSError | MessageError | StateError | NotAwaitedError)
            return MemoryFailure(self._journal.location, doing, str(error)) if is_known else None

        return attempt_work(work, fail, in_thread=self._journal.blocks)


def _without_system(messages: Prompt) -> Prompt:
    """Return the messages without system messages, because these messages belong to the agent."""
    if not isinstance(cast(object, messages), Prompt):
        raise TypeError(f"messages must be a Prompt, got {messages!r}. Pass Prompt.make(…).")
    return messages.without_system() if any(one.role == "system" for one in messages) else messages


def _turns(entries: Iterable[Entry[Prompt]]) -> Iterator[Prompt]:
    """Return the turns. An entry without messages contains only a state."""
    return (turn for turn in map(_turn, entries) if len(turn))


def _turn(entry: Entry[Prompt]) -> Prompt:
    """Return the messages in a turn."""
    if len(entry.parts) == 1:
        return entry.parts[0]
    return merge_commits(Prompt(message for commit in entry.parts for message in commit))


def _find_entry(messages: Prompt, entries: Iterator[Entry[Prompt]]) -> Entry[Prompt] | None:
    """Return the entry of the turn that the messages continue. Without messages, return the newest entry."""
    if not len(messages):
        return next(entries, None)
    read: list[Entry[Prompt]] = []

    def newest_first() -> Iterator[Prompt]:
        for entry in entries:
            read.append(entry)
            yield _turn(entry)

    index = turn_of(messages, newest_first())
    return None if index is None else read[index]


# -- turns

_IN_DOUBT: Final = InDoubt.__struct_config__.tag


class NotAwaitedError(ValueError):
    """The error for messages that continue a turn, if no turn needs them."""


def turn_of(messages: Prompt, newest_first: Iterable[Prompt]) -> int | None:
    """Return the index of the turn that the messages continue, from 0 for the newest. Return None for a new turn.

    Messages that start with a tool message continue the newest turn that needs all their results and answers. A run
    that ended after this turn does not receive them. A turn also needs the result of a call with unknown outcome, and
    accepts a result that it already contains. Messages that start with a message of the model continue the newest turn
    without pending calls.

    Raises:
        NotAwaitedError: If no turn needs the results in the first tool message. Also if the messages start with a
            message from the model and all turns are pending.
    """
    first = messages[0]
    if first.role == "user":
        return None
    if first.role != "tool":
        return _newest_closed(newest_first)
    brought = {part.id if part.type == "tool-result" else part.approval_id for part in first.content}
    for index, turn in enumerate(newest_first):
        if brought <= _open(turn) | _replaced_by(first, turn):
            return index
    what = ", ".join(sorted(brought)) or "nothing"
    raise NotAwaitedError(
        f"no stored turn needs the first tool message, which answers {what}. A run answered it before, or the memory "
        "removed the turn. Start with a user message."
    )


def _newest_closed(newest_first: Iterable[Prompt]) -> int | None:
    index = None
    for index, turn in enumerate(newest_first):
        if not _open(turn):
            return index
    if index is None:
        return None
    raise NotAwaitedError(
        "the messages start with a message of the model, but all stored turns are pending. Answer a turn, or start "
        "with a user message."
    )


def _open(turn: Prompt) -> frozenset[str]:
    waiting = pending_in(part for one in turn if one.role != "system" for part in one.content)
    return frozenset(name for one in waiting for name in (one.id, one.approval_id) if name is not None)


def _replaced_by(message: ToolMessage, turn: Prompt) -> frozenset[str]:
    """Return the ids of results that replace an unknown outcome of the turn, or that the turn already contains."""
    latest = _Results(turn).latest
    results = (part for part in message.content if part.type == "tool-result")
    return frozenset(part.id for part in results if part.id in latest and _replaces(part, latest[part.id]))


def merge_commits(commits: Prompt) -> Prompt:
    """Return the messages in a turn from its commits. A result replaces the unknown outcome of its call.

    Before an approved call runs, fxai commits its turn with an unknown outcome of the call. It commits the result
    later.

    >>> from fxai.messages.message import ToolResultPart
    >>> doubt = ToolResultPart("c", "wipe", {"type": "execution-in-doubt"}, is_failure=True)
    >>> len(merge_commits(Prompt([ToolMessage.make(doubt), ToolMessage.make(ToolResultPart("c", "wipe", 5))])))
    1
    """
    merged: list[Message] = []
    if not (results := _Results(commits)).known:
        return commits
    for index, message in enumerate(commits):
        if message.role != "tool":
            merged.append(message)
            continue
        parts = [results.with_later_result(part, (index, position)) for position, part in enumerate(message.content)]
        content = tuple(part for part in parts if part is not None)
        if content:
            merged.append(message if content == message.content else msgspec.structs.replace(message, content=content))
        elif message.metadata and merged:
            merged[-1] = msgspec.structs.replace(merged[-1], metadata={**merged[-1].metadata, **message.metadata})
    return Prompt(merged)


@final
class _Results:
    """The results of a turn, and the later results of calls with unknown outcome."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.latest: dict[str, ToolResultPart] = {}
        """The result of the latest call of each id."""
        self.known: dict[str, ToolResultPart] = {}
        """The results of calls that had an unknown outcome, and repeated results."""
        self._again: set[tuple[int, int]] = set()  # the positions of repeated results
        for index, message in enumerate(messages):
            if message.role == "tool" or message.role == "assistant":
                for position, part in enumerate(message.content):
                    self._add(part, (index, position))

    def _add(self, part: Any, location: tuple[int, int]) -> None:
        if part.type == "tool-call":
            self.latest.pop(part.id, None)
        elif part.type == "tool-result":
            before = self.latest.get(part.id)
            if before is not None and _replaces(part, before):
                self.known[part.id] = part
                self._again.add(location)
            self.latest[part.id] = part

    def with_later_result(self, part: Any, location: tuple[int, int]) -> Any:
        """Return the part or its later result, or None if the turn already contains it."""
        if location in self._again:
            return None
        known = self.known.get(part.id) if part.type == "tool-result" and _is_doubt(part) else None
        return part if known is None else known


def _replaces(part: ToolResultPart, before: ToolResultPart) -> bool:
    return _is_doubt(before) or part == before


def _is_doubt(part: ToolResultPart) -> bool:
    result: object = part.result
    return (
        part.is_failure and isinstance(result, Mapping) and cast("Mapping[str, Any]", result).get("type") == _IN_DOUBT
    )
