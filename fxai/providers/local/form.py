"""What a JSON Schema says, flat: `$ref` followed, `allOf` joined, `anyOf` and `oneOf` spread into variants.

A place in a schema is a `Site`; what several schemas say of one value together is a tuple of sites. `Reader.variants`
turns that into alternatives, each a `Form`: the types, values, bounds and members of one kind of value, with nothing
left to look up. A keyword that no grammar can keep is a `FormError` that names the place and the keyword.

>>> reader = Reader({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}})
>>> [sorted(form.types) for form in reader.variants(reader.root)]
[['null'], ['integer']]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from fxai.schema.budget import MAX_PLACES, Steps
from fxai.schema.data import identity
from fxai.schema.location import References
from fxai.schema.pattern import Matcher, PatternTimeout

__all__ = ["Form", "FormError", "Place", "Reader", "Site", "members", "prefix_length"]

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_REFUSED: Final = {
    "not": "a grammar cannot say what a value must not be",
    "if": "a grammar cannot make one part depend on another",
    "dependentSchemas": "a grammar cannot make one part depend on another",
    "contains": "a grammar cannot ask for one fitting item among others",
    "$dynamicRef": "only $ref within the document is followed",
    "$recursiveRef": "only $ref within the document is followed",
    "unevaluatedItems": "a grammar cannot tell which items were judged elsewhere",
}
_MOST_VARIANTS: Final = 64
_NAMES_A_STEP: Final = 64
_SILENT: Final = ("title", "description", "default", "examples", "deprecated", "$comment")
_REST: Final = "unevaluatedProperties"


class FormError(ValueError):
    """A place in a schema that no grammar can keep: its pointer, the keyword, and why."""

    def __init__(self, pointer: str, keyword: str, why: str) -> None:
        super().__init__(f"{pointer or '/'}: {keyword}: {why}")
        self.pointer, self.keyword, self.why = pointer, keyword, why


@dataclass(frozen=True, slots=True)
class Site:
    """One schema inside the document, and the JSON pointer to it; two of one pointer are equal."""

    pointer: str
    schema: Any = field(compare=False, repr=False)

    def under(self, *keys: object) -> Site:
        """The schema below, by its keys."""
        schema: Any = self.schema
        for key in keys:
            schema = schema[key]
        steps = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
        return Site(self.pointer + steps, schema)


Place: TypeAlias = tuple[Site, ...]
"""The schemas that one value must keep together; none at all lets anything be."""


@dataclass(frozen=True, slots=True)
class Form:
    """One alternative of what a value may be. ``None`` and empty fields say nothing."""

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


class Reader:
    """One schema document, read place by place within its budget; ``root`` is the place of the whole."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.root: Place = (Site("", document),)
        self.exclusive: dict[str, str] = {}
        self.steps = Steps(MAX_PLACES)
        self.matcher = Matcher()
        self._references = References.of(document)
        dialect = str(members(document).get("$schema", ""))
        self._ref_alone = any(f"draft-0{n}" in dialect for n in (3, 4, 6, 7))

    def variants(self, place: Place) -> list[Form]:
        """The alternatives that a value at ``place`` has: none when nothing can be there. Raises `FormError`."""
        forms = [Form(place[0].pointer if place else "")]
        for site in place:
            forms = self._joined(site.pointer, forms, self._site(site, ()))
        return forms

    def matches(self, at: str, keyword: str, pattern: str, text: str) -> bool:
        """Whether a pattern of the schema is found in a text. Raises `FormError` where that takes too long."""
        self.steps.take(at)
        try:
            return self.matcher.found(pattern, text)
        except PatternTimeout:
            raise FormError(at, keyword, f"{pattern!r} takes too long") from None
        except ValueError as broken:
            raise FormError(at, keyword, f"{pattern!r} is broken: {broken}") from None

    def follow(self, site: Site) -> Site:
        """The schema that a `$ref` at ``site`` names."""
        ref = site.schema["$ref"]
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise FormError(site.pointer, "$ref", f"{ref!r} is not a pointer into this document")
        if self._references.resource_at(site.pointer) != self._references.resource_at(""):
            raise FormError(site.pointer, "$ref", f"{ref!r} starts at the `$id` of a schema around")
        target: Any = self.document
        for step in unquote(ref[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            try:
                target = target[key] if members(target) else target[int(key)]
            except (LookupError, ValueError, TypeError):
                raise FormError(site.pointer, "$ref", f"there is nothing at {ref!r}") from None
        return Site(unquote(ref[1:]), target)

    def canonical(self, place: Place) -> Place:
        """The same place, named by what it refers to where it is a reference and nothing else."""
        sites: list[Site] = []
        for site in place:
            seen = {site}
            while "$ref" in (said := members(site.schema)) and (
                self._ref_alone or not said.keys() - {"$ref", *_SILENT}
            ):
                site = self.follow(site)
                if site in seen:
                    raise FormError(site.pointer, "$ref", "the reference comes back to itself")
                seen.add(site)
            sites.append(site)
        return tuple(dict.fromkeys(sites))

    def member(self, form: Form, name: str) -> Place:
        """What the property ``name`` must keep, said by every object schema of the form."""
        self.steps.take(form.pointer, len(form.objects))
        found = [(rule, list(_property(self, rule, name))) for rule in form.objects]
        known = any(site.pointer != f"{rule.pointer}/additionalProperties" for rule, sites in found for site in sites)
        open_to = () if known else (r.under(_REST) for r in form.objects if _REST in r.schema)
        return (*(site for _, sites in found for site in sites), *open_to)

    def key(self, form: Form) -> Place:
        """What every property's name must keep."""
        return tuple(rule.under("propertyNames") for rule in form.objects if "propertyNames" in rule.schema)

    def item(self, form: Form, index: int) -> Place:
        """What the item at ``index`` must keep, said by every array schema of the form."""
        return tuple(site for rule in form.arrays for site in _element(rule, index))

    def _site(self, site: Site, seen: tuple[str, ...]) -> list[Form]:
        self.steps.take(site.pointer)
        if isinstance(site.schema, bool):
            return [Form(site.pointer)] if site.schema else []
        schema = members(site.schema)
        if schema is not site.schema:
            raise FormError(site.pointer, "schema", "a schema is an object or a boolean")
        if "$ref" in schema and site.pointer in seen:
            raise FormError(site.pointer, "$ref", "the reference comes back to itself")

        alone = "$ref" in schema and self._ref_alone
        forms = [Form(site.pointer)] if alone else _own(site)
        if "$ref" in schema:
            forms = self._joined(site.pointer, forms, self._site(self.follow(site), (*seen, site.pointer)))
        if not alone:
            for index in range(len(schema.get("allOf", ()))):
                forms = self._joined(site.pointer, forms, self._site(site.under("allOf", index), seen))
            forms = self._spread(site, forms, seen)
        return forms

    def _spread(self, site: Site, forms: list[Form], seen: tuple[str, ...]) -> list[Form]:
        for keyword in ("anyOf", "oneOf"):
            if keyword in site.schema:
                branches = [site.under(keyword, index) for index in range(len(site.schema[keyword]))]
                options = [form for branch in branches for form in self._site(branch, seen)]
                forms = self._joined(site.pointer, forms, options)
                if keyword == "oneOf" and len(branches) > 1:
                    self.exclusive[f"{site.pointer}/{keyword}"] = keyword
        return forms

    def _joined(self, pointer: str, left: list[Form], right: list[Form]) -> list[Form]:
        """Every alternative of one with every alternative of the other, where both can hold."""
        if len(left) * len(right) > _MOST_VARIANTS:
            raise FormError(pointer, "anyOf", f"more than {_MOST_VARIANTS} combinations of alternatives")
        names = sum(len(form.objects) + len(form.required) for form in left)
        self.steps.take(pointer, len(left) * len(right) + names * len(right) // _NAMES_A_STEP)
        joined = (_both(a, b) for a, b in product(left, right))
        return [form for form in joined if form.types and form.values != ()]


def _own(site: Site) -> list[Form]:
    """What the keywords of one schema say by themselves."""
    _refuse(site)
    return [_of_containers(site, _of_scalars(site))]


def _of_scalars(site: Site) -> Form:
    schema: Mapping[str, Any] = site.schema
    types = schema.get("type", list(_TYPES))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return Form(
        site.pointer,
        types=_types([types] if isinstance(types, str) else types),
        values=None if values is None else tuple(values),
        low=_bound(schema, "minimum", "exclusiveMinimum", max),
        high=_bound(schema, "maximum", "exclusiveMaximum", min),
        steps=(schema["multipleOf"],) if "multipleOf" in schema else (),
        least=_count(site, "minLength") or 0,
        most=_count(site, "maxLength"),
        patterns=(schema["pattern"],) if "pattern" in schema else (),
        format=schema.get("format"),
    )


def _count(site: Site, keyword: str) -> int | None:
    """A number of items, members or characters; a least that no reply should have is refused."""
    said = site.schema.get(keyword)
    if said is None:
        return None
    if keyword.startswith("min") and said > _MOST_COUNTED[keyword]:
        raise FormError(site.pointer, keyword, f"a grammar cannot ask for more than {_MOST_COUNTED[keyword]}")
    return int(min(said, _FAR))


_MOST_COUNTED: Final = {"minLength": 50_000, "minItems": 1_000, "minProperties": 1_000}
_FAR: Final = 10**9


def _of_containers(site: Site, form: Form) -> Form:
    schema: Mapping[str, Any] = site.schema
    return replace(
        form,
        arrays=(site,) if schema.keys() & _ARRAY_KEYWORDS else (),
        least_items=_count(site, "minItems") or 0,
        most_items=_count(site, "maxItems"),
        unique=schema.get("uniqueItems") is True,
        objects=(site,) if schema.keys() & _OBJECT_KEYWORDS else (),
        required=tuple(_closure(list(schema.get("required", ())), _dependent(site))),
        least_members=_count(site, "minProperties") or 0,
        most_members=_count(site, "maxProperties"),
    )


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


def _refuse(site: Site) -> None:
    schema = site.schema
    for keyword, why in _REFUSED.items():
        harmless = (keyword == "if" and not schema.keys() & {"then", "else"}) or (
            keyword == "unevaluatedItems" and isinstance(schema.get(keyword), bool)
        )
        if keyword in schema and not harmless:
            raise FormError(site.pointer, keyword, why)


def _types(names: list[str]) -> frozenset[str]:
    return frozenset(names) | ({"integer"} if "number" in names else set[str]())


def _dependent(site: Site) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for keyword in ("dependentRequired", "dependencies"):
        for name, needs in site.schema.get(keyword, {}).items():
            if not isinstance(needs, list):
                raise FormError(site.pointer, keyword, "a grammar cannot make one part depend on another")
            found[name] = [*found.get(name, []), *needs]
    return found


def _closure(members: list[str], dependent: Mapping[str, list[str]]) -> Iterator[str]:
    """The required names; what any declared name asks for is taken as asked for, which keeps every dependency."""
    yield from dict.fromkeys([*members, *(need for needs in dependent.values() for need in needs)])


def _bound(schema: Mapping[str, Any], plain: str, exclusive: str, tighter: Any) -> tuple[Any, bool] | None:
    """The bound and whether it leaves the bound itself out; draft 4 says the latter by a boolean."""
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


def members(schema: Any) -> Mapping[str, Any]:
    """The keywords of a schema; none where it is a boolean."""
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}


def _lesser(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _tighter(a: tuple[Any, bool] | None, b: tuple[Any, bool] | None, *, above: bool) -> tuple[Any, bool] | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    return max(a, b) if above else min(a, b)


def _property(reader: Reader, rule: Site, name: str) -> Iterator[Site]:
    schema: Mapping[str, Any] = rule.schema
    known = name in schema.get("properties", {})
    if known:
        yield rule.under("properties", name)
    for pattern in schema.get("patternProperties", {}):
        if reader.matches(rule.pointer, "patternProperties", pattern, name):
            known = True
            yield rule.under("patternProperties", pattern)
    if not known and "additionalProperties" in schema:
        yield rule.under("additionalProperties")


def prefix_length(rule: Site) -> int:
    """How many leading items of an array have a schema of their own."""
    schema = rule.schema
    return len(schema["items"] if isinstance(schema.get("items"), list) else schema.get("prefixItems", ()))


def _element(rule: Site, index: int) -> Iterator[Site]:
    schema: Mapping[str, Any] = rule.schema
    items = schema.get("items")
    leading, rest = ("items", "additionalItems") if isinstance(items, list) else ("prefixItems", "items")
    if index < len(schema.get(leading, ())):
        yield rule.under(leading, index)
    elif rest in schema:
        yield rule.under(rest)
    elif "unevaluatedItems" in schema:
        yield rule.under("unevaluatedItems")
