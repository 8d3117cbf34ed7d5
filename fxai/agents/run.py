"""Runs: store the plan and the progress of a run, and decide what follows a turn. The agent loop uses this module.

>>> from fxai.messages.part import Finish, Text
>>> from fxai.tools import Toolkit
>>> run = Run(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}, Budget(rounds=3)))
>>> run.judge(Response((Finish("pause"),)))
>>> run.goes_on
True
>>> run.judge(Response((Text("Good day."), Finish("stop"))))
>>> run.ended
'done'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import msgspec
from returns.result import Success

from fxai.agents.answer import (
    NO_RECORD,
    Answer,
    BudgetExceeded,
    Ended,
    Limit,
    RenderFailed,
    RunFailed,
    Step,
    StepRecord,
    describe_limit,
    keep_run,
)
from fxai.agents.answer import Steps as StepsSoFar
from fxai.agents.change import Appending, Changes, Plan
from fxai.agents.inbox import Inbox, decode_messages, encode_messages
from fxai.agents.large_result import Keeping, LargeResults
from fxai.agents.memory import MemoryFailure
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
from fxai.effects.cancellation import is_bug
from fxai.effects.cause import Cause, Die, Exit, Failed, Interrupt
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fold, Succeed, Suspend, Sync
from fxai.effects.layer import AnyLayer
from fxai.effects.scope import NOTHING, Scope
from fxai.messages.accumulate import fold
from fxai.messages.errors import AiError
from fxai.messages.message import TextPart, UserMessage
from fxai.messages.part import FinishReason, Part, ToolResult, Usage
from fxai.messages.prompt import Prompt
from fxai.messages.reason import ContentPolicyError, GuardRefusalError
from fxai.messages.response import Response
from fxai.models.approved_calls import ResolvedHistory
from fxai.models.compaction import Compaction, Meter
from fxai.models.cut import SAME_TURN, Compacted
from fxai.models.growth import Growth
from fxai.models.interceptor import Interceptor, LeftRunError, WorkInfo
from fxai.models.language_model import LanguageModel, output_error, read_output
from fxai.models.model_request import Resolution, RoundOptions, ToolChoice, ToolChoices
from fxai.models.round import LATE, Deadline, Steps, in_order, is_ours
from fxai.models.selection import HeldModels
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import ToolError, interrupt_calls, take_response
from fxai.tools.toolkit import AnyBound, AnyToolkit

if TYPE_CHECKING:
    from fxai.agents.rendering import Rendering, RenderPlan
    from fxai.agents.state import PromptState
    from fxai.agents.tool_search import Searching, ToolSearch

OnResolved: TypeAlias = Callable[[Prompt, "PromptState | None"], AnyEffect]
"""Receives the history to commit if the run stops now, and the state of the stateful prompt, or None."""

OnDefect: TypeAlias = Callable[[Answer[Any]], AnyEffect]
"""A function that receives the answer so far if a defect ends the run."""

OUTPUT_RETRIES: Final = 2
"""Default number of requests to correct an invalid answer."""

_NAME: Final = attrgetter("name")
_GOES_ON: Final[frozenset[FinishReason]] = frozenset(("stop", "tool-calls", "pause"))
_NO_IDS: Final[frozenset[str]] = frozenset()  # shared, because each empty set takes 216 bytes of a waiting run


@final
class RunPlan(msgspec.Struct, frozen=True):
    """The settings of a run. `AgentOptions` describes the fields without a description."""

    toolkit: AnyToolkit
    """The tools that the model can call. The context provides their handlers, unless `tools_now` includes them."""
    options: RoundOptions
    """The options of each request. A `tool_choice` that requires a call applies to the first request only."""
    budget: Budget = Budget()
    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    at_limit: AtLimit = "fail"
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    on_step: tuple[OnStep[Any, Any], ...] = ()
    output: Schema[Any] | None = None
    """The type of the answer, or None for text."""
    output_retries: int = OUTPUT_RETRIES
    tools_now: EffectOf[AnyBound, Any, Any] | None = None
    """An effect that returns all tools of the next step instead of `toolkit`, or None if tools cannot change during the
    run. Its layer provides the handlers for this step."""
    deadline: Deadline | None = None
    """The end of the time limit if its time started before the run, or None to start `budget.seconds` with the run."""
    without_own: bool = False
    """True if the run omits the agent's own tools. Its `tool_choice` can still name them."""
    prompt: RenderPlan | None = None
    """The stateful prompt that renders each step, or None."""
    changes: Changes = "auto"
    compaction: Compaction | None = None
    large_results: LargeResults | None = None
    model: AnyLayer | None = None
    """The model of the agent, or None if its steps use the model in the context."""
    tool_search: ToolSearch | None = None
    growth: Growth | None = None
    """The requests of the conversation so far, or None if the run does not continue a memory."""

    def is_hidden(self, name: str) -> bool:
        """Return whether a tool choice can name a tool that the step does not have.

        It can name a tool of the run, or any tool if the run omits tools. It can also name any tool if the run has a
        stateful prompt, because the prompt can define this tool in another step.
        """
        return self.without_own or self.prompt is not None or name in self.toolkit


