"""What of the official suite passes, by draft: `python -m tests.conformance.json_schema`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.kit.json_schema_refusals import expected_refusals
from tests.kit.json_schema_suite import DRAFTS, groups, refusal, wrong


def rows() -> Iterator[tuple[str, ...]]:
    """A row for each draft, then the reasons."""
    reasons: dict[str, int] = {}
    yield ("draft", "tests", "passed", "refused", "wrong")
    for draft in DRAFTS:
        refused = [group for group in groups(draft) if refusal(group) is not None]
        tests, out = (sum(len(group.tests) for group in some) for some in (groups(draft), refused))
        known = expected_refusals(draft)
        for group in refused:
            reason = known.get(group.name, f"not expected: {refusal(group)}")
            reasons[reason] = reasons.get(reason, 0) + len(group.tests)
        failed = [f"{group.name}: {one}" for group in groups(draft) if group not in refused for one in wrong(group)]
        yield (draft, str(tests), str(tests - out - len(failed)), str(out), str(len(failed)))
        yield from (("", f"wrong: {one}") for one in failed)
    for reason, count in reasons.items():
        yield (f"refused, {count} tests: {reason}",)
    yield (
        "not vendored: the folders `optional` (formats as assertions, big numbers, …), which no implementation owes",
    )


def main() -> None:
    """Print the table."""
    for row in rows():
        print(*(cell.ljust(width) for cell, width in zip(row, (9, 6, 7, 8, 6), strict=False)))  # noqa: T201


if __name__ == "__main__":
    main()
