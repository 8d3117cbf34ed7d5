"""An HTTP client with typed errors, server-sent events, and secrets. Use it to write a package for a provider.

Other packages of providers can import this package. It imports none of them. fxai imports `httpx2` when a program opens
a client. The extras `openai`, `anthropic`, and `http` install `httpx2`.

>>> Secret("sk-1")
Secret(…)
"""

from __future__ import annotations

from fxai.providers.http.client import RETRY, Client, ConnectionOptions, HttpResponse, Key, open_client
from fxai.providers.http.event import Event, EventReader, read_events
from fxai.providers.http.transport import Secret, Timeout, Transport

__all__ = [
    "RETRY",
    "Client",
    "ConnectionOptions",
    "Event",
    "EventReader",
    "HttpResponse",
    "Key",
    "Secret",
    "Timeout",
    "Transport",
    "open_client",
    "read_events",
]
