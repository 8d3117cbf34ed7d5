"""Files of an account over HTTP: the service `FileStore` on an API that sends, describes, lists and deletes files.

A provider says in a `FileApi` what its own API calls things; `HttpFileStore` does the rest.

>>> ended = missing_answer("the answer is no file: it has no id", "/id")
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
from fxai.providers.http.client import Answer, Client
from fxai.providers.http.http_error import BrokenAnswerError
from fxai.schema.data import JSON_ERRORS, is_array, is_object

_A = TypeVar("_A")


@final
class FileApi(msgspec.Struct, frozen=True, kw_only=True):
    """What the file API of a provider calls things.

    Attributes:
        module: What errors name as their origin, such as "openai".
        path: Where the files are, behind the path of the client's address: "/v1/files".
        form: The fields that go with a file, by the seconds after which the provider forgets it; None: it says.
        query: What the page behind `following` is asked for with; None: the first page.
        file: The file that an object describes; it raises `BrokenAnswerError` where that is none.
        following: What the page behind this one is called, by the object of this one; None: it is the last.
    """

    module: str
    path: str
    form: Callable[[float | None], Mapping[str, str]]
    query: Callable[[str | None], Mapping[str, str]]
    file: Callable[[Mapping[str, Any]], UploadedFile]
    following: Callable[[Mapping[str, Any]], str | None]

    def page(self, data: Mapping[str, Any]) -> Page:
        """The page that an object describes.

        Raises:
            BrokenAnswerError: It has no list of files, or one of them is no file.
        """
        items = data.get("data")
        if not is_array(items):
            raise missing_answer("the answer is no page of files: it has no list of them", "/data")
        return Page(tuple(self.file(item) for item in items if is_object(item)), self.following(data))


def missing_answer(description: str, pointer: str = "") -> BrokenAnswerError:
    """The error of an answer that says nothing of a file, with the place."""
    return BrokenAnswerError(InvalidOutputError(description, pointer))


@final
class HttpFileStore(FileStore):
    """The files of an account at a provider, which a client reaches.

    Args:
        client: What sends the requests.
        api: What the provider calls things.
        index: Which files were sent, for `FileStore.upload(…, once=True)`; None: those that this store sent.
    """

    def __init__(self, client: Client, api: FileApi, index: FileIndex | None = None) -> None:
        super().__init__(index)
        self._client = client
        self._api = api

    @override
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Sends a file; it has the name and the media type that were given, whatever the provider says of them.

        Fails with:
            AiError: The provider refuses it or cannot be reached, or its answer describes no file.
        """
        name = file.file_name or "file"
        content = name, bytes(file.data) if isinstance(file.data, bytes) else b"", file.media_type

        def read(data: Mapping[str, Any]) -> UploadedFile:
            return msgspec.structs.replace(self._api.file(data), name=name, media_type=file.media_type)

        answer = self._client.upload(self._api.path, self._api.form(expires_in), content, method="upload")
        return answer.flat_map(lambda got: self._read(got, "upload", read))

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """What the provider says of a file; None too where it has expired. Fails with `AiError`."""

        def read(answer: Answer) -> Effect[UploadedFile | None, AiError]:
            return fx.succeed(None) if answer.is_missing else self._read(answer, "find", self._api.file)

        if _is_no_id(file_id):
            return fx.succeed(None)
        return self._client.get(self._path(file_id), method="find", may_be_missing=True).flat_map(read)

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """A page of files, in the provider's order. Fails with `AiError`."""
        answer = self._client.get(f"{self._api.path}?{urlencode(self._api.query(following))}", method="files")
        return answer.flat_map(lambda got: self._read(got, "files", self._api.page))

    @override
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """The bytes of a file; providers give those of files that a model or a tool made, and few of what was sent.

        Fails with:
            AiError: There is no such file, or the provider does not give its bytes.
        """
        missing = fx.fail(missing_file(self._api.module, file_id))
        if _is_no_id(file_id):
            return missing
        path = f"{self._path(file_id)}/content"
        answer = self._client.get(path, accept="*/*", method="content", may_be_missing=True)
        return answer.flat_map(lambda got: missing if got.is_missing else fx.succeed(got.body))

    @override
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Deletes a file; whether it was there. Fails with `AiError`."""
        if _is_no_id(file_id):
            return fx.succeed(False)
        answer = self._client.delete(self._path(file_id), method="delete", may_be_missing=True)
        return answer.map(lambda got: not got.is_missing)

    def _path(self, file_id: str) -> str:
        return f"{self._api.path}/{quote(file_id, safe='')}"

    def _read(self, answer: Answer, method: str, read: Callable[[Mapping[str, Any]], _A]) -> Effect[_A, AiError]:
        """What an answer says; it fails where that is nothing of a file."""
        try:
            data: Any = msgspec.json.decode(answer.body)
            if not is_object(data):
                raise missing_answer(f"the answer is JSON, but no object: {type(data).__name__}")
            return fx.succeed(read(data))
        except JSON_ERRORS as error:
            return fx.fail(AiError(self._api.module, method, InvalidOutputError(f"the answer is not JSON: {error}")))
        except BrokenAnswerError as error:
            return fx.fail(AiError(self._api.module, method, error.reason))


def _is_no_id(file_id: str) -> bool:
    """Whether a text names no file but, in an address, a folder: of all the files, or above them."""
    return file_id in ("", ".", "..")
