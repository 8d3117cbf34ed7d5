"""Pictures in a terminal: shown where it can, told in a line elsewhere, and never able to steer it."""

from __future__ import annotations

import base64
import io
import re
import zlib

import pytest
from typing_extensions import override

from fxai.cli.exit import writable
from fxai.cli.picture import picture_codes, picture_protocol
from fxai.cli.screen import TerminalScreen
from fxai.messages import File, FileUrl
from tests.kit.every import every

EVIL = "\x1b]0;owned\x07\x1b\\\u202e\n"


class Terminal(io.StringIO):
    """A terminal that keeps what it was given."""

    @override
    def isatty(self) -> bool:
        return True


def png(width: int = 2, height: int = 2, more: bytes = b"") -> bytes:
    """A PNG picture of these sides, as its head says, with more data behind."""
    head = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + head + zlib.crc32(head).to_bytes(4, "big") + more


def shown(monkeypatch: pytest.MonkeyPatch, file: File, **variables: str) -> str:
    """What a terminal with these variables is given for a file."""
    for name in ("TMUX", "STY", "NO_COLOR", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    TerminalScreen(writable(terminal)).part(file, 1)
    return terminal.getvalue()


def kitty_data(text: str) -> bytes:
    """The picture in codes of kitty's protocol."""
    pieces = re.findall(r"\x1b_G[^;\x1b]*;([A-Za-z0-9+/=]*)\x1b\\", text)
    return base64.b64decode("".join(pieces))


def test_a_picture_is_shown_where_the_terminal_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its data comes, in chunks of a size that the protocol allows, and the terminal is asked for no answer."""
    picture = png(200, 100, bytes(range(256)) * 100)
    kitty = shown(monkeypatch, File("image/png", picture, "plot.png"), TERM="xterm-kitty")
    iterm = shown(monkeypatch, File("image/png", picture), TERM="xterm-256color", TERM_PROGRAM="iTerm.app")

    assert "+ file plot.png (image/png, 25,633 bytes)" in kitty
    assert kitty_data(kitty) == picture
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)", kitty)
    assert all("q=2" in about.split(",") and len(data) <= 4096 for about, data in pieces)
    assert [about[-3:] for about, _ in pieces] == ["m=1"] * (len(pieces) - 1) + ["m=0"]
    found = re.search(r"\x1b\]1337;File=[^:\x07]*:([^\x07]*)\x07", iterm)
    assert found is not None
    assert base64.b64decode(found[1]) == picture


@every(
    "variables",
    [
        {"TERM": "xterm-256color"},
        {"TERM": "dumb", "KITTY_WINDOW_ID": "1"},
        {"TERM": "xterm-kitty", "NO_COLOR": "1"},
        {"TERM": "screen-256color", "KITTY_WINDOW_ID": "1"},
        {"TERM": "xterm-kitty", "TMUX": "/tmp/tmux-0/default,1,0"},
    ],
)
def test_elsewhere_a_picture_is_a_line(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Its name, its type and its size; no data at all."""
    text = shown(monkeypatch, File("image/png", png(), "plot.png"), **variables)

    assert "+ file plot.png (image/png, 33 bytes)" in text
    assert "\x1b_G" not in text
    assert "1337" not in text


@every(
    "data",
    [
        EVIL.encode(),
        b"\x89PNG\r\n\x1a\n" + EVIL.encode() * 9,
        png(0, 5),
        png(2**31, 2**31),
        png(5000, 5),
        png(more=bytes(5 * 1024 * 1024)),
        png()[:20],
    ],
)
@every("term", ["xterm-kitty", "xterm-256color"])
def test_what_is_no_picture_is_not_shown(monkeypatch: pytest.MonkeyPatch, data: bytes, term: str) -> None:
    """Data that is none, is cut, or would be too large when unpacked stays a line, whatever its type says."""
    text = shown(monkeypatch, File("image/png", data, "a.png"), TERM=term, LC_TERMINAL="iTerm2")

    assert "+ file a.png" in text
    assert "\x1b_G" not in text
    assert "1337" not in text
    assert "\x1b]" not in text


def test_names_and_data_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a name and a type only what is plainly seen is shown; codes in the data are base64."""
    file = File(f"image/{EVIL}", png(more=EVIL.encode() * 3), EVIL)
    text = shown(monkeypatch, file, TERM="xterm-kitty")
    plain = re.sub(r"\x1b_G[a-zA-Z0-9=,]*;[A-Za-z0-9+/=]*\x1b\\", "", text)

    assert kitty_data(text) == png(more=EVIL.encode() * 3)
    assert "\x1b]" not in plain
    assert "\x07" not in plain
    assert "\u202e" not in plain


def test_a_file_at_an_address_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched."""
    text = shown(monkeypatch, File("image/png", FileUrl("https://example.org/a.png")), TERM="xterm-kitty")

    assert "+ file image/png" in text
    assert "\x1b_G" not in text


def test_a_wide_picture_fits_into_the_terminal() -> None:
    """It takes as many columns as there are at most; a small one is not made larger."""
    assert "c=76," in str(picture_codes(png(4000, 100), "kitty", 76))
    assert "c=3," in str(picture_codes(png(20, 20), "kitty", 76))


def test_what_the_terminal_is_its_variables_say() -> None:
    """Those that are known to show pictures, and no others."""
    assert picture_protocol({"TERM": "xterm-ghostty"}) == "kitty"
    assert picture_protocol({"TERM_PROGRAM": "WezTerm", "TERM": "xterm-256color"}) == "iterm"
    assert picture_protocol({"LC_TERMINAL": "iTerm2"}) == "iterm"
    assert picture_protocol({}) is None
