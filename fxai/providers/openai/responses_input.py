"""Prompts for OpenAI's Responses API. Use `InputWriter` to write the `input` items and `instructions` of a request.

The writer sends the provider's items back unchanged: it recreates them from their parts, with their ids and encrypted
content. It adds a warning for each unsupported part.

>>> from fxai.providers.openai.tool_encoding import prepare_tools
>>> writer = InputWriter(RequestTools(prepare_tools([], model="m")))
>>> writer.write(Prompt.make("Hello").set_system("Be brief.").messages)
>>> writer.instructions, writer.items
('Be brief.', [{'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'Hello'}]}])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    WithMetadata,
)
from fxai.messages.part import AnyPart, WarningPart
from fxai.messages.prompt import Prompt
from fxai.models.history_form import HistoryForm, HistoryRules
from fxai.models.prepared_tools import Notes, file_note, json_of
from fxai.models.request_cache import HistoryText
from fxai.providers.openai.media import input_file, is_taken
from fxai.providers.openai.options import NAME, marks
from fxai.providers.openai.tool_calls import (
    ANSWERED,
    CALL_IDS,
    ITEM_IDS,
    OURS,
    hosted_item,
    is_hosted_type,
    item_of,
    output_of,
)
from fxai.providers.openai.tool_encoding import RequestTools
from fxai.schema.data import is_array, is_object
from fxai.schema.request_form import RESPONSES
from fxai.tools.identity import NameRule

SystemRole: TypeAlias = Literal["instructions", "system", "developer"]
"""The role of system messages: instructions of the request for the first messages, or a role for all messages."""

_Item: TypeAlias = dict[str, Any]


def input_item(part: TextPart | FilePart) -> _Item:
    """Encode text or a file of an input."""
    return _text_item(part.text, part) if part.type == "text" else input_file(part)


def _text_item(text: str, source: WithMetadata | None = None) -> _Item:
    extras: Mapping[str, Any] = {} if source is None else marks(source, "prompt_cache_breakpoint")
    return {"type": "input_text", "text": text, **extras}


def reply_items(parts: Iterable[AnyPart], offer: RequestTools) -> list[_Item]:
    """Return the items of a response in their form in the next request."""
    writer = InputWriter(offer, has_results=False)
    writer.write([message for message in Prompt.from_parts(parts) if message.role == "assistant"])
    return writer.items


def digests_of(items: Sequence[Mapping[str, Any]], known: Sequence[bytes] = ()) -> tuple[bytes, ...]:
    """Return the digests of all prefixes of the items. `known` contains the digests of the first prefixes.

    Each digest depends on the previous digest and on one item, so the cost depends only on the new items.

    Raises:
        PreparationError: If JSON cannot represent an item.

    >>> first = digests_of([{"a": 1}])
    >>> digests_of([{"a": 1}, {"b": 2}], first) == digests_of([{"a": 1}, {"b": 2}])
    True
    """
    digests = list(known)
    for item in items[len(known) :]:
        before = digests[-1] if digests else b""
        digests.append(sha256(before + json_of(item, order="deterministic")).digest())
    return tuple(digests)


@final
class InputWriter:
    """A writer of the messages of a history. You can append messages later.

    Args:
        offer: The tools of the request. They determine the names and arguments of earlier calls.
        system_role: The role of system messages.
        stored: True if the provider stored its answers. If False, only encrypted reasoning can be sent back.
        has_results: False for a turn whose calls have no results yet.
    """

    def __init__(
        self,
        offer: RequestTools,
        *,
        system_role: SystemRole = "instructions",
        stored: bool = True,
        has_results: bool = True,
    ) -> None:
        self.items: list[_Item] = []
        """The written items."""
        self.text: HistoryText = HistoryText()
        """The JSON text of the items in the fields of earlier requests."""
        self.notes: Notes = Notes()
        """Warnings for omitted parts."""
        self.added: set[str] = set()
        """The tools that the conversation defines. The request does not contain them again."""
        self.instructions: str | None = None
        """The first system messages if the writer sends them as instructions."""
        self._digests: tuple[bytes, ...] = ()
        self._form = HistoryForm(_rules(stored, has_results), offer.prepared.naming)
        self._item_ids: set[str] = set()
        self._requests: dict[str, str] = {}  # the provider's unanswered approval requests, by the id of the call
        self._offer = offer
        self._role = system_role
        self._kept: set[str] = set()  # removed tools, which remain in the conversation
        self._leading: list[str] | None = [] if system_role == "instructions" else None

    @property
    def warnings(self) -> list[WarningPart]:
        """Warnings for changes of the history and for omitted parts."""
        return [*self._form.warnings, *self.notes.warnings]

    @property
    def is_extensible(self) -> bool:
        """True if you can append messages: after a message that is not one of the first system messages."""
        return bool(self.items) and self._form.is_extensible

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request as a copy. Later messages do not change it."""
        instructions = {} if self.instructions is None else {"instructions": self.instructions}
        return {**instructions, "input": self.text.copy(self.items, len(self.items))}

    def digests(self) -> tuple[bytes, ...]:
        """Return the digests of the items. The writer reuses the digests of earlier requests."""
        self._digests = digests_of(self.items, self._digests)
        return self._digests

    def write(self, messages: Sequence[Message]) -> None:
        """Write the next messages.

        Raises:
            PreparationError: If a call has no result, or if the API does not accept a file.
        """
        for message in self._form.add(messages):
            if message.role == "system":
                self._system(message)
                continue
            self._leading = None
            match message.role:
                case "user":
                    content = [input_item(part) for part in message.content]
                    self.items.append({"type": "message", "role": "user", "content": content})
                case "assistant":
                    self.assistant(message)
                case "tool":
                    self.answers(message)

    def _system(self, message: SystemMessage) -> None:
        tools = [wire for name in message.added_tools if (wire := self._new_tool(name)) is not None]
        if tools:
            self.items.append({"type": "additional_tools", "role": "developer", "tools": tools})
        for name in message.removed_tools:
            self._kept.add(name)
            self.notes.warn_once(_explain(f"the removal of the tool {name!r}", "it cannot remove tools"))
        if not message.content and (message.added_tools or message.removed_tools):
            return
        if self._leading is not None:
            self._leading.append(message.content)
            self.instructions = "\n\n".join(self._leading)
            return
        role = "developer" if self._role == "instructions" else self._role
        content = [_text_item(message.content, message)]
        self.items.append({"type": "message", "role": role, "content": content})

    def _new_tool(self, name: str) -> _Item | None:
        """Return a tool that the message adds. Return None if it already exists or is not a tool of the request."""
        wire = self._offer.definition(name)
        if wire is None:
            problem = f"tool {name!r} is added in the conversation, but is not a tool of the request"
            self.notes.warn("unsupported-tool", name, problem)
        if wire is None or name in self.added or name in self._kept:
            return None
        self.added.add(name)
        return {key: value for key, value in wire.items() if key != "defer_loading"}

    def assistant(self, message: AssistantMessage) -> None:
        """Write a turn of the model."""
        results = {part.id: part for part in message.content if part.type == "tool-result"}
        pictures = {str(marks(part).get("id")): part for part in message.content if part.type == "file"}
        start = len(self.items)
        for (kind, _), group in groupby(message.content, key=_of_item):
            parts: Any = list(group)
            match kind:
                case "text":
                    self._texts(parts)
                case "reasoning":
                    self._reasoning(parts)
                case "tool-call":
                    for part in parts:
                        self._call(part, results.get(part.id), pictures)
                case _:
                    for part in parts:
                        if part.type == "tool-result" and _kind(part) in ANSWERED:
                            about = marks(part, "id", "caller")
                            pair = {} if part.id == about.get("id") else {"call_id": part.id}
                            named = {"type": _kind(part)}
                            self.items.append({**named, **pair, **about, **part.result} | named)
        self.items[start:] = [one for item in self.items[start:] if (one := self._distinct(item)) is not None]
        while len(self.items) > start and self.items[-1].get("type") == "reasoning":
            self.items.pop()  # the item after the reasoning was omitted

    def _distinct(self, item: _Item) -> _Item | None:
        """Return an item with a unique id. Return None for a repetition of reasoning or of a hosted call.

        A merged or copied history can contain a turn twice. The API rejects two items with the same id.
        """
        id_, kind = item.get("id"), item.get("type", "message")
        is_output = str(kind).endswith("_output")  # some servers use the id of the call for its output
        if not isinstance(id_, str) or is_output or id_ not in self._item_ids:
            self._item_ids |= {id_} if isinstance(id_, str) and not is_output else set()
            return item
        self.notes.warn_once(f"an item with the repeated id {id_!r} is sent without the id or omitted", "history")
        if kind == "message":
            content = item.get("content")
            texts = [one.get("text", one.get("refusal", "")) for one in content] if is_array(content) else [content]
            return {"type": "message", "role": "assistant", "content": "".join(map(str, texts))}
        return {key: one for key, one in item.items() if key != "id"} if kind in _WITHOUT_ID else None

    def _texts(self, parts: list[TextPart]) -> None:
        first, message = marks(parts[0]), {"type": "message", "role": "assistant"}
        phase = marks(parts[0], "phase")
        if "item" in first:
            self.items.extend(dict(marks(part)["item"]) for part in parts)
        elif "id" not in first:
            self.items.extend({**message, **phase, "content": part.text} for part in parts if part.text)
        else:
            about = {"id": first["id"], "status": first.get("status", "completed"), **phase}
            self.items.append({**message, **about, "content": [_output(part) for part in parts]})

    def _reasoning(self, parts: list[ReasoningPart]) -> None:
        all_marks = {key: value for part in parts for key, value in marks(part).items()}
        content = _thoughts(parts, "content")
        item = {
            "type": "reasoning",
            "summary": _thoughts(parts, "summary"),
            **({"content": content} if content else {}),
        }
        extras = ("id", "encrypted_content", "status")
        self.items.append({**item, **{key: all_marks[key] for key in extras if key in all_marks}})

    def _call(self, part: ToolCallPart, result: ToolResultPart | None, pictures: dict[str, FilePart]) -> None:
        if not part.provider_executed:
            self.items.append(item_of(part, self._offer))
            return
        item = hosted_item(part, result, pictures)
        if item is not None and item["type"] == "mcp_approval_request":
            item = {"id": part.id, **item}
            self._requests[part.id] = str(item["id"])
        if item is not None:
            self.items.append(item)

    def answers(self, message: ToolMessage) -> None:
        """Write results of calls, and answers to the provider's approval requests. Omit fxai's own approvals."""
        for part in message.content:
            if part.type == "tool-result":
                call = self._form.call(part.id)
                if call is not None:
                    self.items.extend(output_of(part, call, self._offer, self._result_item))
                continue
            request = self._requests.pop(self._form.hosted_id(part.approval_id) or "", None)
            if request is not None:
                why = {} if part.reason is None else {"reason": part.reason}
                approves = part.approved and part.unanswered is None
                about = {"approval_request_id": request, "approve": approves}
                self.items.append({"type": "mcp_approval_response", **about, **why})

    def _result_item(self, part: TextPart | FilePart) -> _Item:
        """Encode text or a file of a tool result. A note replaces a file that the API does not accept."""
        if part.type == "text" or is_taken(part, input_file):
            return input_item(part)
        what = f"a file ({part.media_type}) in a tool result"
        self.notes.warn_once(_explain(what, "it accepts images and documents"), "history")
        return _text_item(file_note(part))


