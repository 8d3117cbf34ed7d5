"""Runs: the plan of a run, its state while it goes, and what its last turn means for it.

>>> from fxai.messages.part import Finish, Text
>>> judge_turn(Response((Text("Good day."), Finish("stop")))), judge_turn(Response((Finish("pause"),)))
('done', 'again')
>>> RunPlan(Toolkit.empty(), {}, Budget(rounds=3)).at_limit
'fail'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.agents.answer import Answer, BudgetExceeded, Ended, Limit, RunFailed, Step, describe_limit, keep_history
from fxai.agents.answer import Steps as StepsSoFar
from fxai.agents.change import Appending, Changes, Plan
from fxai.agents.run_options import (
    AtLimit,
    Budget,
    HasToolCall,
    OnStep,
    PrepareStep,
    StepCountIs,
    StepSetup,
    StopCondition,
    is_effect,
)
from fxai.agents.step_record import NO_RECORD, StepRecord
from fxai.effects.cancellation import is_bug
from fxai.effects.cause import Cause, Die
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fold, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.scope import NOTHING, Scope
from fxai.messages.accumulate import fold
from fxai.messages.errors import AiError
from fxai.messages.message import TextPart, UserMessage
from fxai.messages.part import FinishReason, Part, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.approved_calls import OnSettled, SettledHistory
from fxai.models.growth import Growth
from fxai.models.interceptor import Interceptor, LeftRunError, WorkInfo
from fxai.models.language_model import output_error, read_output
from fxai.models.model_request import Resolution, RoundOptions, ToolChoice, ToolChoices
from fxai.models.round import LATE, Deadline, Steps, in_order, is_ours
from fxai.models.selection import HeldModels
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import ToolError, interrupt_calls, take_response
from fxai.tools.toolkit import BoundToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.agents.rendering import Rendering, RenderPlan
    from fxai.agents.state import PromptState

OnDefect: TypeAlias = Callable[[Answer[Any]], AnyEffect]
"""Receives the answer so far of a run that a defect ended."""

OUTPUT_RETRIES: Final = 2
"""How often an answer that does not fit is asked for again, unless the agent says otherwise."""

_GOES_ON: Final[frozenset[FinishReason]] = frozenset(("stop", "tool-calls", "pause"))


@final
class RunPlan(msgspec.Struct, frozen=True):
    """How one run goes."""

    toolkit: Toolkit[Any]
    """The tools that the model may call; their handlers are around, unless `tools_now` brings them."""
    options: RoundOptions
    """How each round is asked. A `tool_choice` that demands a call holds for the first one."""
    budget: Budget = Budget()
    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    """It ends after a step for which any of these holds."""
    at_limit: AtLimit = "fail"
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    """Each changes how a step is asked; the first one first."""
    on_step: tuple[OnStep[Any, Any], ...] = ()
    """Each is given every finished step; the first one first."""
    output: Schema[Any] | None = None
    """The type of the answer; None for text."""
    output_retries: int = OUTPUT_RETRIES
    """How often an answer that does not fit is asked for again, with every fault; each is a round of the budget."""
    tools_now: EffectOf[BoundToolkit[Any, Any, Any], Any, Any] | None = None
    """Where tools may change while the run goes on: asked before each step for all tools of that step, in place of
    `toolkit`; its layer is there for that step."""
    deadline: Deadline | None = None
    """When it is cut, where its time began before it did; None: after `budget.seconds`, if there are any."""
    without_own: bool = False
    """Whether the agent's own tools are left out, which its `tool_choice` may name all the same."""
    prompt: RenderPlan | None = None
    """The stateful prompt that each step is rendered from, if there is one."""
    changes: Changes = "auto"
    """The place where a request shows changes."""
    model: LayerOf[Any, Any, Any] | None = None
    """The model of the agent, if its steps do not ask the model in the context."""
    growth: Growth | None = None
    """The requests of the conversation so far. None if the run does not continue a memory."""

    def is_hidden(self, name: str) -> bool:
        """Whether a tool choice may name a tool that a step lacks: one of the run's, or one that was left out.

        A stateful prompt may define any tool in another step.
        """
        return self.without_own or self.prompt is not None or name in self.toolkit

    @property
    def is_prepared(self) -> bool:
        """Whether each step has to be prepared: by hooks, by a prompt, or because tools may change."""
        return bool(self.prepare_step) or self.prompt is not None or self.tools_now is not None

    def __post_init__(self) -> None:
        if self.output_retries < 0:
            raise ValueError(f"output_retries is {self.output_retries}: an answer is asked for once at least")


