"""Views of models: the list as a table for people, or as plain data.

>>> import io
>>> out = io.StringIO()
>>> show_models(("local",), out, as_json=True)
True
>>> '"name":"local"' in out.getvalue()
True
"""

from __future__ import annotations

from typing import Final, TextIO

from fxai.cli.model_list import Entry, listed
from fxai.cli.text import json_line, one_line

__all__ = ["show_models"]

_HEADS: Final = ("MODEL", "TOOLS", "STRICT", "STRUCTURED", "IMAGES", "EMBEDDINGS", "STATE")


def show_models(
    names: tuple[str, ...], out: TextIO, *, check: bool = False, as_json: bool = False, color: bool | None = None
) -> bool:
    """Shows the models of these names; False where one that was named, or was asked, cannot be used.

    Raises:
        Trouble: a name is of no provider.
    """
    entries = listed(names)
    if check:
        from fxai.cli.model_check import checked

        entries = checked(entries)
    ok = all(entry.ok or not ((names and check) or entry.checked) for entry in entries)
    if as_json:
        data = {"ok": ok, "models": [entry.to_data() for entry in entries]}
        out.write(json_line(data))
    else:
        _table(entries, out, color)
    return ok


def _table(entries: tuple[Entry, ...], out: TextIO, color: bool | None) -> None:
    from fxai.cli.screen import console

    screen = console(out, color)
    rows = [_row(entry) for entry in entries]
    wide = [max(map(len, column)) for column in zip(*(row[:-1] for row in (_HEADS, *rows)), strict=True)]
    for number, row in enumerate((_HEADS, *rows)):
        cells = "  ".join(f"{cell:<{size}}" for cell, size in zip(row[:-1], wide, strict=True))
        screen.print(cells, style="bold" if number == 0 else None, end="  ")
        fine = number == 0 or entries[number - 1].ok
        screen.print(row[-1], style=("bold" if number == 0 else "green") if fine else "yellow")


def _row(entry: Entry) -> tuple[str, ...]:
    can = entry.can
    name = one_line(entry.name) + (" (default)" if entry.default else "")
    return (name, can.tools, can.strict, can.structured, can.images, can.embeddings or "no", entry.told)