_WITHOUT_ID: Final = frozenset(OURS) - {"local_shell_call", "computer_call"}
"""The types of calls that need no item id."""

# -- the rules of the API for a history


def _rules(stored: bool, has_results: bool) -> HistoryRules:
    """Return the API's rules for a history. `InputWriter` documents the arguments."""
    return HistoryRules(
        name=RESPONSES.name,
        provider=NAME,
        tool_names=NameRule(RESPONSES.longest_name),
        call_ids=CALL_IDS,
        hosted_ids=ITEM_IDS,
        results_follow=False,
        blank_texts=True,
        loss=partial(_loss, stored),
        is_block=_is_block,
        may_wait=lambda call: not has_results or bool(marks(call).get("async")),
        adapt=_adapt,
    )


def _loss(stored: bool, part: AssistantContent, turn: AssistantMessage) -> str | None:
    """Return the reason why a part of a turn cannot be sent, or None if it can."""
    own, kind = marks(part), _kind(part)
    match part.type:
        case "text":
            item = own.get("item")
            kind = str(item.get("type", "message")) if is_object(item) else ""
            is_paired = kind.removesuffix("_output") in ("function_call", "custom_tool_call", "reasoning")
            speaks = is_object(item) and item.get("role", "assistant") == "assistant" and not is_paired
            return None if "item" not in own or speaks else ""  # an item needs no counterpart to be sent back
        case "reasoning" if "id" not in own:
            return _explain("reasoning of another API or provider", "it cannot verify it")
        case "reasoning" if not stored and not any(  # another part of the same item can have it
            one.type == "reasoning" and marks(one).get("id") == own["id"] and "encrypted_content" in marks(one)
            for one in turn.content
        ):
            return _explain("reasoning without its encrypted content", "it did not store the reasoning")
        case "tool-call" if part.provider_executed and not is_hosted_type(kind):
            return _explain(f"the call of {part.name!r} that another provider ran", "it did not run it")
        case "tool-call" if part.provider_executed:
            results = {one.id: one for one in turn.content if one.type == "tool-result"}
            is_sent = hosted_item(part, results.get(part.id), {}) is not None
            return None if is_sent else _explain(f"the call of {part.name!r} that the provider ran", "it did not end")
        case "tool-result" if kind in ANSWERED and not is_object(part.result):
            return _explain(f"the result of {part.name!r}", "it is not an item")
        case "file" if "id" not in own:
            return _explain(f"a generated file ({part.media_type})", "it accepts files only from users and tools")
        case _:
            return None


