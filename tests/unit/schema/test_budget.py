"""The budget of a document: what is refused, where, and what still works at the limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import find, settings
from hypothesis.errors import NoSuchExample, Unsatisfiable
from returns.result import Failure, Success

from fxai.lint import Subject, lint
from fxai.providers.local import grammar
from fxai.schema import JsonSchema, Schema, SchemaError
from fxai.schema.budget import (
    MAX_FAULTS,
    MAX_LEVELS,
    MAX_LOCATIONS,
    MAX_PATTERN,
    MAX_SCHEMAS,
    MAX_STEPS,
    deeper_than,
    with_stack,
)
from fxai.schema.pattern import expansion
from fxai.schema.strict import ANTHROPIC, OPENAI, strict_form
from fxai.testing.strategies import instances
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.oracle import oracle


def chain(levels: int, form: Callable[[Any], Any], last: Any) -> dict[str, Any]:
    """A document that leads through so many definitions to the last one."""
    steps = {f"l{n}": form({"$ref": f"#/$defs/l{n + 1}"}) for n in range(levels)}
    return {"$ref": "#/$defs/l0", "$defs": {**steps, f"l{levels}": last}}


def nest(levels: int, form: Callable[[Any], Any], last: Any) -> Any:
    """What comes of a form applied so many times."""
    for _ in range(levels):
        last = form(last)
    return last


def refusal(document: Any) -> str:
    """Why a document cannot be."""
    with pytest.raises(SchemaError) as refused:
        JsonSchema.of(document)
    return str(refused.value)


DOUBLING: dict[str, Callable[[Any], Any]] = {
    "allOf": lambda ref: {"allOf": [ref, ref]},
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "oneOf": lambda ref: {"oneOf": [ref, ref]},
    "if": lambda ref: {"if": ref, "then": ref, "else": ref},
    "not": lambda ref: {"not": ref, "allOf": [ref]},
    "dependentSchemas": lambda ref: {"dependentSchemas": {"a": ref, "b": ref}},
    "unevaluatedProperties": lambda ref: {"allOf": [ref], "unevaluatedProperties": False},
    "unevaluatedItems": lambda ref: {"allOf": [ref], "unevaluatedItems": False},
    "beside a reference": lambda ref: {**ref, "anyOf": [ref]},
}


@every("keyword", DOUBLING)
@every("levels", [20, 700])
def test_references_that_double_are_refused_when_the_document_is_made(keyword: str, levels: int) -> None:
    """A chain of definitions, each of which applies the next one twice, is refused with the limit and a place."""
    said = refusal(chain(levels, DOUBLING[keyword], {"type": "integer"}))

    assert "/$defs/l" in said
    assert "at most 10000 schemas that apply to one value" in said or "at most 128 levels of schemas" in said


@every("keyword", DOUBLING)
def test_a_few_levels_of_doubling_are_no_excess(keyword: str) -> None:
    """What real documents do of it is taken, and validated as `jsonschema` does."""
    document = JsonSchema.of(chain(4, DOUBLING[keyword], {"type": "integer"}))
    for value in (1, "a", {"a": 1}, [1]):
        assert (document.validate(value) == ()) is oracle(document.to_dict())(value)


def test_circles_are_refused_wherever_they_go_through() -> None:
    """A schema that leads to itself for the same value never ends, also under a condition."""
    for circle in (
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": {"$ref": "#"}}},
        {"if": {"$ref": "#"}},
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
    ):
        assert "a cycle of references" in refusal(circle)


MULTIPLYING: dict[str, tuple[Any, Callable[[Any], Any], Any]] = {
    "allOf": (
        {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        lambda inner: {"c": inner},
        {},
    ),
    "anyOf": (
        {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}, {"const": 1}]},
        lambda inner: [inner],
        1,
    ),
    "expressions": (
        {
            "oneOf": [
                {"type": "integer"},
                *(
                    {
                        "type": "object",
                        "properties": {"op": {"const": f"o{n}"}, "l": {"$ref": "#"}, "r": {"$ref": "#"}},
                        "required": ["op", "l", "r"],
                    }
                    for n in range(12)
                ),
            ]
        },
        lambda inner: {"op": "o7", "l": inner, "r": 1},
        1,
    ),
    "$dynamicRef": (
        {
            "$dynamicAnchor": "n",
            "type": "object",
            "properties": {"c": {"allOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}]}},
        },
        lambda inner: {"c": inner},
        {},
    ),
}


@every("name", MULTIPLYING)
def test_schemas_that_multiply_over_the_data_are_decided_once_for_each_value(name: str) -> None:
    """Data nested 60 deep in a schema that applies itself twice a level is decided, in steps that do not double."""
    plain, form, leaf = MULTIPLYING[name]
    document = JsonSchema.of(plain)
    begun = time.process_time()

    assert document.validate(nest(60, form, leaf)) == ()
    assert document.validate(nest(60, form, "wrong")) != ()
    assert time.process_time() - begun < 30


@pytest.mark.slow
def test_what_cannot_be_decided_within_the_budget_is_a_failed_result() -> None:
    """Many branches times many values are a fault that says the limit, by either package."""
    branches = [{"properties": {"k": {"const": f"a{n}"}}, "required": ["k"]} for n in range(1_000)]
    document = JsonSchema.of({"items": {"anyOf": branches}})

    assert document.validate([{"k": "a1"}] * 3) == ()
    assert [str(fault) for fault in document.validate([{"k": "a999"}] * 300)] == [
        f"expected data that is decided within {MAX_STEPS} steps, found array of 300 items"
    ]


HOSTILE_PATTERNS = {
    "nested counts": "(?:" * 20 + "a" + "){1,99}" * 20,
    "nested twos": "(?:" * 16 + "ab" + "){2}" * 16,
    "nested pluses": "(?:" * 20 + "a" + ")+" * 20,
    "lazy counts": "(?:" * 12 + "a" + "){3,5}?" * 12,
    "one long count": "(?:ab){100000}",
    "a count without end": "a{" + "9" * 5_000 + "}",
    "counts of counts": "a" + "{9}" * 50_000,
    "alternatives": "(?:a|b)" * 10_000,
    "groups": "(" * 400 + "a" + ")" * 400,
    "look-around": "(?=" * 200 + "a" + ")" * 200,
}


@every("name", HOSTILE_PATTERNS)
@every("keyword", ["pattern", "patternProperties"])
def test_patterns_that_expand_are_refused_before_they_are_compiled(name: str, keyword: str) -> None:
    """A pattern of two hundred characters that stands for billions is an error at its place."""
    begun = time.process_time()
    pattern = HOSTILE_PATTERNS[name]
    said = refusal({"properties": {"a": {keyword: pattern if keyword == "pattern" else {pattern: {}}}}})

    assert f"/properties/a/{keyword}" in said
    assert time.process_time() - begun < 5


def test_patterns_as_they_are_written_are_no_excess() -> None:
    """Long counts of one character, lists of words and version numbers stay far below the limit."""
    words = "^(?:" + "|".join(f"word{n}" for n in range(300)) + ")$"
    kept = [r"^[\s\S]{1,1048576}$", r"^(?:[a-z0-9-]{1,63}\.){1,32}[a-z]{2,63}$", words, r"^\d{4}-\d{2}-\d{2}$"]

    assert all(expansion(pattern) < MAX_PATTERN / 4 for pattern in kept)
    assert JsonSchema.of({"anyOf": [{"pattern": pattern} for pattern in kept]}).validate("word7") == ()


def test_the_patterns_of_a_document_are_counted_together() -> None:
    """Many patterns that are each within the limit are refused where they are too many."""
    many = {"properties": {f"p{n}": {"pattern": f"(?:a{n}|b){{1,500}}"} for n in range(40)}}

    assert f"at most {MAX_PATTERN} characters in all patterns" in refusal(many)
    same = {"properties": {f"p{n}": {"pattern": "(?:a|b){1,500}"} for n in range(40)}}
    assert JsonSchema.of(same).validate({"p1": 1}) == ()


@pytest.mark.parametrize("levels", [129, 150, 400, 2_500])
def test_documents_deeper_than_the_one_limit_are_refused(levels: int) -> None:
    """The limit of nesting is one number for whatever makes a document deep."""
    forms: dict[str, Callable[[Any], Any]] = {
        "/items/items": lambda inner: {"items": inner},
        "/not/not": lambda inner: {"not": inner},
        "/properties/a": lambda inner: {"properties": {"a": inner}},
        "/allOf/0": lambda inner: {"allOf": [inner]},
        "/default/0": lambda inner: {"default": [inner]},
    }
    for location, form in forms.items():
        assert refusal(nest(levels, form, {})) == (
            f"unusable JSON Schema: {location * 4}/…: expected at most 128 levels of nesting, found deeper nesting"
        )
    assert "at most 128 levels of schemas that apply to one value" in refusal(chain(levels, lambda ref: ref, {}))


@every("form", ["items", "not", "chain"])
def test_documents_as_deep_as_they_may_be_work_everywhere(form: str) -> None:
    """At the limit nothing fails: validation, equality, strict forms, grammars."""
    levels = MAX_LEVELS - 3
    plain = (
        chain(levels, lambda ref: {"type": "array", "items": ref}, {"type": "integer"})
        if form == "chain"
        else nest(levels, lambda inner: {"type": "array", form: inner}, {"type": "integer"})
    )
    document = JsonSchema.of({"type": "object", "properties": {"a": plain}} if form != "chain" else plain)
    data = nest(levels, lambda inner: [inner], 1)

    assert document.validate({"a": data} if form != "chain" else data) == () or form == "not"
    assert document == JsonSchema.of(document.to_dict())
    assert hash(document)
    assert repr(document)
    assert strict_form(document, ANTHROPIC) is not None
    assert grammar(document.to_dict()) is not None


def test_strict_forms_follow_long_chains_of_definitions() -> None:
    """A thousand definitions that lead from one to the next are one strict form, whatever the stack."""
    steps = chain(800, lambda ref: {"type": "object", "properties": {"a": ref}, "required": ["a"]}, {"type": "integer"})
    document = JsonSchema.of({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": steps["$defs"]})
    form = strict_form(document, OPENAI)

    assert "levels of objects" in str(form) or isinstance(form, Success)


def test_deep_data_is_decided_or_refused_and_never_overflows() -> None:
    """A recursive schema takes data that is deep, as far as data goes, and refuses what is deeper."""
    document = JsonSchema.of({"type": "array", "items": {"allOf": [{"anyOf": [{"$ref": "#"}, {"type": "null"}]}]}})

    assert document.validate(nest(120, lambda inner: [inner], None)) == ()
    assert [str(fault) for fault in document.validate(nest(400, lambda inner: [inner], None))] == [
        "/0/0/0/0/0/0/0/0/…: expected at most 128 levels of nesting, found deeper nesting"
    ]
    assert document.validate(nest(200, lambda inner: [inner], None), plain=True) == ()
    assert document.validate(nest(200, lambda inner: [inner], "x"), plain=True) != ()


def test_a_caller_deep_in_the_stack_gets_what_others_get() -> None:
    """Making, validating and transforming a document needs no room on the caller's own stack."""
    plain = {"type": "object", "properties": {"a": nest(100, lambda inner: {"type": "array", "items": inner}, {})}}

    def deep(levels: int) -> object:
        if levels:
            return deep(levels - 1)
        document = JsonSchema.of(plain)
        data = {"a": nest(100, lambda inner: [inner], 1)}
        return document.validate(data), hash(document), document.to_dict()

    found: Any = deep(800)
    assert found[0] == ()
    assert found[2] == plain


