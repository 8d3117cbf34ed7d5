"""HTTP for the packages that need it: one pool of connections, its faults as typed errors, server-sent events, secrets.

It is the one room of this floor that others may know, and it knows none of them. `httpx2`, which the extras `openai`,
`anthropic` and `http` bring, is imported when a client is opened.

>>> Secret("sk-1")
Secret(…)
"""

from __future__ import annotations

from fxai.providers.http.client import RETRY, Answer, Client, ConnectionOptions, Key, open_client
from fxai.providers.http.event import Event, EventReader, read_events
from fxai.providers.http.transport import Secret, Timeout, Transport

__all__ = [
    "RETRY",
    "Answer",
    "Client",
    "ConnectionOptions",
    "Event",
    "EventReader",
    "Key",
    "Secret",
    "Timeout",
    "Transport",
    "open_client",
    "read_events",
]
