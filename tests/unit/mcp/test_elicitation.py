"""Questions of a server to a person, and their answers, as values."""

from __future__ import annotations

import pytest

from fxai.mcp import ElicitAnswer, Elicitation

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}, "why": {"type": "string"}}}


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        (Elicitation("git", "Sure?", FORM), ("sure", "why")),
        (Elicitation("git", "Sure?", {"type": "object"}), ()),
        (Elicitation("git", "Sign in", url="https://x.example"), ()),
    ],
)
def test_the_fields_of_a_form_have_names(asked: Elicitation, fields: tuple[str, ...]) -> None:
    """They come in the order of the form; a form without any, and an address, have none."""
    assert asked.fields == fields


def test_answers_can_be_kept_by_question() -> None:
    """Equal questions are one key, whatever JSON their form is; another message, server or address is another key."""
    answers = {Elicitation("git", "Sure?", FORM): 1}
    answers[Elicitation("git", "Sure?", {**FORM})] = 2
    others = [Elicitation("hub", "Sure?", FORM), Elicitation("git", "Why?", FORM), Elicitation("git", "Sure?", url="u")]

    assert list(answers.values()) == [2]
    assert not any(other in answers for other in others)


def test_answers_can_be_counted() -> None:
    """Equal answers are one, whatever JSON they hold."""
    yes = ElicitAnswer("accept", {"sure": [True]})

    assert {yes, ElicitAnswer("accept", {"sure": [True]}), ElicitAnswer("accept"), ElicitAnswer("cancel")} == {
        yes,
        ElicitAnswer("accept"),
        ElicitAnswer("cancel"),
    }
