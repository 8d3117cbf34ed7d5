"""JSON text in the place of objects and arrays: read wherever a tool is called, marked on the call, and what runs."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
from returns.result import Failure, Result, Success

from fxai.annotations import ExplicitNull, JsonText
from fxai.effects import Backend, fx
from fxai.messages import Prompt, ToolCall
from fxai.messages.accumulate import gather
from fxai.models.approval import digest_of
from fxai.providers import anthropic, openai
from fxai.schema import DecodeFailure, JsonSchema
from fxai.testing import call, text
from fxai.tools import InvalidParameters, Tool, Toolkit
from tests.kit.approvals import HOW, How, Office, answered, changed
from tests.kit.every import every
from tests.kit.samples import outcome_of


class Row(msgspec.Struct, frozen=True):
    """One row."""

    n: int
    tags: tuple[str, ...] = ()


class Query(msgspec.Struct, frozen=True):
    """What is asked."""

    where: Row
    rows: tuple[Row, ...] = ()
    name: str = ""


class UsageKey(msgspec.Struct, frozen=True):
    """Where it is."""

    at: tuple[int, str]
    named: dict[str, int]
    note: str | None = None


class Kind(msgspec.Struct, frozen=True, tag=True):
    """One that has a place."""

    place: UsageKey
    more: str = "none"


class Other(msgspec.Struct, frozen=True, tag=True):
    """One that has none."""

    text: str


class Both(msgspec.Struct, frozen=True):
    """What strict forms write otherwise."""

    one: UsageKey
    either: Kind | Other
    listed: tuple[UsageKey, ...] = ()


RAW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "where": {"$ref": "#/$defs/row"},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "name": {"type": "string"},
    },
    "required": ["where"],
    "$defs": {
        "row": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["n"],
        }
    },
}


def checked(value: Any) -> Result[Any, DecodeFailure]:
    """A validation of one's own, which is as exact as the document."""
    faults = JsonSchema.of(RAW).validate(value)
    return Failure(DecodeFailure(faults)) if faults else Success(value)


TOOLS: list[Any] = [
    Tool.make("wipe", parameters=Query, success=str),
    Tool.dynamic("wipe", parameters=Query, success=str),
    Tool.dynamic("wipe", parameters=RAW, success=str),
    Tool.dynamic("wipe", parameters=RAW, success=str, validation=checked),
    Tool.provider_defined(
        id="acme.wipe", name="wipe", provider_name="wipe", requires_handler=True, parameters=Query, success=str
    )(),
]
EVERY = every("tool", TOOLS, ids=["typed", "dynamic", "raw", "function", "provider"])
SAID: dict[str, Any] = {
    "where": '{"n": 1, "tags": "[\\"{}\\"]"}',
    "rows": ['{"n": 2}', {"n": 3}],
    "name": '{"n": 4}',
}
MEANT: dict[str, Any] = {"where": {"n": 1, "tags": ["{}"]}, "rows": [{"n": 2}, {"n": 3}], "name": '{"n": 4}'}
PLACES = ("/where", "/where/tags", "/rows/0")


def plain(params: Any) -> Any:
    """What a handler got, as plain data without what is empty."""
    return json.loads(json.dumps(msgspec.to_builtins(params)), object_hook=_without_empty)


def _without_empty(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if value not in ([], "")}


def done(_: Any) -> Result[str, Any]:
    """A handler that only says so."""
    return Success("done")


def named(query: Any) -> Result[str, Any]:
    """A handler that gives the name."""
    return Success(query.name)


def last(outcomes: Any) -> Any:
    """The final outcome."""
    return outcomes[-1]


def keeping(seen: list[Any]) -> Any:
    """A handler that keeps what it got."""

    def handler(params: Any) -> Result[str, Any]:
        seen.append(params)
        return Success("done")

    return handler


