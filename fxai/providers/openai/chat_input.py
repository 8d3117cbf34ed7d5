"""Prompts for OpenAI's Chat Completions API and for compatible servers. Use `ChatWriter` to write the `messages`.

The API requires results immediately after their calls, so the writer moves them there. A tool message cannot contain
files, so the files of a result follow in a user message.

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

from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    WithMetadata,
)
from fxai.messages.part import WarningPart
from fxai.messages.reason import InvalidUserInputError
from fxai.models.history_form import HistoryForm, HistoryRules, IdRule
from fxai.models.prepared_tools import Notes, PreparationError, contents_of, file_note
from fxai.models.request_cache import HistoryText
from fxai.providers.openai.media import ChatFiles, chat_file, is_taken, is_text
from fxai.providers.openai.options import NAME, marks
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_calls import CALL_IDS, arguments_of, input_of, item_type, result_text
from fxai.providers.openai.tool_encoding import RequestTools
from fxai.schema.data import is_array, is_object
from fxai.schema.request_form import CHAT
from fxai.tools.identity import NameRule

THOUGHTS: Final = ("reasoning_content", "reasoning")
"""The reasoning fields of other servers. OpenAI's own Chat Completions sends no reasoning."""

GOING_BACK: Final = frozenset(("extra_content", "thinking_blocks"))
"""The fields of a message that only the server reads again. The writer sends no other unknown fields, because a history
can contain any field, such as a role."""

ChatRole: TypeAlias = Literal["system", "developer"]
"""The role of system messages."""

_Message: TypeAlias = dict[str, Any]


