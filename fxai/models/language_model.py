"""The language model as a service: one request, and the calls of its turn run through a toolkit.

`LanguageModel.generate_text`, `generate_object` and `stream_text` each make one round: approvals that the prompt
answers are settled, then comes the model's turn, then the results of its calls. Providers implement `ask` (and
`ask_stream`, and `count` where they can count tokens); everything else is the same for all of them.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(LanguageModel.generate_text("Hello").provide(model.layer)).text
'Good day.'
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Never, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.constructor import fail
from fxai.effects.effect import Effect, EffectOf, Fetch, Generate, Succeed, Suspend
from fxai.effects.service import Service
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Finish, Part, StreamPart, ToolCall, ToolResult
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.reason import StructuredOutputError
from fxai.messages.response import Response, stream_of
from fxai.models.approved_calls import OnSettled, SettledHistory, relay, settle_approvals
from fxai.models.growth import Growth, SentRequest
from fxai.models.model_info import ModelInfo, info_of
from fxai.models.model_request import (
    ModelRequest,
    Repair,
    RoundOptions,
    ToolChoice,
    ask_model,
    prepare,
    stream_model,
)
from fxai.models.round import Emit, Round, Steps, take_turn
from fxai.models.structured_output import json_texts
from fxai.models.token_count import TokenCount, estimate_request
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure, Fault
from fxai.schema.parsing import parse_json
from fxai.tools.tool_error import InvalidParameters, ToolError, UnknownTool
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from fxai.models.model_facts import ModelFacts

_T = TypeVar("_T", default=Never)
_V = TypeVar("_V")
_V_co = TypeVar("_V_co", covariant=True)


@final
class ObjectResponse(msgspec.Struct, Generic[_V_co], frozen=True):
    """A typed answer, and the response that it was read from."""

    value: _V_co
    response: Response


@final
class ObjectPending(msgspec.Struct, frozen=True):
    """There is no typed value yet: calls of the turn wait for an approval or for a result from outside.

    It goes on from the history: the prompt `with_response(pending.response.content)`, and the answers behind it.
    """

    response: Response

    @override
    def __str__(self) -> str:
        waiting = ", ".join(f"{one.name} ({one.id})" for one in self.response.pending)
        return f"there is no answer yet, because calls wait: {waiting}; answer them, and go on from the history"


_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


class LanguageModel(Service):
    """A model that can be asked. Implementations give `ask`; programs use the static methods, which need it."""

    @property
    def info(self) -> ModelInfo | None:
        """Which model it is, by the names of its provider; by default by those of its class.

        None: it only hands requests on to other models, by `ask_model` and `stream_model`, which say which they are.
        """
        return info_of(self)

    @property
    def facts(self) -> ModelFacts | None:
        """The limits and abilities of the model. None if they are unknown.

        A model that forwards requests returns the facts of its model, or `common_facts` of the models that are built.
        """
        return None

    def facts_of(self, request: ModelRequest) -> Effect[ModelFacts | None, AiError]:  # noqa: ARG002  # forwarding needs it
        """Return the facts of the model that answers a request. fxai builds the layer of that model if necessary.

        Args:
            request: The request.

        Fails with:
            AiError: The model has no layer that can be built.
        """
        return Suspend(lambda: Succeed(self.facts))

    @abstractmethod
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole: its parts in order, one `finish` among them; no results of our tools."""

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn as it comes, `finish` last. Where a model cannot stream: the whole turn at once."""
        return StreamOf.unwrap(self.ask(request).map(lambda parts: StreamOf.from_iterable(list(stream_of(parts)))))

    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """The tokens that the request takes. Nothing is generated. By default an estimate, which asks no one.

        Fails with:
            AiError: Where a provider is asked: as `ask`.
        """
        return Suspend(lambda: Succeed(estimate_request(request)))

    @staticmethod
    def count_tokens(
        prompt: PromptInput,
        *,
        toolkit: Toolkit[Any] = _NO_TOOLS,
        schema: TypeForm[Any] | Schema[Any] | None = None,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[TokenCount, AiError, LanguageModel | None]:
        """The tokens that a request takes before it is answered; its arguments are those of `generate_text`.

        Nothing is generated, and no tool is run. Where the provider counts, its number; the local model's own
        tokenizer; else an estimate. `TokenCount.method` says which.

        Args:
            prompt: text, messages or a `Prompt`; it may be empty.
            toolkit: the tools that the model may call: their definitions take tokens too.
            schema: what the answer would be held to, as of `generate_object`.
            options: see `RoundOptions` and `ModelOptions`.

        Fails with `AiError`: the request cannot be sent as it is, or the provider that counts cannot be asked.
        """
        return Generate(_count, (Prompt.make(prompt), toolkit, schema, options), {})

    @staticmethod
    def generate_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, AiError | ToolError, _T | LanguageModel | None]:
        """The model's turn and the results of its calls, in the order of the calls.

        A turn with calls that wait, for an approval or for a result from outside, ends with `"pending"`:
        `response.pending` has them. It goes on from its history with a tool message that answers them behind it; calls
        that this approves run before the model is asked, and their results come first. While one of them still waits,
        and no other message follows, the model is not asked.

        Args:
            prompt: text, messages or a `Prompt`.
            toolkit: the tools that the model may call.
            options: see `RoundOptions` and `ModelOptions`.

        Fails with `AiError` when the model cannot be asked or understood, and before it is asked for
        `InvalidUserInputError` when there is nothing to answer: no message, system messages alone, a last message that
        is blank. With a `ToolError` when a handler failed in failure mode `"error"` or broke its promise: its
        `response` holds the result of every call. With `AiError` for `InvalidApprovalError`, and nothing run, when an
        answer to an approval request is not to be trusted.
        """
        return text_round(Prompt.make(prompt), toolkit, options)

    @overload
    @staticmethod
    def generate_object(
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], AiError | ToolError | ObjectPending, _T | LanguageModel | None]: ...
    @overload
    @staticmethod
    def generate_object(
        prompt: PromptInput,
        schema: TypeForm[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], AiError | ToolError | ObjectPending, _T | LanguageModel | None]: ...
    @staticmethod
    def generate_object(
        prompt: PromptInput,
        schema: Any,
        *,
        toolkit: Toolkit[Any] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[Any, Any, Any]:
        """A typed value: the model is held to the JSON Schema of `schema`, and its text is decoded.

        Fails as `generate_text`, and with `AiError` for `StructuredOutputError` when the text does not decode: it
        holds the text and the pointer to the place; calls in the same reply were answered, and it holds their results.
        Fails with `ObjectPending` where calls wait and there is no value yet.
        """
        return object_round(Prompt.make(prompt), Schema[Any].of(schema), toolkit, options)

    @staticmethod
    def stream_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, AiError | ToolError, _T | LanguageModel | None]:
        """The parts of the model's turn as they come, then the results of its calls when each is there.

        Calls run when the model finished its turn; `finish` is last. Leaving the stream early stops the model and the
        handlers. Fails as `generate_text`, after the results of the other calls. Results of calls that the prompt
        approves come first.
        """
        return stream_round(Prompt.make(prompt), toolkit, options)


def text_round(
    prompt: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    *,
    on_settled: OnSettled | None = None,
    growth: Growth | None = None,
) -> EffectOf[Response, Any, Any]:
    """`LanguageModel.generate_text`. The response names a break of the requests in `growth`."""
    return Generate(_round, (prompt, toolkit, options), {"on_settled": on_settled, "growth": growth})


def object_round(
    prompt: Prompt,
    schema: Schema[_V],
    toolkit: Toolkit[Any],
    options: RoundOptions,
    *,
    on_settled: OnSettled | None = None,
    growth: Growth | None = None,
) -> EffectOf[ObjectResponse[_V], Any, Any]:
    """`LanguageModel.generate_object`; see `text_round`."""
    given = {"schema": schema, "on_settled": on_settled, "growth": growth}
    answered = Generate(_round, (prompt, toolkit, options), given)
    return answered.flat_map(lambda response: _to_object(response, schema))


def stream_round(
    prompt: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    *,
    on_settled: OnSettled | None = None,
    growth: Growth | None = None,
) -> StreamOf[StreamPart, Any, Any]:
    """`LanguageModel.stream_text`; see `text_round`."""

    def program(emit: Emit) -> EffectOf[Any, Any, Any]:
        return Generate(_round, (prompt, toolkit, options, emit), {"on_settled": on_settled, "growth": growth})

    return StreamOf.steps(program)


class ForwardingModel(LanguageModel):
    """A model that hands each request on to another one. Implementations give `forward`, and change what they add."""

    @property
    @override
    def info(self) -> None:
        return None

    @abstractmethod
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        """The model that answers the request."""

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The turn of the model that answers, whole. Fails as that, and as `forward`."""
        return self.forward(request).flat_map(lambda model: ask_model(model, request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part. Fails as `ask`."""
        return StreamOf.unwrap(self.forward(request).map(lambda model: stream_model(model, request)))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """The tokens that the request takes, as the model that answers counts them. Fails as `ask`."""
        return self.forward(request).flat_map(lambda model: model.count(request))

    @override
    def facts_of(self, request: ModelRequest) -> Effect[ModelFacts | None, AiError]:
        """Return the facts of the model that answers a request. Fails as `forward`."""
        return self.forward(request).flat_map(lambda model: model.facts_of(request))


def _round(
    prompt: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    emit: Emit | None = None,
    *,
    schema: Schema[Any] | None = None,
    on_settled: OnSettled | None = None,
    growth: Growth | None = None,
) -> Steps:
    """The steps of one round, its approvals first; they give its response."""
    model = yield Fetch(LanguageModel)
    prepared = prepare(prompt, toolkit, options)
    request, resolution = (yield fail(prepared)) if isinstance(prepared, AiError) else prepared
    resolves = options.get("resolve_tools", True)
    early: tuple[ToolResult, ...] = ()
    settling = settle_approvals(prompt, resolution, on_settled) if resolves else None
    if settling is not None:
        done: SettledHistory = yield relay(settling, emit)
        early = done.results
        if done.waiting:
            if emit is not None:
                yield emit(Finish("pending"))
            return done.pending
        request = msgspec.structs.replace(request, prompt=done.shown)
        resolution = msgspec.structs.replace(resolution, prompt=done.shown)
    if schema is not None:
        request = request.answered_as(schema)

    found = None if growth is None else growth.send(SentRequest.of(request, model))
    resolution = resolution if found is None else resolution.with_break(found)
    round_: Round = yield from take_turn(model, request, resolution, emit, resolves=resolves, early=early)
    if emit is not None:
        for finish in round_.finish:
            yield emit(finish)
    return Response((*early, *round_.response.content)) if early else round_.response


def _count(prompt: Prompt, toolkit: Toolkit[Any], schema: Any, options: RoundOptions) -> Steps:
    """The steps of a count."""
    model = yield Fetch(LanguageModel)
    prepared = prepare(prompt, toolkit, options, may_be_silent=True)
    request, _ = (yield fail(prepared)) if isinstance(prepared, AiError) else prepared
    return (yield model.count(request if schema is None else request.answered_as(Schema[Any].of(schema))))


# -- typed answers

_NO_TEXT: Result[Any, DecodeFailure] = Failure(DecodeFailure((Fault("", "JSON", "no text"),)))


def read_output(response: Response, schema: Schema[_V]) -> Result[_V, DecodeFailure]:
    """Return the typed value in the text of a response, also in a fenced block or after a byte order mark.

    Fails with:
        DecodeFailure: The errors of the first JSON text. If the response contains none, the errors of its whole text.
    """
    if not response.text.strip():
        return _NO_TEXT
    failed: list[tuple[bool, Result[_V, DecodeFailure]]] = []
    for text in json_texts(response.text):
        read = schema.decode_json(text)
        if isinstance(read, Success):
            return read
        failed.append((isinstance(parse_json(text), Success), read))
    return max(failed, key=lambda one: one[0])[1]


def output_error(module: str, method: str, response: Response, failure: DecodeFailure) -> AiError:
    """Return the error of a response whose text does not decode: the text, the location, the results of the calls.

    If the model refused, the error has the reason of the refusal.
    """
    if response.refusal is not None:
        return AiError(module, method, response.refusal)
    results = tuple(
        {"id": r.id, "name": r.name, "result": r.encoded_result, "is_failure": r.is_failure}
        for r in response.tool_results
    )
    text, pointer = response.text, failure.faults[0].pointer
    reason = StructuredOutputError(text=text, pointer=pointer, description=str(failure), tool_results=results)
    return AiError(module, method, reason)


def _to_object(response: Response, schema: Schema[_V]) -> EffectOf[ObjectResponse[_V], AiError | ObjectPending]:
    output = read_output(response, schema)
    if isinstance(output, Success):
        return Succeed(ObjectResponse(output.unwrap(), response))
    if response.finish_reason == "pending":
        return fail(ObjectPending(response))
    return fail(output_error("LanguageModel", "generate_object", response, output.failure()))


# -- repair


def repair_by_model(toolkit: Toolkit[Any]) -> Repair:
    """A repair that shows the failure to the model and takes the call that it makes instead, if it makes one.

    Args:
        toolkit: the tools that it may call; for invalid parameters it must call the same tool.

    >>> from fxai.effects import fx
    >>> from fxai.testing import ScriptedModel, call
    >>> from fxai.tools.tool import Tool
    >>> ping = Tool.make("ping", success=str)
    >>> kit = Toolkit.make(ping)
    >>> model = ScriptedModel.make([call("pong", {}), call("ping", {})])
    >>> asked = LanguageModel.generate_text("Ping!", toolkit=kit, repair=repair_by_model(kit))
    >>> answered = asked.provide(ping.handler(lambda _: Success("pong"))).provide(model.layer)
    >>> [result.result for result in fx.run(answered).tool_results]
    ['pong']
    """

    def repair(call: ToolCall, failure: UnknownTool | InvalidParameters) -> EffectOf[ToolCall | None, Any, Any]:
        written = call.params_text if call.params_text is not None else call.params
        prompt = f"This call failed: {call.name} with {written!r}. {failure}. Make the call as it should be."
        is_known = isinstance(failure, InvalidParameters)
        response = LanguageModel.generate_text(
            prompt,
            toolkit=toolkit,
            tool_choice=ToolChoice.tool(call.name) if is_known else "required",
            resolve_tools=False,
        )
        return response.map(lambda response: _without_metadata(response.tool_calls[:1]))

    return repair


def _without_metadata(calls: tuple[ToolCall, ...]) -> ToolCall | None:
    """The call, if there is one, without what its provider noted in a conversation that does not go on."""
    for call in calls:
        return ToolCall(call.id, call.name, call.params, dynamic=call.dynamic, params_text=call.params_text)
    return None
