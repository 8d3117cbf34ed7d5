"""Git repositories as services. Use `repository` to read the history of a git repository in a folder as data.

fxai runs no program. The configuration of a repository therefore cannot start a pager, filter, hook, signature check,
or transport. fxai opens only files in the folder. It refuses links, alternates, and `.git` files that lead outside.

>>> from fxai.cli.folder import folder
>>> asked = fx.service(Repository).flat_map(lambda history: history.log("..", 5))
>>> fx.run(asked.provide(repository).provide(folder(".")).result())
<Failure: outside of this folder: ..>
"""

from __future__ import annotations

import heapq
import math
import os
import re
import struct
import zlib
from abc import abstractmethod
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, final

import msgspec
from typing_extensions import override

from fxai.cli.folder import Folder, Refused, StoppedError, in_thread, regular
from fxai.cli.redaction import has_secret
from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.service import Service

_MOST_COMMITS: Final = 50


@final
class Commit(msgspec.Struct, frozen=True):
    """A commit with its short id, author, day, and the first line of its message."""

    id: str
    author: str
    date: str
    subject: str


class Repository(Service):
    """The history of a git repository."""

    @abstractmethod
    def log(
        self, path: str, count: int, since: str | None = None, until: str | None = None
    ) -> Effect[tuple[Commit, ...], Refused]:
        """Return the last `count` commits at `path`, at most 50, newest first. Dates have the formats of git."""


@fx.gen
def _repository() -> Gen[Repository, Any, Folder]:
    return _Git((yield from Folder))


repository: Final[Layer[Repository, Any, Folder]] = Layer.effect(Repository, _repository())
"""The layer of the repository in the `Folder`. The repository can be the folder itself or below it."""


@final
class _Git(Repository):
    def __init__(self, where: Folder) -> None:
        self._where = where

    @override
    @fx.gen
    def log(
        self, path: str, count: int, since: str | None = None, until: str | None = None
    ) -> Gen[tuple[Commit, ...], Refused]:
        top = yield from self._where.place(".")
        place = yield from self._where.place(path)
        return (yield from in_thread(lambda: _log(top, place, path, count, since, until)))


def _log(top: Path, place: Path, path: str, count: int, since: str | None, until: str | None) -> tuple[Commit, ...]:
    now = datetime.now().astimezone()
    first = -math.inf if since is None else _moment(since, now, last=False)
    last = math.inf if until is None else _moment(until, now, last=True)
    try:
        with ExitStack() as stack:
            return _History.at(top, place, path, stack).log(max(1, min(count, _MOST_COMMITS)), first, last)
    except StoppedError as stopped:
        raise StoppedError(stopped.refused.problem, path) from None
    except (ArithmeticError, LookupError, ValueError, OSError, RuntimeError, zlib.error, struct.error):
        raise StoppedError("history not readable", path) from None


# ---- the git formats


_MOST_WORK: Final = 64 * 2**20
_LARGEST_OBJECT: Final = 2**20
_LARGEST_REFS: Final = 32 * 2**20
_MOST_PACKS: Final = 200
_LONGEST_CHAIN: Final = 200
_LONGEST_SUBJECT: Final = 200
_LONGEST_SEARCHED: Final = 4096  # characters that are searched for secrets, far more than are shown
_WIDEST: Final = 63
_COSTLY: Final = 8  # work per byte of a difference, because Python decodes each byte
_SHORT: Final = 10
_COMMIT: Final = 1
_FROM_OFFSET: Final = 6
_FROM_ID: Final = 7
_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DATED: Final = re.compile(rb"(-?\d{1,15})?\s*([+-]\d{4})?")
_ENCODING: Final = re.compile(
    r"(?i)iso-?8859-\d+|(?:cp|windows-)125\d|koi8-[ru]|shift_jis|euc-(?:jp|kr)|gbk|gb18030|big5"
)


