"""Metadata: what OpenAI says of a part beside its content, kept in the part's metadata under `"openai"`.

>>> mark(id="msg_1", phase=None)
{'openai': {'id': 'msg_1'}}
>>> from fxai.messages.content import TextPart
>>> marks(TextPart("Hello", metadata=mark(id="msg_1")))["id"]
'msg_1'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fxai.messages.metadata import Carrier
from fxai.schema.data import is_object

__all__ = ["NAME", "mark", "marks"]

NAME: Final = "openai"
"""The name of the provider, in metadata and options."""


def mark(**said: Any) -> dict[str, Any]:
    """Metadata of the values that are not None; empty where all are None."""
    kept = {name: value for name, value in said.items() if value is not None}
    return {NAME: kept} if kept else {}


def marks(part: Carrier) -> Mapping[str, Any]:
    """OpenAI's own metadata of a part or a message; empty where there is none."""
    said = part.metadata.get(NAME)
    return said if is_object(said) else {}
