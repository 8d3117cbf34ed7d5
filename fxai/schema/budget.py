"""Budgets: how much work a JSON Schema document, data and their faults may ask for, counted in one place.

A few hundred bytes can ask for work without end: references that double at each level, unions that multiply, patterns
that repeat repetitions. So every document is measured when it is made (`JsonSchema.of`), before anything follows it,
and whatever is made of it afterwards (validation, faults, strict forms, grammars, generated data) counts its steps.
The numbers stand here and nowhere else; `docs/reference/schema/limits.md` lists them.

>>> doubling = Reach()
>>> levels = [doubling.add(f"/$defs/level{level}") for level in range(20)]
>>> for upper, lower in zip(levels, levels[1:]):
...     doubling.holds(upper, lower, times=2)
>>> str(doubling.excess())
'/$defs/level6: expected at most 10000 schemas that hold for one value, references followed, found more'
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, final

import msgspec

from fxai.schema.data import is_array, is_object
from fxai.schema.fault import Fault, pointer_of

_R = TypeVar("_R")

MAX_BYTES: Final = 1024 * 1024
"""The largest document, in bytes of JSON."""

MAX_LEVELS: Final = 128
"""The deepest nesting, of a document's JSON, of its schemas that hold for one value, and of groups in a pattern."""

MAX_CONTAINERS: Final = 20_000
"""How many arrays and objects a document may hold."""

MAX_SCHEMAS: Final = 3_000
"""How many schemas a document may hold."""

MAX_VISITS: Final = 10_000
"""How many schemas may hold for one value: each `$ref` followed, each branch of `allOf`, `anyOf`, `oneOf` counted."""

MAX_PATTERN: Final = 30_000
"""How long the patterns of a document may be in all, with every repetition written out; each one counts 64 more."""

MAX_POINTER: Final = 4_096
"""The longest JSON pointer to a schema of a document, in characters."""

MAX_STEPS: Final = 150_000
"""How many steps one validation may take: each visit of a value by a schema and each of its keywords is one, about."""

MAX_FAULTS: Final = 100
"""How many faults of one value are reported."""

MAX_LOCATIONS: Final = 3_000
"""How many places a strict form, a grammar or a generated value may be made of, for one document."""

MAX_VALUES: Final = 100_000
"""How many values the parameters of a call may hold: each array and object, and what they hold."""

STRIDE: Final = 24
"""The steps of a recursion on each new stack, once the first stack was used up."""

ANY_PROPERTY: Final = "*"
"""The position of every property of an object."""

ANY_ITEM: Final = "[]"
"""The position of every item of an array."""

_LINEAR: Final = 64  # visits of one value up to which a validation is as long as its data
_MOST_ENTRIES: Final = 100_000
_SAID: Final = 8  # tokens of a pointer to what is too deep
_LONGEST: Final = 200


class ExhaustedError(Exception):
    """The budget is used up; the place where, as far as it is known, is the argument."""


