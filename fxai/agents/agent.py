"""Agents: a model with instructions and tools, asked until it is done.

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

from typing import Any, Generic, Never, cast, final, get_args, overload

from typing_extensions import TypeVar, Unpack, override

from fxai.agents.binding import Binding, Offered
from fxai.agents.budget import AtLimit, Budget
from fxai.agents.builder import AgentBuilder, Bindable, Hooks
from fxai.agents.failure import RunError
from fxai.agents.options import AgentOptions, Options
from fxai.agents.plan import OUTPUT_RETRIES
from fxai.agents.step_setup import check_model
from fxai.effects.layer import LayerOf
from fxai.models.language_model import LanguageModel
from fxai.schema.codec import Schema
from fxai.schema.data import is_listed
from fxai.tools.toolkit import Toolkit

__all__ = ["Agent"]

_T = TypeVar("_T", default=Never)
_O = TypeVar("_O", default=str)
_E = TypeVar("_E", default=Never)
_E2 = TypeVar("_E2", default=Never)
_R2 = TypeVar("_R2", default=None)
_T_co = TypeVar("_T_co", covariant=True, default=Never)
_O_co = TypeVar("_O_co", covariant=True, default=str)
_E_co = TypeVar("_E_co", covariant=True, default=RunError)
_R_co = TypeVar("_R_co", covariant=True, default=LanguageModel | None)

_NO_TOOLS: Toolkit[Never] = Toolkit.empty()


@final
class Agent(Bindable[_T_co, _O_co, _E_co, _R_co], Generic[_T_co, _O_co, _E_co, _R_co], frozen=True):
    """A model with instructions and tools, as a value: it never changes, and one agent may run many times at once.

    `T` is the union of the handlers that its tools need, `O` its output, `E` what a run fails with, and `R` what else a
    run needs: a `LanguageModel`, unless it has a model of its own.
    """

    name: str
    instructions: str | None = None
    """What it is told before everything else, as the system prompt."""
    binding: Binding = Binding()
    """The tools that it may call, with what comes along."""
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

    @overload
    @staticmethod
    def make(
        name: str, *, toolkit: Offered[_E, _T] = ..., **options: Unpack[AgentOptions]
    ) -> Agent[_T, str, RunError | _E]: ...
    @overload
    @staticmethod
    def make(
        name: str, *, toolkit: Offered[_E, _T] = ..., output: type[_O] | Schema[_O], **options: Unpack[AgentOptions]
    ) -> Agent[_T, _O, RunError | _E]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_E, _T] = ...,
        model: LayerOf[LanguageModel, _E2, _R2],
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, str, RunError | _E | _E2, _R2]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        toolkit: Offered[_E, _T] = ...,
        model: LayerOf[LanguageModel, _E2, _R2],
        output: type[_O] | Schema[_O],
        **options: Unpack[AgentOptions],
    ) -> Agent[_T, _O, RunError | _E | _E2, _R2]: ...
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
    @override
    def builder(self) -> AgentBuilder[_T_co, _O_co, _E_co, _R_co]:
        """The builder that binds nothing: it runs as the agent does."""
        return AgentBuilder(self)

    @property
    def toolkit(self) -> Toolkit[Any]:
        """Its own tools; those of a source are known only once it is open, and not among them."""
        return self.binding.toolkit

    @override
    def __repr__(self) -> str:
        tools = f", tools=[{self.binding}]" if self.binding.offers else ""
        return f"Agent({self.name!r}{tools})"


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
