"""OpenAI's files. Use `files_layer` to upload and list the files of an account with the service `FileStore`.

>>> read_file({"id": "file-1", "filename": "report.pdf", "bytes": 9, "created_at": 0, "purpose": "user_data"})
UploadedFile(id='file-1', name='report.pdf', media_type='application/pdf', size=9, ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from typing_extensions import Unpack

from fxai.effects.layer import Layer
from fxai.messages.errors import AiError
from fxai.models.file_store import FileIndex, FileStore, UploadedFile, media_type_of
from fxai.providers.http.file_api import FileApi, HttpFileStore, missing_answer
from fxai.providers.openai.model import MODULE, AccountOptions, open_account
from fxai.providers.openai.reply import objects_in, timestamp_of

Purpose: TypeAlias = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
"""The purpose of a file. `user_data` permits any use, including prompts."""

_PAGE: Final = "1000"  # files
_KNOWN: Final = frozenset(("id", "bytes", "created_at", "expires_at", "filename", "object"))


def read_file(data: Mapping[str, Any]) -> UploadedFile:
    """Read OpenAI's description of a file.

    Raises:
        BrokenAnswerError: If the id is missing.
    """
    file_id, name, size = data.get("id"), data.get("filename"), data.get("bytes")
    if not isinstance(file_id, str):
        raise missing_answer("the answer does not describe a file: id is missing", "/id")
    title = name if isinstance(name, str) else file_id
    return UploadedFile(
        file_id,
        title,
        media_type_of(title),
        size if isinstance(size, int) else None,
        timestamp_of(data.get("created_at")),
        timestamp_of(data.get("expires_at")),
        {key: value for key, value in data.items() if key not in _KNOWN and value is not None},
    )


def _query(following: str | None) -> dict[str, str]:
    first = {"limit": _PAGE, "order": "desc"}
    return first if following is None else {**first, "after": following}


def _following(data: Mapping[str, Any]) -> str | None:
    files = objects_in(data, "data")
    return str(files[-1].get("id")) if data.get("has_more") is True and files else None


def _api(purpose: Purpose) -> FileApi:
    def form(expires_in: float | None) -> dict[str, str]:
        ends = {} if expires_in is None else {"anchor": "created_at", "seconds": str(round(expires_in))}
        return {"purpose": purpose, **{f"expires_after[{name}]": value for name, value in ends.items()}}

    return FileApi(module=MODULE, path="/files", form=form, query=_query, file=read_file, following=_following)


def files_layer(
    *, purpose: Purpose = "user_data", index: FileIndex | None = None, **connection: Unpack[AccountOptions]
) -> Layer[FileStore, AiError]:
    """Return the layer of an account's files at OpenAI or at a server with the same API.

    The layer requires the extra `openai`. Lists start with the newest file. OpenAI returns the bytes of files that a
    model created, but not the bytes of `user_data`.

    Args:
        purpose: The purpose of uploaded files. `user_data` permits prompts.
        index: The files that were sent, for `FileStore.upload(…, once=True)`. By default the files of this layer.
        connection: The key, the address, the timeouts, and other settings. See `AccountOptions`.

    Fails with:
        AiError: The failures of `layer`.
    """
    api = _api(purpose)
    return Layer.scoped(FileStore, open_account(**connection).map(lambda client: HttpFileStore(client, api, index)))
