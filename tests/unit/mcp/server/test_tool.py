"""What clients are told of a tool, and the forms that results take."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Never

import msgspec
import pytest

from fxai.annotations import Meta, OpenWorld
from fxai.mcp.server.exchange import content_of
from fxai.mcp.server.snapshot import ServedTool, served_tools
from fxai.schema import JsonSchema, Schema
from fxai.tools import NameConflictError, Tool
from tests.kit.every import every


class Leaf(msgspec.Struct, frozen=True, tag=True):
    """The end of a branch."""


class Node(msgspec.Struct, frozen=True, tag=True):
    """A branch with branches."""

    below: "list[Node | Leaf]"  # noqa: UP037  # msgspec resolves it when it is used


def test_a_document_is_sent_as_it_was_given() -> None:
    """A raw document keeps every keyword, dialect and definitions included."""
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"to": {"$ref": "#/definitions/city"}},
        "definitions": {"city": {"type": "string"}},
        "additionalProperties": False,
    }

    assert ServedTool.of(Tool.dynamic("go", parameters=document), "go").input_schema == document


@every(
    ("document", "is_wrapped"),
    [
        ({"properties": {"a": {}}}, False),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"type": ["object", "null"]}, False),
        ({"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, True),
        ({"enum": [1, 2]}, True),
        ({"enum": [1, {"a": 1}]}, False),
        ({"const": {"a": 1}}, False),
        ({"const": "x"}, True),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [True, {"type": "string"}]}, False),
        ({"anyOf": [False, {"type": "string"}]}, True),
        ({"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "string"}}}, True),
        ({"oneOf": [{"type": "string"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string"}}}, True),
        ({"$ref": "#/$defs/a/anyOf/1", "$defs": {"a": {"anyOf": [{"type": "object"}, {"type": "string"}]}}}, True),
        ({"$ref": "#/$defs/a/anyOf/0", "$defs": {"a": {"anyOf": [{"type": "object"}, {"type": "string"}]}}}, False),
        ({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "string"}}}, True),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}}, False),
    ],
)
def test_arguments_are_an_object_whatever_the_parameters_are(document: Any, is_wrapped: bool) -> None:
    """A schema that allows objects says so at its root; one that allows none becomes the member `value` of one."""
    tool = ServedTool.of(Tool.dynamic("go", parameters=document), "go")
    value = ["x"] if document.get("type") == "array" else "x"
    assert tool.params({"value": value}) == (value if is_wrapped else {"value": value})
    assert tool.params({"value": value, "more": 1}) == {"value": value, "more": 1}

    assert tool.is_wrapped is is_wrapped
    assert tool.input_schema["type"] == "object"
    assert (list(tool.input_schema.get("properties", ())) == ["value"]) is is_wrapped
    if is_wrapped and "enum" not in document:
        schema = JsonSchema.of(tool.input_schema)
        assert schema.validate({"value": value}) == ()
        assert schema.validate({"value": value, "more": 1}) != ()


def test_a_union_of_objects_is_an_output_schema() -> None:
    """Where every branch of the success is an object, results have a schema, which says "object" at its root."""
    output = ServedTool.of(Tool.make("grow", success=Schema.of(Node | Leaf)), "grow").document["outputSchema"]

    assert output["type"] == "object"
    assert JsonSchema.of(output).validate({"type": "Node", "below": [{"type": "Leaf"}]}) == ()
    assert JsonSchema.of(output).validate({"type": "Node"}) != ()


def test_what_is_known_of_a_tool_is_a_copy() -> None:
    """The document is data of its own: whoever changes it changes no tool, and what is not known is not there."""
    made = Tool.make("go", description="Goes.").annotate(Meta, {"team": ["maps"]}).annotate(OpenWorld, False)
    document = ServedTool.of(made, "went").document

    assert document["_meta"] == {"team": ["maps"]}
    document["_meta"]["team"].append("roads")
    assert ServedTool.of(made, "went").document == {
        "name": "went",
        "description": "Goes.",
        "inputSchema": made.json_schema(),
        "annotations": {"openWorldHint": False},
        "_meta": {"team": ["maps"]},
    }


@every("success", [int, str, list[int], Leaf | None, Leaf | int, object, Never])
def test_what_may_be_no_object_has_no_output_schema(success: Any) -> None:
    """A success that need not be an object is not promised to be one."""
    assert not ServedTool.of(Tool.make("go", success=success), "go").gives_objects


def test_names_that_mcp_does_not_allow_are_changed() -> None:
    """Dots, slashes and dashes stay; any other sign is changed, and the tool is found by the new name."""
    open_snapshot = served_tools([Tool.make("Shop.look-at/it"), Tool.make("look at it!"), Tool.make("x" * 200)])

    assert list(open_snapshot)[:2] == ["Shop.look-at/it", "look__at__it__"]
    assert max(map(len, open_snapshot)) == 128
    assert [tool.tool.name[:4] for tool in open_snapshot.values()] == ["Shop", "look", "xxxx"]


def test_two_tools_of_one_name_are_refused() -> None:
    """Where the change makes two names one, the error names both."""
    with pytest.raises(NameConflictError, match=r"'a b'.*'a\?b'"):
        served_tools([Tool.make("a b"), Tool.make("a?b")])


def _file(media_type: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"type": "file", "media_type": media_type, "data": data, **more}


@every(
    ("shown", "content"),
    [
        (None, []),
        ("plain", [{"type": "text", "text": "plain"}]),
        ([1, "two"], [{"type": "text", "text": '[1,"two"]'}]),
        ([], [{"type": "text", "text": "[]"}]),
        ({"type": "text", "text": "a"}, [{"type": "text", "text": '{"type":"text","text":"a"}'}]),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": '[{"type":"text","text":"a"}]'}]),
        (_file("image/png", "AA=="), [{"type": "image", "data": "AA==", "mimeType": "image/png"}]),
        (_file("audio/wav", "AA=="), [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]),
        (
            [{"type": "text", "text": "See:"}, _file("application/pdf", "AA==", file_name="a b.pdf")],
            [
                {"type": "text", "text": "See:"},
                {
                    "type": "resource",
                    "resource": {"uri": "file:///a%20b.pdf", "mimeType": "application/pdf", "blob": "AA=="},
                },
            ],
        ),
        (
            _file("text/csv", b64encode(b"a,b").decode(), file_name="data://x"),
            [{"type": "resource", "resource": {"uri": "data://x", "mimeType": "text/csv", "text": "a,b"}}],
        ),
        (
            _file("image/png", {"url": "https://example.org/x.png"}),
            [
                {
                    "type": "resource_link",
                    "uri": "https://example.org/x.png",
                    "name": "file",
                    "mimeType": "image/png",
                }
            ],
        ),
        (_file("image/png", 7), [{"type": "text", "text": '{"type":"file","media_type":"image/png","data":7}'}]),
    ],
)
def test_what_the_model_is_shown_becomes_content(shown: Any, content: Any) -> None:
    """Texts and files in the form of a message's content are blocks of their kinds; everything else is text."""
    assert content_of(shown) == content
