"""Memory records: where the turns of a memory stand, what can go wrong there, and turns as text.

>>> read_turn([kept_text(Prompt.make("Hello"))]) == Prompt.make("Hello")
True
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Literal, Protocol, TypeVar, final

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.agents.memory_turn import NotAwaitedError, merged
from fxai.effects.constructor import attempt_async
from fxai.effects.effect import EffectOf
from fxai.messages.prompt import MessageError, Prompt
from fxai.schema.fault import DecodeFailure

__all__ = ["MemoryFailure", "TurnStore", "in_memory", "kept_text", "read_turn"]

_A = TypeVar("_A")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk, of what a user may have, of what a file may be


@final
class MemoryFailure(msgspec.Struct, frozen=True):
    """A memory could not be loaded, committed to, read or cleared: which, and why."""

    memory: str
    """Where it is: a file, a conversation in a database, or "this process"."""
    doing: Literal["load", "commit", "turns", "clear"]
    description: str
    history: Prompt | None = None
    """The whole conversation, where a run was done and could not be committed: it can go on from it."""

    @override
    def __str__(self) -> str:
        return f"the memory in {self.memory} could not be {_DONE[self.doing]}: {self.description}"


_DONE = {"load": "loaded", "commit": "committed to", "turns": "read", "clear": "cleared"}


class TurnStore(Protocol):
    """Where the turns of a memory stand; what it does is done in a thread.

    Raises:
        OSError: the system or the database refuses, or what stands there are no turns.
    """

    @property
    def place(self) -> str:
        """Where it is, in words."""
        ...

    def read(self, f: Callable[[Iterator[Prompt]], _A], /) -> _A:
        """What `f` makes of the turns, the newest first."""
        ...

    def append(self, messages: Prompt, /) -> None:
        """Adds the messages of a run, whole or not at all; none are nothing.

        Raises:
            NotAwaitedError: there is no turn that they could go on with.
            MessageError: they could not be read again.
        """
        ...

    def clear(self) -> None:
        """Forgets all turns."""
        ...


def in_memory(
    store: TurnStore, doing: Literal["load", "commit", "turns", "clear"], work: Callable[[], _A]
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
            return MemoryFailure(store.place, doing, f"{error.strerror}; {remedy}")
        known = isinstance(error, OSError | MessageError | NotAwaitedError)
        return MemoryFailure(store.place, doing, str(error)) if known else None

    def start() -> Awaitable[_A]:
        from fxai.effects.thread import in_thread  # only where it is asked for

        return in_thread(work)

    return attempt_async(start, failed)


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
