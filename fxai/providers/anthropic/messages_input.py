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

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import msgspec

from fxai.messages.content import AssistantContent, FilePart, ToolCallPart
from fxai.messages.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from fxai.messages.metadata import Metadata
from fxai.messages.pairing import Pairing
from fxai.models.tool_encoding import Notes, PreparedTools
from fxai.providers.anthropic.block import (
    call_block,
    hosted_block,
    made_file_block,
    reasoning_block,
    result_block,
    text_block,
    user_block,
    with_cache,
)
from fxai.providers.anthropic.file import refused
from fxai.providers.anthropic.option import said_in
from fxai.schema.data import is_array, is_object

__all__ = ["Document", "History", "HistoryWriter"]

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
