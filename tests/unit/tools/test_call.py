"""Calls: decoded, run and encoded; and what becomes of everything that can go wrong."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any, Never

import anyio
import anyio.lowlevel
import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.effects import Backend, Effect, Fail, Failed, Gen, Stream, fx
from fxai.schema import Fault, Schema
from fxai.tools import (
    CallContext,
    CallFailureError,
    HandlerFailed,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    Outcome,
    OutcomeUnknown,
    Refused,
    Tool,
    ToolError,
    Toolkit,
    UnknownTool,
)
from tests.kit.every import every
from tests.kit.journal import Journal
from tests.kit.samples import (
    Sum,
    TooBig,
    add,
    add_kit,
    double,
    failure_of,
    giving,
    on_add,
    on_double,
    outcome_of,
)


class Stamp(msgspec.Struct, frozen=True):
    """A moment."""

    at: Schema.EpochMillis


later = Tool.make("later", parameters=Stamp, success=Stamp, failure=Stamp, failure_mode="return")
later_kit = Toolkit.make(later)
mild = double.with_options(failure_mode="return")
mild_kit = Toolkit.make(mild)
FIRST = datetime.fromtimestamp(1, UTC)


# -- success


def test_parameters_are_decoded_and_results_encoded(backend: Backend) -> None:
    """The handler sees the Python form; outcome and history get both."""
    seen: list[Stamp] = []

    def handler(p: Stamp) -> Result[Stamp, Stamp]:
        seen.append(p)
        return Success(p)

    outcome = outcome_of(later_kit.call("later", {"at": 1000}).provide(later.handler(handler)), backend)

    assert seen == [Stamp(FIRST)]
    assert outcome == Outcome(Stamp(FIRST), {"at": 1000})
    assert outcome.encoded_json == b'{"at":1000}'


def test_an_encoded_result_shows_the_end_of_the_handler() -> None:
    """A later change of the value changes neither form. Both forms, a copy, and a preview of the outcome agree."""
    tool = Tool.make("t", success=list[int])
    value = [1]
    outcome = outcome_of(Toolkit.make(tool).call("t", {}).provide(tool.handler(lambda _: Success(value))))
    copy = pickle.loads(pickle.dumps(outcome))
    value.append(2)

    assert outcome.encoded_json == b"[1]"
    assert msgspec.json.decode(msgspec.json.encode(outcome))["encoded_result"] == [1]
    assert outcome.encoded_result == [1]
    assert outcome.encoded_result is outcome.encoded_result
    assert outcome.encoded_json == b"[1]"
    assert copy == Outcome([1], [1])
    assert repr(copy).startswith("Outcome(result=[1], encoded_result=[1], is_failure=False,")
    assert copy.with_preview("[…", "h1") == Outcome([1], "[…", handle="h1")


def test_text_is_read_as_a_model_writes_it() -> None:
    """`call_json` takes text or bytes; blank text is an empty object; `3.0` is an integer."""
    ping = Tool.make("ping", success=str)
    on_ping = ping.handler(lambda _: Success("pong"))
    handlers = add.handler(on_add)

    assert outcome_of(add_kit.call_json("add", '{"a": 1, "b": 3.0}').provide(handlers)).result == 4
    assert outcome_of(add_kit.call_json("add", b'{"a": 1, "b": 2}').provide(handlers)).result == 3
    for blank in ("", " \n", b""):
        assert outcome_of(Toolkit.make(ping).call_json("ping", blank).provide(on_ping)).result == "pong"


def test_nothing_is_null() -> None:
    """A tool without a success type gives None, encoded as null."""
    tool = Tool.make("t")

    assert outcome_of(Toolkit.make(tool).call("t", {}).provide(tool.handler(lambda _: Success(None)))) == Outcome(
        None, None
    )


def test_raw_parameters_reach_the_handler_untouched() -> None:
    """A raw document's handler gets the parsed JSON; a function may change it."""
    document = {"type": "object", "properties": {"n": {"type": "number"}}}
    given: dict[str, Any] = {"n": 2.0, "more": [{"x": None}]}
    seen: list[object] = []

    def handler(p: object) -> Result[object, Never]:
        seen.append(p)
        return Success(p)

    def narrowed(value: Any) -> Result[Any, str]:
        return Success(value["n"]) if "n" in value else Failure("there is no n")

    checked = Tool.dynamic("t", parameters=document)
    free = Tool.dynamic("t", parameters=document, validation="none")
    own = Tool.dynamic("t", parameters=document, validation=narrowed)
    for tool, params in ((checked, given), (free, {"n": "no number"}), (own, given)):
        fx.run(Toolkit.make(tool).call("t", params).provide(tool.handler(handler)))

    assert seen == [given, {"n": "no number"}, 2.0]
    refused = outcome_of(Toolkit.make(own).call("t", {}).provide(own.handler(handler)))
    assert "there is no n" in str(refused.encoded_result)


