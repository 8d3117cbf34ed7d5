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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, final, overload

import msgspec
from returns.result import Success
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.concurrency import Lock
from fxai.effects.constructor import attempt_work
from fxai.effects.context import ContextOf
from fxai.effects.effect import Effect, EffectOf, FailCause, Fetch, Local, Succeed, Suspend, Sync, Within
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope, scoped
from fxai.effects.service import Clock, Service
from fxai.effects.stream import StreamOf
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.response import Response
from fxai.models.growth import Growth, SentRequest
from fxai.models.language_model import (
    LanguageModel,
    ObjectPending,
    ObjectResponse,
    object_round,
    stream_round,
    text_round,
)
from fxai.models.model_request import RoundOptions
from fxai.models.token_count import TokenCount
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.tools.tool_error import ToolError
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from fxai.storage.history import Histories

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

    `ChatStore.files(folder)` has a file of JSON lines for each chat, and `ChatStore.sqlite(path)` one database in WAL
    mode. Both append the messages of each turn, and serve many processes. A store of your own gives the four methods.

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
        """The store of files of JSON lines in a folder, made where it is not there.

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


@final
class Chat(Service):
    """A conversation: its history, and turns that go on from it.

    Turns take place one after another, in the order in which they came; those of a chat in a store also where several
    processes talk at once. Inside a turn there is no turn of the same chat: that is a defect, for it could never begin.
    """

    def __init__(self, store: ChatStore, chat_id: str, first: Prompt, time_to_live: float | None = None) -> None:
        """A chat in a store; use `from_prompt`, `layer` or `stored`."""
        self._store = store
        self._id = chat_id
        self._first = first
        self._time_to_live = time_to_live
        self._lock = Lock()
        self._last: SentRequest | None = None  # of the last turn that this object led

    # -- constructors

    @staticmethod
    def from_prompt(prompt: PromptInput = Prompt.empty) -> EffectOf[Chat]:
        """The effect of a new chat in this process, which goes on from `prompt`: instructions, say, or a history."""
        return Sync(lambda: Chat(ChatStore.in_process(), "", Prompt.make(prompt)))

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
        return LayerOf.effect(Chat, store.map(lambda store: Chat(store, chat_id, first, time_to_live)))

    # -- the history

    @property
    def history(self) -> EffectOf[Prompt, ChatStoreError]:
        """All messages of the turns that have ended."""
        return self._store.load(self._id).map(lambda saved: self._first if saved is None else saved)

    @property
    def pending(self) -> EffectOf[tuple[Pending, ...], ChatStoreError]:
        """The calls that the last turn left open; a tool message that answers them goes on with the chat."""
        return self.history.map(lambda history: history.pending)

    def to_json(self) -> EffectOf[str, ChatStoreError]:
        """The history as JSON text, nothing lost: `from_json` goes on from it."""
        return self.history.map(lambda history: history.to_json())

    def replace(self, prompt: PromptInput) -> EffectOf[None, ChatStoreError]:
        """Replaces the history, when the turn that runs has ended."""
        return self.turn(lambda _: Succeed((None, Prompt.make(prompt))))

    # -- turns

    def turn(self, f: Callable[[Prompt], EffectOf[tuple[_A, Prompt], _E, _R]]) -> EffectOf[_A, _E | ChatStoreError, _R]:
        """A turn of your own: `f` is called with the history and gives a value and the new history, which is saved.

        So an agent talks in a chat: `chat.turn(lambda history: agent.execute(history + prompt).map(lambda answer:
        (answer, answer.history)))`. Nothing is saved when it fails.
        """

        def save(both: tuple[_A, Prompt]) -> EffectOf[_A, ChatStoreError]:
            return self._save(both[1]).as_(both[0])

        def run(history: Prompt) -> EffectOf[Any, Any, Any]:
            return Local(f(history), lambda context: context.put(self, True)).flat_map(save)

        turn: EffectOf[Any, Any, Any] = scoped(self._begin().flat_map(run))
        return turn

    def count_tokens(
        self,
        prompt: PromptInput = Prompt.empty,
        *,
        toolkit: Toolkit[Any] = _NO_TOOLS,
        schema: TypeForm[Any] | Schema[Any] | None = None,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[TokenCount, AiError | ChatStoreError, LanguageModel | None]:
        """The tokens that the next turn takes before it is answered: the history, and `prompt` behind it.

        It does not wait for a turn that is under way. Arguments as `LanguageModel.count_tokens`.

        Fails as that, and with `ChatStoreError`.
        """

        def count(history: Prompt) -> EffectOf[TokenCount, AiError, LanguageModel | None]:
            whole = history + Prompt.make(prompt)
            return LanguageModel.count_tokens(whole, toolkit=toolkit, schema=schema, **options)

        return self.history.flat_map(count)

    def generate_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, ChatError, _T | LanguageModel | None]:
        """A turn as `LanguageModel.generate_text`; without a prompt the model goes on, with the results of its calls.

        Fails as that, and with `ChatStoreError`. A failure of a tool holds the `history` that would have been kept.
        """

        def ask(history: Prompt) -> EffectOf[tuple[Response, Prompt], Any, Any]:
            whole = history + Prompt.make(prompt)
            growth = Growth(self._last)
            answer = text_round(whole, toolkit, options, on_settled=self._save, growth=growth).tap(self._note(growth))
            return _with_prompt(answer, whole).map(lambda response: (response, whole.with_response(response.content)))

        return self.turn(ask)

    @overload
    def generate_object(
        self,
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], ChatError | ObjectPending, _T | LanguageModel | None]: ...
    @overload
    def generate_object(
        self,
        prompt: PromptInput,
        schema: TypeForm[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[ObjectResponse[_V], ChatError | ObjectPending, _T | LanguageModel | None]: ...
    def generate_object(
        self,
        prompt: PromptInput,
        schema: Any,
        *,
        toolkit: Toolkit[Any] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[Any, Any, Any]:
        """A turn as `LanguageModel.generate_object`. With `ObjectPending` it is saved: it has succeeded so far."""
        wanted: Schema[Any] = Schema.of(schema)

        def ask(history: Prompt) -> EffectOf[tuple[ObjectResponse[Any] | ObjectPending, Prompt], Any, Any]:
            whole = history + Prompt.make(prompt)
            growth = Growth(self._last)
            answer: EffectOf[Any, Any, Any] = object_round(
                whole, wanted, toolkit, options, on_settled=self._save, growth=growth
            ).tap(self._note(growth))
            end = _with_prompt(answer, whole).catch_all(_pending)
            return end.map(lambda end: (end, whole.with_response(end.response.content)))

        return self.turn(ask).flat_map(_fail_pending)

    def stream_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, ChatError, _T | LanguageModel | None]:
        """A turn as `LanguageModel.stream_text`; it is saved before `finish` comes.

        The next turn begins when the stream has ended. One that is left before its end has not succeeded.
        """

        def ask(history: Prompt) -> StreamOf[StreamPart, Any, Any]:
            whole = history + Prompt.make(prompt)
            parts: list[StreamPart] = []

            def collect(part: StreamPart) -> EffectOf[None, ChatStoreError]:
                parts.append(part)
                if part.type != "finish":
                    return _NOTHING
                saved = self._save(whole.with_response(Response.from_stream(parts).content))
                return saved.tap(self._note(growth))

            growth = Growth(self._last)
            stream = stream_round(whole, toolkit, options, on_settled=self._save, growth=growth)
            inside = stream.provide_built(Succeed(ContextOf({self: True})))
            return inside.map_error(lambda error: _with_history(error, whole)).tap(collect)

        return StreamOf.unwrap(self._begin().map(ask))

    def _begin(self) -> EffectOf[Prompt, ChatStoreError, Scope | None]:
        """The history, when it is this turn's turn, until the scope closes."""

        def begin(context: ContextOf[Any]) -> EffectOf[Prompt, Any, Any]:
            if context.find(self) is None:
                return self._lock.hold().and_then(self._store.hold(self._id)).and_then(self.history)
            text = "a turn of this chat began inside another one and would wait for ever"
            return FailCause(Cause((Die(RuntimeError(f"{text}: ask `LanguageModel` itself there")),)))

        return Within(begin)

    def _note(self, growth: Growth) -> Callable[[object], EffectOf[None]]:
        """Return the effect that keeps the request of a turn that succeeded, for the next turn."""

        def note() -> None:
            self._last = growth.last

        return lambda _: Sync(note)

    def _save(self, history: Prompt) -> EffectOf[None, ChatStoreError]:
        seconds = self._time_to_live
        if seconds is None:
            return self._store.save(self._id, history, None).uninterruptible()
        saved = _CLOCK.flat_map(lambda clock: self._store.save(self._id, history, clock.now() + seconds))
        return saved.uninterruptible()


_NOTHING: EffectOf[None] = Succeed(None)


def _with_prompt(answer: EffectOf[_A, Any, Any], prompt: Prompt) -> EffectOf[_A, Any, Any]:
    return answer.map_error(lambda error: _with_history(error, prompt))


def _with_history(error: Any, prompt: Prompt) -> Any:
    if not isinstance(error, ToolError):
        return error
    parts = () if error.response is None else error.response.content
    return msgspec.structs.replace(error, history=prompt.with_response(parts))


def _pending(error: Any) -> EffectOf[ObjectPending, Any]:
    return Succeed(error) if isinstance(error, ObjectPending) else FailCause(Cause((Fail(error),)))


def _fail_pending(end: ObjectResponse[_V] | ObjectPending) -> EffectOf[ObjectResponse[_V], ObjectPending]:
    return FailCause(Cause((Fail(end),))) if isinstance(end, ObjectPending) else Succeed(end)
