"""The jobs of a work queue, as workflows of DBOS in SQLite or PostgreSQL. Needs the extra `durable`.

DBOS unpickles a row whose serialization is pickle. The connections of this module replace this serialization with JSON.
Then DBOS refuses the row, so no row can run code.

A job is a workflow of DBOS. This module uses only the public API of DBOS. A `DBOSClient` submits, lists, cancels,
resumes, and removes workflows. `fxai.storage.job_worker` runs DBOS in a worker. DBOS has no public API for some data
of a job, so fxai stores this data in two additional tables. The data consists of the number of dead workers, the last
words of a cancelled job, and the preliminary values. Every method blocks, and raises an `OSError` if the database
refuses.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, JobTable.open(Path(folder) / "jobs.db") as table:
...     table.insert([NewJob("add", "a", "[1, 2]")]), table.insert([NewJob("add", "a", "[1, 2]")])
...     table.states(["a"])
({'a'}, set())
{'a': JobState(id='a', status='waiting', attempt=0, worker='', text=None)}
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeAlias, TypeVar, cast, final

import msgspec

from fxai.storage.postgres import error_type, name_of

if TYPE_CHECKING:
    import os
    import sqlite3

    from sqlalchemy import Connection, Engine

_A = TypeVar("_A")
_P = ParamSpec("_P")

JobStatus: TypeAlias = Literal["waiting", "running", "done", "failed", "stopping", "cancelled", "gone"]
"""The status of a job.

