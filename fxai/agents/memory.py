"""Memories: what was said in earlier runs of an agent, as a service.

A memory keeps turns: the messages of one run, from what the user said to the last answer. A run is given the turns in
the memory's window, and what it said is committed whole when it has succeeded. Many runs may use one memory at once.

>>> from fxai.effects import fx
>>> memory = Memory.in_process()
>>> fx.run_sync(memory.commit(Prompt.make("I am Ann.")))
>>> fx.run_sync(memory.load())[0].text
'I am Ann.'
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Never, cast, final

from typing_extensions import override

from fxai.agents.memory_record import MemoryFailure, TurnStore, in_memory
from fxai.agents.memory_turn import NotAwaitedError, merged, owner, spoken
from fxai.agents.window import Window
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import Effect, FailCause, Succeed, Suspend, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.service import Service
from fxai.messages.prompt import Prompt

__all__ = ["Memory", "MemoryFailure", "joined"]


class Memory(Service):
    """Keeps the turns of runs. A memory is a value, usable at once; `memory.layer` makes it the service `Memory`."""

    @abstractmethod
    def load(self) -> Effect[Prompt, MemoryFailure]:
        """What a run is given: the messages of the turns in the window, in order; never half of a turn.

        Fails with:
            MemoryFailure: It cannot be read, or what stands there are no turns.
        """

    @abstractmethod
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        """Appends the messages of one run as a turn: all of them, or, where it fails, none.

        System messages are left out; where there is nothing else, nothing happens. What begins with a tool message
        (approvals, results of others) goes on with the turn that waits for it, and what begins with the model's words
        with the newest one that waits for nothing. A run commits what was approved before it runs, its calls in doubt
        (`InDoubt`); a result behind takes the place of the doubt, and one that stands there already counts once.

        Fails with:
            MemoryFailure: It cannot be written, or there is no turn that it could go on with.
        """

    @abstractmethod
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        """All turns that are kept, the oldest first, whatever the window.

        Fails with:
            MemoryFailure: As `load`.
        """

    @abstractmethod
    def clear(self) -> Effect[None, MemoryFailure]:
        """Forgets all turns.

        Fails with:
            MemoryFailure: It cannot be written.
        """

    @property
    def layer(self) -> LayerOf[Memory, Never, None]:
        """The layer that gives this memory as the service `Memory`."""
        return LayerOf.succeed(Memory, self)

    # -- constructors

    @staticmethod
    def in_process(window: Window | None = None, *, keep: int | None = None) -> Memory:
        """A new memory that is gone with the process.

        Args:
            window: how much of it a run is given; None: everything.
            keep: how many turns are kept at most, the newest; None: all.

        Raises:
            TypeError: `window` is none.
            ValueError: `keep` is less than 1.
        """
        return _InProcess(*checked(window, keep))

    @staticmethod
    def file(path: str | os.PathLike[str], window: Window | None = None, *, keep: int | None = None) -> Memory:
        """The memory in a file of JSON lines, which is made at the first commit; for all processes of this machine.

        A commit is on the disk when it has succeeded, however the process ends. See `TurnFile`.

        Args:
            path: the file, which its owner alone can read; beside it a file `.lock` is made.
            window: how much of it a run is given; None: everything.
            keep: how many turns are kept at most, the newest; None: all. Older ones are dropped from the file in bulk.

        Raises:
            TypeError: `window` is none.
            ValueError: `keep` is less than 1, or no file can have that path.
        """
        from fxai.agents.memory_file import TurnFile

        window, keep = checked(window, keep)
        turns = TurnFile(path, keep)
        return _Stored(turns, window, written("file", turns.path, window, keep))

    @staticmethod
    def sqlite(
        path: str | os.PathLike[str],
        window: Window | None = None,
        *,
        conversation: str = "default",
        keep: int | None = None,
    ) -> Memory:
        """The memory of one conversation in a SQLite database, which is made at the first use.

        A commit is on the disk when it has succeeded, however the process ends. See `TurnTable`.

        Args:
            path: the database, in WAL mode; it may hold other things as well.
            window: how much of it a run is given; None: everything.
            conversation: which of the conversations in the database.
            keep: how many turns are kept at most, the newest; None: all.

        Raises:
            TypeError: `window` is none.
            ValueError: `keep` is less than 1, or no database can have that path.
        """
        from fxai.agents.memory_sqlite import TurnTable

        window, keep = checked(window, keep)
        turns = TurnTable(path, conversation, keep)
        return _Stored(turns, window, written("sqlite", turns.path, window, keep, conversation=conversation))


def checked(window: Window | None, keep: int | None) -> tuple[Window | None, int | None]:
    """The window, and how many turns to keep, where that can be.

    Raises:
        TypeError: it is no window.
        ValueError: less than 1 is kept.
    """
    if not (window is None or isinstance(cast(object, window), Window)):
        raise TypeError(f"window={window!r} is no window: say Window.turns(…) or Window.tokens(…)")
    if keep is not None and keep < 1:
        raise ValueError(f"a memory that keeps {keep} turns forgets everything: keep at least 1, or None for all")
    return window, keep


def written(
    constructor: str, path: Path | None, window: Window | None, keep: int | None, conversation: str | None = None
) -> str:
    """A memory, as one writes it."""
    given = [repr(one) for one in (None if path is None else str(path), window) if one is not None]
    named = [f"{name}={one!r}" for name, one in (("conversation", conversation), ("keep", keep)) if one is not None]
    return f"Memory.{constructor}({', '.join([*given, *named])})"


def joined(window: Window | None, newest_first: Iterable[Prompt]) -> Prompt:
    """The messages of the turns in a window, the oldest first."""
    turns = tuple(newest_first)[::-1] if window is None else window.newest(newest_first)
    return Prompt(message for turn in turns for message in turn)


@final
class _InProcess(Memory):
    def __init__(self, window: Window | None, keep: int | None) -> None:
        self._window = window
        self._turns: deque[Prompt] = deque(maxlen=keep)
        self._lock = threading.Lock()

    @override
    def __repr__(self) -> str:
        return written("in_process", None, self._window, self._turns.maxlen)

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return Sync(lambda: joined(self._window, reversed(self._snapshot())))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        def committed() -> Effect[None, MemoryFailure]:
            try:
                self._append(spoken(messages))
            except NotAwaitedError as error:
                return FailCause(Cause((Fail(MemoryFailure("this process", "commit", str(error))),)))
            return Succeed(None)

        return Suspend(committed)

    def _append(self, messages: Prompt) -> None:
        if not len(messages):
            return
        with self._lock:
            place = owner(messages, reversed(self._turns))
            if place is None:
                self._turns.append(messages)
            else:
                self._turns[-1 - place] = merged(self._turns[-1 - place] + messages)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return Sync(self._snapshot)

    def _snapshot(self) -> tuple[Prompt, ...]:
        with self._lock:
            return tuple(self._turns)

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def cleared() -> None:
            with self._lock:
                self._turns.clear()

        return Sync(cleared)


@final
class _Stored(Memory):
    """A memory whose turns stand in a file or a database."""

    def __init__(self, turns: TurnStore, window: Window | None, written: str) -> None:
        self._turns = turns
        self._window = window
        self._written = written

    @override
    def __repr__(self) -> str:
        return self._written

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return in_memory(self._turns, "load", lambda: self._turns.read(lambda turns: joined(self._window, turns)))

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return in_memory(self._turns, "turns", lambda: self._turns.read(lambda turns: tuple(turns)[::-1]))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return in_memory(self._turns, "commit", lambda: self._turns.append(spoken(messages)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        return in_memory(self._turns, "clear", self._turns.clear)
