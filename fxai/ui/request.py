"""Requests of a page. Use `ChatRequest.read` to check the form of a body, and `accept` to check it against the history.

A client sends the messages that it shows, but only the history of the server counts. The client can add or edit a user
message, request another answer, or answer pending calls. Everything else must equal the data that the server sent (see
`fxai.ui.client_history`). Otherwise fxai refuses the request and states the location.

>>> body = b'{"id": "c1", "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}'
>>> request = ChatRequest.read(body).unwrap()
>>> request.trigger, accept(request, None, lambda: "a1").unwrap().added
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
from fxai.ui.signal import SentMessage
from fxai.ui.ui_message import Part, UIMessage, read_message, read_messages

Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]
"""The wish of a client: an answer to its message, or another answer to an earlier message."""

ConvertData: TypeAlias = Callable[[Part], UserContent | None]
"""Converts data of an application (a part `data-NAME`) to content for the model, or returns None to omit it."""

RefusalCode: TypeAlias = Literal["invalid", "unknown", "changed", "not-waiting", "unanswered", "file"]
"""The reason of a refusal.

- "invalid": the form of the request is invalid.
- "unknown": the message to continue does not exist.
- "changed": a part differs from the stored part.
- "not-waiting": no call needs the answers.
- "unanswered": a pending call has no answer.
- "file": a file is not allowed.
"""

_STATUS: Final[Mapping[RefusalCode, int]] = {"invalid": 400, "file": 415}


@final
class Refusal(msgspec.Struct, frozen=True):
    """A refused request with the reason and the location in the body."""

    code: RefusalCode
    """The kind of the problem."""
    where: str
    """The location in the body, such as `messages[2].parts[0].output`. An empty string means the whole body."""
    message: str
    """The problem as text."""

    @property
    def status(self) -> int:
        """The status of the HTTP response: 400, 409, or 415."""
        return _STATUS.get(self.code, 409)

    @override
    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class RefusedError(Exception):
    """A refused request, with an HTTP status, a code for programs, and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
        """Seconds until the client can try again. None if the client receives no number."""


def unknown_conversation() -> RefusedError:
    """Return the refusal of a missing conversation. A conversation of another user gets the same refusal."""
    return RefusedError(404, "unknown", "the conversation does not exist")


@final
class RequestLimits(msgspec.Struct, frozen=True):
    """The limits for the data of a client."""

    bytes: int = 8 * 1024 * 1024
    """Maximum number of bytes in a body."""
    values: int = 200_000
    """Maximum number of JSON values in a body."""
    text: int = 200_000
    """Maximum number of characters in a user message."""
    files: int = 10
    """Maximum number of files in a user message."""
    media_types: tuple[str, ...] = ("image/*", "audio/*", "text/*", "application/pdf", "application/json")
    """The allowed media types of files. `image/*` allows all images."""
    file_urls: bool = False
    """True to allow files as URLs, which a provider then fetches. By default, a client must send the files
    themselves."""
    reason: int = 2_000
    """Maximum number of characters in the reason of an answer to an approval."""


LIMITS: Final = RequestLimits()

_ID: Final = re.compile(r"(?!\.{1,2}$)[!-.0-[\]-~]{1,200}")
IDS: Final = "a string of 1 to 200 visible ASCII characters without slashes"
_MOST_OF_ID: Final = 200  # characters in the id of a message
_MOST_OF_NAME: Final = 255  # characters in the name of a file
LATE_ANSWER: Final = "(The user has now answered an approval that was left open. The result follows its call.)"
"""The user message of a turn that only answers open approvals of earlier turns."""
_TRIGGERS: Final = ("submit-message", "regenerate-message")
_OWN: Final = frozenset({"id", "messages", "message", "trigger", "messageId"})
_MEDIA_TYPE: Final = re.compile(r"[a-zA-Z0-9][\w!#$&^.+-]*/[a-zA-Z0-9][\w!#$&^.+-]*", re.ASCII)
_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)(?:;[\w.+-]+=[^;,]*)*;base64,(.*)", re.DOTALL)


