"""File notes: what a model reads in place of a file of a tool's result that its wire has no place for.

A file as JSON would be its base64: of no use to a model, and as long as the file.

>>> print(file_note(FilePart("audio/wav", b"RIFF", "horn.wav")))
(the file 'horn.wav', audio/wav, 4 bytes, is left out: this model is not shown such files)
"""

from __future__ import annotations

from fxai.messages.content import FilePart

__all__ = ["file_note"]


def file_note(part: FilePart) -> str:
    """The note that a file was left out: its name, media type and size as far as they are known."""
    name = f" {part.file_name!r}" if part.file_name else ""
    size = f" {len(part.data)} bytes," if isinstance(part.data, bytes) else ""
    return f"(the file{name}, {part.media_type},{size} is left out: this model is not shown such files)"
