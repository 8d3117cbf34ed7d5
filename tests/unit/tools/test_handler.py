"""Handlers: every form that one may return, what one may know, and layers of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Never

import pytest
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOFailure, IOResult, IOSuccess
from returns.maybe import Some
from returns.result import Failure, Result, Success

from fxai.effects import Backend, ContextOf, Effect, Gen, Layer, Scope, Service, Stream, StreamOf, Tag, fx
from fxai.messages import Prompt
from fxai.tools import CallContext, HandlerFailed, HandlerOf, InvalidResult, Tool, Toolkit
from tests.kit.every import every
from tests.kit.journal import Journal
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
    outcome_of,
)


class Factor(Tag[int]):
    """What sums are multiplied with."""


class Log(Service):
    """Where lines go."""

    @abstractmethod
    def line(self, text: str) -> Effect[None]:
        """Adds one."""


class _Lines(Log):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> Effect[None]:
        return fx.sync(lambda: self.lines.append(text))


FACTOR = Layer.succeed(Factor, 1)
kit = Toolkit.make(double)
GOOD, BAD = {"a": 1, "b": 2}, {"a": 10, "b": 10}


def _answer(p: Sum) -> Result[int, TooBig]:
    return Success(p.a + p.b) if p.a < 10 else Failure(TooBig(10))


async def _awaited(p: Sum) -> Result[int, TooBig]:
    return _answer(p)


def _future(p: Sum) -> FutureResult[int, TooBig]:
    return FutureResult.from_result(_answer(p))


def _io(p: Sum) -> IOResult[int, TooBig]:
    return IOSuccess(p.a + p.b) if p.a < 10 else IOFailure(TooBig(10))


async def _awaited_io(p: Sum) -> IOResult[int, TooBig]:
    return _io(p)


def _effect(p: Sum) -> Effect[int, TooBig, Factor]:
    asked = fx.service(Factor)
    return asked.flat_map(lambda factor: fx.lift(_answer(p)).map(lambda n: n * factor))


async def _awaited_effect(p: Sum) -> Effect[int, TooBig, Factor]:
    return _effect(p)


def _generator(p: Sum) -> Gen[int, TooBig, Factor]:
    factor = yield from fx.service(Factor)
    yield from fx.sleep(0)
    return (yield from fx.lift(_answer(p))) * factor


def _stream(p: Sum) -> Stream[int, TooBig, Factor]:
    asked = fx.service(Factor)
    factor = StreamOf.from_effect(asked)
    return StreamOf.make(1, 2).concat(factor.map_effect(lambda n: fx.lift(_answer(p)).map(lambda total: total * n)))


def _reader(p: Sum) -> RequiresContextFutureResult[int, TooBig, ContextOf[Factor]]:
    def call(context: ContextOf[Factor]) -> FutureResult[int, TooBig]:
        factor = ContextOf.get(context, Factor)
        return FutureResult.from_result(_answer(p).map(lambda n: n * factor))

    return RequiresContextFutureResult(call)


HANDLERS: dict[str, Callable[..., Any]] = {
    "result": _answer,
    "awaited": _awaited,
    "future": _future,
    "io": _io,
    "awaited-io": _awaited_io,
    "effect": _effect,
    "awaited-effect": _awaited_effect,
    "generator": _generator,
    "stream": _stream,
    "reader": _reader,
}


def _served(f: Callable[..., Any], **options: Any) -> Any:
    handler: Any = double.handler
    return handler(f, **options).provide(FACTOR)


@every("form", list(HANDLERS))
def test_every_form_gives_success_and_typed_failure(form: str, backend: Backend) -> None:
    """Whatever a handler returns, its success is the result and its failure is `HandlerFailed`."""
    handlers = _served(HANDLERS[form])

    assert outcome_of(kit.call("double", GOOD).provide(handlers), backend).result == 3
    assert failure_of(kit.call("double", BAD).provide(handlers), backend) == HandlerFailed("double", TooBig(10))


@every("form", list(HANDLERS))
def test_every_form_can_take_the_context(form: str, backend: Backend) -> None:
    """A handler with two parameters is given the call, in every form."""
    seen: list[CallContext] = []

    if form.startswith("awaited"):

        async def asynchronous(p: Sum, call: CallContext) -> Any:
            seen.append(call)
            return await HANDLERS[form](p)

        handlers = _served(asynchronous)
    else:

        def plain(p: Sum, call: CallContext) -> Any:
            seen.append(call)
            return HANDLERS[form](p)

        handlers = _served(plain)

    outcome = outcome_of(kit.call("double", GOOD, call_id="c7").provide(handlers), backend)

    assert outcome.result == 3
    assert [(call.call_id, call.tool) for call in seen] == [("c7", double)]


class _Desk:
    """Handlers that are methods."""

    def one(self, p: Sum) -> Any:
        return _takes(p)

    def two(self, p: Sum, call: CallContext) -> Any:
        return _takes(p, call)

    def default(self, p: Sum, call: CallContext | None = None) -> Any:
        return _takes(p, call)

    @staticmethod
    def static(p: Sum, call: CallContext) -> Any:
        return _takes(p, call)

    @classmethod
    def of_class(cls, p: Sum, call: CallContext) -> Any:
        return _takes(p, call)

    @fx.gen
    def gen_one(self, p: Sum) -> Gen[int, Never]:
        return (yield from fx.succeed(_takes(p).unwrap()))

    @fx.gen
    def gen_two(self, p: Sum, call: CallContext) -> Gen[int, Never]:
        return (yield from fx.succeed(_takes(p, call).unwrap()))

    def __call__(self, p: Sum, call: CallContext) -> Any:
        return _takes(p, call)


def _takes(p: Sum, call: CallContext | None = None) -> Result[int, Never]:
    """Whether the handler was given the call: 1, else 0."""
    return Success(0 if call is None else 1)


@fx.gen
def _gen_one(p: Sum) -> Gen[int, Never]:
    return (yield from fx.succeed(_takes(p).unwrap()))


@fx.gen
def _gen_two(p: Sum, call: CallContext) -> Gen[int, Never]:
    return (yield from fx.succeed(_takes(p, call).unwrap()))


@wraps(_gen_two)
def _wrapped(*args: Any) -> Any:
    return _gen_two(*args)


@wraps(_Desk().two)
def _of_method(*args: Any) -> Any:
    return _Desk().two(*args)


CALLABLES: dict[str, tuple[Callable[..., Any], int]] = {
    "method": (_Desk().one, 0),
    "method with the call": (_Desk().two, 1),
    "method with a default": (_Desk().default, 0),
    "static method": (_Desk().static, 1),
    "class method": (_Desk().of_class, 1),
    "generator": (_gen_one, 0),
    "generator with the call": (_gen_two, 1),
    "generator method": (_Desk().gen_one, 0),
    "generator method with the call": (_Desk().gen_two, 1),
    "object": (_Desk(), 1),
    "partial": (partial(_Desk.two, _Desk()), 1),
    "wrapper of a wrapper": (_wrapped, 1),
    "wrapper of a method": (_of_method, 1),
    "default": (_takes, 0),
}


@every("name", list(CALLABLES))
def test_whatever_can_be_called_is_given_the_call_if_it_takes_two_arguments(name: str) -> None:
    """Functions, methods, generators of `fx.gen` and objects: the receiver is no argument, nor is a default."""
    f, given = CALLABLES[name]

    assert fx.run(kit.call("double", GOOD).provide(_served(f))).result == given


@every("form", list(HANDLERS))
def test_the_typed_call_gives_the_handlers_own_success_and_failure(form: str, backend: Backend) -> None:
    """`tool.call` involves no JSON: the failure is the tool's own."""
    handlers = _served(HANDLERS[form])

    assert fx.run_result(double.call(Sum(1, 2)).provide(handlers), backend=backend) == Success(3)
    assert fx.run_result(double.call(Sum(10, 2)).provide(handlers), backend=backend) == Failure(TooBig(10))


