"""Arrays in strict form: lists as they are, tuples as objects with numbered properties.

>>> from fxai.schema.strict.rules import OPENAI
>>> from fxai.schema.strict.transform import Transformer
>>> pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
>>> to = Transformer({"type": "object", "properties": {"at": pair}, "required": ["at"]}, OPENAI)
>>> to.convert().back({"at": {"0": "a", "1": 1}})
{'at': ['a', 1]}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fxai.schema.data import is_array
from fxai.schema.strict.descriptions import length_words, told_keyword
from fxai.schema.strict.location import Place, Places, Site, StrictError
from fxai.schema.strict.node import Node, any_node, array_node, tuple_node
from fxai.schema.strict.scalar import tightest

__all__ = ["array_form"]

_ASIDE: Final = ("uniqueItems", "contains", "minContains", "maxContains")
_IN_PLACE: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains")
_MOST_LENGTHS: Final = 8


def array_form(sites: Sequence[Site], at: str, to: Places) -> Node | None:
    """The array that all schemas describe; None when there can be none."""
    least, most = tightest(sites, "minItems", max) or 0, tightest(sites, "maxItems", min)
    checks: list[str] = []
    for site in sites:
        for keyword in _ASIDE:
            if keyword in site and (keyword, site.get(keyword)) != ("uniqueItems", False):
                to.weaken(site, keyword, f"{to.rules.name} has no such keyword")
                checks.append(told_keyword(keyword, site.get(keyword)))
    sites = [_plain(site, to) for site in sites]
    leading = max((_leading(site) for site in sites), default=0)
    if leading:
        node = _tuple(sites, at, to, leading, least, most)
        return None if node is None else node.checking(checks)
    checks = [*length_words(least, most), *checks]
    node = _list(sites, at, to, least, most)
    return None if node is None else node.checking(checks)


def _list(sites: Sequence[Site], at: str, to: Places, least: int, most: int | None) -> Node | None:
    place = _item(sites, 0)
    if not place and place is not None:
        raise StrictError(at, "items", "an array of anything: say what its items are")
    if place is None or most == 0:
        raise StrictError(at, "items", "an array that is always empty: leave it out")
    item = to.place(place, f"{at}/items")
    if item is None:
        raise StrictError(at, "items", "nothing can be an item")
    return array_node(item, _bounds(sites, to, least, most))


def _bounds(sites: Sequence[Site], to: Places, least: int, most: int | None) -> dict[str, int]:
    """The bounds of a length that the provider carries."""
    if "maxItems" in to.rules.keywords:
        return {k: n for k, n in (("minItems", least or None), ("maxItems", most)) if n is not None}
    for site in sites:
        for keyword in ("minItems", "maxItems"):
            if keyword in site:
                to.weaken(site, keyword, f"{to.rules.name} has no such bound")
    return {}


def _tuple(sites: Sequence[Site], at: str, to: Places, leading: int, least: int, most: int | None) -> Node | None:
    """Each length that the array may have, as an object of so many numbered properties."""
    fixed = leading if most is None else min(leading, most)
    items: list[Node] = []
    for index in range(fixed):
        place = _item(sites, index)
        node = None if place is None else to.place(place, f"{at}/prefixItems/{index}")
        if node is None:
            most = fixed = index
            break
        items.append(node)
    if least > fixed and most is not None and most < least:
        return None
    if fixed - least >= _MOST_LENGTHS:
        raise StrictError(at, "minItems", f"more than {_MOST_LENGTHS} lengths of a tuple: say how many items it has")
    rest = _rest(sites, at, to, fixed, least, most)
    if rest is None and least > fixed:
        return None
    shorter = [tuple_node(items[:size], None) for size in range(least, fixed)]
    forms = [to.with_words(node) for node in (*shorter, tuple_node(items, rest))]
    return forms[0] if len(forms) == 1 else any_node(forms, to.nodes)


def _rest(sites: Sequence[Site], at: str, to: Places, fixed: int, least: int, most: int | None) -> Node | None:
    """The array of what comes behind the numbered items; None when nothing may."""
    place = None if most is not None and most <= fixed else _item(sites, fixed)
    if place is None:
        return None
    if not place:
        raise StrictError(at, "items", "says nothing of the items behind the first: say items, or false, or maxItems")
    node = to.place(place, f"{at}/items")
    if node is None:
        return None
    return array_node(node, _bounds(sites, to, max(least - fixed, 0), None if most is None else most - fixed))


def _plain(site: Site, to: Places) -> Site:
    """The schema without `unevaluatedItems` where other schemas may look at items first."""
    if "unevaluatedItems" not in site or not any(keyword in site.schema for keyword in _IN_PLACE):
        return site
    to.weaken(site, "unevaluatedItems", f"{to.rules.name} has no such keyword")
    return site.without("unevaluatedItems")


def _leading(site: Site) -> int:
    items = site.get("items")
    return len(items) if is_array(items) else len(site.get("prefixItems", ()))


def _item(sites: Sequence[Site], index: int) -> Place | None:
    """What the item at an index must keep; None when there may be none."""
    found = [place for site in sites for place in _element(site, index)]
    if any(place.schema is False for place in found):
        return None
    return tuple(place for place in found if place.schema not in (True, {}))


def _element(site: Site, index: int) -> Iterator[Site]:
    items: Any = site.get("items")
    leading, rest = ("items", "additionalItems") if is_array(items) else ("prefixItems", "items")
    if index < len(site.get(leading, ())):
        yield site.under(leading, index)
    elif rest in site:
        yield site.under(rest)
    elif "unevaluatedItems" in site:
        yield site.under("unevaluatedItems")
