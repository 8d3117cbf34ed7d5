"""Guards: judge what a model and its tools receive and return. Use them to refuse or change content.

A guard is a value with a name. It has hooks for requests, turns, arguments, and results, see `Guard.make`. Each hook
can allow, change, or refuse.

`guard.wrap(layer)` guards the model and the handlers of a layer. To combine guards, write `outer.and_then(inner)`: the
outer guard sees requests and arguments first, and answers and results last.

A refused request or turn fails with an `AiError` whose reason is a `GuardRefusalError`. A refused call fails with
`Refused`, which the model can read if the failure mode of the tool is `"return"`. A guard never allows by mistake: an
exception in a hook is a defect, and a typed failure of a hook is a refusal.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> polite = Guard.make("polite", after_model=lambda request, turn: Refuse("rude") if "fool" in turn.text else None)
>>> model = polite.wrap(ScriptedModel.make([text("Good day."), text("You fool.")]).layer)
>>> asked = LanguageModel.generate_text("Hello").provide(model)
>>> fx.run(asked).text
'Good day.'
>>> model = polite.wrap(ScriptedModel.make([text("You fool.")]).layer)
>>> print(fx.run_result(LanguageModel.generate_text("Hello").provide(model)).failure().reason.message)
The guard 'polite' refused the response: rude
"""

# The type variable of the requirements has a default, for a hook without requirements.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, Literal, TypeAlias, cast, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar, override

from fxai.effects.cause import Cause
from fxai.effects.constructor import die, fail, of_result
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Ask, Effect, EffectOf, FailCause, Fold, Local, Succeed, Suspend
from fxai.effects.layer import LayerOf, MemoMap, build_layer
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf, pull_stream
from fxai.messages.errors import AiError
from fxai.messages.message import Message, TextPart, ToolCallPart, ToolResultPart
from fxai.messages.part import AnyPart, Part, ReasoningDelta, StreamPart, Text, TextDelta, ToolCall, Usage
from fxai.messages.prompt import Prompt
from fxai.messages.reason import GuardRefusalError
from fxai.messages.response import Response, stream_of
from fxai.models.interceptor import Interceptor
from fxai.models.language_model import ForwardingModel, LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.token_count import TokenCount
from fxai.schema.codec import Schema
from fxai.schema.fault import Fault
from fxai.tools.aspects.aspect import Aspect, Gate, Invocation, Return, Ring, hook_answer, identity_of
from fxai.tools.handler import InnerCalls
from fxai.tools.identity import Identity
from fxai.tools.tool import Tool
from fxai.tools.tool_error import CallFailureError, Refused

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_T = TypeVar("_T")
_E = TypeVar("_E")
_V = TypeVar("_V")
_R = TypeVar("_R", default=None)
_R2 = TypeVar("_R2")
_R_co = TypeVar("_R_co", covariant=True, default=None)

Streaming: TypeAlias = Literal["hold", "pass"]
"""The treatment of a streamed turn by `after_model`.

- `"hold"`: no part leaves before the guard has judged the whole turn. The reader waits for the end of the turn.
- `"pass"`: each part except the end leaves immediately. The guard judges the whole turn at its end. It can only allow
  or refuse, and the refusal states how many characters have left. No call of a refused turn runs.
"""


@final
class Refuse(msgspec.Struct, frozen=True):
    """The answer of a hook that refuses."""

    reason: str
    """The reason of the refusal. It enters the failure, so it can reach the model or a user."""


GuardReturn = TypeAliasType(
    "GuardReturn",
    Return[_V]
    | Refuse
    | EffectOf[Return[_V] | Refuse | None, Any, _R]
    | Generator[EffectOf[Any, Any, _R], object, Return[_V] | Refuse | None]
    | PlainAwaitable[Return[_V] | Refuse | None]
    | None,
    type_params=(_V, _R),
)
"""The possible return values of a hook: None allows, `Return(value)` replaces the value, and `Refuse(reason)` refuses.

A hook can also return an effect, a generator of effects, or an awaitable of these. An effect can require `R`.
"""

