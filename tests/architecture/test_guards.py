"""The guards of the suite, seen at work on tests that ought to fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BAD_TESTS = """
import socket
import warnings


def test_nothing():
    len("x")


def test_returned():
    assert True
    return object()


def test_warned():
    warnings.warn("old", DeprecationWarning)
    assert True


def test_connected():
    socket.create_connection(("192.0.2.1", 80), timeout=0.1)
    assert True


def test_resolved():
    socket.getaddrinfo("example.com", 80)
    assert True


def test_local():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert True
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the bad tests, under this suite's own conftest and configuration."""
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    (folder / "test_bad.py").write_text(BAD_TESTS)
    options = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", "-p", "no:cacheprovider", "-rA", "--tb=line"]
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_nothing", "asserts nothing"),
        ("test_returned", "should return None"),
        ("test_warned", "DeprecationWarning: old"),
        ("test_connected", "tests use no network"),
        ("test_resolved", "tests use no network"),
    ],
)
def test_a_test_that_proves_nothing_or_leaves_the_machine_fails(report: str, test: str, said: str) -> None:
    """A test fails when it asserts nothing, returns something, warns, or talks to another machine."""
    lines = [
        line for line in report.splitlines() if line.startswith("FAILED") and line.partition(" - ")[0].endswith(test)
    ]

    assert len(lines) == 1, report
    assert said in report


def test_a_local_socket_is_allowed(report: str) -> None:
    """Loopback is no network: a test may talk to a peer of its own."""
    passed = [line for line in report.splitlines() if line.startswith("PASSED")]

    assert len(passed) == 1, report
    assert passed[0].endswith("::test_local")
