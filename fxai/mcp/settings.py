"""Settings: everything that is said of a server before it is opened.

>>> ServerSettings(Program("uvx", ("mcp-server-time",)), "time").timeout
30.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final, get_args

import msgspec

from fxai.mcp.elicitation import Elicit
from fxai.mcp.endpoint import Address, Program
from fxai.mcp.limit import LIMITS, McpLimits
from fxai.mcp.pin import Pins
from fxai.tools.identity import FailureMode
from fxai.tools.options import Validation

__all__ = ["Mode", "ServerSettings"]

Mode: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""How the protocol is agreed on: the newest, and the handshake of older ones where the server does not know it
(`"auto"`); the handshake at once (`"legacy"`); or the newest without asking."""


@final
class ServerSettings(msgspec.Struct, frozen=True):
    """Where a server is, and how it is used."""

    endpoint: Program | Address
    name: str
    """What it is called here: in messages and in pins."""
    timeout: float = 30.0
    """Seconds for it to answer when it is opened, and for a listing."""
    call_timeout: float | None = 300.0
    """Seconds for a call, without the time that `elicit` takes; None: no limit of ours."""
    mode: Mode = "auto"
    pins: Pins | None = None
    """What its tools are held to; None: to what they were when it was opened."""
    limits: McpLimits = LIMITS
    elicit: Elicit | None = None
    on_log: Callable[[str, Any], None] | None = None
    """Told of what the server logs over the protocol: the level and the data."""
    failure_mode: FailureMode = "return"
    validation: Validation = "schema"
    prefix: str = ""
    """What stands before its tools' names."""
    only: tuple[str, ...] | None = None
    """The tools to offer, by their names at the server; None: all."""
    without: tuple[str, ...] = ()
    """The tools not to offer, by their names at the server."""

    def __post_init__(self) -> None:
        modes = get_args(Mode)
        if self.mode not in modes:
            raise ValueError(f"mode is {self.mode!r}: it is one of {', '.join(map(repr, modes))}")
        for name in ("timeout", "call_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is {seconds!r}: it is more than 0 seconds")
