"""Prompts for Anthropic's Messages API: the `messages` and `system` of a request.

Its messages alternate: what users say and what tools give are one role, and messages of one role in a row are one.
Each call of ours is answered in the message after it, the results first.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.tool_encoding import PreparedTools
>>> from fxai.tools.naming import NameMap
>>> said = Prompt.make("Hello").append(UserMessage.make("Are you there?")).set_system("Be brief.")
>>> writer = HistoryWriter(PreparedTools.make({}, NameMap({})))
>>> _ = writer.write(said.messages)
>>> history = writer.history()
>>> history.system
[{'type': 'text', 'text': 'Be brief.'}]
>>> [(message["role"], len(message["content"])) for message in history.messages]
[('user', 2)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import msgspec

from fxai.messages.calls import Pairing
from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    FileUrl,
    Message,
    Metadata,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserContent,
    UserMessage,
)
from fxai.models.tool_encoding import (
    Notes,
    PreparationError,
    PreparedTools,
    WireCall,
    file_note,
    json_of,
    without_nulls,
)
from fxai.providers.anthropic.media import file_block, refused
from fxai.providers.anthropic.options import said_in
from fxai.schema.data import is_array, is_object

__all__ = [
    "Document",
    "History",
    "HistoryWriter",
    "call_block",
    "call_id",
    "citations_of",
    "hosted_block",
    "made_file_block",
    "reasoning_block",
    "result_block",
    "text_block",
    "user_block",
    "with_cache",
]


_NO_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_DENIED: Final = "Tool call execution denied."
_EMPTY: Final = {"type": "text", "text": ""}
_PICTURED: Final = frozenset({"media_type", "data", "file_name"})
_SHOWN: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"text"}),
    "image": frozenset({"source"}),
    "document": frozenset({"source"}),
    "search_result": frozenset({"content", "source", "title"}),
    "tool_reference": frozenset({"tool_name"}),
    "browser_state": frozenset({"tabs"}),
}


def with_cache(block: dict[str, Any], metadata: Metadata) -> dict[str, Any]:
    """The block, marked for the cache where the metadata says so."""
    mark = said_in(metadata).get("cache_control")
    return {**block, "cache_control": mark} if is_object(mark) else block


def call_id(given: str) -> str:
    """A call's id as the wire takes it: letters, digits, `_` and `-`; another provider's id that has more is digested.

    >>> call_id("toolu_1"), call_id("call|1")
    ('toolu_1', 'call_1_c26e9779')
    """
    if given and not _NO_ID.search(given):
        return given
    from hashlib import sha256

    return f"{_NO_ID.sub('_', given)}_{sha256(given.encode()).hexdigest()[:8]}"


def user_block(part: UserContent) -> dict[str, Any] | None:
    """The block of what a user said; None for a text that says nothing, which the wire refuses.

    Raises:
        PreparationError: a file that cannot be sent.
    """
    block = text_block(part) if part.type == "text" else file_block(part)
    return None if block is None else with_cache(block, part.metadata)


def text_block(part: TextPart) -> dict[str, Any] | None:
    """The block of a text, with what it cites; a block that no part is made for, as it came; None for no text."""
    said = said_in(part.metadata)
    kept = said.get("block")
    if is_object(kept):
        return kept
    if not part.text.strip():
        return None
    cited = _citations(said)
    return {"type": "text", "text": part.text, **({"citations": cited} if cited else {})}


def citations_of(said: Mapping[str, Any]) -> list[Any]:
    """What a block, or the metadata of a part, says that it cites, as it came; nothing where that is no list."""
    cited = said.get("citations")
    return list(cited) if is_array(cited) else []


def _citations(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Citations as the request has them: objects, without the fields of the response alone, the nullable ones said."""
    taken: list[dict[str, Any]] = []
    for one in filter(is_object, citations_of(said)):
        found = one.get("type") in ("web_search_result_location", "search_result_location")
        title = "title" if found else "document_title"
        held = {key: value for key, value in one.items() if key != "file_id" and value is not None}
        taken.append({title: None, **held})
    return taken


def reasoning_block(part: ReasoningPart) -> dict[str, Any] | None:
    """The block of reasoning; None where it is not Anthropic's, or has no signature: the wire refuses it."""
    said = said_in(part.metadata)
    if "redacted_data" in said:
        return {"type": "redacted_thinking", "data": said["redacted_data"]}
    if "signature" in said:
        return {"type": "thinking", "thinking": part.text, "signature": said["signature"]}
    return None


def made_file_block(part: FilePart) -> dict[str, Any] | None:
    """The block of a file that the model made in its container; None for others, which the wire refuses there."""
    if said_in(part.metadata).get("type") != "container_upload" or not isinstance(part.data, FileUrl):
        return None
    return {"type": "container_upload", "file_id": part.data.url}


