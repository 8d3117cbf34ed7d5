"""Prompts for Anthropic's Messages API. Use this module to convert prompts to `messages` and `system` of a request.

The API requires alternating roles. Users and tool results have the same role, and the writer merges consecutive
messages with the same role. The results of calls are first in the next message. `metadata["anthropic"]` of a part
contains its Anthropic-specific data (signatures, citations, the caller of a tool). The writer sends this data back
unchanged. A file is sent as bytes, as a URL, or by the id of an upload, which starts with `file_`.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.prepared_tools import PreparedTools
>>> from fxai.tools.identity import NameMap
>>> prompt = Prompt.make("Hello").append(UserMessage.make("Are you there?")).set_system("Be brief.")
>>> from fxai.providers.anthropic.known_models import facts
>>> writer = HistoryWriter(PreparedTools.make({}, NameMap({})), facts("claude-sonnet-5"))
>>> writer.write(prompt.messages)
>>> history = writer.history()
>>> history.system
[{'type': 'text', 'text': 'Be brief.'}]
>>> file_block(FilePart.of_url("image/png", "https://example.org/cat.png"))
{'type': 'image', 'source': {'type': 'url', 'url': 'https://example.org/cat.png'}}
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import msgspec

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
    UserMessage,
)
from fxai.messages.part import WarningPart
from fxai.messages.reason import InvalidUserInputError
from fxai.models.history_form import HistoryForm, HistoryRules, IdRule
from fxai.models.model_facts import ModelFacts
from fxai.models.prepared_tools import (
    Notes,
    PreparationError,
    PreparedTools,
    file_note,
    found_names,
    json_of,
    without_nulls,
)
from fxai.models.request_cache import HistoryText
from fxai.providers.anthropic.options import FALLBACK_BETA, NAME, own_metadata
from fxai.providers.anthropic.thinking_binding import Bound, PrefixDigest, Thought
from fxai.providers.http.endpoint import TEXT_TYPES, file_id_of
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.request_form import MESSAGES
from fxai.tools.identity import NameRule

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_OF_IMAGES: Final = ("transformations",)
_OF_DOCUMENTS: Final = ("title", "context", "citations")


def refusal(description: str) -> PreparationError:
    """Return the error of a part that fxai cannot send."""
    return PreparationError(InvalidUserInputError(description=description))


def file_block(part: FilePart) -> JsonObject:
    """Return the content block of a user's file: an image, a PDF, text, or an uploaded file.

    `metadata["anthropic"]` sets other fields of the API: `title`, `context`, and `citations` of documents, and
    `transformations` of images. `"type": "container_upload"` adds an uploaded file to the container of code execution.
    The default title of a document is the name of the file.

    Raises `PreparationError` if the API does not support the file, or if the file does not match its media type.
    """
    own = own_metadata(part.metadata)
    file_id = file_id_of(part)
    if file_id is not None and own.get("type") == "container_upload":
        return {"type": "container_upload", "file_id": file_id}
    is_image = part.media_type.startswith("image/") and not part.media_type.startswith("image/svg")
    kind = "image" if is_image else "document"  # the API accepts SVG only as text
    source = _source(part, kind) if file_id is None else {"type": "file", "file_id": file_id}
    extras = {name: own[name] for name in (_OF_IMAGES if is_image else _OF_DOCUMENTS) if own.get(name) is not None}
    if part.file_name and not is_image:
        extras.setdefault("title", part.file_name)
    if "citations" in extras and not is_object(extras["citations"]):
        extras["citations"] = {"enabled": bool(extras["citations"])}
    return {"type": kind, "source": source, **extras}


def _source(part: FilePart, kind: str) -> JsonObject:
    data, media_type = part.data, part.media_type
    if isinstance(data, FileUrl):
        if data.url.startswith("data:"):
            raise refusal("cannot read a data: URL. Pass the bytes of the file.")
        if kind == "image" or media_type == _PDF:
            return {"type": "url", "url": data.url}
        raise refusal(f"Anthropic cannot fetch a file of type {media_type!r} from a URL. Pass its bytes.")
    if media_type in _IMAGES or media_type == _PDF:
        return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
    if TEXT_TYPES.match(media_type):
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError as error:
            raise refusal(f"a file of type {media_type!r} is not UTF-8 text: {error}") from None
    known = ", ".join((*_IMAGES, _PDF, "text/*"))
    raise refusal(f"Anthropic does not accept files of type {media_type!r}. Use one of: {known}.")


_FILE_FIELDS: Final = frozenset({"media_type", "data", "file_name"})
_BLOCK_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"text"}),
    "image": frozenset({"source"}),
    "document": frozenset({"source"}),
    "search_result": frozenset({"content", "source", "title"}),
    "tool_reference": frozenset({"tool_name"}),
    "browser_state": frozenset({"tabs"}),
}


def with_cache(block: JsonObject, metadata: Metadata) -> JsonObject:
    """Return the block, with a mark for the cache if the metadata contains it."""
    mark = own_metadata(metadata).get("cache_control")
    return {**block, "cache_control": mark} if is_object(mark) else block


def text_block(part: TextPart) -> JsonObject | None:
    """Return the block of a text part with its citations, an original block of unknown type, or None if empty."""
    own = own_metadata(part.metadata)
    block = own.get("block")
    if is_object(block):
        return block
    if not part.text.strip():
        return None
    citations = _citations(own)
    return {"type": "text", "text": part.text, **({"citations": citations} if citations else {})}


def citations_of(block: Mapping[str, Any]) -> list[Any]:
    """Return the citations of a block or of the metadata of a part, unchanged. Return [] if they are not a list."""
    citations = block.get("citations")
    return list(citations) if is_array(citations) else []


def _citations(own: Mapping[str, Any]) -> list[JsonObject]:
    """Return citations in the form of a request: remove the fields that only responses have, and add a title."""
    citations: list[JsonObject] = []
    for citation in filter(is_object, citations_of(own)):
        is_result = citation.get("type") in ("web_search_result_location", "search_result_location")
        fields = {key: value for key, value in citation.items() if key != "file_id" and value is not None}
        citations.append({"title" if is_result else "document_title": None, **fields})
    return citations


def reasoning_block(part: ReasoningPart, unsigned: str | None = None) -> JsonObject | None:
    """Return the block of reasoning, or None if the server rejects it.

    Anthropic accepts only thinking that it signed. Another server with Anthropic's API does not sign its thinking, but
    requires it in later requests: `unsigned` names the model that wrote such thinking.
    """
    own = own_metadata(part.metadata)
    if own.get("redacted_data"):
        return {"type": "redacted_thinking", "data": own["redacted_data"]}
    is_unsigned = unsigned is not None and own.get("unsigned") == unsigned
    if not (own.get("signature") or is_unsigned):
        return None
    signature = {"signature": own["signature"]} if "signature" in own else {}
    return {"type": "thinking", "thinking": part.text, **signature}


def made_file_block(part: FilePart) -> JsonObject | None:
    """Return the block of a file from the model's container, or None for other files, which the API rejects here."""
    if own_metadata(part.metadata).get("type") != "container_upload" or not isinstance(part.data, FileUrl):
        return None
    return {"type": "container_upload", "file_id": part.data.url}


