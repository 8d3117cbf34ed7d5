"""Options of runs: budgets, stop conditions, how a step is prepared, and how the rounds of an agent are asked.

>>> options = Options({"temperature": 0, "stop": ("END",)})
>>> options["temperature"], dict(options)
(0, {'temperature': 0, 'stop': ('END',)})
>>> setup = StepSetup(1, Steps([]), Prompt.make("Hello"), Toolkit.empty(), {})
>>> setup.with_choice("none").with_options(temperature=0).options
{'tool_choice': 'none', 'temperature': 0}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Never, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeAliasType, TypeIs, TypeVar, Unpack, override

from fxai.agents.answer import Step, Steps
from fxai.agents.change import Changes
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.mistake import Discarded
from fxai.messages.errors import AiError
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import RoundOptions, ToolChoices
from fxai.schema.data import frozen
from fxai.tools.toolkit import Toolkit

_H = TypeVar("_H")
_E = TypeVar("_E", default=Never)
_R = TypeVar("_R", default=None)

# -- budgets

AtLimit: TypeAlias = Literal["fail", "answer", "last_text"]
"""What becomes of a run whose budget is spent before it is done.

`fail`: it fails with `BudgetExceeded`. `answer`: the model is asked once more, and may call no tool. `last_text`: it
ends with the last text of the model.
"""


@final
class Budget(msgspec.Struct, frozen=True):
    """How much one run may take. A run that is done within it is not touched; one that goes on beyond it is cut.

    A run that goes on from a history counts anew.
    """

    rounds: int = 10
    """How often the model is asked; 10 by default."""
    tokens: int | None = None
    """Tokens in and out of all rounds together, as far as the provider counts them. When they are spent the model is
    not asked again; the round that spends them may take more."""
    seconds: float | None = None
    """The time that the run may take, by the `Clock`, from when the sources of its tools are opened and its memory is
    loaded. A request or a call that is under way when it is up is cut; handlers find the time of that in their
    `deadline`."""
    calls: int | None = None
    """How many calls of tools are run; those beyond it are not. Calls that the history approved, that the provider runs
    or that are answered outside do not count."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"a budget of {self.rounds} rounds would never ask the model: allow one at least")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"a budget of {self.tokens} tokens would never ask the model: allow one at least")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"a budget of {self.seconds} s is over before the run begins: allow more than none")
        if self.calls is not None and self.calls < 0:
            raise ValueError(f"a budget of {self.calls} calls: there are no fewer than none")


# -- stop conditions

StopCondition = TypeAliasType("StopCondition", Callable[[Steps], bool | EffectOf[bool, _E, _R]], type_params=(_E, _R))
"""Whether a run ends after the steps that it is given: any predicate of them, or an effect of the answer."""


@final
class StepCountIs(msgspec.Struct, frozen=True):
    """The condition that there were `number` steps; `step_count_is` makes it."""

    number: int

    def __call__(self, steps: Steps) -> bool:
        """Whether there were as many."""
        return len(steps) >= self.number


@final
class HasToolCall(msgspec.Struct, frozen=True):
    """The condition that the last step called one of some tools; `has_tool_call` makes it."""

    names: tuple[str, ...]

    def __call__(self, steps: Steps) -> bool:
        """Whether it did."""
        return any(call.name in self.names for call in steps[-1].calls)


def step_count_is(number: int) -> StepCountIs:
    """The condition that ends a run after `number` steps, with what there is: unlike a budget, which is a failure.

    Raises:
        ValueError: a run has one step at least.
    """
    if number < 1:
        raise ValueError(f"a run cannot stop after {number} steps: it has one at least")
    return StepCountIs(number)


def has_tool_call(*names: str) -> HasToolCall:
    """The condition that ends a run after a step that called one of these tools; the call is run.

    Raises:
        ValueError: no name is given.
        TypeError: something else is given.
    """
    if not names:
        raise ValueError("has_tool_call needs the name of a tool at least: without one it would never hold")
    for name in names:
        if not isinstance(cast(object, name), str):
            raise TypeError(f"has_tool_call takes the names of tools, one by one, not {name!r}")
    return HasToolCall(names)


# -- before and after a step