- `waiting`: the job waits for a worker
- `running`: a worker runs the job
- `done`: the job has a result
- `failed`: the job has no result, and `text` contains the reason
- `stopping`: a program cancelled the job, and its worker has not confirmed that the job stopped
- `cancelled`: a program cancelled the job, and no worker runs it
- `gone`: a program removed the job, or never submitted it
"""

APPLICATION: Final = "fxai"
"""The name of the application that owns the workflows in DBOS."""
VERSION: Final = "fxai-1"
"""The version of the job format. Jobs of a later version wait for workers that support it."""

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
_LOCK: Final = 0x6678_6169  # a lock of PostgreSQL, for programs that create the tables at the same time
_MIDDLE: Final = 1 << 30  # the lowest priority of DBOS is 1, and it runs first
_CHUNK: Final = 500
_LONGEST: Final = 400  # characters of an ID and of a kind
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_DBOS_STATUS: Final[dict[str, JobStatus]] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "stopping",
}
_NOTE: Final = """INSERT INTO fxai_job (id, lost, cancelled, ended, last, at)
    VALUES (:id, :lost, :cancelled, :ended, :last, :at) ON CONFLICT (id) DO UPDATE SET
    lost = fxai_job.lost + excluded.lost,
    cancelled = CASE WHEN excluded.cancelled > 0 THEN 1 ELSE fxai_job.cancelled END,
    last = CASE WHEN fxai_job.ended > 0 THEN fxai_job.last ELSE excluded.last END,
    ended = CASE WHEN excluded.ended > 0 THEN 1 ELSE fxai_job.ended END, at = excluded.at"""
_SHOW: Final = """INSERT INTO fxai_job_shown (id, number, text, at)
    SELECT :id, coalesce(max(number) + 1, 0), :text, :at FROM fxai_job_shown WHERE id = :id"""


@final
class NewJob(msgspec.Struct, frozen=True):
    """A new job. A `ValueError` reports a kind, an ID, or a text that the database cannot store."""

    kind: str
    """The kind of the job, which selects its workers."""
    id: str
    """The unique ID of the job."""
    text: str
    """The input of the job."""
    priority: int = 0
    """The priority. Waiting jobs with a higher priority run first."""
    delay: float = 0.0
    """Seconds until the job can run."""

    def __post_init__(self) -> None:
        for what, name in (("kind", self.kind), ("id", self.id)):
            if not 0 < len(name) <= _LONGEST or "\0" in name or name.isspace():
                raise ValueError(f"{what} of a job must have 1 to {_LONGEST} characters, got {name[:80]!r}")
        try:
            for each in (self.kind, self.id, self.text):
                each.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"job contains half a surrogate pair at character {error.start}. Remove it.") from error


@final
class JobState(msgspec.Struct, frozen=True):
    """The state of a job."""

    id: str
    status: JobStatus
    attempt: int = 0
    """The number of workers that received the job."""
    worker: str = ""
    """The name of the current worker, or of the last worker."""
    text: str | None = None
    """The result, or the reason for a failure. For a cancelled job, the last words of its worker."""

    @property
    def is_over(self) -> bool:
        """True if the state is final."""
        return self.status in ("done", "failed", "cancelled", "gone")


def _guard(
    method: Callable[Concatenate[JobTable, _P], _A],
) -> Callable[Concatenate[JobTable, _P], _A]:
    """Return the method with an `OSError` instead of each error of SQLAlchemy and DBOS."""

    @wraps(method)
    def call(self: JobTable, /, *args: _P.args, **kwargs: _P.kwargs) -> _A:
        with raising_os_errors(self.location):
            return method(self, *args, **kwargs)

    return call


@contextmanager
def raising_os_errors(location: str) -> Generator[None]:
    """Raise an `OSError` instead of an error of SQLAlchemy or DBOS in the block."""
    from dbos import error
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, error.DBOSException) as raised:
        cause: object = getattr(raised, "orig", None)
        reason = str(cause or raised).strip().partition("\n")[0]
        kind = error_type(cause) if type(cause).__module__.startswith("psycopg") else OSError
        raise kind(f"work queue in {location} failed: {reason}. Check the database and its owner.") from raised


@final
class Held(msgspec.Struct, frozen=True):
    """The jobs of a worker."""

    running: frozenset[str] = frozenset()
    """The jobs that the worker runs."""
    stopping: frozenset[str] = frozenset()
    """The cancelled jobs that the worker has not confirmed as stopped."""


class _Note(msgspec.Struct, frozen=True):
    """The row of a job in the table of fxai."""

    lost: int = 0
    cancelled: bool = False
    ended: bool = False
    last: str | None = None


@final
class JobTable:
    """The jobs of a database."""

    def __init__(self, client: Any, engine: Engine, location: str) -> None:
        self._client = client  # a DBOSClient
        self.engine: Engine = engine
        """The connections to the database."""
        self.location: str = location
        """The location of the database, for messages, without user and password."""

    # -- opening

    @staticmethod
    @contextmanager
    def open(location: Path | str) -> Generator[JobTable]:
        """Return a context with the jobs of a database, from its location by `read_location`."""
        _quiet()
        if find_spec("dbos") is None:
            raise ImportError("a work queue requires DBOS. Install it: pip install 'fxai[durable]'")
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        words = location_of(location)
        with ExitStack() as stack, raising_os_errors(words):
            engine = stack.enter_context(open_engine(location))
            client = DBOSClient(
                system_database_engine=engine,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                lazy=True,
                retry_connection_errors=False,
            )
            stack.callback(client.destroy)
            pending = stack.pop_all()
        with pending:
            yield JobTable(client, engine, words)

    # -- for programs

    @_guard
    def insert(self, jobs: Sequence[NewJob]) -> set[str]:
        """Add jobs in one transaction, and return the IDs of the new jobs."""
        from dbos import error

        added: set[str] = set()
        with self.engine.begin() as connection:
            for job in sorted(jobs, key=lambda job: job.id):  # sorted, so that two programs cannot cause a deadlock
                try:
                    self._client.enqueue_in_transaction(connection, cast(Any, _options(job)), job.text)
                except error.DBOSWorkflowIDInUseError:
                    continue
                added.add(job.id)
        return added

    @_guard
    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Return the states of jobs, by ID."""
        found = {job: JobState(job, "gone") for job in ids}
        rows = [row for chunk in _chunks(ids) for row in self._list(workflow_ids=chunk, load_output=True)]
        notes = self._notes([row.workflow_id for row in rows])
        found.update((row.workflow_id, _state_of(row, notes.get(row.workflow_id, _Note()))) for row in rows)
        return found

    @_guard
    def read_shown(self, offsets: dict[str, int]) -> list[tuple[str, int, str]]:
        """Return the preliminary values of jobs from the offsets on, as tuples of ID, offset, and text, sorted."""
        chosen = "SELECT id, number, text FROM fxai_job_shown WHERE id IN :ids ORDER BY number"
        rows = [row for chunk in _chunks([*offsets]) for row in self._read(chosen, ids=chunk)]
        return [(job, number, text) for job, number, text in rows if number >= offsets[job]]

    @_guard
    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs. A waiting job never runs, and a worker stops its running job."""
        for chunk in _chunks(ids):
            self._note(chunk, cancelled=1)  # first, because `give_back` reads the note after it has resumed a job
            self._client.cancel_workflows(chunk)

    @_guard
    def remove(self, ids: Sequence[str]) -> None:
        """Remove jobs with all their data."""
        for chunk in _chunks(ids):
            self._client.delete_workflows(chunk)
            with self.engine.begin() as connection:
                self._run(connection, "DELETE FROM fxai_job WHERE id IN :ids", ids=chunk)
                self._run(connection, "DELETE FROM fxai_job_shown WHERE id IN :ids", ids=chunk)

    # -- for workers

    @_guard
    def register(self, kinds: Iterable[str], most: int, pause: float) -> None:
        """Create queues. A worker runs at most `most` jobs of a kind, and queries new jobs every `pause` seconds."""
        for kind in kinds:
            self._client.register_queue(kind, worker_concurrency=most, polling_interval_sec=pause)

    @_guard
    def losses(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the number of workers that died while they had a job, by ID."""
        return {job: note.lost for job, note in self._notes(ids).items()}

    @_guard
    def confirm_cancelled(self, jobs: dict[str, str | None]) -> None:
        """Confirm that cancelled jobs have stopped. The values are the last words of the workers, by ID of the job."""
        cancelled = [row.workflow_id for chunk in _chunks([*jobs]) for row in self._list(workflow_ids=chunk)]
        for job in cancelled:
            self._note([job], ended=1, last=jobs[job])

    @_guard
    def show(self, job: str, text: str) -> None:
        """Add a preliminary value of a job."""
        with self.engine.begin() as connection:
            self._run(connection, _SHOW, id=job, text=text, at=time())

    @_guard
    def jobs_by_worker(self) -> dict[str, Held]:
        """Return the jobs of each worker, by its name."""
        running: dict[str, set[str]] = {}
        stopping: dict[str, set[str]] = {}
        for row in self._list(status="PENDING"):
            running.setdefault(row.executor_id or "", set()).add(row.workflow_id)
        noted = self._read("SELECT id FROM fxai_job WHERE cancelled > 0 AND ended = 0")
        for chunk in _chunks([row[0] for row in noted]):
            for row in self._list(workflow_ids=chunk, status="CANCELLED"):
                if row.recovery_attempts:
                    stopping.setdefault(row.executor_id or "", set()).add(row.workflow_id)
        workers = (running.keys() | stopping.keys()) - {""}
        return {one: Held(frozenset(running.get(one, ())), frozenset(stopping.get(one, ()))) for one in workers}

    @_guard
    def give_back(self, worker: str, *, running: Collection[str] = ()) -> int:
        """Release the jobs of a worker that it does not run, and confirm that its cancelled jobs have stopped.

        Return the number of released jobs. The jobs in `running` remain unchanged.
        """
        kinds: dict[str, list[str]] = {}
        for row in self._list(status="PENDING", executor_id=worker):
            if row.workflow_id not in running:
                kinds.setdefault(row.name, []).append(row.workflow_id)
        for kind, ids in kinds.items():
            for chunk in _chunks(ids):
                self._resume(kind, chunk)
        stopped = self.jobs_by_worker().get(worker, Held()).stopping
        self.confirm_cancelled({job: None for job in stopped if job not in running})
        return sum(len(ids) for ids in kinds.values())

    def _resume(self, kind: str, ids: list[str]) -> None:
        from dbos import error

        self._note(ids, lost=1)  # first: after a crash here, the count is too high, never too low
        try:
            self._client.resume_workflows(ids, queue_name=kind)
        except error.DBOSNonExistentWorkflowError:  # another program removed a job
            if len(ids) > 1:
                for job in ids:
                    self._resume(kind, [job])
            return
        cancelled = [job for job, note in self._notes(ids).items() if note.cancelled]
        if cancelled:  # after the list above: `resume_workflows` also resumes cancelled jobs
            self._client.cancel_workflows(cancelled)

    @_guard
    def remove_old(self, before: float) -> int:
        """Remove jobs that ended before a time in seconds since 1970. Return their number."""
        until = datetime.fromtimestamp(before, UTC).isoformat()
        old = [row.workflow_id for row in self._list(status=_ENDED, completed_before=until, limit=_CHUNK)]
        if old:
            self.remove(old)
        else:
            with self.engine.begin() as connection:  # values of jobs that other tools removed
                self._run(connection, "DELETE FROM fxai_job_shown WHERE at < :before", before=before)
        return len(old)

    # -- rows

    def _list(self, *, load_output: bool = False, **chosen: Any) -> list[Any]:
        only: dict[str, Any] = {} if "workflow_ids" in chosen else {"application_name": APPLICATION}
        listed: list[Any] = self._client.list_workflows(load_input=False, load_output=load_output, **only, **chosen)
        return listed

    def _notes(self, ids: Sequence[str]) -> dict[str, _Note]:
        chosen = "SELECT id, lost, cancelled, ended, last FROM fxai_job WHERE id IN :ids"
        rows = [row for chunk in _chunks(ids) for row in self._read(chosen, ids=chunk)]
        return {job: _Note(lost, cancelled > 0, ended > 0, last) for job, lost, cancelled, ended, last in rows}

    def _note(
        self, ids: Sequence[str], *, lost: int = 0, cancelled: int = 0, ended: int = 0, last: str | None = None
    ) -> None:
        with self.engine.begin() as connection:
            for job in sorted(ids):
                values = {"lost": lost, "cancelled": cancelled, "ended": ended, "last": last, "at": time()}
                self._run(connection, _NOTE, id=job, **values)

    def _read(self, statement: str, **values: Any) -> list[Any]:
        with self.engine.begin() as connection:
            return list(self._run(connection, statement, **values).fetchall())

    def _run(self, connection: Connection, statement: str, **values: Any) -> Any:
        from sqlalchemy import bindparam, text

        made = text(statement)
        return connection.execute(
            made.bindparams(bindparam("ids", expanding=True)) if "ids" in values else made, values
        )


