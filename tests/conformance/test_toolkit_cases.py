"""Toolkits: the conformance cases of the areas `toolkit.*`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.effects import Backend, Effect, Gen, Layer, Tag, fx
from fxai.messages import AiError, RateLimitError
from fxai.schema import Schema, SchemaError
from fxai.tools import (
    CallContext,
    HandlerError,
    HandlerFailed,
    InvalidParameters,
    InvalidResult,
    Outcome,
    Tool,
    ToolConflictError,
    Toolkit,
)
from tests.kit.conformance import Case, case
from tests.kit.journal import Journal
from tests.kit.samples import defect_of, failure_of, giving, outcome_of


class Given(msgspec.Struct, frozen=True):
    """The parameters of the cases."""

    testParam: str  # noqa: N815  # the cases' own name


class Found(msgspec.Struct, frozen=True):
    """Their success."""

    testSuccess: str  # noqa: N815


class Lost(msgspec.Struct, frozen=True):
    """Their failure."""

    testFailure: str  # noqa: N815


class Number(msgspec.Struct, frozen=True):
    """A number that travels as text."""

    n: Schema.IntString


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far it is."""

    status: str
    progress: int | None = None


class Excuse(msgspec.Struct, frozen=True):
    """Why not."""

    error: str


class Where(Tag[str]):
    """Where a service came from."""


def _tool(**options: Any) -> Tool[Any, Any, Any]:
    tool: Any = Tool.make
    made: Tool[Any, Any, Any] = tool("T", **{"parameters": Given, "success": Found, "failure": Lost, **options})
    return made


def _handled(tool: Tool[Any, Any, Any], handler: Any, params: object, backend: Backend) -> list[Outcome]:
    stream: Any = Toolkit.make(tool).handle("T", params).provide(tool.handler(handler))
    outcomes: list[Outcome] = fx.run(stream.collect(), backend=backend)
    return outcomes


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "result": msgspec.to_builtins(outcome.result),
        "encodedResult": outcome.encoded_result,
        "isFailure": outcome.is_failure,
        "preliminary": outcome.preliminary,
    }


# -- toolkit.merge


@case("toolkit.merge/033")
def test_merging_keeps_the_order_and_refuses_conflicts(case: Case) -> None:
    """Where the other system lets the later tool win in silence, ours must be told to."""
    p, e, a = Tool.make("P"), Tool.make("E"), Tool.make("A")
    second = Tool.make("A", description="second")

    assert list(Toolkit.make(p, e).merge(Toolkit.make(a)).tools) == case.expect["names"]
    with pytest.raises(ToolConflictError, match="'A'"):
        Toolkit.make(a).merge(Toolkit.make(second))
    merged = Toolkit.make(a).merge(Toolkit.make(second), on_conflict="last")
    assert merged.tools["A"].description == case.expect["A.description"]


# -- toolkit.handle


@case("toolkit.handle/034")
def test_a_success_is_one_outcome(case: Case, backend: Backend) -> None:
    """In both forms, no failure, final."""
    outcomes = _handled(_tool(), giving(Success(Found("x"))), case.given["call"], backend)

    assert [_plain(outcome) for outcome in outcomes] == case.expect["stream"]


@case("toolkit.handle/035")
def test_a_failure_is_a_result(case: Case, backend: Backend) -> None:
    """In failure mode "return"."""
    tool = _tool(failure_mode="return")
    outcomes = _handled(tool, giving(Failure(Lost("f"))), {"testParam": "x"}, backend)

    assert [_plain(outcome) for outcome in outcomes] == [case.expect]


@case("toolkit.handle/036")
def test_a_failure_is_in_the_error_channel(case: Case, backend: Backend) -> None:
    """In failure mode "error", inside `HandlerFailed`, which says whose it is and holds the response of a round."""
    tool = _tool()
    called: Any = Toolkit.make(tool).call("T", {"testParam": "x"}).provide(tool.handler(giving(Failure(Lost("f")))))
    failure = failure_of(called, backend)

    assert failure == HandlerFailed("T", Lost("f"))
    assert msgspec.to_builtins(failure.error) == case.expect["error"]


