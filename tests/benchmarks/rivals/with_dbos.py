"""The works of DBOS: a workflow of steps in a SQLite database."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.benchmarks.rivals.worker import Work, awaited, serve

dbos: Any = import_module("dbos")


def _start() -> Any:
    location = Path(mkdtemp()) / "dbos.sqlite"
    dbos.DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{location}", "log_level": "ERROR"})

    async def add(number: int) -> int:
        return number + 1

    step: Any = dbos.DBOS.step()(add)

    async def flow(steps: int) -> int:
        total = 0
        for _ in range(steps):
            total = await step(total)
        return total

    workflow: Any = dbos.DBOS.workflow()(flow)
    dbos.DBOS.launch()
    return workflow


def _flows(flow: Any, steps: int) -> Work:
    async def one() -> None:
        assert await flow(steps) == steps

    return awaited(one)


if __name__ == "__main__":
    started = _start()
    serve({"durable, 1 step": lambda: _flows(started, 1), "durable, 20 steps": lambda: _flows(started, 20)})
    dbos.DBOS.destroy()
