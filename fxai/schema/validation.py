"""Validation by `jsonschema-rs`, the fast one, or `jsonschema`: neither ever fetches, and both tell the same faults.

Each is loaded when first used. The fast one decides; what it refuses is told by the faults that `jsonschema` finds, so
that a message does not depend on what is installed.

>>> validate = compiled({"type": "object", "required": ["q"]}, "jsonschema")
>>> [str(fault) for fault in validate({})]
['/q: expected a value, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from fxai.schema.breach import Breach, told
from fxai.schema.data import is_object
from fxai.schema.dialect import METASCHEMAS, dialect_of
from fxai.schema.fault import Fault, found_in, pointer_of
from fxai.schema.parsing import too_deep
from fxai.schema.pattern import SECONDS, Matcher
from fxai.schema.plain import MAX_LEVELS

__all__ = ["Validate", "compiled"]

Validate: TypeAlias = Callable[[object], tuple[Fault, ...]]
"""What a compiled document does: every fault of plain JSON data."""


def compiled(document: Any, engine: str | None) -> Validate:
    """A document compiled for an engine; for `None` the fast one where it is installed and can compile it.

    Raises:
        ImportError: the engine that was asked for is not installed.
    """
    if engine == "jsonschema":
        return _slow(document)
    try:
        import jsonschema_rs
    except ImportError:
        if engine is None:
            return _slow(document)
        raise ImportError("the engine jsonschema-rs is not installed: pip install 'fxai[fast]'") from None
    try:
        return _fast(document)
    except jsonschema_rs.ValidationError:
        if engine is None:
            return _slow(document)  # a pattern, say, that only the other one can compile
        raise


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
            slow.append(_slow(document))
        faults = slow[0](value)
        errors = [] if faults else [error for error in validator.iter_errors(value) if not _gave_up(error)]
        return faults or tuple(_fast_fault(error, value) for error in errors)

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


def _fast_fault(error: Any, root: object) -> Fault:
    """What only the fast package found."""
    there: Any = root
    for token in error.instance_path:
        there = there[token]
    return Fault(pointer_of(error.instance_path), f"what the schema says ({error.message})", found_in(there))


def _gave_up(error: Any) -> bool:
    """Whether the fast package stopped trying a pattern: then the other one decides, within its time."""
    return "backtracking" in error.message


def _slow(document: Any) -> Validate:
    from fxai.schema.keywords import deciding_with, validator_of

    validator = validator_of(dialect_of(document).uri, document)

    def validate(value: object) -> tuple[Fault, ...]:
        matcher = Matcher(SECONDS)
        try:
            with deciding_with(matcher):
                errors = list(validator.iter_errors(value))
                faults = told([_breach(error) for error in errors], value)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        if matcher.late is not None and not any(error.validator == "late" for error in errors):
            faults = (*faults, Fault("", _in_time(matcher.late), found_in(value)))
        return faults

    return validate


def _in_time(pattern: str) -> str:
    return f"patterns that are decided within {SECONDS} seconds ({pattern!r} took longer)"


def _breach(error: Any) -> Breach:
    path = tuple(cast("list[str | int]", list(error.absolute_path)))
    schema = error.schema if is_object(error.schema) else {}
    branches: list[tuple[Breach, ...]] = []
    if error.validator in ("anyOf", "oneOf"):
        by_branch: dict[Any, list[Breach]] = {}
        for inner in error.context:
            by_branch.setdefault(inner.schema_path[0], []).append(_breach(inner))
        branches = [tuple(found) for found in by_branch.values()]
    said = _in_time(error.cause.args[0]) if error.validator == "late" else str(error.message)
    names = tuple(getattr(error, "names", ()))
    return Breach(error.validator or "false", schema, path, names=names, branches=tuple(branches), said=said)
