"""What goes wrong where chats are kept.

>>> print(ChatStoreError("c1", "load", "no such file"))
the chat 'c1' could not be loaded: no such file
"""

from __future__ import annotations

from typing import Literal, final

import msgspec
from typing_extensions import override

__all__ = ["ChatStoreError"]


@final
class ChatStoreError(msgspec.Struct, frozen=True):
    """A chat could not be held, loaded, saved or deleted: which, and why."""

    chat_id: str
    doing: Literal["hold", "load", "save", "delete"]
    description: str

    @override
    def __str__(self) -> str:
        return f"the chat {self.chat_id!r} could not be {_DONE[self.doing]}: {self.description}"


_DONE = {"hold": "held", "load": "loaded", "save": "saved", "delete": "deleted"}
