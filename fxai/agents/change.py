r"""Append the changes between two steps to a conversation. Use this module to keep the prefix of requests unchanged.

With `changes="rewrite"`, each request shows the new state at its usual position. That changes the start of the request,
so the provider cannot reuse its cache, and some models refuse their own earlier thinking.

With `changes="append"`, the start of the request stays unchanged. fxai appends each change to the conversation, and
retracts removed definitions there. A change can concern instructions, sections, messages, or tools. The messages carry
the changes in their metadata. Therefore, memories, chats, and stored histories contain the changes, and the next run
continues with the same state.

>>> from fxai.tools.toolkit import Toolkit
>>> basic, expert = (SectionText("system", f"<mode>\n{mode}\n</mode>") for mode in ("basic", "expert"))
>>> appending = Appending()
>>> plan = appending.plan(Prompt.make("Hello"), Toolkit.empty(), Shown({"mode": basic}))
>>> appending.keep(plan)
>>> changed = Shown({"mode": expert})
>>> print(appending.plan(plan.conversation + Prompt.make("More."), Toolkit.empty(), changed).messages[-1].content)
The section <mode> changed. It now reads:
<mode>
expert
</mode>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, cast, final, get_args

import msgspec
from returns.result import Success

from fxai.agents.section import SectionText, join_sections, reference_to
from fxai.messages.message import Message, SystemMessage
from fxai.messages.prompt import Prompt
from fxai.models.approval import describe_tool
from fxai.models.cut import COMPACTION
from fxai.models.growth import lead_of
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import AnyToolkit

Changes: TypeAlias = Literal["auto", "append", "rewrite"]
"""The position of a changed instruction, section, message, or tool in a request.

