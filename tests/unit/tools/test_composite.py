"""Composites: a toolkit as one tool, whose calls inside are decoded, run and answered each on its own."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any, Never, cast

import msgspec
import pytest
from returns.result import Result, Success

from fxai import Composite
from fxai.annotations import Annotations, Destructive, Idempotent, OpenWorld, Readonly, Title
from fxai.effects import Backend, Cause, Die, Effect, Fail, Gen, Interrupt, Layer, StreamOf, Tag, fx
from fxai.messages import Prompt
from fxai.models import LanguageModel
from fxai.schema import JsonSchema, Schema, SchemaError
from fxai.testing import ScriptedModel, call
from fxai.tools import CallContext, HandlerError, NeedsApproval, SubCall, SubCalls, SubResults, Tool, Toolkit
from fxai.tools.aspects import Aspect, Return, cache
from fxai.tools.composite import SubError, SubResult
from tests.kit.every import every
from tests.kit.samples import Sum, TooBig, add, add_kit, defect_of, double, giving, on_add, on_double, outcome_of


class Moment(msgspec.Struct, frozen=True):
    """A point in time."""

    at: Schema.EpochMillis


class Factor(Tag[int]):
    """What results are multiplied with."""


RAW = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/N"}},
    "required": ["n"],
    "$defs": {"N": {"type": "integer"}},
}
year = Tool.make("year", description="The year of a moment.", parameters=Moment, success=int)
raw = Tool.dynamic("raw", parameters=RAW)
soft = double.with_options(failure_mode="return").rename("soft")
kit = Toolkit.make(add, double, soft, year).merge(Toolkit.make(raw))
many = kit.as_tool("many", description="Much at once.")
OUTER = Toolkit.make(many.tool)


def _on_raw(value: object) -> Result[object, Never]:
    return Success([value])


def _on_year(moment: Moment) -> Result[int, Never]:
    assert isinstance(moment.at, datetime)
    return Success(moment.at.year)


HANDLERS: Any = (
    add.handler(on_add)
    | double.handler(on_double)
    | soft.handler(on_double)
    | year.handler(_on_year)
    | raw.handler(_on_raw)
)
LIVE: Any = many.layer.provide(kit.to_layer(HANDLERS))


def _calls(*calls: tuple[str, Any]) -> dict[str, Any]:
    return {"calls": [{"name": name, "args": args} for name, args in calls]}


def _results(outcome: Any) -> list[Any]:
    assert not outcome.is_failure, outcome
    return [result["result"] for result in outcome.encoded_result["results"]]


GOOD, BAD = {"a": 1, "b": 2}, {"a": 10, "b": 10}


# -- what comes of the calls


def test_calls_are_answered_in_order(backend: Backend) -> None:
    """Each by its own tool, encoded by it; typed, raw, and with codecs that decode once."""
    calls = _calls(("double", GOOD), ("raw", {"n": 5}), ("add", GOOD), ("year", {"at": 0}), ("add", {"a": 2, "b": 2}))
    outcome = outcome_of(OUTER.call("many", calls).provide(LIVE), backend)

    assert outcome.encoded_result == {
        "results": [
            {"name": "double", "result": 6},
            {"name": "raw", "result": [{"n": 5}]},
            {"name": "add", "result": 3},
            {"name": "year", "result": 1970},
            {"name": "add", "result": 4},
        ]
    }
    assert cast(SubResults, outcome.result).results[0] == SubResult("double", 6)


def test_what_is_wrong_with_one_call_is_its_own_answer(backend: Backend) -> None:
    """An unknown name, a bad argument, a typed failure of either mode: `{"error": …}`, and the rest go on."""
    calls = _calls(("addd", GOOD), ("add", {"a": "x"}), ("double", BAD), ("soft", BAD), ("raw", {}), ("add", GOOD))
    outcome = outcome_of(OUTER.call("many", calls).provide(LIVE), backend)
    unknown, invalid, failed, returned, unfit, sound = _results(outcome)

    assert (unknown["error"]["type"], unknown["error"]["known"]) == ("unknown-tool", list(kit.tools))
    assert [fault["pointer"] for fault in invalid["error"]["faults"]] == ["/a", "/b"]
    assert failed == returned == {"error": {"limit": 10}}
    assert unfit["error"]["type"] == "invalid-parameters"
    assert sound == 3
    assert cast(SubResults, outcome.result).results[2].result == SubError({"limit": 10})


def test_no_calls_are_answered_by_no_results() -> None:
    """Nothing is asked for, nothing is wrong."""
    assert fx.run(OUTER.call("many", {"calls": []}).provide(LIVE)).encoded_result == {"results": []}


def test_args_that_are_left_out_are_empty() -> None:
    """As blank arguments of a single call are."""
    ping = Tool.make("ping", success=str)
    pings = Toolkit.make(ping).as_tool("pings")
    live = pings.layer.provide(ping.handler(lambda _: Success("pong")))

    assert _results(fx.run(Toolkit.make(pings.tool).call("pings", {"calls": [{"name": "ping"}]}).provide(live))) == [
        "pong"
    ]


MALFORMED: dict[str, tuple[Any, str]] = {
    "no calls at all": ({}, "/calls"),
    "not a list": ({"calls": 3}, "/calls"),
    "no name": ({"calls": [{"name": "add", "args": GOOD}, {"args": GOOD}]}, "/calls/1/name"),
    "a name that is no text": ({"calls": [{"name": 1}]}, "/calls/0/name"),
}


@pytest.mark.parametrize("name", list(MALFORMED))
def test_what_is_no_list_of_calls_is_refused_as_a_whole(name: str) -> None:
    """Nothing runs; the fault names its place."""
    ran: list[object] = []
    given, pointer = MALFORMED[name]
    one = add_kit.as_tool("one")

    def handler(p: Sum) -> Result[int, Never]:
        ran.append(p)
        return Success(1)

    outcome = fx.run(Toolkit.make(one.tool).call("one", given).provide(one.layer.provide(add.handler(handler))))

    assert outcome.is_failure
    assert [fault["pointer"] for fault in outcome.encoded_result["faults"]] == [pointer]
    assert ran == []


def test_a_defect_ends_the_whole_call(backend: Backend) -> None:
    """It is nobody's answer; what would come after it does not run."""
    boom = RuntimeError("boom")
    ran: list[Sum] = []

    def broken(p: Sum) -> Result[int, Never]:
        ran.append(p)
        raise boom

    one = add_kit.as_tool("one")
    called = Toolkit.make(one.tool).call("one", _calls(("add", GOOD), ("add", BAD)))

    assert defect_of(called.provide(one.layer.provide(add.handler(broken))), backend) is boom
    assert ran == [Sum(1, 2)]


