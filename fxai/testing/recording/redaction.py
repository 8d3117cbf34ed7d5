"""Redaction: keys in headers, addresses and bodies are not stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast, final
from urllib.parse import parse_qsl, urlencode

from fxai.providers.http.secret import Secret

__all__ = ["REMOVED", "Redaction"]

REMOVED: Final = "(secret)"
"""What stands in place of a secret."""

_SHORTEST: Final = 8  # a shorter key, such as "test", is taken out by its place alone, not wherever its letters stand

_NAMES = (
    r"(?:x-)?api[-_]?key|(?:proxy-)?authorization(?:_token)?|(?:access|refresh|id|auth|bearer|session)[-_]?token"
    r"|client[-_]?secret|secret|secret[-_]?(?:access[-_]?)?key|private[-_]?key|password|passwd"
)
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_SECRET_HEADER = re.compile(rf"{_NAMES}|(?:set-)?cookie|.*token|.*secret|.*key", re.IGNORECASE)
_SECRET_ARGUMENT = re.compile(rf"{_NAMES}|key|token|sig|signature|auth|code", re.IGNORECASE)
_SECRET_MEMBER = re.compile(rf'("(?:{_NAMES})"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(?:sk|pk|rk|sess)-[A-Za-z0-9_-]{12,}|\bBearer [A-Za-z0-9._~+/=-]{8,}|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAKIA[A-Z0-9]{16}\b|\bhf_[A-Za-z0-9]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
)

_KEPT = frozenset(
    {
        *("accept", "content-type", "date", "retry-after", "retry-after-ms", "request-id", "x-request-id"),
        *("anthropic-beta", "anthropic-version", "openai-beta", "openai-processing-ms", "openai-version"),
    }
)
_KEPT_BEGINNINGS = ("x-ratelimit-", "anthropic-ratelimit-")


@final
class Redaction:
    """Takes out secrets: those it was told, those that requests carried in their headers, and what looks like one.

    Of headers only those are kept that are known to be harmless.
    """

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        self._known: set[str] = set()
        for secret in secrets:
            self._learn(secret.reveal() if isinstance(secret, Secret) else secret)

    def headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The headers that are kept, by lower-case name; the values of those that hold keys are secrets from now on."""
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if _SECRET_HEADER.fullmatch(name):
                for text in {value, *value.split()[-1:]}:
                    self._learn(text)
            elif name in _KEPT or name.startswith(_KEPT_BEGINNINGS):
                kept[name] = value
        return {name: self.text(value) for name, value in kept.items()}

    def path(self, path: str) -> str:
        """The path, and its query without the values of arguments that are named like keys."""
        before, mark, query = path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        hidden = [(name, REMOVED if _SECRET_ARGUMENT.fullmatch(name) else self.text(value)) for name, value in pairs]
        return self.text(before) + mark + urlencode(hidden, safe="()")

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, REMOVED)
        text = _SECRET_MEMBER.sub(rf'\1"{REMOVED}"', text)
        return _SECRET_VALUE.sub(REMOVED, text)

    def body(self, body: bytes) -> bytes:
        """The bytes without secrets; those that are no text, only without the ones that are known."""
        try:
            return self.text(body.decode()).encode()
        except UnicodeDecodeError:
            for secret in sorted(self._known, key=len, reverse=True):
                body = body.replace(secret.encode(), REMOVED.encode())
            return body

    def data(self, data: Any) -> Any:
        """JSON data without secrets, in its keys and its values."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, list):
            return [self.data(item) for item in cast("Any", data)]
        if isinstance(data, dict):
            return {self.text(name): self._member(name, value) for name, value in cast("Any", data).items()}
        return data

    def _member(self, name: str, value: Any) -> Any:
        return REMOVED if isinstance(value, str) and _SECRET_NAME.fullmatch(name) else self.data(value)

    def _learn(self, text: str) -> None:
        if len(text) >= _SHORTEST:
            self._known.add(text)
