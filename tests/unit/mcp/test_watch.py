"""The watch on a connection: what is noise, how much of it, and which request a broken line answers."""

from __future__ import annotations

import mcp_types as wire
import pytest
from mcp.shared.message import SessionMessage

from fxai.mcp.limit import McpLimits
from fxai.mcp.watch import Watch, answered_id, parts_of


def test_noise_is_counted_and_its_first_line_is_kept() -> None:
    """As many lines as are allowed are a hint alone; one more is the end, told with what to do."""
    watch = Watch(McpLimits(noise=3))
    quiet = watch.hints
    for line in (b"  first \n", "second", b"\xff"):
        watch.noisy(line)
    allowed = watch.trouble
    watch.noisy(b"last")

    assert (quiet, allowed) == ("", None)
    assert watch.hints == "4 lines on its output were no messages, first 'first'"
    assert watch.trouble is not None
    assert watch.trouble[:2] == ("invalid-answer", "it answers garbage")


def test_the_first_trouble_is_the_one_that_is_told() -> None:
    """What comes after a connection was given up does not hide why."""
    watch = Watch(McpLimits(noise=0))
    watch.too_large(5)
    watch.noisy("x")

    assert watch.trouble is not None
    assert watch.trouble[:2] == ("limit", "it sent a message of more than 5 bytes")


def test_the_end_of_its_standard_error_is_kept() -> None:
    """As many bytes as the limit says, the last ones, as text however they are cut."""
    watch = Watch(McpLimits(stderr=4))
    for chunk in (b"ab", b"cdef", b"\xc3"):
        watch.complained(chunk)

    assert watch.stderr == "def\ufffd"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"id":7,"result":{}}', "7"),
        (b' {"jsonrpc" : "2.0" , "id" : "a b" , "result":{"x', "a b"),
        (b'{"result":{"id":1,"a":[{"id":2}]},"id":3}', "3"),
        (b'{"result":{"id":1,"a":[', None),
        (b'{"id":7.0,"result":1}', "7"),
        (b'{"id":null,"error":{}}', "null"),
        (b'{"id":7,"method":"ping"}', None),
        (b'{"method":"x","id":7', None),
        (b'{"x":"\\"id\\":5","id":6}', "6"),
        (b'"id":5', None),
        (b'[{"id":5}]', None),
        (b"", None),
        (b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b',"id":"z"}', "z"),
        (b'{"a":"' + b"\\" * 60_001, None),
    ],
)
def test_a_broken_line_answers_what_it_names(line: bytes, found: str | None) -> None:
    """It is the member `id` of the outermost object, wherever it stands; a request answers nothing."""
    assert answered_id(line) == found


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b'{"id":1}', [b'{"id":1}']),
        (b' [{"id":1}, {"id":2}]', [b'{"id":1}', b'{"id":2}']),
        (b"[]", [b"[]"]),
        (b"[1", [b"[1"]),
        (b"[" * 5_000, [b"[" * 5_000]),
    ],
)
def test_a_batch_is_its_messages(line: bytes, parts: list[bytes]) -> None:
    """A list is taken apart once; what cannot be is one line, for whoever reads it to refuse."""
    assert parts_of(line) == parts


@pytest.mark.parametrize(("taken_back", "answers"), [(5, False), (6, True)])
def test_a_request_that_was_taken_back_is_owed_nothing(taken_back: int, answers: bool) -> None:
    """A broken answer to what nobody waits for any more is noise; to another request it is still its answer."""
    watch = Watch(McpLimits())
    watch.leaving(SessionMessage(wire.JSONRPCRequest(jsonrpc="2.0", id=5, method="tools/call")))
    params = {"requestId": taken_back}
    cancelled = wire.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
    watch.leaving(SessionMessage(cancelled))
    told = watch.unreadable(b'{"id":5,"result":{"x', ValueError("cut"))

    assert (told is not None) is answers
    assert ("1 lines" in watch.hints) is not answers
