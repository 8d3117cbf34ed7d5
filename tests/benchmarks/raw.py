"""Validation by a raw JSON Schema: good data, one fault, six faults, and 100 objects of 20 fields.

The contenders receive parsed data and report all errors with their locations. Only `fastjsonschema` stops at the first
error. Contenders that are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from fxai.schema import JsonSchema
from tests.benchmarks.measure import FXAI, Budget, Work

__all__ = ["works"]

Validate = Callable[[Any], object]

LIST_FILES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "pattern": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "recursive": {"type": "boolean"},
        "sort": {"enum": ["name", "size", "date"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path", "limit"],
    "additionalProperties": False,
}
GOOD: Final = {"path": "/a", "pattern": "x", "limit": 10, "recursive": True, "sort": "name", "tags": ["a", "b"]}
ONE: Final = {**GOOD, "limit": "ten"}
SIX: Final = {"path": 3, "pattern": 4, "limit": "ten", "recursive": "yes", "sort": "color", "tags": ["a", 7]}

KINDS: Final = {"string": "text", "integer": 7, "number": 0.5, "boolean": True}
FIELDS: Final = {f"{kind}{number}": kind for kind in KINDS for number in range(5)}
ITEMS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": kind} for name, kind in FIELDS.items()},
                "required": [*FIELDS],
            },
        }
    },
    "required": ["items"],
}
MANY: Final[dict[str, Any]] = {"items": [{name: KINDS[kind] for name, kind in FIELDS.items()} for _ in range(100)]}
WRONG: Final = {"items": [{**item, "integer3": "x"} if at == 50 else item for at, item in enumerate(MANY["items"])]}


def works() -> Iterator[Work]:
    """Return the rows of raw tools, with the budgets that their specification states."""
    short, long = _contenders(LIST_FILES), _contenders(ITEMS)
    yield _work("valid arguments", short, GOOD, 1000)
    yield _work("one fault", short, ONE, 500, Budget(0, plus=15e-6))
    yield _work("six faults", short, SIX, 200, Budget(0, plus=40e-6), Budget(1, "jsonschema"))
    yield _work("100 objects of 20 fields", long, MANY, 10, Budget(0, plus=500e-6))
    yield _work("100 objects, one fault", long, WRONG, 10, Budget(0, plus=600e-6))


def _work(name: str, contenders: Mapping[str, Validate], value: Any, times: int, *budgets: Budget) -> Work:
    def repeated(validate: Validate) -> Callable[[], object]:
        return lambda: [validate(value) for _ in range(times)]

    return Work(name, {who: repeated(validate) for who, validate in contenders.items()}, times, budgets)


def _contenders(document: dict[str, Any]) -> dict[str, Validate]:
    made = JsonSchema.of(document)
    found: dict[str, Validate] = {FXAI: made.validate}
    package: Any = import_module("jsonschema")
    validator = package.Draft202012Validator(document)
    found["jsonschema"] = lambda value: [(one.json_path, one.message) for one in validator.iter_errors(value)]
    if find_spec("jsonschema_rs") is not None:
        compiled: Any = import_module("jsonschema_rs").Draft202012Validator(document)
        found["jsonschema-rs"] = lambda value: [(one.instance_path, one.message) for one in compiled.iter_errors(value)]
    if find_spec("fastjsonschema") is not None:
        found["fastjsonschema"] = _first_fault(import_module("fastjsonschema"), document)
    return found


def _first_fault(package: Any, document: dict[str, Any]) -> Validate:
    validate = package.compile(document)

    def first(value: Any) -> object:
        try:
            return validate(value)
        except package.JsonSchemaException as error:
            return error

    return first