BOOM = RuntimeError("boom")


@every(
    "reasons",
    [
        (Interrupt(),),
        (Die(BOOM),),
        (Fail(TooBig(10)), Die(BOOM)),
        (Die(BOOM), Fail(TooBig(10))),
        (Die(BOOM), Interrupt()),
    ],
)
@every("tool", [double, soft])
def test_an_interruption_or_a_defect_of_a_call_inside_ends_the_whole_call(
    reasons: Any, tool: Any, backend: Backend
) -> None:
    """The composite ends with the defects and the interruption of the handler, also if the handler failed too."""
    one = Toolkit.make(add, tool).as_tool("one")
    ending: Any = fx.fail_cause(Cause(reasons))

    def on_tool(_: Sum) -> Any:
        return ending

    handlers: Any = add.handler(on_add) | tool.handler(on_tool)
    called = Toolkit.make(one.tool).call("one", _calls(("add", GOOD), (tool.name, GOOD)))

    ended: Any = fx.run_exit(called.provide(one.layer.provide(handlers)), backend=backend)

    assert ended.cause.defects == tuple(reason.defect for reason in reasons if isinstance(reason, Die))
    assert ended.cause.interrupted is (Interrupt() in reasons)


def test_a_result_that_does_not_fit_is_a_defect() -> None:
    """It is the handler's bug, which no model is told of."""
    one = add_kit.as_tool("one")
    called = Toolkit.make(one.tool).call("one", _calls(("add", GOOD)))
    defect = defect_of(called.provide(one.layer.provide(add.handler(giving(Success("x"))))))

    assert isinstance(defect, TypeError)
    assert "handler of 'add' returned a value that its success type does not allow" in str(defect)


