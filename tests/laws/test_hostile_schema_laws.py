"""Laws of hostile documents: whatever a schema asks for, each part of the library works or refuses it, in good time."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fxai.lint import Subject, lint
from fxai.providers.local import grammar
from fxai.schema import JsonSchema, SchemaError
from fxai.schema.strict import ANTHROPIC, OPENAI, strict_form
from fxai.tools import Tool, Toolkit
from tests.kit.trials import examples

SECONDS = 20  # what hangs takes minutes; a machine that is busy takes its time
_FORMS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "allOf": lambda inner: {"allOf": [inner, inner]},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}, inner]},
    "oneOf": lambda inner: {"oneOf": [inner, inner]},
    "if": lambda inner: {"if": inner, "then": inner, "else": inner},
    "not": lambda inner: {"not": inner, "anyOf": [inner]},
    "unevaluatedProperties": lambda inner: {"allOf": [inner], "unevaluatedProperties": False},
    "unevaluatedItems": lambda inner: {"anyOf": [inner], "unevaluatedItems": {"type": "integer"}},
    "dependentSchemas": lambda inner: {"dependentSchemas": {"a": inner, "b": inner}},
    "properties": lambda inner: {"properties": {"a": {"allOf": [inner, inner]}}},
    "patternProperties": lambda inner: {"patternProperties": {"a": inner, ".": inner}},
    "items": lambda inner: {"items": inner, "contains": inner},
    "propertyNames": lambda inner: {"propertyNames": inner, "additionalProperties": inner},
    "object": lambda inner: {"type": "object", "properties": {"a": inner}, "additionalProperties": False},
    "once": lambda inner: inner,
}
_PATTERNS = [
    "(?:" * 20 + "a" + "){1,99}" * 20,
    "(a{2}){2}" * 30,
    "^(a+)+$",
    "(?=" * 60 + "a" + ")" * 60,
    "(" * 500,
    "^a$",
]
_LEAVES: list[Any] = [
    {"type": "integer"},
    {"type": "string", "pattern": "^(a|a)*$"},
    {"enum": [f"v{n}" for n in range(3_000)]},
    {"multipleOf": 1e308, "maximum": 10**400},
    {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(800)}, "unevaluatedProperties": False},
    {"oneOf": [{"required": [f"p{n}"]} for n in range(500)]},
    {"uniqueItems": True, "items": {"anyOf": [{"const": n} for n in range(200)]}},
    True,
    {},
]


_DATA: list[Any] = [1, "a", "a" * 40 + "!", None, {}, [], 10**400, ["v1"] * 200]


@st.composite
def chains(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema that leads through definitions, level by level, and those definitions; it may lead back to its start."""
    levels = draw(st.sampled_from([1, 4, 9, 20, 150]))
    forms = draw(st.lists(st.sampled_from(sorted(_FORMS)), min_size=1, max_size=2))
    names = [f"{name}{level}" for level in range(levels)]
    definitions: dict[str, Any] = {}
    for level, one in enumerate(names[:-1]):
        definitions[one] = _FORMS[forms[level % len(forms)]]({"$ref": f"#/$defs/{names[level + 1]}"})
    back = _FORMS[draw(st.sampled_from(["properties", "items", "object"]))]({"$ref": f"#/$defs/{name}0"})
    leaf = draw(st.sampled_from([*_LEAVES, back, {"anyOf": [back, back]}]))
    pattern = draw(st.sampled_from([None, None, None, *_PATTERNS]))
    definitions[names[-1]] = leaf if pattern is None else {"patternProperties": {pattern: leaf}}
    event(f"forms {'+'.join(sorted(set(forms)))}")
    return {"$ref": f"#/$defs/{name}0"}, definitions


@st.composite
def nests(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema that nests without definitions."""
    inner: Any = draw(st.sampled_from(_LEAVES))
    form = _FORMS[draw(st.sampled_from(["object", "items", "not", "anyOf"]))]
    for _ in range(
        draw(st.sampled_from([3, 7]) if form is not _FORMS["object"] else st.sampled_from([3, 60, 150, 400]))
    ):
        inner = form(inner)
    event(f"nest of {name}")
    return ({} if inner is True else inner), {}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Documents that ask for much, put together out of what blows up."""
    parts = draw(st.lists(st.sampled_from([chains, nests]), min_size=1, max_size=3))
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, make in zip("abc", parts, strict=False):
        properties[name], more = draw(make(name))
        definitions |= more
    together: dict[str, Any] = {"allOf": [{"properties": properties}, {"properties": properties}]}
    form: dict[str, Any] = draw(st.sampled_from([{"properties": properties}, together]))
    return {"type": "object", **form, "$defs": definitions}


@st.composite
def data(draw: st.DrawFn) -> Any:
    """Data that goes where such documents lead."""
    inner: Any = draw(st.sampled_from(_DATA))
    for _ in range(draw(st.sampled_from([0, 2, 6, 25, 120]))):
        inner = [inner] if isinstance(inner, list) else {"a": inner}
    return dict.fromkeys(draw(st.sampled_from(["a", "ab", "abc"])), inner)


def _made(plain: Any) -> JsonSchema | str:
    """The document, or why there is none."""
    try:
        return JsonSchema.of(plain)
    except SchemaError as error:
        return str(error)


def _composite(tool: Tool[Any, Any, Any]) -> None:
    with contextlib.suppress(SchemaError):
        Toolkit.make(tool).as_tool("many")


def _uses(document: JsonSchema, values: list[Any]) -> Iterator[Callable[[], object]]:
    """All that is made of a document."""
    tool = Tool.dynamic("one", parameters=document)
    yield lambda: [hash(document), document == pickle.loads(pickle.dumps(document)), repr(document)]
    for value in values:
        yield partial(document.validate, value)
    for rules in (OPENAI, ANTHROPIC):
        yield partial(strict_form, document, rules)
    yield lambda: grammar(document.to_dict())
    yield lambda: list(lint(Subject.of([tool])))
    yield lambda: _composite(tool)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(documents(), st.lists(data(), min_size=1, max_size=2))
def test_a_document_is_refused_or_can_be_used_everywhere(plain: dict[str, Any], values: list[Any]) -> None:
    """A document is a `SchemaError`, or all that is made of it ends in good time, with one verdict by both packages."""
    begun = time.process_time()
    document = _made(plain)
    event("refused" if isinstance(document, str) else "taken")
    for use in () if isinstance(document, str) else _uses(document, values):
        assert time.process_time() - begun < SECONDS
        begun = time.process_time()
        use()
    assert time.process_time() - begun < SECONDS
    assert isinstance(document, JsonSchema) or "expected" in document


@settings(max_examples=examples(30))
@given(st.lists(st.sampled_from(["(?:", "a", "|", ")", "{1,99}", "{2}", "+", "*", "[a-z]", "(?=", "{40}", "\\", "?"])))
def test_a_pattern_compiles_in_good_time_or_is_refused(pieces: list[str]) -> None:
    """Whatever a pattern is made of, it is compiled within the budget, or is a `SchemaError` at its place."""
    begun = time.process_time()
    document = _made({"pattern": "".join(pieces)})
    if isinstance(document, JsonSchema):
        assert document.validate(1) == ()
    else:
        assert document.startswith("unusable JSON Schema: /pattern: expected")
    assert time.process_time() - begun < 5
