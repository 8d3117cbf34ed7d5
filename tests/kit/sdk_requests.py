"""Whole requests to each provider, checked against the parameter types of its official SDK."""

from __future__ import annotations

from typing import Any

from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from fxai.models import PreparedTools
from tests.kit.sdkcheck import faults

__all__ = ["anthropic_faults", "chat_faults", "responses_faults"]

_SAID = [{"role": "user", "content": "Hello"}]


def responses_faults(fields: dict[str, Any] | PreparedTools) -> list[str]:
    """What is wrong with a request to OpenAI's Responses API that says this of its tools."""
    request = {"model": "gpt-5.5", "input": "Hello", **_plain(fields)}
    return faults(response_create_params.ResponseCreateParamsNonStreaming, request)


def chat_faults(fields: dict[str, Any] | PreparedTools) -> list[str]:
    """What is wrong with a request to OpenAI's Chat Completions API that says this of its tools."""
    request = {"model": "gpt-5.5", "messages": _SAID, **_plain(fields)}
    return faults(completion_create_params.CompletionCreateParamsNonStreaming, request)


def anthropic_faults(fields: dict[str, Any] | PreparedTools) -> list[str]:
    """What is wrong with a request to Anthropic's Messages API that says this of its tools."""
    request = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": _SAID, **_plain(fields)}
    return faults(message_create_params.MessageCreateParamsNonStreaming, request)


def _plain(fields: dict[str, Any] | PreparedTools) -> dict[str, Any]:
    return fields.fields if isinstance(fields, PreparedTools) else fields
