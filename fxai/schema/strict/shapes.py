"""Strict forms by type: objects, arrays, strings, numbers, and listed values. Strict forms use this module.

A list stays an array. A tuple becomes an object with numbered properties.

>>> from fxai.schema.strict.rules import OPENAI
>>> from fxai.schema.strict.form import Transformer
>>> pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
>>> to = Transformer({"type": "object", "properties": {"at": pair}, "required": ["at"]}, OPENAI)
>>> to.convert().back({"at": {"0": "a", "1": 1}})
{'at': ['a', 1]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from fxai.schema.data import identity, is_array, is_object
from fxai.schema.fault import kind_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import DocumentReader, Location, LocationError, Site
from fxai.schema.pattern import Matcher, PatternTimeoutError, is_plain
from fxai.schema.strict.node import (
    REST,
    Node,
    Property,
    array_node,
    describe,
    keyword_words,
    length_words,
    map_node,
    null_words,
    number_words,
    object_node,
    tuple_node,
)
from fxai.schema.strict.rules import NULL_LOST, StrictRules
from fxai.schema.strict.union import any_node

Weaken: TypeAlias = Callable[[Site, str, str], None]
"""Records that the provider does not enforce a keyword of a site, with the reason."""

_NUMERIC: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SCALAR: Final = ("minLength", "maxLength", "pattern", *_NUMERIC)
_CONTENT: Final = ("contentEncoding", "contentMediaType", "contentSchema")


class Transformation(Protocol):
    """The part of a transformation that the strict forms of all types use."""

    reader: DocumentReader
    rules: StrictRules
    null: str
    """The name in the object that represents a real null. Empty if null and absence are not distinguished."""
    nodes: dict[str, Node]
    """The definitions so far, by name."""
    matcher: Matcher

    def transform(self, location: Location, at: str, /) -> Node | None:
        """Return the node for all schemas of one value, or None if they accept no value."""

    def weaken(self, site: Site, keyword: str, reason: str, /) -> None:
        """Record that the provider does not enforce a keyword."""

    def takes_null(self, location: Location, /) -> bool:
        """Return True if every schema of a value accepts null."""
        ...

    def is_root(self, at: str, /) -> bool:
        """Return True if a location is the root. Providers require an object at the root."""
        ...

    def with_words(self, node: Node, /) -> Node:
        """Return the node with its note and its checks in the description."""
        ...


def tightest(sites: Sequence[Site], keyword: str, choose: Callable[..., Any]) -> Any:
    """Return the strictest value of a numeric keyword in the schemas, or None if no schema has the keyword."""
    values = [site.get(keyword) for site in sites if keyword in site and not isinstance(site.get(keyword), bool)]
    return choose(values) if values else None


def _bounds(
    sites: Sequence[Site], rules: StrictRules, weaken: Weaken, bounds: Mapping[str, Any], keywords: Sequence[str]
) -> dict[str, Any]:
    """Return the bounds that the provider supports. Record the other bounds, in the order of the keywords."""
    for site in sites:
        for keyword in keywords:
            if keyword in site and keyword not in rules.keywords:
                weaken(site, keyword, f"{rules.name} does not support this bound")
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None and keyword in rules.keywords}


def string_node(sites: Sequence[Site], rules: StrictRules, weaken: Weaken) -> Node:
    """Create the node of a string. Its description contains the bounds and the unsupported keywords."""
    least, most = tightest(sites, "minLength", max), tightest(sites, "maxLength", min)
    kept = _bounds(sites, rules, weaken, {"minLength": least, "maxLength": most}, ("minLength", "maxLength"))
    schema: dict[str, Any] = {"type": "string", **kept}
    checks = list(length_words(least, most))
    for site in sites:
        for keyword in _CONTENT:
            if keyword in site:
                weaken(site, keyword, f"{rules.name} does not support this keyword")
                checks.append(keyword_words(keyword, site.get(keyword)))
        _keep(schema, site, "format", site.get("format") in rules.formats, weaken, checks)
        _keep(schema, site, "pattern", is_plain(str(site.get("pattern"))), weaken, checks)
    return Node(schema, checks=checks)


def _keep(schema: dict[str, Any], site: Site, keyword: str, known: bool, weaken: Weaken, checks: list[str]) -> None:
    if keyword not in site or schema.get(keyword) == site.get(keyword):
        return
    value = site.get(keyword)
    if known and keyword not in schema:
        schema[keyword] = value
        return
    weaken(site, keyword, f"the provider does not accept {value!r}" if not known else "a schema can contain only one")
    checks.append(
        f"a value with a format of {value}" if keyword == "format" else f"a value matching the pattern {value}"
    )


def number_node(kind: str, sites: Sequence[Site], rules: StrictRules, weaken: Weaken) -> Node:
    """Create the node of a number or an integer. Its description contains the bounds."""
    low, high = tightest(sites, "minimum", max), tightest(sites, "maximum", min)
    above, below = tightest(sites, "exclusiveMinimum", max), tightest(sites, "exclusiveMaximum", min)
    steps = list(dict.fromkeys(site.get("multipleOf") for site in sites if "multipleOf" in site))
    for site in sites:  # in draft 4 a boolean makes a bound exclusive
        if site.get("exclusiveMinimum") is True:
            above, low = site.get("minimum"), (low if low != site.get("minimum") else None)
        if site.get("exclusiveMaximum") is True:
            below, high = site.get("maximum"), (high if high != site.get("maximum") else None)
    bounds = {"minimum": low, "exclusiveMinimum": above, "maximum": high, "exclusiveMaximum": below}
    bounds["multipleOf"] = steps[0] if steps else None
    kept = _bounds(sites, rules, weaken, bounds, _NUMERIC)
    for site in sites:
        if site.get("multipleOf") in steps[1:]:
            weaken(site, "multipleOf", "a schema can contain only one")
    return Node({"type": kind, **kept}, checks=list(number_words(low, above, high, below, steps)))


def values_of(sites: Sequence[Site]) -> list[Any] | None:
    """Return the values that all schemas list by `const` and `enum`, or None if no schema lists values.

    Raises:
        LocationError: If a schema lists an object or an array.
    """
    values: list[Any] | None = None
    for site in sites:
        for keyword in ("const", "enum"):
            if keyword in site:
                listed = [site.get("const")] if keyword == "const" else site.get("enum")
                if any(is_object(value) or is_array(value) for value in listed):
                    raise LocationError(site.pointer, keyword, "a value is an object or array, so describe it by type")
                known = set(map(identity, listed))
                values = list(listed) if values is None else [v for v in values if identity(v) in known]
    if values is None:
        return None
    facets = [{k: site.get(k) for k in _SCALAR if k in site and not isinstance(site.get(k), bool)} for site in sites]
    holding = [JsonSchema.trust(facet) for facet in facets if facet]
    return [value for value in values if not any(document.validate(value) for document in holding)]


def value_nodes(values: Sequence[Any], types: Sequence[str] | None) -> list[Node]:
    """Create a node for the listed values of each type, in the order of the first values."""
    grouped: dict[str, list[Any]] = {}
    values = [value for value in values if types is None or _is_one(value, types)]
    for value in values:
        grouped.setdefault(kind_in(value), []).append(value)
    if "integer" in grouped and "number" in grouped:
        grouped["number"] = [value for value in values if kind_in(value) in ("integer", "number")]
        del grouped["integer"]
    return [Node(_listing(kind, listed)) for kind, listed in grouped.items()]


def _listing(kind: str, values: list[Any]) -> dict[str, Any]:
    if kind == "null" or (kind == "boolean" and len(values) == 2):
        return {"type": kind}
    return {"type": kind, "enum": values}


def _is_one(value: Any, types: Sequence[str]) -> bool:
    kind = kind_in(value)
    whole = kind == "number" and float(value).is_integer()
    return kind in types or (kind == "integer" and "number" in types) or (whole and "integer" in types)


def listed_types(sites: Sequence[Site]) -> list[str] | None:
    """Return the types that all schemas allow, in the order of the first schema. None if no schema has a type."""
    types: list[str] | None = None
    for site in sites:
        if "type" in site:
            value = site.get("type")
            own: list[str] = value if is_array(value) else [value]
            types = list(own) if types is None else _common(types, own)
    if types is None:
        return None
    return [t for t in types if not (t == "integer" and "number" in types)]


def _common(left: Sequence[str], right: Sequence[str]) -> list[str]:
    kept = [t for t in left if t in right or (t == "integer" and "number" in right)]
    return kept + [t for t in right if t == "integer" and "number" in left and t not in kept]


_ASIDE: Final = ("uniqueItems", "contains", "minContains", "maxContains")
_AT_SAME_VALUE: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains")
_MOST_LENGTHS: Final = 8


def array_form(sites: Sequence[Site], at: str, to: Transformation) -> Node | None:
    """Create the node of an array. Return None if no array is valid for all schemas."""
    least, most = tightest(sites, "minItems", max) or 0, tightest(sites, "maxItems", min)
    checks: list[str] = []
    for site in sites:
        for keyword in _ASIDE:
            if keyword in site and (keyword, site.get(keyword)) != ("uniqueItems", False):
                to.weaken(site, keyword, f"{to.rules.name} does not support this keyword")
                checks.append(keyword_words(keyword, site.get(keyword)))
    sites = [_plain(site, to) for site in sites]
    leading = max((site.leading for site in sites), default=0)
    if leading:
        node = _tuple(sites, at, to, leading, least, most)
        return None if node is None else node.with_checks(checks)
    checks = [*length_words(least, most), *checks]
    node = _list(sites, at, to, least, most)
    return None if node is None else node.with_checks(checks)


def _list(sites: Sequence[Site], at: str, to: Transformation, least: int, most: int | None) -> Node | None:
    location = _item(sites, 0)
    if not location and location is not None:
        raise LocationError(at, "items", "the array accepts any items, so declare their type")
    if location is None or most == 0:
        raise LocationError(at, "items", "the array is always empty, so remove it")
    item = to.transform(location, f"{at}/items")
    if item is None:
        raise LocationError(at, "items", "the schema of the items accepts no value")
    return array_node(item, _lengths(sites, to, least, most))


def _lengths(sites: Sequence[Site], to: Transformation, least: int, most: int | None) -> dict[str, int]:
    """Return the bounds of a length that the provider supports: both or neither."""
    if "maxItems" in to.rules.keywords:
        return {k: n for k, n in (("minItems", least or None), ("maxItems", most)) if n is not None}
    for site in sites:
        for keyword in ("minItems", "maxItems"):
            if keyword in site:
                to.weaken(site, keyword, f"{to.rules.name} does not support this bound")
    return {}


def _tuple(
    sites: Sequence[Site], at: str, to: Transformation, leading: int, least: int, most: int | None
) -> Node | None:
    """Create an object with numbered properties for each possible length of a tuple."""
    fixed = leading if most is None else min(leading, most)
    items: list[Node] = []
    for index in range(fixed):
        location = _item(sites, index)
        node = None if location is None else to.transform(location, f"{at}/prefixItems/{index}")
        if node is None:
            most = fixed = index
            break
        items.append(node)
    if least > fixed and most is not None and most < least:
        return None
    if fixed - least >= _MOST_LENGTHS:
        raise LocationError(at, "minItems", f"the tuple has more than {_MOST_LENGTHS} lengths, so increase minItems")
    rest = _rest(sites, at, to, fixed, least, most)
    if rest is None and least > fixed:
        return None
    shorter = [tuple_node(items[:size], None) for size in range(least, fixed)]
    forms = [to.with_words(node) for node in (*shorter, tuple_node(items, rest))]
    return forms[0] if len(forms) == 1 else any_node(forms, to.nodes)


def _rest(sites: Sequence[Site], at: str, to: Transformation, fixed: int, least: int, most: int | None) -> Node | None:
    """Create the node for the items after the numbered items. Return None if no further items are valid."""
    location = None if most is not None and most <= fixed else _item(sites, fixed)
    if location is None:
        return None
    if not location:
        raise LocationError(
            at, "items", "no schema for the items after the first, so set items, items: false, or maxItems"
        )
    node = to.transform(location, f"{at}/items")
    if node is None:
        return None
    return array_node(node, _lengths(sites, to, max(least - fixed, 0), None if most is None else most - fixed))


def _plain(site: Site, to: Transformation) -> Site:
    """Return the schema without `unevaluatedItems` if its other keywords can evaluate items."""
    if "unevaluatedItems" not in site or not any(keyword in site.schema for keyword in _AT_SAME_VALUE):
        return site
    to.weaken(site, "unevaluatedItems", f"{to.rules.name} does not support this keyword")
    return site.without("unevaluatedItems")


def _item(sites: Sequence[Site], index: int) -> Location | None:
    """Return the schemas of the item at an index, or None if the array cannot have this item."""
    found = [location for site in sites if (location := site.item(index)) is not None]
    if any(location.schema is False for location in found):
        return None
    return tuple(location for location in found if location.schema not in (True, {}))


_CONDITIONS: Final = ("dependentSchemas", "dependencies", "dependentRequired")


def object_form(sites: Sequence[Site], at: str, to: Transformation) -> Node | None:
    """Create the node of an object. Return None if no object is valid for all schemas."""
    names = list(
        dict.fromkeys(name for site in sites for name in (*site.get("properties", {}), *_required_names(site)))
    )
    required = {name for site in sites for name in _required_names(site)}
    checks = list(_conditions(sites, names, to))
    members: dict[str, Property] = {}
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
        return object_node(members, None).with_checks(checks)
    if not members and not to.is_root(at):
        return entries.with_checks(checks)
    name = REST
    while name in names:
        name = f"_{name}_"
    return object_node(members, (name, to.with_words(entries))).with_checks(checks)


def _required_names(site: Site) -> Sequence[str]:
    return site.get("required", ()) if not isinstance(site.get("required"), bool) else ()


def _member(sites: Sequence[Site], name: str, at: str, to: Transformation, *, required: bool) -> Property | None:
    """Create the property with a name. Return None if the object cannot have this property."""
    to.reader.steps.take(len(sites), at)
    location = tuple(site for rule in sites for site in _property(rule, name, to))
    if any(site.schema is False for site in location) or any(
        name not in to.reader.evaluated_names(site) for site in sites
    ):
        return None
    if not location and required and not any(name in site.get("properties", {}) for site in sites):
        raise LocationError(at, "required", f"the required {name!r} has no schema, so add it to properties")
    site = next((site for site in location if name in site.pointer.rpartition("/")[2]), None)
    node = to.transform(location, site.pointer if site else f"{at}/properties/{name}")
    if node is None or required:
        return None if node is None else Property(node)
    return _optional(node, location, to)


def _optional(node: Node, location: Location, to: Transformation) -> Property:
    """Create an optional property. If the provider requires all properties, null means that the property is absent."""
    if not to.rules.all_required:
        return Property(node, optional=True, absent=True, takes_null=not location or to.takes_null(location))
    if not location or not to.takes_null(location):
        return Property(node, optional=True, exact=bool(to.null))
    defaults = [site.get("default") for site in to.reader.together(location) if "default" in site]
    null = to.null
    if not null:
        if defaults and all(default is None for default in defaults):
            return Property(node, optional=True)
        to.weaken(location[0], "default", NULL_LOST)
    schema = {keyword: value for keyword, value in node.schema.items() if keyword != "description"}
    words = [node.schema.get("description", ""), null_words(null)]
    return Property(node.with_schema(describe(schema, [], words, [])), optional=True, null=null, exact=bool(null))


def _property(rule: Site, name: str, to: Transformation) -> Iterator[Site]:
    known = name in rule.get("properties", {})
    if known:
        yield rule.under("properties", name)
    for pattern in rule.get("patternProperties", {}):
        to.reader.steps.take(1, rule.pointer)
        try:
            matching = to.matcher.matches(pattern, name)
        except PatternTimeoutError:
            raise LocationError(rule.pointer, "patternProperties", f"matching {pattern!r} takes too long") from None
        if matching:
            known = True
            yield rule.under("patternProperties", pattern)
    if not known and "additionalProperties" in rule:
        yield rule.under("additionalProperties")


def _map(sites: Sequence[Site], at: str, to: Transformation, *, bare: bool) -> Node | None:
    """Create the node for the undeclared properties as pairs. Return None if the object has none.

    Raises:
        LocationError: If the undeclared properties accept any value.
    """
    patterns = [(site, pattern) for site in sites for pattern in site.get("patternProperties", {})]
    others = [site.under("additionalProperties") for site in sites if "additionalProperties" in site]
    closed = any(other.schema is False for other in others)
    free = [other for other in others if other.schema is not False and not closed]
    if patterns:
        return _pattern_map(patterns, free, sites, to, closed=closed, bare=bare)
    if closed:
        return None
    _hold_described(sites, free, at)
    if not free:
        return None
    value = to.transform(tuple(free), free[0].pointer)
    if value is None:
        return None
    keys = tuple(site.under("propertyNames") for site in sites if "propertyNames" in site)
    key = to.transform((*keys, Site(f"{at}/propertyNames/type", {"type": "string"})), f"{at}/propertyNames")
    return None if key is None else map_node(key, value, _pair_bounds(sites) if bare else {})


def _hold_described(sites: Sequence[Site], free: Sequence[Site], at: str) -> None:
    """Raise a `LocationError` if an object accepts properties that it does not describe."""
    for other in free:
        if other.schema is True or other.schema == {}:
            pointer = other.pointer.rpartition("/")[0]
            raise LocationError(
                pointer, "additionalProperties", "the object accepts any other properties, so set false"
            )
    for site in sites:
        if "unevaluatedProperties" in site and site.get("unevaluatedProperties") is not False:
            reason = "the object accepts undeclared properties, so set false"
            raise LocationError(site.pointer, "unevaluatedProperties", reason)
    described = any(k in site for site in sites for k in ("properties", "unevaluatedProperties"))
    if not described and not free:
        raise LocationError(at, "properties", "the object accepts any properties, so declare them ({} for none)")


def _pattern_map(
    patterns: Sequence[tuple[Site, str]],
    free: Sequence[Site],
    sites: Sequence[Site],
    to: Transformation,
    *,
    closed: bool,
    bare: bool,
) -> Node | None:
    """Create the node for the properties of one pattern as pairs."""
    site, pattern = patterns[0]
    if len(patterns) > 1 or free:
        reason = "the schemas of values depend on the names, so declare one schema for all names"
        raise LocationError(site.pointer, "patternProperties", reason)
    plain = is_plain(pattern)
    if closed and not plain:
        raise LocationError(site.pointer, "patternProperties", f"the provider does not accept the pattern {pattern!r}")
    location = site.under("patternProperties", pattern)
    value = to.transform((location,), location.pointer)
    if value is None:
        return None
    keys = tuple(site.under("propertyNames") for site in sites if "propertyNames" in site)
    name = Site(f"{location.pointer}/name", {"type": "string", "pattern": pattern} if plain else {"type": "string"})
    if not plain:
        to.weaken(site, "patternProperties", f"the provider does not accept the pattern {pattern!r}")
    key = to.transform((name, *keys), name.pointer)
    return None if key is None else map_node(key, value, _pair_bounds(sites) if bare else {})


def _pair_bounds(sites: Sequence[Site]) -> dict[str, int]:
    """Return the bounds of the number of pairs. Pairs can have the same name, so the lower bound is at most 1."""
    least, most = tightest(sites, "minProperties", max), tightest(sites, "maxProperties", min)
    return {k: n for k, n in (("minItems", min(least, 1) if least else None), ("maxItems", most)) if n is not None}


def _counts(
    sites: Sequence[Site], needed: int, named: int | None, to: Transformation, *, carried: bool
) -> Iterator[str]:
    """Iterate over descriptions of the bounds that the strict form of an object does not imply.

    `needed` and `named` are the minimum and the maximum number of properties. `carried` is True if the array of pairs
    contains the bounds.
    """
    for site in sites:
        least, most = site.get("minProperties", 0), site.get("maxProperties")
        if least > needed and not (carried and least == 1):
            to.weaken(site, "minProperties", f"{to.rules.name} cannot limit the number of properties")
            yield from length_words(least, None)
        if most is not None and (named is None or most < named) and not carried:
            to.weaken(site, "maxProperties", f"{to.rules.name} cannot limit the number of properties")
            yield from length_words(None, most)
        if "propertyNames" in site and named is not None:
            to.weaken(site, "propertyNames", f"{to.rules.name} cannot limit the names of properties")


def _conditions(sites: Sequence[Site], names: Sequence[str], to: Transformation) -> Iterator[str]:
    """Iterate over descriptions of conditions. Refuse properties that a schema declares only under a condition."""
    for site in sites:
        for keyword in ("if", *_CONDITIONS):
            if keyword not in site:
                continue
            value: Any = site.get(keyword)
            inner = [site.under(keyword, name) for name in value if keyword != "if" and is_object(value[name])]
            inner += [site.under(branch) for branch in ("then", "else") if keyword == "if" and branch in site]
            unknown = {name for one in inner for name in to.reader.declared_names(one)} - set(names)
            if unknown:
                raise LocationError(site.pointer, keyword, "a condition adds properties, so declare them in properties")
            if keyword != "if":
                to.weaken(site, keyword, f"{to.rules.name} does not support this keyword")
                yield keyword_words(keyword, value)