@final
class Run:
    """The state of one run: its history, what it took, and how it ended, if it has."""

    __slots__ = (
        "_begun",
        "appending",
        "around",
        "asked",
        "calls",
        "cut",
        "deadline",
        "declared",
        "early",
        "ended",
        "exceeded",
        "failure",
        "growth",
        "history",
        "in_round",
        "is_last",
        "models",
        "on_settled",
        "options",
        "plan",
        "rendering",
        "scope",
        "shown",
        "steps",
        "tokens",
        "value",
        "wrong",
    )

    scope: Scope
    """Where the models of single steps and what a prompt builds are held; there only where steps are prepared."""

    def __init__(self, prompt: Prompt, plan: RunPlan, on_settled: OnSettled | None = None) -> None:
        self.plan: RunPlan = plan
        self.on_settled: OnSettled | None = on_settled
        self.history: Prompt = prompt
        self._begun: Prompt = prompt
        self.shown: Prompt = prompt  # what the model is shown: the same one, unless approvals were settled in it
        self.options: RoundOptions = plan.options
        self.steps: list[Step] = []
        self.early: tuple[ToolResult, ...] = ()  # results of calls that were approved before, for the first step
        self.ended: Ended | None = None
        self.failure: BudgetExceeded | RunFailed | None = None
        self.is_last: bool = False  # whether the budget is spent, and the model is asked once more
        self.in_round: bool = True  # whether what fails now is the model or a call, and not a hook
        self.deadline: Deadline | None = None
        self.cut: Callable[[AnyEffect], AnyEffect] = _uncut
        self.around: Interceptor | None = None
        self.models: HeldModels | None = None
        self.rendering: Rendering | None = None
        self.asked: StepSetup | None = None  # of the step that was prepared last
        self.appending: Appending | None = None  # None: changes are shown at their usual place
        self.declared: tuple[AnyTool, ...] | None = None  # the tools of the next request, if changes are appended
        self.growth: Growth = Growth() if plan.growth is None else plan.growth
        self.value: Any = msgspec.UNSET
        self.exceeded: Limit | None = None
        self.tokens: int = 0
        self.calls: int = 0
        self.wrong: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether the model is to be asked."""
        return self.ended is None and self.failure is None

    @property
    def answer(self) -> Answer[Any]:
        """The answer, when it has ended."""
        typed = self.plan.output is not None
        return Answer(tuple(self.steps), self.history, self.ended or "done", typed, self.value, self.state)

    @property
    def state(self) -> PromptState | None:
        """The state of the stateful prompt, if there is one."""
        return None if self.rendering is None else self.rendering.state(self.history)

    # -- what happens in it

    def start(self, deadline: Deadline) -> None:
        """The time runs: from now on everything is cut when it is up."""
        self.deadline = deadline
        self.cut = deadline.cut
        until = self.plan.options.get("deadline")
        self.options = {**self.options, "deadline": deadline.at if until is None else min(until, deadline.at)}

    def settle(self, done: SettledHistory) -> None:
        """The history's approvals are settled; calls that still wait end the run."""
        self.history, self.shown, self.early = done.history, done.shown, done.results
        if done.waiting:
            self.steps.append(Step(1, done.pending))
            self.ended = "pending"

    def take(self, response: Response) -> Step:
        """A round is over: the step that it made."""
        messages = fold(response.content)
        grown = self.history.extend(messages)
        self.shown = grown if self.shown is self.history else self.shown.extend(messages)
        self.history = grown
        if self.early:
            response = Response((*self.early, *response.content))
            self.early = ()
        step = Step(len(self.steps) + 1, response, self._record(response))
        self.steps.append(step)
        if self.plan.budget.tokens is not None:
            self.tokens += response.usage.total_tokens or 0
        if self.options.get("tool_choice", "auto") != "auto":
            self.options = options_after(self.options)
        return step

    def append(self, plan: Plan) -> None:
        """Note that the model receives changes behind the conversation, whose last message carries them."""
        if self.appending is not None:
            self.appending.keep(plan)
        is_same = self.history is self.shown
        self.shown = plan.conversation
        self.history = plan.conversation if is_same else plan.carry(self.history)

    def _record(self, response: Response) -> StepRecord:
        found = self.growth.prefix_break or response.prefix_break  # of one before this process
        if self.rendering is not None and self.asked is not None:
            return self.rendering.record(self.asked.toolkit, self.asked.messages, found)
        if self.growth.last is None:
            return NO_RECORD
        request = self.growth.last.request
        tools = request.tools if self.asked is None else self.asked.toolkit
        return StepRecord(tuple([tool.name for tool in tools]), request.prompt, prefix_break=found)

    def refuse(self, parts: tuple[Part, ...], resolution: Resolution) -> list[ToolResult]:
        """The results of the calls of a turn that are beyond the budget; the others are counted."""
        most = self.plan.budget.calls
        if most is None or self.is_last:
            return []
        calls = [resolution.mark_dynamic(part) for part in parts if part.type == "tool-call"]
        ours = [call for call in calls if is_ours(call, resolution)]
        left = most - self.calls
        self.calls += len(ours)
        if len(ours) <= left:
            return []
        self.exceeded = "calls"
        late = {call.id for call in ours[left:]}  # a result is for all calls of its id, so none of them is run
        why = f"the run may make {describe_limit(most, 'calls')}, and has made as many"
        return interrupt_calls([call for call in ours if call.id in late], why)

    def judge(self, response: Response) -> None:
        """Ends the run where the last turn does."""
        verdict = judge_turn(response)
        if verdict == "pending":
            self.ended = "pending"
        elif verdict == "done" or self.is_last:
            ended: Ended = "limit" if self.is_last else "done"
            if not response.text and response.refusal is not None:
                error = AiError("Agent", "execute", response.refusal)  # it is no empty answer
                self.failure = RunFailed.of(error, self.history, self.state)
            elif self.plan.output is None:
                self.ended = ended
            else:
                self._end_typed(response, ended, self.plan.output)

    def limit(self) -> None:
        """Ends the run, or has the model asked a last time, where it goes on and the budget is spent."""
        if not self.goes_on:
            return
        budget = self.plan.budget
        if self.exceeded is None and budget.tokens is not None and self.tokens >= budget.tokens:
            self.exceeded = "tokens"
        if self.exceeded is None and len(self.steps) >= budget.rounds:
            self.exceeded = "rounds"
        if self.exceeded is not None:
            self.exceed(self.exceeded)

    def exceed(self, what: Limit) -> None:
        """The budget is spent, and the run is not done."""
        budget = self.plan.budget
        mode = self.plan.at_limit
        if mode == "fail" or self.is_last or (mode == "last_text" and not self.steps):
            self.failure = BudgetExceeded(what, getattr(budget, what), self.history, self.state)
        elif mode == "answer":
            self.is_last = True
            if self.deadline is not None and budget.seconds is not None:
                self.start(Deadline.after(self.deadline.clock, budget.seconds))  # as long again, and no longer
        else:
            self.ended = "limit"
            if self.plan.output is not None:
                last = next((step.response for step in reversed(self.steps) if step.text), Response())
                self.value = read_output(last, self.plan.output).value_or(msgspec.UNSET)

    def _end_typed(self, response: Response, ended: Ended, schema: Schema[Any]) -> None:
        """Ends the run with a typed answer; one that does not fit is asked for again, unless the last try is over."""
        output = read_output(response, schema)
        if isinstance(output, Success):
            self.value, self.ended = output.unwrap(), ended
        elif self.is_last or self.wrong >= self.plan.output_retries or response.finish_reason not in _GOES_ON:
            error = output_error("Agent", "execute", response, output.failure())
            self.failure = RunFailed.of(error, self.history, self.state)
        else:
            self.wrong += 1
            correction = (_correction(output.failure()),)
            same = self.shown is self.history
            self.history = self.history.extend(correction)
            self.shown = self.history if same else self.shown.extend(correction)

    # -- what fails in it

    def fail(self, cause: Cause[Any], on_defect: OnDefect | None = None) -> AnyEffect | None:
        """The failure of the run, whose errors hold the conversation; None where it broke or was cancelled.

        A defect holds the conversation too, and `on_defect` receives the answer so far.
        """
        if self.rendering is not None:
            cause = self.rendering.explain(cause, self.history)
        failing = FailCause(cause.map(self._with_history)) if cause.failures else None
        if not cause.defects or any(isinstance(defect, LeftRunError) for defect in cause.defects):
            return failing
        broken = self._answer_so_far(cause)
        for defect in cause.defects:
            keep_history(defect, broken.history)
        if on_defect is None or cause.interrupted or broken.history == self._begun:
            return failing
        failing = failing or FailCause(cause)
        return Fold(on_defect(broken), lambda other: FailCause(cause.combine(other)), lambda _: failing)

    def _answer_so_far(self, cause: Cause[Any]) -> Answer[Any]:
        """The answer so far of a run that a defect ended, with the results of the round that it ended in."""
        responses = [take_response(defect) for defect in cause.defects]
        response = next((one for one in responses if one is not None), None)
        if response is None or not self.in_round:
            return Answer(tuple(self.steps), self.history, "done", state=self.state)
        response = in_order(Response((*self.early, *response.content)))
        step = Step(len(self.steps) + 1, response)
        return Answer((*self.steps, step), self.history.with_response(response.content), "done", state=self.state)

    def _with_history(self, error: Any) -> Any:
        if isinstance(error, AiError):
            return RunFailed.of(error, self.history, self.state)
        if not self.in_round or not isinstance(error, ToolError):
            return error
        content = () if error.response is None else error.response.content
        response = error.response if not self.early else Response((*self.early, *content))
        history = self.history.with_response(in_order(Response(content)).content)
        return msgspec.structs.replace(error, response=response, history=history, state=self.state)


