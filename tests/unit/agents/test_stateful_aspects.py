"""Aspects of the tools of stateful prompts: around one tool, or around each sub-tool of a composite.

A hook that returns None has nothing to say; what it does say is a `Return`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Result, Success

from fxai.agents.stateful import Render
from fxai.effects import Backend, Effect, fx
from fxai.testing import call, text
from fxai.tools import BoundToolkit, Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.kit.renders import Calls, Played, plain_tool, play, play_failing

INPUT, SUM = {"a": 5, "b": 3}, {"sum": 8}


class Hook:
    """A hook that notes what it was given, and returns what it was told to."""

    def __init__(self, returns: Any = None) -> None:
        self.given: list[tuple[Any, ...]] = []
        self._returns = returns

    def __call__(self, invocation: Invocation[Any], *given: Any) -> Any:
        """As `before`, `after`, `recover` or `format`."""
        self.given.append((invocation.params, *given))
        return self._returns

    async def awaited(self, invocation: Invocation[Any], *given: Any) -> Any:
        """As a hook that waits."""
        await fx.run_async(fx.sleep(0))
        return self(invocation, *given)


def _sum() -> Calls:
    return Calls(lambda p: {"sum": p["a"] + p["b"]})


def _fails() -> Calls:
    return Calls(fails="failed")


def _add(handler: Calls, aspect: Aspect[Any] | None = None, *, backend: Backend = "asyncio") -> Played:
    """A run in which a tool of this handler and aspect is called once."""
    tool = plain_tool("add")

    def render(at: Render) -> None:
        if aspect is None:
            at.tool(tool, handler)
        else:
            at.tool(tool, handler, aspect=aspect)

    return play(render, ["Calling tool", call("add", INPUT)], text("Done!"), backend=backend)


def _outcome(played: Played) -> tuple[bool, Any]:
    """Whether the call failed, and what the model was given, in the step and in the next request."""
    (result,) = played.answer.steps[0].results
    told: Any = played.requests[1].prompt[-1]
    assert [part.result for part in told.content] == [result.encoded_result]
    return result.is_failure, result.encoded_result


def _bound(name: str, handler: Calls, aspect: Aspect[Any]) -> BoundToolkit[Any, Any, Any]:
    tool = plain_tool(name)
    layer: Any = aspect.wrap(tool.handler(handler))
    return BoundToolkit.of(Toolkit.make(tool), layer)


# -- after


def test_after_is_given_the_result_and_may_replace_it() -> None:
    """With the parameters; the model is given what it returns."""
    after = Hook(Return({"modified": True, "original": SUM}))

    assert _outcome(_add(_sum(), Aspect.make(after=after))) == (False, {"modified": True, "original": SUM})
    assert after.given == [(INPUT, SUM)]


def test_after_that_says_nothing_keeps_the_result() -> None:
    """It was given it all the same."""
    after = Hook()

    assert _outcome(_add(_sum(), Aspect.make(after=after))) == (False, SUM)
    assert after.given == [(INPUT, SUM)]


def test_after_may_give_none() -> None:
    """`Return(None)` is a result, and not the same as nothing to say."""
    assert _outcome(_add(_sum(), Aspect.make(after=Hook(Return(None))))) == (False, None)


# -- recover


def test_recover_is_given_the_failure_and_may_make_it_a_result() -> None:
    """The call succeeds with what it returns."""
    recover = Hook(Return({"error_handled": True}))

    assert _outcome(_add(_fails(), Aspect.make(recover=recover))) == (False, {"error_handled": True})
    assert recover.given == [(INPUT, "failed")]


def test_recover_that_says_nothing_leaves_the_failure() -> None:
    """The call fails as the handler did, and is told as the tool encodes it."""
    recover = Hook()

    assert _outcome(_add(_fails(), Aspect.make(recover=recover))) == (True, "failed")
    assert recover.given == [(INPUT, "failed")]


def test_recover_may_use_what_the_failure_says() -> None:
    """Its value is the typed failure of the tool."""

    def recover(_: Invocation[Any], error: str) -> Return[Any]:
        return Return({"gracefully_handled": True, "error_message": error})

    wanted = {"gracefully_handled": True, "error_message": "failed"}
    assert _outcome(_add(_fails(), Aspect.make(recover=recover))) == (False, wanted)


# -- before


def test_before_is_called_before_the_handler() -> None:
    """With the parameters; saying nothing, it lets the handler run."""
    before, handler = Hook(), _sum()

    assert _outcome(_add(handler, Aspect.make(before=before))) == (False, SUM)
    assert (before.given, handler.given) == ([(INPUT,)], [INPUT])


def test_before_that_answers_leaves_out_the_handler() -> None:
    """And `after` with it: the model is given what it returns."""
    before, after, handler = Hook(Return({"result": "bypassed"})), Hook(), _sum()

    assert _outcome(_add(handler, Aspect.make(before=before, after=after))) == (False, {"result": "bypassed"})
    assert (len(before.given), after.given, handler.given) == (1, [], [])


def test_before_may_answer_with_none_or_nought() -> None:
    """Only what it returns explicitly is an answer, and then whatever its value."""
    for value in (None, 0, ""):
        handler = _sum()

        assert _outcome(_add(handler, Aspect.make(before=Hook(Return(value))))) == (False, value)
        assert handler.given == []


# -- sub-tools


def _math(*sub_tools: BoundToolkit[Any, Any, Any]) -> list[Any]:
    def render(at: Render) -> None:
        at.composite("math", *sub_tools)

    names = [name for bound in sub_tools for name in bound.toolkit.tools]
    asked = {"calls": [{"name": name, "args": INPUT} for name in names]}
    (result,) = play(render, call("math", asked), text("Done")).results(1)
    return [one["result"] for one in result["results"]]


def test_the_aspects_of_sub_tools_are_called() -> None:
    """One aspect around two of them is called twice, with the result of each."""
    after = Hook()
    product = Calls(lambda p: {"product": p["a"] * p["b"]})
    both = Aspect.make(after=after)

    assert _math(_bound("add", _sum(), both), _bound("multiply", product, both)) == [SUM, {"product": 15}]
    assert after.given == [(INPUT, SUM), (INPUT, {"product": 15})]


def test_the_failure_of_a_sub_tool_is_recovered_by_its_own_aspect() -> None:
    """The other one is not concerned."""
    recover, other = Hook(Return({"handled": True})), Hook()
    safe = _bound("safe", _sum(), Aspect.make(recover=other))
    risky = _bound("risky", _fails(), Aspect.make(recover=recover))

    assert _math(safe, risky) == [SUM, {"handled": True}]
    assert (recover.given, other.given) == ([(INPUT, "failed")], [])


# -- what a tool gives


class User(msgspec.Struct, frozen=True):
    """What a tool gives."""

    id: str
    name: str


def test_what_a_tool_gives_is_checked() -> None:
    """Its success type says what it gives: what fits is told to the model, what does not ends the run, typed."""
    user: Tool[Any, User, str] = plain_tool("getUser", success=User)

    def right(at: Render) -> None:
        at.tool(user, lambda p: Success(User(p["id"], "John")))

    def wrong(at: Render) -> None:
        given: Any = {"bad": 1}
        at.tool(user, lambda _: Success(given))

    asked = call("getUser", {"id": "123"})
    cause, _ = play_failing(wrong, asked, text("never"))

    assert play(right, asked, text("Done!")).results(1) == [{"id": "123", "name": "John"}]
    assert [type(failure).__name__ for failure in cause.failures] == ["InvalidResult"]


def test_what_a_tool_gives_is_encoded_as_its_type() -> None:
    """Nested as it is."""

    class Data(msgspec.Struct, frozen=True):
        type: str
        nested: dict[str, User]

    tool: Tool[Any, Data, str] = plain_tool("getData", success=Data)

    def render(at: Render) -> None:
        at.tool(tool, lambda p: Success(Data(p["type"], {"key": User("1", "Ann")})))

    played = play(render, call("getData", {"type": "json"}), text("Done!"))

    assert played.results(1) == [{"type": "json", "nested": {"key": {"id": "1", "name": "Ann"}}}]


# -- several hooks


def test_all_hooks_together() -> None:
    """In order, and none for a failure that there was not."""
    before, after, recover = Hook(), Hook(), Hook()
    form = Hook(Success({"formatted": SUM}))
    aspect: Aspect[Any] = Aspect.make(before=before, after=after, recover=recover, format=form)

    assert _outcome(_add(_sum(), aspect)) == (False, {"formatted": SUM})
    assert (before.given, after.given, recover.given) == ([(INPUT,)], [(INPUT, SUM)], [])
    assert form.given == [(INPUT, Success(SUM))]


def test_hooks_chain() -> None:
    """`before` lets it pass, `after` adds a field; an aspect around that sees the field."""
    before, after, outer = Hook(), Hook(Return({**SUM, "logged": True})), Hook()
    aspect = Aspect.make(after=outer).and_then(Aspect.make(before=before, after=after))

    assert _outcome(_add(_sum(), aspect)) == (False, {"sum": 8, "logged": True})
    assert (len(before.given), outer.given) == (1, [(INPUT, {"sum": 8, "logged": True})])


# -- hooks that wait


def test_after_may_be_asynchronous(backend: Backend) -> None:
    """It is waited for."""
    after = Hook(Return({**SUM, "async_processed": True}))
    played = _add(_sum(), Aspect.make(after=after.awaited), backend=backend)

    assert _outcome(played) == (False, {"sum": 8, "async_processed": True})
    assert after.given == [(INPUT, SUM)]


def test_before_may_be_asynchronous(backend: Backend) -> None:
    """The handler runs when it is over."""
    before, handler = Hook(), _sum()
    played = _add(handler, Aspect.make(before=before.awaited), backend=backend)

    assert _outcome(played) == (False, SUM)
    assert (before.given, handler.given) == ([(INPUT,)], [INPUT])


# -- what a hook itself does wrong


def test_what_a_hook_raises_is_a_defect_of_the_run() -> None:
    """Whichever hook it is: no other hook is given it, and no model is told."""

    def boom(*_: Any) -> Any:
        raise ZeroDivisionError("boom")

    tool, recover = plain_tool("add"), Hook(Return("recovered"))
    hooks: dict[str, Any] = {"before": _sum(), "after": _sum(), "format": _sum(), "recover": _fails()}
    for name, handler in hooks.items():
        given: Any = {"recover": recover, name: boom}

        def render(at: Render, given: Any = given, handler: Any = handler) -> None:
            at.tool(tool, handler, aspect=Aspect.make(**given))

        cause, model = play_failing(render, call("add", INPUT), text("never"))

        assert [str(defect) for defect in cause.defects] == ["boom"]
        assert len(model.requests) == 1
        assert handler.given == ([] if name == "before" else [INPUT])
    assert recover.given == []


# -- without aspects


def test_a_tool_without_an_aspect() -> None:
    """Its handler alone says what comes of the call."""
    handler = _sum()

    assert _outcome(_add(handler)) == (False, SUM)
    assert handler.given == [INPUT]


def test_an_empty_aspect_changes_nothing() -> None:
    """It is neutral: for a success and for a failure."""
    assert _outcome(_add(_sum(), Aspect.empty())) == (False, SUM)
    assert _outcome(_add(_fails(), Aspect.make())) == (True, "failed")


# -- format


def test_format_is_given_the_result() -> None:
    """As a `Result`; what it gives is the call's."""
    form = Hook(Success({"formatted": True}))

    assert _outcome(_add(_sum(), Aspect.make(format=form))) == (False, {"formatted": True})
    assert form.given == [(INPUT, Success(SUM))]


