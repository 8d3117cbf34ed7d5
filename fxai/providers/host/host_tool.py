"""A program as a tool: called through its standard input and output.

>>> from fxai.effects import fx
>>> lengths = tool("length", "wc", "-c", format="text", lifetime="request", parameters=str, success=int)
>>> fx.run(lengths.use(lambda kit: kit.call("length", "hello"))).result
6
"""

# The type variables of the constructor have defaults: those of the arguments that they stand for.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar, Unpack

from fxai.effects import fx
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.providers.host.host import Host
from fxai.providers.host.program import HostFailure, HostOptions, HostProblem, Program, program_of
from fxai.providers.host.protocol import Delta, Message, Progress, encode_line
from fxai.providers.host.protocol import Result as Answer
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.schema.json_schema import JsonSchema
from fxai.tools.handler import HandlerOf
from fxai.tools.source import ToolSource
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_options import CallContext, ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit

_P = TypeVar("_P")
_S = TypeVar("_S", default=object)


class HostToolOptions(HostOptions, ToolOptions, total=False):
    """How a program is run and spoken to, and the options that each tool has."""


@final
class _Public(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model is shown of a failure: all but the end of stderr, which is for people."""

    program: str
    problem: HostProblem
    description: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    retryable: bool = False
    retry_after: float | None = None


def _public_fields(failure: HostFailure) -> _Public:
    return _Public(**{name: getattr(failure, name) for name in _Public.__struct_fields__})


def _read(told: _Public) -> HostFailure:
    return HostFailure(**msgspec.structs.asdict(told))


_FAILURE: Final[Schema[HostFailure]] = Schema.of(
    Annotated[HostFailure, Schema.codec(wire=_Public, decode=_read, encode=_public_fields)]
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
    """A tool that is a program, called over its standard input and output, as a source of tools.

    The program is started when the source is opened and ended when it is closed, its children too. No shell reads the
    command. What it says of its progress with a `value` of the success type is a preliminary result.

    With `format="text"` it gets the parameters as a line: a string as it is, all else as JSON. Its answer is its line
    (or, with `lifetime="request"`, all that it writes): the text itself where the success type takes it, else its JSON.

    Args:
        name: What the model calls it.
        command: The program's name or path.
        args: Its arguments.
        parameters: The type of what goes in, or a raw JSON Schema document, which makes the tool a dynamic one.
        success: The type of what comes out; by default anything JSON can carry.
        options: How it is run and spoken to, see `HostOptions`; and what each tool has, see `ToolOptions`.

    Opening it fails with `HostFailure` when the program cannot be started or refuses its `params`. So does a call, for
    all that can go wrong with a host and for an answer that is not of the success type; a model is never shown what the
    program wrote to stderr.

    Raises:
        SchemaError: as `Tool.make` and `Tool.dynamic`.
        ValueError: an option that has no such value.
    """
    hosting = cast(HostOptions, {k: v for k, v in options.items() if k not in ToolOptions.__annotations__})
    about = cast(ToolOptions, {k: v for k, v in options.items() if k in ToolOptions.__annotations__})
    raw = isinstance(parameters, Mapping | JsonSchema)
    make: Any = Tool.dynamic if raw else Tool.make
    made: AnyTool = make(name, parameters=parameters, success=success, failure=_FAILURE, **about)
    program = program_of((command, *args), hosting)
    return ToolSource(Host.open(program).map(lambda host: _bind(made, host, program)))


def _bind(made: AnyTool, host: Host, program: Program) -> BoundToolkit[Any, HostFailure, Any]:
    def handle(params: Any, context: CallContext) -> Effect[Any, HostFailure]:
        return _call(made, host, program, params, context)

    kit: Any = Toolkit.make(made)
    return BoundToolkit.of(kit, kit.to_layer(made.handler(handle)), origin=host)


@fx.gen
def _call(made: AnyTool, host: Host, program: Program, params: Any, context: CallContext) -> Gen[Any, HostFailure]:
    data = made.parameters.encode(params).unwrap() if isinstance(made.parameters, Schema) else params
    line = yield from _line(program, data)
    pieces: list[str] = []

    def compose(number: int, _: frozenset[str]) -> bytes:
        return line or encode_line({"type": "call", "id": number, "tool": made.identity.name, "params": data})

    def hear(message: Message) -> EffectOf[None, HostFailure, None]:
        if isinstance(message, Progress):
            return _preliminary(made, message, context)
        if isinstance(message, Delta):
            pieces.append(message.text)
            return fx.succeed(None)
        said = f"a tool says progress, result or error, and it said {type(message).__name__}"
        return fx.fail(HostFailure(program.name, "invalid-output", said)).as_(None)

    answer = yield from host.exchange(compose, hear)
    found = _value(made, answer, "".join(pieces))
    if isinstance(found, Failure):
        said = f"its result is not what the tool {made.name!r} gives: {found.failure()}"
        return (yield from fx.fail(HostFailure(program.name, "invalid-output", said)))
    return found.unwrap()


def _line(program: Program, data: object) -> Effect[bytes | None, HostFailure]:
    """What a program that reads plain text is told; None for one that reads JSON."""
    if program.format == "json":
        return fx.succeed(None)
    line = program.input_line(data if isinstance(data, str) else msgspec.json.encode(data).decode())
    if line is None:
        said = 'a program that reads a line for each request gets no text of several: use lifetime="request"'
        return fx.fail(HostFailure(program.name, "invalid-input", said))
    return fx.succeed(line)


def _preliminary(made: AnyTool, message: Progress, context: CallContext) -> EffectOf[None]:
    """Shows what it says of its progress, where that is of the success type."""
    said = message.message if message.value is msgspec.UNSET else message.value
    return made.success.decode(said).map(context.preliminary).value_or(fx.succeed(None))


def _value(made: AnyTool, answer: Answer, pieces: str) -> Result[Any, DecodeFailure]:
    """The success that an answer holds: its value, or its text, or what the text says as JSON."""
    if answer.value is not msgspec.UNSET:
        return made.success.decode(answer.value)
    text = pieces if answer.text is None else answer.text
    said = made.success.decode(text)
    return said if isinstance(said, Success) else made.success.decode_json(text)
