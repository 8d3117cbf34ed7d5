"""Validation by `jsonschema-rs`, the fast one, or `jsonschema`: neither ever fetches, and both tell the same faults.

Each is loaded when first used. The fast one decides; what it refuses is told by the faults that `jsonschema` finds, so
that a message does not depend on what is installed. Where a document lets its schemas multiply over the data, both
leave the decision to one that remembers what it knows and counts its steps.

>>> validate = compiled({"type": "object", "required": ["q"]}, "jsonschema")
>>> [str(fault) for fault in validate({})]
['/q: expected a value, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, Final, TypeAlias, cast, final

from fxai.schema.breach import Breach, described, faults_of
from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_STEPS, Exhausted, with_stack
from fxai.schema.data import is_array, is_object
from fxai.schema.decision import Decider, decider_of
from fxai.schema.dialect import METASCHEMAS, REF_ALONE, dialect_of
from fxai.schema.document import growth_of
from fxai.schema.fault import Fault, found_in, pointer_of
from fxai.schema.parsing import too_deep, written
from fxai.schema.pattern import PatternTimeout, in_time

__all__ = ["Validate", "compiled"]

Validate: TypeAlias = Callable[[object], tuple[Fault, ...]]
"""What a compiled document does: every fault of plain JSON data."""


def compiled(document: Any, engine: str | None) -> Validate:
    """A document compiled for an engine, or for `None` for the fast one; for the slow one where that is not possible.

    Raises:
        ImportError: the engine that was asked for is not installed.
    """
    slow = _Slow(document)
    fast = _by_engine(document, engine, slow)

    def validate(value: object) -> tuple[Fault, ...]:
        return fast(value) if fast is not None and slow.is_light(value) else slow.faults(value)

    return validate


def _by_engine(document: Any, engine: str | None, slow: _Slow) -> Validate | None:
    """Validation by the fast package; None where it is not to be had, or cannot compile the document."""
    if engine == "jsonschema" or _lists_much(document):
        return None
    try:
        import jsonschema_rs
    except ImportError:
        if engine is None:
            return None
        raise ImportError("the engine jsonschema-rs is not installed: pip install 'fxai[fast]'") from None
    try:
        return _fast(document, slow)
    except (jsonschema_rs.ValidationError, ValueError):
        return None  # a pattern, say, that only the other one can compile


def _lists_much(document: Any) -> bool:
    """Whether an enumeration is long of what the fast package compares one by one, where the other one looks it up."""
    pending = [document]
    while pending:
        value = pending.pop()
        enum: Any = value.get("enum") if is_object(value) else None
        if is_array(enum) and sum(isinstance(one, (float, list, dict)) for one in enum) > _COMPARED:
            return True
        pending += value.values() if is_object(value) else value if is_array(value) else ()
    return False


_COMPARED: Final = 64

_TRIES: Final = 10_000
"""How many ways to match one pattern the fast package tries before it leaves the decision to the other one."""


class _Unasserted:
    """A keyword that only says something: content is checked by the fast package in old drafts, by us never."""

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None: ...

    def validate(self, instance: object) -> None:
        """Take everything."""


def _fast(document: Any, slow: _Slow) -> Validate:
    import jsonschema_rs

    try:
        validator = _fast_validator(document, None)
    except jsonschema_rs.ValidationError:
        validator = _fast_validator(document, _metaschemas())  # another dialect's, perhaps
    is_valid = validator.is_valid

    def validate(value: object) -> tuple[Fault, ...]:
        if is_valid(value):
            return ()
        faults = slow.find_faults(value)
        if faults:
            return faults
        errors = (error for error in validator.iter_errors(value) if not _gave_up(error))
        found = tuple(_fast_fault(error, value) for error in islice(errors, MAX_FAULTS))
        return found or slow.faults(value)  # it gave up on a pattern: the other one decides, to the end

    return validate


def _fast_validator(document: Any, registry: Any) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        document,
        validate_formats=False,
        offline=True,
        registry=registry,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_TRIES),
        keywords={"contentMediaType": _Unasserted, "contentEncoding": _Unasserted},
    )


@cache
def _metaschemas() -> Any:
    """The bundled metaschemas, for documents that refer to one of another dialect than their own."""
    import jsonschema_rs

    bundled: Any = import_module("jsonschema_specifications").REGISTRY
    return jsonschema_rs.Registry([(uri, bundled.contents(uri)) for uri in METASCHEMAS])


_MOST_FOLLOWED: Final = 32
_SHORT: Final = 2_048  # bytes of JSON up to which no document holds data up that does not multiply
_CHARACTERS: Final = 64  # how many bytes cost as much as a value
_AROUND: Final = 3  # what a visit costs beside its own keywords: for its place, its name and its value
_STEP: Final = 10  # how many of the budget's steps one of `jsonschema` takes
_LONGEST: Final = 200


def _fast_fault(error: Any, root: object) -> Fault:
    """What only the fast package found."""
    there: Any = root
    for token in error.instance_path:
        there = there[token]
    message = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
    return Fault(pointer_of(error.instance_path), f"what the schema says ({message})", found_in(there))


def _gave_up(error: Any) -> bool:
    """Whether the fast package stopped trying a pattern: then the other one decides, within its time."""
    return "backtracking" in error.message


@final
class _Slow:
    """What decides about data within the budget, and tells the faults of what is refused; made when it is needed."""

    __slots__ = ("_decider", "_document", "_growth", "_most", "_validator")

    def __init__(self, document: Any) -> None:
        self._document = document
        self._growth = growth_of(document)
        self._validator: Any = None
        self._decider: Decider | None = None
        self._most = 0

    def _ready(self) -> Any:
        if self._validator is None:
            from fxai.schema.keywords import validator_of

            dialect = dialect_of(self._document)
            made = validator_of(dialect.uri, self._document)
            self._decider = decider_of(made.schema, dialect, multiplies=not self._growth.linear)
            heaviest = _STEP if self._decider is None else self._decider.heaviest * _AROUND
            self._most = MAX_STEPS // heaviest
            self._validator = made
        return self._validator

    def is_light(self, value: object) -> bool:
        """Whether a validation takes no more steps than the budget has, at the worst: then any package may decide."""
        size = _size_of(value)
        if self._growth.linear and size <= _SHORT:
            return True
        with_stack(self._ready)
        return self._growth.within(value, self._most - self._growth.visits * (size // _CHARACTERS))

    def faults(self, value: object) -> tuple[Fault, ...]:
        """Every fault of data; none where the document takes it."""
        with_stack(self._ready)
        decider = self._decider
        if decider is None:
            return self._searched(value, careful=not self._growth.within(value, self._most))
        try:
            if with_stack(lambda: decider.takes(value)):
                return ()
        except Exhausted:
            return (_undecided(value),)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        except PatternTimeout:
            pass  # where that is, is told
        return self.find_faults(value) or (Fault("", described(self._document), found_in(value)),)

    def find_faults(self, value: object) -> tuple[Fault, ...]:
        """The faults of data that is known to be refused, as far as the budget goes."""
        with_stack(self._ready)
        return self._searched(value, refused=True)

    def _searched(self, value: object, *, careful: bool = False, refused: bool = False) -> tuple[Fault, ...]:
        from referencing.exceptions import Unresolvable

        from fxai.schema.search import Search

        validator = self._validator

        def searched() -> tuple[Search, tuple[Fault, ...]]:
            search = Search(validator, careful=careful, refused=refused, decider=self._decider)
            return search, faults_of([_breach(error, validator) for error in search.errors(value)], value)

        try:
            search, faults = with_stack(searched)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        except Unresolvable as error:  # references into what is no schema lead elsewhere in each package
            return (Fault("", f"references that can be followed ({error})", found_in(value)),)
        if search.undecided:
            return (_undecided(value),)
        if search.unsaid:
            return (Fault("", described(self._document), found_in(value)),)
        late = () if search.late is None else (Fault("", in_time(search.late), found_in(value)),)
        return (*faults, *late)


def _undecided(value: object) -> Fault:
    return Fault("", f"data that is decided within {MAX_STEPS} steps", found_in(value))


def _size_of(value: object) -> int:
    """How many bytes of JSON data is."""
    try:
        return len(written(value))
    except (TypeError, ValueError, RecursionError):
        return _SHORT + 1


def _breach(error: Any, root: Any) -> Breach:
    path = tuple(cast("list[str | int]", list(error.absolute_path)))
    schema = error.schema if is_object(error.schema) else {}
    branches: list[tuple[Breach, ...]] = []
    if error.validator in ("anyOf", "oneOf"):
        by_branch: dict[Any, list[Breach]] = {}
        for inner in error.context:
            found = by_branch.setdefault(inner.schema_path[0], [])
            if len(found) < MAX_FAULTS:
                found.append(_breach(inner, root))
        branches = [tuple(found) for found in by_branch.values()]
    said = in_time(error.cause.args[0]) if error.validator == "late" else str(error.message)
    names, scope = tuple(getattr(error, "names", ())), getattr(error, "scope", root)
    follow = partial(_followed, scope, schema)
    return Breach(error.validator or "false", schema, path, names, tuple(branches), said, follow)


def _followed(scope: Any, around: Any, schema: Any) -> Any:
    """What a schema inside of another one says where it is a reference: what that names, and what stands beside it."""
    from referencing.exceptions import Unresolvable

    from fxai.schema.keywords import inside, referred

    if not is_object(schema) or "$ref" not in schema:
        return schema
    scope = inside(scope, around)
    for _ in range(_MOST_FOLLOWED):
        if not is_object(schema) or "$ref" not in schema:
            break
        beside = {key: said for key, said in schema.items() if key != "$ref"}
        alone = scope.dialect in REF_ALONE
        try:
            schema, scope = next(referred(inside(scope, schema), schema))
        except Unresolvable:  # it stands in another resource than the schema around
            break
        if is_object(schema) and beside and not alone:
            schema = {**schema, **beside}
    return schema
