"""Files: upload a file to a provider once and refer to it by its id. Use a file store for large or repeated files.

`FileStore.upload` sends a file. Put `uploaded.part` in a prompt instead of the contents. With `once=True`, fxai sends a
file with the same digest only once. Providers offer layers of the service (`openai.files_layer`,
`anthropic.files_layer`). For tests, `FileStore.in_process()` stores files in this process.

>>> from fxai.effects import fx
>>> report = FilePart("text/plain", b"All is well.", "report.txt")
>>> uploading = fx.all_(FileStore.upload(report, once=True), FileStore.upload(report, once=True))
>>> first, second = fx.run(uploading.provide(FileStore.in_process()))
>>> first.part == second.part == FilePart.of_url("text/plain", "file_1", "report.txt")
True
"""

from __future__ import annotations

import mimetypes
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, Final, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.concurrency import Locks
from fxai.effects.constructor import attempt_work
from fxai.effects.effect import Effect, EffectOf, Fetch, FlatMap, Gen
from fxai.effects.layer import Layer, LayerOf
from fxai.effects.scope import Scope
from fxai.effects.service import Clock, Service
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.message import FilePart, FileUrl
from fxai.messages.reason import InvalidOutputError, InvalidRequestError, InvalidUserInputError
from fxai.schema.data import JSON_ERRORS
from fxai.storage.private_file import file_path, read_file, update_file

_A = TypeVar("_A")
_E = TypeVar("_E")

_UNNAMED: Final = "file"
_MARGIN: Final = timedelta(minutes=10)  # fxai uploads a file again if it expires earlier


@final
class UploadedFile(msgspec.Struct, frozen=True):
    """A file at a provider."""

    id: str
    """The file id."""
    name: str
    """The name of the file."""
    media_type: str
    """The media type from the upload, from the provider, or from the extension of the name."""
    size: int | None = None
    """The number of bytes, or None if the provider does not state it."""
    created: datetime | None = None
    """The time of the upload."""
    expires: datetime | None = None
    """The time when the provider deletes the file, or None."""
    details: Mapping[str, Any] = {}
    """Other data from the provider as JSON values."""

    @property
    def part(self) -> FilePart:
        """The part of a user message that refers to the file. Only models of the same provider accept it."""
        return FilePart(self.media_type, FileUrl(self.id), self.name)

    def __hash__(self) -> int:
        return hash(self.id)  # the details may be unhashable


@final
class Page(msgspec.Struct, frozen=True):
    """Some files in a store, and the token of the following page. The token is None on the last page."""

    files: tuple[UploadedFile, ...]
    following: str | None = None


