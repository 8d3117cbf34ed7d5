"""Prepared tools, and what every provider settles first."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import msgspec
import pytest

from fxai.annotations import ExplicitNull, Strict
from fxai.messages import InvalidRequestError, UnsupportedSchemaError
from fxai.models import PreparationError, PreparedTools, ToolChoice
from fxai.models.prepared_tools import (
    Notes,
    ToolForm,
    Toolset,
    WireCall,
    choose_tools,
    form_of,
    options_of,
    without_nulls,
)
from fxai.providers import anthropic, openai
from fxai.schema import JsonSchema
from fxai.schema.request_form import MESSAGES, RESPONSES
from fxai.schema.strict import ANTHROPIC, NULL_LOST, OPENAI, StrictRules
from fxai.tools import AnyTool, NameMap, Tool, Toolkit
from tests.kit.every import every

NAMES = NameMap({"Calculator.add": "Calculator__add", "screen": "computer"})
PAGE = JsonSchema.of({"type": "object", "properties": {"limit": {"type": "integer"}}})
OPEN: dict[str, Any] = {"type": "object", "properties": {"any": {}}, "additionalProperties": True}


ANYTHING = "/properties/any: type: the schema accepts any value, so declare its type"


class Query(msgspec.Struct, frozen=True):
    """What is looked for."""

    text: str
    limit: int | None = None


class Options(msgspec.Struct, frozen=True):
    """What a provider takes beside."""

    depth: int | None = None


def _settle(tool: AnyTool, rules: StrictRules, *, config: bool | None, default: bool | None, notes: Notes) -> ToolForm:
    of_api = RESPONSES if rules is OPENAI else MESSAGES
    forms = form_of(tool, of_api, rules, config=config, default=default, notes=notes)
    assert forms is not None
    return forms


def _prepared(*betas: str, toolsets: tuple[Toolset, ...] = ()) -> PreparedTools:
    notes = Notes()
    notes.betas += betas
    add = _settle(Tool.dynamic("Calculator.add", parameters=PAGE), OPENAI, config=None, default=True, notes=notes)
    fields: dict[str, Any] = {"tools": [{"name": "Calculator__add"}], "tool_choice": None}
    return PreparedTools.make(fields, NAMES, notes=notes, forms=[add], toolsets=toolsets)


def test_what_is_not_to_be_sent_is_in_no_field() -> None:
    """A field of None, and a list of no tools, are left out."""
    nothing = PreparedTools.make({"tools": [], "tool_choice": None, "parallel_tool_calls": None}, NAMES)

    assert _prepared().fields == {"tools": [{"name": "Calculator__add"}]}
    assert (nothing.fields, nothing.tools, nothing.tool_choice) == ({}, [], None)
    assert PreparedTools.make({"parallel_tool_calls": False}, NAMES).fields == {"parallel_tool_calls": False}


def test_what_is_given_is_a_fresh_copy() -> None:
    """Changing what was given changes nothing of the value."""
    prepared = _prepared()
    prepared.tools[0]["name"] = "other"
    prepared.fields.clear()

    assert prepared.tools == [{"name": "Calculator__add"}]


def test_prepared_tools_are_values() -> None:
    """They compare and hash by what they hold, and survive pickling."""
    one, other = _prepared(), _prepared("b", "b")
    again: Any = pickle.loads(pickle.dumps(one))

    assert one == _prepared()
    assert hash(one) == hash(_prepared())
    assert one != other
    assert other.betas == ("b",)
    assert again == one
    assert again.call("Calculator__add", {"limit": None}) == ("Calculator.add", {})


def test_a_call_of_a_strict_tool_is_led_back() -> None:
    """Its name and its parameters are the tool's own again; what looks like nothing that was sent stays."""
    prepared = _prepared()

    assert prepared.call("Calculator__add", {"limit": None}) == ("Calculator.add", {})
    assert prepared.call("Calculator__add", {"limit": 3}) == ("Calculator.add", {"limit": 3})
    assert prepared.call("Calculator__add", "no object") == ("Calculator.add", "no object")
    assert prepared.call("no_such", {"limit": None}) == ("no_such", {"limit": None})
    assert list(prepared.strict) == ["Calculator.add"]


