"""The works of three validators of JSON Schema: all faults of one value, with their locations."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from tests.benchmarks.rivals import raw_inputs
from tests.benchmarks.rivals.worker import Prepare, Work, repeated, serve

stock: Any = import_module("jsonschema")
rust: Any = import_module("jsonschema_rs")


def _faults(validator: Any, location: str, value: object) -> Work:
    return repeated(lambda: [(getattr(error, location), error.message) for error in validator.iter_errors(value)])


def _works() -> dict[str, Prepare]:
    works: dict[str, Prepare] = {}
    for name, (schema, value) in raw_inputs.WORKS.items():
        plain = stock.Draft202012Validator(schema)
        fast = rust.Draft202012Validator(schema)
        works[f"jsonschema, {name}"] = partial(_faults, plain, "json_path", value)
        works[f"jsonschema-rs, {name}"] = partial(_faults, fast, "instance_path", value)
    return works


if __name__ == "__main__":
    serve(_works())