def call_block(part: ToolCallPart, tools: PreparedTools) -> dict[str, Any]:
    """The block of a call of one of our tools, as the model wrote it.

    Parameters that are no JSON go under the key that Anthropic's documentation names for them.
    """
    wire = _wire(part, tools)
    said = said_in(part.metadata)
    caller = {"caller": said["caller"]} if is_object(said.get("caller")) else {}
    toolset = {} if wire.toolset is None else {"toolset_name": wire.toolset}
    block = {"type": "tool_use", "id": call_id(part.id), "name": wire.name, "input": _input(part, wire.params)}
    return with_cache({**block, **caller, **toolset}, part.metadata)


def _wire(part: ToolCallPart, tools: PreparedTools) -> WireCall:
    """The call on the wire; one of a tool that is not there any more has a name that the wire takes."""
    wire = tools.wire_call(part.name, part.params)
    name = _NO_ID.sub("_", wire.name)[:128] or "_"
    return WireCall(name, wire.params, wire.toolset)


def _input(part: ToolCallPart, params: Any) -> dict[str, Any]:
    if part.params_text is not None:
        return {"INVALID_JSON": part.params_text}
    if params is None:
        return {}
    return params if is_object(params) else {"INVALID_JSON": json_of(params).decode()}


def hosted_block(part: ToolCallPart | ToolResultPart) -> dict[str, Any] | None:
    """The block of a call that Anthropic ran, or of its result; None where another provider did."""
    said = said_in(part.metadata)
    if "type" not in said:
        return None
    if part.type == "tool-call":
        body: dict[str, Any] = {"id": part.id, "name": said.get("name", part.name), "input": part.params or {}}
    else:
        body = {"tool_use_id": part.id, "content": without_nulls(part.result)}
    extras = {key: value for key, value in said.items() if key not in ("name", "cache_control")}
    return with_cache({**extras, **body}, part.metadata)


def result_block(part: ToolResultPart, toolset: str | None, lost: Callable[[FilePart], None]) -> dict[str, Any]:
    """The block of the result of a call of ours.

    Args:
        part: the result.
        toolset: what the call named, if it did.
        lost: told of each file that the wire does not take; the model is told that it was left out.
    """
    shown = _content(part.result, lost)
    content = {} if shown is None else {"content": shown}
    failed = {"is_error": True} if part.is_failure else {}
    named = {} if toolset is None else {"toolset_name": toolset}
    block = {"type": "tool_result", "tool_use_id": call_id(part.id), **content, **failed, **named}
    return with_cache(block, part.metadata)


def _content(result: Any, lost: Callable[[FilePart], None]) -> str | list[dict[str, Any]] | None:
    """A result for the model: a text as it is, texts and pictures as blocks, anything else as JSON text."""
    if result is None:
        return None
    if isinstance(result, str):
        return result
    if is_object(result) and result.get("type") == "execution-denied":
        return str(result.get("reason") or _DENIED)
    said = [one for one in result if one != _EMPTY] if is_array(result) else []  # the wire refuses empty texts
    blocks = [_content_block(one, lost) for one in said]
    found = [block for block in blocks if block is not None]
    return found if found and len(found) == len(blocks) else json_of(result).decode()


def _content_block(one: Any, lost: Callable[[FilePart], None]) -> dict[str, Any] | None:
    """A block of a result: in the wire's own form, or a picture or file as `ToolContent` and `FilePart` have them."""
    if not is_object(one):
        return None
    kind, named = one.get("type"), frozenset(one) - {"type", "cache_control"}
    if kind in ("image", "file") and {"media_type", "data"} <= named <= _PICTURED:
        return _pictured(one, lost)
    needed = _SHOWN.get(kind) if isinstance(kind, str) else None
    return one if needed is not None and needed <= named and one.get("text") != "" else None


def _pictured(one: dict[str, Any], lost: Callable[[FilePart], None]) -> dict[str, Any] | None:
    try:
        part = msgspec.convert({**one, "type": "file"}, FilePart)
    except msgspec.ValidationError:
        return None  # told as JSON text
    try:
        return file_block(part)
    except PreparationError:
        lost(part)
        return {"type": "text", "text": file_note(part)}


_UNMARKED: Final = ("thinking", "redacted_thinking")  # blocks that take no mark for the cache


@final
class Document(msgspec.Struct, frozen=True):
    """A document of the request, which citations name by its place among all of them."""

    media_type: str | None = None
    title: str | None = None


@final
class History(msgspec.Struct, frozen=True):
    """A prompt on the wire: the system prompt, the messages, and what else of the request they settle."""

    system: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    documents: tuple[Document, ...] = ()
    container: str | None = None
    """The container whose program waits for the results of the last calls."""

    def __hash__(self) -> int:
        return hash(self.documents)  # the rest is plain data


