"""Aspects, as the other system has them as callbacks of a tool: `beforeCall`, `onSuccess`, `onError`, `formatOutput`.

There a hook that returns `undefined` has nothing to say; here one that returns None. What a hook does say is a
`Return`, so that None is a value too. What its tools throw is a typed failure here; what nobody declared is a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects import fx
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, call
from fxai.tools import Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.kit.conformance import Case, case


class Numbers(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


class Failed(msgspec.Struct, frozen=True):
    """What went wrong."""

    error: str


add = Tool.dynamic("add", parameters=Numbers, failure=Failed, failure_mode="return")
kit = Toolkit.make(add)


class Spy:
    """A hook or handler that notes what it was given, and returns what it was told to."""

    def __init__(self, returns: Any = None) -> None:
        self.returns = returns
        self.given: list[tuple[Any, ...]] = []

    def hook(self, call: Invocation[Numbers], *given: Any) -> Any:
        """As a hook."""
        self.given.append((msgspec.to_builtins(call.params), *given))
        return self.returns

    async def awaited(self, call: Invocation[Numbers], *given: Any) -> Any:
        """As a hook that waits."""
        await fx.run_async(fx.sleep(0.001))
        return self.hook(call, *given)

    def handler(self, params: Numbers) -> Result[Any, Failed]:
        """As a handler."""
        self.given.append((msgspec.to_builtins(params),))
        outcome: Result[Any, Failed] = self.returns
        return outcome


def _call(aspect: Aspect, handler: Callable[[Numbers], Result[Any, Failed]]) -> Any:
    called = kit.call("add", {"a": 5, "b": 3})
    return fx.run(called.provide(aspect.wrap(add.handler(handler)))).encoded_result


def _sum(p: Numbers) -> Result[Any, Failed]:
    return Success({"sum": p.a + p.b})


def _throws(_: Numbers) -> Result[Any, Failed]:
    return Failure(Failed("failed"))


INPUT, SUM = {"a": 5, "b": 3}, {"sum": 8}


@case("LM010")
def test_sub_tools_keep_their_own_hooks(case: Case) -> None:
    """Each `after` is given its own call's parameters and result."""
    one, two = Tool.dynamic("op1", parameters={"type": "object"}), Tool.dynamic("op2", parameters={"type": "object"})
    spies: dict[str, list[Any]] = {"op1": [], "op2": []}

    def spying(tool: Tool[object, object, Never]) -> Any:
        def after(call: Invocation[object], result: object) -> None:
            spies[call.tool.name].append((call.params, result))

        def handler(params: Any) -> Result[object, Never]:
            return Success({"result": params["x"]})

        return Aspect.make(tool=tool, after=after).wrap(tool.handler(handler))

    ops = Toolkit.make(one, two).as_tool("ops")
    calls = {"calls": [{"name": "op1", "args": {"x": 1}}, {"name": "op2", "args": {"x": 2}}]}
    live: Any = ops.layer.provide(spying(one) | spying(two))
    fx.run(Toolkit.make(ops.tool).call("ops", calls).provide(live))

    assert case.expect == "spy1 got ({x:1},{result:1}); spy2 got ({x:2},{result:2})"
    assert spies == {"op1": [({"x": 1}, {"result": 1})], "op2": [({"x": 2}, {"result": 2})]}


@case("LM026")
def test_hooks_run_in_each_step(case: Case) -> None:
    """Two turns, two calls: each hook twice."""
    before, after = Spy(), Spy()
    model = ScriptedModel.make([call("add", INPUT), call("add", INPUT)])
    handlers = Aspect.make(before=before.hook, after=after.hook).wrap(add.handler(_sum))
    asked = LanguageModel.generate_text("go", toolkit=kit)
    fx.run(asked.and_then(asked).provide(handlers).provide(model.layer))

    assert case.expect == "each spy called twice"
    assert (len(before.given), len(after.given)) == (2, 2)


@case("LM030", "LM050")
def test_after_is_given_the_result_and_may_replace_it(case: Case) -> None:
    """With the parameters and the handler's own result; what it returns is the call's."""
    after = Spy(Return({"modified": True}))

    assert "called with (input," in case.expect
    assert _call(Aspect.make(after=after.hook), _sum) == {"modified": True}
    assert after.given == [(INPUT, SUM)]


