"""Nodes: strict schemas, and the conversions between strict values and original values.

A conversion that changes nothing is None, so fxai does not copy values that need no conversion. Two alternatives of a
union are ambiguous if a strict value is an instance of both, and a conversion applies to one of them.

>>> pairs = map_node(Node({"type": "string"}), Node({"type": "integer"}), {})
>>> pairs.back([{"0": "a", "1": 1}]), pairs.forth({"a": 1})
({'a': 1}, [{'0': 'a', '1': 1}])
>>> Overlaps({}).may(object_node({}, None).schema, tuple_node([], None).schema)  # both accept {}
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.schema.budget import MAX_LOCATIONS, Work, descend
from fxai.schema.data import JsonObject, identity, is_array, is_listed, is_object
from fxai.schema.fault import kind_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import Site
from fxai.schema.parsing import holds_nested, may_be_nested, parse_json

_LONGEST: Final = 400


def describe(schema: JsonObject, first: Sequence[str], words: Sequence[str], checks: Sequence[str]) -> JsonObject:
    """Return the schema with a description of its rewrite, its original annotations, and its unenforced keywords."""
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
    """Return the first title of the schemas, and sentences with their other annotations."""
    titles = [site.get("title") for site in sites if isinstance(site.get("title"), str)]
    words = [text for site in sites if isinstance(text := site.get("description"), str) and text]
    for site in sites:
        if site.get("default") is not None:
            words.append(f"default: {_json(site.get('default'))}")
        if site.get("examples"):
            words.append(f"examples: {', '.join(map(_json, site.get('examples')))}")
        if site.get("deprecated") is True:
            words.append("deprecated")
    return (titles[0] if titles else None), words


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def length_words(least: int | None, most: int | None) -> Iterator[str]:
    """Describe the bounds of a length."""
    if least:
        yield f"a value with a length of at least {least}"
    if most is not None:
        yield f"a value with a length of at most {most}"


def number_words(low: object, above: object, high: object, below: object, steps: Sequence[object]) -> Iterator[str]:
    """Describe the inclusive and exclusive bounds of a number, and its `multipleOf`."""
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
    """Describe the meaning of null at an optional property. `mark` is the name in the object for a real null."""
    if not mark:
        return "null means that the property is absent"
    return f'null means that the property is absent, {{"{mark}": true}} means null'


def keyword_words(keyword: str, value: object) -> str:
    """Describe another keyword by its JSON. Return an empty string if the JSON is too long."""
    if keyword == "uniqueItems":
        return "no duplicate items"
    text = f"JSON Schema {keyword}: {_json(value)}"
    return text if len(text) <= _LONGEST else ""


Way: TypeAlias = Callable[[object], object] | None
"""A conversion of a value. None leaves the value unchanged."""

DEFS: Final = "#/$defs/"
"""The prefix of references to definitions."""

REST: Final = "__rest__"
"""The property that contains the undeclared properties of an object, or the items of a tuple after its fixed items."""

NULL: Final = "__null__"
"""The property of the object that represents a real null, because null means that the property is absent."""

_TUPLE: Final = (
    "Tuple encoded as an object with numeric string keys ('0', '1', ...). If present, '__rest__' contains remaining "
    "elements"
)
_PAIRS: Final = "Object encoded as array of [key, value] pairs. Apply object constraints to the decoded object"


class NoFormError(Exception):
    """An error for a value without a strict form. The message is the reason."""


@final
class Node(msgspec.Struct, frozen=True, eq=False):
    """A strict schema with the conversions of its values. `back` and `forth` are either both None or both set."""

    schema: JsonObject
    """The strict schema."""
    back: Way = None
    """Converts a strict value to the original value."""
    forth: Way = None
    """Converts an original value to the strict value. It raises `NoFormError` if the value does not fit the node."""
    note: str = ""
    """The description of the rewritten form."""
    checks: tuple[str, ...] = ()
    """The descriptions of the keywords that the provider does not enforce."""
    item: Node | None = None
    """The items of an array that stays an array, or None."""
    members: Mapping[str, Property] | None = None
    """The members of an object without other properties, or None."""
    rewrites: bool = False
    """True if `back` changes instances of the strict schema, and not only nulls that the schema refuses."""
    target: Callable[[], Node] | None = None
    """A function that returns the target of a reference, or None."""

    def with_schema(self, schema: JsonObject) -> Node:
        """Return the node with another schema that already has its description."""
        return msgspec.structs.replace(self, schema=schema, note="", checks=())

    def with_checks(self, checks: Sequence[str]) -> Node:
        """Return the node with additional descriptions of keywords that the provider does not enforce."""
        return msgspec.structs.replace(self, checks=(*self.checks, *checks))

    def with_words(self, words: Sequence[str] = (), title: str | None = None) -> Node:
        """Return the node with its note, these words, and its checks in the description."""
        schema = self.schema if title is None else {"title": title, **self.schema}
        return self.with_schema(describe(schema, [self.note], words, self.checks))


def lead(way: Way, value: object) -> object:
    """Convert a value. If the conversion is None, return the value unchanged."""
    return value if way is None else way(value)


class Property(NamedTuple):
    """A property of an object."""

    node: Node
    """The node of the property's value."""
    optional: bool = False
    """True if the original property is optional."""
    null: str = ""
    """The name in the object `{null: true}` that represents a real null. Empty if no object represents it."""
    absent: bool = False
    """True if an optional property is also optional in the strict schema. Otherwise, null means that the property is
    absent."""
    takes_null: bool = False
    """True if the value of the property can be null. fxai uses it only if `absent` is True."""

    @property
    def is_nulled(self) -> bool:
        """True if null means in the strict schema that the property is absent."""
        return self.optional and not self.absent

    @property
    def drops_null(self) -> bool:
        """True if a null means that the property is absent, also if the strict schema refuses it."""
        return self.optional and not (self.absent and self.takes_null)

    @property
    def schema(self) -> JsonObject:
        """The schema of the property in the strict schema."""
        if not self.is_nulled:
            return self.node.schema
        marker = closed_object({self.null: {"type": "boolean", "enum": [True]}}) if self.null else None
        return _nullable(self.node.schema, marker)

    @property
    def back(self) -> Way:
        """The conversion of a present strict value to the original value."""
        if not self.null:
            return self.node.back
        return lambda item: None if is_object(item) and item == {self.null: True} else lead(self.node.back, item)

    def forth(self, there: bool, item: object) -> object:
        """Convert the original value of the property. `there` is False if the property is absent."""
        if item is not None or not self.is_nulled:
            return lead(self.node.forth, item)
        return {self.null: True} if there and self.null else None


