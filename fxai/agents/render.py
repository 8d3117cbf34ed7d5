"""Renders: what a stateful prompt defines for one step, by a function that is called anew before each.

The function is given a `Render`, and defines on it the tools of the step with their handlers, the sections of its
system prompt, messages, and effects. It is pure: what it defines is what the step has, so what it does not define again
is gone. Defining the same thing twice is once; two different things under one key are an error that names both.

Its annotation is its type: with `at: Render[Orders]` handlers and effects may need `Orders`, and nothing else.

>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> search = Tool.make("search", parameters=str, success=int)
>>> at = RenderOf(1, StateStore(), {})
>>> look = at.tool(search, lambda words: Success(len(words)))
>>> role = at.system("role", f"Use {look} first.")
>>> at.definitions.tools["search"].tool is search, at.definitions.sections["role"].value
(True, 'Use <search> first.')
>>> at.system("role", "Be brief.")
Traceback (most recent call last):
fxai.agents.state.RenderError: two things are called 'role': ...
"""

# The type variables of methods are those of `self`, and of what an effect needs and fails with by default.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, Final, Generic, Never, TypeAlias, cast, final, overload

import msgspec
from typing_extensions import TypeAliasType, TypeForm, TypeVar, Unpack, override

from fxai.agents.answer import Step, Steps
from fxai.agents.run_tools import Offered
from fxai.agents.section import Section
from fxai.agents.state import Cell, RenderError, State, StateStore
from fxai.agents.step_patch import (
    Definition,
    StepPatch,
    ToolDefinition,
    define_message,
    define_tool,
    define_tools,
)
from fxai.agents.step_record import Surrounded
from fxai.agents.sub_agent import Callee, SubAgent, sub_agent_of
from fxai.effects.effect import EffectOf
from fxai.effects.mistake import PlainAwaitable
from fxai.messages.message import Message
from fxai.messages.part import ToolCall, ToolResult
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.language_model import LanguageModel
from fxai.schema.codec import Schema
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.composite import composite_of
from fxai.tools.handler import HandlerReturn
from fxai.tools.tool import Tool
from fxai.tools.tool_options import CallContext, ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_T = TypeVar("_T")
_R = TypeVar("_R", default=None)
_E = TypeVar("_E", default=Never)
_R_contra = TypeVar("_R_contra", contravariant=True, default=None)
_E_contra = TypeVar("_E_contra", contravariant=True, default=Never)

MOST_DEFINITIONS: Final = 10_000
"""How many things a render may define; one that defines more would not come to an end."""


# -- what an effect sees


