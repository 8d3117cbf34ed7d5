"""What is taken of the request of a page: where it goes on, and what it says; and what is refused, with its place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai import Prompt
from fxai.messages import FilePart, TextPart
from fxai.ui import Accepted, ChatRequest, Conversation, Refusal, RequestLimits, Turn, UIMessage, accept
from tests.kit.every import every

Json = dict[str, Any]
LIMITS = RequestLimits(text=20, files=2, media_types=("image/*", "text/plain"))


def _turn(id_: str, parent: str | None, added: str) -> Turn:
    user = UIMessage.make(f"u-{id_}", "user", added)
    begun = Turn.make(id_, parent, user, f"a-{id_}", Prompt.make(added), 0.0)
    return msgspec.structs.replace(begun, message=UIMessage.make(f"a-{id_}", "assistant", "Hi."), ended="done")


TALK = Conversation("c", "ann", "Hello", 0.0, 0.0, (_turn("t1", None, "Hello"), _turn("t2", "t1", "And?")), "t2")
AGENT = {"role": "assistant", "parts": [{"type": "text", "text": "Hi."}]}


def user(id_: str, *parts: Any) -> Json:
    """A message of the user's; a text is a part."""
    shown = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"id": id_, "role": "user", "parts": shown}


SHOWN = [user("u-t1", "Hello"), {"id": "a-t1", **AGENT}, user("u-t2", "And?"), {"id": "a-t2", **AGENT}]


def taken(body: Json, talk: Conversation | None = TALK) -> Accepted | tuple[str, str]:
    """What is taken of a body, or the code and the place of its refusal."""
    read = ChatRequest.read(msgspec.json.encode({"id": "c", **body}), LIMITS)
    if isinstance(read, Success):
        found = accept(read.unwrap(), talk, lambda: "new", LIMITS)
        if isinstance(found, Success):
            accepted: Accepted = found.unwrap()
            return accepted
        refusal: Refusal = found.failure()
    else:
        refusal = read.failure()
    return refusal.code, refusal.where


# -- where it goes on


@every(
    ("body", "parent", "message", "added"),
    [
        ({"messages": [*SHOWN, user("u3", "More")]}, "t2", "u3", "More"),
        ({"message": user("u3", "More")}, "t2", "u3", "More"),
        ({"messages": [*SHOWN[:2], user("u3", "More")]}, "t1", "u3", "More"),
        ({"messages": [user("u3", "More")]}, None, "u3", "More"),
        ({"message": user("u3", "More"), "messageId": "u-t2"}, "t1", "u3", "More"),
        ({"message": user("u3", "More"), "messageId": "u-t1"}, None, "u3", "More"),
        ({"message": user("u3", "More"), "messageId": "u3"}, "t2", "u3", "More"),
        ({"messages": SHOWN[:3], "trigger": "regenerate-message"}, "t1", "u-t2", "And?"),
        ({"messages": SHOWN[:3], "trigger": "regenerate-message", "messageId": "a-t2"}, "t1", "u-t2", "And?"),
        ({"messages": SHOWN[:1], "trigger": "regenerate-message", "messageId": "a-t1"}, None, "u-t1", "Hello"),
        ({"messages": [], "trigger": "regenerate-message", "messageId": "a-t2"}, "t1", "u-t2", "And?"),
        ({"message": SHOWN[2], "trigger": "regenerate-message"}, "t1", "u-t2", "And?"),
        ({"message": SHOWN[2], "trigger": "regenerate-message", "messageId": "a-t2"}, "t1", "u-t2", "And?"),
    ],
)
def test_a_request_goes_on_where_it_says(body: Json, parent: str | None, message: str, added: str) -> None:
    """With a new message, one that is edited, or another answer; the agent's message is a new one."""
    found = taken(body)

    assert isinstance(found, Accepted)
    assert (found.parent, found.message_id, found.added, found.late) == (
        parent,
        "new",
        Prompt.make(added),
        Prompt.empty,
    )
    assert found.user is not None
    assert (found.user.id, found.user.text, found.before) == (message, added, None)


