"""JSON text within limits."""

from __future__ import annotations

import pytest
from returns.result import Failure, Success

from fxai.schema import DecodeError, DecodeFailure, Limits, parse_json, parse_json_unsafe
from tests.kit.every import every


def failure_of(text: bytes | str, limits: Limits | None = None) -> DecodeFailure:
    """The failure that a text must give."""
    failure: DecodeFailure = (parse_json(text) if limits is None else parse_json(text, limits)).failure()
    return failure


@every("text", ["", " ", "\n\t ", b"", b"  "])
def test_blank_text_means_an_empty_object(text: bytes | str) -> None:
    """What a model sends for no arguments at all is `{}`."""
    assert parse_json(text).unwrap() == {}


@every(
    ("text", "location"),
    [
        ("[1, NaN]", "/1"),
        ('{"a": {"b": -Infinity}}', "/a/b"),
        ("1e999", ""),
        ('["\\ud800"]', "/0"),
        ("Infinity", ""),
        ('{"a/b": [NaN]}', "/a~1b/0"),
    ],
)
def test_what_is_no_json_value_is_named_with_its_place(text: str, location: str) -> None:
    """NaN, the infinities, numbers beyond all bounds and half surrogates are faults where they stand."""
    assert [fault.pointer for fault in failure_of(text).faults] == [location]


@every(
    ("text", "said"),
    [
        ('{"a": }', "line 1 column 7"),
        ("{} x", "Extra data"),
        ('{"a": 1', "line 1"),
        ("nope", "not JSON"),
        (b'"\xff"', "UTF-8"),
        (b'{"a": 1, "b": "\xff"}', "UTF-8"),
        ("\ufeff{}", "JSON"),
        ("9" * 5000, "digits"),
    ],
)
def test_malformed_text_says_what_and_where(text: bytes | str, said: str) -> None:
    """The one fault of text that is not JSON names the place in the text."""
    fault = failure_of(text).faults[0]

    assert fault.pointer == ""
    assert said in str(fault)


def test_a_raw_half_surrogate_is_a_fault() -> None:
    """Python strings can hold what UTF-8 cannot: that is no JSON text."""
    assert "surrogate" in str(failure_of('{"a": "\ud800"}'))


@every("levels", [129, 10_000, 1_000_000])
@every(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ("[{},", "]")])
def test_nesting_beyond_the_limit_is_a_failure(levels: int, opened: str, closed: str) -> None:
    """However deep: no crash, no hang."""
    assert "nesting" in str(failure_of(opened * levels + "1" + closed * levels))


def test_unclosed_nesting_is_a_failure() -> None:
    """A text that only opens is refused like one that also closes."""
    assert failure_of("[" * 100_000).faults


@every("levels", [1, 2, 5, 127, 128])
def test_nesting_within_the_limit_is_read(levels: int) -> None:
    """`[]` is one level deep, and the limit itself is allowed."""
    assert isinstance(parse_json("[" * levels + "]" * levels), Success)


@pytest.mark.parametrize("levels", [1, 3, 40])
def test_the_depth_limit_is_exact(levels: int) -> None:
    """One level more than the limit fails."""
    limits = Limits(max_depth=levels)

    assert isinstance(parse_json('{"a":' * levels + "1" + "}" * levels, limits), Success)
    assert isinstance(parse_json("[" * (levels + 1) + "]" * (levels + 1), limits), Failure)


def test_brackets_in_strings_are_no_nesting() -> None:
    """Depth counts structure only, whatever strings hold and however they escape."""
    text = '{"a": ["' + "[{" * 500 + '", "\\\\", "\\"' + "[" * 500 + '", "\\n\\\\"]}'

    assert isinstance(parse_json(text), Success)


def test_many_shallow_brackets_are_no_nesting() -> None:
    """Wide data of more brackets than levels is read."""
    assert isinstance(parse_json("[" + ",".join("[{}]" for _ in range(5000)) + "]"), Success)


def test_text_over_the_limit_is_a_failure_at_once() -> None:
    """50 MB are refused by their size, unread."""
    assert "at most 16777216 bytes" in str(failure_of(b"[" + b"1," * 25_000_000 + b"1]"))


def test_the_size_limit_counts_bytes_of_utf_8() -> None:
    """Text is measured as it would be sent."""
    assert isinstance(parse_json('"éé"', Limits(max_bytes=6)), Success)
    assert isinstance(parse_json('"éé"', Limits(max_bytes=5)), Failure)


def test_the_last_of_doubled_keys_wins() -> None:
    """As in other JSON parsers."""
    assert parse_json('{"a": 1, "a": 2}') == Success({"a": 2})


def test_doubled_keys_are_refused_on_request() -> None:
    """Each with its pointer, at any depth, and every one."""
    text = '{"a": 1, "b": [{"c~/": 1, "c~/": 2, "c~/": 3}], "a": {"d": 1, "d": 2}}'

    told = [str(fault) for fault in failure_of(text, Limits(unique_keys=True)).faults]

    assert told == [
        "/a: expected each key once, found key 'a' twice",
        "/b/0/c~0~1: expected each key once, found key 'c~/' 3 times",
        "/a/d: expected each key once, found key 'd' twice",
    ]


def test_unique_keys_say_so_of_malformed_text_too() -> None:
    """The second pass leaves what is not JSON to the first."""
    assert "not JSON" in str(failure_of('{"a": 1, "a"', Limits(unique_keys=True)))
    assert parse_json('{"a": 1, "b": {"a": 1}}', Limits(unique_keys=True)) == Success({"a": 1, "b": {"a": 1}})


def test_the_unsafe_twin_raises_the_same_failure() -> None:
    """`DecodeError` holds what the result would."""
    with pytest.raises(DecodeError) as raised:
        parse_json_unsafe("[1, NaN]")

    assert raised.value.failure == failure_of("[1, NaN]")


def test_numbers_keep_their_kind_and_size() -> None:
    """Integers of any size stay integers, fractions stay fractions."""
    assert parse_json_unsafe("[18446744073709551616, 1.0, -0.5]") == [2**64, 1.0, -0.5]
    assert isinstance(parse_json_unsafe("1.0"), float)
