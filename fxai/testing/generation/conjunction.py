"""Conjunctions are the schemas that apply at one location of generated data. The generators use this module.

>>> from fxai.schema.engine import Engine
>>> schema = {"type": "integer", "allOf": [{"minimum": 3}, {"type": ["number", "null"]}]}
>>> found = gather([Engine(schema).root], lambda options: options[0])
>>> len(found.parts), found.kinds()
(3, ['integer'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import Work
from fxai.schema.data import is_array, is_object
from fxai.schema.part import Part

KINDS: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_SAYS_OF: Final = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "contentEncoding"), "string"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "propertyNames"),
        "object",
    ),
}
_CHECKED: Final = frozenset(
    (
        *("oneOf", "not", "if", "else", "contains", "unevaluatedItems", "unevaluatedProperties", "patternProperties"),
        *("propertyNames", "dependentSchemas", "dependentRequired", "dependencies", "maxProperties", "pattern"),
        "multipleOf",
    )
)
_DEEPEST: Final = 12


class DeadEndError(Exception):
    """An error if no value matches, or if the generator found none in time."""


def keyword_of(part: Part, keyword: str, default: Any = None) -> Any:
    """Return the value of a keyword, if the dialect of the schema knows the keyword."""
    known = keyword in part.dialect.keywords
    return part.schema.get(keyword, default) if known else default


@final
class Conjunction(msgspec.Struct, eq=False):
    """The schemas that apply together at one location."""

    roots: list[Part]
    """The original schemas, to validate a finished value."""
    parts: list[Part] = []
    """The original schemas and their inner schemas at the same location, all objects."""
    negated: list[Part] = []
    """The schemas that must reject the value."""

    def all(self, keyword: str) -> Iterator[Any]:
        """Yield the value of a keyword in each schema that has it."""
        for part in self.parts:
            value = keyword_of(part, keyword)
            if value is not None:
                yield value

    def fits(self, value: object) -> bool:
        """Return True if every schema accepts a finished value."""
        return all(root.accepts(value) for root in self.roots)

    def must_be_checked(self) -> bool:
        """Return True if a keyword needs a check, because the construction of values does not ensure it."""
        return bool(self.negated) or any(not _CHECKED.isdisjoint(part.schema) for part in self.parts)

    def kinds(self) -> list[str]:
        """Return the allowed JSON types, the simplest first."""
        kinds: list[str] = [*KINDS]
        for types in self.all("type"):
            listed = types if is_array(types) else [types]
            kinds = [kind for kind in kinds if kind in listed or (kind == "integer" and "number" in listed)]
        for part in self.negated:
            if is_object(part.schema) and list(part.schema) == ["type"]:
                listed = part.schema["type"] if is_array(part.schema["type"]) else [part.schema["type"]]
                kinds = [kind for kind in kinds if kind not in listed and (kind != "integer" or "number" not in listed)]
        return kinds

    def likely(self, kinds: list[str]) -> list[str]:
        """Return the given types for which the schemas have keywords."""
        spoken = {_SAYS_OF[keyword] for part in self.parts for keyword in part.schema if keyword in _SAYS_OF}
        return [kind for kind in kinds if kind in spoken]


Choose: TypeAlias = Callable[[list[Part]], Part]


def gather(roots: list[Part], choose: Choose, *, steps: Work | None = None) -> Conjunction:
    """Return the schemas of one location, with one chosen alternative for each choice.

    Args:
        roots: Validators of the schemas that apply.
        choose: Function that returns one of several alternatives.
        steps: Counter of schemas. Default: None, no limit.

    Raises:
        DeadEndError: If a schema accepts nothing.
        ExhaustedError: If the schemas need more steps than the counter allows.
    """
    found = Conjunction(list(roots))
    pending = list(reversed(roots))
    while pending:
        part = pending.pop()
        if steps is not None:
            steps.take()
        if part.schema is False:
            raise DeadEndError
        if part.schema is True:
            continue
        targets = [*part.targets()]
        pending += targets
        if not (targets and part.dialect.ref_alone):
            found.parts.append(part)
            pending += _inner(part, choose, found)
    return found


def _inner(part: Part, choose: Choose, found: Conjunction) -> Iterator[Part]:
    """Yield the inner schemas of a schema at the same location."""
    for inner in keyword_of(part, "allOf", ()):
        yield part.under(inner)
    for keyword in ("anyOf", "oneOf"):
        if alternatives := keyword_of(part, keyword):
            yield choose([part.under(inner) for inner in alternatives])
    for keyword in ("dependentSchemas", "dependencies"):
        for inner in keyword_of(part, keyword, {}).values():
            if is_object(inner):
                yield choose([part.under({}), part.under(inner)])
    negation = keyword_of(part, "not")
    if negation is not None:
        found.negated.append(part.under(negation))
    condition = keyword_of(part, "if")
    if condition is None:
        return
    then, otherwise = part.under(keyword_of(part, "then", True)), part.under(keyword_of(part, "else", True))
    if then.schema is True and otherwise.schema is True:
        return
    if choose([then, otherwise]) is then:
        yield part.under(condition)
        yield then
    else:
        found.negated.append(part.under(condition))
        yield otherwise


def height(part: Part, known: dict[tuple[int, int], int], level: int = 0) -> int:
    """Return the approximate nesting depth of the smallest value of a schema, with the best alternatives.

    Args:
        part: Validator of the schema.
        known: Known depths by schema and level. The function adds new depths.
        level: Level of the schema below the first schema.
    """
    schema = part.schema
    if isinstance(schema, bool):
        return 0 if schema else 99
    if level >= _DEEPEST:
        return 99
    key = (id(schema), level)
    if key not in known:
        known[key] = max(_heights(part, known, level), default=0)
    return known[key]


def _heights(part: Part, known: dict[tuple[int, int], int], level: int) -> Iterator[int]:
    below = level + 1
    for target in part.targets():
        yield height(target, known, below)
    for inner in keyword_of(part, "allOf", ()):
        yield height(part.under(inner), known, below)
    for keyword in ("anyOf", "oneOf"):
        if alternatives := keyword_of(part, keyword):
            yield min(height(part.under(inner), known, below) for inner in alternatives)
    properties = keyword_of(part, "properties", {})
    for name in keyword_of(part, "required", ()) if is_array(keyword_of(part, "required")) else ():
        yield 1 + height(part.under(properties.get(name, True)), known, below)
    items = keyword_of(part, "items")
    if items is not None and not is_array(items) and keyword_of(part, "minItems", 0):
        yield 1 + height(part.under(items), known, below)
