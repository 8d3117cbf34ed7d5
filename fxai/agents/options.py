"""Options: how the rounds of an agent are asked, and how its runs go.

>>> options = Options({"temperature": 0, "stop": ("END",)})
>>> options["temperature"], dict(options)
(0, {'temperature': 0, 'stop': ('END',)})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast, final

from typing_extensions import TypeVar, override

from fxai.agents.budget import AtLimit, Budget
from fxai.agents.step_setup import OnStep, PrepareStep
from fxai.agents.stop import StopCondition
from fxai.models.language_model import RoundOptions
from fxai.schema.data import frozen

__all__ = ["AgentOptions", "Hook", "Options"]

_H = TypeVar("_H")

Hook: TypeAlias = "_H | Sequence[_H]"
"""One, or several, which are asked in order."""


class AgentOptions(RoundOptions, total=False):
    """What an agent takes beside name, tools, model and output, and each option of its rounds (`RoundOptions`)."""

    instructions: str | None
    """What it is told before everything else, as the system prompt; none by default."""
    budget: Budget
    """How much one run may take; 10 rounds by default."""
    at_limit: AtLimit
    """What becomes of a run whose budget is spent: it fails (`"fail"`, the default), answers, or ends with its last
    text."""
    stop_when: Hook[StopCondition]
    """Conditions that end a run early; those that fail or need something are the builder's, `stop_when`."""
    prepare_step: Hook[PrepareStep]
    """What changes how a step is asked; those that fail or need something are the builder's, `prepare_step`."""
    on_step: Hook[OnStep]
    """What is told each finished step; those that fail or need something are the builder's, `on_step`."""
    output_retries: int
    """How often an output that does not fit is told to the model and asked for again; 2 by default."""


@final
class Options(Mapping[str, Any]):
    """The options of rounds, which nobody can change: lists and objects in them are frozen."""

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
        """They as a round takes them."""
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
