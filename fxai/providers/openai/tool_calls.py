"""Calls and results on both APIs. Use this module to convert items to calls, and calls and results to items.

`ChatCalls` assembles the calls of Chat Completions from the pieces of any server.

>>> from fxai.providers.openai.tool_encoding import prepare_tools
>>> offer = RequestTools(prepare_tools([], model="gpt-5.5"))
>>> item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1}'}
>>> part = call_of(item, offer)
>>> part.id, part.name, part.params
('c1', 'add', {'a': 1})
>>> called = ToolCallPart(part.id, part.name, part.params, metadata=part.metadata)
>>> item_of(called, offer) == item
True
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.messages.message import FilePart, ToolCallPart, ToolResultPart
from fxai.messages.part import ApprovalRequest, File, Source, ToolCall, ToolResult
from fxai.models.history_form import IdRule
from fxai.models.prepared_tools import contents_of, without_nulls
from fxai.providers.openai.options import NAME, mark, marks
from fxai.providers.openai.tool_encoding import RequestTools
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.parsing import parse_json

CALL_IDS: Final = IdRule(longest=64)
"""The OpenAI rule for ids of calls."""
ITEM_IDS: Final = IdRule("a-zA-Z0-9_-", 64)
"""The OpenAI rule for ids of items."""


def result_text(part: ToolResultPart) -> str:
    """Return a tool result as text for the model: a string unchanged, a denial as its reason, any other value as JSON.

    These APIs have no flag for a failure, so the text wraps it.

    >>> result_text(ToolResultPart("c", "add", {"sum": 5}))
    '{"sum":5}'
    >>> result_text(ToolResultPart("c", "add", "no", is_failure=True))
    '{"error":"no"}'
    """
    result = part.result
    if is_object(result) and result.get("type") == "execution-denied":
        reason = result.get("reason")
        return reason if isinstance(reason, str) and reason else "Tool call execution denied."
    shown = {"error": result} if part.is_failure else result
    return shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()


OURS: Final[Mapping[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "shell_call": "action",
    "local_shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "actions",
    "tool_search_call": "arguments",
}
"""The types of local calls, with the field of their arguments."""

_KEPT: Final = ("id", "namespace", "caller", "async", "environment", "status")
_PLACED: Final = frozenset(
    (*_KEPT, *OURS.values(), "type", "call_id", "name", "action", "pending_safety_checks", "execution")
)

# an image of one pixel as the result of a failed computer call, because the API has no failure here
_NO_PICTURE: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def call_of(item: Mapping[str, Any], offer: RequestTools) -> ToolCall:
    """Return the call of an item. Its arguments have the form of the tool's own schema."""
    kind = str(item["type"])
    id_ = str(item.get("call_id") or item.get("id") or "")
    kept: JsonObject = {name: item.get(name) for name in _KEPT}
    kept["status"] = None if kept["status"] == "completed" else kept["status"]
    rest = {key: one for key, one in item.items() if key not in _PLACED and one not in (None, [], {}, "")}
    kept["beside"] = rest or None  # later requests omit unknown fields, because an API can reject them
    match kind:
        case "function_call":
            return offer.call(str(item.get("name", "")), id_, arguments_text(item.get("arguments")), mark(**kept))
        case "custom_tool_call":
            return offer.parsed_call(str(item.get("name", "")), id_, item.get("input", ""), mark(type=kind, **kept))
        case "computer_call":
            actions = item.get("actions") or ([item["action"]] if item.get("action") else [])
            checks = item.get("pending_safety_checks") or None
            params = without_nulls({"actions": actions, "pending_safety_checks": checks})
            single = None if item.get("actions") else True
            return _own_call(offer, kind, id_, params, mark(type=kind, **kept, single=single))
        case _:
            return _own_call(offer, kind, id_, without_nulls(item.get(OURS[kind])), mark(type=kind, **kept))


def arguments_text(value: object) -> str:
    """Return the arguments of a call as JSON text. Some servers send an object or null instead.

    >>> arguments_text({"a": 1}), arguments_text(None), arguments_text("{}")
    ('{"a":1}', '', '{}')
    """
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else ""