@case("LM031")
def test_after_that_says_nothing_keeps_the_result(case: Case) -> None:
    """It was given it all the same."""
    after = Spy()

    assert case.expect == "onSuccess called with ({a:5,b:3},{sum:8})"
    assert _call(Aspect.make(after=after.hook), _sum) == SUM
    assert after.given == [(INPUT, SUM)]


@case("LM040")
def test_all_hooks_together(case: Case) -> None:
    """In order, and none for a failure that there was not."""
    before, after, recover = Spy(), Spy(), Spy()
    form = Spy(Success(SUM))
    made: Any = Aspect.make
    aspect = made(before=before.hook, after=after.hook, recover=recover.hook, format=form.hook)

    assert "onError not called" in case.expect
    assert _call(aspect, _sum) == SUM
    assert (before.given, after.given, recover.given) == ([(INPUT,)], [(INPUT, SUM)], [])
    assert form.given == [(INPUT, Success(SUM))]


@case("LM041")
def test_hooks_chain(case: Case) -> None:
    """`before` lets it pass, `after` adds a field."""
    before, after = Spy(), Spy(Return({**SUM, "more": 1}))

    assert case.expect == "both called"
    assert _call(Aspect.make(before=before.hook, after=after.hook), _sum) == {"sum": 8, "more": 1}
    assert (len(before.given), len(after.given)) == (1, 1)


@case("LM042", "LM043")
def test_hooks_may_be_asynchronous(case: Case) -> None:
    """They are waited for."""
    hook = Spy(Return({"late": True}))
    aspect = Aspect.make(after=hook.awaited) if "onSuccess" in case.name else Aspect.make(before=hook.awaited)

    assert case.expect == "called"
    assert _call(aspect, _sum) == {"late": True}
    assert len(hook.given) == 1


@case("LM048")
def test_before_answers_at_once(case: Case) -> None:
    """The handler is not run."""
    handler = Spy(Success(SUM))

    assert case.expect == "returns {early:true}; execute not called"
    assert _call(Aspect.make(before=Spy(Return({"early": True})).hook), handler.handler) == {"early": True}
    assert handler.given == []


@case("LM049")
def test_before_that_says_nothing_goes_on(case: Case) -> None:
    """The handler is run, and its result is the call's."""
    handler = Spy(Success(SUM))

    assert case.expect == "execute called; its value returned"
    assert _call(Aspect.make(before=Spy().hook), handler.handler) == SUM
    assert handler.given == [(INPUT,)]


@case("LM052")
def test_recover_makes_a_failure_a_result(case: Case) -> None:
    """The call succeeds with what it returns."""
    assert case.expect == "resolves (not rejects) with {recovered:true}"
    assert _call(Aspect.make(recover=Spy(Return({"recovered": True})).hook), _throws) == {"recovered": True}


@case("LM053")
def test_recover_that_says_nothing_leaves_the_failure(case: Case) -> None:
    """It is told as the tool encodes it."""
    recover = Spy()

    assert case.expect == 'resolves with {error:"failed"}'
    assert _call(Aspect.make(recover=recover.hook), _throws) == {"error": "failed"}
    assert recover.given == [(INPUT, Failed("failed"))]


@case("LM054")
def test_format_is_given_the_result(case: Case) -> None:
    """Here as a `Result`; what it gives is the call's."""
    form = Spy(Success({"formatted": True}))

    assert "returns {formatted:true}" in case.expect
    assert _call(Aspect.make(format=form.hook), _sum) == {"formatted": True}
    assert form.given == [(INPUT, Success(SUM))]


@case("LM055")
def test_format_is_given_the_failure_too(case: Case) -> None:
    """There a failure is an object to spread; here it stays a typed failure unless `format` makes a success of it."""

    def form(call: Invocation[Numbers], result: Result[Any, Failed]) -> Result[Any, Failed]:
        if isinstance(result, Success):
            return result
        return Success({"error": result.failure().error, "formatted": True})

    assert case.expect == 'returns {error:"failed",formatted:true}'
    assert _call(Aspect.make(tool=add, format=form), _throws) == {"error": "failed", "formatted": True}
