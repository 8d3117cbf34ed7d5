"""What a tool's result holds for the model: texts and files, where it is a list of them; and notes of files left out.

>>> contents_of(ToolResultPart("c", "look", [{"type": "text", "text": "a harbour"}]), "text")
[TextPart(text='a harbour', metadata={})]
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fxai.messages.message import FilePart, TextPart, ToolResultPart
from fxai.schema.data import is_array, is_object

__all__ = ["contents_of", "file_note"]


def file_note(part: FilePart) -> str:
    """What a model reads in place of a file that its API does not take: name, media type and size as far as known.

    A file as JSON would be its base64: of no use to a model, and as long as the file.

    >>> print(file_note(FilePart("audio/wav", b"RIFF", "horn.wav")))
    (the file 'horn.wav', audio/wav, 4 bytes, is left out: this model is not shown such files)
    """
    name = f" {part.file_name!r}" if part.file_name else ""
    size = f" {len(part.data)} bytes," if isinstance(part.data, bytes) else ""
    return f"(the file{name}, {part.media_type},{size} is left out: this model is not shown such files)"


def contents_of(part: ToolResultPart, *kinds: Literal["text", "file"]) -> list[TextPart | FilePart] | None:
    """The texts and files that the result is, in the JSON form of a message's content; None if it is anything else.

    Args:
        part: the result.
        kinds: only a list that holds one of these counts.
    """
    result = part.result
    if part.is_failure or not is_array(result) or not any(_kind(one) in kinds for one in result):
        return None
    try:
        return msgspec.convert(result, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None


def _kind(value: Any) -> Any:
    return value.get("type") if is_object(value) else None