def test_the_typed_call_takes_and_gives_values() -> None:
    """No JSON is involved on the outside."""
    asked = SubCalls((SubCall("add", GOOD), SubCall("double", BAD)))
    answered = SubResults((SubResult("add", 3), SubResult("double", SubError({"limit": 10}))))

    assert fx.run(many.tool.call(asked).provide(LIVE)) == answered
    assert {hash(asked), hash(answered)} == {hash(pickle.loads(pickle.dumps(x))) for x in (asked, answered)}


# -- order, concurrency, context


def _noting(lines: list[str]) -> Any:
    @fx.gen
    def handler(p: Sum) -> Gen[int]:
        lines.append(f"begin {p.a}")
        yield from fx.sleep(0.001 * p.b)
        lines.append(f"end {p.a}")
        return p.a

    return add.handler(handler)


def test_calls_run_one_after_another(backend: Backend) -> None:
    """Sequential is the default."""
    lines: list[str] = []
    one = add_kit.as_tool("one")
    calls = _calls(("add", {"a": 1, "b": 9}), ("add", {"a": 2, "b": 0}))
    outcome = outcome_of(Toolkit.make(one.tool).call("one", calls).provide(one.layer.provide(_noting(lines))), backend)

    assert lines == ["begin 1", "end 1", "begin 2", "end 2"]
    assert _results(outcome) == [1, 2]


@pytest.mark.parametrize("concurrency", [None, 2])
def test_calls_may_run_at_once(concurrency: int | None, backend: Backend) -> None:
    """Results stay in the order of the calls."""
    lines: list[str] = []
    one = add_kit.as_tool("one", concurrency=concurrency)
    calls = _calls(("add", {"a": 1, "b": 20}), ("add", {"a": 2, "b": 0}))
    outcome = outcome_of(Toolkit.make(one.tool).call("one", calls).provide(one.layer.provide(_noting(lines))), backend)

    assert lines == ["begin 1", "begin 2", "end 2", "end 1"]
    assert _results(outcome) == [1, 2]


def test_a_sub_tool_sees_the_call_that_it_is_part_of() -> None:
    """Its own tool, the conversation, the deadline, and the id with its place."""
    seen: list[Any] = []

    def handler(p: Sum, context: CallContext) -> Result[int, Never]:
        seen.append((context.call_id, context.tool, [m.role for m in context.messages], context.deadline))
        return Success(1)

    one = add_kit.as_tool("one")
    model = ScriptedModel.make([[call("one", _calls(("add", GOOD), ("add", GOOD)), id="c9")]])
    asked = LanguageModel.generate_text(Prompt.make("go"), toolkit=Toolkit.make(one.tool), deadline=3.0)
    fx.run(asked.provide(one.layer.provide(add.handler(handler))).provide(model.layer))

    assert seen == [("c9/0", add, ["user"], 3.0), ("c9/1", add, ["user"], 3.0)]


def test_preliminary_values_are_the_results_so_far() -> None:
    """With the value in its place; then exactly one final outcome."""
    handlers: Any = add.handler(on_add) | double.handler(giving(StreamOf.make(1, 2, 3)))
    two = Toolkit.make(add, double).as_tool("two")
    stream = Toolkit.make(two.tool).handle("two", _calls(("add", GOOD), ("double", GOOD)))
    outcomes = fx.run(stream.collect().provide(two.layer.provide(handlers)))

    assert [(_results(outcome), outcome.preliminary) for outcome in outcomes] == [
        ([3, 1], True),
        ([3, 2], True),
        ([3, 3], False),
    ]


# -- handlers and aspects


def test_each_sub_tool_keeps_its_aspects() -> None:
    """And the outer tool has its own."""
    inner = Aspect.make(tool=add, after=lambda call, n: Return(n + 100)).wrap(add.handler(on_add))
    counted: list[int] = []
    outer: Any = Aspect.make(tool=many.tool, after=lambda call, results: counted.append(len(results.results)))
    handlers: Any = inner | double.handler(on_double) | soft.handler(on_double) | year.handler(_on_year)
    live = outer.and_then(cache()).wrap(many.layer.provide(handlers | raw.handler(_on_raw)))
    calls = OUTER.call("many", _calls(("add", GOOD), ("double", GOOD)))

    assert _results(fx.run(calls.and_then(calls).provide(live))) == [103, 6]
    assert counted == [2, 2]


