"""Types of pydantic as parts of a schema. Use this module to find, compile, or describe these types.

fxai never imports pydantic. If pydantic is imported, the following types are foreign:

- a type that follows the protocol of pydantic: a model, a pydantic dataclass, a class with its own core schema, or an
  `Annotated` with metadata of pydantic
- a type that pydantic knows and msgspec does not know, such as `pathlib.Path`
- an alias that contains its own name
- a container or a union of such types

fxai validates the JSON data against the JSON Schema of the type first. Then pydantic builds the value in its JSON mode.
Therefore fxai enforces the schema that the model received.

>>> foreign_of(list[int]) is None
True
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial
from itertools import count
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, final, get_args, get_origin

import msgspec
from typing_extensions import TypeAliasType, override

from fxai.schema.budget import MAX_FAULTS
from fxai.schema.codecs import Codec
from fxai.schema.conversion import Conversion, UnfitError
from fxai.schema.core_schema import (
    Caveat,
    caveats_of,
    check_nodes,
    check_notes,
    data_type,
    hashes_data,
    hides_input,
    is_open,
    is_own,
    nodes_of,
    reads_alike,
)
from fxai.schema.data import JsonObject, every_object, hold_hashes_apart, is_array, is_object
from fxai.schema.fault import Fault, SchemaError, found_in, pointer_to, with_integers
from fxai.schema.json_schema import JsonSchema
from fxai.schema.mapping_keys import INTEGER
from fxai.schema.parsing import builtin, is_plain, plain_faults
from fxai.schema.type_info import contains_itself, name_of

MARK: Final = "x-fxai-foreign"
"""The keyword that marks the location of a foreign type until fxai inserts its JSON Schema."""

_ANNOTATED: Final[Any] = Annotated
_SCALARS: Final = (str, int, float, bool, None, type(None))
_NUMBERS: Final = count()
_ENCODE: Final = msgspec.json.Encoder().encode
_PACK: Final = msgspec.msgpack.Encoder().encode  # takes half the time of JSON
_NO_DATA: Final = (ValueError, OverflowError)
"""The errors of pydantic for a value without a JSON form."""
_UNPROVEN: Final = (msgspec.ValidationError, RecursionError)
"""The errors of the quick check for data that it cannot prove valid."""
_Location: TypeAlias = tuple[Any, tuple[msgspec.Meta, ...]]


# ---- recognition


def foreign_of(tp: Any) -> _Location | None:
    """Return the type that pydantic decodes, with its `Meta` notes. Return None if the type is not foreign.

    Raises:
        SchemaError: If the type is a `TypeAdapter`, because an adapter is a value.
    """
    adapter = _class("pydantic.type_adapter", "TypeAdapter")
    if adapter is not None and isinstance(tp, adapter):
        raise SchemaError(f"a type must not be a TypeAdapter, got {tp}. Pass the type that it adapts.")
    if get_origin(tp) is Annotated:
        metas = tuple(note for note in tp.__metadata__ if isinstance(note, msgspec.Meta))
        notes = tuple(note for note in tp.__metadata__ if not isinstance(note, msgspec.Meta))
        if any(map(_is_note, notes)):
            return _ANNOTATED[(tp.__origin__, *notes)], metas
        return (tp.__origin__, metas) if _is_foreign(tp.__origin__) else None
    return (tp, ()) if _is_foreign(tp) else None


def _is_foreign(tp: Any) -> bool:
    if contains_itself(tp):
        return True
    if isinstance(tp, TypeAliasType):
        return _is_foreign(tp.__value__)
    origin, arguments = get_origin(tp), get_args(tp)
    if origin is Annotated:
        if any(isinstance(note, Codec) for note in tp.__metadata__):
            return False
        return any(map(_is_note, tp.__metadata__)) or _is_foreign(tp.__origin__)
    if origin in (Union, UnionType):
        return any(map(_is_foreign, arguments))
    cls: Any = tp if origin is None else origin
    if not inspect.isclass(cls) or issubclass(cls, msgspec.Struct):
        return False
    if any(hasattr(cls, name) for name in _PROTOCOL):
        return True
    if arguments and issubclass(cls, (Mapping, Sequence, Set)):
        if issubclass(cls, Mapping) and arguments[0] is not str:
            return False  # msgspec reads the keys of a mapping
        if any(map(_is_foreign, arguments)) and all(  # both libraries decode the other arguments equally
            one in _SCALARS or one is Ellipsis or get_origin(one) is Literal or _is_foreign(one) for one in arguments
        ):
            return True
    return _is_known_only_to_pydantic(tp)


def _is_known_only_to_pydantic(tp: Any) -> bool:
    """Return True if only pydantic has a JSON form for a type.

    A type that pydantic supports and fxai refuses is also foreign, so that the message of fxai names the problem.
    """
    cls: Any = get_origin(tp) or tp
    if cls is object or issubclass(cls, (Enum, tuple)) or any(hasattr(cls, name) for name in _MEMBERS):
        return False  # msgspec supports the class, and its members can be foreign
    try:
        if not isinstance(msgspec.inspect.type_info(cls), msgspec.inspect.CustomType):
            return False
        _ = foreign(tp)
    except SchemaError as error:
        return getattr(error.__cause__, "code", None) != "schema-for-unknown-type"
    except TypeError:
        return False  # the decoder of msgspec raises the error
    return True


_MEMBERS: Final = ("__dataclass_fields__", "__attrs_attrs__", "__total__")


def _is_note(note: object) -> bool:
    """Return True if an object in `Annotated` is metadata that pydantic interprets."""
    if isinstance(note, (str, msgspec.Meta, Codec)):
        return False
    known = (_class("pydantic.fields", "FieldInfo"), *(_class("annotated_types", name) for name in _NOTES))
    return any(hasattr(note, method) for method in _METHODS) or isinstance(note, tuple(filter(None, known)))


_PROTOCOL: Final = ("__pydantic_core_schema__", "__get_pydantic_core_schema__", "__pydantic_config__")
_METHODS: Final = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
_NOTES: Final = ("BaseMetadata", "GroupedMetadata")


def _class(module: str, name: str) -> type[Any] | None:
    """Return a class of a module, or None if the program has not imported the module."""
    found: type[Any] | None = getattr(sys.modules.get(module), name, None)
    return found


# ---- the codec


@final
class Foreign(Conversion):
    """The conversion between JSON values and values of a type of pydantic.

    `document` describes the JSON values that the type decodes, and `written` the JSON values that it encodes. They can
    differ by computed fields, aliases, and serializers. `number` is the value of `MARK` at the location of the type.
    The type is `open_ended` if a value can contain any data, or data of any depth. `caveats` are the laws between the
    type and its JSON Schema that are true in only one direction.
    """

    sound = True
    wire = Any

    def __init__(self, tp: Any) -> None:
        """Compile the type.

        Raises:
            SchemaError: If pydantic has no validator or no JSON Schema for the type, or if an alias makes the JSON
                Schema differ from the validator.
            NameError: If the type names an undefined class.
        """
        pydantic: Any = sys.modules["pydantic"]
        self.tp: Any = tp
        self.number: int = next(_NUMBERS)
        self._adapter: Any = _adapter(tp, pydantic)
        self._refusal: type[Exception] = sys.modules["pydantic_core"].ValidationError
        nodes = list(nodes_of(self._adapter.core_schema))
        check_nodes(name_of(tp), nodes)
        self.document: JsonSchema = _document(self._adapter, "validation", tp)
        written = _document(self._adapter, "serialization", tp)
        self.written: JsonSchema = self.document if written == self.document else written
        self.caveats: tuple[Caveat, ...] = tuple(caveats_of(name_of(tp), nodes))
        self._build: Any = self._adapter.validator
        data = data_type(self.document.to_dict()) if all(map(reads_alike, nodes)) else None
        self._check: Callable[[Any], Any] | None = None if data is None else partial(msgspec.convert, type=data)
        self.open_ended: bool = self._check is None or any(map(is_open, nodes))
        self._hashed: bool = any(map(hashes_data, nodes))
        self._hidden: bool = any(map(hides_input, nodes)) or b'"writeOnly":true' in self.document.to_json()

    def describe(self, *, written: bool) -> JsonObject:
        """Return the JSON Schema of the type as a new JSON value."""
        document: JsonObject = (self.written if written else self.document).to_dict()
        return document

    @override
    def inward(self, wire: object) -> object:
        if self._check is not None:
            with suppress(*_UNPROVEN, self._refusal):  # the JSON Schema decides and reports the errors
                self._check(wire)
                return self._build.validate_python(wire)
        wire = msgspec.to_builtins(wire, str_keys=True, enc_hook=builtin)
        faults: tuple[Fault, ...] = ()
        if self._hashed:
            try:
                hold_hashes_apart(wire)
            except msgspec.ValidationError:
                faults = (Fault("", "values with different hashes", "many values with the same hash"),)
        if faults := faults or self.document.validate(wire, plain=True):
            raise self._unfit(*faults)
        try:
            return self._build.validate_json(_ENCODE(wire))
        except self._refusal as error:
            errors: Any = error
        located = [_locate(one, wire) for one in errors.errors(include_url=False, include_context=False)]
        whole = dict.fromkeys(at for at, there in located if isinstance(there, float) and there.is_integer())
        if whole:  # JSON Schema accepts `3.0` as an integer
            try:
                return self._build.validate_json(_ENCODE(with_integers(wire, whole)))
            except self._refusal as error:
                errors = error
        found = dict.fromkeys(_fault(one, wire) for one in errors.errors(include_url=False)[:MAX_FAULTS])
        raise self._unfit(*found) from errors

    @override
    def outward(self, value: object) -> object:
        try:
            data = self._dump(value, warnings="error")
        except (*_NO_DATA, TypeError) as error:
            raise self._unwritten(value) from error
        if not self._fits(data):
            raise self._unwritten(value)
        return data

    def _unwritten(self, value: object) -> UnfitError:
        """Return the errors of a value that the type does not encode."""
        faults: tuple[Fault, ...] = ()
        with suppress(*_NO_DATA, TypeError):
            data = self._dump(value, warnings="none")
            faults = plain_faults(data) or self.written.validate(data, plain=True)
        return self._unfit(*(faults or (Fault("", name_of(self.tp), found_in(value)),)))

    def _fits(self, data: object) -> bool:
        """Return True if data that the type encoded is a JSON value and satisfies the JSON Schema."""
        check = None if self.caveats else self._check  # without caveats, the type reads what it writes
        is_closed = check is not None and not self.open_ended
        try:
            text = _PACK(data) if is_closed else _ENCODE(data)  # both refuse half of a surrogate pair
        except OverflowError:
            pass  # only JSON has integers of any size
        except (TypeError, ValueError, RecursionError):
            return False
        else:
            if not is_closed and b"null" in text and not is_plain(data):
                return False  # null was NaN
        if check is not None:
            with suppress(*_UNPROVEN):
                check(data)
                return True
        return not self.written.validate(data)

    def _dump(self, value: object, *, warnings: Literal["error", "none"]) -> Any:
        return self._adapter.serializer.to_python(value, mode="json", by_alias=True, warnings=warnings)

    def _unfit(self, *faults: Fault) -> UnfitError:
        """Return the error of the type. If the type hides its input, remove the values from the validation errors."""
        if not self._hidden:
            return UnfitError(*faults)
        return UnfitError(*(Fault(one.pointer, one.expected, one.found.partition(" ")[0]) for one in faults))


def foreign(tp: Any) -> Foreign:
    """Return the conversion of a foreign type. fxai caches it by the type.

    Raises:
        SchemaError: If pydantic has no validator or no JSON Schema for the type.
        NameError: If the type names an undefined class.
    """
    try:
        return _known(tp)
    except TypeError as error:
        if isinstance(error, SchemaError):
            raise
        return Foreign(tp)  # metadata that cannot be hashed


_known: Final = lru_cache(maxsize=4096)(Foreign)


# ---- the compiled type


def _adapter(tp: Any, pydantic: Any) -> Any:
    check_notes(tp, name_of(tp))
    try:
        adapter = pydantic.TypeAdapter(tp)
        _ = adapter.validator.title, adapter.serializer, adapter.core_schema["type"]  # an incomplete type raises
    except Exception as error:
        if isinstance(error, NameError) or getattr(error, "code", None) == "class-not-fully-defined":
            called = name_of(tp)
            rebuild = f", then call {called}.model_rebuild()" if inspect.isclass(tp) else f" before you use {called}"
            raise NameError(f"{called} names a class that is not defined yet. Define the class{rebuild}.") from None
        why, remedy = _first_line(error), _REMEDY
        strange = [name_of(arm) for arm in get_args(tp) if inspect.isclass(arm) and issubclass(arm, msgspec.Struct)]
        if strange:
            why = f"only msgspec decodes {strange[0]}, and only pydantic decodes another type of the union."
            remedy = f"Make {strange[0]} a pydantic model or a dataclass, or carry the other types by a codec."
        raise SchemaError(f"pydantic cannot validate {name_of(tp)}: {why} {remedy}") from error
    return adapter


@lru_cache(maxsize=1)
def _generator() -> type[Any]:
    """Return the generator class of pydantic with two changes for data that pydantic does not restrict."""
    base: Any = sys.modules["pydantic.json_schema"].GenerateJsonSchema

    def ser_schema(self: Any, schema: Any) -> Any:
        found: Any = base.ser_schema(self, schema)
        if found is None and schema["type"].startswith("function-") and not is_own(schema["function"]):
            return {}  # a serializer without a return type can write anything
        return found

    def dict_schema(self: Any, schema: Any) -> Any:
        found: Any = base.dict_schema(self, schema)
        keys: Any = schema.get("keys_schema")
        if keys is not None and keys["type"] == "int":
            found.setdefault("propertyNames", {"pattern": INTEGER})
        return found

    return type("FxaiJsonSchema", (base,), {"ser_schema": ser_schema, "dict_schema": dict_schema})


def _document(adapter: Any, mode: Literal["validation", "serialization"], tp: Any) -> JsonSchema:
    """Return the JSON Schema of a type. Its root has no `$ref`, and its unions require their tags."""
    try:
        document: JsonObject = adapter.json_schema(mode=mode, by_alias=True, schema_generator=_generator())
    except Exception as error:
        problem = f"pydantic has no JSON Schema ({mode}) for {name_of(tp)}"
        raise SchemaError(f"{problem}: {_first_line(error)} {_REMEDY}") from error
    for schema in every_object(document):
        union, arms = schema.get("discriminator"), schema.get("oneOf")  # no keyword of JSON Schema
        if is_object(union) and is_array(arms) and isinstance(tag := union.get("propertyName"), str):
            del schema["discriminator"]
            schema["oneOf"] = [{**arm, "required": [tag]} if "$ref" in arm else arm for arm in arms]
    reference = document.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        del document["$ref"]
        name = reference.removeprefix("#/$defs/")
        inside = document["$defs"][name]
        if _ENCODE({"$ref": reference})[1:-1] not in _ENCODE(document):
            del document["$defs"][name]
        document = {**inside, **document}
        if not document["$defs"]:
            del document["$defs"]
    return JsonSchema.of(document)


_REMEDY: Final = (
    "Change the type there, or give it a JSON form with WithJsonSchema, PlainValidator, and PlainSerializer."
)


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].partition(" Set `arbitrary_types_allowed")[0].strip()
    return line if line.endswith(".") else f"{line}."


# ---- validation errors

_MOST_WAYS: Final = 16


def _fault(error: Any, wire: object) -> Fault:
    pointer, there = _locate(error, wire)
    if error["type"] == "missing":
        return Fault(pointer_to(pointer, str(error["loc"][-1])), "a value", "nothing")
    return Fault(pointer, f"a valid value ({error['msg']})", found_in(there))


def _locate(error: Any, wire: object) -> tuple[str, object]:
    """Return the JSON pointer of an error of pydantic, and the data there.

    The location in an error of pydantic also contains names of alternatives and validators. A property and an
    alternative can have the same name. In this case, the input in the error decides.
    """
    location = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
    ways: JsonObject = {"": wire}
    for token in location:
        deeper: JsonObject = {}
        for pointer, there in ways.items():
            if is_object(there) and str(token) in there:
                deeper[pointer_to(pointer, str(token))] = there[str(token)]
            elif is_array(there) and isinstance(token, int) and 0 <= token < len(there):
                deeper[f"{pointer}/{token}"] = there[token]
            if isinstance(token, str):
                deeper.setdefault(pointer, there)  # the name of an alternative
        ways = dict(list(deeper.items())[:_MOST_WAYS]) or ways
    given: Any = error.get("input")
    fitting = [way for way in ways.items() if way[1] == given and type(way[1]) is type(given)]
    return max(fitting or ways.items(), key=lambda way: way[0].count("/"))