def calls_of(item: Mapping[str, Any], offer: RequestTools) -> list[ToolCall]:
    """Return the calls of an item: a single call, or the calls that it wraps."""
    call = call_of(item, offer)
    inside = unwrap_parallel(call.name, call.params) if is_wrapper(item, offer) else None
    if inside is None:
        return [call]
    about = {NAME: {key: one for key, one in marks(call).items() if key not in ("id", "status", "beside")}}
    kept = about if about[NAME] else {}
    return [offer.parsed_call(name, f"{call.id}_{n}", params, kept) for n, (name, params) in enumerate(inside, 1)]


_WRAPPERS: Final = ("parallel", "multi_tool_use.parallel", "multi_tool_use_parallel")


def is_wrapper(item: Mapping[str, Any], offer: RequestTools) -> bool:
    """Return True if an item is OpenAI's wrapper of multiple calls and not a call of a tool of the request."""
    name = item.get("name")
    return item.get("type") == "function_call" and name in _WRAPPERS and name not in offer.prepared.names


def unwrap_parallel(name: str, params: Any) -> list[tuple[str, Any]] | None:
    """Return the name and arguments of each call that a model wrapped into one call, or None for any other call.

    OpenAI's models sometimes wrap calls, although no request offers the wrapper. The caller checks that no tool of the
    request has this name.

    >>> wrapped = {"tool_uses": [{"recipient_name": "functions.add", "parameters": {"a": 1}}]}
    >>> unwrap_parallel("multi_tool_use.parallel", wrapped), unwrap_parallel("add", wrapped)
    ([('add', {'a': 1})], None)
    """
    uses = params.get("tool_uses") if is_object(params) else None
    if name not in _WRAPPERS or not is_array(uses) or not uses:
        return None
    inside = [(one.get("recipient_name"), one.get("parameters")) for one in uses if is_object(one)]
    if len(inside) < len(uses) or not all(isinstance(tool, str) and tool for tool, _ in inside):
        return None
    return [(str(tool).removeprefix("functions."), {} if given is None else given) for tool, given in inside]


def _own_call(offer: RequestTools, kind: str, id_: str, params: Any, metadata: Mapping[str, Any]) -> ToolCall:
    name = offer.tool_of_item(kind)
    return ToolCall(id_, name, params, dynamic=offer.dynamic(name), metadata=metadata)


def item_type(part: ToolCallPart, offer: RequestTools) -> str:
    """Return the item type of a call: its original type, or the type of its tool."""
    kind = marks(part).get("type")
    return kind if isinstance(kind, str) and kind in OURS else offer.item(part.name)


def arguments_of(part: ToolCallPart, params: Any) -> str:
    """Return the arguments of a call as JSON text. An object wraps invalid JSON, because servers parse the history."""
    arguments = params if part.params_text is None else {"INVALID_JSON": part.params_text}
    return msgspec.json.encode(arguments).decode()


def item_of(part: ToolCallPart, offer: RequestTools) -> JsonObject:
    """Return the item of a call for the history. This function is the inverse of `call_of`."""
    kind = item_type(part, offer)
    item: JsonObject = {"type": kind, "call_id": part.id, **marks(part, *_KEPT)}
    wire = offer.prepared.wire_call(part.name, part.params)
    match kind:
        case "function_call":
            return {**item, "name": wire.name, "arguments": arguments_of(part, wire.params)}
        case "custom_tool_call":
            return {**item, "name": wire.name, "input": input_of(part)}
        case "computer_call":
            return {**_whole(item, kind), **_computer(part, single=bool(marks(part).get("single")))}
        case "tool_search_call":
            return {**item, "execution": "client", "arguments": part.params}
        case _:
            return {**_whole(item, kind), OURS[kind]: part.params}


def input_of(part: ToolCallPart) -> str:
    """Return the input of a custom tool's call, which is a string."""
    params = part.params if part.params_text is None else part.params_text
    return params if isinstance(params, str) else msgspec.json.encode(params).decode()


def _whole(item: JsonObject, kind: str) -> JsonObject:
    """Return the item with the status and the id that its type requires."""
    status = {"status": "completed"} if kind in ("local_shell_call", "apply_patch_call", "computer_call") else {}
    return {
        **status,
        **({"id": ITEM_IDS.of(item["call_id"])} if kind in ("local_shell_call", "computer_call") else {}),
        **item,
    }


