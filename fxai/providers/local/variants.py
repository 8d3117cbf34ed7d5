"""The variants of a JSON Schema. The grammar uses them to write the alternatives of a value.

`Variants.of` follows `$ref`, merges `allOf`, and expands `anyOf` and `oneOf`. Each alternative is a `Form` with the
types, values, bounds, and members of one kind of value. A keyword without a grammar raises a `LocationError` with its
location.

>>> variants = Variants({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}})
>>> [sorted(form.types) for form in variants.of(variants.root)]
[['null'], ['integer']]
>>> variants = Variants({"enum": ["C", "F", 3], "type": "string"})
>>> [variants.admits(variants.root, value) for value in ("C", "K", 3)]
[True, False, False]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Final

from fxai.schema.budget import Work
from fxai.schema.data import identity, is_object
from fxai.schema.engine import Engine
from fxai.schema.location import DocumentReader, Location, LocationError, Site
from fxai.schema.pattern import Matcher, PatternTimeoutError

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
    """The variants of the schemas in one document. The document has a budget of steps; ``root`` is its whole schema."""

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
    return int(min(bound, _FAR))


_MOST_COUNTED: Final = {"minLength": 50_000, "minItems": 1_000, "minProperties": 1_000}
_FAR: Final = 10**9


_ARRAY_KEYWORDS: Final = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems"})
_OBJECT_KEYWORDS: Final = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "dependentRequired",
        "dependencies",
    }
)


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
