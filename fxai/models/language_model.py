"""The language model as a service: asked once, its calls resolved through a toolkit.

`LanguageModel.generate_text`, `generate_object` and `stream_text` each make one round: the model's turn, then the
results of its calls. Providers implement `ask` (and `ask_stream`); everything else is the same for all of them.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(LanguageModel.generate_text("Hello").provide(model.layer)).text
'Good day.'
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, Never, cast, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, Unpack

from fxai.effects.cause import Cause, Fail
from fxai.effects.channel import END, Channel
from fxai.effects.concurrency import for_each
from fxai.effects.context import Service
from fxai.effects.effect import Effect, EffectOf, FailCause, Fetch, FlatMap, Succeed, Suspend
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError, InvalidRequestError, Reason, StructuredOutputError
from fxai.messages.gather import gather
from fxai.messages.part import Part, StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.response import Response, stream_of
from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.request import ModelOptions, ModelRequest
from fxai.models.resolve import Repair, Resolution, Turn
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure, Fault
from fxai.tools.call import OnInvalidCall
from fxai.tools.failure import ToolError
from fxai.tools.toolkit import Toolkit

__all__ = ["LanguageModel", "ObjectResponse", "RoundOptions"]

_T = TypeVar("_T", default=Never)
_V = TypeVar("_V")
_V_co = TypeVar("_V_co", covariant=True)


class RoundOptions(ModelOptions, total=False):
    """What one round takes beside prompt and toolkit."""

    tool_choice: ToolChoices
    """Which tools the model may or must call; `"auto"` by default. Enforced on its reply too."""
    concurrency: int | None
    """How many calls run at once; None, the default, is all of them. Results are in the order of the calls always."""
    resolve_tools: bool
    """False: the calls are given back and not run."""
    on_invalid_call: OnInvalidCall
    """Where the model's mistakes go: `"return"` (the default) tells the model, `"error"` fails."""
    repair: Repair | None
    """Mends a call that is invalid, once, before it counts as failed."""
    deadline: float | None
    """When the run will be cut off, by the clock's `monotonic`: told to handlers."""


@final
class ObjectResponse(msgspec.Struct, Generic[_V_co], frozen=True):
    """A typed answer, and the response that it was read from."""

    value: _V_co
    response: Response


_COMMON = frozenset(ModelOptions.__annotations__)
_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


class LanguageModel(Service):
    """A model that can be asked. Implementations give `ask`; programs use the static methods, which need it."""

    @abstractmethod
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole: its parts in order, one `finish` among them; no results of our tools."""

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn as it comes, `finish` last. Where a model cannot stream: the whole turn at once."""
        return StreamOf.unwrap(self.ask(request).map(lambda parts: StreamOf.from_iterable(list(stream_of(parts)))))

    @staticmethod
    def generate_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, AiError | ToolError, _T | LanguageModel | None]:
        """The model's turn and the results of its calls, in the order of the calls.

        Args:
            prompt: what is said: text, messages or a `Prompt`.
            toolkit: the tools that the model may call.
            options: see `RoundOptions` and `ModelOptions`.

        Fails with `AiError` when the model cannot be asked or understood; with a `ToolError` when a handler failed in
        failure mode `"error"` or broke its promise: its `response` holds the result of every call.
        """

        def ask(model: LanguageModel, request: ModelRequest, resolution: Resolution) -> EffectOf[Response, Any, Any]:
            return model.ask(request).flat_map(lambda parts: resolved(parts, resolution, options))

        return _round(prompt, toolkit, options, ask)

    @staticmethod
    def generate_object(
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], AiError | ToolError, _T | LanguageModel | None]:
        """A typed value: the model is held to the JSON Schema of `schema`, and its text is decoded.

        Fails as `generate_text`, and with `AiError` for `StructuredOutputError` when the text does not decode: it
        holds the text and the pointer to the place; calls in the same reply were answered, and it holds their results.
        """
        wanted: Schema[_V] = Schema[Any].of(schema)

        def ask(model: LanguageModel, request: ModelRequest, resolution: Resolution) -> EffectOf[Any, Any, Any]:
            asked = msgspec.structs.replace(request, response_schema=wanted.document)
            answered = model.ask(asked).flat_map(lambda parts: resolved(parts, resolution, options))
            return answered.flat_map(lambda response: _decoded(response, wanted))

        return _round(prompt, toolkit, options, ask)

    @staticmethod
    def stream_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, AiError | ToolError, _T | LanguageModel | None]:
        """The parts of the model's turn as they come, then the results of its calls when each is there.

        Calls run when the model finished its turn; `finish` is last. Leaving the stream early stops the model and the
        handlers. Fails as `generate_text`, after the results of the other calls.
        """

        def ask(model: LanguageModel, request: ModelRequest, resolution: Resolution) -> EffectOf[Any, Any, Any]:
            return Succeed(
                StreamOf(model.ask_stream(request).pull().map(lambda pull: _Streamed(pull, resolution, options).pull))
            )

        return StreamOf.unwrap(_round(prompt, toolkit, options, ask))


def _round(prompt: PromptInput, toolkit: Toolkit[Any], options: RoundOptions, ask: Any) -> EffectOf[Any, Any, Any]:
    said = Prompt.make(prompt)

    def start(model: Any) -> EffectOf[Any, Any, Any]:
        prepared = prepare(said, toolkit, options)
        if isinstance(prepared, AiError):
            return FailCause(Cause((Fail(prepared),)))
        return cast("EffectOf[Any, Any, Any]", ask(model, *prepared))

    return FlatMap(Fetch(LanguageModel), start)


