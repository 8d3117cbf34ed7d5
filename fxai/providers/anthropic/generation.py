"""Request fields for thinking, sampling, and limits. The request encoder uses them with the facts of the model.

The API rejects a whole request for one field that the model does not accept. This module sends the nearest accepted
value with a warning, or omits the field.

>>> from fxai.providers.anthropic.known_models import facts
>>> thinking_fields("high", facts("claude-opus-4-8"), 4096, Notes())
{'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'high'}}
>>> thinking_fields("low", facts("claude-haiku-4-5"), 64000, Notes())
{'thinking': {'type': 'enabled', 'budget_tokens': 2048}}
>>> thinking_fields("none", facts("claude-sonnet-5-5"), 64000, Notes())
{'thinking': {'type': 'between_tools'}}
>>> thinking_fields("none", facts("claude-opus-5-5"), 64000, notes := Notes())
{'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'low'}}
>>> notes.warnings[0].message
"reasoning: the model 'claude-opus-5-5' cannot turn thinking off; fxai sends the effort 'low'"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fxai.models.model_facts import ModelFacts, ThinkingType, nearest_effort
from fxai.models.model_request import ModelRequest, ReasoningEffort
from fxai.models.prepared_tools import Notes
from fxai.models.token_count import estimate_request
from fxai.schema.data import is_object

_BUDGETS: Final[Mapping[ReasoningEffort, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 32768,
}
_OFF: Final[tuple[ThinkingType, ...]] = ("disabled", "between_tools")
_ON: Final[tuple[ThinkingType, ...]] = ("adaptive", "enabled")
_MARGIN: Final = 1024


# -- thinking


def thinking_fields(
    effort: ReasoningEffort | None, facts: ModelFacts, max_tokens: int, notes: Notes, *, forced: bool = False
) -> dict[str, Any]:
    """Return the fields of a request for a portable effort.

    A thinking budget is at most half of the tokens of an answer.

    Args:
        effort: The portable effort. None omits the field, so that the model uses its default.
        facts: The facts of the model, complete.
        max_tokens: Maximum number of tokens of the answer.
        notes: The warnings of the request.
        forced: True if the model must call a tool.
    """
    if effort is None:
        return {}
    if not facts.thinking and not _levels(facts):
        if effort != "none":
            _warn(notes, f"the model {facts.model!r} does not think before it answers")
        return {}
    if effort == "none":
        return _turn_off(facts, notes)
    kind = next((one for one in _ON if one in facts.thinking), None)
    if kind is not None and forced and kind not in (facts.forced_calls_while_thinking or ()):
        _warn(notes, f"the model {facts.model!r} cannot think while it must call a tool; fxai turns thinking off")
        return _effort_fields(effort, facts.efforts_without_thinking or (), facts, notes)
    thinking = (
        {} if kind is None else {"type": "adaptive"} if kind == "adaptive" else _budget(effort, facts, max_tokens)
    )
    if kind == "enabled" and not thinking:
        least = facts.thinking_budget_min or 0
        _warn(notes, f"a thinking budget needs at least {least} tokens. Set max_tokens to at least {2 * least}.")
    accepted = _levels(facts) if thinking else facts.efforts_without_thinking or ()
    fields = _effort_fields(effort, accepted, facts, notes)
    return {"thinking": thinking, **fields} if thinking else fields


def _levels(facts: ModelFacts) -> tuple[ReasoningEffort, ...]:
    return facts.efforts["messages"] if facts.efforts and "messages" in facts.efforts else ()


def _turn_off(facts: ModelFacts, notes: Notes) -> dict[str, Any]:
    types = facts.thinking
    off = next((one for one in _OFF if one in types), None)
    if off is not None:
        return {"thinking": {"type": off}} if "adaptive" in types else {}
    least = nearest_effort("none", _levels(facts))
    if not facts.reasons_by_default:
        return {}
    if least is None:
        _warn(notes, f"the model {facts.model!r} cannot turn thinking off")
        return {}
    _warn(notes, f"the model {facts.model!r} cannot turn thinking off; fxai sends the effort {least!r}")
    thinking = {"thinking": {"type": "adaptive"}} if "adaptive" in types else {}
    return {**thinking, "output_config": {"effort": least}}


def _budget(effort: ReasoningEffort, facts: ModelFacts, max_tokens: int) -> dict[str, Any]:
    budget = min(_BUDGETS[effort], max_tokens // 2)
    return {} if budget < (facts.thinking_budget_min or 0) else {"type": "enabled", "budget_tokens": budget}


def _effort_fields(
    effort: ReasoningEffort, accepted: tuple[ReasoningEffort, ...], facts: ModelFacts, notes: Notes
) -> dict[str, Any]:
    """Return the field of the nearest effort, or {} if the model accepts no effort."""
    levels = _levels(facts)
    nearest = nearest_effort(effort, [one for one in levels if one in accepted])
    if nearest is None:
        return {}
    if nearest != effort:
        _warn(notes, f"the model {facts.model!r} lacks the effort {effort!r}; fxai sends {nearest!r}")
    return {"output_config": {"effort": nearest}}


def _warn(notes: Notes, why: str) -> None:
    notes.warn("unsupported-option", "reasoning", f"reasoning: {why}")


def thinks(body: Mapping[str, Any], facts: ModelFacts) -> bool:
    """Return True if the model thinks before it answers a request.

    Args:
        body: The body of the request.
        facts: The facts of the model, complete.
    """
    thinking: Any = body.get("thinking")
    if is_object(thinking):
        return thinking.get("type") in _ON
    return bool(facts.reasons_by_default)


# -- sampling


def check_sampling(body: dict[str, Any], facts: ModelFacts, notes: Notes) -> None:
    """Remove the sampling parameters that the model rejects from a request, each with a warning.

    Args:
        body: The body, which this function changes.
        facts: The facts of the model, complete.
        notes: The warnings of the request.
    """
    refused = _refused_sampling(body, facts)
    for name in ("temperature", "top_p", "top_k"):
        if name not in body:
            continue
        if refused is not None and not (name == "temperature" and body[name] == 1 and facts.sampling != "never"):
            del body[name]
            notes.warn("unsupported-option", name, f"{name}: fxai does not send it, because {refused}")
    if "temperature" not in body:
        return
    if body["temperature"] > 1:
        body["temperature"] = 1.0
        notes.warn("unsupported-option", "temperature", "temperature: Anthropic accepts at most 1; fxai sends 1")
    if body.pop("top_p", None) is not None:
        why = "Anthropic accepts either temperature or top_p"
        notes.warn("unsupported-option", "top_p", f"top_p: fxai does not send it, because {why}")


def _refused_sampling(body: Mapping[str, Any], facts: ModelFacts) -> str | None:
    """Return the reason why a model rejects sampling parameters, or None if it accepts them."""
    if facts.sampling == "never":
        return f"the model {facts.model!r} accepts no sampling parameters"
    return f"the model {facts.model!r} accepts no sampling parameters while it thinks" if thinks(body, facts) else None


# -- limits


def answer_limit(request: ModelRequest, default: int | None, facts: ModelFacts, notes: Notes) -> int:
    """Return the maximum number of tokens of an answer, within the limits of the model.

    Args:
        request: The request.
        default: The limit of a request without one. None means the limit of the model.
        facts: The facts of the model, complete.
        notes: The warnings of the request.
    """
    limit = facts.max_output_tokens or 1
    wanted = request.max_tokens or default
    source = facts.sources.get("max_output_tokens")
    is_sure = source is None or not source.assumed
    most = limit if wanted is None else min(wanted, limit) if is_sure else wanted
    if facts.window_limits_answer and facts.context_window is not None:
        estimate = estimate_request(request).tokens
        # the estimate of a prompt can be too low by a quarter
        spaces = (facts.context_window - estimate * 5 // 4 - _MARGIN, facts.context_window - estimate)
        most = min(most, next((space for space in spaces if space > 0), most))
    if wanted is not None and most < wanted:
        problem = f"the model {facts.model!r} accepts at most {most} for this request; fxai sends {most}"
        notes.warn("unsupported-option", "max_tokens", f"max_tokens: {problem}")
    return most
