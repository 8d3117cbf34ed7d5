"""Composites are toolkits that a model sees as one tool. Use a composite to run several calls in one call.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from fxai.tools.toolkit import Toolkit
>>> from returns.result import Failure, Success
>>> half = Tool.make("half", description="Halves a number.", parameters=int, success=int, failure=str)
>>> on_half = half.handler(lambda n: Failure("odd") if n % 2 else Success(n // 2))
>>> math = Toolkit.make(half).as_tool("math", description="Arithmetic.")
>>> print(math.tool.description)
Arithmetic.
<BLANKLINE>
Available sub-tools:
- half: Halves a number.
>>> calls = {"calls": [{"name": "half", "args": 8}, {"name": "half", "args": 7}]}
>>> outcome = fx.run_sync(Toolkit.make(math.tool).call("math", calls).provide(math.layer.provide(on_half)))
>>> outcome.encoded_result
{'results': [{'name': 'half', 'result': 4}, {'name': 'half', 'result': {'error': 'odd'}}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, Never, TypeAlias, cast, final

import msgspec
from returns.result import Result
from typing_extensions import TypeVar, override

from fxai.effects.cause import AnyCause, Cause, Die
from fxai.effects.concurrency import for_each
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fold, Local, Succeed
from fxai.effects.layer import AnyLayer, LayerOf, layer_from_context
from fxai.schema.codec import Schema
from fxai.schema.document import relocate
from fxai.schema.fault import DecodeFailure, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.annotation import Annotations, Destructive, ExplicitNull, Idempotent, OpenWorld, Readonly
from fxai.tools.call import Call, Outcome, model_output
from fxai.tools.handler import (
    Answering,
    CallInfo,
    Given,
    HandlerError,
    InnerCall,
    InnerCalls,
    context_of,
)
from fxai.tools.handler_types import Gives, HandlerOf
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_error import HandlerFailed, HandlerUnavailable, OutcomeUnknown, Refused, encode_failure
from fxai.tools.tool_info import CallContext, NeedsApproval, ToolInfo
from fxai.tools.tool_options import ToolOptions

_T_co = TypeVar("_T_co", covariant=True)

_Tools: TypeAlias = Mapping[str, AnyTool]

_BASE = "Runs several calls of the sub-tools below and returns all their results."


@final
class SubCall(msgspec.Struct, frozen=True):
    """A call inside the call of a composite."""

    name: str
    """The name of the sub-tool."""
    args: Any = {}
    """The arguments as a JSON value. `{}` if the model omits them."""

    @override
    def __hash__(self) -> int:
        return hash(self.name)  # args are not hashable


@final
class SubCalls(msgspec.Struct, frozen=True):
    """The parameters of a composite."""

    calls: tuple[SubCall, ...]
    """The inner calls, in order."""


@final
class SubError(msgspec.Struct, frozen=True):
    """The failure of an inner call."""

    error: Any
    """The failure as a JSON value. The sub-tool encodes it."""

    @override
    def __hash__(self) -> int:
        return hash(SubError)


@final
class SubResult(msgspec.Struct, frozen=True):
    """The result of an inner call."""

    name: str
    """The name of the sub-tool."""
    result: Any
    """The success as a JSON value, encoded by the sub-tool, or a `SubError`."""

    @override
    def __hash__(self) -> int:
        return hash(self.name)


@final
class SubResults(msgspec.Struct, frozen=True):
    """The success of a composite."""

    results: tuple[SubResult, ...]
    """The result of each inner call, in the order of the calls."""


@final
class Composite(msgspec.Struct, Generic[_T_co], frozen=True):
    """A toolkit as one tool. `.tool` is the tool. `.layer` is its handler, which needs the handlers of the toolkit.

    fxai decodes and runs each inner call separately. An unknown name, invalid arguments, and a typed failure in either
    failure mode become `{"error": …}` for this inner call, and the other calls continue. A defect ends all inner calls,
    because it is not a result. A preliminary value of a sub-tool appears among the current results, at the position of
    its call.
    """

    tools: Mapping[str, AnyTool]
    """The sub-tools by name."""
    tool: Tool[SubCalls, SubResults, Never]
    """The tool. It is dynamic, and its document contains the documents of the sub-tools."""
    concurrency: int | None = 1
    """Maximum number of inner calls that run at the same time. Default: 1. None means no maximum."""

    @property
    def layer(self) -> LayerOf[HandlerOf[SubCalls, SubResults, Never], Never, _T_co | None]:
        """The layer of the tool's handler: `composite.layer.provide(kit.to_layer(…))`.

        fxai runs the handlers, with their aspects, from the context in which it builds this layer. If a handler is
        missing among tools with the same type, type checkers cannot detect it. Building the layer then raises
        `HandlerError`.
        """
        return layer_from_context(lambda context: _serve(self, context))

    @override
    def __hash__(self) -> int:
        return hash((self.tool, self.concurrency))

    def __fx_gives__(self) -> Gives[HandlerOf[SubCalls, SubResults, Never], Never, _T_co | None]:
        """Tell type checkers the handler of the tool and its requirements."""
        raise NotImplementedError

    def __fx_bound__(self) -> tuple[AnyTool, AnyLayer]:
        """Return the tool and the layer of its handler."""
        return self.tool, self.layer


def _serve(composite: Composite[Any], context: AnyContext) -> AnyContext:
    """Return the context with the handler of a composite, which uses the sub-tools' handlers from `context`."""
    name, tools = composite.tool.name, composite.tools.values()
    missing = [tool.name for tool in tools if context.find(tool.identity) is None]
    if missing:
        raise HandlerError(f"tool {name!r} has no handler for: {', '.join(missing)}", missing=missing)
    handlers = ContextOf[Any]({tool.identity: context.services[tool.identity] for tool in tools})
    identity = composite.tool.identity
    return ContextOf({identity: _Serving(composite, handlers), Given(identity, id(composite)): True})


