"""Agents: run a model with instructions and tools until it answers. Use this module to define an agent.

An agent is an immutable value. `with_tools`, `without_tools`, `with_memory`, and the hooks return a new agent. You can
call them in any order. Use each option for its purpose:

- `toolkit=` of `make` defines the agent's own tools. `without_tools` removes them. `with_tools` adds tools for one run
  or one user.
- `stop_when=`, `prepare_step=`, and `on_step=` of `make` accept functions that cannot fail and need no services. The
  methods of the same names add one function. They also accept functions that return effects, and the type of the agent
  then includes the failures and requirements of these effects.
- `with_memory` is for an agent that continues its own earlier runs. Use a `Chat` for a conversation that your program
  leads and that models and agents share.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> agent = Agent.make("greeter", instructions="Be brief.")
>>> model = ScriptedModel.make([text("Good day.")])
>>> fx.run(agent.execute("Hello").provide(model.layer)).text
'Good day.'
"""

# The type variables of `make` have defaults, which are the types of the default arguments.
# pyright: reportInvalidTypeVarUse=false, reportRedeclaration=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, cast, final, get_args, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.agents.answer import Answer, AnswerPart, RunError, Step, Steps
from fxai.agents.change import Changes, check_changes
from fxai.agents.large_result import LargeResults
from fxai.agents.loop import Execution, Remembering
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.run import OUTPUT_RETRIES, RunPlan
from fxai.agents.run_options import (
    AgentOptions,
    AtLimit,
    Budget,
    HasToolCall,
    OnStep,
    PrepareStep,
    StepSetup,
    StopCondition,
    check_model,
    check_name,
    check_option,
    round_options,
)
from fxai.agents.run_tools import Binding, Offered
from fxai.agents.sub_agent import AgentTypes, SubAgent, SubAgentRequest, sub_agent_of
from fxai.effects.context import ServiceKey
from fxai.effects.effect import EffectOf
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.mistake import MYPY, Discarded
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import PromptInput
from fxai.models.compaction import Compaction, check_compaction
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import RoundOptions
from fxai.schema.codec import Schema
from fxai.schema.data import FrozenObject, is_listed
from fxai.tools.identity import OnConflict, ToolConflictError
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import nearest_name
from fxai.tools.tool_options import ToolOptions
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.agents.state import PromptState
    from fxai.agents.stateful import StatefulPrompt
    from fxai.agents.tool_search import ToolSearch

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

# Defaults of omitted arguments. pyright infers from their types; mypy uses the default of the type variable.
_NO_TOOLS: Toolkit[Never] = Toolkit.empty()
_NO_PROMPT: StatefulPrompt[None, Never] = cast(Any, None)
_AROUND: LayerOf[LanguageModel, Never, LanguageModel | None] = cast(Any, None)


@final
class _Hooks(msgspec.Struct, frozen=True):
    """The functions that a run calls. Each tuple has the order of the calls."""

    stop_when: tuple[StopCondition[Any, Any], ...] = ()
    """Conditions that stop the run after a step."""
    prepare_step: tuple[PrepareStep[Any, Any], ...] = ()
    """Functions that change the request of a step."""
    on_step: tuple[OnStep[Any, Any], ...] = ()
    """Functions that receive each step."""

    @staticmethod
    def of(options: dict[str, Any]) -> _Hooks:
        """Remove the hooks from the options, and return them."""
        hooks: list[tuple[Any, ...]] = []
        for name in _Hooks.__struct_fields__:
            given = options.pop(name, ())
            hooks.append((given,) if callable(given) or not is_listed(given) else tuple(given))
            for hook in hooks[-1]:
                if not callable(hook):
                    raise TypeError(f"{name} must be a function or a list of functions, got {hook!r}")
        return _Hooks(*hooks)


