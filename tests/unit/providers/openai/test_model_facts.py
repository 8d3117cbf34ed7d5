"""The table of OpenAI's models, and requests that contain only what the facts allow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from fxai import LanguageModel, Prompt, Tool, ToolChoice, fx
from fxai.annotations import DeferLoading
from fxai.models import ModelFacts, ModelRequest, PreparationError, nearest_effort
from fxai.models.model_facts import EFFORTS
from fxai.providers import openai
from fxai.providers.openai import Api
from fxai.providers.openai.known_models import TABLE, facts_at
from fxai.schema import JsonSchema

APIS: Final[tuple[Api, ...]] = ("responses", "chat")
SERVED: Final = tuple(entry.family for entry in TABLE.data.families if entry.served)
PLACES: Final = tuple((name, api) for name in SERVED for api in openai.facts(name).endpoints or APIS)
EVERY: Final = tuple(entry.family for entry in TABLE.data.families)
TOOL: Final = Tool.dynamic("look", description="Look.", parameters={"type": "object", "properties": {}})
SCHEMA: Final = JsonSchema.of({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
PROMPT: Final = Prompt.make("Hello")


def _sent(model: str, api: Api, **given: Any) -> openai.WireRequest | None:
    """The request to the official host. None if fxai refuses it before it is sent."""
    profile = openai.Profile(api, server=openai.OPENAI_CHAT) if api == "chat" else openai.Profile(api)
    try:
        return openai.prepare_request(ModelRequest(PROMPT, **given), model=model, profile=profile)
    except PreparationError:
        return None


def _effort_of(fields: dict[str, Any]) -> str | None:
    effort = fields.get("reasoning_effort", fields.get("reasoning", {}).get("effort"))
    assert effort is None or isinstance(effort, str)
    return effort


def _refused(facts: ModelFacts, api: Api, fields: dict[str, Any]) -> Iterator[str]:
    """The fields of a request that the facts refuse, read from the facts alone."""
    effort = _effort_of(fields)
    reasons = facts.reasons and (effort != "none" if effort else facts.reasons_by_default is not False)
    calls = any(tool["type"] == "function" for tool in fields.get("tools", ()))
    if facts.endpoints and api not in facts.endpoints:
        yield "api"
    if effort is not None and (not facts.reasons or effort not in (facts.efforts or {}).get(api, ())):
        yield "effort"
    if "temperature" in fields and (facts.sampling == "never" or (facts.sampling != "always" and reasons)):
        yield "temperature"
    if "stop" in fields and api not in (facts.stop or ()):
        yield "stop"
    if "parallel_tool_calls" in fields and not facts.parallel_tool_calls:
        yield "parallel_tool_calls"
    if calls and not facts.function_calls:
        yield "tools"
    if calls and reasons and api not in (facts.tools_while_reasoning or APIS):
        yield "tools while reasoning"
    if ("response_format" in fields or "text" in fields) and not facts.structured_output:
        yield "schema"
    if fields.get("tool_choice", "auto") not in ("auto", "none") and not facts.forced_calls:
        yield "tool_choice"
    if "include" in fields and not facts.reasons:
        yield "include"


_WISHES: Final[tuple[dict[str, Any], ...]] = (
    *({"reasoning": effort} for effort in EFFORTS),
    *({"reasoning": effort, "temperature": 0.5, "tools": (TOOL,)} for effort in EFFORTS),
    {"temperature": 0.5},
    {"stop": ("END",)},
    {"tools": (TOOL,), "parallel_tool_calls": False},
    {"tools": (TOOL,), "tool_choice": "required"},
    {"tools": (TOOL,), "tool_choice": ToolChoice.tool("look"), "reasoning": "high"},
    {"response_schema": SCHEMA},
    {"response_schema": SCHEMA, "tools": (TOOL,), "reasoning": "low"},
)


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("api", APIS)
def test_a_request_contains_nothing_that_the_facts_refuse(family: str, api: Api) -> None:
    """For each family, API and wish, fxai sends an acceptable request or refuses the request before it is sent."""
    facts = openai.facts(family)
    sent = [(wish, _sent(family, api, **wish)) for wish in _WISHES]

    assert [(wish, found) for wish, one in sent if one and (found := [*_refused(facts, api, one.fields)])] == []
    if facts.endpoints and api not in facts.endpoints:
        assert [one for _, one in sent if one] == []


@pytest.mark.parametrize(("family", "api"), PLACES)
def test_each_omission_is_a_warning(family: str, api: Api) -> None:
    """A wish that the request does not contain is the subject of a warning."""
    for name, value in {"temperature": 0.5, "stop": ("END",), "reasoning": "max"}.items():
        sent = _sent(family, api, **{name: value})
        assert sent is not None
        contained = _effort_of(sent.fields) == value if name == "reasoning" else name in sent.fields
        assert contained != (name in [warning.subject for warning in sent.warnings])


@pytest.mark.parametrize(("family", "api"), PLACES)
def test_an_effort_is_the_nearest_of_the_endpoint(family: str, api: Api) -> None:
    """Chat Completions never receives `max`, and a substitute is a warning."""
    accepted = (openai.facts(family).efforts or {})[api]
    for effort in EFFORTS:
        sent = _sent(family, api, reasoning=effort)
        assert sent is not None
        if not accepted:
            assert _effort_of(sent.fields) is None
            continue
        assert _effort_of(sent.fields) == nearest_effort(effort, accepted)
        assert (effort in accepted) == ("reasoning" not in [one.subject for one in sent.warnings])
        assert api == "responses" or _effort_of(sent.fields) != "max"


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "gpt-5.6-sol", "gpt-6-sol"])
@pytest.mark.parametrize("reasoning", [None, "high"])
def test_chat_with_tools_turns_reasoning_off(model: str, reasoning: Any) -> None:
    """Chat Completions refuses tools while these models reason. The warning names the Responses API."""
    sent = _sent(model, "chat", tools=(TOOL,), reasoning=reasoning)
    assert sent is not None
    is_quiet = reasoning is None and openai.facts(model).reasons_by_default is False

    assert _effort_of(sent.fields) == (None if is_quiet else "none")
    assert ["Responses API" in one.message for one in sent.warnings] == ([] if is_quiet else [True])
    responses = _sent(model, "responses", tools=(TOOL,), reasoning="high")
    assert responses is not None
    assert (_effort_of(responses.fields), responses.warnings) == ("high", ())


def test_chat_with_tools_is_refused_if_the_model_always_reasons() -> None:
    """The error names the other API, and fxai raises it before anything is sent."""
    request = ModelRequest(PROMPT, (TOOL,))
    with pytest.raises(PreparationError, match=r"always reasons.*api='responses'"):
        openai.prepare_request(request, model="gpt-6-astra", api="chat")
    own = msgspec.structs.replace(request, provider_options={"openai": {"reasoning_effort": "low"}})
    with pytest.raises(PreparationError, match=r"provider_options sets the effort 'low'"):
        openai.prepare_request(own, model="gpt-5.5", api="chat")
    quiet = msgspec.structs.replace(request, provider_options={"openai": {"reasoning_effort": "none"}})

    assert openai.prepare_request(quiet, model="gpt-5.5", api="chat").fields["reasoning_effort"] == "none"
    assert openai.prepare_request(request, model="gpt-6-astra").warnings == ()


@pytest.mark.parametrize(("model", "api"), [("gpt-5.5-pro", "chat"), ("gpt-4o-search-preview", "responses")])
def test_a_model_of_the_other_api_is_refused_before_the_request(model: str, api: Api) -> None:
    """The error names the API that serves the model. Another server may serve it on any API."""
    other = "responses" if api == "chat" else "chat"
    with pytest.raises(PreparationError, match=rf"'{model}' only on .*\. Pass api='{other}'"):
        openai.prepare_request(ModelRequest(PROMPT), model=model, api=api)
    elsewhere = openai.Profile(api, server=openai.SERVERS["openrouter"])

    assert openai.prepare_request(ModelRequest(PROMPT), model=model, profile=elsewhere).fields["model"] == model


def test_a_retired_model_is_a_warning() -> None:
    """The date of the table decides, so that equal requests have equal warnings."""
    (warning,) = openai.prepare_request(ModelRequest(PROMPT), model="o4-mini").warnings

    assert warning.message == "OpenAI retired the model 'o4-mini' on 2026-10-23; use another model"
    assert openai.prepare_request(ModelRequest(PROMPT), model="gpt-6-sol").warnings == ()


def test_a_model_without_tool_search_receives_all_tools_at_once() -> None:
    """Fxai omits the search and the marks of deferred tools, with a warning."""
    tools = (TOOL.annotate(DeferLoading, True), openai.tool_search())
    searched = openai.prepare_tools(tools, model="gpt-5.4")
    plain = openai.prepare_tools(tools, model="gpt-5.4-nano")

    assert [one["type"] for one in searched.tools] == ["function", "tool_search"]
    assert searched.tools[0]["defer_loading"] is True
    assert [(one["type"], "defer_loading" in one) for one in plain.tools] == [("function", False)]
    assert [one.kind for one in plain.warnings] == ["unsupported-tool"]


def test_function_tools_are_refused_for_a_model_without_function_calls() -> None:
    """The error names the tools, and fxai raises it before anything is sent."""
    without = msgspec.structs.replace(openai.facts("gpt-6-sol"), function_calls=False, structured_output=False)
    with pytest.raises(PreparationError, match="accepts no function tools"):
        openai.prepare_request(ModelRequest(PROMPT, (TOOL,)), model="gpt-6-sol", facts=without)
    with pytest.raises(PreparationError, match="supports neither schemas nor function tools"):
        openai.prepare_request(ModelRequest(PROMPT, response_schema=SCHEMA), model="gpt-6-sol", facts=without)

    assert openai.prepare_request(ModelRequest(PROMPT), model="gpt-6-sol", facts=without).warnings == ()


# -- names


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-5.5", "gpt-5.5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("gpt-5.5-2027-01-01", "gpt-5.5"),
        ("openai/gpt-5.5", "gpt-5.5"),
        ("openrouter/openai/gpt-5.5:online", "gpt-5.5"),
        ("us.openai.gpt-5.6-sol", "gpt-5.6-sol"),
        ("global.openai.gpt-6-astra", "gpt-6-astra"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("openai-gpt-4.1", "gpt-4.1"),
        ("GPT-5.5", "gpt-5.5"),
        ("ft:gpt-4o:acme::A1", "gpt-4o"),
        ("ft:gpt-4o-2024-08-06:acme:mine:A1", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4-0314", "gpt-4-0314"),
        ("gpt-4-0613", "gpt-4"),
        ("o3-mini-2025-01-31", "o3-mini"),
        ("llama-4", None),
        ("gpt-j-6b", None),
        ("", None),
    ],
)
def test_a_name_leads_to_its_family(name: str, family: str | None) -> None:
    """An exact id wins over a dated id, and prefixes of clouds and gateways do not count."""
    assert openai.facts(name).family == family
    assert openai.facts(name).model == name


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("gpt-9", "gpt-6.1-sol"),
        ("gpt-6.3-luna", "gpt-6-luna"),
        ("gpt-7-mini", "gpt-5.4-mini"),
        ("gpt-4.7", "gpt-4.1"),
        ("llama-4", None),
    ],
)
def test_an_unknown_model_is_like_the_newest_of_its_line(name: str, like: str | None) -> None:
    """Forced calls, effort `none` and sampling take the value that no model refuses; one warning says so."""
    facts = openai.facts(name)

    assert (facts.family, facts.like) == (None, like)
    assert (facts.forced_calls, facts.sampling, facts.retires) == (False, "never", None)
    assert "none" not in (facts.efforts or {})["responses"]
    warnings = openai.prepare_request(ModelRequest(PROMPT), model=name).warnings
    assert [one.subject for one in warnings] == ([name] if like else [])


def test_a_fine_tuned_model_has_the_facts_of_its_base() -> None:
    """Its strict mode lacks minLength and maxLength."""
    base, tuned = openai.facts("gpt-4o"), openai.facts("ft:gpt-4o:acme::A1")

    assert (base.strict_keywords, tuned.strict_keywords) == (("minLength", "maxLength"), ())
    assert (tuned.sampling, tuned.max_output_tokens) == (base.sampling, base.max_output_tokens)


# -- servers


def test_stated_facts_win_over_the_server_and_the_server_over_the_table() -> None:
    """A field that the program does not state takes the value of the next source."""
    deepseek = openai.SERVERS["deepseek"]
    stated = ModelFacts(provider="mine", model="gpt-5.5", forced_calls=True)

    assert facts_at(openai.COMPATIBLE, "gpt-5.5", "chat").structured_output is True
    assert facts_at(deepseek, "gpt-5.5", "chat").structured_output is False
    assert facts_at(deepseek, "gpt-5.5", "chat").forced_calls is False
    assert facts_at(deepseek, "gpt-5.5", "chat", stated).forced_calls is True
    assert facts_at(deepseek, "gpt-5.5", "chat", stated).structured_output is False


def test_facts_of_the_program_decide_what_is_sent() -> None:
    """`facts=` of a request and of a profile have one meaning."""
    stated = msgspec.structs.replace(openai.facts("gpt-6-sol"), sampling="always", forced_calls=False)
    request = ModelRequest(PROMPT, (TOOL,), "required", temperature=0.5)
    profile = openai.Profile(facts=stated)
    sent = [
        openai.prepare_request(request, model="gpt-6-sol", facts=stated),
        openai.prepare_request(request, model="gpt-6-sol", profile=profile),
    ]

    assert sent[0].fields == sent[1].fields
    assert sent[0].fields["temperature"] == 0.5
    assert "tool_choice" not in sent[0].fields
    assert [one.subject for one in sent[0].warnings] == ["tool_choice"]


def test_an_unknown_model_at_a_compatible_server_gets_what_the_program_wants() -> None:
    """The table states nothing about the models of other makers."""
    request = ModelRequest(
        PROMPT, (TOOL,), "required", temperature=0.5, stop=("END",), reasoning="minimal", parallel_tool_calls=False
    )
    sent = openai.prepare_request(request, model="llama-4", api="chat")

    assert sent.warnings == ()
    assert (sent.fields["reasoning_effort"], sent.fields["tool_choice"]) == ("minimal", "required")
    assert (sent.fields["temperature"], sent.fields["stop"]) == (0.5, ["END"])
    assert sent.fields["parallel_tool_calls"] is False


def test_a_gateway_that_translates_has_no_limits_of_chat_completions() -> None:
    """OpenRouter sends a request with tools to the API that accepts it."""
    profile = openai.Profile("chat", server=openai.SERVERS["openrouter"])
    request = ModelRequest(PROMPT, (TOOL,), reasoning="high")
    sent = openai.prepare_request(request, model="openai/gpt-5.5", profile=profile)

    assert (sent.fields["reasoning"], sent.warnings) == ({"effort": "high"}, ())


@pytest.mark.parametrize(
    ("given", "keywords", "endpoints"),
    [
        ({}, ("minLength", "maxLength"), ("responses",)),
        ({"base_url": "http://127.0.0.1:8000/v1"}, (), ("responses", "chat")),
        ({"api": "chat", "base_url": "http://127.0.0.1:8000/v1"}, (), ("responses", "chat")),
        ({"server": "openrouter"}, (), ("responses", "chat")),
        ({"server": "azure", "base_url": "http://127.0.0.1:8000/v1"}, (), ("responses",)),
    ],
)
def test_a_layer_knows_whether_its_server_is_openais_own(
    given: Any, keywords: tuple[str, ...], endpoints: tuple[str, ...]
) -> None:
    """Strict keywords are published for OpenAI's own host. Another server may offer a model on any API."""
    layer = openai.layer("gpt-5.5-pro", api_key="k", **given)
    facts = fx.run(fx.service(LanguageModel).map(lambda model: model.facts).provide(layer))

    assert facts is not None
    assert (facts.strict_keywords, facts.endpoints) == (keywords, endpoints)


