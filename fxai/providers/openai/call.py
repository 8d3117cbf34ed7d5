"""Calls of tools that run here, on Responses: items to calls, and calls and results back to items.

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

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fxai.messages.content import ToolCallPart, ToolResultPart
from fxai.messages.part import ToolCall
from fxai.messages.reason import InvalidUserInputError
from fxai.models.result_content import contents_of
from fxai.models.tool_encoding import PreparationError, without_nulls
from fxai.providers.openai.metadata import mark, marks
from fxai.providers.openai.request_tools import RequestTools
from fxai.schema.data import is_array, is_object

__all__ = [
    "OURS",
    "arguments_of",
    "call_of",
    "input_of",
    "item_of",
    "item_type",
    "output_of",
    "refuse_unanswered",
    "result_text",
]


_DENIED: Final = "Tool call execution denied."


def result_text(part: ToolResultPart) -> str:
    """A tool's result as a text for the model: a text as it is, anything else as JSON, a denial by its reason alone.

    A failure has no mark of its own on these wires, so it is wrapped.

    >>> result_text(ToolResultPart("c", "add", {"sum": 5}))
    '{"sum":5}'
    >>> result_text(ToolResultPart("c", "add", "no", is_failure=True))
    '{"error":"no"}'
    """
    result = part.result
    if is_object(result) and result.get("type") == "execution-denied":
        reason = result.get("reason")
        return reason if isinstance(reason, str) and reason else _DENIED
    shown = {"error": result} if part.is_failure else result
    return shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()


# Each type of item that we answer, with the field that holds the parameters.
OURS: Final[Mapping[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "shell_call": "action",
    "local_shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "actions",
    "tool_search_call": "arguments",
}
"""The types of calls that we answer, each with the field that holds the parameters."""

_KEPT: Final = ("id", "namespace", "caller", "async", "environment", "status")
_STATUS_NEEDED: Final = frozenset(("local_shell_call", "apply_patch_call", "computer_call"))
_ID_NEEDED: Final = frozenset(("local_shell_call", "computer_call"))

# A picture of one point: what a failed computer call is answered by, since the wire has no place for a failure.
_NO_PICTURE: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def call_of(item: Mapping[str, Any], offer: RequestTools) -> ToolCall:
    """The call that an item asks for: its parameters as the tool's own schema has them."""
    kind = str(item["type"])
    id_ = str(item.get("call_id") or item.get("id") or "")
    said: dict[str, Any] = {name: item.get(name) for name in _KEPT}
    said["status"] = None if said["status"] == "completed" else said["status"]
    match kind:
        case "function_call":
            return offer.call(str(item.get("name", "")), id_, str(item.get("arguments", "")), mark(**said))
        case "custom_tool_call":
            return offer.parsed_call(str(item.get("name", "")), id_, item.get("input", ""), mark(type=kind, **said))
        case "computer_call":
            one = {} if item.get("actions") else {"single": True}
            return _provided(offer, kind, id_, _actions(item), mark(type=kind, **said, **one))
        case _:
            return _provided(offer, kind, id_, without_nulls(item.get(OURS[kind])), mark(type=kind, **said))


def _provided(offer: RequestTools, kind: str, id_: str, params: Any, metadata: Mapping[str, Any]) -> ToolCall:
    name = offer.named(kind)
    return ToolCall(id_, name, params, dynamic=offer.dynamic(name), metadata=metadata)


def _actions(item: Mapping[str, Any]) -> dict[str, Any]:
    listed = item.get("actions") or ([item["action"]] if item.get("action") else [])
    checks = item.get("pending_safety_checks")
    params = {"actions": listed, **({"pending_safety_checks": checks} if checks else {})}
    plain: dict[str, Any] = without_nulls(params)
    return plain


def item_type(part: ToolCallPart, offer: RequestTools) -> str:
    """The item type of a call: the one that it came as, else that of its tool."""
    kind = marks(part).get("type")
    return kind if isinstance(kind, str) and kind in OURS else offer.item(part.name)


def arguments_of(part: ToolCallPart, params: Any) -> str:
    """The arguments of a call as JSON text; invalid JSON is wrapped in an object: servers parse the history too."""
    said = params if part.params_text is None else {"INVALID_JSON": part.params_text}
    return msgspec.json.encode(said).decode()


