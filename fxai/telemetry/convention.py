"""Semantic conventions of OpenTelemetry for generative AI. Use `start` and `end` to get the attributes of a span.

The conventions are in `open-telemetry/semantic-conventions-genai`. No package contains these names, so this module
defines them. Names that start with `fxai.` are not part of a convention.

>>> start(Named("load", {"rows": 3}))
SpanData(name='load', operation='', attributes={'rows': 3})

`Content` has the prompts and answers in the form of the conventions. The tracer records them only if a program enables
it.

>>> input_messages(Prompt.make("Hello"))
[{'role': 'user', 'parts': [{'type': 'text', 'content': 'Hello'}]}]
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from traceback import extract_tb
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.effects.cause import Cause
from fxai.effects.tracing import AttributeValue, Named, Operation
from fxai.messages.accumulate import gather
from fxai.messages.errors import AiError
from fxai.messages.message import FileUrl
from fxai.messages.part import FinishReason, Usage
from fxai.messages.prompt import Prompt
from fxai.models.embedding_model import EmbeddingCall, Embeddings
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelCall
from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject
from fxai.tools.call import Outcome
from fxai.tools.handler import ToolExecution
from fxai.tools.tool import AnyTool, Tool

Attributes: TypeAlias = dict[str, AttributeValue]

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
    """Return the metric of an attribute of `USAGE`, such as `gen_ai.client.inference.usage.input_tokens`."""
    return attribute.replace("gen_ai.", "gen_ai.client.inference.", 1)


def finish_reason(reason: FinishReason) -> str:
    """Return the name of a finish reason in the conventions, such as `tool_call` for `tool-calls`."""
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
    operation: str
    """The name of the operation in the conventions, or an empty string if they do not define it."""
    attributes: Attributes


def start(operation: Operation) -> SpanData:
    """Return the span of an operation. The name of an unknown operation is the name of its class."""
    attributes: Attributes
    match operation:
        case Named(name=name):
            return SpanData(name, "", dict(operation.attributes))
        case AgentRun(name=name):
            attributes = {OPERATION: "invoke_agent", AGENT: name}
            return SpanData(f"invoke_agent {name}", "invoke_agent", attributes)
        case AgentStep(number=number):
            return SpanData("step", "", {"fxai.step.number": number})
        case ToolExecution():
            return _start_tool(operation)
        case ModelCall(info=info):
            attributes, request = _of_model("chat", info), operation.request
            temperature, stop = request.temperature, list(request.stop)
            settings: dict[str, AttributeValue | None] = {
                "gen_ai.request.max_tokens": request.max_tokens,
                "gen_ai.request.temperature": None if temperature is None else float(temperature),
                "gen_ai.request.stop_sequences": stop or None,
                OUTPUT_TYPE: None if request.response_schema is None else "json",
                "gen_ai.request.reasoning.level": request.reasoning,
            }
            attributes |= {name: given for name, given in settings.items() if given is not None}
            if operation.is_stream:
                attributes["gen_ai.request.stream"] = True
            return SpanData(f"chat {info.model}", "chat", attributes)
        case EmbeddingCall(info=info):
            return SpanData(f"embeddings {info.model}", "embeddings", _of_model("embeddings", info))
        case _:
            return SpanData(type(operation).__name__, "", {})


def _start_tool(operation: ToolExecution) -> SpanData:
    tool = operation.tool
    # An unknown tool name comes from the model. Such names are content, and their number has no limit.
    attributes: Attributes = {OPERATION: "execute_tool", TOOL_NAME: OTHER if tool is None else operation.name}
    if operation.call_id:
        attributes["gen_ai.tool.call.id"] = operation.call_id[:_LONGEST]
    if tool is None:
        return SpanData("execute_tool", "execute_tool", attributes)
    is_provided = tool.identity.kind == "provider-defined"
    attributes[TOOL_TYPE] = "extension" if is_provided else "function"
    description = tool.description
    if description is not None:
        attributes["gen_ai.tool.description"] = description[:_LONGEST_TEXT]
    return SpanData(f"execute_tool {operation.name}", "execute_tool", attributes)


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


# -- ends of operations


def end(operation: Operation, value: Any) -> Attributes:
    """Return the attributes of a successful operation without content."""
    attributes: Attributes = {}
    if isinstance(operation, ModelCall):
        attributes |= _end_chat(value)
    elif isinstance(operation, ToolExecution):
        if isinstance(value, Outcome) and value.is_failure:
            attributes[ERROR_TYPE] = type(value.result).__qualname__  # its message is content
    elif isinstance(operation, EmbeddingCall):
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


def fail(operation: Operation, cause: Cause[object]) -> Attributes:
    """Return the attributes of a failed or interrupted operation without content."""
    error = failure_of(cause)
    attributes: Attributes = {INTERRUPTED: True} if error is None else {ERROR_TYPE: type(error).__qualname__}
    if isinstance(operation, ModelCall):
        attributes[FINISH_REASONS] = ["error"]
    return attributes


def usage_attributes(usage: Usage) -> dict[str, int]:
    """Return the token counts of the provider, and omit unknown counts."""
    cached, written = usage.cached_input_tokens, usage.cache_write_input_tokens
    counts = usage.input_tokens, usage.output_tokens, cached, written, usage.reasoning_tokens
    return {name: count for name, count in zip(USAGE, counts, strict=True) if count is not None}


def usage_of(value: Any) -> Usage | None:
    """Return the usage in parts of a response or in embeddings, or None if they contain no usage."""
    if isinstance(value, Embeddings):
        return value.usage
    return next((part.usage for part in value if part.type == "finish"), None)


def failure_of(cause: Cause[object]) -> object | None:
    """Return the error, or the reason of an `AiError`, or None for an interruption."""
    for error in (*cause.failures, *cause.defects):
        reason: object = error.reason if isinstance(error, AiError) else error
        return reason
    return None


Where: TypeAlias = Literal["off", "span", "event"]
"""The destination of content. `"event"` uses separate events, which a collector can store in another place."""

Redact: TypeAlias = Callable[[str, Any], Any]
"""Receives the name of an attribute, such as `gen_ai.input.messages`, and a copy of its content as JSON values. It
returns the content to record, or None to omit it. If it raises an exception, fxai records nothing for the attribute."""

_LOG: Final = logging.getLogger("fxai.telemetry")


@final
class Content(msgspec.Struct, frozen=True):
    """The destination of content, and the function that redacts it."""

    where: Where = "off"
    redact: Redact | None = None

    def before(self, operation: Operation) -> JsonObject:
        """Return the redacted input of an operation, by the names of attributes."""
        if isinstance(operation, ModelCall):
            prompt, tools = operation.request.prompt, operation.request.tools
            found = {
                INSTRUCTIONS: [_text(message.content) for message in prompt if message.role == "system"],
                INPUT_MESSAGES: input_messages(prompt),
                TOOL_DEFINITIONS: [_definition(tool) for tool in tools],
            }
            return self._clean(found)
        if isinstance(operation, AgentRun):
            return self._clean({INPUT_MESSAGES: input_messages(operation.prompt)})
        if isinstance(operation, ToolExecution):
            tool, given = operation.tool, operation.given
            if tool is None:
                return self._clean({TOOL_NAME: operation.name, ARGUMENTS: given})
            parameters = tool.parameters
            if operation.is_typed and isinstance(parameters, Schema):
                return self._clean({ARGUMENTS: parameters.encode_unsafe(given)})
            return self._clean({ARGUMENTS: given})
        return {}

    def after(self, operation: Operation, value: Any) -> JsonObject:
        """Return the redacted output of an operation, by the names of attributes."""
        if isinstance(operation, ModelCall):
            return self._clean({OUTPUT_MESSAGES: output_messages(gather(value))})
        if isinstance(operation, AgentRun) and isinstance(value, Answer) and value.steps:
            return self._clean({OUTPUT_MESSAGES: output_messages(value.response.content)})
        if isinstance(operation, ToolExecution):
            if isinstance(value, Outcome):
                return self._clean({RESULT: value.encoded_result})
            tool = operation.tool
            return {} if tool is None else self._clean({RESULT: tool.success.encode_unsafe(value)})
        return {}

    def message(self, cause: Cause[object]) -> str | None:
        """Return the message of an error, which can repeat content, or None if content is off."""
        if self.where == "off":
            return None
        cleaned = self._clean({EXCEPTION_MESSAGE: str(cause.squash())}).get(EXCEPTION_MESSAGE)
        return None if cleaned is None else as_text(cleaned)

    def _clean(self, found: Mapping[str, Any]) -> JsonObject:
        kept: JsonObject = {}
        for name, value in found.items():
            if value is None or value == []:
                continue
            try:
                # a copy, so that `redact` can change it without changing the history
                own = msgspec.json.decode(msgspec.json.encode(value, enc_hook=repr))
                kept[name] = own if self.redact is None else self.redact(name, own)
            except Exception as error:
                _LOG.error("`redact` failed, and %s is not recorded: %s", name, location_of(error))
        return {name: value for name, value in kept.items() if value is not None}


def location_of(error: BaseException) -> str:
    """Return the class and the location of an error, without its message, because the message can repeat content."""
    steps = extract_tb(error.__traceback__)
    return type(error).__qualname__ + (f" in {steps[-1].filename}, line {steps[-1].lineno}" if steps else "")


def as_text(value: Any) -> str:
    """Return content as a string, because attributes of spans cannot contain objects."""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


# -- messages


def input_messages(prompt: Prompt) -> list[JsonObject]:
    """Return the messages of a prompt without its instructions, in the form of the conventions."""
    return [
        {"role": message.role, "parts": [_part(part) for part in message.content]}
        for message in prompt
        if message.role != "system"
    ]


def output_messages(parts: Iterable[Any]) -> list[JsonObject]:
    """Return the message of a model's answer in the form of the conventions."""
    shown: list[JsonObject] = []
    reason: str = "unknown"
    for part in parts:
        if part.type == "finish":
            reason = finish_reason(part.reason)
        elif part.type in _SHOWN or (part.type == "tool-result" and part.provider_executed):
            shown.append(_part(part))
    return [{"role": "assistant", "parts": shown, "finish_reason": reason}]