_Hook: TypeAlias = Callable[..., Any]
_Verdict: TypeAlias = Return[Any] | Refuse | None
_KINDS = (Return, Refuse)


# -- guards


@final
class GuardRing(msgspec.Struct, frozen=True):
    """A single guard, not a combination."""

    name: str
    only: Identity | None = None
    """The tool of the hooks for tools, or None for all tools."""
    before_model: _Hook | None = None
    after_model: _Hook | None = None
    before_tool: _Hook | None = None
    after_tool: _Hook | None = None
    streaming: Streaming = "hold"

    def __call__(self) -> Gate:
        """Return the wrap of the hooks for tools."""
        return _ToolGuard(self)

    def judge(self, hook: _Hook, around: AnyContext, *about: Any) -> AnyEffect:
        """Return the effect of the answer of a hook: a `Return`, a `Refuse`, or None."""

        def advise(given: Any) -> str:
            return f"guard {self.name!r} returned {given!r}. Return None to allow, Return(value), or Refuse(reason)."

        def on_cause(cause: Cause[Any]) -> AnyEffect | None:
            if cause.defects or not cause.failures:
                return None
            return Succeed(Refuse(f"the guard could not decide: {cause.failures[0]}"))

        def own(services: AnyContext) -> AnyContext:
            # The services around the guarded layer win, because the model of a call is the guarded model. A journal
            # records the judgement as a part of the turn or call, so the requests of the hook need no record.
            merged = {**services.services, **around.services}
            return ContextOf(
                {key: one for key, one in merged.items() if key is not Interceptor and key is not InnerCalls}
            )

        asked = Fold(Suspend(lambda: hook_answer(hook(*about), _KINDS, advise)), on_cause, None)
        return Local(asked, own)

    def has_tool_hooks(self) -> bool:
        """Return whether the guard judges calls."""
        return self.before_tool is not None or self.after_tool is not None