def test_what_never_waits_runs_without_an_event_loop() -> None:
    """A synchronous handler is called inline, by JSON and typed."""
    handlers = add.handler(on_add)

    assert fx.run_sync(add_kit.call("add", GOOD).provide(handlers)).result == 3
    assert fx.run_sync(add.call(Sum(2, 2)).provide(handlers)) == 4


# -- what is no form


async def _bare_awaited(_: Sum) -> Any:
    return 5


BARE: dict[str, Callable[..., Any]] = {
    "number": giving(5),
    "none": giving(None),
    "maybe": giving(Some(5)),
    "awaited": _bare_awaited,
}


@every("form", list(BARE))
@every("mode", ["error", "return"])
def test_a_bare_value_is_a_defect_that_says_what_to_return(form: str, mode: Any, backend: Backend) -> None:
    """Nobody could tell what it means: it is neither shown to the model nor taken for a success."""
    tool: Any = add.with_options(failure_mode=mode)
    defect = defect_of(Toolkit.make(tool).call("add", GOOD).provide(tool.handler(BARE[form])), backend)

    assert isinstance(defect, TypeError)
    for said in ("'add'", "Success(value)", "Effect", "Stream"):
        assert said in str(defect)


@every("mode", ["error", "return"])
@every("form", ["plain", "awaited", "generator", "stream"])
def test_what_a_handler_raises_is_a_defect(form: str, mode: Any, backend: Backend) -> None:
    """An exception is never a result and never a typed failure, in either failure mode."""
    boom = RuntimeError("boom")

    def plain(_: Sum) -> Any:
        raise boom

    async def awaited(_: Sum) -> Any:
        raise boom

    def generator(_: Sum) -> Gen[int, TooBig]:
        yield from fx.sleep(0)
        raise boom

    forms: dict[str, Any] = {"plain": plain, "awaited": awaited, "generator": generator}
    forms["stream"] = giving(StreamOf.make(Sum(1, 2)).map(plain))
    tool: Any = double.with_options(failure_mode=mode)
    called = Toolkit.make(tool).call("double", GOOD).provide(tool.handler(forms[form]))

    assert defect_of(called, backend) is boom