class Work(msgspec.Struct, eq=False):
    """The budget of one piece of work: the steps that are left, and the values that a decision knows.

    A step costs about the same wherever it is taken, so that the budget bounds the time.

    Attributes:
        left: The steps.
        known: Decisions about values, where schemas multiply.
        resources: The resources on the way to the schema, for dynamic references.
        numbers: The numbers of values of the data, by content.
        numbers_of: The numbers of values of the data, by identity.
        searches: The `Matcher` of the patterns. None before the first search.

    >>> work = Work(2)
    >>> work.take(), work.take(), work.left
    (None, None, 0)
    """

    left: int = MAX_STEPS
    known: dict[Hashable, bool] = {}
    resources: list[str] = []
    numbers: dict[Hashable, object] = {}
    numbers_of: dict[int, object] = {}
    searches: Any = None

    def take(self, steps: int = 1, location: str = "") -> None:
        """Count steps at a place.

        Raises:
            ExhaustedError: If not enough steps are left. Its argument is the place.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError(location)


Suspects: TypeAlias = Mapping[int, Sequence[int] | None]
"""By the identity of an array, the only items that can be wrong; None for a value around the array."""

NO_SUSPECTS: Final[Suspects] = MappingProxyType({})
"""Every item can be wrong."""


@final
class Findings(Work, eq=False):
    """The faults of one value that were found, and how many steps are left to find more.

    Attributes:
        faults: The faults.
        walked: The number of the conversions that were visited.
        complete: True if everything was looked at.
        integers: The places of whole numbers such as `3.0` that stand for an integer, as JSON pointers.
        suspects: The items that can be wrong.
    """

    faults: list[Fault] = []
    walked: int = 0
    complete: bool = True
    integers: list[str] = []
    suspects: Suspects = NO_SUSPECTS

    def add(self, fault: Fault) -> None:
        """Note a fault.

        Raises:
            ExhaustedError: If `MAX_FAULTS` are found.
        """
        self.faults.append(fault)
        if len(self.faults) >= MAX_FAULTS:
            raise ExhaustedError

    def visit(self) -> None:
        """Count a conversion, which can cost more than a schema.

        Raises:
            ExhaustedError: If not enough steps are left.
        """
        self.walked += 1
        self.take(CONVERSION)


CONVERSION: Final = 4
"""The steps that a conversion costs."""


def deeper_than(data: Any, levels: int) -> bool:
    """Whether plain data nests deeper than so many levels of arrays and objects; `[]` is 1 deep."""
    level: list[Any] = [data] if isinstance(data, (dict, list)) else []
    for _ in range(levels):
        if not level:
            return False
        level = [inner for value in level for inner in _members(value) if isinstance(inner, (dict, list))]
    return bool(level)


def too_deep(data: Any, levels: int) -> Fault | None:
    """The fault of plain data that nests deeper than so many levels, at the first place that does; else nothing.

    >>> str(too_deep({"a": [[], [{}]]}, 3))
    '/a/1/0: expected at most 3 levels of nesting, found deeper nesting'
    """
    if not deeper_than(data, levels):
        return None
    trail = [_inside(data)]
    path: list[str | int] = []
    while len(trail) <= levels:
        token, inner = next(trail[-1], (None, None))
        if token is None:
            trail.pop()
            path.pop()
        elif isinstance(inner, (dict, list)):
            trail.append(_inside(inner))
            path.append(token)
    return depth_fault(pointer_of(path), levels)


def _inside(value: Any) -> Iterator[tuple[str | int | None, Any]]:
    return iter(value.items() if is_object(value) else enumerate(value) if is_array(value) else ())


def depth_fault(pointer: str, levels: int) -> Fault:
    """The fault of data that is nested too deeply, at a pointer; a long one is cut.

    >>> str(depth_fault("/a" * 129, 128))
    '/a/a/a/a/a/a/a/a/…: expected at most 128 levels of nesting, found deeper nesting'
    """
    names = pointer.split("/")
    location = "/".join(names[: _SAID + 1])[:_LONGEST]
    location = location if location == pointer else f"{location}/…"
    return Fault(location, f"at most {levels} levels of nesting", "deeper nesting")


def _members(value: Any) -> Iterable[Any]:
    return value.values() if is_object(value) else value if is_array(value) else ()


# ---- the interpreter's stack


class _Nesting(threading.local):
    is_lent = False
    level = 0


_nesting: Final = _Nesting()


def descend(work: Callable[[], _R]) -> _R:
    """Take one step of a recursion inside `with_stack`.

    On the stack of the caller this is a call. If that stack is used up, `with_stack` starts again on a new stack, and
    each `STRIDE` steps continue on one more stack, so that the depth of a document does not count in frames.
    """
    if not _nesting.is_lent:
        return work()
    level = _nesting.level
    if level >= STRIDE:
        return new_stack(work)
    _nesting.level = level + 1
    try:
        return work()
    finally:
        _nesting.level = level


def with_stack(work: Callable[[], _R]) -> _R:
    """What `work` gives; where the caller has used up the stack, it is done on a new one.

    >>> def deep(level: int) -> int:
    ...     return with_stack(lambda: 1 + deep(level - 1)) if level else 0
    >>> deep(2_000)
    2000
    """
    try:
        return work()
    except RecursionError:
        return new_stack(work)


def new_stack(work: Callable[[], _R]) -> _R:
    """What `work` gives, done on a stack of its own: that of a thread, which is waited for; its context goes along."""
    given: list[_R] = []
    raised: list[BaseException] = []
    context = copy_context()

    def run() -> None:
        _nesting.is_lent = True
        try:
            given.append(context.run(work))
        except BaseException as error:  # it is raised again, where it belongs
            raised.append(error)

    thread = threading.Thread(target=run, name="fxai-schema-stack", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return given[0]


# ---- what a document may make of data


@final
class Growth(msgspec.Struct, frozen=True):
    """How many schemas may be held against the values of some data.

    Attributes:
        visits: against one value, at most; against the root where they grow.
        factor: how many times more they may be for each level that the data nests deeper; 1 where they do not grow.
    """

    visits: int = 1
    factor: int = 1

    @property
    def linear(self) -> bool:
        """Whether a validation takes as long as its data, whatever the data."""
        return self.factor <= 1 and self.visits <= _LINEAR

    def within(self, data: object, most: int = MAX_STEPS) -> bool:
        """Whether a validation of data takes no more visits than `most`, at the worst."""
        visits, level = self.visits, [data]
        while level:
            most -= visits * len(level)
            if most < 0:
                return False
            level = [inner for value in level for inner in _members(value)]
            visits *= self.factor
        return True


NO_GROWTH: Final = Growth()
"""That of a document that is a boolean."""


@final
class _Location:
    """One schema: which hold for the same value, and which for the values inside it, by position."""

    __slots__ = ("below", "here", "pointer", "visits")

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.here: list[int] = []
        self.below: list[tuple[str, int]] = []
        self.visits = 0


@final
class Reach:
    """The schemas of a document as a graph: what holds for the same value as what, and what for values inside it."""

    __slots__ = ("_locations", "_order")

    def __init__(self) -> None:
        self._locations: list[_Location] = []
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._locations)

    def add(self, pointer: str) -> int:
        """A new schema, at a pointer; gives its number."""
        self._locations.append(_Location(pointer))
        return len(self._locations) - 1

    def holds(self, location: int, other: int, times: int = 1) -> None:
        """Note that where one schema holds for a value, another is held against the same value."""
        self._locations[location].here += [other] * times

    def leads(self, location: int, position: str, other: int) -> None:
        """Note that another schema is held against the values at a position inside those of this one."""
        self._locations[location].below.append((position, other))

    def excess(self) -> Fault | None:
        """What of it is beyond the budget; nothing for what can be followed. References must not go in a circle."""
        levels: list[int] = [1] * len(self._locations)
        self._order = []
        for number in self._downwards():
            location = self._locations[number]
            location.visits = 1 + sum(self._locations[inner].visits for inner in location.here)
            levels[number] = 1 + max((levels[inner] for inner in location.here), default=0)
            if location.visits > MAX_VISITS:
                return Fault(location.pointer, _VISITS, "more")
            if levels[number] > MAX_LEVELS:
                return Fault(
                    location.pointer, f"at most {MAX_LEVELS} levels of schemas that hold for one value", "more"
                )
            self._order.append(number)
        return None

    def _downwards(self) -> Iterator[int]:
        """Every schema, those that hold with it before it."""
        done = [False] * len(self._locations)
        for start in range(len(self._locations)):
            trail = [(start, iter(self._locations[start].here))] if not done[start] else []
            done[start] = True
            while trail:
                number, inner = trail[-1]
                after = next((one for one in inner if not done[one]), None)
                if after is None:
                    trail.pop()
                    yield number
                else:
                    done[after] = True
                    trail.append((after, iter(self._locations[after].here)))

    def growth(self) -> Growth:
        """How many schemas may be held against the values of data, from the root (the first schema) on."""
        if self.excess() is not None:
            return Growth(MAX_STEPS, 2)
        try:
            return _Growing(self._locations, self._order).growth()
        except ExhaustedError:
            most = max(location.visits for location in self._locations)
            return Growth(most, most)


_VISITS: Final = f"at most {MAX_VISITS} schemas that hold for one value, references followed"

_Entries = dict[str, dict[int, int]]


@final
class _Growing:
    """The growth of one graph: by schema, what is held against each value inside, and how that goes on."""

    def __init__(self, locations: list[_Location], order: list[int]) -> None:
        self._locations = locations
        self._entries: list[_Entries] = [{} for _ in locations]
        self._work = Work(_MOST_ENTRIES)
        for number in order:
            self._entries[number] = self._gather(number)

    def _gather(self, number: int) -> _Entries:
        """By position, the schemas inside, with how often each is held against the same value."""
        location = self._locations[number]
        if not location.below and len(location.here) == 1:
            return self._entries[location.here[0]]
        found: _Entries = {}
        for position, inner in location.below:
            self._add(found, position, inner, 1)
        for other in location.here:
            for position, inners in self._entries[other].items():
                for inner, times in inners.items():
                    self._add(found, position, inner, times)
        return found

    def _add(self, found: _Entries, position: str, inner: int, times: int) -> None:
        self._work.take()
        held = found.setdefault(position, {})
        held[inner] = held.get(inner, 0) + times

    def growth(self) -> Growth:
        """The growth from the first schema on."""
        factor = 1
        fans: dict[int, int] = {}
        for cycle in cycles(len(self._locations), self._after):  # the innermost first
            inside, fan = set(cycle), 1
            again = len(cycle) > 1
            for number in cycle:
                fan = max(fan, self._locations[number].visits)
                for held in self._positions(number):
                    own = sum(times for inner, times in held.items() if inner in inside)
                    beyond = sum(fans[inner] * times for inner, times in held.items() if inner not in inside)
                    again = again or own > 0
                    factor = max(factor, own)
                    fan = max(fan, self._locations[number].visits + MAX_LEVELS * beyond if own else beyond)
            fans |= dict.fromkeys(cycle, fan)
        if factor > 1:
            return self._multiplying()
        return Growth(fans.get(0, 1), 1)

    def _multiplying(self) -> Growth:
        factor = max(sum(held.values()) for number in range(len(self._locations)) for held in self._positions(number))
        return Growth(max(location.visits for location in self._locations), factor)

    def _positions(self, number: int) -> Iterator[dict[int, int]]:
        """What is held against the value at each position; what holds at every position is added to each."""
        entries = self._entries[number]
        for anywhere in (ANY_PROPERTY, ANY_ITEM):
            if anywhere in entries:
                yield entries[anywhere]
        for position, held in entries.items():
            every = entries.get(ANY_ITEM if position.startswith("[") else ANY_PROPERTY, {})
            if position not in (ANY_PROPERTY, ANY_ITEM):
                self._work.take()
                yield (
                    held
                    if not every
                    else {inner: held.get(inner, 0) + every.get(inner, 0) for inner in held.keys() | every.keys()}
                )

    def _after(self, number: int) -> Iterator[int]:
        return iter(dict.fromkeys(inner for held in self._entries[number].values() for inner in held))


def cycles(count: int, after: Callable[[int], Iterable[int]]) -> list[list[int]]:
    """The members of a graph that lead back to each other, as lists; what one leads to stands before it.

    >>> cycles(3, lambda number: [[1], [0, 2], []][number])
    [[2], [1, 0]]
    """
    found: list[list[int]] = []
    index, low = dict[int, int](), dict[int, int]()
    open_: dict[int, None] = {}

    def enter(number: int) -> tuple[int, Iterator[int]]:
        index[number] = low[number] = len(index)
        open_[number] = None
        return number, iter(after(number))

    for start in range(count):
        trail = [enter(start)] if start not in index else []
        while trail:
            number, inner = trail[-1]
            other = next(inner, None)
            if other is None:
                trail.pop()
                if trail:
                    low[trail[-1][0]] = min(low[trail[-1][0]], low[number])
                if low[number] == index[number]:
                    found.append(_pop_component(open_, number))
            elif other not in index:
                trail.append(enter(other))
            elif other in open_:
                low[number] = min(low[number], index[other])
    return found


def _pop_component(open_: dict[int, None], last: int) -> list[int]:
    """The members that were opened since `last`, it among them."""
    taken: list[int] = []
    while not taken or taken[-1] != last:
        taken.append(open_.popitem()[0])
    return taken
