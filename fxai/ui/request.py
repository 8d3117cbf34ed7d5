"""Requests of a page: what a client sends to go on with a conversation, read and checked.

A client sends the messages that it shows. What was said before is known to the server, whose history counts: the client
adds a message of the user's, edits one, asks for another answer, or answers calls that wait. All else must be what it
was sent (`fxai.ui.client_history`); whatever is not is refused, and where it stands is said.

>>> body = b'{"id": "c1", "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}'
>>> request = ChatRequest.read(body).unwrap()
>>> request.trigger, accept(request, None, lambda: "a1").unwrap().said
('submit-message', Prompt((UserMessage(content=(TextPart(text='Hi', metadata={}),), metadata={}),)))
>>> print(ChatRequest.read(b'{"id": "c1"}').failure())
messages: expected array of messages, found null
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.messages.message import FilePart, FileUrl, TextPart, ToolMessage, UserContent, UserMessage
from fxai.messages.prompt import Prompt
from fxai.schema.data import is_object
from fxai.schema.fault import DecodeFailure, pointer_tokens
from fxai.schema.parsing import Limits, parse_json
from fxai.tools.tool import AnyTool
from fxai.ui.client_history import (
    Answers,
    HistoryError,
    compare_answer,
    compare_user,
    find_turn,
    read_answers,
    read_late_answers,
)
from fxai.ui.conversation import Conversation, Turn
from fxai.ui.ui_message import Part, UIMessage, read_message, read_messages

Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]
"""What a client asks for: an answer to what it sends, or another answer to what was said."""

ConvertData: TypeAlias = Callable[[Part], UserContent | None]
"""Says what a model is told of data of an application, a part `data-NAME`; None: nothing."""

RefusalCode: TypeAlias = Literal["invalid", "unknown", "changed", "not-waiting", "unanswered", "file"]
"""Why a request is refused: it is not of the form; it goes on from what is not there; something is not as it was sent;
nothing waits for its answers; calls that wait have no answer; a file may not be sent."""

_STATUS: Final[Mapping[RefusalCode, int]] = {"invalid": 400, "file": 415}


@final
class Refusal(msgspec.Struct, frozen=True):
    """A request that is not taken: why, and where in its body."""

    code: RefusalCode
    where: str
    """The place in the body, such as `messages[2].parts[0].output`; empty for all of it."""
    message: str

    @property
    def status(self) -> int:
        """The status of the HTTP response: 400, 409 or 415."""
        return _STATUS.get(self.code, 409)

    @override
    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@final
class RequestLimits(msgspec.Struct, frozen=True):
    """What a client may send at most.

    Attributes:
        bytes: of a body.
        values: JSON values in a body.
        text: characters of one message of the user's.
        files: files of one message.
        media_types: of files; `image/*` stands for all of a kind.
        file_urls: whether files may be named by their address, which a provider then fetches. By default only the
            files themselves may be sent.
        reason: characters of the reason of an answer to an approval.
    """

    bytes: int = 8 * 1024 * 1024
    values: int = 200_000
    text: int = 200_000
    files: int = 10
    media_types: tuple[str, ...] = ("image/*", "audio/*", "text/*", "application/pdf", "application/json")
    file_urls: bool = False
    reason: int = 2_000


LIMITS: Final = RequestLimits()

_ID: Final = re.compile(r"(?!\.{1,2}$)[!-.0-[\]-~]{1,200}")
IDS: Final = "a string of 1 to 200 visible ASCII characters without slashes"
_MOST_OF_ID: Final = 200  # characters of the id of a message
_MOST_OF_NAME: Final = 255  # characters of the name of a file
LATE_ANSWER: Final = "(The user has now answered an approval that was left open. The result is behind its call.)"
"""The user message of a turn that only answers approvals that earlier turns left open."""
_TRIGGERS: Final = ("submit-message", "regenerate-message")
_OWN: Final = frozenset({"id", "messages", "message", "trigger", "messageId"})
_MEDIA_TYPE: Final = re.compile(r"[a-zA-Z0-9][\w!#$&^.+-]*/[a-zA-Z0-9][\w!#$&^.+-]*", re.ASCII)
_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)(?:;[\w.+-]+=[^;,]*)*;base64,(.*)", re.DOTALL)


@final
class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request, its form checked, and nothing else of it."""

    id: str
    """The id of the conversation."""
    messages: tuple[UIMessage, ...]
    """The messages that the client shows; or only the last one."""
    trigger: Trigger = "submit-message"
    message_id: str | None = None
    """The message that is edited, gone on with, or to be answered again."""
    body: Mapping[str, Any] = {}
    """All other members."""
    is_last_only: bool = False
    """Whether the client sent its last message alone: it goes on from what the page shows."""

    @staticmethod
    def read(text: bytes, limits: RequestLimits = LIMITS) -> Result[ChatRequest, Refusal]:
        """The request of a body: `{id, messages, trigger?, messageId?, …}`, or `{id, message, …}` with the last one.

        Fails with:
            Refusal: It is not of that form, or more than the limits allow.
        """
        parsed = parse_json(text, Limits(max_bytes=limits.bytes, max_values=limits.values, unique_keys=True))
        if not isinstance(parsed, Success):
            return Failure(refuse_form(parsed.failure()))
        data = parsed.unwrap()
        if not is_object(data):
            return Failure(Refusal("invalid", "", "expected an object with id and messages"))
        for name, is_right, expected in _HEAD:
            if not is_right(data.get(name)):
                return Failure(Refusal("invalid", name, f"expected {expected}"))
        messages = _read_messages(data)
        if not isinstance(messages, Success):
            return Failure(refuse_form(messages.failure()))
        rest = {name: value for name, value in data.items() if name not in _OWN}
        trigger: Trigger = data.get("trigger") or "submit-message"
        alone = "messages" not in data
        return Success(ChatRequest(data["id"], messages.unwrap(), trigger, data.get("messageId"), rest, alone))

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.trigger, len(self.messages)))


