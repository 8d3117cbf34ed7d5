"""The keywords of `jsonschema` that match patterns, rewritten so that no pattern can hang the process.

`pattern`, `patternProperties`, `additionalProperties` and `unevaluatedProperties` search with `regex` and a timeout
instead of `re`; a search that runs out of time is an error of its own kind (`late`), never a silent answer. The
validator classes here also stay themselves inside a subschema that names its own `$schema`, where `jsonschema` would
go back to its own keywords, and never fetch.

>>> from fxai.schema.dialect import LATEST
>>> with deciding_with(Matcher()):
...     [error.validator for error in validator_of(LATEST.uri, {"pattern": "^a"}).iter_errors("b")]
['pattern']
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, cast

import jsonschema
import jsonschema.validators
import referencing
import referencing.jsonschema
from jsonschema.exceptions import ValidationError

from fxai.schema.data import is_object
from fxai.schema.dialect import DIALECTS
from fxai.schema.pattern import Matcher, PatternTimeout

__all__ = ["deciding_with", "inside", "referred", "validator_of"]

_MATCHER: Final[ContextVar[Matcher]] = ContextVar("fxai_pattern_matcher")

_validators: Final[Any] = jsonschema.validators
_STOCK: Final[dict[str, Any]] = {
    "draft-04": jsonschema.Draft4Validator,
    "draft-06": jsonschema.Draft6Validator,
    "draft-07": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}


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
    error.names = tuple(names)
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


_NOTHING_ELSE = cast("Callable[[], Any]", referencing.Registry)()
_KEYWORDS: Final = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "unevaluatedProperties": _unevaluated_properties,
}
_SPECIFICATIONS: Final = {
    dialect.name: referencing.jsonschema.specification_with(dialect.uri) for dialect in DIALECTS.values()
}


_extend = cast("Callable[[Any, dict[str, Any]], Any]", _validators.extend)

# The later drafts split it in two, and keep the old one for documents that still say it; so does jsonschema-rs.
_DEPENDENCIES: Final = jsonschema.Draft7Validator.VALIDATORS["dependencies"]


@cache
def _class(uri: str) -> Any:
    """The validator class of a dialect, by its URI."""
    name = DIALECTS[uri].name
    stock = _STOCK[name]
    replaced: dict[str, Any] = {key: function for key, function in _KEYWORDS.items() if key in stock.VALIDATORS}
    replaced.setdefault("dependencies", stock.VALIDATORS.get("dependencies", _DEPENDENCIES))
    made = _extend(stock, replaced)
    made.dialect = name
    made.evolve = _evolve
    made.descend = _descending(made.descend)
    return made


def validator_of(uri: str, document: Any) -> Any:
    """The validator of a plain document of a dialect, by its URI; what lies outside is never fetched."""
    return _class(uri)(document, registry=_NOTHING_ELSE)


def _evolve(self: Any, **changes: Any) -> Any:
    schema = changes.get("schema", self.schema)
    said = schema.get("$schema") if is_object(schema) else None
    uri = said.removesuffix("#") if isinstance(said, str) else None
    make: Any = self.__class__
    if uri in DIALECTS and DIALECTS[uri].name != self.dialect:
        make = _class(uri)
    return make(schema, registry=self._registry, _resolver=changes.get("_resolver", self._resolver))


def _descending(stock: Any) -> Any:
    """`descend`, telling the place also of a schema that takes nothing, which `jsonschema` forgets."""

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        for error in stock(self, instance, schema, path, schema_path, resolver):
            if schema is False:
                if path is not None:
                    error.path.appendleft(path)
                if schema_path is not None:
                    error.schema_path.appendleft(schema_path)
            yield error

    return descend
