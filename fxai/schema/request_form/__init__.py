"""The request form: a JSON Schema that a provider accepts in a tool, with the conversions of its values."""

from fxai.schema.request_form.request_document import NAMES_OF_PROPERTIES, RequestForm, Rewrite, request_form
from fxai.schema.request_form.request_rules import (
    CHAT,
    COMPATIBLE_CHAT,
    MESSAGES,
    REQUEST_RULES,
    RESPONSES,
    RequestRules,
    refusals,
)

__all__ = [
    "CHAT",
    "COMPATIBLE_CHAT",
    "MESSAGES",
    "NAMES_OF_PROPERTIES",
    "REQUEST_RULES",
    "RESPONSES",
    "RequestForm",
    "RequestRules",
    "Rewrite",
    "refusals",
    "request_form",
]
