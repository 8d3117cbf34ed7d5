"""The strict form of a document: the schema that is sent, what it cannot express, and the ways between their values.

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
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, TypeAlias, final

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

_Key: TypeAlias = frozenset[tuple[str, frozenset[str]]]

_MOST_BRANCHES: Final = 64
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_AMBIGUOUS: Final = "alternatives of which one strict value could be two: say a property that tells them apart"
_STANDING_IN: Final = Node({"type": "null"})


@final
class Transformer:
    """One transformation: definitions, obstacles and weakenings so far, and the places being read."""

    def __init__(self, document: Any, rules: StrictRules, *, explicit_null: bool = False) -> None:
        self.reader: DocumentReader = DocumentReader(document)
        self.rules = rules
        self.null: str = _free_name(document) if explicit_null else ""
        """The property that marks a null beside the one for absence; empty where they are not distinguished."""
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
        """The node of the whole document; None when nothing can be an instance of it. `unsupported` is filled.

        Raises:
            ExhaustedError: there is too much of it to go on.
        """
        node = self.location((self.reader.root,), "")
        if self._overlaps.open:  # a definition was not known when it was compared: all are now
            overlaps = Overlaps(self.nodes)
            for at, nodes in self._unions:
                if any(overlaps.clash(one, other) for one, other in combinations(nodes, 2)):
                    self.unsupported[UnsupportedFeature(at, "anyOf", _AMBIGUOUS)] = None
        if node is None or "$ref" not in node.schema:
            return node
        return node.with_schema(self.nodes[node.schema["$ref"].removeprefix(DEFS)].schema)

    def weaken(self, site: Site, keyword: str, reason: str) -> None:
        """Note that a keyword is not enforced by the provider."""
        self.weakened[Weakening(site.pointer, keyword, reason)] = None

    def is_root(self, at: str) -> bool:
        """Whether a place is the root, where providers want an object."""
        return at == ""

    # -- places

    def location(self, location: Location, at: str) -> Node | None:
        """The node of a place; None when no value fits. `at` is its pointer, for messages."""
        try:
            return descend(lambda: self._definition(location, at))
        except LocationError as error:
            self.unsupported[UnsupportedFeature(error.pointer, error.keyword, error.reason)] = None
            return _STANDING_IN

    def _definition(self, location: Location, at: str) -> Node | None:
        """The node of a place: a reference where the place is one, or contains itself."""
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
        """A reference with annotations beside it, which no provider takes: its target, with these annotations."""
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
        """The number of values in a schema that was made; shared parts count each time."""
        if not (is_object(schema) or is_array(schema)):
            return 0
        known = self._sizes.get(id(schema))
        if known is None:
            inside: Iterable[Any] = schema.values() if is_object(schema) else schema
            known = self._sizes[id(schema)] = (schema, 1 + sum(map(self.size, inside)))
        return known[1]

    def _refers(self, name: str) -> bool:
        """Whether a definition refers to itself."""
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
        """A place that contains itself."""
        if not self.rules.recursive:
            site = location[0]
            raise LocationError(at or site.pointer, "$ref", f"refers to itself, which {self.rules.name} does not take")
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
        """The node with its note and checks in its description."""
        return node.with_schema(describe(node.schema, [node.note], [], node.checks))

    def _union(self, sites: Sequence[Site], site: Site, keyword: str, at: str) -> Node | None:
        branches = [site.under(keyword, index) for index in range(len(site.get(keyword)))]
        if keyword == "oneOf" and len(branches) > 1:
            self.weaken(site, "oneOf", "sent as anyOf")
        rest = tuple((s.without(keyword) if s is site else s).without("$ref", "allOf") for s in sites)
        beside = tuple(filter(self.reader.holds, rest))
        if beside and self._only_narrows(beside, branches, at):
            self.weaken(site, keyword, f"{self.rules.name} takes no union here")
            words = keyword_words(keyword, site.get(keyword))
            node = self._conjunction(rest, at)
            return None if node is None else node.with_schema(describe(node.schema, [], [], [words]))
        # Their annotations stand once, outside of the union.
        bare = tuple(site.without(*ANNOTATIONS) for site in beside)
        found = [self.location((*bare, branch), branch.pointer) for branch in branches]
        nodes = [node for node in found if node is not None]
        if self.is_root(at) and len(nodes) > 1:
            raise LocationError(at, keyword, "a union at the root: providers take one object there")
        if len(nodes) <= 1:
            return nodes[0] if nodes else None
        return self._any(nodes, at)

    def _only_narrows(self, beside: Location, branches: Sequence[Site], at: str) -> bool:
        """Whether the branches only narrow what stands beside them, where they cannot be opened."""
        if not self.is_root(at) and len(branches) <= _MOST_BRANCHES:
            return False
        known = {name for site in beside for name in self.reader.declared_names(site)}
        return all(self.reader.declared_names(branch) <= known for branch in branches)

    def _by_type(self, sites: Sequence[Site], at: str) -> Node | None:
        values, types = values_of(sites), listed_types(sites)
        if self.is_root(at) and (types != ["object"] or values is not None):
            raise LocationError(at, "type", "providers take an object at the root")
        if values is not None:
            nodes = value_nodes(values, types)
        elif types is None:
            raise LocationError(at, "type", "says no type, so that anything may be there")
        else:
            nodes = [node for t in types if (node := self._of_type(t, sites, at)) is not None]
        asides = list(self._asides(sites))
        if len(nodes) <= 1:
            return nodes[0].with_checks(asides) if nodes else None
        return self._any([self.with_words(node) for node in nodes], at).with_checks(asides)

    def _any(self, nodes: Sequence[Node], at: str) -> Node:
        """One of several nodes, of which each value is only one."""
        distinct = _distinct(self._overlaps.distinguish(nodes))
        self._unions.append((at, distinct))
        return distinct[0] if len(distinct) == 1 else any_node(distinct, self.nodes)

    def _asides(self, sites: Sequence[Site]) -> Iterator[str]:
        """Keywords that no provider supports for any type: noted, and put into the description."""
        for site in sites:
            if "not" in site:
                self.weaken(site, "not", f"{self.rules.name} cannot say what a value must not be")
                yield keyword_words("not", site.get("not"))
            if "if" in site and ("then" in site or "else" in site):
                self.weaken(site, "if", f"{self.rules.name} has no such keyword")
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
    """A property name that appears nowhere in the document."""
    text, name = msgspec.json.encode(document).decode(), NULL
    while name in text:
        name = f"_{name}_"
    return name


def _whole(value: Any) -> Any:
    """An integer of draft 4, where `3.0` is none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, those of one schema once."""
    return list({_SORTED(node.schema): node for node in reversed(nodes)}.values())[::-1]


def resolve_strict(annotation: bool | None, config: bool | None, default: bool | None) -> bool | None:
    """The strict flag of one tool; None where it is left out of the request.

    Args:
        annotation: the tool's annotation `Strict`; None without it.
        config: the provider's setting `strict_json_schema`; None where it is not set.
        default: the provider's default; None where the model has no strict mode, so that the flag is not sent.
    """
    if default is None:
        return None
    if annotation is not None:
        return annotation
    return default if config is None else config


_LARGEST: Final = 5 * MAX_LOCATIONS
_BEYOND: Final = f"its strict form takes more than {MAX_LOCATIONS} steps: say fewer alternatives, or split the tool"


@final
class StrictForm:
    """A document that a provider takes in strict mode, made of another one.

    Every instance of `document`, led `back`, is an instance of `relaxed`. Every instance of `original` without
    undeclared properties has a form by `forth` that leads back to it: exactly with `explicit_null`, else up to null
    and absence where an optional property itself admits null (see `weakened`, unless null is its default).
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
        """The document as it was given."""
        self.explicit_null: bool = explicit_null
        """Whether a null and a property that is left out are distinguished."""
        self.document: JsonSchema = document
        """The document that is sent."""
        self.weakened: tuple[Weakening, ...] = weakened
        """What of the original the provider does not enforce; values are validated by the original anyway."""
        self._node = node
        self._relaxed: JsonSchema | None = None

    @property
    def relaxed(self) -> JsonSchema:
        """The original without what was weakened; no request needs it, so it is made when it is first asked for."""
        if self._relaxed is None:
            self._relaxed = without_weakenings(self.original, self.weakened)
        return self._relaxed

    def back(self, value: Any) -> Any:
        """The value of the original for a strict one; what it does not recognise stays as it is."""
        way = self._node.back
        return value if way is None else with_stack(lambda: way(value))

    def forth(self, value: Any) -> Result[Any, DecodeFailure]:
        """The strict value for one of the original; fails where there is none."""
        way = self._node.forth
        try:
            candidate = value if way is None else with_stack(lambda: way(value))
        except NoFormError as none:
            return Failure(DecodeFailure((Fault("", f"a value that has a strict form ({none})", found_in(value)),)))
        faults = self.document.validate(candidate)
        return Failure(DecodeFailure(faults)) if faults else Success(candidate)

    def __repr__(self) -> str:
        return f"StrictForm({self.document!r}, weakened={[str(one) for one in self.weakened]})"


