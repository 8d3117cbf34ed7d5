"""The newest protocol, as the official SDK serves it: progress, cancellation, questions, changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from fxai import fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection, ElicitAnswer, Elicitation, McpServer
from tests.kit.mcp_programs import used
from tests.kit.server_process import serving

# The SDK leaves an event stream in the middle: trio remarks on the generators that it is made of.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:Async generator 'httpx2:ResourceWarning", "ignore:Async generator 'httpcore2:ResourceWarning"
    ),
]

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]
Start: TypeAlias = Callable[..., McpServer]

_SCRIPT = str(Path(__file__).parents[2] / "kit" / "modern_server.py")


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Gives the server over HTTP."""
    with serving([sys.executable, _SCRIPT, "http"]) as address:

        def started(**options: Any) -> McpServer:
            return mcp.http(f"{address}/mcp", **options)

        yield started


def test_it_is_spoken_and_calls_show_their_progress(start: Start, backend: Any) -> None:
    """The newest version is agreed on without a handshake; results are structured, progress is preliminary."""

    def called(connection: Connection) -> Run:
        bound = connection.bound
        outcomes = yield bound.toolkit.handle("steps", {}).provide(bound.layer).collect()
        return connection.info, (yield connection.call("search", {"query": "x"})), outcomes

    info, found, outcomes = fx.run(used(start(), called), backend=backend)

    assert (info.name, info.version, info.protocol_version) == ("modern", "1.2", "2026-07-28")
    assert info.instructions == "Ask for what you need."
    assert found == {"result": "found x"}
    assert [(one.preliminary, one.result.get("message")) for one in outcomes] == [
        (True, "step 1"),
        (True, "step 2"),
        (True, "step 3"),
        (False, None),
    ]


def test_cancelling_a_call_reaches_the_tool(start: Start, backend: Any) -> None:
    """A call that is cut off by its run is stopped at the server."""

    def cut(connection: Connection) -> Run:
        before = after = yield connection.call("count")
        yield connection.call("wait").timeout(0.2).exit()
        for _ in range(100):
            after = yield connection.call("count")
            if after != before:
                break
            yield fx.sleep(0.02)
        return before["result"], after["result"]

    before, after = fx.run(used(start(), cut), backend=backend)

    assert after == before + 1


def test_questions_in_the_middle_of_a_call_are_answered_or_fail(start: Start, backend: Any) -> None:
    """The server's question is answered by `elicit=` and the call goes on; without it the call fails and says so."""

    def asked(connection: Connection) -> Run:
        return (yield connection.call("asks").exit())

    def accept(_: Elicitation) -> ElicitAnswer:
        return ElicitAnswer("accept", {"sure": True})

    answered = fx.run(used(start(elicit=accept), asked), backend=backend)
    refused = fx.run(used(start(), asked), backend=backend)

    assert "accept {'sure': True}" in str(answered.value)
    (failure,) = refused.cause.failures
    assert failure.kind == "input-required"
    assert "elicit=" in failure.remedy


def test_what_it_logs_is_asked_for_where_somebody_hears_it(start: Start, backend: Any) -> None:
    """With `on_log` each call asks for the server's log, which comes with its answer."""
    heard: list[tuple[str, Any]] = []

    def hear(level: str, data: Any) -> None:
        heard.append((level, data))

    def called(connection: Connection) -> Run:
        return (yield connection.call("logs"))

    fx.run(used(start(on_log=hear), called), backend=backend)

    assert heard == [("info", "heard")]


def test_changes_are_heard_while_it_is_open(backend: Any) -> None:
    """A tool that is added shows, one that is described otherwise is held back, as the server tells of each."""

    def changed(connection: Connection) -> Run:
        bound = connection.bound
        seen: list[list[str]] = []
        for how in ("add", "rewrite"):
            yield connection.call("change", {"how": how})
            before = (yield bound.now).toolkit
            for _ in range(100):
                if before != bound.toolkit and (how == "add" or connection.held_back):
                    break
                yield fx.sleep(0.02)
                before = (yield bound.now).toolkit
            seen.append(sorted(set(before.tools) ^ set(bound.toolkit.tools)))
        return seen, connection.held_back

    seen, held = fx.run(used(mcp.stdio(sys.executable, _SCRIPT, "stdio"), changed), backend=backend)

    assert seen == [["added"], ["added", "search"]]
    assert held == (mcp.Change("search", ("description",)),)
