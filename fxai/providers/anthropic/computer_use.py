"""A computer and a browser, as Anthropic's toolsets use them: each action, and which of them the model has.

On the wire each action is a tool of its own; here the actions are the parameters of one tool.

>>> import msgspec
>>> msgspec.convert({"action": "left_click", "coordinate": [10, 20]}, ComputerAction)
ComputerLeftClick(coordinate=(10, 20), text=None)
>>> msgspec.convert({"action": "navigate", "url": "https://example.com"}, BrowserAction)
BrowserNavigate(url='https://example.com', tab_id=None)
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

from fxai.models.prepared_tools import Setting

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


@final
class Member(Setting, frozen=True):
    """One action of a toolset: whether the model has it, and whether it must search for it first."""

    enabled: bool | None = None
    defer_loading: bool | None = None


# -- a computer


class _ComputerAction(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """What a computer is asked to do."""


class _ComputerClick(_ComputerAction, frozen=True):
    """A click, with the keys of `text` held down; without a coordinate, where the pointer is."""

    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerKey(_ComputerAction, frozen=True, tag="key"):
    """Press a key or keys together, such as `ctrl+s`."""

    text: str
    repeat: int | None = None


@final
class ComputerHoldKey(_ComputerAction, frozen=True, tag="hold_key"):
    """Hold keys down for some seconds."""

    text: str
    duration: int


@final
class ComputerType(_ComputerAction, frozen=True, tag="type"):
    """Type a text."""

    text: str


@final
class ComputerCursorPosition(_ComputerAction, frozen=True, tag="cursor_position"):
    """Say where the pointer is."""


@final
class ComputerMouseMove(_ComputerAction, frozen=True, tag="mouse_move"):
    """Move the pointer."""

    coordinate: Coordinate


@final
class ComputerLeftMouseDown(_ComputerAction, frozen=True, tag="left_mouse_down"):
    """Press the left button where the pointer is."""


@final
class ComputerLeftMouseUp(_ComputerAction, frozen=True, tag="left_mouse_up"):
    """Let the left button go."""


@final
class ComputerLeftClick(_ComputerClick, frozen=True, tag="left_click"):
    """Click, with the keys of `text` held down; without a coordinate, where the pointer is."""


@final
class ComputerLeftClickDrag(_ComputerAction, frozen=True, tag="left_click_drag"):
    """Press the left button at one place and let it go at another."""

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
    """Scroll by so many notches."""

    scroll_direction: Direction
    scroll_amount: int
    coordinate: Coordinate | None = None
    text: str | None = None


@final
class ComputerWait(_ComputerAction, frozen=True, tag="wait"):
    """Wait for some seconds."""

    duration: int


@final
class ComputerScreenshot(_ComputerAction, frozen=True, tag="screenshot"):
    """Take a picture of the screen."""


@final
class ComputerZoom(_ComputerAction, frozen=True, tag="zoom"):
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


# -- a browser


class _BrowserAction(msgspec.Struct, frozen=True, tag_field="action"):
    """What a browser is asked to do."""


class _TabAction(_BrowserAction, frozen=True, kw_only=True):
    """An action on a tab; `tab_id` None: the one that is shown."""

    tab_id: str | None = None


class _Click(_TabAction, frozen=True):
    """A click on something, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None


class _PointerAction(_TabAction, frozen=True):
    """An action of the pointer at a place."""

    target: CoordinateTarget


@final
class BrowserNavigate(_TabAction, frozen=True, tag="navigate"):
    """Go to a URL."""

    url: str


@final
class BrowserListTabs(_BrowserAction, frozen=True, tag="list_tabs"):
    """Say which tabs are open."""


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
    """Say what the page holds, as a tree of elements with references."""

    filter: Literal["interactive", "all"] | None = None
    ref: str | None = None
    depth: int | None = None


@final
class BrowserGetPageText(_TabAction, frozen=True, tag="get_page_text"):
    """Give the text of the page."""


@final
class BrowserReadConsole(_TabAction, frozen=True, tag="read_console"):
    """Give what the page wrote to its console."""


@final
class BrowserReadNetwork(_TabAction, frozen=True, tag="read_network"):
    """Give what the page asked of the network."""


@final
class BrowserFind(_TabAction, frozen=True, tag="find"):
    """Find elements by words."""

    query: str


@final
class BrowserFormInput(_TabAction, frozen=True, tag="form_input"):
    """Set a field of a form."""

    target: RefTarget
    value: str | bool | float


@final
class BrowserFileUpload(_TabAction, frozen=True, tag="file_upload"):
    """Put files into a field: of this machine, or documents that were given."""

    target: RefTarget
    paths: tuple[str, ...] | None = None
    document_ids: tuple[str, ...] | None = None


@final
class BrowserScrollTo(_TabAction, frozen=True, tag="scroll_to"):
    """Scroll until an element is in sight."""

    target: RefTarget