# -- the handler's typed failures


def test_mode_return_makes_a_failure_a_result(backend: Backend) -> None:
    """It is encoded by the failure schema, not by the success schema that would fit as well."""

    def handler(p: Stamp) -> Result[Stamp, Stamp]:
        return Failure(p)

    outcome = outcome_of(later_kit.call("later", {"at": 1000}).provide(later.handler(handler)), backend)
    text = Tool.make("t", success=Schema.of(Schema.IntString), failure=int, failure_mode="return")
    failed = outcome_of(Toolkit.make(text).call("t", {}).provide(text.handler(lambda _: Failure(5))), backend)

    assert outcome == Outcome(Stamp(FIRST), {"at": 1000}, is_failure=True)
    assert failed.encoded_result == 5


def test_mode_error_puts_a_failure_into_the_error_channel(backend: Backend) -> None:
    """As `HandlerFailed`, which names the tool and holds the failure."""
    failure = failure_of(
        Toolkit.make(double).call("double", {"a": 9, "b": 9}).provide(double.handler(on_double)), backend
    )

    assert failure == HandlerFailed("double", TooBig(10))
    assert "'double'" in str(failure)
    assert "TooBig" in failure.message


def test_each_failure_of_a_call_is_a_tool_error_and_exact() -> None:
    """`exact` lists for checkers what there is, in which a `match` leaves out none, and is the error itself."""
    errors = (
        UnknownTool("sum"),
        InvalidParameters("add", ()),
        HandlerFailed("add", 1),
        InvalidResult("add", ()),
        HandlerUnavailable("add", "no worker"),
        OutcomeUnknown("add", "its worker was lost"),
        Refused("add", guard="g", at="arguments", reason="no"),
    )

    assert [error.exact for error in errors if error.name] == list(errors)
    assert {type(error) for error in errors} == set(ToolError.__subclasses__())


LOST = (OutcomeUnknown("add", "its worker was lost"), HandlerUnavailable("add", "there is no worker"))


def _raise(failure: Any) -> Any:
    raise CallFailureError(failure)


def _dying(failure: Any) -> Any:
    return fx.die(CallFailureError(failure))


def _lose(_: object) -> Any:
    return _dying(LOST[0])


def _give_six(_: object) -> Any:
    return Success(6)


@pytest.mark.parametrize("handler", [_raise, _dying], ids=["raised", "an effect's defect"])
@pytest.mark.parametrize("failure", LOST, ids=lambda failure: type(failure).__name__)
def test_a_handler_without_an_answer_fails_its_call_as_the_failure_mode_says(
    failure: Any, handler: Any, backend: Backend
) -> None:
    """In the mode `error` it goes into the error channel, in the mode `return` to the model, by its type and reason."""

    def answer(_: object) -> Any:
        return handler(failure)

    tools: list[Any] = [Tool.make("add", success=int), Tool.make("add", success=int, failure_mode="return")]
    calls = [Toolkit.make(tool).call("add", {}).provide(tool.handler(answer)) for tool in tools]

    assert fx.run_result(calls[0], backend=backend) == Failure(failure)
    outcome = fx.run(calls[1], backend=backend)
    assert (outcome.is_failure, outcome.result) == (True, failure)
    assert outcome.encoded_result == {
        "type": failure.__struct_config__.tag,
        "name": "add",
        "reason": failure.reason,
    }


