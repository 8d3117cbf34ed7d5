"""The table of jobs: what stands in the database of a work queue, in SQLite or PostgreSQL, by DBOS. Needs `durable`.

Jobs are workflows of DBOS in its own tables: DBOS makes them, hands each to one worker, fences the writes of a worker
that was taken for dead, and gives back what a dead one held. It is used below its public classes, which unpickle
whatever row says that it is pickled, and of which there is one in a process: here a row is JSON or it is refused. Every
method blocks, and raises an `OSError` where the database refuses.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, JobTable.open(Path(folder) / "jobs.db") as table:
...     table.insert([NewJob("add", "a", "[1, 2]")]), table.insert([NewJob("add", "a", "[1, 2]")])
...     table.claim(["add"], 5, worker="one")
...     table.end("a", "one", "3")
...     table.states(["a"])
({'a'}, set())
[ClaimedJob(kind='add', id='a', attempt=1, text='[1, 2]', damage='')]
True
{'a': JobState(id='a', status='done', attempt=1, worker='one', text='3')}
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeAlias, TypeVar, cast, final
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from fxai.storage.postgres import error_type

if TYPE_CHECKING:
    import os
    from sqlite3 import Connection

    from sqlalchemy import Engine

_A = TypeVar("_A")
_P = ParamSpec("_P")

JobStatus: TypeAlias = Literal["waiting", "running", "done", "failed", "stopping", "cancelled", "gone"]
"""What becomes of a job: it waits for a worker; one runs it; it has a result; it has none, and `text` says why; it was
cancelled, and its worker has not said yet that it has stopped; it was cancelled, and nothing of it runs any more; it
was removed, or never submitted."""

PRELIMINARY: Final = "preliminary"
"""The stream of what a job shows before its result."""
_LAST: Final = "last"  # the stream of what a worker says when it has stopped a job that was cancelled

_APPLICATION: Final = "fxai"
_VERSION: Final = "fxai-1"  # of the texts of jobs: a later one would wait for workers that know it
_MIDDLE: Final = 1 << 30  # DBOS wants priorities from 1, and takes the lowest first
_CHUNK: Final = 500
_MARK: Final = "CREATE TABLE IF NOT EXISTS fxai_jobs (version TEXT) STRICT"  # a file of no tables is empty
_LIVE: Final = ("ENQUEUED", "DELAYED", "PENDING")
_DBOS_STATUS: Final[dict[str, JobStatus]] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "stopping",
}


@final
class NewJob(msgspec.Struct, frozen=True):
    """A job to be done: its kind, its id, its text, which of those that wait goes first, and when, in seconds."""

    kind: str
    id: str
    text: str
    priority: int = 0
    delay: float = 0.0


@final
class ClaimedJob(msgspec.Struct, frozen=True):
    """A job that a worker has, and nobody else."""

    kind: str
    id: str
    attempt: int
    """From 1; at a second one an earlier worker had it, and was lost or ended."""
    text: str
    damage: str = ""
    """Why what stands in the database is no job; empty: it is one."""


@final
class JobState(msgspec.Struct, frozen=True):
    """What is known of a job."""

    id: str
    status: JobStatus
    attempt: int = 0
    """How often a worker had it."""
    worker: str = ""
    """Which has it, or had it last."""
    text: str | None = None
    """The result, or why there is none; of a cancelled job the last that its worker had to say."""

    @property
    def is_over(self) -> bool:
        """Whether it stays as it is."""
        return self.status in ("done", "failed", "cancelled", "gone")


def _guard(
    method: Callable[Concatenate[JobTable, _P], _A],
) -> Callable[Concatenate[JobTable, _P], _A]:
    """The method, with an `OSError` in place of what SQLAlchemy and DBOS raise."""

    @wraps(method)
    def call(self: JobTable, /, *args: _P.args, **kwargs: _P.kwargs) -> _A:
        with _explain(self.place):
            return method(self, *args, **kwargs)

    return call


@contextmanager
def _explain(place: str) -> Generator[None]:
    from dbos import error
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, error.DBOSException) as raised:
        cause: object = getattr(raised, "orig", None)
        reason = str(cause or raised).strip().partition("\n")[0]
        kind = error_type(cause) if type(cause).__module__.startswith("psycopg") else OSError
        raise kind(f"the jobs in {place}: {reason}; see that the database is there, and nobody's but yours") from raised


@final
class JobTable:
    """The jobs of one database."""

    def __init__(self, database: Any, place: str) -> None:
        self._database = database  # the SystemDatabase of DBOS
        self.place: str = place
        """Where it is, in words, without user and password."""
        self._queues: dict[str, Any] = {}

    # -- opening

    @staticmethod
    @contextmanager
    def open(place: Path | str) -> Generator[JobTable]:
        """The jobs at a path of a SQLite database, as `database_path` gives it, or at a URL of PostgreSQL.

        Raises:
            ImportError: the extra `durable` is not installed.
            OSError: the database cannot be opened or its tables cannot be made.
        """
        _quiet()
        if find_spec("dbos") is None:
            raise ImportError("a work queue needs DBOS, which the extra brings: pip install 'fxai[durable]'")
        words = place_of(place)
        with ExitStack() as stack, _explain(words):
            engine = _sqlite_engine(place) if isinstance(place, Path) else _postgres_engine(place)
            stack.callback(engine.dispose)
            database = _system_database(engine, is_sqlite=isinstance(place, Path))
            stack.callback(database.destroy)
            database.run_migrations()
            table = JobTable(database, words)
            pending = stack.pop_all()
        with pending:
            yield table

    # -- asked by programs

    @_guard
    def insert(self, jobs: Sequence[NewJob]) -> set[str]:
        """Adds jobs, in one transaction but those with a delay; gives the ids of those that were not there."""
        made = {job.id: _new_row(job) for job in jobs}
        added: set[str] = self._database.init_workflows([row for row in made.values() if row["status"] == "ENQUEUED"])
        for name, row in made.items():
            if row["status"] == "DELAYED":
                _, is_new = self._database.init_workflow(row, creator_xid=uuid4().hex)
                added |= {name} if is_new else set()
        return added

    @_guard
    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """What is known of jobs, by id."""
        import sqlalchemy as sql

        tables = self._database.tables
        status, output = tables.workflow_status, tables.workflow_output
        joined = status.outerjoin(output, output.c.workflow_uuid == status.c.workflow_uuid)
        wanted = (
            status.c.workflow_uuid,
            status.c.status,
            status.c.recovery_attempts,
            status.c.executor_id,
            output.c.output,
            output.c.error,
        )
        found = {job: JobState(job, "gone") for job in ids}
        for chunk in _chunks(ids):
            rows = self._read(sql.select(*wanted).select_from(joined).where(status.c.workflow_uuid.in_(chunk)))
            found.update((row[0], _state_of(*row)) for row in rows)
        stopping = [job.id for job in found.values() if job.status == "stopping"]
        for job, text in self._last_words(stopping).items():
            found[job] = msgspec.structs.replace(found[job], status="cancelled", text=text)
        return found

    def _last_words(self, ids: Sequence[str]) -> dict[str, str | None]:
        return {job: text for job, _, text in self._stream(_LAST, dict.fromkeys(ids, 0))}

    @_guard
    def read_shown(self, offsets: dict[str, int]) -> list[tuple[str, int, str]]:
        """The preliminary values of jobs from an offset on: id, offset and text, in order."""
        rows = sorted(self._stream(PRELIMINARY, offsets), key=lambda row: row[1])
        return [(job, offset, text) for job, offset, text in rows if text is not None]

    def _stream(self, key: str, offsets: dict[str, int]) -> list[tuple[str, int, str | None]]:
        import sqlalchemy as sql

        table = self._database.tables.streams
        rows: list[Any] = []
        for chunk in _chunks(list(offsets)):
            newer = [sql.and_(table.c.workflow_uuid == job, table.c.offset >= offsets[job]) for job in chunk]
            columns = (table.c.workflow_uuid, table.c.offset, table.c.value)
            rows += self._read(sql.select(*columns).where(table.c.key == key, sql.or_(*newer)))
        return [(row[0], row[1], _read_text(row[2])) for row in rows]

    @_guard
    def cancel(self, ids: Sequence[str]) -> None:
        """Cancels jobs: those that wait are not run, those that run are stopped by their workers."""
        for chunk in _chunks(ids):
            self._database.cancel_workflows(chunk)

    @_guard
    def remove(self, ids: Sequence[str]) -> None:
        """Removes jobs with all that is known of them."""
        for chunk in _chunks(ids):
            self._database.delete_workflows(chunk)

    # -- asked by workers

    @_guard
    def claim(self, kinds: Iterable[str], most: int, *, worker: str) -> list[ClaimedJob]:
        """Takes jobs that wait, those of the highest priority first, then the oldest: at most so many.

        Args:
            kinds: the kinds of jobs.
            most: how many at most.
            worker: who takes them; no other one may ever have that name.
        """
        claimed: list[str] = []
        for kind in kinds:
            if len(claimed) < most:
                queue = self._queue(kind)
                queue._worker_concurrency = most - len(claimed)
                ids, _ = self._database.start_queued_workflows(
                    queue, worker, _VERSION, None, 0, owner_xid=worker, is_latest_version=False
                )
                claimed += ids
        return [_claim_of(row) for row in self._database.get_workflow_statuses(claimed)] if claimed else []

    def _queue(self, kind: str) -> Any:
        queue = self._queues.get(kind)
        if queue is None:
            options = ("concurrency", "worker_concurrency", "rate_limit_max", "rate_limit_period_sec")
            partition = ("partition_concurrency", "partition_worker_concurrency")
            limits = ("partition_rate_limit_max", "partition_rate_limit_period_sec")
            none: dict[str, Any] = dict.fromkeys((*options, *partition, *limits))
            self._database.upsert_queue(
                name=kind, polling_interval_sec=1.0, update_existing=False, application_name=_APPLICATION, **none
            )
            queue = self._queues[kind] = self._database.get_queue(kind, client_system_database=self._database)
        return queue

    @_guard
    def end(self, job: str, worker: str, text: str, *, is_failure: bool = False) -> bool:
        """Ends a job that was claimed; False where it was cancelled, or is another worker's now."""
        written = _write_text(text)
        if is_failure:
            error = msgspec.json.encode({"name": "JobError", "message": text}).decode()
            done = self._database.update_workflow_outcome(job, "ERROR", error=error, owner_xid=worker)
        else:
            done = self._database.update_workflow_outcome(job, "SUCCESS", output=written, owner_xid=worker)
        return bool(done)

    @_guard
    def confirm_cancelled(self, jobs: dict[str, str | None]) -> None:
        """Says that nothing runs any more of jobs that were cancelled, with their workers' last words."""
        for job, text in jobs.items():
            if self.find_cancelled([job]) and not self._stream(_LAST, {job: 0}):
                self._show(job, _LAST, text)

    @_guard
    def show(self, job: str, text: str) -> None:
        """Adds a preliminary value of a job; nothing happens where it was removed."""
        self._show(job, PRELIMINARY, text)

    def _show(self, job: str, key: str, text: str | None) -> None:
        from dbos import WorkflowSerializationFormat
        from sqlalchemy.exc import IntegrityError

        try:
            self._database.write_stream_from_step(
                job, 0, key, text, serialization_type=WorkflowSerializationFormat.PORTABLE
            )
        except IntegrityError:  # its row is gone
            return

    @_guard
    def find_cancelled(self, ids: Sequence[str]) -> set[str]:
        """Which of these jobs were cancelled or removed."""
        import sqlalchemy as sql

        table = self._database.tables.workflow_status
        live: set[str] = set()
        for chunk in _chunks(ids):
            chosen = sql.select(table.c.workflow_uuid).where(
                table.c.workflow_uuid.in_(chunk), table.c.status != "CANCELLED"
            )
            live.update(row[0] for row in self._read(chosen))
        return set(ids) - live

    @_guard
    def wake(self) -> None:
        """Lets jobs wait for a worker whose delay is over."""
        self._database.transition_delayed_workflows()

    # -- workers that are lost

    @_guard
    def workers(self, kinds: Sequence[str] | None = None) -> set[str]:
        """The workers that have jobs, or had one that was cancelled and whose end they have not told."""
        import sqlalchemy as sql

        tables = self._database.tables
        table, streams = tables.workflow_status, tables.streams
        told = sql.exists().where(streams.c.workflow_uuid == table.c.workflow_uuid, streams.c.key == _LAST)
        held = sql.or_(
            table.c.status == "PENDING",
            sql.and_(table.c.status == "CANCELLED", table.c.recovery_attempts > 0, sql.not_(told)),
        )
        chosen = sql.select(table.c.executor_id).distinct().where(self._ours(table), held)
        if kinds is not None:
            chosen = chosen.where(table.c.name.in_(list(kinds)))
        return {row[0] for row in self._read(chosen) if row[0]}

    @_guard
    def give_back(self, worker: str, *, running: Collection[str] = ()) -> int:
        """Let the jobs of a worker wait for a worker, and note that the cancelled jobs have stopped.

        Args:
            worker: The worker.
            running: The jobs that it runs, and that stay as they are.

        Returns:
            How many wait again.
        """
        import sqlalchemy as sql

        table = self._database.tables.workflow_status
        its = (self._ours(table), table.c.executor_id == worker)
        chosen = sql.select(table.c.workflow_uuid, table.c.name).where(*its, table.c.status == "PENDING")
        lost = [row for row in self._read(chosen) if row[0] not in running]
        waiting = [self._database.reenqueue_for_recovery(job, [worker], kind) for job, kind in lost]
        stopped = sql.select(table.c.workflow_uuid).where(*its, table.c.status == "CANCELLED")
        self.confirm_cancelled({row[0]: None for row in self._read(stopped) if row[0] not in running})
        return sum(waiting)

    @_guard
    def remove_old(self, before: float) -> int:
        """Removes jobs that ended before a time, in seconds since 1970; gives how many."""
        import sqlalchemy as sql

        table = self._database.tables.workflow_status
        chosen = sql.select(table.c.workflow_uuid).where(
            self._ours(table), table.c.status.notin_(_LIVE), table.c.completed_at < int(before * 1000)
        )
        old = [row[0] for row in self._read(chosen.limit(_CHUNK))]
        if old:
            self._database.delete_workflows(old)
        return len(old)

    def _ours(self, table: Any) -> Any:
        return table.c.application_name == _APPLICATION

    def _read(self, chosen: Any) -> list[Any]:
        with self._database.engine.begin() as connection:
            return list(connection.execute(chosen).fetchall())


