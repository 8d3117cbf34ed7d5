"""The actions of Anthropic's toolsets for a computer and a browser. Use them in the handler of a toolset.

In a request to Anthropic, each action is a separate tool. In fxai, the actions are the parameters of a single tool.

>>> import msgspec
>>> msgspec.convert({"action": "left_click", "coordinate": [10, 20]}, ComputerAction)
ComputerLeftClick(coordinate=(10, 20), text=None)
>>> msgspec.convert({"action": "navigate", "url": "https://example.com"}, BrowserAction)
BrowserNavigate(url='https://example.com', tab_id=None)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, final

import msgspec

from fxai.models.prepared_tools import Setting

Coordinate: TypeAlias = tuple[int, int]
"""Pixels from the left edge and from the top edge."""

Region: TypeAlias = tuple[int, int, int, int]
"""The left, top, right, and bottom edges, in pixels."""

Direction: TypeAlias = Literal["up", "down", "left", "right"]
"""The direction of scrolling."""


@final
class CoordinateTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="coordinate"):
    """A position on the page, in pixels from the left and the top."""

    x: int
    y: int


@final
class RefTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ref"):
    """An element of the page, by a reference from reading the page."""

    ref: str


Target: TypeAlias = CoordinateTarget | RefTarget
"""A position or an element."""


@final
class ToolsetMember(Setting, frozen=True):
    """An action of a toolset: True if the model has the action, and True if it must search for the action first."""

    enabled: bool | None = None
    defer_loading: bool | None = None


# -- a computer


class _ComputerAction(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """An action of a computer."""


class _ComputerClick(_ComputerAction, frozen=True):
    """A click while the keys of `text` are pressed. Without a coordinate, the pointer does not move."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerKey(_ComputerAction, frozen=True, tag="key"):
    """Press a key or several keys together, such as `ctrl+s`."""

    text: str
    repeat: int | None = None


@final
class ComputerHoldKey(_ComputerAction, frozen=True, tag="hold_key"):
    """Press keys for a number of seconds."""

    text: str
    duration: int


@final
class ComputerType(_ComputerAction, frozen=True, tag="type"):
    """Type text."""

    text: str


@final
class ComputerCursorPosition(_ComputerAction, frozen=True, tag="cursor_position"):
    """Return the position of the pointer."""


@final
class ComputerMouseMove(_ComputerAction, frozen=True, tag="mouse_move"):
    """Move the pointer."""

    coordinate: Coordinate


@final
class ComputerLeftMouseDown(_ComputerAction, frozen=True, tag="left_mouse_down"):
    """Press the left button at the position of the pointer."""


@final
class ComputerLeftMouseUp(_ComputerAction, frozen=True, tag="left_mouse_up"):
    """Release the left button."""


@final
class ComputerLeftClick(_ComputerClick, frozen=True, tag="left_click"):
    """Click while the keys of `text` are pressed. Without a coordinate, do not move the pointer."""


@final
class ComputerLeftClickDrag(_ComputerAction, frozen=True, tag="left_click_drag"):
    """Press the left button at one position and release it at another position."""

    start_coordinate: Coordinate
    coordinate: Coordinate
    text: str | None = None


@final
class ComputerRightClick(_ComputerClick, frozen=True, tag="right_click"):
    """Click with the right button."""


@final
class ComputerMiddleClick(_ComputerClick, frozen=True, tag="middle_click"):
    """Click with the middle button."""


@final
class ComputerDoubleClick(_ComputerClick, frozen=True, tag="double_click"):
    """Click twice."""


@final
class ComputerTripleClick(_ComputerClick, frozen=True, tag="triple_click"):
    """Click three times."""


@final
class ComputerScroll(_ComputerAction, frozen=True, tag="scroll"):
    """Scroll by a number of notches."""

    scroll_direction: Direction
    scroll_amount: int
    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerWait(_ComputerAction, frozen=True, tag="wait"):
    """Wait for a number of seconds."""

    duration: int


@final
class ComputerScreenshot(_ComputerAction, frozen=True, tag="screenshot"):
    """Take a screenshot."""


@final
class ComputerZoom(_ComputerAction, frozen=True, tag="zoom"):
    """Take a screenshot of a region: left, top, right, bottom."""

    region: Region


