"""The members of a value that a schema evaluates. Use this module for `unevaluatedProperties` and `unevaluatedItems`.

A schema evaluates what its own keywords describe, and what the schemas in place evaluate that accept the value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from fxai.schema.data import is_array

if TYPE_CHECKING:
    from fxai.schema.constraint import Work
    from fxai.schema.engine import Part

_LIST: Final = 8  # members that cost as much as a step


def evaluated_names(part: Part, value: dict[str, Any], work: Work, *, beside: bool = False) -> Collection[str]:
    """Return the names of the properties of an object that a schema evaluates.

    Args:
        part: The schema.
        value: The object.
        work: The decision under way.
        beside: True if the `unevaluatedProperties` of the schema itself does not count. Default: False.
    """
    schema = part.schema
    if isinstance(schema, bool):
        return ()
    work.take(1 + (len(value) + len(schema)) // _LIST)
    if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not beside):
        return value.keys()
    names = {name for name in schema.get("properties", ()) if name in value}
    for pattern in schema.get("patternProperties", ()):
        names.update(name for name in value if work.matcher.matches(pattern, name))
    for inner in _in_place(part, value, work):
        names.update(evaluated_names(inner, value, work))
    return names


def evaluated_items(part: Part, value: list[Any], work: Work, *, beside: bool = False) -> Collection[int]:
    """Return the indices of the items of an array that a schema evaluates. The arguments are as `evaluated_names`."""
    schema = part.schema
    if isinstance(schema, bool):
        return ()
    work.take(1 + (len(value) + len(schema)) // _LIST)
    items = schema.get("items")
    first = (
        schema.get("prefixItems", ()) if "prefixItems" in part.dialect.keywords else items if is_array(items) else ()
    )
    everything = range(len(value))
    has_rest = "additionalItems" in schema if is_array(items) else items is not None
    if has_rest or ("unevaluatedItems" in schema and not beside):
        return everything
    places = set(range(len(first)))
    if "contains" in schema:
        takes = part.under(schema["contains"]).takes
        places.update(place for place in everything if place not in places and takes(value[place], work))
    for inner in _in_place(part, value, work):
        places.update(evaluated_items(inner, value, work))
    return places


def _in_place(part: Part, value: Any, work: Work) -> Iterator[Part]:
    """Iterate over the schemas that hold for the same value and accept it."""
    work.resources.append(part.resource)
    yield from part.targets(work)
    schema = part.schema
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value:
            yield part.under(inner)
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (one for inner in schema.get(keyword, ()) if (one := part.under(inner)).takes(value, work))
    if "if" in schema:
        condition = part.under(schema["if"])
        holds = condition.takes(value, work)
        if holds:
            yield condition
        branch = "then" if holds else "else"
        if branch in schema:
            yield part.under(schema[branch])
    work.resources.pop()