def call_block(part: ToolCallPart, tools: PreparedTools) -> JsonObject:
    """Return the block of a call of a local tool in the model's form.

    Anthropic's documentation names a key for arguments that are not JSON.
    """
    wire = tools.wire_call(part.name, part.params)
    own = own_metadata(part.metadata)
    given: Any = {} if wire.params is None else wire.params
    if part.params_text is not None:
        given = {"INVALID_JSON": part.params_text}
    elif not is_object(given):
        given = {"INVALID_JSON": json_of(given).decode()}
    caller = {"caller": own["caller"]} if is_object(own.get("caller")) else {}
    toolset = {} if (named := toolset_of(part, wire.toolset)) is None else {"toolset_name": named}
    block = {"type": "tool_use", "id": part.id, "name": wire.name, "input": given}
    return with_cache({**block, **caller, **toolset}, part.metadata)


def toolset_of(part: ToolCallPart, toolset: str | None) -> str | None:
    """Return the toolset of a call: the set of its tool, or the set in the original call if the tool was removed."""
    named = own_metadata(part.metadata).get("toolset_name")
    return named if toolset is None and isinstance(named, str) else toolset


def hosted_block(part: ToolCallPart | ToolResultPart) -> JsonObject | None:
    """Return the block of a call that Anthropic ran, or of its result. Return None for a call of another provider."""
    own = own_metadata(part.metadata)
    if "type" not in own:
        return None
    if part.type == "tool-call":
        name = _RULES.tool_names.of(str(own.get("name", part.name)))
        body: JsonObject = {"id": part.id, "name": name, "input": part.params or {}}
    else:
        body = {"tool_use_id": part.id, "content": without_nulls(part.result)}
    extras = {key: value for key, value in own.items() if key not in ("name", "cache_control", "beside")}
    return with_cache({**extras, **body}, part.metadata)


