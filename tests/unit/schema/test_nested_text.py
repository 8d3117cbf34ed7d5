"""JSON text in the place of objects and arrays: what is read, what is not, and how much work it may be."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fxai.schema import JsonSchema, Limits, parse_json
from fxai.schema.nested_text import read_texts
from tests.kit.every import every

POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
TEXT: dict[str, Any] = {"type": "string"}
SAID = '{"x": 1}'
LISTED: dict[str, Any] = {"type": "array", "items": POINT}


def prop(schema: Any, **more: Any) -> dict[str, Any]:
    """An object whose property `q` is an instance of a schema."""
    return {"type": "object", "properties": {"q": schema}, "required": ["q"], **more}


def read(document: Any, data: Any, limits: Limits | None = None) -> tuple[Any, tuple[str, ...]]:
    """Return the data with its texts read, and where."""
    made = JsonSchema.of(document)
    found, locations = read_texts(made, data) if limits is None else read_texts(made, data, limits)
    assert bool(locations) == (found is not data)
    return found, locations


@every(
    ("schema", "given", "meant", "locations"),
    [
        (POINT, SAID, {"x": 1}, ["/q"]),
        (POINT, f" \n{SAID}\t", {"x": 1}, ["/q"]),
        (LISTED, f"[{SAID}]", [{"x": 1}], ["/q"]),
        (LISTED, [SAID, {"x": 2}, SAID], [{"x": 1}, {"x": 2}, {"x": 1}], ["/q/0", "/q/2"]),
        (LISTED, json.dumps([SAID]), [{"x": 1}], ["/q", "/q/0"]),
        ({"type": ["object", "null"], "properties": POINT["properties"]}, SAID, {"x": 1}, ["/q"]),
        ({"$ref": "#/$defs/point"}, SAID, {"x": 1}, ["/q"]),
        ({"allOf": [{"$ref": "#/$defs/point"}, {"minProperties": 1}]}, SAID, {"x": 1}, ["/q"]),
        ({"type": "object", "additionalProperties": POINT}, {"a/b": SAID}, {"a/b": {"x": 1}}, ["/q/a~1b"]),
        ({"type": "object", "patternProperties": {"^a": POINT}}, {"ab": SAID}, {"ab": {"x": 1}}, ["/q/ab"]),
        ({"type": "array", "prefixItems": [POINT, TEXT]}, [SAID, SAID], [{"x": 1}, SAID], ["/q/0"]),
        ({"anyOf": [POINT, {"type": "null"}]}, SAID, {"x": 1}, ["/q"]),
        ({"anyOf": [POINT, LISTED]}, f"[{SAID}]", [{"x": 1}], ["/q"]),
        ({"oneOf": [POINT, {"type": "array"}, {"type": "integer"}]}, SAID, {"x": 1}, ["/q"]),
        ({"anyOf": [{"anyOf": [POINT, LISTED]}, {"type": "null"}]}, SAID, {"x": 1}, ["/q"]),
        ({"if": {"required": ["k"]}, "then": prop(POINT)}, {"k": 1, "q": SAID}, {"k": 1, "q": {"x": 1}}, ["/q/q"]),
        ({"dependentSchemas": {"k": prop(POINT)}}, {"k": 1, "q": SAID}, {"k": 1, "q": {"x": 1}}, ["/q/q"]),
        ({"not": TEXT, "properties": POINT["properties"]}, SAID, {"x": 1}, ["/q"]),
        ({"enum": [{"x": 1}]}, SAID, {"x": 1}, ["/q"]),
    ],
    ids=str,
)
def test_a_text_is_read_where_no_string_belongs(schema: Any, given: Any, meant: Any, locations: list[str]) -> None:
    """At every place of a schema, in arrays, maps and tuples, behind references, in unions where one branch fits."""
    found, marked = read(prop(schema, **{"$defs": {"point": POINT}}), {"q": given})

    assert (found, list(marked)) == ({"q": meant}, locations)


@every(
    ("schema", "given"),
    [
        (TEXT, SAID),
        ({"type": "string", "maxLength": 3}, SAID),
        ({"type": ["string", "object"], "maxLength": 3}, SAID),
        ({"anyOf": [{"type": "string", "maxLength": 3}, POINT]}, SAID),
        ({"enum": ["a", {"x": 1}]}, SAID),
        ({"$ref": "#/$defs/text"}, SAID),
        ({}, SAID),
        ({"properties": POINT["properties"]}, SAID),
        (POINT, '{"x": "1"}'),
        (POINT, '{"x": 1'),
        (POINT, '{"x": NaN}'),
        (POINT, '{"x": 1} and more'),
        (POINT, "[1]"),
        (POINT, "  "),
        (LISTED, f"[{SAID}, {{}}]"),
        ({"type": "integer"}, "5"),
        ({"type": "boolean"}, "true"),
        ({"type": "null"}, "null"),
        ({"type": "array", "items": {"type": "integer"}}, ["5"]),
        ({"anyOf": [POINT, {"type": "object"}]}, SAID),
        ({"anyOf": [{"anyOf": [POINT, {"type": "object", "required": ["x"]}]}, {"type": "null"}]}, SAID),
        ({"oneOf": [POINT, {"type": "object", "required": ["x"]}]}, SAID),
        (False, SAID),
    ],
    ids=str,
)
def test_a_text_is_left_where_it_may_belong_or_means_nothing(schema: Any, given: Any) -> None:
    """A string where strings are allowed, scalars, what does not fit or fits several branches stay as they are."""
    data = {"q": given}
    found, locations = read(prop(schema, **{"$defs": {"text": TEXT}}), data)

    assert (found is data, locations) == (True, ())


def test_the_branch_is_the_one_that_fits_once_read() -> None:
    """In a union of objects, a text is read by the branch that the rest of the object decides for."""
    arms = [
        prop(POINT, properties={"kind": {"const": kind}, "q": inner}) for kind, inner in (("a", POINT), ("b", TEXT))
    ]
    union = {"type": "object", "properties": {"u": {"anyOf": [{**arm, "required": ["kind", "q"]} for arm in arms]}}}

    assert read(union, {"u": {"kind": "a", "q": SAID}}) == ({"u": {"kind": "a", "q": {"x": 1}}}, ("/u/q",))
    assert read(union, {"u": {"kind": "b", "q": SAID}}) == ({"u": {"kind": "b", "q": SAID}}, ())
    assert read(union, {"u": {"kind": "c", "q": SAID}}) == ({"u": {"kind": "c", "q": SAID}}, ())
    assert read(union, {"u": json.dumps({"kind": "a", "q": SAID})})[1] == ("/u", "/u/q")


def test_two_branches_that_could_be_meant_are_none() -> None:
    """Where two branches would each take the object once its text is read, nobody can say which was meant."""
    arms = [
        {"type": "object", "properties": {"q": {"type": "array", "items": {"type": kind}}}}
        for kind in ("integer", "number")
    ]

    assert read({"anyOf": arms}, {"q": "[1]"}) == ({"q": "[1]"}, ())
    assert read({"anyOf": arms}, {"q": "[1.5]"}) == ({"q": [1.5]}, ("/q",))


def test_the_whole_may_be_a_text() -> None:
    """Parameters that are one string hold what it says, texts inside it too."""
    assert read(prop(POINT), json.dumps({"q": SAID})) == ({"q": {"x": 1}}, ("", "/q"))


@pytest.mark.parametrize("draft", [4, 6, 7])
def test_older_drafts_are_read_as_they_say(draft: int) -> None:
    """Where `$ref` hides what stands beside it, and items may be a list, it is so here too."""
    tuples = {"type": "array", "items": [POINT], "additionalItems": LISTED}
    document = {
        "$schema": f"http://json-schema.org/draft-0{draft}/schema#",
        "type": "object",
        "properties": {"q": {"$ref": "#/definitions/point", "type": "string"}, "t": tuples},
        "definitions": {"point": POINT},
        "dependencies": {"q": {"properties": {"r": POINT}}},
    }

    found, locations = read(document, {"q": SAID, "t": [SAID, [SAID]], "r": SAID})
    assert found == {"q": {"x": 1}, "t": [{"x": 1}, [{"x": 1}]], "r": {"x": 1}}
    assert sorted(locations) == ["/q", "/r", "/t/0", "/t/1/0"]


# ---- limits


def test_the_limits_of_text_hold_inside() -> None:
    """Size, depth (counted from the root), and doubled keys are held to as in the text around it."""
    deep = {"type": "array", "items": {"$ref": "#/properties/q"}}

    assert read(prop(deep), {"q": "[[[]]]"}, Limits(max_depth=4))[1] == ("/q",)
    assert read(prop(deep), {"q": "[[[]]]"}, Limits(max_depth=3))[1] == ()
    assert read(prop(POINT), {"q": SAID}, Limits(max_bytes=4))[1] == ()
    assert read(prop(POINT), {"q": '{"x": 1, "x": 2}'})[0] == {"q": {"x": 2}}
    assert read(prop(POINT), {"q": '{"x": 1, "x": 2}'}, Limits(unique_keys=True))[1] == ()


def test_texts_inside_of_texts_are_read_four_deep() -> None:
    """A fifth is left as it is, and so are those around it, which then do not fit."""
    nested: Any = {"type": "object", "properties": {"q": {"$ref": "#"}}, "additionalProperties": False}
    said: Any = {}
    for _ in range(4):
        said = {"q": json.dumps(said)}

    assert read(nested, said)[1] == ("/q", "/q/q", "/q/q/q", "/q/q/q/q")
    assert read(nested, {"q": json.dumps(said)})[1] == ()


def _recursive_union() -> tuple[Any, Any]:
    arm: dict[str, Any] = {"type": "object", "additionalProperties": False}
    arms = [{**arm, "properties": {"c": {"$ref": "#"}, "k": {"const": kind}}} for kind in "ab"]
    value: Any = {"k": "a", "c": '{"k": "b"}'}
    for _ in range(60):
        value = {"c": value}
    return {"anyOf": arms}, value


def _branches() -> tuple[Any, Any]:
    arms = [{"type": "object", "properties": {f"p{i}": POINT, "q": {"$ref": "#"}}} for i in range(12)]
    value: Any = SAID
    for _ in range(6):
        value = json.dumps({"q": value}) if len(json.dumps(value)) < 1000 else {"q": value}
    return {"anyOf": arms}, {"q": value, "r": [SAID] * 200}


HOSTILE: dict[str, tuple[Any, Any]] = {
    "open brackets": (prop({"type": "array"}), {"q": "[" * 1_000_000}),
    "deep": (prop({"type": "array"}), {"q": "[" * 100_000 + "]" * 100_000}),
    "texts in texts": (prop(POINT), {"q": "[" + '"[' * 100_000 + ']"' * 100_000 + "]"}),
    "escapes": (prop(POINT), {"q": '{"x": "' + "\\\\" * 500_000 + '"}'}),
    "many texts": (prop({"type": "array", "items": POINT}), {"q": ["{"] * 50_000}),
    "many that do not fit": (prop({"type": "array", "items": POINT}), {"q": ["[1]"] * 50_000}),
    "a large table": (prop({"type": "array", "items": LISTED}), {"q": json.dumps([[{"x": 1}] * 5] * 4_000)}),
    "wide data around": (prop({"type": "array", "items": POINT}), {"q": [{"x": 1}] * 20_000 + [SAID]}),
    "many that fit": (prop({"type": "array", "items": POINT}), {"q": [SAID] * 3_000}),
    "a recursive union": _recursive_union(),
    "many branches": _branches(),
}


@every("name", HOSTILE)
def test_no_text_holds_the_process_long(name: str) -> None:
    """What is made to be much work ends soon, read or left as it is: the ceiling tells linear from exponential."""
    document, data = HOSTILE[name]
    began = time.process_time()
    found, locations = read(document, data)

    assert time.process_time() - began < 20
    assert bool(locations) == (JsonSchema.of(document).validate(found) == ())


@pytest.mark.slow
@every("said", [SAID, "[1]", "{", json.dumps([SAID] * 3), json.dumps({"x": "a" * 2_000})])
def test_only_so_many_texts_are_looked_at(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tens of thousands a few thousand at most, however little each of them says: then nothing is read."""
    looked_at: list[int] = []

    def parse(text: str, limits: Limits) -> Any:
        looked_at.append(len(text))
        return parse_json(text, limits)

    monkeypatch.setattr("fxai.schema.nested_text.parse_json", parse)

    assert read(prop({"type": "array", "items": POINT}), {"q": [said] * 30_000})[1] == ()
    assert 100 <= len(looked_at) < 3_000
    assert sum(looked_at) < 6_000_000


def test_a_pattern_without_end_reads_nothing() -> None:
    """A pattern that takes too long decides for nothing."""
    document = prop({"type": "object", "patternProperties": {"(a+)+$": POINT}, "additionalProperties": False})
    data = {"q": {"a" * 40 + "!": SAID, "aa": SAID}}

    assert read(document, data)[0] in (data, {"q": {"a" * 40 + "!": SAID, "aa": {"x": 1}}})
