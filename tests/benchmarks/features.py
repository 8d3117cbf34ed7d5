"""A step with a feature beside a step without it: guards, a record, an inbox, tool search, and a typed stream.

The section also prints how often the tool search finds the right tool among the first five.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec

from fxai.agents import Inbox, RunRecord, ToolSearch
from fxai.effects import Effect, Layer, Stream, fx, runtime
from fxai.guards import Guard
from fxai.messages import AiError, Finish, Part, StreamPart, TextDelta, TextEnd, TextStart
from fxai.models import LanguageModel, ModelRequest
from fxai.tools.tool_index import ToolIndex
from tests.benchmarks.measure import FXAI, Budget, Work
from tests.benchmarks.scripted import Turns, agent_of, layer_of
from tests.kit.tool_requests import LARGE, MANY, large_server, many_servers, recall

__all__ = ["works"]

WITHOUT, FEW = "without", "1,000 deltas"
ROUNDS, TIMES = 10, 20
Run = Callable[[Coroutine[Any, Any, object]], object]


def works() -> Iterator[Work]:
    """The cost of a step of a run, of a search, and of a delta."""
    loop = asyncio.new_event_loop()
    run: Run = loop.run_until_complete
    options: dict[str, tuple[dict[str, Any], float]] = {
        "a guard of the model": ({"guard": Guard.make("model", before_model=_allow, after_model=_allow)}, 2),
        "a guard of the tools": ({"guard": Guard.make("tools", before_tool=_allow, after_tool=_allow)}, 2),
        "a record of the run": ({"records": True}, 2.5),
        "an empty inbox": ({"inbox": True}, 1.2),
        "tool search, 344 tools": ({"searches": True}, 2.2),
    }
    for name, (option, ratio) in options.items():
        yield Work(f"a step with {name}", _steps(run, **option), ROUNDS * TIMES, (Budget(ratio, WITHOUT),))
    yield from _searches()
    yield from _deltas(run)
    loop.close()


def _allow(*_: object) -> None:
    """Allow what a guard judges."""


def _steps(
    run: Run, *, guard: Guard[Any] | None = None, inbox: bool = False, searches: bool = False, records: bool = False
) -> dict[str, Callable[[], object]]:
    layer: Any = layer_of(Turns(ROUNDS))
    agent: Any = agent_of(ROUNDS)
    if searches:
        layer |= Layer.merge_all(*[tool.handler(lambda _: fx.succeed(None)) for tool in large_server()])
        agent = agent.with_tools(*large_server())
    option = ToolSearch(always=("forecast",)) if searches else None
    featured = msgspec.structs.replace(agent, tool_search=option)
    full = layer | Inbox.in_process().layer if inbox else layer
    full = full if guard is None else guard.wrap(full)

    def contender(agent: Any, layer: Any, *, records: bool = False) -> Callable[[], object]:
        built = runtime(layer)
        served: Any = run(built.__aenter__())

        async def work() -> None:
            for _ in range(TIMES):
                answer = await served.run(agent.execute("go"))
                if records:
                    RunRecord.of(answer)

        return lambda: run(work())

    return {FXAI: contender(featured, full, records=records), WITHOUT: contender(agent, layer)}


def _searches() -> Iterator[Work]:
    for name, tools, requests in (("344", large_server(), LARGE), ("99", many_servers(), MANY)):
        index = ToolIndex(tools)
        found = [[tool.name for tool in index.search(query, 5)] for query, _ in requests]
        print(f"recall at 5 of {name} tools: {recall(found, requests)} of {len(requests)} requests")
        yield Work(f"an index of {name} tools", {FXAI: _indexing(tools)}, budgets=(Budget(0, plus=0.3),))
        yield Work(f"a search of {name} tools", {FXAI: _searching(index, requests)}, len(requests))


def _indexing(tools: tuple[Any, ...]) -> Callable[[], object]:
    return lambda: ToolIndex(tools)


def _searching(index: ToolIndex, requests: tuple[tuple[str, str], ...]) -> Callable[[], object]:
    return lambda: [index.search(query, 5) for query, _ in requests]


class Item(msgspec.Struct):
    """An element of the streamed list."""

    name: str
    size: int


class Pieces(LanguageModel):
    """A model that streams a text in pieces of four characters."""

    def __init__(self, deltas: int) -> None:
        text = json.dumps([{"name": f"item {number}", "size": number} for number in range(deltas // 8)])
        self._parts = [TextDelta("0", text[at : at + 4]) for at in range(0, len(text), 4)]
        self.pieces = len(self._parts)

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Nothing: this model only streams."""
        return fx.die(NotImplementedError("this model only streams"))

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The turn, delta by delta."""
        return Stream.from_iterable([TextStart("0"), *self._parts, TextEnd("0"), Finish("stop")])


def _deltas(run: Run) -> Iterator[Work]:
    few = _streams(run, Pieces(1_000))[FXAI]
    for deltas in (1_000, 8_000):
        model = Pieces(deltas)
        contenders = _streams(run, model)
        if deltas > 1_000:
            contenders[FEW] = lambda: [few() for _ in range(8)]
        budgets = (Budget(1.3, FEW),) if deltas > 1_000 else ()
        yield Work(f"a delta of a typed list, of {deltas:,}", contenders, model.pieces, budgets)


def _streams(run: Run, model: Pieces) -> dict[str, Callable[[], object]]:
    served: Any = run(runtime(Layer.succeed(LanguageModel, model)).__aenter__())
    typed, plain = LanguageModel.stream_object("go", list[Item]).drain(), LanguageModel.stream_text("go").drain()
    return {FXAI: lambda: run(served.run(typed)), WITHOUT: lambda: run(served.run(plain))}
