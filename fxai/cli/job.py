"""The command `fxai run`. Use `run_agent` to build the layers, run an agent on prompts, and show each part.

A tool of an MCP server needs an approval unless the server marks the tool read-only. The mark is only a hint, and a
client must not trust it more than it trusts the server.

>>> from fxai.tools.annotation import Readonly
>>> from fxai.tools.tool import Tool
>>> look, change = Tool.make("look", success=str).annotate(Readonly, True), Tool.make("change", success=str)
>>> [asks_by_caution(tool) for tool in require_approval(Toolkit.make(look, change))]
[False, True]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO, final

import click
import msgspec

from fxai.agents import Agent, Inbox, Memory
from fxai.cli.exit import CliError, error_from, wrong_use
from fxai.cli.input import read_prompt, with_typing
from fxai.cli.output import AnswerOnly, JsonLines, Record
from fxai.cli.prompt_view import agent_of, is_agent
from fxai.cli.run_program import value_of
from fxai.cli.screen import LoadProgress, TerminalScreen
from fxai.cli.setting import (
    Setting,
    StateMemory,
    close_calls,
    find_memory,
    memory_at,
    open_setting,
    state_at,
)
from fxai.cli.target import load, load_matching
from fxai.effects import Gen, LayerOf, Scope, fx
from fxai.effects.layer import AnyLayer
from fxai.messages import Pending
from fxai.schema.display import in_line
from fxai.tools import AnyTool, Toolkit, ToolSource
from fxai.tools.annotation import Readonly

if TYPE_CHECKING:
    from fxai.cli.run_list import DurableArgs
    from fxai.mcp.settings import Elicit


@final
class AgentArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options that select an agent and configure its run. `fxai run --help` describes them.

    `unasked` is `--yes`, which runs the tools of servers without approval. `secrets` is `--show-secrets`.
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
    state: str | None = None
    secrets: bool = False


def read_args(chosen: AgentArgs, elicit: Elicit | None = None) -> tuple[Setting, tuple[str, ...]]:
    """Return the setting of the chosen agent, and the default prompts of the agent.

    Without `agent`, use the example agent. With `system` or `mcp` and no `agent`, use a new agent without other tools.
    `elicit` answers the questions of servers to the user. Without it, the run declines them.
    """
    own: tuple[str, ...] = ()
    supplied: AnyLayer | None = None
    agent: Agent[Any, Any, Any, Any]
    if chosen.model is not None:
        from fxai.cli.model_list import require_ready

        require_ready(chosen.model)
    if chosen.secrets and (chosen.agent is not None or chosen.mcp or chosen.system is not None):
        raise wrong_use("--show-secrets requires the example agent", "Remove --show-secrets.")
    if chosen.agent is not None:
        agent = agent_of(load_matching(chosen.agent, is_agent, "an agent or a stateful prompt"))
    elif chosen.mcp or chosen.system is not None:
        agent = Agent.make("agent")
    else:
        from fxai.cli import example

        agent, own = example.agent, example.prompts()
        supplied = example.open_layer if chosen.secrets else example.layer
    if chosen.layer is not None:
        kind: type[AnyLayer] = LayerOf
        added = load(chosen.layer, kind, "a layer")
        supplied = added if supplied is None else supplied | added
    servers = _servers(chosen, elicit)
    if chosen.state is not None and agent.prompt is None:
        problem = f"--state requires a stateful prompt, but agent {agent.name!r} has none"
        raise wrong_use(problem, "Remove --state, or name another agent.")
    state = None if chosen.state is None else state_at(chosen.state, chosen.memory)
    if chosen.rounds is not None:
        agent = msgspec.structs.replace(agent, budget=msgspec.structs.replace(agent.budget, rounds=chosen.rounds))
    if chosen.system is not None:
        agent = msgspec.structs.replace(agent, instructions=chosen.system)
    return Setting(agent, supplied, chosen.model, servers, state, quotes_results=bool(own)), own


def _servers(chosen: AgentArgs, elicit: Elicit | None) -> tuple[ToolSource[Any, Any, Any], ...]:
    if not chosen.mcp:
        given = {"--yes": chosen.unasked, "--env": chosen.env, "--pins": chosen.pins, "--timeout": chosen.timeout}
        for option in (option for option, value in given.items() if value):
            raise wrong_use(f"{option} requires --mcp", f"Pass --mcp SERVER, or remove {option}.")
        return ()
    from fxai.cli.target import ServerFlags, find_server

    wish = ServerFlags(pins=chosen.pins, env=chosen.env, timeout=chosen.timeout, elicit=elicit)
    sources = [ToolSource.of(find_server(text, wish)) for text in chosen.mcp]
    return tuple(sources if chosen.unasked else [source.with_toolkit(require_approval) for source in sources])


def run_agent(
    out: TextIO,
    err: TextIO,
    *,
    prompt: str | None,
    as_json: bool,
    quiet: bool,
    color: bool | None,
    durable: DurableArgs | None = None,
    **chosen: Any,
) -> bool:
    """Run the chosen agent on a prompt and show the run."""
    if as_json and quiet:
        raise wrong_use("--json cannot be used with --quiet", "Remove one of them.")
    record = Record(JsonLines(out) if as_json else AnswerOnly(out) if quiet else TerminalScreen(out, color=color))
    try:
        args = AgentArgs(**chosen)
        setting, own = read_args(args)
        memory = None if args.memory is None else memory_at(args.memory)
        given = read_prompt(prompt, "run", optional=bool(own))
        prompts = own if given is None else (given,)
        if durable is not None and len(prompts) > 1:
            raise wrong_use("--durable requires one prompt", "Write fxai run --durable RUN PROMPT.")
        with LoadProgress(err, color=color, quiet=quiet) as loading:
            value_of(fx.scoped(_program(setting, prompts, memory, durable, record, loading)))
    except (Exception, KeyboardInterrupt) as raised:
        trouble = error_from(raised)
        if not trouble.of_output:
            record.end(trouble)
        raise trouble from raised
    return True


def require_approval(kit: Toolkit[Any]) -> Toolkit[Any]:
    """Return the toolkit. All tools that are not marked read-only need an approval."""
    return kit.map(lambda tool: tool if tool.get(Readonly) is True else tool.with_options(needs_approval=_always))


def asks_by_caution(tool: AnyTool) -> bool:
    """Return True if the tool needs an approval only because of `require_approval`."""
    return tool.needs_approval is _always


def _always(_: Any, __: Any) -> bool:
    return True


@fx.gen
def _program(
    setting: Setting,
    prompts: tuple[str, ...],
    kept: Memory | None,
    durable: DurableArgs | None,
    record: Record,
    loading: LoadProgress,
) -> Gen[None, Any, Scope]:
    """Run the agent on each prompt. A memory joins the runs to a conversation."""
    if durable is not None:
        yield from durable.begin(prompts[0])
    begun = yield from StateMemory(kept or Memory.in_process(), setting.state).load_state()
    there = yield from open_setting(setting, loading, begun)
    if kept is not None:
        yield from close_calls(kept)
    memory = kept
    if there.agent.prompt is not None:
        memory = StateMemory((yield from find_memory(there, memory)) or Memory.in_process(), setting.state)
    agent = there.agent if memory is None else there.agent.with_memory(memory)
    loading.end()
    inbox = there.services.find(Inbox) or Inbox.in_process()

    def steer(line: str) -> None:
        fx.run_sync(inbox.steer(line))
        click.echo("fxai: the next step reads this message.", err=True)

    for prompt in prompts:
        record.start(there.agent.name, prompt)
        shown = agent.stream(prompt).for_each(lambda part: fx.sync(lambda: record.part(part)))
        if durable is not None:
            shown = shown.provide(durable.layer())
        yield from with_typing(shown, steer).provide_context(there.services.put(Inbox, inbox))
        waits = None if durable is None else (yield from durable.waiting())
        if waits is not None:
            yield from fx.fail(waits)
        if record.waiting:
            now = yield from there.tools.now
            yield from fx.fail(_open_calls_error(record.waiting, now.toolkit))
        if isinstance(memory, StateMemory):
            yield from memory.save()
            record.state = memory.state
        record.end()


def _open_calls_error(waiting: tuple[Pending, ...], kit: Toolkit[Any]) -> CliError:
    calls = ", ".join(f"{one.name} {in_line(one.params)}" for one in waiting)
    if all(one.approval_id is None for one in waiting):
        return CliError(f"no result for the external call of {calls}", "fxai chat can ask you for the result.")
    remedy = "fxai chat can ask you for the approval."
    if any(one.name in kit and asks_by_caution(kit.tools[one.name]) for one in waiting):
        remedy += " With --yes, the tools of --mcp run without approval."
    return CliError(f"no user can approve the call of {calls}", remedy)
