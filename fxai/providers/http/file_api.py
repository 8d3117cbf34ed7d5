"""The service `FileStore` over HTTP. Use it for a provider whose API uploads, describes, lists, and deletes files.

A provider describes its API with a `FileApi`. `HttpFileStore` sends the requests.

>>> ended = missing_answer("the answer does not describe a file: id is missing", "/id")
>>> ended.reason.pointer
'/id'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError
from fxai.messages.message import FilePart
from fxai.messages.reason import InvalidOutputError
from fxai.models.file_store import FileIndex, FileStore, Page, UploadedFile, missing_file
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.http_error import BrokenAnswerError
from fxai.schema.data import JSON_ERRORS, is_array, is_object

_A = TypeVar("_A")


@final
class FileApi(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a provider's API for files.

    Attributes:
        module: The name of the origin in errors, such as "openai".
        path: The path of the files after the path of the client's address, such as "/v1/files".
        form: The form fields for an upload. The argument is the number of seconds until the provider deletes the file,
            or None if the provider decides.
        query: The query for a page. The argument is the result of `following`, or None for the first page.
        file: The file that an object describes. It raises `BrokenAnswerError` if the object does not describe a file.
        following: The name of the next page, from the object of the current page. None after the last page.
    """

    module: str
    path: str
    form: Callable[[float | None], Mapping[str, str]]
    query: Callable[[str | None], Mapping[str, str]]
    file: Callable[[Mapping[str, Any]], UploadedFile]
    following: Callable[[Mapping[str, Any]], str | None]

    def page(self, data: Mapping[str, Any]) -> Page:
        """Return the page that an object describes.

        Raises:
            BrokenAnswerError: If the object has no list of files, or if an item of the list is not a file.
        """
        items = data.get("data")
        if not is_array(items):
            raise missing_answer("the answer is not a page of files: the list of files is missing", "/data")
        return Page(tuple(self.file(item) for item in items if is_object(item)), self.following(data))


def missing_answer(description: str, pointer: str = "") -> BrokenAnswerError:
    """Return the error of an answer that does not describe a file, with its location."""
    return BrokenAnswerError(InvalidOutputError(description, pointer))


@final
class HttpFileStore(FileStore):
    """The files of an account on the server of a provider.

    Args:
        client: The client that sends the requests.
        api: The description of the provider's API.
        index: The files that were sent, for `FileStore.upload(…, once=True)`. By default this store's uploads.
    """

    def __init__(self, client: Client, api: FileApi, index: FileIndex | None = None) -> None:
        super().__init__(index)
        self._client = client
        self._api = api

    @override
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Upload a file. Its result has the file's name and media type, even if the provider returns other values.

        Fails with:
            AiError: If the provider rejects the file, if the client cannot reach it, or if the answer is invalid.
        """
        name = file.file_name or "file"
        content = name, bytes(file.data) if isinstance(file.data, bytes) else b"", file.media_type

        def read(data: Mapping[str, Any]) -> UploadedFile:
            return msgspec.structs.replace(self._api.file(data), name=name, media_type=file.media_type)

        answer = self._client.upload(self._api.path, self._api.form(expires_in), content, method="upload")
        return answer.flat_map(lambda got: self._read(got, "upload", read))

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """Return the description of a file, or None if the file expired or is unknown. Fails with `AiError`."""

        def read(answer: HttpResponse) -> Effect[UploadedFile | None, AiError]:
            return fx.succeed(None) if answer.is_missing else self._read(answer, "find", self._api.file)

        if _is_no_id(file_id):
            return fx.succeed(None)
        return self._client.get(self._path(file_id), method="find", may_be_missing=True).flat_map(read)

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """Return a page of files in the provider's order. Fails with `AiError`."""
        answer = self._client.get(f"{self._api.path}?{urlencode(self._api.query(following))}", method="files")
        return answer.flat_map(lambda got: self._read(got, "files", self._api.page))

    @override
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """Return the bytes of a file. Providers return the bytes of generated files, but rarely of uploaded files.

        Fails with:
            AiError: If the file is unknown or if the provider does not return its bytes.
        """
        missing = fx.fail(missing_file(self._api.module, file_id))
        if _is_no_id(file_id):
            return missing
        path = f"{self._path(file_id)}/content"
        answer = self._client.get(path, accept="*/*", method="content", may_be_missing=True)
        return answer.flat_map(lambda got: missing if got.is_missing else fx.succeed(got.body))

    @override
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Delete a file. Return True if the file existed. Fails with `AiError`."""
        if _is_no_id(file_id):
            return fx.succeed(False)
        answer = self._client.delete(self._path(file_id), method="delete", may_be_missing=True)
        return answer.map(lambda got: not got.is_missing)

    def _path(self, file_id: str) -> str:
        return f"{self._api.path}/{quote(file_id, safe='')}"

    def _read(self, answer: HttpResponse, method: str, read: Callable[[Mapping[str, Any]], _A]) -> Effect[_A, AiError]:
        """Read an answer. Fail if it does not describe a file."""
        try:
            data: Any = msgspec.json.decode(answer.body)
            if not is_object(data):
                raise missing_answer(f"the answer must be a JSON object, got {type(data).__name__}")
            return fx.succeed(read(data))
        except JSON_ERRORS as error:
            return fx.fail(AiError(self._api.module, method, InvalidOutputError(f"the answer is not JSON: {error}")))
        except BrokenAnswerError as error:
            return fx.fail(AiError(self._api.module, method, error.reason))


def _is_no_id(file_id: str) -> bool:
    """Return True if the string, as a part of an address, names a folder instead of a file."""
    return file_id in ("", ".", "..")
