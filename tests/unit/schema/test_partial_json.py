"""JSON text that is still coming: what of it can be shown."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.schema.data import is_array, is_object
from fxai.schema.partial_json import parse_partial
from tests.kit.every import every

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/\n,:{}[]\U0001f600'), max_size=6)
NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)


def _within(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays: st.SearchStrategy[Any] = st.lists(some, max_size=3)
    return arrays | st.dictionaries(TEXTS, some, max_size=3)


ATOMS: st.SearchStrategy[Any] = st.none() | st.booleans() | NUMBERS | TEXTS
DATA: st.SearchStrategy[Any] = st.recursive(ATOMS, _within, max_leaves=8)


SHOWN: list[tuple[str, Any]] = [
    ('{"city": "Os', {"city": "Os"}),
    ('{"city": "Oslo", "da', {"city": "Oslo"}),
    ('{"city": "Oslo", "days"', {"city": "Oslo"}),
    ('{"city": "Oslo", "days":', {"city": "Oslo"}),
    ('{"city": "Oslo", "days": 1', {"city": "Oslo", "days": 1}),
    ('{"a": {"b": [1, {"c": tr', {"a": {"b": [1, {"c": True}]}}),
    ('{"a": f', {"a": False}),
    ('{"a": -', {}),
    ("[1.", [1]),
    ("[1.5e", [1.5]),
    ("[1, 2,", [1, 2]),
    ("[[], {}", [[], {}]),
    ('["\\', [""]),
    ('["a\\u00e', ["a"]),
    ('["a\\u00e9', ["aé"]),
    ('"half', "half"),
    ("nul", None),
    ("12", 12),
    (' {"a": 1} ', {"a": 1}),
]


@every(("text", "shown"), SHOWN)
def test_what_has_come_is_shown(text: str, shown: Any) -> None:
    """Strings end where they are cut, words are completed, numbers end where they are one; keys alone are left out."""
    assert parse_partial(text) == shown


@pytest.mark.parametrize("cut", ["\\ud83d", "\\ud83d\\", "\\ud83d\\u", "\\ud83d\\ude0"])
def test_half_of_a_character_is_left_out(cut: str) -> None:
    """What is before it is shown meanwhile."""
    assert parse_partial(f'{{"face": "so {cut}') == {"face": "so "}
    assert parse_partial('{"face": "so \\ud83d\\ude00') == {"face": "so \U0001f600"}


@every("text", ["", "  ", "-", "I think", "]", "{]", '{"a" 1', '"\\ud83dx"', "\x00", '"a\nb"', "1" * 5000])
def test_what_is_no_beginning_of_json_is_nothing(text: str) -> None:
    """As is nothing at all."""
    assert parse_partial(text) is msgspec.UNSET


def test_text_that_is_nested_too_deeply_is_nothing() -> None:
    """And is no crash."""
    assert parse_partial("[" * 100_000) is msgspec.UNSET
    assert parse_partial('{"a":' * 100_000) is msgspec.UNSET


def _is_begun(shown: Any, whole: Any) -> bool:
    """Whether data can become other data by what is still to come."""
    if is_object(whole) and is_object(shown):
        return all(_is_begun(shown[key], whole[key]) for key in shown) and list(shown) == list(whole)[: len(shown)]
    if is_array(whole) and is_array(shown):
        return len(shown) <= len(whole) and all(map(_is_begun, shown, whole))
    if isinstance(whole, str) and isinstance(shown, str):
        return whole.startswith(shown)
    if isinstance(whole, int | float) and isinstance(shown, int | float):
        return True  # a number of which digits are missing is another one
    return bool(shown == whole)


@given(DATA, st.booleans(), st.sampled_from([None, 1]))
def test_each_prefix_of_json_shows_the_beginning_of_its_data(data: Any, ascii_only: bool, indent: int | None) -> None:
    """And the whole text shows all of it."""
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    for end in range(len(text)):
        shown = parse_partial(text[:end])
        assert shown is msgspec.UNSET or _is_begun(shown, data)
    assert parse_partial(text) == data


@given(st.text(st.sampled_from('{}[]",:\\ \n0123456789.-+eEtrufalsn\x01é') | st.characters()))
def test_no_text_is_a_crash(text: str) -> None:
    """Whatever a model writes; what is shown can be written again."""
    shown = parse_partial(text)
    assert shown is msgspec.UNSET or msgspec.json.encode(shown)
