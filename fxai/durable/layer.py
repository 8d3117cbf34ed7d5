"""The layer that makes a program durable, with the approvals that a run uses.

>>> from fxai import Agent, fx
>>> from fxai.durable.runs import Runs
>>> from fxai.testing import ScriptedModel, text
>>> runs, model = Runs.in_process(), ScriptedModel.make([text("Good day.")])
>>> asked = Agent.make("greeter").execute("Hello").provide(durable(model.layer, run="order-17", store=runs))
>>> [fx.run_sync(asked).text for _ in range(2)], len(model.requests)  # the journal answers the second run
(['Good day.', 'Good day.'], 1)
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, final, get_args

from typing_extensions import override

from fxai.durable.failure import DurableFailure, JournalFailure, ProgramChanged, RunAsleep, RunCancelled, RunWaiting
from fxai.durable.frame import Frame, Hold, digest, leave_openly
from fxai.durable.outcome_record import missing_questions
from fxai.durable.record import FORM, Asked, Begun, Closed, Ended, Opened, RunStatus
from fxai.durable.replay import Replay
from fxai.durable.run_journal import CLOCK, Reached, RunJournal
from fxai.durable.runs import Runs
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import cut
from fxai.effects.constructor import fail
from fxai.effects.context import AnyContext, put_enclosure
from fxai.effects.effect import AnyEffect, Ask, Effect, EffectOf, Fold, Generate, Succeed, Within
from fxai.effects.layer import AnyLayer, LayerOf, MemoMap, build_layer, map_layer_context
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.messages.errors import AiError
from fxai.messages.reason import UnknownError
from fxai.models.approval_services import ApprovalLedger, ApprovalUse
from fxai.models.interceptor import intercept
from fxai.tools.tool_error import OutcomeUnknown

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")

OnChange: TypeAlias = Literal["refuse", "old", "continue"]
"""The reaction to a program that differs from the program that started the run.

