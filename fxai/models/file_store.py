"""Files at a provider: sent there once, and named in prompts by their id, as a service.

`FileStore.upload` sends a file; `uploaded.part` is what a prompt says in its place. With `once=True` the same file, by
its digest, is sent once. Providers give layers of the service (`openai.files_layer`, `anthropic.files_layer`);
`FileStore.in_process()` keeps files in this process, for tests.

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

_UNNAMED: Final = "file"
_MARGIN: Final = timedelta(minutes=10)  # a file that expires sooner is sent anew


@final
class UploadedFile(msgspec.Struct, frozen=True):
    """A file at a provider.

    Attributes:
        id: Its id there.
        name: Its name.
        media_type: Its media type: as it was sent, else what the provider says, else as its name ends.
        size: Its bytes; None where the provider does not say.
        created: When it was sent.
        expires: When the provider forgets it; None: not by itself.
        details: What else the provider says of it, as plain JSON data.
    """

    id: str
    name: str
    media_type: str
    size: int | None = None
    created: datetime | None = None
    expires: datetime | None = None
    details: Mapping[str, Any] = {}

    @property
    def part(self) -> FilePart:
        """The part of a user's message that names the file; for models of the provider that has it."""
        return FilePart(self.media_type, FileUrl(self.id), self.name)

    def __hash__(self) -> int:
        return hash(self.id)  # the details are plain data


@final
class Page(msgspec.Struct, frozen=True):
    """Some of the files of a store, and what the page after it is called; None: there is none."""

    files: tuple[UploadedFile, ...]
    following: str | None = None

    def __hash__(self) -> int:
        return hash(self.files)


class FileStore(Service):
    """The files of an account at a provider. Implementations give `send`, `find`, `page`, `read` and `remove`.

    Args:
        index: Which files were sent, by their digests, for `once`; None: those that this store sent.
    """

    def __init__(self, index: FileIndex | None = None) -> None:
        self._index = index or FileIndex()
        self._locks = Locks()  # by digest

    # -- what implementations give

    @abstractmethod
    def send(self, file: FilePart, expires_in: float | None) -> Effect[UploadedFile, AiError]:
        """Sends a file that has bytes and a name. Fails with `AiError`."""

    @abstractmethod
    def find(self, file_id: str) -> Effect[UploadedFile | None, AiError]:
        """What the provider says of a file; None: it has none of that id. Fails with `AiError`."""

    @abstractmethod
    def page(self, following: str | None) -> Effect[Page, AiError]:
        """The first files, or those of the page that another one names. Fails with `AiError`."""

    @abstractmethod
    def read(self, file_id: str) -> Effect[bytes, AiError]:
        """The bytes of a file. Fails with `AiError`: there is none; or the provider gives none of what was sent."""

    @abstractmethod
    def remove(self, file_id: str) -> Effect[bool, AiError]:
        """Deletes a file; whether it was there. Fails with `AiError`."""

    # -- what programs use

    @staticmethod
    def upload(
        file: FilePart, *, once: bool = False, expires_in: float | None = None
    ) -> EffectOf[UploadedFile, AiError | OSError, FileStore | None]:
        """Sends a file to the provider, and gives what it is there.

        Args:
            file: its media type, its bytes and its name; without a name it is called "file", as its media type ends.
            once: whether a file that was sent before, and is still there, is not sent again. It is the same where
                bytes, media type and name are; the store looks it up by its digest, and asks the provider for it.
            expires_in: after how many seconds the provider forgets it; None: as it does by itself.

        Fails with:
            AiError: the file has no bytes, or is named by its address; the provider refuses it or cannot be reached.
            OSError: the index of a store that keeps one in a file cannot be read or written.
        """

        def send(store: Any) -> EffectOf[UploadedFile, AiError | OSError]:
            named = _with_name(file)
            if isinstance(named, AiError):
                return fx.fail(named)
            held = cast("FileStore", store)
            return held._send_once(named, expires_in) if once else held.send(named, expires_in)

        return FlatMap(Fetch(FileStore), send)

    @staticmethod
    def get(file_id: str) -> EffectOf[UploadedFile | None, AiError, FileStore | None]:
        """What the provider says of a file; None: it has none of that id.

        Fails with:
            AiError: the provider cannot be asked.
        """
        return _using(lambda store: store.find(file_id))

    @staticmethod
    def content(file_id: str) -> EffectOf[bytes, AiError, FileStore | None]:
        """The bytes of a file. Providers give those of files that a model made, and not all of them what was sent.

        Fails with:
            AiError: there is no such file, or the provider does not give its bytes.
        """
        return _using(lambda store: store.read(file_id))

    @staticmethod
    def delete(file_id: str) -> EffectOf[bool, AiError, FileStore | None]:
        """Deletes a file; whether it was there.

        Fails with:
            AiError: the provider cannot be asked.
        """
        return _using(lambda store: store.remove(file_id))

    @staticmethod
    def files() -> StreamOf[UploadedFile, AiError, FileStore | None]:
        """The files of the account, the pages of the provider one after another as they are read.

        Fails with:
            AiError: the provider cannot be asked, or gives the same page again and again.
        """
        return StreamOf.unwrap(_using(lambda store: fx.succeed(_all(store))))

    @staticmethod
    def in_process() -> Layer[FileStore]:
        """The layer of a store in this process, empty when it is built: for tests."""
        return LayerOf.effect(FileStore, fx.sync(_ProcessStore))

    # -- once

    def _send_once(self, file: FilePart, expires_in: float | None) -> EffectOf[UploadedFile, AiError | OSError]:
        """The file, sent unless it is there; those that send the same one meanwhile wait for it."""
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


