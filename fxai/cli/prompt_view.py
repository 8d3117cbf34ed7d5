"""Stateful prompts at the command line: agents made of them, and what they define before anything has run.

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
from typing import Any, TypeAlias, final, get_args

import msgspec

from fxai.agents.agent import Agent
from fxai.agents.render import Definitions
from fxai.agents.rendering import define_step
from fxai.agents.run_tools import Binding
from fxai.agents.state import PromptState, RenderError, StateStore
from fxai.agents.stateful import StatefulPrompt
from fxai.agents.step_patch import ToolDefinition
from fxai.cli.exit import GIVE_HANDLERS, GIVE_LAYER, CliError
from fxai.effects.context import ContextOf, MissingServiceError
from fxai.models.language_model import LanguageModel
from fxai.tools.toolkit import AnyBound, BoundToolkit, Toolkit
from fxai.tools.type_hints import hints_of, needed_services, services_in

AnyAgent: TypeAlias = Agent[Any, Any, Any, Any]
"""An agent of a user's program, whose types are not known."""


def is_agent(value: object) -> bool:
    """Whether it can be run: an agent, or a stateful prompt."""
    return isinstance(value, Agent | StatefulPrompt)


def agent_of(value: AnyAgent | StatefulPrompt[Any, Any]) -> AnyAgent:
    """The agent, or one with nothing but this stateful prompt."""
    return Agent.make(value.name, prompt=value) if isinstance(value, StatefulPrompt) else value


@final
class FirstStep(msgspec.Struct, frozen=True, eq=False):
    """What a prompt defines for the first step of a run, and the state that it sees then."""

    definitions: Definitions
    state: PromptState


def first_step(agent: AnyAgent, state: PromptState | None = None) -> FirstStep | None:
    """The first step of a run that begins with this state; no effect is run, and nothing is opened.

    None for an agent without a stateful prompt.

    Raises:
        CliError: The render is wrong, or raises; or it calls something as a tool of the agent is called.
    """
    prompt = agent.prompt
    if prompt is None:
        return None
    store = StateStore(state)
    try:
        definitions = define_step(prompt.f, 1, store, dict(store.cells))
        _check_names(definitions, agent.binding.toolkit)
    except Exception as raised:
        raise _render_error(prompt.name, raised) from raised
    return FirstStep(definitions, store.snapshot())


def _check_names(definitions: Definitions, toolkit: Toolkit[Any]) -> None:
    same = [name for name in toolkit.tools if name in definitions.sections]
    same += [name for name, one in definitions.tools.items() if toolkit.tools.get(name, one.tool) != one.tool]
    if same:
        why = f"{same[0]!r} is what a tool of the agent is called, and something else of the prompt"
        raise RenderError("conflict", f"{why}; call one of them otherwise")


def _render_error(name: str, raised: Exception) -> CliError:
    if isinstance(raised, RenderError):
        said, _, remedy = f"the prompt {name!r} cannot be rendered: {raised}".rpartition("; ")
        return CliError(said or remedy, remedy if said else "", cause=raised)
    said = f"the prompt {name!r} broke when it was rendered: {type(raised).__name__}: {raised}"
    return CliError(said, "--debug shows where", cause=raised)


def binding_at_first(agent: AnyAgent) -> Binding:
    """All tools of an agent, with those that its prompt defines with its initial state.

    Raises:
        CliError: As `first_step`.
    """
    first = first_step(agent)
    return agent.binding if first is None else agent.binding.with_offers(map(_offer, first.definitions.tools.values()))


def _offer(one: ToolDefinition) -> AnyBound | Toolkit[Any]:
    if one.handler is not None:
        layer = one.tool.handler(one.handler)
        return BoundToolkit.of(Toolkit.of((one.tool,)), layer if one.aspect is None else one.aspect.wrap(layer))
    if one.origin is not None:
        return one.origin.with_toolkit(lambda kit: kit.filter(lambda tool: tool == one.tool))
    return Toolkit.of((one.tool,))


def require_prompt(agent: AnyAgent, state: PromptState | None, services: ContextOf[Any]) -> None:
    """Checks that a run which begins with this state finds what the agent's prompt says it needs.

    Raises:
        CliError: A service, or the handler of a tool, is missing; or as `first_step`.
    """
    prompt, first = agent.prompt, first_step(agent, state)
    if prompt is None or first is None:
        return
    there = services.put(LanguageModel.__fx_key__(), True)  # its absence has an error of its own
    plain = [one.tool for one in first.definitions.tools.values() if one.handler is None and one.origin is None]
    missing = [tool.name for tool in plain if tool.requires_handler and there.find(tool.identity) is None]
    if missing:
        said = f"nothing answers the tools of the prompt {prompt.name!r}: {', '.join(missing)}"
        raise CliError(said, GIVE_HANDLERS)
    for by, key in _needs(prompt, first.definitions):
        if there.find(key) is None:
            said = f"the service {MissingServiceError(key).service} is needed, and no layer gives it to {by}"
            raise CliError(said, GIVE_LAYER)


def _needs(prompt: StatefulPrompt[Any, Any], definitions: Definitions) -> Iterator[tuple[str, Any]]:
    """What needs a service, in words, and the key of it, as far as annotations say so."""
    for tool in definitions.tools.values():
        if tool.handler is not None:
            yield from ((f"the handler of {tool.tool!r}", key) for key in needed_services(tool.handler))
    for effect in definitions.effects.values():
        yield from ((f"the effect {effect.key!r}", key) for key in needed_services(effect.f))
    yield from ((f"the prompt {prompt.name!r}", key) for key in _annotated_services(prompt.f))


def _annotated_services(f: Callable[..., Any]) -> tuple[Any, ...]:
    """The keys that a render declares, of `Render[…]` in its annotation; none where it cannot be read."""
    try:
        hints = hints_of(f, {})
    except Exception:  # what it names may be there for checkers alone
        return ()
    hints.pop("return", None)
    arguments = get_args(next(iter(hints.values()), None))
    return services_in(arguments[0]) if arguments else ()
