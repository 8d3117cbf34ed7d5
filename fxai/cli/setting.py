"""Settings: an agent with the layer, model, servers, and memory of the command line. Use `open_setting` to open one.

A tool of an MCP server needs an approval unless the server marks the tool read-only. The mark is only a hint, and a
client must not trust it more than it trusts the server.

>>> from fxai.tools.tool import Tool
>>> look, change = Tool.make("look", success=str).annotate(Readonly, True), Tool.make("change", success=str)
>>> [asks_by_caution(tool) for tool in require_approval(Toolkit.make(look, change))]
[False, True]
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, final

import click
import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.agents import Agent, Inbox, Memory, MemoryFailure
from fxai.agents.agent import with_only
from fxai.agents.memory import keeps_no_state
from fxai.agents.state import PromptState, StateError
from fxai.cli.exit import FAILED, CliError, error_from, refusing, require_writable, wrong_use
from fxai.cli.input import read_prompt, with_typing
from fxai.cli.model_list import model_layer, require_ready
from fxai.cli.prompt_view import AnyAgent, agent_of, is_agent, require_prompt
from fxai.cli.run_program import GIVE_HANDLER, GIVE_HANDLERS, require_handlers, require_services, value_of
from fxai.cli.screen import AnswerOnly, JsonLines, LoadProgress, Record, TerminalScreen
from fxai.cli.target import find_server, load_layer, load_matching
from fxai.effects import ContextOf, Effect, Failed, Gen, Layer, MissingServiceError, Scope, Succeeded, fx
from fxai.effects.layer import AnyLayer
from fxai.messages import Pending, Prompt, ToolMessage, ToolResultPart
from fxai.models import LanguageModel
from fxai.providers.by_name import from_name
from fxai.schema.display import in_line
from fxai.storage.private_file import read_file, replace_file
from fxai.tools import AnyTool, ApprovalUnavailable, BoundToolkit, Interrupted, Toolkit, ToolSource
from fxai.tools.annotation import Readonly
from fxai.tools.tool_error import encode_failure
from fxai.tools.toolkit import AnyBound

if TYPE_CHECKING:
    from fxai.cli.run_list import DurableArgs
    from fxai.mcp.settings import Elicit


_OTHER_FILE: Final = "Pass another file, or move this file away to start with the initial state."


def state_at(path: str, memory: str | None = None) -> StateFile:
    """Return the state file at `path`, which can be missing. `memory` is the file of the conversation, if any."""
    location = Path(path)
    require_writable(location, "the state", path)
    if not os.access(location.parent, os.W_OK):  # each write replaces the whole file
        problem = f"no permission to write in {location.parent}"
    elif memory is not None and Path(memory).resolve() == location.resolve():
        problem = "the file of --memory already stores the state"
    else:
        return StateFile(location)
    raise wrong_use(f"cannot store the state in {path}: {problem}", "Name a file that you can write.")


@final
class StateFile:
    """A JSON file with the state of a stateful prompt. Only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> PromptState | None:
        """Return the state, or None if the file does not exist."""
        if not os.path.lexists(self.path):
            return None
        with refusing(f"cannot read the state in {self.path}", _OTHER_FILE, code=FAILED):
            text = read_file(self.path)
        read = PromptState.from_json(text)
        if isinstance(read, Success):
            state: PromptState = read.unwrap()
            return state
        raise CliError(f"{self.path} is not a valid state of a prompt: {read.failure()}", _OTHER_FILE)

    def write(self, state: PromptState) -> None:
        """Replace the state on the disk completely, or leave the file unchanged."""
        try:
            text = state.to_json().encode()
        except StateError as error:
            message = f"cannot store the state in {self.path}: {error}"
            raise CliError(message, "The file is unchanged.", cause=error) from None
        remedy = "Free space, or name another file. The file is unchanged."
        with refusing(f"cannot write the state in {self.path}", remedy, code=FAILED):
            replace_file(self.path, text)

    def remove(self) -> None:
        """Remove the file if it exists."""
        with refusing(f"cannot remove the state in {self.path}", "Remove it yourself.", code=FAILED):
            self.path.unlink(missing_ok=True)


@final
class StateMemory(Memory):
    """A memory that wraps another memory. If a state file exists, the state of the file has priority.

    It notes the last committed state. `save` writes this state to the file after a successful run.
    """

    def __init__(self, memory: Memory, file: StateFile | None = None) -> None:
        self._memory = memory
        self._file = file
        self.state: PromptState | None = None
        """The last committed state, or None before the first commit."""

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return self._memory.load()

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        own = self._memory.load_state()
        if self._file is None:
            return own
        return fx.sync(self._file.read).flat_map(lambda kept: own if kept is None else fx.succeed(kept))

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return self.commit_with(messages, None)

    @override
    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        def note(_: Any) -> None:
            self.state = state

        return self._memory.commit_with(messages, state).map(note)

    def save(self) -> Effect[None]:
        """Return an effect that writes the last committed state to the file, if both exist."""

        def write() -> None:
            if self._file is not None and self.state is not None:
                self._file.write(self.state)

        return fx.sync(write)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self._memory.turns()

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def forget(_: Any) -> None:
            self.state = None
            if self._file is not None:
                self._file.remove()

        return self._memory.clear().map(forget)


