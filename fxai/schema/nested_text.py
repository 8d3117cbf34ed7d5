"""JSON text in the place of an object or an array, read as the data that it holds: models often nest one in another.

A text is read where the document takes no string at all, and takes the data of the text, with texts inside it read
likewise; under `anyOf` and `oneOf` where exactly one branch does. All else stays as it is, to be refused as ever.

>>> from fxai.schema.json_schema import JsonSchema
>>> pages = JsonSchema.of({"properties": {"pages": {"type": "array", "items": {"type": "integer"}}}})
>>> read_texts(pages, {"pages": "[1, 2]"}), read_texts(pages, {"pages": "[1, true]"})
(({'pages': [1, 2]}, ('/pages',)), ({'pages': '[1, true]'}, ()))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.schema.budget import MAX_STEPS, ExhaustedError, Steps, with_stack
from fxai.schema.data import JSON_ERRORS, is_array, is_object, size_of
from fxai.schema.fault import pointer_to
from fxai.schema.json_schema import JsonSchema, engine_of
from fxai.schema.parsing import LIMITS, Limits, may_be_nested, parse_json
from fxai.schema.part import Part, Work
from fxai.schema.pattern import PatternTimeoutError

_MOST_INSIDE: Final = 4
_WORK: Final = 20_000
_CREDIT: Final = 60_000  # how much more for what texts say, all together
_VISIT: Final = 4  # what a schema that is held against a value costs, beside a value that is looked at
_TEXT: Final = 10  # what a text costs that is read, beside its data
_PIECE: Final = 256  # how many of its characters cost as much as a value
_ANYTHING: Final[dict[str, Any]] = {}
_NO_VALUE: Final[dict[str, Any]] = {"not": {}}
_REFERENCE: Final = {"$ref"}


_Key: TypeAlias = tuple[frozenset[int], int, str]


def read_texts(document: JsonSchema, data: Any, limits: Limits = LIMITS) -> tuple[Any, tuple[str, ...]]:
    """The data with its nested texts read, and where they stood, as JSON pointers; the same object where none was.

    Texts inside of texts are read four deep. What asks for too much work, in schemas that multiply, is not read.

    Args:
        document: what the data was to be an instance of.
        data: plain JSON data that is none.
        limits: of each text; the depth of its data is counted from where it stands.
    """

    def read() -> tuple[Any, tuple[str, ...]]:
        reader = _Reader(limits)
        reader.note(data)
        return reader.read(engine_of(document).root, data, "", 0), tuple(reader.found)

    try:
        return with_stack(read)
    except (ExhaustedError, PatternTimeoutError, RecursionError):
        return data, ()


@final
class _Reader:
    """One reading: parts say which schema stands where, and whether it takes a value.

    Attributes:
        found: where texts were read, so far.
    """

    __slots__ = (
        "_credit",
        "_holding",
        "_inside",
        "_left",
        "_limits",
        "_noted",
        "_read",
        "_strings",
        "_taken",
        "_work",
        "found",
    )

    def __init__(self, limits: Limits) -> None:
        self.found: list[str] = []
        self._work = Work()
        self._limits = limits
        self._left = _WORK
        self._noted = Steps(MAX_STEPS)
        self._credit = _CREDIT
        self._holding: set[int] = set()
        self._inside = 0
        self._strings: dict[int, bool] = {}
        self._taken: dict[tuple[int, int], tuple[bool, Any]] = {}
        self._read: dict[_Key, tuple[Any, list[str], Any]] = {}

    def note(self, value: Any) -> bool:
        """Note where texts are: what holds none need not be looked at."""
        self._noted.take()
        if isinstance(value, str):
            return may_be_nested(value)
        members = value.values() if is_object(value) else value if is_array(value) else ()
        held = [self.note(one) for one in members]  # each of them is noted
        if any(held):
            self._holding.add(id(value))
        return any(held)

    def _holds(self, value: Any) -> bool:
        return may_be_nested(value) if isinstance(value, str) else id(value) in self._holding

    def read(self, part: Part, value: Any, pointer: str, depth: int) -> Any:
        """The value as the part's schema takes it, as far as texts are what is in the way."""
        if not self._holds(value):
            return value
        self._spend(_VISIT)
        together = list(_together(part))
        key = (frozenset(id(one.schema) for one in together if one.schema.keys() != _REFERENCE), id(value), pointer)
        known = self._read.get(key)
        if known is None:
            before = len(self.found)
            read = self._fresh(part, together, value, pointer, depth)
            self._read[key] = read, self.found[before:], value
            return read
        self.found += known[1]
        return known[0]

    def _fresh(self, part: Part, together: list[Any], value: Any, pointer: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(part, value, pointer, depth)
        for one in together:
            value = self._members(one, value, pointer, depth + 1)
        for one in together:
            value = self._choose(one, value, pointer, depth)
        return value

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ExhaustedError

    def _text(self, part: Part, text: str, pointer: str, depth: int) -> Any:
        levels = self._limits.max_depth - depth
        if self._inside >= _MOST_INSIDE or levels < 1 or self._takes_strings(part):
            return text
        self._spend(_TEXT + len(text) // _PIECE)
        if not _is_json(text):
            return text
        parsed = parse_json(text, msgspec.structs.replace(self._limits, max_depth=levels))
        if not isinstance(parsed, Success):
            return text
        before = len(self.found)
        self.found.append(pointer)
        value: Any = parsed.unwrap()
        credit = min(2 * size_of(value), self._credit)
        self._credit -= credit
        self._left += credit
        if not self._takes(part, value) and self.note(value):
            self._inside += 1
            value = self.read(part, value, pointer, depth)
            self._inside -= 1
        if self._takes(part, value) and self._is_certain(part, value):
            return value
        del self.found[before:]
        return text

    def _takes(self, part: Part, value: Any) -> bool:
        key = (id(part.schema), id(value))
        known = self._taken.get(key)
        if known is None:
            self._spend(_VISIT + size_of(value))
            known = self._taken[key] = (
                part.takes(value, self._work),
                value,
            )  # the value is kept, so that its id is its own
        return known[0]

    # -- what stands where

    def _members(self, part: Part, value: Any, pointer: str, depth: int) -> Any:
        if is_object(value):
            changed = {
                name: self._each(part, self._at_name(part.schema, name), item, pointer_to(pointer, name), depth)
                for name, item in value.items()
            }
            return value if all(changed[name] is item for name, item in value.items()) else self._note_holder(changed)
        items = [
            self._each(part, _at_index(part.schema, index), item, f"{pointer}/{index}", depth)
            for index, item in enumerate(value)
        ]
        return value if all(old is new for old, new in zip(value, items, strict=True)) else self._note_holder(items)

    def _note_holder(self, changed: Any) -> Any:
        """What took a value's place, which may hold more texts, for other schemas to read."""
        if any(self._holds(one) for one in (changed.values() if is_object(changed) else changed)):
            self._holding.add(id(changed))
        return changed

    def _at_name(self, schema: dict[str, Any], name: str) -> Iterator[Any]:
        """What stands under a name."""
        asked = schema.get("patternProperties", {})
        self._spend(len(asked))
        patterns = [inner for key, inner in asked.items() if self._work.matcher.matches(key, name)]
        known = name in schema.get("properties", {})
        if known:
            yield schema["properties"][name]
        yield from patterns
        if not known and not patterns and "additionalProperties" in schema:
            yield schema["additionalProperties"]

    def _each(self, part: Part, schemas: Iterable[Any], item: Any, pointer: str, depth: int) -> Any:
        for schema in schemas:
            item = self.read(part.under(schema), item, pointer, depth)
        return item

    # -- what holds by choice

    def _choose(self, part: Part, value: Any, pointer: str, depth: int) -> Any:
        schema = part.schema
        for keyword in ("anyOf", "oneOf"):
            value = self._branch([part.under(one) for one in schema.get(keyword, ())], value, pointer, depth)
        held: list[Any] = []
        if "if" in schema:
            taken = "then" if self._takes(part.under(schema["if"]), value) else "else"
            held += [schema[taken]] if taken in schema else []
        for keyword in ("dependentSchemas", "dependencies"):
            held += [inner for name, inner in schema.get(keyword, {}).items() if is_object(inner) and name in value]
        return self._each(part, held, value, pointer, depth)

    def _branch(self, branches: list[Any], value: Any, pointer: str, depth: int) -> Any:
        """The value as the one branch has it that takes it; as it is where a branch takes it so, or several would."""
        if any(self._takes(branch, value) for branch in branches):
            return value
        before = len(self.found)
        fitting: list[tuple[Any, list[str]]] = []
        for branch in branches:
            read = self.read(branch, value, pointer, depth)
            if read is not value and self._takes(branch, read):
                fitting.append((read, self.found[before:]))
            del self.found[before:]
        if len(fitting) != 1:
            return value
        self.found += fitting[0][1]
        return fitting[0][0]

    def _is_certain(self, part: Part, value: Any) -> bool:
        """Whether of each union that holds a value exactly one branch takes it."""
        for one in _together(part):
            unions = [one.schema[keyword] for keyword in ("anyOf", "oneOf") if keyword in one.schema]
            for union in unions:
                fitting = [branch for inner in union if self._takes(branch := one.under(inner), value)]
                if len(fitting) != 1 or not self._is_certain(fitting[0], value):
                    return False
        return True

    # -- whether a string may be there

    def _takes_strings(self, part: Part) -> bool:
        """Whether some string is an instance, as far as type, `enum`, `const` and unions say."""
        return all(self._admits_string(one) for one in _together(part))

    def _admits_string(self, part: Part) -> bool:
        schema = part.schema
        if id(schema) not in self._strings:
            self._strings[id(schema)] = True
            unions = [schema[keyword] for keyword in ("anyOf", "oneOf") if keyword in schema]
            self._strings[id(schema)] = _names_string(schema) and all(
                any(self._takes_strings(part.under(one)) for one in union) for union in unions
            )
        return self._strings[id(schema)]


def _together(part: Part) -> Iterator[Any]:
    """The parts of every schema that holds the same value: references followed, `allOf` opened, each once."""
    waiting, seen = [part], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one.schema) in seen:
            continue
        seen.add(id(one.schema))
        if isinstance(one.schema, bool):
            yield one.under(_ANYTHING if one.schema else _NO_VALUE)
            continue
        waiting += one.targets()
        if "$ref" in one.schema and one.dialect.ref_alone:
            continue
        yield one
        waiting += [one.under(inner) for inner in one.schema.get("allOf", ())]


def _names_string(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", "string")
    if "string" not in (kinds if is_array(kinds) else [kinds]):
        return False
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(listed) and not any(isinstance(value, str) for value in listed):
        return False
    return schema.get("not") not in (True, {}, {"type": "string"})


def _at_index(schema: dict[str, Any], index: int) -> Iterator[Any]:
    """What stands at an index."""
    items = schema.get("items")
    first, rest = ("items", "additionalItems") if is_array(items) else ("prefixItems", "items")
    places = schema.get(first, ())
    if index < len(places):
        yield places[index]
    elif rest in schema:
        yield schema[rest]


def _is_json(text: str) -> bool:
    """Whether text is JSON, decided without a word about why not."""
    try:
        msgspec.json.decode(text)
    except JSON_ERRORS:
        return False
    return True
