"""Usage: the tokens that a request took. Addition makes totals, and what no provider told stays unknown.

>>> Usage(input_tokens=5) + Usage(input_tokens=2, output_tokens=1)
Usage(input_tokens=7, output_tokens=1)
>>> Usage().total_tokens is None
True
"""

from __future__ import annotations

from typing import final

import msgspec

__all__ = ["Usage"]


def _plus(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right


@final
class Usage(msgspec.Struct, frozen=True, repr_omit_defaults=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tokens, counted by the provider. None means that it did not say.

    Attributes:
        input_tokens: All tokens of the prompt, cached ones among them.
        output_tokens: All tokens of the answer, reasoning among them.
        cached_input_tokens: The input tokens that were read from the provider's cache.
        cache_write_input_tokens: The input tokens that were written to it.
        reasoning_tokens: The output tokens that were reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Both together: associative and commutative, with `Usage()` as the neutral one."""
        return Usage(
            _plus(self.input_tokens, other.input_tokens),
            _plus(self.output_tokens, other.output_tokens),
            _plus(self.cached_input_tokens, other.cached_input_tokens),
            _plus(self.cache_write_input_tokens, other.cache_write_input_tokens),
            _plus(self.reasoning_tokens, other.reasoning_tokens),
        )

    @property
    def total_tokens(self) -> int | None:
        """Input and output together, of what is known; None when neither is."""
        return _plus(self.input_tokens, self.output_tokens)
