"""Checks of the messages that a client repeats. Use `find_turn` to compare them with the messages of the server.

A client can have fewer messages than the server, but more only for answers to pending calls. A message, call, result,
or text that the server did not send raises `HistoryError`.

>>> from fxai.messages.prompt import Prompt
>>> hello = UIMessage.make("u1", "user", "Hello")
>>> turn = Turn.make("t1", None, hello, "a1", Prompt.make("Hello"), 0.0)
>>> answered = msgspec.structs.replace(turn, message=UIMessage.make("a1", "assistant", "Hi."), ended="done")
>>> talk = Conversation("c", "ann", "Hello", 0.0, 0.0, (answered,), "t1")
>>> find_turn([hello, UIMessage.make("a1", "assistant", "Hi.")], talk).id
't1'
>>> find_turn([hello, UIMessage.make("a1", "assistant", "I will give you a discount.")], talk)
Traceback (most recent call last):
fxai.ui.client_history.HistoryError: messages[1].parts: the text differs from the stored message
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, Literal, cast, final

import msgspec

from fxai.messages.calls import Pending
from fxai.messages.message import ToolApprovalResponsePart, ToolContent
from fxai.schema.data import is_array, is_object, is_same
from fxai.ui.conversation import Conversation, Turn
from fxai.ui.ui_message import Part, UIMessage, is_call, tool_name


class HistoryError(Exception):
    """A difference between a repeated message and the stored message, with its location."""

    def __init__(self, code: Literal["unknown", "changed", "not-waiting", "invalid"], where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.code: Literal["unknown", "changed", "not-waiting", "invalid"] = code
        self.where = where
        self.message = message


# -- the path


def find_turn(messages: Sequence[UIMessage], known: Conversation) -> Turn | None:
    """Return the turn at the end of these messages, or None without messages.

    Raise `HistoryError` if the messages are not a path in the conversation, or differ from the stored messages.
    """
    turn: Turn | None = None
    children: dict[str | None, list[Turn]] = {}
    for one in known.turns:
        children.setdefault(one.parent, []).append(one)
    shown = {one.id for one in known.path()}
    index = 0
    while index < len(messages):
        user = messages[index]
        answer = messages[index + 1] if index + 1 < len(messages) and messages[index + 1].role == "assistant" else None
        first = _find_child(children.get(None if turn is None else turn.id, []), user, answer, index, shown)
        turn = first
        while more := [one for one in children.get(turn.id, []) if one.user is None]:  # to the last run of the message
            turn = more[-1]
        compare_user(user, first, f"messages[{index}]")
        if answer is not None:
            compare_answer(answer, _message_of(first, turn, children), f"messages[{index + 1}]")
        index += 1 if answer is None else 2
    return turn


def _find_child(turns: Iterable[Turn], user: UIMessage, answer: UIMessage | None, index: int, shown: Set[str]) -> Turn:
    """Return the turn that starts with a user message and has this answer, if the client sent an answer.

    If several turns match, return the turn that the page shows, otherwise the newest turn.
    """
    if user.role != "user":
        raise HistoryError("changed", f"messages[{index}]", "a user message is missing before it")
    found = [turn for turn in turns if turn.user is not None and turn.user.id == user.id]
    if answer is not None:
        of_answer = [turn for turn in found if turn.message_id == answer.id]
        if found and not of_answer:
            raise HistoryError("unknown", f"messages[{index + 1}].id", "unknown message. Reload the conversation.")
        found = of_answer
    if not found:
        remedy = "The page shows an older conversation. Reload the conversation."
        raise HistoryError("unknown", f"messages[{index}].id", f"unknown message. {remedy}")
    return next((turn for turn in found if turn.id in shown), found[-1])


def _message_of(first: Turn, last: Turn, children: Mapping[str | None, list[Turn]]) -> UIMessage | None:
    """Return the message of several runs as the page shows it, or None if a process ended before it saved anything."""
    shown, turn = first.message, first
    while turn is not last:
        turn = next(one for one in reversed(children[turn.id]) if one.user is None)
        shown = turn.message or shown
    return shown


# -- comparisons


def compare_user(sent: UIMessage, turn: Turn, location: str) -> None:
    """Compare a user message with the first message of a turn.

    Raise `HistoryError` if its text or its number of parts differs.
    """
    if turn.user is not None and (len(sent.parts) != len(turn.user.parts) or sent.text != turn.user.text):
        raise HistoryError("changed", f"{location}.parts", "the message differs from the stored message of the user")


def compare_answer(sent: UIMessage, known: UIMessage | None, location: str) -> None:
    """Compare a message of the agent with the stored message. For pending calls, its differences are answers.

    Raise `HistoryError` if the stored message does not contain a text, file, call, or result of the message.
    """
    if known is None:
        return  # the store has no message, and fxai ignores the message of the client
    for kind in ("text", "reasoning"):
        if not _text_of(known, kind).startswith(_text_of(sent, kind)):
            raise HistoryError("changed", f"{location}.parts", "the text differs from the stored message")
    files = {part["url"] for part in known.parts if part["type"] == "file"}
    calls, reported = _calls(known), _calls(sent)
    for number, part in enumerate(sent.parts):
        here = f"{location}.parts[{number}]"
        if part["type"] == "file" and part["url"] not in files:
            raise HistoryError("changed", f"{here}.url", "the stored message does not contain this file")
        if is_call(part):
            id_ = part["toolCallId"]
            _compare_call(part, calls.get(id_, ()), here)
            if len(reported[id_]) > len(calls[id_]):
                raise HistoryError("changed", here, f"the stored message has fewer calls of {tool_name(part)}")


def _text_of(message: UIMessage, kind: str) -> str:
    return "".join(part["text"] for part in message.parts if part["type"] == kind)


def _calls(message: UIMessage) -> dict[str, list[Part]]:
    calls: dict[str, list[Part]] = {}
    for part in message.parts:
        if is_call(part):
            calls.setdefault(part["toolCallId"], []).append(part)
    return calls


def _compare_call(part: Part, known: Sequence[Part], location: str) -> None:
    """Compare a call of the client with the stored calls of the same id. It must equal one of them."""
    if not known:
        raise HistoryError("changed", location, f"the stored message does not contain this call of {tool_name(part)}")
    problem = None
    for one in known:
        problem = _difference(part, one)
        if problem is None:
            return
    where, message = cast("tuple[str, str]", problem)
    raise HistoryError("changed", f"{location}{where}", message)


_DONE: Final = ("output-available", "output-error", "output-denied")
_OPEN: Final = ("input-available", "approval-requested")


def _difference(part: Part, known: Part) -> tuple[str, str] | None:
    """Return the location and the description of a difference between two calls, or None."""
    if tool_name(part) != tool_name(known) or (part["type"] == "dynamic-tool") is not (known["type"] == "dynamic-tool"):
        return ".type", "the stored call is of another tool"
    given = part.get("input", part.get("rawInput"))
    is_whole = part["state"] != "input-streaming" and given is not None
    if is_whole and not _is_same(given, known.get("input", known.get("rawInput"))):
        return ".input", "the arguments differ from the stored call"
    if known["state"] in _OPEN:
        return None  # other differences are answers, which `read_answers` checks
    if part["state"] in _DONE and not part.get("preliminary") and part["state"] != known["state"]:
        return ".state", "the outcome differs from the stored call"
    if part["state"] == "output-available" and not part.get("preliminary"):
        return None if _is_same(part["output"], known.get("output")) else (".output", "the stored result differs")
    if part["state"] == "output-error" and part["errorText"] != known.get("errorText"):
        return ".errorText", "the stored failure differs"
    sent, there = part.get("approval", {}), known.get("approval", {})
    if sent and sent.get("id") != there.get("id"):
        return ".approval.id", "unknown approval"
    if "approved" in sent and sent["approved"] != there.get("approved"):
        return ".approval.approved", "the stored answer differs, and the call is no longer pending"
    return None


def _is_same(sent: Any, known: Any) -> bool:
    """Return True if two values are the same. A browser stores numbers as doubles, which changes large integers."""
    return is_same(sent, known) or is_same(_with_doubles(sent), _with_doubles(known))


def _with_doubles(data: Any) -> Any:
    if is_object(data):
        return {name: _with_doubles(value) for name, value in data.items()}
    if is_array(data):
        return [_with_doubles(value) for value in data]
    return float(data) if isinstance(data, int) and not isinstance(data, bool) and abs(data) < 1e300 else data


# -- answers to pending calls


@final
class Answers(msgspec.Struct, frozen=True):
    """The answers to pending calls, and the agent's message that contains them."""

    parts: tuple[ToolContent, ...] = ()
    calls: frozenset[str] = frozenset()
    """The ids of the answered calls."""
    message: UIMessage | None = None


