"""Approval ledgers: which approvals have been used, so that none is used twice.

By default a process remembers for itself, which is enough where one process answers. Where several do, one ledger in a
SQLite file serves them all: `ApprovalLedger.sqlite("approvals.db")`.

>>> from fxai.effects import fx
>>> ledger = ApprovalLedger.default()
>>> [fx.run_sync(ledger.claim({"doc-1": None})) for _ in range(2)]
[(), ('doc-1',)]
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Never, final

from typing_extensions import override

from fxai.effects.clock import Clock
from fxai.effects.constructor import attempt_async
from fxai.effects.context import Reference
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed
from fxai.effects.layer import LayerOf
from fxai.messages.errors import AiError, UnknownError

__all__ = ["ApprovalLedger"]

_TABLE: Final = "CREATE TABLE IF NOT EXISTS used_approval (id TEXT PRIMARY KEY, until REAL) STRICT"


class ApprovalLedger(Reference):
    """What remembers which approvals were used."""

    @abstractmethod
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Marks approvals as used: all of them, or, where some were used before, none, and gives those.

        Args:
            uses: by approval id, until when it has to be remembered, in seconds since 1970; None: for ever.

        Fails with:
            AiError: `UnknownError`, where it cannot be known; then nothing is to be run.
        """

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
        """The layer of a memory in a SQLite file, for all processes that use it; made where it is not there."""
        return LayerOf.sync(ApprovalLedger, lambda: _Sqlite(os.fspath(path)))


@final
class _Memory(ApprovalLedger):
    def __init__(self) -> None:
        self._used: dict[str, float | None] = {}
        self._lock = threading.Lock()

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        clock: EffectOf[Clock] = Fetch(Clock)
        return clock.map(lambda clock: self._claimed(uses, clock.now()))

    def _claimed(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        with self._lock:
            for old in [one for one, until in self._used.items() if until is not None and until < now]:
                del self._used[old]
            before = tuple(one for one in uses if one in self._used)
            if not before:
                self._used.update(uses)
        return before


@final
class _Sqlite(ApprovalLedger):
    def __init__(self, path: str) -> None:
        self._path = path

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        if not uses:
            return Succeed(())
        clock: EffectOf[Clock] = Fetch(Clock)
        return clock.flat_map(lambda clock: _worked(lambda: self._claimed(uses, clock.now())))

    def _claimed(self, uses: Mapping[str, float | None], now: float) -> tuple[str, ...]:
        from fxai.storage.database import connected, writing  # only where it is asked for

        with connected(Path(self._path), _TABLE) as database, writing(database):
            database.execute("DELETE FROM used_approval WHERE until < ?", (now,))
            marks = ",".join("?" * len(uses))
            rows: Any = database.execute(f"SELECT id FROM used_approval WHERE id IN ({marks})", tuple(uses))
            before = tuple(row[0] for row in rows)
            if not before:
                database.executemany("INSERT INTO used_approval VALUES (?, ?)", list(uses.items()))
        return before


def _worked(work: Callable[[], tuple[str, ...]]) -> EffectOf[tuple[str, ...], AiError]:
    """What is done in a thread, to its end even when the run is cancelled."""

    def failed(error: Exception) -> AiError | None:
        if not isinstance(error, OSError):
            return None
        return AiError("ApprovalLedger", "claim", UnknownError(description=f"which approvals were used: {error}"))

    def begun() -> Awaitable[tuple[str, ...]]:
        import anyio.to_thread  # only where it is asked for

        return anyio.to_thread.run_sync(work)

    return attempt_async(begun, failed)


_OF_PROCESS = _Memory()
