"""What tools and their parameters say of themselves to a model.

>>> from fxai.cli.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> print(*wording_findings(Subject.of([Tool.make("ping")])))
ping /description: warning tool-undescribed: it has no description; say what it does, when to use it and what it gives
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxai.cli.lint.finding import Finding
from fxai.cli.lint.rule import RULES
from fxai.cli.lint.subject import Entry, Subject
from fxai.cli.lint.walk import Place, places, target
from fxai.schema.data import is_array, is_object

__all__ = ["wording_findings"]


def wording_findings(subject: Subject) -> Iterator[Finding]:
    """What is wrong with the descriptions."""
    first: dict[str, str] = {}
    for entry in subject.entries:
        name, said = entry.tool.name, entry.description.strip()
        if not entry.asked:
            continue
        if not said:
            remedy = "say what it does, when to use it and what it gives"
            yield RULES["tool-undescribed"].finding(name, "/description", "it has no description", remedy)
        elif first.setdefault(said, name) != name:
            message = f"it is described as {first[said]!r} is"
            yield RULES["description-doubled"].finding(name, "/description", message, "say what tells them apart")
        yield from _long(entry, said, subject)
        yield from _parameters(entry)


def _long(entry: Entry, said: str, subject: Subject) -> Iterator[Finding]:
    for provider in subject.providers:
        most = provider.longest_description
        if most is not None and len(said) > most:
            message = f"{len(said):,} characters, and {provider.name} refuses more than {most:,} with some models"
            remedy = "shorten it, or say the rest in the agent's instructions"
            yield RULES["description-too-long"].finding(entry.tool.name, "/description", message, remedy)


def _parameters(entry: Entry) -> Iterator[Finding]:
    for place in places(entry.document):
        if place.name is None or place.around or _is_told(place, entry.document):
            continue
        written = 'describe it: Annotated[…, msgspec.Meta(description="…")], or in the docstring of its function'
        remedy = written if entry.derived else 'add "description": "…"'
        at = f"/parameters{place.pointer}"
        yield RULES["parameter-undescribed"].finding(entry.tool.name, at, f"{place.name!r} has no description", remedy)


def _is_told(place: Place, document: Any) -> bool:
    """Whether it is described, where it stands or where it refers to, or has but one value."""
    schema = place.schema
    values = schema.get("enum")
    return "const" in schema or (is_array(values) and len(values) == 1) or _described(schema, document)


def _described(schema: Any, document: Any) -> bool:
    if not is_object(schema):
        return True  # true and false speak for themselves
    if str(schema.get("description") or "").strip():
        return True
    if "$ref" in schema and (there := target(schema, document)) is not schema:
        return is_object(there) and bool(str(there.get("description") or "").strip())
    unions = [schema[union] for union in ("anyOf", "oneOf", "allOf") if is_array(schema.get(union))]
    return any(is_object(branch) and _described(branch, document) for union in unions for branch in union)
