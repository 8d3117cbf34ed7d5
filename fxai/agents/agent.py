"""Agents: a model with instructions and tools, asked until it is done.

An agent is a value. `with_tools`, `without_tools`, `with_memory` and the hooks give another one, in any order; the one
that they are asked of stays as it is.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> agent = Agent.make("greeter", instructions="Be brief.")
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(agent.execute("Hello").provide(model.layer)).text
'Good day.'
"""

# The type variables of `make` have defaults: those of the arguments that they stand for.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Never, cast, final, get_args, overload

import msgspec
from typing_extensions import TypeVar, Unpack, override

from fxai.agents.answer import Answer, RunError, Step, Steps
from fxai.agents.loop import Execution, Remembering
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.options import (
    AgentOptions,
    AtLimit,
    Budget,
    OnStep,
    Options,
    PrepareStep,
    StepSetup,
    StopCondition,
    check_model,
)
from fxai.agents.run import OUTPUT_RETRIES, RunPlan
from fxai.agents.run_tools import Binding, Offered
from fxai.agents.sub_agent import SubAgent, SubAgentRequest, sub_agent_of
from fxai.effects.context import Key
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.language_model import LanguageModel
from fxai.schema.codec import Schema
from fxai.schema.data import is_listed
from fxai.tools.options import ToolOptions
from fxai.tools.tool import Tool
from fxai.tools.toolkit import OnConflict, ToolConflictError, Toolkit

__all__ = ["Agent", "AgentBuilder", "Hooks"]

_T = TypeVar("_T", default=Never)
_O = TypeVar("_O", default=str)
_F = TypeVar("_F", default=Never)
_F2 = TypeVar("_F2", default=Never)
_N2 = TypeVar("_N2", default=None)
_E = TypeVar("_E")
_M = TypeVar("_M")
_P = TypeVar("_P")
_R = TypeVar("_R")
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
_T_co = TypeVar("_T_co", covariant=True, default=Never)
_O_co = TypeVar("_O_co", covariant=True, default=str)
_E_co = TypeVar("_E_co", covariant=True, default=RunError)
_R_co = TypeVar("_R_co", covariant=True, default=LanguageModel | None)

_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


@final
class Hooks(msgspec.Struct, frozen=True):
    """What is asked and told while a run goes on, each in its order."""

    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    on_step: tuple[OnStep[Any, Any], ...] = ()


