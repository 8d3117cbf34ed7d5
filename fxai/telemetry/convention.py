"""Semantic conventions of OpenTelemetry for generative AI. Use `start` and `end` to get the attributes of a span.

The conventions are in `open-telemetry/semantic-conventions-genai`. No package contains these names, so this module
defines them. Names that start with `fxai.` are not part of a convention.

>>> start(Named("load", {"rows": 3}))
SpanData(name='load', kind='internal', operation='', attributes={'rows': 3})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

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

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

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
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
AGENT: Final = "gen_ai.agent.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CONVERSATION: Final = "gen_ai.conversation.id"
IN_CONVERSATIONS: Final = frozenset({"chat", "execute_tool", "invoke_agent"})
"""The operations whose spans name their conversation."""
OUTPUT_TYPE: Final = "gen_ai.output.type"
EXCEPTION_MESSAGE: Final = "exception.message"
COST: Final = "fxai.usage.cost"
CURRENCY: Final = "fxai.usage.currency"
INTERRUPTED: Final = "fxai.interrupted"
OTHER: Final = "_OTHER"
"""The value that the conventions use instead of an unknown name."""
_LONGEST: Final = 256  # characters of a name or an id from a model or a server
_LONGEST_TEXT: Final = 1024  # characters of a description, which can come from a server

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple(4**power for power in range(14))
_CALLS: Final = tuple(2**power for power in range(10))

DURATIONS: Final = {
    "chat": "gen_ai.client.inference.duration",
    "embeddings": "gen_ai.client.embeddings.duration",
    "execute_tool": "gen_ai.execute_tool.duration",
    "invoke_agent": "gen_ai.invoke_agent.duration",
}
"""The metric for the duration of an operation, by the name of the operation."""
FIRST_PART_METRIC: Final = "gen_ai.client.inference.time_to_first_chunk"
AGENT_REQUESTS: Final = "gen_ai.invoke_agent.inference_calls"
AGENT_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
HISTOGRAMS: Final[Mapping[str, tuple[str, Sequence[float], str]]] = {
    DURATIONS["chat"]: ("s", _SECONDS, "Duration of a request to a model."),
    DURATIONS["embeddings"]: ("s", _SECONDS, "Duration of a request for embeddings."),
    DURATIONS["execute_tool"]: ("s", _SECONDS, "Duration of a tool call."),
    DURATIONS["invoke_agent"]: ("s", _SECONDS, "Duration of a run of an agent."),
    FIRST_PART_METRIC: ("s", _SECONDS, "Time until the first part of a stream."),
    AGENT_REQUESTS: ("{inference_call}", _CALLS, "Requests to models by the run itself."),
    AGENT_CALLS: ("{tool_call}", _CALLS, "Tool calls by the run itself."),
    "gen_ai.client.inference.operation.input_tokens": ("{token}", _TOKENS, "The input of a request."),
    "gen_ai.client.inference.operation.output_tokens": ("{token}", _TOKENS, "The output of a request."),
    "gen_ai.client.embeddings.operation.input_tokens": ("{token}", _TOKENS, "The input of a request for embeddings."),
}
"""The histograms by name: their units, the boundaries of their buckets, and their descriptions."""
TOKENS: Final = {
    ("chat", "gen_ai.usage.input_tokens"): "gen_ai.client.inference.operation.input_tokens",
    ("chat", "gen_ai.usage.output_tokens"): "gen_ai.client.inference.operation.output_tokens",
    ("embeddings", "gen_ai.usage.input_tokens"): "gen_ai.client.embeddings.operation.input_tokens",
}
"""The histogram of the tokens of a request, by the operation and the attribute."""
USAGE: Final = {
    "gen_ai.usage.input_tokens": "Input of requests, including tokens read from a cache or written to it.",
    "gen_ai.usage.output_tokens": "Output of requests, including reasoning.",
    "gen_ai.usage.cache_read.input_tokens": "Input that was read from a provider's cache.",
    "gen_ai.usage.cache_write.input_tokens": "Input that was written to a provider's cache.",
    "gen_ai.usage.reasoning.output_tokens": "Output for reasoning.",
}
"""The counters over all requests, by the names of the attributes of one request."""

_FINISH_REASONS: Final[Mapping[FinishReason, str]] = {
    "tool-calls": "tool_call",
    "content-filter": "content_filter",
    "pending": "tool_call",
}


def counter_of(attribute: str) -> str:
    """Return the metric that counts an attribute of `USAGE` over all requests.

    >>> counter_of("gen_ai.usage.input_tokens")
    'gen_ai.client.inference.usage.input_tokens'
    """
    return attribute.replace("gen_ai.", "gen_ai.client.inference.", 1)


def finish_reason(reason: FinishReason) -> str:
    """Return the name of a finish reason in the conventions.

    >>> finish_reason("tool-calls"), finish_reason("stop")
    ('tool_call', 'stop')
    """
    return _FINISH_REASONS.get(reason, reason)


@final
class AgentRun(Operation, eq=False):
    """A run of an agent or of a stateful prompt. Its result is an `Answer`."""

    name: str
    prompt: Prompt
    """The prompt of the run, without the messages of its memory."""


@final
class AgentStep(Operation, eq=False):
    """A step of a run: its request to the model, the calls of its turn, and its `on_step` functions."""

    number: int
    """The number of the step, from 1."""


@final
class SpanData(msgspec.Struct, frozen=True):
    """A span at its start."""

    name: str
    kind: Kind
    operation: str
    """The name of the operation in the conventions, or an empty string if they do not define it."""
    attributes: Attributes


def start(operation: Operation) -> SpanData:
    """Return the span of an operation. The name of an unknown operation is the name of its class."""
    attributes: Attributes
    match operation:
        case Named(name=name):
            return SpanData(name, "internal", "", dict(operation.attributes))
        case AgentRun(name=name):
            attributes = {OPERATION: "invoke_agent", AGENT: name}
            return SpanData(f"invoke_agent {name}", "internal", "invoke_agent", attributes)
        case AgentStep(number=number):
            return SpanData("step", "internal", "", {"fxai.step.number": number})
        case ToolExecution():
            return _start_tool(operation)
        case ModelCall(info=info):
            attributes = _of_model("chat", info) | _of_request(operation.request)
            if operation.is_stream:
                attributes["gen_ai.request.stream"] = True
            return SpanData(f"chat {info.model}", "client", "chat", attributes)
        case EmbeddingCall(info=info):
            return SpanData(f"embeddings {info.model}", "client", "embeddings", _of_model("embeddings", info))
        case _:
            return SpanData(type(operation).__name__, "internal", "", {})


def _start_tool(operation: ToolExecution) -> SpanData:
    tool = operation.tool
    # An unknown tool name comes from the model. Such names are content, and their number has no limit.
    attributes: Attributes = {OPERATION: "execute_tool", TOOL_NAME: OTHER if tool is None else operation.name}
    if operation.call_id:
        attributes["gen_ai.tool.call.id"] = operation.call_id[:_LONGEST]
    if tool is None:
        return SpanData("execute_tool", "internal", "execute_tool", attributes)
    is_provided = tool.identity.kind == "provider-defined"
    attributes[TOOL_TYPE] = "extension" if is_provided else "function"
    description = tool.description
    if description is not None:
        attributes["gen_ai.tool.description"] = description[:_LONGEST_TEXT]
    return SpanData(f"execute_tool {operation.name}", "internal", "execute_tool", attributes)


_HOSTS: Final = {
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.moonshot.ai": "moonshot_ai",
    "api.moonshot.cn": "moonshot_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.ai": "cohere",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
}


def provider_name(info: ModelInfo) -> str:
    """Return the name of a model's provider in the conventions. The address of the server has priority.

    >>> provider_name(ModelInfo("openai", "grok-4", "api.x.ai", 443)), provider_name(ModelInfo("local", "tiny"))
    ('x_ai', 'local')
    """
    if info.address is not None:
        location = f".{info.address.lower()}"
        for host, name in _HOSTS.items():
            if location.endswith(f".{host}"):
                return name
    return info.provider


def _of_model(operation: str, info: ModelInfo) -> Attributes:
    attributes: Attributes = {OPERATION: operation, PROVIDER: provider_name(info), REQUEST_MODEL: info.model}
    if info.address is not None:
        attributes["server.address"] = info.address
        if info.port is not None:
            attributes["server.port"] = info.port
    return attributes


def _of_request(request: ModelRequest) -> Attributes:
    attributes: Attributes = {}
    if request.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = request.max_tokens
    if request.temperature is not None:
        attributes["gen_ai.request.temperature"] = float(request.temperature)
    if request.stop:
        attributes["gen_ai.request.stop_sequences"] = list(request.stop)
    if request.response_schema is not None:
        attributes[OUTPUT_TYPE] = "json"
    if request.reasoning is not None:
        attributes["gen_ai.request.reasoning.level"] = request.reasoning
    return attributes


# -- ends of operations


def end(operation: Operation, value: Any) -> Attributes:
    """Return the attributes of a successful operation without content."""
    if isinstance(operation, ModelCall):
        return _end_chat(value)
    if isinstance(operation, ToolExecution):
        # record the class of the failure, because its message is content
        is_failure = isinstance(value, Outcome) and value.is_failure
        return {ERROR_TYPE: type(value.result).__qualname__} if is_failure else {}
    attributes: Attributes = {}
    if isinstance(operation, EmbeddingCall):
        attributes |= usage_attributes(value.usage)
        if value.vectors:
            attributes["gen_ai.embeddings.dimension.count"] = len(value.vectors[0])
    elif isinstance(operation, AgentRun):
        attributes |= {"fxai.run.ended": value.ended, "fxai.run.steps": len(value.steps)}
        if value.steps:
            attributes[FINISH_REASONS] = [finish_reason(value.steps[-1].finish_reason)]
        if value.typed:
            attributes[OUTPUT_TYPE] = "json"
    return attributes


def _end_chat(parts: Iterable[Any]) -> Attributes:
    attributes: Attributes = {FINISH_REASONS: ["error"]}  # for a stream that ended before its finish part
    for part in parts:
        if part.type == "finish":
            attributes[FINISH_REASONS] = [finish_reason(part.reason)]
            attributes.update(usage_attributes(part.usage))
        elif part.type == "response-metadata":
            if part.id is not None:
                attributes["gen_ai.response.id"] = part.id[:_LONGEST]
            if part.model is not None:
                attributes[RESPONSE_MODEL] = part.model[:_LONGEST]
    return attributes


def fail(operation: Operation, cause: Cause[Any]) -> Attributes:
    """Return the attributes of a failed or interrupted operation without content."""
    error = error_type(cause)
    attributes: Attributes = {INTERRUPTED: True} if error is None else {ERROR_TYPE: error}
    if isinstance(operation, ModelCall):
        attributes[FINISH_REASONS] = ["error"]
    return attributes


def usage_attributes(usage: Usage) -> dict[str, int]:
    """Return the token counts of the provider, and omit unknown counts."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def usage_of(value: Any) -> Usage | None:
    """Return the usage in parts of a response or in embeddings, or None if they contain no usage."""
    if isinstance(value, Embeddings):
        return value.usage
    return next((part.usage for part in value if part.type == "finish"), None)


def failure_of(cause: Cause[Any]) -> object | None:
    """Return the error, or the reason of an `AiError`, or None for an interruption."""
    for error in (*cause.failures, *cause.defects):
        reason: object = error.reason if isinstance(error, AiError) else error
        return reason
    return None


def error_type(cause: Cause[Any]) -> str | None:
    """Return the class name of the error, or None for an interruption.

    >>> from fxai.effects import Die
    >>> error_type(Cause((Die(ValueError("secret")),)))
    'ValueError'
    """
    failure = failure_of(cause)
    return None if failure is None else type(failure).__qualname__


def exception_type(cause: Cause[Any]) -> str:
    """Return the class of the error, with its module.

    >>> from fxai.effects import Die
    >>> exception_type(Cause((Die(ValueError("secret")),)))
    'builtins.ValueError'
    """
    kind = type(failure_of(cause))
    return f"{kind.__module__}.{kind.__qualname__}"
