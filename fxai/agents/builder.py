"""Builders: an agent, with what is bound for one run.

A builder is a value, made by `with_tools`, `without_tools`, `with_memory` and the hooks, in any order; the agent stays
as it is.

>>> from fxai.agents.agent import Agent
>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, call, text
>>> from fxai.tools.function import tool
>>> @tool
... def double(n: int) -> int:
...     '''Doubles a number.'''
...     return 2 * n
>>> agent = Agent.make("sums", instructions="You calculate.")
>>> model = ScriptedModel.make([call("double", {"n": 4}), text("It is 8.")])
>>> fx.run(agent.with_tools(double).execute("Twice 4?").provide(model.layer)).text, agent.tools
('It is 8.', ())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, final, overload

import msgspec
from typing_extensions import TypeVar, Unpack, override

from fxai.agents.answer import Answer
from fxai.agents.binding import Binding, Offered
from fxai.agents.execution import Execution, Remembering
from fxai.agents.failure import RunError
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.plan import RunPlan
from fxai.agents.step import Step, Steps
from fxai.agents.step_setup import OnStep, PrepareStep, StepSetup
from fxai.agents.stop import StopCondition
from fxai.effects.context import Key
from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.language_model import LanguageModel
from fxai.schema.codec import Schema
from fxai.tools.options import ToolOptions
from fxai.tools.tool import Tool
from fxai.tools.toolkit import OnConflict, ToolConflictError, Toolkit

if TYPE_CHECKING:
    from fxai.agents.agent import Agent
    from fxai.agents.sub_agent import SubAgent, SubAgentRequest

__all__ = ["AgentBuilder", "Bindable", "Hooks"]

_T_co = TypeVar("_T_co", covariant=True, default=Never)
_O_co = TypeVar("_O_co", covariant=True, default=str)
_E_co = TypeVar("_E_co", covariant=True, default=RunError)
_R_co = TypeVar("_R_co", covariant=True, default=LanguageModel | None)
_E = TypeVar("_E")
_R = TypeVar("_R")
_M = TypeVar("_M")
_P = TypeVar("_P")
_E1 = TypeVar("_E1")
_E2 = TypeVar("_E2")
_E3 = TypeVar("_E3")
_E4 = TypeVar("_E4")
_E5 = TypeVar("_E5")
_E6 = TypeVar("_E6")
_R1 = TypeVar("_R1")
_R2 = TypeVar("_R2")
_R3 = TypeVar("_R3")
_R4 = TypeVar("_R4")
_R5 = TypeVar("_R5")
_R6 = TypeVar("_R6")


@final
class Hooks(msgspec.Struct, frozen=True):
    """What is asked and told while a run goes on, each in its order."""

    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    on_step: tuple[OnStep[Any, Any], ...] = ()


class Bindable(msgspec.Struct, Generic[_T_co, _O_co, _E_co, _R_co], frozen=True):
    """What can be run, and be given tools, a memory and hooks for the run: an agent, or a builder of one.

    `T` is the union of the handlers that the agent's own tools need, `O` its output, `E` what a run fails with, and `R`
    what else a run needs: handlers of other tools, what sources need, a `LanguageModel`.
    """

    @property
    def builder(self) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]:
        """The builder that binds no more than this."""
        raise NotImplementedError

    @property
    def tools(self) -> tuple[Tool[Any, Any, Any], ...]:
        """The tools of a run, in order: the agent's own, then those that are bound.

        Those of a source are known only once it is open, and not among them.
        """
        return self.builder.binding.toolkit.as_tuple

    @property
    def unanswered(self) -> Toolkit[Any]:
        """Those of the tools whose handlers must be provided to the run, because none comes along."""
        return self.builder.binding.unanswered

    # -- what is bound for one run

    @overload
    def with_tools(
        self, tools: Sequence[Offered[_E, _R]], /, *, on_conflict: OnConflict = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], /, *, on_conflict: OnConflict = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E1, _R_co | _R1]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], b: Offered[_E2, _R2], /, *, on_conflict: OnConflict = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E1 | _E2, _R_co | _R1 | _R2]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], b: Offered[_E2, _R2], c: Offered[_E3, _R3], /, *, on_conflict: OnConflict = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E1 | _E2 | _E3, _R_co | _R1 | _R2 | _R3]: ...
    @overload
    def with_tools(
        self,
        a: Offered[_E1, _R1],
        b: Offered[_E2, _R2],
        c: Offered[_E3, _R3],
        d: Offered[_E4, _R4],
        /,
        *,
        on_conflict: OnConflict = ...,
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4, _R_co | _R1 | _R2 | _R3 | _R4]: ...
    @overload
    def with_tools(
        self,
        a: Offered[_E1, _R1],
        b: Offered[_E2, _R2],
        c: Offered[_E3, _R3],
        d: Offered[_E4, _R4],
        e: Offered[_E5, _R5],
        /,
        *,
        on_conflict: OnConflict = ...,
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4 | _E5, _R_co | _R1 | _R2 | _R3 | _R4 | _R5]: ...
    @overload
    def with_tools(
        self,
        a: Offered[_E1, _R1],
        b: Offered[_E2, _R2],
        c: Offered[_E3, _R3],
        d: Offered[_E4, _R4],
        e: Offered[_E5, _R5],
        f: Offered[_E6, _R6],
        /,
        *,
        on_conflict: OnConflict = ...,
    ) -> AgentBuilder[
        _T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4 | _E5 | _E6, _R_co | _R1 | _R2 | _R3 | _R4 | _R5 | _R6
    ]: ...
    def with_tools(self, *tools: Any, on_conflict: OnConflict = "error") -> Any:
        """The run with these tools too, behind those that it has: a list of one type, or up to six of any.

        The same tool twice is one. `with_tools(a).with_tools(b)` is `with_tools(a, b)`.

        Args:
            tools: tools, toolkits, function tools, bound toolkits, composites, tool sources and MCP servers. Tools and
                toolkits need their handlers from outside; the others bring theirs. A source is opened for the run and
                closed after it.
            on_conflict: which tool to keep where two different ones have one name: `"first"`, which was there before,
                or `"last"`. Where a server adds such a tool while the run goes on, it is left out unless this says
                otherwise, and a warning is logged.

        Raises:
            TypeError: something else is given; the message says what can be.
            ValueError: there is no such `on_conflict`.
            ToolConflictError: two different tools have one name. Where only the open source shows it, the run ends
                with it, as a defect.
        """
        bound = self.builder
        bound = msgspec.structs.replace(bound, extra=bound.extra.with_offers(tools, on_conflict=on_conflict))
        try:
            _ = bound.binding
        except ToolConflictError as error:
            raise ToolConflictError(f"{error}; or leave the agent's own out, by without_tools() before") from None
        return bound

    def without_tools(self) -> AgentBuilder[Never, _O_co, _E_co, _R_co]:
        """The run without the agent's own tools: their handlers are not needed. Those that are bound stay."""
        bound: AgentBuilder[Any, _O_co, _E_co, _R_co] = self.builder
        return msgspec.structs.replace(bound, without_own=True)

    @overload
    def with_memory(
        self, memory: Memory, *, auto_append: bool = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | MemoryFailure, _R_co]: ...
    @overload
    def with_memory(
        self, memory: Key[_M, Memory], *, auto_append: bool = ...
    ) -> AgentBuilder[_T_co, _O_co, _E_co | MemoryFailure, _R_co | _M]: ...
    def with_memory(self, memory: Any, *, auto_append: bool = True) -> Any:
        """The run with a memory, in place of the one before: it is told what the memory holds, and remembered.

        Its messages are committed when it has succeeded, the output decoded where there is one; a run that ends
        pending is, too, and goes on with the answers alone. Give the prompt only what is new. Where the seconds of
        the budget are up before it is loaded, the run ends as `at_limit` says, without it, and is not remembered.

        Args:
            memory: a memory, or the key of one that a layer gives: `Memory` itself, or a `Tag[Memory]`.
            auto_append: False: nothing is committed.

        Raises:
            TypeError: it is neither.
        """
        if not (isinstance(memory, Memory) or hasattr(memory, "__fx_key__")):
            raise TypeError(f"{memory!r} is no memory: give one, such as Memory.file(path), or the key of a service")
        remembering = Remembering(memory, auto_append)
        return msgspec.structs.replace(self.builder, remembering=remembering)

    # -- hooks

    @overload
    def stop_when(
        self, condition: Callable[[Steps], EffectOf[bool, _E, _R]]
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def stop_when(self, condition: Callable[[Steps], bool]) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]: ...
    def stop_when(self, condition: Any) -> Any:
        """The run that ends after a step for which `condition` holds too: a predicate of the steps so far."""
        return self._hooked(stop_when=condition)

    @overload
    def prepare_step(
        self, prepare: Callable[[StepSetup], EffectOf[StepSetup, _E, _R]]
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def prepare_step(self, prepare: Callable[[StepSetup], StepSetup]) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]: ...
    def prepare_step(self, prepare: Any) -> Any:
        """The run in which `prepare` too changes how each step is asked: the model, tools, choice, messages, options.

        It comes after those before it.
        """
        return self._hooked(prepare_step=prepare)

    @overload
    def on_step(
        self, told: Callable[[Step], EffectOf[Any, _E, _R]]
    ) -> AgentBuilder[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def on_step(self, told: Callable[[Step], None]) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]: ...
    def on_step(self, told: Any) -> Any:
        """The run in which `told` too is told each finished step, before the run goes on."""
        return self._hooked(on_step=told)

    def _hooked(self, **hook: Any) -> Any:
        bound = self.builder
        ((name, one),) = hook.items()
        if not callable(one):
            raise TypeError(f"{name} takes a function, not {one!r}")
        hooks = msgspec.structs.replace(bound.hooks, **{name: (*getattr(bound.hooks, name), one)})
        return msgspec.structs.replace(bound, hooks=hooks)

    # -- as a tool

    @overload
    def as_tool(
        self, name: str | None = ..., **options: Unpack[ToolOptions]
    ) -> SubAgent[SubAgentRequest, _O_co, _T_co | _R_co]: ...
    @overload
    def as_tool(
        self,
        name: str | None = ...,
        *,
        parameters: type[_P] | Schema[_P],
        prompt: Callable[[_P], PromptInput],
        **options: Unpack[ToolOptions],
    ) -> SubAgent[_P, _O_co, _T_co | _R_co]: ...
    def as_tool(
        self, name: str | None = None, *, parameters: Any = None, prompt: Any = None, **options: Unpack[ToolOptions]
    ) -> Any:
        """This as a tool of another agent: each call is a run, its answer the result. See `SubAgent`.

        Args:
            name: what the tool is called; by default as the agent.
            parameters: what the tool takes; by default a `prompt`, which is what the agent is asked.
            prompt: what the agent is asked, of such parameters.
            options: of the tool, see `ToolOptions`. A failure goes to the model, unless `failure_mode` says otherwise.

        Raises:
            SchemaError: `parameters` without `prompt`, or the other way round.
        """
        from fxai.agents.sub_agent import sub_agent_of  # it imports this module

        return sub_agent_of(self.builder, name, parameters, prompt, options)

    # -- the run

    def execute(self, prompt: PromptInput) -> EffectOf[Answer[_O_co], _E_co, _T_co | _R_co | None]:
        """The answer to `prompt`: the model is asked until a turn calls no tool.

        Fails with `BudgetExceeded` when the budget is spent first, with `AiError` when the model cannot be asked or
        understood, and with a `ToolError` when a handler failed in failure mode `"error"`. The first and the last hold
        the history. With a memory also with `MemoryFailure`; with a source as it does.
        """
        return self.builder.execution.answer(prompt)

    def stream(self, prompt: PromptInput) -> StreamOf[StreamPart, _E_co, _T_co | _R_co | None]:
        """The parts of the answer to `prompt` as they come; each round ends with its `finish`.

        Leaving the stream early stops the model and the handlers, closes sources, and commits nothing. Fails as
        `execute`.
        """
        return self.builder.execution.parts(prompt)


