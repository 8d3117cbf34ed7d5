"""The core schema of a pydantic type. Use this module to compare what pydantic validates with its JSON Schema.

A core schema is plain data: each node is a `dict` with its kind as `type`. pydantic keeps the core schema at the type.

>>> core = {"type": "list", "items_schema": {"type": "int", "gt": 0}}
>>> [node["type"] for node in nodes_of(core)]
['list', 'int']
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, ForwardRef, Literal, TypeAlias, Union, cast, final, get_args, get_origin

import msgspec

from fxai.schema.codecs import Codec
from fxai.schema.data import JsonArray, JsonObject, is_array, is_object
from fxai.schema.fault import SchemaError

_OPAQUE: Final = ("cls", "config", "default", "expected", "metadata", "python_schema", "ref", "serialization")


def nodes_of(core: object) -> Iterator[JsonObject]:
    """Iterate over every node of a core schema that the JSON mode uses."""
    waiting = [core]
    while waiting:
        value = waiting.pop()
        if is_object(value):
            is_node = isinstance(value.get("type"), str)
            if is_node:
                yield value
            waiting += [inner for name, inner in reversed(value.items()) if not (is_node and name in _OPAQUE)]
        elif isinstance(value, (list, tuple)):
            waiting += cast("Sequence[Any]", value)


# ---- types that fxai refuses


def check_nodes(called: str, nodes: list[JsonObject]) -> None:
    """Refuse the types whose JSON Schema is not the schema that the validator enforces.

    Raises:
        SchemaError: The message names the type or the field, the problem, and the remedy.
    """
    known = {node["ref"]: node for node in nodes if "ref" in node}
    plain = not any(node["type"].startswith(_FUNCTIONS) for node in nodes)
    for node in nodes:
        _check_fields(node.get("model_name") or called, node)
        if (remedy := _KINDS.get(node["type"])) is not None and plain:
            raise SchemaError(f"{called} contains {remedy}")
        if node["type"] in ("set", "frozenset") and _has_no_hash(node.get("items_schema") or {"type": "any"}, known):
            raise SchemaError(f"{called} contains a set of values that have no hash. Use a list, or a frozen model.")
        if node["type"] == "enum" and "missing" not in node:
            odd = [one for one in node["members"] if not isinstance(one.value, (str, int, float, type(None)))]
            if odd:
                raise SchemaError(
                    f"the value of {odd[0]} is a {type(odd[0].value).__name__}, and pydantic cannot read it from JSON."
                    " Use a string or a number as the value."
                )
        if node["type"] == "tagged-union" and not all(isinstance(tag, (str, int)) for tag in node["choices"]):
            raise SchemaError(
                f"{called} contains a union whose tag is an enum, and pydantic cannot read this tag from JSON. Derive"
                " the enum from str: class Kind(str, Enum)."
            )


_KINDS: Final = {
    "generator": "an Iterable, which pydantic reads late and only once. Use list.",
    "is-subclass": "a class as a value, which has no JSON form. Use a name, such as a Literal.",
}
_NO_HASH: Final = ("list", "dict", "set", "typed-dict", "model-fields")


def _has_no_hash(node: JsonObject, known: dict[str, JsonObject]) -> bool:
    while node["type"].startswith(_FUNCTIONS) or node["type"] in ("definition-ref", "nullable", "default"):
        inner = known.get(node["schema_ref"]) if node["type"] == "definition-ref" else node.get("schema")
        if inner is None:
            return False
        node = inner
    return node["type"] in _NO_HASH or getattr(node.get("cls"), "__hash__", True) is None


def _check_fields(called: str, node: JsonObject) -> None:
    for name, field in _fields_of(node):
        alias: Any = field.get("validation_alias")
        paths = alias if is_array(alias) and alias and is_array(alias[0]) else [alias]
        if is_array(alias) and not any(len(path) == 1 for path in paths):
            raise SchemaError(
                f"the field {called}.{name} has an AliasPath, which its JSON Schema cannot describe. Use an alias that"
                " is a name, or read the path in a validator with mode='before'."
            )
    config: JsonObject = node.get("config") or {}
    if config.get("validate_by_alias") is False:
        inside = [field for one in nodes_of(node["schema"]) for field in _fields_of(one)]
        if any(field.get("validation_alias", name) != name for name, field in inside):
            raise SchemaError(
                f"{node['cls'].__qualname__} sets validate_by_alias=False, but its JSON Schema contains the aliases."
                " Use serialization_alias instead of alias."
            )
    for name, info in getattr(node.get("cls"), "__pydantic_fields__", {}).items():
        for part in (*info.metadata, info.annotation):
            check_notes(part, f"{node['cls'].__qualname__}.{name}")


def _fields_of(node: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the fields of a node with their names: of a model, a TypedDict, or a dataclass."""
    fields: Any = node.get("fields")
    if is_object(fields):
        return list(fields.items())
    return [(field["name"], field) for field in fields] if node["type"] == "dataclass-args" else []


