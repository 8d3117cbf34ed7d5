"""Patterns as grammar: what is generated matches; what cannot be said is named."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.providers.local.gbnf import pattern_grammar, string_grammar
from fxai.schema.pattern import PatternError
from tests.kit.every import every
from tests.kit.gbnf import Gbnf

CHAR = 'char ::= [^"\\\\\\x00-\\x1F\\x7F] | "\\\\" ["\\\\nrt]'

PATTERNS = (
    "^[a-z]+\\.(py|md)$",
    "\\d{3}",
    '^[^/"]+$',
    "^(a|bb)*$",
    "^\\s\\S\\W$",
    "^(foo|bar){2,3}-[A-F0-9]{4}$",
    "^#[0-9a-fA-F]{6}$|^none$",
    "^(?:x|(?P<y>y))+?$",
    "^\\u00e9\\x41.$",
    "^[\\w.+-]+@[\\w-]+$",
    "",
    "^$",
)


@given(st.sampled_from(PATTERNS), st.integers(0, 4), st.none() | st.integers(9, 20), st.randoms(use_true_random=False))
def test_what_a_pattern_generates_matches_it(pattern: str, least: int, most: int | None, random: Random) -> None:
    """A JSON string written by the grammar of a pattern matches it and keeps the length bounds."""
    try:
        body = pattern_grammar(pattern, least, most)
    except PatternError:
        body = None
    if body is None:
        with pytest.raises(PatternError, match="no string of"):
            pattern_grammar(pattern, least, most)
        return

    text = json.loads('"' + Gbnf(f"root ::= {body}\n{CHAR}").sample(random) + '"')

    assert re.search(pattern, text)
    assert least <= len(text)
    assert most is None or len(text) <= most


@every("least", [0, 1, 7, 999, 1000, 1001, 1200])
@every("more", [0, 1, 50])
def test_strings_keep_their_length_bounds(least: int, more: int) -> None:
    """A JSON string written by the grammar has as many characters as asked, above llama.cpp's repetition limit too."""
    body = string_grammar(least, least + more)
    text = json.loads('"' + Gbnf(f"root ::= {body}\n{CHAR}").sample(Random(least)) + '"')

    assert least <= len(text) <= least + more


@every(
    ("pattern", "named"),
    [
        ("^(?=a)b$", "look-around '(?='"),
        ("(?<!a)b", "look-around '(?<!'"),
        ("(a)\\1", "escape '\\1'"),
        ("\\bword\\b", "escape '\\b'"),
        ("\\p{L}", "escape '\\p'"),
        ("(^a|b$)", "anchor"),
        ("a++", "possessive"),
        ("[z-a]", "invalid range"),
        ("(a", "missing ')'"),
        ("[a", "missing ']'"),
        ("a)", "unbalanced"),
        ("*a", "missing expression before '*'"),
        ("a{3,1}", "is less than its minimum"),
        ("(?i)a", "group '(?i'"),
    ],
)
def test_what_no_grammar_can_say_is_named(pattern: str, named: str) -> None:
    """A construct that has no place in a grammar is refused by its name."""
    with pytest.raises(PatternError) as refused:
        pattern_grammar(pattern, 0, None)

    assert named in str(refused.value)
