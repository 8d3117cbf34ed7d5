r"""Media types by the first bytes of a file. Use this module before you send a file to a provider that checks labels.

Tools, browsers, and MCP servers can label files incorrectly, and a provider refuses a request with an incorrect label.

>>> media_type_of(b"\xff\xd8\xff\xe0", "image/png"), media_type_of(b"a,b", "text/csv")
('image/jpeg', 'text/csv')
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from fxai.messages.message import FilePart, FileUrl
from fxai.schema.data import is_array, is_object

_STARTS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS: Final = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis"), "image/heic"),
    b"mif1": "image/heif",
}
_ALIASES: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "application/x-pdf": "application/pdf",
    "audio/mp3": "audio/mpeg",
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "application/ogg": "audio/ogg",
    "audio/x-flac": "audio/flac",
}
_FAMILIES: Final = {"audio/ogg": ("audio/", "video/"), "image/heif": ("image/hei",)}
_FIRST: Final = 512  # number of bytes to read
_GENERIC: Final = ("", "application/octet-stream", "binary/octet-stream", "image/*", "*/*")


def media_type_of(data: bytes, label: str) -> str:
    """Return the media type of a file by its first bytes. If the form is unknown, return the label.

    Another name of an image or a document, such as `image/jpg`, becomes the common name. Another name of audio stays.

    Args:
        data: The file, or its first bytes.
        label: The media type that the sender stated.
    """
    plain = label.partition(";")[0].strip().lower()
    found = _read_start(data[:_FIRST], plain)
    alias = _ALIASES.get(plain, "audio/")
    if not alias.startswith("audio/") and found in (None, alias):
        return alias
    if found is None:
        return label
    is_same = _ALIASES.get(plain, plain) == found or plain.startswith(_FAMILIES.get(found, ("/",)))
    return plain if is_same else found


def is_generic(label: str) -> bool:
    """Return whether a media type states nothing about a file, such as `application/octet-stream`."""
    return label.partition(";")[0].strip().lower() in _GENERIC


def _read_start(start: bytes, label: str) -> str | None:
    for magic, media_type in _STARTS:
        if start.startswith(magic):
            return media_type
    if start.startswith(b"RIFF"):
        return _RIFF.get(start[8:12])
    if start[4:8] == b"ftyp":
        is_media = label.startswith(("video/", "audio/"))
        return _BRANDS.get(start[8:12]) or (None if is_media else "video/mp4")
    if label.startswith("image/") or is_generic(label):
        head = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        if head.startswith(b"<svg") or (head.startswith((b"<?xml", b"<!doctype svg", b"<!--")) and b"<svg" in head):
            return "image/svg+xml"
    return None


def first_bytes(text: str) -> bytes:
    """Return the first bytes of a file in base64. If the text is not base64, return no bytes."""
    start = "".join(text[: 2 * _FIRST].split())
    try:
        return b64decode(start[: len(start) // 4 * 4])
    except (NotBase64, ValueError):
        return b""


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """Return the media type, which can be empty, and the bytes of a `data:` URL, or None for another URL.

    Raises:
        ValueError: If the data is not base64 although the URL states base64.

    >>> read_data_url("data:,Hi"), read_data_url("https://example.org/cat.png")
    (('', b'Hi'), None)
    """
    head, comma, data = url.partition(",")
    if head[:5].lower() != "data:":
        return None
    if not comma:
        raise ValueError("data: URL has no comma before its data")
    label, *parameters = head[5:].split(";")
    raw = unquote_to_bytes(data)
    if [one.strip().lower() for one in parameters[-1:]] == ["base64"]:
        try:
            raw = b64decode(b"".join(raw.split()), validate=True)
        except NotBase64 as error:
            raise ValueError(f"data: URL states base64, but its data is not base64: {error}") from None
    return label, raw


# -- files of messages and results

Note: TypeAlias = Callable[[str, str, str | None], None]
"""Receives an incorrect label, the media type that replaces it, and the name of the file."""


def label_file(part: FilePart, note: Note) -> FilePart:
    """Return a file with the media type of its first bytes. Convert a `data:` URL to bytes.

    Args:
        part: The file.
        note: Receives an incorrect label.

    Raises:
        ValueError: If the file is an invalid `data:` URL.
    """
    data, label = part.data, part.media_type
    if isinstance(data, FileUrl):
        read = read_data_url(data.url)
        if read is None:
            return part
        data, label = read[1], (read[0] or label) if is_generic(label) else label
    media_type = media_type_of(data, label)
    if media_type == part.media_type and data is part.data:
        return part
    _note_change(label, media_type, part.file_name, note)
    return msgspec.structs.replace(part, media_type=media_type, data=data)


def label_contents(result: Any, note: Note) -> Any:
    """Return the result of a tool with the media types of the first bytes for its files.

    Args:
        result: Any result. The function finds files in the form of messages and in the form of Anthropic's API.
        note: Receives an incorrect label.
    """
    if not is_array(result) or not any(one.get("type") in _FILES for one in result if is_object(one)):
        return result
    changed = [_label_content(one, note) if is_object(one) else one for one in result]
    return result if all(new is old for new, old in zip(changed, result, strict=True)) else changed


_FILES: Final = ("image", "file", "document")


def _label_content(one: Mapping[str, Any], note: Note) -> Mapping[str, Any]:
    source = one.get("source")
    if one.get("type") not in _FILES:
        return one
    if not is_object(source):
        return _label_data(one, note)
    inner = _label_data(source, note)
    if inner is source:
        return one
    kind = "image" if str(inner.get("media_type")).startswith("image/") else "document"
    return {**one, "type": kind, "source": inner}


def _label_data(one: Mapping[str, Any], note: Note) -> Mapping[str, Any]:
    label, data = one.get("media_type"), one.get("data")
    if not isinstance(label, str):
        return one
    if is_object(data) and isinstance(data.get("url"), str):
        try:
            read = read_data_url(data["url"])
        except ValueError:
            return one
        if read is None:
            return one
        label = (read[0] or label) if is_generic(label) else label
        data, start = b64encode(read[1]).decode(), read[1]
    elif isinstance(data, str):
        start = first_bytes(data)
    else:
        return one
    media_type = media_type_of(start, label)
    if media_type == one["media_type"] and data is one["data"]:
        return one
    name = one.get("file_name")
    _note_change(label, media_type, name if isinstance(name, str) else None, note)
    return {**one, "media_type": media_type, "data": data}


def _note_change(label: str, media_type: str, name: str | None, note: Note) -> None:
    if media_type not in (label.lower(), _ALIASES.get(label.lower())) and not is_generic(label):
        note(label, media_type, name)