def prepare(prompt: Prompt, toolkit: Toolkit[Any], options: RoundOptions) -> tuple[ModelRequest, Resolution] | AiError:
    """The request of a round and how its calls are resolved, or why there can be none."""
    tools = toolkit.tools
    if not options:
        return ModelRequest(prompt, toolkit.as_tuple), Resolution(tools, prompt=prompt)
    choice = options.get("tool_choice", "auto")
    problem = _problem(choice, toolkit)
    if problem is not None:
        return AiError("LanguageModel", "prepare", problem)
    shown = toolkit.as_tuple
    if isinstance(choice, ToolChoice) and choice.mode != "tool":
        shown = tuple(tool for tool in shown if tool.name in choice.names)
    common = cast(Any, {k: v for k, v in options.items() if k in _COMMON})
    resolution = Resolution(
        tools,
        choice,
        options.get("concurrency"),
        options.get("on_invalid_call", "return"),
        options.get("repair"),
        prompt,
        options.get("deadline"),
    )
    return ModelRequest(prompt, shown, choice, **common), resolution


def _problem(choice: ToolChoices, toolkit: Toolkit[Any]) -> Reason | None:
    if isinstance(choice, ToolChoice):
        unknown = [name for name in choice.names if name not in toolkit]
        if unknown:
            there = ", ".join(toolkit.tools) or "none"
            constraint = f"names tools that are not in the toolkit: {', '.join(unknown)}; there are: {there}"
            return InvalidRequestError(parameter="tool_choice", constraint=constraint)
    elif choice == "required" and not len(toolkit):
        return InvalidRequestError(parameter="tool_choice", constraint="is 'required', and there are no tools")
    return None


def resolved(parts: tuple[Part, ...], resolution: Resolution, options: RoundOptions) -> EffectOf[Response, Any, Any]:
    """The response of a turn, with its calls resolved unless the options say not to."""
    turn = Turn(parts, resolution)
    if not options.get("resolve_tools", True):
        return Succeed(turn.response())
    return turn.resolve().flat_map(lambda _: turn.outcome())


_NO_TEXT: Result[Any, DecodeFailure] = Failure(DecodeFailure((Fault("", "JSON", "no text"),)))


def _decoded(response: Response, schema: Schema[_V]) -> EffectOf[ObjectResponse[_V], AiError]:
    decoded = schema.decode_json(response.text) if response.text.strip() else _NO_TEXT
    if isinstance(decoded, Success):
        return Succeed(ObjectResponse(decoded.unwrap(), response))

    failure = decoded.failure()
    results = tuple(
        {"id": r.id, "name": r.name, "result": r.encoded_result, "is_failure": r.is_failure}
        for r in response.tool_results
    )
    reason = StructuredOutputError(
        text=response.text, pointer=failure.faults[0].pointer, description=str(failure), tool_results=results
    )
    return FailCause(Cause((Fail(AiError("LanguageModel", "generate_object", reason)),)))


class _Streamed:
    """One streamed round: the model's parts, then the results, then how it finished."""

    __slots__ = ("_broken", "_options", "_parts", "_resolution", "_results", "_said", "_source", "pull")

    def __init__(self, source: EffectOf[Any, Any, Any], resolution: Resolution, options: RoundOptions) -> None:
        self._source = source
        self._resolution = resolution
        self._options = options
        self._parts: list[Any] = []  # calls, results and finish: what the resolution needs
        self._said: list[Any] = []
        self._broken: dict[str, Any] = {}  # what began as a call and is none yet
        self._results: EffectOf[Any, Any, Any] | None = None
        self.pull: EffectOf[Any, Any, Any] = Suspend(self._following)

    def _following(self) -> EffectOf[Any, Any, Any]:
        if self._results is not None:
            return self._results
        return FlatMap(self._source, self._seen)

    def _seen(self, part: Any) -> EffectOf[Any, Any, Any]:
        if part is END:
            return self._resolve()
        kind = part.type
        if kind == "tool-call":
            part = self._resolution.flagged(part)
            self._broken.pop(part.id, None)
            self._parts.append(part)
        elif kind == "tool-params-start":
            self._broken[part.id] = part
        elif kind in ("finish", "tool-result"):
            self._parts.append(part)
        self._said.append(part)
        return Suspend(self._following) if kind == "finish" else Succeed(part)

    def _resolve(self) -> EffectOf[Any, Any, Any]:
        """The calls whose parameters broke off, the results, and how the turn finished."""
        whole = gather(self._said) if self._broken else ()
        cut = [part for part in whole if part.type == "tool-call" and part.id in self._broken]
        flagged = [self._resolution.flagged(call) for call in cut]
        self._said += flagged
        turn = Turn([*self._parts, *flagged], self._resolution)
        if not self._options.get("resolve_tools", True):
            return self._then(StreamOf.from_iterable([*flagged, *turn.finish()]))

        def body(channel: Channel[StreamPart]) -> EffectOf[Any, Any, Any]:
            def finish(_: object) -> EffectOf[Any, Any, Any]:
                return turn.ending(self._said).flat_map(lambda parts: for_each(parts, channel.put))

            return for_each(flagged, channel.put).and_then(turn.resolve(channel.put)).flat_map(finish)

        return self._then(StreamOf.from_channel(body))

    def _then(self, stream: StreamOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        def opened(pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
            self._results = pull
            return pull

        return stream.pull().flat_map(opened)
