"""The laws of recorded runs: storing, comparing, and replaying."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import RunDiff, RunRecord, diff_runs, history_of, replay_results, replay_turns
from fxai.durable import Runs, durable
from fxai.effects import Backend, Layer, Succeeded, fx
from fxai.messages import Part
from fxai.testing import ScriptedModel, Turn, call, text
from tests.kit.recorded_runs import JSON, RECORDS, asked, record_of, rename_ids
from tests.kit.trials import examples

_SCRIPTS: st.SearchStrategy[list[list[tuple[str, Any]]]] = st.lists(
    st.lists(
        st.tuples(st.just("price"), st.sampled_from(["tea", "", "coffee"]) | st.just(7))
        | st.tuples(st.just("order"), st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2))
        | st.tuples(st.just("unknown"), st.just("?")),
        min_size=1,
        max_size=3,
    ),
    max_size=3,
)


def _model(script: list[list[tuple[str, Any]]]) -> ScriptedModel:
    turns: list[Turn] = [[call(name, params) for name, params in calls] for calls in script]
    return ScriptedModel.make([*turns, text("Done.")])


def _named(difference: RunDiff, *, swapped: bool = False) -> list[str]:
    """What a difference names, as sorted text."""
    kinds = {"added": "removed", "removed": "added"} if swapped else {}
    found: list[str] = []
    for change in difference.changes:
        data = msgspec.to_builtins(change)
        steps = (change.after_step, change.before_step) if swapped else (change.before_step, change.after_step)
        sides = ("after", "before") if swapped else ("before", "after")
        values = [(one["pointer"], *(one.get(side, "none") for side in sides)) for one in data["values"]]
        found.append(json.dumps([kinds.get(change.kind, change.kind), change.tool, steps, values]))
    return sorted(found)


@given(RECORDS)
@settings(max_examples=examples(60))
def test_a_run_does_not_differ_from_itself(record: RunRecord) -> None:
    """The difference of a run from itself is empty, also after its ids changed."""
    assert diff_runs(record, record) == RunDiff()
    assert diff_runs(record, rename_ids(record, lambda name: f"{name}!")).same


@given(RECORDS)
@settings(max_examples=examples(60))
def test_a_record_survives_its_json_form(record: RunRecord) -> None:
    """The JSON form of a record decodes to an equal record with the same JSON form."""
    again = RunRecord.from_json(record.to_json()).unwrap()

    assert again == record
    assert again.to_json() == record.to_json()


@given(RECORDS, RECORDS)
@settings(max_examples=examples(100))
def test_a_difference_is_symmetric(before: RunRecord, after: RunRecord) -> None:
    """Both directions name the same calls and values."""
    there, back = diff_runs(before, after), diff_runs(after, before)

    assert _named(there) == _named(back, swapped=True)
    assert there.pointers == back.pointers


@given(RECORDS, RECORDS)
@settings(max_examples=examples(60))
def test_a_difference_has_json_and_safe_text(before: RunRecord, after: RunRecord) -> None:
    """The JSON form decodes, and no line of the text contains a control character."""
    difference = diff_runs(before, after)

    assert json.loads(difference.to_json())["same"] is difference.same
    assert all(line.isprintable() for line in str(difference).split("\n"))


@given(RECORDS, st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_the_calls_of_a_turn_have_no_order(record: RunRecord, chance: Any) -> None:
    """Another order of the calls and of the results in each turn is no difference."""

    def mixed(content: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(chance.sample(content, len(content)))

    steps = tuple([msgspec.structs.replace(step, content=mixed(step.content)) for step in record.steps[:-1]])
    other = msgspec.structs.replace(record, steps=(*steps, *record.steps[-1:]))

    assert diff_runs(record, other).same


@given(RECORDS, RECORDS)
@settings(max_examples=examples(60))
def test_ignored_subjects_do_not_differ(before: RunRecord, after: RunRecord) -> None:
    """Runs are the same without all subjects of a difference, and each subject can be ignored alone."""
    subjects = ("calls", "answer", "end", "refusal", "usage")

    assert diff_runs(before, after, ignore=[f"/{one}" for one in subjects]).same
    for one in subjects:
        left = diff_runs(before, after, ignore=[f"/{one}"])
        assert not any(pointer.startswith(f"/{one}") for pointer in left.pointers)


@given(st.lists(st.tuples(JSON, JSON), min_size=1, max_size=4), st.data())
@settings(max_examples=examples(60))
def test_one_changed_result_is_one_change(results: list[tuple[Any, Any]], data: st.DataObject) -> None:
    """If a single result changes, the difference names this call and no other value."""
    at = data.draw(st.integers(0, len(results) - 1))
    calls = [[("price", {"n": number}, (False, [old]))] for number, (old, _) in enumerate(results)]
    changed = [*calls]
    changed[at] = [("price", {"n": at}, (False, [["new", results[at][1]]]))]

    (change,) = diff_runs(record_of(calls), record_of(changed)).changes

    assert (change.kind, change.before_step, change.after_step) == ("changed", at + 1, at + 1)
    assert all(value.pointer.startswith("/calls/price/result/0") for value in change.values)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(script=_SCRIPTS, streams=st.booleans())
@settings(max_examples=examples(20))
def test_a_replay_of_an_unchanged_run_is_no_difference(
    backend: Backend, script: list[list[tuple[str, Any]]], streams: bool
) -> None:
    """With recorded turns, with recorded results, and with both, the same program has the same run."""
    before = RunRecord.of(fx.run(asked(_model(script).layer), backend=backend))
    layers: list[Callable[[], Any]] = [
        lambda: replay_turns(before, strict=True),
        lambda: replay_results(_model(script).layer, before),
        lambda: replay_results(replay_turns(before, strict=True), before),
    ]

    for make in layers:
        runs = Runs.in_process()
        journalled = asked(make(), streams=streams).provide(durable(Layer.empty(), run="again", store=runs))
        _ = fx.run(journalled, backend=backend)
        assert diff_runs(before, fx.run(runs.record("again"), backend=backend)).same
        assert diff_runs(before, RunRecord.of(fx.run(asked(make()), backend=backend))).same


@given(RECORDS, RECORDS, st.booleans())
@settings(max_examples=examples(60))
def test_a_replay_of_any_record_ends_without_a_defect(turns: RunRecord, results: RunRecord, strict: bool) -> None:
    """Turns and results of records that no program wrote end in an answer or in a typed failure."""
    for layer in (replay_turns(turns, strict=strict), replay_results(replay_turns(turns, strict=strict), results)):
        ended = fx.run_exit(asked(layer))

        assert isinstance(ended, Succeeded) or (ended.cause.failures and not ended.cause.defects)
        assert isinstance(diff_runs(turns, RunRecord.of(ended)), RunDiff) if history_of(ended) is not None else True
