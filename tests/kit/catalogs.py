"""What public packages state about models, compared with the tables of model facts. This is `nox -s facts`.

Run it in an environment that contains the packages: `python -m tests.kit.catalogs CATALOGS.json`. The file contains the
model catalogs of `@ai-sdk/openai` and `@ai-sdk/anthropic`, which Node prints. The script prints each disagreement. It
exits with 1 if a disagreement is undecided: neither the table nor `fact_decisions.json` states why the table differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fxai.models.fact_table import Entry, FactTable
from fxai.providers.anthropic import known_models as anthropic_models
from fxai.providers.openai import known_models as openai_models

Stated: TypeAlias = Mapping[str, Any]
"""What a package states about a model: values by the names of fields of `ModelFacts`."""
Catalog: TypeAlias = Callable[[str], Stated]
"""The statements of a package about the model of a name. Empty if the package does not know the model."""

TABLES: Final[Mapping[str, FactTable]] = {"openai": openai_models.TABLE, "anthropic": anthropic_models.TABLE}
DECISIONS: Final = Path(__file__).with_name("fact_decisions.json")
_MAIN: Final = {"openai": "responses", "anthropic": "messages"}


class Decision(msgspec.Struct, frozen=True):
    """The reason why the table does not follow a package."""

    provider: str
    package: str
    field: str
    families: tuple[str, ...]
    value: Any
    """The value that the package states. If it changes, the decision no longer holds."""
    reason: str

    def holds_for(self, found: Statement) -> bool:
        """Return True if the decision is about this statement."""
        is_there = (self.provider, self.package, self.field) == (found.provider, found.package, found.field)
        return is_there and found.family in self.families and self.value == found.theirs


class Statement(msgspec.Struct, frozen=True):
    """A value of the table, and the value that a package states."""

    provider: str
    family: str
    field: str
    ours: Any
    package: str
    theirs: Any

    @property
    def agrees(self) -> bool:
        """True if both values are equal."""
        return bool(self.ours == self.theirs)

    def __str__(self) -> str:
        ours = "unknown" if self.ours is None else self.ours
        return f"{self.provider}:{self.family} {self.field}: table {ours}, {self.package} {self.theirs}"


class Report(msgspec.Struct, frozen=True):
    """The disagreements of all tables, with their reasons, and the models that no table knows."""

    decided: tuple[tuple[Statement, str], ...]
    undecided: tuple[Statement, ...]
    unknown: tuple[str, ...]
    agreed: int

    @property
    def ok(self) -> bool:
        """True if nothing is left to decide."""
        return not self.undecided and not self.unknown


def compare(
    catalogs: Mapping[str, Mapping[str, Catalog]],
    names: Mapping[str, tuple[str, ...]],
    decisions: tuple[Decision, ...],
    tables: Mapping[str, FactTable] = TABLES,
) -> Report:
    """Compare the served families of the tables with catalogs.

    Args:
        catalogs: The catalogs, by provider and package.
        names: The models that the SDKs list, by provider.
        decisions: The decisions.
        tables: The tables, by provider.
    """
    decided: list[tuple[Statement, str]] = []
    undecided: list[Statement] = []
    agreed = 0
    for found, entry in _found(catalogs, tables):
        reason = "" if found.agrees else _reason(found, entry, tables[found.provider], decisions)
        agreed += found.agrees
        if reason:
            decided.append((found, reason))
        elif not found.agrees:
            undecided.append(found)
    new = [
        Statement(provider, name, "family", None, provider, None)
        for provider, listed_names in names.items()
        for name in listed_names
        if tables[provider].facts(name).family is None
    ]
    unknown = [f"{one.provider}:{one.family}" for one in new if not any(two.holds_for(one) for two in decisions)]
    return Report(tuple(decided), tuple(undecided), tuple(unknown), agreed)


def _found(
    catalogs: Mapping[str, Mapping[str, Catalog]], tables: Mapping[str, FactTable]
) -> Iterator[tuple[Statement, Entry]]:
    """Return what the packages state about the served families."""
    for provider, table in tables.items():
        for entry in (one for one in table.data.families if one.served):
            for package, catalog in catalogs[provider].items():
                for field, theirs in _stated(entry, catalog).items():
                    ours = _value(entry, field, provider)
                    yield Statement(provider, entry.family, field, ours, package, theirs), entry


def _stated(entry: Entry, catalog: Catalog) -> Stated:
    nothing: Stated = {}
    return next((stated for name in (entry.family, *entry.names) if (stated := catalog(name))), nothing)


def _value(entry: Entry, field: str, provider: str) -> Any:
    fact = entry.facts.get(field)
    value = None if fact is None else fact.value
    return value.get(_MAIN[provider]) if field == "efforts" and value is not None else value


def _reason(found: Statement, entry: Entry, table: FactTable, decisions: tuple[Decision, ...]) -> str:
    """Return why the table does not follow the package. Empty if nothing states it."""
    fact = entry.facts.get(found.field)
    for dispute in () if fact is None else fact.disputes:
        spelled = [table.data.legend.get(key, key) for key in dispute.sources]
        value = dispute.value.get(_MAIN[found.provider]) if found.field == "efforts" else dispute.value
        if value == found.theirs and any(one.startswith(found.package) for one in spelled) and fact is not None:
            return fact.reason
    return next((one.reason for one in decisions if one.holds_for(found)), "")


# -- the packages


def _known(values: Stated) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _inputs(image: Any, pdf: Any, audio: Any = None) -> list[str] | None:
    if image is None or pdf is None:
        return None
    return ["text", *(name for name, takes in {"image": image, "pdf": pdf, "audio": audio}.items() if takes)]


def _json(package: str, name: str) -> Any:
    """Return a data file of an installed package without the import of the package."""
    location = find_spec(package)
    folder = next(iter(location.submodule_search_locations or ())) if location else ""
    return msgspec.json.decode(Path(folder, name).read_bytes())


def _litellm() -> dict[str, Catalog]:
    data: dict[str, Any] = _json("litellm", "model_prices_and_context_window_backup.json")

    def both(name: str, provider: str) -> dict[str, Any]:
        found: dict[str, Any] = data.get(name, {})
        return found if found.get("litellm_provider") == provider else {}

    def openai(name: str) -> Stated:
        found = both(name, "openai")
        locations = {"/v1/responses": "responses", "/v1/chat/completions": "chat"}
        served = [location for path, location in locations.items() if path in found.get("supported_endpoints", ())]
        return _known(
            {
                "max_input_tokens": found.get("max_input_tokens"),
                "max_output_tokens": found.get("max_output_tokens"),
                "inputs": _inputs(found.get("supports_vision"), found.get("supports_pdf_input")),
                "structured_output": found.get("supports_response_schema"),
                "function_calls": found.get("supports_function_calling"),
                "forced_calls": found.get("supports_tool_choice"),
                "parallel_tool_calls": found.get("supports_parallel_function_calling"),
                "tool_search": found.get("supports_tool_search"),
                "reasons": found.get("supports_reasoning"),
                "retires": found.get("deprecation_date"),
                "endpoints": served or None,
            }
        )

    def anthropic(name: str) -> Stated:
        found = both(name, "anthropic")
        samples = found.get("supports_sampling_params")
        return _known(
            {
                "max_output_tokens": found.get("max_output_tokens"),
                "inputs": _inputs(found.get("supports_vision"), found.get("supports_pdf_input")),
                "structured_output": found.get("supports_native_structured_output"),
                "forced_calls": found.get("supports_forced_tool_use"),
                "sampling": None if samples is None else "always" if samples else "never",
                "system_between": found.get("supports_mid_conversation_system"),
                "prefill": found.get("supports_assistant_prefill"),
                "cache_min_tokens": found.get("prompt_cache_min_tokens"),
                "retires": found.get("deprecation_date"),
            }
        )

    return {"openai": openai, "anthropic": anthropic}


def _langchain() -> dict[str, Catalog]:
    def reading(package: str) -> Catalog:
        space: dict[str, Any] = {}
        location = find_spec(package)
        folder = next(iter(location.submodule_search_locations or ())) if location else ""
        exec(Path(folder, "data", "_profiles.py").read_text(encoding="utf-8"), space)  # data, no import
        profiles: dict[str, Any] = next(value for name, value in space.items() if name.endswith("PROFILES"))

        def read(name: str) -> Stated:
            found: dict[str, Any] = profiles.get(name, {})
            inputs = _inputs(found.get("image_inputs"), found.get("pdf_inputs"), found.get("audio_inputs"))
            stated = {
                "released": found.get("release_date"),
                "max_output_tokens": found.get("max_output_tokens"),
                "inputs": inputs,
                "structured_output": found.get("structured_output"),
                "function_calls": found.get("tool_calling"),
                "forced_calls": found.get("tool_choice"),
                "efforts": found.get("reasoning_effort_levels"),
                "default_effort": found.get("reasoning_effort_default"),
                "system_between": found.get("mid_conversation_system_messages"),
                "tool_changes_between": found.get("mid_conversation_tools"),
            }
            if package == "langchain_openai":
                stated["max_input_tokens"] = found.get("max_input_tokens")
                stated["reasons"] = found.get("reasoning_output")
            return _known(stated)

        return read

    return {"openai": reading("langchain_openai"), "anthropic": reading("langchain_anthropic")}


_LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _pydantic_ai() -> dict[str, Catalog]:
    profile_of: Any = import_module("pydantic_ai.profiles.openai").openai_model_profile
    anthropic_profile: Any = import_module("pydantic_ai.profiles.anthropic").anthropic_model_profile

    def searches(found: Mapping[str, Any]) -> bool:
        return any(one.__name__ == "ToolSearchTool" for one in found.get("supported_native_tools", ()))

    def openai(name: str) -> Stated:
        found: dict[str, Any] = profile_of(name) or {}
        reasons = found.get("openai_supports_reasoning")
        quiet = found.get("openai_supports_reasoning_effort_none")
        levels = found.get("openai_reasoning_efforts")
        return _known(
            {
                "reasons": reasons,
                "reasons_by_default": found.get("thinking_enabled_by_default"),
                "efforts": None if levels is None else [one for one in _LEVELS if one in levels],
                "sampling": "always" if not reasons else "with effort none" if quiet else "never",
                "tool_search": searches(found),
                "system_between": found.get("supports_inline_system_prompts"),
            }
        )

    def anthropic(name: str) -> Stated:
        found: dict[str, Any] = anthropic_profile(name) or {}
        tops = [one for one in ("xhigh", "max") if found.get(f"anthropic_supports_{one}_effort")]
        levels = ["low", "medium", "high", *tops] if found.get("anthropic_supports_effort") else None
        return _known(
            {
                "max_output_tokens": found.get("anthropic_max_output_tokens"),
                "structured_output": found.get("supports_json_schema_output"),
                "forced_calls": found.get("supports_forced_tool_choice"),
                "efforts": levels,
                "sampling": "never" if found.get("anthropic_disallows_sampling_settings") else "always",
                "binds_thinking": found.get("anthropic_binds_thinking_blocks"),
                "reasons_by_default": found.get("thinking_enabled_by_default"),
            }
        )

    return {"openai": openai, "anthropic": anthropic}


def _ai_sdk(printed: Path) -> dict[str, Catalog]:
    data: dict[str, dict[str, dict[str, Any]]] = msgspec.json.decode(printed.read_bytes())

    def both(provider: str, name: str) -> dict[str, Any]:
        return data[provider].get(name, {})

    def openai(name: str) -> Stated:
        found = both("openai", name)
        reasoning: dict[str, Any] = found.get("reasoning", {})
        endpoints: dict[str, dict[str, Any]] = found.get("endpoints", {})
        tools = endpoints.get("chat", {}).get("functionToolsWithReasoning")
        kinds = {"reasoning-effort-none": "with effort none", "none": "never", "never": "never"}
        return _known(
            {
                "reasons": reasoning.get("support"),
                "efforts": reasoning.get("efforts") if reasoning.get("support") else None,
                "sampling": kinds.get(str(reasoning.get("sampling"))) if reasoning.get("support") else None,
                "function_calls": found.get("tools", {}).get("usage"),
                "structured_output": found.get("objectGeneration"),
                "tools_while_reasoning": None if tools is None else ["responses", "chat"] if tools else ["responses"],
            }
        )

    def anthropic(name: str) -> Stated:
        found = both("anthropic", name)
        tools: dict[str, Any] = found.get("tools", {})
        return _known(
            {
                "efforts": found.get("reasoning", {}).get("efforts") or None,
                "structured_output": found.get("structuredOutput", {}).get("native"),
                "forced_calls": tools.get("forcedChoice"),
                "tool_search": tools.get("toolSearch") if isinstance(tools.get("toolSearch"), bool) else None,
            }
        )

    return {"openai": openai, "anthropic": anthropic}


def _genai_prices() -> dict[str, Catalog]:
    providers: Any = import_module("genai_prices.data").providers

    def reading(provider: str) -> Catalog:
        models: list[Any] = next(one.models for one in providers if one.id == provider)

        def read(name: str) -> Stated:
            found = next((one for one in models if one.match.is_match(name)), None)
            return {} if found is None else _known({"context_window": found.context_window})

        return read

    return {"openai": reading("openai"), "anthropic": reading("anthropic")}


# Models of other services, and names of groups.
_OTHERS: Final = re.compile(
    "babbage|dall-e|davinci|embed|image|instruct|live|moderation|realtime|sora|transcribe|tts|whisper"
)


def listed() -> dict[str, tuple[str, ...]]:
    """Return the names of models that the installed SDKs list, by provider."""
    kinds = {
        "openai": "openai.types.shared.all_models:AllModels",
        "anthropic": "anthropic.types.model_param:ModelParam",
    }
    found: dict[str, tuple[str, ...]] = {}
    for provider, where in kinds.items():
        module, _, name = where.partition(":")
        names = dict.fromkeys(_literals(getattr(import_module(module), name)))
        found[provider] = tuple(one for one in names if not _OTHERS.search(one))
    return found


def _literals(kind: Any) -> Iterator[str]:
    for argument in getattr(kind, "__args__", ()):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _literals(argument)


def main(printed: str) -> int:
    """Print the disagreements, and return 1 if one of them is undecided.

    Args:
        printed: The path of the catalogs of `@ai-sdk/openai` and `@ai-sdk/anthropic`.
    """
    read = {
        "litellm": _litellm(),
        "langchain": _langchain(),
        "pydantic-ai-slim": _pydantic_ai(),
        "@ai-sdk": _ai_sdk(Path(printed)),
        "genai-prices": _genai_prices(),
    }
    catalogs = {provider: {package: one[provider] for package, one in read.items()} for provider in TABLES}
    decisions = msgspec.json.decode(DECISIONS.read_bytes(), type=tuple[Decision, ...])
    report = compare(catalogs, listed(), decisions)
    packages = ("pydantic-ai-slim", "litellm", "langchain-openai", "langchain-anthropic", "genai-prices")
    sys.stdout.write("".join(f"{one} {version(one)}\n" for one in (*packages, "openai", "anthropic")))
    for found, reason in report.decided:
        sys.stdout.write(f"decided    {found}: {reason}\n")
    for one in report.undecided:
        sys.stdout.write(f"UNDECIDED  {one}\n")
    for name in report.unknown:
        sys.stdout.write(f"NEW MODEL  {name}\n")
    counts = f"{report.agreed} agree, {len(report.decided)} decided, {len(report.undecided)} undecided"
    sys.stdout.write(f"{counts}, {len(report.unknown)} new models\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
