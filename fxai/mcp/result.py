"""Results of MCP servers: values of calls for programs and models, and failures. Match the failures of a call with it.

`McpError` is a failure of the server, with the event and the remedy. `McpToolError` is a failure of a tool, with its
content. Both are typed failures of a call. Opening a server fails only with `McpError`.

>>> read_result({"structuredContent": {"n": 1}}).flaws
('the result has no content',)
>>> shown_content({"content": [{"type": "text", "text": "sunny"}]})
'sunny'
>>> print(McpError("git", "start", "program 'uvx' not found", remedy="Install it"))
MCP server 'git': program 'uvx' not found. Install it
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import override

from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject, is_array, is_listed, is_object

_LEFT_OUT: Final = re.compile(r"\(\d+ characters of base64, left out\)")


_ENVELOPE: Final = ("_meta", "isError", "resultType", "ttlMs", "cacheScope", "content", "structuredContent")
_TEXT: Final = {"type": "text"}

# The members of each type of content that must be strings, or an object for a resource.
_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}


@final
class CallResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    content: tuple[JsonObject, ...]
    """The content blocks, as JSON values."""
    structured: Any = None
    is_structured: bool = False
    """True if the result has structured content."""
    is_error: bool = False
    flaws: tuple[str, ...] = ()
    """The differences from the protocol, one sentence each."""


def count_contents(result: Mapping[str, Any]) -> int:
    """Return the number of content blocks of a result."""
    content = result.get("content")
    return len(content) if is_array(content) else 1


def read_result(result: Mapping[str, Any]) -> CallResult:
    """Read a result. A result that breaks the protocol keeps its data and has flaws."""
    flaws: list[str] = []
    structured = result.get("structuredContent")
    content = _content(result, flaws)
    others = {name: value for name, value in result.items() if name not in _ENVELOPE}
    if structured is None and "content" not in result and others:
        flaws.append(f"the result has its data in {', '.join(map(repr, others))[:80]}")
        structured = others
    is_error = result.get("isError")
    if not isinstance(is_error, bool | None):
        flaws.append(f"isError must be true or false, got {type(is_error).__name__}")
    failed = is_error is not None and is_error is not False  # any other value means an error
    return CallResult(content, structured, structured is not None, failed, tuple(flaws))


def _content(result: Mapping[str, Any], flaws: list[str]) -> tuple[JsonObject, ...]:
    content = result.get("content")
    if content is None:
        flaws.append("the result has no content")
        return ()
    if not is_array(content):
        flaws.append(f"content must be an array, got {type(content).__name__}")
        return (_block(content),)
    odd = [(location, fault) for location, block in enumerate(content) if (fault := _fault(block)) is not None]
    if odd:
        location, fault = odd[0]
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        flaws.append(f"content[{location}]{fault}{more}")
    return tuple(_block(block) for block in content)


def _fault(block: Any) -> str | None:
    if not is_object(block):
        return f" must be an object, got {type(block).__name__}"
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        return f" has the unknown type {str(kind)[:40]!r}"
    if kind == "resource" and not is_object(block.get("resource")):
        return ".resource must be an object"
    wrong = [name for name in _MEMBERS[kind] if not isinstance(block.get(name), str)]
    return f".{wrong[0]} must be a string" if wrong else None


def _block(block: Any) -> JsonObject:
    """Return the block. A block without a type or with a text that is not a string becomes a text."""
    if isinstance(block, str):
        return {**_TEXT, "text": block}
    if not is_object(block) or not isinstance(block.get("type"), str):
        return {**_TEXT, "text": msgspec.json.encode(block).decode()}
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        return {**block, "text": msgspec.json.encode(block.get("text")).decode()}
    return block


def result_value(content: Sequence[Mapping[str, Any]], structured: Any, *, is_structured: bool) -> Any:
    """Return the value of a call: its structured content, or `{"content": […]}` without structured content.

    If the result has both structured content and blocks other than text, the value contains both, so that no data is
    lost: `{"structuredContent": …, "content": […]}`. Text blocks only repeat the structured content.
    """
    if not is_structured:
        return {"content": [dict(block) for block in content]}
    others = [dict(block) for block in content if block.get("type") != "text"]
    return {"structuredContent": structured, "content": others} if others else structured


def content_text(content: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts among content blocks, one per line."""
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def without_data(block: Mapping[str, Any]) -> JsonObject:
    """Return the block with the length of its base64 data instead of the data. Without data, return it unchanged."""
    resource = block.get("resource")
    if isinstance(resource, Mapping):
        return {**block, "resource": without_data(cast("Mapping[str, Any]", resource))}
    held = {name: block[name] for name in ("data", "blob") if isinstance(block.get(name), str)}
    left_out = {
        name: f"({len(data)} characters of base64, left out)"
        for name, data in held.items()
        if not _LEFT_OUT.fullmatch(data)
    }
    return {**block, **left_out}