def test_a_call_goes_into_the_history_as_it_was_sent() -> None:
    """The opposite of `call`; what has no strict form stays as it is."""
    prepared = _prepared()

    assert prepared.wire_call("Calculator.add", {}) == WireCall("Calculator__add", {"limit": None})
    assert prepared.wire_call("Calculator.add", {"limit": "x"}) == WireCall("Calculator__add", {"limit": "x"})
    assert prepared.wire_call("other", {"a": 1}) == WireCall("other", {"a": 1})


def test_a_toolset_is_one_tool_here_and_many_there() -> None:
    """The name of a call in a toolset is a field of our parameters, both ways."""
    prepared = _prepared(toolsets=(Toolset("computer", "screen"),))
    ours = ("screen", {"action": "left_click", "coordinate": [1, 2]})

    assert prepared.call("left_click", {"coordinate": [1, 2]}, toolset="computer") == ours
    assert prepared.call("screenshot", None, toolset="computer") == ("screen", {"action": "screenshot"})
    assert prepared.wire_call(*ours) == WireCall("left_click", {"coordinate": [1, 2]}, "computer")
    assert prepared.call("left_click", {}) == ("left_click", {})
    assert hash(prepared.wire_call(*ours)) == hash(prepared.wire_call(*ours))


def test_nothing_is_strict_without_rules() -> None:
    """Prepared tools of which none is strict lead parameters back as they are."""
    prepared = PreparedTools.make({}, NAMES)

    assert dict(prepared.strict) == {}
    assert prepared.call("Calculator__add", {"limit": None}) == ("Calculator.add", {"limit": None})


@every(
    ("annotation", "config", "default", "strict"),
    [
        (None, None, True, True),
        (None, False, True, False),
        (False, True, True, False),
        (True, False, True, True),
        (True, True, None, None),
        (None, None, None, None),
    ],
)
def test_the_flag_and_the_schema_agree(
    annotation: bool | None, config: bool | None, default: bool | None, strict: bool | None
) -> None:
    """The tool says, else the configuration, else the provider; only what is strict is transformed."""
    tool = Tool.make("search", parameters=Query).annotate(Strict, annotation)
    notes = Notes()
    forms = _settle(tool, OPENAI, config=config, default=default, notes=notes)

    assert forms.strict is strict
    assert (forms.document == tool.json_schema()) is (strict is not True)
    assert [warning.kind for warning in notes.warnings] == (["not-strict"] if config and default is None else [])


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_what_cannot_be_strict_is_sent_as_given_and_noted(rules: Any) -> None:
    """Unless the tool asks for it: then it is an error that names tool, place, keyword and the way out."""
    free = Tool.dynamic("free", parameters=OPEN)
    notes = Notes()
    forms = _settle(free, rules, config=None, default=True, notes=notes)

    assert (forms.strict, forms.document) == (False, OPEN)
    assert notes.warnings[0].subject == "free"
    assert "additionalProperties" in notes.warnings[0].message
    with pytest.raises(PreparationError) as raised:
        _settle(free.annotate(Strict, True), rules, config=False, default=True, notes=notes)
    assert isinstance(raised.value.reason, UnsupportedSchemaError)
    assert raised.value.reason.keyword is not None
    assert all(
        word in str(raised.value)
        for word in ("'free'", "additionalProperties", "annotate the tool with (Strict, None)")
    )
    assert len(notes.warnings) == 1


def test_a_strict_tool_with_one_obstacle_names_it() -> None:
    """One obstacle is enough to refuse what is annotated as strict: its place and keyword are in the reason."""
    one = Tool.dynamic("one", parameters={"type": "object", "properties": {"any": {}}}).annotate(Strict, True)

    with pytest.raises(PreparationError) as raised:
        _settle(one, OPENAI, config=None, default=True, notes=Notes())
    reason: Any = raised.value.reason
    assert (reason.pointer, reason.keyword) == ("/properties/any", "type")
    assert reason.description == (
        "tool 'one' is annotated as strict, but openai has no strict form for it: "
        f"{ANYTHING}. Change the schema, or annotate the tool with (Strict, None)."
    )


