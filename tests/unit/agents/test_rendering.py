"""Renderings: what the steps of a run have in common, and how long what a render defines lives."""

from __future__ import annotations

import gc
from typing import Any, Never

import pytest
from returns.result import Success

from fxai import Agent, BoundToolkit, Gen, Layer, Scope, Service, Tool, Toolkit, fx, tool
from fxai.agents import StepSetup
from fxai.agents.stateful import Render, RenderFailed, StatefulPrompt, StepPatch, StepView
from fxai.messages import AssistantMessage, TextPart
from fxai.testing import ScriptedModel, call, text
from fxai.tools.aspects import cache

look = Tool.make("look", parameters=str, success=str)
count = Tool.make("count", success=int)


class Desk(Service):
    """A service with a life of its own."""


def _echo(words: str) -> Success[str]:
    return Success(words)


def _run(prompt: StatefulPrompt[Any, Any], turns: list[Any], said: str = "Go on.") -> tuple[Any, ScriptedModel]:
    model = ScriptedModel.make(turns)
    return fx.run(prompt.execute(said).provide(model.layer)), model


def _desk_kit(log: list[str]) -> BoundToolkit[Any, Never, None]:
    """A toolkit whose handlers need a service that notes when it opens and closes."""

    def open_desk() -> Gen[Desk, Never, Scope]:
        yield from fx.acquire_release(
            fx.sync(lambda: log.append("open")), lambda _: fx.sync(lambda: log.append("close"))
        )
        return Desk()

    def on_look(words: str) -> Gen[str, Never, Desk]:
        _ = yield from Desk
        log.append(words)
        return words

    desk: Layer[Desk] = Layer.scoped(Desk, fx.gen(open_desk)())
    return BoundToolkit.of(Toolkit.make(look), look.handler(on_look).provide(desk))


def test_handlers_that_a_toolkit_brings_live_while_it_is_defined() -> None:
    """Built when it is first defined, shared by the steps, and released before the step that lacks it is asked."""
    log: list[str] = []
    kit = _desk_kit(log)

    def render(at: Render) -> None:
        if at.number <= 2:
            _ = at.tools(kit)

    def note(setup: StepSetup) -> StepSetup:
        log.append(f"ask {setup.number}")
        return setup

    agent = Agent.make("desk", prompt=StatefulPrompt.make("p", render), prepare_step=note)
    model = ScriptedModel.make([call("look", "a"), call("look", "b"), text("ok")])
    _ = fx.run(agent.execute("Go on.").provide(model.layer))

    assert log == ["open", "ask 1", "a", "ask 2", "b", "close", "ask 3"]


def test_handlers_that_patches_bring_live_while_patches_give_them() -> None:
    """A toolkit that an effect adds to every step is built once, as one that the render defines."""
    log: list[str] = []
    kit = _desk_kit(log)

    def render(at: Render) -> None:
        at.effect("add", lambda view: StepPatch.tools(kit) if view.number <= 2 else None)

    _run(StatefulPrompt.make("p", render), [call("look", "a"), call("look", "b"), text("ok")])

    assert log == ["open", "a", "b", "close"]


def test_handlers_of_a_new_toolkit_are_those_of_its_step() -> None:
    """One that is made in the render has the handlers of each render."""
    seen: list[int] = []

    def render(at: Render) -> None:
        n = at.state("n", 0)

        def on_count(_: object) -> Any:
            seen.append(n.value)
            return n.update(lambda now: now + 1).as_(0)

        _ = at.tools(BoundToolkit.of(Toolkit.make(count), count.handler(on_count)))

    _run(StatefulPrompt.make("p", render), [call("count", {}), call("count", {}), text("ok")])

    assert seen == [0, 1]


def test_an_aspect_with_a_state_keeps_it_for_the_run() -> None:
    """The handler is new in each render; what is cached is not, and another run begins without it."""
    ran: list[int] = []
    known = cache()

    def render(at: Render) -> None:
        def on_look(words: str) -> Success[str]:
            ran.append(at.number)
            return Success(words)

        at.tool(look, on_look, aspect=known)

    prompt = StatefulPrompt.make("p", render)
    turns = [call("look", "a"), call("look", "a"), call("look", "b"), text("ok")]
    _run(prompt, turns)
    assert ran == [1, 3]

    _run(prompt, turns)
    assert ran == [1, 3, 1, 3]


def test_requests_of_equal_renders_share_tools_and_messages() -> None:
    """Providers prepare tools once and write only what is new, because the values are the same ones."""

    def render(at: Render) -> None:
        at.system("role", "Be brief.")
        at.message("Here is an example.")
        at.tool(look, _echo)

    _, model = _run(StatefulPrompt.make("p", render), [call("look", "a"), call("look", "b"), text("ok")])
    first, second, third = model.requests

    assert first.tools[0] is second.tools[0] is third.tools[0]
    assert all(one is other for one, other in zip(first.prompt, third.prompt, strict=False))
    assert [message.role for message in first.prompt] == ["system", "user", "user"]


def test_records_share_the_conversation() -> None:
    """The messages of a step are put together when they are asked for; each step shows what its model was shown."""

    def render(at: Render) -> None:
        at.system("role", f"Step {at.number}.")
        at.effect("tail", lambda view: StepPatch.message(f"Now {view.number}."))
        at.tool(look, _echo)

    answer, model = _run(StatefulPrompt.make("p", render), [call("look", "a"), text("ok")])
    records = [step.record for step in answer.steps]

    assert [record.messages for record in records] == [request.prompt for request in model.requests]
    assert [record.messages[-1].content[0].text for record in records] == ["Now 1.", "Now 2."]