def shown_content(value: Any) -> Any:
    """Return the value of a call in the form for a model.

    A single text block becomes its string. Several blocks become a list in order. Texts and files have the form of
    fxai's messages: `{"type": "text", …}`, or `{"type": "file", "media_type", "data"}` with base64 data. Other blocks
    become JSON. Structured content stays unchanged.
    """
    blocks = _blocks(value)
    if blocks is None:
        return value
    parts = [_part(block) for block in blocks]
    if "structuredContent" in value:
        parts = [{"type": "text", "text": _json(value["structuredContent"])}, *parts]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _blocks(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return the content blocks of a value from `result_value`, or None for structured content."""
    if not isinstance(value, Mapping):
        return None
    given = cast("Mapping[str, Any]", value)
    if set(given) not in ({"content"}, {"content", "structuredContent"}) or not is_listed(given["content"]):
        return None
    blocks = given["content"]
    return blocks if all(isinstance(one, Mapping) and "type" in one for one in blocks) else None


def _part(block: Mapping[str, Any]) -> JsonObject:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind in ("image", "audio"):
        return _file(block.get("mimeType"), block.get("data"), None)
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        held = cast("Mapping[str, Any]", resource)
        if isinstance(held.get("text"), str):
            return {"type": "text", "text": held["text"]}
        if isinstance(held.get("blob"), str):
            return _file(held.get("mimeType"), held["blob"], held.get("uri"))
    return {"type": "text", "text": _json(dict(block))}


def _file(media_type: Any, data: Any, name: Any) -> JsonObject:
    kind = media_type if isinstance(media_type, str) and media_type else "application/octet-stream"
    sound = _base64(data)
    if sound is None:
        return {"type": "text", "text": f"(a file of type {kind} is omitted: its data is not base64)"}
    part = {"type": "file", "media_type": kind, "data": sound}
    return {**part, "file_name": name} if isinstance(name, str) else part


def _base64(data: Any) -> str | None:
    """Return the data as strict base64, or None if it is not base64. Line breaks and missing padding are allowed."""
    if not isinstance(data, str):
        return None
    joined = "".join(data.split()).rstrip("=")
    padded = joined + "=" * (-len(joined) % 4)
    try:
        b64decode(padded, validate=True)
    except ValueError:
        return None
    return padded


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


McpErrorKind: TypeAlias = Literal[
    "start",
    "connection",
    "authentication",
    "timeout",
    "protocol",
    "invalid-answer",
    "limit",
    "input-required",
    "held-back",
    "no-such-tool",
    "pins",
]
"""The kind of a failure.

- `"start"`: the server did not start.
- `"connection"`: the connection failed or was lost.
- `"authentication"`: the server refused the credentials.
- `"timeout"`: the server was too slow.
- `"protocol"`: the server answered with a protocol error.
- `"invalid-answer"`: the answer breaks the protocol.
- `"limit"`: the server sent more than a limit allows.
- `"input-required"`: the server requested input, and no `elicit` function is set.
- `"held-back"`: the tool is blocked.
- `"no-such-tool"`: the server has no tool with this name.
- `"pins"`: fxai cannot read or write the pins.
"""


@final
class McpError(msgspec.Struct, frozen=True, tag_field="type", tag="mcp-error", omit_defaults=True):
    """A failure of a server, not of one of its tools."""

    server: str
    """The name of the server in this program."""
    kind: McpErrorKind
    """The kind of failure."""
    problem: str
    """The event."""
    remedy: str = ""
    """The remedy. It can be empty."""
    tool: str | None = None
    """The called tool. None outside a call."""
    code: int | None = None
    """The code of the server's JSON-RPC error."""
    stderr: str = ""
    """The end of the server's standard error. Models do not see it."""

    @property
    def message(self) -> str:
        """The event and the remedy in one line, followed by the end of the server's standard error."""
        return str(self)

    @override
    def __str__(self) -> str:
        calling = f", call of {self.tool!r}" if self.tool is not None else ""
        text = f"MCP server {self.server!r}{calling}: {self.problem}"
        if self.remedy:
            text += f". {self.remedy}"
        return f"{text}\nstandard error ends with:\n{self.stderr}" if self.stderr else text


@final
class McpToolError(msgspec.Struct, frozen=True, tag_field="type", tag="mcp-tool-error", omit_defaults=True):
    """A failure of a tool: a result with `isError`."""

    tool: str
    """The name of the tool at the server."""
    problem: str
    """The texts of the result, joined."""
    content: tuple[Any, ...] = ()
    """The content blocks of the result as JSON values. `()` if the result is one text, which is `problem`."""
    structured: Any = None
    """The structured content of the result, or None."""

    @property
    def message(self) -> str:
        """The failure in one line."""
        return str(self)

    @override
    def __str__(self) -> str:
        return f"tool {self.tool!r} failed: {self.problem or 'without a reason'}"

    @override
    def __hash__(self) -> int:
        return hash((McpToolError, self.tool, self.problem))


class LinkError(Exception):
    """The exception that carries an `McpError` out of a coroutine."""

    def __init__(self, failure: McpError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _visible(failure: McpError | McpToolError) -> JsonObject:
    """Return the failure in the form for a model, without standard error and files."""
    if isinstance(failure, McpError):
        shown: McpCallError = msgspec.structs.replace(failure, stderr="")
    else:
        shown = msgspec.structs.replace(failure, content=tuple(without_data(block) for block in failure.content))
    data: JsonObject = msgspec.to_builtins(shown)
    return data


def _read(data: JsonObject) -> McpError | McpToolError:
    try:
        return msgspec.convert(data, McpError | McpToolError)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


McpCallError: TypeAlias = McpError | McpToolError
"""The failures of a call of a server's tool."""

failure_schema: Schema[McpCallError] = Schema.of(
    Annotated[McpError | McpToolError, Schema.codec(wire=JsonObject, decode=_read, encode=_visible)]
)
"""The schema of `McpCallError`, in the form for a model."""