_UNRUN: Final = "no user ran it before the conversation continued"
_LINES: Final = (".jsonl", ".ndjson")
DATABASE: Final = (".db", ".sqlite", ".sqlite3")
"""The suffixes of SQLite databases."""


def memory_at(path: str) -> Memory:
    """Return the memory in a file, which can be missing. The suffix selects JSON lines or a SQLite database."""
    location = Path(path)
    suffix = location.suffix.lower()
    if suffix not in (*_LINES, *DATABASE):
        remedy = f"Use the suffix {_LINES[0]} for a file of JSON lines, or {DATABASE[0]} for a SQLite database."
        raise wrong_use(f"the name {path!r} does not show the kind of memory", remedy)
    require_writable(location, "messages", path)
    return Memory.file(location) if suffix in _LINES else Memory.sqlite(location)


@fx.gen
def close_calls(memory: Memory) -> Gen[Prompt, MemoryFailure]:
    """Return the conversation in a memory. Close its open calls first, so that the conversation can continue."""
    before = yield from memory.load()
    if before.pending:
        left = [closing_result(one) for one in before.pending]
        yield from memory.commit(Prompt((ToolMessage.make(*left),)))
        return (yield from memory.load())
    return before


def closing_result(waiting: Pending, stopped: str | None = None) -> ToolResultPart:
    """Return the result that closes an open call. `stopped` is the reason for a call that the user stopped."""
    if waiting.approval_id is None or stopped is not None:
        failure: ApprovalUnavailable | Interrupted = Interrupted(waiting.name, stopped or _UNRUN)
    else:
        failure = ApprovalUnavailable(waiting.name, "no user approved or denied it before the conversation continued")
    encoded = encode_failure(failure)
    return ToolResultPart(waiting.id, waiting.name, encoded, is_failure=True, dynamic=waiting.dynamic)


@final
class Setting(msgspec.Struct, frozen=True):
    """An agent with the layer of its handlers, and the servers that provide more tools.

    `model` is the name of a model. If it is None, the agent or the layer provides the model. Otherwise fxai uses the
    local model. `state` is the file with the state of the agent's prompt, or None. `memory` is the memory that the user
    chose, or None. If `quotes_results` is true, the default local model answers with the results of its calls.
    """

    agent: AnyAgent
    layer: AnyLayer | None = None
    model: str | None = None
    servers: tuple[ToolSource[Any, Any, Any], ...] = ()
    state: StateFile | None = None
    memory: Memory | None = None
    quotes_results: bool = False


@final
class OpenSetting(msgspec.Struct, frozen=True):
    """An agent that can run repeatedly, because its servers, handlers, and model are open.

    The agent has the tools of its servers but no model of its own. The services contain the model and the handlers of
    tools without their own handlers.
    """

    agent: AnyAgent
    tools: AnyBound
    services: ContextOf[Any]


@fx.gen
def open_setting(
    setting: Setting, heard: Callable[[Any], None], state: PromptState | None = None
) -> Gen[OpenSetting, Any, Scope]:
    """Return an effect that opens a setting until the scope ends. It renders the prompt with `state` to find its needs.

    The effect opens the layer first, then the servers, the handlers, and the model. Parts that open quickly report
    errors first.
    """
    services: ContextOf[Any] = ContextOf({})
    if setting.layer is not None:
        services = yield from setting.layer.build()
    whose = f"agent {setting.agent.name!r}"
    remedy = GIVE_HANDLERS if setting.layer is None else GIVE_HANDLER
    require_handlers(setting.agent.binding.unanswered, services, whose, remedy)
    model = LanguageModel.__fx_key__()
    require_services(setting.agent.binding.unanswered, services.put(model, services.find(model, default=True)))
    require_prompt(setting.agent, state, services)
    own = setting.agent.model
    is_local = setting.model is None and own is None and services.find(LanguageModel) is None
    tools = yield from setting.agent.with_tools(setting.servers).binding.open().provide_context(services)
    # before the model, which loads slowly, so that fxai reports a missing service first
    later = services.put(model, services.find(model, default=True))
    early = yield from build_handlers(tools, services, whose, later).exit()
    if isinstance(early, Failed):
        lacking = [defect.key for defect in early.cause.defects if isinstance(defect, MissingServiceError)]
        if model not in lacking:
            return (yield from fx.fail_cause(early.cause))
    if is_local:
        require_ready("local")
    if setting.model is not None or is_local:
        name = setting.model or "local"
        layer = model_layer(name, heard)
        if setting.quotes_results and name == "local":
            layer = from_name("local", progress=heard, quotes_results=True)
        services = services.merge((yield from layer.build()))
    elif own is not None:
        services = services.merge((yield from own.build().provide_context(services)))
    tools = early.value if isinstance(early, Succeeded) else (yield from build_handlers(tools, services, whose))
    return OpenSetting(with_only(setting.agent, tools), tools, services)


