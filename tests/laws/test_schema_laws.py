"""Laws of schemas, codecs and JSON Schema documents, over types and values that nobody chose."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.schema import DecodeFailure, Fault, JsonSchema, Limits, Schema, SchemaError, parse_json
from fxai.schema.budget import MAX_FAULTS
from fxai.schema.fault import NOTHING, pointer_of, pointer_tokens
from fxai.schema.location import MISSING, value_at
from tests.kit.data import is_array, is_object
from tests.kit.oracle import oracle
from tests.kit.trials import examples

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
laws = settings(max_examples=examples(60), suppress_health_check=SLOW)

LIST: Any = list
DICT: Any = dict
TUPLE: Any = tuple


class Typed(NamedTuple):
    """A type, values of it, and whether its JSON Schema says all that its decoder asks."""

    type: Any
    values: st.SearchStrategy[Any]
    exact: bool = True


def _same(value: Any) -> Any:
    return value


def coded(typed: Typed) -> Typed:
    """The type behind a codec that changes nothing."""
    codec = Schema.codec(wire=typed.type, decode=_same, encode=_same)
    return Typed(Annotated[Any, codec], typed.values, typed.exact)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
millis = st.integers(-(10**13), 10**13).map(
    lambda count: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=count)
)
names = (f"T{number}" for number in itertools.count())

ATOMS = [
    Typed(int, st.integers()),
    Typed(bool, st.booleans()),
    Typed(float, numbers),
    Typed(str, text),
    Typed(type(None), st.none()),
    Typed(Annotated[int, msgspec.Meta(ge=-5, le=5)], st.integers(-5, 5)),
    Typed(Annotated[str, msgspec.Meta(min_length=1, max_length=3)], st.text("abc", min_size=1, max_size=3)),
    Typed(Literal["a", "b"], st.sampled_from(["a", "b"])),
    Typed(Literal[1, 2, None], st.sampled_from([1, 2, None])),
    Typed(date, st.dates(), exact=False),
    Typed(UUID, st.uuids(), exact=False),
    Typed(timedelta, st.timedeltas(timedelta(-999), timedelta(999)), exact=False),
    Typed(bytes, st.binary(max_size=5), exact=False),
    Typed(Schema.EpochMillis, millis),
    Typed(Schema.DecimalString, st.decimals(allow_nan=False, allow_infinity=False, places=2)),
    Typed(Schema.IntString, st.integers(-(10**30), 10**30)),
    Typed(Schema.DurationSeconds, st.timedeltas(timedelta(-999), timedelta(999))),
]


def _union(arms: list[Typed]) -> Typed:
    first = arms[0]
    return Typed(first.type | None, st.none() | first.values, first.exact)


def _struct(members: list[Typed], config: dict[str, Any]) -> Typed:
    fields = [(f"m{index}", member.type) for index, member in enumerate(members)]
    made = msgspec.defstruct(next(names), fields, frozen=True, module=__name__, **config)
    values = st.builds(made, *(member.values for member in members))
    return Typed(made, values, all(member.exact for member in members))


def _dataclass(members: list[Typed]) -> Typed:
    made = make_dataclass(next(names), [(f"m{index}", member.type) for index, member in enumerate(members)])
    made.__module__ = __name__
    values = st.builds(made, *(member.values for member in members))
    return Typed(made, values, all(member.exact for member in members))


def _grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    some = st.lists(inner, min_size=1, max_size=3)
    configs = st.sampled_from([{}, {"forbid_unknown_fields": True}, {"rename": "camel"}, {"array_like": True}])
    return st.one_of(
        inner.map(lambda t: Typed(LIST[t.type], st.lists(t.values, max_size=3), t.exact)),
        inner.map(lambda t: Typed(DICT[str, t.type], st.dictionaries(text, t.values, max_size=3), t.exact)),
        inner.map(lambda t: Typed(TUPLE[t.type, ...], st.lists(t.values, max_size=3).map(tuple), t.exact)),
        some.map(
            lambda ts: Typed(
                TUPLE[tuple(t.type for t in ts)],
                st.tuples(*(t.values for t in ts)),
                all(t.exact for t in ts),
            )
        ),
        some.map(_union),
        st.builds(_struct, some, configs),
        some.map(_dataclass),
    )


types: st.SearchStrategy[Typed] = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=6)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@laws
@given(types, st.data())
def test_decoding_undoes_encoding(typed: Typed, draw: st.DataObject) -> None:
    """decode(encode(x)) == x, as data and as text, and what is encoded is plain JSON."""
    schema = Schema.of(typed.type)
    value = draw.draw(typed.values)

    encoded = schema.encode(value)

    assert schema.decode(encoded.unwrap()) == Success(value)
    assert schema.decode_json(schema.encode_json(value).unwrap()) == Success(value)
    assert parse_json(msgspec.json.encode(encoded.unwrap())) == encoded


class _Faults(tuple[Fault, ...]):
    """What is wrong, told from any value."""

    __slots__ = ()


def _or(given: Any) -> Result[Any, DecodeFailure]:
    return Failure(DecodeFailure(tuple(given))) if type(given) is _Faults else Success(given)


@laws
@given(types, data)
def test_data_and_text_of_it_decode_alike(typed: Typed, value: Any) -> None:
    """decode(d) == decode_json(json(d)), success or failure, fault for fault."""
    schema = Schema.of(typed.type)

    assert schema.decode(value) == schema.decode_json(msgspec.json.encode(value))
    assert schema.decode(value, plain=True) == schema.decode(value)
    assert _or(schema.decode_or(value, _Faults)) == _or(schema.decode_json_or(msgspec.json.encode(value), _Faults))
    assert _or(schema.decode_or(value, _Faults)) == schema.decode(value)


@laws
@given(types, data)
def test_faults_are_found_where_the_decoder_refuses(typed: Typed, value: Any) -> None:
    """Each fault's pointer leads to what is there, or one step below it to what is missing."""
    result = Schema.of(typed.type).decode(value)
    if isinstance(result, Success):
        assert Schema.of(typed.type).decode(Schema.of(typed.type).encode_unsafe(result.unwrap())) == result
        return
    for fault in result.failure().faults:
        there: Any = value
        for index, token in enumerate(tokens := pointer_tokens(fault.pointer)):
            inside = _inside(there, token)
            assert inside is not _ABSENT or (index == len(tokens) - 1 and fault.found == "nothing")
            there = inside


