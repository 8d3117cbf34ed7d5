"""Binding of thinking blocks to their prefix. Use this module to decide which blocks a request can send back.

Newer models accept a thinking block only if the system prompt, the tools, and all content before the block are the same
as in the request that produced the block. Otherwise, the API rejects the whole request. Anthropic's page "Preserved
thinking" documents the rules:

- Marks for the cache, the order of tools, and earlier thinking blocks are not part of the prefix.
- Each block names the previous thinking block. A request can omit the first blocks, but no block between others.

Therefore, the metadata of each block contains digests of its prefix. Before a request, `check` compares them with the
request. The comparison needs no other memory, so it supports branches, edited histories, windows, and restarts.

>>> before = PrefixDigest()
>>> before.add("user", {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}})
>>> after = PrefixDigest()
>>> after.add("user", {"type": "text", "text": "Hello"})
>>> before.hexdigest() == after.hexdigest()
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.messages.part import PrefixBreak
from fxai.models.prepared_tools import without_nulls
from fxai.schema.data import is_array, is_object

BETA: Final = "thinking-binding-controls-2026-08-01"
"""The beta feature of the remedy."""
REMEDY: Final[Mapping[str, Any]] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""The fields of `thinking` that make the API drop an invalid block instead of rejecting the request."""
THINKING: Final = frozenset(("thinking", "redacted_thinking"))
"""The types of blocks that the API binds to their prefix."""

_LENGTH: Final = 16  # hexadecimal digits; a longer digest is unnecessary, because a forger gains nothing
_ESSENCE: Final = ("type", "text", "id", "name", "input", "tool_use_id", "content")


@final
class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prefix of a thinking block, as digests. The metadata of the part contains it under the key `bound`."""

    model: str
    """The model that wrote the block."""
    system: str
    tools: str
    messages: str
    """Digest of the content before the answer that contains the block."""
    within: str = ""
    """Digest of the content of the answer before the block. Empty if the block is first."""
    previous: str = ""
    """Digest of the previous thinking block. Empty if the request had none."""

    def to_data(self) -> dict[str, str]:
        """Return the digests as plain data."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]  # msgspec declares Any

    @staticmethod
    def of_metadata(own: Mapping[str, Any]) -> Bound | None:
        """Return the digests in the metadata of a part. Return None if they are missing or have an invalid form."""
        try:
            return msgspec.convert(own.get("bound"), Bound)
        except msgspec.ValidationError:
            return None


@final
class PrefixDigest:
    """A digest of growing content. It hashes each block once."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, role: str, block: Mapping[str, Any]) -> None:
        """Add a block of a message. Ignore thinking blocks and marks for the cache."""
        if block.get("type") not in THINKING:
            self._hash.update(_encode([role, _without_marks(block)]))

    def add_essence(self, block: Mapping[str, Any]) -> None:
        """Add a block of an answer by the fields that both the answer and a later request contain."""
        is_blank = block.get("type") == "text" and not str(block.get("text", "")).strip()  # requests omit blank text
        if block.get("type") not in THINKING and not is_blank:
            self._hash.update(_encode(without_nulls({key: block.get(key) for key in _ESSENCE})))

    def hexdigest(self) -> str:
        """Return the digest of the content until now."""
        return self._hash.hexdigest()[:_LENGTH]


def digest_of(value: Any) -> str:
    """Return the digest of the system prompt or the sorted tools. It ignores marks for the cache."""
    return sha256(_encode([_without_marks(one) for one in value] if is_array(value) else value)).hexdigest()[:_LENGTH]


def fingerprint(block: Mapping[str, Any]) -> str:
    """Return the digest of a thinking block. The next thinking block stores it."""
    return digest_of([block.get("type"), block.get("signature"), block.get("data")])


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError):
        return repr(value).encode(errors="backslashreplace")  # encoding the request reports the error


def _without_marks(block: Any) -> Any:
    """Remove the marks for the cache from a block. They can also be in the content of a result."""
    if not is_object(block):
        return block
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    content = plain.get("content")
    if block.get("type") == "tool_result" and is_array(content):
        plain["content"] = [_without_marks(one) for one in content]
    return plain


# -- the blocks of a request


@final
class Thought(msgspec.Struct, frozen=True, eq=False):
    """A thinking block of a history, and the digests of the content before it in this request."""

    block: dict[str, Any]
    bound: Bound | None
    """The prefix of the block when the model wrote it. None if the history does not contain it."""
    messages: str
    within: str


@final
class Head(msgspec.Struct, frozen=True):
    """The prefix fields that all blocks of a request share."""

    model: str
    system: str
    tools: str


Judgement: TypeAlias = PrefixBreak | Literal["valid", "unknown"]


@final
class Verdict(msgspec.Struct, frozen=True, eq=False):
    """The result of the check of a request."""

    left_out: frozenset[int]
    """The blocks that the request must omit, by `id`."""
    needs_remedy: bool
    """True if the request sends blocks that fxai cannot check."""
    prefix_break: PrefixBreak | None
    """The change since the model wrote the newest block. None if the request only extends its prefix."""
    bound: Bound
    """The prefix of the first block of the answer."""


def check(thoughts: Sequence[Thought], head: Head, messages: str, *, has_remedy: bool) -> Verdict:
    """Decide which thinking blocks of a history, from first to last, a request can send.

    `messages` is the digest of all content of the request. `has_remedy` is True if the request can ask the API to drop
    blocks that do not fit.
    """
    left_out: set[int] = set()
    needs_remedy, previous = False, ""
    judgement: Judgement = "valid"
    for thought in thoughts:
        judgement = _judge(thought, head, previous)
        if judgement == "valid" or (judgement == "unknown" and has_remedy):
            needs_remedy = needs_remedy or judgement == "unknown"
            previous = fingerprint(thought.block)
        else:
            left_out.add(id(thought.block))
    found: PrefixBreak | None = None
    if judgement == "unknown":
        newest = thoughts[-1].bound
        found = None if newest is None else "model"
    elif judgement != "valid":
        found = judgement
    return Verdict(
        frozenset(left_out),
        needs_remedy,
        found,
        Bound(head.model, head.system, head.tools, messages, previous=previous),
    )


def _judge(thought: Thought, head: Head, previous: str) -> Judgement:
    bound = thought.bound
    if bound is None or bound.model != head.model:
        return "unknown"  # only the API knows which models accept the thinking of other models
    if bound.system != head.system:
        return "instructions"
    if bound.tools != head.tools:
        return "tools"
    if (bound.messages, bound.within) != (thought.messages, thought.within):
        return "edit"
    return "valid" if previous in ("", bound.previous) else "edit"
