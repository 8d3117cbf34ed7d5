"""Each kind of type that pydantic knows: it works, by one table, or fxai refuses it by name, by another."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import re
import subprocess
import sys
import uuid
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar, Union, get_args

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from fxai.schema import Schema, SchemaError
from fxai.schema.data import is_object
from fxai.testing import OneSidedLawWarning, check_tool
from fxai.tools import Tool
from tests.kit.every import every

T = TypeVar("T")


class Item(BaseModel):
    """A model."""

    sku: str
    quantity: Annotated[int, Field(gt=0)] = 1


class Text(enum.Enum):
    """Constants that are strings."""

    A = "a"
    B = "b"


class Number(enum.IntEnum):
    """Constants that are integers."""

    ONE = 1
    TWO = 2


class Cat(BaseModel):
    """An alternative with one tag."""

    kind: Literal["cat"]
    lives: int


class Canine(BaseModel):
    """An alternative with two tags."""

    kind: Literal["dog", "wolf"]
    name: str


class Box(BaseModel, Generic[T]):
    """A generic model."""

    inside: T


class Pair(NamedTuple):
    """A named tuple."""

    number: int
    item: Item


class Keys(TypedDict, total=False):
    """A TypedDict."""

    item: Item
    number: int


@pydantic.with_config(ConfigDict(extra="forbid"))
class Strict(TypedDict):
    """A TypedDict with a configuration."""

    number: int


@dataclasses.dataclass
class Plain:
    """A dataclass of the standard library."""

    item: Item
    path: Path


class Record(msgspec.Struct):
    """A struct of msgspec."""

    item: Item
    paths: list[Path] = []
    by_number: dict[int, Item] = {}


def _number_of(own: Any) -> Any:
    return own.number


class Own:
    """A class with its own core schema."""

    def __init__(self, number: int) -> None:
        self.number: int = number

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Describe the class as an integer."""
        core: Any = handler(int)
        written: Any = {"type": "function-plain", "function": _number_of, "return_schema": {"type": "int"}}
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": cls},
            "schema": core,
            "serialization": written,
        }


class Written(BaseModel):
    """Serializers: one without a return type, and one with a return type."""

    number: Annotated[int, pydantic.PlainSerializer(partial(str))]
    other: int

    @pydantic.field_serializer("other")
    def _write_other(self, other: int) -> str:
        return str(other)


class Validated(BaseModel):
    """Validators before and after."""

    low: int
    high: int

    @pydantic.field_validator("low", mode="before")
    @classmethod
    def _read_low(cls, low: Any) -> Any:
        return low

    @pydantic.model_validator(mode="after")
    def _compare(self) -> Validated:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def _tag(given: Any) -> str:
    """Return the tag of data, or of a model."""
    kind = given.get("kind") if is_object(given) else getattr(given, "kind", None)
    return "cat" if kind == "cat" else "dog"


def _model(called: str = "Model", **fields: Any) -> Any:
    return pydantic.create_model(called, **fields)


def _configured(config: ConfigDict, **fields: Any) -> Any:
    return pydantic.create_model("Configured", __config__=config, **fields)


def _dataclass(**config: Any) -> Any:
    decorate: Any = pydantic.dataclasses.dataclass
    return decorate(**config)(type("Point", (), {"__annotations__": {"x": int, "item": Item}}))


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Even = TypeAliasType("Even", Annotated[int, Field(multiple_of=2)])
Named = NewType("Named", Item)
PETS: Any = Annotated[Cat | Canine, Field(discriminator="kind")]
UNION: Any = Union
SKIPPED: Any = get_args(SkipJsonSchema[int])[1]
SELF = _model("Linked", next=("Linked | None", None))
PLAIN: Any = {"sku": "a", "quantity": 2}
ID = str(uuid.UUID(int=5))
STAMP = "2020-01-02T03:04:05Z"


class Kind(NamedTuple):
    """A type, data that it accepts and writes again, and data that it refuses.

    `written` is the data that the type writes if they are other data than it read; `...` is any data.
    """

    type: Any
    data: Any
    refused: tuple[Any, ...] = ()
    written: Any = None