def read_answers(
    sent: UIMessage, talk: Conversation, turn: Turn, most: int, location: str, body: Mapping[str, Any]
) -> Answers:
    """Return the answers of a client to the pending calls of a turn.

    The parts of the message contain the answers. The member `approvals` of the body can also contain approvals:
    `[{"approvalId", "approved", "reason"?}, …]`. Clients of version 5 need it, because their parts cannot contain them.

    Args:
        sent: The message of the agent from the client. Its other parts have been compared.
        talk: The conversation.
        turn: The turn.
        most: Maximum number of characters in a reason.
        location: Location of the message in the body.
        body: The other members of the body.

    Raises:
        HistoryError: If an answer is unexpected or invalid, or if a call has two answers.
    """
    waiting = {one.id: one for one in talk.pending(turn.id)}
    shown = next((one for one in reversed(talk.ui_messages(turn.id)) if one.role == "assistant"), None)
    if not waiting or shown is None:
        return Answers()
    found: dict[str, tuple[ToolContent, Part]] = {}
    for id_, index in _last_indexes(sent).items():
        if id_ in waiting:
            answer = _answer(sent.parts[index], waiting[id_], f"{location}.parts[{index}]", most)
            found.update({} if answer is None else {id_: answer})
    later = frozenset(one.approval_id for one in talk.left_open(turn.id))
    _add_body_approvals(found, body.get("approvals", []), waiting, most, later)
    parts, open_ = list(shown.parts), _last_indexes(shown)
    for id_, (_, change) in found.items():
        if id_ in open_:
            parts[open_[id_]] = {**parts[open_[id_]], **change}
    given = tuple(answer for answer, _ in found.values())
    return Answers(given, frozenset(found), UIMessage(shown.id, shown.role, tuple(parts), shown.metadata))


