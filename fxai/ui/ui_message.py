"""Messages as a page has them: what the AI SDK calls UI messages, read from a client and checked.

A message of an assistant holds everything up to the next message of the user: the steps of a run with their texts,
calls and results, each a part. A call is one part, from its first parameters to its result, with its `state`. Source of
the forms: the package `ai` of the npm registry, versions 5.0.277, 6.0.326 and 7.0.173, `validateUIMessages`.

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

from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, found_in, pointer_to
from fxai.schema.parsing import is_plain, plain_faults

Part: TypeAlias = Mapping[str, Any]
"""A part of a message: plain JSON data with a `type`."""

Role: TypeAlias = Literal["system", "user", "assistant"]

TOOL: Final = "tool-"
"""What the type of a call of a tool with types of its own begins with; its name follows."""

_MOST: Final = 20  # faults that are told


@final
class UIMessage(msgspec.Struct, frozen=True):
    """A message as a page has it."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    metadata: Any = msgspec.UNSET
    """Data of the application about the message."""

    @staticmethod
    def make(id: str, role: Role, *parts: str | Part) -> UIMessage:
        """A message of texts and other parts.

        >>> UIMessage.make("u1", "user", "Hello").to_data()["parts"]
        [{'type': 'text', 'text': 'Hello'}]
        """
        return UIMessage(id, role, tuple({"type": "text", "text": p} if isinstance(p, str) else p for p in parts))

    @property
    def text(self) -> str:
        """The texts, one behind the other."""
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    def to_data(self) -> dict[str, Any]:
        """The message as plain JSON data, as the AI SDK has it."""
        data: dict[str, Any] = {"id": self.id, "role": self.role, "parts": [dict(part) for part in self.parts]}
        return data if self.metadata is msgspec.UNSET else {**data, "metadata": self.metadata}

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.role, len(self.parts)))


def is_call(part: Part) -> bool:
    """Whether a part is a call of a tool."""
    return str(part["type"]).startswith((TOOL, "dynamic-tool"))


def tool_name(part: Part) -> str:
    """The name of the tool that a part is a call of."""
    return str(part["toolName"]) if part["type"] == "dynamic-tool" else str(part["type"][len(TOOL) :])


# -- reading


def read_messages(data: object, pointer: str = "") -> Result[tuple[UIMessage, ...], DecodeFailure]:
    """The messages of plain JSON data, an array of them; members that no version knows stay in their parts.

    Fails with:
        DecodeFailure: What is none of the forms, each fault with its place, behind `pointer`; two messages of one id.
    """
    if not is_array(data):
        return Failure(DecodeFailure((Fault(pointer, "array of messages", found_in(data)),)))
    faults = list(_some(fault for place, one in enumerate(data) for fault in _faults(one, f"{pointer}/{place}")))
    if not faults:
        faults = list(_some(_repeated_ids(data, pointer)))
    return Failure(DecodeFailure(tuple(faults))) if faults else Success(tuple(map(_message, data)))


def read_message(data: object, pointer: str = "") -> Result[UIMessage, DecodeFailure]:
    """The message of plain JSON data; as `read_messages`."""
    faults = tuple(_some(_faults(data, pointer)))
    return Failure(DecodeFailure(faults)) if faults else Success(_message(data))


def _message(data: Any) -> UIMessage:
    return UIMessage(data["id"], data["role"], tuple(data["parts"]), data.get("metadata", msgspec.UNSET))


def _some(faults: Iterator[Fault]) -> Iterator[Fault]:
    """The first faults: a client that sends nothing but faults is not told all of them."""
    return (fault for _, fault in zip(range(_MOST), faults, strict=False))


def _repeated_ids(messages: list[Any], pointer: str) -> Iterator[Fault]:
    known: set[str] = set()
    for place, message in enumerate(messages):
        if message["id"] in known:
            yield Fault(f"{pointer}/{place}/id", "an id that no other message has", found_in(message["id"]))
        known.add(message["id"])


def _faults(data: object, pointer: str) -> Iterator[Fault]:
    """The faults of a message."""
    if not is_object(data):
        yield Fault(pointer, "object", found_in(data))
        return
    yield from _of_members(data, _MESSAGE, pointer)
    if data.get("role") not in ("system", "user", "assistant"):
        yield Fault(f"{pointer}/role", '"system", "user" or "assistant"', _words_of(data, "role"))
    if "metadata" in data:
        yield from plain_faults(data["metadata"], f"{pointer}/metadata")
    parts = data.get("parts")
    for place, part in enumerate(parts if is_array(parts) else ()):
        yield from _of_part(part, f"{pointer}/parts/{place}")


