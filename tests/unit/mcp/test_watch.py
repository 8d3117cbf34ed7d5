"""The watch on a connection: what is noise, how much of it, and which request a broken line answers."""

from __future__ import annotations

import json
import logging
import math
from contextvars import copy_context
from typing import Any

import anyio
import mcp_types as wire
import pytest
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter, ValidationError

from fxai.mcp import McpLimits
from fxai.mcp.watch import BATCH, Watch, answered_id, brief, parts_of, watch_streams
from tests.kit.every import every

SCHEMA = {"type": "object"}


def request(id_: int | str, method: str = "tools/call", **params: Any) -> SessionMessage:
    """A request."""
    return SessionMessage(wire.JSONRPCRequest(jsonrpc="2.0", id=id_, method=method, params=params))


def answer(id_: int | str, **result: Any) -> SessionMessage:
    """An answer."""
    return SessionMessage(wire.JSONRPCResponse(jsonrpc="2.0", id=id_, result=result))


def refusal(id_: int | str) -> SessionMessage:
    """An answer that is an error."""
    error = wire.ErrorData(code=1, message="no")
    return SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=id_, error=error))


def notice(method: str, **params: Any) -> SessionMessage:
    """A notification."""
    return SessionMessage(wire.JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{method}", params=params))


def bare(method: str) -> SessionMessage:
    """A notification without parameters."""
    return SessionMessage(wire.JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{method}"))


def listing(watch: Watch, **page: Any) -> Any:
    """The tools that are left of a page of a listing."""
    watch.version = "2025-11-25"
    watch.before_send(request("list", "tools/list"))
    kept = watch.receive(answer("list", **page))
    assert kept is not None
    assert isinstance(kept.message, wire.JSONRPCResponse)
    return kept.message.result["tools"]


def test_noise_is_counted_and_its_first_line_is_kept() -> None:
    """As many lines as are allowed are a hint alone; one more is the end, told with what to do."""
    watch = Watch(McpLimits(noise=3))
    quiet = watch.hints
    for line in (b"  first \n", "second", b"\xff"):
        watch.count_noise(line)
    allowed = watch.trouble
    watch.count_noise(b"last")

    assert (quiet, allowed) == ("", None)
    assert watch.hints == "4 lines on its output were not messages, first 'first'"
    assert watch.trouble is not None
    assert watch.trouble[:2] == ("invalid-answer", "sent too many lines that are not messages")


def test_the_first_trouble_is_the_one_that_is_told() -> None:
    """What comes after a connection was given up does not hide why."""
    watch = Watch(McpLimits(noise=0))
    watch.too_large(5)
    watch.count_noise("x")

    assert watch.trouble is not None
    assert watch.trouble[:2] == ("limit", "sent a message of more than 5 bytes")


def test_the_end_of_its_standard_error_is_kept() -> None:
    """As many bytes as the limit says, the last ones, as text however they are cut."""
    watch = Watch(McpLimits(stderr=4))
    for chunk in (b"ab", b"cdef", b"\xc3"):
        watch.add_stderr(chunk)

    assert watch.stderr == "def\ufffd"


@every(
    ("line", "found"),
    [
        (b'{"id":7,"result":{}}', "7"),
        (b' {"jsonrpc" : "2.0" , "id" : "a b" , "result":{"x', "a b"),
        (b'{"result":{"id":1,"a":[{"id":2}]},"id":3}', "3"),
        (b'{"result":{"id":1,"a":[', ""),
        (b'{"id":7.0,"result":1}', "7"),
        (b'{"id":null,"error":{}}', "null"),
        (b'{"id":7,"method":"ping"}', ""),
        (b'{"method":"x","id":7', ""),
        (b'{"x":"\\"id\\":5","id":6}', "6"),
        (b'"id":5', ""),
        (b'[{"id":5}]', ""),
        (b'{"id":"7', ""),
        (b"", ""),
        (b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b',"id":"z"}', "z"),
        (b'{"a":"' + b"\\" * 60_001, ""),
    ],
)
def test_a_broken_line_answers_what_it_names(line: bytes, found: str) -> None:
    """It is the member `id` of the outermost object, wherever it stands; a request answers nothing."""
    assert answered_id(line) == found


@every(
    ("line", "parts"),
    [
        (b'{"id":1}', [b'{"id":1}']),
        (b' [{"id":1}, {"id":2}]', [b'{"id":1}', b'{"id":2}']),
        (b"[]", [b"[]"]),
        (b"[1", [b"[1"]),
        (b"[1,]", [b"[1,]"]),
        (b"[1] 2", [b"[1] 2"]),
        (b"[1 2]", [b"[1 2]"]),
        (b'[ "\xff" , {"a":[2]} ] ', [b'"\xff"', b'{"a":[2]}']),
        (b"[" + b"1," * 1_000_000 + b"1]", [b"1"] * (BATCH + 1)),
        (b"[" * 5_000, [b"[" * 5_000]),
    ],
)
def test_a_batch_is_its_messages(line: bytes, parts: list[bytes]) -> None:
    """A list is taken apart once; what cannot be is one line, for whoever reads it to refuse."""
    assert parts_of(line) == parts


def test_what_is_large_in_a_page_is_not_looked_at_with_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of many tools and much else takes time by its size, not by the product of both."""
    looked_at: list[int] = []

    def look(method: str, version: str, page: dict[str, Any]) -> None:
        looked_at.append(len(json.dumps([method, version, page])))

    monkeypatch.setattr("fxai.mcp.watch.methods.validate_server_result", look)
    watch = Watch(McpLimits())
    tools = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(9)]

    kept = listing(watch, tools=tools, _meta={"x": "y" * 100_000}, more=[1] * 100_000, nextCursor="c")

    assert len(looked_at) == len(kept) == 9
    assert max(looked_at) < 200
    assert watch.refused == {}


@pytest.mark.parametrize(("taken_back", "answers"), [(5, False), (6, True), (None, True)])
def test_a_request_that_was_taken_back_is_owed_nothing(taken_back: int | None, answers: bool) -> None:
    """A broken answer to what nobody waits for any more is noise; to another request it is still its answer."""
    watch = Watch(McpLimits())
    watch.before_send(request(5))
    watch.before_send(notice("cancelled", requestId=taken_back) if taken_back else bare("cancelled"))
    watch.before_send(notice("progress", requestId=5))
    told = watch.unreadable(b'{"id":5,"result":{"x', ValueError("cut"))

    assert (told is not None) is answers
    assert ("1 lines" in watch.hints) is not answers


def test_what_was_odd_is_told_in_one_line() -> None:
    """Lines that are no messages and answers that nobody asked for are counted, and none of them goes on."""
    watch = Watch(McpLimits())
    stray = [watch.receive(one) for one in (answer(1), refusal("2"), ValueError("odd"))]

    assert stray == [None] * 3
    assert watch.hints == ("1 lines on its output were not messages, first 'odd'; 2 answers did not match a request")


def test_an_answer_is_taken_once() -> None:
    """The watch passes the first answer to a request unchanged, and drops the second."""
    watch = Watch(McpLimits())
    for id_ in (1, "2"):
        watch.before_send(request(id_, "ping"))
    result, error = answer(1, tools=[3]), refusal("2")

    assert [watch.receive(one) for one in (result, error, result, error)] == [result, error, None, None]
    assert result.message == answer(1, tools=[3]).message
    assert watch.hints == "2 answers did not match a request"


def test_requests_that_are_answered_or_taken_back_are_owed_no_more() -> None:
    """As many as the limit may wait at once, however many came in all; one more ends the connection."""
    watch = Watch(McpLimits(requests=2))
    for number in range(0, 12, 4):
        asked = [request(id_, "ping") for id_ in (f"p{number}", number + 1)]
        assert [watch.receive(one) for one in asked] == asked
        if number < 8:
            watch.after_send(answer(f"p{number}") if number else refusal(f"p{number}"))
            taken_back = notice("cancelled", requestId=number + 1)
            assert watch.receive(taken_back) is taken_back
    for idle in (request("p8", "ping"), notice("cancelled", requestId="p8")):
        watch.after_send(idle)
    watch.receive(notice("progress", requestId="p8"))
    allowed = watch.trouble
    watch.receive(request("more", "ping"))

    assert allowed is None
    assert watch.trouble == (
        "limit",
        "made more than 2 requests at the same time",
        "Omit the server, or raise its limits",
    )


def test_notifications_go_where_somebody_listens() -> None:
    """The SDK sees those that it needs; changes, progress and log go to those who are told, all others to nobody."""
    watch = Watch(McpLimits())
    heard: list[Any] = []
    unheard = [notice("message", level="error", data="early"), bare("tools/list_changed"), bare("resources/updated")]
    assert [watch.receive(one) for one in unheard] == [None] * 3
    watch.on_changed = lambda: heard.append("changed")
    watch.on_log = lambda level, data: heard.append((level, data))
    passed = [bare("cancelled"), notice("subscriptions/acknowledged", x=1)]
    taken = [bare("tools/list_changed"), notice("message", level="error", data=[None]), bare("message")]

    assert [watch.receive(one) for one in (*passed, *taken)] == [*passed, None, None, None]
    assert heard == ["changed", ("error", [None]), ("info", None)]


def test_who_breaks_over_the_log_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A bug of `on_log` ends nothing, and is no secret."""
    watch = Watch(McpLimits())
    watch.on_log = lambda _level, data: data["x"]
    with caplog.at_level(logging.ERROR, "fxai.mcp"):
        assert watch.receive(notice("message", data={})) is None

    assert "`on_log` failed" in caplog.text
    assert "KeyError" in caplog.text
    assert watch.trouble is None


def test_progress_is_told_while_its_call_waits() -> None:
    """It goes to the call of its token, without what is not progress; before and after the call to nobody."""
    watch = Watch(McpLimits())
    heard: list[Any] = []
    watch.progress["7"] = heard.append
    said = {"progress": 1, "total": 2, "message": "m"}
    ours, others = notice("progress", progressToken=7, x=0, **said), notice("progress", progressToken=8, **said)

    watch.before_send(request("other"))
    watch.before_send(request("odd", _meta=None))
    for one in (ours, others):
        watch.receive(one)
    watch.before_send(request(1, _meta={"progressToken": 7}))
    during = [watch.receive(one) for one in (ours, others, bare("progress"), ours)]
    watch.receive(answer(1))
    watch.receive(ours)

    assert during == [None] * 4
    assert heard == [said, said]


def test_bad_tools_are_told_apart_from_good_ones() -> None:
    """What the protocol does not allow is left out of the page by its name or place, with the first reason."""
    watch = Watch(McpLimits())
    good = {"name": "good", "inputSchema": SCHEMA}
    bad: list[Any] = [
        3,
        {"name": "plain", "inputSchema": {"type": "string"}},
        {"name": "none"},
        {"name": 5, "inputSchema": SCHEMA},
        {"name": "titled", "title": 5, "inputSchema": SCHEMA},
    ]
    kept = listing(watch, tools=[*bad[:2], good, *bad[2:]])
    more = listing(watch, tools=["x", good])
    reasons = {
        name: said.removeprefix("the protocol does not allow this tool: ") for name, said in watch.refused.items()
    }

    assert (kept, more, watch.listed) == ([good], [good], 8)
    assert list(reasons) == ["(number 1)", "plain", "none", "(number 5)", "titled", "(number 7)"]
    assert reasons["plain"] == "tools/0/inputSchema/type: Input should be 'object'"
    assert reasons["none"] == "inputSchema: Field required"


def test_what_is_no_listing_stays_as_it_is() -> None:
    """A listing without a list of tools, and a list of tools in another answer, are not looked into."""
    watch = Watch(McpLimits())
    assert listing(watch, tools={"name": "x"}) == {"name": "x"}
    watch.before_send(request(1, "ping"))
    other = watch.receive(answer(1, tools=[{"name": "x"}]))
    watch.before_send(request(2, "tools/list"))
    refused = watch.receive(refusal(2))

    assert other is not None
    assert other.message == answer(1, tools=[{"name": "x"}]).message
    assert refused is not None
    assert (watch.refused, watch.listed) == ({}, 0)


def test_no_more_tools_are_looked_at_than_are_allowed() -> None:
    """All are counted; one more than the limit is kept, over all pages, so that the limit is seen to be exceeded."""
    watch = Watch(McpLimits(tools=4))
    page = [{"name": str(number), "inputSchema": SCHEMA} for number in range(3)]
    kept = [len(listing(watch, tools=page)) for _ in range(3)]

    assert (kept, watch.listed) == ([3, 2, 0], 9)


def test_the_first_fault_stands_for_all() -> None:
    """Its place, what it is and how many more there are, cut off where it is long; another error is its own text."""
    found: list[ValidationError] = []
    for value in ({"a": ["x"]}, {"a": ["x", "y", "z"]}, {"k" * 500: ["x"]}):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(dict[str, list[int]]).validate_python(value)
        found.append(caught.value)
    one, three, long = map(brief, found)
    fault = "a/0: Input should be a valid integer, unable to parse string as an integer"

    assert (one, three) == (fault, f"{fault} (and 2 more)")
    assert long == "k" * 240
    assert brief(ValueError("x" * 500)) == "x" * 120


def _streams(watch: Watch) -> tuple[Any, Any, Any, Any]:
    """What a server would write to and read from, and the client's side of it under the watch."""
    said, incoming = anyio.create_memory_object_stream[Any](math.inf)
    outgoing, heard = anyio.create_memory_object_stream[Any](math.inf)
    return said, heard, *watch_streams((incoming, outgoing), watch)


@pytest.mark.anyio
async def test_the_streams_carry_what_the_watch_lets_through() -> None:
    """What is sent is noted and sent; what comes is passed or kept back; the end is the end, and is noted."""
    watch = Watch(McpLimits())
    said, heard, reading, writing = _streams(watch)
    asked, answered = request(1), answer(1)
    async with writing:
        await writing.send(asked)
    for one in (bare("message"), answered, answered):
        said.send_nowait(one)
    said.close()
    async with reading as opened:
        assert opened is reading
        taken = [one async for one in reading]
        was_cut = watch.is_cut
        with pytest.raises(anyio.EndOfStream):
            await reading.receive()

    assert (taken, was_cut) == ([answered], True)
    async with heard:
        assert heard.receive_nowait() is asked
        with pytest.raises(anyio.EndOfStream):
            heard.receive_nowait()
    for closed, message in ((reading.receive, ()), (writing.send, (asked,))):
        with pytest.raises(anyio.ClosedResourceError):
            await closed(*message)


@pytest.mark.anyio
async def test_trouble_ends_the_streams_though_more_comes() -> None:
    """The message that is one too many is not taken, nor any after it; the connection was cut by ourselves."""
    watch = Watch(McpLimits(requests=0))
    said, heard, reading, writing = _streams(watch)
    for id_ in (1, 2):
        said.send_nowait(request(id_))
    with pytest.raises(anyio.EndOfStream):
        await reading.receive()
    await reading.aclose()
    await writing.aclose()

    assert watch.trouble is not None
    assert watch.is_cut is False
    with pytest.raises(anyio.BrokenResourceError):
        said.send_nowait(request(3))
    said.close()
    heard.close()


@pytest.mark.anyio
async def test_an_answer_that_was_sent_is_owed_no_more() -> None:
    """It counts as sent when it was taken, not before."""
    watch = Watch(McpLimits(requests=1))
    said, heard, reading, writing = _streams(watch)
    async with said, heard, reading, writing:
        for id_ in (1, 2, 3):
            watch.receive(request(id_))
            await writing.send(answer(id_))
        assert watch.trouble is None


def test_the_context_of_a_message_is_passed_on() -> None:
    """Where the transport knows in which context a message was sent, the SDK finds it; elsewhere there is none."""

    class Known:
        last_context = copy_context()

    watch = Watch(McpLimits())

    assert watch_streams((Known(), None), watch)[0].last_context is Known.last_context
    assert watch_streams((None, None), watch)[0].last_context is None


LARGE = [{"type": "text", "text": "x" * 100}] * 700


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _line(**said: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **said}).encode()


@every(
    ("line", "result"),
    [
        (_line(result={"content": LARGE}), {"content": LARGE}),
        (_line(result={"structuredContent": {"n": "x" * 70_000}}), {"structuredContent": {"n": "x" * 70_000}}),
        (_line(result={"content": "x" * 70_000}), {"content": "x" * 70_000}),
        (_line(result={"content": [1] * 30_000}), {"content": [None] * 30_000}),
    ],
)
def test_a_large_result_is_taken_apart_before_the_sdk_reads_it(line: bytes, result: Any) -> None:
    """The watch keeps the result, and a short message with the same id replaces it; too many contents are counted."""
    watch = Watch(McpLimits(contents=20_000))
    watch.before_send(request(1))

    light = json.loads(watch.lighten(line))
    passed = watch.receive(SessionMessage(wire.jsonrpc_message_adapter.validate_python(light)))

    assert light == {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "resultType": "complete"}}
    assert passed is not None
    assert list(watch.results.values()) == [result]


