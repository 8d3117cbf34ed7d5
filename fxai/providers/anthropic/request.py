"""Requests to Anthropic: a request to a model, as the body of a call of the Messages API.

>>> from fxai.messages.prompt import Prompt
>>> sent = prepare_request(ModelRequest(Prompt.make("Hello")), model="claude-sonnet-5")
>>> sent.body["messages"], sent.body["max_tokens"]
([{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}], 128000)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.messages.part import WarningPart
from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.model_request import ModelRequest, ReasoningEffort
from fxai.models.prepared_tools import Notes, PreparationError, PreparedTools, json_of
from fxai.models.request_cache import RequestCache, size_as_json
from fxai.models.structured_output import AnswerForm, answer_name
from fxai.providers.anthropic.messages_input import Document, HistoryWriter
from fxai.providers.anthropic.options import Capability, RequestOptions, capability_of, options_of_request
from fxai.providers.anthropic.tool_encoding import MARKS, MOST, cost_of, fewer_marks, prepare_tools
from fxai.schema.data import is_object
from fxai.schema.request_form import MESSAGES
from fxai.schema.strict import ANTHROPIC

VERSION: Final = "2026-10-21"
"""The version of the API that requests name."""

_ANSWER: Final = "answer"
_DESCRIPTION: Final = "Gives the answer. Call this tool, once, when you know the answer, and write no text beside it."


_BUDGETS: Final[Mapping[ReasoningEffort, int]] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_LEAST: Final = 1024
_EFFORTS: Final[Mapping[ReasoningEffort, str]] = {
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
}

# What Anthropic counts of a request; the rest of it takes no tokens of the prompt.
_COUNTED: Final = frozenset(
    (
        *("cache_control", "compaction", "context_management", "mcp_servers", "messages", "model", "output_config"),
        *("speed", "system", "thinking", "tool_choice", "tools"),
    )
)

Cache: TypeAlias = RequestCache[PreparedTools, HistoryWriter]
"""What earlier requests to a model leave for the next one."""


@final
class PreparedRequest(msgspec.Struct, frozen=True):
    """A request as it is sent, and what is needed to read the reply. Frozen, hashable, comparable and picklable."""

    encoded: bytes
    """The body, as JSON."""
    tools: PreparedTools
    """What it says of the tools, and the way back from calls."""
    betas: tuple[str, ...] = ()
    """The beta features that it names."""
    extra_headers: tuple[tuple[str, str], ...] = ()
    """Headers that the options of the request set."""
    warnings: tuple[WarningPart, ...] = ()
    """What was asked for and not done: for the response."""
    answer: AnswerForm | None = None
    """How the answer is held to a schema; None for free text."""
    documents: tuple[Document, ...] = ()
    """The documents that an answer may cite."""
    max_tokens: int = 0
    """The most tokens of the answer."""

    @property
    def body(self) -> dict[str, Any]:
        """The body as a fresh plain copy."""
        return cast("dict[str, Any]", msgspec.json.decode(self.encoded))

    def count_body(self) -> bytes:
        """The body that asks for the tokens of this request, as JSON."""
        return json_of({name: value for name, value in self.body.items() if name in _COUNTED})

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this request, beside those that all requests have."""
        betas = {"anthropic-beta": ",".join(self.betas)} if self.betas else {}
        return {**dict(self.extra_headers), **betas}


def prepare_request(
    request: ModelRequest,
    *,
    model: str,
    stream: bool = False,
    eager: bool | None = None,
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    max_tokens: int | None = None,
    cache: Cache | None = None,
) -> PreparedRequest:
    """The request that asks a model of Anthropic's: a pure function, nothing is sent.

    Args:
        request: the request, independent of any provider.
        model: the model's name, by which it is known what it can do.
        stream: whether the reply is streamed.
        eager: whether tools stream their parameters as they are written, unchecked; None: if the reply is streamed.
        strict_json_schema: whether tools without the annotation `Strict` are strict. None: they are, if the model can.
            With True, an answer whose schema has no strict form is an error; else a tool asks for it, with a warning.
        supports_strict: whether the model has structured outputs at all, for tools and answers; None: as its name says.
        max_tokens: the most tokens of an answer where the request has no limit; None: the most that the model can.
        cache: what earlier requests left, which is used and added to; None: all is made anew. The request is the same.

    Raises:
        PreparationError: something of it cannot be sent: a tool, the tool choice, a part of the prompt, an option; or
            it holds what JSON cannot carry.
        NameConflictError: two tools would have one name on the wire.
    """
    can = capability_of(model)
    if supports_strict is not None:
        can = msgspec.structs.replace(can, structured=supports_strict)
    notes = Notes()
    options = options_of_request(request.provider_options)
    streams = stream if eager is None else eager

    prepare = partial(
        prepare_tools,
        request.tools,
        model=model,
        strict_json_schema=strict_json_schema,
        supports_strict=can.structured,
        tool_choice=request.tool_choice,
        parallel_tool_calls=request.parallel_tool_calls,
        stream=streams,
    )
    choice = (request.tool_choice, request.parallel_tool_calls)
    settings = (model, strict_json_schema, supports_strict, streams, *choice)
    tools = prepare() if cache is None else cache.tools(request.tools, settings, prepare)
    writing = _Writing(request, can, tools, notes)
    writing.conversation(cache)
    writing.calls(must=strict_json_schema is True)
    writing.common(request.max_tokens or max_tokens or can.most_tokens)
    return writing.finish({"model": model, **({"stream": True} if stream else {})}, options)