@final
class Agent(msgspec.Struct, Generic[_T_co, _O_co, _E_co, _R_co], frozen=True, dict=True):
    """A model with instructions and tools, as an immutable value. The same agent can run many times concurrently.

    `T` is the union of the handlers that its own tools need. `O` is the type of its output. `E` is the type of the
    failures of a run. `R` contains the other requirements of a run: the handlers of other tools, the services of tool
    sources, and a `LanguageModel` if the agent has no model.
    """

    name: str
    """The name, for traces and messages."""
    instructions: str | None = None
    """The system prompt."""
    __fx_own__: Binding = Binding()
    """The tools from `make`, and the handlers that they include."""
    model: AnyLayer | None = None
    """The layer for the agent's model, or None to use the model in the context."""
    output: Schema[Any] | None = None
    """The type of the answer, or None for text."""
    budget: Budget = Budget()
    """The limits of a run."""
    __fx_at_limit__: AtLimit = "fail"
    __fx_hooks__: _Hooks = _Hooks()
    __fx_output_retries__: int = OUTPUT_RETRIES
    options: RoundOptions = cast(RoundOptions, FrozenObject())
    """The options for each request, as an immutable dictionary."""
    __fx_extra__: Binding = Binding()
    """The tools from `with_tools`."""
    __fx_without_own__: bool = False
    """True if the agent omits the tools from `make`."""
    remembering: Remembering | None = None
    """The memory, or None."""
    prompt: StatefulPrompt[Any, Any] | None = None
    """The stateful prompt that renders each step, or None."""
    tool_search: ToolSearch | None = None
    """The tool search, or None if each request contains all tools."""
    __fx_changes__: Changes = "auto"
    """The position of a changed instruction, section, or tool in a request. `"auto"` uses the setting of the prompt."""
    compaction: Compaction | None = None
    """The rule that shortens the messages for the model, or None to use the compaction of the prompt."""
    large_results: LargeResults | None = None
    """The rule for large results, or None."""

    if MYPY:  # mypy finds no type in a union with `TypeForm`

        @overload
        @staticmethod
        def make(
            name: str,
            *,
            toolkit: Offered[_F, _T] = _NO_TOOLS,
            prompt: StatefulPrompt[_N3, _F3] = _NO_PROMPT,  # type: ignore[assignment]
            model: LayerOf[LanguageModel, _F2, _L2] = _AROUND,  # type: ignore[assignment]
            **options: Unpack[AgentOptions],
        ) -> Agent[_T, str, RunError | _F | _F2 | _F3, _L2 | _N3]: ...
        @overload
        @staticmethod
        def make(
            name: str,
            *,
            toolkit: Offered[_F, _T] = _NO_TOOLS,
            prompt: StatefulPrompt[_N3, _F3] = _NO_PROMPT,  # type: ignore[assignment]
            model: LayerOf[LanguageModel, _F2, _L2] = _AROUND,  # type: ignore[assignment]
            output: type[_O] | Schema[_O],
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
        def make(name: str, **options: Any) -> Any:  # noqa: D102
            raise NotImplementedError

    else:

        @staticmethod
        def make(
            name: str,
            *,
            toolkit: Offered[_F, _T] = _NO_TOOLS,
            prompt: StatefulPrompt[_N3, _F3] = _NO_PROMPT,
            model: LayerOf[LanguageModel, _F2, _L2] = _AROUND,
            output: TypeForm[_O] | Schema[_O] = str,
            **options: Unpack[AgentOptions],
        ) -> Agent[_T, _O, RunError | _F | _F2 | _F3, _L2 | _N3]:
            """Return a new agent.

            Args:
                name: The agent name. Its tool and its failures have the same name.
                toolkit: The tools for the agent. A toolkit needs its handlers from a layer. A bound toolkit, a tool
                    source, or an MCP server includes its handlers. Default: no tools.
                prompt: A stateful prompt, which renders each step. Its tools follow the tools of `toolkit`, and its
                    sections follow the instructions. Its effects run before `prepare_step`. Default: no prompt.
                model: The layer for the agent's model. fxai builds it before the first request of a run and releases it
                    at the end of the run. Handlers still use the model in the context. Default: the model in the
                    context.
                output: The type of `answer.output`. Default: text.
                options: See `AgentOptions` and `RoundOptions`. A `tool_choice` that requires a call applies to the
                    first step only.

            Raises:
                TypeError: If an option is unknown, or a value has the wrong type. The message states the expected type.
                ValueError: If `at_limit` or `changes` is unknown, the name is empty, or `output_retries` is less than
                    0, or a budget in money has no `max_tokens`.
            """
            if model is not _AROUND:
                check_model(model)
            given = cast("dict[str, Any]", options)
            form: Any = output
            hooks = _Hooks.of(given)
            remedy = "Pass Budget(rounds=…, tokens=…, seconds=…, calls=…)"
            budget = check_option("budget", given.pop("budget", Budget()), Budget, "a Budget", remedy)
            if budget.money is not None and given.get("max_tokens") is None:
                raise ValueError(
                    "max_tokens is missing: a budget in money limits the longest answer. Pass max_tokens=…."
                )
            instructions, mode = given.pop("instructions", None), given.pop("at_limit", "fail")
            if instructions is not None:
                check_option("instructions", instructions, str, "one string", "Join the strings")
            if mode not in get_args(AtLimit):
                raise ValueError(f"at_limit must be one of {', '.join(map(repr, get_args(AtLimit)))}, got {mode!r}")
            retries = check_option("output_retries", given.pop("output_retries", OUTPUT_RETRIES), int, "a number")
            if retries < 0:
                raise ValueError(f"output_retries must be at least 0, got {retries}")
            search, large, shown = given.pop("tool_search", None), given.pop("large_results", None), cast(Any, prompt)
            if large is not None:
                remedy = "Pass LargeResults(ResultStore.in_process())"
                check_option("large_results", large, LargeResults, "a LargeResults", remedy)
            if search is not None:
                from fxai.agents.tool_search import ToolSearch

                check_option("tool_search", search, ToolSearch, "a ToolSearch", "Pass ToolSearch(max_results=…, …)")
            if shown is not None:
                from fxai.agents.stateful import StatefulPrompt

                remedy = "Pass StatefulPrompt.make(name, f), and pass the message of the user to execute"
                check_option("prompt", shown, StatefulPrompt, "a StatefulPrompt", remedy)

            return Agent(
                check_name("agent", name),
                instructions,
                Binding.of((toolkit,)),
                model,
                None if form is None or form is str else Schema[Any].of(form),
                budget,
                mode,
                hooks,
                retries,
                __fx_changes__=check_changes(given.pop("changes", "auto")),
                compaction=check_compaction(given.pop("compaction", None)),
                large_results=large,
                tool_search=search,
                options=round_options(given),
                prompt=prompt,
            )

    @property
    def builder(self) -> Agent[_T_co, _O_co, _E_co, _R_co]:
        """The agent itself. It exists so that programs that use `builder` still work."""
        return self

    @property
    def binding(self) -> Binding:
        """The tools for a run, and the handlers that they include."""
        return self.__fx_extra__ if self.__fx_without_own__ else self.__fx_own__.merge(self.__fx_extra__)

    @property
    def toolkit(self) -> AnyToolkit:
        """The tools from `make`, without tools of sources, because a source lists its tools only while it is open."""
        return self.__fx_own__.toolkit

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools for a run: first the tools from `make`, then the tools from `with_tools`.

        The tuple does not contain the tools of sources, because a source lists its tools only while it is open.
        """
        return self.binding.toolkit.as_tuple

    @property
    def unanswered(self) -> AnyToolkit:
        """The tools without included handlers. Provide their handlers to the run."""
        return self.binding.unanswered

    @override
    def __hash__(self) -> int:
        return hash((self.name, self.instructions, self.binding))  # the options may be unhashable

    @override
    def __repr__(self) -> str:
        tools = f", tools=[{self.__fx_own__}]" if self.__fx_own__.offers else ""
        text = [f"Agent({self.name!r}{tools})"]
        if self.__fx_without_own__:
            text.append("without_tools()")
        if self.__fx_extra__.offers:
            text.append(f"with_tools({self.__fx_extra__})")
        if self.remembering is not None:
            text.append(f"with_memory({self.remembering.memory!r})")
        for name in _Hooks.__struct_fields__:
            text += [f"{name}({hook!r})" for hook in getattr(self.__fx_hooks__, name)]
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
        """Return the agent with more tools, after its present tools. Pass them as arguments, or as a list.

        If you pass the same tool twice, the agent has it once. `with_tools(a).with_tools(b)` equals `with_tools(a, b)`.

        Args:
            tools: Tools, toolkits, function tools, bound toolkits, composites, tool sources, and MCP servers. Tools and
                toolkits need their handlers from a layer; the other kinds include their handlers. fxai opens a source
                for the run and closes it afterwards.
            on_conflict: The tool to keep if two different tools have the same name: `"first"` keeps the earlier tool,
                `"last"` the later tool. Default: `"error"`. If a server adds a tool with a used name during the run,
                fxai omits this tool by default and logs a warning.

        Raises:
            TypeError: If a value is not one of these kinds. The message lists the kinds.
            ValueError: If `on_conflict` is unknown.
            ToolConflictError: If two different tools have the same name. If fxai detects the conflict only after it
                opened the source, the run ends with this error as a defect.
        """
        bound = msgspec.structs.replace(
            self, __fx_extra__=self.__fx_extra__.with_offers(tools, on_conflict=on_conflict)
        )
        try:
            _ = bound.binding
        except ToolConflictError as error:
            raise ToolConflictError(f"{error}; or remove the agent's own tools with without_tools() first") from None
        return bound

    def without_tools(self) -> Agent[Never, _O_co, _E_co, _R_co]:
        """Return the agent without its own tools. It needs no handlers for them. Tools from `with_tools` remain."""
        return cast("Agent[Never, _O_co, _E_co, _R_co]", msgspec.structs.replace(self, __fx_without_own__=True))

    @overload
    def with_memory(
        self, memory: Memory, *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co]: ...
    @overload
    def with_memory(
        self, memory: ServiceKey[_M, Memory], *, auto_append: bool = ...
    ) -> Agent[_T_co, _O_co, _E_co | MemoryFailure, _R_co | _M]: ...
    def with_memory(self, memory: Any, *, auto_append: bool = True) -> Any:
        """Return the agent with a memory instead of its present memory. Its runs load the memory and commit to it.

        A run commits its messages if it succeeded, and, with an output type, if fxai decoded the output. A pending run
        also commits its messages, and the next run continues with only the answers to the pending calls. Pass only new
        messages as the prompt of a run. If the time limit of the budget passes before fxai loads the memory, the run
        ends as `at_limit` states, without the memory, and commits nothing.

        Args:
            memory: A memory, or the key of a memory that a layer provides: `Memory` itself, or a `Tag[Memory]`.
            auto_append: False to commit nothing. Default: True.

        Raises:
            TypeError: If `memory` is neither a memory nor a key.
        """
        if not (isinstance(memory, Memory) or hasattr(memory, "__fx_key__")):
            raise TypeError(f"memory must be a Memory, such as Memory.file(path), or a service key, got {memory!r}")
        return msgspec.structs.replace(self, remembering=Remembering(memory, auto_append))

    # -- hooks

    @overload
    def stop_when(
        self, condition: Callable[[Steps], EffectOf[bool, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def stop_when(self, condition: Callable[[Steps], bool]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def stop_when(self, condition: Any) -> Any:
        """Return the agent with one more stop condition, a predicate of the steps so far. If true, the run ends."""
        return _with_hook(self, "stop_when", condition)

    @overload
    def prepare_step(
        self, prepare: Callable[[StepSetup], EffectOf[StepSetup, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def prepare_step(self, prepare: Callable[[StepSetup], StepSetup]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def prepare_step(self, prepare: Any) -> Any:
        """Return the agent with one more function that can change each step before fxai sends the request.

        The function receives the step with the changes of earlier functions: model, tools, choice, messages, options.
        """
        return _with_hook(self, "prepare_step", prepare)

    @overload
    def on_step(
        self, listener: Callable[[Step], EffectOf[Discarded, _E, _R]]
    ) -> Agent[_T_co, _O_co, _E_co | _E, _R_co | _R]: ...
    @overload
    def on_step(self, listener: Callable[[Step], None]) -> Agent[_T_co, _O_co, _E_co, _R_co]: ...
    def on_step(self, listener: Any) -> Any:
        """Return the agent with one more function that receives each finished step before the run continues."""
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
        """Return the agent as a tool for another agent. Each call starts a run and returns its answer. See `SubAgent`.

        Args:
            name: The tool name. Default: the agent name.
            parameters: The type of the tool's parameters. Default: `prompt`, a string that the agent receives.
            prompt: A function that converts the parameters to the prompt of a run.
            options: The options for the tool, see `ToolOptions`. By default, the model receives a failure.

        Raises:
            SchemaError: If you pass only one of `parameters` and `prompt`.
        """
        return sub_agent_of(self, name, parameters, prompt, options)

    def __fx_runs__(self) -> AgentTypes[_T_co, _O_co, _E_co, _R_co | None]:
        """Declare the types of the agent for type checkers."""
        raise NotImplementedError

    # -- the run

    def execute(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> EffectOf[Answer[_O_co], _E_co, _T_co | _R_co | None]:
        """Return an effect that calls the model until a turn calls no tool, and succeeds with the answer to `prompt`.

        Args:
            prompt: The message from the user, or a history to continue.
            state: The initial state of a stateful prompt, such as `answer.state` of the previous run. Default: the
                state in the memory, or otherwise the initial values.

        The effect fails with `BudgetExceeded` if the run exhausts the budget, with `AiError` if the model fails, and
        with a `ToolError` if a handler fails in failure mode `"error"`. `BudgetExceeded` and `ToolError` contain the
        history. With a memory, the effect can fail with `MemoryFailure`; with a source, with failures of the source.
        """
        return _execution(self, state).answer(prompt)

    def stream(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> StreamOf[StreamPart, _E_co, _T_co | _R_co | None]:
        """Return a stream of the parts of the answer to `prompt`. Each step ends with its `finish` part.

        If you stop reading early, fxai stops the model and the handlers, closes the sources, and commits nothing. The
        stream fails with the same failures as `execute`.
        """
        return _execution(self, state).parts(prompt)

    def stream_object(
        self, prompt: PromptInput, *, state: PromptState | None = None
    ) -> StreamOf[AnswerPart[_O_co], _E_co, _T_co | _R_co | None]:
        """Return a stream of the typed output while the model writes it. The last part has the `answer` of the run.

        Each part has the JSON value so far as `partial`. Within a turn, each partial is a beginning of the next
        partial, and each complete member satisfies its schema. If a member is invalid, no more partials of this turn
        follow. The run then requests a correction as `execute` does, and the parts of the next turn start again.

        The stream fails with the same failures as `execute`.

        Raises:
            TypeError: If the agent has no `output`.
        """
        if self.output is None:
            raise TypeError(f"agent {self.name!r} has no output type. Pass `output` to Agent.make, or use `stream`.")
        return _execution(self, state).objects(prompt, self.output)

    @cached_property
    def __fx_execution__(self) -> Execution:
        """The plan of the runs of the agent, which they share."""
        binding, hooks, prompt, changes = self.binding, self.__fx_hooks__, self.prompt, self.__fx_changes__
        if binding.is_fixed and prompt is None:
            if hooks.stop_when and not self.__fx_without_own__:
                _check_stops(self.name, hooks.stop_when, binding.toolkit.tools)
            if self.tool_search is not None:
                self.tool_search.check(self.name, binding.toolkit.tools)
        plan = RunPlan(
            binding.toolkit,
            self.options,
            self.budget,
            hooks.stop_when,
            self.__fx_at_limit__,
            hooks.prepare_step,
            hooks.on_step,
            self.output,
            self.__fx_output_retries__,
            without_own=self.__fx_without_own__,
            tool_search=self.tool_search,
            prompt=None if prompt is None else prompt.plan(),
            changes=prompt.changes if changes == "auto" and prompt is not None else changes,
            large_results=self.large_results,
            compaction=self.compaction or (None if prompt is None else prompt.compaction),
        )
        opened = None if binding.is_plain else binding
        return Execution(self.name, plan, opened, self.instructions, self.model, self.remembering)


AnyAgent: TypeAlias = Agent[Any, Any, Any, Any]
"""An agent with unchecked types."""

AgentBuilder = Agent
"""Another name for `Agent`, the type that `with_tools`, `without_tools`, `with_memory`, and the hooks return."""


def with_only(agent: AnyAgent, tools: Any) -> AnyAgent:
    """Return the agent with the given tools instead of all its tools, and with the model in the context."""
    bare = msgspec.structs.replace(agent, model=None, __fx_without_own__=True, __fx_extra__=Binding())
    return bare.with_tools(tools)


def _execution(agent: AnyAgent, state: PromptState | None) -> Execution:
    execution = agent.__fx_execution__
    if state is None:
        return execution
    if agent.prompt is None:
        raise TypeError(f"agent {agent.name!r} has no stateful prompt. Remove `state`, or pass a prompt to Agent.make.")
    plan = msgspec.structs.replace(execution.plan, prompt=agent.prompt.plan(state))
    return msgspec.structs.replace(execution, plan=plan)


def _check_stops(name: str, conditions: Iterable[object], tools: Mapping[str, object]) -> None:
    """Raise if a stop condition names a tool that no step can call, because the run would never stop."""
    for condition in conditions:
        for tool in condition.names if isinstance(condition, HasToolCall) else ():
            if tool not in tools:
                message = f"has_tool_call({tool!r}): agent {name!r} has no tool {tool!r}{nearest_name(tool, tools)}"
                raise ValueError(f"{message}. Use one of: {', '.join(tools) or 'no tools'}.")


def _with_hook(agent: AnyAgent, name: str, hook: Any) -> Any:
    if not callable(hook):
        raise TypeError(f"{name} must be a function, got {hook!r}")
    hooks = msgspec.structs.replace(agent.__fx_hooks__, **{name: (*getattr(agent.__fx_hooks__, name), hook)})
    return msgspec.structs.replace(agent, __fx_hooks__=hooks)
