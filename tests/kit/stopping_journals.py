"""Journals that refuse new records after a number of records, as if the process had ended there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast, final

__all__ = ["stop_after"]


def stop_after(left: int, store: Any) -> Any:
    """Returns the journals of a store that does not block, to which one program can append `left` records."""
    return _StoppingJournals(store, left)


@final
class _StoppingJournals:
    blocks = False

    def __init__(self, store: Any, left: int) -> None:
        self._store = store
        self.left = left

    def journal(self, name: str) -> Any:
        """Returns the journal of a name."""
        return _StoppingJournal(self._store.journal(name), self)

    def states(self) -> Iterator[Any]:
        """Returns the states of all journals."""
        return cast("Iterator[Any]", self._store.states())

    def listen(self, name: str, tell: Callable[[int], None]) -> Callable[[], None]:
        """Calls `tell` for each new entry of a journal, until the returned function is called."""
        return cast("Callable[[], None]", self._store.listen(name, tell))


@final
class _StoppingJournal:
    """A journal whose other users are not affected."""

    def __init__(self, journal: Any, stops: _StoppingJournals) -> None:
        self._journal = journal
        self._stops = stops

    def append(self, *args: Any) -> None:
        self._stops.left -= 1
        if self._stops.left < 0:
            raise OSError("the process has ended")
        self._journal.append(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)