def composite_of(
    sub_tools: Iterable[AnyTool], name: str, concurrency: int | None, options: ToolOptions
) -> Composite[Any]:
    """Implement `Toolkit.as_tool`."""
    tools = {tool.name: tool for tool in sub_tools}
    if not tools:
        raise SchemaError(f"tool {name!r} must have at least one sub-tool, got an empty toolkit")
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, or None for no limit, got {concurrency}")
    external = [tool.name for tool in tools.values() if not tool.requires_handler]
    if external:
        raise SchemaError(
            f"tool {name!r} cannot call the external tools {', '.join(external)}. Omit them from the toolkit."
        )
    own = options.get("annotations", Annotations())
    given: Any = {
        **options,
        "description": _description(tools, options.get("description")),
        "annotations": _annotations(tools).merge(own if isinstance(own, Annotations) else Annotations(own)),
        "needs_approval": _approval(tools, options.get("needs_approval", False)),
    }
    if given.get("to_model_output") is None and any(tool.to_model_output is not None for tool in tools.values()):
        given["to_model_output"] = _Shown(tools)
    tool: Any = Tool.dynamic(
        name, parameters=_document(*tools.values()), success=SubResults, validation=_CallValidation(tools), **given
    )
    return Composite(tools, tool, concurrency)


# -- the definition of the tool


def _description(tools: _Tools, own: str | None) -> str:
    listed = "\n".join(
        f"- {tool.name}" if tool.description is None else f"- {tool.name}: {tool.description}"
        for tool in tools.values()
    )
    return f"{_BASE if own is None else own}\n\nAvailable sub-tools:\n{listed}"


def _annotations(tools: _Tools) -> Annotations:
    """Return annotations for the effects of all sub-tools."""
    every = {key: all(tool.get(key) for tool in tools.values()) for key in (Readonly, Idempotent)}
    some = {key: any(tool.get(key) for tool in tools.values()) for key in (Destructive, OpenWorld, ExplicitNull)}
    return Annotations({**every, **some})