def _uncut(effect: AnyEffect) -> AnyEffect:
    return effect


@final
class Run(msgspec.Struct, eq=False):
    """The progress of a run: its history, its usage, and its end."""

    history: Prompt
    plan: RunPlan
    on_resolved: OnResolved | None = None
    on_defect: OnDefect | None = None
    around: Interceptor | None = None
    model: LanguageModel | None = None  # the model in the context of all steps, or None if it can change
    keeping: Keeping | None = None  # the large results
    steps: list[Step] = []
    early: tuple[ToolResult, ...] = ()  # results of approved calls, for the first step
    ended: Ended | None = None
    failure: BudgetExceeded | RunFailed | None = None
    is_last: bool = False  # True during the last request after the budget is exhausted
    in_round: bool = True  # True if a failure now belongs to the model or a call, False if to a hook
    deadline: Deadline | None = None
    cut: Callable[[AnyEffect], AnyEffect] = _uncut
    inbox: Inbox | None = None
    known: frozenset[str] = _NO_IDS  # the ids of the messages that arrived in the inbox during the run
    models: HeldModels | None = None
    rendering: Rendering | None = None
    asked: StepSetup | None = None  # the setup of the last prepared step
    searching: Searching | None = None
    appending: Appending | None = None  # None if changes have their usual position
    declared: tuple[AnyTool, ...] | None = None  # the tools in the next request, if the run appends changes
    meter: Meter | None = None  # the counts of the compaction
    scope: Scope = cast(Scope, None)  # of the models and layers of steps; it exists only for prepared steps
    value: Any = msgspec.UNSET
    exceeded: Limit | None = None
    tokens: int = 0
    cost: Any = 0  # the money so far, as a Decimal
    reserved: tuple[int, Any] | None = None  # the maximum tokens and money of the current request
    calls: int = 0
    wrong: int = 0
    shown: Prompt = Prompt.empty  # messages for the model, equal to the history unless it contained approvals
    begun: Prompt = Prompt.empty  # the history before the run
    options: RoundOptions = {}
    growth: Growth = msgspec.field(default_factory=Growth)
    compacts: bool = False
    reserves: bool = False

    def __post_init__(self) -> None:
        plan, budget = self.plan, self.plan.budget
        self.shown = self.begun = self.history
        self.options = plan.options
        if plan.growth is not None:
            self.growth = plan.growth
        if plan.compaction is not None:
            self.compacts = bool(plan.compaction.stages)
        if budget.money is not None or budget.tokens is not None:
            self.reserves = budget.money is not None or bool(plan.options.get("max_tokens"))

    @property
    def goes_on(self) -> bool:
        """True if the run needs another step."""
        return self.ended is None and self.failure is None

    @property
    def answer(self) -> Answer[Any]:
        """The answer of the run after it ended."""
        typed = self.plan.output is not None
        return Answer(tuple(self.steps), self.history, self.ended or "done", typed, self.value, self.state)

    @property
    def state(self) -> PromptState | None:
        """The state of the stateful prompt, or None."""
        return None if self.rendering is None else self.rendering.state(self.history)

    # -- events of the run

    def start(self, deadline: Deadline) -> None:
        """Start the clock of the run. From now on, `cut` stops each effect at the deadline."""
        self.deadline = deadline
        self.cut = deadline.cut
        until = self.plan.options.get("deadline")
        self.options = {**self.options, "deadline": deadline.at if until is None else min(until, deadline.at)}

    def record_approved(self, done: ResolvedHistory) -> None:
        """Record the results of the approved calls. If calls are still pending, end the run."""
        self.history, self.shown, self.early = done.history, done.shown, done.results
        if done.waiting:
            self.steps.append(Step(1, done.pending))
            self.ended = "pending"

    def take(self, response: Response) -> Step:
        """Record the response of a round and return its step."""
        messages = fold(response.content)
        grown = self.history.extend(messages)
        self.shown = grown if self.shown is self.history else self.shown.extend(messages)
        self.history = grown
        if self.early:
            response = Response((*self.early, *response.content))
            self.early = ()
        found = self.growth.prefix_break or response.prefix_break  # the latter from an earlier process
        compacted, self.growth.compacted = self.growth.compacted, None
        record = NO_RECORD
        if self.rendering is not None and self.asked is not None:
            record = self.rendering.record(self.asked.toolkit, self.asked.messages, found, compacted)
        elif self.growth.last is not None:
            request = self.growth.last.request
            toolkit = self.plan.toolkit if self.asked is None else self.asked.toolkit
            is_whole = self.asked is not None or request.tools is toolkit.as_tuple  # else a choice shows some tools
            names = toolkit.names if is_whole else tuple(map(_NAME, request.tools))
            record = StepRecord(names, request.prompt, prefix_break=found, compacted=compacted)
        step = Step(len(self.steps) + 1, response, record)
        self.steps.append(step)
        if self.plan.budget.tokens is not None or self.reserved is not None:
            self._spend(step.usage)
        if self.options.get("tool_choice", "auto") != "auto":
            self.options = options_after(self.options)
        return step

    def _spend(self, used: Usage) -> None:
        """Add the usage of a step. For an unknown usage, add the maximum of its request."""
        most, money = self.reserved or (0, 0)
        total, price = used.total_tokens, self.plan.budget.price
        self.tokens += most if total is None else total
        if price is not None:
            cost = price.cost(used)
            self.cost += money if cost is None else cost

    def reserve(self, given: int, answer: int) -> Limit | None:
        """Reserve the maximum of a request. Return the limit that the request could exceed, or None."""
        budget = self.plan.budget
        money: Any = 0
        if budget.price is not None:
            of_input, of_output = budget.price.highest(given)
            money = (given * of_input + answer * of_output) / 1_000_000
        self.reserved = given + answer, money
        if budget.tokens is not None and self.tokens + given + answer > budget.tokens:
            return "tokens"
        return "money" if budget.money is not None and self.cost + money > budget.money else None

    def append(self, plan: Plan) -> None:
        """Record that the model receives appended changes. The last message of the conversation carries them."""
        if self.appending is not None:
            self.appending.keep(plan)
        is_same = self.history is self.shown
        self.shown = plan.conversation
        self.history = plan.conversation if is_same else plan.carry(self.history)

    def compact(self, compacted: Compacted) -> None:
        """Shorten the messages for the model. The last message of the history records the compaction."""
        self.history = compacted.mark(self.history)
        self.shown = compacted.of(self.shown)
        self.growth.compacted = compacted
        for reader in (self.appending, self.rendering):
            if reader is not None:
                reader.forget()

    def refuse(self, parts: tuple[Part, ...], resolution: Resolution) -> list[ToolResult]:
        """Return results for the calls in a turn that exceed the budget, and count the other calls."""
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
        late = {call.id for call in ours[left:]}  # no call with such an id runs, because a result belongs to an id
        why = f"the run may make {describe_limit(most, 'calls')} and has already made them"
        return interrupt_calls([call for call in ours if call.id in late], why)

    def judge(self, response: Response) -> None:
        """End the run if the last turn ends it.

        The run continues if the model has results to read, or if the provider paused the turn. The run ends if a limit
        or a filter cut the turn short, because another request would have the same result.
        """
        reason: FinishReason = "unknown"
        refusal: ContentPolicyError | None = None
        ours: list[str] = []
        answered: set[str] = set()
        for part in response.content:
            if part.type == "tool-call":
                if not part.provider_executed:
                    ours.append(part.id)
            elif part.type == "tool-result":
                answered.add(part.id)
            elif part.type == "finish":
                reason, refusal = part.reason, part.refusal or refusal

        if reason == "pending" or not answered.issuperset(ours):
            self.ended = "pending"  # a call needs an approval or an external result
            return
        if reason in _GOES_ON and (ours or reason == "pause") and not self.is_last:
            return
        ended: Ended = "limit" if self.is_last else "done"
        if refusal is not None and not response.text:
            error = AiError("Agent", "execute", refusal)  # a refusal is not an empty answer
            self.failure = RunFailed.of(error, self.history, self.state)
        elif self.plan.output is None:
            self.ended = ended
        else:
            self._end_typed(response, ended, self.plan.output)

    def limit(self) -> None:
        """Note the limit that the run exhausted. If the run goes on, end it or prepare its last request."""
        budget = self.plan.budget
        if self.exceeded is None and budget.tokens is not None and self.tokens >= budget.tokens:
            self.exceeded = "tokens"
        elif self.exceeded is None and len(self.steps) >= budget.rounds:
            self.exceeded = "rounds"
        if self.exceeded is not None and self.goes_on:
            self.exceed(self.exceeded)

    def join(self, messages: Iterable[UserMessage]) -> None:
        """Append messages to the conversation, and continue the run if it ended."""
        added = tuple(messages)
        same = self.shown is self.history
        self.history = self.history.extend(added)
        self.shown = self.history if same else self.shown.extend(added)
        self.ended, self.value = None, msgspec.UNSET

    def exceed(self, what: Limit) -> None:
        """Apply `at_limit` after the run exhausted its budget."""
        budget = self.plan.budget
        mode = self.plan.at_limit
        if mode == "fail" or self.is_last or (mode == "last_text" and not self.steps):
            self.failure = BudgetExceeded(what, float(getattr(budget, what)), self.history, self.state)
        elif mode == "answer":
            self.is_last = True
            if self.deadline is not None and budget.seconds is not None:
                self.start(Deadline.after(self.deadline.clock, budget.seconds))  # the same time once more, as a limit
        else:
            self.ended = "limit"
            if self.plan.output is not None:
                last = next((step.response for step in reversed(self.steps) if step.text), Response())
                self.value = read_output(last, self.plan.output).value_or(msgspec.UNSET)

    def _end_typed(self, response: Response, ended: Ended, schema: Schema[Any]) -> None:
        """End the run with a typed answer, or request a correction if the answer is invalid and retries remain."""
        output = read_output(response, schema)
        if isinstance(output, Success):
            self.value, self.ended = output.unwrap(), ended
        elif self.is_last or self.wrong >= self.plan.output_retries or response.finish_reason not in _GOES_ON:
            error = output_error("Agent", "execute", response, output.failure())
            self.failure = RunFailed.of(error, self.history, self.state)
        else:
            self.wrong += 1
            self.join((_correction(output.failure()),))

    # -- failures of the run

    def fail(self, cause: Cause[Any]) -> AnyEffect | None:
        """Return the failure of the run with the conversation, or None after a defect or an interruption.

        It stores the conversation with each defect, and `on_defect` receives the answer so far.
        """
        if self.rendering is not None:
            cause = self.rendering.explain(cause, self.history)
        failing = FailCause(cause.map(self._complete)) if cause.failures else None
        if not cause.defects or any(isinstance(defect, LeftRunError) for defect in cause.defects):
            return failing
        broken = self._answer_so_far(cause)
        for defect in cause.defects:
            keep_run(defect, broken.history, broken.usage)
        if self.on_defect is None or cause.interrupted or broken.history == self.begun:
            return failing
        failing = failing or FailCause(cause)
        return Fold(self.on_defect(broken), lambda other: FailCause(cause.combine(other)), lambda _: failing)

    def end(self, exit_: Exit[Any, Any]) -> EffectOf[None]:
        """Store the conversation and the usage of a cancelled run with its interruption."""
        if isinstance(exit_, Failed):
            for reason in exit_.cause.reasons:
                if isinstance(reason, Interrupt):
                    keep_run(reason, self.history, self._usage(Usage()))
        return NOTHING

    def _answer_so_far(self, cause: Cause[Any]) -> Answer[Any]:
        """Return the answer so far of a run that ended with a defect, including the results of the last round."""
        responses = [take_response(defect) for defect in cause.defects]
        response = next((one for one in responses if one is not None), None)
        if response is None or not self.in_round:
            return Answer(tuple(self.steps), self.history, "done", state=self.state)
        response = in_order(Response((*self.early, *response.content)))
        step = Step(len(self.steps) + 1, response)
        return Answer((*self.steps, step), self.history.with_response(response.content), "done", state=self.state)

    def _complete(self, error: Any) -> Any:
        """Return a failure with the conversation and the usage of the run."""
        if isinstance(error, AiError):
            error = RunFailed.of(error, self.history, self.state)
        elif self.in_round and isinstance(error, ToolError):
            content = () if error.response is None else error.response.content
            response = error.response if not self.early else Response((*self.early, *content))
            history = self.history.with_response(in_order(Response(content)).content)
            error = msgspec.structs.replace(error, response=response, history=history, state=self.state)
        if not isinstance(error, RunFailed | BudgetExceeded | RenderFailed | ToolError | MemoryFailure):
            return error
        turn = Usage()
        if isinstance(error, ToolError) and error.response is not None:
            turn = error.response.usage
        elif isinstance(error, RunFailed) and isinstance(error.reason, GuardRefusalError):
            turn = Usage(**error.reason.usage)
        return msgspec.structs.replace(error, usage=self._usage(turn))

    def _usage(self, turn: Usage) -> Usage:
        """Return the usage of the finished steps, of a compaction before the current step, and of a turn."""
        compacted = Usage() if self.growth.compacted is None else self.growth.compacted.usage
        return sum((step.usage for step in self.steps), turn + compacted)


