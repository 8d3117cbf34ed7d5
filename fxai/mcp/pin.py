"""Pins: digests of the approved tools of MCP servers. Use pins to detect changed tools.

A pin covers the whole definition of a tool. If a tool differs from its pin, fxai blocks it until you approve it again.
fxai identifies a server by its name. By default, fxai trusts the tools of a server that it sees for the first time, and
blocks a tool that the server adds later. fxai also blocks a new tool whose name looks like another tool's name.

>>> from fxai.effects import fx
>>> pins = Pins.in_process()
>>> fx.run_sync(pins.review("git", {"log": {"description": "a1"}}))
{}
>>> fx.run_sync(pins.review("git", {"log": {"description": "b2"}}))
{'log': ('description',)}
>>> fx.run_sync(pins.review("git", {"log": {"description": "a1"}, "1og": {}}))
{'1og': ('new', 'name')}
"""

from __future__ import annotations

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, final

import msgspec
from typing_extensions import override

from fxai.effects.constructor import attempt_work
from fxai.effects.effect import EffectOf
from fxai.mcp.result import McpError
from fxai.storage import read_record
from fxai.storage.private_file import file_path, update_file

_A = TypeVar("_A")

Digests: TypeAlias = Mapping[str, Mapping[str, str]]
"""The digest of each part of each tool's definition, by tool and part."""

Unseen: TypeAlias = Literal["trust", "trust-all", "hold"]
"""The treatment of an unknown tool. `"trust"`: trust it if its server is also unknown. `"trust-all"`: trust it even if
the server adds it later. `"hold"`: block it until you approve it."""

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")

# Characters that look like the ASCII character of their key, from the confusables of Unicode (UTS 39).
_ALIKE: Final = {
    "a": "аɑαａ", "b": "ЬƄ", "c": "сϲᴄ", "d": "ԁɗ", "e": "еҽ℮", "f": "ſƒ", "g": "ɡց", "h": "һհ", "i": "іıιɩ",
    "j": "јϳ", "k": "κк", "l": "Il1|ӏЇІΙⅼ∣ǀ", "m": "мⅿ", "n": "ոռ", "o": "0Ooоοσօ", "p": "рρ", "q": "ԛգ", "r": "гᴦ",
    "s": "ѕꜱ", "t": "тτ", "u": "υսᴜ", "v": "νѵᴠ", "w": "ԝѡᴡ", "x": "хχ", "y": "уүγ", "z": "ᴢ",
    "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "J": "Ј", "K": "КΚ", "M": "МΜ", "N": "Ν", "P": "РΡ",
    "S": "Ѕ", "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "Z": "Ζ", "_": "-. ‐‑‒–—−·˗",
}  # fmt: skip
_LOOKS: Final = {one: look for look, ones in _ALIKE.items() for one in ones}

