"""Tools: the conformance cases of the areas `tool.*`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest

from fxai.annotations import Readonly, Strict, Title
from fxai.schema import Empty, Limits, Schema, SchemaError, parse_json
from fxai.tools import NameConflictError, NameMap, NameRule, Tool
from tests.kit.conformance import Case, case


class A(msgspec.Struct, frozen=True):
    """Replaced below, by words without a full stop."""

    a: str


A.__doc__ = "from schema"


class Optional(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A required, an optional and a nullable field."""

    a: str
    d: str | None
    c: bool | msgspec.UnsetType = msgspec.UNSET


class Search(msgspec.Struct, frozen=True):
    """A query and how many results."""

    query: str
    limit: float | None = None


class Question(msgspec.Struct, frozen=True):
    """What a provider's tool is set up with."""

    q: str = ""


def _provided(**options: Any) -> Any:
    make: Any = Tool.provider_defined
    return make(**{"id": "openai.web_search", "name": "W", "provider_name": "web_search", **options})


# -- tool.make


@case("tool.make/002")
def test_the_empty_struct_is_the_default(case: Case) -> None:
    """To say that there are no parameters is to leave them out."""
    one, other = Tool.make("A", parameters=Empty), Tool.make("B")

    assert case.expect == {"json_schemas_equal": True}
    assert one.json_schema() == other.json_schema()


@case("tool.make/003")
def test_the_description_falls_back_to_the_schemas(case: Case) -> None:
    """A type's own description, from `Meta` or its docstring, is the tool's unless it has one."""
    described: Any = Annotated[A, msgspec.Meta(description="from schema")]

    assert Tool.make("S", parameters=described).description == case.expect["get_description"]
    assert Tool.make("S", parameters=A).description == case.expect["get_description"]


@case("tool.make/005")
def test_optional_keys_stay_optional(case: Case) -> None:
    """A field that may be missing is not required; whether the object is closed is the type's own choice."""
    schema = Tool.make("S", parameters=Optional).json_schema()
    expected = case.expect["json_schema"]

    assert schema["properties"] == expected["properties"]
    assert schema["required"] == expected["required"]
    assert schema["additionalProperties"] is expected["additionalProperties"]
    assert "additionalProperties" not in Tool.make("S", parameters=A).json_schema()


# -- tool.kind


@case("tool.kind/006")
def test_one_predicate_holds(case: Case) -> None:
    """Each tool is of exactly one kind."""
    tools = [Tool.make("a"), Tool.dynamic("b", parameters=A), Tool.dynamic("c", parameters={}), _provided()()]

    assert [Tool.is_user_defined(tool) for tool in tools] == case.expect["is_user_defined"]
    assert [Tool.is_dynamic(tool) for tool in tools] == case.expect["is_dynamic"]
    assert [Tool.is_provider_defined(tool) for tool in tools] == case.expect["is_provider_defined"]


@case("tool.kind/007")
def test_what_is_no_tool_is_of_no_kind(case: Case) -> None:
    """And asking does not raise."""
    assert {Tool.is_dynamic(value) for value in case.given["values"]} == {case.expect["is_dynamic"]}


# -- tool.dynamic


@case("tool.dynamic/008")
def test_a_typed_dynamic_tool_derives_its_schema(case: Case) -> None:
    """As `make` does."""
    schema = Tool.dynamic("TestTool", parameters=Search).json_schema()

    assert schema["type"] == case.expect["json_schema.type"]
    assert schema["required"] == case.expect["json_schema.required"]
    assert list(schema["properties"]) == case.expect["json_schema.properties has"]


@case("tool.dynamic/009", "tool.dynamic/010")
def test_a_raw_document_is_kept(case: Case) -> None:
    """Equal to what was given; ours is a fresh copy each time, so that nobody can change the tool's."""
    document = case.given.get("parameters") or case.given["dynamic"][1]["parameters"]
    tool = Tool.dynamic("TestTool", parameters=document)

    assert case.expect["json_schema"] == "equals input"
    assert tool.json_schema() == document
    assert tool.json_schema() is not tool.json_schema()


@case("tool.dynamic/011")
def test_without_parameters_a_dynamic_tool_takes_a_closed_empty_object(case: Case) -> None:
    """Where the other system says anything at all, which providers refuse at the root."""
    assert case.expect["json_schema"] == {}
    assert Tool.dynamic("A").json_schema() == {"type": "object", "properties": {}, "additionalProperties": False}


@case("tool.dynamic/012")
def test_the_defaults_of_a_dynamic_tool(case: Case) -> None:
    """Any success, no failure, mode "error"."""
    tool = Tool.dynamic("A")

    assert (case.expect["success"], case.expect["failure"]) == ("unknown", "never")
    assert tool.success == Schema.of(object)
    assert tool.failure == Tool.make("B").failure
    assert tool.failure_mode == case.expect["failure_mode"]


