"""Aspects: the order of their stages, every form of hook, what they wrap, and whose bug is whose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Never

import pytest
from returns.io import IOSuccess
from returns.maybe import Some
from returns.result import Failure, Result, Success

from fxai.effects import Backend, Effect, EffectOf, Gen, Layer, StreamOf, Tag, fx
from fxai.schema import SchemaError
from fxai.tools import CallContext, HandlerError, HandlerFailed, Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.kit.every import every
from tests.kit.samples import (
    Sum,
    TooBig,
    add,
    add_kit,
    defect_of,
    double,
    failure_of,
    giving,
    on_add,
    on_double,
    outcome_of,
)

GOOD, BAD = {"a": 1, "b": 2}, {"a": 10, "b": 10}
kit = Toolkit.make(double)


class Factor(Tag[int]):
    """What results are multiplied with."""


def _lines(aspect: Callable[[list[str]], Aspect[Any]], params: Any = GOOD) -> tuple[list[str], Any]:
    """What an aspect and the handler note, and the outcome or failure of the call."""
    lines: list[str] = []

    def handler(p: Sum) -> Result[int, TooBig]:
        lines.append("handler")
        return on_double(p)

    called = kit.call("double", params).provide(aspect(lines).wrap(double.handler(handler)))
    return lines, fx.run_result(called)


def _noting(lines: list[str], **said: Callable[[Any], Any]) -> Aspect:
    def hook(name: str) -> Callable[..., Any]:
        def run(call: Invocation[Sum], *given: Any) -> Any:
            lines.append(name)
            seen = given[0] if given else None
            return said[name](seen) if name in said else seen if name == "format" else None

        return run

    return Aspect.make(
        tool=double, before=hook("before"), after=hook("after"), recover=hook("recover"), format=hook("format")
    )


# -- the stages


def test_the_stages_of_a_success_follow_each_other() -> None:
    """Before, handler, after, format; there is nothing to recover from."""
    lines, result = _lines(_noting)

    assert lines == ["before", "handler", "after", "format"]
    assert result.unwrap().result == 6


def test_the_stages_of_a_failure_follow_each_other() -> None:
    """Before, handler, recover, format; a failure that is left alone stays."""
    lines, result = _lines(_noting, BAD)

    assert lines == ["before", "handler", "recover", "format"]
    assert result.failure() == HandlerFailed("double", TooBig(10))


@every("value", [None, 0, "", False, [], 7])
def test_before_answers_at_once_by_return_alone(value: Any) -> None:
    """Whatever the value is: handler and `after` do not run, `format` does."""
    tool = Tool.dynamic("any", parameters=Sum)
    lines: list[str] = []

    def after(call: Invocation[Sum], result: object) -> None:
        lines.append("after")

    def form(call: Invocation[Sum], result: Result[object, Never]) -> Result[object, Never]:
        lines.append("format")
        return result

    aspect = Aspect.make(tool=tool, before=lambda call: Return(value), after=after, format=form)
    handlers = aspect.wrap(tool.handler(giving(Success("ran"))))

    assert fx.run(Toolkit.make(tool).call("any", GOOD).provide(handlers)).result == value
    assert lines == ["format"]


def test_before_that_says_nothing_goes_on() -> None:
    """None is no answer."""
    lines, result = _lines(lambda lines: _noting(lines, before=lambda _: None))

    assert "handler" in lines
    assert result.unwrap().result == 6


def test_before_can_fail_and_recover_sees_it() -> None:
    """A failure of `before` ends the call without the handler."""
    refused, alone = _lines(lambda lines: _noting(lines, before=lambda _: Failure(TooBig(1))))
    mended, result = _lines(
        lambda lines: _noting(lines, before=lambda _: Failure(TooBig(1)), recover=lambda e: Return(e.limit))
    )

    assert alone.failure() == HandlerFailed("double", TooBig(1))
    assert result.unwrap().result == 1
    assert refused == mended == ["before", "recover", "format"]


def test_after_may_replace_the_result_or_fail() -> None:
    """`Return` gives another one, None keeps it, a failure takes its place."""
    _, replaced = _lines(lambda lines: _noting(lines, after=lambda n: Return(n + 1)))
    _, kept = _lines(lambda lines: _noting(lines, after=lambda n: None))
    failed, failure = _lines(lambda lines: _noting(lines, after=lambda n: Failure(TooBig(n))))

    assert (replaced.unwrap().result, kept.unwrap().result) == (7, 6)
    assert failure.failure() == HandlerFailed("double", TooBig(6))
    assert failed == ["before", "handler", "after", "recover", "format"]


def test_recover_makes_a_result_or_another_failure() -> None:
    """What it returns is not given to `after`."""
    mended, result = _lines(lambda lines: _noting(lines, recover=lambda error: Return(error.limit)), BAD)
    _, other = _lines(lambda lines: _noting(lines, recover=lambda error: Failure(TooBig(0))), BAD)

    assert result.unwrap().result == 10
    assert "after" not in mended
    assert other.failure() == HandlerFailed("double", TooBig(0))


def test_format_has_the_last_word_on_success_and_failure() -> None:
    """It is given the `Result` and says what the call gives."""
    _, success = _lines(lambda lines: _noting(lines, format=lambda result: Success(result.unwrap() * 10)))
    _, turned = _lines(lambda lines: _noting(lines, format=lambda result: Success(-1)), BAD)
    _, failed = _lines(lambda lines: _noting(lines, format=lambda result: Failure(TooBig(3))))

    assert (success.unwrap().result, turned.unwrap().result) == (60, -1)
    assert failed.failure() == HandlerFailed("double", TooBig(3))


def test_a_hook_sees_call_id_tool_and_parameters() -> None:
    """As the handler has them: decoded, and the tool as it is called now."""
    seen: list[Any] = []
    renamed = double.rename("twice")
    aspect = Aspect.make(before=lambda call: seen.append((call.call_id, call.tool, call.params)))
    called = Toolkit.make(renamed).call("twice", GOOD, call_id="c7").provide(aspect.wrap(double.handler(on_double)))

    assert fx.run(called).result == 6
    assert seen == [("c7", renamed, Sum(1, 2))]


def test_an_aspect_without_hooks_changes_nothing(backend: Backend) -> None:
    """Success and failure pass."""
    for aspect in (Aspect.empty(), Aspect.make(), Aspect.around(lambda call, proceed: proceed)):
        handlers = aspect.wrap(double.handler(on_double))

        assert outcome_of(kit.call("double", GOOD).provide(handlers), backend).result == 6
        assert failure_of(kit.call("double", BAD).provide(handlers), backend) == HandlerFailed("double", TooBig(10))


# -- the forms of hooks


async def _awaited(said: Any) -> Any:
    return said


def _generated(said: Any) -> Gen[Any]:
    yield from fx.sleep(0)
    return said


async def _awaited_effect(said: Any) -> Any:
    return fx.succeed(said)


FORMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda said: said,
    "awaited": _awaited,
    "result": Success,
    "io": IOSuccess,
    "awaited-result": lambda said: _awaited(Success(said)),
    "effect": fx.succeed,
    "awaited-effect": _awaited_effect,
    "generator": _generated,
}


@every("form", list(FORMS))
def test_a_hook_may_have_any_form(form: str, backend: Backend) -> None:
    """In each, None and `Return` mean the same."""
    say = FORMS[form]
    answering: Any = Aspect.make(before=lambda call: say(Return(1)))
    silent: Any = Aspect.make(before=lambda call: say(None), after=lambda call, n: say(Return(n + 1)))
    mending: Any = Aspect.make(recover=lambda call, error: say(Return(error.limit)))

    def outcome(aspect: Any, params: Any) -> Any:
        return outcome_of(kit.call("double", params).provide(aspect.wrap(double.handler(on_double))), backend).result

    assert (outcome(answering, GOOD), outcome(silent, GOOD), outcome(mending, BAD)) == (1, 7, 10)


FAILING: dict[str, Callable[[Any], Any]] = {
    "result": Failure,
    "awaited-result": lambda error: _awaited(Failure(error)),
    "effect": fx.fail,
}


@every("form", list(FAILING))
@every("hook", ["before", "after", "format"])
def test_a_hook_may_fail_in_any_form(form: str, hook: str, backend: Backend) -> None:
    """Its failure is the call's."""
    made: Any = Aspect.make

    def failing(*_: Any) -> Any:
        return FAILING[form](TooBig(4))

    aspect = made(**{hook: failing})
    called = kit.call("double", GOOD).provide(aspect.wrap(double.handler(on_double)))

    assert failure_of(called, backend) == HandlerFailed("double", TooBig(4))


