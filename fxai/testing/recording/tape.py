"""The exchanges of one cassette: which one answers a request, which are added, and their file."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Final, final

import msgspec

from fxai.storage.private_file import replace_file
from fxai.testing.recording.content import Asked, Exchange, pretty
from fxai.testing.recording.failure import CassetteError

__all__ = ["Tape"]

_VERSION: Final = 1
_LINES, _WIDTH = 60, 160


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    exchanges: list[Exchange]


@final
class Tape:
    """The exchanges of one cassette, in order.

    Args:
        path: Its file.
        exchanges: What is recorded already.
    """

    def __init__(self, path: Path, exchanges: list[Exchange]) -> None:
        self._path = path
        self._recorded = exchanges
        self._left = list(range(len(exchanges)))
        self._added: list[Callable[[], Exchange | None]] = []

    @staticmethod
    def read(path: Path) -> Tape:
        """The tape that a file holds.

        Raises:
            CassetteError: there is no such file, or it is none of a cassette.
        """
        try:
            file = msgspec.convert(json.loads(path.read_bytes()), _File)
        except FileNotFoundError:
            raise CassetteError(f"there is no cassette {path}: record it first, with mode 'record' or 'auto'") from None
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise CassetteError(f"{path} is no cassette: {error}; record it anew, with mode 'record'") from None
        if file.version != _VERSION:
            raise CassetteError(f"{path} is of version {file.version}, not {_VERSION}: record it anew")
        return Tape(path, file.exchanges)

    def take(self, asked: Asked) -> Exchange | None:
        """The first exchange that answers it and was not taken yet; None where there is none."""
        for number in self._left:
            if self._recorded[number].request.key == asked.key:
                self._left.remove(number)
                return self._recorded[number]
        return None

    def add(self, exchange: Callable[[], Exchange | None]) -> None:
        """Keeps the place of an exchange that has begun: what `exchange` gives in the end is written there."""
        self._added.append(exchange)

    def write(self) -> None:
        """Writes the file, whole or not at all, if anything was added."""
        added = [exchange for make in self._added if (exchange := make()) is not None]
        if self._recorded and not added:
            return
        data = msgspec.to_builtins(_File(_VERSION, [*self._recorded, *added]))
        text = json.dumps(data, ensure_ascii=False, indent=2)
        replace_file(self._path, f"{text}\n".encode())

    def missing(self, asked: Asked) -> CassetteError:
        """The error of a request that nothing answers, with the nearest one that is recorded."""
        said = f"no exchange of the cassette {self._path} answers {asked.method} {asked.path}"
        same = sum(exchange.request.key == asked.key for exchange in self._recorded)
        remedy = "Record it anew with mode 'record', or add what is missing with mode 'auto'."
        if same:
            return CassetteError(f"{said} once more: it was recorded {same} times and asked {same + 1} times. {remedy}")
        if not self._recorded:
            return CassetteError(f"{said}: it is empty. {remedy}")
        number = max(range(len(self._recorded)), key=lambda n: _likeness(self._recorded[n].request, asked))
        nearest = self._recorded[number].request
        return CassetteError(f"{said}. The nearest is number {number + 1}:\n{_difference(nearest, asked)}\n{remedy}")


def _likeness(recorded: Asked, asked: Asked) -> tuple[bool, bool, float]:
    lines = SequenceMatcher(None, pretty(recorded.body).splitlines(), pretty(asked.body).splitlines(), autojunk=False)
    return (recorded.path == asked.path, recorded.method == asked.method, lines.ratio())


def _difference(recorded: Asked, asked: Asked) -> str:
    lines = list(unified_diff(_lines(recorded), _lines(asked), "recorded", "asked", lineterm="", n=2))
    more = [f"… and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
    return "\n".join([*(line if len(line) <= _WIDTH else line[:_WIDTH] + "…" for line in lines[:_LINES]), *more])


def _lines(asked: Asked) -> list[str]:
    return [f"{asked.method} {asked.path}", *pretty(asked.body).splitlines()]
