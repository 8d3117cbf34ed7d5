"""Chats: a conversation with a model as a service, and the stores of conversations. Use a chat without an agent.

A chat saves the prompt and the answer of a turn together when the turn succeeds. If a turn fails, the history stays
unchanged, so that you can repeat the turn. Only the results of approved calls remain, because these calls have run.
Before approved calls run, the chat saves the history with unknown outcomes of the calls. If the process then stops, no
call runs again without a new approval.

A `Chat` is for a program that talks with a model turn by turn. A `Memory` (`fxai.agents`) is for agents, which read and
extend it automatically.

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
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, final, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.concurrency import Lock
from fxai.effects.constructor import attempt_work, fail, of_result
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Fetch, Local, Succeed, Suspend, Sync, Within
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope, scoped
from fxai.effects.service import Clock, Service
from fxai.effects.stream import AnyStream, StreamOf, provide_stream
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.message import handles_of
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.response import Response
from fxai.models.compaction import Compaction, check_compaction, compact_request
from fxai.models.growth import Growth, SentRequest
from fxai.models.language_model import LanguageModel, ObjectPending, ObjectResponse, RoundSetup
from fxai.models.model_request import RoundOptions
from fxai.models.token_count import TokenCount
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.tools.tool_error import ToolError
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.models.partial_object import ObjectPart
    from fxai.storage.history import Histories
    from fxai.storage.result_store import ResultStore

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")
_T = TypeVar("_T", default=Never)
_V = TypeVar("_V")


@final
class ChatStoreError(msgspec.Struct, frozen=True):
    """The failure of a store operation: the chat, the operation, and the reason.

    >>> print(ChatStoreError("c1", "load", "no such file"))
    chat 'c1' could not be loaded: no such file
    """

    chat_id: str
    """The id of the chat."""
    doing: Literal["hold", "load", "save", "delete"]
    """The operation that failed."""
    description: str
    """The reason."""

    @override
    def __str__(self) -> str:
        return f"chat {self.chat_id!r} could not be {_DONE[self.doing]}: {self.description}"


_DONE = {"hold": "held", "load": "loaded", "save": "saved", "delete": "deleted"}


class ChatStore(Service):
    """A store of histories by the id of their chat. A store is a value; provide it as a service with `store.layer`.

    `ChatStore.files(folder)` uses a file of JSON lines for each chat. `ChatStore.sqlite(path)` uses one database in WAL
    mode. Both append the messages in each turn, and many processes can use them. To implement a store, define the four
    abstract methods.

    >>> from fxai.effects import fx
    >>> store = ChatStore.in_process()
    >>> fx.run(store.save("c1", Prompt.make("Hello"), None).and_then(store.load("c1"))) == Prompt.make("Hello")
    True
    """

    @abstractmethod
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        """Wait until no other program in any process uses the chat, and reserve the chat until the scope closes.

        If a process dies, its reservations end.
        """

    @abstractmethod
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        """Return the history, or None if the store has no history or the history expired.

        Fails with:
            ChatStoreError: If the store cannot read it, or its data is not a history.
        """

    def reload(self, chat_id: str, known: Prompt | None) -> Effect[Prompt | None, ChatStoreError]:
        """Return the history, like `load`, for a chat that saves the next history.

        A store that overrides this method does not read the messages that the chat already has. By default, it is
        `load`.

        Args:
            chat_id: The chat id.
            known: The history that the chat reloaded or saved last. If it is still the stored history, it can be the
                result.
        """
        del known
        return self.load(chat_id)

    @abstractmethod
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        """Replace the history completely. If the effect fails, the stored history stays unchanged.

        Args:
            chat_id: The chat id.
            history: All messages.
            expires: The time when the store may forget the chat, in seconds since 1970 by the `Clock`, or None.
        """

    @abstractmethod
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        """Delete the chat. The effect also succeeds if the chat does not exist."""

    @property
    def layer(self) -> LayerOf[ChatStore, Never, None]:
        """The layer that provides this store as the service `ChatStore`."""
        return LayerOf.succeed(ChatStore, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[ChatStore, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(store)`

    # -- constructors

    @staticmethod
    def in_process(*, results: ResultStore | None = None) -> ChatStore:
        """Return a new store that exists until the process ends.

        Args:
            results: The store of large results. `delete` also removes the results of the chat. Default: None.
        """
        from fxai.storage.history import ProcessHistories  # imported late, because only stores need it

        return _HistoryStore(ProcessHistories(), results)

    in_memory = in_process

    @staticmethod
    def files(folder: str | os.PathLike[str], *, results: ResultStore | None = None) -> ChatStore:
        """Return the store of files of JSON lines in a directory. fxai creates the directory if it does not exist.

        Args:
            folder: The directory.
            results: The store of large results, see `in_process`.

        Raises:
            ValueError: If `folder` is not a valid path of a directory.
        """
        from fxai.storage.history import FileHistories  # imported late, because only stores need it
        from fxai.storage.private_file import full_path

        return _HistoryStore(FileHistories(full_path(folder)), results)

    @staticmethod
    def sqlite(path: str | os.PathLike[str], *, results: ResultStore | None = None) -> ChatStore:
        """Return the store in a SQLite database. fxai creates it if necessary, with a directory of locks next to it.

        Args:
            path: The database.
            results: The store of large results, see `in_process`.

        Raises:
            ValueError: If `path` is not valid for a database.
        """
        from fxai.storage.database import database_path  # imported late, because only stores need it
        from fxai.storage.history import TableHistories

        return _HistoryStore(TableHistories(database_path(path)), results)


@final
class _HistoryStore(ChatStore):
    def __init__(self, histories: Histories, results: ResultStore | None) -> None:
        self._histories = histories
        self._results = results

    @override
    def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Scope]:
        return self._histories.hold(chat_id).map_error(lambda error: ChatStoreError(chat_id, "hold", str(error)))

    @override
    def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
        return _CLOCK.flat_map(
            lambda clock: self._attempt(chat_id, "load", lambda: self._histories.load(chat_id, clock.now()))
        )

    @override
    def reload(self, chat_id: str, known: Prompt | None) -> Effect[Prompt | None, ChatStoreError]:
        return _CLOCK.flat_map(
            lambda clock: self._attempt(chat_id, "load", lambda: self._histories.reload(chat_id, known, clock.now()))
        )

    @override
    def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
        return self._attempt(chat_id, "save", lambda: self._histories.save(chat_id, history, expires))

    @override
    def delete(self, chat_id: str) -> Effect[None, ChatStoreError]:
        def delete() -> None:
            history = None if self._results is None else self._histories.load(chat_id, 0.0)
            self._histories.delete(chat_id)
            if self._results is not None and history is not None:
                self._results.remove(handles_of(history))

        return self._attempt(chat_id, "delete", delete)

    def _attempt(
        self, chat_id: str, doing: Literal["load", "save", "delete"], work: Callable[[], _A]
    ) -> EffectOf[_A, ChatStoreError]:
        working = attempt_work(work, OSError, in_thread=self._histories.blocks)
        return working.map_error(lambda error: ChatStoreError(chat_id, doing, str(error)))


_CLOCK: EffectOf[Clock] = Fetch(Clock)


ChatError = AiError | ToolError | ChatStoreError
"""The failures of a turn."""

_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


@final
class Chat(Service):
    """A conversation: its history, and turns that continue it.

    Turns run one after the other in the order of their start, also if multiple processes use the same stored chat. A
    turn cannot start inside another turn of the same chat. This is a defect, because it would wait forever.
    """

    def __init__(
        self,
        store: ChatStore,
        chat_id: str,
        first: Prompt,
        time_to_live: float | None = None,
        compaction: Compaction | None = None,
    ) -> None:
        """Create a chat in a store. Programs use `from_prompt`, `layer`, or `stored` instead."""
        self._store = store
        self._id = chat_id
        self._first = first
        self._time_to_live = time_to_live
        self._compaction = check_compaction(compaction)
        self._lock = Lock()
        self._last: SentRequest | None = None  # the request of the last turn of this object
        self._known: Prompt | None = None  # the stored history that the last turn of this object read or saved

    # -- constructors

    @staticmethod
    def from_prompt(prompt: PromptInput = Prompt.empty, *, compaction: Compaction | None = None) -> EffectOf[Chat]:
        """Return the effect of a new chat in this process that continues `prompt`: instructions or a history.

        Args:
            prompt: The first messages.
            compaction: The rule that shortens the messages for the model. The history stays whole. The usage of a turn
                includes the request for a summary. Default: None.
        """
        return Sync(lambda: Chat(ChatStore.in_process(), "", Prompt.make(prompt), compaction=compaction))

    @staticmethod
    def from_json(text: str | bytes) -> EffectOf[Chat, DecodeFailure]:
        """Return the effect of a new chat in this process that continues the history from `to_json`.

        Fails with:
            DecodeFailure: If the text is not JSON or not a history. The failure contains the location.
        """
        return Suspend(lambda: of_result(Prompt.from_json(text)).flat_map(Chat.from_prompt))

    @staticmethod
    def layer(
        prompt: PromptInput = Prompt.empty, *, compaction: Compaction | None = None
    ) -> LayerOf[Chat, Never, None]:
        """Return the layer for a chat in this process. Each build creates a new chat, see `from_prompt`."""
        return LayerOf.effect(Chat, Chat.from_prompt(prompt, compaction=compaction))

    @staticmethod
    def stored(
        chat_id: str,
        prompt: PromptInput = Prompt.empty,
        *,
        time_to_live: float | None = None,
        compaction: Compaction | None = None,
    ) -> LayerOf[Chat, Never, ChatStore | None]:
        """Return the layer for the chat that a `ChatStore` stores under an id.

        Args:
            chat_id: The chat id.
            prompt: The first messages if the store has no chat with this id. Default: no messages.
            time_to_live: Seconds after the last turn, by the `Clock`, until the chat expires, or None for no limit.
            compaction: The rule that shortens the messages for the model, see `from_prompt`.

        Raises:
            ValueError: If the time to live is not positive.
        """
        if time_to_live is not None and time_to_live <= 0:
            raise ValueError(f"time_to_live must be greater than 0 seconds, got {time_to_live}")
        first = Prompt.make(prompt)
        store: EffectOf[ChatStore, Never, ChatStore | None] = Fetch(ChatStore)
        return LayerOf.effect(Chat, store.map(lambda store: Chat(store, chat_id, first, time_to_live, compaction)))

    # -- the history

    @property
    def history(self) -> EffectOf[Prompt, ChatStoreError]:
        """All messages of the finished turns."""
        return self._store.load(self._id).map(lambda saved: self._first if saved is None else saved)

    @property
    def pending(self) -> EffectOf[tuple[Pending, ...], ChatStoreError]:
        """The open calls in the last turn. To continue the chat, pass a tool message that answers them."""
        return self.history.map(lambda history: history.pending)

    def to_json(self) -> EffectOf[str, ChatStoreError]:
        """Return the complete history as a JSON string. `from_json` continues it."""
        return self.history.map(lambda history: history.to_json())

    def replace(self, prompt: PromptInput) -> EffectOf[None, ChatStoreError]:
        """Replace the history after the current turn has ended."""
        return self.turn(lambda _: Succeed((None, Prompt.make(prompt))))

    # -- turns

    def turn(self, f: Callable[[Prompt], EffectOf[tuple[_A, Prompt], _E, _R]]) -> EffectOf[_A, _E | ChatStoreError, _R]:
        """Run a custom turn: call `f` with the history, save the new history, and return the value.

        `f` returns an effect of the value and the new history. For example, an agent talks in a chat with
        `chat.turn(lambda history: agent.execute(history + prompt).map(lambda answer: (answer, answer.history)))`. If
        the effect fails, the chat saves nothing.
        """

        def run(history: Prompt) -> AnyEffect:
            inside = Local(f(history), lambda context: context.put(self, True))
            return inside.flat_map(lambda both: self._save(both[1]).as_(both[0]))

        turn: AnyEffect = scoped(self._start().flat_map(run))
        return turn

    def count_tokens(
        self,
        prompt: PromptInput = Prompt.empty,
        *,
        toolkit: AnyToolkit = _NO_TOOLS,
        schema: TypeForm[Any] | Schema[Any] | None = None,
        **options: Unpack[RoundOptions],
    ) -> EffectOf[TokenCount, AiError | ChatStoreError, LanguageModel | None]:
        """Return the number of tokens in the next request: the history, followed by `prompt`.

        It does not wait for the current turn. For the arguments, see `LanguageModel.count_tokens`. The effect fails
        like `LanguageModel.count_tokens`, or with `ChatStoreError`.
        """

        def count(history: Prompt) -> EffectOf[TokenCount, AiError, LanguageModel | None]:
            whole = history + Prompt.make(prompt)
            return LanguageModel.count_tokens(whole, toolkit=toolkit, schema=schema, **options)

        return self.history.flat_map(count)

    def generate_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> EffectOf[Response, ChatError, _T | LanguageModel | None]:
        """Run a turn like `LanguageModel.generate_text`. Without a prompt, the model continues with its results.

        The effect fails like `LanguageModel.generate_text`, or with `ChatStoreError`. The failure of a tool contains
        the `history` with the results of the turn.
        """

        def ask(history: Prompt) -> EffectOf[tuple[Response, Prompt], Any, Any]:
            asked, growth = self._ask(history, prompt, toolkit, options)
            answer = asked.text().tap(self._note(growth)).map_error(lambda error: _with_history(error, asked.prompt))
            return answer.map(lambda response: (response, _grow(asked.prompt, response, growth)))

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
        toolkit: AnyToolkit = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> AnyEffect:
        """Run a turn like `LanguageModel.generate_object`. The chat saves a turn that ends with `ObjectPending`."""
        wanted: Schema[Any] = Schema.of(schema)

        def ask(history: Prompt) -> EffectOf[tuple[ObjectResponse[Any] | ObjectPending, Prompt], Any, Any]:
            def save_pending(error: Any) -> EffectOf[ObjectPending, Any]:
                return Succeed(error) if isinstance(error, ObjectPending) else fail(_with_history(error, asked.prompt))

            asked, growth = self._ask(history, prompt, toolkit, options)
            answer: AnyEffect = asked.object(wanted).tap(self._note(growth)).catch_all(save_pending)
            return answer.map(lambda end: (end, _grow(asked.prompt, end.response, growth)))

        return self.turn(ask).flat_map(lambda end: fail(end) if isinstance(end, ObjectPending) else Succeed(end))

    def stream_text(
        self, prompt: PromptInput = Prompt.empty, *, toolkit: Toolkit[_T] = _NO_TOOLS, **options: Unpack[RoundOptions]
    ) -> StreamOf[StreamPart, ChatError, _T | LanguageModel | None]:
        """Run a turn like `LanguageModel.stream_text`. The chat saves the turn before the `finish` part.

        The next turn starts after the end of the stream. If you stop reading early, the turn does not succeed.
        """
        parts: list[StreamPart] = []

        def collect(part: StreamPart) -> Response | None:
            parts.append(part)
            return Response.from_stream(parts) if part.type == "finish" else None

        return self._stream(prompt, toolkit, options, RoundSetup.text_stream, collect)

    @overload
    def stream_object(
        self,
        prompt: PromptInput,
        schema: type[_V] | Schema[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> StreamOf[ObjectPart[_V], ChatError | ObjectPending, _T | LanguageModel | None]: ...
    @overload
    def stream_object(
        self,
        prompt: PromptInput,
        schema: TypeForm[_V],
        *,
        toolkit: Toolkit[_T] = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> StreamOf[ObjectPart[_V], ChatError | ObjectPending, _T | LanguageModel | None]: ...
    def stream_object(
        self,
        prompt: PromptInput,
        schema: Any,
        *,
        toolkit: AnyToolkit = _NO_TOOLS,
        **options: Unpack[RoundOptions],
    ) -> AnyStream:
        """Run a turn like `LanguageModel.stream_object`. The chat saves the turn before the last part.

        The chat also saves a turn that ends with `ObjectPending`. The next turn starts after the end of the stream. If
        you stop reading early, the turn does not succeed.
        """
        wanted: Schema[Any] = Schema.of(schema)
        return self._stream(
            prompt, toolkit, options, lambda asked: asked.object_stream(wanted), lambda part: part.response
        )

    def _ask(
        self, history: Prompt, prompt: PromptInput, toolkit: AnyToolkit, options: RoundOptions
    ) -> tuple[RoundSetup, Growth]:
        """Return the round of a turn, and the requests of the conversation."""
        growth = Growth(self._last)
        compact = None if self._compaction is None else partial(compact_request, self._compaction, growth)
        return RoundSetup(history + Prompt.make(prompt), toolkit, options, self._save, growth, compact), growth

    def _stream(
        self,
        prompt: PromptInput,
        toolkit: AnyToolkit,
        options: RoundOptions,
        start: Callable[[RoundSetup], AnyStream],
        end: Callable[[Any], Response | None],
    ) -> AnyStream:
        """Return the stream of a turn. The chat saves the response that `end` returns for the last part."""

        def ask(history: Prompt) -> AnyStream:
            asked, growth = self._ask(history, prompt, toolkit, options)

            def save(response: Response | None) -> EffectOf[None, ChatStoreError]:
                if response is None:
                    return _NOTHING
                return self._save(_grow(asked.prompt, response, growth)).tap(self._note(growth))

            def fail_after_save(error: Any) -> AnyStream:
                saved = save(error.response) if isinstance(error, ObjectPending) else _NOTHING
                return StreamOf.from_effect(saved.and_then(fail(_with_history(error, asked.prompt))))

            inside = provide_stream(start(asked), Succeed(ContextOf({self: True})))
            return inside.catch_all(fail_after_save).tap(lambda part: save(end(part)))

        return StreamOf.unwrap(self._start().map(ask))

    def _start(self) -> EffectOf[Prompt, ChatStoreError, Scope | None]:
        """Wait for the earlier turns and return the history. Later turns wait until the scope closes."""

        def note(stored: Prompt | None) -> Prompt:
            self._known = stored
            return self._first if stored is None else stored

        def start(context: AnyContext) -> EffectOf[Prompt, Any, Any]:
            if context.find(self) is None:
                held = self._lock.hold().and_then(self._store.hold(self._id))
                return held.and_then(Suspend(lambda: self._store.reload(self._id, self._known))).map(note)
            text = "a turn of this chat started inside another turn and would wait forever"
            raise RuntimeError(f"{text}. Call `LanguageModel` inside a turn.")

        return Within(start)

    def _note(self, growth: Growth) -> Callable[[object], EffectOf[None]]:
        """Return the effect that stores the request of a successful turn for the next turn."""

        def note() -> None:
            self._last = growth.last

        return lambda _: Sync(note)

    def _save(self, history: Prompt) -> EffectOf[None, ChatStoreError]:
        def save(expires: float | None) -> EffectOf[None, ChatStoreError]:
            return self._store.save(self._id, history, expires).tap(lambda _: Sync(note))

        def note() -> None:
            self._known = history

        seconds = self._time_to_live
        if seconds is None:
            return save(None).uninterruptible()
        return _CLOCK.flat_map(lambda clock: save(clock.now() + seconds)).uninterruptible()


_NOTHING: EffectOf[None] = Succeed(None)


def _grow(prompt: Prompt, response: Response, growth: Growth) -> Prompt:
    """Return the history after a turn. The last message before the turn records its compaction."""
    return (prompt if growth.compacted is None else growth.compacted.mark(prompt)).with_response(response.content)


def _with_history(error: Any, prompt: Prompt) -> Any:
    if not isinstance(error, ToolError):
        return error
    parts = () if error.response is None else error.response.content
    return msgspec.structs.replace(error, history=prompt.with_response(parts))
