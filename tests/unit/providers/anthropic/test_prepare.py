"""What a request to Anthropic says of its tools."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fxai.annotations import (
    AllowedCallers,
    CacheControl,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)
from fxai.models import PreparationError, ToolChoice
from fxai.models.prepared_tools import WireCall
from fxai.providers import anthropic
from fxai.providers.anthropic.tool_encoding import Cost, cost_of, kind_of, programs_of, runs_in_programs
from fxai.schema import JsonSchema, Schema
from fxai.tools import NameConflictError, Tool
from tests.kit.every import every

A, B = Tool.make("a"), Tool.make("b")


class Query(msgspec.Struct, frozen=True):
    """What is looked for, and three things that may be left out."""

    text: str
    one: int | None = None
    two: int | None = None
    three: int | None = None


def _prepare(*tools: Any, **options: Any) -> Any:
    return anthropic.prepare_tools(tools, model=options.pop("model", "claude-sonnet-5"), **options)


def _warned(prepared: Any) -> list[tuple[str, str | None]]:
    return [(warning.kind, warning.subject) for warning in prepared.warnings]


def _strict(prepared: Any) -> list[bool | None]:
    return [wire.get("strict") for wire in prepared.tools]


def test_annotations_are_sent() -> None:
    """Deferral, callers, cache marks and eager streaming have their places."""
    tool = A.annotate(DeferLoading, True).annotate(AllowedCallers, ("direct", "programmatic"))
    other = B.annotate(CacheControl, "1h").annotate(EagerInputStreaming, True)
    first, second = _prepare(tool, other).tools

    assert first["defer_loading"] is True
    assert first["allowed_callers"] == ["direct", "code_execution_20260521"]
    assert second["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert second["eager_input_streaming"] is True


def test_a_deferred_tool_is_not_cached() -> None:
    """Anthropic refuses both on one tool: the mark is left out, and that is said."""
    prepared = _prepare(A.annotate(DeferLoading, True).annotate(CacheControl, "5m"), anthropic.tool_search())

    assert prepared.tools[0]["defer_loading"] is True
    assert "cache_control" not in prepared.tools[0]
    assert _warned(prepared) == [("unsupported-option", "a")]


def test_not_every_tool_can_be_deferred() -> None:
    """Anthropic refuses that: then none is, and the warning names what is missing."""
    alone = _prepare(A.annotate(DeferLoading, True))
    found = _prepare(A.annotate(DeferLoading, True), anthropic.tool_search())

    assert "defer_loading" not in alone.tools[0]
    assert "Add anthropic.tool_search()" in alone.warnings[0].message
    assert found.tools[0]["defer_loading"] is True
    assert found.warnings == ()


def test_a_deferred_tool_without_a_tool_search_is_told() -> None:
    """Sent as it is, since a search of one's own may find it; the warning names the tools and what is missing."""
    deferred = [Tool.make(name).annotate(DeferLoading, True) for name in ("one", "two")]
    prepared = _prepare(*deferred, B)
    regex = _prepare(*deferred, B, anthropic.tool_search(by="regex"))

    assert [wire.get("defer_loading") for wire in prepared.tools] == [True, True, None]
    assert _warned(prepared) == [("other", None)]
    assert "Add anthropic.tool_search() for 'one', 'two'" in prepared.warnings[0].message
    assert regex.warnings == ()


def test_tools_beyond_four_are_not_marked_for_the_cache() -> None:
    """A mark holds for all tools before it, so the last ones stay; each of the others is told, by its own name."""
    marked = [Tool.make(f"t.{n}").annotate(CacheControl, "1h") for n in range(6)]
    prepared = _prepare(*marked, B)

    assert ["cache_control" in wire for wire in prepared.tools] == [False, False, True, True, True, True, False]
    assert _warned(prepared) == [("unsupported-option", "t.1"), ("unsupported-option", "t.0")]
    assert "tool 't.0': fxai removes its cache mark, because Anthropic accepts 4" in prepared.warnings[1].message
    assert _prepare(*marked[:4]).warnings == ()


def test_a_tool_that_programs_call_is_not_strict() -> None:
    """Anthropic takes only one of both: by default it is not strict, and one that asks for both is an error."""
    called = A.annotate(AllowedCallers, ("programmatic",))
    prepared = _prepare(called, B)

    assert _strict(prepared) == [False, True]
    assert _warned(prepared) == [("not-strict", "a")]
    assert _warned(_prepare(called, strict_json_schema=False)) == []
    assert _warned(_prepare(called, model="claude-2.1")) == []
    with pytest.raises(PreparationError, match="'a' has the annotation Strict, and programs can call it"):
        _prepare(called.annotate(Strict, True))