def test_the_system_prompt_does_not_change_with_what_is_hidden() -> None:
    """A text that mentions a tool is the same whether the step has it, so that providers may cache it."""

    def hide(view: StepView) -> StepPatch | None:
        return StepPatch.hide("look") if view.number == 2 else None

    def render(at: Render) -> None:
        reference = at.tool(look, _echo)
        at.system("role", f"Use {reference} and <nothing>.")
        at.effect("hide", hide)

    _, model = _run(StatefulPrompt.make("p", render), [call("look", "a"), text("ok")])
    first, second = (request.prompt.system() for request in model.requests)

    assert first == second == "<role>\nUse <look> and &lt;nothing>.\n</role>"


def test_a_section_is_not_called_as_a_tool_of_the_agent_is() -> None:
    """Else a text that mentions the tool would open the section; also where the tools are those of the step before."""

    @tool
    def role() -> str:
        """Gives a role."""
        return "clerk"

    def render(at: Render) -> None:
        at.system("role" if at.number == 2 else "mood", "Be brief.")

    agent = Agent.make("desk", toolkit=role, prompt=StatefulPrompt.make("p", render))
    failure = fx.run_result(
        agent.execute("Hi").provide(ScriptedModel.make([call("role", {}), text("ok")]).layer)
    ).failure()

    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.step) == ("conflict", 2)


def test_the_render_stands_between_instructions_and_conversation() -> None:
    """Instructions, sections, messages of the render, then the conversation, whose history has none of them."""

    def render(at: Render) -> None:
        at.data("now", "Monday")
        at.message(AssistantMessage((TextPart("I am here."),)))

    agent = Agent.make("desk", instructions="Be brief.", prompt=StatefulPrompt.make("p", render))
    model = ScriptedModel.make([text("ok")])
    answer = fx.run(agent.execute("Hello").provide(model.layer))
    (request,) = model.requests

    assert [message.role for message in request.prompt] == ["system", "system", "assistant", "user"]
    assert request.prompt.system() == "Be brief.\n\n<data>\n<now>\nMonday\n</now>\n</data>"
    assert [message.role for message in answer.history] == ["system", "user", "assistant"]


def test_an_effect_sees_what_the_model_is_about_to_be_shown() -> None:
    """The messages with all that the render says and without patches: these are what the request has besides."""
    seen: list[list[tuple[str, str]]] = []

    def render(at: Render) -> None:
        at.system("role", f"Step {at.number}.")
        at.message("Be brief.")
        _ = at.tool(look, _echo)
        at.effect("first", lambda _: StepPatch.system("mood", "Friendly.") + StepPatch.message("Now."))
        at.effect("look", lambda view: seen.append([(one.role, _words(one)) for one in view.messages]))

    _, model = _run(StatefulPrompt.make("p", render), [call("look", "a"), text("ok")])
    asked = [[(one.role, _words(one)) for one in request.prompt] for request in model.requests]
    systems = [f"<role>\nStep {number}.\n</role>" for number in (1, 2)]

    assert seen[0] == [("system", systems[0]), ("user", "Be brief."), ("user", "Go on.")]
    assert [said for role, said in seen[1] if role == "system"] == systems[1:]
    for before, request in zip(seen, asked, strict=True):
        assert request[1:] == [*before[1:], ("user", "Now.")]
        assert request[0] == ("system", f"{before[0][1]}\n<mood>\nFriendly.\n</mood>")


def _words(message: Any) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(getattr(part, "text", "") for part in content)


def test_a_composite_of_the_same_tools_is_one() -> None:
    """Defined twice in a render it is one, and its handlers are built once for all steps; others are another one."""
    log: list[str] = []
    kit = _desk_kit(log)

    def render(at: Render) -> None:
        first = at.composite("desk", kit, description="All of it.")

        assert at.composite("desk", kit, description="All of it.") == first

    def two(at: Render) -> None:
        _ = at.composite("desk", kit)
        _ = at.composite("desk", BoundToolkit.of(Toolkit.make(look), look.handler(_echo)))

    asked = [call("desk", {"calls": [{"name": "look", "args": words}]}) for words in ("a", "b")]
    _, model = _run(StatefulPrompt.make("p", render), [*asked, text("ok")])
    refused: Any = fx.run_exit(StatefulPrompt.make("p", two).execute("Go on.").provide(ScriptedModel.make([]).layer))

    assert [[each.name for each in request.tools] for request in model.requests] == [["desk"]] * 3
    assert log == ["open", "a", "b", "close"]
    assert [failure.reason for failure in refused.cause.failures] == ["conflict"]


@pytest.mark.filterwarnings("error")
def test_a_render_that_waits_is_refused() -> None:
    """An asynchronous one is a typed failure, and no coroutine is left behind to be warned of."""

    async def render(at: Render) -> None:
        at.system("role", "Never seen.")

    untyped: Any = render
    ended: Any = fx.run_exit(StatefulPrompt.make("p", untyped).execute("Go on.").provide(ScriptedModel.make([]).layer))
    (failure,) = ended.cause.failures
    gc.collect()

    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.step) == ("unsettled", 1)
