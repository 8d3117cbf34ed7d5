r"""Media types by the first bytes of a file. Use this module before a file goes to a provider that checks its label.

Tools, browsers, and MCP servers label files wrongly, and a provider refuses the whole request for one wrong label.

>>> media_type_of(b"\xff\xd8\xff\xe0", "image/png"), media_type_of(b"a,b", "text/csv")
('image/jpeg', 'text/csv')
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Final
from urllib.parse import unquote_to_bytes

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
_FIRST: Final = 512  # bytes that decide
_GENERIC: Final = ("", "application/octet-stream", "binary/octet-stream", "image/*", "*/*")


def media_type_of(data: bytes, label: str) -> str:
    """Return the media type of a file by its first bytes. If they have no known form, return the label.

    A label that is another name for the same type stays, in small letters and without parameters.

    Args:
        data: The file, or its first bytes.
        label: The media type that the sender stated.
    """
    plain = label.partition(";")[0].strip().lower()
    found = _found(data[:_FIRST], plain)
    if found is None:
        return label
    is_same = _ALIASES.get(plain, plain) == found or plain.startswith(_FAMILIES.get(found, ("/",)))
    return plain if is_same else found


def is_generic(label: str) -> bool:
    """Return whether a media type states nothing about a file, such as `application/octet-stream`."""
    return label.partition(";")[0].strip().lower() in _GENERIC


def _found(start: bytes, label: str) -> str | None:
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
    """Return the first bytes of a file that is base64 text. Return no bytes if the text is not base64."""
    start = "".join(text[: 2 * _FIRST].split())
    try:
        return b64decode(start[: len(start) // 4 * 4])
    except (NotBase64, ValueError):
        return b""


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """Return the media type, which can be empty, and the bytes of a `data:` URL. None if the URL is no `data:` URL.

    Raises:
        ValueError: If the data is not base64 although the URL states base64.

    >>> read_data_url("data:,Hi"), read_data_url("https://example.org/cat.png")
    (('', b'Hi'), None)
    """
    head, comma, data = url.partition(",")
    if head[:5].lower() != "data:":
        return None
    if not comma:
        raise ValueError("a data: URL has no comma before its data")
    label, *parameters = head[5:].split(";")
    raw = unquote_to_bytes(data)
    if [one.strip().lower() for one in parameters[-1:]] == ["base64"]:
        try:
            raw = b64decode(b"".join(raw.split()), validate=True)
        except NotBase64 as error:
            raise ValueError(f"a data: URL is not base64 as it says: {error}") from None
    return label, raw
