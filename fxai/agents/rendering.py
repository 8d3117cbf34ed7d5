"""Renderings: prepare each step of a run with a stateful prompt. The agent loop uses this module.

Before each step, fxai renders the prompt with the current state and then runs its effects in order. It combines the
definitions of the render with the patches of the effects. The results are the tools of the step with the handlers of
this render, the system prompt, and the messages around the conversation. The conversation itself stays unchanged.

fxai builds the layers of toolkits and the state of aspects when a render first defines them. It releases them when a
render no longer defines them, or at the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from inspect import iscoroutine
from threading import get_ident
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.agents.answer import RenderFailed, StepRecord, Surrounded
from fxai.agents.change import NOTHING, Shown
from fxai.agents.render import Definitions, RenderEffect, RenderOf, StepView
from fxai.agents.run_options import StepSetup
from fxai.agents.section import SectionWriter, reference_to
from fxai.agents.state import Asked, Cell, PromptState, RenderError, StateStore, call_key, same_deps
from fxai.agents.step_patch import Definition, StepPatch, decode_patch, encode_patch
from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.constructor import gen, is_plain_awaitable, lift_any
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Ask, AwaitValue, Generate, Succeed
from fxai.effects.layer import AnyLayer, MemoMap, build_layer, layer_from_context
from fxai.effects.scope import Scope
from fxai.messages.calls import Pending, pending_in
from fxai.messages.message import Message, TextPart, UserMessage
from fxai.messages.part import PrefixBreak
from fxai.messages.prompt import Prompt
from fxai.models.cut import Compacted
from fxai.models.interceptor import Interceptor, WorkInfo, interceptor_of
from fxai.tools.aspects.aspect import Aspect, Wrapping
from fxai.tools.handler import handler_of
from fxai.tools.identity import Identity, ToolConflictError
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import AnyBound, AnyToolkit, Toolkit

_Steps: TypeAlias = Generator[AnyEffect, Any, Any]

_TOOLKITS: Final = 16  # number of recent toolkits to cache
_NO_PATCH: Final = StepPatch[Any]()
_DONE: Final = Succeeded(None)


@final
class RenderPlan(msgspec.Struct, frozen=True):
    """The settings for the renders of a run."""

    name: str
    """The name of the prompt."""
    f: Callable[[Any], object]
    """The function that defines a step on a `Render`."""
    state: PromptState | None = None
    """The initial state for the run, or None for the initial values."""
    aside: frozenset[str] = frozenset()
    """The pending calls of other turns by `call_key`. The run does not change them."""

    def start(self, scope: Scope) -> Rendering:
        """Return the renders of a new run, which ends when `scope` closes."""
        return Rendering(self, scope)


def define_step(f: Callable[[Any], object], number: int, store: StateStore, seen: dict[str, Cell]) -> Definitions:
    """Return the definitions of `f` for the step with this number, with the state that it reads.

    Raises:
        RenderError: If the render is invalid.
    """
    at: RenderOf[Any, Any] = RenderOf(number, store, seen)
    store.renderer = get_ident()
    try:
        given = f(at)
    finally:
        store.renderer = None
        at.close()
    if given is not None:
        if iscoroutine(given):
            given.close()
        why = f"a render must return None, got {given!r}"
        raise RenderError("unsettled", f"{why}. Define everything on the Render, without await.")
    return at.definitions


@final
class Rendering:
    """The renders of a run, which ends when `scope` closes."""

    def __init__(self, plan: RenderPlan, scope: Scope) -> None:
        self._plan = plan
        self._store = StateStore(plan.state)
        self._handlers = _Handlers(scope)
        self._conversation = _Conversation()
        self._toolkits = _Toolkits()
        self._writer = SectionWriter()
        self.shown: Shown = NOTHING
        """The definitions for the step that fxai prepared last."""
        self.appends: bool = False
        """True if the run appends changes to the conversation. False if it rewrites the start of the request."""
        self._number = 0  # number of the current step
        self._asked: Asked | None = None  # the state that the last requested step read
        self._patches: tuple[tuple[str, StepPatch[Any]], ...] = ()
        scope.add(self._end)

    # -- a step

    @gen
    def prepare(self, setup: StepSetup) -> _Steps:
        """Return the setup of a step after the render: its tools, their handlers, and its messages."""
        before = dict(self._store.cells)
        definitions, patch = self._render(setup.number, before), _NO_PATCH
        shown = self._show(definitions, setup.toolkit.tools)
        self._patches = ()
        if definitions.effects or self._store.effects:  # also to forget effects that this render does not define
            patch = yield from self._run_effects(definitions, setup, shown.front)
        final = definitions if patch == _NO_PATCH else definitions.with_patch(patch)
        toolkit = self._toolkits.of(setup.toolkit, final, patch.hidden)
        both = [name for name in final.sections if name in toolkit]
        if both:  # a reference to the tool could open the section
            raise RenderError(
                "conflict", f"section {both[0]!r} has the name of a tool of the agent. Rename the section."
            )
        handlers = yield from self._handlers.of(final, definitions, setup.handlers)
        if final is not definitions:
            shown = self._show(final, (*definitions.tools, *toolkit.tools))
        behind = (*patch.messages, *_reminder(patch.reminders, final, toolkit))
        self.shown = msgspec.structs.replace(shown, behind=behind)
        messages = setup.messages
        if not self.appends:
            messages = self._conversation.show(messages, shown.front, behind)
        self._asked = Asked(setup.number, before)
        return msgspec.structs.replace(setup, messages=messages, toolkit=toolkit, handlers=handlers)

    def _render(self, number: int, seen: dict[str, Cell]) -> Definitions:
        self._number = number
        return define_step(self._plan.f, number, self._store, seen)

    def _show(self, definitions: Definitions, tools: Iterable[str]) -> Shown:
        """Return the definitions to show. Their text can refer to their own tools and to `tools`."""
        messages = tuple(definitions.messages)
        if not definitions.sections:
            return Shown({}, messages)
        references = frozenset(map(reference_to, (*definitions.tools, *tools)))
        return Shown(self._writer.texts(definitions.sections.values(), references), messages)

    def _run_effects(
        self, definitions: Definitions, setup: StepSetup, front: tuple[Message, ...]
    ) -> Generator[AnyEffect, Any, StepPatch[Any]]:
        """Run the effects whose dependencies changed, and return the sum of their patches."""
        tools = tuple(dict.fromkeys((*setup.toolkit.tools, *definitions.tools)))
        shown = Surrounded(setup.messages, front)
        view = StepView(setup.number, setup.steps, shown, tools, tuple(definitions.sections))
        around: Interceptor | None = yield Ask(interceptor_of)
        patches: list[tuple[str, StepPatch[Any]]] = []
        ran = self._store.effects
        for key in ran.keys() - definitions.effects.keys():
            del ran[key]
        for effect in definitions.effects.values():
            if effect.deps is not None and effect.key in ran and same_deps(ran[effect.key], effect.deps):
                continue
            running: AnyEffect = Generate(_run_effect, (effect, view), {})
            if around is not None:
                about = WorkInfo(f"effect {setup.number}/{effect.key}", encode_patch, decode_patch)
                running = around.work(about, running)
            patch: StepPatch[Any] | None = yield running
            if effect.deps is not None:
                ran[effect.key] = effect.deps
            if patch is not None:
                patches.append((effect.key, patch))
        self._patches = tuple(patches)
        return sum((patch for _, patch in patches), StepPatch[Any]())

    def forget(self) -> None:
        """Read the next conversation completely, because a compaction changed its earlier messages."""
        self._conversation = _Conversation()

    def record(
        self, toolkit: AnyToolkit, messages: Prompt, prefix_break: PrefixBreak | None, compacted: Compacted | None
    ) -> StepRecord:
        """Return the record of the step that has just ended, with its tools and messages after the hooks."""
        before = PromptState({} if self._asked is None else self._asked.cells)
        shown = self._conversation.compact(messages)
        after = self._store.snapshot()
        return StepRecord(tuple(toolkit.tools), shown, self._patches, before, after, prefix_break, compacted)

    # -- approved calls

    @gen
    def render_approved(self, setup: StepSetup) -> _Steps:
        """Return the setup for approved calls, with the tools and handlers of the step that made these calls.

        fxai renders this step again with its state, but does not run its effects.
        """
        here = (one for one in self._pending if not self._plan.aside.issuperset(one.calls))
        asked = next(here, None) or Asked(1, self._store.cells)
        definitions = self._render(asked.number, dict(asked.cells))
        toolkit = self._toolkits.of(setup.toolkit, definitions, frozenset())
        handlers = yield from self._handlers.of(definitions, definitions, setup.handlers)
        return msgspec.structs.replace(setup, toolkit=toolkit, handlers=handlers)

    # -- the state

    @property
    def _pending(self) -> tuple[Asked, ...]:
        return () if self._plan.state is None else self._plan.state.pending

    def state(self, history: Prompt) -> PromptState:
        """Return the current state, with the states that the steps of unfinished calls in the history read."""
        calls = dict.fromkeys(map(call_key, _open_calls(history)))
        pending: list[Asked] = []
        for one in self._pending:
            still = tuple([key for key in one.calls if key in calls or key in self._plan.aside])
            pending += [msgspec.structs.replace(one, calls=still)] if still else []
        known = {key for one in pending for key in one.calls}
        own = tuple([key for key in calls if key not in known])
        if own and self._asked is not None:
            pending.append(msgspec.structs.replace(self._asked, calls=own))
        return self._store.snapshot(tuple(pending))

    def explain(self, cause: Cause[Any], history: Prompt) -> Cause[Any]:
        """Return the cause with a typed failure instead of a `RenderError`."""

        def explain(reason: Any) -> Any:
            error = reason.defect if isinstance(reason, Die) else None
            if not isinstance(error, RenderError):
                return reason
            state = self.state(history)
            return Fail(RenderFailed(self._plan.name, self._number, error.reason, str(error), history, state))

        return Cause(tuple(map(explain, cause.reasons)))

    def add_state(self, context: AnyContext) -> AnyContext:
        """Return the context with the state, for interceptors around the calls of the run."""
        return context.put(StateStore, self._store)

    def _end(self, _: Exit[Any, Any]) -> AnyEffect:
        self._store.is_over = True
        return Succeed(None)


def _run_effect(effect: RenderEffect, view: StepView) -> Generator[AnyEffect, Any, StepPatch[Any] | None]:
    given: Any = effect.f(view)
    if is_plain_awaitable(given):
        waiting = given
        given = yield AwaitValue(lambda: waiting)
    if not (given is None or isinstance(given, StepPatch)):
        lifted = lift_any(given)
        if lifted is not None:
            given = yield lifted
    if given is None or isinstance(given, StepPatch):
        return None if given is None else cast(Any, given)
    advice = "Return a StepPatch, None, or an effect that succeeds with one of these"
    raise TypeError(f"effect {effect.key!r} of a stateful prompt returned {given!r}. {advice}.")


def _open_calls(history: Prompt) -> tuple[Pending, ...]:
    """Return the calls in the last turn without a result, including approved calls that a failed run did not start."""
    turn: list[Message] = []
    while len(turn) < len(history) and not (turn and turn[-1].role == "assistant"):
        turn.append(history[-1 - len(turn)])
    contents = (message.content for message in reversed(turn) if message.role != "system")
    return pending_in(part for content in contents for part in content if part.type != "tool-approval-response")


def _reminder(reminders: Iterable[Definition], final: Definitions, toolkit: AnyToolkit) -> tuple[Message, ...]:
    """Return the message that reminds the model of definitions, or no message if the step has none of them."""
    there = [one for one in dict.fromkeys(reminders) if one.name in toolkit or one.name in final.sections]
    if not there:
        return ()
    listed = "\n".join(f"- {one} ({one.kind})" for one in there)
    return (UserMessage((TextPart(f"<reminder>\nRemember to use, in your next answer:\n{listed}\n</reminder>"),)),)


# -- data that the steps of a run share


@final
class _Toolkits(msgspec.Struct, eq=False):
    """The toolkits of the last steps. Equal tools share the same toolkit, so that fxai prepares a request only once."""

    _made: dict[tuple[object, ...], tuple[AnyToolkit, list[AnyTool], AnyToolkit]] = {}

    def of(self, own: AnyToolkit, definitions: Definitions, hidden: frozenset[str]) -> AnyToolkit:
        """Return the tools of a step: first the tools of the agent, then the tools of the render, without hidden tools.

        Raises:
            RenderError: If the agent has a different tool with the same name.
        """
        tools = [one.tool for one in definitions.tools.values()]
        key = (id(own), hidden, *map(id, tools))
        known = self._made.get(key)
        if known is not None:
            return known[2]
        try:
            made = own.merge(Toolkit.of(tools))
        except ToolConflictError as error:
            raise RenderError(
                "conflict", f"the render defines a tool with the name of a different tool of the agent: {error}"
            ) from None
        made = made.omit(*[name for name in hidden if name in made])
        while len(self._made) >= _TOOLKITS:
            del self._made[next(iter(self._made))]
        self._made[key] = (own, tools, made)
        return made


@final
class _Conversation(msgspec.Struct, eq=False):
    """The conversation in requests. If only its end is new, fxai appends the end to the previous messages."""

    _last: Surrounded = Surrounded(Prompt.empty, ())
    _shown: Prompt = Prompt.empty  # without the messages after the conversation
    _whole: Prompt = Prompt.empty  # with the messages after the conversation

    def show(self, conversation: Prompt, front: tuple[Message, ...], behind: tuple[Message, ...]) -> Prompt:
        """Return the conversation with `front` after its system messages, and with `behind` at its end."""
        before = self._last.conversation
        count = len(before)
        grows = 0 < count <= len(conversation) and conversation[count - 1] is before[count - 1]
        if grows and front == self._last.front:
            self._shown = self._shown.extend([conversation[at] for at in range(count, len(conversation))])
            front = self._last.front
        else:
            self._shown = Surrounded(conversation, front).messages
        self._last = Surrounded(conversation, front, behind)
        self._whole = self._shown.extend(behind)
        return self._whole

    def compact(self, messages: Prompt) -> Prompt | Surrounded:
        """Return messages for a record: shared with the last request if equal, otherwise complete."""
        return self._last if messages is self._whole else messages


@final
class _Held(msgspec.Struct, frozen=True, eq=False):
    """The services of a toolkit's handlers after the build, and their scope."""

    origin: AnyBound
    services: AnyContext
    scope: Scope
    token: object
    """The token that removes the scope from the scope of the run."""


