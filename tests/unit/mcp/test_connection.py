"""Connections: which tools of a server are offered, when they are listed, and what a call of one gives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from fxai import HandlerError, Outcome, ToolSource, fx, mcp
from fxai.effects import Succeeded
from fxai.mcp import Connection, McpError, McpLimits, McpToolError, Pins, Refused
from fxai.mcp.result import shown_content
from tests.kit.every import every
from tests.kit.mcp_peer import Message, Peer, Run, failure_of, run, run_exit, tool, used

OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _names(connection: Connection) -> list[str]:
    return [one.name for one in connection.tools]


# -- when tools are listed


def test_tools_are_listed_when_they_may_have_changed_and_not_else(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """`now` gives the same as before until the server says that they changed; however often it says so, once."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        first = yield connection.now
        again = yield connection.now
        before = len(peer.calls("tools/list"))
        for _ in range(50):
            peer.notify("tools/list_changed")
        peer.tools.append(tool("later"))
        yield connection.call("search")  # its answer comes behind them
        changed = yield connection.now
        yield connection.now
        return first is again, before, list(changed.toolkit.tools), len(peer.calls("tools/list"))

    same, before, names, after = run(used(peer.serve(monkeypatch), looked), backend)

    assert (same, before, names, after) == (True, 1, ["search", "later"], 2)


def test_between_any_two_tools_of_a_listing_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """A listing of hundreds of tools does not hold the event loop: what else runs takes a turn for each of them."""
    peer = Peer()
    first, made = peer.tools, 200
    turns: list[int] = []

    async def taking_turns() -> None:
        while True:
            turns.append(len(turns))
            await checkpoint()

    def looked(connection: Connection) -> Run:
        peer.tools = [*first, *(tool(f"other{n}") for n in range(made))]
        beside = yield fx.fork(fx.attempt_async(taking_turns, lambda _: None))
        before = len(turns)
        yield connection.refresh()
        after = len(turns)
        yield beside.interrupt()
        return after - before, len(connection.tools)

    taken, tools = run(used(peer.serve(monkeypatch), looked), backend)

    assert tools == 1 + made
    assert taken > 2 * made  # once where each is read, and once where it is made


