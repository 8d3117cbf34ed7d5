"""Requests to OpenAI. Use `prepare_request` to convert a portable request to a body for Responses or Chat Completions.

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
from fxai.models.request_cache import RequestCache
from fxai.models.structured_output import AnswerForm, AnswerWriter, answer_name
from fxai.providers.openai.background import Background
from fxai.providers.openai.chat_input import ChatWriter
from fxai.providers.openai.known_models import facts_at
from fxai.providers.openai.options import asks_usage, merge_options, option_fields, response_id_of
from fxai.providers.openai.responses_input import InputWriter, SystemRole
from fxai.providers.openai.server import COMPATIBLE, Server
from fxai.providers.openai.tool_encoding import Api, RequestTools, prepare_tools, strict_keywords_of
from fxai.schema.data import JsonObject
from fxai.schema.request_form import CHAT, COMPATIBLE_CHAT, RESPONSES, RequestRules
from fxai.schema.strict import OPENAI
from fxai.tools.identity import NameConflictError

_ANSWER: Final = "final_answer"
_DESCRIPTION: Final = "Gives the final answer. Call it once, with the whole answer."
_UNKNOWN: Final = ModelFacts(provider="openai", model="")
_NO_TOOLS = RequestTools(PreparedTools(b"{}", prepare_tools((), model="", facts=_UNKNOWN).naming))


@final
class Profile(msgspec.Struct, frozen=True):
    """The profile of a model and of its server. By default, the server and the name of the model decide."""

    api: Api = "responses"
    """The API."""
    strict_json_schema: bool | None = None
    """True if tools and answers without their own setting are strict. By default, they are strict if possible."""
    supports_strict: bool | None = None
    """True if the model has strict mode for tools."""
    supports_schema: bool | None = None
    """True if the API can enforce a JSON Schema. If False, the model must call a tool instead."""
    system_role: SystemRole | None = None
    """The role of system messages. By default instructions on Responses, and the role `system` on Chat Completions."""
    store: bool | None = None
    """True if the provider stores the answers. By default the provider decides; Responses stores them."""
    incremental: bool = False
    """True to send only the new items of a prompt that continues a stored answer. Only on Responses."""
    background: Background | None = None
    """The settings of answers in the background, or None. Only on Responses."""
    server: Server = COMPATIBLE
    """The server of Chat Completions."""
    known_as: str | None = None
    """The model with the same abilities. Set it if the name, such as a deployment's name, does not reveal them."""
    facts: ModelFacts | None = None
    """Facts of the model that replace the facts of the server and of the table. A missing fact has their value."""

    def facts_of(self, model: str) -> ModelFacts:
        """Return the facts of a model on the server of this profile.

        Args:
            model: The name of the model, which `known_as` replaces.
        """
        found = facts_at(self.server, self.known_as or model, self.api, self.facts)
        given = {"strict_tools": self.supports_strict, "structured_output": self.supports_schema}
        values = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(found, **values) if values else found


@final
class WireRequest(msgspec.Struct, frozen=True):
    """A prepared request and the data to read its answer."""

    fields: JsonObject
    """The body as plain JSON data."""
    offer: RequestTools
    """The tools."""
    api: Api = "responses"
    """The API of the request."""
    format: AnswerForm | None = None
    """The form of an answer with a schema. None for free text."""
    warnings: tuple[WarningPart, ...] = ()
    """Warnings for parts of the request that fxai does not send."""
    digests: tuple[bytes, ...] = ()
    """The digests of the input if the profile is `incremental`."""
    background: Background | None = None
    """The settings of waiting for an answer in the background. None for an immediate answer."""
    response_id: str | None = None
    """The id of the background response to continue. fxai then only reads this response."""
    think_tags: bool = True
    """True if `<think>…</think>` before the text is reasoning. True on every host except OpenAI's own."""

    def __hash__(self) -> int:
        return hash((self.offer, self.api))

    @property
    def is_buffered(self) -> bool:
        """True if a stream delays the answer until its end, to convert its strict form back."""
        return self.format is not None and not self.format.verbatim

    def answer_writer(self) -> AnswerWriter | None:
        """Return a writer that converts a streamed answer, or None if fxai converts the whole text at its end."""
        return None if self.format is None else self.format.writer()

    def is_answer(self, call: object) -> bool:
        """Return True if a call with this name is the answer."""
        return self.format is not None and self.format.tool is not None and call == self.format.tool

    def answer(self, text: str) -> str:
        """Return the text of an answer. Convert a strict form back."""
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
    def body(self) -> JsonObject:
        """The body as a new copy of plain data.

        Raises:
            PreparationError: If the request has no message, or JSON cannot represent a part of the body.
        """
        return cast(JsonObject, msgspec.json.decode(self.encoded))

    def count_body(self) -> bytes:
        """Return the body of a request for the token count, as JSON.

        Raises:
            PreparationError: If JSON cannot represent a part of the body.
        """
        if self.api == "chat":
            return json_of(self.fields)
        return json_of({name: value for name, value in self.fields.items() if name in _COUNTED})


