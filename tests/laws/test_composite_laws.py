"""What holds for every composite: it answers each call as the toolkit would alone, however many and however at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.effects import fx
from fxai.schema import JsonSchema
from fxai.tools import Tool, Toolkit
from tests.unit.tools.samples import add, double, on_add, on_double

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
