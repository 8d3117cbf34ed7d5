"""What a tool's result is for the model: a text, or texts and files.

A text is sent as it is, anything else as JSON. A failure has no mark of its own on these wires, so it is wrapped.

>>> result_text(ToolResultPart("c", "add", {"sum": 5})), result_text(ToolResultPart("c", "add", "no", is_failure=True))
('{"sum":5}', '{"error":"no"}')
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from fxai.messages.content import FilePart, TextPart, ToolResultPart
from fxai.schema.data import is_array, is_object

__all__ = ["contents_of", "result_text"]

_DENIED: Final = "Tool call execution denied."


def result_text(part: ToolResultPart) -> str:
    """The result as a text. A denial is told by its reason alone."""
    result = part.result
    if is_object(result) and result.get("type") == "execution-denied":
        reason = result.get("reason")
        return reason if isinstance(reason, str) and reason else _DENIED
    shown = {"error": result} if part.is_failure else result
    return shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()


def contents_of(part: ToolResultPart, *kinds: Literal["text", "file"]) -> list[TextPart | FilePart] | None:
    """The texts and files that the result is, in the JSON form of a message's content; None if it is anything else.

    Args:
        part: the result.
        kinds: only a list that holds one of these counts.
    """
    result = part.result
    if part.is_failure or not is_array(result) or not any(_kind(one) in kinds for one in result):
        return None
    try:
        return msgspec.convert(result, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None


def _kind(value: Any) -> Any:
    return value.get("type") if is_object(value) else None