def test_wide_documents_are_refused_by_number_size_and_pointers() -> None:
    """Too many schemas, too many bytes and too long pointers are each named with the limit."""
    many: dict[str, Any] = {"properties": {f"p{n}": {} for n in range(MAX_SCHEMAS + 1)}}
    long: dict[str, Any] = {"properties": {"x" * 5_000: {"properties": {"a": {}}}}}

    assert f"at most {MAX_SCHEMAS} schemas in one document" in refusal(many)
    assert "expected at most 1048576 bytes of JSON" in refusal({"description": "x" * 1_100_000})
    assert "JSON pointers to schemas of at most 4096 characters" in refusal(long)
    assert "at most 4,200 digits" in refusal({"maximum": 10**5_000})
    assert len(refusal({f"p{n}": 0 for n in range(9)} | {"properties": {f"p{n}": 3 for n in range(5_000)}})) < 20_000


WIDE: dict[str, tuple[Any, Any]] = {
    "required": ({"required": [f"v{n}" for n in range(40_000)]}, {}),
    "dependentRequired": ({"dependentRequired": {"a": [f"v{n}" for n in range(40_000)]}}, {"a": 1}),
    "enum": ({"items": {"enum": [f"v{n}" for n in range(20_000)]}}, ["x"] * 5_000),
    "const": ({"items": {"const": ["x" * 50] * 2_000}}, [1] * 2_000),
    "uniqueItems": ({"uniqueItems": True}, [*({"a": n} for n in range(6_000)), {"a": 1}]),
    "unevaluatedItems": ({"prefixItems": [{}], "unevaluatedItems": False}, [1] * 20_000),
    "additionalProperties": ({"additionalProperties": False}, {f"a{n}": 1 for n in range(20_000)}),
    "items": ({"items": {"type": "string"}}, [1] * 20_000),
    "anyOf": ({"anyOf": [{"type": "object"}] * 50}, [["x" * 50]] * 20_000),
    "properties": ({"items": {"properties": {f"a{n}": {"type": "null"} for n in range(2_500)}}}, [{"a1": 1}] * 3_000),
}


