"""JSON Schemas and values for the validators. This module needs only the standard library."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["WORKS"]

_FILES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "pattern": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "recursive": {"type": "boolean"},
        "sort": {"enum": ["name", "size", "date"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path", "limit"],
    "additionalProperties": False,
}
_GOOD: Final = {"path": "/a", "pattern": "x", "limit": 10, "recursive": True, "sort": "name", "tags": ["a", "b"]}
_KINDS: Final[dict[str, object]] = {"string": "text", "integer": 7, "number": 0.5, "boolean": True}
_FIELDS: Final = {f"{kind}{number}": kind for kind in _KINDS for number in range(5)}
_ITEM: Final = {
    "type": "object",
    "properties": {name: {"type": kind} for name, kind in _FIELDS.items()},
    "required": [*_FIELDS],
}
_ITEMS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": _ITEM}},
    "required": ["items"],
}

WORKS: Final[dict[str, tuple[dict[str, Any], object]]] = {
    "valid": (_FILES, _GOOD),
    "one fault": (_FILES, {**_GOOD, "limit": "ten"}),
    "six faults": (
        _FILES,
        {"path": 3, "pattern": 4, "limit": "ten", "recursive": "yes", "sort": "color", "tags": ["a", 7]},
    ),
    "100 objects": (_ITEMS, {"items": [{name: _KINDS[kind] for name, kind in _FIELDS.items()} for _ in range(100)]}),
}
