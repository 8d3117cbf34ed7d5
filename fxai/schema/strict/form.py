"""The strict form of a document. Use this module to convert a schema and its values for strict mode.

>>> from fxai.schema.strict.rules import OPENAI
>>> page = JsonSchema.of({"type": "object", "properties": {"limit": {"type": "integer", "default": 9}}})
>>> form = strict_form(page, OPENAI).unwrap()
>>> form.document.get("properties")
{'limit': {'description': 'default: 9', 'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
>>> form.back({"limit": None}), form.forth({})
({}, <Success: {'limit': None}>)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.schema.budget import MAX_LOCATIONS, ExhaustedError, descend, with_stack
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, found_in, pointer_tokens
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import ANNOTATIONS, DocumentReader, Location, LocationError, Site
from fxai.schema.pattern import Matcher
from fxai.schema.strict.node import (
    DEFS,
    NULL,
    Node,
    NoFormError,
    annotations_of,
    describe,
    keyword_words,
    reference_node,
)
from fxai.schema.strict.rules import StrictRules, UnsupportedFeature, Weakening, rule_faults
from fxai.schema.strict.shapes import (
    array_form,
    listed_types,
    number_node,
    object_form,
    string_node,
    value_nodes,
    values_of,
)
from fxai.schema.strict.union import Overlaps, any_node

if TYPE_CHECKING:
    from fxai.schema.engine import Engine

_Key: TypeAlias = frozenset[tuple[str, frozenset[str]]]

_MOST_BRANCHES: Final = 64
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_AMBIGUOUS: Final = "a strict value can match two alternatives, so declare a property that distinguishes them"
_STANDING_IN: Final = Node({"type": "null"})


_AS_ANY_OF: Final = "sent as anyOf"
"""The reason of a weakening that keeps the alternatives of `oneOf`, but not that exactly one of them applies."""


@final
class Transformer:
    """A transformation of a document, with its definitions, unsupported features, and unenforced keywords so far."""

    def __init__(self, document: Any, rules: StrictRules, *, explicit_null: bool = False) -> None:
        self.reader: DocumentReader = DocumentReader(document)
        self.rules = rules
        self.null: str = _free_name(document) if explicit_null else ""
        """The name in the object that represents a real null. Empty if null and absence are not distinguished."""
        self.nodes: dict[str, Node] = {}
        self.unsupported: dict[UnsupportedFeature, None] = {}
        self.weakened: dict[Weakening, None] = {}
        self.matcher: Matcher = Matcher()
        self._overlaps = Overlaps(self.nodes)
        self._unions: list[tuple[str, Sequence[Node]]] = []
        self._sizes: dict[int, tuple[object, int]] = {}
        self._recursive: dict[str, bool] = {}
        self._open: dict[_Key, str | None] = {}
        self._done: dict[_Key, Node | None] = {}

    def convert(self) -> Node | None:
        """Return the node of the whole document, or None if it accepts no value. Collect `unsupported`.

        Raises:
            ExhaustedError: If the transformation needs too many steps. The argument is the location.
        """
        node = self.transform((self.reader.root,), "")
        if self._overlaps.open:  # compare again, because all definitions exist now
            overlaps = Overlaps(self.nodes)
            for at, nodes in self._unions:
                if any(overlaps.clash(one, other) for one, other in combinations(nodes, 2)):
                    self.unsupported[UnsupportedFeature(at, "anyOf", _AMBIGUOUS)] = None
        if node is None or "$ref" not in node.schema:
            return node
        return node.with_schema(self.nodes[node.schema["$ref"].removeprefix(DEFS)].schema)

    def weaken(self, site: Site, keyword: str, reason: str) -> None:
        """Record that the provider does not enforce a keyword."""
        self.weakened[Weakening(site.pointer, keyword, reason)] = None

    @cached_property
    def _engine(self) -> Engine:
        from fxai.schema.engine import Engine  # only an optional property needs the engine

        return Engine(self.reader.root.schema)

    def takes_null(self, location: Location) -> bool:
        """Return True if every schema of a value accepts null."""
        return all(self._engine.part(site.schema).accepts(None) for site in location)

    def is_root(self, at: str) -> bool:
        """Return True if a location is the root. Providers require an object at the root."""
        return at == ""

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
            return self._recursion(location, key, at)
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
        """Return the target of a reference with the annotations next to the `$ref`. Providers refuse them there."""
        node = self._definition((site.without(*(k for k in site.schema if k != "$ref")),), at)
        if node is None:
            return None
        name = str(node.schema.get("$ref", "")).removeprefix(DEFS)
        title, words = annotations_of([site])
        if name in self.nodes and not self._refers(name):
            self.reader.steps.take(self.size(self.nodes[name].schema), at)
            target = dict(self.nodes[name].schema)
            own = target.pop("description", "")
            target = {**target, "title": title} if title else target
            return node.with_schema(describe(target, [], [*words, own], []))
        return node.with_schema(describe({"anyOf": [node.schema]} if name else node.schema, [], words, []))

    def size(self, schema: Any) -> int:
        """Return the number of values in a strict schema. A shared part counts at each location."""
        if not (is_object(schema) or is_array(schema)):
            return 0
        known = self._sizes.get(id(schema))
        if known is None:
            inside: Iterable[Any] = schema.values() if is_object(schema) else schema
            known = self._sizes[id(schema)] = (schema, 1 + sum(map(self.size, inside)))
        return known[1]

    def _refers(self, name: str) -> bool:
        """Return True if a definition refers to itself."""
        if name not in self._recursive:
            self._recursive[name] = f'"{DEFS}{name}"' in str(self.nodes[name].schema).replace("'", '"')
        return self._recursive[name]

    def _free(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name) or "definition"
        taken = {*self.nodes, *self._open.values()}
        number = 2
        free = plain
        while free in taken:
            free, number = f"{plain}_{number}", number + 1
        return free

    def _recursion(self, location: Location, key: _Key, at: str) -> Node:
        """Return a reference for a place that contains itself."""
        if not self.rules.recursive:
            site = location[0]
            raise LocationError(at or site.pointer, "$ref", f"{self.rules.name} does not accept recursive schemas")
        name = self._open[key] or self._free(location[0].pointer.rpartition("/")[2] or "root")
        self._open[key] = name
        return reference_node(name, self.nodes)

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
        schema = {"title": title, **node.schema} if title is not None else node.schema
        return node.with_schema(describe(schema, [node.note], words, node.checks))

    def with_words(self, node: Node) -> Node:
        """Return the node with its note and its checks in the description."""
        return node.with_schema(describe(node.schema, [node.note], [], node.checks))

    def _union(self, sites: Sequence[Site], site: Site, keyword: str, at: str) -> Node | None:
        branches = [site.under(keyword, index) for index in range(len(site.get(keyword)))]
        if keyword == "oneOf" and len(branches) > 1:
            self.weaken(site, "oneOf", _AS_ANY_OF)
        rest = tuple((s.without(keyword) if s is site else s).without("$ref", "allOf") for s in sites)
        beside = tuple(filter(self.reader.holds, rest))
        if beside and self._only_narrows(beside, branches, at):
            self.weaken(site, keyword, f"{self.rules.name} does not accept a union here")
            words = keyword_words(keyword, site.get(keyword))
            node = self._conjunction(rest, at)
            return None if node is None else node.with_schema(describe(node.schema, [], [], [words]))
        # The annotations appear once, outside the union.
        bare = tuple(site.without(*ANNOTATIONS) for site in beside)
        found = [self.transform((*bare, branch), branch.pointer) for branch in branches]
        nodes = [node for node in found if node is not None]
        if self.is_root(at) and len(nodes) > 1:
            raise LocationError(at, keyword, "providers do not accept a union at the root, so declare one object")
        if len(nodes) <= 1:
            return nodes[0] if nodes else None
        return self._any(nodes, at)

    def _only_narrows(self, beside: Location, branches: Sequence[Site], at: str) -> bool:
        """Return True if fxai cannot merge the branches, and they add no properties to the keywords next to them."""
        if not self.is_root(at) and len(branches) <= _MOST_BRANCHES:
            return False
        known = {name for site in beside for name in self.reader.declared_names(site)}
        return all(self.reader.declared_names(branch) <= known for branch in branches)

    def _by_type(self, sites: Sequence[Site], at: str) -> Node | None:
        values, types = values_of(sites), listed_types(sites)
        if self.is_root(at) and (types != ["object"] or values is not None):
            raise LocationError(at, "type", "providers require an object at the root")
        if values is not None:
            nodes = value_nodes(values, types)
        elif types is None:
            raise LocationError(at, "type", "the schema accepts any value, so declare its type")
        else:
            nodes = [node for t in types if (node := self._of_type(t, sites, at)) is not None]
        asides = list(self._asides(sites))
        if len(nodes) <= 1:
            return nodes[0].with_checks(asides) if nodes else None
        return self._any([self.with_words(node) for node in nodes], at).with_checks(asides)

    def _any(self, nodes: Sequence[Node], at: str) -> Node:
        """Create the node of a union whose alternatives are distinguishable."""
        distinct = _distinct(self._overlaps.distinguish(nodes))
        self._unions.append((at, distinct))
        return distinct[0] if len(distinct) == 1 else any_node(distinct, self.nodes)

    def _asides(self, sites: Sequence[Site]) -> Iterator[str]:
        """Record the keywords that no provider supports for any type. Iterate over their descriptions."""
        for site in sites:
            if "not" in site:
                self.weaken(site, "not", f"{self.rules.name} does not support this keyword")
                yield keyword_words("not", site.get("not"))
            if "if" in site and ("then" in site or "else" in site):
                self.weaken(site, "if", f"{self.rules.name} does not support this keyword")
                yield keyword_words("if", {k: site.get(k) for k in ("if", "then", "else") if k in site})

    def _of_type(self, kind: str, sites: Sequence[Site], at: str) -> Node | None:
        match kind:
            case "object":
                return object_form(sites, at, self)
            case "array":
                return array_form(sites, at, self)
            case "string":
                return string_node(sites, self.rules, self.weaken)
            case "number" | "integer":
                node = number_node(kind, sites, self.rules, self.weaken)
                strange = kind == "integer" and self.reader.dialect.name == "draft-04"
                return Node(node.schema, _whole, lambda value: value, checks=node.checks) if strange else node
            case _:
                return Node({"type": kind})


def _free_name(document: Any) -> str:
    """Return a property name that does not appear in the document."""
    text, name = msgspec.json.encode(document).decode(), NULL
    while name in text:
        name = f"_{name}_"
    return name


def _whole(value: Any) -> Any:
    """Convert a whole number such as `3.0` to an integer, because draft 4 does not accept `3.0` as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes without duplicate schemas."""
    return list({_SORTED(node.schema): node for node in reversed(nodes)}.values())[::-1]


def resolve_strict(annotation: bool | None, config: bool | None, default: bool | None) -> bool | None:
    """Return the strict flag of one tool, or None if the request omits the flag.

    Args:
        annotation: The tool's annotation `Strict`, or None.
        config: The provider's setting `strict_json_schema`, or None.
        default: The provider's default, or None if the model has no strict mode.
    """
    if default is None:
        return None
    if annotation is not None:
        return annotation
    return default if config is None else config


_LARGEST: Final = 5 * MAX_LOCATIONS
_BEYOND: Final = (
    f"the strict form needs more than {MAX_LOCATIONS} steps, so declare fewer alternatives or split the tool"
)


@final
class StrictForm:
    """A document for strict mode, with the conversions of its values.

    Two laws apply to every strict form:

    - `back` converts every instance of `document` to an instance of `relaxed`.
    - `forth` converts every instance of `original` without undeclared properties to a strict value, and `back` returns
      the original value. Without `explicit_null`, a null can become an absent property if an optional property accepts
      null. `weakened` lists each such property, unless null is its default.
    """

    __slots__ = ("_node", "_relaxed", "document", "explicit_null", "original", "weakened")

    def __init__(
        self,
        original: JsonSchema,
        document: JsonSchema,
        weakened: tuple[Weakening, ...],
        node: Node,
        *,
        explicit_null: bool = False,
    ) -> None:
        self.original: JsonSchema = original
        """The original document."""
        self.explicit_null: bool = explicit_null
        """True if the form distinguishes a null from an absent property."""
        self.document: JsonSchema = document
        """The strict document for the request."""
        self.weakened: tuple[Weakening, ...] = weakened
        """The keywords that the provider does not enforce. fxai still validates values by the original document."""
        self._node = node
        self._relaxed: JsonSchema | None = None

    @property
    def relaxed(self) -> JsonSchema:
        """The original document without the weakened keywords. fxai creates it at the first use."""
        if self._relaxed is None:
            self._relaxed = without_weakenings(self.original, self.weakened)
        return self._relaxed

    @property
    def node(self) -> Node | None:
        """The conversion of the whole value by its members, or None if `back` changes no value."""
        return None if self._node.back is None else self._node

    @property
    def is_same(self) -> bool:
        """True if each value of the strict form is also the value of the original, so that `back` changes no value."""
        return self._node.back is None

    def back(self, value: Any) -> Any:
        """Convert a strict value to the original value. Parts that do not fit the strict document do not change."""
        way = self._node.back
        return value if way is None else with_stack(lambda: way(value))

    def forth(self, value: Any) -> Result[Any, DecodeFailure]:
        """Convert an original value to the strict value. A value without a strict form is a failure."""
        way = self._node.forth
        try:
            candidate = value if way is None else with_stack(lambda: way(value))
        except NoFormError as none:
            return Failure(DecodeFailure((Fault("", f"a value with a strict form ({none})", found_in(value)),)))
        faults = self.document.validate(candidate)
        return Failure(DecodeFailure(faults)) if faults else Success(candidate)

    def __repr__(self) -> str:
        return f"StrictForm({self.document!r}, weakened={[str(one) for one in self.weakened]})"


@lru_cache(maxsize=2048)
def strict_form(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool = False
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    """Return the strict form of a document for a provider. A document without a strict form is a failure.

    fxai caches the result. The failure contains every unsupported feature with its location and keyword.

    Args:
        document: The JSON Schema, for example of a tool's parameters.
        rules: The provider's rules.
        explicit_null: True to distinguish a null from an absent property, in each optional property that accepts null.
            Then null means that the property is absent, and `{"__null__": true}` means null. Otherwise, both are null
            in the strict form, and `back` removes the property. Default: False.
    """
    return with_stack(lambda: _transform(document, rules, explicit_null=explicit_null))


def _transform(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    plain = document.to_dict()
    if not is_object(plain):
        return Failure((UnsupportedFeature("", "schema", "providers require an object at the root"),))
    to = Transformer(plain, rules, explicit_null=explicit_null)
    try:
        node = to.convert()
    except ExhaustedError as error:
        return Failure((UnsupportedFeature(str(error), "schema", _BEYOND),))
    if node is None:
        return Failure(tuple(to.unsupported) or (UnsupportedFeature("", "schema", "the schema accepts no value"),))
    if to.unsupported:
        return Failure(tuple(to.unsupported))
    defs = {name: one.schema for name, one in to.nodes.items()}
    strict = {**node.schema, "$defs": defs} if defs else node.schema
    if to.size(strict) > _LARGEST:
        return Failure((UnsupportedFeature("", "schema", _BEYOND),))
    refused = tuple(
        UnsupportedFeature(fault.pointer, "schema", f"invalid strict form: {fault}")
        for fault in rule_faults(strict, rules)
    )
    if refused:
        return Failure(refused)
    sent = JsonSchema.trust(strict)
    return Success(StrictForm(document, sent, tuple(to.weakened), node, explicit_null=explicit_null))


def without_weakenings(original: JsonSchema, weakened: tuple[Weakening, ...]) -> JsonSchema:
    """Return the document without the weakened keywords."""
    document = original.to_dict()
    as_any_of = {one.pointer for one in weakened if one.reason == _AS_ANY_OF}
    as_any_of -= {one.pointer for one in weakened if one.keyword == "oneOf" and one.reason != _AS_ANY_OF}
    for one in sorted(weakened, key=lambda one: one.pointer.count("/"), reverse=True):  # inner schemas first
        schema = document
        for token in pointer_tokens(one.pointer):
            schema = schema[int(token)] if is_array(schema) else schema[token]
        if one.reason == _AS_ANY_OF and one.pointer in as_any_of:
            schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
        else:
            schema.pop(one.keyword, None)
    return JsonSchema.trust(document)
