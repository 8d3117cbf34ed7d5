"""The keywords of `jsonschema`, so written that no document and no data can hang the process.

`pattern`, `patternProperties`, `additionalProperties` and `unevaluatedProperties` search with `regex` and a timeout
instead of `re`; a search that runs out of time is an error of its own kind (`late`), never a silent answer. Keywords
whose stock forms compare each item with each other one, or quote whole values, take as long as their data is. A
`Search` counts the steps of one validation, and remembers what is decided where schemas multiply. The validator
classes here also stay themselves inside a subschema that names its own `$schema`, where `jsonschema` would go back to
its own keywords, and never fetch.

>>> from fxai.schema.dialect import LATEST
>>> [error.validator for error in Search(validator_of(LATEST.uri, {"pattern": "^a"})).errors("b")]
['pattern']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, Final, cast, final

import jsonschema
import jsonschema.validators
import referencing
import referencing.jsonschema
from jsonschema.exceptions import ValidationError

from fxai.schema.budget import MAX_FAULTS, MAX_STEPS, STRIDE, Exhausted, new_stack
from fxai.schema.data import identity, is_array, is_object
from fxai.schema.dialect import DIALECTS
from fxai.schema.document import names_inside
from fxai.schema.pattern import SECONDS, Matcher, PatternTimeout

__all__ = ["Search", "deciding_with", "inside", "referred", "validator_of"]

_MATCHER: Final[ContextVar[Matcher]] = ContextVar("fxai_pattern_matcher")

_validators: Final[Any] = jsonschema.validators
_STOCK: Final[dict[str, Any]] = {
    "draft-04": jsonschema.Draft4Validator,
    "draft-06": jsonschema.Draft6Validator,
    "draft-07": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}


_TELLING: Final = 20_000  # steps that are taken to find more faults, once there is one
_WITHOUT_END: Final = 10**12
_TOLD_UNIONS: Final = 3
_DEEPEST: Final = 4_000  # schemas inside each other, the references of a document in a circle of data


@final
class Search:
    """One validation: what was found, what is known, and how much may still be done.

    Attributes:
        undecided: the steps were used up before it was known whether the document takes the value.
        unsaid: the document does not take the value, and the steps were used up before it was known why.
        late: the pattern that took too long, if one did and no error says so.
    """

    __slots__ = (
        "_deciding",
        "_left",
        "_level",
        "_matcher",
        "_memo",
        "_scoped",
        "_unions",
        "_validator",
        "late",
        "undecided",
        "unsaid",
    )

    def __init__(self, validator: Any, *, careful: bool = False, refused: bool = False) -> None:
        self._validator = validator
        self._matcher = Matcher(SECONDS)
        self._memo: dict[Hashable, bool] | None = {} if careful else None
        self._left = MAX_STEPS if careful else _TELLING if refused else _WITHOUT_END
        self._deciding = False
        self._level = self._unions = 0
        self._scoped = careful and _is_dynamic(validator.schema)
        self.undecided = self.unsaid = False
        self.late: str | None = None

    def accepts(self, value: object) -> bool:
        """Whether plain data is taken, as far as the steps go."""
        quiet = _quiet(value)
        try:
            with self.under_way():
                return self.decides(self._validator, quiet)
        except Exhausted:
            return False

    def errors(self, value: object) -> list[ValidationError]:
        """The errors of plain data, the first hundred or so; none for data that the document takes."""
        found: list[ValidationError] = []
        try:
            with self.under_way():
                self._find(_quiet(value), found)
        except Exhausted:
            self.undecided = self._memo is not None and not self.unsaid
        self.unsaid = self.unsaid and not found
        if not any(error.validator == "late" for error in found):
            self.late = self._matcher.late
        return found

    def _find(self, value: object, found: list[ValidationError]) -> None:
        if self._memo is not None:
            if self.decides(self._validator, value):
                return
            self._left, self.unsaid = _TELLING, self._matcher.late is None
        for error in self._validator.iter_errors(value):
            found.append(error)
            if len(found) >= MAX_FAULTS:
                return
            self._left = min(self._left, _TELLING)

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Let `decides` be asked, often, within one budget, until the block ends."""
        token = _SEARCH.set(self)
        try:
            with deciding_with(self._matcher):
                yield
        finally:
            _SEARCH.reset(token)

    def decides(self, validator: Any, value: object) -> bool:
        """Whether a validator's schema takes plain data, which has to be kept as long as the search goes on.

        Raises:
            Exhausted: the steps are used up.
        """
        return self.takes(validator, value, validator.schema, lambda: validator.iter_errors(value))

    def within(self, validator: Any, instance: Any, schema: Any, errors: _Errors) -> Iterator[ValidationError]:
        """The errors of a value inside, or in place, by one schema, which `errors` gives."""
        self._left -= 1
        if self._left < 0 or self._level > _DEEPEST:
            raise Exhausted
        if self._memo is not None and is_object(schema):
            if self.takes(validator, instance, schema, errors):
                return
            if self._deciding:
                late = self._matcher.late
                yield _Error("not what the schema says") if late is None else _late(PatternTimeout(late))
                return
        yield from self._deeper(errors)

    def takes(self, validator: Any, instance: Any, schema: Any, errors: _Errors) -> bool:
        """Whether a schema takes a value; where schemas multiply it is decided once for each value."""
        if self._memo is None:
            return next(errors(), None) is None
        scope = tuple(uri for uri, _ in validator._resolver.dynamic_scope()) if self._scoped else ()
        key = (id(schema), id(instance), scope)
        known = self._memo.get(key)
        if known is None:
            self._left -= 1
            if self._left < 0 or self._level > _DEEPEST:
                raise Exhausted
            deciding, self._deciding = self._deciding, True
            try:
                known = self._memo[key] = next(self._deeper(errors), None) is None
            finally:
                self._deciding = deciding
        return known

    def _deeper(self, errors: _Errors) -> Iterator[ValidationError]:
        level = self._level
        self._level = level + 1
        try:
            if self._level % STRIDE:
                yield from errors()
            else:
                most = 1 if self._deciding else MAX_FAULTS
                yield from new_stack(lambda: list(islice(errors(), most)))
        finally:
            self._level = level

    def alternatives(self, errors: _Errors) -> Iterator[ValidationError]:
        """The errors of a union; where schemas multiply, a union far inside of others is told without its branches."""
        whole = self._memo is None or self._deciding or self._unions < _TOLD_UNIONS
        self._unions += 1
        self._deciding = self._deciding or not whole
        try:
            if whole:
                yield from errors()
            elif next(errors(), None) is not None:
                yield _Error("one of the alternatives", validator="alternatives")
        finally:
            self._unions -= 1
            self._deciding = self._deciding and whole


