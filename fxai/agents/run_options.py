"""Options for runs: define budgets, stop conditions, and step hooks. Use this module to configure an agent.

>>> setup = StepSetup(1, Steps([]), Prompt.make("Hello"), Toolkit.empty(), {})
>>> setup.with_choice("none").with_options(temperature=0).options
{'tool_choice': 'none', 'temperature': 0}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeAliasType, TypeIs, TypeVar, Unpack

from fxai.agents.answer import Step, Steps
from fxai.agents.change import Changes
from fxai.agents.large_result import LargeResults
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.mistake import Discarded
from fxai.messages.errors import AiError
from fxai.messages.prompt import Prompt, PromptInput
from fxai.models.compaction import Compaction
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import RoundOptions, ToolChoices
from fxai.models.price import Price
from fxai.schema.data import frozen
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.agents.tool_search import ToolSearch

_H = TypeVar("_H")
_K = TypeVar("_K")
_E = TypeVar("_E", default=Never)
_R = TypeVar("_R", default=None)

# -- budgets

AtLimit: TypeAlias = Literal["fail", "answer", "last_text"]
"""The end of a run that exhausted its budget.

`fail`: the run fails with `BudgetExceeded`. `answer`: the model receives one more request without tool calls.
`last_text`: the run ends with the last text of the model.
"""


@final
class Budget(msgspec.Struct, frozen=True):
    """The limits for a run. A run within its limits is not affected. fxai stops a run that exceeds a limit.

    A run that continues a history starts to count from zero.
    """

    rounds: int = 10
    """Maximum number of requests. Default: 10."""
    tokens: int | None = None
    """Maximum number of input and output tokens in all steps, if the provider counts them. After the limit, fxai stops
    sending requests. With the option `max_tokens`, fxai counts each request before it sends the request, and stops if
    its input and its longest answer could exceed the limit. Otherwise, the last step can exceed the limit."""
    seconds: float | None = None
    """Maximum duration in seconds by the `Clock`. It includes the time to open tool sources and to load the memory. At
    the end, fxai stops the current request or call. Handlers find the end in their `deadline`."""
    calls: int | None = None
    """Maximum number of tool calls. fxai does not run more calls. Approved calls of the history, calls that the
    provider runs, and external calls do not count."""
    money: Decimal | str | int | None = None
    """Maximum cost of all steps by `price`, such as `"0.50"`. fxai stops before a request whose input and longest
    answer could exceed it. It requires `price` and the option `max_tokens`."""
    price: Price | None = None
    """The price of the model for `money`."""

    def __post_init__(self) -> None:
        if (self.money is None) != (self.price is None):
            raise ValueError('money and price belong together. Pass Budget(money="0.50", price=Price.per_million(…)).')
        if self.money is not None:
            from fxai.models.price import amount_of  # few budgets limit money

            msgspec.structs.force_setattr(self, "money", amount_of(self.money, "money of a budget"))
            if not cast("Decimal", self.money) > 0:
                raise ValueError(f"money must be greater than 0, got {self.money}")
        for name, given, least in (("rounds", self.rounds, 1), ("tokens", self.tokens, 1), ("calls", self.calls, 0)):
            if given is not None and given < least:
                raise ValueError(f"{name} must be at least {least}, got {given}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be greater than 0, got {self.seconds}")


# -- stop conditions

StopCondition = TypeAliasType("StopCondition", Callable[[Steps], bool | EffectOf[bool, _E, _R]], type_params=(_E, _R))
"""A predicate of the steps so far, or an effect of its result. If it is true, the run ends."""


@final
class StepCountIs(msgspec.Struct, frozen=True):
    """The condition that the run has at least `number` steps. Create it with `step_count_is`."""

    number: int

    def __call__(self, steps: Steps) -> bool:
        """Return whether the run has at least `number` steps."""
        return len(steps) >= self.number


@final
class HasToolCall(msgspec.Struct, frozen=True):
    """The condition that the last step called one of these tools. Create it with `has_tool_call`."""

    names: tuple[str, ...]
    """The names of the tools."""

    def __call__(self, steps: Steps) -> bool:
        """Return whether the last step called one of these tools."""
        return any(call.name in self.names for call in steps[-1].calls)


def step_count_is(number: int) -> StepCountIs:
    """Return a condition that ends a run after `number` steps. Unlike a budget, this end is not a failure.

    Raises:
        ValueError: If `number` is less than 1.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, got {number}")
    return StepCountIs(number)


