"""What a call gave: the value, and what of it a model is shown."""

from __future__ import annotations

from typing import Any

from fxai.mcp import McpToolError
from fxai.mcp.result import content_text, failure_schema, result_value, shown_content
from tests.kit.every import every

TEXT = {"type": "text", "text": "a"}
_RAW = '{"type":"resource","resource":%s}'
_BYTES = {"type": "file", "media_type": "application/octet-stream", "data": "AA=="}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


@every(
    ("content", "structured", "is_structured", "value"),
    [
        ([TEXT], None, False, {"content": [TEXT]}),
        ([], None, False, {"content": []}),
        ([TEXT], {"n": 1}, True, {"n": 1}),
        ([], [1, 2], True, [1, 2]),
        ([TEXT, IMAGE], {"n": 1}, True, {"structuredContent": {"n": 1}, "content": [IMAGE]}),
    ],
)
def test_the_value_is_the_structured_content_else_the_blocks(
    content: Any, structured: Any, is_structured: bool, value: Any
) -> None:
    """Structured content is the value; blocks that are no text beside it are kept; without it the blocks are."""
    assert result_value(content, structured, is_structured=is_structured) == value


@every(
    ("value", "shown"),
    [
        ({"content": [TEXT]}, "a"),
        ({"content": []}, []),
        ({"content": [TEXT, TEXT]}, [TEXT, TEXT]),
        ({"content": [{"type": "resource", "resource": {"uri": "u", "text": "t"}}]}, "t"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "u", "mimeType": "a/b", "blob": "AA"}}]},
            [{"type": "file", "media_type": "a/b", "data": "AA==", "file_name": "u"}],
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "u", "blob": 7}}]}, _RAW % '{"uri":"u","blob":7}'),
        ({"content": [{"type": "resource", "resource": "u"}]}, _RAW % '"u"'),
        ({"content": [IMAGE]}, [{"type": "file", "media_type": "image/png", "data": "AA=="}]),
        (
            {"content": [{**IMAGE, "data": "AAEC\nAw"}]},
            [{"type": "file", "media_type": "image/png", "data": "AAECAw=="}],
        ),
        ({"content": [{**IMAGE, "data": "%"}]}, "(a file of type image/png is omitted: its data is not base64)"),
        ({"content": [{"type": "new", "x": 1}]}, '{"type":"new","x":1}'),
        ({"n": 1}, {"n": 1}),
        ({"content": "mine"}, {"content": "mine"}),
        ({"content": [{**IMAGE, "mimeType": ""}]}, [_BYTES]),
        ({"content": [{**IMAGE, "mimeType": 5}]}, [_BYTES]),
        ({"content": [1, 2]}, {"content": [1, 2]}),
        ({"content": [{"n": 1}]}, {"content": [{"n": 1}]}),
        ({"content": [TEXT], "more": 1}, {"content": [TEXT], "more": 1}),
        (
            {"structuredContent": {"n": 1}, "content": [IMAGE]},
            [{"type": "text", "text": '{"n":1}'}, {"type": "file", "media_type": "image/png", "data": "AA=="}],
        ),
        ([1], [1]),
        (None, None),
    ],
)
def test_a_model_is_shown_the_blocks_and_structured_content_as_it_is(value: Any, shown: Any) -> None:
    """One text is that text, blocks are a list of parts, and what only looks like blocks is left alone."""
    assert shown_content(value) == shown


def test_a_failure_shows_no_files() -> None:
    """Blocks of a failed result are told to the model without their bytes; the failure itself keeps them."""
    held = {"type": "resource", "resource": {"uri": "u://1", "blob": "AAAA"}}
    failure = McpToolError("t", "no", (TEXT, IMAGE, held))

    shown = failure_schema.encode_unsafe(failure)["content"]

    assert failure.content[1] == IMAGE
    assert shown == [
        TEXT,
        {**IMAGE, "data": "(4 characters of base64, left out)"},
        {"type": "resource", "resource": {"uri": "u://1", "blob": "(4 characters of base64, left out)"}},
    ]


def test_the_texts_are_joined_by_lines() -> None:
    """The texts among blocks, a line each; other blocks say nothing."""
    assert content_text([TEXT, IMAGE, {"type": "text", "text": "b"}]) == "a\nb"