@pytest.mark.slow
@every("keyword", WIDE)
def test_wide_data_is_decided_in_time_and_told_in_short(keyword: str) -> None:
    """No keyword compares all with all, and of thousands of faults about a hundred are told."""
    plain, value = WIDE[keyword]
    document = JsonSchema.of(plain)
    begun = time.process_time()
    faults = document.validate(value)

    assert 0 < len(faults) <= MAX_FAULTS
    assert sum(len(str(fault)) for fault in faults) < 500_000
    assert time.process_time() - begun < 15


def test_numbers_beyond_floats_are_decided_alike() -> None:
    """Huge integers and tiny steps are reckoned with exactly; a whole float is the integer that it equals."""
    whole = int(1e308)
    verdicts = {
        (step, value): not JsonSchema.of({"multipleOf": step}).validate(value)
        for step in (0.1, 1e308, 1e-300, 3)
        for value in (0.3, 10**400, 3, 1e308, 7 * whole)
    }
    held = {step: [value for (by, value), fits in verdicts.items() if fits and by == step] for step in (0.1, 1e308, 3)}

    assert held == {0.1: [0.3, 10**400, 3, 1e308, 7 * whole], 1e308: [1e308, 7 * whole], 3: [3]}


@every("great", [2**53 + 1, 10**22, 10**23, 2**64 + 1, 10**308])
def test_a_float_is_the_integer_that_it_equals(great: int) -> None:
    """An integer that a float only rounds to is another number, as a constant and as a bound."""
    near = float(great)

    def takes(schema: dict[str, object], value: float) -> bool:
        return not JsonSchema.of(schema).validate(value)

    assert takes({"const": near}, int(near))
    assert takes({"const": near}, great) == takes({"enum": [near]}, great) == (great == near)
    assert takes({"maximum": near}, great) == (great <= near)
    assert takes({"exclusiveMinimum": great}, near) == (near > great)