def test_a_defect_beside_a_typed_failure_is_not_swallowed(backend: Backend) -> None:
    """What a finalizer raises stays, whether the failure is returned or raised."""
    boom = RuntimeError("boom")
    broken = fx.fail(TooBig(1)).ensuring(fx.die(boom))

    def handler(_: Sum) -> Effect[int, TooBig]:
        return broken

    stern: Any = fx.run_exit(kit.call("double", GOOD).provide(double.handler(handler)), backend=backend)
    mild = double.with_options(failure_mode="return")
    returned: Any = fx.run_exit(Toolkit.make(mild).call("double", GOOD).provide(mild.handler(handler)), backend=backend)

    assert stern.cause.failures == (HandlerFailed("double", TooBig(1)),)
    assert stern.cause.defects == (boom,)
    assert returned.cause.failures == ()
    assert returned.cause.defects == (boom,)


def test_a_stream_without_items_is_a_defect(backend: Backend) -> None:
    """The last item is the result; without one there is none."""

    def handler(_: Sum) -> Stream[int]:
        return StreamOf.from_iterable(list[int]())

    defect = defect_of(add_kit.call("add", GOOD).provide(add.handler(handler)), backend)

    assert "empty stream" in str(defect)
    assert "'add'" in str(defect)


# -- what a handler may know


def test_a_handler_with_a_default_takes_one_argument() -> None:
    """Only parameters that must be given count."""

    def handler(p: Sum, factor: int = 7) -> Result[int, Never]:
        return Success((p.a + p.b) * factor)

    assert outcome_of(add_kit.call("add", GOOD).provide(add.handler(handler))).result == 21


def test_the_context_outside_of_a_conversation_is_empty() -> None:
    """Without a model there is no id, no message and no deadline, and preliminary values go nowhere."""
    seen: list[Any] = []

    def handler(p: Sum, call: CallContext) -> Gen[int, Never]:
        yield from call.preliminary(1)
        seen.append((call.call_id, call.messages, call.deadline))
        return p.a

    assert outcome_of(add_kit.call("add", GOOD).provide(add.handler(handler))).result == 1
    assert fx.run(add.call(Sum(1, 2)).provide(add.handler(handler))) == 1
    assert seen == [("", (), None)] * 2


def test_the_context_leaves_the_system_prompt_out() -> None:
    """A handler sees the conversation, not what the model was told before it."""
    prompt = Prompt.make("Hello").set_system("Secret.")
    call = CallContext(add, "c", prompt, 12.5)

    assert [m.role for m in call.messages] == ["user"]
    assert call.deadline == 12.5


def _yielding(_: Sum, call: CallContext) -> Gen[int, Never]:
    yield from call.preliminary("one")
    return 1


