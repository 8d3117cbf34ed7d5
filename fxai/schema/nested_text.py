"""JSON text instead of an object or an array. Use this module to read the data of the text.

Models often write JSON text inside JSON. fxai reads a text if the document accepts no string at its location, but
accepts the data of the text. If `anyOf` or `oneOf` applies to the text, exactly one alternative must accept the data.

>>> from fxai.schema.json_schema import JsonSchema
>>> pages = JsonSchema.of({"properties": {"pages": {"type": "array", "items": {"type": "integer"}}}})
>>> read_texts(pages, {"pages": "[1, 2]"}), read_texts(pages, {"pages": "[1, true]"})
(({'pages': [1, 2]}, ('/pages',)), ({'pages': '[1, true]'}, ()))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
from returns.result import Success

from fxai.schema.budget import ExhaustedError, Work, with_stack
from fxai.schema.data import copy_data, is_array
from fxai.schema.fault import Fault, in_order, pointer_tokens
from fxai.schema.json_schema import JsonSchema, engine_of
from fxai.schema.location import MISSING, value_at
from fxai.schema.parsing import LIMITS, Limits, may_be_nested, parse_json
from fxai.schema.part import Part
from fxai.schema.pattern import PatternTimeoutError
from fxai.schema.validation import Breach, EnoughError, Finder

_MOST_INSIDE: Final = 4
_TEXT: Final = 10  # steps of a text, in addition to one step for each 256 characters
_PIECE: Final = 256


def read_texts(document: JsonSchema, data: Any, limits: Limits = LIMITS) -> tuple[Any, tuple[str, ...]]:
    """Return the data with parsed strings, and the JSON pointers of the strings. Without any, return the same object.

    fxai parses the strings at the locations of the errors and validates the data again. It reads text inside text up to
    four levels. The whole search has the budget of a single validation. `limits` apply to each text, and its maximum
    depth includes the depth of its location.
    """
    try:
        return with_stack(lambda: _read(engine_of(document).root, data, limits))
    except (ExhaustedError, PatternTimeoutError, RecursionError):
        return data, ()


def _read(root: Part, data: Any, limits: Limits) -> tuple[Any, tuple[str, ...]]:
    value = {"": copy_data(data)}  # in an object, because the whole data can be a text
    work, locations, refusals = Finder(), dict[str, str](), list[Breach]()
    while not root.takes(value[""], work):
        with suppress(EnoughError):
            work.walk(root, value[""], "")
        breaches = work.found
        refusals += breaches
        texts = {one.pointer: one.value for one in _about_texts(breaches) if one.pointer not in locations}
        if not _parse_all(value, texts, locations, limits, work):
            _put_back(value, locations, breaches)
            break
        work = Finder(work.left)
    work = Finder(work.left)  # without decisions about data that `_put_back` has changed
    around = [one for one in refusals if any(_is_inside(location, one.pointer) for location in locations)]
    if not locations or not all(_is_certain(one, value[""], work) for one in around):
        return data, ()
    ordered = in_order((Fault(location, "", "") for location in locations), value[""])
    return value[""], tuple(one.pointer for one in ordered)


def _parse_all(value: Any, texts: dict[str, str], locations: dict[str, str], limits: Limits, work: Work) -> bool:
    """Replace the strings that are JSON text, and add their locations. Return True if at least one string is."""
    before = len(locations)
    for pointer, text in texts.items():
        work.take(_TEXT + len(text) // _PIECE)
        around = sum(pointer.startswith(f"{location}/") for location in locations)
        levels = limits.max_depth - pointer.count("/")
        if around < _MOST_INSIDE and levels > 0:
            parsed = parse_json(text, msgspec.structs.replace(limits, max_depth=levels))
            if isinstance(parsed, Success):
                _put(value, pointer, parsed.unwrap())
                locations[pointer] = text
    return len(locations) > before


def _put_back(value: Any, locations: dict[str, str], breaches: list[Breach]) -> None:
    """Restore the strings with invalid data, and the strings inside a union without a valid alternative."""
    unions = [one.pointer for one in breaches if one.branches]
    for location in sorted(locations, key=len):
        wrong = any(_is_inside(one.pointer, location) for one in breaches) or any(
            _is_inside(location, one) for one in unions
        )
        if wrong and location in locations:
            _put(value, location, locations[location])
            for inner in [one for one in locations if _is_inside(one, location)]:
                del locations[inner]


def _is_inside(pointer: str, other: str) -> bool:
    """Return whether a pointer equals another pointer or leads to a location inside it."""
    return pointer == other or pointer.startswith(f"{other}/")


def _about_texts(breaches: Iterable[Breach]) -> Iterator[Breach]:
    """Iterate over the breaches of strings that can be JSON text, at locations that accept no string."""
    for breach in breaches:
        if isinstance(breach.value, str):
            if may_be_nested(breach.value) and _refuses_strings(breach):
                yield breach
        else:
            for branch in breach.branches:
                yield from _about_texts(branch)


def _refuses_strings(breach: Breach) -> bool:
    """Return whether the keyword of a breach refuses every string."""
    rule = breach.schema.get(breach.keyword)
    if breach.keyword == "not":
        return rule in (True, {}, {"type": "string"})
    if breach.keyword == "const":
        return not isinstance(rule, str)
    if breach.keyword == "enum":
        return not any(isinstance(one, str) for one in rule or ())
    if breach.branches:
        return all(any(map(_refuses_strings, branch)) for branch in breach.branches)
    return breach.keyword == "type"


def _put(holder: Any, pointer: str, value: Any) -> None:
    last: Any = ""
    for token in pointer_tokens(pointer):
        holder = holder[last]
        last = int(token) if is_array(holder) else token
    holder[last] = value


def _is_certain(breach: Breach, value: Any, work: Work) -> bool:
    """Return whether exactly one alternative of each union that refused the data accepts it now."""
    if breach.keyword not in ("anyOf", "oneOf"):
        return True
    there = value_at(value, pointer_tokens(breach.pointer))
    if there is MISSING:
        return True  # inside a restored text
    parts = [breach.part.under(one) for one in breach.schema[breach.keyword]]
    fitting = [index for index, part in enumerate(parts) if part.takes(there, work)]
    inner = breach.branches[fitting[0]] if len(fitting) == 1 and breach.branches else ()
    return len(fitting) == 1 and all(_is_certain(one, value, work) for one in inner)
