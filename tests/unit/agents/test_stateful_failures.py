"""What fails in a run of a stateful prompt ends it with its cause, once; what cancels it, cuts it wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from returns.result import Failure

from fxai.agents import Agent, Budget, BudgetExceeded, RunFailed
from fxai.agents.stateful import PromptState, RenderError, RenderFailed, RenderOf, StatefulPrompt, StepPatch
from fxai.effects import Backend, Clock, Exit, Layer, fx
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, TestClock, call, delay, fails, text
from fxai.tools import HandlerFailed, Tool
from tests.kit.every import every
from tests.kit.journal import Journal, StandingClock, running_tasks, turns
from tests.kit.runs import unanswered

WAYS = every("way", ["whole", "stream", "agent", "agent stream"])


class Lost(msgspec.Struct, frozen=True):
    """A typed failure."""

    what: str = "lost"


def add(more: int, value: int) -> int:
    """The sum."""
    return value + more


class World:
    """Tools, what they did, and a state that a run is given."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.boom = ZeroDivisionError("boom")
        self.count: Any = Tool.make("count", success=str)
        self.other: Any = Tool.make("other", success=str)
        self.strict: Any = Tool.make("strict", success=str, failure=Lost, failure_mode="error")
        self.lenient: Any = Tool.make("lenient", success=str, failure=Lost, failure_mode="return")
        self.given: PromptState = self._given()
        self.written = self.given.to_json()

    def _given(self) -> PromptState:
        def render(at: RenderOf[Any, Any]) -> None:
            at.state("n", 10)

        prompt: Any = StatefulPrompt.make("p", render)
        answer: Any = fx.run(prompt.execute("go").provide(ScriptedModel.make([text("ok")]).layer))
        state: PromptState = answer.state
        return state

    def raises(self, *_: object) -> Any:
        """An exception."""
        raise self.boom

    def counts(self, at: RenderOf[Any, Any]) -> Any:
        """Defines the tool that counts, and gives the state that it counts in."""
        n = at.state("n", 0)
        at.tool(self.count, lambda _: n.update(lambda value: value + 1).as_("counted"))
        return n

    def counts_only(self, at: RenderOf[Any, Any]) -> None:
        """A render of that tool alone."""
        self.counts(at)


def program_of(way: str, render: Callable[[Any], Any], state: PromptState | None = None, **options: Any) -> Any:
    """A run of the prompt alone or of an agent that has it, whole or streamed."""
    prompt: Any = StatefulPrompt.make("desk", render)
    make: Any = Agent.make
    runner: Any = make("a", prompt=prompt, **options) if way.startswith("agent") or options else prompt
    if "stream" in way:
        return runner.stream("go", state=state).drain()
    return runner.execute("go", state=state)


def end_of(
    way: str, backend: Backend, world: World, render: Callable[[Any], Any], script: list[Any], **options: Any
) -> tuple[Any, ScriptedModel]:
    """How such a run ended that was given a state, and the model; the state is what it was, and nothing is printed."""
    model = ScriptedModel.make(script)
    program = program_of(way, render, world.given, **options)
    ended: Exit[Any, Any] = fx.run_exit(program.provide(model.layer), backend=backend)
    assert world.given.to_json() == world.written
    return ended, model


