"""Pins: digests of the tools of MCP servers, as they were when they were approved.

A tool whose title, description, schemas or hints differ from what was approved is held back until it is approved again.
A server is known by its name. A tool that was never seen is trusted the first time, unless the pins hold it back too.

>>> from fxai.effects import fx
>>> pins = Pins.in_process()
>>> fx.run_sync(pins.review("git", {"log": {"description": "a1"}}))
{}
>>> fx.run_sync(pins.review("git", {"log": {"description": "b2"}}))
{'log': ('description',)}
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, final

import msgspec
from typing_extensions import override

from fxai.effects.constructor import attempt_work
from fxai.effects.effect import EffectOf
from fxai.mcp.result import McpError
from fxai.storage import read_record
from fxai.storage.private_file import file_path, update_file

_A = TypeVar("_A")

Digests: TypeAlias = Mapping[str, Mapping[str, str]]
"""For each tool, the digest of each part of its definition."""

Unseen: TypeAlias = Literal["trust", "hold"]
"""How to treat a tool that was never seen: trust and pin it, or hold it back until it is approved."""

_Servers: TypeAlias = dict[str, dict[str, dict[str, str]]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    servers: _Servers


@final
class Pins:
    """A store of digests: in this process, or in a file that many processes may share."""

    __slots__ = ("_lock", "_path", "_servers", "_unseen")

    def __init__(self, path: Path | None, unseen: Unseen) -> None:
        """Use `Pins.in_process` or `Pins.file`."""
        self._path = path
        self._unseen: Unseen = unseen
        self._servers: _Servers = {}
        self._lock = threading.Lock()

    @staticmethod
    def in_process(*, unseen: Unseen = "trust") -> Pins:
        """Pins that end with the process."""
        return Pins(None, unseen)

    @staticmethod
    def file(path: str | os.PathLike[str], *, unseen: Unseen = "trust") -> Pins:
        """Pins in a JSON file, which is replaced as a whole; it and its folder are made when first needed.

        Raises:
            ValueError: no file can have that path.
        """
        return Pins(file_path(path), unseen)

    def review(self, server: str, seen: Digests) -> EffectOf[dict[str, tuple[str, ...]], McpError]:
        """The tools that are held back, and the parts of each that changed: `("new",)` for one never seen.

        Those that are trusted the first time are pinned. Fails with an `McpError` of the kind `"pins"` where the file
        cannot be read or written; then no tool is offered.
        """

        def review(pinned: _Servers) -> tuple[dict[str, tuple[str, ...]], _Servers | None]:
            known = pinned.get(server, {})
            new = {name: dict(parts) for name, parts in seen.items() if name not in known}
            held = {
                name: found for name, parts in seen.items() if name in known and (found := _changes(known[name], parts))
            }
            if self._unseen == "hold":
                return held | dict.fromkeys(new, ("new",)), None
            return held, {**pinned, server: {**known, **new}} if new else None

        return self._update(server, review)

    def approve(self, server: str, seen: Digests) -> EffectOf[None, McpError]:
        """Pins these tools as they are now. Fails as `review`."""

        def approve(pinned: _Servers) -> tuple[None, _Servers]:
            added = {name: dict(parts) for name, parts in seen.items()}
            return None, {**pinned, server: {**pinned.get(server, {}), **added}}

        return self._update(server, approve)

    def forget(self, server: str) -> EffectOf[None, McpError]:
        """Drops all pins of a server: its tools are as if never seen. Fails as `review`."""
        return self._update(
            server, lambda pinned: (None, {name: pins for name, pins in pinned.items() if name != server})
        )

    def _update(self, server: str, change: Callable[[_Servers], tuple[_A, _Servers | None]]) -> EffectOf[_A, McpError]:
        path = self._path

        def fail(error: Exception) -> McpError | None:
            if not isinstance(error, OSError | ValueError):
                return None
            problem = f"the pins in {str(path)!r} cannot be used: {error}"
            return McpError(server, "pins", problem, "mend or delete the file; then every tool is as if never seen")

        if path is None:
            return attempt_work(lambda: self._update_process(change), fail, in_thread=False)
        return attempt_work(lambda: self._update_file(path, change), fail)

    def _update_process(self, change: Callable[[_Servers], tuple[_A, _Servers | None]]) -> _A:
        with self._lock:
            value, changed = change(self._servers)
            if changed is not None:
                self._servers = changed
        return value

    def _update_file(self, path: Path, change: Callable[[_Servers], tuple[_A, _Servers | None]]) -> _A:
        with self._lock, update_file(path) as file:
            value, changed = change({} if file.content is None else read_record(file.content, _File).servers)
            if changed is not None:
                file.content = msgspec.json.format(msgspec.json.encode(_File(1, changed)), indent=1)
        return value

    def __reduce__(self) -> Any:
        if self._path is None:
            raise TypeError("pins of this process end with it: for another process, use Pins.file")
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


def _changes(known: Mapping[str, str], seen: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in {**known, **seen} if known.get(part) != seen.get(part))
