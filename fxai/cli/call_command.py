"""The command `fxai call`. Use it to call one tool once, with arguments and result in JSON.

>>> parameters(None), parameters('{"a": 1}')
({}, {'a': 1})

To run the call without the command line, use `run_call`:

>>> from fxai.cli.target import TargetTools
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> offer = TargetTools("kit", (six,), six.handler(lambda _: Success(6)))
>>> [outcome.result for outcome in run_call(offer, SingleCall("six", {}), lambda _: None)]
[6]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO, cast, final

import msgspec
from returns.result import Failure

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.failure import is_server_failure, require_services, server_error
from fxai.cli.input import read_at_most
from fxai.cli.progress import Spinner
from fxai.cli.run_program import value_of
from fxai.cli.target import TargetTools, find_tools, open_tools, with_layer
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Gen
from fxai.effects.scope import Scope
from fxai.schema.display import clean, in_line, indent_json, json_line, one_line
from fxai.schema.fault import DecodeError
from fxai.schema.parsing import parse_json_unsafe
from fxai.tools.call import Call, Outcome
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import (
    HandlerFailed,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    OutcomeUnknown,
    Refused,
    encode_failure,
)
from fxai.tools.tool_info import CallContext

_REMEDY: Final = """Pass JSON such as '{"a": 1}', @file, or - for stdin."""


def call_tool(
    target: str,
    tool: str,
    out: TextIO,
    err: TextIO,
    *,
    params: str | None = None,
    layer: str | None = None,
    approved: bool = False,
    as_json: bool = False,
) -> bool:
    """Call a tool of a target once and show the result."""
    if target == "-" and params == "-":
        raise CliError("stdin cannot provide both the tools and the arguments", _REMEDY, code=WRONG_USE)
    return call_one(
        lambda: with_layer(find_tools(target), layer), tool, out, err, params=params, approved=approved, as_json=as_json
    )


def call_one(
    find: Callable[[], TargetTools],
    tool: str,
    out: TextIO,
    err: TextIO,
    *,
    params: str | None = None,
    approved: bool = False,
    as_json: bool = False,
    plain: Callable[[Any], str | None] = lambda _: None,
    waiting: Spinner | None = None,
    run: Callable[[EffectOf[None, Any, Any]], None] = value_of,
) -> bool:
    """Call a tool of the target that `find` returns, once, and show the result.

    The result is JSON, or text if `plain` returns a string for it. `waiting` is the spinner during the call. `run` runs
    the call. Both have defaults.
    """
    given = parameters(params)
    waiting = waiting or Spinner(err, f"calling {tool}")

    def show(outcome: Outcome) -> None:
        waiting.end()
        if as_json:
            _line(out, {"type": "preliminary", "result": outcome.encoded_result})
        else:
            err.write(f"… {in_line(outcome.encoded_result)}\n")
            err.flush()

    with waiting:
        outcomes = run_call(find(), SingleCall(tool, given, approved), show, run)
    for outcome in outcomes:
        if as_json:
            _line(out, {"type": "result", "ok": True, "tool": tool, "result": outcome.encoded_result})
        else:
            text = plain(outcome.encoded_result)
            out.write((indent_json(outcome.encoded_result) if text is None else clean(text)) + "\n")
    return True


def parameters(given: str | None) -> Any:
    """Return the arguments from a JSON string, from a file (`@path`), or from stdin (`-`). None means `{}`."""
    text, where = _text(given)
    try:
        return parse_json_unsafe(text)
    except DecodeError as error:
        raise CliError(f"{where} is not valid JSON: {error.failure}", _REMEDY, code=WRONG_USE) from None


def _text(given: str | None) -> tuple[bytes | str, str]:
    if given is None:
        return "{}", "nothing"
    if given == "-":
        stdin: Any = sys.stdin
        if stdin is None or stdin.isatty():
            raise CliError("stdin is empty", _REMEDY, code=WRONG_USE)
        return read_at_most(getattr(stdin, "buffer", stdin), "stdin"), "stdin"
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape"), f"{given[:60]!r}"
    try:
        with Path(given[1:]).open("rb") as file:
            return read_at_most(file, given[1:]), given[1:]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CliError(f"cannot read {given[1:]}: {reason}", _REMEDY, code=WRONG_USE) from None


def _line(out: TextIO, data: dict[str, Any]) -> None:
    out.write(json_line(data))
    out.flush()


@final
class SingleCall(msgspec.Struct, frozen=True):
    """The name of a tool, its arguments, and whether the user approved the call in advance."""

    tool: str
    params: Any
    approved: bool = False

    def __hash__(self) -> int:
        return hash(self.tool)  # the arguments are not hashable


def run_call(
    offer: TargetTools,
    call: SingleCall,
    preliminary: Callable[[Outcome], None],
    run: Callable[[EffectOf[None, Any, Any]], None] = value_of,
) -> list[Outcome]:
    """Run a call with `run` and return its final outcome in a list. Pass earlier outcomes to `preliminary`.

    If the call fails, the `data` of the error describes the failure.
    """
    last: list[Outcome] = []

    def hear(outcome: Outcome) -> None:
        if outcome.preliminary:
            preliminary(outcome)
        else:
            last.append(outcome)

    run(fx.scoped(_program(offer, call, hear)))
    return last


@fx.gen
def _program(offer: TargetTools, call: SingleCall, hear: Callable[[Outcome], None]) -> Gen[None, Any, Scope]:
    there = yield from open_tools(offer)
    tool = there.toolkit.tools[there.require(call.tool)]
    services = yield from _services(there, tool)
    if not call.approved and (yield from _needs_approval(tool, call.params, services)):
        remedy = "To approve this call, pass --yes."
        yield from fx.fail(CliError(f"tool {tool.name!r} needs approval", remedy))
    outcomes = there.toolkit.handle(tool.name, call.params, on_invalid_call="error")
    shown = outcomes.for_each(lambda outcome: _pass_on(tool, outcome, hear))
    yield from shown.map_error(lambda failure: _call_error(tool, failure)).provide_context(services)


@fx.gen
def _services(offer: TargetTools, tool: AnyTool) -> Gen[ContextOf[Any], Any, Scope]:
    if not tool.requires_handler:
        reason = f"tool {tool.name!r} has no handler here: its provider or a client runs it"
        return (yield from fx.fail(CliError(reason, "Call a tool that has a handler.")))
    services: ContextOf[Any] = ContextOf({})
    if offer.layer is not None:
        services = yield from offer.layer.build()
    if services.find(tool.identity) is None:
        given = "Name the layer of its handler with --layer module:name."
        remedy = given if offer.layer is None else "Provide a layer that has a handler for it."
        return (yield from fx.fail(CliError(f"tool {tool.name!r} has no handler", remedy)))
    require_services((tool,), services)
    return services


def _needs_approval(tool: AnyTool, params: Any, services: ContextOf[Any]) -> EffectOf[bool]:
    """Return True if the call needs an approval. If the tool's own function raises an exception, return True."""
    asked = tool.needs_approval
    if isinstance(asked, bool):
        return fx.succeed(asked)
    return fx.suspend(lambda: _ask_function(tool, asked, params, services)).catch_cause(lambda _: fx.succeed(True))


