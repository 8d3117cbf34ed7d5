"""The language model as a service: send a request and run the tool calls of the response. Use it without an agent.

`LanguageModel.generate_text`, `generate_object`, `stream_text`, and `stream_object` run one round each. A round
processes the approvals in the prompt, calls the model, and runs the calls in its turn. Providers implement `ask`, and
optionally `ask_stream` and `count`. All other behavior is the same for all providers.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(LanguageModel.generate_text("Hello").provide(model.layer)).text
'Good day.'
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.constructor import fail
from fxai.effects.effect import AnyEffect, Ask, Effect, EffectOf, Fetch, Generate, Succeed, Suspend
from fxai.effects.scope import NOTHING
from fxai.effects.service import Service
from fxai.effects.stream import AnyStream, Stream, StreamOf, stream_steps
from fxai.messages.errors import AiError
from fxai.messages.part import Finish, Part, StreamPart, ToolCall, ToolResult, Usage
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.reason import StructuredOutputError
from fxai.messages.response import Response, stream_of
from fxai.models.approved_calls import OnResolved, ResolvedHistory, relay, resolve_approvals
from fxai.models.growth import Growth
from fxai.models.interceptor import Interceptor, interceptor_of
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
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.models.model_facts import ModelFacts
    from fxai.models.partial_object import ObjectPart

_T = TypeVar("_T", default=Never)
_V = TypeVar("_V")
_V_co = TypeVar("_V_co", covariant=True)


@final
class ObjectResponse(msgspec.Struct, Generic[_V_co], frozen=True):
    """A typed answer and its response."""

    value: _V_co
    """The typed answer."""
    response: Response
    """The whole turn."""


@final
class ObjectPending(msgspec.Struct, frozen=True):
    """The failure that no typed value exists yet, because calls of the turn need an approval or an external result.

    To continue, append the response to the prompt with `with_response(pending.response.content)`, then the answers.
    """

    response: Response
    """The turn with the pending calls."""

    @override
    def __str__(self) -> str:
        waiting = ", ".join(f"{one.name} ({one.id})" for one in self.response.pending)
        return f"no answer yet: calls are pending ({waiting}). Answer them, and continue from the history."


_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


class LanguageModel(Service):
    """A language model. Implementations define `ask`. Programs use the static methods."""

    @property
    def info(self) -> ModelInfo | None:
        """The model and its provider, or None if it only forwards requests with `ask_model` and `stream_model`.

        The default contains the package and the name of the class.
        """
        return info_of(self)

    @property
    def facts(self) -> ModelFacts | None:
        """The limits and abilities of the model, or None if they are unknown.

        A model that forwards requests returns the facts of its model, or `common_facts` of its models with a finished
        layer.
        """
        return None

    def facts_of(self, request: ModelRequest) -> Effect[ModelFacts | None, AiError]:  # noqa: ARG002  # forwarding needs it
        """Return the facts about the model that answers a request. fxai builds the layer of that model if necessary.

        Args:
            request: The request.

        Fails with:
            AiError: If fxai cannot build the layer for the model.
        """
        return Suspend(lambda: Succeed(self.facts))

    @abstractmethod
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Return the parts in a turn, with a `finish` part and without results of fxai's tools."""

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Return the parts in a turn as a stream, `finish` last. The default returns the whole turn of `ask`."""
        return StreamOf.unwrap(self.ask(request).map(lambda parts: StreamOf.from_iterable(list(stream_of(parts)))))

    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Return the number of tokens in the request without an answer. The default estimates without a request.

        Fails with:
            AiError: See `ask`, if the provider counts.
        """
        return Suspend(lambda: Succeed(estimate_request(request)))

    @staticmethod
    def count_tokens(
        prompt: PromptInput,
        *,
        toolkit: AnyToolkit = _NO_TOOLS,
        schema: TypeForm[Any] | Schema[Any] | None = None,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[TokenCount, AiError, LanguageModel | None]:
        """Return the number of tokens in a request without an answer. See `generate_text` for the arguments.

        fxai generates nothing and runs no tool. The number is from the provider if it can count, from the tokenizer of
        a local model, or otherwise an estimate. `TokenCount.method` states the method.

        Args:
            prompt: Text, messages, or a `Prompt`. It can be empty.
            toolkit: The tools in the request, whose definitions also need tokens.
            schema: The schema for the answer, see `generate_object`.
            options: See `RoundOptions` and `ModelOptions`.

        The effect fails with `AiError` if the request is invalid, or the provider cannot count it.
        """
        return Generate(_count, (Prompt.make(prompt), toolkit, schema, options), {})

    @staticmethod
    def generate_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, AiError | ToolError, _T | LanguageModel | None]:
        """Return the turn from the model with the results of its calls, in the order of the calls.

        If calls need an approval or an external result, the turn ends with `"pending"`, and `response.pending` lists
        them. To continue, send the history followed by a tool message with the answers. fxai runs the approved calls
        before the request, and their results come first. If a call is still pending and no other message follows, fxai
        sends no request.

        Args:
            prompt: Text, messages, or a `Prompt`.
            toolkit: The tools that the model can call.
            options: See `RoundOptions` and `ModelOptions`.

        The effect fails with an `AiError` if the request fails or the response is invalid. It fails before the request
        with `InvalidUserInputError` if the prompt needs no answer: it is empty, contains only system messages, or ends
        with a blank message. It fails with a `ToolError` if a handler fails in failure mode `"error"` or returns an
        invalid value; the `response` of this failure contains the results of all calls. It fails with
        `InvalidApprovalError` before any call if an answer to an approval request is invalid.
        """
        return RoundSetup(Prompt.make(prompt), toolkit, options).text()

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
        toolkit: AnyToolkit = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> AnyEffect:
        """Return a typed value. The JSON Schema of `schema` constrains the answer, and fxai decodes its text.

        The effect fails like `generate_text`. It fails with `StructuredOutputError` if the text is invalid; the error
        contains the text, the location, and the results of calls in the same turn. It fails with `ObjectPending` if
        calls are pending and no value exists yet.
        """
        return RoundSetup(Prompt.make(prompt), toolkit, options).object(Schema[Any].of(schema))

    @staticmethod
    def stream_text(
        prompt: PromptInput, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, AiError | ToolError, _T | LanguageModel | None]:
        """Return a stream of the parts in the turn, followed by the results of its calls as they finish.

        Calls run after the end of the turn. `finish` is the last part. If you stop reading early, fxai stops the model
        and the handlers. The stream fails like `generate_text`, after the results of the other calls. Results of
        approved calls come first.
        """
        return RoundSetup(Prompt.make(prompt), toolkit, options).text_stream()

    @overload
    @staticmethod
    def stream_object(
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> StreamOf[ObjectPart[_V], AiError | ToolError | ObjectPending, _T | LanguageModel | None]: ...
    @overload
    @staticmethod
    def stream_object(
        prompt: PromptInput,
        schema: TypeForm[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> StreamOf[ObjectPart[_V], AiError | ToolError | ObjectPending, _T | LanguageModel | None]: ...
    @staticmethod
    def stream_object(
        prompt: PromptInput,
        schema: Any,
        *,
        toolkit: AnyToolkit = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> AnyStream:
        """Return a stream of a typed value while the model writes it. See `generate_object` for the arguments.

        Each part has the JSON value so far as `partial`, and each partial is a beginning of the next partial. The last
        part has the typed `value` and the `response`. Calls run after the end of the turn, before the last part.

        fxai validates each object, array, string, and number when it is complete. If one of them is invalid, the stream
        fails immediately with `StructuredOutputError`, which contains the text so far and the location, and fxai stops
        the model. A property that occurs twice is also invalid. Otherwise, the stream fails like `generate_object`.

        If the provider requires another form of the schema, fxai converts the text back while it arrives. If the model
        has no structured output, the partials grow with the arguments of the tool call that is the answer.
        """
        return RoundSetup(Prompt.make(prompt), toolkit, options).object_stream(Schema[Any].of(schema))


Compact: TypeAlias = Callable[[LanguageModel, ModelRequest], EffectOf[tuple[ModelRequest, Usage], AiError, Any]]
"""Returns the request for a model after its compaction, and the usage of the compaction."""


@final
class RoundSetup(msgspec.Struct, frozen=True, eq=False):
    """A round before it starts: its prompt, tools, and options, and the work of the chat that it continues."""

    prompt: Prompt
    toolkit: AnyToolkit
    options: RoundOptions
    on_resolved: OnResolved | None = None
    """Receives the history when approved calls start, and again when they end."""
    growth: Growth | None = None
    """The requests of the conversation. The response names a break of them."""
    compact: Compact | None = None

    def text(self) -> EffectOf[Response, Any, Any]:
        """Run the round of `LanguageModel.generate_text`."""
        return Generate(self._run, (), {})

    def object(self, schema: Schema[_V]) -> EffectOf[ObjectResponse[_V], Any, Any]:
        """Run the round of `LanguageModel.generate_object`."""
        return Generate(self._run, (None, schema), {}).flat_map(lambda response: _to_object(response, schema))

    def text_stream(self) -> StreamOf[StreamPart, Any, Any]:
        """Run the round of `LanguageModel.stream_text`."""

        def program(emit: Emit) -> AnyEffect:
            return Generate(self._run, (emit,), {})

        return stream_steps(program)

    def object_stream(self, schema: Schema[_V]) -> StreamOf[ObjectPart[_V], Any, Any]:
        """Run the round of `LanguageModel.stream_object`."""
        from fxai.models.partial_object import AnswerReader, ObjectPart

        def program(emit: Callable[[ObjectPart[_V]], EffectOf[None]]) -> AnyEffect:
            reader = AnswerReader(schema)

            def read(part: StreamPart) -> AnyEffect:
                has_grown, error = reader.read(part), reader.error("LanguageModel", "stream_object")
                if error is not None:
                    return fail(error)
                return emit(ObjectPart(reader.at_present)) if has_grown else NOTHING

            def end(made: ObjectResponse[_V]) -> EffectOf[None]:
                return emit(ObjectPart(reader.whole(made.response.text), made.value, made.response))

            answered = Generate(self._run, (read, schema), {})
            return answered.flat_map(lambda response: _to_object(response, schema, "stream_object")).flat_map(end)

        return stream_steps(program)

    def _run(self, emit: Emit | None = None, schema: Schema[Any] | None = None) -> Steps:
        """Process the approvals of the prompt, run the round, and return its response."""
        model = yield Fetch(LanguageModel)
        prepared = prepare(self.prompt, self.toolkit, self.options)
        request, resolution = (yield fail(prepared)) if isinstance(prepared, AiError) else prepared
        resolves = self.options.get("resolve_tools", True)
        early: tuple[ToolResult, ...] = ()
        resolving = resolve_approvals(self.prompt, resolution, self.on_resolved) if resolves else None
        if resolving is not None:
            done: ResolvedHistory = yield relay(resolving, emit)
            early = done.results
            if done.waiting:
                if emit is not None:
                    yield emit(Finish("pending"))
                return done.pending
            request = msgspec.structs.replace(request, prompt=done.shown)
            resolution = msgspec.structs.replace(resolution, prompt=done.shown)
        used = Usage()
        if self.compact is not None:
            request, used = yield self.compact(model, request)
            resolution = msgspec.structs.replace(resolution, prompt=request.prompt)
        if schema is not None:
            request = request.answered_as(schema)

        found = None if self.growth is None else self.growth.send(request, model)
        resolution = resolution if found is None else resolution.with_break(found)
        around: Interceptor | None = yield Ask(interceptor_of)
        round_: Round = yield from take_turn(
            model, request, resolution, emit, resolves=resolves, early=early, around=around
        )
        response = round_.response if used == Usage() else _with_usage(round_.response, used)
        if emit is not None:
            for part in response.content:
                if part.type == "finish":
                    yield emit(part)
        return Response((*early, *response.content)) if early else response


class ForwardingModel(LanguageModel):
    """A model that forwards each request to another model. Implementations define `forward`."""

    @property
    @override
    def info(self) -> None:
        return None

    @abstractmethod
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        """Return the model that answers the request."""

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Return the turn of the forwarding target. Fails like the target or `forward`."""
        return self.forward(request).flat_map(lambda model: ask_model(model, request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Return the turn as a stream. Fails like `ask`."""
        return StreamOf.unwrap(self.forward(request).map(lambda model: stream_model(model, request)))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Return the number of tokens in the request from the forwarding target. Fails like `ask`."""
        return self.forward(request).flat_map(lambda model: model.count(request))

    @override
    def facts_of(self, request: ModelRequest) -> Effect[ModelFacts | None, AiError]:
        """Return the facts about the model that answers a request. Fails like `forward`."""
        return self.forward(request).flat_map(lambda model: model.facts_of(request))


def _with_usage(response: Response, used: Usage) -> Response:
    parts = [
        msgspec.structs.replace(part, usage=part.usage + used) if part.type == "finish" else part
        for part in response.content
    ]
    return Response(tuple(parts))


def _count(prompt: Prompt, toolkit: AnyToolkit, schema: Any, options: RoundOptions) -> Steps:
    model = yield Fetch(LanguageModel)
    prepared = prepare(prompt, toolkit, options, may_be_silent=True)
    request, _ = (yield fail(prepared)) if isinstance(prepared, AiError) else prepared
    return (yield model.count(request if schema is None else request.answered_as(Schema[Any].of(schema))))


# -- typed answers

_NO_TEXT: Result[Any, DecodeFailure] = Failure(DecodeFailure((Fault("", "JSON", "no text"),)))


def read_output(response: Response, schema: Schema[_V]) -> Result[_V, DecodeFailure]:
    """Return the typed value in the text of a response, also in a fenced block or after a byte order mark.

    Fails with:
        DecodeFailure: The errors of the first JSON text, or the errors of the whole text if it contains no JSON.
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
    """Return the error of an invalid answer with its text, the location, and the results of the calls.

    If the model refused, the error has the reason for the refusal.
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


def _to_object(
    response: Response, schema: Schema[_V], method: str = "generate_object"
) -> EffectOf[ObjectResponse[_V], AiError | ObjectPending]:
    output = read_output(response, schema)
    if isinstance(output, Success):
        return Succeed(ObjectResponse(output.unwrap(), response))
    if response.finish_reason == "pending":
        return fail(ObjectPending(response))
    return fail(output_error("LanguageModel", method, response, output.failure()))


# -- repair


def repair_by_model(toolkit: AnyToolkit) -> Repair:
    """Return a repair that shows the failure to the model and uses the call that the model makes instead.

    Args:
        toolkit: The tools that the model can call. After invalid parameters it must call the same tool.

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
        prompt = f"This call failed: {call.name} with {written!r}. {failure}. Make the corrected call."
        is_known = isinstance(failure, InvalidParameters)
        response = LanguageModel.generate_text(
            prompt,
            toolkit=toolkit,
            tool_choice=ToolChoice.tool(call.name) if is_known else "required",
            resolve_tools=False,
        )

        def first_call(response: Response) -> ToolCall | None:
            for call in response.tool_calls:  # without the metadata of its provider: its conversation does not continue
                return ToolCall(call.id, call.name, call.params, dynamic=call.dynamic, params_text=call.params_text)
            return None

        return response.map(first_call)

    return repair
