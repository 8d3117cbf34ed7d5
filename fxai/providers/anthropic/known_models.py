"""Facts of Anthropic's models, by name. Use `facts` to read the limits and abilities of a model.

>>> facts("claude-opus-5-5").forced_calls, facts("us.anthropic.claude-opus-5-5-v1:0").family
(False, 'claude-opus-5-5')
>>> facts("claude-haiku-4-5-20251001").sources["sampling"].sources[0]
'pydantic-ai-slim 2.68.0 (profiles)'
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from fxai.models.fact_table import FactTable, ModelName, Policy, read_table
from fxai.models.model_facts import ModelFacts

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
