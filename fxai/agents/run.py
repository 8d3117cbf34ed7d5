"""Runs: where one run stands, and what becomes of it after each step.

>>> from fxai.messages.part import Finish, Text
>>> standing(Response((Text("Good day."), Finish("stop")))), standing(Response((Finish("pause"),)))
('done', 'again')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, final

import msgspec
from returns.result import Success

from fxai.agents.answer import Answer, Ended
from fxai.agents.budget import BudgetExceeded, Limit, counted
from fxai.agents.failure import RunFailed
from fxai.agents.output import Wrong, read_output
from fxai.agents.plan import RunPlan
from fxai.agents.step import Step
from fxai.effects.cause import Cause
from fxai.effects.effect import EffectOf, FailCause
from fxai.effects.scope import Scope
from fxai.messages.accumulate import fold
from fxai.messages.errors import AiError
from fxai.messages.part import FinishReason, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.language_model import LanguageModel, RoundOptions
from fxai.models.resolve import Resolution
from fxai.models.round import UNLIMITED, Deadline, Limits, in_order, interrupted, is_ours
from fxai.models.selection import HeldModels
from fxai.models.settlement import OnSettled, Settled
from fxai.tools.failure import CallFailure

__all__ = ["Run", "later", "standing"]

_GOES_ON: Final[frozenset[FinishReason]] = frozenset(("stop", "tool-calls", "pause"))


@final
class Run:
    """One run under way: what was said, what it took, and how it ended, if it has."""

    __slots__ = (
        "_calls",
        "_exceeded",
        "_tokens",
        "_value",
        "_wrong",
        "cut",
        "deadline",
        "early",
        "ended",
        "failure",
        "held",
        "history",
        "in_round",
        "is_last",
        "model",
        "on_settled",
        "options",
        "plan",
        "scope",
        "steps",
        "told",
    )

    model: LanguageModel | None
    """The model of the run; None where there is none around."""
    scope: Scope
    """Where the models of single steps are held; there only where steps are prepared."""

    def __init__(self, prompt: Prompt, plan: RunPlan, on_settled: OnSettled | None = None) -> None:
        self.plan = plan
        self.on_settled = on_settled
        self.history = prompt
        self.told = prompt  # what the model is shown: the same one, unless approvals were settled in it
        self.options: RoundOptions = plan.options
        self.steps: list[Step] = []
        self.early: tuple[ToolResult, ...] = ()
        """The results of calls that were approved before, until the first step has them."""
        self.ended: Ended | None = None
        self.failure: BudgetExceeded | RunFailed | None = None
        self.is_last = False
        """Whether the budget is spent, and the model is asked once more."""
        self.in_round = True
        """Whether what fails now is the model or a call, and not something that the caller put in between."""
        self.deadline: Deadline | None = None
        self.cut: Callable[[EffectOf[Any, Any, Any]], EffectOf[Any, Any, Any]] = _uncut
        self.held: HeldModels | None = None
        self._value: Any = msgspec.UNSET
        self._exceeded: Limit | None = None
        self._tokens = 0
        self._calls = 0
        self._wrong = 0

    @property
    def goes_on(self) -> bool:
        """Whether the model is to be asked."""
        return self.ended is None and self.failure is None

    @property
    def answer(self) -> Answer[Any]:
        """What it gave, when it has ended."""
        typed = self.plan.output is not None
        return Answer(tuple(self.steps), self.history, self.ended or "done", typed, self._value)

    # -- what happens in it

    def start(self, deadline: Deadline) -> None:
        """The time runs: from now on everything is cut when it is up."""
        self.deadline = deadline
        self.cut = self.deadline.cut
        until = self.plan.options.get("deadline")
        at = self.deadline.at if until is None else min(until, self.deadline.at)
        self.options = {**self.options, "deadline": at}

    def settle(self, done: Settled) -> None:
        """The history's approvals are settled; what waits still ends the run."""
        self.history, self.told, self.early = done.history, done.shown, done.results
        if done.waiting:
            self.steps.append(Step(1, done.pending))
            self.ended = "pending"

    def take(self, response: Response) -> Step:
        """A round is over: the step that it made."""
        messages = fold(response.content)
        grown = self.history.extend(messages)
        self.told = grown if self.told is self.history else self.told.extend(messages)
        self.history = grown
        if self.early:
            response = Response((*self.early, *response.content))
            self.early = ()
        step = Step(len(self.steps) + 1, response)
        self.steps.append(step)
        if self.plan.budget.tokens is not None:
            self._tokens += response.usage.total_tokens or 0
        self.options = later(self.options)
        return step

    @property
    def limits(self) -> Limits:
        """What it allows its next round."""
        is_limited = self.deadline is not None or self.plan.budget.calls is not None
        return Limits(self.cut, self.refused) if is_limited else UNLIMITED

    def refused(self, calls: list[ToolCall], resolution: Resolution) -> list[ToolResult]:
        """The results of the calls of a turn that are beyond the budget; the others are counted."""
        most = self.plan.budget.calls
        if most is None or self.is_last:
            return []
        ours = [call for call in calls if is_ours(call, resolution)]
        left = most - self._calls
        self._calls += len(ours)
        if len(ours) <= left:
            return []
        self._exceeded = "calls"
        late = {call.id for call in ours[left:]}  # a result is for all calls of its id, so none of them is run
        why = f"the run may make {counted(most, 'calls')}, and has made as many"
        return interrupted([call for call in ours if call.id in late], why)

    def judge(self, response: Response) -> None:
        """What the last turn means for the run: it is over, or goes on."""
        stands = standing(response)
        if stands == "pending":
            self.ended = "pending"
        elif self.is_last:
            self._end(response, "limit")
        elif stands == "done":
            self._end(response, "done")

    def limit(self) -> None:
        """Whether the budget lets it go on; where not, what is to become of it."""
        budget = self.plan.budget
        if self._exceeded is None and budget.tokens is not None and self._tokens >= budget.tokens:
            self._exceeded = "tokens"
        if self._exceeded is None and len(self.steps) >= budget.rounds:
            self._exceeded = "rounds"
        if self._exceeded is not None:
            self.exceed(self._exceeded)

    def exceed(self, what: Limit) -> None:
        """The budget is spent, and the run is not done."""
        budget = self.plan.budget
        most: Any = getattr(budget, what)
        mode = self.plan.at_limit
        if mode == "fail" or self.is_last or (mode == "last_text" and not self.steps):
            self.failure = BudgetExceeded(what, most, self.history)
        elif mode == "answer":
            self.is_last = True
            if self.deadline is not None and budget.seconds is not None:
                self.start(Deadline.after(self.deadline.clock, budget.seconds))  # as long again, and no longer
        else:
            self.ended = "limit"
            if self.plan.output is not None:
                self._value = read_output(_last_said(self.steps), self.plan.output).value_or(msgspec.UNSET)

    def _end(self, response: Response, ended: Ended) -> None:
        schema = self.plan.output
        if schema is None:
            self.ended = ended
            return
        read = read_output(response, schema)
        if isinstance(read, Success):
            self._value, self.ended = read.unwrap(), ended
            return
        self._mend(read.failure())

    def _mend(self, wrong: Wrong) -> None:
        """The answer does not fit: the model is told, unless it was told often enough or was cut off."""
        if self.is_last or self._wrong >= self.plan.output_retries or wrong.response.finish_reason not in _GOES_ON:
            self.failure = RunFailed.of(wrong.error, self.history)
            return
        self._wrong += 1
        same = self.told is self.history
        self.history = self.history.append(wrong.correction)
        self.told = self.history if same else self.told.append(wrong.correction)

    # -- what fails in it

    def failed(self, cause: Cause[Any]) -> EffectOf[Any, Any, Any] | None:
        """The failure of the run, whose errors hold the conversation; None where it broke or was cancelled."""
        return FailCause(cause.map(self._explained)) if cause.failures else None

    def _explained(self, error: Any) -> Any:
        """A failure with the conversation so far."""
        if isinstance(error, AiError):
            return RunFailed.of(error, self.history)
        if not self.in_round or not isinstance(error, CallFailure):
            return error
        said = () if error.response is None else error.response.content
        response = error.response if not self.early else Response((*self.early, *said))
        history = self.history.with_response(in_order(Response(said)).content)
        return msgspec.structs.replace(error, response=response, history=history)


