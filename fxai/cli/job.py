"""Jobs of `fxai run`. Use `run` to build the layers, run an agent on prompts, and show each part and a summary.

>>> from fxai.cli.example import agent, layer
>>> Job(Setting(agent, layer, "local"), ("Hello",)).prompts
('Hello',)

A tool of an MCP server needs an approval unless the server marks the tool read-only. The mark is only a hint, and a
client must not trust it more than it trusts the server.

>>> from fxai.tools.annotation import Readonly
>>> from fxai.tools.tool import Tool
>>> look, change = Tool.make("look", success=str).annotate(Readonly, True), Tool.make("change", success=str)
>>> [asks_by_caution(tool) for tool in require_approval(Toolkit.make(look, change))]
[False, True]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO, final

import click
import msgspec

from fxai.agents.agent import Agent
from fxai.agents.inbox import Inbox
from fxai.agents.memory import Memory
from fxai.cli.exit import WRONG_USE, CliError, error_from
from fxai.cli.input import read_stdin, with_typing
from fxai.cli.output import AnswerOnly, JsonLines, Record, Summary
from fxai.cli.progress import LoadProgress
from fxai.cli.prompt_view import AnyAgent, agent_of, is_agent
from fxai.cli.run_program import value_of
from fxai.cli.screen import TerminalScreen
from fxai.cli.setting import OpenSetting, Setting, close_calls, find_memory, memory_at, open_setting
from fxai.cli.state_file import StateFile, StateMemory, state_at
from fxai.cli.target import load, load_matching
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.scope import Scope
from fxai.messages.calls import Pending
from fxai.messages.part import StreamPart
from fxai.schema.display import in_line
from fxai.tools.annotation import Readonly
from fxai.tools.source import ToolSource
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import Toolkit

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
        raise CliError("--show-secrets requires the example agent", "Remove --show-secrets.", code=WRONG_USE)
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
    state = _state_file(agent, chosen)
    return Setting(_with_args(agent, chosen), supplied, chosen.model, servers, state, quotes_results=bool(own)), own


def _state_file(agent: AnyAgent, chosen: AgentArgs) -> StateFile | None:
    if chosen.state is None:
        return None
    if agent.prompt is None:
        problem = f"--state requires a stateful prompt, but agent {agent.name!r} has none"
        raise CliError(problem, "Remove --state, or name another agent.", code=WRONG_USE)
    return state_at(chosen.state, chosen.memory)


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
            raise CliError(f"{option} requires --mcp", f"Pass --mcp SERVER, or remove {option}.", code=WRONG_USE)
        return ()
    from fxai.cli.mcp_target import ServerFlags, find_server

    wish = ServerFlags(pins=chosen.pins, env=chosen.env, timeout=chosen.timeout, elicit=elicit)
    sources = [ToolSource.of(find_server(text, wish)) for text in chosen.mcp]
    return tuple(sources if chosen.unasked else [source.with_toolkit(require_approval) for source in sources])


def make_job(given: str | None, chosen: AgentArgs, durable: DurableArgs | None = None) -> Job:
    """Return the job for a prompt and these options."""
    setting, own = read_args(chosen)
    memory = None if chosen.memory is None else memory_at(chosen.memory)
    prompts = _prompts(given, own)
    if durable is not None and len(prompts) > 1:
        raise CliError("--durable requires one prompt", "Write fxai run --durable RUN PROMPT.", code=WRONG_USE)
    return Job(setting, prompts, memory, durable)


def run_agent(
    stdout: TextIO,
    stderr: TextIO,
    prompt: str | None,
    durable: DurableArgs | None = None,
    *,
    as_json: bool,
    quiet: bool,
    color: bool | None,
    **chosen: Any,
) -> bool:
    """Run the chosen agent on a prompt and show the run."""
    if as_json and quiet:
        raise CliError("--json cannot be used with --quiet", "Remove one of them.", code=WRONG_USE)
    presenter = JsonLines(stdout) if as_json else AnswerOnly(stdout) if quiet else TerminalScreen(stdout, color=color)
    try:
        job = make_job(prompt, AgentArgs(**chosen), durable)
    except (Exception, KeyboardInterrupt) as raised:
        trouble = error_from(raised)
        presenter.end(Record().summary(0.0, trouble))
        raise trouble from raised
    with LoadProgress(stderr, color=color, quiet=quiet) as loading:
        run(job, presenter, loading, loading.end)
    return True


def _prompts(given: str | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given prompt, otherwise the text on stdin, otherwise `own`."""
    if given in (None, "-"):
        text = _read(wait=given == "-" or not own)
        if not (text or "").strip() and given is None:
            text = None
        if text is None and own:
            return own
        if text is None:
            raise CliError("missing PROMPT", "Write fxai run PROMPT, or pipe the prompt in.", code=WRONG_USE)
        given = text
    if not given.strip():
        raise CliError("PROMPT is empty", "Write fxai run PROMPT.", code=WRONG_USE)
    return (given.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),)


def _read(*, wait: bool) -> str | None:
    if sys.stdin is not None and sys.stdin.isatty() and wait:
        click.echo("Type the prompt and press Ctrl-D.", err=True)
    return read_stdin(sys.stdin, wait=wait)


