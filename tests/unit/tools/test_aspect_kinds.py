"""The aspects that are ready to use: cache, log, timeout, retry and rate limit, by a clock that stands still."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Never

import pytest
from returns.result import Failure, Result, Success

from fxai.annotations import Idempotent, Readonly
from fxai.effects import Backend, Effect, EffectOf, Gen, LayerOf, Schedule, Timeout, fx
from fxai.schema import Empty, SchemaError
from fxai.testing import TestClock
from fxai.tools import Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, cache, log, rate_limit, retry, timeout
from tests.kit.every import every
from tests.kit.samples import Sum, TooBig, add, defect_of, double, giving, on_double

GOOD = {"a": 1, "b": 2}
ask = Tool.make("ask", parameters=int, success=int, failure=TooBig)
other = Tool.make("other", parameters=int, success=int, failure=TooBig)


class Desk:
    """A handler that counts its runs, waits, and fails as it is told."""

    def __init__(self, *, seconds: float = 0, fails: int = 0) -> None:
        self.runs: list[int] = []
        self.times: list[float] = []
        self.seconds = seconds
        self.fails = fails
        self.clock = TestClock()

    @fx.gen
    def on_ask(self, n: int) -> Gen[int, TooBig]:
        """Ten times the number, unless it is one of the first runs, which fail."""
        self.runs.append(n)
        self.times.append(self.clock.monotonic())
        if self.seconds:
            yield from fx.sleep(self.seconds)
        if len(self.runs) <= self.fails:
            yield from fx.fail(TooBig(len(self.runs)))
        return n * 10

    def serve(self, aspect: Aspect, tool: Tool[int, int, TooBig] = ask) -> LayerOf[Any, Never, None]:
        """The handler in the aspect."""
        return aspect.wrap(tool.handler(self.on_ask))

    def run(self, program: EffectOf[Any, Any, Any], aspect: Aspect, backend: Backend = "asyncio") -> Any:
        """What the program gives, with the handler in the aspect, by the clock."""
        return fx.run(program.provide(self.serve(aspect)).provide(self.clock.layer), backend=backend)

    def exit(self, program: EffectOf[Any, Any, Any], aspect: Aspect, backend: Backend = "asyncio") -> Any:
        """How it ends."""
        return fx.run_exit(program.provide(self.serve(aspect)).provide(self.clock.layer), backend=backend)


def _calls(*numbers: int) -> EffectOf[list[Any], Never, Any]:
    return fx.collect([ask.call(n).result() for n in numbers])


def _at_once(*numbers: int) -> EffectOf[list[Any], Never, Any]:
    return fx.for_each(numbers, lambda n: ask.call(n).result(), concurrency=None)


def _advancing(program: EffectOf[Any, Any, Any], desk: Desk, *seconds: float) -> EffectOf[Any, Any, Any]:
    """The program, while time passes in these steps."""

    def run() -> Gen[Any, Any, Any]:
        handle = yield from fx.fork(program)
        for step in seconds:
            yield from desk.clock.advance(step)
        return (yield from handle.join())

    return fx.scoped(fx.gen(run)())


# -- cache


def test_the_same_call_is_run_once(backend: Backend) -> None:
    """Another one is run; what is the same is decided by the parameters as JSON."""
    desk = Desk()
    results = desk.run(_calls(1, 2, 1, 1), cache(), backend)

    assert results == [Success(10), Success(20), Success(10), Success(10)]
    assert desk.runs == [1, 2]


def test_a_kept_result_is_forgotten_after_its_time(backend: Backend) -> None:
    """By the clock, from when the run ended."""
    desk = Desk()

    def program() -> Gen[list[list[int]], TooBig, Any]:
        seen: list[list[int]] = []
        for seconds in (0, 59, 1):
            yield from desk.clock.advance(seconds)
            yield from ask.call(1)
            seen.append([*desk.runs])
        return seen

    assert desk.run(fx.gen(program)(), cache(ttl=60), backend) == [[1], [1], [1, 1]]


def test_a_cache_holds_no_more_than_its_size() -> None:
    """The one that was not used for longest goes first."""
    desk = Desk()
    desk.run(_calls(1, 2, 1, 3, 1, 2), cache(size=2))

    assert desk.runs == [1, 2, 3, 2]


def test_failures_and_defects_are_not_kept() -> None:
    """The next call is run."""
    desk = Desk(fails=1)
    boom = RuntimeError("boom")

    assert desk.run(_calls(1, 1, 1), cache()) == [Failure(TooBig(1)), Success(10), Success(10)]
    assert desk.runs == [1, 1]

    runs: list[int] = []

    def broken(n: int) -> Result[int, TooBig]:
        runs.append(n)
        raise boom

    twice = ask.call(1).exit().and_then(ask.call(1))
    assert defect_of(twice.provide(cache().wrap(ask.handler(broken)))) is boom
    assert runs == [1, 1]


def test_calls_at_once_share_one_run(backend: Backend) -> None:
    """Whatever it comes to."""
    sound, failing = Desk(seconds=1), Desk(seconds=1, fails=1)

    assert sound.run(_advancing(_at_once(1, 1, 2), sound, 1), cache(), backend) == [
        Success(10),
        Success(10),
        Success(20),
    ]
    assert sorted(sound.runs) == [1, 2]
    assert failing.run(_advancing(_at_once(1, 1), failing, 1), cache(), backend) == [Failure(TooBig(1))] * 2
    assert failing.runs == [1]


def test_a_shared_run_that_is_interrupted_is_run_again_for_those_who_wait(backend: Backend) -> None:
    """One caller gives up, the other gets its result."""
    desk = Desk(seconds=5)
    hasty = ask.call(1).timeout(1).result()
    both = fx.all_(hasty, ask.call(1).delay(0.5).result())

    assert desk.run(_advancing(both, desk, 0.5, 0.5, 5), cache(), backend) == (Failure(Timeout(1)), Success(10))
    assert desk.runs == [1, 1]


def test_the_order_of_members_makes_no_other_call() -> None:
    """Raw parameters are the same when they say the same."""
    runs: list[object] = []
    raw = Tool.dynamic("raw", parameters={"type": "object"})
    kit = Toolkit.make(raw)

    def handler(params: object) -> Result[object, Never]:
        runs.append(params)
        return Success(None)

    handlers = cache().wrap(raw.handler(handler))
    calls = [kit.call("raw", params) for params in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1})]
    fx.run(fx.collect(calls).provide(handlers))

    assert runs == [{"a": 1, "b": 2}, {"a": 1}]


def test_two_tools_do_not_share_results() -> None:
    """Although one cache is around both and their parameters are equal."""
    kit = Toolkit.make(ask, other)
    handlers = ask.handler(Success) | other.handler(lambda n: Success(-n))
    both = fx.all_(kit.call("ask", 1), kit.call("other", 1))

    assert [o.result for o in fx.run(both.provide(cache().wrap(kit.to_layer(handlers))))] == [1, -1]


def test_a_key_of_ones_own_says_what_is_the_same() -> None:
    """Here: odd and even."""
    desk = Desk()
    results = desk.run(_calls(1, 3, 2), cache(key=lambda call: call.params % 2))

    assert results == [Success(10), Success(10), Success(20)]


def test_parameters_without_a_json_form_need_a_key() -> None:
    """A validation of the tool's own may make anything of them."""
    odd = Tool.dynamic("odd", parameters={"type": "object"}, validation=lambda value: Success(object()))
    called = Toolkit.make(odd).call("odd", {})
    defect = defect_of(called.provide(cache().wrap(odd.handler(giving(Success(1))))))

    assert "parameters of 'odd' have no JSON form" in str(defect)
    assert "cache(key=…)" in str(defect)