@final
class _Pack:
    """A pack of objects with its index of version 2, the only version that git writes."""

    def __init__(self, index: BinaryIO, pack: BinaryIO, width: int) -> None:
        self._index, self._pack, self._width = index, pack, width
        if self._at(0, 8) != b"\xfftOc\0\0\0\2":
            raise ValueError
        self._fan = struct.unpack(">256I", self._at(8, 1024))

    def _at(self, place: int, size: int) -> bytes:
        self._index.seek(place)
        found = self._index.read(size)
        if len(found) != size:
            raise ValueError
        return found

    def offset(self, name: bytes) -> int | None:
        """Return the offset of an object in the pack, or None if the pack does not contain it."""
        low, high = self._fan[name[0] - 1] if name[0] else 0, self._fan[name[0]]
        while low < high:
            middle = (low + high) // 2
            found = self._at(1032 + middle * self._width, self._width)
            if found == name:
                return self._offset(middle)
            low, high = (middle + 1, high) if found < name else (low, middle)
        return None

    def _offset(self, number: int) -> int:
        behind = 1032 + self._fan[255] * (self._width + 4)
        place = int.from_bytes(self._at(behind + 4 * number, 4))
        if place < 2**31:
            return place
        return int.from_bytes(self._at(behind + 4 * self._fan[255] + 8 * (place - 2**31), 8))

    def entry(self, offset: int) -> tuple[int, int | bytes, bytes]:
        """Return the kind of the entry, the id or offset of its base if it is a difference, and its bytes."""
        self._pack.seek(offset)
        head = self._pack.read(64)
        size, behind = _number(head, 0)
        kind, size = head[0] >> 4 & 7, (size >> 7 << 4) | (head[0] & 15)
        base: int | bytes = b""
        if kind == _FROM_ID:
            base, behind = head[behind : behind + self._width], behind + self._width
        elif kind == _FROM_OFFSET:
            back, behind = _distance(head, behind)
            base = offset - back
        if kind not in (_COMMIT, _FROM_ID, _FROM_OFFSET) or size > _LARGEST_OBJECT:
            raise ValueError
        self._pack.seek(offset + behind)
        return kind, base, _inflate(self._pack, size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits per byte, lowest bits first, and the position after it."""
    value = shift = 0
    while True:
        if shift > _WIDEST:
            raise ValueError
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def _distance(data: bytes, at: int) -> tuple[int, int]:
    """Return the distance to the base of a difference, and the position after the number."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1) << 7 | (data[at] & 127)
    return value, at + 1


def _inflate(file: BinaryIO, size: int) -> bytes:
    """Return the decompressed data if it has exactly this size. The function never decompresses more."""
    unpacking, data = zlib.decompressobj(), b""
    while len(data) <= size and not unpacking.eof and (piece := unpacking.unconsumed_tail or file.read(4096)):
        data += unpacking.decompress(piece, size - len(data) + 1)
    if len(data) != size:
        raise ValueError
    return data


def _apply_delta(base: bytes, change: bytes) -> bytes:
    """Return the object that results from a base and a difference."""
    expected, at = _number(change, 0)
    size, at = _number(change, at)
    if expected != len(base) or size > _LARGEST_OBJECT:
        raise ValueError
    pieces: list[bytes] = []
    left = size
    while at < len(change) and left >= 0:
        code, at = change[at], at + 1
        if code & 128:
            parts: list[int] = []
            for bit in range(7):
                parts.append(change[at] if code >> bit & 1 else 0)
                at += code >> bit & 1
            start, length = int.from_bytes(parts[:4], "little"), int.from_bytes(parts[4:], "little") or 2**16
            piece = base[start : start + length]
        else:
            length, at = code, at + code
            piece = change[at - code : at]
        if not code or len(piece) != length:
            raise ValueError
        pieces.append(piece)
        left -= length
    if left:
        raise ValueError
    return b"".join(pieces)


@final
class _Read(NamedTuple):
    """A commit with its time, its parents, and its public form."""

    committed: int
    parents: tuple[str, ...]
    shown: Commit


@final
class _History:
    """The commits of a repository that `HEAD` leads to.

    The history opens only files within `bounds`. It refuses links, alternates, and `.git` files that lead outside.
    """

    def __init__(self, head: Path, common: Path, bounds: tuple[Path, ...], stack: ExitStack) -> None:
        self._head, self._common, self._bounds, self._stack = head, common, bounds, stack
        self._left = _MOST_WORK
        self._packs: list[_Pack] | None = None
        self._stores = self._all_stores()

    @staticmethod
    def at(top: Path, place: Path, path: str, stack: ExitStack) -> _History:
        """Return the history of the repository at `place`, or of the nearest parent directory, up to `top`."""
        for folder in (place, *place.parents):
            if not folder.is_relative_to(top):
                break
            inside = folder / ".git"
            if inside.is_file():
                return _open_linked(inside, top, stack)
            if inside.is_dir() or all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
                found = inside if inside.is_dir() else folder
                return _History(found / "HEAD", found, (top,), stack)
        raise StoppedError("no git repository", path)

    def log(self, count: int, since: float, until: float) -> tuple[Commit, ...]:
        """Return the last `count` commits between two times, newest first."""
        tip = self._tip()
        if tip is None:
            raise StoppedError("no commits", "")
        cut = set((self._text(self._common / "shallow", _LARGEST_REFS) or "").split())
        seen, waiting = {tip}, [self._entry(tip, 0)]
        found: list[Commit] = []
        while waiting and len(found) < count:
            _, _, name, commit = heapq.heappop(waiting)
            if commit.committed < since:
                continue
            if commit.committed <= until:
                found.append(commit.shown)
            for parent in () if name in cut else commit.parents:
                if parent not in seen:
                    seen.add(parent)
                    heapq.heappush(waiting, self._entry(parent, len(seen)))
        return tuple(found)

    def _entry(self, name: str, number: int) -> tuple[int, int, str, _Read]:
        commit = _commit(name, self._object(name))
        return -commit.committed, number, name, commit

    # -- references

    def _tip(self) -> str | None:
        if (self._common / "reftable").exists():
            raise StoppedError("history not readable", "")
        place, name = self._head, "HEAD"
        for _ in range(5):
            text = self._text(place, 4096) or self._packed_reference(name)
            if text is None:
                return None
            if _ID.fullmatch(text):
                return text
            name = text.removeprefix("ref:").strip()
            parts = name.split("/")
            if not text.startswith("ref:") or parts[0] != "refs" or not all(part.strip(".") for part in parts):
                break
            place = self._common / name
        raise StoppedError("history not readable", "")

    def _packed_reference(self, name: str) -> str | None:
        for line in (self._text(self._common / "packed-refs", _LARGEST_REFS) or "").splitlines():
            if line.endswith(f" {name}"):
                return line.partition(" ")[0]
        return None

    # -- objects

    def _object(self, name: str) -> bytes:
        raw = bytes.fromhex(name)
        for store in self._stores:
            loose = self._open_file(store / name[:2] / name[2:])
            if loose is not None:
                return self._charge(_loose(loose))
        if self._packs is None:
            self._packs = self._all_packs(len(raw))
        for pack in self._packs:
            offset = pack.offset(raw)
            if offset is not None:
                return self._charge(self._unpack(pack, offset))
        raise ValueError

    def _unpack(self, pack: _Pack, offset: int) -> bytes:
        changes: list[bytes] = []
        for _ in range(_LONGEST_CHAIN):
            kind, base, data = pack.entry(offset)
            if kind == _COMMIT:
                for change in reversed(changes):
                    data = self._charge(_apply_delta(data, change))
                return data
            self._left -= _COSTLY * len(data)
            changes.append(self._charge(data))
            found = pack.offset(base) if isinstance(base, bytes) else base
            if found is None:
                break
            offset = found
        raise ValueError

    def _charge(self, data: bytes) -> bytes:
        self._left -= len(data) + 1024
        if self._left < 0:
            raise StoppedError("history too long", "")
        return data

    def _all_packs(self, width: int) -> list[_Pack]:
        packs: list[_Pack] = []
        for store in self._stores:
            for index in sorted((store / "pack").glob("*.idx"))[:_MOST_PACKS]:
                files = self._open_file(index), self._open_file(index.with_suffix(".pack"))
                if files[0] is not None and files[1] is not None:
                    packs.append(_Pack(files[0], files[1], width))
        return packs

    def _all_stores(self) -> list[Path]:
        """Return the object directories: of the repository itself, and the alternates within the bounds."""
        stores = [self._common / "objects"]
        for store in stores:
            for line in (self._text(store / "info" / "alternates", 4096) or "").splitlines():
                other = Path(os.path.normpath(store / line))
                if line and not line.startswith("#") and other not in stores and len(stores) < 8:
                    stores.append(other)
        return stores

    # -- files

    def _text(self, place: Path, most: int) -> str | None:
        file = self._open_file(place)
        if file is None:
            return None
        with file:
            return file.read(most).decode("utf-8", "surrogateescape").strip()

    def _open_file(self, place: Path) -> BinaryIO | None:
        found = place.resolve()
        if not any(found.is_relative_to(bound) for bound in self._bounds):
            raise StoppedError("outside of this folder", "")
        try:
            return self._stack.enter_context(regular(found))
        except (FileNotFoundError, NotADirectoryError):
            return None


def _open_linked(file: Path, top: Path, stack: ExitStack) -> _History:
    """Return the history of a linked worktree. Read files outside only if they name this worktree."""
    named = _first_line(file).removeprefix("gitdir:").strip()
    own = (file.parent / named).resolve()
    bounds: tuple[Path, ...] = (top,)
    if not own.is_relative_to(top) and (own / _first_line(own / "gitdir")).resolve() != file.resolve():
        raise StoppedError("outside of this folder", "")
    shared = _first_line(own / "commondir")
    common = (own / shared).resolve() if shared else own
    if not own.is_relative_to(top):
        bounds = (top, common, own)
    return _History(own / "HEAD", common, bounds, stack)


def _first_line(place: Path) -> str:
    try:
        with regular(place) as file:
            return file.readline(4096).decode("utf-8", "surrogateescape").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _loose(file: BinaryIO) -> bytes:
    with file:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(file.read(_LARGEST_OBJECT), _LARGEST_OBJECT)
    head, _, body = data.partition(b"\0")
    if head != b"commit %d" % len(body):
        raise ValueError
    return body


def _commit(name: str, data: bytes) -> _Read:
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        keyword, _, value = line.partition(b" ")
        fields.setdefault(keyword, []).append(value)
    author, day = _signature(fields[b"author"][0])
    said = fields.get(b"encoding", [b""])[0].decode("ascii", "replace")
    encoding = said if _ENCODING.fullmatch(said) else "utf-8"
    subject = re.split(r"\n[^\S\n]*\n", message.decode(encoding, "replace").strip(), maxsplit=1)[0]
    shown = Commit(
        name[:_SHORT], _one_line(author.decode(encoding, "replace").strip()), day.date().isoformat(), _one_line(subject)
    )
    committed = int(_signature(fields[b"committer"][0])[1].timestamp())
    parents = tuple(value.decode("ascii") for value in fields.get(b"parent", []))
    if not all(_ID.fullmatch(parent) for parent in parents):
        raise ValueError
    return _Read(committed, parents, shown)


def _signature(line: bytes) -> tuple[bytes, datetime]:
    """Return the author and the time in the author's time zone. If the time is unreadable, return 1970-01-01."""
    name, _, behind = line.partition(b"<")
    found = _DATED.fullmatch(behind.rpartition(b">")[2].strip())
    seconds, zone = (None, None) if found is None else found.groups()
    sign = -1 if (zone or b"").startswith(b"-") else 1
    ahead = timedelta(hours=int((zone or b"+0000")[1:3]), minutes=int((zone or b"+0000")[3:]))
    try:
        return name.rstrip(), datetime.fromtimestamp(int(seconds or 0), timezone(sign * ahead))
    except (ValueError, OverflowError, OSError):
        return name.rstrip(), datetime.fromtimestamp(0, UTC)


def _one_line(text: str) -> str:
    line = " ".join(text[:_LONGEST_SEARCHED].split())
    return "(hidden: it looks like a secret)" if has_secret(line) else line[:_LONGEST_SUBJECT]


# ---- dates


_AGO: Final = re.compile(r"(\d{1,6}|an?)[ .](second|minute|hour|day|week|month|year)s?[ .]ago")
_SECONDS: Final = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "month": 30 * 86400,
    "year": 365 * 86400,
}
_WRITTEN: Final = ("%b %d %Y", "%d %b %Y", "%B %d %Y", "%d %B %Y", "%Y/%m/%d", "%Y.%m.%d")


def _moment(text: str, now: datetime, *, last: bool) -> float:
    """Return the time that a text names, in seconds since 1970. A day means its first or its last second."""
    words = " ".join(text.lower().replace(",", " ").split())
    if words == "now":
        return now.timestamp()
    if found := _AGO.fullmatch(words):
        number = int(found[1]) if found[1].isdigit() else 1
        return now.timestamp() - number * _SECONDS[found[2]]
    day = {"today": now, "yesterday": now - timedelta(days=1)}.get(words) or _parse_date(words, text, now)
    alone = words in ("today", "yesterday") or not re.search(r"\d[t ]\d\d?:?\d\d", words)
    at = day.replace(tzinfo=day.tzinfo or now.tzinfo)
    if not alone:
        return at.timestamp()
    return at.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() + (86399 if last else 0)


def _parse_date(words: str, text: str, now: datetime) -> datetime:
    zone = now.strftime("%z")
    with suppress(ValueError):
        return datetime.fromisoformat(text.strip())
    for form in _WRITTEN:
        with suppress(ValueError):
            return datetime.strptime(f"{words} {zone}", f"{form} %z")
    raise StoppedError("no date", text)
