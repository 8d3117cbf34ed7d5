"""The script that writes a provider's table of model facts from a survey of public packages.

Run it at the root of the repository: `python -m tests.kit.fact_tables anthropic SURVEY.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fxai.models.fact_table import Dispute, Entry, Fact, TableData

Survey: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The surveyed facts of one family: value, `from` and `but`, by name."""
Reading: TypeAlias = Callable[[Survey], Fact | None]
"""Reads one field of `ModelFacts` from a survey. None: no source states the fact."""


class Tabled(msgspec.Struct, frozen=True):
    """The rules of one provider's table."""

    fields: Mapping[str, Reading]
    legend: Mapping[str, str]
    decided: Mapping[tuple[str, str], Fact] = {}
    """Facts that win over the survey, by family and field."""
    names: Mapping[str, tuple[str, ...]] = {}
    """Further names of a family."""
    hosts: Mapping[str, Mapping[str, Fact]] = {}


def plain(key: str, translate: Callable[[Any], Any] = lambda value: value) -> Reading:
    """Return a reading of one surveyed fact.

    Args:
        key: The name of the fact in the survey.
        translate: The way from the surveyed value to the field. None as its result: unknown.
    """
    return several((key,), translate)


def several(keys: tuple[str, ...], translate: Callable[..., Any]) -> Reading:
    """Return a reading of several surveyed facts, of which the first must be known."""

    def read(survey: Survey) -> Fact | None:
        known = [survey.get(key, {"value": None}) for key in keys]
        values = [one["value"] for one in known]
        value = None if values[0] is None else translate(*values)
        if value is None:
            return None
        sources = dict.fromkeys(source for one in known for source in one.get("from", ()))
        others = [(one, other) for one in known for other in one.get("but", ())]
        disputes = [
            Dispute(translate(*(other["value"] if two is one else two["value"] for two in known)), (*other["from"],))
            for one, other in others
        ]
        return Fact(value, (*sources,), tuple(one for one in disputes if one.value != value))

    return read


def constant(value: Any, *sources: str) -> Reading:
    """Return a reading that states the same fact of every family."""
    return lambda _: Fact(value, sources)


# -- Anthropic


def _only(word: str) -> Callable[[Any], Any]:
    return lambda value: [word] if value else []


def _while_thinking(value: Any, types: Any) -> Any:
    if value is False:
        return []
    return [one for one in types or () if one == "disabled" or value.get(one)]


def _without_top(refused: bool, levels: Any) -> Any:
    return levels and [one for one in levels if not (refused and one in ("xhigh", "max"))]


def _media(image: Any, pdf: Any) -> Any:
    return None if pdf is None else ["text", *(["image"] if image else []), *(["pdf"] if pdf else [])]


_TYPES, _LEVELS = "thinking.types", "effort.levels"
_MEASURED: Final = "pydantic-ai-slim measured its value on the API; the other catalogs copy each other."

