"""Content blocks: the parts of a message as Anthropic's wire writes them.

What only Anthropic said of a part (signatures, citations, who called a tool) stands in its `metadata["anthropic"]` and
goes back as it came.

>>> from fxai.messages.content import ReasoningPart
>>> thought = ReasoningPart("Two and two.", metadata={"anthropic": {"signature": "S"}})
>>> reasoning_block(thought)
{'type': 'thinking', 'thinking': 'Two and two.', 'signature': 'S'}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fxai.messages.content import (
    FilePart,
    FileUrl,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserContent,
)
from fxai.messages.metadata import Metadata
from fxai.messages.reason import NetworkError
from fxai.models.result_content import file_note
from fxai.models.tool_encoding import PreparationError, PreparedTools, WireCall, without_nulls
from fxai.providers.anthropic.file import file_block
from fxai.providers.anthropic.option import said_in
from fxai.schema.data import is_array, is_object

__all__ = [
    "call_block",
    "call_id",
    "citations_of",
    "hosted_block",
    "json_of",
    "made_file_block",
    "reasoning_block",
    "result_block",
    "text_block",
    "user_block",
    "with_cache",
]

_NO_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_DENIED: Final = "Tool call execution denied."
_EMPTY: Final = {"type": "text", "text": ""}
_PICTURED: Final = frozenset({"media_type", "data", "file_name"})
_SHOWN: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"text"}),
    "image": frozenset({"source"}),
    "document": frozenset({"source"}),
    "search_result": frozenset({"content", "source", "title"}),
    "tool_reference": frozenset({"tool_name"}),
    "browser_state": frozenset({"tabs"}),
}


def json_of(value: Any) -> bytes:
    """The value as JSON text.

    Raises:
        PreparationError: it holds what JSON cannot carry.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, UnicodeEncodeError, RecursionError) as error:
        raise PreparationError(NetworkError(kind="EncodeError", description=str(error))) from None


def with_cache(block: dict[str, Any], metadata: Metadata) -> dict[str, Any]:
    """The block, marked for the cache where the metadata says so."""
    mark = said_in(metadata).get("cache_control")
    return {**block, "cache_control": mark} if is_object(mark) else block


def call_id(given: str) -> str:
    """A call's id as the wire takes it: letters, digits, `_` and `-`; another provider's id that has more is digested.

    >>> call_id("toolu_1"), call_id("call|1")
    ('toolu_1', 'call_1_c26e9779')
    """
    if given and not _NO_ID.search(given):
        return given
    from hashlib import sha256

    return f"{_NO_ID.sub('_', given)}_{sha256(given.encode()).hexdigest()[:8]}"


def user_block(part: UserContent) -> dict[str, Any] | None:
    """The block of what a user said; None for a text that says nothing, which the wire refuses.

    Raises:
        PreparationError: a file that cannot be sent.
    """
    block = text_block(part) if part.type == "text" else file_block(part)
    return None if block is None else with_cache(block, part.metadata)


def text_block(part: TextPart) -> dict[str, Any] | None:
    """The block of a text, with what it cites; a block that no part is made for, as it came; None for no text."""
    said = said_in(part.metadata)
    kept = said.get("block")
    if is_object(kept):
        return kept
    if not part.text.strip():
        return None
    cited = _citations(said)
    return {"type": "text", "text": part.text, **({"citations": cited} if cited else {})}


def citations_of(said: Mapping[str, Any]) -> list[Any]:
    """What a block, or the metadata of a part, says that it cites, as it came; nothing where that is no list."""
    cited = said.get("citations")
    return list(cited) if is_array(cited) else []


