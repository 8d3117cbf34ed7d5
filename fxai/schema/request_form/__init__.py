"""The request form: a JSON Schema that a provider accepts in a tool, with the conversions of its values."""

from fxai.schema.request_form.request_document import (
    CHAT,
    COMPATIBLE_CHAT,
    MESSAGES,
    NAMES_OF_PROPERTIES,
    REQUEST_RULES,
    RESPONSES,
    RequestForm,
    RequestRules,
    Rewrite,
    refusals,
    request_form,
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
