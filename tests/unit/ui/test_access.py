"""Access: names that lead here, numbers that are none, and streams of conversations that are no more."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from fxai import Agent, fx
from fxai.testing import ScriptedModel, text
from fxai.ui import ChatApp, StreamStore, chat_app
from fxai.ui.access import TurnRate, is_host_allowed, read_json_body
from fxai.ui.request import RefusedError
from tests.kit.every import every


def _app(**args: Any) -> ChatApp:
    return chat_app(Agent.make("greeter"), layer=ScriptedModel.make([text("Hello.")]).layer, **args)


async def _status(address: str, server: tuple[str, int]) -> int:
    async def to(scope: Any, receive: Any, send: Any) -> None:
        await _app()({**scope, "server": server}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(to), base_url=address) as client:
        return (await client.get("/api/info")).status_code


@every(
    ("address", "server", "status"),
    [
        ("http://testserver", ("testserver", 80), 200),
        ("http://testserver", ("127.0.0.1", 8000), 421),  # a network may have a machine of that name
        ("http://localhost:8000", ("127.0.0.1", 8000), 200),
        ("http://LOCALHOST.:8000", ("127.0.0.1", 8000), 200),
        ("http://localhost.evil.example", ("127.0.0.1", 8000), 421),
        ("http://0.0.0.0:8000", ("127.0.0.1", 8000), 421),
    ],
)
def test_a_name_is_allowed_by_which_nobody_else_leads_here(address: str, server: tuple[str, int], status: int) -> None:
    """A page whose name was made to point at this machine is answered nothing."""
    assert anyio.run(_status, address, server) == status


@every(
    ("host", "allowed", "is_allowed"),
    [
        ("a.example.org", ("*.example.org",), True),
        ("a.b.example.org:443", ("*.example.org",), True),
        ("example.org", ("*.example.org",), False),
        ("evilexample.org", ("*.example.org",), False),
        ("example.org.evil", ("example.org",), False),
        ("EXAMPLE.org", ("example.ORG",), True),
        ("example.org:x", ("example.org",), False),
        ("example.org:80:80", ("example.org",), False),
        ("user@example.org", ("*",), False),
        ("example.org/x", ("*",), False),
        ("", ("*",), False),
        ("anything", ("*",), True),
        ("[::1]:8000", ("[::1]",), True),
        ("[::1]", ("[::1]",), True),
        ("[::1]:x", ("[::1]",), False),
        ("[::1", ("[::1]",), False),
    ],
)
def test_hosts(host: str, allowed: tuple[str, ...], is_allowed: bool) -> None:
    """A name is compared whole, without its port, in small letters."""
    assert is_host_allowed(host, allowed) is is_allowed


@every("number", ["²", "٣", "-1", "1e3", "0x1", "1" * 30, "", " "])
def test_a_number_that_is_none_is_told(number: str) -> None:
    """Digits of other scripts are no numbers of ours, and break nothing."""
    with TestClient(_app()) as client:
        answer = client.get("/api/chat", params={"limit": number})
    assert (answer.status_code, answer.headers["x-fxai-error"]) == (400, "invalid")


def test_a_length_that_is_no_number_breaks_nothing() -> None:
    """The body is counted all the same."""
    with TestClient(_app()) as client:
        headers = {b"content-type": b"application/json", b"content-length": "²".encode("latin-1")}
        answer = client.post("/api/chat", content=b"{}", headers=headers)
    assert answer.status_code == 400


def _body(pieces: tuple[bytes, ...], headers: dict[str, str] | None = None, *, leaves: bool = False) -> Any:
    """What is read of a body of these pieces, or its refusal."""
    given = {"content-type": "application/json", **(headers or {})}
    lines = [(name.encode(), value.encode()) for name, value in given.items()]
    messages: list[Any] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b""})

    async def receive() -> Any:
        return messages.pop(0)

    async def read() -> bytes:
        return await read_json_body(Request({"type": "http", "headers": lines}, receive), 10, 5.0)

    try:
        return anyio.run(read)
    except RefusedError as refused:
        return refused.status, refused.code


@every(
    ("pieces", "headers", "read"),
    [
        ((b"{}",), {}, b"{}"),
        ((b"12345", b"67890"), {"content-length": "10"}, b"1234567890"),
        ((b"12345", b"678901"), {}, (413, "too-large")),
        ((b"{}",), {"content-length": "11"}, (413, "too-large")),
        ((b"{}",), {"content-type": "Application/JSON ; charset=utf-8"}, b"{}"),
        ((b"{}",), {"content-type": "text/plain"}, (415, "media-type")),
        ((b"{}",), {"content-type": "application/json-patch"}, (415, "media-type")),
    ],
)
def test_a_body_is_json_of_so_many_bytes(pieces: tuple[bytes, ...], headers: dict[str, str], read: Any) -> None:
    """As many as are allowed, and not one more."""
    assert _body(pieces, headers) == read


@every("pieces", [(), (b'{"id":',)])
def test_a_client_that_leaves_before_its_body_has_come_is_a_refusal(pieces: tuple[bytes, ...]) -> None:
    """No error of the server's, and no half of a body."""
    assert _body(pieces, leaves=True) == (400, "gone")


def test_a_stream_without_its_conversation_is_read_by_nobody() -> None:
    """As while a conversation is deleted whose answer goes on: nobody could say whose it is."""
    streams = StreamStore.in_process()

    def read(_: None) -> Any:
        with TestClient(_app(streams=streams)) as client:
            return client.get("/api/chat/c/stream")

    opened: Any = streams.open("c", "t").flat_map(lambda writer: writer.write((b"data: secret\n\n",)))
    answer = fx.run(fx.scoped(opened.map(read)))
    assert (answer.status_code, answer.text) == (204, "")


def test_a_rate_is_of_one_user_and_of_one_minute() -> None:
    """Whoever has begun as many turns as are allowed is told when to come again; users long gone take no room."""
    now = [0.0]
    rate = TurnRate(2, lambda: now[0])
    rate.take("ann")
    rate.take("ann")
    with pytest.raises(RefusedError) as refused:
        rate.take("ann")
    rate.take("bob")
    assert (refused.value.status, refused.value.retry_after) == (429, 60.0)
    now[0] = 60.0
    rate.take("ann")
