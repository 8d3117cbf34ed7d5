"""Elicitation: a server that asks the person behind the client for something, in the middle of a call.

By default such a request is refused, and the server told so. A function given as `elicit=` answers it.

>>> def careful(asked: Elicitation) -> ElicitAnswer:
...     return ElicitAnswer("accept", {"sure": True}) if "sure" in asked.fields else ElicitAnswer("decline")
>>> careful(Elicitation("git", "Delete the branch?", {"properties": {"sure": {"type": "boolean"}}})).action
'accept'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.effects.effect import EffectOf

__all__ = ["Elicit", "ElicitAnswer", "Elicitation"]


@final
class Elicitation(msgspec.Struct, frozen=True):
    """What a server asks for: a form to fill in, or with `url` an address to visit."""

    server: str
    message: str
    """What the person is told."""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of the form: an object of plain fields."""
    url: str | None = None
    """The address that the person should visit; None where a form is asked for."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the form's fields."""
        return tuple(self.schema.get("properties", {}))

    @override
    def __hash__(self) -> int:
        return hash((Elicitation, self.server, self.message, self.url))


@final
class ElicitAnswer(msgspec.Struct, frozen=True):
    """What the person did: accepted, with the form's fields; declined; or went away."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    """The form's fields, where it was accepted."""

    @override
    def __hash__(self) -> int:
        return hash((ElicitAnswer, self.action))


Elicit: TypeAlias = Callable[[Elicitation], ElicitAnswer | EffectOf[ElicitAnswer]]
"""What answers such requests: at once, or by an effect that waits for a person."""