@lru_cache(maxsize=2048)
def strict_form(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool = False
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    """The strict form of a document by a provider's rules, made once; else every obstacle, with pointer and keyword.

    Args:
        document: the JSON Schema, of a tool's parameters for example.
        rules: the provider's rules.
        explicit_null: distinguish a null from absence, in each optional property that admits null: null is sent for
            what is left out, and `{"__null__": true}` for a null. Otherwise both are null, and lead back to left out.
    """
    return with_stack(lambda: _transform(document, rules, explicit_null=explicit_null))


def _transform(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    plain = document.to_dict()
    if not is_object(plain):
        return Failure((UnsupportedFeature("", "schema", "providers take an object at the root"),))
    to = Transformer(plain, rules, explicit_null=explicit_null)
    try:
        node = to.convert()
    except ExhaustedError as error:
        return Failure((UnsupportedFeature(str(error), "schema", _BEYOND),))
    if node is None:
        return Failure(
            tuple(to.unsupported) or (UnsupportedFeature("", "schema", "no value can be an instance of it"),)
        )
    if to.unsupported:
        return Failure(tuple(to.unsupported))
    defs = {name: one.schema for name, one in to.nodes.items()}
    strict = {**node.schema, "$defs": defs} if defs else node.schema
    if to.size(strict) > _LARGEST:
        return Failure((UnsupportedFeature("", "schema", _BEYOND),))
    refused = tuple(
        UnsupportedFeature(fault.pointer, "schema", f"its strict form: {fault}") for fault in rule_faults(strict, rules)
    )
    if refused:
        return Failure(refused)
    sent = JsonSchema.trust(strict)
    return Success(StrictForm(document, sent, tuple(to.weakened), node, explicit_null=explicit_null))


def without_weakenings(original: JsonSchema, weakened: tuple[Weakening, ...]) -> JsonSchema:
    """Return the document without the weakened keywords."""
    document = original.to_dict()
    for one in sorted(weakened, key=lambda one: one.pointer.count("/"), reverse=True):  # the innermost first
        schema = document
        for token in pointer_tokens(one.pointer):
            schema = schema[int(token)] if is_array(schema) else schema[token]
        if one.keyword == "oneOf" and one.reason == "sent as anyOf":
            schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
        else:
            schema.pop(one.keyword, None)
    return JsonSchema.trust(document)
