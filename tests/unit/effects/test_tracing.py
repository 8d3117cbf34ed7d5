"""The seam of tracing: what a tracer of anybody's is told, and that there need be none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest
from typing_extensions import override

from fxai import Agent
from fxai.effects import Effect, Layer, Operation, Tracer, fx
from fxai.testing import ScriptedModel, text


class Names(Tracer):
    """Writes down what it is told, with the way to it."""

    def __init__(self, told: list[str], way: str = "") -> None:
        self._warned = told
        self._way = way

    @override
    def trace(self, operation: Operation, effect: Any) -> Any:
        way = f"{self._way}/{getattr(operation, 'name', type(operation).__name__)}"
        self._warned.append(way)
        inner: Tracer = Names(self._warned, way)
        traced: Effect[Any, Any, Any] = effect.provide(Layer.succeed(Tracer, inner))
        return traced.on_exit(lambda _: fx.sync(lambda: self._warned.append("-")))

    @override
    def trace_stream(self, operation: Operation, opening: Any) -> Any:
        return self.trace(operation, opening)

    @override
    def activate(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        return awaitable

    @override
    def annotate(self, attributes: Mapping[str, Any]) -> None:
        self._warned.append(f"{self._way}: {dict(attributes)}")

    @override
    def link(self, carrier: Mapping[str, str]) -> None:
        self._warned.append(f"{self._way} is linked to {carrier['way']}")

    @override
    def inject(self) -> dict[str, str]:
        return {"way": self._way}

    @override
    def resume(self, carrier: Mapping[str, str], effect: Any) -> Any:
        inner: Tracer = Names(self._warned, carrier["way"])
        return effect.provide(Layer.succeed(Tracer, inner))


def _warned(program: Effect[Any, Any]) -> list[str]:
    told: list[str] = []
    tracer: Tracer = Names(told)
    fx.run_exit(program.provide(Layer.succeed(Tracer, tracer)))
    return told


def test_an_effect_is_told_of_when_it_runs() -> None:
    """Each time it runs, with what it holds inside, and not when it is made."""
    program = fx.annotate_span({"n": 1}).span("inner").span("outer")

    assert _warned(program.and_then(program)) == ["/outer", "/outer/inner", "/outer/inner: {'n': 1}", "-", "-"] * 2


def test_without_a_tracer_a_span_is_nothing() -> None:
    """It gives what the effect gives, fails as it does, and needs no event loop."""
    assert fx.run_sync(fx.succeed(1).span("one", key="value")) == 1
    assert fx.run_exit(fx.fail("no").span("one")) == fx.run_exit(fx.fail("no"))
    assert fx.run_sync(fx.annotate_span({"n": 1})) is None


def test_a_run_of_an_agent_tells_of_itself() -> None:
    """Its requests and its calls, to any tracer."""
    agent = Agent.make("clerk", model=ScriptedModel.make([text("Good day.")]).layer)

    assert _warned(agent.execute("Hello.")) == ["/ModelCall", "-"]


def test_an_effect_that_is_awaited_is_refused_where_it_is_traced() -> None:
    """As it is where it is not: `fx.wait` takes what is no effect."""
    wrong: Any = fx.succeed(1)
    waits: Effect[Any] = fx.wait(lambda: wrong)

    with pytest.raises(TypeError, match="must get an awaitable, got an effect"):
        fx.run(waits.provide(Layer.succeed(Tracer, Names([]))))


def test_nothing_of_opentelemetry_is_imported_where_nothing_is_traced() -> None:
    """Neither by the package, nor by the room of telemetry, nor by a run with spans."""
    code = (
        "import sys; from fxai import Agent, fx, telemetry; from fxai.testing import ScriptedModel, text;"
        "agent = Agent.make('clerk', model=ScriptedModel.make([text('Good day.')]).layer);"
        "fx.run(agent.execute('Hello.').span('hello'));"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_telemetry_without_its_extra_says_what_to_install() -> None:
    """Where OpenTelemetry is not to be had, `layer` names the extra."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None; from fxai import telemetry\n"
        "try: telemetry.layer()\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "pip install 'fxai[otel]'" in done.stdout
