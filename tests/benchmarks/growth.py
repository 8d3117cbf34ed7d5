"""Growth: works whose price must not depend on how much came before, or on how much runs at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from returns.result import Success

from fxai.effects import Gen, fx
from fxai.messages import AssistantMessage, Finish, Prompt, Text, ToolCallPart, ToolMessage, ToolResultPart, Usage
from fxai.models import Allowances, LanguageModel, Limit, ModelRequest, limit
from fxai.models.request_cache import RequestCache
from fxai.providers.anthropic import prepare_request as prepare_anthropic
from fxai.providers.openai import prepare_request as prepare_openai
from fxai.testing import ScriptedModel, delay
from fxai.tools import Tool
from tests.benchmarks.measure import FXAI, Budget, Work

__all__ = ["works"]

FEW = "the first ones"
FLAT = Budget(1.3, FEW)
KIT = (Tool.make("forecast", parameters=dict[str, str], success=dict[str, Any]),)
ROUNDS, AT_ONCE, HANDLERS = 1_000, 2_000, 2_000
WIRES: dict[str, Callable[[ModelRequest, Any], object]] = {
    "responses": lambda request, cache: prepare_openai(request, model="gpt-5.5", cache=cache).encoded,
    "chat": lambda request, cache: prepare_openai(request, model="gpt-5.5", api="chat", cache=cache).encoded,
    "messages": lambda request, cache: prepare_anthropic(request, model="claude-sonnet-5", cache=cache).encoded,
}


def works() -> Iterator[Work]:
    """Requests late in a run, handlers joined by `|`, and limits for many requests at the same time."""
    for wire in WIRES:
        asked = {FXAI: partial(_requests, wire, ROUNDS), FEW: partial(_runs, wire, 100, ROUNDS // 100)}
        yield Work(f"a request of {ROUNDS:,} rounds, {wire}", asked, ROUNDS, (FLAT,))
    joined = {FXAI: lambda: _join(HANDLERS), FEW: lambda: [_join(100) for _ in range(HANDLERS // 100)]}
    yield Work(f"a handler of {HANDLERS:,}, joined by `|`", joined, HANDLERS, (FLAT,))
    limited = {FXAI: lambda: _ask(AT_ONCE), FEW: lambda: [_ask(100) for _ in range(AT_ONCE // 100)]}
    yield Work(f"a request with limits, of {AT_ONCE:,} at once", limited, AT_ONCE, (FLAT,))


def _runs(wire: str, rounds: int, number: int) -> None:
    for _ in range(number):
        _requests(wire, rounds)


def _requests(wire: str, rounds: int) -> None:
    """Prepare every request of a run."""
    cache, prompt = RequestCache[Any, Any](), Prompt.make("Go.")
    for number in range(rounds):
        WIRES[wire](ModelRequest(prompt, KIT), cache)
        call = ToolCallPart(f"c{number}", "forecast", {"city": "Lisbon", "days": "three"})
        result = ToolResultPart(call.id, "forecast", {"city": "Lisbon", "ok": True})
        prompt = prompt.append(AssistantMessage.make(call), ToolMessage.make(result))


def _join(number: int) -> object:
    tools = [Tool.make(f"tool{at}", parameters=int, success=int) for at in range(number)]
    layer: Any = tools[0].handler(Success)
    for tool in tools[1:]:
        layer = layer | tool.handler(Success)
    return fx.run_sync(fx.scoped(layer.build()))


def _ask(number: int) -> object:
    script = [[delay(0.0), Text("Yes."), Finish("stop", Usage(20, 5))]] * number
    rate, team = Limit.per_minute("key", requests=10**6, tokens=10**9), Limit.budget("team", tokens=10**12)
    model = limit(ScriptedModel.make(script).layer, rate, team, allowances=Allowances.in_process(), max_tokens=100)

    def asked() -> Gen[object, Any, LanguageModel]:
        found = yield from LanguageModel
        request = ModelRequest(Prompt.make("Hello"))
        return (yield from fx.for_each(range(number), lambda _: found.ask(request), concurrency=None))

    provided: Any = fx.gen(asked)().provide(model)
    return fx.run(provided)