def has_tool_call(*names: str) -> HasToolCall:
    """Return a condition that ends a run after a step that called one of these tools. The call still runs.

    Raises:
        ValueError: If you pass no name.
        TypeError: If a name is not a string.
    """
    if not names:
        raise ValueError("has_tool_call needs at least one tool name, because without a name it is never true")
    for name in names:
        if not isinstance(cast(object, name), str):
            raise TypeError(f"tool name must be a string, got {name!r}. Pass has_tool_call(name, …).")
    return HasToolCall(names)


# -- before and after a step


@final
class StepSetup(msgspec.Struct, frozen=True, eq=False):
    """The setup of a step before its request. A change applies to this step only and does not change the history."""

    number: int
    """The number of the step, from 1."""
    steps: Steps
    """The earlier steps."""
    messages: Prompt
    """The messages in the request."""
    toolkit: AnyToolkit
    """The tools in the step."""
    options: RoundOptions
    """The options of the request. After the first step, they no longer contain a `tool_choice` that requires a call."""
    model: LayerOf[LanguageModel, AiError, None] | None = None
    """The model of the step, or None for the model of the run."""
    handlers: AnyLayer | None = None
    """Handlers for this step only, or None if the context provides all handlers."""

    def with_model(self, model: LayerOf[LanguageModel, AiError, None]) -> StepSetup:
        """Return the setup with the model of a layer. Handlers still use the model of the run.

        fxai builds the model before its first request and releases it at the end of the run.

        Raises:
            TypeError: If `model` is not a layer.
        """
        check_model(model)
        return msgspec.structs.replace(self, model=model)

    def with_tools(self, toolkit: AnyToolkit) -> StepSetup:
        """Return the setup with these tools, such as some tools of the run: `setup.toolkit.pick("search")`.

        For other tools, the context must provide the handlers. Type checkers cannot verify this.

        Raises:
            TypeError: If `toolkit` is not a toolkit.
        """
        if not isinstance(cast(object, toolkit), Toolkit):
            raise TypeError(f"toolkit must be a Toolkit, got {toolkit!r}. Pass Toolkit.make(…), or pick some tools.")
        return msgspec.structs.replace(self, toolkit=toolkit)

    def with_choice(self, choice: ToolChoices) -> StepSetup:
        """Return the setup with a tool choice."""
        return msgspec.structs.replace(self, options={**self.options, "tool_choice": choice})

    def with_messages(self, messages: PromptInput) -> StepSetup:
        """Return the setup with other messages for the model, such as a shorter history.

        If the messages contain a call without its result, or a result without its call, the step fails before the
        request.
        """
        return msgspec.structs.replace(self, messages=Prompt.make(messages))

    def with_options(self, **options: Unpack[RoundOptions]) -> StepSetup:
        """Return the setup with these options in addition to its other options.

        Raises:
            TypeError: If an option is unknown.
        """
        unknown = ", ".join(sorted(map(repr, set(options).difference(RoundOptions.__annotations__))))
        if unknown:
            known = ", ".join(sorted(RoundOptions.__annotations__))
            raise TypeError(f"unknown round option {unknown}. Use one of: {known}.")
        return msgspec.structs.replace(self, options={**self.options, **options})


