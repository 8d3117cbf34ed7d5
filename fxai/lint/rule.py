"""Rules of `fxai check`, findings, and subjects. Use `RULES` to look up a rule, and `Subject` to choose the tools.

>>> RULES["misspelt-keyword"].severity
'error'
>>> len(RULES) == len({rule.states for rule in RULES.values()})
True

A finding names its rule, its tool, and its location. It states the problem and a remedy.

>>> found = Finding("tool-undescribed", "warning", "add", "/description", "missing description", "Add a description.")
>>> print(found)
add /description: warning tool-undescribed: missing description. Add a description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject
from fxai.schema.display import one_line
from fxai.schema.fault import SchemaError
from fxai.schema.request_form import REQUEST_RULES, RequestRules
from fxai.schema.strict.rules import ANTHROPIC, OPENAI_HOST, StrictRules
from fxai.tools.identity import NameRule
from fxai.tools.tool import AnyTool


@final
class Provider(msgspec.Struct, frozen=True):
    """The limits of a provider."""

    name: str
    """The name of the provider."""
    strict: StrictRules
    """The rules for schemas in strict mode."""
    apis: tuple[RequestRules, ...]
    """The rules of its APIs for every tool of a request."""
    most_marks: int | None = None
    """Maximum number of cache marks in a request. None if requests contain no marks."""
    tool_search: str = ""
    """Prefix of the ids of its tools that find deferred tools."""

    @property
    def names(self) -> NameRule:
        """The rule for the names of tools."""
        return NameRule(self.apis[0].longest_name)


PROVIDERS: Final = {
    "openai": Provider("openai", OPENAI_HOST, REQUEST_RULES["openai"], tool_search="openai.tool_search"),
    "anthropic": Provider(
        "anthropic", ANTHROPIC, REQUEST_RULES["anthropic"], most_marks=4, tool_search="anthropic.tool_search_tool_"
    ),
}
"""The providers by name."""

OTHERS: Final = ("local",)
"""Providers that receive no requests. Options can name them too."""


@final
class Entry(msgspec.Struct, frozen=True):
    """A tool and the JSON Schema of its parameters.

    `document` is the schema as JSON values, or None if the type has no schema. `sound` is True if the document is a
    valid JSON Schema, so that it can validate values. `findings` are the problems of the document.
    """

    tool: AnyTool
    document: Any
    sound: bool
    findings: tuple[Finding, ...] = ()

    def __hash__(self) -> int:
        return hash(self.tool)  # the document is not hashable

    @property
    def derived(self) -> bool:
        """True if the schema comes from a Python type."""
        return isinstance(self.tool.parameters, Schema)

    @property
    def asked(self) -> bool:
        """True if requests contain the schema. Requests omit it for tools that a provider defines."""
        return self.tool.provider is None

    @property
    def description(self) -> str:
        """The description; empty if the tool has none."""
        return description_of(self.tool) or ""

    @staticmethod
    def of(tool: AnyTool) -> Entry:
        """Return the entry for a tool."""
        findings: list[Finding] = []
        document: Any = None
        for part, schema in (("parameters", tool), ("success", tool.success), ("failure", tool.failure)):
            try:
                read = schema.json_schema()
                document = read if schema is tool else document
            except SchemaError as error:
                remedy = "Use a type with a JSON form, or a codec for the type."
                findings.append(RULES["schema-error"].finding(tool.name, f"/{part}", str(error), remedy))
        return Entry(tool, document, document is not None, tuple(findings))


def description_of(tool: AnyTool) -> str | None:
    """Return the description of a tool, even if its parameters have no JSON form."""
    try:
        return tool.description
    except SchemaError:
        return tool.given_description


@final
class Subject(msgspec.Struct, frozen=True):
    """The tools to lint, and the providers that will receive them."""

    entries: tuple[Entry, ...]
    """The tools."""
    providers: tuple[Provider, ...]
    """The providers."""

    @property
    def asked(self) -> tuple[Entry, ...]:
        """The tools whose schemas requests contain."""
        return tuple(entry for entry in self.entries if entry.asked)

    @staticmethod
    def of(
        tools: Iterable[AnyTool],
        broken: Mapping[str, Any] = MappingProxyType({}),
        providers: Iterable[Provider] = PROVIDERS.values(),
    ) -> Subject:
        """Return the subject for `tools`. `broken` maps names of tools to documents that are not valid JSON Schemas."""
        entries = (Entry(t, broken[t.name], sound=False) if t.name in broken else Entry.of(t) for t in tools)
        return Subject(tuple(entries), tuple(providers))


Severity: TypeAlias = Literal["info", "warning", "error"]
"""The severity of a finding.

