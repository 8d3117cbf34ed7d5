"""Settings: an agent with the layer, the model, the servers and the memory of the command line, closed and opened.

>>> from fxai.cli.example import agent, layer
>>> Setting(agent, layer).model is None
True
>>> memory_at("notes.jsonl")  # doctest: +ELLIPSIS
Memory.file('...notes.jsonl')
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import msgspec

from fxai.agents.memory import Memory, MemoryFailure, keeps_no_state
from fxai.agents.run_tools import Binding
from fxai.agents.state import PromptState
from fxai.cli.exit import GIVE_HANDLERS, WRONG_USE, CliError, require_services, write_obstacle
from fxai.cli.model_list import require_ready
from fxai.cli.prompt_view import AnyAgent, require_prompt
from fxai.cli.state_file import StateFile
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import Gen
from fxai.effects.layer import AnyLayer, Layer
from fxai.effects.scope import Scope
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.message import ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.models.language_model import LanguageModel
from fxai.providers.by_name import from_name
from fxai.tools.source import ToolSource
from fxai.tools.tool_error import ApprovalUnavailable, Interrupted, encode_failure
from fxai.tools.toolkit import AnyBound, BoundToolkit

_LEFT: Final = "nobody approved or denied it before the conversation went on"
_UNRUN: Final = "nobody ran it before the conversation went on"
_LINES: Final = (".jsonl", ".ndjson")
_DATABASE: Final = (".db", ".sqlite", ".sqlite3")


def memory_at(path: str) -> Memory:
    """The memory in this file, which need not exist: JSON lines, or a SQLite database, by the end of its name."""
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix not in (*_LINES, *_DATABASE):
        remedy = f"end its name with {_LINES[0]} for a file of JSON lines, or with {_DATABASE[0]} for a SQLite database"
        raise CliError(f"{path} does not say what kind of memory it is", remedy, code=WRONG_USE)
    problem = write_obstacle(place)
    if problem is not None:
        raise CliError(f"nothing can be kept in {path}: {problem}", "name a file that can be written", code=WRONG_USE)
    return Memory.file(place) if suffix in _LINES else Memory.sqlite(place)


@fx.gen
def close_calls(memory: Memory) -> Gen[Prompt, MemoryFailure]:
    """The conversation in a memory; calls that were left open there are closed, so that it can go on."""
    before = yield from memory.load()
    if before.pending:
        left = [closing_result(one) for one in before.pending]
        yield from memory.commit(Prompt((ToolMessage.make(*left),)))
        return (yield from memory.load())
    return before


def closing_result(waiting: Pending, stopped: str | None = None) -> ToolResultPart:
    """The result of a call that was left open, or of one that was `stopped`, with the reason."""
    if waiting.approval_id is None or stopped is not None:
        failure: ApprovalUnavailable | Interrupted = Interrupted(waiting.name, stopped or _UNRUN)
    else:
        failure = ApprovalUnavailable(waiting.name, _LEFT)
    encoded = encode_failure(failure)
    return ToolResultPart(waiting.id, waiting.name, encoded, is_failure=True, dynamic=waiting.dynamic)


@final
class Setting(msgspec.Struct, frozen=True):
    """An agent, the layer of its handlers and perhaps of its model, and the servers that more tools come from.

    `model` is the name of the model; None for the one that the agent or the layer has, else the local one. `state` is
    the file that the state of the agent's prompt is kept in, if one was named.
    """

    agent: AnyAgent
    layer: AnyLayer | None = None
    model: str | None = None
    servers: tuple[ToolSource[Any, Any, Any], ...] = ()
    state: StateFile | None = None


@final
class OpenSetting(msgspec.Struct, frozen=True):
    """An agent that can run any number of times: its servers, handlers and model are open already.

    The agent has the tools of its servers, and no model of its own: that is among the services, with the handlers of
    tools that do not bring theirs along.
    """

    agent: AnyAgent
    tools: AnyBound
    services: ContextOf[Any]

    def __hash__(self) -> int:
        return hash(self.agent)


@fx.gen
def open_setting(
    setting: Setting, heard: Callable[[Any], None], state: PromptState | None = None
) -> Gen[OpenSetting, Any, Scope]:
    """The agent with what it needs, until the scope ends; its prompt is rendered with `state` to see what that is.

    The handlers come first, then the servers, then the model: what is quick to open shows its errors first.
    """
    services: ContextOf[Any] = ContextOf({})
    if setting.layer is not None:
        services = yield from setting.layer.build()
    missing = [t.name for t in setting.agent.binding.unanswered if services.find(t.identity) is None]
    if missing:
        return (yield from fx.fail(_handler_error(setting, missing)))
    model = LanguageModel.__fx_key__()
    require_services(setting.agent.binding.unanswered, services.put(model, services.find(model, default=True)))
    require_prompt(setting.agent, state, services)
    own = setting.agent.model
    is_local = setting.model is None and own is None and services.find(LanguageModel) is None
    if is_local:
        require_ready("local")
    tools = yield from setting.agent.with_tools(setting.servers).binding.open().provide_context(services)
    if setting.model is not None or is_local:
        services = services.merge((yield from model_layer(setting.model or "local", heard).build()))
    elif own is not None:
        services = services.merge((yield from own.build().provide_context(services)))
    tools = yield from build_handlers(tools, services)
    bare = msgspec.structs.replace(setting.agent, model=None, without_own=True, extra=Binding())
    return OpenSetting(bare.with_tools(tools), tools, services)


@fx.gen
def find_memory(there: OpenSetting, chosen: Memory | None) -> Gen[Memory | None, Any]:
    """The chosen memory, else the agent's own; where that is only read, a new one with what it holds.

    It fails where the agent has a stateful prompt, and its memory keeps no state.
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
def build_handlers(tools: AnyBound, services: ContextOf[Any]) -> Gen[AnyBound, Any, Scope]:
    """The tools with their handlers built, until the scope ends; tools that come and go are as they were.

    It fails where a handler would not find a service that it needs.
    """
    if tools.is_live:
        return tools
    given: ContextOf[Any] = yield from tools.layer.build().provide_context(services)
    require_services(tools.toolkit, services.merge(given))
    return BoundToolkit.of(tools.toolkit, Layer.effect_context(fx.succeed(given)))


def model_layer(name: str, heard: Callable[[Any], None]) -> Layer[LanguageModel, AiError]:
    """The layer of the model of this name; only one that is loaded into this process has progress to tell."""
    return from_name(name, progress=heard) if name.partition(":")[0] == "local" else from_name(name)


def _handler_error(setting: Setting, missing: list[str]) -> CliError:
    said = f"nothing answers the tools of the agent {setting.agent.name!r}: {', '.join(missing)}"
    if setting.layer is None:
        return CliError(said, GIVE_HANDLERS)
    return CliError(said, "give a layer that has a handler for each")