@final
class ChatWriter:
    """A writer of the messages of a history. You can append messages later.

    Args:
        offer: The tools of the request. They determine the names and arguments of earlier calls.
        system_role: The role of system messages.
        server: The abilities of the server.
    """

    def __init__(self, offer: RequestTools, *, system_role: ChatRole = "system", server: Server = COMPATIBLE) -> None:
        self.items: list[_Message] = []
        """The written messages."""
        self.text: HistoryText = HistoryText()
        """The JSON text of the messages in the fields of earlier requests."""
        self.notes: Notes = Notes()
        """Warnings for omitted parts."""
        self._offer = offer
        self._role = system_role
        self._server = server
        self._files = ChatFiles(video=server.video, file_urls=server.file_urls, only_pdf=server.official)
        rules = HistoryRules(
            name=CHAT.name if server.name == "openai" else server.name,
            provider=NAME,
            tool_names=NameRule(CHAT.longest_name),
            call_ids=IdRule("A-Za-z0-9", digits=9) if server.short_call_ids else CALL_IDS,
            blank_texts=True,
            reasoning_last=True,
            loss=self._loss,
            is_block=_is_block,
            # gateways store signatures of thinking in the ids of calls
            keeps_id=lambda call: not server.official and marks(call).get("call_id") == call.id,
        )
        self._form = HistoryForm(rules, offer.prepared.naming)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request as a copy. Later messages do not change it."""
        return {"messages": self.text.copy(self.items, len(self.items))}

    @property
    def warnings(self) -> list[WarningPart]:
        """Warnings for changes of the history and for omitted parts."""
        return [*self._form.warnings, *self.notes.warnings]

    @property
    def is_extensible(self) -> bool:
        """True if you can append messages without changing the written messages."""
        return self._form.is_extensible

    def write(self, messages: Sequence[Message]) -> None:
        """Write the next messages.

        Raises `PreparationError` if a call has no result, or if the API does not accept a file.
        """
        for message in self._form.add(messages):
            match message.role:
                case "system":
                    if message.content or not (message.added_tools or message.removed_tools):
                        cached = self._cache(message)
                        content = [{"type": "text", "text": message.content, **cached}] if cached else message.content
                        self.items.append({"role": self._role, "content": content})
                    for name in message.removed_tools:
                        removal = f"the removal of the tool {name!r}"
                        self.notes.warn_once(self._explain(removal, "it cannot remove tools"))
                case "user":
                    self.user(message)
                case "assistant":
                    self.assistant(message)
                case "tool":
                    self._results(part for part in message.content if part.type == "tool-result")

    def _cache(self, source: WithMetadata) -> _Message:
        """Return the cache marks of a part or a message. Add a warning for marks that the server does not accept."""
        own = marks(source, "prompt_cache_breakpoint", "cache_control")
        if "cache_control" in own and not self._server.cache_marks:
            self.notes.warn_once(self._explain("the cache mark `cache_control`", "it accepts no marks"))
        return {key: one for key, one in own.items() if key != "cache_control" or self._server.cache_marks}

    def user(self, message: UserMessage) -> None:
        """Write a user message: one text as a string, other content as a list. The last item has the cache mark."""
        content, cached = message.content, self._cache(message)
        if len(content) == 1 and content[0].type == "text" and not (content[0].metadata or cached):
            self.items.append({"role": "user", "content": content[0].text})
            return
        pieces = [
            self._file(part) if part.type == "file" else {"type": "text", "text": part.text, **self._cache(part)}
            for part in content
        ]
        self.items.append({"role": "user", "content": [*pieces[:-1], *({**one, **cached} for one in pieces[-1:])]})

    def assistant(self, message: AssistantMessage) -> None:
        """Write a turn of the model."""
        texts = [part for part in message.content if part.type == "text" and "item" not in marks(part)]
        calls = [part for part in message.content if part.type == "tool-call" and not part.provider_executed]
        content = self._content(message, [part for part in texts if not marks(part).get("refusal")])
        refusal = "".join(part.text for part in texts if marks(part).get("refusal"))
        fields: _Message = {**({"content": content} if content else {}), **({"refusal": refusal} if refusal else {})}
        fields.update(self._beside(message))
        if calls:
            fields["tool_calls"] = [self._call(part) for part in calls]
        field = self._server.thoughts
        if self._server.thoughts_always and field is not None:  # the server requires the field in every turn
            fields.setdefault(field, "")
        if not fields.keys().isdisjoint(_NEEDED):
            self.items.append({"role": "assistant", **fields})

    def _content(self, message: AssistantMessage, texts: list[TextPart]) -> str | list[_Message]:
        """Return the text of a turn as a string, or as a list if the turn has other pieces, as on Mistral."""
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
                found = marks(part).get("detail")
                detail = dict(found) if is_object(found) else {}
                others = detail.pop("others", None)
                thoughts = [{"type": "text", "text": part.text}] if part.text else []
                thoughts += others if is_array(others) else []
                pieces.append({**detail, "type": "thinking", "thinking": thoughts})
        return pieces if is_list else "".join(part.text for part in texts)

    def _goes_into_content(self, part: ReasoningPart) -> bool:
        if marks(part).get("field") == "content":
            return self._server.takes_back("content")
        return self._server.thoughts == "content" and bool(part.text)

    def _beside(self, message: AssistantMessage) -> _Message:
        """Return the fields for reasoning, audio, and the server's own data. Omit data without a field."""
        beside: dict[str, Any] = {}
        for part in message.content:
            if part.type == "reasoning":
                self._reasoning(part, beside)
            elif part.type == "text" and marks(part, "annotation", "message"):  # the server reads these fields again
                if "annotation" in marks(part) and self._server.takes_back("annotations"):
                    beside.setdefault("annotations", []).append(marks(part)["annotation"])
                kept = marks(part).get("message")
                if is_object(kept):
                    taken = sorted(GOING_BACK.intersection(kept))
                    beside.update({key: kept[key] for key in taken if self._server.takes_back(key)})
            elif "audio" in marks(part):
                beside["audio"] = {"id": marks(part)["audio"]}
        return beside

    def _loss(self, part: AssistantContent, _turn: AssistantMessage) -> str | None:
        """Return the reason why a part of a turn cannot be sent, or None if it can."""
        if part.type == "file" and "audio" not in marks(part):
            return self._explain(f"a generated file ({part.media_type})", "it accepts files only from users")
        if part.type == "tool-call" and part.provider_executed:
            return self._explain(f"the call of {part.name!r} that a provider ran", "it has no field for the call")
        came = marks(part).get("field")
        is_detail = came == "reasoning_details" and self._server.takes_back(came)
        if part.type == "reasoning" and not (
            is_detail or self._goes_into_content(part) or self._thoughts_field(part) is not None
        ):
            is_reported = bool(part.text) or self._server.returns is None
            return self._explain("reasoning", "it has no field for reasoning") if is_reported else ""
        return None

    def _reasoning(self, part: ReasoningPart, beside: _Message) -> None:
        """Write reasoning to its original field. By default, use the server's field for any reasoning."""
        about = marks(part)
        came = about.get("field")
        if self._goes_into_content(part):
            return
        if came == "reasoning_details" and self._server.takes_back(came):
            key, detail = about.get("key"), about.get("detail")
            text = {key: part.text} if isinstance(key, str) else {}
            beside.setdefault(came, []).append({**(detail if is_object(detail) else {}), **text})
            return
        field = self._thoughts_field(part)
        if field is not None:
            beside[field] = beside.get(field, "") + part.text

    def _thoughts_field(self, part: ReasoningPart) -> str | None:
        """Return the original field of reasoning, or the server's field for any reasoning."""
        came = marks(part).get("field")
        if came in THOUGHTS and self._server.takes_back(came):
            return str(came)
        return None if self._server.thoughts == "content" else self._server.thoughts

    def _call(self, part: ToolCallPart) -> _Message:
        wire = self._offer.prepared.wire_call(part.name, part.params)
        kept, takes_back = marks(part).get("call"), self._server.takes_back  # the fields that the server reads again
        kept = kept if is_object(kept) else {}
        within = kept.get("function")
        inner = {key: one for key, one in within.items() if takes_back(key)} if is_object(within) else {}
        known = {key: one for key, one in kept.items() if key != "function" and takes_back(key)}
        call: _Message = {**known, "id": part.id}
        if item_type(part, self._offer) == "custom_tool_call":
            return {**call, "type": "custom", "custom": {"name": wire.name, "input": input_of(part)}}
        text = arguments_of(part, wire.params)
        return {**call, "type": "function", "function": {**inner, "name": wire.name, "arguments": text}}

    def _results(self, results: Iterable[ToolResultPart]) -> None:
        files: list[FilePart] = []
        for part in results:
            contents = contents_of(part, "file")
            own = [one for one in contents or () if one.type == "file" and is_taken(one, self._file)]
            for one in contents or ():
                if one.type == "file" and one not in own:
                    what = f"a file ({one.media_type}) in a tool result"
                    self.notes.warn_once(self._explain(what, "it accepts images, audio, and documents"), "history")
            text = result_text(part)
            if contents is not None:
                rest = [one for one in contents if one not in own]
                texts = [one.text if one.type == "text" else file_note(one) for one in rest]
                note = f"({len(own)} file{'s' if len(own) > 1 else ''} in the next message)"
                text = "\n".join([*texts, note] if own else texts)
            cached = self._cache(part)
            content = [{"type": "text", "text": text, **cached}] if cached else text
            self.items.append({"role": "tool", "tool_call_id": part.id, "content": content})
            files.extend(own)
        if files:
            self.items.append({"role": "user", "content": [self._file(part) for part in files]})

    def _file(self, part: FilePart) -> _Message:
        is_document = not (is_text(part) or part.media_type.startswith(("image/", "audio/", "video/")))
        if is_document and not self._server.documents:
            why = f"{self._server.name} accepts no documents in Chat Completions. Pass its text or images of its pages."
            raise PreparationError(InvalidUserInputError(f"cannot send a file ({part.media_type}): {why}"))
        return {**chat_file(part, self._files), **self._cache(part)}

    def _explain(self, what: str, why: str) -> str:
        return f"{what} is not sent to {CHAT.name if self._server.name == 'openai' else self._server.name}: {why}"


_NEEDED: Final = ("content", "refusal", "audio", "tool_calls")
"""The required fields of a turn. The API requires at least one of them in each turn."""


def _is_block(part: AssistantContent) -> bool:
    """Return True if the part creates one of the required fields."""
    if part.type == "text":
        return (bool(part.text) or "content" in marks(part)) and "item" not in marks(part)
    return part.type == "tool-call" or "audio" in marks(part)
