"""Limits on the work that a JSON Schema document and its data can cause. Use this module to count work.

A schema of a few hundred bytes can require unlimited work. Its references can double at each level, its unions can
multiply, and its patterns can repeat repetitions. Therefore `JsonSchema.of` measures each document before any other
code follows its references. Later work on the document counts its steps: validation, the search for validation errors,
strict forms, grammars, and generated data. Only this module defines the numbers.
`docs/reference/schema/limits.md` lists them.

>>> doubling = Reach()
>>> levels = [doubling.add(f"/$defs/level{level}") for level in range(20)]
>>> for upper, lower in zip(levels, levels[1:]):
...     doubling.holds(upper, lower, times=2)
>>> str(doubling.excess())
'/$defs/level6: expected at most 10000 schemas that apply to one value, including references, found more'
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
"""The maximum size of a document, in bytes of JSON."""

MAX_LEVELS: Final = 128
"""The maximum nesting of a document's JSON, of schemas that apply to one value, and of groups in a pattern."""

MAX_CONTAINERS: Final = 20_000
"""The maximum number of arrays and objects in a document."""

MAX_SCHEMAS: Final = 3_000
"""The maximum number of schemas in a document."""

MAX_VISITS: Final = 10_000
"""The maximum number of schemas that apply to one value, including the targets of `$ref` and all branches."""

MAX_PATTERN: Final = 30_000
"""The maximum length of all patterns of a document with expanded repetitions. Each pattern adds 64 characters."""

MAX_POINTER: Final = 4_096
"""The maximum length of a JSON pointer to a schema of a document, in characters."""

MAX_STEPS: Final = 150_000
"""The maximum number of steps of a validation. A visit of a value by a schema and each keyword cost about a step."""

MAX_FAULTS: Final = 100
"""The approximate maximum number of validation errors that fxai reports for one value."""

MAX_LOCATIONS: Final = 3_000
"""The maximum number of steps to create a strict form, a grammar, or a generated value of one document."""

MAX_VALUES: Final = 100_000
"""The maximum number of values in the parameters of a call, including arrays, objects, and their contents."""

STRIDE: Final = 24
"""The number of recursion steps on each new stack after the first stack is exhausted."""

ANY_PROPERTY: Final = "*"
"""The position of every property of an object."""

ANY_ITEM: Final = "[]"
"""The position of every item of an array."""

_LINEAR: Final = 64  # up to this number of visits of a value, the time of a validation is linear in its data
_MOST_ENTRIES: Final = 100_000
_SAID: Final = 8  # tokens of the pointer in the error for deep nesting
_LONGEST: Final = 200


class ExhaustedError(Exception):
    """An error that ends work after its budget is exhausted. Its argument is the location if the location is known."""