_Kind: TypeAlias = tuple[type, ...]
_TEXT: Final[_Kind] = (str,)
_FLAG: Final[_Kind] = (bool,)
_OBJECT: Final[_Kind] = (dict,)
_ARRAY: Final[_Kind] = (list,)
_WORDS: Final = {str: "string", bool: "boolean", dict: "object", list: "array"}

# The members of each kind of part; those with a `?` may be missing, and are never null.
_MESSAGE: Final[Mapping[str, _Kind]] = {"id": _TEXT, "role": _TEXT, "parts": _ARRAY}
_META: Final[Mapping[str, _Kind]] = {"providerMetadata?": _OBJECT}
_PARTS: Final[Mapping[str, Mapping[str, _Kind]]] = {
    "text": {"text": _TEXT, "state?": _TEXT, **_META},
    "reasoning": {"text": _TEXT, "state?": _TEXT, **_META},
    "file": {"mediaType": _TEXT, "url": _TEXT, "filename?": _TEXT, **_META},
    "reasoning-file": {"mediaType": _TEXT, "url": _TEXT, **_META},
    "source-url": {"sourceId": _TEXT, "url": _TEXT, "title?": _TEXT, **_META},
    "source-document": {"sourceId": _TEXT, "mediaType": _TEXT, "title": _TEXT, "filename?": _TEXT, **_META},
    "custom": {"kind": _TEXT, **_META},
    "steering-message": {"id": _TEXT, "parts": _ARRAY},
    "step-start": {},
}
_DATA: Final[Mapping[str, _Kind]] = {"id?": _TEXT}
_CALL: Final[Mapping[str, _Kind]] = {
    "toolCallId": _TEXT,
    "state": _TEXT,
    "providerExecuted?": _FLAG,
    "title?": _TEXT,
    "callProviderMetadata?": _OBJECT,
    "resultProviderMetadata?": _OBJECT,
    "approval?": _OBJECT,
}
_APPROVAL: Final[Mapping[str, _Kind]] = {"id": _TEXT, "reason?": _TEXT, "signature?": _TEXT}
_STATES: Final[Mapping[str, Mapping[str, _Kind]]] = {
    "input-streaming": {},
    "input-available": {"input": ()},
    "approval-requested": {"input": (), "approval": _OBJECT},
    "approval-responded": {"input": (), "approval": _OBJECT},
    "output-available": {"input": (), "output": (), "preliminary?": _FLAG},
    "output-error": {"errorText": _TEXT},
    "output-denied": {"input": (), "approval": _OBJECT},
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
        yield from _of_members(part, {"data": (), **_DATA}, pointer)
    elif type_ not in _PARTS:
        yield Fault(f"{pointer}/type", "the type of a part, data-NAME or tool-NAME", found_in(type_))
    else:
        yield from _of_members(part, _PARTS[type_], pointer)
    if not is_plain(part):
        yield from plain_faults(part, pointer)


def _of_call(part: dict[str, Any], pointer: str) -> Iterator[Fault]:
    named = {"toolName": _TEXT} if part["type"] == "dynamic-tool" else {}
    yield from _of_members(part, {**named, **_CALL}, pointer)
    state = part.get("state")
    if isinstance(state, str) and state not in _STATES:
        yield Fault(f"{pointer}/state", "the state of a call", found_in(state))
    yield from _of_members(part, _STATES.get(state, {}) if isinstance(state, str) else {}, pointer)
    approval = part.get("approval")
    if is_object(approval):
        answer = {"approved": _FLAG} if state == "approval-responded" else {"approved?": _FLAG}
        yield from _of_members(approval, {**_APPROVAL, **answer}, f"{pointer}/approval")


def _of_members(data: dict[str, Any], kinds: Mapping[str, _Kind], pointer: str) -> Iterator[Fault]:
    for member, kind in kinds.items():
        name = member.removesuffix("?")
        if name not in data:
            if name == member:
                yield Fault(pointer_to(pointer, name), _WORDS.get(kind[0], "a value") if kind else "a value", "nothing")
        elif kind and not isinstance(data[name], kind):
            yield Fault(pointer_to(pointer, name), _WORDS[kind[0]], found_in(data[name]))


def _words_of(data: dict[str, Any], name: str) -> str:
    return found_in(data[name]) if name in data else "nothing"
