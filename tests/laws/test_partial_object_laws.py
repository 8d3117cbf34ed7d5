"""The laws of partial objects: partials only grow, members are valid, and the pieces of a text do not matter."""

from __future__ import annotations

import itertools
import json
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel
from returns.result import Failure, Result, Success

from fxai import Agent, AiError, LanguageModel, fx
from fxai.effects import Backend
from fxai.messages import StructuredOutputError
from fxai.models.partial_object import AnswerReader
from fxai.models.structured_output import AnswerForm
from fxai.schema import JsonSchema, Schema
from fxai.schema.data import is_array, is_object
from fxai.schema.partial_json import JsonReader
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictRules
from fxai.testing import ScriptedModel
from fxai.testing.strategies import instances, json_schemas, json_values, not_instances

pytestmark = pytest.mark.law

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")


class Circle(msgspec.Struct, tag="circle", frozen=True):
    """A circle."""

    radius: float


class Square(msgspec.Struct, tag="square", frozen=True):
    """A square."""

    side: int
    note: str | None = None


class Report(msgspec.Struct, frozen=True):
    """A report that can contain another report."""

    title: str
    lines: list[str]
    shapes: list[Circle | Square] = []
    sizes: dict[str, int] = {}
    parent: Report | None = None


class Location(BaseModel):
    """A place."""

    name: str
    kind: Literal["city", "river"]
    tags: list[str] = []


class Pair(NamedTuple):
    """A tuple of fixed length."""

    left: int
    right: list[Location]


TYPES: list[Any] = [
    Report,
    Location,
    list[Report],
    dict[str, list[int]],
    Pair,
    str,
    Circle | Square,
    int,
    list[Location],
]


def split(text: str, cuts: list[int]) -> list[str]:
    """Return the text in pieces."""
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def is_beginning(before: Any, after: Any) -> bool:
    """Return whether a partial can grow to another partial."""
    if before is msgspec.UNSET:
        return True
    if is_object(before) and is_object(after):
        keys = list(before)
        same = all(before[key] == after.get(key) for key in keys[:-1])
        return (
            keys == list(after)[: len(keys)] and same and (not keys or is_beginning(before[keys[-1]], after[keys[-1]]))
        )
    if is_array(before) and is_array(after):
        last = len(before) - 1
        return before[:-1] == after[: max(last, 0)] and (not before or is_beginning(before[last], after[last]))
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return bool(before == after) and type(before) is type(after)


CUTS = st.lists(st.integers(0, 120), max_size=12)
INDENTS = st.sampled_from([None, 1])


@given(json_values(), CUTS, st.booleans(), INDENTS)
def test_each_value_is_a_beginning_of_the_next_value(data: Any, cuts: list[int], ascii_only: bool, indent: Any) -> None:
    """Earlier versions stay readable, and the last value is the whole value."""
    reader, seen = JsonReader(), list[tuple[int, Any]]()
    for piece in (*split(json.dumps(data, ensure_ascii=ascii_only, indent=indent), cuts), " "):
        reader.feed(piece)
        seen.append((reader.version, reader.value))

    assert reader.is_complete
    assert seen[-1][1] == data
    assert all(is_beginning(before[1], after[1]) for before, after in itertools.pairwise(seen))
    assert [reader.at(version) for version, _ in seen] == [value for _, value in seen]


@given(st.data())
def test_members_of_a_valid_value_are_valid(data: st.DataObject) -> None:
    """For any document, the reader refuses no member of an instance."""
    document = data.draw(json_schemas())
    value = data.draw(instances(document))
    reader = JsonReader(JsonSchema.of(document))
    reader.feed(json.dumps(value) + " ")

    assert reader.faults == ()
    assert reader.value == value


@given(st.data())
def test_a_refused_member_is_an_error_of_the_whole_value(data: st.DataObject) -> None:
    """The reader reports no location that the document accepts."""
    document = data.draw(json_schemas())
    value = data.draw(not_instances(document))
    schema, reader = JsonSchema.of(document), JsonReader(JsonSchema.of(document))
    reader.feed(json.dumps(value) + " ")

    assert not reader.faults or schema.validate(value)


def valid_texts() -> st.SearchStrategy[tuple[Any, str]]:
    """Return types with the JSON of one of their values."""

    def texts(type_: Any) -> st.SearchStrategy[tuple[Any, str]]:
        values = instances(Schema[Any].of(type_).json_schema(), undeclared=False)
        return st.tuples(st.just(type_), values.map(json.dumps))

    return st.sampled_from(TYPES).flatmap(texts)


AROUND = st.sampled_from(
    [("", ""), ("```json\n", "\n```"), ("<think>Hm, {.</think>\n", ""), ("\ufeff ", "\n"), ("``` json\n", "\n```")]
)


@given(valid_texts(), CUTS, AROUND, st.sampled_from(BACKENDS))
def test_every_split_of_an_answer_has_the_same_value(
    made: tuple[Any, str], cuts: list[int], around: tuple[str, str], backend: Backend
) -> None:
    """The partials grow to the JSON of the value, for the model and for an agent."""
    type_, text = made
    schema = Schema[Any].of(type_)
    value = schema.decode_json(text).unwrap()
    script = split(f"{around[0]}{text}{around[1]}", cuts)
    asked = LanguageModel.stream_object("Go.", schema).provide(ScriptedModel.make([script]).layer)
    run = Agent.make("a", output=schema).stream_object("Go.").provide(ScriptedModel.make([script]).layer)
    parts = fx.run(asked.collect(), backend=backend)
    own = fx.run(run.collect(), backend=backend)

    assert parts[-1].value == value
    assert all(part.value is None and part.response is None for part in parts[:-1])
    assert [part.partial for part in own] == (seen := [part.partial for part in parts])
    assert own[-1].value == value
    assert seen[-1] == json.loads(text)
    assert all(is_beginning(before, after) for before, after in itertools.pairwise(seen))


