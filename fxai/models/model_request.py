"""Requests to a language model, independent of any provider, and how the calls that it answers with are to be run.

>>> ModelRequest(Prompt.make("Hello"), temperature=0).tool_choice
'auto'
>>> ToolChoice.one_of(["add", "weather"], mode="required").allows("add")
True
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, cast, final

import msgspec

from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Instruction, Suspend, Within
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.stream import StreamOf
from fxai.effects.tracing import Operation, Tracer
from fxai.messages.errors import AiError
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
from fxai.schema.data import frozen
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.call import OnInvalidCall, Outcome, model_output
from fxai.tools.tool import Tool
from fxai.tools.tool_error import InvalidParameters, UnknownTool
from fxai.tools.toolkit import Toolkit

_Calling = TypeVar("_Calling", ToolCall, ToolParamsStart)


@final
class ToolChoice(msgspec.Struct, frozen=True):
    """A choice among named tools; where none is named, use `"auto"`, `"none"` or `"required"`."""

    names: tuple[str, ...]
    """The tools that may be called."""
    mode: Literal["auto", "required", "tool"] = "auto"
    """`"auto"`: one of them or none. `"required"`: one of them. `"tool"`: the tool that is named."""

    @staticmethod
    def tool(name: str) -> ToolChoice:
        """The model must call this tool."""
        return ToolChoice((name,), "tool")

    @staticmethod
    def one_of(names: Iterable[str], *, mode: Literal["auto", "required"] = "auto") -> ToolChoice:
        """The model is shown these tools alone; with `mode="required"` it must call one of them.

        Raises:
            ValueError: there is no name.
        """
        chosen = tuple(names)
        if not chosen:
            raise ValueError('ToolChoice.one_of needs a name at least; to allow no tool, say "none"')
        return ToolChoice(chosen, mode)

    def allows(self, name: str) -> bool:
        """Whether a call of the tool `name` is within the choice."""
        return name in self.names


ToolChoices: TypeAlias = Literal["auto", "none", "required"] | ToolChoice
"""`"auto"` (any tool or none), `"none"`, `"required"` (any tool), or a choice among named ones."""


def allows(choice: ToolChoices, name: str) -> bool:
    """Whether `choice` allows a call of the tool `name`."""
    return choice.allows(name) if isinstance(choice, ToolChoice) else choice != "none"


def narrow(choice: ToolChoice, tools: Container[str]) -> ToolChoices:
    """What is left of a choice where only `tools` are there.

    Where none of its tools is, nothing is required: `"auto"` in place of the one tool that had to be called, and
    `"none"` in place of several that alone were allowed.

    >>> narrow(ToolChoice.one_of(["add", "weather"]), {"add"}).names, narrow(ToolChoice.tool("add"), ())
    (('add',), 'auto')
    """
    left = tuple(name for name in choice.names if name in tools)
    if left:
        return choice if len(left) == len(choice.names) else ToolChoice(left, choice.mode)
    return "auto" if choice.mode == "tool" else "none"


def refusal(choice: ToolChoices) -> str:
    """Why a call outside `choice` was not run, for the model."""
    if isinstance(choice, ToolChoice):
        return f"the tool choice of this turn allows only: {', '.join(choice.names)}"
    return "the tool choice of this turn allows no tool"


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The effort of reasoning before an answer. If the model lacks an effort, fxai sends the nearest one and warns."""


class ModelOptions(TypedDict, total=False):
    """Options of a request to any model. A field that a provider lacks is a warning on the response, never an error."""

    max_tokens: int | None
    """The most tokens that it may answer with."""
    temperature: float | None
    """How varied the answer may be; 0 is the least."""
    stop: tuple[str, ...]
    """Texts at which the answer ends; they are not part of it."""
    reasoning: ReasoningEffort | None
    """How much it should think first."""
    parallel_tool_calls: bool | None
    """Whether it may call several tools in one turn."""
    provider_options: Mapping[str, Any]
    """By provider name, what only that provider understands."""


class Model(Protocol):
    """What takes requests: a language model."""

    @property
    def info(self) -> ModelInfo | None:
        """Which model it is; None: it hands requests on to others."""
        ...

    def ask(self, request: ModelRequest, /) -> EffectOf[tuple[Part, ...], AiError, None]:
        """The model's turn, whole."""
        ...

    def ask_stream(self, request: ModelRequest, /) -> StreamOf[StreamPart, AiError, None]:
        """The same turn as it comes."""
        ...


