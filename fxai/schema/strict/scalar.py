"""Strings, numbers and listed values in strict form: what the provider carries, and words for the rest.

>>> from fxai.schema.strict.rules import ANTHROPIC
>>> short = Site("", {"type": "string", "maxLength": 9})
>>> lost = []
>>> string_node([short], ANTHROPIC, lambda site, keyword, reason: lost.append(keyword)).checks, lost
(('a value with a length of at most 9',), ['maxLength'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from fxai.schema.data import identity, is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict.descriptions import length_words, number_words, told_keyword
from fxai.schema.strict.location import Site, StrictError
from fxai.schema.strict.node import Node
from fxai.schema.strict.rules import StrictRules, is_plain_pattern

__all__ = ["SCALAR", "Weaken", "listed_types", "number_node", "string_node", "tightest", "value_nodes", "values_of"]

Weaken: TypeAlias = Callable[[Site, str, str], None]
"""Notes that the keyword of a site is not carried, and why."""

SCALAR: Final = (
    *("minLength", "maxLength", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
_CONTENT: Final = ("contentEncoding", "contentMediaType", "contentSchema")


def tightest(sites: Sequence[Site], keyword: str, choose: Callable[..., Any]) -> Any:
    """The strictest of what several schemas say by one keyword of numbers; None where none says any."""
    said = [site.get(keyword) for site in sites if keyword in site and not isinstance(site.get(keyword), bool)]
    return choose(said) if said else None


def string_node(sites: Sequence[Site], rules: StrictRules, weaken: Weaken) -> Node:
    """A string: pattern and format where the provider knows them, all else in words."""
    schema: dict[str, Any] = {"type": "string"}
    checks = list(length_words(tightest(sites, "minLength", max), tightest(sites, "maxLength", min)))
    for site in sites:
        for keyword in ("minLength", "maxLength"):
            if keyword in site:
                weaken(site, keyword, f"{rules.name} has no such bound")
        for keyword in _CONTENT:
            if keyword in site:
                weaken(site, keyword, f"{rules.name} has no such keyword")
                checks.append(told_keyword(keyword, site.get(keyword)))
        _keep(schema, site, "format", site.get("format") in rules.formats, weaken, checks)
        _keep(schema, site, "pattern", is_plain_pattern(str(site.get("pattern"))), weaken, checks)
    return Node(schema, checks=checks)


def _keep(schema: dict[str, Any], site: Site, keyword: str, known: bool, weaken: Weaken, checks: list[str]) -> None:
    if keyword not in site or schema.get(keyword) == site.get(keyword):
        return
    said = site.get(keyword)
    if known and keyword not in schema:
        schema[keyword] = said
        return
    weaken(site, keyword, f"{said!r} is not one that the provider takes" if not known else "only one can be sent")
    checks.append(f"a value with a format of {said}" if keyword == "format" else f"a value matching the pattern {said}")


def number_node(kind: str, sites: Sequence[Site], rules: StrictRules, weaken: Weaken) -> Node:
    """A number or an integer: its bounds in words, and as keywords where the provider has them."""
    low, high = tightest(sites, "minimum", max), tightest(sites, "maximum", min)
    above, below = tightest(sites, "exclusiveMinimum", max), tightest(sites, "exclusiveMaximum", min)
    steps = list(dict.fromkeys(site.get("multipleOf") for site in sites if "multipleOf" in site))
    for site in sites:  # draft 4 says by a boolean that a bound is left out
        if site.get("exclusiveMinimum") is True:
            above, low = site.get("minimum"), (low if low != site.get("minimum") else None)
        if site.get("exclusiveMaximum") is True:
            below, high = site.get("maximum"), (high if high != site.get("maximum") else None)
    bounds = {"minimum": low, "exclusiveMinimum": above, "maximum": high, "exclusiveMaximum": below}
    kept = {keyword: bound for keyword, bound in bounds.items() if bound is not None and keyword in rules.keywords}
    if steps and "multipleOf" in rules.keywords:
        kept["multipleOf"] = steps[0]
    for site in sites:
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
            if keyword in site and keyword not in rules.keywords:
                weaken(site, keyword, f"{rules.name} has no such bound")
        if site.get("multipleOf") in steps[1:]:
            weaken(site, "multipleOf", "only one can be sent")
    return Node({"type": kind, **kept}, checks=list(number_words(low, above, high, below, steps)))


def values_of(sites: Sequence[Site]) -> list[Any] | None:
    """The values that schemas list by `const` and `enum`, those that all of them have; None where none lists any.

    Raises:
        StrictError: an object or an array is listed.
    """
    values: list[Any] | None = None
    for site in sites:
        for keyword in ("const", "enum"):
            if keyword in site:
                listed = [site.get("const")] if keyword == "const" else site.get("enum")
                if any(is_object(value) or is_array(value) for value in listed):
                    raise StrictError(site.pointer, keyword, "lists objects or arrays: say what they hold instead")
                known = set(map(identity, listed))
                values = list(listed) if values is None else [v for v in values if identity(v) in known]
    if values is None:
        return None
    facets = [{k: site.get(k) for k in SCALAR if k in site and not isinstance(site.get(k), bool)} for site in sites]
    holding = [JsonSchema.trusted(facet) for facet in facets if facet]
    return [value for value in values if not any(document.validate(value) for document in holding)]


def value_nodes(values: Sequence[Any], types: Sequence[str] | None) -> list[Node]:
    """The listed values as schemas, one for each type, in the order of their first values."""
    grouped: dict[str, list[Any]] = {}
    values = [value for value in values if types is None or _is_one(value, types)]
    for value in values:
        grouped.setdefault(_type(value), []).append(value)
    if "integer" in grouped and "number" in grouped:
        grouped["number"] = [value for value in values if _type(value) in ("integer", "number")]
        del grouped["integer"]
    return [Node(_listing(kind, listed)) for kind, listed in grouped.items()]


def _listing(kind: str, values: list[Any]) -> dict[str, Any]:
    if kind == "null" or (kind == "boolean" and len(values) == 2):
        return {"type": kind}
    return {"type": kind, "enum": values}


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "null" if value is None else "integer" if isinstance(value, int) else "number"


def _is_one(value: Any, types: Sequence[str]) -> bool:
    kind = _type(value)
    whole = kind == "number" and float(value).is_integer()
    return kind in types or (kind == "integer" and "number" in types) or (whole and "integer" in types)


def listed_types(sites: Sequence[Site]) -> list[str] | None:
    """The types that all schemas allow, in the order of the first that says any; None where none does."""
    types: list[str] | None = None
    for site in sites:
        if "type" in site:
            said = site.get("type")
            told: list[str] = said if is_array(said) else [said]
            types = list(told) if types is None else _common(types, told)
    if types is None:
        return None
    return [t for t in types if not (t == "integer" and "number" in types)]


def _common(left: Sequence[str], right: Sequence[str]) -> list[str]:
    kept = [t for t in left if t in right or (t == "integer" and "number" in right)]
    return kept + [t for t in right if t == "integer" and "number" in left and t not in kept]
