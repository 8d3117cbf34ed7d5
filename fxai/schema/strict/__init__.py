"""Strict mode: what a provider holds a model to, made of any JSON Schema, and the way back to what the schema says."""

from fxai.schema.strict.form import StrictForm, strict_form
from fxai.schema.strict.location import NULL_LOST, Obstacle, Weakening
from fxai.schema.strict.refusal import rule_faults
from fxai.schema.strict.resolution import resolve_strict
from fxai.schema.strict.rules import ANTHROPIC, OPENAI, StrictRules

__all__ = [
    "ANTHROPIC",
    "NULL_LOST",
    "OPENAI",
    "Obstacle",
    "StrictForm",
    "StrictRules",
    "Weakening",
    "resolve_strict",
    "rule_faults",
    "strict_form",
]
