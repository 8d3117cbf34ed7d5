"""The output items of OpenAI's Responses API, each converted to the parts of a response.

An item that has no kind of part is kept whole in the metadata of an empty text, and so goes back with the history.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.request import ModelRequest
>>> from fxai.providers.openai.request import prepare_request
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="gpt-5.5")
>>> said = {"type": "output_text", "text": "Good day.", "annotations": []}
>>> item_parts({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}, sent)
[Text(text='Good day.', metadata={'openai': {'id': 'msg_1'}})]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fxai.messages.part import Part, Reasoning, Source, Text
from fxai.models.tool_encoding import without_nulls
from fxai.providers.openai.call import OURS, call_of
from fxai.providers.openai.hosted_call import ANSWERED, HOSTED, PAIRED, hosted_parts
from fxai.providers.openai.metadata import mark
from fxai.providers.openai.request import WireRequest
from fxai.providers.openai.request_tools import RequestTools
from fxai.schema.data import is_array, is_object

__all__ = ["Item", "is_hosted", "item_parts", "kind_of_item", "listed", "source_of", "thoughts_of"]

Item: TypeAlias = Mapping[str, Any]
"""An item as it came, as plain JSON data."""


def item_parts(item: Item, sent: WireRequest) -> list[Part]:
    """The parts of an item, in order; `sent` is the request that the item answers."""
    kind = kind_of_item(item)
    if kind == "message":
        return _message(item, sent)
    if kind == "reasoning":
        return list(thoughts_of(item))
    if kind == "function_call" and sent.format is not None and item.get("name") == sent.format.tool:
        return [Text(sent.format.text(str(item.get("arguments", ""))))]
    if is_hosted(item, sent.offer):
        return list(hosted_parts(item, sent.offer))
    if kind in OURS:
        return [call_of(item, sent.offer)]
    kept = {key: value for key, value in item.items() if key != "created_by" and value is not None}
    return [Text("", metadata=mark(item=kept if "tools" in kept else without_nulls(kept)))]


def kind_of_item(item: Item) -> str:
    """The type of an item; empty where it says none, or no text."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def is_hosted(item: Item, offer: RequestTools) -> bool:
    """Whether an item is a call that the provider runs, or the result of one."""
    kind = kind_of_item(item)
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    if kind in ("shell_call", "shell_call_output"):
        place = item.get("environment")
        return offer.hosted("shell_call") or (is_object(place) and place.get("type") == "container_reference")
    return kind in HOSTED or kind in PAIRED or kind in ANSWERED


def _message(item: Item, sent: WireRequest) -> list[Part]:
    status = item.get("status")
    about = {"id": item.get("id"), "phase": item.get("phase"), "status": None if status == "completed" else status}
    parts: list[Part] = []
    for place, content in enumerate(listed(item, "content")):
        if content.get("type") == "refusal":
            parts.append(Text(str(content.get("refusal", "")), metadata=mark(**about, refusal=True)))
        elif content.get("type") == "output_text":
            text = str(content.get("text", ""))
            notes = [without_nulls(one) for one in listed(content, "annotations")] or None
            said = mark(**about, annotations=notes, logprobs=content.get("logprobs") or None)
            parts.append(Text(text if sent.format is None else sent.format.text(text), metadata=said))
            parts.extend(source_of(one, f"{item.get('id')}:{place}:{n}") for n, one in enumerate(notes or ()))
    return parts or [Text("", metadata=mark(item=without_nulls(dict(item))))]


def thoughts_of(item: Item) -> list[Reasoning]:
    """The reasoning of an item: a part for each summary, then for each text; what is encrypted goes with the last."""
    status = item.get("status")
    last = {"encrypted_content": item.get("encrypted_content"), "status": None if status == "completed" else status}
    summary = [("summary", one) for one in listed(item, "summary")]
    content = [("content", one) for one in listed(item, "content")]
    whole = [*summary, *content]
    if not whole:
        return [Reasoning("", metadata=mark(id=item.get("id"), **last))]
    return [
        Reasoning(
            str(one.get("text", "")),
            metadata=mark(id=item.get("id"), kind=kind, **(last if place == len(whole) else {})),
        )
        for place, (kind, one) in enumerate(whole, 1)
    ]


def source_of(annotation: Item, id_: str) -> Source:
    """The source that an annotation names: a page, or a file that was searched or made."""
    about = mark(**{key: annotation.get(key) for key in ("type", "file_id", "container_id")})
    title, name = (one if isinstance(one, str) else None for one in map(annotation.get, ("title", "filename")))
    if annotation.get("type") == "url_citation":
        return Source(id_, title=title or None, url=str(annotation.get("url", "")), metadata=about)
    media = "application/octet-stream"
    return Source(id_, title=name, media_type=media, file_name=name, metadata=about)


def listed(said: Item, key: str) -> list[dict[str, Any]]:
    """The objects of a list; none where there is no list."""
    value = said.get(key)
    return [one for one in value if is_object(one)] if is_array(value) else []
