"""Requests to OpenAI: a request to a model, as the body of a call of Responses or Chat Completions.

>>> from fxai.messages.prompt import Prompt
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello"), max_tokens=100), model="gpt-6-luna", api="chat")
>>> sent.fields
{'model': 'gpt-6-luna', 'messages': [{'role': 'user', 'content': 'Hello'}], 'max_completion_tokens': 100}
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.messages.part import WarningPart
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidUserInputError, UnsupportedSchemaError
from fxai.models.fact_table import unknown_model
from fxai.models.model_facts import ModelFacts
from fxai.models.model_request import ModelRequest, ToolChoice, ToolChoices
from fxai.models.prepared_tools import Notes, PreparationError, PreparedTools, json_of
from fxai.models.request_cache import RequestCache, size_as_json
from fxai.models.structured_output import AnswerForm, answer_name
from fxai.providers.openai.background import Background
from fxai.providers.openai.chat_input import ChatWriter
from fxai.providers.openai.known_models import facts_at
from fxai.providers.openai.options import asks_usage, merge_options, option_fields, response_id_of
from fxai.providers.openai.responses_input import InputWriter, SystemRole
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_encoding import Api, RequestTools, prepare_tools, strict_keywords_of
from fxai.schema.json_schema import JsonSchema
from fxai.schema.request_form import CHAT, COMPATIBLE_CHAT, RESPONSES, RequestRules
from fxai.schema.strict import OPENAI
from fxai.tools.identity import NameConflictError

_ANSWER: Final = "final_answer"
_DESCRIPTION: Final = "Gives the final answer. Call it once, with the whole answer."
_UNKNOWN: Final = ModelFacts(provider="openai", model="")
_NO_TOOLS = RequestTools(PreparedTools(b"{}", prepare_tools((), model="", facts=_UNKNOWN).naming))


@final
class Profile(msgspec.Struct, frozen=True):
    """What is known of a model and of the server that runs it; None: as the server and the model's name say."""

    api: Api = "responses"
    """The API."""
    strict_json_schema: bool | None = None
    """Whether tools and answers are strict where they do not say; None: where they can be."""
    supports_strict: bool | None = None
    """Whether the model has strict mode for tools."""
    supports_schema: bool | None = None
    """Whether the model can be held to a JSON Schema; where not, it must call a tool instead."""
    system_role: SystemRole | None = None
    """How system messages are sent; None: as instructions on Responses, as role `system` on Chat Completions."""
    store: bool | None = None
    """Whether the provider keeps the answers; None: as it does by itself, which is yes on Responses."""
    incremental: bool = False
    """Whether a prompt that goes on from a kept answer is sent as what is new alone; on Responses."""
    background: Background | None = None
    """Whether the answers are made in the background, and how they are waited for; on Responses."""
    server: Server = COMPATIBLE
    """The server, on Chat Completions."""
    known_as: str | None = None
    """The model whose abilities it has, where its name does not say so, as that of a deployment; None: its name."""
    facts: ModelFacts | None = None
    """Facts about the model that win over the server and the table. A field without a value takes their value."""

    def facts_of(self, model: str) -> ModelFacts:
        """Return the facts about a model at the server of this profile.

        Args:
            model: The name of the model, which `known_as` replaces.
        """
        found = facts_at(self.server, self.known_as or model, self.api, self.facts)
        given = {"strict_tools": self.supports_strict, "structured_output": self.supports_schema}
        values = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(found, **values) if values else found


@final
class WireRequest(msgspec.Struct, frozen=True):
    """A request as it is sent, and what is needed to read its answer."""

    fields: dict[str, Any]
    """The body, as plain JSON data."""
    offer: RequestTools
    """The tools."""
    api: Api = "responses"
    """Which API it is for."""
    format: AnswerForm | None = None
    """How the answer is held to a schema; None for free text."""
    warnings: tuple[WarningPart, ...] = ()
    """What was asked for and is not sent."""
    digests: tuple[bytes, ...] = ()
    """The digests of the input, where the profile says `incremental`."""
    background: Background | None = None
    """How an answer that is made in the background is waited for; None: it comes at once."""
    response_id: str | None = None
    """The response in the background with which it goes on: nothing is sent but questions for that."""
    think_tags: bool = True
    """True if `<think>…</think>` before a text is reasoning: on every host but OpenAI's own."""

    def __hash__(self) -> int:
        return hash((self.offer, self.api))

    @property
    def is_buffered(self) -> bool:
        """Whether a stream gives the answer only when it is whole, since its strict form must be undone."""
        return self.format is not None and not self.format.verbatim

    def is_answer(self, call: object) -> bool:
        """Whether a call of this name is the answer."""
        return self.format is not None and self.format.tool is not None and call == self.format.tool

    def answer(self, text: str) -> str:
        """The text of an answer, led back from its strict form where it has one."""
        return text if self.format is None else self.format.text(text)

    @property
    def encoded(self) -> bytes:
        """The body as JSON.

        Raises:
            PreparationError: If the request has no message, or JSON cannot represent a part of the body.
        """
        fields = self.fields
        if not (fields.get("messages") or fields.get("input") or self.response_id or _CONTINUED & fields.keys()):
            raise PreparationError(InvalidUserInputError(_NO_MESSAGE))
        return json_of(fields)

    @property
    def body(self) -> dict[str, Any]:
        """The body as a new plain copy.

        Raises:
            PreparationError: If the request has no message, or JSON cannot represent a part of the body.
        """
        return cast("dict[str, Any]", msgspec.json.decode(self.encoded))

    def count_body(self) -> bytes:
        """The body that asks for the tokens of this request, as JSON.

        Raises:
            PreparationError: JSON cannot carry a part of it.
        """
        if self.api == "chat":
            return json_of(self.fields)
        return json_of({name: value for name, value in self.fields.items() if name in _COUNTED})


