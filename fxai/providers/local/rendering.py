"""Results as a small model reads them best: JSON as `key: value`, one after another; any other text as it is.

>>> rendered('{"weather": {"city": "Oslo", "rain": true, "wind": null}}')
'city: Oslo; rain: yes'
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

__all__ = ["rendered"]

_DEEPEST: Final = 6

_Tree: TypeAlias = "Mapping[str, Any] | list[Any]"


def rendered(text: str) -> str:
    """What is shown of a result: of an object or a list, its values with their keys, without what is empty.

    JSON inside of a text counts as such, and an object of one member as the member. Booleans are yes and no.
    """
    try:
        value = _inner(json.loads(text))
        return "; ".join(_lines(value, "", _DEEPEST)) or text if isinstance(value, dict | list) else text
    except (ValueError, RecursionError):
        return text


def _inner(value: Any) -> Any:
    """The value inside of wrappers: texts of JSON, and objects of one member."""
    while True:
        tree = _tree(value)
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            value = json.loads(value)
        elif isinstance(tree, Mapping) and len(tree) == 1:
            (value,) = tree.values()
        else:
            return value


def _lines(value: Any, path: str, depth: int) -> Iterator[str]:
    if value is None or value in ({}, [], ""):
        return
    tree = _tree(value)
    if tree is None or depth == 0:
        yield _keyed(path, _plain(value))
    elif isinstance(tree, Mapping):
        for key, member in tree.items():
            yield from _lines(member, f"{path} {key}".strip(), depth - 1)
    elif all(_tree(item) is None for item in tree):
        yield _keyed(path, ", ".join(map(_plain, tree)))
    else:
        for item in tree:
            flat = _flat(item)
            yield from _lines(item, path, depth - 1) if flat is None else iter((_keyed(path, flat),))


def _tree(value: Any) -> _Tree | None:
    return cast("_Tree", value) if isinstance(value, dict | list) else None


def _flat(value: Any) -> str | None:
    """An object whose members are plain, in one piece; None for any other value."""
    tree = _tree(value)
    if not isinstance(tree, Mapping) or any(_tree(member) is not None for member in tree.values()):
        return None
    return ", ".join(f"{key} {_plain(member)}" for key, member in tree.items() if member is not None)


def _keyed(path: str, said: str) -> str:
    return f"{path}: {said}" if path else said


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