_CONTINUED: Final = frozenset(("previous_response_id", "conversation", "prompt"))
_NO_MESSAGE: Final = "no part of the prompt can be sent as a message. Add a user message"

# The fields that OpenAI's endpoint for token counts accepts. The other fields use no tokens of the prompt.
_COUNTED: Final = frozenset(
    (
        *("conversation", "input", "instructions", "model", "parallel_tool_calls", "personality"),
        *("previous_response_id", "reasoning", "text", "tool_choice", "tools", "truncation"),
    )
)

Cache: TypeAlias = RequestCache[RequestTools, "InputWriter | ChatWriter"]
"""The cache of data that later requests to the same model can reuse."""


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
    """Prepare a request to a model of OpenAI or of a compatible server. This function is pure and sends nothing.

    Args:
        request: The portable request.
        model: The name of the model.
        stream: True to receive the answer as a stream.
        strict_json_schema: The setting for tools without the annotation `Strict` and for the answer. By default the
            value of the profile.
        profile: The profile of the model and its server.
        api: Responses or Chat Completions. By default the API of the profile.
        facts: Facts of the model, which replace the facts of the profile.
        cache: A cache of data from earlier requests, which this function reads and updates. The cache does not change
            the result.

    Raises:
        PreparationError: If the tools or the answer's schema must be strict and cannot be strict. If a part of the
            prompt cannot be sent, or a call has no result. If `provider_options["openai"]` contains unknown fields. If
            two tools have the same name. If the API does not serve the model, or rejects the tools.
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
    fields: JsonObject = {"model": model, **history, **_profile_fields(able, known, notes)}
    by_tool = form is not None and form.tool is not None
    calls = by_tool or any(
        one.get("type") in ("function", "custom") for one in offer.prepared.plain_fields.get("tools", ())
    )
    fields.update(option_fields(request, able, known.api, notes, known.server, calls=calls))
    fields.update(offer.prepared.plain_fields)
    if added:  # the conversation defines these tools
        left = offer.without(added, fields.pop("tools", ()))
        fields.update({"tools": left} if left else {})
    if form is not None:
        _add_form(form, request, fields, known.api, able)
    merged = merge_options(fields, request.provider_options, known.api, known.server)
    if stream:
        merged["stream"] = True
    if stream and known.api == "chat" and asks_usage(request.provider_options, known.server):
        merged["stream_options"] = {"include_usage": True, **merged.get("stream_options", {})}
    sent = WireRequest(merged, offer, known.api, form, (*offer.prepared.warnings, *notes.warnings), digests)
    sent = msgspec.structs.replace(sent, think_tags=not known.server.official)
    return _in_background(sent, request, known)


def _check_model(facts: ModelFacts, api: Api, notes: Notes) -> None:
    """Add a warning for an unknown or retired model.

    Raises:
        PreparationError: If the provider serves the model only on another API.
    """
    if facts.endpoints and api not in facts.endpoints:
        other = "the Responses API" if api == "chat" else "Chat Completions"
        remedy = f"Pass api={facts.endpoints[0]!r}"
        raise PreparationError.of("api", f"OpenAI serves the model {facts.model!r} only on {other}. {remedy}")
    warning = unknown_model(facts)
    if warning is not None and facts.like is not None:
        notes.warnings.append(warning)
    source = facts.sources.get("retires")
    if facts.retires and source and source.checked and facts.retires <= source.checked:
        notes.warn(
            "other", facts.model, f"OpenAI retired the model {facts.model!r} on {facts.retires}; use another model"
        )


def _profile_fields(facts: ModelFacts, known: Profile, notes: Notes) -> JsonObject:
    """Return the fields that depend only on the profile."""
    fields: JsonObject = {} if known.store is None else {"store": known.store}
    if known.api == "responses" and facts.reasons:
        # later requests send encrypted reasoning back, stored or not; other models reject this field
        fields["include"] = ["reasoning.encrypted_content"]
    if known.background is not None and known.api == "responses":
        fields.update(known.background.fields)
    elif known.background is not None:
        notes.warn("unsupported-option", "background", "Chat Completions has no background; the answer is immediate")
    return fields


def _in_background(sent: WireRequest, request: ModelRequest, known: Profile) -> WireRequest:
    """Return the request with the settings of waiting if the answer is created in the background."""
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
    """Return the fields of a prompt: `input` and `instructions` on Responses, or `messages` on Chat Completions.

    Args:
        prompt: The messages.
        api: Responses or Chat Completions.
        profile: The role of system messages, and the storage of answers.
        tools: The tools of the request, which determine the form of earlier calls.

    Raises:
        PreparationError: If a part of the prompt cannot be sent, or if a call has no result.

    >>> prepare_prompt(Prompt.make("Hello"), api="chat")
    {'messages': [{'role': 'user', 'content': 'Hello'}]}
    """
    known = msgspec.structs.replace(profile or Profile(), api=api)
    return _history(prompt, tools or _NO_TOOLS, Notes(), known, None)[0]


def _rules(known: Profile) -> RequestRules:
    """Return the rules of the server for every tool."""
    return RESPONSES if known.api == "responses" else CHAT if known.server.official else COMPATIBLE_CHAT


def _offer(request: ModelRequest, facts: ModelFacts, known: Profile, notes: Notes, cache: Cache | None) -> RequestTools:
    """Return the tools of the request. A cache prepares them once for all requests with the same tools."""
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
                strict_keywords=() if _rules(known) is COMPATIBLE_CHAT else None,
            )
        except NameConflictError as conflict:
            raise PreparationError.of("tools", str(conflict)) from None
        return RequestTools(prepared, request.tools)

    options = (facts, known, choice, parallel)
    return prepare() if cache is None else cache.tools(request.tools, options, prepare)


def _possible(request: ModelRequest, facts: ModelFacts, notes: Notes) -> tuple[ToolChoices, bool | None]:
    """Return the tool choice and the setting of parallel calls that the model accepts."""
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if parallel is not None and facts.parallel_tool_calls is False:
        problem = f"model {facts.model!r} rejects the field parallel_tool_calls; fxai sends none"
        notes.warn("unsupported-option", "parallel_tool_calls", problem)
        parallel = None
    free = choice in ("auto", "none") or (isinstance(choice, ToolChoice) and choice.mode == "auto")
    if free or facts.forced_calls is not False:
        return choice, parallel
    problem = f"model {facts.model!r} rejects a forced call; it is free to call no tool"
    notes.warn("unsupported-option", "tool_choice", problem)
    return (ToolChoice.one_of(choice.names) if isinstance(choice, ToolChoice) else "auto"), parallel


def _history(
    prompt: Prompt, offer: RequestTools, notes: Notes, known: Profile, cache: Cache | None
) -> tuple[JsonObject, tuple[bytes, ...], Set[str]]:
    """Return the fields of the prompt, their digests, and its tools. With a cache, write only new messages."""
    found = None if cache is None else cache.take(prompt, offer)
    writer, count, _ = found or (_writer(offer, known), 0, 0.0)
    writer.write([prompt[at] for at in range(count, len(prompt))])
    notes.warnings += writer.warnings
    digests = writer.digests() if known.incremental and isinstance(writer, InputWriter) else ()
    fields = writer.fields()
    if cache is not None and writer.is_extensible:  # another request can continue here
        cache.keep(prompt, offer, writer, writer.text.size)
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
    keywords = () if _rules(known) is COMPATIBLE_CHAT else strict_keywords_of(facts)
    form = AnswerForm.of(request.response_schema, OPENAI.with_keywords(keywords))
    if known.strict_json_schema is False:
        form = form.loosen()
    elif form.unsupported:
        first, why = form.unsupported[0], "; ".join(map(str, form.unsupported))
        if known.strict_json_schema:
            problem = f"the answer must be strict, and {OPENAI.name} has no strict form for its schema: {why}"
            reason = UnsupportedSchemaError(description=problem, pointer=first.pointer, keyword=first.keyword)
            raise PreparationError(reason)
        problem = f"the answer's schema is not sent as strict: {OPENAI.name} has no form for {why}"
        notes.warn("not-strict", None, problem)
    if facts.structured_output is not False:
        return form
    if facts.function_calls is False:
        problem = f"model {facts.model!r} supports neither schemas nor function tools, so it cannot answer in this form"
        raise PreparationError.of("response_schema", problem)
    name = answer_name(request.response_schema, request.response_name, _ANSWER)
    return form.by_tool(name, offer.prepared.names, rules=_rules(known))


def _add_form(form: AnswerForm, request: ModelRequest, fields: JsonObject, api: Api, facts: ModelFacts) -> None:
    """Add the field with the form of the answer, or a tool for the answer.

    If possible, force the model to call the tool unless the choice names another tool.
    """
    schema = request.response_schema or form.asked
    found = schema.get("description")
    text = found if isinstance(found, str) and found.strip() else None
    if form.tool is None:
        described = {"description": text} if text else {}
        named = {"name": answer_name(schema, request.response_name, "answer"), **described}
        about = {**named, "schema": form.document, "strict": not form.loose}
        if api == "responses":
            fields["text"] = {"format": {"type": "json_schema", **about}}
        else:
            fields["response_format"] = {"type": "json_schema", "json_schema": about}
        return
    named = {"name": form.tool}
    description = f"{_DESCRIPTION} {text}" if text else _DESCRIPTION
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
