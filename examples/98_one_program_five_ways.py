"""One program, run five ways by layers alone: in process, durable, on a cluster, both, and both with traces.

The toolkit, the agent and the program are written once. What changes is the layer that is provided, and each of the
five is a layer of the same services. On a cluster, other processes import this file and build `desk` there. Which
cluster that is, is a layer too: of Dask, or, in the end, a queue in a database, whose calls survive every process.
Run it: `python examples/98_one_program_five_ways.py` (it needs the extras `distributed`, `durable` and `otel`). The
model is a script: no network and no key.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Never, TypeAlias, assert_type

import msgspec
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from returns.result import Failure, Result, Success

from fxai import Agent, BoundToolkit, EffectOf, Gen, HandlerOf, LanguageModel, LayerOf, Tool, Toolkit, fx, telemetry
from fxai.agents import Answer, RunError
from fxai.annotations import Readonly
from fxai.distributed import Cluster, ClusterUnavailable, distribute
from fxai.durable import DurableFailure, durable
from fxai.testing import ScriptedModel, call


class Line(msgspec.Struct, frozen=True):
    """So many of an item."""

    item: str
    pieces: int


class Receipt(msgspec.Struct, frozen=True):
    """What was paid, and in which process."""

    cents: int
    process: int


class SoldOut(msgspec.Struct, frozen=True):
    """There is none left."""

    item: str


# -- the program: tools, an agent, what it is asked

price = Tool.make(
    "price", description="What a line costs.", parameters=Line, success=int, failure=SoldOut, failure_mode="return"
).annotate(Readonly, True)
pay = Tool.make("pay", description="Pays so many cents.", parameters=int, success=Receipt)
kit = Toolkit.make(price, pay)

Services: TypeAlias = HandlerOf[Line, int, SoldOut] | HandlerOf[int, Receipt, Never] | LanguageModel
program = Agent.make("clerk", toolkit=kit).execute("Two teas and a coffee, please.")


# -- its handlers, which know nothing of where they run

CENTS = {"tea": 250}


def on_price(line: Line) -> Result[int, SoldOut]:
    """Looks the price up."""
    return Success(CENTS[line.item] * line.pieces) if line.item in CENTS else Failure(SoldOut(line.item))


def on_pay(cents: int) -> Result[Receipt, Never]:
    """Pays."""
    return Success(Receipt(cents, os.getpid()))


desk = BoundToolkit.of(kit, kit.to_layer(price.handler(on_price) | pay.handler(on_pay)))


# -- five layers of the same services

Way: TypeAlias = LayerOf[Services, DurableFailure | ClusterUnavailable, Cluster | None]


def script() -> LayerOf[LanguageModel]:
    """A model that asks for prices, pays, and says so."""
    asked = [call("price", {"item": "tea", "pieces": 2}), call("price", {"item": "coffee", "pieces": 1})]
    return ScriptedModel.make([asked, call("pay", 500), "Two teas are paid; there is no coffee."]).layer


TARGET = f"{Path(__file__).stem}:desk"  # what other processes import


def ways(runs: Path, provider: TracerProvider) -> dict[str, Way]:
    """Each way by its name; the journals of runs are in a file, and spans go to the provider."""
    here = desk.layer
    there = distribute(desk, TARGET)
    return {
        "in process": here | script(),
        "durable": durable(here | script(), run="durable", store=runs),
        "on a cluster": there | script(),
        "durable, on a cluster": durable(there | script(), run="both", store=runs),
        "with traces": telemetry.trace(durable(there | script(), run="traced", store=runs), tracer_provider=provider),
    }


@fx.gen
def show(name: str, way: Way) -> Gen[None, RunError | DurableFailure | ClusterUnavailable, Cluster]:
    """Runs the program, which has the same type under each layer."""
    ran = program.provide(way)
    ran = assert_type(ran, EffectOf[Answer, RunError | DurableFailure | ClusterUnavailable, Cluster | None])
    answer = yield from ran
    receipt = next(result.result for step in answer.steps for result in step.results if result.name == "pay")
    assert isinstance(receipt, Receipt)
    where = "this process" if receipt.process == os.getpid() else "a worker"
    print(f"{name}: {answer.text} Paid {receipt.cents} cents in {where}.")


def outline(memory: InMemorySpanExporter) -> None:
    """Prints the spans as they are nested."""
    depth: dict[int, int] = {}
    for span in sorted(memory.get_finished_spans(), key=lambda span: span.start_time or 0):
        own = 0 if span.context is None else span.context.span_id
        depth[own] = depth[span.parent.span_id] + 1 if span.parent else 1
        print("  " * depth[own] + span.name)


@contextmanager
def worker(queue: Path) -> Generator[None]:
    """A process that runs the calls of a queue, for the time of the block; in a shell, `fxai worker --queue …`."""
    command = [sys.executable, "-m", "fxai", "worker", "--queue", str(queue), TARGET]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """The five, beside one cluster of two processes; and the fourth once more, beside a queue of one worker."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with TemporaryDirectory() as folder, worker(Path(folder) / "calls.db"):
        each = ways(Path(folder) / "runs.db", provider).items()
        shown = fx.for_each(each, lambda way: show(*way), concurrency=1)
        fx.run(shown.provide(Cluster.local_layer(workers=2, threads=4)))
        queued = ways(Path(folder) / "queued.db", provider)["durable, on a cluster"]
        fx.run(show("durable, on a queue", queued).provide(Cluster.queue_layer(Path(folder) / "calls.db")))
    outline(memory)


if __name__ == "__main__":
    main()
