"""Requests to a language model, independent of any provider. Use this module to choose tools and options for a round.

>>> ModelRequest(Prompt.make("Hello"), temperature=0).tool_choice
'auto'
>>> ToolChoice.one_of(["add", "weather"], mode="required").allows("add")
True
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, cast, final

import msgspec

from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, EffectOf, Instruction, Suspend, Within
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.stream import StreamOf, pull_stream
from fxai.effects.tracing import Operation, Tracer
from fxai.messages.errors import AiError
from fxai.messages.message import handle_data
from fxai.messages.part import (
    Part,
    PrefixBreak,
    ResponseMetadata,
    StreamPart,
    ToolCall,
    ToolParamsStart,
    ToolResult,
    WarningPart,
)
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidRequestError, InvalidUserInputError, Reason
from fxai.models.model_info import ModelInfo
from fxai.schema.codec import Schema
from fxai.schema.data import FrozenObject, frozen
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.call import Keeper, OnInvalidCall, Outcome, model_output
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import InvalidParameters, UnknownTool
from fxai.tools.toolkit import AnyToolkit

_Calling = TypeVar("_Calling", ToolCall, ToolParamsStart)


@final
class ToolChoice(msgspec.Struct, frozen=True):
    """A choice among named tools. Without names, use `"auto"`, `"none"`, or `"required"`."""

    names: tuple[str, ...]
    """The names of the tools that the model can call."""
    mode: Literal["auto", "required", "tool"] = "auto"
    """`"auto"`: the model can call one of them. `"required"`: it must call one. `"tool"`: it must call this tool."""

    @staticmethod
    def tool(name: str) -> ToolChoice:
        """Return the choice that requires a call of this tool."""
        return ToolChoice((name,), "tool")

    @staticmethod
    def one_of(names: Iterable[str], *, mode: Literal["auto", "required"] = "auto") -> ToolChoice:
        """Return the choice that shows only these tools. With `mode="required"`, the model must call one of them.

        Raises:
            ValueError: If you pass no name.
        """
        chosen = tuple(names)
        if not chosen:
            raise ValueError('ToolChoice.one_of needs at least one name. To allow no tool, pass "none".')
        return ToolChoice(chosen, mode)

    def allows(self, name: str) -> bool:
        """Return whether the choice allows a call of the tool `name`."""
        return name in self.names


ToolChoices: TypeAlias = Literal["auto", "none", "required"] | ToolChoice
"""`"auto"` (any tool or none), `"none"`, `"required"` (any tool), or a choice among named tools."""


def allows(choice: ToolChoices, name: str) -> bool:
    """Return whether `choice` allows a call of the tool `name`."""
    return choice.allows(name) if isinstance(choice, ToolChoice) else choice != "none"


def narrow(choice: ToolChoice, tools: Container[str]) -> ToolChoices:
    """Return the choice with only the tools that are in `tools`.

    If none of the chosen tools is in `tools`, the result requires no call: `"auto"` instead of a required tool, and
    `"none"` instead of a set of allowed tools.

    >>> narrow(ToolChoice.one_of(["add", "weather"]), {"add"}).names, narrow(ToolChoice.tool("add"), ())
    (('add',), 'auto')
    """
    left = tuple(name for name in choice.names if name in tools)
    if left:
        return choice if len(left) == len(choice.names) else ToolChoice(left, choice.mode)
    return "auto" if choice.mode == "tool" else "none"


def refusal(choice: ToolChoices) -> str:
    """Return the message to the model for a call that `choice` does not allow."""
    if isinstance(choice, ToolChoice):
        return f"the tool choice of this turn allows only: {', '.join(choice.names)}"
    return "the tool choice of this turn allows no tool"


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The effort of reasoning before an answer. If the model lacks an effort, fxai sends the nearest effort and warns."""


class ModelOptions(TypedDict, total=False):
    """Options of a request to any model. If a provider lacks an option, the response contains a warning."""

    max_tokens: int | None
    """Maximum number of tokens of the answer."""
    temperature: float | None
    """The randomness of the answer. 0 is the minimum."""
    stop: tuple[str, ...]
    """Strings that end the answer. The answer does not contain them."""
    reasoning: ReasoningEffort | None
    """The effort of reasoning before the answer."""
    parallel_tool_calls: bool | None
    """True if the model can call multiple tools in a turn."""
    compact_at: int | None
    """Number of input tokens at which the provider itself compacts the conversation. Default: no compaction."""
    provider_options: Mapping[str, Any]
    """Options that only one provider supports, by the name of the provider."""