def test_a_strict_tool_with_several_obstacles_names_them_all() -> None:
    """The reason points at the first, and its description lists every one, in the order of the schema."""
    document = {"type": "object", "properties": {"any": {}, "more": {"type": "object"}}}

    with pytest.raises(PreparationError) as raised:
        _settle(
            Tool.dynamic("two", parameters=document).annotate(Strict, True),
            OPENAI,
            config=None,
            default=True,
            notes=Notes(),
        )
    reason: Any = raised.value.reason
    assert (reason.pointer, reason.keyword) == ("/properties/any", "type")
    assert "so declare its type; /properties/more: properties: " in reason.description


def test_what_is_not_strict_for_one_reason_is_noted_with_it() -> None:
    """The warning names the tool and the one obstacle; `loosened` leaves a flag that was never said unsaid."""
    notes = Notes()
    one = Tool.dynamic("one", parameters={"type": "object", "properties": {"any": {}}})
    forms = _settle(one, OPENAI, config=None, default=True, notes=notes)

    assert [(warning.kind, warning.subject, warning.message) for warning in notes.warnings] == [
        (
            "not-strict",
            "one",
            f"the tool 'one' is not sent as strict: openai has no form for {ANYTHING}",
        )
    ]
    loosened = [forms.loosen(notes), ToolForm(one, None).loosen(notes)]
    assert [one.strict for one in loosened if one is not None] == [False, None]


# ---- null, and what is left out

