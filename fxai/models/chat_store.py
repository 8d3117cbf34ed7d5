"""Chat stores: where conversations are kept while nobody talks.

Three of them, each a layer: `ChatStore.in_memory()`, `ChatStore.files(folder)` (a JSON file a chat, replaced whole) and
`ChatStore.sqlite(path)` (one database in WAL mode). The last two serve many processes at once.

>>> from fxai.effects import fx
>>> from fxai.messages.prompt import Prompt
>>> @fx.gen
... def keep():
...     store = yield from ChatStore
...     yield from store.save("c1", Prompt.make("Hello"), None)
...     return (yield from store.load("c1"))
>>> fx.run(keep().provide(ChatStore.in_memory())) == Prompt.make("Hello")
True
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, Never, final

import msgspec
from typing_extensions import override

from fxai.effects.clock import Clock
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.effects.service import Service
from fxai.messages.prompt import Prompt
from fxai.models.turnstile import Turnstile

if TYPE_CHECKING:
    from fxai.models.chat_file import Files, Sqlite

__all__ = ["ChatStore", "ChatStoreError"]


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


class ChatStore(Service):
    """Keeps histories, each under the id of its chat."""

    @abstractmethod
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        """Waits until nobody else holds the chat, in this process or another; then holds it until the scope closes.

        A process that dies holds nothing any more.
        """

    @abstractmethod
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        """The history; None where there is none, or none any more.

        Fails with:
            ChatStoreError: It cannot be read, or what stands there is no history.
        """

    @abstractmethod
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        """Puts the history in the place of what was there, whole or not at all.

        Args:
            chat_id: the chat.
            history: everything that was said.
            expires: when it is forgotten, in seconds since 1970 by the `Clock`; None: never.
        """

    @abstractmethod
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        """Forgets the chat; nothing happens where there is none."""

    @staticmethod
    def in_memory() -> LayerOf[ChatStore, Never, None]:
        """The layer of a store that is gone with the process."""
        return LayerOf.sync(ChatStore, _Memory)

    @staticmethod
    def files(folder: str | os.PathLike[str]) -> LayerOf[ChatStore, Never, None]:
        """The layer of a store of JSON files in a folder, made where it is not there.

        Raises:
            ValueError: no folder can have that path.
        """
        from fxai.storage.private_file import full_path  # only where it is asked for

        place = full_path(folder)

        def made() -> Files:
            from fxai.models.chat_file import Files

            return Files(place)

        return LayerOf.sync(ChatStore, made)

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> LayerOf[ChatStore, Never, None]:
        """The layer of a store in a SQLite database, made where it is not there; locks stand in a folder beside it.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where it is asked for

        place = database_path(path)

        def made() -> Sqlite:
            from fxai.models.chat_file import Sqlite

            return Sqlite(place)

        return LayerOf.sync(ChatStore, made)


@final
class _Memory(ChatStore):
    def __init__(self) -> None:
        self._kept: dict[str, tuple[Prompt, float | None]] = {}
        self._held: dict[str, Turnstile] = {}

    @override
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        return self._held.setdefault(chat_id, Turnstile()).enter()

    @override
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        clock: EffectOf[Clock] = Fetch(Clock)
        return clock.map(lambda clock: self._loaded(chat_id, clock.now()))

    def _loaded(self, chat_id: str, now: float) -> Prompt | None:
        history, expires = self._kept.get(chat_id, (None, None))
        return None if expires is not None and expires <= now else history

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        return Sync(lambda: self._kept.update({chat_id: (history, expires)}))

    @override
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        return Sync(lambda: self._kept.pop(chat_id, None)).flat_map(lambda _: Succeed(None))