class Model(Protocol):
    """An object that accepts requests: a language model."""

    @property
    def info(self) -> ModelInfo | None:
        """The model and its provider, or None if it forwards requests to other models."""
        ...

    def ask(self, request: ModelRequest, /) -> EffectOf[tuple[Part, ...], AiError, None]:
        """Return the parts of a turn."""
        ...

    def ask_stream(self, request: ModelRequest, /) -> StreamOf[StreamPart, AiError, None]:
        """Return the parts of a turn as a stream."""
        ...


@final
class ModelRequest(msgspec.Struct, frozen=True):
    """A request to a language model: the conversation, the tools, and the options of the answer."""

    prompt: Prompt
    """The conversation."""
    tools: tuple[AnyTool, ...] = ()
    """The tools that the model can call."""
    tool_choice: ToolChoices = "auto"
    """The tools that the model can or must call."""
    max_tokens: int | None = None
    """Maximum number of tokens of the answer, or None."""
    temperature: float | None = None
    """The randomness of the answer, or None for the default of the provider."""
    stop: tuple[str, ...] = ()
    """Strings that end the answer."""
    reasoning: ReasoningEffort | None = None
    """The effort of reasoning before the answer, or None."""
    parallel_tool_calls: bool | None = None
    """True if the model can call multiple tools in a turn. None for the default of the provider."""
    response_schema: JsonSchema | None = None
    """The JSON Schema of the answer's text, or None for free text."""
    response_name: str | None = None
    """The name of the answer, or None to use the title of the schema."""
    provider_options: Mapping[str, Any] = FrozenObject()
    """Options that only one provider supports, by the name of the provider."""
    compact_at: int | None = None
    """Number of input tokens at which the provider itself compacts the conversation, or None."""

    def __post_init__(self) -> None:
        if self.provider_options:
            msgspec.structs.force_setattr(self, "provider_options", frozen(self.provider_options))

    def answered_as(self, schema: Schema[Any]) -> ModelRequest:
        """Return the request for an answer of a type."""
        return msgspec.structs.replace(self, response_schema=schema.document, response_name=schema.name)

    def __hash__(self) -> int:
        return hash((self.prompt, self.tools, self.tool_choice))


# -- traced requests


@final
class ModelCall(Operation, eq=False):
    """A request to a language model, for a tracer. It succeeds with the parts of the turn, or with a stream of them."""

    info: ModelInfo
    request: ModelRequest
    is_stream: bool


def ask_model(model: Model, request: ModelRequest) -> EffectOf[tuple[Part, ...], AiError]:
    """Return the result of `model.ask(request)`. A tracer records it if the model itself answers."""
    return _Asking(model, request)


def stream_model(model: Model, request: ModelRequest) -> StreamOf[StreamPart, AiError]:
    """Return the result of `model.ask_stream(request)`. A tracer records it if the model itself answers."""
    return StreamOf(_Streaming(model, request))


@final
class _Asking(Instruction, eq=False):
    model: Model
    request: ModelRequest
    op = Within.op

    def f(self, services: AnyContext) -> AnyEffect:
        model, request = self.model, self.request
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is None or (info := model.info) is None:
            return model.ask(request)
        asked = Suspend(lambda: model.ask(request))
        traced: AnyEffect = tracer.trace(ModelCall(info, request, is_stream=False), asked)
        return traced


@final
class _Streaming(Instruction, eq=False):
    model: Model
    request: ModelRequest
    op = Within.op

    def f(self, services: AnyContext) -> AnyEffect:
        model, request = self.model, self.request
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is None or (info := model.info) is None:
            return pull_stream(model.ask_stream(request))
        opening = Suspend(lambda: pull_stream(model.ask_stream(request)))
        traced: AnyEffect = tracer.trace_stream(ModelCall(info, request, is_stream=True), opening)
        return traced


# -- a round: its request, and the settings for its calls