`append`: at the end of the conversation. `rewrite`: at the usual position. `auto`: `append` if the facts of the model
state that it binds thinking to its prefix, otherwise `rewrite`.
"""

_KEY: Final = "fxai"  # the key in the metadata of a message
_INSTRUCTIONS: Final = "instructions"
_LENGTH: Final = 16


def check_changes(given: object) -> Changes:
    """Return the policy. Raise `ValueError` if the value is not a policy."""
    if given in get_args(Changes):
        return cast(Changes, given)
    raise ValueError(f"changes must be 'auto', 'append', or 'rewrite', got {given!r}")


@final
class Shown(msgspec.Struct, frozen=True, eq=False):
    """The definitions for a step that its request shows next to the conversation."""

    sections: Mapping[str, SectionText] = {}
    """The sections by name."""
    messages: tuple[Message, ...] = ()
    """The messages before the conversation."""
    behind: tuple[Message, ...] = ()
    """The messages after the conversation, for this step only."""

    @property
    def front(self) -> tuple[Message, ...]:
        """The definitions at their usual position: the system message of all sections, then the messages."""
        system = (SystemMessage(join_sections(self.sections)),) if self.sections else ()
        return (*system, *self.messages)


NOTHING: Final = Shown()
"""The definitions for a step without a stateful prompt."""


@final
class _Known(msgspec.Struct, frozen=True, eq=False):
    """The state that a reader of the conversation knows: the digest of each definition by its key."""

    head: tuple[Message, ...]
    """The first messages in each request."""
    state: Mapping[str, str]
    declared: Mapping[str, str]
    """The digests of all tools since the start by name. A retracted tool stays declared."""
    start: int
    """The index of the message that carries the head. The head includes all changes before this message."""


@final
class Plan(msgspec.Struct, frozen=True, eq=False):
    """The request of a step with appended changes."""

    conversation: Prompt
    """The conversation. Its last message carries the changes of this step."""
    messages: Prompt
    """The messages that the model receives."""
    tools: tuple[AnyTool, ...]
    """The declared tools. fxai executes only calls of the tools in the step."""
    known: _Known
    mark: _Mark | None = None
    """The changes of this step for the metadata of the conversation, or None."""

    def carry(self, history: Prompt) -> Prompt:
        """Return the history of the same conversation, with the changes of this step in its last message."""
        return history if self.mark is None or not len(history) else self.mark.on(history)


@final
class Appending:
    """The requests of a run that appends changes.

    If `changes_tools` is false, the model accepts no added tools between messages. An added tool is then a break, and
    the head shows the new state. The tools of earlier runs of the conversation stay declared.
    """

    def __init__(self, *, changes_tools: bool = False, tools: Iterable[AnyTool] = ()) -> None:
        self._changes_tools = changes_tools
        self._tools = {tool.name: tool for tool in tools}
        self._known: _Known | None = None
        self._read: Prompt | None = None  # the conversation of the last step
        self._messages = Prompt()  # the messages of the last request

    def plan(self, conversation: Prompt, toolkit: AnyToolkit, shown: Shown) -> Plan:
        """Return the request of the next step, with its changes of tools and other definitions at the end."""
        self._catch_up(conversation)
        lead = lead_of(conversation)
        wanted = _state_of(conversation, lead, toolkit, shown)
        known, declared = self._known, None
        if known is not None:
            declared = self._declare(known, toolkit, wanted)
        if known is None or declared is None:
            return _restart(conversation, lead, toolkit, shown, wanted)
        after = _changes(known.state, wanted, conversation, lead, shown)
        if not after or conversation[-1].role == "assistant":  # a request cannot add messages after a paused turn
            return Plan(conversation, self._messages, declared, known)
        changed = {key: digest for key, digest in wanted.items() if known.state.get(key) != digest}
        gone = [key for key in known.state if key not in wanted]
        mark = _Mark(None, Prompt(after).to_data(), changed, gone)
        digests = {tool.name: _digest_of(tool) for tool in declared}
        known = _Known(known.head, wanted, digests, known.start)
        return Plan(mark.on(conversation), self._messages.extend(after), declared, known, mark)

    def keep(self, plan: Plan) -> None:
        """Record that the model receives the request."""
        self._known, self._read, self._messages = plan.known, plan.conversation, plan.messages
        self._tools = {tool.name: tool for tool in plan.tools}

    def forget(self) -> None:
        """Read the next conversation completely, because a compaction changed its earlier messages."""
        self._read = None

    def _catch_up(self, conversation: Prompt) -> None:
        """Add the messages since the last step to the messages in the request."""
        read = self._read
        count = 0 if read is None else len(read)
        if read is not None and 0 < count <= len(conversation) and conversation[count - 1] is read[count - 1]:
            self._messages = self._messages.extend(conversation[at] for at in range(count, len(conversation)))
        else:
            self._known = _read(conversation)
            self._messages = Prompt() if self._known is None else Prompt(_expand(conversation, self._known))
        self._read = conversation

    def _declare(self, known: _Known, toolkit: AnyToolkit, wanted: Mapping[str, str]) -> tuple[AnyTool, ...] | None:
        """Return the tools in the request, or None if they break the prefix in any case."""
        declared: list[AnyTool] = []
        for name, digest in known.declared.items():
            tool = toolkit.tools.get(name) or self._tools.get(name)
            if tool is None or (wanted.get(_tool_key(name)) or _digest_of(tool)) != digest:
                return None
            declared.append(tool)
        added = [tool for tool in toolkit if tool.name not in known.declared]
        return None if added and not self._changes_tools else (*declared, *added)


# -- the state of a step


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:_LENGTH]


def _digest_of(tool: AnyTool) -> str:
    try:
        return _digest(msgspec.json.encode([describe_tool(tool), tool.description], order="sorted"))
    except (TypeError, ValueError):
        return _digest(tool.name.encode())


def _tool_key(name: str) -> str:
    return f"tool/{name}"


def _message_key(message: Message) -> str:
    return f"message/{_digest(json.dumps(Prompt((message,)).to_data()).encode())}"


def _texts(conversation: Prompt, lead: int) -> str:
    return "\n\n".join(one.content for one in islice(conversation, lead) if one.role == "system")


def _state_of(conversation: Prompt, lead: int, toolkit: AnyToolkit, shown: Shown) -> dict[str, str]:
    """Return the state that the step must show."""
    state = {_INSTRUCTIONS: _digest(_texts(conversation, lead).encode())} if lead else {}
    state |= {f"section/{name}": _digest(one.text.encode()) for name, one in shown.sections.items()}
    state |= {_message_key(message): "" for message in shown.messages}
    return state | {_tool_key(tool.name): _digest_of(tool) for tool in toolkit}


def _restart(conversation: Prompt, lead: int, toolkit: AnyToolkit, shown: Shown, wanted: Mapping[str, str]) -> Plan:
    """Return a request whose head shows the whole state, because the conversation is new or its prefix breaks."""
    head = (*islice(conversation, lead), *shown.front)
    mark = _Mark(Prompt(head).to_data(), Prompt(shown.behind).to_data(), dict(wanted))
    rest = map(_without_mark, islice(conversation, lead, None))
    known = _Known(head, wanted, {tool.name: wanted[_tool_key(tool.name)] for tool in toolkit}, len(conversation) - 1)
    marked = mark.on(conversation) if len(conversation) > lead else conversation
    return Plan(marked, Prompt((*head, *rest, *shown.behind)), toolkit.as_tuple, known, mark)


# -- changes as messages


def _changes(
    known: Mapping[str, str], wanted: Mapping[str, str], conversation: Prompt, lead: int, shown: Shown
) -> list[Message]:
    """Return the messages that turn the known state into the wanted state."""
    changed = [key for key, digest in wanted.items() if known.get(key) != digest]
    gone = [key for key in known if key not in wanted]
    after: list[Message] = [one for one in shown.messages if _message_key(one) in changed]
    after += shown.behind  # before the system messages, because the API accepts these messages only before the answer
    if _INSTRUCTIONS in changed:
        text = _texts(conversation, lead)
        after.append(SystemMessage(f"The instructions changed. These instructions replace the earlier ones:\n\n{text}"))
    elif _INSTRUCTIONS in gone:
        after.append(SystemMessage("The earlier instructions no longer apply."))
    lines = [line for key in changed for line in _tell_changed(key, key in known, shown)]
    lines += [line for key in gone for line in _tell_gone(key)]
    if lines:
        text, added, removed = "\n".join(lines), _names(changed), _names(gone)
        if added or removed:
            after.append(SystemMessage.change_tools(add=added, remove=removed, content=text))
        else:
            after.append(SystemMessage(text))
    return after


def _tell_changed(key: str, was_known: bool, shown: Shown) -> Iterator[str]:  # one of two sentences
    kind, _, name = key.partition("/")
    if kind == "section":
        yield f"The section {reference_to(name)} {'changed. It now reads' if was_known else 'is new'}:"
        yield join_sections({name: shown.sections[name]})
    elif kind == "tool":
        yield f"The tool {reference_to(name)} is available from now on."


def _tell_gone(key: str) -> Iterator[str]:
    kind, _, name = key.partition("/")
    if kind == "section":
        yield f"The section {reference_to(name)} no longer applies."
    elif kind == "tool":
        yield f"The tool {reference_to(name)} is no longer available. A call of this tool fails."
    elif kind == "message":
        yield "An earlier message of the program no longer applies."


def _names(keys: Iterable[str]) -> list[str]:
    return [key.partition("/")[2] for key in keys if key.startswith("tool/")]


# -- changes in the metadata of a conversation


@final
class _Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of a step, in the metadata of the last message before them."""

    head: list[Any] | None = None
    """The first messages in the request as JSON values, or None if the start did not change."""
    after: list[Any] = []
    """The messages after this message as JSON values."""
    set: dict[str, str] = {}
    """The digests of new and changed definitions by key."""
    gone: list[str] = []
    """The keys of removed definitions."""

    @staticmethod
    def of(message: Message) -> _Mark | None:
        """Return the changes after a message, or None if the message carries no valid changes."""
        if _KEY not in message.metadata:
            return None
        try:
            return msgspec.convert(message.metadata[_KEY], _Mark)
        except msgspec.ValidationError:
            return None

    def on(self, conversation: Prompt) -> Prompt:
        """Return the conversation with the changes in its last message, after the changes that this message has."""
        *before, last = conversation
        old, mark = _Mark.of(last), self
        if old is not None and self.head is None:  # a request with the same conversation
            gone = [key for key in (*old.gone, *self.gone) if key not in self.set]
            mark = _Mark(old.head, [*old.after, *self.after], {**old.set, **self.set}, gone)
        metadata = {**_without_mark(last).metadata, _KEY: msgspec.to_builtins(mark)}
        return Prompt((*before, msgspec.structs.replace(last, metadata=metadata)))


