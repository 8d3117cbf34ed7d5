"""Data that a schema takes, drawn place by place.

Alternatives are chosen, references followed and keywords that stand together met together, as far as they can be met
by making; what remains (`not`, `oneOf`, `contains`, …) is looked at where it stands, and tried again there.

>>> from hypothesis import find
>>> from fxai.schema.json_schema import JsonSchema
>>> find(instance_of(JsonSchema.of({"type": "array", "items": {"enum": ["a"]}, "minItems": 2})), lambda _: True)
['a', 'a']
"""

from __future__ import annotations

import math
from typing import Any, Final, final

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.budget import MAX_PLACES, NO_GROWTH, Exhausted, Growth, Steps
from fxai.schema.data import copied, identity, is_array
from fxai.schema.dialect import dialect_of
from fxai.schema.document import growth_of
from fxai.schema.json_schema import JsonSchema
from fxai.schema.keywords import inside, validator_of
from fxai.schema.pattern import Matcher
from fxai.schema.search import Search, deciding_with
from fxai.testing.generation.atom import integers, numbers, reach_of, texts
from fxai.testing.generation.conjunction import Conjunction, Dead, gathered, height, keyword_of
from fxai.testing.generation.member import Members
from fxai.testing.generation.text import characters

__all__ = ["ANYTHING", "SCALARS", "Drawing", "instance_of"]

DEEP: Final = 4
"""From this depth on, values are as small as the schema lets them be."""

_ATTEMPTS: Final = 8
_MOST: Final = 1_000  # items that are drawn for one array
_BUDGET: Final = 300
_SECONDS: Final = 60.0

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
"""Any JSON value, small."""


def instance_of(
    document: JsonSchema, formats: dict[str, SearchStrategy[str]] | None = None, *, undeclared: bool = True
) -> SearchStrategy[Any]:
    """Values that a document takes, as `fxai.testing.strategies.instances` says."""
    plain = document.to_dict()
    if plain is True or plain == {}:
        return ANYTHING
    root, growth = validator_of(dialect_of(plain).uri, plain), growth_of(plain)

    @st.composite
    def instances(draw: DrawFn) -> Any:
        drawing = Drawing(draw, formats or {}, undeclared=undeclared, growth=growth)
        try:
            with deciding_with(Matcher(_SECONDS)):
                value = drawing.value([root], 0)
        except (Dead, Exhausted):
            raise UnsatisfiedAssumption("nothing was found that the schema takes") from None
        if document.validate(value):
            raise UnsatisfiedAssumption("the schema does not take what was found")
        return value

    return instances()


