"""The core schema of a pydantic type. Use this module to compare what pydantic validates with its JSON Schema.

A core schema is plain data: each node is a `dict` with its kind as `type`. pydantic keeps the core schema at the type.

>>> core = {"type": "list", "items_schema": {"type": "int", "gt": 0}}
>>> [node["type"] for node in nodes_of(core)]
['list', 'int']
>>> exact_core(core, {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}})
{'type': 'list', 'items_schema': {'type': 'int', 'gt': 0, 'strict': True}}
>>> exact_core(core, {"type": "array", "items": {"type": "integer"}}) is None
True
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, final, get_args, get_origin

import msgspec

from fxai.schema.codecs import Codec
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import SchemaError

_Node: TypeAlias = dict[str, Any]

_OPAQUE: Final = ("cls", "config", "default", "expected", "metadata", "python_schema", "ref", "serialization")


def nodes_of(core: Any) -> Iterator[_Node]:
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


def check_nodes(called: str, nodes: list[_Node]) -> None:
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
            _check_constants(node)
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


def _has_no_hash(node: _Node, known: dict[str, _Node]) -> bool:
    while node["type"].startswith(_FUNCTIONS) or node["type"] in ("definition-ref", "nullable", "default"):
        inner = known.get(node["schema_ref"]) if node["type"] == "definition-ref" else node.get("schema")
        if inner is None:
            return False
        node = inner
    return node["type"] in _NO_HASH or getattr(node.get("cls"), "__hash__", True) is None


def _check_constants(node: _Node) -> None:
    odd = [member for member in node["members"] if not isinstance(member.value, (str, int, float, type(None)))]
    if odd:
        raise SchemaError(
            f"the value of {odd[0]} is a {type(odd[0].value).__name__}, and pydantic cannot read it from JSON. Use a"
            " string or a number as the value."
        )


def _check_fields(called: str, node: _Node) -> None:
    for name, field in _fields_of(node):
        alias: Any = field.get("validation_alias")
        paths = alias if is_array(alias) and alias and is_array(alias[0]) else [alias]
        if is_array(alias) and not any(len(path) == 1 for path in paths):
            raise SchemaError(
                f"the field {called}.{name} has an AliasPath, which its JSON Schema cannot describe. Use an alias that"
                " is a name, or read the path in a validator with mode='before'."
            )
    config: dict[str, Any] = node.get("config") or {}
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


def _fields_of(node: _Node) -> list[tuple[str, _Node]]:
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


def caveats_of(called: str, nodes: list[_Node]) -> Iterator[Caveat]:
    """Iterate over the caveats of a type."""
    replaced = any(map(_has_own_document, nodes))
    if replaced or any(map(_validates_more, nodes)):
        yield Caveat("decode", f"{called} has validators that its JSON Schema does not describe")
    if replaced or any(map(_writes_otherwise, nodes)):
        yield Caveat("encode", f"{called} has computed fields, serializers, or aliases for its JSON data only")


def _validates_more(node: _Node) -> bool:
    kind = node["type"]
    config: dict[str, Any] = node.get("config") or {}
    if config.get("val_json_bytes", "utf8") != "utf8":
        return True
    if kind not in _DESCRIBED or node.get("custom_init") or node.get("post_init"):
        return True
    if kind == "tagged-union":
        by: Any = node["discriminator"]
        return not isinstance(by, str) and getattr(by, "__module__", None) != "pydantic.types"  # as of JsonValue
    if kind in _MAPPINGS and not _has_known_keys(node.get("keys_schema") or {"type": "any"}):
        return True
    if kind in ("uuid", "bytes"):  # JSON Schema counts characters, and pydantic counts bytes
        return node.get("version") is not None or node.get("max_length") is not None
    bounds = _BOUNDS if kind in _DATES else _CHANGES if kind == "str" else ()
    return any(node.get(name) for name in bounds) or any(config.get(f"str_{name}") for name in _CHANGES)


def _has_own_document(node: _Node) -> bool:
    """Return whether the program replaces the JSON Schema that pydantic derives for a node."""
    metadata: dict[str, Any] = node.get("metadata") or {}
    functions = (*metadata.get("pydantic_js_functions", ()), *metadata.get("pydantic_js_annotation_functions", ()))
    settings: dict[str, Any] = getattr(node.get("cls"), "model_config", None) or {}
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

_KEYS: Final = ("any", "date", "definition-ref", "enum", "int", "literal", "str", "uuid")
_KEY_NOTES: Final = ("cls", "expected", "members", "metadata", "pattern", "ref", "schema_ref", "sub_type", "type")


def _has_known_keys(keys: _Node) -> bool:
    """Return whether the JSON Schema of a mapping describes its keys completely."""
    return keys["type"] in _KEYS and all(name in _KEY_NOTES for name in keys)


def is_own(function: Any) -> bool:
    """Return whether pydantic uses a function for a type of the standard library, such as `Path`."""
    return str(getattr(function, "__module__", None)).startswith("pydantic._internal.")


_SETTINGS: Final = {"ser_json_timedelta": "iso8601", "ser_json_temporal": "iso8601"}


def _writes_otherwise(node: _Node) -> bool:
    kind = node["type"]
    config: dict[str, Any] = node.get("config") or {}
    if any(config.get(name, usual) != usual for name, usual in _SETTINGS.items()):
        return True
    if config.get("ser_json_bytes", "utf8") != config.get("val_json_bytes", "utf8"):
        return True
    serialization: dict[str, Any] = node.get("serialization") or {}
    if kind == "json":
        return True
    if str(serialization.get("type")).startswith(_FUNCTIONS):
        return kind.startswith(_FUNCTIONS) or not is_own(serialization["function"])
    if kind in ("model", "dataclass"):  # a model that ignores undeclared data also ignores its computed fields
        computed = any(one.get("computed_fields") for one in nodes_of(node["schema"]))
        return computed and config.get("extra_fields_behavior", "ignore") != "ignore"
    return any(_is_written_otherwise(name, field) for name, field in _fields_of(node))


def _is_written_otherwise(name: str, field: _Node) -> bool:
    written = field.get("serialization_alias", name)
    if field.get("serialization_exclude") is True or field.get("init_only") is True:
        return True
    return bool(field.get("validation_alias", name) != written)


def hashes_data(node: _Node) -> bool:
    """Return whether Python hashes values of the data there, so that the data can choose values with one hash."""
    kind, keys = node["type"], node.get("keys_schema") or {"type": "any"}
    return kind in ("set", "frozenset") or (kind in _MAPPINGS and keys["type"] not in ("str", "any", "literal", "enum"))


def is_open(node: _Node) -> bool:
    """Return whether the data there can have any depth: the node refers to a definition, or accepts anything."""
    config: dict[str, Any] = node.get("config") or {}
    return node["type"] in ("any", "definition-ref") or config.get("extra_fields_behavior") == "allow"


def hides_input(node: _Node) -> bool:
    """Return whether the configuration keeps values out of error messages."""
    config: dict[str, Any] = node.get("config") or {}
    return config.get("hide_input_in_errors") is True


# ---- a core schema that equals its JSON Schema


def exact_core(core: _Node, document: Any) -> _Node | None:
    """Return a core schema of the JSON data of a type, if it accepts exactly the data that the JSON Schema accepts.

    A validator of the result can replace the validation by the JSON Schema. Its scalars are strict. Its models are
    typed dicts, so that it creates no objects. Only `3.0` for an integer is an exception: JSON Schema accepts `3.0`,
    and the strict scalar refuses it. Return None if the two differ, or if this module cannot compare them: for
    validators, patterns, and types without a form of their own in JSON.
    """
    try:
        return _Comparison(document).of(core, document)
    except (_InexactError, KeyError, TypeError, ValueError, AttributeError):
        return None


class _InexactError(Exception):
    """The core schema and the JSON Schema differ, or fxai cannot compare them."""


_ANNOTATIONS: Final = ("$defs", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_NUMERIC: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SCALARS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "str": ("string", {"min_length": "minLength", "max_length": "maxLength"}),
    "int": ("integer", {**_NUMERIC, "multiple_of": "multipleOf"}),
    "float": ("number", _NUMERIC),
    "bool": ("boolean", {}),
    "none": ("null", {}),
}
_SILENT: Final = ("type", "metadata", "ref", "serialization")
"""The parts of a node that do not change the accepted data."""
_CONFIG: Final = ("title", "extra_fields_behavior", "frozen")


def _hold(same: object) -> None:
    if not same:
        raise _InexactError


@final
class _Comparison:
    """A comparison, with the definitions of the core schema and their locations in the JSON Schema."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[str, _Node] = {}
        self._locations: dict[str, Any] = {}
        self._done: dict[str, _Node] = {}

    def of(self, node: _Node, location: Any, extra: str = "ignore") -> _Node:
        """Return the node of the JSON data.

        Raises:
            _InexactError: The node and the place differ.
        """
        kind = node["type"]
        if kind in _SCALARS:
            return _scalar(node, self._follow(location))
        return _COMPARISONS[kind](self, node, location, extra)

    def _follow(self, location: Any) -> dict[str, Any]:
        """Return the keywords of a place, without its annotations, and with the target of its reference."""
        keywords = {name: value for name, value in location.items() if name not in _ANNOTATIONS}
        if "$ref" not in keywords:
            return keywords
        _hold(len(keywords) == 1)
        return self._follow(self._target(keywords["$ref"]))

    def _target(self, reference: str) -> Any:
        return self._document["$defs"][reference.removeprefix("#/$defs/")]

    # ---- references

    def definitions(self, node: _Node, location: Any, _: str) -> _Node:
        self._known = {one["ref"]: one for one in node["definitions"]}
        schema = self.of(node["schema"], location)
        return {"type": "definitions", "schema": schema, "definitions": list(self._done.values())}

    def reference(self, node: _Node, location: Any, _: str) -> _Node:
        name = node["schema_ref"]
        described = self._target(location["$ref"]) if "$ref" in location else location
        if name not in self._locations:
            self._locations[name] = described
            self._done[name] = {}  # the definition can refer to itself
            self._done[name] = self.of(self._known[name], described)
        _hold(self._bare(self._locations[name]) == self._bare(described))
        return node

    def _bare(self, location: Any) -> dict[str, Any]:
        return {name: value for name, value in location.items() if name not in _ANNOTATIONS}

    # ---- objects

    def model(self, node: _Node, location: Any, _: str) -> _Node:
        config: dict[str, Any] = node.get("config") or {}
        _hold(all(name in _CONFIG for name in config))
        _hold(not (node.get("custom_init") or node.get("post_init") or node.get("strict")))
        inner = self.of(node["schema"], location, config.get("extra_fields_behavior", "ignore"))
        return {**inner, "ref": node["ref"]} if "ref" in node else inner

    def fields(self, node: _Node, location: Any, extra: str) -> _Node:
        keywords, fields = self._follow(location), node["fields"]
        _hold("extras_schema" not in node and "extras_keys_schema" not in node)
        names = {name: field.get("validation_alias", name) for name, field in fields.items()}
        needed = {names[name] for name, field in fields.items() if field["schema"]["type"] != "default"}
        properties, extra = keywords.pop("properties"), node.get("extra_behavior", extra)
        _hold(keywords.pop("type") == "object" and properties.keys() == set(names.values()))
        _hold(set(keywords.pop("required", ())) == needed)
        _hold(keywords == _EXTRA[extra])
        compared: dict[str, _Node] = {
            alias: {
                "type": "typed-dict-field",
                "schema": self.of(fields[name]["schema"], properties[alias]),
                "required": alias in needed,
            }
            for name, alias in names.items()
        }
        return {"type": "typed-dict", "fields": compared, "extra_behavior": extra}

    def default(self, node: _Node, location: Any, _: str) -> _Node:
        _hold(node.get("on_error", "raise") == "raise")
        return self.of(node["schema"], location)

    def mapping(self, node: _Node, location: Any, _: str) -> _Node:
        keywords, values = self._follow(location), node.get("values_schema", {"type": "any"})
        _hold(all(name in _SILENT for name in node["keys_schema"]) and node["keys_schema"]["type"] == "str")
        inside = keywords.pop("additionalProperties", {})
        _hold(_bounds(node, {"min_length": "minProperties", "max_length": "maxProperties"}, "object") == keywords)
        return {**node, "values_schema": self.of(values, {} if inside is True else inside)}

    # ---- arrays, unions, and constants

    def array(self, node: _Node, location: Any, _: str) -> _Node:
        keywords = self._follow(location)
        items = self.of(node.get("items_schema", {"type": "any"}), keywords.pop("items", {}))
        _hold(_bounds(node, {"min_length": "minItems", "max_length": "maxItems"}, "array") == keywords)
        return {**node, "items_schema": items}

    def nullable(self, node: _Node, location: Any, _: str) -> _Node:
        keywords = self._follow(location)
        _hold(keywords.keys() == {"anyOf"} and keywords["anyOf"][1:] == [{"type": "null"}])
        return {**node, "schema": self.of(node["schema"], keywords["anyOf"][0])}

    def union(self, node: _Node, location: Any, _: str) -> _Node:
        keywords = self._follow(location)
        _hold(keywords.keys() == {"anyOf"} and node.get("mode", "smart") == "smart")
        choices: list[Any] = [one[0] if type(one) is tuple else one for one in node["choices"]]
        compared = [self.of(one, arm) for one, arm in zip(choices, keywords["anyOf"], strict=True)]
        return {**node, "choices": compared}

    def choice(self, node: _Node, location: Any, _: str) -> _Node:
        keywords, choices, tag = self._follow(location), node["choices"], node["discriminator"]
        _hold(keywords.keys() == {"oneOf"} and isinstance(tag, str) and all(isinstance(one, str) for one in choices))
        listed = list(choices.values())
        alike: list[_Node] = [one for at, one in enumerate(listed) if one not in listed[:at]]  # one can have two tags
        arms: list[Any] = keywords["oneOf"]
        _hold(all(arm["required"] == [tag] and "$ref" in arm for arm in arms))
        described = [{key: value for key, value in arm.items() if key != "required"} for arm in arms]
        compared = [self.of(one, arm) for one, arm in zip(alike, described, strict=True)]
        return {**node, "choices": {name: compared[alike.index(one)] for name, one in choices.items()}}

    def literal(self, node: _Node, location: Any, _: str) -> _Node:
        _hold(self._follow(location) == _constants(node["expected"]))
        return node

    def enum(self, node: _Node, location: Any, _: str) -> _Node:
        _hold("missing" not in node and self._follow(location) == _constants([one.value for one in node["members"]]))
        return node

    def anything(self, node: _Node, location: Any, _: str) -> _Node:
        _hold(self._follow(location) == {})
        return node


