"""Watches: who goes on with a journal is told when another program has appended to it.

One thread watches all journals of a store that any program of this process watches. It asks the store once a second how
many entries they have, in one query for all, and ends with the last of them. Journals of this process tell at once, and
need no thread.

>>> from fxai.storage.journal_store import ProcessJournals
>>> store, told = ProcessJournals(), list[int]()
>>> stop = watch(store, "order-17", told.append)
>>> store.journal("order-17").append("an answer")
>>> stop()
>>> store.journal("order-17").append("another answer")
>>> told
[1]
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, TypeAlias, final

from fxai.storage.journal_store import JournalStore
from fxai.storage.private_file import warn

Tell: TypeAlias = Callable[[int], None]
"""Is given the number of the newest entry of a journal, in any thread: also where it is the same as before."""

_PAUSE: Final = 1.0  # seconds between two looks

_watches: Final[dict[object, _Watch]] = {}  # by what tells their stores apart
_lock: Final = threading.Lock()


def watch(store: JournalStore, name: str, tell: Tell) -> Callable[[], None]:
    """Has `tell` called when a journal of a store has new entries; gives what ends that.

    Args:
        store: where the journal is.
        name: of the journal.
        tell: what is called. When it raises, that goes to the log `fxai.storage`, and it is called no more.
    """
    if not store.blocks:
        return store.listen(name, tell)
    with _lock:
        found = _watches.get(store.identity)
        if found is None:
            found = _watches[store.identity] = _Watch(store)
        token = found.add(name, tell)
    return lambda: found.remove(token)


@final
class _Watch:
    """The thread that watches one store, and the journals that it is to look at."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        self._told: dict[object, tuple[str, Tell]] = {}
        self._none = threading.Event()  # is set when nothing is watched any more
        self._troubled = False
        threading.Thread(target=self._run, name="fxai journal watch", daemon=True).start()

    def add(self, name: str, tell: Tell) -> object:
        """Looks at one more; under the lock."""
        token = object()
        self._told[token] = name, tell
        return token

    def remove(self, token: object) -> None:
        """Looks at it no more; with the last one the thread ends."""
        with _lock:
            self._told.pop(token, None)
            if not self._told and _watches.get(self._store.identity) is self:
                del _watches[self._store.identity]
                self._none.set()

    def _run(self) -> None:
        while not self._none.wait(_PAUSE):
            try:
                with self._store.looking() as newest:
                    self._troubled = False
                    self._look_until_none(newest)
            except Exception as error:  # the next look may find what this one could not
                if not self._troubled:
                    warn("new entries in %s are not noticed: %s; it is tried again", self._store.identity[0], error)
                self._troubled = True

    def _look_until_none(self, newest: Callable[[list[str]], dict[str, int]]) -> None:
        while True:
            with _lock:
                told = list(self._told.values())
            numbers = newest([name for name, _ in told])
            for name, tell in told:
                self._tell(name, tell, numbers.get(name, 0))
            if self._none.wait(_PAUSE):
                return

    def _tell(self, name: str, tell: Tell, number: int) -> None:
        try:
            tell(number)
        except Exception as error:  # of one journal; the others are looked at all the same
            with _lock:
                self._told = {token: told for token, told in self._told.items() if told != (name, tell)}
            warn("%r in %s is not watched any more: %s", name, self._store.identity[0], error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watches.clear)  # threads are not forked