@pytest.mark.slow
def test_strict_forms_count_what_unions_multiply() -> None:
    """Forty unions of two side by side have no strict form, and the report states the limit."""
    either = [{"anyOf": [{"properties": {f"{s}{n}": {"type": "null"}}} for s in "ab"]} for n in range(40)]
    for plain in (
        {"type": "object", "allOf": either},
        {"type": "object", "properties": {"a": {"type": "object", "allOf": either}}},
    ):
        document = JsonSchema.of(plain)
        for rules in (OPENAI, ANTHROPIC):
            (feature,) = strict_form(document, rules).failure()
            assert f"the strict form needs more than {MAX_LOCATIONS} steps" in feature.reason


def test_strict_forms_do_not_compare_all_with_all() -> None:
    """Two long lists of values, many branches, and names that are not looked at are each gone through once."""
    listed = [f"v{n}" for n in range(15_000)]
    plain = [
        {"allOf": [{"enum": listed}, {"enum": listed}]},
        {"anyOf": [{"type": "object", "properties": {"k": {"const": n}}, "required": ["k"]} for n in range(1_200)]},
        {
            "type": "object",
            "properties": {f"p{n}": {"type": "null"} for n in range(2_500)},
            "unevaluatedProperties": False,
        },
    ]
    begun = time.process_time()
    for one in plain:
        formed = strict_form(JsonSchema.of({"type": "object", "properties": {"a": one}, "required": ["a"]}), ANTHROPIC)
        assert isinstance(formed, Success | Failure)  # in its time, whatever it is
    assert time.process_time() - begun < 20


def test_grammars_count_their_steps_and_their_repetitions() -> None:
    """What a grammar cannot ask for is a failure that names the place; nothing raw is raised."""
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(6_000)}}
    cases = {
        f"the grammar needs more than {MAX_LOCATIONS} steps": wide,
        "must be at most 50000 for a grammar": {"type": "string", "minLength": 10**12},
        "must be at most 1000 for a grammar": {"type": "array", "items": {"type": "null"}, "minItems": 10**9},
        "a grammar cannot count to this number": {"type": "integer", "minimum": 10**300},
        "a grammar cannot count in steps of 1e-300": {"type": "number", "multipleOf": 1e-300},
    }
    for reason, schema in cases.items():
        plain = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        assert reason in str(grammar(plain).failure())