def _explain(what: str, why: str) -> str:
    return f"{what} is not sent to {RESPONSES.name}: {why}"


def _is_block(part: AssistantContent) -> bool:
    """Return True if the part becomes a separate item."""
    match part.type:
        case "text":
            return bool(part.text) or not marks(part).keys().isdisjoint(("id", "item"))
        case "tool-result":
            return _kind(part) in ANSWERED
        case kind:
            return kind == "tool-call"


def _adapt(part: AssistantContent) -> AssistantContent:
    """Return a part whose item has a valid id or no id."""
    own = dict(marks(part))
    id_, item = own.get("id"), own.get("item")
    if "id" in own and not (isinstance(id_, str) and ITEM_IDS.accepts(id_)):
        is_hosted = part.type == "file" or (isinstance(part, ToolCallPart | ToolResultPart) and part.provider_executed)
        own |= {"id": ITEM_IDS.of(str(id_))} if is_hosted else {}
        own = own if is_hosted else {key: value for key, value in own.items() if key not in ("id", "status")}
    if is_object(item) and "id" in item and not (isinstance(item["id"], str) and ITEM_IDS.accepts(item["id"])):
        own["item"] = {key: value for key, value in item.items() if key != "id"}
    return part if own == marks(part) else msgspec.structs.replace(part, metadata={**part.metadata, NAME: own})


def _kind(part: WithMetadata) -> str:
    """Return the item type of a part, or "" if the metadata contains no type."""
    return str(marks(part).get("type", ""))


def _of_item(part: AssistantContent) -> tuple[str, Any]:
    """Return the kind of a part and the key of its item. Parts of the same item are neighbors."""
    own = marks(part)
    return part.type, ("item" in own, own.get("id")) if part.type in ("text", "reasoning") else None


def _output(part: TextPart) -> _Item:
    if marks(part).get("refusal"):
        return {"type": "refusal", "refusal": part.text}
    annotations = marks(part).get("annotations", [])
    return {"type": "output_text", "text": part.text, "annotations": annotations, **marks(part, "logprobs")}


def _thoughts(parts: list[ReasoningPart], kind: str) -> list[_Item]:
    wire = "summary_text" if kind == "summary" else "reasoning_text"
    return [{"type": wire, "text": part.text} for part in parts if marks(part).get("kind") == kind]
