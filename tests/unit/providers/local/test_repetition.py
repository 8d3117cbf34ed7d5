"""Where an answer begins to repeat itself: what is said of it, and where it ends."""

from __future__ import annotations

import pytest

from fxai.providers.local.engine import Unrepeated
from tests.kit.every import every


def _sentences(text: str, size: int) -> tuple[str, bool]:
    """What is said of ``text`` that comes in pieces of that size, and whether it was ended."""
    on_progress = Unrepeated()
    said = [on_progress.take(text[n : n + size]) for n in range(0, len(text), size)]
    return "".join(said) + on_progress.rest(), on_progress.ended


@every("size", [1, 3, 7, 1000])
@every(
    ("text", "said"),
    [
        ("The spelt costs 6. The spelt costs 6. The spelt", "The spelt costs 6."),
        ("It is one. It is two. It is  ONE. It is two. It", "It is one. It is two."),
        ('He said "it is on!" He said "it is on!" He', 'He said "it is on!"'),
        ("So it is done?\nSo it is done?\nSo", "So it is done?"),
    ],
)
def test_a_text_ends_before_a_sentence_that_it_said(text: str, said: str, size: int) -> None:
    """However it comes in pieces, nothing of the second saying is heard, not even the blank before it."""
    assert _sentences(text, size) == (said, True)


@every("size", [1, 3, 7, 1000])
@every(
    "text",
    [
        "It is 10:00 in Rome. It is 10:00 in Paris. It is",
        "It was 3.5 today. It was 3.5 degrees.",
        "See Dr. Ann. See Dr. Bob. See Dr. Cid.",
        "No. No. I said no.",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.",
        "100 EUR and 100000000 EUR",
        "-" * 80,
        " \n blank around \n ",
    ],
)
def test_a_text_that_goes_on_is_said_whole(text: str, size: int) -> None:
    """Sentences that only begin alike, short ones, short counts, round numbers and rules are no repetition."""
    assert _sentences(text, size) == (text, False)


def test_a_last_sentence_that_was_said_is_dropped() -> None:
    """A text that ends with the end of a sentence which it said before does not say it again."""
    assert _sentences("The rye costs 4. The rye costs 4.", 2) == ("The rye costs 4.", False)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("It is 1" + "0" * 300, "It is 100000"),
        ("He laughs: " + "ha " * 100, "He laughs: ha ha ha h"),
        ("It is 4.2" + ".0" * 100, "It is 4.2.0.0.0."),
        ("They are " + ", ".join(map(str, range(1, 200))), "They are " + ", ".join(map(str, range(1, 25)))),
    ],
)
def test_a_loop_ends_soon(text: str, most: str) -> None:
    """A few characters are said over and over at most three times and some; numbers only count for a while."""
    said, ended = _sentences(text, 1)

    assert ended
    assert said
    assert most.startswith(said)


def test_a_loop_that_ends_is_said() -> None:
    """Large numbers and a laugh are held back for a while only."""
    assert _sentences("It is 1000000000000 EUR, ha ha ha ha!", 1) == ("It is 1000000000000 EUR, ha ha ha ha!", False)
    assert _sentences("It is 1000000000000", 1) == ("It is 1000000000000", False)


def test_what_is_new_is_said_at_once() -> None:
    """Only a sentence that may be a repetition waits, until it is known to be another."""
    on_progress = Unrepeated()

    assert on_progress.take("It is") == "It is"
    assert on_progress.take(" 6.") == " 6."
    assert on_progress.take(" It is") == ""
    assert on_progress.take(" not") == " It is not"
    assert on_progress.take(" 7.") == " 7."


def test_nothing_is_said_after_the_end() -> None:
    """Once it has ended, whatever comes is held back for good."""
    on_progress = Unrepeated()
    on_progress.take("It is cold. It is cold. ")

    assert on_progress.ended
    assert on_progress.take("It is warm.") == ""
    assert on_progress.rest() == ""
