"""The connections of a work queue to its database, for DBOS and for fxai's own tables. Needs the extra `durable`.

DBOS unpickles a row whose serialization is pickle. The connections of this module replace this serialization with JSON.
Then DBOS refuses the row, so no row can run code.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "jobs.db") as engine:
...     with engine.connect() as connection:
...         connection.exec_driver_sql("SELECT 'py_pickle', 'portable_json'").fetchone()
('portable_json', 'portable_json')
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlite3 import Connection

    from sqlalchemy import Dialect, Engine
    from sqlalchemy.pool import ConnectionPoolEntry

_PICKLE: Final = b"py_pickle"  # DBOS unpickles rows with this serialization, even with another serializer
_JSON: Final = "portable_json"
_MARK: Final = "CREATE TABLE IF NOT EXISTS fxai_jobs (version TEXT) STRICT"
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS fxai_job (id TEXT PRIMARY KEY, lost INTEGER NOT NULL, cancelled INTEGER NOT NULL,
        ended INTEGER NOT NULL, last TEXT, at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS fxai_job_shown (id TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL, PRIMARY KEY (id, number))""",
    "CREATE INDEX IF NOT EXISTS fxai_job_open ON fxai_job (id) WHERE cancelled > 0 AND ended = 0",
    "CREATE TABLE IF NOT EXISTS fxai_job_dbos (version TEXT PRIMARY KEY)",
)
_IDLE: Final = 1.0  # idle seconds of a connection before fxai tests it
_LOCK: Final = 0x6678_6169  # a lock of PostgreSQL, for programs that create the tables at the same time


@contextmanager
def open_engine(location: Path | str) -> Generator[Engine]:
    """Return a context with the connections to a database. fxai creates the tables first.

    Args:
        location: The path of a SQLite database, or the URL of a PostgreSQL database.
    """
    engine = _sqlite_engine(location) if isinstance(location, Path) else _postgres_engine(location)
    try:
        _migrate(engine, location)
        yield engine
    finally:
        engine.dispose()


def _migrate(engine: Engine, location: Path | str) -> None:
    """Create the tables, unless this version of DBOS has created them before."""
    import sqlalchemy as sql

    installed = {"version": version("dbos")}
    with engine.connect() as connection:
        if sql.inspect(connection).has_table("fxai_job_dbos"):
            chosen = sql.text("SELECT 1 FROM fxai_job_dbos WHERE version = :version")
            if connection.execute(chosen, installed).fetchone():
                return
    from dbos import DBOS

    url = (
        sql.URL.create("sqlite", database=str(location)).render_as_string() if isinstance(location, Path) else location
    )
    DBOS.migrate(url)
    with engine.begin() as connection:
        if not isinstance(location, Path):
            connection.execute(sql.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        for statement in _TABLES:
            connection.execute(sql.text(statement))
        note = "INSERT INTO fxai_job_dbos VALUES (:version) ON CONFLICT (version) DO NOTHING"
        connection.execute(sql.text(note), installed)


def _sqlite_engine(path: Path) -> Engine:
    from sqlite3 import sqlite_version_info

    from sqlalchemy import create_engine
    from sqlalchemy.pool import QueuePool

    from fxai.storage.database import connect, open_for_pool

    with connect(path, _MARK):  # private, in WAL mode; without a table, the file would be empty
        pass

    def open_one() -> Connection:
        database = open_for_pool(path)
        database.text_factory = _read_text
        if sqlite_version_info < (3, 42):  # without `subsec`, which DBOS uses from Python 3.12 on
            database.create_function("unixepoch", 1, _unix_time)
        return database

    return create_engine("sqlite://", creator=open_one, poolclass=QueuePool, pool_size=8, max_overflow=24)


def _read_text(data: bytes) -> str:
    return _JSON if data == _PICKLE else data.decode()


def _unix_time(part: object) -> float | None:
    return time.time() if part == "subsec" else None


def _postgres_engine(url: str) -> Engine:
    from sqlalchemy import create_engine, event, make_url

    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=8,
        max_overflow=24,
        connect_args={"connect_timeout": 30, "application_name": "fxai"},
    )
    event.listen(engine, "connect", _refuse_pickle)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_test_idle, engine.dialect))
    return engine


def _note_use(_: object, record: ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _test_idle(dialect: Dialect, database: Any, record: ConnectionPoolEntry, _: object) -> None:
    """Replace a connection that broke while it was idle. A test before each use would add a fifth more statements."""
    from sqlalchemy.exc import DisconnectionError

    if time.monotonic() - record.info.get("used", 0.0) < _IDLE:
        return
    try:
        dialect.do_ping(database)
    except Exception as error:
        raise DisconnectionError(str(error)) from error


def _refuse_pickle(database: Any, _: object) -> None:
    from psycopg.adapt import Loader

    class Refusing(Loader):
        def load(self, data: Any) -> str:
            return _read_text(bytes(data))

    for kind in ("text", "varchar"):
        database.adapters.register_loader(kind, Refusing)
