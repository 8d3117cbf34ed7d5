"""Keys of calls, by which what a handler asks of others is done once.

>>> CallKey("a1").begun_before
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import final

import msgspec


@final
class CallKey(msgspec.Struct, frozen=True, eq=False):
    """What names a call the same however often it is run, in whichever process.

    A durable run gives it: it stays when the run goes on, until a person says that the call is to be made again. On a
    cluster, the key stays when another worker runs the call. No other call has it.
    """

    text: str
    begun_before: bool = False
    """Whether it was begun before, and what became of it is not known."""
    uses: Iterator[int] = msgspec.field(default_factory=count)
    """Numbers how often it was used in this program, from 0: a handler that is tried again is another time."""
    finalizers: list[Callable[[], object]] = []
    """What is called when its outcome is journalled, so that nobody asks for it any more."""
