"""Options of requests to OpenAI. The request encoder uses this module to apply the facts of the model.

fxai omits a field that the API or the model rejects and adds a warning. It merges `provider_options["openai"]` last.
The member `extra_body` contains fields that only other servers support.

>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.prepared_tools import Notes
>>> from fxai.providers.openai.known_models import facts
>>> notes = Notes()
>>> request = ModelRequest(Prompt.make("Hello"), max_tokens=9, stop=("END",), reasoning="minimal")
>>> option_fields(request, facts("gpt-5.5"), "responses", notes)
{'max_output_tokens': 9, 'reasoning': {'effort': 'none'}}
>>> [warning.subject for warning in notes.warnings]
['reasoning', 'stop']
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

import msgspec

from fxai.messages.message import WithMetadata
from fxai.models.model_facts import ModelFacts, nearest_effort
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import Notes, PreparationError, checked_options, option_names, without_nulls
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_encoding import Api
from fxai.schema.data import is_array, is_object

NAME: Final = "openai"
"""The name of the provider, in metadata and options."""


def mark(**values: Any) -> dict[str, Any]:
    """Return metadata with the values that are not None. Return {} if all values are None.

    >>> mark(id="msg_1", phase=None)
    {'openai': {'id': 'msg_1'}}
    """
    known = {name: value for name, value in values.items() if value is not None}
    return {NAME: known} if known else {}


def marks(part: WithMetadata, *names: str) -> Mapping[str, Any]:
    """Return OpenAI's metadata of a part or a message, or {}. With names, return only these fields.

    >>> from fxai.messages.message import TextPart
    >>> marks(TextPart("Hello", metadata=mark(id="msg_1", phase="final")), "id", "status")
    {'id': 'msg_1'}
    """
    found = part.metadata.get(NAME)
    own: Mapping[str, Any] = found if is_object(found) else {}
    return {name: own[name] for name in names if name in own} if names else own


_EXTRA: Final = "extra_body"
_RESPONSE: Final = "response_id"  # the id of the background response that the request continues
_SHARED: Final = frozenset(
    (
        *("metadata", "moderation", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "safety_identifier", "service_tier", "store", "stream_options", "temperature"),
        *("tool_choice", "top_logprobs", "top_p", "user"),
    )
)
# the fields of a request in the official SDK's parameter types, without the fields that fxai writes from the prompt and
# the tools
_FIELDS: Final[Mapping[Api, frozenset[str]]] = {
    "responses": _SHARED
    | {
        *("access_programs", "background", "background_options", "context_management", "conversation", "image"),
        *("include", "instructions"),
        *("max_output_tokens", "max_tool_calls", "previous_response_id", "prompt", "reasoning", "text", "truncation"),
    },
    "chat": _SHARED
    | {
        *("audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "modalities"),
        *("prediction", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "verbosity"),
        "web_search_options",
    },
}
# the options that are not fields of the request
_APART: Final[Mapping[Api, Set[str]]] = {"responses": {_EXTRA, _RESPONSE}, "chat": {_EXTRA}}
_OURS: Final = frozenset(("model", "input", "messages", "tools", "stream"))


_APIS: Final[Mapping[Api, str]] = {"responses": "the Responses API", "chat": "Chat Completions"}


def option_fields(
    request: ModelRequest,
    facts: ModelFacts,
    api: Api,
    notes: Notes,
    server: Server = COMPATIBLE,
    *,
    calls: bool = False,
) -> dict[str, Any]:
    """Return the fields of the options that all providers share, and add a warning for each option that fxai omits.

    `calls` is True if the request has function tools.

    Raises:
        PreparationError: If the API rejects function tools while the model reasons, and the model always reasons.
    """
    fields: dict[str, Any] = {}
    if request.max_tokens is not None and api == "responses":
        fields["max_output_tokens"] = request.max_tokens
    elif request.max_tokens is not None:  # other servers use the old name of the field
        is_ours = (facts.family or facts.like) and facts.endpoints != ()
        fields[server.token_limit or ("max_completion_tokens" if is_ours else "max_tokens")] = request.max_tokens
    effort = _effort(request, facts, api, notes)
    own = _own_effort(request)
    if calls and api not in (facts.tools_while_reasoning or (api,)):
        effort = _quiet_effort(own, effort, facts, api, notes)
    if effort is not None and own is None:
        by_object = api == "responses" or server.effort == "reasoning"
        fields.update({"reasoning": {"effort": effort}} if by_object else {"reasoning_effort": effort})
    quiet = (own or effort) == "none" or (not (own or effort) and facts.reasons_by_default is False)
    samples = facts.sampling == "always" or (facts.sampling == "with effort none" and quiet)
    if request.temperature is not None and samples:
        fields["temperature"] = request.temperature
    elif request.temperature is not None:
        problem = f"model {facts.model!r} rejects a temperature while it reasons; fxai sends none"
        notes.warn("unsupported-option", "temperature", problem)
    if request.stop and api == "chat" and "chat" in (facts.stop or ()):
        fields["stop"] = list(request.stop)
    elif request.stop:
        who = f"model {facts.model!r}" if api == "chat" else "OpenAI's Responses API"
        notes.warn("unsupported-option", "stop", f"{who} accepts no stop sequences; fxai sends none")
    if request.compact_at is not None and api == "responses":
        fields["context_management"] = [{"type": "compaction", "compact_threshold": request.compact_at}]
    elif request.compact_at is not None:
        problem = "Chat Completions does not compact conversations. Use Compaction.summary or Compaction.window"
        notes.warn("unsupported-option", "compact_at", problem)
    return fields


def _own_effort(request: ModelRequest) -> str | None:
    """Return the effort in the provider's own options. It replaces the effort of the request."""
    own = request.provider_options.get(NAME)
    options: Mapping[str, Any] = own if is_object(own) else {}
    reasoning = options.get("reasoning")
    effort = (reasoning.get("effort") if is_object(reasoning) else None) or options.get("reasoning_effort")
    return effort if isinstance(effort, str) else None


