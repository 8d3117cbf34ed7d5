"""How a chat application serves: what it shows, whom it answers to, and how much of everything.

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
    """How a chat application serves.

    Attributes:
        title: what the page and `/api/info` call it; empty: the name of the agent.
        page: whether the page of fxai's own is served at `/`.
        ag_ui: whether clients of AG-UI are served at `/api/ag-ui`.
        stream: what of a run is sent to a client, and how.
        on_leave: what becomes of a turn whose client has left: it goes on, and can be read again, or is cancelled.
        hosts: the names that the server answers to, by the header `Host`; `*` stands for all.
        origins: the origins, besides its own, whose pages may use it: `https://app.example.org`.
        limits: what a client may send at most.
        body_timeout: seconds in which a body has to come.
        heartbeat: seconds of silence after which a stream has a comment.
        turns_per_minute: turns that one user may begin in a minute.
        running_turns: turns of one user that may run at once.
        all_turns: turns of all users that may run at once.
        grace: seconds that running turns have when the application shuts down; then they are stopped.
    """

    title: str = ""
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
