"""Keys of calls. Use a key to make an external request only once, even if the call runs again.

>>> CallKey("a1").started_before
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import final

import msgspec


@final
class CallKey(msgspec.Struct, frozen=True, eq=False):
    """A key that stays the same each time that the call runs, in any process.

    A durable run creates the key. If the run resumes, the key stays the same until a person decides to repeat the
    call. If another worker of a cluster runs the call, the key also stays the same. Keys of different calls differ.
    """

    text: str
    started_before: bool = False
    """True if an earlier program started the call and its outcome is unknown."""
    uses: Iterator[int] = msgspec.field(default_factory=count)
    """The number of each use in this program, from 0. Each retry of a handler is another use."""
    finalizers: list[Callable[[], object]] = []
    """Functions to call when the run has recorded the outcome. No process needs the key after that."""
