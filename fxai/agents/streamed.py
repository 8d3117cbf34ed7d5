"""The loop, streamed: one run whose parts are read as they come.

>>> from fxai.agents.plan import RunPlan
>>> from fxai.effects import fx
>>> from fxai.effects.stream import StreamOf
>>> from fxai.messages.prompt import Prompt
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.tools.toolkit import Toolkit
>>> run = StreamedRun(Run(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {})))
>>> parts = StreamOf(run.open()).collect()
>>> [part.type for part in fx.run(parts.provide(ScriptedModel.make([text("Good day.")]).layer))]
['text-start', 'text-delta', 'text-end', 'finish']
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.agents.deadline import LATE
from fxai.agents.interruption import TIME_IS_UP, closed, in_order, is_ours
from fxai.agents.run import Run
from fxai.agents.run_start import begun, settling
from fxai.agents.step_end import finished
from fxai.agents.step_request import StepRequest, step_request
from fxai.effects.cause import Cause, Fail
from fxai.effects.channel import END, Channel
from fxai.effects.effect import EffectOf, FailCause, Fetch, FlatMap, Fold, Generate, Local, Succeed, Suspend
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.scope import Scope, add_finalizer
from fxai.effects.stream import StreamOf
from fxai.messages.part import Finish, StreamPart, ToolCall
from fxai.messages.response import Response
from fxai.models.answered import concerns
from fxai.models.language_model import LanguageModel
from fxai.models.streamed import StreamedTurn

__all__ = ["OnAnswer", "StreamedRun"]

_Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]

OnAnswer: TypeAlias = Callable[[Answer[Any]], EffectOf[Any, Any, Any]]
"""Is told the answer of a run that has ended well, before its last part is given."""

_OVER: EffectOf[Any, Any, Any] = Succeed(END)


@final
class StreamedRun:
    """One streamed run: the round that is read, and how it goes on from there."""

    __slots__ = ("_ahead", "_asked", "_on_answer", "_parts", "_pull", "_run", "_scope", "_settling", "_source", "pull")

    _asked: StepRequest

    def __init__(self, run: Run, on_answer: OnAnswer | None = None) -> None:
        self._run = run
        self._on_answer = on_answer
        self._settling = False
        self._pull: EffectOf[Any, Any, Any] | None = None  # of the round that is read, if one is
        self._scope = Scope()  # what that round holds
        self._source: _Watched | None = None  # its model, where somebody watches it
        self._parts: list[Any] = []  # what it said so far
        self._ahead: deque[Any] = deque()  # what is to be given before anything is read
        self.pull: EffectOf[Any, Any, Any] = Suspend(self._following)

    def open(self) -> EffectOf[EffectOf[Any, Any, Any], Any, Any]:
        """The effect of the pull, in the scope of the stream."""
        run = self._run
        run.scope = Scope()

        def released(exit_: Exit[Any, Any]) -> EffectOf[None]:
            return self._scope.close(exit_).ensuring(run.scope.close(exit_))

        beginning = add_finalizer(released).and_then(Generate(begun, (run,), {}))
        return FlatMap(beginning, lambda _: self._settle() if concerns(run.history) else Succeed(self.pull))

    def _settle(self) -> EffectOf[Any, Any, Any]:
        """The results of calls that the history approves come first."""
        self._settling = True

        def body(channel: Channel[StreamPart]) -> EffectOf[Any, Any, Any]:
            return Generate(settling, (self._run, channel.put), {})

        def opened(pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
            self._pull = pull
            return Succeed(self.pull)

        return FlatMap(StreamOf.from_channel(body).pull(), opened)

    def _settled(self) -> EffectOf[Any, Any, Any]:
        self._settling, self._pull = False, None
        return self._ended(Finish("pending")) if self._run.ended == "pending" else self.pull

    # -- a round

    def _following(self) -> EffectOf[Any, Any, Any]:
        if self._ahead:
            return Succeed(self._ahead.popleft())
        if self._pull is not None:
            pull = self._pull if self._settling else self._run.cut(self._pull)
            return Fold(pull, self._run.failed, self._seen)
        if not self._run.goes_on:
            failure = self._run.failure
            return _OVER if failure is None else FailCause(Cause((Fail(failure),)))
        asked = step_request(self._run)
        return self._ask(asked) if isinstance(asked, StepRequest) else Fold(asked, self._run.failed, self._ask)

    def _ask(self, asked: Any) -> EffectOf[Any, Any, Any]:
        if asked is LATE:
            return Generate(self._unanswered, (), {})
        self._asked = asked
        self._scope = Scope()
        self._parts = []
        model = asked.model or self._run.model
        said = self._said(model) if model is not None else FlatMap(Fetch(LanguageModel), self._said)
        stream: StreamOf[Any, Any, Any] = StreamOf(said)
        opening: EffectOf[Any, Any, Any] = (stream if asked.layer is None else stream.provide(asked.layer)).pull()
        return Fold(self._run.cut(_in(self._scope, opening)), self._run.failed, self._opened)

    def _said(self, model: LanguageModel) -> EffectOf[Any, Any, Any]:
        asked, run = self._asked, self._run

        def begun(pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
            self._source = None
            if run.deadline is not None or run.plan.budget.calls is not None:
                self._source = _Watched(pull, run, asked)
                pull = self._source.pull
            return StreamedTurn(pull, asked.resolution, resolve_tools=asked.resolves).pull

        return model.ask_stream(asked.request).pull().map(begun)

    def _opened(self, pull: Any) -> EffectOf[Any, Any, Any]:
        if pull is LATE:
            return Generate(self._unanswered, (), {})
        self._pull = _in(self._scope, pull)
        return self.pull

    def _seen(self, part: Any) -> EffectOf[Any, Any, Any]:
        if self._settling:
            return self._settled() if part is END else Succeed(part)
        if part is LATE:
            return Generate(self._cut, (), {})
        if part is END:
            return self._over(None)
        self._parts.append(part)
        if part.type == "finish" and self._pull is not None:
            # what ends the round is done before its last part is given: a reader may not come back
            return Fold(self._run.cut(self._pull), self._run.failed, lambda after: self._after(part, after))
        return Succeed(part)

    def _after(self, finish: Any, after: Any) -> EffectOf[Any, Any, Any]:
        if after is END or after is LATE:
            return self._over(finish)
        self._ahead.append(after)
        self._parts.append(after)
        return Succeed(finish)

    # -- its end

    def _over(self, finish: Any) -> EffectOf[Any, Any, Any]:
        response = in_order(Response.from_stream(self._parts))
        return Fold(Generate(self._finish, (response, finish), {}), self._run.failed, None)

    def _finish(self, response: Response, finish: Any) -> _Steps:
        self._pull, self._parts = None, []
        yield self._scope.close(Succeeded(None))
        yield from finished(self._run, response)
        return (yield self._ended(finish))

    def _ended(self, finish: Any) -> EffectOf[Any, Any, Any]:
        """The last part of a round, or what comes after it; before that, whoever waits for the answer has it."""
        then: EffectOf[Any, Any, Any] = self.pull if finish is None else Succeed(finish)
        if self._run.ended is None or self._on_answer is None:
            return then
        return self._on_answer(self._run.answer).and_then(then)

    def _cut(self) -> _Steps:
        """The time is up. Where the model had finished, its calls are answered; else its turn does not count."""
        self._pull = None
        yield self._scope.close(Succeeded(None))
        said = None if self._source is None else self._source.finish
        if said is None:
            return (yield from self._unanswered())
        whole = self._completed(said)
        yield from finished(self._run, whole)
        return (yield self._ended(self._ahead.popleft()))

    def _unanswered(self) -> _Steps:
        """The time was up before the model's turn was over."""
        self._pull = None
        yield self._scope.close(Succeeded(None))
        self._run.exceed("seconds")
        if self._run.failure is None and self._parts:
            self._completed(Finish("other"))
        self._parts = []
        return (yield self._ended(self._ahead.popleft() if self._ahead else None))

    def _completed(self, finish: Finish) -> Response:
        """What was said in a round that was cut, complete; what was not given yet, is."""
        resolution = self._asked.resolution
        content = Response.from_stream(self._parts).content
        answered = {part.id for part in content if part.type == "tool-result"}
        waits = any(part.type == "tool-approval-request" for part in content) or any(
            part.type == "tool-call"
            and not part.provider_executed
            and part.id not in answered
            and not is_ours(part, resolution)
            for part in content
        )
        if waits and finish.reason in ("stop", "tool-calls", "pause"):
            finish = msgspec.structs.replace(finish, reason="pending")
        whole = closed(Response((*content, finish)), TIME_IS_UP, resolution)
        self._ahead.extend(part for part in whole.content if part.type == "tool-result" and part.id not in answered)
        self._ahead.append(finish)
        return whole


