"""Nodes: a strict schema, and the ways between its values and those of the original.

A way that changes nothing is None: values that need no mapping are not copied.

>>> pairs = map_node(Node({"type": "string"}), Node({"type": "integer"}), {})
>>> pairs.back([{"0": "a", "1": 1}]), pairs.forth({"a": 1})
({'a': 1}, [{'0': 'a', '1': 1}])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.schema.data import is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import Site
from fxai.schema.parsing import holds_nested, may_be_nested, parse_json

__all__ = [
    "DEFS",
    "NULL",
    "REST",
    "Member",
    "NoForm",
    "Node",
    "Way",
    "annotations_of",
    "any_node",
    "array_node",
    "describe",
    "keyword_words",
    "length_words",
    "map_node",
    "null_words",
    "number_words",
    "object_node",
    "reference_node",
    "tuple_node",
]


_LONGEST: Final = 400


def describe(
    schema: dict[str, Any], first: Sequence[str], words: Sequence[str], checks: Sequence[str]
) -> dict[str, Any]:
    """The schema with a description: of the rewritten form, of the original, and of what is checked afterwards."""
    parts = [*first, *words, " and ".join(checks)]
    text = ""
    for part in filter(None, dict.fromkeys(parts)):
        link = "" if not text else " " if text.rstrip().endswith((".", "!", "?", ":")) else "; "
        text += link + part
    if not text:
        return schema
    kind = {"type": schema["type"]} if "type" in schema else {}
    return {**kind, "description": text, **{keyword: value for keyword, value in schema.items() if keyword != "type"}}


def annotations_of(sites: Sequence[Site]) -> tuple[str | None, list[str]]:
    """The title, and the sentences that the annotations of schemas become."""
    titles = [site.get("title") for site in sites if isinstance(site.get("title"), str)]
    words = [text for site in sites if isinstance(text := site.get("description"), str) and text]
    for site in sites:
        words += _beside(site)
    return (titles[0] if titles else None), words


def _beside(site: Site) -> Iterator[str]:
    if site.get("default") is not None:
        yield f"default: {_json(site.get('default'))}"
    if site.get("examples"):
        yield f"examples: {', '.join(map(_json, site.get('examples')))}"
    if site.get("deprecated") is True:
        yield "deprecated"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def length_words(least: int | None, most: int | None) -> Iterator[str]:
    """The words for bounds of a length."""
    if least:
        yield f"a value with a length of at least {least}"
    if most is not None:
        yield f"a value with a length of at most {most}"


def number_words(low: Any, above: Any, high: Any, below: Any, steps: Sequence[Any]) -> Iterator[str]:
    """The words for bounds of a number: at least, above, at most, below, and multiples."""
    if low is not None and high is not None:
        yield f"a value between {low} and {high}"
    elif low is not None:
        yield f"a value greater than or equal to {low}"
    elif high is not None:
        yield f"a value less than or equal to {high}"
    if above is not None:
        yield f"a value greater than {above}"
    if below is not None:
        yield f"a value less than {below}"
    for step in steps:
        yield f"a value that is a multiple of {step}"


def null_words(mark: str) -> str:
    """The words for null at a property that may be left out; `mark` names what stands for a null of its own."""
    if not mark:
        return "null is taken as left out, not as a null"
    return f'null is taken as left out, {{"{mark}": true}} as a null'


def keyword_words(keyword: str, value: Any) -> str:
    """The words for any other keyword: the keyword itself, where it is short."""
    if keyword == "uniqueItems":
        return "no two items alike"
    text = f"JSON Schema {keyword}: {_json(value)}"
    return text if len(text) <= _LONGEST else ""


Way: TypeAlias = Callable[[Any], Any] | None
"""From a value to a value; None leaves it as it is."""

DEFS: Final = "#/$defs/"
"""Where references lead."""

REST: Final = "__rest__"
"""The property that holds what has no name of its own."""

NULL: Final = "__null__"
"""The property of the object that stands for a null, where null itself stands for what is left out."""

_TUPLE: Final = (
    "Tuple encoded as an object with numeric string keys ('0', '1', ...). If present, '__rest__' contains remaining "
    "elements"
)
_PAIRS: Final = "Object encoded as array of [key, value] pairs. Apply object constraints to the decoded object"


class NoForm(Exception):
    """A value has no strict form by this node: its pointer, and why."""


@final
class Node:
    """A strict schema; `back` leads from its instances to those of the original, `forth` the other way.

    Both are there or neither is. `forth` raises `NoForm` for a value that is not of the node's shape. `note` describes
    the rewrite, and `checks` the keywords that are not enforced; both become part of the description.
    """

    __slots__ = ("back", "checks", "forth", "note", "schema")

    def __init__(
        self, schema: dict[str, Any], back: Way = None, forth: Way = None, note: str = "", checks: Sequence[str] = ()
    ) -> None:
        self.schema = schema
        self.back = back
        self.forth = forth
        self.note = note
        self.checks = tuple(checks)

    def with_schema(self, schema: dict[str, Any]) -> Node:
        """The same ways with another schema, which has its description already."""
        return Node(schema, self.back, self.forth)

    def with_checks(self, checks: Sequence[str]) -> Node:
        """The same node with more checks in words."""
        return Node(self.schema, self.back, self.forth, self.note, (*self.checks, *checks))


def _through(way: Way, value: Any) -> Any:
    return value if way is None else way(value)


class Member(NamedTuple):
    """A property: what it takes, whether it may be left out, and the name that marks a null of its own.

    An optional property is null where it is left out. `null` is empty where it has no null beside that one; else the
    object with this one property, which is true, stands for it.
    """

    node: Node
    optional: bool = False
    null: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """What is sent of it."""
        if not self.optional:
            return self.node.schema
        marker = _closed_object({self.null: {"type": "boolean", "enum": [True]}}) if self.null else None
        return _nullable(self.node.schema, marker)

    @property
    def back(self) -> Way:
        """The way from a strict value that is there."""
        return self._from_marker if self.null else self.node.back

    def _from_marker(self, item: Any) -> Any:
        return None if is_object(item) and item == {self.null: True} else _through(self.node.back, item)

    def forth(self, there: bool, item: Any) -> Any:
        """The strict value of an item, or of none."""
        if item is not None or not self.optional:
            return _through(self.node.forth, item)
        return {self.null: True} if there and self.null else None


def _map_text(value: Any, way: Callable[[Any], Any]) -> Any:
    """Text that holds JSON where a container belongs: the value in it is mapped back, and stays text."""
    if not isinstance(value, str) or not may_be_nested(value):
        return value
    parsed = parse_json(value)
    if not isinstance(parsed, Success):
        return value
    read = parsed.unwrap()
    led = way(read)
    return value if led == read else msgspec.json.encode(led).decode()


def object_node(members: Mapping[str, Member], rest: tuple[str, Node] | None) -> Node:
    """An object with these properties, and the property that holds all others."""
    schemas = {name: member.schema for name, member in members.items()}
    if rest is None and not any(member.optional or member.node.back for member in members.values()):
        return Node(_closed_object(schemas))
    schema = _closed_object(schemas if rest is None else {**schemas, rest[0]: rest[1].schema})
    ways = {name: (member.back, member.optional) for name, member in members.items()}
    unknown: tuple[Way, bool] = (None, False)

    def back(value: Any) -> Any:
        if not is_object(value):
            return _map_text(value, back)
        found: dict[str, Any] = {}
        for name, item in value.items():
            way, optional = ways.get(name, unknown)
            if item is not None or not optional:
                found[name] = item if way is None else way(item)
        return found if rest is None else _unrest(found, rest, members)

    return Node(schema, back, lambda value: _forth(value, members, rest))


def _forth(value: Any, members: Mapping[str, Member], rest: tuple[str, Node] | None) -> Any:
    """The strict form of an object: what it leaves out is null."""
    if not is_object(value):
        raise NoForm("is no object")
    others = {name: item for name, item in value.items() if name not in members}
    if rest is None and others:
        raise NoForm(f"has the property {next(iter(others))!r}, which is not declared")
    found = {name: member.forth(name in value, value.get(name)) for name, member in members.items()}
    return found if rest is None else {**found, rest[0]: _through(rest[1].forth, others)}


def _unrest(found: dict[str, Any], rest: tuple[str, Node], members: Mapping[str, Any]) -> dict[str, Any]:
    """The properties with those that the rest holds; a declared property is not overwritten by one of the rest."""
    name, node = rest
    others = _through(node.back, found.get(name, []))
    if not is_object(others):
        return found
    kept = {key: item for key, item in found.items() if key != name}
    return {**kept, **{key: item for key, item in others.items() if key not in members and key not in kept}}


def map_node(key: Node, value: Node, bounds: Mapping[str, int]) -> Node:
    """Free names with values of one kind, as an array of pairs."""

    def back(pairs: Any) -> Any:
        if is_object(pairs):
            return {name: _through(value.back, item) for name, item in pairs.items()}
        if not is_array(pairs) or not all(is_object(pair) and pair.keys() == {"0", "1"} for pair in pairs):
            return _map_text(pairs, back)
        return {str(pair["0"]): _through(value.back, pair["1"]) for pair in pairs}

    def forth(mapping: Any) -> Any:
        if not is_object(mapping):
            raise NoForm("is no object")
        return [{"0": name, "1": _through(value.forth, item)} for name, item in mapping.items()]

    pair = _closed_object({"0": key.schema, "1": value.schema}, note=_TUPLE)
    return Node({"type": "array", "items": pair, **bounds}, back, forth, _PAIRS)


def array_node(item: Node, bounds: Mapping[str, int]) -> Node:
    """An array with items of one kind."""
    schema = {"type": "array", "items": item.schema, **bounds}
    way_back, way_forth = item.back, item.forth
    if way_back is None or way_forth is None:
        return Node(schema)

    def back(value: Any) -> Any:
        return [way_back(one) for one in value] if is_array(value) else _map_text(value, back)

    def forth(value: Any) -> Any:
        if not is_array(value):
            raise NoForm("is no array")
        return [way_forth(one) for one in value]

    return Node(schema, back, forth)


def tuple_node(items: Sequence[Node], rest: Node | None) -> Node:
    """An array of so many items, each of its own kind, as an object; `rest` is the array of those behind them."""
    size = len(items)

    def back(value: Any) -> Any:
        if not is_object(value) or any(str(index) not in value for index in range(size)):
            return _map_text(value, back)
        first = [_through(item.back, value[str(index)]) for index, item in enumerate(items)]
        others: Any = [] if rest is None else _through(rest.back, value.get(REST, []))
        return [*first, *others] if is_array(others) else value

    def forth(value: Any) -> Any:
        if not is_array(value) or len(value) < size or (rest is None and len(value) > size):
            raise NoForm(f"is no array of {size} items")
        found = {str(index): _through(item.forth, value[index]) for index, item in enumerate(items)}
        return found if rest is None else {**found, REST: _through(rest.forth, value[size:])}

    members: dict[str, Any] = {str(index): item.schema for index, item in enumerate(items)}
    if rest is not None:
        members[REST] = rest.schema
    return Node(_closed_object(members), back, forth, _TUPLE)


def _closed_object(members: Mapping[str, Any], note: str = "") -> dict[str, Any]:
    words = {"description": note} if note else {}
    required = {"required": list(members)} if members else {}
    return {"type": "object", **words, "properties": dict(members), **required, "additionalProperties": False}


def _nullable(schema: dict[str, Any], marker: dict[str, Any] | None) -> dict[str, Any]:
    """The schema or null, which stands for what is left out, or the marker of a null; its words stay in front."""
    if schema.get("type") == "null" and marker is None:
        return schema
    words: dict[str, Any] = {word: schema[word] for word in ("title", "description") if word in schema}
    bare = {keyword: value for keyword, value in schema.items() if keyword not in words}
    alternatives: list[Any] = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    with_null = any(alternative.get("type") == "null" for alternative in alternatives)
    if with_null and marker is None:
        return schema
    added = [*([] if marker is None else [marker]), *([] if with_null else [{"type": "null"}])]
    return {**words, "anyOf": [*alternatives, *added]}


@final
class Fit:
    """Whether a strict value is an instance of a branch: by its type first, then by the schema."""

    __slots__ = ("_defs", "_document", "_kinds", "_schema")

    def __init__(self, schema: dict[str, Any], defs: Mapping[str, Node]) -> None:
        self._schema = schema
        self._defs = defs
        self._kinds: frozenset[str] | None = None
        self._document: JsonSchema | None = None

    def may(self, value: Any) -> bool:
        """Whether a value is of a kind that the branch takes."""
        if self._kinds is None:
            self._kinds = frozenset(self._kinds_of(self._schema, set()))
        return _kind(value) in self._kinds

    def _kinds_of(self, schema: dict[str, Any], seen: set[str]) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(DEFS)
            if name not in seen:
                yield from self._kinds_of(self._defs[name].schema, {*seen, name})
        for branch in schema.get("anyOf", ()):
            yield from self._kinds_of(branch, seen)
        if "type" in schema:
            yield "number" if schema["type"] == "integer" else schema["type"]

    def __call__(self, value: Any) -> bool:
        """Whether a value is an instance of the branch."""
        return self.may(value) and not self._whole().validate(value)

    def once_read(self, value: Any) -> bool:
        """Whether a value would be an instance of the branch, were JSON text in it parsed."""
        from fxai.schema.nested_text import read_texts  # no model that keeps to the schema comes here

        return not self._whole().validate(read_texts(self._whole(), value)[0])

    def _whole(self) -> JsonSchema:
        if self._document is None:
            defs = {name: node.schema for name, node in self._defs.items()}
            self._document = JsonSchema.trust({**self._schema, "$defs": defs})
        return self._document


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if is_object(value):
        return "object"
    return "array" if is_array(value) else "null" if value is None else "string"


def any_node(branches: Sequence[Node], defs: Mapping[str, Node]) -> Node:
    """One of several; which one a value is of is found by their schemas, in order."""
    schema = {"anyOf": [branch.schema for branch in branches]}
    if all(branch.back is None for branch in branches):
        return Node(schema)
    choices = [(branch, Fit(branch.schema, defs)) for branch in branches]

    def back(value: Any) -> Any:
        possible = [choice for choice in choices if choice[1].may(value)]
        for branch, fit in possible:
            if len(possible) == 1 or fit(value):
                return _through(branch.back, value)
        return _by_text(possible, value) if possible else _map_text(value, back)

    def forth(value: Any) -> Any:
        for branch, fit in choices:
            try:
                candidate = _through(branch.forth, value)
            except NoForm:
                continue
            if fit(candidate):
                return candidate
        raise NoForm("fits none of the alternatives")

    return Node(schema, back, forth)


def _by_text(possible: Sequence[tuple[Node, Fit]], value: Any) -> Any:
    """The value by the one branch that it fits once JSON text in it is read, where there is one."""
    fitting = [branch for branch, fit in possible if fit.once_read(value)] if holds_nested(value) else []
    return _through(fitting[0].back, value) if len(fitting) == 1 else value


def reference_node(name: str, nodes: Mapping[str, Node]) -> Node:
    """What is defined under a name, which may not be known yet."""

    def back(value: Any) -> Any:
        return _through(nodes[name].back, value)

    def forth(value: Any) -> Any:
        return _through(nodes[name].forth, value)

    schema = {"$ref": DEFS + name}
    known = nodes.get(name)
    return Node(schema) if known is not None and known.back is None else Node(schema, back, forth)