def _swallowing(_: Sum, call: CallContext) -> Any:
    return call.preliminary("one").catch_all(lambda _: fx.succeed(None)).as_(1)


def _excepting(_: Sum, call: CallContext) -> Gen[int, Never]:
    try:
        yield from call.preliminary("one")
    except Exception:
        return 2
    return 1


async def _awaiting(_: Sum, call: CallContext) -> Result[int, Never]:
    await fx.run_async(call.preliminary("one"))
    return Success(1)


def _streaming(_: Sum) -> Any:
    return Stream.make(0, "one", 1)


def _failing_too(_: Sum, call: CallContext) -> Any:
    return call.preliminary("one").ensuring(fx.sync(lambda: None)).and_then(fx.fail("no"))


async def _awaiting_and_excepting(_: Sum, call: CallContext) -> Result[int, Never]:
    try:
        await fx.run_async(call.preliminary("one"))
    except Exception:
        return Success(2)
    return Success(1)


EARLY: list[Any] = [
    *(_yielding, _swallowing, _excepting, _awaiting, _awaiting_and_excepting),
    *(_streaming, _failing_too),
]


@every("handler", EARLY)
@every("way", ["call", "call_json", "handle", "composite"])
def test_a_preliminary_value_of_another_type_is_an_invalid_result(way: str, handler: Any, backend: Backend) -> None:
    """A typed failure, as for a result of another type; whatever the handler does about it, and whoever reads it.

    Inside a composite it is a bug of the handler, as such a result is.
    """
    handlers = add.handler(handler)
    ways: dict[str, Any] = {
        "call": lambda: add_kit.call("add", GOOD),
        "call_json": lambda: add_kit.call_json("add", '{"a": 1, "b": 2}'),
        "handle": lambda: add_kit.handle("add", GOOD).collect(),
    }
    if way == "composite":
        whole = add_kit.as_tool("all")
        layer: Any = whole.layer
        asked = Toolkit.make(whole.tool).call("all", {"calls": [{"name": "add", "args": GOOD}]})
        told = str(defect_of(asked.provide(layer.provide(handlers)), backend))
    else:
        failure = failure_of(ways[way]().provide(handlers), backend)
        assert isinstance(failure, InvalidResult)
        assert (failure.name, failure.declared, failure.preliminary) == ("add", "success", True)
        assert [(fault.expected, fault.found) for fault in failure.faults] == [("integer", "string 'one'")]
        told = str(failure)

    assert "handler of 'add' returned a preliminary value that its success type does not allow" in told


def test_a_handler_is_stopped_at_a_preliminary_value_that_does_not_fit(backend: Backend) -> None:
    """What comes after is not run, its finalizers are; what fitted before it was shown."""
    journal, shown = Journal(), list[Any]()

    def handler(_: Sum, call: CallContext) -> Any:
        told = call.preliminary(1).and_then(call.preliminary("one")).and_then(journal.note("after"))
        return told.ensuring(journal.note("left")).as_(2)

    outcomes = add_kit.handle("add", GOOD).for_each(lambda outcome: fx.sync(lambda: shown.append(outcome.result)))
    failure = failure_of(outcomes.provide(add.handler(handler)), backend)

    assert isinstance(failure, InvalidResult)
    assert (journal.lines, shown) == (["left"], [1])


def test_a_typed_call_checks_neither_preliminary_values_nor_results(backend: Backend) -> None:
    """No JSON is involved: what the handler gives is what the caller gets."""
    assert fx.run(add.call(Sum(1, 2)).provide(add.handler(_yielding)), backend=backend) == 1


# -- services


def test_a_handler_has_the_services_of_its_layer() -> None:
    """They are captured when the layer is built."""
    handlers = double.handler(_effect).provide(Layer.succeed(Factor, 3))

    assert outcome_of(kit.call("double", GOOD).provide(handlers)).result == 9


def test_a_layer_of_handlers_serves_programs_with_and_without_services() -> None:
    """A layer keeps no service of an earlier program."""

    def handler(p: Sum) -> Any:
        return fx.context().map(lambda context: p.a * context.find(Factor.__fx_key__(), 1))

    handlers: Any = add_kit.to_layer(add.handler(handler))
    called: Any = add_kit.call("add", {"a": 2, "b": 0}).provide(handlers)
    plain, tenfold = called, called.provide(Layer.succeed(Factor, 10))

    assert [outcome_of(program).result for program in (plain, tenfold, plain, tenfold, plain)] == [2, 20, 2, 20, 2]