def test_what_a_call_without_an_answer_comes_to_in_a_composite_is_its_entry() -> None:
    """The other calls of the composite go on."""
    add: Any = Tool.make("add", success=int)
    six: Any = Tool.make("six", success=int)
    kit = Toolkit.make(add, six)
    both = kit.as_tool("both")
    handlers: Any = kit.to_layer(add.handler(_lose) | six.handler(_give_six))
    calls: dict[str, Any] = {"calls": [{"name": "add", "args": {}}, {"name": "six", "args": {}}]}

    given = fx.run_sync(Toolkit.make(both.tool).call("both", calls).provide(both.layer.provide(handlers)))
    first, second = given.encoded_result["results"]
    assert first["result"]["error"]["type"] == "outcome-unknown"
    assert second["result"] == 6


def test_a_typed_call_knows_the_handlers_failures_alone() -> None:
    """What says that there is no answer is a defect there, which holds the failure."""
    add: Any = Tool.make("add", success=int)

    with pytest.raises(CallFailureError) as raised:
        fx.run_sync(add.call(None).provide(add.handler(_lose)))
    assert raised.value.failure == LOST[0]


def test_several_failures_at_once_are_one_result() -> None:
    """Of failures that arise side by side the first is the call's; none leaks out unwrapped."""

    def handler(_: Sum) -> Effect[int, TooBig]:
        one: Effect[int, TooBig] = fx.fail(TooBig(1))
        two: Effect[int, TooBig] = fx.fail(TooBig(2))
        race: Any = fx.race
        raced: Effect[int, TooBig] = race(one, two)
        return raced

    params = {"a": 1, "b": 1}
    returned = outcome_of(mild_kit.call("double", params).provide(mild.handler(handler)))
    failed: Any = fx.run_exit(Toolkit.make(double).call("double", params).provide(double.handler(handler)))

    assert returned == Outcome(TooBig(1), {"limit": 1}, is_failure=True)
    assert [type(reason.error) for reason in failed.cause.reasons] == [HandlerFailed]


# -- results that do not fit


@every("mode", ["error", "return"])
@every(
    ("answer", "declared", "pointer"),
    [
        (Success("five"), "success", ""),
        (Failure({"limit": "x"}), "failure", ""),
        (Success(float("nan")), "success", ""),
    ],
)
def test_a_result_of_another_type_is_never_sent(
    answer: Result[Any, Any], declared: str, pointer: str, mode: Any, backend: Backend
) -> None:
    """What the handler gave does not fit what the tool declares: `InvalidResult`, in both modes."""
    tool: Any = double.with_options(failure_mode=mode)
    failure = failure_of(
        Toolkit.make(tool).call("double", {"a": 1, "b": 1}).provide(tool.handler(giving(answer))), backend
    )

    assert isinstance(failure, InvalidResult)
    assert (failure.name, failure.declared, failure.faults[0].pointer) == ("double", declared, pointer)
    assert f"its {declared} type" in str(failure)


# -- the model's mistakes


def test_an_unknown_tool_is_a_failed_outcome_that_lists_the_tools(backend: Backend) -> None:
    """The model reads which tools there are, and can call one of them."""
    outcome = outcome_of(add_kit.call("sum", {}).provide(add.handler(on_add)), backend)

    assert outcome.result == UnknownTool("sum", ("add",))
    assert outcome.is_failure
    assert outcome.encoded_result == {
        "type": "unknown-tool",
        "name": "sum",
        "known": ["add"],
        "message": "unknown tool 'sum'. Call one of these tools: add",
    }


