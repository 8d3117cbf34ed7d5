"""Types of pydantic: decoded by their JSON Schema and by pydantic, encoded by pydantic, refused by name."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, Self, TypeVar

import msgspec
import pydantic
import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    PositiveInt,
    RootModel,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    WrapValidator,
    computed_field,
    model_validator,
)
from returns.result import Success
from typing_extensions import TypedDict

from fxai.schema import Schema, SchemaError
from tests.kit.every import every

T = TypeVar("T")


class Item(BaseModel):
    """A line of an order."""

    sku: str
    quantity: Annotated[int, Field(gt=0, description="How many pieces.")]


class Box(BaseModel, Generic[T]):
    """A generic model."""

    inside: T


class Names(RootModel[list[str]]):
    """A model that is a list in JSON."""


class Cat(BaseModel):
    """An alternative whose tag has a default."""

    kind: Literal["cat"] = "cat"
    meow: int


class Dog(BaseModel):
    """The other alternative."""

    kind: Literal["dog"]
    bark: int


class Canine(BaseModel):
    """One of two models with several tags."""

    kind: Literal["dog", "wolf"]


class Feline(BaseModel):
    """The other one."""

    kind: Literal["cat"]


class Wild(BaseModel):
    """A discriminated union whose first model has two tags."""

    pet: Annotated[Canine | Feline, Field(discriminator="kind")]


class Owner(BaseModel):
    """A discriminated union."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Node(BaseModel):
    """A model that contains itself."""

    value: int
    next: Node | None = None


class Aliased(BaseModel):
    """Fields with other names in JSON."""

    model_config = ConfigDict(populate_by_name=True)

    width: int = Field(alias="the-width")
    height: int = Field(default=0, validation_alias=AliasChoices("h", AliasPath("size", 1)))


class Closed(BaseModel):
    """A closed model."""

    model_config = ConfigDict(extra="forbid")

    a: int


class Open(BaseModel):
    """A model that keeps undeclared data."""

    model_config = ConfigDict(extra="allow")

    a: int


class Area(BaseModel):
    """A computed field, and an alias for the JSON data only."""

    side: int = Field(serialization_alias="edge", validation_alias="edge")

    @computed_field
    def area(self) -> int:
        """The square of the side."""
        return self.side**2


class Strictly(BaseModel):
    """A strict model: pydantic takes no other Python type for a field."""

    model_config = ConfigDict(strict=True)

    number: int
    day: datetime.date


