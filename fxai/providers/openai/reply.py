"""Replies of OpenAI. Use `read_responses` to convert an answer of Responses to the parts of a response.

The module also reads the usage, metadata, and failures of both APIs. An item of Responses of an unknown type becomes an
empty text part with the item in its metadata, and later requests send the item back.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.model_request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5")
>>> item = {"type": "message", "content": [{"type": "output_text", "text": "Good day."}]}
>>> [part.type for part in read_responses({"output": [item]}, sent)]
['response-metadata', 'text', 'finish']
>>> finish_of(None, calls=True), finish_of("max_output_tokens", calls=True)
('tool-calls', 'length')
>>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
Usage(input_tokens=9, output_tokens=2, cached_input_tokens=4)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fxai.messages.errors import error_in
from fxai.messages.part import (
    AnyPart,
    Finish,
    FinishReason,
    Part,
    Reasoning,
    ResponseMetadata,
    Source,
    Text,
    ToolCall,
    Usage,
)
from fxai.messages.reason import ContentPolicyError, UnknownError
from fxai.models.prepared_tools import without_nulls
from fxai.providers.http.endpoint import time_of
from fxai.providers.http.event import read_json
from fxai.providers.http.reply import ReplyError, count_in, failure_of, form_error, text_in
from fxai.providers.openai.options import mark, marks
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.tool_calls import (
    OURS,
    arguments_text,
    calls_of,
    hosted_parts,
    is_hosted,
    is_undecided,
    last_that_goes_on,
)
from fxai.schema.data import JSON_ERRORS, is_array, is_object

Item: TypeAlias = Mapping[str, Any]
"""An object of an answer, as plain JSON data."""

# -- both APIs


def parse_object(reply: bytes | str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse an answer or an event as an object.

    Raises:
        ReplyError: If the value is not an object.
    """
    if not isinstance(reply, bytes | str):
        return reply
    try:
        data = read_json(reply)
    except JSON_ERRORS as error:
        raise form_error(f"the answer is not JSON: {error}") from None
    return as_object(data)


def as_object(data: object) -> Item:
    """Return the object. Raises `ReplyError` for another value."""
    if not is_object(data):
        raise form_error(f"the answer must be a JSON object, got {type(data).__name__}")
    return data