def _effort(request: ModelRequest, facts: ModelFacts, api: Api, notes: Notes) -> str | None:
    """Return the supported effort that is nearest to the effort of the request, or None to send no effort."""
    wanted = request.reasoning
    if wanted is None:
        return None
    accepted = (facts.efforts or {}).get(api)
    if facts.reasons is False or accepted == ():
        if wanted != "none":
            problem = f"model {facts.model!r} does not reason; fxai sends no effort"
            notes.warn("unsupported-option", "reasoning", problem)
        return None
    nearest = wanted if accepted is None else nearest_effort(wanted, accepted)
    if nearest != wanted:
        problem = f"model {facts.model!r} has no effort {wanted!r} on {_APIS[api]}; fxai sends {nearest!r}"
        notes.warn("unsupported-option", "reasoning", problem)
    return nearest


def _quiet_effort(own: str | None, effort: str | None, facts: ModelFacts, api: Api, notes: Notes) -> str | None:
    """Return the effort of a request with function tools to an API that rejects them while the model reasons.

    Raises:
        PreparationError: If the model always reasons, or if the provider's own options set an effort.
    """
    if "none" in (own, effort) or (own is None and effort is None and facts.reasons_by_default is False):
        return effort
    where = f"{_APIS[api]} rejects function tools while the model {facts.model!r} reasons"
    if own is not None or "none" not in (facts.efforts or {}).get(api, ()):
        why = "The model always reasons" if own is None else f"provider_options sets the effort {own!r}"
        raise PreparationError.of("tools", f"{where}. {why}. Use the Responses API: pass api='responses'")
    problem = f"{where}; fxai sends effort 'none'. To reason with tools, use the Responses API"
    notes.warn("unsupported-option", "reasoning", problem)
    return "none"


def merge_options(
    fields: Mapping[str, Any], options: Mapping[str, Any], api: Api, server: Server = COMPATIBLE
) -> dict[str, Any]:
    """Merge the provider's own options into the fields of a request. Merge the members of objects and of `include`.

    OpenAI's options precede the options with the name of the server, which can contain the server's own fields.

    Raises `PreparationError` if the options are not an object, if they contain fields that the API does not have, or if
    they contain fields that fxai writes from the prompt and the tools.
    """
    merged = dict(fields)
    for name in dict.fromkeys((NAME, server.name)) if api == "chat" else (NAME,):
        own = options.get(name, {})
        if isinstance(own, msgspec.Struct):
            own = msgspec.json.decode(msgspec.json.encode(own))
        where = f"provider_options[{name!r}]"
        if not is_object(own):
            raise PreparationError.of(where, f"must be an object, got {type(own).__name__}")
        _check(own, api, server if name == server.name else COMPATIBLE, where)
        extra = own.get(_EXTRA, {})
        if not is_object(extra) or _OURS & extra.keys():
            ours = ", ".join(sorted(_OURS))
            raise PreparationError.of(f"{where}[{_EXTRA!r}]", f"must be an object without these fields: {ours}")
        for key, value in [*own.items(), *extra.items()]:
            if value is None or key in _APART[api]:
                continue
            value, before = without_nulls(value), merged.get(key)
            if is_object(before) and is_object(value):
                merged[key] = {**before, **value}
            elif is_array(before) and is_array(value):
                merged[key] = [*before, *(one for one in value if one not in before)]
            else:
                merged[key] = value
    return merged


def asks_usage(options: Mapping[str, Any], server: Server) -> bool:
    """Return True if a stream of Chat Completions must report its usage, unless `stream_options` is None.

    >>> asks_usage({"openai": {"stream_options": None}}, COMPATIBLE), asks_usage({}, COMPATIBLE)
    (False, True)
    """
    given = [own for name in (NAME, server.name) if is_object(own := options.get(name))]
    return server.stream_usage and not any("stream_options" in own and own["stream_options"] is None for own in given)


def response_id_of(options: Mapping[str, Any]) -> str | None:
    """Return the background response that the options continue, or None for a new response.

    Raises `PreparationError` if the value is not a string.
    """
    own = options.get(NAME)
    found = own.get(_RESPONSE) if is_object(own) else None
    if found is None or (isinstance(found, str) and found):
        return found
    raise PreparationError.of(f"provider_options[{NAME!r}][{_RESPONSE!r}]", "must be the id of a response, a string")


def _check(own: Mapping[str, Any], api: Api, server: Server, where: str) -> None:
    """Reject unknown fields and invalid values of the server's own fields."""
    theirs = frozenset(() if server.options is None else option_names(server.options))
    known = _FIELDS[api] | theirs
    takes_any = server is not COMPATIBLE and server.options is None and server.name != NAME
    unknown = sorted(key for key in own if (key in _OURS if takes_any else key not in known | _APART[api]))
    names = ", ".join(map(repr, unknown))
    if unknown and _OURS.issuperset(unknown):
        problem = f"fxai sets {names} from the model, the prompt, and the tools. Remove it from the options."
        raise PreparationError.of(where, problem)
    if unknown:
        problem = f"unknown option {names}. Use one of: {', '.join(sorted(known))}"
        raise PreparationError.of(where, f"{problem}. Put fields of other servers into {_EXTRA!r}.")
    if server.options is not None:
        checked_options({key: value for key, value in own.items() if key in theirs}, server.options, where)