@every("hook", ["before", "after", "recover", "format"])
@every("bare", [5, Success(5), Some(Return(5)), fx.succeed(5)])
def test_a_bare_value_of_a_hook_is_a_defect_that_says_what_to_return(hook: str, bare: Any) -> None:
    """Nobody could tell whether it is an answer."""
    made: Any = Aspect.make

    def saying(*_: Any) -> Any:
        return bare

    aspect = made(**{hook: saying})
    called = kit.call("double", BAD if hook == "recover" else GOOD).provide(aspect.wrap(double.handler(on_double)))
    if hook == "format" and not isinstance(bare, int | Some):
        assert fx.run(called).result == 5
        return

    defect = defect_of(called)
    assert isinstance(defect, TypeError)
    assert "Success(value)" in str(defect) if hook == "format" else "Return(value)" in str(defect)
    assert "'double'" in str(defect)


@every("hook", ["before", "after", "recover", "format"])
@every("mode", ["error", "return"])
def test_a_bug_in_a_hook_is_a_defect_of_that_call_alone(hook: str, mode: Any) -> None:
    """It is no typed failure, no other hook sees it, and other calls go on."""
    boom = RuntimeError("boom")
    seen: list[object] = []

    def bug(call: Invocation[Any], *_: Any) -> Any:
        raise boom

    tool: Any = double.with_options(failure_mode=mode)
    made: Any = Aspect.make

    def note(call: Invocation[Sum], given: Any) -> Any:
        seen.append(given)

    outer: Any = made(recover=note, format=note)
    handlers = outer.and_then(made(**{hook: bug})).wrap(tool.handler(on_double))
    whole = Toolkit.make(tool).merge(add_kit)
    broken: Any = whole.call("double", BAD if hook == "recover" else GOOD).provide(handlers)
    sound: Any = whole.call("add", GOOD).provide(add.handler(on_add))

    assert defect_of(broken) is boom
    assert seen == []
    assert fx.run(fx.all_(broken.exit(), sound))[1].result == 3


