"""Memories: the turns of earlier runs of an agent, as a service.

A turn is the messages of one run, from the user's message to the last answer. A run begins with the turns in the
memory's window, and commits its own messages whole when it has succeeded. Many runs may use one memory at once.
With them goes the state of a stateful prompt, where the agent has one.

A `Memory` is for agents, which read it and add to it by themselves. A `Chat` (`fxai.models`) is for a program that
talks with a model turn by turn, and does not need an agent.

>>> from fxai.effects import fx
>>> memory = Memory.in_process()
>>> fx.run_sync(memory.commit(Prompt.make("I am Ann.")))
>>> fx.run_sync(memory.load())[0].text
'I am Ann.'
>>> turns = [Prompt.make("One"), Prompt.make("Two"), Prompt.make("Three")]
>>> [turn[0].text for turn in Window.turns(2).newest(reversed(turns))]
['Two', 'Three']
"""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeAlias, TypeVar, cast, final

import msgspec
from returns.result import Result, Success
from typing_extensions import override

from fxai.agents.state import PromptState, StateError
from fxai.effects.constructor import attempt_work, context, fail, gen
from fxai.effects.effect import Effect, Gen, Succeed
from fxai.effects.layer import LayerOf
from fxai.effects.service import Service
from fxai.messages.calls import pending_in
from fxai.messages.message import Message, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.messages.wire import MessageError
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import estimated_tokens
from fxai.tools.tool_error import InDoubt

if TYPE_CHECKING:
    from fxai.storage.journal import Entry, Form, Journal

_A = TypeVar("_A")

_COUNTING: Final = "the tokens of its turns cannot be counted"
_FIRST_TURNS: Final = 16  # that are read where a model counts them; of more, four times as many each time
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk, of what a user may have, of what a file may be

TurnCount: TypeAlias = Callable[[Prompt], int] | Literal["model"]
"""How the tokens of a turn are counted: by a function, or as the model of the run counts."""


@final
class Window(msgspec.Struct, frozen=True):
    """The newest turns of a memory, as many as fit; always the very newest, so that its open calls can be answered.

    A turn is in it whole or not at all: no call without its result, no approval without its request. Behind a turn that
    does not fit, no older one is in it, so that nothing is missing in between.
    """

    most_turns: int | None = None
    """How many turns at most; None: no bound."""
    most_tokens: int | None = None
    """How many tokens all turns together take at most, by `count`; None: no bound. The newest turn may take more."""
    count: TurnCount = estimated_tokens
    """How many tokens the messages of one turn take."""

    @staticmethod
    def turns(most: int) -> Window:
        """The newest `most` turns.

        Raises:
            ValueError: it is less than 1.
        """
        return Window(most)

    @staticmethod
    def tokens(most: int, *, count: TurnCount = estimated_tokens) -> Window:
        """The newest turns that take at most `most` tokens together.

        Args:
            most: how many tokens.
            count: how many the messages of one turn take; by default an estimate, see `estimated_tokens`. `"model"`:
                as the model of the run counts them (`LanguageModel.count`), turn by turn from the newest on, and each
                once while that model is asked; outside of a run, and where a turn waits for an answer, an estimate.

        Raises:
            ValueError: `most` is less than 1.
        """
        return Window(None, most, count)

    def __post_init__(self) -> None:
        for bound, noun in ((self.most_turns, "turns"), (self.most_tokens, "tokens")):
            if bound is not None and bound < 1:
                raise ValueError(f"a window of {bound} {noun} shows nothing: give at least 1, or None for no bound")

    @override
    def __repr__(self) -> str:
        if self.most_tokens is None:
            return f"Window.turns({self.most_turns})"
        if self.most_turns is not None:
            return f"Window({self.most_turns}, {self.most_tokens})"
        counted = "" if self.count is estimated_tokens else f", count={self.count!r}"
        return f"Window.tokens({self.most_tokens}{counted})"

    def size(self, turn: Prompt) -> int:
        """How many tokens the messages of a turn take; an estimate where the model would count them."""
        return estimated_tokens(turn) if self.count == "model" else self.count(turn)

    def newest(self, newest_first: Iterable[Prompt]) -> tuple[Prompt, ...]:
        """The turns that fit, the oldest first; of `newest_first` no more are taken than are needed."""
        turns: list[Prompt] = []
        tokens = 0
        for turn in newest_first:
            tokens += 0 if self.most_tokens is None else self.size(turn)
            if turns and self.most_tokens is not None and tokens > self.most_tokens:
                break
            turns.append(turn)
            if len(turns) == self.most_turns:
                break
        return tuple(reversed(turns))


# -- memories

_Doing: TypeAlias = Literal["load", "commit", "turns", "clear"]
_DONE = {"load": "loaded", "commit": "committed to", "turns": "read", "clear": "cleared"}


