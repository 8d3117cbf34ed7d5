"""Replies: the whole answer of either API, as the parts of a response.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-4o", api="chat")
>>> message = {"role": "assistant", "content": "Good day."}
>>> [part.type for part in read_reply({"choices": [{"message": message, "finish_reason": "stop"}]}, sent)]
['response-metadata', 'text', 'finish']
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fxai.messages.part import AnyPart, File, Finish, FinishReason, Part, Reasoning, Text
from fxai.providers.openai.chat_input import THOUGHTS
from fxai.providers.openai.failure import ReplyError, broken, reason_of_error
from fxai.providers.openai.finish import chat_finish_of, finish_of, said_of, usage_of
from fxai.providers.openai.metadata import mark, marks
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.responses_output import Item, item_parts, listed, source_of
from fxai.schema.data import is_object

__all__ = ["ended", "parsed", "read_reply", "sound_data", "sound_of", "turn_end"]


def read_reply(reply: bytes | str | Mapping[str, Any], sent: WireRequest) -> tuple[Part, ...]:
    """The parts of a whole answer: warnings, what the provider says of it, the items in order, and how it finished.

    Args:
        reply: the body, as it came or parsed.
        sent: the request that it answers.

    Raises:
        ReplyError: it is not what the API answers, or it is an error.
    """
    data = parsed(reply)
    if data.get("error"):
        raise ReplyError(reason_of_error(data["error"]))
    body = _chat(data, sent) if sent.api == "chat" else _responses(data, sent)
    return (*sent.warnings, *body)


def parsed(reply: bytes | str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that an answer or an event is.

    Raises:
        ReplyError: it is none.
    """
    if not isinstance(reply, bytes | str):
        return reply
    try:
        data = msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise broken(f"the answer is not JSON: {error}") from None
    if not is_object(data):
        raise broken(f"the answer is JSON, but no object: {type(data).__name__}")
    return data


# -- Responses


def _responses(data: Item, sent: WireRequest) -> Iterable[Part]:
    if not isinstance(data.get("output"), list):
        raise broken("the answer has no list of items", "/output")
    parts = [part for item in listed(data, "output") for part in item_parts(item, sent)]
    return [said_of(data, "created_at"), *parts, ended(data, parts)]


def ended(data: Item, parts: Iterable[AnyPart]) -> Finish:
    """How a response ended whose parts are these.

    Raises:
        ReplyError: it failed, or it has not ended.
    """
    status = data.get("status")
    if status == "failed":
        raise ReplyError(reason_of_error(data.get("error") or "the response failed, and nothing says why"))
    if status in ("queued", "in_progress"):
        raise broken(f"the response is still {status}: answers in the background are not supported", "/status")
    details = data.get("incomplete_details")
    reason = details.get("reason") if is_object(details) else None
    known = "error" if status == "cancelled" else turn_end(parts, lambda calls: finish_of(reason, calls=calls))
    return Finish(known, usage_of(data.get("usage")))


def turn_end(parts: Iterable[AnyPart], otherwise: Callable[[bool], FinishReason]) -> FinishReason:
    """Why a turn ended: it waits for a person, it was refused, or by what the provider says."""
    calls = refused = asked = False
    for part in parts:
        calls = calls or (part.type == "tool-call" and not part.provider_executed)
        asked = asked or part.type == "tool-approval-request"
        refused = refused or (part.type in ("text", "text-end") and bool(marks(part).get("refusal")))
    if refused:
        return "content-filter"
    reason: FinishReason = otherwise(calls)
    return "pending" if asked and reason == "stop" else reason


# -- Chat Completions


def _chat(data: Item, sent: WireRequest) -> Iterable[Part]:
    choices = listed(data, "choices")
    message = choices[0].get("message") if choices else None
    if not is_object(message):
        raise broken("the answer has no message", "/choices/0/message")
    parts = [*_texts(message, sent), *_calls(message, sent)]
    reason = choices[0].get("finish_reason")
    known = turn_end(parts, lambda calls: chat_finish_of(reason, calls=calls))
    if sent.format is not None and sent.format.tool is not None and known == "tool-calls" and not _has_calls(parts):
        known = "stop"
    return [said_of(data, "created"), *parts, Finish(known, usage_of(data.get("usage")))]


def _has_calls(parts: Iterable[Part]) -> bool:
    return any(part.type == "tool-call" for part in parts)


def _texts(message: Item, sent: WireRequest) -> Iterable[Part]:
    for field in THOUGHTS:
        if isinstance(message.get(field), str) and message[field]:
            yield Reasoning(message[field], metadata=mark(field=field))
            break
    content = message.get("content")
    if isinstance(content, str) and content:
        yield Text(content if sent.format is None else sent.format.text(content))
    if message.get("refusal"):
        yield Text(str(message["refusal"]), metadata=mark(refusal=True))
    for place, annotation in enumerate(listed(message, "annotations")):
        cited = annotation.get("url_citation")
        if is_object(cited):
            yield source_of({"type": "url_citation", **cited}, f"source:{place}")
    audio = message.get("audio")
    if is_object(audio):
        yield sound_of(audio, sound_data(audio.get("data")), sent)


def sound_of(audio: Item, data: bytes, sent: WireRequest) -> File:
    """The sound that a model made, of the format that the request asked for; its words are in the metadata."""
    asked = sent.fields.get("audio")
    form = asked.get("format") if is_object(asked) else None
    about = mark(audio=audio.get("id"), transcript=audio.get("transcript"), expires_at=audio.get("expires_at"))
    return File("audio/pcm" if form == "pcm16" else f"audio/{form or 'wav'}", data, metadata=about)


def sound_data(encoded: object) -> bytes:
    """The bytes of a sound, or of a piece of one.

    Raises:
        ReplyError: they are not in base64.
    """
    try:
        return b64decode(encoded or "") if isinstance(encoded, str | None) else b""
    except ValueError as error:
        raise broken(f"a sound is not in base64: {error}") from None


def _calls(message: Item, sent: WireRequest) -> Iterable[Part]:
    for place, call in enumerate(listed(message, "tool_calls")):
        id_ = str(call.get("id") or f"call_{place}")
        custom, function = call.get("custom"), call.get("function")
        if is_object(custom):
            said = mark(type="custom_tool_call")
            yield sent.offer.parsed_call(str(custom.get("name", "")), id_, custom.get("input", ""), said)
        elif is_object(function):
            text, name = function.get("arguments"), str(function.get("name", ""))
            written = text if isinstance(text, str) else msgspec.json.encode(text or {}).decode()
            if sent.format is not None and name == sent.format.tool:
                yield Text(sent.format.text(written))
            else:
                yield sent.offer.call(name, id_, written)