@every(
    ("text", "mended"),
    [
        ("\ud83d", "\ufffd"),
        ("a\ude00b", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00\ud83d", "\U0001f600\ufffd"),
        ("\\ud83d \ude00", "\\ud83d \ufffd"),
        ("\ud83d" + "x" * 70_000, "\ufffd" + "x" * 70_000),
    ],
)
def test_half_of_a_character_in_a_result_is_replaced(text: str, mended: str) -> None:
    """The SDK's parser reads the message, and the other characters of the result stay."""
    watch = Watch(McpLimits())
    watch.before_send(request(1))

    light = wire.jsonrpc_message_adapter.validate_json(watch.lighten(_line(result={"content": [_text(text)]})))
    watch.receive(SessionMessage(light))

    assert list(watch.results.values()) == [{"content": [_text(mended)]}]


@every(
    "line",
    [
        _line(result={"content": LARGE[:5]}),
        _line(id=2, result={"content": LARGE}),
        _line(id=9, result={"tools": LARGE}),
        _line(method="ping", params={"x": LARGE}),
        _line(error={"code": 1, "message": "x" * 70_000}),
        _line(result={"content": LARGE, "resultType": "input_required"}),
        _line(result={"content": LARGE})[:-20],
        b"[" + _line(result={"content": LARGE}) + b"]",
    ],
)
def test_other_messages_stay_as_they_are(line: bytes) -> None:
    """A small message, an answer to another request, a question and a broken line pass unchanged."""
    watch = Watch(McpLimits())
    watch.before_send(request(1))
    watch.before_send(request(9, "tools/list"))

    assert watch.lighten(line) is line
    assert watch.results == {}
