"""Responses: the conformance cases of the area `response.parts`."""

from __future__ import annotations

from typing import Any, get_args

from returns.result import Failure

from fxai.messages import Finish, FinishReason, ToolResult, Usage, part_from_data, part_to_data
from tests.kit.conformance import Case, case


def _usage(counted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The usage of a case in our fields: the totals of both directions, and the shares that a provider may tell."""
    inputs, outputs = counted["inputTokens"], counted["outputTokens"]
    return {
        "input_tokens": inputs["total"],
        "output_tokens": outputs["total"],
        "cached_input_tokens": inputs["cacheRead"],
        "cache_write_input_tokens": inputs["cacheWrite"],
        "reasoning_tokens": outputs["reasoning"],
    }


@case("response.parts/142")
def test_a_finish_needs_only_reason_and_usage(case: Case) -> None:
    """A finish part is read without metadata and without anything else of the response."""
    given = case.given["part"]
    read = part_from_data({**given, "usage": _usage(given["usage"])})

    assert case.expect == {"decodes": True}
    assert read.unwrap() == Finish("stop", Usage(input_tokens=5, output_tokens=5))
    assert part_from_data({"type": "finish", "reason": "stop"}).unwrap() == Finish("stop")


@case("response.parts/143")
def test_the_finish_reasons_are_closed(case: Case) -> None:
    """Each reason is read; anything else is a failure that names the place."""
    for reason in case.given["values"]:
        assert part_from_data({"type": "finish", "reason": reason}).unwrap() == Finish(reason)

    assert case.expect["accepted"] is True
    assert {*case.given["values"], "pending"} == set(get_args(FinishReason))
    refused = part_from_data({"type": "finish", "reason": "bored"})
    assert isinstance(refused, Failure)
    assert [fault.pointer for fault in refused.failure().faults] == ["/reason"]


@case("response.parts/144")
def test_the_defaults_of_a_tool_result(case: Case) -> None:
    """What a tool result does not say is false or empty, and its encoded result is what was read."""
    given = case.given["part"]
    data = {"type": given["type"], "id": given["id"], "name": given["name"], "result": given["result"]}
    read = part_from_data({**data, "is_failure": given["isFailure"]}).unwrap()

    assert isinstance(read, ToolResult)
    assert read.provider_executed is case.expect["providerExecuted"]
    assert read.preliminary is case.expect["preliminary"]
    assert read.metadata == case.expect["metadata"]
    assert read.encoded_result == case.expect["encodedResult"]
    assert part_to_data(read) == data