def _uncut(effect: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
    return effect


def _last_said(steps: list[Step]) -> Response:
    return next((step.response for step in reversed(steps) if step.text), Response())


def standing(response: Response) -> Literal["again", "done", "pending"]:
    """Whose turn it is after a turn of the model.

    `again`: the model's, which has results to read, or was paused. `pending`: somebody else's, who answers a call.
    `done`: nobody's; also where the turn was cut, by a limit or a filter: to ask again would come to the same.
    """
    reason, ours, answered = "unknown", list[str](), set[str]()
    for part in response.content:
        if part.type == "tool-call":
            if not part.provider_executed:
                ours.append(part.id)
        elif part.type == "tool-result":
            answered.add(part.id)
        elif part.type == "finish":
            reason = part.reason

    if reason == "pending" or not answered.issuperset(ours):
        return "pending"
    if reason not in _GOES_ON:
        return "done"
    return "again" if ours or reason == "pause" else "done"


def later(options: RoundOptions) -> RoundOptions:
    """The options after the first round: a call that was demanded has been made."""
    choice = options.get("tool_choice", "auto")
    if choice == "auto":
        return options
    if isinstance(choice, ToolChoice):
        narrowed = ToolChoice(choice.names)
        following: ToolChoices = "auto" if choice.mode == "tool" else narrowed
    else:
        following = "auto" if choice == "required" else choice
    return options if following == choice else {**options, "tool_choice": following}
