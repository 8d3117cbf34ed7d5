"""Stateful prompts on the command line. Use `agent_of` to run a prompt, and `first_step` to inspect it before a run.

>>> from fxai.agents.stateful import Render, StatefulPrompt
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> ping = Tool.make("ping", success=str)
>>> def chat(at: Render) -> None:
...     _ = at.tool(ping, lambda _: Success("pong"))
>>> agent = agent_of(StatefulPrompt.make("chat", chat))
>>> agent.name, list(binding_at_first(agent).toolkit.tools)
('chat', ['ping'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, get_args

from fxai.agents import Agent, Binding
from fxai.agents.render import Definitions
from fxai.agents.rendering import define_step
from fxai.agents.state import PromptState, RenderError, StateStore
from fxai.agents.stateful import StatefulPrompt
from fxai.agents.step_patch import StepTool
from fxai.cli.exit import SHOW_TRACE, CliError
from fxai.cli.run_program import GIVE_LAYER, require_handlers
from fxai.effects import ContextOf, MissingServiceError
from fxai.models import LanguageModel
from fxai.tools import BoundToolkit, Toolkit
from fxai.tools.toolkit import AnyBound
from fxai.tools.type_hints import hints_of, needed_services, services_in

AnyAgent: TypeAlias = Agent[Any, Any, Any, Any]
"""An agent of a user's program, with unknown types."""


def is_agent(value: object) -> bool:
    """Return True for an agent or a stateful prompt."""
    return isinstance(value, Agent | StatefulPrompt)


def agent_of(value: AnyAgent | StatefulPrompt[Any, Any]) -> AnyAgent:
    """Return the agent, or a new agent with only this stateful prompt."""
    return Agent.make(value.name, prompt=value) if isinstance(value, StatefulPrompt) else value


FirstStep: TypeAlias = tuple[Definitions, PromptState]
"""The definitions of a prompt for the first step of a run, and the state at this step."""


def first_step(agent: AnyAgent, state: PromptState | None = None) -> FirstStep | None:
    """Return the first step of a run that starts with this state, or None without a stateful prompt.

    The function runs no effect and opens nothing.
    """
    prompt = agent.prompt
    if prompt is None:
        return None
    store = StateStore(state)
    try:
        definitions = define_step(prompt.f, 1, store, dict(store.cells))
    except RenderError as raised:
        raise CliError(f"cannot render prompt {prompt.name!r}: {raised}", "", cause=raised) from raised
    except Exception as raised:
        problem = f"prompt {prompt.name!r} raised {type(raised).__name__}: {raised}"
        raise CliError(problem, SHOW_TRACE, cause=raised) from raised
    own = agent.binding.toolkit.tools
    same = [name for name in own if name in definitions.sections]
    same += [name for name, one in definitions.tools.items() if own.get(name, one.tool) != one.tool]
    if same:
        why = f"the name {same[0]!r} belongs to a tool of the agent and to another definition of the prompt"
        conflict = RenderError("conflict", f"{why}. Rename one of them.")
        raise CliError(f"cannot render prompt {prompt.name!r}: {conflict}", "", cause=conflict)
    return definitions, store.snapshot()


def binding_at_first(agent: AnyAgent) -> Binding:
    """Return all tools of an agent, with the tools that its prompt defines for its initial state."""
    first = first_step(agent)
    return agent.binding if first is None else agent.binding.with_offers(map(_offer, first[0].tools.values()))


def _offer(one: StepTool) -> AnyBound | Toolkit[Any]:
    if one.handler is not None:
        layer = one.tool.handler(one.handler)
        return BoundToolkit.of(Toolkit.of((one.tool,)), layer if one.aspect is None else one.aspect.wrap(layer))
    if one.origin is not None:
        return one.origin.with_toolkit(lambda kit: kit.filter(lambda tool: tool == one.tool))
    return Toolkit.of((one.tool,))


def require_prompt(agent: AnyAgent, state: PromptState | None, services: ContextOf[Any]) -> None:
    """Check that the context contains everything that the agent's prompt declares for a run with this state."""
    prompt, first = agent.prompt, first_step(agent, state)
    if prompt is None or first is None:
        return
    there = services.put(LanguageModel.__fx_key__(), True)  # a missing model has its own error
    plain = [one.tool for one in first[0].tools.values() if one.handler is None and one.origin is None]
    require_handlers(plain, there, f"prompt {prompt.name!r}")
    for by, key in _needs(prompt, first[0]):
        if there.find(key) is None:
            problem = f"service {MissingServiceError(key).service} is missing: {by} requires it"
            raise CliError(problem, GIVE_LAYER)


def _needs(prompt: StatefulPrompt[Any, Any], definitions: Definitions) -> Iterator[tuple[str, Any]]:
    """Yield the name of each part that declares a service, and the key of the service."""
    for tool in definitions.tools.values():
        if tool.handler is not None:
            yield from ((f"the handler of {tool.tool!r}", key) for key in needed_services(tool.handler))
    for effect in definitions.effects.values():
        yield from ((f"the effect {effect.key!r}", key) for key in needed_services(effect.f))
    yield from ((f"the prompt {prompt.name!r}", key) for key in _annotated_services(prompt.f))


def _annotated_services(f: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the service keys in the `Render[…]` annotation of a render, or nothing if the annotation is unreadable."""
    try:
        hints = hints_of(f, {})
    except Exception:  # names in the annotation can exist only for type checkers
        return ()
    hints.pop("return", None)
    arguments = get_args(next(iter(hints.values()), None))
    return services_in(arguments[0]) if arguments else ()