_COMPARISONS: Final[dict[str, Callable[[_Comparison, _Node, Any, str], _Node]]] = {
    "any": _Comparison.anything,
    "default": _Comparison.default,
    "definition-ref": _Comparison.reference,
    "definitions": _Comparison.definitions,
    "dict": _Comparison.mapping,
    "enum": _Comparison.enum,
    "list": _Comparison.array,
    "literal": _Comparison.literal,
    "model": _Comparison.model,
    "model-fields": _Comparison.fields,
    "nullable": _Comparison.nullable,
    "tagged-union": _Comparison.choice,
    "union": _Comparison.union,
}
_EXTRA: Final[dict[str, dict[str, Any]]] = {
    "ignore": {},
    "allow": {"additionalProperties": True},
    "forbid": {"additionalProperties": False},
}


def _scalar(node: _Node, keywords: dict[str, Any]) -> _Node:
    kind, bounds = _SCALARS[node["type"]]
    _hold(all(name in (*bounds, "allow_inf_nan", "strict", *_SILENT) for name in node))
    _hold(_bounds(node, bounds, kind) == keywords)
    strict = {**node, "strict": True} if kind != "null" else node
    return {**strict, "allow_inf_nan": False} if kind == "number" else strict  # JSON has no NaN


def _bounds(node: _Node, names: dict[str, str], kind: str) -> dict[str, Any]:
    """Return the keywords of a kind of JSON, with the bounds of a node."""
    return {"type": kind, **{keyword: node[name] for name, keyword in names.items() if node.get(name) is not None}}