@final
class ModelRequest(msgspec.Struct, frozen=True):
    """A request to a language model: the conversation, the tools, and how it should answer."""

    prompt: Prompt
    tools: tuple[Tool[Any, Any, Any], ...] = ()
    tool_choice: ToolChoices = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    reasoning: ReasoningEffort | None = None
    parallel_tool_calls: bool | None = None
    response_schema: JsonSchema | None = None
    """The JSON Schema that the text of the answer must be an instance of; None for free text."""
    response_name: str | None = None
    """What that answer is called; None: as its schema's title says, or nothing of its own."""
    provider_options: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if self.provider_options:
            msgspec.structs.force_setattr(self, "provider_options", frozen(self.provider_options))

    def answered_as(self, schema: Schema[Any]) -> ModelRequest:
        """The request whose answer is to be of a type."""
        return msgspec.structs.replace(self, response_schema=schema.document, response_name=schema.name)

    def __hash__(self) -> int:
        return hash((self.prompt, self.tools, self.tool_choice))


# -- asking a model, so that a tracer hears of it


@final
class ModelCall(Operation, eq=False):
    """A request to a language model, for a tracer; it gives the parts of the turn, or a stream of them."""

    info: ModelInfo
    request: ModelRequest
    is_stream: bool


def ask_model(model: Model, request: ModelRequest) -> EffectOf[tuple[Part, ...], AiError]:
    """`model.ask(request)`, of which a tracer hears, if there is one and the model itself answers."""
    return _Asking(model, request)


def stream_model(model: Model, request: ModelRequest) -> StreamOf[StreamPart, AiError]:
    """`model.ask_stream(request)`, of which a tracer hears, as `ask_model`."""
    return StreamOf(_Streaming(model, request))


@final
class _Asking(Instruction, eq=False):
    model: Model
    request: ModelRequest
    op = Within.op

    def f(self, services: ContextOf[Any]) -> AnyEffect:
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

    def f(self, services: ContextOf[Any]) -> AnyEffect:
        model, request = self.model, self.request
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is None or (info := model.info) is None:
            return model.ask_stream(request).pull()
        opening = Suspend(lambda: model.ask_stream(request).pull())
        traced: AnyEffect = tracer.trace_stream(ModelCall(info, request, is_stream=True), opening)
        return traced


# -- a round: its request, and how the calls of its turn are run

Repair: TypeAlias = Callable[
    [ToolCall, UnknownTool | InvalidParameters],
    ToolCall | EffectOf[ToolCall | None, Any, Any] | PlainAwaitable[ToolCall | None] | None,
]
"""Mends a call that is invalid, once: gives another call in its place, or None to let it fail; or an effect of these.

Where it fails, or gives a call that may not be run, the call fails as it would have: its result and a warning say why
it was not mended. What it raises is a defect, as is anything else that it gives.

The other call takes the place of the first one in the response and in the history, under its id, marked as `repaired`.
In a stream it comes as a second call of that id, before its result. A call whose parameters fit once JSON text in them
is read (see `JsonText`) needs no repair.
"""


_COMMON = frozenset(ModelOptions.__annotations__)


class RoundOptions(ModelOptions, total=False):
    """What one round takes beside prompt and toolkit."""

    tool_choice: ToolChoices
    """Which tools the model may or must call; `"auto"` by default. Enforced on its reply too. Where there is no tool to
    choose, nothing is required, and a warning says so."""
    concurrency: int | None
    """How many calls run at once; None, the default, is all of them. Results are in the order of the calls always."""
    resolve_tools: bool
    """False: the calls are given back and not run."""
    on_invalid_call: OnInvalidCall
    """Where the model's mistakes go: `"return"` (the default) tells the model, `"error"` fails."""
    repair: Repair | None
    """Mends a call that is invalid, once, before it counts as failed."""
    deadline: float | None
    """When the run will be cut off, by the clock's `monotonic`: handlers find it in their context."""