@final
class MemoryFailure(msgspec.Struct, frozen=True):
    """A memory could not be loaded, committed to, read or cleared: which, and why."""

    memory: str
    """Where it is: a file, a conversation in a database, or "this process"."""
    doing: _Doing
    description: str
    history: Prompt | None = None
    """The whole conversation, where a run was done and could not be committed: it can go on from it."""
    state: PromptState | None = None
    """The state of that run's prompt, if it has one."""

    @override
    def __str__(self) -> str:
        return f"the memory in {self.memory} could not be {_DONE[self.doing]}: {self.description}"


class Memory(Service):
    """Keeps the turns of runs. A memory is a value, usable at once; `memory.layer` makes it the service `Memory`."""

    @abstractmethod
    def load(self) -> Effect[Prompt, MemoryFailure]:
        """The messages of the turns in the window, in order; never half of a turn.

        Fails with:
            MemoryFailure: It cannot be read, or what stands there are no turns.
        """

    @abstractmethod
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        """Appends the messages of one run as a turn: all of them, or, where it fails, none.

        System messages are left out; where there are no others, nothing happens. Messages that begin with a tool
        message (approvals, results from outside) go on with the turn that waits for it, and those that begin with the
        model's with the newest turn that waits for nothing. A run commits what was approved before it runs, its calls
        in doubt (`InDoubt`); a result replaces the doubt, and one that stands there already counts once.

        Fails with:
            MemoryFailure: It cannot be written, or there is no turn that it could go on with.
        """

    @abstractmethod
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        """All turns, the oldest first, whatever the window.

        Fails with:
            MemoryFailure: As `load`.
        """

    @abstractmethod
    def clear(self) -> Effect[None, MemoryFailure]:
        """Removes all turns.

        Fails with:
            MemoryFailure: It cannot be written.
        """

    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        """The state that was committed last, of all turns, whatever the window; None: none was.

        A memory that keeps no state, which is one that does not define this, gives None.

        Fails with:
            MemoryFailure: As `load`.
        """
        return Succeed(None)

    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        """Commits messages, and with them the state of a prompt: both or, where it fails, neither.

        Args:
            messages: as for `commit`; where there are none, the state alone.
            state: what the state is from now on; None: what it was.

        Fails with:
            MemoryFailure: As `commit`; or there is a state, and the memory does not define this.
        """
        return self.commit(messages) if state is None else fail(keeps_no_state(self))

    @property
    def layer(self) -> LayerOf[Memory, Never, None]:
        """The layer that gives this memory as the service `Memory`."""
        return LayerOf.succeed(Memory, self)

    # -- constructors

    @staticmethod
    def in_process(window: Window | None = None, *, keep: int | None = None) -> Memory:
        """A new memory that ends with the process.

        Args:
            window: how much of it a run begins with; None: everything.
            keep: how many turns are kept at most, the newest; None: all.

        Raises:
            TypeError: `window` is no `Window`.
            ValueError: `keep` is less than 1.
        """
        from fxai.storage.journal import ProcessJournal

        _check(window, keep)
        return _JournalMemory(ProcessJournal(keep), window, _describe("in_process", window, keep=keep))

    @staticmethod
    def file(path: str | os.PathLike[str], window: Window | None = None, *, keep: int | None = None) -> Memory:
        """The memory in a file of JSON lines, which is made at the first commit; for all processes of this machine.

        A commit is on the disk when it has succeeded, however the process ends; see `fxai.storage.journal_file`.

        Args:
            path: the file, which its owner alone can read; beside it a file `.lock` is made.
            window: as for `in_process`.
            keep: as for `in_process`; older turns are dropped from the file in bulk.

        Raises:
            TypeError, ValueError: as `in_process`; or no file can have that path.
        """
        from fxai.storage.journal_file import FileJournal
        from fxai.storage.private_file import file_path

        _check(window, keep)
        journal = FileJournal(file_path(path), _form(), keep)
        return _JournalMemory(journal, window, _describe("file", str(journal.path), window, keep=keep))

    @staticmethod
    def sqlite(
        path: str | os.PathLike[str],
        window: Window | None = None,
        *,
        conversation: str = "default",
        keep: int | None = None,
    ) -> Memory:
        """The memory of one conversation in a SQLite database, which is made at the first use.

        A commit is on the disk when it has succeeded, however the process ends.

        Args:
            path: the database, in WAL mode; it may hold other things as well.
            window: as for `in_process`.
            conversation: which of the conversations in the database.
            keep: as for `in_process`.

        Raises:
            TypeError, ValueError: as `in_process`; or no database can have that path.
        """
        from fxai.storage.database import database_path
        from fxai.storage.journal import TableJournal

        _check(window, keep)
        journal = TableJournal(database_path(path), conversation, _form(), keep)
        named = {"conversation": conversation, "keep": keep}
        return _JournalMemory(journal, window, _describe("sqlite", str(journal.path), window, **named))