def is_id(value: object) -> bool:
    """Whether it can be the id of a conversation, which stands in paths: visible ASCII characters without slashes."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


_HEAD: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("id", is_id, IDS),
    ("trigger", lambda value: value is None or value in _TRIGGERS, '"submit-message" or "regenerate-message"'),
    ("messageId", lambda value: value is None or isinstance(value, str), "string"),
)


def _read_messages(data: dict[str, Any]) -> Result[tuple[UIMessage, ...], DecodeFailure]:
    if "message" in data and "messages" not in data:
        return read_message(data["message"], "/message").map(lambda message: (message,))
    return read_messages(data.get("messages"), "/messages")


def refuse_form(failure: DecodeFailure) -> Refusal:
    """The refusal of what is not of the form of a request."""
    fault = failure.faults[0]
    return Refusal("invalid", where(fault.pointer), f"expected {fault.expected}, found {fault.found}")


def where(pointer: str) -> str:
    """A place as JavaScript writes it.

    >>> where("/messages/2/parts/0/output")
    'messages[2].parts[0].output'
    """
    place = ""
    for token in pointer_tokens(pointer):
        place += f"[{token}]" if token.isdigit() else f".{token}"
    return place.removeprefix(".")


# -- what is taken


@final
class Accepted(msgspec.Struct, frozen=True):
    """What of a request is taken: where the conversation goes on, and with what."""

    parent: str | None
    """The id of the turn that it goes on from; None: it begins the conversation, or a branch of its own."""
    user: UIMessage | None
    """What the user says; None where calls are answered."""
    message_id: str
    """The id of the agent's message, a new one or the one that is gone on with."""
    said: Prompt
    """What the agent is told: answers to calls that wait, a message of the user's, or both."""
    before: UIMessage | None = None
    """The agent's message that is gone on with, with the answers."""
    late: Prompt = Prompt.empty
    """Answers to approvals that earlier turns left open, in one tool message; empty without such answers."""

    @override
    def __hash__(self) -> int:
        return hash((self.parent, self.message_id))


