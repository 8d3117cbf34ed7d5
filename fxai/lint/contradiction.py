"""Contradictions in schemas. Use `contradictions` to find schemas without a valid value.

A contradiction is certain for values of the type that the keyword applies to. The search does not find every
contradiction.

>>> [problem for _, problem in contradictions({"type": "integer", "minimum": 5, "maximum": 3})]
['minimum 5 is greater than maximum 3']
>>> [problem for _, problem in contradictions({"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 5})]
["'^[A-Z]{3}$' matches at most 3 characters, but minLength is 5"]

`width` returns the shortest and the longest length that a pattern matches, if it can find them:

>>> width("^[A-Z]{2,3}-x?$"), width("ab"), width("^(?=a)b$")
((3, 5), (2, None), (0, None))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, Final

from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.pattern import Alternation, Node, Other, PatternError, Series, longest, parse, shortest

_COUNTED: Final = ("Length", "Items", "Properties", "Contains")


def contradictions(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield each reason why no value is valid, as a keyword and a text."""
    for reason in (
        _count_bounds,
        _number_bounds,
        _property_bounds,
        _item_bounds,
        _type_conflict,
        _pattern_length,
    ):
        yield from reason(schema)


def _number(schema: JsonObject, keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _count_bounds(schema: JsonObject) -> Iterator[tuple[str, str]]:
    for least, most in ((f"min{noun}", f"max{noun}") for noun in _COUNTED):
        low, high = _number(schema, least), _number(schema, most)
        if low is not None and high is not None and low > high:
            yield least, f"{least} {low} is greater than {most} {high}"


def _number_bounds(schema: JsonObject) -> Iterator[tuple[str, str]]:
    step = _step(schema)
    for least, most in product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        low, high = _number(schema, least), _number(schema, most)
        if low is None or high is None:
            continue
        no_low = least[0] == "e" or schema.get("exclusiveMinimum") is True
        no_high = most[0] == "e" or schema.get("exclusiveMaximum") is True
        if low > high:
            yield least, f"{least} {low} is greater than {most} {high}"
        elif low == high and (no_low or no_high):
            yield least, f"no number is between {least} {low} and {most} {high}"
        elif step is not None:
            start, end = _exact(low), _exact(high)
            first = math.ceil(start / step) * step
            first += step if first == start and no_low else 0
            if first > end or (first == end and no_high):
                what = "integer" if step == 1 else f"multiple of {step if step.denominator == 1 else float(step)}"
                yield least, f"no {what} is between {least} {low} and {most} {high}"


def _exact(number: float) -> Fraction:
    """Return the exact decimal value of the number as written."""
    return Fraction(repr(number))


def _step(schema: JsonObject) -> Fraction | None:
    """Return the step between valid numbers, or None if any number is valid."""
    given = _number(schema, "multipleOf")
    step = _exact(given) if given is not None and given > 0 else None
    if schema.get("type") != "integer":
        return step
    return Fraction(1) if step is None else Fraction(step.numerator)  # the integers among the multiples


def _property_bounds(schema: JsonObject) -> Iterator[tuple[str, str]]:
    properties: JsonObject = schema["properties"] if is_object(schema.get("properties")) else {}
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    most = _number(schema, "maxProperties")
    if most is not None and len(required) > most:
        yield "maxProperties", f"{len(required)} properties are required, but maxProperties is {most}"
    for name in required:
        if isinstance(name, str) and properties.get(name) is False:
            yield "required", f"{name!r} is required, but its schema is false"
    least = _number(schema, "minProperties")
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if closed and least is not None and least > len(properties):
        yield "minProperties", f"the schema allows only {len(properties)} properties, but minProperties is {least}"


def _item_bounds(schema: JsonObject) -> Iterator[tuple[str, str]]:
    if schema.get("enum") == []:
        yield "enum", "the enum is empty"
    if schema.get("not") in (True, {}):
        yield "not", "not excludes everything"
    items, least = schema.get("items"), _number(schema, "minItems")
    if least is None or not is_object(items) or schema.get("uniqueItems") is not True:
        return
    if is_array(values := items.get("enum")) and "prefixItems" not in schema and len(values) < least:
        yield "minItems", f"the items are unique and have {len(values)} values, but minItems is {least}"


def _type_conflict(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield a reason if the schema and its allOf have no type in common."""
    left: set[str] | None = None
    branches: list[Any] = schema["allOf"] if is_array(schema.get("allOf")) else []
    parts: list[Any] = [schema, *branches]
    for each in parts:
        types = each.get("type") if is_object(each) else None
        if types is None:
            continue
        names = {str(name) for name in (types if is_array(types) else [types])}
        names |= {"integer"} if "number" in names else set[str]()
        left = names if left is None else left & names
        if not left:
            yield "allOf", "the schemas in allOf and the other keywords have no type in common"
            return


def _pattern_length(schema: JsonObject) -> Iterator[tuple[str, str]]:
    pattern, low, high = schema.get("pattern"), _number(schema, "minLength"), _number(schema, "maxLength")
    if not isinstance(pattern, str) or (low is None and high is None):
        return

    least, most = width(pattern)
    if high is not None and least > high:
        yield "pattern", f"{pattern!r} matches at least {least} characters, but maxLength is {high}"
    if low is not None and most is not None and most < low:
        yield "pattern", f"{pattern!r} matches at most {most} characters, but minLength is {low}"


def width(pattern: str) -> tuple[int, int | None]:
    """Return the shortest and the longest match; None means no limit. An unsupported pattern returns (0, None)."""
    try:
        whole = parse(pattern)
        inner = Alternation(
            tuple(map(_without_anchors, whole.branches if isinstance(whole, Alternation) else (whole,)))
        )
        is_anchored = pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$")
        return shortest(inner), longest(inner) if is_anchored and "|" not in pattern else None
    except (PatternError, RecursionError):
        return 0, None


def _without_anchors(branch: Node) -> Node:
    parts = branch.parts if isinstance(branch, Series) else (branch,)
    parts = parts[1:] if parts[:1] == (Other("^"),) else parts
    return Series(parts[:-1] if parts[-1:] == (Other("$"),) else parts)