def _correction(failure: DecodeFailure) -> UserMessage:
    """Return the message to the model about an invalid answer. It lists all validation errors."""
    faults = "\n".join([f"- {fault}" for fault in failure.faults])
    text = f"Your answer does not have the requested form:\n{faults}\nAnswer again, only in this form."
    return UserMessage((TextPart(text),), metadata=SAME_TURN)


def options_after(options: RoundOptions) -> RoundOptions:
    """Return the options after the first request, without a requirement of a call."""
    choice = options.get("tool_choice", "auto")
    following: ToolChoices = choice
    if isinstance(choice, ToolChoice):
        following = "auto" if choice.mode == "tool" else ToolChoice(choice.names)
    elif choice == "required":
        following = "auto"
    return options if following == choice else {**options, "tool_choice": following}


# -- hooks


def prepare_by(run: Run, at: int, prepare_step: PrepareStep[Any, Any], setup: StepSetup) -> Steps:
    """Return the setup after a hook changed it, or `LATE` if the time limit passed.

    A journal cannot store the setup, because it can contain models and handlers. If the run resumes, fxai calls the
    hook again.
    """
    if run.around is None:
        given: Any = prepare_step(setup)
        given = (yield run.cut(given)) if is_effect(given) else given
    else:
        about = WorkInfo(f"prepare {setup.number}/{at}", None)
        given = yield run.cut(run.around.work(about, Suspend(lambda: _lift(prepare_step(setup)))))
    if given is LATE or isinstance(given, StepSetup):
        return given
    raise TypeError(f"prepare_step returned {given!r}. Return the setup, a changed setup, or an effect of a setup.")


