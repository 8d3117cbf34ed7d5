"""Reasoning: how much a model of Anthropic's is told to think.

>>> from fxai.providers.anthropic.capability import capability_of
>>> reasoning_fields("high", capability_of("claude-opus-4-8"), 4096, Notes())
{'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'high'}}
>>> reasoning_fields("low", capability_of("claude-haiku-4-5"), 64000, Notes())
{'thinking': {'type': 'enabled', 'budget_tokens': 2048}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fxai.models.preparation import Notes
from fxai.models.request import ReasoningEffort
from fxai.providers.anthropic.capability import Capability

__all__ = ["reasoning_fields"]

_BUDGETS: Final[Mapping[ReasoningEffort, int]] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_LEAST: Final = 1024
_EFFORTS: Final[Mapping[ReasoningEffort, str]] = {
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
}


def reasoning_fields(
    effort: ReasoningEffort | None, can: Capability, most_tokens: int, notes: Notes, *, forced: bool = False
) -> dict[str, Any]:
    """The fields of a request that say how much to think.

    Args:
        effort: how much; None: nothing is said, and the model's own default holds.
        can: what the model can do.
        most_tokens: the most tokens of the answer; a budget to think for takes half of them at most.
        notes: where it is noted what is not done.
        forced: whether the model must call a tool, which excludes that it is told to think.
    """
    if effort is None:
        return {}
    if can.thinking == "none":
        if effort != "none":
            _warn(notes, "this model does not think before it answers")
        return {}
    if forced and effort != "none":
        _warn(notes, "a model that must call a tool is not told to think")
        return {} if can.thinking == "budget" else {"output_config": {"effort": _EFFORTS[effort]}}
    return _budgeted(effort, most_tokens, notes) if can.thinking == "budget" else _adaptive(effort, can, notes)


def _budgeted(effort: ReasoningEffort, most_tokens: int, notes: Notes) -> dict[str, Any]:
    if effort == "none":
        return {}
    budget = min(_BUDGETS[effort], most_tokens // 2)
    if budget < _LEAST:
        _warn(notes, f"to think takes {_LEAST} tokens at least, beside the answer: allow {2 * _LEAST} tokens or more")
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _adaptive(effort: ReasoningEffort, can: Capability, notes: Notes) -> dict[str, Any]:
    if effort == "none" and can.thinking == "adaptive":
        return {"thinking": {"type": "disabled"}}
    if effort in ("none", "minimal"):
        _warn(notes, f"{effort!r} is sent as the effort 'low', the least that this model has")
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS[effort]}}


def _warn(notes: Notes, why: str) -> None:
    notes.warn("unsupported-option", "reasoning", f"reasoning: {why}")
