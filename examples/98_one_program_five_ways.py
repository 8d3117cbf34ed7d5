"""Run one program in five ways with different layers: in process, durable, on a cluster, both, and both with traces.

The toolkit, the agent, and the program are written once. Each way is another layer of the same services. On a cluster,
other processes import this file and build `desk`. The cluster is a layer too: a cluster of Dask, or a queue in a
database. Calls in a queue survive every process. Install the extras `distributed`, `durable`, and `otel`, and run
`python examples/98_one_program_five_ways.py`. The model is scripted, so the program needs no network and no key.
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

from fxai import Agent, BoundToolkit, Gen, HandlerOf, LanguageModel, Tool, Toolkit, fx, telemetry
from fxai.agents import Answer, RunError
from fxai.annotations import Readonly
from fxai.distributed import Cluster, ClusterUnavailable, distribute
from fxai.durable import DurableFailure, durable
from fxai.effects import EffectOf, LayerOf
from fxai.testing import ScriptedModel, call


class Line(msgspec.Struct, frozen=True):
    """A number of pieces of an item."""

    item: str
    pieces: int


class Receipt(msgspec.Struct, frozen=True):
    """The paid amount, and the process that paid it."""

    cents: int
    process: int


class SoldOut(msgspec.Struct, frozen=True):
    """The item is sold out."""

    item: str


# -- the program: tools, an agent, and a prompt

price = Tool.make(
    "price", description="What a line costs.", parameters=Line, success=int, failure=SoldOut, failure_mode="return"
).annotate(Readonly, True)
pay = Tool.make("pay", description="Pays so many cents.", parameters=int, success=Receipt)
kit = Toolkit.make(price, pay)

Services: TypeAlias = HandlerOf[Line, int, SoldOut] | HandlerOf[int, Receipt, Never] | LanguageModel
program = Agent.make("clerk", toolkit=kit).execute("Two teas and a coffee, please.")


# -- the handlers, independent of the process

CENTS = {"tea": 250}


def on_price(line: Line) -> Result[int, SoldOut]:
    """Look up the price of a line."""
    return Success(CENTS[line.item] * line.pieces) if line.item in CENTS else Failure(SoldOut(line.item))


def on_pay(cents: int) -> Result[Receipt, Never]:
    """Pay an amount."""
    return Success(Receipt(cents, os.getpid()))


desk = BoundToolkit.of(kit, kit.to_layer(price.handler(on_price) | pay.handler(on_pay)))


# -- five layers of the same services

Way: TypeAlias = LayerOf[Services, DurableFailure | ClusterUnavailable, Cluster | None]


def script() -> LayerOf[LanguageModel]:
    """Return a scripted model with calls of `price` and `pay` and an answer."""
    asked = [call("price", {"item": "tea", "pieces": 2}), call("price", {"item": "coffee", "pieces": 1})]
    return ScriptedModel.make([asked, call("pay", 500), "Two teas are paid; there is no coffee."]).layer


TARGET = f"{Path(__file__).stem}:desk"  # other processes import it


def ways(runs: Path, provider: TracerProvider) -> dict[str, Way]:
    """Return the layer of each way by its name. A file stores the journals, and the provider receives the spans."""
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
    """Run the program, whose type is the same with each layer."""
    ran = program.provide(way)
    ran = assert_type(ran, EffectOf[Answer, RunError | DurableFailure | ClusterUnavailable, Cluster | None])
    answer = yield from ran
    receipt = next(result.result for step in answer.steps for result in step.results if result.name == "pay")
    assert isinstance(receipt, Receipt)
    where = "this process" if receipt.process == os.getpid() else "a worker"
    print(f"{name}: {answer.text} Paid {receipt.cents} cents in {where}.")


def outline(memory: InMemorySpanExporter) -> None:
    """Print the nested spans."""
    depth: dict[int, int] = {}
    for span in sorted(memory.get_finished_spans(), key=lambda span: span.start_time or 0):
        own = 0 if span.context is None else span.context.span_id
        depth[own] = depth[span.parent.span_id] + 1 if span.parent else 1
        print("  " * depth[own] + span.name)


@contextmanager
def worker(queue: Path) -> Generator[None]:
    """Run a worker of a queue during the block. In a shell, use `fxai worker --queue …`."""
    command = [sys.executable, "-m", "fxai", "worker", "--queue", str(queue), TARGET]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Run the five ways with a cluster of two processes, and one way again with a queue and one worker."""
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
