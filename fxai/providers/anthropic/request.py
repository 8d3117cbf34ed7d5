"""Requests to Anthropic. Use `prepare_request` to convert a portable request to the body for the Messages API.

>>> from fxai.messages.prompt import Prompt
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="claude-sonnet-5")
>>> sent.body["messages"], sent.body["max_tokens"]
([{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}], 128000)

The API rejects a whole request for one field that the model does not accept. `thinking_fields` sends the nearest
accepted value with a warning, or omits the field.

>>> from fxai.providers.anthropic.known_models import facts
>>> thinking_fields("high", facts("claude-opus-4-8"), 4096, Notes())
{'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'high'}}
>>> thinking_fields("low", facts("claude-haiku-4-5"), 64000, Notes())
{'thinking': {'type': 'enabled', 'budget_tokens': 2048}}
>>> thinking_fields("none", facts("claude-opus-5-5"), 64000, notes := Notes())
{'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'low'}}
>>> notes.warnings[0].message
"reasoning: the model 'claude-opus-5-5' cannot turn thinking off; fxai sends the effort 'low'"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.messages.part import PrefixBreak, WarningPart
from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.fact_table import unknown_model
from fxai.models.model_facts import ModelFacts, ThinkingType, nearest_effort
from fxai.models.model_request import ModelRequest, ReasoningEffort
from fxai.models.prepared_tools import Notes, PreparationError, PreparedTools, json_of
from fxai.models.request_cache import JsonItems, RequestCache
from fxai.models.structured_output import AnswerForm, answer_name
from fxai.models.token_count import estimate_request
from fxai.providers.anthropic.known_models import TABLE
from fxai.providers.anthropic.messages_input import CACHE_MARKS, Document, HistoryWriter
from fxai.providers.anthropic.options import (
    Compact,
    ContextManagement,
    InputTokens,
    RequestOptions,
    options_of_request,
)
from fxai.providers.anthropic.thinking_binding import (
    BETA,
    REMEDY,
    THINKING,
    Bound,
    Head,
    check,
    digest_of,
)
from fxai.providers.anthropic.tool_encoding import MOST, check_marks, cost_of, prepare_tools
from fxai.schema.data import JsonObject, is_object
from fxai.schema.request_form import MESSAGES
from fxai.schema.strict import ANTHROPIC

_BUDGETS: Final[Mapping[ReasoningEffort, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 32768,
}
_ON: Final[tuple[ThinkingType, ...]] = ("adaptive", "enabled")
_MARGIN: Final = 1024


# -- thinking


def thinking_fields(
    effort: ReasoningEffort | None, facts: ModelFacts, max_tokens: int, notes: Notes, *, forced: bool = False
) -> JsonObject:
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
    thinking: JsonObject = {} if kind is None else {"type": kind}
    if kind == "enabled":
        least, budget = facts.thinking_budget_min or 0, min(_BUDGETS[effort], max_tokens // 2)
        thinking = {} if budget < least else {"type": kind, "budget_tokens": budget}
        if not thinking:
            _warn(notes, f"a thinking budget needs at least {least} tokens. Set max_tokens to at least {2 * least}.")
    accepted = _levels(facts) if thinking else facts.efforts_without_thinking or ()
    fields = _effort_fields(effort, accepted, facts, notes)
    return {"thinking": thinking, **fields} if thinking else fields


def _levels(facts: ModelFacts) -> tuple[ReasoningEffort, ...]:
    return facts.efforts["messages"] if facts.efforts and "messages" in facts.efforts else ()


def _turn_off(facts: ModelFacts, notes: Notes) -> JsonObject:
    types = facts.thinking
    off = next((one for one in ("disabled", "between_tools") if one in types), None)
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


def _effort_fields(
    effort: ReasoningEffort, accepted: tuple[ReasoningEffort, ...], facts: ModelFacts, notes: Notes
) -> JsonObject:
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


VERSION: Final = "2026-10-21"
"""The version of the API in the headers of requests."""

# The network can cut a longer answer after ten minutes. The official SDKs also require a stream above this limit.
_MOST_AT_ONCE: Final = 21_333
_ANSWER: Final = "answer"
_DESCRIPTION: Final = "Gives the answer. Call this tool, once, when you know the answer, and write no text beside it."

_ADAPTIVE: Final[Mapping[str, Any]] = {"type": "adaptive"}  # the default of models that bind thinking

# The fields that Anthropic's endpoint for token counts accepts. The other fields use no tokens of the prompt.
_COUNTED: Final = frozenset(
    (
        *("cache_control", "compaction", "context_management", "mcp_servers", "messages", "model", "output_config"),
        *("speed", "system", "thinking", "tool_choice", "tools"),
    )
)

Cache: TypeAlias = RequestCache[PreparedTools, HistoryWriter]
"""The cache of data that later requests to the same model can reuse."""


@final
class PreparedRequest(msgspec.Struct, frozen=True):
    """A prepared request and the data to read its reply. Frozen, hashable, comparable, and picklable."""

    encoded: bytes
    """The body as JSON."""
    tools: PreparedTools
    """The tools of the request, and the conversion of calls to the toolkit's names."""
    betas: tuple[str, ...] = ()
    """The beta features of the request."""
    extra_headers: tuple[tuple[str, str], ...] = ()
    """Headers from the options of the request."""
    warnings: tuple[WarningPart, ...] = ()
    """Warnings for omitted or changed parts, for the response."""
    answer: AnswerForm | None = None
    """The form of an answer with a schema. None for free text."""
    documents: tuple[Document, ...] = ()
    """The documents that an answer can cite."""
    max_tokens: int = 0
    """The maximum number of tokens of the answer."""
    bound: Bound | None = None
    """The prefix of the thinking in the answer. None if the model does not bind thinking."""
    prefix_break: PrefixBreak | None = None
    """The change since the model wrote the newest thinking of the history, if its blocks reveal the change."""
    unsigned: str | None = None
    """The model, if another server than Anthropic's answers. Its thinking has no signature and can be in tags."""

    @property
    def body(self) -> JsonObject:
        """The body as a new copy of plain data."""
        return cast(JsonObject, msgspec.json.decode(self.encoded))

    @property
    def fields(self) -> JsonObject:
        """The fields of the body. The value is the same as `body`, as for a request to OpenAI."""
        return self.body

    def count_body(self) -> bytes:
        """Return the body of a request for the token count, as JSON."""
        return json_of({name: value for name, value in self.body.items() if name in _COUNTED})

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this request, in addition to the client's headers."""
        betas = {"anthropic-beta": ",".join(self.betas)} if self.betas else {}
        return {**dict(self.extra_headers), **betas}


