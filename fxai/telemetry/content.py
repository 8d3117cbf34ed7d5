"""Content of prompts and answers in the form of the conventions. The tracer records it only if a program enables it.

>>> from fxai.messages.prompt import Prompt
>>> input_messages(Prompt.make("Hello"))
[{'role': 'user', 'parts': [{'type': 'text', 'content': 'Hello'}]}]
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from traceback import extract_tb
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.effects.cause import Cause
from fxai.effects.tracing import Operation
from fxai.messages.accumulate import gather
from fxai.messages.message import FileUrl
from fxai.messages.prompt import Prompt
from fxai.models.model_request import ModelCall
from fxai.schema.codec import Schema
from fxai.telemetry.convention import (
    ARGUMENTS,
    EXCEPTION_MESSAGE,
    INPUT_MESSAGES,
    INSTRUCTIONS,
    OUTPUT_MESSAGES,
    RESULT,
    TOOL_DEFINITIONS,
    TOOL_NAME,
    AgentRun,
    finish_reason,
)
from fxai.tools.call import Outcome
from fxai.tools.handler import ToolExecution
from fxai.tools.tool import Tool

Where: TypeAlias = Literal["off", "span", "event"]
"""The destination of content. `"event"` uses separate events, which a collector can store in another place."""

Redact: TypeAlias = Callable[[str, Any], Any]
"""Receives the name of an attribute, such as `gen_ai.input.messages`, and a copy of its content as JSON values. It
returns the content to record, or None to omit it. If it raises an exception, fxai records nothing for the attribute."""

_LOG: Final = logging.getLogger("fxai.telemetry")


@final
class Content(msgspec.Struct, frozen=True):
    """The destination of content, and the function that redacts it."""

    where: Where = "off"
    redact: Redact | None = None

    def before(self, operation: Operation) -> dict[str, Any]:
        """Return the redacted input of an operation, by the names of attributes."""
        if isinstance(operation, ModelCall):
            prompt, tools = operation.request.prompt, operation.request.tools
            found = {
                INSTRUCTIONS: [_text(message.content) for message in prompt if message.role == "system"],
                INPUT_MESSAGES: input_messages(prompt),
                TOOL_DEFINITIONS: [_definition(tool) for tool in tools],
            }
            return self._clean(found)
        if isinstance(operation, AgentRun):
            return self._clean({INPUT_MESSAGES: input_messages(operation.prompt)})
        if isinstance(operation, ToolExecution):
            tool, given = operation.tool, operation.given
            if tool is None:
                return self._clean({TOOL_NAME: operation.name, ARGUMENTS: given})
            parameters = tool.parameters
            if operation.is_typed and isinstance(parameters, Schema):
                return self._clean({ARGUMENTS: parameters.encode_unsafe(given)})
            return self._clean({ARGUMENTS: given})
        return {}

    def after(self, operation: Operation, value: Any) -> dict[str, Any]:
        """Return the redacted output of an operation, by the names of attributes."""
        if isinstance(operation, ModelCall):
            return self._clean({OUTPUT_MESSAGES: output_messages(gather(value))})
        if isinstance(operation, AgentRun) and isinstance(value, Answer) and value.steps:
            return self._clean({OUTPUT_MESSAGES: output_messages(value.response.content)})
        if isinstance(operation, ToolExecution):
            if isinstance(value, Outcome):
                return self._clean({RESULT: value.encoded_result})
            tool = operation.tool
            return {} if tool is None else self._clean({RESULT: tool.success.encode_unsafe(value)})
        return {}

    def message(self, cause: Cause[Any]) -> str | None:
        """Return the message of an error, which can repeat content, or None if content is off."""
        if self.where == "off":
            return None
        cleaned = self._clean({EXCEPTION_MESSAGE: str(cause.squash())}).get(EXCEPTION_MESSAGE)
        return None if cleaned is None else as_text(cleaned)

    def _clean(self, found: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in found.items():
            if value is None or value == []:
                continue
            try:
                # a copy, so that `redact` can change it without changing the history
                own = msgspec.json.decode(msgspec.json.encode(value, enc_hook=repr))
                kept[name] = own if self.redact is None else self.redact(name, own)
            except Exception as error:
                _LOG.error("`redact` failed, and %s is not recorded: %s", name, location_of(error))
        return {name: value for name, value in kept.items() if value is not None}


def location_of(error: BaseException) -> str:
    """Return the class and the location of an error, without its message, because the message can repeat content.

    >>> location_of(ValueError("4711"))
    'ValueError'
    """
    steps = extract_tb(error.__traceback__)
    return type(error).__qualname__ + (f" in {steps[-1].filename}, line {steps[-1].lineno}" if steps else "")


def as_text(value: Any) -> str:
    """Return content as a string, because attributes of spans cannot contain objects."""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


# -- messages


def input_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """Return the messages of a prompt without its instructions, in the form of the conventions."""
    return [
        {"role": message.role, "parts": [_part(part) for part in message.content]}
        for message in prompt
        if message.role != "system"
    ]


def output_messages(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the message of a model's answer in the form of the conventions."""
    shown: list[dict[str, Any]] = []
    reason: str = "unknown"
    for part in parts:
        if part.type == "finish":
            reason = finish_reason(part.reason)
        elif part.type in _SHOWN or (part.type == "tool-result" and part.provider_executed):
            shown.append(_part(part))
    return [{"role": "assistant", "parts": shown, "finish_reason": reason}]


_SHOWN: Final = frozenset({"text", "reasoning", "tool-call", "file"})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _part(part: Any) -> dict[str, Any]:
    match part.type:
        case "text":
            return _text(part.text)
        case "reasoning":
            return {"type": "reasoning", "content": part.text}
        case "tool-call" if part.provider_executed:
            called = {"type": part.name, "arguments": part.params}
            return {"type": "server_tool_call", "id": part.id, "name": part.name, "server_tool_call": called}
        case "tool-call":
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.params}
        case "tool-result":
            encoded = getattr(part, "encoded_result", part.result)
            if getattr(part, "provider_executed", False):
                given = {"type": part.name, "result": encoded}
                return {"type": "server_tool_call_response", "id": part.id, "server_tool_call_response": given}
            return {"type": "tool_call_response", "id": part.id, "response": encoded}
        case "file" if isinstance(part.data, FileUrl):
            return {"type": "uri", **_media(part.media_type), "uri": part.data.url}
        case "file":
            return {"type": "blob", **_media(part.media_type), "content": b64encode(part.data).decode()}
        case other:
            return {"type": "generic", "generic_type": other}


def _media(media_type: str) -> dict[str, str]:
    modality = media_type.partition("/")[0]
    return {"mime_type": media_type, "modality": modality if modality in _MODALITIES else "document"}


_MODALITIES: Final = frozenset({"image", "audio", "video"})


# -- tools


def _definition(tool: Tool[Any, Any, Any]) -> dict[str, Any]:
    if Tool.is_provider_defined(tool):
        return {"type": "extension", "name": tool.name, "description": tool.description}
    schema = tool.json_schema()
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}
