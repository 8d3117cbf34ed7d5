"""Approval ledgers: which approvals have been used, so that none is used twice.

A yes is used up by the run that it lets go, a no by being said: neither counts for another run. By default a process
remembers for itself, which is enough where one process answers. Where several do, or one that may be started again, one
ledger in a SQLite file serves them all: `ApprovalLedger.sqlite("approvals.db")`.

>>> from fxai.effects import fx
>>> ledger = ApprovalLedger.default()
>>> [fx.run_sync(ledger.claim({"doc-1": None})) for _ in range(2)]
[(), ('doc-1',)]
>>> fx.run_sync(ledger.look_up(["doc-1"]))
{'doc-1': 'begun'}
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, Never, TypeAlias, TypeVar, final

from typing_extensions import override

from fxai.effects.concurrency import for_each
from fxai.effects.constructor import attempt_async
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.service import Clock, Reference
from fxai.messages.errors import AiError, UnknownError

__all__ = ["ApprovalLedger", "ApprovalUse"]

_A = TypeVar("_A")

ApprovalUse: TypeAlias = Literal["begun", "ended", "denied", "used"]
"""What became of an approval: its call was begun, and no end of it is known; its call was run to its end; it was
denied; it was used, and that is all that is known."""

_GRACE: Final = 86_400.0
"""How long a use is remembered beyond its end, in seconds: the clocks of processes differ, and are set back."""

# what became of an approval has a table of its own: programs that know the first one alone go on using the file
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS used_approval (id TEXT PRIMARY KEY, until REAL) STRICT",
    "CREATE TABLE IF NOT EXISTS approval_use (id TEXT PRIMARY KEY, use TEXT NOT NULL) STRICT",
)


class ApprovalLedger(Reference):
    """What remembers which approvals were used. An implementation of your own gives `claim`, and the rest if it can."""

    @abstractmethod
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Marks approvals as used: all of them, or, where some were used or denied before, none, and gives those.

        Args:
            uses: by approval id, until when it has to be remembered, in seconds since 1970; None: for ever.

        Fails with:
            AiError: `UnknownError`, where it cannot be known; then nothing is to be run.
        """

    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Marks approvals as denied, each one that was not used before; gives those that had let a call run.

        Args:
            uses: as for `claim`.

        Fails with:
            AiError: As `claim`.
        """
        denied = for_each(list(uses.items()), lambda one: self.claim({one[0]: one[1]}))
        return denied.map(lambda _: ())

    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        """Marks claimed approvals as those whose calls have ended, well or not.

        Fails with:
            AiError: As `claim`; what is not marked stays in doubt.
        """
        del ids  # one that only claims knows no ends
        return Succeed(None)

    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        """What became of approvals; those that were never used, or of which that is not known, are not there.

        Fails with:
            AiError: As `claim`.
        """
        del ids
        return Succeed({})

    @classmethod
    @override
    def default(cls) -> ApprovalLedger:
        """The memory of this process."""
        return _OF_PROCESS

    @staticmethod
    def in_process() -> LayerOf[ApprovalLedger, Never, None]:
        """The layer of a memory of its own, which is gone with the process."""
        return LayerOf.sync(ApprovalLedger, _Memory)

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> LayerOf[ApprovalLedger, Never, None]:
        """The layer of a memory in a SQLite file, for all processes that use it; made where it is not there.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where it is asked for

        place = database_path(path)
        return LayerOf.sync(ApprovalLedger, lambda: _Sqlite(place))


_CLOCK: EffectOf[Clock] = Fetch(Clock)


