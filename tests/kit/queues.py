"""Workers of a work queue for tests, in processes of their own, ended by their ids."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import final

import psycopg

from tests.kit.clusters import Process

__all__ = ["READY", "RunningQueue", "claim_for", "start"]

READY = re.compile(r"worker [0-9a-f]{32} runs calls")
"""What a worker says when it is ready."""


@final
class RunningQueue:
    """A queue, and workers that come and go."""

    def __init__(self, location: str, stack: ExitStack) -> None:
        self.location = location
        self._stack = stack

    def start(self, *command: str) -> Process:
        """A process of Python that ends with the queue."""
        process = Process(command)
        self._stack.callback(process.end)
        return process

    def start_worker(self, *arguments: str) -> Process:
        """A worker that begins to work, started as users start one."""
        return self.start("-m", "fxai", "worker", "--queue", self.location, *arguments)

    def add_worker(self, *arguments: str) -> Process:
        """A worker that is ready."""
        worker = self.start_worker(*arguments)
        worker.found(READY)
        return worker


@contextmanager
def start(location: str) -> Generator[RunningQueue]:
    """A queue without workers."""
    with ExitStack() as stack:
        yield RunningQueue(location, stack)


def claim_for(location: str, worker: str, *jobs: str) -> None:
    """Write that a worker has some jobs, as DBOS writes it when the worker takes them."""
    claim = "UPDATE {} SET status = 'PENDING', executor_id = {}, recovery_attempts = 1 WHERE workflow_uuid = {}"
    if "://" in location:
        with psycopg.connect(location) as server:
            for job in jobs:
                server.execute(claim.format("dbos.workflow_status", "%s", "%s").encode(), (worker, job))
        return
    database = sqlite3.connect(location)
    with database:
        database.executemany(claim.format("workflow_status", "?", "?"), [(worker, job) for job in jobs])
    database.close()
