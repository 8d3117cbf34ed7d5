"""Links: what goes over one open connection, and how each thing that can go wrong on it is told."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest
from mcp_types import HEADER_MISMATCH

from fxai import fx, mcp
from fxai.effects import EffectOf, Succeeded
from fxai.mcp import Connection, ElicitAnswer, Elicitation, McpLimits, ToolDefinition
from fxai.mcp.connection import progress_channel
from fxai.mcp.link import Link
from fxai.mcp.settings import Address, ServerProgram, ServerSettings
from fxai.mcp.watch import BATCH
from tests.kit.every import every
from tests.kit.mcp_peer import MODERN, Message, Peer, Run, failure_of, leaping, run, run_exit, tool, used

both_versions = pytest.mark.parametrize("version", ["2025-11-25", MODERN])
FORM = {"type": "object", "properties": {"sure": {"type": "boolean", "default": None}}}


def _names(connection: Connection) -> Run:
    yield fx.checkpoint()
    return [one.name for one in connection.tools]


def _declined(_: Elicitation) -> ElicitAnswer:
    return ElicitAnswer("decline")


def _accepted(_: Elicitation) -> ElicitAnswer:
    return ElicitAnswer("accept", {"sure": True})


def _called(connection: Connection) -> Run:
    return (yield connection.call("search", {"q": "x"}))


# -- opening


@both_versions
def test_a_server_says_who_it_is(monkeypatch: pytest.MonkeyPatch, version: str, backend: Any) -> None:
    """Name, version, protocol, instructions and capabilities are what the server said, in the words of the protocol."""
    peer = Peer(version)
    peer.on["initialize"] = lambda request: peer.answer(request, {**peer.greeting, "instructions": "Ask."})
    peer.on["server/discover"] = (
        (lambda request: peer.answer(request, {**peer.discovery, "instructions": "Ask."}))
        if version == MODERN
        else lambda request: peer.refuse(request, -32601)
    )

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.info

    info = run(used(peer.serve(monkeypatch), looked), backend)

    assert (info.protocol_version, info.instructions) == (version, "Ask.")
    assert (info.name, info.version) == (("", "") if version == MODERN else ("by-hand", "1"))
    assert info.capabilities == {"tools": {"listChanged": True}}


def test_a_version_that_is_not_known_is_told_with_those_that_are(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A server that answers the handshake with another one cannot be spoken to."""
    peer = Peer("1999-01-01")

    failure = failure_of(used(peer.serve(monkeypatch), _names), backend)

    assert (failure.kind, peer.ended) == ("protocol", 1)
    assert failure.problem == "unknown protocol version '1999-01-01'"
    assert failure.remedy == "Use a server with one of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25"


