"""What an answer of a provider holds, leaf by leaf, and which of its leaves no part holds.

A leaf is held if the parts are others when it is another. That is exact, and it asks nothing of how parts are made. A
stream is put together first, from its events alone and without our readers, to the answer that it stands for.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from returns.result import Failure

from fxai.messages import AiError, Part, Reason, Response
from fxai.providers import anthropic, openai
from fxai.providers.http import read_events
from tests.kit.data import is_array, is_object
from tests.kit.recordings import Exchange, sent_for

__all__ = ["body_of", "leaves", "lost_leaves", "lost_of_error", "pattern", "read_whole", "unheard_leaves"]

Path: TypeAlias = tuple[str | int, ...]
"""Where a leaf is: the keys and places on the way to it."""

_LONG: Final = 8
_FRAME: Final = ("type", "status", "obfuscation", "object", "partial_json")
"""What frames the pieces of a stream; the JSON of parameters stands in the answer in another layout."""


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The leaves of plain data, each with its place; nulls and empty values hold nothing."""
    if is_object(value):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif is_array(value):
        for location, one in enumerate(value):
            yield from leaves(one, (*path, location))
    elif value is not None and value != "":
        yield path, value


def pattern(path: Path) -> str:
    """A place as lists of losses name it: any element of an array is `*`."""
    return "".join(f"/{'*' if isinstance(one, int) else one}" for one in path)


def read_whole(exchange: Exchange) -> Callable[[Any], tuple[Part, ...] | Reason]:
    """What reads a whole answer to an exchange: its parts, or why there are none."""
    sent = sent_for(exchange)

    def read(body: Any) -> tuple[Part, ...] | Reason:
        if exchange.wire == "anthropic":
            ended = anthropic.parse_reply(json.dumps(body).encode(), sent)
            return ended.failure().reason if isinstance(ended, Failure) else ended.unwrap()
        try:
            return openai.read_reply(body, sent)
        except openai.ReplyError as error:
            return error.reason

    return read


def lost_leaves(body: Any, read: Callable[[Any], object], parts: tuple[Part, ...]) -> list[Path]:
    """The leaves of an answer that may be anything without any part being another.

    Args:
        body: the answer, as plain data.
        read: what reads such an answer.
        parts: what it gives for this one.
    """
    known = list(leaves(body))
    counts = Counter(one for _, one in known if isinstance(one, str))
    held = {one for _, one in leaves(Response(parts).to_data()) if isinstance(one, str)}
    lost: list[Path] = []
    for path, value in known:
        if isinstance(value, str) and len(value) >= _LONG and counts[value] == 1 and value in held:
            continue  # it is there, and came from nowhere else
        if read(_with_other(body, path, value)) == parts:
            lost.append(path)
    return lost


def lost_of_error(exchange: Exchange) -> list[Path]:
    """The leaves of an error that may be anything without the failure being another."""

    def failure(body: Any) -> AiError:
        return AiError.from_status(exchange.wire, "ask", exchange.status, body, exchange.headers)

    body = json.loads(exchange.body)
    known = failure(body)
    return [path for path, value in leaves(body) if failure(_with_other(body, path, value)) == known]


def _with_other(body: Any, path: Path, value: Any) -> Any:
    """The answer with another value at one place; the rest is shared."""
    *before, last = path
    made = copy.copy(body)
    at = made
    for key in before:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[last] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else f"{value}~"
    return made


# ---- streams


def body_of(exchange: Exchange) -> tuple[Any, list[dict[str, Any]]]:
    """The whole answer that an exchange is or stands for, and the events of a stream."""
    if not exchange.stream:
        return json.loads(exchange.body), []
    came = read_events([exchange.body])[0]
    events = [json.loads(event.data) for event in came if event.data.strip() not in ("", "[DONE]")]
    return _WHOLE[exchange.wire](events), events


