"""Schemas that no value fits: bounds that cross, lengths that a pattern cannot have, what is required and refused.

A contradiction that is found is certain, for values of the type that the keyword is about; not every contradiction is
found.

>>> [said for _, said in contradictions({"type": "integer", "minimum": 5, "maximum": 3})]
['minimum 5 is above maximum 3']
>>> [said for _, said in contradictions({"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 5})]
["'^[A-Z]{3}$' matches at most 3 characters, and minLength is 5"]

The shortest and the longest text that a pattern matches, where they are known:

>>> width("^[A-Z]{2,3}-x?$"), width("ab"), width("^(?=a)b$")
((3, 5), (2, None), (0, None))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from fxai.schema.data import is_array, is_object
from fxai.schema.pattern import Choice, Node, Other, PatternError, Series, longest, parse, shortest

_COUNTED: Final = ("Length", "Items", "Properties", "Contains")


def contradictions(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each reason why no value fits: the keyword and the reason in words."""
    for reason in (
        _count_bounds,
        _number_bounds,
        _number_steps,
        _property_bounds,
        _item_bounds,
        _type_conflict,
        _pattern_length,
    ):
        yield from reason(schema)


def _number(schema: dict[str, Any], keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _count_bounds(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for least, most in ((f"min{noun}", f"max{noun}") for noun in _COUNTED):
        low, high = _number(schema, least), _number(schema, most)
        if low is not None and high is not None and low > high:
            yield least, f"{least} {low} is above {most} {high}"


def _limits(schema: dict[str, Any]) -> Iterator[tuple[str, str, float, float, bool, bool]]:
    """Each pair of a lower and an upper bound: their names, their values, and whether each excludes itself."""
    for least in ("minimum", "exclusiveMinimum"):
        for most in ("maximum", "exclusiveMaximum"):
            low, high = _number(schema, least), _number(schema, most)
            if low is not None and high is not None:
                no_low = least[0] == "e" or schema.get("exclusiveMinimum") is True
                no_high = most[0] == "e" or schema.get("exclusiveMaximum") is True
                yield least, most, low, high, no_low, no_high


def _number_bounds(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for least, most, low, high, no_low, no_high in _limits(schema):
        if low > high:
            yield least, f"{least} {low} is above {most} {high}"
        elif low == high and (no_low or no_high):
            yield least, f"nothing lies between {least} {low} and {most} {high}"


def _number_steps(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    step = _step(schema)
    if step is None:
        return
    for least, most, low, high, no_low, no_high in _limits(schema):
        if low > high or (low == high and (no_low or no_high)):
            continue
        start, end = _exact(low), _exact(high)
        first = math.ceil(start / step) * step
        first += step if first == start and no_low else 0
        if first > end or (first == end and no_high):
            what = "integer" if step == 1 else f"multiple of {step if step.denominator == 1 else float(step)}"
            yield least, f"no {what} lies between {least} {low} and {most} {high}"


def _exact(number: float) -> Fraction:
    """The number in decimals, as it is written."""
    return Fraction(repr(number))


def _step(schema: dict[str, Any]) -> Fraction | None:
    """The step between the numbers that are valid; None where any number is."""
    given = _number(schema, "multipleOf")
    step = _exact(given) if given is not None and given > 0 else None
    if schema.get("type") != "integer":
        return step
    return Fraction(1) if step is None else Fraction(step.numerator)  # the integers among the multiples


def _property_bounds(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    properties: dict[str, Any] = schema["properties"] if is_object(schema.get("properties")) else {}
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    most = _number(schema, "maxProperties")
    if most is not None and len(required) > most:
        yield "maxProperties", f"{len(required)} properties are required, and maxProperties is {most}"
    for name in required:
        if isinstance(name, str) and properties.get(name) is False:
            yield "required", f"{name!r} is required, and its schema is false"
    least = _number(schema, "minProperties")
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if closed and least is not None and least > len(properties):
        yield "minProperties", f"there are {len(properties)} properties and no others, and minProperties is {least}"


def _item_bounds(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if schema.get("enum") == []:
        yield "enum", "the enum is empty"
    if schema.get("not") in (True, {}):
        yield "not", "not excludes everything"
    items, least = schema.get("items"), _number(schema, "minItems")
    if least is None or not is_object(items) or schema.get("uniqueItems") is not True:
        return
    if is_array(values := items.get("enum")) and "prefixItems" not in schema and len(values) < least:
        yield "minItems", f"the items differ, there are {len(values)} of them, and minItems is {least}"


def _type_conflict(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The types of the schema and of its allOf have none in common."""
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
            yield "allOf", "its parts and what stands beside them have no type in common"
            return


def _pattern_length(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    pattern, low, high = schema.get("pattern"), _number(schema, "minLength"), _number(schema, "maxLength")
    if not isinstance(pattern, str) or (low is None and high is None):
        return

    least, most = width(pattern)
    if high is not None and least > high:
        yield "pattern", f"{pattern!r} matches at least {least} characters, and maxLength is {high}"
    if low is not None and most is not None and most < low:
        yield "pattern", f"{pattern!r} matches at most {most} characters, and minLength is {low}"


def width(pattern: str) -> tuple[int, int | None]:
    """The least and the greatest length of a match, None for no limit; (0, None) where it cannot be analysed."""
    try:
        whole = parse(pattern)
        inner = Choice(tuple(map(_without_anchors, whole.branches if isinstance(whole, Choice) else (whole,))))
        return shortest(inner), longest(inner) if _is_anchored(pattern) else None
    except (PatternError, RecursionError):
        return 0, None


def _without_anchors(branch: Node) -> Node:
    parts = branch.parts if isinstance(branch, Series) else (branch,)
    parts = parts[1:] if parts[:1] == (Other("^"),) else parts
    return Series(parts[:-1] if parts[-1:] == (Other("$"),) else parts)


def _is_anchored(pattern: str) -> bool:
    return pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$") and "|" not in pattern