@case("toolkit.handle/037", "toolkit.handle/038")
def test_invalid_parameters_name_tool_place_and_problem(case: Case, backend: Backend) -> None:
    """In both modes they are a failed outcome; asked to, a typed failure. The handler does not run."""
    ran: list[object] = []
    tool = _tool(failure_mode=case.given["failure_mode"])
    layer: Any = tool.handler(lambda p: fx.sync(lambda: ran.append(p)))
    kit: Any = Toolkit.make(tool)
    outcome = outcome_of(kit.call("T", {}).provide(layer), backend)
    failure = failure_of(kit.call("T", {}, on_invalid_call="error").provide(layer), backend)

    assert outcome.is_failure
    assert outcome.result == failure
    assert isinstance(failure, InvalidParameters)
    assert failure.name == "T"
    assert "/testParam: expected string, found nothing" in str(failure)
    assert ran == []


@case("toolkit.handle/039")
def test_an_ai_error_is_a_failure_like_any_other(case: Case, backend: Backend) -> None:
    """A handler that asks a service of ours declares its errors; they are encoded tagged."""
    tool = _tool(failure=AiError, failure_mode="return")
    error = AiError("Toolkit", "T.handle", RateLimitError())
    (outcome,) = _handled(tool, giving(Failure(error)), {"testParam": "x"}, backend)
    expected = case.expect["encodedResult"]

    assert outcome.is_failure is case.expect["isFailure"]
    assert outcome.result == error
    assert outcome.encoded_result["module"] == expected["module"]
    assert expected["reason"]["_tag"] in outcome.encoded_result["reason"].values()


@case("toolkit.handle/044")
def test_parameters_are_decoded_and_results_encoded(case: Case, backend: Backend) -> None:
    """Each by its own schema."""
    seen: list[int] = []

    def handler(p: Number) -> Result[int, Any]:
        seen.append(p.n)
        return Success(p.n + 1)

    tool = _tool(parameters=Number, success=Schema.IntString)
    (outcome,) = _handled(tool, handler, case.given["call"], backend)

    assert seen == [case.expect["handler receives"]["n"]]
    assert (outcome.result, outcome.encoded_result) == (case.expect["result"], case.expect["encodedResult"])


@case("toolkit.handle/045", "toolkit.handle/047")
def test_what_does_not_conform_is_an_invalid_result(case: Case, backend: Backend) -> None:
    """Success or failure, in either mode: it is never sent."""
    declared = "success" if "tool.success" in case.given else "failure"
    answer: Any = Success({"nope": 1}) if declared == "success" else Failure({"nope": 1})
    for mode in ("error", "return"):
        tool = _tool(failure_mode=mode)
        called: Any = Toolkit.make(tool).call("T", {"testParam": "x"}).provide(tool.handler(giving(answer)))
        failure = failure_of(called, backend)

        assert isinstance(failure, InvalidResult)
        assert failure.declared == declared


@case("toolkit.handle/046")
def test_a_failure_is_encoded_by_the_failure_schema(case: Case, backend: Backend) -> None:
    """Not by the success schema that would take it too."""
    tool = _tool(success=Schema.IntString, failure=int, failure_mode="return")
    (outcome,) = _handled(tool, giving(Failure(5)), {"testParam": "x"}, backend)

    assert (outcome.is_failure, outcome.encoded_result) == (case.expect["isFailure"], case.expect["encodedResult"])


@case("toolkit.handle/048", "toolkit.handle/049")
def test_what_a_handler_raises_is_a_defect(case: Case, backend: Backend) -> None:
    """Also an error of a schema, which says nothing of this call's result; in either mode, and never a result."""
    raised: Exception = SchemaError("no") if "schema" in case.given["handler"] else RuntimeError("boom")

    def handler(_: object) -> Any:
        raise raised

    for mode in ("error", "return"):
        tool = _tool(failure_mode=mode)
        called: Any = Toolkit.make(tool).call("T", {"testParam": "x"}).provide(tool.handler(handler))

        assert defect_of(called, backend) is raised