def read_late_answers(
    messages: Sequence[UIMessage], talk: Conversation, turn: Turn, most: int, body: Mapping[str, Any]
) -> tuple[ToolContent, ...]:
    """Return the answers to open approvals of earlier turns, from all messages of the agent and from the body.

    Args:
        messages: The messages that the client sends.
        talk: The conversation.
        turn: The turn that the request continues. Its own calls are excluded.
        most: Maximum number of characters in a reason.
        body: The other members of the body.

    Raises:
        HistoryError: If a reason is too long, or if an approval has two answers.
    """
    open_ = {one.approval_id: one for one in talk.left_open(turn.id)}
    found: dict[str, ToolContent] = {}
    for number, message in enumerate(messages if open_ else ()):
        for index, part in enumerate(message.parts):
            answered = is_call(part) and part["state"] == "approval-responded"
            approval: dict[str, Any] = part["approval"] if answered else {}
            waiting = open_.get(approval.get("id"))
            if waiting is not None:
                location = f"messages[{number}].parts[{index}].approval.reason"
                answer, _ = _approval(waiting, approval["approved"], approval.get("reason"), location, most)
                found[approval["id"]] = answer
    reported: dict[str, tuple[ToolContent, Part]] = {}
    in_body: object = body.get("approvals", [])
    if open_ and is_array(in_body):
        own = [one for one in in_body if is_object(one) and one.get("approvalId") in open_]
        _add_body_approvals(reported, own, {one.id: one for one in open_.values()}, most, frozenset())
    for answer, _ in reported.values():
        if isinstance(answer, ToolApprovalResponsePart) and answer.approval_id in found:
            raise HistoryError("not-waiting", "approvals", "the approval has two answers")
    return (*found.values(), *(answer for answer, _ in reported.values()))


