"""Tracing: what it costs where there is no tracer, beside a program that looks for none, and where there is one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from fxai.effects import Effect, Layer, fx, runtime
from fxai.telemetry import layer
from tests.benchmarks.measure import FXAI, Budget, Work
from tests.benchmarks.scripted import Turns, agent_of, layer_of

__all__ = ["works"]

OFF, PLAIN, DROPPED, KEPT, BLIND = "not traced", "no span", "not sampled", "kept in memory", "without the look"
ROUNDS, TIMES, EFFECTS = 10, 30, 1000


def works() -> Iterator[Work]:
    """Spans that nobody sees, spans that are recorded, and runs of an agent either way."""
    loop = asyncio.new_event_loop()
    one: Effect[int] = fx.sync(lambda: 1)
    spanned = one.span("one", key="value")
    off = {FXAI: lambda: fx.run_sync(_many(spanned)), PLAIN: lambda: fx.run_sync(_many(one))}
    yield Work("an effect in a span, not traced", off, EFFECTS, (Budget(2.5, PLAIN),))
    with_tracer = _many(spanned).provide(_layer(TracerProvider()))
    yield Work("an effect in a span, traced", {FXAI: lambda: fx.run_sync(with_tracer), **off_of(spanned)}, EFFECTS)
    unseen = _runs(loop, None)
    looks = {FXAI: unseen, BLIND: _blindly(unseen)}
    yield Work("a round of 10, of an agent, not traced", looks, ROUNDS * TIMES, (Budget(1.05, BLIND),))
    contenders = {
        FXAI: _runs(loop, _layer(TracerProvider())),
        KEPT: _runs(loop, _layer(_keeping())),
        DROPPED: _runs(loop, _layer(TracerProvider(sampler=ALWAYS_OFF))),
        OFF: unseen,
    }
    yield Work("a round of 10, of an agent, traced", contenders, ROUNDS * TIMES)
    loop.close()


def off_of(spanned: Effect[int]) -> dict[str, Callable[[], object]]:
    """The same effects without a tracer."""
    return {OFF: lambda: fx.run_sync(_many(spanned))}


def _blindly(run: Callable[[], object]) -> Callable[[], object]:
    """The same with requests that look for no tracer, as if there were no telemetry."""
    asking: Any = vars(sys.modules["fxai.models.model_request"])["_Asking"]

    def ask(self: Any, services: object) -> Any:
        del services
        return self.model.ask(self.request)

    def blind() -> None:
        known = asking.f
        asking.f = ask
        try:
            run()
        finally:
            asking.f = known

    return blind


def _keeping() -> TracerProvider:
    """A provider that keeps the spans, as a test does."""
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider


def _many(one: Effect[int]) -> Effect[list[int]]:
    return fx.for_each(range(EFFECTS), lambda _: one)


def _layer(provider: TracerProvider) -> Layer[Any]:
    """Of a provider that makes spans and exports none: what is measured is ours and the SDK's."""
    return layer(tracer_provider=provider, meter_provider=MeterProvider())


def _runs(loop: asyncio.AbstractEventLoop, tracing: Layer[Any] | None) -> Callable[[], object]:
    agent = agent_of(ROUNDS)
    needed: Any = layer_of(Turns(ROUNDS))
    built = runtime(needed if tracing is None else needed | tracing)
    served: Any = loop.run_until_complete(built.__aenter__())

    async def go() -> None:
        for _ in range(TIMES):
            await served.run(agent.execute("go"))

    return lambda: loop.run_until_complete(go())
