"""From a JSON Schema to what a provider takes in strict mode, with the ways between the values of both.

A document is read place by place. At each place the schemas that hold together are one flat conjunction; unions are
opened where something stands beside them; then each type is built by its own rules. What the provider cannot carry is
noted and said in words; what it cannot do without is an obstacle. All obstacles are found, not the first alone.

>>> from fxai.schema.strict.rules import OPENAI
>>> Transformer({"type": "object", "properties": {"a": {"type": "integer"}}}, OPENAI).convert().schema["required"]
['a']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import descend
from fxai.schema.data import is_array, is_object
from fxai.schema.pattern import Matcher
from fxai.schema.strict.array import array_form
from fxai.schema.strict.descriptions import described, said_of, told_keyword
from fxai.schema.strict.location import TOLD, Obstacle, Place, Reader, Site, StrictError, Weakening
from fxai.schema.strict.node import DEFS, NULL, Node, any_node, reference_node
from fxai.schema.strict.object import object_form
from fxai.schema.strict.rules import StrictRules
from fxai.schema.strict.scalar import listed_types, number_node, string_node, value_nodes, values_of

__all__ = ["Transformer"]

_Key: TypeAlias = frozenset[tuple[str, frozenset[str]]]

_MOST_BRANCHES: Final = 64
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_STANDING_IN: Final = Node({"type": "null"})


@final
class Transformer:
    """One transformation: what was found so far, and what is being looked at."""

    def __init__(self, document: Any, rules: StrictRules, *, explicit_null: bool = False) -> None:
        self.reader = Reader(document)
        self.rules = rules
        self.null = _free_name(document) if explicit_null else ""
        """The property that marks a null beside the one for what is left out; empty where they are not told apart."""
        self.nodes: dict[str, Node] = {}
        self.obstacles: dict[Obstacle, None] = {}
        self.weakened: dict[Weakening, None] = {}
        self.matcher = Matcher()
        self._sizes: dict[int, tuple[object, int]] = {}
        self._recursive: dict[str, bool] = {}
        self._open: dict[_Key, str | None] = {}
        self._done: dict[_Key, Node | None] = {}

    def convert(self) -> Node | None:
        """The whole document; None when nothing can be an instance of it. See `obstacles` for what stands against.

        Raises:
            Exhausted: there is too much of it to go on.
        """
        node = self.place((self.reader.root,), "")
        if node is None or "$ref" not in node.schema:
            return node
        return node.saying(self.nodes[node.schema["$ref"].removeprefix(DEFS)].schema)

    def weaken(self, site: Site, keyword: str, reason: str) -> None:
        """Note that a keyword is not carried."""
        self.weakened[Weakening(site.pointer, keyword, reason)] = None

    def is_root(self, at: str) -> bool:
        """Whether a place is the root, where providers want an object."""
        return at == ""

    # -- places

    def place(self, place: Place, at: str) -> Node | None:
        """What a place takes; None when nothing can be there. `at` is where it stands, for messages."""
        try:
            return descend(lambda: self._named(place, at))
        except StrictError as error:
            self.obstacles[error.obstacle] = None
            return _STANDING_IN

    def _named(self, place: Place, at: str) -> Node | None:
        """What a place takes: a reference where it is one, or where the place comes back to itself."""
        name: str | None = None
        if len(place) == 1 and self.reader.has_words_only(place[0]) and not self.reader.alone(place[0]):
            return self._retold(place[0], at)
        while len(place) == 1 and self.reader.alone(place[0]):
            place = (self.reader.follow(place[0]),)
            name = place[0].pointer.rpartition("/")[2] or "root"
        key: _Key = frozenset(site.key for site in place)
        if key in self._done:
            known = self._done[key]
            self.reader.steps.take(at, 1 if known is None else self.size(known.schema))
            return known
        if key in self._open and place:
            return self._again(place, key, at)
        self._open[key] = None if name is None else self._free(name)
        try:
            node = self._flat(self.reader.together(place), at if name is None or at == "" else place[0].pointer)
        finally:
            name = self._open.pop(key)
        if node is not None and name is not None:
            self.nodes[name] = node
            node = reference_node(name, self.nodes)
        self._done[key] = node
        return node

    def _retold(self, site: Site, at: str) -> Node | None:
        """A reference with words beside it, which no provider's rule allows: what it names, with these words."""
        node = self._named((site.without(*(k for k in site.schema if k != "$ref")),), at)
        if node is None:
            return None
        name = str(node.schema.get("$ref", "")).removeprefix(DEFS)
        title, words = said_of([site])
        if name in self.nodes and not self._refers(name):
            self.reader.steps.take(at, self.size(self.nodes[name].schema))
            target = dict(self.nodes[name].schema)
            told = target.pop("description", "")
            target = {**target, "title": title} if title else target
            return node.saying(described(target, [], [*words, told], []))
        return node.saying(described({"anyOf": [node.schema]} if name else node.schema, [], words, []))

    def size(self, schema: Any) -> int:
        """How large a schema that was made is, those inside it counted as often as they stand there."""
        if not (is_object(schema) or is_array(schema)):
            return 0
        known = self._sizes.get(id(schema))
        if known is None:
            inside: Iterable[Any] = schema.values() if is_object(schema) else schema
            known = self._sizes[id(schema)] = (schema, 1 + sum(map(self.size, inside)))
        return known[1]

    def _refers(self, name: str) -> bool:
        """Whether what is defined under a name refers to itself."""
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

    def _again(self, place: Place, key: _Key, at: str) -> Node:
        """A place that comes back to itself."""
        if not self.rules.recursive:
            site = place[0]
            raise StrictError(at or site.pointer, "$ref", f"refers to itself, which {self.rules.name} does not take")
        name = self._open[key] or self._free(place[0].pointer.rpartition("/")[2] or "root")
        self._open[key] = name
        return reference_node(name, self.nodes)

    # -- conjunctions

    def _flat(self, sites: Sequence[Site], at: str) -> Node | None:
        self.reader.steps.take(at, len(sites))
        if any(site.schema is False for site in sites):
            return None
        sites = [site for site in sites if site.schema is not True]
        if any(site.get("not") in (True, {}) for site in sites if "not" in site):
            return None
        union = next(((site, k) for site in sites for k in ("anyOf", "oneOf") if k in site), None)
        node = self._typed(sites, at) if union is None else self._union(sites, *union, at)
        if node is None:
            return None
        title, words = said_of(sites)
        schema = {"title": title, **node.schema} if title is not None else node.schema
        return node.saying(described(schema, [node.told], words, node.checks))

    def with_words(self, node: Node) -> Node:
        """The node with its own words in its description."""
        return node.saying(described(node.schema, [node.told], [], node.checks))

    def _union(self, sites: Sequence[Site], site: Site, keyword: str, at: str) -> Node | None:
        branches = [site.under(keyword, index) for index in range(len(site.get(keyword)))]
        if keyword == "oneOf" and len(branches) > 1:
            self.weaken(site, "oneOf", "sent as anyOf")
        rest = tuple((s.without(keyword) if s is site else s).without("$ref", "allOf") for s in sites)
        beside = tuple(filter(self.reader.holds, rest))
        if beside and self._only_narrows(beside, branches, at):
            self.weaken(site, keyword, f"{self.rules.name} takes no union here")
            told = told_keyword(keyword, site.get(keyword))
            node = self._flat(rest, at)
            return None if node is None else node.saying(described(node.schema, [], [], [told]))
        kept = [node for b in branches if (node := self.place((*map(_unsaid, beside), b), b.pointer)) is not None]
        if self.is_root(at) and len(kept) > 1:
            raise StrictError(at, keyword, "a union at the root: providers take one object there")
        if len(kept) <= 1:
            return kept[0] if kept else None
        return any_node(_distinct(kept), self.nodes)

    def _only_narrows(self, beside: Place, branches: Sequence[Site], at: str) -> bool:
        """Whether the branches only narrow what stands beside them, where they cannot be opened."""
        if not self.is_root(at) and len(branches) <= _MOST_BRANCHES:
            return False
        known = {name for site in beside for name in self.reader.declared(site)}
        return all(self.reader.declared(branch) <= known for branch in branches)

    def _typed(self, sites: Sequence[Site], at: str) -> Node | None:
        values, types = values_of(sites), listed_types(sites)
        if self.is_root(at) and (types != ["object"] or values is not None):
            raise StrictError(at, "type", "providers take an object at the root")
        if values is not None:
            nodes = value_nodes(values, types)
        elif types is None:
            raise StrictError(at, "type", "says no type, so that anything may be there")
        else:
            nodes = [node for t in types if (node := self._of(t, sites, at)) is not None]
        asides = list(self._asides(sites))
        if len(nodes) <= 1:
            return nodes[0].checking(asides) if nodes else None
        return any_node([self.with_words(node) for node in nodes], self.nodes).checking(asides)

    def _asides(self, sites: Sequence[Site]) -> Iterator[str]:
        """What no provider carries for any type: it is noted, and said in words."""
        for site in sites:
            if "not" in site:
                self.weaken(site, "not", f"{self.rules.name} cannot say what a value must not be")
                yield told_keyword("not", site.get("not"))
            if "if" in site and ("then" in site or "else" in site):
                self.weaken(site, "if", f"{self.rules.name} has no such keyword")
                yield told_keyword("if", {k: site.get(k) for k in ("if", "then", "else") if k in site})

    def _of(self, kind: str, sites: Sequence[Site], at: str) -> Node | None:
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
                return Node(node.schema, _whole, _itself, checks=node.checks) if strange else node
            case _:
                return Node({"type": kind})


def _free_name(document: Any) -> str:
    """A name that no object of a document can have, since it is nowhere in the document."""
    text, name = msgspec.json.encode(document).decode(), NULL
    while name in text:
        name = f"_{name}_"
    return name


def _whole(value: Any) -> Any:
    """An integer as draft 4 has it, where `3.0` is none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _itself(value: Any) -> Any:
    return value


def _unsaid(site: Site) -> Site:
    """The same schema without its words, which are said once, outside of the union."""
    return site.without(*TOLD)


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, those of one schema once."""
    return list({_SORTED(node.schema): node for node in reversed(nodes)}.values())[::-1]
