"""Options: what a request holds beside prompt and tools, by the model's capabilities; OpenAI's own metadata of parts.

What an API or a model lacks is left out with a warning. `provider_options["openai"]` is merged last; its `extra_body`
holds fields that only servers of others know. A model with an unknown name is taken to have all capabilities.

>>> reasons("gpt-5.5"), reasons("gpt-4o"), reasons("llama-4")
(True, False, None)
>>> from fxai.messages.prompt import Prompt
>>> from fxai.models.prepared_tools import Notes
>>> notes = Notes()
>>> option_fields(ModelRequest(Prompt.make("Hello"), max_tokens=9, stop=("END",)), "gpt-5.5", "responses", notes)
{'max_output_tokens': 9}
>>> notes.warnings[0].subject
'stop'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fxai.messages.message import WithMetadata
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import Notes, PreparationError, checked_options, option_names, without_nulls
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_encoding import Api
from fxai.schema.data import is_array, is_object

_OF: Final = r"^(?:ft:|openai[/.])?"  # of a tuned model, and of servers that have models of several makers
_REASONING: Final = re.compile(_OF + r"(?:o[1-9]|gpt-[5-9]|codex|computer-use)(?!.*chat-latest)")
_PLAIN: Final = re.compile(_OF + r"(?:gpt-3|gpt-4|chatgpt-4|gpt-[5-9][\d.]*-chat-latest|davinci|babbage)")
_SAMPLING: Final = re.compile(_OF + r"(?:gpt-5\.[1-9]|gpt-[6-9])")
_QUIET: Final = re.compile(_OF + r"gpt-5\.[124](?:-\d{4}-\d\d-\d\d)?$")  # their effort is none unless it is asked for
# As the official SDK says of o3 and o4-mini; the models that came after them refuse it as well.
_WITHOUT_STOP: Final = re.compile(_OF + r"(?:o3(?!-mini)|o[4-9]|gpt-[5-9]|codex|computer-use)(?!.*chat-latest)")
# Structured outputs came with gpt-4o-2024-08-06; what was there before has none.
_WITHOUT_SCHEMA: Final = re.compile(_OF + r"(?:gpt-3\.5|gpt-4(?:-|$)|gpt-4o-2024-05-13|chatgpt-4o|o1-mini|o1-preview)")


def is_known(model: str) -> bool:
    """Whether it is a model of OpenAI's, by its name."""
    return reasons(model) is not None


def reasons(model: str) -> bool | None:
    """Whether the model reasons before it answers; None for an unknown model."""
    if _REASONING.match(model):
        return True
    return False if _PLAIN.match(model) else None


def samples(model: str, effort: str | None) -> bool:
    """Whether it takes `temperature` and `top_p`: a model that reasons does not, unless its effort is `none`.

    >>> samples("gpt-5.5", None), samples("gpt-5.5", "none"), samples("gpt-5.2", None)
    (False, True, True)
    """
    quiet = effort == "none" if effort is not None else _QUIET.match(model) is not None
    return not reasons(model) or (quiet and _SAMPLING.match(model) is not None)


def supports_schema(model: str) -> bool:
    """Whether it can be held to a JSON Schema; an unknown model is taken to.

    >>> supports_schema("gpt-5.5"), supports_schema("gpt-3.5-turbo")
    (True, False)
    """
    return _WITHOUT_SCHEMA.match(model) is None


def stops(model: str, server: Server = COMPATIBLE) -> bool:
    """Whether it takes texts at which the answer ends, on Chat Completions.

    >>> stops("o3-mini"), stops("o3"), stops("gpt-5.5")
    (True, False, False)
    """
    if server.no_stop is not None and re.search(server.no_stop, model):
        return False
    return _WITHOUT_STOP.match(model) is None


NAME: Final = "openai"
"""The name of the provider, in metadata and options."""


def mark(**values: Any) -> dict[str, Any]:
    """Metadata of the values that are not None; empty where all are None.

    >>> mark(id="msg_1", phase=None)
    {'openai': {'id': 'msg_1'}}
    """
    known = {name: value for name, value in values.items() if value is not None}
    return {NAME: known} if known else {}


