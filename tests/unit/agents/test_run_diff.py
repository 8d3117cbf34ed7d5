"""Differences between runs: aligned calls, changed values, ignored values, and the text for people."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.agents import RecordedStep, RunRecord, ValueChange, diff_runs
from fxai.agents.records.run_diff import value_changes
from fxai.messages import ContentPolicyError, Finish, Text, Usage
from tests.kit.recorded_runs import record_of

OK = (False, "ok")


def _changes(before: list[Any], after: list[Any], **options: Any) -> list[tuple[Any, ...]]:
    found = diff_runs(record_of(before), record_of(after), ignore=["/usage"], **options).changes
    return [(one.kind, one.tool, one.before_step, one.after_step) for one in found]


def test_an_inserted_call_does_not_move_other_calls() -> None:
    """A call at the start is the only difference of two runs that are otherwise equal."""
    calls = [[("price", name, OK)] for name in "abcde"]

    assert _changes(calls, [[("order", 1, OK)], *calls]) == [("added", "order", None, 1)]
    assert _changes([[("order", 1, OK)], *calls], calls) == [("removed", "order", 1, None)]


def test_a_repeated_call_is_removed_alone() -> None:
    """If one of many equal calls is missing, the other calls stay aligned."""
    polls = [[("price", "p", OK)]] * 6

    assert _changes([*polls, [("order", 1, OK)], *polls], [*polls[1:], [("order", 1, OK)], *polls]) == [
        ("removed", "price", 6, None)
    ]


def test_calls_of_one_turn_can_move_to_several_turns() -> None:
    """Parallel calls and the same calls one after another are no difference."""
    assert _changes([[("price", "a", OK), ("price", "b", OK)]], [[("price", "b", OK)], [("price", "a", OK)]]) == []


def test_another_order_of_turns_is_a_difference() -> None:
    """Two calls in separate turns have an order."""
    first, second = [("price", "a", OK)], [("order", 1, OK)]

    kinds = sorted(one[0] for one in _changes([first, second], [second, first]))
    assert kinds == ["added", "removed"]


def test_changed_parameters_name_the_member() -> None:
    """The nearest call of the same tool is a changed call, and only the changed member is named."""
    before = [[("order", {"tea": 2, "to": {"city": "Oslo"}}, OK), ("order", {"milk": 1}, OK)]]
    after = [[("order", {"milk": 1}, OK), ("order", {"tea": 2, "to": {"city": "Rome"}}, OK)]]

    (change,) = diff_runs(record_of(before), record_of(after)).changes

    assert change.values == (ValueChange("/calls/order/params/to/city", "Oslo", "Rome"),)
    assert change.params == {"tea": 2, "to": {"city": "Oslo"}}


def test_a_failure_instead_of_a_result_names_both() -> None:
    """A call that failed lost its result and has a failure."""
    difference = diff_runs(record_of([[("a/b", 1, OK)]]), record_of([[("a/b", 1, (True, "no"))]]))

    assert difference.pointers == ("/calls/a~1b/failure", "/calls/a~1b/result")


def test_numbers_are_equal_by_their_value() -> None:
    """3 equals 3.0, and 1 does not equal true."""
    assert not [*value_changes({"a": 3}, {"a": 3.0})]
    assert [one.pointer for one in value_changes([1, 0], [True, False])] == ["/0", "/1"]


@pytest.mark.parametrize(
    ("before", "after", "pointers"),
    [
        ([1, 2, 3], [0, 1, 2, 3], ["/0"]),
        ([1, 2, 3], [1, 3], ["/1"]),
        ([{"a": 1}], [{"a": 2}], ["/0/a"]),
        ({"a": None}, {}, ["/a"]),
        ([], {}, [""]),
    ],
)
def test_the_smallest_changed_value_is_named(before: Any, after: Any, pointers: list[str]) -> None:
    """An inserted or removed item does not change the items after it."""
    assert [one.pointer for one in value_changes(before, after)] == pointers
    assert [one.pointer for one in value_changes(after, before)] == pointers


def test_a_json_answer_is_compared_as_json() -> None:
    """Typed answers differ in their members, and not in their white space."""
    before, after = record_of([], '{"cents": 250, "tax": 1}'), record_of([], '{"tax":1,"cents":300}')

    assert diff_runs(before, after).pointers == ("/answer/cents",)
    assert diff_runs(before, record_of([], '{"tax":1, "cents":250}')).same
    assert [
        diff_runs(record_of([], old), record_of([], new)).pointers
        for old, new in (("", "{}"), ("3", "3.0"), ("[1", "[1]"), ("[1]", "[2]"))
    ] == [("/answer",), ("/answer",), ("/answer",), ("/answer/0",)]


def test_a_function_can_compare_answers() -> None:
    """The function receives both answers, and only if they differ."""
    seen: list[tuple[str, str]] = []

    def same(before: str, after: str) -> bool:
        seen.append((before, after))
        return before.lower() == after.lower()

    assert diff_runs(record_of([], "Yes"), record_of([], "YES"), same_answer=same).same
    assert not diff_runs(record_of([], "Yes"), record_of([], "No"), same_answer=same).same
    assert diff_runs(record_of([], "Yes"), record_of([], "Yes"), same_answer=same).same
    assert seen == [("Yes", "YES"), ("Yes", "No")]


def test_the_end_the_refusal_and_the_usage_differ() -> None:
    """A failed run, a refusal, and other numbers of tokens are differences. Unknown numbers and ends are not."""

    def run(usage: Usage, refusal: ContentPolicyError | None = None, **fields: Any) -> RunRecord:
        return RunRecord((RecordedStep((Text("Hi."), Finish("stop", usage, refusal))),), **fields)

    before = run(Usage(5, 6))
    after = run(Usage(5, 7), ContentPolicyError(description="no"), ended="failed", failure="it broke")

    assert diff_runs(before, after).pointers == ("/end/ended", "/end/failure", "/refusal", "/usage/output_tokens")
    assert diff_runs(before, run(Usage(), ended="unknown")).same


IGNORED = [
    ("/calls/price/result/took", True),
    ("/calls/*/result/took", True),
    ("/calls/price/result", True),
    ("/calls/price/*/took", True),
    ("/calls/price", True),
    ("/calls/order/result/took", False),
    ("/calls/price/result/took/more", False),
    ("/answer", False),
]


@pytest.mark.parametrize(("pointer", "same"), IGNORED)
def test_an_ignored_value_does_not_differ(pointer: str, same: bool) -> None:
    """A pointer ignores the value and everything inside it. `*` stands for any tool or member."""
    before, after = ([[("price", "a", (False, {"took": n, "cents": 1}))]] for n in (1, 2))

    assert diff_runs(record_of(before), record_of(after), ignore=[pointer]).same is same


def test_an_ignored_parameter_does_not_affect_the_alignment() -> None:
    """Calls that differ only in an ignored parameter are equal calls."""
    before, after = ([[("price", {"at": n + at, "x": n}, OK)] for n in range(4)] for at in (0, 10))

    assert diff_runs(record_of(before), record_of(after), ignore=["/calls/price/params/at"]).same
    assert len(diff_runs(record_of(before), record_of(after)).changes) == 4


@pytest.mark.parametrize("ignore", [["calls/price"], ["/price"], [""], "/usage"])
def test_an_invalid_pointer_is_refused(ignore: Any) -> None:
    """The error names the allowed subjects, or the list."""
    with pytest.raises(ValueError, match="ignore must"):
        diff_runs(record_of([]), record_of([]), ignore=ignore)


def test_the_text_is_safe_for_a_terminal_and_short() -> None:
    """Control characters of a result, a tool, or an answer are escaped, and long values show their difference."""
    old = record_of([[("pri\x1b[2Jce", "\x1b]0;x\x07", (False, "a" * 10_000 + "b"))]], "\x9b31m\u202e")
    new = record_of([[("pri\x1b[2Jce", "\x1b]0;x\x07", (False, "a" * 10_000 + "c"))]], "fine")

    shown = str(diff_runs(old, new))

    assert all(line.isprintable() for line in shown.split("\n"))
    assert "…aaaaaaaaaaaaaaaaaaaaaaaaab" in shown
    assert max(map(len, shown.split("\n"))) < 400


def test_a_long_difference_has_at_most_500_lines() -> None:
    """The text of many changes ends with the number of the other lines."""
    old, new = (record_of([[("price", n, (False, (n, run)))] for n in range(1000)]) for run in (1, 2))

    lines = str(diff_runs(old, new)).split("\n")
    assert (lines[0], len(lines), lines[-1]) == ("1000 differences", 502, "… and 1500 lines more")


def test_long_runs_of_equal_calls_are_aligned() -> None:
    """A run of 6,000 steps with few different calls, of which some changed, has a difference of these calls."""
    old = [[("price", n % 3, OK)] for n in range(6000)]
    new = [calls for at, calls in enumerate(old) if at % 1000 != 500]
    new[3000] = [("order", 1, OK)]

    difference = diff_runs(record_of(old), record_of(new), ignore=["/usage"])

    assert 0 < len(difference.changes) < 6000
    assert {change.kind for change in difference.changes} <= {"added", "removed", "changed"}


def test_steps_of_sub_agents_are_compared_only_if_both_have_them() -> None:
    """A record without the steps of sub-agents does not lack their calls."""
    own = record_of([[("price", "a", OK)]])
    inner = [RecordedStep(step.content, "finder") for step in record_of([[("find", 1, OK)]]).steps]
    more = [RecordedStep(step.content, "finder", 1) for step in record_of([[("find", 2, OK)]]).steps]
    nested = RunRecord((*inner, *own.steps))

    assert (own.nested, nested.nested) == (False, True)
    assert diff_runs(own, nested).same
    (change,) = diff_runs(nested, RunRecord((*inner, *more, *own.steps))).changes
    assert (change.kind, change.tool, change.agent, change.after_step) == ("added", "find", "finder", 3)
    assert str(change).startswith("+ finder step 3: find\n")
