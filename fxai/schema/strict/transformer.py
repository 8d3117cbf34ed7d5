"""The transformation of a document to its strict form: nodes by reference, conjunction, union, and type.

A list stays an array. A tuple becomes an object with numbered properties. An object with undeclared properties gets one
property with pairs.

>>> from fxai.schema.strict.rules import OPENAI
>>> pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
>>> to = Transformer({"type": "object", "properties": {"at": pair}, "required": ["at"]}, OPENAI)
>>> to.convert().back({"at": {"0": "a", "1": 1}})
{'at': ['a', 1]}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import descend
from fxai.schema.data import JsonObject, copy_data, identity, is_array, is_object
from fxai.schema.fault import kind_in
from fxai.schema.json_schema import JsonSchema, with_whole_numbers
from fxai.schema.location import ANNOTATIONS, DocumentReader, Location, LocationError, Site
from fxai.schema.pattern import is_plain
from fxai.schema.strict.node import (
    DEFS,
    NULL,
    REST,
    Node,
    Overlaps,
    Property,
    annotations_of,
    any_node,
    array_node,
    describe,
    keyword_words,
    length_words,
    map_node,
    null_words,
    number_words,
    object_node,
    reference_node,
    tuple_node,
)
from fxai.schema.strict.rules import NULL_LOST, StrictRules, UnsupportedFeature, Weakening

if TYPE_CHECKING:
    from fxai.schema.engine import Engine

_Key: TypeAlias = frozenset[tuple[str, frozenset[str]]]

_MOST_BRANCHES: Final = 64
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_AMBIGUOUS: Final = "a strict value can match two alternatives, so declare a property that distinguishes them"
_STANDING_IN: Final = Node({"type": "null"})

AS_ANY_OF: Final = "sent as anyOf"
"""The reason of a weakening that keeps the alternatives of `oneOf`, but not that exactly one of them applies."""

_NUMERIC: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SCALAR: Final = ("minLength", "maxLength", "pattern", *_NUMERIC)
_CONTENT: Final = ("contentEncoding", "contentMediaType", "contentSchema")


@final
class Transformer:
    """A transformation of a document, with its definitions, unsupported features, and unenforced keywords so far."""

    def __init__(self, document: Any, rules: StrictRules, *, explicit_null: bool = False) -> None:
        self.reader: DocumentReader = DocumentReader(document)
        self.rules = rules
        self.null: str = NULL if explicit_null else ""
        """The name in the object that represents a real null. Empty if null and absence are not distinguished."""
        text = msgspec.json.encode(document).decode() if explicit_null else ""
        while self.null and self.null in text:
            self.null = f"_{self.null}_"
        self.nodes: dict[str, Node] = {}
        self.unsupported: dict[UnsupportedFeature, None] = {}
        self.weakened: dict[Weakening, None] = {}
        self._unions: list[tuple[str, Sequence[Node]]] = []
        self._sizes: dict[int, tuple[object, int]] = {}
        self._open: dict[_Key, str | None] = {}
        self._done: dict[_Key, Node | None] = {}

    def convert(self) -> Node | None:
        """Return the node of the whole document, or None if it accepts no value. Collect `unsupported`.

        Raises:
            ExhaustedError: If the transformation needs too many steps. The argument is the location.
        """
        node = self.transform((self.reader.root,), "")
        overlaps = Overlaps(self.nodes)
        for at, nodes in () if self.unsupported else self._unions:
            pairs = ((one, other) for one, other in combinations(nodes, 2) if one.rewrites or other.rewrites)
            if any(overlaps.may(one.schema, other.schema) for one, other in pairs):
                self.unsupported[UnsupportedFeature(at, "anyOf", _AMBIGUOUS)] = None
        if node is None or "$ref" not in node.schema:
            return node
        return node.with_schema(self.nodes[node.schema["$ref"].removeprefix(DEFS)].schema)

    def weaken(self, site: Site, keyword: str, reason: str) -> None:
        """Record that the provider does not enforce a keyword."""
        self.weakened[Weakening(site.pointer, keyword, reason)] = None

    def set_aside(self, site: Site, keyword: str, *others: str) -> str:
        """Record that the provider does not support a keyword. Return its description, with the others."""
        self.weaken(site, keyword, f"{self.rules.name} does not support this keyword")
        value = {k: site.get(k) for k in (keyword, *others) if k in site} if others else site.get(keyword)
        return keyword_words(keyword, value)

    @cached_property
    def _engine(self) -> Engine:
        from fxai.schema.engine import Engine  # only an optional property needs the engine

        return Engine(self.reader.root.schema)

    def takes_null(self, location: Location) -> bool:
        """Return True if every schema of a value accepts null."""
        return all(self._engine.part(site.schema).accepts(None) for site in location)

    # -- places

    def transform(self, location: Location, at: str) -> Node | None:
        """Return the node for all schemas of a value, or None if they accept no value. Messages contain `at`."""
        try:
            return descend(lambda: self._definition(location, at))
        except LocationError as error:
            self.unsupported[UnsupportedFeature(error.pointer, error.keyword, error.reason)] = None
            return _STANDING_IN

    def _definition(self, location: Location, at: str) -> Node | None:
        """Return the node of a place. If the place is a reference or contains itself, the node is a reference."""
        name: str | None = None
        if len(location) == 1 and self.reader.has_words_only(location[0]) and not self.reader.alone(location[0]):
            return self._annotated_reference(location[0], at)
        while len(location) == 1 and self.reader.alone(location[0]):
            location = (self.reader.follow(location[0]),)
            name = location[0].pointer.rpartition("/")[2] or "root"
        key: _Key = frozenset(site.key for site in location)
        if key in self._done:
            known = self._done[key]
            self.reader.steps.take(1 if known is None else self.size(known.schema), at)
            return known
        if key in self._open and location:
            if not self.rules.recursive:
                reason = f"{self.rules.name} does not accept recursive schemas"
                raise LocationError(at or location[0].pointer, "$ref", reason)
            name = self._open[key] = self._open[key] or self._free(location[0].pointer.rpartition("/")[2] or "root")
            return reference_node(name, self.nodes)
        self._open[key] = None if name is None else self._free(name)
        try:
            node = self._conjunction(
                self.reader.together(location), at if name is None or at == "" else location[0].pointer
            )
        finally:
            name = self._open.pop(key)
        if node is not None and name is not None:
            self.nodes[name] = node
            node = reference_node(name, self.nodes)
        self._done[key] = node
        return node

    def _annotated_reference(self, site: Site, at: str) -> Node | None:
        """Return a reference with the annotations next to the `$ref`, in a union if the provider refuses them there."""
        node = self._definition((site.without(*(k for k in site.schema if k != "$ref")),), at)
        if node is None:
            return None
        _, words = annotations_of([site])
        schema = {"anyOf": [node.schema]} if "$ref" in node.schema and self.rules.lone_ref else node.schema
        return node.with_schema(describe(schema, [], words, []))

    def size(self, schema: Any) -> int:
        """Return the number of values in a strict schema. A shared part counts at each location."""
        if not (is_object(schema) or is_array(schema)):
            return 0
        known = self._sizes.get(id(schema))
        if known is None:
            inside: Iterable[Any] = schema.values() if is_object(schema) else schema
            known = self._sizes[id(schema)] = (schema, 1 + sum(map(self.size, inside)))
        return known[1]

    def _free(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name) or "definition"
        taken = {*self.nodes, *self._open.values()}
        number = 2
        free = plain
        while free in taken:
            free, number = f"{plain}_{number}", number + 1
        return free

    # -- conjunctions

    def _conjunction(self, sites: Sequence[Site], at: str) -> Node | None:
        self.reader.steps.take(len(sites), at)
        if any(site.schema is False for site in sites):
            return None
        sites = [site for site in sites if site.schema is not True]
        if any(site.get("not") in (True, {}) for site in sites if "not" in site):
            return None
        union = next(((site, k) for site in sites for k in ("anyOf", "oneOf") if k in site), None)
        node = self._by_type(sites, at) if union is None else self._union(sites, *union, at)
        if node is None:
            return None
        title, words = annotations_of(sites)
        return node.with_words(words, title)

    def _union(self, sites: Sequence[Site], site: Site, keyword: str, at: str) -> Node | None:
        branches = [site.under(keyword, index) for index in range(len(site.get(keyword)))]
        if keyword == "oneOf" and len(branches) > 1:
            self.weaken(site, "oneOf", AS_ANY_OF)
        rest = tuple((s.without(keyword) if s is site else s).without("$ref", "allOf") for s in sites)
        beside = tuple(filter(self.reader.holds, rest))
        if beside and self._only_narrows(beside, branches, at):
            self.weaken(site, keyword, f"{self.rules.name} does not accept a union here")
            node = self._conjunction(rest, at)
            words = keyword_words(keyword, site.get(keyword))
            return None if node is None else node.with_schema(describe(node.schema, [], [], [words]))
        # The annotations appear once, outside the union.
        bare = tuple(site.without(*ANNOTATIONS) for site in beside)
        found = [self.transform((*bare, branch), branch.pointer) for branch in branches]
        nodes = [node for node in found if node is not None]
        if at == "" and len(nodes) > 1:
            raise LocationError(at, keyword, "providers do not accept a union at the root, so declare one object")
        if len(nodes) <= 1:
            return nodes[0] if nodes else None
        return self._any(nodes, at)

    def _only_narrows(self, beside: Location, branches: Sequence[Site], at: str) -> bool:
        """Return True if fxai cannot merge the branches, and they add no properties to the keywords next to them."""
        if at != "" and len(branches) <= _MOST_BRANCHES:
            return False
        known = {name for site in beside for name in self.reader.declared_names(site)}
        return all(self.reader.declared_names(branch) <= known for branch in branches)

    def _by_type(self, sites: Sequence[Site], at: str) -> Node | None:
        values, types = values_of(sites), listed_types(sites)
        if at == "" and (types != ["object"] or values is not None):
            raise LocationError(at, "type", "providers require an object at the root")
        if values is not None:
            nodes = value_nodes(values, types)
        elif types is None:
            raise LocationError(at, "type", "the schema accepts any value, so declare its type")
        else:
            nodes = [node for t in types if (node := self._of_type(t, sites, at)) is not None]
        asides: list[str] = []
        for site in sites:  # no provider supports these keywords for any type
            if "not" in site:
                asides.append(self.set_aside(site, "not"))
            if "if" in site and ("then" in site or "else" in site):
                asides.append(self.set_aside(site, "if", "then", "else"))
        if len(nodes) <= 1:
            return nodes[0].with_checks(asides) if nodes else None
        return self._any([node.with_words() for node in nodes], at).with_checks(asides)

    def _any(self, nodes: Sequence[Node], at: str) -> Node:
        if any(node.rewrites for node in nodes):
            self._unions.append((at, nodes))
        distinct = list({_SORTED(node.schema): node for node in reversed(nodes)}.values())[::-1]
        return distinct[0] if len(distinct) == 1 else any_node(distinct, self.nodes)

    def _of_type(self, kind: str, sites: Sequence[Site], at: str) -> Node | None:
        match kind:
            case "object":
                return object_form(sites, at, self)
            case "array":
                return array_form(sites, at, self)
            case "string":
                return string_node(sites, self)
            case "number" | "integer":
                node = number_node(kind, sites, self)
                strange = kind == "integer" and self.reader.dialect.name == "draft-04"
                return msgspec.structs.replace(node, back=with_whole_numbers, forth=copy_data) if strange else node
            case _:
                return Node({"type": kind})


# ---- strict forms by type


def tightest(sites: Sequence[Site], keyword: str, choose: Callable[..., Any]) -> Any:
    """Return the strictest value of a numeric keyword in the schemas, or None if no schema has the keyword."""
    values = [site.get(keyword) for site in sites if keyword in site and not isinstance(site.get(keyword), bool)]
    return choose(values) if values else None


def _bounds(sites: Sequence[Site], to: Transformer, bounds: Mapping[str, Any]) -> JsonObject:
    """Return the bounds that the provider supports. Record the other bounds."""
    for site in sites:
        for keyword in bounds:
            if keyword in site and keyword not in to.rules.keywords:
                to.weaken(site, keyword, f"{to.rules.name} does not support this bound")
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None and keyword in to.rules.keywords}


def string_node(sites: Sequence[Site], to: Transformer) -> Node:
    """Create the node of a string. Its description contains the bounds and the unsupported keywords."""
    least, most = tightest(sites, "minLength", max), tightest(sites, "maxLength", min)
    schema: JsonObject = {"type": "string", **_bounds(sites, to, {"minLength": least, "maxLength": most})}
    checks = list(length_words(least, most))
    for site in sites:
        checks += [to.set_aside(site, keyword) for keyword in _CONTENT if keyword in site]
        for keyword, phrase in (("format", "a value with a format of"), ("pattern", "a value matching the pattern")):
            value = site.get(keyword)
            if keyword not in site or schema.get(keyword) == value:
                continue
            is_known = value in to.rules.formats if keyword == "format" else is_plain(str(value))
            if is_known and keyword not in schema:
                schema[keyword] = value
            else:
                reason = "a schema can contain only one" if is_known else f"the provider does not accept {value!r}"
                to.weaken(site, keyword, reason)
                checks.append(f"{phrase} {value}")
    return Node(schema, checks=tuple(checks))


def number_node(kind: str, sites: Sequence[Site], to: Transformer) -> Node:
    """Create the node of a number or an integer. Its description contains the bounds."""
    low, high = tightest(sites, "minimum", max), tightest(sites, "maximum", min)
    above, below = tightest(sites, "exclusiveMinimum", max), tightest(sites, "exclusiveMaximum", min)
    steps = list(dict.fromkeys(site.get("multipleOf") for site in sites if "multipleOf" in site))
    for site in sites:  # in draft 4 a boolean makes a bound exclusive
        if site.get("exclusiveMinimum") is True:
            above, low = site.get("minimum"), (low if low != site.get("minimum") else None)
        if site.get("exclusiveMaximum") is True:
            below, high = site.get("maximum"), (high if high != site.get("maximum") else None)
    values = (low, high, above, below, steps[0] if steps else None)
    kept = _bounds(sites, to, dict(zip(_NUMERIC, values, strict=True)))
    for site in sites:
        if site.get("multipleOf") in steps[1:]:
            to.weaken(site, "multipleOf", "a schema can contain only one")
    return Node({"type": kind, **kept}, checks=tuple(number_words(low, above, high, below, steps)))


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

    def is_allowed(value: Any) -> bool:
        kind = kind_in(value)
        whole = kind == "number" and float(value).is_integer()
        return (
            types is None
            or kind in types
            or (kind == "integer" and "number" in types)
            or (whole and "integer" in types)
        )

    values = list(filter(is_allowed, values))
    for value in values:
        grouped.setdefault(kind_in(value), []).append(value)
    if "integer" in grouped and "number" in grouped:
        grouped["number"] = [value for value in values if kind_in(value) in ("integer", "number")]
        del grouped["integer"]
    whole = {"null": 1, "boolean": 2}  # so many values are all values of the type
    return [
        Node({"type": kind} if whole.get(kind) == len(listed) else {"type": kind, "enum": listed})
        for kind, listed in grouped.items()
    ]


def listed_types(sites: Sequence[Site]) -> list[str] | None:
    """Return the types that all schemas allow, in the order of the first schema. None if no schema has a type."""
    types: list[str] | None = None
    for site in sites:
        if "type" in site:
            value = site.get("type")
            own: list[str] = value if is_array(value) else [value]
            if types is None:
                types = list(own)
                continue
            kept = [t for t in types if t in own or (t == "integer" and "number" in own)]
            types = kept + [t for t in own if t == "integer" and "number" in types and t not in kept]
    if types is None:
        return None
    return [t for t in types if not (t == "integer" and "number" in types)]


_ASIDE: Final = ("uniqueItems", "contains", "minContains", "maxContains")
_AT_SAME_VALUE: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains")
_MOST_LENGTHS: Final = 8


def array_form(sites: Sequence[Site], at: str, to: Transformer) -> Node | None:
    """Create the node of an array. Return None if no array is valid for all schemas."""
    least, most = tightest(sites, "minItems", max) or 0, tightest(sites, "maxItems", min)
    checks = [
        to.set_aside(site, keyword)
        for site in sites
        for keyword in _ASIDE
        if keyword in site and (keyword, site.get(keyword)) != ("uniqueItems", False)
    ]
    for index, site in enumerate(sites := list(sites)):
        if "unevaluatedItems" in site and any(keyword in site.schema for keyword in _AT_SAME_VALUE):
            to.weaken(site, "unevaluatedItems", f"{to.rules.name} does not support this keyword")
            sites[index] = site.without("unevaluatedItems")
    leading = max((site.leading for site in sites), default=0)
    if leading:
        node = _tuple(sites, at, to, leading, least, most)
        return None if node is None else node.with_checks(checks)
    location = _item(sites, 0)
    if not location and location is not None:
        raise LocationError(at, "items", "the array accepts any items, so declare their type")
    if location is None or most == 0:
        raise LocationError(at, "items", "the array is always empty, so remove it")
    item = to.transform(location, f"{at}/items")
    if item is None:
        raise LocationError(at, "items", "the schema of the items accepts no value")
    return array_node(item, _lengths(sites, to, least, most)).with_checks([*length_words(least, most), *checks])


def _lengths(sites: Sequence[Site], to: Transformer, least: int, most: int | None) -> dict[str, int]:
    """Return the bounds of a length that the provider supports: both or neither."""
    if "maxItems" in to.rules.keywords:
        return {k: n for k, n in (("minItems", least or None), ("maxItems", most)) if n is not None}
    for site in sites:
        for keyword in ("minItems", "maxItems"):
            if keyword in site:
                to.weaken(site, keyword, f"{to.rules.name} does not support this bound")
    return {}


def _tuple(sites: Sequence[Site], at: str, to: Transformer, leading: int, least: int, most: int | None) -> Node | None:
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
    forms = [node.with_words() for node in (*shorter, tuple_node(items, rest))]
    return forms[0] if len(forms) == 1 else any_node(forms, to.nodes)


def _rest(sites: Sequence[Site], at: str, to: Transformer, fixed: int, least: int, most: int | None) -> Node | None:
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


def _item(sites: Sequence[Site], index: int) -> Location | None:
    """Return the schemas of the item at an index, or None if the array cannot have this item."""
    found = [location for site in sites if (location := site.item(index)) is not None]
    if any(location.schema is False for location in found):
        return None
    return tuple(location for location in found if location.schema not in (True, {}))


_CONDITIONS: Final = ("dependentSchemas", "dependencies", "dependentRequired")


def object_form(sites: Sequence[Site], at: str, to: Transformer) -> Node | None:
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
    if not members and at != "":
        return entries.with_checks(checks)
    name = REST
    while name in names:
        name = f"_{name}_"
    return object_node(members, (name, entries.with_words())).with_checks(checks)


def _required_names(site: Site) -> Sequence[str]:
    return site.get("required", ()) if not isinstance(site.get("required"), bool) else ()


def _member(sites: Sequence[Site], name: str, at: str, to: Transformer, *, required: bool) -> Property | None:
    """Create the property with a name. Return None if the object cannot have this property."""
    to.reader.steps.take(len(sites), at)
    location = tuple(site for rule in sites for site in _property(rule, name))
    if any(site.schema is False for site in location) or not all(to.reader.allows(site, name) for site in sites):
        return None
    if not location and required and not any(name in site.get("properties", {}) for site in sites):
        raise LocationError(at, "required", f"the required {name!r} has no schema, so add it to properties")
    site = next((site for site in location if name in site.pointer.rpartition("/")[2]), None)
    node = to.transform(location, site.pointer if site else f"{at}/properties/{name}")
    if node is None or required:
        return None if node is None else Property(node)
    return _optional(node, location, to)


def _optional(node: Node, location: Location, to: Transformer) -> Property:
    """Create an optional property. If the provider requires all properties, null means that the property is absent."""
    takes_null = not location or to.takes_null(location)
    if not to.rules.all_required:
        return Property(node, optional=True, absent=True, takes_null=takes_null)
    if not location or not takes_null:
        return Property(node, optional=True)
    defaults = [site.get("default") for site in to.reader.together(location) if "default" in site]
    null = to.null
    if not null:
        if defaults and all(default is None for default in defaults):
            return Property(node, optional=True)
        to.weaken(location[0], "default", NULL_LOST)
    schema = {keyword: value for keyword, value in node.schema.items() if keyword != "description"}
    words = [node.schema.get("description", ""), null_words(null)]
    return Property(node.with_schema(describe(schema, [], words, [])), optional=True, null=null)


def _property(rule: Site, name: str) -> Iterator[Site]:
    if name in rule.get("properties", {}):
        yield rule.under("properties", name)
    elif "additionalProperties" in rule:
        yield rule.under("additionalProperties")


def _map(sites: Sequence[Site], at: str, to: Transformer, *, bare: bool) -> Node | None:
    """Create the node for the undeclared properties as pairs. Return None if the object has none.

    Raises:
        LocationError: If the undeclared properties accept any value, or if their schemas depend on their names.
    """
    others = [site.under("additionalProperties") for site in sites if "additionalProperties" in site]
    closed = any(other.schema is False for other in others)
    location = () if closed else tuple(others)
    name = Site(f"{at}/propertyNames/type", {"type": "string"})
    patterns = [(site, pattern) for site in sites for pattern in site.get("patternProperties", {})]
    if patterns:
        site, pattern = patterns[0]
        declared = site.get("properties") or site.get("required")
        if len(patterns) > 1 or len(sites) > 1 or location or declared or not is_plain(pattern):
            reason = "the schemas of values depend on the names, so declare one schema for all names"
            raise LocationError(site.pointer, "patternProperties", reason)
        location = (site.under("patternProperties", pattern),)
        name = Site(f"{location[0].pointer}/name", {"type": "string", "pattern": pattern})
    elif not closed:
        _hold_described(sites, location, at)
    value = to.transform(location, location[0].pointer) if location else None
    if value is None:
        return None
    keys = tuple(site.under("propertyNames") for site in sites if "propertyNames" in site)
    key = to.transform((name, *keys), f"{at}/propertyNames")
    if key is None:
        return None
    # Pairs can have the same name, so the lower bound is at most 1.
    least, most = tightest(sites, "minProperties", max), tightest(sites, "maxProperties", min)
    bounds = {"minItems": min(least, 1) if least else None, "maxItems": most} if bare else {}
    return map_node(key, value, {keyword: bound for keyword, bound in bounds.items() if bound is not None})


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


def _counts(sites: Sequence[Site], needed: int, named: int | None, to: Transformer, *, carried: bool) -> Iterator[str]:
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


def _conditions(sites: Sequence[Site], names: Sequence[str], to: Transformer) -> Iterator[str]:
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
                yield to.set_aside(site, keyword)
