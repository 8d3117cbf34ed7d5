"""Agents: a model with instructions and tools, asked until it is done.

An agent is a value: `with_tools`, `without_tools`, `with_memory` and the hooks give another one, in any order. There is
one place for each thing:

- `toolkit=` of `make` is for the tools that the agent is about, which `without_tools` leaves out; `with_tools` adds
  tools for one run, or for one user.
- `stop_when=`, `prepare_step=` and `on_step=` of `make` are for functions that cannot fail and need no services; the
  methods of these names add one more, and take effects too, whose failures and needs are then in the agent's type.
- `with_memory` is for an agent that goes on from its own earlier runs; a `Chat` is for one conversation that models and
  agents share, and that a program leads itself.

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, cast, final, get_args, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.agents.answer import Answer, RunError, Step, Steps
from fxai.agents.change import Changes, check_changes
from fxai.agents.loop import Execution, Remembering
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.run import OUTPUT_RETRIES, RunPlan
from fxai.agents.run_options import (
    AgentOptions,
    AtLimit,
    Budget,
    HasToolCall,
    OnStep,
    Options,
    PrepareStep,
    StepSetup,
    StopCondition,
    check_model,
)
from fxai.agents.run_tools import Binding, Offered
from fxai.agents.sub_agent import Runs, SubAgent, SubAgentRequest, sub_agent_of
from fxai.effects.context import ServiceKey
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.mistake import Discarded
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.language_model import LanguageModel
from fxai.schema.codec import Schema
from fxai.schema.data import is_listed
from fxai.tools.identity import OnConflict, ToolConflictError
from fxai.tools.tool import Tool
from fxai.tools.tool_error import nearest_name
from fxai.tools.tool_options import ToolOptions
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from fxai.agents.state import PromptState
    from fxai.agents.stateful import StatefulPrompt

_T = TypeVar("_T", default=Never)
_O = TypeVar("_O", default=str)
_F = TypeVar("_F", default=Never)
_F2 = TypeVar("_F2", default=Never)
_L2 = TypeVar("_L2", default=LanguageModel | None)
_F3 = TypeVar("_F3", default=Never)
_N3 = TypeVar("_N3", default=None)
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

# What stands for an argument that is left out: pyright reads its type, mypy the default of the type variable.
_NO_TOOLS: Toolkit[Never] = Toolkit.empty()
_NO_PROMPT: StatefulPrompt[None, Never] = cast(Any, None)
_AROUND: LayerOf[LanguageModel, Never, LanguageModel | None] = cast(Any, None)


@final
class Hooks(msgspec.Struct, frozen=True):
    """The functions that are called while a run goes on, each in its order."""

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
    """The system prompt."""
    own: Binding = Binding()
    """The tools that it was made with, and the handlers that come with them."""
    model: LayerOf[Any, Any, Any] | None = None
    """The model that it asks; None for the one around."""
    output: Schema[Any] | None = None
    """The type of its answer; None for text."""
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
    prompt: StatefulPrompt[Any, Any] | None = None
    """The stateful prompt that each step is rendered from, if there is one."""
    changes: Changes = "auto"
    """The place where a request shows a change of instructions, sections or tools. `"auto"`: as the prompt says."""

    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_F, _T] = _NO_TOOLS,
        prompt: StatefulPrompt[_N3, _F3] = _NO_PROMPT,  # type: ignore[assignment]
        model: LayerOf[LanguageModel, _F2, _L2] = _AROUND,  # type: ignore[assignment]
        output: type[_O] | Schema[_O] = str,  # type: ignore[assignment]
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, _O, RunError | _F | _F2 | _F3, _L2 | _N3]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_F, _T] = _NO_TOOLS,
        prompt: StatefulPrompt[_N3, _F3] = _NO_PROMPT,  # type: ignore[assignment]
        model: LayerOf[LanguageModel, _F2, _L2] = _AROUND,  # type: ignore[assignment]
        output: TypeForm[_O],
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, _O, RunError | _F | _F2 | _F3, _L2 | _N3]: ...
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Any = _NO_TOOLS,
        prompt: Any = _NO_PROMPT,
        model: Any = _AROUND,
        output: Any = str,
        **options: Unpack[AgentOptions],
    ) -> Any:
        """An agent.

        Args:
            name: its name, which its tool and its failures have, too.
            toolkit: its tools: a toolkit, which needs its handlers, or one that has them: a bound toolkit, a tool
                source, an MCP server; by default none.
            prompt: a stateful prompt, from which each step is rendered: its tools stand behind those of `toolkit`, its
                sections behind the instructions, and its effects run before `prepare_step`. By default none.
            model: the layer of the model that it asks, built when it is first asked in a run and released with the run;
                by default the one around. Handlers keep the one around.
            output: the type of its answer, `answer.output`; by default text.
            options: see `AgentOptions` and `RoundOptions`. A `tool_choice` that demands a call holds for the first
                round.

        Raises:
            TypeError: there is no such option, or a value is none of these; the message says what to give.
            ValueError: there is no such `at_limit` or `changes`, the name is empty, or `output_retries` is less than 0.
        """
        if model is not _AROUND:
            check_model(model)
        given = cast("dict[str, Any]", options)
        hooks = Hooks(*(_several(name, given.pop(name, ())) for name in Hooks.__struct_fields__))
        return Agent(
            _name(name),
            _instructions(given.pop("instructions", None)),
            Binding.of((toolkit,)),
            model,
            None if output is None or output is str else Schema[Any].of(output),
            _budget(given.pop("budget", Budget())),
            _mode(given.pop("at_limit", "fail")),
            hooks,
            _retries(given.pop("output_retries", OUTPUT_RETRIES)),
            changes=check_changes(given.pop("changes", "auto")),
            options=Options(given),
            prompt=_prompt(prompt),
        )

    @property
    def builder(self) -> Agent[_T_co, _O_co, _E_co, _R_co]:
        """The agent itself; kept for programs that ask for it."""
        return self

    @property
    def binding(self) -> Binding:
        """All tools of a run, and the handlers that come with them."""
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
        """The tools whose handlers must be provided to the run, because none comes with them."""
        return self.binding.unanswered

    @override
    def __repr__(self) -> str:
        tools = f", tools=[{self.own}]" if self.own.offers else ""
        text = [f"Agent({self.name!r}{tools})"]
        if self.without_own:
            text.append("without_tools()")
        if self.extra.offers:
            text.append(f"with_tools({self.extra})")
        if self.remembering is not None:
            text.append(f"with_memory({self.remembering.memory!r})")
        for name in Hooks.__struct_fields__:
            text += [f"{name}({hook!r})" for hook in getattr(self.hooks, name)]
        return ".".join(text)

    # -- tools and memory

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
    @overload
    def with_tools(
        self,
        a: Offered[_E1, _R1],
        b: Offered[_E1, _R1],
        c: Offered[_E1, _R1],
        d: Offered[_E1, _R1],
        e: Offered[_E1, _R1],
        f: Offered[_E1, _R1],
        g: Offered[_E1, _R1],
        /,
        *tools: Offered[_E1, _R1],
        on_conflict: OnConflict = ...,
    ) -> Agent[_T_co, _O_co, _E_co | _E1, _R_co | _R1]: ...
    def with_tools(self, *tools: Any, on_conflict: OnConflict = "error") -> Any:
        """The agent with these tools too, behind those that it has: any number of them, or a list of one type.

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
        """The agent without its own tools: their handlers are not needed. Those of `with_tools` stay."""
        return cast("Agent[Never, _O_co, _E_co, _R_co]", msgspec.structs.replace(self, without_own=True))

    @overload
    def with_memory(
        self, memory: Memory, *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co]: ...
    @overload
    def with_memory(
        self, memory: ServiceKey[_M, Memory], *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co | _M]: ...
    def with_memory(self, memory: Any, *, auto_append: bool = True) -> Any:
        """The agent with a memory, in place of the one before: its runs go on from it, and are committed to it.

        The messages of a run are committed when it has succeeded, the output decoded where there is one; those of a run
        that ends pending are, too, and the next one goes on with the answers alone. The prompt holds only what is new.
        Where the seconds of the budget are up before the memory is loaded, the run ends as `at_limit` says, without it,
        and is not committed.

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
        """The agent whose runs end after a step for which `condition` holds, too: a predicate of the steps so far."""
        return _with_hook(self, "stop_when", condition)

    @overload
    def prepare_step(
        self, prepare: Callable[[StepSetup], EffectOf[StepSetup, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def prepare_step(self, prepare: Callable[[StepSetup], StepSetup]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def prepare_step(self, prepare: Any) -> Any:
        """The agent with one more function that may change each step before it is asked.

        It is given the step as those before it left it: the model, tools, choice, messages and options.
        """
        return _with_hook(self, "prepare_step", prepare)

    @overload
    def on_step(
        self, listener: Callable[[Step], EffectOf[Discarded, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def on_step(self, listener: Callable[[Step], None]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def on_step(self, listener: Any) -> Any:
        """The agent with one more function that is given each finished step, before the run goes on."""
        return _with_hook(self, "on_step", listener)

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
        **options: Unpack[ToolOptions[_P, _O_co]],
    ) -> SubAgent[_P, _O_co, _T_co | _R_co]: ...
    @overload
    def as_tool(
        self,
        name: str | None = ...,
        *,
        parameters: TypeForm[_P],
        prompt: Callable[[_P], PromptInput],
        **options: Unpack[ToolOptions[_P, _O_co]],
    ) -> SubAgent[_P, _O_co, _T_co | _R_co]: ...
    def as_tool(
        self, name: str | None = None, *, parameters: Any = None, prompt: Any = None, **options: Unpack[ToolOptions]
    ) -> Any:
        """The agent as a tool of another one: each call is a run, its answer the result. See `SubAgent`.

        Args:
            name: the name of the tool; by default that of the agent.
            parameters: the type of the tool's parameters; by default a `prompt`, which the agent is given.
            prompt: makes the prompt of such parameters.
            options: of the tool, see `ToolOptions`. A failure goes to the model, unless `failure_mode` says otherwise.

        Raises:
            SchemaError: `parameters` without `prompt`, or the other way round.
        """
        return sub_agent_of(self, name, parameters, prompt, options)

    def __fx_runs__(self) -> Runs[_T_co, _O_co, _E_co, _R_co | None]:
        """For checkers: what it is."""
        raise NotImplementedError

    # -- the run

    def execute(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> EffectOf[Answer[_O_co], _E_co, _T_co | _R_co | None]:
        """The answer to `prompt`: the model is asked until a turn calls no tool.

        Args:
            prompt: what the user says, or a history to go on from.
            state: what a stateful prompt begins with, such as `answer.state` of the run before; by default what the
                memory holds, else the initial values.

        Fails with `BudgetExceeded` when the budget is spent first, with `AiError` when the model cannot be asked or
        understood, and with a `ToolError` when a handler failed in failure mode `"error"`. The first and the last hold
        the history. With a memory also with `MemoryFailure`; with a source as it does.
        """
        return _execution(self, state).answer(prompt)

    def stream(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> StreamOf[StreamPart, _E_co, _T_co | _R_co | None]:
        """The parts of the answer to `prompt` as they come; each round ends with its `finish`.

        Leaving the stream early stops the model and the handlers, closes sources, and commits nothing. Fails as
        `execute`.
        """
        return _execution(self, state).parts(prompt)


AgentBuilder = Agent
"""Another name for `Agent`, which `with_tools`, `without_tools`, `with_memory` and the hooks give."""


def _execution(agent: Agent[Any, Any, Any, Any], state: PromptState | None) -> Execution:
    if state is not None and agent.prompt is None:
        raise TypeError(f"the agent {agent.name!r} has no stateful prompt, so that no state can be given to its runs")
    binding = agent.binding
    if agent.hooks.stop_when and binding.is_fixed and agent.prompt is None and not agent.without_own:
        _check_stops(agent.name, agent.hooks.stop_when, binding.toolkit.tools)
    plan = RunPlan(
        binding.toolkit,
        agent.options.to_round(),
        agent.budget,
        agent.hooks.stop_when,
        agent.at_limit,
        agent.hooks.prepare_step,
        agent.hooks.on_step,
        agent.output,
        agent.output_retries,
        without_own=agent.without_own,
        prompt=None if agent.prompt is None else agent.prompt.plan(state),
        changes=agent.prompt.changes if agent.changes == "auto" and agent.prompt is not None else agent.changes,
    )
    return Execution(agent.name, plan, binding, agent.instructions, agent.model, agent.remembering)


def _check_stops(name: str, conditions: Iterable[object], tools: Mapping[str, object]) -> None:
    """Refuse a condition on a tool that no step of the run can have, because the run would never stop."""
    for condition in conditions:
        for tool in condition.names if isinstance(condition, HasToolCall) else ():
            if tool not in tools:
                near, there = nearest_name(tool, tools), ", ".join(tools) or "no tools"
                raise ValueError(f"has_tool_call({tool!r}): the agent {name!r} has no such tool{near}; it has {there}")


def _with_hook(agent: Agent[Any, Any, Any, Any], name: str, hook: Any) -> Any:
    if not callable(hook):
        raise TypeError(f"{name} takes a function, not {hook!r}")
    hooks = msgspec.structs.replace(agent.hooks, **{name: (*getattr(agent.hooks, name), hook)})
    return msgspec.structs.replace(agent, hooks=hooks)


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


def _prompt(given: Any) -> Any:
    if given is None:
        return None
    from fxai.agents.stateful import StatefulPrompt

    if not isinstance(given, StatefulPrompt):
        advice = "say StatefulPrompt.make(name, f)"
        raise TypeError(f"prompt={given!r} is no stateful prompt: {advice}; what the user says is given to execute")
    return cast(Any, given)


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
    for hook in hooks:
        if not callable(hook):
            raise TypeError(f"{name} takes functions, not {hook!r}")
    return hooks
