"""The official JSON-Schema-Test-Suite, required cases of every draft."""

from __future__ import annotations

from tests.conformance.json_schema.__main__ import rows
from tests.kit.every import every
from tests.kit.json_schema_refusals import expected_refusals
from tests.kit.json_schema_suite import DRAFTS, groups, refusal, wrong


@every("draft", DRAFTS)
def test_every_case_is_answered_as_the_suite_says(draft: str) -> None:
    """For every document that is taken."""
    taken = [group for group in groups(draft) if refusal(group) is None]
    failed = [f"{group.name}: {test}" for group in taken for test in wrong(group)]

    assert len(taken) > 100
    assert failed == []


@every("draft", DRAFTS)
def test_the_documents_that_are_refused_are_those_listed(draft: str) -> None:
    """Each leads out of itself, and the message says so."""
    refused = {group.name: refusal(group) for group in groups(draft) if refusal(group) is not None}

    assert set(refused) == set(expected_refusals(draft))
    assert all("fetches nothing" in str(said) or "a known dialect" in str(said) for said in refused.values())


def test_the_table_counts_every_test() -> None:
    """For each draft, what passes, is refused and is wrong is all there is."""
    counted = [row for row in rows() if len(row) == 5][1:]

    assert len(counted) == len(DRAFTS)
    assert all(int(tests) == int(passed) + int(refused) + int(bad) for *_, tests, passed, refused, bad in counted)
