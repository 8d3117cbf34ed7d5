"""Examples: parameters that a call may have, and the request that such a call answers.

>>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
{'city': 'Oslo'}
"""

from __future__ import annotations

from typing import Any, final

import msgspec

__all__ = ["Example"]


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: its parameters as plain JSON data, and what a user would have asked.

    Only the parameters are sent to providers; a small model in this process learns from the request too.
    """

    request: str | None
    parameters: Any

    def __hash__(self) -> int:
        return hash(self.request)  # parameters are plain data