@final
class AgentBuilder(Bindable[_T_co, _O_co, _E_co, _R_co], Generic[_T_co, _O_co, _E_co, _R_co], frozen=True):
    """An agent, with what is bound for one run: an immutable value, equal to one that binds the same."""

    agent: Agent[Any, _O_co, Any, Any]
    """What is run; it stays as it is."""
    extra: Binding = Binding()
    """The tools that are bound."""
    without_own: bool = False
    """Whether the agent's own tools are left out."""
    hooks: Hooks = Hooks()
    """Those that are bound; the agent's own come before them."""
    remembering: Remembering | None = None
    """The memory, if there is one."""

    @property
    @override
    def builder(self) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]:
        """Itself."""
        return self

    @property
    def binding(self) -> Binding:
        """All tools of a run."""
        return self.extra if self.without_own else self.agent.binding.merge(self.extra)

    @property
    def execution(self) -> Execution:
        """The run to be."""
        agent, more = self.agent, self.hooks
        plan = RunPlan(
            agent.toolkit,
            agent.options.to_round(),
            agent.budget,
            agent.hooks.stop_when + more.stop_when,
            agent.at_limit,
            agent.hooks.prepare_step + more.prepare_step,
            agent.hooks.on_step + more.on_step,
            agent.output,
            agent.output_retries,
            without_own=self.without_own,
        )
        return Execution(plan, self.binding, agent.instructions, agent.model, self.remembering)

    @override
    def __repr__(self) -> str:
        said = [repr(self.agent)]
        if self.without_own:
            said.append("without_tools()")
        if self.extra.offers:
            said.append(f"with_tools({self.extra})")
        if self.remembering is not None:
            said.append(f"with_memory({self.remembering.memory!r})")
        for name in Hooks.__struct_fields__:
            said += [f"{name}({hook!r})" for hook in getattr(self.hooks, name)]
        return ".".join(said) if len(said) > 1 else f"{said[0]}.builder"