def _constants(values: Any) -> dict[str, Any]:
    """Return the keywords of a value that is one of these strings."""
    _hold(all(type(value) is str for value in values))
    return {"type": "string", **({"const": values[0]} if len(values) == 1 else {"enum": list(values)})}


# ---- the same data as a type of msgspec


def data_type(exact: _Node) -> Any | None:
    """Return a type of `msgspec` that accepts no other data than a result of `exact_core`, and is checked sooner.

    Return None if such a type does not exist: for recursive data and for most unions.

    >>> data_type({"type": "list", "items_schema": {"type": "str", "max_length": 3, "strict": True}})
    list[typing.Annotated[str, msgspec.Meta(max_length=3)]]
    """
    try:
        tp = _data_type(exact, {one["ref"]: one for one in exact.get("definitions", ())}, ())
        _ = msgspec.json.Decoder(tp)
    except (_InexactError, TypeError, ValueError, OverflowError):
        return None
    return tp


def _data_type(node: _Node, known: dict[str, _Node], inside: tuple[str, ...]) -> Any:
    kind = node["type"]
    if kind == "definitions":
        return _data_type(node["schema"], known, inside)
    if kind == "definition-ref":
        name = node["schema_ref"]
        _hold(name not in inside)
        return _data_type(known[name], known, (*inside, name))
    if kind in ("literal", "enum"):
        return _LITERAL[tuple(node["expected"] if kind == "literal" else [one.value for one in node["members"]])]
    if kind == "nullable":
        return _UNION[_data_type(node["schema"], known, inside), None]
    if kind == "union":
        return _UNION[tuple(_data_type(one, known, inside) for one in node["choices"])]
    if kind == "typed-dict":
        return _data_struct(node, known, inside)
    if kind == "list":
        tp = _LIST[_data_type(node["items_schema"], known, inside)]
    elif kind == "dict":
        tp = _DICT[str, _data_type(node["values_schema"], known, inside)]
    else:
        _hold(kind in _PLAIN)
        tp = _PLAIN[kind]
    bounds: dict[str, Any] = {name: node[name] for name in _LIMITS if node.get(name) is not None}
    if kind == "float":  # NaN is not within any bounds
        bounds = {
            **({} if "gt" in bounds else {"ge": -_LARGEST}),
            **({} if "lt" in bounds else {"le": _LARGEST}),
            **bounds,
        }
    return _ANNOTATED[tp, msgspec.Meta(**bounds)] if bounds else tp


def _data_struct(node: _Node, known: dict[str, _Node], inside: tuple[str, ...]) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    for at, (name, field) in enumerate(node["fields"].items()):
        default = msgspec.NODEFAULT if field["required"] else None
        tp = _data_type(field["schema"], known, inside)
        fields.append((f"field_{at}", tp, msgspec.field(name=name, default=default)))
    return msgspec.defstruct(
        "Data", fields, kw_only=True, gc=False, forbid_unknown_fields=node["extra_behavior"] == "forbid"
    )


_UNION: Final[Any] = Union
_LITERAL: Final[Any] = Literal
_ANNOTATED: Final[Any] = Annotated
_LIST: Final[Any] = list
_DICT: Final[Any] = dict
_LARGEST: Final = sys.float_info.max
_LIMITS: Final = ("min_length", "max_length", "ge", "gt", "le", "lt", "multiple_of")
_PLAIN: Final[dict[str, Any]] = {"any": Any, "str": str, "int": int, "float": float, "bool": bool, "none": None}
