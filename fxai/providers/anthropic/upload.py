"""Anthropic's files: what a workspace has sent there, as the service `FileStore`.

>>> said = {"id": "file_1", "filename": "report.pdf", "mime_type": "application/pdf", "size_bytes": 9}
>>> read_file(said).part.data
FileUrl(url='file_1')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar, final
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
from fxai.providers.anthropic.model import open_account
from fxai.providers.anthropic.options import NAME
from fxai.providers.anthropic.reply import Malformed
from fxai.providers.http.client import Answer, Client, ConnectionOptions
from fxai.schema.data import is_array, is_object

_PATH: Final = "/v1/files"
_PAGE: Final = 1000  # files
_KNOWN: Final = frozenset(("id", "created_at", "expires_at", "filename", "mime_type", "size_bytes", "type"))
_A = TypeVar("_A")


@final
class AnthropicFileStore(FileStore):
    """The files of a workspace at Anthropic; `files_layer` makes one."""

    def __init__(self, client: Client, index: FileIndex | None) -> None:
        super().__init__(index)
        self._client = client

    @override
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Sends a file.

        Fails with:
            AiError: Anthropic refuses it or cannot be reached, or its answer is none.
        """
        fields = {} if expires_in is None else {"expires_in_seconds": str(round(expires_in))}
        content = file.file_name or "file", bytes(file.data) if isinstance(file.data, bytes) else b"", file.media_type

        def read(data: Mapping[str, Any]) -> UploadedFile:
            return msgspec.structs.replace(read_file(data), name=content[0], media_type=file.media_type)

        return self._client.upload(_PATH, fields, content, method="upload").flat_map(_reading("upload", read))

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """What Anthropic says of a file; None too where it has expired. Fails with `AiError`."""
        answer = self._client.get(_path(file_id), method="find", may_be_missing=True)
        return answer.flat_map(lambda got: fx.succeed(None) if got.is_missing else _reading("find", read_file)(got))

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """A page of files. Fails with `AiError`."""
        query = {"limit": str(_PAGE), **({} if following is None else {"page": following})}
        answer = self._client.get(f"{_PATH}?{urlencode(query)}", method="files")
        return answer.flat_map(_reading("files", _read_page))

    @override
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """The bytes of a file; Anthropic gives those of files that a tool made, and not of those that were sent.

        Fails with:
            AiError: There is no such file, or Anthropic does not give its bytes.
        """
        answer = self._client.get(f"{_path(file_id)}/content", accept="*/*", method="content", may_be_missing=True)
        return answer.flat_map(
            lambda got: fx.fail(missing_file(NAME, file_id)) if got.is_missing else fx.succeed(got.body)
        )

    @override
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Deletes a file. Fails with `AiError`."""
        answer = self._client.delete(_path(file_id), method="delete", may_be_missing=True)
        return answer.map(lambda got: not got.is_missing)


def _path(file_id: str) -> str:
    return f"{_PATH}/{quote(file_id, safe='')}"


def _reading(method: str, read: Callable[[Mapping[str, Any]], _A]) -> Callable[[Answer], Effect[_A, AiError]]:
    """What an answer says; it fails where that is no such answer."""

    def attempt(answer: Answer) -> Effect[_A, AiError]:
        try:
            data: Any = msgspec.json.decode(answer.body)
            return fx.succeed(read(data if is_object(data) else {}))
        except (msgspec.DecodeError, Malformed) as error:
            return fx.fail(AiError(NAME, method, InvalidOutputError(f"the answer says nothing of a file: {error}")))

    return attempt


def read_file(data: Mapping[str, Any]) -> UploadedFile:
    """A file as Anthropic describes it.

    Raises:
        Malformed: it has no id.
    """
    file_id, name, size, kind = (data.get(key) for key in ("id", "filename", "size_bytes", "mime_type"))
    if not isinstance(file_id, str):
        raise Malformed("/id", "expected a text")
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


def _read_page(data: Mapping[str, Any]) -> Page:
    items, following = data.get("data"), data.get("next_page")
    if not is_array(items):
        raise Malformed("/data", "expected an array")
    return Page(
        tuple(read_file(one) for one in items if is_object(one)), following if isinstance(following, str) else None
    )


def files_layer(
    *, index: FileIndex | None = None, **connection: Unpack[ConnectionOptions]
) -> Layer[FileStore, AiError]:
    """The layer of the files of a workspace at Anthropic. Needs the extra `anthropic`.

    Args:
        index: Which files were sent, for `FileStore.upload(…, once=True)`; None: those that this layer sent.
        connection: The key, the address, the timeouts and the like; see `ConnectionOptions`.

    Fails with:
        AiError: As `layer`.
    """
    return Layer.scoped(FileStore, open_account(**connection).map(lambda client: AnthropicFileStore(client, index)))
