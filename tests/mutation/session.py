"""Sessions of pytest in forked processes. Use this module to run selected tests of a copy of the project.

The parent has pytest and the libraries in memory, but not the package: each session imports the package anew, so a
fault also has its effects at import time.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import final

import hypothesis
import msgspec
import pytest

from tests.mutation.draw import SOURCE

__all__ = ["Record", "Recorder", "Selection", "Session", "preload"]


def preload(project: Path) -> None:
    """Import the libraries that the package and its tests import. A module that cannot be imported is skipped."""
    names: set[str] = {"hypothesis.strategies"}
    for path in [
        *(project / SOURCE).rglob("*.py"),
        *(project / "tests").glob("*.py"),
        *(project / "tests/kit").glob("*.py"),
    ]:
        names.update(_imported(ast.parse(path.read_bytes())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(names):
            if name.partition(".")[0] not in (SOURCE, "tests"):
                _import(name)
    gc.collect()
    gc.freeze()  # so that the collector of a forked process copies no pages


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:
        sys.modules.pop(name, None)


@final
class Record(msgspec.Struct, frozen=True):
    """The outcomes of a session."""

    passed: dict[str, float]
    """The seconds of each test that passed."""
    failed: list[str]


@final
class Recorder:
    """A plugin that stores the outcome and the duration of each test.

    Args:
        output: The file for the records, as JSON.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Add a file that cannot be collected."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        passed = {name: self.seconds[name] for name in self.passed - self.failed}
        self.output.write_bytes(msgspec.json.encode(Record(passed, sorted(self.failed))))


@final
class Selection:
    """A plugin that runs selected tests only, and writes each start and each failure to a file at once.

    Args:
        limits: The seconds that each selected test may take.
        output: The file.
    """

    def __init__(self, limits: dict[str, float], output: Path) -> None:
        self.limits = limits
        self.output = output

    def _write(self, word: str, name: str) -> None:
        with self.output.open("a", encoding="utf-8") as file:
            file.write(f"{word}\t{name}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Stop Hypothesis from shrinking examples and from storing them for other mutants."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutation", phases=phases, database=None)
        hypothesis.settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the selected tests, each with its time limit. The files are in the order of the selection."""
        order = {name.partition("::")[0]: at for at, name in reversed(list(enumerate(self.limits)))}
        items[:] = sorted(
            (item for item in items if item.nodeid in self.limits),
            key=lambda item: order[item.nodeid.partition("::")[0]],
        )
        for item in items:
            item.add_marker(pytest.mark.timeout(self.limits[item.nodeid]), append=False)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write the start of a test."""
        self._write("start", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a failure."""
        if report.failed:
            self._write("time limit" if "Timeout (>" in report.longreprtext else "failed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write the first selected test of a file that cannot be collected."""
        if report.failed:
            found = [name for name in self.limits if name.startswith(report.nodeid)]
            self._write("failed", (found or list(self.limits))[0])


@final
class Session:
    """A running session of pytest in a forked process, with a process group of its own.

    Args:
        copy: The copy of the project.
        arguments: The arguments of pytest.
        plugin: A plugin for the session.
        log: The file for its output.
        seconds: The time limit of the whole session. Default: no limit.
    """

    def __init__(
        self,
        copy: Path,
        arguments: Sequence[str],
        plugin: Recorder | Selection,
        log: Path,
        seconds: float | None = None,
    ) -> None:
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.code: int | None = None
        self.is_late = False
        self.pid = os.fork()
        if not self.pid:
            _run_and_exit(copy, arguments, plugin, log)

    @property
    def is_over(self) -> bool:
        """True if the process ended. A process that exceeds its time limit is killed."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._end(status)
            elif self.deadline is not None and time.monotonic() > self.deadline:
                self.is_late = True
                self.kill()
        return self.code is not None

    def wait(self) -> None:
        """Wait for the end of the process."""
        while not self.is_over:
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process, if it runs, and the processes that it started."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._end(os.waitpid(self.pid, 0)[1])

    def _end(self, status: int) -> None:
        self.code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _run_and_exit(copy: Path, arguments: Sequence[str], plugin: object, log: Path) -> None:
    code = 70
    try:
        os.setsid()
        _enter(copy, log)
        warning = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
        common = ["-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-W", warning]
        code = int(pytest.main([*common, *arguments], plugins=[plugin]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(copy: Path, log: Path) -> None:
    """Turn a forked process into a fresh process that starts in the copy."""
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *[(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND)] * 2]
    ):
        file = os.open(path, flags)
        os.dup2(file, number)
        os.close(file)
    os.chdir(copy)
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST") or name == "PYTEST_CURRENT_TEST"]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = str(copy)
    here = str(Path(__file__).resolve().parents[2])
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in ("", here))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", SOURCE, "xdist")]:
        # xdist too: it stores the path of its import for its workers
        del sys.modules[name]
    importlib.invalidate_caches()