def parts_of(found: Any) -> tuple[Any, ...]:
    """The parts of what a way of asking gave."""
    given = found.value
    if isinstance(given, list):
        return gather(cast("Any", given))
    if hasattr(given, "steps"):
        return tuple(part for step in given.steps for part in step.response.content)
    return tuple(getattr(given, "response", given).content)


# ---- without a model


@EVERY
@every("way", ["call", "call_json", "handle"])
def test_a_toolkit_reads_texts(tool: Any, way: str, backend: Backend) -> None:
    """The handler gets what the texts say, and the outcome tells where they stood."""
    seen: list[Any] = []

    kit: Any = Toolkit.of([tool])
    if way == "handle":
        ran = kit.handle("wipe", SAID).collect().map(last)
    else:
        ran = kit.call("wipe", SAID) if way == "call" else kit.call_json("wipe", json.dumps(SAID))
    outcome = outcome_of(ran.provide(tool.handler(keeping(seen))), backend)

    assert (outcome.result, outcome.is_failure, outcome.json_text) == ("done", False, PLACES)
    assert [plain(params) for params in seen] == [MEANT]
    assert SAID["where"].startswith("{"), "what was given is not changed"


@EVERY
def test_good_parameters_are_not_marked(tool: Any) -> None:
    """What fits is what it is: nothing is looked for in its strings."""
    outcome = outcome_of(Toolkit.of([tool]).call("wipe", MEANT).provide(tool.handler(done)))

    assert (outcome.is_failure, outcome.json_text) == (False, ())


@EVERY
def test_texts_are_refused_where_the_tool_says_so(tool: Any) -> None:
    """`JsonText` turns it off for a tool, or for a toolkit; the fault is that of the string."""
    exact = Toolkit.of([tool]).annotate_all({JsonText: False})
    outcome = outcome_of(exact.call("wipe", SAID).provide(tool.handler(done)))

    assert isinstance(outcome.result, InvalidParameters)
    assert [fault.pointer for fault in outcome.result.faults] == ["/where", "/rows/0"]
    assert 'expected object, found string \'{"n": 1' in str(outcome.result)


@EVERY
def test_what_is_wrong_beside_a_text_is_told(tool: Any) -> None:
    """A text that can be read is no fault; one that cannot, and all else that does not fit, is."""
    kit = Toolkit.of([tool])
    handled = tool.handler(done)
    beside = outcome_of(kit.call("wipe", {"where": '{"n": 1}', "name": 3}).provide(handled))
    inside = outcome_of(kit.call("wipe", {"where": '{"n": "x"}'}).provide(handled))

    assert isinstance(beside.result, InvalidParameters)
    assert isinstance(inside.result, InvalidParameters)
    assert [fault.pointer for fault in beside.result.faults] == ["/name"]
    assert [(fault.pointer, fault.expected) for fault in inside.result.faults] == [("/where", "object")]
    assert (beside.json_text, inside.json_text) == ((), ())


def test_what_is_not_validated_is_not_read() -> None:
    """With `validation="none"` nothing can be wrong, so nothing is read."""
    loose: Any = Tool.dynamic("wipe", parameters=RAW, success=object, validation="none")
    outcome = outcome_of(Toolkit.of([loose]).call("wipe", SAID).provide(loose.handler(Success)))

    assert outcome.result == SAID


def test_a_composite_reads_the_list_of_calls_and_each_sub_tool_its_own() -> None:
    """The list may be a text, and the args of a call; one call that does not fit fails alone."""
    tool: Any = TOOLS[0]
    many: Any = Toolkit.of([tool]).as_tool("many")
    calls = [{"name": "wipe", "args": json.dumps(SAID)}, {"name": "wipe", "args": {"where": "[]"}}]
    served = many.layer.provide(tool.handler(named))
    outcome = outcome_of(Toolkit.of([many.tool]).call("many", {"calls": json.dumps(calls)}).provide(served))

    first, second = outcome.encoded_result["results"]
    assert first == {"name": "wipe", "result": '{"n": 4}'}
    assert second["result"]["error"]["type"] == "invalid-parameters"
    assert outcome.json_text == ("/calls",)