def _uncut(effect: AnyEffect) -> AnyEffect:
    return effect


def _correction(failure: DecodeFailure) -> UserMessage:
    """The message to the model about an answer that does not fit, with every fault."""
    faults = "\n".join([f"- {fault}" for fault in failure.faults])
    text = f"Your answer does not fit the form that was asked for:\n{faults}\nAnswer again, in that form alone."
    return UserMessage((TextPart(text),))


def judge_turn(response: Response) -> Literal["again", "done", "pending"]:
    """What follows a turn of the model.

    `again`: the model is asked again, as it has results to read, or was paused. `pending`: a call waits for an approval
    or for a result from outside. `done`: nothing; also where the turn was cut, by a limit or a filter: to ask again
    would come to the same.
    """
    reason: FinishReason = "unknown"
    ours: list[str] = []
    answered: set[str] = set()
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


def options_after(options: RoundOptions) -> RoundOptions:
    """The options after the first round: a call that was demanded has been made."""
    choice = options.get("tool_choice", "auto")
    following: ToolChoices = choice
    if isinstance(choice, ToolChoice):
        following = "auto" if choice.mode == "tool" else ToolChoice(choice.names)
    elif choice == "required":
        following = "auto"
    return options if following == choice else {**options, "tool_choice": following}


# -- hooks


