"""Aliases that contain their own name, and names in types. Use this module before you read the value of an alias.

The value of an alias that contains its own name is infinite, for example `Json = dict[str, Json] | list[Json] | str`.
`msgspec` cannot decode it.

>>> Json = TypeAliasType("Json", "dict[str, Json] | str")
>>> contains_itself(Json), contains_itself(TypeAliasType("Names", list[str]))
(True, False)
"""

from __future__ import annotations

from typing import Annotated, Any, ForwardRef, Literal, get_args, get_origin

from typing_extensions import TypeAliasType


def contains_itself(tp: Any) -> bool:
    """Return True if a type is an alias whose value contains the alias or an unresolved name."""
    alias = tp if isinstance(tp, TypeAliasType) else get_origin(tp)
    if not isinstance(alias, TypeAliasType):
        return False
    waiting: list[Any] = [alias.__value__]
    seen: set[TypeAliasType] = set()
    while waiting:
        part = waiting.pop()
        named = part if isinstance(part, TypeAliasType) else get_origin(part)
        if named is alias or _is_name(part):
            return True
        if isinstance(named, TypeAliasType) and named not in seen:
            seen.add(named)
            waiting.append(named.__value__)
        waiting += _parts_of(part)
    return False


def contains_names(tp: Any) -> bool:
    """Return True if a type contains an unresolved name instead of a type.

    >>> contains_names(list["Tree"]), contains_names(list[int])
    (True, False)
    """
    return _is_name(tp) or any(map(contains_names, _parts_of(tp)))


def _is_name(part: Any) -> bool:
    return isinstance(part, (str, ForwardRef))


def _parts_of(tp: Any) -> tuple[Any, ...]:
    origin = get_origin(tp)
    if origin is Annotated:
        return (tp.__origin__,)
    return () if origin is None or origin is Literal else get_args(tp)