def test_stacks_are_lent_and_nesting_is_counted() -> None:
    """A recursion that is deeper than the interpreter's own goes on; `deeper_than` counts arrays and objects."""

    def down(level: int) -> int:
        return with_stack(lambda: 1 + down(level - 1)) if level else 0

    assert down(3_000) == 3_000
    assert [deeper_than([[{"a": 1}]], levels) for levels in (2, 3)] == [True, False]


def test_types_are_held_to_the_same_budget() -> None:
    """A type whose document is beyond the budget is a `SchemaError` when its schema is asked for."""
    deep: Any = int
    for _ in range(140):
        deep = list[deep]
    pattern = "(?:" * 8 + "a" + "){1,99}" * 8
    types: tuple[Any, ...] = (deep, Annotated[str, msgspec.Meta(pattern=pattern)])
    for tp in types:
        with pytest.raises(SchemaError, match=r"expected at most|more than 30000 characters"):
            Schema.of(tp).json_schema()


def test_linting_goes_through_a_document_once() -> None:
    """Long lists of values, names that nobody declares, branches and examples are each looked at once."""
    listed = [f"v{n}" for n in range(4_000)]
    plain: dict[str, Any] = {
        "listed": {"enum": listed, "minLength": 2, "pattern": "^v"},
        "missing": {"properties": {f"a{n}": {} for n in range(800)}, "required": [f"b{n}" for n in range(800)]},
        "branches": {"anyOf": [{"properties": {"k": {"const": n}}, "required": ["k"]} for n in range(800)]},
        "examples": {"type": "string", "examples": ["x" * 500] * 200},
    }
    tool = Tool.dynamic("one", parameters={"type": "object", "properties": plain})
    begun = time.process_time()

    assert [found.code for found in lint(Subject.of([tool]))].count("required-unknown") == 800
    assert time.process_time() - begun < 20


def test_linting_a_document_that_is_none_ends() -> None:
    """What is beyond the budget is said, and what follows is looked at as far as the budget goes."""
    tool = Tool.dynamic("one", parameters={"type": "object", "properties": {}})
    deep = nest(400, lambda inner: {"properties": {"a": inner}}, {})
    wide: dict[str, Any] = {"properties": {"x" * 50_000: {"properties": {f"a{n}": {} for n in range(2_000)}}}}
    for plain in (deep, wide, {"pattern": HOSTILE_PATTERNS["nested counts"]}):
        findings = list(lint(Subject.of([tool], broken={"one": plain})))
        assert "schema-error" in [found.code for found in findings]


@pytest.mark.slow
def test_drawn_data_counts_its_steps() -> None:
    """A schema that multiplies, or asks for a billion items, gives data or none, and comes to an end."""
    node: dict[str, Any] = {"properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "type": "object"}
    found = find(instances(JsonSchema.of(node)), lambda value: True, settings=settings(database=None, max_examples=2))

    assert JsonSchema.of(node).validate(found) == ()
    for endless in ({"minItems": 10**9}, {"minProperties": 10**9}, {"minLength": 10**12}):
        kind = {"type": {"minItems": "array", "minProperties": "object"}.get(next(iter(endless)), "string")}
        with pytest.raises((Unsatisfiable, NoSuchExample)):
            find(
                instances(JsonSchema.of({**kind, **endless})),
                lambda value: True,
                settings=settings(database=None, max_examples=1),
            )


def test_a_composite_of_large_documents_is_held_to_the_budget() -> None:
    """Documents moved into one are one document, with one budget."""
    plain = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2_000)}}
    tools = [Tool.dynamic(f"t{n}", parameters=plain) for n in range(3)]

    with pytest.raises(SchemaError, match=f"at most {MAX_SCHEMAS} schemas in one document"):
        Toolkit.make(*tools).as_tool("all")


def test_what_nests_too_deep_is_named_by_the_beginning_of_its_pointer() -> None:
    """A document and data that are too deep in one place say which; long names do not make the message long."""
    deep = nest(200, lambda inner: [inner], 1)
    plain = {"properties": {"a": {"default": 1}, "b": {"examples": [deep]}}}

    assert "/properties/b/examples/0/0/0/0/0/…: expected at most 128 levels" in refusal(plain)
    (fault,) = JsonSchema.of({}).validate({"shallow": [[1]], "deep": {"x" * 5_000: deep}})
    assert fault.pointer.startswith("/deep/xxx")
    assert fault.pointer.endswith("…")
    assert len(fault.pointer) < 300


