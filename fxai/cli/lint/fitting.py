"""Values in a schema that the schema itself refuses: defaults, examples, enums and constants.

>>> from fxai.cli.lint.walk import places
>>> document = {"type": "integer", "default": "ten"}
>>> for place in places(document):
...     print(*fitting_findings("tool", place, document))
tool /parameters/default: warning default-misfit: the default expected integer, found string 'ten'; give one that \
fits, or correct the schema
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fxai.cli.lint.finding import Finding
from fxai.cli.lint.rule import RULES
from fxai.cli.lint.walk import Place
from fxai.schema.data import is_array
from fxai.schema.dialect import Dialect
from fxai.schema.fault import Fault, found_in
from fxai.schema.json_schema import JsonSchema

__all__ = ["fitting_findings"]

_VALUES: Final = ("default", "examples", "enum", "const")
_SAYS_NOTHING: Final = frozenset(("title", "description", "$comment", "deprecated", "readOnly", "writeOnly"))
_HERE: Final = "urn:fxai:document"
_REMEDY: Final = "give one that fits, or correct the schema"


def fitting_findings(tool: str, place: Place, document: Any) -> Iterator[Finding]:
    """Each value in one schema of a usable document that the schema refuses."""
    if not any(keyword in place.schema for keyword in _VALUES):
        return
    at = f"/parameters{place.pointer}"
    faults = _holding(place, document, ())
    if "default" in place.schema:
        for fault in faults(place.schema["default"])[:1]:
            yield RULES["default-misfit"].finding(tool, f"{at}/default", f"the default {_said(fault)}", _REMEDY)
    examples = place.schema.get("examples")
    for index, example in enumerate(examples if is_array(examples) else ()):
        for fault in faults(example)[:1]:
            message = f"the example {_said(fault)}"
            yield RULES["example-misfit"].finding(tool, f"{at}/examples/{index}", message, _REMEDY)
    yield from _listed(tool, at, place, document)


def _listed(tool: str, at: str, place: Place, document: Any) -> Iterator[Finding]:
    enum = place.schema.get("enum")
    values: list[Any] = enum if is_array(enum) else []
    faults_of = _holding(place, document, ("enum",))
    misfits = {i: faults[0] for i, value in enumerate(values) if (faults := faults_of(value))}
    if values and len(misfits) == len(values):
        message = f"no value of the enum fits the rest: {found_in(values[0])} {_said(misfits[0])}"
        yield RULES["unsatisfiable"].finding(
            tool, f"{at}/enum", message, "correct the values, or what stands beside them"
        )
        return
    for index, fault in misfits.items():
        message = f"{found_in(values[index])} can never be given: it {_said(fault)}"
        yield RULES["enum-misfit"].finding(
            tool, f"{at}/enum/{index}", message, "take it away, or allow it beside the enum"
        )
    if "const" in place.schema:
        for fault in _holding(place, document, ("const",))(place.schema["const"])[:1]:
            message = f"nothing fits: the const {_said(fault)}"
            yield RULES["unsatisfiable"].finding(tool, f"{at}/const", message, "correct it, or what stands beside it")


def _said(fault: Fault) -> str:
    inside = f" at {fault.pointer}" if fault.pointer else ""
    return f"expected {fault.expected}, found {fault.found}{inside}"


def _holding(place: Place, document: Any, without: tuple[str, ...]) -> Callable[[Any], tuple[Fault, ...]]:
    """What tells what of a value the schema refuses, one of its keywords left out."""
    schema = {keyword: inner for keyword, inner in place.schema.items() if keyword not in without}
    if not set(schema) - _SAYS_NOTHING - set(_VALUES[:2]):
        return _nothing
    text = str({keyword: inner for keyword, inner in schema.items() if keyword not in _VALUES})
    if place.pointer and ("$ref" in text or "Ref'" in text):
        # without one of its keywords it is not the schema that stands in its document
        return _nothing if without else _within(document, place).validate
    return JsonSchema.trusted({"$schema": place.dialect.uri, **schema}).validate


def _nothing(_: Any) -> tuple[Fault, ...]:
    return ()


def _within(document: Any, place: Place) -> JsonSchema:
    """The schema as a document of its own, with the references of the one that it stands in."""
    dialect: Dialect = place.dialect
    name = str(document.get(dialect.id_keyword) or _HERE)
    kept = "$defs" if "$defs" in dialect.keywords else "definitions"
    whole = {**document, "$schema": dialect.uri, dialect.id_keyword: name}
    return JsonSchema.trusted(
        {"$schema": dialect.uri, "allOf": [{"$ref": f"{name}#{place.pointer}"}], kept: {"document": whole}}
    )
