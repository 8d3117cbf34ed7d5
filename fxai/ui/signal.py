"""Signals: what is sent to a turn while it runs, from the page or from another process.

>>> read_signal(write_signal(Reply("q1", "accept", {"sure": True})))
Reply(question_id='q1', action='accept', content={'sure': True})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec
from typing_extensions import override


@final
class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """The turn is to be stopped."""


@final
class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The user's answer to a question in the middle of a turn."""

    question_id: str
    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    """The form, filled in, where it was accepted."""

    @override
    def __hash__(self) -> int:
        return hash((self.question_id, self.action))


Signal: TypeAlias = Stop | Reply
"""What is sent to a turn that runs."""


def write_signal(signal: Signal) -> Any:
    """The signal as plain JSON data."""
    return msgspec.to_builtins(signal)


def read_signal(data: Any) -> Signal:
    """The signal of JSON data; raises an `OSError` where it is none."""
    try:
        signal: Signal = msgspec.convert(data, Stop | Reply)
    except msgspec.ValidationError as error:
        raise OSError(f"it holds no signal: {error}") from error
    return signal
