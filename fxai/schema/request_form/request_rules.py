"""Rules of the request form. Use this module to find documents that an API refuses in a tool, strict or not.

If one tool of a request breaks a rule, the API refuses the whole request. `request_form` rewrites documents by the
rules of an API, and `refusals` checks the result.

>>> [fault.pointer for fault in refusals({"type": "object", "anyOf": [{}, {}]}, RESPONSES)]
['/anyOf', '/properties']
>>> CHAT.most_tools, RESPONSES.most_tools, MESSAGES.most_tools
(128, None, None)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import msgspec

from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.fault import NOTHING, Fault, found_in, pointer_to
from fxai.schema.location import walk


@final
class RequestRules(msgspec.Struct, frozen=True):
    """The rules of one API for the tools of a request. A limit of None is unknown."""

    name: str
    """The name of the API in messages."""
    refused_at_root: frozenset[str]
    """The keywords that the root of a document must not have."""
    properties: bool = False
    """True if the root must have the keyword `properties`."""
    items: bool = False
    """True if each array must have the keyword `items`, at any depth."""
    property_name: str | None = None
    """The pattern of the names of the properties at the root, or None for any name."""
    longest_name: int = 64
    """The maximum length of the name of a tool, in characters."""
    most_tools: int | None = None
    """The maximum number of tools in a request."""
    longest_description: int | None = None
    """The maximum length of the description of a tool, in characters."""

    def accepts_name(self, name: str) -> bool:
        """Return True if the API accepts the name of a property at the root."""
        return self.property_name is None or re.fullmatch(self.property_name, name, re.ASCII) is not None


_UNIONS: Final = frozenset(("oneOf", "anyOf", "allOf"))

# sources: public reports of refused requests, 2025 and 2026; pydantic-ai-slim 2.68.0, profiles/openai.py; anthropic
# 2.14.0, types/tool_param.py
RESPONSES: Final = RequestRules(
    name="OpenAI's Responses API",
    refused_at_root=_UNIONS | {"enum", "not", "const"},
    properties=True,
    items=True,
)
"""The rules of OpenAI's Responses API."""

CHAT: Final = msgspec.structs.replace(
    RESPONSES, name="OpenAI's Chat Completions API", most_tools=128, longest_description=1024
)
"""The rules of OpenAI's Chat Completions API."""

COMPATIBLE_CHAT: Final = msgspec.structs.replace(RESPONSES, name="Chat Completions")
"""The rules for other servers of Chat Completions: OpenAI's rules for documents, without limits."""

MESSAGES: Final = RequestRules(
    name="Anthropic's Messages API",
    refused_at_root=_UNIONS,
    property_name=r"[a-zA-Z0-9_.-]{1,64}",
    longest_name=128,
)
"""The rules of Anthropic's Messages API. Anthropic checks only the names of properties at the root."""

REQUEST_RULES: Final[Mapping[str, tuple[RequestRules, ...]]] = {"openai": (RESPONSES, CHAT), "anthropic": (MESSAGES,)}
"""The rules of the APIs of each provider."""


def refusals(plain: JsonObject, rules: RequestRules) -> Iterator[Fault]:
    """Iterate over the reasons why the API would refuse a usable document of JSON Schema 2020-12."""
    if plain.get("type") != "object":
        yield Fault("/type", '"object"', found_in(plain["type"]) if "type" in plain else NOTHING)
    for keyword, value in plain.items():
        if keyword in rules.refused_at_root:
            yield Fault(pointer_to("", keyword), f"a root without {keyword}", found_in(value))
    properties = plain.get("properties")
    if rules.properties and not is_object(properties):
        yield Fault("/properties", "properties", found_in(properties) if "properties" in plain else NOTHING)
    for name in properties if is_object(properties) else ():
        if not rules.accepts_name(name):
            yield Fault(pointer_to("/properties", name), f"a name that matches {rules.property_name}", repr(name))
    for location in walk(plain) if rules.items else ():
        if lacks_items(location.schema):
            yield Fault(f"{location.pointer}/items", "a schema for the items", NOTHING)


def lacks_items(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema accepts arrays and does not have the keyword `items`."""
    kind = schema.get("type")
    return (kind == "array" or (is_array(kind) and "array" in kind)) and "items" not in schema