def objects_in(item: Item, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list, or [] if the value is not a list."""
    value = item.get(key)
    return [one for one in value if is_object(one)] if is_array(value) else []


def metadata_of(reply: Item, time: str) -> ResponseMetadata:
    """Return the metadata of an answer. `time` names the field with its time, in seconds since 1970."""
    return ResponseMetadata(text_in(reply, "id"), text_in(reply, "model"), time_of(reply.get(time)))


def finish_metadata(reply: Item, known: Container[str], **beside: Any) -> dict[str, Any]:
    """Return metadata of the end of an answer: all fields without their own place in a response, and `beside`.

    Examples are the service tier, filters, moderation, the cost, and other fields of a server. A stream sends them when
    it ends. `usage` contains the fields of the usage without their own count. The fields in `known` have their own
    place or repeat the request.

    >>> usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "cost": 0.25}
    >>> finish_metadata({"id": "r", "service_tier": "flex", "usage": usage}, ("id",))
    {'openai': {'service_tier': 'flex', 'usage': {'cost': 0.25}}}
    """
    rest = {key: one for key, one in reply.items() if key not in known and key != "usage" and one not in (None, {}, [])}
    return mark(**{**rest, **beside, "usage": _usage_rest(reply.get("usage")) or None})


def usage_of(usage: object) -> Usage:
    """Return the token counts of either API. A missing count is None.

    If the total shows that the output excludes reasoning, the function adds reasoning to the output.

    >>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}).cached_input_tokens
    4
    >>> details = {"reasoning_tokens": 5}
    >>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 16, "completion_tokens_details": details})
    Usage(input_tokens=9, output_tokens=7, reasoning_tokens=5)
    """
    if not is_object(usage):
        return Usage()
    input_ = _details(usage, *_INPUT_DETAILS)
    read, written = count_in(usage, *_INPUT), count_in(usage, *_OUTPUT)
    thought = count_in({**usage, **_details(usage, *_OUTPUT_DETAILS)}, "reasoning_tokens")
    cached = count_in(input_, "cached_tokens")
    if thought and written is not None and read is not None and usage.get("total_tokens") == read + written + thought:
        written += thought
    return Usage(
        read,
        written,
        count_in(usage, *_CACHED) if cached is None else cached,
        count_in(input_, "cache_write_tokens"),
        thought,
    )


_INPUT: Final = ("input_tokens", "prompt_tokens")
_OUTPUT: Final = ("output_tokens", "completion_tokens")
_INPUT_DETAILS: Final = ("input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS: Final = ("output_tokens_details", "completion_tokens_details")
_CACHED: Final = ("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens")
_COUNTED: Final = frozenset(("cached_tokens", "cache_write_tokens", "reasoning_tokens"))


def _usage_rest(usage: object) -> dict[str, Any]:
    """Return the fields of the usage without their own count: nonzero details, and a total that is not the sum."""
    if not is_object(usage):
        return {}
    counted, sums = usage_of(usage), (*_INPUT, *_OUTPUT)
    kept: dict[str, Any] = {}
    for key, one in usage.items():
        if key in (*_INPUT_DETAILS, *_OUTPUT_DETAILS) and is_object(one):
            one = {name: count for name, count in one.items() if name not in _COUNTED and count not in (None, 0)}
        is_sum = key == "total_tokens" and one == counted.total_tokens
        if one in (None, {}) or key in sums or is_sum or (key in _COUNTED and count_in(usage, key) is not None):
            continue
        kept[key] = one
    return kept


def _details(usage: Item, *names: str) -> Item:
    return next((found for name in names if is_object(found := usage.get(name))), dict[str, Any]())


def turn_end(parts: Iterable[AnyPart], otherwise: Callable[[bool], FinishReason]) -> FinishReason:
    """Return the reason why a turn ended: a refusal, a pending approval, or `otherwise`, from whether it has calls."""
    calls = refusal = request = False
    for part in parts:
        calls = calls or (part.type == "tool-call" and not part.provider_executed)
        request = request or part.type == "tool-approval-request"
        refusal = refusal or (part.type in ("text", "text-end") and bool(marks(part).get("refusal")))
    if refusal:
        return "content-filter"
    reason: FinishReason = otherwise(calls)
    return "pending" if request and reason == "stop" else reason


def refusal_of(reason: FinishReason, words: str) -> ContentPolicyError | None:
    """Return the reason of a refusal, or None if the turn did not end with a refusal.

    The text of the model in `words` is empty if a filter of the provider ended the turn.
    """
    if reason != "content-filter":
        return None
    return ContentPolicyError(words or "a filter of the provider ended the answer")


# -- Responses

_CUT: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_messages": "other",
    "content_filter": "content-filter",
    "steered": "other",
}


def finish_of(reason: object, *, calls: bool) -> FinishReason:
    """Return the reason why a turn of Responses ended, from `incomplete_details.reason` and from its calls."""
    if isinstance(reason, str) and reason in _CUT:
        return _CUT[reason]
    if calls:
        return "tool-calls"
    return "stop" if reason is None else "unknown"


def read_responses(data: Item, sent: WireRequest) -> Iterable[Part]:
    """Return the parts of a whole answer of Responses.

    Raises:
        ReplyError: If the value is not an answer of the API, or if it is an error.
    """
    error = error_in(data, "output")
    if error is not None:
        raise failure_of(error)
    if not isinstance(data.get("output"), list):
        raise form_error("the answer has no list of items", "/output")
    items = objects_in(data, "output")
    last = last_that_goes_on(items)
    found = (
        (location, part)
        for location, item in enumerate(items)
        for part in item_parts(item, sent, went_on=location < last)
    )
    parts = [with_id(part, str(location)) if part.type == "tool-call" else part for location, part in found]
    return [*sent.warnings, metadata_of(data, "created_at"), *parts, finish_part(data, parts)]


def with_id(call: ToolCall, location: str) -> ToolCall:
    """Return the call with an id. If the server sends none, the position of the call determines the id."""
    return call if call.id else msgspec.structs.replace(call, id=f"call_{location}")


def finish_part(data: Item, parts: Iterable[AnyPart], refusal: str = "") -> Finish:
    """Return the finish of a response with these parts. `refusal` is the text of a refusal in a stream.

    Raises `ReplyError` if the response failed or is unfinished.
    """
    status = data.get("status")
    if status == "failed" or data.get("error"):
        raise failure_of(data.get("error") or "the response failed; the server states no reason")
    listed = list(parts)
    if status == "cancelled" and not listed:
        raise ReplyError(UnknownError("the response was cancelled before the model wrote anything"))
    if status in ("queued", "in_progress"):
        raise form_error(f"the response is still {status}, but the request did not set background", "/status")
    details = data.get("incomplete_details")
    reason = details.get("reason") if is_object(details) else None
    known = "error" if status == "cancelled" else turn_end(listed, lambda calls: finish_of(reason, calls=calls))
    words = refusal or "".join(part.text for part in listed if part.type == "text" and marks(part).get("refusal"))
    usage = usage_of(data.get("usage"))
    return Finish(known, usage, refusal_of(known, words), metadata=finish_metadata(data, _PLACED))


# the fields of a response that have their own place, repeat the request, or contain a default
_PLACED: Final = frozenset(
    (
        *("id", "object", "created_at", "model", "status", "output", "usage", "error", "incomplete_details"),
        *("background", "frequency_penalty", "instructions", "max_output_tokens", "max_tool_calls"),
        *("parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key"),
        *("prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "store"),
        *("temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    )
)


def item_parts(item: Item, sent: WireRequest, *, went_on: bool = False) -> list[Part]:
    """Return the parts of an item of Responses, in order.

    `went_on` is True if later items show that the model received the result of this call.

    >>> from fxai.messages.prompt import Prompt
    >>> from fxai.models.model_request import ModelRequest
    >>> from fxai.providers.openai.request import prepare_request
    >>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5")
    >>> item_parts({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}, sent)
    [Text(text='Hi', metadata={'openai': {'id': 'msg_1'}})]
    """
    kind = kind_of_item(item)
    if kind == "message":
        return _message(item, sent)
    if kind == "reasoning":
        return list(_reasoning(item))
    if kind == "function_call" and sent.is_answer(item.get("name")):
        return [Text(sent.answer(arguments_text(item.get("arguments"))))]
    if is_hosted(item, sent.offer) or (went_on and is_undecided(item, sent.offer)):
        return list(hosted_parts(item, sent.offer))
    if kind in OURS:
        return list(calls_of(item, sent.offer))
    whole = {key: value for key, value in item.items() if key != "created_by" and value is not None}
    whole = whole if "tools" in whole else without_nulls(whole)
    return [Text("", metadata=mark(item=whole, created_by=item.get("created_by")))]


def kind_of_item(item: Item) -> str:
    """Return the type of an item, or "" if the type is missing or is not a string."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _message(item: Item, sent: WireRequest) -> list[Part]:
    about = {"id": item.get("id"), "phase": item.get("phase"), "status": _status(item)}
    contents = objects_in(item, "content")
    unknown = [content for content in contents if content.get("type") not in ("refusal", "output_text")]
    if len(unknown) == len(contents):
        return [Text("", metadata=mark(item=without_nulls(dict(item))))]
    beside, parts = {**_beside(item), **({"content": unknown} if unknown else {})}, list[Part]()
    for index, content in enumerate(contents):
        about["beside"] = {**beside, **_beside(content)} or None
        if content.get("type") == "refusal":
            parts.append(Text(str(content.get("refusal", "")), metadata=mark(**about, refusal=True)))
        elif content.get("type") == "output_text":
            notes = [without_nulls(one) for one in objects_in(content, "annotations")]
            metadata = mark(**about, annotations=notes or None, logprobs=content.get("logprobs") or None)
            parts.append(Text(sent.answer(str(content.get("text", ""))), metadata=metadata))
            parts.extend(source_of(one, f"{item.get('id')}:{index}:{n}") for n, one in enumerate(notes))
    return parts


