"""What `prepare_tools` gives is what each SDK's types take: for generated toolkits, and for tools of real servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fxai.annotations import (
    AllowedCallers,
    Annotation,
    CacheControl,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)
from fxai.models import PreparedTools, ToolChoice
from fxai.providers import anthropic, openai
from fxai.schema.strict import ANTHROPIC, OPENAI, rule_faults
from fxai.tools import NameRule, Tool, Toolkit
from tests.kit import sdk_samples as samples
from tests.kit.sdk_requests import anthropic_faults, chat_faults, responses_faults

pytestmark = pytest.mark.slow

WIRE = NameRule(64)
SERVERS = sorted((Path(__file__).parents[1] / "mcp_schemas").glob("*.json"))

AnyTool: TypeAlias = Tool[Any, Any, Any]

# What a tool takes, each with the parameters of a call that it takes.
TAKEN: tuple[tuple[Any, dict[str, Any]], ...] = (
    (samples.Query, {"text": "tea"}),
    ({"type": "object"}, {"a": "x"}),
    ({"type": "object", "properties": {}}, {}),
    ({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]}, {"a": "x"}),
    ({"type": "object", "properties": {"a": {"type": ["integer", "null"]}, "b": {"enum": [1, "x"]}}}, {"a": None}),
    ({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "number"}}}}, {}),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}, {"a": {"a": {}}}),
    (
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}}}, "required": ["a"]},
        {"a": [True]},
    ),
)

NAMES = st.text(min_size=1, max_size=80).filter(lambda name: bool(name.strip()))
SAID: Mapping[Annotation[Any], st.SearchStrategy[Any]] = {
    Strict: st.sampled_from([None, False]),
    DeferLoading: st.booleans(),
    AllowedCallers: st.sampled_from([(), ("direct",), ("direct", "programmatic")]),
    CacheControl: st.sampled_from([None, "default", "5m", "1h"]),
    EagerInputStreaming: st.sampled_from([None, True, False]),
    Namespace: st.sampled_from([None, ToolNamespace("one", "First."), ToolNamespace("two", "Second.")]),
    OutputSchema: st.sampled_from([None, samples.ours.success.document]),
}


@st.composite
def tools(draw: st.DrawFn) -> AnyTool:
    """A tool of ours of either kind, with any annotations."""
    name = draw(NAMES)
    document, example = draw(st.sampled_from(TAKEN))
    options: dict[str, Any] = {
        "description": draw(st.none() | st.text()),
        "input_examples": draw(st.sampled_from([(), (example,), (example, example)])),
    }
    said = draw(st.fixed_dictionaries({}, optional=dict(SAID)))
    made: AnyTool = Tool.dynamic(name, parameters=document, **options)
    return made.annotate_all(said)


def _wire(tool: AnyTool) -> str:
    given = None if tool.provider is None else tool.provider.name
    return WIRE.of(tool.name) if given is None else given


@st.composite
def toolkits(draw: st.DrawFn, theirs: Iterable[AnyTool]) -> Toolkit[Any]:
    """Tools of ours, and some that a provider defines, which no two are called the same on the wire."""
    ours = draw(st.lists(tools(), max_size=4, unique_by=lambda tool: WIRE.of(tool.name)))
    hosted = draw(st.lists(st.sampled_from(list(theirs)), max_size=2, unique_by=_wire))
    assume(not {_wire(tool) for tool in ours} & {_wire(tool) for tool in hosted})
    return Toolkit.of([*ours, *hosted], on_conflict="first")


@st.composite
def choices(draw: st.DrawFn, toolkit: Toolkit[Any]) -> Any:
    """Any choice among the tools of a toolkit."""
    names = sorted(toolkit.tools)
    simple = st.sampled_from([None, "auto", "none", "required"])
    if not names:
        return draw(simple)
    some = st.lists(st.sampled_from(names), min_size=1)
    mode: Any = st.sampled_from(["auto", "required"])
    one_of = st.builds(ToolChoice.one_of, some, mode=mode)
    return draw(simple | one_of | st.builds(ToolChoice.tool, st.sampled_from(names)))


HOSTED = [tool for tool in samples.OPENAI if tool.provider is not None]
THEIRS = [tool for tool in samples.ANTHROPIC if tool.provider is not None]


def _no_nulls(prepared: PreparedTools) -> bool:
    return all(value is not None for wire in prepared.tools for value in wire.values())


# The one choice that OpenAI's own types have no word for, though its API takes it: the current web search.
def _known(found: list[str]) -> bool:
    return all(fault.startswith("tool_choice") for fault in found)


@given(st.data())
def test_any_toolkit_fits_openai(data: st.DataObject) -> None:
    """Whatever the tools, the choice and the configuration, both of OpenAI's APIs take the request."""
    kit = data.draw(toolkits(HOSTED))
    choice = data.draw(choices(kit))
    config, parallel = data.draw(st.none() | st.booleans()), data.draw(st.none() | st.booleans())
    sent = openai.prepare_tools(
        kit, model="gpt-5.5", strict_json_schema=config, tool_choice=choice, parallel_tool_calls=parallel
    )

    found = responses_faults(sent)
    assert found == [] or (sent.tool_choice == {"type": "web_search"} and _known(found))
    assert _no_nulls(sent)


