"""Limits of a request: how much of it may be strict, and how many cache markers it may have.

Anthropic compiles the strict schemas of a request into one grammar, and bounds what they may have in all: "Structured
outputs: Schema complexity limits" of its documentation. Tools beyond the bounds are sent as they are; those that are
annotated as strict come first.

It takes four marks for the cache in one request. A mark holds for everything before it, so the last one of the tools,
the last one of the system prompt and the last ones of the messages do most; those beyond four are left out.

>>> cost_of({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
Cost(tools=1, optional=1, unions=1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

import msgspec

from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.tool_encoding import Notes, PreparationError, Settled
from fxai.schema.data import is_array, is_object
from fxai.tools.annotations import Strict

__all__ = ["MARKS", "MOST", "Cost", "cost_of", "fewer_marks", "within"]

MARKS: Final = 4
"""How many marks for the cache one request may have, by the tools, the system prompt, the messages and the request."""

_MARK: Final = "cache_control"


@final
class Cost(msgspec.Struct, frozen=True):
    """The size of strict schemas, in what Anthropic limits.

    Attributes:
        tools: How many tools there are.
        optional: How many properties are not required.
        unions: How many schemas are unions, by `anyOf` or a list of types.
    """

    tools: int = 0
    optional: int = 0
    unions: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.tools + other.tools, self.optional + other.optional, self.unions + other.unions)

    def beyond(self, most: Cost) -> str | None:
        """What there is too much of, in words; None where all is within."""
        counts = (
            (self.tools, most.tools, "strict tools"),
            (self.optional, most.optional, "optional parameters"),
            (self.unions, most.unions, "parameters of union types"),
        )
        return next((f"{count} {what}, of at most {limit}" for count, limit, what in counts if count > limit), None)


MOST: Final = Cost(tools=20, optional=24, unions=16)
"""What the strict schemas of one request may have in all."""


def cost_of(document: Any) -> Cost:
    """The size of one strict schema."""
    schemas = list(_schemas(document))
    optional = sum(name not in one.get("required", ()) for one in schemas for name in one.get("properties", ()))
    return Cost(1, optional, sum("anyOf" in one or is_array(one.get("type")) for one in schemas))


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if not is_object(schema):
        return
    yield schema
    inner = [schema.get("items")]
    for keyword in ("properties", "$defs", "definitions"):
        inner += schema.get(keyword, {}).values()
    for keyword in ("anyOf", "allOf"):
        inner += schema.get(keyword, [])
    for one in inner:
        yield from _schemas(one)


def within(settled: Sequence[Settled], provided: int, notes: Notes) -> list[Settled]:
    """The tools, those beyond the limits no longer strict.

    Args:
        settled: the tools, as each would be sent.
        provided: how many strict tools there are beside them.
        notes: where it is noted that a tool is not strict.

    Raises:
        PreparationError: those that are annotated as strict are too much by themselves.
    """
    kept = list(settled)
    spent = Cost(tools=provided)
    for at in sorted(range(len(kept)), key=lambda at: kept[at].tool.get(Strict) is not True):
        one = kept[at]
        if one.form is None:
            continue
        after = spent + cost_of(one.form.document.to_dict())
        over = after.beyond(MOST)
        if over is None:
            spent = after
        elif one.tool.get(Strict):
            raise _too_much(one, over)
        else:
            said = f"the tool {one.tool.name!r} is not sent as strict: with it the request would have {over}"
            notes.warn("not-strict", one.tool.name, said)
            kept[at] = one.loosened()
    return kept


def _too_much(one: Settled, over: str) -> PreparationError:
    said = f"with the tool {one.tool.name!r} the tools that are annotated as strict have {over}"
    return PreparationError(UnsupportedSchemaError(description=f"{said}; annotate fewer of them with Strict, True"))


@final
class _Mark(msgspec.Struct, frozen=True, eq=False):
    """One mark for the cache: where it is, in words, and what holds it."""

    section: str
    holder: dict[str, Any]
    where: str
    tool: str | None = None


def fewer_marks(body: dict[str, Any], names: Mapping[str, str], notes: Notes) -> None:
    """Takes the marks for the cache that are beyond `MARKS` out of a request's body, which is changed.

    Kept are the request's own, the last one of the tools, the last one of the system prompt, and the last ones of the
    messages; then those of the system prompt and the tools, from the last to the first.

    Args:
        body: the request, plain; or its tools alone.
        names: the tools' own names by those on the wire.
        notes: where it is noted which marks are left out.

    >>> body = {"tools": [{"name": str(n), "cache_control": {"type": "ephemeral"}} for n in range(5)]}
    >>> fewer_marks(body, {}, Notes())
    >>> [one["name"] for one in body["tools"] if "cache_control" not in one]
    ['0']
    """
    own = 1 if is_object(body.get(_MARK)) else 0
    marks = list(_marks(body, names))
    for mark in _by_use(marks)[MARKS - own :]:
        del mark.holder[_MARK]
        said = f"{mark.where}: its mark for the cache is not sent, because Anthropic takes {MARKS} in one request"
        kept = "kept are the last ones of the tools, of the system prompt and of the messages; mark fewer"
        notes.warn("unsupported-option", mark.tool or _MARK, f"{said}: {kept}")


def _by_use(marks: list[_Mark]) -> list[_Mark]:
    """The marks by importance, the most important first."""
    by: dict[str, list[_Mark]] = {"tools": [], "system": [], "messages": []}
    for mark in reversed(marks):
        by[mark.section].append(mark)
    tools, system = by["tools"], by["system"]
    return [*tools[:1], *system[:1], *by["messages"], *system[1:], *tools[1:]]


def _marks(body: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[_Mark]:
    """The marks in the order in which the provider reads them."""
    for tool in body.get("tools", ()):
        if is_object(tool.get(_MARK)):
            wire = str(tool.get("name", tool.get("type")))
            yield _Mark("tools", tool, f"the tool {names.get(wire, wire)!r}", names.get(wire, wire))
    system: Any = body.get("system")
    for at, block in enumerate(system if is_array(system) else ()):
        yield from _marked(block, "system", f"part {at + 1} of the system prompt")
    for at, message in enumerate(body.get("messages", ())):
        yield from _marked(message.get("content"), "messages", f"message {at + 1}")


def _marked(block: Any, section: str, where: str) -> Iterator[_Mark]:
    """The marks of a block, those inside it first."""
    for one in block if is_array(block) else ():
        yield from _marked(one, section, where)
    if not is_object(block):
        return
    for inside in ("content", "source"):
        yield from _marked(block.get(inside), section, where)
    if is_object(block.get(_MARK)):
        yield _Mark(section, block, where)
