"""Turns of a conversation. Use `ChatJob` to run an agent for a turn, send its answer as it arrives, and save it.

The store of conversations contains a turn before the model is called. The turn ends in the store before its last chunk
is sent, so that a client that reads `finish` finds the whole turn saved. A stopped or failed turn is saved with its
messages so far. Calls that did not finish receive the result that they were stopped.

Handlers use the service `ChatPage` to show data on the page and to ask questions. The client can send messages to the
run, which reads them from an inbox.

>>> from fxai.effects import fx
>>> @fx.gen
... def book():
...     page = yield from ChatPage
...     reply = yield from page.ask(Question("Book the flight?"))
...     return reply.action
>>> fx.run(book())  # outside a turn
'decline'
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias, cast, final, get_args

import anyio
import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.agents.agent import Agent
from fxai.agents.draft import Draft
from fxai.agents.inbox import Inbox, InboxMessage
from fxai.agents.state import PromptState
from fxai.agents.stateful import StatefulPrompt
from fxai.effects.cause import Cause, Exit, Failed
from fxai.effects.concurrency import cut, for_each, fork
from fxai.effects.constructor import fail
from fxai.effects.context import ContextOf
from fxai.effects.effect import (
    AnyEffect,
    AwaitValue,
    EffectOf,
    FailCause,
    Fetch,
    Generate,
    Local,
    Succeed,
    Suspend,
    Sync,
)
from fxai.effects.runtime import Runtime, run_sync
from fxai.effects.scope import scoped
from fxai.effects.service import Clock, Reference
from fxai.effects.stream import StreamOf
from fxai.messages.calls import insert_late
from fxai.messages.message import ToolCallPart
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.schema.json_schema import JsonSchema
from fxai.tools.handler import in_threads
from fxai.ui.chunk import Chunk, ChunkEncoder, DataPart, StreamOptions, encode_each, error_of, to_event
from fxai.ui.conversation import Conversation, Turn
from fxai.ui.conversation_store import Busy, ConversationError, Conversations
from fxai.ui.message_builder import ChunkError, MessageBuilder
from fxai.ui.request import Accepted, Refusal, RefusedError, unknown_conversation
from fxai.ui.signal import SentMessage, Signal, Stop, UserReply
from fxai.ui.stream_store import StreamStore, StreamStoreError, StreamWriter

_LOG: Final = logging.getLogger("fxai.ui")

STOPPED: Final = "the user stopped it"
LEFT: Final = "the user left"
SHUT_DOWN: Final = "the server shut down"
FAILED: Final = "the run failed"
_MOST_MESSAGES: Final = 100
_PARTS: Final = frozenset(get_args(StreamPart))


# -- turns


@final
class ChatTurn(msgspec.Struct, frozen=True):
    """A turn before its answer: the user, the conversation, and the user's message."""

    user: str
    """The name of the user that the application identified."""
    conversation: str
    """The id of the conversation."""
    id: str
    """The id of the turn."""
    history: Prompt
    """The conversation before the turn."""
    added: Prompt
    """A user message, or a tool message with answers to pending calls."""
    state: PromptState | None = None
    """The state of a stateful prompt before the turn, or None if it has no state yet."""
    body: Mapping[str, Any] = {}
    """All other members of the client's request. The application must check this JSON data."""

    @property
    def prompt(self) -> Prompt:
        """The whole conversation, ending with the message of this turn."""
        return self.history + self.added

    @override
    def __hash__(self) -> int:
        return hash(self.id)


AnyParts: TypeAlias = StreamOf[Any, Any, Any]
"""The parts of an answer as they arrive: `StreamPart` and `DataPart`."""

AnyAnswer: TypeAlias = Agent[Any, Any, Any, Any] | StatefulPrompt[Any, Any] | AnyParts
"""The answerer of a turn: an agent, a stateful prompt, or the parts of an answer."""

