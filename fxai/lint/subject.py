"""Subjects: the tools to lint, with their JSON Schemas, and the providers that they are meant for.

>>> from fxai.tools.tool import Tool
>>> [entry.document["type"] for entry in Subject.of([Tool.make("ping")]).entries]
['object']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, final

import msgspec

from fxai.lint.rule import RULES, Finding
from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.schema.strict.rules import ANTHROPIC, OPENAI, StrictRules
from fxai.tools.naming import NameRule
from fxai.tools.tool import AnyTool

__all__ = ["OTHERS", "PROVIDERS", "Entry", "Provider", "Subject", "description_of"]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@final
class Provider(msgspec.Struct, frozen=True):
    """The limits of a provider.

    Attributes:
        name: its name.
        names: the rule for names of tools.
        strict: the rules for schemas in strict mode.
        most_tools: how many tools a request may have; None for no limit that is known.
        longest_description: how many characters a tool's description may have; None for no limit that is known.
        property_name: the pattern of a parameter's name; None for any.
        most_marks: how many cache marks a request may have; None where marks are not sent.
        tool_search: the prefix of the ids of its tools that find deferred tools.
    """

    name: str
    names: NameRule
    strict: StrictRules
    most_tools: int | None = None
    longest_description: int | None = None
    property_name: str | None = None
    most_marks: int | None = None
    tool_search: str = ""


PROVIDERS: Final = {
    # Limits as the services state them when they refuse a request.
    "openai": Provider(
        "openai", NameRule(64), OPENAI, most_tools=128, longest_description=1024, tool_search="openai.tool_search"
    ),
    "anthropic": Provider(
        "anthropic",
        NameRule(128),
        ANTHROPIC,
        property_name=r"[a-zA-Z0-9_.-]{1,64}",
        most_marks=4,
        tool_search="anthropic.tool_search_tool_",
    ),
}
"""The providers by name."""

OTHERS: Final = ("local",)
"""Providers that are sent no requests: options may be for them too."""


@final
class Entry(msgspec.Struct, frozen=True):
    """A tool and the JSON Schema of its parameters.

    Attributes:
        tool: the tool.
        document: the schema as plain JSON data; None where the type has none.
        sound: whether it is a usable JSON Schema: then values can be validated by it.
        findings: why it is not usable.
    """

    tool: AnyTool
    document: Any
    sound: bool
    findings: tuple[Finding, ...] = ()

    def __hash__(self) -> int:
        return hash(self.tool)  # documents are plain data

    @property
    def derived(self) -> bool:
        """Whether the schema is that of a Python type."""
        return isinstance(self.tool.parameters, Schema)

    @property
    def asked(self) -> bool:
        """Whether the parameters are sent to a model; those of a provider's own tools are not."""
        return self.tool.provider is None

    @property
    def description(self) -> str:
        """The description; empty where there is none."""
        return description_of(self.tool) or ""

    @staticmethod
    def of(tool: AnyTool) -> Entry:
        """The entry of a tool that there is."""
        findings = [found for part in ("success", "failure") for found in _schema_errors(tool, part)]
        try:
            return Entry(tool, tool.json_schema(), True, tuple(findings))
        except SchemaError as error:
            return Entry(tool, None, False, (_schema_error(tool, "parameters", error), *findings))


def description_of(tool: AnyTool) -> str | None:
    """The description of a tool, also where its parameters have no JSON form."""
    try:
        return tool.description
    except SchemaError:
        return tool.given_description


def _schema_errors(tool: AnyTool, part: str) -> Iterator[Finding]:
    schema: Schema[Any] = getattr(tool, part)
    try:
        schema.json_schema()
    except SchemaError as error:
        yield _schema_error(tool, part, error)


def _schema_error(tool: AnyTool, part: str, error: SchemaError) -> Finding:
    remedy = "give a type with a JSON form, or a codec for it"
    return RULES["schema-error"].finding(tool.name, f"/{part}", str(error), remedy)


@final
class Subject(msgspec.Struct, frozen=True):
    """The tools to lint, and the providers that they are meant for."""

    entries: tuple[Entry, ...]
    providers: tuple[Provider, ...]

    @staticmethod
    def of(
        tools: Iterable[AnyTool],
        broken: Mapping[str, Any] = _NONE,
        providers: Iterable[Provider] = PROVIDERS.values(),
    ) -> Subject:
        """The subject for `tools`; `broken` holds, by tool, documents that are not usable JSON Schemas."""
        entries = (Entry(t, broken[t.name], sound=False) if t.name in broken else Entry.of(t) for t in tools)
        return Subject(tuple(entries), tuple(providers))
