"""Limits on the work that a JSON Schema document and its data can cause. Use this module to count work.

A schema of a few hundred bytes can require unlimited work. Its references can double at each level, its unions can
multiply, and its patterns can repeat repetitions. Therefore `JsonSchema.of` measures each document before any other
code follows its references. Later work on the document counts its steps: validation, the search for validation errors,
strict forms, grammars, and generated data. Only this module defines the numbers.
`docs/reference/schema/limits.md` lists them.

>>> work = Work(2)
>>> work.take(), work.take(), work.left
(None, None, 0)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextvars import copy_context
from typing import Any, Final, TypeVar

import msgspec

from fxai.schema.data import is_object
from fxai.schema.fault import Fault

_R = TypeVar("_R")

MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a document, in bytes of JSON."""

MAX_LEVELS: Final = 128
"""The maximum nesting of a document's JSON, of schemas that apply to one value, and of groups in a pattern."""

MAX_CONTAINERS: Final = 20_000
"""The maximum number of arrays and objects in a document."""

MAX_SCHEMAS: Final = 3_000
"""The maximum number of schemas in a document."""

MAX_VISITS: Final = 10_000
"""The maximum number of schemas that apply to one value, including the targets of `$ref` and all branches."""

MAX_PATTERN: Final = 30_000
"""The maximum length of all patterns of a document with expanded repetitions. Each pattern adds 64 characters."""

MAX_POINTER: Final = 4_096
"""The maximum length of a JSON pointer to a schema of a document, in characters."""

MAX_STEPS: Final = 150_000
"""The maximum number of steps of a validation. A visit of a value by a schema and each keyword cost about a step."""

MAX_FAULTS: Final = 100
"""The approximate maximum number of validation errors that fxai reports for one value."""

MAX_LOCATIONS: Final = 3_000
"""The maximum number of steps to create a strict form, a grammar, or a generated value of one document."""

MAX_VALUES: Final = 100_000
"""The maximum number of values in the parameters of a call, including arrays, objects, and their contents."""

STRIDE: Final = 24
"""The number of recursion steps on each new stack after the first stack is exhausted."""

REMEMBERED: Final = MAX_STEPS - 500
"""The remaining steps of a validation from which the engine stores its decisions about arrays and objects.

Schemas can multiply over the data. Without stored decisions, their work would multiply too.
"""

_SAID: Final = 8  # tokens of the pointer in the error for deep nesting
_LONGEST: Final = 200


class ExhaustedError(Exception):
    """An error that ends work after its budget is exhausted. Its argument is the location if the location is known."""


class Work(msgspec.Struct, eq=False):
    """The budget of one piece of work, with the state of its validation.

    All steps cost about the same time, so the budget limits the time.
    """

    left: int = MAX_STEPS
    """The number of remaining steps."""
    known: dict[Hashable, bool] = {}
    """The decisions about values, used if the validation takes more than 500 steps."""
    resources: list[str] = []
    """The resources on the path to the current schema, for dynamic references."""
    numbers: dict[Hashable, object] = {}
    """The numbers of values of the data, by identity and by content."""
    searches: Any = None
    """The `Matcher` of the patterns, or None before the first search."""
    suspects: dict[int, list[int] | None] = {}
    """The only items of an array that can be invalid, by the identity of the array. None for an enclosing value."""

    def take(self, steps: int = 1, location: str = "") -> None:
        """Count steps at a location.

        Raises:
            ExhaustedError: If the work takes more steps than the budget has. Its argument is the location.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError(location)


def deeper_than(data: object, levels: int) -> bool:
    """Return True if a JSON value has more levels of arrays and objects than `levels`. `[]` has one level."""
    level: list[Any] = [data] if isinstance(data, (dict, list)) else []
    for _ in range(levels):
        if not level:
            return False
        inside = [value.values() if is_object(value) else value for value in level]
        level = [inner for values in inside for inner in values if isinstance(inner, (dict, list))]
    return bool(level)


def depth_fault(pointer: str, levels: int) -> Fault:
    """Return the error for data with too many levels at a JSON pointer. The error shortens a long pointer.

    >>> str(depth_fault("/a" * 129, 128))
    '/a/a/a/a/a/a/a/a/…: expected at most 128 levels of nesting, found deeper nesting'
    """
    names = pointer.split("/")
    location = "/".join(names[: _SAID + 1])[:_LONGEST]
    location = location if location == pointer else f"{location}/…"
    return Fault(location, f"at most {levels} levels of nesting", "deeper nesting")


# ---- the interpreter's stack


class _Nesting(threading.local):
    is_lent = False
    level = 0


_nesting: Final = _Nesting()


def descend(work: Callable[[], _R]) -> _R:
    """Execute one step of a recursion inside `with_stack`.

    On the stack of the caller, this function only calls `work`. If that stack is exhausted, `with_stack` starts the
    recursion again on a new stack. From then on, the recursion moves to another stack after every `STRIDE` steps.
    Therefore the recursion limit of Python does not limit the depth of a document.
    """
    if not _nesting.is_lent:
        return work()
    level = _nesting.level
    if level >= STRIDE:
        return new_stack(work)
    _nesting.level = level + 1
    try:
        return work()
    finally:
        _nesting.level = level


def with_stack(work: Callable[[], _R]) -> _R:
    """Return the result of `work`. If the stack of the caller is exhausted, repeat the work on a new stack.

    >>> def deep(level: int) -> int:
    ...     return with_stack(lambda: 1 + deep(level - 1)) if level else 0
    >>> deep(2_000)
    2000
    """
    try:
        return work()
    except RecursionError:
        return new_stack(work)


def new_stack(work: Callable[[], _R]) -> _R:
    """Return the result of `work` on the stack of a new thread with a copy of the current context."""
    from concurrent.futures import ThreadPoolExecutor  # usual data needs no new stack

    context = copy_context()

    def run() -> _R:
        _nesting.is_lent = True
        return context.run(work)

    with ThreadPoolExecutor(1, "fxai-schema-stack") as pool:
        return pool.submit(run).result()
