"""Hypothesis strategies for JSON Schemas, valid and invalid data, tools, and parameters. Use them in property tests.

The strategies construct data from the schema as far as possible, validate the result, and shrink to small data. You can
map, filter, and combine them like any other strategy.

>>> from random import Random
>>> from hypothesis import find
>>> from fxai.tools.tool import Tool
>>> port = Tool.dynamic("open", parameters={"type": "object", "properties": {"port": {"minimum": 1}}})
>>> find(parameters(port), lambda given: "port" in given and given["port"] is not None, random=Random(1))
{'port': False}
>>> find(invalid_parameters(port), lambda given: type(given) is dict, random=Random(1))["port"] < 1
True
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, Never, TypeAlias, cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar

from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject
from fxai.schema.fault import DecodeFailure
from fxai.schema.json_schema import JsonSchema
from fxai.testing.generation.instance import ANYTHING, instance_of, miss_of
from fxai.testing.generation.scalar import characters, register_format
from fxai.testing.generation.schema_document import Draft, document_of, struct_of, type_of
from fxai.tools.annotation import (
    Annotations,
    Destructive,
    ExplicitNull,
    Idempotent,
    JsonText,
    Meta,
    OpenWorld,
    Readonly,
    Strict,
    Title,
)
from fxai.tools.call import as_decode_failure
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.toolkit import AnyToolkit, Toolkit

__all__ = [
    "Document",
    "Draft",
    "Formats",
    "annotation_maps",
    "decode_parameters",
    "instances",
    "invalid_parameters",
    "json_schemas",
    "json_values",
    "not_instances",
    "parameters",
    "register_format",
    "schemas",
    "toolkits",
    "tools",
    "typed_parameters",
    "values",
]

_A = TypeVar("_A")

Document: TypeAlias = JsonSchema | Mapping[str, Any] | bool | Schema[Any]
"""A JSON Schema in any form. A `Schema` means its own document."""

Formats: TypeAlias = Mapping[str, SearchStrategy[str]]
"""Strategies of strings by `format`, for one call. They replace known formats. To add one, call `register_format`."""


# ---- JSON


def json_values() -> SearchStrategy[Any]:
    """Generate small JSON values of all kinds: null, booleans, numbers, strings, arrays, and objects."""
    return ANYTHING


def json_schemas(draft: Draft = "2020-12", *, objects: bool = False) -> SearchStrategy[JsonObject]:
    """Generate valid JSON Schema documents with references, recursion, and all kinds of keywords.

    Args:
        draft: Draft of the keywords. A document of an older draft contains `$schema`. Default: "2020-12".
        objects: True for only documents with `type: object`, like the parameters of tools. Default: False.
    """
    return document_of(draft, objects=objects)


def instances(document: Document, *, formats: Formats | None = None, undeclared: bool = True) -> SearchStrategy[Any]:
    """Generate valid data of a JSON Schema: all kinds of values that it accepts, and valid strings of known formats.

    If the document accepts nothing, or the strategy finds no example, Hypothesis raises `Unsatisfiable`.

    Args:
        document: Any JSON Schema, derived or external, with `$ref`, recursion, `allOf`, patterns, and other keywords.
        formats: Strategies of unknown formats, or replacements of known formats.
        undeclared: True to add properties without a schema, if the document allows them. Default: True.
    """
    return instance_of(_document(document), dict(formats or {}), undeclared=undeclared)


def not_instances(document: Document, *, formats: Formats | None = None) -> SearchStrategy[Any]:
    """Generate data that a JSON Schema rejects. It differs from valid data in a few changes.

    If the document accepts everything, the strategy is empty.
    """
    return miss_of(_document(document), dict(formats or {}))


def _document(document: Document) -> JsonSchema:
    return document.document if isinstance(document, Schema) else JsonSchema.of(document)


# ---- types


def schemas(*, exact: bool = True) -> SearchStrategy[Schema[Any]]:
    """Generate schemas of Python types of every kind: structs, dataclasses, unions, containers, and codecs.

    Args:
        exact: True for only types whose JSON Schema describes all conditions of the decoder. False adds dates, UUIDs,
            and similar types, for which JSON Schema has only a `format`. Default: True.
    """
    return type_of(exact=exact).map(Schema[Any].of)


def values(schema: Schema[_A], *, formats: Formats | None = None) -> SearchStrategy[_A]:
    """Generate Python values of a schema's type, decoded from valid data of its document."""
    results = instances(schema, formats=formats).map(schema.decode)
    return results.filter(_is_success).map(lambda result: result.unwrap())


def _is_success(result: Result[Any, Any]) -> bool:
    return isinstance(result, Success)