def _content(result: Any, lost: Callable[[FilePart], None]) -> str | list[JsonObject] | None:
    """Convert a result for the model: a string unchanged, text and images as blocks, any other value as JSON text.

    The function calls `lost` with each file that the API does not accept. A note to the model replaces the file.
    """
    if result is None:
        return None
    if isinstance(result, str):
        return result
    if is_object(result) and result.get("type") == "execution-denied":
        return str(result.get("reason") or "Tool call execution denied.")
    contents = [  # the API rejects empty text
        one
        for one in (result if is_array(result) else ())
        if not (is_object(one) and one.get("type") == "text" and not str(one.get("text", "")).strip())
    ]
    blocks = [_content_block(one, lost) for one in contents]
    known = [block for block in blocks if block is not None]
    return known if known and len(known) == len(blocks) else json_of(result).decode()


def _is_reference(one: Any) -> bool:
    return is_object(one) and one.get("type") == "tool_reference" and "tool_name" in one


def _content_block(one: Any, lost: Callable[[FilePart], None]) -> JsonObject | None:
    """Return a block of a result from the API's own form, or from a `ToolContent` or `FilePart`."""
    if not is_object(one):
        return None
    kind, fields = one.get("type"), frozenset(one) - {"type", "cache_control"}
    if kind in ("image", "file") and {"media_type", "data"} <= fields <= _FILE_FIELDS:
        return _picture_block(one, lost)
    needed = _BLOCK_FIELDS.get(kind) if isinstance(kind, str) else None
    if needed is None or not needed <= fields:
        return None
    source = one.get("source")
    if kind in ("image", "document") and is_object(source) and source.get("type") == "base64":
        block = _picture_block({name: source.get(name) for name in ("media_type", "data")}, lost)
        return one if block is not None and (block.get("type"), block.get("source")) == (kind, source) else block
    return one


def _picture_block(one: JsonObject, lost: Callable[[FilePart], None]) -> JsonObject | None:
    try:
        part = msgspec.convert({**one, "type": "file"}, FilePart)
    except msgspec.ValidationError:
        return None  # the caller sends the value as JSON text
    try:
        return file_block(part)
    except PreparationError:
        lost(part)
        return {"type": "text", "text": file_note(part)}


def _loss(part: AssistantContent, _turn: AssistantMessage, unsigned: str | None = None) -> str | None:
    """Return the reason why fxai omits a part of a turn, or None if the API accepts it."""
    if part.type == "reasoning" and reasoning_block(part, unsigned) is None:
        what = "reasoning that Anthropic did not sign"
    elif part.type == "file" and made_file_block(part) is None:
        what = f"a generated file of type {part.media_type!r}"
    elif isinstance(part, ToolCallPart | ToolResultPart) and part.provider_executed and hosted_block(part) is None:
        what = f"a call or result of {part.name!r} at another provider"
    else:
        return None
    return f"{what} is omitted from the history: Anthropic's Messages API rejects it"


_IDS: Final = IdRule("a-zA-Z0-9_-")
_RULES: Final = HistoryRules(
    name=MESSAGES.name,
    provider=NAME,
    tool_names=NameRule(MESSAGES.longest_name),
    call_ids=_IDS,
    hosted_ids=_IDS,
    loss=_loss,
    is_block=lambda part: (
        part.type != "tool-approval-request" and (part.type != "text" or text_block(part) is not None)
    ),
)
CACHE_MARKS: Final = (b'"cache_control"', b'"ttl"')
"""The JSON text of a mark for the cache and of its lifetime."""
_UNMARKED: Final = ("thinking", "redacted_thinking", "fallback")  # blocks that cannot have a mark for the cache


