"""Cuts: the parts of a conversation that a model no longer receives. Compactions use this module.

A cut is relative to the end of a conversation, so that it stays valid if a memory drops older turns. The metadata of a
message records the cuts after it. The stored messages stay whole.

>>> turns = Prompt.make([{"role": "user", "content": one} for one in ("One", "Two", "Three")])
>>> [message.text for message in Cut(turns=1).of(turns)]
['Three']
>>> marked = Compacted((Cut(turns=1, summary="They counted."),)).mark(turns)
>>> len(marked), [message.role for message in read_compacted(marked)]
(3, ['user', 'user'])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import Any, Final, cast, final

import msgspec

from fxai.messages.calls import pending_in
from fxai.messages.message import Message, TextPart, ToolResultPart, UserMessage, handle_of
from fxai.messages.part import Usage
from fxai.messages.prompt import Prompt

COMPACTION: Final = "fxai_compaction"
"""The key of compactions in the metadata of a message."""
SAME_TURN: Final[Mapping[str, Any]] = {COMPACTION: {"same_turn": True}}
"""The metadata of a user message that continues the turn before it, such as a correction."""

CLEARED: Final = "The result was removed to save space. Call the tool again if you need it."
"""The text instead of a removed result."""


@final
class Cut(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of a conversation that a model no longer receives. It is relative to the end of the conversation."""

    turns: int | None = None
    """Number of newest turns that remain, or None for all turns."""
    steps: int | None = None
    """Number of newest steps of the newest turn that remain, or None for all steps."""
    summary: str | None = None
    """The text that replaces the removed messages, or None."""
    results: int | None = None
    """Number of newest results that remain, or None for all results."""
    exclude: tuple[str, ...] = ()
    """The names of tools whose results remain."""

    def of(self, prompt: Prompt) -> Prompt:
        """Return the messages that remain, or the prompt itself if all messages remain."""
        prompt = prompt if self.results is None else _clear(prompt, self.results, self.exclude)
        return prompt if self.turns is None else _drop(prompt, self.turns, self.steps, self.summary)


