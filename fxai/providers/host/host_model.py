"""A program as a language model: asked through its standard input and output.

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
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidUserInputError
from fxai.messages.response import Response
from fxai.messages.wire import MessageError
from fxai.models.history_form import mend_request
from fxai.models.language_model import LanguageModel
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ToolChoice
from fxai.providers.host.host import Host
from fxai.providers.host.program import HostFailure, HostOptions, Program, Take, program_of, reason_of
from fxai.providers.host.protocol import Broken, Message, Reply, encode_line
from fxai.tools.tool import AnyTool, Tool

_MODULE: Final = "host"
_OPTIONS: Final = ("max_tokens", "temperature", "stop", "reasoning", "parallel_tool_calls")


@final
class HostModel(LanguageModel):
    """A program that answers turn by turn; `model` makes the layer of one."""

    def __init__(self, host: Host, program: Program) -> None:
        self._host = host
        self._program = program

    @property
    @override
    def info(self) -> ModelInfo:
        """The command, without its directory; no server is asked."""
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
    """The layer of a language model that is a program, spoken to over its standard input and output.

    It is started when the layer is built and ended with its scope, its children too. No shell reads the command.

    With `format="json"` it gets the whole conversation, and beside it what it `takes`; with `format="text"` the last
    text of the user alone, on one line, or, with `lifetime="request"`, as the whole of its input. What it is not given
    is a warning on the response: earlier messages and instructions, tools, a schema, options.

    Args:
        command: The program's name or path.
        args: Its arguments.
        takes: What it may be given beside messages: `"tools"`, `"schema"`, `"options"`. It may say so itself, in its
            answer to `init`.
        options: How it is run and spoken to: see `HostOptions`.

    Fails with:
        AiError: `ModelUnavailableError`: it cannot be started. `InvalidRequestError`: it refuses its `params`. When it
            is asked, `InternalProviderError`: it ended; `RequestTimeoutError`: it was silent; `InvalidOutputError`:
            what it said is no protocol, or too much; `UnknownError`, or `InternalProviderError` where asking again can
            help: it reported an error; `InvalidUserInputError`: the prompt cannot be said in plain text.

    Raises:
        ValueError: an option that has no such value.
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
    reply = Reply(program.name, {tool.name: Tool.is_dynamic(tool) for tool in request.tools})

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
    """What a program is asked: the last text of the user, and the messages where it gets them."""

    text: str
    messages: list[dict[str, Any]]
    line: bytes | None = None
    warnings: tuple[WarningPart, ...] = ()


def _question(request: ModelRequest, program: Program) -> Result[_Question, str]:
    """What is asked, or why it cannot be said to this program."""
    users = [message for message in request.prompt if message.role == "user"]
    text = users[-1].text if users else ""
    if program.format == "json":
        try:
            return Success(_Question(text, request.prompt.to_data()))
        except MessageError as error:
            return Failure(str(error))
    if not users:
        return Failure("the prompt holds nothing that a user said, and a program that reads text gets only that")
    if any(part.type == "file" for part in users[-1].content):
        return Failure('a program that reads text gets no files: use format="json"')
    line = program.input_line(text)
    if line is None:
        advice = 'use lifetime="request", or format="json"'
        return Failure(f"a program that reads a line for each request gets no text of several lines: {advice}")
    return Success(_Question(text, [], line, _text_warnings(request.prompt)))


def _text_warnings(prompt: Prompt) -> tuple[WarningPart, ...]:
    why = 'this program reads text and gets the last message of the user alone; use format="json" for more'
    found: list[WarningPart] = []
    if any(message.role == "system" for message in prompt):
        found.append(WarningPart(f"the instructions were left out: {why}", subject="system"))
    others = [message for message in prompt if message.role != "system"]
    if len(others) > 1:
        found.append(WarningPart(f"{len(others) - 1} other messages were left out: {why}", subject="history"))
    return tuple(found)


def _record(request: ModelRequest, question: _Question, takes: frozenset[str]) -> dict[str, Any]:
    """What a program that reads JSON is asked."""
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
    """Warnings of what was asked for and is not passed to the program."""
    found: list[WarningPart] = []
    offered = _own_tools(request) if "tools" in takes else []
    for tool in request.tools:
        if tool not in offered:
            why = "another provider runs it" if Tool.is_provider_defined(tool) else _not_taken("tools")
            said = f"the tool {tool.name!r} was left out: {why}"
            found.append(WarningPart(said, kind="unsupported-tool", subject=tool.name))
    if request.response_schema is not None and "schema" not in takes:
        found.append(_ignored_option("response_schema", "schema"))
    if "options" not in takes:
        found.extend(_ignored_option(name, "options") for name in _options(request))
    return found


def _ignored_option(option: str, take: Take) -> WarningPart:
    return WarningPart(f"{option} was ignored: {_not_taken(take)}", kind="unsupported-option", subject=option)


def _not_taken(take: Take) -> str:
    return f"this program does not say that it takes {take}; where it does, name {take!r} in `takes`"