def map_text(value: object, way: Callable[[object], object]) -> object:
    """Convert the JSON value inside a string that a model sent instead of a container. The result is also a string."""
    if not isinstance(value, str) or not may_be_nested(value):
        return value
    parsed = parse_json(value)
    if not isinstance(parsed, Success):
        return value
    read = parsed.unwrap()
    mapped = way(read)
    return value if mapped == read else msgspec.json.encode(mapped).decode()


def object_node(members: Mapping[str, Property], rest: tuple[str, Node] | None) -> Node:
    """Create a node for an object. `rest` contains all undeclared properties. It is None for a closed object."""
    schemas = {name: member.schema for name, member in members.items()}
    schemas |= {} if rest is None else {rest[0]: rest[1].schema}
    schema = closed_object(schemas, optional={name for name, member in members.items() if member.absent})
    if rest is None and not any(member.drops_null or member.node.back for member in members.values()):
        return Node(schema)
    rewrites = rest is not None or any(member.is_nulled or member.node.rewrites for member in members.values())
    ways = {name: (member.back, member.drops_null) for name, member in members.items()}
    unknown: tuple[Way, bool] = (None, False)

    def back(value: object) -> object:
        if not is_object(value):
            return map_text(value, back)
        found: JsonObject = {}
        for name, item in value.items():
            way, optional = ways.get(name, unknown)
            if item is not None or not optional:
                found[name] = item if way is None else way(item)
        return found if rest is None else _unrest(found, rest, members)

    def forth(value: object) -> object:  # absent properties become null
        if not is_object(value):
            raise NoFormError("the value must be an object")
        others = {name: item for name, item in value.items() if name not in members}
        if rest is None and others:
            raise NoFormError(f"the schema does not declare the property {next(iter(others))!r}")
        there = {name: member for name, member in members.items() if name in value or not member.absent}
        found = {name: member.forth(name in value, value.get(name)) for name, member in there.items()}
        return found if rest is None else {**found, rest[0]: lead(rest[1].forth, others)}

    return Node(schema, back, forth, members=members if rest is None else None, rewrites=rewrites)


def _unrest(found: JsonObject, rest: tuple[str, Node], members: Mapping[str, Property]) -> JsonObject:
    """Merge the contents of the rest into the properties, without replacing declared properties."""
    name, node = rest
    others = lead(node.back, found.get(name, []))
    if not is_object(others):
        return found
    kept = {key: item for key, item in found.items() if key != name}
    return {**kept, **{key: item for key, item in others.items() if key not in members and key not in kept}}