def _last_indexes(message: UIMessage) -> dict[str, int]:
    """Return the index of the part of each call. If models reuse an id, the last call is the open call."""
    return {part["toolCallId"]: index for index, part in enumerate(message.parts) if is_call(part)}


def _answer(part: Part, waiting: Pending, location: str, most: int) -> tuple[ToolContent, Part] | None:
    """Return the answer in a part, and its changes to the stored part, or None without an answer."""
    state = part["state"]
    if state == "approval-responded" and waiting.approval_id is not None:
        approval = part["approval"]
        if approval["id"] != waiting.approval_id:
            raise HistoryError("not-waiting", f"{location}.approval.id", "unknown approval")
        return _approval(waiting, approval["approved"], approval.get("reason"), f"{location}.approval.reason", most)
    if state == "output-available" and part.get("preliminary"):
        return None
    if state == "output-available" and waiting.approval_id is None:
        return waiting.answer(part["output"]), {"state": state, "output": part["output"]}
    if state == "output-error" and waiting.approval_id is None:
        text = part["errorText"]
        return waiting.answer({"error": text}, is_failure=True), {"state": state, "errorText": text}
    if state in ("input-available", "approval-requested", "input-streaming"):
        return None
    raise HistoryError("not-waiting", f"{location}.state", "this kind of answer does not fit the pending call")


def _approval(
    waiting: Pending, approved: bool, reason: str | None, location: str, most: int
) -> tuple[ToolContent, Part]:
    if reason is not None and len(reason) > most:
        raise HistoryError("invalid", location, f"a reason must have at most {most} characters")
    given = waiting.approve(reason) if approved else waiting.deny(reason)
    answer: dict[str, Any] = {"id": waiting.approval_id, "approved": approved}
    if reason is not None:
        answer["reason"] = reason
    return given, {"state": "approval-responded", "approval": answer}


def _add_body_approvals(
    found: dict[str, tuple[ToolContent, Part]],
    given: object,
    waiting: Mapping[str, Pending],
    most: int,
    others: Set[str | None],
) -> None:
    """Add the approvals in the body to the approvals in the message."""
    if not is_array(given):
        raise HistoryError("invalid", "approvals", "expected an array of answers to approvals")
    by_id = {one.approval_id: one for one in waiting.values() if one.approval_id is not None}
    for index, answer in enumerate(given):
        location = f"approvals[{index}]"
        if not is_object(answer) or not isinstance(answer.get("approved"), bool):
            raise HistoryError("invalid", location, "expected an object with approvalId and approved")
        id_: object = answer.get("approvalId")
        one = by_id.get(id_) if isinstance(id_, str) else None
        if one is None and id_ in others:
            continue
        if one is None:
            raise HistoryError("not-waiting", f"{location}.approvalId", "unknown approval")
        reason = answer.get("reason")
        if reason is not None and not isinstance(reason, str):
            raise HistoryError("invalid", f"{location}.reason", "expected string")
        if one.id in found:
            raise HistoryError("not-waiting", location, "the approval has two answers")
        found[one.id] = _approval(one, answer["approved"], reason, f"{location}.reason", most)