def place_of(place: Path | str) -> str:
    """Where a database is, in words, without user and password."""
    if isinstance(place, Path):
        return str(place)
    parts = urlsplit(place)
    return f"PostgreSQL, {parts.hostname or 'of this machine'}{parts.path}"


def read_place(place: str | os.PathLike[str]) -> Path | str:
    """A place of jobs: the URL of PostgreSQL as it is, or the path of a SQLite database.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(place, str) and "://" in place:
        if urlsplit(place).scheme not in ("postgresql", "postgres"):
            raise ValueError("a PostgreSQL database is named by postgresql://USER:PASSWORD@HOST/DATABASE")
        return place
    from fxai.storage.database import database_path

    return database_path(place)


# -- rows


def _new_row(job: NewJob) -> dict[str, Any]:
    from dbos import EnqueueOptions, WorkflowSerializationFormat
    from dbos._enqueue_options import build_enqueue_status

    job.text.encode()  # half a surrogate pair is a UnicodeEncodeError here, and not in the middle of a batch
    options: EnqueueOptions = {
        "workflow_name": job.kind,
        "queue_name": job.kind,
        "workflow_id": job.id,
        "app_version": _VERSION,
        "priority": min(max(_MIDDLE - job.priority, 1), (1 << 31) - 1),
        "application_name": _APPLICATION,
        "serialization_type": WorkflowSerializationFormat.PORTABLE,
    }
    if job.delay > 0:
        options["delay_seconds"] = job.delay
    _, row = build_enqueue_status(options, cast(Any, None), (job.text,), {})
    return cast("dict[str, Any]", row)


class _Inputs(msgspec.Struct):
    positional: tuple[str] = msgspec.field(name="positionalArgs")


class _Error(msgspec.Struct):
    message: str = ""


def _claim_of(row: Any) -> ClaimedJob:
    about = (row["name"], row["workflow_uuid"], row["recovery_attempts"] or 1)
    if row["serialization"] != "portable_json":
        return ClaimedJob(*about, "", f"it is written as {row['serialization']!r}, not as JSON")
    try:
        return ClaimedJob(*about, msgspec.json.decode(row["inputs"] or "", type=_Inputs).positional[0])
    except (msgspec.DecodeError, RecursionError) as error:
        return ClaimedJob(*about, "", f"it holds no job: {error}")


def _state_of(
    job: str, status: str, attempts: int | None, worker: str | None, output: str | None, error: str | None
) -> JobState:
    said: JobStatus = _DBOS_STATUS.get(status, "failed")
    attempt = attempts or 0
    text = None
    if said == "done":
        text = _read_text(output)
        said = "failed" if text is None else said
        text = "what stands there as its result is no JSON text" if text is None else text
    elif said == "failed":
        try:
            text = msgspec.json.decode(error or "{}", type=_Error).message
        except (msgspec.DecodeError, RecursionError):
            text = ""
        text = text or f"it ended as {status}"
    elif said == "stopping" and not attempt:
        said = "cancelled"
    return JobState(job, said, attempt, worker or "", text)


def _write_text(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _read_text(written: str | None) -> str | None:
    try:
        return msgspec.json.decode(written or "", type=str | None)
    except (msgspec.DecodeError, RecursionError):
        return None


def _chunks(ids: Sequence[str]) -> Generator[list[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield list(ids[start : start + _CHUNK])


# -- engines


def _quiet() -> None:
    """Keeps DBOS from the console: what it says goes to the log `dbos`, from warnings on."""
    log = logging.getLogger("dbos")
    if not log.handlers:
        log.addHandler(logging.NullHandler())  # else it adds one that writes to the console
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)


def _system_database(engine: Engine, *, is_sqlite: bool) -> Any:
    from dbos._serialization import DBOSPortableJSON
    from dbos._sys_db import SystemDatabase

    return SystemDatabase.create(
        system_database_url="sqlite:///jobs" if is_sqlite else "postgresql://jobs",  # the engine says where
        engine_kwargs={},
        engine=engine,
        schema="dbos",
        serializer=DBOSPortableJSON,
        executor_id=None,
        use_listen_notify=False,
        app_name=_APPLICATION,
        retry_connection_errors=False,
    )


def _sqlite_engine(path: Path) -> Engine:
    from sqlite3 import sqlite_version_info

    from sqlalchemy import create_engine
    from sqlalchemy.pool import QueuePool

    from fxai.storage.database import connect, open_for_pool

    with connect(path, _MARK):  # private to its owner, in WAL mode
        pass

    def open_one() -> Connection:
        database = open_for_pool(path)
        if sqlite_version_info < (3, 42):  # it knows no parts of seconds, which DBOS asks for from Python 3.12 on
            database.create_function("unixepoch", 1, _unix_time)
        return database

    return create_engine("sqlite://", creator=open_one, poolclass=QueuePool, pool_size=8, max_overflow=24)


def _unix_time(part: object) -> float | None:
    return time.time() if part == "subsec" else None


def _postgres_engine(url: str) -> Engine:
    from sqlalchemy import create_engine, make_url

    return create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 30, "application_name": "fxai"},
    )
