"""Programs as tools. fxai calls them through their standard input and output.

>>> from fxai.effects import fx
>>> lengths = tool("length", "wc", "-c", format="text", lifetime="request", parameters=str, success=int)
>>> fx.run(lengths.use(lambda kit: kit.call("length", "hello"))).result
6
"""

# The type variables of the constructor need defaults for the arguments that the overloads omit.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast, final, overload

import msgspec
from returns.result import Failure, Success
from typing_extensions import TypeForm, TypeVar, Unpack

from fxai.effects import fx
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.providers.host.host import Host, HostFailure, HostOptions, HostProblem, Program, program_of
from fxai.providers.host.protocol import Delta, HostProgress, Message, encode_line
from fxai.schema.codec import Schema
from fxai.schema.json_schema import JsonSchema
from fxai.tools.handler_types import HandlerOf
from fxai.tools.source import ToolSource
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_info import CallContext
from fxai.tools.tool_options import ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit

_P = TypeVar("_P")
_S = TypeVar("_S", default=object)


class HostToolOptions(HostOptions, ToolOptions, total=False):
    """The options of a program and of a tool."""


@final
class _Public(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a failure that a model receives. The output on stderr is only for people."""

    program: str
    problem: HostProblem
    description: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    retryable: bool = False
    retry_after: float | None = None


_FAILURE: Final[Schema[HostFailure]] = Schema.of(
    Annotated[
        HostFailure,
        Schema.codec(
            wire=_Public,
            decode=lambda public: HostFailure(**msgspec.structs.asdict(public)),
            encode=lambda failure: _Public(**{name: getattr(failure, name) for name in _Public.__struct_fields__}),
        ),
    ]
)


@overload
def tool(
    name: str,
    command: str,
    *args: str,
    parameters: type[_P] | Schema[_P],
    success: type[_S] | Schema[_S] = ...,
    **options: Unpack[HostToolOptions],
) -> ToolSource[HandlerOf[_P, _S, HostFailure], HostFailure]: ...
@overload
def tool(
    name: str,
    command: str,
    *args: str,
    parameters: Mapping[str, Any] | JsonSchema,
    success: type[_S] | Schema[_S] = ...,
    **options: Unpack[HostToolOptions],
) -> ToolSource[HandlerOf[object, _S, HostFailure], HostFailure]: ...
@overload
def tool(
    name: str,
    command: str,
    *args: str,
    parameters: TypeForm[_P],
    success: TypeForm[_S] = ...,
    **options: Unpack[HostToolOptions],
) -> ToolSource[HandlerOf[_P, _S, HostFailure], HostFailure]: ...
@overload
def tool(
    name: str,
    command: str,
    *args: str,
    parameters: Mapping[str, Any] | JsonSchema,
    success: TypeForm[_S] = ...,
    **options: Unpack[HostToolOptions],
) -> ToolSource[HandlerOf[object, _S, HostFailure], HostFailure]: ...
def tool(name: str, command: str, *args: str, parameters: Any, success: Any = object, **options: Any) -> Any:
    """Return a source of tools with one tool that is a program. fxai calls it over its standard input and output.

    Opening the source starts the program. Closing the source ends the program and its children. No shell reads the
    command. A progress message with a `value` of the success type is a preliminary result.

    With `format="text"`, the program receives the parameters as a line: a string unchanged, any other value as JSON.
    Its answer is its line, or its whole output with `lifetime="request"`. If the success type accepts a string, the
    result is the text. Otherwise fxai decodes the text as JSON.

    Args:
        name: The name of the tool for the model.
        command: The name or path of the program.
        args: The arguments of the program.
        parameters: The type of the parameters. A raw JSON Schema document creates a dynamic tool.
        success: The type of the result. By default any JSON value.
        options: The options of the program, see `HostOptions`, and of the tool, see `ToolOptions`.

    Opening the source fails with `HostFailure` if the program cannot be started or rejects its `params`. A call fails
    with `HostFailure` for every failure of a host, and for an answer of another type. A model never receives the
    program's output on stderr.

    Raises:
        SchemaError: See `Tool.make` and `Tool.dynamic`.
        ValueError: If the value of an option is invalid.
    """
    hosting = cast(HostOptions, {k: v for k, v in options.items() if k not in ToolOptions.__annotations__})
    about = cast(ToolOptions, {k: v for k, v in options.items() if k in ToolOptions.__annotations__})
    raw = isinstance(parameters, Mapping | JsonSchema)
    make: Any = Tool.dynamic if raw else Tool.make
    made: AnyTool = make(name, parameters=parameters, success=success, failure=_FAILURE, **about)
    program = program_of((command, *args), hosting)

    def bind(host: Host) -> BoundToolkit[Any, HostFailure, Any]:
        def handle(params: Any, context: CallContext) -> Effect[Any, HostFailure]:
            return _call(made, host, program, params, context)

        kit: Any = Toolkit.make(made)
        return BoundToolkit.of(kit, kit.to_layer(made.handler(handle)), origin=host)

    return ToolSource(Host.open(program).map(bind))


@fx.gen
def _call(made: AnyTool, host: Host, program: Program, params: Any, context: CallContext) -> Gen[Any, HostFailure]:
    data = made.parameters.encode(params).unwrap() if isinstance(made.parameters, Schema) else params
    line: bytes | None = None
    if program.format == "text":
        line = program.input_line(data if isinstance(data, str) else msgspec.json.encode(data).decode())
        if line is None:
            problem = 'the program reads one line per request, and the request has several. Set lifetime="request"'
            return (yield from fx.fail(HostFailure(program.name, "invalid-input", problem)))
    pieces: list[str] = []

    def compose(number: int, _: frozenset[str]) -> bytes:
        return line or encode_line({"type": "call", "id": number, "tool": made.identity.name, "params": data})

    def hear(message: Message) -> EffectOf[None, HostFailure, None]:
        if isinstance(message, HostProgress):  # a preliminary result if it has the success type
            value = message.message if message.value is msgspec.UNSET else message.value
            return made.success.decode(value).map(context.preliminary).value_or(fx.succeed(None))
        if isinstance(message, Delta):
            pieces.append(message.text)
            return fx.succeed(None)
        problem = f"a tool must send progress, result, or error, got {type(message).__name__}"
        return fx.fail(HostFailure(program.name, "invalid-output", problem)).as_(None)

    answer = yield from host.exchange(compose, hear)
    if answer.value is not msgspec.UNSET:
        found = made.success.decode(answer.value)
    else:  # the success is text, or JSON in the text
        text = "".join(pieces) if answer.text is None else answer.text
        found = made.success.decode(text)
        found = found if isinstance(found, Success) else made.success.decode_json(text)
    if isinstance(found, Failure):
        problem = f"the result does not match the success type of {made.name!r}: {found.failure()}"
        return (yield from fx.fail(HostFailure(program.name, "invalid-output", problem)))
    return found.unwrap()
