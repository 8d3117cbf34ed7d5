"""Renders: define the tools, sections, messages, and effects of a step. The function of a stateful prompt uses them.

fxai calls the function before each step with a new `Render`. The function must be pure. A step has only the definitions
of the latest render. If a render defines the same thing twice, it counts once. If two different things have the same
key, fxai raises an error that names both.

The annotation of the parameter declares its type. With `at: Render[Orders]`, handlers and effects can need only the
service `Orders`.

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
fxai.agents.state.RenderError: two definitions have the name 'role': ...
"""

# The type variables of methods are the variables of `self`, with defaults for the requirements and failures of effects.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, Final, Generic, Never, TypeAlias, cast, final, overload

import msgspec
from typing_extensions import TypeAliasType, TypeForm, TypeVar, Unpack

from fxai.agents.answer import Step, Steps, Surrounded
from fxai.agents.run_tools import Offered
from fxai.agents.section import Section
from fxai.agents.state import Cell, RenderError, State, StateStore
from fxai.agents.step_patch import (
    Definition,
    StepPatch,
    StepTool,
    define_message,
    define_tool,
    define_tools,
)
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
from fxai.tools.handler_types import HandlerReturn
from fxai.tools.tool import Tool
from fxai.tools.tool_info import CallContext
from fxai.tools.tool_options import ToolOptions
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
"""Maximum number of definitions in a render, because a render with an endless loop would never finish."""


# -- the view of an effect