def test_the_same_tools_beside_it_have_their_own_handlers() -> None:
    """What stands inside runs as it was provided, whatever is outside."""
    one = add_kit.as_tool("one")
    both = Toolkit.make(add).merge(Toolkit.make(one.tool))
    inside = one.layer.provide(add.handler(lambda p: Success(-1)))
    outside = add.handler(lambda p: Success(1))
    live = both.to_layer(inside | outside)
    program = fx.all_(both.call("add", GOOD), both.call("one", _calls(("add", GOOD))))
    alone, within = fx.run(program.provide(live))

    assert (alone.result, _results(within)) == (1, [-1])


def test_services_of_the_handlers_are_supplied_as_ever() -> None:
    """To the handlers, or to all."""

    def scaled(p: Sum) -> Effect[int, Never, Factor]:
        return fx.service(Factor).map(lambda factor: factor * p.a)

    one = add_kit.as_tool("one")
    program = Toolkit.make(one.tool).call("one", _calls(("add", BAD)))
    live = one.layer.provide(add.handler(scaled))

    assert _results(fx.run(program.provide(live).provide(Layer.succeed(Factor, 3)))) == [30]
    assert _results(fx.run(program.provide(live.provide(Layer.succeed(Factor, 4))))) == [40]


def test_a_missing_handler_among_equal_types_is_found_when_the_layer_is_built() -> None:
    """It is named, with the tool that would need it."""
    other = add.rename("other")
    twin = Tool.make("twin", parameters=Sum, success=int)
    pair = Toolkit.make(add, twin).as_tool("pair")
    defect = defect_of(Toolkit.make(pair.tool).call("pair", _calls()).provide(pair.layer.provide(add.handler(on_add))))

    assert isinstance(defect, HandlerError)
    assert str(defect) == "tool 'pair' has no handler for: twin"
    assert fx.run(Toolkit.make(other).call("other", GOOD).provide(add.handler(on_add))).result == 3


def test_its_handler_is_checked_like_any_other() -> None:
    """Twice the same layer is one handler; that of another composite is another tool's."""
    alike = Toolkit.make(double).as_tool("many")
    untyped: Any = OUTER
    twice = OUTER.call("many", _calls()).provide(untyped.to_layer(LIVE | LIVE))
    wrong = OUTER.call("many", _calls()).provide(untyped.to_layer(alike.layer.provide(double.handler(on_double))))

    assert fx.run(twice).result == SubResults(())
    assert "no handler for: many; not in the toolkit: many" in str(defect_of(wrong))


def test_composites_nest() -> None:
    """One inside another is a tool like any other."""
    inner = Toolkit.make(add, double).as_tool("inner")
    outer = Toolkit.make(inner.tool).merge(Toolkit.make(raw)).as_tool("outer")
    live = outer.layer.provide(
        inner.layer.provide(add.handler(on_add) | double.handler(on_double)) | raw.handler(_on_raw)
    )
    calls = _calls(("inner", _calls(("add", GOOD), ("double", BAD))), ("raw", {"n": 1}))
    first, second = _results(fx.run(Toolkit.make(outer.tool).call("outer", calls).provide(live)))

    assert first == {"results": [{"name": "add", "result": 3}, {"name": "double", "result": {"error": {"limit": 10}}}]}
    assert second == [{"n": 1}]
    assert JsonSchema.of(outer.tool.json_schema()).validate(calls) == ()


# -- what the tool says


def test_the_document_is_a_union_told_apart_by_name() -> None:
    """It accepts the calls of each tool, with that tool's own parameters."""
    document = JsonSchema.of(many.tool.json_schema())
    accepted = [
        _calls(),
        _calls(("add", GOOD), ("year", {"at": 3}), ("raw", {"n": 1})),
    ]
    refused = [
        {},
        {"calls": [{"name": "add"}]},
        _calls(("addd", GOOD)),
        _calls(("add", {"n": 1})),
        _calls(("raw", {"n": "x"})),
    ]

    assert [document.validate(value) == () for value in accepted] == [True, True]
    assert [document.validate(value) == () for value in refused] == [False] * len(refused)
    assert document.get("$defs") == {"raw.N": {"type": "integer"}}
    assert document.get("additionalProperties") is False