def _using(f: Callable[[FileStore], Effect[_A, AiError]]) -> EffectOf[_A, AiError, FileStore | None]:
    return FlatMap(Fetch(FileStore), lambda store: f(cast("FileStore", store)))


def _all(store: FileStore) -> Stream[UploadedFile, AiError]:
    def following(at: tuple[str | None, bool]) -> Effect[tuple[tuple[UploadedFile, ...], Any] | None, AiError]:
        name, is_over = at
        if is_over:
            return fx.succeed(None)
        return store.page(name).flat_map(partial(go_on, name))

    def go_on(name: str | None, page: Page) -> Effect[tuple[tuple[UploadedFile, ...], Any] | None, AiError]:
        if name is not None and page.following == name:  # of a server that knows no pages, for one
            again = f"the page of files behind {name!r} names itself as the next one"
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
        problem = f"the file is named by its address, {file.data.url[:200]!r}: give its bytes, or use the address"
        return AiError("FileStore", "upload", InvalidUserInputError(problem))
    if not file.data:
        return AiError("FileStore", "upload", InvalidUserInputError("the file is empty"))
    if file.file_name:
        return file
    end = mimetypes.guess_extension(file.media_type) or ""
    return msgspec.structs.replace(file, file_name=f"{_UNNAMED}{end}")


def media_type_of(name: str) -> str:
    """The media type of a file, as its name ends.

    >>> media_type_of("report.pdf"), media_type_of("report")
    ('application/pdf', 'application/octet-stream')
    """
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


# -- which files were sent


@final
class FileIndex:
    """Which files were sent, by their digests: in this process, or in a file that processes share.

    Args:
        path: The file, private to its user; None: in this process. Of an account it is one file: another account has
            none of these files, and sends them anew.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else file_path(path)
        self._known: dict[str, UploadedFile] = {}

    def load(self, digest: str) -> Effect[UploadedFile | None, OSError]:
        """The file of this digest, if one was sent.

        Fails with:
            OSError: The file of the index cannot be read, or holds something else.
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
        """Remembers the file of this digest.

        Fails with:
            OSError: The file of the index cannot be written.
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
        def fail(error: Exception) -> OSError | None:
            return error if isinstance(error, OSError) else None

        return attempt_work(work, fail, in_thread=self._path is not None)


def _read_index(path: os.PathLike[str], content: bytes) -> dict[str, UploadedFile]:
    try:
        return msgspec.json.decode(content, type=dict[str, UploadedFile])
    except JSON_ERRORS as error:
        problem = f"{os.fspath(path)} is no index of uploaded files ({error}); move it away to begin anew"
        raise OSError(problem) from None


# -- in this process


@final
class _ProcessStore(FileStore):
    """Files in this process, by ids that count up."""

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
    """The failure that a provider has no file of that id."""
    problem = f"there is no file {file_id!r}: it was deleted, has expired, or belongs to another account"
    return AiError(module, "content", InvalidRequestError(parameter="file_id", description=problem))
