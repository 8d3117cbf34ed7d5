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

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, final

from fxai.messages.calls import Pairing
from fxai.messages.message import (
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    WithMetadata,
)
from fxai.messages.reason import InvalidUserInputError
from fxai.messages.think_tag import with_tags
from fxai.models.prepared_tools import Notes, PreparationError, contents_of, file_note
from fxai.providers.openai.media import ChatFiles, chat_file, is_taken, is_text
from fxai.providers.openai.options import NAME, marks
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_calls import arguments_of, input_of, item_type, refuse_unanswered, result_text
from fxai.providers.openai.tool_encoding import RequestTools
from fxai.schema.data import is_array, is_object

THOUGHTS: Final = ("reasoning_content", "reasoning")
"""The fields that servers of others write reasoning into; OpenAI's own Chat Completions shows none."""

GOING_BACK: Final = frozenset(("extra_content", "thinking_blocks"))
"""The fields of a message without a meaning here that a server reads again. No others are written: a history may hold
any, such as a role."""

ChatRole: TypeAlias = Literal["system", "developer"]
"""The role of system messages."""

_Message: TypeAlias = dict[str, Any]
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")


@final
class ChatWriter:
    """Writes the messages of a history in order; further messages can be added later.

    Args:
        offer: The tools of the request: names and parameters of earlier calls are written as these are.
        system_role: The role of system messages.
        server: What the server takes.
    """

    def __init__(self, offer: RequestTools, *, system_role: ChatRole = "system", server: Server = COMPATIBLE) -> None:
        self.items: list[_Message] = []
        """What was written."""
        self.notes: Notes = Notes()
        """What could not be written."""
        self.is_extensible: bool = True
        """Whether further messages can be added: not while a call has no result, which must come before them."""
        self._pairing = Pairing()
        self._offer = offer
        self._role = system_role
        self._server = server
        self._files = ChatFiles(video=server.video, file_urls=server.file_urls)

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
                    self._system(message)
                case "user":
                    self.user(message)
                case "assistant":
                    self.assistant(message)
                case "tool":
                    self.answers(part for part in message.content if part.type == "tool-result")

    def _system(self, message: SystemMessage) -> None:
        if not message.content and (message.added_tools or message.removed_tools):
            return self._note_removals(message)
        cached = self._cache(message)
        content = [{"type": "text", "text": message.content, **cached}] if cached else message.content
        self.items.append({"role": self._role, "content": content})
        return self._note_removals(message)

    def _note_removals(self, message: SystemMessage) -> None:
        for name in message.removed_tools:
            self._note_loss(f"that the tool {name!r} is there no more", "its tools stay")

    def _cache(self, source: WithMetadata) -> _Message:
        """The marks for the cache of a part or a message; those that the server does not take are noted."""
        own = marks(source, "prompt_cache_breakpoint", "cache_control")
        if "cache_control" in own and not self._server.cache_marks:
            self._note_loss("a mark for the cache, `cache_control`,", "it takes none")
        return {key: one for key, one in own.items() if key != "cache_control" or self._server.cache_marks}

    def user(self, message: UserMessage) -> None:
        """A message of the user: a text alone as a text, anything else as a list; its mark stands on the last piece."""
        content, cached = message.content, self._cache(message)
        if len(content) == 1 and content[0].type == "text" and not (content[0].metadata or cached):
            self.items.append({"role": "user", "content": content[0].text})
            return
        pieces = [self._content_part(part) for part in content]
        self.items.append({"role": "user", "content": [*pieces[:-1], *({**one, **cached} for one in pieces[-1:])]})

    def assistant(self, message: AssistantMessage) -> None:
        """A turn of the model, and right behind it the results of its calls."""
        message = with_tags(message, NAME)
        texts = [part for part in message.content if part.type == "text" and "item" not in marks(part)]
        calls = [part for part in message.content if part.type == "tool-call" and not part.provider_executed]
        content = self._content(message, [part for part in texts if not marks(part).get("refusal")])
        refusal = "".join(part.text for part in texts if marks(part).get("refusal"))
        fields: _Message = {**({"content": content} if content else {}), **({"refusal": refusal} if refusal else {})}
        fields.update(self._beside(message))
        if calls:
            fields["tool_calls"] = [self._call(part) for part in calls]
        if fields:
            self.items.append({"role": "assistant", **fields, **self._empty_field(fields)})
        results = [part for call in calls if (part := self._pairing.take(call.id)) is not None]
        self._results(results)
        self.is_extensible = self.is_extensible and len(results) == len(calls)

    def _content(self, message: AssistantMessage, texts: list[TextPart]) -> str | list[_Message]:
        """The texts of a turn as one; as a list where there are pieces of another kind, as at Mistral."""
        own = {id(part) for part in texts}
        pieces: list[_Message] = []
        is_list = False
        for part in message.content:
            if part.type == "text" and id(part) in own:
                carried = marks(part).get("content") if self._server.takes_back("content") else None
                is_list = is_list or carried is not None
                pieces.extend(
                    [carried] if is_object(carried) else [{"type": "text", "text": part.text}] if part.text else []
                )
            elif part.type == "reasoning" and self._goes_into_content(part):
                is_list = True
                pieces.append(_thought_piece(part))
        return pieces if is_list else "".join(part.text for part in texts)

    def _goes_into_content(self, part: ReasoningPart) -> bool:
        if marks(part).get("field") == "content":
            return self._server.takes_back("content")
        return self._server.thoughts == "content" and bool(part.text)

    def _empty_field(self, fields: _Message) -> _Message:
        """The field of the reasoning, empty, where a server wants it in every turn."""
        field = self._server.thoughts
        return {field: ""} if self._server.thoughts_always and field is not None and field not in fields else {}

    def _beside(self, message: AssistantMessage) -> _Message:
        """Reasoning, audio and what the server wrote itself, where there is a field for them; the rest is lost."""
        beside: dict[str, Any] = {}
        for part in message.content:
            if part.type == "reasoning":
                self._reasoning(part, beside)
            elif part.type == "text" and marks(part, "annotation", "message"):
                self._put_back(marks(part), beside)
            elif "audio" in marks(part):
                beside["audio"] = {"id": marks(part)["audio"]}
            elif part.type == "file":
                self._note_loss(f"a file ({part.media_type}) that a model made", "it takes files from users alone")
            elif part.type == "tool-call" and part.provider_executed:
                self._note_loss(f"the call of {part.name!r} that a provider ran", "it has no place for it")
        return beside

    def _reasoning(self, part: ReasoningPart, beside: _Message) -> None:
        """A piece of reasoning: in the field that it came in, else in the one that the server has for any."""
        about = marks(part)
        came, takes = about.get("field"), self._server.thoughts
        if self._goes_into_content(part):
            return
        if came == "reasoning_details" and self._server.takes_back(came):
            key, detail = about.get("key"), about.get("detail")
            text = {key: part.text} if isinstance(key, str) else {}
            beside.setdefault(came, []).append({**(detail if is_object(detail) else {}), **text})
            return
        field = came if came in THOUGHTS and self._server.takes_back(came) else takes
        if isinstance(field, str):
            beside[field] = beside.get(field, "") + part.text
        elif part.text or self._server.returns is None:
            self._note_loss("reasoning", "it has no place for it")

    def _put_back(self, about: Mapping[str, Any], beside: _Message) -> None:
        """Fields that a server wrote, and reads again."""
        if "annotation" in about and self._server.takes_back("annotations"):
            beside.setdefault("annotations", []).append(about["annotation"])
        kept = about.get("message")
        if is_object(kept):
            taken = GOING_BACK.intersection(kept)
            beside.update({key: kept[key] for key in sorted(taken) if self._server.takes_back(key)})

    def _call(self, part: ToolCallPart) -> _Message:
        wire = self._offer.prepared.wire_call(part.name, part.params)
        known, inner = self._own_fields(part)
        call: _Message = {**known, "id": self._id(self._pairing.begin(part))}
        if item_type(part, self._offer) == "custom_tool_call":
            return {**call, "type": "custom", "custom": {"name": wire.name, "input": input_of(part)}}
        text = arguments_of(part, wire.params)
        return {**call, "type": "function", "function": {**inner, "name": wire.name, "arguments": text}}

    def _own_fields(self, part: ToolCallPart) -> tuple[_Message, _Message]:
        """What the server wrote beside a call, and within it, and reads again."""
        kept = marks(part).get("call")
        if not is_object(kept):
            return {}, {}
        within = kept.get("function")
        taken = {key: value for key, value in kept.items() if key != "function" and self._server.takes_back(key)}
        inner = within.items() if is_object(within) else ()
        return taken, {key: value for key, value in inner if self._server.takes_back(key)}

    def _id(self, id_: str) -> str:
        """The id of a call, as the server wants it."""
        if not self._server.short_call_ids or _SHORT_ID.fullmatch(id_):
            return id_
        return sha256(id_.encode()).hexdigest()[:9]

    def answers(self, results: Iterable[ToolResultPart]) -> None:
        """Write the results that were not written yet, and the files that they hold."""
        self._results(
            [part for part in results if self._pairing.result(part.id) is part and self._pairing.take(part.id) is part]
        )

    def _results(self, results: Iterable[ToolResultPart]) -> None:
        files: list[FilePart] = []
        for part in results:
            contents = contents_of(part, "file")
            own = [] if contents is None else self._sendable(contents)
            text = result_text(part) if contents is None else _texts_of(contents, own)
            id_, cached = self._id(self._pairing.end(part.id)[1]), self._cache(part)
            content = [{"type": "text", "text": text, **cached}] if cached else text
            self.items.append({"role": "tool", "tool_call_id": id_, "content": content})
            files.extend(own)
        if files:
            self.items.append({"role": "user", "content": [self._file(part) for part in files]})

    def _sendable(self, contents: list[TextPart | FilePart]) -> list[FilePart]:
        """The files of a result that the wire takes."""
        own = [part for part in contents if part.type == "file"]
        taken = [part for part in own if is_taken(part, self._file)]
        for part in own:
            if part not in taken:
                self._note_loss(f"a file ({part.media_type}) that a tool gave", "it takes images, sounds and documents")
        return taken

    def _content_part(self, part: TextPart | FilePart) -> _Message:
        if part.type == "file":
            return self._file(part)
        return {"type": "text", "text": part.text, **self._cache(part)}

    def _file(self, part: FilePart) -> _Message:
        is_document = not (is_text(part) or part.media_type.startswith(("image/", "audio/", "video/")))
        if is_document and not self._server.documents:
            why = f"{self._server.name} takes no documents in Chat Completions: give its text, or images of its pages"
            raise PreparationError(InvalidUserInputError(f"a file ({part.media_type}) cannot be sent: {why}"))
        return {**chat_file(part, self._files), **self._cache(part)}

    def _note_loss(self, what: str, why: str) -> None:
        name = "OpenAI's Chat Completions API" if self._server.name == "openai" else self._server.name
        self.notes.warn_once(f"{what} is not sent to {name}: {why}")


def _texts_of(contents: list[TextPart | FilePart], files: list[FilePart]) -> str:
    rest = [part for part in contents if part not in files]
    texts = [part.text if part.type == "text" else file_note(part) for part in rest]
    count = len(files)
    return "\n".join([*texts, f"({count} file{'s' if count > 1 else ''} in the next message)"] if files else texts)


def _thought_piece(part: ReasoningPart) -> _Message:
    """Reasoning as a piece of a content that is a list."""
    found = marks(part).get("detail")
    detail: Mapping[str, Any] = found if is_object(found) else {}
    found_others = detail.get("others")
    others = found_others if is_array(found_others) else []
    texts = [{"type": "text", "text": part.text}] if part.text else []
    rest = {key: value for key, value in detail.items() if key != "others"}
    return {**rest, "type": "thinking", "thinking": [*texts, *others]}