@final
class Agent(msgspec.Struct, Generic[_T_co, _O_co, _E_co, _R_co], frozen=True):
    """A model with instructions and tools, as a value: it never changes, and one agent may run many times at once.

    `T` is the union of the handlers that its own tools need, `O` its output, `E` what a run fails with, and `R` what
    else a run needs: handlers of other tools, what sources need, a `LanguageModel`, unless it has a model of its own.
    """

    name: str
    instructions: str | None = None
    """What it is told before everything else, as the system prompt."""
    own: Binding = Binding()
    """The tools that it was made with, with what comes along."""
    model: LayerOf[Any, Any, Any] | None = None
    """The model that it asks; None for the one around."""
    output: Schema[Any] | None = None
    """What its answer is; None for text."""
    budget: Budget = Budget()
    at_limit: AtLimit = "fail"
    hooks: Hooks = Hooks()
    output_retries: int = OUTPUT_RETRIES
    options: Options = Options({})
    """How each round is asked."""
    extra: Binding = Binding()
    """The tools that `with_tools` gave it."""
    without_own: bool = False
    """Whether the tools that it was made with are left out."""
    remembering: Remembering | None = None
    """The memory, if there is one."""

    @overload
    @staticmethod
    def make(
        name: str, *, toolkit: Offered[_F, _T] = ..., **options: Unpack[AgentOptions]
    ) -> Agent[_T, str, RunError | _F]: ...
    @overload
    @staticmethod
    def make(
        name: str, *, toolkit: Offered[_F, _T] = ..., output: type[_O] | Schema[_O], **options: Unpack[AgentOptions]
    ) -> Agent[_T, _O, RunError | _F]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_F, _T] = ...,
        model: LayerOf[LanguageModel, _F2, _N2],
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, str, RunError | _F | _F2, _N2]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_F, _T] = ...,
        model: LayerOf[LanguageModel, _F2, _N2],
        output: type[_O] | Schema[_O],
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, _O, RunError | _F | _F2, _N2]: ...
    @staticmethod
    def make(name: str, *, toolkit: Any = _NO_TOOLS, model: Any = None, output: Any = None, **options: Any) -> Any:
        """An agent.

        Args:
            name: what it is called.
            toolkit: its tools: a toolkit, which needs its handlers, or what brings them: a bound toolkit, a tool
                source, an MCP server; by default none.
            model: the layer of the model that it asks, built when it is first asked in a run and released with the run;
                by default the one around. Handlers keep the one around.
            output: the type of its answer, `answer.output`; by default text.
            options: see `AgentOptions` and `RoundOptions`. A `tool_choice` that demands a call holds for the first
                round.

        Raises:
            TypeError: there is no such option, or a value is none of these; the message says what to give.
            ValueError: there is no such `at_limit`, the name is empty, or `output_retries` is less than 0.
        """
        if model is not None:
            check_model(model)
        hooks = Hooks(*(_several(name, options.pop(name, ())) for name in Hooks.__struct_fields__))
        return Agent(
            _name(name),
            _instructions(options.pop("instructions", None)),
            Binding.of((toolkit,)),
            model,
            None if output is None or output is str else Schema[Any].of(output),
            _budget(options.pop("budget", Budget())),
            _mode(options.pop("at_limit", "fail")),
            hooks,
            _retries(options.pop("output_retries", OUTPUT_RETRIES)),
            Options(options),
        )

    @property
    def builder(self) -> Agent[_T_co, _O_co, _E_co, _R_co]:
        """Itself: an agent is what builders were."""
        return self

    @property
    def binding(self) -> Binding:
        """All tools of a run, with what comes along."""
        return self.extra if self.without_own else self.own.merge(self.extra)

    @property
    def toolkit(self) -> Toolkit[Any]:
        """The tools that it was made with; those of a source are known only once it is open, and not among them."""
        return self.own.toolkit

    @property
    def tools(self) -> tuple[Tool[Any, Any, Any], ...]:
        """The tools of a run, in order: those that it was made with, then those that `with_tools` gave it.

        Those of a source are known only once it is open, and not among them.
        """
        return self.binding.toolkit.as_tuple

    @property
    def unanswered(self) -> Toolkit[Any]:
        """Those of the tools whose handlers must be provided to the run, because none comes along."""
        return self.binding.unanswered

    @override
    def __repr__(self) -> str:
        tools = f", tools=[{self.own}]" if self.own.offers else ""
        said = [f"Agent({self.name!r}{tools})"]
        if self.without_own:
            said.append("without_tools()")
        if self.extra.offers:
            said.append(f"with_tools({self.extra})")
        if self.remembering is not None:
            said.append(f"with_memory({self.remembering.memory!r})")
        for name in Hooks.__struct_fields__:
            said += [f"{name}({hook!r})" for hook in getattr(self.hooks, name)]
        return ".".join(said)

    # -- what is bound for one run

    @overload
    def with_tools(
        self, tools: Sequence[Offered[_E, _R]], /, *, on_conflict: OnConflict = ...
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], /, *, on_conflict: OnConflict = ...
    ) -> Agent[_T_co, _O_co, _E_co | _E1, _R_co | _R1]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], b: Offered[_E2, _R2], /, *, on_conflict: OnConflict = ...
    ) -> Agent[_T_co, _O_co, _E_co | _E1 | _E2, _R_co | _R1 | _R2]: ...
    @overload
    def with_tools(
        self, a: Offered[_E1, _R1], b: Offered[_E2, _R2], c: Offered[_E3, _R3], /, *, on_conflict: OnConflict = ...
    ) -> Agent[_T_co, _O_co, _E_co | _E1 | _E2 | _E3, _R_co | _R1 | _R2 | _R3]: ...
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
    ) -> Agent[_T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4, _R_co | _R1 | _R2 | _R3 | _R4]: ...
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
    ) -> Agent[_T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4 | _E5, _R_co | _R1 | _R2 | _R3 | _R4 | _R5]: ...
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
    ) -> Agent[_T_co, _O_co, _E_co | _E1 | _E2 | _E3 | _E4 | _E5 | _E6, _R_co | _R1 | _R2 | _R3 | _R4 | _R5 | _R6]: ...
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
        bound = msgspec.structs.replace(self, extra=self.extra.with_offers(tools, on_conflict=on_conflict))
        try:
            _ = bound.binding
        except ToolConflictError as error:
            raise ToolConflictError(f"{error}; or leave the agent's own out, by without_tools() before") from None
        return bound

    def without_tools(self) -> Agent[Never, _O_co, _E_co, _R_co]:
        """The run without the agent's own tools: their handlers are not needed. Those that are bound stay."""
        return cast("Agent[Never, _O_co, _E_co, _R_co]", msgspec.structs.replace(self, without_own=True))

    @overload
    def with_memory(
        self, memory: Memory, *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co]: ...
    @overload
    def with_memory(
        self, memory: Key[_M, Memory], *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co | _M]: ...
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
        return msgspec.structs.replace(self, remembering=Remembering(memory, auto_append))

    # -- hooks

    @overload
    def stop_when(
        self, condition: Callable[[Steps], EffectOf[bool, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def stop_when(self, condition: Callable[[Steps], bool]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def stop_when(self, condition: Any) -> Any:
        """The run that ends after a step for which `condition` holds too: a predicate of the steps so far."""
        return self._hooked(stop_when=condition)

    @overload
    def prepare_step(
        self, prepare: Callable[[StepSetup], EffectOf[StepSetup, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def prepare_step(self, prepare: Callable[[StepSetup], StepSetup]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def prepare_step(self, prepare: Any) -> Any:
        """The run in which `prepare` too changes how each step is asked: the model, tools, choice, messages, options.

        It comes after those before it.
        """
        return self._hooked(prepare_step=prepare)

    @overload
    def on_step(self, told: Callable[[Step], EffectOf[Any, _E, _R]]) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def on_step(self, told: Callable[[Step], None]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def on_step(self, told: Any) -> Any:
        """The run in which `told` too is told each finished step, before the run goes on."""
        return self._hooked(on_step=told)

    def _hooked(self, **hook: Any) -> Any:
        ((name, one),) = hook.items()
        if not callable(one):
            raise TypeError(f"{name} takes a function, not {one!r}")
        hooks = msgspec.structs.replace(self.hooks, **{name: (*getattr(self.hooks, name), one)})
        return msgspec.structs.replace(self, hooks=hooks)

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
        return sub_agent_of(self, name, parameters, prompt, options)

    # -- the run

    def execute(self, prompt: PromptInput) -> EffectOf[Answer[_O_co], _E_co, _T_co | _R_co | None]:
        """The answer to `prompt`: the model is asked until a turn calls no tool.

        Fails with `BudgetExceeded` when the budget is spent first, with `AiError` when the model cannot be asked or
        understood, and with a `ToolError` when a handler failed in failure mode `"error"`. The first and the last hold
        the history. With a memory also with `MemoryFailure`; with a source as it does.
        """
        return self._execution.answer(prompt)

    def stream(self, prompt: PromptInput) -> StreamOf[StreamPart, _E_co, _T_co | _R_co | None]:
        """The parts of the answer to `prompt` as they come; each round ends with its `finish`.

        Leaving the stream early stops the model and the handlers, closes sources, and commits nothing. Fails as
        `execute`.
        """
        return self._execution.parts(prompt)

    @property
    def _execution(self) -> Execution:
        plan = RunPlan(
            self.toolkit,
            self.options.to_round(),
            self.budget,
            self.hooks.stop_when,
            self.at_limit,
            self.hooks.prepare_step,
            self.hooks.on_step,
            self.output,
            self.output_retries,
            without_own=self.without_own,
        )
        return Execution(plan, self.binding, self.instructions, self.model, self.remembering)


AgentBuilder = Agent
"""Another name for an agent, of what `with_tools`, `without_tools`, `with_memory` and the hooks give."""


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the name of an agent is a string, not {given!r}")
    if not given:
        raise ValueError("an agent needs a name: its tool and its failures are called by it")
    return given


def _instructions(given: Any) -> str | None:
    if not (given is None or isinstance(given, str)):
        raise TypeError(f"instructions are one text, not {given!r}: join what they are made of")
    return given


def _retries(given: Any) -> int:
    if not isinstance(given, int):
        raise TypeError(f"output_retries is a number, not {given!r}")
    if given < 0:
        raise ValueError(f"output_retries is {given}: an answer is asked for once at least")
    return given


def _budget(given: Any) -> Budget:
    if not isinstance(given, Budget):
        raise TypeError(f"budget={given!r} is no Budget: say Budget(rounds=…), with tokens, seconds or calls")
    return given


def _mode(given: Any) -> AtLimit:
    modes = get_args(AtLimit)
    if given not in modes:
        raise ValueError(f"at_limit is {given!r}: it is {', '.join(map(repr, modes))}")
    return cast(AtLimit, given)


def _several(name: str, given: Any) -> tuple[Any, ...]:
    hooks = (given,) if callable(given) or not is_listed(given) else tuple(given)
    for one in hooks:
        if not callable(one):
            raise TypeError(f"{name} takes functions, not {one!r}")
    return hooks