def test_programs_call_in_parallel() -> None:
    """Where programs call tools, parallel calls cannot be switched off; that is said."""
    called = A.annotate(AllowedCallers, ("programmatic",)).annotate(Strict, False)
    prepared = _prepare(called, parallel_tool_calls=False)

    assert prepared.tool_choice is None
    assert _warned(prepared) == [("unsupported-option", "parallel_tool_calls")]


def test_a_program_is_the_code_execution_at_hand() -> None:
    """Who may call programmatically is the code execution among the tools."""
    tool = A.annotate(AllowedCallers, ("programmatic",))
    prepared = _prepare(tool, anthropic.code_execution(version="20250825"))

    assert prepared.tools[0]["allowed_callers"] == ["code_execution_20250825"]


def test_provider_options_win_over_annotations() -> None:
    """What stands under the provider's own name is nearer to the wire."""
    tool = A.annotate(CacheControl, "1h").annotate(EagerInputStreaming, True)
    given = {"anthropic": {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": False}}
    sent = _prepare(tool.with_options(provider_options=given)).tools[0]

    assert sent["cache_control"] == {"type": "ephemeral"}
    assert "eager_input_streaming" not in sent


@pytest.mark.parametrize("given", [{"cach_control": {}}, {"cache_control": {"type": "lasting"}}, {"betas": 1}])
def test_wrong_provider_options_are_refused(given: Any) -> None:
    """What is misspelt or of a wrong type is an error, not lost."""
    with pytest.raises(PreparationError, match="provider_options"):
        _prepare(A.with_options(provider_options={"anthropic": given}))


@every(
    ("tool", "what"),
    [
        (A.annotate(OutputSchema, JsonSchema.of({"type": "string"})), "output schema"),
        (A.annotate(Namespace, ToolNamespace("n", "N")), "namespace"),
        (anthropic.bash(description="A shell."), "description"),
        (anthropic.computer_toolset().annotate(DeferLoading, True), "has no field for its defer_loading"),
        (anthropic.computer_toolset().annotate(Strict, True), "strict mode"),
        (anthropic.web_search(input_examples=[{}]), "input examples"),
        (anthropic.bash().annotate(EagerInputStreaming, True), "eager_input_streaming"),
    ],
)
def test_what_the_wire_has_no_place_for_is_said(tool: Any, what: str) -> None:
    """Whatever a tool asks for and the wire lacks is a warning that names the tool and the thing."""
    prepared = _prepare(tool)

    assert _warned(prepared) == [("unsupported-option", tool.name)]
    assert what in prepared.warnings[0].message


def test_examples_are_sent_in_the_form_of_the_schema_that_is_sent() -> None:
    """An example of a strict tool goes out in its strict form; one that does not fit is left out, and said."""
    examples = [{"text": "tea", "one": None}, {"words": "tea"}]
    document = Schema.of(Query).document
    tool = Tool.dynamic("search", parameters=document, validation="none", input_examples=examples)  # else refused
    strict, loose = _prepare(tool), _prepare(tool, strict_json_schema=False)
    form = strict.strict["search"]

    assert [form.document.validate(example) for example in strict.tools[0]["input_examples"]] == [()]
    assert _warned(strict) == [("other", "search")]
    assert "example 2" in strict.warnings[0].message
    assert loose.tools[0]["input_examples"] == examples


def test_streamed_answers_stream_parameters() -> None:
    """Tools of ours ask for it in a streamed answer, unless they say otherwise; the provider's own never do."""
    off = B.annotate(EagerInputStreaming, False)
    prepared = _prepare(A, off, anthropic.bash(), stream=True)

    assert [wire.get("eager_input_streaming") for wire in prepared.tools] == [True, None, None]
    assert "eager_input_streaming" not in _prepare(A).tools[0]


def test_what_is_switched_off_is_not_missed() -> None:
    """A tool of the provider's cannot stream its parameters: to say that it should not is no warning."""
    assert _prepare(anthropic.web_search().annotate(EagerInputStreaming, False)).warnings == ()
    assert _warned(_prepare(anthropic.computer_toolset().annotate(EagerInputStreaming, False))) == []


def test_tools_of_others_are_not_sent() -> None:
    """Another provider's tool is left out, with a warning; chosen, it is an error."""
    other: Any = Tool.provider_defined(id="openai.web_search", name="look", provider_name="web_search")()
    prepared = _prepare(other, A)

    assert [wire["name"] for wire in prepared.tools] == ["a"]
    assert _warned(prepared) == [("unsupported-tool", "look")]
    with pytest.raises(PreparationError, match=r"'tool_choice'\..* 'look' must be called, but fxai cannot send it"):
        _prepare(other, A, tool_choice=ToolChoice.tool("look"))
    assert _warned(_prepare(other, tool_choice="required"))[1:] == [("unsupported-option", "tool_choice")]


def test_betas_are_named_where_a_tool_needs_them() -> None:
    """A tool that is in beta is made by hand, and its beta stands in its options."""
    make: Any = Tool.provider_defined(id="anthropic.advisor_20260301", name="advise", provider_name="advisor")
    betas = {"anthropic": {"betas": ["advisor-tool-2026-03-01"]}}
    prepared = _prepare(make(provider_options=betas), A.with_options(provider_options=betas))

    assert prepared.tools[0] == {"type": "advisor_20260301", "name": "advisor"}
    assert prepared.betas == ("advisor-tool-2026-03-01",)
    assert "betas" not in prepared.tools[1]
    assert prepared.warnings == ()


def test_a_toolset_is_chosen_by_being_alone() -> None:
    """No choice can name a toolset: any tool must be called, and it is the only one. That is said."""
    prepared = _prepare(A, anthropic.computer_toolset(), tool_choice=ToolChoice.tool("computer"))

    assert prepared.fields == {"tools": [{"type": "computer_toolset_20260801"}], "tool_choice": {"type": "any"}}
    assert _warned(prepared) == [("other", "computer")]
    beside = _prepare(anthropic.computer_toolset(), A, tool_choice=ToolChoice.tool("a"))
    assert (beside.tool_choice, _warned(beside)) == ({"type": "tool", "name": "a"}, [])


def test_calls_of_a_toolset_come_back() -> None:
    """The action of a call is its name on the wire, and a field of the parameters here."""
    screen: Any = anthropic.computer_toolset(name="screen")
    prepared = _prepare(screen)
    name, params = prepared.call("left_click", {"coordinate": [1, 2]}, toolset="computer")

    assert name == "screen"
    assert screen.parameters.decode(params).unwrap() == anthropic.computer_use.ComputerLeftClick(coordinate=(1, 2))
    assert prepared.wire_call(name, params) == WireCall("left_click", {"coordinate": [1, 2]}, "computer")


@every(
    ("choice", "wire"),
    [
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
        (ToolChoice.tool("a"), {"type": "tool", "name": "a", "disable_parallel_tool_use": True}),
    ],
)
def test_parallel_calls_are_switched_off_in_the_choice(choice: Any, wire: Any) -> None:
    """Where there is a choice that may call; no field stands beside the tools."""
    prepared = _prepare(A, tool_choice=choice, parallel_tool_calls=False)

    assert prepared.tool_choice == wire
    assert set(prepared.fields) == {"tools", "tool_choice"}
    assert _prepare(A, parallel_tool_calls=True).tool_choice is None


def test_two_versions_of_one_tool_are_refused() -> None:
    """The provider would call both by one name; the error names ours."""
    with pytest.raises(NameConflictError, match="'old' and 'web_search'"):
        _prepare(anthropic.web_search(name="old", version="20250305"), anthropic.web_search())


@every(
    ("model", "strict"),
    [
        *((name, True) for name in ("claude-sonnet-5", "claude-opus-4-5-20251101", "claude-opus-4-6", "claude-9")),
        *((name, True) for name in ("claude-haiku-4-5", "claude-sonnet-4-10", "claude-opus-4-12", "somebody")),
        *((name, False) for name in ("claude-3-haiku-20240307", "claude-3.5-sonnet", "claude-2.1", "claude-instant-1")),
        *((name, True) for name in ("claude-opus-4-1", "claude-opus-4-1-20250805")),
        ("claude-sonnet-4-20250514", False),
        *((name, False) for name in ("claude-opus-4-0", "claude-sonnet-4", "claude-sonnet-4@20250514")),
        *((name, False) for name in ("us.anthropic.claude-3-haiku-20240307-v1:0", "claude-4-opus-20250514")),
    ],
)
def test_models_are_known_by_their_names(model: str, strict: bool) -> None:
    """Opus 4.1, Claude 4.5 and newer models have strict mode, and so have unknown models."""
    assert anthropic.facts(model).strict_tools is strict
    assert _strict(_prepare(A, model=model)) == [True if strict else None]


def test_asking_for_strict_where_there_is_none_is_said() -> None:
    """By an annotation, by the configuration, or on a tool of the provider's; the configuration may know better."""
    old = "claude-3-haiku-20240307"

    assert _warned(_prepare(A.annotate(Strict, True), model=old)) == [("not-strict", "a")]
    assert _warned(_prepare(A, model=old, strict_json_schema=True)) == [("not-strict", "a")]
    assert _warned(_prepare(anthropic.bash().annotate(Strict, True), model=old)) == [("not-strict", "bash")]
    assert _warned(_prepare(A, model=old)) == []
    assert _warned(_prepare(anthropic.bash(), model=old)) == []
    other = {able: msgspec.structs.replace(anthropic.facts(old), strict_tools=able) for able in (True, False)}
    assert _strict(_prepare(A, model=old, facts=other[True])) == [True]
    assert _strict(_prepare(A, facts=other[False])) == [None]


def test_a_providers_tool_is_strict_only_where_it_says_so() -> None:
    """Its schema is the provider's: neither the configuration nor the default speaks for it."""
    bash = anthropic.bash()
    sent = [_prepare(bash.annotate(Strict, said), strict_json_schema=True) for said in (None, True, False)]

    assert [_strict(one) for one in sent] == [[None], [True], [False]]


def test_nobody_is_asked_before_the_provider_runs_a_tool() -> None:
    """An approval that nobody could give is an error; a tool that we run may have one."""
    with pytest.raises(PreparationError, match="the provider runs the tool 'web_fetch'"):
        _prepare(anthropic.web_fetch(needs_approval=True))
    assert len(_prepare(anthropic.bash(needs_approval=True)).tools) == 1


# -- the limits of one request


def test_at_most_twenty_tools_are_strict() -> None:
    """The rest are sent as they are, each with a warning; those that ask for strict come first."""
    tools = [*(Tool.make(f"t{number}") for number in range(21)), Tool.make("asked").annotate(Strict, True)]
    prepared = _prepare(*tools)

    assert _strict(prepared).count(True) == 20
    assert _strict(prepared)[-3:] == [False, False, True]
    assert _warned(prepared) == [("not-strict", "t19"), ("not-strict", "t20")]
    assert "21 strict tools, of at most 20" in prepared.warnings[0].message
    assert prepared.tools[19]["input_schema"] == tools[19].json_schema()
    assert "t20" not in prepared.strict


def test_a_tool_of_the_providers_that_is_strict_counts_once() -> None:
    """Beside 19 of ours it is the twentieth; those that are not strict by themselves count nothing."""
    ours = [Tool.make(f"t{number}") for number in range(19)]
    loose = Tool.make("loose").annotate(Strict, False)
    prepared = _prepare(loose, anthropic.bash().annotate(Strict, True), *ours)

    assert _strict(prepared) == [False, True, *[True] * 19]
    assert prepared.warnings == ()
    assert _strict(_prepare(loose, *ours, A, B)).count(True) == 20


def test_what_a_schema_costs_is_counted_at_every_depth() -> None:
    """Optional properties and unions in members, items, definitions and branches."""
    inner, same = ({"type": "object", "properties": {"b": {"type": ["string", "null"]}}} for _ in range(2))
    union = {"anyOf": [inner, {"type": "null"}]}

    assert cost_of({"type": "object", "properties": {"a": union}, "required": ["a"]}) == Cost(1, 1, 2)
    assert cost_of({"allOf": [inner], "$defs": {"c": {"type": "array", "items": same}}}) == Cost(1, 2, 2)


def test_optional_parameters_and_unions_are_counted_over_all_tools() -> None:
    """A tool that would bring too many is sent as it is; a smaller one after it may still be strict."""
    prepared = _prepare(*(Tool.make(f"t{number}", parameters=Query) for number in range(10)), A)

    assert set(_strict(prepared)) == {True, False}
    assert _strict(prepared)[-1] is True
    assert any(word in prepared.warnings[0].message for word in ("of at most 24", "of at most 16"))


def test_too_many_that_ask_for_strict_are_an_error() -> None:
    """The error names the tool that is too much, and the way out."""
    asked = [Tool.make(f"t{number}").annotate(Strict, True) for number in range(21)]

    with pytest.raises(PreparationError, match=r"'t20'.*21 strict tools.*Remove Strict"):
        _prepare(*asked)


@pytest.mark.parametrize(
    ("tools", "programs"),
    [
        ([], "code_execution_20260521"),
        ([anthropic.web_search()], "code_execution_20260521"),
        ([anthropic.web_search(), anthropic.code_execution()], kind_of(anthropic.code_execution())),
    ],
)
def test_programs_are_those_of_the_code_execution_that_is_there(tools: list[Any], programs: str) -> None:
    """A tool that programs may call names the code execution of the request, or the newest."""
    assert programs_of(tools) == programs


@every(
    ("callers", "runs"),
    [
        ([], False),
        (["direct"], False),
        (["code_execution_20250825"], True),
        (["direct", "code_execution_20260120"], True),
        (["code_execution_20260521", "direct"], True),
    ],
)
def test_programs_call_a_tool_where_one_of_its_callers_is_a_program(callers: list[str], runs: bool) -> None:
    """One is enough; nothing said is the model alone."""
    assert runs_in_programs({"allowed_callers": callers}) is runs
    assert not runs_in_programs({})
