"""What grows with what, for the page about scale: `python -m tests.benchmarks.scale_figures [process|durable|cluster]`.

process: agent runs that wait for a model, all at once in one process: memory and CPU of each.
durable: durable runs of two turns and one call, one after another, in SQLite: CPU and bytes of each.
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

from fxai import Agent, Tool, Toolkit, fx
from fxai.durable import durable
from fxai.effects import LayerOf
from fxai.testing import ScriptedModel, call, delay, text

__all__ = ["FIGURES"]

add = Tool.make("add", parameters=int, success=int)
agent = Agent.make("clerk", toolkit=Toolkit.make(add))
live = add.handler(lambda number: Success(number + 1))
run = agent.execute("Add one to two.")


def _script(seconds: float = 0.0) -> LayerOf[Any]:
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
    """Durable runs, one after another."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "runs.db"
        for number in (200, 1_000):
            begun, wall = time.process_time(), time.monotonic()
            for one in range(number):
                fx.run(run.provide(durable(_script() | live, run=f"{number}-{one}", store=place)))
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            print(
                f"{number:,} durable runs: {(time.process_time() - begun) / number * 1e3:.2f} ms CPU, "
                f"{(time.monotonic() - wall) / number * 1e3:.2f} ms each; {size / 1e3:.0f} kB in all"
            )
        begun = time.process_time()
        for _ in range(1_000):
            fx.run(run.provide(_script() | live))
        print(f"the same without a journal: {(time.process_time() - begun) / 1_000 * 1e3:.2f} ms CPU")


def cluster() -> None:
    """Calls on a cluster."""
    from tests.benchmarks.cluster import spend

    for workers, number in ((1, 1), (1, 16), (1, 64), (2, 64), (4, 64), (2, 256)):
        (spent,) = spend(workers, number, [2_000 if number > 1 else 500])
        parts = ", ".join(f"{name} {seconds * 1e3:.2f}" for name, seconds in spent.items())
        print(f"{workers} workers, {number} calls at once: ms a call: {parts}", flush=True)


FIGURES = {"process": process, "durable": durability, "cluster": cluster}


if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
