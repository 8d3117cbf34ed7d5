"""Files in requests to Anthropic. Use this module to encode images and documents by bytes, URL, or id of an upload.

A URL that starts with `file_` is an id of an upload.

>>> from fxai.messages.message import FilePart
>>> file_block(FilePart.of_url("image/png", "https://example.org/cat.png"))
{'type': 'image', 'source': {'type': 'url', 'url': 'https://example.org/cat.png'}}
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Final

from fxai.messages.message import FilePart, FileUrl
from fxai.messages.reason import InvalidUserInputError
from fxai.models.prepared_tools import PreparationError
from fxai.providers.anthropic.options import own_metadata
from fxai.schema.data import is_object

_UPLOADED: Final = re.compile(r"file[-_][A-Za-z0-9_-]+")
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_TEXTS: Final = re.compile(r"text/|application/(json|xml|yaml|x-yaml|javascript|toml|sql)$|.*\+(json|xml|yaml)$")
_OF_IMAGES: Final = ("transformations",)
_OF_DOCUMENTS: Final = ("title", "context", "citations")


def refusal(description: str) -> PreparationError:
    """Return the error of a part that fxai cannot send."""
    return PreparationError(InvalidUserInputError(description=description))


def file_id_of(part: FilePart) -> str | None:
    """Return the id of an uploaded file, or None for any other file."""
    data = part.data
    return data.url if isinstance(data, FileUrl) and _UPLOADED.fullmatch(data.url) else None


def file_block(part: FilePart) -> dict[str, Any]:
    """Return the content block of a user's file: an image, a PDF, text, or an uploaded file.

    `metadata["anthropic"]` sets other fields of the API: `title`, `context`, and `citations` of documents, and
    `transformations` of images. `"type": "container_upload"` adds an uploaded file to the container of code execution.
    The default title of a document is the name of the file.

    Raises `PreparationError` if the API does not support the file, or if the file does not match its media type.
    """
    own = own_metadata(part.metadata)
    file_id = file_id_of(part)
    if file_id is not None and own.get("type") == "container_upload":
        return {"type": "container_upload", "file_id": file_id}
    is_image = part.media_type.startswith("image/") and not part.media_type.startswith("image/svg")
    kind = "image" if is_image else "document"  # the API accepts SVG only as text
    source = _source(part, kind) if file_id is None else {"type": "file", "file_id": file_id}
    extras = {name: own[name] for name in (_OF_IMAGES if is_image else _OF_DOCUMENTS) if own.get(name) is not None}
    if part.file_name and not is_image:
        extras.setdefault("title", part.file_name)
    if "citations" in extras and not is_object(extras["citations"]):
        extras["citations"] = {"enabled": bool(extras["citations"])}
    return {"type": kind, "source": source, **extras}


def _source(part: FilePart, kind: str) -> dict[str, Any]:
    data, media_type = part.data, part.media_type
    if isinstance(data, FileUrl):
        if data.url.startswith("data:"):
            raise refusal("cannot read a data: URL. Pass the bytes of the file.")
        if kind == "image" or media_type == _PDF:
            return {"type": "url", "url": data.url}
        raise refusal(f"Anthropic cannot fetch a file of type {media_type!r} from a URL. Pass its bytes.")
    if media_type in _IMAGES or media_type == _PDF:
        return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
    if _TEXTS.match(media_type):
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError as error:
            raise refusal(f"a file of type {media_type!r} is not UTF-8 text: {error}") from None
    known = ", ".join((*_IMAGES, _PDF, "text/*"))
    raise refusal(f"Anthropic does not accept files of type {media_type!r}. Use one of: {known}.")