def read_inbox(run: Run, inbox: Inbox, *, at_end: bool) -> Steps:
    """Append the messages of the inbox to the conversation. A journal records the messages that arrived.

    If the time limit passes or the journal fails, the messages stay in the inbox.
    """
    if run.around is None and inbox.is_empty:
        return
    run.in_round = False
    arrived: AnyEffect = Sync(lambda: inbox.unread(run.known))
    if run.around is not None:
        name = f"inbox {len(run.steps)}/end" if at_end else f"inbox {len(run.steps) + 1}"
        arrived = run.around.work(WorkInfo(name, encode_messages, decode_messages), arrived)
    found: Any = yield run.cut(arrived)
    if found is not LATE:
        run.known |= {one.id for one in found}
        joining = inbox.take(found, run.known, at_end=at_end)
        if joining:
            messages = [message for one in joining for message in one.messages]
            if not at_end:  # a compaction keeps a steering message with the messages before it
                messages = [msgspec.structs.replace(one, metadata={**one.metadata, **SAME_TURN}) for one in messages]
            run.join(messages)
            reporting = inbox.report(joining)
            if reporting is not None:
                yield run.cut(reporting)
    run.in_round = True


def notify(run: Run, step: Step) -> Steps:
    """Call the listeners with a finished step."""
    run.in_round = False
    for at, listener in enumerate(run.plan.on_step):
        if run.around is None:
            effect = _listen(listener, step)
        else:
            about = WorkInfo(f"on_step {step.number}/{at}")
            effect = run.around.work(about, Suspend(partial(_listen, listener, step)))
        if effect is not NOTHING and (yield run.cut(effect)) is LATE:
            break  # the next effect of the run is late, too
    run.in_round = True


