"""Runs of the durable program that are killed, by SIGKILL, at moments that a seed chooses, until they have ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import IO, Any, Self, cast, final

import msgspec

from fxai import fx
from fxai.durable import Reply, RunQuestion, Runs
from tests.kit.durable_program import CHANGED, TWIN, WAITING, World, program
from tests.kit.source import ROOT

__all__ = ["Forks", "KilledRun", "Killing", "expect", "find_faults", "key_of", "open_questions", "reply_to"]

_MOST = 60  # processes for one run
_KILLED = 0.6  # of the processes
_ANSWERED = 0.9  # of the questions, each time
_CHANGED = 0.2  # of the processes, after which a program with another prompt tries to continue the run
_RESTARTS = 3  # of the store, for one run
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

    def start(self, store: str, run: str, seed: str, world: Path, *, changed: str = "") -> int:
        """Start a process that continues a run, and return its pid. If `changed`, the program has another prompt."""
        return self._forks.start(store=store, run=run, seed=seed, world=str(world), changed=changed)

    def wait(self, pid: int) -> int:
        """Waits for a process; gives its exit code, negative for a signal."""
        return self._forks.wait(pid)

    def run(self, store: str, seed: int, restart: Callable[[], None] | None = None) -> KilledRun:
        """One run, killed again and again until it has ended; what is asked is answered in between.

        Programs with another prompt try to continue it. The store may restart in the middle.
        """
        random, run = Random(seed), f"run-{seed}"
        world, runs = World(self.folder / f"{run}.world"), Runs.at(store)
        again: Counter[str] = Counter()
        kills = doubts = processes = restarts = 0
        code = -1
        refused: list[str] = []
        while code != 0 and processes < _MOST:
            processes += 1
            pid = self.start(store, run, str(seed), world.path)
            restarting = threading.Timer(random.uniform(0, _SECONDS), restart or bool)
            if restart is not None and restarts < _RESTARTS:
                restarts += 1
                restarting.start()
            if random.random() < _KILLED and processes < _MOST // 2:
                time.sleep(random.uniform(0, _SECONDS))
                os.kill(pid, signal.SIGKILL)
                kills += 1
            code = self.wait(pid)
            if restarting.ident is not None:
                restarting.join()
            if random.random() < _CHANGED or code == 0:
                refused += self._change(store, run, str(seed), world)
            for question in open_questions(runs, run) if code in (WAITING, -signal.SIGKILL) else ():
                if random.random() < _ANSWERED:
                    reply = reply_to(question, world)
                    doubts += question.kind == "doubt"
                    again[key_of(question)] += reply.kind == "again"
                    fx.run(runs.answer(run, question.id, reply))
        expected = expect(self.folder / f"{run}.expected", str(seed))
        answers = list(world.count("answer"))
        faults = (*find_faults(world, again, kills), *refused)
        return KilledRun(answers[0] if answers else "", expected, kills, processes, doubts, faults)

    def _change(self, store: str, run: str, seed: str, world: World) -> list[str]:
        """Return how a program with another prompt ended, if the run has the prompt and does not refuse the program."""
        report = fx.run(Runs.at(store).show(run).result()).value_or(None)
        if report is None or not any(step.path.startswith("/main/") for step in report.steps):
            return []
        before = world.path.read_bytes().count(b"begin-")
        code = self.wait(self.start(store, run, seed, world.path, changed="yes"))
        after = world.path.read_bytes().count(b"begin-")
        return [] if (code, after) == (CHANGED, before) else [f"a changed program ended with {code}, {after - before}"]


def open_questions(runs: Runs, run: str) -> tuple[RunQuestion, ...]:
    """What is asked; nothing where the process was killed before the run was there."""
    return fx.run(runs.show(run).match(lambda _: (), lambda report: report.questions))


def key_of(question: RunQuestion) -> str:
    """What the world calls a call or a step: its parameters, or the run and the place of a parallel step."""
    if question.tool != "mail":
        return str(question.params)
    return f"{question.run}/{question.path.split('/')[2]}"


def reply_to(question: RunQuestion, world: World) -> Reply:
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