def test_a_defect_of_the_handler_passes_every_hook() -> None:
    """`recover` and `format` are for typed failures."""
    boom = RuntimeError("boom")
    seen: list[object] = []

    def handler(_: Sum) -> Any:
        raise boom

    def note(call: Invocation[Sum], given: Any) -> Any:
        seen.append(given)

    made: Any = Aspect.make
    aspect: Any = made(recover=note, format=note)
    beside = fx.fail(TooBig(1)).ensuring(fx.die(boom))

    assert defect_of(kit.call("double", GOOD).provide(aspect.wrap(double.handler(handler)))) is boom
    ended: Any = fx.run_exit(kit.call("double", GOOD).provide(aspect.wrap(double.handler(giving(beside)))))
    assert ended.cause.defects == (boom,)
    assert seen == []


# -- around


def test_around_may_run_the_handler_never_once_or_more_often() -> None:
    """It decides with the handler's effect in hand."""
    runs: list[Sum] = []

    def handler(p: Sum) -> Result[int, TooBig]:
        runs.append(p)
        return Success(len(runs))

    def twice(call: Invocation[Sum], proceed: EffectOf[int, TooBig, None]) -> Gen[int, TooBig]:
        first = yield from proceed
        return first * 10 + (yield from proceed)

    def never(call: Invocation[Sum], proceed: EffectOf[int, TooBig, None]) -> Result[int, TooBig]:
        return Success(0)

    def run(aspect: Aspect) -> Any:
        return fx.run(double.call(Sum(1, 1)).provide(aspect.wrap(double.handler(handler))))

    assert run(Aspect.around(twice, tool=double)) == 12
    assert run(Aspect.around(never, tool=double)) == 0
    assert len(runs) == 2


