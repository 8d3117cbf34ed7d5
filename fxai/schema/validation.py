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
from typing import Any, Final, TypeAlias, cast

from fxai.schema.breach import Breach, described, told
from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_STEPS, with_stack
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import METASCHEMAS, REF_ALONE, dialect_of
from fxai.schema.document import growth_of
from fxai.schema.fault import Fault, found_in, pointer_of
from fxai.schema.parsing import too_deep
from fxai.schema.pattern import SECONDS

__all__ = ["Validate", "compiled"]

Validate: TypeAlias = Callable[[object], tuple[Fault, ...]]
"""What a compiled document does: every fault of plain JSON data."""


def compiled(document: Any, engine: str | None) -> Validate:
    """A document compiled for an engine, or for `None` for the fast one; for the slow one where that is not possible.

    Raises:
        ImportError: the engine that was asked for is not installed.
    """
    validate = _by_engine(document, engine)
    growth = growth_of(document)
    if growth.linear:
        return validate
    careful: list[Validate] = []

    def bounded(value: object) -> tuple[Fault, ...]:
        if growth.within(value):
            return validate(value)
        if not careful:
            careful.append(_slow(document, careful=True))
        return careful[0](value)

    return bounded


def _by_engine(document: Any, engine: str | None) -> Validate:
    if engine == "jsonschema" or _lists_much(document):
        return _slow(document)
    try:
        import jsonschema_rs
    except ImportError:
        if engine is None:
            return _slow(document)
        raise ImportError("the engine jsonschema-rs is not installed: pip install 'fxai[fast]'") from None
    try:
        return _fast(document)
    except (jsonschema_rs.ValidationError, ValueError):
        return _slow(document)  # a pattern, say, that only the other one can compile


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


def _fast(document: Any) -> Validate:
    import jsonschema_rs

    try:
        validator = _fast_validator(document, None)
    except jsonschema_rs.ValidationError:
        validator = _fast_validator(document, _metaschemas())  # another dialect's, perhaps
    is_valid = validator.is_valid
    slow: list[Validate] = []

    def validate(value: object) -> tuple[Fault, ...]:
        if is_valid(value):
            return ()
        if not slow:
            slow.extend((_slow(document, refused=True), _slow(document)))
        faults = slow[0](value)
        if faults:
            return faults
        errors = (error for error in validator.iter_errors(value) if not _gave_up(error))
        found = tuple(_fast_fault(error, value) for error in islice(errors, MAX_FAULTS))
        return found or slow[1](value)  # it gave up on a pattern: the other one decides, to the end

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


def _slow(document: Any, *, careful: bool = False, refused: bool = False) -> Validate:
    """Validation by `jsonschema`.

    Args:
        document: the document.
        careful: schemas multiply over the data: what is known is remembered, and steps are counted.
        refused: the data is known to be refused, so that only faults are looked for, as far as the budget goes.
    """
    from referencing.exceptions import Unresolvable

    from fxai.schema.keywords import Search, validator_of

    validator = validator_of(dialect_of(document).uri, document)

    def validate(value: object) -> tuple[Fault, ...]:
        def searched() -> tuple[Search, tuple[Fault, ...]]:
            search = Search(validator, careful=careful, refused=refused)
            return search, told([_breach(error, validator) for error in search.errors(value)], value)

        try:
            search, faults = with_stack(searched)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        except Unresolvable as error:  # references into what is no schema lead elsewhere in each package
            return (Fault("", f"references that can be followed ({error})", found_in(value)),)
        if search.undecided:
            return (Fault("", f"data that is decided within {MAX_STEPS} steps", found_in(value)),)
        if search.unsaid:
            return (Fault("", described(document), found_in(value)),)
        late = () if search.late is None else (Fault("", _in_time(search.late), found_in(value)),)
        return (*faults, *late)

    return validate


def _in_time(pattern: str) -> str:
    return f"patterns that are decided within {SECONDS} seconds ({pattern!r} took longer)"


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
    said = _in_time(error.cause.args[0]) if error.validator == "late" else str(error.message)
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