def test_a_cache_lives_as_long_as_its_layer() -> None:
    """Each build of the layer begins with nothing; one that is built further out is shared."""
    desk = Desk()
    layer: Any = desk.serve(cache())
    inner: EffectOf[int, TooBig, None] = ask.call(1).provide(layer)
    fx.run(inner)
    fx.run(inner)
    fx.run(inner.and_then(inner).provide(layer))

    assert desk.runs == [1, 1, 1]


# -- retry


def test_a_typed_failure_is_tried_again(backend: Backend) -> None:
    """After the delays of the schedule, by the clock."""
    desk = Desk(fails=2)
    program = _advancing(ask.call(4), desk, 1, 2)
    schedule = Schedule.exponential(1) & Schedule.recurs(5)

    assert desk.run(program, retry(schedule, tool=ask), backend) == 40
    assert desk.times == [0, 1, 3]


def test_the_last_failure_stands() -> None:
    """When the schedule ends."""
    desk = Desk(fails=9)

    assert desk.run(_calls(4), retry(Schedule.recurs(2), tool=ask)) == [Failure(TooBig(3))]


def test_the_schedule_is_given_the_failures() -> None:
    """So it can look at them."""
    desk = Desk(fails=9)
    schedule: Schedule[TooBig, int] = Schedule.recurs(5).while_input(lambda error: error.limit < 2)
    desk.run(_calls(4), retry(schedule, tool=ask))

    assert len(desk.runs) == 2


