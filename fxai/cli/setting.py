"""Settings: an agent with the layer, model, servers, and memory of the command line. Use `open_setting` to open one.

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

from fxai.agents.agent import with_only
from fxai.agents.memory import Memory, MemoryFailure, keeps_no_state
from fxai.agents.state import PromptState
from fxai.cli.exit import WRONG_USE, CliError, why_unwritable
from fxai.cli.failure import GIVE_HANDLERS, require_services
from fxai.cli.model_list import require_ready
from fxai.cli.prompt_view import AnyAgent, require_prompt
from fxai.cli.state_file import StateFile
from fxai.effects import fx
from fxai.effects.cause import Failed, Succeeded
from fxai.effects.context import ContextOf, MissingServiceError
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

_LEFT: Final = "no user approved or denied it before the conversation continued"
_UNRUN: Final = "no user ran it before the conversation continued"
_LINES: Final = (".jsonl", ".ndjson")
_DATABASE: Final = (".db", ".sqlite", ".sqlite3")


def memory_at(path: str) -> Memory:
    """Return the memory in a file, which can be missing. The suffix selects JSON lines or a SQLite database."""
    location = Path(path)
    suffix = location.suffix.lower()
    if suffix not in (*_LINES, *_DATABASE):
        remedy = f"Use the suffix {_LINES[0]} for a file of JSON lines, or {_DATABASE[0]} for a SQLite database."
        raise CliError(f"the name {path!r} does not show the kind of memory", remedy, code=WRONG_USE)
    problem = why_unwritable(location)
    if problem is not None:
        raise CliError(f"cannot store messages in {path}: {problem}", "Name a file that you can write.", code=WRONG_USE)
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

    def __hash__(self) -> int:
        return hash(self.agent)


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
        return (yield from fx.fail(_handler_error(setting, missing)))
    model = LanguageModel.__fx_key__()
    require_services(setting.agent.binding.unanswered, services.put(model, services.find(model, default=True)))
    require_prompt(setting.agent, state, services)
    own = setting.agent.model
    is_local = setting.model is None and own is None and services.find(LanguageModel) is None
    tools = yield from setting.agent.with_tools(setting.servers).binding.open().provide_context(services)
    # before the model, which loads slowly, so that fxai reports a missing service first
    early = yield from build_handlers(tools, services, services.put(model, services.find(model, default=True))).exit()
    if isinstance(early, Failed) and not any(_lacks(defect, model) for defect in early.cause.defects):
        return (yield from fx.fail_cause(early.cause))
    if is_local:
        require_ready("local")
    if setting.model is not None or is_local:
        services = services.merge((yield from _model_of(setting, heard).build()))
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


def model_layer(name: str, heard: Callable[[Any], None]) -> Layer[LanguageModel, AiError]:
    """Return the layer of the model with this name. `heard` receives the progress of loading a local model."""
    return from_name(name, progress=heard) if name.partition(":")[0] == "local" else from_name(name)


def _lacks(defect: BaseException, key: object) -> bool:
    return isinstance(defect, MissingServiceError) and defect.key == key


def _model_of(setting: Setting, heard: Callable[[Any], None]) -> Layer[LanguageModel, AiError]:
    if setting.quotes_results and setting.model in (None, "local"):
        return from_name("local", progress=heard, quotes_results=True)
    return model_layer(setting.model or "local", heard)


def _handler_error(setting: Setting, missing: list[str]) -> CliError:
    problem = f"missing handlers for tools of agent {setting.agent.name!r}: {', '.join(missing)}"
    if setting.layer is None:
        return CliError(problem, GIVE_HANDLERS)
    return CliError(problem, "Provide a layer that has a handler for each tool.")