@final
class BrowserScreenshot(_TabAction, frozen=True, tag="screenshot"):
    """Take a picture of the page."""


@final
class BrowserZoom(_TabAction, frozen=True, tag="zoom"):
    """Take a picture of a part of the page: left, top, right, bottom."""

    region: Region


@final
class BrowserLeftClick(_Click, frozen=True, tag="left_click"):
    """Click, with `modifiers` held down."""


@final
class BrowserRightClick(_Click, frozen=True, tag="right_click"):
    """Click with the right button, with `modifiers` held down."""


@final
class BrowserMiddleClick(_Click, frozen=True, tag="middle_click"):
    """Click with the middle button, with `modifiers` held down."""


@final
class BrowserDoubleClick(_Click, frozen=True, tag="double_click"):
    """Click twice, with `modifiers` held down."""


@final
class BrowserTripleClick(_Click, frozen=True, tag="triple_click"):
    """Click three times, with `modifiers` held down."""


@final
class BrowserHover(_TabAction, frozen=True, tag="hover"):
    """Move the pointer over something."""

    target: Target


@final
class BrowserLeftClickDrag(_TabAction, frozen=True, tag="left_click_drag"):
    """Press the left button at one place and let it go at another."""

    start: CoordinateTarget = msgspec.field(name="from")
    target: CoordinateTarget


@final
class BrowserLeftMouseDown(_PointerAction, frozen=True, tag="left_mouse_down"):
    """Press the left button."""


@final
class BrowserLeftMouseUp(_PointerAction, frozen=True, tag="left_mouse_up"):
    """Let the left button go."""


@final
class BrowserMouseMove(_PointerAction, frozen=True, tag="mouse_move"):
    """Move the pointer."""


@final
class BrowserScroll(_TabAction, frozen=True, tag="scroll"):
    """Scroll at a place, by so many notches."""

    target: CoordinateTarget
    scroll_direction: Direction
    scroll_amount: int | None = None


@final
class BrowserType(_TabAction, frozen=True, tag="type"):
    """Type a text."""

    text: str


@final
class BrowserKey(_TabAction, frozen=True, tag="key"):
    """Press a key or keys together, some times."""

    text: str
    repeat: int | None = None


@final
class BrowserHoldKey(_TabAction, frozen=True, tag="hold_key"):
    """Hold keys down for some seconds."""

    text: str
    duration: float


@final
class BrowserWait(_TabAction, frozen=True, tag="wait"):
    """Wait for some seconds."""

    duration: float


@final
class BrowserJavascriptExec(_TabAction, frozen=True, tag="javascript_exec"):
    """Run a script in the page."""

    text: str


BrowserAction: TypeAlias = (
    BrowserNavigate
    | BrowserListTabs
    | BrowserNewTab
    | BrowserSwitchTab
    | BrowserCloseTab
    | BrowserReadPage
    | BrowserGetPageText
    | BrowserReadConsole
    | BrowserReadNetwork
    | BrowserFind
    | BrowserFormInput
    | BrowserFileUpload
    | BrowserScrollTo
    | BrowserScreenshot
    | BrowserZoom
    | BrowserLeftClick
    | BrowserRightClick
    | BrowserMiddleClick
    | BrowserDoubleClick
    | BrowserTripleClick
    | BrowserHover
    | BrowserLeftClickDrag
    | BrowserLeftMouseDown
    | BrowserLeftMouseUp
    | BrowserMouseMove
    | BrowserScroll
    | BrowserType
    | BrowserKey
    | BrowserHoldKey
    | BrowserWait
    | BrowserJavascriptExec
)
"""One thing that a browser is asked to do."""


@final
class BrowserConfigs(Setting, frozen=True):
    """Which actions of the browser the model has; None: the provider's own default."""

    close_tab: Member | None = None
    double_click: Member | None = None
    file_upload: Member | None = None
    find: Member | None = None
    form_input: Member | None = None
    get_page_text: Member | None = None
    hold_key: Member | None = None
    hover: Member | None = None
    javascript_exec: Member | None = None
    key: Member | None = None
    left_click: Member | None = None
    left_click_drag: Member | None = None
    left_mouse_down: Member | None = None
    left_mouse_up: Member | None = None
    list_tabs: Member | None = None
    middle_click: Member | None = None
    mouse_move: Member | None = None
    navigate: Member | None = None
    new_tab: Member | None = None
    read_console: Member | None = None
    read_network: Member | None = None
    read_page: Member | None = None
    right_click: Member | None = None
    screenshot: Member | None = None
    scroll: Member | None = None
    scroll_to: Member | None = None
    switch_tab: Member | None = None
    triple_click: Member | None = None
    type: Member | None = None
    wait: Member | None = None
    zoom: Member | None = None
