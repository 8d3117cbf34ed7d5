"""Without an extra, the room is there, and says which extra brings what is asked of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.source import ROOT

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
from importlib.machinery import PathFinder

MISSING = {missing!r}.split()
find = PathFinder.find_spec

def find_others(name, path=None, target=None):
    return None if name.partition(".")[0] in MISSING else find(name, path, target)

PathFinder.find_spec = find_others
import fxai.distributed
from fxai import fx
from fxai.distributed import Cluster, WorkerOptions, serve_queue, serve_worker
assert not {{"distributed", "dbos", "sqlalchemy"}} & sys.modules.keys()
try:
    fx.run({asked})
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("missing", "asked", "said"),
    [
        ("distributed", 'fx.service(Cluster).provide(Cluster.layer("tcp://127.0.0.1:1"))', "fxai[distributed]"),
        ("distributed", "fx.service(Cluster).provide(Cluster.local_layer())", "fxai[distributed]"),
        ("distributed", 'serve_worker("tcp://127.0.0.1:1")', "fxai[distributed]"),
        ("dbos", 'fx.service(Cluster).provide(Cluster.queue_layer("jobs.db"))', "fxai[durable]"),
        ("dbos", 'serve_queue("jobs.db", WorkerOptions(targets=("fxai.cli.example:tools",)))', "fxai[durable]"),
    ],
)
def test_an_extra_that_is_missing_is_named(missing: str, asked: str, said: str, tmp_path: Path) -> None:
    """The room itself is imported without Dask and without DBOS."""
    code = _PROGRAM.format(missing=missing, asked=asked)
    command, env = [sys.executable, "-c", code], {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert f"pip install '{said}'" in done.stdout, done.stderr
    assert done.returncode == 0