def prepare_by(run: Run, at: int, prepare_step: PrepareStep[Any, Any], setup: StepSetup) -> Steps:
    """The setup as a hook changes it; `LATE` where the time was up.

    It may hold models and handlers, which cannot be journalled: a run that is gone on with asks the hook again.
    """

    def prepare() -> AnyEffect:
        given: Any = prepare_step(setup)
        return given if is_effect(given) else Succeed(given)

    if run.around is None:
        given: Any = prepare_step(setup)
        given = (yield run.cut(given)) if is_effect(given) else given
    else:
        about = WorkInfo(f"prepare {setup.number}/{at}", None)
        given = yield run.cut(run.around.work(about, Suspend(prepare)))
    if given is LATE or isinstance(given, StepSetup):
        return given
    raise TypeError(f"prepare_step gave {given!r}: it gives the setup, changed or as it is, or an effect of it")


def notify(run: Run, step: Step) -> Steps:
    """Tells the listeners of a step that has ended."""
    run.in_round = False
    for at, listener in enumerate(run.plan.on_step):
        effect = _hear(run, at, listener, step)
        if effect is not None and (yield run.cut(effect)) is LATE:
            break  # the next thing to be done is late, too
    run.in_round = True


def _hear(run: Run, at: int, listener: OnStep[Any, Any], step: Step) -> AnyEffect | None:
    if run.around is None:
        return _listen(listener, step)

    def listen() -> AnyEffect:
        effect = _listen(listener, step)
        return NOTHING if effect is None else effect

    return run.around.work(WorkInfo(f"on_step {step.number}/{at}"), Suspend(listen))


