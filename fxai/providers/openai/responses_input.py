"""Prompts for OpenAI's Responses API: the `input` items and `instructions` of a request.

What came from the provider goes back as it came: its items are made again from their parts, with their ids and
encrypted content. What the API has no place for is noted.

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
"""How system messages are sent: those at the front as the request's instructions, or all as messages of a role."""

_Item: TypeAlias = dict[str, Any]


def input_item(part: TextPart | FilePart) -> _Item:
    """A text or a file of an input."""
    return _text_item(part.text, part) if part.type == "text" else input_file(part)


def _text_item(text: str, source: WithMetadata | None = None) -> _Item:
    extras: Mapping[str, Any] = {} if source is None else marks(source, "prompt_cache_breakpoint")
    return {"type": "input_text", "text": text, **extras}


def reply_items(parts: Iterable[AnyPart], offer: RequestTools) -> list[_Item]:
    """The items of a response in the history, exactly as the next request writes them."""
    writer = InputWriter(offer, has_results=False)
    writer.write([message for message in Prompt.from_parts(parts) if message.role == "assistant"])
    return writer.items


def digests_of(items: Sequence[Mapping[str, Any]], known: Sequence[bytes] = ()) -> tuple[bytes, ...]:
    """The digest of the first item, of the first two, and so on to all; `known` are the first ones of them.

    Each is made of the one before it and of one item, so it takes time by what is not known.

    Raises:
        PreparationError: JSON cannot carry an item.

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
    """Writes the messages of a history in order; further messages can be added later.

    Args:
        offer: The tools of the request: names and parameters of earlier calls are written as these are.
        system_role: How system messages are sent.
        stored: Whether the provider stored its answers: without, reasoning can go back in encrypted form alone.
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
        """What was written."""
        self.notes: Notes = Notes()
        """What could not be written."""
        self.added: set[str] = set()
        """The tools that come in the conversation, which the request does not have besides."""
        self.instructions: str | None = None
        """The system messages at the front, where they are sent as instructions."""
        self._digests: tuple[bytes, ...] = ()
        self._form = HistoryForm(_rules(stored, has_results), offer.prepared.naming)
        self._item_ids: set[str] = set()
        self._requests: set[str] = set()  # approval requests of the provider that have no answer yet
        self._offer = offer
        self._role = system_role
        self._kept: set[str] = set()  # tools that were removed: they stay
        self._leading: list[str] | None = [] if system_role == "instructions" else None

    @property
    def warnings(self) -> list[WarningPart]:
        """The changes of the history, and what of it could not be written."""
        return [*self._form.warnings, *self.notes.warnings]

    @property
    def is_extensible(self) -> bool:
        """Whether further messages can be added: once a message other than a leading system message is written."""
        return bool(self.items) and self._form.is_extensible

    def fields(self) -> dict[str, Any]:
        """The fields of the request: a copy, which what is written later does not change."""
        instructions = {} if self.instructions is None else {"instructions": self.instructions}
        return {**instructions, "input": list(self.items)}

    def digests(self) -> tuple[bytes, ...]:
        """The digests of what is written, as `digests_of`; those of earlier requests are not made anew."""
        self._digests = digests_of(self.items, self._digests)
        return self._digests

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages that come next.

        Raises:
            PreparationError: a call has no result; a file of a kind that the wire does not take.
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
            self.notes.warn_once(_explain(f"that the tool {name!r} is there no more", "its tools stay"))
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
        """A tool that comes here; None where it is there already, or is none of the request's."""
        wire = self._offer.definition(name)
        if wire is None:
            problem = f"the tool {name!r} comes in the conversation, and is none of those of the request"
            self.notes.warn("unsupported-tool", name, problem)
        if wire is None or name in self.added or name in self._kept:
            return None
        self.added.add(name)
        return {key: value for key, value in wire.items() if key != "defer_loading"}

    def assistant(self, message: AssistantMessage) -> None:
        """A turn of the model."""
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
                        self._other(part)
        self.items[start:] = [one for item in self.items[start:] if (one := self._distinct(item)) is not None]
        while len(self.items) > start and self.items[-1].get("type") == "reasoning":
            self.items.pop()  # the item after it was left out

    def _distinct(self, item: _Item) -> _Item | None:
        """Return an item whose id no other item has. None for reasoning and hosted calls that are there already.

        A history that was merged or copied has a turn twice, and the API refuses one id for two items.
        """
        id_, kind = item.get("id"), item.get("type", "message")
        is_output = str(kind).endswith("_output")  # some servers give an output the id of its call
        if not isinstance(id_, str) or is_output or id_ not in self._item_ids:
            self._item_ids |= {id_} if isinstance(id_, str) and not is_output else set()
            return item
        self.notes.warn_once(
            f"an item whose id {id_!r} another item has is sent without the id, or left out", "history"
        )
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
        if item is not None:
            self.items.append(item)
        if _kind(part) == "mcp_approval_request":
            self._requests.add(part.id)

    def _other(self, part: AssistantContent) -> None:
        kind = _kind(part)
        if part.type == "tool-result" and kind in ANSWERED:
            about = marks(part, "id", "caller")
            pair = {} if part.id == about.get("id") else {"call_id": part.id}
            self.items.append({"type": kind, **pair, **about, **part.result} | {"type": kind})

    def answers(self, message: ToolMessage) -> None:
        """Results of calls, and answers to the provider's own approval requests; approvals of ours are not sent."""
        for part in message.content:
            if part.type == "tool-result":
                call = self._form.call(part.id)
                if call is not None:
                    self.items.extend(output_of(part, call, self._offer, self._result_item))
                continue
            request = self._form.hosted_id(part.approval_id)
            if request is not None and request in self._requests:
                self._requests.discard(request)
                why = {} if part.reason is None else {"reason": part.reason}
                approves = part.approved and part.unanswered is None
                about = {"approval_request_id": request, "approve": approves}
                self.items.append({"type": "mcp_approval_response", **about, **why})

    def _result_item(self, part: TextPart | FilePart) -> _Item:
        """A text or a file of a tool's result; a note in place of a file that the API does not take."""
        if part.type == "text" or is_taken(part, input_file):
            return input_item(part)
        what = f"a file ({part.media_type}) that a tool gave"
        self.notes.warn_once(_explain(what, "it takes images and documents"), "history")
        return _text_item(file_note(part))


