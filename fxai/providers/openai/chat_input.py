"""Prompts for OpenAI's Chat Completions API, which compatible servers have as well: the `messages` of a request.

Results stand right behind the calls that they answer, wherever the prompt has them, as the API demands. Files in a
result have no place in a tool message: they follow in a message of the user.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.providers.openai.tool_encoding import prepare_tools
>>> writer = ChatWriter(RequestTools(prepare_tools([], model="m", api="chat")))
>>> writer.write(Prompt.make("Hello").messages)
>>> writer.items
[{'role': 'user', 'content': 'Hello'}]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from fxai.messages.calls import Pairing
from fxai.messages.message import (
    AssistantMessage,
    FilePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)
from fxai.models.prepared_tools import Notes, contents_of, file_note
from fxai.providers.openai.media import chat_file, is_taken
from fxai.providers.openai.options import marks
from fxai.providers.openai.tool_calls import arguments_of, input_of, item_type, refuse_unanswered, result_text
from fxai.providers.openai.tool_encoding import RequestTools

THOUGHTS: Final = ("reasoning_content", "reasoning")
"""The fields that servers of others write reasoning into; OpenAI's own Chat Completions shows none."""

ChatRole: TypeAlias = Literal["system", "developer"]
"""The role of system messages."""

_Message: TypeAlias = dict[str, Any]


@final
class ChatWriter:
    """Writes the messages of a history in order; further messages can be added later.

    Args:
        offer: The tools of the request: names and parameters of earlier calls are written as these are.
        system_role: The role of system messages.
    """

    def __init__(self, offer: RequestTools, *, system_role: ChatRole = "system") -> None:
        self.items: list[_Message] = []
        """What was written."""
        self.notes: Notes = Notes()
        """What could not be written."""
        self.is_extensible: bool = True
        """Whether further messages can be added: not while a call has no result, which must come before them."""
        self._pairing = Pairing()
        self._offer = offer
        self._role = system_role

    def fields(self) -> dict[str, Any]:
        """The fields of the request: a copy, which what is written later does not change."""
        return {"messages": list(self.items)}

    def is_extended_by(self, _messages: Sequence[Message]) -> bool:
        """Whether these messages can be added without changing what is written: always."""
        return True

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages that come next.

        Raises `PreparationError`: a call has no result; a file of a kind that the wire does not take.
        """
        refuse_unanswered(self._pairing.add(messages))
        for message in messages:
            match message.role:
                case "system":
                    self.items.append({"role": self._role, "content": message.content})
                case "user":
                    self.user(message)
                case "assistant":
                    self.assistant(message)
                case "tool":
                    self.answers(part for part in message.content if part.type == "tool-result")

    def user(self, message: UserMessage) -> None:
        """A message of the user: a text alone as a text, anything else as a list."""
        content = message.content
        if len(content) == 1 and content[0].type == "text" and not content[0].metadata:
            self.items.append({"role": "user", "content": content[0].text})
        else:
            self.items.append({"role": "user", "content": [_content_part(part) for part in content]})

    def assistant(self, message: AssistantMessage) -> None:
        """A turn of the model, and right behind it the results of its calls."""
        texts = [part for part in message.content if part.type == "text" and "item" not in marks(part)]
        calls = [part for part in message.content if part.type == "tool-call" and not part.provider_executed]
        content = "".join(part.text for part in texts if not marks(part).get("refusal"))
        refusal = "".join(part.text for part in texts if marks(part).get("refusal"))
        fields: _Message = {**({"content": content} if content else {}), **({"refusal": refusal} if refusal else {})}
        fields.update(self._beside(message))
        if calls:
            fields["tool_calls"] = [self._call(part) for part in calls]
        if fields:
            self.items.append({"role": "assistant", **fields})
        written = self.answers([part for call in calls if (part := self._pairing.result(call.id)) is not None])
        self.is_extensible = self.is_extensible and written == len(calls)

    def _beside(self, message: AssistantMessage) -> _Message:
        """Reasoning and audio, where the API has a field for them; the rest is noted as lost."""
        beside: dict[str, Any] = {}
        for part in message.content:
            field = marks(part).get("field")
            if part.type == "reasoning" and field in THOUGHTS:
                beside[field] = beside.get(field, "") + part.text
            elif "audio" in marks(part):
                beside["audio"] = {"id": marks(part)["audio"]}
            elif part.type == "reasoning":
                self._note_loss("reasoning", "it has no place for it")
            elif part.type == "file":
                self._note_loss(f"a file ({part.media_type}) that a model made", "it takes files from users alone")
            elif part.type == "tool-call" and part.provider_executed:
                self._note_loss(f"the call of {part.name!r} that a provider ran", "it has no place for it")
        return beside

    def _call(self, part: ToolCallPart) -> _Message:
        wire = self._offer.prepared.wire_call(part.name, part.params)
        if item_type(part, self._offer) == "custom_tool_call":
            return {"id": part.id, "type": "custom", "custom": {"name": wire.name, "input": input_of(part)}}
        text = arguments_of(part, wire.params)
        return {"id": part.id, "type": "function", "function": {"name": wire.name, "arguments": text}}

    def answers(self, results: Iterable[ToolResultPart]) -> int:
        """Write the results that were not written yet, and the files that they hold; gives how many they were."""
        files: list[FilePart] = []
        count = 0
        for part in results:
            if self._pairing.result(part.id) is not part:
                continue
            self._pairing.take(part.id)
            count += 1
            contents = contents_of(part, "file")
            own = [] if contents is None else self._sendable(contents)
            text = result_text(part) if contents is None else _texts_of(contents, own)
            self.items.append({"role": "tool", "tool_call_id": part.id, "content": text})
            files.extend(own)
        if files:
            self.items.append({"role": "user", "content": [chat_file(part) for part in files]})
        return count

    def _sendable(self, contents: list[TextPart | FilePart]) -> list[FilePart]:
        """The files of a result that the wire takes."""
        own = [part for part in contents if part.type == "file"]
        taken = [part for part in own if is_taken(part, chat_file)]
        for part in own:
            if part not in taken:
                self._note_loss(f"a file ({part.media_type}) that a tool gave", "it takes images, sounds and documents")
        return taken

    def _note_loss(self, what: str, why: str) -> None:
        self.notes.warn_once(f"{what} is not sent to OpenAI's Chat Completions API: {why}")


def _texts_of(contents: list[TextPart | FilePart], files: list[FilePart]) -> str:
    rest = [part for part in contents if part not in files]
    texts = [part.text if part.type == "text" else file_note(part) for part in rest]
    count = len(files)
    return "\n".join([*texts, f"({count} file{'s' if count > 1 else ''} in the next message)"] if files else texts)


def _content_part(part: TextPart | FilePart) -> _Message:
    if part.type == "file":
        return chat_file(part)
    return {"type": "text", "text": part.text, **marks(part, "prompt_cache_breakpoint")}