Answerer: TypeAlias = AnyAnswer | Callable[[ChatTurn], AnyAnswer | EffectOf[AnyAnswer, Any, Any]]
"""The answerer of all turns, or a function that returns the answerer of a turn."""


def answer_parts(answerer: Answerer, turn: ChatTurn, draft: Draft) -> AnyParts:
    """Return the parts of the answer to a turn. The draft records them as they arrive.

    Raise `TypeError` if the function returned a value that cannot answer a turn.
    """
    found = answerer(turn) if callable(answerer) else answerer
    if isinstance(found, EffectOf):
        return StreamOf.unwrap(found.map(lambda answer: answer_parts(answer, turn, draft)))
    if isinstance(found, StatefulPrompt):
        return draft.stream(Agent.make(found.name, prompt=found, budget=found.budget), turn.added)
    if isinstance(found, Agent):
        return draft.stream(found, turn.added)
    if not isinstance(cast("object", found), StreamOf):
        advice = "Return an agent, a stateful prompt, or a stream of parts."
        raise TypeError(f"the function that answers turns returned {found!r}. {advice}")
    parts = found

    def note(part: StreamPart | DataPart) -> None:
        if type(part) in _PARTS:
            draft.note(cast("StreamPart", part))
        elif not isinstance(part, DataPart):
            raise TypeError(f"{part!r} is not a part of an answer. Use the parts of fxai.messages, or DataPart.")

    def start() -> AnyParts:
        draft.start(turn.added)
        return parts

    return StreamOf.suspend(start).tap(lambda part: Sync(lambda: note(part)))


# -- the page, for handlers


