"""Bounds on schemas of strangers: a document is measured before anything walks it.

A document of a few hundred bytes can describe a tree of billions of places, by references that double at each level;
whoever walked it would never come back. So its places are counted as if references were followed, each once.

>>> doubled = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)} | {"l40": {}}
>>> schema_excess({"$defs": doubled, "$ref": "#/$defs/l0"}, McpLimits())
'it has more than 20000 places when its references are followed'
"""

from __future__ import annotations

from typing import Any, Final, final
from urllib.parse import unquote

import msgspec

from fxai.mcp.limit import McpLimits
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import pointer_tokens

__all__ = ["schema_excess"]

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES: Final = ("$anchor", "$dynamicAnchor", "$id", "id")


def schema_excess(document: dict[str, Any], limits: McpLimits) -> str | None:
    """What makes a schema larger than the limits allow; None where nothing does."""
    try:
        size = len(msgspec.json.encode(document))
    except (ValueError, TypeError, RecursionError):
        return "it cannot be written as JSON"
    if size > limits.schema_bytes:
        return f"it has {size} bytes, more than {limits.schema_bytes}"
    if _deeper_than(document, limits.schema_depth):
        return f"it is more than {limits.schema_depth} levels deep"
    try:
        places = _Count(document, limits.schema_places).of(document)
    except RecursionError:
        return "its references lead on and on"
    if places > limits.schema_places:
        return f"it has more than {limits.schema_places} places when its references are followed"
    return None


def _deeper_than(document: Any, depth: int) -> bool:
    level: list[Any] = [document]
    for _ in range(depth):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    inner = list(value.values()) if is_object(value) else value if is_array(value) else []
    return [one for one in inner if isinstance(one, (dict, list))]


@final
class _Count:
    """The places of a document with its references followed, counted up to a limit."""

    def __init__(self, document: dict[str, Any], limit: int) -> None:
        self._document = document
        self._limit = limit
        self._known: dict[int, int] = {}
        self._names: dict[str, Any] = {}
        self._name(document)

    def _name(self, document: Any) -> None:
        pending: list[Any] = [document]
        while pending:
            value = pending.pop()
            if is_object(value):
                for key in _NAMES:
                    if isinstance(value.get(key), str):
                        self._names.setdefault(value[key].strip("#"), value)
            pending.extend(_inside(value))

    def of(self, value: Any) -> int:
        """How many places a value has; a place inside itself counts once."""
        if not (is_object(value) or is_array(value)):
            return 1
        known = self._known.get(id(value))
        if known is not None:
            return known
        self._known[id(value)] = 1
        total = 1
        for inner in [*_inside(value), *self._targets(value)]:
            total += self.of(inner)
            if total > self._limit:
                break
        self._known[id(value)] = total
        return total

    def _targets(self, value: Any) -> list[Any]:
        if not is_object(value):
            return []
        named = [value[key] for key in _REFERENCES if isinstance(value.get(key), str)]
        return [target for name in named if (target := self._target(name)) is not None]

    def _target(self, reference: str) -> Any:
        resource, _, fragment = reference.partition("#")
        found = self._names.get(resource) if resource else self._document
        if not fragment.startswith("/"):
            return self._names.get(fragment) if fragment else found
        for token in pointer_tokens(unquote(fragment)):
            if is_object(found) and token in found:
                found = found[token]
            elif is_array(found) and token.isdigit() and int(token) < len(found):
                found = found[int(token)]
            else:
                return None
        return found
