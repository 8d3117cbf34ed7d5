"""Checks of names and descriptions. Use `name_findings` for names and `wording_findings` for descriptions.

>>> from fxai.lint.rule import Subject
>>> from fxai.tools.tool import Tool
>>> [found.code for found in name_findings(Subject.of([Tool.make("a.b"), Tool.make("a__b")]))]
['name-renamed', 'name-collision']

Tools and parameters need a description, because models choose and call tools by their descriptions.

>>> from fxai.lint.rule import Subject
>>> from fxai.tools.tool import Tool
>>> print(*wording_findings(Subject.of([Tool.make("ping")])))
ping /description: warning tool-undescribed: the tool has no description. Describe its purpose, its use, and its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxai.lint.rule import RULES, Entry, Finding, Provider, Subject
from fxai.schema.data import is_array, is_object
from fxai.schema.location import target, walk
from fxai.tools.tool import AnyTool

_RENAME = "Rename one of them with tool.rename(…) or toolkit.prefix(…)."


def number_findings(subject: Subject) -> Iterator[Finding]:
    """Yield a finding if the number of tools is zero, or too large for a provider."""
    number = len(subject.entries)
    if not number:
        yield RULES["no-tools"].finding(
            None, "", "the target has no tools", "Name a toolkit, a tool, or an agent with tools."
        )
    for api in (api for provider in subject.providers for api in provider.apis):
        if api.most_tools is not None and number > api.most_tools:
            problem = (
                f"{number} tools, but {api.name} accepts {api.most_tools} in one request, so fxai omits the others"
            )
            yield RULES["too-many-tools"].finding(
                None, "", problem, "Offer fewer tools: toolkit.pick(…) or .filter(…)."
            )


def name_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of the names of tools."""
    alike: dict[str, str] = {}
    for entry in subject.entries:
        name = entry.tool.name
        if name != name.strip() or not name.isprintable():
            problem = f"{name!r} starts or ends with a space, or contains invisible characters"
            yield RULES["name-odd"].finding(name, "/name", problem, "Use letters, digits, '_', and '-'.")
        yield from _name_changes(entry.tool, subject.providers)
        before = alike.setdefault(name.casefold().replace("-", "_"), name)
        if before != name:
            problem = f"{name!r} and {before!r} differ only in case, or in '-' and '_'"
            yield RULES["name-alike"].finding(name, "/name", problem, _RENAME)
    yield from _collisions(subject)


def _name_changes(tool: AnyTool, providers: tuple[Provider, ...]) -> Iterator[Finding]:
    if tool.provider is not None:
        return
    for provider in providers:
        sent = provider.names.of(tool.name)
        if len(tool.name) > provider.names.length:
            most = provider.names.length
            problem = f"{len(tool.name)} characters, but {provider.name} accepts {most}, so fxai sends {sent!r}"
            yield RULES["name-too-long"].finding(tool.name, "/name", problem, f"Use at most {most} characters.")
    short = [provider for provider in providers if len(tool.name) <= provider.names.length]
    for wire in dict.fromkeys(provider.names.of(tool.name) for provider in short):
        if wire != tool.name:
            where = " and ".join(provider.name for provider in short if provider.names.of(tool.name) == wire)
            remedy = "No action is necessary: fxai translates the name in calls back."
            yield RULES["name-renamed"].finding(tool.name, "/name", f"fxai sends {where} the name {wire!r}", remedy)


def _collisions(subject: Subject) -> Iterator[Finding]:
    clashes: dict[tuple[str, str, str], list[str]] = {}
    for provider in subject.providers:
        meant: dict[str, str] = {}
        for entry in subject.entries:
            tool = entry.tool
            given = None if tool.provider is None else tool.provider.name
            wire = given or provider.names.of(tool.name)
            before = meant.setdefault(wire, tool.name)
            if before != tool.name:
                clashes.setdefault((before, tool.name, wire), []).append(provider.name)
    for (before, name, wire), providers in clashes.items():
        problem = f"{before!r} and {name!r} have the same name in requests to {' and '.join(providers)}: {wire!r}"
        yield RULES["name-collision"].finding(name, "/name", problem, _RENAME)


def wording_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of descriptions: missing, repeated, or too long."""
    first: dict[str, str] = {}
    for entry in subject.entries:
        name, problem = entry.tool.name, entry.description.strip()
        if not entry.asked:
            continue
        if not problem:
            remedy = "Describe its purpose, its use, and its result."
            yield RULES["tool-undescribed"].finding(name, "/description", "the tool has no description", remedy)
        elif first.setdefault(problem, name) != name:
            message = f"the tool has the same description as {first[problem]!r}"
            yield RULES["description-doubled"].finding(name, "/description", message, "Describe how they differ.")
        yield from _long_description(entry, problem, subject)
        yield from _missing_descriptions(entry)


def _long_description(entry: Entry, problem: str, subject: Subject) -> Iterator[Finding]:
    for api in (api for provider in subject.providers for api in provider.apis):
        most = api.longest_description
        if most is not None and len(problem) > most:
            message = f"{len(problem):,} characters, but {api.name} accepts {most:,}, so fxai omits the end"
            remedy = "Shorten it, or move a part to the agent's instructions."
            yield RULES["description-too-long"].finding(entry.tool.name, "/description", message, remedy)


def _missing_descriptions(entry: Entry) -> Iterator[Finding]:
    for location in walk(entry.document):
        values = location.schema.get("enum")
        has_one_value = "const" in location.schema or (is_array(values) and len(values) == 1)
        if location.name is None or location.around or has_one_value:
            continue
        if _has_description(location.schema, entry.document):
            continue
        written = 'Use Annotated[…, msgspec.Meta(description="…")], or describe it in the docstring of the function.'
        remedy = written if entry.derived else 'Add "description": "…".'
        at = f"/parameters{location.pointer}"
        yield RULES["parameter-undescribed"].finding(
            entry.tool.name, at, f"{location.name!r} has no description", remedy
        )


def _has_description(schema: Any, document: Any) -> bool:
    """Return True if a schema has a description, also through its `$ref` or in a branch."""
    if not is_object(schema):
        return True  # the schemas true and false need no description
    if str(schema.get("description") or "").strip():
        return True
    if "$ref" in schema and (there := target(schema, document)) is not schema:
        return is_object(there) and bool(str(there.get("description") or "").strip())
    unions = [schema[union] for union in ("anyOf", "oneOf", "allOf") if is_array(schema.get(union))]
    return any(is_object(branch) and _has_description(branch, document) for union in unions for branch in union)
