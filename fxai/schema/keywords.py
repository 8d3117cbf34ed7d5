"""The keywords of `jsonschema`, written so that no document and no data can hang the process.

`pattern`, `patternProperties`, `additionalProperties` and `unevaluatedProperties` search with `regex` and a timeout
instead of `re`; a search that runs out of time is an error of its own kind (`late`), never a silent answer. Keywords
whose stock forms compare each item with each other one, or quote whole values, take a time linear in their data. The
validator classes stay the same inside a subschema with its own `$schema`, where `jsonschema` would go back to its own
keywords, and never fetch.

>>> from fxai.schema.dialect import LATEST
>>> from fxai.schema.search import Search
>>> [error.validator for error in Search(validator_of(LATEST.uri, {"enum": [1]})).errors(2)]
['enum']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from functools import cache
from typing import Any, Final, TypeAlias, cast

import jsonschema
import jsonschema.validators
import referencing
import referencing.jsonschema
from jsonschema.exceptions import ValidationError

from fxai.schema.constraint import is_multiple
from fxai.schema.data import identity, is_array, is_object
from fxai.schema.dialect import DIALECTS
from fxai.schema.location import names_inside
from fxai.schema.pattern import PatternTimeoutError
from fxai.schema.search import MATCHER, SEARCH, VALUES_A_STEP, QuietArray, error_about, late_error, quiet_copy

_validators: Final[Any] = jsonschema.validators
_STOCK: Final[dict[str, Any]] = {
    "draft-04": jsonschema.Draft4Validator,
    "draft-06": jsonschema.Draft6Validator,
    "draft-07": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}


def _matches(pattern: str, text: str) -> bool:
    return MATCHER.get().matches(pattern, text)


_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]
"""What a keyword finds: of a validator, the keyword's own value, the data, and the schema around the keyword."""