@pytest.mark.parametrize("annotation", [None, Idempotent, Readonly])
def test_over_a_layer_only_what_may_be_run_twice_is_tried_again(annotation: Any) -> None:
    """A tool that does not say so is run once; for one tool the aspect asks for no annotation."""
    desk = Desk(fails=1)
    tool = ask if annotation is None else ask.annotate(annotation, True)
    (result,) = desk.run(fx.collect([tool.call(4).result()]), retry(Schedule.recurs(1)))

    assert result == (Failure(TooBig(1)) if annotation is None else Success(40))


def test_a_defect_is_not_tried_again() -> None:
    """Trying again does not mend a bug."""
    runs: list[int] = []

    def broken(n: int) -> Result[int, TooBig]:
        runs.append(n)
        raise RuntimeError

    defect_of(ask.call(1).provide(retry(Schedule.recurs(3), tool=ask).wrap(ask.handler(broken))))

    assert runs == [1]


def test_a_handler_of_any_form_is_run_anew() -> None:
    """A coroutine or a generator can be run once; each try makes its own."""
    runs: list[int] = []

    async def awaited(n: int) -> Result[int, TooBig]:
        runs.append(n)
        return Success(n) if len(runs) % 2 == 0 else Failure(TooBig(0))

    def generated(n: int) -> Gen[int, TooBig]:
        yield from fx.sleep(0)
        runs.append(n)
        if len(runs) % 2:
            yield from fx.fail(TooBig(0))
        return n

    for handler in (ask.handler(awaited), ask.handler(generated)):
        assert fx.run(ask.call(7).provide(retry(Schedule.recurs(1), tool=ask).wrap(handler))) == 7
    assert len(runs) == 4


# -- timeout


def test_a_timeout_is_the_failure_that_one_says(backend: Backend) -> None:
    """When the time is over; a run that ends in time is not touched."""
    desk = Desk(seconds=5)
    slow = timeout(3, tool=ask, failure=lambda call: TooBig(call.params))

    assert desk.run(_advancing(_calls(8), desk, 3), slow, backend) == [Failure(TooBig(8))]
    assert desk.run(_advancing(_calls(8), desk, 5), timeout(6), backend) == [Success(80)]


def test_without_a_failure_a_timeout_is_a_defect() -> None:
    """No tool has declared it; the message says what to do."""
    desk = Desk(seconds=5)
    ended = desk.exit(_advancing(ask.call(8), desk, 3), timeout(3))
    (defect,) = ended.cause.defects

    assert isinstance(defect, TimeoutError)
    assert "handler of 'ask' ran longer than 3 s" in str(defect)
    assert "failure=…" in str(defect)


def test_the_finalizers_of_a_late_handler_run_first(backend: Backend) -> None:
    """And what fails in them is not lost."""
    lines: list[str] = []
    boom = RuntimeError("boom")
    desk = Desk()

    def handler(n: int) -> Effect[int, TooBig]:
        return fx.sleep(9).as_(n).ensuring(fx.sync(lambda: lines.append("closed")).and_then(fx.die(boom)))

    late = timeout(1, tool=ask, failure=lambda call: TooBig(0)).wrap(ask.handler(handler))
    program = _advancing(ask.call(1).provide(late), desk, 1)
    ended: Any = fx.run_exit(program.provide(desk.clock.layer), backend=backend)

    assert lines == ["closed"]
    assert (ended.cause.failures, ended.cause.defects) == ((TooBig(0),), (boom,))


def test_a_timeout_that_the_handler_failed_with_is_its_own() -> None:
    """It is not taken for the aspect's."""
    tool = Tool.make("t", success=int, failure=Timeout)
    late = timeout(3, tool=tool, failure=lambda call: Timeout(3))
    handlers = late.wrap(tool.handler(lambda _: fx.fail(Timeout(99))))

    assert fx.run_result(tool.call(Empty()).provide(handlers)) == Failure(Timeout(99))


# -- rate limit


