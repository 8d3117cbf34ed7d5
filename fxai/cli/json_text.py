r"""JSON as text that a terminal may be given: what could steer it is escaped, the rest stays readable.

>>> print(in_line({"city": "Tromsø", "odd": "\x9b31m\u202e"}))
{"city": "Tromsø", "odd": "\u009b31m\u202e"}
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["in_line", "indented"]


def indented(data: Any) -> str:
    """Plain JSON data as text to be read, over several lines."""
    return _safe(json.dumps(data, indent=2, ensure_ascii=False))


def in_line(data: Any) -> str:
    """Plain JSON data as text in one line."""
    return _safe(json.dumps(data, ensure_ascii=False))


def _safe(text: str) -> str:
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1].replace("\x7f", "\\u007f") for c in text)