@final
class Compacted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a compaction before a request: what it removed, and the usage of its own request."""

    cuts: tuple[Cut, ...]
    """The cuts in their order."""
    removed: int = 0
    """Number of messages that the model no longer receives."""
    cleared: int = 0
    """Number of results that the model no longer receives."""
    usage: Usage = Usage()
    """The usage of the request for a summary."""

    def of(self, prompt: Prompt) -> Prompt:
        """Return the messages that remain."""
        return reduce(lambda left, cut: cut.of(left), self.cuts, prompt)

    def mark(self, history: Prompt) -> Prompt:
        """Return the whole history, whose last message records the cuts."""
        *before, last = history
        cuts = (*_cuts_of(last), *self.cuts)
        return Prompt((*before, _with_data(last, {**_data_of(last), "cuts": msgspec.to_builtins(cuts)})))


def read_compacted(history: Prompt) -> Prompt:
    """Return the messages that a model receives after the recorded compactions of a history.

    It returns the history itself if no message records a compaction.
    """
    if not any(COMPACTION in message.metadata for message in history):
        return history
    made: list[Message] = []
    for message in history:
        data = _data_of(message)
        if "cuts" not in data:
            made.append(message)
            continue
        made.append(_with_data(message, {key: value for key, value in data.items() if key != "cuts"}))
        made = [*Compacted(_cuts_of(message)).of(Prompt(made))]
    return Prompt(made)


def _cuts_of(message: Message) -> tuple[Cut, ...]:
    try:
        return msgspec.convert(_data_of(message).get("cuts", ()), tuple[Cut, ...])
    except msgspec.ValidationError:  # damaged: the model receives the whole history
        return ()


def _data_of(message: Message) -> Mapping[str, Any]:
    data = message.metadata.get(COMPACTION) if message.metadata else None
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}


def _with_data(message: Message, data: Mapping[str, Any]) -> Message:
    others = {key: value for key, value in message.metadata.items() if key != COMPACTION}
    return msgspec.structs.replace(message, metadata={**others, COMPACTION: data} if data else others)


# -- turns and results of a conversation


def turns_of(messages: Iterable[Message]) -> list[list[Message]]:
    """Return the turns of a conversation. Each turn starts with a user message, except perhaps the first turn."""
    turns: list[list[Message]] = []
    for message in messages:
        starts = message.role == "user" and not _data_of(message).get("same_turn")
        if starts or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _is_summary(message: Message) -> bool:
    return message.role == "user" and _data_of(message).get("summary") is True


def split_turns(prompt: Prompt) -> tuple[list[Message], list[list[Message]]]:
    """Return the system messages and summaries at the start of a conversation, and its turns."""
    messages = [*prompt]
    lead = next((at for at, one in enumerate(messages) if one.role != "system" and not _is_summary(one)), len(messages))
    return messages[:lead], turns_of(messages[lead:])


def _has_open_calls(messages: list[Message]) -> bool:
    return bool(pending_in(part for one in messages if one.role != "system" for part in one.content))


def _drop(prompt: Prompt, turns: int, steps: int | None, summary: str | None) -> Prompt:
    """Return the conversation without its older turns. A new summary replaces the summary before it."""
    lead, every = split_turns(prompt)
    start = max(len(every) - turns, 0)
    kept = [turn if at >= start or _has_open_calls(turn) else _systems(turn) for at, turn in enumerate(every)]
    if steps is not None and kept:
        kept[-1] = _shorten(kept[-1], steps)
    if summary is not None:
        lead = [*_systems(lead), _summary_message(summary)]
    made = [*lead, *(message for turn in kept for message in turn)]
    return prompt if len(made) == len(prompt) and summary is None else Prompt(made)


def _systems(messages: list[Message]) -> list[Message]:
    return [one for one in messages if one.role == "system"]


def _shorten(turn: list[Message], steps: int) -> list[Message]:
    """Return the newest turn with the messages that start it and its newest steps."""
    first = next((at for at, one in enumerate(turn) if one.role != "user"), len(turn))
    starts = [at for at, one in enumerate(turn) if one.role == "assistant"]
    if len(starts) <= steps or _has_open_calls(turn[: starts[-steps]]):
        return turn
    return [*turn[:first], *_systems(turn[first : starts[-steps]]), *turn[starts[-steps] :]]


def _summary_message(summary: str) -> UserMessage:
    text = summary.replace("</summary", "<\\/summary")
    note = "The conversation before this point was replaced by a summary."
    part = TextPart(f"{note}\n<summary>\n{text}\n</summary>")
    return UserMessage((part,), metadata={COMPACTION: {"summary": True}})


def _clear(prompt: Prompt, keep: int, exclude: Collection[str]) -> Prompt:
    """Return the conversation with a note instead of each older result. A smaller result remains."""
    made, left, is_changed = [*prompt], keep, False
    for at in range(len(made) - 1, -1, -1):
        message = made[at]
        if message.role != "tool":
            continue
        content: list[Any] = []
        for part in reversed(message.content):
            is_clearable = part.type == "tool-result" and not part.is_failure and part.name not in exclude
            is_old, left = is_clearable and left <= 0, left - is_clearable
            content.append(_clear_part(cast(ToolResultPart, part)) if is_old else part)
        content.reverse()
        if any(new is not old for new, old in zip(content, message.content, strict=True)):
            made[at], is_changed = msgspec.structs.replace(message, content=tuple(content)), True
    return Prompt(made) if is_changed else prompt


def _clear_part(part: ToolResultPart) -> ToolResultPart:
    handle = handle_of(part)
    note = CLEARED if handle is None else f"{CLEARED} Its handle is {handle}."
    return msgspec.structs.replace(part, result=note) if _is_longer(part.result, note) else part


def _is_longer(result: Any, note: str) -> bool:
    if isinstance(result, str):
        return len(result) > len(note)
    try:
        return len(msgspec.json.encode(result)) > len(note)
    except (TypeError, UnicodeEncodeError):  # half of a surrogate pair, which a model can write
        return True


def count_cleared(prompt: Prompt) -> int:
    """Return the number of results that a note replaces."""
    results = (part for one in prompt if one.role == "tool" for part in one.content if part.type == "tool-result")
    return sum(1 for part in results if isinstance(part.result, str) and part.result.startswith(CLEARED))
