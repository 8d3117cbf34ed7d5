"""A call whose arguments come in many pieces: from the bytes of the wire to the result of the handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Never

import msgspec
from returns.result import Result, Success

from fxai.effects import Effect, Layer, Stream, fx, runtime
from fxai.messages import AiError, Finish, Part, StreamPart, ToolCall, ToolParamsDelta, ToolParamsEnd, ToolParamsStart
from fxai.models import LanguageModel, ModelRequest
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand, wires
from tests.benchmarks.measure import FXAI, HAND, Budget, Measured, Work, measure

__all__ = ["Wire", "works"]

FEW = "200 deltas"
submit = Tool.make("submit", parameters=hand.Submission, success=dict[str, Any])
kit = Toolkit.make(submit)


def _on_submit(asked: hand.Submission) -> Result[dict[str, Any], Never]:
    return Success(hand.submit(asked))


class Wire(LanguageModel):
    """A model whose turn comes as bytes: read as a provider's adapter would, with the same decoder as by hand."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Nothing: this model only streams."""
        return fx.die(NotImplementedError("this model only streams"))

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The turn, delta by delta."""
        return Stream.from_async(self._read)

    async def _read(self) -> AsyncIterator[StreamPart]:
        arguments: list[str] = []
        async for chunk in hand.pieces(self._parts):
            for one in chunk.choices[0].delta.tool_calls or ():
                if one.id is not None:
                    yield ToolParamsStart("call_1", "submit")
                else:
                    delta = one.function.get("arguments", "")
                    arguments.append(delta)
                    yield ToolParamsDelta("call_1", delta)
        yield ToolParamsEnd("call_1")
        yield ToolCall("call_1", "submit", msgspec.json.decode("".join(arguments)))
        yield Finish("tool-calls")


def works() -> Iterator[Work | Measured]:
    """The cost of a delta, at 200, 2,000 and 8,000 of them."""
    loop = asyncio.new_event_loop()
    few = _contenders(loop.run_until_complete, 200)[FXAI]
    for deltas in (200, 2000, 8000):
        contenders = _contenders(loop.run_until_complete, deltas)
        budgets = [Budget(5, HAND)]
        if deltas > 200:
            contenders[FEW] = partial(_again, few, deltas // 200)
            budgets.append(Budget(1.3, FEW))
        yield Work(f"a delta, of {deltas:,}", contenders, deltas, tuple(budgets))
    yield from _over_http(loop.run_until_complete)
    loop.close()


def _over_http(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Iterator[Measured]:
    """The same through the whole layer of a provider, beside its official SDK's own helper."""
    for wire in wires.WIRES:
        few = wires.contenders(run, wire, 200)[FXAI]
        contenders = wires.contenders(run, wire, 2000)
        contenders[FEW] = partial(_again, few, 10)
        budgets = (Budget(1, wires.SDK), Budget(12, HAND), Budget(1.3, FEW))
        yield measure(Work(f"a delta of {wire} over HTTP, of 2,000", contenders, 2000, budgets), repetitions=5)


def _again(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def _contenders(run: Callable[[Coroutine[Any, Any, Any]], Any], deltas: int) -> dict[str, Callable[[], object]]:
    parts = hand.events(deltas)
    layer = kit.to_layer(submit.handler(_on_submit)) | Layer.succeed(LanguageModel, Wire(parts))
    served: Any = run(runtime(layer).__aenter__())
    reading = LanguageModel.stream_text("go", toolkit=kit).drain()
    decoder = msgspec.json.Decoder(hand.Submission)

    async def plain() -> None:
        hand.call(decoder, hand.submit, await hand.read(parts))

    return {FXAI: lambda: run(served.run(reading)), HAND: lambda: run(plain())}