@fx.gen
def find_memory(there: OpenSetting, chosen: Memory | None) -> Gen[Memory | None, Any]:
    """Return the chosen memory, otherwise the memory of the agent. If the agent only reads its memory, return a copy.

    Fail if the agent has a stateful prompt and its memory cannot store states.
    """
    own = there.agent.remembering
    if chosen is not None or own is None:
        return chosen
    memory = yield from own.find().provide_context(there.services)
    if own.auto_append:
        if there.agent.prompt is not None and type(memory).commit_with is Memory.commit_with:
            return (yield from fx.fail(keeps_no_state(memory)))
        return memory
    copy = Memory.in_process()
    messages = yield from memory.load()
    state = yield from memory.load_state()
    yield from copy.commit_with(messages, state)
    return copy


@fx.gen
def build_handlers(
    tools: AnyBound, services: ContextOf[Any], whose: str, later: ContextOf[Any] | None = None
) -> Gen[AnyBound, Any, Scope]:
    """Return the tools with their handlers, built until the scope ends. Tools that change over time stay unbuilt.

    Fail if a handler, or a service that a handler requires, is missing. `whose` names the tools. `later` contains the
    services of calls, which are by default the same services.
    """
    if tools.is_live:
        return tools
    given: ContextOf[Any] = yield from tools.layer.build().provide_context(services)
    there = (later or services).merge(given)
    require_handlers(tools.toolkit, there, whose, GIVE_HANDLER)
    require_services(tools.toolkit, there)
    return BoundToolkit.of(tools.toolkit, Layer.effect_context(fx.succeed(given)))


# -- a run of an agent


def read_args(
    *,
    agent: str | None = None,
    layer: str | None = None,
    model: str | None = None,
    rounds: int | None = None,
    system: str | None = None,
    mcp: tuple[str, ...] = (),
    memory: str | None = None,
    state: str | None = None,
    elicit: Elicit | None = None,
    **servers: Any,
) -> tuple[Setting, tuple[str, ...]]:
    """Return the setting of the chosen agent, and the default prompts of the agent. Use the options of `fxai run`.

    Without `agent`, use the example agent. With `system` or `mcp` and no `agent`, use a new agent without other tools.
    `elicit` answers the questions of servers to the user. Without it, the run declines them.
    """
    own: tuple[str, ...] = ()
    supplied: AnyLayer | None = None
    chosen: Agent[Any, Any, Any, Any]
    if model is not None:
        require_ready(model)
    if agent is not None:
        chosen = agent_of(load_matching(agent, is_agent, "an agent or a stateful prompt"))
    elif mcp or system is not None:
        chosen = Agent.make("agent")
    else:
        from fxai.cli import example

        chosen, own = example.agent, example.prompts()
        supplied = example.layer
    if layer is not None:
        added = load_layer(layer)
        supplied = added if supplied is None else supplied | added
    sources = _sources(mcp, elicit=elicit, **servers)
    if state is not None and chosen.prompt is None:
        problem = f"--state requires a stateful prompt, but agent {chosen.name!r} has none"
        raise wrong_use(problem, "Remove --state, or name another agent.")
    file = None if state is None else state_at(state, memory)
    kept = None if memory is None else memory_at(memory)
    if rounds is not None:
        chosen = msgspec.structs.replace(chosen, budget=msgspec.structs.replace(chosen.budget, rounds=rounds))
    if system is not None:
        chosen = msgspec.structs.replace(chosen, instructions=system)
    return Setting(chosen, supplied, model, sources, file, kept, quotes_results=bool(own)), own


def _sources(
    mcp: tuple[str, ...], *, unasked: bool = False, elicit: Elicit | None, **flags: Any
) -> tuple[ToolSource[Any, Any, Any], ...]:
    """Return the MCP servers. `flags` are the other options of `find_server`."""
    if not mcp:
        for name, given in {"yes": unasked, **flags}.items():
            if given:
                raise wrong_use(f"--{name} requires --mcp", f"Pass --mcp SERVER, or remove --{name}.")
        return ()
    sources = [ToolSource.of(find_server(text, elicit=elicit, **flags)) for text in mcp]
    return tuple(sources if unasked else [source.with_toolkit(require_approval) for source in sources])


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
        setting, own = read_args(**chosen)
        given = read_prompt(prompt, "run", optional=bool(own))
        prompts = own if given is None else (given,)
        if durable is not None and len(prompts) > 1:
            raise wrong_use("--durable requires one prompt", "Write fxai run --durable RUN PROMPT.")
        with LoadProgress(err, color=color, quiet=quiet) as loading:
            value_of(fx.scoped(_program(setting, prompts, durable, record, loading)))
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
    setting: Setting, prompts: tuple[str, ...], durable: DurableArgs | None, record: Record, loading: LoadProgress
) -> Gen[None, Any, Scope]:
    """Run the agent on each prompt. A memory joins the runs to a conversation."""
    if durable is not None:
        yield from durable.begin(prompts[0])
    memory = setting.memory
    begun = yield from StateMemory(memory or Memory.in_process(), setting.state).load_state()
    there = yield from open_setting(setting, loading, begun)
    if memory is not None:
        yield from close_calls(memory)
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
