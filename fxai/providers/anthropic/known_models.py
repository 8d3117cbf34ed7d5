"""Facts of Anthropic's models, by name or from its model endpoint. Use `facts` to read the limits of a model.

>>> facts("claude-opus-5-5").forced_calls, facts("us.anthropic.claude-opus-5-5-v1:0").family
(False, 'claude-opus-5-5')
>>> facts("claude-haiku-4-5-20251001").sources["sampling"].sources[0]
'pydantic-ai-slim 2.68.0 (profiles)'
>>> page = b'{"type": "model", "id": "claude-opus-6", "max_tokens": 256000, "lifecycle": "active"}'
>>> merge(facts("claude-opus-6"), page, checked=date(2026, 12, 1)).unwrap().max_output_tokens
256000
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Final, final
from urllib.parse import quote

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError
from fxai.messages.reason import InvalidOutputError
from fxai.models.fact_table import FactTable, ModelName, Policy, read_table
from fxai.models.model_facts import EFFORTS, FactSource, ModelFacts, ThinkingType
from fxai.providers.anthropic.options import NAME
from fxai.providers.http.client import Client
from fxai.schema.data import JSON_ERRORS, is_object

_LINES: Final = ("opus", "sonnet", "haiku", "fable", "mythos")
_DEFAULT_LINE: Final = "sonnet"
_PLAIN: Final = re.compile(r"claude[a-z0-9.-]*$")  # clouds and gateways add other characters
_AROUND: Final = re.compile(
    r"(?:.*/)?"  # the path of a gateway or a resource: anthropic/…, arn:…:foundation-model/…
    r"(?:[a-z-]+\.)*?"  # the region and the vendor of a cloud: us.anthropic.…
    r"(?P<name>claude.*?)"
    r"(?:(?<!claude)-v\d+)?(?::[a-z0-9]+)*(?:\[[^]]*\])?$"  # the revision and the variant: -v1:0, :thinking, [1m]
)
_DATE: Final = re.compile(r"[-@](?:20\d{6}|latest|default)$")
_OLD_ORDER: Final = re.compile(rf"claude-(?P<version>\d+(?:-\d+)?)-(?P<line>{'|'.join(_LINES)})$")
_NEW_ORDER: Final = r"claude-\g<line>-\g<version>"
_VARIANT: Final = re.compile(rf"(?:-(?!{'|'.join(_LINES)})[a-z]+)+$")  # claude-opus-4-5-thinking


def _parse(model: str) -> ModelName:
    """Parse a name: Anthropic's name, or the name of the model on a cloud or a gateway."""
    found = _AROUND.match(model.lower())
    if found is None:
        return ModelName((model,), line=_DEFAULT_LINE, host="other")
    name = found["name"].replace("@", "-").replace(".", "-")
    undated = _DATE.sub("", name)
    turned = _OLD_ORDER.sub(_NEW_ORDER, undated)
    line = next((one for one in _LINES if one in name), _DEFAULT_LINE)
    variant = _VARIANT.sub("", undated)
    host = None if _PLAIN.match(model) else "cloud"
    return ModelName((model, name, undated, turned), (variant, _OLD_ORDER.sub(_NEW_ORDER, variant)), line, host)


_POLICY: Final = Policy(
    known={
        "max_output_tokens": 4_096,
        "window_limits_answer": False,
        "inputs": ("text", "image", "pdf"),
        "structured_output": False,
        "function_calls": True,
        "strict_tools": False,
        "forced_calls": False,
        "forced_calls_while_thinking": (),
        "parallel_tool_calls": True,
        "tool_search": False,
        "tool_references": True,
        "reasons": False,
        "thinking": (),
        "efforts": {},
        "efforts_without_thinking": ("low", "medium", "high"),
        "thinking_budget_min": 1_024,
        "binds_thinking": False,
        "sampling": "never",
        "stop": ("messages",),
        "system_between": False,
        "tool_changes_between": False,
        "prefill": False,
        "cache_marks": 4,
    },
    unknown={
        "forced_calls": False,
        "forced_calls_while_thinking": (),
        "sampling": "never",
    },
    withheld={"thinking": ("disabled", "between_tools")},
)

