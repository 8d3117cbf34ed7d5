"""Clusters of Dask on loopback for tests: a scheduler and workers in processes of their own, ended by their ids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import final

__all__ = ["READY", "Process", "RunningCluster", "start"]

_PATIENCE = 60.0
_ADDRESS = re.compile(r"tcp://127\.0\.0\.1:[1-9]\d*")
READY = re.compile(r"worker at tcp://127\.0\.0\.1:[1-9]\d* runs calls")
"""What a worker says when it is ready."""
_ROOT = Path(__file__).parents[2]


@final
class Process:
    """A process whose output is read when it is asked for."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        self._process = subprocess.Popen(
            [sys.executable, *command], cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT
        )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has said so far."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def found(self, pattern: re.Pattern[str]) -> str:
        """The first text in its output that fits; waits for it.

        Raises:
            RuntimeError: it ended without it, or took a minute.
        """
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            ended = self._process.poll()
            match = pattern.search(self.output)
            if match is not None:
                return match.group()
            if ended is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{pattern.pattern} is not there (exit code {self._process.poll()}): {self.output}")

    def signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        self._process.send_signal(number)

    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait(_PATIENCE)

    def end(self) -> None:
        """Ends it, unless it has ended."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@final
class RunningCluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._scheduler = self.start(
            "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *_QUIET
        )
        self.address = self._scheduler.found(_ADDRESS)

    @property
    def scheduler_pid(self) -> int:
        """The id of the scheduler's process."""
        return self._scheduler.pid

    def start(self, *command: str) -> Process:
        """A process of Python that ends with the cluster."""
        process = Process(command)
        self._stack.callback(process.end)
        return process

    def start_worker(self, *arguments: str) -> Process:
        """A worker that begins to work, started as users start one."""
        return self.start("-m", "fxai", "worker", self.address, *arguments)

    def add_worker(self, *arguments: str) -> Process:
        """A worker that is ready."""
        worker = self.start_worker(*arguments)
        worker.found(READY)
        return worker

    def end_scheduler(self) -> None:
        """Ends the scheduler."""
        self._scheduler.end()


_QUIET = ("--dashboard-address", "127.0.0.1:0")  # else it listens at all addresses, on port 8787


@contextmanager
def start() -> Generator[RunningCluster]:
    """A cluster without workers."""
    with ExitStack() as stack:
        yield RunningCluster(stack)