ALIASED = _configured(ConfigDict(alias_generator=to_camel), first_name=(str, ...))
TYPED_EXTRA: Any = type(
    "Extra",
    (BaseModel,),
    {
        "__module__": __name__,
        "__annotations__": {"__pydantic_extra__": dict[str, int], "a": int},
        "__pydantic_extra__": Field(init=False),
        "model_config": ConfigDict(extra="allow"),
    },
)

MODELS: dict[str, Kind] = {
    "a model": Kind(Item, PLAIN, ({}, {"sku": 1}, {**PLAIN, "quantity": "2"})),
    "an alias generator": Kind(ALIASED, {"firstName": "a"}, ({"first_name": "a"},)),
    "an alias for reading": Kind(_model(a=(int, Field(validation_alias="b"))), {"b": 1}, ({"a": 1},), {"a": 1}),
    "an alias for writing": Kind(_model(a=(int, Field(serialization_alias="b"))), {"a": 1}, ({},), {"b": 1}),
    "extra data": Kind(_configured(ConfigDict(extra="allow"), a=(int, ...)), {"a": 1, "b": [None]}, ({"b": 1},)),
    "typed extra data": Kind(TYPED_EXTRA, {"a": 1, "b": 2}, ({"a": 1, "b": "x"},)),
    "no extra data": Kind(_configured(ConfigDict(extra="forbid"), a=(int, ...)), {"a": 1}, ({"a": 1, "b": 1},)),
    "a strict model": Kind(
        _configured(ConfigDict(strict=True), n=(float, ...), day=(datetime.date, ...), one=(Text, ...)),
        {"n": 1.5, "day": "2020-01-02", "one": "a"},
        ({"n": "1.5", "day": "2020-01-02", "one": "a"}, {"n": 1.5, "day": "x", "one": "a"}),
    ),
    "changed strings": Kind(
        _configured(ConfigDict(str_strip_whitespace=True, str_to_lower=True), a=(str, ...)),
        {"a": " A "},
        (),
        {"a": "a"},
    ),
    "no NaN": Kind(_configured(ConfigDict(allow_inf_nan=False), a=(float, ...)), {"a": 1.5}, ({"a": "NaN"},)),
    "values of enums": Kind(_configured(ConfigDict(use_enum_values=True), a=(Text, ...)), {"a": "b"}, ({"a": "c"},)),
    "a default": Kind(
        _model(a=(int, 3), b=(list[int], Field(default_factory=list))), {"a": 1, "b": [1]}, ({"a": "1"},)
    ),
    "an excluded field": Kind(_model(a=(int, 3), b=(int, Field(default=0, exclude=True))), {"a": 1}, ({"b": "x"},)),
    "a hidden field": Kind(_model(a=(Annotated[int, SKIPPED], 3)), {}, (), {"a": 3}),
    "a frozen model": Kind(_configured(ConfigDict(frozen=True), a=(int, ...)), {"a": 1}, ({},)),
    "validators": Kind(Validated, {"low": 1, "high": 2}, ({"low": 3, "high": 2}, {"low": "1", "high": 2})),
    "serializers": Kind(Written, {"number": 1, "other": 2}, ({},), {"number": "1", "other": "2"}),
    "a model that contains itself": Kind(SELF, {"next": {"next": None}}, ({"next": 1},)),
    "a generic model": Kind(Box[Box[Item]], {"inside": {"inside": PLAIN}}, ({"inside": {"inside": 1}},)),
    "a generic model without its type": Kind(Box, {"inside": [1]}, ({},)),
    "a root list": Kind(RootModel[list[str]], ["a"], ([1], {})),
    "a root mapping": Kind(RootModel[dict[str, Item]], {"a": PLAIN}, ({"a": 1}, [])),
    "a root union": Kind(RootModel[PETS], {"kind": "wolf", "name": "x"}, ({}, {"kind": "x"})),
    "a dataclass of pydantic": Kind(_dataclass(), {"x": 1, "item": PLAIN}, ({"x": 1},)),
    "a closed dataclass of pydantic": Kind(
        _dataclass(config=ConfigDict(extra="forbid"), frozen=True), {"x": 1, "item": PLAIN}, ({"x": 1, "y": 1},)
    ),
    "a changed JSON Schema": Kind(
        _configured(ConfigDict(json_schema_extra={"required": ["a"]}), a=(int, 3)), {"a": 1}, ({},)
    ),
    "the own JSON Schema": Kind(Annotated[int, pydantic.WithJsonSchema({"minimum": 3})], 4, (2, "x")),
}
UNIONS: dict[str, Kind] = {
    "a discriminated union": Kind(PETS, {"kind": "wolf", "name": "x"}, ({"name": "x"}, {"kind": "cat", "name": "x"})),
    "a discriminated union in a field": Kind(_model(a=(PETS, ...)), {"a": {"kind": "cat", "lives": 1}}, ({"a": {}},)),
    "a function as discriminator": Kind(
        Annotated[
            Annotated[Cat, pydantic.Tag("cat")] | Annotated[Canine, pydantic.Tag("dog")],
            pydantic.Discriminator(_tag),
        ],
        {"kind": "cat", "lives": 1},
        ({"kind": "x"},),
        ...,
    ),
    "models": Kind(UNION[Cat, Item], PLAIN, ({}, 3)),
    "a model or a list": Kind(UNION[Item, list[Item]], [PLAIN], ([{}], "x")),
    "a model or a scalar": Kind(UNION[Item, str, None], "x", (3, {})),
    "a model or a path": Kind(UNION[Item, Path], "x", (3, {})),
    "a model or a dataclass": Kind(UNION[Item, Plain], {"item": PLAIN, "path": "a"}, ({}, 3)),
    "scalars": Kind(_model(a=(int | float | str | bool | None, ...)), {"a": True}, ({"a": []},)),
    "mixed literals": Kind(_model(a=(Literal[1, "x", None, True], ...)), {"a": True}, ({"a": 2},)),
    "an optional path": Kind(Path | None, None, (3,)),
}
CONTAINERS: dict[str, Kind] = {
    "list": Kind(list[Item], [PLAIN], ([{}], {})),
    "tuple": Kind(tuple[Item, int], [PLAIN, 1], ([PLAIN], [PLAIN, "x"])),
    "tuple of any length": Kind(tuple[Item, ...], [PLAIN, PLAIN], ([{}],)),
    "frozenset": Kind(frozenset[pydantic.PositiveInt], [1, 2], ([0],)),
    "set of paths": Kind(set[Path], ["a"], ([1],)),
    "sequence": Kind(Sequence[Item], [PLAIN], ([{}], 3)),
    "mapping": Kind(Mapping[str, Item], {"a": PLAIN}, ({"a": {}},)),
    "deque": Kind(deque[int], [1], (["x"],)),
    "deque of models": Kind(deque[Item], [PLAIN], ([{}],)),
    "ordered dict": Kind(OrderedDict[str, Item], {"a": PLAIN}, ({"a": 1},)),
    "default dict": Kind(defaultdict[str, list[Item]], {"a": [PLAIN]}, ({"a": 1},)),
    "counter": Kind(Counter[str], {"a": 1}, ({"a": "x"},)),
    "keys that are integers": Kind(dict[int, Item], {"3": PLAIN}, ({"x": PLAIN}, {"3": {}}, {"": PLAIN})),
    "keys that are constants": Kind(dict[Text, Item], {"a": PLAIN}, ({"x": PLAIN}, {"a": {}})),
    "keys that are literals": Kind(dict[Literal["a", "b"], Item], {"a": PLAIN}, ({"x": PLAIN},)),
    "keys that are UUIDs": Kind(dict[uuid.UUID, Item], {ID: PLAIN}, ({"x": PLAIN},)),
    "integers as keys in a model": Kind(_model(a=(dict[int, int], ...)), {"a": {"3": 1}}, ({"a": {"x": 1}},)),
    "dates as keys in a model": Kind(
        _model(a=(dict[datetime.date, int], ...)), {"a": {"2020-01-02": 1}}, ({"a": {"x": 1}},)
    ),
    "constants as keys in a model": Kind(_model(a=(dict[Text, int], ...)), {"a": {"a": 1}}, ({"a": {"x": 1}},)),
    "a TypedDict": Kind(Keys, {"item": PLAIN}, ({"item": {}},)),
    "a closed TypedDict": Kind(Strict, {"number": 1}, ({"number": 1, "x": 1}, {})),
    "a TypedDict in a model": Kind(_model(a=(Keys, ...)), {"a": {"item": PLAIN}}, ({"a": {"item": {}}},)),
    "a named tuple": Kind(Pair, [1, PLAIN], ([1, {}],)),
    "a dataclass": Kind(Plain, {"item": PLAIN, "path": "a"}, ({"item": {}, "path": "a"},)),
    "a dataclass in a model": Kind(_model(a=(Plain, ...)), {"a": {"item": PLAIN, "path": "a"}}, ({"a": {}},)),
    "a struct": Kind(
        Record,
        {"item": PLAIN, "paths": ["a"], "by_number": {"3": PLAIN}},
        ({"item": PLAIN, "by_number": {"x": PLAIN}},),
    ),
}
SCALARS: dict[str, Kind] = {
    "path": Kind(Path, "a/b", (3,)),
    "pattern": Kind(re.Pattern[str], "^a", ("(", 3)),
    "IPv4 address": Kind(ipaddress.IPv4Address, "1.2.3.4", ("x",)),
    "IPv6 network": Kind(ipaddress.IPv6Network, "::/64", ("x",)),
    "complex number": Kind(complex, "1+2j", ("x",)),
    "fraction": Kind(Fraction, "1/3", ("x",)),
    "path in a mapping": Kind(dict[str, list[Path]], {"a": ["b"]}, ({"a": [1]},)),
    "secret": Kind(pydantic.SecretStr, "a", (1,), ...),
    "bytes in base64": Kind(pydantic.Base64Bytes, "YWJj", (3,), ...),
    "JSON in a string": Kind(pydantic.Json[list[int]], "[1]", ("x", [1]), ...),
    "URL": Kind(pydantic.HttpUrl, "http://x.y/", ("x",)),
    "byte size": Kind(pydantic.ByteSize, 1024, ("x",)),
    "UUID of a version": Kind(pydantic.UUID4, "f47ac10b-58cc-4372-a567-0e02b2c3d479", ("x", ID)),
    "date in the past": Kind(pydantic.PastDate, "2020-01-01", ("2999-01-01",)),
    "aware time": Kind(pydantic.AwareDatetime, STAMP, ("2020-01-02T03:04:05", 3)),
    "times in a model": Kind(
        _model(a=(datetime.time, ...), b=(datetime.timedelta, ...), c=(decimal.Decimal, ...), d=(bytes, ...)),
        {"a": "03:04:05", "b": "PT5S", "c": "1.5", "d": "abc"},
        ({"a": "x", "b": "PT5S", "c": "1.5", "d": "abc"},),
    ),
    "constrained": Kind(pydantic.conint(ge=1, le=5), 3, (9, "3")),
    "bytes with a bound": Kind(pydantic.conbytes(max_length=3), "abc", ("abcd", "ééé")),
    "constrained list": Kind(pydantic.conlist(int, min_length=1), [1], ([], ["x"])),
    "constant of an enum in a model": Kind(_model(a=(Number, ...)), {"a": 1}, ({"a": 3}, {"a": "1"})),
    "any JSON": Kind(pydantic.JsonValue, {"a": [1, None]}),
    "an alias that contains itself": Kind(Json, [{"a": [1, None]}], (1.5,)),
    "an alias": Kind(list[Even], [4], ([3],)),
    "a new type": Kind(Named, PLAIN, ({},)),
    "a class with its own core schema": Kind(_model(a=(Own, ...)), {"a": 3}, ({"a": "x"},)),
}
KINDS: dict[str, Kind] = {**MODELS, **UNIONS, **CONTAINERS, **SCALARS}


