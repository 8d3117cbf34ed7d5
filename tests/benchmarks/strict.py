"""Strict mode: what a form costs when it is made, when it is asked for again, and for each call.

Beside the making stands what msgspec takes to derive the schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from fxai.schema import JsonSchema, Schema
from fxai.schema.strict import OPENAI, strict_form
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Work

__all__ = ["works"]

STEPS = 100


class Filter(msgspec.Struct, frozen=True):
    """Parameters with what may be left out, at two depths."""

    text: str
    limit: int | None = None
    order: hand.Order | None = None


ARGUMENTS = json.dumps({"text": "fx", "limit": None, "order": None}).encode()


def works() -> Iterator[Work]:
    """Making a form, asking for one that is there, and leading the arguments of a call back."""
    schema = Schema.of(Filter).json_schema()
    documents = [JsonSchema.of({**schema, "description": f"Form {number}."}) for number in range(STEPS)]
    yield Work("a form of 28 fields, made anew", {FXAI: lambda: _forms(documents), HAND: _derived}, STEPS)

    document = Schema.of(Filter).document
    form = strict_form(document, OPENAI).unwrap()
    again = {FXAI: lambda: [strict_form(document, OPENAI) for _ in range(STEPS)], HAND: lambda: _looked_up(document)}
    yield Work("the same form again", again, STEPS)

    decode = msgspec.json.decode
    back = {
        FXAI: lambda: [form.back(decode(ARGUMENTS)) for _ in range(STEPS)],
        HAND: lambda: [_without_nulls(decode(ARGUMENTS)) for _ in range(STEPS)],
    }
    yield Work("the arguments of a call, decoded and led back", back, STEPS, (Budget(3, HAND),))


def _forms(documents: list[JsonSchema]) -> None:
    strict_form.cache_clear()
    for document in documents:
        strict_form(document, OPENAI)


def _derived() -> None:
    for _ in range(STEPS):
        json.dumps(msgspec.json.schema(Filter))


def _looked_up(document: JsonSchema) -> None:
    known = {(document, OPENAI): 1}
    for _ in range(STEPS):
        known[document, OPENAI]


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if item is not None}