@final
class Guard(msgspec.Struct, Generic[_R_co], frozen=True):
    """A guard of models and tools. `R` is the set of services that it needs, a union that always contains `None`.

    `and_then` is associative, and `Guard.empty()` is its neutral element.
    """

    rings: tuple[GuardRing, ...] = ()
    """The single guards of a combination, outermost first."""

    # -- constructors

    @staticmethod
    def empty() -> Guard:
        """Return the guard that allows everything."""
        return Guard()

    @overload
    @staticmethod
    def make(
        name: str,
        *,
        tool: Tool[_P, _S, _F],
        before_tool: Callable[[Invocation[_P]], GuardReturn[_P, _R]] | None = ...,
        after_tool: Callable[[Invocation[_P], Result[_S, _F]], GuardReturn[Result[_S, _F], _R]] | None = ...,
    ) -> Guard[_R | None]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        before_model: Callable[[ModelRequest], GuardReturn[ModelRequest, _R]] | None = ...,
        after_model: Callable[[ModelRequest, Response], GuardReturn[Response, _R]] | None = ...,
        before_tool: Callable[[Invocation], GuardReturn[Any, _R]] | None = ...,
        after_tool: Callable[[Invocation, Result[Any, Any]], GuardReturn[Result[Any, Any], _R]] | None = ...,
        streaming: Streaming = ...,
    ) -> Guard[_R | None]: ...
    @staticmethod
    def make(
        name: str,
        *,
        tool: Any = None,
        before_model: _Hook | None = None,
        after_model: _Hook | None = None,
        before_tool: _Hook | None = None,
        after_tool: _Hook | None = None,
        streaming: Streaming = "hold",
    ) -> Any:
        """Return a guard with a name and at least one hook. See `GuardReturn` for the answers of a hook.

        Args:
            name: Name of the guard, for its refusals.
            tool: Tool whose calls the guard judges. The tool also defines the types. Default: all tools.
            before_model: Hook for a request, also before fxai counts its tokens. `Return(request)` replaces it.
            after_model: Hook for the request and the turn. `Return(response)` replaces the turn. The request is the
                request that `before_model` received.
            before_tool: Hook for the decoded arguments. `Return(params)` replaces them. fxai validates them.
            after_tool: Hook for the success or the typed failure of the handler. `Return(Success(…))` or
                `Return(Failure(…))` replaces it. fxai sends no preliminary values of a guarded call.
            streaming: The treatment of a streamed turn by `after_model`. Default: `"hold"`.

        Raises:
            ValueError: If the name is empty, no hook exists, or `streaming` is unknown.
            SchemaError: If the tool is external. It has no handler in this program.
        """
        if not name:
            raise ValueError("guard name must not be empty")
        if streaming not in ("hold", "pass"):
            raise ValueError(f"guard {name!r}: streaming must be 'hold' or 'pass', got {streaming!r}")
        hooks = before_model, after_model, before_tool, after_tool
        if all(hook is None for hook in hooks):
            raise ValueError(
                f"guard {name!r} has no hook. Pass before_model=, after_model=, before_tool=, or after_tool=."
            )
        return Guard((GuardRing(name, identity_of(tool), *hooks, streaming),))

    # -- composition

    def and_then(self, inner: Guard[_R2]) -> Guard[_R_co | _R2]:
        """Return this guard around `inner`. This guard sees requests and arguments first, answers and results last."""
        return Guard((*self.rings, *inner.rings))

    # -- use

    @property
    def aspect(self) -> Aspect[_R_co]:
        """The hooks for tools as an aspect, for the tools of a stateful prompt and the order among other aspects."""
        rings = [Ring(ring.only, ring) for ring in self.rings if ring.has_tool_hooks()]
        return Aspect(tuple(rings))

    def wrap(self, layer: LayerOf[_T, _E, _R2]) -> LayerOf[_T, _E, _R_co | _R2]:
        """Return the layer with a guarded model and guarded handlers. Its other services stay unchanged.

        The hooks use the services around the layer, not the services of the layer: a hook that needs a `LanguageModel`
        receives the model that you provide to the new layer.

        Building the layer raises `ValueError` if a guard has a hook for models and the layer has no model, or a hook
        for tools and the layer has no handler. It raises `HandlerError` if the layer has no handler for the tool of a
        guard.
        """
        aspect = self.aspect

        def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
            def guard(given: AnyContext) -> AnyEffect:
                return Ask(lambda around: aspect.start()(self._guard_model(given, around), around))

            return build_layer(layer, memo, scope).flat_map(guard)

        return LayerOf(build)

    def _guard_model(self, given: AnyContext, around: AnyContext) -> AnyContext:
        model: LanguageModel | None = given.services.get(LanguageModel)
        has_handler = any(isinstance(key, Identity) for key in given)
        for ring in reversed(self.rings):
            if ring.has_tool_hooks() and not has_handler:
                raise ValueError(f"guard {ring.name!r} has a hook for tools, but the layer has no handler to guard")
            if ring.before_model is not None or ring.after_model is not None:
                if model is None:
                    raise ValueError(f"guard {ring.name!r} has a hook for models, but the layer has no model to guard")
                model = _GuardedModel(model, ring, around)
        return given if model is None else given.put(LanguageModel, model)


# -- tools