@final
class Resolution(msgspec.Struct, frozen=True):
    """How calls are to be resolved."""

    tools: Mapping[str, Tool[Any, Any, Any]]
    choice: ToolChoices = "auto"
    concurrency: int | None = None
    on_invalid_call: OnInvalidCall = "return"
    repair: Repair | None = None
    prompt: Prompt | None = None
    deadline: float | None = None
    limits: Limits = CALL_LIMITS
    approved: bool = False
    """Whether the calls are approved already."""
    warnings: tuple[WarningPart | ResponseMetadata, ...] = ()
    """What was requested of the round and is not done, and a break of the prefix: the first parts of its response."""

    def with_break(self, found: PrefixBreak) -> Resolution:
        """Return the resolution of a turn whose response names a break of the prefix."""
        return msgspec.structs.replace(self, warnings=(ResponseMetadata(prefix_break=found), *self.warnings))

    def without(self, parts: Iterable[Part]) -> Resolution:
        """Return the resolution of a turn without the tools that its request left out, as its warnings state.

        The tools that a model sees are the tools that can run. A choice is narrowed to them.

        Args:
            parts: The parts of the turn.
        """
        warnings = [part for part in parts if part.type == "warning" and part.kind == "unsupported-tool"]
        gone = {part.subject for part in warnings} & self.tools.keys()
        if not gone:
            return self
        left = {name: tool for name, tool in self.tools.items() if name not in gone}
        choice = narrow(self.choice, left) if isinstance(self.choice, ToolChoice) else self.choice
        return msgspec.structs.replace(self, tools=left, choice=choice)

    def mark_dynamic(self, part: _Calling) -> _Calling:
        """A call, or the beginning of one, marked as dynamic where no type describes it.

        Its tool is a dynamic one, or there is no such tool.
        """
        if part.dynamic:
            return part
        tool = self.tools.get(part.name)
        is_dynamic = not part.provider_executed if tool is None else tool.identity.kind == "dynamic"
        return msgspec.structs.replace(part, dynamic=True) if is_dynamic else part

    def result(self, call: ToolCall, outcome: Outcome) -> ToolResult:
        """The outcome of a call as a part of the response."""
        tool = self.tools.get(call.name)
        shows = tool is not None and tool.to_model_output is not None and not outcome.is_failure
        encoded = model_output(tool, outcome.result) if tool is not None and shows else outcome.encoded_result
        return ToolResult(
            call.id, call.name, outcome.result, encoded, outcome.is_failure, outcome.preliminary, dynamic=call.dynamic
        )


def prepare(
    prompt: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    *,
    is_hidden: Callable[[str], bool] | None = None,
    may_be_silent: bool = False,
) -> tuple[ModelRequest, Resolution] | AiError:
    """The request of a round and how its calls are resolved, or why there can be none.

    Args:
        prompt: the conversation.
        toolkit: the tools of the round.
        options: see `RoundOptions`.
        is_hidden: tells of a name whether it is that of a tool which this round lacks on purpose, so that a tool choice
            may name it. Where no tool is left to choose, nothing is required, and a warning says so.
        may_be_silent: whether there may be nothing to answer, since the request is only counted.
    """
    tools = toolkit.tools
    silence = None if may_be_silent else _silence(prompt)
    if silence is not None:
        return _error(InvalidUserInputError(f"there is nothing to answer: {silence}"))
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
    """Why there is nothing to answer; None where there is. The last messages are looked at, not the whole history."""
    for at in range(len(prompt) - 1, -1, -1):
        message = prompt[at]
        if message.role == "system":
            continue
        for part in message.content:
            if part.type != "text" or part.text.strip():
                return None
            if message.role == "assistant" and part.metadata:  # what only its provider can read
                return None
        if message.role == "user":
            return (
                "the last message is blank text; say something in it, or leave it out to go on from what is before it"
            )
    if len(prompt):
        return "the prompt has no message but system messages and blank ones, nothing that a user said"
    return "the prompt has no message; say something, as in Prompt.make('Hello')"


def _left(choice: ToolChoices, toolkit: Toolkit[Any]) -> tuple[ToolChoices, tuple[WarningPart, ...]]:
    """What of a choice can be demanded with these tools, and the warning where nothing can."""
    if isinstance(choice, ToolChoice):
        left = narrow(choice, toolkit)
        if isinstance(left, ToolChoice):
            return left, ()
        problem = f"none of its tools ({', '.join(choice.names)}) is among those of this turn: nothing is chosen"
    elif choice == "required" and not len(toolkit):
        left, problem = "auto", "a tool is required and there is none: nothing is chosen"
    else:
        return choice, ()
    return left, (WarningPart(message=f"tool_choice: {problem}", kind="unsupported-option", subject="tool_choice"),)


def _problem(choice: ToolChoices, toolkit: Toolkit[Any], is_hidden: Callable[[str], bool] | None) -> Reason | None:
    if isinstance(choice, ToolChoice):
        unknown = [name for name in choice.names if name not in toolkit] if len(toolkit) else []
        unknown = unknown if is_hidden is None else [name for name in unknown if not is_hidden(name)]
        if unknown:
            there = ", ".join(toolkit.tools)
            constraint = f"names tools that are not in the toolkit: {', '.join(unknown)}; there are: {there}"
            return InvalidRequestError(parameter="tool_choice", constraint=constraint)
    elif choice not in ("auto", "none", "required"):
        constraint = f"is {choice!r}, which is no choice: give 'auto', 'none', 'required' or a ToolChoice"
        return InvalidRequestError(parameter="tool_choice", constraint=constraint)
    return None