def test_format_is_given_the_failure_too() -> None:
    """It may make a success of it."""

    def form(_: Invocation[Any], result: Result[Any, Any]) -> Result[Any, Any]:
        return result if isinstance(result, Success) else Success({"error": result.failure(), "formatted": True})

    assert _outcome(_add(_fails(), Aspect.make(format=form))) == (False, {"error": "failed", "formatted": True})
    assert _outcome(_add(_sum(), Aspect.make(format=form))) == (False, SUM)


# -- aspects and the state


def test_hooks_may_use_and_change_the_state() -> None:
    """An aspect that is made in a render has the state of that render: here a cache of what was asked before."""
    tool, handler = plain_tool("add"), _sum()

    def render(at: Render) -> None:
        known = at.state("known", dict[str, Any]())

        def before(invocation: Invocation[Any]) -> Return[Any] | None:
            key = str(invocation.params)
            return Return(known.value[key]) if key in known.value else None

        def after(invocation: Invocation[Any], result: Any) -> Effect[None]:
            return known.update(lambda now: {**now, str(invocation.params): result})

        at.tool(tool, handler, aspect=Aspect.make(before=before, after=after))

    played = play(render, call("add", INPUT), call("add", INPUT), call("add", {"a": 1, "b": 1}), text("Done"))

    assert [played.results(n) for n in (1, 2, 3)] == [[SUM], [SUM], [{"sum": 2}]]
    assert handler.given == [INPUT, {"a": 1, "b": 1}]