# -- connections


@contextmanager
def open_engine(location: Path | str) -> Generator[Engine]:
    """Return a context with the connections to a database at a path or a URL. fxai creates the tables first."""
    engine = _sqlite_engine(location) if isinstance(location, Path) else _postgres_engine(location)
    try:
        _migrate(engine, location)
        yield engine
    finally:
        engine.dispose()


def _migrate(engine: Engine, location: Path | str) -> None:
    """Create the tables, unless this version of DBOS has created them before."""
    from importlib.metadata import version

    import sqlalchemy as sql

    installed = {"version": version("dbos")}
    with engine.connect() as connection:
        if sql.inspect(connection).has_table("fxai_job_dbos"):
            chosen = sql.text("SELECT 1 FROM fxai_job_dbos WHERE version = :version")
            if connection.execute(chosen, installed).fetchone():
                return
    from dbos import DBOS

    if isinstance(location, Path):
        DBOS.migrate(sql.URL.create("sqlite", database=str(location)).render_as_string())
    else:
        DBOS.migrate(location)
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

    def open_one() -> sqlite3.Connection:
        database = open_for_pool(path)
        database.text_factory = _read_text
        if sqlite_version_info < (3, 42):  # without `subsec`, which DBOS uses from Python 3.12 on
            database.create_function("unixepoch", 1, _unix_time)
        return database

    return create_engine("sqlite://", creator=open_one, poolclass=QueuePool, pool_size=8, max_overflow=24)


