"""A record of IDs that can be used once, in this process, in a file, or in a SQLite database.

A program claims or denies an ID, and the first decision is final. A use can have an expiry time. fxai stores the use
for another day, because the clocks of processes differ, and a user can set a clock back.

>>> uses = ProcessUses()
>>> uses.claim({"a": None, "b": None}, now=0.0), uses.claim({"b": None, "c": None}, now=0.0)
((), ('b',))
>>> uses.deny({"c": None}, now=0.0)
()
>>> uses.look_up(["a", "b", "c"])
{'a': 'begun', 'b': 'begun', 'c': 'denied'}
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.storage import is_intact, read_record, seal
from fxai.storage.private_file import update_file

Use: TypeAlias = Literal["begun", "ended", "denied"]
"""The state of an ID: `begun` (claimed, end unknown), `ended` (the claimed work ended), or `denied`."""

_Until: TypeAlias = Mapping[str, float | None]
_Change: TypeAlias = Callable[[dict[str, Use]], Mapping[str, Use]]
_Table: TypeAlias = dict[str, tuple[float | None, Use]]

_GRACE: Final = 86_400.0  # seconds

_TABLE: Final = "CREATE TABLE IF NOT EXISTS used_id (id TEXT PRIMARY KEY, until REAL, use TEXT NOT NULL) STRICT"


class Uses(ABC):
    """The used IDs. If `blocks` is True, call the methods in a worker thread.

    The methods raise an `OSError` if the system or the database refuses, or the stored data is damaged. Then nothing
    has changed. Times are in seconds since 1970. A use whose time is None never expires.
    """

    blocks: bool = True
    """True if the methods wait for the disk and for other processes."""

    @abstractmethod
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        """Store the uses that `change` returns for the current uses of the IDs, atomically. Return the current uses.

        Uses that expired more than a day before `now` are removed.
        """

    def claim(self, ids: _Until, now: float) -> tuple[str, ...]:
        """Claim all IDs, or none if some were claimed or denied before. Return those IDs."""
        begun: dict[str, Use] = dict.fromkeys(ids, "begun")
        return tuple(self._update(ids, now, lambda before: {} if before else begun))

    def deny(self, ids: _Until, now: float) -> tuple[str, ...]:
        """Deny each ID that was not claimed before. Return the IDs that were claimed."""
        before = self._update(ids, now, lambda before: {one: "denied" for one in ids if one not in before})
        return tuple(one for one, use in before.items() if use != "denied")

    def finish(self, ids: Iterable[str]) -> None:
        """Record that the work of claimed IDs has ended."""
        self._update(
            dict.fromkeys(ids), None, lambda before: {one: "ended" for one, use in before.items() if use == "begun"}
        )

    def look_up(self, ids: Iterable[str]) -> dict[str, Use]:
        """Return the states of the IDs that were used."""
        return self._update(dict.fromkeys(ids), None, lambda _: {})


def _update_table(table: _Table, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
    over = -inf if now is None else now - _GRACE
    for one in [one for one, (until, _) in table.items() if until is not None and until < over]:
        del table[one]
    before: dict[str, Use] = {one: table[one][1] for one in ids if one in table}
    for one, use in change(before).items():
        table[one] = (table[one][0] if one in table else ids[one], use)
    return before


@final
class ProcessUses(Uses):
    """Uses that end with the process."""

    blocks = False

    def __init__(self) -> None:
        self._table: _Table = {}
        self._lock = threading.Lock()

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        with self._lock:
            return _update_table(self._table, ids, now, change)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: Literal[1]
    used: _Table
    digest: str | None = None


@final
class FileUses(Uses):
    """Uses in a JSON file. Each change replaces the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        with update_file(self._path) as file:
            table = {} if file.content is None else self._read(file.content)
            before = _update_table(table, ids, now, change)
            file.content = seal(_File(1, table))
        return before

    def _read(self, text: bytes) -> _Table:
        try:
            file = read_record(text, _File)
        except ValueError as error:
            raise OSError(f"{self._path} contains no uses: {error}. Restore it from a backup.") from error
        if not is_intact(text):
            raise OSError(f"{self._path} is damaged. Restore it from a backup.")
        return file.used


@final
class TableUses(Uses):
    """Uses in a SQLite database."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def _update(self, ids: _Until, now: float | None, change: _Change) -> dict[str, Use]:
        from fxai.storage.database import connect, transact  # only databases need it

        with connect(self._path, _TABLE) as database, transact(database):
            if now is not None:
                database.execute("DELETE FROM used_id WHERE until < ?", (now - _GRACE,))
            select = f"SELECT id, use FROM used_id WHERE id IN ({','.join('?' * len(ids))})"
            found: dict[str, Use] = dict(database.execute(select, tuple(ids)))
            before: dict[str, Use] = {one: found[one] for one in ids if one in found}
            database.executemany(
                "INSERT INTO used_id VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET use = excluded.use",
                [(one, ids[one], use) for one, use in change(before).items()],
            )
        return before