@pytest.mark.parametrize("mode", ["error", "return"])
def test_invalid_parameters_are_a_failed_outcome_with_every_fault(mode: Any, backend: Backend) -> None:
    """In both failure modes; the handler does not run; each place is named."""
    ran: list[object] = []

    def handler(p: Sum) -> Any:
        ran.append(p)
        return Success(1)

    tool: Any = double.with_options(failure_mode=mode)
    outcome = outcome_of(Toolkit.make(tool).call("double", {"a": "one"}).provide(tool.handler(handler)), backend)

    assert ran == []
    assert outcome.is_failure
    assert isinstance(outcome.result, InvalidParameters)
    assert outcome.result.faults == (
        Fault("/a", "integer", "string 'one'"),
        Fault("/b", "integer", "nothing"),
    )
    assert outcome.encoded_result["type"] == "invalid-parameters"
    assert [fault["pointer"] for fault in outcome.encoded_result["faults"]] == ["/a", "/b"]
    assert "Correct them and call the tool again" in outcome.encoded_result["message"]


def test_mistakes_go_into_the_error_channel_when_asked() -> None:
    """`on_invalid_call="error"` makes typed failures of them."""
    handlers = add.handler(on_add)

    assert failure_of(add_kit.call("sum", {}, on_invalid_call="error").provide(handlers)) == UnknownTool(
        "sum", ("add",)
    )
    for call in (
        add_kit.call("add", {}, on_invalid_call="error"),
        add_kit.call_json("add", "{}", on_invalid_call="error"),
        add_kit.handle("add", {}, on_invalid_call="error").collect(),
    ):
        assert isinstance(failure_of(call.provide(handlers)), InvalidParameters)


# -- handle


def _counting(journal: Journal) -> Any:
    def handler(p: Sum, call: CallContext) -> Gen[int, TooBig]:
        for i in range(p.a):
            journal.add(f"begin {i}")
            yield from call.preliminary(i)
        return (yield from fx.lift(on_double(p)))

    return mild.handler(handler)


def test_handle_gives_preliminaries_in_order_then_one_final(backend: Backend) -> None:
    """Each outcome says whether more is to come."""
    outcomes = fx.run(
        mild_kit.handle("double", {"a": 2, "b": 1}).collect().provide(_counting(Journal())), backend=backend
    )

    assert outcomes == [
        Outcome(0, 0, preliminary=True),
        Outcome(1, 1, preliminary=True),
        Outcome(6, 6),
    ]


def test_preliminaries_come_before_a_failure_too(backend: Backend) -> None:
    """In mode "return" the failure is the final outcome; in mode "error" the stream fails after them."""
    returned = fx.run(
        mild_kit.handle("double", {"a": 9, "b": 0}).collect().provide(_counting(Journal())), backend=backend
    )
    seen: list[Any] = []

    def stern(p: Sum, call: CallContext) -> Gen[int, TooBig]:
        yield from call.preliminary(1)
        return (yield from fx.fail(TooBig(p.a)))

    stream = Toolkit.make(double).handle("double", {"a": 9, "b": 0}).tap(lambda o: fx.sync(lambda: seen.append(o)))
    failure = failure_of(stream.drain().provide(double.handler(stern)), backend)

    assert [(o.preliminary, o.is_failure) for o in returned] == [(True, False)] * 9 + [(False, True)]
    assert seen == [Outcome(1, 1, preliminary=True)]
    assert failure == HandlerFailed("double", TooBig(9))


def test_mistakes_are_the_one_outcome_of_a_stream() -> None:
    """An unknown tool and wrong parameters give exactly one final outcome."""
    for name in ("sum", "double"):
        outcomes = fx.run(mild_kit.handle(name, {}).collect().provide(_counting(Journal())))
        assert [(o.is_failure, o.preliminary) for o in outcomes] == [(True, False)]


def test_the_handler_waits_until_a_preliminary_was_read(backend: Backend) -> None:
    """A slow reader slows the handler."""
    journal = Journal()

    async def main() -> list[str]:
        stream = mild_kit.handle("double", {"a": 3, "b": 1}).provide(_counting(journal))
        async with stream.iterate() as outcomes:
            async for outcome in outcomes:
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                journal.add(f"read {outcome.result}")
        return journal.lines

    lines = anyio.run(main, backend=backend)

    assert lines.index("read 0") < lines.index("begin 2")
    assert lines[-1] == "read 8"