def accept(
    request: ChatRequest,
    conversation: Conversation | None,
    new_id: Callable[[], str],
    limits: RequestLimits = LIMITS,
    tools: Iterable[AnyTool] = (),
) -> Result[Accepted, Refusal]:
    """What of a request is taken.

    Args:
        request: the request.
        conversation: as the server has it; None: there is none of this id yet.
        new_id: gives the id of a new message.
        limits: what a client may send at most.
        tools: those whose outputs are checked by their schemas, where the client answers a call of them.

    Fails with:
        Refusal: It goes on from what is not there, something in it is not as it was sent, its answers are not awaited
            or not of the tool's type, calls that wait have no answer, or a file may not be sent.
    """
    try:
        known = conversation or Conversation(request.id, "", "", 0.0, 0.0)
        return Success(_Acceptance(request, known, new_id, limits, tools).accept())
    except RefusalError as refused:
        return Failure(refused.refusal)
    except HistoryError as fault:
        return Failure(Refusal(fault.code, fault.where, fault.message))


class RefusalError(Exception):
    """A request is not taken; `accept` gives the refusal."""

    def __init__(self, code: RefusalCode, place: str, message: str) -> None:
        super().__init__(message)
        self.refusal: Refusal = Refusal(code, place, message)


class _Acceptance:
    """One request beside the conversation."""

    def __init__(
        self,
        request: ChatRequest,
        known: Conversation,
        new_id: Callable[[], str],
        limits: RequestLimits,
        tools: Iterable[AnyTool],
    ) -> None:
        self._request = request
        self._known = known
        self._new_id = new_id
        self._limits = limits
        self._tools = {tool.name: tool for tool in tools}

    def accept(self) -> Accepted:
        messages = self._request.messages
        for index, message in enumerate(messages):
            if message.role == "system":
                raise RefusalError("invalid", f"messages[{index}].role", "a client sends no system messages")
        if self._request.trigger == "regenerate-message":
            return self._again()
        if not messages:
            raise RefusalError("invalid", "messages", "there is no message to answer")
        return self._say(messages[-1]) if messages[-1].role == "user" else self._go_on(messages[-1])

    def _before(self) -> tuple[UIMessage, ...]:
        return self._request.messages[:-1]

    def _late_answers(self, turn: Turn | None, answers: Answers) -> Prompt:
        """The answers to approvals that turns before this one left open, in any message of the agent's."""
        if turn is None:
            return Prompt.empty
        found = read_late_answers(self._request.messages, self._known, turn, self._limits.reason, self._request.body)
        late = tuple(part for part in found if part not in answers.parts)
        return Prompt((ToolMessage(late),)) if late else Prompt.empty

    def _parent(self) -> tuple[Turn | None, Answers]:
        """The turn that a message of the user's goes on from, and the answers to calls that wait there."""
        before, place = self._before(), f"messages[{len(self._request.messages) - 2}]"
        if self._request.is_last_only:
            return self._parent_of_last(self._request.messages[-1].id), Answers()
        turn = find_turn(before, self._known)
        if turn is None or before[-1].role != "assistant":
            return turn, Answers()
        return turn, self._read_answers(before[-1], turn, place)

    def _parent_of_last(self, last_id: str) -> Turn | None:
        """The turn that a message goes on from that was sent alone: the head, or what is before one that is edited."""
        edited_id = self._request.message_id
        edited = None if edited_id is None else self._known.find_message(edited_id)
        if edited is not None:
            return self._known.turn(edited.parent or "")
        if edited_id not in (None, last_id):
            raise RefusalError("unknown", "messageId", "there is no such message to edit")
        return self._known.turn(self._known.head or "")

    def _read_answers(self, message: UIMessage, turn: Turn, place: str) -> Answers:
        answers = read_answers(message, self._known, turn, self._limits.reason, place, self._request.body)
        for part in answers.parts:
            if part.type == "tool-result" and not part.is_failure and part.name in self._tools:
                read = self._tools[part.name].success.decode(part.result)
                if not isinstance(read, Success):
                    fault = read.failure().faults[0]
                    text = f"{part.name} gives {fault.expected}, found {fault.found}"
                    index = max(n for n, one in enumerate(message.parts) if one.get("toolCallId") == part.id)
                    pointer = f"/parts/{index}/output{fault.pointer}"
                    raise RefusalError("invalid", f"{place}.{where(pointer)}", text)
        return answers

    def _check_id(self, user: UIMessage, parent: Turn | None) -> None:
        """A message of the user's has an id of its own: it would else be taken for another one of the page."""
        place = "message" if self._request.is_last_only else f"messages[{len(self._request.messages) - 1}]"
        if not 1 <= len(user.id) <= _MOST_OF_ID:
            raise RefusalError("invalid", f"{place}.id", f"expected a string of 1 to {_MOST_OF_ID} characters")
        if any(turn.message_id == user.id for turn in self._known.turns):
            raise RefusalError("changed", f"{place}.id", "a message of the agent's has this id")
        path = () if parent is None else self._known.path(parent.id)
        if any(turn.user is not None and turn.user.id == user.id for turn in path):
            raise RefusalError("changed", f"{place}.id", "this was said before; to edit it, name it by messageId")

    def _say(self, user: UIMessage) -> Accepted:
        parent, answers = self._parent()
        self._check_id(user, parent)
        content = read_content(user.parts, self._limits, f"messages[{len(self._request.messages) - 1}]")
        said = Prompt((UserMessage(content),))
        if answers.parts:
            said = Prompt((ToolMessage(answers.parts),)) + said
        late = self._late_answers(parent, answers)
        return Accepted(None if parent is None else parent.id, user, self._new_id(), said, late=late)

    def _again(self) -> Accepted:
        """Another answer to what was said."""
        id_ = self._request.message_id
        first = None if id_ is None else self._known.find_message(id_)
        if first is None and self._request.messages and id_ is None:
            first = self._known.find_message(self._request.messages[-1].id)
        if first is None or first.user is None:
            raise RefusalError("unknown", "messageId", "there is no such message to answer again")
        if self._request.messages and not self._request.is_last_only:
            turn = find_turn(self._before(), self._known)
            if (None if turn is None else turn.id) != first.parent:
                raise RefusalError("changed", "messages", "the message to answer again stands elsewhere")
            find_turn(self._request.messages, self._known)
        for sent in self._request.messages if self._request.is_last_only else ():
            if sent.id != first.user.id:
                raise RefusalError("changed", "message.id", "this is not the message to answer again")
            compare_user(sent, first, "message")
        said = Prompt((UserMessage(read_content(first.user.parts, self._limits, "messages")),))
        return Accepted(first.parent, first.user, self._new_id(), said)

    def _go_on(self, message: UIMessage) -> Accepted:
        """On with a message of the agent's, whose calls wait."""
        index = len(self._request.messages) - 1
        place = "message" if self._request.is_last_only else f"messages[{index}]"
        if self._request.is_last_only:
            turn = self._known.turn(self._known.head or "")
        else:
            turn = find_turn(self._request.messages, self._known)
        shown = {one.id: one for one in self._known.ui_messages(None if turn is None else turn.id)}
        is_last = turn is not None and turn.message_id == message.id
        if turn is None or not (is_last or (self._request.is_last_only and message.id in shown)):
            raise RefusalError("unknown", f"{place}.id", "there is no such message to go on with")
        if self._request.is_last_only:
            known = shown.get(message.id)
            compare_answer(message, known if known is not None and known.role == "assistant" else None, place)
        answers = self._read_answers(message, turn, place) if is_last else Answers()
        late, waiting = self._late_answers(turn, answers), self._known.pending(turn.id)
        if not waiting:
            return self._go_on_late(turn, late, place)
        missing = [one.name for one in waiting if one.id not in answers.calls]
        if missing:
            raise RefusalError("unanswered", place, f"calls that wait have no answer: {', '.join(missing)}")
        said = Prompt((ToolMessage(answers.parts),))
        return Accepted(turn.id, None, message.id, said, answers.message, late)

    def _go_on_late(self, turn: Turn, late: Prompt, place: str) -> Accepted:
        """On with the last message, after answers to approvals that earlier turns left open."""
        if not len(late):
            raise RefusalError("not-waiting", place, "no call of it waits for an answer")
        last = self._known.ui_messages(turn.id)[-1]
        before = last if last.role == "assistant" else None
        said = Prompt((UserMessage.make(LATE_ANSWER),))
        return Accepted(turn.id, None, self._new_id() if before is None else before.id, said, before, late)


