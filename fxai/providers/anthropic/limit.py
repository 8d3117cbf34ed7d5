"""Limits: how much of a request may be strict.

Anthropic compiles the strict schemas of a request into one grammar, and bounds what they may have in all: "Structured
outputs: Schema complexity limits" of its documentation. Tools beyond the bounds are sent as they are; those that are
annotated as strict come first.

>>> cost_of({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
Cost(tools=1, optional=1, unions=1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import msgspec

from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.preparation import Notes, Settled
from fxai.models.prepared import PreparationError
from fxai.schema.data import is_array, is_object
from fxai.tools.annotations import Strict

__all__ = ["MOST", "Cost", "cost_of", "within"]


@final
class Cost(msgspec.Struct, frozen=True):
    """What strict schemas have in all.

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
    """What a strict schema has."""
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
