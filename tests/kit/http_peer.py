"""A server on loopback that says exactly the bytes of a script, and tells what it was sent."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

from anyio import to_thread

__all__ = ["Peer", "Script", "Seen", "Step", "answer", "events", "peer"]

_PATIENCE = 20.0


class Step(Enum):
    """What a script does besides sending bytes."""

    CLOSE = "close the connection"
    RESET = "reset the connection"
    HANG = "say nothing more until the other side goes"


class Seen(NamedTuple):
    """A request as it came: the connection's number, the first line, the headers by lower-case name, the body."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


Script: TypeAlias = Sequence[bytes | Step]
"""What is sent and done in answer to one request."""


class Peer:
    """What the server is asked and does."""

    def __init__(self, choose: Callable[[Seen], Script]) -> None:
        self.seen: list[Seen] = []
        self.left = threading.Semaphore(0)  # one for each connection that the other side closed
        self.came = threading.Semaphore(0)  # one for each request
        self.url = ""
        self._choose = choose
        self._lock = threading.Lock()
        self._connections = 0

    def gone(self) -> bool:
        """Whether a connection was closed by the other side, waiting for it."""
        return self.left.acquire(timeout=_PATIENCE)

    async def asked(self) -> bool:
        """Whether a request came, waiting for it."""
        return await to_thread.run_sync(partial(self.came.acquire, timeout=_PATIENCE))

    def serve(self, listener: socket.socket) -> None:
        """Takes connections until the listener is closed."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._connections += 1
            threading.Thread(target=self._talk, args=(connection, self._connections), daemon=True).start()

    def _talk(self, connection: socket.socket, number: int) -> None:
        connection.settimeout(_PATIENCE)
        with connection, suppress(OSError):
            while (request := _request(connection, number)) is not None:
                with self._lock:
                    self.seen.append(request)
                    script = self._choose(request)
                self.came.release()
                if not _perform(connection, script):
                    if Step.HANG in script:
                        self.left.release()
                    return
            self.left.release()


def _perform(connection: socket.socket, script: Script) -> bool:
    for step in script:
        match step:
            case bytes():
                connection.sendall(step)
            case Step.CLOSE:
                return False
            case Step.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            case Step.HANG:
                with suppress(ConnectionError):
                    while connection.recv(4096):
                        pass
                return False
    return True


def _request(connection: socket.socket, number: int) -> Seen | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return Seen(number, line, headers, body)


@contextmanager
def peer(*scripts: Script, choose: Callable[[Seen], Script] | None = None) -> Generator[Peer]:
    """A server on loopback that answers by these scripts, the last one again and again; or as `choose` says."""
    waiting = list(scripts)
    served = Peer(choose or (lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=served.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(_PATIENCE)


def answer(status: int, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    """The bytes of a whole answer."""
    lines = [f"HTTP/1.1 {status} Said", f"content-type: {kind}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def events(*pieces: bytes, whole: bool = True) -> list[bytes]:
    """The bytes of an answer of events in chunks; without the last chunk unless `whole`."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces]
    return [head, *chunks, *([b"0\r\n\r\n"] if whole else [])]