@final
class _ToolGuard(Gate):
    def __init__(self, ring: GuardRing) -> None:
        self._ring = ring
        self.holds_preliminary = ring.after_tool is not None

    @override
    def pass_on(self, call: Invocation, proceed: Callable[[Any], AnyEffect], around: AnyContext) -> AnyEffect:
        before, after = self._ring.before_tool, self._ring.after_tool

        def run(given: Invocation) -> AnyEffect:
            ran = proceed(given.params)
            return ran if after is None else self._judge_result(after, given, ran, around)

        if before is None:
            return run(call)

        def decide(verdict: _Verdict) -> AnyEffect:
            if verdict is None:
                return run(call)
            if isinstance(verdict, Refuse):
                return self._refuse(call, "arguments", verdict)
            schema, faults = call.tool.parameters, tuple[Fault, ...]()
            if isinstance(schema, Schema):
                encoded = schema.encode(verdict.value)
                faults = encoded.failure().faults if isinstance(encoded, Failure) else ()
            elif call.tool.validation == "schema":
                faults = schema.validate(verdict.value)
            if faults:
                problem = f"invalid arguments for {call.tool.name!r}: {'; '.join(map(str, faults))}"
                raise TypeError(f"guard {self._ring.name!r} returned {problem}")
            return run(Invocation(verdict.value, call.context))

        return self._ring.judge(before, around, call).flat_map(decide)

    def _judge_result(self, hook: _Hook, call: Invocation, ran: AnyEffect, around: AnyContext) -> AnyEffect:
        def judge(result: Result[Any, Any], unchanged: AnyEffect) -> AnyEffect:
            def decide(verdict: _Verdict) -> AnyEffect:
                if verdict is None:
                    return unchanged
                if isinstance(verdict, Refuse):
                    return self._refuse(call, "result", verdict)
                value: object = verdict.value
                if isinstance(value, Success | Failure):
                    return of_result(cast("Result[Any, Any]", value))
                expected = "Return(Success(…)) or Return(Failure(…))"
                raise TypeError(f"guard {self._ring.name!r} must return {expected}, got {verdict!r}")

            return self._ring.judge(hook, around, call, result).flat_map(decide)

        def on_cause(cause: Cause[Any]) -> AnyEffect | None:
            if cause.defects or not cause.failures:
                return None
            return judge(Failure(cause.failures[0]), FailCause(cause))

        return Fold(ran, on_cause, lambda value: judge(Success(value), Succeed(value)))

    def _refuse(self, call: Invocation, at: Literal["arguments", "result"], verdict: Refuse) -> AnyEffect:
        return die(CallFailureError(Refused(call.tool.name, guard=self._ring.name, at=at, reason=verdict.reason)))


# -- models


@final
class _GuardedModel(ForwardingModel):
    def __init__(self, model: LanguageModel, ring: GuardRing, around: AnyContext) -> None:
        self._model = model
        self._ring = ring
        self._around = around

    @property
    @override
    def facts(self) -> ModelFacts | None:
        return self._model.facts

    @override
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        return Succeed(self._model)

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        return self._before(request).flat_map(self._model.count)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        def answer(given: ModelRequest) -> EffectOf[tuple[Part, ...], AiError]:
            def judge(parts: tuple[Part, ...]) -> AnyEffect:
                return self._after(request, Response(parts)).map(lambda response: response.content)

            asked = ask_model(self._model, given)
            return asked if self._ring.after_model is None else asked.flat_map(judge)

        return self._before(request).flat_map(answer)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def answer(given: ModelRequest) -> StreamOf[StreamPart, AiError]:
            stream = stream_model(self._model, given)
            if self._ring.after_model is None:
                return stream
            return self._pass(request, stream) if self._ring.streaming == "pass" else self._hold(request, stream)

        return StreamOf.unwrap(self._before(request).map(answer))

    def _before(self, request: ModelRequest) -> EffectOf[ModelRequest, AiError]:
        hook = self._ring.before_model
        if hook is None:
            return Succeed(request)

        def decide(verdict: _Verdict) -> EffectOf[ModelRequest, AiError]:
            if isinstance(verdict, Refuse):
                return fail(self._error("request", verdict))
            return Succeed(request if verdict is None else self._value(verdict, ModelRequest))

        return self._ring.judge(hook, self._around, request).flat_map(decide)

    def _after(self, request: ModelRequest, response: Response, sent: int | None = None) -> EffectOf[Response, AiError]:
        """Return the turn after the judgement. `sent` is the number of characters that left, or None if none can."""

        def decide(verdict: _Verdict) -> EffectOf[Response, AiError]:
            if isinstance(verdict, Refuse):
                return fail(self._error("response", verdict, sent or 0, response.usage))
            if verdict is not None and self._ring.streaming == "pass":
                raise TypeError(f'guard {self._ring.name!r} cannot change a turn with streaming="pass". Use "hold".')
            return Succeed(response if verdict is None else self._value(verdict, Response))

        return self._ring.judge(cast(_Hook, self._ring.after_model), self._around, request, response).flat_map(decide)

    def _hold(self, request: ModelRequest, stream: StreamOf[StreamPart, AiError]) -> StreamOf[StreamPart, AiError]:
        def release(parts: list[StreamPart]) -> EffectOf[StreamOf[StreamPart], AiError]:
            whole = Response.from_stream(parts)
            judged = self._after(request, whole)
            return judged.map(
                lambda one: StreamOf.from_iterable(parts if one is whole else list(stream_of(one.content)))
            )

        return StreamOf.unwrap(stream.collect().flat_map(release))

    def _pass(self, request: ModelRequest, stream: StreamOf[StreamPart, AiError]) -> StreamOf[StreamPart, AiError]:
        def watch(pull: AnyEffect) -> AnyEffect:
            came: list[AnyPart] = []
            is_judged = False

            def see(part: Any) -> AnyEffect:
                nonlocal is_judged
                if is_judged or (part is not END and part.type != "finish"):
                    came.append(part)
                    return Succeed(part)
                is_judged = True
                sent = sum(len(one.delta) for one in came if isinstance(one, TextDelta | ReasoningDelta))
                came.extend(() if part is END else (part,))
                return self._after(request, Response.from_stream(came), sent).as_(part)

            return pull.flat_map(see)

        return StreamOf(pull_stream(stream).map(watch))

    def _value(self, verdict: Return[Any], kind: type[_V]) -> _V:
        if not isinstance(verdict.value, kind):
            raise TypeError(f"guard {self._ring.name!r} must return Return({kind.__name__}), got {verdict.value!r}")
        return verdict.value

    def _error(
        self, at: Literal["request", "response"], verdict: Refuse, sent: int = 0, usage: Usage | None = None
    ) -> AiError:
        known = {name: n for name, n in msgspec.structs.asdict(usage or Usage()).items() if n is not None}
        return AiError("Guard", at, GuardRefusalError(self._ring.name, at, verdict.reason, sent, known))


