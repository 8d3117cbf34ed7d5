"""The semantic conventions of OpenTelemetry for generative AI, as far as they name what the package does.

The names stand here as texts of our own: the package that has them marks them as moved. Those that begin with `fxai.`
are in no convention.

>>> begin(Named("load", {"rows": 3}))
SpanData(name='load', kind='internal', operation='', attributes={'rows': 3})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.effects.cause import Cause
from fxai.effects.tracing import AttributeValue, Named, Operation
from fxai.messages.errors import AiError
from fxai.messages.part import FinishReason, Usage
from fxai.messages.prompt import Prompt
from fxai.models.embedding_model import EmbeddingCall, Embeddings
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelCall, ModelRequest
from fxai.tools.call import Outcome
from fxai.tools.handler import ToolExecution

Attributes: TypeAlias = dict[str, AttributeValue]
Kind: TypeAlias = Literal["internal", "client"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
ERROR_TYPE: Final = "error.type"
TOOL_NAME: Final = "gen_ai.tool.name"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
FIRST_PART: Final = "gen_ai.response.time_to_first_chunk"
TOKEN_TYPE: Final = "gen_ai.token.type"
COST: Final = "fxai.usage.cost"
CURRENCY: Final = "fxai.usage.currency"
_LONGEST: Final = 128  # characters of a name that a model made up
INTERRUPTED: Final = "fxai.interrupted"

_FINISH_REASONS: Final[Mapping[FinishReason, str]] = {
    "tool-calls": "tool_call",
    "content-filter": "content_filter",
    "pending": "tool_call",
}


def finish_reason(reason: FinishReason) -> str:
    """What the conventions call a reason to finish.

    >>> finish_reason("tool-calls"), finish_reason("stop")
    ('tool_call', 'stop')
    """
    return _FINISH_REASONS.get(reason, reason)


@final
class AgentRun(Operation, eq=False):
    """A run of an agent, or of a stateful prompt; it gives an `Answer`."""

    name: str
    prompt: Prompt
    """What it was asked, without what its memory holds."""


@final
class AgentStep(Operation, eq=False):
    """A step of a run: its request to the model, the calls of its turn, and what listens to it."""

    number: int
    """The number of the step, from 1."""


@final
class SpanData(msgspec.Struct, frozen=True):
    """A span as it begins."""

    name: str
    kind: Kind
    operation: str
    """By the conventions; empty: they have none."""
    attributes: Attributes


def begin(operation: Operation) -> SpanData:
    """The span of an operation; of one that is not known here, by the name of its class."""
    known = _BEGIN.get(type(operation))
    if known is None:
        return SpanData(type(operation).__name__, "internal", "", {})
    return known(operation)


def end(operation: Operation, value: Any) -> Attributes:
    """What is known of an operation once it has given `value`, without any content."""
    known = _END.get(type(operation))
    return {} if known is None else known(value)


# -- what begins


def _begin_named(operation: Named) -> SpanData:
    return SpanData(operation.name, "internal", "", dict(operation.attributes))


def _begin_run(operation: AgentRun) -> SpanData:
    attributes: Attributes = {OPERATION: "invoke_agent", "gen_ai.agent.name": operation.name}
    return SpanData(f"invoke_agent {operation.name}", "internal", "invoke_agent", attributes)


def _begin_step(operation: AgentStep) -> SpanData:
    return SpanData("step", "internal", "", {"fxai.step.number": operation.number})


def _begin_tool(operation: ToolExecution) -> SpanData:
    attributes: Attributes = {OPERATION: "execute_tool", TOOL_NAME: operation.name[:_LONGEST]}
    if operation.call_id:
        attributes["gen_ai.tool.call.id"] = operation.call_id
    tool = operation.tool
    if tool is not None:
        is_provided = tool.identity.kind == "provider-defined"
        attributes["gen_ai.tool.type"] = "extension" if is_provided else "function"
        if tool.description is not None:
            attributes["gen_ai.tool.description"] = tool.description
    # A name that no tool has is the model's: there may be any number of them, which no name of a span is to be.
    name = "execute_tool" if tool is None else f"execute_tool {operation.name}"
    return SpanData(name, "internal", "execute_tool", attributes)


def _of_model(operation: str, info: ModelInfo) -> Attributes:
    attributes: Attributes = {OPERATION: operation, PROVIDER: info.provider, REQUEST_MODEL: info.model}
    if info.address is not None:
        attributes["server.address"] = info.address
        if info.port is not None:
            attributes["server.port"] = info.port
    return attributes


def _begin_chat(operation: ModelCall) -> SpanData:
    info, request = operation.info, operation.request
    attributes = _of_model("chat", info) | _of_request(request)
    if operation.is_stream:
        attributes["gen_ai.request.stream"] = True
    return SpanData(f"chat {info.model}", "client", "chat", attributes)


def _of_request(request: ModelRequest) -> Attributes:
    attributes: Attributes = {}
    if request.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = request.max_tokens
    if request.temperature is not None:
        attributes["gen_ai.request.temperature"] = float(request.temperature)
    if request.stop:
        attributes["gen_ai.request.stop_sequences"] = list(request.stop)
    if request.response_schema is not None:
        attributes["gen_ai.output.type"] = "json"
    return attributes


def _begin_embeddings(operation: EmbeddingCall) -> SpanData:
    attributes = _of_model("embeddings", operation.info)
    return SpanData(f"embeddings {operation.info.model}", "client", "embeddings", attributes)


_BEGIN: Final[Mapping[type[Operation], Callable[[Any], SpanData]]] = {
    Named: _begin_named,
    AgentRun: _begin_run,
    AgentStep: _begin_step,
    ToolExecution: _begin_tool,
    ModelCall: _begin_chat,
    EmbeddingCall: _begin_embeddings,
}


# -- what ends


def _end_chat(parts: Iterable[Any]) -> Attributes:
    attributes: Attributes = {}
    for part in parts:
        if part.type == "finish":
            attributes["gen_ai.response.finish_reasons"] = [finish_reason(part.reason)]
            attributes |= usage_attributes(part.usage)
        elif part.type == "response-metadata":
            if part.id is not None:
                attributes["gen_ai.response.id"] = part.id
            if part.model is not None:
                attributes[RESPONSE_MODEL] = part.model
    return attributes


def _end_tool(value: Any) -> Attributes:
    # The name of the class of what failed; what it says is content.
    is_failure = isinstance(value, Outcome) and value.is_failure
    return {ERROR_TYPE: type(value.result).__qualname__} if is_failure else {}


def _end_embeddings(found: Embeddings) -> Attributes:
    attributes = usage_attributes(found.usage)
    if found.vectors:
        attributes["gen_ai.embeddings.dimension.count"] = len(found.vectors[0])
    return attributes


def _end_run(answer: Answer[Any]) -> Attributes:
    return {"fxai.run.ended": answer.ended, "fxai.run.steps": len(answer.steps)}


_END: Final[Mapping[type[Operation], Callable[[Any], Attributes]]] = {
    AgentRun: _end_run,
    ToolExecution: _end_tool,
    ModelCall: _end_chat,
    EmbeddingCall: _end_embeddings,
}


def usage_attributes(usage: Usage) -> Attributes:
    """The numbers of tokens that the provider gave; those that it did not give are left out."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def usage_of(value: Any) -> Usage | None:
    """The tokens of what a model gave, parts or embeddings; None: there is no word of them."""
    if isinstance(value, Embeddings):
        return value.usage
    return next((part.usage for part in value if part.type == "finish"), None)


def error_type(cause: Cause[Any]) -> str | None:
    """The class of what went wrong: of an `AiError` that of its reason; None where it was only interrupted.

    >>> from fxai.effects import Die
    >>> error_type(Cause((Die(ValueError("secret")),)))
    'ValueError'
    """
    for error in (*cause.failures, *cause.defects):
        reason: object = error.reason if isinstance(error, AiError) else error
        return type(reason).__qualname__
    return None