@final
class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request with a valid form. Its content is not checked against the history."""

    id: str
    """The id of the conversation."""
    messages: tuple[UIMessage, ...]
    """All messages that the client shows, or only the last message."""
    trigger: Trigger = "submit-message"
    """The wish of the client."""
    message_id: str | None = None
    """The id of the message to edit, to continue, or to answer again."""
    body: Mapping[str, Any] = {}
    """All other members of the body."""
    is_last_only: bool = False
    """True if the client sent only its last message. The message then continues the path that the page shows."""

    @staticmethod
    def read(text: bytes, limits: RequestLimits = LIMITS) -> Result[ChatRequest, Refusal]:
        """Return the request in a body: `{id, messages, trigger?, messageId?, …}`, or `{id, message, …}`.

        Fails with:
            Refusal: If the form is invalid, or if the body exceeds a limit.
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
        messages = read_messages(data.get("messages"), "/messages")
        if "message" in data and "messages" not in data:
            messages = read_message(data["message"], "/message").map(lambda message: (message,))
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
    """Return True for a valid id of a conversation. Ids are parts of paths: visible ASCII characters, no slashes."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


_HEAD: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("id", is_id, IDS),
    ("trigger", lambda value: value is None or value in _TRIGGERS, '"submit-message" or "regenerate-message"'),
    ("messageId", lambda value: value is None or isinstance(value, str), "string"),
)


def refuse_form(failure: DecodeFailure) -> Refusal:
    """Return the refusal of a body with an invalid form."""
    fault = failure.faults[0]
    return Refusal("invalid", where(fault.pointer), f"expected {fault.expected}, found {fault.found}")


def where(pointer: str) -> str:
    """Return a JSON pointer in the notation of JavaScript.

    >>> where("/messages/2/parts/0/output")
    'messages[2].parts[0].output'
    """
    location = ""
    for token in pointer_tokens(pointer):
        location += f"[{token}]" if token.isdigit() else f".{token}"
    return location.removeprefix(".")


# -- accepted requests


@final
class Accepted(msgspec.Struct, frozen=True):
    """The accepted part of a request: the place to continue, and the new messages."""

    parent: str | None
    """The id of the turn that it continues. None for a new conversation or a new first turn."""
    user: UIMessage | None
    """The user message, or None if the client only answers calls."""
    message_id: str
    """The id of the agent's message, which is new or continues."""
    added: Prompt
    """The new messages for the agent: answers to pending calls, a user message, or both."""
    before: UIMessage | None = None
    """The message of the agent that continues, with the answers, or None."""
    late: Prompt = Prompt.empty
    """Answers to open approvals of earlier turns in one tool message; empty without such answers."""

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
    """Check a request against the conversation, and return its accepted part.

    Args:
        request: The request.
        conversation: The conversation of the server, or None if it does not exist yet.
        new_id: Function that returns the id of a new message.
        limits: The limits for the data of a client.
        tools: The tools whose results are validated if the client answers their calls.

    Fails with:
        Refusal: If the message to continue is unknown, if a part differs from the stored part, if an answer is
            unexpected or has the wrong type, if a pending call has no answer, or if a file is not allowed.
    """
    try:
        known = conversation or Conversation(request.id, "", "", 0.0, 0.0)
        return Success(_Acceptance(request, known, new_id, limits, {tool.name: tool for tool in tools}).accept())
    except RefusalError as refused:
        return Failure(refused.refusal)
    except HistoryError as fault:
        return Failure(Refusal(fault.code, fault.where, fault.message))


class RefusalError(Exception):
    """A refused request. `accept` returns its refusal."""

    def __init__(self, code: RefusalCode, location: str, message: str) -> None:
        super().__init__(message)
        self.refusal: Refusal = Refusal(code, location, message)


