"""A run receives messages from another process, and contains each message once, also after its process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fxai import fx
from tests.kit.postgres import fresh_database, runs_in

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys, time
from pathlib import Path
from returns.result import Success
from fxai import Agent, Tool, Toolkit, fx
from fxai.agents import Inbox
from fxai.annotations import Idempotent
from fxai.durable import durable
from fxai.testing import ScriptedModel, call, text

store, folder, done = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)

def handle(number):
    print(f"call {number}", flush=True)
    while not (folder / f"go{number}").exists():
        time.sleep(0.01)
    return Success(number)

turns = [call("look", 1, id="c1"), call("look", 2, id="c2"), text("Done."), text("Queued.")]
model = ScriptedModel.make(turns[done:])
live = durable(look.handler(handle, blocking=True) | model.layer, run="r", store=store)
agent = Agent.make("worker", toolkit=Toolkit.make(look))
answer = fx.run(agent.execute("Go.").provide(Inbox.in_process().layer).provide(live))
print([message.text for message in answer.history if message.role == "user"], answer.text, flush=True)
"""


def _start(store: str, folder: Path, done: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PROGRAM, store, str(folder), str(done)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(process: Any) -> str:
    return str(process.stdout.readline()).strip()


def _steer(*arguments: str) -> str:
    command = [sys.executable, "-m", "fxai", "runs", "steer", "r", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_run_contains_each_message_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Messages of another process join a running run and a stopped run, and a resumed run reads none of them twice."""
    is_file = kind == "sqlite"
    store = str(tmp_path / "runs.db") if is_file else fresh_database(request.getfixturevalue("postgres_url"))
    runs = runs_in(kind, store)
    with _start(store, tmp_path, 0) as process:
        assert _line(process) == "call 1"
        sent = _steer("First.", "--store", store)
        queued = _steer("Last.", "--queue", "--json", "--store", store)
        (tmp_path / "go1").touch()
        assert _line(process) == "call 2"
        os.kill(process.pid, signal.SIGKILL)
    fx.run(runs.steer("r", "Second."))
    unread = fx.run(runs.show("r")).unread
    (tmp_path / "go2").touch()
    with _start(store, tmp_path, 2) as process:
        assert _line(process) == "call 2"
        last = _line(process)

    assert sent.startswith("sent: r reads the message before its next request.")
    assert '"delivery":"queue"' in queued.replace(" ", "")
    assert [one.text for one in unread] == ["Second."]
    assert last == "['Go.', 'First.', 'Second.', 'Last.'] Queued."
    assert fx.run(runs.show("r")).unread == ()