@final
class Document(msgspec.Struct, frozen=True):
    """A document of the request. Citations contain its index among all documents."""

    media_type: str | None = None
    title: str | None = None


@final
class History(msgspec.Struct, frozen=True):
    """A prompt in the form of Anthropic's API: the system prompt, the messages, and their effects on the request."""

    system: list[JsonObject]
    messages: list[JsonObject]
    documents: tuple[Document, ...] = ()
    container: str | None = None
    """The container of the program that needs the results of the last calls."""
    betas: tuple[str, ...] = ()
    """The beta features that the history requires."""
    added: frozenset[str] = frozenset()
    """The tools that the messages define, by their Anthropic names. The request must not define them again."""
    notes: tuple[str, ...] = ()
    """Changes that depend on the end of the history, as messages of warnings."""

    def __hash__(self) -> int:
        return hash(self.documents)  # the other fields are not hashable


_NO_TOOLS: Final[frozenset[str]] = frozenset()
_SYSTEM: Final = "<system>\n{}\n</system>"  # a system message in a user message
_NO_MESSAGE: Final = "nothing to answer: the prompt has only system messages and blank messages. Add a user message."
_BY_NAME: Final = "mid-conversation-tool-changes-2026-07-01"
_BY_VALUE: Final = "inline-tools-2026-09-15"


@final
class _ToolChanges:
    """A writer of the changes of tools in a conversation, with the definitions or the names of the tools."""

    def __init__(self, tools: PreparedTools, notes: Notes) -> None:
        self._tools = tools
        self._notes = notes
        self._definitions: dict[str, JsonObject] | None = None
        self.added: set[str] = set()
        """The tools that a message defines, by their Anthropic names."""
        self.betas: dict[str, None] = {}
        """The beta features that the changes use."""
        self._removed: set[str] = set()  # to add these tools again, their names are sufficient

    def blocks(self, message: SystemMessage) -> list[JsonObject]:
        """Return the blocks of the changes in a system message."""
        blocks = [block for name in message.added_tools if (block := self._add(name)) is not None]
        for name in message.removed_tools:
            if self._definition(name) is not None:
                wire = self._tools.naming.sent(name)
                self._removed.add(wire)
                self.betas[_BY_VALUE if self.added else _BY_NAME] = None
                blocks.append({"type": "tool_removal", "tool": {"type": "tool_reference", "name": wire}})
        return blocks

    def leave(self, message: SystemMessage) -> None:
        """Add a warning for each change of a message that the request cannot contain."""
        for name in message.removed_tools:
            problem = (
                f"tool {name!r} remains: the model, or the API at this position, does not support changes of tools"
            )
            self._notes.warn("unsupported-option", name, problem)

    def _add(self, name: str) -> JsonObject | None:
        wire = self._tools.naming.sent(name)
        definition = self._definition(name)
        if definition is None:
            return None
        if definition.get("defer_loading") or wire in self.added or wire in self._removed:
            self.betas[_BY_VALUE if wire in self.added else _BY_NAME] = None
            return {"type": "tool_addition", "tool": {"type": "tool_reference", "name": wire}}
        self.added.add(wire)
        self.betas[_BY_VALUE] = None
        plain = {key: value for key, value in definition.items() if key != "cache_control"}
        return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": plain}}

    def _definition(self, name: str) -> JsonObject | None:
        if self._definitions is None:
            self._definitions = {str(tool.get("name")): tool for tool in self._tools.tools}
        definition = self._definitions.get(self._tools.naming.sent(name))
        if definition is None:
            problem = f"tool {name!r} is added or removed in the conversation, but is not a tool of the request"
            self._notes.warn("unsupported-tool", name, problem)
        return definition


