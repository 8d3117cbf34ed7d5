"""The rules that an API enforces for a whole request, written from public reports, apart from the package.

`request_breaches` checks the body of a request and returns sentences. The rules of tools are in `floor_schema`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.kit.data import is_array, is_object
from tests.kit.floor_schema import Wire, tool_breaches

__all__ = ["request_breaches"]

_Object = Mapping[str, Any]


def request_breaches(
    body: _Object, wire: Wire, *, prefill: bool = False, system_between: bool = True, compatible: bool = False
) -> list[str]:
    """Return the broken rules of a request.

    Args:
        body: The body, as plain data.
        wire: The API.
        prefill: True if the model accepts an assistant message at the end. For Anthropic alone.
        system_between: True if the model accepts system messages between others. For Anthropic alone.
        compatible: True if the server of Chat Completions reads its own kinds of content again.
    """
    found = list(_texts(body, ""))
    tools = body.get("tools", [])
    found += tool_breaches([one for one in tools if "input_schema" in one or one.get("type") == "function"], wire)
    if wire == "responses":
        return [*found, *_choice(body), *_responses(body)]
    if wire == "chat":
        return [*found, *_choice(body), *_chat(body, ("text", "thinking") if compatible else ("text",))]
    return [*found, *_choice(body), *_messages(body, prefill, system_between)]


# -- rules of all APIs


def _texts(value: Any, path: str) -> Iterator[str]:
    """Half surrogate pairs, in texts and in keys."""
    if isinstance(value, str):
        if re.search(r"[\ud800-\udfff]", value):
            yield f"{path}: half a surrogate pair"
    elif is_object(value):
        for key, one in value.items():
            yield from _texts(key, f"{path}/")
            yield from _texts(one, f"{path}/{key}")
    elif is_array(value):
        for at, one in enumerate(value):
            yield from _texts(one, f"{path}/{at}")


def _choice(body: _Object) -> Iterator[str]:
    """A choice must name a tool of the request."""
    choice: Any = body.get("tool_choice")
    known = [_name_of(one) for one in body.get("tools", [])]
    known += [_name_of(one) for tool in body.get("tools", []) for one in tool.get("tools", ())]
    if is_object(choice):
        named = choice.get("name", choice.get("function", {}).get("name"))
        if named is not None and named not in known:
            yield f"the choice names {named!r}"


def _name_of(tool: _Object) -> Any:
    return tool.get("name", tool.get("function", tool.get("custom", {})).get("name"))


_MAGIC = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"%PDF-", "application/pdf"),
)


def _label(media_type: Any, data: Any, accepted: Iterable[str]) -> Iterator[str]:
    """A file has a media type that the place accepts, and the bytes of that type."""
    if media_type not in accepted:
        yield f"the media type {media_type!r}"
        return
    start = b64decode(str(data)[:64])
    actual = next((kind for magic, kind in _MAGIC if re.match(magic, start, re.DOTALL)), None)
    if actual is not None and actual != media_type:
        yield f"{actual} labelled {media_type}"


def _url(url: Any, accepted: Iterable[str]) -> Iterator[str]:
    if not isinstance(url, str) or not url:
        yield f"the URL {url!r}"
    elif url.startswith("data:"):
        head, _, data = url.partition(",")
        if not head.endswith(";base64"):
            yield "a data URL without base64"
        elif not data:
            yield "an empty file"
        else:
            yield from _label(head[5:].partition(";")[0], data, accepted)


_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ITEM = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_call_id(id_: Any) -> bool:
    return isinstance(id_, str) and 1 <= len(id_) <= 64


# -- OpenAI's Responses


_CALLS = ("function_call", "custom_tool_call", "shell_call", "apply_patch_call", "computer_call", "local_shell_call")
_OUTPUTS = {f"{kind}_output": kind for kind in _CALLS}


def _responses(body: _Object) -> Iterator[str]:
    items: Any = body.get("input")
    if not is_array(items) or not items:
        yield "no input"
        return
    called: dict[str, str] = {}
    answered: set[str] = set()
    requests: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        location = f"input/{at}"
        if "id" in item and not (isinstance(item["id"], str) and _ITEM.fullmatch(item["id"])):
            yield f"{location}: the item id {item['id']!r}"
        if "id" in item and any(
            item["id"] == one.get("id") and kind == one.get("type", "message") for one in items[:at]
        ):
            yield f"{location}: the item id {item['id']!r} twice"
        if kind == "message":
            yield from _item_message(item, location)
        elif kind == "reasoning":
            nothing: dict[str, Any] = {}
            follows = next((one for one in items[at + 1 :] if one.get("type") != "reasoning"), nothing)
            own = follows.get("role") == "assistant" or str(follows.get("type", "")).endswith("_call")
            if not own and follows.get("type") not in ("program", "mcp_approval_request"):
                yield f"{location}: reasoning alone"
        elif kind == "mcp_approval_request":
            requests.add(item.get("id"))
        elif kind == "mcp_approval_response" and item.get("approval_request_id") not in requests:
            yield f"{location}: an approval of nothing"
        elif kind in _CALLS:
            yield from _item_call(item, location, called)
        elif kind in _OUTPUTS:
            yield from _item_output(item, location, called, answered)
    waits = {_id_of(item) for item in items if item.get("async")}
    yield from (f"the call {id_!r} has no output" for id_ in called.keys() - answered - waits)


def _id_of(item: _Object) -> str:
    return str(item.get("id") if str(item.get("type")).startswith("local_shell") else item.get("call_id"))


def _item_call(item: _Object, location: str, called: dict[str, str]) -> Iterator[str]:
    id_, kind = _id_of(item), str(item.get("type"))
    if not _is_call_id(item.get("call_id")):
        yield f"{location}: the call id {item.get('call_id')!r}"
    if id_ in called:
        yield f"{location}: the call id {id_!r} twice"
    called[id_] = kind
    if kind in ("function_call", "custom_tool_call") and not _OPENAI_NAME.fullmatch(str(item.get("name"))):
        yield f"{location}: the name {item.get('name')!r}"
    if kind == "function_call" and not _is_json(item.get("arguments")):
        yield f"{location}: the arguments {item.get('arguments')!r}"


def _is_json(text: Any) -> bool:
    try:
        return is_object(json.loads(text)) or text is not None
    except (TypeError, ValueError):
        return False


def _item_output(item: _Object, location: str, called: Mapping[str, str], answered: set[str]) -> Iterator[str]:
    id_, kind = _id_of(item), _OUTPUTS[str(item.get("type"))]
    if called.get(id_) != kind:
        yield f"{location}: an output without its call {id_!r}"
    if id_ in answered:
        yield f"{location}: a second output of {id_!r}"
    answered.add(id_)
    output: Any = item.get("output")
    if kind in ("function_call", "custom_tool_call") and not isinstance(output, str):
        yield from _inputs(output, location)


def _item_message(item: _Object, location: str) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"{location}: the role {role!r}"
    elif role != "assistant" and not isinstance(content, str):
        yield from _inputs(content, location)
    elif not isinstance(content, str):
        kinds = [one.get("type") for one in content] if is_array(content) else []
        if not kinds or not set(kinds) <= {"output_text", "refusal"}:
            yield f"{location}: the content {content!r}"


def _inputs(content: Any, location: str) -> Iterator[str]:
    """The content of a user, or of an output: texts, images and files."""
    if not is_array(content) or not content:
        yield f"{location}: no content"
        return
    for one in content:
        match one.get("type"):
            case "input_text":
                pass
            case "input_image":
                if "file_id" not in one:
                    yield from (f"{location}: {why}" for why in _url(one.get("image_url"), _IMAGES))
            case "input_file":
                data = one.get("file_data")
                kind = str(data)[5:].partition(";")[0]
                if data is not None:
                    accepted = () if kind.startswith(("image/", "audio/", "video/")) else (kind,)
                    yield from (f"{location}: {why}" for why in _url(data, accepted))
            case kind:
                yield f"{location}: the content {kind!r}"


# -- OpenAI's Chat Completions


def _chat(body: _Object, kinds: Sequence[str]) -> Iterator[str]:
    messages: Any = body.get("messages")
    if not is_array(messages) or not messages:
        yield "no messages"
        return
    waiting: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        role, location = message.get("role"), f"messages/{at}"
        if waiting and role != "tool":
            yield f"{location}: the calls {waiting} have no results"
            waiting = []
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"{location}: a result without its call {message.get('tool_call_id')!r}"
            yield from _chat_texts(message.get("content"), location)
        elif role == "assistant":
            calls: Any = message.get("tool_calls", [])
            yield from _chat_turn(message, calls, location, seen, kinds)
            waiting = [str(call.get("id")) for call in calls]
        elif role == "user":
            yield from _chat_content(message.get("content"), location, is_open=len(kinds) > 1)
        elif role in ("system", "developer"):
            yield from _chat_texts(message.get("content"), location)
        else:
            yield f"{location}: the role {role!r}"
    if waiting:
        yield f"the calls {waiting} have no results"


def _chat_turn(
    message: _Object, calls: Sequence[_Object], location: str, seen: set[str], kinds: Sequence[str]
) -> Iterator[str]:
    if not any(message.get(field) for field in ("content", "refusal", "audio", "tool_calls")):
        yield f"{location}: a turn without content and calls"
    if message.get("content") is not None:
        yield from _chat_texts(message["content"], location, kinds)
    for call in calls:
        id_, inner = call.get("id"), call.get(str(call.get("type")), {})
        if not _is_call_id(id_):
            yield f"{location}: the call id {id_!r}"
        if id_ in seen:
            yield f"{location}: the call id {id_!r} twice"
        seen.add(str(id_))
        if not _OPENAI_NAME.fullmatch(str(inner.get("name"))):
            yield f"{location}: the name {inner.get('name')!r}"
        if call.get("type") == "function" and not _is_json(inner.get("arguments")):
            yield f"{location}: the arguments {inner.get('arguments')!r}"


def _chat_texts(content: Any, location: str, kinds: Sequence[str] = ("text",)) -> Iterator[str]:
    if isinstance(content, str):
        return
    found = {one.get("type") for one in content} if is_array(content) else set[Any]()
    if not found or not found <= set(kinds):
        yield f"{location}: the content {content!r}"


def _chat_content(content: Any, location: str, *, is_open: bool) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not is_array(content) or not content:
        yield f"{location}: no content"
        return
    for one in content:
        match one.get("type"):
            case "text":
                pass
            case "image_url":
                yield from (f"{location}: {why}" for why in _url(one["image_url"].get("url"), _IMAGES))
            case "input_audio":
                if one["input_audio"].get("format") not in ("wav", "mp3"):
                    yield f"{location}: the sound {one['input_audio'].get('format')!r}"
            case "file":
                data = one["file"].get("file_data")
                if "file_id" not in one["file"]:
                    is_data, own = str(data).startswith("data:"), str(data)[5:].partition(";")[0]
                    accepted = (own if is_open and not own.startswith(("image/", "audio/")) else "application/pdf",)
                    yield from (f"{location}: {why}" for why in _url(data if is_data else None, accepted))
            case kind:
                yield f"{location}: the content {kind!r}"


# -- Anthropic's Messages


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_THINKING = ("thinking", "redacted_thinking")
_FORCED = ("any", "tool")


def _messages(body: _Object, prefill: bool, system_between: bool) -> Iterator[str]:
    messages: Any = body.get("messages")
    if not is_array(messages) or not messages:
        yield "no messages"
        return
    for at, block in enumerate(body.get("system", ()) if is_array(body.get("system")) else ()):
        yield from _block(block, f"system/{at}", body)
    waiting: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        role, content, location = message.get("role"), message.get("content"), f"messages/{at}"
        if not is_array(content) or not content:
            yield f"{location}: no content"
            continue
        results = [block.get("tool_use_id") for block in content if block.get("type") == "tool_result"]
        if waiting != results and sorted(map(str, results)) != sorted(waiting):
            yield f"{location}: the results {results} of the calls {waiting}"
        if [block.get("type") == "tool_result" for block in content[: len(results)]] != [True] * len(results):
            yield f"{location}: content before a result"
        for block in content:
            yield from _block(block, location, body)
        waiting = [str(block.get("id")) for block in content if block.get("type") == "tool_use"]
        yield from (
            f"{location}: the call id {id_!r} twice" for id_ in waiting if id_ in seen or waiting.count(id_) > 1
        )
        seen |= set(waiting)
        yield from _anthropic_role(messages, at, system_between)
        if role == "assistant" and content[-1].get("type") in _THINKING:
            yield f"{location}: thinking at the end"
    if waiting:
        yield f"the calls {waiting} have no results"
    yield from _anthropic_end(messages, prefill)
    yield from _anthropic_thinking(body, messages)
    yield from _anthropic_marks(body)


def _anthropic_role(messages: Sequence[_Object], at: int, system_between: bool) -> Iterator[str]:
    role = messages[at].get("role")
    if role not in ("user", "assistant", "system"):
        yield f"messages/{at}: the role {role!r}"
    if role == "system":
        before = messages[at - 1].get("role") if at else None
        after = messages[at + 1].get("role") if at + 1 < len(messages) else "assistant"
        if not system_between or before != "user" or after != "assistant":
            yield f"messages/{at}: a system message between {before} and {after}"


def _anthropic_end(messages: Sequence[_Object], prefill: bool) -> Iterator[str]:
    last = messages[-1]
    if last.get("role") != "assistant" or not last.get("content") or last["content"][-1].get("type") != "text":
        return  # a paused turn ends in a block of the provider
    if not prefill:
        yield "an assistant message at the end"
    text = last["content"][-1].get("text", "")
    if text != text.rstrip():
        yield "space at the end"


def _anthropic_thinking(body: _Object, messages: Sequence[_Object]) -> Iterator[str]:
    thinking: Any = body.get("thinking", {})
    if thinking.get("type") != "enabled":
        return
    if body.get("tool_choice", {}).get("type") in _FORCED:
        yield "a forced call while the model thinks"
    turns = [one for one in messages if one.get("role") == "assistant"]
    is_loop = any(block.get("type") == "tool_result" for block in messages[-1].get("content", ()))
    if turns and is_loop and turns[-1]["content"][0].get("type") not in _THINKING:
        yield "a turn with calls that does not start with thinking"


def _block(block: Any, location: str, body: _Object) -> Iterator[str]:
    if not is_object(block):
        yield f"{location}: {block!r} is no block"
        return
    match block.get("type"):
        case "text" if not str(block.get("text", "")).strip():
            yield f"{location}: an empty text"
        case "thinking" if not block.get("signature"):
            yield f"{location}: thinking without a signature"
        case "redacted_thinking" if not block.get("data"):
            yield f"{location}: thinking without data"
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            yield from _tool_use(block, location)
        case "tool_result":
            content = block.get("content", "")
            for one in content if is_array(content) else ():
                yield from _block(one, f"{location}/content", body)
        case "image" | "document":
            yield from (f"{location}: {why}" for why in _source(block))
        case "tool_reference" if block.get("tool_name") not in [_name_of(one) for one in body.get("tools", [])]:
            yield f"{location}: a reference to {block.get('tool_name')!r}"
        case _:
            pass


def _tool_use(block: _Object, location: str) -> Iterator[str]:
    if not _ID.fullmatch(str(block.get("id", ""))):
        yield f"{location}: the call id {block.get('id')!r}"
    if not _ANTHROPIC_NAME.fullmatch(str(block.get("name"))):
        yield f"{location}: the name {block.get('name')!r}"
    if not is_object(block.get("input")):
        yield f"{location}: the input {block.get('input')!r}"


def _source(block: _Object) -> Iterator[str]:
    source: Any = block.get("source", {})
    kind, is_image = source.get("type"), block.get("type") == "image"
    if kind == "base64":
        if not source.get("data"):
            yield "an empty file"
        yield from _label(source.get("media_type"), source.get("data"), _IMAGES if is_image else ("application/pdf",))
    elif kind not in (("url", "file") if is_image else ("url", "file", "text", "content")):
        yield f"an {block.get('type')} of the source {kind!r}"
    elif kind == "text" and source.get("media_type") != "text/plain":
        yield f"the media type {source.get('media_type')!r}"


def _anthropic_marks(body: _Object) -> Iterator[str]:
    """Four marks for the cache at most, and no mark that outlives a mark before it."""
    marks = [mark for location in ("tools", "system", "messages") for mark in _marks(body.get(location))]
    if len(marks) > 4:
        yield f"{len(marks)} marks for the cache"
    lives = [mark.get("ttl") == "1h" for mark in marks]
    if any(later and not earlier for earlier, later in pairwise(lives)):
        yield "a mark for the cache that outlives an earlier mark"
    if any(tool.get("defer_loading") and "cache_control" in tool for tool in body.get("tools", ())):
        yield "a mark for the cache on a deferred tool"
    tools = [tool for tool in body.get("tools", ()) if "type" not in tool or tool["type"] == "custom"]
    if tools and all(tool.get("defer_loading") for tool in body["tools"]):
        yield "all tools are deferred"


def _marks(value: Any) -> Iterator[_Object]:
    if is_object(value):
        if is_object(value.get("cache_control")):
            yield value["cache_control"]
        for key, one in value.items():
            if key != "cache_control":
                yield from _marks(one)
    elif is_array(value):
        for one in value:
            yield from _marks(one)
