"""JSON Schema documents as JSON values. Use this module to check a document or to move it into another document.

fxai checks a document before any use. A usable document satisfies the following rules:

- Every keyword has a value that the metaschema of the dialect allows.
- Every `$ref` leads to a location in the document or in a bundled metaschema. fxai fetches nothing.
- The references have no cycle.
- Every pattern compiles.
- The document is within its budget.

>>> [str(fault) for fault in document_faults({"properties": {"a": {"type": "strin", "$ref": "http://x.org/y"}}})]
["/properties/a/type: expected one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string', found \
string 'strin'", "/properties/a/$ref: expected a reference into this document (fxai fetches nothing, so move the \
target to $defs), found string 'http://x.org/y'"]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, cast, final
from urllib.parse import quote, urldefrag

import msgspec

from fxai.schema.budget import (
    MAX_LEVELS,
    MAX_PATTERN,
    MAX_POINTER,
    MAX_SCHEMAS,
    MAX_VISITS,
    Work,
    deeper_than,
)
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.dialect import LATEST, Dialect, dialect_of
from fxai.schema.fault import Fault, SchemaError, found_in, list_values, pointer_of, pointer_to, pointer_tokens
from fxai.schema.location import AT_SAME_VALUE, MISSING, References, Site, Subschema, absolute, is_reference, value_at
from fxai.schema.parsing import plain_faults
from fxai.schema.pattern import compiled_pattern, expansion

if TYPE_CHECKING:
    from fxai.schema.part import Part

_TYPES: Final = ["array", "boolean", "integer", "null", "number", "object", "string"]
_LOOKS_AGAIN: Final = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_AGAIN: Final = 3  # an unevaluated… keyword applies the keywords next to it again, also for the inner values
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED: Final = ("named schemas", "patterned schemas", "dependencies")
_OF_ITSELF: Final = 64  # the minimum cost to compile a pattern, in characters
_META_VISITS: Final = 48  # the approximate number of schemas that a metaschema applies to one value


def document_faults(document: Any, *, shapes: bool = True) -> tuple[Fault, ...]:
    """Return the errors that make a JSON value unusable as a JSON Schema. `()` if the document is usable.

    `shapes` is False for a valid JSON Schema, so that only the budget counts.
    """
    if not isinstance(document, (dict, bool)):
        return (Fault("", "a JSON Schema: an object or a boolean", found_in(document)),)
    known = cast("Any", document)
    if deeper_than(known, MAX_LEVELS):
        return plain_faults(known)
    return _DocumentCheck(References(Site("", known)), shapes).run(known)


@final
class _DocumentCheck(msgspec.Struct, eq=False):
    """The state of a check. The check resolves the references after it has walked through the document.

    With `shapes`, it also checks the values of the keywords.
    """

    names: References
    shapes: bool
    faults: list[Fault] = []
    numbers: dict[int, int] = {}
    pointers: list[str] = []
    applied: list[list[tuple[int, int, str | None]]] = []
    """The other schemas that apply to the same value, how often, and the reference, by the number of the schema.

    The reference is None if the data selects the other schema.
    """
    references: list[tuple[str, str, Subschema]] = []
    patterns: set[str] = set()
    expanded: int = 0
    full: bool = False

    def run(self, document: Any) -> tuple[Fault, ...]:
        self._walk(self.names.walk(document))
        self._resolve()
        excess = () if self.full else islice(self._excess(), 1)
        return tuple(dict.fromkeys((*self.faults, *excess)))

    def _walk(self, schemas: Iterable[Subschema]) -> None:
        for found in takewhile(lambda _: not self.full, schemas):
            schema, pointer, dialect = found.schema, found.pointer, found.dialect
            self._number(schema, pointer)
            try:
                _ = dialect_of(schema)
            except SchemaError as error:
                self.faults.append(Fault(f"{pointer}/$schema", str(error), found_in(schema["$schema"])))
                self.full |= not pointer
                continue
            self._judge(schema, pointer, dialect)
            is_hidden = dialect.ref_alone and "$ref" in schema
            own, resource = schema.get(dialect.id_keyword), found.resource
            if isinstance(own, str) and not is_hidden:
                self._is_uri(own, resource, f"{pointer}/{dialect.id_keyword}")
            for keyword in _REFERENCES:
                reference, at = schema.get(keyword), f"{pointer}/{keyword}"
                if keyword in dialect.keywords and isinstance(reference, str) and self._is_uri(reference, resource, at):
                    self.references.append((absolute(resource, reference), at, found))
            for keyword, suffix, inner in found.inside:
                at = pointer + suffix
                if not (is_object(inner) or isinstance(inner, bool)):
                    self.faults.append(Fault(at, "a JSON Schema", found_in(inner)))
                elif keyword in AT_SAME_VALUE and not is_hidden:
                    self._lead(schema, inner, at, at=at)

    def _number(self, schema: object, pointer: str) -> int:
        """Return the number of a schema. Add the schema to the graph if it is new."""
        number = self.numbers.get(id(schema))
        if number is None:
            number = self.numbers[id(schema)] = self._add(pointer)
            if len(pointer) > MAX_POINTER:
                self._stop(pointer[: max(pointer.rfind("/", 0, 200), 0)], _POINTERS)
            elif number >= MAX_SCHEMAS:
                self._stop(pointer, f"at most {MAX_SCHEMAS} schemas in one document")
        return number

    def _add(self, pointer: str) -> int:
        self.pointers.append(pointer)
        self.applied.append([])
        return len(self.pointers) - 1

    def _stop(self, pointer: str, expected: str) -> None:
        if not self.full:
            self.faults.append(Fault(pointer, expected, "more"))
        self.full = True

    def _judge(self, schema: JsonObject, pointer: str, dialect: Dialect) -> None:
        """Check the values of the keywords of a schema, and the cost of its patterns."""
        named: Any = schema.get("patternProperties")
        for pattern in (schema.get("pattern"), *(named if is_object(named) else ())):
            if isinstance(pattern, str) and pattern not in self.patterns:
                self.patterns.add(pattern)
                try:
                    cost = expansion(pattern)
                except ValueError:
                    cost = MAX_PATTERN + 1
                if not self.shapes or cost <= MAX_PATTERN:  # otherwise, the check of the shapes refuses the pattern
                    self.expanded += _OF_ITSELF + cost
        if self.expanded > MAX_PATTERN:
            self._stop(pointer, f"at most {MAX_PATTERN} characters in all patterns with expanded repetitions")
        elif self.shapes:
            self.faults += _shape_faults(schema, pointer, dialect)

    def _is_uri(self, reference: str, resource: str, pointer: str) -> bool:
        """Return True if a reference is a URI reference. Otherwise, add an error."""
        if known := is_reference(reference, resource):
            return known
        self.faults.append(Fault(pointer, "a URI reference", found_in(reference)))
        return False

    def _resolve(self) -> None:
        dynamic: list[tuple[JsonObject, str, str]] = []
        for uri, pointer, found in self.references:  # a walk through a target adds its references
            if self.full:
                break
            source, target = found.schema, self.names.find(uri)
            if target is MISSING:
                is_outside = "://" in uri or uri.startswith("file:")
                expected = _INSIDE if is_outside else "a reference to an existing schema"
                self.faults.append(Fault(pointer, expected, found_in(source[pointer_tokens(pointer)[-1]])))
            elif target is None:
                times = _META_VISITS * _times(source)
                self.applied[self.numbers[id(source)]].append((self._add(pointer), times, None))
            elif not (is_object(target) or isinstance(target, bool)):
                self.faults.append(Fault(pointer, "a JSON Schema", found_in(target)))
            else:
                self._walk(self.names.walk(target, pointer, found.resource, found.dialect))
                self._lead(source, target, pointer, at=pointer)
                if not pointer.endswith("/$ref"):
                    dynamic.append((source, urldefrag(uri).fragment, pointer))
        named: dict[object, list[JsonObject]] = {}
        for one in self.names.known.values() if dynamic else ():
            named.setdefault(str(one.schema.get("$dynamicAnchor", "")), []).append(one.schema)
        for source, name, pointer in dynamic:  # the data selects one of the targets, so all targets count
            for target in named.get(name, ()):
                if name or target.get("$recursiveAnchor") is True:
                    self._lead(source, target, pointer)

    def _lead(self, source: JsonObject, target: object, pointer: str, *, at: str | None = None) -> None:
        """Record that the target of a reference, or an inner schema, applies to the same value."""
        if is_object(target) and not self.full:
            self.applied[self.numbers[id(source)]].append((self._number(target, pointer), _times(source), at))

    def _excess(self) -> Iterator[Fault]:
        """Iterate over the errors of cycles, and of schemas that apply too many schemas to one value."""
        visits, levels, is_open = dict[int, int](), dict[int, int](), set[int]()
        for start in range(len(self.applied)):
            trail = [] if start in visits else [(start, iter(self.applied[start]))]
            while trail:
                number, edges = trail[-1]
                is_open.add(number)
                for other, _, at in edges:
                    if other in is_open:
                        if at is not None:
                            yield Fault(at, "a reference without a cycle", "a cycle of references")
                    elif other not in visits:
                        trail.append((other, iter(self.applied[other])))
                        break
                else:
                    trail.pop()
                    is_open.discard(number)
                    inside = self.applied[number]
                    visits[number] = 1 + sum(times * visits.get(other, 0) for other, times, _ in inside)
                    levels[number] = 1 + max((levels.get(other, 0) for other, *_ in inside), default=0)
                    if visits[number] > MAX_VISITS:
                        yield Fault(self.pointers[number], _VISITS, "more")
                    if levels[number] > MAX_LEVELS:
                        yield Fault(self.pointers[number], _NESTED, "more")


_VISITS: Final = f"at most {MAX_VISITS} schemas that apply to one value, including references"
_NESTED: Final = f"at most {MAX_LEVELS} levels of schemas that apply to one value"
_INSIDE: Final = "a reference into this document (fxai fetches nothing, so move the target to $defs)"
_POINTERS: Final = f"JSON pointers to schemas of at most {MAX_POINTER} characters"


def _times(schema: JsonObject) -> int:
    """Return the number of times that a schema applies its inner schemas to its value."""
    return _AGAIN if _LOOKS_AGAIN & schema.keys() else 1


def _shape_faults(schema: JsonObject, pointer: str, dialect: Dialect) -> Iterator[Fault]:
    for keyword, value in schema.items():
        shape = dialect.keywords.get(keyword)
        if shape is not None:
            yield from _value_faults(value, shape, pointer_to(pointer, keyword))
    if dialect.name == "draft-04":
        for bound in ("maximum", "minimum"):
            exclusive = f"exclusive{bound.capitalize()}"
            if exclusive in schema and bound not in schema:
                yield Fault(pointer_to(pointer, bound), f"a number next to {exclusive}", "nothing")


def _value_faults(value: object, shape: str, pointer: str) -> Iterator[Fault]:
    if shape == "pattern":
        yield from _pattern_faults(value, pointer)
    elif shape in _NAMED or shape == "named lists of strings":
        if not is_object(value):
            yield Fault(pointer, "object", found_in(value))
            return
        for name, item in value.items():
            location = pointer_to(pointer, name)
            if shape == "patterned schemas":
                yield from _pattern_faults(name, location)
            listing = shape == "named lists of strings" or (shape == "dependencies" and is_array(item))
            if listing and not _fits(item, "array of distinct strings"):
                yield Fault(location, "array of distinct strings", found_in(item))
    elif not _fits(value, shape):
        yield Fault(pointer, list_values(_TYPES) if shape == "type" else shape, found_in(value))


def _pattern_faults(value: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield Fault(pointer, "string", found_in(value))
        return
    try:
        compiled_pattern(value)
    except ValueError as error:
        yield Fault(pointer, f"a regular expression ({error})", found_in(value))


_STRINGS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_SHAPES: Final[JsonObject] = {
    "any": {},
    "string": {"type": "string"},
    "identifier": {"type": "string", "pattern": "^[^#]*#?$"},
    "anchor": {"type": "string", "pattern": "^[A-Za-z_][^#]*$"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "number above 0": {"type": "number", "exclusiveMinimum": 0},
    "integer at least 0": {"type": "integer", "minimum": 0},
    "array": {"type": "array"},
    "array of at least 1 distinct item": {"type": "array", "minItems": 1, "uniqueItems": True},
    "array of at least 1 distinct string": {**_STRINGS, "minItems": 1},
    "array of distinct strings": _STRINGS,
    "type": {"anyOf": [{"enum": _TYPES}, {**_STRINGS, "items": {"enum": _TYPES}, "minItems": 1}]},
    "schema": {"type": ["object", "boolean"]},
    "schema or boolean": {"type": ["object", "boolean"]},
    "schemas": {"type": "array", "minItems": 1},
    "schema or schemas": {"type": ["object", "boolean", "array"], "minItems": 1},
}
"""The values of keywords, as schemas of a metaschema."""


@cache
def _part_of(shape: str) -> Part:
    from fxai.schema.engine import Engine  # a program without JSON Schemas of its own does not need the engine

    return Engine(_SHAPES[shape]).root


def _fits(value: object, shape: str) -> bool:
    return _part_of(shape).takes(value, Work(sys.maxsize))


# ---- a document inside another document

_IDENTIFIERS: Final = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
_BESIDE_REF: Final = ("title", "description", "default", "examples")  # harmless, although an old `$ref` hides them
_SAFE: Final = "/~!$&'()*+,;=:@?-._"


def relocate(document: Any, to: str, definitions: JsonObject, prefix: str) -> Any:
    """Rewrite a document for a location inside another document. Each reference keeps its target.

    The other document receives the definitions of this document under unused names. fxai rewrites an older dialect as
    2020-12, removes `$id` and `$anchor`, and writes each reference as a JSON pointer.

    Args:
        document: A usable JSON Schema as a JSON value. The function changes it.
        to: The JSON pointer of the document in the other document.
        definitions: The `$defs` of the other document. The function adds the definitions of this document.
        prefix: The prefix of the names of the added definitions. If it is empty, the names do not change.

    Returns:
        The rewritten document, without its definitions.

    >>> shared: dict[str, Any] = {}
    >>> city = {"$ref": "#/$defs/City", "$defs": {"City": {"type": "string"}}}
    >>> relocate(city, "/properties/args", shared, "weather"), shared
    ({'$ref': '#/$defs/weather.City'}, {'weather.City': {'type': 'string'}})
    """
    if not is_object(document):
        return document
    return _Relocation(document, to, definitions, prefix, References(Site("", document))).document()


@final
class _Relocation(msgspec.Struct, eq=False):
    """A relocation. It finds every schema of the document, and then rewrites each schema in place."""

    root: JsonObject
    to: str
    definitions: JsonObject
    prefix: str
    references: References
    moved: dict[tuple[str, ...], str] = {}
    """The new pointers of the definitions, by keyword and name."""

    def document(self) -> Any:
        hoisted: JsonObject = {}
        for keyword in ("$defs", "definitions"):
            held = self.root.get(keyword)
            for name, schema in held.items() if is_object(held) else ():
                new = f"{self.prefix}.{name}" if self.prefix else name
                while new in self.definitions or new in hoisted:
                    new += "_"
                hoisted[new] = schema
                self.moved[keyword, name] = pointer_to("/$defs", new)
        schemas = self.references.known
        self.references.enter(self.root)
        waiting = [*schemas.values()]
        while waiting:  # the targets outside all schema keywords, such as `#/components/City`
            before = len(schemas)
            for one in waiting:
                for target, pointer in self._targets(one):
                    self.references.enter(target, pointer or "", one.resource, one.dialect)
            waiting = [*schemas.values()][before:]
        rewritten = [
            (one, [to if at is None else "#" + quote(self._new(at), safe=_SAFE) for to, at in self._targets(one)])
            for one in schemas.values()
        ]
        for one, pointers in rewritten:
            _rewrite(one, pointers)
        for keyword in ("$defs", "definitions"):
            if is_object(self.root.get(keyword)):
                del self.root[keyword]
        self.definitions.update(hoisted)
        return self.root

    def _targets(self, found: Subschema) -> Iterator[tuple[Any, str | None]]:
        """Iterate over the targets of the references of a schema, with their pointers. A metaschema has no pointer."""
        for keyword in _REFERENCES:
            reference = found.schema.get(keyword)
            if isinstance(reference, str) and keyword in found.dialect.keywords:
                located = self.references.locate(absolute(found.resource, reference))
                if located is None:
                    yield reference, None
                else:
                    start, tokens = located
                    yield value_at(start.schema, tokens), start.pointer + pointer_of(tokens)

    def _new(self, pointer: str) -> str:
        """Return the pointer in the other document of a schema of this document."""
        tokens, made, value = pointer_tokens(pointer), self.to, cast("Any", self.root)
        if (moved := self.moved.get((*tokens[:2],))) is not None:
            made, value, tokens = moved, value[tokens[0]][tokens[1]], tokens[2:]
        for token in tokens:
            known = self.references.known.get(id(value))
            made = pointer_to(made, token if known is None else _modern(value, token, known.dialect))
            value = value[int(token)] if is_array(value) else value[token]
        return made


def _rewrite(schema: Subschema, pointers: list[str]) -> None:
    members = schema.schema
    if schema.dialect.ref_alone and "$ref" in members:
        for keyword in [k for k in members if k not in ("$ref", *_BESIDE_REF, "$defs", "definitions")]:
            del members[keyword]
    for keyword in (*_IDENTIFIERS, *_REFERENCES, schema.dialect.id_keyword):
        members.pop(keyword, None)
    if pointers:
        members["$ref"] = pointers[0]
    if pointers[1:]:
        members["allOf"] = [*members.get("allOf", ()), *({"$ref": pointer} for pointer in pointers[1:])]
    if schema.dialect is not LATEST:
        _modernise(members)


def _modern(schema: JsonObject, keyword: str, dialect: Dialect) -> str:
    """Return the name in 2020-12 of a keyword that contains schemas."""
    if dialect is LATEST:
        return keyword
    if is_array(schema.get("items")):
        keyword = {"items": "prefixItems", "additionalItems": "items"}.get(keyword, keyword)
    return "dependentSchemas" if keyword == "dependencies" else keyword


def _modernise(members: JsonObject) -> None:
    for bound in ("Maximum", "Minimum"):
        exclusive = members.get(f"exclusive{bound}")
        if isinstance(exclusive, bool):
            del members[f"exclusive{bound}"]
            if exclusive:
                members[f"exclusive{bound}"] = members.pop(bound.lower())
    if is_array(members.get("items")):
        members["prefixItems"] = members.pop("items")
        if "additionalItems" in members:
            members["items"] = members.pop("additionalItems")
    dependencies = members.pop("dependencies", None)
    if is_object(dependencies):
        listed = {name: given for name, given in dependencies.items() if is_array(given)}
        schemas = {name: given for name, given in dependencies.items() if not is_array(given)}
        members |= cast("JsonObject", {"dependentRequired": listed} if listed else {})
        members |= {"dependentSchemas": schemas} if schemas else {}