# -- text


@overload
def rewrite_text(value: ModelRequest, f: Callable[[str], str]) -> ModelRequest: ...
@overload
def rewrite_text(value: Response, f: Callable[[str], str]) -> Response: ...
def rewrite_text(value: Any, f: Callable[[str], str]) -> Any:
    """Return the request or the turn with `f` applied to each of its strings. Unchanged messages stay the same objects.

    The strings are texts, instructions, and the strings inside the arguments and results of calls, without the keys of
    objects. Reasoning stays unchanged, because providers sign it. Files and metadata of providers also stay unchanged.

    >>> rewrite_text(Response((Text("I am Ann."),)), lambda text: text.replace("Ann", "[name]")).text
    'I am [name].'
    """
    if isinstance(value, Response):
        parts = tuple([_rewrite_part(part, f) for part in value.content])
        return value if _is_same(parts, value.content) else Response(parts)

    def rewrite(message: Message) -> Message:
        if message.role == "system":
            text = f(message.content)
            return message if text == message.content else msgspec.structs.replace(message, content=text)
        parts: Any = tuple([_rewrite_part(part, f) for part in message.content])
        return message if _is_same(parts, message.content) else msgspec.structs.replace(message, content=parts)

    messages = list(map(rewrite, value.prompt))
    if _is_same(messages, value.prompt):
        return value
    return msgspec.structs.replace(value, prompt=Prompt(messages))


def _is_same(new: Any, old: Any) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))


def _rewrite_part(part: Any, f: Callable[[str], str]) -> Any:
    fields: Mapping[str, Any] = {}
    if isinstance(part, Text | TextPart):
        fields = {"text": f(part.text)}
    elif isinstance(part, ToolCall | ToolCallPart):
        written = part.params_text
        fields = {"params": _rewrite_data(part.params, f), "params_text": None if written is None else f(written)}
    elif isinstance(part, ToolResultPart):
        fields = {"result": _rewrite_data(part.result, f)}
    changed = {name: new for name, new in fields.items() if new != getattr(part, name)}
    return msgspec.structs.replace(part, **changed) if changed else part


def _rewrite_data(data: Any, f: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return f(data)
    if isinstance(data, Mapping):
        return {key: _rewrite_data(one, f) for key, one in cast("Mapping[str, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [_rewrite_data(one, f) for one in cast("list[Any]", data)]
    return data
