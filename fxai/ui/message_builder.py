"""Builders of messages: what a client makes of the chunks of an answer, so that the server knows it, too.

A builder takes the chunks that a client is sent, in their order, and has the message that the client has then. Source
of what it does with each: `processUIMessageStream` of the package `ai` of the npm registry, version 7.0.173.

>>> builder = MessageBuilder("m")
>>> for chunk in [{"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "Hi."}]:
...     builder.add(chunk)
>>> builder.message.parts
({'type': 'text', 'text': 'Hi.', 'state': 'streaming'},)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, final

import msgspec

from fxai.schema.data import is_object
from fxai.schema.partial import parse_partial
from fxai.ui.chunk import Chunk
from fxai.ui.ui_message import TOOL, UIMessage, is_call


class ChunkError(ValueError):
    """A chunk has no place in the message, or is none: which, and why."""


class _Text:
    """A text, or parameters, that comes in pieces."""

    __slots__ = ("part", "pieces")

    def __init__(self, part: dict[str, Any]) -> None:
        self.part = part
        self.pieces: list[str] = []


@final
class MessageBuilder:
    """Puts a message together of its chunks, in time that grows with their length and no faster."""

    def __init__(self, message_id: str, before: UIMessage | None = None) -> None:
        """The builder of a new message, or of one that goes on with `before`."""
        self._id = message_id if before is None else before.id
        self._parts: list[dict[str, Any]] = [] if before is None else [dict(part) for part in before.parts]
        self._metadata: Any = msgspec.UNSET if before is None else before.metadata
        self._texts: dict[tuple[str, str], _Text] = {}
        self._inputs: dict[str, _Text] = {}
        self._calls: dict[str, dict[str, Any]] = {}  # by id, the last one
        self._data: dict[tuple[str, str], dict[str, Any]] = {}
        for part in self._parts:
            self._note(part)
        self._step: set[tuple[bool, str]] = set()  # the calls of the step: whether dynamic, and the id
        self.error: str | None = None
        """The text of the failure, where the answer failed."""
        self.aborted = False
        """Whether the answer was stopped."""
        self.finished = False
        """Whether the answer has ended well."""

    @property
    def message(self) -> UIMessage:
        """The message as it is now."""
        for text in self._texts.values():
            text.part["text"] = _join(text)
        for text in self._inputs.values():
            begun = parse_partial(_join(text))
            if begun is not msgspec.UNSET:
                text.part["input"] = begun
        return UIMessage(self._id, "assistant", tuple(dict(part) for part in self._parts), self._metadata)

    @property
    def open_calls(self) -> tuple[str, ...]:
        """The ids of the calls that have no result, and are not the provider's."""
        calls = [part for part in self._calls.values() if part["state"] in _OPEN and not part.get("providerExecuted")]
        return tuple(part["toolCallId"] for part in calls)

    def add(self, chunk: Chunk) -> None:
        """Adds the next chunk.

        Raises:
            ChunkError: it has no place in the message, or is no chunk of the protocol.
        """
        type_: Any = chunk.get("type")
        adding = self._adding.get(type_) if isinstance(type_, str) else None
        if adding is None and not (isinstance(type_, str) and type_.startswith("data-")):
            raise ChunkError(f"Type validation failed: {type_!r} is no type of a chunk")
        for name, value in chunk.items():
            if value is None and name not in _NULLABLE:
                raise ChunkError(f"Type validation failed: {name} of {type_} is null; what is missing is left out")
        try:
            (adding or MessageBuilder._add_data)(self, chunk)
        except KeyError as error:
            raise ChunkError(f"Type validation failed: {type_} has no {error.args[0]}") from error

    def _note(self, part: dict[str, Any]) -> None:
        if is_call(part):
            self._calls[part["toolCallId"]] = part
        elif part["type"].startswith("data-") and "id" in part:
            self._data[part["type"], part["id"]] = part

    def _push(self, part: dict[str, Any]) -> dict[str, Any]:
        self._parts.append(part)
        self._note(part)
        return part

    # -- the message

    def _start(self, chunk: Chunk) -> None:
        self._id = chunk.get("messageId", self._id)
        self._add_metadata(chunk)

    def _finish(self, chunk: Chunk) -> None:
        self.finished = True
        self._add_metadata(chunk)

    def _add_metadata(self, chunk: Chunk) -> None:
        metadata = chunk.get("messageMetadata")
        if metadata is not None:
            known = self._metadata
            self._metadata = _merge(known, metadata) if is_object(known) and is_object(metadata) else metadata

    def _fail(self, chunk: Chunk) -> None:
        self.error = chunk["errorText"]

    def _abort(self, _: Chunk) -> None:
        self.aborted = True

    # -- steps, texts, attachments

    def _start_step(self, _: Chunk) -> None:
        self._step.clear()
        self._push({"type": "step-start"})

    def _finish_step(self, _: Chunk) -> None:
        """Nothing: the next step begins by itself."""

    def _reset_step(self, _: Chunk) -> None:
        self._texts.clear()
        self._inputs.clear()
        while self._parts and self._parts[-1]["type"] != "step-start":
            self._parts.pop()

    def _start_text(self, chunk: Chunk) -> None:
        kind = chunk["type"].removesuffix("-start")
        part = self._push(_part(kind, text="", state="streaming", providerMetadata=chunk.get("providerMetadata")))
        self._texts[kind, chunk["id"]] = _Text(part)

    def _add_text(self, chunk: Chunk) -> None:
        text = self._text(chunk)
        text.pieces.append(chunk["delta"])
        _set(text.part, providerMetadata=chunk.get("providerMetadata"))

    def _end_text(self, chunk: Chunk) -> None:
        text = self._text(chunk)
        text.part["text"] = _join(text)
        _set(text.part, state="done", providerMetadata=chunk.get("providerMetadata"))
        del self._texts[chunk["type"].removesuffix("-end"), chunk["id"]]

    def _text(self, chunk: Chunk) -> _Text:
        kind = chunk["type"].rpartition("-")[0]
        found = self._texts.get((kind, chunk["id"]))
        if found is None:
            raise ChunkError(f"{chunk['type']} of the id {chunk['id']!r}: there was no {kind}-start before it")
        return found

    def _attach(self, chunk: Chunk) -> None:
        self._push(dict(chunk))

    def _add_data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        id_ = chunk.get("id")
        known = None if id_ is None else self._data.get((chunk["type"], id_))
        if known is not None:
            known["data"] = chunk.get("data")
        else:
            self._push({name: value for name, value in chunk.items() if name != "transient"})

    # -- calls

    def _start_input(self, chunk: Chunk) -> None:
        part = self._set_call(chunk, "input-streaming")
        self._inputs[chunk["toolCallId"]] = _Text(part)

    def _add_input(self, chunk: Chunk) -> None:
        found = self._inputs.get(chunk["toolCallId"])
        if found is None:
            id_ = chunk["toolCallId"]
            raise ChunkError(f"tool-input-delta of the call {id_!r}: there was no tool-input-start before it")
        found.pieces.append(chunk["inputTextDelta"])

    def _end_input(self, chunk: Chunk) -> None:
        self._inputs.pop(chunk["toolCallId"], None)
        self._set_call(chunk, "input-available")["input"] = chunk["input"]

    def _refuse_input(self, chunk: Chunk) -> None:
        self._inputs.pop(chunk["toolCallId"], None)
        known = self._calls.get(chunk["toolCallId"])
        if known is not None:
            chunk = {**chunk, "dynamic": known["type"] == "dynamic-tool"}
        part = self._set_call(chunk, "output-error")
        part.pop("input", None)
        part.update(rawInput=chunk["input"], errorText=chunk["errorText"])

    def _set_call(self, chunk: Chunk, state: str) -> dict[str, Any]:
        """The part of the call, made where the step has none of its kind."""
        name, id_, dynamic = chunk["toolName"], chunk["toolCallId"], bool(chunk.get("dynamic"))
        type_ = "dynamic-tool" if dynamic else f"{TOOL}{name}"
        part = self._calls.get(id_)
        if part is None or (dynamic, id_) not in self._step or (part["type"] == "dynamic-tool") is not dynamic:
            part = self._push({"type": type_, **({"toolName": name} if dynamic else {}), "toolCallId": id_})
            self._step.add((dynamic, id_))
        part["state"] = state
        metadata = chunk.get("providerMetadata")
        place = "resultProviderMetadata" if state == "output-error" else "callProviderMetadata"
        _set(part, providerExecuted=chunk.get("providerExecuted"), title=chunk.get("title"), **{place: metadata})
        return part

    def _call(self, chunk: Chunk) -> dict[str, Any]:
        found = self._calls.get(chunk["toolCallId"])
        if found is None:
            raise ChunkError(f"{chunk['type']}: there is no call of the id {chunk['toolCallId']!r}")
        return found

    def _request(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        approval = _part_of(chunk, id="approvalId", signature="signature", isAutomatic="isAutomatic")
        part.update(state="approval-requested", approval=approval)

    def _respond(self, chunk: Chunk) -> None:
        for part in self._calls.values():
            if part.get("approval", {}).get("id") == chunk["approvalId"]:
                answer = _part_of(chunk, id="approvalId", approved="approved", reason="reason")
                part.update(state="approval-responded", approval={**part["approval"], **answer})
                return
        raise ChunkError(f"tool-approval-response: there is no request of the id {chunk['approvalId']!r}")

    def _deny(self, chunk: Chunk) -> None:
        self._call(chunk)["state"] = "output-denied"

    def _end_call(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        part.pop("preliminary", None)
        part.update(state="output-available", output=chunk["output"])
        self._set_result(part, chunk)
        _set(part, preliminary=chunk.get("preliminary"))

    def _fail_call(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        part.pop("output", None)
        part.update(state="output-error", errorText=chunk["errorText"])
        self._set_result(part, chunk)

    def _set_result(self, part: dict[str, Any], chunk: Chunk) -> None:
        self._inputs.pop(chunk["toolCallId"], None)
        _set(part, providerExecuted=chunk.get("providerExecuted"), resultProviderMetadata=chunk.get("providerMetadata"))

    _adding: ClassVar[Mapping[str, Callable[[Any, Chunk], None]]] = {
        "start": _start,
        "finish": _finish,
        "message-metadata": _add_metadata,
        "error": _fail,
        "abort": _abort,
        "start-step": _start_step,
        "finish-step": _finish_step,
        "reset-step": _reset_step,
        **dict.fromkeys(("text-start", "reasoning-start"), _start_text),
        **dict.fromkeys(("text-delta", "reasoning-delta"), _add_text),
        **dict.fromkeys(("text-end", "reasoning-end"), _end_text),
        **dict.fromkeys(
            ("file", "reasoning-file", "source-url", "source-document", "custom", "steering-message"),
            _attach,
        ),
        "tool-input-start": _start_input,
        "tool-input-delta": _add_input,
        "tool-input-available": _end_input,
        "tool-input-error": _refuse_input,
        "tool-approval-request": _request,
        "tool-approval-response": _respond,
        "tool-output-denied": _deny,
        "tool-output-available": _end_call,
        "tool-output-error": _fail_call,
    }


_OPEN: Final = ("input-streaming", "input-available", "approval-requested", "approval-responded")
_NULLABLE: Final = frozenset({"input", "output", "data", "messageMetadata"})  # any JSON data


def _join(text: _Text) -> str:
    """The text of all pieces, which are one from then on."""
    if len(text.pieces) > 1:
        text.pieces = ["".join(text.pieces)]
    return text.pieces[0] if text.pieces else ""


def _set(part: dict[str, Any], **members: Any) -> None:
    part.update((name, value) for name, value in members.items() if value is not None)


def _part(type_: str, **members: Any) -> dict[str, Any]:
    return {"type": type_, **{name: value for name, value in members.items() if value is not None}}


def _part_of(chunk: Chunk, **names: str) -> dict[str, Any]:
    """Members of a chunk, by the names that they have in a part."""
    return {name: chunk[theirs] for name, theirs in names.items() if theirs in chunk}


def _merge(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Metadata with more of it: objects in it are merged, too."""
    merged = dict(known)
    for name, value in more.items():
        before = merged.get(name)
        merged[name] = _merge(before, value) if is_object(before) and is_object(value) else value
    return merged
