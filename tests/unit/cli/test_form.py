"""Forms of servers, filled in by what is typed."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.cli.input import PipedInput, fill_form
from fxai.mcp import ElicitAnswer, Elicitation
from tests.kit.every import every

FIELDS: dict[str, Any] = {
    "text": {"type": "string", "minLength": 2},
    "whole": {"type": "integer", "minimum": 1},
    "share": {"type": "number"},
    "sure": {"type": "boolean", "description": "Really?"},
    "color": {"type": "string", "enum": ["red", "blue"]},
    "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
    "many": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
}


def answered(schema: Any, *typed: str, url: str | None = None) -> ElicitAnswer:
    """What is answered when these lines are typed."""
    return fill_form(Elicitation("git", "Well?", schema, url), PipedInput(f"{line}\n" for line in typed))


def form(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A form of some of the fields."""
    return {"type": "object", "properties": {name: FIELDS[name] for name in names}, "required": list(required)}


@every(
    ("name", "typed", "value"),
    [
        ("text", ["x", " main "], "main"),
        ("whole", ["0", "1.5", "one", "3"], 3),
        ("share", ["0.5"], 0.5),
        ("sure", ["maybe", "Y"], True),
        ("sure", ["no"], False),
        ("color", ["pink", "blue"], "blue"),
        ("size", ["Small", "s"], "s"),
        ("many", ["a, b, a", "a,b"], ["a", "b"]),
    ],
)
def test_a_field_is_asked_for_until_it_fits(name: str, typed: list[str], value: Any) -> None:
    """What is typed is read as the field's type has it; what does not fit is asked for again."""
    assert answered(form(name), *typed) == ElicitAnswer("accept", {name: value})


@pytest.mark.parametrize(
    ("names", "required", "typed"),
    [(["text", "sure"], ["sure"], ["main", ""]), (["text", "sure"], [], ["", ""]), (["whole"], ["whole"], ["x", ""])],
)
def test_an_empty_answer_refuses(names: list[str], required: list[str], typed: list[str]) -> None:
    """To what is required; and a form that nothing was filled into is not sent."""
    assert answered(form(*names, required=tuple(required)), *typed) == ElicitAnswer("decline")


def test_what_may_be_empty_is_left_out() -> None:
    """An optional field without an answer is not sent."""
    assert answered(form("text", "sure"), "", "y").content == {"sure": True}


@pytest.mark.parametrize("schema", [{}, {"properties": {}}])
def test_a_question_without_a_form_is_agreed_to_or_not(schema: dict[str, Any]) -> None:
    """Only yes agrees: nothing is filled in by saying nothing."""
    assert answered(schema, "y") == ElicitAnswer("accept", {})
    assert {answered(schema, said).action for said in ("", "n", "sure")} == {"decline"}


def test_an_address_is_agreed_to_or_not() -> None:
    """A server that sends the person to an address is told whether they went."""
    assert answered({}, "yes", url="https://example.org") == ElicitAnswer("accept")
    assert answered({}, "", url="https://example.org") == ElicitAnswer("decline")


def test_where_the_lines_end_nothing_is_sent() -> None:
    """In the middle of a form there is nobody any more: that is neither yes nor no."""
    assert answered(form("text", "sure"), "main") == ElicitAnswer("cancel")


@pytest.mark.parametrize("field", [{"type": "no such type"}, "text", None, {"enum": 3, "oneOf": [1]}])
def test_a_field_that_is_no_schema_is_text(field: Any) -> None:
    """What a server says that means nothing does not end the chat: it is sent what was typed."""
    assert answered({"properties": {"odd": field}}, "main").content == {"odd": "main"}