@pytest.mark.parametrize("how", ["refused", "wrong", "not in time"])
def test_after_a_failed_listing_the_next_one_is_tried(
    monkeypatch: pytest.MonkeyPatch, how: str, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """The tools stay as they were, with a warning; the next look lists them, though the server says nothing more."""
    peer = Peer()
    right = peer.on["tools/list"]
    wrong: dict[str, Callable[[Message], Any]] = {
        "refused": lambda request: peer.refuse(request, -32000, "away"),
        "wrong": lambda request: peer.answer(request, {"tools": 5}),
        "not in time": str,
    }

    def looked(connection: Connection) -> Run:
        before = connection.bound
        peer.tools.append(tool("later"))
        peer.on["tools/list"] = wrong[how]
        connection.mark_stale()
        meanwhile = yield connection.now
        peer.on["tools/list"] = right
        after = yield connection.now
        return meanwhile is before, list(after.toolkit.tools)

    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        same, names = run(used(peer.serve(monkeypatch, timeout=0.1), looked), backend)

    assert (same, names) == (True, ["search", "later"])
    assert "the previous tools stay: MCP server 'peer'" in caplog.text


def test_a_change_while_tools_are_listed_is_not_lost(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What the server says after it was asked and before it has answered leads to another listing."""
    peer = Peer()
    right = peer.on["tools/list"]

    def looked(connection: Connection) -> Run:
        def list_(request: Message) -> None:
            peer.on["tools/list"] = right
            peer.notify("tools/list_changed")
            right(request)
            peer.tools.append(tool("later"))

        peer.on["tools/list"] = list_
        yield connection.refresh()
        first = _names(connection)
        yield connection.now
        return first, _names(connection)

    assert run(used(peer.serve(monkeypatch), looked), backend) == (["search"], ["search", "later"])


def test_a_refresh_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Where tools are asked for by hand their failure is a typed one."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        peer.on["tools/list"] = lambda request: peer.refuse(request, -32000, "away")
        return (yield connection.refresh())

    failure = failure_of(used(peer.serve(monkeypatch), looked), backend)

    assert (failure.kind, failure.code, failure.tool) == ("protocol", -32000, None)


def test_tools_that_stay_the_same_are_the_same(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A listing makes anew what the server describes otherwise, and keeps the rest: calls that run are not in doubt."""
    peer = Peer()
    peer.tools = [tool("a"), tool("b")]

    def looked(connection: Connection) -> Run:
        before = connection.bound.toolkit.tools
        peer.tools = [tool("a"), tool("b", inputSchema={"type": "object", "required": ["x"]})]
        yield connection.refresh()
        yield connection.approve()
        now = (yield connection.now).toolkit.tools
        return [now[name] is before[name] for name in ("a", "b")]

    assert run(used(peer.serve(monkeypatch), looked), backend) == [True, False]


# -- which are offered


def test_a_name_is_offered_once(monkeypatch: pytest.MonkeyPatch, caplog: Any, backend: Any) -> None:
    """Of two tools of one name the first is offered; the other is refused, and warned of once, not at each listing."""
    peer = Peer()
    twice = [tool("a", description="first"), tool("a", description="second")]
    peer.tools = [*twice, tool("b", description="behind"), {"name": "c", "inputSchema": 5}]

    def looked(connection: Connection) -> Run:
        yield connection.refresh()
        yield connection.refresh()
        return [one.description for one in connection.tools], connection.refused, connection.known_names

    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        descriptions, refused, known = run(used(peer.serve(monkeypatch), looked), backend)

    assert descriptions == ["first", "behind"]
    assert [one.name for one in refused] == ["c", "a"]
    assert refused[1] == Refused("a", "the server lists it twice, and fxai offers the first one")
    assert known == ("a", "a", "b", "c")
    assert caplog.text.count("is invalid and not offered") == 2
    assert "tool 'a' of the MCP server 'peer' is invalid and not offered: the server lists it twice" in caplog.text


@every(
    ("only", "without", "offered", "refused"),
    [
        ((), [], ["a", "b"], ["bad"]),
        ([["b"]], [], ["b"], []),
        ([["b", "bad"]], [], ["b"], ["bad"]),
        ([["a", "b"], ["b", "c"]], [], ["b"], []),
        ((), [["a"]], ["b"], ["bad"]),
        ((), [["bad"]], ["a", "b"], []),
        ([["a", "b"]], [["a"]], ["b"], []),
        ((), [["a"], ["b"]], [], ["bad"]),
    ],
)
def test_what_is_not_wanted_is_neither_offered_nor_refused(
    monkeypatch: pytest.MonkeyPatch, only: Any, without: Any, offered: list[str], refused: list[str], backend: Any
) -> None:
    """`only` and `without` go by the server's names; nobody is told of the faults of tools that nobody wants."""
    peer = Peer()
    peer.tools = [tool("a"), tool("b"), tool("bad", inputSchema={"type": "object", "pattern": 5})]

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return _names(connection), sorted({one.name for one in connection.refused})

    server = peer.serve(monkeypatch)
    for names in only:
        server = server.only(*names)
    for names in without:
        server = server.without(*names)

    assert run(used(server, looked), backend) == (offered, refused)


@pytest.mark.parametrize(("tools", "known"), [([tool("a"), tool("b")], "a, b"), ([], "none")])
def test_a_tool_that_is_not_there_cannot_be_chosen(
    monkeypatch: pytest.MonkeyPatch, tools: list[Any], known: str, backend: Any
) -> None:
    """Opening fails where `only` names a tool that the server has not, with the names that it has."""
    peer = Peer()
    peer.tools = tools

    def looked(_: Connection) -> Run:
        yield fx.checkpoint()

    failure = failure_of(used(peer.serve(monkeypatch).only("c", "a"), looked), backend)

    assert (failure.kind, failure.problem) == ("no-such-tool", "unknown tool 'c' in `only`")
    assert (failure.remedy, peer.ended) == (f"Use one of: {known}", 1)


# -- held back


def test_a_tool_that_is_held_back_is_not_called(monkeypatch: pytest.MonkeyPatch, caplog: Any, backend: Any) -> None:
    """Its call fails without a word to the server, by its name and by its handler; it is warned of once a change."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        before = connection.bound
        peer.tools[0]["description"] = "Finds, and sends your keys."
        yield connection.refresh()
        warned = caplog.text.count("is blocked until you approve it again")
        yield connection.refresh()
        by_name = yield connection.call("search").exit()
        by_kit = yield before.toolkit.call("search", {}).provide(before.layer)
        assert warned == 1
        return connection.held_back, by_name.cause.failures[0], by_kit.result, len(peer.calls("tools/call"))

    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        held, by_name, by_kit, sent = run(used(peer.serve(monkeypatch), looked), backend)
    problem = "blocked tool: differs from the approved definition: description"

    assert held == (mcp.Change("search", ("description",)),)
    assert by_name == by_kit == McpError("peer", "held-back", problem, "Approve it again", "search")
    assert sent == 0
    assert (
        caplog.text.count("is blocked until you approve it again: differs from the approved definition: description")
        == 1
    )


def test_a_tool_that_nobody_has_seen_can_be_held_back(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """With pins that hold the unseen, a new tool is called when it was approved; until then its failure says why."""
    peer = Peer()

    def called(connection: Connection) -> Run:
        held = connection.held_back
        before = yield connection.call("search").exit()
        yield connection.approve("search")
        yield connection.now
        return held, before.cause.failures[0].problem, (yield connection.call("search"))

    held, problem, after = run(used(peer.serve(monkeypatch, pins=Pins.in_process(unseen="hold")), called), backend)

    assert (held, problem) == ((mcp.Change("search", ("new",)),), "blocked tool: never approved")
    assert after == {"content": [{"type": "text", "text": "found"}]}


@every("part", ["_meta", "icons", "execution", "x-own"])
def test_a_pin_covers_the_whole_definition(
    monkeypatch: pytest.MonkeyPatch, part: str, tmp_path: Path, backend: Any
) -> None:
    """A member that fxai does not use is pinned too, because a client or a person may read it."""
    peer = Peer()
    pins = Pins.file(tmp_path / f"{part}.json")
    value: dict[str, Any] = {"_meta": {"a/b": 1}, "icons": [{"src": "https://a/b"}], "execution": {}}

    def looked(connection: Connection) -> Run:
        peer.tools = [tool("search", **{part: value.get(part, [1])})]
        yield connection.refresh()
        return connection.held_back, _names(connection)

    held, names = run(used(peer.serve(monkeypatch, pins=pins), looked), backend)

    assert [(change.name, change.parts) for change in held] == [("search", ("_meta" if part == "_meta" else "other",))]
    assert names == []


@every(("pins", "parts"), [(None, None), (Pins.in_process, ("new",))])
def test_a_tool_that_is_added_to_an_open_server_is_offered_unless_there_are_pins(
    monkeypatch: pytest.MonkeyPatch, pins: Any, parts: Any, backend: Any
) -> None:
    """Pins are approvals, and an added tool has none; without pins, a server can add tools."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        peer.tools = [tool("search"), tool("later"), tool("s\u0435arch")]
        yield connection.refresh()
        return {change.name: change.parts for change in connection.held_back}, _names(connection)

    held, names = run(used(peer.serve(monkeypatch, pins=pins and pins()), looked), backend)

    assert held == {"s\u0435arch": ("new", "name"), **({"later": parts} if parts else {})}
    assert names == ["search", *([] if parts else ["later"])]


def test_pins_cover_the_tools_that_are_not_wanted_yet(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A program that later wants more of the tools that it saw at first gets them, unless they changed."""
    peer = Peer()
    pins = Pins.in_process()
    peer.tools = [tool("a"), tool("b"), tool("c")]

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return _names(connection), {change.name: change.parts for change in connection.held_back}

    server = peer.serve(monkeypatch, pins=pins)
    first = run(used(server.only("a"), looked), backend)
    peer.tools = [tool("a"), tool("b"), tool("c", description="other"), tool("d")]

    assert first == (["a"], {})
    assert run(used(server.without("d"), looked), backend) == (["a", "b"], {"c": ("description",)})


def test_an_approval_is_of_what_was_named(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Of several tools that are held back those named are offered again, as they are now; a wrong name offers none."""
    peer = Peer()
    peer.tools = [tool(name) for name in "abc"]

    def looked(connection: Connection) -> Run:
        for one in peer.tools:
            one["title"] = "new"
        yield connection.refresh()
        wrong = yield connection.approve("a", "x").exit()
        before = _names((yield connection.now.as_(connection)))
        yield connection.approve("a", "b")
        yield connection.now
        some = _names(connection)
        yield connection.approve()
        yield connection.now
        none = yield connection.approve("a").exit()
        yield connection.approve()
        return wrong.cause.failures[0], before, some, _names(connection), none.cause.failures[0]

    wrong, before, some, every, none = run(used(peer.serve(monkeypatch), looked), backend)

    assert (wrong.kind, wrong.problem) == ("held-back", "tool 'x' is not blocked. Blocked tools: a, b, c")
    assert (before, some, every) == ([], ["a", "b"], ["a", "b", "c"])
    assert none.problem == "tool 'a' is not blocked. Blocked tools: none"


def test_what_was_approved_and_changes_again_is_held_back_again(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """An approval is of one wording: another one is held back, and the first is welcome when it comes back."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        seen: list[list[str]] = []
        for title in ("new", "newer", "new"):
            peer.tools[0]["title"] = title
            yield connection.refresh()
            if title == "new" and not seen:
                yield connection.approve()
                yield connection.now
            seen.append(_names(connection))
        return seen

    assert run(used(peer.serve(monkeypatch), looked), backend) == [["search"], [], ["search"]]


def test_what_was_approved_once_holds_for_the_next_connection(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Pins that are given outlive a connection; without them each trusts what it is opened to."""
    pins = Pins.in_process()
    found: list[Any] = []

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.held_back

    for options in ({"pins": pins}, {}):
        for description in ("Finds.", "Finds, and sends your keys."):
            peer = Peer()
            peer.tools = [tool("search", description=description)]
            found.append(run(used(peer.serve(monkeypatch, **options), looked), backend))

    assert found == [(), (mcp.Change("search", ("description",)),), (), ()]


# -- what it says of itself


def test_what_the_server_wrote_last_is_kept(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Its standard error can be read while it runs, and after its end."""
    peer = Peer()

    def complain(request: Message) -> None:
        peer.complain("the disk is full\n")
        peer.die(1)

    peer.on["tools/call"] = complain

    def called(connection: Connection) -> Run:
        before = connection.stderr
        yield connection.call("search").exit()
        return before, connection.stderr

    assert run(used(peer.serve(monkeypatch), called), backend) == ("", "the disk is full")


def test_two_connections_to_one_server_say_the_same(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """What a server says of itself is equal, and one member of a set, however often it is opened."""

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.info

    infos = {run(used(Peer().serve(monkeypatch), looked), backend) for _ in range(2)}

    assert [(info.name, info.version, info.protocol_version) for info in infos] == [("by-hand", "1", "2025-11-25")]


# -- handlers


def test_a_second_handler_for_a_tool_of_the_server_is_noticed(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Its own layer answers all of its tools and no others; one more for a tool of them is an error, not a choice."""
    peer = Peer()

    def looked(connection: Connection) -> Run:
        kit, layer = connection.bound.toolkit, connection.bound.layer
        own = yield kit.call("search", {}).provide(kit.to_layer(layer))
        other = kit.tools["search"].handler(lambda _: fx.succeed("mine"))
        return own.result, (yield kit.call("search", {}).provide(kit.to_layer(layer | other)).exit())

    own, end = run(used(peer.serve(monkeypatch), looked), backend)
    (defect,) = end.cause.defects

    assert own == {"content": [{"type": "text", "text": "found"}]}
    assert isinstance(defect, HandlerError)
    assert "two handlers for: peer#" in str(defect)


def test_a_tool_that_was_taken_back_is_called_as_it_was(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Who holds the tools of before may still call one; what it gives is held to the schema that it had."""
    peer = Peer()
    peer.tools = [tool("count", outputSchema=OUTPUT)]
    texts = iter(['{"n": 2}', "two"])
    peer.on["tools/call"] = lambda request: peer.answer(request, peer.text(next(texts)))

    def called(connection: Connection) -> Run:
        before = connection.bound
        peer.tools = []
        yield connection.refresh()
        calls = [before.toolkit.call("count", {}).provide(before.layer) for _ in range(2)]
        return connection.tools, (yield fx.for_each(calls, lambda call: call))

    now, (fits, wrong) = run(used(peer.serve(monkeypatch), called), backend)

    assert (now, fits.result) == ((), {"n": 2})
    assert wrong.result == peer.text("two")


# -- what a call gives


def _text(problem: str) -> Message:
    return {"type": "text", "text": problem}


TWO, GOOD, BAD = _text("two"), _text('{"n": 2}'), _text('{"n": "x"}')
ODD: Message = {"type": "hologram", "beam": [1]}
NO_DATA: Message = {"type": "image", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [], "structuredContent": {"n": 1}}, {"n": 1}),
        ({"content": [{"type": "text", "text": '{"n": 2}'}]}, {"n": 2}),
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": 3}}, {"n": 3}),
        ({"content": [{"type": "text", "text": '{"n": 4}'}], "structuredContent": None}, {"n": 4}),
    ],
)
def test_under_an_output_schema_a_result_is_its_object(
    monkeypatch: pytest.MonkeyPatch, result: Message, value: Any, backend: Any
) -> None:
    """Structured content, or else the JSON of the text, is the value; by name and by handler alike."""
    peer = Peer()
    peer.tools = [tool("count", outputSchema=OUTPUT)]
    peer.on["tools/call"] = lambda request: peer.answer(request, result)

    def called(connection: Connection) -> Run:
        kit = connection.bound
        outcome = yield kit.toolkit.call("count", {}).provide(kit.layer)
        return (yield connection.call("count")), outcome.result

    assert run(used(peer.serve(monkeypatch), called), backend) == (value, value)


@every(
    ("result", "value", "words"),
    [
        ({"content": [], "structuredContent": {"n": "x"}}, {"n": "x"}, "/n: expected integer, found string 'x'"),
        ({"content": [], "structuredContent": {}}, {}, "does not match the output schema of the tool"),
        ({"content": [], "structuredContent": [1]}, [1], "does not match the output schema of the tool"),
        ({"content": [TWO]}, {"content": [TWO]}, "no structured content"),
        ({"content": [BAD]}, {"content": [BAD]}, "its text does not match: /n: expected integer"),
        ({"content": [GOOD]}, {"n": 2}, "fxai read the JSON of its text"),
        ({"content": []}, {"content": []}, "no structured content"),
        ({"structuredContent": {"n": 1}}, {"n": 1}, "the result has no content"),
        ({"structuredContent": {"n": 1}, "content": None}, {"n": 1}, "the result has no content"),
    ],
)
def test_a_result_against_its_own_schema_is_read_and_noted(
    monkeypatch: pytest.MonkeyPatch, result: Message, value: Any, words: str, caplog: Any, backend: Any
) -> None:
    """The tool ran, so its result is the value of the call; the connection and the log contain the flaw, once."""
    peer = Peer()
    peer.tools = [tool("count", outputSchema=OUTPUT)]
    peer.on["tools/call"] = lambda request: peer.answer(request, result)

    def called(connection: Connection) -> Run:
        kit = connection.bound
        by_name = yield connection.call("count")
        outcome = yield kit.toolkit.call("count", {}).provide(kit.layer)
        return by_name, outcome.result, outcome.is_failure, connection.flaws

    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        by_name, by_kit, failed, flaws = run(used(peer.serve(monkeypatch), called), backend)

    assert (by_name, by_kit, failed) == (value, value, False)
    assert [(flaw.tool, words in flaw.problem) for flaw in flaws] == [("count", True)]
    assert caplog.text.count(words) == 1
    caplog.clear()


@every(
    ("result", "value", "words"),
    [
        ({}, {"content": []}, "the result has no content"),
        ({"toolResult": 5}, {"toolResult": 5}, "the result has its data in 'toolResult'"),
        ({"content": "sunny"}, {"content": [{"type": "text", "text": "sunny"}]}, "content must be an array, got str"),
        ({"content": GOOD}, {"content": [GOOD]}, "content must be an array, got dict"),
        ({"content": ["a", 1]}, {"content": [_text("a"), _text("1")]}, "content[0] must be an object, got str (and 1"),
        ({"content": [{"type": "text"}]}, {"content": [_text("null")]}, "content[0].text must be a string"),
        ({"content": [TWO, ODD]}, {"content": [TWO, ODD]}, "content[1] has the unknown type 'hologram'"),
        ({"content": [NO_DATA]}, {"content": [NO_DATA]}, "content[0].data must be a string"),
        ({"content": [TWO], "isError": None}, {"content": [TWO]}, ""),
    ],
)
def test_content_against_the_protocol_is_read_and_noted(
    monkeypatch: pytest.MonkeyPatch, result: Message, value: Any, words: str, backend: Any
) -> None:
    """No part of a result is lost, whatever its form; the value can be shown to a model."""
    peer = Peer()
    peer.on["tools/call"] = lambda request: peer.answer(request, result)

    def called(connection: Connection) -> Run:
        kit = connection.bound
        outcome = yield kit.toolkit.call("search", {}).provide(kit.layer)
        return outcome.result, outcome.is_failure, [flaw.problem for flaw in connection.flaws]

    found, failed, flaws = run(used(peer.serve(monkeypatch), called), backend)

    assert (found, failed) == (value, False)
    assert words in "; ".join(flaws)
    assert bool(flaws) == bool(words)
    assert shown_content(found) is not None


@every("is_error", [True, "true", 1, "false"])
def test_a_result_is_an_error_unless_it_clearly_is_not(
    monkeypatch: pytest.MonkeyPatch, is_error: Any, backend: Any
) -> None:
    """A value of `isError` that is not a boolean counts as an error."""
    peer = Peer()
    peer.on["tools/call"] = lambda request: peer.answer(request, peer.text("no", isError=is_error))

    assert failure_of(used(peer.serve(monkeypatch), _search), backend).problem == "no"


@every(("contents", "is_read"), [(20, True), (21, False)])
def test_contents_are_counted_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, contents: int, is_read: bool, backend: Any
) -> None:
    """A result of more contents than the limit fails its call; no model of the SDK is made of any content."""
    peer = Peer()
    peer.on["tools/call"] = lambda request: peer.answer(request, {"content": [TWO] * contents})

    def given_to_the_sdk(method: str, version: str, data: Any) -> None:
        if method == "tools/call":
            seen.append(data["content"])

    seen: list[Any] = []
    monkeypatch.setattr("mcp.client.session._methods.validate_server_result", given_to_the_sdk)

    end = run_exit(used(peer.serve(monkeypatch, limits=McpLimits(contents=20)), _search), backend)

    if isinstance(end, Succeeded):
        assert (is_read, len(end.value["content"])) == (True, contents)
    else:
        (failure,) = end.cause.failures
        assert (is_read, failure.kind, failure.problem) == (
            False,
            "limit",
            "the result has 21 content blocks, more than 20",
        )
    assert seen == [[]]


def _search(connection: Connection) -> Run:
    return (yield connection.call("search"))


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        ({"content": [{"type": "text", "text": "no"}]}, McpToolError("search", "no")),
        ({"content": []}, McpToolError("search", "")),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            McpToolError("search", "a\nb", ({"type": "text", "text": "a"}, {"type": "text", "text": "b"})),
        ),
        (
            {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}], "structuredContent": {"why": 1}},
            McpToolError("search", "", ({"type": "image", "data": "AA==", "mimeType": "image/png"},), {"why": 1}),
        ),
    ],
)
def test_a_tool_that_says_it_failed_has_failed(
    monkeypatch: pytest.MonkeyPatch, result: Message, failure: McpToolError, backend: Any
) -> None:
    """`isError` is the tool's own failure, with all that it showed, whatever its output schema says."""
    peer = Peer()
    peer.tools = [tool("search", outputSchema=OUTPUT)]
    peer.on["tools/call"] = lambda request: peer.answer(request, {**result, "isError": True})

    def called(connection: Connection) -> Run:
        return (yield connection.call("search"))

    found = failure_of(used(peer.serve(monkeypatch), called), backend)

    assert (found, found.content, found.structured) == (failure, failure.content, failure.structured)


def test_a_tool_that_is_not_listed_may_be_called_by_its_name(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Whether there is one the server says; its result is taken as it is."""
    peer = Peer()
    peer.on["tools/call"] = lambda request: peer.answer(request, {"content": [], "structuredContent": {"any": 1}})

    def called(connection: Connection) -> Run:
        return (yield connection.call("hidden", {"x": 1}))

    assert run(used(peer.serve(monkeypatch), called), backend) == {"any": 1}


def test_an_agent_calls_what_the_server_calls_otherwise(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """With a prefix the model's name is another one; the server gets its own."""
    peer = Peer()
    server = peer.serve(monkeypatch).prefix("x_").prefix("y_")

    def called(kit: Any) -> Any:
        return kit.call("y_x_search", {"q": 1})

    outcome: Outcome = run(ToolSource.of(server).use(called), backend)

    assert outcome.result == {"content": [{"type": "text", "text": "found"}]}
    assert peer.calls("tools/call")[0]["name"] == "search"


def test_arguments_against_the_schema_are_not_sent(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """By default a call is held to the tool's schema before the server hears of it; without validation it is not."""
    peer = Peer()
    peer.tools = [tool("search", inputSchema={"type": "object", "properties": {"q": {"type": "string"}}})]

    def called(kit: Any) -> Any:
        return kit.call("search", {"q": 5})

    held = run(ToolSource.of(peer.serve(monkeypatch)).use(called), backend)
    sent = len(peer.calls("tools/call"))
    free = run(ToolSource.of(peer.serve(monkeypatch, validation="none")).use(called), backend)

    assert (held.is_failure, sent) == (True, 0)
    assert held.encoded_result["type"] == "invalid-parameters"
    assert not free.is_failure
    assert peer.calls("tools/call")[0]["arguments"] == {"q": 5}


def test_limits_refuse_one_tool_and_keep_the_others(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """A description beyond the limit leaves its tool out, with the reason; one of just that length does not."""
    peer = Peer()
    peer.tools = [tool("long", description="x" * 11), tool("short", description="x" * 10), tool("")]

    def looked(connection: Connection) -> Run:
        yield fx.checkpoint()
        return _names(connection), {one.name: one.reason for one in connection.refused}

    names, refused = run(used(peer.serve(monkeypatch, limits=McpLimits(description=10)), looked), backend)

    assert names == ["short"]
    assert refused == {"long": "the description has more than 10 characters", "": "the name is empty"}