_CONTINUED: Final = frozenset(("previous_response_id", "conversation", "prompt"))
_NO_MESSAGE: Final = "nothing of the prompt can be sent as a message. Add a message of the user"

# What OpenAI counts of a request on Responses; the rest of it takes no tokens of the prompt.
_COUNTED: Final = frozenset(
    (
        *("conversation", "input", "instructions", "model", "parallel_tool_calls", "personality"),
        *("previous_response_id", "reasoning", "text", "tool_choice", "tools", "truncation"),
    )
)

Cache: TypeAlias = RequestCache[RequestTools, "InputWriter | ChatWriter"]
"""What earlier requests to a model leave for the next one."""


def prepare_request(
    request: ModelRequest,
    *,
    model: str,
    stream: bool = False,
    strict_json_schema: bool | None = None,
    profile: Profile | None = None,
    api: Api | None = None,
    facts: ModelFacts | None = None,
    cache: Cache | None = None,
) -> WireRequest:
    """The request that asks a model of OpenAI's, or of a compatible server: a pure function, nothing is sent.

    Args:
        request: what is asked, independent of any provider.
        model: the model's name.
        stream: True to receive the answer as a stream.
        strict_json_schema: The value for tools without the annotation `Strict` and for the answer. Default: the value
            of the profile.
        profile: what else is known of it.
        api: Responses or Chat Completions, in place of the profile's.
        facts: Facts about the model, which win over the facts of the profile.
        cache: what earlier requests left, which is used and added to; None: all is made anew. The request is the same.

    Raises:
        PreparationError: the tools or the answer's schema must be strict and cannot be; a part of the prompt cannot be
            sent; a call has no result; `provider_options["openai"]` holds what does not exist; two tools have one name;
            the API does not serve the model, or refuses the tools.
    """
    known = profile or Profile()
    strict = known.strict_json_schema if strict_json_schema is None else strict_json_schema
    changes = {"api": api or known.api, "facts": facts or known.facts, "strict_json_schema": strict}
    known = msgspec.structs.replace(known, **changes)
    notes, able = Notes(), known.facts_of(model)
    _check_model(able, known.api, notes)
    offer = _offer(request, able, known, notes, cache)
    form = _format(request, able, known, notes, offer)
    history, digests, added = _history(request.prompt, offer, notes, known, cache)
    fields: dict[str, Any] = {"model": model, **history, **_profile_fields(able, known, notes)}
    calls = _has_calls(offer, form)
    fields.update(option_fields(request, able, known.api, notes, known.server, calls=calls))
    fields.update(offer.prepared.plain_fields)
    if added:  # they are defined where they come
        left = offer.without(added, fields.pop("tools", ()))
        fields.update({"tools": left} if left else {})
    if form is not None and form.tool is None:
        fields.update(_format_field(form, request, known.api))
    elif form is not None:
        _ask_for(form, request, fields, known.api, able)
    merged = merge_options(fields, request.provider_options, known.api, known.server)
    if stream:
        merged["stream"] = True
    if stream and known.api == "chat" and asks_usage(request.provider_options, known.server):
        merged["stream_options"] = {"include_usage": True, **merged.get("stream_options", {})}
    sent = WireRequest(merged, offer, known.api, form, (*offer.prepared.warnings, *notes.warnings), digests)
    sent = msgspec.structs.replace(sent, think_tags=not known.server.official)
    return _in_background(sent, request, known)