@final
class HistoryWriter:
    """Writes the messages of a history in order; further messages can be added later.

    Args:
        tools: The tools of the request, for the names and the strict forms of calls.
        system_turns: Whether the model takes a system message between others; else all are the system prompt.
    """

    def __init__(self, tools: PreparedTools, *, system_turns: bool = False) -> None:
        self.notes = Notes()
        """What of the prompt is left out."""
        self.is_extensible = True
        """Whether further messages can be added: not behind a system message, whose place depends on what follows."""
        self._given: Sequence[Message] = ()
        self._tools = tools
        self._system_turns = system_turns
        self._system: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._documents: list[Document] = []
        self._container: str | None = None
        self._pairing = Pairing()

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write the messages that come next; gives the blocks that they are.

        Raises:
            PreparationError: a file cannot be sent; a call has no result.
        """
        self._given = messages
        self._pairing.add(messages)
        blocks: list[dict[str, Any]] = []
        for place, message in enumerate(messages):
            blocks += self._add(message, place)
        self._given = ()
        if messages:
            self.is_extensible = messages[-1].role != "system"
        return blocks

    def _add(self, message: Message, place: int) -> list[dict[str, Any]]:
        match message:
            case SystemMessage():
                return self._add_system(message, place)
            case UserMessage():
                blocks = [block for part in message.content if (block := user_block(part)) is not None]
                return self._say("user", blocks, message.metadata)
            case AssistantMessage():
                return self._add_turn(message)
            case ToolMessage():
                return []  # results stand behind their calls; answers to approval requests are not the provider's

    def history(self) -> History:
        """The history as it stands; what is written behind it later does not change it.

        Raises:
            PreparationError: nothing is said; there is a result without a call.
        """
        left = self._pairing.left
        if left:
            raise refused(f"there are results of calls that nobody made: {', '.join(left)}; leave them out")
        if not self._messages:
            raise refused("there is nothing to answer: the prompt has no message but system messages")
        *before, last = self._messages
        content = list(last["content"])
        if last["role"] == "assistant" and content[-1].get("type") == "text":
            block = content[-1]
            content[-1] = {**block, "text": block["text"].rstrip()}  # an answer begun may not end in space
        messages = [*before, {**last, "content": content}]
        return History(list(self._system), messages, tuple(self._documents), self._container)

    def _add_system(self, message: SystemMessage, place: int) -> list[dict[str, Any]]:
        if not message.content.strip():
            return []
        block = with_cache({"type": "text", "text": message.content}, message.metadata)
        if self._system_turns and self._has_turn(place):
            return self._say("system", [block], {})
        self._system.append(block)
        return [block]

    def _has_turn(self, place: int) -> bool:
        """Whether a system message can stand here: what a user says is before it, and the model's turn after it."""
        before = self._messages[-1]["role"] if self._messages else None
        behind = next((one.role for one in self._given[place + 1 :] if one.role != "system"), "assistant")
        return before in ("user", "system") and behind == "assistant"

    def _add_turn(self, message: AssistantMessage) -> list[dict[str, Any]]:
        blocks = [block for part in message.content if (block := self._block(part)) is not None]
        turn = self._say("assistant", blocks, message.metadata)
        named = (said_in(part.metadata).get("container") for part in message.content if part.type == "text")
        self._container = next((one for one in named if isinstance(one, str)), None)
        calls = [part for part in message.content if part.type == "tool-call" and not part.provider_executed]
        return [*turn, *self._say("user", [self._answer(part) for part in calls], {})]

    def _say(self, role: str, blocks: list[dict[str, Any]], metadata: Metadata) -> list[dict[str, Any]]:
        if not blocks:
            return []
        last = next((at for at in reversed(range(len(blocks))) if blocks[at].get("type") not in _UNMARKED), None)
        if last is not None:
            blocks[last] = with_cache(blocks[last], metadata)
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": role, "content": list(blocks)})
        self._documents += _documents(blocks)
        return blocks

    def _block(self, part: AssistantContent) -> dict[str, Any] | None:
        match part.type:
            case "text":
                block = text_block(part)
                return None if block is None else with_cache(block, part.metadata)
            case "reasoning":
                return self._taken(reasoning_block(part), "reasoning that Anthropic did not sign")
            case "file":
                return self._taken(made_file_block(part), f"a file of type {part.media_type!r} that a model made")
            case "tool-call" | "tool-result":
                if part.type == "tool-call" and not part.provider_executed:
                    return call_block(part, self._tools)
                return self._taken(hosted_block(part), f"what another provider did for {part.name!r}")
            case "tool-approval-request":
                return None

    def _taken(self, block: dict[str, Any] | None, what: str) -> dict[str, Any] | None:
        if block is None:
            said = f"{what} is left out of the history: Anthropic's Messages API refuses it"
            self.notes.warn("other", None, said)
        return block

    def _left_out(self, part: FilePart) -> None:
        said = f"a file of type {part.media_type!r} in a tool's result is left out: Anthropic's Messages API refuses it"
        self.notes.warn("other", None, said)

    def _answer(self, part: ToolCallPart) -> dict[str, Any]:
        result = self._pairing.take(part.id)
        if result is None:
            raise refused(f"the call {part.id!r} of the tool {part.name!r} has no result: answer it, or leave it out")
        return result_block(result, self._tools.wire_call(part.name, part.params).toolset, self._left_out)


def _documents(blocks: Sequence[dict[str, Any]]) -> Iterator[Document]:
    """The documents in order, those in results of tools among them."""
    for block in blocks:
        inside = block.get("content")
        for one in (block, *(inside if is_array(inside) else ())):
            if is_object(one) and one.get("type") == "document":
                source = one.get("source")
                yield Document(source.get("media_type") if is_object(source) else None, one.get("title"))
