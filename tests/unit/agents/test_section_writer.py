"""Writing sections step by step: what was written for the last step is used again, and only where it is the same."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field, RootModel

from fxai.agents.section import Section, SectionWriter, join_sections
from fxai.agents.state import RenderError
from tests.kit.every import every

# Each is written in another way than the next one, though JSON has one form for some of them.
PAIRS: list[tuple[Any, Any]] = [
    (None, float("nan")),
    (float("inf"), float("-inf")),
    ({"a": None}, {"a": float("nan")}),
    ([None, float("nan")], [float("nan"), None]),
    (1, 1.0),
    (1, True),
    ([1], ["1"]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([], {}),
    (["null"], [None]),
    ([None, -(2**63) - 1], [None, 2**64]),  # integers that have no binary form
    (MappingProxyType({"a": 1}), MappingProxyType({"a": 2})),
]


def _written(writer: SectionWriter, value: Any) -> str:
    return join_sections(writer.texts([Section("data", "it", value)]))


@every("pair", PAIRS, ids=str)
def test_data_that_is_written_in_another_way_is_written_anew(pair: tuple[Any, Any]) -> None:
    """After one value the other is written as if it were the first one, in both orders."""
    fresh = [_written(SectionWriter(), value) for value in pair]
    assert fresh[0] != fresh[1]

    writer = SectionWriter()
    assert [_written(writer, value) for value in (*pair, *pair)] == fresh * 2


def test_data_that_was_changed_in_its_place_is_written_anew() -> None:
    """The same list, with one more in it, is not what it was."""
    writer, numbers = SectionWriter(), [1]
    before = _written(writer, numbers)
    numbers.append(2)

    assert (before, _written(writer, numbers)) == (
        "<data>\n<it>\n- 1\n</it>\n</data>",
        _written(SectionWriter(), [1, 2]),
    )


def test_data_that_stays_is_written_once() -> None:
    """What is encoded alike is not walked through again: an object is not asked for its keys in Python."""
    walks: list[str] = []

    class Watched(dict[str, int]):
        def items(self) -> Any:
            walks.append("walked")
            return super().items()

    writer = SectionWriter()
    texts = {_written(writer, Watched(a=1)) for _ in range(3)}

    assert (len(texts), walks) == (1, ["walked"])


def test_sections_are_kept_by_their_names() -> None:
    """Two sections with the same data each have their own tags, and one that was away is written again."""
    writer = SectionWriter()
    one, two = Section("data", "one", [1]), Section("data", "two", [1])

    steps = ([one, two], [two], [two, one])

    assert [writer.texts(sections) for sections in steps] == [SectionWriter().texts(sections) for sections in steps]


class Book(BaseModel):
    """A model."""

    title: str
    shelf: int = Field(default=0, ge=0)


class Shelf(msgspec.Struct):
    """A struct with a model, which msgspec alone cannot write."""

    best: Book


@every(
    "value, inside",
    [
        (Book(title="Emma"), 'title: "Emma"\nshelf: 0'),
        ([Book(title="Emma")], '- title: "Emma"\n  shelf: 0'),
        ({"best": RootModel[list[int]]([1])}, "best:\n  - 1"),
        (Shelf(Book(title="Emma")), 'best:\n  title: "Emma"\n  shelf: 0'),
    ],
)
def test_a_model_is_written_as_its_json_data(value: Any, inside: str) -> None:
    """A model of pydantic is data as a struct is, alone or inside other data."""
    assert _written(SectionWriter(), value) == f"<data>\n<it>\n{inside}\n</it>\n</data>"


@every("value, why", [(Book.model_construct(title="a", shelf=-1), "/shelf"), (object(), "object")])
def test_data_without_a_json_form_is_refused_by_its_section(value: Any, why: str) -> None:
    """The message names the section, and the location inside a model or the class."""
    with pytest.raises(RenderError, match=f"data 'it' contains a value without a JSON form: .*{why}"):
        _written(SectionWriter(), value)
