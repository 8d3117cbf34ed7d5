"""The endpoints beside the models of a provider: files and token counts.

A provider that uploads, describes, lists, and deletes files describes its API with a `FileApi`. `HttpFileStore` is the
service `FileStore` over this API. `TokenCounter` estimates counts for servers that may have no endpoint for counts.

>>> data = {"id": "file_1", "filename": "report.pdf", "mime_type": "application/pdf", "size_bytes": 9}
>>> read_file(data).part.data
FileUrl(url='file_1')
>>> read_file({"id": "file-1", "filename": "report.pdf", "bytes": 9, "created_at": 0, "purpose": "user_data"})
UploadedFile(id='file-1', name='report.pdf', media_type='application/pdf', size=9, ...)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError, reason_of_status
from fxai.messages.message import FilePart, FileUrl
from fxai.messages.part import WarningPart
from fxai.messages.reason import ModelUnavailableError
from fxai.models.file_store import FileIndex, FileStore, Page, UploadedFile, media_type_of, missing_file
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import TokenCount, estimate_request, read_count
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.reply import attempt_reply, form_error, parse_object
from fxai.providers.http.transport import Secret
from fxai.schema.data import is_array, is_object

_A = TypeVar("_A")
_PAGE: Final = "1000"  # files


@final
class FileApi(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a provider's API for files."""

    module: str
    """The name of the origin in errors, such as "openai"."""
    path: str
    """The path of the files after the path of the client's address, such as "/v1/files"."""
    form: Callable[[float | None], Mapping[str, str]]
    """The form fields for an upload. The argument is the number of seconds until the provider deletes the file, or None
    if the provider decides."""
    query: Mapping[str, str] = {}
    """The fields of the query for a page, in addition to the number of files."""
    cursor: Literal["page", "after"] = "page"
    """The field of the query for the next page: the `"page"` that the answer names, or the page `"after"` the last
    file."""

    def page(self, data: Mapping[str, Any]) -> Page:
        """Return the page that an object describes.

        Raises:
            ReplyError: If the object has no list of files, or if an item of the list is not a file.
        """
        items = data.get("data")
        if not is_array(items):
            raise form_error("the answer is not a page of files: the list of files is missing", "/data")
        files = tuple(read_file(item) for item in items if is_object(item))
        following = data.get("next_page")
        if self.cursor == "after":
            following = files[-1].id if files and data.get("has_more") is True else None
        return Page(files, following if isinstance(following, str) else None)

    def __hash__(self) -> int:
        return hash((self.module, self.path))  # the query is not hashable


def read_file(data: Mapping[str, Any]) -> UploadedFile:
    """Return the file that an object describes.

    Raises:
        ReplyError: If the id is missing.
    """
    file_id, name, media_type = (data.get(key) for key in ("id", "filename", "mime_type"))
    if not isinstance(file_id, str):
        raise form_error("the answer does not describe a file: id is missing", "/id")
    title = name if isinstance(name, str) else file_id
    size = data.get("size_bytes", data.get("bytes"))
    return UploadedFile(
        file_id,
        title,
        media_type if isinstance(media_type, str) else media_type_of(title),
        size if isinstance(size, int) else None,
        time_of(data.get("created_at")),
        time_of(data.get("expires_at")),
        {key: value for key, value in data.items() if key not in _KNOWN and value is not None},
    )


_KNOWN: Final = frozenset(
    ("id", "bytes", "created_at", "expires_at", "filename", "mime_type", "object", "size_bytes", "type")
)


def time_of(value: object) -> datetime | None:
    """Return the time from ISO text or from seconds since 1970, or None for an invalid value."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        pass
    return None


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
            return msgspec.structs.replace(read_file(data), name=name, media_type=file.media_type)

        answer = self._client.upload(self._api.path, self._api.form(expires_in), content, method="upload")
        return answer.flat_map(lambda got: self._read(got, "upload", read))

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """Return the description of a file, or None if the file expired or is unknown. Fails with `AiError`."""

        def read(answer: HttpResponse) -> Effect[UploadedFile | None, AiError]:
            return fx.succeed(None) if answer.is_missing else self._read(answer, "find", read_file)

        if _is_no_id(file_id):
            return fx.succeed(None)
        return self._client.get(self._path(file_id), method="find", may_be_missing=True).flat_map(read)

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """Return a page of files in the provider's order. Fails with `AiError`."""
        query: dict[str, str] = {"limit": _PAGE, **self._api.query}
        if following is not None:
            query[self._api.cursor] = following
        answer = self._client.get(f"{self._api.path}?{urlencode(query)}", method="files")
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
        return attempt_reply(lambda: read(parse_object(answer.body)), partial(AiError, self._api.module, method))


def _is_no_id(file_id: str) -> bool:
    """Return True if the string, as a part of an address, names a folder instead of a file."""
    return file_id in ("", ".", "..")


TEXT_TYPES: Final = re.compile(r"text/|application/(json|xml|yaml|x-yaml|javascript|toml|sql)$|.*\+(json|xml|yaml)$")
"""The media types whose bytes are text."""
_UPLOADED: Final = re.compile(r"file[-_][A-Za-z0-9_-]+")


def file_id_of(part: FilePart) -> str | None:
    """Return the id of an uploaded file, or None for any other file."""
    data = part.data
    return data.url if isinstance(data, FileUrl) and _UPLOADED.fullmatch(data.url) else None


@final
class TokenCounter:
    """A counter of tokens that calls one server. After the server's first refusal, it estimates all counts.

    `module` is the name of the origin in errors. `why` is the warning of an estimate.
    """

    def __init__(self, client: Client, module: str, why: str) -> None:
        self._client = client
        self._module = module
        self._why = why
        self._counts = True  # False after the server refused to count

    def count(
        self,
        request: ModelRequest,
        path: str,
        encode: Effect[bytes, AiError],
        warnings: tuple[WarningPart, ...],
        headers: Mapping[str, str | Secret] = {},
    ) -> Effect[TokenCount, AiError]:
        """Return the number of tokens of a request. If the server cannot count them, estimate them and add a warning.

        `encode` returns the body of the count request. `warnings` are for parts of the request that the body omits.

        Fails with:
            AiError: If `encode` fails, if the client cannot reach the server, or if the model is unknown.
        """

        def read(answer: HttpResponse) -> Effect[TokenCount, AiError]:
            tokens = None if answer.is_missing else read_count(answer.body)
            if tokens is not None:
                return fx.succeed(TokenCount(tokens, "provider", warnings))
            reason = reason_of_status(answer.status, answer.body, {}) if answer.is_missing else None
            if isinstance(reason, ModelUnavailableError):
                return fx.fail(AiError(self._module, "count", reason))
            self._counts = False
            return fx.succeed(estimate_request(request, self._why))

        def ask() -> Effect[TokenCount, AiError]:
            if not self._counts:
                return fx.succeed(estimate_request(request, self._why))
            options: Any = {"method": "count", "headers": headers, "accept": "*/*", "may_be_missing": True}
            return encode.flat_map(lambda body: self._client.post(path, body, **options)).flat_map(read)

        return fx.suspend(ask)
