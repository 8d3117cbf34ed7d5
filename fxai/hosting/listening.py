"""Sockets that listen for connections over TCP, and why one cannot be had.

>>> with open_socket("127.0.0.1", 0) as listening:
...     url_of(listening).startswith("http://127.0.0.1:")
True
"""

from __future__ import annotations

import socket
from typing import Final, final

import msgspec
from typing_extensions import override

_BACKLOG: Final = 128  # connections that wait to be accepted


@final
class CannotListen(msgspec.Struct, frozen=True, tag_field="type", tag="cannot-listen"):
    """A server over HTTP could not listen where it was to: the port is taken, or the host is not ours."""

    host: str
    port: int
    reason: str

    @property
    def message(self) -> str:
        """What happened and what to do, in one line."""
        return str(self)

    @override
    def __str__(self) -> str:
        return f"cannot listen on {self.host}:{self.port}: {self.reason}; choose another port, or port=0 for a free one"


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; port 0 is a free one.

    Raises:
        OSError: the port is taken, or the host is not one of this machine.
        OverflowError: there is no such port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def url_of(listening: socket.socket) -> str:
    """The address of a server that listens there."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