def keeps_no_state(memory: Memory) -> MemoryFailure:
    """The failure of a memory that is to keep the state of a prompt, and does not define how."""
    why = "it keeps no state of a stateful prompt; define `load_state` and `commit_with` in its class"
    return MemoryFailure(type(memory).__qualname__, "commit", why)


def _check(window: object, keep: int | None) -> None:
    if not (window is None or isinstance(window, Window)):
        raise TypeError(f"window={window!r} is no window: say Window.turns(…) or Window.tokens(…)")
    if keep is not None and keep < 1:
        raise ValueError(f"a memory that keeps {keep} turns forgets everything: keep at least 1, or None for all")


def _describe(constructor: str, *values: object, **named: object) -> str:
    """The call of a constructor, without the arguments that are None."""
    written = [repr(value) for value in values if value is not None]
    written += [f"{name}={value!r}" for name, value in named.items() if value is not None]
    return f"Memory.{constructor}({', '.join(written)})"


def _form() -> Form[Prompt]:
    from fxai.storage.journal import Form

    return Form("memory", "conversation", "turn", "messages", _encode, _decode, PromptState.to_json, _decode_state)


def _encode(messages: Prompt) -> str:
    """The messages as JSON text, of which it is sure that it can be read again.

    Raises:
        MessageError: a payload is no JSON data, or too deep.
    """
    text = messages.to_json()
    read = Prompt.from_json(text)
    if not isinstance(read, Success):
        raise MessageError(f"it could be written and never read again: {read.failure()}")
    return text


def _decode(text: bytes) -> Prompt:
    return _check_read(Prompt.from_json(text), "messages")


def _decode_state(text: bytes) -> PromptState:
    return _check_read(PromptState.from_json(text), "state of a prompt")


def _check_read(read: Result[_A, object], what: str) -> _A:
    if isinstance(read, Success):
        value: _A = read.unwrap()
        return value
    raise OSError(f"it holds no {what} ({read.failure()})")


@final
class _JournalMemory(Memory):
    """A memory whose turns are the entries of a journal; each part of one is a commit."""

    def __init__(self, journal: Journal[Prompt], window: Window | None, described: str) -> None:
        self._journal = journal
        self._window = window
        self._described = described
        self._counted: tuple[LanguageModel | None, dict[Prompt, int]] = (None, {})  # by which model

    @override
    def __repr__(self) -> str:
        return self._described

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        def join(entries: Iterator[Entry[Prompt]]) -> Prompt:
            turns = tuple(_turns(entries))[::-1] if window is None else window.newest(_turns(entries))
            return Prompt(message for turn in turns for message in turn)

        window = self._window
        if window is not None and window.count == "model" and window.most_tokens is not None:
            return context().flat_map(lambda services: self._load_counted(window, services.find(LanguageModel)))
        return self._attempt("load", lambda: self._journal.read(join))

    @gen
    def _load_counted(self, window: Window, model: LanguageModel | None) -> Gen[Prompt, MemoryFailure]:
        """The turns in the window, as the model counts them; those of an earlier load are not counted again."""
        known, counts = self._counted[1] if self._counted[0] is model else {}, dict[Prompt, int]()
        most, is_enough, newest = _FIRST_TURNS, False, tuple[Prompt, ...]()
        while not is_enough:  # only as far back as the window reaches: a memory may hold years
            newest = yield from self._newest("load", most)
            left = window.most_tokens or 0
            for turn in newest:
                if turn not in counts:
                    counts[turn] = known[turn] if turn in known else (yield from self._count(turn, model))
                left -= counts[turn]
                if left < 0 and turn is not newest[0]:
                    break
            is_enough, most = left < 0 or len(newest) < most, most * 4
        self._counted = model, counts
        fitting = msgspec.structs.replace(window, count=counts.__getitem__).newest(newest)
        return Prompt(message for turn in fitting for message in turn)

    def _count(self, turn: Prompt, model: LanguageModel | None) -> Effect[int, MemoryFailure]:
        if model is None or turn.pending:
            return Succeed(estimated_tokens(turn))
        counting = model.count(ModelRequest(turn)).map(lambda counted: counted.tokens)
        return counting.map_error(lambda error: MemoryFailure(self._journal.place, "load", f"{_COUNTING}: {error}"))

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
        return self._attempt("clear", self._journal.clear)

    def _attempt(self, doing: _Doing, work: Callable[[], _A]) -> Effect[_A, MemoryFailure]:
        def fail(error: Exception) -> MemoryFailure | None:
            if isinstance(error, OSError) and error.errno is not None:
                remedy = "make room" if error.errno in _FULL else "give the path of a file that this process may use"
                return MemoryFailure(self._journal.place, doing, f"{error.strerror}; {remedy}")
            is_known = isinstance(error, OSError | MessageError | StateError | NotAwaitedError)
            return MemoryFailure(self._journal.place, doing, str(error)) if is_known else None

        return attempt_work(work, fail, in_thread=self._journal.blocks)