def test_a_bucket_lets_so_many_begin_and_then_one_by_one(backend: Backend) -> None:
    """The others wait, in the order of arrival, by the clock."""
    desk = Desk()
    results = desk.run(_advancing(_at_once(1, 2, 3, 4), desk, *[1] * 20), rate_limit(2, per=20), backend)

    assert results == [Success(10), Success(20), Success(30), Success(40)]
    assert (desk.runs, desk.times) == ([1, 2, 3, 4], [0, 0, 10, 20])


def test_a_bucket_fills_up_again_and_no_further() -> None:
    """After a long rest there are as many tokens as at the start."""
    desk = Desk()

    def program() -> Gen[None, TooBig, Any]:
        yield from _at_once(1, 2)
        yield from desk.clock.advance(1000)
        yield from _advancing(_at_once(3, 4, 5), desk, 10)

    desk.run(fx.gen(program)(), rate_limit(2, per=20))

    assert desk.times == [0, 0, 1000, 1000, 1010]


def test_with_a_failure_nobody_waits() -> None:
    """It is told how long one would have to."""
    desk = Desk()
    limit = rate_limit(1, per=30, tool=ask, failure=lambda call, seconds: TooBig(round(seconds)))

    assert desk.run(_calls(1, 2), limit) == [Success(10), Failure(TooBig(30))]
    assert desk.runs == [1]


def test_who_gives_up_waiting_gives_the_token_back() -> None:
    """The next one waits no longer for it."""
    desk = Desk()

    def program() -> Gen[None, Any, Any]:
        yield from ask.call(1)
        yield from _advancing(ask.call(2).timeout(1).result(), desk, 1)
        yield from _advancing(ask.call(3), desk, 9)

    desk.run(fx.gen(program)(), rate_limit(1, per=10))

    assert (desk.runs, desk.times) == ([1, 3], [0, 10])


def test_one_bucket_is_for_all_handlers_of_the_layer() -> None:
    """Two aspects give two."""
    desk = Desk()
    kit: Toolkit[Any] = Toolkit.make(ask, other)
    both = fx.for_each(["ask", "other"], lambda name: kit.call(name, 1), concurrency=None)

    def times(layer: LayerOf[Any, Never, None]) -> list[float]:
        desk.times.clear()
        started = desk.clock.monotonic()
        fx.run(_advancing(both.provide(kit.to_layer(layer)), desk, 60).provide(desk.clock.layer))
        return [time - started for time in desk.times]

    one = rate_limit(1, per=60)
    untouched = ask.handler(desk.on_ask) | other.handler(desk.on_ask)

    assert times(one.wrap(untouched)) == [0, 60]
    assert times(one.wrap(ask.handler(desk.on_ask)) | one.wrap(other.handler(desk.on_ask))) == [0, 0]


# -- log


def _logged(caplog: pytest.LogCaptureFixture, handler: Callable[..., Any], **options: Any) -> logging.LogRecord:
    kit = Toolkit.make(double)
    with caplog.at_level(logging.DEBUG):
        fx.run_exit(kit.call("double", GOOD, call_id="c1").provide(log(**options).wrap(double.handler(handler))))
    (record,) = [record for record in caplog.records if record.name != "asyncio"]
    return record


def _field(record: logging.LogRecord, name: str) -> Any:
    return getattr(record, f"fxai_{name}", None)


def test_a_run_is_logged_with_its_fields_and_without_content(caplog: pytest.LogCaptureFixture) -> None:
    """What was asked and answered is nobody's business by default."""
    record = _logged(caplog, on_double)

    assert (record.name, record.levelno) == ("fxai.tools", logging.INFO)
    assert [_field(record, name) for name in ("tool", "call_id", "outcome")] == ["double", "c1", "success"]
    assert _field(record, "seconds") >= 0
    assert record.getMessage().startswith("tool double ended with success after 0.0")
    assert not [name for name in vars(record) if name in ("fxai_params", "fxai_result")]