def map_node(key: Node, value: Node, bounds: Mapping[str, int]) -> Node:
    """Create a node for a map, as an array of pairs. `bounds` limits the number of pairs."""

    def back(pairs: object) -> object:
        if is_object(pairs):
            return {name: lead(value.back, item) for name, item in pairs.items()}
        if not is_array(pairs) or not all(is_object(pair) and pair.keys() == {"0", "1"} for pair in pairs):
            return map_text(pairs, back)
        return {str(pair["0"]): lead(value.back, pair["1"]) for pair in pairs}

    def forth(mapping: object) -> object:
        if not is_object(mapping):
            raise NoFormError("the value must be an object")
        return [{"0": name, "1": lead(value.forth, item)} for name, item in mapping.items()]

    pair = closed_object({"0": key.schema, "1": value.schema}, note=_TUPLE)
    return Node({"type": "array", "items": pair, **bounds}, back, forth, _PAIRS, rewrites=True)


def array_node(item: Node, bounds: Mapping[str, int]) -> Node:
    """Create a node for an array whose items have the same schema."""
    schema = {"type": "array", "items": item.schema, **bounds}
    way_back, way_forth = item.back, item.forth
    if way_back is None or way_forth is None:
        return Node(schema)

    def back(value: object) -> object:
        return [way_back(one) for one in value] if is_array(value) else map_text(value, back)

    def forth(value: object) -> object:
        if not is_array(value):
            raise NoFormError("the value must be an array")
        return [way_forth(one) for one in value]

    return Node(schema, back, forth, item=item, rewrites=item.rewrites)


def tuple_node(items: Sequence[Node], rest: Node | None) -> Node:
    """Create a node for a tuple, as an object with numbered properties. `rest` is the array of further items."""
    size = len(items)

    def back(value: object) -> object:
        if not is_object(value) or any(str(index) not in value for index in range(size)):
            return map_text(value, back)
        first = [lead(item.back, value[str(index)]) for index, item in enumerate(items)]
        others: object = () if rest is None else lead(rest.back, value.get(REST, []))
        return [*first, *others] if is_listed(others) else value

    def forth(value: object) -> object:
        if not is_array(value) or len(value) < size or (rest is None and len(value) > size):
            raise NoFormError(f"the value must be an array of {size} items")
        found = {str(index): lead(item.forth, value[index]) for index, item in enumerate(items)}
        return found if rest is None else {**found, REST: lead(rest.forth, value[size:])}

    members: JsonObject = {str(index): item.schema for index, item in enumerate(items)}
    if rest is not None:
        members[REST] = rest.schema
    return Node(closed_object(members), back, forth, _TUPLE, rewrites=True)


def closed_object(members: Mapping[str, object], note: str = "", optional: Container[str] = ()) -> JsonObject:
    """Return the schema of a closed object with a description and with optional properties."""
    words = {"description": note} if note else {}
    names = [name for name in members if name not in optional]
    required = {"required": names} if names else {}
    return {"type": "object", **words, "properties": dict(members), **required, "additionalProperties": False}


def _nullable(schema: JsonObject, marker: JsonObject | None) -> JsonObject:
    """Return a schema that also accepts null, and the marker of a real null. Preserve the title and the description."""
    if schema.get("type") == "null" and marker is None:
        return schema
    words: JsonObject = {word: schema[word] for word in ("title", "description") if word in schema}
    bare = {keyword: value for keyword, value in schema.items() if keyword not in words}
    alternatives: list[JsonObject] = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    with_null = any(alternative.get("type") == "null" for alternative in alternatives)
    if with_null and marker is None:
        return schema
    added = [*([] if marker is None else [marker]), *([] if with_null else [{"type": "null"}])]
    return {**words, "anyOf": [*alternatives, *added]}


def reference_node(name: str, nodes: Mapping[str, Node]) -> Node:
    """Create a node for a reference to a definition. The definition can be added to `nodes` later."""

    def back(value: object) -> object:
        return lead(nodes[name].back, value)

    def forth(value: object) -> object:
        return lead(nodes[name].forth, value)

    schema = {"$ref": DEFS + name}
    known = nodes.get(name)
    if known is not None and known.back is None:
        return Node(schema)
    return Node(schema, back, forth, rewrites=known is None or known.rewrites, target=lambda: nodes[name])


# ---- unions