@final
class _Writing:
    """Builds the body of a request, step by step."""

    def __init__(self, request: ModelRequest, can: Capability, tools: PreparedTools, notes: Notes) -> None:
        self._request = request
        self._can = can
        self._tools = tools
        self._notes = notes
        self.body: dict[str, Any] = {}
        self.answer: AnswerForm | None = None
        self.documents: tuple[Document, ...] = ()
        self._betas: tuple[str, ...] = ()
        self._added: frozenset[str] = frozenset()

    def conversation(self, cache: Cache | None) -> None:
        """The messages and the system prompt; with a cache, only new messages are written."""
        messages = self._request.prompt.messages
        known = None if cache is None else cache.take(messages, self._tools)
        writer, count, size = known or (HistoryWriter(self._tools, system_turns=self._can.system_turns), 0, 0.0)
        size += size_as_json(writer.write(messages[count:]))
        history = writer.history()
        self._notes.warnings += writer.notes.warnings
        if cache is not None and writer.is_extensible:
            cache.keep(messages, self._tools, writer, size)
        self.documents = history.documents
        self.body["messages"] = history.messages
        if history.system:
            self.body["system"] = history.system
        if history.container is not None:
            self.body["container"] = history.container
        self._betas = history.betas
        self._added = history.added

    def calls(self, *, must: bool) -> None:
        """The tools and the tool choice, and how the answer is held to its schema."""
        fields = dict(self._tools.plain_fields)
        if self._added:  # they are defined where they come
            left = [tool for tool in fields.get("tools", ()) if tool.get("name") not in self._added]
            fields = {key: value for key, value in fields.items() if key != "tools"} | ({"tools": left} if left else {})
        if self._request.response_schema is not None:
            self._hold(AnswerForm.of(self._request.response_schema, ANTHROPIC), fields, must=must)
        choice: Any = fields.get("tool_choice")
        if choice == {"type": "auto"}:
            del fields["tool_choice"]  # what holds without it
        elif _forces(choice) and not self._can.forced_calls:
            problem = "this model cannot be made to call a tool: it decides by itself"
            self._notes.warn("unsupported-option", "tool_choice", problem)
            fields["tool_choice"] = {"type": "auto", **_one_at_a_time(choice)}
        self.body.update(fields)

    def _hold(self, answer: AnswerForm, fields: dict[str, Any], *, must: bool) -> None:
        why = self._not_native(answer)
        if why is None:
            self.answer = answer
            self.body["output_config"] = {"format": {"type": "json_schema", "schema": answer.document}}
            return
        if self._can.structured and must:
            where = answer.obstacles[0] if answer.obstacles else None
            pointer, keyword = ("", None) if where is None else (where.pointer, where.keyword)
            problem = f"the answer must be strict: {why}"
            raise PreparationError(UnsupportedSchemaError(description=problem, pointer=pointer, keyword=keyword))
        if self._can.structured:
            self._notes.warn("not-strict", "response_schema", f"the answer is asked for by a tool, not strict: {why}")
        self._by_tool(answer, fields)

    def _not_native(self, answer: AnswerForm) -> str | None:
        """Why the model cannot be held to the answer in its own way; None where it can."""
        if not self._can.structured:
            return "the model has no structured outputs"
        if answer.obstacles:
            return f"its schema has no strict form: {'; '.join(map(str, answer.obstacles))}"
        strict = [form.document.to_dict() for form in self._tools.strict.values()]
        cost = sum((cost_of(document) for document in strict), cost_of(answer.document))
        over = msgspec.structs.replace(cost, tools=len(strict)).beyond(MOST)
        return None if over is None else f"with it the request would have {over}"

    def _by_tool(self, answer: AnswerForm, fields: dict[str, Any]) -> None:
        """A tool for the answer, which must be called where the choice leaves that open."""
        tools: list[Any] = fields.get("tools", [])
        choice: Any = fields.get("tool_choice") or {"type": "auto"}
        if choice["type"] in ("any", "tool"):
            return  # this turn is for another tool
        schema = self._request.response_schema or answer.asked
        wanted = answer_name(schema, self._request.response_name, _ANSWER)
        self.answer = answer.by_tool(wanted, {one.get("name") for one in tools}, rules=MESSAGES)
        name, text = self.answer.tool, schema.get("description")
        description = f"{_DESCRIPTION} {text}" if isinstance(text, str) and text.strip() else _DESCRIPTION
        tool = {"name": name, "description": description, "input_schema": self.answer.document}
        fields["tools"] = [*tools, tool]
        is_open = bool(tools) and choice["type"] == "auto"
        alone = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
        fields["tool_choice"] = {"type": "any", **_one_at_a_time(choice)} if is_open else alone

    def common(self, most: int) -> None:
        """The options that all providers share; those that the model does not have are noted."""
        request = self._request
        self.body["max_tokens"] = most
        if request.temperature is not None:
            problem = "Anthropic's Messages API has no temperature any more: it is not sent"
            self._notes.warn("unsupported-option", "temperature", problem)
        if request.stop:
            self.body["stop_sequences"] = list(request.stop)
        forced = _forces(self.body.get("tool_choice"))
        fields = _reasoning_fields(request.reasoning, self._can, most, self._notes, forced=forced)
        config: Mapping[str, Any] = fields.pop("output_config", {})
        self.body.update(fields)
        if config:
            self.body["output_config"] = {**self.body.get("output_config", {}), **config}

    def finish(self, first: dict[str, Any], options: RequestOptions) -> PreparedRequest:
        """The request, the provider's own options over its fields; the configuration of the output is joined."""
        body, own = {**first, **self.body}, options.body
        config: Any = own.get("output_config")
        if is_object(config):
            own["output_config"] = {**body.get("output_config", {}), **config}
        body |= own
        return PreparedRequest(
            self._encode(body),
            self._tools,
            tuple(dict.fromkeys((*self._tools.betas, *self._betas, *options.all_betas))),
            tuple(options.headers.items()),
            (*self._tools.warnings, *self._notes.warnings),
            self.answer,
            self.documents,
            body["max_tokens"],
        )

    def _encode(self, body: dict[str, Any]) -> bytes:
        """The body as JSON, with no more marks for the cache than a request may have."""
        encoded = json_of(body)
        if encoded.count(b'"cache_control"') <= MARKS:
            return encoded
        plain = msgspec.json.decode(encoded)  # a copy: the parts of the body belong to the history
        fewer_marks(plain, self._tools.names, self._notes)
        return json_of(plain)