@laws
@given(types, st.data())
def test_items_are_judged_alike_together_and_alone(typed: Typed, draw: st.DataObject) -> None:
    """The faults of an array are the faults of each item, whether msgspec or fxai found the item."""
    one, many = Schema.of(typed.type), Schema.of(LIST[typed.type])
    good = typed.values.map(lambda value: one.encode(value).unwrap())
    value = draw.draw(st.lists(good | data | st.sampled_from([3.0, {"a": 3.0}]), max_size=24))
    alone = [one.decode(item) for item in value]
    faults = [
        Fault(f"/{location}{fault.pointer}", fault.expected, fault.found)
        for location, result in enumerate(alone)
        for fault in (result.failure().faults if isinstance(result, Failure) else ())
    ]

    result = many.decode(value)

    if faults:
        assert list(result.failure().faults) == faults[: len(result.failure().faults)]
        assert len(result.failure().faults) >= min(len(faults), MAX_FAULTS)
    else:
        assert result == Success([item.unwrap() for item in alone])


_ABSENT = object()


def _inside(there: object, token: str) -> object:
    if is_object(there):
        return there.get(token, _ABSENT)
    return there[int(token)] if is_array(there) and int(token) < len(there) else _ABSENT


@laws
@given(types.filter(lambda typed: typed.exact), st.data(), data)
def test_documents_take_what_decoders_take(typed: Typed, draw: st.DataObject, other: Any) -> None:
    """Both ways, by both validators, for the types whose JSON Schema can say it all."""
    schema = Schema.of(typed.type)
    good = schema.encode(draw.draw(typed.values)).unwrap()

    for value in (good, other):
        assert (schema.document.validate(value) == ()) == isinstance(schema.decode(value), Success)


@laws
@given(types)
def test_a_derived_document_is_a_usable_one(typed: Typed) -> None:
    """What is derived passes the check that strangers' documents pass, and is equal to its copy."""
    schema = Schema.of(typed.type)

    assert JsonSchema.of(schema.json_schema()) == schema.document


@laws
@given(types, st.data(), data)
def test_a_codec_that_does_nothing_changes_nothing(typed: Typed, draw: st.DataObject, other: Any) -> None:
    """The plan with steps does what the decoder alone does, for good data and for bad."""
    plain, stepped = Schema.of(LIST[typed.type]), Schema.of(LIST[coded(typed).type])
    value = [draw.draw(typed.values)]

    assert stepped.encode(value) == plain.encode(value)
    assert stepped.decode(plain.encode(value).unwrap()) == Success(value)
    assert stepped.decode([other]) == plain.decode([other])
    assert stepped.json_schema() == plain.json_schema()


@laws
@given(st.lists(text | st.integers(0, 99)))
def test_a_pointer_gives_back_its_path(path: list[str | int]) -> None:
    """Whatever the names of properties."""
    assert pointer_tokens(pointer_of(path)) == [str(token) for token in path]


@laws
@given(data)
def test_text_reads_as_what_was_written(value: Any) -> None:
    """parse_json(json(d)) == d, also where doubled keys are looked for."""
    written = msgspec.json.encode(value)

    assert parse_json(written) == Success(value)
    assert parse_json(written.decode(), Limits(unique_keys=True)) == Success(value)


@laws
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_a_value_or_a_failure(text_: str | bytes) -> None:
    """Nothing else happens, of any type."""
    schema = Schema.of(dict[str, int])
    for result in (parse_json(text_), schema.decode_json(text_)):
        assert isinstance(result, (Success, Failure))
    assert _or(schema.decode_json_or(text_, _Faults)) == schema.decode_json(text_)