def test_one_sub_tool_is_enough_and_none_is_refused() -> None:
    """When the composite is made; so is one that nobody here could answer."""
    assert add_kit.as_tool("one").tool.name == "one"
    with pytest.raises(SchemaError, match="tool 'none' must have at least one sub-tool"):
        Toolkit.empty().as_tool("none")
    with pytest.raises(SchemaError, match="tool 'out' cannot call the external tools add"):
        Toolkit.make(add.external()).as_tool("out")
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        add_kit.as_tool("one", concurrency=0)


def test_the_description_lists_the_sub_tools() -> None:
    """After what was said, or a sentence of its own."""
    said = many.tool.description or ""

    assert said.startswith("Much at once.\n\nAvailable sub-tools:\n- add: Two numbers.")
    assert "- year: The year of a moment." in said
    assert said.endswith("\n- raw")
    assert (add_kit.as_tool("one").tool.description or "").startswith("Runs several calls")


def test_the_outer_tool_takes_the_options_of_any_tool() -> None:
    """And its combinators keep it what it is."""
    made = add_kit.as_tool(
        "one",
        annotations={Title: "One"},
        input_examples=[_calls(("add", GOOD))],
        provider_options={"acme": {"x": 1}},
        dependencies=[Factor],
    )
    tool = made.tool.annotate(Readonly, True).prefix("p.").with_description("Else.")

    assert (tool.get(Title), tool.get(Readonly), tool.name, tool.description) == ("One", True, "p.one", "Else.")
    assert tool.input_examples[0].parameters == _calls(("add", GOOD))
    assert (tool.provider_options, tool.dependencies) == ({"acme": {"x": 1}}, (Factor,))
    assert Tool.is_dynamic(tool)
    called = Toolkit.make(tool).call("p.one", _calls(("add", GOOD)))
    assert _results(fx.run(called.provide(made.layer.provide(add.handler(on_add))))) == [3]


def test_a_composite_does_what_its_sub_tools_do() -> None:
    """Its annotations follow from theirs, unless it says otherwise."""
    reading = add.annotate_all({Readonly: True, Destructive: False, Idempotent: True, OpenWorld: False})
    writing = double.annotate(Idempotent, True)

    def told(*tools: Any, **options: Any) -> list[bool]:
        tool = Toolkit.of(tools).as_tool("t", **options).tool
        return [tool.get(key) for key in (Readonly, Destructive, Idempotent, OpenWorld)]

    assert told(reading) == [True, False, True, False]
    assert told(reading, writing) == [False, True, True, True]
    assert told(reading, writing, annotations=Annotations({Destructive: False})) == [False, False, True, True]


def test_a_composite_is_a_value() -> None:
    """Equal to one of equal parts, hashable, picklable; of other tools it is another."""
    again = kit.as_tool("many", description="Much at once.")

    assert (again, hash(again), again.tool.identity) == (many, hash(many), many.tool.identity)
    assert pickle.loads(pickle.dumps(many)) == many
    strict = Toolkit.make(double).as_tool("x").tool
    mild = Toolkit.make(double.with_options(failure_mode="return")).as_tool("x").tool
    assert strict.json_schema() == mild.json_schema()
    assert strict.identity != mild.identity


# -- approval, and what the model is shown


def _asked(composite: Composite[Any], handlers: Any, calls: Any) -> Any:
    model = ScriptedModel.make([call(composite.tool.name, calls, id="c")])
    asked = LanguageModel.generate_text("go", toolkit=Toolkit.make(composite.tool))
    response = fx.run(asked.provide(composite.layer.provide(handlers)).provide(model.layer))
    return response.content[1]  # behind the call: its result, or the request for it


def _guarded(needs: Any, **options: Any) -> tuple[Composite[Any], Any, list[str]]:
    ran: list[str] = []
    safe: Any = Tool.make("safe", parameters=Sum)
    guarded: Any = Tool.make("guarded", parameters=Sum, needs_approval=needs)

    def noting(name: str) -> Any:
        def handler(_: object) -> Result[None, Never]:
            ran.append(name)
            return Success(None)

        return handler

    handlers = safe.handler(noting("safe")) | guarded.handler(noting("guarded"))
    return Toolkit.make(safe, guarded).as_tool("both", **options), handlers, ran


