"""What holds for every composite: it answers each call as the toolkit would alone, however many and however at once."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.effects import fx
from fxai.messages import Prompt, ToolMessage
from fxai.models import LanguageModel
from fxai.schema import JsonSchema
from fxai.testing import ScriptedModel, call, text
from fxai.tools import CallContext, Tool, Toolkit
from tests.kit.samples import add, double, on_add, on_double

RAW = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "n": {"$ref": "#/definitions/N"}},
    "additionalProperties": False,
    "definitions": {"N": {"type": "integer"}},
}
raw = Tool.dynamic("raw", parameters=RAW)
mild = double.with_options(failure_mode="return").rename("mild")
kit = Toolkit.make(add, double, mild).merge(Toolkit.make(raw))


def _on_raw(value: object) -> Result[object, Any]:
    return Success(value)


HANDLERS: Any = add.handler(on_add) | double.handler(on_double) | mild.handler(on_double) | raw.handler(_on_raw)

SUMS = st.fixed_dictionaries({"a": st.integers(-3, 9) | st.text(max_size=1), "b": st.integers(-3, 9)})
NESTED: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(st.sampled_from(["n", "m"]), st.integers(-2, 2) | st.none(), max_size=1),
    lambda inner: st.fixed_dictionaries({"next": inner}),
    max_leaves=3,
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["add", "double", "mild", "nobody"]), SUMS) | st.tuples(st.just("raw"), NESTED),
    max_size=5,
)


def _calls(calls: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"calls": [{"name": name, "args": args} for name, args in calls]}


def _composed(calls: list[tuple[str, Any]], concurrency: int | None = 1) -> list[Any]:
    composite = kit.as_tool("all", concurrency=concurrency)
    called = Toolkit.make(composite.tool).call("all", _calls(calls))
    results: list[Any] = fx.run(called.provide(composite.layer.provide(HANDLERS))).encoded_result["results"]
    return results


def _alone(name: str, args: Any) -> Any:
    ended = fx.run_result(kit.call(name, args).provide(HANDLERS))
    if isinstance(ended, Failure):
        failed: Any = ended.failure()
        return {"error": kit.tools[name].failure.encode_unsafe(failed.error)}
    outcome = ended.unwrap()
    return {"error": outcome.encoded_result} if outcome.is_failure else outcome.encoded_result


@given(CALLS)
def test_each_call_is_answered_as_alone(calls: list[tuple[str, Any]]) -> None:
    """By name and in order; a failure of any kind under `error`."""
    assert _composed(calls) == [{"name": name, "result": _alone(name, args)} for name, args in calls]


@given(CALLS, CALLS)
def test_two_lists_of_calls_are_one(some: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> None:
    """The results of both, in their order."""
    assert _composed(some + others) == _composed(some) + _composed(others)


@given(CALLS, st.integers(1, 4) | st.none())
def test_concurrency_changes_no_result(calls: list[tuple[str, Any]], concurrency: int | None) -> None:
    """Only when they begin."""
    assert _composed(calls, concurrency) == _composed(calls)


@given(CALLS)
def test_the_document_accepts_what_each_tool_accepts(calls: list[tuple[str, Any]]) -> None:
    """And nothing else: a list of calls is an instance where each call's args are, of a tool that there is."""
    document = JsonSchema.of(kit.as_tool("all").tool.json_schema())
    fit = all(name in kit and JsonSchema.of(kit.tools[name].json_schema()).validate(args) == () for name, args in calls)

    assert (document.validate(_calls(calls)) == ()) == fit


NOTES: st.SearchStrategy[Any] = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ASKED = st.lists(
    st.tuples(
        st.sampled_from(["keep", "send", "inner"]),
        st.fixed_dictionaries({"note": st.dictionaries(st.text(max_size=2), NOTES, max_size=2)}),
        st.sampled_from(["args", "args as text", "note as text"]),
    ),
    min_size=1,
    max_size=4,
)
SENDS = {"type": "object", "properties": {"note": {"type": "object"}}, "required": ["note"]}


def _sent(asked: list[tuple[str, Any, str]]) -> list[Any]:
    """The calls as a model would say them: parts of the parameters as JSON text, some in a composite inside."""
    calls: list[Any] = []
    for name, params, how in asked:
        args: Any = {"note": json.dumps(params["note"])} if how == "note as text" else copy.deepcopy(params)
        inside = {"calls": [{"name": "send", "args": args}]} if name == "inner" else args
        calls.append({"name": name, "args": json.dumps(inside) if how == "args as text" else inside})
    return calls


@given(ASKED, st.booleans(), st.integers(1, 4) | st.none())
def test_what_was_shown_is_what_runs(
    asked: list[tuple[str, Any, str]], whole_as_text: bool, concurrency: int | None
) -> None:
    """All calls inside, and just they run when it is approved, also where a predicate changes what it is given."""
    ran: list[Any] = []

    def decides(params: Any, _: CallContext) -> bool:
        params["note"] = {"changed": 1}
        return True

    def on_call(params: Any, context: CallContext) -> Result[object, Any]:
        ran.append((context.tool.name, copy.deepcopy(params)))
        return Success(None)

    keep = Tool.dynamic("keep", parameters=SENDS)
    send = Tool.dynamic("send", parameters=SENDS, needs_approval=decides)
    inner = Toolkit.make(send).as_tool("inner", concurrency=1)
    tools: list[Any] = [keep, send, inner.tool]
    outer: Any = Toolkit.of(tools).as_tool("outer", concurrency=concurrency)
    handlers: Any = keep.handler(on_call) | send.handler(on_call)
    layer: Any = outer.layer.provide(handlers | inner.layer.provide(handlers))
    offered: Toolkit[Any] = Toolkit.of([outer.tool])

    def asks(prompt: Any, states: Any) -> Any:
        model = ScriptedModel.make([states])
        answer: Any = LanguageModel.generate_text(prompt, toolkit=offered).provide(layer).provide(model.layer)
        return fx.run(answer)

    sent = _sent(asked)
    said: Any = {"calls": json.dumps(sent) if whole_as_text else sent}
    as_said = copy.deepcopy(said)
    first = asks("go", call("outer", said, id="c"))
    expected = [("send" if name == "inner" else name, params) for name, params, _ in asked]
    if not first.pending:
        assert all(name == "keep" for name, _ in expected)
        assert sorted(map(repr, ran)) == sorted(map(repr, expected))
        return
    (pending,) = first.pending
    shown = copy.deepcopy(pending.params)
    assert ran == []
    assert _plain_calls(shown) == expected

    asks(Prompt.make("go").with_response(first.content).append(ToolMessage.make(pending.approve())), text("Done."))

    assert sorted(map(repr, ran)) == sorted(map(repr, expected))
    assert as_said == said


def _plain_calls(params: Any) -> list[tuple[str, Any]]:
    """The innermost calls that a request shows, as a person would read them."""
    found: list[tuple[str, Any]] = []
    calls = json.loads(params["calls"]) if isinstance(params["calls"], str) else params["calls"]
    for one in calls:
        args = json.loads(one["args"]) if isinstance(one["args"], str) else one["args"]
        if "calls" in args:
            found += _plain_calls(args)
        else:
            note = json.loads(args["note"]) if isinstance(args["note"], str) else args["note"]
            found.append((one["name"], {"note": note}))
    return found
