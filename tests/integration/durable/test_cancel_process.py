"""A run that is cancelled while another process goes on with it: that process is interrupted, and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fxai import fx
from tests.kit.postgres import fresh_database, runs_in

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
from fxai import fx
from fxai.durable import durable, step
from fxai.effects import Layer

hanging = fx.never().ensuring(fx.sync(lambda: print("finalizer", flush=True)))
program = step("hang", fx.sync(lambda: print("begun", flush=True)).and_then(hanging), int)
end = fx.run_exit(program.provide(durable(Layer.empty(), run="r", store=sys.argv[1])))
print(type(end.cause.failures[0]).__name__)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_process_is_interrupted(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """With its finalizers; what was under way stays in doubt."""
    is_file = kind == "sqlite"
    store = str(tmp_path / "runs.db") if is_file else fresh_database(request.getfixturevalue("postgres_url"))
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, store], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        fx.run(runs_in(kind, store).cancel("r"))
        assert process.stdout.read().split() == ["finalizer", "RunCancelled"]
    report = fx.run(runs_in(kind, store).show("r"))
    assert report.state.status == "cancelled"
    assert [(one.name, one.status) for one in report.steps] == [("hang", "in doubt")]