@final
class StepView(msgspec.Struct, frozen=True, eq=False):
    """What an effect of a prompt sees: the step that is about to be asked, and those before it."""

    number: int
    """Which step, from 1."""
    steps: Steps
    """The steps before it."""
    shown: Surrounded
    """What `messages` are put together of."""
    tools: tuple[str, ...]
    """The names of its tools, before patches."""
    sections: tuple[str, ...]
    """The names of its systems and data, before patches."""

    @property
    def messages(self) -> Prompt:
        """The messages that the model is about to be shown, before patches: also what the render says."""
        return self.shown.messages

    @property
    def last(self) -> Step | None:
        """The step before; None at first."""
        return self.steps[-1] if len(self.steps) else None

    @property
    def last_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the step before, in order; none at first."""
        return () if self.last is None else self.last.calls

    @property
    def last_results(self) -> tuple[ToolResult, ...]:
        """The results of the step before, in the order of its calls; none at first."""
        return () if self.last is None else self.last.results

    def has(self, name: str) -> bool:
        """Whether a tool or a section of that name is there, before patches."""
        return name in self.tools or name in self.sections


EffectReturn = TypeAliasType(
    "EffectReturn",
    StepPatch[_R]
    | EffectOf[StepPatch[_R] | None, _E, _R]
    | Generator[EffectOf[Any, _E, _R], object, StepPatch[_R] | None]
    | PlainAwaitable[StepPatch[_R] | None]
    | PlainAwaitable[EffectOf[StepPatch[_R] | None, _E, _R]]
    | None,
    type_params=(_R, _E),
)
"""What an effect may give: a patch for the step that is about to be asked, None, or an effect of these."""


# -- what is defined


@final
class RenderEffect(msgspec.Struct, frozen=True):
    """An effect of a render, which is run before the model is asked."""

    key: str
    f: Callable[[StepView], Any]
    deps: tuple[Hashable, ...] | None = None
    """It runs when these have changed; None: each step."""

    @override
    def __hash__(self) -> int:
        return hash(self.key)


_Named: TypeAlias = ToolDefinition | Section


@final
class Definitions:
    """What one step has, each thing by its key: a key is one thing."""

    __slots__ = ("effects", "messages", "sections", "tools")

    def __init__(self) -> None:
        self.tools: dict[str, ToolDefinition] = {}
        self.sections: dict[str, Section] = {}
        self.messages: list[Message] = []
        self.effects: dict[str, RenderEffect] = {}

    def add(self, one: _Named) -> Definition:
        """Adds a tool or a section, unless it is there.

        Raises:
            RenderError: another one of that name is there.
        """
        name = one.name
        there: _Named | None = self.tools.get(name) or self.sections.get(name)
        if there is None:
            if isinstance(one, Section):
                self.sections[name] = one
            else:
                self.tools[name] = one
        elif not _is_same(there, one):
            kinds = f"{_describe(there)} and {_describe(one)}"
            remedy = "define one thing once, or call them differently"
            raise RenderError("conflict", f"two things are called {name!r}: {kinds}; {remedy}")
        return Definition(one.kind, name)

    def add_effect(self, effect: RenderEffect) -> None:
        """Adds an effect behind the others, unless it is there.

        Raises:
            RenderError: another one of that key is there.
        """
        there = self.effects.setdefault(effect.key, effect)
        if there != effect:
            both = f"{there.f!r} with deps {there.deps!r}, and {effect.f!r} with deps {effect.deps!r}"
            raise RenderError("conflict", f"two effects have the key {effect.key!r}: {both}; give each its own")

    def with_patch(self, patch: StepPatch[Any]) -> Definitions:
        """What the step has with a patch: what that adds, without what it hides.

        Raises:
            RenderError: it adds another thing under a name that is there.
        """
        patched = Definitions()
        patched.tools, patched.sections = dict(self.tools), dict(self.sections)
        patched.messages, patched.effects = self.messages, self.effects
        added: tuple[_Named, ...] = (*patch.tool_definitions, *patch.sections)
        for one in added:
            _ = patched.add(one)
        for name in patch.hidden:
            _ = patched.tools.pop(name, None) or patched.sections.pop(name, None)
        return patched


def _is_same(there: _Named, one: _Named) -> bool:
    """Whether two things of one name are one: sections that the model would read alike, or equal tools."""
    if isinstance(there, Section) and isinstance(one, Section):
        return there.kind == one.kind and there.text() == one.text()  # 1 and True are equal, and not the same
    return there == one


def _check_key(key: object, what: str) -> None:
    """Raises `RenderError` unless a key is text that JSON can hold."""
    try:
        is_text = isinstance(key, str) and bool(key.isascii() or key.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise RenderError("value", f"the key of {what} is text, not {key!a}")


def _describe(one: _Named) -> str:
    if isinstance(one, Section):
        shown = repr(one.value)
        return f"the {one.kind} {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}…'}"
    by = "with a handler from elsewhere" if one.handler is None else f"with the handler {one.handler!r}"
    around = "" if one.aspect is None else " and an aspect"
    return f"a tool {by}{around}"


_SHOWN: Final = 60  # characters of a value


# -- the render


@final
class RenderOf(Generic[_R_contra, _E_contra]):
    """What a stateful prompt defines a step on; `Render[R, E]` is how annotations write it.

    `R` is what services handlers and effects may need (a union that always holds `None`), `E` what effects may fail
    with. Tools, systems and data share one set of names; states have one of their own, and effects another.
    """

    __slots__ = ("_count", "_is_over", "_seen", "_states", "_store", "definitions", "number")

    number: int
    """The number of the step that is about to be asked, from 1."""
    definitions: Definitions
    """What is defined so far."""

    def __init__(self, number: int, store: StateStore, seen: dict[str, Cell]) -> None:
        self.number = number
        self.definitions = Definitions()
        self._store = store
        self._seen = seen
        self._states: dict[str, tuple[Any, Any]] = {}
        self._count = 0  # of definitions
        self._is_over = False

    def close(self) -> None:
        """The render is over: nothing can be defined any more."""
        self._is_over = True

    def _open(self, what: str, key: str | None = None) -> Definitions:
        """What is defined so far, as one thing more is defined by the method `what`."""
        if self._is_over:
            call = f"at.{what}(…)" if key is None else f"at.{what}({key!r}, …)"
            why = "defines nothing when the render is over, in an effect or a handler"
            raise RenderError(
                "late", f"{call} {why}: define it in the render, or give StepPatch.{{hide,tool,system,…}} of an effect"
            )
        self._count += 1
        if self._count > MOST_DEFINITIONS:
            why = f"it defines more than {MOST_DEFINITIONS:,} things"
            raise RenderError("unsettled", f"the render does not come to an end: {why}")
        return self.definitions

    @overload
    def state(self, key: str, initial: _T, *, schema: type[_T] | Schema[_T] | None = None) -> State[_T]: ...
    @overload
    def state(self, key: str, initial: object, *, schema: TypeForm[_T]) -> State[_T]: ...
    def state(self, key: str, initial: Any, *, schema: Any = None) -> State[Any]:
        """A key of the state, with the value that it had when this render began.

        Args:
            key: which; what no render defines any more is kept nevertheless.
            initial: its value in a run that begins with none. Of what can be changed in its place, arrays and objects
                alone are frozen: give structs that are frozen themselves, and no sets.
            schema: its type, by which it is written as JSON and read; by default that of `initial`. Give it where
                `initial` does not say all: `()`, `None`, a union (`str | None`), a tuple of any length
                (`tuple[str, ...]`). A `Schema` lets checkers refuse an initial value of another type, too.

        Raises:
            RenderError: it has another type than in a render before, what was read from JSON does not fit, it is
                declared twice in different ways, the key is no text, or `initial` is none of its schema.
        """
        _ = self._open("state", key)
        _check_key(key, "a state")
        there = self._states.setdefault(key, (initial, schema))
        if there != (initial, schema):
            both = f"{there[0]!r} and {initial!r} at first"
            raise RenderError("conflict", f"two states have the key {key!r}: {both}; give each a key of its own")
        return State(key, self._store.declare(key, initial, schema, self._seen), self._store)

    def system(self, key: str, text: str) -> Definition:
        """A section of the system prompt; sections stand in the order in which they are defined.

        Its text cannot close a section, nor open another: `<` is escaped, but in references to tools.

        Raises:
            RenderError: no section can be called so, or another thing is.
        """
        return self._open("system", key).add(Section("system", key, text).check())

    def data(self, key: str, value: Any) -> Definition:
        """Data in the system prompt, behind all systems: a string as text, anything else as YAML.

        Nothing in it can close its section, nor open another.

        Args:
            key: the name of its section.
            value: what JSON can hold, structs and what else msgspec takes among it.

        Raises:
            RenderError: no section can be called so, or another thing is.
        """
        return self._open("data", key).add(Section("data", key, value).check())

    def message(self, content: str | Message) -> None:
        """A message in front of the conversation, behind the system prompt; a string is one of the user.

        Raises:
            RenderError: it is no message, or one of calls or results.
        """
        self._open("message").messages.append(define_message(content))

    @overload
    def tool(
        self,
        tool: Tool[_P, _S, _F],
        handler: Callable[[_P], HandlerReturn[_S, _F, _R_contra | None]],
        /,
        *,
        aspect: Aspect[_R_contra | None] | None = ...,
    ) -> Definition: ...
    @overload
    def tool(
        self,
        tool: Tool[_P, _S, _F],
        handler: Callable[[_P, CallContext], HandlerReturn[_S, _F, _R_contra | None]],
        /,
        *,
        aspect: Aspect[_R_contra | None] | None = ...,
    ) -> Definition: ...
    def tool(self, tool: Any, handler: Any, /, *, aspect: Any = None) -> Definition:
        """A tool with its handler, which answers the calls of this step.

        Args:
            tool: the tool.
            handler: takes the parameters, and the `CallContext` if it takes two arguments; returns any form of
                `HandlerReturn`. It sees the values of this render.
            aspect: what happens around it. One with a state (a cache, a rate limit) keeps that for the run, where it is
                made outside of the render.

        Raises:
            RenderError: it is no tool that a handler answers, or another thing is called so.
        """
        return self._open("tool").add(define_tool(tool, handler, aspect))

    def tools(self, *origins: Offered[Never, _R_contra | None]) -> tuple[Definition, ...]:
        """Tools that bring their handlers, or need none here.

        Args:
            origins: function tools, bound toolkits, composites, sub-agents; tools that are answered elsewhere; tools
                and toolkits whose handlers are provided to the run.

        Raises:
            RenderError: something gives no tools, has to be opened first, or another thing is called so.
        """
        definitions = self._open("tools")
        return tuple([definitions.add(one) for one in define_tools(origins)])

    def composite(
        self,
        name: str,
        /,
        *tools: Offered[Never, _R_contra | None],
        concurrency: int | None = 1,
        **options: Unpack[ToolOptions],
    ) -> Definition:
        """Several tools as one, which makes several calls at once; see `Toolkit.as_tool`.

        Args:
            name: what the model calls it by.
            tools: the sub-tools, each with its handler, and what aspects are around that: function tools, or
                `BoundToolkit.of(Toolkit.make(read), aspect.wrap(read.handler(on_read)))`.
            concurrency: how many calls inside one call run at once; None: all of them.
            options: of the tool, see `ToolOptions`.

        Raises:
            RenderError: a sub-tool has no handler here, or another thing is called so.
            SchemaError: there are no sub-tools, or some of them are answered elsewhere.
        """
        definitions = self._open("composite", name)
        subtools = define_tools(tools)
        bound = BoundToolkit(Toolkit[Any].empty())
        for one in subtools:
            if one.origin is None:
                raise RenderError("value", f"the sub-tool {one.name!r} of {name!r} needs a handler that it brings")
            bound = bound.merge(one.origin)
        made = composite_of([one.tool for one in subtools], name, concurrency, options)
        layer = made.layer.provide(bound.layer)
        brings = BoundToolkit.of(Toolkit.of((made.tool,)), layer, origin=(made, bound))  # equal to one made alike
        return definitions.add(ToolDefinition(made.tool, origin=brings))

    @overload
    def agent(
        self,
        name: str,
        agent: Callee[_F, _R_contra | LanguageModel | None],
        /,
        **options: Unpack[ToolOptions],
    ) -> Definition: ...
    @overload
    def agent(
        self,
        name: str,
        agent: Callee[_F, _R_contra | LanguageModel | None],
        /,
        *,
        parameters: type[_P] | Schema[_P],
        prompt: Callable[[_P], PromptInput],
        **options: Unpack[ToolOptions[_P]],
    ) -> Definition: ...
    @overload
    def agent(
        self,
        name: str,
        agent: Callee[_F, _R_contra | LanguageModel | None],
        /,
        *,
        parameters: TypeForm[_P],
        prompt: Callable[[_P], PromptInput],
        **options: Unpack[ToolOptions[_P]],
    ) -> Definition: ...
    def agent(
        self, name: str, agent: Any, /, *, parameters: Any = None, prompt: Any = None, **options: Unpack[ToolOptions]
    ) -> Definition:
        """An agent, or another stateful prompt, as a tool: each call is a run of it, its answer the result.

        A prompt begins each of these runs with its initial state.

        Args:
            name: what the model calls it by.
            agent: the agent.
            parameters: the type of the tool's parameters; by default a `prompt`, which the agent is given.
            prompt: makes the prompt of such parameters.
            options: of the tool, see `ToolOptions`. A failure goes to the model, unless `failure_mode` says otherwise.

        Raises:
            RenderError: another thing is called so.
            SchemaError: `parameters` without `prompt`, or the other way round.
        """
        definitions = self._open("agent", name)
        made: SubAgent[Any, Any, Any] = sub_agent_of(agent, name, parameters, prompt, options)
        return definitions.add(ToolDefinition(made.tool, origin=made.bound))

    def effect(
        self,
        key: str,
        f: Callable[[StepView], EffectReturn[_R_contra | None, _E_contra]],
        deps: tuple[Hashable, ...] | None = None,
    ) -> None:
        """An effect, which is run after the render and before the model is asked; effects run in order.

        What it changes in the state shows in the next render.

        Args:
            key: what it is found by in the next render, wherever it stands there.
            f: sees the step; gives a patch for it, None, or an effect or a generator of effects that gives these.
            deps: it runs when these have changed since it last ran, compared by `==`. None: each step; `()`: once.
                One that a render does not define is forgotten.

        Raises:
            RenderError: another effect has that key, the key is no text, `f` is no function, or `deps` no tuple.
        """
        definitions = self._open("effect", key)
        _check_key(key, "an effect")
        if not callable(cast(object, f)):
            raise RenderError("value", f"the effect {key!r} is a function of the step, not {f!r}")
        if not isinstance(cast(object, deps), tuple | None):
            raise RenderError(
                "value", f"the deps of the effect {key!r} are a tuple, such as (mode.value,), not {deps!r}"
            )
        definitions.add_effect(RenderEffect(key, f, deps))


Render = TypeAliasType("Render", RenderOf[_R | None, _E], type_params=(_R, _E))
"""What a stateful prompt is rendered on: services `R` that its handlers and effects may need, failures `E` of these."""
