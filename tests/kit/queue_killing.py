"""Workers of a queue of runs that are killed, by SIGKILL, at moments that a seed chooses, until all runs have ended.

As a program it forks a worker for each order on stdin.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, final

from fxai import fx
from fxai.durable import RunQuestion, Runs
from tests.kit.durable_program import World, program, serve
from tests.kit.killing import Forks, KilledRun, expect, find_faults, key_of, open_questions, reply_to

__all__ = ["QueueKilling"]

_PROGRAM = "tests:main"
_LONGEST = 300.0  # seconds for all runs


@final
class QueueKilling:
    """Runs on a queue, and workers that are killed.

    Args:
        folder: where the worlds are.
        store: where the runs are.
        workers: how many work at once.
    """

    def __init__(self, folder: Path, store: str, workers: int = 3) -> None:
        self._folder = folder
        self._store = store
        self._runs = Runs.at(store)
        self._workers = workers
        self._kills = 0
        self._doubts: Counter[str] = Counter()
        self._again: dict[str, Counter[str]] = {}

    def run(self, names: list[str], seed: int) -> list[KilledRun]:
        """How the runs of these names end."""
        random = Random(seed)
        for name in names:
            self._again[name] = Counter()
            assert fx.run(self._runs.submit(name, _PROGRAM))
        with Forks("tests.kit.queue_killing") as forks:
            pids = [self._start(forks) for _ in range(self._workers)]
            until = time.monotonic() + _LONGEST
            while any(state.status != "done" for state in fx.run(self._runs.list())) and time.monotonic() < until:
                time.sleep(random.uniform(0.05, 0.6))
                if self._kills < len(names) * 2:
                    pids.append(self._start(forks))
                    self._kill(forks, pids.pop(random.randrange(len(pids) - 1)))
                    self._kills += 1
                for name in names:
                    self._answer(name, random)
            for pid in pids:
                self._kill(forks, pid)
        return [self._judge(name) for name in names]

    def _start(self, forks: Forks) -> int:
        return forks.start(store=self._store, folder=str(self._folder))

    def _kill(self, forks: Forks, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert forks.wait(pid) == -signal.SIGKILL

    def _answer(self, name: str, random: Random) -> None:
        for question in open_questions(self._runs, name):
            if random.random() < 0.9:
                self._reply(name, question)

    def _reply(self, name: str, question: RunQuestion) -> None:
        reply = reply_to(question, _world(self._folder, name))
        self._doubts[name] += question.kind == "doubt"
        self._again[name][key_of(question)] += reply.kind == "again"
        fx.run(self._runs.answer(name, question.id, reply))

    def _judge(self, name: str) -> KilledRun:
        world = _world(self._folder, name)
        status = fx.run(self._runs.show(name)).state.status
        if status != "done":
            return KilledRun("", "", self._kills, self._workers, self._doubts[name], (f"it is {status}",))
        faults = find_faults(world, self._again[name], self._kills)
        expected = expect(self._folder / f"{name}.expected", name)
        before = world.path.read_bytes()
        again: Any = fx.run_exit(program(world, self._runs, name, name))  # from its journal
        if world.path.read_bytes() != before:
            faults.append("it was said to be done, and went on when it was run again")
        return KilledRun(again.value.text, expected, self._kills, self._workers, self._doubts[name], tuple(faults))


def _world(folder: Path, name: str) -> World:
    return World(folder / f"{name}.world")


def _work(order: dict[str, str]) -> int:
    """Works in this process until it is killed."""
    runs, folder = Runs.at(order["store"]), Path(order["folder"])

    def main(run: str) -> Any:
        return program(_world(folder, run), runs, run, run)

    fx.run_exit(runs.work({_PROGRAM: main}, concurrency=8, attempts=1000, hold=None))
    return 1


if __name__ == "__main__":
    serve(_work)
