"""Unions in strict form. Use this module to find the alternative of a value and ambiguous alternatives.

Two alternatives are ambiguous if a strict value is an instance of both, and a conversion applies to one of them. For
example, `{}` can be an empty object and an empty tuple.

>>> from fxai.schema.strict.node import object_node, tuple_node
>>> Overlaps({}).may(object_node({}, None).schema, tuple_node([], None).schema)
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, final

from fxai.schema.budget import MAX_LOCATIONS, Work, descend
from fxai.schema.data import JsonObject, identity
from fxai.schema.fault import kind_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import holds_nested
from fxai.schema.strict.node import DEFS, Node, NoFormError, lead, map_text


@final
class Fit:
    """A check whether a strict value is an instance of a branch. It compares the type first, and then the schema."""

    def __init__(self, schema: JsonObject, defs: Mapping[str, Node]) -> None:
        self._schema = schema
        self._defs = defs

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(self._kinds_of(self._schema, set()))

    @cached_property
    def _whole(self) -> JsonSchema:
        defs = {name: node.schema for name, node in self._defs.items()}
        return JsonSchema.trust({**self._schema, "$defs": defs})

    def may(self, value: object) -> bool:
        """Return True if the branch accepts the type of a value."""
        return kind_in(value) in self._kinds

    def _kinds_of(self, schema: JsonObject, seen: set[str]) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(DEFS)
            if name not in seen:
                yield from self._kinds_of(self._defs[name].schema, {*seen, name})
        for branch in schema.get("anyOf", ()):
            yield from self._kinds_of(branch, seen)
        if "type" in schema:
            yield from _NUMBERS if schema["type"] in _NUMBERS else (schema["type"],)

    def __call__(self, value: object) -> bool:
        """Return True if a value is an instance of the branch."""
        return self.may(value) and not self._whole.validate(value)

    def once_read(self, value: object) -> bool:
        """Return True if a value is an instance of the branch after fxai parses the JSON text in it."""
        from fxai.schema.nested_text import read_texts  # only an invalid value needs this import

        return not self._whole.validate(read_texts(self._whole, value)[0])


def any_node(branches: Sequence[Node], defs: Mapping[str, Node]) -> Node:
    """Create the node of a union. The first branch whose schema accepts a value converts the value."""
    schema = {"anyOf": [branch.schema for branch in branches]}
    if all(branch.back is None for branch in branches):
        return Node(schema)
    choices = [(branch, Fit(branch.schema, defs)) for branch in branches]

    def back(value: object) -> object:
        possible = [choice for choice in choices if choice[1].may(value)]
        for branch, fit in possible:
            if len(possible) == 1 or fit(value):
                return lead(branch.back, value)
        if not possible:
            return map_text(value, back)
        # The branch that accepts the value after fxai parses its JSON text, if only one branch does.
        fitting = [branch for branch, fit in possible if fit.once_read(value)] if holds_nested(value) else []
        return lead(fitting[0].back, value) if len(fitting) == 1 else value

    def forth(value: object) -> object:
        for branch, fit in choices:
            try:
                candidate = lead(branch.forth, value)
            except NoFormError:
                continue
            if fit(candidate):
                return candidate
        raise NoFormError("the value matches none of the alternatives")

    return Node(schema, back, forth, rewrites=any(branch.rewrites for branch in branches))


_NUMBERS: Final = frozenset(("integer", "number"))
_MOST_PAIRS: Final = 100 * MAX_LOCATIONS


@final
class Overlaps:
    """A search for strict schemas with a common instance.

    Args:
        defs: The nodes of all definitions.
    """

    def __init__(self, defs: Mapping[str, Node]) -> None:
        self._defs = defs
        self._work = Work(_MOST_PAIRS)
        self._common: dict[tuple[int, int], tuple[bool, Any, Any]] = {}

    def may(self, left: JsonObject, right: JsonObject) -> bool:
        """Return True if two strict schemas can have a common instance. In doubt, return True.

        Raises:
            ExhaustedError: If the schemas need too many comparisons.
        """
        key = (id(left), id(right))
        if key not in self._common:
            self._work.take()
            self._common[key] = (True, left, right)
            self._common[key] = (descend(lambda: self._in_common(left, right)), left, right)
        return self._common[key][0]

    def _in_common(self, left: JsonObject, right: JsonObject) -> bool:
        for one, other in ((left, right), (right, left)):
            if "$ref" in one:
                return self.may(self._defs[one["$ref"].removeprefix(DEFS)].schema, other)
            if "anyOf" in one:
                return any(self.may(branch, other) for branch in one["anyOf"])
        if left["type"] != right["type"] and not _NUMBERS.issuperset((left["type"], right["type"])):
            return False
        if left["type"] == "object":
            mine, other = left.get("properties", {}), right.get("properties", {})
            needed = {*left.get("required", ()), *right.get("required", ())}
            both = mine.keys() & other.keys()
            return needed <= both and all(self.may(mine[name], other[name]) for name in needed)
        if left["type"] == "array":
            may_be_empty = not left.get("minItems") and not right.get("minItems")
            return may_be_empty or self.may(left["items"], right["items"])
        if "enum" in left and "enum" in right:
            return not {identity(v) for v in left["enum"]}.isdisjoint(identity(v) for v in right["enum"])
        return True