@final
class Drawing:
    """A value that is being drawn: what draws its choices, and how much may still be tried."""

    def __init__(
        self, draw: DrawFn, formats: dict[str, SearchStrategy[str]], *, undeclared: bool, growth: Growth = NO_GROWTH
    ) -> None:
        self.draw = draw
        self.growth = growth
        self.formats = formats
        self.undeclared = undeclared
        self.heights: dict[tuple[int, int], int] = {}
        self.steps = Steps(MAX_PLACES)
        self._left = _BUDGET

    def value(self, roots: list[Any], depth: int) -> Any:
        """A value that all these schemas take.

        Raises:
            Dead: none was found.
        """
        for _ in range(_ATTEMPTS):
            self._left -= 1
            if self._left < 0:
                raise Dead
            try:
                here = gathered(roots, self.choosing(depth), steps=self.steps)
                value = self._drawn(here, depth)
            except Dead:
                continue
            if not here.must_be_checked() or self._fits(here, value):
                return value
        raise Dead

    def _fits(self, here: Conjunction, value: object) -> bool:
        """Whether a finished value is taken, as far as the steps go."""
        self.steps.take(steps=self.growth.visits)
        if self.growth.linear:
            return here.fits(value)
        return all(Search(root, careful=True).accepts(value) for root in here.roots)

    def choosing(self, depth: int) -> Any:
        """How one of several alternatives is chosen at a depth."""

        def choose(alternatives: list[Any]) -> Any:
            if len(alternatives) == 1:
                return alternatives[0]
            if depth >= DEEP:
                self.steps.take(steps=len(alternatives))
                return min(alternatives, key=lambda one: height(one, self.heights))
            return alternatives[self.draw(st.integers(0, len(alternatives) - 1))]

        return choose

    def _drawn(self, here: Conjunction, depth: int) -> Any:
        if _is_listed(here):
            return self._one_of(here)
        kinds = here.kinds()
        if not kinds:
            raise Dead
        if not here.parts:
            return self.draw(SCALARS if depth >= DEEP else ANYTHING)
        kind = self._kind(here, kinds, depth)
        if kind == "object":
            return Members(self, here, depth).drawn()
        if kind == "array":
            return self._array(here, depth)
        return self._atom(here, kind)

    def _kind(self, here: Conjunction, kinds: list[str], depth: int) -> str:
        if depth >= DEEP:
            kinds = [kind for kind in kinds if kind not in ("array", "object")] or kinds
        if len(kinds) == 1:
            return kinds[0]
        weighted = [*kinds, *here.hinted(kinds) * 6] if len(kinds) > 3 else kinds
        return weighted[self.draw(st.integers(0, len(weighted) - 1))]

    def _one_of(self, here: Conjunction) -> Any:
        """One of the values that a schema lists, if all the schemas take it."""
        constants = [part.schema["const"] for part in here.parts if _has(part, "const")]
        listed = constants[:1] or next(part.schema["enum"] for part in here.parts if _has(part, "enum"))
        fitting = [value for value in listed if here.fits(value)]
        if not fitting:
            raise Dead
        return copied(fitting[self.draw(st.integers(0, len(fitting) - 1))])

    def _atom(self, here: Conjunction, kind: str) -> Any:
        if kind == "string":
            return self._text(here)
        if kind == "integer":
            return self.draw(integers(here))
        if kind == "number":
            number = self.draw(numbers(here))
            if not reach_of(here).holds(number):
                raise Dead
            return number
        return self.draw(st.booleans()) if kind == "boolean" else None

    def _text(self, here: Conjunction) -> str:
        tried = texts(here, self.formats)
        if len(tried) == 1:
            return self.draw(tried[0])
        for strategy in tried * 3:
            text = self.draw(strategy)
            if here.fits(text):
                return text
        raise Dead

    def _array(self, here: Conjunction, depth: int) -> list[Any]:
        least = math.ceil(max(here.all("minItems"), default=0))
        most = min([math.floor(end) for end in here.all("maxItems")], default=None)
        wanted = _contained(here)
        least = max(least, sum(low for _, low in wanted))
        size = self._size(least, most, depth)
        unique = any(value is True for value in here.all("uniqueItems"))
        needed = [schema for schema, low in wanted for _ in range(low)]
        items: list[Any] = []
        for index in range(size):
            schemas = [*_item_schemas(here, index), *needed[index : index + 1]]
            try:
                items.append(self._item(schemas, depth, items if unique else []))
            except Dead:
                if index < least:
                    raise
                break
        return items

    def _size(self, least: int, most: int | None, depth: int) -> int:
        if least > _MOST:
            raise Dead
        end = max(least, 0 if depth >= DEEP else least + 3)
        if most is not None:
            end = min(end, most)
        if end < least:
            raise Dead
        return self.draw(st.integers(least, end))

    def _item(self, schemas: list[Any], depth: int, others: list[Any]) -> Any:
        known = {identity(other) for other in others}
        for _ in range(_ATTEMPTS):
            item = self.value(schemas, depth + 1)
            if not known or identity(item) not in known:
                return item
        raise Dead


def _has(part: Any, keyword: str) -> bool:
    return keyword in part.schema and keyword_of(part, keyword, part) is not part


def _is_listed(here: Conjunction) -> bool:
    return any(_has(part, keyword) for part in here.parts for keyword in ("const", "enum"))


def _contained(here: Conjunction) -> list[tuple[Any, int]]:
    """The schemas of which an array must contain items, and how many."""
    found: list[tuple[Any, int]] = []
    for part in here.parts:
        schema = keyword_of(part, "contains")
        if schema is not None:
            found.append((inside(part, schema), math.ceil(keyword_of(part, "minContains", 1))))
    return found


def _item_schemas(here: Conjunction, index: int) -> list[Any]:
    """The schemas that apply to the item at an index."""
    found: list[Any] = []
    left: list[Any] = []
    for part in here.parts:
        items = keyword_of(part, "items")
        first = items if is_array(items) else keyword_of(part, "prefixItems", [])
        rest = keyword_of(part, "additionalItems") if is_array(items) else items
        if index < len(first):
            found.append(inside(part, first[index]))
        elif rest is not None:
            found.append(inside(part, rest))
        elif keyword_of(part, "unevaluatedItems") is not None:
            left.append(inside(part, part.schema["unevaluatedItems"]))
    return found or left