def _computer(part: ToolCallPart, *, single: bool) -> JsonObject:
    params = part.params if is_object(part.params) else {}
    found = params.get("actions")
    # `keys` is the only field that is required and can be null
    actions = [
        {"keys": None, **one} if one.get("type") == "double_click" else one
        for one in (found if is_array(found) else [])
        if is_object(one)
    ]
    checks: JsonObject = {"pending_safety_checks": params.get("pending_safety_checks") or []}
    return {**checks, **({"action": actions[0]} if single and actions else {"actions": actions})}


def output_of(part: ToolResultPart, call: ToolCallPart, offer: RequestTools, write: Any) -> list[JsonObject]:
    """Return the items that answer a call. `write` encodes text or a file of the result."""
    kind = item_type(call, offer)
    answer: JsonObject = {"type": f"{kind}_output", "call_id": part.id, **marks(call, "caller")}
    match kind:
        case "shell_call":
            outputs = part.result if is_array(part.result) else [None]
            if part.is_failure or not all(is_object(one) and "outcome" in one for one in outputs):
                outputs = [{"stdout": "", "stderr": _bare(part), "outcome": {"type": "exit", "exit_code": 1}}]
            return [{**answer, "output": outputs}]
        case "local_shell_call":
            return [{"type": answer["type"], "id": ITEM_IDS.of(part.id), "output": result_text(part)}]
        case "apply_patch_call":
            return [{**answer, "status": "failed" if part.is_failure else "completed", "output": _bare(part)}]
        case "computer_call":
            return _screen(part, call, answer)
        case "tool_search_call":
            found = part.result if is_array(part.result) and not part.is_failure else []
            return [{**answer, "type": "tool_search_output", "execution": "client", "tools": found}]
        case _:
            contents = contents_of(part, "text", "file")
            output = result_text(part) if contents is None else [write(one) for one in contents]
            return [{**answer, "output": output}]


def _bare(part: ToolResultPart) -> str:
    return part.result if isinstance(part.result, str) else result_text(part)


def _screen(part: ToolResultPart, call: ToolCallPart, answer: JsonObject) -> list[JsonObject]:
    if part.is_failure or not is_object(part.result):
        note = f"The call {part.id} failed, and there is no picture of the screen: {_bare(part)}"
        picture = {"type": "computer_screenshot", "image_url": _NO_PICTURE}
        return [{**answer, "output": picture}, {"type": "message", "role": "developer", "content": note}]
    picture = {"type": "computer_screenshot", **without_nulls(part.result)}
    # the handler received the checks with the actions and ran the actions
    checks = call.params.get("pending_safety_checks") if is_object(call.params) else None
    acknowledged = {"acknowledged_safety_checks": checks} if checks else {}
    return [{**answer, "output": picture, **acknowledged}]


HOSTED: Final[Mapping[str, tuple[str, ...]]] = {
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("code", "container_id"),
    "image_generation_call": (),
    "mcp_call": ("name", "arguments"),
    "mcp_approval_request": ("name", "arguments"),
}
"""The types of items that contain a call and its result, with the fields of the call's arguments."""

PAIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "shell_call": ("action",),
    "tool_search_call": ("arguments",),
    "program": ("code", "fingerprint"),
}
"""The types of provider calls whose results are separate items, with the fields of the call's arguments."""

ANSWERED: Final[Mapping[str, str]] = {
    "shell_call_output": "shell_call",
    "tool_search_output": "tool_search_call",
    "program_output": "program",
}
"""The types of these results, with the type of their call."""

_FIELDS: Final = ("name", "action", "arguments", "input")
"""The fields for the arguments of a call of unknown type."""

_BESIDE: Final = ("id", "server_label", "caller", "environment")  # fields in the metadata of the call
_NEVER: Final = ("type", "id", "call_id", "created_by")
_NULLABLE: Final = {"code_interpreter_call": ("code", "outputs"), "image_generation_call": ("result",)}

Hosted: TypeAlias = ToolCall | ToolResult | File | ApprovalRequest
"""The parts of an item of a hosted tool."""


