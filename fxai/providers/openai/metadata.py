"""Marks: what OpenAI says beside the content of a part, kept under its name in the part's metadata.

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
    """Metadata that holds what is not None, and nothing at all if everything is."""
    kept = {name: value for name, value in said.items() if value is not None}
    return {NAME: kept} if kept else {}


def marks(part: Carrier) -> Mapping[str, Any]:
    """What the metadata of a part or a message holds of OpenAI's; empty if it holds nothing."""
    said = part.metadata.get(NAME)
    return said if is_object(said) else {}
