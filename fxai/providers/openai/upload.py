"""OpenAI's files: what an account has sent there, as the service `FileStore`.

>>> read_file({"id": "file-1", "filename": "report.pdf", "bytes": 9, "created_at": 0, "purpose": "user_data"})
UploadedFile(id='file-1', name='report.pdf', media_type='application/pdf', size=9, ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.effects.layer import Layer
from fxai.messages.errors import AiError
from fxai.messages.message import FilePart
from fxai.messages.reason import InvalidOutputError
from fxai.models.file_store import FileIndex, FileStore, Page, UploadedFile, media_type_of, missing_file
from fxai.providers.http.client import Answer, Client
from fxai.providers.openai.model import MODULE, AccountOptions, open_account
from fxai.providers.openai.reply import ReplyError, objects_in, parse_object, timestamp_of

Purpose: TypeAlias = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
"""What a file is for; `user_data` is for any use, in prompts among them."""

_PAGE: Final = 1000  # files
_KNOWN: Final = frozenset(("id", "bytes", "created_at", "expires_at", "filename", "object"))
_A = TypeVar("_A")


@final
class OpenAIFileStore(FileStore):
    """The files of an account at OpenAI, or at a server that has the same API; `files_layer` makes one."""

    def __init__(self, client: Client, purpose: Purpose, index: FileIndex | None) -> None:
        super().__init__(index)
        self._client = client
        self._purpose = purpose

    @override
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Sends a file.

        Fails with:
            AiError: OpenAI refuses it or cannot be reached, or its answer is none.
        """
        ends = {} if expires_in is None else {"anchor": "created_at", "seconds": str(round(expires_in))}
        fields = {"purpose": self._purpose, **{f"expires_after[{name}]": value for name, value in ends.items()}}
        content = file.file_name or "file", bytes(file.data) if isinstance(file.data, bytes) else b"", file.media_type

        def read(data: Mapping[str, Any]) -> UploadedFile:
            return msgspec.structs.replace(read_file(data), name=content[0], media_type=file.media_type)

        return self._client.upload("/files", fields, content, method="upload").flat_map(_reading("upload", read))

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """What OpenAI says of a file. Fails with `AiError`."""
        answer = self._client.get(_path(file_id), method="find", may_be_missing=True)
        return answer.flat_map(lambda got: fx.succeed(None) if got.is_missing else _reading("find", read_file)(got))

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """A page of files, the newest first. Fails with `AiError`."""
        query = {"limit": str(_PAGE), "order": "desc", **({} if following is None else {"after": following})}
        answer = self._client.get(f"/files?{urlencode(query)}", method="files")
        return answer.flat_map(_reading("files", _read_page))

    @override
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """The bytes of a file; OpenAI gives those of files that a model made, and not those of `user_data`.

        Fails with:
            AiError: There is no such file, or OpenAI does not give its bytes.
        """
        answer = self._client.get(f"{_path(file_id)}/content", accept="*/*", method="content", may_be_missing=True)
        return answer.flat_map(
            lambda got: fx.fail(missing_file(MODULE, file_id)) if got.is_missing else fx.succeed(got.body)
        )

    @override
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Deletes a file. Fails with `AiError`."""
        answer = self._client.delete(_path(file_id), method="delete", may_be_missing=True)
        return answer.map(lambda got: not got.is_missing)


def _path(file_id: str) -> str:
    return f"/files/{quote(file_id, safe='')}"


def _reading(method: str, read: Callable[[Mapping[str, Any]], _A]) -> Callable[[Answer], Effect[_A, AiError]]:
    """What an answer says; it fails where that is no such answer."""

    def attempt(answer: Answer) -> Effect[_A, AiError]:
        try:
            return fx.succeed(read(parse_object(answer.body)))
        except ReplyError as error:
            return fx.fail(AiError(MODULE, method, error.reason))

    return attempt


def read_file(data: Mapping[str, Any]) -> UploadedFile:
    """A file as OpenAI describes it.

    Raises:
        ReplyError: it has no id.
    """
    file_id, name, size = data.get("id"), data.get("filename"), data.get("bytes")
    if not isinstance(file_id, str):
        raise ReplyError(InvalidOutputError("the answer is no file: it has no id", "/id"))
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


def _read_page(data: Mapping[str, Any]) -> Page:
    files = tuple(read_file(one) for one in objects_in(data, "data"))
    more = data.get("has_more") is True and files
    return Page(files, files[-1].id if more else None)


def files_layer(
    *, purpose: Purpose = "user_data", index: FileIndex | None = None, **connection: Unpack[AccountOptions]
) -> Layer[FileStore, AiError]:
    """The layer of the files of an account at OpenAI. Needs the extra `openai`.

    Args:
        purpose: What files are sent for; `user_data` is for prompts.
        index: Which files were sent, for `FileStore.upload(…, once=True)`; None: those that this layer sent.
        connection: The key, the address, the timeouts and the like; see `AccountOptions`.

    Fails with:
        AiError: As `layer`.
    """
    opening = open_account(**connection).map(lambda client: OpenAIFileStore(client, purpose, index))
    return Layer.scoped(FileStore, opening)
