"""Load on a chat application: many clients at once on one process, a tenth of which leave in the middle.

`python -m tests.kit.chat_load --clients 200 --seconds 60` prints what came of it; `nox -s load` runs that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.kit.server_process import serving

__all__ = ["Load", "run"]

PIECES = 40
PAUSE = 0.05
_LEAVES = 10  # each how-manieth conversation is left
_HERE = Path(__file__)


class Load(msgspec.Struct):
    """What came of it."""

    clients: int
    seconds: float
    answers: int = 0
    """Streams that were read to their end."""
    frames: int = 0
    """Events that were read, of all streams."""
    faults: list[str] = []
    """Streams that lacked an event, had one twice, or did not end."""
    left: int = 0
    """Streams that were left in the middle."""
    stops: list[float] = []
    """Seconds from then until the turn was kept as stopped."""
    memory: list[float] = []
    """Resident memory of the server at even intervals, in MB."""

    def __str__(self) -> str:
        stops = f"{statistics.median(self.stops):.2f} s, at most {max(self.stops):.2f} s" if self.stops else "none"
        return "\n".join(
            [
                f"{self.clients} clients, {self.seconds:.0f} s: {self.answers} answers, {self.frames} events",
                f"{self.frames / self.seconds:.0f} events a second, {len(self.faults)} streams with a fault",
                f"{self.left} clients left; their turns were stopped and kept within {stops}",
                f"memory of the server, in MB: {' '.join(f'{mb:.0f}' for mb in self.memory)}",
                *self.faults[:10],
            ]
        )


async def run(clients: int, seconds: float) -> Load:
    """Puts this many clients on a server of its own for this long."""
    found = Load(clients, seconds)
    with TemporaryDirectory() as folder, serving([sys.executable, str(_HERE), "serve", f"{folder}/chats.db"]) as url:
        location = urlsplit(url)
        address = (str(location.hostname), int(location.port or 0))
        process = json.loads(await _request(address, "GET", "/pid"))
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(process, found, seconds / 12))
            playing = [group.create_task(_play(address, n, found, end)) for n in range(clients)]
            await asyncio.gather(*playing)
            watching.cancel()
    return found


async def _watch(process: int, found: Load, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        if (memory := _memory_of(process)) is not None:
            found.memory.append(memory)


def _memory_of(process: int) -> float | None:
    """The resident memory of a process in MB; None where the system does not say."""
    location = Path(f"/proc/{process}/statm")
    return int(location.read_text().split()[1]) * 4096 / 1e6 if location.exists() else None


async def _play(address: tuple[str, int], client: int, found: Load, end: float) -> None:
    count = 0
    await asyncio.sleep(client / found.clients)  # they do not all begin in one moment
    while time.monotonic() < end:
        count += 1
        id_ = f"c{client}-{count}"
        if (client + count) % _LEAVES == 0:
            await _leave(address, id_, found)
        else:
            await _read(address, id_, found)


def _body(id_: str) -> bytes:
    user = {"id": f"u-{id_}", "role": "user", "parts": [{"type": "text", "text": "Count."}]}
    return json.dumps({"id": id_, "message": user}).encode()


async def _open(address: tuple[str, int], method: str, path: str, body: bytes = b"") -> Any:
    reader, writer = await asyncio.open_connection(*address)
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


async def _request(address: tuple[str, int], method: str, path: str) -> bytes:
    reader, writer = await _open(address, method, path)
    try:
        answer: bytes = await reader.read()
        return answer.partition(b"\r\n\r\n")[2]
    finally:
        writer.close()


async def _read(address: tuple[str, int], id_: str, found: Load) -> None:
    reader, writer = await _open(address, "POST", "/api/chat", _body(id_))
    try:
        text = (await asyncio.wait_for(reader.read(), 60)).decode()
    finally:
        writer.close()
    deltas = [line for line in text.splitlines() if '"text-delta"' in line]
    said = [json.loads(line[6:])["delta"] for line in deltas]
    found.answers += 1
    found.frames += text.count("data: ")
    if said != [f"{n} " for n in range(PIECES)] or "data: [DONE]" not in text:
        found.faults.append(f"{id_}: {len(said)} pieces, {text[:200]!r} … {text[-100:]!r}")


async def _leave(address: tuple[str, int], id_: str, found: Load) -> None:
    reader, writer = await _open(address, "POST", "/api/chat", _body(id_))
    seen = b""
    while seen.count(b"text-delta") < PIECES // 4:
        piece = await asyncio.wait_for(reader.read(4096), 60)
        seen += piece
        if not piece:
            found.faults.append(f"{id_}: it ended before it was left: {seen[-200:]!r}")
            return
    found.frames += seen.count(b"data: ")
    writer.close()
    found.left += 1
    begun = time.monotonic()
    talk: dict[str, Any] = {}
    while time.monotonic() - begun < 30:
        talk = json.loads((await _request(address, "GET", f"/api/chat/{id_}")) or b"{}")
        if talk.get("ended") == "stopped":
            found.stops.append(time.monotonic() - begun)
            return
        await asyncio.sleep(0.05)
    found.faults.append(f"{id_}: it was left and not stopped: {talk}")


def _serve(database: str) -> None:
    """The server: an agent that counts, and a route that says which process it is."""
    import os

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from fxai import Agent
    from fxai.effects import StreamOf
    from fxai.testing import ScriptedModel, delay
    from fxai.ui import AppOptions, ChatTurn, Conversations, StreamStore, chat_app, mount

    def count(turn: ChatTurn) -> StreamOf[Any, Any, None]:
        script = [part for n in range(PIECES) for part in (f"{n} ", delay(PAUSE))]
        return Agent.make("counter").stream(turn.prompt).provide(ScriptedModel.make([script]).layer)

    app = chat_app(
        count,
        conversations=Conversations.sqlite(database),
        streams=StreamStore.in_process(keep=2),
        options=AppOptions(on_leave="cancel", turns_per_minute=1_000_000, running_turns=10_000, all_turns=10_000),
    )

    def tell(_: Request) -> JSONResponse:
        return JSONResponse(os.getpid())

    host = Starlette(routes=[Route("/pid", tell)])
    mount(host, app, "/chat")

    async def both(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] != "/pid":
            await app(scope, receive, send)
        else:
            await host(scope, receive, send)

    uvicorn.run(both, host="127.0.0.1", port=0, access_log=False, backlog=2048)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(sys.argv[2])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--clients", type=int, default=200)
        parser.add_argument("--seconds", type=float, default=60)
        asked = parser.parse_args()
        sys.stdout.write(f"{asyncio.run(run(asked.clients, asked.seconds))}\n")
