"""Views of tools: names, kinds, parameters and annotations, as text for people or as plain data.

>>> from fxai.tools.tool import Tool
>>> tool_data(Tool.make("ping", description="Answers."))["parameters"]["additionalProperties"]
False
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import msgspec

from fxai.cli.redaction import redact
from fxai.lint.subject import description_of
from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import one_line
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.annotations import Strict
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.cli.target_tools import TargetTools

__all__ = ["overview_data", "show_overview", "tool_data"]

_STRICT: Final = {True: "yes", False: "no", None: "as configured (by default where it can be)"}
_LONGEST_VALUES: Final = 40
_LONGEST_FACT: Final = 80


def overview_data(offer: TargetTools) -> dict[str, Any]:
    """The tools of a target as plain JSON data."""
    return {
        "target": offer.target,
        "tools": [tool_data(tool, offer.broken.get(tool.name)) for tool in offer.tools],
        "left_out": [finding.to_data() for finding in offer.findings],
    }


def tool_data(tool: AnyTool, broken: Any = None) -> dict[str, Any]:
    """A tool as plain JSON data; a pointer of `fxai check` leads into it.

    Args:
        tool: the tool.
        broken: the document that its parameters were to be, where it is no usable JSON Schema.
    """
    approval = tool.needs_approval
    return {
        "name": tool.name,
        "kind": tool.kind,
        "description": description_of(tool),
        "parameters": broken if broken is not None else _schema(tool),
        "success": _outcome(tool.success),
        "failure": _outcome(tool.failure),
        "failure_mode": tool.failure_mode,
        "strict": tool.get(Strict),
        "needs_approval": approval if isinstance(approval, bool) else "by a function",
        "annotations": {key.name: plain(tool.get(key)) for key in tool.annotations},
        "input_examples": [plain(example.parameters) for example in tool.input_examples],
        "provider_options": redact({name: plain(value) for name, value in tool.provider_options.items()}),
        "external": not tool.requires_handler,
        "provider": _provider_data(tool),
    }


def _provider_data(tool: AnyTool) -> dict[str, Any] | None:
    given = tool.provider
    return None if given is None else {"id": given.id, "args": redact(plain(given.args))}


def plain(value: Any) -> Any:
    """A value as plain JSON data; what has no such form is its representation."""
    if isinstance(value, JsonSchema):
        return value.to_dict()
    if isinstance(value, Mapping):
        members: Mapping[Any, Any] = cast(Any, value)
        return {str(name): plain(inner) for name, inner in members.items()}
    if is_listed(value):
        return [plain(inner) for inner in value]
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return repr(value)


def _schema(tool: AnyTool) -> Any:
    try:
        return tool.json_schema()
    except SchemaError as error:
        return {"$comment": str(error)}


def _outcome(schema: Schema[Any]) -> Any:
    """The JSON Schema of a result; None for a type without values."""
    try:
        document = schema.json_schema()
    except SchemaError as error:
        return {"$comment": str(error)}
    return None if document == {"not": {}} else document


def show_overview(offer: TargetTools, out: TextIO, *, color: bool | None = None) -> None:
    """Writes the tools as a list of entries, each parameter in a line of its own."""
    from fxai.cli.screen import console

    screen = console(out, color)
    for number, tool in enumerate(offer.tools):
        data = tool_data(tool, offer.broken.get(tool.name))
        screen.print(("\n" if number else "") + one_line(tool.name), style="bold", end="")
        screen.print(f"  {', '.join(_facts(data))}", style="dim")
        if data["description"]:
            screen.print(f"  {one_line(str(data['description']), 240)}")
        rows = _rows(data["parameters"])
        wide = [max(map(len, column)) for column in zip(*((name, kind) for name, kind, _ in rows), strict=True)]
        for name, kind, said in rows:
            screen.print(f"    {name:<{wide[0]}}  {kind:<{wide[1]}}  {said}".rstrip())
    if not offer.tools:
        screen.print("no tools")


def _facts(data: dict[str, Any]) -> list[str]:
    given = data["annotations"]
    kind = data["kind"] if data["provider"] is None else data["provider"]["id"]
    facts = [kind, *(_fact(name, value) for name, value in given.items())]
    facts += [f"strict: {_STRICT[data['strict']]}"] if "strict" not in given and data["provider"] is None else []
    facts += [f"on failure: {data['failure_mode']}"] if data["failure"] is not None else []
    facts += ["needs approval"] if data["needs_approval"] is True else []
    facts += ["may need approval"] if isinstance(data["needs_approval"], str) else []
    return facts + (["answered elsewhere"] if data["external"] else [])


def _fact(name: str, value: Any) -> str:
    """An annotation in a few words; what does not fit in there is in `--json`."""
    said = "" if value is True else f"={json.dumps(value, ensure_ascii=False)}"
    return one_line(name + said) if len(said) <= _LONGEST_FACT else f"{name}=…"


def _rows(schema: Any) -> list[tuple[str, str, str]]:
    """Each parameter: its name, marked where it may be left out, its type, and what is said of it."""
    if not is_object(schema) or not is_object(schema.get("properties")):
        return []
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    return [
        (one_line(name) + ("" if name in required else "?"), one_line(type_of(inner)), _parameter_text(inner))
        for name, inner in schema["properties"].items()
    ]


def _parameter_text(schema: Any) -> str:
    if not is_object(schema):
        return ""
    said = one_line(str(schema.get("description") or ""), 160)
    default = schema.get("default")
    return said if default is None else f"{said} (default {json.dumps(default)})".strip()


def type_of(schema: Any) -> str:
    """What a schema takes, in a few words: `string`, `array of integer`, `"a" or "b"`, `City`.

    >>> type_of({"type": "array", "items": {"enum": ["a", "b"]}})
    'array of "a" or "b"'
    """
    if not is_object(schema):
        return "anything" if schema is True else "nothing"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2].replace("#", "the same again")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(values):
        shown = " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
        return shown if len(shown) <= _LONGEST_VALUES else f"one of {len(values)} values"
    branches = schema.get("anyOf", schema.get("oneOf"))
    if is_array(branches):
        return " or ".join(dict.fromkeys(type_of(branch) for branch in branches))
    kinds = schema.get("type", "anything")
    if kinds == "array" and "items" in schema:
        return f"array of {type_of(schema['items'])}"
    if kinds == "object" and is_object(inner := schema.get("additionalProperties")) and inner:
        return f"object of {type_of(inner)}"
    return " or ".join(str(kind) for kind in kinds) if is_array(kinds) else str(kinds)
