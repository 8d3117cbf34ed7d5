"""Validation errors: their location, and the words for the expected value and for the value that fxai found.

A validation error (`Fault`) is a value. The failure with all errors of a decoding or an encoding is a value too. You
can compare both, hash them, and write them as JSON. The exceptions are `DecodeError`, which the `*_unsafe` methods
raise, and `SchemaError`, for mistakes in the program.

>>> failure = DecodeFailure((Fault("/a", "integer", found_in("one")), Fault("/b", "string", NOTHING)))
>>> print(failure)
/a: expected integer, found string 'one'; /b: expected string, found nothing
>>> describe({"type": "string", "minLength": 1}), describe({"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}]})
('string of at least 1 character', "one of 'C', 'F' or null")
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec
from msgspec import inspect as nodes

from fxai.schema.data import is_array, is_listed, is_object

NOTHING: Final = "nothing"
"""The `found` of a missing value."""

_SHORTEST: Final = 60
_LARGE: Final = 1e15


@final
class Fault(msgspec.Struct, frozen=True):
    """A validation error of a value."""

    pointer: str
    """The location as a JSON pointer (RFC 6901). `""` is the whole value."""
    expected: str
    """The expected value: `"integer"`, `"string of at least 1 character"`."""
    found: str
    """A short description of the actual value: `"string 'one'"`, `"nothing"`, `"object with 3 properties"`."""

    def __str__(self) -> str:
        """Return the location, the expected value, and the actual value in one line."""
        if not self.pointer:
            return f"expected {self.expected}, found {self.found}"
        return f"{self.pointer}: expected {self.expected}, found {self.found}"


@final
class DecodeFailure(msgspec.Struct, frozen=True, tag="decode-failure"):
    """The failure of a value that does not match a schema, with at least one validation error."""

    faults: tuple[Fault, ...]
    """The validation errors, in the order of the value."""

    def __post_init__(self) -> None:
        """Check that the failure contains an error.

        Raises:
            ValueError: If the failure contains no error. This is a mistake in the program.
        """
        if not self.faults:
            raise ValueError("DecodeFailure must contain at least one Fault, got none")

    def __str__(self) -> str:
        """Return the errors in one line, separated by semicolons."""
        return "; ".join(str(fault) for fault in self.faults)


@final
class DecodeError(Exception):
    """A `DecodeFailure` as an exception. The `*_unsafe` methods raise it. The only argument is the failure."""

    @property
    def failure(self) -> DecodeFailure:
        """The failure."""
        failure: DecodeFailure = self.args[0]
        return failure

    def __str__(self) -> str:
        """Return the failure in one line."""
        return str(self.failure)


@final
class SchemaError(TypeError, ValueError):
    """An error for a type without a JSON form, or for a document that is not a usable JSON Schema.

    It is a mistake in the program, or in a document from outside. fxai raises it when you create the schema or use the
    schema for the first time.
    """


def pointer_to(pointer: str, token: str | int) -> str:
    """Return the JSON pointer of a member of the value at `pointer`.

    The token is the name of a property or the index of an item.

    >>> pointer_to("/a", "x/y~z")
    '/a/x~1y~0z'
    """
    if isinstance(token, str) and ("/" in token or "~" in token):
        token = token.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{token}"


def pointer_of(path: Iterable[str | int]) -> str:
    """Return the JSON pointer of a path of property names and indices.

    >>> pointer_of(["a", 0])
    '/a/0'
    """
    pointer = ""
    for token in path:
        pointer = pointer_to(pointer, token)
    return pointer


def pointer_tokens(pointer: str) -> list[str]:
    """Return the tokens of a JSON pointer without escapes. The pointer `""` has no tokens.

    >>> pointer_tokens("/a~1b/0")
    ['a/b', '0']
    """
    tokens = pointer.split("/")[1:]
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens] if "~" in pointer else tokens


def quantity(count: float, unit: str) -> str:
    """Return a number with its unit.

    >>> quantity(1, "item"), quantity(2, "property")
    ('1 item', '2 properties')
    """
    number = f"{count:.15g}" if count < _LARGE else f"{Decimal(count):.6g}"  # a float cannot represent every integer
    return f"{number} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"


def found_in(value: object) -> str:
    """Return a short description of a value, with its kind and a part of its contents.

    The description of a large value is short too.

    >>> [found_in(x) for x in (None, True, 3, 2.5, "one", [1], {"a": 1, "b": 2})]
    ['null', 'boolean true', 'integer 3', 'number 2.5', "string 'one'", 'array of 1 item', 'object with 2 properties']
    """
    kind = type(value)
    if kind is str:
        text: Any = value
        shown = text if len(text) <= _SHORTEST else f"{text[: _SHORTEST - 20]}… ({len(text)} characters)"
        return f"string {shown!r}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {'true' if value else 'false'}"
    if kind is int or kind is float:
        number: Any = value
        if kind is int:
            return f"integer {number}" if number.bit_length() <= 512 else f"integer of {number.bit_length()} bits"
        if math.isfinite(number):
            return f"number {number!r}"
        return "NaN" if number != number else f"{'-' if number < 0 else ''}Infinity"
    if isinstance(value, Mapping):
        return f"object with {quantity(len(cast('Mapping[object, object]', value)), 'property')}"
    if isinstance(value, (list, tuple)):
        return f"array of {quantity(len(cast('Sequence[object]', value)), 'item')}"
    if isinstance(value, Set):
        return f"set of {quantity(len(cast('Set[object]', value)), 'item')}"
    return f"a Python {kind.__qualname__}"


def in_order(faults: Iterable[Fault], root: object) -> tuple[Fault, ...]:
    """Return the errors of a value in the order of the value, without duplicates. Missing values are last.

    >>> in_order([Fault("/b", "x", "y"), Fault("/a", "x", "y"), Fault("", "x", "y")], {"a": 1, "b": 2})[1].pointer
    '/a'
    """
    found = tuple(dict.fromkeys(faults))
    if len(found) < 2:
        return found
    locations: dict[int, dict[str, int]] = {}
    ranks = [_location(fault, root, locations) for fault in found]
    if all(map(operator.le, ranks, ranks[1:])):
        return found
    return tuple(fault for _, _, fault in sorted(zip(ranks, range(len(found)), found, strict=True)))


def _location(fault: Fault, root: object, known: dict[int, dict[str, int]]) -> list[int]:
    """Return the position of an error in the order of the value. A missing value is last."""
    locations: list[int] = []
    there: Any = root
    for token in pointer_tokens(fault.pointer):
        if is_object(there):
            names = known.get(id(there))
            if names is None:
                names = known[id(there)] = {name: index for index, name in enumerate(there)}
            locations.append(names.get(token, len(names)))
            there = there.get(token)
        elif is_listed(there) and token.isdigit():
            locations.append(int(token))
            there = there[int(token)] if int(token) < len(there) else None
    return locations


def with_integers(data: Any, pointers: Iterable[str]) -> Any:
    """Return a copy of the data. The whole numbers at these locations become integers.

    >>> with_integers({"a": [3.0, 4.0]}, ["/a/1"])
    {'a': [3.0, 4]}
    """
    root: Any = [msgspec.to_builtins(data)]  # a copy that fxai can change
    for pointer in pointers:
        holder, location = root, cast("Any", 0)
        for token in pointer_tokens(pointer):
            holder = holder[location]
            location = int(token) if is_array(holder) else next(name for name in holder if str(name) == token)
        holder[location] = int(holder[location])
    return root[0]


# ---- descriptions of values

_MOST_LISTED: Final = 100
_LONGEST: Final = 400


def list_values(choices: Iterable[object]) -> str:
    """Return the words for constants: `one of 'C', 'F'`, or the only constant."""
    values = list(choices)
    words = [_literal(value) for value in values[:_MOST_LISTED]]
    more = f", … ({len(values)} values)" if len(values) > _MOST_LISTED else ""
    return words[0] if len(values) == 1 else f"one of {', '.join(words)}{more}"


def _literal(value: object) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def either(choices: Iterable[object]) -> str:
    """Return the words for the constants that distinguish alternatives, without duplicates: `'a' or 'b'`.

    >>> either(["a", "b", 1, "a"])
    "'a', 'b' or 1"
    """
    words = list(dict.fromkeys(_literal(choice) for choice in choices))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ---- descriptions of schemas

_DEEPEST: Final = 4  # schemas inside each other
_KINDS_OF_KEYWORDS: Final = {
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "items", "prefixItems"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties", "properties", "required", "additionalProperties"), "object"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matching {!r}",
}
_FORMATS: Final = {
    "date-time": "date and time (RFC 3339)",
    "date-time-local": "date and time (RFC 3339) without a time zone",
    "time": "time (RFC 3339)",
    "partial-time": "time (RFC 3339) without a time zone",
    "date": "date (RFC 3339)",
    "duration": "duration (ISO 8601)",
    "uuid": "UUID",
    "decimal": "decimal number",
    "base64": "string in base64",
}
_LENGTHS: Final = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minBytes": ("at least", "byte"),  # no keyword: a bound of bytes in base64
    "maxBytes": ("at most", "byte"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
}

BOUNDS: Final = frozenset(("type", "format", "contentEncoding", *_BOUNDS, *_LENGTHS))
"""The type, and the keywords that bound values of a type."""


def describe(schema: Any, follow: Callable[[Any], Any] = lambda schema: schema, level: int = 0) -> str:
    """Return a few words for the values that a schema accepts.

    Args:
        schema: A document, or a schema inside a document.
        follow: A function that returns the target of the reference in a schema. Default: fxai follows no references.
        level: The number of enclosing schemas. A schema on level 4 or deeper is `a value`.
    """
    schema = follow(schema) if level < _DEEPEST else True
    if not isinstance(schema, Mapping):
        return "a value" if schema else "no value"
    members = cast("Mapping[str, Any]", schema)
    if "const" in members:
        return list_values([members["const"]])
    if isinstance(members.get("enum"), list):
        return list_values(members["enum"])
    if isinstance(members.get("$ref"), str):
        return f"what {members['$ref']} says"
    for keyword in ("anyOf", "oneOf"):
        if members.get(keyword):
            return " or ".join(dict.fromkeys(describe(choice, follow, level + 1) for choice in members[keyword]))
    kind = _kind(members)
    if kind == "a value" and members.get("allOf"):
        parts = (describe(part, follow, level + 1) for part in members["allOf"])
        return next((words for words in parts if words != "a value"), "a value")
    notes = [*_limits(members)]
    if members.get("uniqueItems") is True:
        notes.append("without doubled items")
    if "not" in members:
        notes.append(f"that is not {describe(members['not'], follow, level + 1)}")
    return f"{kind} {' and '.join(notes)}" if notes else kind


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        form = schema.get("format", schema.get("contentEncoding")) if kinds == "string" else None
        return _FORMATS.get(str(form), kinds)
    if is_array(kinds):
        if schema.get("format") == "decimal":
            kinds = [kind if kind != "string" else _FORMATS["decimal"] for kind in kinds if kind != "number"]
        return " or ".join(sorted(cast("list[str]", kinds)))
    return next((kind for keyword, kind in _KINDS_OF_KEYWORDS.items() if keyword in schema), "a value")


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, (bound, unit) in _LENGTHS.items():
        size, other = schema.get(keyword), schema.get(f"{'max' if keyword[:3] == 'min' else 'min'}{keyword[3:]}")
        if size is not None and size == other:
            if bound == "at least":
                yield f"of {quantity(size, unit)}"
        elif size is not None:
            yield f"of {bound} {quantity(size, unit)}"
    for keyword, text in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is None or isinstance(limit, bool):
            continue
        exclusive = schema.get(f"exclusive{keyword.capitalize()}") is True  # draft 4
        yield _BOUNDS[f"exclusive{keyword.capitalize()}"].format(limit) if exclusive else text.format(limit)


# ---- kinds of values and types


def unwrap(node: nodes.Type) -> nodes.Type:
    """Return the description of a type without the keywords that `Annotated` adds to the JSON Schema."""
    while isinstance(node, nodes.Metadata):
        node = node.type
    return node


_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def kind_in(data: object) -> str:
    """Return the kind of JSON of a value."""
    return _KINDS.get(type(data)) or next((kind for tp, kind in _KINDS.items() if isinstance(data, tp)), "object")