@final
class Fit:
    """A check whether a strict value is an instance of a branch. It compares the type first, and then the schema."""

    def __init__(self, schema: JsonObject, defs: Mapping[str, Node]) -> None:
        self._schema = schema
        self._defs = defs

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(self._kinds_of(self._schema, set()))

    @cached_property
    def _whole(self) -> JsonSchema:
        defs = {name: node.schema for name, node in self._defs.items()}
        return JsonSchema.trust({**self._schema, "$defs": defs})

    def may(self, value: object) -> bool:
        """Return True if the branch accepts the type of a value."""
        return kind_in(value) in self._kinds

    def _kinds_of(self, schema: JsonObject, seen: set[str]) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(DEFS)
            if name not in seen:
                yield from self._kinds_of(self._defs[name].schema, {*seen, name})
        for branch in schema.get("anyOf", ()):
            yield from self._kinds_of(branch, seen)
        if "type" in schema:
            yield from _NUMBERS if schema["type"] in _NUMBERS else (schema["type"],)

    def __call__(self, value: object) -> bool:
        """Return True if a value is an instance of the branch."""
        return self.may(value) and not self._whole.validate(value)

    def once_read(self, value: object) -> bool:
        """Return True if a value is an instance of the branch after fxai parses the JSON text in it."""
        from fxai.schema.nested_text import read_texts  # only an invalid value needs this import

        return not self._whole.validate(read_texts(self._whole, value)[0])


def any_node(branches: Sequence[Node], defs: Mapping[str, Node]) -> Node:
    """Create the node of a union. The first branch whose schema accepts a value converts the value."""
    schema = {"anyOf": [branch.schema for branch in branches]}
    if all(branch.back is None for branch in branches):
        return Node(schema)
    choices = [(branch, Fit(branch.schema, defs)) for branch in branches]

    def back(value: object) -> object:
        possible = [choice for choice in choices if choice[1].may(value)]
        for branch, fit in possible:
            if len(possible) == 1 or fit(value):
                return lead(branch.back, value)
        if not possible:
            return map_text(value, back)
        # The branch that accepts the value after fxai parses its JSON text, if only one branch does.
        fitting = [branch for branch, fit in possible if fit.once_read(value)] if holds_nested(value) else []
        return lead(fitting[0].back, value) if len(fitting) == 1 else value

    def forth(value: object) -> object:
        for branch, fit in choices:
            try:
                candidate = lead(branch.forth, value)
            except NoFormError:
                continue
            if fit(candidate):
                return candidate
        raise NoFormError("the value matches none of the alternatives")

    return Node(schema, back, forth, rewrites=any(branch.rewrites for branch in branches))


_NUMBERS: Final = frozenset(("integer", "number"))
_MOST_PAIRS: Final = 100 * MAX_LOCATIONS


@final
class Overlaps:
    """A search for strict schemas with a common instance.

    Args:
        defs: The nodes of all definitions.
    """

    def __init__(self, defs: Mapping[str, Node]) -> None:
        self._defs = defs
        self._work = Work(_MOST_PAIRS)
        self._common: dict[tuple[int, int], tuple[bool, Any, Any]] = {}

    def may(self, left: JsonObject, right: JsonObject) -> bool:
        """Return True if two strict schemas can have a common instance. In doubt, return True.

        Raises:
            ExhaustedError: If the schemas need too many comparisons.
        """
        key = (id(left), id(right))
        if key not in self._common:
            self._work.take()
            self._common[key] = (True, left, right)
            self._common[key] = (descend(lambda: self._in_common(left, right)), left, right)
        return self._common[key][0]

    def _in_common(self, left: JsonObject, right: JsonObject) -> bool:
        for one, other in ((left, right), (right, left)):
            if "$ref" in one:
                return self.may(self._defs[one["$ref"].removeprefix(DEFS)].schema, other)
            if "anyOf" in one:
                return any(self.may(branch, other) for branch in one["anyOf"])
        if left["type"] != right["type"] and not _NUMBERS.issuperset((left["type"], right["type"])):
            return False
        if left["type"] == "object":
            mine, other = left.get("properties", {}), right.get("properties", {})
            needed = {*left.get("required", ()), *right.get("required", ())}
            both = mine.keys() & other.keys()
            return needed <= both and all(self.may(mine[name], other[name]) for name in needed)
        if left["type"] == "array":
            may_be_empty = not left.get("minItems") and not right.get("minItems")
            return may_be_empty or self.may(left["items"], right["items"])
        if "enum" in left and "enum" in right:
            return not {identity(v) for v in left["enum"]}.isdisjoint(identity(v) for v in right["enum"])
        return True