_ComputerKeys: TypeAlias = ComputerKey | ComputerHoldKey | ComputerType
_ComputerButtons: TypeAlias = ComputerLeftMouseDown | ComputerLeftMouseUp | ComputerLeftClickDrag | ComputerMouseMove
_ComputerClicks: TypeAlias = (
    ComputerLeftClick | ComputerRightClick | ComputerMiddleClick | ComputerDoubleClick | ComputerTripleClick
)
_ComputerViews: TypeAlias = ComputerCursorPosition | ComputerScroll | ComputerScreenshot | ComputerZoom | ComputerWait
ComputerAction: TypeAlias = _ComputerKeys | _ComputerButtons | _ComputerClicks | _ComputerViews
"""An action of a computer."""

ComputerConfigs: TypeAlias = Mapping[
    Literal["key", "hold_key", "type", "cursor_position", "scroll", "screenshot", "zoom", "wait"]
    | Literal["left_mouse_down", "left_mouse_up", "left_click_drag", "mouse_move", "left_click", "right_click"]
    | Literal["middle_click", "double_click", "triple_click"],
    ToolsetMember,
]
"""The actions of the computer that the model has, by name. By default, the provider's defaults apply."""


# -- a browser


class _BrowserAction(msgspec.Struct, frozen=True, tag_field="action"):
    """An action of a browser."""


class _TabAction(_BrowserAction, frozen=True, kw_only=True):
    """An action on a tab. By default, the action uses the visible tab."""

    tab_id: str | None = None


class _Click(_TabAction, frozen=True):
    """A click on a target while `modifiers` are pressed."""

    target: Target
    modifiers: str | None = None


class _PointerAction(_TabAction, frozen=True):
    """An action of the pointer at a position."""

    target: CoordinateTarget


@final
class BrowserNavigate(_TabAction, frozen=True, tag="navigate"):
    """Go to a URL."""

    url: str


@final
class BrowserListTabs(_BrowserAction, frozen=True, tag="list_tabs"):
    """List the open tabs."""


@final
class BrowserNewTab(_BrowserAction, frozen=True, tag="new_tab"):
    """Open a tab."""


@final
class BrowserSwitchTab(_BrowserAction, frozen=True, tag="switch_tab"):
    """Show another tab."""

    tab_id: str


@final
class BrowserCloseTab(_BrowserAction, frozen=True, tag="close_tab"):
    """Close a tab."""

    tab_id: str


@final
class BrowserReadPage(_TabAction, frozen=True, tag="read_page"):
    """Return the contents of the page as a tree of elements with references."""

    filter: Literal["interactive", "all"] | None = None
    ref: str | None = None
    depth: int | None = None


@final
class BrowserGetPageText(_TabAction, frozen=True, tag="get_page_text"):
    """Return the text of the page."""


@final
class BrowserReadConsole(_TabAction, frozen=True, tag="read_console"):
    """Return the output of the page on its console."""


@final
class BrowserReadNetwork(_TabAction, frozen=True, tag="read_network"):
    """Return the network requests of the page."""


@final
class BrowserFind(_TabAction, frozen=True, tag="find"):
    """Find elements by a description."""

    query: str


@final
class BrowserFormInput(_TabAction, frozen=True, tag="form_input"):
    """Set a field of a form."""

    target: RefTarget
    value: str | bool | float


@final
class BrowserFileUpload(_TabAction, frozen=True, tag="file_upload"):
    """Add files to a field: files of this machine, or documents of the conversation."""

    target: RefTarget
    paths: tuple[str, ...] | None = None
    document_ids: tuple[str, ...] | None = None


@final
class BrowserScrollTo(_TabAction, frozen=True, tag="scroll_to"):
    """Scroll until an element is visible."""

    target: RefTarget


@final
class BrowserScreenshot(_TabAction, frozen=True, tag="screenshot"):
    """Take a screenshot of the page."""


@final
class BrowserZoom(_TabAction, frozen=True, tag="zoom"):
    """Take a screenshot of a region of the page: left, top, right, bottom."""

    region: Region


@final
class BrowserLeftClick(_Click, frozen=True, tag="left_click"):
    """Click while `modifiers` are pressed."""


