"""How an answer goes back with the next request: item by item against what came, and against what others sent.

A difference is told as a pattern: `-` what is missing, `+` what is there beside it, `~` what is another value, then the
type of the item and the place in it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.kit.data import is_array, is_object
from tests.kit.recorded_leaves import leaves, pattern
from tests.kit.recordings import Exchange

__all__ = ["differences", "items_of", "items_sent", "recorded_turns"]


def items_of(wire: str, body: Any) -> list[Any]:
    """The items of a whole answer."""
    if wire == "chat":
        return [_chat_item(body["choices"][0]["message"])] if "choices" in body else []
    return list(body["content" if wire == "anthropic" else "output"])


def items_sent(wire: str, request: Any, after: int = 1) -> list[Any]:
    """The items of a request that are the model's turn, behind so many messages or items."""
    messages = request["input" if wire == "responses" else "messages"]
    later = messages[after:] if is_array(messages) else []
    if wire == "responses":
        turn: list[Any] = []
        for item in later:
            if item.get("role") in ("user", "system", "developer"):
                break
            if not str(item.get("type", "")).endswith(_OUTPUTS) or item.get("type") in _OF_PROVIDER:
                turn.append(_message(item))
        return turn
    own = next((message for message in later if message["role"] == "assistant"), None)
    if own is None:
        return []
    if wire == "chat":
        return [_chat_item(own)]
    content = own["content"]
    return content if is_array(content) else [{"type": "text", "text": content}]


_OUTPUTS: Final = ("_output", "_response")
_OF_PROVIDER: Final = ("shell_call_output", "tool_search_output", "program_output")


def _message(item: dict[str, Any]) -> dict[str, Any]:
    """A message whose content may be a text alone."""
    if item.get("role") == "assistant" and isinstance(item.get("content"), str):
        content: list[Any] = [{"type": "output_text", "text": item["content"], "annotations": []}]
        return {**item, "type": "message", "content": content}
    return {"type": "message", **item} if "role" in item else item


def _chat_item(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", **message}


def differences(came: Sequence[Any], sent: Sequence[Any]) -> set[str]:
    """What is not the same in the items that came and those that were sent, each compared with the next of its type."""
    found: set[str] = set()
    waiting = list(sent)
    for item in came:
        kind = item.get("type")
        location = next((location for location, one in enumerate(waiting) if one.get("type") == kind), None)
        if location is None:
            found.add(f"-{kind}")
            continue
        found.update(_between(str(kind), item, waiting.pop(location)))
    return found | {f"+{one.get('type')}" for one in waiting}


def _between(kind: str, came: Any, sent: Any) -> Iterator[str]:
    before, after = dict(_json_leaves(came)), dict(_json_leaves(sent))
    for path, value in before.items():
        if path not in after:
            yield f"-{kind}:{pattern(path)}"
        elif after[path] != value:
            yield f"~{kind}:{pattern(path)}"
    yield from (f"+{kind}:{pattern(path)}" for path in after if path not in before)


def _json_leaves(item: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves; JSON text of arguments by its own leaves, since spaces in it say nothing."""
    for path, value in leaves(item):
        if path[-1] in ("arguments", "input") and isinstance(value, str):
            try:
                read = json.loads(value)
            except ValueError:
                read = None
            if is_object(read):
                yield from leaves(read, path)
                continue
        yield path, value


def recorded_turns(known: Sequence[Exchange]) -> Iterator[tuple[Exchange, list[Any]]]:
    """The exchanges whose answer is in the next recorded request of the same file, with the items that it is there."""
    for before, after in itertools.pairwise(known):
        if before.file != after.file or before.request is None or after.request is None:
            continue
        field = "input" if before.wire == "responses" else "messages"
        earlier, later = before.request.get(field), after.request.get(field)
        if not is_array(earlier) or not is_array(later) or later[: len(earlier)] != earlier:
            continue
        items = items_sent(before.wire, after.request, len(earlier))
        if items:
            yield before, items
