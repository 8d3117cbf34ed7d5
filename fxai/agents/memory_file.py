"""Memories in files: a line of JSON for each commit, appended under a lock and on the disk before it is acknowledged.

>>> import tempfile
>>> from fxai.effects import fx
>>> with tempfile.TemporaryDirectory() as folder:
...     memory = FileMemory(Path(folder) / "ann.jsonl", Window.turns(1), None)
...     fx.run(memory.commit(Prompt.make("I am Ann.")).and_then(memory.commit(Prompt.make("Who am I?"))))
...     fx.run(memory.load())[0].text, len(fx.run(memory.turns()))
('Who am I?', 2)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar, final

from typing_extensions import override

from fxai.agents.memory import Memory, MemoryFailure, joined, told
from fxai.agents.memory_log import Kept, MemoryLog, text_of, torn_part, writable
from fxai.agents.memory_record import worked
from fxai.agents.memory_turn import owner, said
from fxai.agents.window import Window
from fxai.effects.effect import Effect
from fxai.messages.prompt import Prompt
from fxai.storage.private_file import file_path, locked, open_file, remove_file, replace_file

__all__ = ["FileMemory"]

_A = TypeVar("_A")


@final
class FileMemory(Memory):
    """The memory in a file of JSON lines.

    Reading takes no lock and begins at the end, so it takes time by the turns in the window, not by those in the file.
    A process that is killed while it writes leaves at most the beginning of a line, which nobody was told is kept; the
    next commit removes it. A line that was changed, doubled or moved is a failure that names it, for whoever needs that
    line; so is an end at which more than one commit is missing. Where only the last one is cut off, that is told in the
    log `fxai.storage`, and the next commit puts what is left of it into a file `.torn` beside.

    The file and all that stands beside it are their owner's alone, as `fxai.storage.private_file` says.

    A writer waits up to 30 s for others. The lock is one of the operating system's, for the processes of one machine; a
    file on a network drive that several machines write to is not protected.
    """

    def __init__(self, path: str | os.PathLike[str], window: Window | None, keep: int | None) -> None:
        """A memory in a file; use `Memory.file`."""
        given = file_path(path)
        self._path = Path(os.path.realpath(given.parent), given.name)
        self._window = window
        self._keep = keep

    @override
    def __repr__(self) -> str:
        return told("file", self._path, self._window, self._keep)

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return worked(str(self._path), "load", lambda: self._read(lambda turns: joined(self._window, turns)))

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return worked(str(self._path), "turns", lambda: self._read(lambda turns: tuple(turns)[::-1]))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return worked(str(self._path), "commit", lambda: self._commit(said(messages)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        return worked(str(self._path), "clear", self._clear)

    # -- what threads do

    def _read(self, f: Callable[[Iterator[Prompt]], _A]) -> _A:
        try:
            with os.fdopen(open_file(self._path, writing=False), "rb") as file:
                return f(one.messages for one in self._kept(MemoryLog(self._path, file)))
        except FileNotFoundError:
            return f(iter(()))

    def _kept(self, log: MemoryLog) -> Iterator[Kept]:
        return islice(log.turns(), self._keep)

    def _commit(self, messages: Prompt) -> None:
        if not len(messages):
            return
        with locked(self._lock):
            with writable(self._path) as log:
                newest = log.append(messages, self._owner(log, messages))
            if self._keep is not None:
                with suppress(OSError):  # what is committed stays so; the next commit tries again
                    self._drop_old(newest, self._keep)

    def _owner(self, log: MemoryLog, messages: Prompt) -> Kept | None:
        read: list[Kept] = []

        def reading() -> Iterator[Prompt]:
            for one in self._kept(log):
                read.append(one)
                yield one.messages

        place = owner(messages, reading())
        return None if place is None else read[place]

    def _drop_old(self, newest: int, keep: int) -> None:
        """Writes the file anew: only where it holds twice the turns that are kept, so a commit pays for few."""
        with os.fdopen(open_file(self._path, writing=False), "rb") as file:
            log = MemoryLog(self._path, file)
            if newest - log.oldest + 1 < 2 * keep:
                return
            turns = list(self._kept(log))
        replace_file(self._path, text_of(reversed(turns)))

    def _clear(self) -> None:
        with locked(self._lock):
            self._read(lambda _: None)  # refuses a file of somebody else
            remove_file(torn_part(self._path))
            remove_file(self._path)

    @property
    def _lock(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")
