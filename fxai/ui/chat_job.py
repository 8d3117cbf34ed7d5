"""Jobs of a chat application. Use `ChatJob` to run one request for a turn until the store contains the turn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias, final

import anyio
import msgspec
from returns.result import Failure, Result

from fxai.effects.cause import Failed
from fxai.effects.constructor import fail
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Fetch, Generate, Local, Sync
from fxai.effects.runtime import Runtime
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.messages.calls import insert_late
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
    """Accepts or refuses the request for the present conversation."""
    body: Mapping[str, Any]
    """The other members of the request, for the answerer."""
    answerer: Answerer
    conversations: Conversations
    streams: StreamStore
    options: StreamOptions
    """The options for the parts of the run that clients receive."""
    on_leave: OnLeave
    """Action after all readers of the turn have disconnected."""
    pages: TurnPages | None = None
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
        turn = self._turn(conversation, accepted)
        added = accepted.late + accepted.added
        record = Turn.make(turn.id, accepted.parent, accepted.user, accepted.message_id, added, now)
        yield self.conversations.begin(id_, self.user, record)
        writer = yield self.streams.open(id_, turn.id, most_ahead=_AHEAD if self.on_leave == "cancel" else None)
        run = TurnRun(
            self.answerer,
            turn,
            record,
            self.conversations,
            writer,
            options=self.options,
            on_leave=self.on_leave,
            before=accepted.before,
            pages=self.pages,
            late=accepted.late,
        )
        key, ledger = yield self.conversations.signer()
        yield Sync(self.begun.set)
        yield Local(run.execute(), lambda context: in_threads(with_signer(key, ledger, context)))

    def _hold(self, tries: int) -> EffectOf[None, Any, Any]:
        """Lock the conversation. Wait a short time for a turn that is ending."""

        def again(error: object) -> EffectOf[None, Any, Any]:
            if not isinstance(error, Busy):
                return fail(error)
            return self._hold(tries - 1).delay(_PAUSE) if tries > 1 else fail(RefusedError(409, "busy", str(error)))

        held: EffectOf[None, Any, Any] = self.conversations.hold(self.conversation_id)
        return held.catch_all(again)

    def _turn(self, conversation: Conversation | None, accepted: Accepted) -> ChatTurn:
        goes_on = conversation is not None and accepted.parent is not None
        history = conversation.history(accepted.parent) if conversation is not None and goes_on else Prompt.empty
        return ChatTurn(
            self.user,
            self.conversation_id,
            self.turn_id,
            Prompt(insert_late(history + accepted.late)) if len(accepted.late) else history,
            accepted.added,
            conversation.state(accepted.parent) if conversation is not None and goes_on else None,
            self.body,
        )
