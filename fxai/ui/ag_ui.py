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

>>> encoder = AgUiEncoder("thread", "run")
>>> chunks = [{"type": "start"}, {"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "Hi."}]
>>> events = [event for chunk in chunks for event in encoder.encode(chunk)] + encoder.end()
>>> [event["type"] for event in events]
['RUN_STARTED', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'RUN_ERROR']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, final

import msgspec
from typing_extensions import TypeVar

from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.ui.chunk import DONE, HEADERS, Chunk, ChunkEncoder, DataPart, StreamOptions, encode_with, to_event
from fxai.ui.conversation import Conversation
from fxai.ui.ui_message import Part, UIMessage, is_call, tool_name

_R = TypeVar("_R")

PROTOCOL_VERSION: Final = "1.0"

AgUiEvent: TypeAlias = dict[str, Any]
"""An event of AG-UI: a JSON object with a `type`. It omits missing values."""

AgUiMessage: TypeAlias = dict[str, Any]
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
                return self._add_text(chunk)
            case "text-start" | "reasoning-start":
                return self._start_text(chunk)
            case "text-end" | "reasoning-end" as type_:
                return self._close_text(type_.partition("-")[0], chunk["id"])
            case "start-step":
                return self._start_step()
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

    def _end_with(self, outcome: dict[str, Any]) -> AgUiEvent:
        self._is_over = True
        return {"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._run, "outcome": outcome}

    def _outcome(self) -> dict[str, Any]:
        interrupts: list[dict[str, Any]] = []
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

    def _start_step(self) -> list[AgUiEvent]:
        ends = self._end_step()
        self._steps, self._in_step, self._call_message = self._steps + 1, True, None
        return [*ends, {"type": "STEP_STARTED", "stepName": f"step {self._steps}"}]

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

    def _add_text(self, chunk: Chunk) -> list[AgUiEvent]:
        kind = chunk["type"].partition("-")[0]
        begun = [] if (kind, chunk["id"]) in self._texts else self._start_text(chunk)
        type_ = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        return [*begun, {"type": type_, "messageId": self._texts[kind, chunk["id"]], "delta": chunk["delta"]}]

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
                return self._add_params(chunk)
            case "tool-input-available":
                return self._end_params(chunk)
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

    def _add_params(self, chunk: Chunk) -> list[AgUiEvent]:
        call_id = chunk["toolCallId"]
        if call_id not in self._open_calls:
            return []
        self._open_calls[call_id] = True
        return [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": chunk["inputTextDelta"]}]

    def _end_params(self, chunk: Chunk) -> list[AgUiEvent]:
        call_id = chunk["toolCallId"]
        events = self._start_call(chunk)
        if self._open_calls.get(call_id) is False:
            events += [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": _text_of(chunk["input"])}]
        return [*events, *self._close_call(call_id)]

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
    return encode_with(parts, lambda: _RunEncoder(ChunkEncoder(newest), AgUiEncoder(thread_id, run_id)))


@final
class _RunEncoder:
    """An encoder of the parts of a run as events."""

    def __init__(self, chunks: ChunkEncoder, events: AgUiEncoder) -> None:
        self._chunks = chunks
        self._events = events

    def _translate(self, chunks: list[Chunk]) -> list[AgUiEvent]:
        return [event for chunk in chunks for event in self._events.encode(chunk)]

    def start(self) -> list[AgUiEvent]:
        return self._translate(self._chunks.start())

    def encode(self, part: StreamPart | DataPart) -> list[AgUiEvent]:
        return self._translate(self._chunks.encode(part))

    def finish(self) -> list[AgUiEvent]:
        return self._translate(self._chunks.finish())

    def error(self, error: object) -> list[AgUiEvent]:
        return [*self._translate(self._chunks.error(error)), *self._events.end()]


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


def _content(part: Part) -> dict[str, Any] | None:
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