- `error`: a call or a request will fail, or fxai ignores a check that the author wrote.
- `warning`: the tool works badly, or only with some providers.
- `info`: the author should know the fact.
"""

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error")
"""The severities, lowest first."""


@final
class Finding(msgspec.Struct, frozen=True):
    """A problem that a rule found."""

    code: str
    """The code of the rule."""
    severity: Severity
    """`error`, `warning`, or `info`."""
    tool: str | None
    """The name of the tool. None if the problem concerns no single tool."""
    pointer: str
    """JSON pointer into the tool in `fxai tools --json`. An empty string means the whole tool."""
    message: str
    """The problem, on one line without a period."""
    remedy: str
    """The action that solves the problem, in sentences on one line."""

    @property
    def location(self) -> str:
        """The tool and the pointer, which start the line of a finding."""
        return one_line(" ".join(part for part in (self.tool, self.pointer) if part)) or "the toolkit"

    def to_data(self) -> JsonObject:
        """Return the finding as JSON values."""
        data: JsonObject = msgspec.to_builtins(self)
        return data

    @override
    def __str__(self) -> str:
        """Return one line with the location, severity, rule, problem, and remedy."""
        return f"{self.location}: {self.severity} {self.code}: {one_line(self.message)}. {one_line(self.remedy)}"


def at_least(severity: Severity, least: Severity) -> bool:
    """Return True if a severity is `least` or worse."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)


@final
class Rule(msgspec.Struct, frozen=True):
    """A rule of `fxai check`."""

    code: str
    """The code of the rule."""
    severity: Severity
    """The severity of its findings, unless a finding sets another severity."""
    states: str
    """The problem that it finds, as a sentence."""

    def finding(
        self, tool: str | None, pointer: str, message: str, remedy: str, severity: Severity | None = None
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(self.code, severity or self.severity, tool, pointer, message, remedy)


_TABLE: Final[tuple[tuple[str, Severity, str], ...]] = (
    # targets
    ("not-a-tool", "error", "An entry of a list of tools is not a tool, or a part of it has the wrong type."),
    ("definition-refused", "error", "fxai rejects a definition, so that it cannot import the target."),
    ("no-tools", "warning", "The target has no tools."),
    ("too-many-tools", "error", "An API accepts fewer tools in one request. fxai omits the other tools."),
    ("left-out", "error", "fxai omits the tool from requests, because the API would reject the whole request."),
    # names
    ("name-collision", "error", "Two tools have the same name in a request to a provider."),
    ("name-too-long", "warning", "The name is too long for a provider. fxai cuts it and adds a digest."),
    ("name-renamed", "info", "A provider rejects the name. fxai sends another name."),
    ("name-odd", "warning", "The name contains control characters, or starts or ends with a space."),
    ("name-alike", "warning", "Two names differ only in case, or in '-' and '_'. Models confuse them."),
    # descriptions
    ("tool-undescribed", "warning", "The tool has no description. Models need it to choose a tool."),
    ("parameter-undescribed", "warning", "The parameter has no description."),
    ("description-doubled", "warning", "Two tools have the same description. Models cannot choose between them."),
    ("description-too-long", "warning", "The description is too long for an API. fxai sends only its start."),
    # schemas
    ("schema-error", "error", "The type has no JSON form, or the document is not a valid JSON Schema."),
    ("root-not-object", "warning", "The parameters are not an object. fxai sends an object with one property."),
    ("root-union", "warning", "The parameters are a union. No API accepts a union, so fxai rewrites it."),
    ("misspelt-keyword", "error", "A keyword of JSON Schema is misspelled. Validators ignore it."),
    ("misplaced-property", "error", "A parameter is next to `properties`, not in it."),
    ("unknown-keyword", "info", "JSON Schema does not define the keyword. Validators ignore it."),
    ("keyword-of-other-draft", "warning", "The keyword belongs to another draft. Validators ignore it."),
    ("keyword-without-effect", "warning", "The keyword has no effect on values of the type."),
    ("required-unknown", "error", "A required name is not the name of a property."),
    ("default-misfit", "warning", "The default is invalid for its own schema."),
    ("example-misfit", "warning", "An example in a schema is invalid for this schema."),
    ("enum-misfit", "warning", "A value of an enum, or a const, is invalid for the rest of its schema."),
    ("unsatisfiable", "error", "No value is valid for the schema."),
    ("untyped", "warning", "The parameter has no type, so any value is valid. If its Python type is Any: info."),
    ("property-name", "warning", "A provider rejects the name of the parameter. fxai sends another name."),
    # strict mode
    ("strict-impossible", "warning", "The tool has no strict form for a provider. If Strict is True: error."),
    ("strict-weakened", "info", "Strict mode cannot enforce a keyword. fxai validates it later."),
    # annotations, examples and options
    ("annotation-contradiction", "warning", "Annotations contradict each other."),
    ("input-example-misfit", "error", "An example of a call is invalid for the tool's parameters."),
    ("cache-marks", "warning", "More tools have cache marks than a provider accepts in one request."),
    ("tool-search-missing", "warning", "A tool is deferred, but no tool search can find it at a provider."),
    ("provider-unknown", "warning", "Options name an unknown provider."),
    # handlers
    ("handler-missing", "error", "The layer has no handler for a tool."),
    ("handler-doubled", "error", "The layer has two handlers for a tool."),
    ("handler-extra", "warning", "The layer has a handler for an unknown tool."),
    ("service-missing", "error", "A handler requires a service that no layer provides."),
    ("layer-failed", "error", "fxai cannot build the layer."),
)

RULES: Final = {code: Rule(code, severity, states) for code, severity, states in _TABLE}
"""The rules by code. Their order is targets, names, descriptions, schemas, strict mode, annotations, handlers."""