# ---- by a model


@EVERY
@every("how", HOW)
def test_a_models_call_runs_as_it_was_meant(tool: Any, how: How, backend: Backend) -> None:
    """In every way of asking: what runs, stands in the response and in the history, marked, and once."""
    office = Office(tool)
    called_it, answer = call("wipe", SAID, id="c1"), text('{"a": "b"}')
    states = [[called_it, answer]] if how == "generate_object" else [[called_it], answer]
    ended = office.exit(how, "Go.", states, backend)

    assert [plain(params) for params in office.ran] == [MEANT]
    parts = parts_of(ended)
    (called,) = (part for part in parts if part.type == "tool-call")
    (result,) = (part for part in parts if part.type == "tool-result")
    assert (called.id, called.params, called.repaired, called.json_text) == ("c1", MEANT, True, PLACES)
    assert (result.id, result.is_failure) == ("c1", False)
    if how in ("execute", "stream"):
        asked_again = office.models[-1].requests[-1].prompt
        (shown,) = (p for m in asked_again if m.role == "assistant" for p in m.content if p.type == "tool-call")
        assert (shown.params, shown.json_text) == (MEANT, PLACES)


def test_the_mark_survives_a_round_trip() -> None:
    """A history keeps where texts were read; one without any is written as it always was."""
    marked = ToolCall("c1", "wipe", MEANT, repaired=True, json_text=PLACES)
    prompt = Prompt.from_parts([marked])

    assert Prompt.from_json(prompt.to_json()).unwrap() == prompt
    assert "json_text" in prompt.to_json()
    assert "json_text" not in Prompt.from_parts([ToolCall("c1", "wipe", MEANT)]).to_json()


@every("how", ["stream_text", "stream"])
def test_a_stream_shows_the_call_before_its_result(how: How) -> None:
    """The call that runs comes a second time, marked, before the result; a gathered stream has it once."""
    office = Office(TOOLS[0])
    ended = office.exit(how, "Go.", [[call("wipe", SAID, id="c1")], text("done")])
    kinds = [part.type for part in ended.value if part.type in ("tool-call", "tool-result")]

    assert kinds == ["tool-call", "tool-call", "tool-result"]


def test_a_repair_is_not_asked_where_reading_is_enough() -> None:
    """Reading comes first; what is then still wrong goes to the repair, whose call may hold texts itself."""
    asked: list[Any] = []

    def repair(one: ToolCall, failure: Any) -> ToolCall:
        asked.append(failure)
        return msgspec.structs.replace(one, params=SAID)

    office = Office(TOOLS[0])
    office.exit("generate_text", "Go.", [[call("wipe", SAID, id="c1")]], repair=repair)
    assert asked == []
    ended = office.exit("generate_text", "Go.", [[call("wipe", {"where": "{}"}, id="c2")]], repair=repair)
    assert len(asked) == 1
    assert [plain(params) for params in office.ran] == [MEANT, MEANT]
    (called,) = ended.value.tool_calls
    assert (called.id, called.params, called.json_text) == ("c2", MEANT, PLACES)