@final
class _Memory(ApprovalLedger):
    def __init__(self) -> None:
        self._used: dict[str, tuple[float | None, ApprovalUse]] = {}
        self._lock = threading.Lock()

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return _CLOCK.map(lambda clock: self._claim(uses, clock.now()))

    def _claim(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        with self._lock:
            self._forget(now)
            before = tuple(one for one in uses if one in self._used)
            if not before:
                self._used.update({one: (until, "begun") for one, until in uses.items()})
        return before

    @override
    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return _CLOCK.map(lambda clock: self._deny(uses, clock.now()))

    def _deny(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        with self._lock:
            self._forget(now)
            for one, until in uses.items():
                self._used.setdefault(one, (until, "denied"))
            return tuple(one for one in uses if self._used[one][1] != "denied")

    def _forget(self, now: float) -> None:
        over = now - _GRACE
        for old in [one for one, (until, _) in self._used.items() if until is not None and until < over]:
            del self._used[old]

    @override
    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        def finish() -> None:
            with self._lock:
                for one in set(ids) & self._used.keys():
                    self._used[one] = (self._used[one][0], "ended")

        return Sync(finish)

    @override
    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        return Sync(lambda: {one: self._used[one][1] for one in ids if one in self._used})


@final
class _Sqlite(ApprovalLedger):
    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        if not uses:
            return Succeed(())
        return _CLOCK.flat_map(lambda clock: _in_thread(lambda: self._claim(uses, clock.now())))

    def _claim(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        with self._transaction(now) as database:
            before = tuple(_uses(database, uses))
            if not before:
                _note(database, uses, "begun")
        return before

    @override
    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        if not uses:
            return Succeed(())
        return _CLOCK.flat_map(lambda clock: _in_thread(lambda: self._deny(uses, clock.now())))

    def _deny(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        with self._transaction(now) as database:
            before = _uses(database, uses)
            _note(database, {one: until for one, until in uses.items() if one not in before}, "denied")
        return tuple(one for one, use in before.items() if use != "denied")

    @override
    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        def finish() -> None:
            with self._transaction(None) as database:
                marked = [(one,) for one in ids]
                database.executemany("UPDATE approval_use SET use = 'ended' WHERE id = ? AND use = 'begun'", marked)

        return _in_thread(finish)

    @override
    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        def look_up() -> Mapping[str, ApprovalUse]:
            with self._transaction(None) as database:
                return _uses(database, ids)

        return _in_thread(look_up)

    @contextmanager
    def _transaction(self, now: float | None) -> Generator[Any]:
        """The database in a transaction, in which what was over long before now is forgotten."""
        from fxai.storage.database import connected, writing  # only where it is asked for

        with connected(self._path, *_TABLES) as database, writing(database):
            if now is not None:
                over = "SELECT id FROM used_approval WHERE until < ?"
                database.execute(f"DELETE FROM approval_use WHERE id IN ({over})", (now - _GRACE,))
                database.execute("DELETE FROM used_approval WHERE until < ?", (now - _GRACE,))
            yield database


def _uses(database: Any, ids: Iterable[str]) -> dict[str, ApprovalUse]:
    """What became of those of the approvals that were used, in their order."""
    asked = tuple(ids)
    columns = "used_approval.id, coalesce(approval_use.use, 'used')"
    tables = "used_approval LEFT JOIN approval_use ON approval_use.id = used_approval.id"
    marks = ",".join("?" * len(asked))
    found: dict[str, Any] = dict(
        database.execute(f"SELECT {columns} FROM {tables} WHERE used_approval.id IN ({marks})", asked)
    )
    return {one: found[one] for one in asked if one in found}


def _note(database: Any, uses: Mapping[str, float | None], use: ApprovalUse) -> None:
    database.executemany("INSERT INTO used_approval VALUES (?, ?)", list(uses.items()))
    database.executemany("INSERT OR REPLACE INTO approval_use VALUES (?, ?)", [(one, use) for one in uses])


def _in_thread(work: Callable[[], _A]) -> EffectOf[_A, AiError]:
    """What is done in a thread, to its end even when the run is cancelled."""

    def failed(error: Exception) -> AiError | None:
        if not isinstance(error, OSError):
            return None
        return AiError("ApprovalLedger", "claim", UnknownError(description=f"which approvals were used: {error}"))

    def start() -> Awaitable[_A]:
        from fxai.effects.thread import in_thread  # only where it is asked for

        return in_thread(work)

    return attempt_async(start, failed)


_OF_PROCESS = _Memory()