@final
class StepSetup(msgspec.Struct, frozen=True, eq=False):
    """How one step is asked. A change holds for this step alone, and does not change the history."""

    number: int
    """Which step, from 1."""
    steps: Steps
    """The steps before it."""
    messages: Prompt
    """The messages that the model is shown."""
    toolkit: Toolkit[Any]
    """The tools that it may call."""
    options: RoundOptions
    """How it is asked; after the first step no longer with a `tool_choice` that demands a call."""
    model: LayerOf[LanguageModel, AiError, None] | None = None
    """The model that is asked; None for the one of the run."""
    handlers: LayerOf[Any, Any, Any] | None = None
    """Handlers that are there for this step alone; None where all are around."""

    def with_model(self, model: LayerOf[LanguageModel, AiError, None]) -> StepSetup:
        """The same, asked of the model of a layer: built when it is first asked, and released with the run.

        Handlers keep the model of the run.

        Raises:
            TypeError: it is no layer.
        """
        check_model(model)
        return msgspec.structs.replace(self, model=model)

    def with_tools(self, toolkit: Toolkit[Any]) -> StepSetup:
        """The same with these tools: some of the run's, such as `setup.toolkit.pick("search")`.

        The handlers of others must be there: no type says so.

        Raises:
            TypeError: it is no toolkit.
        """
        if not isinstance(cast(object, toolkit), Toolkit):
            raise TypeError(f"the tools of a step are a toolkit, not {toolkit!r}: say Toolkit.make(…), or pick some")
        return msgspec.structs.replace(self, toolkit=toolkit)

    def with_choice(self, choice: ToolChoices) -> StepSetup:
        """The same with a tool choice."""
        return msgspec.structs.replace(self, options={**self.options, "tool_choice": choice})

    def with_messages(self, messages: PromptInput) -> StepSetup:
        """The same, where the model is shown other messages: a shorter history, say.

        A step that is shown a call without its result, or a result without its call, fails before the model is asked.
        """
        return msgspec.structs.replace(self, messages=Prompt.make(messages))

    def with_options(self, **options: Unpack[RoundOptions]) -> StepSetup:
        """The same with these options; the others stay.

        Raises:
            TypeError: there is no option of a name.
        """
        unknown = ", ".join(sorted(map(repr, set(options).difference(RoundOptions.__annotations__))))
        if unknown:
            known = ", ".join(sorted(RoundOptions.__annotations__))
            raise TypeError(f"rounds have no option {unknown}: there are {known}")
        return msgspec.structs.replace(self, options={**self.options, **options})


PrepareStep = TypeAliasType(
    "PrepareStep", Callable[[StepSetup], StepSetup | EffectOf[StepSetup, _E, _R]], type_params=(_E, _R)
)
"""Changes a step before it is asked: takes its setup, and gives the one that holds, or an effect of it."""

OnStep = TypeAliasType("OnStep", Callable[[Step], EffectOf[Discarded, _E, _R] | None], type_params=(_E, _R))
"""A listener of finished steps: takes each before the run goes on, and gives None, or an effect, which is run.

An effect that fails, fails the run; an exception, which is a bug of the listener, is logged, and the run goes on.
"""


def check_model(model: object) -> None:
    """Refuses what is no layer of a model.

    Raises:
        TypeError: it is something else; the message says what to give.
    """
    if isinstance(model, LayerOf):
        return
    if isinstance(model, str):
        remedy = f"from_name({model!r}) of fxai.providers gives that of a model by its name"
    else:
        remedy = "it has one, its `.layer`" if hasattr(model, "layer") else "such as fxai.providers gives"
    raise TypeError(f"model={model!r} is no layer of a model: {remedy}")


def is_effect(given: Any) -> TypeIs[EffectOf[Any, Any, Any]]:
    """Whether a value of a hook has to be run first."""
    return isinstance(given, EffectOf)


# -- what Agent.make takes

Hook: TypeAlias = "_H | Sequence[_H]"
"""A function, or several, which are called in order."""


class AgentOptions(RoundOptions, total=False):
    """The options of an agent beside name, tools, model and output, with those of its rounds (`RoundOptions`)."""

    instructions: str | None
    """The system prompt; none by default."""
    budget: Budget
    """How much one run may take; 10 rounds by default."""
    at_limit: AtLimit
    """How a run ends whose budget is spent: it fails (`"fail"`, the default), answers, or ends with its last text."""
    stop_when: Hook[StopCondition]
    """Conditions that end a run early; one that may fail or needs a service is added by `agent.stop_when`."""
    prepare_step: Hook[PrepareStep]
    """Functions that change each step before it is asked; one that may fail or needs a service is added by
    `agent.prepare_step`."""
    on_step: Hook[OnStep]
    """Listeners of finished steps; one that may fail or needs a service is added by `agent.on_step`."""
    changes: Changes
    """The place where a request shows a change of instructions, sections or tools during a conversation: `"rewrite"`,
    `"append"`, or by the facts of the model (`"auto"`, the default)."""
    output_retries: int
    """How often an output that does not fit is asked for again, with what is wrong with it; 2 by default."""


@final
class Options(Mapping[str, Any]):
    """The options of rounds, immutable: lists and objects in them are frozen."""

    __slots__ = ("_given",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Keep them.

        Raises:
            TypeError: there is no option of a name.
        """
        unknown = set(given) - set(RoundOptions.__annotations__)
        if unknown:
            named = ", ".join(sorted(map(repr, unknown)))
            known = ", ".join(sorted(AgentOptions.__annotations__))
            raise TypeError(f"agents have no option {named}: there are {known}")
        self._given = {name: frozen(value) for name, value in given.items()}

    def to_round(self) -> RoundOptions:
        """The options as a round takes them."""
        return cast(RoundOptions, dict(self._given))

    @override
    def __getitem__(self, name: str) -> Any:
        return self._given[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    @override
    def __len__(self) -> int:
        return len(self._given)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._given == other._given

    @override
    def __hash__(self) -> int:
        return hash(tuple(sorted(self._given)))  # the values may be plain data

    @override
    def __reduce__(self) -> tuple[type[Options], tuple[dict[str, Any]]]:
        return Options, (self._given,)

    @override
    def __repr__(self) -> str:
        return f"Options({self._given!r})"
