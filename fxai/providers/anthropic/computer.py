"""A computer, as Anthropic's toolset uses one: each action, and which of them the model has.

On the wire each action is a tool of its own; here they are the parameters of one tool.

>>> import msgspec
>>> msgspec.convert({"action": "left_click", "coordinate": [10, 20]}, ComputerAction)
ComputerLeftClick(coordinate=(10, 20), text=None)
"""

from __future__ import annotations

from typing import TypeAlias, final

import msgspec

from fxai.providers.anthropic.coordinates import Coordinate, Direction, Region
from fxai.providers.anthropic.setting import Member, Setting

__all__ = [
    "ComputerAction",
    "ComputerConfigs",
    "ComputerCursorPosition",
    "ComputerDoubleClick",
    "ComputerHoldKey",
    "ComputerKey",
    "ComputerLeftClick",
    "ComputerLeftClickDrag",
    "ComputerLeftMouseDown",
    "ComputerLeftMouseUp",
    "ComputerMiddleClick",
    "ComputerMouseMove",
    "ComputerRightClick",
    "ComputerScreenshot",
    "ComputerScroll",
    "ComputerTripleClick",
    "ComputerType",
    "ComputerWait",
    "ComputerZoom",
]


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """What a computer is asked to do."""


@final
class ComputerKey(_Action, frozen=True, tag="key"):
    """Press a key or keys together, such as `ctrl+s`."""

    text: str
    repeat: int | None = None


@final
class ComputerHoldKey(_Action, frozen=True, tag="hold_key"):
    """Hold keys down for some seconds."""

    text: str
    duration: int


@final
class ComputerType(_Action, frozen=True, tag="type"):
    """Type a text."""

    text: str


@final
class ComputerCursorPosition(_Action, frozen=True, tag="cursor_position"):
    """Say where the pointer is."""


@final
class ComputerMouseMove(_Action, frozen=True, tag="mouse_move"):
    """Move the pointer."""

    coordinate: Coordinate


@final
class ComputerLeftMouseDown(_Action, frozen=True, tag="left_mouse_down"):
    """Press the left button where the pointer is."""


@final
class ComputerLeftMouseUp(_Action, frozen=True, tag="left_mouse_up"):
    """Let the left button go."""


@final
class ComputerLeftClick(_Action, frozen=True, tag="left_click"):
    """Click, with the keys of `text` held down; without a coordinate, where the pointer is."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerLeftClickDrag(_Action, frozen=True, tag="left_click_drag"):
    """Press the left button at one place and let it go at another."""

    start_coordinate: Coordinate
    coordinate: Coordinate
    text: str | None = None


@final
class ComputerRightClick(_Action, frozen=True, tag="right_click"):
    """Click with the right button."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerMiddleClick(_Action, frozen=True, tag="middle_click"):
    """Click with the middle button."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerDoubleClick(_Action, frozen=True, tag="double_click"):
    """Click twice."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerTripleClick(_Action, frozen=True, tag="triple_click"):
    """Click three times."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerScroll(_Action, frozen=True, tag="scroll"):
    """Scroll by so many notches."""

    scroll_direction: Direction
    scroll_amount: int
    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerWait(_Action, frozen=True, tag="wait"):
    """Wait for some seconds."""

    duration: int


@final
class ComputerScreenshot(_Action, frozen=True, tag="screenshot"):
    """Take a picture of the screen."""


@final
class ComputerZoom(_Action, frozen=True, tag="zoom"):
    """Take a picture of a part of the screen: left, top, right, bottom."""

    region: Region


ComputerAction: TypeAlias = (
    ComputerKey
    | ComputerHoldKey
    | ComputerType
    | ComputerCursorPosition
    | ComputerMouseMove
    | ComputerLeftMouseDown
    | ComputerLeftMouseUp
    | ComputerLeftClick
    | ComputerLeftClickDrag
    | ComputerRightClick
    | ComputerMiddleClick
    | ComputerDoubleClick
    | ComputerTripleClick
    | ComputerScroll
    | ComputerWait
    | ComputerScreenshot
    | ComputerZoom
)
"""One thing that a computer is asked to do."""


@final
class ComputerConfigs(Setting, frozen=True):
    """Which actions of the computer the model has; None: the provider's own default."""

    cursor_position: Member | None = None
    double_click: Member | None = None
    hold_key: Member | None = None
    key: Member | None = None
    left_click: Member | None = None
    left_click_drag: Member | None = None
    left_mouse_down: Member | None = None
    left_mouse_up: Member | None = None
    middle_click: Member | None = None
    mouse_move: Member | None = None
    right_click: Member | None = None
    screenshot: Member | None = None
    scroll: Member | None = None
    triple_click: Member | None = None
    type: Member | None = None
    wait: Member | None = None
    zoom: Member | None = None
