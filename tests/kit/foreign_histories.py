"""Histories from anywhere, as Hypothesis strategies: parts of all providers, and the mistakes of models and clients.

Ids and names of other providers, results without a call, calls that are repeated, cut reasoning, empty content, wrong
labels, half surrogate pairs, and media of every kind.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

__all__ = ["FILES", "IDS", "NAMES", "histories"]

IDS: Final = (
    *("c", "call_1", "toolu_01AbC", "srvtoolu_2", "functions.look:0", "2968LWy3u", "", "call|1", "a b", "\ud83d"),
    *("x" * 64, "x" * 65, "y" * 100 + ".", "é" * 70, "msg|1.2", "chatcmpl-tool-0123456789abcdef"),
)
NAMES: Final = (
    *("look", "net.look", "Calculator.add", "functions.look", "look<|channel|>json", "", "x" * 80, "y" * 150),
    *("查询天气", "caf\udce9", "multi_tool_use.parallel", "_", "net__look"),
)
_STARTS: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n0000",
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "image/gif": b"GIF89a\x01\x00",
    "image/webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
    "application/pdf": b"%PDF-1.7\n",
    "image/svg+xml": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "text/csv": b"a,b\n1,2\n",
    "application/json": b'{"a": 1}',
    "audio/wav": b"RIFF\x24\x00\x00\x00WAVEfmt ",
    "audio/mpeg": b"ID3\x03\x00",
    "video/mp4": b"\x00\x00\x00\x18ftypmp42",
    "application/octet-stream": b"\x00\x01",
}
_LABELS: Final = (*_STARTS, "image/jpg", "IMAGE/PNG", "image/*", "text/plain", "text/markdown", "")

_TEXTS: Final = st.sampled_from(["Hi", "", " \n", "caf\udce9.txt", "\ud83d\ude00", "Yes. "])
_IDS: Final = st.sampled_from(IDS)
_NAMES: Final = st.sampled_from(NAMES)
_VALUES: Final[SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "k\udce9"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def _files(draw: DrawFn) -> FilePart:
    label = draw(st.sampled_from(_LABELS))
    data = draw(st.sampled_from([*_STARTS.values(), b""]))
    name = draw(st.none() | st.sampled_from(["a.png", "caf\udce9.txt", ""]))
    match draw(st.integers(0, 5)):
        case 0:
            return FilePart.of_url(label, "https://example.org/cat", name)
        case 1:
            return FilePart.of_url(label, f"data:{label};base64,{b64encode(data).decode()}", name)
        case 2:
            return FilePart.of_url(label, "file-abc123", name)
        case _:
            return FilePart(label, data, name)


FILES: Final = _files()


@st.composite
def _results(draw: DrawFn) -> Any:
    """What a tool returned: any data, or texts and files in one of the forms that providers know."""
    if draw(st.booleans()):
        return draw(_VALUES)
    contents: list[Any] = [{"type": "text", "text": draw(_TEXTS)}]
    label, data = draw(st.sampled_from(_LABELS)), b64encode(draw(st.sampled_from([*_STARTS.values()]))).decode()
    form = draw(st.sampled_from(["file", "image", "source", "reference"]))
    if form == "source":
        contents.append({"type": "image", "source": {"type": "base64", "media_type": label, "data": data}})
    elif form == "reference":
        contents.append({"type": "tool_reference", "tool_name": draw(st.sampled_from(["look", "gone"]))})
    else:
        contents.append({"type": form, "media_type": label, "data": data})
    return contents[draw(st.integers(0, 1)) :]


_ITEM_IDS: Final = st.sampled_from(["rs_1", "msg_1", "fc_1", "msg|1.2", "msg_" + "z" * 200, "", None, 7])


@st.composite
def _metadata(draw: DrawFn, kind: str) -> dict[str, Any]:
    """What a provider noted about a part."""
    openai: dict[str, Any] = {"id": draw(_ITEM_IDS)}
    if kind == "reasoning":
        openai["kind"] = draw(st.sampled_from(["summary", "content"]))
        openai |= {"encrypted_content": "e"} if draw(st.booleans()) else {}
        own = [{"signature": "S"}, {"signature": ""}, {"redacted_data": "R"}, {"signature": None}]
        anthropic: dict[str, Any] = draw(st.sampled_from(own))
        field = {"openai": {"field": draw(st.sampled_from(["reasoning_content", "reasoning", "content"]))}}
        return draw(st.sampled_from([{}, {"openai": openai}, {"anthropic": anthropic}, field]))
    if kind == "hosted":
        openai["type"] = draw(st.sampled_from(["web_search_call", "mcp_call", "mcp_approval_request", "no such item"]))
        anthropic = {"type": "server_tool_use", "name": draw(st.sampled_from(["web_search", "web.search"]))}
        return draw(st.sampled_from([{}, {"openai": openai}, {"anthropic": anthropic}]))
    if kind == "text":
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": draw(_ITEM_IDS), "content": [_OUTPUT]}
        openai |= {"item": item} if draw(st.booleans()) else {}
    return draw(st.sampled_from([{}, {}, {"openai": openai}, {"anthropic": {"container": "c_1"}}]))


_OUTPUT: Final[dict[str, Any]] = {"type": "output_text", "text": "Hi", "annotations": []}


@st.composite
def _calls(draw: DrawFn) -> ToolCallPart:
    text = draw(st.none() | st.sampled_from(['{"a": ', "\ud83d"]))
    params = None if text is not None else draw(_VALUES)
    return ToolCallPart(draw(_IDS), draw(_NAMES), params, params_text=text, metadata=draw(_metadata("call")))


@st.composite
def _turns(draw: DrawFn) -> AssistantMessage:
    parts: list[Any] = []
    for kind in draw(
        st.lists(st.sampled_from(["text", "reasoning", "call", "hosted", "file", "approval"]), max_size=5)
    ):
        match kind:
            case "text":
                parts.append(TextPart(draw(_TEXTS), metadata=draw(_metadata("text"))))
            case "reasoning":
                parts.append(ReasoningPart(draw(_TEXTS), metadata=draw(_metadata("reasoning"))))
            case "call":
                parts.append(draw(_calls()))
            case "hosted":
                parts += draw(_hosted())
            case "file":
                parts.append(draw(FILES))
            case _:
                parts.append(ToolApprovalRequestPart(draw(_IDS), draw(_IDS)))
    return AssistantMessage(tuple(parts))


@st.composite
def _hosted(draw: DrawFn) -> list[Any]:
    """A call that a provider ran, and its result; or one of them."""
    id_, name, metadata = draw(_IDS), draw(_NAMES), draw(_metadata("hosted"))
    call = ToolCallPart(id_, name, {"q": 1}, provider_executed=True, metadata=metadata)
    own = metadata.get("anthropic") and {"anthropic": {"type": "web_search_tool_result"}}
    result = ToolResultPart(
        id_, name, draw(st.sampled_from([{"a": 1}, []])), provider_executed=True, metadata=own or {}
    )
    both = [call, result]
    return both[draw(st.integers(0, 1)) :] if draw(st.booleans()) else both


_WITH_DATA: Final = st.builds(ToolResultPart, _IDS, _NAMES, _results(), st.booleans())
_APPROVALS: Final = st.builds(ToolApprovalResponsePart, _IDS, st.booleans())
_MESSAGES: Final[SearchStrategy[Message]] = st.one_of(
    st.builds(SystemMessage, _TEXTS),
    st.lists(st.builds(TextPart, _TEXTS) | FILES, max_size=3).map(lambda parts: UserMessage(tuple(parts))),
    st.builds(TextPart, _TEXTS).map(lambda part: UserMessage((part,))),
    _turns(),
    _turns(),
    st.lists(_WITH_DATA | _APPROVALS, min_size=1, max_size=2).map(lambda parts: ToolMessage(tuple(parts))),
)


@st.composite
def histories(draw: DrawFn) -> Prompt:
    """Histories. In most of them each call has a result, at some place after its turn."""
    drawn = draw(st.lists(_MESSAGES, min_size=1, max_size=6))
    if not draw(st.integers(0, 9)):
        return Prompt(drawn)
    messages: list[Message] = []
    waiting: list[ToolResultPart] = []
    for message in drawn:
        messages.append(message)
        if isinstance(message, AssistantMessage):
            calls = [one for one in message.content if isinstance(one, ToolCallPart) and not one.provider_executed]
            waiting += [ToolResultPart(call.id, call.name, draw(_results())) for call in calls]
        is_now: bool = draw(st.booleans())
        if waiting and is_now:
            messages.append(ToolMessage(tuple(waiting)))
            waiting = []
    return Prompt([*messages, *([ToolMessage(tuple(waiting))] if waiting else [])])
