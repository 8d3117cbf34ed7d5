"""Pictures in a terminal. Use `picture_codes` to get the escape codes if `picture_protocol` finds a supported terminal.

fxai never queries the terminal, because its reply could look like typed input. The environment variables identify the
terminal. fxai shows no pictures inside `tmux` and `screen`, which do not forward them, or if color is off.

>>> picture_protocol({"TERM": "xterm-kitty"}), picture_protocol({"TERM_PROGRAM": "iTerm.app"})
('kitty', 'iterm')
>>> picture_protocol({"TERM": "xterm-256color"}), picture_protocol({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"})
(None, None)
>>> picture_codes(b"no picture at all", "kitty", 80) is None
True
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

Protocol: TypeAlias = Literal["kitty", "iterm"]
"""The protocol for pictures: the graphics protocol of kitty, or the inline images of iTerm2."""

_MOST_PIXELS: Final = 4096  # per row and per column, so that the unpacked picture fits into the terminal's memory
_CHUNK: Final = 4096
_MULTIPLEXERS: Final = ("screen", "tmux")


def picture_protocol(environment: Mapping[str, str]) -> Protocol | None:
    """Return the protocol of the terminal in this environment, or None if fxai knows no protocol."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or "STY" in environment or term.startswith(_MULTIPLEXERS) or environment.get("NO_COLOR"):
        return None
    if term in ("xterm-kitty", "xterm-ghostty") or "KITTY_WINDOW_ID" in environment or program in ("kitty", "ghostty"):
        return "kitty"
    return "iterm" if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2" else None


def picture_codes(data: bytes, protocol: Protocol, columns: int) -> str | None:
    """Return the escape codes that show a PNG picture in at most `columns` columns, or None.

    Other formats (by the first bytes), files of more than 4 MiB, and pictures of more than 4,096 pixels are not shown.
    The data is sent only as base64, so that the terminal cannot read any of it as another code.
    """
    size = _png_size(data)
    if size is None or len(data) > 4 * 1024 * 1024:
        return None
    width = min(size[0] // 10 + 1, columns)
    if protocol == "kitty":
        return "".join(_kitty_codes(b64encode(data).decode(), width))
    about = f"inline=1;size={len(data)};width={width};preserveAspectRatio=1"
    return f"\x1b]1337;File={about}:{b64encode(data).decode()}\x07"


def _png_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and the height of a PNG picture in pixels, or None if it is too large or not a PNG picture."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return (width, height) if 0 < width <= _MOST_PIXELS and 0 < height <= _MOST_PIXELS else None


def _kitty_codes(text: str, width: int) -> Iterator[str]:
    """Yield the data in chunks. `q=2` tells the terminal not to reply."""
    for start in range(0, len(text), _CHUNK):
        more = int(start + _CHUNK < len(text))
        about = f"a=T,f=100,q=2,c={width},m={more}" if start == 0 else f"q=2,m={more}"
        yield f"\x1b_G{about};{text[start : start + _CHUNK]}\x1b\\"