Repair: TypeAlias = Callable[
    [ToolCall, UnknownTool | InvalidParameters],
    ToolCall | EffectOf[ToolCall | None, Any, Any] | PlainAwaitable[ToolCall | None] | None,
]
"""Repairs an invalid call once. It returns another call, None to let the call fail, or an effect of these.

If the repair fails, or returns a call that is not allowed, the call fails with its original failure. Its result and a
warning state the reason. An exception or any other return value is a defect.

The new call replaces the invalid call in the response and in the history, with the same id and marked as `repaired`. A
stream contains both calls with the same id, before the result. If the parameters become valid after fxai parses JSON
text in them (see `JsonText`), the call needs no repair.
"""


_COMMON = frozenset(ModelOptions.__annotations__)


class RoundOptions(ModelOptions, total=False):
    """The options for a round in addition to prompt and toolkit."""

    tool_choice: ToolChoices
    """The tools that the model can or must call. fxai also enforces the choice on the response. Without tools to
    choose, fxai requires no call, and the response contains a warning. Default: `"auto"`."""
    concurrency: int | None
    """Maximum number of concurrent calls, or None for no limit. Results have the order of the calls. Default: None."""
    resolve_tools: bool
    """False to return the calls without running them. Default: True."""
    on_invalid_call: OnInvalidCall
    """The treatment of invalid calls: `"return"` (the default) reports them to the model, `"error"` fails the round."""
    repair: Repair | None
    """A function that repairs an invalid call once before it fails."""
    deadline: float | None
    """The time when fxai will stop the run, by the clock's `monotonic`. Handlers find it in their context."""


@final
class Resolution(msgspec.Struct, frozen=True):
    """The settings for the calls in a turn."""

    tools: Mapping[str, AnyTool]
    choice: ToolChoices = "auto"
    concurrency: int | None = None
    on_invalid_call: OnInvalidCall = "return"
    repair: Repair | None = None
    prompt: Prompt | None = None
    deadline: float | None = None
    limits: Limits = CALL_LIMITS
    approved: bool = False
    """True if the calls are already approved."""
    keeper: Keeper | None = None
    """The object that stores large results, or None."""
    warnings: tuple[WarningPart | ResponseMetadata, ...] = ()
    """Warnings about requested features that fxai does not apply, and a break of the prefix. The response starts with
    them."""

    def with_break(self, found: PrefixBreak) -> Resolution:
        """Return the resolution of a turn whose response names a break of the prefix."""
        return msgspec.structs.replace(self, warnings=(ResponseMetadata(prefix_break=found), *self.warnings))

    def without(self, parts: Iterable[Part]) -> Resolution:
        """Return the settings without the tools that the request omitted, as the warnings of the turn state.

        Only tools that the model received can run. fxai narrows a choice to these tools.
        """
        gone: set[str | None] = set()
        for part in parts:
            if part.type == "warning" and part.kind == "unsupported-tool" and part.subject in self.tools:
                gone.add(part.subject)
        if not gone:
            return self
        left = {name: tool for name, tool in self.tools.items() if name not in gone}
        choice = narrow(self.choice, left) if isinstance(self.choice, ToolChoice) else self.choice
        return msgspec.structs.replace(self, tools=left, choice=choice)

    def mark_dynamic(self, part: _Calling) -> _Calling:
        """Return a call, or the start of a call, marked as dynamic if no type describes it.

        No type describes a call of a dynamic tool or of an unknown tool.
        """
        if part.dynamic:
            return part
        tool = self.tools.get(part.name)
        is_dynamic = not part.provider_executed if tool is None else tool.identity.kind == "dynamic"
        return msgspec.structs.replace(part, dynamic=True) if is_dynamic else part

    def result(self, call: ToolCall, outcome: Outcome) -> ToolResult:
        """Return the outcome of a call as a part in the response."""
        tool = self.tools.get(call.name)
        shows = tool is not None and tool.to_model_output is not None and not outcome.is_failure
        shows = shows and not outcome.handle
        encoded = model_output(tool, outcome.result) if tool is not None and shows else outcome.encoded_result
        result = ToolResult(
            call.id, call.name, outcome.result, encoded, outcome.is_failure, outcome.preliminary, dynamic=call.dynamic
        )
        return msgspec.structs.replace(result, metadata=handle_data(outcome.handle)) if outcome.handle else result