ANTHROPIC: Final = Tabled(
    fields={
        "released": plain("released"),
        "retires": plain("retires"),
        "endpoints": constant(["messages"], "sdk-a"),
        "context_window": plain("context_window"),
        "max_output_tokens": plain("max_output_tokens"),
        "window_limits_answer": plain("input_plus_max_tokens_beyond_window_refused"),
        "inputs": several(("input.image", "input.pdf"), _media),
        "structured_output": plain("native_json_schema"),
        "function_calls": constant(True, "sdk-a"),
        "strict_tools": plain("strict_tools"),
        "forced_calls": plain("forced_tool_choice"),
        "forced_calls_while_thinking": several(("forced_tool_choice_while_thinking", _TYPES), _while_thinking),
        "parallel_tool_calls": plain("parallel_tool_calls (disable_parallel_tool_use)"),
        "tool_search": plain("tool_search"),
        "reasons": plain(_LEVELS, lambda levels: True if levels else None),
        "reasons_by_default": plain("thinking.on_by_default"),
        "thinking": plain(_TYPES),
        "efforts": plain(_LEVELS, lambda levels: {"messages": levels}),
        "efforts_without_thinking": several(("effort.top_refused_with_thinking_off", _LEVELS), _without_top),
        "default_effort": plain("effort.default"),
        "thinking_budget_min": plain("thinking.budget_minimum"),
        "binds_thinking": plain("thinking_bound_to_prefix"),
        "binding_remedy": plain("thinking_bound_to_prefix", lambda binds: "drop_block" if binds else None),
        "sampling": plain("sampling (temperature, top_p, top_k)", lambda takes: "always" if takes else "never"),
        "stop": plain("stop_sequences", _only("messages")),
        "system_between": plain("system_between_messages"),
        "tool_changes_between": plain("tool_changes_between_messages"),
        "prefill": plain("prefill (assistant message last)"),
        "cache_marks": constant(4, "pyd-code"),
        "cache_min_tokens": plain("prompt_cache.min_tokens"),
    },
    legend={
        "pyd": "pydantic-ai-slim 2.68.0 (profiles)",
        "pyd-code": "pydantic-ai-slim 2.68.0 (models/anthropic)",
        "ai": "@ai-sdk/anthropic 4.0.105 (model catalog)",
        "lit": "litellm 1.110.2 (model prices and context window)",
        "lc": "langchain-anthropic 1.7.10 (profiles)",
        "gp": "genai-prices 0.2.3",
        "sdk-a": "anthropic 2.14.0 (types)",
        "floor": "survey of issue threads, 2026-11-26",
        "fxai": "fxai 0.1, from Anthropic's overview of models and its migration guides",
    },
    decided={
        ("claude-sonnet-5", "system_between"): Fact(
            False,
            ("pyd",),
            (Dispute(True, ("lc", "lit")),),
            "pydantic-ai-slim measured that the API accepts the message and the model ignores it.",
        ),
        **{
            (family, "thinking"): Fact(
                ["adaptive", "disabled"],
                ("pyd",),
                (Dispute(["adaptive", "disabled", "enabled"], ("ai",)),),
                "pydantic-ai-slim measured it, and an issue (AAClause/nvda-OpenAI#126) reports that Sonnet 5 refuses "
                "budgets; adaptive thinking replaces them.",
            )
            for family in ("claude-opus-5", "claude-sonnet-5", "claude-opus-4-8", "claude-opus-4-7")
        },
        **{
            (family, "system_between"): Fact(
                True,
                ("lc", "lit"),
                (Dispute(False, ("pyd",)),),
                "Published for the model. pydantic-ai-slim leaves it out, because the models obey its own sealed text "
                "better; the API accepts the messages.",
            )
            for family in ("claude-haiku-5-5", "claude-sonnet-5-5")
        },
        ("claude-haiku-5-5", "structured_output"): Fact(
            True,
            ("pyd", "ai", "lit"),
            (Dispute(False, ("lc",)),),
            "langchain-anthropic supplies False by default for models that its data lacks.",
        ),
        ("claude-2", "inputs"): Fact(["text"], ("fxai",)),
        **{
            (family, "forced_calls"): Fact(True, ("fxai",), (), "Tools came with Claude 3, and forced calls with them.")
            for family in (
                *("claude-3-5-sonnet", "claude-3-5-haiku-latest", "claude-3-opus-latest", "claude-3-sonnet"),
                "claude-3-haiku",
            )
        },
        ("claude-mythos-preview", "retires"): Fact(
            "2026-06-30",
            ("sdk-a",),
            (Dispute("2026-06-09", ("lit",)),),
            "The provider's own SDK states the date.",
        ),
        **{
            (family, "max_output_tokens"): Fact(most, ("fxai",))
            for family, most in {
                "claude-3-7-sonnet-latest": 64_000,
                "claude-3-5-sonnet": 8_192,
                "claude-3-5-haiku-latest": 8_192,
                "claude-3-opus-latest": 4_096,
                "claude-3-sonnet": 4_096,
                "claude-2": 4_096,
            }.items()
        },
        **{
            (family, "prefill"): Fact(True, ("floor",), (), "Models from Claude 4.6 on refuse it; this one is older.")
            for family in (
                *("claude-opus-4-1", "claude-opus-4-0", "claude-sonnet-4-0", "claude-3-7-sonnet-latest"),
                *("claude-3-5-sonnet", "claude-3-5-haiku-latest", "claude-3-opus-latest", "claude-3-sonnet"),
                *("claude-3-haiku", "claude-2"),
            )
        },
    },
    names={
        "claude-3-7-sonnet-latest": ("claude-3-7-sonnet",),
        "claude-3-5-haiku-latest": ("claude-3-5-haiku",),
        "claude-3-opus-latest": ("claude-3-opus",),
        "claude-opus-4-0": ("claude-opus-4", "claude-4-opus"),
        "claude-sonnet-4-0": ("claude-sonnet-4", "claude-4-sonnet"),
        "claude-2": ("claude-2.0", "claude-v2", "claude-instant", "claude-instant-1", "claude-instant-v1"),
    },
    hosts={
        "cloud": {
            field: Fact(False, ("fxai",), (), "Published for Anthropic's own API only.")
            for field in ("system_between", "tool_changes_between")
        },
        "other": {
            "context_window": Fact(None),
            "max_output_tokens": Fact(8_192, ("fxai",), (), "No known server refuses it."),
            "cache_min_tokens": Fact(None),
            "binds_thinking": Fact(False, ("fxai",), (), "Only Anthropic binds thinking to its prefix."),
            "binding_remedy": Fact(None),
            "system_between": Fact(False, ("fxai",), (), "Published for Anthropic's own API only."),
            "tool_changes_between": Fact(False, ("fxai",), (), "Published for Anthropic's own API only."),
            "tool_search": Fact(False, ("fxai",), (), "Another server can refuse the blocks of a search."),
        },
    },
)