def prepare_request(
    request: ModelRequest,
    *,
    model: str,
    stream: bool | None = False,
    eager: bool | None = None,
    strict_json_schema: bool | None = None,
    facts: ModelFacts | None = None,
    max_tokens: int | None = None,
    cache: Cache | None = None,
    official: bool | None = None,
) -> PreparedRequest:
    """Prepare a request to a model of Anthropic. This function is pure and sends nothing.

    Args:
        request: The portable request.
        model: The name of the model.
        stream: True if the reply is a stream. None to stream only a reply with a maximum of more than 21,333 tokens.
        eager: True if tools stream their arguments without validation. By default True only if `stream` is True.
        strict_json_schema: True if tools that lack the annotation `Strict` are strict. By default, they are strict if
            the model supports it. With True, an answer whose schema has no strict form is an error. Otherwise, fxai
            requests the answer with a tool and adds a warning.
        facts: The limits and abilities of the model. By default the facts that fxai has for this name.
        max_tokens: The maximum number of tokens of an answer if the request has no limit. By default the model's limit.
        cache: A cache of data from earlier requests, which this function reads and updates. The cache does not change
            the result.
        official: True if Anthropic's own host answers. It accepts only thinking that it signed. By default, True if
            fxai knows the model as a model of Anthropic.

    Raises:
        PreparationError: If fxai cannot send a tool, the tool choice, a part of the prompt, or an option, or if JSON
            cannot represent a value.
        NameConflictError: If two tools would have the same Anthropic name.
    """
    notes = Notes()
    known = TABLE.facts(model) if facts is None else TABLE.complete(facts)
    unknown = unknown_model(known) if facts is None else None
    if unknown is not None:
        notes.warnings.append(unknown)
    options = options_of_request(request.provider_options)
    streams = bool(stream) if eager is None else eager

    prepare = partial(
        prepare_tools,
        request.tools,
        model=model,
        strict_json_schema=strict_json_schema,
        facts=known,
        tool_choice=request.tool_choice,
        parallel_tool_calls=request.parallel_tool_calls,
        stream=streams,
    )
    choice = (request.tool_choice, request.parallel_tool_calls)
    settings = (strict_json_schema, known.strict_tools, streams, *choice)
    tools = prepare() if cache is None else cache.tools(request.tools, settings, prepare)
    is_official = known.family is not None if official is None else official
    writing = _Writing(request, known, tools, notes, None if is_official else model)
    writing.conversation(cache)
    writing.calls(must=strict_json_schema is True)
    writing.common(max_tokens)
    if known.binds_thinking:
        writing.bind(model, options)
    return writing.finish({"model": model}, options, cache, stream=stream)


