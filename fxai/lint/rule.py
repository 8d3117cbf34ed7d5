"""Rules of `fxai check` in one table, findings (a fault that a rule found), and subjects (the tools looked at).

>>> RULES["misspelt-keyword"].severity
'error'
>>> len(RULES) == len({rule.says for rule in RULES.values()})
True

A finding names its rule, the tool and the place, and says what is wrong and what to do.

>>> found = Finding("tool-undescribed", "warning", "add", "/description", "it has no description", "say what it does")
>>> print(found)
add /description: warning tool-undescribed: it has no description; say what it does
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.schema.codec import Schema
from fxai.schema.display import one_line
from fxai.schema.fault import SchemaError
from fxai.schema.request_form import REQUEST_RULES, RequestRules
from fxai.schema.strict.rules import ANTHROPIC, OPENAI_HOST, StrictRules
from fxai.tools.identity import NameRule
from fxai.tools.tool import AnyTool

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@final
class Provider(msgspec.Struct, frozen=True):
    """The limits of a provider.

    Attributes:
        name: its name.
        strict: the rules for schemas in strict mode.
        apis: The rules of its APIs for every tool of a request.
        most_marks: how many cache marks a request may have; None where marks are not sent.
        tool_search: the prefix of the ids of its tools that find deferred tools.
    """

    name: str
    strict: StrictRules
    apis: tuple[RequestRules, ...]
    most_marks: int | None = None
    tool_search: str = ""

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
        tools: Iterable[AnyTool], broken: Mapping[str, Any] = _NONE, providers: Iterable[Provider] = PROVIDERS.values()
    ) -> Subject:
        """The subject for `tools`; `broken` holds, by tool, documents that are not usable JSON Schemas."""
        entries = (Entry(t, broken[t.name], sound=False) if t.name in broken else Entry.of(t) for t in tools)
        return Subject(tuple(entries), tuple(providers))


Severity: TypeAlias = Literal["info", "warning", "error"]
"""How bad it is.

`error`: a call or a request will fail, or a check that the author wrote is not made. `warning`: it works worse than it
could, or not everywhere. `info`: good to know.
"""

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error")
"""From the least to the worst."""


@final
class Finding(msgspec.Struct, frozen=True):
    """A fault that a rule found.

    Attributes:
        code: the rule.
        severity: `error`, `warning` or `info`.
        tool: the tool's name; None where the fault is of no tool in particular.
        pointer: where, as a JSON pointer into what `fxai tools --json` shows of the tool; `""` is all of it.
        message: what is wrong, in one line.
        remedy: what to do, in one line.
    """

    code: str
    severity: Severity
    tool: str | None
    pointer: str
    message: str
    remedy: str

    @property
    def place(self) -> str:
        """The tool and the pointer, as a line begins with them."""
        return one_line(" ".join(part for part in (self.tool, self.pointer) if part)) or "the toolkit"

    def to_data(self) -> dict[str, Any]:
        """The finding as plain JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    @override
    def __str__(self) -> str:
        """One line: where, how bad, by which rule, what, and what to do."""
        return f"{self.place}: {self.severity} {self.code}: {one_line(self.message)}; {one_line(self.remedy)}"