def prepare(
    prompt: Prompt,
    toolkit: AnyToolkit,
    options: RoundOptions,
    *,
    is_hidden: Callable[[str], bool] | None = None,
    may_be_silent: bool = False,
) -> tuple[ModelRequest, Resolution] | AiError:
    """Return the request of a round and the settings for its calls, or the error of an invalid request.

    `is_hidden` returns whether a name belongs to a tool that this round omits on purpose, so that a tool choice can
    name it. If no tool remains to choose, fxai requires no call, and the response contains a warning. If
    `may_be_silent` is true, the prompt can be empty, because fxai only counts the request.
    """
    tools = toolkit.tools
    silence = None if may_be_silent else _silence(prompt)
    if silence is not None:
        return _error(InvalidUserInputError(f"prompt needs no answer: {silence}"))
    if not options:
        return ModelRequest(prompt, toolkit.as_tuple), Resolution(tools, prompt=prompt)
    given = options.get("tool_choice", "auto")
    problem = _problem(given, toolkit, is_hidden)
    if problem is not None:
        return _error(problem)
    choice, warnings = (given, ()) if given == "auto" else _left(given, toolkit)
    alone = given.names if isinstance(given, ToolChoice) and given.mode != "tool" else toolkit
    shown = tuple([tool for tool in toolkit if tool.name in alone])
    common = cast(Any, {k: v for k, v in options.items() if k in _COMMON})
    resolution = Resolution(
        tools,
        choice,
        options.get("concurrency"),
        options.get("on_invalid_call", "return"),
        options.get("repair"),
        prompt,
        options.get("deadline"),
        warnings=warnings,
    )
    return ModelRequest(prompt, shown, choice, **common), resolution


def _error(problem: Reason) -> AiError:
    return AiError("LanguageModel", "prepare", problem)


def _silence(prompt: Prompt) -> str | None:
    """Return the reason why the prompt needs no answer, or None. It reads only the last messages."""
    for at in range(len(prompt) - 1, -1, -1):
        message = prompt[at]
        if message.role == "system":
            continue
        for part in message.content:
            if part.type != "text" or part.text.strip():
                return None
            if message.role == "assistant" and part.metadata:  # only its provider can read this part
                return None
        if message.role == "user":
            return "its last message is blank. Add text, or remove the message to continue from the messages before it"
    if len(prompt):
        return "it contains only system messages and blank messages. Add a message of the user"
    return "it contains no message. Pass a message, such as Prompt.make('Hello')"


def _left(choice: ToolChoices, toolkit: AnyToolkit) -> tuple[ToolChoices, tuple[WarningPart, ...]]:
    """Return the part of a choice that these tools can satisfy, and a warning if nothing remains."""
    if isinstance(choice, ToolChoice):
        left = narrow(choice, toolkit)
        if isinstance(left, ToolChoice):
            return left, ()
        problem = f"this turn has no tool of the choice ({', '.join(choice.names)}). fxai requires no call."
    elif choice == "required" and not len(toolkit):
        left, problem = "auto", "a call is required, but this turn has no tools. fxai requires no call."
    else:
        return choice, ()
    return left, (WarningPart(message=f"tool_choice: {problem}", kind="unsupported-option", subject="tool_choice"),)


def _problem(choice: ToolChoices, toolkit: AnyToolkit, is_hidden: Callable[[str], bool] | None) -> Reason | None:
    if isinstance(choice, ToolChoice):
        unknown = [name for name in choice.names if name not in toolkit] if len(toolkit) else []
        unknown = unknown if is_hidden is None else [name for name in unknown if not is_hidden(name)]
        if unknown:
            there = ", ".join(toolkit.tools)
            constraint = f"names tools that are not in the toolkit: {', '.join(unknown)}. The tools are: {there}"
            return InvalidRequestError(parameter="tool_choice", constraint=constraint)
    elif choice not in ("auto", "none", "required"):
        constraint = f"must be 'auto', 'none', 'required', or a ToolChoice, got {choice!r}"
        return InvalidRequestError(parameter="tool_choice", constraint=constraint)
    return None
