"""The rules that an API enforces for the tools of a request, written from public reports, apart from the package.

`schema_breaches` checks one JSON Schema, `tool_breaches` the tools of a request. Both return sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tests.kit.data import is_array, is_object

__all__ = ["Wire", "schema_breaches", "schema_of", "tool_breaches"]

Wire: TypeAlias = Literal["responses", "chat", "messages"]
"""OpenAI's Responses, OpenAI's Chat Completions, or Anthropic's Messages."""

_OPENAI_ROOT = ("oneOf", "anyOf", "allOf", "enum", "not", "const")
_ANTHROPIC_ROOT = ("oneOf", "allOf", "anyOf")
_ONE = ("items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else")
_ONE_MORE = ("unevaluatedItems", "unevaluatedProperties", "contentSchema")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def schema_breaches(schema: Any, wire: Wire) -> list[str]:
    """Return the broken rules of the schema of one tool."""
    return list(_breaches(schema, wire))


def _breaches(schema: Any, wire: Wire) -> Iterator[str]:
    if not is_object(schema):
        yield "the schema is not an object"
        return
    try:
        Draft202012Validator.check_schema({name: value for name, value in schema.items() if name != "$schema"})
    except SchemaError as error:
        yield f"the schema is not of JSON Schema 2020-12: {error.message}"
    if schema.get("type") != "object":
        yield f"the type of the root is {schema.get('type')!r}"
    for keyword in _ANTHROPIC_ROOT if wire == "messages" else _OPENAI_ROOT:
        if keyword in schema:
            yield f"{keyword} at the root"
    properties = schema.get("properties", {})
    if not is_object(properties) or (wire != "messages" and "properties" not in schema):
        yield "properties at the root are missing"
    elif wire == "messages":
        names = [name for name in properties if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name, re.ASCII)]
        yield from (f"the property {name!r}" for name in names)
    if wire != "messages":
        yield from _arrays(schema, "")
    yield from _dangling(schema)


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each schema inside a schema, with its path."""
    for keyword in (*_ONE, *_ONE_MORE):
        if keyword in schema:
            yield f"/{keyword}", schema[keyword]
    for keyword in _MANY:
        listed = schema.get(keyword)
        yield from ((f"/{keyword}/{at}", one) for at, one in enumerate(listed if is_array(listed) else ()))
    for keyword in _NAMED:
        named = schema.get(keyword)
        yield from ((f"/{keyword}/{name}", one) for name, one in (named.items() if is_object(named) else ()))


def _arrays(schema: Any, path: str) -> Iterator[str]:
    pending = [(path, schema)]
    while pending:
        path, one = pending.pop()
        if not is_object(one):
            continue
        kinds = one.get("type")
        if "array" in (kinds if is_array(kinds) else [kinds]) and "items" not in one:
            yield f"the array at {path or '/'} has no items"
        pending += [(path + at, inner) for at, inner in _inner(one)]


def _dangling(root: dict[str, Any]) -> Iterator[str]:
    """References by pointer that lead nowhere."""
    pending: list[Any] = [root]
    while pending:
        one = pending.pop()
        if not is_object(one):
            continue
        reference = one.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and not _is_there(root, reference):
            yield f"the reference {reference!r} leads nowhere"
        pending += [inner for _, inner in _inner(one)]


def _is_there(root: Any, reference: str) -> bool:
    from urllib.parse import unquote

    value = root
    for token in unquote(reference)[2:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if is_object(value) and name in value:
            value = value[name]
        elif is_array(value) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    return True


def schema_of(tool: Mapping[str, Any]) -> Any:
    """Return the schema of a tool of a request. None if the tool has none."""
    function: Any = tool.get("function", tool)
    return function.get("parameters", function.get("input_schema"))


def tool_breaches(tools: Iterable[Mapping[str, Any]], wire: Wire, *, described: int | None = 1024) -> list[str]:
    """Return the broken rules of the tools of a request.

    Args:
        tools: The tools on the wire.
        wire: The API.
        described: Maximum length of a description on Chat Completions. None for no limit.
    """
    found: list[str] = []
    single = list(_single(tools))
    functions: list[Mapping[str, Any]] = [tool.get("function", tool) for tool in single]
    names = [tool["name"] for tool in functions if "name" in tool]
    longest = 128 if wire == "messages" else 64
    found += [f"the name {name!r}" for name in names if not re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", name)]
    found += [f"the name {name!r} twice" for name in {name for name in names if names.count(name) > 1}]
    if wire == "chat" and len(single) > 128:
        found.append(f"{len(single)} tools")
    for tool in functions:
        schema = schema_of(tool)
        if schema is not None:
            found += [f"{tool.get('name')}: {breach}" for breach in schema_breaches(schema, wire)]
        if wire == "chat" and described is not None and len(tool.get("description") or "") > described:
            found.append(f"{tool.get('name')}: a description of {len(tool['description'])} characters")
    return found


def _single(tools: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Each tool, with the tools of namespaces."""
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _single(tool["tools"])
        else:
            yield tool
