"""Every conformance case is held by a test or listed with a reason, nothing is both, and each is labelled as it is."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kit.conformance import CASES, claims
from tests.kit.not_ported import NOT_PORTED, TO_COME

HERE = Path(__file__).parent
ORIGINAL = Path(__file__).parents[3] / "shared" / "conformance"

original = pytest.mark.skipif(not ORIGINAL.is_dir(), reason="the original cases are not beside this checkout")


def test_every_case_is_claimed_or_listed() -> None:
    """No case of the file is forgotten."""
    forgotten = [one for one in CASES if one not in claims() and one not in NOT_PORTED]

    assert forgotten == []


def test_what_is_claimed_or_listed_exists() -> None:
    """No test claims, and no list names, a case that the file does not hold."""
    assert [one for one in (*claims(), *NOT_PORTED) if one not in CASES] == []


def test_nothing_is_both_claimed_and_listed() -> None:
    """A case that a test holds is not in the lists of those that do not apply, or not yet."""
    assert {one: claims()[one] for one in (*NOT_PORTED, *TO_COME) if one in claims()} == {}


def test_every_reason_is_a_sentence() -> None:
    """A case is only left out for a reason that somebody can judge."""
    reasons = {**NOT_PORTED, **TO_COME}

    assert [one for one, reason in reasons.items() if len(reason.split()) < 4] == []


@cache
def _originals() -> dict[str, dict[str, Any]]:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(ORIGINAL.glob("*.json"))]
    return {one["id"]: one for document in documents for one in document["cases"]}


@original
def test_every_original_case_is_here_or_listed() -> None:
    """No case of the original systems is left out without a reason, and no reason is for a case that there is not."""
    unknown = [one for one in _originals() if one not in CASES and one not in TO_COME]

    assert unknown == []
    assert [one for one in TO_COME if one in CASES or one not in _originals()] == []


@original
def test_every_case_is_the_original() -> None:
    """What is given, what is expected and since when is what the original says; only the label is ours."""
    facts = ("name", "given", "expect", "newer", "anchor_actual")
    originals = _originals()
    stray = [one for one in CASES if one not in originals]
    changed = [
        (one.id, fact)
        for one in CASES.values()
        for fact in facts
        if one.id not in stray and getattr(one, fact) != originals[one.id].get(fact)
    ]

    assert (stray, changed) == ([], [])


# -- labels


def test_a_label_says_how_we_stand_to_a_case() -> None:
    """We conform, do better or decide otherwise, or follow the newer version; whoever does not conform says why."""
    why = ("improve: ", "changed: ", "newer: ")
    labels = {one.id: one.kind for one in CASES.values()}
    unexplained = {one: label for one, label in labels.items() if not label.startswith((*why, "conform", "improve"))}

    assert unexplained == {}
    assert [one for one, label in labels.items() if label.startswith("conform") and label != "conform"] == []


def test_no_case_conforms_whose_test_holds_what_is_newer() -> None:
    """Where a test asserts what the newer version expects, the case is labelled so."""
    wrong = {
        one: test
        for one, tests in claims().items()
        for test in tests
        if CASES[one].kind == "conform" and CASES[one].newer is not None and "newer" in _attributes(test)
    }

    assert wrong == {}


def test_no_test_says_that_a_case_is_better_or_other_and_labels_it_conform() -> None:
    """What a docstring says of the other system ("There …", "Better than …") is no label of a case that conforms."""
    wrong = {
        one: test
        for one, tests in claims().items()
        for test in tests
        if CASES[one].kind == "conform" and _tells_a_difference(_docstring(test))
    }

    assert wrong == {}


def _tells_a_difference(text: str) -> bool:
    return any(word in text for word in ("Better than", "changed:", "There is no registry", "as our semantics"))


def _attributes(test: str) -> set[str]:
    """The attributes of `case` that a test reads."""
    return {
        node.attr
        for node in ast.walk(_function(test))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "case"
    }


def _docstring(test: str) -> str:
    return ast.get_docstring(_function(test)) or ""


def _function(test: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    file, _, name = test.partition(":")
    return _functions(file)[name]


@cache
def _functions(file: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_cases_are_the_areas_in_scope() -> None:
    """The files hold the cases of these areas and no others."""
    areas = (
        *("tool", "toolkit", "loop", "lm", "chat", "response", "prompt", "error", "structured", "schema", "embedding"),
        *("provider.openai", "provider.anthropic", "openai", "anthropic", "approval", "callbacks", "composite"),
        *("concerto", "mcp", "run", "tokenizer", "ui", "agent", "state", "effect", "definitions"),
    )
    stray = [one.id for one in CASES.values() if not one.area.startswith(areas)]

    assert stray == []
    assert len(CASES) > 160