def _in_time(keyword: _Keyword) -> _Keyword:
    """The keyword with an error of its own kind where a pattern takes too long."""

    def keyword_in_time(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        try:
            yield from keyword(validator, rule, instance, schema)
        except PatternTimeoutError as timeout:
            yield late_error(timeout)

    return keyword_in_time


@_in_time
def _pattern(_: Any, pattern: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("does not match")


@_in_time
def _pattern_properties(validator: Any, patterns: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        for pattern, inner in patterns.items():
            _count(len(instance))
            for name, item in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(item, inner, path=name, schema_path=pattern)


@_in_time
def _additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        _count(len(instance))
        extras = [name for name in instance if not _is_declared(name, schema)]
        if inner is False and extras:
            yield error_about(extras, "additional properties")
        elif is_object(inner):
            for name in extras:
                yield from validator.descend(instance[name], inner, path=name)


def _is_declared(name: str, schema: Any) -> bool:
    return name in schema.get("properties", ()) or any(
        _matches(pattern, name) for pattern in schema.get("patternProperties", ())
    )


@_in_time
def _unevaluated_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        evaluated = _evaluated_names(validator, instance, schema)
        left = [name for name in instance if name not in evaluated]
        wrong = [name for name in left if not _is_valid(validator, instance[name], inner)]
        if wrong:
            yield error_about(wrong, "unevaluated properties")


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    """Whether a schema takes a value; a search that ran out of time is not an answer, and is passed on."""
    for error in validator.descend(instance, schema):
        if error.validator == "late":
            raise error.cause
        return False
    return True


def _evaluated_names(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The properties that a schema evaluates, with those in place inside it which accept the object."""
    if isinstance(schema, bool):
        return set()
    _count(len(instance) + len(schema.get("properties", ())))
    names: set[str] = set()
    for inner, scope in targets_of(validator, schema):
        names |= _evaluated_names(scope, instance, inner)
    names |= set(schema.get("properties", ())) & instance.keys()
    for pattern in schema.get("patternProperties", ()):
        names |= {name for name in instance if _matches(pattern, name)}
    if "additionalProperties" in schema:
        names |= {name for name in instance if not _is_declared(name, schema)}
    if "unevaluatedProperties" in schema:
        inner = schema["unevaluatedProperties"]
        names |= {name for name in instance if _is_valid(validator, instance[name], inner)}
    for inner in _in_place(validator, instance, schema):
        names |= _evaluated_names(inside(validator, inner), instance, inner)
    return names


def inside(validator: Any, schema: Any) -> Any:
    """The validator of a schema in place, whose references are relative to its own `$id`."""
    if isinstance(schema, bool):
        return validator.evolve(schema=schema)
    resource = _SPECIFICATIONS[validator.dialect].create_resource(schema)
    return validator.evolve(schema=schema, _resolver=validator._resolver.in_subresource(resource))


def targets_of(validator: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """The targets of the references of a schema in place: each schema with its validator."""
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


@_in_time
def _property_names(validator: Any, inner: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        wrong = [name for name in instance if not _is_valid(validator, name, inner)]
        if wrong:
            yield error_about(wrong, "property names")


# ---- keywords whose stock forms take longer than their data, or quote it


def _properties(validator: Any, properties: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        for name in properties if len(properties) <= len(instance) else instance:
            if name in instance and name in properties:
                yield from validator.descend(instance[name], properties[name], path=name, schema_path=name)


def _required_names(_: Any, names: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if (
        is_object(instance)
        and is_array(names)
        and _count(len(names))
        and (missing := [name for name in names if name not in instance])
    ):
        yield error_about(missing, "required properties")


def _dependent_required(_: Any, names: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        missing = {asked: None for name in names if name in instance for asked in names[name] if asked not in instance}
        if missing:
            yield error_about(list(missing), "required properties")


def _dependencies(validator: Any, dependencies: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_object(instance):
        lists = {name: asked for name, asked in dependencies.items() if is_array(asked)}
        yield from _dependent_required(validator, lists, instance, schema)
        for name, inner in dependencies.items():
            if name in instance and name not in lists:
                yield from validator.descend(instance, inner, schema_path=name)


def _identity(value: Any) -> Hashable:
    search = SEARCH.get()
    return identity(value) if search is None else search.identity(value)


def _count(values: int) -> int:
    """The number of values that are looked at, counted by the search."""
    search = SEARCH.get()
    if search is not None:
        search.spend(values // VALUES_A_STEP)
    return values


def _enum(_: Any, values: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    known = getattr(values, "known", None)
    if known is None:
        known = frozenset(map(identity, values))
        if isinstance(values, QuietArray):
            values.known = known
    if _identity(instance) not in known:
        yield ValidationError("none of those listed")


def _const(_: Any, value: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if _identity(instance) != _identity(value):
        yield ValidationError("another value")


def _unique_items(_: Any, unique: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if unique and is_array(instance) and _count(len(instance)) > len(set(map(_identity, instance))):
        yield ValidationError("doubled items")


def _multiple_of(validator: Any, step: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number"):
        if isinstance(instance, int):
            _count(instance.bit_length())
        if not is_multiple(instance, step):
            yield ValidationError("no multiple")


def _union(stock: Any, *, one: bool) -> Any:
    """A union; `one`: exactly one branch must take the value."""

    def keyword(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        search = SEARCH.get()

        def fitting() -> bool:
            taken = sum(validator.evolve(schema=branch).is_valid(instance) for branch in branches)
            return bool(taken == 1 if one else taken > 0)

        def errors() -> Iterator[ValidationError]:
            return cast("Iterator[ValidationError]", stock(validator, branches, instance, schema))

        yield from errors() if search is None else search.alternatives(errors, fitting)

    return keyword


@_in_time
def _unevaluated_items(validator: Any, _: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if is_array(instance):
        looked_at = _evaluated_items(validator, instance, schema)
        if any(index not in looked_at for index in range(len(instance))):
            yield ValidationError("items beyond those described")


def _evaluated_items(validator: Any, instance: list[Any], schema: Any) -> Collection[int]:
    """The items that a schema evaluates, with those in place inside it which accept the array."""
    if isinstance(schema, bool):
        return ()
    everything = range(_count(len(instance)))
    items, old = schema.get("items"), validator.dialect == "2019-09"
    if items is not None and not (old and is_array(items) and "additionalItems" not in schema):
        return everything
    first: Any = items if old else schema.get("prefixItems")
    found = set(range(len(first or ())))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema and len(found) < len(instance):
            found |= {index for index in everything if _is_valid(validator, instance[index], schema[keyword])}
    for inner, scope in targets_of(validator, schema):
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
    "required": _required_names,
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
    # The later drafts split it in two, and keep the old one for documents that still use it; so does jsonschema-rs.
    replaced["dependencies"] = _dependencies
    replaced |= {keyword: _union(stock.VALIDATORS[keyword], one=keyword == "oneOf") for keyword in ("anyOf", "oneOf")}
    made = _extend(stock, replaced)
    made.dialect = name
    made.evolve = _evolve
    made.is_valid = _is_valid_by
    made.descend = _descending(made.descend)
    return made


def validator_of(uri: str, document: Any) -> Any:
    """The validator of a plain document of a dialect, by its URI; what lies outside is never fetched."""
    quiet = quiet_copy(document)
    made = _class(uri)(quiet, registry=_NOTHING_ELSE)
    if names_inside(quiet):  # they are looked for once, not per reference
        resolver = made._resolver
        made = made.evolve(_resolver=resolver._registry.crawl().resolver(resolver._base_uri))
    return made


def _evolve(self: Any, **changes: Any) -> Any:
    schema = changes.get("schema", self.schema)
    uri_in_schema = schema.get("$schema") if is_object(schema) else None
    uri = uri_in_schema.removesuffix("#") if isinstance(uri_in_schema, str) else None
    make: Any = self.__class__
    if uri in DIALECTS and DIALECTS[uri].name != self.dialect:
        make = _class(uri)
    return make(schema, registry=self._registry, _resolver=changes.get("_resolver", self._resolver))


def _is_valid_by(self: Any, instance: Any, _schema: Any = None) -> bool:
    """`is_valid`, by what the search knows."""
    search = SEARCH.get()
    if search is None:
        return next(self.iter_errors(instance), None) is None
    return search.takes(self, instance, self.schema, lambda: self.iter_errors(instance))


def _descending(stock: Any) -> Any:
    """`descend`, counted by the search, and telling the place also of a schema that takes nothing."""

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        search = SEARCH.get()

        def errors() -> Iterator[ValidationError]:
            return cast("Iterator[ValidationError]", stock(self, instance, schema, path, schema_path, resolver))

        for error in errors() if search is None else search.within(self, instance, schema, errors):
            if getattr(error, "scope", None) is None:  # what references in its schema are relative to
                cast("Any", error).scope = self if resolver is None else self.evolve(_resolver=resolver)
            if schema is False:
                if path is not None:
                    error.path.appendleft(path)
                if schema_path is not None:
                    error.schema_path.appendleft(schema_path)
            yield error

    return descend