def _listen(listener: OnStep[Any, Any], step: Step) -> AnyEffect | None:
    try:
        effect: Any = listener(step)
    except BaseException as bug:
        if not is_bug(bug):
            raise
        return _log(step, bug)
    if effect is None:
        return None
    if is_effect(effect):
        return Fold(effect.as_(None), lambda cause: _log_bug(step, cause), None)
    kind = type(effect).__name__
    return _log(step, TypeError(f"on_step gave a {kind}: it gives None, or an effect, which is then run"))


def _log_bug(step: Step, cause: Cause[Any]) -> AnyEffect | None:
    """A listener with a bug does not end the run; what it fails with as declared does."""
    if not all(isinstance(reason, Die) and not isinstance(reason.defect, LeftRunError) for reason in cause.reasons):
        return None
    return _log(step, cause.squash())


def _log(step: Step, bug: BaseException) -> EffectOf[None]:
    import logging  # few listeners break

    logging.getLogger("fxai.agents").error(
        "on_step broke after step %d, and the run goes on: %s", step.number, bug, exc_info=bug
    )
    return Succeed(None)


def stop(run: Run) -> Steps:
    """Ends the run where a stop condition holds."""
    run.in_round = False
    steps = StepsSoFar(run.steps)
    for at, condition in enumerate(run.plan.stop_when):
        holds = yield from _ask_whether(run, at, condition, steps)
        if holds is LATE:
            break
        if holds:
            run.ended = "stopped"
            break
    run.in_round = True


def _ask_whether(run: Run, at: int, condition: StopCondition[Any, Any], steps: StepsSoFar) -> Steps:
    if run.around is not None and not isinstance(condition, StepCountIs | HasToolCall):  # which say the same again
        asking = Suspend(lambda: _holds(condition, steps))
        about = WorkInfo(f"stop {len(run.steps)}/{at}", _check_holds, _check_holds)
        return (yield run.cut(run.around.work(about, asking)))
    holds: Any = condition(steps)
    if is_effect(holds):
        holds = yield run.cut(holds)
    return holds if holds is LATE else _check_holds(holds)


def _holds(condition: StopCondition[Any, Any], steps: StepsSoFar) -> AnyEffect:
    holds: Any = condition(steps)
    return holds if is_effect(holds) else Succeed(holds)


def _check_holds(holds: Any) -> bool:
    if not isinstance(holds, bool):
        raise TypeError(f"a stop condition gave {holds!r}: it gives True or False, or an effect of that")
    return holds
