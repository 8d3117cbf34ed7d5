"""Strict mode: a JSON Schema that a provider enforces, with the conversions of its values."""

from fxai.schema.strict.form import StrictForm, resolve_strict, strict_form
from fxai.schema.strict.rules import (
    ANTHROPIC,
    NULL_LOST,
    OPENAI,
    OPENAI_HOST,
    StrictRules,
    UnsupportedFeature,
    Weakening,
    rule_faults,
)

__all__ = [
    "ANTHROPIC",
    "NULL_LOST",
    "OPENAI",
    "OPENAI_HOST",
    "StrictForm",
    "StrictRules",
    "UnsupportedFeature",
    "Weakening",
    "resolve_strict",
    "rule_faults",
    "strict_form",
]
