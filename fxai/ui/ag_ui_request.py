"""Requests of AG-UI clients. Use `RunInput` to read and check a `RunAgentInput`, and to accept a part of it.

A client repeats the conversation with each run, but only the history of the server counts. fxai accepts the client's
last message and its answers to pending calls, by the same rules as in a request of a page. It also accepts answers to
open interrupts of earlier turns. Earlier user messages name the place to continue, and must equal the stored messages.
fxai ignores other kinds of messages, and the tools, the context, and the state of the client. A function that answers
turns finds these three values, unchecked, in `ChatTurn.body`.

>>> body = b'{"threadId": "c1", "runId": "r1", "messages": [{"id": "u1", "role": "user", "content": "Hi"}]}'
>>> RunInput.read(body).unwrap().accept(None, lambda: "a1").unwrap().added
Prompt((UserMessage(content=(TextPart(text='Hi', metadata={}),), metadata={}),))
>>> print(RunInput.read(b'{"threadId": "c1", "runId": "r1", "messages": [{}]}').failure())
messages[0]: Object missing required field `id`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.schema.data import is_object
from fxai.schema.fault import DecodeError
from fxai.schema.parsing import Limits, parse_json, parse_json_unsafe
from fxai.tools.tool import AnyTool
from fxai.ui.client_history import HistoryError, find_turn
from fxai.ui.conversation import Conversation
from fxai.ui.request import (
    IDS,
    LIMITS,
    Accepted,
    ChatRequest,
    Refusal,
    RefusalError,
    RequestLimits,
    Trigger,
    accept,
    is_id,
    refuse_form,
)
from fxai.ui.ui_message import Part, UIMessage, is_call

_ABANDONED: Final = "the user gave no answer"
_MEDIA: Final = ("image", "audio", "video", "document")
_BODY: Final = ("state", "tools", "context", "forwardedProps")


class _Source(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    value: str
    mime_type: str = ""


class _Content(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    source: _Source | None = None


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    role: str
    content: str | list[_Content] | dict[str, Any] | None = None
    tool_call_id: str = ""
    error: str | None = None


class _Resume(msgspec.Struct, frozen=True, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class _Input(msgspec.Struct, frozen=True, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[_Message]
    resume: list[_Resume] | None = None


@final
class RunInput(msgspec.Struct, frozen=True):
    """A `RunAgentInput` with a valid form. Its content is not checked against the history."""

    id: str
    """The id of the conversation, which is the `threadId`."""
    run_id: str
    """The id of the run, which is the `runId`."""
    body: Mapping[str, Any]
    """The members `state`, `tools`, `context`, and `forwardedProps`."""
    messages: tuple[UIMessage, ...]
    """The user messages."""
    locations: tuple[int, ...]
    """The index of each user message among all messages."""
    outputs: Mapping[str, tuple[str, str | None]]
    """The text and the error of each tool message after the last user message, by the id of the call."""
    resume: Mapping[str, Mapping[str, Any]]
    """The answers to interrupts by the id of the approval, in the form of the `approval` of a call."""
    is_answered: bool
    """True if a message of the agent follows the last user message."""

    @staticmethod
    def read(text: bytes, limits: RequestLimits = LIMITS) -> Result[RunInput, Refusal]:
        """Return the input in a body.

        Fails with:
            Refusal: If the body is not a valid `RunAgentInput`, or if it exceeds a limit.
        """
        parsed = parse_json(text, Limits(max_bytes=limits.bytes, max_values=limits.values, unique_keys=True))
        if not isinstance(parsed, Success):
            return Failure(refuse_form(parsed.failure()))
        data: Any = parsed.unwrap()
        try:
            return Success(_read(msgspec.convert(data, _Input), data))
        except msgspec.ValidationError as error:
            message, _, location = str(error).partition(" - at `$")
            return Failure(Refusal("invalid", location.rstrip("`").removeprefix("."), message))
        except RefusalError as error:
            return Failure(error.refusal)

    def asks(self, conversation: Conversation | None) -> bool:
        """Return True if the input needs an answer. Otherwise the client only requests the messages of the server."""
        if self.resume:
            return True
        if self.is_answered or not self.messages:
            waiting = () if conversation is None else conversation.pending()
            return any(one.id in self.outputs for one in waiting)
        return True

    def accept(
        self,
        conversation: Conversation | None,
        new_id: Callable[[], str],
        limits: RequestLimits = LIMITS,
        tools: Iterable[AnyTool] = (),
    ) -> Result[Accepted, Refusal]:
        """Check the input, and return its accepted part; see `fxai.ui.request.accept`.

        Fails with:
            Refusal: For the same reasons as for a request of a page, or if a pending interrupt has no answer.
        """
        known = conversation or Conversation(self.id, "", "", 0.0, 0.0)
        try:
            request = self._chat_request(known)
        except HistoryError as fault:
            return Failure(self._location(Refusal(fault.code, fault.where, fault.message)))
        except RefusalError as error:
            return Failure(error.refusal)
        return accept(request, conversation, new_id, limits, tools).alt(self._location)

    def _location(self, refusal: Refusal) -> Refusal:
        """Return the refusal with the location in the body of the client."""
        if refusal.where.startswith("approvals"):
            location = refusal.where.replace("approvals", "resume", 1).replace(".reason", ".payload.reason")
            return msgspec.structs.replace(refusal, where=location)
        found = _LOCATION.match(refusal.where)
        if found is None or int(found[1]) >= len(self.locations):
            return refusal
        rest = refusal.where[found.end() :].replace(".parts", ".content", 1)
        return msgspec.structs.replace(refusal, where=f"messages[{self.locations[int(found[1])]}]{rest}")

    def _chat_request(self, known: Conversation) -> ChatRequest:
        """Return the equivalent request of a page that shows the stored messages."""
        last = self.messages[-1] if self.messages else None
        is_known = last is not None and known.find_message(last.id) is not None
        added = self.messages if is_known or self.is_answered else self.messages[:-1]
        turn = find_turn(added, known)
        waiting = () if turn is None else known.pending(turn.id)
        open_ = {one.approval_id for one in waiting if one.approval_id is not None}
        left_open = {one.approval_id for one in (known.left_open(turn.id) if turn is not None else ())}
        for index, id_ in enumerate(self.resume):
            if id_ not in open_ | left_open:
                raise RefusalError("not-waiting", f"resume[{index}].interruptId", "unknown or closed interrupt")
        answers = bool(self.resume) or any(one.id in self.outputs for one in waiting)
        trigger: Trigger = "submit-message"
        if turn is not None and answers:
            shown = [one for one in known.ui_messages(turn.id) if one.role == "assistant"][-1:]
            added = (*added, *(self._answer(one) for one in shown))
        elif is_known:
            trigger = "regenerate-message"
        if open_ - set(self.resume) and trigger == "submit-message":
            raise RefusalError("unanswered", "resume", "calls need an approval. Answer every interrupt.")
        new = () if last is None or is_known or self.is_answered else (last,)
        message_id = last.id if last is not None and trigger == "regenerate-message" else None
        approvals = [{**approval, "approvalId": id_} for id_, approval in self.resume.items()]
        return ChatRequest(self.id, (*added, *new), trigger, message_id, {"approvals": approvals})

    def _answer(self, message: UIMessage) -> UIMessage:
        """Return a message of the agent with the results of its pending calls."""
        parts = list(message.parts)
        for index, part in enumerate(parts):
            if is_call(part) and part["state"] == "input-available" and part["toolCallId"] in self.outputs:
                text, error = self.outputs[part["toolCallId"]]
                answer = {"state": "output-available", "output": _data_of(text)}
                parts[index] = {**part, **(answer if error is None else {"state": "output-error", "errorText": error})}
        return msgspec.structs.replace(message, parts=tuple(parts))

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.run_id))


_LOCATION: Final = re.compile(r"messages\[(\d+)\]")


def _read(read: _Input, data: dict[str, Any]) -> RunInput:
    for name, value in (("threadId", read.thread_id), ("runId", read.run_id)):
        if not is_id(value):
            raise RefusalError("invalid", name, f"expected {IDS}")
    users = [position for position, message in enumerate(read.messages) if message.role == "user"]
    behind = read.messages[users[-1] + 1 if users else 0 :]
    return RunInput(
        read.thread_id,
        read.run_id,
        {name: data[name] for name in _BODY if name in data},
        tuple(UIMessage(read.messages[at].id, "user", tuple(_parts(read.messages[at], at))) for at in users),
        tuple(users),
        {one.tool_call_id: (_text(one), one.error) for one in behind if one.role == "tool"},
        {one.interrupt_id: _approval(one, index) for index, one in enumerate(read.resume or ())},
        any(message.role in ("assistant", "tool") for message in behind),
    )


def _parts(message: _Message, location: int) -> Iterator[Part]:
    content = message.content
    if isinstance(content, str):
        content = [_Content("text", content)]
    if not isinstance(content, list):
        raise RefusalError("invalid", f"messages[{location}].content", "expected a string or an array of parts")
    for index, part in enumerate(content):
        here = f"messages[{location}].content[{index}]"
        if part.type == "text":
            yield {"type": "text", "text": part.text}
        elif part.type in _MEDIA and part.source is not None and part.source.type in ("data", "url"):
            media_type, value = part.source.mime_type, part.source.value
            url = f"data:{media_type};base64,{value}" if part.source.type == "data" else value
            yield {"type": "file", "mediaType": media_type, "url": url}
        else:
            raise RefusalError("invalid", here, "expected text, or an image, audio, video, or document with its source")


def _text(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = message.content if isinstance(message.content, list) else ()
    return "".join(part.text for part in parts if part.type == "text")


def _data_of(text: str) -> Any:
    """Return the value of the text of a result: parsed JSON if it is valid JSON, otherwise the text."""
    try:
        return parse_json_unsafe(text.encode())
    except DecodeError:
        return text


def _approval(one: _Resume, index: int) -> Mapping[str, Any]:
    """Return the answer to an approval. Refuse edited arguments, because the call would run with its own arguments."""
    if one.status == "cancelled":
        return {"id": one.interrupt_id, "approved": False, "reason": _ABANDONED}
    payload: Any = one.payload
    if not is_object(payload) or not isinstance(payload.get("approved"), bool) or set(payload) - {"approved", "reason"}:
        raise RefusalError(
            "invalid", f"resume[{index}].payload", "expected an object with approved and an optional reason only"
        )
    if not isinstance(payload.get("reason", ""), str):
        raise RefusalError("invalid", f"resume[{index}].payload.reason", "expected string")
    return {"id": one.interrupt_id, **payload}