PrepareStep = TypeAliasType(
    "PrepareStep", Callable[[StepSetup], StepSetup | EffectOf[StepSetup, _E, _R]], type_params=(_E, _R)
)
"""A function that changes the setup of a step before its request. It returns the new setup, or an effect of it."""

OnStep = TypeAliasType("OnStep", Callable[[Step], EffectOf[Discarded, _E, _R] | None], type_params=(_E, _R))
"""A listener that receives each finished step before the run continues. It returns None or an effect to run.

If the effect fails, the run fails. An exception is a bug of the listener. fxai logs it, and the run continues.
"""


def check_option(name: str, given: object, kind: type[_K], expected: str, remedy: str = "") -> _K:
    """Return the value of an option.

    Raises:
        TypeError: If it has another type than `kind`. The message contains the expected value and the remedy.
    """
    if isinstance(given, kind):
        return given
    raise TypeError(f"{name} must be {expected}, got {given!r}" + (f". {remedy}." if remedy else ""))


def check_name(kind: str, given: object) -> str:
    """Return the name of an agent or a prompt.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it is empty.
    """
    if not check_option(f"{kind} name", given, str, "a string"):
        raise ValueError(f"{kind} name must be a string that is not empty, got ''")
    return cast(str, given)


def check_model(model: object) -> None:
    """Raise if a value is not a layer for a model.

    Raises:
        TypeError: If it is another value. The message states the remedy.
    """
    if isinstance(model, LayerOf):
        return
    if isinstance(model, str):
        remedy = f"Pass from_name({model!r}) of fxai.providers"
    else:
        remedy = "Pass its `.layer`" if hasattr(model, "layer") else "Pass a layer of fxai.providers"
    raise TypeError(f"model must be a layer of a model, got {model!r}. {remedy}.")


def is_effect(given: Any) -> TypeIs[AnyEffect]:
    """Return whether the value of a hook is an effect."""
    return isinstance(given, EffectOf)


# -- options of Agent.make

Hook: TypeAlias = "_H | Sequence[_H]"
"""A function, or a list of functions."""


class AgentOptions(RoundOptions, total=False):
    """The options for an agent and its requests (`RoundOptions`), without its name, tools, model, and output."""

    instructions: str | None
    """The system prompt. Default: None."""
    budget: Budget
    """The limits for a run. Default: 10 rounds."""
    at_limit: AtLimit
    """The end of a run that exhausted its budget: `"fail"` (the default), `"answer"`, or `"last_text"`."""
    stop_when: Hook[StopCondition]
    """Conditions that end a run early. If a condition can fail or needs a service, add it with `agent.stop_when`."""
    prepare_step: Hook[PrepareStep]
    """Functions that change each step before its request. If a function can fail or needs a service, add it with
    `agent.prepare_step`."""
    on_step: Hook[OnStep]
    """Listeners of finished steps. If a listener can fail or needs a service, add it with `agent.on_step`."""
    changes: Changes
    """The position of a changed instruction, section, or tool in a request: `"rewrite"`, `"append"`, or `"auto"` (the
    default), which depends on the facts about the model."""
    tool_search: ToolSearch | None
    """The search of tools among hundreds. Default: None, and each request contains all tools."""
    compaction: Compaction | None
    """The rule that shortens the messages for the model in a long conversation. Default: None."""
    large_results: LargeResults | None
    """The rule for large results: the model receives a preview and a handle. Default: None."""
    output_retries: int
    """Maximum number of requests to correct an invalid output. Each request lists the validation errors. Default: 2."""


def round_options(given: Mapping[str, Any]) -> RoundOptions:
    """Return the options of an agent's requests, immutable. Raise `TypeError` if an option is unknown."""
    unknown = given.keys() - RoundOptions.__annotations__.keys()
    if unknown:
        named, known = (", ".join(sorted(names)) for names in (map(repr, unknown), AgentOptions.__annotations__))
        raise TypeError(f"unknown agent option {named}. Use one of: {known}.")
    return cast(RoundOptions, frozen(dict(given)))