def check_notes(tp: Any, location: str) -> None:
    """Refuse a codec or a `Meta` inside a type that pydantic decodes, because pydantic ignores both.

    Raises:
        SchemaError: The type contains such a note.
    """
    if isinstance(tp, (Codec, msgspec.Meta)):
        kind = "codec" if isinstance(tp, Codec) else "msgspec.Meta"
        raise SchemaError(
            f"{location} carries a {kind}, which pydantic ignores. Use Field(...) for bounds, and PlainValidator with"
            " PlainSerializer for another JSON form."
        )
    if get_origin(tp) is not Literal:
        for part in (*(tp.__metadata__ if get_origin(tp) is Annotated else ()), *get_args(tp)):
            check_notes(part, location)


# ---- differences between a type and its JSON Schema


Way: TypeAlias = Literal["decode", "encode"]


@final
class Caveat(msgspec.Struct, frozen=True):
    """A law between a type and its JSON Schema that is true in one direction only."""

    way: Way
    """The direction without the law. With `decode`, the type can refuse data that the JSON Schema accepts.

    With `encode`, the type can refuse its own data.
    """
    reason: str
    """The reason, as a sentence without a period."""


_FUNCTIONS: Final = "function-"
_DESCRIBED: Final = frozenset(
    (
        *("any", "none", "bool", "int", "float", "str", "bytes", "literal", "enum", "uuid"),
        *("date", "time", "datetime", "timedelta"),
        *("list", "deque", "tuple", "named-tuple", "named-tuple-field", "set", "frozenset"),
        *("dict", "ordered-dict", "frozendict", "counter", "nullable", "union", "tagged-union"),
        *("model", "model-field", "model-fields", "dataclass", "dataclass-args", "dataclass-field"),
        *("typed-dict", "typed-dict-field", "computed-field", "default"),
        *("definitions", "definition-ref", "chain", "json-or-python", "lax-or-strict"),
    )
)
"""The kinds of nodes that the JSON Schema describes completely, except for the settings below."""
_MAPPINGS: Final = ("dict", "ordered-dict", "frozendict", "counter")
_BOUNDS: Final = ("ge", "gt", "le", "lt", "now_op", "tz_constraint")
_DATES: Final = ("date", "time", "datetime", "timedelta")
_CHANGES: Final = ("strip_whitespace", "to_lower", "to_upper")


def caveats_of(called: str, nodes: list[JsonObject]) -> Iterator[Caveat]:
    """Iterate over the caveats of a type."""
    replaced = any(map(_has_own_document, nodes))
    if replaced or any(map(_validates_more, nodes)):
        yield Caveat("decode", f"{called} has validators that its JSON Schema does not describe")
    if replaced or any(map(_writes_otherwise, nodes)):
        yield Caveat("encode", f"{called} has computed fields, serializers, or aliases for its JSON data only")


def _validates_more(node: JsonObject) -> bool:
    kind = node["type"]
    config: JsonObject = node.get("config") or {}
    if config.get("val_json_bytes", "utf8") != "utf8":
        return True
    if kind not in _DESCRIBED or node.get("custom_init") or node.get("post_init"):
        return True
    if kind == "tagged-union":
        by: Any = node["discriminator"]
        return not isinstance(by, str) and getattr(by, "__module__", None) != "pydantic.types"  # as of JsonValue
    keys: JsonObject = node.get("keys_schema") or {"type": "any"}
    if kind in _MAPPINGS and not (keys["type"] in _KEYS and all(name in _KEY_NOTES for name in keys)):
        return True
    if kind in ("uuid", "bytes"):  # JSON Schema counts characters, and pydantic counts bytes
        return node.get("version") is not None or node.get("max_length") is not None
    bounds = _BOUNDS if kind in _DATES else _CHANGES if kind == "str" else ()
    return any(node.get(name) for name in bounds) or any(config.get(f"str_{name}") for name in _CHANGES)


def _has_own_document(node: JsonObject) -> bool:
    """Return whether the program replaces the JSON Schema that pydantic derives for a node."""
    metadata: JsonObject = node.get("metadata") or {}
    functions = (*metadata.get("pydantic_js_functions", ()), *metadata.get("pydantic_js_annotation_functions", ()))
    settings: JsonObject = getattr(node.get("cls"), "model_config", None) or {}
    return any(
        not str(getattr(function, "__module__", None)).startswith("pydantic.")
        or type(getattr(function, "__self__", None)).__name__ == "WithJsonSchema"
        for function in functions
    ) or any(
        callable(extra) or (is_object(extra) and not _SHAPES.isdisjoint(extra))
        for extra in (metadata.get("pydantic_js_extra"), settings.get("json_schema_extra"))
    )


