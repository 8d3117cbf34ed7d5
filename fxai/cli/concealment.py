"""Concealment: the settings of a provider's own tool, without the keys and tokens that may be among them.

>>> concealed({"server_url": "https://x.org", "authorization": "abc", "headers": {"X-Key": "abc"}, "max_tokens": 3})
{'server_url': 'https://x.org', 'authorization': '(hidden)', 'headers': {'X-Key': '(hidden)'}, 'max_tokens': 3}
"""

from __future__ import annotations

from typing import Any, Final

from fxai.schema.data import is_array, is_object

__all__ = ["concealed"]

_HIDDEN: Final = "(hidden)"
_SECRET: Final = ("authorization", "header", "secret", "token", "password", "api_key", "apikey", "credential")


def concealed(data: Any, *, secret: bool = False) -> Any:
    """The same plain JSON data; texts under a name that speaks of secrets are hidden, with all inside it."""
    if is_object(data):
        return {
            name: concealed(value, secret=secret or any(word in name.lower() for word in _SECRET))
            for name, value in data.items()
        }
    if is_array(data):
        return [concealed(value, secret=secret) for value in data]
    return _HIDDEN if secret and isinstance(data, str) else data
