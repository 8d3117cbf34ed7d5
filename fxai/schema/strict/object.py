"""Objects in strict form: closed, each property required, the optional ones nullable, maps as arrays of pairs.

>>> from fxai.schema.strict.rules import OPENAI
>>> from fxai.schema.strict.transform import Transformer
>>> word = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
>>> node = Transformer(word, OPENAI).convert()
>>> node.schema["required"], node.back({"a": "x", "b": None})
(['a', 'b'], {'a': 'x'})
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fxai.schema.data import is_object
from fxai.schema.pattern import PatternTimeout
from fxai.schema.strict.descriptions import described, length_words, null_words, told_keyword
from fxai.schema.strict.location import NULL_LOST, Place, Places, Site, StrictError
from fxai.schema.strict.node import REST, Member, Node, map_node, object_node
from fxai.schema.strict.rules import is_plain_pattern
from fxai.schema.strict.scalar import tightest

__all__ = ["object_form"]

_CONDITIONS: Final = ("dependentSchemas", "dependencies", "dependentRequired")


def object_form(sites: Sequence[Site], at: str, to: Places) -> Node | None:
    """The object that all schemas describe; None when there can be none."""
    names = list(dict.fromkeys(name for site in sites for name in (*site.get("properties", {}), *_needed(site))))
    required = {name for site in sites for name in _needed(site)}
    checks = list(_conditions(sites, names, to))
    members: dict[str, Member] = {}
    for name in names:
        member = _member(sites, name, at, to, required=name in required)
        if member is not None:
            members[name] = member
        elif name in required:
            return None
    bare = not names and "maxItems" in to.rules.keywords
    entries = _map(sites, at, to, bare=bare)
    carried = bare and entries is not None
    checks += _counts(sites, len(required & members.keys()), None if entries else len(members), to, carried=carried)
    if entries is None:
        return object_node(members, None).checking(checks)
    if not members and not to.is_root(at):
        return entries.checking(checks)
    name = REST
    while name in names:
        name = f"_{name}_"
    return object_node(members, (name, to.with_words(entries))).checking(checks)


def _needed(site: Site) -> Sequence[str]:
    return site.get("required", ()) if not isinstance(site.get("required"), bool) else ()


def _member(sites: Sequence[Site], name: str, at: str, to: Places, *, required: bool) -> Member | None:
    """What stands under a name; None when nothing may."""
    to.reader.steps.take(at, len(sites))
    place = tuple(site for rule in sites for site in _property(rule, name, to))
    if any(site.schema is False for site in place) or any(name not in to.reader.evaluated(site) for site in sites):
        return None
    if not place and required and not any(name in site.get("properties", {}) for site in sites):
        raise StrictError(at, "required", f"{name!r} is required and nowhere described: add it to properties")
    site = next((site for site in place if name in site.pointer.rpartition("/")[2]), None)
    node = to.place(place, site.pointer if site else f"{at}/properties/{name}")
    if node is None or required:
        return None if node is None else Member(node)
    return _optional(node, place, to)


def _optional(node: Node, place: Place, to: Places) -> Member:
    """A property that may be left out, which is said by null: also where a null of its own means something else."""
    if not place or not to.reader.takes_null(place):
        return Member(node, optional=True)
    defaults = [site.get("default") for site in to.reader.together(place) if "default" in site]
    null = to.null
    if not null:
        if defaults and all(default is None for default in defaults):
            return Member(node, optional=True)
        to.weaken(place[0], "default", NULL_LOST)
    schema = {keyword: said for keyword, said in node.schema.items() if keyword != "description"}
    words = [node.schema.get("description", ""), null_words(null)]
    return Member(node.saying(described(schema, [], words, [])), optional=True, null=null)


def _property(rule: Site, name: str, to: Places) -> Iterator[Site]:
    known = name in rule.get("properties", {})
    if known:
        yield rule.under("properties", name)
    for pattern in rule.get("patternProperties", {}):
        to.reader.steps.take(rule.pointer)
        try:
            matching = to.matcher.found(pattern, name)
        except PatternTimeout:
            raise StrictError(rule.pointer, "patternProperties", f"{pattern!r} takes too long") from None
        if matching:
            known = True
            yield rule.under("patternProperties", pattern)
    if not known and "additionalProperties" in rule:
        yield rule.under("additionalProperties")


def _map(sites: Sequence[Site], at: str, to: Places, *, bare: bool) -> Node | None:
    """The names that are not declared, as pairs; None when there are none. `bare`: no name is declared.

    Raises:
        StrictError: they may hold anything.
    """
    patterns = [(site, pattern) for site in sites for pattern in site.get("patternProperties", {})]
    others = [site.under("additionalProperties") for site in sites if "additionalProperties" in site]
    closed = any(other.schema is False for other in others)
    free = [other for other in others if other.schema is not False and not closed]
    if patterns:
        return _patterned(patterns, free, sites, to, closed=closed, bare=bare)
    if closed:
        return None
    _hold_told(sites, free, at)
    if not free:
        return None
    value = to.place(tuple(free), free[0].pointer)
    if value is None:
        return None
    keys = tuple(site.under("propertyNames") for site in sites if "propertyNames" in site)
    key = to.place((*keys, Site(f"{at}/propertyNames/type", {"type": "string"})), f"{at}/propertyNames")
    return None if key is None else map_node(key, value, _pair_bounds(sites) if bare else {})


def _hold_told(sites: Sequence[Site], free: Sequence[Site], at: str) -> None:
    """Hold that the object says what it may have."""
    for other in free:
        if other.schema is True or other.schema == {}:
            pointer = other.pointer.rpartition("/")[0]
            raise StrictError(pointer, "additionalProperties", "takes properties of any name and kind: say false")
    for site in sites:
        if "unevaluatedProperties" in site and site.get("unevaluatedProperties") is not False:
            reason = "takes properties that nothing else describes: say false"
            raise StrictError(site.pointer, "unevaluatedProperties", reason)
    told = any(k in site for site in sites for k in ("properties", "unevaluatedProperties"))
    if not told and not free:
        raise StrictError(at, "properties", "an object of anything: say what properties it has, none with {}")


def _patterned(
    patterns: Sequence[tuple[Site, str]],
    free: Sequence[Site],
    sites: Sequence[Site],
    to: Places,
    *,
    closed: bool,
    bare: bool,
) -> Node | None:
    """Names of one pattern, as pairs."""
    site, pattern = patterns[0]
    if len(patterns) > 1 or free:
        reason = "names of several kinds, each with values of its own: a pair cannot tell which"
        raise StrictError(site.pointer, "patternProperties", reason)
    plain = is_plain_pattern(pattern)
    if closed and not plain:
        raise StrictError(site.pointer, "patternProperties", f"the provider does not take the pattern {pattern!r}")
    place = site.under("patternProperties", pattern)
    value = to.place((place,), place.pointer)
    if value is None:
        return None
    keys = tuple(site.under("propertyNames") for site in sites if "propertyNames" in site)
    said = Site(f"{place.pointer}/name", {"type": "string", "pattern": pattern} if plain else {"type": "string"})
    if not plain:
        to.weaken(site, "patternProperties", f"the provider does not take the pattern {pattern!r}")
    key = to.place((said, *keys), said.pointer)
    return None if key is None else map_node(key, value, _pair_bounds(sites) if bare else {})


def _pair_bounds(sites: Sequence[Site]) -> dict[str, int]:
    """The bounds of the number of pairs: two of one name are one property, so that the least can only be one."""
    least, most = tightest(sites, "minProperties", max), tightest(sites, "maxProperties", min)
    return {k: n for k, n in (("minItems", min(least, 1) if least else None), ("maxItems", most)) if n is not None}


def _counts(sites: Sequence[Site], needed: int, named: int | None, to: Places, *, carried: bool) -> Iterator[str]:
    """Bounds of the number of properties: what is always kept is not said, the rest is in words.

    `named` is how many there can be; None for any number. `carried`: the pairs have bounds themselves.
    """
    for site in sites:
        least, most = site.get("minProperties", 0), site.get("maxProperties")
        if least > needed and not (carried and least == 1):
            to.weaken(site, "minProperties", f"{to.rules.name} cannot count properties")
            yield from length_words(least, None)
        if most is not None and (named is None or most < named) and not carried:
            to.weaken(site, "maxProperties", f"{to.rules.name} cannot count properties")
            yield from length_words(None, most)
        if "propertyNames" in site and named is not None:
            to.weaken(site, "propertyNames", f"{to.rules.name} cannot say what names are like")


def _conditions(sites: Sequence[Site], names: Sequence[str], to: Places) -> Iterator[str]:
    """What holds under a condition is said in words; what declares properties there cannot be."""
    for site in sites:
        for keyword in ("if", *_CONDITIONS):
            if keyword not in site:
                continue
            said: Any = site.get(keyword)
            inner = [site.under(keyword, name) for name in said if keyword != "if" and is_object(said[name])]
            inner += [site.under(branch) for branch in ("then", "else") if keyword == "if" and branch in site]
            unknown = {name for one in inner for name in to.reader.declared(one)} - set(names)
            if unknown:
                raise StrictError(site.pointer, keyword, "describes properties that are there only under a condition")
            if keyword != "if":
                to.weaken(site, keyword, f"{to.rules.name} has no such keyword")
                yield told_keyword(keyword, said)
