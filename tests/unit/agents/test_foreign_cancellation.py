"""A cancellation that nobody requested, in each function that a run calls, has the outcome of any other bug."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from fxai import Agent, tool
from fxai.agents.stateful import RenderOf, StatefulPrompt
from fxai.effects import Backend, EffectOf, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool
from fxai.tools.aspects import Aspect
from tests.kit.journal import Journal, ending_of

Fail: TypeAlias = Callable[[], Any]
"""The bug: it raises at once, or returns an effect that does."""
Location: TypeAlias = Callable[[Fail, Journal], EffectOf[Any, Any, Any]]

broken: Any = Tool.make("broken", success=str)
other: Any = Tool.make("other", success=str)


def _any(fail: Fail) -> Callable[..., Any]:
    """Return a function of any arguments with this bug."""

    def f(*_: object) -> Any:
        return fail()

    return f


def _slow(journal: Journal) -> Any:
    return fx.checkpoint().and_then(fx.checkpoint()).and_then(journal.note("sibling")).as_("done")


def _called(handler: Fail, journal: Journal, wrap: Callable[[Any], Any] | None = None, **hooks: Any) -> Any:
    """Run an agent whose model calls a tool with this handler, and a sibling."""
    agent = Agent.make("a", **hooks).with_tools(broken, other)
    handled = broken.handler(_any(handler))
    layer = (handled if wrap is None else wrap(handled)) | other.handler(_any(lambda: _slow(journal)))
    model = ScriptedModel.make([[call("broken", {}), call("other", {})], text("end")])
    return agent.execute("go").map(lambda answer: journal.add(answer.text)).provide(layer).provide(model.layer)


def _asked(fail: Fail, journal: Journal) -> Any:
    @tool(needs_approval=_any(fail))
    def pay(n: int) -> str:
        """Pay."""
        return str(n)

    model = ScriptedModel.make([call("pay", {"n": 1}), text("end")])
    end = Agent.make("a").with_tools(pay).execute("go").provide(model.layer)
    return end.map(lambda answer: journal.add(f"pending {len(answer.pending)}"))


def _line_of(journal: Journal) -> Callable[[Any], None]:
    return lambda answer: journal.add(answer.text)


def _rendered(fail: Fail, journal: Journal, *, in_effect: bool) -> Any:
    def render(at: RenderOf[Any, Any]) -> Any:
        if not in_effect:
            return fail()
        return at.effect("e", _any(fail), None)

    prompt: Any = StatefulPrompt.make("p", render)
    end: Any = prompt.execute("go").provide(ScriptedModel.make([text("end")]).layer)
    return end.map(_line_of(journal))


def _aspect(journal: Journal, **hooks: Any) -> Any:
    return _called(_fine, journal, Aspect.make(**hooks).wrap)


def _fine() -> Any:
    return fx.checkpoint().as_("ok")


def _released(fail: Fail, journal: Journal) -> Any:
    return _called(lambda: _fine().ensuring(fx.suspend(fail)), journal)


PLACES: dict[str, Location] = {
    "handler": _called,
    "predicate": _asked,
    "before": lambda fail, journal: _aspect(journal, before=_any(fail)),
    "after": lambda fail, journal: _aspect(journal, after=_any(fail)),
    "format": lambda fail, journal: _aspect(journal, format=_any(fail)),
    "prepare_step": lambda fail, journal: _called(_fine, journal, prepare_step=_any(fail)),
    "on_step": lambda fail, journal: _called(_fine, journal, on_step=_any(fail)),
    "stop_when": lambda fail, journal: _called(_fine, journal, stop_when=_any(fail)),
    "render": lambda fail, journal: _rendered(fail, journal, in_effect=False),
    "render effect": lambda fail, journal: _rendered(fail, journal, in_effect=True),
    "finalizer of a run": lambda fail, journal: _called(_fine, journal).ensuring(fx.suspend(fail)),
    "finalizer of a handler": _released,
}


def _raising(error: type[BaseException], *, at_once: bool) -> Fail:
    def now() -> Any:
        raise error

    async def later() -> Any:
        raise error

    return now if at_once else lambda: fx.wait(later)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "awaited"])
@pytest.mark.parametrize("location", list(PLACES))
def test_a_foreign_cancellation_has_the_outcome_of_a_bug(location: str, at_once: bool, backend: Backend) -> None:
    """The run ends alike, its siblings finish alike, and the same calls are pending."""
    seen: list[tuple[str, list[str]]] = []
    for error in (ZeroDivisionError, asyncio.CancelledError):
        journal = Journal()
        end = fx.run_exit(PLACES[location](_raising(error, at_once=at_once), journal), backend=backend)
        seen.append((ending_of(end), journal.lines))

    assert seen[0] == seen[1]
    assert "interruption" not in seen[1][0]
