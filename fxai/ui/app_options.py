"""Options of a chat application. Use `AppOptions` to choose its title, pages, allowed hosts, and limits.

>>> AppOptions(title="Desk").on_leave
'continue'
"""

from __future__ import annotations

from typing import final

import msgspec

from fxai.ui.access import LOOPBACK
from fxai.ui.chunk import StreamOptions
from fxai.ui.request import LIMITS, RequestLimits
from fxai.ui.turn import OnLeave


@final
class AppOptions(msgspec.Struct, frozen=True):
    """The options of a chat application."""

    title: str = ""
    """Title on the page and in `/api/info`. An empty string means the name of the agent."""
    suggestions: tuple[str, ...] = ()
    """Prompts that the page offers before the first message. By default the requests of the tools' `input_examples`,
    two for each tool."""
    page: bool = False
    """True to serve the page of fxai at `/`."""
    ag_ui: bool = False
    """True to serve AG-UI clients at `/api/ag-ui`."""
    stream: StreamOptions = StreamOptions()
    """The options for the parts of a run that clients receive."""
    on_leave: OnLeave = "continue"
    """Action after the client of a turn has disconnected: continue the turn, or cancel it. A client can read a
    continued turn later."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names in the header `Host` that the server accepts; `*` accepts all names."""
    origins: tuple[str, ...] = ()
    """Other origins whose pages may use the application, such as `https://app.example.org`."""
    limits: RequestLimits = LIMITS
    """The limits for the data that a client sends."""
    body_timeout: float = 10.0
    """Seconds to wait for a body."""
    heartbeat: float = 15.0
    """Seconds without an event before a stream sends a comment."""
    turns_per_minute: int = 60
    """Maximum number of turns that a user starts per minute."""
    running_turns: int = 4
    """Maximum number of active turns of one user."""
    all_turns: int = 256
    """Maximum number of active turns of all users."""
    grace: float = 10.0
    """Seconds that active turns have to finish when the application shuts down. After this time they stop."""
