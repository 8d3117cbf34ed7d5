r"""Events of AG-UI, the Agent User Interaction Protocol. Use `encode_ag_ui` for clients such as `HttpAgent`.

The encoder converts chunks of the UI message stream of version 7 to events. `StreamOptions` therefore selects the parts
and words the failures for both protocols. Source of the forms: `RunAgentInput` and the events of the packages
`ag-ui-protocol` 1.0.0 of PyPI and `@ag-ui/client` 1.0.0 of npm.

| part of a run | events |
| --- | --- |
| a step | `STEP_STARTED`, `STEP_FINISHED` |
| a text | `TEXT_MESSAGE_START`, `TEXT_MESSAGE_CONTENT`, `TEXT_MESSAGE_END` |
| reasoning | `REASONING_START`, `REASONING_MESSAGE_START`, `…_CONTENT`, `…_END`, `REASONING_END` |
| a call | `TOOL_CALL_START`, `TOOL_CALL_ARGS`, `TOOL_CALL_END` |
| a result | `TOOL_CALL_RESULT`, with the metadata `isError` or `isDenied` for a failure or a denial |
| data named `state` | `STATE_SNAPSHOT` |
| other data, files, sources, preliminary results, metadata | `CUSTOM` |
| a call that needs an approval | an interrupt of `RUN_FINISHED` with the id of the approval |
| a call that needs a result | one of the `pendingToolCallIds` of `RUN_FINISHED` |
| a stopped run | `RUN_FINISHED` with the outcome `cancelled` |
| a failure | `RUN_ERROR` |

`RunInput` reads the request of a client, a `RunAgentInput`. A client repeats the conversation with each run, but only
the history of the server counts. fxai accepts the client's last message and its answers to pending calls, by the same
rules as in a request of a page. It also accepts answers to open interrupts of earlier turns. Earlier user messages name
the place to continue, and must equal the stored messages. fxai ignores other kinds of messages, and the tools, the
context, and the state of the client. A function that answers turns finds these three values, unchecked, in
`ChatTurn.body`.

>>> body = b'{"threadId": "c1", "runId": "r1", "messages": [{"id": "u1", "role": "user", "content": "Hi"}]}'
>>> RunInput.read(body).unwrap().accept(None, lambda: "a1").unwrap().added
Prompt((UserMessage(content=(TextPart(text='Hi', metadata={}),), metadata={}),))
>>> print(RunInput.read(b'{"threadId": "c1", "runId": "r1", "messages": [{}]}').failure())
messages[0]: Object missing required field `id`

>>> encoder = AgUiEncoder("thread", "run")
>>> chunks = [{"type": "start"}, {"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "Hi."}]
>>> events = [event for chunk in chunks for event in encoder.encode(chunk)] + encoder.end()
>>> [event["type"] for event in events]
['RUN_STARTED', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'RUN_ERROR']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

from fxai.effects.effect import AnyEffect, Suspend
from fxai.effects.stream import StreamOf, stream_steps
from fxai.schema.data import JsonObject, is_object
from fxai.schema.fault import DecodeError
from fxai.schema.parsing import Limits, parse_json, parse_json_unsafe
from fxai.tools.tool import AnyTool
from fxai.ui.chunk import DONE, HEADERS, Chunk, ChunkEncoder, Emit, StreamOptions, emit_each, encode_answer, to_event
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
from fxai.ui.ui_message import Part, UIMessage, is_call, tool_name

_R = TypeVar("_R")

PROTOCOL_VERSION: Final = "1.0"

AgUiEvent: TypeAlias = JsonObject
"""An event of AG-UI: a JSON object with a `type`. It omits missing values."""

AgUiMessage: TypeAlias = JsonObject
"""A message of AG-UI: a JSON object with an `id` and a `role`."""

EVENT_HEADERS: Final = {name: value for name, value in HEADERS.items() if "vercel" not in name}
"""The headers of a response with a stream of events."""

NOTHING: Final = to_event({"type": "start"}) + to_event({"type": "finish", "finishReason": "stop"})
"""The chunks of a run without any parts."""

_DONE: Final = DONE.strip()
_CUT: Final = "the stream ended before the end of the run"
_ANSWER: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
    "additionalProperties": False,
}


@final
class AgUiEncoder:
    """An encoder of the chunks of one run as events. It ends everything that it starts, for any chunks."""

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        prefix: str | None = None,
        known: Conversation | None = None,
        state: Any = msgspec.UNSET,
    ) -> None:
        """Create the encoder of a run.

        Args:
            thread_id: The id of the conversation.
            run_id: The id of the run from the client.
            prefix: The prefix of the ids of messages, unique in the conversation. Default: the id of the run.
            known: The conversation, for a run that only reads it. The run then starts with a snapshot of its messages,
                and ends with its pending calls.
            state: The state that the client of such a run receives. Default: none.
        """
        self._thread = thread_id
        self._run = run_id
        self._prefix = run_id if prefix is None else prefix
        self._count = 0  # messages
        self._steps = 0
        self._in_step = False
        self._texts: dict[tuple[str, str], str] = {}  # the message of each open text or reasoning
        self._call_message: str | None = None  # the message of the next call
        self._calls: dict[str, str] = {}  # the names of the calls of this run
        self._open_calls: dict[str, bool] = {}  # calls without an end; True if arguments were sent
        self._waiting: dict[str, None] = {}  # calls without a result
        self._approvals: dict[str, str] = {}  # the pending approval of each call
        self._error: str | None = None
        self._is_over = False
        self._known = known
        self._state_before = state
        for one in () if known is None else known.pending():
            self._calls[one.id], self._waiting[one.id] = one.name, None
            if one.approval_id is not None:
                self._approvals[one.id] = one.approval_id

    def encode(self, chunk: Chunk) -> list[AgUiEvent]:
        """Return the events of a chunk. After the end of the run, return no events."""
        if self._is_over:
            return []
        match chunk["type"]:
            case "text-delta" | "reasoning-delta":
                kind = chunk["type"].partition("-")[0]
                begun = [] if (kind, chunk["id"]) in self._texts else self._start_text(chunk)
                type_ = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
                return [*begun, {"type": type_, "messageId": self._texts[kind, chunk["id"]], "delta": chunk["delta"]}]
            case "text-start" | "reasoning-start":
                return self._start_text(chunk)
            case "text-end" | "reasoning-end" as type_:
                return self._close_text(type_.partition("-")[0], chunk["id"])
            case "start-step":
                ends = self._end_step()
                self._steps, self._in_step, self._call_message = self._steps + 1, True, None
                return [*ends, {"type": "STEP_STARTED", "stepName": f"step {self._steps}"}]
            case "finish-step":
                return self._end_step()
            case "start":
                return self._start()
            case "finish":
                has_failed = self._error is not None and chunk.get("finishReason") == "error"
                return self.end() if has_failed else [*self._close(), self._end_with(self._outcome())]
            case "abort":
                return [*self._close(), self._end_with({"type": "cancelled"})]
            case "error":
                self._error = chunk["errorText"]  # kept until the end, because a provider can continue after an error
                return []
            case _:
                return self._encode_call(chunk)

    def end(self) -> list[AgUiEvent]:
        """Return the last events after the end of the stream. If the run has not ended, they report a failure."""
        if self._is_over:
            return []
        self._is_over = True
        return [*self._close(), {"type": "RUN_ERROR", "message": _CUT if self._error is None else self._error}]

    # -- the run

    def _start(self) -> list[AgUiEvent]:
        named = {"threadId": self._thread, "runId": self._run}
        started: AgUiEvent = {"type": "RUN_STARTED", **named, "protocolVersion": PROTOCOL_VERSION}
        if self._known is None:
            return [started]
        shown: AgUiEvent = {"type": "MESSAGES_SNAPSHOT", "messages": to_ag_ui(self._known.ui_messages())}
        is_reported = self._state_before is not msgspec.UNSET
        return [started, shown, *([{"type": "STATE_SNAPSHOT", "snapshot": self._state_before}] if is_reported else [])]

    def _end_with(self, outcome: JsonObject) -> AgUiEvent:
        self._is_over = True
        return {"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._run, "outcome": outcome}

    def _outcome(self) -> JsonObject:
        interrupts: list[JsonObject] = []
        for call_id, approval_id in self._approvals.items():
            message = f"May {self._calls.get(call_id, 'the tool')} run?"
            named = {"id": approval_id, "reason": "tool_call", "toolCallId": call_id, "message": message}
            interrupts.append({**named, "responseSchema": dict(_ANSWER)})
        if interrupts:
            return {"type": "interrupt", "interrupts": interrupts}
        return {"type": "success", **({"pendingToolCallIds": list(self._waiting)} if self._waiting else {})}

    def _close(self) -> list[AgUiEvent]:
        """Return the ends of all open parts."""
        events = [event for key in list(self._texts) for event in self._close_text(*key)]
        events += [event for call_id in list(self._open_calls) for event in self._close_call(call_id)]
        return [*events, *self._end_step()]

    # -- steps

    def _end_step(self) -> list[AgUiEvent]:
        if not self._in_step:
            return []
        self._in_step = False
        return [{"type": "STEP_FINISHED", "stepName": f"step {self._steps}"}]

    # -- text

    def _new_message(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def _start_text(self, chunk: Chunk) -> list[AgUiEvent]:
        kind, id_ = chunk["type"].partition("-")[0], chunk["id"]
        ends = self._close_text(kind, id_)
        message_id = self._texts[kind, id_] = self._new_message()
        if kind == "text":
            self._call_message = message_id
            return [*ends, {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}]
        self._call_message = None
        begun: AgUiEvent = {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"}
        return [*ends, {"type": "REASONING_START", "messageId": message_id}, begun]

    def _close_text(self, kind: str, id_: str) -> list[AgUiEvent]:
        message_id = self._texts.pop((kind, id_), None)
        if message_id is None:
            return []
        ends = ["TEXT_MESSAGE_END"] if kind == "text" else ["REASONING_MESSAGE_END", "REASONING_END"]
        return [{"type": type_, "messageId": message_id} for type_ in ends]

    # -- calls

    def _start_call(self, chunk: Chunk) -> list[AgUiEvent]:
        call_id, name = chunk["toolCallId"], chunk["toolName"]
        if call_id in self._calls:
            return []
        if self._call_message is None:
            self._call_message = self._new_message()
        self._calls[call_id], self._open_calls[call_id], self._waiting[call_id] = name, False, None
        named = {"toolCallId": call_id, "toolCallName": name, "parentMessageId": self._call_message}
        return [{"type": "TOOL_CALL_START", **named}]

    def _encode_call(self, chunk: Chunk) -> list[AgUiEvent]:
        match chunk["type"]:
            case "tool-input-start":
                return self._start_call(chunk)
            case "tool-input-delta":
                call_id = chunk["toolCallId"]
                if call_id not in self._open_calls:
                    return []
                self._open_calls[call_id] = True
                return [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": chunk["inputTextDelta"]}]
            case "tool-input-available":
                call_id = chunk["toolCallId"]
                events = self._start_call(chunk)
                if self._open_calls.get(call_id) is False:
                    events += [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": _text_of(chunk["input"])}]
                return [*events, *self._close_call(call_id)]
            case "tool-approval-request":
                self._approvals[chunk["toolCallId"]] = chunk["approvalId"]
                return []
            case "tool-output-available" if not chunk.get("preliminary"):
                return self._result(chunk, _text_of(chunk["output"]))
            case "tool-output-error":
                return self._result(chunk, chunk["errorText"], isError=True)
            case "tool-output-denied":
                return self._result(chunk, "the call was denied", isDenied=True)
            case _:
                return [_custom(chunk)]

    def _close_call(self, call_id: str) -> list[AgUiEvent]:
        is_open = self._open_calls.pop(call_id, None) is not None
        return [{"type": "TOOL_CALL_END", "toolCallId": call_id}] if is_open else []

    def _result(self, chunk: Chunk, content: str, **metadata: bool) -> list[AgUiEvent]:
        call_id = chunk["toolCallId"]
        self._waiting.pop(call_id, None)
        self._approvals.pop(call_id, None)
        named = {"messageId": _result_id(call_id), "toolCallId": call_id, "role": "tool", "content": content}
        event = {"type": "TOOL_CALL_RESULT", **named, **({"metadata": metadata} if metadata else {})}
        return [*self._close_call(call_id), event]


def _custom(chunk: Chunk) -> AgUiEvent:
    """Return the event of a part that has no own kind of event, or of the state."""
    type_ = chunk["type"]
    if type_ == "data-state":
        return {"type": "STATE_SNAPSHOT", "snapshot": chunk["data"]}
    if type_ == "tool-output-available":
        value = {"toolCallId": chunk["toolCallId"], "output": chunk["output"]}
        return {"type": "CUSTOM", "name": "preliminary-output", "value": value}
    if not type_.startswith("data-"):
        return {"type": "CUSTOM", "name": type_, "value": {name: chunk[name] for name in chunk if name != "type"}}
    event: AgUiEvent = {"type": "CUSTOM", "name": type_.removeprefix("data-"), "value": chunk["data"]}
    return {**event, "metadata": {"id": chunk["id"]}} if "id" in chunk else event


def _text_of(data: Any) -> str:
    """Return data in the form of a tool message: a string unchanged, other values as JSON."""
    return data if isinstance(data, str) else msgspec.json.encode(data, enc_hook=repr).decode()


def _result_id(call_id: str) -> str:
    return f"{call_id}-result"


def encode_ag_ui(
    parts: StreamOf[Any, Any, _R], thread_id: str, run_id: str, options: StreamOptions | None = None
) -> StreamOf[AgUiEvent, Any, _R]:
    """Return the events of a run from its start to its end. `parts` are its parts, such as `agent.stream(…)`.

    A failure or a defect becomes the event `RUN_ERROR` with the text of `options.error_text`. A cancellation cancels
    the stream. The function ignores the version in `options`.
    """
    newest = msgspec.structs.replace(options or StreamOptions(), version=7)

    def produce(emit: Emit) -> AnyEffect:
        encoder = AgUiEncoder(thread_id, run_id)

        def translate(chunk: Chunk) -> AnyEffect:
            return emit_each(encoder.encode(chunk), emit)

        answered = encode_answer(parts, ChunkEncoder(newest), translate)
        return answered.and_then(Suspend(lambda: emit_each(encoder.end(), emit)))

    return stream_steps(produce)


def translate_stream(encoder: AgUiEncoder, events: StreamOf[bytes, Any, None]) -> StreamOf[bytes, Any, None]:
    """Translate server-sent events of chunks to AG-UI events. Each item contains one or more whole events."""
    last = StreamOf.suspend(lambda: StreamOf.make(b"".join(map(to_event, encoder.end()))))
    return events.map(lambda some: translate(encoder, some)).concat(last).filter(bool)


def translate(encoder: AgUiEncoder, events: bytes) -> bytes:
    r"""Translate server-sent events of chunks to AG-UI events. The bytes contain one or more whole events.

    >>> translate(AgUiEncoder("t", "r"), b'data: {"type":"start"}\n\n')
    b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}\n\n'
    """
    translated: list[AgUiEvent] = []
    for event in events.split(b"\n\n"):
        if event and event != _DONE:
            translated += encoder.encode(msgspec.json.decode(event.removeprefix(b"data: ")))
    return b"".join(map(to_event, translated))


# -- messages


def to_ag_ui(messages: Iterable[UIMessage]) -> list[AgUiMessage]:
    """Return the messages of a conversation in the form of AG-UI, which a client also builds from the events.

    A message of an agent becomes several messages: its reasoning, its texts with the calls after them, and the results.
    The function omits files, sources, and data of agents.
    """
    shown: list[AgUiMessage] = []
    for message in messages:
        if message.role == "user":
            content = [part for one in message.parts if (part := _content(one)) is not None]
            is_text = len(content) == 1 and content[0]["type"] == "text"
            shown.append({"id": message.id, "role": "user", "content": content[0]["text"] if is_text else content})
        else:
            shown += _agent_messages(message)
    return shown


def _content(part: Part) -> JsonObject | None:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    if part["type"] != "file":
        return None
    kind = str(part["mediaType"]).partition("/")[0]
    header, _, data = str(part["url"]).partition(",")
    source = {"type": "data", "value": data} if header.startswith("data:") else {"type": "url", "value": part["url"]}
    type_ = kind if kind in ("image", "audio", "video") else "document"
    return {"type": type_, "source": {**source, "mimeType": part["mediaType"]}}


def _agent_messages(message: UIMessage) -> list[AgUiMessage]:
    answered: list[AgUiMessage] = []
    caller: AgUiMessage | None = None  # the message of the next call
    results: list[AgUiMessage] = []  # the results of the last caller

    def push(role: str, **members: Any) -> AgUiMessage:
        answered.extend(results)
        results.clear()
        answered.append({"id": f"{message.id}-{len(answered) + 1}", "role": role, **members})
        return answered[-1]

    for part in message.parts:
        if part["type"] == "step-start":
            caller = None
        elif part["type"] == "text":
            caller = push("assistant", content=part["text"])
        elif part["type"] == "reasoning":
            caller = None
            push("reasoning", content=part["text"])
        elif is_call(part):
            caller = caller or push("assistant")
            called = {"name": tool_name(part), "arguments": _text_of(part["input"]) if "input" in part else ""}
            call = {"id": part["toolCallId"], "type": "function", "function": called}
            caller.setdefault("toolCalls", []).append(call)
            results += _results(part)
    return [*answered, *results]


def _results(part: Part) -> list[AgUiMessage]:
    named = {"id": _result_id(part["toolCallId"]), "role": "tool", "toolCallId": part["toolCallId"]}
    match part["state"]:
        case "output-available" if not part.get("preliminary"):
            return [{**named, "content": _text_of(part["output"])}]
        case "output-error":
            return [{**named, "content": part["errorText"], "metadata": {"isError": True}}]
        case "output-denied":
            return [{**named, "content": "the call was denied", "metadata": {"isDenied": True}}]
        case _:
            return []


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
    content: str | list[_Content] | JsonObject | None = None
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


def _read(read: _Input, data: JsonObject) -> RunInput:
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
