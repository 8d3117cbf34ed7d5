"""The kinds of plain JSON data, as questions that a type checker understands.

>>> is_object({"a": 1}), is_array((1, 2)), is_listed((1, 2)), is_same(1, True)
(True, False, True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

__all__ = ["is_array", "is_listed", "is_object", "is_same"]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is what JSON calls an object; a checker then knows its members."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is what JSON calls an array; a checker then knows its items."""
    return isinstance(value, list)


def is_listed(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple: both are arrays in JSON."""
    return isinstance(value, (list, tuple))


def is_same(left: object, right: object) -> bool:
    """Whether two JSON values are equal; true is no 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
