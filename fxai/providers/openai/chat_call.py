"""Calls in answers of Chat Completions. Use `ChatCalls` to assemble calls from the pieces of any server.

>>> calls = ChatCalls()
>>> call = calls.add({"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a"'}})
>>> calls.add({"index": 0, "function": {"arguments": ":1}"}}) is call
True
>>> call.name, call.text
('add', '{"a":1}')
>>> failed_generation({"failed_generation": '{"name": "add", "arguments": {"b": 1}}'})
[('add', '{"b":1}')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.messages.part import Source, ToolCall, ToolResult
from fxai.providers.openai.options import mark
from fxai.providers.openai.tool_calls import CALL_IDS, arguments_text
from fxai.schema.data import is_array, is_object
from fxai.schema.parsing import parse_json

Item: TypeAlias = Mapping[str, Any]

_KNOWN: Final = frozenset(("id", "type", "index", "function", "custom"))
_FUNCTION: Final = frozenset(("name", "arguments", "input"))


@final
class ChatCall(msgspec.Struct):
    """A call during the assembly of its pieces."""

    id: str
    name: str = ""
    deltas: list[str] = []
    custom: bool = False
    started: bool = False
    extras: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The arguments or the input until now."""
        return "".join(self.deltas)

    @property
    def metadata(self) -> dict[str, Any]:
        """The server's own fields, which are sent back with the call, such as Gemini's `extra_content`."""
        own_id = None if CALL_IDS.accepts(self.id) else self.id
        return mark(type="custom_tool_call" if self.custom else None, call=self.extras or None, call_id=own_id)


@final
class ChatCalls:
    """The calls of an answer in the order of their starts. Each call has a unique id.

    Servers identify the pieces of a call by an index, by an id, or by neither. Some servers use the same index for all
    calls, and some change the id of a call after its first piece. A piece starts another call if it names another tool,
    or if the arguments of the current call are complete.
    """

    def __init__(self) -> None:
        self.answer: str | None = None
        """The id of the answer. Calls without an id receive an id that contains it."""
        self._calls: list[ChatCall] = []
        self._locations: dict[Any, tuple[int, str]] = {}  # from the server's index to the position and id of the call
        self._latest: Any = 0
        self._named: set[int] = set()  # the calls that the current chunk names
        self._ids: set[str] = set()

    def __iter__(self) -> Iterator[ChatCall]:
        return iter([call for call in self._calls if call.name or call.text])

    def start_chunk(self) -> None:
        """Start another chunk. Within one chunk, each name starts another call."""
        self._named.clear()

    def add(self, piece: Item) -> ChatCall:
        """Add a piece to its call and return the call."""
        kind, fields = _kind_and_fields(piece)
        name, text = (
            str(fields.get("name") or ""),
            arguments_text(fields.get("input" if kind == "custom" else "arguments")),
        )
        call = self._call_of(piece, name, text)
        call.custom = call.custom or kind == "custom"
        call.name = call.name or name
        call.deltas.append(text)
        extras = {key: value for key, value in piece.items() if key not in _KNOWN and value not in _NOTHING}
        inner = {key: value for key, value in fields.items() if key not in _FUNCTION and value not in _NOTHING}
        if extras or inner:
            call.extras = {**call.extras, **extras, **({kind: inner} if inner else {})}
        return call

    def _call_of(self, piece: Item, name: str, text: str) -> ChatCall:
        id_, index = str(piece.get("id") or ""), piece.get("index")
        is_index = isinstance(index, int) and not isinstance(index, bool)
        key: Any = index if is_index else id_ or self._latest
        known = self._locations.get(key)
        latest = self._locations.get(self._latest)
        goes_on = text and latest is not None and not _is_complete(self._calls[latest[0]])
        if known is None and not is_index and not name and goes_on:
            key, known = self._latest, latest  # the server changed the id and sends no index
        if known is None or self._is_other(known, id_, name, text, is_index=is_index):
            self._locations[key] = known = len(self._calls), id_
            self._calls.append(ChatCall(self._free(id_)))
        elif id_ and not known[1]:
            self._locations[key] = known = known[0], id_
        self._latest = key
        if name:
            self._named.add(known[0])
        return self._calls[known[0]]

    def _is_other(self, known: tuple[int, str], id_: str, name: str, text: str, *, is_index: bool) -> bool:
        """Return True if a piece starts another call at the position of a known call."""
        location, before = known
        call, is_new_id = self._calls[location], bool(id_ and before and id_ != before)
        if not call.name or (id_ and id_ == before):
            return False
        if not name:
            return is_new_id and _is_complete(call)
        if location in self._named or name != call.name or _is_complete(call) or (is_new_id and not is_index):
            return True
        return is_new_id and not call.text and not text

    def _free(self, id_: str) -> str:
        """Return an id that is unique in the answer."""
        location = len(self._calls)
        answer = "" if self.answer is None else f"{_PLAIN.sub('_', self.answer)[-_LONG:]}_"
        free = id_ or f"call_{answer}{location}"
        while free in self._ids:
            free = f"{free}_{location}"
        self._ids.add(free)
        return free