@final
class HistoryWriter:
    """A writer of the messages of a history. You can append messages later.

    Args:
        tools: The tools of the request, for the names and the strict forms of calls.
        facts: The facts of the model, complete. If the model or the API rejects the position of a system message, the
            message becomes a marked part of a user message. If the model binds thinking, the writer computes digests.
        unsigned: The model whose thinking without a signature is sent back. See `reasoning_block`.
    """

    def __init__(self, tools: PreparedTools, facts: ModelFacts, unsigned: str | None = None) -> None:
        self._unsigned = unsigned
        self.notes: Notes = Notes()
        """Warnings for omitted parts of the prompt."""
        self._written: Sequence[Message] = ()
        self._tools = tools
        self._facts = facts
        self._system: list[JsonObject] = []
        self._messages: list[JsonObject] = []
        self._text = HistoryText(CACHE_MARKS)
        self._is_misplaced = False  # True if a message that is not an answer follows a system message
        self._documents: list[Document] = []
        self._container: str | None = None
        self._changes = _ToolChanges(tools, self.notes)
        self._form = HistoryForm(msgspec.structs.replace(_RULES, loss=partial(_loss, unsigned=unsigned)), tools.naming)
        self._ends_in_system = False
        self._has_fallback = False  # True if a block marks the point where another model continued
        self._declined: set[str] = set()  # the ids of calls of models that declined their turn
        self._digest: PrefixDigest | None = PrefixDigest() if facts.binds_thinking else None
        self.thoughts: list[Thought] = []
        """The thinking blocks in order, if the model binds them."""

    @property
    def warnings(self) -> list[WarningPart]:
        """Warnings for changes of the history and for omitted parts."""
        return [*self._form.warnings, *self.notes.warnings]

    @property
    def is_extensible(self) -> bool:
        """True if you can append messages without changing the written messages."""
        return self._form.is_extensible and not self._ends_in_system

    @property
    def ends_in_answer(self) -> bool:
        """True if the last message is an answer of the model."""
        return self._last_role == "assistant"

    @property
    def _last_role(self) -> str | None:
        return self._messages[-1]["role"] if self._messages else None

    @property
    def digest(self) -> str:
        """The digest of all content until now. Empty if the model does not bind thinking."""
        return "" if self._digest is None else self._digest.hexdigest()

    def write(self, messages: Sequence[Message]) -> None:
        """Write the next messages.

        Raises `PreparationError` if fxai cannot send a file, or if a call has no result.
        """
        self._written = formed = self._form.add(messages)
        for index, message in enumerate(formed):
            self._add(message, index)
        self._written = ()
        if formed:
            self._ends_in_system = formed[-1].role == "system"

    def _add(self, message: Message, location: int) -> None:
        match message:
            case SystemMessage():
                self._add_system(message, location)
            case UserMessage():
                made = [(one, text_block(one) if one.type == "text" else file_block(one)) for one in message.content]
                blocks = [with_cache(block, part.metadata) for part, block in made if block is not None]
                self._write_message("user", blocks, message.metadata)
            case AssistantMessage():
                turn = [(part, block) for part in message.content if (block := self._block(part)) is not None]
                turn = self._without_declined(turn)
                if self._digest is not None:
                    self.thoughts += _thoughts(turn, self._digest.hexdigest())
                self._write_message("assistant", [block for _, block in turn], message.metadata)
                ids = (own_metadata(part.metadata).get("container") for part in message.content if part.type == "text")
                self._container = next((id_ for id_ in ids if isinstance(id_, str)), None)
            case ToolMessage():  # the provider does not receive answers to approval requests
                results = [part for part in message.content if part.type == "tool-result"]
                answers = [self._answer(part) for part in results if part.id not in self._declined]
                self._write_message("user", answers, {})

    def history(self, left_out: frozenset[int] = frozenset()) -> History:
        """Return the history without the thinking blocks whose `id` is in `left_out`. Later messages do not change it.

        Raises `PreparationError` if the history has no message.
        """
        if not self._messages:
            raise refusal(_NO_MESSAGE)
        notes: list[str] = []
        written = self._messages
        if left_out:
            written = list[JsonObject]()
            for one in self._messages:
                _append(written, one["role"], [block for block in one["content"] if id(block) not in left_out])
        moved, written = _demote(written, notes) if self._is_misplaced or left_out else (_NO_TOOLS, written)
        if not written:
            raise refusal(_NO_MESSAGE)
        return History(
            list(self._system),
            self._end(written, notes),
            tuple(self._documents),
            self._container,
            (*self._changes.betas, *((FALLBACK_BETA,) if self._has_fallback else ())),
            frozenset(self._changes.added - moved),
            tuple(notes),
        )

    def _end(self, written: list[JsonObject], notes: list[str]) -> list[JsonObject]:
        """Return the messages with a valid end: a prefill without trailing space, or no prefill."""
        is_whole = written is self._messages
        messages = self._text.copy(written, len(written) - 1) if is_whole else list(written)
        last = messages[-1]
        content = list(last["content"])  # the writer can extend the last message later
        messages[-1] = {**last, "content": content}
        if last["role"] != "assistant" or content[-1].get("type") != "text":
            return messages
        if self._facts.prefill:
            content[-1] = {**content[-1], "text": content[-1]["text"].rstrip()}
            return messages
        problem = f"model {self._facts.model!r} does not accept an assistant message at the end"
        notes.append(f"{problem}: fxai appends a user message that asks it to continue")
        messages.append({"role": "user", "content": [{"type": "text", "text": "Continue."}]})
        return messages

    def _add_system(self, message: SystemMessage, location: int) -> None:
        text = {"type": "text", "text": message.content}
        blocks = [with_cache(text, message.metadata)] if message.content.strip() else []
        behind = next((one.role for one in self._written[location + 1 :] if one.role != "system"), "assistant")
        # the API accepts a system message after a user message and before the model's turn
        if self._facts.system_between and self._last_role in ("user", "system") and behind == "assistant":
            self._write_message("system", [*blocks, *self._changes.blocks(message)], {})
            return
        self._changes.leave(message)
        if self._messages:  # the head was sent before; changing it would break the prefix
            marked = [{**block, "text": _SYSTEM.format(block["text"])} for block in blocks]
            self._write_message("user", marked, {})
        else:
            self._system += blocks

    def _without_declined(
        self, made: list[tuple[AssistantContent, JsonObject]]
    ) -> list[tuple[AssistantContent, JsonObject]]:
        """Remove the calls of a model that declined its turn from the blocks.

        Another model answered after the `fallback` block, and the API rejects the calls before it.
        """
        last = max((at for at, (_, block) in enumerate(made) if block.get("type") == "fallback"), default=-1)
        if last < 0:
            return made
        self._has_fallback = True
        declined = {block["id"] for _, block in made[:last] if block.get("type") == "tool_use"}
        if declined:
            problem = "calls of a model that declined the turn are omitted from the history: Anthropic rejects them"
            self.notes.warn("other", None, problem)
        self._declined |= declined
        return [one for one in made if one[1].get("type") != "tool_use" or one[1]["id"] not in declined]

    def _write_message(self, role: str, blocks: list[JsonObject], metadata: Metadata) -> None:
        if not blocks:
            return
        last = next((at for at in reversed(range(len(blocks))) if blocks[at].get("type") not in _UNMARKED), None)
        if last is not None:
            blocks[last] = with_cache(blocks[last], metadata)
        if self._last_role == role:
            self._messages[-1]["content"] += blocks
        else:
            self._is_misplaced |= role != "assistant" and self._last_role == "system"
            self._messages.append({"role": role, "content": list(blocks)})
        self._documents += _documents(blocks)
        if self._digest is not None:
            for block in blocks:
                self._digest.add(role, block)

    def _block(self, part: AssistantContent) -> JsonObject | None:
        match part.type:
            case "text":
                block = text_block(part)
                return None if block is None else with_cache(block, part.metadata)
            case "reasoning":
                return reasoning_block(part, self._unsigned)
            case "file":
                return made_file_block(part)
            case "tool-call" | "tool-result":
                if part.type == "tool-call" and not part.provider_executed:
                    return call_block(part, self._tools)
                return hosted_block(part)
            case "tool-approval-request":
                return None

    def _answer(self, result: ToolResultPart) -> JsonObject:
        def note_loss(part: FilePart) -> None:
            what = f"a file of type {part.media_type!r} in a tool's result"
            self.notes.warn("history", None, f"{what} is omitted: Anthropic's Messages API rejects it")

        call, part = self._form.call(result.id), self._with_references(result)
        wire = None if call is None else self._tools.wire_call(call.name, call.params)
        fields = {
            "content": _content(part.result, note_loss),
            "is_error": part.is_failure or None,
            "toolset_name": None if call is None or wire is None else toolset_of(call, wire.toolset),
        }
        known = {name: value for name, value in fields.items() if value is not None}
        return with_cache({"type": "tool_result", "tool_use_id": part.id, **known}, part.metadata)

    def _with_references(self, part: ToolResultPart) -> ToolResultPart:
        """Return the result of a search as references to the deferred tools that it lists.

        A result without deferred tools stays unchanged, so that the model reads its note. Any other result refers only
        to tools of the request, because the API rejects other references.
        """
        if part.name not in self._tools.finders or part.is_failure:
            names = [one["tool_name"] for one in part.result if _is_reference(one)] if is_array(part.result) else []
            gone = [name for name in names if name not in self._tools.names]
            if not gone:
                return part
            self.notes.warn("history", part.name, f"references to tools outside this request are omitted: {gone}")
            kept = [one for one in part.result if not _is_reference(one) or one["tool_name"] not in gone]
            texts = [{"type": "text", "text": f"(the tool {name!r} is not available now)"} for name in gone]
            return msgspec.structs.replace(part, result=[*kept, *texts])
        deferred = {tool.get("name") for tool in self._tools.plain_fields.get("tools", ()) if tool.get("defer_loading")}
        found = [self._tools.naming.sent(name) for name in found_names(part.result)]
        references = [{"type": "tool_reference", "tool_name": wire} for wire in found if wire in deferred]
        return msgspec.structs.replace(part, result=references) if references else part


