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
    """The options of a chat application.

    Attributes:
        title: Title on the page and in `/api/info`. An empty string means the name of the agent.
        suggestions: Prompts that the page offers before the first message. By default the requests of the tools'
            `input_examples`, two for each tool.
        page: True to serve the page of fxai at `/`.
        ag_ui: True to serve AG-UI clients at `/api/ag-ui`.
        stream: The options for the parts of a run that clients receive.
        on_leave: Action after the client of a turn has disconnected: continue the turn, or cancel it. A client can read
            a continued turn later.
        hosts: The names in the header `Host` that the server accepts; `*` accepts all names.
        origins: Other origins whose pages may use the application, such as `https://app.example.org`.
        limits: The limits for the data that a client sends.
        body_timeout: Seconds to wait for a body.
        heartbeat: Seconds without an event before a stream sends a comment.
        turns_per_minute: Maximum number of turns that a user starts per minute.
        running_turns: Maximum number of active turns of one user.
        all_turns: Maximum number of active turns of all users.
        grace: Seconds that active turns have to finish when the application shuts down. After this time they stop.
    """

    title: str = ""
    suggestions: tuple[str, ...] = ()
    page: bool = False
    ag_ui: bool = False
    stream: StreamOptions = StreamOptions()
    on_leave: OnLeave = "continue"
    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    limits: RequestLimits = LIMITS
    body_timeout: float = 10.0
    heartbeat: float = 15.0
    turns_per_minute: int = 60
    running_turns: int = 4
    all_turns: int = 256
    grace: float = 10.0
