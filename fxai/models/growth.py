"""Growth of requests: detect whether a request extends the last request of its conversation. Rounds use this module.

A request that extends the previous request keeps the provider's cache. Some models also accept their own earlier
thinking only in such a request. Any change of the earlier messages or tools is a break, and each break has a name.

The steps of a run compare their requests with this module. A memory or a chat can contain many runs. Therefore, this
process stores the last request of each memory and each chat.

>>> first = ModelRequest(Prompt.make("Hello").set_system("Be brief."))
>>> find_break(first, ModelRequest(first.prompt + Prompt.make("How are you?"))) is None
True
>>> find_break(first, ModelRequest(Prompt.make("Hello").set_system("Be long.")))
'instructions'
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from operator import is_
from typing import Any, final
from weakref import WeakKeyDictionary

import msgspec

from fxai.messages.message import Message
from fxai.messages.part import PrefixBreak
from fxai.messages.prompt import Prompt
from fxai.models.cut import Compacted
from fxai.models.model_request import ModelRequest

# -- the requests of a conversation


@final
class SentRequest(msgspec.Struct, frozen=True, eq=False):
    """A request of a conversation, and the model that received it."""

    request: ModelRequest
    model: object = None
    """The model as a value that is equal for equal models, or None if it is unknown."""
    rendered_from: Prompt | None = None
    """The conversation before a stateful prompt added messages, or None without a prompt or after a hook."""
    changes_tools: bool = False
    """True if the model accepts added tools between messages."""

    def break_of(self, after: SentRequest) -> PrefixBreak | None:
        """Return the reason why `after` does not extend this request, or None if it does."""
        if self.model is not None and after.model is not None and self.model != after.model:
            return "model"
        found = find_break(self.request, after.request, changes_tools=after.changes_tools)
        if found in (None, "tools") or self.rendered_from is None or after.rendered_from is None:
            return found
        return find_message_break(self.rendered_from, after.rendered_from) or "rewrite"


@final
class Growth:
    """The requests of a run. Each request is compared with the previous request."""

    __slots__ = ("compacted", "last", "prefix_break")

    def __init__(self, last: SentRequest | None = None) -> None:
        self.last = last
        """The last request of the conversation, which can belong to an earlier run, or None if it is unknown."""
        self.prefix_break: PrefixBreak | None = None
        """The reason why the last request did not extend the request before it."""
        self.compacted: Compacted | None = None
        """The work of a compaction before the current request, or None."""

    def send(self, request: ModelRequest, model: Any, rendered_from: Prompt | None = None) -> PrefixBreak | None:
        """Record a request to a model. Return the reason why it does not extend the last request, or None if it does.

        For `rendered_from`, see `SentRequest`.
        """
        facts = model.facts
        changes = facts is not None and facts.tool_changes_between is True
        sent = SentRequest(request, model.info or getattr(model, "layer", None), rendered_from, changes)
        found = None if self.last is None else self.last.break_of(sent)
        self.prefix_break = "compaction" if self.compacted is not None and found in ("window", "edit") else found
        self.last = sent
        return self.prefix_break


@final
class LastRequests:
    """The last request of each conversation of an object in this process, such as a memory."""

    def __init__(self) -> None:
        self._sent: WeakKeyDictionary[Any, SentRequest] = WeakKeyDictionary()

    def of(self, conversation: object) -> SentRequest | None:
        """Return the last request of a conversation, or None if this process sent none."""
        try:
            return self._sent.get(conversation)
        except TypeError:  # the object has no weak references, or no hash
            return None

    def note(self, conversation: object, sent: SentRequest | None) -> None:
        """Store a request as the last request of a conversation."""
        if sent is None:
            return
        try:
            self._sent[conversation] = sent
        except TypeError:
            return


# -- the comparison of two requests


def find_break(before: ModelRequest, after: ModelRequest, *, changes_tools: bool = False) -> PrefixBreak | None:
    """Return the reason why a request does not extend the previous request, or None if it does.

    If `changes_tools` is true, the provider accepts added tools between messages, so that they are not a break.
    """
    added: frozenset[str] = frozenset()
    if changes_tools and len(after.prompt) > len(before.prompt):
        new = (after.prompt[at] for at in range(len(before.prompt), len(after.prompt)))
        added = frozenset(name for one in new if one.role == "system" for name in one.added_tools)
    if before.tools != after.tools and not _same_tools(before, after, added):
        return "tools"
    return find_message_break(before.prompt, after.prompt)


def find_message_break(before: Prompt, after: Prompt) -> PrefixBreak | None:
    """Return the reason why messages do not extend the previous messages, or None if they do."""
    if len(after) >= len(before) and (before.__buffer__ is after.__buffer__ or all(map(is_, before, after))):
        return None
    pairs = enumerate(zip(before, after, strict=False))
    at = next((at for at, (old, new) in pairs if old is not new and old != new), min(len(before), len(after)))
    if at == len(before):
        return None
    head, other = lead_of(before), lead_of(after)
    if at < max(head, other) and [*islice(before, head)] != [*islice(after, other)]:
        return "instructions"
    return "window" if _is_window([*islice(before, head, None)], [*islice(after, other, None)]) else "edit"


def _same_tools(before: ModelRequest, after: ModelRequest, added: frozenset[str]) -> bool:
    known = frozenset(tool.name for tool in before.tools)
    rest = tuple([tool for tool in after.tools if tool.name in known or tool.name not in added])
    return len(before.tools) == len(rest) and all(
        old is new or old == new for old, new in zip(before.tools, rest, strict=True)
    )


def lead_of(messages: Iterable[Message]) -> int:
    """Return the number of system messages at the start."""
    return sum(1 for _ in takewhile(lambda message: message.role == "system", messages))


def _is_window(before: list[Message], after: list[Message]) -> bool:
    if not after:
        return False
    starts = [at for at in range(1, len(before)) if before[at] is after[0] or before[at] == after[0]]
    return any(before[at:] == after[: len(before) - at] for at in starts)