@final
class _Handlers(msgspec.Struct, eq=False):
    """The handlers of the steps of a run, with the layers and aspects that exist longer than a step."""

    _scope: Scope
    _held: dict[str, _Held] = {}  # by the tool names
    _begun: dict[str, tuple[Aspect[Any], Wrapping]] = {}  # aspects and their states, by the tool names

    def of(
        self, final: Definitions, defined: Definitions, around: AnyLayer | None
    ) -> Generator[AnyEffect, Any, AnyLayer | None]:
        """Return the layer for a step's handlers, combined with the layer `around`.

        Layers and aspects that the render has `defined` continue to exist, even if the step hides their tools. fxai
        releases the others.
        """
        tools, there = final.tools, defined.tools if final is defined else {**defined.tools, **final.tools}
        self._begun = {name: begun for name, begun in self._begun.items() if name in there}
        gone = [name for name, held in self._held.items() if name not in there or there[name].origin != held.origin]
        if gone:
            yield from self._release(gone)
        if not tools:
            return around
        services: dict[object, Any] = {}
        given: list[_Given] = []
        for one in tools.values():
            if one.origin is not None:
                held = self._held.get(one.name) or (yield from self._hold(one.name, one.origin))
                services.update(held.services.services)
            elif one.handler is not None:
                known = self._begun.get(one.name)
                if one.aspect is not None and (known is None or known[0] != one.aspect):
                    known = self._begun[one.name] = (one.aspect, one.aspect.start())
                wrapping = None if one.aspect is None or known is None else known[1]
                given.append((one.tool.identity, one.handler, wrapping))
        layer = layer_from_context(lambda context: _services(given, services, context))
        return layer if around is None else around | layer

    def _hold(self, name: str, origin: AnyBound) -> Generator[AnyEffect, Any, _Held]:
        for other in self._held.values():
            if other.origin == origin:
                self._held[name] = other
                return other
        scope = Scope()
        token = self._scope.add(scope.close)
        memo = yield Ask(MemoMap.of)
        services = yield build_layer(origin.layer, memo, scope)
        held = self._held[name] = _Held(origin, services, scope, token)
        return held

    def _release(self, names: list[str]) -> _Steps:
        released = [self._held.pop(name) for name in names]
        left = {id(held) for held in self._held.values()}
        for held in {id(held): held for held in released if id(held) not in left}.values():
            self._scope.remove(held.token)
            yield held.scope.close(_DONE)


_Given: TypeAlias = "tuple[Identity, Callable[..., Any], Wrapping | None]"
"""The identity of a tool, its handler in the render, and the aspect around the handler."""


def _services(given: list[_Given], built: dict[object, Any], around: AnyContext) -> AnyContext:
    """Return the handlers of a step, with the services in the context when its calls run."""
    services = dict(built)
    for identity, f, wrapping in given:
        handler = handler_of(f, around)
        if wrapping is None:
            services[identity] = handler
        else:
            services.update(wrapping(ContextOf({identity: handler}), around).services)
    return ContextOf(services)
