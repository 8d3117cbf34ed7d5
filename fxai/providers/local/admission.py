"""Whether a listed value keeps the rest of its schema: `enum` and `const` beside other keywords.

>>> from fxai.providers.local.form import Reader
>>> reader = Reader({"enum": ["C", "F", 3], "type": "string"})
>>> [admits(reader, reader.root, value) for value in ("C", "K", 3)]
[True, False, False]
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

from fxai.providers.local.form import Form, Place, Reader
from fxai.schema.data import identity, is_same

__all__ = ["admits", "keeps"]


def admits(reader: Reader, place: Place, value: Any) -> bool:
    """Whether ``value`` keeps some alternative of ``place``."""
    return any(keeps(reader, form, value) for form in reader.variants(place))


def keeps(reader: Reader, form: Form, value: Any, *, listed: bool = False) -> bool:
    """Whether ``value`` keeps one alternative; ``listed``: it is one of those that the form lists."""
    reader.steps.take(form.pointer)
    if not listed and form.values is not None and not any(is_same(value, known) for known in form.values):
        return False
    if not _kinds(value) & form.types:
        return False

    match value:
        case str():
            return _keeps_text(reader, form, value)
        case bool() | None:
            return True
        case int() | float():
            return _keeps_number(form, value)
        case list():
            return _keeps_array(reader, form, [*value])
        case Mapping():
            return _keeps_object(reader, form, cast("Mapping[str, Any]", value))
        case _:
            return False


def _kinds(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number"} | ({"integer"} if value.is_integer() else set[str]()))
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _keeps_text(reader: Reader, form: Form, value: str) -> bool:
    if not form.least <= len(value) <= (len(value) if form.most is None else form.most):
        return False
    return all(reader.matches(form.pointer, "pattern", pattern, value) for pattern in form.patterns)


def _keeps_number(form: Form, value: float) -> bool:
    number = Fraction(str(value))
    low = form.low is None or number > Fraction(str(form.low[0])) or (not form.low[1] and value == form.low[0])
    high = form.high is None or number < Fraction(str(form.high[0])) or (not form.high[1] and value == form.high[0])
    return low and high and all((number / Fraction(str(step))).denominator == 1 for step in form.steps)


def _keeps_array(reader: Reader, form: Form, value: list[Any]) -> bool:
    if not form.least_items <= len(value) <= (len(value) if form.most_items is None else form.most_items):
        return False
    if form.unique and len(set(map(identity, value))) < len(value):
        return False
    return all(admits(reader, reader.item(form, index), item) for index, item in enumerate(value))


def _keeps_object(reader: Reader, form: Form, value: Mapping[str, Any]) -> bool:
    if not form.least_members <= len(value) <= (len(value) if form.most_members is None else form.most_members):
        return False
    if any(name not in value for name in form.required):
        return False
    names = all(admits(reader, reader.key(form), name) for name in value)
    return names and all(admits(reader, reader.member(form, name), item) for name, item in value.items())
