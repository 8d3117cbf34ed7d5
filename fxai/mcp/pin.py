"""Pins: the digests of a server's tools as they were approved.

A tool whose title, description, schemas or hints differ from the approved ones is held back until it is approved again.
Servers are told apart by name; a new tool is trusted the first time, unless the pins hold back new tools too.

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

from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.effect import AwaitExit, EffectOf, Succeed, Suspend
from fxai.mcp.result import McpError
from fxai.storage.private_file import file_path, locked, read_file, read_record, replace_file

__all__ = ["Digests", "Pins", "Unseen"]

_A = TypeVar("_A")

Digests: TypeAlias = Mapping[str, Mapping[str, str]]
"""For each tool, the digest of each part of its definition."""

Unseen: TypeAlias = Literal["trust", "hold"]
"""For a tool that was never seen: trust and pin it, or hold it back until it is approved."""

_Kept: TypeAlias = dict[str, dict[str, dict[str, str]]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    servers: _Kept


@final
class Pins:
    """A store of digests: in this process, or in a file that many processes may share."""

    __slots__ = ("_kept", "_lock", "_path", "_unseen")

    def __init__(self, path: Path | None, unseen: Unseen) -> None:
        """Use `Pins.in_process` or `Pins.file`."""
        self._path = path
        self._unseen: Unseen = unseen
        self._kept: _Kept = {}
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

        def review_pins(kept: _Kept) -> tuple[dict[str, tuple[str, ...]], _Kept | None]:
            known = kept.get(server, {})
            new = {name: dict(parts) for name, parts in seen.items() if name not in known}
            held = {
                name: found
                for name, parts in seen.items()
                if name in known and (found := _changed_parts(known[name], parts))
            }
            if self._unseen == "hold":
                return held | dict.fromkeys(new, ("new",)), None
            return held, {**kept, server: {**known, **new}} if new else None

        return self._change(server, review_pins)

    def approve(self, server: str, seen: Digests) -> EffectOf[None, McpError]:
        """Pins these tools as they are now. Fails as `review`."""

        def approve_pins(kept: _Kept) -> tuple[None, _Kept]:
            added = {name: dict(parts) for name, parts in seen.items()}
            return None, {**kept, server: {**kept.get(server, {}), **added}}

        return self._change(server, approve_pins)

    def forget(self, server: str) -> EffectOf[None, McpError]:
        """Drops all pins of a server: its tools are as if never seen. Fails as `review`."""
        return self._change(server, lambda kept: (None, {name: pins for name, pins in kept.items() if name != server}))

    def _change(self, server: str, change: Callable[[_Kept], tuple[_A, _Kept | None]]) -> EffectOf[_A, McpError]:
        if self._path is None:
            return Suspend(lambda: Succeed(self._in_process(change)))
        path = self._path

        async def work(_: object) -> Exit[_A, McpError]:
            from fxai.effects.thread import in_thread

            try:
                return Succeeded(await in_thread(lambda: self._in_file(path, change)))
            except (OSError, ValueError) as error:
                said = f"the pins in {str(path)!r} cannot be used: {error}"
                remedy = "mend or delete the file; then every tool is as if never seen"
                return Failed(Cause((Fail(McpError(server, "pins", said, remedy)),)))

        return AwaitExit(work)

    def _in_process(self, change: Callable[[_Kept], tuple[_A, _Kept | None]]) -> _A:
        with self._lock:
            value, changed = change(self._kept)
            if changed is not None:
                self._kept = changed
        return value

    def _in_file(self, path: Path, change: Callable[[_Kept], tuple[_A, _Kept | None]]) -> _A:
        with self._lock, locked(path.with_name(f"{path.name}.lock")):
            try:
                kept = read_record(read_file(path), _File).servers
            except FileNotFoundError:
                kept = {}
            value, changed = change(kept)
            if changed is not None:
                replace_file(path, msgspec.json.format(msgspec.json.encode(_File(1, changed)), indent=1))
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


def _changed_parts(known: Mapping[str, str], seen: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in {**known, **seen} if known.get(part) != seen.get(part))
