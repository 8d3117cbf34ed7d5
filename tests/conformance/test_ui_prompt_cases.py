"""What a message of a page is in a prompt."""

from __future__ import annotations

from typing import Any

from fxai import Prompt
from fxai.messages import Content
from fxai.ui import read_message, to_prompt
from tests.kit.conformance import Case, case


def _prompt(case: Case) -> Prompt:
    message = read_message(case.given["message"]).unwrap()
    return to_prompt([message]).unwrap()


def _shape(prompt: Prompt) -> list[dict[str, Any]]:
    """The messages as a case writes them."""
    return [
        {"role": message.role, "content": [_part(part) for part in message.content]}
        for message in prompt
        if message.role in ("assistant", "tool")
    ]


def _part(part: Content | str) -> dict[str, Any]:
    assert not isinstance(part, str)
    match part.type:
        case "text":
            return {"type": "text", "text": part.text}
        case "tool-call":
            return {"type": part.type, "id": part.id, "name": part.name, "input": part.params}
        case "tool-result":
            kind = ("error-text" if part.is_failure else "text") if isinstance(part.result, str) else "json"
            output = {"type": kind, "value": part.result}
            return {"type": part.type, "id": part.id, "name": part.name, "output": output}
        case "tool-approval-request":
            return {"type": part.type, "approval_id": part.approval_id, "id": part.tool_call_id}
        case "tool-approval-response":
            about = {"approval_id": part.approval_id, "approved": part.approved, "reason": part.reason}
            return {"type": part.type, **about}
        case _:
            return {"type": part.type}


@case("VE-166", "VE-169", "VE-170", "VE-171", "VE-173")
def test_a_message_in_a_prompt(case: Case) -> None:
    """A turn for each step, with the results of its calls behind it."""
    assert _shape(_prompt(case)) == case.expect["messages"]


@case("VE-175")
def test_a_call_that_was_denied_just_now_is_left_to_the_run(case: Case) -> None:
    """The run gives the model the denial and tells the page; the answer is there."""
    assistant, tool = case.expect["messages"]
    answers = [part for part in tool["content"] if part["type"] == "tool-approval-response"]
    assert _shape(_prompt(case)) == [assistant, {**tool, "content": answers}]


@case("VE-176")
def test_a_call_that_was_denied_before_reads_as_it_did(case: Case) -> None:
    """The model read a denial then, and no error; with the same reason."""
    assistant, tool = case.expect["messages"]
    answer, result = tool["content"]
    denied = {"type": "json", "value": {"type": "execution-denied", "reason": result["output"]["value"]}}
    assert _shape(_prompt(case)) == [assistant, {**tool, "content": [answer, {**result, "output": denied}]}]