class FileStore(Service):
    """The files of an account at a provider. Implementations define `send`, `find`, `page`, `read`, and `remove`.

    Args:
        index: The index of uploaded files by digest, for `once`. Default: the files that this store uploads.
    """

    def __init__(self, index: FileIndex | None = None) -> None:
        self._index = index or FileIndex()
        self._locks = Locks()  # the keys are digests

    # -- methods of implementations

    @abstractmethod
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Upload a file that has bytes and a name. Fails with `AiError`."""

    @abstractmethod
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """Return a file, or None if the provider has no file with this id. Fails with `AiError`."""

    @abstractmethod
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """Return the first page of files, or the page with this token. Fails with `AiError`."""

    @abstractmethod
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """Return the bytes of a file. Fails with `AiError`, also if the provider does not return uploaded bytes."""

    @abstractmethod
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Delete a file, and return whether it existed. Fails with `AiError`."""

    # -- methods for programs

    @staticmethod
    def upload(
        file: FilePart, *, once: bool = False, expires_in: float | None = None
    ) -> EffectOf[UploadedFile, AiError | OSError, FileStore | None]:
        """Upload a file to the provider.

        Args:
            file: The file with its media type, bytes, and name. The default name is "file" with the extension of the
                media type.
            once: True to upload the file only if the provider does not already have it. The bytes, the media type, and
                the name must be equal. The store finds the file by its digest and checks that it still exists.
            expires_in: Seconds until the provider deletes the file, or None for the default of the provider.

        Fails with:
            AiError: If the file is empty or is an address. Also if the provider refuses it or cannot be reached.
            OSError: If the store cannot read or write its index file.
        """

        def send(store: FileStore) -> EffectOf[UploadedFile, AiError | OSError]:
            named = _with_name(file)
            if isinstance(named, AiError):
                return fx.fail(named)
            return store._send_once(named, expires_in) if once else store.send(named, expires_in)

        return _using(send)

    @staticmethod
    def get(file_id: str) -> EffectOf[UploadedFile | None, AiError, FileStore | None]:
        """Return a file, or None if the provider has no file with this id.

        Fails with:
            AiError: If the request fails.
        """
        return _using(lambda store: store.find(file_id))

    @staticmethod
    def content(file_id: str) -> EffectOf[bytes, AiError, FileStore | None]:
        """Return the bytes of a file. Providers return the files of models, but some do not return uploaded files.

        Fails with:
            AiError: If the file does not exist, or the provider does not return its bytes.
        """
        return _using(lambda store: store.read(file_id))

    @staticmethod
    def delete(file_id: str) -> EffectOf[bool, AiError, FileStore | None]:
        """Delete a file, and return whether it existed.

        Fails with:
            AiError: If the request fails.
        """
        return _using(lambda store: store.remove(file_id))

    @staticmethod
    def files() -> StreamOf[UploadedFile, AiError, FileStore | None]:
        """Return a stream of the files in the account. It requests each page when you read it.

        Fails with:
            AiError: If a request fails, or the provider returns the same page again.
        """
        return StreamOf.unwrap(_using(lambda store: fx.succeed(_all(store))))

    @staticmethod
    def in_process() -> Layer[FileStore]:
        """Return the layer for a store in this process, for tests. A new store is empty."""
        return LayerOf.effect(FileStore, fx.sync(_ProcessStore))

    # -- once

    def _send_once(self, file: FilePart, expires_in: float | None) -> EffectOf[UploadedFile, AiError | OSError]:
        """Upload the file unless the provider has it. Concurrent uploads of the same file wait for the first upload."""
        digest = _digest(file)

        @fx.gen
        def send() -> Gen[UploadedFile, AiError | OSError, Scope]:
            yield from self._locks.hold(digest)
            now = yield from fx.reference(Clock).map(_time)
            known = yield from self._index.load(digest)
            if known is not None and not _is_over(known, now):
                there = yield from self.find(known.id)
                if there is not None and not _is_over(there, now):
                    return known
            sent = yield from self.send(file, expires_in)
            yield from self._index.save(digest, sent)
            return sent

        return fx.scoped(send())


def _using(f: Callable[[FileStore], EffectOf[_A, _E]]) -> EffectOf[_A, _E, FileStore | None]:
    return FlatMap(Fetch(FileStore), lambda store: f(cast("FileStore", store)))


def _all(store: FileStore) -> Stream[UploadedFile, AiError]:
    def following(at: tuple[str | None, bool]) -> Effect[tuple[tuple[UploadedFile, ...], Any] | None, AiError]:
        name, is_over = at
        if is_over:
            return fx.succeed(None)
        return store.page(name).flat_map(partial(go_on, name))

    def go_on(name: str | None, page: Page) -> Effect[tuple[tuple[UploadedFile, ...], Any] | None, AiError]:
        if name is not None and page.following == name:  # for example, a server that does not support pages
            again = f"page after {name!r} names itself as the next page"
            return fx.fail(AiError("FileStore", "files", InvalidOutputError(again)))
        return fx.succeed((page.files, (page.following, page.following is None)))

    pages = StreamOf.unfold(cast("tuple[str | None, bool]", (None, False)), following)
    return pages.flat_map(StreamOf.from_iterable)