@final
class BrowserRightClick(_Click, frozen=True, tag="right_click"):
    """Click with the right button while `modifiers` are pressed."""


@final
class BrowserMiddleClick(_Click, frozen=True, tag="middle_click"):
    """Click with the middle button while `modifiers` are pressed."""


@final
class BrowserDoubleClick(_Click, frozen=True, tag="double_click"):
    """Click twice while `modifiers` are pressed."""


@final
class BrowserTripleClick(_Click, frozen=True, tag="triple_click"):
    """Click three times while `modifiers` are pressed."""


@final
class BrowserHover(_TabAction, frozen=True, tag="hover"):
    """Move the pointer over a target."""

    target: Target


@final
class BrowserLeftClickDrag(_TabAction, frozen=True, tag="left_click_drag"):
    """Press the left button at one position and release it at another position."""

    start: CoordinateTarget = msgspec.field(name="from")
    target: CoordinateTarget


@final
class BrowserLeftMouseDown(_PointerAction, frozen=True, tag="left_mouse_down"):
    """Press the left button."""


@final
class BrowserLeftMouseUp(_PointerAction, frozen=True, tag="left_mouse_up"):
    """Release the left button."""


@final
class BrowserMouseMove(_PointerAction, frozen=True, tag="mouse_move"):
    """Move the pointer."""


@final
class BrowserScroll(_TabAction, frozen=True, tag="scroll"):
    """Scroll at a position by a number of notches."""

    target: CoordinateTarget
    scroll_direction: Direction
    scroll_amount: int | None = None


@final
class BrowserType(_TabAction, frozen=True, tag="type"):
    """Type text."""

    text: str


@final
class BrowserKey(_TabAction, frozen=True, tag="key"):
    """Press a key or several keys together, a number of times."""

    text: str
    repeat: int | None = None


@final
class BrowserHoldKey(_TabAction, frozen=True, tag="hold_key"):
    """Press keys for a number of seconds."""

    text: str
    duration: float


@final
class BrowserWait(_TabAction, frozen=True, tag="wait"):
    """Wait for a number of seconds."""

    duration: float


@final
class BrowserJavascriptExec(_TabAction, frozen=True, tag="javascript_exec"):
    """Run a script in the page."""

    text: str


_BrowserTabs: TypeAlias = BrowserNavigate | BrowserListTabs | BrowserNewTab | BrowserSwitchTab | BrowserCloseTab
_BrowserReads: TypeAlias = BrowserReadPage | BrowserGetPageText | BrowserReadConsole | BrowserReadNetwork | BrowserFind
_BrowserForms: TypeAlias = BrowserFormInput | BrowserFileUpload | BrowserJavascriptExec
_BrowserViews: TypeAlias = BrowserScrollTo | BrowserScroll | BrowserScreenshot | BrowserZoom | BrowserWait
_BrowserClicks: TypeAlias = (
    BrowserLeftClick | BrowserRightClick | BrowserMiddleClick | BrowserDoubleClick | BrowserTripleClick
)
_BrowserMouse: TypeAlias = (
    BrowserHover | BrowserLeftClickDrag | BrowserLeftMouseDown | BrowserLeftMouseUp | BrowserMouseMove
)
_BrowserKeys: TypeAlias = BrowserType | BrowserKey | BrowserHoldKey
BrowserAction: TypeAlias = (
    _BrowserTabs | _BrowserReads | _BrowserForms | _BrowserViews | _BrowserClicks | _BrowserMouse | _BrowserKeys
)
"""An action of a browser."""

BrowserConfigs: TypeAlias = Mapping[
    Literal["navigate", "list_tabs", "new_tab", "switch_tab", "close_tab", "read_page", "get_page_text", "find"]
    | Literal["read_console", "read_network", "form_input", "file_upload", "javascript_exec", "scroll_to", "scroll"]
    | Literal["screenshot", "zoom", "wait", "left_click", "right_click", "middle_click", "double_click", "hover"]
    | Literal["triple_click", "left_click_drag", "left_mouse_down", "left_mouse_up", "mouse_move"]
    | Literal["type", "key", "hold_key"],
    ToolsetMember,
]
"""The actions of the browser that the model has, by name. By default, the provider's defaults apply."""