def is_hosted(item: Mapping[str, Any], offer: RequestTools) -> bool:
    """Return True if an item is a provider call or its result. Calls of unknown types are provider calls."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    if kind in ("shell_call", "shell_call_output"):
        location = item.get("environment")
        return offer.runs("shell_call") or (is_object(location) and location.get("type") == "container_reference")
    return kind in ANSWERED or (is_hosted_type(kind) and kind not in OURS)


def is_hosted_type(kind: str) -> bool:
    """Return True if an item of this type can be a provider call."""
    return kind in HOSTED or kind in PAIRED or kind.endswith("_call")


def is_undecided(item: Mapping[str, Any], offer: RequestTools) -> bool:
    """Return True if only later items show who runs a call: a call of a custom tool that is not in the request.

    Servers such as xAI's use this form for their own tools. If the model continues after the call, the server ran it.
    """
    return item.get("type") == "custom_tool_call" and item.get("name") not in offer.prepared.names


def goes_on(item: Mapping[str, Any]) -> bool:
    """Return True if an item shows that the model received the earlier results. It is not a local call."""
    kind = item.get("type")
    return not isinstance(kind, str) or kind not in OURS


def last_that_goes_on(items: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the last item that continues the model's turn, or -1 if no item does.

    >>> last_that_goes_on([{"type": "function_call"}, {"type": "message"}, {"type": "function_call"}])
    1
    """
    return next((position for position in range(len(items) - 1, -1, -1) if goes_on(items[position])), -1)


def hosted_name(item: Mapping[str, Any], offer: RequestTools) -> str:
    """Return the name of the tool for an item of a hosted tool."""
    kind = ANSWERED.get(str(item["type"]), str(item["type"]))
    if kind in ("mcp_call", "mcp_approval_request"):
        label = str(item.get("server_label", ""))
        name = offer.name(f"mcp:{label}")
        return label if name == f"mcp:{label}" else name
    if kind in HOSTED or kind in PAIRED:
        return offer.tool_of_item(kind)
    return str(item.get("name") or kind.removesuffix("_call"))


def media_type(form: object) -> str:
    """Return the media type of a generated image from the provider's name of the format."""
    return "image/svg+xml" if form == "svg" else f"image/{form or 'png'}"


def hosted_parts(item: Mapping[str, Any], offer: RequestTools) -> list[Hosted]:
    """Return the parts of an item of a hosted tool: its call, its files, and its result, or one part of a pair."""
    kind, name = str(item["type"]), hosted_name(item, offer)
    if kind in ANSWERED:
        about = mark(id=item.get("id"), type=kind, caller=item.get("caller"), created_by=item.get("created_by"))
        return [_result(item, name, str(item.get("call_id") or item.get("id")), _rest(item, ("caller",)), about)]
    fields = HOSTED.get(kind, PAIRED.get(kind, _FIELDS))
    id_ = str(item.get("call_id") or item.get("id"))
    kept = {key: item.get(key) for key in (*_BESIDE, "created_by")}
    if kind in PAIRED and item.get("status") != "completed":
        kept["status"] = item.get("status")
    given = {key: item[key] for key in fields if item.get(key) is not None}
    text = given.get("arguments")
    read = parse_json(text) if isinstance(text, str) and text.strip() else None
    if isinstance(read, Success) and is_object(read.unwrap()):  # some items contain JSON text
        given["arguments"] = read.unwrap()
    params = without_nulls(given)
    call = ToolCall(id_, name, params, provider_executed=True, metadata=mark(type=kind, **kept))
    if kind in PAIRED:
        return [call]
    if kind == "mcp_approval_request":
        return [call, ApprovalRequest(id_, id_)]
    rest = _rest(item, (*fields, *_BESIDE))
    picture: list[File] = []
    if kind == "image_generation_call":
        with suppress(ValueError, TypeError):  # the value is missing or is not base64
            data = b64decode(item.get("result") or "", validate=True)
            about = mark(id=item.get("id"))
            picture = [File(media_type(item.get("output_format")), data, metadata=about)] if data else []
    if picture:
        rest.pop("result", None)
    return [call, *picture, _result(item, name, id_, rest, {})]


def _rest(item: Mapping[str, Any], without: tuple[str, ...]) -> JsonObject:
    rest = {key: value for key, value in item.items() if key not in (*_NEVER, *without) and value is not None}
    # the tools that a search found stay unchanged: some of their fields are required and can be null
    return {key: value if key == "tools" else without_nulls(value) for key, value in rest.items()}


