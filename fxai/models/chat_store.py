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
from typing import Never, Protocol, final

from typing_extensions import override

from fxai.effects.concurrency import Lock
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.effects.service import Clock, Service
from fxai.messages.prompt import Prompt
from fxai.models.chat_error import ChatStoreError

__all__ = ["ChatStore", "ChatStoreError"]


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

        def make() -> ChatStore:
            from fxai.models.chat_file import ChatFiles

            return _Stored(ChatFiles(place))

        return LayerOf.sync(ChatStore, make)

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> LayerOf[ChatStore, Never, None]:
        """The layer of a store in a SQLite database, made where it is not there; locks stand in a folder beside it.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where it is asked for

        place = database_path(path)

        def make() -> ChatStore:
            from fxai.models.chat_file import ChatTable

            return _Stored(ChatTable(place))

        return LayerOf.sync(ChatStore, make)


class _Histories(Protocol):
    """Where histories stand; each method as that of `ChatStore`."""

    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]: ...
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]: ...
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]: ...
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]: ...


@final
class _Stored(ChatStore):
    """A store of histories in files or a database."""

    def __init__(self, histories: _Histories) -> None:
        self._histories = histories

    @override
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        return self._histories.hold(chat_id)

    @override
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        return self._histories.load(chat_id)

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        return self._histories.save(chat_id, history, expires)

    @override
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        return self._histories.delete(chat_id)


@final
class _Memory(ChatStore):
    def __init__(self) -> None:
        self._kept: dict[str, tuple[Prompt, float | None]] = {}
        self._held: dict[str, Lock] = {}

    @override
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        return self._held.setdefault(chat_id, Lock()).hold()

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
