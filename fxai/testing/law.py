"""Laws are statements that are true for every tool, toolkit, or handler. The checks of `fxai.testing` use this module.

Hypothesis generates the data for a law and shrinks a counterexample. `LawError` contains the law, the smallest data as
JSON, the location, the finding, and the remedy.

>>> def is_short(word: str) -> Break | None:
...     return Break(word, "", "it is long", "keep it short") if len(word) > 3 else None
>>> from hypothesis import strategies as st
>>> Trial(max_examples=200, seed=1).find_break(st.text("ab"), is_short).value
'aaaa'
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from math import ceil
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.schema.data import copy_data

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_A = TypeVar("_A")
_BATCH: Final = 10  # the most values of one run, because a run of Hypothesis costs more than a value
_MOST_VALUES: Final = 10_000  # values that a trial stores for further laws


@final
class Break(msgspec.Struct, frozen=True):
    """A counterexample of a law."""

    value: Any
    """The data, as a JSON value if possible."""
    where: str
    """The location as a JSON pointer. `""` is the whole value."""
    found: str
    """The finding at the location."""
    remedy: str
    """The remedy."""

    @property
    def json(self) -> str:
        """The data as JSON, or its repr if JSON cannot represent it."""
        try:
            return msgspec.json.encode(self.value).decode()
        except (TypeError, ValueError, RecursionError):
            return repr(self.value)

    @override
    def __hash__(self) -> int:
        return hash((self.json, self.where, self.found))


class LawError(AssertionError):
    """An error for a false law, with the smallest counterexample.

    Its arguments are the subject (`"the tool 'add'"`), the statement of the law, and the break.
    """

    @property
    def subject(self) -> str:
        """The tool, toolkit, or layer that breaks the law."""
        return str(self.args[0])

    @property
    def law(self) -> str:
        """The statement of the law."""
        return str(self.args[1])

    @property
    def broken(self) -> Break:
        """The counterexample with its location, finding, and remedy."""
        broken: Break = self.args[2]
        return broken

    @override
    def __str__(self) -> str:
        """Return up to five lines: subject and law, data, location, finding, and remedy."""
        lines = [f"{self.subject} breaks a law: {self.law}", f"  with:  {self.broken.json}"]
        if self.broken.where:
            lines.append(f"  at:    {self.broken.where}")
        return "\n".join([*lines, f"  found: {self.broken.found}", f"  do:    {self.broken.remedy}"])


class OneSidedLawWarning(UserWarning):
    """A warning for a law that is checked in one direction only, because of a pydantic validator or serializer.

    The message contains the subject, the direction, and the type.
    """


class TrialOptions(TypedDict, total=False):
    """The fields of `Trial` as keyword arguments."""

    max_examples: int
    seed: int | None
    derandomize: bool


@final
class Trial(msgspec.Struct, frozen=True, eq=False):
    """The effort for a law, and the data that several laws share."""

    max_examples: int = 100
    """Number of generated examples, rounded up to full batches of at most 10. Default: 100."""
    seed: int | None = None
    """Seed of the generator, for repeatable data. Default: None, a new seed each time."""
    derandomize: bool = False
    """True to generate the same data each time, with any seed. Default: False."""
    _new_seed: int = msgspec.field(default_factory=lambda: randbits(64))
    _drawn: dict[tuple[SearchStrategy[Any], int], list[Any]] = msgspec.field(default_factory=dict[Any, list[Any]])

    def part(self) -> Trial:
        """Return the effort of a law that tests fxai rather than your tool: a quarter of the examples."""
        return msgspec.structs.replace(self, max_examples=ceil(self.max_examples / 4))

    def values_of(self, data: SearchStrategy[_A]) -> list[_A]:
        """Return the data that a law has received from a strategy."""
        return self._drawn.get((data, self.max_examples), [])

    def find_break(self, data: SearchStrategy[_A], law: Callable[[_A], Break | None]) -> Break | None:
        """Return the smallest break, or None.

        Hypothesis generates the data of a strategy for the first law. Later laws receive the same data, and Hypothesis
        generates it again only if one of them breaks, to find the smallest break.

        Raises:
            NoExamplesError: If the strategy generates no data.
        """
        first: Break | None = None
        if known := self.values_of(data):
            with suppress(Exception):  # Hypothesis raises it again, for the smallest data
                first = next(filter(None, map(law, map(copy_data, known))), None)
                if first is None:
                    return None
        drawn: list[_A] = []

        def note(value: _A) -> Break | None:
            drawn.append(copy_data(value))
            return law(value)

        try:
            found = self._search(data, note, min(max(self.max_examples // _BATCH, 1), _BATCH))
        except NoExamplesError:
            found = self._search(data, note, 1)  # a filter rejects a batch more often than a value
        if found is None and first is None:
            self._drawn[data, self.max_examples] = drawn
            while sum(map(len, self._drawn.values())) > _MOST_VALUES:
                del self._drawn[next(iter(self._drawn))]
        return found or (first and _now_and_then(first))

    def _search(self, data: SearchStrategy[_A], law: Callable[[_A], Break | None], batch: int) -> Break | None:
        """Return the smallest break, or None. One run of Hypothesis draws a batch, and stops at the first break."""
        import hypothesis
        from hypothesis import strategies as st
        from hypothesis.errors import Flaky, Unsatisfiable

        last: list[Break] = []

        @st.composite
        def first_break(draw: Callable[[SearchStrategy[_A]], _A]) -> Break | None:
            return next((found for _ in range(batch) if (found := law(draw(data))) is not None), None)

        def hold(found: Break | None) -> None:
            if found is not None:
                last[:] = [found]
                raise _BrokenError

        options = hypothesis.settings(
            max_examples=ceil(self.max_examples / batch),
            derandomize=self.derandomize,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=hypothesis.Verbosity.quiet,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(cast("Any", hypothesis.HealthCheck)),
        )
        test: Any = options(hypothesis.given(first_break())(hold))
        seed = self._new_seed if self.seed is None and not self.derandomize else self.seed
        try:
            (test if seed is None else hypothesis.seed(seed)(test))()
        except _BrokenError:
            return last[0]
        except Flaky:
            return _now_and_then(last[0])
        except Unsatisfiable:
            raise NoExamplesError from None
        return None


class _BrokenError(Exception):
    """An exception that reports a counterexample to Hypothesis."""


class NoExamplesError(Exception):
    """An error for a strategy that generates no data for a law."""


def _now_and_then(found: Break) -> Break:
    return Break(found.value, found.where, f"{found.found} (not every time: the same data also passed)", found.remedy)


@final
class Law(msgspec.Struct, frozen=True, eq=False):
    """A statement that is true for all subjects of a kind."""

    name: str
    """The short name, for the names of tests."""
    statement: str
    """The statement in one sentence."""
    _find: Callable[[Any, Trial], Break | None]  # returns a break of a subject, or None

    def check(self, subject: Any, called: str, trial: Trial) -> None:
        """Check the law for a subject.

        Raises:
            LawError: If the law is false.
            ImportError: If Hypothesis is not installed.
        """
        try:
            import_module("hypothesis")
        except ImportError:
            message = "Hypothesis is not installed. Run: pip install 'fxai[testing]'"
            raise ImportError(message) from None
        try:
            found = self._find(subject, trial)
        except NoExamplesError:
            found = Break(None, "", "cannot generate data", "pass your own data: parameters=<a strategy>")
        if found is not None:
            raise LawError(called, self.statement, found)

    @override
    def __repr__(self) -> str:
        return f"Law({self.name!r})"


@final
class LawCase(msgspec.Struct, frozen=True, eq=False):
    """A test of one law and one subject. `str(case)` is its name, and `case.check()` checks the law."""

    law: Law
    """The law."""
    subject: Any
    """The subject, such as a tool."""
    name: str
    """The name of the test."""
    called: str
    """The name of the subject in messages."""
    trial: Trial
    """The number of examples and their seed."""

    def check(self) -> None:
        """Check the law.

        Raises:
            LawError: If the law is false. The error contains the smallest counterexample, its location, and the remedy.
        """
        self.law.check(self.subject, self.called, self.trial)

    @override
    def __repr__(self) -> str:
        return f"{self.name}: {self.law.name}"