@case("toolkit.handle/051")
def test_raw_parameters_are_the_parsed_json(case: Case, backend: Backend) -> None:
    """Untouched."""
    seen: list[object] = []

    def handler(p: object) -> Result[object, Any]:
        seen.append(p)
        return Success(None)

    tool = Tool.dynamic("T", parameters=case.given["dynamic"])
    _handled(tool, handler, case.given["call"], backend)

    assert seen == [case.expect["handler receives"]]


@case("toolkit.handle/053")
def test_preliminary_outcomes_come_first(case: Case, backend: Backend) -> None:
    """In order, none of them a failure."""

    def handler(_: Given, call: CallContext) -> Gen[Progress]:
        for status, progress in (("loading", 0), ("processing", 50), ("finalizing", 90)):
            yield from call.preliminary(Progress(status, progress))
        return Progress("complete")

    outcomes = _handled(_tool(success=Progress), handler, {"testParam": "x"}, backend)

    assert [{"preliminary": o.preliminary, "result": msgspec.to_builtins(o.result)} for o in outcomes] == case.expect[
        "stream"
    ]
    assert not any(o.is_failure for o in outcomes)


@case("toolkit.handle/054")
def test_preliminary_outcomes_come_before_a_failure(case: Case, backend: Backend) -> None:
    """And are none themselves."""

    def handler(_: Given, call: CallContext) -> Gen[Progress, Excuse]:
        yield from call.preliminary(Progress("loading"))
        yield from call.preliminary(Progress("processing"))
        return (yield from fx.fail(Excuse("Something went wrong")))

    tool = _tool(success=Progress, failure=Excuse, failure_mode="return")
    outcomes = _handled(tool, handler, {"testParam": "x"}, backend)

    for outcome, expected in zip(outcomes, case.expect["stream"], strict=True):
        assert (outcome.preliminary, outcome.is_failure) == (expected["preliminary"], expected["isFailure"])
    assert outcomes[-1].encoded_result == case.expect["stream"][-1]["result"]


@case("toolkit.handle/056")
def test_stopping_early_stops_the_handler(case: Case, backend: Backend) -> None:
    """Its finalizer has run when the reader goes on."""
    journal = Journal()

    def handler(_: Given, call: CallContext) -> Effect[Found]:
        endless: Effect[Found] = call.preliminary(Found("a")).and_then(fx.never())
        return endless.ensuring(journal.note("stopped"))

    tool = _tool()
    stream: Any = Toolkit.make(tool).handle("T", {"testParam": "x"}).take(1).provide(tool.handler(handler))
    fx.run(stream.drain(), backend=backend)

    assert (journal.lines == ["stopped"]) is case.expect["handler cancelled"]


# -- toolkit.context


@case("toolkit.context/057")
def test_a_service_of_the_request_overrides_the_layers(case: Case, backend: Backend) -> None:
    """Of one key."""

    def handler(_: Given) -> Effect[Found, Any, Where]:
        asked = fx.service(Where)
        return asked.map(Found)

    tool: Any = _tool()
    layer = tool.handler(handler).provide(Layer.succeed(Where, case.given["layer"]["Svc"]))
    called: Any = Toolkit.make(tool).call("T", {"testParam": "x"})
    overridden = called.provide(Layer.succeed(Where, case.given["request"]["Svc"]))

    assert outcome_of(overridden.provide(layer), backend).result == Found(case.expect["handler reads"])
    assert outcome_of(called.provide(layer), backend).result == Found("layer")


@case("toolkit.context/060")
def test_a_handler_of_no_tool_is_reported(case: Case, backend: Backend) -> None:
    """By name, when the layer is built."""
    a, zed = Tool.make("A"), Tool.make("Zed")
    kit: Any = Toolkit.make(a)
    layer: Any = kit.to_layer(a.handler(giving(Success(None))) | zed.handler(giving(Success(None))))
    defect = defect_of(kit.call("A", {}).provide(layer), backend)

    assert isinstance(defect, HandlerError)
    assert [name for name in case.expect["error names"] if name in str(defect)] == ["Zed"]