@lru_cache(256)  # a stateful prompt defines its tools again for each step
def _document(*tools: AnyTool) -> JsonSchema:
    definitions: dict[str, Any] = {}
    arms = [_arm(tool, at, definitions) for at, tool in enumerate(tools)]
    calls = {"type": "array", "items": {"anyOf": arms}}
    document = {"type": "object", "properties": {"calls": calls}, "required": ["calls"], "additionalProperties": False}
    return JsonSchema.of({**document, "$defs": definitions} if definitions else document)


def _arm(tool: AnyTool, at: int, definitions: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.parameters.document if isinstance(tool.parameters, Schema) else tool.parameters
    location = f"/properties/calls/items/anyOf/{at}/properties/args"
    args = relocate(parameters.to_dict(), location, definitions, tool.name)
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [tool.name]}, "args": args},
        "required": ["name", "args"],
        "additionalProperties": False,
    }


class _OfTools(msgspec.Struct, frozen=True):
    """A function of a composite. Functions with different sub-tools are not equal."""

    sub_tools: _Tools

    @override
    def __hash__(self) -> int:
        return hash(tuple(self.sub_tools.values()))


@final
class _CallValidation(_OfTools, frozen=True):
    """A validation that reads the name and args of each inner call. The inner call decodes its args when it runs."""

    @property
    def shape(self) -> JsonSchema:
        """The schema of the composite itself. Each sub-tool reads the args of its calls."""
        return Schema.of(SubCalls).document

    def __call__(self, value: Any) -> Result[SubCalls, DecodeFailure]:
        return Schema.of(SubCalls).decode(value, plain=True)


def _approval(tools: _Tools, own: NeedsApproval) -> NeedsApproval:
    if own is True or all(tool.needs_approval is False for tool in tools.values()):
        return own
    return _Asking(tools, own)


@final
class _Asking(_OfTools, frozen=True):
    """An approval predicate. A call needs approval if an inner call needs it, or if the composite's option says so."""

    own: NeedsApproval

    def __call__(self, params: SubCalls, context: CallContext) -> EffectOf[bool, Any, Any]:
        asked = for_each(range(len(params.calls)), lambda at: self._one(params.calls[at], at, context))
        return asked.flat_map(lambda needed: Succeed(True) if any(needed) else self._itself(params, context))

    def _one(self, call: SubCall, at: int, context: CallContext) -> EffectOf[bool, Never, Any]:
        tool = self.sub_tools.get(call.name)
        inside = None if tool is None else context.inside(tool, _id(context.call_id, at))
        return Call(self.sub_tools, call.name, call.args).needs_approval(inside)

    def _itself(self, params: SubCalls, context: CallContext) -> EffectOf[bool, Any, Any]:
        own: Any = self.own if isinstance(self.own, bool) else self.own(params, context)
        return cast("EffectOf[bool, Any, Any]", own) if isinstance(own, EffectOf) else Succeed(own)


@final
class _Shown(_OfTools, frozen=True):
    """A `to_model_output` that shows each success as its sub-tool shows it."""

    def __call__(self, given: SubResults) -> Any:
        return {"results": [{"name": one.name, "result": self._one(one)} for one in given.results]}

    def _one(self, given: SubResult) -> Any:
        if isinstance(given.result, SubError):
            return {"error": given.result.error}
        tool = self.sub_tools.get(given.name)
        if tool is None or tool.to_model_output is None:
            return given.result
        return model_output(tool, tool.success.decode_unsafe(given.result))


# -- the run