@final
class _Acceptance(msgspec.Struct, frozen=True, eq=False):
    """The check of one request against the conversation."""

    request: ChatRequest
    known: Conversation
    new_id: Callable[[], str]
    limits: RequestLimits
    tools: Mapping[str, AnyTool]

    def accept(self) -> Accepted:
        messages = self.request.messages
        for index, message in enumerate(messages):
            if message.role == "system":
                raise RefusalError("invalid", f"messages[{index}].role", "a client must not send system messages")
        if self.request.trigger == "regenerate-message":
            return self._again()
        if not messages:
            raise RefusalError("invalid", "messages", "expected at least one message")
        return self._add(messages[-1]) if messages[-1].role == "user" else self._go_on(messages[-1])

    def _late_answers(self, turn: Turn | None, answers: Answers) -> Prompt:
        """Return the answers to open approvals of turns before `turn`, from all messages of the agent."""
        if turn is None:
            return Prompt.empty
        found = read_late_answers(self.request.messages, self.known, turn, self.limits.reason, self.request.body)
        late = tuple(part for part in found if part not in answers.parts)
        return Prompt((ToolMessage(late),)) if late else Prompt.empty

    def _parent(self) -> tuple[Turn | None, Answers]:
        """Return the turn that a user message continues, and the answers to its pending calls."""
        before, location = self.request.messages[:-1], f"messages[{len(self.request.messages) - 2}]"
        if self.request.is_last_only:
            return self._parent_of_last(self.request.messages[-1].id), Answers()
        turn = find_turn(before, self.known)
        if turn is None or before[-1].role != "assistant":
            return turn, Answers()
        return turn, self._read_answers(before[-1], turn, location)

    def _parent_of_last(self, last_id: str) -> Turn | None:
        """Return the turn before a message that was sent alone: the head, or the parent of an edited message."""
        edited_id = self.request.message_id
        edited = None if edited_id is None else self.known.find_message(edited_id)
        if edited is not None:
            return self.known.turn(edited.parent or "")
        if edited_id not in (None, last_id):
            raise RefusalError("unknown", "messageId", "the message to edit does not exist")
        return self.known.turn(self.known.head or "")

    def _read_answers(self, message: UIMessage, turn: Turn, location: str) -> Answers:
        answers = read_answers(message, self.known, turn, self.limits.reason, location, self.request.body)
        for part in answers.parts:
            if part.type == "tool-result" and not part.is_failure and part.name in self.tools:
                read = self.tools[part.name].success.decode(part.result)
                if not isinstance(read, Success):
                    fault = read.failure().faults[0]
                    text = f"the result of {part.name} must be {fault.expected}, got {fault.found}"
                    index = max(n for n, one in enumerate(message.parts) if one.get("toolCallId") == part.id)
                    pointer = f"/parts/{index}/output{fault.pointer}"
                    raise RefusalError("invalid", f"{location}.{where(pointer)}", text)
        return answers

    def _check_id(self, user: UIMessage, parent: Turn | None) -> None:
        """Check that the id of a user message is new. Otherwise the page would confuse it with another message."""
        location = "message" if self.request.is_last_only else f"messages[{len(self.request.messages) - 1}]"
        if not 1 <= len(user.id) <= _MOST_OF_ID:
            raise RefusalError("invalid", f"{location}.id", f"expected a string of 1 to {_MOST_OF_ID} characters")
        if any(turn.message_id == user.id for turn in self.known.turns):
            raise RefusalError("changed", f"{location}.id", "a message of the agent already has this id")
        path = () if parent is None else self.known.path(parent.id)
        if any(turn.user is not None and turn.user.id == user.id for turn in path):
            raise RefusalError("changed", f"{location}.id", "the message already exists. To edit it, set messageId.")

    def _add(self, user: UIMessage) -> Accepted:
        parent, answers = self._parent()
        self._check_id(user, parent)
        content = read_content(user.parts, self.limits, f"messages[{len(self.request.messages) - 1}]")
        added = Prompt((UserMessage(content),))
        if answers.parts:
            added = Prompt((ToolMessage(answers.parts),)) + added
        late = self._late_answers(parent, answers)
        return Accepted(None if parent is None else parent.id, user, self.new_id(), added, late=late)

    def _again(self) -> Accepted:
        """Accept a request for another answer."""
        id_ = self.request.message_id
        first = None if id_ is None else self.known.find_message(id_)
        if first is None and self.request.messages and id_ is None:
            first = self.known.find_message(self.request.messages[-1].id)
        if first is None or first.user is None:
            raise RefusalError("unknown", "messageId", "the message to answer again does not exist")
        if self.request.messages and not self.request.is_last_only:
            turn = find_turn(self.request.messages[:-1], self.known)
            if (None if turn is None else turn.id) != first.parent:
                raise RefusalError("changed", "messages", "the message to answer again has another parent")
            find_turn(self.request.messages, self.known)
        for sent in self.request.messages if self.request.is_last_only else ():
            if sent.id != first.user.id:
                raise RefusalError("changed", "message.id", "expected the id of the message to answer again")
            compare_user(sent, first, "message")
        added = Prompt((UserMessage(read_content(first.user.parts, self.limits, "messages")),))
        return Accepted(first.parent, first.user, self.new_id(), added)

    def _go_on(self, message: UIMessage) -> Accepted:
        """Accept a request that continues a message of the agent with pending calls."""
        index = len(self.request.messages) - 1
        location = "message" if self.request.is_last_only else f"messages[{index}]"
        if self.request.is_last_only:
            turn = self.known.turn(self.known.head or "")
        else:
            turn = find_turn(self.request.messages, self.known)
        shown = {one.id: one for one in self.known.ui_messages(None if turn is None else turn.id)}
        is_last = turn is not None and turn.message_id == message.id
        if turn is None or not (is_last or (self.request.is_last_only and message.id in shown)):
            raise RefusalError("unknown", f"{location}.id", "the message to continue does not exist")
        if self.request.is_last_only:
            known = shown.get(message.id)
            compare_answer(message, known if known is not None and known.role == "assistant" else None, location)
        answers = self._read_answers(message, turn, location) if is_last else Answers()
        late, waiting = self._late_answers(turn, answers), self.known.pending(turn.id)
        if not waiting:
            if not len(late):
                raise RefusalError("not-waiting", location, "the message has no pending call")
            last = self.known.ui_messages(turn.id)[-1]
            before = last if last.role == "assistant" else None
            added = Prompt((UserMessage.make(LATE_ANSWER),))
            return Accepted(turn.id, None, self.new_id() if before is None else before.id, added, before, late)
        missing = [one.name for one in waiting if one.id not in answers.calls]
        if missing:
            raise RefusalError("unanswered", location, f"pending calls have no answer: {', '.join(missing)}")
        added = Prompt((ToolMessage(answers.parts),))
        return Accepted(turn.id, None, message.id, added, answers.message, late)