@laws
@given(data, st.integers(0, 6))
def test_depth_is_what_nests(value: Any, limit: int) -> None:
    """A text passes exactly when its value nests no deeper than the limit."""
    result = parse_json(msgspec.json.encode(value), Limits(max_depth=limit))

    assert isinstance(result, Success) == (_depth(value) <= limit)


def _depth(value: Any) -> int:
    inside = list(value.values()) if is_object(value) else value
    return 1 + max(map(_depth, inside), default=0) if is_array(inside) else 0


def _documents(*, sound: bool) -> st.SearchStrategy[dict[str, Any]]:
    """JSON Schemas of some keywords, with values that no metaschema takes among them unless they are to be sound."""
    inner: st.SearchStrategy[Any] = st.deferred(lambda: made)
    strange: list[Any] = [] if sound else ["strange", -1, None, [], {}, ["a", "a"], 0.5]
    wild: st.SearchStrategy[Any] = st.sampled_from(strange) if strange else st.nothing()
    counts = st.integers(0, 3) | wild
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(["string", "integer", "object", ["null", "array"]]) | wild,
        "properties": st.dictionaries(text, inner, max_size=2) | wild,
        "items": inner | wild,
        "anyOf": st.lists(inner, min_size=1, max_size=2) | wild,
        "required": st.lists(text, min_size=1, max_size=2, unique=True) | wild,
        "minimum": numbers | wild,
        "maxLength": counts,
        "enum": st.lists(data, min_size=1, max_size=2, unique_by=repr) | wild,
        "additionalProperties": st.booleans() | inner | wild,
        "default": data,
        "multipleOf": st.sampled_from([1, 0.5]) | wild,
        "uniqueItems": st.booleans() | wild,
    }
    made = st.fixed_dictionaries({}, optional=optional)
    return made


keywords = _documents(sound=False)
documents = _documents(sound=True)


@laws
@given(keywords, st.sampled_from(["2020-12", "draft-07", "draft-04"]))
def test_the_check_of_documents_agrees_with_the_metaschemas(document: dict[str, Any], dialect: str) -> None:
    """What the official metaschema refuses is refused, and nothing else."""
    import jsonschema

    validators: dict[str, Any] = {
        "2020-12": jsonschema.Draft202012Validator,
        "draft-07": jsonschema.Draft7Validator,
        "draft-04": jsonschema.Draft4Validator,
    }
    uri = validators[dialect].META_SCHEMA["$schema"]
    sound = not list(validators[dialect](validators[dialect].META_SCHEMA).iter_errors(document))

    try:
        JsonSchema.of({"$schema": uri, **document})
    except SchemaError:
        assert not sound
    else:
        assert sound


@laws
@given(documents)
def test_a_document_is_the_value_it_was_made_of(document: dict[str, Any]) -> None:
    """Equal to what was given, untouched by changes to copies, the same through pickle and in any order."""
    made = JsonSchema.of(document)
    copy = made.to_dict()
    copy["title"] = object()
    turned = dict(reversed(document.items()))

    assert made.to_dict() == document
    assert pickle.loads(pickle.dumps(made)) == made
    assert JsonSchema.of(turned) == made
    assert hash(JsonSchema.of(turned)) == hash(made)


@laws
@given(documents, data)
def test_the_engine_agrees_with_jsonschema(document: dict[str, Any], value: Any) -> None:
    """Both accept the same data, and the pointer of each error names a place of the data, or one that is missing."""
    faults = JsonSchema.of(document).validate(value)

    assert (faults == ()) is oracle(document)(value)
    for fault in faults:
        tokens = pointer_tokens(fault.pointer)
        assert value_at(value, tokens[:-1]) is not MISSING
        assert value_at(value, tokens) is not MISSING or fault.found == NOTHING


@pytest.mark.slow
@laws
@given(documents, documents)
def test_equal_documents_hash_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    """And what says the same in JSON is equal."""
    if JsonSchema.of(one) == JsonSchema.of(other):
        assert hash(JsonSchema.of(one)) == hash(JsonSchema.of(other))
    assert JsonSchema.of({"allOf": [one, other]}) == JsonSchema.of({"allOf": [dict(one), dict(other)]})


@laws
@given(millis, st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_shipped_codecs_lose_nothing(at: datetime, price: Decimal) -> None:
    """To the millisecond, to the last digit."""
    moments: Schema[datetime] = Schema.of(Schema.EpochMillis)
    prices: Schema[Decimal] = Schema.of(Schema.DecimalString)

    assert moments.decode(moments.encode_unsafe(at)) == Success(at)
    assert str(prices.decode_unsafe(prices.encode_unsafe(price))) == str(price)
    assert math.isclose(moments.encode(at).unwrap() / 1000, at.timestamp(), abs_tol=0.001)