def _without_mark(message: Message) -> Message:
    if _KEY not in message.metadata:
        return message
    others = {key: value for key, value in message.metadata.items() if key != _KEY}
    return msgspec.structs.replace(message, metadata=others)


def copy_marks(messages: Iterable[Message], marked: Iterable[Message]) -> list[Message]:
    """Return messages with the changes that the same messages of another conversation carry, in the same order."""
    copied: list[Message] = []
    for message, other in zip(messages, marked, strict=True):
        marks = {key: other.metadata[key] for key in (_KEY, COMPACTION) if key in other.metadata}
        is_same = message.role == other.role and marks
        metadata = {**message.metadata, **marks} if is_same else message.metadata
        copied.append(msgspec.structs.replace(message, metadata=metadata) if is_same else message)
    return copied


def _read(conversation: Prompt) -> _Known | None:
    """Return the state that the conversation shows, or None if no run appended changes or a mark is damaged."""
    marks = [(at, mark) for at, message in enumerate(conversation) if (mark := _Mark.of(message)) is not None]
    last = next((number for number, (_, mark) in reversed([*enumerate(marks)]) if mark.head is not None), None)
    if last is None:
        return None
    state: dict[str, str] = {}
    declared: dict[str, str] = {}
    for _, mark in marks[last:]:
        state = {key: digest for key, digest in state.items() if key not in mark.gone} | mark.set
        declared |= {name: mark.set[_tool_key(name)] for name in _names(mark.set)}
    start, first = marks[last]
    return _Known(_messages(first.head), state, declared, start)


def _expand(conversation: Prompt, known: _Known) -> Iterator[Message]:
    """Yield the messages that the model received, and the new messages."""
    lead = lead_of(conversation)
    yield from known.head
    for at, message in enumerate(islice(conversation, lead, None), lead):
        yield _without_mark(message)
        mark = _Mark.of(message) if at >= known.start else None
        if mark is not None:
            yield from _messages(mark.after)


def _messages(data: object) -> tuple[Message, ...]:
    read = Prompt.from_data(data)
    return tuple(read.unwrap()) if isinstance(read, Success) else ()