def test_a_layer_takes_facts() -> None:
    """The service of the model shows them."""
    mine = msgspec.structs.replace(openai.facts("gpt-6-sol"), sampling="always")
    layer = openai.layer("gpt-6-sol", api_key="k", facts=mine)
    facts = fx.run(fx.service(LanguageModel).map(lambda model: model.facts).provide(layer))

    assert facts is not None
    assert (facts.sampling, facts.family) == ("always", "gpt-6-sol")


# -- the table


def test_each_fact_has_a_source_and_each_dispute_a_reason() -> None:
    """Every value in the data file can be checked."""
    facts = [(entry.family, name, fact) for entry in TABLE.data.families for name, fact in entry.facts.items()]

    assert len(EVERY) >= 75
    assert [(family, name) for family, name, fact in facts if not fact.sources] == []
    assert [(family, name) for family, name, fact in facts if fact.disputes and not fact.reason] == []


def test_the_table_knows_the_models_that_retire_soon() -> None:
    """gpt-5 and o3 retire on 2026-12-11; both are still served at the date of the table."""
    soon = TABLE.data.checked + timedelta(days=60)
    retiring = [one for one in SERVED if (end := openai.facts(one).retires) and end <= soon]

    assert {"gpt-5", "o3"} <= {*retiring}
    assert "gpt-6-sol" in SERVED
    assert "o4-mini" not in SERVED