def at_least(severity: Severity, least: Severity) -> bool:
    """Whether a severity is `least` or worse.

    >>> at_least("error", "warning"), at_least("info", "warning")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)


@final
class Rule(msgspec.Struct, frozen=True):
    """A rule of `fxai check`.

    Attributes:
        code: its name.
        severity: how bad a finding is, unless the finding says otherwise.
        says: what it finds, in a sentence.
    """

    code: str
    severity: Severity
    says: str

    def finding(
        self, tool: str | None, pointer: str, message: str, remedy: str, severity: Severity | None = None
    ) -> Finding:
        """A finding of this rule."""
        return Finding(self.code, severity or self.severity, tool, pointer, message, remedy)


_TABLE: Final[tuple[tuple[str, Severity, str], ...]] = (
    # targets
    ("not-a-tool", "error", "An entry of a list of tools that is none, or a part of it that is not what it must be."),
    ("definition-refused", "error", "A definition that fxai refuses, so that the target cannot be imported."),
    ("no-tools", "warning", "A target without tools."),
    ("too-many-tools", "error", "More tools than an API accepts in one request; fxai leaves out the others."),
    ("left-out", "error", "A tool that fxai leaves out of a request, because the API would refuse the whole request."),
    # names
    ("name-collision", "error", "Two tools that a provider would be sent under one name."),
    ("name-too-long", "warning", "A name that is cut, and ends in a digest, where a provider is sent it."),
    ("name-renamed", "info", "A name that a provider refuses, and that is sent otherwise."),
    ("name-odd", "warning", "A name with control characters, or blanks at its ends."),
    ("name-alike", "warning", "Two names that differ in case, or in '-' and '_', alone: a model mixes them up."),
    # descriptions
    ("tool-undescribed", "warning", "A tool without a description: a model goes by it when it chooses."),
    ("parameter-undescribed", "warning", "A parameter without a description."),
    ("description-doubled", "warning", "Two tools with one description: a model cannot choose between them."),
    ("description-too-long", "warning", "A description that is longer than an API accepts; fxai sends its start."),
    # schemas
    ("schema-error", "error", "A type without a JSON form, or a document that is no usable JSON Schema."),
    ("root-not-object", "warning", "Parameters that are not an object; fxai sends an object with a property for them."),
    ("root-union", "warning", "A union at the root of the parameters; fxai rewrites it, because no API accepts it."),
    ("misspelt-keyword", "error", "A keyword of JSON Schema, misspelt: it is passed over, so it checks nothing."),
    ("misplaced-property", "error", "A parameter that stands beside `properties` and not in it."),
    ("unknown-keyword", "info", "A word that JSON Schema does not know, and passes over."),
    ("keyword-of-other-draft", "warning", "A keyword of another draft than the document's: it is passed over."),
    ("keyword-without-effect", "warning", "A keyword that says nothing of values of the type beside it."),
    ("required-unknown", "error", "A required name that no property has."),
    ("default-misfit", "warning", "A default that its own schema refuses."),
    ("example-misfit", "warning", "An example in a schema that the schema refuses."),
    ("enum-misfit", "warning", "A value of an enum, or a const, that the rest of its schema refuses."),
    ("unsatisfiable", "error", "A schema that no value fits."),
    ("untyped", "warning", "A parameter without a type: anything goes. Where the Python type is Any: info."),
    ("property-name", "warning", "A parameter's name that a provider refuses; fxai sends another name."),
    # strict mode
    ("strict-impossible", "warning", "A tool that cannot be strict at a provider; an error where Strict is True."),
    ("strict-weakened", "info", "A keyword that strict mode cannot hold a model to; it is validated after."),
    # annotations, examples and options
    ("annotation-contradiction", "warning", "Annotations that cannot both be true."),
    ("input-example-misfit", "error", "An example of a call that does not fit the tool's parameters."),
    ("cache-marks", "warning", "More tools marked for the cache than a provider takes marks in one request."),
    ("tool-search-missing", "warning", "A deferred tool, and no tool search that would find it at a provider."),
    ("provider-unknown", "warning", "Options for a provider that there is none of."),
    # handlers
    ("handler-missing", "error", "A tool that no handler of the layer answers."),
    ("handler-doubled", "error", "A tool with two handlers."),
    ("handler-extra", "warning", "A handler for a tool that is not there."),
    ("service-missing", "error", "A handler that needs a service which no layer gives."),
    ("layer-failed", "error", "A layer that cannot be built."),
)

RULES: Final = {code: Rule(code, severity, says) for code, severity, says in _TABLE}
"""The rules by code, in the order of the house: targets, names, descriptions, schemas, strict mode, handlers."""