def test_around_by_a_stream_shows_preliminary_values() -> None:
    """It may return whatever a handler may."""

    def streamed(call: Invocation[Sum], proceed: EffectOf[int, TooBig, None]) -> StreamOf[int, TooBig, None]:
        return StreamOf.make(1, 2).concat(StreamOf.from_effect(proceed))

    handlers = Aspect.around(streamed, tool=double).wrap(double.handler(on_double))
    outcomes = fx.run(kit.handle("double", GOOD).collect().provide(handlers))

    assert [(outcome.result, outcome.preliminary) for outcome in outcomes] == [(1, True), (2, True), (6, False)]


# -- what is wrapped


def test_a_streaming_handler_keeps_its_preliminary_values() -> None:
    """`after` is given the last one only."""
    handlers = Aspect.make(after=lambda call, n: Return(n * 10)).wrap(double.handler(giving(StreamOf.make(1, 2, 3))))
    outcomes = fx.run(kit.handle("double", GOOD).collect().provide(handlers))

    assert [(outcome.result, outcome.preliminary) for outcome in outcomes] == [(1, True), (2, True), (30, False)]


def test_a_hook_may_show_preliminary_values_too() -> None:
    """By the context of the call."""
    aspect: Any = Aspect.make(before=lambda call: call.context.preliminary(0))
    outcomes = fx.run(kit.handle("double", GOOD).collect().provide(aspect.wrap(double.handler(on_double))))

    assert [outcome.result for outcome in outcomes] == [0, 6]


def test_a_blocking_handler_is_wrapped_too(backend: Backend) -> None:
    """The hooks run in the event loop's thread, the handler in its own."""
    threads: list[int] = []

    def handler(p: Sum) -> Result[int, TooBig]:
        threads.append(threading.get_ident())
        return Success(p.a)

    aspect: Any = Aspect.make(after=lambda call, n: threads.append(threading.get_ident()))
    handlers = aspect.wrap(double.handler(handler, blocking=True))

    assert outcome_of(kit.call("double", GOOD).provide(handlers), backend).result == 1
    assert threads[0] != threads[1] == threading.get_ident()


def test_every_way_of_calling_goes_through_the_aspect() -> None:
    """Typed, by data, by text, and as a stream."""
    handlers = Aspect.make(tool=double, after=lambda call, n: Return(n + 1)).wrap(double.handler(on_double))

    assert fx.run_sync(double.call(Sum(1, 2)).provide(handlers)) == 7
    assert fx.run_sync(kit.call("double", GOOD).provide(handlers)).result == 7
    assert fx.run_sync(kit.call_json("double", '{"a": 1, "b": 2}').provide(handlers)).result == 7
    assert [o.result for o in fx.run(kit.handle("double", GOOD).collect().provide(handlers))] == [7]


def test_parameters_that_do_not_fit_reach_no_aspect() -> None:
    """It wraps the handler, which is not run either."""
    seen: list[object] = []
    aspect: Any = Aspect.make(before=seen.append)
    outcome = fx.run(kit.call("double", {"a": "x"}).provide(aspect.wrap(double.handler(on_double))))

    assert outcome.is_failure
    assert seen == []


def test_a_whole_layer_is_wrapped_at_once() -> None:
    """An aspect for all tools wraps each handler, one for a tool only that tool's, and other services stay."""
    both = Toolkit.make(add, double)
    seen: list[str] = []
    everywhere: Any = Aspect.make(before=lambda call: seen.append(call.tool.name))
    one = Aspect.make(tool=double, after=lambda call, n: Return(n + 1))
    handlers = add.handler(on_add) | double.handler(on_double)
    wrapped = everywhere.and_then(one).wrap(both.to_layer(handlers))
    also = both.to_layer(everywhere.and_then(one).wrap(handlers))
    extra = everywhere.wrap(handlers | Layer.succeed(Factor, 3))

    for layer in (wrapped, also):
        seen.clear()
        assert fx.run(both.call("add", GOOD).provide(layer)).result == 3
        assert fx.run(both.call("double", GOOD).provide(layer)).result == 7
        assert seen == ["add", "double"]
    assert fx.run(fx.service(Factor).provide(extra)) == 3


