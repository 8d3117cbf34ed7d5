"""Every rule of `fxai check`: what it finds, where, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai import Aspect, Destructive, Idempotent, Layer, Readonly, Strict, Tool, Toolkit, fx
from fxai.annotations import CacheControl, DeferLoading, ExplicitNull, FindsTools
from fxai.cli.target import read_tools
from fxai.lint import RULES, Finding, Subject, handler_findings, lint
from fxai.lint.rule import PROVIDERS
from fxai.lint.structure import contradictions, width
from fxai.providers import anthropic, openai
from fxai.schema import JsonSchema, Schema
from tests.kit.every import every
from tests.kit.faulty_tools import described
from tests.kit.trials import examples

Found = tuple[str, str]


def _nested(levels: int) -> Any:
    """A type of lists in lists. A JSON Schema has at most 128 levels."""
    nested: Any = int
    for _ in range(levels):
        nested = list[nested]
    return nested


DEEP: Any = msgspec.defstruct("Deep", [("lists", Annotated[_nested(130), msgspec.Meta(description="Lists.")])])


class Free(msgspec.Struct, frozen=True):
    """Takes anything."""

    value: Annotated[Any, msgspec.Meta(description="Anything at all.")]


class Node(msgspec.Struct, frozen=True):
    """A tree."""

    name: Annotated[str, msgspec.Meta(description="What it is called.")]
    kind: Literal["leaf"] = "leaf"
    children: Annotated[list[Node], msgspec.Meta(description="Those below.")] = []


_COUNTS: Schema[dict[str, int]] = Schema.of(dict[str, int])


def raw(document: Any, name: str = "raw", **options: Any) -> Tool[Any, Any, Any]:
    """A dynamic tool with a description of its own."""
    made: Tool[Any, Any, Any] = Tool.dynamic(name, description=f"Does {name}.", parameters=document, **options)
    return made


MARKED = raw(described(), "more", provider_options={"anthropic": {"cache_control": {"type": "ephemeral"}}})


def prop(**schema: Any) -> Tool[Any, Any, Any]:
    """A tool with the one parameter `x`."""
    return raw(described(x=schema))


def of(*tools: Tool[Any, Any, Any]) -> list[Found]:
    """The rules that find something, and where."""
    return [(found.code, found.pointer) for found in lint(Subject.of(tools), "info") if found.code != "strict-weakened"]


def listed(*entries: Any) -> list[Finding]:
    """What is found of a list of tools in JSON."""
    found = read_tools(json.dumps({"tools": entries}))
    return [*found.findings, *lint(Subject.of(found.tools, found.broken), "info")]


VALUE = "/properties/value"
X = "/parameters/properties/x"
PATTERNED = {**described(), "patternProperties": {"^b": {"type": "string"}}}
BARE = {"type": "object", "properties": {"x": {"type": "string"}}}
INNER = described(x={"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}}}})
REFERRED = {
    "type": "object",
    "properties": {"x": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
    "$defs": {"n": {"type": "integer", "description": "How many."}},
}
REFERRING = {**described(x={"$ref": "#/$defs/n", "default": "a"}), "$defs": {"n": {"type": "integer"}}}

CASES: list[tuple[str, list[Tool[Any, Any, Any]], list[Found]]] = [
    ("no tools", [], [("no-tools", "")]),
    ("too many", [raw({"type": "object", "properties": {}}, f"t{n}") for n in range(129)], [("too-many-tools", "")]),
    ("long", [raw(described(), "n" * 65)], [("name-too-long", "/name")]),
    ("dotted", [raw(described(), "calc.add")], [("name-renamed", "/name")]),
    ("blank", [raw(described(), "add ")], [("name-odd", "/name"), ("name-renamed", "/name")]),
    ("alike", [raw(described(), "get-it"), raw(described(), "Get_it")], [("name-alike", "/name")]),
    ("undescribed", [Tool.make("add")], [("tool-undescribed", "/description")]),
    (
        "one text",
        [Tool.make("a", description="Same."), Tool.make("b", description="Same. ")],
        [("description-doubled", "/description")],
    ),
    ("a parameter", [raw(BARE)], [("parameter-undescribed", X)]),
    ("a parameter inside", [raw(INNER)], [("parameter-undescribed", f"{X}/items/properties/y")]),
    ("a described type", [raw(REFERRED)], []),
    ("a tag", [raw({"type": "object", "properties": {"x": {"const": 1}}})], []),
    ("long text", [Tool.make("a", description="x" * 1025)], [("description-too-long", "/description")]),
    ("too deep", [Tool.make("odd", description="O.", parameters=DEEP)], [("schema-error", "/parameters")]),
    ("a number", [Tool.make("n", description="N.", parameters=int)], [("root-not-object", "/parameters/type")]),
    ("no root", [raw({"properties": {}})], [("root-not-object", "/parameters/type")]),
    ("any", [raw(JsonSchema.of(True))], [("root-not-object", "/parameters/type")]),
    (
        "a union at the root",
        [raw({"type": "object", "properties": {}, "anyOf": [{"properties": {}}]})],
        [("root-union", "/parameters/anyOf")],
    ),
    ("requried", [prop(type="string", patern="a")], [("misspelt-keyword", f"{X}/patern")]),
    ("case", [prop(type="string", MaxLength=3)], [("misspelt-keyword", f"{X}/MaxLength")]),
    ("snake", [prop(type="string", max_length=3)], [("misspelt-keyword", f"{X}/max_length")]),
    (
        "beside properties",
        [raw({**described(), "city": {"type": "string"}})],
        [("misplaced-property", "/parameters/city")],
    ),
    ("unknown", [prop(type="string", widget="slider")], [("unknown-keyword", f"{X}/widget")]),
    ("nullable", [prop(type="string", nullable=True)], [("unknown-keyword", f"{X}/nullable")]),
    ("extensions", [prop(type="string", **{"x-order": 1, "example": "a", "$vocabulary": {}})], []),
    (
        "another draft",
        [raw({"$schema": "http://json-schema.org/draft-07/schema#", **described(), "dependentRequired": {}})],
        [("keyword-of-other-draft", "/parameters/dependentRequired")],
    ),
    ("out of place", [prop(type="string", minimum=3)], [("keyword-without-effect", f"{X}/minimum")]),
    ("in place", [prop(type=["string", "integer"], minimum=3)], []),
    (
        "required",
        [raw({**described(city={"type": "string"}), "required": ["cty"]})],
        [("required-unknown", "/parameters/required/0")],
    ),
    (
        "required elsewhere",
        [raw(described(x={"type": "object", "properties": {"a": {"const": 1}}, "anyOf": [{"required": ["a"]}]}))],
        [],
    ),
    ("required by pattern", [raw({**PATTERNED, "required": ["b"]})], [("strict-impossible", "/parameters")]),
    ("required of any", [raw({"type": "object", "required": ["b"]})], [("strict-impossible", "/parameters")]),
    ("default", [prop(type="string", default=None)], [("default-misfit", f"{X}/default")]),
    ("default by reference", [raw(REFERRING)], [("default-misfit", f"{X}/default")]),
    ("example", [prop(type="integer", examples=[1, "a"])], [("example-misfit", f"{X}/examples/1")]),
    ("enum", [prop(type="string", enum=["a", None])], [("enum-misfit", f"{X}/enum/1")]),
    ("no enum", [prop(type="string", enum=[1, 2])], [("unsatisfiable", f"{X}/enum")]),
    ("const", [prop(type="string", const=1)], [("unsatisfiable", f"{X}/const")]),
    ("empty enum", [prop(enum=[])], [("unsatisfiable", f"{X}/enum")]),
    ("untyped", [prop()], [("untyped", X)]),
    ("untyped items", [prop(type="array", items={})], [("untyped", f"{X}/items")]),
    (
        "Any",
        [Tool.make("free", parameters=Free)],
        [("untyped", f"/parameters{VALUE}"), ("strict-impossible", f"/parameters{VALUE}")],
    ),
    (
        "brackets",
        [raw(described(**{"filter[id]": {"type": "string"}}))],
        [("property-name", "/parameters/properties/filter[id]")],
    ),
    (
        "read and destroy",
        [raw(described()).annotate(Readonly, True).annotate(Destructive, True)],
        [("annotation-contradiction", "/annotations/destructive")],
    ),
    ("read", [raw(described()).annotate(Readonly, True).annotate(Idempotent, False)], []),
    (
        "example of a call",
        [raw(described(n={"type": "integer"}), validation=_COUNTS.decode, input_examples=[{"n": "a"}])],
        [("input-example-misfit", "/input_examples/0/n")],
    ),
    (
        "marked for the cache",
        [raw(described(), f"t{n}").annotate(CacheControl, "5m") for n in range(5)] + [MARKED],
        [("cache-marks", "/annotations/cache_control")] * 2,
    ),
    ("four marks", [raw(described(), f"t{n}").annotate(CacheControl, "5m") for n in range(4)], []),
    (
        "deferred",
        [raw(described()).annotate(DeferLoading, True)],
        [("tool-search-missing", "/annotations/defer_loading")] * 2,
    ),
    (
        "deferred at one provider",
        [raw(described(), provider_options={"anthropic": {"defer_loading": True}}), openai.tool_search()],
        [("tool-search-missing", "/annotations/defer_loading")],
    ),
    (
        "deferred and searched for",
        [raw(described()).annotate(DeferLoading, True), anthropic.tool_search(), openai.tool_search()],
        [],
    ),
    (
        "deferred and found by a local tool",
        [raw(described()).annotate(DeferLoading, True), raw(described(), "find").annotate(FindsTools, True)],
        [],
    ),
    (
        "another provider",
        [raw(described(), provider_options={"opnai": {}})],
        [("provider-unknown", "/provider_options/opnai")],
    ),
    (
        "a tree",
        [Tool.make("tree", parameters=Node)],
        [("strict-impossible", "/parameters/$defs/Node/properties/children/items")],
    ),
]


@every(("tools", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_rule_finds_its_fault_and_no_other(tools: list[Tool[Any, Any, Any]], found: list[Found]) -> None:
    """Each planted fault is found by its rule at its place; what is no fault is left alone."""
    assert of(*tools) == found


def test_two_names_on_one_wire_are_told_once_for_all_providers() -> None:
    """Two tools that would be sent under one name are named both, with what they would be sent as."""
    (found,) = [
        f for f in lint(Subject.of([raw(described(), "a.b"), raw(described(), "a__b")])) if f.severity == "error"
    ]

    assert (found.code, found.tool) == ("name-collision", "a__b")
    assert all(word in found.message for word in ("'a.b'", "'a__b'", "openai and anthropic"))


def test_strict_that_was_asked_for_and_cannot_be_is_an_error() -> None:
    """A tool that cannot be strict is a warning; annotated with Strict it is an error, with Strict off nothing."""
    free = raw({**described(kind={"type": "string"}), "additionalProperties": True})
    severities = [
        [found.severity for found in lint(Subject.of([tool]))]
        for tool in (free, free.annotate(Strict, True), free.annotate(Strict, False))
    ]

    assert severities == [["warning"], ["error"], []]


def test_what_fxai_rewrites_is_a_warning() -> None:
    """A union at the root, a root of another type and a refused name fail no request, strict or not."""
    union = raw({"type": "object", "properties": {}, "anyOf": [{"properties": {}}]})
    named = raw(described(**{"filter[id]": {"type": "string"}}))
    tools = (union, union.annotate(Strict, False), named, Tool.make("n", description="N.", parameters=int))

    assert [lint(Subject.of([tool]))[0].severity for tool in tools] == ["warning"] * 4
    assert "sends it as 'filter_id'" in lint(Subject.of([named]))[0].message


def test_a_tool_that_requests_leave_out_is_an_error() -> None:
    """The finding and the request have one reason."""
    never = raw(JsonSchema.of(False))
    found = [one for one in lint(Subject.of([never])) if one.code == "left-out"]
    (left_out,) = openai.prepare_tools([never], model="gpt-5.5").left_out

    assert [one.severity for one in found] == ["error", "error"]
    assert left_out.reason.rpartition(": ")[2] in found[0].message
    assert found[0].pointer == left_out.pointer == "/parameters"


def test_only_the_providers_that_are_asked_for_count() -> None:
    """A fault of one provider is none where another one is meant."""
    tool = raw(described(**{"filter[id]": {"type": "string"}}))
    findings = [[f.code for f in lint(Subject.of([tool], providers=[p]))] for p in PROVIDERS.values()]

    assert findings == [[], ["property-name"]]


def test_what_strict_mode_cannot_hold_is_told_as_information() -> None:
    """A bound that a provider cannot carry is no fault by default: the original is validated after all."""
    assert lint(Subject.of([prop(type="string", minLength=2)])) == ()
    (found,) = lint(Subject.of([prop(type="string", minLength=2)], providers=[PROVIDERS["anthropic"]]), "info")

    assert (found.code, found.severity, found.pointer) == ("strict-weakened", "info", X)


def test_a_null_that_strict_mode_loses_is_told_with_its_remedy() -> None:
    """It is told where null is not the default, and no more once the tool is annotated."""
    openai = [PROVIDERS["openai"]]
    lossy = raw({"type": "object", "properties": {"x": {"type": ["integer", "null"], "description": "It."}}})
    (found,) = lint(Subject.of([lossy], providers=openai), "info")

    assert (found.code, found.severity, found.pointer) == ("strict-weakened", "info", X)
    assert "tool.annotate(ExplicitNull, True)" in str(found.remedy)
    assert lint(Subject.of([lossy.annotate(ExplicitNull, True)], providers=openai), "info") == ()


def test_a_type_without_a_json_schema_is_found_wherever_it_stands() -> None:
    """Success and failure types count as well as parameters."""
    tool = Tool.make("odd", description="Odd.", success=DEEP, failure=_nested(130))

    assert of(tool) == [("schema-error", "/success"), ("schema-error", "/failure")]


NOT_TOOLS: list[tuple[Any, Found]] = [
    (3, ("not-a-tool", "/tools/0")),
    ({"description": "Nameless."}, ("not-a-tool", "/tools/0/name")),
    ({"name": " ", "inputSchema": {}}, ("not-a-tool", "/tools/0/name")),
    ({"name": "a", "description": "A."}, ("not-a-tool", "/parameters")),
    ({"name": "a", "description": 3, "inputSchema": {"type": "object"}}, ("not-a-tool", "/description")),
    (
        {"name": "a", "description": "A.", "inputSchema": {"type": "object", "properties": {}}, "annotations": 3},
        ("not-a-tool", "/annotations"),
    ),
    ({"name": "a", "description": "A.", "inputSchema": {"type": "objct"}}, ("schema-error", "/parameters/type")),
    ({"name": "a", "description": "A.", "inputSchema": 3}, ("schema-error", "/parameters")),
    (
        {
            "name": "a",
            "description": "A.",
            "inputSchema": {"type": "object", "properties": {"x": {"$ref": "http://x"}}},
        },
        ("schema-error", "/parameters/properties/x/$ref"),
    ),
]


@every(("entry", "found"), NOT_TOOLS, ids=lambda value: json.dumps(value)[:50])
def test_an_entry_of_a_list_that_is_no_tool_is_found(entry: Any, found: Found) -> None:
    """Whatever a server lists, each entry that is no tool is a fault with its place, and the others are looked at."""
    assert found in [(each.code, each.pointer) for each in listed(entry)]


def test_other_faults_of_a_broken_schema_are_found_too() -> None:
    """A document that is no JSON Schema does not hide what else is wrong with it."""
    schema = {**described(x={"type": "strin", "patern": "a"}), "required": ["y"]}
    found = [(each.code, each.pointer) for each in listed({"name": "a", "description": "A.", "inputSchema": schema})]

    assert found == [
        ("schema-error", f"{X}/type"),
        ("required-unknown", "/parameters/required/0"),
        ("misspelt-keyword", f"{X}/patern"),
    ]


def test_every_rule_is_shown_at_work() -> None:
    """Each rule of the table is in a case of these tests, or is about what is looked at elsewhere."""
    elsewhere = {
        "definition-refused",
        "handler-missing",
        "handler-doubled",
        "handler-extra",
        "service-missing",
        "layer-failed",
    }
    here = {code for _, _, found in CASES for code, _ in found} | {found[0] for _, found in NOT_TOOLS}

    assert set(RULES) - here == elsewhere | {"left-out", "name-collision", "strict-weakened"}


# ---- what is certain, by any document

COUNTS = st.integers(0, 4)
NUMBERS = st.integers(-4, 4) | st.sampled_from([0.5, 1.5, 2.5])
BOUNDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
    },
)
LENGTHS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "pattern": st.sampled_from(["^a{2}$", "a", "^a+$", "^a?$", "^(a|aa)$", "^(?=a)a$", r"a\$"]),
    },
)
VALUES: list[Any] = (
    [n / 4 for n in range(-20, 21)] + list(range(-5, 6)) + ["a" * n + s for n in range(9) for s in ("", "$")]
)


@given(BOUNDS | LENGTHS)
def test_a_schema_that_is_called_unsatisfiable_takes_nothing(schema: dict[str, Any]) -> None:
    """No value that could be meant passes a schema of which a contradiction is told."""
    document = JsonSchema.of(schema)
    taken = [value for value in VALUES if not document.validate(value)]
    told = list(contradictions(schema))

    assert not (told and taken)


@example({"type": "integer", "multipleOf": 0.5, "minimum": 1.5, "maximum": 1.5})
@given(BOUNDS)
def test_bounds_that_take_no_number_are_called_unsatisfiable(schema: dict[str, Any]) -> None:
    """Of bounds on numbers alone, whatever takes none is told."""
    document = JsonSchema.of(schema)
    taken = [n for n in range(-60, 61) if not document.validate(n / 4)]

    assert bool(taken) or any(contradictions(schema))


WORDS = st.sampled_from(
    (
        *("type", "properties", "required", "items", "enum", "const", "default", "examples", "$ref", "$defs", "anyOf"),
        *("not", "name", "description", "inputSchema", "annotations", "function", "minimum", "pattern", "$schema", "x"),
    )
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["object", "string", "integer", "#", "#/$defs/a", "#/properties/x", "^a$", "("]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=examples(60))
@given(JSON, JSON)
def test_no_list_is_too_odd(schema: Any, entry: Any) -> None:
    """Whatever JSON a list holds, it is looked at, and what is found has a place and a remedy in one line each."""
    findings = listed({"name": "a", "inputSchema": schema}, entry)

    assert all(found.message and found.remedy and "\n" not in str(found) for found in findings)
    assert all(found.pointer == "" or found.pointer.startswith("/") for found in findings)


def test_the_width_of_a_pattern_is_told_where_it_is_known() -> None:
    """Anchored patterns have a fewest and a most; others no most; what is beyond this says nothing."""
    assert [width(p) for p in ("^a{2,3}b?$", "ab", "^a|b$", r"^a\$", "^(?!a)b$", "^" + "(" * 600 + ")" * 600)] == [
        (2, 4),
        (2, None),
        (1, None),
        (2, None),
        (0, None),
        (0, None),
    ]


def _closed(_: object) -> tuple[str, str]:
    return "it is closed", "open it"


@pytest.mark.parametrize(
    ("explain", "told"),
    [
        (None, "the layer failed: no database; Make the layer work on this machine, or check without the layer."),
        (_closed, "the layer failed: it is closed; open it"),
    ],
    ids=["as it is", "in words of the caller"],
)
def test_a_layer_that_cannot_be_built_is_a_fault_with_its_reason(explain: Any, told: str) -> None:
    """The library says what the layer failed with; a caller may put it into words of its own."""
    broken: Layer[Any] = Layer.effect_context(fx.sync(_no_database))
    found = fx.run(handler_findings((raw(described(), "look"),), broken, explain))

    assert [(each.code, each.severity, f"{each.message}; {each.remedy}") for each in found] == [
        ("layer-failed", "error", told)
    ]


def _passes_on(_: object, proceed: Any) -> Any:
    return proceed


def test_a_stray_aspect_is_the_reason_of_a_failed_layer() -> None:
    """An aspect for a tool without a handler is not a problem of one tool of the toolkit, but it is reported."""
    look, other = raw(described(), "look"), raw(described(), "other")
    layer = Aspect.around(_passes_on, tool=other).wrap(look.handler(lambda _: Success({})))

    (found,) = fx.run(handler_findings((look,), layer))

    assert (found.code, found.tool) == ("layer-failed", None)
    assert "aspect for other: the wrapped layer has no handler for it" in found.message


class Clock:
    """An object whose method is a tool."""

    def hour(self) -> int:
        """Returns the hour."""
        return 9


def test_only_the_doubled_tool_is_reported() -> None:
    """The remedy in the error's message adds no findings."""
    both = Toolkit.from_object(Clock()).merge(Toolkit.from_object(Clock()))
    found = fx.run(handler_findings(tuple(both.toolkit), both.layer))

    assert [(each.code, each.tool) for each in found] == [("handler-doubled", "Clock.hour")]


def test_lint_knows_no_command_line() -> None:
    """Linting loads neither the command line, nor a model, nor a provider."""
    code = "import fxai.lint, sys; print(*sorted(m for m in sys.modules if m.startswith('fxai.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in done.stdout.split()}

    assert "lint" in loaded
    assert loaded.isdisjoint({"cli", "mcp", "providers", "testing"})


def _no_database() -> Any:
    raise ConnectionError("no database")