def _time(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


def _is_over(file: UploadedFile, now: datetime) -> bool:
    return file.expires is not None and file.expires - _MARGIN <= now


def _digest(file: FilePart) -> str:
    digest = sha256(msgspec.json.encode([file.media_type, file.file_name]))
    digest.update(file.data if isinstance(file.data, bytes) else b"")
    return digest.hexdigest()


def _with_name(file: FilePart) -> FilePart | AiError:
    if not isinstance(file.data, bytes):
        problem = f"file is an address, {file.data.url[:200]!r}. Pass its bytes, or use the address in the prompt"
        return AiError("FileStore", "upload", InvalidUserInputError(problem))
    if not file.data:
        return AiError("FileStore", "upload", InvalidUserInputError("file is empty"))
    if file.file_name:
        return file
    end = mimetypes.guess_extension(file.media_type) or ""
    return msgspec.structs.replace(file, file_name=f"{_UNNAMED}{end}")


def media_type_of(name: str) -> str:
    """Return the media type for a file from the extension of its name.

    >>> media_type_of("report.pdf"), media_type_of("report")
    ('application/pdf', 'application/octet-stream')
    """
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


# -- the index of uploaded files


@final
class FileIndex:
    """The index of uploaded files by their digests: in this process, or in a file that processes share.

    Args:
        path: The index file, which only its owner can read, or None for an index in this process. Use a separate file
            for each account, because another account does not have these files.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else file_path(path)
        self._known: dict[str, UploadedFile] = {}

    def load(self, digest: str) -> Effect[UploadedFile | None, OSError]:
        """Return the file with this digest, or None.

        Fails with:
            OSError: If the index file cannot be read or is invalid.
        """

        def load() -> UploadedFile | None:
            if self._path is None:
                return self._known.get(digest)
            try:
                return _read_index(self._path, read_file(self._path)).get(digest)
            except FileNotFoundError:
                return None

        return self._attempt(load)

    def save(self, digest: str, file: UploadedFile) -> Effect[None, OSError]:
        """Store the file with this digest.

        Fails with:
            OSError: If the index file cannot be written.
        """

        def save() -> None:
            if self._path is None:
                self._known[digest] = file
                return
            with update_file(self._path) as stored:
                known = {} if stored.content is None else _read_index(self._path, stored.content)
                stored.content = msgspec.json.encode({**known, digest: file})

        return self._attempt(save)

    def _attempt(self, work: Callable[[], _A]) -> Effect[_A, OSError]:
        return attempt_work(work, OSError, in_thread=self._path is not None)


def _read_index(path: os.PathLike[str], content: bytes) -> dict[str, UploadedFile]:
    try:
        return msgspec.json.decode(content, type=dict[str, UploadedFile])
    except JSON_ERRORS as error:
        problem = f"{os.fspath(path)} is not an index of uploaded files ({error}). Move it away to start a new index."
        raise OSError(problem) from None


# -- a store in this process


@final
class _ProcessStore(FileStore):
    def __init__(self) -> None:
        super().__init__()
        self._ids = count(1)
        self._files: dict[str, tuple[UploadedFile, bytes]] = {}

    @override
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        def keep(clock: Clock) -> UploadedFile:
            now = _time(clock)
            data = file.data if isinstance(file.data, bytes) else b""
            ends = None if expires_in is None else now + timedelta(seconds=expires_in)
            name = file.file_name or _UNNAMED
            sent = UploadedFile(f"file_{next(self._ids)}", name, file.media_type, len(data), now, ends)
            self._files[sent.id] = sent, data
            return sent

        return fx.reference(Clock).map(keep)

    @override
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        def find(clock: Clock) -> UploadedFile | None:
            file, _ = self._files.get(file_id, (None, b""))
            return None if file is None or (file.expires is not None and file.expires <= _time(clock)) else file

        return fx.reference(Clock).map(find)

    @override
    def page(self, following: str | None) -> Effect[Page, AiError]:
        return fx.sync(lambda: Page(tuple(file for file, _ in self._files.values())))

    @override
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        def read(file: UploadedFile | None) -> Effect[bytes, AiError]:
            if file is None:
                return fx.fail(missing_file("FileStore", file_id))
            return fx.succeed(self._files[file_id][1])

        return self.find(file_id).flat_map(read)

    @override
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        return fx.sync(lambda: self._files.pop(file_id, None) is not None)


def missing_file(module: str, file_id: str) -> AiError:
    """Return the failure for a file id that the provider does not have."""
    problem = f"file {file_id!r} does not exist: a user deleted it, it expired, or it belongs to another account"
    return AiError(module, "content", InvalidRequestError(parameter="file_id", description=problem))
