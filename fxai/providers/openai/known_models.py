"""Facts of OpenAI's models, by name and by server.

Use `facts` to read the limits and abilities of a model. Code that prepares a request uses `facts_at`, which also knows
the server.

>>> facts("gpt-5.5").efforts["chat"], facts("us.openai.gpt-6-astra").family
(('none', 'low', 'medium', 'high', 'xhigh'), 'gpt-6-astra')
>>> facts("ft:gpt-4o:acme::A1").strict_keywords, facts("gpt-9").like
((), 'gpt-6.1-sol')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from fxai.models.fact_table import FactTable, ModelName, Policy, read_table
from fxai.models.model_facts import Endpoint, FactSource, ModelFacts
from fxai.providers.openai.server import COMPATIBLE, OPENAI_CHAT, Server

# -- names

_TUNED: Final = re.compile(r"ft:(?P<name>[^:]+)")
_AROUND: Final = re.compile(
    r"(?P<before>(?:.*/)?(?:(?:[a-z-]+\.)*openai[.-])?)"  # a gateway or a cloud: openai/…, us.openai.…, openai-…
    r"(?P<name>.+?)"
    r"(?P<after>(?:-\d+)?:[a-z0-9]+)?$"  # a variant or a revision: …:online, …-1:0
)
_DATE: Final = re.compile(r"-20\d\d-\d\d-\d\d$")
_OURS: Final = re.compile(r"gpt-(?:\d|oss|audio|daybreak|rosalind)|o\d|chatgpt-|codex-|computer-use-")
_KINDS: Final = (
    *("terra", "luna", "astra-law", "astra", "cyber", "rosalind", "pro", "mini", "nano", "codex", "chat-latest"),
)


def line_of(name: str) -> str | None:
    """Return the line of a model, or None if the name is not a name of OpenAI.

    >>> line_of("gpt-6-luna"), line_of("gpt-7"), line_of("o5-mini"), line_of("llama-4")
    ('luna', 'gpt', 'o', None)
    """
    if _OURS.match(name) is None:
        return None
    if name.startswith("gpt-oss"):
        return "gpt-oss"
    if name.startswith(("gpt-3", "gpt-4", "gpt-audio", "chatgpt-")):
        return "gpt-4"
    return "o" if name.startswith("o") else next((kind for kind in _KINDS if kind in name), "gpt")


def _parse(model: str) -> ModelName:
    """Parse a name: OpenAI's name, or the name of the model on a cloud or a gateway."""
    lower = model.lower()
    tuned, around = _TUNED.match(lower), _AROUND.match(lower)
    name, host = lower, "tuned" if tuned is not None else None
    if tuned is not None:
        name = tuned["name"]
    elif around is not None:
        name = around["name"]
        host = "gateway" if around["before"] or around["after"] else None
    return ModelName((model, name, _DATE.sub("", name)), line=line_of(name), host=host)


# -- the table

_CAREFUL_EFFORTS: Final = ("low", "medium", "high", "xhigh")
_POLICY: Final = Policy(
    known={
        "structured_output": True,
        "function_calls": True,
        "strict_tools": True,
        "forced_calls": False,
        "parallel_tool_calls": True,
        "tool_search": True,
        "reasons": True,
        "efforts": {"responses": _CAREFUL_EFFORTS, "chat": _CAREFUL_EFFORTS},
        "sampling": "never",
        "stop": (),
        "system_between": True,
        "tool_changes_between": False,
    },
    unknown={
        "forced_calls": False,
        "efforts": {"responses": _CAREFUL_EFFORTS, "chat": _CAREFUL_EFFORTS},
        "sampling": "never",
    },
)
# Another server runs models of many makers, and the table has no facts of them. It receives the fields of the program.
_FREE: Final[Mapping[str, Any]] = {
    "structured_output": True,
    "function_calls": True,
    "strict_tools": True,
    "forced_calls": True,
    "parallel_tool_calls": True,
    "sampling": "always",
    "stop": ("chat",),
    "system_between": True,
}

TABLE: Final = FactTable(partial(read_table, "fxai.providers.openai"), _parse, _POLICY)
"""The facts of OpenAI's models."""


def facts(model: str) -> ModelFacts:
    """Return the facts of an OpenAI model, by its own name or by its name on a cloud or a gateway.

    A fine-tuned model has the facts of its base model. An unknown model has the facts of the newest model of its line.
    For forced calls, effort `none`, and sampling, it has the value that every model accepts.

    Args:
        model: The name, such as `"gpt-6-sol"`, `"ft:gpt-4o:acme::A1"`, or `"us.openai.gpt-5.6-sol"`.
    """
    return TABLE.facts(model)


# -- facts of a server


@lru_cache(maxsize=512)
def facts_at(
    server: Server, model: str, api: Endpoint, stated: ModelFacts | None = None, *, elsewhere: bool = False
) -> ModelFacts:
    """Return the facts of the model whose abilities count, on a server.

    Facts from the program (`stated`) have priority over the profile of the server, the table, and the policy. If
    another server than OpenAI's (`elsewhere`) runs an unknown model, it receives every field that the program sets.

    >>> from fxai.providers.openai.server import SERVERS
    >>> facts_at(SERVERS["deepseek"], "deepseek-chat", "chat").forced_calls
    False
    """
    elsewhere = elsewhere or server not in (COMPATIBLE, OPENAI_CHAT)
    known = TABLE.facts(model)
    if known.family is None and server != OPENAI_CHAT and (known.like is None or elsewhere):
        known = ModelFacts(provider=server.name, model=model).with_policy(_FREE)
    values = _of_server(server, model) if api == "chat" else {}
    if elsewhere:
        values["strict_keywords"] = ()
    if elsewhere and known.endpoints and not server.deployments:  # another server can offer any model on any API
        values["endpoints"] = ("responses", "chat")
    sources = {**known.sources, **dict.fromkeys(values, FactSource(server.sources))}
    if stated is not None:
        unknown = stated.unknown()
        values |= {name: getattr(stated, name) for name in stated.__struct_fields__ if name not in unknown}
        sources |= stated.sources
    return msgspec.structs.replace(known, **{**values, "sources": sources})


def _of_server(server: Server, model: str) -> dict[str, Any]:
    """Return the facts in the profile of a server that apply to all its models, or to models with certain names."""
    values: dict[str, Any] = {}
    if server.supports_strict is not None:
        values["strict_tools"] = server.supports_strict
    if server.supports_schema is not None:
        values["structured_output"] = server.supports_schema
    elif server.schema_models is not None:
        values["structured_output"] = re.search(server.schema_models, model) is not None
    if not server.parallel_tool_calls:
        values["parallel_tool_calls"] = False
    if not server.forced_choice:
        values["forced_calls"] = False
    if server.no_stop is not None and re.search(server.no_stop, model):
        values["stop"] = ()
    if server.effort is None or server.efforts:
        values["efforts"] = {"chat": server.efforts if server.effort else ()}
    if server.translates:
        values["tools_while_reasoning"] = ("responses", "chat")
    return values
