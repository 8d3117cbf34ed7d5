"""Servers of others, of three eras of the protocol: opened, listed and called by our client."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from fxai import Readonly, Title, fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection, McpServer
from tests.kit.mcp_programs import left_running, used
from tests.kit.node import Missing, installed, node
from tests.kit.python_programs import programs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mcp-servers")]

_LOCK = Path(__file__).parent / "mcp-servers"
_NPM = "@modelcontextprotocol/server-"


class Case(NamedTuple):
    """A server of others: how it is started, what it speaks, how many tools it has, and a call with its answer."""

    start: Callable[[Path], McpServer]
    version: str
    tools: int
    call: str | None = None
    arguments: Mapping[str, Any] = MappingProxyType({})
    states: str = ""


def _module(name: str, *args: str) -> Callable[[Path], McpServer]:
    return lambda folder: mcp.stdio(sys.executable, "-m", name, *(arg.format(folder) for arg in args), name=name)


def _beside(program: str, *args: str) -> Callable[[Path], McpServer]:
    return lambda _: mcp.stdio(str(Path(sys.executable).with_name(program)), *args, name=program)


def _old(program: str, *args: str) -> Callable[[Path], McpServer]:
    return lambda folder: mcp.stdio(str(programs() / program), *(arg.format(folder) for arg in args), name=program)


def _npm(package: str, *args: str, **env: str) -> Callable[[Path], McpServer]:
    def start(folder: Path) -> McpServer:
        script = installed(_LOCK) / package / "dist" / "index.js"
        return mcp.stdio(node(), str(script), *(arg.format(folder) for arg in args), env=env, name=package)

    return start


SERVERS: dict[str, Case] = {
    "time": Case(_module("mcp_server_time"), "2026-07-28", 2, "get_current_time", {"timezone": "UTC"}, "'UTC'"),
    "git": Case(
        _module("mcp_server_git", "--repository", "{}"),
        "2026-07-28",
        12,
        "git_log",
        {"repo_path": "{}"},
        "the first step",
    ),
    "motherduck": Case(
        _beside("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
        "2026-07-28",
        4,
        "execute_query",
        {"sql": "SELECT 40 + 2 AS answer"},
        "42",
    ),
    "sqlite": Case(
        _old("mcp-server-sqlite", "--db-path", "{}/cities.db"),
        "2025-11-25",
        6,
        "read_query",
        {"query": "SELECT * FROM city"},
        "Turku",
    ),
    "calculator": Case(_old("mcp-server-calculator"), "2025-11-25", 1, "calculate", {"expression": "6*7"}, "42"),
    "everything": Case(_npm(f"{_NPM}everything"), "2025-11-25", 13, "get-sum", {"a": 40, "b": 2}, "42"),
    "filesystem": Case(
        _npm(f"{_NPM}filesystem", "{}"),
        "2025-11-25",
        14,
        "read_text_file",
        {"path": "{}/note.txt"},
        "remember the milk",
    ),
    "memory": Case(_npm(f"{_NPM}memory"), "2025-11-25", 9, "read_graph", {}, "entities"),
    "sequential-thinking": Case(
        _npm(f"{_NPM}sequential-thinking"),
        "2025-11-25",
        1,
        "sequentialthinking",
        {"thought": "so", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtHistoryLength",
    ),
    "github": Case(_npm(f"{_NPM}github"), "2024-11-05", 26),
    "slack": Case(_npm(f"{_NPM}slack", SLACK_BOT_TOKEN="xoxb-none", SLACK_TEAM_ID="T0"), "2024-11-05", 8),
    "context7": Case(_npm("@upstash/context7-mcp"), "2026-07-28", 2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is a repository with one commit, and holds a note and a database."""
    made = tmp_path_factory.mktemp("served")
    (made / "note.txt").write_text("remember the milk\n")
    git = partial(subprocess.run, cwd=made, check=True, capture_output=True)
    git(["git", "init", "-q"])
    git(["git", "add", "note.txt"])
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    git(["git", *who, "commit", "-q", "-m", "the first step"])
    with sqlite3.connect(made / "cities.db") as database:
        database.execute("CREATE TABLE city (name TEXT)")
        database.execute("INSERT INTO city VALUES ('Turku'), ('Oulu')")
    database.close()
    return made


def _asked(case: Case, folder: Path) -> Callable[[Connection], Generator[EffectOf[Any, Any, Any], Any, Any]]:
    def asked(connection: Connection) -> Generator[EffectOf[Any, Any, Any], Any, Any]:
        given = {k: v.format(folder) if isinstance(v, str) else v for k, v in case.arguments.items()}
        value = (yield connection.call(case.call, given)) if case.call else None
        return connection.info, connection.bound.toolkit, connection.refused, value

    return asked


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_of_others_is_listed_and_called(name: str, folder: Path) -> None:
    """Its protocol version is agreed on, every tool is offered, a call gives what it should, and it ends."""
    case = SERVERS[name]
    try:
        server = case.start(folder)
    except Missing as missing:
        pytest.skip(str(missing))
    backend: Any = "trio" if len(name) % 2 else "asyncio"

    info, kit, refused, value = fx.run(used(server, _asked(case, folder)), backend=backend)

    assert info.protocol_version == case.version
    assert (len(kit), refused) == (case.tools, ())
    assert case.states in str(value)
    assert left_running(server.settings.endpoint.location) == []


def test_hints_and_titles_of_a_real_server_are_annotations(folder: Path) -> None:
    """What the filesystem server says of its tools is in their annotations."""
    try:
        server = SERVERS["filesystem"].start(folder)
    except Missing as missing:
        pytest.skip(str(missing))

    _, kit, _, _ = fx.run(used(server, _asked(SERVERS["filesystem"], folder)))

    assert kit.tools["read_text_file"].get(Readonly)
    assert not kit.tools["write_file"].get(Readonly)
    assert kit.tools["read_text_file"].get(Title) == "Read Text File"


def test_a_real_server_refuses_what_it_must_and_says_why(folder: Path) -> None:
    """The filesystem server does not leave its folder: the tool's failure says so."""
    try:
        server = SERVERS["filesystem"].start(folder)
    except Missing as missing:
        pytest.skip(str(missing))

    def outside(connection: Connection) -> Generator[EffectOf[Any, Any, Any], Any, Any]:
        return (yield connection.call("read_text_file", {"path": "/etc/passwd"}).exit())

    end = fx.run(used(server, outside))

    (failure,) = end.cause.failures
    assert isinstance(failure, mcp.McpToolError)
    assert "outside allowed directories" in failure.problem
