"""Memories in files: a line of JSON for each commit, appended under a lock and on the disk before it is acknowledged.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     turns = TurnFile(Path(folder) / "ann.jsonl", None)
...     turns.append(Prompt.make("I am Ann."))
...     turns.append(Prompt.make("Who am I?"))
...     turns.read(lambda newest: [turn[0].text for turn in newest])
['Who am I?', 'I am Ann.']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar, final

from fxai.agents.memory_log import Kept, MemoryLog, text_of, torn_part, writable
from fxai.agents.memory_turn import owner
from fxai.messages.prompt import Prompt
from fxai.storage.private_file import file_path, locked, open_file, remove_file, replace_file

__all__ = ["TurnFile"]

_A = TypeVar("_A")


@final
class TurnFile:
    """The turns of a memory in a file of JSON lines.

    Reading takes no lock and begins at the end, so it takes time by the turns in the window, not by those in the file.
    A process that is killed while it writes leaves at most the beginning of a line, which nobody was told is kept; the
    next commit removes it. A line that was changed, doubled or moved is a failure that names it, for whoever needs that
    line; so is an end at which more than one commit is missing. Where only the last one is cut off, that is told in the
    log `fxai.storage`, and the next commit puts what is left of it into a file `.torn` beside.

    The file and all that stands beside it are their owner's alone, as `fxai.storage.private_file` says.

    A writer waits up to 30 s for others. The lock is one of the operating system's, for the processes of one machine; a
    file on a network drive that several machines write to is not protected.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int | None) -> None:
        """The turns in a file, of which `keep` are kept at most; use `Memory.file`."""
        given = file_path(path)
        self.path = Path(os.path.realpath(given.parent), given.name)
        self._keep = keep

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    def read(self, f: Callable[[Iterator[Prompt]], _A]) -> _A:
        """What `f` makes of the turns, the newest first."""
        try:
            with os.fdopen(open_file(self.path, writing=False), "rb") as file:
                return f(one.messages for one in self._newest(MemoryLog(self.path, file)))
        except FileNotFoundError:
            return f(iter(()))

    def _newest(self, log: MemoryLog) -> Iterator[Kept]:
        return islice(log.turns(), self._keep)

    def append(self, messages: Prompt) -> None:
        """Adds the messages of a run; none are nothing. Raises as `TurnStore.append`."""
        if not len(messages):
            return
        with locked(self._lock):
            with writable(self.path) as log:
                newest = log.append(messages, self._owner(log, messages))
            if self._keep is not None:
                with suppress(OSError):  # what is committed stays so; the next commit tries again
                    self._drop_old(newest, self._keep)

    def _owner(self, log: MemoryLog, messages: Prompt) -> Kept | None:
        read: list[Kept] = []

        def reading() -> Iterator[Prompt]:
            for one in self._newest(log):
                read.append(one)
                yield one.messages

        place = owner(messages, reading())
        return None if place is None else read[place]

    def _drop_old(self, newest: int, keep: int) -> None:
        """Writes the file anew: only where it holds twice the turns that are kept, so a commit pays for few."""
        with os.fdopen(open_file(self.path, writing=False), "rb") as file:
            log = MemoryLog(self.path, file)
            if newest - log.oldest + 1 < 2 * keep:
                return
            turns = list(self._newest(log))
        replace_file(self.path, text_of(reversed(turns)))

    def clear(self) -> None:
        """Forgets all turns."""
        with locked(self._lock):
            self.read(lambda _: None)  # refuses a file of somebody else
            remove_file(torn_part(self.path))
            remove_file(self.path)

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")
