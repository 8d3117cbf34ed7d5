"""The official JSON-Schema-Test-Suite, its required cases, through our own document validation.

The cases are those of the suite (MIT licence, beside them), a group a line: the file it is from, what it is
about, a schema, and its tests as description, data and whether the data is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fxai.schema import JsonSchema, SchemaError
from fxai.schema.dialect import DIALECTS

__all__ = ["DRAFTS", "Group", "groups", "refusal", "wrong"]

HERE = Path(__file__).parents[1] / "conformance" / "json_schema"
DRAFTS = {dialect.name: uri for uri, dialect in DIALECTS.items()}


class Group(NamedTuple):
    """Tests of one schema."""

    draft: str
    file: str
    description: str
    schema: Any
    tests: list[tuple[str, Any, bool]]

    @property
    def name(self) -> str:
        """Which group it is, without the draft."""
        return f"{self.file}: {self.description}"

    @property
    def document(self) -> Any:
        """The schema, saying its draft: the suite's older files leave that to the folder."""
        if isinstance(self.schema, bool) or "$schema" in self.schema or self.draft == "2020-12":
            return self.schema
        return {"$schema": DRAFTS[self.draft], **self.schema}


@cache
def groups(draft: str) -> tuple[Group, ...]:
    """The groups of a draft, in the order of the suite."""
    read = json.loads((HERE / f"{draft}.json").read_text(encoding="utf-8"))
    return tuple(
        Group(draft, one["file"], one["description"], one["schema"], [tuple(test) for test in one["tests"]])
        for one in read
    )


def refusal(group: Group) -> str | None:
    """Why a group's document is refused when it is made; nothing for one that is taken."""
    try:
        JsonSchema.of(group.document)
    except SchemaError as error:
        return str(error)
    return None


def wrong(group: Group) -> Iterator[str]:
    """The tests of a group that the engine answers otherwise than the suite."""
    document = JsonSchema.of(group.document)
    for description, data, valid in group.tests:
        if (document.validate(data) == ()) != valid:
            yield description