def _citations(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Citations as the request has them: objects, without the fields of the response alone, the nullable ones said."""
    taken: list[dict[str, Any]] = []
    for one in filter(is_object, citations_of(said)):
        found = one.get("type") in ("web_search_result_location", "search_result_location")
        title = "title" if found else "document_title"
        held = {key: value for key, value in one.items() if key != "file_id" and value is not None}
        taken.append({title: None, **held})
    return taken


def reasoning_block(part: ReasoningPart) -> dict[str, Any] | None:
    """The block of reasoning; None where it is not Anthropic's, or has no signature: the wire refuses it."""
    said = said_in(part.metadata)
    if "redacted_data" in said:
        return {"type": "redacted_thinking", "data": said["redacted_data"]}
    if "signature" in said:
        return {"type": "thinking", "thinking": part.text, "signature": said["signature"]}
    return None


def made_file_block(part: FilePart) -> dict[str, Any] | None:
    """The block of a file that the model made in its container; None for others, which the wire refuses there."""
    if said_in(part.metadata).get("type") != "container_upload" or not isinstance(part.data, FileUrl):
        return None
    return {"type": "container_upload", "file_id": part.data.url}


def call_block(part: ToolCallPart, tools: PreparedTools) -> dict[str, Any]:
    """The block of a call of one of our tools, as the model wrote it.

    Parameters that are no JSON go under the key that Anthropic's documentation names for them.
    """
    wire = _wire(part, tools)
    said = said_in(part.metadata)
    caller = {"caller": said["caller"]} if is_object(said.get("caller")) else {}
    toolset = {} if wire.toolset is None else {"toolset_name": wire.toolset}
    block = {"type": "tool_use", "id": call_id(part.id), "name": wire.name, "input": _input(part, wire.params)}
    return with_cache({**block, **caller, **toolset}, part.metadata)


def _wire(part: ToolCallPart, tools: PreparedTools) -> WireCall:
    """The call on the wire; one of a tool that is not there any more has a name that the wire takes."""
    wire = tools.wire_call(part.name, part.params)
    name = _NO_ID.sub("_", wire.name)[:128] or "_"
    return WireCall(name, wire.params, wire.toolset)


def _input(part: ToolCallPart, params: Any) -> dict[str, Any]:
    if part.params_text is not None:
        return {"INVALID_JSON": part.params_text}
    if params is None:
        return {}
    return params if is_object(params) else {"INVALID_JSON": json_of(params).decode()}


def hosted_block(part: ToolCallPart | ToolResultPart) -> dict[str, Any] | None:
    """The block of a call that Anthropic ran, or of its result; None where another provider did."""
    said = said_in(part.metadata)
    if "type" not in said:
        return None
    if part.type == "tool-call":
        body: dict[str, Any] = {"id": part.id, "name": said.get("name", part.name), "input": part.params or {}}
    else:
        body = {"tool_use_id": part.id, "content": without_nulls(part.result)}
    extras = {key: value for key, value in said.items() if key not in ("name", "cache_control")}
    return with_cache({**extras, **body}, part.metadata)


def result_block(part: ToolResultPart, toolset: str | None, lost: Callable[[FilePart], None]) -> dict[str, Any]:
    """The block of the result of a call of ours.

    Args:
        part: the result.
        toolset: what the call named, if it did.
        lost: told of each file that the wire does not take; the model is told that it was left out.
    """
    shown = _content(part.result, lost)
    content = {} if shown is None else {"content": shown}
    failed = {"is_error": True} if part.is_failure else {}
    named = {} if toolset is None else {"toolset_name": toolset}
    block = {"type": "tool_result", "tool_use_id": call_id(part.id), **content, **failed, **named}
    return with_cache(block, part.metadata)


def _content(result: Any, lost: Callable[[FilePart], None]) -> str | list[dict[str, Any]] | None:
    """A result for the model: a text as it is, texts and pictures as blocks, anything else as JSON text."""
    if result is None:
        return None
    if isinstance(result, str):
        return result
    if is_object(result) and result.get("type") == "execution-denied":
        return str(result.get("reason") or _DENIED)
    said = [one for one in result if one != _EMPTY] if is_array(result) else []  # the wire refuses empty texts
    blocks = [_content_block(one, lost) for one in said]
    found = [block for block in blocks if block is not None]
    return found if found and len(found) == len(blocks) else json_of(result).decode()


def _content_block(one: Any, lost: Callable[[FilePart], None]) -> dict[str, Any] | None:
    """A block of a result: in the wire's own form, or a picture or file as `ToolContent` and `FilePart` have them."""
    if not is_object(one):
        return None
    kind, named = one.get("type"), frozenset(one) - {"type", "cache_control"}
    if kind in ("image", "file") and {"media_type", "data"} <= named <= _PICTURED:
        return _pictured(one, lost)
    needed = _SHOWN.get(kind) if isinstance(kind, str) else None
    return one if needed is not None and needed <= named and one.get("text") != "" else None


def _pictured(one: dict[str, Any], lost: Callable[[FilePart], None]) -> dict[str, Any] | None:
    try:
        part = msgspec.convert({**one, "type": "file"}, FilePart)
    except msgspec.ValidationError:
        return None  # told as JSON text
    try:
        return file_block(part)
    except PreparationError:
        lost(part)
        return {"type": "text", "text": file_note(part)}
