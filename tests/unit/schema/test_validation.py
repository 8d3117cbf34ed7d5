"""Validation of data by a document, and the words of its errors."""

from __future__ import annotations

import builtins
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fxai.schema import Fault, JsonSchema
from fxai.schema.pattern import compiled_pattern, translate
from tests.kit.every import every


def told(document: Any, value: object) -> list[str]:
    """What is told of a value."""
    return [str(fault) for fault in JsonSchema.of(document).validate(value)]


CASES: list[tuple[Any, Any, list[str]]] = [
    ({"type": "integer"}, "x", ["expected integer, found string 'x'"]),
    ({"type": ["string", "null"]}, 3, ["expected null or string, found integer 3"]),
    (
        {"properties": {"limit": {"type": "number", "maximum": 100}}},
        {"limit": 1000},
        ["/limit: expected number at most 100, found integer 1000"],
    ),
    (
        {"minimum": 1, "multipleOf": 2},
        -1,
        ["expected number at least 1 and a multiple of 2, found integer -1"],
    ),
    (
        {"exclusiveMinimum": 1, "exclusiveMaximum": 1},
        1,
        ["expected number above 1 and below 1, found integer 1"],
    ),
    ({"minLength": 2}, "x", ["expected string of at least 2 characters, found string 'x'"]),
    ({"pattern": "^a"}, "b", ["expected string matching '^a', found string 'b'"]),
    ({"minItems": 1}, [], ["expected array of at least 1 item, found array of 0 items"]),
    ({"uniqueItems": True}, [1, 1.0], ["expected array without doubled items, found array of 2 items"]),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, ["expected object of at most 1 property, found object with 2 properties"]),
    ({"enum": ["C", None]}, "F", ["expected one of 'C', null, found string 'F'"]),
    ({"const": 3}, 4, ["expected 3, found integer 4"]),
    (False, 3, ["expected no value, found integer 3"]),
    ({"properties": {"a": False}}, {"a": 1}, ["/a: expected no value, found integer 1"]),
    ({"items": {"properties": {"a": False}}}, [{"a": 1}], ["/0/a: expected no value, found integer 1"]),
    (
        {"properties": {"b": {"type": "integer"}}, "required": ["a", "b", "c/d"]},
        {"a": 1},
        ["/b: expected integer, found nothing", "/c~1d: expected a value, found nothing"],
    ),
    (
        {"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False},
        {"a": 1, "x1": 1, "b": 2, "c": None},
        ["/b: expected no property of this name, found integer 2", "/c: expected no property of this name, found null"],
    ),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}, ["/a: expected string, found integer 1"]),
    ({"patternProperties": {"^x": {"type": "string"}}}, {"xa": 1, "b": 1}, ["/xa: expected string, found integer 1"]),
    (
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        {"a": 1, "b": 2},
        ["/b: expected no property of this name, found integer 2"],
    ),
    ({"unevaluatedProperties": {"type": "string"}}, {"a": 1, "b": "x"}, ["/a: expected string, found integer 1"]),
    (
        {"propertyNames": {"maxLength": 1}},
        {"ab": 1},
        ["/ab: expected a property name that is string of at most 1 character, found name 'ab'"],
    ),
    ({"prefixItems": [{}], "items": False}, [1, 2, 3], ["expected array of at most 1 item, found array of 3 items"]),
    (
        {"prefixItems": [{}], "unevaluatedItems": False},
        [1, 2],
        ["expected array without items beyond those described, found array of 2 items"],
    ),
    (
        {"contains": {"type": "string"}, "minContains": 2},
        ["a"],
        ["expected array with at least 2 of its items being string, found array of 1 item"],
    ),
    ({"not": {"type": "null"}}, None, ["expected a value that is not null, found null"]),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ["/b: expected a value, found nothing"]),
    (
        {"if": {"type": "string"}, "then": {"minLength": 3}},
        "x",
        ["expected string of at least 3 characters, found string 'x'"],
    ),
    ({"anyOf": [{"type": "string"}, {"type": "number"}]}, None, ["expected string or number, found null"]),
    (
        {"anyOf": [{"type": "string"}, {"type": "object", "required": ["q"]}]},
        {},
        ["/q: expected a value, found nothing"],
    ),
    (
        {
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}},
                {"properties": {"kind": {"const": "b"}, "y": {"type": "integer"}}},
            ]
        },
        {"kind": "b", "y": "no"},
        ["/y: expected integer, found string 'no'"],
    ),
    (
        {"oneOf": [{"type": "number"}, {"minimum": 0}]},
        3,
        ["expected exactly one of: number or number at least 0, found integer 3, which is several of them"],
    ),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"type": "string"}}},
        [1],
        ["/0: expected string, found integer 1"],
    ),
    (
        {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True},
        3,
        ["expected number below 3, found integer 3"],
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": False},
        [1, 2],
        ["expected array of at most 1 item, found array of 2 items"],
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
        {"a": 1},
        ["/b: expected a value, found nothing"],
    ),
    (
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"minLength": -1},
        ["/minLength: expected integer at least 0, found integer -1"],
    ),
]