def test_a_service_of_the_request_overrides_that_of_the_layer() -> None:
    """Of one key, what is there when the call is made wins, in every form that needs services."""
    for f in (_effect, _awaited_effect, _generator, _stream, _reader):
        handler: Any = double.handler
        program: Any = kit.call("double", GOOD).provide(Layer.succeed(Factor, 5))
        alone: Any = kit.call("double", GOOD)

        assert outcome_of(program.provide(handler(f).provide(Layer.succeed(Factor, 3)))).result == 15
        assert outcome_of(alone.provide(handler(f).provide(Layer.succeed(Factor, 3)))).result == 9


def test_a_service_is_built_once_for_all_handlers(backend: Backend) -> None:
    """Handlers of several toolkits that are fed by one layer share its service, which is released at the end."""
    journal = Journal()
    factor = Layer.scoped(Factor, journal.held("factor").as_(2))
    one, other = add.rename("one"), Tool.make("other", parameters=Sum, success=int)

    def handler(p: Sum) -> Effect[int, Never, Factor]:
        return fx.service(Factor).map(lambda factor: factor * p.a)

    layer = Toolkit.make(one).to_layer(one.handler(handler).provide(factor)) | Toolkit.make(other).to_layer(
        other.handler(handler).provide(factor)
    )
    both = Toolkit.make(one, other)
    called = fx.all_(both.call("one", GOOD), both.call("other", GOOD))

    assert [one.result for one in fx.run(called.provide(layer), backend=backend)] == [2, 2]
    assert journal.lines == ["+factor", "-factor"]


def test_a_layer_can_build_a_handler_from_services() -> None:
    """A handler may be made of what a service is when the layer is built."""
    lines = _Lines()

    def build(log: Log) -> Layer[HandlerOf[Sum, int, Never]]:
        def handler(p: Sum) -> Gen[int, Never]:
            yield from log.line(f"{p.a} + {p.b}")
            return p.a + p.b

        return add.handler(handler)

    made: Effect[Layer[HandlerOf[Sum, int, Never]], Never, Log] = fx.service(Log).map(build)
    unwrap: Any = Layer.unwrap
    unwrapped: Any = unwrap(made)
    handlers: Any = unwrapped.provide(Layer.succeed(Log, lines))

    assert outcome_of(add_kit.call("add", GOOD).provide(add_kit.to_layer(handlers))).result == 3
    assert lines.lines == ["1 + 2"]


def test_what_a_handler_acquires_is_released_with_its_call(backend: Backend) -> None:
    """A scope inside a handler ends with it; its finalizer runs before the outcome is there."""
    journal = Journal()

    def handler(p: Sum) -> Effect[int]:
        held: Effect[int, Never, Scope] = journal.held("x").as_(p.a)
        return fx.scoped(held)

    called = add_kit.call("add", GOOD).provide(add.handler(handler)).tap(lambda _: journal.note("outcome"))

    assert fx.run(called, backend=backend).result == 1
    assert journal.lines == ["+x", "-x", "outcome"]


def test_a_handler_type_is_never_made() -> None:
    """`HandlerOf` says what is needed and is no value."""
    with pytest.raises(TypeError, match=r"tool\.handler"):
        HandlerOf()


def test_a_typed_call_without_a_handler_says_so(backend: Backend) -> None:
    """What the checkers could not see is a defect that names the tool and how a handler is given; with one it runs."""
    other = Tool.make("other", parameters=Sum, success=int)
    program: Any = other.call(Sum(1, 2))
    ended: Any = fx.run_exit(program.provide(add.handler(on_add)), backend=backend)
    (defect,) = ended.cause.defects

    assert isinstance(defect, LookupError)
    assert str(defect).startswith("no layer provides a handler for the tool 'other'. Provide tool.handler(f)")
    assert fx.run(program.provide(other.handler(on_add)), backend=backend) == 3
    external: Any = other.external().call(Sum(1, 2))
    outside: Any = fx.run_exit(external, backend=backend)
    assert str(outside.cause.defects[0]) == (
        "tool 'other' is external: another program answers its calls. It cannot have a handler."
    )