def marks(part: WithMetadata, *names: str) -> Mapping[str, Any]:
    """OpenAI's own metadata of a part or a message, empty where there is none; with names, what there is of those.

    >>> from fxai.messages.message import TextPart
    >>> marks(TextPart("Hello", metadata=mark(id="msg_1", phase="final")), "id", "status")
    {'id': 'msg_1'}
    """
    found = part.metadata.get(NAME)
    own: Mapping[str, Any] = found if is_object(found) else {}
    return {name: own[name] for name in names if name in own} if names else own


_EXTRA: Final = "extra_body"
_RESPONSE: Final = "response_id"  # of a response in the background, with which the request goes on
_SHARED: Final = frozenset(
    (
        *("metadata", "moderation", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "safety_identifier", "service_tier", "store", "stream_options", "temperature"),
        *("tool_choice", "top_logprobs", "top_p", "user"),
    )
)
# The fields of a request as the official SDK's parameter types have them, but for those that are made here from
# prompt and tools.
_FIELDS: Final[Mapping[Api, frozenset[str]]] = {
    "responses": _SHARED
    | {
        *(
            "access_programs",
            "background",
            "background_options",
            "context_management",
            "conversation",
            "image",
            "include",
            "instructions",
        ),
        *("max_output_tokens", "max_tool_calls", "previous_response_id", "prompt", "reasoning", "text", "truncation"),
    },
    "chat": _SHARED
    | {
        *("audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "modalities"),
        *("prediction", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "verbosity"),
        "web_search_options",
    },
}
_OURS: Final = frozenset(("model", "input", "messages", "tools", "stream"))


def option_fields(
    request: ModelRequest, model: str, api: Api, notes: Notes, server: Server = COMPATIBLE
) -> dict[str, Any]:
    """The fields of the options that all providers share; what cannot be sent is noted."""
    fields: dict[str, Any] = {}
    if request.max_tokens is not None:
        # On Chat Completions OpenAI's own models want the new name, and servers of others know the old one.
        chat = server.token_limit or ("max_completion_tokens" if is_known(model) else "max_tokens")
        fields["max_output_tokens" if api == "responses" else chat] = request.max_tokens
    if request.temperature is not None:
        if samples(model, _effort(request)):
            fields["temperature"] = request.temperature
        else:
            problem = f"{model} reasons, and takes no temperature: it is not sent"
            notes.warn("unsupported-option", "temperature", problem)
    if request.stop and api == "responses":
        notes.warn("unsupported-option", "stop", "OpenAI's Responses API has no stop texts: they are not sent")
    elif request.stop and not stops(model, server):
        notes.warn("unsupported-option", "stop", f"{model} takes no stop texts: they are not sent")
    elif request.stop:
        fields["stop"] = list(request.stop)
    if request.reasoning is not None:
        fields.update(_effort_field(request.reasoning, model, api, notes, server))
    return fields


def _effort(request: ModelRequest) -> str | None:
    """How much is to be thought, as the provider's own options say, or the request; None: as the model does."""
    own = request.provider_options.get(NAME)
    options: Mapping[str, Any] = own if is_object(own) else {}
    reasoning = options.get("reasoning")
    effort = (reasoning.get("effort") if is_object(reasoning) else None) or options.get("reasoning_effort")
    return effort if isinstance(effort, str) else request.reasoning


_LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _effort_field(effort: str, model: str, api: Api, notes: Notes, server: Server) -> dict[str, Any]:
    """The field of the effort, which is the nearest one that the server knows."""
    if reasons(model) is False or (api == "chat" and server.effort is None):
        notes.warn("unsupported-option", "reasoning", f"{model} does not reason: the effort is not sent")
        return {}
    if api == "responses":
        return {"reasoning": {"effort": effort}}
    nearest = effort
    if server.efforts and effort not in server.efforts:
        asked = _LEVELS.index(effort)
        places = [_LEVELS.index(one) for one in server.efforts if one != "none"]
        nearest = _LEVELS[min(places, key=lambda place: (abs(place - asked), -place))]  # of two, the greater one
        problem = f"{server.name} has no effort {effort!r}: {nearest!r} is sent"
        notes.warn("unsupported-option", "reasoning", problem)
    return {"reasoning": {"effort": nearest}} if server.effort == "reasoning" else {"reasoning_effort": nearest}


def merge_options(
    fields: Mapping[str, Any], options: Mapping[str, Any], api: Api, server: Server = COMPATIBLE
) -> dict[str, Any]:
    """The fields of a request with the provider's own options: objects by their members, `include` as both lists.

    Those of OpenAI come first, then those under the name of the server, which may hold its own fields.

    Raises `PreparationError`: the options are no object, or hold what this API has no field for, or what is made from
    the prompt and the tools.
    """
    merged, apart = dict(fields), {_EXTRA, _RESPONSE} if api == "responses" else {_EXTRA}
    for name in dict.fromkeys((NAME, server.name)) if api == "chat" else (NAME,):
        own = options.get(name, {})
        if isinstance(own, msgspec.Struct):
            own = msgspec.json.decode(msgspec.json.encode(own))
        where = f"provider_options[{name!r}]"
        if not is_object(own):
            raise PreparationError.of(where, f"is {type(own).__name__}: give an object")
        _check(own, api, server if name == server.name else COMPATIBLE, where)
        extra = own.get(_EXTRA, {})
        if not is_object(extra) or _OURS & extra.keys():
            ours = ", ".join(sorted(_OURS))
            raise PreparationError.of(f"{where}[{_EXTRA!r}]", f"is an object of further fields, none of them: {ours}")
        for key, value in [*own.items(), *extra.items()]:
            if value is not None and key not in apart:
                merged[key] = _join(merged.get(key), without_nulls(value))
    return merged


def asks_usage(options: Mapping[str, Any], server: Server) -> bool:
    """Whether a stream of Chat Completions is asked for its usage: not where `stream_options` is given as None.

    >>> asks_usage({"openai": {"stream_options": None}}, COMPATIBLE), asks_usage({}, COMPATIBLE)
    (False, True)
    """
    given = [own for name in (NAME, server.name) if is_object(own := options.get(name))]
    return server.stream_usage and not any("stream_options" in own and own["stream_options"] is None for own in given)


def response_id_of(options: Mapping[str, Any]) -> str | None:
    """The response in the background with which the options go on; None: a new one is asked for.

    Raises `PreparationError`: it is no text.
    """
    own = options.get(NAME)
    found = own.get(_RESPONSE) if is_object(own) else None
    if found is None or (isinstance(found, str) and found):
        return found
    raise PreparationError.of(f"provider_options[{NAME!r}][{_RESPONSE!r}]", "is the id of a response, as a text")


def _check(own: Mapping[str, Any], api: Api, server: Server, where: str) -> None:
    """Refuses fields that neither the API nor the server has, and values of the server's own that are wrong."""
    if server is not COMPATIBLE and server.options is None and server.name != NAME:
        unknown = sorted(key for key in own if key in _OURS)
    else:
        apart = {_EXTRA, _RESPONSE} if api == "responses" else {_EXTRA}
        theirs = frozenset(() if server.options is None else option_names(server.options))
        unknown = sorted(key for key in own if key not in _FIELDS[api] | theirs | apart)
    if unknown:
        raise PreparationError.of(where, _refusal(unknown, api, server))
    if server.options is not None:
        checked_options(
            {key: value for key, value in own.items() if key in option_names(server.options)}, server.options, where
        )


def _join(before: Any, value: Any) -> Any:
    if is_object(before) and is_object(value):
        return {**before, **value}
    if is_array(before) and is_array(value):
        return [*before, *(one for one in value if one not in before)]
    return value


def _refusal(unknown: list[str], api: Api, server: Server) -> str:
    names = ", ".join(map(repr, unknown))
    if all(name in _OURS for name in unknown):
        return f"{names} is made from the model, the prompt and the tools, and cannot be given here"
    there = ", ".join(sorted({*_FIELDS[api], *(() if server.options is None else option_names(server.options))}))
    return f"there is no option {names}; there are: {there}. What other servers know goes into {_EXTRA!r}"