# -- what the user says


def read_content(
    parts: Sequence[Part], limits: RequestLimits, place: str, convert_data: ConvertData | None = None
) -> tuple[UserContent, ...]:
    """What a user says, in parts of a message: texts and files; `convert_data` says what data is.

    Raises:
        RefusalError: nothing of it is said, or more than the limits allow.
    """
    content = [
        part
        for index, one in enumerate(parts)
        if (part := _user_part(one, limits, f"{place}.parts[{index}]", convert_data)) is not None
    ]
    if not content:
        raise RefusalError("invalid", f"{place}.parts", "expected a text or a file")
    if sum(part.type == "file" for part in content) > limits.files:
        raise RefusalError("file", f"{place}.parts", f"at most {limits.files} files may be sent at once")
    if sum(len(part.text) for part in content if part.type == "text") > limits.text:
        raise RefusalError("invalid", f"{place}.parts", f"at most {limits.text} characters may be sent at once")
    return tuple(content)


def _user_part(part: Part, limits: RequestLimits, place: str, convert_data: ConvertData | None) -> UserContent | None:
    if part["type"] == "text":
        return TextPart(part["text"]) if part["text"] else None
    if part["type"] == "file":
        return read_file(part, limits, place)
    if part["type"].startswith("data-"):  # of the application, for the page
        return None if convert_data is None else convert_data(part)
    raise RefusalError("invalid", f"{place}.type", f"a user says no {part['type']}")


