"""Floor 4. Models: the language model as a service, asked once, its calls resolved through a toolkit."""

from __future__ import annotations

from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.language_model import LanguageModel, ObjectResponse, RoundOptions
from fxai.models.repair import repair_by_model
from fxai.models.request import ModelOptions, ModelRequest, ReasoningEffort
from fxai.models.resolve import Repair

__all__ = [
    "LanguageModel",
    "ModelOptions",
    "ModelRequest",
    "ObjectResponse",
    "ReasoningEffort",
    "Repair",
    "RoundOptions",
    "ToolChoice",
    "ToolChoices",
    "repair_by_model",
]
