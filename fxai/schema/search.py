"""One running validation: its errors, its decisions, and its budget.

The keywords of `jsonschema` count their steps here, and ask here what is decided already.

>>> from fxai.schema.dialect import LATEST
>>> from fxai.schema.keywords import validator_of
>>> [error.validator for error in Search(validator_of(LATEST.uri, {"pattern": "^a"})).errors("b")]
['pattern']
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final, final

from jsonschema.exceptions import ValidationError

from fxai.schema.budget import MAX_FAULTS, MAX_STEPS, NO_GROWTH, STRIDE, ExhaustedError, new_stack
from fxai.schema.constraint import Work
from fxai.schema.data import identity, is_array, is_object, size_of
from fxai.schema.decision import Decider
from fxai.schema.pattern import SECONDS, Matcher, PatternTimeoutError

MATCHER: Final[ContextVar[Matcher]] = ContextVar("fxai_pattern_matcher")


_STEP: Final = 10  # how many of the budget's steps one of `jsonschema` takes
_TELLING: Final = 2_500  # steps of it that are taken to find faults, once it is known that there are some
_DECIDING: Final = 50_000  # steps of the budget that are taken meanwhile, to pass over what has none
_KEYWORDS_A_STEP: Final = 4
VALUES_A_STEP: Final = 16
"""How many values that are looked at cost as much as a step."""
_WITHOUT_END: Final = 10**12
_MOST_UNIONS: Final = 3
_DEEPEST: Final = 4_000  # schemas inside each other, the references of a document in a circle of data


@final
class Search:
    """One running validation: its errors, its decisions, and its budget.

    Attributes:
        undecided: the steps were used up before it was known whether the document takes the value.
        unsaid: the document does not take the value, and the steps were used up before it was known why.
        late: the pattern that took too long, if one did and no error is about it.
    """

    __slots__ = (
        "_decider",
        "_deciding",
        "_identities",
        "_left",
        "_level",
        "_matcher",
        "_memo",
        "_refused",
        "_scoped",
        "_unions",
        "_validator",
        "_work",
        "late",
        "undecided",
        "unsaid",
    )

    def __init__(
        self, validator: Any, *, careful: bool = False, refused: bool = False, decider: Decider | None = None
    ) -> None:
        self._validator = validator
        self._matcher = Matcher(SECONDS)
        self._memo: dict[Hashable, bool] | None = {} if careful else None
        self._left = MAX_STEPS // _STEP if careful else _TELLING if refused else _WITHOUT_END
        self._refused = refused
        self._decider = decider
        self._work = Work(_DECIDING if refused else MAX_STEPS, self._matcher)
        self._identities: dict[int, tuple[Hashable, int]] = {}
        self._deciding = False
        self._level = self._unions = 0
        self._scoped = careful and _is_dynamic(validator.schema)
        self.undecided: bool = False
        self.unsaid: bool = False
        self.late: str | None = None

    def accepts(self, value: object) -> bool:
        """Whether plain data is taken, as far as the steps go."""
        quiet = quiet_copy(value)
        try:
            with self.under_way():
                return self.decides(self._validator, quiet)
        except ExhaustedError:
            return False

    def errors(self, value: object) -> list[ValidationError]:
        """The errors of plain data, the first hundred or so; none for data that the document takes."""
        found: list[ValidationError] = []
        if self._refused and not NO_GROWTH.within(value, MAX_STEPS):
            self.unsaid = True  # so much data is not walked again to find the reasons
            return found
        try:
            with self.under_way():
                self._find(quiet_copy(value), found)
        except ExhaustedError:
            self.undecided = self._memo is not None and not self.unsaid
            self.unsaid = self.unsaid or self._refused
        self.unsaid = self.unsaid and not found
        if not any(error.validator == "late" for error in found):
            self.late = self._matcher.late
        return found

    def _find(self, value: object, found: list[ValidationError]) -> None:
        if self._memo is not None:
            if self.decides(self._validator, value):
                return
            self._left, self.unsaid = _TELLING, self._matcher.late is None
        for error in self._validator.iter_errors(value):
            found.append(error)
            if len(found) >= MAX_FAULTS:
                return
            self._left = min(self._left, _TELLING)

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Let `decides` be asked, often, within one budget, until the block ends."""
        token = SEARCH.set(self)
        try:
            with deciding_with(self._matcher):
                yield
        finally:
            SEARCH.reset(token)

    def decides(self, validator: Any, value: object) -> bool:
        """Whether a validator's schema takes plain data, which must live as long as the search.

        Raises `ExhaustedError`: the steps are used up.
        """
        return self.takes(validator, value, validator.schema, lambda: validator.iter_errors(value))

    def within(self, validator: Any, instance: Any, schema: Any, errors: Errors) -> Iterator[ValidationError]:
        """The errors of a value inside, or in place, by one schema, which `errors` gives."""
        if self._passes(instance, schema):
            return
        self.spend(1 + (len(schema) // _KEYWORDS_A_STEP if is_object(schema) else 0))
        if self._level > _DEEPEST:
            raise ExhaustedError
        if self._memo is not None and is_object(schema):
            if self.takes(validator, instance, schema, errors):
                return
            if self._deciding:
                late = self._matcher.late
                yield (
                    KeywordError("not what the schema says") if late is None else late_error(PatternTimeoutError(late))
                )
                return
        yield from self._deeper(errors)

    def takes(self, validator: Any, instance: Any, schema: Any, errors: Errors) -> bool:
        """Whether a schema takes a value; where schemas multiply it is decided once for each value."""
        check = None if self._decider is None else self._decider.check_of(schema)
        if check is not None and self._matcher.late is None:
            with suppress(PatternTimeoutError):  # an error is found then
                return check(instance, self._work)
        if self._memo is None:
            self.spend(1)
            return next(errors(), None) is None
        scope = tuple(uri for uri, _ in validator._resolver.dynamic_scope()) if self._scoped else ()
        key = (id(schema), id(instance), scope)
        known = self._memo.get(key)
        self.spend(1)
        if known is None:
            self.spend(len(schema) // _KEYWORDS_A_STEP if is_object(schema) else 0)
            if self._level > _DEEPEST:
                raise ExhaustedError
            deciding, self._deciding = self._deciding, True
            try:
                known = self._memo[key] = next(self._deeper(errors), None) is None
            finally:
                self._deciding = deciding
        return known

    def _passes(self, instance: Any, schema: Any) -> bool:
        """Whether it is soon known that a schema takes a value, so that no error need be looked for."""
        check = None if self._decider is None or self._memo is not None else self._decider.check_of(schema)
        try:
            return check is not None and self._matcher.late is None and check(instance, self._work)
        except PatternTimeoutError:
            return False

    def spend(self, steps: int) -> None:
        """Count steps. Raises `ExhaustedError`: so many are not left."""
        self._left -= steps
        if self._left < 0:
            raise ExhaustedError

    def identity(self, value: Any) -> Hashable:
        """What is the same for equal values, counted for the size of the value."""
        if not (is_object(value) or is_array(value)):
            return identity(value)
        known = self._identities.get(id(value))
        if known is None:
            known = self._identities[id(value)] = identity(value), size_of(value) // VALUES_A_STEP
        self.spend(known[1])
        return known[0]

    def _deeper(self, errors: Errors) -> Iterator[ValidationError]:
        level = self._level
        self._level = level + 1
        try:
            if self._level % STRIDE:
                yield from errors()
            else:
                most = 1 if self._deciding else MAX_FAULTS
                yield from new_stack(lambda: list(islice(errors(), most)))
        finally:
            self._level = level

    def alternatives(self, errors: Errors, fitting: Callable[[], bool]) -> Iterator[ValidationError]:
        """The errors of a union; where schemas multiply, one far inside of others comes without its branches.

        Args:
            errors: those of its branches.
            fitting: whether as many branches take the value as the union wants.
        """
        if self._refused and self._decider is not None and self._unions >= _MOST_UNIONS - 1:
            if not fitting():
                yield KeywordError("one of the alternatives", validator="alternatives")
            return
        whole = self._memo is None or self._deciding or self._unions < _MOST_UNIONS
        self._unions += 1
        self._deciding = self._deciding or not whole
        try:
            if whole:
                yield from errors()
            elif next(errors(), None) is not None:
                yield KeywordError("one of the alternatives", validator="alternatives")
        finally:
            self._unions -= 1
            self._deciding = self._deciding and whole


Errors = Callable[[], Iterator[ValidationError]]
SEARCH: Final[ContextVar[Search | None]] = ContextVar("fxai_schema_search", default=None)


def _is_dynamic(schema: Any) -> bool:
    """Whether what a reference in a document leads to depends on how one came there."""
    if is_object(schema):
        return not schema.keys().isdisjoint(("$dynamicRef", "$recursiveRef")) or any(map(_is_dynamic, schema.values()))
    return is_array(schema) and any(map(_is_dynamic, schema))


@contextmanager
def deciding_with(matcher: Matcher) -> Generator[None]:
    """Search with this matcher, and within its time, until the block ends."""
    token = MATCHER.set(matcher)
    try:
        yield
    finally:
        MATCHER.reset(token)


class KeywordError(ValidationError):
    """An error with the names of the properties that it is about."""

    names: tuple[str, ...] = ()


def late_error(timeout: PatternTimeoutError) -> KeywordError:
    """That a pattern took too long."""
    return KeywordError("a pattern took too long", validator="late", cause=timeout)


def error_about(names: list[str], message: str) -> KeywordError:
    """An error about some properties, the first hundred of them."""
    error = KeywordError(message)
    error.names = tuple(names[:MAX_FAULTS])
    return error


# ---- data that no message quotes in full


@final
class _Object(dict[str, Any]):
    """An object that is quoted in no message."""

    def __repr__(self) -> str:
        return "{…}"


@final
class QuietArray(list[Any]):
    """An array that is quoted in no message, and knows its items."""

    known: frozenset[Hashable] | None = None

    def __repr__(self) -> str:
        return "[…]"


def quiet_copy(data: Any) -> Any:
    """Plain data whose objects and arrays no message quotes: some messages quote a value at each place inside it."""
    if is_object(data):
        return _Object({name: _quiet_under(name, inner) for name, inner in data.items()})
    return QuietArray([quiet_copy(inner) for inner in data]) if is_array(data) else data


def _quiet_under(name: str, data: Any) -> Any:
    if name in _QUOTED:  # as a keyword: the values it lists are quoted as they are
        return QuietArray(data) if is_array(data) else data
    return quiet_copy(data)


_QUOTED: Final = frozenset(("enum", "const"))
