"""Capabilities of a model, found by its name; a model with an unknown name is taken to have all of them.

>>> reasons("gpt-5.5"), reasons("gpt-4o"), reasons("llama-4")
(True, False, None)
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_known", "reasons", "samples", "supports_schema"]

_REASONING: Final = re.compile(r"^(?:ft:)?(?:o[1-9]|gpt-[5-9]|codex|computer-use)(?!.*chat-latest)")
_PLAIN: Final = re.compile(r"^(?:ft:)?(?:gpt-3|gpt-4|chatgpt-4|gpt-[5-9][\d.]*-chat-latest|davinci|babbage)")
_SAMPLING: Final = re.compile(r"^(?:gpt-5\.[1-9]|gpt-[6-9])")
# Structured outputs came with gpt-4o-2024-08-06; what was there before has none.
_WITHOUT_SCHEMA: Final = re.compile(
    r"^(?:ft:)?(?:gpt-3\.5|gpt-4(?:-|$)|gpt-4o-2024-05-13|chatgpt-4o|o1-mini|o1-preview)"
)


def is_known(model: str) -> bool:
    """Whether it is a model of OpenAI's, by its name."""
    return reasons(model) is not None


def reasons(model: str) -> bool | None:
    """Whether the model reasons before it answers; None for an unknown model."""
    if _REASONING.match(model):
        return True
    return False if _PLAIN.match(model) else None


def samples(model: str, effort: str | None) -> bool:
    """Whether it takes `temperature` and `top_p`: a model that reasons does not, unless it is told not to think."""
    return not reasons(model) or (effort == "none" and _SAMPLING.match(model) is not None)


def supports_schema(model: str) -> bool:
    """Whether it can be held to a JSON Schema; an unknown model is taken to.

    >>> supports_schema("gpt-5.5"), supports_schema("gpt-3.5-turbo")
    (True, False)
    """
    return _WITHOUT_SCHEMA.match(model) is None