def _is_complete(call: ChatCall) -> bool:
    """Return True if the arguments of a call are a complete object, so that no text can follow."""
    last = next((text for text in reversed(call.deltas) if text.strip()), "")
    return last.rstrip().endswith("}") and isinstance(parse_json(call.text), Success)


_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONG: Final = 40  # characters of an answer's id in the ids of its calls


def _kind_and_fields(piece: Item) -> tuple[str, Item]:
    """Return the kind of a piece, function or custom tool, from `type` or from its nonempty field."""
    function, custom = piece.get("function"), piece.get("custom")
    kind = piece.get("type")
    if kind == "custom" or (kind != "function" and is_object(custom) and not is_object(function)):
        return "custom", custom if is_object(custom) else {}
    return "function", function if is_object(function) else {}


# -- calls that a server rejected


_TAG: Final = re.compile(r"<function=([\w.-]+)>?\s*(?=\{)")


def failed_generation(error: object) -> list[tuple[str, str]] | None:
    """Return the invalid calls of a model that the server rejected: the name and the arguments as JSON text.

    Return None if the error is not such a rejection, or if the model did not write a call.
    """
    text = error.get("failed_generation") if is_object(error) else None
    if not isinstance(text, str) or not text.strip():
        return None
    written = text.strip().removesuffix("</function>").rstrip()
    tag = _TAG.search(written)
    if tag is not None and written.endswith("}"):
        return [(tag[1], written[tag.end() :])]
    read = parse_json(text)
    data = read.unwrap() if isinstance(read, Success) else None
    if is_object(data) and is_array(data.get("tool_calls")):
        data = data["tool_calls"]
    calls = [_refused_call(one) for one in (data if is_array(data) else [data])]
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def is_refused_call(body: bytes) -> bool:
    """Return True if the body of an error contains invalid calls. These calls are an answer of the model."""
    if b'"failed_generation"' not in body:
        return False
    read = parse_json(body)
    data = read.unwrap() if isinstance(read, Success) else None
    return failed_generation(data.get("error") if is_object(data) else None) is not None


def _refused_call(data: object) -> tuple[str, str] | None:
    fields = data.get("function", data) if is_object(data) else None
    name = fields.get("name") if is_object(fields) else None
    if not is_object(fields) or not isinstance(name, str) or not name:
        return None
    return name, arguments_text(fields.get("arguments", fields.get("parameters", {})))


# -- tools that a server ran


@final
class ExecutedTools:
    """The tools that a server ran for an answer, such as Groq's. Each tool is a call and a result."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[str, Any]] = {}
        self._given: set[int] = set()

    def add(self, tools: Iterable[Item]) -> Iterable[ToolCall | ToolResult | Source]:
        """Yield the parts of these tools: the call at its first mention, and the result when it has an output."""
        for position, tool in enumerate(tools):
            stated = tool.get("index")
            index = stated if isinstance(stated, int) else position
            if index not in self._seen:
                self._seen[index] = {}
                text = tool.get("arguments")
                read = parse_json(text) if isinstance(text, str) and text.strip() else None
                params: Any = read.unwrap() if isinstance(read, Success) else (text or {})
                about = mark(type="executed_tool")
                yield ToolCall(_id_of(index), str(tool.get("type", "")), params, provider_executed=True, metadata=about)
            self._seen[index].update({key: value for key, value in tool.items() if value not in _NOTHING})
            if "output" in self._seen[index] and index not in self._given:
                yield from self._result(index)

    def end(self) -> Iterable[ToolResult | Source]:
        """Yield the results of tools without an output."""
        for index in self._seen:
            if index not in self._given:
                yield from self._result(index)

    def _result(self, index: int) -> Iterable[ToolResult | Source]:
        self._given.add(index)
        tool = self._seen[index]
        rest = {key: value for key, value in tool.items() if key not in ("index", "type", "arguments")}
        yield ToolResult(_id_of(index), str(tool.get("type", "")), rest, provider_executed=True)
        found = tool.get("search_results")
        results = found.get("results") if is_object(found) else None
        for position, page in enumerate(results if is_array(results) else []):
            if is_object(page) and isinstance(page.get("url"), str):
                title = page.get("title")
                kept = mark(**{key: value for key, value in page.items() if key not in ("url", "title")})
                named = title if isinstance(title, str) and title else None
                yield Source(f"{_id_of(index)}:{position}", title=named, url=page["url"], metadata=kept)


def _id_of(index: int) -> str:
    return f"executed_{index}"
