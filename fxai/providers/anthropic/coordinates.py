"""Coordinates on a screen or a page, and other ways to say where an action is.

>>> CoordinateTarget(x=10, y=20).y
20
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

__all__ = ["Coordinate", "CoordinateTarget", "Direction", "RefTarget", "Region", "Target"]

Coordinate: TypeAlias = tuple[int, int]
"""Pixels from the left and from the top."""

Region: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""

Direction: TypeAlias = Literal["up", "down", "left", "right"]
"""Where to scroll."""


@final
class CoordinateTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="coordinate"):
    """A place on the page, in pixels from the left and the top."""

    x: int
    y: int


@final
class RefTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ref"):
    """An element of the page, by the reference that reading the page gave."""

    ref: str


Target: TypeAlias = CoordinateTarget | RefTarget
"""A place or an element."""
