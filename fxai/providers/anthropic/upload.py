"""Anthropic's files. Use `files_layer` to upload and list the files of a workspace with the service `FileStore`.

>>> data = {"id": "file_1", "filename": "report.pdf", "mime_type": "application/pdf", "size_bytes": 9}
>>> read_file(data).part.data
FileUrl(url='file_1')
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from typing_extensions import Unpack

from fxai.effects.layer import Layer
from fxai.messages.errors import AiError
from fxai.models.file_store import FileIndex, FileStore, UploadedFile, media_type_of
from fxai.providers.anthropic.model import open_account
from fxai.providers.anthropic.options import NAME
from fxai.providers.http.client import ConnectionOptions
from fxai.providers.http.file_api import FileApi, HttpFileStore, missing_answer

_PAGE: Final = "1000"  # files
_KNOWN: Final = frozenset(("id", "created_at", "expires_at", "filename", "mime_type", "size_bytes", "type"))


def read_file(data: Mapping[str, Any]) -> UploadedFile:
    """Read Anthropic's description of a file.

    Raises:
        BrokenAnswerError: If the id is missing.
    """
    file_id, name, size, kind = (data.get(key) for key in ("id", "filename", "size_bytes", "mime_type"))
    if not isinstance(file_id, str):
        raise missing_answer("the answer does not describe a file: id is missing", "/id")
    title = name if isinstance(name, str) else file_id
    return UploadedFile(
        file_id,
        title,
        kind if isinstance(kind, str) else media_type_of(title),
        size if isinstance(size, int) else None,
        _time(data.get("created_at")),
        _time(data.get("expires_at")),
        {key: value for key, value in data.items() if key not in _KNOWN and value is not None},
    )


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _form(expires_in: float | None) -> dict[str, str]:
    return {} if expires_in is None else {"expires_in_seconds": str(round(expires_in))}


def _query(following: str | None) -> dict[str, str]:
    return {"limit": _PAGE} if following is None else {"limit": _PAGE, "page": following}


def _following(data: Mapping[str, Any]) -> str | None:
    name = data.get("next_page")
    return name if isinstance(name, str) else None


_API: Final = FileApi(module=NAME, path="/v1/files", form=_form, query=_query, file=read_file, following=_following)


def files_layer(
    *, index: FileIndex | None = None, **connection: Unpack[ConnectionOptions]
) -> Layer[FileStore, AiError]:
    """Return the layer of a workspace's files at Anthropic. It requires the extra `anthropic`.

    Anthropic returns the bytes of files that a tool created, but not of uploaded files.

    Args:
        index: The files that were sent, for `FileStore.upload(…, once=True)`. By default the files of this layer.
        connection: The key, the address, the timeouts, and other settings. See `ConnectionOptions`.

    Fails with:
        AiError: The failures of `layer`.
    """
    return Layer.scoped(FileStore, open_account(**connection).map(lambda client: HttpFileStore(client, _API, index)))