def read_file(part: Part, limits: RequestLimits, place: str) -> FilePart:
    """The file of a part.

    Raises:
        RefusalError: it is none that may be sent.
    """
    media_type, url, name = str(part["mediaType"]), str(part["url"]), cast("str | None", part.get("filename"))
    kind = f"{media_type.partition('/')[0]}/*"
    may = media_type in limits.media_types or kind in limits.media_types
    if not may or _MEDIA_TYPE.fullmatch(media_type) is None:
        allowed = ", ".join(limits.media_types)
        raise RefusalError("file", f"{place}.mediaType", f"files of this type may not be sent; these may: {allowed}")
    if name is not None and len(name) > _MOST_OF_NAME:
        raise RefusalError("file", f"{place}.filename", f"the name of a file has at most {_MOST_OF_NAME} characters")
    if not url.startswith("data:"):
        if limits.file_urls and url.startswith("https://"):
            return FilePart(media_type, FileUrl(url), name)
        raise RefusalError("file", f"{place}.url", "a file is sent itself, as a data: URL, and not by its address")
    found = _DATA_URL.fullmatch(url)
    if found is None or (found[1] and found[1] != media_type):
        raise RefusalError("file", f"{place}.url", "expected a data: URL in base64, of the media type of the file")
    try:
        return FilePart(media_type, base64.b64decode(found[2], validate=True), name)
    except binascii.Error:
        raise RefusalError("file", f"{place}.url", "expected a data: URL in base64") from None
