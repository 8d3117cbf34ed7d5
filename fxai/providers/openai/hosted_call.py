"""Calls that OpenAI runs itself, on Responses: from their items to calls and results, and back for the history.

>>> from fxai.providers.openai.tool_encoding import prepare_tools
>>> offer = RequestTools(prepare_tools([], model="gpt-5.5"))
>>> item = {"type": "file_search_call", "id": "fs_1", "queries": ["tea"], "status": "completed"}
>>> call, result = hosted_parts(item, offer)
>>> call.name, call.params, result.result
('file_search', {'queries': ['tea']}, {'status': 'completed'})
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from returns.result import Success

from fxai.messages.content import FilePart, ToolCallPart, ToolResultPart
from fxai.messages.part import ApprovalRequest, File, ToolCall, ToolResult
from fxai.models.tool_encoding import without_nulls
from fxai.providers.openai.metadata import mark, marks
from fxai.providers.openai.request_tools import RequestTools
from fxai.schema.data import is_object
from fxai.schema.parsing import parse_json

__all__ = ["ANSWERED", "HOSTED", "PAIRED", "Hosted", "hosted_item", "hosted_name", "hosted_parts", "media_type"]

HOSTED: Final[Mapping[str, tuple[str, ...]]] = {
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("code", "container_id"),
    "image_generation_call": (),
    "mcp_call": ("name", "arguments"),
    "mcp_approval_request": ("name", "arguments"),
}
"""The types of items that hold a call and its result at once, each with the fields that are the call's parameters."""

PAIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "shell_call": ("action",),
    "tool_search_call": ("arguments",),
    "program": ("code", "fingerprint"),
}
"""The types of items that are calls of the provider's whose results are items of their own."""

ANSWERED: Final[Mapping[str, str]] = {
    "shell_call_output": "shell_call",
    "tool_search_output": "tool_search_call",
    "program_output": "program",
}
"""The types of those results, each with the type of its call."""

_BESIDE: Final = ("id", "server_label", "caller", "environment")  # kept as marks of the call
_NEVER: Final = ("type", "id", "call_id", "created_by")
_NULLABLE: Final = {"code_interpreter_call": ("code", "outputs"), "image_generation_call": ("result",)}

Hosted: TypeAlias = ToolCall | ToolResult | File | ApprovalRequest
"""What an item of the provider's becomes."""


def hosted_name(item: Mapping[str, Any], offer: RequestTools) -> str:
    """The tool that an item of the provider's is about."""
    kind = ANSWERED.get(str(item["type"]), str(item["type"]))
    if kind in ("mcp_call", "mcp_approval_request"):
        label = str(item.get("server_label", ""))
        meant = offer.name(f"mcp:{label}")
        return label if meant == f"mcp:{label}" else meant
    return offer.named(kind)


def media_type(form: object) -> str:
    """The media type of a generated image, by the format that the provider names."""
    return "image/svg+xml" if form == "svg" else f"image/{form or 'png'}"


def hosted_parts(item: Mapping[str, Any], offer: RequestTools) -> list[Hosted]:
    """The parts that an item of the provider's is: its call, its files, its result; or one half of a pair."""
    kind, name = str(item["type"]), hosted_name(item, offer)
    if kind in ANSWERED:
        about = mark(id=item.get("id"), type=kind, caller=item.get("caller"))
        return [_result(item, name, str(item.get("call_id") or item.get("id")), _rest(item, ("caller",)), about)]
    fields = HOSTED.get(kind) or PAIRED.get(kind) or ()
    id_ = str(item.get("call_id") or item.get("id"))
    said = {key: item.get(key) for key in _BESIDE}
    if kind in PAIRED and item.get("status") != "completed":
        said["status"] = item.get("status")
    params = without_nulls({key: _parsed(key, item.get(key)) for key in fields})
    call = ToolCall(id_, name, params, provider_executed=True, metadata=mark(type=kind, **said))
    if kind in PAIRED:
        return [call]
    if kind == "mcp_approval_request":
        return [call, ApprovalRequest(id_, id_)]
    rest = _rest(item, (*fields, *_BESIDE))
    picture = _picture(item) if kind == "image_generation_call" else []
    if picture:
        rest.pop("result", None)
    return [call, *picture, _result(item, name, id_, rest, {})]


def _parsed(key: str, value: Any) -> Any:
    """The arguments of a call, which some items hold as JSON text; text that is none stays one."""
    if key != "arguments" or not isinstance(value, str):
        return value
    read = parse_json(value) if value.strip() else None
    return read.unwrap() if isinstance(read, Success) and is_object(read.unwrap()) else value


def _rest(item: Mapping[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key not in (*_NEVER, *without) and value is not None}
    # The tools that a search found stay as they are: of those, fields that are null must be there.
    return {key: value if key == "tools" else without_nulls(value) for key, value in kept.items()}


def _result(
    item: Mapping[str, Any], name: str, id_: str, result: dict[str, Any], metadata: Mapping[str, Any]
) -> ToolResult:
    failed = item.get("status") == "failed" or item.get("error") is not None
    return ToolResult(id_, name, result, is_failure=failed, provider_executed=True, metadata=metadata)


def _picture(item: Mapping[str, Any]) -> list[File]:
    try:
        data = b64decode(item.get("result") or "", validate=True)
    except (NotBase64, ValueError, TypeError):  # no text at all, or none in base64
        return []
    return [File(media_type(item.get("output_format")), data, metadata=mark(id=item.get("id")))] if data else []


def hosted_item(
    call: ToolCallPart, result: ToolResultPart | None, pictures: Mapping[str, FilePart]
) -> dict[str, Any] | None:
    """The item of a call that the provider ran; None where it never ended, so that there is nothing to send.

    Args:
        call: the call.
        result: its result, for items that hold both.
        pictures: the generated images, by the id of their item.
    """
    said = marks(call)
    kind = str(said.get("type"))
    beside = {key: said[key] for key in (*_BESIDE, "status") if key in said}
    params: dict[str, Any] = dict(call.params) if is_object(call.params) else {}
    if kind in PAIRED:
        server = {"execution": "server"} if kind == "tool_search_call" else {}
        # A search of the provider's own has no call id: then the item's stands for the call.
        pair = {} if call.id == beside.get("id") else {"call_id": call.id}
        return {"type": kind, **pair, **server, **beside, **params}
    if kind in ("mcp_call", "mcp_approval_request"):
        params["arguments"] = _written(params.get("arguments"))
    if kind == "mcp_approval_request":
        return {"type": kind, **beside, **params}
    if result is None or not is_object(result.result):
        return None
    nothing: dict[str, Any] = dict.fromkeys(_NULLABLE.get(kind, ()))
    picture = pictures.get(str(said.get("id"))) if kind == "image_generation_call" else None
    drawn = {"result": b64encode(picture.data).decode()} if picture and isinstance(picture.data, bytes) else {}
    return {"type": kind, **nothing, **beside, **params, **result.result, **drawn}


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