def _read_text(data: bytes) -> str:
    return _JSON if data == _PICKLE else data.decode()


def _unix_time(part: object) -> float | None:
    return time() if part == "subsec" else None


def _postgres_engine(url: str) -> Engine:
    from sqlalchemy import create_engine, event, make_url

    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,  # replaces a connection that broke while it was idle
        connect_args={"connect_timeout": 30, "application_name": "fxai"},
    )

    @event.listens_for(engine, "connect")
    def refuse_pickle(database: Any, _: object) -> None:
        from psycopg.adapt import Loader

        class Refusing(Loader):
            def load(self, data: Any) -> str:
                return _read_text(bytes(data))

        for kind in ("text", "varchar"):
            database.adapters.register_loader(kind, Refusing)

    return engine


# -- locations


def location_of(location: Path | str) -> str:
    """Return the location of a database, for messages, without user and password."""
    return str(location) if isinstance(location, Path) else name_of(location)


def read_location(location: str | os.PathLike[str]) -> Path | str:
    """Return the URL of a PostgreSQL database unchanged, or the path of a SQLite database.

    Raises:
        ValueError: If the location is neither a URL of PostgreSQL nor a valid path.
    """
    if isinstance(location, str) and "://" in location:
        name_of(location)
        return location
    from fxai.storage.database import database_path

    return database_path(location)