def test_closing_early_stops_the_handler(backend: Backend) -> None:
    """Its finalizers have run when the reader goes on."""
    journal = Journal()

    def handler(_: Sum, call: CallContext) -> Effect[int, Never]:
        endless: Effect[int] = call.preliminary(1).flat_map(lambda _: fx.never())
        return endless.ensuring(journal.note("stopped"))

    first = add_kit.handle("add", {"a": 1, "b": 1}).take(1).collect().provide(add.handler(handler))

    assert [o.result for o in fx.run(first.tap(lambda _: journal.note("read")), backend=backend)] == [1]
    assert journal.lines == ["stopped", "read"]


def test_a_stream_handlers_items_are_preliminary_but_the_last(backend: Backend) -> None:
    """A handler that returns a `Stream` needs no context to show what it has so far."""

    def handler(p: Sum) -> Any:
        return Stream.make(p.a, p.b, p.a + p.b)

    outcomes = fx.run(add_kit.handle("add", {"a": 1, "b": 2}).collect().provide(add.handler(handler)), backend=backend)

    assert [(o.result, o.preliminary) for o in outcomes] == [(1, True), (2, True), (3, False)]


# -- failures as values


def test_failures_are_comparable_and_serialisable() -> None:
    """They are written as tagged JSON and read back."""
    failures = [UnknownTool("a", ("b",)), InvalidParameters("a", (Fault("/x", "integer", "nothing"),))]

    for failure in failures:
        text = msgspec.json.encode(failure)
        assert msgspec.json.decode(text, type=type(failure)) == failure
        assert hash(failure) == hash(msgspec.json.decode(text, type=type(failure)))
        assert failure.message == str(failure)


def test_a_defect_of_validation_is_a_defect(backend: Backend) -> None:
    """A validation function that raises is a bug of its own, not the model's mistake."""
    boom = RuntimeError("boom")

    def broken(_: Any) -> Result[Any, Any]:
        raise boom

    tool = Tool.dynamic("t", parameters={}, validation=broken)
    ended = fx.run_exit(Toolkit.make(tool).call("t", {}).provide(tool.handler(lambda _: Success(1))), backend=backend)

    assert isinstance(ended, Failed)
    assert not any(isinstance(reason, Fail) for reason in ended.cause.reasons)
    assert ended.cause.defects == (boom,)


def test_an_unknown_tool_is_told_of_with_the_name_that_is_like_it() -> None:
    """The nearest name is asked about; none where no name is like it, or the name is too long to be compared."""
    known = ("search", "refund")
    assert str(UnknownTool("serach", known)).startswith("unknown tool 'serach' (did you mean 'search'?). ")
    assert "did you mean" not in str(UnknownTool("weather", known))
    assert "did you mean" not in str(UnknownTool("s" * 200, ("s" * 199, *known)))
    with pytest.raises(KeyError, match="did you mean 'search'"):
        Toolkit.make(Tool.make("search")).pick("serach")


# -- half surrogate pairs


@every("value", ["caf\udce9", ["ok", {"caf\udce9": "\ud83d"}]])
@every("fails", [False, True])
def test_half_surrogate_pairs_of_a_result_are_replaced(value: Any, fails: bool) -> None:
    """The model reads U+FFFD, and the program gets its own value."""
    tool = Tool.dynamic("ls", success=Schema.of(Any), failure=Schema.of(Any), failure_mode="return")
    kit = Toolkit.make(tool)
    handler = tool.handler(lambda _: Failure(value) if fails else Success(value))
    outcome = fx.run(kit.call("ls", {}).provide(kit.to_layer(handler)))

    assert outcome.result == value
    assert "\ufffd" in str(outcome.encoded_result)
    assert outcome.encoded_json.decode()
