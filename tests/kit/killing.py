"""Runs of the durable program that are killed, by SIGKILL, at moments that a seed chooses, until they have ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import IO, Any, Self, cast, final

import msgspec

from fxai import fx
from fxai.durable import Question, Reply, Runs
from tests.kit.durable_program import TWIN, WAITING, World, program
from tests.kit.source import ROOT

__all__ = ["Forks", "KilledRun", "Killing", "expect", "find_faults", "key_of", "open_questions", "reply_to"]

_MOST = 60  # processes for one run
_KILLED = 0.6  # of the processes
_ANSWERED = 0.9  # of the questions, each time
_SECONDS = 0.3  # about as long as a process needs for a whole run


@final
class KilledRun(msgspec.Struct, frozen=True):
    """What became of one run."""

    answer: str
    expected: str
    kills: int
    processes: int
    doubts: int
    faults: tuple[str, ...]


@final
class Forks:
    """Starts processes of a program that are forked, so that none of them has to import anything."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        self._server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        cast("IO[str]", self._server.stdin).close()
        self._server.wait(30)
        cast("IO[str]", self._server.stdout).close()

    def start(self, **order: str) -> int:
        """Starts a process; gives its pid."""
        return self._order(order)

    def wait(self, pid: int) -> int:
        """Waits for a process; gives its exit code, negative for a signal."""
        return self._order(pid)

    def poll(self, pid: int) -> int | None:
        """The exit code of a process that has ended; it must not be asked for again."""
        code = self._order(-pid)
        return None if code == 1000 else code

    def _order(self, order: object) -> int:
        stdin, stdout = cast("IO[str]", self._server.stdin), cast("IO[str]", self._server.stdout)
        stdin.write(f"{json.dumps(order)}\n")
        stdin.flush()
        return int(stdout.readline())


@final
class Killing:
    """Starts the program in processes of its own, and kills them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._forks = Forks("tests.kit.durable_program")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._forks.__exit__(*error)

    def start(self, store: str, run: str, seed: str, world: Path) -> int:
        """Starts a process that goes on with a run; gives its pid."""
        return self._forks.start(store=store, run=run, seed=seed, world=str(world))

    def wait(self, pid: int) -> int:
        """Waits for a process; gives its exit code, negative for a signal."""
        return self._forks.wait(pid)

    def run(self, store: str, seed: int) -> KilledRun:
        """One run, killed again and again until it has ended; what is asked is answered in between."""
        random, run = Random(seed), f"run-{seed}"
        world, runs = World(self.folder / f"{run}.world"), Runs.at(store)
        again: Counter[str] = Counter()
        kills = doubts = processes = 0
        code = -1
        while code != 0 and processes < _MOST:
            processes += 1
            pid = self.start(store, run, str(seed), world.path)
            if random.random() < _KILLED and processes < _MOST // 2:
                time.sleep(random.uniform(0, _SECONDS))
                os.kill(pid, signal.SIGKILL)
                kills += 1
            code = self.wait(pid)
            for question in open_questions(runs, run) if code in (WAITING, -signal.SIGKILL) else ():
                if random.random() < _ANSWERED:
                    reply = reply_to(question, world)
                    doubts += question.kind == "doubt"
                    again[key_of(question)] += reply.kind == "again"
                    fx.run(runs.answer(run, question.id, reply))
        expected = expect(self.folder / f"{run}.expected", str(seed))
        answers = list(world.count("answer"))
        faults = tuple(find_faults(world, again, kills))
        return KilledRun(answers[0] if answers else "", expected, kills, processes, doubts, faults)


def open_questions(runs: Runs, run: str) -> tuple[Question, ...]:
    """What is asked; nothing where the process was killed before the run was there."""
    return fx.run(runs.show(run).match(lambda _: (), lambda report: report.questions))


def key_of(question: Question) -> str:
    """What the world calls a call or a step: its parameters, or the run and the place of a parallel step."""
    if question.tool != "mail":
        return str(question.params)
    return f"{question.run}/{question.path.split('/')[2]}"


def reply_to(question: Question, world: World) -> Reply:
    """What a person knows: of a call in doubt, what the world says."""
    key = key_of(question)
    if question.kind == "approval":
        return Reply.deny("not today") if zlib.crc32(key.encode()) % 4 == 0 else Reply.approve()
    if question.kind == "result":
        return Reply.result(f"got {key}")
    ended = world.count(f"end-{question.tool}").get(key, 0)
    return Reply.result(f"{question.tool} {key}") if ended else Reply.again()


def expect(path: Path, seed: str) -> str:
    """The answer of the same program, never killed."""
    world, runs = World(path), Runs.in_process()
    while True:
        end: Any = fx.run_exit(program(world, runs, "run", seed))
        questions = fx.run(runs.show("run")).questions
        if not questions:
            return cast(str, end.value.text)
        for question in questions:
            fx.run(runs.answer("run", question.id, reply_to(question, world)))


def find_faults(world: World, again: Mapping[str, int], kills: int) -> list[str]:
    """What is not as it should be."""
    faults: list[str] = []
    for tool in ("pay", "wipe", "mail"):
        ends = world.count(f"end-{tool}")
        for key, begins in world.count(f"begin-{tool}").items():
            if ends.get(key, 0) != 1:
                faults.append(f"{tool} {key} ended {ends.get(key, 0)} times")
            if begins > 1 + again.get(key, 0):
                faults.append(f"{tool} {key} began {begins} times, and was said to run again {again.get(key, 0)} times")
    for key, n in world.count("turn").items():
        if n > 1 + kills + key.startswith(TWIN):  # two agents have this prompt
            faults.append(f"turn {key} was asked {n} times")
    faults += [what for what in world.count("failed") if what.startswith("swapped")]
    return faults