def test_a_server_is_told_who_we_are_and_what_we_can(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """The handshake names fxai; elicitation is among our capabilities where somebody answers, and only there."""
    mute, asked = Peer(), Peer()
    run(used(mute.serve(monkeypatch), _names), backend)
    run(used(asked.serve(monkeypatch, elicit=_declined), _names), backend)

    ((greeted,), (able,)) = (mute.calls("initialize"), asked.calls("initialize"))

    assert greeted["clientInfo"]["name"] == "fxai"
    assert "elicitation" not in greeted["capabilities"]
    assert "elicitation" in able["capabilities"]


@pytest.mark.parametrize("installed", [True, False])
def test_a_server_is_told_which_version_we_are(monkeypatch: pytest.MonkeyPatch, installed: bool, backend: Any) -> None:
    """It is that of the package, and 0 where we run from a source tree that is not installed."""

    def find(name: str) -> str:
        if not installed:
            raise PackageNotFoundError(name)
        return f"the one of {name}"

    monkeypatch.setattr("fxai.mcp.session.version", find)
    peer = Peer()
    run(used(peer.serve(monkeypatch, mode="legacy"), _names), backend)

    (greeted,) = peer.calls("initialize")
    assert greeted["clientInfo"] == {"name": "fxai", "version": "the one of fxai" if installed else "0"}


@pytest.mark.parametrize(("mode", "asked"), [("auto", ["server/discover", "initialize"]), ("legacy", ["initialize"])])
def test_the_mode_says_what_is_asked_first(
    monkeypatch: pytest.MonkeyPatch, mode: str, asked: list[str], backend: Any
) -> None:
    """The newest protocol is asked for first, unless the handshake is wanted at once."""
    peer = Peer()
    run(used(peer.serve(monkeypatch, mode=mode), _names), backend)

    assert [message["method"] for message in peer.heard][: len(asked)] == asked


def test_a_server_that_ends_at_the_newest_question_is_started_again(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """Some old servers end when they are asked in the newest way: a second start asks in the old one alone."""
    peer = Peer()
    peer.on["server/discover"] = lambda _: peer.die(1)

    names = run(used(peer.serve(monkeypatch), _names), backend)

    assert (names, peer.started, peer.ended) == (["search"], 2, 2)
    assert len(peer.calls("server/discover")) == 1


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_a_server_that_ends_is_started_again_in_no_other_mode(
    monkeypatch: pytest.MonkeyPatch, mode: str, backend: Any
) -> None:
    """Where the way of asking was chosen, a server that ends is a failure that gives its exit code."""
    peer = Peer()
    peer.on["server/discover"] = peer.on["initialize"] = lambda _: peer.die(3)
    peer.on["tools/list"] = lambda _: peer.die(3)

    failure = failure_of(used(peer.serve(monkeypatch, mode=mode), _names), backend)

    assert (failure.kind, peer.started, peer.ended) == ("connection", 1, 1)
    assert "exit code 3" in failure.problem


def test_a_server_that_refuses_is_not_started_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """One that knows neither way of asking is no old server that had to end: its refusal is told."""
    peer = Peer()
    peer.on["initialize"] = lambda request: peer.refuse(request, -32000, "no licence")

    failure = failure_of(used(peer.serve(monkeypatch), _names), backend)

    assert (failure.kind, failure.code, peer.started, peer.ended) == ("protocol", -32000, 1, 1)
    assert failure.problem == "answered with the error -32000: no licence"


def test_a_server_that_floods_is_not_started_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What was cut off by ourselves is no old server: the failure says what it did."""
    peer = Peer()

    def flood(_: Message) -> None:
        peer.write(b"noise\n" * 20)
        peer.die(1)

    peer.on["server/discover"] = flood
    failure = failure_of(used(peer.serve(monkeypatch, limits=McpLimits(noise=5)), _names), backend)

    assert (failure.kind, peer.started) == ("invalid-answer", 1)
    assert "not messages" in failure.problem


def test_why_it_was_cut_off_is_told_though_it_takes_long_to_end(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A program that was cut off and is still ending when the time is over has not just been slow."""
    peer = Peer()
    peer.farewell = 0.3
    peer.on["server/discover"] = lambda _: peer.write(b"noise\n" * 20)
    server = peer.serve(monkeypatch, limits=McpLimits(noise=5), timeout=0.1)

    failure = failure_of(used(server, _names), backend)

    assert (failure.kind, peer.ended) == ("invalid-answer", 1)


def test_a_program_that_cannot_be_started_is_a_failure(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What the system says of it is told, with what was to be started."""
    peer = Peer()

    async def missing(*_: Any, **__: Any) -> Peer:
        await anyio.lowlevel.checkpoint()
        raise PermissionError(13, "Permission denied", "peer")

    server = peer.serve(monkeypatch)
    monkeypatch.setattr("fxai.mcp.client_transport.ChildProcess.start", missing)
    failure = failure_of(used(server, _names), backend)

    assert (failure.kind, failure.problem) == ("start", "cannot start 'peer': Permission denied ('peer')")


def test_a_server_that_does_not_answer_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Within `timeout` seconds it has answered or is ended; the remedy names the option."""
    peer = Peer()
    peer.on["server/discover"] = peer.on["initialize"] = lambda _: None

    failure = failure_of(used(peer.serve(monkeypatch, timeout=0.05), _names), backend)

    assert (failure.kind, peer.ended) == ("timeout", 1)
    assert "within 0.05 s after its start" in failure.problem
    assert "timeout=" in failure.remedy


def test_a_server_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """One whose input is full is a failure in time as well, and is ended."""
    peer = Peer()
    peer.is_mute = True

    failure = failure_of(used(peer.serve(monkeypatch, timeout=0.05), _names), backend)

    assert (failure.kind, peer.ended) == ("timeout", 1)


def test_its_environment_is_what_was_given_and_little_else(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Variables that were given are there, secrets of ours are not, and what a program cannot do without is."""
    monkeypatch.setenv("SECRET_OF_OURS", "1")
    peer = Peer()
    run(used(peer.serve(monkeypatch, env={"KEY": "k"}), _names), backend)

    assert peer.env["KEY"] == "k"
    assert "PATH" in peer.env
    assert "SECRET_OF_OURS" not in peer.env


# -- after the end


@pytest.mark.parametrize("code", [7, -9, None])
def test_a_server_that_is_gone_answers_no_call(monkeypatch: pytest.MonkeyPatch, code: int | None, backend: Any) -> None:
    """The call in which it ends and each later one fail at once, with how it ended and its last words."""
    if code is None:  # one that never says how it ended is waited for in vain
        monkeypatch.setattr("fxai.mcp.session._LAST_WORDS", 0.05)
    peer = Peer()

    def end(_: Message) -> None:
        peer.complain("the disk is full\n")
        peer.die(code)

    peer.on["tools/call"] = end

    def called(connection: Connection) -> Run:
        ends = yield fx.for_each(range(2), lambda _: connection.call("search").exit())
        return [one.cause.failures[0] for one in ends]

    failures = run(used(peer.serve(monkeypatch), called), backend)
    how = {7: "the program ended with the exit code 7", -9: "the program ended by the signal 9", None: "closed its"}

    assert [failure.kind for failure in failures] == ["connection"] * 2
    assert all(failure.problem.startswith(how[code]) for failure in failures)
    assert [failure.stderr for failure in failures] == ["the disk is full"] * 2
    assert [(failure.tool, failure.remedy) for failure in failures] == [("search", "Open the server again")] * 2


@pytest.mark.parametrize(
    ("later", "problem", "stderr"),
    [
        (0.309, "the program ended with the exit code 7", "the disk is full"),
        (60, "closed its output", ""),
    ],
)
def test_how_a_server_ended_is_waited_for_a_little(
    monkeypatch: pytest.MonkeyPatch, later: float, problem: str, stderr: str, backend: str
) -> None:
    """A program ends a moment after its output does, and says why; one that takes longer than 0.5 s is not awaited."""
    peer = Peer()
    peer.on["tools/call"] = lambda _: peer.close()

    async def ends() -> None:
        await anyio.sleep(later)
        peer.exit_code = 7
        await anyio.sleep(0.005)  # what it wrote is read a little later
        peer.complain("the disk is full\n")

    def called(connection: Connection) -> Run:
        yield fx.fork(fx.wait(ends))
        end = yield connection.call("search").exit()
        return end.cause.failures[0]

    failure = run(used(peer.serve(monkeypatch), called), backend)

    assert (failure.problem, failure.stderr) == (problem, stderr)


def test_a_connection_that_was_closed_is_closed(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A connection that outlives its scope fails each call and listing, and says to open it again."""
    peer = Peer()
    connection = run(fx.scoped(peer.serve(monkeypatch).open()), backend)

    heard = len(peer.heard)
    failures = [failure_of(ask, backend) for ask in (connection.call("search"), connection.refresh())]

    assert [(one.kind, one.problem, one.remedy) for one in failures] == [
        ("connection", "the connection is closed", "Open the server again")
    ] * 2
    assert (len(peer.heard), peer.ended) == (heard, 1)


def test_what_failed_to_open_is_ended_before_its_failure_is_told(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """The program is gone when the failure is there, though the scope around goes on."""
    peer = Peer()
    peer.on["tools/list"] = lambda request: peer.refuse(request, -32000, "away")

    @fx.gen
    def program() -> Run:
        end = yield peer.serve(monkeypatch).open().exit()
        return end.cause.failures[0], peer.ended

    failure, ended = run(fx.scoped(program()), backend)

    assert (failure.kind, failure.code, ended) == ("protocol", -32000, 1)
    assert failure.problem == "answered with the error -32000: away"


@both_versions
def test_a_server_that_ends_at_once_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, version: str, backend: str
) -> None:
    """Closing waits for nothing else, though there is a subscription that would go on."""
    peer = Peer(version)
    peer.on["subscriptions/listen"] = lambda request: _acknowledge(peer, request)

    async def program() -> tuple[float, int]:
        begun = anyio.current_time()
        await fx.run_async(used(peer.serve(monkeypatch), _called))
        return anyio.current_time() - begun, peer.ended

    assert anyio.run(program, **leaping(backend)) == (0, 1)


@pytest.mark.parametrize(
    ("endpoint", "seconds"), [(ServerProgram("peer", grace=3.0), 11), (Address("https://peer.example"), 5)]
)
def test_closing_does_not_wait_for_ever(endpoint: Any, seconds: float, backend: str) -> None:
    """A server that does not end is given 5 s, and a program twice its grace beside them."""

    async def program() -> float:
        link = Link(ServerSettings(endpoint, "peer"))  # which nobody runs, so that it never ends
        begun = anyio.current_time()
        await link.leave()
        return anyio.current_time() - begun

    assert anyio.run(program, **leaping(backend)) == seconds


# -- listing


def _paged(peer: Peer, cursors: list[str | None], each: int = 1) -> None:
    """Has the pages of a listing lead on by these cursors."""
    pages = iter(enumerate(cursors))

    def page(request: Message) -> None:
        number, cursor = next(pages)
        more = {} if cursor is None else {"nextCursor": cursor}
        peer.answer(request, {"tools": [tool(f"t{number}{n}") for n in range(each)], **more})

    peer.on["tools/list"] = page


def test_the_tools_of_all_pages_are_listed(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Each page is asked for by the cursor of the one before, the first by none."""
    peer = Peer()
    _paged(peer, ["a", "b", None])

    names = run(used(peer.serve(monkeypatch), _names), backend)

    assert names == ["t00", "t10", "t20"]
    assert [given.get("cursor") for given in peer.calls("tools/list")] == [None, "a", "b"]


@both_versions
def test_what_a_server_says_of_a_tool_is_kept(monkeypatch: pytest.MonkeyPatch, version: str, backend: Any) -> None:
    """Each part is as it was said, in the words of the protocol; what was not said is not there."""
    peer = Peer(version)
    problem: Message = {
        "title": "Find",
        "description": "Finds.",
        "inputSchema": {"type": "object", "default": None},
        "outputSchema": {"type": "object", "title": "Found"},
        "annotations": {"readOnlyHint": True, "title": "find"},
        "_meta": {"a/b": None},
    }
    peer.tools = [{"name": "full", **problem}, tool("bare")]

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.tools

    full = ToolDefinition(
        "full",
        "Find",
        "Finds.",
        problem["inputSchema"],
        problem["outputSchema"],
        problem["annotations"],
        problem["_meta"],
    )
    assert run(used(peer.serve(monkeypatch), looked), backend) == (
        full,
        ToolDefinition("bare", input_schema={"type": "object"}),
    )


@every(
    ("cursors", "each", "kind", "words"),
    [
        (["a", "b", "c", "d"], 1, "limit", "more than 4 pages"),
        ([None], 7, "limit", "listed more than 6 tools"),
        (["a", None], 4, "limit", "listed more than 6 tools"),
    ],
)
def test_a_listing_that_does_not_end_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, cursors: Any, each: int, kind: str, words: str, backend: Any
) -> None:
    """A listing of more pages or tools than the limits fails, and fxai requests no further page."""
    peer = Peer()
    _paged(peer, cursors, each)

    failure = failure_of(used(peer.serve(monkeypatch, limits=McpLimits(pages=4, tools=6)), _names), backend)

    assert failure.kind == kind
    assert words in failure.problem
    assert len(peer.calls("tools/list")) == len(cursors)


@every(
    ("cursors", "problem"),
    [
        (["a", "b", "a"], "repeats the cursor 'a'"),
        (["a", "a"], "repeats the cursor 'a'"),
        (["", ""], "repeats the cursor ''"),
        (["a", "", "b", ""], "repeats the cursor ''"),
        (["", None], ""),
        (["a", 0], "has a cursor that is not a string"),
        ([False], "has a cursor that is not a string"),
        ([{"after": "t00"}], "has a cursor that is not a string"),
        (["c" * 90] * 2, f"repeats the cursor '{'c' * 60}'"),
    ],
)
def test_a_cursor_that_comes_again_ends_the_listing(
    monkeypatch: pytest.MonkeyPatch, cursors: Any, problem: str, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """The tools of all pages so far are offered, and a warning names the cursor."""
    peer = Peer()
    _paged(peer, cursors)

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return [one.name for one in connection.tools], [(flaw.tool, flaw.problem) for flaw in connection.flaws]

    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        names, flaws = run(used(peer.serve(monkeypatch), looked), backend)

    assert names == [f"t{location}0" for location in range(len(cursors))]
    assert [given.get("cursor") for given in peer.calls("tools/list")] == [None, *cursors[:-1]]
    assert [(tool, problem in text) for tool, text in flaws] == ([(None, True)] if problem else [])
    assert (problem in caplog.text, bool(caplog.text)) == (True, bool(problem))
    caplog.clear()


def test_tools_that_a_page_repeats_are_offered_once(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A server that answers each cursor with the first page has each tool once, and refuses none."""
    peer = Peer()
    peer.on["tools/list"] = lambda request: peer.answer(request, {"tools": [tool("a")], "nextCursor": ""})

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return [one.name for one in connection.tools], connection.refused

    assert run(used(peer.serve(monkeypatch), looked), backend) == (["a"], ())


def test_an_empty_cursor_that_the_server_refuses_ends_the_listing(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """A server that sends an empty cursor for the end, and does not know it, lists its tools all the same."""
    peer = Peer()

    def page(request: Message) -> None:
        if "cursor" in request.get("params", {}):
            peer.refuse(request, -32602, "Invalid cursor")
        else:
            peer.answer(request, {"tools": [tool("a")], "nextCursor": ""})

    peer.on["tools/list"] = page

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return [one.name for one in connection.tools], [flaw.problem for flaw in connection.flaws]

    names, flaws = run(used(peer.serve(monkeypatch), looked), backend)

    assert (names, len(flaws), "empty cursor" in flaws[0]) == (["a"], 1, True)


def test_as_much_as_is_allowed_is_allowed(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A listing of exactly as many pages and tools as the limits say is no failure."""
    peer = Peer()
    _paged(peer, ["a", "b", "c", None], 3)

    names = run(used(peer.serve(monkeypatch, limits=McpLimits(pages=4, tools=12)), _names), backend)

    assert len(names) == 12


def test_a_listing_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """It has `timeout` seconds; the failure says what was asked for and names the option, and no tool."""
    peer = Peer()
    peer.on["tools/list"] = lambda _: None

    failure = failure_of(used(peer.serve(monkeypatch, timeout=0.1), _names), backend)

    assert (failure.kind, failure.problem, failure.tool) == ("timeout", "did not list its tools within 0.1 s", None)
    assert failure.remedy == "Pass a longer timeout="


def test_listings_do_not_cross(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Of listings that are wanted at once one waits for the other: the pages of two are never mixed."""
    peer = Peer()
    _paged(peer, ["a", None, "b", None, "c", None])

    def listed(connection: Connection) -> Run:
        yield fx.all_(connection.refresh(), connection.refresh())
        return [given.get("cursor") for given in peer.calls("tools/list")]

    assert run(used(peer.serve(monkeypatch), listed), backend) == [None, "a", None, "b", None, "c"]


# -- calls


@both_versions
def test_a_call_sends_name_and_arguments_as_they_are(
    monkeypatch: pytest.MonkeyPatch, version: str, backend: Any
) -> None:
    """The server gets the tool's own name, the arguments with every null, and a token for this call's progress."""
    peer = Peer(version)

    def called(connection: Connection) -> Run:
        yield connection.call("search", {"q": None, "deep": [{"x": 1.5}]})
        yield connection.call("search")

    run(used(peer.serve(monkeypatch, prefix="p_"), called), backend)
    first, second = peer.calls("tools/call")

    assert (first["name"], first["arguments"], second["arguments"]) == ("search", {"q": None, "deep": [{"x": 1.5}]}, {})
    assert first["_meta"]["progressToken"] != second["_meta"]["progressToken"]


@pytest.mark.parametrize(("code", "listed", "called"), [(-32602, 1, 1), (HEADER_MISMATCH, 2, 2)])
def test_a_call_that_is_refused_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, code: int, listed: int, called: int, backend: Any
) -> None:
    """Except where its headers are those of an older listing: then the tools are listed, and it is asked once more."""
    peer = Peer(MODERN)
    peer.on["tools/call"] = lambda request: peer.refuse(request, code, "not so")

    failure = failure_of(used(peer.serve(monkeypatch), _called), backend)

    assert (failure.kind, failure.code, failure.tool) == ("protocol", code, "search")
    assert failure.problem == f"answered with the error {code}: not so"
    assert (len(peer.calls("tools/list")), len(peer.calls("tools/call"))) == (listed, called)


def test_a_refusal_is_told_at_once(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """While the server goes on there is nothing to wait for: how it ended is asked where it has."""
    peer = Peer()
    peer.on["tools/call"] = lambda request: peer.refuse(request, -32602)

    async def program() -> float:
        begun = anyio.current_time()
        await fx.run_async_exit(used(peer.serve(monkeypatch), _called))
        return anyio.current_time() - begun

    assert anyio.run(program, **leaping(backend)) == 0


def test_calls_that_are_over_leave_nothing(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """An open connection holds no progress of the calls that went over it, whether they succeeded or not."""
    peer = Peer()

    def answer(request: Message) -> None:
        if request["params"]["arguments"]["q"] == "fine":
            peer.answer(request, peer.text("fine"))
        else:
            peer.refuse(request, -1)

    peer.on["tools/call"] = answer

    def called(connection: Connection) -> Run:
        kit, layer = connection.bound.toolkit, connection.bound.layer
        kind = type(progress_channel())
        gc.freeze()  # only what comes from here on is looked at
        try:
            yield fx.for_each(["fine", "no"] * 5, lambda q: kit.call("search", {"q": q}).provide(layer).as_(None))
            gc.collect()
            return sum(isinstance(one, kind) for one in gc.get_objects())
        finally:
            gc.unfreeze()

    assert run(used(peer.serve(monkeypatch), called), backend) == 0


def test_a_call_that_takes_too_long_is_cancelled_at_the_server(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """After `call_timeout` the call fails with the option's name, and the server is told which one is not wanted."""
    peer = Peer()
    peer.on["tools/call"] = lambda _: None
    failure = failure_of(used(peer.serve(monkeypatch, call_timeout=0.05), _called), backend)

    (asked,) = [message["id"] for message in peer.heard if message["method"] == "tools/call"]

    assert (failure.kind, failure.problem, failure.tool) == ("timeout", "did not answer within 0.05 s", "search")
    assert failure.remedy == "Pass a longer call_timeout="
    assert [given["requestId"] for given in peer.calls("notifications/cancelled")] == [asked]


@every(
    ("options", "reports", "ends", "problem", "option"),
    [
        ({"call_timeout": 1.0}, 8, None, "", ""),
        ({"call_timeout": 1.0}, 0, 1.0, "did not answer within 1 s", "call_timeout"),
        ({"call_timeout": 1.0, "total_timeout": 1.0}, 8, 1.0, "did not answer within 1 s in total", "total_timeout"),
        ({"call_timeout": 1.0, "total_timeout": 0.5}, 8, 1.0, "within 1 s in total", "total_timeout"),
        ({"call_timeout": 1.0, "total_timeout": 3.0}, 8, 3.0, "did not answer within 3 s in total", "total_timeout"),
        ({"call_timeout": 1.0, "total_timeout": None}, 2, 2.0, "reported no progress for 1 s", "call_timeout"),
        ({"call_timeout": None}, 8, None, "", ""),
    ],
)
def test_progress_extends_a_call(
    monkeypatch: pytest.MonkeyPatch,
    options: Any,
    reports: int,
    ends: float | None,
    problem: str,
    option: str,
    backend: Any,
) -> None:
    """Each report of progress starts `call_timeout` again, until `total_timeout`; the call reports every 0.5 s."""
    peer = Peer()
    held: list[Message] = []
    peer.on["tools/call"] = held.append

    def called(connection: Connection) -> Run:
        begun = yield fx.sync(anyio.current_time)
        calling = yield fx.fork(connection.call("search").exit())
        while not held:
            yield fx.checkpoint()
        for n in range(8):
            yield fx.wait(lambda: anyio.sleep(0.5))
            if n < reports:
                peer.notify("progress", progressToken=held[0]["params"]["_meta"]["progressToken"], progress=n)
        if ends is None:
            peer.answer(held[0], peer.text("built"))
        return (yield calling.join()), (yield fx.sync(anyio.current_time)) - begun

    end, _ = run(used(peer.serve(monkeypatch, **options), called), backend)

    if ends is None:
        assert end == Succeeded(peer.text("built"))
    else:
        (failure,) = end.cause.failures
        assert (failure.kind, problem in failure.problem, option in failure.remedy) == ("timeout", True, True)


def test_an_answer_that_comes_too_late_is_nobody_s(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """The late answer of a call that was given up is not the next call's; nor is one that comes twice."""
    peer = Peer()
    late: list[Message] = []

    def hold(request: Message) -> None:
        late.append(request)
        if len(late) > 1:
            for _ in range(3):
                peer.answer(late[0], peer.text("late"))
            for _ in range(3):
                peer.answer(request, peer.text(f"own {len(late)}"))

    peer.on["tools/call"] = hold

    def called(connection: Connection) -> Run:
        yield connection.call("search").exit()
        return (yield fx.for_each(range(2), lambda _: connection.call("search")))

    values = run(used(peer.serve(monkeypatch, call_timeout=0.05), called), backend)

    assert [value["content"][0]["text"] for value in values] == ["own 2", "own 3"]


@every(
    ("line", "why"),
    [
        (r'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\u00"}]}}', "escape"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"x":' + "[" * 5_000 + "]" * 5_000 + "}}", "nested too deep"),
        ('{"jsonrpc":"2.0","result":{"x":' + "[" * 5_000 + "]" * 5_000 + '},"id":ID}', "nested too deep"),
        ('{"jsonrpc":"2.0","result":{"x":' + "[" * 90_000 + "]" * 90_000 + '},"id": ID }', "nested too deep"),
        ('{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"m","data":' + "[" * 300 + "]" * 300 + "}}", "too deep"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te', "EOF"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"id":99,"method":"x","content":[{"type":"te', "EOF"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"x":"a\tb"}}', "control character"),
        ('{"jsonrpc":"2.0","id":ID,"result":null}', "not a JSON-RPC message"),
        ('{"jsonrpc":"2.0","id":ID,"error":"no"}', "not a JSON-RPC message"),
        ('{"jsonrpc":"1.0","id":ID,"result":{}}', "not a JSON-RPC message"),
        ('{"jsonrpc":"2.0","id":ID}', "not a JSON-RPC message"),
        ('{"jsonrpc":"2.0","id":"ID","result":[1]}', "not a JSON-RPC message"),
        ('{"jsonrpc":"2.0","id":ID.0,"result":{}}', "not a JSON-RPC message"),
        ('[{"jsonrpc":"2.0","id":ID,"result":3}]', "not a JSON-RPC message"),
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_call_at_once(
    monkeypatch: pytest.MonkeyPatch, line: str, why: str, backend: Any
) -> None:
    """Its call, which it names, does not wait for its timeout; another call is answered, and the connection stays."""
    peer = Peer()

    def bad(request: Message) -> None:
        if request["params"]["arguments"]:
            peer.write(line.replace("ID", str(request["id"])).encode() + b"\n")
        else:
            peer.answer(request, peer.text("fine"))

    peer.on["tools/call"] = bad

    def called(connection: Connection) -> Run:
        wrong = yield connection.call("search", {"q": 1}).timeout(20).exit()
        return wrong.cause.failures[0], (yield connection.call("search"))

    failure, after = run(used(peer.serve(monkeypatch), called), backend)

    assert failure.kind == "invalid-answer"
    assert failure.problem.startswith("cannot read the answer as JSON: ")
    assert why in failure.problem
    assert (failure.tool, failure.remedy) == ("search", "Report this to the server's authors")
    assert after == {"content": [{"type": "text", "text": "fine"}]}


@every(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/message","id":ID,"params":{"data":"\xff"}}',
        b'{"jsonrpc":"2.0","id":9999,"result":{"x":"\xff"}}',
        b'"id":ID',
        b'{"id"',
        b'{"jsonrpc":"2.0","result":{"id":ID,"x":"\xff"}}',
        b"[",
        b"[]",
    ],
)
def test_what_is_no_answer_is_noise(monkeypatch: pytest.MonkeyPatch, line: bytes, backend: Any) -> None:
    """A line that answers none of our requests fails none: the call's own answer comes after it."""
    peer = Peer()

    def noisy(request: Message) -> None:
        peer.write(line.replace(b"ID", str(request["id"]).encode()) + b"\n")
        peer.answer(request, peer.text("fine"))

    peer.on["tools/call"] = noisy

    assert run(used(peer.serve(monkeypatch), _called), backend)["content"][0]["text"] == "fine"


def test_answers_in_a_batch_are_each_taken(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Protocol 2025-03-26 lets a server put several messages in one line."""
    peer = Peer("2025-03-26")
    held: list[Message] = []

    def hold(request: Message) -> None:
        held.append(request)
        if len(held) == 2:
            answers = [{"jsonrpc": "2.0", "id": one["id"], "result": peer.text(str(one["id"]))} for one in held]
            peer.write(str(answers).replace("'", '"').encode() + b"\n")

    peer.on["tools/call"] = hold

    def called(connection: Connection) -> Run:
        return (yield fx.all_(connection.call("search"), connection.call("search")))

    both = run(used(peer.serve(monkeypatch), called), backend)

    assert sorted(one["content"][0]["text"] for one in both) == sorted(str(one["id"]) for one in held)


@pytest.mark.parametrize(("count", "kind"), [(BATCH, "invalid-answer"), (BATCH + 1, "limit")])
def test_a_batch_of_rubbish_is_given_up(monkeypatch: pytest.MonkeyPatch, count: int, kind: str, backend: Any) -> None:
    """Nothing more of a line is looked at when it is clear that the connection ends."""
    peer = Peer()
    peer.on["tools/call"] = lambda _: peer.write(b"[" + b",".join([b"1"] * count) + b"]\n")
    server = peer.serve(monkeypatch, limits=McpLimits(noise=5))

    failure = failure_of(used(server, _called), backend)

    assert failure.kind == kind
    assert ("6 lines on its output were not messages" in failure.problem) is (kind == "invalid-answer")


def test_a_line_may_come_in_pieces_and_several_at_once(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Lines are what the bytes say, however they arrive; empty ones are none."""
    peer = Peer()

    def split(request: Message) -> None:
        text = f'\n\r\n{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":[]}}}}\n{{"jsonrpc":"2.0","meth'
        for byte in text.encode():
            peer.write(bytes([byte]))
        peer.write(b'od":"notifications/x"}\n\n')

    peer.on["tools/call"] = split

    assert run(used(peer.serve(monkeypatch), _called), backend) == {"content": []}


@pytest.mark.parametrize(("size", "fits"), [(1_000, True), (1_001, False)])
def test_a_message_is_as_large_as_is_allowed(
    monkeypatch: pytest.MonkeyPatch, size: int, fits: bool, backend: Any
) -> None:
    """One of exactly `message_bytes` is taken; a larger one ends the connection, whole, in pieces or without an end."""
    peer = Peer()

    def large(request: Message) -> None:
        head, tail = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":[],"x":"', '"}}'
        line = head + "x" * (size - len(head) - len(tail)) + tail
        peer.write(line[:300].encode())
        peer.write(line[300:].encode() + b"\n")

    peer.on["tools/call"] = large
    end = run_exit(used(peer.serve(monkeypatch, limits=McpLimits(message_bytes=1_000)), _called), backend)

    assert [
        (one.kind, "1000 bytes" in one.problem) for one in getattr(getattr(end, "cause", None), "failures", [])
    ] == ([] if fits else [("limit", True)])


def test_notifications_by_the_thousand_hold_up_nothing(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A flood of changes, progress and log is read past; the tools are listed once for all of the changes."""
    peer = Peer()

    def storm(request: Message) -> None:
        for number in range(1_000):
            peer.notify("tools/list_changed")
            peer.notify("progress", progressToken="nobody's", progress=number)
            peer.notify("message", level="info", data="x")
        peer.answer(request, peer.text("calm"))

    peer.on["tools/call"] = storm

    def called(connection: Connection) -> Run:
        problem = yield connection.call("search")
        yield connection.now
        yield connection.now
        return problem, len(peer.calls("tools/list"))

    problem, listed = run(used(peer.serve(monkeypatch), called), backend)

    assert (problem["content"][0]["text"], listed) == ("calm", 2)


def test_requests_of_the_server_are_answered_up_to_a_number(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Pings are answered one by one; more of them at once than `requests` says end the connection."""
    few, many = Peer(), Peer()

    def pings(peer: Peer, number: int) -> Callable[[Message], None]:
        def ask(request: Message) -> None:
            for n in range(number):
                peer.say(id=f"p{n}", method="ping")
            peer.answer(request, peer.text("done"))

        return ask

    def flood(request: Message) -> None:
        many.is_mute = True  # who takes no answers is owed more and more of them
        pings(many, 500)(request)

    few.on["tools/call"], many.on["tools/call"] = pings(few, 8), flood
    limits = McpLimits(requests=8)

    def answered(connection: Connection) -> Run:
        yield connection.call("search")
        yield fx.sleep(0.02)
        return [message["id"] for message in few.heard if "result" in message]

    assert run(used(few.serve(monkeypatch, limits=limits), answered), backend) == [f"p{n}" for n in range(8)]
    failure = failure_of(used(many.serve(monkeypatch, limits=limits), _called), backend)
    assert (failure.kind, "more than 8 requests at the same time" in failure.problem) == ("limit", True)


# -- questions


def _asking(peer: Peer, params: Message, answers: list[Message]) -> None:
    """Has each call ask first, by the older protocols, and keeps what comes back."""

    def ask(request: Message) -> None:
        peer.say(id="ask", method="elicitation/create", params=params)
        calls.append(request)

    calls: list[Message] = []

    def heard(message: Message) -> None:
        answers.append({key: message[key] for key in ("result", "error") if key in message})
        peer.answer(calls.pop(), peer.text("asked"))

    peer.on_answer = heard
    peer.on["tools/call"] = ask


@pytest.mark.parametrize(
    ("params", "schema", "url"),
    [
        ({"message": "Sure?", "requestedSchema": FORM}, FORM, None),
        ({"mode": "form", "message": "Sure?", "requestedSchema": FORM}, FORM, None),
        (
            {"mode": "url", "message": "Sure?", "url": "https://x.example", "elicitationId": "1"},
            {},
            "https://x.example",
        ),
    ],
)
def test_a_question_is_told_as_it_was_asked(
    monkeypatch: pytest.MonkeyPatch, params: Message, schema: Message, url: str | None, backend: Any
) -> None:
    """A form keeps each null of its schema and has no address; an address has no form."""
    heard: list[Elicitation] = []
    answers: list[Message] = []
    peer = Peer()
    _asking(peer, params, answers)

    def hear(asked: Elicitation) -> ElicitAnswer:
        heard.append(asked)
        return ElicitAnswer("decline")

    run(used(peer.serve(monkeypatch, elicit=hear), _called), backend)

    assert heard == [Elicitation("peer", "Sure?", schema, url)]
    assert heard[0].fields == tuple(schema.get("properties", ()))
    assert answers == [{"result": {"action": "decline"}}]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (ElicitAnswer("accept", {"sure": None, "n": 2}), {"action": "accept", "content": {"sure": None, "n": 2}}),
        (ElicitAnswer("accept", {}), {"action": "accept", "content": {}}),
        (ElicitAnswer("cancel"), {"action": "cancel"}),
    ],
)
@pytest.mark.parametrize("later", [True, False])
def test_an_answer_is_sent_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, answer: ElicitAnswer, result: Message, later: bool, backend: Any
) -> None:
    """At once or by an effect, with each null of its content; content that was not given is none."""
    answers: list[Message] = []
    peer = Peer()
    _asking(peer, {"message": "Sure?", "requestedSchema": FORM}, answers)

    def elicit(_: Elicitation) -> ElicitAnswer | EffectOf[ElicitAnswer]:
        return fx.checkpoint().as_(answer) if later else answer

    run(used(peer.serve(monkeypatch, elicit=elicit), _called), backend)

    assert answers == [{"result": result}]


@pytest.mark.parametrize("wrong", ["raises", "answers nonsense"])
def test_a_bug_of_whoever_answers_is_told_to_us_alone(
    monkeypatch: pytest.MonkeyPatch, wrong: str, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """The server learns that answering failed and not how; the log has it, and the call goes on."""
    answers: list[Message] = []
    peer = Peer()
    _asking(peer, {"message": "Sure?", "requestedSchema": FORM}, answers)

    def elicit(_: Elicitation) -> Any:
        if wrong == "raises":
            raise RuntimeError("secret")
        return ElicitAnswer(cast(Any, "maybe"), {"x": object()})

    with caplog.at_level(logging.ERROR, "fxai.mcp"):
        run(used(peer.serve(monkeypatch, elicit=elicit), _called), backend)

    (answer,) = answers
    assert answer["error"]["code"] == -32603
    assert "secret" not in str(answer)
    assert "`elicit` of the MCP server 'peer' failed" in caplog.text


def test_a_question_that_nobody_answers_is_refused(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Without `elicit=` the server is told so, and may go on."""
    answers: list[Message] = []
    peer = Peer()
    _asking(peer, {"message": "Sure?", "requestedSchema": FORM}, answers)

    run(used(peer.serve(monkeypatch), _called), backend)

    assert [answer["error"]["code"] for answer in answers] == [-32600]


# -- questions of the newest protocol


def _rounds(peer: Peer, *rounds: Message) -> list[float]:
    """Has a call be answered by these demands for input, one after another, then by its result; when it was asked."""
    left = list(rounds)

    def call(request: Message) -> None:
        times.append(anyio.current_time())
        peer.answer(request, {"resultType": "input_required", **left.pop(0)} if left else peer.text("done"))

    times: list[float] = []
    peer.on["tools/call"] = call
    return times


def _question(method: str = "elicitation/create", **params: Any) -> Message:
    return {"method": method, "params": params or {"mode": "form", "message": "Sure?", "requestedSchema": FORM}}


def test_each_round_brings_the_answers_and_the_state(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Answers go by the keys of their questions, the state goes back as it was, and a round may ask for neither."""
    peer = Peer(MODERN)
    two = {"a": _question(), "b": _question()}
    times = _rounds(peer, {"inputRequests": two, "requestState": "s1"}, {"requestState": "s2"}, {"inputRequests": two})

    server = peer.serve(monkeypatch, elicit=_accepted)
    result = run(used(server, _called), backend)
    sent = [(set(one.get("inputResponses") or ()), one.get("requestState")) for one in peer.calls("tools/call")]

    assert result["content"][0]["text"] == "done"
    assert sent == [(set(), None), ({"a", "b"}, "s1"), (set(), "s2"), ({"a", "b"}, None)]
    assert {one["name"] for one in peer.calls("tools/call")} == {"search"}
    assert [later > earlier for earlier, later in pairwise(times)] == [False, True, False]  # asked again after a pause


def test_rounds_end(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A server that asks for ever is a failure after ten rounds; ten questions and then an answer are none."""
    endless, patient = Peer(MODERN), Peer(MODERN)
    _rounds(endless, *[{"inputRequests": {"a": _question()}}] * 50)
    _rounds(patient, *[{"inputRequests": {"a": _question()}}] * 9)
    elicit: Message = {"elicit": _declined}

    failure = failure_of(used(endless.serve(monkeypatch, **elicit), _called), backend)
    result = run(used(patient.serve(monkeypatch, **elicit), _called), backend)

    assert (failure.kind, failure.tool, len(endless.calls("tools/call"))) == ("input-required", "search", 10)
    assert "more than 10 rounds" in failure.problem
    assert result["content"][0]["text"] == "done"


@pytest.mark.parametrize(("count", "fits"), [(3, True), (4, False)])
def test_a_person_is_asked_so_much_at_once(
    monkeypatch: pytest.MonkeyPatch, count: int, fits: bool, backend: Any
) -> None:
    """As many questions as `limits.requests` come with one answer; more are a failure, and nobody is asked."""
    peer, asked = Peer(MODERN), list[Elicitation]()

    def noting(question: Elicitation) -> ElicitAnswer:
        asked.append(question)
        return ElicitAnswer("decline")

    _rounds(peer, {"inputRequests": {str(key): _question() for key in range(count)}})
    server = peer.serve(monkeypatch, elicit=noting, limits=McpLimits(requests=3))

    if fits:
        assert fx.run(used(server, _called), backend=backend)["content"][0]["text"] == "done"
    else:
        assert failure_of(used(server, _called), backend).kind == "limit"
    assert len(asked) == (3 if fits else 0)


@pytest.mark.parametrize(
    ("question", "remedy"),
    [
        (_question(), "Pass elicit=, a function that answers"),
        (_question("sampling/createMessage", messages=[], maxTokens=1), "Omit the tool"),
        (_question("roots/list"), "Omit the tool"),
    ],
)
def test_what_nobody_answers_fails_the_call(
    monkeypatch: pytest.MonkeyPatch, question: Message, remedy: str, backend: Any
) -> None:
    """The failure names what was asked for and what to do; the server is not asked again."""
    peer = Peer(MODERN)
    _rounds(peer, {"inputRequests": {"a": question}})

    failure = failure_of(used(peer.serve(monkeypatch), _called), backend)

    assert (failure.kind, failure.remedy, failure.tool) == ("input-required", remedy, "search")
    assert question["method"] in failure.problem
    assert len(peer.calls("tools/call")) == 1


# -- changes


@pytest.mark.parametrize("told", [True, False])
def test_changes_are_subscribed_to_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, told: bool, backend: Any
) -> None:
    """By the newest protocol the client listens for changes, where the server says that its tools may change."""
    peer = Peer(MODERN)
    capabilities: Message = {"tools": {"listChanged": told}}
    peer.on["server/discover"] = lambda request: peer.answer(request, {**peer.discovery, "capabilities": capabilities})
    peer.on["subscriptions/listen"] = lambda _: None

    def looked(connection: Connection) -> Run:
        yield fx.sleep(0.02)
        return [given["notifications"] for given in peer.calls("subscriptions/listen")]

    heard = run(used(peer.serve(monkeypatch), looked), backend)

    assert heard == ([{"toolsListChanged": True}] if told else [])


META = "io.modelcontextprotocol/subscriptionId"


def _acknowledge(peer: Peer, request: Message) -> None:
    noted: Message = {"_meta": {META: request["id"]}, "notifications": {"toolsListChanged": True}}
    peer.notify("subscriptions/acknowledged", **noted)


def test_a_subscription_that_is_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """After a second, then twice as long each time, up to a minute; one that began starts over, however it ended."""
    peer = Peer(MODERN)
    times: list[float] = []

    def listen(request: Message) -> None:
        times.append(anyio.current_time())
        if len(times) in (9, 12):
            _acknowledge(peer, request)
        if len(times) == 9:
            peer.answer(request, peer.modern_fields)
        else:
            peer.refuse(request, -32000)

    peer.on["subscriptions/listen"] = listen

    def looked(_: Connection) -> Run:
        yield fx.sleep(300)

    run(used(peer.serve(monkeypatch), looked), backend)

    pauses = [round(later - earlier, 3) for earlier, later in pairwise(times)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2, 4, 1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_a_subscription_that_there_is_not_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, version: str, backend: Any
) -> None:
    """A server that does not know the question is asked once; by an older protocol none is."""
    peer = Peer(version)

    def looked(_: Connection) -> Run:
        yield fx.sleep(300)

    run(used(peer.serve(monkeypatch), looked), backend)

    assert len(peer.calls("subscriptions/listen")) == (1 if version == MODERN else 0)


def test_what_changed_before_it_was_heard_is_asked_for(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """When a subscription begins the tools are listed anew: a change before it was told to nobody."""
    peer = Peer(MODERN)

    def acknowledge(request: Message) -> None:
        _acknowledge(peer, request)
        peer.tools.append(tool("later"))

    peer.on["subscriptions/listen"] = acknowledge

    def looked(connection: Connection) -> Run:
        yield fx.sleep(0.05)
        yield connection.now
        first = [one.name for one in connection.tools]
        peer.tools.append(tool("last"))
        peer.notify("tools/list_changed", _meta={META: peer.heard[-1].get("id")})
        yield fx.sleep(0.02)
        yield connection.now
        return first, [one.name for one in connection.tools]

    first, last = run(used(peer.serve(monkeypatch), looked), backend)

    assert (first, last) == (["search", "later"], ["search", "later", "last"])


def test_it_is_the_servers_log_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """With `on_log` each call of the newest protocol asks for everything; without it nothing is asked for."""
    heard: list[tuple[str, Any]] = []
    loud, quiet = Peer(MODERN), Peer(MODERN)

    def logs(request: Message) -> None:
        loud.notify("message", level="warning", data={"n": None})
        loud.notify("message")
        loud.answer(request, loud.text("done"))

    loud.on["tools/call"] = logs

    def hear(level: str, data: Any) -> None:
        heard.append((level, data))

    for peer, options in ((loud, {"on_log": hear}), (quiet, {})):
        run(used(peer.serve(monkeypatch, **options), _called), backend)
    (asked,), (unasked,) = loud.calls("tools/call"), quiet.calls("tools/call")

    assert asked["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"
    assert "io.modelcontextprotocol/logLevel" not in unasked["_meta"]
    assert heard == [("warning", {"n": None}), ("info", None)]


def test_progress_goes_to_its_own_call(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Of two calls at once each shows its own progress, in order; what comes after its end is nobody's."""
    peer = Peer()
    held: list[Message] = []

    def hold(request: Message) -> None:
        held.append(request)
        if len(held) == 2:
            for n in range(3):
                for one in held:
                    token = one["params"]["_meta"]["progressToken"]
                    peer.notify("progress", progressToken=token, progress=n, message=one["params"]["arguments"]["q"])
            for one in held:
                peer.answer(one, peer.text("done"))
                token = one["params"]["_meta"]["progressToken"]
                peer.notify("progress", progressToken=token, progress=99)

    peer.on["tools/call"] = hold

    def called(connection: Connection) -> Run:
        kit, layer = connection.bound.toolkit, connection.bound.layer
        streams = [kit.handle("search", {"q": q}).provide(layer).collect() for q in "ab"]
        return (yield fx.all_(*streams))

    both = run(used(peer.serve(monkeypatch), called), backend)

    for name, outcomes in zip("ab", both, strict=True):
        shown = [one.result for one in outcomes if one.preliminary]
        assert shown == [{"progress": n, "message": name} for n in range(3)]
        assert [one.preliminary for one in outcomes] == [True, True, True, False]


def test_a_server_is_called_what_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that was given stands in each failure, with what the standard error said at its end."""
    peer = Peer()

    def end(_: Message) -> None:
        peer.complain("x" * 100 + "the end\n")
        peer.die(1)

    peer.on["initialize"] = peer.on["server/discover"] = end
    server = peer.serve(monkeypatch, name="weather", limits=McpLimits(stderr=8), mode="legacy")

    failure = failure_of(used(server, _names), "asyncio")

    assert (failure.server, failure.stderr) == ("weather", "the end")
    assert isinstance(failure, mcp.McpError)