def _listen(listener: OnStep[Any, Any], step: Step) -> AnyEffect:
    try:
        effect: Any = listener(step)
    except BaseException as bug:
        if not is_bug(bug):
            raise
        return _log(step, bug)
    if effect is None:
        return NOTHING
    if is_effect(effect):
        return Fold(effect.as_(None), lambda cause: _log_bug(step, cause), None)
    kind = type(effect).__name__
    return _log(step, TypeError(f"on_step returned a {kind}. Return None or an effect."))


def _log_bug(step: Step, cause: Cause[Any]) -> AnyEffect | None:
    """Log a bug of a listener, so that the run continues. Return None for a declared failure, which ends the run."""
    if not all(isinstance(reason, Die) and not isinstance(reason.defect, LeftRunError) for reason in cause.reasons):
        return None
    return _log(step, cause.squash())


def _log(step: Step, bug: BaseException) -> EffectOf[None]:
    import logging  # few listeners break

    logging.getLogger("fxai.agents").error(
        "on_step raised after step %d. The run continues: %s", step.number, bug, exc_info=bug
    )
    return Succeed(None)


def stop(run: Run) -> Steps:
    """End the run if a stop condition is true."""
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
    if run.around is not None and not isinstance(condition, StepCountIs | HasToolCall):  # these two are deterministic
        asking = Suspend(lambda: _lift(condition(steps)))
        about = WorkInfo(f"stop {len(run.steps)}/{at}", _check_holds, _check_holds)
        return (yield run.cut(run.around.work(about, asking)))
    holds: Any = condition(steps)
    if is_effect(holds):
        holds = yield run.cut(holds)
    return holds if holds is LATE else _check_holds(holds)


def _lift(given: object) -> AnyEffect:
    return given if is_effect(given) else Succeed(given)


def _check_holds(holds: Any) -> bool:
    if not isinstance(holds, bool):
        raise TypeError(f"stop condition returned {holds!r}. Return True, False, or an effect of one of these.")
    return holds