_Errors = Callable[[], Iterator[ValidationError]]
_SEARCH: Final[ContextVar[Search | None]] = ContextVar("fxai_schema_search", default=None)


def _is_dynamic(schema: Any) -> bool:
    """Whether what a reference in a document leads to depends on how one came there."""
    if is_object(schema):
        return not schema.keys().isdisjoint(("$dynamicRef", "$recursiveRef")) or any(map(_is_dynamic, schema.values()))
    return is_array(schema) and any(map(_is_dynamic, schema))


@contextmanager
def deciding_with(matcher: Matcher) -> Generator[None]:
    """Search with this matcher, and within its time, until the block ends."""
    token = _MATCHER.set(matcher)
    try:
        yield
    finally:
        _MATCHER.reset(token)


class _Error(ValidationError):
    """An error that also says which properties it is about."""

    names: tuple[str, ...] = ()


def _late(timeout: PatternTimeout) -> _Error:
    return _Error("a pattern took too long", validator="late", cause=timeout)


def _about(names: list[str], message: str) -> _Error:
    error = _Error(message)
    error.names = tuple(names[:MAX_FAULTS])
    return error


def _found(pattern: str, text: str) -> bool:
    return _MATCHER.get().found(pattern, text)


def _pattern(_: Any, pattern: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        try:
            if not _found(pattern, instance):
                yield ValidationError("does not match")
        except PatternTimeout as timeout:
            yield _late(timeout)


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        for pattern, inner in patterns.items():
            for name, item in instance.items():
                try:
                    matching = _found(pattern, name)
                except PatternTimeout as timeout:
                    yield _late(timeout)
                    return
                if matching:
                    yield from validator.descend(item, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not is_object(instance):
        return
    try:
        extras = [name for name in instance if not _declared(name, schema)]
    except PatternTimeout as timeout:
        yield _late(timeout)
        return
    if inner is False and extras:
        yield _about(extras, "additional properties")
    elif is_object(inner):
        for name in extras:
            yield from validator.descend(instance[name], inner, path=name)


def _declared(name: str, schema: Any) -> bool:
    return name in schema.get("properties", ()) or any(
        _found(pattern, name) for pattern in schema.get("patternProperties", ())
    )


def _unevaluated_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not is_object(instance):
        return
    try:
        evaluated = _evaluated(validator, instance, schema)
    except PatternTimeout as timeout:
        yield _late(timeout)
        return
    left = [name for name in instance if name not in evaluated]
    wrong = [name for name in left if not _is_valid(validator, instance[name], inner)]
    if wrong:
        yield _about(wrong, "unevaluated properties")


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    """Whether a schema takes a value; a search that ran out of time is not an answer, and is passed on."""
    for error in validator.descend(instance, schema):
        if error.validator == "late":
            raise error.cause
        return False
    return True


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The properties that a schema, and those in place inside it which take the object, say something of."""
    if isinstance(schema, bool):
        return set()
    names: set[str] = set()
    for inner, scope in referred(validator, schema):
        names |= _evaluated(scope, instance, inner)
    names |= set(schema.get("properties", ())) & instance.keys()
    for pattern in schema.get("patternProperties", ()):
        names |= {name for name in instance if _found(pattern, name)}
    if "additionalProperties" in schema:
        names |= {name for name in instance if not _declared(name, schema)}
    if "unevaluatedProperties" in schema:
        inner = schema["unevaluatedProperties"]
        names |= {name for name in instance if _is_valid(validator, instance[name], inner)}
    for inner in _in_place(validator, instance, schema):
        names |= _evaluated(inside(validator, inner), instance, inner)
    return names


def inside(validator: Any, schema: Any) -> Any:
    """The validator of a schema in place, whose references start where its own `$id` says."""
    if isinstance(schema, bool):
        return validator.evolve(schema=schema)
    resource = _SPECIFICATIONS[validator.dialect].create_resource(schema)
    return validator.evolve(schema=schema, _resolver=validator._resolver.in_subresource(resource))


def referred(validator: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """What the references of a schema in place lead to: each schema with its validator."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            resolved = validator._resolver.lookup(schema[keyword])
            yield resolved.contents, validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
    if "$recursiveRef" in schema:
        resolved = referencing.jsonschema.lookup_recursive_ref(validator._resolver)
        yield resolved.contents, validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)


def _in_place(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in instance:
            yield inner
    for keyword in ("allOf", "oneOf", "anyOf"):
        for inner in schema.get(keyword, ()):
            if _is_valid(validator, instance, inner):
                yield inner
    if "if" in schema:
        holds = _is_valid(validator, instance, schema["if"])
        if holds:
            yield schema["if"]
        branch = "then" if holds else "else"
        if branch in schema:
            yield schema[branch]


def _property_names(validator: Any, inner: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        try:
            wrong = [name for name in instance if not _is_valid(validator, name, inner)]
        except PatternTimeout as timeout:
            yield _late(timeout)
            return
        if wrong:
            yield _about(wrong, "property names")


# ---- keywords whose stock forms take longer than their data, or quote it


@final
class _Object(dict[str, Any]):
    """An object that is quoted in no message."""

    def __repr__(self) -> str:
        return "{…}"


@final
class _Array(list[Any]):
    """An array that is quoted in no message, and knows its items."""

    known: frozenset[Hashable] | None = None

    def __repr__(self) -> str:
        return "[…]"


def _quiet(data: Any) -> Any:
    """Plain data whose objects and arrays no message quotes: some messages quote a value at each place inside it."""
    if is_object(data):
        return _Object({name: _quiet_under(name, inner) for name, inner in data.items()})
    return _Array([_quiet(inner) for inner in data]) if is_array(data) else data


def _quiet_under(name: str, data: Any) -> Any:
    if name in _TOLD_VALUES:  # as a keyword: what it lists is told as it is
        return _Array(data) if is_array(data) else data
    return _quiet(data)


_TOLD_VALUES: Final = frozenset(("enum", "const"))


def _properties(validator: Any, properties: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        for name in properties if len(properties) <= len(instance) else instance:
            if name in instance and name in properties:
                yield from validator.descend(instance[name], properties[name], path=name, schema_path=name)


def _required(_: Any, names: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if is_object(instance) and is_array(names) and (missing := [name for name in names if name not in instance]):
        yield _about(missing, "required properties")


def _dependent_required(_: Any, names: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        missing = {asked: None for name in names if name in instance for asked in names[name] if asked not in instance}
        if missing:
            yield _about(list(missing), "required properties")


def _dependencies(validator: Any, dependencies: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        lists = {name: asked for name, asked in dependencies.items() if is_array(asked)}
        yield from _dependent_required(validator, lists, instance, schema)
        for name, inner in dependencies.items():
            if name in instance and name not in lists:
                yield from validator.descend(instance, inner, schema_path=name)


def _enum(_: Any, values: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    known = getattr(values, "known", None)
    if known is None:
        known = frozenset(map(identity, values))
        if isinstance(values, _Array):
            values.known = known
    if identity(instance) not in known:
        yield ValidationError("none of those listed")


def _const(_: Any, value: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if identity(instance) != identity(value):
        yield ValidationError("another value")


def _unique_items(_: Any, unique: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if unique and is_array(instance) and len(set(map(identity, instance))) < len(instance):
        yield ValidationError("doubled items")


def _multiple_of(validator: Any, step: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number"):
        if isinstance(step, int) and isinstance(instance, int):
            wrong = bool(instance % step)
        else:  # as they are written: 0.3 is a multiple of 0.1
            wrong = (Fraction(str(instance)) / Fraction(str(step))).denominator != 1
        if wrong:
            yield ValidationError("no multiple")


def _union(stock: Any) -> Any:
    def keyword(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        search = _SEARCH.get()

        def errors() -> Iterator[ValidationError]:
            return cast("Iterator[ValidationError]", stock(validator, branches, instance, schema))

        yield from errors() if search is None else search.alternatives(errors)

    return keyword


def _unevaluated_items(validator: Any, _: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_array(instance):
        looked_at = _evaluated_items(validator, instance, schema)
        if any(index not in looked_at for index in range(len(instance))):
            yield ValidationError("items beyond those described")


def _evaluated_items(validator: Any, instance: list[Any], schema: Any) -> Collection[int]:
    """The items that a schema, and those in place inside it which take the array, say something of."""
    if isinstance(schema, bool):
        return ()
    everything = range(len(instance))
    items, old = schema.get("items"), validator.dialect == "2019-09"
    if items is not None and not (old and is_array(items) and "additionalItems" not in schema):
        return everything
    first: Any = items if old else schema.get("prefixItems")
    found = set(range(len(first or ())))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema and len(found) < len(instance):
            found |= {index for index in everything if _is_valid(validator, instance[index], schema[keyword])}
    for inner, scope in referred(validator, schema):
        found.update(_evaluated_items(scope, instance, inner))
    for inner in _in_place(validator, instance, schema):
        found.update(_evaluated_items(inside(validator, inner), instance, inner))
    return found


_NOTHING_ELSE = cast("Callable[[], Any]", referencing.Registry)()
_KEYWORDS: Final = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "unevaluatedProperties": _unevaluated_properties,
    "properties": _properties,
    "dependentRequired": _dependent_required,
    "enum": _enum,
    "const": _const,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "unevaluatedItems": _unevaluated_items,
    "required": _required,
}
_SPECIFICATIONS: Final = {
    dialect.name: referencing.jsonschema.specification_with(dialect.uri) for dialect in DIALECTS.values()
}


_extend = cast("Callable[[Any, dict[str, Any]], Any]", _validators.extend)


@cache
def _class(uri: str) -> Any:
    """The validator class of a dialect, by its URI."""
    name = DIALECTS[uri].name
    stock = _STOCK[name]
    replaced: dict[str, Any] = {key: function for key, function in _KEYWORDS.items() if key in stock.VALIDATORS}
    # The later drafts split it in two, and keep the old one for documents that still say it; so does jsonschema-rs.
    replaced["dependencies"] = _dependencies
    replaced |= {keyword: _union(stock.VALIDATORS[keyword]) for keyword in ("anyOf", "oneOf")}
    made = _extend(stock, replaced)
    made.dialect = name
    made.evolve = _evolve
    made.is_valid = _is_valid_by
    made.descend = _descending(made.descend)
    return made


def validator_of(uri: str, document: Any) -> Any:
    """The validator of a plain document of a dialect, by its URI; what lies outside is never fetched."""
    quiet = _quiet(document)
    made = _class(uri)(quiet, registry=_NOTHING_ELSE)
    if names_inside(quiet):  # they are looked for once, not per reference
        resolver = made._resolver
        made = made.evolve(_resolver=resolver._registry.crawl().resolver(resolver._base_uri))
    return made


def _evolve(self: Any, **changes: Any) -> Any:
    schema = changes.get("schema", self.schema)
    said = schema.get("$schema") if is_object(schema) else None
    uri = said.removesuffix("#") if isinstance(said, str) else None
    make: Any = self.__class__
    if uri in DIALECTS and DIALECTS[uri].name != self.dialect:
        make = _class(uri)
    return make(schema, registry=self._registry, _resolver=changes.get("_resolver", self._resolver))


def _is_valid_by(self: Any, instance: Any, _schema: Any = None) -> bool:
    """`is_valid`, by what the search knows."""
    search = _SEARCH.get()
    if search is None:
        return next(self.iter_errors(instance), None) is None
    return search.takes(self, instance, self.schema, lambda: self.iter_errors(instance))


def _descending(stock: Any) -> Any:
    """`descend`, counted by the search, and telling the place also of a schema that takes nothing."""

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        search = _SEARCH.get()

        def errors() -> Iterator[ValidationError]:
            return cast("Iterator[ValidationError]", stock(self, instance, schema, path, schema_path, resolver))

        for error in errors() if search is None else search.within(self, instance, schema, errors):
            if getattr(error, "scope", None) is None:  # for those who tell it: what its references are relative to
                cast("Any", error).scope = self if resolver is None else self.evolve(_resolver=resolver)
            if schema is False:
                if path is not None:
                    error.path.appendleft(path)
                if schema_path is not None:
                    error.schema_path.appendleft(schema_path)
            yield error

    return descend
