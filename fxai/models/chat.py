"""Chats: a conversation with a model as a service, one turn after another, and the stores that keep conversations.

A turn's prompt and its answer are saved together, when the turn has succeeded. A turn that fails leaves the history as
it was, so that it can be tried again; only the results of calls that it approved stay, because they have been run.
Before such calls run, the history is saved with them in doubt: whatever stops the process then, none of them is run
again unasked.

A `Chat` is for a program that talks with a model turn by turn, and does not need an agent. A `Memory` (`fxai.agents`)
is for agents, which read it and add to it by themselves.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> @fx.gen
... def talk():
...     chat = yield from Chat
...     yield from chat.generate_text("Hello")
...     yield from chat.generate_text("How are you?")
...     return (yield from chat.history)
>>> model = ScriptedModel.make([text("Good day."), text("Fine.")])
>>> [message.role for message in fx.run(talk().provide(Chat.layer()).provide(model.layer))]
['user', 'assistant', 'user', 'assistant']
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Protocol, final

import msgspec
from returns.result import Success
from typing_extensions import TypeVar, Unpack, override

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.concurrency import Lock
from fxai.effects.constructor import attempt_work
from fxai.effects.context import ContextOf
from fxai.effects.effect import Ask, Effect, EffectOf, FailCause, Fetch, FlatMap, Local, Succeed, Suspend, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope, scoped
from fxai.effects.service import Clock, Service
from fxai.effects.stream import StreamOf
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.response import Response
from fxai.models.language_model import (
    LanguageModel,
    ObjectPending,
    ObjectResponse,
    object_round,
    stream_round,
    text_round,
)
from fxai.models.request import RoundOptions
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.tools.failure import CallFailure, ToolError
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from fxai.storage.history import Histories

__all__ = ["Chat", "ChatError", "ChatStore", "ChatStoreError"]

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")
_T = TypeVar("_T", default=Never)
_V = TypeVar("_V")


@final
class ChatStoreError(msgspec.Struct, frozen=True):
    """A chat could not be held, loaded, saved or deleted: which, and why.

    >>> print(ChatStoreError("c1", "load", "no such file"))
    the chat 'c1' could not be loaded: no such file
    """

    chat_id: str
    doing: Literal["hold", "load", "save", "delete"]
    description: str

    @override
    def __str__(self) -> str:
        return f"the chat {self.chat_id!r} could not be {_DONE[self.doing]}: {self.description}"


_DONE = {"hold": "held", "load": "loaded", "save": "saved", "delete": "deleted"}


class ChatStore(Service):
    """Keeps histories, each under the id of its chat. A store is a value; `store.layer` makes it the service.

    `ChatStore.files(folder)` has a JSON file for each chat, and `ChatStore.sqlite(path)` one database in WAL mode; both
    serve many processes at once. A store of your own gives the four methods.

    >>> from fxai.effects import fx
    >>> store = ChatStore.in_process()
    >>> fx.run(store.save("c1", Prompt.make("Hello"), None).and_then(store.load("c1"))) == Prompt.make("Hello")
    True
    """

    @abstractmethod
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        """Waits until no other program, in this process or another, holds the chat; holds it until the scope closes.

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
        """Puts the history in the place of the one that is there, whole or not at all.

        Args:
            chat_id: the chat.
            history: all its messages.
            expires: when it is forgotten, in seconds since 1970 by the `Clock`; None: never.
        """

    @abstractmethod
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        """Forgets the chat; nothing happens where there is none."""

    @property
    def layer(self) -> LayerOf[ChatStore, Never, None]:
        """The layer that gives this store as the service `ChatStore`."""
        return LayerOf.succeed(ChatStore, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[ChatStore, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(store)`

    # -- constructors

    @staticmethod
    def in_process() -> ChatStore:
        """A new store that ends with the process."""
        from fxai.storage.history import ProcessHistories  # only where there is a store

        return _HistoryStore(ProcessHistories())

    in_memory = in_process

    @staticmethod
    def files(folder: str | os.PathLike[str]) -> ChatStore:
        """The store of JSON files in a folder, made where it is not there.

        Raises:
            ValueError: no folder can have that path.
        """
        from fxai.storage.history import FileHistories  # only where there is a store
        from fxai.storage.private_file import full_path

        return _HistoryStore(FileHistories(full_path(folder)))

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> ChatStore:
        """The store in a SQLite database, made where it is not there; locks stand in a folder beside it.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where there is a store
        from fxai.storage.history import TableHistories

        return _HistoryStore(TableHistories(database_path(path)))


@final
class _HistoryStore(ChatStore):
    """A store of the histories of `fxai.storage`."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories

    @override
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        return self._histories.hold(chat_id).map_error(lambda error: ChatStoreError(chat_id, "hold", str(error)))

    @override
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        return _CLOCK.flat_map(
            lambda clock: self._attempt(chat_id, "load", lambda: self._histories.load(chat_id, clock.now()))
        )

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        return self._attempt(chat_id, "save", lambda: self._histories.save(chat_id, history, expires))

    @override
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        return self._attempt(chat_id, "delete", lambda: self._histories.delete(chat_id))

    def _attempt(
        self, chat_id: str, doing: Literal["load", "save", "delete"], work: Callable[[], _A]
    ) -> EffectOf[_A, ChatStoreError]:
        def fail(error: Exception) -> ChatStoreError | None:
            return ChatStoreError(chat_id, doing, str(error)) if isinstance(error, OSError) else None

        return attempt_work(work, fail, in_thread=self._histories.blocks)


_CLOCK: EffectOf[Clock] = Fetch(Clock)


ChatError = AiError | ToolError | ChatStoreError
"""What can go wrong in a turn."""

_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


class _Place(Protocol):
    """Where the history of one chat is."""

    def hold(self) -> EffectOf[None, ChatStoreError, Scope | None]: ...
    def load(self) -> EffectOf[Prompt, ChatStoreError]: ...
    def save(self, history: Prompt) -> EffectOf[None, ChatStoreError]: ...


@final
class Chat(Service):
    """A conversation: its history, and turns that go on from it.

    Turns take place one after another, in the order in which they came; those of a chat in a store also where several
    processes talk at once. Inside a turn there is no turn of the same chat: that is a defect, for it could never begin.
    """

    def __init__(self, place: _Place) -> None:
        """A chat whose history is at a place; use `from_prompt`, `layer` or `stored`."""
        self._place = place
        self._lock = Lock()

    # -- constructors

    @staticmethod
    def from_prompt(prompt: PromptInput = Prompt.empty) -> EffectOf[Chat]:
        """The effect of a new chat in this process, which goes on from `prompt`: instructions, say, or a history."""
        return Sync(lambda: Chat(_InProcess(Prompt.make(prompt))))

    @staticmethod
    def from_json(text: str | bytes) -> EffectOf[Chat, DecodeFailure]:
        """The effect of a new chat in this process, which goes on from what `to_json` gave.

        Fails with:
            DecodeFailure: It is not JSON, or not a history; it says where.
        """

        def read() -> EffectOf[Chat, DecodeFailure]:
            history = Prompt.from_json(text)
            if isinstance(history, Success):
                return Chat.from_prompt(history.unwrap())
            return FailCause(Cause((Fail(history.failure()),)))

        return Suspend(read)

    @staticmethod
    def layer(prompt: PromptInput = Prompt.empty) -> LayerOf[Chat, Never, None]:
        """The layer of a chat in this process, which goes on from `prompt`; each building of it is a new chat."""
        return LayerOf.effect(Chat, Chat.from_prompt(prompt))

    @staticmethod
    def stored(
        chat_id: str, prompt: PromptInput = Prompt.empty, *, time_to_live: float | None = None
    ) -> LayerOf[Chat, Never, ChatStore | None]:
        """The layer of the chat that a `ChatStore` keeps under an id.

        Args:
            chat_id: which chat.
            prompt: what it goes on from where the store has none of this id; by default nothing.
            time_to_live: seconds after its last turn, by the `Clock`, when it is forgotten; None: never.

        Raises:
            ValueError: the time to live is not positive.
        """
        if time_to_live is not None and time_to_live <= 0:
            raise ValueError(f"a chat with a time to live of {time_to_live} s is forgotten before it is kept")
        first = Prompt.make(prompt)
        store: EffectOf[ChatStore, Never, ChatStore | None] = Fetch(ChatStore)
        return LayerOf.effect(Chat, store.map(lambda store: Chat(_Stored(store, chat_id, first, time_to_live))))

    # -- what was said

    @property
    def history(self) -> EffectOf[Prompt, ChatStoreError]:
        """Everything that was said, by all turns that have ended."""
        return self._place.load()

    @property
    def pending(self) -> EffectOf[tuple[Pending, ...], ChatStoreError]:
        """What the last turn left open: say what becomes of it in a tool message, and the chat goes on."""
        return self.history.map(lambda history: history.pending)

    def to_json(self) -> EffectOf[str, ChatStoreError]:
        """The history as JSON text, nothing lost: `from_json` goes on from it."""
        return self.history.map(lambda history: history.to_json())

    def replace(self, prompt: PromptInput) -> EffectOf[None, ChatStoreError]:
        """Puts another history in the place of the one that it has, when the turn that runs has ended."""
        return self.turn(lambda _: Succeed((None, Prompt.make(prompt))))

    # -- turns

    def turn(self, f: Callable[[Prompt], EffectOf[tuple[_A, Prompt], _E, _R]]) -> EffectOf[_A, _E | ChatStoreError, _R]:
        """A turn of your own: `f` is given the history; gives the first of what it gives, and keeps the second.

        So an agent talks in a chat: `chat.turn(lambda said: agent.execute(said + prompt).map(lambda answer: (answer,
        answer.history)))`. Nothing is kept when it fails.
        """

        def keep(both: tuple[_A, Prompt]) -> EffectOf[_A, ChatStoreError]:
            return self._save(both[1]).as_(both[0])

        def taken(history: Prompt) -> EffectOf[Any, Any, Any]:
            return self._inside(f(history)).flat_map(keep)

        ended: EffectOf[Any, Any, Any] = scoped(self._begin().flat_map(taken))
        return ended

    def generate_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, ChatError, _T | LanguageModel | None]:
        """A turn as `LanguageModel.generate_text`; without a prompt the model goes on, with the results of its calls.

        Fails as that, and with `ChatStoreError`. A failure of a tool holds the `history` that would have been kept.
        """

        def asked(history: Prompt) -> EffectOf[tuple[Response, Prompt], Any, Any]:
            said = history + Prompt.make(prompt)
            answered = text_round(said, toolkit, options, on_settled=self._save)
            return _with_prompt(answered, said).map(lambda response: (response, said.with_response(response.content)))

        return self.turn(asked)

    def generate_object(
        self,
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], ChatError | ObjectPending, _T | LanguageModel | None]:
        """A turn as `LanguageModel.generate_object`. With `ObjectPending` the turn is kept: it has succeeded so far."""
        wanted: Schema[_V] = Schema[Any].of(schema)

        def asked(history: Prompt) -> EffectOf[tuple[ObjectResponse[_V] | ObjectPending, Prompt], Any, Any]:
            said = history + Prompt.make(prompt)
            answered: EffectOf[Any, Any, Any] = object_round(said, wanted, toolkit, options, on_settled=self._save)
            ended = _with_prompt(answered, said).catch_all(_pending)
            return ended.map(lambda end: (end, said.with_response(end.response.content)))

        return self.turn(asked).flat_map(_typed)

    def stream_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, ChatError, _T | LanguageModel | None]:
        """A turn as `LanguageModel.stream_text`; it is kept before `finish` comes.

        The next turn begins when the stream has ended. One that is left before its end has not succeeded.
        """

        def opened(history: Prompt) -> StreamOf[StreamPart, Any, Any]:
            said = history + Prompt.make(prompt)
            parts: list[StreamPart] = []

            def heard(part: StreamPart) -> EffectOf[None, ChatStoreError]:
                parts.append(part)
                if part.type != "finish":
                    return _NOTHING
                return self._save(said.with_response(Response.from_stream(parts).content))

            stream = stream_round(said, toolkit, options, on_settled=self._save)
            inside = stream.provide_built(Succeed(ContextOf({self: True})))
            return inside.map_error(lambda error: _with_history(error, said)).tap(heard)

        return StreamOf.unwrap(self._begin().map(opened))

    def _begin(self) -> EffectOf[Prompt, ChatStoreError, Scope | None]:
        """The history, when it is this turn's turn, until the scope closes."""
        return Ask(self._refuse_inside).flat_map(
            lambda inside: (
                inside
                if inside is not None
                else self._lock.hold().and_then(self._place.hold()).and_then(self._place.load())
            )
        )

    def _refuse_inside(self, context: ContextOf[Any]) -> EffectOf[Any] | None:
        if context.find(self) is None:
            return None
        said = "a turn of this chat began inside another one and would wait for ever: ask `LanguageModel` itself there"
        return FailCause(Cause((Die(RuntimeError(said)),)))

    def _inside(self, turn: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E, _R]:
        return Local(turn, lambda context: context.put(self, True))

    def _save(self, history: Prompt) -> EffectOf[None, ChatStoreError]:
        return self._place.save(history).uninterruptible()


_NOTHING: EffectOf[None] = Succeed(None)


def _with_prompt(answered: EffectOf[_A, Any, Any], said: Prompt) -> EffectOf[_A, Any, Any]:
    return answered.map_error(lambda error: _with_history(error, said))


def _with_history(error: Any, said: Prompt) -> Any:
    if not isinstance(error, CallFailure):
        return error
    parts = () if error.response is None else error.response.content
    return msgspec.structs.replace(error, history=said.with_response(parts))


def _pending(error: Any) -> EffectOf[ObjectPending, Any]:
    return Succeed(error) if isinstance(error, ObjectPending) else FailCause(Cause((Fail(error),)))


def _typed(end: ObjectResponse[_V] | ObjectPending) -> EffectOf[ObjectResponse[_V], ObjectPending]:
    return FailCause(Cause((Fail(end),))) if isinstance(end, ObjectPending) else Succeed(end)


@final
class _InProcess:
    """A history in this process."""

    def __init__(self, history: Prompt) -> None:
        self._history = history

    def hold(self) -> EffectOf[None, ChatStoreError, Scope | None]:
        return _NOTHING

    def load(self) -> EffectOf[Prompt, ChatStoreError]:
        return Sync(lambda: self._history)

    def save(self, history: Prompt) -> EffectOf[None, ChatStoreError]:
        def put() -> None:
            self._history = history

        return Sync(put)


@final
class _Stored(msgspec.Struct, frozen=True, eq=False):
    """A history in a store."""

    store: ChatStore
    chat_id: str
    first: Prompt
    time_to_live: float | None

    def hold(self) -> EffectOf[None, ChatStoreError, Scope | None]:
        return self.store.hold(self.chat_id)

    def load(self) -> EffectOf[Prompt, ChatStoreError]:
        return self.store.load(self.chat_id).map(lambda saved: self.first if saved is None else saved)

    def save(self, history: Prompt) -> EffectOf[None, ChatStoreError]:
        if self.time_to_live is None:
            return self.store.save(self.chat_id, history, None)
        seconds = self.time_to_live
        return FlatMap(_CLOCK, lambda clock: self.store.save(self.chat_id, history, clock.now() + seconds))
