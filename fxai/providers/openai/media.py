"""Files in requests to OpenAI. Use this module to encode images, documents, and audio from a user or a tool.

fxai sends a file as bytes, as a URL, or by the id of an upload. A URL that starts with `file-` is the id of an upload.

>>> from fxai.messages.message import FilePart
>>> input_file(FilePart.of_url("image/png", "https://example.org/cat.png"))
{'type': 'input_image', 'detail': 'auto', 'image_url': 'https://example.org/cat.png'}
>>> chat_file(FilePart("audio/wav", b"RIFF"))
{'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}}
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, final

import msgspec

from fxai.messages.message import FilePart, FileUrl
from fxai.messages.reason import InvalidUserInputError
from fxai.models.prepared_tools import PreparationError
from fxai.providers.http.endpoint import TEXT_TYPES, file_id_of
from fxai.providers.openai.options import marks

_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


# Chat Completions accepts only PDF files, so fxai sends the contents of these documents as text


@final
class ChatFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a server of Chat Completions accepts in addition to OpenAI's files, and their form."""

    video: bool = False
    """True if the server accepts videos."""
    file_urls: Literal["file_data", "document_url"] | None = None
    """The form of a document at a URL. None if the server does not fetch documents."""
    only_pdf: bool = False
    """True if the server accepts no documents other than PDF."""


def is_taken(part: FilePart, write: Callable[[FilePart], Any]) -> bool:
    """Return True if `write`, one of the functions below, can encode a file in a tool result.

    OpenAI decides about a user's file of unknown type. An invalid file in a tool result must not end the run.
    """
    if part.media_type == "application/octet-stream":
        return False
    try:
        write(part)
    except PreparationError:
        return False
    return True


def input_file(part: FilePart) -> dict[str, Any]:
    """Encode a file for Responses: an `input_image` or an `input_file`.

    Its metadata under `"openai"` can contain `detail` and `prompt_cache_breakpoint`.

    Raises `PreparationError` for audio and video, which Responses does not accept.
    """
    extras = marks(part, "detail", "prompt_cache_breakpoint")
    if part.media_type.startswith("image/") and is_text(part):
        return {"type": "input_text", **marks(part, "prompt_cache_breakpoint"), "text": _text(part)}
    if part.media_type.startswith("image/"):
        _check_image(part)
        location = {"file_id": file_id_of(part)} if file_id_of(part) else {"image_url": _url(part)}
        return {"type": "input_image", "detail": "auto", **extras, **location}
    if part.media_type.startswith(("audio/", "video/")):
        raise _refusal(part, "Responses accepts images and documents. Chat Completions accepts audio.")
    if file_id_of(part):
        return {"type": "input_file", **extras, "file_id": file_id_of(part)}
    if isinstance(part.data, FileUrl) and not part.data.url.startswith("data:"):
        return {"type": "input_file", **extras, "file_url": part.data.url}
    return {"type": "input_file", **extras, "filename": _file_name(part), "file_data": _url(part)}


def chat_file(part: FilePart, takes: ChatFiles | None = None) -> dict[str, Any]:
    """Encode a file for Chat Completions: an `image_url`, an `input_audio`, a `file`, or a form of another server.

    Args:
        part: The file.
        takes: The files that the server accepts in addition to OpenAI's files. By default none.

    Raises:
        PreparationError: If audio is not WAV or MP3, or if the server does not accept videos or URLs of documents.

    >>> from fxai.messages.message import FilePart
    >>> film = FilePart.of_url("video/mp4", "https://example.org/cat.mp4")
    >>> chat_file(film, ChatFiles(video=True))
    {'type': 'video_url', 'video_url': {'url': 'https://example.org/cat.mp4'}}
    """
    known = takes or ChatFiles()
    extras = marks(part, "prompt_cache_breakpoint")
    if is_text(part):
        return {"type": "text", **extras, "text": _text(part)}
    if part.media_type.startswith("image/") and not file_id_of(part):
        _check_image(part)
        return {"type": "image_url", **extras, "image_url": {"url": _url(part), **marks(part, "detail")}}
    if part.media_type.startswith("video/"):
        if not known.video:
            raise _refusal(part, "Chat Completions accepts images, audio, and documents")
        return {"type": "video_url", **extras, "video_url": {"url": _url(part)}}
    if part.media_type.startswith("audio/"):
        form = _SOUNDS.get(part.media_type)
        if form is None or isinstance(part.data, FileUrl):
            raise _refusal(part, "Chat Completions accepts audio only as bytes of WAV or MP3")
        return {"type": "input_audio", **extras, "input_audio": {"data": b64encode(part.data).decode(), "format": form}}
    if file_id_of(part):
        return {"type": "file", **extras, "file": {"file_id": file_id_of(part)}}
    if isinstance(part.data, FileUrl) and not part.data.url.startswith("data:"):
        return _document_at(part, part.data.url, known, extras)
    if known.only_pdf and part.media_type != "application/pdf":
        raise _refusal(part, "Chat Completions accepts PDF and text. Pass the text of the file, or use Responses.")
    return {"type": "file", **extras, "file": {"filename": _file_name(part), "file_data": _url(part)}}


def _check_image(part: FilePart) -> None:
    """Reject an image that OpenAI cannot read. Only OpenAI can check an image at a URL."""
    if isinstance(part.data, bytes) and part.media_type not in _IMAGES:
        raise _refusal(part, "OpenAI accepts PNG, JPEG, GIF, and WebP images")


def is_text(part: FilePart) -> bool:
    """Return True if the bytes of a file are text, such as CSV, Markdown, JSON, or SVG."""
    return isinstance(part.data, bytes) and TEXT_TYPES.match(part.media_type) is not None


def _text(part: FilePart) -> str:
    """Return the text of a file after its name."""
    try:
        text = part.data.decode() if isinstance(part.data, bytes) else ""
    except UnicodeDecodeError:
        raise _refusal(part, "its bytes are not UTF-8 text. Use Responses or another media type.") from None
    return f"{_file_name(part)}:\n{text}"


def _document_at(part: FilePart, url: str, takes: ChatFiles, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a document that the server fetches."""
    match takes.file_urls:
        case "file_data":
            return {"type": "file", **extras, "file": {"filename": _file_name(part), "file_data": url}}
        case "document_url":
            name = {} if part.file_name is None else {"document_name": part.file_name}
            return {"type": "document_url", **extras, "document_url": url, **name}
        case None:
            raise _refusal(part, "Chat Completions fetches only images. Pass the bytes, or use Responses.")


def _url(part: FilePart) -> str:
    if isinstance(part.data, FileUrl):
        return part.data.url
    return f"data:{part.media_type};base64,{b64encode(part.data).decode()}"


def _file_name(part: FilePart) -> str:
    return part.file_name or f"file.{part.media_type.rpartition('/')[2].partition('+')[0] or 'bin'}"


def _refusal(part: FilePart, why: str) -> PreparationError:
    name = f" {part.file_name!r}" if part.file_name else ""
    return PreparationError(InvalidUserInputError(f"cannot send the file{name} ({part.media_type}): {why}"))