@final
class _Writing:
    """A builder of the body of a request."""

    def __init__(
        self, request: ModelRequest, facts: ModelFacts, tools: PreparedTools, notes: Notes, unsigned: str | None
    ) -> None:
        self._request = request
        self._unsigned = unsigned
        self._facts = facts
        self._tools = tools
        self._notes = notes
        self.body: JsonObject = {}
        self.answer: AnswerForm | None = None
        self.documents: tuple[Document, ...] = ()
        self.bound: Bound | None = None
        self.prefix_break: PrefixBreak | None = None
        self.needs_remedy = False
        self._writer = HistoryWriter(tools, facts, unsigned)
        self._betas: tuple[str, ...] = ()
        self._context: ContextManagement | None = None
        self._added: frozenset[str] = frozenset()

    def conversation(self, cache: Cache | None) -> None:
        """Write the messages and the system prompt. With a cache, write only new messages."""
        prompt = self._request.prompt
        known = None if cache is None else cache.take(prompt, self._tools)
        writer, count, _ = known or (self._writer, 0, 0.0)
        writer.write([prompt[at] for at in range(count, len(prompt))])
        self._writer = writer
        history = writer.history()
        self._notes.warnings += writer.warnings
        for note in history.notes:
            self._notes.warn("other", None, note)
        self.documents = history.documents
        self.body["messages"] = history.messages
        if history.system:
            self.body["system"] = history.system
        if history.container is not None:
            self.body["container"] = history.container
        self._betas = history.betas
        self._added = history.added

    def bind(self, model: str, options: RequestOptions) -> None:
        """Omit thinking that belongs to another prefix."""
        body: JsonObject = {**self.body, **options.fields, **options.extra_body}
        tools = sorted(body.get("tools", ()), key=lambda one: str(one.get("name")))
        head = Head(model, digest_of(body.get("system", ())), digest_of(tools))
        thinking: Any = body.get("thinking", _ADAPTIVE)
        has_remedy = (
            self._facts.binding_remedy == "drop_block" and is_object(thinking) and thinking.get("type") == "adaptive"
        )
        sent, messages = self._writer.digest, self.body["messages"]
        if messages[-1]["role"] == "user" and self._writer.ends_in_answer:
            sent = digest_of([sent, messages[-1]["content"]])  # later requests do not contain this message
        verdict = check(self._writer.thoughts, head, sent, has_remedy=has_remedy)
        if verdict.left_out:
            self.body["messages"] = self._writer.history(verdict.left_out).messages
            problem = (
                f"{len(verdict.left_out)} thinking blocks of earlier turns are omitted from the request: the model "
                "accepts them only after the same system prompt, tools, and messages, and these changed"
            )
            self._notes.warn("other", None, problem)
        self.needs_remedy = verdict.needs_remedy
        self._betas = (*self._betas, BETA) if verdict.needs_remedy else self._betas
        self.bound, self.prefix_break = verdict.bound, verdict.prefix_break

    def calls(self, *, must: bool) -> None:
        """Write the tools, the tool choice, and the form of the answer."""
        fields = dict(self._tools.plain_fields)
        if self._added:  # the messages define these tools
            left = [tool for tool in fields.get("tools", ()) if tool.get("name") not in self._added]
            fields = {key: value for key, value in fields.items() if key != "tools"} | ({"tools": left} if left else {})
        if self._request.response_schema is not None:
            self._hold(AnswerForm.of(self._request.response_schema, ANTHROPIC), fields, must=must)
        choice: Any = fields.get("tool_choice")
        if choice == {"type": "auto"}:
            del fields["tool_choice"]  # the default of the API
        elif _forces(choice) and not self._facts.forced_calls:
            self._free(fields, f"model {self._facts.model!r} does not support forced calls")
        self.body.update(fields)

    def _free(self, fields: JsonObject, why: str) -> None:
        """Let the model decide about calls, because it rejects a forced call."""
        self._notes.warn("unsupported-option", "tool_choice", f"tool_choice: fxai sends 'auto', because {why}")
        fields["tool_choice"] = {**fields["tool_choice"], "type": "auto"}
        fields["tool_choice"].pop("name", None)

    def _hold(self, answer: AnswerForm, fields: JsonObject, *, must: bool) -> None:
        why = self._not_native(answer)
        if why is None:
            self.answer = answer
            self.body["output_config"] = {"format": {"type": "json_schema", "schema": answer.document}}
            return
        if self._facts.structured_output and must:
            where = answer.unsupported[0] if answer.unsupported else None
            pointer, keyword = ("", None) if where is None else (where.pointer, where.keyword)
            problem = f"the answer must be strict: {why}"
            raise PreparationError(UnsupportedSchemaError(description=problem, pointer=pointer, keyword=keyword))
        if self._facts.structured_output:
            self._notes.warn("not-strict", "response_schema", f"the answer uses a tool and is not strict: {why}")
        self._by_tool(answer, fields)

    def _not_native(self, answer: AnswerForm) -> str | None:
        """Return the reason why structured outputs cannot enforce the schema, or None if they can."""
        if not self._facts.structured_output:
            return "the model has no structured outputs"
        if answer.unsupported:
            return f"the schema has no strict form: {'; '.join(map(str, answer.unsupported))}"
        strict = [form.document.to_dict() for form in self._tools.strict.values()]
        cost = sum((cost_of(document) for document in strict), cost_of(answer.document))
        over = msgspec.structs.replace(cost, tools=len(strict)).beyond(MOST)
        return None if over is None else f"with it the request would have {over}"

    def _by_tool(self, answer: AnswerForm, fields: JsonObject) -> None:
        """Add a tool for the answer. The model must call it unless the choice requires another tool."""
        tools: list[Any] = fields.get("tools", [])
        choice: Any = fields.get("tool_choice") or {"type": "auto"}
        if choice["type"] in ("any", "tool"):
            return  # the choice requires another tool in this turn
        schema = self._request.response_schema or answer.asked
        wanted = answer_name(schema, self._request.response_name, _ANSWER)
        self.answer = answer.by_tool(wanted, {one.get("name") for one in tools}, rules=MESSAGES)
        name, text = self.answer.tool, schema.get("description")
        description = f"{_DESCRIPTION} {text}" if isinstance(text, str) and text.strip() else _DESCRIPTION
        tool = {"name": name, "description": description, "input_schema": self.answer.document}
        fields["tools"] = [*tools, tool]
        is_open = bool(tools) and choice["type"] == "auto"
        alone = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
        fields["tool_choice"] = {**choice, "type": "any"} if is_open else alone

    def common(self, default: int | None) -> None:
        """Write the options that all providers share, and add a warning for each unsupported option.

        `default` is the limit of an answer if the request has no limit.
        """
        request, facts = self._request, self._facts
        limit, wanted = facts.max_output_tokens or 1, request.max_tokens or default
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
            self._notes.warn("unsupported-option", "max_tokens", f"max_tokens: {problem}")
        self.body["max_tokens"] = most
        if request.temperature is not None:
            self.body["temperature"] = request.temperature
        if request.stop:
            self.body["stop_sequences"] = list(request.stop)
        if request.compact_at is not None:
            edit = Compact(trigger=InputTokens(value=request.compact_at))
            self._context = ContextManagement((edit,))
            self.body["context_management"] = msgspec.to_builtins(self._context)
        forced = _forces(self.body.get("tool_choice"))
        fields = thinking_fields(request.reasoning, facts, most, self._notes, forced=forced)
        config: Mapping[str, Any] = fields.pop("output_config", {})
        self.body.update(fields)
        if config:
            self.body["output_config"] = {**self.body.get("output_config", {}), **config}

    def finish(
        self, first: JsonObject, options: RequestOptions, cache: Cache | None, *, stream: bool | None
    ) -> PreparedRequest:
        """Return the request, and cache the writer for the next request.

        The provider's own options replace its fields; `output_config` is merged.
        """
        body, own = {**first, **self.body}, options.fields
        config: Any = own.get("output_config")
        if is_object(config):
            own["output_config"] = {**body.get("output_config", {}), **config}
        body |= own
        if self.needs_remedy:
            body["thinking"] = {**REMEDY, **body.get("thinking", _ADAPTIVE)}
        self._check(body)
        if stream or (stream is None and body["max_tokens"] > _MOST_AT_ONCE):
            body["stream"] = True
        body |= options.extra_body
        encoded = self._encode(body)
        # the provider's own options replace the compaction
        edits = () if self._context is None or options.context_management is not None else self._context.betas
        if cache is not None and self._writer.is_extensible:
            cache.keep(self._request.prompt, self._tools, self._writer, len(encoded))
        return PreparedRequest(
            encoded,
            self._tools,
            tuple(dict.fromkeys((*self._tools.betas, *self._betas, *edits, *options.all_betas))),
            tuple(options.headers.items()),
            (*self._tools.warnings, *self._notes.warnings),
            self.answer,
            self.documents,
            body["max_tokens"],
            self.bound,
            self.prefix_break,
            self._unsigned,
        )

    def _check(self, body: JsonObject) -> None:
        """Remove fields that the model rejects in combination with the provider's options or the history."""
        messages: list[JsonObject] = body["messages"]
        kind = body["thinking"].get("type") if is_object(body.get("thinking")) else None
        follows_calls = kind == "enabled" and messages[-1]["content"][0].get("type") == "tool_result"
        if follows_calls and messages[-2]["content"][0].get("type") not in THINKING:
            del body["thinking"]
            why = "the turn of the last calls does not start with thinking"
            self._notes.warn("unsupported-option", "reasoning", f"reasoning: fxai turns thinking off, because {why}")
        self._check_sampling(body)
        kind = body["thinking"].get("type") if is_object(body.get("thinking")) else None
        accepted = (*(self._facts.forced_calls_while_thinking or ()), "disabled", "between_tools")
        if kind is not None and kind not in accepted and _forces(body.get("tool_choice")):
            self._free(body, f"model {self._facts.model!r} does not support forced calls while it thinks ({kind})")

    def _check_sampling(self, body: JsonObject) -> None:
        """Remove the sampling parameters that the model rejects, each with a warning."""
        facts, thinking = self._facts, body.get("thinking")
        refused = None
        if facts.sampling == "never":
            refused = f"the model {facts.model!r} accepts no sampling parameters"
        elif thinking.get("type") in _ON if is_object(thinking) else facts.reasons_by_default:
            refused = f"the model {facts.model!r} accepts no sampling parameters while it thinks"
        for name in ("temperature", "top_p", "top_k"):
            is_default = name == "temperature" and body.get(name) == 1 and facts.sampling != "never"
            if name in body and refused is not None and not is_default:
                del body[name]
                self._notes.warn("unsupported-option", name, f"{name}: fxai does not send it, because {refused}")
        if body.get("temperature", 0) > 1:
            body["temperature"] = 1.0
            problem = "temperature: Anthropic accepts at most 1; fxai sends 1"
            self._notes.warn("unsupported-option", "temperature", problem)
        if "temperature" in body and body.pop("top_p", None) is not None:
            why = "Anthropic accepts either temperature or top_p"
            self._notes.warn("unsupported-option", "top_p", f"top_p: fxai does not send it, because {why}")

    def _encode(self, body: JsonObject) -> bytes:
        """Return the body as JSON, with a valid number and order of cache marks."""
        encoded, messages, most = json_of(body), body["messages"], self._facts.cache_marks or 0
        marks = (0,) * len(CACHE_MARKS)
        searched = encoded
        if messages.__class__ is JsonItems and messages.covered:  # fxai counted the marks of the earlier messages
            marks, searched = messages.notes, json_of({**body, "messages": messages.rest})
        count, lifetimes = (found + searched.count(mark) for found, mark in zip(marks, CACHE_MARKS, strict=True))
        if count <= most and not lifetimes:
            return encoded
        plain = msgspec.json.decode(encoded)  # a copy: the history shares the parts of the body
        check_marks(plain, self._tools.names, self._notes, most)
        return json_of(plain)


def _forces(choice: Any) -> bool:
    return is_object(choice) and choice.get("type") in ("any", "tool")