# -- tool.strict and tool.annotations


@case("tool.strict/014")
def test_strict_is_undecided(case: Case) -> None:
    """Three-valued: not set is not False."""
    assert Tool.make("T").get(Strict) is case.expect["strict_mode"]


@case("tool.strict/016")
def test_dynamic_tools_can_be_strict(case: Case) -> None:
    """The annotation is for each kind."""
    tool = Tool.dynamic("T", parameters=case.given["dynamic"][1]["parameters"]).annotate(Strict, False)

    assert tool.get(Strict) is case.expect["strict_mode"]


@case("tool.strict/017")
def test_annotating_keeps_kind_and_schema(case: Case) -> None:
    """A dynamic tool stays dynamic, with its own document."""
    document = case.given["dynamic"][1]["parameters"]
    tool = Tool.dynamic("D", parameters=document).annotate(Strict, False)

    assert Tool.is_dynamic(tool) is case.expect["is_dynamic"]
    assert tool.json_schema() == document


@case("tool.annotations/019")
def test_annotate_gives_another_tool(case: Case) -> None:
    """The original stays; of several maps the later keys win."""
    tool = Tool.make("T").annotate(Readonly, True)
    titled = tool.annotate(Title, case.given["annotate"]["Title"])

    assert tool.get(Title) is case.expect["original.Title"]
    assert titled.get(Title) == case.expect["new.Title"]
    assert titled.annotate_all({Title: "y"}).get(Title) == "y"
    assert titled.annotate_all({Title: "y"}).get(Readonly) is True


# -- tool.provider_defined


@case("tool.provider_defined/020")
def test_the_defaults_of_a_provider_defined_tool(case: Case) -> None:
    """No handler, no parameters, no success, no failure."""
    tool = _provided(args=Question)(q="x")

    assert tool.provider.id == case.expect["id"]
    assert tool.name == case.expect["name"]
    assert msgspec.to_builtins(tool.provider.args) == case.expect["args"]
    assert tool.requires_handler is case.expect["requires_handler"]
    assert tool.failure_mode == case.expect["failure_mode"]
    assert (tool.success, tool.failure) == (Tool.make("x").success, Tool.make("x").failure)


@case("tool.provider_defined/021")
def test_the_failure_mode_is_no_argument_of_the_provider(case: Case) -> None:
    """It is given beside the args, and only where a handler of ours can fail."""
    tool = _provided(requires_handler=True, parameters=A)(failure_mode="return")

    assert tool.failure_mode == case.expect["failure_mode"]
    assert msgspec.to_builtins(tool.provider.args) == case.expect["args"]
    with pytest.raises(SchemaError, match="requires_handler"):
        _provided()(failure_mode="return")


# -- tool.name_mapper


@case("tool.name_mapper/023")
def test_names_are_mapped_both_ways(case: Case) -> None:
    """A provider's tool has the provider's name on the wire; what is not known stands for itself."""
    mapped = case.given["tools"][0]
    search = _provided(name=mapped["customName"], provider_name=mapped["providerName"])()
    names = NameMap.of([search, Tool.make("A")], NameRule(64))

    assert names.meant("web_search") == case.expect["custom(web_search)"]
    assert names.sent("OpenAiWebSearch") == case.expect["provider(OpenAiWebSearch)"]
    assert names.sent("A") == case.expect["provider(A)"]
    assert names.meant("zzz") == case.expect["custom(zzz)"]


@case("tool.name_mapper/024")
def test_two_tools_of_one_name_on_the_wire_are_refused(case: Case) -> None:
    """The other system lets the later one win; ours names both."""
    tools = [_provided(name=one["customName"], provider_name=one["providerName"])() for one in case.given["tools"]]

    with pytest.raises(NameConflictError, match=r"'Bash1' and 'Bash2'.*'bash'"):
        NameMap.of(tools, NameRule(64))


# -- tool.secure_json


@case("tool.secure_json/028")
def test_ordinary_keys_are_read(case: Case) -> None:
    """Whatever they are called."""
    assert parse_json(case.given["text"]).unwrap() == case.expect["result"]


@case("tool.secure_json/030")
def test_text_that_breaks_off_is_no_json(case: Case) -> None:
    """A failure that says so."""
    assert case.expect["result"] == "error: invalid JSON"
    assert "not JSON" in str(parse_json(case.given["text"]).failure())


@case("tool.secure_json/031")
def test_an_escape_does_not_hide_a_key(case: Case) -> None:
    """Keys are compared as they are read: an escaped double is a double."""
    escaped = case.given["text"]
    doubled = escaped[:-1] + ', "__proto__": 1}'

    assert parse_json(escaped).unwrap() == json.loads(escaped)
    assert "__proto__" in str(parse_json(doubled, Limits(unique_keys=True)).failure())