_ITEM_FIELDS: Final = frozenset(
    (
        *("type", "id", "role", "phase", "status", "content", "summary", "encrypted_content"),
        *("text", "refusal", "annotations", "logprobs"),
    )
)


def _beside(item: Item) -> dict[str, Any]:
    """Return the unknown fields of text or reasoning. Later requests omit them, because an API can reject them."""
    return {key: one for key, one in item.items() if key not in _ITEM_FIELDS and one not in (None, [], {}, "")}


def _status(item: Item) -> Any:
    """Return the status of an item, or None for the usual status."""
    status = item.get("status")
    return None if status == "completed" else status


def _reasoning(item: Item) -> Iterable[Reasoning]:
    """Yield a part for each summary and text of a reasoning item. The last part has the encrypted content."""
    id_, last = item.get("id"), {"encrypted_content": item.get("encrypted_content"), "status": _status(item)}
    last["beside"] = _beside(item) or None
    pieces = [(kind, one) for kind in ("summary", "content") for one in objects_in(item, kind)]
    if not pieces:
        yield Reasoning("", metadata=mark(id=id_, **last))
    for index, (kind, one) in enumerate(pieces, 1):
        more = last if index == len(pieces) else {}
        yield Reasoning(str(one.get("text", "")), metadata=mark(id=id_, kind=kind, **more))


def source_of(annotation: Item, id_: str) -> Source:
    """Return the source of an annotation: a page, or a file."""
    about = mark(**{key: annotation.get(key) for key in ("type", "file_id", "container_id")})
    title, name = (one if isinstance(one, str) else None for one in map(annotation.get, ("title", "filename")))
    if annotation.get("type") == "url_citation":
        return Source(id_, title=title or None, url=str(annotation.get("url", "")), metadata=about)
    media = "application/octet-stream"
    return Source(id_, title=name, media_type=media, file_name=name, metadata=about)