def _result(
    item: Mapping[str, Any], name: str, id_: str, result: JsonObject, metadata: Mapping[str, Any]
) -> ToolResult:
    failed = item.get("status") == "failed" or item.get("error") is not None
    return ToolResult(id_, name, result, is_failure=failed, provider_executed=True, metadata=metadata)


def hosted_item(
    call: ToolCallPart, result: ToolResultPart | None, pictures: Mapping[str, FilePart]
) -> JsonObject | None:
    """Return the item of a provider call, or None if the call did not end and cannot be sent.

    Some items also contain the result. `pictures` are the generated images by the id of their item.
    """
    kind = str(marks(call).get("type"))
    beside = marks(call, *_BESIDE, "status")
    params: JsonObject = dict(call.params) if is_object(call.params) else {}
    if kind in PAIRED:
        server = {"execution": "server"} if kind == "tool_search_call" else {}
        # a search of the provider has no call id, so the id of the item identifies the call
        pair = {} if call.id == beside.get("id") else {"call_id": call.id}
        return {"type": kind, **pair, **server, **beside, **params}
    if kind in ("mcp_call", "mcp_approval_request") or "arguments" in params:
        given = params.get("arguments")
        params["arguments"] = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    if kind == "mcp_approval_request":
        return {"type": kind, **beside, **params}
    if result is None or not is_object(result.result):
        return None
    nothing: JsonObject = dict.fromkeys(_NULLABLE.get(kind, ()))
    picture = pictures.get(str(beside.get("id"))) if kind == "image_generation_call" else None
    drawn = {"result": b64encode(picture.data).decode()} if picture and isinstance(picture.data, bytes) else {}
    pair = {} if call.id == beside.get("id") else {"call_id": call.id}
    # a history can contain anything, including an item of another type instead of a result
    return {"type": kind, **nothing, **pair, **beside, **params, **result.result, **drawn} | {"type": kind}


Item: TypeAlias = Mapping[str, Any]

_KNOWN: Final = frozenset(("id", "type", "index", "function", "custom"))


@final
class ChatCall(msgspec.Struct):
    """A call during the assembly of its pieces."""

    id: str
    name: str = ""
    deltas: list[str] = []
    custom: bool = False
    started: bool = False
    extras: JsonObject = {}

    @property
    def text(self) -> str:
        """The arguments or the input until now."""
        return "".join(self.deltas)

    @property
    def metadata(self) -> JsonObject:
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
        # the kind of a piece, function or custom tool, from `type` or from its nonempty field
        function, custom, kind = piece.get("function"), piece.get("custom"), piece.get("type")
        is_custom = kind == "custom" or (kind != "function" and is_object(custom) and not is_object(function))
        kind, found = ("custom", custom) if is_custom else ("function", function)
        fields: Item = found if is_object(found) else {}
        name, text = (
            str(fields.get("name") or ""),
            arguments_text(fields.get("input" if kind == "custom" else "arguments")),
        )
        call = self._call_of(piece, name, text)
        call.custom = call.custom or kind == "custom"
        call.name = call.name or name
        call.deltas.append(text)
        extras = {key: value for key, value in piece.items() if key not in _KNOWN and value not in _NOTHING}
        inner = {
            key: value
            for key, value in fields.items()
            if key not in ("name", "arguments", "input") and value not in _NOTHING
        }
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
    found: list[tuple[str, str]] = []
    for one in data if is_array(data) else [data]:
        fields = one.get("function", one) if is_object(one) else None
        name = fields.get("name") if is_object(fields) else None
        if not is_object(fields) or not isinstance(name, str) or not name:
            return None
        found.append((name, arguments_text(fields.get("arguments", fields.get("parameters", {})))))
    return found or None


def is_refused_call(body: bytes) -> bool:
    """Return True if the body of an error contains invalid calls. These calls are an answer of the model."""
    if b'"failed_generation"' not in body:
        return False
    read = parse_json(body)
    data = read.unwrap() if isinstance(read, Success) else None
    return failed_generation(data.get("error") if is_object(data) else None) is not None


# -- tools that a server ran


@final
class ExecutedTools:
    """The tools that a server ran for an answer, such as Groq's. Each tool is a call and a result."""

    def __init__(self) -> None:
        self._seen: dict[int, JsonObject] = {}
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
