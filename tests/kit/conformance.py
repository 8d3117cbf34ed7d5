"""The conformance cases: facts of another system, held by tests of ours.

A test claims the cases that it holds; the suite fails on a case that nobody claims and that `not_ported` does not list
with its reason.

    @case("tool.make/002")
    def test_no_parameters_is_a_closed_empty_object(case: Case) -> None:
        assert ... == case.expect["schema"]

Claims are read from the source of the test files, so they count whichever file is run and on whichever worker.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

__all__ = ["CASES", "Case", "case", "claims"]

_HERE = Path(__file__).parents[1] / "conformance"


class Case(msgspec.Struct, frozen=True):
    """One fact: what is given, what is to come of it, and how we stand to it.

    Attributes:
        id: Its name, such as "tool.make/002".
        area: What it is about, such as "tool.make".
        name: The fact in words.
        given: What it starts from; the form differs from case to case.
        expect: What comes of it.
        kind: "conform"; "improve" where we do better on purpose; "changed: …" where our semantics decides otherwise;
            "newer: …" where we do as the other system does since a later version.
        note: What else is to be known; empty if nothing.
        anchor_actual: What the other system does where we do better; None otherwise.
        newer: What the other system expects since a later version of it; None where that is the same.
    """

    id: str
    area: str
    name: str
    given: Any
    expect: Any
    kind: str = "conform"
    note: str = ""
    anchor_actual: Any = None
    newer: Any = None


def _load() -> Mapping[str, Case]:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(_HERE.glob("*.json"))]
    return {one.id: one for document in documents for one in msgspec.convert(document["cases"], list[Case])}


CASES: Mapping[str, Case] = _load()
"""Every case by its id, in the order of the files, one file for each of the other systems."""


def case(*ids: str) -> pytest.MarkDecorator:
    """Claims these cases for a test, which runs once for each and gets it as its argument `case`."""
    unknown = [one for one in ids if one not in CASES]
    if unknown or not ids:
        raise LookupError(
            f"no such conformance case: {', '.join(unknown) or 'none given'}; see the files beside this one"
        )
    return pytest.mark.parametrize("case", [CASES[one] for one in ids], ids=list(ids))


@cache
def claims() -> Mapping[str, tuple[str, ...]]:
    """The claimed ids, each with the tests that claim it as `file:test`, read from every test file of this folder."""
    found: dict[str, list[str]] = {}
    for path in sorted(_HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for one in _claimed_by(node):
                    found.setdefault(one, []).append(f"{path.name}:{node.name}")
    return {one: tuple(tests) for one, tests in found.items()}


def _claimed_by(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [
        argument.value
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "case"
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
