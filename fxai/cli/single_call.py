"""Single calls: one tool called once, JSON in, JSON out. This is `fxai call`.

>>> from fxai.cli.offer import Offer
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> offer = Offer("kit", (six,), six.handler(lambda _: Success(6)))
>>> [outcome.result for outcome in called(offer, SingleCall("six", {}), lambda _: None)]
[6]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

import msgspec
from returns.result import Failure

from fxai.cli.offer import Offer
from fxai.cli.opening import opened
from fxai.cli.program import value_of
from fxai.cli.text import one_line
from fxai.cli.trouble import Trouble, is_of_server, of_server, require_services
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Gen
from fxai.effects.scope import Scope
from fxai.tools.call import Call, Outcome
from fxai.tools.failure import HandlerFailed, InvalidParameters, InvalidResult, encode_failure
from fxai.tools.handler import CallContext
from fxai.tools.tool import Tool

__all__ = ["SingleCall", "called"]


@final
class SingleCall(msgspec.Struct, frozen=True):
    """What is called, with what, and whether it is approved already."""

    tool: str
    params: Any
    approved: bool = False

    def __hash__(self) -> int:
        return hash(self.tool)  # parameters are plain data


def called(
    offer: Offer,
    call: SingleCall,
    preliminary: Callable[[Outcome], None],
    run: Callable[[EffectOf[None, Any, Any]], None] = value_of,
) -> list[Outcome]:
    """The outcome of a call, which `run` runs, alone in its list; the ones before it are told as they come.

    Raises:
        Trouble: there is no tool of that name, nobody answers it, it needs approval, the parameters do not fit, the
            handler failed, its result does not fit, or something broke. Its `data` says more where a call failed.
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
def _program(offer: Offer, call: SingleCall, hear: Callable[[Outcome], None]) -> Gen[None, Any, Scope]:
    there = yield from opened(offer)
    tool = there.toolkit.tools[there.known(call.tool)]
    services = yield from _services(there, tool)
    if not call.approved and (yield from _asks(tool, call.params, services)):
        remedy = "say --yes if it may be called with these parameters"
        yield from fx.fail(Trouble(f"the tool {tool.name!r} needs approval", remedy))
    outcomes = there.toolkit.handle(tool.name, call.params, on_invalid_call="error")
    shown = outcomes.for_each(lambda outcome: _heard(tool, outcome, hear))
    yield from shown.map_error(lambda failure: _failed(tool, failure)).provide_context(services)


@fx.gen
def _services(offer: Offer, tool: Tool[Any, Any, Any]) -> Gen[ContextOf[Any], Any, Scope]:
    if not tool.requires_handler:
        said = f"nothing here answers the tool {tool.name!r}: its provider or a client does"
        yield from fx.fail(Trouble(said, "call one that has a handler"))
    services: ContextOf[Any] = ContextOf({})
    if offer.layer is not None:
        services = yield from offer.layer.build()
    if services.find(tool.identity) is None:
        given = "name the layer of its handler with --layer module:name"
        remedy = given if offer.layer is None else "give a layer that has a handler for it"
        yield from fx.fail(Trouble(f"nothing answers the tool {tool.name!r}", remedy))
    require_services((tool,), services)
    return services


def _asks(tool: Tool[Any, Any, Any], params: Any, services: ContextOf[Any]) -> EffectOf[bool]:
    """Whether the call must be approved first; also where the function that says so breaks."""
    asked = tool.needs_approval
    if isinstance(asked, bool):
        return fx.succeed(asked)
    return fx.suspend(lambda: _answer(tool, asked, params, services)).catch_cause(lambda _: fx.succeed(True))


def _answer(
    tool: Tool[Any, Any, Any], asked: Callable[[Any, Any], Any], params: Any, services: ContextOf[Any]
) -> EffectOf[bool, Any]:
    given = Call({tool.name: tool}, tool.name, params).parameters(tool)
    if given is None:
        return fx.succeed(False)  # the call itself will say what is wrong
    said = asked(given.unwrap(), CallContext(tool))
    answer: EffectOf[Any, Any, Any] = cast(Any, said) if isinstance(said, EffectOf) else fx.succeed(said)
    return answer.map(bool).provide_context(services)


def _heard(tool: Tool[Any, Any, Any], outcome: Outcome, hear: Callable[[Outcome], None]) -> EffectOf[None, Any]:
    if outcome.is_failure:
        return fx.fail(_declared(tool, outcome.result, outcome.encoded_result))
    return fx.sync(lambda: hear(outcome))


def _failed(tool: Tool[Any, Any, Any], failure: Any) -> Any:
    if isinstance(failure, HandlerFailed):
        error: Any = cast(Any, failure).error
        encoded = tool.failure.encode(error)
        return _declared(tool, error, repr(error) if isinstance(encoded, Failure) else encoded.unwrap())
    if isinstance(failure, InvalidParameters):
        said = f"the parameters of {tool.name!r} do not fit: {'; '.join(map(str, failure.faults))}"
        return Trouble(said, "fxai schema shows what it takes", data=_without_message(encode_failure(failure)))
    if isinstance(failure, InvalidResult):
        remedy = "correct the handler, or the type that the tool declares"
        return Trouble(str(failure), remedy, data={"type": "invalid-result", "name": failure.name})
    return failure


def _declared(tool: Tool[Any, Any, Any], error: Any, encoded: Any) -> Trouble:
    """A failure that the tool declares; one of an MCP server says what it is in words."""
    if is_of_server(error):
        return of_server(error, {"type": "handler-failed", "name": tool.name, "failure": encoded})
    shown = encoded if isinstance(encoded, str) else msgspec.json.encode(encoded).decode()
    kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
    data = {"type": "handler-failed", "name": tool.name, "failure": encoded, "kind": type(error).__name__}
    return Trouble(f"{tool.name} failed: {kind}{one_line(shown)}", "the tool declares this failure", data=data)


def _without_message(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "message"}
