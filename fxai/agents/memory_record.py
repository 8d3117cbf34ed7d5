"""Memory records: the work of a thread as an effect of a memory, and turns as text that can be read again.

>>> read_turn([kept_text(Prompt.make("Hello"))]) == Prompt.make("Hello")
True
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, TypeVar

from returns.result import Success

from fxai.agents.memory import MemoryFailure
from fxai.agents.memory_turn import NotAwaitedError, merged
from fxai.effects.constructor import attempt_async
from fxai.effects.effect import EffectOf
from fxai.messages.prompt import MessageError, Prompt
from fxai.schema.fault import DecodeFailure

__all__ = ["kept_text", "read_turn", "worked"]

_A = TypeVar("_A")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk, of what a user may have, of what a file may be


def worked(
    memory: str, doing: Literal["load", "commit", "turns", "clear"], work: Callable[[], _A]
) -> EffectOf[_A, MemoryFailure]:
    """What a thread does, to its end even when the run is cancelled.

    Fails with:
        MemoryFailure: The system or the database refused, what stands there is no memory, or what is to be kept cannot
            be.
    """

    def failed(error: Exception) -> MemoryFailure | None:
        if isinstance(error, OSError) and error.errno is not None:
            remedy = (
                "make room" if error.errno in _FULL else "give the path of a file that this process may read and write"
            )
            return MemoryFailure(memory, doing, f"{error.strerror}; {remedy}")
        known = isinstance(error, OSError | MessageError | NotAwaitedError)
        return MemoryFailure(memory, doing, str(error)) if known else None

    def begun() -> Awaitable[_A]:
        from fxai.effects.thread import in_thread  # only where it is asked for

        return in_thread(work)

    return attempt_async(begun, failed)


def kept_text(messages: Prompt) -> str:
    """The messages as JSON text, of which it is sure that it can be read again.

    Raises:
        MessageError: a payload is no JSON data, or too deep.
    """
    text = messages.to_json()
    read = Prompt.from_json(text)
    if not isinstance(read, Success):
        raise MessageError(f"it could be written and never read again: {read.failure()}")
    return text


def read_turn(texts: Iterable[str | bytes]) -> Prompt:
    """The messages of a turn, of the texts of its commits.

    Raises:
        OSError: one of them holds no messages; it says what is wrong, and not where.
    """
    turn = Prompt.empty
    for text in texts:
        turn += Prompt.from_json(text).alt(_refuse).unwrap()
    return merged(turn)


def _refuse(failure: DecodeFailure) -> OSError:
    raise OSError(f"it holds no messages ({failure})")
