"""The rules by which a survey of public packages becomes the table of OpenAI's models.

Run it at the root of the repository: `python -m tests.kit.openai_facts SURVEY.json`. See `tests.kit.fact_tables`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fxai.models.fact_table import Dispute, Fact
from fxai.providers.openai.known_models import line_of
from tests.kit.fact_tables import Reading, Survey, Tabled, constant, layout, plain, several, table_of

_LEVELS, _REASONS, _STOP = "effort.levels", "reasons", "chat.stop"
# Why the sources of a field disagree, and which of them the table follows.
_WHY: Final = {
    "retires": "The provider's own SDK states the date.",
    "endpoints": "A request to either API is no certain refusal.",
    "max_input_tokens": "litellm states the limit of the input. langchain-openai states the window instead, or copies "
    "the value of another model.",
    "max_output_tokens": "The smaller limit is safe at both.",
    "structured_output": "The table follows most sources. If they balance, it states False, so that the model answers "
    "by a tool, which works either way.",
    "function_calls": "Recorded exchanges show calls.",
    "tools_while_reasoning": "Issue threads quote the refusal. The catalog of @ai-sdk/openai states no measurement.",
    "tool_search": "pydantic-ai-slim measured its value on the API.",
    "reasons": "The chat models of that time answer without reasoning; litellm copies the model behind them.",
    "efforts": "pydantic-ai-slim measured its value on the API. litellm describes Chat Completions, without `max`; "
    "langchain-openai copies one list to all models.",
    "sampling": "The model accepts no effort `none`, so it always reasons and always refuses a temperature.",
    "stop": "The requests that say so were closed and not merged.",
}


def _efforts(levels: Any) -> Any:
    return {"responses": levels, "chat": [one for one in levels if one != "max"]}


def _stop(survey: Survey) -> Fact | None:
    """Return the APIs that accept stop sequences. Responses has no field for them."""
    known, reasons = survey[_STOP], survey[_REASONS]
    if known["value"] is None:
        why = "The SDK excludes reasoning models only." if reasons["value"] is False else ""
        return Fact(["chat"], ("sdk-o",), (), why) if why else None
    disputes = tuple(Dispute(["chat"] if one["value"] else [], (*one["from"],)) for one in known.get("but", ()))
    return Fact(["chat"] if known["value"] else [], (*known["from"],), disputes)


def _media(image: Any, pdf: Any, audio: Any) -> Any:
    kinds = {"image": image, "pdf": pdf, "audio": audio}
    return None if image is None and not audio else ["text", *(kind for kind, takes in kinds.items() if takes)]


def _strict(survey: Survey) -> Fact | None:
    """Return whether tools can be strict: on all models with function calls except some old snapshots."""
    return Fact("strict" not in survey, ("fxai",)) if survey["function_calling"]["value"] else None


def _decided(field: str, reading: Reading) -> Reading:
    """Return a reading that states why it follows one of its sources."""

    def read(survey: Survey) -> Fact | None:
        fact = reading(survey)
        return replace(fact, reason=_WHY[field]) if fact is not None and fact.disputes else fact

    return read


_OPEN: Final = ("gpt-oss-120b", "gpt-oss-20b")
_OPEN_WHY: Final = "pydantic-ai-slim knows OpenAI's closed models here and supplies its default for the open ones."


# Almost nothing is stated about these families, so no unknown model can follow them.
_UNFIT: Final = ("gpt-6.2", "gpt-daybreak", "gpt-rosalind", "codex", "computer")


def _is_served(family: Mapping[str, Any], today: str) -> bool:
    """Return True if the provider serves the family: no shutdown date has passed, and a source states facts."""
    retires = family["facts"]["retires"]["value"]
    stated = any(fact["value"] is not None for key, fact in family["facts"].items() if key != "responses.stop")
    return stated and family["family"] not in _OPEN and not (retires and retires < today)


OPENAI: Final = Tabled(
    fields={
        field: _decided(field, reading)
        for field, reading in {
            "released": plain("released"),
            "retires": plain("retires"),
            "endpoints": plain("endpoints", lambda names: sorted(names, reverse=True)),
            "context_window": plain("context_window"),
            "max_input_tokens": plain("max_input_tokens"),
            "max_output_tokens": plain("max_output_tokens"),
            "inputs": several(("input.image", "input.pdf", "input.audio"), _media),
            "structured_output": plain("native_json_schema"),
            "function_calls": plain("function_calling"),
            "strict_tools": _strict,
            "strict_keywords": constant(["minLength", "maxLength"], "pyd"),
            "forced_calls": plain("forced_tool_choice"),
            "tools_while_reasoning": plain(
                "chat.function_tools_while_reasoning", lambda chat: ["responses", "chat"] if chat else ["responses"]
            ),
            "parallel_tool_calls": plain("parallel_tool_calls"),
            "tool_search": plain("tool_search"),
            "reasons": plain(_REASONS),
            "reasons_by_default": plain("reasoning.on_by_default"),
            "efforts": plain(_LEVELS, _efforts),
            "default_effort": plain("effort.default"),
            "sampling": plain("sampling (temperature, top_p)"),
            "stop": _stop,
            "system_between": plain("system_between_messages"),
            "tool_changes_between": plain("tool_changes_between_messages (additional_tools)"),
            "cache_marks": plain("prompt_cache.breakpoints_and_options", lambda takes: 4 if takes else 0),
            "tools_max": constant({"chat": 128}, "floor"),
        }.items()
    },
    legend={
        "pyd": "pydantic-ai-slim 2.68.0 (profiles)",
        "pyd-code": "pydantic-ai-slim 2.68.0 (models/openai)",
        "ai": "@ai-sdk/openai 4.0.118 (model catalog)",
        "lit": "litellm 1.110.2 (model prices and context window)",
        "lit-code": "litellm 1.110.2 (llms/openai)",
        "lc": "langchain-openai 1.7.4 (profiles)",
        "gp": "genai-prices 0.2.3",
        "sdk-o": "openai 3.57.0 (types)",
        "floor": "survey of issue threads, 2026-11-26",
        "fxai": "fxai 0.1, from OpenAI's announcements",
    },
    decided={
        **{
            (family, field): fact
            for family in _OPEN
            for field, fact in {
                "reasons": Fact(True, ("lit",), (Dispute(False, ("pyd",)),), _OPEN_WHY),
                "reasons_by_default": Fact(True, ("lit",), (Dispute(False, ("pyd",)),), _OPEN_WHY),
                "efforts": Fact(_efforts(["low", "medium", "high"]), ("pyd-code",), (), "As Groq serves the model."),
                "forced_calls": Fact(True, ("lit",), (Dispute(False, ("pyd",)),), "A property of the server."),
                "endpoints": Fact([], ("fxai",), (), "OpenAI publishes the weights and serves the model on no API."),
                "strict_keywords": Fact([], ("pyd",), (), "Published for base models at api.openai.com only."),
                "tools_max": Fact({}, ("fxai",), (), "A property of the server."),
            }.items()
        },
    },
    names={
        "gpt-4-turbo": ("gpt-4-0125-preview",),
        "gpt-4o-search-preview": ("gpt-4o-mini-search-preview",),
        "gpt-4o-audio-preview": ("gpt-4o-mini-audio-preview",),
    },
    hosts={
        host: {"strict_keywords": Fact([], ("pyd",), (), "Published for base models at api.openai.com only.")}
        for host in ("tuned", "gateway")
    },
)


# Snapshots that differ from their family: strict mode came after them.
_SNAPSHOTS: Final = {"gpt-4-0314": "gpt-4", "gpt-4-32k-0314": "gpt-4-32k", "gpt-3.5-turbo-0301": "gpt-3.5-turbo"}


def _families(survey: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the surveyed families with their lines, and snapshots that differ as families of their own."""
    found: dict[str, dict[str, Any]] = {one["family"]: one for one in survey["providers"]["openai"]["families"]}
    for snapshot, family in _SNAPSHOTS.items():
        facts = found[family]["facts"]
        found[family]["ids"].remove(snapshot)
        old = {"value": False, "from": ["fxai"]}
        found[snapshot] = {**found[family], "family": snapshot, "ids": [snapshot], "facts": {**facts, "strict": old}}
    today = survey["generated"]
    return [
        {**one, "line": None if name.startswith(_UNFIT) else line_of(name), "in_sdk_list": _is_served(one, today)}
        for name, one in found.items()
    ]


def main(path: str) -> None:
    """Write the data file.

    Args:
        path: The path of the survey.
    """
    survey = msgspec.json.decode(Path(path).read_bytes())
    survey["providers"]["openai"]["families"] = _families(survey)
    table = table_of(survey, "openai", OPENAI)
    Path("fxai", "providers", "openai", "model_facts.json").write_bytes(layout(msgspec.to_builtins(table)))


if __name__ == "__main__":
    main(*sys.argv[1:])