def _anthropic(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    texts: dict[int, dict[str, str]] = {}
    for event in events:
        index = event.get("index", 0)
        match event.get("type"):
            case "message_start":
                message = {**message, **copy.deepcopy(event["message"])}
            case "content_block_start":
                message["content"].insert(index, copy.deepcopy(event["content_block"]))
            case "content_block_delta":
                _extend(message["content"][index], event["delta"], texts.setdefault(index, {}))
            case "message_delta":
                rest = {key: one for key, one in event.items() if key not in ("type", "delta", "usage")}
                usage = {**message.get("usage", {}), **_given(event.get("usage"))}
                message.update(**_given(event.get("delta")), **rest, usage=usage)
            case _:
                pass
    for index, grown in texts.items():
        if grown.get("partial_json"):
            message["content"][index]["input"] = _parameters(grown["partial_json"])
    return message


def _parameters(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # cut by the end of the message
        return text


def _extend(block: dict[str, Any], delta: dict[str, Any], grown: dict[str, str]) -> None:
    for key, one in delta.items():
        if key == "citation":
            block.setdefault("citations", None)
            block["citations"] = [*(block["citations"] or []), one]
        elif key == "partial_json":
            grown[key] = grown.get(key, "") + one
        elif key in ("text", "thinking") and isinstance(one, str):
            block[key] = block.get(key, "") + one
        elif key != "type":
            block[key] = one


def _responses(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {}
    items: dict[int, Any] = {}
    for event in events:
        if is_object(event.get("response")):
            response = {**response, **_given(event["response"])}
        elif event.get("type") == "response.output_item.done":
            items[event["output_index"]] = event["item"]
        elif event.get("type") == "error":
            response = {**response, "error": event.get("error", event)}
    known: list[Any] = response.get("output") or []
    return {
        **response,
        "output": [items.get(location, one) for location, one in enumerate(known)] or list(items.values()),
    }


def _chat(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {"index": 0}
    message: dict[str, Any] = {}
    for event in events:
        given = {key: one for key, one in _given(event).items() if key not in ("choices", "x_groq")}
        whole.update({key: one for key, one in given.items() if key not in _ONCE or not whole.get(key)})
        _join(whole, {"x_groq": event.get("x_groq")})
        choices: list[Any] = event.get("choices") or []
        for one in choices:
            if one.get("index", 0) == 0:
                choice.update({key: value for key, value in _given(one).items() if key not in ("delta", "logprobs")})
                if one.get("logprobs"):
                    _join(choice, {"logprobs": one["logprobs"]})
                _join(message, one.get("delta") or {})
    return {**whole, "choices": [{**choice, "message": message}]}


_ONCE: Final = ("id", "model", "created")  # each chunk has them; a filter before the first one may leave them empty


def _join(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Adds a piece of a message: texts grow, elements with an index grow, others are added."""
    for key, one in _given(piece).items():
        before = whole.get(key)
        if key == "executed_tools":  # each piece says all that is known of a tool
            tools: dict[int, dict[str, Any]] = {}
            for tool in [*(before or ()), *one]:
                tools[tool["index"]] = {**tools.get(tool["index"], {}), **tool}
            whole[key] = list(tools.values())
        elif key in ("role", "id", "type", "name", "index", "format", "signature", "channel"):
            whole[key] = one if one != "" else before
        elif is_object(one):
            _join(whole.setdefault(key, {}), one)
        elif is_array(one):
            _add(whole.setdefault(key, []), one)
        else:
            whole[key] = before + one if isinstance(one, str) and isinstance(before, str) else one


def _add(whole: list[Any], pieces: list[Any]) -> None:
    for piece in pieces:
        index = piece.get("index") if is_object(piece) else None
        same = next((one for one in whole if is_object(one) and one.get("index") == index), None)
        new = is_object(piece) and piece.get("id") and same is not None and same.get("id") not in (None, piece["id"])
        if index is None or same is None or new:
            whole.append(copy.deepcopy(piece))
        else:
            _join(same, piece)


def _given(fields: Any) -> dict[str, Any]:
    return {key: one for key, one in fields.items() if one is not None} if is_object(fields) else {}


_WHOLE: Final = {"anthropic": _anthropic, "responses": _responses, "chat": _chat}


def unheard_leaves(events: Iterable[dict[str, Any]], body: Any) -> set[str]:
    """The texts of events that are not in the answer that they stand for, by the type of their event.

    Not looked at are numbers, which are those of the answer or count events, and what frames a stream.
    """
    whole = "\\0".join(str(one) for _, one in leaves(body)) + json.dumps(body, ensure_ascii=False)
    unheard: set[str] = set()
    for event in events:
        for path, value in leaves(event):
            if isinstance(value, str) and path[-1] not in _FRAME and value not in whole:
                unheard.add(f"{event.get('type', 'chunk')}:{pattern(path)}")
    return unheard