PREDICATES: dict[str, NeedsApproval] = {
    "always": True,
    "a predicate": lambda p, context: p.a > 5,
    "an effect": lambda p, context: fx.succeed(p.a > 5),
    "one that fails": lambda p, context: fx.fail("no"),
    "one that breaks": lambda p, context: bool(1 / 0),
    "one that says nothing": giving(None),
}


@every("name", list(PREDICATES))
def test_a_call_inside_that_needs_approval_holds_all_back(name: str) -> None:
    """Nothing runs, not even what came before it; what fails to say asks."""
    both, handlers, ran = _guarded(PREDICATES[name])
    result = _asked(both, handlers, _calls(("safe", GOOD), ("guarded", {"a": 9, "b": 9})))

    assert result.type == "tool-approval-request"
    assert ran == []


def test_calls_that_need_no_approval_run() -> None:
    """Where the guarded tool is not called, its predicate says no, or its call is invalid and would never run."""
    both, handlers, ran = _guarded(PREDICATES["a predicate"])
    calls = _calls(("safe", GOOD), ("guarded", GOOD), ("guarded", {"a": "x"}), ("nobody", {}))
    result = _asked(both, handlers, calls)

    assert not result.is_failure
    assert ran == ["safe", "guarded"]
    assert _guarded(False)[0].tool.needs_approval is False


def test_a_predicate_inside_sees_the_call_that_it_is_part_of() -> None:
    """As the handler would: the tool, the id with its place, the conversation."""
    seen: list[Any] = []

    def asked(params: Sum, context: CallContext) -> bool:
        seen.append((params, context.tool.name, context.call_id, [m.role for m in context.messages]))
        return False

    both, handlers, ran = _guarded(asked)
    _asked(both, handlers, _calls(("safe", GOOD), ("guarded", GOOD)))

    assert seen == [(Sum(1, 2), "guarded", "c/1", ["user"])]
    assert ran == ["safe", "guarded"]


def test_the_composites_own_option_asks_too() -> None:
    """It adds to what the sub-tools need, and takes nothing away."""
    always, handlers, ran = _guarded(PREDICATES["a predicate"], needs_approval=True)

    def by_number(params: SubCalls, context: CallContext) -> bool:
        return len(params.calls) > 1

    by_size, others, also_ran = _guarded(PREDICATES["a predicate"], needs_approval=by_number)

    assert _asked(always, handlers, _calls(("safe", GOOD))).type == "tool-approval-request"
    assert _asked(by_size, others, _calls(("safe", GOOD), ("safe", GOOD))).type == "tool-approval-request"
    assert _asked(by_size, others, _calls(("guarded", {"a": 9, "b": 1}))).type == "tool-approval-request"
    assert _asked(by_size, others, _calls(("guarded", GOOD))).type == "tool-result"
    assert (ran, also_ran) == ([], ["guarded"])


def test_the_model_is_shown_what_each_sub_tool_shows() -> None:
    """The results themselves stay; failures are shown as they are."""
    shown = Tool.make(
        "shown", parameters=Moment, success=Schema.of(Moment), to_model_output=lambda m: f"in {m.at.year}"
    )
    pair = Toolkit.make(shown).merge(Toolkit.make(double)).as_tool("pair")
    handlers: Any = shown.handler(lambda m: Success(Moment(datetime(1999, 1, 1, tzinfo=UTC)))) | double.handler(
        on_double
    )
    result = _asked(pair, handlers, _calls(("shown", {"at": 0}), ("double", GOOD), ("double", BAD)))

    assert [one["result"] for one in result.encoded_result["results"]] == ["in 1999", 6, {"error": {"limit": 10}}]
    assert result.result.results[0] == SubResult("shown", {"at": 915148800000})
    own = Toolkit.make(shown).as_tool("own", to_model_output=lambda results: len(results.results))
    assert _asked(own, handlers, _calls(("shown", {"at": 0}))).encoded_result == 1


def test_it_may_be_changed_by_an_aspect_that_answers_at_once() -> None:
    """Then no sub-tool runs."""
    nothing = Aspect.make(tool=many.tool, before=lambda call: Return(SubResults(())) if call.params.calls else None)
    live: Any = nothing.wrap(LIVE)

    assert fx.run(OUTER.call("many", _calls(("add", GOOD))).provide(live)).result == SubResults(())
