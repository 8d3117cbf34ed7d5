"""A conversation as a person reads it.

>>> from fxai.messages.message import UserMessage
>>> print(transcript([UserMessage.make("Hello")]))
user: Hello
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fxai.messages.content import Content, FileUrl
from fxai.messages.message import Message

__all__ = ["transcript"]


def transcript(messages: Iterable[Message]) -> str:
    """The messages as text, each part on lines of its own behind its role; for reading, not for reading back."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    if message.role == "system":
        return [f"system: {message.content}"]
    return [f"{message.role}: {_line(part)}" for part in message.content]


def _line(part: Content) -> str:
    match part.type:
        case "text":
            return part.text
        case "reasoning":
            return f"[reasoning] {part.text}"
        case "file":
            data = part.data
            return f"[{part.media_type}] {data.url if isinstance(data, FileUrl) else f'{len(data)} bytes'}"
        case "tool-call":
            given = _plain(part.params) if part.params_text is None else part.params_text
            return f"[call {part.id}] {part.name} {given}"
        case "tool-result":
            return f"[{'failure' if part.is_failure else 'result'} {part.id}] {part.name} {_plain(part.result)}"
        case "tool-approval-request":
            return f"[approval {part.approval_id}] asked for call {part.tool_call_id}"
        case "tool-approval-response":
            reason = f": {part.reason}" if part.reason else ""
            answer = "approved" if part.approved else part.unanswered or "denied"
            return f"[approval {part.approval_id}] {answer}{reason}"


def _plain(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=repr)