@final
class _Watched:
    """A model's turn as it comes, of which is known whether it is finished; calls beyond the budget are answered."""

    __slots__ = ("_asked", "_calls", "_ended", "_refused", "_run", "_source", "finish", "pull")

    def __init__(self, source: EffectOf[Any, Any, Any], run: Run, asked: StepRequest) -> None:
        self._source = source
        self._run = run
        self._asked = asked
        self._calls: list[ToolCall] = []
        self._refused: deque[Any] = deque()
        self._ended = False
        self.finish: Finish | None = None
        self.pull: EffectOf[Any, Any, Any] = Suspend(self._following)

    def _following(self) -> EffectOf[Any, Any, Any]:
        if self._ended:
            return Succeed(self._refused.popleft()) if self._refused else _OVER
        return FlatMap(self._source, self._seen)

    def _seen(self, part: Any) -> EffectOf[Any, Any, Any]:
        if part is END:
            self._ended = True
            if self._asked.resolves:
                self._refused.extend(self._run.refused(self._calls, self._asked.resolution))
            return self.pull
        if part.type == "finish":
            self.finish = part
        elif part.type == "tool-call":
            self._calls.append(part)
        return Succeed(part)


def _in(scope: Scope, effect: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
    return Local(effect, lambda context: context.put(Scope, scope))
