"""Agent arguments: the options of `fxai run` and `fxai chat`, read into an agent with its setting, and the prompts.

>>> make_job("Hello", AgentArgs(model="local")).prompts
('Hello',)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, final

import click
import msgspec

from fxai.agents.agent import Agent
from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.input import read_stdin
from fxai.cli.job import Job, require_approval
from fxai.cli.setting import AnyAgent, Setting, memory_at
from fxai.cli.target import load, load_matching
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.tools.source import ToolSource

if TYPE_CHECKING:
    from fxai.mcp.settings import Elicit


@final
class AgentArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options that choose an agent and say how it runs, as `fxai run --help` describes them.

    `unasked` is `--yes`: the servers' tools run without approval; `secrets` is `--show-secrets`.
    """

    agent: str | None = None
    layer: str | None = None
    model: str | None = None
    rounds: int | None = None
    system: str | None = None
    mcp: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    pins: str | None = None
    timeout: float | None = None
    unasked: bool = False
    memory: str | None = None
    secrets: bool = False


def read_args(chosen: AgentArgs, elicit: Elicit | None = None) -> tuple[Setting, tuple[str, ...]]:
    """The setting of the chosen agent, and the agent's default prompts.

    Without `agent` it is the example agent; with `system` or `mcp`, a new agent that has nothing else. `elicit` answers
    questions of servers to the user; without it they are declined.
    """
    own: tuple[str, ...] = ()
    supplied: AnyLayer | None = None
    agent: Agent[Any, Any, Any, Any]
    if chosen.model is not None:
        from fxai.cli.model_list import require_ready

        require_ready(chosen.model)
    if chosen.secrets and (chosen.agent is not None or chosen.mcp or chosen.system is not None):
        raise CliError("--show-secrets is for the example agent", "leave it out", code=WRONG_USE)
    if chosen.agent is not None:
        agent = load_matching(chosen.agent, lambda value: isinstance(value, Agent), "an agent")
    elif chosen.mcp or chosen.system is not None:
        agent = Agent.make("agent")
    else:
        from fxai.cli import example

        agent, own = example.agent, example.PROMPTS
        supplied = example.open_layer if chosen.secrets else example.layer
    if chosen.layer is not None:
        kind: type[AnyLayer] = LayerOf
        added = load(chosen.layer, kind, "a layer")
        supplied = added if supplied is None else supplied | added
    servers = _servers(chosen, elicit)
    return Setting(_with_args(agent, chosen), supplied, chosen.model, servers), own


def _with_args(agent: AnyAgent, chosen: AgentArgs) -> AnyAgent:
    if chosen.rounds is not None:
        agent = msgspec.structs.replace(agent, budget=msgspec.structs.replace(agent.budget, rounds=chosen.rounds))
    if chosen.system is not None:
        agent = msgspec.structs.replace(agent, instructions=chosen.system)
    return agent


def _servers(chosen: AgentArgs, elicit: Elicit | None) -> tuple[ToolSource[Any, Any, Any], ...]:
    if not chosen.mcp:
        given = {"--yes": chosen.unasked, "--env": chosen.env, "--pins": chosen.pins, "--timeout": chosen.timeout}
        for option in (option for option, value in given.items() if value):
            raise CliError(f"{option} is for the servers of --mcp", "name one, or leave it out", code=WRONG_USE)
        return ()
    from fxai.cli.mcp_target import ServerOptions, find_server

    wish = ServerOptions(pins=chosen.pins, env=chosen.env, timeout=chosen.timeout, elicit=elicit)
    sources = [ToolSource.of(find_server(text, wish)) for text in chosen.mcp]
    return tuple(sources if chosen.unasked else [source.with_toolkit(require_approval) for source in sources])


def make_job(given: str | None, chosen: AgentArgs) -> Job:
    """The job for a prompt and these options."""
    setting, own = read_args(chosen)
    memory = None if chosen.memory is None else memory_at(chosen.memory)
    return Job(setting, _prompts(given, own), memory)


def _prompts(given: str | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts: the one given, else the text piped in, else `own`."""
    if given in (None, "-"):
        text = _read(wait=given == "-" or not own)
        if not (text or "").strip() and given is None:
            text = None
        if text is None and own:
            return own
        if text is None:
            raise CliError("there is no prompt", "say what is wanted: fxai run PROMPT, or pipe it in", code=WRONG_USE)
        given = text
    if not given.strip():
        raise CliError("the prompt is empty", "say what is wanted: fxai run PROMPT", code=WRONG_USE)
    return (given.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),)


def _read(*, wait: bool) -> str | None:
    if sys.stdin is not None and sys.stdin.isatty() and wait:
        click.echo("What is wanted? (Ctrl-D ends it)", err=True)
    return read_stdin(sys.stdin, wait=wait)
