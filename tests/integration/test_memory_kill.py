"""Memories on disk, and processes that are killed: what was acknowledged is there, whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fxai.effects import fx
from tests.kit.memories import approved, asked, begun_with, chat, looked_up, memory_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
kinds = pytest.mark.parametrize("kind", ["file", "sqlite"])

# Commits turn after turn, and says after each that it has been told it is kept.
WRITER = """
import sys
from itertools import count
from pathlib import Path
from fxai.effects import fx
from tests.kit.memories import looked_up, memory_of
kind, folder, who, begin, keep = sys.argv[1:]
memory = memory_of(kind, Path(folder), keep=int(keep) or None)

@fx.gen
def write():
    for n in count(int(begin)):
        yield from memory.commit(looked_up(f"{who} {n}"))
        print(n, flush=True)

fx.run(write())
"""


def _killed(kind: str, folder: Path, begins: dict[str, int], keep: int, pause: float) -> dict[str, int]:
    """The first number of each writer that was not acknowledged, when all were killed at the same moment."""
    arguments = [sys.executable, "-c", WRITER, kind, str(folder)]
    writers = {
        who: subprocess.Popen([*arguments, who, str(start), str(keep)], cwd=ROOT, stdout=subprocess.PIPE)
        for who, start in begins.items()
    }
    said: dict[str, list[int]] = {}
    for who, one in writers.items():
        assert one.stdout is not None
        said[who] = [int(one.stdout.readline())]
    time.sleep(pause)
    for one in writers.values():
        one.kill()
    for who, one in writers.items():
        out, _ = one.communicate()
        said[who] += [int(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
    return {who: numbers[-1] + 1 for who, numbers in said.items()}


def _kept(kind: str, folder: Path) -> Any:
    return fx.run(memory_of(kind, folder).turns())


def _numbers(turns: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for turn in turns:
        who, _, number = begun_with(turn).partition(" ")
        found.setdefault(who, []).append(int(number))
    return found


@kinds
def test_nothing_that_was_acknowledged_is_lost(kind: str, tmp_path: Path) -> None:
    """Three processes write at once and are killed at any moment, again and again.

    Each turn that was acknowledged is there once, in order and whole; beside those, at most the one that each process
    was committing.
    """
    dice = random.Random(kind)
    begins = dict.fromkeys("abc", 0)
    for _ in range(2):
        ends = _killed(kind, tmp_path, begins, 0, dice.uniform(0.0, 0.15))
        turns = _kept(kind, tmp_path)
        numbers = _numbers(turns)
        begins = {who: kept[-1] + 1 for who, kept in numbers.items()}

        assert all(turn == looked_up(begun_with(turn)) for turn in turns)
        assert all(numbers[who] == list(range(begins[who])) for who in "abc")
        assert all(0 <= begins[who] - ends[who] <= 1 for who in "abc")


def test_a_file_that_drops_old_turns_survives_too(tmp_path: Path) -> None:
    """The file is written anew every few commits: whenever it ends, the newest are there."""
    dice = random.Random(5)
    start = 0
    for _ in range(2):
        end = _killed("file", tmp_path, {"a": start}, 4, dice.uniform(0.0, 0.15))["a"]
        turns = fx.run(memory_of("file", tmp_path, keep=4).turns())
        start = _numbers(turns)["a"][-1] + 1

        assert [begun_with(turn) for turn in turns] == [f"a {n}" for n in range(max(0, start - 4), start)]
        assert all(turn == looked_up(begun_with(turn)) for turn in turns)
        assert 0 <= start - end <= 1


# Commits in a child that kills itself at a set point, once for each point; says at which of them it has been killed.
SUICIDES = """
import json, os, signal, sqlite3, sys
from pathlib import Path
from fxai.storage import journal_file
from fxai.agents.stateful import PromptState
from fxai.effects import fx
from tests.kit.memories import approved, asked, chat, commit_all, memory_of
kind, root = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def before(module, name):
    def dying(*_, **__):
        die()
    setattr(module, name, dying)

def after(module, name):
    real = getattr(module, name)
    def dying(*arguments, **named):
        real(*arguments, **named)
        die()
    setattr(module, name, dying)

def half_written():
    real = os.write
    def dying(file, data):
        real(file, data[: len(data) // 2])
        die()
    os.write = dying

def in_sqlite(word, late):
    class Dying(sqlite3.Connection):
        def execute(self, statement, *values):
            dies = statement.startswith(word)
            if dies and not late:
                die()
            done = super().execute(statement, *values)
            if dies:
                die()
            return done
    real = sqlite3.connect
    sqlite3.connect = lambda *arguments, **named: real(*arguments, factory=Dying, **named)

if kind == "file":
    points = {
        f"{when.__name__} {name}": (lambda when=when, name=name: when(os, name))
        for name in ("ftruncate", "write", "fsync") for when in (before, after)
    }
    points["half of write"] = half_written
    points["before replace"] = lambda: before(journal_file, "replace_file")
    points["inside replace"] = lambda: before(Path, "replace")
    points["after replace"] = lambda: after(journal_file, "replace_file")
else:
    points = {
        f"{'after' if late else 'before'} {word}": (lambda word=word, late=late: in_sqlite(word, late))
        for word in ("BEGIN", "INSERT", "CREATE", "INSERT OR REPLACE", "DELETE", "COMMIT") for late in (False, True)
    }

died = {}
for point, inject in points.items():
    folder = Path(root) / point
    fx.run(commit_all(memory_of(kind, folder, keep=2), [chat("0"), chat("1"), asked("2")]))
    for name, turn in (("first", approved()), ("second", chat("3"))):
        child = os.fork()
        if child == 0:
            inject()
            state = PromptState.from_data({"values": {"after": name}}).unwrap()
            fx.run(memory_of(kind, folder, keep=2).commit_with(turn, state))
            os._exit(0)
        died.setdefault(point, []).append(os.waitpid(child, 0)[1] == signal.SIGKILL)
print(json.dumps(died))
"""


LEFT = {".jsonl", ".jsonl.lock", ".db"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@kinds
def test_a_commit_that_is_killed_at_any_point_is_whole_or_not_there(kind: str, tmp_path: Path) -> None:
    """Between any two steps of a commit, and in the middle of one; the next process goes on.

    A commit is killed that goes on with a turn, then one that begins a turn; the state of each is there where the
    commit is. What was acknowledged before is there.
    """
    command = [sys.executable, "-c", SUICIDES, kind, str(tmp_path)]
    died: dict[str, list[bool]] = json.loads(
        subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    )
    begun, ended = asked("2"), asked("2") + approved()
    first, second = {"after": "first"}, {"after": "second"}
    whole = [
        *(((chat("1"), begun), None), ((chat("1"), ended), first)),  # the second commit is not there
        *(((begun, chat("3")), second), ((ended, chat("3")), second)),
    ]
    for point in died:
        memory = memory_of(kind, tmp_path / point, keep=2)

        state = fx.run(memory.load_state())
        assert (fx.run(memory.turns()), None if state is None else state.values) in whole, point
        fx.run(memory.commit(looked_up("4")))
        assert fx.run(memory.turns())[1:] == (looked_up("4"),), point
        assert {one.name.removeprefix("memory") for one in (tmp_path / point).rglob("memory*")} <= LEFT, point
        assert list((tmp_path / point).rglob(".*")) == [], point

    assert died == {point: [not ("replace" in point or "DELETE" in point), True] for point in died}
    assert len(died) >= 8
