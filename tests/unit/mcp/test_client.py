"""Servers as values: what is said of one before it is opened, and which server its tools are of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fxai import fx, mcp
from fxai.mcp import Connection, McpServer
from fxai.mcp.settings import Address, ServerProgram
from fxai.providers.http import Secret
from tests.kit.every import every
from tests.kit.mcp_peer import Peer, Run, run, used


@every("url", ["example.org/mcp", "ftp://example.org", "uvx mcp-server-git", "", "http:/x", "httpx://x"])
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    """An address is one of http or https; a command given as one is told how to give it."""
    with pytest.raises(
        ValueError, match=r"url must start with http:// or https://, got .*mcp\.stdio\(command, …\)"
    ) as no:
        mcp.http(url)

    assert repr(url) in str(no.value)


@pytest.mark.parametrize("url", ["http://localhost:8000/mcp", "https://example.org/mcp"])
def test_an_address_is_taken_as_it_is(url: str) -> None:
    """Without headers and a token it has none, and it is called by its host."""
    server = mcp.http(url)

    assert server.settings.endpoint == Address(url)
    assert server.name == Address(url).name
    assert mcp.http(url, name="mine").name == "mine"


@pytest.mark.parametrize("token", ["t", Secret("t")])
def test_a_token_is_sent_as_the_bearer(token: Any) -> None:
    """A plain token and a secret one are the same header, beside those that are given; no repr shows them."""
    server = mcp.http("https://example.org", headers={"X-Team": Secret("a")}, token=token)
    endpoint = server.settings.endpoint

    assert isinstance(endpoint, Address)
    assert endpoint.headers.reveal() == {"X-Team": "a", "Authorization": "Bearer t"}
    assert "Bearer" not in repr(server.settings)


def test_headers_that_are_changed_later_are_not(tmp_path: Path) -> None:
    """A server keeps what it was given: a mapping that changes afterwards changes nothing."""
    headers, env = {"X-Team": "a"}, {"KEY": "k"}
    address = mcp.http("https://example.org", headers=headers, token="t").settings.endpoint
    program = mcp.stdio("peer", "-v", env=env, cwd=tmp_path, grace=3.5).settings.endpoint
    headers["X-Team"] = env["KEY"] = "changed"

    assert isinstance(address, Address)
    assert address.headers.reveal() == {"X-Team": "a", "Authorization": "Bearer t"}
    assert isinstance(program, ServerProgram)
    assert (program.command, program.args, program.cwd, program.grace) == ("peer", ("-v",), str(tmp_path), 3.5)
    assert program.env.reveal() == {"KEY": "k"}
    assert mcp.stdio("peer").settings.endpoint == ServerProgram("peer")


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        (mcp.stdio("uvx", "mcp-server-git"), "McpServer('mcp-server-git', 'uvx mcp-server-git')"),
        (mcp.stdio("uvx", "x").prefix("git_"), "McpServer('x', 'uvx x', prefix='git_')"),
        (mcp.http("https://u:p@h.example/x?key=1", token="t"), "McpServer('h.example', 'https://h.example/x')"),
    ],
)
def test_a_server_shows_what_it_is(server: McpServer, shown: str) -> None:
    """Its name, where it is and its prefix; nothing that opens it."""
    assert repr(server) == shown


def _made(server: McpServer, backend: Any) -> str:
    """What a tool of the server is made as."""

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.bound.toolkit.tools["search"].identity.name

    return str(run(used(server, looked), backend))


def test_tools_of_one_name_at_two_servers_are_two(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: Any
) -> None:
    """A server is the same as often as it is opened; another folder, environment or command is another server."""
    Peer().serve(monkeypatch)
    servers = [
        mcp.stdio("peer", name="peer"),
        mcp.stdio("peer", "-v", name="peer"),
        mcp.stdio("peer", name="peer", cwd=tmp_path),
        mcp.stdio("peer", name="peer", env={"KEY": "k"}),
    ]

    names = [_made(server, backend) for server in servers]

    assert len(set(names)) == 4
    assert [_made(server.without("other"), backend) for server in servers] == names
    assert all(re.fullmatch("peer#[0-9a-f]{8}/search", name) for name in names)