def _check_model(facts: ModelFacts, api: Api, notes: Notes) -> None:
    """Note that the model is unknown or retired.

    Raises:
        PreparationError: If the provider serves the model on another API only.
    """
    if facts.endpoints and api not in facts.endpoints:
        other = "the Responses API" if api == "chat" else "Chat Completions"
        remedy = f"pass api={facts.endpoints[0]!r}"
        raise PreparationError.of("api", f"OpenAI serves the model {facts.model!r} on {other} only: {remedy}")
    warning = unknown_model(facts)
    if warning is not None and facts.like is not None:
        notes.warnings.append(warning)
    source = facts.sources.get("retires")
    if facts.retires and source and source.checked and facts.retires <= source.checked:
        notes.warn(
            "other", facts.model, f"OpenAI retired the model {facts.model!r} on {facts.retires}; use another model"
        )


def _has_calls(offer: RequestTools, form: AnswerForm | None) -> bool:
    """Return True if the request has tools that the model calls as functions."""
    tools = offer.prepared.plain_fields.get("tools", ())
    return (form is not None and form.tool is not None) or any(one.get("type") in _CALLED for one in tools)


_CALLED: Final = ("function", "custom")


def _profile_fields(facts: ModelFacts, known: Profile, notes: Notes) -> dict[str, Any]:
    """The fields that the profile alone decides."""
    fields: dict[str, Any] = {} if known.store is None else {"store": known.store}
    if known.api == "responses" and facts.reasons:
        # Encrypted reasoning goes back with the history, stored or not; other models refuse to be asked for it.
        fields["include"] = ["reasoning.encrypted_content"]
    if known.background is not None and known.api == "responses":
        fields.update(known.background.fields)
    elif known.background is not None:
        notes.warn("unsupported-option", "background", "Chat Completions has no background: the answer comes at once")
    return fields


def _in_background(sent: WireRequest, request: ModelRequest, known: Profile) -> WireRequest:
    """The request, with how its answer is waited for where that is made in the background."""
    response_id = response_id_of(request.provider_options) if sent.api == "responses" else None
    if response_id is None and not sent.fields.get("background"):
        sent.fields.pop("background_options", None)
        return sent
    waiting = known.background or Background()
    window: Any = sent.fields.get("background_options", {}).get("completion_window")
    waiting = msgspec.structs.replace(waiting, window=window)
    return msgspec.structs.replace(sent, background=waiting, response_id=response_id)


def prepare_prompt(
    prompt: Prompt, *, api: Api = "responses", profile: Profile | None = None, tools: RequestTools | None = None
) -> Mapping[str, Any]:
    """The fields that hold a prompt: `input` and `instructions` on Responses, `messages` on Chat Completions.

    Args:
        prompt: the messages.
        api: Responses or Chat Completions.
        profile: how system messages are sent, and whether the provider keeps its answers.
        tools: the tools of the request, by which earlier calls are written.

    Raises:
        PreparationError: a part of it cannot be sent, or a call has no result.

    >>> prepare_prompt(Prompt.make("Hello"), api="chat")
    {'messages': [{'role': 'user', 'content': 'Hello'}]}
    """
    known = msgspec.structs.replace(profile or Profile(), api=api)
    return _history(prompt, tools or _NO_TOOLS, Notes(), known, None)[0]


def _is_official(known: Profile) -> bool:
    """Return whether the rules of OpenAI's own host are true for the server."""
    return known.api == "responses" or known.server.official


def _rules(known: Profile) -> RequestRules:
    """The rules of the server for every tool."""
    return RESPONSES if known.api == "responses" else CHAT if known.server.official else COMPATIBLE_CHAT


def _offer(request: ModelRequest, facts: ModelFacts, known: Profile, notes: Notes, cache: Cache | None) -> RequestTools:
    """The tools of the request; with a cache, prepared once for all requests that have them."""
    choice, parallel = _possible(request, facts, notes)

    def prepare() -> RequestTools:
        try:
            prepared = prepare_tools(
                request.tools,
                model=facts.model,
                api=known.api,
                facts=facts,
                strict_json_schema=known.strict_json_schema,
                tool_choice=None if choice == "auto" else choice,
                parallel_tool_calls=parallel,
                cache_marks=known.server.cache_marks,
                request_rules=_rules(known),
                strict_keywords=None if _is_official(known) else (),
            )
        except NameConflictError as conflict:
            raise PreparationError.of("tools", str(conflict)) from None
        return RequestTools(prepared, request.tools)

    options = (facts, known, choice, parallel)
    return prepare() if cache is None else cache.tools(request.tools, options, prepare)


