"""Durable runs whose handlers are on a cluster or a queue, where program, worker or scheduler is killed by SIGKILL.

All processes are forked from one that has imported what they need: `python -m tests.kit.cluster_killing`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, Self, TypeAlias, cast, final

from distributed import Scheduler

from fxai.cli import main
from fxai.distributed import Cluster, distribute
from fxai.durable import Runs
from fxai.effects import Exit, Succeeded, fx
from tests.kit.cluster_desk import WORLD, desk
from tests.kit.durable_program import WAITING, World, program, serve
from tests.kit.killing import Forks, KilledRun, expect, find_faults, key_of, open_questions, reply_to

__all__ = ["ClusterKilling"]

Victim: TypeAlias = Literal["program", "worker", "scheduler"]

_VICTIMS: Final[tuple[Victim, ...]] = ("program", "worker", "scheduler")
_AGAIN: Final = 5  # the exit code of a program that is to be run again
_MOST = 40  # processes for one run
_KILLED = 0.75  # of the processes
_ANSWERED = 0.9  # of the questions, each time
_SECONDS = 0.6  # about as long as a process needs for a whole run
_PATIENCE = 60.0
_TARGET = "tests.kit.cluster_desk:desk"


_ = import_module("dbos")  # once for all that are forked


@final
class ClusterKilling:
    """A cluster of a scheduler and two workers, or two workers of a queue, and programs on it."""

    def __init__(self, folder: Path, queue: str | None = None) -> None:
        self.folder = folder
        self._queue = queue  # where it is; None: a cluster of Dask
        self._victims = _VICTIMS if queue is None else _VICTIMS[:2]
        self._world = World(folder / "workers.world")  # of all handlers of all runs
        self._again: Counter[str] = Counter()
        self._forks = Forks("tests.kit.cluster_killing")
        self._scheduler = 0
        self._address = ""
        self._workers: list[int] = []
        self._orphans: list[int] = []  # workers whose scheduler was killed
        self._starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for pid in (*self._orphans, *self._workers, self._scheduler):
            if pid:
                os.kill(pid, signal.SIGKILL)
                self._forks.wait(pid)
        self._forks.__exit__(*error)

    def run(self, seed: int) -> tuple[KilledRun, Counter[Victim]]:
        """One run, in which processes are killed until it has ended; what is asked is answered in between."""
        random, run, store = Random(seed), f"run-{seed}", str(self.folder / "runs.db")
        store = store if self._queue is None or "://" not in self._queue else self._queue
        world, runs = World(self.folder / f"{run}.world"), Runs.at(store)
        killed: Counter[Victim] = Counter()
        doubts = processes = 0
        code = _AGAIN
        faults: list[str] = []
        while code in (_AGAIN, WAITING, -signal.SIGKILL) and processes < _MOST:
            processes += 1
            self._renew()
            pid = self._forks.start(
                kind="program",
                store=store,
                run=run,
                seed=str(seed),
                world=str(world.path),
                address=self._address,
                queue=self._queue or "",
            )
            if random.random() < _KILLED and processes < _MOST // 2:
                time.sleep(random.uniform(0, _SECONDS))
                victim = self._choose(random, seed, is_first=not killed)
                killed[victim] += 1
                self._kill(victim, pid, random)
            code = self._end(pid)
            self._await_handlers(faults)
            for question in open_questions(runs, run):
                if random.random() < _ANSWERED:
                    reply = reply_to(question, world if question.tool == "mail" else self._world)
                    doubts += question.kind == "doubt"
                    self._again[key_of(question)] += reply.kind == "again"
                    fx.run(runs.answer(run, question.id, reply))
        answers, failed = list(world.count("answer")), list(world.count("failed"))
        faults += [] if code == 0 else [f"the program ended with {code}: {failed[-1:]}"]
        faults += find_faults(self._world, self._again, 0)
        own = find_faults(world, self._again, killed.total() + processes)  # of the program: its turns and steps
        faults += [fault for fault in own if fault.startswith(("turn", "mail", "swapped"))]
        expected = expect(self.folder / f"{run}.expected", str(seed))
        answer = answers[0] if answers else ""
        return KilledRun(answer, expected, killed.total(), processes, doubts, tuple(faults)), killed

    def _choose(self, random: Random, seed: int, *, is_first: bool) -> Victim:
        weights = [3, 3, 1][: len(self._victims)]
        return self._victims[seed % len(weights)] if is_first else random.choices(self._victims, weights)[0]

    def end_orphans(self) -> None:
        """Waits until the workers of schedulers that were killed have ended by themselves."""
        while self._orphans:
            self._end(self._orphans[-1])
            self._orphans.pop()

    # -- processes

    def _renew(self) -> None:
        """Starts what is missing of the cluster; the workers of a scheduler that was killed end by themselves."""
        if self._queue is not None:
            self._address = self._queue
        elif self._scheduler == 0:
            self._orphans += self._workers
            self._workers = []
            self._starts += 1
            location = self.folder / f"scheduler-{self._starts}"
            self._scheduler = self._forks.start(kind="scheduler", location=str(location))
            _until(location.exists, "a scheduler has begun")
            self._address = location.read_text()
        while len(self._workers) < 2:
            log = str(self.folder / "workers.log")
            order = {"kind": "worker", "address": self._address, "world": str(self._world.path), "log": log}
            order["queue"] = self._queue or ""
            self._workers.append(self._forks.start(**order))

    def _kill(self, victim: Victim, program: int, random: Random) -> None:
        pid = {"program": program, "worker": random.choice(self._workers), "scheduler": self._scheduler}[victim]
        os.kill(pid, signal.SIGKILL)
        if victim == "worker":
            self._forks.wait(pid)
            self._workers.remove(pid)
        elif victim == "scheduler":
            self._forks.wait(pid)
            self._scheduler = 0

    def _end(self, pid: int) -> int:
        """The exit code of a process that ends by itself."""
        codes: list[int] = []

        def has_ended() -> bool:
            code = self._forks.poll(pid)
            codes.extend([] if code is None else [code])
            return bool(codes)

        _until(has_ended, f"the process {pid} has ended")
        return codes[0]

    def _await_handlers(self, faults: list[str]) -> None:
        """Waits until no handler runs any more: those whose program is gone are cancelled on their workers."""

        def running() -> Counter[str]:
            begun, over = self._world.count("on"), self._world.count("off")
            left = Counter(begun) - Counter(over)
            return Counter({location: n for location, n in left.items() if _lives(int(location.partition(" ")[0]))})

        try:
            _until(lambda: not running(), "no handler runs")
        except TimeoutError:
            faults.append(f"handlers go on without their program: {running()}")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"after {_PATIENCE} s it does not hold that {what}")
        time.sleep(0.01)


# -- in a process of its own


def _run(order: dict[str, str]) -> int:
    roles = {"scheduler": _run_scheduler, "worker": _run_worker, "program": _run_program}
    return roles[order["kind"]](order)


def _run_scheduler(order: Mapping[str, str]) -> int:
    logging.disable(logging.CRITICAL)

    async def run() -> None:
        made: Any = cast(Any, Scheduler)(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")
        async with made as scheduler:
            location = Path(order["location"])
            location.with_suffix(".new").write_text(scheduler.address)
            location.with_suffix(".new").rename(location)
            await scheduler.finished()

    asyncio.run(run())
    return 0


def _run_worker(order: Mapping[str, str]) -> int:
    os.environ[WORLD] = order["world"]
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["fxai", "worker", *(["--queue"] if order["queue"] else []), order["address"], _TARGET]
    with suppress(SystemExit):
        main()
    return 0


def _run_program(order: Mapping[str, str]) -> int:
    logging.disable(logging.CRITICAL)
    world = World(Path(order["world"]))
    queue, address = order["queue"], order["address"]
    there = Cluster.queue_layer(queue) if queue else Cluster.layer(address, seconds=1.0)
    live = distribute(desk, _TARGET, wait=10).provide(there)
    made = program(world, Runs.at(order["store"]), order["run"], order["seed"], live)
    end: Exit[Any, Any] = fx.run_exit(made)
    if isinstance(end, Succeeded):
        if end.value.ended == "pending":
            return WAITING
        world.note("answer", end.value.text)
        return 0
    world.note("failed", repr(end.cause))
    kinds = {type(failure).__name__ for failure in end.cause.failures}
    if kinds and kinds <= {"RunWaiting", "OutcomeUnknown", "HandlerUnavailable", "ClusterUnavailable"}:
        return _AGAIN if kinds & {"HandlerUnavailable", "ClusterUnavailable"} else WAITING
    return 1


if __name__ == "__main__":
    serve(_run)
