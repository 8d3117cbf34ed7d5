"""Objects that several schemas take: which properties they have, and the value of each.

>>> from fxai.schema.dialect import LATEST
>>> from fxai.schema.keywords import validator_of
>>> from fxai.testing.generation.conjunction import gathered
>>> schema = {"properties": {"a": {"type": "null"}}, "additionalProperties": False}
>>> here = gathered([validator_of(LATEST.uri, schema)], lambda options: options[0])
>>> schemas_of(here, "a")[0].schema["type"], schemas_of(here, "b")[0].schema
('null', False)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, Protocol, final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fxai.schema.budget import Steps
from fxai.schema.data import is_array, is_object
from fxai.schema.keywords import inside
from fxai.schema.pattern import SECONDS, compiled_pattern
from fxai.testing.generation.conjunction import Conjunction, Dead, gathered, keyword_of
from fxai.testing.generation.text import characters, patterned

__all__ = ["Drawer", "Members", "schemas_of"]

_DEEP: Final = 4
_TRIES: Final = 5
_MOST: Final = 1_000  # properties that are drawn for one object
_NAMES: Final = st.text(characters, max_size=6)


def schemas_of(here: Conjunction, name: str) -> list[Any]:
    """The schemas that apply to a property."""
    found: list[Any] = []
    for part in here.parts:
        own = list(_declaring(part, name))
        if not own and (rest := keyword_of(part, "additionalProperties")) is not None:
            own.append(inside(part, rest))
        found += own
    if found:
        return found
    unevaluated = ((part, keyword_of(part, "unevaluatedProperties")) for part in here.parts)
    return [inside(part, rest) for part, rest in unevaluated if rest is not None]


def _declaring(part: Any, name: str) -> Iterator[Any]:
    properties = keyword_of(part, "properties", {})
    if name in properties:
        yield inside(part, properties[name])
    for pattern, schema in keyword_of(part, "patternProperties", {}).items():
        if _found(pattern, name):
            yield inside(part, schema)


def _found(pattern: str, text: str) -> bool:
    try:
        return compiled_pattern(pattern).search(text, timeout=SECONDS) is not None
    except TimeoutError:
        raise Dead from None


class Drawer(Protocol):
    """What draws a value, as its objects see it: the choices, and the values of their properties."""

    draw: DrawFn
    undeclared: bool
    """Whether objects may have properties that no schema declares."""
    steps: Steps

    def value(self, roots: list[Any], depth: int, /) -> Any:
        """A value that all these schemas take; raises `Dead` where none was found."""
        ...

    def choosing(self, depth: int, /) -> Any:
        """How one of several alternatives is chosen at a depth."""
        ...


@final
class Members:
    """An object that is being drawn: the names chosen so far, and those that are left out."""

    def __init__(self, drawing: Drawer, here: Conjunction, depth: int) -> None:
        self.drawing = drawing
        self.here = here
        self.depth = depth
        self.chosen: dict[str, None] = {}
        self.away: set[str] = set()
        self.followed: set[int] = set()
        self.least = 0
        self.most = math.inf

    def drawn(self) -> dict[str, Any]:
        """The object.

        Raises:
            Dead: none was found.
        """
        self.least = math.ceil(max(self.here.all("minProperties"), default=0))
        self.most = math.floor(min(self.here.all("maxProperties"), default=10**9))
        if self.least > _MOST:
            raise Dead
        self._choose_known()
        while self._follow_dependents():
            self._choose_known()
        self._fill()
        if len(self.chosen) > self.most:
            raise Dead
        needed = set(self._required())
        value: dict[str, Any] = {}
        for name in self.chosen:
            try:
                value[name] = self.drawing.value(schemas_of(self.here, name), self.depth + 1)
            except Dead:
                if name in needed or len(self.chosen) <= self.least:
                    raise
        return value

    def _required(self) -> Iterator[str]:
        for names in self.here.all("required"):
            if is_array(names):
                yield from names

    def _known(self) -> dict[str, None]:
        return {name: None for properties in self.here.all("properties") for name in properties}

    def _choose_known(self) -> None:
        """Take the required properties, and some of the others that have a schema."""
        required = list(self._required())
        for name in required:
            self.away.discard(name)
            self.chosen[name] = None
        for name in self._known():
            if name in self.chosen or name in self.away:
                continue
            full = len(self.chosen) >= self.most or self.depth >= _DEEP
            if not full and self._allowed(name) and self.drawing.draw(st.booleans()):
                self.chosen[name] = None
            else:
                self.away.add(name)
        known = self._known()
        if len(known) > 1 and len(self.chosen) > 1:
            self.chosen = dict.fromkeys((*(n for n in known if n in self.chosen), *self.chosen))

    def _allowed(self, name: str) -> bool:
        if any(inner.schema is False for inner in schemas_of(self.here, name)):
            return False
        return all(inner.is_valid(name) for inner in self._naming())

    def _naming(self) -> list[Any]:
        named = ((part, keyword_of(part, "propertyNames")) for part in self.here.parts)
        return [inside(part, schema) for part, schema in named if schema is not None]

    def _follow_dependents(self) -> bool:
        """Take what the chosen properties ask for; true where that brought something new."""
        before = len(self.chosen)
        joined = False
        for part in list(self.here.parts):
            for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
                for name, asked in keyword_of(part, keyword, {}).items():
                    if name not in self.chosen or not (is_array(asked) or is_object(asked) or asked is False):
                        continue
                    if is_array(asked):
                        self.chosen.update(dict.fromkeys(asked))
                        self.away.difference_update(asked)
                    elif id(asked) not in self.followed:
                        self.followed.add(id(asked))
                        choose, steps = self.drawing.choosing(self.depth), self.drawing.steps
                        gathered([inside(part, asked)], choose, self.here, steps=steps)
                        joined = True
        return joined or len(self.chosen) > before

    def _fill(self) -> None:
        """Add properties until there are enough, and now and then one that nothing is known of."""
        places = {name: place for place, name in enumerate(self._known())}
        for name in sorted(self.away, key=places.__getitem__) if len(self.chosen) < self.least else ():
            if len(self.chosen) < self.least and self._allowed(name):
                self.chosen[name] = None
        free = 0 if self.depth >= _DEEP or not self._is_open() else self.drawing.draw(st.integers(0, 2))
        wanted = max(self.least, len(self.chosen) + free) - len(self.chosen)
        for _ in range(int(min(wanted, self.most - len(self.chosen))) * _TRIES):
            if len(self.chosen) >= self.most or wanted <= 0:
                break
            name = self._name()
            if name not in self.chosen and name not in self.away and self._welcome(name):
                self.chosen[name] = None
                wanted -= 1
        if len(self.chosen) < self.least:
            raise Dead

    def _is_open(self) -> bool:
        """Whether properties may stand here that no schema names."""
        for part in self.here.parts:
            if keyword_of(part, "additionalProperties") is False and not keyword_of(part, "patternProperties"):
                return False
            if keyword_of(part, "propertyNames") is False or keyword_of(part, "unevaluatedProperties") is False:
                return bool(keyword_of(part, "patternProperties"))
        return self.drawing.undeclared or any(
            is_object(keyword_of(part, "additionalProperties")) or keyword_of(part, "patternProperties")
            for part in self.here.parts
        )

    def _welcome(self, name: str) -> bool:
        if not self._allowed(name):
            return False
        return self.drawing.undeclared or any(
            is_object(inner.schema) and inner.schema for inner in schemas_of(self.here, name)
        )

    def _name(self) -> str:
        """A name that no schema lists, made for the schemas and patterns that names have here."""
        naming = self._naming()
        if naming:
            text = naming[0].evolve(schema={"type": "string"})
            return str(self.drawing.value([text, *naming], _DEEP))
        patterns = [pattern for patterned_ in self.here.all("patternProperties") for pattern in patterned_]
        made = [strategy for pattern in patterns for strategy in patterned(pattern, 0, None)]
        return self.drawing.draw(st.one_of([*made, _NAMES]) if made else _NAMES)
