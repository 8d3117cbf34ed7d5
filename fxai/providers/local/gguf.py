"""What a GGUF file says of itself: its name, its architecture, the context it was trained for, its chat template.

Only the header is read: the key-value pairs before the tensors, in the layout of the GGUF specification (versions 2
and 3, little-endian).

>>> import struct
>>> def text(value): return struct.pack("<Q", len(value)) + value.encode()
>>> header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("general.name") + struct.pack("<I", 8) + text("tiny")
>>> describe(header).name
'tiny'
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, Final, final

import msgspec

from fxai.messages.reason import ModelUnavailableError
from fxai.providers.local.failure import LocalFailure

__all__ = ["Description", "describe", "read_description"]

_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT: Final = 8
_ARRAY: Final = 9


@final
class Description(msgspec.Struct, frozen=True):
    """What the header says; None for what it does not say."""

    name: str | None = None
    architecture: str | None = None
    context: int | None = None
    chat_template: str | None = None
    pools: bool = False
    """Whether it says how the vectors of tokens become the one of a text: models that were made to embed do."""


def read_description(path: Path) -> Description:
    """What the file at ``path`` says of itself. Raises `LocalFailure` when its header cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return describe(data)
    except (OSError, ValueError, struct.error, UnicodeDecodeError, IndexError, KeyError) as wrong:
        said = f"its GGUF header is broken ({wrong}); get the file again"
        raise LocalFailure(ModelUnavailableError(model=str(path), problem="unreadable", description=said)) from wrong


def describe(data: bytes | mmap.mmap) -> Description:
    """What a header says of the file. Raises `ValueError`, `KeyError` or `struct.error` for what is no such header."""
    version, _, pairs = struct.unpack_from("<IQQ", data, 4)
    if data[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError(f"version {version} is not known")

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
        pools=bool(found.get(f"{architecture}.pooling_type")),  # 0 is for none
    )


class _Reader:
    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self.at = 24

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise ValueError("the file ends in the middle of it")
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
        """Steps over an array; vocabularies are long, and nothing here needs them."""
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