_SHAPES: Final = frozenset(
    ("$ref", "allOf", "anyOf", "const", "enum", "format", "items", "oneOf", "properties", "required", "type")
)

# the keys of mappings that the JSON Schema describes completely
_KEYS: Final = ("any", "date", "definition-ref", "enum", "int", "literal", "str", "uuid")
_KEY_NOTES: Final = ("cls", "expected", "members", "metadata", "pattern", "ref", "schema_ref", "sub_type", "type")


def is_own(function: object) -> bool:
    """Return whether pydantic uses a function for a type of the standard library, such as `Path`."""
    return str(getattr(function, "__module__", None)).startswith("pydantic._internal.")


_SETTINGS: Final = {"ser_json_timedelta": "iso8601", "ser_json_temporal": "iso8601"}


def _writes_otherwise(node: JsonObject) -> bool:
    kind = node["type"]
    config: JsonObject = node.get("config") or {}
    if any(config.get(name, usual) != usual for name, usual in _SETTINGS.items()):
        return True
    if config.get("ser_json_bytes", "utf8") != config.get("val_json_bytes", "utf8"):
        return True
    serialization: JsonObject = node.get("serialization") or {}
    if kind == "json":
        return True
    if str(serialization.get("type")).startswith(_FUNCTIONS):
        return kind.startswith(_FUNCTIONS) or not is_own(serialization["function"])
    if kind in ("model", "dataclass"):  # a model that ignores undeclared data also ignores its computed fields
        computed = any(one.get("computed_fields") for one in nodes_of(node["schema"]))
        return computed and config.get("extra_fields_behavior", "ignore") != "ignore"
    return any(
        field.get("serialization_exclude") is True
        or field.get("init_only") is True
        or field.get("validation_alias", name) != field.get("serialization_alias", name)
        for name, field in _fields_of(node)
    )


def hashes_data(node: JsonObject) -> bool:
    """Return whether Python hashes values of the data there, so that the data can choose values with one hash."""
    kind, keys = node["type"], node.get("keys_schema") or {"type": "any"}
    return kind in ("set", "frozenset") or (kind in _MAPPINGS and keys["type"] not in ("str", "any", "literal", "enum"))


def is_open(node: JsonObject) -> bool:
    """Return whether the data there can have any depth: the node refers to a definition, or accepts anything."""
    config: JsonObject = node.get("config") or {}
    return node["type"] in ("any", "definition-ref") or config.get("extra_fields_behavior") == "allow"


def hides_input(node: JsonObject) -> bool:
    """Return whether the configuration keeps values out of error messages."""
    config: JsonObject = node.get("config") or {}
    return config.get("hide_input_in_errors") is True


# ---- a quick check of the data


_CONFIG: Final = ("title", "extra_fields_behavior", "frozen")
_SCALARS: Final = ("str", "int", "float", "bool", "none")
_ALIKE: Final = frozenset(
    (
        *(*_SCALARS, "any", "default", "dict", "enum", "list", "literal", "nullable", "union", "tagged-union"),
        *("definitions", "definition-ref", "model", "model-field", "model-fields"),
    )
)


def reads_alike(node: JsonObject) -> bool:
    """Return whether a node reads a JSON value exactly as it reads JSON text."""
    strict = node.get("strict") and node["type"] not in _SCALARS
    own = node.get("custom_init") or node.get("post_init")
    return node["type"] in _ALIKE and all(name in _CONFIG for name in node.get("config") or ()) and not (strict or own)


def data_type(document: Any) -> Any | None:
    """Return a type of `msgspec` that accepts only values that a JSON Schema accepts, as a quick check.

    The type can refuse valid values, such as `3.0` for an integer. Return None if such a type does not exist: for
    patterns, for constants of mixed types, and for several objects without a tag.

    >>> data_type({"type": "array", "items": {"type": "string", "maxLength": 3}})
    list[typing.Annotated[str, msgspec.Meta(max_length=3)]]
    """
    types = _DataTypes(document)
    try:
        tp = types.of(document)
        types.tie()
        _ = msgspec.json.Decoder(tp)
    except (_InexactError, TypeError, ValueError, OverflowError, KeyError, NameError):
        return None
    return tp


class _InexactError(Exception):
    """The schema has no type of `msgspec`."""


def _hold(same: object) -> None:
    if not same:
        raise _InexactError


