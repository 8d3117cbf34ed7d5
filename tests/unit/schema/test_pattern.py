"""Regular expressions are read by one parser, of which translations, costs, and trees are made."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fxai.schema.budget import MAX_LEVELS
from fxai.schema.pattern import (
    Alternation,
    Characters,
    Other,
    PatternError,
    Repeat,
    Series,
    compiled_pattern,
    expansion,
    is_plain,
    parse,
    tokens,
    translate,
)
from tests.kit.every import every

SOUP = st.text("ab19\\[](){}|^$.*+?,-:=!<>pkxud ~é\n", max_size=12)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of sets that look nested to `re`
@given(SOUP)
@example("[a\\")
@example("[\\]")
@example("(?<")
def test_tokens_are_the_whole_pattern(pattern: str) -> None:
    """Broken or not: nothing is left out, and nothing fails, whatever is asked."""
    assert "".join(text for _, text in tokens(pattern)) == pattern
    assert expansion(pattern) >= 0
    assert isinstance(is_plain(pattern), bool)
    assert isinstance(translate(pattern), str)


@given(SOUP)
def test_a_pattern_that_compiles_has_a_tree(pattern: str) -> None:
    """The parser takes what the engine takes."""
    try:
        compiled_pattern(pattern)
    except ValueError:
        return
    if "(?" not in pattern.replace("\\", ""):  # the package has groups of its own, which no schema needs
        assert isinstance(parse(pattern), Series | Alternation)


A, B = Characters("a"), Characters("b")
TREES = {
    "": Series(()),
    "ab": Series((A, B)),
    "a|b": Alternation((Series((A,)), Series((B,)))),
    "(a|b)": Series((Alternation((Series((A,)), Series((B,)))),)),
    "(a)(?:b)(?<n>a)": Series((Series((A,)), Series((B,)), Series((A,)))),
    "a*b+?": Series((Repeat(A, 0, None), Repeat(B, 1, None))),
    "a?b{2}": Series((Repeat(A, 0, 1), Repeat(B, 2, 2))),
    "a{2,}b{2,3}": Series((Repeat(A, 2, None), Repeat(B, 2, 3))),
    "a++": Series((Repeat(A, 1, None, possessive=True),)),
    "a{,2}": Series((A, *map(Characters, "{,2}"))),
    r"^\b\1$": Series((Other("^"), Other(r"\b"), Other(r"\1"), Other("$"))),
    "(?=a|b)a": Series((Other("(?="), A)),
    r"[^\]a]\d.\x41\.": Series(tuple(map(Characters, (r"[^\]a]", r"\d", ".", r"\x41", r"\.")))),
}


@every("pattern", TREES)
def test_the_tree_of_a_pattern(pattern: str) -> None:
    """Groups are what they hold; what is no character is said as it is written."""
    assert parse(pattern) == TREES[pattern]


@every("pattern", ["(a", "a)", "*a", "(|*)", "a{3,2}", "[a", "a\\", "(" * (MAX_LEVELS + 1) + ")" * 200])
def test_a_broken_pattern_has_no_tree(pattern: str) -> None:
    """The error says what is wrong; groups that nest without end are refused before they use up the stack."""
    with pytest.raises(PatternError, match=r"."):
        parse(pattern)


@every(
    ("pattern", "plain"),
    [
        (r"^\(?[0-9]{3}\)?$", True),
        ("^(a|b)+(?:c)?$", True),
        ("[(?=a]", True),
        (r"\\bword", True),
        (r"\bword", False),
        (r"(a)\1", False),
        (r"(?<n>a)\k<n>", False),
        ("(?!a)", False),
        ("(?<=a)b", False),
        ("(?i)a", False),
        (r"\p{L}", False),
        (r"[\p{L}a]", False),
        (r"[\b]", False),
    ],
)
def test_what_every_provider_takes_is_plain(pattern: str, plain: bool) -> None:
    """What is escaped or stands in a set is no group."""
    assert is_plain(pattern) is plain


@every(
    ("pattern", "text"),
    [
        (r"^(?<y>\d)-\k<y>$", "1-1"),
        (r"^\u{1F600}\cJ$", "\U0001f600\n"),
        (r"^[\p{L}0-9]+$", "a1"),
        (r"^[^\p{Lu}]\p{P}$", "a!"),
        (r"^[\W]\b", "-a"),
        (r"^a{,2}[]|x$", "x"),
        (r"^\.\-\/$", ".-/"),
    ],
)
def test_python_reads_the_same_pattern(pattern: str, text: str) -> None:
    """As near as its own language comes to ECMA-262."""
    assert re.search(translate(pattern, python=True), text)
