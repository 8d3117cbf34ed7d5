"""Generators of valid and invalid data of a schema. `fxai.testing.strategies` uses this module.

The generator chooses alternatives, follows references, and combines keywords that it can satisfy by construction. It
checks the other keywords (`not`, `oneOf`, `contains`, …) at their location, and tries again after a mismatch.

>>> from hypothesis import find
>>> from fxai.schema.json_schema import JsonSchema, engine_of
>>> find(instance_of(JsonSchema.of({"type": "array", "items": {"enum": ["a"]}, "minItems": 2})), lambda _: True)
['a', 'a']
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, TypeVar, final

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.budget import MAX_LOCATIONS, ExhaustedError, Work
from fxai.schema.data import JsonObject, copy_data, identity, is_array, is_object
from fxai.schema.json_schema import JsonSchema, engine_of
from fxai.schema.part import Part
from fxai.schema.pattern import SECONDS, compiled_pattern
from fxai.testing.generation.conjunction import Choose, Conjunction, DeadEndError, gather, height, keyword_of
from fxai.testing.generation.scalar import between, by_pattern, characters, integers, numbers, reach_of, texts

_A = TypeVar("_A")

_DEEP: Final = 4
"""The depth from which values are as small as the schema allows."""

_ATTEMPTS: Final = 8
_MOST_ITEMS: Final = 1_000  # items of one array
_BUDGET: Final = 300

SCALARS: Final[SearchStrategy[Any]] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters, max_size=8)
)
ANYTHING: Final[SearchStrategy[Any]] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(characters, max_size=5), inner, max_size=3),
    max_leaves=6,
)
"""Small JSON values of all kinds."""


def instance_of(
    document: JsonSchema, formats: dict[str, SearchStrategy[str]] | None = None, *, undeclared: bool = True
) -> SearchStrategy[Any]:
    """Generate values that a document accepts, see `fxai.testing.strategies.instances`."""
    plain = document.to_dict()
    if plain is True or plain == {}:
        return ANYTHING
    engine = engine_of(document)

    @st.composite
    def instances(draw: DrawFn) -> Any:
        drawing = Drawing(draw, formats or {}, undeclared=undeclared)
        try:
            value = drawing.value([engine.root], 0)
        except (DeadEndError, ExhaustedError):
            raise UnsatisfiedAssumption("found no value that the schema accepts") from None
        if document.validate(value):
            raise UnsatisfiedAssumption("the schema rejects the generated value")
        return value

    return instances()


_BOOLEANS: Final = st.booleans()


@final
class Drawing:
    """The state of a generated value, with the source of choices and the remaining attempts."""

    def __init__(self, draw: DrawFn, formats: dict[str, SearchStrategy[str]], *, undeclared: bool) -> None:
        self.draw = draw
        self.formats = formats
        self.undeclared = undeclared
        self.heights: dict[tuple[int, int], int] = {}
        self.steps: Work = Work(MAX_LOCATIONS)
        self._left = _BUDGET
        self._writes_points: bool | None = None

    def value(self, roots: list[Part], depth: int) -> Any:
        """Generate a value that all these schemas accept.

        Raises:
            DeadEndError: If no value was found.
        """
        for _ in range(_ATTEMPTS):
            self._left -= 1
            if self._left < 0:
                raise DeadEndError
            try:
                here = gather(roots, self.choosing(depth), steps=self.steps)
                value = self._draw(here, depth)
            except DeadEndError:
                continue
            if not here.must_be_checked() or self._fits(here, value):
                return value
        raise DeadEndError

    def _fits(self, here: Conjunction, value: object) -> bool:
        """Return True if the schemas accept a finished value. Count the steps of the check."""
        self.steps.take()
        return here.fits(value)

    def choosing(self, depth: int) -> Choose:
        """Return a function that chooses one of several alternatives at a depth."""

        def choose(alternatives: list[Part]) -> Part:
            if len(alternatives) == 1:
                return alternatives[0]
            if depth >= _DEEP:
                self.steps.take(steps=len(alternatives))
                return min(alternatives, key=lambda one: height(one, self.heights))
            return self.one_of(alternatives)

        return choose

    def one_of(self, options: list[_A]) -> _A:
        """Choose an option. The first option is the simplest."""
        return options[self.draw(between(0, len(options) - 1))]

    def happens(self) -> bool:
        """Return True for one of four choices. The simplest choice is False."""
        return self.draw(between(0, 3)) == 3

    def _draw(self, here: Conjunction, depth: int) -> Any:
        constants = [[part.schema["const"]] for part in here.parts if _has(part, "const")]
        listed = constants or [part.schema["enum"] for part in here.parts if _has(part, "enum")]
        if listed:
            fitting = [value for value in listed[0] if here.fits(value)]
            if not fitting:
                raise DeadEndError
            return copy_data(self.one_of(fitting))
        kinds = here.kinds()
        if not kinds:
            raise DeadEndError
        if not here.parts:
            return self.draw(SCALARS if depth >= _DEEP else ANYTHING)
        if depth >= _DEEP:
            kinds = [kind for kind in kinds if kind not in ("array", "object")] or kinds
        weighted = [*kinds, *here.likely(kinds) * 6] if len(kinds) > 3 else kinds
        match kinds[0] if len(kinds) == 1 else self.one_of(weighted):
            case "object":
                return Members(self, here, depth).draw()
            case "array":
                return self._array(here, depth)
            case "string":
                return self._text(here)
            case "integer" | "number" as kind:
                return self._number(here, kind)
            case "boolean":
                return self.draw(_BOOLEANS)
            case _:
                return None

    def _number(self, here: Conjunction, kind: str) -> float:
        if kind == "number":
            number: float = self.draw(numbers(here))
            if not reach_of(here).holds(number):
                raise DeadEndError
            return number
        integer: int = self.draw(integers(here))
        if self._writes_points is None:
            self._writes_points = self.happens()
        is_exact = self._writes_points and abs(integer) < 2**53
        return float(integer) if is_exact and all(part.dialect.name != "draft-04" for part in here.parts) else integer

    def _text(self, here: Conjunction) -> str:
        tried = texts(here, self.formats)
        if len(tried) == 1:
            return self.draw(tried[0])
        for strategy in tried * 3:
            text = self.draw(strategy)
            if here.fits(text):
                return text
        raise DeadEndError

    def _array(self, here: Conjunction, depth: int) -> list[Any]:
        least = math.ceil(max(here.all("minItems"), default=0))
        most = min([math.floor(end) for end in here.all("maxItems")], default=None)
        needed: list[Part] = []  # the schemas of `contains`, each as often as items must match it
        for part in here.parts:
            if (schema := keyword_of(part, "contains")) is not None:
                low = math.ceil(keyword_of(part, "minContains", 1))
                if low > _MOST_ITEMS:
                    raise DeadEndError
                needed += [part.under(schema)] * low
        least = max(least, len(needed))
        end = max(least, 0 if depth >= _DEEP else least + 3)
        end = end if most is None else min(end, most)
        if least > _MOST_ITEMS or end < least:
            raise DeadEndError
        size = self.draw(between(least, end))
        unique = any(value is True for value in here.all("uniqueItems"))
        items: list[Any] = []
        for index in range(size):
            schemas = [*_item_schemas(here, index), *needed[index : index + 1]]
            try:
                items.append(self._item(schemas, depth, items if unique else []))
            except DeadEndError:
                if index < least:
                    raise
                break
        # Independent items are rarely equal, but programs often confuse lists with sets.
        if len(items) > 1 and not unique and self.happens():
            repeated = [*items[:-1], items[0]]
            items = repeated if self._fits(here, repeated) else items
        return items

    def _item(self, schemas: list[Part], depth: int, others: list[Any]) -> Any:
        known = {identity(other) for other in others}
        for _ in range(_ATTEMPTS):
            item = self.value(schemas, depth + 1)
            if not known or identity(item) not in known:
                return item
        raise DeadEndError


def _has(part: Part, keyword: str) -> bool:
    return keyword in part.schema and keyword_of(part, keyword, part) is not part


def _item_schemas(here: Conjunction, index: int) -> list[Part]:
    found: list[Part] = []
    left: list[Part] = []
    for part in here.parts:
        items = keyword_of(part, "items")
        first = items if is_array(items) else keyword_of(part, "prefixItems", [])
        rest = keyword_of(part, "additionalItems") if is_array(items) else items
        if index < len(first):
            found.append(part.under(first[index]))
        elif rest is not None:
            found.append(part.under(rest))
        elif keyword_of(part, "unevaluatedItems") is not None:
            left.append(part.under(part.schema["unevaluatedItems"]))
    return found or left


# ---- objects

_NAME_TRIES: Final = 5
_MOST_PROPERTIES: Final = 1_000  # properties of one object
_TEXT: Final = {"type": "string"}
_FREE_NAMES: Final = st.text(characters, max_size=6)


def schemas_of(here: Conjunction, name: str) -> list[Part]:
    """Return the schemas that apply to a property."""
    found: list[Part] = []
    for part in here.parts:
        properties = keyword_of(part, "properties", {})
        own = [part.under(properties[name])] if name in properties else []
        for pattern, schema in keyword_of(part, "patternProperties", {}).items():
            if _matches(pattern, name):
                own.append(part.under(schema))
        if not own and (rest := keyword_of(part, "additionalProperties")) is not None:
            own.append(part.under(rest))
        found += own
    if found:
        return found
    unevaluated = ((part, keyword_of(part, "unevaluatedProperties")) for part in here.parts)
    return [part.under(rest) for part, rest in unevaluated if rest is not None]


def _matches(pattern: str, text: str) -> bool:
    try:
        return compiled_pattern(pattern).search(text, timeout=SECONDS) is not None
    except TimeoutError:
        raise DeadEndError from None


@final
class Members:
    """The generator of an object.

    Args:
        drawing: The state of the whole value.
        here: The schemas of the object.
        depth: The depth of the object in the value.
    """

    def __init__(self, drawing: Drawing, here: Conjunction, depth: int) -> None:
        self.drawing = drawing
        self.here = here
        self.depth = depth

    def draw(self) -> JsonObject:
        """Generate the object.

        Raises:
            DeadEndError: If no object was found.
        """
        least = math.ceil(max(self.here.all("minProperties"), default=0))
        most = math.floor(min(self.here.all("maxProperties"), default=10**9))
        if least > _MOST_PROPERTIES:
            raise DeadEndError
        known = dict.fromkeys(name for properties in self.here.all("properties") for name in properties)
        needed = dict.fromkeys(name for names in self.here.all("required") if is_array(names) for name in names)
        chosen = dict(needed)
        for name in known:
            full = len(chosen) >= most or self.depth >= _DEEP
            if name not in chosen and not full and self._allows(name) and self.drawing.draw(_BOOLEANS):
                chosen[name] = None
        for keyword in ("dependentRequired", "dependencies"):
            for name, asked in ((name, asked) for names in self.here.all(keyword) for name, asked in names.items()):
                chosen.update(dict.fromkeys(asked) if name in chosen and is_array(asked) else {})
        for name in known if len(chosen) < least else ():
            if len(chosen) < least and self._allows(name):
                chosen[name] = None
        self._add_undeclared(chosen, known, least, most)
        if not least <= len(chosen) <= most:
            raise DeadEndError
        value: JsonObject = {}
        for name in dict.fromkeys((*(one for one in known if one in chosen), *chosen)):
            try:
                value[name] = self.drawing.value(schemas_of(self.here, name), self.depth + 1)
            except DeadEndError:
                if name in needed or len(chosen) <= least:
                    raise
        return value

    def _add_undeclared(self, chosen: dict[str, None], known: dict[str, None], least: int, most: int) -> None:
        """Choose names without a declared schema up to the minimum, and sometimes more."""
        free = 0
        if self.depth < _DEEP and self._is_open() and (not known or self.drawing.happens()):
            free = self.drawing.draw(between(0, 2))
        wanted = min(max(least - len(chosen), free), most - len(chosen))
        for _ in range(wanted * _NAME_TRIES):
            if wanted <= 0:
                break
            name = self._name()
            if name in chosen or name in known or not self._allows(name):
                continue
            if self.drawing.undeclared or any(
                is_object(inner.schema) and inner.schema for inner in schemas_of(self.here, name)
            ):
                chosen[name] = None
                wanted -= 1

    def _allows(self, name: str) -> bool:
        if any(inner.schema is False for inner in schemas_of(self.here, name)):
            return False
        return all(inner.accepts(name) for inner in self._naming())

    def _naming(self) -> list[Part]:
        named = ((part, keyword_of(part, "propertyNames")) for part in self.here.parts)
        return [part.under(schema) for part, schema in named if schema is not None]

    def _is_open(self) -> bool:
        """Return True if undeclared properties are allowed."""
        for part in self.here.parts:
            if keyword_of(part, "additionalProperties") is False and not keyword_of(part, "patternProperties"):
                return False
            if keyword_of(part, "propertyNames") is False or keyword_of(part, "unevaluatedProperties") is False:
                return bool(keyword_of(part, "patternProperties"))
        return self.drawing.undeclared or any(
            is_object(keyword_of(part, "additionalProperties")) or keyword_of(part, "patternProperties")
            for part in self.here.parts
        )

    def _name(self) -> str:
        """Generate a name for an undeclared property that matches the schemas and patterns of names."""
        naming = self._naming()
        if naming:
            text = naming[0].under(_TEXT)
            return str(self.drawing.value([text, *naming], _DEEP))
        patterns = [pattern for patterned_ in self.here.all("patternProperties") for pattern in patterned_]
        made = [strategy for pattern in patterns for strategy in by_pattern(pattern, 0, None)]
        return self.drawing.draw(st.one_of([*made, _FREE_NAMES]) if made else _FREE_NAMES)


# ---- near misses

_TRIES: Final = 12
_MOST_NAMES: Final = 20
_NAMING: Final = ("properties", "dependentRequired", "dependentSchemas", "dependencies")
_OTHERS: Final[list[Any]] = [None, False, -1, 0, 1.5, "", "x", [], {}, [None], {"x": None}]
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS: Final = ("minLength", "maxLength")


def miss_of(
    document: JsonSchema,
    formats: dict[str, SearchStrategy[str]] | None = None,
    *,
    valid: SearchStrategy[Any] | None = None,
) -> SearchStrategy[Any]:
    """Generate values that a document rejects, see `fxai.testing.strategies.not_instances`.

    `valid` generates the values to change. By default, they are new valid values.
    """
    plain = document.to_dict()
    if plain is True or plain == {}:
        return st.nothing()
    engine = engine_of(document)
    edges = sorted(set(_edges(plain)), key=lambda edge: (abs(edge), edge))
    names = list(dict.fromkeys(_names(plain)))[:_MOST_NAMES]

    @st.composite
    def misses(draw: DrawFn) -> Any:
        try:
            new = Drawing(draw, formats or {}, undeclared=True)
            value = new.value([engine.root], 0) if valid is None else draw(valid)
        except (DeadEndError, ExhaustedError):
            value = draw(ANYTHING)
        for _ in range(_TRIES):
            changed = _change(draw, value, edges, names)
            if document.validate(changed, plain=True):
                return changed
            value = changed if draw(_BOOLEANS) or value == {} else value
        value = draw(ANYTHING)
        if not document.validate(value):
            raise UnsatisfiedAssumption("found no value that the schema rejects")
        return value

    return misses()


def _edges(schema: Any) -> Iterator[float]:
    """Yield the numbers at and next to the bounds of a document."""
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
    if is_object(schema):
        for keyword, value in schema.items():
            if keyword in _NAMING and is_object(value):
                yield from value
            if keyword in (*_NAMING, "required"):
                listed = [inner for inner in (value.values() if is_object(value) else [value]) if is_array(inner)]
                yield from (name for names in listed for name in names if isinstance(name, str))
            yield from _names(value)
    elif is_array(schema):
        for inner in schema:
            yield from _names(inner)


def _change(draw: DrawFn, value: Any, edges: list[float], names: list[str]) -> Any:
    paths = list(_paths(value, ()))
    path = paths[draw(between(0, len(paths) - 1))]
    whole = [copy_data(value)]
    there: Any = whole
    for token in (0, *path[:-1]) if path else ():
        there = there[token]
    last = path[-1] if path else 0
    changes = list(_changes(there[last], edges, names))
    there[last] = changes[draw(between(0, len(changes) - 1))]
    return whole[0]


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    yield path
    for token, inner in value.items() if is_object(value) else enumerate(value) if is_array(value) else ():
        yield from _paths(inner, (*path, token))


def _changes(value: Any, edges: list[float], names: list[str]) -> Iterator[Any]:
    """Yield changed values, first with the same type, then with other types."""
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