PROVIDERS: Final[Mapping[str, Tabled]] = {"anthropic": ANTHROPIC}


def table_of(survey: Mapping[str, Any], provider: str, rules: Tabled) -> TableData:
    """Return the table of a provider.

    Args:
        survey: The decoded survey.
        provider: The name of the provider.
        rules: The rules of the provider's table.
    """
    today = survey["generated"]
    families = [_entry(rules, family, today) for family in survey["providers"][provider]["families"]]
    hosts = {host: {**facts} for host, facts in rules.hosts.items()}
    used = {key for entry in families for fact in entry.facts.values() for key in _keys(fact)}
    used |= {key for facts in hosts.values() for fact in facts.values() for key in _keys(fact)}
    legend = {key: text for key, text in rules.legend.items() if key in used}
    return TableData(provider, date.fromisoformat(today), legend, tuple(families), hosts)


def _keys(fact: Fact) -> tuple[str, ...]:
    return (*fact.sources, *(key for one in fact.disputes for key in one.sources))


def _entry(rules: Tabled, family: Mapping[str, Any], today: str) -> Entry:
    name = family["family"]
    read = {field: reading(family["facts"]) for field, reading in rules.fields.items()}
    read |= {field: fact for (one, field), fact in rules.decided.items() if one == name}
    facts = {field: fact for field, fact in read.items() if fact is not None}
    names = dict.fromkeys((name, *family["ids"], *rules.names.get(name, ())))
    retires = facts["retires"].value if "retires" in facts else today
    return Entry(name, tuple(names), family["line"], family["in_sdk_list"] and retires >= today, facts)


def main(provider: str, survey: str) -> None:
    """Write the data file of a provider's package.

    Args:
        provider: The name of the provider.
        survey: The path of the survey.
    """
    table = table_of(msgspec.json.decode(Path(survey).read_bytes()), provider, PROVIDERS[provider])
    path = Path("fxai", "providers", provider, "model_facts.json")
    path.write_bytes(layout(msgspec.to_builtins(table)))


def layout(table: dict[str, Any]) -> bytes:
    """Return a table as JSON with one fact per line, so that its changes can be read."""
    families = [
        f"{_line(one | {'facts': None})[:-5]}{{\n   {_lines(one['facts'], 3)}\n  }}}}" for one in table["families"]
    ]
    hosts = [f"{_line(host)}: {{\n   {_lines(facts, 3)}\n  }}" for host, facts in table["hosts"].items()]
    parts = [
        *(f"{_line(key)}: {_line(table[key])}" for key in ("provider", "checked")),
        f'"legend": {{\n  {_lines(table["legend"], 2)}\n }}',
        '"families": [\n  ' + ",\n  ".join(families) + "\n ]",
        '"hosts": {' + ",".join(f"\n  {host}" for host in hosts) + "\n }",
    ]
    return ("{\n " + ",\n ".join(parts) + "\n}\n").encode()


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(values: Mapping[str, Any], depth: int) -> str:
    return (",\n" + " " * depth).join(f"{_line(key)}: {_line(value)}" for key, value in values.items())


if __name__ == "__main__":
    main(*sys.argv[1:])
