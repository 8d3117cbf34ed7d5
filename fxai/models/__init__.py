"""Level 4. Call a language model and run its tool calls. Use this package to send requests without an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later
from fxai.models.approval_services import ApprovalKey, ApprovalLedger, ApprovalUse
from fxai.models.chat import Chat, ChatError, ChatStore, ChatStoreError
from fxai.models.language_model import LanguageModel, ObjectPending, ObjectResponse, repair_by_model
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import (
    ModelOptions,
    ModelRequest,
    ReasoningEffort,
    Repair,
    RoundOptions,
    ToolChoice,
    ToolChoices,
)
from fxai.models.token_count import CountMethod, TokenCount, estimated_tokens

if TYPE_CHECKING:
    from fxai.models.embedding_model import EmbeddingModel, Embeddings, Vector, batched, similarity
    from fxai.models.file_store import FileIndex, FileStore, UploadedFile
    from fxai.models.interceptor import (
        InterceptedCall,
        Interceptor,
        LeftRunError,
        RunInfo,
        StepInfo,
        TurnInfo,
        WorkInfo,
        intercept,
    )
    from fxai.models.limited_model import limit
    from fxai.models.model_facts import FactSource, ModelFacts, common_facts, nearest_effort
    from fxai.models.partial_object import ObjectPart
    from fxai.models.prepared_tools import LeftOut, PreparationError, PreparedTools
    from fxai.models.price import Price, PriceTable
    from fxai.models.selection import fallback, is_refusal, per_step, retryable, unavailable
    from fxai.models.usage_limit import Limit
    from fxai.storage.allowance import Allowances

__all__ = [
    "Allowances",
    "ApprovalKey",
    "ApprovalLedger",
    "ApprovalUse",
    "Chat",
    "ChatError",
    "ChatStore",
    "ChatStoreError",
    "CountMethod",
    "EmbeddingModel",
    "Embeddings",
    "FactSource",
    "FileIndex",
    "FileStore",
    "InterceptedCall",
    "Interceptor",
    "LanguageModel",
    "LeftOut",
    "LeftRunError",
    "Limit",
    "ModelFacts",
    "ModelInfo",
    "ModelOptions",
    "ModelRequest",
    "ObjectPart",
    "ObjectPending",
    "ObjectResponse",
    "PreparationError",
    "PreparedTools",
    "Price",
    "PriceTable",
    "ReasoningEffort",
    "Repair",
    "RoundOptions",
    "RunInfo",
    "StepInfo",
    "TokenCount",
    "ToolChoice",
    "ToolChoices",
    "TurnInfo",
    "UploadedFile",
    "Vector",
    "WorkInfo",
    "batched",
    "common_facts",
    "estimated_tokens",
    "fallback",
    "intercept",
    "is_refusal",
    "limit",
    "nearest_effort",
    "per_step",
    "repair_by_model",
    "retryable",
    "similarity",
    "unavailable",
]

# fxai imports these modules when a program first uses a name from them.
_LATER = {
    "embedding_model": "EmbeddingModel Embeddings Vector batched similarity",
    "file_store": "FileIndex FileStore UploadedFile",
    "interceptor": "InterceptedCall Interceptor LeftRunError RunInfo StepInfo TurnInfo WorkInfo intercept",
    "limited_model": "Allowances Limit limit",
    "model_facts": "FactSource ModelFacts common_facts nearest_effort",
    "partial_object": "ObjectPart",
    "prepared_tools": "LeftOut PreparationError PreparedTools",
    "price": "Price PriceTable",
    "selection": "fallback is_refusal per_step retryable unavailable",
}

if not TYPE_CHECKING:  # because a checker would accept any name
    __getattr__ = import_later(__name__, _LATER)