@final
class StepView(msgspec.Struct, frozen=True, eq=False):
    """The view of an effect: the next step before its request, and the steps before it."""

    number: int
    """The number of the step, from 1."""
    steps: Steps
    """The earlier steps."""
    shown: Surrounded
    """The parts of `messages`."""
    tools: tuple[str, ...]
    """The names of its tools, before patches."""
    sections: tuple[str, ...]
    """The names of its system and data sections, before patches."""

    @property
    def messages(self) -> Prompt:
        """The messages of the next request, before patches. They include the messages of the render."""
        return self.shown.messages

    @property
    def last(self) -> Step | None:
        """The previous step, or None before the first step."""
        return self.steps[-1] if len(self.steps) else None

    @property
    def last_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the previous step."""
        return () if self.last is None else self.last.calls

    @property
    def last_results(self) -> tuple[ToolResult, ...]:
        """The results of the previous step, in the order of its calls."""
        return () if self.last is None else self.last.results

    def has(self, name: str) -> bool:
        """Return whether the step has a tool or a section with this name, before patches."""
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
"""The return value of an effect function: a patch for the next step, None, or an effect that succeeds with one."""


# -- definitions


@final
class RenderEffect(msgspec.Struct, frozen=True):
    """An effect of a render. fxai runs it before the request of the step."""

    key: str
    f: Callable[[StepView], Any]
    deps: tuple[Hashable, ...] | None = None
    """The effect runs if these values changed. If they are None, it runs in each step."""


_Named: TypeAlias = StepTool | Section


@final
class Definitions:
    """The definitions of a step by key. Each key has one definition."""

    __slots__ = ("effects", "messages", "sections", "tools")

    def __init__(self) -> None:
        self.tools: dict[str, StepTool] = {}
        self.sections: dict[str, Section] = {}
        self.messages: list[Message] = []
        self.effects: dict[str, RenderEffect] = {}

    def add(self, one: _Named) -> Definition:
        """Add a definition, unless it exists. Raise `RenderError` if a different definition has the same name."""
        name = one.name
        there: _Named | None = self.tools.get(name) or self.sections.get(name)
        if there is None:
            if isinstance(one, Section):
                self.sections[name] = one
            else:
                self.tools[name] = one
        elif not _is_same(there, one):
            kinds = f"{_describe(there)} and {_describe(one)}"
            remedy = "Define each name once, or rename one definition"
            raise RenderError("conflict", f"two definitions have the name {name!r}: {kinds}. {remedy}.")
        return Definition(one.kind, name)

    def add_effect(self, effect: RenderEffect) -> None:
        """Add an effect, unless it exists. Raise `RenderError` if a different effect has the same key."""
        there = self.effects.setdefault(effect.key, effect)
        if there != effect:
            both = f"{there.f!r} with deps {there.deps!r}, and {effect.f!r} with deps {effect.deps!r}"
            raise RenderError("conflict", f"two effects have the key {effect.key!r}: {both}. Give each its own key.")

    def with_patch(self, patch: StepPatch[Any]) -> Definitions:
        """Return the definitions for the step after a patch: with its additions, without its hidden names.

        Raises:
            RenderError: If the patch adds a different definition with an existing name.
        """
        patched = Definitions()
        only = patch.only
        patched.tools = dict(self.tools)
        patched.sections = {name: one for name, one in self.sections.items() if only is None or name in only}
        patched.messages, patched.effects = self.messages, self.effects
        added: tuple[_Named, ...] = (*patch.tool_definitions, *patch.sections)
        for one in added:
            _ = patched.add(one)
        for name in patch.hidden:
            _ = patched.tools.pop(name, None) or patched.sections.pop(name, None)
        return patched


def _is_same(there: _Named, one: _Named) -> bool:
    """Return whether two definitions are the same: equal tools, or sections with the same text."""
    if isinstance(there, Section) and isinstance(one, Section):
        return there.kind == one.kind and there.text() == one.text()  # 1 and True are equal, but have different text
    return there == one


def _check_key(key: object, what: str) -> None:
    """Raise `RenderError` if a key is not a string that JSON can contain."""
    try:
        is_text = isinstance(key, str) and bool(key.isascii() or key.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise RenderError("value", f"key of {what} must be a string, got {key!a}")


def _describe(one: _Named) -> str:
    if isinstance(one, Section):
        shown = repr(one.value)
        return f"the {one.kind} {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}…'}"
    by = "without a handler in the render" if one.handler is None else f"with the handler {one.handler!r}"
    around = "" if one.aspect is None else " and an aspect"
    return f"a tool {by}{around}"


_SHOWN: Final = 60  # characters of a value


# -- the render


@final
class RenderOf(Generic[_R_contra, _E_contra]):
    """The object that a stateful prompt uses to define a step. In annotations, write `Render[R, E]`.

    `R` is the union of the services that handlers and effects can need. It always contains `None`. `E` contains the
    failures of effects. Tools, systems, and data share their names. States have separate keys, and so have effects.
    """

    __slots__ = ("_count", "_is_over", "_seen", "_states", "_store", "definitions", "number")

    number: int
    """The number of the next step, from 1."""
    definitions: Definitions
    """The definitions so far."""

    def __init__(self, number: int, store: StateStore, seen: dict[str, Cell]) -> None:
        self.number = number
        self.definitions = Definitions()
        self._store = store
        self._seen = seen
        self._states: dict[str, tuple[Any, Any]] = {}
        self._count = 0  # number of definitions
        self._is_over = False

    def close(self) -> None:
        """Close the render, so that later definitions fail."""
        self._is_over = True

    def _open(self, what: str, key: str | None = None) -> Definitions:
        """Count one more definition by the method `what`, and return the definitions so far."""
        if self._is_over:
            call = f"at.{what}(…)" if key is None else f"at.{what}({key!r}, …)"
            why = "was called after the render"
            raise RenderError(
                "late",
                f"{call} {why}. Call it in the render, or return StepPatch.{{hide,tool,system,…}} from an effect.",
            )
        self._count += 1
        if self._count > MOST_DEFINITIONS:
            why = f"it has more than {MOST_DEFINITIONS:,} definitions"
            raise RenderError("unsettled", f"the render does not finish: {why}. Check its loops.")
        return self.definitions

    @overload
    def state(self, key: str, initial: _T, *, schema: type[_T] | Schema[_T] | None = None) -> State[_T]: ...
    @overload
    def state(self, key: str, initial: object, *, schema: TypeForm[_T]) -> State[_T]: ...
    def state(self, key: str, initial: Any, *, schema: Any = None) -> State[Any]:
        """Return a key of the state, with the value that it had when this render started.

        Args:
            key: The name of the state. fxai keeps its value even if later renders do not declare it.
            initial: The value in a run without a state. fxai freezes only arrays and objects, so use frozen structs and
                no sets.
            schema: The type of the value in JSON. Default: the type of `initial`. Pass it if `initial` does not show
                the whole type: `()`, `None`, a union (`str | None`), or a tuple of any length (`tuple[str, ...]`). With
                a `Schema`, type checkers also report an initial value of another type.

        Raises:
            RenderError: If the type differs from an earlier render, a value from JSON is invalid, two declarations
                differ, the key is not a string, or `initial` does not satisfy its schema.
        """
        _ = self._open("state", key)
        _check_key(key, "a state")
        there = self._states.setdefault(key, (initial, schema))
        if there != (initial, schema):
            both = f"the initial values are {there[0]!r} and {initial!r}"
            raise RenderError("conflict", f"two states have the key {key!r}: {both}. Give each its own key.")
        return State(key, self._store.declare(key, initial, schema, self._seen), self._store)

    def system(self, key: str, text: str) -> Definition:
        """Define a section of the system prompt. Sections have the order of their definitions.

        The text cannot close a section or open another section, because fxai escapes `<` except in references to tools.

        Raises:
            RenderError: If the name is invalid, or a different definition has the same name.
        """
        return self._open("system", key).add(Section("system", key, text).check())

    def data(self, key: str, value: Any) -> Definition:
        """Define data in the system prompt, after all system sections. fxai writes data as YAML, but strings unchanged.

        The data cannot close its section or open another section.

        Args:
            key: The name of the section.
            value: A JSON value, a struct, or any other value that msgspec supports.

        Raises:
            RenderError: If the name is invalid, or a different definition has the same name.
        """
        return self._open("data", key).add(Section("data", key, value).check())

    def message(self, content: str | Message) -> None:
        """Define a message after the system prompt and before the conversation. A string becomes a user message.

        Raises:
            RenderError: If it is not a message, or contains calls or results.
        """
        self._open("message").messages.append(define_message(content))

    @overload  # repeated below, because mypy reports the first overload and pyright reports the last
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
    @overload
    def tool(
        self,
        tool: Tool[_P, _S, _F],
        handler: Callable[[_P], HandlerReturn[_S, _F, _R_contra | None]],
        /,
        *,
        aspect: Aspect[_R_contra | None] | None = ...,
    ) -> Definition: ...
    def tool(self, tool: Any, handler: Any, /, *, aspect: Any = None) -> Definition:
        """Define a tool with the handler for the calls in this step.

        Args:
            tool: The tool.
            handler: A function of the parameters, and of the `CallContext` if it has two parameters. It returns any
                form of `HandlerReturn`. It reads the state of this render.
            aspect: An aspect around the handler. Create an aspect with a state (a cache, a rate limit) outside the
                render, so that the state exists for the whole run.

        Raises:
            RenderError: If the tool cannot have a handler, or a different definition has the same name.
        """
        return self._open("tool").add(define_tool(tool, handler, aspect))

    def tools(self, *origins: Offered[Never, _R_contra | None]) -> tuple[Definition, ...]:
        """Define tools that include their handlers, or do not need handlers here.

        Args:
            origins: Function tools, bound toolkits, composites, and sub-agents. Also external tools, and tools and
                toolkits whose handlers you provide to the run.

        Raises:
            RenderError: If a value has no tools, is a source that must be opened, or a different definition has the
                same name.
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
        """Define a tool that combines multiple tools and runs multiple calls at the same time. See `Toolkit.as_tool`.

        Args:
            name: The tool name.
            tools: The sub-tools, each with its handler and aspects: function tools, or
                `bind(read, on_read, aspect=aspect)`.
            concurrency: Maximum number of concurrent inner calls, or None for no limit. Default: 1.
            options: The options for the tool, see `ToolOptions`.

        Raises:
            RenderError: If a sub-tool does not include its handler, or a different definition has the same name.
            SchemaError: If no sub-tools exist, or a sub-tool is external.
        """
        definitions = self._open("composite", name)
        subtools = define_tools(tools)
        bound = BoundToolkit(Toolkit[Any].empty())
        for one in subtools:
            if one.origin is None:
                raise RenderError("value", f"sub-tool {one.name!r} of {name!r} does not include a handler. Pass one.")
            bound = bound.merge(one.origin)
        made = composite_of([one.tool for one in subtools], name, concurrency, options)
        layer = made.layer.provide(bound.layer)
        brings = BoundToolkit.of(Toolkit.of((made.tool,)), layer, origin=(made, bound))  # equal if its parts are equal
        return definitions.add(StepTool(made.tool, origin=brings))

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
        """Define an agent or another stateful prompt as a tool. Each call starts a run and returns its answer.

        A run of a prompt starts with its initial state.

        Args:
            name: The tool name.
            agent: The agent.
            parameters: The type of the tool's parameters. Default: `prompt`, a string that the agent receives.
            prompt: A function that converts the parameters to the prompt of a run.
            options: The options for the tool, see `ToolOptions`. By default, the model receives a failure.

        Raises:
            RenderError: If a different definition has the same name.
            SchemaError: If you pass only one of `parameters` and `prompt`.
        """
        definitions = self._open("agent", name)
        made: SubAgent[Any, Any, Any] = sub_agent_of(agent, name, parameters, prompt, options)
        return definitions.add(StepTool(made.tool, origin=made.bound))

    def effect(
        self,
        key: str,
        f: Callable[[StepView], EffectReturn[_R_contra | None, _E_contra]],
        deps: tuple[Hashable, ...] | None = None,
    ) -> None:
        """Define an effect that runs after the render and before the request of the step. Effects run in order.

        If an effect changes the state, the next render reads the new state.

        Args:
            key: The key that identifies the effect in later renders, at any position.
            f: A function of the step. It returns a patch for the step, None, or an effect or a generator of effects
                that returns one of these.
            deps: The effect runs if these values changed since its last run, compared with `==`. With None, it runs in
                each step. With `()`, it runs once. If a render does not define the effect, fxai forgets its last run.

        Raises:
            RenderError: If a different effect has the same key, the key is not a string, `f` is not a function, or
                `deps` is not a tuple.
        """
        definitions = self._open("effect", key)
        _check_key(key, "an effect")
        if not callable(cast(object, f)):
            raise RenderError("value", f"effect {key!r} must be a function of the step, got {f!r}")
        if not isinstance(cast(object, deps), tuple | None):
            raise RenderError(
                "value", f"deps of the effect {key!r} must be a tuple, such as (mode.value,), got {deps!r}"
            )
        for one in deps or ():
            if isinstance(one, State):
                name = one.key
                raise RenderError(
                    "value", f"deps of the effect {key!r} contain the state {name!r}. Use its value: (….value,)."
                )
        definitions.add_effect(RenderEffect(key, f, deps))


Render = TypeAliasType("Render", RenderOf[_R | None, _E], type_params=(_R, _E))
"""The parameter type of a render: `R` contains the services of handlers and effects, `E` the failures of effects."""