# ---- tools


def decode_parameters(tool: AnyTool, given: object) -> Result[Any, DecodeFailure]:
    """Return the handler's parameters for a JSON value, or the failure that prevents the call.

    >>> decode_parameters(Tool.make("half", parameters=int), "x").failure().faults[0].expected
    'integer'
    """
    if isinstance(tool.parameters, Schema):
        return tool.parameters.decode(given)
    if tool.validation == "none":
        return Success(given)
    if tool.validation == "schema":
        faults = tool.parameters.validate(given)
        return Failure(DecodeFailure(faults)) if faults else Success(given)
    return tool.validation(given).alt(as_decode_failure)


def parameters(tool: AnyTool, *, formats: Formats | None = None) -> SearchStrategy[Any]:
    """Generate JSON values that a tool accepts as parameters, like a correct model."""
    return instances(tool.parameters, formats=formats).filter(lambda given: _is_success(decode_parameters(tool, given)))


def invalid_parameters(tool: AnyTool, *, formats: Formats | None = None) -> SearchStrategy[Any]:
    """Generate JSON values that a tool rejects as parameters. If the tool accepts everything, the strategy is empty."""
    if tool.validation == "none":
        return st.nothing()
    return not_instances(tool.parameters, formats=formats).filter(
        lambda given: not _is_success(decode_parameters(tool, given))
    )


def typed_parameters(tool: Tool[_A, Any, Any], *, formats: Formats | None = None) -> SearchStrategy[_A]:
    """Generate decoded parameters of a tool, for `tool.call`."""
    return cast(
        "SearchStrategy[_A]",
        parameters(tool, formats=formats).map(lambda given: decode_parameters(tool, given).unwrap()),
    )


@cache
def annotation_maps() -> SearchStrategy[Annotations]:
    """Generate annotation maps with the keys that every tool knows."""
    words = st.text(characters, max_size=8)
    made = st.fixed_dictionaries(
        {},
        optional={
            Title: st.none() | words,
            Readonly: st.booleans(),
            Destructive: st.booleans(),
            Idempotent: st.booleans(),
            OpenWorld: st.booleans(),
            Strict: st.none() | st.booleans(),
            ExplicitNull: st.booleans(),
            JsonText: st.booleans(),
            Meta: st.dictionaries(words, ANYTHING, max_size=2),
        },
    )
    return made.map(lambda values: Annotations(cast("Any", values)))


_Kind = Literal["user-defined", "dynamic", "provider-defined"]
_KINDS: tuple[_Kind, ...] = ("user-defined", "dynamic", "provider-defined")


@st.composite
def tools(draw: DrawFn, *, name: SearchStrategy[str] | None = None) -> AnyTool:
    """Generate tools of all three kinds, with types and raw documents, and with or without failures and annotations.

    Args:
        draw: Argument that Hypothesis passes.
        name: Strategy of names. Default: names that people might write.
    """
    called = draw(name if name is not None else _NAMES)
    outcome = {
        "success": draw(type_of(exact=False)),
        "failure": draw(st.just(cast("Any", Never)) | type_of(exact=False)),
    }
    options: dict[str, Any] = {
        "description": draw(st.none() | st.text(characters, max_size=12)),
        "annotations": draw(annotation_maps()),
    }
    kind = draw(st.sampled_from(_KINDS))
    if kind == "provider-defined":
        sent = f"_made{draw(st.integers(0, 999))}"  # no generated name becomes a name with this prefix
        made = Tool.provider_defined(id="acme.made", name=called, provider_name=sent, requires_handler=True, **outcome)
        return made(**options)
    options["failure_mode"] = draw(st.sampled_from(["error", "return"]))
    if kind == "dynamic" and draw(st.booleans()):
        return Tool.dynamic(called, parameters=draw(json_schemas(objects=True)), **outcome, **options)
    make: Any = Tool.make if kind == "user-defined" else Tool.dynamic
    return cast("AnyTool", make(called, parameters=draw(struct_of(exact=False)), **outcome, **options))


_NAMES: Final = st.from_regex(r"[A-Za-z][A-Za-z0-9 ._/-]{0,12}[a-z0-9]", fullmatch=True)


def toolkits(*, least: int = 0, most: int = 4) -> SearchStrategy[AnyToolkit]:
    """Generate toolkits of `least` to `most` tools with different names, in fxai and at a provider."""

    def sent_as(tool: AnyTool) -> str:
        return tool.name if tool.provider is None else tool.provider.name or tool.name

    several = st.lists(tools(), min_size=least, max_size=most, unique_by=(lambda tool: tool.name, sent_as))
    return several.map(lambda made: Toolkit.of(cast("Any", made)))