@every("kind", KINDS.values(), ids=list(KINDS))
def test_a_type_reads_and_writes_its_data(kind: Kind) -> None:
    """Data decode, encode, and satisfy both JSON Schemas; other data are validation errors with locations."""
    schema: Schema[Any] = Schema.of(kind.type)
    value = schema.decode(kind.data).unwrap()
    written = schema.encode(value).unwrap()

    assert schema.document.validate(kind.data) == schema.written_document.validate(written) == ()
    assert kind.written is ... or written == (kind.data if kind.written is None else kind.written)
    assert msgspec.json.decode(schema.encode_json(value).unwrap()) == written
    assert type(schema.decode_json(msgspec.json.encode(kind.data)).unwrap()) is type(value)
    for refused in kind.refused:
        assert all(str(fault) for fault in schema.decode(refused).failure().faults)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_tool_with_the_type_satisfies_the_laws(kind: Kind) -> None:
    """`check_tool` generates data of the JSON Schema, and the laws are true for them."""
    parameters = msgspec.defstruct("Parameters", [("given", kind.type)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneSidedLawWarning)
        check_tool(Tool.make("t", parameters=parameters, success=kind.type, failure=kind.type), max_examples=6, seed=3)


REFUSED: dict[str, tuple[Any, str]] = {
    "function": (Callable[[], int], "no JSON Schema"),
    "class": (type[Item], "contains a class as a value"),
    "iterable": (Iterable[int], "contains an Iterable"),
    "iterator": (Iterator[int], "no JSON form"),
    "object of another class": (list[ValueError], "ValueError at .* has no JSON form"),
    "Field as a default of a struct": (
        msgspec.defstruct("Bounded", [("n", int, Field(3, gt=0))]),
        r"Bounded.n has a pydantic Field as its default. Write the Field into the type",
    ),
    "Field as a default of a dataclass": (
        dataclasses.make_dataclass("Bounded", [("n", int, Field(gt=0))]),
        r"Bounded.n has a pydantic Field as its default. Write the Field into the type",
    ),
    "path as a key": (dict[Path, int], "Path at .* cannot be the key of a mapping"),
    "model as a key": (dict[Item, int], "Item at .* cannot be the key of a mapping"),
    "set of models": (set[Item], "values that have no hash"),
    "struct in a union": (Item | Record, "cannot validate .*Item.*Record"),
    "enum of other values in a model": (
        _model(a=(enum.Enum("Odd", {"A": (1, 2)}), ...)),
        r"the value of Odd.A is a tuple, and pydantic cannot read it from JSON",
    ),
    "enum of other values": (enum.Enum("Odd", {"A": Path("a")}), "Odd"),
}


@every("tp, message", REFUSED.values(), ids=list(REFUSED))
def test_a_type_without_a_json_form_is_refused_when_the_tool_is_made(tp: Any, message: str) -> None:
    """The message names the type once, before its problem."""
    with pytest.raises(SchemaError, match=message):
        Tool.make("t", parameters=msgspec.defstruct("Parameters", [("given", tp)]))
    with pytest.raises(SchemaError, match=message) as raised:
        Schema[Any].of(tp).check()

    first = str(raised.value).partition(":")[0]
    assert str(raised.value).count(f"{first}: {first}") == 0


def test_a_type_that_only_pydantic_knows_needs_the_import() -> None:
    """Without pydantic, the message recommends a codec or the import. After the import, the same schema works."""
    program = """
from pathlib import Path
from fxai.schema import Schema, SchemaError
schema = Schema.of(list[Path])
try:
    schema.check()
except SchemaError as error:
    print(error)
import pydantic
print(schema.decode(["a"]).unwrap() == [Path("a")])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert f"Path at {list[Path]}[] has no JSON form" in told
    assert "import pydantic before you use the type" in told
    assert told.endswith("True\n")