NO_REFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"$ref": "http://[x]#/a"}, "/$ref: expected a URI reference"),
    ({"$defs": {"a": {"$id": "http://[x]/#", "type": "string"}}}, "/$defs/a/$id: expected a URI reference"),
    ({"$ref": "#/allOf/²", "allOf": [{}]}, "/$ref: expected a reference to an existing schema"),
    ({"$ref": "#/allOf/٠", "allOf": [{}]}, "/$ref: expected a reference to an existing schema"),
    ({"$ref": "#/allOf/" + "1" * 5_000, "allOf": [{}]}, "/$ref: expected a reference to an existing schema"),
]


@every(("plain", "location"), NO_REFERENCES)
def test_references_that_are_none_are_refused(plain: dict[str, Any], location: str) -> None:
    """What is no URI, and an index that is no JSON pointer's, is a `SchemaError` at its place, and no other error."""
    assert location in refusal(plain)


@every(
    "plain",
    [
        {"minLength": 10**400},
        {"type": "string", "pattern": "(?<n>x)\\k<n>"},
        {"type": "string", "pattern": "(" * 99 + "x" + ")" * 99},
        {"type": "string", "$recursiveAnchor": True},
        {"$ref": "#/$defs/Box[int]", "$defs": {"Box[int]": {"type": "string"}}},
        {"$ref": "#/x/y", "x": {"y": {"$id": "here", "$ref": "#/w", "w": {"type": "string"}}}},
    ],
)
def test_what_other_packages_cannot_compile_is_decided(plain: dict[str, Any]) -> None:
    """A usable document has a verdict and never an error of a package."""
    document = JsonSchema.of(plain)

    assert bool(document.validate(1)) is ("type" in plain or "$ref" in plain)
    assert bool(document.validate("a")) is ("minLength" in plain or "pattern" in plain)


def test_a_reference_inside_of_a_schema_with_a_name_of_its_own_is_not_read_from_the_root() -> None:
    """Such a reference starts at the schema's `$id`: a strict form and a grammar are made of its target."""
    inner = {"$id": "http://e.org/a", "type": "object", "properties": {"y": {"$ref": "#/$defs/w"}}}
    defs = {"w": {"type": "integer"}, "a": {**inner, "$defs": {"w": {"type": "string"}}}}
    document = JsonSchema.of({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": defs})
    plain = {"type": "object", "properties": {"y": {"type": "string"}}}
    strict = strict_form(document, OPENAI).unwrap().document

    assert document.validate({"x": {"y": "text"}}) == strict.validate({"x": {"y": "text"}}) == ()
    assert [fault.pointer for fault in strict.validate({"x": {"y": 1}})] == ["/x/y"]
    assert grammar(document.to_dict()) == grammar({"type": "object", "properties": {"x": plain}})


def test_what_is_looked_up_is_not_searched_for_each_time() -> None:
    """Names of schemas, long lists of values and metaschemas: work as long as the document and the data."""
    named = {f"d{n}": {"$id": f"c{n}/", "$defs": {"e": {"$id": "e", "$anchor": "q"}}} for n in range(300)}
    references = [{"$ref": f"http://e.org/c{n}/e#q"} for n in range(300)]
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    begun = time.process_time()

    assert not JsonSchema.of({"$id": "http://e.org/", "$defs": named, "allOf": references}).validate(1)
    listed = JsonSchema.of({"items": {"enum": [n + 0.5 for n in range(3_000)]}})
    assert not listed.validate([2_999.5] * 2_000)
    assert "at most 10000 schemas that apply to one value" in refusal({"allOf": [meta] * 500})
    assert not JsonSchema.of({"items": meta}).validate([{"type": "string"}] * 20)
    assert time.process_time() - begun < 5


def test_numbers_beyond_every_float_are_linted() -> None:
    """A step that no float holds is said as it is, and breaks nothing."""
    number = {"type": "integer", "multipleOf": 10**400, "minimum": 1, "maximum": 2}
    tool = Tool.dynamic("one", parameters={"type": "object", "properties": {"n": number}})

    assert f"no multiple of {10**400} is between" in " ".join(str(finding) for finding in lint(Subject.of([tool])))
