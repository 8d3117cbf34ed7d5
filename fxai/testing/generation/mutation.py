"""Data that a schema refuses: near misses, each one small change away from what it takes.

>>> from hypothesis import find
>>> from fxai.schema.json_schema import JsonSchema
>>> find(miss_of(JsonSchema.of({"type": "integer", "minimum": 0})), lambda value: type(value) is int)
-1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.budget import Exhausted
from fxai.schema.data import copied, is_array, is_object
from fxai.schema.dialect import dialect_of
from fxai.schema.document import growth_of
from fxai.schema.json_schema import JsonSchema
from fxai.schema.keywords import validator_of
from fxai.schema.pattern import Matcher
from fxai.schema.search import deciding_with
from fxai.testing.generation.conjunction import Dead
from fxai.testing.generation.instance import ANYTHING, Drawing

__all__ = ["miss_of"]

_TRIES: Final = 12
_NAMES: Final = 20
_NAMING: Final = ("properties", "dependentRequired", "dependentSchemas", "dependencies")
_OTHERS: Final[list[Any]] = [None, False, -1, 0, 1.5, "", "x", [], {}, [None], {"x": None}]
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS: Final = ("minLength", "maxLength")


def miss_of(document: JsonSchema, formats: dict[str, SearchStrategy[str]] | None = None) -> SearchStrategy[Any]:
    """Values that a document refuses, as `fxai.testing.strategies.not_instances` says."""
    plain = document.to_dict()
    if plain is True or plain == {}:
        return st.nothing()
    root, growth = validator_of(dialect_of(plain).uri, plain), growth_of(plain)
    edges = sorted(set(_edges(plain)), key=lambda edge: (abs(edge), edge))
    names = list(dict.fromkeys(_names(plain)))[:_NAMES]

    @st.composite
    def misses(draw: DrawFn) -> Any:
        try:
            with deciding_with(Matcher(60)):
                value = Drawing(draw, formats or {}, undeclared=True, growth=growth).value([root], 0)
        except (Dead, Exhausted):
            value = draw(ANYTHING)
        for _ in range(_TRIES):
            changed = _changed(draw, value, edges, names)
            if document.validate(changed, plain=True):
                return changed
            value = changed if draw(st.booleans()) or value == {} else value
        value = draw(ANYTHING)
        if not document.validate(value):
            raise UnsatisfiedAssumption("nothing was found that the schema refuses")
        return value

    return misses()


def _edges(schema: Any) -> Iterator[float]:
    """The numbers just beyond the bounds that a document names."""
    if is_object(schema):
        for keyword, value in schema.items():
            if keyword in (*_BOUNDS, *_LENGTHS) and isinstance(value, (int, float)) and not isinstance(value, bool):
                yield from (value - 1, value, value + 1)
            else:
                yield from _edges(value)
    elif is_array(schema):
        for inner in schema:
            yield from _edges(inner)


def _names(schema: Any) -> Iterator[str]:
    """The names of properties that a document speaks of."""
    if is_object(schema):
        for keyword, value in schema.items():
            if keyword in _NAMING and is_object(value):
                yield from value
            if keyword in (*_NAMING, "required"):
                yield from (name for name in _flat(value) if isinstance(name, str))
            yield from _names(value)
    elif is_array(schema):
        for inner in schema:
            yield from _names(inner)


def _flat(value: Any) -> Iterator[Any]:
    for inner in value.values() if is_object(value) else [value]:
        yield from inner if is_array(inner) else ()


def _changed(draw: DrawFn, value: Any, edges: list[float], names: list[str]) -> Any:
    """A copy of a value, changed at one place."""
    paths = list(_paths(value, ()))
    path = paths[draw(st.integers(0, len(paths) - 1))]
    whole = [copied(value)]
    there: Any = whole
    for token in (0, *path[:-1]) if path else ():
        there = there[token]
    last = path[-1] if path else 0
    changes = list(_changes(there[last], edges, names))
    there[last] = changes[draw(st.integers(0, len(changes) - 1))]
    return whole[0]


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    yield path
    for token, inner in value.items() if is_object(value) else enumerate(value) if is_array(value) else ():
        yield from _paths(inner, (*path, token))


def _changes(value: Any, edges: list[float], names: list[str]) -> Iterator[Any]:
    """What a value might be taken for: the same kind first, then others."""
    if is_object(value):
        for name in value:
            yield {other: item for other, item in value.items() if other != name}
        yield {**value, "unknown": None}
        yield from ({**value, name: other} for name in names if name not in value for other in (None, 0))
    elif is_array(value):
        yield value[:-1]
        yield [*value, value[-1] if value else None]
        yield [*value, *value, None]
    elif isinstance(value, str):
        lengths = [int(edge) for edge in edges if 0 <= edge <= 10_000]
        yield from (value[:-1], f"{value}x", value.swapcase(), *((value + "x" * length)[:length] for length in lengths))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from (value - 1, value + 1, -value, value + 0.5, *edges)
    yield from (other for other in _OTHERS if type(other) is not type(value))