def _thoughts(made: Sequence[tuple[AssistantContent, JsonObject]], messages: str) -> Iterator[Thought]:
    """Yield the thinking blocks of an answer with the digests of the content before them."""
    within, is_first = PrefixDigest(), True
    for part, block in made:
        if part.type == "reasoning":
            bound = Bound.of_metadata(own_metadata(part.metadata))
            yield Thought(block, bound, messages, "" if is_first else within.hexdigest())
        else:
            within.add_essence(block)
            is_first = False


def _append(kept: list[JsonObject], role: str, content: list[Any]) -> None:
    """Append a message, or its content to a last message with the same role. Omit an empty message."""
    if kept and kept[-1]["role"] == role:
        kept[-1] = {**kept[-1], "content": [*kept[-1]["content"], *content]}
    elif content:
        kept.append({"role": role, "content": content})


def _demote(messages: list[JsonObject], notes: list[str]) -> tuple[frozenset[str], list[JsonObject]]:
    """Convert system messages without a following answer to marked parts of user messages. The API rejects them.

    Such a message remains if the history omits the turn after it. Return the tools that these messages define. The
    request must define these tools itself.
    """
    after = [one["role"] for one in messages[1:]] + ["assistant"]
    if all(one["role"] != "system" or role == "assistant" for one, role in zip(messages, after, strict=True)):
        return _NO_TOOLS, messages
    kept: list[JsonObject] = []
    added: set[str] = set()
    for one, follows in zip(messages, after, strict=True):
        role, content = one["role"], one["content"]
        if role == "system" and follows != "assistant":
            definitions = [block["tool"]["definition"] for block in content if "definition" in block.get("tool", {})]
            added.update(str(definition["name"]) for definition in definitions)
            texts = [block for block in content if block["type"] == "text"]
            role, content = "user", [{**block, "text": _SYSTEM.format(block["text"])} for block in texts]
        _append(kept, role, content)
    notes.append("a system message became part of a user message: the model's answer does not follow it")
    return frozenset(added), kept


def _documents(blocks: Sequence[JsonObject]) -> Iterator[Document]:
    """Yield the documents in order, including the documents in tool results."""
    for block in blocks:
        inside = block.get("content")
        for one in (block, *(inside if is_array(inside) else ())):
            if is_object(one) and one.get("type") == "document":
                source = one.get("source")
                yield Document(source.get("media_type") if is_object(source) else None, one.get("title"))