BROKEN = [
    ('{"title": "T", "lines": ["a", 7', "/lines/1", Report),
    ('{"title": 7', "/title", Report),
    ('{"title": "T", "lines": [], "shapes": [{"type": "circle", "radius": "x"}', "/shapes/0/radius", Report),
    ('{"title": "T", "lines": [], "parent": {"title": "P", "lines": [true', "/parent/lines/0", Report),
    ('{"title": "T", "title": ', "/title", Report),
    ('[{"name": "Oslo", "kind": "town"', "/0/kind", list[Location]),
    ('[{"name": "Oslo"}', "/0/kind", list[Location]),
    ('{"a": [1, 2, 3.5', "/a/2", dict[str, list[int]]),
    ('[1, [{"name": "Oslo", "kind": "city", "tags": [null', "/1/0/tags/0", Pair),
]


@given(st.sampled_from(BROKEN), CUTS, st.sampled_from(BACKENDS))
def test_an_invalid_member_fails_before_the_rest_arrives(
    broken: tuple[str, str, Any], cuts: list[int], backend: Backend
) -> None:
    """The failure has the location and the text so far, and the model writes nothing more."""
    text, pointer, type_ = broken
    script = [*split(text, cuts), " ", "never read"]
    model = ScriptedModel.make([script])
    result: Result[Any, Any] = fx.run_result(
        LanguageModel.stream_object("Go.", Schema[Any].of(type_)).provide(model.layer).collect(), backend=backend
    )

    assert isinstance(result, Failure)
    failure = result.failure()
    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, StructuredOutputError)
    assert failure.reason.pointer == pointer
    assert "never read" not in failure.reason.text


@given(st.text(st.sampled_from('{}[]",:\\ \n0129.-+eEtrufalsn`~<think>/')), CUTS)
def test_no_text_breaks_the_reader(text: str, cuts: list[int]) -> None:
    """The pieces of any text do not matter."""
    whole, pieces = AnswerReader(Schema[Any].of(Any)), AnswerReader(Schema[Any].of(Any))
    whole_json, pieces_json = JsonReader(), JsonReader()
    whole_json.feed(text)
    for piece in split(text, cuts):
        pieces_json.feed(piece)

    assert whole_json.value == pieces_json.value
    assert whole_json.is_broken == pieces_json.is_broken
    assert whole.value is pieces.value is msgspec.UNSET


def test_the_value_of_an_agent_starts_again_after_an_invalid_turn() -> None:
    """The parts number the turns, and only the valid turn has a value."""
    model = ScriptedModel.make([['{"title": "T", ', '"lines": 7', "}"], ['{"title": "U", ', '"lines": []}']])
    agent = Agent.make("reporter", output=Report)
    parts = fx.run(agent.stream_object("Go.").provide(model.layer).collect())

    assert [(part.turn, part.partial) for part in parts] == [
        (1, {"title": "T"}),
        (2, {"title": "U"}),
        (2, {"title": "U", "lines": []}),
        (2, {"title": "U", "lines": []}),
    ]
    assert isinstance(Schema.of(Report).decode(parts[-1].partial), Success)
    assert parts[-1].value == Report("U", [])
    assert parts[-1].answer is not None
    assert len(parts[-1].answer.steps) == 2


def test_an_agent_without_an_output_type_streams_no_object() -> None:
    """The message names the remedy."""
    with pytest.raises(TypeError, match="Pass `output` to Agent"):
        Agent.make("talker").stream_object("Go.")


def _documents() -> st.SearchStrategy[dict[str, Any]]:
    typed = st.sampled_from(TYPES).map(lambda type_: Schema[Any].of(type_).json_schema())
    return typed | json_schemas()


@given(st.data(), _documents(), CUTS, st.sampled_from([OPENAI, ANTHROPIC]), INDENTS)
def test_a_writer_converts_the_strict_form_of_a_provider(
    data: st.DataObject, document: dict[str, Any], cuts: list[int], rules: StrictRules, indent: int | None
) -> None:
    """For any split of the text, the written text is the JSON of the whole value after its conversion."""
    answer = AnswerForm.of(JsonSchema.of(document), rules)
    value = data.draw(instances(document, undeclared=False))
    whole = {"value": value} if answer.wrapped else value
    form = answer.form
    strict = Success(whole) if form is None else form.forth(whole)
    assume(isinstance(strict, Success))
    writer = answer.writer()
    assert writer is not None
    text = json.dumps(strict.unwrap(), indent=indent)
    assume(text[:1] in "{[")
    written = "".join(writer.feed(piece) for piece in split(text, cuts))

    assert msgspec.json.decode(written) == answer.value(strict.unwrap())


@given(
    st.sampled_from(
        ['{"other": [1]}', '{"other": 1, "value": [1]}', "[1]", '"a"', "1", "```\n[1]\n```", "{", '{"value": [1', ""]
    )
)
def test_a_writer_leaves_text_in_another_form_to_the_end(text: str) -> None:
    """It writes nothing, or the beginning of the answer."""
    writer = AnswerForm.of(JsonSchema.of({"type": "array", "items": {"type": "integer"}}), OPENAI).writer()
    assert writer is not None
    written = writer.feed(text)

    assert written == ("[" if text == '{"value": [1' else "")
    assert writer.has_written == bool(written)