class Range(BaseModel):
    """A validator of the whole model."""

    low: int
    high: int

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse an empty range."""
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


class Even(BaseModel):
    """A validator of a field, inside a list."""

    numbers: list[Annotated[int, AfterValidator(_even)]]


class Color(enum.Enum):
    """Constants."""

    RED = "red"
    BLUE = "blue"


class Kinds(BaseModel):
    """Fields that are text in JSON and something else in Python."""

    at: datetime.datetime
    id: uuid.UUID
    cost: decimal.Decimal
    color: Color
    either: int | str


class Numbers(BaseModel):
    """A set, whose values Python hashes."""

    numbers: set[int]


@pydantic.dataclasses.dataclass
class Point:
    """A dataclass of pydantic."""

    x: PositiveInt
    item: Item | None = None


@dataclasses.dataclass
class Holder:
    """A dataclass of the standard library that contains a model."""

    item: Item
    note: str = ""


class Keys(TypedDict):
    """A TypedDict that contains a model."""

    item: Item


class Pair(NamedTuple):
    """A named tuple that contains a model."""

    item: Item
    number: int


class Record(msgspec.Struct):
    """A struct that contains models."""

    item: Item
    items: list[Item]
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None


ITEM, PLAIN_ITEM = Item(sku="a", quantity=2), {"sku": "a", "quantity": 2}
KINDS = {"at": "2020-01-02T03:04:05Z", "id": str(uuid.UUID(int=1)), "cost": "1.50", "color": "red", "either": 3}

TAKEN: dict[str, tuple[Any, Any, Any]] = {
    "a model": (Item, PLAIN_ITEM, ITEM),
    "a generic model": (Box[Item], {"inside": PLAIN_ITEM}, Box[Item](inside=ITEM)),
    "a root model": (Names, ["a", "b"], Names(["a", "b"])),
    "a discriminated union": (Owner, {"pet": {"kind": "dog", "bark": 1}}, Owner(pet=Dog(kind="dog", bark=1))),
    "two tags of one model": (Wild, {"pet": {"kind": "wolf"}}, Wild(pet=Canine(kind="wolf"))),
    "a recursive model": (
        Node,
        {"value": 1, "next": {"value": 2, "next": None}},
        Node(value=1, next=Node(value=2)),
    ),
    "a closed model": (Closed, {"a": 1}, Closed(a=1)),
    "an open model": (Open, {"a": 1, "b": [2]}, Open.model_validate({"a": 1, "b": [2]})),
    "a strict model": (
        Strictly,
        {"number": 1, "day": "2020-01-02"},
        Strictly(number=1, day=datetime.date(2020, 1, 2)),
    ),
    "a validated model": (Range, {"low": 1, "high": 2}, Range(low=1, high=2)),
    "types with text in JSON": (Kinds, KINDS, Kinds.model_validate(KINDS)),
    "a set": (Numbers, {"numbers": [1]}, Numbers(numbers={1})),
    "a dataclass of pydantic": (Point, {"x": 1, "item": PLAIN_ITEM}, Point(1, ITEM)),
    "a dataclass": (Holder, {"item": PLAIN_ITEM, "note": "n"}, Holder(ITEM, "n")),
    "a TypedDict": (Keys, {"item": PLAIN_ITEM}, {"item": ITEM}),
    "a named tuple": (Pair, [PLAIN_ITEM, 3], Pair(ITEM, 3)),
    "a struct": (
        Record,
        {"item": PLAIN_ITEM, "items": [PLAIN_ITEM], "pet": {"kind": "cat", "meow": 1}},
        Record(ITEM, [ITEM], Cat(meow=1)),
    ),
    "a list": (list[Item], [PLAIN_ITEM], [ITEM]),
    "a mapping": (dict[str, Item], {"k": PLAIN_ITEM}, {"k": ITEM}),
    "a mapping by numbers": (dict[int, Item], {"7": PLAIN_ITEM}, {7: ITEM}),
    "a tuple": (tuple[Item, int], [PLAIN_ITEM, 1], (ITEM, 1)),
    "an optional model": (Item | None, None, None),
    "a union with a scalar": (Item | int, 3, 3),
    "a scalar with a Field": (Annotated[int, Field(gt=0)], 3, 3),
    "a type of pydantic": (PositiveInt, 3, 3),
    "a string with constraints": (Annotated[str, StringConstraints(pattern="^a+$")], "aa", "aa"),
    "a Meta beside a Field": (Annotated[int, Field(gt=0), msgspec.Meta(description="Many.")], 3, 3),
    "a Meta beside a model": (Annotated[Item, msgspec.Meta(description="One.")], PLAIN_ITEM, ITEM),
    "a type that only pydantic knows": (PurePosixPath, "a/b", PurePosixPath("a/b")),
    "a validator in Annotated": (Annotated[int, WrapValidator(lambda value, handler: handler(value))], 3, 3),
}


@every("tp, data, value", TAKEN.values(), ids=list(TAKEN))
def test_a_type_of_pydantic_is_decoded_and_encoded(tp: Any, data: Any, value: Any) -> None:
    """Data and text become the value, and the value becomes the data again."""
    schema: Schema[Any] = Schema.of(tp)

    assert schema.decode(data) == Success(value)
    assert schema.decode_json(msgspec.json.encode(data)) == Success(value)
    assert schema.encode(value) == Success(data)
    assert msgspec.json.decode(schema.encode_json(value).unwrap()) == data
    assert schema.document.validate(data) == schema.written_document.validate(data) == ()


FAULTS: dict[str, tuple[Any, Any, list[str]]] = {
    "by the JSON Schema": (Item, {"sku": 1, "quantity": 0}, ["/sku", "/quantity"]),
    "something missing": (list[Item], [{"sku": "a"}], ["/0/quantity"]),
    "text for a number": (Item, {"sku": "a", "quantity": "2"}, ["/quantity"]),
    "in a struct, beside another one": (
        Record,
        {"item": {"sku": "a"}, "items": 3, "pet": {"kind": "dog"}},
        ["/item/quantity", "/items", "/pet/bark"],
    ),
    "a tag that has a default": (Owner, {"pet": {"meow": 1}}, ["/pet/kind"]),
    "an undeclared name": (Closed, {"a": 1, "b": 2}, ["/b"]),
    "a name in place of its alias": (Aliased, {"width": 1}, ["/the-width"]),
    "a validator of a field": (Even, {"numbers": [2, 3, 5]}, ["/numbers/1", "/numbers/2"]),
    "a validator of a model": (Box[Range], {"inside": {"low": 2, "high": 1}}, ["/inside"]),
    "a format": (Kinds, {**KINDS, "id": "x", "at": "y"}, ["/at", "/id"]),
    "an alternative with the name of a member": (Box[Cat | int], {"inside": {"Cat": 1}}, ["/inside/meow"]),
    "a date in a strict model": (Strictly, {"number": 1, "day": "x"}, ["/day"]),
}


@every("tp, data, pointers", FAULTS.values(), ids=list(FAULTS))
def test_a_validation_error_names_the_location(tp: Any, data: Any, pointers: list[str]) -> None:
    """Each error of the JSON Schema or of pydantic has the JSON pointer of its location."""
    faults = Schema.of(tp).decode(data).failure().faults

    assert sorted(fault.pointer for fault in faults) == sorted(pointers)


class _Tag(enum.Enum):
    A = "a"
    B = "b"


def _tagged(tag: _Tag) -> Any:
    kind: Any = Literal[tag]
    return pydantic.create_model("Tagged", kind=(kind, ...))


REFUSED: dict[str, tuple[Any, str]] = {
    "an enum as tag": (
        Annotated[_tagged(_Tag.A) | _tagged(_Tag.B), Field(discriminator="kind")],
        r"whose tag is an enum, .* class Kind\(str, Enum\)",
    ),
    "aliases that are not accepted": (
        pydantic.create_model("Named", __config__=ConfigDict(validate_by_alias=False), a=(int, Field(alias="b"))),
        "Named sets validate_by_alias=False.* Use serialization_alias",
    ),
    "a set of models": (pydantic.create_model("Sets", items=(set[Item], ...)), "values that have no hash. Use a list"),
    "a class as a value": (pydantic.create_model("Kinds", kind=(type[int], ...)), "a class as a value"),
    "an iterable": (pydantic.create_model("Reads", items=(Iterable[int], ...)), "an Iterable"),
    "a path as alias": (
        pydantic.create_model("Paths", y=(int, Field(default=0, validation_alias=AliasPath("a", 0)))),
        "field Paths.y has an AliasPath",
    ),
    "a codec in a model": (pydantic.create_model("Coded", at=(Schema.EpochMillis, ...)), "Coded.at carries a codec"),
    "a Meta in a model": (
        pydantic.create_model("Bounded", n=(Annotated[int, msgspec.Meta(gt=0)], ...)),
        "Bounded.n carries a msgspec.Meta",
    ),
    "a struct in a model": (
        pydantic.create_model("Structs", __config__=ConfigDict(arbitrary_types_allowed=True), n=(Record, ...)),
        "no JSON Schema",
    ),
    "a struct in a union with a model": (Item | Record, "cannot validate"),
    "a function in a model": (pydantic.create_model("Calls", f=(Callable[[], int], ...)), "no JSON Schema"),
    "a JSON Schema that refers to a file": (
        Annotated[int, pydantic.WithJsonSchema({"$ref": "file:///etc/passwd"})],
        "no JSON Schema",
    ),
    "a JSON Schema with an error": (
        Annotated[int, Field(json_schema_extra={"type": "strin"})],
        "unusable JSON Schema",
    ),
    "a TypeAdapter": (TypeAdapter(list[int]), "Pass the type that it adapts"),
    "a model as a key": (dict[Item, int], "cannot be the key"),
}


@every("tp, message", REFUSED.values(), ids=list(REFUSED))
def test_a_type_without_a_reliable_schema_is_refused_by_name(tp: Any, message: str) -> None:
    """Fxai refuses the type when it is first used, and names the type and the remedy."""
    with pytest.raises(SchemaError, match=message):
        Schema.of(tp).check()


def test_the_json_schema_is_the_schema_of_pydantic() -> None:
    """A model has its own JSON Schema; a recursive model has no reference at the root."""
    assert Schema.of(Item).json_schema() == Item.model_json_schema()
    assert Schema.of(list[Item]).json_schema() == TypeAdapter(list[Item]).json_schema()
    assert Schema.of(Node).json_schema() == {**Node.model_json_schema()["$defs"]["Node"], "$defs": _definitions(Node)}
    assert Schema.of(Item).name == "Item"
    assert Schema.of(Item).description == "A line of an order."


def _definitions(model: type[BaseModel]) -> Any:
    return model.model_json_schema()["$defs"]


def test_a_struct_shares_the_definitions_of_its_models() -> None:
    """Two fields of one model refer to one definition; another class of the same name keeps its own."""
    other: Any = msgspec.defstruct("Item", [("n", int)])
    fields: Any = [("ours", list[other]), ("theirs", list[Item]), ("more", list[Item])]
    document = Schema[Any].of(msgspec.defstruct("Both", fields)).json_schema()

    assert Schema.of(Record).json_schema()["properties"]["items"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Item"},
    }
    assert document["$defs"]["Item"]["required"] == ["n"]
    names = {document["properties"][name]["items"]["$ref"] for name in ("theirs", "more")}
    assert all(document["$defs"][name.removeprefix("#/$defs/")]["title"] == "Item" for name in names)


def test_the_tag_of_a_discriminated_union_is_required() -> None:
    """Pydantic requires the tag, also if it has a default, and so does the JSON Schema that fxai derives."""
    arms = Schema.of(Owner).json_schema()["properties"]["pet"]["oneOf"]

    assert arms == [{"$ref": f"#/$defs/{name}", "required": ["kind"]} for name in ("Cat", "Dog")]


def test_the_json_schema_decides_before_pydantic() -> None:
    """A validator never sees data that the JSON Schema refuses."""
    seen: list[object] = []

    class Watched(BaseModel):
        n: Annotated[int, BeforeValidator(seen.append)]

    short: Any = Annotated[list[Watched], Field(max_length=1)]
    data: Any = [{}, {}]
    Schema[Any].of(short).decode(data).failure()

    assert seen == []


def test_another_exception_of_a_validator_is_a_defect() -> None:
    """A ValueError of a validator is a validation error; any other exception is a bug and is raised unchanged."""

    def divide(number: int) -> float:
        return 1 / number

    schema: Schema[Any] = Schema.of(Annotated[int, AfterValidator(divide)])
    with pytest.raises(ZeroDivisionError):
        schema.decode(0)

    assert schema.decode(4) == Success(0.25)


def test_computed_fields_and_aliases_are_encoded_as_the_written_schema_states() -> None:
    """The JSON Schema of the encoded data contains the computed field; the data decodes again."""
    schema = Schema.of(Area)

    assert schema.encode(Area.model_validate({"edge": 3})) == Success({"edge": 3, "area": 9})
    assert schema.decode({"edge": 3, "area": 9}) == Success(Area.model_validate({"edge": 3}))
    assert "area" not in schema.json_schema()["properties"]
    assert schema.written_document.get("required") == ["edge", "area"]
    assert Schema.of(list[int]).written_document is Schema.of(list[int]).document


BROKEN: dict[str, tuple[Any, Any, str]] = {
    "another type": (Item, Item.model_construct(sku="a", quantity="x"), "/quantity"),
    "another value": (Item, Item.model_construct(sku="a", quantity=0), "/quantity"),
    "no instance": (Item, {"sku": "a", "quantity": 1}, ""),
    "NaN": (Box[float], Box[float](inside=float("nan")), "/inside"),
    "half a surrogate pair": (Names, Names.model_construct(["\ud800"]), "/0"),
    "inside a struct": (Record, Record(ITEM, [Item.model_construct(sku="a", quantity=-1)]), "/items/0/quantity"),
}


@every("tp, value, pointer", BROKEN.values(), ids=list(BROKEN))
def test_a_value_that_is_not_of_the_type_is_not_encoded(tp: Any, value: Any, pointer: str) -> None:
    """A value that avoided the validation of pydantic is a failure with its location."""
    schema: Schema[Any] = Schema.of(tp)

    assert [fault.pointer for fault in schema.encode(value).failure().faults] == [pointer]
    assert [fault.pointer for fault in schema.encode_json(value).failure().faults] == [pointer]


def test_a_whole_number_is_an_integer() -> None:
    """`3.0` decodes as an integer, also in a strict model and inside a struct."""
    assert Schema.of(Item).decode({"sku": "a", "quantity": 3.0}) == Success(Item(sku="a", quantity=3))
    assert Schema.of(Strictly).decode({"number": 3.0, "day": "2020-01-02"}).unwrap().number == 3
    assert type(Schema.of(Holder).decode_json('{"item": {"sku": "a", "quantity": 3.0}}').unwrap().item.quantity) is int


def test_a_secret_stays_out_of_the_validation_errors() -> None:
    """A type that hides its input, and a type with a secret, name the kind of the value only."""

    class Quiet(BaseModel):
        model_config = ConfigDict(hide_input_in_errors=True)

        pin: Annotated[str, Field(max_length=4)]

    class Login(BaseModel):
        password: Annotated[SecretStr, Field(max_length=4)]

    for schema, name in ((Schema.of(Quiet), "pin"), (Schema.of(Login), "password")):
        failure = schema.decode({name: "hunter2"}).failure()
        assert (failure.faults[0].pointer, failure.faults[0].found) == (f"/{name}", "string")
        assert "hunter2" not in str(failure)


def test_numbers_with_one_hash_are_refused() -> None:
    """Data cannot make a set of pydantic slow."""
    modulus = (1 << 61) - 1
    numbers = [modulus * factor for factor in range(1, 200)]

    assert "hash" in str(Schema.of(Numbers).decode({"numbers": numbers}).failure())


def test_deep_data_of_a_recursive_model_is_refused() -> None:
    """A document with more levels than the limit is a failure, not a crash."""
    text = '{"value":1,"next":' * 5_000 + "null" + "}" * 5_000
    data: Any = None
    for _ in range(5_000):
        data = {"value": 1, "next": data}

    assert "nesting" in str(Schema.of(Node).decode_json(text).failure())
    assert "nesting" in str(Schema.of(Node).decode(data).failure())


def test_many_errors_of_a_validator_are_reported_in_part() -> None:
    """A validator that refuses each of many items makes one hundred validation errors."""
    faults = Schema.of(Even).decode({"numbers": [1] * 5_000}).failure().faults

    assert len(faults) == 100


def test_a_class_that_is_defined_later_is_a_name_error() -> None:
    """A model that names an undefined class is not refused for good: the error names the model."""
    undefined: Any = ("Undefined", ...)
    late: Any = pydantic.create_model("Late", x=undefined)

    with pytest.raises(NameError, match="Late names a class that is not defined yet"):
        Schema.of(late).check()


def test_a_type_states_its_one_sided_laws() -> None:
    """Only a type with validators or serializers of its own has caveats."""
    written: Any = Annotated[int, PlainSerializer(str, return_type=str)]

    assert Schema.of(Record).caveats == Schema.of(Area).caveats == ()
    assert [caveat.way for caveat in Schema.of(Range).caveats] == ["decode"]
    assert [caveat.way for caveat in Schema.of(written).caveats] == ["encode"]
    assert {caveat.way for caveat in Schema.of(Json[int]).caveats} == {"decode", "encode"}
    for tp, told in ((uuid.UUID, False), (dict[int, int], False), (dict[Annotated[int, Field(gt=0)], int], True)):
        model = pydantic.create_model("Model", field=(tp, ...))
        assert [caveat.way for caveat in Schema.of(model).caveats] == ["decode"] * told
    free: list[Any] = [pydantic.JsonValue, Sequence[Item], deque[Item], OrderedDict[str, Item]]
    assert [Schema[Any].of(tp).caveats for tp in free] == [()] * 4
    for replaced in (pydantic.WithJsonSchema({}), Field(json_schema_extra={"type": "string"})):
        assert [caveat.way for caveat in Schema[Any].of(Annotated[int, replaced]).caveats] == ["decode", "encode"]
