"""A tool's result as a text for the model.

A text is sent as it is, anything else as JSON. A failure has no mark of its own on these wires, so it is wrapped.

>>> result_text(ToolResultPart("c", "add", {"sum": 5})), result_text(ToolResultPart("c", "add", "no", is_failure=True))
('{"sum":5}', '{"error":"no"}')
"""

from __future__ import annotations

from typing import Final

import msgspec

from fxai.messages.content import ToolResultPart
from fxai.schema.data import is_object

__all__ = ["result_text"]

_DENIED: Final = "Tool call execution denied."


def result_text(part: ToolResultPart) -> str:
    """The result as a text. A denial is told by its reason alone."""
    result = part.result
    if is_object(result) and result.get("type") == "execution-denied":
        reason = result.get("reason")
        return reason if isinstance(reason, str) and reason else _DENIED
    shown = {"error": result} if part.is_failure else result
    return shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