@final
class _Serving:
    """The handler of a composite, with the handlers of its sub-tools."""

    __slots__ = ("_composite", "_handlers")

    is_composition = True
    """True, because the handler only runs the inner calls, and a durable run can resume each inner call separately."""

    def __init__(self, composite: Composite[Any], handlers: AnyContext) -> None:
        self._composite = composite
        self._handlers = handlers

    def answer(self, params: SubCalls, tool: ToolInfo, call: CallInfo | None, services: AnyContext) -> AnyEffect:
        """Return the effect of the results."""
        run = _Run(self._composite.tools, params.calls, tool, call, services.services.get(InnerCalls))
        ran = for_each(range(len(params.calls)), run.one, concurrency=self._composite.concurrency)
        # The services can contain other handlers of the same tools, so the composite adds its own handlers.
        context = services.merge(self._handlers)
        return Local(ran.map(lambda results: SubResults(tuple(results))), lambda _: context)

    def missing(self, services: AnyContext) -> tuple[Any, ...]:
        """Return the keys of the services that the handlers of the sub-tools miss."""
        context = services.merge(self._handlers)
        found: list[Answering | None] = [context.find(tool.identity) for tool in self._composite.tools.values()]
        missing = (key for handler in found if handler is not None for key in handler.missing(context))
        return tuple(dict.fromkeys(missing))


@final
class _Run:
    """A call of a composite."""

    __slots__ = ("_around", "_call", "_calls", "_context", "_ended", "_tools")

    def __init__(
        self,
        tools: Mapping[str, AnyTool],
        calls: tuple[SubCall, ...],
        tool: ToolInfo,
        call: CallInfo | None,
        around: InnerCalls | None,
    ) -> None:
        self._tools = tools
        self._around = around
        self._calls = calls
        self._call = call
        self._context = context_of(tool, call)
        self._ended: list[SubResult | None] = [None] * len(calls)

    def one(self, at: int) -> EffectOf[SubResult, Never, Any]:
        """Run one inner call."""
        asked, around = self._calls[at], self._call
        made = Call(
            self._tools,
            asked.name,
            asked.args,
            call_id=_id(self._context.call_id, at),
            prompt=None if around is None else around.prompt,
            deadline=self._context.deadline,
            emit=None if around is None or around.emit is None else lambda outcome: self._emit(at, outcome),
        )
        running, tool = made.effect, self._tools.get(asked.name)
        if self._around is not None and tool is not None:
            about = InnerCall(at, asked.name, asked.args, made.call_id, tool)
            running = self._around.inner_call(about, running)
        return Fold(
            running, lambda cause: self._on_cause(at, cause), lambda outcome: self._record(at, _result(outcome))
        )

    def _record(self, at: int, result: Any) -> EffectOf[SubResult]:
        kept = self._ended[at] = SubResult(self._calls[at].name, result)
        return Succeed(kept)

    def _emit(self, at: int, outcome: Outcome) -> EffectOf[None]:
        shown = [*self._ended]
        shown[at] = SubResult(self._calls[at].name, outcome.encoded_result)
        return self._context.preliminary(SubResults(tuple(one for one in shown if one is not None)))

    def _on_cause(self, at: int, cause: AnyCause) -> EffectOf[SubResult, Never, Any] | None:
        if cause.defects or not cause.failures:
            return None
        failure: Any = cause.failures[0]
        if type(failure) is HandlerFailed:
            tool = self._tools[failure.name]
            return self._record(at, SubError(tool.failure.encode_unsafe(failure.error)))
        if isinstance(failure, HandlerUnavailable | OutcomeUnknown | Refused):
            return self._record(at, SubError(encode_failure(failure)))
        return FailCause(Cause((Die(TypeError(str(failure))),)))  # an invalid result is a bug of the handler


def _id(call_id: str, at: int) -> str:
    """Return the id of an inner call, which consists of the outer id and an index."""
    return f"{call_id}/{at}" if call_id else ""


def _result(outcome: Outcome) -> Any:
    return SubError(outcome.encoded_result) if outcome.is_failure else outcome.encoded_result
