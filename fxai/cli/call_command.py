"""The command `fxai call`. Use it to call one tool once, with arguments and result in JSON.

>>> parameters(None), parameters('{"a": 1}')
({}, {'a': 1})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TextIO, cast

import msgspec
from returns.result import Failure

from fxai.cli.exit import CliError, wrong_use
from fxai.cli.input import read_source
from fxai.cli.run_program import is_server_failure, require_services, server_error, value_of
from fxai.cli.screen import Spinner
from fxai.cli.target import TargetTools, find_tools, open_tools, with_layer
from fxai.effects import ContextOf, EffectOf, Gen, Scope, fx
from fxai.effects.effect import AnyEffect
from fxai.schema import DecodeError, parse_json_unsafe
from fxai.schema.display import clean, in_line, indent_json, json_line, one_line
from fxai.tools import (
    AnyTool,
    CallContext,
    HandlerFailed,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    Outcome,
    OutcomeUnknown,
    Refused,
)
from fxai.tools.call import Call
from fxai.tools.tool_error import encode_failure

_REMEDY: Final = """Pass JSON such as '{"a": 1}', @file, or - for stdin."""


def call_tool(
    out: TextIO, err: TextIO, *, target: str, tool: str, params: str | None, layer: str | None, **chosen: Any
) -> bool:
    """Call a tool of a target once and show the result. `chosen` are parameters of `call_one`."""
    if target == "-" and params == "-":
        raise wrong_use("stdin cannot provide both the tools and the arguments", _REMEDY)
    return call_one(out, err, lambda: with_layer(find_tools(target), layer), tool, params=params, **chosen)


def call_one(
    out: TextIO,
    err: TextIO,
    find: Callable[[], TargetTools],
    tool: str,
    *,
    params: str | None,
    approved: bool = False,
    as_json: bool,
    plain: Callable[[Any], str | None] = lambda _: None,
    waiting: Spinner | None = None,
    run: Callable[[EffectOf[None, Any, Any]], None] = value_of,
) -> bool:
    """Call a tool of the target that `find` returns, once, and show the result.

    The result is JSON, or text if `plain` returns a string for it. `approved` is True if the user approved the call in
    advance. `waiting` is the spinner during the call. `run` runs the call. Both have defaults.
    """
    given = parameters(params)
    waiting = waiting or Spinner(err, f"calling {tool}")

    def show(outcome: Outcome) -> None:
        waiting.end()
        result = outcome.encoded_result
        if as_json:
            last = {"type": "result", "ok": True, "tool": tool}
            out.write(json_line({**({"type": "preliminary"} if outcome.preliminary else last), "result": result}))
        elif outcome.preliminary:
            err.write(f"… {in_line(result)}\n")
        else:
            text = plain(result)
            out.write((indent_json(result) if text is None else clean(text)) + "\n")

    with waiting:
        run(fx.scoped(_call(find(), tool, given, show, approved=approved)))
    return True


def parameters(given: str | None) -> Any:
    """Return the arguments from a JSON string, from a file (`@path`), or from stdin (`-`). None means `{}`."""
    if given is None:
        return {}
    if given == "-" or given.startswith("@"):
        name = "stdin" if given == "-" else given[1:]
        text = read_source(given.removeprefix("@"), _REMEDY)
    else:
        name, text = f"{given[:60]!r}", given.encode("utf-8", "surrogateescape")
    try:
        return parse_json_unsafe(text)
    except DecodeError as error:
        raise wrong_use(f"{name} is not valid JSON: {error.failure}", _REMEDY) from None


@fx.gen
def _call(
    offer: TargetTools, name: str, params: Any, show: Callable[[Outcome], None], *, approved: bool
) -> Gen[None, Any, Scope]:
    """Run a call and show its outcomes, the last one after the call ended. A failure describes itself in its `data`."""
    there = yield from open_tools(offer)
    tool = there.toolkit.tools[there.require(name)]
    services = yield from _services(there, tool)
    if not approved and (yield from _needs_approval(tool, params, services)):
        yield from fx.fail(CliError(f"tool {tool.name!r} needs approval", "To approve this call, pass --yes."))
    last: list[Outcome] = []

    def hear(outcome: Outcome) -> EffectOf[None, Any]:
        if outcome.is_failure:
            return fx.fail(_declared_failure(tool, outcome.result, outcome.encoded_result))
        return fx.sync(lambda: show(outcome) if outcome.preliminary else last.append(outcome))

    shown = there.toolkit.handle(tool.name, params, on_invalid_call="error").for_each(hear)
    yield from shown.map_error(lambda failure: _call_error(tool, failure)).provide_context(services)
    for outcome in last:
        show(outcome)


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

    def ask() -> EffectOf[bool, Any]:
        given = Call({tool.name: tool}, tool.name, params).parameters(tool)
        if given is None:
            return fx.succeed(False)  # the call itself reports the invalid arguments
        reason = asked(given.unwrap(), CallContext(tool))
        answer: AnyEffect = cast(Any, reason) if isinstance(reason, EffectOf) else fx.succeed(reason)
        return answer.map(bool).provide_context(services)

    return fx.suspend(ask).catch_cause(lambda _: fx.succeed(True))


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
