"""Parts and messages are narrowed by `type`, by `role`, by class and by `match`, in both checkers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal, assert_never, assert_type

from returns.result import Result

from fxai.messages import (
    AiError,
    AssistantContent,
    AssistantMessage,
    AuthenticationError,
    ContentPolicyError,
    FilePart,
    FileUrl,
    Finish,
    FinishReason,
    Message,
    Part,
    Prompt,
    RateLimitError,
    Reason,
    Response,
    StreamPart,
    SystemMessage,
    Text,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from fxai.schema import DecodeFailure


def by_type(part: StreamPart) -> str:
    assert_type(part.id if part.type == "tool-params-start" else None, str | None)
    if part.type == "text-delta":
        assert_type(part, TextDelta)
        assert_type(part.type, Literal["text-delta"])
        return part.delta
    if part.type == "tool-result" and not part.preliminary:
        assert_type(part, ToolResult)
        return part.name
    if part.type == "text-start" or part.type == "text-end":
        return part.id
    return ""


def by_match_of_type(part: Part) -> str:
    match part.type:
        case "text" | "reasoning":
            return part.text
        case "tool-call":
            assert_type(part, ToolCall)
            return part.name
        case "finish":
            assert_type(part.reason, FinishReason)
            return part.reason
        case "file":
            assert_type(part.data, bytes | FileUrl)
            return part.media_type
        case _:
            return ""


def by_class(part: Part) -> str:
    match part:
        case Text(text=text):
            assert_type(text, str)
            return text
        case ToolCall(name=name, params=params):
            assert_type(params, Any)
            return name
        case Finish(usage=usage):
            assert_type(usage.input_tokens, int | None)
            return ""
        case _:
            return "" if isinstance(part, ToolResult) else part.type


def in_a_comprehension(parts: Iterable[StreamPart]) -> list[str]:
    return [part.delta for part in parts if part.type == "text-delta"]


async def in_an_async_loop(parts: AsyncIterator[StreamPart]) -> list[str]:
    return [part.delta async for part in parts if part.type == "text-delta"]


def every_role(message: Message) -> str:
    match message:
        case SystemMessage(content=content):
            return content
        case UserMessage() | AssistantMessage():
            return message.text
        case ToolMessage():
            return "".join(part.type for part in message.content)
        case _:
            assert_never(message)


def by_role(message: Message) -> str:
    if message.role == "system":
        assert_type(message, SystemMessage)
        return message.content
    if message.role == "user":
        assert_type(message.content, tuple[TextPart | FilePart, ...])
    if message.role == "assistant":
        return "".join(said(part) for part in message.content)
    return str(len(message.content))


def said(part: AssistantContent) -> str:
    match part.type:
        case "text":
            assert_type(part, TextPart)
            return part.text
        case "tool-call":
            assert_type(part, ToolCallPart)
            return part.name
        case "reasoning" | "file" | "tool-result" | "tool-approval-request":
            return ""


def why(error: AiError) -> str:
    assert_type(error.reason, Reason)
    match error.reason:
        case RateLimitError(retry_after=wait):
            assert_type(wait, float | None)
            return "later"
        case AuthenticationError(kind="MissingKey"):
            return "no key"
        case ContentPolicyError(description=words):
            return words
        case _:
            return error.message


prompt = Prompt.make([UserMessage.make("hi"), {"role": "assistant", "content": "hello"}])
assert_type(prompt, Prompt)
assert_type(prompt + prompt.append(SystemMessage("x")), Prompt)
assert_type(prompt.messages, tuple[Message, ...])
assert_type(Prompt.from_json("[]"), Result[Prompt, DecodeFailure])
assert_type(AiError.from_json("{}"), Result[AiError, DecodeFailure])
assert_type(Response().tool_calls, tuple[ToolCall, ...])
assert_type(Response().finish_reason, FinishReason)
every_prompt: list[Prompt] = [
    Prompt.make("hi"),
    Prompt.make(prompt),
    Prompt.make(UserMessage.make("a")),
    Prompt.make(()),
]
