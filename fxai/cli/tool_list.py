"""Lists of tools in JSON: what an MCP server answers to `tools/list`, or tools as OpenAI and Anthropic are sent them.

Taken are an object with `tools` (an MCP result, or the whole response with its `result`), an array of tools, and one
tool. A tool has a `name`, and its schema under `inputSchema`, `input_schema` or `parameters`.

>>> found = read_tools('{"tools": [{"name": "add", "inputSchema": {"type": "object"}}, {"title": "Nameless"}]}')
>>> [tool.name for tool in found.tools]
['add']
>>> print(*found.findings)
/tools/1/name: error not-a-tool: expected a name, found nothing; correct the list: this entry is left out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import msgspec

from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.lint.rule import RULES, Finding
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeError, SchemaError, found_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json_unsafe
from fxai.tools.annotations import Annotation, Destructive, Idempotent, Meta, OpenWorld, Readonly, Title
from fxai.tools.tool import AnyTool, Tool

__all__ = ["ToolList", "read_tools"]

_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")
_HINTS: Final[dict[str, Annotation[Any]]] = {
    "title": Title,
    "readOnlyHint": Readonly,
    "destructiveHint": Destructive,
    "idempotentHint": Idempotent,
    "openWorldHint": OpenWorld,
}
_LEFT_OUT: Final = "correct the list: this entry is left out"
_MISSING: Final = object()


@final
class ToolList(msgspec.Struct, frozen=True):
    """The tools of a list.

    Attributes:
        tools: its tools, each dynamic.
        broken: by name, the schemas that are no usable JSON Schemas; the tools in question take nothing instead.
        findings: its entries that are no tools.
    """

    tools: tuple[AnyTool, ...]
    broken: Mapping[str, Any]
    findings: tuple[Finding, ...]

    def __hash__(self) -> int:
        return hash((self.tools, self.findings))  # documents are plain data


def read_tools(text: bytes | str, name: str = "the list") -> ToolList:
    """Reads a list of tools from JSON text; `name` is its name in messages.

    Raises:
        CliError: the text is no JSON, or no list of tools.
    """
    try:
        data = parse_json_unsafe(text)
    except DecodeError as error:
        raise CliError(f"{name} is no JSON: {error.failure}", "give a list of tools in JSON", code=WRONG_USE) from None
    if not text.strip():
        raise CliError(f"{name} is empty", "give a list of tools in JSON", code=WRONG_USE)
    return _Reading().read(_entries(data, "", name))


def _entries(data: Any, pointer: str, name: str) -> list[tuple[str, Any]]:
    if is_array(data):
        return [(f"{pointer}/{index}", each) for index, each in enumerate(data)]
    if is_object(data):
        for keyword in ("result", "tools"):
            if isinstance(data.get(keyword), dict | list):
                return _entries(data[keyword], f"{pointer}/{keyword}", name)
        if "name" in data or "function" in data:
            return [(pointer, data)]
    remedy = 'give {"tools": […]}, as an MCP server answers tools/list, or an array of tools'
    raise CliError(f"{name} is no list of tools: there is {found_in(data)}", remedy, code=WRONG_USE)


@final
class _Reading:
    """A list being read, with its findings so far."""

    def __init__(self) -> None:
        self.tools: dict[str, AnyTool] = {}
        self.broken: dict[str, Any] = {}
        self.findings: list[Finding] = []

    def read(self, entries: list[tuple[str, Any]]) -> ToolList:
        for pointer, entry in entries:
            function = entry.get("function") if is_object(entry) else None
            inner = isinstance(function, dict)
            self._entry(f"{pointer}/function" if inner else pointer, function if inner else entry)
        return ToolList(tuple(self.tools.values()), self.broken, tuple(self.findings))

    def _not(self, tool: str | None, pointer: str, expected: str, found: Any, remedy: str = _LEFT_OUT) -> None:
        said = "nothing" if found is _MISSING else found_in(found)
        self.findings.append(RULES["not-a-tool"].finding(tool, pointer, f"expected {expected}, found {said}", remedy))

    def _entry(self, pointer: str, entry: Any) -> None:
        if not is_object(entry):
            return self._not(None, pointer, "a tool", entry)
        name = entry.get("name", _MISSING)
        if not isinstance(name, str) or not name.strip():
            return self._not(None, f"{pointer}/name", "a name", name)
        if name in self.tools:
            return self._not(name, f"{pointer}/name", "a name that no other tool has", name)
        description = entry.get("description")
        if not isinstance(description, str | None):
            self._not(name, "/description", "a text", description, "correct the list: it is passed over")
            description = None
        tool: AnyTool = Tool.dynamic(name, description=description, parameters=self._schema(name, entry))
        for key, value in self._annotations(name, entry):
            tool = tool.annotate(key, value)
        self.tools[name] = tool
        return None

    def _schema(self, name: str, entry: dict[str, Any]) -> JsonSchema:
        keyword = next((keyword for keyword in _SCHEMAS if keyword in entry), None)
        if keyword is None:
            remedy = "say what it takes: an inputSchema; without parameters it is an object without properties"
            self._not(name, "/parameters", "a schema", _MISSING, remedy)
            return JsonSchema.of({"type": "object", "properties": {}})
        try:
            return JsonSchema.of(entry[keyword])
        except (SchemaError, TypeError, ValueError):
            self.broken[name] = entry[keyword]
            return JsonSchema.of({"type": "object"})

    def _annotations(self, name: str, entry: dict[str, Any]) -> Iterator[tuple[Annotation[Any], Any]]:
        given: Any = entry.get("annotations", {})
        hints: dict[str, Any] = given if is_object(given) else {}
        if not is_object(given):
            self._not(name, "/annotations", "an object", given, "correct the list: they are passed over")
        for hint, key in _HINTS.items():
            value = hints.get(hint, entry.get("title") if hint == "title" else None)
            if value is not None:
                yield key, value
        if is_object(entry.get("_meta")):
            yield Meta, entry["_meta"]
