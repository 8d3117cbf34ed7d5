"""What holds for every tool: its schema says what it takes, and what it gives is what was meant."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Never

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.annotations import Annotations, Destructive, Meta, Readonly, Strict, Title
from fxai.effects import fx
from fxai.schema import Schema
from fxai.tools import InvalidParameters, Tool, Toolkit
from tests.kit.data import is_object
from tests.kit.trials import examples

LAW = settings(max_examples=examples(60))


class Colour(Enum):
    """A closed choice."""

    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A closed object."""

    name: str
    colour: Colour = Colour.RED


class Rich(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something of everything that JSON and codecs can carry."""

    number: Annotated[int, msgspec.Meta(ge=-1000, le=1000)]
    words: tuple[str, ...]
    at: Schema.EpochMillis
    price: Schema.DecimalString
    kind: Literal["a", "b"] = "a"
    inner: Inner | None = None
    table: dict[str, Inner] = {}
    either: bool | str | None = None


class Refused(msgspec.Struct, frozen=True):
    """Why not, and since when."""

    why: str
    since: Schema.EpochMillis


TEXT = st.text(max_size=5)
START, END = datetime(1970, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001  # hypothesis wants them without a zone
TIMES = st.datetimes(START, END).map(lambda t: t.replace(microsecond=0, tzinfo=UTC))
INNER = st.builds(Inner, TEXT, st.sampled_from(Colour))
RICH = st.builds(
    Rich,
    st.integers(-1000, 1000),
    st.lists(TEXT, max_size=3).map(tuple),
    TIMES,
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-100, max_value=100),
    st.sampled_from(["a", "b"]),
    st.none() | INNER,
    st.dictionaries(TEXT, INNER, max_size=2),
    st.none() | st.booleans() | TEXT,
)
REFUSED = st.builds(Refused, TEXT, TIMES)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KEYS: dict[Any, st.SearchStrategy[Any]] = {
    Title: st.none() | TEXT,
    Readonly: st.booleans(),
    Destructive: st.booleans(),
    Strict: st.none() | st.booleans(),
    Meta: st.dictionaries(TEXT, JSON, max_size=2),
}

echo = Tool.make("echo", parameters=Rich, success=Rich, failure=Refused, failure_mode="return")
kit = Toolkit.make(echo)
schemas = echo.parameters


def _same(p: Rich) -> Result[Rich, Refused]:
    return Success(p)


def _given(p: object) -> Result[object, Never]:
    return Success(p)


def _changed(draw: st.DataObject, plain: Any) -> Any:
    """Valid data with one thing in it replaced, dropped or added."""
    if is_object(plain):
        members = dict(plain)
        name = draw.draw(st.sampled_from([*members, "extra"]))
        way = draw.draw(st.sampled_from(["drop", "replace", "inside"]))
        if way == "drop":
            members.pop(name, None)
        elif way == "replace" or name not in members:
            members[name] = draw.draw(JSON)
        else:
            members[name] = _changed(draw, members[name])
        return members
    return draw.draw(JSON)


@LAW
@given(RICH)
def test_what_is_sent_comes_back(value: Rich) -> None:
    """Encoded, called and answered with itself, a value is itself, in both forms and by text as well."""
    sent = Schema.of(Rich).encode(value).unwrap()
    text = msgspec.json.encode(sent)
    handlers = echo.handler(_same)

    for outcome in (
        fx.run_sync(kit.call("echo", sent).provide(handlers)),
        fx.run_sync(kit.call_json("echo", text).provide(handlers)),
    ):
        assert (outcome.result, outcome.encoded_result, outcome.is_failure) == (value, sent, False)


@LAW
@given(REFUSED, RICH)
def test_a_failure_is_encoded_by_its_own_schema(failure: Refused, value: Rich) -> None:
    """And decodes to itself."""
    sent = Schema.of(Rich).encode(value).unwrap()

    def refusing(_: Rich) -> Result[Rich, Refused]:
        return Failure(failure)

    outcome = fx.run_sync(kit.call("echo", sent).provide(echo.handler(refusing)))

    assert outcome.is_failure
    assert echo.failure.decode(outcome.encoded_result) == Success(failure)


@LAW
@given(RICH, st.data())
def test_the_schema_accepts_exactly_what_the_decoder_accepts(value: Rich, data: st.DataObject) -> None:
    """Whatever is changed in valid parameters: both accept them, or both refuse them.

    What has the wire form of a codec and no value, such as a moment beyond the calendar, only the decoder refuses.
    """
    plain = _changed(data, Schema.of(Rich).encode(value).unwrap())
    typed = kit.call("echo", plain).provide(echo.handler(_same))
    raw = Tool.dynamic("echo", parameters=echo.json_schema())
    untyped = Toolkit.make(raw).call("echo", plain).provide(raw.handler(_given))

    decoded, valid = fx.run_sync(typed), fx.run_sync(untyped)

    if decoded.is_failure and not valid.is_failure:
        assert isinstance(decoded.result, InvalidParameters)
        assert {fault.pointer for fault in decoded.result.faults} <= {"/at", "/price"}  # the places that have a codec
    else:
        assert decoded.is_failure is valid.is_failure


@LAW
@given(JSON | RICH.map(lambda value: Schema.of(Rich).encode(value).unwrap()))
def test_anything_is_an_outcome(value: Any) -> None:
    """The decoder decides: a call returns the decoded parameters, or the validation errors of the decoder."""
    decoded = Schema.of(Rich).decode(value)

    outcome = fx.run_sync(kit.call("echo", value).provide(echo.handler(_same)))

    if isinstance(decoded, Success):
        assert (outcome.result, outcome.is_failure) == (decoded.unwrap(), False)
        assert outcome.encoded_result == Schema.of(Rich).encode(decoded.unwrap()).unwrap()
    else:
        assert outcome.is_failure
        assert isinstance(outcome.result, InvalidParameters)
        assert outcome.result.faults == decoded.failure().faults
        assert msgspec.json.decode(outcome.encoded_json)["type"] == "invalid-parameters"


@LAW
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_an_outcome(text: bytes | str) -> None:
    """Whatever a model writes."""
    outcome = fx.run_sync(kit.call_json("echo", text).provide(echo.handler(_same)))

    assert outcome.is_failure
    assert isinstance(outcome.result, InvalidParameters)


@LAW
@given(JSON)
def test_raw_parameters_reach_the_handler_as_they_are(value: Any) -> None:
    """A tool without validation passes all JSON, and gives it back."""
    free = Tool.dynamic("free", parameters={}, validation="none")
    outcome = fx.run_sync(Toolkit.make(free).call("free", value).provide(free.handler(_given)))

    assert outcome.result == value
    assert outcome.encoded_result == value


@LAW
@given(st.lists(st.sampled_from(list(KEYS)).flatmap(lambda key: KEYS[key].map(lambda value: (key, value)))))
def test_annotations_are_a_map_where_the_last_value_counts(pairs: list[tuple[Any, Any]]) -> None:
    """One by one or all at once, and through a pickle; kind and identity stay."""
    tool = echo
    for key, value in pairs:
        tool = tool.annotate(key, value)

    assert tool == echo.annotate_all(Annotations(dict(pairs)))
    assert pickle.loads(pickle.dumps(tool)) == tool
    assert (tool.kind, tool.identity) == (echo.kind, echo.identity)
    for key, value in dict(pairs).items():
        assert tool.get(key) == value


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")])
def test_what_json_cannot_carry_is_never_sent(value: Decimal) -> None:
    """A result that holds it is the handler's mistake."""
    from fxai.tools import InvalidResult
    from tests.kit.samples import failure_of, giving

    made = Rich(1, (), datetime(1970, 1, 1, tzinfo=UTC), value)
    sent: dict[str, Any] = {"number": 1, "words": [], "at": 0, "price": "1"}
    failure = failure_of(kit.call("echo", sent).provide(echo.handler(giving(Success(made)))))

    assert isinstance(failure, InvalidResult)
    assert failure.faults[0].pointer == "/price"
