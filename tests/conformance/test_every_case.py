"""Every conformance case is held by a test or listed with a reason, and nothing is both."""

from __future__ import annotations

from tests.conformance.harness import CASES, claims
from tests.conformance.not_ported import NOT_PORTED


def test_every_case_is_claimed_or_listed() -> None:
    """No case of the file is forgotten."""
    forgotten = [one for one in CASES if one not in claims() and one not in NOT_PORTED]

    assert forgotten == []


def test_what_is_claimed_or_listed_exists() -> None:
    """No test claims, and no list names, a case that the file does not hold."""
    assert [one for one in (*claims(), *NOT_PORTED) if one not in CASES] == []


def test_nothing_is_both_claimed_and_listed() -> None:
    """A case that a test holds is not in the list of those that do not apply."""
    assert {one: claims()[one] for one in NOT_PORTED if one in claims()} == {}


def test_every_reason_is_a_sentence() -> None:
    """A case is only left out for a reason that somebody can judge."""
    assert [one for one, reason in NOT_PORTED.items() if len(reason.split()) < 4] == []


def test_the_cases_are_the_areas_in_scope() -> None:
    """The files hold the cases of these areas and no others."""
    areas = (
        *("tool", "toolkit", "loop", "lm", "chat", "response", "prompt", "error", "structured", "schema", "embedding"),
        *("provider.openai", "provider.anthropic", "openai", "anthropic", "approval", "callbacks", "composite"),
        *("concerto", "mcp"),
    )
    stray = [one.id for one in CASES.values() if not one.area.startswith(areas)]

    assert stray == []
    assert len(CASES) > 160
