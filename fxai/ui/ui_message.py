"""Messages of a page, called UI messages in the AI SDK. Use `read_messages` to read and check the messages of a client.

An assistant's message contains everything up to the next user message: the steps of a run with their texts, calls, and
results. Each of these is a part. A call is one part with a `state`, from its first arguments to its result. Source of
the forms: the package `ai` of the npm registry, versions 5.0.277, 6.0.326, and 7.0.173, `validateUIMessages`.

>>> read_message({"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}).unwrap().text
'Hello'
>>> print(read_message({"id": "u1", "role": "user", "parts": [{"type": "text"}]}).failure())
/parts/0/text: expected string, found nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.messages.part import ApprovalRequest
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.fault import NOTHING, DecodeFailure, Fault, found_in, pointer_to
from fxai.schema.parsing import is_plain, plain_faults

Part: TypeAlias = Mapping[str, Any]
"""A part of a message: a JSON object with a `type`."""

Role: TypeAlias = Literal["system", "user", "assistant"]

TOOL: Final = "tool-"
"""The prefix in the type of a call of a typed tool. The name of the tool follows."""

_MOST: Final = 20  # maximum number of reported errors


@final
class UIMessage(msgspec.Struct, frozen=True):
    """A message of a page."""

    id: str
    """The id of the message."""
    role: Role
    """The role of the sender."""
    parts: tuple[Part, ...]
    """The parts of the message."""
    metadata: Any = msgspec.UNSET
    """Data of the application about the message."""

    @staticmethod
    def make(id: str, role: Role, *parts: str | Part) -> UIMessage:
        """Return a message of texts and other parts.

        >>> UIMessage.make("u1", "user", "Hello").to_data()["parts"]
        [{'type': 'text', 'text': 'Hello'}]
        """
        return UIMessage(id, role, tuple({"type": "text", "text": p} if isinstance(p, str) else p for p in parts))

    @property
    def text(self) -> str:
        """The joined texts."""
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    def to_data(self) -> JsonObject:
        """Return the message as JSON values in the form of the AI SDK."""
        data: JsonObject = {"id": self.id, "role": self.role, "parts": [dict(part) for part in self.parts]}
        return data if self.metadata is msgspec.UNSET else {**data, "metadata": self.metadata}

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.role, len(self.parts)))


def is_call(part: Part) -> bool:
    """Return True if a part is a call of a tool."""
    return part["type"] == "dynamic-tool" or str(part["type"]).startswith(TOOL)


def tool_name(part: Part) -> str:
    """Return the name of the tool of a call."""
    return str(part["toolName"]) if part["type"] == "dynamic-tool" else str(part["type"][len(TOOL) :])


def write_signature(request: ApprovalRequest) -> str:
    """Return the signature of a request for an approval with the signed values, for a client to send back."""
    return msgspec.json.encode([request.digest, request.expires, request.signature]).decode()


def read_signature(text: str) -> tuple[str, float | None, str]:
    """Return the digest, the expiry time, and the signature of a request. They are empty for an unsigned request."""
    try:
        return msgspec.json.decode(text, type=tuple[str, float | None, str])
    except (msgspec.MsgspecError, UnicodeError):
        return "", None, ""


# -- reading


def read_messages(data: object, pointer: str = "") -> Result[tuple[UIMessage, ...], DecodeFailure]:
    """Return the messages in JSON values. Unknown members stay in their parts.

    Fails with:
        DecodeFailure: If a message has an invalid form, or if two messages have the same id. `pointer` is the prefix of
            each location.
    """
    if not is_array(data):
        return Failure(DecodeFailure((Fault(pointer, "array of messages", found_in(data)),)))
    faults = list(_some(fault for index, one in enumerate(data) for fault in _faults(one, f"{pointer}/{index}")))
    if not faults:
        faults = list(_some(_repeated_ids(data, pointer)))
    return Failure(DecodeFailure(tuple(faults))) if faults else Success(tuple(map(_message, data)))


def read_message(data: object, pointer: str = "") -> Result[UIMessage, DecodeFailure]:
    """Return the message in JSON values, like `read_messages`."""
    faults = tuple(_some(_faults(data, pointer)))
    return Failure(DecodeFailure(faults)) if faults else Success(_message(data))


def _message(data: Any) -> UIMessage:
    return UIMessage(data["id"], data["role"], tuple(data["parts"]), data.get("metadata", msgspec.UNSET))


def _some(faults: Iterator[Fault]) -> Iterator[Fault]:
    """Yield the first errors, because an invalid body can have very many errors."""
    return (fault for _, fault in zip(range(_MOST), faults, strict=False))


def _repeated_ids(messages: list[Any], pointer: str) -> Iterator[Fault]:
    known: set[str] = set()
    for index, message in enumerate(messages):
        if message["id"] in known:
            yield Fault(f"{pointer}/{index}/id", "an id that no other message has", found_in(message["id"]))
        known.add(message["id"])


def _faults(data: object, pointer: str) -> Iterator[Fault]:
    """Yield the errors of a message."""
    if not is_object(data):
        yield Fault(pointer, "object", found_in(data))
        return
    yield from member_faults(data, _MESSAGE, pointer)
    if data.get("role") not in ("system", "user", "assistant"):
        yield Fault(f"{pointer}/role", '"system", "user" or "assistant"', _words_of(data, "role"))
    for name in ("id", "metadata"):
        if name in data:
            yield from plain_faults(data[name], f"{pointer}/{name}")
    parts = data.get("parts")
    for index, part in enumerate(parts if is_array(parts) else ()):
        yield from _of_part(part, f"{pointer}/parts/{index}")


# -- the members of parts, and of chunks

Kind: TypeAlias = tuple[type, ...]
"""The allowed types of a member. An empty tuple allows any value."""

Members: TypeAlias = Mapping[str, Kind]
"""The members of an object by name. A member with a `?` is optional, but never null."""

TEXT: Final[Kind] = (str,)
FLAG: Final[Kind] = (bool,)
OBJECT: Final[Kind] = (dict,)
ARRAY: Final[Kind] = (list,)
META: Final[Members] = {"providerMetadata?": OBJECT}
"""The metadata of a provider."""
_WORDS: Final = {str: "string", bool: "boolean", dict: "object", list: "array"}


def member_faults(data: Mapping[str, Any], members: Members, pointer: str = "") -> Iterator[Fault]:
    """Yield the errors in the members of an object. Other members are allowed."""
    for member, kind in members.items():
        name = member.removesuffix("?")
        if name not in data:
            if name == member:
                yield Fault(pointer_to(pointer, name), _WORDS[kind[0]] if kind else "a value", NOTHING)
        elif kind and not isinstance(data[name], kind):
            yield Fault(pointer_to(pointer, name), _WORDS[kind[0]], found_in(data[name]))


_MESSAGE: Final[Members] = {"id": TEXT, "parts": ARRAY}
PARTS: Final[Mapping[str, Members]] = {
    "text": {"text": TEXT, "state?": TEXT, **META},
    "reasoning": {"text": TEXT, "state?": TEXT, **META},
    "file": {"mediaType": TEXT, "url": TEXT, "filename?": TEXT, **META},
    "reasoning-file": {"mediaType": TEXT, "url": TEXT, **META},
    "source-url": {"sourceId": TEXT, "url": TEXT, "title?": TEXT, **META},
    "source-document": {"sourceId": TEXT, "mediaType": TEXT, "title": TEXT, "filename?": TEXT, **META},
    "custom": {"kind": TEXT, **META},
    "steering-message": {"id": TEXT, "parts": ARRAY},
    "step-start": {},
}
"""The members of each kind of part, except calls and data of the application."""
METADATA: Final = ("providerMetadata", "callProviderMetadata", "resultProviderMetadata")
"""The members of a part with metadata of a provider."""
_DATA: Final[Members] = {"id?": TEXT}
_CALL: Final[Members] = {
    "toolCallId": TEXT,
    "state": TEXT,
    "providerExecuted?": FLAG,
    "title?": TEXT,
    "callProviderMetadata?": OBJECT,
    "resultProviderMetadata?": OBJECT,
    "approval?": OBJECT,
}
_APPROVAL: Final[Members] = {"id": TEXT, "reason?": TEXT, "signature?": TEXT}
_STATES: Final[Mapping[str, Members]] = {
    "input-streaming": {},
    "input-available": {"input": ()},
    "approval-requested": {"input": (), "approval": OBJECT},
    "approval-responded": {"input": (), "approval": OBJECT},
    "output-available": {"input": (), "output": (), "preliminary?": FLAG},
    "output-error": {"errorText": TEXT},
    "output-denied": {"input": ()},  # without an approval if the model may not choose the tool
}


def _of_part(part: object, pointer: str) -> Iterator[Fault]:
    if not is_object(part):
        yield Fault(pointer, "object", found_in(part))
        return
    type_ = part.get("type")
    if not isinstance(type_, str):
        yield Fault(f"{pointer}/type", "string", _words_of(part, "type"))
    elif type_ == "dynamic-tool" or (type_.startswith(TOOL) and len(type_) > len(TOOL)):
        yield from _of_call(part, pointer)
    elif type_.startswith("data-"):
        yield from member_faults(part, {"data": (), **_DATA}, pointer)
    elif type_ not in PARTS:
        yield Fault(f"{pointer}/type", "the type of a part, data-NAME or tool-NAME", found_in(type_))
    else:
        yield from member_faults(part, PARTS[type_], pointer)
    if type_ == "steering-message" and is_array(part.get("parts")):
        for index, entry in enumerate(part["parts"]):
            yield from _of_steering(entry, f"{pointer}/parts/{index}")
    for name in METADATA:
        for provider, data in part[name].items() if is_object(part.get(name)) else ():
            if not is_object(data):
                yield Fault(pointer_to(f"{pointer}/{name}", str(provider)), "object", found_in(data))
    if not is_plain(part):
        yield from plain_faults(part, pointer)


def _of_steering(part: object, pointer: str) -> Iterator[Fault]:
    """Yield the errors of a part of a message that a user sent during an answer."""
    type_ = part.get("type") if is_object(part) else None
    if is_object(part) and type_ in ("text", "file"):
        yield from member_faults(part, PARTS[type_], pointer)
    else:
        yield Fault(pointer, "text or a file", found_in(part))


def _of_call(part: JsonObject, pointer: str) -> Iterator[Fault]:
    named = {"toolName": TEXT} if part["type"] == "dynamic-tool" else {}
    state = part.get("state")
    of_state = _STATES.get(state, {}) if isinstance(state, str) else {}
    of_all = {name: kind for name, kind in _CALL.items() if name.removesuffix("?") not in of_state}
    yield from member_faults(part, {**named, **of_all, **of_state}, pointer)
    if isinstance(state, str) and state not in _STATES:
        yield Fault(f"{pointer}/state", "the state of a call", found_in(state))
    approval = part.get("approval")
    if is_object(approval):
        answer = {"approved": FLAG} if state == "approval-responded" else {"approved?": FLAG}
        yield from member_faults(approval, {**_APPROVAL, **answer}, f"{pointer}/approval")


def _words_of(data: JsonObject, name: str) -> str:
    return found_in(data[name]) if name in data else NOTHING