def item_of(part: ToolCallPart, offer: RequestTools) -> dict[str, Any]:
    """The item of a call, for the history; the opposite of `call_of`."""
    kind, said = item_type(part, offer), marks(part)
    item: dict[str, Any] = {"type": kind, "call_id": part.id, **{key: said[key] for key in _KEPT if key in said}}
    wire = offer.prepared.wire_call(part.name, part.params)
    match kind:
        case "function_call":
            return {**item, "name": wire.name, "arguments": arguments_of(part, wire.params)}
        case "custom_tool_call":
            return {**item, "name": wire.name, "input": input_of(part)}
        case "computer_call":
            return {**_whole(item, kind, part.id), **_computer(part, single=bool(said.get("single")))}
        case "tool_search_call":
            return {**item, "execution": "client", "arguments": part.params}
        case _:
            return {**_whole(item, kind, part.id), OURS[kind]: part.params}


def refuse_unanswered(calls: Iterable[ToolCallPart]) -> None:
    """Refuses calls without a result, which neither API takes; those of asynchronous tools may wait.

    Raises:
        PreparationError: there is such a call.
    """
    for call in calls:
        if not marks(call).get("async"):
            said = (
                f"the call {call.id} of the tool {call.name!r} has no result in the prompt, and the provider wants one"
            )
            raise PreparationError(InvalidUserInputError(f"{said}: answer it in a tool message, or take it out"))


def input_of(part: ToolCallPart) -> str:
    """The input of a call of a custom tool, which is a text."""
    given = part.params if part.params_text is None else part.params_text
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _whole(item: dict[str, Any], kind: str, call_id: str) -> dict[str, Any]:
    """The item with the status and the id that the wire wants of its type."""
    status = {"status": "completed"} if kind in _STATUS_NEEDED else {}
    return {**status, **({"id": call_id} if kind in _ID_NEEDED else {}), **item}


def _computer(part: ToolCallPart, *, single: bool) -> dict[str, Any]:
    params = part.params if is_object(part.params) else {}
    given = params.get("actions")
    # The one field of the wire that must be there and may be null.
    actions = [
        {"keys": None, **one} if one.get("type") == "double_click" else one
        for one in (given if is_array(given) else [])
        if is_object(one)
    ]
    checks: dict[str, Any] = {"pending_safety_checks": params.get("pending_safety_checks") or []}
    return {**checks, **({"action": actions[0]} if single and actions else {"actions": actions})}


def output_of(part: ToolResultPart, call: ToolCallPart | None, offer: RequestTools, write: Any) -> list[dict[str, Any]]:
    """The items that answer a call.

    Args:
        part: the result.
        call: the call, where the prompt holds it.
        offer: the tools of the request.
        write: what writes a text or a file of a content, where the result is one.
    """
    kind = offer.item(part.name) if call is None else item_type(call, offer)
    caller = {} if call is None or "caller" not in marks(call) else {"caller": marks(call)["caller"]}
    answer: dict[str, Any] = {"type": f"{kind}_output", "call_id": part.id, **caller}
    match kind:
        case "shell_call":
            return [{**answer, "output": _shell(part)}]
        case "local_shell_call":
            return [{"type": answer["type"], "id": part.id, "output": result_text(part)}]
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


def _shell(part: ToolResultPart) -> list[dict[str, Any]]:
    given = part.result
    if not part.is_failure and is_array(given) and all(is_object(one) and "outcome" in one for one in given):
        return given
    return [{"stdout": "", "stderr": _bare(part), "outcome": {"type": "exit", "exit_code": 1}}]


def _screen(part: ToolResultPart, call: ToolCallPart | None, answer: dict[str, Any]) -> list[dict[str, Any]]:
    if part.is_failure or not is_object(part.result):
        said = f"The call {part.id} failed, and there is no picture of the screen: {_bare(part)}"
        picture = {"type": "computer_screenshot", "image_url": _NO_PICTURE}
        return [{**answer, "output": picture}, {"type": "message", "role": "developer", "content": said}]
    picture = {"type": "computer_screenshot", **without_nulls(part.result)}
    # Whoever answered the call was shown its checks with the actions, and did them.
    checks = call.params.get("pending_safety_checks") if call is not None and is_object(call.params) else None
    seen = {"acknowledged_safety_checks": checks} if checks else {}
    return [{**answer, "output": picture, **seen}]