_Servers: TypeAlias = dict[str, dict[str, dict[str, str]]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    servers: _Servers


@final
class Pins:
    """A store of digests, in this process or in a file that many processes can share."""

    __slots__ = ("_lock", "_path", "_servers", "_unseen")

    def __init__(self, path: Path | None, unseen: Unseen) -> None:
        """Use `Pins.in_process` or `Pins.file`."""
        self._path = path
        self._unseen: Unseen = unseen
        self._servers: _Servers = {}
        self._lock = threading.Lock()

    @staticmethod
    def in_process(*, unseen: Unseen = "trust") -> Pins:
        """Return pins that end with the process."""
        return Pins(None, unseen)

    @staticmethod
    def file(path: str | os.PathLike[str], *, unseen: Unseen = "trust") -> Pins:
        """Return pins in a JSON file. fxai replaces the file as a whole, and creates it and its directory on first use.

        Raises:
            ValueError: If the path is invalid.
        """
        return Pins(file_path(path), unseen)

    def review(self, server: str, seen: Digests) -> EffectOf[dict[str, tuple[str, ...]], McpError]:
        """Return the blocked tools with their changed parts, and pin the trusted tools.

        The parts of an unknown tool are `("new",)`. If its name also looks like another tool's name or contains
        invisible characters, they are `("new", "name")`.

        If fxai cannot read or write the file, the effect fails with an `McpError` of the kind `"pins"`. Then fxai
        offers no tool.
        """

        def review(pinned: _Servers) -> tuple[dict[str, tuple[str, ...]], _Servers | None]:
            known = pinned.get(server, {})
            new = {name: dict(parts) for name, parts in seen.items() if name not in known}
            held: dict[str, tuple[str, ...]] = {}
            for name in (name for name in seen if name in known):
                before, now = known[name], seen[name]
                changed = tuple(part for part in {**before, **now} if before.get(part) != now.get(part))
                held |= {name: changed} if changed else {}
            doubtful = look_alikes(new, known)
            if self._unseen == "hold" or (self._unseen == "trust" and server in pinned):
                return held | {name: ("new", "name") if name in doubtful else ("new",) for name in new}, None
            trusted = {name: parts for name, parts in new.items() if name not in doubtful}
            held |= dict.fromkeys(doubtful, ("new", "name"))
            return held, {**pinned, server: {**known, **trusted}} if trusted or server not in pinned else None

        return self._update(server, review)

    def approve(self, server: str, seen: Digests) -> EffectOf[None, McpError]:
        """Pin the current definitions of these tools. The effect fails like `review`."""

        def approve(pinned: _Servers) -> tuple[None, _Servers]:
            added = {name: dict(parts) for name, parts in seen.items()}
            return None, {**pinned, server: {**pinned.get(server, {}), **added}}

        return self._update(server, approve)

    def forget(self, server: str) -> EffectOf[None, McpError]:
        """Remove all pins of a server. Its tools are then unknown. The effect fails like `review`."""
        return self._update(
            server, lambda pinned: (None, {name: pins for name, pins in pinned.items() if name != server})
        )

    def _update(self, server: str, change: Callable[[_Servers], tuple[_A, _Servers | None]]) -> EffectOf[_A, McpError]:
        path = self._path

        def fail(error: Exception) -> McpError | None:
            if not isinstance(error, OSError | ValueError):
                return None
            problem = f"cannot use the pins in {str(path)!r}: {error}"
            return McpError(server, "pins", problem, "Repair or delete the file. Then every tool is unknown")

        def update() -> _A:
            with self._lock:
                value, changed = change(self._servers)
                self._servers = self._servers if changed is None else changed
            return value

        def update_shared(path: Path) -> _A:
            with self._lock, update_file(path) as file:
                value, changed = change({} if file.content is None else read_record(file.content, _File).servers)
                if changed is not None:
                    file.content = msgspec.json.format(msgspec.json.encode(_File(1, changed)), indent=1)
            return value

        return attempt_work(update if path is None else partial(update_shared, path), fail, in_thread=path is not None)

    def __reduce__(self) -> Any:
        if self._path is None:
            raise TypeError("cannot pickle Pins.in_process(), because it ends with this process. Use Pins.file.")
        return Pins, (self._path, self._unseen)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pins) or self._path is None:
            return self is other
        return (self._path, self._unseen) == (other._path, other._unseen)

    @override
    def __hash__(self) -> int:
        return hash((Pins, self._path or id(self)))

    @override
    def __repr__(self) -> str:
        return "Pins.in_process()" if self._path is None else f"Pins.file({str(self._path)!r})"


def look_alikes(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return the names that look like another name, with that name; a name with invisible characters with itself.

    Names of ASCII letters come first, so that the function returns the imitation.

    >>> look_alikes(["rea\u0501", "read"], []) == {"rea\u0501": "read"}
    True
    """
    owners = {_looks(name): name for name in known}
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: not name.isascii()):
        owner = owners.setdefault(_looks(name), name)
        # a space between words is visible
        is_hidden = any(one != " " and unicodedata.category(one)[0] in "CZ" for one in name) or name != name.strip()
        if owner != name or is_hidden:
            found[name] = owner
    return found


def _looks(name: str) -> str:
    """Return the look of a name, without accents and invisible characters, with one letter per group of look-alikes."""
    visible = _ESCAPE.sub("", name)
    parts = unicodedata.normalize("NFKD", "".join(_LOOKS.get(one, one) for one in visible))
    seen = (one for one in parts if unicodedata.category(one)[0] not in "CM")
    return "".join(_LOOKS.get(one, one) for one in seen).casefold().strip()
