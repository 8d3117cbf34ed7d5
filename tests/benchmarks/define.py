"""Defining a tool whose types are new, and its first JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fxai.tools import Tool
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND, Budget, Work

__all__ = ["works"]

STEPS = 100
SCALARS = [("city", str), ("days", int), ("metric", bool)]
NESTED = [("order", hand.Order), ("dry_run", bool)]


def works() -> Iterator[Work]:
    """Three scalars, and a list of objects of twenty fields; making the new type is part of both sides."""
    for name, fields, ratio in (("three scalars", SCALARS, 2), ("nested, 25 fields", NESTED, 1.3)):
        contenders = {FXAI: lambda fields=fields: _tools(fields), HAND: lambda fields=fields: _by_hand(fields)}
        yield Work(name, contenders, STEPS, (Budget(ratio, HAND),))


def _tools(fields: list[tuple[str, type[Any]]]) -> None:
    for number in range(STEPS):
        parameters = msgspec.defstruct(f"Parameters{number}", fields, frozen=True)
        Tool.make(f"tool_{number}", parameters=parameters, success=str).json_schema()


def _by_hand(fields: list[tuple[str, type[Any]]]) -> None:
    for number in range(STEPS):
        hand.define(msgspec.defstruct(f"Parameters{number}", fields, frozen=True))
