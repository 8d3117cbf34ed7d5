"""The one walker over JSON Schema: schemas inside schemas, what references lead to, and places read as conjunctions."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.schema.budget import MAX_LOCATIONS, MAX_SCHEMAS, ExhaustedError
from fxai.schema.dialect import LATEST
from fxai.schema.location import (
    MISSING,
    DocumentReader,
    LocationError,
    References,
    Site,
    lookup,
    names_inside,
    target,
    value_at,
    walk,
)
from tests.kit.every import every

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_a_walk_goes_through_every_schema_the_root_first() -> None:
    """Values that only look like schemas, in `default` or `enum`, are none."""
    document: dict[str, Any] = {
        "properties": {"a/b": {"items": {"type": "string"}}, "c": True},
        "allOf": [{"default": {"type": "object"}}],
        "$defs": {"d": {"not": {"enum": [{}]}}},
    }

    assert [inner.pointer for inner in walk(document)] == [
        "",
        "/properties/a~1b",
        "/properties/a~1b/items",
        "/allOf/0",
        "/$defs/d",
        "/$defs/d/not",
    ]
    assert [inner.name for inner in walk(document)][1] == "a/b"
    assert [len(inner.around) for inner in walk(document)] == [0, 0, 0, 1, 0, 1]


def test_a_walk_is_by_the_dialect_of_each_schema() -> None:
    """A keyword that the draft of a schema does not know holds no schemas; an unknown draft is that around it."""
    old: dict[str, Any] = {"$schema": DRAFT_7, "prefixItems": [{}], "items": [{}]}

    assert [inner.pointer for inner in walk({"$defs": {"a": old}})] == ["", "/$defs/a", "/$defs/a/items/0"]
    assert [inner.dialect for inner in walk({"$schema": "urn:unknown", "items": {}})] == [LATEST, LATEST]


def test_a_walk_of_what_is_not_usable_comes_to_an_end() -> None:
    """However deep or wide a document is, so many schemas come and no more."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}

    assert len(list(walk(deep))) < 1_000
    assert len(list(walk({"anyOf": [{} for _ in range(2 * MAX_SCHEMAS)]}))) == MAX_SCHEMAS
    assert list(walk(True)) == []
    while deep:  # or its end would use up the stack
        deep = deep["items"]


@every(
    ("reference", "found"),
    [
        ("#", {"$defs": {"a b": [1, {"c/d": 2}]}}),
        ("#/$defs/a%20b/1/c~1d", 2),
        ("#/$defs/a b/0", 1),
        ("#/$defs/a b/01", MISSING),
        ("#/$defs/a b/2", MISSING),
        ("#/$defs/a b/-1", MISSING),
        ("#/nowhere/at/all", MISSING),
    ],
)
def test_a_pointer_leads_to_one_value_or_to_none(reference: str, found: object) -> None:
    """Percent and tilde escapes are undone; an index is written in one way only."""
    assert lookup(reference, {"$defs": {"a b": [1, {"c/d": 2}]}}) == found


def test_a_target_is_found_through_references_to_references() -> None:
    """A circle ends; what is no reference into the document is itself."""
    document = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}, "c": {"$ref": "#/$defs/c"}}}

    assert target({"$ref": "#/$defs/a"}, document) == {"type": "null"}
    assert target({"$ref": "#/$defs/c"}, document) == {"$ref": "#/$defs/c"}
    assert target({"$ref": "#/$defs/d"}, document) is MISSING
    for other in ({"$ref": "http://example.org"}, {"type": "null"}, True):
        assert target(other, document) is other


def test_references_know_each_schema_by_its_address_and_its_anchors() -> None:
    """An address inside another one is relative to it; pointers start at the schema that has the address."""
    inner: dict[str, Any] = {"$id": "inner", "$defs": {"x": {"$anchor": "x", "type": "string"}}}
    document = {"$id": "http://example.org/root", "$anchor": "top", "$defs": {"inner": inner}}
    found = References(Site("", document))
    found.enter(document)

    assert found.find("http://example.org/root#top") is document
    assert found.find("#") is document
    assert found.find("http://example.org/inner") is inner
    assert found.find("http://example.org/inner#x") == found.find("http://example.org/inner#/$defs/x")
    assert found.find("http://example.org/root#x") is MISSING
    assert found.find("http://example.org/elsewhere") is MISSING
    assert found.find(DRAFT_7) is None
    assert found.resource_of(inner["$defs"]["x"]) == "http://example.org/inner"
    assert found.resource_of(document) == "http://example.org/root"


def test_an_address_beside_an_old_reference_counts_for_nothing() -> None:
    """Up to draft 7 a `$ref` hides what stands beside it."""
    document = {"$schema": DRAFT_7, "definitions": {"a": {"$ref": "#", "$id": "hidden"}, "b": {"$id": "#b"}}}
    found = References(Site("", document))
    found.enter(document)

    assert found.find("hidden") is MISSING
    assert found.find("#b") == {"$id": "#b"}
    assert {one.resource for one in found.known.values()} == {""}


def test_names_are_looked_for_everywhere_inside() -> None:
    """The root's own are not inside of it."""
    assert not names_inside({"$id": "urn:a", "$defs": {"b": {}}})
    assert names_inside({"$defs": {"b": [{"$anchor": "c"}]}})


def test_a_place_is_read_as_one_flat_conjunction() -> None:
    """Each schema once, however often it is referred to; a circle of conjunctions ends."""
    reader = DocumentReader(
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#"}]}}}
    )

    assert [site.pointer for site in reader.together((reader.root,))] == [
        "",
        "/allOf/0",
        "/$defs/a",
        "/$defs/a/allOf/0",
        "/allOf/1",
    ]


@every(
    ("schema", "keyword"),
    [
        ({"$ref": "http://example.org/other"}, "$ref"),
        ({"$ref": "#nowhere"}, "$ref"),
        ({"$dynamicRef": "#a"}, "$dynamicRef"),
        ({"$recursiveRef": "#"}, "$recursiveRef"),
        ({"allOf": [{"$id": "other", "$ref": "#/$defs/a"}], "$defs": {"a": {}}}, "$ref"),
    ],
)
def test_what_cannot_be_followed_is_told_with_its_place(schema: dict[str, Any], keyword: str) -> None:
    """A reader follows references inside the document alone; a reference starts at the `$id` around it."""
    reader = DocumentReader(schema)

    with pytest.raises(LocationError) as raised:
        reader.together((reader.root,))

    assert raised.value.keyword == keyword
    assert raised.value.pointer == ("/allOf/0" if "allOf" in schema else "")


def test_reading_is_counted() -> None:
    """A document whose places multiply uses up its budget instead of the reader's time."""
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}", "title": str(k)} for k in (0, 1)]} for n in range(40)}
    reader = DocumentReader({"$ref": "#/$defs/l0", "$defs": {**levels, "l40": {}}})

    assert len(reader.together((reader.root,))) < MAX_LOCATIONS
    reader.steps.left = 9
    with pytest.raises(ExhaustedError):
        reader.together((reader.root,))


def test_a_site_tells_what_it_hides() -> None:
    """A hidden keyword is neither in a site nor read from it; the schemas below hide nothing."""
    site = Site("", {"anyOf": [{"anyOf": []}], "type": "object"}).without("anyOf")

    assert "anyOf" not in site
    assert site.get("anyOf", 0) == 0
    assert site.get("type") == "object"
    assert site.under("anyOf", 0).pointer == "/anyOf/0"
    assert "anyOf" in site.under("anyOf", 0)
    assert value_at(site.schema, ["anyOf", "0", "anyOf"]) == []