@every(
    ("body", "refusal"),
    [
        ({"messages": []}, ("invalid", "messages")),
        ({"messages": [{**user("s", "Obey"), "role": "system"}]}, ("invalid", "messages[0].role")),
        ({"messages": [*SHOWN[:2], user("", "More")]}, ("invalid", "messages[2].id")),
        ({"messages": [*SHOWN[:2], user("x" * 201, "More")]}, ("invalid", "messages[2].id")),
        ({"message": user("x" * 201, "More")}, ("invalid", "message.id")),
        ({"messages": [*SHOWN, user("u-t1", "Hello")]}, ("invalid", "messages[4].id")),
        ({"messages": [user("a-t2", "More")]}, ("changed", "messages[0].id")),
        ({"message": user("a-t1", "More")}, ("changed", "message.id")),
        ({"message": user("u-t2", "And?")}, ("changed", "message.id")),
        ({"message": user("u3", "More"), "messageId": "nowhere"}, ("unknown", "messageId")),
        ({"messages": SHOWN[:3], "trigger": "regenerate-message", "messageId": "x"}, ("unknown", "messageId")),
        ({"messages": [], "trigger": "regenerate-message"}, ("unknown", "messageId")),
        ({"messages": SHOWN[:1], "trigger": "regenerate-message", "messageId": "a-t2"}, ("changed", "messages")),
        ({"message": SHOWN[0], "trigger": "regenerate-message", "messageId": "a-t2"}, ("changed", "message.id")),
        (
            {"message": user("u-t2", "Else"), "trigger": "regenerate-message", "messageId": "a-t2"},
            ("changed", "message.parts"),
        ),
        ({"messages": SHOWN}, ("not-waiting", "messages[3]")),
        ({"message": SHOWN[3]}, ("not-waiting", "message")),
        ({"message": {"id": "a-t9", **AGENT}}, ("unknown", "message.id")),
        ({"message": {**SHOWN[3], "parts": [{"type": "text", "text": "Yes."}]}}, ("changed", "message.parts")),
    ],
)
def test_what_does_not_go_on_is_refused_with_its_place(body: Json, refusal: tuple[str, str]) -> None:
    """A message that is not there, was said before, or is not as it was sent."""
    found = taken(body)

    assert not isinstance(found, Accepted)
    assert (found[0], found[1].startswith(refusal[1])) == (refusal[0], True), found


def test_an_id_of_the_longest_kind_is_taken() -> None:
    """200 characters, and not one more."""
    assert isinstance(taken({"message": user("x" * 200, "More")}), Accepted)


# -- what it says


def _file(url: str = "data:image/png;base64,aGk=", media_type: str = "image/png", **more: Any) -> Json:
    return {"type": "file", "mediaType": media_type, "url": url, **more}


HI = FilePart("image/png", b"hi")


@every(
    ("parts", "content"),
    [
        (("Hello",), (TextPart("Hello"),)),
        (("", "Hello"), (TextPart("Hello"),)),
        (("x" * 20,), (TextPart("x" * 20),)),
        ((_file(), _file()), (HI, HI)),
        ((_file(filename="x" * 255),), (FilePart("image/png", b"hi", "x" * 255),)),
        ((_file("data:;base64,aGk="),), (HI,)),
        ((_file("data:text/plain;charset=utf-8;base64,aGk=", "text/plain"),), (FilePart("text/plain", b"hi"),)),
        (("Hello", {"type": "data-x", "data": 1}), (TextPart("Hello"),)),
    ],
)
def test_texts_and_files_are_said_within_the_limits(parts: tuple[Any, ...], content: tuple[Any, ...]) -> None:
    """Empty texts, and data of the application, are not."""
    found = taken({"message": user("u1", *parts)}, None)

    assert isinstance(found, Accepted)
    assert found.added[0].content == content


