"""Builders of messages. Use `MessageBuilder` to build, on the server, the message that a client builds from chunks.

A builder receives the chunks of an answer in order, and contains the message that the client has at this point. Source
of the rules: `processUIMessageStream` of the package `ai` of the npm registry, version 7.0.173.

>>> builder = MessageBuilder("m")
>>> for chunk in [{"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "Hi."}]:
...     builder.add(chunk)
>>> builder.message.parts
({'type': 'text', 'text': 'Hi.', 'state': 'streaming'},)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import msgspec

from fxai.schema.data import JsonObject, is_object
from fxai.schema.fault import found_in
from fxai.schema.partial_json import parse_partial
from fxai.ui.chunk import Chunk
from fxai.ui.ui_message import (
    ARRAY,
    FLAG,
    META,
    OBJECT,
    PARTS,
    TEXT,
    TOOL,
    Kind,
    Members,
    UIMessage,
    is_call,
    member_faults,
    tool_name,
)


class ChunkError(ValueError):
    """An invalid chunk, or a chunk that does not fit into the message, with the reason."""


@final
class _Text:
    """A text, or the text of arguments, that arrives in pieces."""

    __slots__ = ("_is_input", "part", "pieces")

    def __init__(self, part: JsonObject, *, is_input: bool = False) -> None:
        self.part = part
        self.pieces: list[str] = []
        self._is_input = is_input

    def join(self) -> None:
        """Write the joined pieces into the part."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        if not self._is_input:
            self.part["text"] = "".join(self.pieces)
        elif self.pieces:
            self.part["rawInput"] = text = self.pieces[0]
            begun = text if self.part.get("inputEncoding") == "text" else parse_partial(text)
            self.part["input"] = begun
            if begun is msgspec.UNSET:
                del self.part["input"]


