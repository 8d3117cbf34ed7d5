"""Facts about Anthropic's models, and requests that stay within them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import product
from typing import Any, Final

import msgspec
import pytest

from fxai.annotations import CacheControl
from fxai.messages import AssistantMessage, Message, Prompt, ReasoningPart, SystemMessage, TextPart, UserMessage
from fxai.models import ModelFacts, ModelRequest
from fxai.models.model_facts import EFFORTS
from fxai.providers import anthropic
from fxai.providers.anthropic.known_models import TABLE
from fxai.schema import JsonSchema
from fxai.tools import Tool

SERVED: Final = tuple(entry.family for entry in TABLE.data.families if entry.served)
KNOWN: Final = tuple(entry.family for entry in TABLE.data.families)
WEATHER = Tool.make("weather", parameters=msgspec.defstruct("City", [("name", str)]), success=str)
PLANETS = JsonSchema.of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
HELLO = (UserMessage.make("Hello"),)


def send(model: str, *messages: Message, facts: ModelFacts | None = None, **options: Any) -> anthropic.PreparedRequest:
    """Return the request for messages."""
    request = ModelRequest(Prompt(messages or HELLO), **options)
    return anthropic.prepare_request(request, model=model, facts=facts)


def subjects(sent: anthropic.PreparedRequest) -> list[str | None]:
    """Return the subjects of the warnings."""
    return [warning.subject for warning in sent.warnings]


# -- the lookup


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("CLAUDE-OPUS-5-5", "claude-opus-5-5"),
        ("claude-opus-5-5-20260922", "claude-opus-5-5"),
        ("claude-opus-5-5-latest", "claude-opus-5-5"),
        ("claude-opus-5-5@20260922", "claude-opus-5-5"),
        ("claude-haiku-5-5@default", "claude-haiku-5-5"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5"),
        ("us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("publishers/anthropic/models/claude-opus-5", "claude-opus-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0"),
        ("claude-4-sonnet-20250522", "claude-sonnet-4-0"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-3.5-sonnet", "claude-3-5-sonnet"),
        ("claude-3-5-haiku", "claude-3-5-haiku-latest"),
        ("anthropic.claude-v2:1", "claude-2"),
        ("claude-instant-1.2", "claude-2"),
    ],
)
def test_a_name_at_a_cloud_or_a_gateway_is_read(name: str, family: str) -> None:
    """A dated name, an alias, and the name at a cloud find the entry of the family."""
    facts = anthropic.facts(name)

    assert (facts.family, facts.model, facts.like) == (family, name, None)


@pytest.mark.parametrize("name", [name for entry in TABLE.data.families for name in (entry.family, *entry.names)])
def test_every_name_of_the_table_finds_an_entry(name: str) -> None:
    """Each name of the table is known."""
    assert anthropic.facts(name).family in KNOWN


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("claude-opus-6", "claude-opus-5-5"),
        ("claude-haiku-6-20270101", "claude-haiku-5-5"),
        ("claude-nova-1", "claude-sonnet-5-5"),
        ("glm-4.6", "claude-sonnet-5-5"),
        ("claude-opus-4-5-thinking", "claude-opus-4-5"),
        ("claude-4.5-opus-high-thinking", "claude-opus-4-5"),
    ],
)
def test_an_unknown_model_takes_the_values_that_no_model_refuses(name: str, like: str) -> None:
    """Most facts are those of the newest model of the line; forced calls, thinking off and sampling are not."""
    facts, newest = anthropic.facts(name), anthropic.facts(like)

    assert (facts.family, facts.like, facts.released) == (None, like, None)
    assert (facts.forced_calls, facts.sampling) == (False, "never")
    assert not {"disabled", "between_tools"} & set(facts.thinking or ())
    assert (facts.efforts, facts.structured_output) == (newest.efforts, newest.structured_output)
    assert all(source.assumed for field, source in facts.sources.items() if field != "max_output_tokens")


def test_a_cloud_accepts_no_system_messages_between_others() -> None:
    """Facts depend on the host of the model."""
    own, cloud = anthropic.facts("claude-opus-5"), anthropic.facts("us.anthropic.claude-opus-5-v1:0")

    assert (own.system_between, own.tool_changes_between) == (True, True)
    assert (cloud.system_between, cloud.tool_changes_between) == (False, False)
    assert anthropic.facts("glm-4.6").max_output_tokens == 8192


def test_a_model_that_fxai_does_not_know_is_one_warning() -> None:
    """The warning names the model and the assumed family; facts of the program need no warning."""
    sent = send("claude-opus-6", reasoning="low")
    given = send("claude-opus-6", facts=anthropic.facts("claude-opus-6"))

    assert [warning.message for warning in sent.warnings] == [
        "model 'claude-opus-6' is unknown: fxai assumes most facts of 'claude-opus-5-5'. Pass facts= to state them."
    ]
    assert given.warnings == ()


def test_each_fact_has_a_source_and_a_date() -> None:
    """A fact of the table names its sources; only a policy supplies a fact without sources."""
    for name in KNOWN:
        facts = anthropic.facts(name)
        stated = {field for field in facts.__struct_fields__ if getattr(facts, field) is not None}
        assert stated - {"provider", "model", "family", "sources"} <= facts.sources.keys()
        for field, source in facts.sources.items():
            assert source.assumed or (source.sources and source.checked), (name, field)
            assert not source.disputed or source.reason, (name, field)


def test_facts_of_the_newest_models_are_as_published() -> None:
    """The facts whose breach fails a request, of the models of this autumn."""
    opus, haiku, sonnet = (anthropic.facts(f"claude-{name}-5-5") for name in ("opus", "haiku", "sonnet"))

    assert (opus.forced_calls, opus.thinking, opus.binds_thinking) == (False, ("adaptive",), True)
    assert (sonnet.forced_calls, sonnet.thinking) == (False, ("adaptive", "between_tools"))
    assert (haiku.forced_calls, haiku.max_output_tokens, haiku.binds_thinking) == (True, 128000, True)
    assert haiku.efforts_without_thinking == ("low", "medium", "high")
    assert {name for name in SERVED if anthropic.facts(name).binds_thinking} == {
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    }
    assert anthropic.facts("claude-sonnet-5").system_between is False
    assert anthropic.facts("claude-sonnet-4-5").retires == date(2026, 11, 30)


def test_facts_of_one_name_are_one_value() -> None:
    """A second lookup returns the first value."""
    assert anthropic.facts("claude-opus-5") is anthropic.facts("claude-opus-5")


# -- requests of every model


def refusals(body: Mapping[str, Any], facts: ModelFacts) -> list[str]:
    """Return the fields of a body that the model refuses, from its facts alone."""
    kind: Any = body.get("thinking", {}).get("type")
    level = body.get("output_config", {}).get("effort")
    on = kind in ("adaptive", "enabled") or (kind is None and bool(facts.reasons_by_default))
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    levels = (facts.efforts or {}).get("messages", ())
    budget = body.get("thinking", {}).get("budget_tokens")
    rules = {
        "thinking": kind is not None and kind not in (facts.thinking or ()),
        "effort": level is not None and level not in levels,
        "effort with thinking off": level is not None
        and not on
        and level not in (facts.efforts_without_thinking or ()),
        "budget": budget is not None and not (facts.thinking_budget_min or 0) <= budget < body["max_tokens"],
        "forced": forced and not facts.forced_calls,
        "forced while thinking": forced
        and kind in ("adaptive", "enabled")
        and kind not in (facts.forced_calls_while_thinking or ()),
        "sampling": "temperature" in body and (facts.sampling == "never" or (on and body["temperature"] != 1)),
        "max_tokens": body["max_tokens"] > (facts.max_output_tokens or 0),
        "prefill": body["messages"][-1]["role"] == "assistant" and not facts.prefill,
        "system": any(one["role"] == "system" for one in body["messages"]) and not facts.system_between,
    }
    return [rule for rule, is_broken in rules.items() if is_broken]


@pytest.mark.parametrize("model", [*KNOWN, "claude-opus-6", "glm-4.6", "us.anthropic.claude-opus-5-5-v1:0"])
def test_no_model_receives_a_field_that_it_refuses(model: str) -> None:
    """Every combination of effort, choice, temperature, limit, schema and last message stays within the facts."""
    facts = anthropic.facts(model)
    begun = (*HELLO, AssistantMessage.make("I say"))
    told = (*HELLO, SystemMessage("Be brief."))
    limits = ((None, None), (0.5, 1500), (1.0, 10**6))
    for effort, choice, (temperature, limit), schema in product(
        (None, *EFFORTS), (None, "required"), limits, (None, PLANETS)
    ):
        for messages in (HELLO, begun, told):
            options: dict[str, Any] = {
                "reasoning": effort,
                "tool_choice": choice,
                "temperature": temperature,
                "max_tokens": limit,
                "response_schema": schema,
                "tools": (WEATHER,) if choice else (),
            }
            sent = send(model, *messages, **options)
            known = facts if facts.family is not None else msgspec.structs.replace(facts, max_output_tokens=10**6)
            assert refusals(sent.body, known) == [], (options, sent.body)


@pytest.mark.parametrize("model", SERVED)
@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_that_the_model_lacks_is_its_nearest_with_a_warning(model: str, effort: Any) -> None:
    """An accepted effort is sent without a warning; another effort is never dropped silently."""
    facts = anthropic.facts(model)
    levels = (facts.efforts or {}).get("messages", ())
    sent = send(model, reasoning=effort)
    level = sent.body.get("output_config", {}).get("effort")

    can_stop = bool({"disabled", "between_tools"} & set(facts.thinking or ()))

    if effort in levels:
        assert (level, sent.warnings) == (effort, ())
    elif effort == "none" and can_stop:
        assert (level, subjects(sent)) == (None, [])
    elif levels:
        nearest = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}[effort]
        assert (level, subjects(sent)) == (nearest, ["reasoning"])
    else:
        assert (level, sent.body["thinking"]["type"], sent.warnings) == (None, "enabled", ())


@pytest.mark.parametrize("model", SERVED)
def test_a_refused_forced_call_is_auto_with_a_warning(model: str) -> None:
    """A model that accepts a forced call receives it without a warning."""
    sent = send(model, tools=(WEATHER,), tool_choice="required")
    takes = anthropic.facts(model).forced_calls

    assert sent.body["tool_choice"] == {"type": "any" if takes else "auto"}
    assert subjects(sent) == ([] if takes else ["tool_choice"])


@pytest.mark.parametrize("model", SERVED)
def test_a_temperature_is_sent_to_the_models_that_accept_it(model: str) -> None:
    """A refused temperature is a warning that names the model."""
    sent = send(model, temperature=0.2)
    takes = anthropic.facts(model).sampling == "always"

    assert sent.body.get("temperature") == (0.2 if takes else None)
    assert [model in warning.message for warning in sent.warnings] == ([] if takes else [True])


def test_sampling_has_the_values_of_the_api() -> None:
    """Anthropic accepts at most 1, either temperature or top_p, and no other temperature than 1 while it thinks."""
    model = "claude-haiku-4-5"
    own = {"anthropic": {"top_p": 0.9, "top_k": 5}}
    hot, both, only = (
        send(model, temperature=1.5),
        send(model, temperature=1.0, provider_options=own),
        send(model, provider_options=own),
    )
    thinking, one = (send(model, temperature=value, reasoning="low") for value in (0.5, 1.0))

    assert (hot.body["temperature"], subjects(hot)) == (1.0, ["temperature"])
    assert (both.body["temperature"], "top_p" in both.body, subjects(both)) == (1.0, False, ["top_p"])
    assert (only.body["top_p"], only.body["top_k"], only.warnings) == (0.9, 5, ())
    assert ("temperature" in thinking.body, subjects(thinking)) == (False, ["temperature"])
    assert (one.body["temperature"], one.warnings) == (1.0, ())
    assert subjects(send("claude-opus-5-5", provider_options=own)) == ["top_p", "top_k"]


def test_thinking_is_turned_off_in_the_form_that_the_model_accepts() -> None:
    """Sonnet 5.5 has the form "between_tools"; Opus 5.5 always thinks."""
    bodies = {name: send(f"claude-{name}", reasoning="none") for name in ("haiku-5-5", "sonnet-5-5", "opus-5-5")}

    assert [sent.body["thinking"]["type"] for sent in bodies.values()] == ["disabled", "between_tools", "adaptive"]
    assert [subjects(sent) for sent in bodies.values()] == [[], [], ["reasoning"]]


def test_a_budget_goes_with_an_effort_where_the_model_has_both() -> None:
    """Opus 4.5 thinks with a budget and accepts an effort."""
    sent = send("claude-opus-4-5", reasoning="medium")

    assert sent.body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert sent.body["output_config"] == {"effort": "medium"}


def test_a_limit_above_the_models_is_lowered_with_a_warning() -> None:
    """The limit of a request and of a layer is within the facts; an assumed limit does not lower it."""
    request = ModelRequest(Prompt(HELLO), max_tokens=200_000)
    known = anthropic.prepare_request(request, model="claude-opus-5-5")
    unknown = anthropic.prepare_request(request, model="glm-4.6")
    default = anthropic.prepare_request(ModelRequest(Prompt(HELLO)), model="claude-opus-5-5", max_tokens=200_000)

    assert (known.max_tokens, subjects(known)) == (128_000, ["max_tokens"])
    assert (default.max_tokens, subjects(default)) == (128_000, ["max_tokens"])
    assert unknown.max_tokens == 200_000


def test_prompt_and_answer_share_the_window_of_older_models() -> None:
    """Claude 4.1 and older models refuse a request whose prompt and max_tokens exceed the window together."""
    long = UserMessage.make("word " * 140_000)

    assert send("claude-opus-4-1").max_tokens == 32_000
    assert 0 < send("claude-opus-4-1", long).max_tokens < 32_000
    assert send("claude-opus-4-5", long).max_tokens == 64_000


# -- marks for the cache


def marked(text: str, ttl: str | None) -> TextPart:
    """Return a text with a mark for the cache."""
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return TextPart(text, metadata={"anthropic": {"cache_control": mark}})


def test_an_earlier_mark_lives_as_long_as_a_later_mark() -> None:
    """The API refuses a mark that outlives an earlier mark: tools come first, then the system prompt, then messages."""
    tool = WEATHER.annotate(CacheControl, "5m")
    sent = send(
        "claude-opus-5",
        SystemMessage("Be brief.", metadata={"anthropic": {"cache_control": {"type": "ephemeral"}}}),
        UserMessage.make(marked("one", "1h"), marked("two", "5m")),
        tools=(tool,),
    )

    assert sent.body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert sent.body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert [block["cache_control"]["ttl"] for block in sent.body["messages"][0]["content"]] == ["1h", "5m"]
    assert subjects(sent) == ["cache_control", "weather"]


def test_marks_in_order_stay_unchanged() -> None:
    """A long mark before a short mark is accepted."""
    sent = send("claude-opus-5", UserMessage.make(marked("one", "1h"), marked("two", "5m")), tools=(WEATHER,))

    assert [block["cache_control"]["ttl"] for block in sent.body["messages"][0]["content"]] == ["1h", "5m"]
    assert sent.warnings == ()


def test_the_number_of_marks_is_a_fact() -> None:
    """A server that accepts fewer marks receives fewer marks."""
    facts = msgspec.structs.replace(anthropic.facts("claude-opus-5"), cache_marks=1)
    sent = send("claude-opus-5", UserMessage.make(marked("one", None), marked("two", None)), facts=facts)

    assert ["cache_control" in block for block in sent.body["messages"][0]["content"]] == [False, True]
    assert subjects(sent) == ["cache_control"]


# -- system messages between others


def roles(sent: anthropic.PreparedRequest) -> list[str]:
    """Return the roles of the messages."""
    return [message["role"] for message in sent.body["messages"]]


@pytest.mark.parametrize("model", SERVED)
def test_a_system_message_stays_between_others_where_the_model_accepts_it(model: str) -> None:
    """A system message stays after a user message if the model accepts it there, and is marked text otherwise."""
    sent = send(model, *HELLO, SystemMessage("Be brief."))
    takes = anthropic.facts(model).system_between

    assert roles(sent) == (["user", "system"] if takes else ["user"])
    assert "system" not in sent.body


def test_a_system_message_does_not_stand_before_a_user_message() -> None:
    """A turn that is left out of the history does not open a place for a system message."""
    lost = AssistantMessage.make(ReasoningPart("Hm."))  # unsigned reasoning is left out
    sent = send("claude-opus-5", *HELLO, SystemMessage("Be brief."), lost, UserMessage.make("And?"))

    assert roles(sent) == ["user"]
    texts = [block["text"] for block in sent.body["messages"][0]["content"]]
    assert texts == ["Hello", "<system>\nBe brief.\n</system>", "And?"]