LIMIT: dict[str, Any] = {
    "type": "object",
    "properties": {"limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 10}},
}


class Patch(msgspec.Struct, frozen=True):
    """What is to be changed."""

    limit: int | msgspec.UnsetType | None = msgspec.UNSET


PROVIDED = Tool.provider_defined(
    id="acme.patch", name="patch", provider_name="patch", requires_handler=True, parameters=Patch
)
PATCHES: list[Any] = [
    Tool.make("patch", parameters=Patch),
    Tool.dynamic("patch", parameters=Patch),
    Tool.dynamic("patch", parameters=LIMIT),
]


@every("tool", PATCHES, ids=["user-defined", "dynamic", "raw"])
def test_a_null_reaches_the_tool_where_its_annotation_asks_for_it(tool: Any) -> None:
    """`ExplicitNull` keeps null and left out apart on the wire and in the history, whatever the tool is called."""
    prepare = partial(openai.prepare_tools, model="gpt-5.5")
    kept = Toolkit.make(tool).annotate_all({ExplicitNull: True}).prefix("x.").rename({"x.patch": "p"})
    prepared = prepare(kept)
    again: Any = pickle.loads(pickle.dumps(prepared))

    for value, wire in (({}, {"limit": None}), ({"limit": None}, {"limit": {"__null__": True}}), ({"limit": 3},) * 2):
        assert prepared.wire_call("p", value).params == wire
        assert prepared.call("p", wire) == again.call("p", wire) == ("p", value)
    assert [one.reason for one in prepared.strict["p"].weakened if one.reason == NULL_LOST] == []
    assert prepared != prepare(Toolkit.make(tool).rename({"patch": "p"}))


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("tool", PATCHES, ids=["user-defined", "dynamic", "raw"])
def test_a_null_reaches_the_tool_from_anthropic(tool: Any, explicit: bool) -> None:
    """Anthropic keeps optional properties optional, so null and absence differ with and without the annotation."""
    kit = Toolkit.make(tool).annotate_all({ExplicitNull: explicit})
    prepared = anthropic.prepare_tools(kit, model="claude-opus-4-5")

    for value in ({}, {"limit": None}, {"limit": 3}):
        assert prepared.wire_call("patch", value).params == value
        assert prepared.call("patch", value) == ("patch", value)
    assert prepared.tools[0]["strict"]
    assert "required" not in prepared.tools[0]["input_schema"]
    assert prepared.strict["patch"].weakened == ()


@pytest.mark.parametrize("tool", PATCHES, ids=["user-defined", "dynamic", "raw"])
def test_a_null_is_left_out_where_nothing_is_said(tool: Any) -> None:
    """Without the annotation null is left out, and the report of what is sent says so."""
    prepared = openai.prepare_tools(Toolkit.make(tool), model="gpt-5.5")

    assert prepared.call("patch", {"limit": None}) == ("patch", {})
    assert [(one.pointer, one.reason) for one in prepared.strict["patch"].weakened] == [
        ("/properties/limit", NULL_LOST)
    ]


def test_a_tool_of_every_kind_keeps_the_annotation() -> None:
    """A provider's tool has it too, and keeps its kind; so does the composite of tools of which one has it."""
    provided: Any = PROVIDED().annotate(ExplicitNull, True)
    patch = PATCHES[0].annotate(ExplicitNull, True)
    many = Toolkit.make(patch, Tool.make("ping")).as_tool("many").tool

    assert (provided.kind, provided.get(ExplicitNull)) == ("provider-defined", True)
    assert many.get(ExplicitNull)
    assert not Toolkit.make(PATCHES[0]).as_tool("many").tool.get(ExplicitNull)
    prepared = openai.prepare_tools(Toolkit.make(many), model="gpt-5.5")
    entries: list[dict[str, Any]] = [{"name": "patch", "args": {"limit": None}}, {"name": "patch", "args": {}}]
    calls = {"calls": entries}
    assert prepared.call("many", prepared.wire_call("many", calls).params) == ("many", calls)


def test_a_choice_leaves_the_tools_that_it_names() -> None:
    """`one_of` leaves those alone; every other choice leaves all; an unknown name is an error that lists the known."""
    a, b = Tool.make("a"), Tool.make("b")

    assert choose_tools([a, b], ToolChoice.one_of(["b"])) == (b,)
    assert choose_tools([a, b], ToolChoice.tool("b")) == (a, b)
    assert choose_tools([a, b], "none") == (a, b)
    with pytest.raises(PreparationError, match=r"unknown tool 'c'\. Use one of: a, b") as raised:
        choose_tools([a, b], ToolChoice.one_of(["c"]))
    assert isinstance(raised.value.reason, InvalidRequestError)
    assert raised.value.reason.parameter == "tool_choice"


def test_a_choice_that_is_none_is_refused() -> None:
    """A tool's name alone is no choice; the error says how one is chosen."""
    wrong: Any = "a"

    with pytest.raises(PreparationError, match=r"ToolChoice\.tool\('a'\)"):
        choose_tools([Tool.make("a")], wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"depht": 1}, "unknown option 'depht'. Use one of: depth"),
        ({"depth": "deep"}, "depth"),
        ([1], "provider_options"),
    ],
)
def test_options_that_are_none_are_refused(given: Any, said: str) -> None:
    """What a provider does not know in its options is an error, with the place and what there is."""
    with pytest.raises(PreparationError) as raised:
        options_of(Tool.make("t", provider_options={"acme": given}), "acme", Options)

    assert said in str(raised.value)
    assert "provider_options['acme'] of the tool 't'" in str(raised.value)


def test_options_of_others_are_left_alone() -> None:
    """Each provider reads what stands under its own name."""
    tool = Tool.make("t", provider_options={"acme": {"depth": 2}, "other": {"x": 1}})

    assert options_of(tool, "acme", Options) == Options(2)
    assert options_of(tool, "third", Options) == Options()


def test_members_that_are_null_are_left_out() -> None:
    """At every depth of objects; a null in a list stays."""
    assert without_nulls({"a": None, "b": [{"c": None}, None], "d": {"e": 0}}) == {"b": [{}, None], "d": {"e": 0}}


def test_a_preparation_error_survives_pickling() -> None:
    """It comes back with its reason."""
    error = PreparationError.of("tools", "wrong")
    again: Any = pickle.loads(pickle.dumps(error))

    assert (again.reason, str(again)) == (error.reason, str(error))
