"""What a client of ours is answered: the result of a call, as the protocol has it.

An object is structured content and its JSON text; a text is a text; anything else is its JSON text; nothing is nothing.
A typed failure is a result too, marked `isError`.

>>> result_of({"y": "1"}, {"y": "1"})
{'content': [{'type': 'text', 'text': '{"y":"1"}'}], 'structuredContent': {'y': '1'}, 'isError': False}
>>> failed("no such city", structured=True)
{'content': [{'type': 'text', 'text': 'no such city'}], 'isError': True}
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import quote

import msgspec

from fxai.messages.message import FilePart, TextPart
from fxai.schema.data import is_array, is_object

__all__ = ["content_of", "failed", "result_of", "text_of"]


def text_of(value: Any) -> str:
    """Plain JSON data as a text: a text itself, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def result_of(encoded: Any, shown: Any) -> dict[str, Any]:
    """The result of a call that succeeded.

    Args:
        encoded: the success as plain JSON data.
        shown: what the model is to be shown of it: the same, or what the tool's `to_model_output` makes of it.
    """
    structured = {"structuredContent": encoded} if is_object(encoded) else {}
    return {"content": content_of(shown), **structured, "isError": False}


def failed(encoded: Any, *, structured: bool) -> dict[str, Any]:
    """The result of a call that failed with a typed failure, as plain JSON data.

    Args:
        encoded: the failure.
        structured: whether it may stand in the structured content, where clients hold what stands there to the
            tool's output schema.
    """
    told = {"structuredContent": encoded} if structured and is_object(encoded) else {}
    return {"content": [_text(text_of(encoded))], **told, "isError": True}


def content_of(shown: Any) -> list[dict[str, Any]]:
    """The content blocks for plain JSON data: what has the form of a file part is a file."""
    if shown is None:
        return []
    return _parts(shown) or [_text(text_of(shown))]


def _parts(shown: Any) -> list[dict[str, Any]] | None:
    """The blocks of texts and files, with a file among them; None of anything else."""
    listed = [shown] if is_object(shown) else shown
    if not is_array(listed) or not any(is_object(one) and one.get("type") == "file" for one in listed):
        return None
    try:
        parts = msgspec.convert(listed, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None
    return [_text(part.text) if isinstance(part, TextPart) else _file(part) for part in parts]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(part: FilePart) -> dict[str, Any]:
    name = part.file_name or "file"
    if not isinstance(part.data, bytes):
        return {"type": "resource_link", "uri": part.data.url, "name": name, "mimeType": part.media_type}
    data = b64encode(part.data).decode()
    kind = part.media_type.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": part.media_type}
    held = {"uri": name if "://" in name else f"file:///{quote(name)}", "mimeType": part.media_type}
    try:
        text = part.data.decode() if kind == "text" else None
    except UnicodeDecodeError:
        text = None
    return {"type": "resource", "resource": {**held, **({"blob": data} if text is None else {"text": text})}}
