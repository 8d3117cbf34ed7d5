"""Media types by the first bytes of a file, and files of `data:` URLs."""

from __future__ import annotations

import pytest

from fxai.messages.media_type import first_bytes, is_generic, media_type_of, read_data_url
from tests.kit.every import every


@every(
    ("data", "label", "found"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/jpeg", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpg", "image/jpeg"),
        (b"hi", "image/jpg", "image/jpeg"),
        (b"GIF87a", "image/jpg", "image/gif"),
        (b"\xff\xd8\xff\xe0", "IMAGE/JPEG; q=1", "image/jpeg"),
        (b"GIF87a", "image/png", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/png", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "audio/x-wav", "audio/x-wav"),
        (b"RIFF\x00\x00\x00\x00WAVE", "audio/mpeg", "audio/wav"),
        (b"RIFF\x00\x00\x00\x00????", "audio/mpeg", "audio/mpeg"),
        (b"%PDF-1.7", "image/png", "application/pdf"),
        (b"ID3\x03", "audio/mp3", "audio/mp3"),
        (b"OggS", "video/ogg", "video/ogg"),
        (b"\x00\x00\x00\x18ftypavif", "image/png", "image/avif"),
        (b"\x00\x00\x00\x18ftypmp42", "image/png", "video/mp4"),
        (b"\x00\x00\x00\x18ftypM4A ", "audio/mp4", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypmif1", "image/heic", "image/heic"),
        (b"<?xml version='1.0'?>\n<svg/>", "image/png", "image/svg+xml"),
        (b"\xef\xbb\xbf <SVG/>", "image/png", "image/svg+xml"),
        (b"<svg/>", "text/plain", "text/plain"),
        (b"hi", "image/png", "image/png"),
        (b"", "image/png", "image/png"),
    ],
)
def test_the_first_bytes_decide(data: bytes, label: str, found: str) -> None:
    """Another name for the same type stays, and unknown bytes leave the label."""
    assert media_type_of(data, label) == found


@every(("label", "generic"), [("", True), ("image/*", True), ("Application/Octet-Stream", True), ("text/plain", False)])
def test_some_labels_state_nothing(label: str, generic: bool) -> None:
    """Their correction is no change of a statement."""
    assert is_generic(label) is generic


@every(("text", "data"), [("aGk=", b"hi"), ("aG\nk=", b"hi"), ("aGk", b""), ("*", b""), ("aGkx" * 999, b"hi1" * 256)])
def test_the_first_bytes_of_base64_are_read(text: str, data: bytes) -> None:
    """Only the start is decoded."""
    assert first_bytes(text)[:768] == data


@every(
    ("url", "read"),
    [
        ("data:image/png;base64,aGk=", ("image/png", b"hi")),
        ("DATA:image/png;x=1;BASE64,a%47k=", ("image/png", b"hi")),
        ("data:,a%20b", ("", b"a b")),
        ("https://example.org/a.png", None),
    ],
)
def test_a_data_url_is_read(url: str, read: object) -> None:
    """Another URL is none."""
    assert read_data_url(url) == read


@every("url", ["data:image/png;base64", "data:image/png;base64,a*"])
def test_a_bad_data_url_is_refused(url: str) -> None:
    """Without a comma, or with other data than base64."""
    with pytest.raises(ValueError, match="data: URL"):
        read_data_url(url)
