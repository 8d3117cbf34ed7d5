"""The compiled schemas of a document. The engine compiles a schema with this module and decides about values with it.

A visit of a value by a schema costs a step, and each keyword of the schema costs a step.

>>> kinds = Clause()
>>> kinds.only("integer")
>>> check, free = join([kinds])
>>> check(3, Work()), check("3", Work()), sorted(tp.__name__ for tp in free)
(True, False, ['float', 'int'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import ExhaustedError, Work, new_stack
from fxai.schema.dialect import Dialect
from fxai.schema.location import References
from fxai.schema.pattern import PatternTimeoutError

Check: TypeAlias = Callable[[Any, Work], bool]
"""A function that returns True if a value is valid. It can raise `ExhaustedError` and `PatternTimeoutError`."""


def always(_: object, __: Work) -> bool:
    """Accept every value."""
    return True


def never(_: object, __: Work) -> bool:
    """Refuse every value."""
    return False


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "any": (dict, list, str, int, float, bool, type(None)),
}
TYPES: Final = _KINDS["any"]
_KNOWN: Final = frozenset(TYPES)


def kind_of(value: object) -> type:
    """Return the Python type for the JSON type of a value. The value can be a tuple or of a subclass."""
    kind = type(value)
    if kind in _KNOWN:
        return kind
    if isinstance(value, tuple):
        return list
    return next((tp for tp in (bool, dict, list, str, int, float) if isinstance(value, tp)), type(None))


@final
class Clause(msgspec.Struct, eq=False):
    """A keyword of a schema, with its checks by the type of the value, and its cost in steps."""

    by_type: dict[type, Check] = {}
    weight: int = 0
    visits: Visits | None = None
    """The inner schemas that the keyword applies, with their values. None if the keyword applies no schema."""
    names: Callable[[Any, Work], Iterable[str]] | None = None
    """The properties that the keyword refuses or requires. None if the keyword does not concern properties."""

    def visit(self, kind: str, visits: Visits, check: Check | None = None, weight: int = 1) -> None:
        """Apply inner schemas to every value of a JSON type. Default check: each inner schema accepts its value."""

        def all_fit(value: object, work: Work) -> bool:
            for part, item, _ in visits(value, work):
                if type(item) not in part.free and not part.takes(item, work):
                    return False
            return True

        self.visits = visits
        self.add(kind, check or all_fit, weight)

    def refuse(self, names: Callable[[Any, Work], Iterable[str]], check: Check | None = None, weight: int = 1) -> None:
        """Refuse every object with a wrong or a missing property. Default check: `names` yields no name."""
        self.names = names
        self.add("object", check or (lambda value, work: not any(True for _ in names(value, work))), weight)

    def add(self, kind: str, check: Check, weight: int = 1) -> None:
        """Add a check for every value of a JSON type, or of all types if `kind` is `any`. Add its steps."""
        for tp in _KINDS[kind]:
            known = self.by_type.get(tp)
            self.by_type[tp] = check if known is None else _all({tp: (known, check)}, 0)
        self.weight += weight

    def only(self, *kinds: str) -> None:
        """Refuse every value of another JSON type."""
        allowed = {tp for kind in kinds for tp in _KINDS[kind]}
        self.by_type.update(dict.fromkeys((tp for tp in TYPES if tp not in allowed), never))


Visit: TypeAlias = "tuple[Part, Any, str]"
"""An inner schema with its value, and the JSON pointer to this value. The pointer `""` means the value itself."""

Visits: TypeAlias = "Callable[[Any, Work], Iterable[Visit]]"
"""A function that yields the visits of a value."""


def join(clauses: Iterable[Clause]) -> tuple[Check, frozenset[type]]:
    """Return the check of multiple keywords, and the types whose values it always accepts."""
    table: dict[type, tuple[Check, ...]] = dict.fromkeys(TYPES, ())
    weight = 1
    for clause in clauses:
        weight += clause.weight
        for tp, check in clause.by_type.items():
            table[tp] = _REFUSED if check is never or table[tp] is _REFUSED else (*table[tp], check)
    return _all(table, weight), frozenset(tp for tp, checks in table.items() if not checks)


_REFUSED: Final[tuple[Check, ...]] = (never,)


def _all(table: Mapping[type, tuple[Check, ...]], weight: int) -> Check:
    """Return the check by the keywords for the type of a value. It continues on a new stack if necessary."""
    find = table.get

    def check(value: object, work: Work) -> bool:
        work.left -= weight
        if work.left < 0:
            raise ExhaustedError
        checks = find(type(value))
        if checks is None:
            checks = table[kind_of(value)]
        if checks is _REFUSED:
            return False
        try:
            for one in checks:
                if not one(value, work):
                    break
            else:
                return True
        except RecursionError:
            return new_stack(partial(_once_more, checks, value, work))
        return False

    return check


def _once_more(checks: Iterable[Check], value: object, work: Work) -> bool:
    try:
        return all(check(value, work) for check in checks)
    except RecursionError:  # the data has too many levels even for a new stack
        raise ExhaustedError from None


Follow: TypeAlias = "Callable[[Work | None], Part]"
"""A function that returns the target of a reference in the current decision."""


@final
class Part(msgspec.Struct, eq=False):
    """A compiled schema of a document."""

    under: Callable[[object], Part]
    """Returns the part of a schema inside this schema."""
    schema: Any
    references: References
    dialect: Dialect
    resource: str = ""
    """The base URI of the references in the schema."""
    takes: Check = never
    """Returns True if a value is valid. It can raise `ExhaustedError` and `PatternTimeoutError`."""
    free: frozenset[type] = frozenset()
    """The types whose values are always valid."""
    clauses: dict[str, Clause] = {}
    """The checks of each keyword that restricts values."""
    follows: tuple[Follow, ...] = ()
    """The functions that return the targets of the references."""
    rules: dict[type, tuple[tuple[str, Check, Clause], ...]] = {}
    words: dict[str, str] = {}
    """The expectations in messages, by keyword."""

    def __post_init__(self) -> None:
        if self.schema is True:
            self.takes, self.free = always, _KNOWN

    def accepts(self, value: object) -> bool:
        """Return True if a JSON value is valid and a validation can decide this within its budget."""
        try:
            return self.takes(value, Work())
        except (ExhaustedError, PatternTimeoutError):
            return False

    def targets(self, work: Work | None = None) -> Iterator[Part]:
        """Iterate over the targets of the references. The current decision selects the target of a dynamic one."""
        return (follow(work) for follow in self.follows)


def rules_of(part: Part) -> Mapping[type, tuple[tuple[str, Check, Clause], ...]]:
    """Return the keywords of a part that can refuse a value, by the type of the value. Store them in the part."""
    if not part.rules:
        part.rules = dict.fromkeys(TYPES, () if part.clauses else (("false", never, Clause()),))
        for keyword, clause in part.clauses.items():
            for tp, check in clause.by_type.items():
                part.rules[tp] += ((keyword, check, clause),)
    return part.rules
