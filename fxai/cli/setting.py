"""Settings: an agent with the layer, model, servers, and memory of the command line. Use `open_setting` to open one.

A `StateFile` stores the state of a stateful prompt, and a `StateMemory` observes it.

>>> from fxai.cli.example import agent, layer
>>> Setting(agent, layer).model is None
True
>>> memory_at("notes.jsonl")  # doctest: +ELLIPSIS
Memory.file('...notes.jsonl')
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, final

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.agents import Memory, MemoryFailure
from fxai.agents.agent import with_only
from fxai.agents.memory import keeps_no_state
from fxai.agents.state import PromptState, StateError
from fxai.cli.exit import FAILED, CliError, refusing, require_writable, wrong_use
from fxai.cli.model_list import model_layer, require_ready
from fxai.cli.prompt_view import AnyAgent, require_prompt
from fxai.cli.run_program import GIVE_HANDLERS, require_services
from fxai.effects import ContextOf, Effect, Failed, Gen, Layer, MissingServiceError, Scope, Succeeded, fx
from fxai.effects.layer import AnyLayer
from fxai.messages import Pending, Prompt, ToolMessage, ToolResultPart
from fxai.models import LanguageModel
from fxai.providers.by_name import from_name
from fxai.storage.private_file import read_file, replace_file
from fxai.tools import ApprovalUnavailable, BoundToolkit, Interrupted, ToolSource
from fxai.tools.tool_error import encode_failure
from fxai.tools.toolkit import AnyBound

_OTHER_FILE: Final = "Pass another file, or move this file away to start with the initial state."


def state_at(path: str, memory: str | None = None) -> StateFile:
    """Return the state file at `path`, which can be missing. `memory` is the file of the conversation, if any."""
    location = Path(path)
    require_writable(location, "the state", path)
    problem = None
    if not os.access(location.parent, os.W_OK):  # each write replaces the whole file
        problem = f"no permission to write in {location.parent}"
    elif memory is not None and Path(memory).resolve() == location.resolve():
        problem = "the file of --memory already stores the state"
    if problem is not None:
        raise wrong_use(f"cannot store the state in {path}: {problem}", "Name a file that you can write.")
    return StateFile(location)


@final
class StateFile:
    """A JSON file with the state of a stateful prompt. Only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> PromptState | None:
        """Return the state, or None if the file does not exist."""
        if not os.path.lexists(self.path):
            return None
        with self._refusing("read", _OTHER_FILE):
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
        with self._refusing("write", "Free space, or name another file. The file is unchanged."):
            replace_file(self.path, text)

    def remove(self) -> None:
        """Remove the file if it exists."""
        with self._refusing("remove", "Remove it yourself."):
            self.path.unlink(missing_ok=True)

    def _refusing(self, doing: str, remedy: str) -> AbstractContextManager[None]:
        return refusing(f"cannot {doing} the state in {self.path}", remedy, code=FAILED)


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
        def choose(kept: PromptState | None) -> Effect[PromptState | None, MemoryFailure]:
            return self._memory.load_state() if kept is None else fx.succeed(kept)

        file = self._file
        return self._memory.load_state() if file is None else fx.sync(file.read).flat_map(choose)

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


_LEFT: Final = "no user approved or denied it before the conversation continued"
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
        failure = ApprovalUnavailable(waiting.name, _LEFT)
    encoded = encode_failure(failure)
    return ToolResultPart(waiting.id, waiting.name, encoded, is_failure=True, dynamic=waiting.dynamic)


@final
class Setting(msgspec.Struct, frozen=True):
    """An agent with the layer of its handlers, and the servers that provide more tools.

    `model` is the name of a model. If it is None, the agent or the layer provides the model. Otherwise fxai uses the
    local model. `state` is the file with the state of the agent's prompt, or None. If `quotes_results` is true, the
    default local model answers with the results of its calls.
    """

    agent: AnyAgent
    layer: AnyLayer | None = None
    model: str | None = None
    servers: tuple[ToolSource[Any, Any, Any], ...] = ()
    state: StateFile | None = None
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
    missing = [t.name for t in setting.agent.binding.unanswered if services.find(t.identity) is None]
    if missing:
        problem = f"missing handlers for tools of agent {setting.agent.name!r}: {', '.join(missing)}"
        remedy = GIVE_HANDLERS if setting.layer is None else "Provide a layer that has a handler for each tool."
        return (yield from fx.fail(CliError(problem, remedy)))
    model = LanguageModel.__fx_key__()
    require_services(setting.agent.binding.unanswered, services.put(model, services.find(model, default=True)))
    require_prompt(setting.agent, state, services)
    own = setting.agent.model
    is_local = setting.model is None and own is None and services.find(LanguageModel) is None
    tools = yield from setting.agent.with_tools(setting.servers).binding.open().provide_context(services)
    # before the model, which loads slowly, so that fxai reports a missing service first
    early = yield from build_handlers(tools, services, services.put(model, services.find(model, default=True))).exit()
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
    tools = early.value if isinstance(early, Succeeded) else (yield from build_handlers(tools, services))
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
    tools: AnyBound, services: ContextOf[Any], later: ContextOf[Any] | None = None
) -> Gen[AnyBound, Any, Scope]:
    """Return the tools with their handlers, built until the scope ends. Tools that change over time stay unbuilt.

    Fail if a handler requires a service that is missing. `later` contains the services of calls, which are by default
    the same services.
    """
    if tools.is_live:
        return tools
    given: ContextOf[Any] = yield from tools.layer.build().provide_context(services)
    require_services(tools.toolkit, (later or services).merge(given))
    return BoundToolkit.of(tools.toolkit, Layer.effect_context(fx.succeed(given)))
