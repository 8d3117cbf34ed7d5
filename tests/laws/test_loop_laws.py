"""The laws of the loop, over scripts of any kind: each call has one result, and a stream is a run as any."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import Budget
from fxai.effects import Effect, Layer, fx
from fxai.messages import AiError, Finish, Part, ToolCall, Usage
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import call, finish
from tests.kit.runs import End, Way, end_of, unanswered
from tests.kit.trials import examples

_MADE: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1, "b": 2}),
    ("add", {"a": "one"}),
    ("slow", {"a": 1, "b": 1}),
    ("slow", {"a": 2, "b": 3}),
    ("raw", {}),
    ("nope", {}),
]
_CALLS = st.sampled_from(_MADE)
_REASONS: Any = st.sampled_from(["tool-calls", "stop", "tool-calls", "length", "pause", "content-filter", "unknown"])
_THEIRS = ToolCall("p", "search", {}, provider_executed=True)


def _turn(calls: list[tuple[str, Any]], said: list[str], reason: Any, tokens: int, theirs: bool) -> list[Any]:
    made = [call(name, params) for name, params in calls]
    return [*said, *([_THEIRS] if theirs else []), *made, finish(reason, Usage(tokens, 1))]


_TURNS = st.lists(
    st.builds(
        _turn,
        st.lists(_CALLS, max_size=4),
        st.lists(st.sampled_from(["So: ", "ok"]), max_size=2),
        _REASONS,
        st.integers(0, 9),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
_BUDGETS = st.builds(
    Budget,
    st.integers(1, 5),
    st.none() | st.integers(1, 30),
    st.none() | st.sampled_from([1.5, 4.5]),
    st.none() | st.integers(0, 5),
)
_LIMITS: Any = st.sampled_from(["fail", "answer", "last_text"])


def _end(way: Way, turns: list[Any], budget: Budget, at_limit: Any) -> End:
    return end_of(way, "asyncio", [*turns, "the end", "of it"], budget=budget, at_limit=at_limit, passes=24, steps=24)


def _history(end: End) -> Any:
    return end.failure.history if end.cause is not None else end.answer.history


@settings(max_examples=examples(25))
@given(_TURNS, _BUDGETS, _LIMITS)
def test_each_call_has_one_result_in_its_order(turns: list[Any], budget: Budget, at_limit: Any) -> None:
    """In the history of an answer and of a failure, whatever was cut; and no budget is asked too much of."""
    end = _end("whole", turns, budget, at_limit)
    asked = len(end.model.requests)

    assert unanswered(_history(end)) == []
    assert asked <= budget.rounds + (at_limit == "answer")
    assert asked <= len(turns) + 1 + (at_limit == "answer")
    if budget.calls is not None:
        assert sum(line.startswith(("add", "start")) for line in end.desk.journal.lines) <= budget.calls


@settings(max_examples=examples(25))
@given(_TURNS, _BUDGETS, _LIMITS)
def test_a_stream_comes_to_what_a_run_comes_to(turns: list[Any], budget: Budget, at_limit: Any) -> None:
    """The same answer or the same failure, and the same history; its parts fold to the same turns."""
    whole, stream = _end("whole", turns, budget, at_limit), _end("stream", turns, budget, at_limit)

    assert stream.cause == whole.cause
    assert stream.answers == whole.answers
    assert [request.tool_choice for request in stream.model.requests] == [
        request.tool_choice for request in whole.model.requests
    ]
    for folded, step in zip(stream.rounds, stream.answers[0].steps if stream.answers else (), strict=False):
        assert (folded.text, folded.tool_calls, folded.tool_results) == (step.text, step.calls, step.results)


@settings(max_examples=examples(15))
@given(_TURNS, _BUDGETS)
def test_a_run_goes_on_from_the_history_of_a_failure(turns: list[Any], budget: Budget) -> None:
    """What was cut can be taken up again, and nothing is said twice."""
    end = _end("whole", turns, budget, "fail")
    history = _history(end)
    again = end_of("whole", "asyncio", ["at last"], prompt=history)

    assert list(again.answer.history)[: len(history)] == list(history)
    assert again.answer.text == "at last"


class _Written(LanguageModel):
    """A model that answers each request with the same parts."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        del request
        return fx.succeed(self._parts)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "a_2"]), st.booleans()), max_size=6))
def test_whole_and_streamed_turns_have_the_same_call_ids(calls: list[tuple[str, bool]]) -> None:
    """Both forms give the same new ids to calls that share an id, and keep the ids of all other calls."""
    parts: tuple[Part, ...] = (
        *[ToolCall(id_, "add", {}, provider_executed=hosted) for id_, hosted in calls],
        Finish("tool-calls"),
    )
    layer = Layer.succeed(LanguageModel, _Written(parts))

    whole = fx.run(LanguageModel.generate_text("go", resolve_tools=False).provide(layer))
    streamed = fx.run(LanguageModel.stream_text("go", resolve_tools=False).collect().provide(layer))

    ids = [part.id for part in whole.content if part.type == "tool-call"]
    own = [id_ for id_, (_, hosted) in zip(ids, calls, strict=True) if not hosted]
    assert ids == [part.id for part in streamed if part.type == "tool-call"]
    assert len(set(own)) == len(own)
    assert len({id_ for id_, _ in calls}) < len(calls) or ids == [id_ for id_, _ in calls]