class Work(msgspec.Struct, eq=False):
    """The budget of one piece of work, with the state of its validation.

    All steps cost about the same time, so the budget limits the time.

    Attributes:
        left: The number of remaining steps.
        known: The decisions about values, used if the schemas multiply.
        resources: The resources on the path to the current schema, for dynamic references.
        numbers: The numbers of values of the data, by content.
        numbers_of: The numbers of values of the data, by identity.
        searches: The `Matcher` of the patterns, or None before the first search.

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
        """Count steps at a location.

        Raises:
            ExhaustedError: If the work takes more steps than the budget has. Its argument is the location.
        """
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError(location)


Suspects: TypeAlias = Mapping[int, Sequence[int] | None]
"""The only items of each array that can be invalid, by the identity of the array. None for an enclosing value."""

NO_SUSPECTS: Final[Suspects] = MappingProxyType({})
"""The suspects of data in which every item can be invalid."""


class Findings(Work, eq=False):
    """The validation errors of one value, and the budget to find more of them.

    Attributes:
        faults: The validation errors.
        walked: The number of visited conversions.
        complete: True if the search visited the whole value.
        integers: The JSON pointers of whole numbers, such as `3.0`, that represent an integer.
        suspects: The items that can be invalid.
    """

    faults: list[Fault] = []
    walked: int = 0
    complete: bool = True
    integers: list[str] = []
    suspects: Suspects = NO_SUSPECTS

    def add(self, fault: Fault) -> None:
        """Add a validation error.

        Raises:
            ExhaustedError: If the number of errors reaches `MAX_FAULTS`.
        """
        self.faults.append(fault)
        if len(self.faults) >= MAX_FAULTS:
            raise ExhaustedError

    def visit(self) -> None:
        """Count a conversion. A conversion can cost more than a schema.

        Raises:
            ExhaustedError: If the budget has fewer steps than `CONVERSION`.
        """
        self.walked += 1
        self.take(CONVERSION)


CONVERSION: Final = 4
"""The number of steps that a conversion costs."""


def deeper_than(data: Any, levels: int) -> bool:
    """Return True if a JSON value has more levels of arrays and objects than `levels`. `[]` has one level."""
    level: list[Any] = [data] if isinstance(data, (dict, list)) else []
    for _ in range(levels):
        if not level:
            return False
        level = [inner for value in level for inner in _members(value) if isinstance(inner, (dict, list))]
    return bool(level)


def too_deep(data: Any, levels: int) -> Fault | None:
    """Return the error at the first array or object beyond `levels` levels, or None if the value is not too deep.

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
    """Return the error for data with too many levels at a JSON pointer. The error shortens a long pointer.

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
    """Execute one step of a recursion inside `with_stack`.

    On the stack of the caller, this function only calls `work`. If that stack is exhausted, `with_stack` starts the
    recursion again on a new stack. From then on, the recursion moves to another stack after every `STRIDE` steps.
    Therefore the recursion limit of Python does not limit the depth of a document.
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
    """Return the result of `work`. If the stack of the caller is exhausted, repeat the work on a new stack.

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
    """Return the result of `work` on the stack of a new thread with a copy of the current context."""
    given: list[_R] = []
    raised: list[BaseException] = []
    context = copy_context()

    def run() -> None:
        _nesting.is_lent = True
        try:
            given.append(context.run(work))
        except BaseException as error:  # the calling thread raises the error again
            raised.append(error)

    thread = threading.Thread(target=run, name="fxai-schema-stack", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return given[0]


# ---- the work that a document causes for its data


@final
class Growth(msgspec.Struct, frozen=True):
    """The maximum number of schemas that a validation applies to the values of its data.

    Attributes:
        visits: The number of schemas for one value. If the number grows with the depth, the number for the root.
        factor: The factor by which the number grows for each level of the data. 1 if it does not grow.
    """

    visits: int = 1
    factor: int = 1

    @property
    def linear(self) -> bool:
        """True if the time of a validation is linear in the size of its data."""
        return self.factor <= 1 and self.visits <= _LINEAR

    def within(self, data: object, most: int = MAX_STEPS) -> bool:
        """Return True if a validation of the data needs at most `most` visits in the worst case."""
        visits, level = self.visits, [data]
        while level:
            most -= visits * len(level)
            if most < 0:
                return False
            level = [inner for value in level for inner in _members(value)]
            visits *= self.factor
        return True


NO_GROWTH: Final = Growth()
"""The growth of a document that is a boolean."""


@final
class _Location:
    """A schema in the graph, with the schemas of the same value (`here`) and of the values inside it (`below`)."""

    __slots__ = ("below", "here", "pointer", "visits")

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.here: list[int] = []
        self.below: list[tuple[str, int]] = []
        self.visits = 0


@final
class Reach:
    """A graph of the schemas in a document. Its edges lead to schemas of the same value or of the values inside it."""

    __slots__ = ("_locations", "_order")

    def __init__(self) -> None:
        self._locations: list[_Location] = []
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._locations)

    def add(self, pointer: str) -> int:
        """Add a schema with its JSON pointer. Return the number of the schema."""
        self._locations.append(_Location(pointer))
        return len(self._locations) - 1

    def holds(self, location: int, other: int, times: int = 1) -> None:
        """Record that a validation by one schema applies another schema to the same value."""
        self._locations[location].here += [other] * times

    def leads(self, location: int, position: str, other: int) -> None:
        """Record that a validation by one schema applies another schema to the inner values at a position."""
        self._locations[location].below.append((position, other))

    def excess(self) -> Fault | None:
        """Return the error for a graph beyond the budget, or None. The schemas of the same value must have no cycle."""
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
                    location.pointer, f"at most {MAX_LEVELS} levels of schemas that apply to one value", "more"
                )
            self._order.append(number)
        return None

    def _downwards(self) -> Iterator[int]:
        """Iterate over all schemas. A schema follows the other schemas that apply to its value."""
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
        """Return the growth of a validation that starts at the root, the first schema."""
        if self.excess() is not None:
            return Growth(MAX_STEPS, 2)
        try:
            return _Growing(self._locations, self._order).growth()
        except ExhaustedError:
            most = max(location.visits for location in self._locations)
            return Growth(most, most)


_VISITS: Final = f"at most {MAX_VISITS} schemas that apply to one value, including references"

_Entries = dict[str, dict[int, int]]


@final
class _Growing:
    """The computation of a growth. The entries of a schema count the schemas of each inner value, by position."""

    def __init__(self, locations: list[_Location], order: list[int]) -> None:
        self._locations = locations
        self._entries: list[_Entries] = [{} for _ in locations]
        self._work = Work(_MOST_ENTRIES)
        for number in order:
            self._entries[number] = self._gather(number)

    def _gather(self, number: int) -> _Entries:
        """Return the inner schemas by position, with the number of times that each applies to the same value."""
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
        """Return the growth of a validation that starts at the first schema."""
        factor = 1
        fans: dict[int, int] = {}
        for cycle in cycles(len(self._locations), self._after):  # the innermost cycle is first
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
        """Iterate over the counts of the schemas at each position, including the schemas for every position."""
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
    """Return the strongly connected components of a graph. A component follows the components that it leads to.

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
    """Remove and return the nodes that the search opened since `last`, including `last`."""
    taken: list[int] = []
    while not taken or taken[-1] != last:
        taken.append(open_.popitem()[0])
    return taken