_WITHOUT_ID: Final = frozenset(OURS) - {"local_shell_call", "computer_call"}
"""The calls that need no id of an item."""

# -- the rules of the API for a history


def _rules(stored: bool, has_results: bool) -> HistoryRules:
    """Return the rules for a history.

    Args:
        stored: True if the provider stored its answers.
        has_results: False for a turn whose calls have no results yet.
    """
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
        may_wait=_is_async if has_results else _is_open,
        adapt=_adapt,
    )


def _is_async(call: ToolCallPart) -> bool:
    return bool(marks(call).get("async"))


def _is_open(_call: ToolCallPart) -> bool:
    return True


def _loss(stored: bool, part: AssistantContent, turn: AssistantMessage) -> str | None:
    """Return why a part of a turn cannot be sent. None if it can."""
    own, kind = marks(part), _kind(part)
    match part.type:
        case "text":
            item = own.get("item")
            return None if "item" not in own or _speaks(item) else ""
        case "reasoning" if "id" not in own:
            return _explain("reasoning that another wire or provider wrote", "it cannot check it")
        case "reasoning" if not (stored or any("encrypted_content" in marks(one) for one in _siblings(part, turn))):
            return _explain("reasoning without its encrypted content", "nothing is stored there")
        case "tool-call" if part.provider_executed and not is_hosted_type(kind):
            return _explain(f"the call of {part.name!r} that another provider ran", "it did not run it")
        case "tool-call" if part.provider_executed:
            results = {one.id: one for one in turn.content if one.type == "tool-result"}
            is_sent = hosted_item(part, results.get(part.id), {}) is not None
            return None if is_sent else _explain(f"the call of {part.name!r} that the provider ran", "it did not end")
        case "tool-result" if kind in ANSWERED and not is_object(part.result):
            return _explain(f"the result of {part.name!r}", "it is no item")
        case "file" if "id" not in own:
            return _explain(
                f"a file ({part.media_type}) that a model made", "it takes files from users and tools alone"
            )
        case _:
            return None


def _speaks(item: object) -> bool:
    """Return whether an item in metadata, which can be anything, is content of the model that pairs with no other."""
    kind = str(item.get("type", "message")) if is_object(item) else ""
    is_paired = kind.removesuffix("_output") in ("function_call", "custom_tool_call", "reasoning")
    return is_object(item) and item.get("role", "assistant") == "assistant" and not is_paired


def _explain(what: str, why: str) -> str:
    return f"{what} is not sent to {RESPONSES.name}: {why}"


def _siblings(part: AssistantContent, turn: AssistantMessage) -> list[AssistantContent]:
    """The parts of the same item."""
    return [one for one in turn.content if one.type == part.type and marks(one).get("id") == marks(part).get("id")]


def _is_block(part: AssistantContent) -> bool:
    """Return whether a part is an item of its own."""
    match part.type:
        case "text":
            return bool(part.text) or not marks(part).keys().isdisjoint(("id", "item"))
        case "tool-result":
            return _kind(part) in ANSWERED
        case kind:
            return kind == "tool-call"


def _adapt(part: AssistantContent) -> AssistantContent:
    """Return a part whose item has a legal id, or none."""
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
    """The type of the item that a part came as; whatever else stands there is none."""
    return str(marks(part).get("type", ""))


def _of_item(part: AssistantContent) -> tuple[str, Any]:
    """The kind of a part, and the item that it is a piece of: parts of one item are neighbours."""
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