def _ask_function(
    tool: AnyTool, asked: Callable[[Any, Any], Any], params: Any, services: ContextOf[Any]
) -> EffectOf[bool, Any]:
    given = Call({tool.name: tool}, tool.name, params).parameters(tool)
    if given is None:
        return fx.succeed(False)  # the call itself reports the invalid arguments
    reason = asked(given.unwrap(), CallContext(tool))
    answer: AnyEffect = cast(Any, reason) if isinstance(reason, EffectOf) else fx.succeed(reason)
    return answer.map(bool).provide_context(services)


def _pass_on(tool: AnyTool, outcome: Outcome, hear: Callable[[Outcome], None]) -> EffectOf[None, Any]:
    if outcome.is_failure:
        return fx.fail(_declared_failure(tool, outcome.result, outcome.encoded_result))
    return fx.sync(lambda: hear(outcome))


def _call_error(tool: AnyTool, failure: Any) -> Any:
    if isinstance(failure, HandlerFailed):
        error: Any = cast(Any, failure).error
        encoded = tool.failure.encode(error)
        return _declared_failure(tool, error, repr(error) if isinstance(encoded, Failure) else encoded.unwrap())
    if isinstance(failure, InvalidParameters):
        reason = f"invalid arguments for {tool.name!r}: {'; '.join(map(str, failure.faults))}"
        data = {key: value for key, value in encode_failure(failure).items() if key != "message"}
        return CliError(reason, "To see its parameters, run fxai schema.", data=data)
    if isinstance(failure, InvalidResult):
        remedy = "Correct the handler or the declared result type of the tool."
        return CliError(str(failure), remedy, data={"type": "invalid-result", "name": failure.name})
    if isinstance(failure, HandlerUnavailable | OutcomeUnknown | Refused):
        return CliError(str(failure), "", data=encode_failure(failure))
    return failure


def _declared_failure(tool: AnyTool, error: Any, encoded: Any) -> CliError:
    """Return the error for a failure that the tool declares. The failure of an MCP server has its own message."""
    if is_server_failure(error):
        return server_error(error, {"type": "handler-failed", "name": tool.name, "failure": encoded})
    shown = encoded if isinstance(encoded, str) else msgspec.json.encode(encoded).decode()
    kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
    data = {"type": "handler-failed", "name": tool.name, "failure": encoded, "kind": type(error).__name__}
    return CliError(f"{tool.name} failed: {kind}{one_line(shown)}", "The tool declares this failure.", data=data)
