"""TCP sockets for servers. Use `open_socket` to listen at an address, and `CannotListen` to report a failure.

>>> with open_socket("127.0.0.1", 0) as listening:
...     url_of(listening).startswith("http://127.0.0.1:")
True
"""

from __future__ import annotations

import socket
from typing import Final, final

import msgspec
from typing_extensions import override

_BACKLOG: Final = 128  # connections that are waiting to be accepted


@final
class CannotListen(msgspec.Struct, frozen=True, tag_field="type", tag="cannot-listen"):
    """A failure to listen at an address. The port is in use, or this machine does not have the host."""

    host: str
    """The host."""
    port: int
    """The port."""
    reason: str
    """The reason from the operating system."""

    @property
    def message(self) -> str:
        """The failure and its remedy on one line."""
        return str(self)

    @override
    def __str__(self) -> str:
        return f"cannot listen on {self.host}:{self.port}: {self.reason}. Choose another port, or use port=0."


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address. Port 0 selects a free port.

    Raises:
        OSError: If the port is in use, or if this machine does not have the host.
        OverflowError: If the port number is invalid.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def url_of(listening: socket.socket) -> str:
    """Return the address of a server with this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
