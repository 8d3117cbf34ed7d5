"""The check against the SDKs' types is itself checked: it takes what is right and refuses what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.every import every
from tests.kit.sdk_requests import anthropic_faults, chat_faults, responses_faults

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTION: dict[str, Any] = {"type": "function", "name": "a", "parameters": SCHEMA, "strict": True}
TOOL: dict[str, Any] = {"name": "a", "input_schema": SCHEMA}

RESPONSES: list[dict[str, Any]] = [
    {"tools": [{"type": "function", "name": "a", "parameters": SCHEMA}]},
    {"tools": [{**FUNCTION, "strict": "yes"}]},
    {"tools": [{**FUNCTION, "input_examples": []}]},
    {"tools": [{**FUNCTION, "strict_json_schema": True}]},
    {"tools": [{"type": "function", "function": FUNCTION}]},
    {"tools": [{"type": "web_search", "search_context_size": "huge"}]},
    {"tools": [{"type": "file_search"}]},
    {"tools": [{"type": "code_interpreter"}]},
    {"tools": [{"type": "namespace", "name": "n", "tools": []}]},
    {"tools": [{"type": "no_such_tool"}]},
    {"tools": [FUNCTION], "tool_choice": "any"},
    {"tools": [FUNCTION], "tool_choice": {"type": "tool", "name": "a"}},
    {"tools": [FUNCTION], "strict_json_schema": True},
]

CHAT: list[dict[str, Any]] = [
    {"tools": [FUNCTION]},
    {"tools": [{"type": "function", "function": {"parameters": SCHEMA}}]},
    {"tools": [{"type": "function", "function": {"name": "a", "defer_loading": True}}]},
    {"tools": [{"type": "web_search"}]},
    {"tool_choice": {"type": "function", "name": "a"}},
    {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
]

ANTHROPIC: list[dict[str, Any]] = [
    {"tools": [{"name": "a"}]},
    {"tools": [{"input_schema": SCHEMA}]},
    {"tools": [{**TOOL, "strict": None}]},
    {"tools": [{**TOOL, "strictJsonSchema": True}]},
    {"tools": [{**TOOL, "cache_control": {"type": "ephemeral", "ttl": "2h"}}]},
    {"tools": [{**TOOL, "allowed_callers": ["programmatic"]}]},
    {"tools": [{"type": "bash_20250124", "name": "sh"}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search", "response_inclusion": "full"}]},
    {"tools": [TOOL], "tool_choice": "auto"},
    {"tools": [TOOL], "tool_choice": {"type": "none", "disable_parallel_tool_use": True}},
    {"tools": [TOOL], "parallel_tool_calls": False},
]


def test_right_requests_pass() -> None:
    """What each provider takes has no fault."""
    assert responses_faults({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "a"}}) == []
    assert chat_faults({"tools": [{"type": "function", "function": {"name": "a", "parameters": SCHEMA}}]}) == []
    assert anthropic_faults({"tools": [{**TOOL, "strict": True}], "tool_choice": {"type": "any"}}) == []


@every("fields", RESPONSES)
def test_wrong_requests_to_responses_are_refused(fields: dict[str, Any]) -> None:
    """What is missing, of a wrong type, or unknown is a fault on Responses."""
    assert responses_faults(fields)


@every("fields", CHAT)
def test_wrong_requests_to_chat_are_refused(fields: dict[str, Any]) -> None:
    """What is missing, of a wrong type, or unknown is a fault on Chat Completions."""
    assert chat_faults(fields)


@every("fields", ANTHROPIC)
def test_wrong_requests_to_anthropic_are_refused(fields: dict[str, Any]) -> None:
    """What is missing, of a wrong type, or unknown is a fault on Messages."""
    assert anthropic_faults(fields)
