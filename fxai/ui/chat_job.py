"""Jobs of a chat application: one request for a turn, from the moment it is taken until the turn is kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias, final

import anyio
from returns.result import Result, Success

from fxai.effects.cause import Failed
from fxai.effects.constructor import fail
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Fetch, Generate, Local, Succeed, Sync
from fxai.effects.runtime import Runtime
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.messages.calls import place_late
from fxai.messages.prompt import Prompt
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.tools.handler import in_threads
from fxai.ui.access import RefusedError, unknown_conversation
from fxai.ui.chunk import StreamOptions
from fxai.ui.conversation import Conversation, Turn
from fxai.ui.conversation_store import Busy, Conversations
from fxai.ui.request import Accepted, Refusal
from fxai.ui.stream_store import StreamStore
from fxai.ui.turn import Answerer, ChatTurn, OnLeave, TurnPages, TurnRun, log_failure

_PATIENCE: Final = 20  # tries
_PAUSE: Final = 0.05  # seconds: a turn that ends, or was stopped, lets the next one begin soon
_AHEAD: Final = 2_000  # events

Accept: TypeAlias = Callable[[Conversation | None, Callable[[], str]], Result[Accepted, Refusal]]
"""Reads a request beside its conversation, which may not be there yet; it is given what makes new ids."""


def with_signer(key: ApprovalKey, ledger: ApprovalLedger, context: ContextOf[Any]) -> ContextOf[Any]:
    """Return the context with the key and the ledger of a store, unless it has its own."""
    if not context.find(ApprovalKey):
        context = context.put(ApprovalKey, key)
    return context if context.find(ApprovalLedger) else context.put(ApprovalLedger, ledger)


@final
class ChatJob:
    """A request for a turn."""

    def __init__(
        self,
        conversation_id: str,
        user: str,
        owner: str | None,
        accept: Accept,
        body: Mapping[str, Any],
        answerer: Answerer,
        conversations: Conversations,
        streams: StreamStore,
        *,
        options: StreamOptions,
        on_leave: OnLeave,
        pages: TurnPages | None = None,
    ) -> None:
        """A job.

        Args:
            conversation_id: the id of the conversation.
            user: who asks.
            owner: whose the conversation was when the user was allowed to write to it; None: there was none. Where it
                is somebody else's by now, it is unknown to the user.
            accept: what of the request is taken, beside the conversation, or why it is refused.
            body: what else the client sent, for the answerer.
            answerer: what answers the turn.
            conversations: where the turn is kept.
            streams: where its stream is kept.
            options: what of the run is sent.
            on_leave: what becomes of it when its readers have all left.
            pages: where its page is found while it runs.
        """
        self._id = conversation_id
        self._user = user
        self._owner = user if owner is None else owner
        self._accept = accept
        self._body = body
        self._answerer = answerer
        self._conversations = conversations
        self._streams = streams
        self._options = options
        self._on_leave: OnLeave = on_leave
        self._pages = pages
        self.turn_id: str = secrets.token_urlsafe(12)
        """The id of the turn."""
        self.begun: anyio.Event = anyio.Event()
        """Is set when the turn has begun, or was refused."""
        self.refused: RefusedError | None = None
        """Why it did not begin."""

    async def run(self, services: Runtime[Any]) -> None:
        """Runs the turn to its end, in the current task; whatever goes wrong is told to the client, and in the log."""
        try:
            end = await services.run_exit(scoped(Generate(self._run, (), {})))
        except BaseException:
            self._refuse(RefusedError(503, "stopped", "the server shuts down: try again soon"))
            raise
        if isinstance(end, Failed):
            failures = [failure for failure in end.cause.failures if isinstance(failure, RefusedError)]
            if failures:
                self._refuse(failures[0])
                return
            log_failure(self.turn_id, self._id, end.cause)
        self._refuse(RefusedError(500, "failed", "the server could not begin the turn; its log says why"))

    def _refuse(self, refused: RefusedError) -> None:
        if not self.begun.is_set():
            self.refused = refused
            self.begun.set()

    def _run(self) -> Generator[AnyEffect, Any, None]:
        id_ = self._id
        yield self._hold(_PATIENCE)
        now: float = (yield Fetch(Clock)).now()
        conversation: Conversation | None = yield self._conversations.load(id_)
        accepted: Accepted = yield self._read(conversation)
        turn = self._turn(conversation, accepted)
        said = accepted.late + accepted.said
        record = Turn.make(turn.id, accepted.parent, accepted.user, accepted.message_id, said, now)
        yield self._conversations.begin(id_, self._user, record)
        writer = yield self._streams.open(id_, turn.id, most_ahead=_AHEAD if self._on_leave == "cancel" else None)
        run = TurnRun(
            self._answerer,
            turn,
            record,
            self._conversations,
            writer,
            options=self._options,
            on_leave=self._on_leave,
            before=accepted.before,
            pages=self._pages,
            late=accepted.late,
        )
        key, ledger = yield self._conversations.signer()
        yield Sync(self.begun.set)
        yield Local(run.execute(), lambda context: in_threads(with_signer(key, ledger, context)))

    def _hold(self, tries: int) -> EffectOf[None, Any, Any]:
        """Holds the conversation; a turn that is ending is waited for, a little."""

        def again(error: object) -> EffectOf[None, Any, Any]:
            if not isinstance(error, Busy):
                return fail(error)
            return self._hold(tries - 1).delay(_PAUSE) if tries > 1 else fail(RefusedError(409, "busy", str(error)))

        held: EffectOf[None, Any, Any] = self._conversations.hold(self._id)
        return held.catch_all(again)

    def _read(self, conversation: Conversation | None) -> EffectOf[Accepted, RefusedError]:
        if conversation is not None and conversation.owner != self._owner:
            return fail(unknown_conversation())
        found = self._accept(conversation, lambda: secrets.token_urlsafe(12))
        if isinstance(found, Success):
            return Succeed(found.unwrap())
        refusal = found.failure()
        return fail(RefusedError(refusal.status, refusal.code, str(refusal)))

    def _turn(self, conversation: Conversation | None, accepted: Accepted) -> ChatTurn:
        goes_on = conversation is not None and accepted.parent is not None
        history = conversation.history(accepted.parent) if conversation is not None and goes_on else Prompt.empty
        return ChatTurn(
            self._user,
            self._id,
            self.turn_id,
            Prompt(place_late(history + accepted.late)) if len(accepted.late) else history,
            accepted.said,
            conversation.state(accepted.parent) if conversation is not None and goes_on else None,
            self._body,
        )
