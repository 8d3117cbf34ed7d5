"""A browser, as Anthropic's toolset uses one: each action, and which of them the model has.

On the wire each action is a tool of its own; here they are the parameters of one tool.

>>> import msgspec
>>> msgspec.convert({"action": "navigate", "url": "https://example.com"}, BrowserAction)
BrowserNavigate(url='https://example.com', tab_id=None)
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

from fxai.providers.anthropic.coordinates import CoordinateTarget, Direction, RefTarget, Region, Target
from fxai.providers.anthropic.setting import Member, Setting

__all__ = [
    "BrowserAction",
    "BrowserCloseTab",
    "BrowserConfigs",
    "BrowserDoubleClick",
    "BrowserFileUpload",
    "BrowserFind",
    "BrowserFormInput",
    "BrowserGetPageText",
    "BrowserHoldKey",
    "BrowserHover",
    "BrowserJavascriptExec",
    "BrowserKey",
    "BrowserLeftClick",
    "BrowserLeftClickDrag",
    "BrowserLeftMouseDown",
    "BrowserLeftMouseUp",
    "BrowserListTabs",
    "BrowserMiddleClick",
    "BrowserMouseMove",
    "BrowserNavigate",
    "BrowserNewTab",
    "BrowserReadConsole",
    "BrowserReadNetwork",
    "BrowserReadPage",
    "BrowserRightClick",
    "BrowserScreenshot",
    "BrowserScroll",
    "BrowserScrollTo",
    "BrowserSwitchTab",
    "BrowserTripleClick",
    "BrowserType",
    "BrowserWait",
    "BrowserZoom",
]


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """What a browser is asked to do."""


@final
class BrowserNavigate(_Action, frozen=True, tag="navigate"):
    """Go to a URL."""

    url: str
    tab_id: str | None = None


@final
class BrowserListTabs(_Action, frozen=True, tag="list_tabs"):
    """Say which tabs are open."""


@final
class BrowserNewTab(_Action, frozen=True, tag="new_tab"):
    """Open a tab."""


@final
class BrowserSwitchTab(_Action, frozen=True, tag="switch_tab"):
    """Show another tab."""

    tab_id: str


@final
class BrowserCloseTab(_Action, frozen=True, tag="close_tab"):
    """Close a tab."""

    tab_id: str


@final
class BrowserReadPage(_Action, frozen=True, tag="read_page"):
    """Say what the page holds, as a tree of elements with references."""

    filter: Literal["interactive", "all"] | None = None
    ref: str | None = None
    depth: int | None = None
    tab_id: str | None = None


@final
class BrowserGetPageText(_Action, frozen=True, tag="get_page_text"):
    """Give the text of the page."""

    tab_id: str | None = None


@final
class BrowserReadConsole(_Action, frozen=True, tag="read_console"):
    """Give what the page wrote to its console."""

    tab_id: str | None = None


@final
class BrowserReadNetwork(_Action, frozen=True, tag="read_network"):
    """Give what the page asked of the network."""

    tab_id: str | None = None


@final
class BrowserFind(_Action, frozen=True, tag="find"):
    """Find elements by words."""

    query: str
    tab_id: str | None = None


@final
class BrowserFormInput(_Action, frozen=True, tag="form_input"):
    """Set a field of a form."""

    target: RefTarget
    value: str | bool | float
    tab_id: str | None = None


@final
class BrowserFileUpload(_Action, frozen=True, tag="file_upload"):
    """Put files into a field: of this machine, or documents that were given."""

    target: RefTarget
    paths: tuple[str, ...] | None = None
    document_ids: tuple[str, ...] | None = None
    tab_id: str | None = None


@final
class BrowserScrollTo(_Action, frozen=True, tag="scroll_to"):
    """Scroll until an element is in sight."""

    target: RefTarget
    tab_id: str | None = None


@final
class BrowserScreenshot(_Action, frozen=True, tag="screenshot"):
    """Take a picture of the page."""

    tab_id: str | None = None


@final
class BrowserZoom(_Action, frozen=True, tag="zoom"):
    """Take a picture of a part of the page: left, top, right, bottom."""

    region: Region
    tab_id: str | None = None


@final
class BrowserLeftClick(_Action, frozen=True, tag="left_click"):
    """Click, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None
    tab_id: str | None = None


@final
class BrowserRightClick(_Action, frozen=True, tag="right_click"):
    """Click with the right button, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None
    tab_id: str | None = None


@final
class BrowserMiddleClick(_Action, frozen=True, tag="middle_click"):
    """Click with the middle button, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None
    tab_id: str | None = None


@final
class BrowserDoubleClick(_Action, frozen=True, tag="double_click"):
    """Click twice, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None
    tab_id: str | None = None


@final
class BrowserTripleClick(_Action, frozen=True, tag="triple_click"):
    """Click three times, with `modifiers` held down."""

    target: Target
    modifiers: str | None = None
    tab_id: str | None = None


@final
class BrowserHover(_Action, frozen=True, tag="hover"):
    """Move the pointer over something."""

    target: Target
    tab_id: str | None = None


@final
class BrowserLeftClickDrag(_Action, frozen=True, tag="left_click_drag"):
    """Press the left button at one place and let it go at another."""

    start: CoordinateTarget = msgspec.field(name="from")
    target: CoordinateTarget
    tab_id: str | None = None


@final
class BrowserLeftMouseDown(_Action, frozen=True, tag="left_mouse_down"):
    """Press the left button."""

    target: CoordinateTarget
    tab_id: str | None = None


@final
class BrowserLeftMouseUp(_Action, frozen=True, tag="left_mouse_up"):
    """Let the left button go."""

    target: CoordinateTarget
    tab_id: str | None = None


@final
class BrowserMouseMove(_Action, frozen=True, tag="mouse_move"):
    """Move the pointer."""

    target: CoordinateTarget
    tab_id: str | None = None


@final
class BrowserScroll(_Action, frozen=True, tag="scroll"):
    """Scroll at a place, by so many notches."""

    target: CoordinateTarget
    scroll_direction: Direction
    scroll_amount: int | None = None
    tab_id: str | None = None


@final
class BrowserType(_Action, frozen=True, tag="type"):
    """Type a text."""

    text: str
    tab_id: str | None = None


@final
class BrowserKey(_Action, frozen=True, tag="key"):
    """Press a key or keys together, some times."""

    text: str
    repeat: int | None = None
    tab_id: str | None = None


@final
class BrowserHoldKey(_Action, frozen=True, tag="hold_key"):
    """Hold keys down for some seconds."""

    text: str
    duration: float
    tab_id: str | None = None


@final
class BrowserWait(_Action, frozen=True, tag="wait"):
    """Wait for some seconds."""

    duration: float
    tab_id: str | None = None


@final
class BrowserJavascriptExec(_Action, frozen=True, tag="javascript_exec"):
    """Run a script in the page."""

    text: str
    tab_id: str | None = None


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