@final
class MessageBuilder:
    """A builder of one message from its chunks. Its time grows linearly with the length of the chunks."""

    def __init__(self, message_id: str, before: UIMessage | None = None) -> None:
        """Create the builder of a new message, or of the continuation of `before`."""
        self._id = message_id if before is None else before.id
        self._parts: list[JsonObject] = [] if before is None else [dict(part) for part in before.parts]
        self._metadata: Any = msgspec.UNSET if before is None else before.metadata
        self._texts: dict[tuple[str, str], _Text] = {}
        self._inputs: dict[str, _Text] = {}
        self._calls: dict[str, JsonObject] = {}  # the last call of each id
        self._step: dict[tuple[str, bool | None], JsonObject] = {}  # calls of the step by id: first, and by kind
        self._data: dict[tuple[str, str], JsonObject] = {}
        self._note_all()
        self.error: str | None = None
        """The error text if the answer failed, otherwise None."""
        self.aborted: bool = False
        """True if the answer was stopped."""
        self.finished: bool = False
        """True if the answer finished successfully."""

    @property
    def message(self) -> UIMessage:
        """The message at this point."""
        for text in (*self._texts.values(), *self._inputs.values()):
            text.join()
        return UIMessage(self._id, "assistant", tuple(dict(part) for part in self._parts), self._metadata)

    @property
    def open_calls(self) -> dict[str, str]:
        """The calls without a final result that the provider does not run: their tools, by the id of the call."""
        open_ = [part for part in self._calls.values() if part["state"] in _OPEN or part.get("preliminary")]
        return {part["toolCallId"]: tool_name(part) for part in open_ if not part.get("providerExecuted")}

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk.

        Raises:
            ChunkError: If the chunk is invalid, or does not fit into the message.
        """
        sent: object = chunk
        type_: Any = sent.get("type") if is_object(sent) else None
        form = _CHUNKS.get(type_) if isinstance(type_, str) else None
        if form is None and not (isinstance(type_, str) and type_.startswith("data-")):
            raise ChunkError(f"Type validation failed: unknown type of a chunk: {found_in(type_)}")
        for name, required, kind in _RULES[type_] if form is not None else _DATA_RULES:
            if required if name not in chunk else kind and not isinstance(chunk[name], kind):
                fault = next(member_faults(chunk, _DATA if form is None else form))
                raise ChunkError(f"Type validation failed: {type_}{fault}")
        self._apply(type_, chunk)

    def _apply(self, type_: str, chunk: Chunk) -> None:
        match type_:
            case "text-delta" | "reasoning-delta":
                text = self._text(chunk)
                text.pieces.append(chunk["delta"])
                _set(text.part, providerMetadata=chunk.get("providerMetadata"))
            case "text-start" | "reasoning-start":
                self._start_text(chunk)
            case "text-end" | "reasoning-end":
                text = self._text(chunk)
                text.join()
                members = {"citations": chunk.get("citations"), "providerMetadata": chunk.get("providerMetadata")}
                _set(text.part, state="done", **members)
                del self._texts[chunk["type"].removesuffix("-end"), chunk["id"]]
            case "start-step":
                self._close_inputs()
                self._push({"type": "step-start"})
            case "finish-step":
                pass  # the next step starts with its own chunk
            case "reset-step":
                for text in self._texts.values():
                    text.join()
                self._texts.clear()
                self._close_inputs()
                while self._parts and self._parts[-1]["type"] != "step-start":
                    self._parts.pop()
                self._note_all()
            case "file" | "reasoning-file" | "source-url" | "source-document" | "custom" | "steering-message":
                names = ("type", *(name.removesuffix("?") for name in _CHUNKS[type_]))
                self._push({name: chunk[name] for name in names if name in chunk})
            case _ if type_.startswith("data-"):
                self._add_data(chunk)
            case _ if type_.startswith("tool-"):
                self._apply_to_call(type_, chunk)
            case _:
                self._apply_to_message(type_, chunk)

    def _apply_to_message(self, type_: str, chunk: Chunk) -> None:
        match type_:
            case "start":
                self._id = chunk.get("messageId", self._id)
            case "finish":
                self.finished = True
            case "error":
                self.error = chunk["errorText"]
            case "abort":
                self.aborted = True
            case _:
                pass  # message-metadata
        metadata = chunk.get("messageMetadata") if type_ in ("start", "finish", "message-metadata") else None
        if metadata is not None:
            known = self._metadata
            self._metadata = _merge(known, metadata) if is_object(known) and is_object(metadata) else metadata

    def _apply_to_call(self, type_: str, chunk: Chunk) -> None:
        match type_:
            case "tool-input-start":
                self._close_input(chunk)
                part = self._set_call(chunk, "input-streaming", inputEncoding=chunk.get("inputEncoding"))
                self._inputs[chunk["toolCallId"]] = _Text(part, is_input=True)
            case "tool-input-delta":
                found = self._inputs.get(chunk["toolCallId"])
                if found is None:
                    id_ = chunk["toolCallId"]
                    raise ChunkError(f"tool-input-delta of the call {id_!r}: the step has no open tool-input-start")
                found.pieces.append(chunk["inputTextDelta"])
            case "tool-input-available":
                self._close_input(chunk)
                self._set_call(chunk, "input-available")["input"] = chunk["input"]
            case "tool-input-error":
                self._close_input(chunk)
                known = self._step.get((chunk["toolCallId"], None))
                dynamic = bool(chunk.get("dynamic")) if known is None else known["type"] == "dynamic-tool"
                part = self._set_call({**chunk, "dynamic": dynamic}, "output-error", errorText=chunk["errorText"])
                part["input"] = chunk["input"]
            case "tool-approval-request":
                part = self._call(chunk)
                approval = {"id": chunk["approvalId"]}
                _set(approval, descriptor=chunk.get("approvalDescriptor"), requestReason=chunk.get("reason"))
                _set(approval, isAutomatic=chunk.get("isAutomatic") or None, signature=chunk.get("signature"))
                if "inputSchemaInput" in chunk:
                    approval["inputSchemaInput"] = chunk["inputSchemaInput"]
                part.update(state="approval-requested", approval=approval)
            case "tool-approval-response":
                self._respond(chunk)
            case "tool-output-denied":
                self._call(chunk)["state"] = "output-denied"
            case "tool-output-available":
                part = self._call(chunk)
                given = {"input": part["input"]} if "input" in part else {}
                _change(part, chunk, "output-available", preliminary=chunk.get("preliminary"))
                part.update(given, output=chunk["output"])
            case _:  # tool-output-error
                part = self._call(chunk)
                names = ("input",) if part["type"] == "dynamic-tool" else ("input", "rawInput")
                given = {name: part[name] for name in names if name in part}
                _change(part, chunk, "output-error", errorText=chunk["errorText"])
                part.update(given)

    def _note_all(self) -> None:
        for index in (self._calls, self._step, self._data):
            index.clear()
        for part in self._parts:
            self._note(part)

    def _note(self, part: JsonObject) -> None:
        if part["type"] == "step-start":
            self._step.clear()
        elif is_call(part):
            id_ = part["toolCallId"]
            self._calls[id_] = part
            self._step.setdefault((id_, None), part)
            self._step.setdefault((id_, part["type"] == "dynamic-tool"), part)
        elif part["type"].startswith("data-") and "id" in part:
            self._data.setdefault((part["type"], part["id"]), part)

    def _push(self, part: JsonObject) -> JsonObject:
        self._parts.append(part)
        self._note(part)
        return part

    # -- steps, text, attachments

    def _start_text(self, chunk: Chunk) -> None:
        kind = chunk["type"].removesuffix("-start")
        before = self._texts.get((kind, chunk["id"]))
        if before is not None:
            before.join()
        part = {"type": kind, "text": "", "state": "streaming"}
        if kind == "reasoning":
            part["id"] = chunk["id"]
        self._push(part)
        _set(part, providerMetadata=chunk.get("providerMetadata"))
        self._texts[kind, chunk["id"]] = _Text(part)

    def _text(self, chunk: Chunk) -> _Text:
        kind = chunk["type"].rpartition("-")[0]
        found = self._texts.get((kind, chunk["id"]))
        if found is None:
            raise ChunkError(f"{chunk['type']} with the id {chunk['id']!r}: no {kind}-start came before it")
        return found

    def _add_data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        known = self._data.get((chunk["type"], chunk["id"])) if "id" in chunk else None
        if known is not None:
            known["data"] = chunk["data"]
        else:
            self._push({name: value for name, value in chunk.items() if name != "transient"})

    # -- calls

    def _close_input(self, chunk: Chunk) -> None:
        """End the arguments of a call."""
        text = self._inputs.pop(chunk["toolCallId"], None)
        if text is not None:
            text.join()

    def _close_inputs(self) -> None:
        for text in self._inputs.values():
            text.join()
        self._inputs.clear()

    def _set_call(self, chunk: Chunk, state: str, **members: Any) -> JsonObject:
        """Set the state of a call, and return its part. Create the part if the step has no part for the call."""
        name, id_, dynamic = chunk["toolName"], chunk["toolCallId"], bool(chunk.get("dynamic"))
        part = self._step.get((id_, dynamic))
        named = {"type": "dynamic-tool", "toolName": name} if dynamic else {"type": f"{TOOL}{name}"}
        if part is None:
            part = self._push({**named, "toolCallId": id_})
        part.update(named)
        _change(part, chunk, state, title=chunk.get("title"), **members)
        return part

    def _call(self, chunk: Chunk) -> JsonObject:
        """Return the part of a call: the first in the step, otherwise the last before the step."""
        id_ = chunk["toolCallId"]
        found = self._step.get((id_, None)) or self._calls.get(id_)
        if found is None:
            raise ChunkError(f"{chunk['type']}: unknown call {id_!r}")
        self._close_input(chunk)
        return found

    def _respond(self, chunk: Chunk) -> None:
        id_ = chunk["approvalId"]
        part = next((one for one in self._parts if is_call(one) and one.get("approval", {}).get("id") == id_), None)
        if part is None:
            raise ChunkError(f"tool-approval-response: unknown request {id_!r}")
        self._close_input(part)
        part.update(state="approval-responded", approval={**part["approval"], "approved": chunk["approved"]})
        _set(part["approval"], reason=chunk.get("reason"))
        executed, metadata = chunk.get("providerExecuted"), chunk.get("providerMetadata")
        _set(part, providerExecuted=executed, callProviderMetadata=metadata)


_OPEN: Final = ("input-streaming", "input-available", "approval-requested", "approval-responded")

# The members of each kind of chunk, except the members of data.
_TEXT_START: Final[Members] = {"id": TEXT, **META}
_TEXT_DELTA: Final[Members] = {"id": TEXT, "delta": TEXT, **META}
_DATA: Final[Members] = {"id?": TEXT, "data": (), "transient?": FLAG}
_CALL: Final[Members] = {"toolCallId": TEXT}
_RUN: Final[Members] = {**_CALL, "providerExecuted?": FLAG, "toolMetadata?": OBJECT, "dynamic?": FLAG, **META}
_INPUT: Final[Members] = {**_RUN, "toolName": TEXT, "title?": TEXT}
_FILE: Final[Members] = {"mediaType": TEXT, "url": TEXT, **META}
_CHUNKS: Final[Mapping[str, Members]] = {
    "start": {"messageId?": TEXT},
    "finish": {"finishReason?": TEXT},
    "message-metadata": {},
    "error": {"errorText": TEXT},
    "abort": {"reason?": TEXT},
    **{kind: {} for kind in ("start-step", "finish-step", "reset-step")},
    **dict.fromkeys(("text-start", "reasoning-start", "reasoning-end"), _TEXT_START),
    **dict.fromkeys(("text-delta", "reasoning-delta"), _TEXT_DELTA),
    "text-end": {**_TEXT_START, "citations?": ARRAY},
    **dict.fromkeys(("file", "reasoning-file"), _FILE),
    **{kind: PARTS[kind] for kind in ("source-url", "source-document", "custom", "steering-message")},
    "tool-input-start": {**_INPUT, "inputEncoding?": TEXT},
    "tool-input-delta": {**_CALL, "inputTextDelta": TEXT},
    "tool-input-available": {**_INPUT, "input": ()},
    "tool-input-error": {**_INPUT, "input": (), "errorText": TEXT},
    "tool-approval-request": {**_CALL, "approvalId": TEXT, "reason?": TEXT, "isAutomatic?": FLAG, "signature?": TEXT},
    "tool-approval-response": {
        "approvalId": TEXT,
        "approved": FLAG,
        "reason?": TEXT,
        "providerExecuted?": FLAG,
        **META,
    },
    "tool-output-denied": _CALL,
    "tool-output-available": {**_RUN, "output": (), "preliminary?": FLAG},
    "tool-output-error": {**_RUN, "errorText": TEXT},
}


def _rules(members: Members) -> tuple[tuple[str, bool, Kind], ...]:
    """Return the name, the necessity, and the type of each member, in the form that the builder checks per chunk."""
    return tuple((name.removesuffix("?"), not name.endswith("?"), kind) for name, kind in members.items())


_DATA_RULES: Final = _rules(_DATA)
_RULES: Final = {type_: _rules(members) for type_, members in _CHUNKS.items()}


def _set(part: JsonObject, **members: Any) -> None:
    part.update((name, value) for name, value in members.items() if value is not None)


_OF_STATE: Final = ("input", "output", "errorText", "rawInput", "inputEncoding", "preliminary")


def _change(part: JsonObject, chunk: Chunk, state: str, **members: Any) -> None:
    """Change the state of a call, and remove the members of its earlier state."""
    for name in _OF_STATE:
        part.pop(name, None)
    part["state"] = state
    location = "resultProviderMetadata" if state in ("output-available", "output-error") else "callProviderMetadata"
    members[location] = chunk.get("providerMetadata")
    _set(part, providerExecuted=chunk.get("providerExecuted"), toolMetadata=chunk.get("toolMetadata"), **members)


def _merge(known: JsonObject, more: JsonObject) -> JsonObject:
    """Merge metadata, also in nested objects."""
    merged = dict(known)
    for name, value in more.items():
        before = merged.get(name)
        merged[name] = _merge(before, value) if is_object(before) and is_object(value) else value
    return merged