# -- rows


def _options(job: NewJob) -> dict[str, Any]:
    from dbos import WorkflowSerializationFormat

    options = {
        "workflow_name": job.kind,
        "queue_name": job.kind,
        "workflow_id": job.id,
        "workflow_id_reuse_policy": "reject",
        "app_version": VERSION,
        "priority": min(max(_MIDDLE - job.priority, 1), (1 << 31) - 1),
        "application_name": APPLICATION,
        "serialization_type": WorkflowSerializationFormat.PORTABLE,
    }
    return {**options, "delay_seconds": job.delay} if job.delay > 0 else options


def _state_of(row: Any, note: _Note) -> JobState:
    status: JobStatus = _DBOS_STATUS.get(row.status, "failed")
    attempt = note.lost + (1 if row.recovery_attempts else 0)
    text: str | None = None
    if status == "done":
        text = text_of(row.output)
        status = "failed" if text is None else status
        text = "the database contains a row that is not the result of a job" if text is None else text
    elif status == "failed":
        message: object = getattr(row.error, "message", None)
        text = message if isinstance(message, str) and message else f"the workflow ended with the status {row.status}"
    elif status == "stopping" and (note.ended or not attempt):
        status, text = "cancelled", note.last
    return JobState(row.workflow_id, status, attempt, (row.executor_id or "") if attempt else "", text)


def result_of(text: str) -> dict[str, str]:
    """Return the result of the workflow of a job, for the result of the job."""
    return {"text": text}


def text_of(value: object) -> str | None:
    """Return the result of the job in the result of a workflow, or None for any other value."""
    text: object = cast("dict[str, object]", value).get("text") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _chunks(ids: Sequence[str]) -> Generator[list[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield list(ids[start : start + _CHUNK])


def _quiet() -> None:
    """Keep DBOS from writing to the console. Its warnings and errors go to the log `dbos`."""
    log = logging.getLogger("dbos")
    if not log.handlers:
        log.addHandler(logging.NullHandler())  # without a handler, DBOS adds a handler that writes to the console
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
