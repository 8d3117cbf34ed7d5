"""The groups of the official suite that are refused as documents, each with the reason why that is right."""

from __future__ import annotations

from tests.kit.json_schema_suite import Group, groups

__all__ = ["OUTSIDE", "VOCABULARY", "expected_refusals"]

OUTSIDE = "it refers to a document elsewhere: no schema ever causes network or file access"
VOCABULARY = "its dialect is one that a document elsewhere defines: no schema ever causes network or file access"

# Every group of refRemote.json, and these of other files.
_ELSEWHERE = {
    "dynamicRef: strict-tree schema, guards against misspelled properties": OUTSIDE,
    "dynamicRef: tests for implementation dynamic anchor and reference link": OUTSIDE,
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first": OUTSIDE,
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first": OUTSIDE,
    "dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor": OUTSIDE,
    "vocabulary: schema that uses custom metaschema with with no validation vocabulary": VOCABULARY,
    "vocabulary: ignore unrecognized optional vocabulary": VOCABULARY,
}


def _reason(group: Group) -> str | None:
    return OUTSIDE if group.file == "refRemote" else _ELSEWHERE.get(group.name)


def expected_refusals(draft: str) -> dict[str, str]:
    """By group, why it is refused."""
    return {group.name: reason for group in groups(draft) if (reason := _reason(group)) is not None}
