"""Programs as language models. fxai sends them requests through their standard input and output.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> shouts = model("tr", "a-z", "A-Z", format="text", lifetime="request")
>>> fx.run(LanguageModel.generate_text("hello").provide(shouts)).text
'HELLO'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import Channel
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart, WarningPart
from fxai.messages.reason import InvalidUserInputError
from fxai.messages.response import Response
from fxai.messages.wire import MessageError
from fxai.models.history_form import mend_request
from fxai.models.language_model import LanguageModel
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ToolChoice
from fxai.providers.host.host import Host, HostFailure, HostOptions, Program, Take, program_of, reason_of
from fxai.providers.host.protocol import Broken, HostReply, Message, encode_line
from fxai.tools.tool import AnyTool, Tool

_MODULE: Final = "host"
_OPTIONS: Final = ("max_tokens", "temperature", "stop", "reasoning", "parallel_tool_calls", "compact_at")


@final
class HostModel(LanguageModel):
    """A program that answers one turn at a time. Create its layer with `model`."""

    def __init__(self, host: Host, program: Program) -> None:
        self._host = host
        self._program = program

    @property
    @override
    def info(self) -> ModelInfo:
        """The command without its directory. fxai needs no request to read it."""
        return ModelInfo("host", self._program.name)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return self._parts(request, "ask").collect().map(lambda parts: Response.from_stream(parts).content)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return self._parts(request, "ask_stream")

    def _parts(self, request: ModelRequest, method: str) -> Stream[StreamPart, AiError]:
        def to_error(failure: HostFailure) -> AiError:
            return AiError(_MODULE, method, reason_of(failure))

        def body(channel: Channel[StreamPart]) -> EffectOf[None, AiError]:
            whole, mended = mend_request(request)
            question = _question(whole, self._program)
            if isinstance(question, Failure):
                return fx.fail(AiError(_MODULE, method, InvalidUserInputError(question.failure())))
            asked = question.unwrap()
            asked = msgspec.structs.replace(asked, warnings=(*mended, *asked.warnings))
            return _turn(self._host, whole, asked, self._program, channel).map_error(to_error)

        return StreamOf.from_channel(body)


def model(
    command: str, *args: str, takes: Iterable[Take] = (), **options: Unpack[HostOptions]
) -> Layer[LanguageModel, AiError]:
    """Return the layer of a language model that is a program. fxai uses its standard input and output.

    The program starts when fxai builds the layer. The scope ends the program and its children. No shell reads the
    command.

    With `format="json"`, the program receives the whole conversation and the data that it accepts (`takes`). With
    `format="text"`, it receives only the last text of the user, on one line, or as its whole input with
    `lifetime="request"`. For the omitted parts, the response has a warning: earlier messages, instructions, tools, a
    schema, or options.

    Args:
        command: The name or path of the program.
        args: The arguments of the program.
        takes: The data that the program accepts in addition to messages: `"tools"`, `"schema"`, `"options"`. The
            program can also declare them in its answer to `init`.
        options: The options of the program, see `HostOptions`.

    Fails with:
        AiError: `ModelUnavailableError` if the program cannot be started, `InvalidRequestError` if it rejects its
            `params`. A request fails with `InternalProviderError` if the program ended, with `RequestTimeoutError` if
            it was silent, with `InvalidOutputError` if its output is invalid or too large, and with
            `InvalidUserInputError` if plain text cannot represent the prompt. If the program reports an error, the
            failure is `InternalProviderError` for a retryable error and `UnknownError` otherwise.

    Raises:
        ValueError: If the value of an option is invalid.
    """
    program = program_of((command, *args), options, takes)

    @fx.gen
    def start() -> Gen[LanguageModel, HostFailure, Scope]:
        return HostModel((yield from Host.open(program)), program)

    layer = Layer.scoped(LanguageModel, start())
    return layer.map_error(lambda failure: AiError(_MODULE, "model", reason_of(failure)))


# -- one turn


@fx.gen
def _turn(
    host: Host, request: ModelRequest, question: _Question, program: Program, channel: Channel[StreamPart]
) -> Gen[None, HostFailure]:
    reply = HostReply(program.name, {tool.name: Tool.is_dynamic(tool) for tool in request.tools})

    def compose(number: int, takes: frozenset[str]) -> bytes:
        reply.warnings = (*question.warnings, *_omissions(request, takes))
        if question.line is not None:
            return question.line
        return encode_line({"type": "request", "id": number, **_record(request, question, takes)})

    def hear(message: Message) -> EffectOf[None, HostFailure]:
        return _put(channel, reply.parts(message), program)

    result = yield from host.exchange(compose, hear)
    yield from _put(channel, reply.end(result), program)


@fx.gen
def _put(
    channel: Channel[StreamPart], parts: Iterable[StreamPart | Broken], program: Program
) -> Gen[None, HostFailure]:
    for part in parts:
        if isinstance(part, Broken):
            yield from fx.fail(HostFailure(program.name, "invalid-output", part.description))
        else:
            yield from channel.put(part)


@final
class _Question(msgspec.Struct, frozen=True):
    """A request to a program: the last text of the user, and the messages if the program reads JSON."""

    text: str
    messages: list[dict[str, Any]]
    line: bytes | None = None
    warnings: tuple[WarningPart, ...] = ()


def _question(request: ModelRequest, program: Program) -> Result[_Question, str]:
    """Return the request for this program, or the reason why its format cannot represent the prompt."""
    users = [message for message in request.prompt if message.role == "user"]
    text = users[-1].text if users else ""
    if program.format == "json":
        try:
            return Success(_Question(text, request.prompt.to_data()))
        except MessageError as error:
            return Failure(str(error))
    if not users:
        return Failure("the prompt has no user message, and a program that reads text receives only user messages")
    if any(part.type == "file" for part in users[-1].content):
        return Failure('a program that reads text cannot receive files. Set format="json".')
    line = program.input_line(text)
    if line is None:
        advice = 'Set lifetime="request" or format="json".'
        return Failure(f"the program reads one line per request, and the message has several lines. {advice}")
    why = 'this program reads text and receives only the last user message. Set format="json" to send more.'
    warnings: list[WarningPart] = []
    if any(message.role == "system" for message in request.prompt):
        warnings.append(WarningPart(f"the instructions were omitted: {why}", subject="system"))
    others = sum(message.role != "system" for message in request.prompt) - 1
    if others > 0:
        warnings.append(WarningPart(f"{others} other messages were omitted: {why}", subject="history"))
    return Success(_Question(text, [], line, tuple(warnings)))


def _record(request: ModelRequest, question: _Question, takes: frozenset[str]) -> dict[str, Any]:
    """Return the request for a program that reads JSON."""
    record: dict[str, Any] = {"prompt": question.text, "messages": question.messages}
    if "tools" in takes and _own_tools(request):
        record["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.json_schema()}
            for tool in _own_tools(request)
        ]
        choice = request.tool_choice
        record["tool_choice"] = (
            {"mode": choice.mode, "names": list(choice.names)} if isinstance(choice, ToolChoice) else choice
        )
    if "schema" in takes and request.response_schema is not None:
        record["schema"] = request.response_schema.to_dict()
    options = _options(request)
    if "options" in takes and options:
        record["options"] = options
    own = request.provider_options.get(_MODULE)
    return record if own is None else {**record, "provider_options": own}


def _own_tools(request: ModelRequest) -> list[AnyTool]:
    return [tool for tool in request.tools if not Tool.is_provider_defined(tool)]


def _options(request: ModelRequest) -> dict[str, Any]:
    return {name: value for name in _OPTIONS if (value := getattr(request, name)) not in (None, ())}


def _omissions(request: ModelRequest, takes: frozenset[str]) -> list[WarningPart]:
    """Return a warning for each part of a request that the program does not receive."""
    found: list[WarningPart] = []
    offered = _own_tools(request) if "tools" in takes else []
    for tool in request.tools:
        if tool not in offered:
            why = "another provider runs it" if Tool.is_provider_defined(tool) else _not_taken("tools")
            problem = f"tool {tool.name!r} was omitted: {why}"
            found.append(WarningPart(problem, kind="unsupported-tool", subject=tool.name))
    if request.response_schema is not None and "schema" not in takes:
        found.append(_ignored_option("response_schema", "schema"))
    if "options" not in takes:
        found.extend(_ignored_option(name, "options") for name in _options(request))
    return found


def _ignored_option(option: str, take: Take) -> WarningPart:
    return WarningPart(f"{option} was ignored: {_not_taken(take)}", kind="unsupported-option", subject=option)


def _not_taken(take: Take) -> str:
    return f"the program does not declare that it accepts {take}. If it does, add {take!r} to `takes`."
