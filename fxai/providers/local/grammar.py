r"""Conversion of JSON Schemas to GBNF. llama.cpp uses a GBNF grammar to constrain the reply of a model.

llama.cpp's own converter, llguidance, logs a line for an unsupported or too large schema and then generates
unconstrained text. llama.cpp rejects an invalid GBNF grammar. This module therefore converts the schema itself. A
keyword without a grammar results in a `GrammarFailure` with its location. A grammar generates *part* of the values of
the schema: objects have only declared properties, and the sizes of strings, numbers, arrays, and nesting are limited,
so that each reply ends.

>>> digit = {"type": "integer", "minimum": 0, "maximum": 9}
>>> print(grammar({"type": "object", "properties": {"n": digit}, "required": ["n"]}).unwrap().text)
root ::= "{" "\"n\": " r1 "}"
r1 ::= [0-9]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.providers.local.gbnf import integers, literal, multiples, numbers, pattern_grammar, string_grammar
from fxai.schema.budget import MAX_LOCATIONS, ExhaustedError, Work, descend, with_stack
from fxai.schema.data import copy_data, identity, is_object
from fxai.schema.engine import Engine
from fxai.schema.location import DocumentReader, Location, LocationError, Site
from fxai.schema.pattern import Matcher, PatternError, PatternTimeoutError


@final
class Bounds(msgspec.Struct, frozen=True):
    """The limits of a reply if the schema sets no limit."""

    text: int = 1000
    """Characters of a string without `maxLength`."""
    items: int = 16
    """Items of an array without `maxItems`."""
    members: int = 8
    """Entries of a free map."""
    depth: int = 5
    """Maximum number of times that a schema contains itself."""


@final
class GrammarFailure(msgspec.Struct, frozen=True):
    """A schema without a grammar."""

    pointer: str
    """The location in the schema as a JSON pointer."""
    keyword: str
    """The keyword."""
    why: str
    """The reason."""

    def __str__(self) -> str:
        """Return one line with the location, the reason, and the remedy."""
        return (
            f"{self.pointer or '/'}: {self.keyword}: {self.why}. "
            "Remove the keyword from the schema, or use a model that needs no grammar."
        )


@final
class Grammar(msgspec.Struct, frozen=True):
    """A grammar: its GBNF ``text``, and the pointers of the keywords that it enforces only partly (``loose``).

    Loose keywords are `oneOf` (converted like `anyOf`), `uniqueItems` if the items have no list of values, multiple
    `patternProperties`, and `minProperties` of free names. If ``loose`` is not empty, validate the reply.
    """

    text: str
    """The grammar in GBNF."""
    loose: tuple[str, ...] = ()
    """JSON pointers of the keywords that the grammar enforces only partly."""

    def after(self, before: str) -> Grammar:
        """Return the grammar for text that starts with ``before``.

        >>> print(Grammar("root ::= [0-9]").after(" ").text)
        root ::= " " value
        value ::= [0-9]
        """
        return Grammar(f"root ::= {literal(before)} value\nvalue" + self.text.removeprefix("root"), self.loose)


def grammar(schema: Mapping[str, Any] | bool, bounds: Bounds | None = None) -> Result[Grammar, GrammarFailure]:
    """Return the grammar of the JSON text that ``schema`` allows, in the format of ``json.dumps``.

    Fails with `GrammarFailure` if a keyword has no grammar, or if the schema allows no value.

    >>> grammar({"not": {"type": "string"}}).failure().keyword
    'not'
    """
    try:
        return Success(with_stack(lambda: _Writer(schema, bounds or Bounds()).grammar()))
    except ExhaustedError as error:
        why = f"the grammar needs more than {MAX_LOCATIONS} steps, so declare fewer alternatives or split the tool"
        return Failure(GrammarFailure(str(error), "schema", why))
    except LocationError as wrong:
        return Failure(GrammarFailure(wrong.pointer, wrong.keyword, wrong.reason))


def choice_grammar(options: tuple[str, ...], *, before: str = " ") -> Grammar:
    """Return the grammar of a choice between ``options``. The text ``before`` precedes the option.

    >>> choice_grammar(("yes", "no")).text
    'root ::= " yes" | " no"'
    """
    return Grammar("root ::= " + " | ".join(literal(before + option) for option in options))


_CHAR: Final = r'char ::= [^"\\\x00-\x1F\x7F] | "\\" ["\\nrt]'
_DAYS: Final = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_TIME: Final = _CLOCK + r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_FORMATS: Final = {
    "date": f"^[12][0-9]{{3}}-{_DAYS}$",
    "time": f"^{_TIME}$",
    "date-time-local": f"^[12][0-9]{{3}}-{_DAYS}T{_CLOCK}$",
    "partial-time": f"^{_CLOCK}$",
    "date-time": f"^[12][0-9]{{3}}-{_DAYS}T{_TIME}$",
    "duration": "^P([0-9]{1,4}D(T[0-9]{1,4}[HMS])?|T[0-9]{1,4}[HMS])$",
    "uuid": "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    "email": r"^[A-Za-z0-9_+-]{1,30}(\.[A-Za-z0-9_+-]{1,30})?@[A-Za-z0-9]{1,30}(\.[A-Za-z]{2,10}){1,3}$",
    "ipv4": rf"^({_BYTE}\.){{3}}{_BYTE}$",
    "ipv6": "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$",
    "hostname": r"^[A-Za-z0-9]{1,30}(\.[A-Za-z0-9]{1,30}){0,4}$",
    "uri": "^[a-z][a-z0-9+.-]{1,15}:[A-Za-z0-9._~:/?@!$&'()*+,;=-]+$",
}


_Key: TypeAlias = tuple[str, ...]
"""The pointers of the schemas of a value."""


def _key(location: Location) -> _Key:
    return tuple(site.pointer for site in location)


class _Writer:
    """A writer of the rules of a grammar."""

    def __init__(self, schema: Any, bounds: Bounds) -> None:
        self.variants = Variants(copy_data(schema))
        self.bounds = bounds
        self.rules: dict[str, str] = {}
        self.names: dict[tuple[_Key, int], str | None] = {}
        self.open: Counter[_Key] = Counter()
        self.level = 0
        self.named: set[str] = set()
        self.loose: dict[str, None] = {}

    def grammar(self) -> Grammar:
        """Return the whole grammar: the root rule, the other rules, and the characters of strings."""
        location = self.variants.target(self.variants.root)
        self.open[_key(location)] += 1
        root = self._expression(location)
        if root is None:
            raise LocationError("", "schema", "the schema allows no value, or only values without an end")
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for body, name in self.rules.items())]
        lines += [_CHAR] if any("char{" in line for line in lines) else []
        return Grammar("\n".join(lines), tuple(dict.fromkeys((*self.variants.exclusive, *self.loose))))

    def _location(self, location: Location) -> str | None:
        """Return the rule for a value, or None if the schema allows no value, or only values without an end."""
        location = self.variants.target(location)
        key = _key(location)
        self.variants.steps.take(1, location[0].pointer if location else "")
        level = self.level + (self.open[key] > 0)
        if level > self.bounds.depth:
            return None
        if (key, level) not in self.names:
            outer, self.level = self.level, level
            self.open[key] += 1
            body = descend(lambda: self._expression(location))
            self.open[key] -= 1
            self.level = outer
            self.names[key, level] = body if body is None or body in self.named else self._rule(body)
        return self.names[key, level]

    def _rule(self, body: str) -> str:
        """Return the name of the rule with this body. Write the rule once."""
        name = self.rules.setdefault(body, f"r{len(self.rules) + 1}")
        self.named.add(name)
        return name

    def _expression(self, location: Location) -> str | None:
        options = [self._form(form, location) for form in self.variants.of(location)]
        found = dict.fromkeys(option for option in options if option is not None)
        return " | ".join(found) or None

    def _form(self, form: Form, location: Location) -> str | None:
        if form.values is not None:
            kept = [value for value in form.values if self.variants.admits(location, value)]
            return " | ".join(dict.fromkeys(literal(_json(value)) for value in kept)) or None

        simple = not location and self.open[()] > 1
        options = [
            self._string(form) if "string" in form.types else None,
            self._number(form),
            literal("true") + " | " + literal("false") if "boolean" in form.types else None,
            literal("null") if "null" in form.types else None,
            self._array(form) if "array" in form.types and not simple else None,
            self._object(form) if "object" in form.types and not simple else None,
        ]
        return " | ".join(option for option in options if option is not None) or None

    def _string(self, form: Form) -> str | None:
        if form.most is not None and form.most < form.least:
            return None
        pattern = form.patterns[0] if form.patterns else _FORMATS.get(form.format or "")
        if len(form.patterns) > 1:
            raise LocationError(form.pointer, "pattern", "a grammar cannot enforce two patterns for one string")
        try:
            if pattern is not None:
                body = pattern_grammar(pattern, form.least, form.most, bound=max(self.bounds.text, form.least))
            else:
                limit = max(self.bounds.text, form.least)
                body = string_grammar(form.least, limit if form.most is None else min(form.most, limit))
        except PatternError as wrong:
            raise LocationError(form.pointer, "pattern" if form.patterns else "format", str(wrong)) from None
        return self._rule(f'"\\"" {body} "\\""')

    def _number(self, form: Form) -> str | None:
        if not form.types & {"integer", "number"}:
            return None
        form = replace(form, low=_reachable(form, form.low, down=True), high=_reachable(form, form.high, down=False))
        low, high = form.low, form.high
        whole = "number" not in form.types or bool(form.steps)
        if not whole:
            bounds = [None if bound is None else Decimal(str(bound[0])) for bound in (low, high)]
            body = numbers(*bounds, above=bool(low and low[1]), below=bool(high and high[1]))
        else:
            body = self._whole(form)
        return None if body is None else self._rule(body)

    def _whole(self, form: Form) -> str | None:
        low = None if form.low is None else _inside(form.low, up=True)
        high = None if form.high is None else _inside(form.high, up=False)
        step = Fraction(1)
        for given in form.steps:
            fraction = Fraction(str(given))
            if fraction.denominator != 1 and "number" in form.types:
                raise LocationError(form.pointer, "multipleOf", f"a grammar cannot count in steps of {given}")
            step = Fraction(lcm(step.numerator, fraction.numerator))
            if step > _FAR:
                raise LocationError(form.pointer, "multipleOf", f"a grammar cannot count in steps of {given}")
        if step == 1:
            return integers(low, high)
        body = multiples(step.numerator, low, high)
        if body is None and low is not None and high is not None and high // step - -(-low // step) >= 0:
            raise LocationError(
                form.pointer, "multipleOf", f"a grammar cannot count in steps of {step} within these bounds"
            )
        return body

    def _array(self, form: Form) -> str | None:
        leading = max((rule.leading for rule in form.arrays), default=0)
        most = max(form.least_items, leading or self.bounds.items)
        most = most if form.most_items is None else min(most, form.most_items)
        if most < form.least_items:
            return None
        if form.unique and most > 1 and (listed := self._item_literals(form, leading)) is not None:
            inner = self._chain([(item, False) for item in listed], form.least_items, most)
            return None if inner is None else f'"[" {inner} "]"'
        if form.unique and most > 1:
            self.loose[f"{form.pointer}/uniqueItems"] = None

        items: list[str] = []
        for index in range(min(most, leading + 1)):
            item = self._location(self.variants.item(form, index))
            if item is None:
                most = index
                break
            items.append(item)
        return None if most < form.least_items else f'"[" {_items(items, leading, form.least_items, most)} "]"'

    def _item_literals(self, form: Form, leading: int) -> list[str] | None:
        """Return the literals of the items of an array, or None if the schema does not list all values."""
        location = self.variants.item(form, 0)
        variants = [] if leading else self.variants.of(location)
        if not variants or any(variant.values is None for variant in variants):
            return None
        values = [v for one in variants for v in one.values or () if self.variants.admits(location, v)]
        return list(dict.fromkeys(literal(_json(value)) for value in values))

    def _object(self, form: Form) -> str | None:
        declared = dict.fromkeys([name for rule in form.objects for name in rule.schema.get("properties", ())])
        names = dict.fromkeys([*declared, *form.required])
        if not names:
            return self._map(form)

        key, required = self.variants.key(form), set(form.required)
        entries: list[tuple[str, bool]] = []
        for name in names:
            allowed = not key or self.variants.admits(key, name)
            value = self._location(self.variants.member(form, name)) if allowed else None
            if value is not None:
                entries.append((f"{literal(json.dumps(name, ensure_ascii=False) + ': ')} {value}", name in required))
            elif name in required:
                return None
        if form.least_members > len(entries):
            raise LocationError(form.pointer, "minProperties", "a grammar limits an object to its declared properties")
        inner = self._chain(entries, form.least_members, form.most_members)
        return None if inner is None else f'"{{" {inner} "}}"'

    def _map(self, form: Form) -> str | None:
        """Return the rule for an object without declared names. It has entries only if the schema allows any name."""
        closed = '"{}"' if form.least_members == 0 else None
        most = max(self.bounds.members, form.least_members)
        most = most if form.most_members is None else min(most, form.most_members)
        declares = any("properties" in rule for rule in form.objects)
        open_to = any(rule.schema.keys() & _MAP_KEYWORDS for rule in form.objects)
        top = self.open.total() == 1
        if most == 0 or (not open_to and (declares or top)):
            return closed

        key, value = self._key(form)
        if key is None or value is None:
            return closed
        if form.least_members > 1:
            self.loose[f"{form.pointer}/minProperties"] = None
        entry = f'{key} ": " {value}'
        entries = _items([self._rule(entry)], 0, form.least_members, most)
        return f'"{{" {entries} "}}"' if most >= form.least_members else None

    def _key(self, form: Form) -> tuple[str | None, str | None]:
        """Return the rules of a free entry's name and value. The name matches `patternProperties` or is any name."""
        text = Site(f"{form.pointer}/propertyNames/type", {"type": "string", "minLength": 1, "maxLength": 40})
        patterns = [(rule, p) for rule in form.objects for p in rule.schema.get("patternProperties", ())]
        if not patterns:
            name = self._location((*self.variants.key(form), text))
            return name, self._location(self.variants.member(form, "\0"))
        rule, pattern = patterns[0]
        if len(patterns) > 1:
            self.loose[f"{rule.pointer}/patternProperties"] = None
        named = Site(f"{rule.pointer}/patternProperties/name", {"type": "string", "pattern": pattern})
        return self._location((*self.variants.key(form), named)), self._location(
            (rule.under("patternProperties", pattern),)
        )

    def _chain(self, entries: list[tuple[str, bool]], least: int, most: int | None) -> str | None:
        """Return a rule for ``least`` to ``most`` entries in their order, with commas and with optional entries."""
        ceiling = max(least, 1) if most is None else max(most, 1)
        tails: dict[tuple[int, int], str | None] = {
            (len(entries), count): '""' if count >= least else None for count in range(ceiling + 1)
        }
        for index in range(len(entries) - 1, -1, -1):
            entry, required = entries[index]
            self.variants.steps.take(min(index, ceiling) // 100)
            for count in range(min(index, ceiling) + 1):
                has_space = most is None or count < most
                after = tails[index + 1, min(count + 1, ceiling)] if has_space else None
                comma = '", " ' if count else ""
                taken = None if after is None else f"{comma}{entry}" + ("" if after == '""' else f" {after}")
                left = None if required else tails[index + 1, count]
                options = [option for option in (taken, left) if option is not None]
                either = self._rule(" | ".join(options)) if len(options) > 1 else None
                tails[index, count] = either or (options[0] if options else None)
        return tails[0, 0]


_MAP_KEYWORDS: Final = frozenset({"additionalProperties", "patternProperties", "propertyNames"})


def _items(items: list[str], leading: int, least: int, most: int) -> str:
    """Return a rule for ``least`` to ``most`` items, with commas. The last kind of item repeats."""
    if most == 0:
        return '""'
    text, start = "", min(leading, most)
    if most > leading:
        count = f"{{{max(0, least - leading - (leading == 0))},{most - leading - (leading == 0)}}}"
        text = f'(", " {items[-1]}){count}'
        if leading == 0:
            text = f"{items[-1]} {text}"
            return text if least > 0 else f"({text})?"
    for index in range(start - 1, -1, -1):
        comma = '", " ' if index else ""
        text = f"{comma}{items[index]} {text}".rstrip()
        text = text if index < least else f"({text})?"
    return text


_FAR: Final = 10**20


def _reachable(form: Form, bound: tuple[Any, bool] | None, *, down: bool) -> tuple[Any, bool] | None:
    """Return a bound of numbers, or None if no number of a grammar reaches it."""
    if bound is None or abs(bound[0]) <= _FAR:
        return bound
    if (bound[0] < 0) == down:
        return None
    raise LocationError(form.pointer, "minimum" if down else "maximum", "a grammar cannot count to this number")


def _inside(bound: tuple[Any, bool], *, up: bool) -> int:
    """Return the nearest integer within a bound."""
    value = Fraction(str(bound[0]))
    whole = -(-value.numerator // value.denominator) if up else value.numerator // value.denominator
    return whole + (1 if up else -1) * (bound[1] and whole == value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- the variants of a value

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_REFUSED: Final = {
    "not": "a grammar cannot exclude values",
    "if": "a grammar cannot make one part depend on another",
    "dependentSchemas": "a grammar cannot make one part depend on another",
    "contains": "a grammar cannot require one matching item among others",
    "unevaluatedItems": "a grammar cannot detect which items other keywords evaluate",
}
_MOST_VARIANTS: Final = 64
_NAMES_A_STEP: Final = 64
_REST: Final = "unevaluatedProperties"
_CIRCLE: Final = "the reference refers to itself"


@dataclass(frozen=True, slots=True)
class Form:
    """An alternative of a value. ``None`` and empty fields are unrestricted."""

    pointer: str
    types: frozenset[str] = _TYPES
    values: tuple[Any, ...] | None = None
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None
    steps: tuple[Any, ...] = ()
    least: int = 0
    most: int | None = None
    patterns: tuple[str, ...] = ()
    format: str | None = None
    arrays: tuple[Site, ...] = ()
    least_items: int = 0
    most_items: int | None = None
    unique: bool = False
    objects: tuple[Site, ...] = ()
    required: tuple[str, ...] = ()
    least_members: int = 0
    most_members: int | None = None


class Variants:
    """The variants of the schemas in one document. The document has a budget of steps; ``root`` is its whole schema.

    ``of`` follows `$ref`, merges `allOf`, and expands `anyOf` and `oneOf`. A keyword without a grammar raises a
    `LocationError` with its location.

    >>> variants = Variants({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}})
    >>> [sorted(form.types) for form in variants.of(variants.root)]
    [['null'], ['integer']]
    """

    def __init__(self, document: Any) -> None:
        self.reader: DocumentReader = DocumentReader(document)
        self.root: Location = (self.reader.root,)
        self.steps: Work = self.reader.steps
        self.exclusive: dict[str, None] = {}
        """The pointers of all `oneOf` with multiple branches until now."""
        self._matcher = Matcher()
        self._open: set[str] = set()

    def of(self, location: Location) -> list[Form]:
        """Return the alternatives of a value at ``location``, or [] if no value is valid. Raises `LocationError`."""
        forms = [Form(location[0].pointer if location else "")]
        for site in self.reader.together(location):
            forms = self._join(site.pointer, forms, self._own(site))
        return forms

    def target(self, location: Location) -> Location:
        """Replace each schema that is only a reference by its target."""
        sites: dict[str, Site] = {}
        for site in location:
            seen = {site.pointer}
            while self.reader.has_words_only(site) or self.reader.alone(site):
                site = self.reader.follow(site)
                if site.pointer in seen:
                    raise LocationError(site.pointer, "$ref", _CIRCLE)
                seen.add(site.pointer)
            sites[site.pointer] = site
        return tuple(sites.values())

    def member(self, form: Form, name: str) -> Location:
        """Return the schemas of the property ``name`` from all object schemas of the form."""
        self.steps.take(len(form.objects), form.pointer)
        found = [(rule, list(self._property(rule, name))) for rule in form.objects]
        known = any(site.pointer != f"{rule.pointer}/additionalProperties" for rule, sites in found for site in sites)
        rest = () if known else (r.under(_REST) for r in form.objects if _REST in r)
        return (*(site for _, sites in found for site in sites), *rest)

    def key(self, form: Form) -> Location:
        """Return the schemas of property names."""
        return tuple(rule.under("propertyNames") for rule in form.objects if "propertyNames" in rule)

    def item(self, form: Form, index: int) -> Location:
        """Return the schemas of the item at ``index`` from all array schemas of the form."""
        return tuple(site for rule in form.arrays if (site := rule.item(index)) is not None)

    def _property(self, rule: Site, name: str) -> Iterator[Site]:
        known = name in rule.get("properties", {})
        if known:
            yield rule.under("properties", name)
        for pattern in rule.get("patternProperties", {}):
            if self._matches(rule.pointer, "patternProperties", pattern, name):
                known = True
                yield rule.under("patternProperties", pattern)
        if not known and "additionalProperties" in rule:
            yield rule.under("additionalProperties")

    def _matches(self, at: str, keyword: str, pattern: str, text: str) -> bool:
        self.steps.take(1, at)
        try:
            return self._matcher.matches(pattern, text)
        except PatternTimeoutError:
            raise LocationError(at, keyword, f"matching {pattern!r} takes too long") from None
        except ValueError as broken:
            raise LocationError(at, keyword, f"{pattern!r} is not a valid pattern: {broken}") from None

    def _own(self, site: Site) -> list[Form]:
        """Return the alternatives of one schema from its own keywords, without `$ref` and `allOf`."""
        if isinstance(site.schema, bool):
            return [Form(site.pointer)] if site.schema else []
        if not is_object(site.schema):
            raise LocationError(site.pointer, "schema", "a schema must be an object or a boolean")
        if site.pointer in self._open:
            raise LocationError(site.pointer, "$ref", _CIRCLE)
        for keyword, why in _REFUSED.items():
            is_harmless = (keyword == "if" and not site.schema.keys() & {"then", "else"}) or (
                keyword == "unevaluatedItems" and isinstance(site.schema.get(keyword), bool)
            )
            if keyword in site.schema and not is_harmless:
                raise LocationError(site.pointer, keyword, why)
        forms = [_own_form(site)]
        self._open.add(site.pointer)
        for keyword in ("anyOf", "oneOf"):
            if keyword in site:
                branches = [site.under(keyword, index) for index in range(len(site.get(keyword)))]
                forms = self._join(site.pointer, forms, [form for branch in branches for form in self.of((branch,))])
                if keyword == "oneOf" and len(branches) > 1:
                    self.exclusive[f"{site.pointer}/{keyword}"] = None
        self._open.remove(site.pointer)
        return forms

    def _join(self, pointer: str, left: list[Form], right: list[Form]) -> list[Form]:
        """Combine each alternative of one list with each alternative of the other list, if both can be true."""
        if len(left) * len(right) > _MOST_VARIANTS:
            raise LocationError(pointer, "anyOf", f"more than {_MOST_VARIANTS} combinations of alternatives")
        names = sum(len(form.objects) + len(form.required) for form in left)
        self.steps.take(len(left) * len(right) + names * len(right) // _NAMES_A_STEP, pointer)
        joined = (_both(a, b) for a, b in product(left, right))
        return [form for form in joined if form.types and form.values != ()]

    def admits(self, location: Location, value: Any) -> bool:
        """Return True if ``value`` is valid for each schema of ``location``."""
        try:
            return all(self._engine.part(site.schema).takes(value, self.steps) for site in location)
        except (PatternTimeoutError, ValueError) as broken:
            raise LocationError(location[0].pointer, "pattern", f"a pattern cannot be matched: {broken}") from None

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self.root[0].schema)


def _own_form(site: Site) -> Form:
    schema: Mapping[str, Any] = site.schema
    types = schema.get("type", _TYPES)
    types = {types} if isinstance(types, str) else types
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return Form(
        site.pointer,
        types=frozenset(types) | ({"integer"} if "number" in types else set[str]()),
        values=None if values is None else tuple(values),
        low=_tightest_bound(schema, "minimum", "exclusiveMinimum", max),
        high=_tightest_bound(schema, "maximum", "exclusiveMaximum", min),
        steps=(schema["multipleOf"],) if "multipleOf" in schema else (),
        least=_count(site, "minLength") or 0,
        most=_count(site, "maxLength"),
        patterns=(schema["pattern"],) if "pattern" in schema else (),
        format=schema.get("format"),
        arrays=(site,) if schema.keys() & _ARRAY_KEYWORDS else (),
        least_items=_count(site, "minItems") or 0,
        most_items=_count(site, "maxItems"),
        unique=schema.get("uniqueItems") is True,
        objects=(site,) if schema.keys() & _OBJECT_KEYWORDS else (),
        required=_required_names(site),
        least_members=_count(site, "minProperties") or 0,
        most_members=_count(site, "maxProperties"),
    )


def _count(site: Site, keyword: str) -> int | None:
    """Return a number of items, members, or characters. Reject a minimum that is too large for a reply."""
    bound = site.schema.get(keyword)
    if bound is None:
        return None
    if keyword.startswith("min") and bound > _MOST_COUNTED[keyword]:
        raise LocationError(site.pointer, keyword, f"must be at most {_MOST_COUNTED[keyword]} for a grammar")
    return int(min(bound, _MOST_LENGTH))


_MOST_COUNTED: Final = {"minLength": 50_000, "minItems": 1_000, "minProperties": 1_000}
_MOST_LENGTH: Final = 10**9


_ARRAY_KEYWORDS: Final = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems"})
_OBJECT_KEYWORDS: Final = _MAP_KEYWORDS | {"properties", "unevaluatedProperties", "dependentRequired", "dependencies"}


def _required_names(site: Site) -> tuple[str, ...]:
    """Return the required names and all names that a dependency requires, so that every dependency is satisfied."""
    names: list[str] = [*site.schema.get("required", ())]
    for keyword in ("dependentRequired", "dependencies"):
        for needs in site.schema.get(keyword, {}).values():
            if not isinstance(needs, list):
                raise LocationError(site.pointer, keyword, "a grammar cannot make one part depend on another")
            names += needs
    return tuple(dict.fromkeys(names))


def _tightest_bound(schema: Mapping[str, Any], plain: str, exclusive: str, tighter: Any) -> tuple[Any, bool] | None:
    """Return the bound and whether it is exclusive. In draft 4, a boolean makes a bound exclusive."""
    strict = schema.get(exclusive)
    if isinstance(strict, bool) or strict is None:
        return (schema[plain], strict is True) if plain in schema else None
    if plain not in schema:
        return strict, True
    return (strict, True) if tighter(strict, schema[plain]) == strict else (schema[plain], False)


def _both(a: Form, b: Form) -> Form:
    values = a.values if b.values is None else b.values
    if a.values is not None and b.values is not None:
        known = set(map(identity, b.values))
        values = tuple(x for x in a.values if identity(x) in known)
    return replace(
        a,
        types=a.types & b.types,
        values=values,
        low=_tighter(a.low, b.low, above=True),
        high=_tighter(a.high, b.high, above=False),
        steps=tuple(dict.fromkeys((*a.steps, *b.steps))),
        least=max(a.least, b.least),
        most=_lesser(a.most, b.most),
        patterns=tuple(dict.fromkeys((*a.patterns, *b.patterns))),
        format=a.format or b.format,
        arrays=(*a.arrays, *b.arrays),
        least_items=max(a.least_items, b.least_items),
        most_items=_lesser(a.most_items, b.most_items),
        unique=a.unique or b.unique,
        objects=(*a.objects, *b.objects),
        required=tuple(dict.fromkeys((*a.required, *b.required))),
        least_members=max(a.least_members, b.least_members),
        most_members=_lesser(a.most_members, b.most_members),
    )


def _lesser(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _tighter(a: tuple[Any, bool] | None, b: tuple[Any, bool] | None, *, above: bool) -> tuple[Any, bool] | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    return max(a, b) if above else min(a, b)