def require_approval(kit: Toolkit[Any]) -> Toolkit[Any]:
    """Return the toolkit. All tools that are not marked read-only need an approval."""
    return kit.map(lambda tool: tool if tool.get(Readonly) is True else tool.with_options(needs_approval=_always))


def asks_by_caution(tool: AnyTool) -> bool:
    """Return True if the tool needs an approval only because of `require_approval`."""
    return tool.needs_approval is _always


def _always(_: Any, __: Any) -> bool:
    return True


class Presenter(Protocol):
    """A view of a run while it happens."""

    def start(self, agent: str, prompt: str) -> None:
        """Show the start of a run."""

    def part(self, part: StreamPart, turn: int) -> None:
        """Show a part of this turn."""

    def end(self, summary: Summary) -> None:
        """Show the end of a successful or failed run."""


@final
class Job(msgspec.Struct, frozen=True):
    """An agent with its setting and its prompts. Each prompt is one run. A memory joins the runs to a conversation."""

    setting: Setting
    prompts: tuple[str, ...]
    memory: Memory | None = None
    durable: DurableArgs | None = None
    """The options of a durable run, or None."""


def run(job: Job, presenter: Presenter, heard: Callable[[Any], None], ready: Callable[[], None]) -> None:
    """Run the job with its finalizers. If a run fails, show the failure and raise it.

    Args:
        job: The job.
        presenter: The view of the runs.
        heard: Function that receives the progress of loading a local model, from any thread.
        ready: Function to call when the model is ready.
    """
    telling = RunTotals(presenter)
    try:
        value_of(fx.scoped(_program(job, telling, heard, ready)))
    except CliError as trouble:
        if not trouble.of_output:
            telling.end(trouble)
        raise


@final
class RunTotals:
    """A link between runs and a presenter. It passes on each part and records the totals."""

    def __init__(self, presenter: Presenter) -> None:
        self.presenter = presenter
        self.record: Record = Record()
        self.since: float = time.monotonic()

    def start(self, agent: str, prompt: str) -> None:
        """Start a run."""
        self.record = Record()
        self.since = time.monotonic()
        self.presenter.start(agent, prompt)

    def part(self, part: StreamPart) -> None:
        """Pass on a part of the run."""
        self.presenter.part(part, self.record.part(part))

    def end(self, trouble: CliError | None = None) -> None:
        """End the run, with its error if it failed."""
        self.presenter.end(self.record.summary(time.monotonic() - self.since, trouble))


@fx.gen
def _program(
    job: Job, telling: RunTotals, heard: Callable[[Any], None], ready: Callable[[], None]
) -> Gen[None, Any, Scope]:
    if job.durable is not None:
        yield from job.durable.begin(job.prompts[0])
    begun = yield from StateMemory(job.memory or Memory.in_process(), job.setting.state).load_state()
    there = yield from open_setting(job.setting, heard, begun)
    if job.memory is not None:
        yield from close_calls(job.memory)
    memory = yield from _memory(there, job)
    agent = there.agent if memory is None else there.agent.with_memory(memory)
    ready()
    inbox = there.services.find(Inbox) or Inbox.in_process()
    for prompt in job.prompts:
        telling.start(there.agent.name, prompt)
        shown = agent.stream(prompt).for_each(lambda part: fx.sync(lambda: telling.part(part)))
        if job.durable is not None:
            shown = job.durable.make_durable(shown)
        yield from with_typing(shown, partial(_steer, inbox)).provide_context(there.services.put(Inbox, inbox))
        waits = None if job.durable is None else (yield from job.durable.waiting())
        if waits is not None:
            yield from fx.fail(waits)
        if telling.record.waiting:
            now = yield from there.tools.now
            yield from fx.fail(_open_calls_error(telling.record.waiting, now.toolkit))
        if isinstance(memory, StateMemory):
            yield from memory.save()
            telling.record.state = memory.state
        telling.end()


@fx.gen
def _memory(there: OpenSetting, job: Job) -> Gen[Memory | None, Any]:
    """Return the memory of the run, or None to use the memory of the agent."""
    if there.agent.prompt is None:
        return job.memory
    kept = yield from find_memory(there, job.memory)
    return StateMemory(kept or Memory.in_process(), job.setting.state)


def _steer(inbox: Inbox, line: str) -> None:
    fx.run_sync(inbox.steer(line))
    click.echo("fxai: the next step reads this message.", err=True)


def _open_calls_error(waiting: tuple[Pending, ...], kit: Toolkit[Any]) -> CliError:
    calls = ", ".join(f"{one.name} {in_line(one.params)}" for one in waiting)
    if all(one.approval_id is None for one in waiting):
        return CliError(f"no result for the external call of {calls}", "fxai chat can ask you for the result.")
    remedy = "fxai chat can ask you for the approval."
    if any(one.name in kit and asks_by_caution(kit.tools[one.name]) for one in waiting):
        remedy += " With --yes, the tools of --mcp run without approval."
    return CliError(f"no user can approve the call of {calls}", remedy)