# -- user messages


def read_sent(text: bytes, limits: RequestLimits = LIMITS) -> Result[SentMessage, Refusal]:
    """Return the signal in a body: `{message, delivery?}`. `delivery` is `"steer"` (the default) or `"queue"`.

    Fails with:
        Refusal: If the form is invalid, a file is not allowed, or the body exceeds a limit.
    """
    parsed = parse_json(text, Limits(max_bytes=limits.bytes, max_values=limits.values, unique_keys=True))
    data = parsed.unwrap() if isinstance(parsed, Success) else None
    if not is_object(data):
        return Failure(Refusal("invalid", "", "expected an object with message and delivery"))
    delivery = data.get("delivery", "steer")
    if delivery not in ("steer", "queue"):
        return Failure(Refusal("invalid", "delivery", 'expected "steer" or "queue"'))
    read = read_message(data.get("message"), "/message")
    if not isinstance(read, Success):
        return Failure(refuse_form(read.failure()))
    message = read.unwrap()
    if message.role != "user":
        return Failure(Refusal("invalid", "message.role", "expected a user message"))
    if not 1 <= len(message.id) <= _MOST_OF_ID:
        return Failure(Refusal("invalid", "message.id", f"expected a string of 1 to {_MOST_OF_ID} characters"))
    try:
        prompt = Prompt((UserMessage(read_content(message.parts, limits, "message")),))
    except RefusalError as refused:
        return Failure(refused.refusal)
    return Success(SentMessage(message.id, delivery, prompt.to_data()))


def read_content(
    parts: Sequence[Part], limits: RequestLimits, location: str, convert_data: ConvertData | None = None
) -> tuple[UserContent, ...]:
    """Return the content of a user message: text and files. `convert_data` converts data of the application.

    Raise `RefusalError` if the content is empty or exceeds a limit.
    """
    content = [
        part
        for index, one in enumerate(parts)
        if (part := _user_part(one, limits, f"{location}.parts[{index}]", convert_data)) is not None
    ]
    if not content:
        raise RefusalError("invalid", f"{location}.parts", "expected text or a file")
    if sum(part.type == "file" for part in content) > limits.files:
        raise RefusalError("file", f"{location}.parts", f"a message must have at most {limits.files} files")
    if sum(len(part.text) for part in content if part.type == "text") > limits.text:
        raise RefusalError("invalid", f"{location}.parts", f"a message must have at most {limits.text} characters")
    return tuple(content)


def _user_part(
    part: Part, limits: RequestLimits, location: str, convert_data: ConvertData | None
) -> UserContent | None:
    if part["type"] == "text":
        return TextPart(part["text"]) if part["text"] else None
    if part["type"] == "file":
        return read_file(part, limits, location)
    if part["type"].startswith("data-"):  # data of the application
        return None if convert_data is None else convert_data(part)
    raise RefusalError("invalid", f"{location}.type", f"a user message must not contain {part['type']}")


def read_file(part: Part, limits: RequestLimits, location: str) -> FilePart:
    """Return the file of a part. Raise `RefusalError` if the file is not allowed."""
    media_type, url, name = str(part["mediaType"]), str(part["url"]), cast("str | None", part.get("filename"))
    kind = f"{media_type.partition('/')[0]}/*"
    may = media_type in limits.media_types or kind in limits.media_types
    if not may or _MEDIA_TYPE.fullmatch(media_type) is None:
        allowed = ", ".join(limits.media_types)
        raise RefusalError("file", f"{location}.mediaType", f"this file type is not allowed. Allowed: {allowed}")
    if name is not None and len(name) > _MOST_OF_NAME:
        raise RefusalError("file", f"{location}.filename", f"a file name must have at most {_MOST_OF_NAME} characters")
    if not url.startswith("data:"):
        if limits.file_urls and url.startswith("https://"):
            return FilePart(media_type, FileUrl(url), name)
        raise RefusalError("file", f"{location}.url", "the file must be a data: URL, not an address")
    found = _DATA_URL.fullmatch(url)
    if found is None or (found[1] and found[1] != media_type):
        raise RefusalError("file", f"{location}.url", "expected a data: URL in base64 with the media type of the file")
    try:
        return FilePart(media_type, base64.b64decode(found[2], validate=True), name)
    except binascii.Error:
        raise RefusalError("file", f"{location}.url", "expected a data: URL in base64") from None
