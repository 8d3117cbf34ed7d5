"""Content: what a call gave, as plain JSON data, and what of it a model is shown.

>>> shown_content({"content": [{"type": "text", "text": "sunny"}]})
'sunny'
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from fxai.schema.data import is_listed

__all__ = ["content_text", "result_value", "shown_content", "without_data"]

_LEFT_OUT: Final = re.compile(r"\(\d+ characters of base64, left out\)")


def result_value(content: Sequence[Mapping[str, Any]], structured: Any, *, is_structured: bool) -> Any:
    """What a call gave: its structured content where it has any, else `{"content": […]}`.

    Where blocks other than text stand beside structured content, both are given, so that nothing is lost:
    `{"structuredContent": …, "content": […]}`. Texts beside it only say the same again.
    """
    if not is_structured:
        return {"content": [dict(block) for block in content]}
    others = [dict(block) for block in content if block.get("type") != "text"]
    return {"structuredContent": structured, "content": others} if others else structured


def content_text(content: Sequence[Mapping[str, Any]]) -> str:
    """The texts among content blocks, a line each."""
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def without_data(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block without the bytes that it holds, of which it says how many characters of base64 they were.

    Of a block that says so already it is the same.
    """
    resource = block.get("resource")
    if isinstance(resource, Mapping):
        return {**block, "resource": without_data(cast("Mapping[str, Any]", resource))}
    held = {name: block[name] for name in ("data", "blob") if isinstance(block.get(name), str)}
    left_out = {
        name: f"({len(data)} characters of base64, left out)"
        for name, data in held.items()
        if not _LEFT_OUT.fullmatch(data)
    }
    return {**block, **left_out}


def shown_content(value: Any) -> Any:
    """What a model is shown of what a call gave.

    One text alone is that text. Several blocks are a list in their order: texts and files as our messages write them
    (`{"type": "text", …}`, `{"type": "file", "media_type", "data"}`, the data in base64), everything else as text that
    holds its JSON. Structured content is shown as it is.
    """
    blocks = _blocks(value)
    if blocks is None:
        return value
    parts = [_part(block) for block in blocks]
    if "structuredContent" in value:
        parts = [{"type": "text", "text": _json(value["structuredContent"])}, *parts]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _blocks(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """The content blocks of a value that `result_value` made of some; None of structured content."""
    if not isinstance(value, Mapping):
        return None
    given = cast("Mapping[str, Any]", value)
    if set(given) not in ({"content"}, {"content", "structuredContent"}) or not is_listed(given["content"]):
        return None
    blocks = given["content"]
    return blocks if all(isinstance(one, Mapping) and "type" in one for one in blocks) else None


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind in ("image", "audio"):
        return _file(block.get("mimeType"), block.get("data"), None)
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        held = cast("Mapping[str, Any]", resource)
        if isinstance(held.get("text"), str):
            return {"type": "text", "text": held["text"]}
        if isinstance(held.get("blob"), str):
            return _file(held.get("mimeType"), held["blob"], held.get("uri"))
    return {"type": "text", "text": _json(dict(block))}


def _file(media_type: Any, data: Any, name: Any) -> dict[str, Any]:
    kind = media_type if isinstance(media_type, str) and media_type else "application/octet-stream"
    sound = _base64(data)
    if sound is None:
        return {"type": "text", "text": f"(a file of type {kind} is left out: its data is no base64)"}
    part = {"type": "file", "media_type": kind, "data": sound}
    return {**part, "file_name": name} if isinstance(name, str) else part


def _base64(data: Any) -> str | None:
    """The data as strict base64; in lines or without its padding it is understood too. None where it is none."""
    if not isinstance(data, str):
        return None
    joined = "".join(data.split()).rstrip("=")
    padded = joined + "=" * (-len(joined) % 4)
    try:
        b64decode(padded, validate=True)
    except ValueError:
        return None
    return padded


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