@pytest.fixture
def silent(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Any:
    """Nothing is printed and nothing is logged: neither by the run nor by what it leaves behind."""
    yield None
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def failure_in(ended: Any) -> Any:
    """The one failure that a run ended with: there is nothing else in its cause."""
    (reason,) = ended.cause.reasons
    error: Any = reason.error
    return error


def defect_in(ended: Any) -> BaseException:
    """The one defect that a run ended with."""
    (reason,) = ended.cause.reasons
    defect: BaseException = reason.defect
    return defect


# -- exceptions


def _in_render(world: World, at: RenderOf[Any, Any]) -> None:
    if at.number == 2:
        world.raises()


def _in_effect(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda step: world.raises() if step.number == 2 else None)


def _in_effect_run(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda step: fx.sync(world.raises) if step.number == 2 else None)


def _in_generator(world: World, at: RenderOf[Any, Any]) -> None:
    def act(step: Any) -> Any:
        yield from fx.checkpoint()
        if step.number == 2:
            world.raises()

    at.effect("e", act)


def _in_coroutine(world: World, at: RenderOf[Any, Any]) -> None:
    async def act(step: Any) -> Any:
        await turns(1)
        if step.number == 2:
            world.raises()

    at.effect("e", act)


def _in_update(world: World, at: RenderOf[Any, Any]) -> None:
    n = at.state("n", 0)
    at.effect("e", lambda step: n.update(world.raises) if step.number == 2 else None)


def _in_modify(world: World, at: RenderOf[Any, Any]) -> None:
    n = at.state("n", 0)
    at.effect("e", lambda step: n.modify(world.raises).as_(None) if step.number == 2 else None)


def _in_dependency(world: World, at: RenderOf[Any, Any]) -> None:
    class Unequal:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return bool(world.raises())

    at.effect("e", lambda _: None, (Unequal(),))


_BREAKS = [
    _in_render,
    _in_effect,
    _in_effect_run,
    _in_generator,
    _in_coroutine,
    _in_update,
    _in_modify,
    _in_dependency,
]


@WAYS
@every("breaks", _BREAKS)
def test_an_exception_is_the_defect_of_the_run(
    breaks: Callable[[World, Any], None], way: str, backend: Backend, silent: None
) -> None:
    """The very one, once; the model is not asked again."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        breaks(world, at)

    ended, model = end_of(way, backend, world, render, [call("count", {}), text("ok")])

    assert defect_in(ended) is world.boom
    assert len(model.requests) == 1


@WAYS
@every("where", ["sync", "effect", "generator"])
def test_an_exception_of_a_handler_is_the_defect_of_the_run(
    where: str, way: str, backend: Backend, silent: None
) -> None:
    """Also beside other calls of the step."""
    world = World()

    def generator(_: object) -> Any:
        yield from fx.checkpoint()
        world.raises()

    def effect(_: object) -> Any:
        return fx.sync(world.raises)

    handlers: dict[str, Any] = {"sync": world.raises, "effect": effect, "generator": generator}

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        at.tool(world.other, handlers[where])

    ended, model = end_of(way, backend, world, render, [[call("count", {}), call("other", {})], text("ok")])

    assert defect_in(ended) is world.boom
    assert len(model.requests) == 1


@every("hook", ["prepare_step", "stop_when"])
@every("way", ["agent", "agent stream"])
def test_an_exception_of_a_hook_is_the_defect_of_the_run(hook: str, way: str, backend: Backend, silent: None) -> None:
    """As of any agent."""
    world = World()
    options: Any = {hook: world.raises}
    ended, _ = end_of(way, backend, world, world.counts_only, [call("count", {}), text("ok")], **options)

    assert defect_in(ended) is world.boom


# -- typed failures


def _effect_fails(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda step: fx.fail(Lost()) if step.number == 2 else None)


def _generator_fails(world: World, at: RenderOf[Any, Any]) -> None:
    def act(step: Any) -> Any:
        if step.number == 2:
            yield from fx.fail(Lost())
        return StepPatch()

    at.effect("e", act)


@WAYS
@every("breaks", [_effect_fails, _generator_fails])
def test_a_typed_failure_of_an_effect_is_that_of_the_run(
    breaks: Callable[[World, Any], None], way: str, backend: Backend, silent: None
) -> None:
    """As it is, once; the effects behind it do not run."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        breaks(world, at)
        at.effect("later", lambda step: world.journal.note(f"later {step.number}").as_(None))

    ended, model = end_of(way, backend, world, render, [call("count", {}), text("ok")])

    assert failure_in(ended) == Lost()
    assert world.journal.lines == ["later 1"]
    assert len(model.requests) == 1


@WAYS
def test_a_strict_handler_fails_the_run_with_history_and_state(way: str, backend: Backend, silent: None) -> None:
    """In mode "error": with the failure, the conversation with all results, and the state as it was then."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        n = world.counts(at)
        at.tool(world.strict, lambda _: n.update(partial(add, 100)).and_then(fx.fail(Lost())))

    script = [call("count", {}), [call("count", {}), call("strict", {})], text("ok")]
    ended, model = end_of(way, backend, world, render, script, **({"concurrency": 1} if "agent" in way else {}))
    failure = failure_in(ended)

    assert type(failure) is HandlerFailed
    assert (failure.name, failure.error) == ("strict", Lost())
    assert failure.state is not None
    assert dict(failure.state.values) == {"n": 112}
    assert failure.history is not None
    assert [message.role for message in failure.history] == ["user", "assistant", "tool", "assistant", "tool"]
    assert unanswered(failure.history) == []
    assert len(model.requests) == 2


@WAYS
def test_a_lenient_handler_tells_the_model(way: str, backend: Backend, silent: None) -> None:
    """In mode "return" the run goes on."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        fail: Any = Failure(Lost())
        at.tool(world.lenient, lambda _: fail)

    ended, model = end_of(way, backend, world, render, [call("lenient", {}), text("ok")])

    assert not hasattr(ended, "cause")
    assert "lost" in str(model.requests[1].prompt)


@WAYS
def test_a_model_that_fails_ends_the_run_with_history_and_state(way: str, backend: Backend, silent: None) -> None:
    """The state has what earlier steps changed."""
    world = World()
    script = [call("count", {}), fails(NetworkError("TransportError"))]
    ended, _ = end_of(way, backend, world, world.counts_only, script)
    failure = failure_in(ended)

    assert isinstance(failure, RunFailed)
    assert failure.state is not None
    assert dict(failure.state.values) == {"n": 11}
    assert [message.role for message in failure.history] == ["user", "assistant", "tool"]


@every("way", ["agent", "agent stream"])
@every("budget", [Budget(rounds=2), Budget(calls=1)])
def test_a_budget_that_is_spent_holds_history_and_state(
    budget: Budget, way: str, backend: Backend, silent: None
) -> None:
    """Another run goes on from both."""
    world = World()
    script = [call("count", {}), call("count", {})]
    ended, _ = end_of(way, backend, world, world.counts_only, script, budget=budget)
    failure = failure_in(ended)

    assert isinstance(failure, BudgetExceeded)
    assert failure.state is not None
    assert dict(failure.state.values) == {"n": 10 + (budget.calls or 2)}
    assert unanswered(failure.history) == []


# -- renders that are wrong


def _two_tools(world: World, at: RenderOf[Any, Any]) -> None:
    at.tool(world.other, lambda _: fx.succeed("a"))
    at.tool(world.other, lambda _: fx.succeed("b"))


def _tool_and_section(world: World, at: RenderOf[Any, Any]) -> None:
    at.tool(world.other, lambda _: fx.succeed("a"))
    at.system("other", "A text.")


def _two_texts(_: World, at: RenderOf[Any, Any]) -> None:
    at.system("role", "One.")
    at.system("role", "Two.")


def _system_and_data(_: World, at: RenderOf[Any, Any]) -> None:
    at.system("role", "One.")
    at.data("role", "One.")


def _two_data(_: World, at: RenderOf[Any, Any]) -> None:
    at.data("facts", 1)
    at.data("facts", 2)


def _two_effects(_: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: None)
    at.effect("e", lambda _: StepPatch())


def _two_states(_: World, at: RenderOf[Any, Any]) -> None:
    at.state("m", 0)
    at.state("m", 1)


def _patch_against_render(world: World, at: RenderOf[Any, Any]) -> None:
    at.system("role", "One.")
    at.effect("e", lambda _: StepPatch.system("role", "Two."))


def _two_patches(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: StepPatch.system("role", "One."))
    at.effect("f", lambda _: StepPatch.system("role", "Two."))


def _nothing(_: object) -> None:
    """Nothing, once the argument was made."""


def _late_in_effect(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: _nothing(at.system("role", "One.")))


def _late_tool(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: _nothing(at.tool(world.other, world.raises)))


def _late_state(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: _nothing(at.state("m", 1)))


def _late_effect(world: World, at: RenderOf[Any, Any]) -> None:
    at.effect("e", lambda _: at.effect("f", lambda _: None))


def _late_after_wait(world: World, at: RenderOf[Any, Any]) -> None:
    def act(_: object) -> Any:
        yield from fx.checkpoint()
        at.message("more")

    at.effect("e", act)


def _retyped(world: World, at: RenderOf[Any, Any]) -> None:
    at.state("m", 1 if at.number == 1 else "one")


def _given_otherwise(world: World, at: RenderOf[Any, Any]) -> None:
    at.state("n", "ten", schema=str)


def _too_many(_: World, at: RenderOf[Any, Any]) -> None:
    for number in range(10_001):
        at.system(f"s{number}", "text")


def _recursion(world: World, at: RenderOf[Any, Any]) -> None:
    for _ in range(10**6):  # as a render that calls itself
        at.message("again")


def _no_name(_: World, at: RenderOf[Any, Any]) -> None:
    at.system("a b", "text")


def _name_of_the_wrapper(_: World, at: RenderOf[Any, Any]) -> None:
    at.system("data", "text")


def _circular(_: World, at: RenderOf[Any, Any]) -> None:
    facts: list[Any] = []
    facts.append(facts)
    at.data("facts", facts)


def _deep(_: World, at: Any) -> None:
    facts: Any = 1
    for _number in range(10_000):
        facts = {"a": facts}
    at.data("facts", facts)


def _no_json(_: World, at: RenderOf[Any, Any]) -> None:
    at.data("facts", {"a": [object()]})


def _no_text(_: World, at: Any) -> None:
    at.system("role", 3)


def _no_tool(world: World, at: Any) -> None:
    at.tool("other", world.raises)


def _no_handler(world: World, at: Any) -> None:
    at.tool(world.other, "handler")


def _no_message(_: World, at: Any) -> None:
    at.message(3)


def _no_effect(_: World, at: Any) -> None:
    at.effect("e", 3)


def _no_deps(world: World, at: Any) -> None:
    at.effect("e", world.raises, [1])


_WRONG: list[tuple[Callable[[World, Any], Any], str, list[str]]] = [
    (_two_tools, "conflict", ["other"]),
    (_tool_and_section, "conflict", ["other"]),
    (_two_texts, "conflict", ["role"]),
    (_system_and_data, "conflict", ["role"]),
    (_two_data, "conflict", ["facts"]),
    (_two_effects, "conflict", ["e"]),
    (_two_states, "conflict", ["m"]),
    (_patch_against_render, "conflict", ["role"]),
    (_two_patches, "conflict", ["role"]),
    (_late_in_effect, "late", ["role"]),
    (_late_tool, "late", ["at.tool(…)"]),
    (_late_state, "late", ["m"]),
    (_late_effect, "late", ["f"]),
    (_late_after_wait, "late", []),
    (_given_otherwise, "state", ["n"]),
    (_too_many, "unsettled", ["10,000"]),
    (_recursion, "unsettled", ["10,000"]),
    (_no_name, "name", ["a b"]),
    (_name_of_the_wrapper, "name", ["data"]),
    (_circular, "value", ["facts"]),
    (_deep, "value", ["facts"]),
    (_no_json, "value", ["facts"]),
    (_no_text, "value", ["role", "3"]),
    (_no_tool, "value", ["other"]),
    (_no_handler, "value", ["other", "handler"]),
    (_no_message, "value", ["3"]),
    (_no_effect, "value", ["e"]),
    (_no_deps, "value", ["e"]),
]


@pytest.mark.slow
@WAYS
@every(("wrong", "reason", "named"), _WRONG)
def test_a_render_that_is_wrong_fails_the_run(
    wrong: Callable[[World, Any], Any], reason: str, named: list[str], way: str, backend: Backend, silent: None
) -> None:
    """By a typed failure that says what, with history and state; before the model is asked."""
    world = World()
    ended, model = end_of(way, backend, world, lambda at: wrong(world, at), [text("ok")])
    failure = failure_in(ended)

    assert isinstance(failure, RenderFailed), failure
    assert (failure.prompt, failure.step, failure.reason) == ("desk", 1, reason)
    assert all(name in failure.message for name in named), failure.message
    assert [message.role for message in failure.history] == ["user"]
    assert dict(failure.state.values)["n"] == 10
    assert model.requests == []


@WAYS
def test_a_render_that_is_wrong_later_has_what_came_before(way: str, backend: Backend, silent: None) -> None:
    """A state that changes its type in the second step: the failure has the first one, and its changes."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        _retyped(world, at)

    ended, model = end_of(way, backend, world, render, [call("count", {}), text("ok")])
    failure = failure_in(ended)

    assert (failure.step, failure.reason) == (2, "state")
    assert "m" in failure.message
    assert "int" in failure.message
    assert "str" in failure.message
    assert [message.role for message in failure.history] == ["user", "assistant", "tool"]
    assert dict(failure.state.values) == {"n": 11, "m": 1}
    assert len(model.requests) == 1


async def _coroutine(_: Any) -> None:
    await turns(1)


def _generator(at: RenderOf[Any, Any]) -> Any:
    yield at


def _effect(_: Any) -> Any:
    return fx.succeed(None)


def _number(_: Any) -> int:
    return 3


def _patch(_: Any) -> StepPatch:
    return StepPatch()


def _changing(at: RenderOf[Any, Any]) -> Any:
    return at.state("n", 0).set(5)


@WAYS
@every("render", [_coroutine, _generator, _effect, _changing, _number, _patch])
def test_a_render_that_gives_something_is_not_settled(render: Any, way: str, backend: Backend, silent: None) -> None:
    """A coroutine, a generator or an effect would never run: it says so, and nothing is left unawaited."""
    world = World()
    ended, _ = end_of(way, backend, world, render, [text("ok")])

    assert failure_in(ended).reason == "unsettled"


@WAYS
@every("given", [3, "text", [StepPatch()], (None, StepPatch()), True, object])
@every("wrapped", [False, True])
def test_an_effect_that_gives_no_patch_is_a_bug(
    given: Any, wrapped: bool, way: str, backend: Backend, silent: None
) -> None:
    """A defect that names the effect and says what to give."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        at.effect("wrong_one", lambda _: fx.succeed(given) if wrapped else given)

    ended, model = end_of(way, backend, world, render, [text("ok")])
    defect = defect_in(ended)

    assert isinstance(defect, TypeError)
    assert "wrong_one" in str(defect)
    assert model.requests == []


@WAYS
def test_a_handler_that_defines_things_is_late(way: str, backend: Backend, silent: None) -> None:
    """The render of its step is over."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        at.tool(world.other, lambda _: fx.succeed(str(at.system("role", "text"))))

    ended, model = end_of(way, backend, world, render, [call("count", {}), call("other", {}), text("ok")])
    failure = failure_in(ended)

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "late"
    assert dict(failure.state.values) == {"n": 11}
    assert len(model.requests) == 2


def test_what_a_render_catches_is_still_wrong(backend: Backend, silent: None) -> None:
    """An error of `at` that the render swallows fails the run all the same, or leaves nothing half defined."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        at.system("role", "One.")
        with pytest.raises(RenderError):
            at.system("role", "Two.")

    ended, model = end_of("whole", backend, world, render, [text("ok")])

    assert hasattr(ended, "cause") or "One." in (model.requests[0].prompt.system() or "")
    assert not any("Two." in (request.prompt.system() or "") for request in model.requests)


# -- cancellation

_LOCATIONS = ["effect", "effect generator", "prepare_step", "on_step", "stop_when", "handler", "update"]


class Waiting:
    """A run that waits for ever at one place of its second step (or after it), and what came and went there."""

    def __init__(self, location: str) -> None:
        self.world = World()
        self.location = location
        self.cut: Callable[[], object] = lambda: None
        self.journal = self.world.journal
        answers: Any = [delay(0), call("other", {})]  # a run that waits for nothing has no place to be cut at
        self.model = ScriptedModel.make([call("count", {}), answers, text("ok")])

    def wait(self, *_: object) -> Any:
        """Waits for ever; its finalizer waits too."""

        def arrive() -> None:
            self.journal.add("arrived")
            self.cut()

        left = fx.checkpoint().and_then(self.journal.note("left"))
        return fx.sync(arrive).and_then(fx.never()).ensuring(left)

    def done(self, _: object) -> Any:
        """Does not wait."""
        return fx.succeed("done")

    def render(self, at: RenderOf[Any, Any]) -> None:
        """Defines what waits."""
        self.world.counts(at)
        waits = self.location == "handler"
        at.tool(self.world.other, self.wait if waits else self.done)
        if self.location == "render" and at.number == 2:
            self.journal.add("arrived")
            self.cut()
            self.journal.add("left")
        if self.location == "effect":
            at.effect("e", lambda step: self.wait() if step.number == 2 else None)
        if self.location == "effect generator":
            at.effect("e", self.generator)
        if self.location == "update":  # cut between two changes: the first one is there, the second is not
            n = at.state("n", 0)
            at.effect("e", lambda step: n.set(50).and_then(self.wait()) if step.number == 2 else None)

    def generator(self, step: Any) -> Any:
        """Waits in a generator."""
        if step.number == 2:
            yield from self.wait()

    def hook(self, given: Any) -> Any:
        """Waits as the hook of the second step."""
        if self.location == "prepare_step":
            return self.wait() if given.number == 2 else given
        nothing = None if self.location == "on_step" else False
        return self.wait() if len(self.model.requests) == 2 else nothing

    def program(self, way: str, **options: Any) -> Any:
        """The run, with the model."""
        hooks: dict[str, Any] = {}
        if self.location in ("prepare_step", "on_step", "stop_when"):
            hooks[self.location] = self.hook
        made = program_of(way, self.render, self.world.given, **hooks, **options)
        return made.provide(self.model.layer)

    def check(self, requests: int | None = None) -> None:
        """It came there once and left once; the given state is unchanged, and the model was not asked again."""
        assert self.journal.lines == ["arrived", "left"]
        assert self.world.given.to_json() == self.world.written
        asked = 1 if self.location in ("effect", "effect generator", "prepare_step", "update") else 2
        assert len(self.model.requests) == (requests or asked)


@every("way", ["agent", "agent stream"])
@every("location", ["render", *_LOCATIONS])
def test_a_task_that_is_cancelled_cuts_the_run(location: str, way: str, silent: None) -> None:
    """By asyncio itself, from within: the cancellation goes on, once, and no task is left."""
    waiting = Waiting(location)

    async def main() -> None:
        before = running_tasks()
        task = asyncio.ensure_future(fx.run_async(waiting.program(way)))
        waiting.cut = task.cancel
        await asyncio.wait([task])
        assert task.cancelled()
        await turns(3)
        assert running_tasks() == before

    asyncio.run(main())
    waiting.check()


@every("way", ["agent", "agent stream"])
@every("location", ["render", *_LOCATIONS])
def test_a_scope_that_is_cancelled_cuts_the_run(location: str, way: str, backend: Backend, silent: None) -> None:
    """On either loop; no task is left."""
    waiting = Waiting(location)

    async def main() -> None:
        before = running_tasks()
        ended = False
        with anyio.CancelScope() as scope:
            waiting.cut = scope.cancel
            await fx.run_async(waiting.program(way))
            ended = True
        assert not ended
        assert scope.cancelled_caught
        await turns(3)
        assert running_tasks() == before

    anyio.run(main, backend=backend)
    waiting.check()


def _passing(program: Any, clock: TestClock) -> Any:
    passed = fx.wait(lambda: turns(250)).and_then(clock.advance(60))
    both: Any = fx.all_(program, passed)
    return both.provide(clock.layer)


@every("way", ["agent", "agent stream"])
@every("location", _LOCATIONS)
def test_a_timeout_cuts_the_run(location: str, way: str, backend: Backend, silent: None) -> None:
    """By the clock of the program."""
    waiting = Waiting(location)
    program = waiting.program(way).timeout(30)
    ended: Any = fx.run_exit(_passing(program, TestClock()), backend=backend)

    assert type(failure_in(ended)).__name__ == "Timeout"
    waiting.check()


@every("way", ["agent", "agent stream"])
@every("location", _LOCATIONS)
def test_a_budget_of_time_cuts_the_run(location: str, way: str, backend: Backend, silent: None) -> None:
    """With history and state as they were: what the cut effect or handler had changed is there."""
    waiting = Waiting(location)
    ended: Any = fx.run_exit(_passing(waiting.program(way, budget=Budget(seconds=30)), TestClock()), backend=backend)
    failure = failure_in(ended)

    assert isinstance(failure, BudgetExceeded)
    assert failure.what == "seconds"
    assert failure.state is not None
    assert dict(failure.state.values) == {"n": 50 if location == "update" else 11}
    assert unanswered(failure.history) == []
    waiting.check()


@every("way", ["agent", "agent stream"])
def test_a_budget_of_time_that_a_render_takes_is_spent(way: str, backend: Backend, silent: None) -> None:
    """The render itself cannot be cut; what follows it is."""
    world, clock = World(), StandingClock()

    def render(at: RenderOf[Any, Any]) -> None:
        world.counts(at)
        if at.number == 2:
            clock.time += 60

    model = ScriptedModel.make([call("count", {}), text("ok")])
    program = program_of(way, render, world.given, budget=Budget(seconds=30)).provide(model.layer)
    ended: Any = fx.run_exit(program.provide(Layer.succeed(Clock, clock)), backend=backend)

    assert failure_in(ended).what == "seconds"
    assert dict(failure_in(ended).state.values) == {"n": 11}


@every("parts", range(1, 12))
def test_a_reader_that_leaves_cuts_the_run(parts: int, backend: Backend, silent: None) -> None:
    """After any part: what began has ended, no task is left, and the given state is unchanged."""
    world = World()

    def render(at: RenderOf[Any, Any]) -> None:
        n = world.counts(at)
        held = world.journal.note("begun").and_then(fx.checkpoint()).ensuring(world.journal.note("ended"))
        at.effect("e", lambda _: held.and_then(n.update(partial(add, 1))))
        at.tool(world.other, lambda _: held.as_("done"))

    prompt: Any = StatefulPrompt.make("desk", render)
    model = ScriptedModel.make([[call("count", {}), call("other", {})], call("other", {}), text("ok")])

    async def main() -> None:
        before = running_tasks()
        async with prompt.stream("go", state=world.given).provide(model.layer).iterate() as items:
            seen = 0
            async for _ in items:
                seen += 1
                if seen == parts:
                    break
        asked = len(model.requests)
        await turns(5)
        assert running_tasks() == before
        assert len(model.requests) == asked

    anyio.run(main, backend=backend)

    assert world.journal.lines.count("begun") == world.journal.lines.count("ended") >= 1
    assert world.given.to_json() == world.written
