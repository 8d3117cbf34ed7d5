"""The agent loop: call the model, run its tool calls, append the results, and repeat.

The loop opens the tool sources, loads the memory, and executes the tool calls that the history approves. Then it starts
the first round. After each round it continues until one of these conditions is true:

- The model calls no tool. If the provider paused the turn, the loop sends another request instead.
- A call needs an approval or an external result.
- The provider cut the response short.
- A stop condition is true.
- The budget is exhausted.

At the end, the loop commits the new messages to the memory and closes the tool sources.

A run is one generator of effects, `_loop`. A streamed run uses the same generator with an `emit` function, which passes
each part to the reader immediately. The loop emits the `finish` part of a round after all other work of the round.

Before each step, `_prepare` renders the stateful prompt and calls `prepare_step`. After each step, the loop calls the
`on_step` functions and the stop conditions. Memories use `on_resolved` and `on_answer`: they receive the history when
approved calls start and end, and the answer before the reader gets the last part. Durable runs and telemetry use an
`Interceptor`, which wraps the run, each step, turn and call, and each memory operation.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.tools.toolkit import Toolkit
>>> run = run_loop(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}))
>>> fx.run(run.provide(ScriptedModel.make([text("Good day.")]).layer)).text
'Good day.'
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import msgspec

from fxai.agents.answer import Answer, AnswerPart, RunError, Steps
from fxai.agents.change import NOTHING as NO_CHANGE
from fxai.agents.change import Appending, Plan
from fxai.agents.inbox import Inbox
from fxai.agents.large_result import READER, Keeping
from fxai.agents.memory import Memory, keeps_no_state
from fxai.agents.recall import Commits, load, recall, waiting_aside
from fxai.agents.run import OnDefect, OnResolved, Run, RunPlan, notify, prepare_by, read_inbox, stop
from fxai.agents.run_options import StepSetup
from fxai.agents.run_tools import Binding
from fxai.effects.constructor import fail
from fxai.effects.context import AnyContext, ServiceKey
from fxai.effects.effect import (
    AnyEffect,
    Ask,
    EffectOf,
    Fetch,
    Fold,
    Generate,
    Local,
    OnExit,
    Succeed,
    Sync,
    Within,
)
from fxai.effects.layer import AnyLayer
from fxai.effects.scope import NOTHING, Scope, scoped
from fxai.effects.service import Clock
from fxai.effects.stream import StreamOf, stream_steps
from fxai.messages.calls import stray_result, unpaired_calls
from fxai.messages.errors import AiError
from fxai.messages.message import SystemMessage
from fxai.messages.part import Finish, StreamPart, ToolCall, ToolResult
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.reason import InvalidUserInputError
from fxai.messages.response import Response
from fxai.models.approval import read_approvals, without_requests
from fxai.models.approved_calls import ResolvedHistory, relay, resolve_approvals
from fxai.models.compaction import Compaction, Meter
from fxai.models.cut import Compacted, read_compacted
from fxai.models.growth import Growth, LastRequests, find_message_break, lead_of
from fxai.models.interceptor import Interceptor, RunInfo, StepInfo, WorkInfo, interceptor_of
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest, Resolution, RoundOptions, prepare
from fxai.models.round import LATE, TIME_IS_UP, Deadline, Emit, Round, RoundLimits, take_turn
from fxai.models.round import Steps as Program
from fxai.models.selection import HeldModels, hold
from fxai.schema.codec import Schema
from fxai.tools.tool_error import interrupt_calls
from fxai.tools.toolkit import AnyToolkit

if TYPE_CHECKING:
    from fxai.agents.rendering import RenderPlan

OnAnswer: TypeAlias = Callable[[Answer[Any]], AnyEffect]
"""Receives the answer of a successful run before the reader gets the last part. If it fails, the run fails."""

_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)
_MODEL: EffectOf[LanguageModel, Any, Any] = Fetch(LanguageModel)
_LAST_REQUESTS: Final = LastRequests()
_NO_ROUND = Round(Response(), is_complete=False)


# -- open a run: model, tools, and memory


@final
class Remembering(msgspec.Struct, frozen=True):
    """The memory of an agent, and whether the agent commits its runs to this memory."""

    memory: Memory | ServiceKey[Any, Memory]
    """A memory, or the key of a memory service."""
    auto_append: bool = True

    def find(self) -> EffectOf[Memory, Any, Any]:
        """Return the memory; fetch it from the context if `memory` is a service key."""
        if isinstance(self.memory, Memory):
            return Succeed(self.memory)

        def check(service: object) -> Memory:
            if not isinstance(service, Memory):
                raise TypeError(f"with_memory({self.memory!r}): the layer must provide a Memory, got {service!r}")
            return service

        fetched: AnyEffect = Fetch(self.memory.__fx_key__())
        return fetched.map(check)


@final
class Execution(msgspec.Struct, frozen=True):
    """A run of an agent before it starts: its plan, tools, instructions, and memory.

    The model reads the instructions, the messages from the memory, and the prompt, in this order. The run opens its
    tool sources at the start and always closes them at the end. A successful run commits its messages to the memory.
    """

    name: str
    """The name of the agent, or of the stateful prompt."""
    plan: RunPlan
    binding: Binding | None
    """The tools that the run opens, or None if the plan contains all tools and no tool includes its handlers."""
    instructions: str | None = None
    model: AnyLayer | None = None
    """The model of the run; None for the model in the context. Handlers prefer the model in the context."""
    remembering: Remembering | None = None

    def answer(self, prompt: PromptInput) -> EffectOf[Answer[Any], Any, Any]:
        """Return an effect that runs the agent on `prompt` and succeeds with its answer."""
        return Within(partial(self._intercept, Prompt.make(prompt), None))

    def parts(self, prompt: PromptInput) -> StreamOf[StreamPart, Any, Any]:
        """Return a stream of the parts of the answer to `prompt`."""
        running = partial(self._intercept, Prompt.make(prompt))
        return stream_steps(lambda emit: Within(partial(running, emit)))

    def objects(self, prompt: PromptInput, schema: Schema[Any]) -> StreamOf[AnswerPart[Any], Any, Any]:
        """Return a stream of the typed answer to `prompt` while the model writes it."""
        from fxai.models.partial_object import AnswerReader

        running = partial(self._intercept, Prompt.make(prompt))

        def program(emit: Callable[[AnswerPart[Any]], EffectOf[None]]) -> AnyEffect:
            reader, turn, finished = AnswerReader(schema), 1, 0

            def read(part: StreamPart) -> EffectOf[None]:
                nonlocal reader, turn, finished
                if part.type == "finish":
                    finished += 1
                elif part.type == "text-start" and finished >= turn:
                    reader, turn = AnswerReader(schema), finished + 1
                return emit(AnswerPart(reader.at_present, turn)) if reader.read(part) else NOTHING

            def end(answer: Answer[Any]) -> EffectOf[None]:
                has_value = answer.value is not msgspec.UNSET
                whole = reader.whole(answer.text) if has_value else reader.at_present
                return emit(AnswerPart(whole, turn, answer))

            return Within(partial(running, read)).flat_map(end)

        return stream_steps(program)

    def _intercept(self, prompt: Prompt, emit: Emit | None, context: AnyContext) -> AnyEffect:
        around: Interceptor | None = context.services.get(Interceptor)
        if around is None:
            return self._with_model(prompt, emit, context)
        about = RunInfo(self.name, prompt, self.plan.budget.seconds)
        return around.run(about, Within(partial(self._with_model, prompt, emit)))

    def _with_model(self, prompt: Prompt, emit: Emit | None, context: AnyContext) -> AnyEffect:
        model = self.model
        if model is None:
            return self._with_tools(prompt, emit, context)
        if context.find(LanguageModel) is None:
            return Within(partial(self._with_tools, prompt, emit)).provide(model)

        def choose_model(setup: StepSetup) -> StepSetup:
            return setup.with_model(model)

        prepare_step = (choose_model, *self.plan.prepare_step)
        plan = msgspec.structs.replace(self.plan, prepare_step=prepare_step, model=model)
        return msgspec.structs.replace(self, plan=plan)._with_tools(prompt, emit, context)

    def _with_tools(self, prompt: Prompt, emit: Emit | None, context: AnyContext) -> AnyEffect:
        if self.binding is None:
            return self._with_memory(prompt, self.plan, emit, context)
        return scoped(Generate(self._open, (prompt, emit, self.binding), {}))

    def _open(self, prompt: Prompt, emit: Emit | None, binding: Binding) -> Program:
        """Open the tool sources within the time limit, then run with their tools and handlers.

        If the time limit passes first, run with the tools in the plan. The run then detects that its time is over.
        """
        seconds, opening, deadline = self.plan.budget.seconds, binding.open(), None
        if seconds is not None:
            deadline = Deadline.after((yield _CLOCK), seconds)
            opening = deadline.cut(opening)
        opened = yield opening
        if opened is LATE:
            late = msgspec.structs.replace(self.plan, deadline=deadline)
            return (yield Within(partial(self._with_memory, prompt, late, emit)))
        now = opened.now if opened.is_live else None
        plan = msgspec.structs.replace(self.plan, toolkit=opened.toolkit, deadline=deadline, tools_now=now)
        return (yield Within(partial(self._with_memory, prompt, plan, emit)).provide(opened.layer))

    def _with_memory(self, prompt: Prompt, plan: RunPlan, emit: Emit | None, context: AnyContext) -> AnyEffect:
        if self.remembering is None:
            return _program(_with_instructions(self.instructions, prompt), plan, None, None, emit, None, context)
        return Generate(self._remember, (prompt, plan, self.remembering, emit), {})

    def _remember(self, prompt: Prompt, plan: RunPlan, remembering: Remembering, emit: Emit | None) -> Program:
        """Load the memory, continue the conversation, and commit the new messages.

        If the time limit passes before the memory loads, the run detects this and commits nothing.
        """
        memory: Memory = yield remembering.find()
        if plan.deadline is None and plan.budget.seconds is not None:
            plan = msgspec.structs.replace(plan, deadline=Deadline.after((yield _CLOCK), plan.budget.seconds))
        around: Interceptor | None = yield Ask(interceptor_of)
        loading = _load(memory, plan.prompt, keeps=remembering.auto_append, around=around)
        loaded = yield _in_time(loading, plan)
        if loaded is LATE:
            return (yield run_loop(_with_instructions(self.instructions, prompt), plan, emit=emit))
        past, state = loaded
        lead = lead_of(prompt)
        systems, new = Prompt(islice(prompt, lead)), Prompt(islice(prompt, lead, None))
        whole = _with_instructions(self.instructions, systems) + recall(past, new) + new
        growth = Growth(_LAST_REQUESTS.of(memory))
        compaction = plan.compaction or memory.compaction
        rendered = plan.prompt
        if rendered is not None and state is not None:
            aside = waiting_aside(past, new) if state.pending else frozenset[str]()
            rendered = msgspec.structs.replace(rendered, state=state, aside=aside)
        plan = msgspec.structs.replace(plan, prompt=rendered, growth=growth, compaction=compaction)
        if not remembering.auto_append:
            return (yield run_loop(whole, plan, emit=emit))
        commits = Commits(memory, whole, new, around)

        def end(answer: Answer[Any]) -> AnyEffect:
            if answer.typed and answer.value is msgspec.UNSET and answer.ended != "pending":
                return NOTHING  # the run returned no output
            return commits.end(answer).map(lambda _: _LAST_REQUESTS.note(memory, growth.last))

        on_defect = None if around is not None and around.resumes else commits.end
        return (yield run_loop(whole, plan, end, commits.commit_approved, emit, on_defect))


def _load(memory: Memory, prompt: RenderPlan | None, *, keeps: bool, around: Interceptor | None) -> AnyEffect:
    """Load the messages and the initial prompt state from a memory. A state in `prompt` replaces the stored state."""
    if prompt is not None and keeps and type(memory).commit_with is Memory.commit_with:
        return fail(keeps_no_state(memory))  # fail before a model call whose result would be lost
    if prompt is None or prompt.state is not None:
        given = None if prompt is None else prompt.state
        return load(memory, with_state=False, around=around).map(lambda loaded: (loaded[0], given))
    return load(memory, with_state=True, around=around)


def _in_time(loading: AnyEffect, plan: RunPlan) -> AnyEffect:
    """Load the memory or return `LATE`. If opening the tools used all the time, allow the same time once more."""
    deadline, seconds = plan.deadline, plan.budget.seconds
    if deadline is None or seconds is None:
        return loading
    if deadline.clock.monotonic() >= deadline.at:
        deadline = Deadline.after(deadline.clock, seconds)
    return deadline.cut(loading)


def _with_instructions(instructions: str | None, prompt: Prompt) -> Prompt:
    if instructions is None:
        return prompt
    system = SystemMessage(instructions)
    return prompt if len(prompt) and prompt[0] == system else Prompt((system,)) + prompt  # already in the history


# -- the loop


def run_loop(
    prompt: Prompt,
    plan: RunPlan,
    on_answer: OnAnswer | None = None,
    on_resolved: OnResolved | None = None,
    emit: Emit | None = None,
    on_defect: OnDefect | None = None,
) -> EffectOf[Answer[Any], RunError, Any]:
    """Run the loop on the conversation `prompt` and return its answer.

    If `on_answer` or `on_resolved` fails, the run fails. A streamed run passes each part to `emit`, and each round ends
    with a `finish` part. A run that fails, or whose reader stops before the last part, has no answer.
    """
    return Within(partial(_program, prompt, plan, on_answer, on_resolved, emit, on_defect))


def _program(
    prompt: Prompt,
    plan: RunPlan,
    on_answer: OnAnswer | None,
    on_resolved: OnResolved | None,
    emit: Emit | None,
    on_defect: OnDefect | None,
    context: AnyContext,
) -> AnyEffect:
    keeping = None if plan.large_results is None else Keeping(plan.large_results, prompt)
    if keeping is not None:
        plan = msgspec.structs.replace(plan, toolkit=keeping.with_reader(plan.toolkit))
    around: Interceptor | None = context.services.get(Interceptor)
    found: LanguageModel | None = context.services.get(LanguageModel)
    model = found if around is None else None  # an interceptor can replace the model of a step
    run = Run(prompt, plan, on_resolved, on_defect, around, model, keeping)
    loop = _loop if around is None else partial(_loop_by_steps, around)
    looped: AnyEffect = OnExit(Fold(Generate(loop, (run, emit, on_answer, found), {}), run.fail, None), run.end)
    inbox: Inbox | None = context.services.get(Inbox)
    if inbox is not None and inbox.claim(run):
        run.inbox = inbox
        looped = looped.on_exit(lambda _: Sync(inbox.release))
    if keeping is not None:
        looped = Local(looped, keeping.add_handler)
    if not plan.prepare_step and plan.prompt is None and plan.model is None:
        return looped
    run.scope = Scope()
    if plan.prompt is not None:
        run.rendering = plan.prompt.start(run.scope)
        looped = Local(looped, run.rendering.add_state)
    return looped.on_exit(run.scope.close)


def _loop_by_steps(
    around: Interceptor, run: Run, emit: Emit | None, on_answer: OnAnswer | None, model: LanguageModel | None
) -> Program:
    """Run the loop with an interceptor around each step."""
    yield from _start(run, emit, on_answer, model)
    one = Generate(_loop, (run, emit, on_answer, model), {"is_one": True})
    while run.goes_on:
        yield around.step(StepInfo(len(run.steps) + 1), one)
    return (yield one)


def _loop(
    run: Run, emit: Emit | None, on_answer: OnAnswer | None, model: LanguageModel | None, *, is_one: bool = False
) -> Program:
    """Start the run, run all steps, and return the answer. `model` is the model in the context, or None.

    If `is_one` is true, the run has started: run the next step only and return None.
    """
    yield from () if is_one else _start(run, emit, on_answer, model)
    # The work after a step is inline: with one generator for each run, thousands of waiting runs use less memory.
    plan = run.plan
    has_changes = plan.tools_now is not None or plan.prompt is not None or run.appending is not None
    has_changes |= plan.tool_search is not None
    is_prepared = has_changes or bool(plan.prepare_step)
    step: StepRequest | AiError | None
    inbox = run.inbox
    while run.goes_on:
        step = None
        if (inbox is None and not run.compacts) or (yield from _read_and_compact(run, inbox)):
            step = (yield from _prepare(run)) if is_prepared else _request(run, run.shown, plan.toolkit, run.options)
        if isinstance(step, AiError):
            return (yield fail(step))
        sends = step is None or not run.reserves or (yield from _reserve(run, step))
        if not sends:  # the last step follows, or the run ended
            yield from _hand_over(run, (), emit, on_answer)
            continue
        round_ = _NO_ROUND if step is None else (yield from _ask(run, step, step.model or (yield _MODEL), emit))
        if round_.is_complete:
            finished = run.take(round_.response)
            if plan.on_step:
                yield from notify(run, finished)
            run.judge(round_.response)
            if plan.stop_when and run.goes_on and not run.is_last:
                yield from stop(run)
            run.limit()
            if inbox is not None and run.ended == "done" and run.exceeded is None:
                yield from read_inbox(run, inbox, at_end=True)
        else:
            run.exceed("seconds")
        if emit is not None or on_answer is not None:
            is_read = round_.is_complete or run.failure is None
            finish = [part for part in round_.response.content if part.type == "finish"]
            yield from _hand_over(run, [*round_.unread, *finish] if is_read else (), emit, on_answer)
        if is_one:
            return None
    if run.failure is not None:
        yield fail(run.failure)
    return run.answer


def _read_and_compact(run: Run, inbox: Inbox | None) -> Program:
    """Add the steering messages of the inbox, and compact the messages. Return False if the time limit passed."""
    is_paused = bool(run.steps) and run.steps[-1].finish_reason == "pause"
    if inbox is not None and not run.is_last and not is_paused:
        yield from read_inbox(run, inbox, at_end=False)
    return not run.compacts or (yield from _compact(run))


def _start(run: Run, emit: Emit | None, on_answer: OnAnswer | None, model: LanguageModel | None) -> Program:
    """Start the clock of the run and execute the tool calls that its history approves.

    `model` is the model in the context, or None.
    """
    plan = run.plan
    if plan.changes != "rewrite" or plan.tool_search is not None:
        yield from _choose_changes(run, model)
    if plan.deadline is not None or plan.budget.seconds is not None:
        run.start(plan.deadline or Deadline.after((yield _CLOCK), plan.budget.seconds or 0))
    for message in run.history:
        if message.role == "assistant" or message.role == "tool":  # this message can contain approvals
            stray = stray_result(run.history) if plan.growth is None else None  # a memory checks its own new messages
            if stray is not None:  # the model would never read it
                problem = f"conversation has no call for the result of {stray.name!r} (call {stray.id!r})"
                remedy = "Remove the result, or pass the conversation with its call"
                yield fail(AiError("Agent", "execute", InvalidUserInputError(f"{problem}. {remedy}")))
            yield relay(lambda put: Generate(_run_approved, (run, put), {}), emit)
            yield from _hand_over(run, [Finish("pending")] if run.ended == "pending" else (), emit, on_answer)
            break
    if run.compacts:
        run.shown = read_compacted(run.shown)


def _choose_changes(run: Run, model: LanguageModel | None) -> Program:
    """Choose the position of changes and the search of tools in the run, by the facts about its model."""
    plan = run.plan
    is_needed = plan.changes == "append" or plan.tool_search is not None
    if plan.model is not None and (is_needed or plan.prompt is not None or plan.growth is not None):
        models: HeldModels = yield _hold_models(run)
        model = yield Fold(
            models.model_of(plan.model).open(), lambda _: Succeed(None), None
        )  # the first request reports a failure of the model
    facts = None if model is None else model.facts
    changes_tools = facts is not None and facts.tool_changes_between is True
    appends = plan.changes == "append"
    if plan.tool_search is not None:
        from fxai.agents.tool_search import Searching

        appends = appends or (plan.changes == "auto" and changes_tools)
        always = () if run.keeping is None else (READER.name,)
        run.searching = Searching(plan.tool_search, facts, always, adds=appends and changes_tools)
    if appends or (plan.changes == "auto" and facts is not None and facts.binds_thinking):
        last = run.growth.last
        run.appending = Appending(changes_tools=changes_tools, tools=() if last is None else last.request.tools)
        if run.rendering is not None:
            run.rendering.appends = True


def _compact(run: Run) -> Generator[AnyEffect, Any, bool]:
    """Shorten the messages for the model before a step. Return False if the time limit passed.

    A journal records the cuts, so that a resumed run sends the same requests and needs no second summary.
    """
    if run.meter is None:
        model = yield (_MODEL if run.plan.model is None else (yield _hold_models(run)).model_of(run.plan.model).open())
        run.meter = Meter(model)
    last = run.growth.last
    run.meter.tools = run.plan.toolkit.as_tuple if last is None else last.request.tools
    number = len(run.steps) + 1
    finding: AnyEffect = cast(Compaction, run.plan.compaction).find(run.meter, run.shown, number)
    if run.around is not None:
        decode = partial(msgspec.convert, type=Compacted | None)
        finding = run.around.work(WorkInfo(f"compact {number}", msgspec.to_builtins, decode), finding)
    found = yield run.cut(finding)
    if found is LATE:
        return False
    if found is not None:
        run.compact(found)
    return True


def _hand_over(run: Run, parts: Iterable[Any], emit: Emit | None, on_answer: OnAnswer | None) -> Program:
    """Emit the last parts of a round. After a successful run, call `on_answer` first."""
    if run.ended is not None and on_answer is not None:
        run.in_round = False
        yield on_answer(run.answer)
    if emit is not None:
        for part in parts:
            yield emit(part)


# -- approved calls


def _run_approved(run: Run, emit: Emit | None) -> Program:
    """Run the calls that the history approves, before the first model call. If a call is still pending, end the run."""
    if not run.options.get("resolve_tools", True):
        return
    rendering = run.rendering if unpaired_calls(run.history) else None  # otherwise no call is pending
    setup = yield from _start_step(run, None if rendering is None else rendering.render_approved)
    if setup is LATE:
        run.exceed("seconds")
        return
    prepared = prepare(run.history, setup.toolkit, run.options, is_hidden=run.plan.is_hidden)
    if isinstance(prepared, AiError):
        yield fail(prepared)
        return
    resolution = msgspec.structs.replace(prepared[1], keeper=run.keeping)
    noted = run.on_resolved
    resolving = resolve_approvals(
        run.history, resolution, None if noted is None else lambda history: noted(history, run.state)
    )
    if resolving is None:
        return
    results: list[ToolResult] = []
    resolved = resolving(emit if run.deadline is None else _note_results(results, emit))
    done = yield run.cut(resolved if setup.handlers is None else resolved.provide(setup.handlers))
    if done is not LATE:
        run.record_approved(done)
        return
    run.record_approved(_cut_short(run.history, results))
    for result in run.early:
        if emit is not None and result not in results:
            yield emit(result)


def _note_results(results: list[ToolResult], emit: Emit | None) -> Emit:
    def note(part: StreamPart) -> EffectOf[None]:
        if part.type == "tool-result" and not part.preliminary:
            results.append(part)
        return Succeed(None) if emit is None else emit(part)

    return note


def _cut_short(history: Prompt, results: list[ToolResult]) -> ResolvedHistory:
    """Return the history after a timeout, with an interrupted result for each approved call that did not finish."""
    approvals = read_approvals(history)
    known = {result.id: result for result in results}
    calls = [one.call for one in approvals.answered]
    open_ = [ToolCall(call.id, call.name, call.params, dynamic=call.dynamic) for call in calls if call.id not in known]
    known.update({result.id: result for result in interrupt_calls(open_, TIME_IS_UP)})
    every = tuple([known[call.id] for call in calls])
    whole = history.with_response(every)
    return ResolvedHistory(whole, Prompt(without_requests(whole, approvals)), every, approvals.waiting)


# -- one step: request and round


@final
class StepRequest(msgspec.Struct, frozen=True, eq=False):
    """The request of a step, and the settings for its tool calls."""

    request: ModelRequest
    resolution: Resolution
    resolves: bool = True
    """True if the round executes the tool calls from the model."""
    model: LanguageModel | None = None
    """The model of the step, or None to fetch the model in the context."""
    handlers: AnyLayer | None = None
    """Handlers for this step only."""
    is_changed: bool = False
    """True if a hook changed the messages."""


def _ask(run: Run, step: StepRequest, model: LanguageModel, emit: Emit | None) -> Program:
    """Run the round of a step. The round is incomplete if the time limit passed."""
    has_limits = run.deadline is not None or run.plan.budget.calls is not None
    limits = RoundLimits(run.cut, run.refuse) if has_limits else None
    request, handlers = step.request, step.handlers
    rendered_from = None if run.rendering is None or step.is_changed else run.shown
    found = run.growth.send(request, model, rendered_from)
    resolution = step.resolution if found is None else step.resolution.with_break(found)
    location = "last" if run.is_last else str(len(run.steps) + 1)
    return take_turn(
        model,
        request,
        resolution,
        emit,
        resolves=step.resolves,
        handlers=handlers,
        limits=limits,
        around=run.around,
        location=location,
    )


def _reserve(run: Run, step: StepRequest) -> Generator[AnyEffect, Any, bool]:
    """Return True if the budget allows the input and the longest answer of a request. Otherwise, apply `at_limit`.

    One more request without tools follows, or the run ends.
    """
    if run.is_last:
        return True
    request, number = step.request, len(run.steps) + 1
    meter = Meter(step.model or (yield _MODEL), request.tools)
    counting: AnyEffect = Generate(_count_input, (run, meter, request), {})
    if run.around is not None:
        counting = run.around.work(WorkInfo(f"count {number}", int, int), counting)
    given = yield run.cut(counting)
    exceeded = None if given is LATE else run.reserve(given, request.max_tokens or 0)
    if exceeded is not None:
        run.exceed(exceeded)
    return exceeded is None


def _count_input(run: Run, meter: Meter, request: ModelRequest) -> Program:
    """Return the number of input tokens, or only its maximum if the budget allows the maximum."""
    most = meter.most(request.prompt)
    if most < inf and run.reserve(int(most), request.max_tokens or 0) is None:
        return int(most)
    return (yield from meter.tokens(request.prompt, "model"))


def _start_step(run: Run, render: Callable[[StepSetup], AnyEffect] | None) -> Program:
    """Return the rendered setup of the next step, with the current tools and the handlers that they include.

    Return `LATE` if the time limit passed.
    """
    toolkit, handlers = run.plan.toolkit, None
    if run.plan.tools_now is not None:
        bound = yield run.cut(run.plan.tools_now)
        if bound is LATE:
            return LATE
        toolkit, handlers = bound.toolkit, bound.layer
        toolkit = toolkit if run.keeping is None else run.keeping.with_reader(toolkit)
    if run.searching is not None:
        toolkit, own = run.searching.offer(toolkit, run.history, run.options), run.searching.handlers
        handlers = own if handlers is None else handlers if own is None else handlers | own
    number, steps = len(run.steps) + 1, Steps(run.steps)
    options: RoundOptions = {**run.options}  # runs share the options, and a hook can change a dictionary
    setup = StepSetup(number, steps, run.shown, toolkit, options, handlers=handlers)
    return setup if render is None else (yield run.cut(render(setup)))


def _prepare(run: Run) -> Program:
    """Build the request of the next step from the current tools, the stateful prompt, and the hooks.

    Return None if the time limit passed.
    """
    run.in_round = False
    setup = yield from _start_step(run, None if run.rendering is None else run.rendering.prepare)
    if setup is LATE:
        return None
    planned = _plan(run, setup)
    setup = given = setup if planned is None else msgspec.structs.replace(setup, messages=planned.messages)
    for at, prepare_step in enumerate(run.plan.prepare_step):
        setup = yield from prepare_by(run, at, prepare_step, setup)
        if setup is LATE:
            return None
    is_changed = setup.messages is not given.messages
    if planned is not None:
        setup = _append(run, planned, given, setup)
    model = None
    if setup.model is not None:
        models: HeldModels = yield _hold_models(run)
        model = models.model_of(setup.model)
    run.in_round = True
    if is_changed:
        yield from _check_pairs(run, setup.messages)
    run.asked = setup
    step = _request(run, setup.messages, setup.toolkit, setup.options)
    if isinstance(step, AiError):
        return step
    return msgspec.structs.replace(step, model=model or step.model, handlers=setup.handlers, is_changed=is_changed)


def _plan(run: Run, setup: StepSetup) -> Plan | None:
    """Return the request of a step with appended changes, or None if the changes have their usual position."""
    if run.appending is None:
        return None
    return run.appending.plan(run.shown, setup.toolkit, NO_CHANGE if run.rendering is None else run.rendering.shown)


def _append(run: Run, planned: Plan, given: StepSetup, setup: StepSetup) -> StepSetup:
    """Append the changes of a step after its hooks, because hooks can change its tools and messages."""
    if setup.messages is given.messages and setup.toolkit is not given.toolkit:
        planned = _plan(run, setup) or planned
        setup = msgspec.structs.replace(setup, messages=planned.messages)
    if find_message_break(planned.messages, setup.messages) is None:
        run.append(planned)
    run.declared = planned.tools
    return setup


def _request(run: Run, messages: Prompt, toolkit: AnyToolkit, options: RoundOptions) -> StepRequest | AiError:
    if run.plan.compaction is not None and run.plan.compaction.compact_at is not None:
        options = {"compact_at": run.plan.compaction.compact_at, **options}
    if run.is_last:
        options = {**options, "tool_choice": "none"}
    prepared = prepare(messages, toolkit, options, is_hidden=run.plan.is_hidden)
    if isinstance(prepared, AiError):
        return prepared
    request, resolution = prepared
    if run.declared is not None:
        request = msgspec.structs.replace(request, tools=run.declared)
    if run.plan.output is not None:
        request = request.answered_as(run.plan.output)
    if run.keeping is not None:
        resolution = msgspec.structs.replace(resolution, keeper=run.keeping)
    return StepRequest(request, resolution, options.get("resolve_tools", True), run.model)


def _hold_models(run: Run) -> EffectOf[HeldModels, Any, Any]:
    """Return the models of individual steps. The scope of the run closes them."""
    if run.models is not None:
        return Succeed(run.models)

    def keep(models: HeldModels) -> HeldModels:
        run.models = models
        return models

    return run.scope.around(hold()).map(keep)


def _check_pairs(run: Run, messages: Prompt) -> Program:
    """Fail if a hook separated a tool call from its result."""
    split = set(unpaired_calls(messages))
    split = split and split.difference(unpaired_calls(run.shown))  # ignore pairs that the caller had already split
    if split:
        description = (
            "prepare_step separated a call from its result, which must follow it directly: "
            f"{', '.join(sorted(split))}. Keep both or remove both."
        )
        yield fail(AiError("Agent", "prepare_step", InvalidUserInputError(description)))
