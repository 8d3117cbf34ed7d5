"""The protocol: which line is which message, and which is none."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.providers.host.protocol import (
    Acknowledged,
    Called,
    Delta,
    HostProgress,
    Reported,
    Result,
    Tokens,
    Unreadable,
    Warned,
    encode_line,
    read,
    read_text,
)
from tests.kit.every import every


@every(
    ("line", "message"),
    [
        (b"", None),
        (b" \t", None),
        (b"It is fine. ", Result(text="It is fine.")),
        (b"  indented", Result(text="  indented")),
        (b"[1]", Result(text="[1]")),
        (b' {"text": "fine"} ', Result(text="fine")),
        (b' {"text": 3} ', Result(text='{"text": 3}')),
        (b'{"a": 1}', Result(text='{"a": 1}')),
        (b'{"type": "init_ack", "takes": ["tools"]}', Acknowledged(takes=("tools",))),
        (b'{"type": "delta", "text": "a", "id": 3, "newer": 1}', Delta(text="a", id=3)),
        (b'{"type": "progress", "value": null}', HostProgress(value=None)),
        (b'{"type": "tool_call", "name": "add"}', Called(name="add", params={})),
        (b'{"type": "warning", "message": "w"}', Warned(message="w")),
        (b'{"type": "result", "usage": {"output_tokens": 2}}', Result(usage=Tokens(None, 2))),
        (b'{"type": "error", "message": "e", "retry_after": 1}', Reported(message="e", retry_after=1.0)),
        (b'{"type": "resolt"}', Unreadable("a message of type 'resolt': Invalid value 'resolt' - at `$.type`")),
        (
            b'{"type": "delta"}',
            Unreadable("a message of type 'delta': Object missing required field `text`"),
        ),
        (b"a\xff", Unreadable("a line is not UTF-8, at byte 1")),
    ],
)
def test_a_line_is_a_message_or_says_why_it_is_none(line: bytes, message: Any) -> None:
    """What is no object of the protocol is the answer itself; what begins like one and is none is told."""
    assert read(line) == message


@pytest.mark.parametrize("line", [b'{"type": "resul', b"{", b'{"a": 1} b'])
def test_half_an_object_is_told(line: bytes) -> None:
    """A line that begins like an object is never taken for an answer in words."""
    found = read(line)

    assert isinstance(found, Unreadable)
    assert found.description.startswith("a line starts like a JSON object, but is invalid: ")


def test_a_line_of_text_is_taken_as_it_is() -> None:
    """In plain text nothing is stripped, and what looks like a message is text."""
    assert read_text(b' {"type": "result"} ') == Result(text=' {"type": "result"} ')
    assert read_text(b"ab\xff") == Unreadable("a line is not UTF-8, at byte 2")
    assert encode_line({"a": "ö"}) == '{"a":"ö"}\n'.encode()