@final
class Question(msgspec.Struct, frozen=True):
    """A question to the user during a turn: a form, or an address to visit if `url` is set."""

    message: str
    """The text of the question."""
    title: str = ""
    """The name of the sender, or the subject."""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of the form, an object of simple fields. Without fields, the user only accepts or declines."""
    url: str | None = None
    """The address to visit. None if the question is a form."""

    @override
    def __hash__(self) -> int:
        return hash((self.message, self.title, self.url))


class ChatPage(Reference):
    """The page of a turn, as a service for handlers. Outside a turn, no user answers."""

    def show(self, data: DataPart) -> EffectOf[None]:  # noqa: ARG002
        """Send data of the application to the page. Outside a turn, do nothing."""
        return Succeed(None)

    def ask(self, question: Question) -> EffectOf[UserReply]:  # noqa: ARG002
        """Ask the user, and wait for the answer while the turn runs. Outside a turn, return `decline`.

        The content of an accepted answer is valid for the question's schema.
        """
        return Succeed(UserReply("", "decline"))

    @classmethod
    @override
    def default(cls) -> ChatPage:
        return ChatPage()


@final
class _TurnPage(ChatPage):
    """The page of an active turn."""

    def __init__(self, send: Callable[[DataPart], EffectOf[None, Any]]) -> None:
        self._send = send
        self._waiting: dict[str, anyio.Event] = {}
        self._replies: dict[str, UserReply] = {}

    @override
    def show(self, data: DataPart) -> EffectOf[None]:
        return self._send(data).or_die()

    @override
    def ask(self, question: Question) -> EffectOf[UserReply]:
        return Generate(self._ask, (question,), {})

    def _ask(self, question: Question) -> Generator[AnyEffect, Any, UserReply]:
        id_ = secrets.token_urlsafe(12)
        faults: list[str] = []
        while True:
            answered = self._waiting[id_] = anyio.Event()
            yield self.show(_question_data(id_, question, faults=faults))
            try:
                yield AwaitValue(answered.wait)
            finally:
                self._waiting.pop(id_, None)
            reply = self._replies.pop(id_)
            faults = []
            if reply.action == "accept" and question.url is None:
                form = JsonSchema.of(dict(question.schema))
                faults = [str(fault) for fault in form.validate(dict(reply.content or {}))]
            if not faults:
                yield self.show(_question_data(id_, question, answered=reply.action))
                return reply

    def answer(self, reply: UserReply) -> None:
        """Accept the first reply of the user to an open question. Ignore other replies."""
        answered = self._waiting.pop(reply.question_id, None)
        if answered is not None:
            self._replies[reply.question_id] = reply
            answered.set()


@final
class TurnPages:
    """The pages of the active turns, for questions of code outside a turn, such as an MCP server."""

    def __init__(self) -> None:
        self.running: list[_Running] = []
        """The active turns, oldest first."""

    def ask(self, question: Question, tools: Collection[str]) -> EffectOf[UserReply]:
        """Ask on the page of the newest turn with an open call of one of these tools. Otherwise return `decline`."""

        def ask() -> EffectOf[UserReply]:
            for running in reversed(self.running):
                if running.is_calling(tools):
                    return running.page.ask(question)
            return ChatPage.default().ask(question)

        return Suspend(ask)


def _question_data(id_: str, question: Question, **more: Any) -> DataPart:
    data = {
        "questionId": id_,
        **msgspec.to_builtins(question),
        **{name: value for name, value in more.items() if value},
    }
    return DataPart("question", data, id_)


# -- the run of a turn

OnLeave: TypeAlias = Literal["cancel", "continue"]
"""The action after all readers of a turn have disconnected."""


@final
class _Running:
    """An active turn, whose start is in the store. It saves the turn before it sends the last chunk."""

    def __init__(self, job: ChatJob, turn: ChatTurn, record: Turn, accepted: Accepted, writer: StreamWriter) -> None:
        self._job = job
        self._turn = turn
        self._record = record
        self._late = accepted.late
        self._writer = writer
        self._draft = Draft(turn.history, turn.state, accepted.late)
        self._draft.start(turn.added)
        self._builder = MessageBuilder(record.message_id, accepted.before)
        self._encoder = ChunkEncoder(job.options, message_id=record.message_id, earlier=self._earlier_calls())
        self.page: _TurnPage = _TurnPage(self._show)
        self._inbox = Inbox.in_process(capacity=_MOST_MESSAGES, on_join=self._note_joined)
        self._shown: Any = msgspec.UNSET  # the last state that the page received
        self._last: tuple[Chunk, ...] = ()  # the last chunks, after the turn is saved
        self._last_sent = False
        self._answering: anyio.CancelScope | None = None  # the scope of the answer, after its start
        self._stopping: str | None = None  # the reason of a stop

    def execute(self) -> AnyEffect:
        parts = StreamOf.suspend(lambda: answer_parts(self._job.answerer, self._turn, self._draft))
        answering = Local(
            encode_each(parts, self._encoder, self._send).catch_cause(self._fail_answer),
            lambda context: context.put(ChatPage, self.page).put(Inbox, self._inbox),
        )
        listening: AnyEffect = self._writer.listen(self._take)
        if self._job.on_leave != "continue":
            listening = listening.and_then(fork(self._writer.left.map(lambda _: self._cancel(LEFT))))
        ends: AnyEffect = scoped(listening.and_then(cut(answering, self._hold, Stop()))).exit()

        def close(_: Exit[Any, Any]) -> AnyEffect:  # saves the messages so far if the run was cancelled
            return self._stop(SHUT_DOWN).and_then(self._write_last(wait=False)).exit()

        self._job.pages.running.append(self)
        return ends.flat_map(self._end).on_exit(close).on_exit(lambda _: Sync(self._leave))

    def _leave(self) -> None:
        self._job.pages.running.remove(self)
        del self.page, self._inbox  # both refer to this turn, whose memory is free at once without the cycle

    def _earlier_calls(self) -> list[ToolCallPart]:
        """Return the calls that the turn answers and that no part of its message contains."""
        answered = {
            part.approval_id if part.type == "tool-approval-response" else part.id
            for message in self._late + self._turn.added
            for part in (message.content if message.role == "tool" else ())
        }
        if not answered:
            return []
        here = self._builder.open_calls
        parts = [part for one in self._turn.history if one.role == "assistant" for part in one.content]
        asked = [part for part in parts if part.type == "tool-approval-request" and part.approval_id in answered]
        wanted = {*(part.tool_call_id for part in asked), *answered} - here.keys()
        return [part for part in parts if part.type == "tool-call" and part.id in wanted]

    def is_calling(self, tools: Collection[str]) -> bool:
        """Return True if a call of one of these tools is open."""
        return any(name in tools for name in self._builder.open_calls.values())

    # -- chunks

    def _send(self, chunk: Chunk) -> AnyEffect:
        shown = self._state() if chunk["type"] in ("start-step", "finish") else msgspec.UNSET
        if shown is msgspec.UNSET or shown == self._shown:
            return self._send_alone(chunk)
        self._shown = shown
        sent = self._show(DataPart("state", shown, transient=True))
        return sent.and_then(Suspend(lambda: self._send_alone(chunk)))

    def _state(self) -> Any:
        """Return the state for the page, or UNSET if the page receives no state."""
        to_data, state = self._job.options.state, self._draft.state
        if to_data is None or state is None:
            return msgspec.UNSET
        try:
            return to_data(state)
        except Exception as error:  # the function belongs to the application, and the run continues without it
            _LOG.error("state after turn %s is not shown: %s", self._turn.id, error, exc_info=error)
            return msgspec.UNSET

    def _send_alone(self, chunk: Chunk) -> AnyEffect:
        if chunk["type"] == "finish":
            self._draft.end()
            is_pending = bool((self._turn.history + self._draft.messages).pending)
            return self._keep("pending" if is_pending else "done", (chunk,))
        try:
            self._builder.add(chunk)
        except ChunkError as error:  # skip only the invalid chunk
            _LOG.error("a part of turn %s is not shown: %s", self._turn.id, error, exc_info=error)
            return Succeed(None)
        return self._writer.write((to_event(chunk),))

    def _show(self, data: DataPart) -> AnyEffect:
        (chunk,) = self._encoder.encode(data)
        return Suspend(lambda: self._send(chunk))

    def _fail_answer(self, cause: Cause[Any]) -> AnyEffect:
        """Save the turn of a failed answer. Pass on an interruption, and a failure of a store."""
        if cause.interrupted or any(isinstance(one, ConversationError | StreamStoreError) for one in cause.failures):
            return FailCause(cause)
        log_failure(self._turn.id, self._turn.conversation, cause)
        self._draft.stop(FAILED)
        return self._keep("failed", (*self._close_calls(FAILED), *self._encoder.error(error_of(cause))))

    # -- signals

    def _take(self, signal: Signal) -> None:
        if isinstance(signal, UserReply):
            self.page.answer(signal)
        elif isinstance(signal, SentMessage):
            self._send_to_run(signal)
        else:
            self._cancel(STOPPED)

    def _send_to_run(self, message: SentMessage) -> None:
        read = Prompt.from_data(message.prompt)
        known = {one.id for one in self._inbox.left}
        if not isinstance(read, Success) or message.id in known or len(known) >= _MOST_MESSAGES:
            return  # the client reads that the message did not join
        send = self._inbox.steer if message.delivery == "steer" else self._inbox.queue
        run_sync(send(read.unwrap(), id=message.id))

    def _cancel(self, reason: str) -> None:
        """Stop the answer for a reason, also if it has not started. Only the first reason counts."""
        self._stopping = self._stopping or reason
        if self._answering is not None:
            self._answering.cancel()

    def _hold(self, answering: anyio.CancelScope) -> AbstractAsyncContextManager[None]:
        self._answering = answering
        if self._stopping is not None:
            answering.cancel()
        return nullcontext()

    # -- the end

    def _note_joined(self, joined: tuple[InboxMessage, ...]) -> EffectOf[None]:
        """Add messages to the draft, and tell the page that they joined the run."""
        messages = [message for one in joined for message in one.messages]
        self._draft.join(messages)
        texts = [{"id": one.id, "text": "\n".join(message.text for message in one.messages)} for one in joined]
        return for_each(texts, lambda one: self._show(DataPart("joined", one, one["id"]))).or_die().as_(None)

    def _end(self, ended: Exit[Any, Any]) -> AnyEffect:
        """End the turn after the answer ended, or after a stop."""
        if not isinstance(ended, Failed):
            return self._write_last(wait=True)
        if self._stopping is not None and any(isinstance(one, Stop) for one in ended.cause.failures):
            return self._stop(self._stopping).and_then(self._write_last(wait=True))
        return self._fail(ended.cause).and_then(self._write_last(wait=False)).and_then(FailCause(ended.cause))

    def _stop(self, reason: str) -> AnyEffect:
        if self._last:
            return Succeed(None)
        self._draft.stop(reason)
        return self._keep("stopped", (*self._close_calls(reason), *self._encoder.abort(reason)))

    def _close_calls(self, reason: str) -> list[Chunk]:
        """Return chunks that report unfinished calls as errors to the page. The model receives the same error."""
        ids = self._builder.open_calls
        return [{"type": "tool-output-error", "toolCallId": id_, "errorText": reason} for id_ in ids]

    def _fail(self, cause: Cause[Any]) -> AnyEffect:
        """Save the turn as failed after its chunks, or the turn, could not be saved."""
        if self._last:
            return Succeed(None)
        self._draft.stop(FAILED)
        last = (*self._close_calls(FAILED), *self._encoder.error(cause.squash()))

        def note(_: object) -> None:
            self._last = last

        return self._keep("failed", last).exit().map(note)

    def _keep(self, ended: Literal["done", "pending", "failed", "stopped"], last: tuple[Chunk, ...]) -> AnyEffect:
        """End the turn in the store. `_write_last` sends the last chunks after this."""
        for chunk in last:
            self._builder.add(chunk)
        turn = msgspec.structs.replace(
            self._record,
            message=self._builder.message,
            messages=self._draft.messages,
            state=self._draft.state,
            ended=ended,
            error=self._builder.error if ended == "failed" else None,
        )

        def note(_: None) -> None:
            self._last = last

        return self._job.conversations.end(self._turn.conversation, turn).map(note).uninterruptible()

    def _write_last(self, *, wait: bool) -> AnyEffect:
        def write() -> AnyEffect:
            if self._last_sent or not self._last:
                return Succeed(None)
            self._last_sent = True
            return self._writer.write(tuple(map(to_event, self._last)), wait=wait)

        return Suspend(write)


def log_failure(turn_id: str, conversation_id: str, cause: Cause[Any]) -> None:
    """Log why a turn failed to `fxai.ui`, because the page does not receive all details."""
    text = "turn %s of conversation %r failed: %s"
    error = cause.squash()
    _LOG.error(text, turn_id, conversation_id, error, exc_info=error)


_PATIENCE: Final = 20  # tries
_PAUSE: Final = 0.05  # seconds between tries: a turn that is ending soon releases the conversation
_AHEAD: Final = 2_000  # events

Accept: TypeAlias = Callable[[Conversation | None, Callable[[], str]], Result[Accepted, Refusal]]
"""Checks a request against its conversation, or None if it does not exist. The second argument creates new ids."""


def with_signer(key: ApprovalKey, ledger: ApprovalLedger, context: ContextOf[Any]) -> ContextOf[Any]:
    """Return the context with the key and the ledger of a store, unless it has its own."""
    if not context.find(ApprovalKey):
        context = context.put(ApprovalKey, key)
    return context if context.find(ApprovalLedger) else context.put(ApprovalLedger, ledger)


@final
class ChatJob(msgspec.Struct, eq=False):
    """A request for a turn."""

    conversation_id: str
    """The id of the conversation."""
    user: str
    """The user who sends the request."""
    owner: str | None
    """The owner of the conversation at the time of the authorization, or None if it did not exist. If the owner has
    changed since then, the job refuses the request with "unknown"."""
    accept: Accept
    """The function that accepts or refuses the request for the present conversation."""
    body: Mapping[str, Any]
    """The members of the request that only the answerer reads."""
    answerer: Answerer
    """The agent or the function that answers the turn."""
    conversations: Conversations
    """The store that keeps the conversation and its turns."""
    streams: StreamStore
    """The store that keeps the events of the turn for its readers."""
    options: StreamOptions
    """The options for the parts of the run that clients receive."""
    on_leave: OnLeave
    """Action after all readers of the turn have disconnected."""
    pages: TurnPages = msgspec.field(default_factory=TurnPages)
    """The registry for the page of the turn while it runs."""
    turn_id: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(12))
    """The id of the turn."""
    begun: anyio.Event = msgspec.field(default_factory=anyio.Event)
    """An event that is set when the turn starts or is refused."""
    refused: RefusedError | None = None
    """The refusal of the turn, or None."""

    async def run(self, services: Runtime[Any]) -> None:
        """Run the turn in the current task. Report errors to the client and to the log."""
        try:
            end = await services.run_exit(scoped(Generate(self._run, (), {})))
        except BaseException:
            self._refuse(RefusedError(503, "stopped", "the server is shutting down. Try again later."))
            raise
        if isinstance(end, Failed):
            failures = [failure for failure in end.cause.failures if isinstance(failure, RefusedError)]
            if failures:
                self._refuse(failures[0])
                return
            log_failure(self.turn_id, self.conversation_id, end.cause)
        self._refuse(RefusedError(500, "failed", "the turn could not start. The log of the server states the reason."))

    def _refuse(self, refused: RefusedError) -> None:
        if not self.begun.is_set():
            self.refused = refused
            self.begun.set()

    def _run(self) -> Generator[AnyEffect, Any, None]:
        id_ = self.conversation_id
        yield self._hold(_PATIENCE)
        now: float = (yield Fetch(Clock)).now()
        conversation: Conversation | None = yield self.conversations.load(id_)
        if conversation is not None and conversation.owner != (self.user if self.owner is None else self.owner):
            yield fail(unknown_conversation())
        found = self.accept(conversation, lambda: secrets.token_urlsafe(12))
        if isinstance(found, Failure):
            refusal = found.failure()
            yield fail(RefusedError(refusal.status, refusal.code, str(refusal)))
        accepted = found.unwrap()
        known = None if accepted.parent is None else conversation
        history = Prompt.empty if known is None else known.history(accepted.parent)
        turn = ChatTurn(
            self.user,
            id_,
            self.turn_id,
            Prompt(insert_late(history + accepted.late)) if len(accepted.late) else history,
            accepted.added,
            None if known is None else known.state(accepted.parent),
            self.body,
        )
        added = accepted.late + accepted.added
        record = Turn.make(turn.id, accepted.parent, accepted.user, accepted.message_id, added, now)
        yield self.conversations.begin(id_, self.user, record)
        writer = yield self.streams.open(id_, turn.id, most_ahead=_AHEAD if self.on_leave == "cancel" else None)
        running = _Running(self, turn, record, accepted, writer)
        key, ledger = yield self.conversations.signer()
        yield Sync(self.begun.set)
        yield Local(running.execute(), lambda context: in_threads(with_signer(key, ledger, context)))

    def _hold(self, tries: int) -> EffectOf[None, Any, Any]:
        """Lock the conversation. Wait a short time for a turn that is ending."""

        def again(error: object) -> EffectOf[None, Any, Any]:
            if not isinstance(error, Busy):
                return fail(error)
            return self._hold(tries - 1).delay(_PAUSE) if tries > 1 else fail(RefusedError(409, "busy", str(error)))

        held: EffectOf[None, Any, Any] = self.conversations.hold(self.conversation_id)
        return held.catch_all(again)