def test_strict_parameters_are_led_back_inside_a_text() -> None:
    """Where a strict form writes maps, nulls and tuples otherwise, a text is in that form too; then it is read."""
    tool = Tool.make("wipe", parameters=Both, success=str)
    wire = {"at": {"0": 1, "1": "x"}, "named": [{"0": "a", "1": 2}], "note": None}
    meant = {"at": [1, "x"], "named": {"a": 2}}
    for prepare, model, absent in (
        (openai.prepare_tools, "gpt-5.5", {"more": None}),
        (anthropic.prepare_tools, "claude-sonnet-5", {}),
    ):
        prepared: Any = cast("Any", prepare)(Toolkit.make(tool), model=model)
        said = {
            "one": json.dumps(wire),
            "either": {"type": "Kind", "place": json.dumps(wire), **absent},
            "listed": json.dumps([json.dumps(wire)]),
        }
        _, back = prepared.call("wipe", said)
        seen: list[Any] = []
        outcome = outcome_of(Toolkit.make(tool).call("wipe", back).provide(tool.handler(keeping(seen))))

        assert sorted(outcome.json_text) == ["/either/place", "/listed", "/listed/0", "/one"]
        whole = {"one": meant, "either": {"type": "Kind", "place": meant}, "listed": [meant]}
        assert seen == [msgspec.convert(whole, Both)]


def test_a_null_is_kept_inside_a_text() -> None:
    """What stands for a null of its own is led back in a text too."""
    inner = {"type": "object", "properties": {"b": {"type": ["integer", "null"]}}}
    tool = Tool.dynamic("wipe", parameters={"type": "object", "properties": {"a": inner}})
    prepared = openai.prepare_tools(Toolkit.make(tool.annotate(ExplicitNull, True)), model="gpt-5.5")

    assert prepared.call("wipe", {"a": '{"b": {"__null__": true}}'}) == ("wipe", {"a": '{"b":null}'})
    assert prepared.call("wipe", {"a": '{"b": null}'}) == ("wipe", {"a": "{}"})
    assert prepared.call("wipe", {"a": "no json"}) == ("wipe", {"a": "no json"})


# ---- approvals


@EVERY
def test_what_is_approved_is_what_runs(tool: Any, backend: Backend) -> None:
    """The request is bound to the parameters as they are read; the approved call runs exactly so, once."""
    office = Office(tool.with_options(needs_approval=True))
    history = office.asked(call("wipe", SAID, id="c1"))
    (pending,) = history.pending
    assert pending.params == MEANT
    (request,) = (p for m in history if m.role == "assistant" for p in m.content if p.type == "tool-approval-request")
    assert request.digest == digest_of(office.wipe, MEANT)

    ended = office.exit("execute", answered(history), [text("done")], backend)
    assert ended.value.text == "done"
    assert [plain(params) for params in office.ran] == [MEANT]


def test_a_predicate_sees_what_is_read() -> None:
    """A function that decides about approval is asked with the parameters that would run."""
    careful: Any = Tool.make("wipe", parameters=Query, success=str, needs_approval=lambda query, _: query.where.n == 1)
    office = Office(careful)
    ended = office.exit("generate_text", "Go.", [[call("wipe", SAID, id="c1")]])

    assert (ended.value.finish_reason, office.ran) == ("pending", [])
    free = office.exit("generate_text", "Go.", [[call("wipe", {"where": '{"n": 2}'}, id="c1")]])
    assert (free.value.finish_reason, len(office.ran)) == ("tool-calls", 1)


def test_an_approved_call_is_run_as_it_stands() -> None:
    """A text slipped into an approved call is not read: the approval is for what stands there, or for nothing."""
    office = Office(TOOLS[0].with_options(needs_approval=True))
    history = answered(office.asked(call("wipe", MEANT, id="c1")))

    def slipped(part: Any) -> Any:
        return msgspec.structs.replace(part, params=SAID) if part.type == "tool-call" else part

    ended = office.exit("execute", changed(history, slipped), [text("done")])
    assert office.ran == []
    assert "altered" in str(ended.cause)


def test_nothing_is_read_from_what_needs_no_reading() -> None:
    """A call that is broken in another way is told as ever."""
    called = Toolkit.of([TOOLS[0]]).call("wipe", {}, on_invalid_call="error")
    ended: Any = fx.run_exit(called.provide(TOOLS[0].handler(done)))

    assert [fault.pointer for fault in ended.cause.failures[0].faults] == ["/where"]