@pytest.mark.parametrize(("document", "value", "expected"), CASES, ids=lambda x: str(x)[:40])
def test_each_fault_is_told_with_its_place(document: Any, value: Any, expected: list[str]) -> None:
    """In words, in the order of the value, the same by both packages."""
    assert told(document, value) == expected


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (True, {"any": [1, None]}),
        ({"type": "integer"}, 3.0),
        ({"type": "integer"}, 10**40),
        ({"format": "ipv4"}, "no"),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "format": "ipv4",
                "contentMediaType": "application/json",
            },
            "{no",
        ),
        ({"pattern": "^\\d+$"}, "12"),
        ({"const": 1}, 1.0),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "object"}),
    ],
    ids=str,
)
def test_a_valid_value_has_no_faults(document: Any, value: Any) -> None:
    """`format` and content only annotate; whole numbers are integers."""
    assert told(document, value) == []


def test_what_json_cannot_carry_is_a_fault() -> None:
    """Whatever the document allows."""
    ring: list[Any] = []
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    document = {"items": {"$ref": "#"}}

    assert told(document, [float("nan")]) == ["/0: expected a finite number, found NaN"]
    assert told(document, {"a": object()}) == ["/a: expected a JSON value, found a Python object"]
    assert told(document, ["\ud800"]) == ["/0: expected text of whole characters, found half a surrogate pair"]
    assert told(document, ring)
    assert told(document, deep)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less time for patterns than people have, so that the tests are soon done."""
    monkeypatch.setattr("fxai.schema.pattern.SECONDS", 0.02)


ONE = "a" * 60 + "!"
OTHER = "http://json-schema.org/draft-07/schema#"
USES: dict[str, tuple[Callable[[str], dict[str, Any]], Any]] = {
    "long": (lambda p: {"pattern": p}, "a" * 5000 + "!"),
    "many": (lambda p: {"items": {"pattern": p}}, [ONE] * 200),
    "names": (lambda p: {"patternProperties": {p: False}}, {ONE: 1}),
    "additional": (lambda p: {"patternProperties": {p: {}}, "additionalProperties": False}, {ONE: 1}),
    "unevaluated": (lambda p: {"patternProperties": {p: {}}, "unevaluatedProperties": False}, {ONE: 1}),
    "left": (lambda p: {"unevaluatedItems": {"pattern": p}}, [ONE]),
    "named": (lambda p: {"propertyNames": {"pattern": p}}, {ONE: 1}),
    "not": (lambda p: {"not": {"pattern": p}}, ONE),
    "any": (lambda p: {"anyOf": [{"pattern": p}, {"type": "null"}]}, ONE),
    "if": (lambda p: {"if": {"pattern": p}, "then": False}, ONE),
    "embedded": (lambda p: {"$defs": {"a": {"$schema": OTHER, "pattern": p}}, "$ref": "#/$defs/a"}, ONE),
}
EXPLODING = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$(?<!b)", "^(?=a)(a|a)+\\1$", "(.*)*(?=x)x", "^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("pattern", EXPLODING)
@pytest.mark.parametrize(("make", "value"), USES.values(), ids=USES)
def test_a_pattern_that_explodes_cannot_hang_the_process(
    pattern: str, make: Callable[[str], dict[str, Any]], value: Any
) -> None:
    """It is decided in time, or the fault says that it was not: out of time never passes for a match."""
    document = make(pattern)

    faults = JsonSchema.of(document).validate(value)

    assert all(isinstance(fault, Fault) for fault in faults)
    if "pattern" in document or "items" in document:
        assert faults


@pytest.mark.usefixtures("hurried")
def test_a_pattern_out_of_time_says_so() -> None:
    """With the pattern, at the place; and at the root where it hides inside `not`."""
    pattern = "^(a|a)*(?<!b)\\1$"
    value = "a" * 60 + "!"

    [direct] = JsonSchema.of({"properties": {"x": {"pattern": pattern}}}).validate({"x": value})
    [hidden] = JsonSchema.of({"not": {"pattern": pattern}}).validate(value)

    assert direct.pointer == "/x"
    assert "took longer" in direct.expected
    assert hidden.pointer == ""
    assert "took longer" in hidden.expected


@every(
    ("pattern", "text", "found"),
    [
        ("^a$", "a\n", False),
        ("^\\d$", "١", False),
        ("^\\w$", "é", False),
        ("^[\\w-]+$", "a-b", True),
        ("^\\p{L}$", "é", True),
        ("^[\\p{L}\\d]+$", "é1", True),
        ("^[\\W]$", "é", True),
        ("^\\S$", "é", True),
        ("^\\s$", "\u00a0", True),
        ("^.$", "\r", False),
        ("a{,2}b", "a{,2}b", True),
        ("^(?:foo){e<=1}$", "fo", False),
        ("^[[:alpha:]]$", "b", False),
        ("^\\u00e9\\x41\\cJ$", "éA\n", True),
        ("^\\u{1F600}$", "😀", True),
        ("^(?<y>\\d)-\\k<y>$", "1-1", True),
        ("[^]", "\n", True),
        ("[]", "a", False),
        ("^[a&&b]$", "&", True),
        ("\\/\\-\\@", "/-@", True),
        ("^\\bé", "é", False),
    ],
)
def test_patterns_mean_what_they_mean_in_ecma_262(pattern: str, text: str, found: bool) -> None:
    """Not what another regular expression language would make of them."""
    assert (compiled_pattern(pattern).search(text) is not None) is found, translate(pattern)


@every("pattern", ["(", "[a", "a**", "\\", "(?<x", "[b-a]"])
def test_a_broken_pattern_is_refused(pattern: str) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match=r"."):
        compiled_pattern(pattern)


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at making nor at validating, whatever a document names: no socket, no URL, no file."""
    document: dict[str, Any] = {
        "$id": "https://example.com/root.json",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"a": {"$id": "folder/a.json", "$anchor": "here"}, "b": {"$ref": "folder/a.json#here"}},
        "properties": {"meta": {"$ref": "http://json-schema.org/draft-07/schema#"}, "b": {"$ref": "#/$defs/b"}},
    }
    JsonSchema.of(document).validate({})  # loads the package

    def refuse(*arguments: object, **_: object) -> Any:
        raise AssertionError(f"fetched {arguments}")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(Path, "open", refuse)

    made = JsonSchema.of({**document, "title": "again"})
    assert made.validate({"meta": {"type": "object"}, "b": 1}) == ()
    for reference in ("http://example.com/x", "file:///etc/hostname", "/etc/hostname", "folder/other.json", "#gone"):
        hidden = JsonSchema.trust({"properties": {"a": {"$ref": reference}}})
        (fault,) = hidden.validate({"a": 1})
        assert "references that can be followed" in fault.expected


def test_importing_the_floor_loads_no_validator() -> None:
    """Heavy packages are loaded when first used."""
    heavy = ("jsonschema", "referencing", "regex", "attrs", "hypothesis")
    program = f"import sys, fxai.schema; print([name for name in {heavy!r} if name in sys.modules])"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"
