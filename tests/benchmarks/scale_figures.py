"""What grows with what, for the page about scale: `python -m tests.benchmarks.scale_figures [SECTION]`.

process: agent runs that wait for a model, all at once in one process: memory and CPU of each.
durable: durable runs of two turns and one call, in each store: CPU and time of each, and bytes in SQLite.
limits: reservations and their ends, in each store: CPU and time of both, with connections kept open and without.
queue: jobs of a work queue, submitted, run and read in one process, and calls on a queue over two workers: CPU and time
    of each, in each database; and what a worker takes that waits.
cluster: calls on a cluster: CPU of the program, the scheduler and the workers, by workers and by calls at once.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from returns.result import Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import Runs, durable
from fxai.effects import Effect, Gen, LayerOf, Scope
from fxai.models import Allowances, Limit, ModelInfo
from fxai.storage.allowance import Claim
from fxai.storage.work_queue import WorkQueue
from fxai.testing import ScriptedModel, call, delay, text
from tests.benchmarks.measure import slowness
from tests.kit.postgres import fresh_database, postgres_server

__all__ = ["FIGURES"]

add = Tool.make("add", parameters=int, success=int)
agent = Agent.make("clerk", toolkit=Toolkit.make(add))
live = add.handler(lambda number: Success(number + 1))
run = agent.execute("Add one to two.")


def _script(seconds: float = 0.0) -> LayerOf[LanguageModel]:
    first: Any = [delay(seconds), call("add", 2)] if seconds else call("add", 2)
    return ScriptedModel.make([first, text("Three.")]).layer


def process() -> None:
    """Runs at once in one process."""
    for number in (1_000, 5_000, 20_000):
        runs = fx.for_each(range(number), lambda _: run.provide(_script(5.0) | live), concurrency=None)
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
        fx.run(runs)
        after = resource.getrusage(resource.RUSAGE_SELF)
        memory = (after.ru_maxrss - before.ru_maxrss) / number
        print(
            f"{number:,} runs at once: {(time.process_time() - begun) / number * 1e3:.2f} ms CPU, {memory:.1f} kB each"
        )


def durability() -> None:
    """Durable runs, in each store, one after another and sixteen at once."""
    with TemporaryDirectory() as folder, postgres_server() as server:
        location = Path(folder) / "runs.db"
        stores = {
            "in process": Runs.in_process(),
            "SQLite": Runs.at(location),
            "PostgreSQL": Runs.at(fresh_database(server)),
        }
        for name, store in stores.items():
            for number, width in ((500, 1), (500, 16)):
                print(f"{name}, {width} at once: {_durable_runs(store, number, width)}", flush=True)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(f"SQLite: {size / 1_000 / 1e3:.1f} kB a run")
    begun = time.process_time()
    for _ in range(1_000):
        fx.run(run.provide(_script() | live))
    print(f"without a journal: {(time.process_time() - begun) / 1_000 * 1e3:.2f} ms CPU")


def _durable_runs(store: Runs, number: int, width: int) -> str:
    begun, wall = time.process_time(), time.monotonic()

    def one(at: int) -> Effect[object, object]:
        return run.provide(durable(_script() | live, run=f"{width}-{at}", store=store))

    fx.run(fx.for_each(range(number), one, concurrency=width))
    cpu, waited = (time.process_time() - begun) / number, (time.monotonic() - wall) / number
    return f"{cpu * 1e3:.1f} ms CPU of the program, {waited * 1e3:.1f} ms each"


def cluster() -> None:
    """Calls on a cluster."""
    from tests.benchmarks.cluster import spend

    for workers, number in ((1, 1), (1, 16), (1, 64), (2, 64), (4, 64), (2, 256)):
        (spent,) = spend(workers, number, [2_000 if number > 1 else 500])
        parts = ", ".join(f"{name} {seconds * 1e3:.2f}" for name, seconds in spent.items())
        print(f"{workers} workers, {number} calls at once: ms a call: {parts}", flush=True)


def limits() -> None:
    """What a limit of requests and tokens and a budget of money cost a request, in each store."""
    info = ModelInfo("openai", "m")
    rate, team = Limit.per_minute("key", requests=10**6, tokens=10**9), Limit.budget("team", money=10**6)
    with TemporaryDirectory() as folder, postgres_server() as server:
        stores = {
            "in process": Allowances.in_process(),
            "SQLite": Allowances.sqlite(Path(folder) / "limits.db"),
            "PostgreSQL": Allowances.postgres(fresh_database(server)),
        }
        for name, store in stores.items():
            keys = (rate.key("requests", info), 60.0), (rate.key("tokens", info), 60.0), (team.key("money"), None)
            claims = tuple(Claim(key, 100, 10**15, seconds) for key, seconds in keys)
            opened = _reservations(store, claims)
            with store.stay_open():
                kept = _reservations(store, claims)
            print(f"{name}: {opened}; with connections kept open {kept}", flush=True)


def _reservations(store: Allowances, claims: tuple[Claim, ...], number: int = 300) -> str:
    begun, wall = time.process_time(), time.monotonic()
    for at in range(number):
        store.reserve(f"{at}", claims, now=time.time())
        store.commit(f"{at}", claims, now=time.time())
    cpu, waited = (time.process_time() - begun) / number, (time.monotonic() - wall) / number
    return f"{cpu * 1e3:.2f} ms CPU, {waited * 1e3:.1f} ms each"


def queue() -> None:
    """Jobs that do nothing, which one process submits, runs and reads the results of, sixty-four at once."""
    with TemporaryDirectory() as folder, postgres_server() as server:
        locations = {"SQLite": str(Path(folder) / "jobs.db"), "PostgreSQL": fresh_database(server)}
        for name, location in locations.items():
            print(f"{name}: {fx.run(fx.scoped(_jobs(location, 500)))}", flush=True)
        from tests.benchmarks.cluster import idle_queue, spend_on_queue

        for name, location in locations.items():
            spent = spend_on_queue(location, 2, 64, 1_000)
            parts = ", ".join(f"{part} {seconds * 1e3:.2f}" for part, seconds in spent.items())
            print(f"{name}, calls over 2 workers, 64 at once: ms a call: {parts}", flush=True)
            print(f"{name}, a worker that waits: {idle_queue(location):.1%} of a core", flush=True)


@fx.gen
def _jobs(location: str, number: int) -> Gen[str, OSError, Scope]:
    jobs = yield from WorkQueue.open(location)
    yield from fx.fork(jobs.serve({"nothing": lambda job: fx.succeed(job.text)}, concurrency=64))

    def one(at: int) -> Effect[object, OSError]:
        return jobs.submit("nothing", f"{at}", "1").and_then(jobs.result(f"{at}"))

    begun, wall = time.process_time(), time.monotonic()
    yield from fx.for_each(range(number), one, concurrency=64)
    cpu, waited = (time.process_time() - begun) / number, (time.monotonic() - wall) / number
    return f"{cpu * 1e3:.1f} ms CPU, {waited * 1e3:.1f} ms each"


FIGURES = {"process": process, "durable": durability, "limits": limits, "queue": queue, "cluster": cluster}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or FIGURES:
        print(f"{chosen}, where CPU time is {slowness():.1f} times what it is on a quiet machine", flush=True)
        FIGURES[chosen]()