@given(st.data())
def test_any_toolkit_fits_chat(data: st.DataObject) -> None:
    """Chat Completions takes the tools of ours, whatever they say and whatever is chosen."""
    kit = data.draw(toolkits([tool for tool in HOSTED if tool.provider and tool.provider.id == "openai.custom"]))
    choice = data.draw(choices(kit))
    sent = openai.prepare_tools(kit, model="gpt-5.5", api="chat", tool_choice=choice)

    assert chat_faults(sent) == []
    assert len(sent.tools) == len(kit) or choice is not None


@given(st.data())
def test_any_toolkit_fits_anthropic(data: st.DataObject) -> None:
    """Whatever the tools, the choice and the configuration, Anthropic takes the request."""
    kit = data.draw(toolkits(THEIRS))
    choice = data.draw(choices(kit))
    config, parallel = data.draw(st.none() | st.booleans()), data.draw(st.none() | st.booleans())
    stream, model = data.draw(st.booleans()), data.draw(st.sampled_from(["claude-sonnet-5", "claude-3-haiku-20240307"]))
    sent = anthropic.prepare_tools(
        kit,
        model=model,
        strict_json_schema=config,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        stream=stream,
    )

    assert anthropic_faults(sent) == []
    assert _no_nulls(sent)
    assert model == "claude-sonnet-5" or all("strict" not in wire for wire in sent.tools)


def _of_server(path: Path) -> Toolkit[Any]:
    listed = json.loads(path.read_text(encoding="utf-8"))["tools"]
    return Toolkit.of(
        Tool.dynamic(one["name"], parameters=one["inputSchema"], description=one.get("description")) for one in listed
    )


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_tools_of_real_servers_are_sent_strict_or_as_given(
    path: Path, provider: Literal["openai", "anthropic"]
) -> None:
    """Each tool of a real server goes out by the provider's strict rules, or exactly as given with the reason said."""
    kit = _of_server(path)
    if provider == "openai":
        sent, field, rules = openai.prepare_tools(kit, model="gpt-5.5"), "parameters", OPENAI
        found = responses_faults(sent)
    else:
        sent, field, rules = anthropic.prepare_tools(kit, model="claude-sonnet-5"), "input_schema", ANTHROPIC
        found = anthropic_faults(sent)
    warned = {warning.subject for warning in sent.warnings}

    assert found == []
    assert len(sent.tools) == len(kit)
    for wire in sent.tools:
        tool = kit.tools[sent.names[wire["name"]]]
        if wire["strict"]:
            assert rule_faults(wire[field], rules) == ()
        else:
            assert wire[field] == tool.json_schema()
            assert tool.name in warned
    assert msgspec.json.encode(sent.fields)