def _possible(request: ModelRequest, facts: ModelFacts, notes: Notes) -> tuple[ToolChoices, bool | None]:
    """The tool choice and the wish for parallel calls, as far as the model accepts them."""
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if parallel is not None and facts.parallel_tool_calls is False:
        problem = f"the model {facts.model!r} refuses the field parallel_tool_calls; fxai sends none"
        notes.warn("unsupported-option", "parallel_tool_calls", problem)
        parallel = None
    free = choice in ("auto", "none") or (isinstance(choice, ToolChoice) and choice.mode == "auto")
    if free or facts.forced_calls is not False:
        return choice, parallel
    problem = f"the model {facts.model!r} refuses a forced call; it is free to call no tool"
    notes.warn("unsupported-option", "tool_choice", problem)
    return (ToolChoice.one_of(choice.names) if isinstance(choice, ToolChoice) else "auto"), parallel


def _history(
    prompt: Prompt, offer: RequestTools, notes: Notes, known: Profile, cache: Cache | None
) -> tuple[dict[str, Any], tuple[bytes, ...], Set[str]]:
    """The fields that hold the prompt, their digests, and the tools in them; with a cache, new messages are written."""
    messages = prompt.messages
    found = None if cache is None else cache.take(messages, offer)
    writer, count, size = found or (_writer(offer, known), 0, 0.0)
    before = len(writer.items)
    writer.write(messages[count:])
    notes.warnings += writer.warnings
    digests = writer.digests() if known.incremental and isinstance(writer, InputWriter) else ()
    fields = writer.fields()
    if cache is not None and writer.is_extensible:  # from here on another request may go on writing
        cache.keep(messages, offer, writer, size + size_as_json(writer.items[before:]))
    return fields, digests, writer.added if isinstance(writer, InputWriter) else frozenset()


def _writer(offer: RequestTools, known: Profile) -> InputWriter | ChatWriter:
    role = known.system_role
    if known.api == "chat":
        return ChatWriter(offer, system_role="developer" if role == "developer" else "system", server=known.server)
    return InputWriter(offer, system_role=role or "instructions", stored=known.store is not False)


def _format(
    request: ModelRequest, facts: ModelFacts, known: Profile, notes: Notes, offer: RequestTools
) -> AnswerForm | None:
    if request.response_schema is None:
        return None
    keywords = strict_keywords_of(facts) if _is_official(known) else ()
    form = AnswerForm.of(request.response_schema, OPENAI.with_keywords(keywords))
    if known.strict_json_schema is False:
        form = form.loosen()
    elif form.obstacles:
        _not_strict(form, notes, must=known.strict_json_schema is True)
    if facts.structured_output is not False:
        return form
    if facts.function_calls is False:
        problem = f"the model {facts.model!r} accepts no schema and no function tools, so it cannot answer in this form"
        raise PreparationError.of("response_schema", problem)
    name = answer_name(request.response_schema, request.response_name, _ANSWER)
    return form.by_tool(name, offer.prepared.names, rules=_rules(known))


def _not_strict(form: AnswerForm, notes: Notes, *, must: bool) -> None:
    first, why = form.obstacles[0], "; ".join(map(str, form.obstacles))
    if must:
        problem = f"the answer must be strict, and {OPENAI.name} has no strict form for its schema: {why}"
        reason = UnsupportedSchemaError(description=problem, pointer=first.pointer, keyword=first.keyword)
        raise PreparationError(reason)
    notes.warn("not-strict", None, f"the answer's schema is not sent as strict: {OPENAI.name} has no form for {why}")


def _format_field(form: AnswerForm, request: ModelRequest, api: Api) -> dict[str, Any]:
    """The field that holds the form of the answer."""
    schema = request.response_schema or form.asked
    text = _description(schema)
    name = answer_name(schema, request.response_name, "answer")
    about = {"name": name, **({"description": text} if text else {}), "schema": form.document, "strict": not form.loose}
    if api == "responses":
        return {"text": {"format": {"type": "json_schema", **about}}}
    return {"response_format": {"type": "json_schema", "json_schema": about}}


def _description(schema: JsonSchema | None) -> str | None:
    text = None if schema is None else schema.get("description")
    return text if isinstance(text, str) and text.strip() else None


def _ask_for(form: AnswerForm, request: ModelRequest, fields: dict[str, Any], api: Api, facts: ModelFacts) -> None:
    """A tool for the answer, which must be called where the choice leaves that open and the model takes that."""
    named = {"name": form.tool}
    description = " ".join(filter(None, (_DESCRIPTION, _description(request.response_schema))))
    about = {**named, "description": description, "parameters": form.document}
    tool = {"function": about} if api == "chat" else {**about, "strict": False}
    among_others = "tools" in fields and fields.get("tool_choice") != "none"
    fields["tools"] = [*fields.get("tools", []), {"type": "function", **tool}]
    if facts.forced_calls is False:
        return
    if not among_others:
        fields["tool_choice"] = {"type": "function", **({"function": named} if api == "chat" else named)}
    elif fields.get("tool_choice") in (None, "auto"):
        fields["tool_choice"] = "required"