TABLE: Final = FactTable(partial(read_table, "fxai.providers.anthropic"), _parse, _POLICY)
"""The facts of Anthropic's models."""


def facts(model: str) -> ModelFacts:
    """Return the facts of an Anthropic model, by its own name or by its name on a cloud.

    An unknown model has the facts of the newest model of its line. For forced calls, disabled thinking, and sampling,
    it has the value that every model accepts.

    Args:
        model: The name, such as `"claude-opus-5-5"` or `"us.anthropic.claude-opus-5-5-v1:0"`.
    """
    return TABLE.facts(model)


_SOURCE: Final = "Anthropic's model endpoint"
_TYPES: Final[tuple[ThinkingType, ...]] = ("adaptive", "disabled", "enabled", "between_tools")


@final
class _Page(msgspec.Struct, frozen=True, tag_field="type", tag="model"):
    """The fields of the endpoint's answer that fxai reads."""

    id: str
    created_at: datetime | None = None
    retires_at: datetime | None = None
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: dict[str, Any] | None = None


def facts_from(client: Client, model: str) -> Effect[ModelFacts, AiError]:
    """Return the facts of a model. The values of the endpoint replace the values of the table.

    Fails with `AiError` if the request fails, or if the answer does not describe a model.
    """
    answered = client.get(f"/v1/models/{quote(model, safe='')}", method="read_facts")

    def read(body: bytes) -> Effect[ModelFacts, AiError]:
        merged = merge(TABLE.facts(model), body, checked=datetime.now(UTC).date())
        return fx.lift(merged).map_error(lambda reason: AiError(NAME, "read_facts", reason))

    return answered.flat_map(lambda answer: read(answer.body))


def merge(facts: ModelFacts, body: bytes, *, checked: date) -> Result[ModelFacts, InvalidOutputError]:
    """Replace facts of the table by the values of the endpoint in `body`. `checked` is the date of the answer."""
    try:
        page = msgspec.json.decode(body, type=_Page)
    except JSON_ERRORS as error:
        return Failure(InvalidOutputError(description=f"the answer does not describe a model: {error}"))
    stated = {name: value for name, value in _values(page).items() if value is not None}
    sources = {**facts.sources, **{name: FactSource((_SOURCE,), checked) for name in stated}}
    return Success(msgspec.structs.replace(facts, **stated, sources=sources))


def _names_in(given: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that an object of the endpoint marks as supported."""
    return tuple(one for one in names if is_object(it := given.get(one)) and it.get("supported") is True)


def _values(page: _Page) -> dict[str, Any]:
    """Return the fields of ModelFacts that a page states. All other fields are None."""
    can = {name: one for name, one in (page.capabilities or {}).items() if is_object(one)}
    supported = {name: bool(_names_in(can, (name,))) for name in can}
    is_dated = page.created_at is not None and page.created_at.year > 1970  # the epoch means an unknown date
    values: dict[str, Any] = {
        "released": page.created_at.date() if is_dated and page.created_at is not None else None,
        "retires": None if page.retires_at is None else page.retires_at.date(),
        "max_input_tokens": page.max_input_tokens,
        "max_output_tokens": page.max_tokens,
        "structured_output": supported.get("structured_outputs"),
        "strict_tools": supported.get("structured_outputs"),
        "reasons": supported.get("thinking"),
    }
    if "image_input" in can and "pdf_input" in can:
        values["inputs"] = ("text", *(kind for kind in ("image", "pdf") if supported[f"{kind}_input"]))
    if "thinking" in can:
        values["thinking"] = _names_in(can["thinking"].get("types") or {}, _TYPES)
    if "effort" in can:
        values["efforts"] = {"messages": _names_in(can["effort"], EFFORTS)}
    return values
