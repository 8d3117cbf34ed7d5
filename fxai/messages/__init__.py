"""Level 2. Represent conversations, responses, and errors of models as values. Use this package in every program.

A `Prompt` is a conversation, a `Response` is the answer to it, and an `AiError` is the reason for a failed request.

>>> from fxai.messages import Finish, Prompt, Text
>>> prompt = Prompt.make("Hello")
>>> (prompt + Prompt.from_parts([Text("Good day."), Finish("stop")])).messages[-1].content
(TextPart(text='Good day.', metadata={}),)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later

if TYPE_CHECKING:
    from fxai.messages.calls import Pending
    from fxai.messages.errors import AiError
    from fxai.messages.message import (
        AssistantContent,
        AssistantMessage,
        Content,
        FilePart,
        FileUrl,
        Message,
        Metadata,
        ReasoningPart,
        SystemMessage,
        TextPart,
        ToolApprovalRequestPart,
        ToolApprovalResponsePart,
        ToolCallPart,
        ToolContent,
        ToolMessage,
        ToolResultPart,
        UserContent,
        UserMessage,
        merge_metadata,
    )
    from fxai.messages.part import (
        AnyPart,
        ApprovalRequest,
        ErrorPart,
        File,
        Finish,
        FinishReason,
        Part,
        PrefixBreak,
        Reasoning,
        ReasoningDelta,
        ReasoningEnd,
        ReasoningStart,
        ResponseMetadata,
        Source,
        StreamPart,
        Text,
        TextDelta,
        TextEnd,
        TextStart,
        ToolCall,
        ToolParamsDelta,
        ToolParamsEnd,
        ToolParamsStart,
        ToolResult,
        Usage,
        WarningKind,
        WarningPart,
    )
    from fxai.messages.prompt import Prompt, PromptInput
    from fxai.messages.reason import (
        AuthenticationError,
        AuthenticationKind,
        ContentPolicyError,
        ContextOverflowError,
        GuardRefusalError,
        InternalProviderError,
        InvalidApprovalError,
        InvalidOutputError,
        InvalidRequestError,
        InvalidUserInputError,
        ModelProblem,
        ModelUnavailableError,
        NetworkError,
        NetworkKind,
        QuotaExhaustedError,
        RateLimitError,
        Reason,
        RequestTimeoutError,
        StructuredOutputError,
        ToolkitRequiredError,
        UnknownError,
        UnsupportedSchemaError,
    )
    from fxai.messages.response import Response, stream_of
    from fxai.messages.wire import MessageError, part_from_data, part_to_data

__all__ = [
    "AiError",
    "AnyPart",
    "ApprovalRequest",
    "AssistantContent",
    "AssistantMessage",
    "AuthenticationError",
    "AuthenticationKind",
    "Content",
    "ContentPolicyError",
    "ContextOverflowError",
    "ErrorPart",
    "File",
    "FilePart",
    "FileUrl",
    "Finish",
    "FinishReason",
    "GuardRefusalError",
    "InternalProviderError",
    "InvalidApprovalError",
    "InvalidOutputError",
    "InvalidRequestError",
    "InvalidUserInputError",
    "Message",
    "MessageError",
    "Metadata",
    "ModelProblem",
    "ModelUnavailableError",
    "NetworkError",
    "NetworkKind",
    "Part",
    "Pending",
    "PrefixBreak",
    "Prompt",
    "PromptInput",
    "QuotaExhaustedError",
    "RateLimitError",
    "Reason",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningPart",
    "ReasoningStart",
    "RequestTimeoutError",
    "Response",
    "ResponseMetadata",
    "Source",
    "StreamPart",
    "StructuredOutputError",
    "SystemMessage",
    "Text",
    "TextDelta",
    "TextEnd",
    "TextPart",
    "TextStart",
    "ToolApprovalRequestPart",
    "ToolApprovalResponsePart",
    "ToolCall",
    "ToolCallPart",
    "ToolContent",
    "ToolMessage",
    "ToolParamsDelta",
    "ToolParamsEnd",
    "ToolParamsStart",
    "ToolResult",
    "ToolResultPart",
    "ToolkitRequiredError",
    "UnknownError",
    "UnsupportedSchemaError",
    "Usage",
    "UserContent",
    "UserMessage",
    "WarningKind",
    "WarningPart",
    "merge_metadata",
    "part_from_data",
    "part_to_data",
    "stream_of",
]

# fxai imports a module when a program first uses a name from it, because programs without a model need few of them.
_LATER = {
    "calls": "Pending",
    "errors": "AiError",
    "message": (
        "AssistantContent AssistantMessage Content FilePart FileUrl Message Metadata ReasoningPart SystemMessage "
        "TextPart ToolApprovalRequestPart ToolApprovalResponsePart ToolCallPart ToolContent ToolMessage "
        "ToolResultPart UserContent UserMessage merge_metadata"
    ),
    "part": (
        "AnyPart ApprovalRequest ErrorPart File Finish FinishReason Part PrefixBreak Reasoning ReasoningDelta "
        "ReasoningEnd ReasoningStart ResponseMetadata Source StreamPart Text TextDelta TextEnd TextStart ToolCall "
        "ToolParamsDelta ToolParamsEnd ToolParamsStart ToolResult Usage WarningKind WarningPart"
    ),
    "prompt": "Prompt PromptInput",
    "reason": (
        "AuthenticationError AuthenticationKind ContentPolicyError ContextOverflowError GuardRefusalError "
        "InternalProviderError InvalidApprovalError InvalidOutputError InvalidRequestError InvalidUserInputError "
        "ModelProblem ModelUnavailableError NetworkError NetworkKind QuotaExhaustedError RateLimitError Reason "
        "RequestTimeoutError StructuredOutputError ToolkitRequiredError UnknownError UnsupportedSchemaError"
    ),
    "response": "Response stream_of",
    "wire": "MessageError part_from_data part_to_data",
}

if not TYPE_CHECKING:  # because a checker would accept any name
    __getattr__ = import_later(__name__, _LATER)