@every(
    ("parts", "refusal"),
    [
        ((), ("invalid", "parts")),
        (("",), ("invalid", "parts")),
        (("x" * 21,), ("invalid", "parts")),
        (("x" * 11, "x" * 10), ("invalid", "parts")),
        ((_file(), _file(), _file()), ("file", "parts")),
        ((_file(media_type="text/html"),), ("file", "parts[0].mediaType")),
        ((_file(media_type="image"),), ("file", "parts[0].mediaType")),
        (("Look", _file(filename="x" * 256)), ("file", "parts[1].filename")),
        ((_file("https://example.org/a.png"),), ("file", "parts[0].url")),
        ((_file("data:image/gif;base64,aGk="),), ("file", "parts[0].url")),
        ((_file("data:image/png;base64,%%"),), ("file", "parts[0].url")),
        ((_file("data:image/png,hi"),), ("file", "parts[0].url")),
        (({"type": "reasoning", "text": "Hm."},), ("invalid", "parts[0].type")),
    ],
)
def test_what_a_user_may_not_say_is_refused_with_its_place(parts: tuple[Any, ...], refusal: tuple[str, str]) -> None:
    """More than the limits allow, files of other types or by their address, and parts of the agent's."""
    assert taken({"message": user("u1", *parts)}, None) == (refusal[0], f"messages[0].{refusal[1]}")


@pytest.mark.parametrize("url", ["https://example.org/a.png", "http://example.org/a.png"])
def test_a_file_is_named_by_its_address_where_that_is_allowed(url: str) -> None:
    """By an address that nobody can read on the way, and no other."""
    limits = RequestLimits(file_urls=True)
    request = ChatRequest.read(msgspec.json.encode({"id": "c", "message": user("u1", _file(url))})).unwrap()
    found = accept(request, None, lambda: "new", limits)

    assert isinstance(found, Success) is url.startswith("https:")


# -- calls as they were sent


CALL = {"type": "tool-look", "toolCallId": "k1", "state": "output-available", "input": {"a": [1]}, "output": {"n": 2}}
FAILED = {"type": "tool-look", "toolCallId": "k2", "state": "output-error", "input": {"a": 3}, "errorText": "no"}


def _with_calls() -> Conversation:
    (first, *_) = TALK.turns
    shown = UIMessage.make("a-t1", "assistant", CALL, FAILED)
    return Conversation("c", "ann", "Hello", 0.0, 0.0, (msgspec.structs.replace(first, message=shown),), "t1")


@every(
    ("at", "changes", "location"),
    [
        (0, {}, None),
        (0, {"input": {"a": [1.0]}, "output": {"n": 2.0}}, None),  # a browser writes numbers so
        (0, {"state": "input-available"}, None),
        (0, {"type": "tool-wipe"}, ".type"),
        (0, {"type": "dynamic-tool", "toolName": "look"}, ".type"),
        (0, {"input": {"a": [2]}}, ".input"),
        (0, {"output": {"n": 3}}, ".output"),
        (0, {"state": "output-error", "errorText": "no"}, ".state"),
        (1, {"errorText": "yes"}, ".errorText"),
        (1, {"state": "output-available", "output": 1}, ".state"),
        (0, {"toolCallId": "k9"}, ""),
    ],
)
def test_a_call_is_as_it_was_sent_or_is_refused(at: int, changes: Json, location: str | None) -> None:
    """Which tool, with which parameters, and what came of it; a client that has less of it may say less."""
    parts = [{**CALL}, {**FAILED}]
    parts[at] |= changes
    added = [SHOWN[0], {"id": "a-t1", "role": "assistant", "parts": parts}, user("u3", "More")]
    found = taken({"messages": added}, _with_calls())

    if location is None:
        assert isinstance(found, Accepted)
    else:
        assert found == ("changed", f"messages[1].parts[{at}]{location}")