def _without_system(messages: Prompt) -> Prompt:
    """The messages without the system messages, which are the agent's."""
    if not isinstance(cast(object, messages), Prompt):
        raise TypeError(f"a memory commits a Prompt, not {messages!r}: say Prompt.make(…)")
    return messages.without_system() if any(one.role == "system" for one in messages) else messages


def _turns(entries: Iterable[Entry[Prompt]]) -> Iterator[Prompt]:
    """The turns; an entry without messages holds a state alone."""
    return (turn for turn in map(_turn, entries) if len(turn))


def _turn(entry: Entry[Prompt]) -> Prompt:
    """The messages of a turn."""
    if len(entry.parts) == 1:
        return entry.parts[0]
    return merge_commits(Prompt(message for commit in entry.parts for message in commit))


def _find_entry(messages: Prompt, entries: Iterator[Entry[Prompt]]) -> Entry[Prompt] | None:
    """The entry whose turn the messages go on with; without messages, the newest."""
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
    """Messages continue a turn, and there is none that they could go on with."""


def turn_of(messages: Prompt, newest_first: Iterable[Prompt]) -> int | None:
    """The index of the turn that messages go on with, counted from the newest, which is 0; None: they begin a turn.

    Messages that begin with a tool message go on with the newest turn that waits for all of its results and answers,
    so that a run that ended in between does not get them. A turn also waits for the result of a call that is in doubt,
    and takes again a result that it has. Messages that begin with the model's go on with the newest turn that waits
    for nothing.

    Raises:
        NotAwaitedError: they begin with a tool message, and no turn waits for what it brings; or with the model's, and
            every turn waits.
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
        f"it begins with a tool message that answers {what}, which no kept turn waits for: it was answered before, or "
        "the turn is forgotten; begin with a user message"
    )


def _newest_closed(newest_first: Iterable[Prompt]) -> int | None:
    index = None
    for index, turn in enumerate(newest_first):
        if not _open(turn):
            return index
    if index is None:
        return None
    raise NotAwaitedError(
        "it begins with words of the model, and every kept turn waits for an answer; answer one of them, or begin with "
        "a user message"
    )


def _open(turn: Prompt) -> frozenset[str]:
    waiting = pending_in(part for one in turn if one.role != "system" for part in one.content)
    return frozenset(name for one in waiting for name in (one.id, one.approval_id) if name is not None)


def _replaced_by(message: ToolMessage, turn: Prompt) -> frozenset[str]:
    """The ids of results that settle a doubt of the turn, or stand there already."""
    latest = _Results(turn).latest
    results = (part for part in message.content if part.type == "tool-result")
    return frozenset(part.id for part in results if part.id in latest and _replaces(part, latest[part.id]))


def merge_commits(commits: Prompt) -> Prompt:
    """The messages of a turn, of those of its commits: a result replaces the doubt about its call.

    Before an approved call runs, its turn is committed with the call in doubt; its result is committed later.

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
        parts = [results.settle(part, (index, place)) for place, part in enumerate(message.content)]
        content = tuple(part for part in parts if part is not None)
        if content:
            merged.append(message if content == message.content else msgspec.structs.replace(message, content=content))
        elif message.metadata and merged:
            merged[-1] = msgspec.structs.replace(merged[-1], metadata={**merged[-1].metadata, **message.metadata})
    return Prompt(merged)


@final
class _Results:
    """The results of a turn; of those in doubt, the results that came later."""

    __slots__ = ("_again", "known", "latest")

    def __init__(self, messages: Iterable[Message]) -> None:
        self.latest: dict[str, ToolResultPart] = {}
        """Of each call id the result of the latest call."""
        self.known: dict[str, ToolResultPart] = {}
        """The results of calls that were in doubt, and results that stand there again."""
        self._again: set[tuple[int, int]] = set()  # where results stand there again
        for index, message in enumerate(messages):
            if message.role == "tool" or message.role == "assistant":
                for place, part in enumerate(message.content):
                    self._add(part, (index, place))

    def _add(self, part: Any, place: tuple[int, int]) -> None:
        if part.type == "tool-call":
            self.latest.pop(part.id, None)
        elif part.type == "tool-result":
            before = self.latest.get(part.id)
            if before is not None and _replaces(part, before):
                self.known[part.id] = part
                self._again.add(place)
            self.latest[part.id] = part

    def settle(self, part: Any, place: tuple[int, int]) -> Any:
        """The part, or the result that came later; None where that stands there already."""
        if place in self._again:
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