def test_a_wrapped_handler_is_still_the_handler_of_its_tool() -> None:
    """`to_layer` finds nothing missing, doubled or extra that was not so before."""
    aspect = Aspect.make(tool=double).and_then(Aspect.make())
    wrapped = aspect.wrap(double.handler(on_double))
    other = double.handler(lambda p: Success(1))

    assert fx.run(kit.call("double", GOOD).provide(kit.to_layer(wrapped))).result == 6
    for layer, said in (
        (wrapped | other, "two handlers for: double"),
        (Aspect.make().wrap(wrapped | add.handler(on_add)), "not in the toolkit: add"),
        (Aspect.make().wrap(add.handler(on_add)), "no handler for: double"),
    ):
        untyped: Any = kit
        defect = defect_of(kit.call("double", GOOD).provide(untyped.to_layer(layer)))
        assert isinstance(defect, HandlerError)
        assert said in str(defect)


def test_an_aspect_for_a_tool_that_is_not_there_is_an_error() -> None:
    """It would do nothing; the message names the tool and those that are there."""
    aspect: Any = Aspect.make(tool=add)
    defect = defect_of(kit.call("double", GOOD).provide(aspect.wrap(double.handler(on_double))))

    assert isinstance(defect, HandlerError)
    assert "for add: the wrapped layer has no handler for it. The layer has handlers for: double" in str(defect)


def test_an_external_tool_cannot_be_wrapped() -> None:
    """It has no handler here; the message says so."""
    said = "'add' is external: another program answers its calls"
    with pytest.raises(SchemaError, match=said):
        Aspect.make(tool=add.external())
    with pytest.raises(SchemaError, match=said):
        Aspect.around(giving(1), tool=add.external())


# -- services


def test_an_aspect_asks_for_services_of_its_own() -> None:
    """They are supplied to the layer, like a handler's."""

    def scaled(call: Invocation[Sum], n: int) -> Gen[Return[int], Never, Factor]:
        return Return(n * (yield from fx.service(Factor)))

    wrapped = Aspect.make(tool=double, after=scaled).wrap(double.handler(on_double))

    assert fx.run(kit.call("double", GOOD).provide(wrapped).provide(Layer.succeed(Factor, 2))).result == 12
    assert fx.run(kit.call("double", GOOD).provide(wrapped.provide(Layer.succeed(Factor, 3)))).result == 18


def test_the_services_of_an_aspect_are_not_the_handlers() -> None:
    """Each sees what its own layer was given, of one service too."""

    def handler(p: Sum) -> Effect[int, TooBig, Factor]:
        return fx.service(Factor)

    def told(call: Invocation[Sum], n: int) -> Effect[Return[int], TooBig, Factor]:
        return fx.service(Factor).map(lambda factor: Return(n * 10 + factor))

    inner = double.handler(handler).provide(Layer.succeed(Factor, 1))
    wrapped = Aspect.make(tool=double, after=told).wrap(inner).provide(Layer.succeed(Factor, 2))

    assert fx.run(kit.call("double", GOOD).provide(wrapped)).result == 12


def test_a_handler_with_context_is_given_the_same_call() -> None:
    """The aspect changes nothing that the handler may know."""
    seen: list[str] = []

    def handler(p: Sum, call: CallContext) -> Result[int, TooBig]:
        seen.append(call.call_id)
        return Success(1)

    called = kit.call("double", GOOD, call_id="c1").provide(Aspect.make().wrap(double.handler(handler)))

    assert fx.run(called).result == 1
    assert seen == ["c1"]


def test_aspects_are_values() -> None:
    """Equal by what they do, hashable, and immutable."""
    hook = giving(None)
    aspect = Aspect.make(tool=double, before=hook)

    assert aspect == Aspect.make(tool=double, before=hook)
    assert len({aspect, Aspect.make(tool=double, before=hook), Aspect.empty()}) == 2
    assert aspect != Aspect.make(before=hook)
    with pytest.raises(AttributeError):
        setattr(aspect, "rings", ())  # noqa: B010
