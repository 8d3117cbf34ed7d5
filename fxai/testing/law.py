"""Laws: what holds for every tool, toolkit or handler, and the message of one that is broken.

A law is tried on data that Hypothesis draws. What breaks it is shrunk to the smallest that does, and raised as a
`LawError` which says the law, the data as JSON, the place, what was found there and what to do.

>>> def is_short(word: str) -> Break | None:
...     return Break(word, "", "it is long", "keep it short") if len(word) > 3 else None
>>> from hypothesis import strategies as st
>>> Trial(max_examples=200, seed=1).find_break(st.text("ab"), is_short).value
'aaaa'
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast, final

import msgspec
from typing_extensions import override

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_A = TypeVar("_A")


@final
class Break(msgspec.Struct, frozen=True):
    """How one piece of data breaks a law.

    Attributes:
        value: the data, as plain JSON where JSON can carry it.
        where: the place in it, as a JSON pointer; `""` is all of it.
        found: what is wrong there.
        remedy: what to do.
    """

    value: Any
    where: str
    found: str
    remedy: str

    @property
    def json(self) -> str:
        """The data as JSON text; what JSON cannot carry as Python writes it."""
        try:
            return msgspec.json.encode(self.value).decode()
        except (TypeError, ValueError, RecursionError):
            return repr(self.value)

    @override
    def __hash__(self) -> int:
        return hash((self.json, self.where, self.found))


class LawError(AssertionError):
    """A law that does not hold, with the smallest data that shows it.

    Made of the subject (`"the tool 'add'"`), the law's statement and the break.
    """

    @property
    def subject(self) -> str:
        """Whose law it is."""
        return str(self.args[0])

    @property
    def law(self) -> str:
        """What ought to hold."""
        return str(self.args[1])

    @property
    def broken(self) -> Break:
        """The data that breaks it, where, how, and what to do."""
        broken: Break = self.args[2]
        return broken

    @override
    def __str__(self) -> str:
        """Five lines: subject and law, data, place, finding, remedy."""
        lines = [f"{self.subject} breaks a law: {self.law}", f"  with:  {self.broken.json}"]
        if self.broken.where:
            lines.append(f"  at:    {self.broken.where}")
        return "\n".join([*lines, f"  found: {self.broken.found}", f"  do:    {self.broken.remedy}"])


class OneSidedLawWarning(UserWarning):
    """A law that is checked in one direction only, because a type of pydantic has validators or serializers.

    The message states the subject, the direction, and the type.
    """


class TrialOptions(TypedDict, total=False):
    """How hard a law is tried, as keyword arguments: the fields of `Trial`."""

    max_examples: int
    seed: int | None
    derandomize: bool


@final
class Trial(msgspec.Struct, frozen=True):
    """How hard a law is tried.

    Attributes:
        max_examples: how much data is drawn for it; 100 by default.
        seed: where the drawing starts, so that it can be repeated; by default each time elsewhere.
        derandomize: draw the same data each time, whatever the seed.
    """

    max_examples: int = 100
    seed: int | None = None
    derandomize: bool = False

    def find_break(self, data: SearchStrategy[_A], law: Callable[[_A], Break | None]) -> Break | None:
        """The smallest break that was found, or nothing.

        Raises:
            NoExamplesError: nothing could be drawn.
        """
        import hypothesis
        from hypothesis.errors import Flaky, Unsatisfiable

        last: list[Break] = []

        def hold(drawn: _A) -> None:
            found = law(drawn)
            if found is not None:
                last[:] = [found]
                raise _BrokenError

        test: Any = self._settings()(hypothesis.given(data)(hold))
        try:
            (test if self.seed is None else hypothesis.seed(self.seed)(test))()
        except _BrokenError:
            return last[0]
        except Flaky:
            return _now_and_then(last[0])
        except Unsatisfiable:
            raise NoExamplesError from None
        return None

    def _settings(self) -> Any:
        from hypothesis import HealthCheck, Phase, Verbosity, settings

        return settings(
            max_examples=self.max_examples,
            derandomize=self.derandomize,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(cast("Any", HealthCheck)),
        )


class _BrokenError(Exception):
    """Tells Hypothesis that the law does not hold for what it drew."""


class NoExamplesError(Exception):
    """Nothing could be drawn that a law could be tried on."""


def _now_and_then(found: Break) -> Break:
    return Break(found.value, found.where, f"{found.found} (not every time: the same data also passed)", found.remedy)


@final
class Law(msgspec.Struct, frozen=True, eq=False):
    """Something that holds for all subjects of a kind.

    Args:
        name: a few words, for the names of tests.
        statement: what holds, in a sentence.
        _find: gives the break that was found for a subject, if one was.
    """

    name: str
    statement: str
    _find: Callable[[Any, Trial], Break | None]

    def check(self, subject: Any, called: str, trial: Trial) -> None:
        """Try the law on a subject.

        Raises:
            LawError: it does not hold.
            ImportError: Hypothesis is not installed.
        """
        try:
            import_module("hypothesis")
        except ImportError:
            message = "laws are tried with Hypothesis, which is not installed: pip install 'fxai[testing]'"
            raise ImportError(message) from None
        try:
            found = self._find(subject, trial)
        except NoExamplesError:
            found = Break(None, "", "no data could be drawn", "give data of your own: parameters=<a strategy>")
        if found is not None:
            raise LawError(called, self.statement, found)

    @override
    def __repr__(self) -> str:
        return f"Law({self.name!r})"


@final
class LawCase(msgspec.Struct, frozen=True, eq=False):
    """One law and one subject: one test. `str(case)` is its name, `case.check()` tries it."""

    law: Law
    subject: Any
    name: str
    called: str
    trial: Trial

    def check(self) -> None:
        """Try the law.

        Raises:
            LawError: it does not hold; says the smallest data that shows it, where, and what to do.
        """
        self.law.check(self.subject, self.called, self.trial)

    @override
    def __repr__(self) -> str:
        return f"{self.name}: {self.law.name}"
