"""Prompts as messages of a page, checked and read by the AI SDK's own functions of the versions 5, 6 and 7."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fxai import Prompt
from fxai.messages import (
    AssistantMessage,
    FilePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.ui import Version, from_prompt
from tests.kit.node import Missing, installed, node

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
VERSIONS: tuple[Version, ...] = (5, 6, 7)


def read(prompt: Prompt, version: Version) -> list[dict[str, Any]]:
    """What the messages of a prompt are for a model, as the AI SDK has it."""
    try:
        modules = installed(HERE / "ai-clients")
    except Missing as missing:
        pytest.skip(str(missing))
    page = [message.to_data() for message in from_prompt(prompt, version=version)]
    command = [node(), str(HERE / "convert_messages.mjs"), str(modules), f"ai{version}"]
    done = subprocess.run(command, input=json.dumps(page).encode(), capture_output=True, check=True, timeout=60)
    messages: list[dict[str, Any]] = json.loads(done.stdout)
    return [message for message in messages if message["content"]]  # version 5 makes an empty one of what waits


DENIED = {"type": "execution-denied", "reason": "no"}
TALK = Prompt(
    (
        SystemMessage("Be kind."),
        UserMessage.make("Add, and wipe.", FilePart("image/png", b"png", "a.png")),
        AssistantMessage(
            (
                ReasoningPart("Hm.", metadata={"acme": {"signature": "S"}}),
                TextPart("So:"),
                ToolCallPart("c1", "add", {"a": 1}),
                ToolCallPart("c2", "search", {"q": "x"}, dynamic=True),
                ToolCallPart("c3", "wipe", {"disk": "a"}),
                ToolApprovalRequestPart("a3", "c3", "digest", 1.5, "signature"),
            )
        ),
        ToolMessage.make(
            ToolResultPart("c1", "add", {"sum": 2}),
            ToolResultPart("c2", "search", {"message": "no index"}, is_failure=True, dynamic=True),
            ToolApprovalResponsePart("a3", False, "no"),
            ToolResultPart("c3", "wipe", DENIED, is_failure=True),
        ),
        AssistantMessage.make("2, and no more.", ToolCallPart("c4", "locate", {})),
        ToolMessage.make(ToolResultPart("c4", "locate", None)),
        UserMessage.make("Wipe it."),
        AssistantMessage.make(ToolCallPart("c5", "wipe", {}), ToolApprovalRequestPart("a5", "c5", "d", None, "s")),
    )
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_is_read_as_it_was_said(version: Version) -> None:
    """Turn for turn, with what came of each call in words or data."""
    messages = read(TALK, version)
    results = [part for message in messages if message["role"] == "tool" for part in message["content"]]
    outputs = {part["toolCallId"]: part["output"] for part in results if part["type"] == "tool-result"}

    assert [message["role"] for message in messages] == [message.role for message in TALK]
    assert [part["toolName"] for part in messages[2]["content"] if part["type"] == "tool-call"] == [
        "add",
        "search",
        "wipe",
    ]
    assert messages[2]["content"][0]["providerOptions"] == {"acme": {"signature": "S"}}
    assert outputs == {
        "c1": {"type": "json", "value": {"sum": 2}},
        "c2": {"type": "error-text", "value": "no index"},
        "c3": {"type": "error-text", "value": "no"},
        "c4": {"type": "json", "value": None},
    }


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_approval_that_waits_is_asked_for(version: Version) -> None:
    """With its signature, which comes back with the answer."""
    asked = [part for part in read(TALK, version)[-1]["content"] if part["type"] == "tool-approval-request"]
    assert [(part["approvalId"], part["toolCallId"]) for part in asked] == [("a5", "c5")]
    assert version == 6 or asked[0]["signature"] == '["d",null,"s"]'