_SHOWN: Final = frozenset({"text", "reasoning", "tool-call", "file"})


def _text(text: str) -> JsonObject:
    return {"type": "text", "content": text}


def _part(part: Any) -> JsonObject:
    match part.type:
        case "text":
            return _text(part.text)
        case "reasoning":
            return {"type": "reasoning", "content": part.text}
        case "tool-call" if part.provider_executed:
            called = {"type": part.name, "arguments": part.params}
            return {"type": "server_tool_call", "id": part.id, "name": part.name, "server_tool_call": called}
        case "tool-call":
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.params}
        case "tool-result":
            encoded = getattr(part, "encoded_result", part.result)
            if getattr(part, "provider_executed", False):
                given = {"type": part.name, "result": encoded}
                return {"type": "server_tool_call_response", "id": part.id, "server_tool_call_response": given}
            return {"type": "tool_call_response", "id": part.id, "response": encoded}
        case "file" if isinstance(part.data, FileUrl):
            return {"type": "uri", **_media(part.media_type), "uri": part.data.url}
        case "file":
            return {"type": "blob", **_media(part.media_type), "content": b64encode(part.data).decode()}
        case other:
            return {"type": "generic", "generic_type": other}


def _media(media_type: str) -> dict[str, str]:
    modality = media_type.partition("/")[0]
    return {"mime_type": media_type, "modality": modality if modality in _MODALITIES else "document"}


_MODALITIES: Final = frozenset({"image", "audio", "video"})


# -- tools


def _definition(tool: AnyTool) -> JsonObject:
    if Tool.is_provider_defined(tool):
        return {"type": "extension", "name": tool.name, "description": tool.description}
    schema = tool.json_schema()
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}