@final
class _DataTypes:
    """The types of the schemas in a document. A definition has a type for each property that tags it."""

    def __init__(self, document: Any) -> None:
        self._definitions: JsonObject = document.get("$defs", {}) if is_object(document) else {}
        self._known: dict[tuple[str, str | None], tuple[str, Any]] = {}
        self._structs: list[Any] = []

    def of(self, schema: Any, tag: str | None = None) -> Any:
        """Return the type of a schema. If a property tags an object, `tag` is its name.

        Raises:
            _InexactError: If the schema has no type.
        """
        _hold(schema is True or is_object(schema))
        words = {} if schema is True else {name: schema[name] for name in schema if name not in _ANNOTATIONS}
        if "$ref" in words:
            _hold(words.pop("required", [tag]) == [tag] and len(words) == 1)
            key = (words["$ref"], tag)
            if key not in self._known:
                name = f"data_{len(self._known)}"
                self._known[key] = name, ForwardRef(name)  # the definition can refer to itself
                self._known[key] = name, self.of(self._follow(words), tag)
            return self._known[key][1]
        for keyword in ("anyOf", "oneOf"):
            if keyword in words:
                _hold(len(words) == 1)
                return self._union(words[keyword], exclusive=keyword == "oneOf")
        if "const" in words or "enum" in words:
            values = [words.pop("const")] if "const" in words else words.pop("enum")
            _hold(all(type(value) is str for value in values) and words in ({}, {"type": "string"}))
            return _LITERAL[tuple(values)]
        return self._of_kind(words.pop("type"), words, tag) if words else Any

    def _of_kind(self, kind: str, words: JsonObject, tag: str | None) -> Any:
        if "properties" in words:
            _hold(kind == "object")
            return self._struct(words, tag)
        if kind == "object":
            tp = _DICT[str, self.of(words.pop("additionalProperties", True))]
        elif kind == "array":
            tp = _LIST[self.of(words.pop("items", True))]
        else:
            tp = _PLAIN[kind]
        names = _LIMITS[kind]
        bounds: JsonObject = {names[keyword]: bound for keyword, bound in words.items()}
        if kind == "number":  # NaN is not within any bounds
            bounds |= {} if "gt" in bounds else {"ge": bounds.get("ge", -_LARGEST)}
            bounds |= {} if "lt" in bounds else {"le": bounds.get("le", _LARGEST)}
        return _ANNOTATED[tp, msgspec.Meta(**bounds)] if bounds else tp

    def _struct(self, words: JsonObject, tag: str | None) -> Any:
        properties, required = words.pop("properties"), words.pop("required", ())
        others = words.pop("additionalProperties", True)
        _hold(isinstance(others, bool) and not words and all(name in properties for name in required))
        fields: list[tuple[str, Any, Any]] = []
        for at, (name, inner) in enumerate(properties.items()):
            tp, default = self.of(inner), msgspec.NODEFAULT if name in required else None
            if name != tag:
                fields.append((f"field_{at}", tp, msgspec.field(name=name, default=default)))
        made = msgspec.defstruct(
            "Data",
            fields,
            kw_only=True,
            gc=False,
            forbid_unknown_fields=not others,
            tag_field=tag,
            tag=None if tag is None else properties[tag]["const"],
        )
        self._structs.append(made)
        return made

    def _union(self, arms: JsonArray, *, exclusive: bool) -> Any:
        objects = [inner for arm in arms if "properties" in (inner := self._follow(arm))]
        tags = [
            name
            for name in (objects[0]["properties"] if len(objects) > 1 else ())
            if all(isinstance(arm["properties"].get(name, {}).get("const"), str) for arm in objects)
        ]
        _hold((tags and len(objects) == len(arms)) if exclusive else (tags or len(objects) < 2))
        tag = tags[0] if tags else None
        return _UNION[tuple(self.of(arm, tag if "properties" in self._follow(arm) else None) for arm in arms)]

    # ---- definitions

    def _follow(self, schema: Any) -> Any:
        return self._definitions[schema["$ref"].removeprefix(_DEFS)] if "$ref" in schema else schema

    def tie(self) -> None:
        """Define the names of the definitions in each struct, because a struct can refer to them."""
        for struct in self._structs:
            for name, tp in self._known.values():
                setattr(struct, name, tp)


_DEFS: Final = "#/$defs/"
_ANNOTATIONS: Final = ("$defs", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_NUMERIC: Final = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
_LIMITS: Final[dict[str, dict[str, str]]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "integer": {**_NUMERIC, "multipleOf": "multiple_of"},
    "number": _NUMERIC,
    "boolean": {},
    "null": {},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "object": {"minProperties": "min_length", "maxProperties": "max_length"},
}
_PLAIN: Final[JsonObject] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_UNION: Final[Any] = Union
_LITERAL: Final[Any] = Literal
_ANNOTATED: Final[Any] = Annotated
_LIST: Final[Any] = list
_DICT: Final[Any] = dict
_LARGEST: Final = sys.float_info.max
