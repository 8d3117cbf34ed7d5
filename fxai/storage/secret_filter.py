"""A filter that removes secrets from strings and JSON values. Use it before you store data of a conversation in a file.

>>> SecretFilter(["correct horse"]).text("the password is correct horse")
'the password is (secret)'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

REMOVED: Final = "(secret)"
"""The replacement of a secret."""

SECRET_NAMES: Final = (
    r"(?:x-)?api[-_]?key|(?:proxy-)?authorization(?:_token)?|(?:access|refresh|id|auth|bearer|session)[-_]?token"
    r"|client[-_]?secret|secret|secret[-_]?(?:access[-_]?)?key|private[-_]?key|password|passwd"
)
"""The pattern of names whose values are secrets."""

_SHORTEST: Final = 8  # fxai removes a shorter key, such as "test", only from its field and not from other strings
_SECRET_NAME: Final = re.compile(SECRET_NAMES, re.IGNORECASE)
_SECRET_MEMBER: Final = re.compile(rf'("(?:{SECRET_NAMES})"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(
    r"\b(?:sk|pk|rk|sess)-[A-Za-z0-9_-]{12,}|\bBearer [A-Za-z0-9._~+/=-]{8,}|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAKIA[A-Z0-9]{16}\b|\bhf_[A-Za-z0-9]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
)


class SecretFilter:
    """A filter of given secrets, of strings that look like a key, and of JSON members with the name of a key.

    Args:
        secrets: Strings to remove. The filter ignores strings of fewer than 8 characters.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        for secret in secrets:
            self.learn(secret)

    def learn(self, text: str) -> None:
        """Add a secret."""
        if len(text) >= _SHORTEST:
            self._known.add(text)

    def text(self, text: str) -> str:
        """Return the string without secrets."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, REMOVED)
        text = _SECRET_MEMBER.sub(rf'\1"{REMOVED}"', text)
        return _SECRET_VALUE.sub(REMOVED, text)

    def body(self, body: bytes) -> bytes:
        """Return the bytes without secrets. If they are not text, remove only known secrets."""
        try:
            return self.text(body.decode()).encode()
        except UnicodeDecodeError:
            for secret in sorted(self._known, key=len, reverse=True):
                body = body.replace(secret.encode(), REMOVED.encode())
            return body

    def data(self, data: Any) -> Any:
        """Return the JSON value without secrets in its keys and values."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, list):
            return [self.data(item) for item in cast("Any", data)]
        if isinstance(data, dict):
            return {self.text(name): self._member(name, value) for name, value in cast("Any", data).items()}
        return data

    def _member(self, name: str, value: Any) -> Any:
        return REMOVED if isinstance(value, str) and _SECRET_NAME.fullmatch(name) else self.data(value)
