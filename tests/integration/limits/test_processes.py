"""Limits over processes: many ask at once, some are killed, and never is more used than is allowed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fxai.models import Allowances
from tests.kit.postgres import fresh_database

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MOST = 2000

# Waits for a line. Then it asks again and again, 100 tokens at most and 40 in fact, until the budget is spent; says so
# after each. With more patience than 60 s, it would wait until the reservation of a killed process ends, whose 100
# tokens may be committed.
ASKER = """
import sys
from returns.result import Success
from fxai.effects import fx
from fxai.messages import Usage
from fxai.models import Allowances, LanguageModel, Limit, limit
from fxai.testing import ScriptedModel, delay, finish, text

where, after_crash = sys.argv[1:]
shared = Allowances.postgres(where) if where.startswith("postgresql:") else Allowances.sqlite(where)
turns = [[delay(0.005), text("Yes."), finish("stop", Usage(30, 10))]] * 200
model = limit(
    ScriptedModel.make(turns).layer,
    Limit.budget("team", tokens=2000),
    allowances=shared, max_tokens=50, estimate=lambda request: 50, after_crash=after_crash, patience=2,
)

@fx.gen
def program():
    while isinstance((yield from LanguageModel.generate_text("?").result()), Success):
        print("done", flush=True)

print("begun", flush=True)
sys.stdin.readline()
fx.run(program().provide(model))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the allowances are: a file, or a database of a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "limits.db")
        return
    yield fresh_database(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("after_crash", ["release", "commit"])
def test_processes_share_a_budget(where: str, after_crash: str) -> None:
    """Three ask at once and one of them is killed: what it had reserved ends by itself, a minute later, as chosen."""
    shared = Allowances.postgres(where) if where.startswith("postgresql:") else Allowances.sqlite(where)
    command, pipe = [sys.executable, "-c", ASKER, where, after_crash], subprocess.PIPE
    askers = [subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    victim, *others = askers
    levels: list[int] = []
    try:
        for one in askers:
            assert one.stdout is not None
            assert one.stdout.readline() == "begun\n"
        for one in askers:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
            if one is victim:  # else the others could spend the budget before it asks
                assert one.stdout is not None
                assert one.stdout.readline() == "done\n"
        time.sleep(random.random() / 50)
        victim.kill()
        while any(one.poll() is None for one in others):
            level = shared.look_up("team tokens", now=time.time())
            levels.append(level.committed + level.reserved)
            time.sleep(0.02)
        done = sum(len([line for line in one.stdout or () if line == "done\n"]) for one in others)
    finally:
        for one in askers:
            one.kill()
            one.communicate()

    end = shared.look_up("team tokens", now=time.time())
    later = shared.look_up("team tokens", now=time.time() + 120)
    assert max(levels) <= MOST
    assert end.committed % 40 == 0
    assert end.committed >= 40 * done
    assert end.reserved in (0, 100)  # of the one that was killed
    assert MOST - 100 < end.committed + end.reserved <= MOST
    assert later.reserved == 0
    assert later.committed == end.committed + (end.reserved if after_crash == "commit" else 0)
