"""Signals to an active turn. Use them to stop it, answer its question, or steer it, also from another process.

>>> read_signal(write_signal(UserReply("q1", "accept", {"sure": True})))
UserReply(question_id='q1', action='accept', content={'sure': True})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec
from typing_extensions import override


@final
class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """A signal that stops the turn."""


@final
class UserReply(msgspec.Struct, frozen=True, tag="reply"):
    """The user's answer to a question during a turn."""

    question_id: str
    """The id of the question."""
    action: Literal["accept", "decline", "cancel"]
    """The user's decision."""
    content: Mapping[str, Any] | None = None
    """The values of the form if the user accepted the question, otherwise None."""

    @override
    def __hash__(self) -> int:
        return hash((self.question_id, self.action))


@final
class SentMessage(msgspec.Struct, frozen=True, tag="message"):
    """A user message to the run of the turn."""

    id: str
    """The id of the message, which the client receives again when the message joins the run."""
    delivery: Literal["steer", "queue"]
    """The time when the message joins the run: at its next step, or after its answer. See `Inbox` of `fxai.agents`."""
    prompt: list[Any]
    """The message as JSON values, see `Prompt.to_data`."""

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.delivery))


Signal: TypeAlias = Stop | UserReply | SentMessage
"""A signal to an active turn."""


def write_signal(signal: Signal) -> Any:
    """Return the signal as JSON values."""
    return msgspec.to_builtins(signal)


def read_signal(data: Any) -> Signal:
    """Return the signal in JSON values. Raise `OSError` if they are not a valid signal."""
    try:
        signal: Signal = msgspec.convert(data, Stop | UserReply | SentMessage)
    except msgspec.ValidationError as error:
        raise OSError(f"invalid signal: {error}") from error
    return signal