def _forces(choice: Any) -> bool:
    return is_object(choice) and choice.get("type") in ("any", "tool")


def _one_at_a_time(choice: dict[str, Any]) -> dict[str, Any]:
    return {key: choice[key] for key in ("disable_parallel_tool_use",) if key in choice}


def _reasoning_fields(
    effort: ReasoningEffort | None, can: Capability, most_tokens: int, notes: Notes, *, forced: bool = False
) -> dict[str, Any]:
    """The fields of a request for how much to think; with None as effort the model's own default holds.

    A budget to think takes half of the tokens of an answer at most. A model that is forced to call a tool gets none:
    the API refuses that.

    >>> from fxai.providers.anthropic.options import capability_of
    >>> _reasoning_fields("high", capability_of("claude-opus-4-8"), 4096, Notes())
    {'thinking': {'type': 'adaptive'}, 'output_config': {'effort': 'high'}}
    >>> _reasoning_fields("low", capability_of("claude-haiku-4-5"), 64000, Notes())
    {'thinking': {'type': 'enabled', 'budget_tokens': 2048}}
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
    return _budget(effort, most_tokens, notes) if can.thinking == "budget" else _adaptive(effort, can, notes)


def _budget(effort: ReasoningEffort, most_tokens: int, notes: Notes) -> dict[str, Any]:
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