`refuse`: the run fails with `ProgramChanged`. `old`: the run continues as the version that started it, which the
program reads with `version`. The run fails if the prompts or the tools differ. `continue`: the records stay unchanged,
and the new program runs the rest.
"""

_LONGEST: Final = 200
_TEXT: Final = 1000
_OTHER_FORM: Final = (
    "form {} of the journal, which another version of fxai wrote; this version reads form {}. "
    "Finish the run with the version that began it, or remove the run"
)


def durable(
    layer: LayerOf[_T, _E, _R],
    *,
    run: str,
    store: Runs | str | os.PathLike[str] | None = None,
    version: str = "",
    on_change: OnChange = "refuse",
    patience: float = 0.0,
) -> LayerOf[_T, _E | DurableFailure, _R | None]:
    """Return a layer with the same services, under which a program is one durable run.

    fxai records each turn of the model and each call. If a program was killed, run it again under the same name to
    resume it. fxai does not run a finished part again. It asks a person about a call in doubt, unless the tool is
    `Idempotent`, `Readonly`, or `Resumable`. Only one program at a time runs a run.

    Args:
        layer: Layer of the other services. `Layer.empty()` provides none.
        run: Name of the run, at most 200 characters. Every program that resumes the run uses it.
        store: Store of the runs, or its location as for `Runs.at`.
        version: Version of the program. Another version than the version that started the run is a change. Default: "".
        on_change: Reaction to a changed program. Default: "refuse".
        patience: Maximum seconds that a call waits for an answer in this program. Then the run stops, and you can
            resume it. Without an answer, the run of an agent ends pending, as without this layer. Default: 0.

    Fails with:
        DurableFailure: `RunOwned`, `ProgramChanged`, or `JournalFailure`, immediately or at the next turn or call.
            `RunCancelled` soon after a user cancels the run. `RunWaiting` if a call of a sub-agent waits for an answer.
            A call in doubt without an answer is the `OutcomeUnknown` of its tool.

    Raises:
        TypeError: If the store is not a path, a URL, or `Runs`.
        ValueError: If the name, the store, or `on_change` is invalid.
    """
    if not 0 < len(run) <= _LONGEST:
        raise ValueError(f"run must have 1 to {_LONGEST} characters, got {run!r}")
    if on_change not in get_args(OnChange):
        raise ValueError(f"on_change must be one of {', '.join(map(repr, get_args(OnChange)))}, got {on_change!r}")
    runs = store if isinstance(store, Runs) else Runs.at(store)

    def build(memo: MemoMap, scope: Scope) -> AnyEffect:
        def within(around: AnyContext) -> AnyEffect:
            opening = Generate(_open, (runs, run, version, on_change, patience, scope), {})
            opened: EffectOf[Frame, Any, Any] = scope.around(opening)
            return opened.flat_map(lambda frame: build_layer(_add(layer, frame, around, on_change, scope), memo, scope))

        return Within(within)

    return LayerOf(build)


def _add(layer: AnyLayer, frame: Frame, around: AnyContext, on_change: OnChange, scope: Scope) -> AnyLayer:
    replay = Replay(goes_on=on_change == "continue")

    def add(services: AnyContext) -> AnyContext:
        ledger: ApprovalLedger = around.merge(services).fetch(ApprovalLedger)
        clock: Clock = around.merge(services).fetch(Clock)
        frame.journal.start(clock)
        ledgers = services.put(ApprovalLedger, _RunLedger(ledger, frame))
        return frame.into(put_enclosure(ledgers.put(Clock, clock), cancellable))

    def cancellable(program: AnyEffect) -> AnyEffect:
        stopped, journal = object(), frame.journal

        def explain(failure: Any) -> Any:
            return journal.why_stopped() if failure is stopped else failure

        def end_whole(value: object) -> AnyEffect:
            changed = _find_change(journal)
            return Succeed(value) if changed is None else fail(changed)

        ended = end_whole if scope.is_of_one else None
        cancelled: AnyEffect = cut(Fold(program, leave_openly, ended), journal.cancelling, stopped)
        return cancelled.map_error(explain)

    return map_layer_context(intercept(layer, lambda _: Succeed(replay)), add)


def _open(
    runs: Runs, run: str, version: str, on_change: OnChange, patience: float, scope: Scope
) -> Generator[AnyEffect, Any, Frame]:
    """Own the run and start or resume it. Record its end when the scope closes."""
    journal = RunJournal(run, runs.store.journal(run))
    yield journal.own()
    journal.watch(runs.store, scope)
    hold: Hold | None = yield Ask(lambda context: context.services.get(Hold))
    journal.hold = None if hold is None else hold.seconds
    yield journal.refresh()  # after the program owns it, because no other program appends now
    known = journal.known
    if known.opened and known.opened[0].form != FORM:
        yield fail(JournalFailure(run, _OTHER_FORM.format(known.opened[0].form, FORM)))
    journal.reached = Reached(known, tolerant=on_change == "continue")
    if known.cancelled is not None:
        yield fail(RunCancelled(run))
    before = known.opened[-1].version if known.opened else version
    if before != version and on_change == "refuse":
        yield fail(ProgramChanged(run, (f"its version was {before!r} and is {version!r}",)))
    elif on_change == "old":
        version = before
    yield journal.append(Opened((yield CLOCK).now(), version, os.getpid(), FORM))
    known.before = known.last
    scope.add(lambda end: Generate(_close, (journal, end), {}))
    return Frame.root(journal, version, patience)


def _find_change(journal: RunJournal) -> ProgramChanged | None:
    """Return how the finished program differs from the program that started the run. None if it does not."""
    known = journal.known
    if known.unheard or any(part.is_open for part in known.parts.values()):
        return None  # the program waits, and can take another path with the answers
    left = tuple([f"the program ended without {path}" for path in journal.reached.left()])
    return ProgramChanged(known.run, left) if left else None


def _close(journal: RunJournal, end: Exit[Any, Any]) -> Generator[AnyEffect, Any, None]:
    """Record how the program of a run ended. An interrupted program has not ended."""
    status, text = _status(journal, end)
    if status == "waiting" or isinstance(end, Succeeded):  # ask about calls that the program never repeated
        now = (yield CLOCK).now()
        for question in missing_questions(journal.known, now, last=journal.known.last):
            yield journal.append(Asked(question)).catch_all(lambda _: Succeed(None))
        status, text = _status(journal, end)
    if status is None:
        return
    changed = _find_change(journal) if status == "done" else None
    if changed is not None:
        status, text = "failed", str(changed)
    closing = journal.append(Closed((yield CLOCK).now(), status, text[:_TEXT])).result()
    failure = (yield closing).swap().value_or(None)
    if failure is not None:
        import logging  # few writes fail

        logging.getLogger("fxai.durable").error("cannot record the end of the run: %s", failure)
    if changed is not None:
        yield fail(changed)


def _status(journal: RunJournal, end: Exit[Any, Any]) -> tuple[RunStatus | None, str]:
    unheard = journal.known.unheard
    if isinstance(end, Succeeded):
        return "waiting" if unheard else "done", str(getattr(end.value, "text", ""))
    if end.cause.interrupted:
        return None, ""
    error = end.cause.squash()
    failures = end.cause.failures
    if any(isinstance(one, RunCancelled) for one in failures):
        return "cancelled", ""
    if any(isinstance(one, RunAsleep) for one in failures):
        return None, ""
    waits = any(isinstance(one, RunWaiting | OutcomeUnknown) for one in failures)
    return "waiting" if waits and unheard else "failed", str(failures[0] if failures else repr(error))


@final
class _RunLedger(ApprovalLedger):
    """The ledger of approvals of a run. The run can use an approval again that it has claimed itself."""

    def __init__(self, ledger: ApprovalLedger, frame: Frame) -> None:
        self._ledger = ledger
        self._frame = frame

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return Generate(self._claim, (uses,), {})

    def _claim(self, uses: Mapping[str, float | None]) -> Generator[AnyEffect, Any, tuple[str, ...]]:
        frame: Frame = (yield Ask(Frame.of)) or self._frame
        path = frame.next("claim")
        yield frame.verify(path, digest(*[one.encode() for one in sorted(uses)]))
        part = self._frame.journal.known.part(path)
        if part.ended is not None:
            return ()
        if part.begun is None:
            yield self._write(Begun(path, "claim", repeats=True))
        before: tuple[str, ...] = yield self._ledger.claim(uses)
        if not before:
            yield self._write(Ended(path, "value"))
        return before

    def _write(self, record: Begun | Ended) -> EffectOf[None, AiError, None]:
        def explain(failure: object) -> AiError:
            return AiError("ApprovalLedger", "claim", UnknownError(description=str(failure)))

        return self._frame.journal.append(record).map_error(explain)

    @override
    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return self._ledger.deny(uses)

    @override
    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        return self._ledger.finish(ids)

    @override
    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        return self._ledger.look_up(ids)