def test_content_is_logged_when_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Parameters and result, as Python has them."""
    record = _logged(caplog, on_double, content=True, logger="mine", level=logging.DEBUG)

    assert (record.name, record.levelno) == ("mine", logging.DEBUG)
    assert (_field(record, "params"), _field(record, "result")) == (Sum(1, 2), 6)


def test_a_failure_is_logged_as_one(caplog: pytest.LogCaptureFixture) -> None:
    """At the same level: it is an answer."""
    record = _logged(caplog, giving(Failure(TooBig(7))), content=True)

    assert (record.levelno, _field(record, "outcome"), _field(record, "result")) == (logging.INFO, "failure", TooBig(7))


@pytest.mark.parametrize("content", [False, True])
def test_a_defect_is_logged_as_an_error(content: bool, caplog: pytest.LogCaptureFixture) -> None:
    """By its class; with its traceback only where content is logged."""

    def broken(_: Sum) -> Any:
        raise RuntimeError("secret")

    record = _logged(caplog, broken, content=content)

    assert (record.levelno, _field(record, "outcome")) == (logging.ERROR, "defect")
    assert _field(record, "defect") == "RuntimeError"
    assert ("secret" in caplog.text) == content


def test_an_interruption_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With the time that passed by the clock."""
    desk = Desk(seconds=9)
    with caplog.at_level(logging.INFO):
        desk.run(_advancing(ask.call(1).timeout(4).result(), desk, 4), log())
    (record,) = caplog.records

    assert (_field(record, "outcome"), _field(record, "seconds")) == ("interrupted", 4)


def test_what_is_below_the_loggers_level_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is made for it either."""
    with caplog.at_level(logging.WARNING):
        fx.run(double.call(Sum(1, 2)).provide(log().wrap(double.handler(on_double))))

    assert caplog.records == []


# -- all of them


NONSENSE: dict[str, Callable[[], object]] = {
    "cache of nothing": lambda: cache(size=0),
    "cache for no time": lambda: cache(ttl=0),
    "timeout at once": lambda: timeout(0),
    "no calls": lambda: rate_limit(0, per=1),
    "in no time": lambda: rate_limit(1, per=0),
}


@every("name", list(NONSENSE))
def test_a_limit_that_lets_nothing_happen_is_refused(name: str) -> None:
    """When the aspect is made."""
    with pytest.raises(ValueError, match="positive"):
        NONSENSE[name]()


def test_an_external_tool_has_no_handler_to_wrap() -> None:
    """Ready-made aspects refuse it as others do."""
    outside: Tool[int, int, TooBig] = ask.external()
    with pytest.raises(SchemaError, match="'ask' is external"):
        retry(Schedule.forever(), tool=outside)
    with pytest.raises(SchemaError, match="'ask' is external"):
        timeout(1, tool=outside, failure=lambda call: TooBig(0))
    with pytest.raises(SchemaError, match="'ask' is external"):
        rate_limit(1, per=1, tool=outside)


def test_they_compose_from_the_outside_in() -> None:
    """Each try has its own timeout; what a retry came to is cached; a hit takes no token."""
    desk = Desk(seconds=2, fails=0)
    tries: list[str] = []

    def noting(call: Invocation[int], proceed: EffectOf[int, TooBig, None]) -> EffectOf[int, TooBig, None]:
        tries.append("try")
        return proceed if len(tries) > 1 else fx.sleep(100).and_then(proceed)

    steady = (
        cache()
        .and_then(retry(Schedule.recurs(1), tool=ask))
        .and_then(timeout(3, tool=ask, failure=lambda call: TooBig(0)))
        .and_then(Aspect.around(noting, tool=ask))
        .and_then(rate_limit(1, per=1000, tool=ask))
    )

    assert desk.run(_advancing(_calls(1, 1), desk, 3, 2), steady) == [Success(10), Success(10)]
    assert (tries, desk.runs) == (["try", "try"], [1])


def test_a_handler_without_waiting_stays_without_an_event_loop() -> None:
    """Cache, log and a rate that is not reached need none."""
    aspect = log().and_then(cache()).and_then(rate_limit(5, per=1))

    assert fx.run_sync(add.call(Sum(1, 2)).provide(aspect.wrap(add.handler(lambda p: Success(p.a + p.b))))) == 3


def test_a_tool_from_a_function_is_wrapped_like_any_other() -> None:
    """By its layer; its arguments are what a cache goes by."""
    runs: list[int] = []

    def halve(n: int, times: int = 1) -> int:
        """Halves a number."""
        runs.append(n)
        return n // (2 * times)

    made = Tool.from_function(halve)
    kit = Toolkit.make(made.tool)
    calls = [kit.call("halve", params) for params in ({"n": 8}, {"n": 8, "times": 1}, {"n": 8, "times": 2})]
    results = fx.run(fx.collect(calls).provide(cache().wrap(made.layer)))

    assert [result.result for result in results] == [4, 4, 2]
    assert runs == [8, 8]
