"""What tools are called: by their authors, and on the wire of each provider.

>>> from fxai.cli.lint.subject import Subject
>>> from fxai.tools.tool import Tool
>>> [found.code for found in name_findings(Subject.of([Tool.make("a.b"), Tool.make("a__b")]))]
['name-renamed', 'name-collision']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxai.cli.lint.finding import Finding
from fxai.cli.lint.rule import RULES
from fxai.cli.lint.subject import Provider, Subject
from fxai.tools.tool import Tool

__all__ = ["name_findings", "number_findings"]

_RENAME = "rename one: tool.rename(…), or toolkit.prefix(…)"


def number_findings(subject: Subject) -> Iterator[Finding]:
    """No tools, or too many for a provider."""
    number = len(subject.entries)
    if not number:
        yield RULES["no-tools"].finding(
            None, "", "there are no tools", "name a toolkit, a tool or an agent that has some"
        )
    for provider in subject.providers:
        if provider.most_tools is not None and number > provider.most_tools:
            said = f"{number} tools, and {provider.name} takes {provider.most_tools} in one request"
            yield RULES["too-many-tools"].finding(None, "", said, "offer fewer at once: toolkit.pick(…) or .filter(…)")


def name_findings(subject: Subject) -> Iterator[Finding]:
    """What is wrong with the names."""
    alike: dict[str, str] = {}
    for entry in subject.entries:
        name = entry.tool.name
        yield from _odd(name)
        yield from _renamed(entry.tool, subject.providers)
        before = alike.setdefault(name.casefold().replace("-", "_"), name)
        if before != name:
            said = f"{name!r} and {before!r} differ in case, or in '-' and '_', alone"
            yield RULES["name-alike"].finding(name, "/name", said, _RENAME)
    yield from _collisions(subject)


def _odd(name: str) -> Iterator[Finding]:
    if name != name.strip() or not name.isprintable():
        said = f"{name!r} has blanks at its ends, or characters that cannot be seen"
        yield RULES["name-odd"].finding(name, "/name", said, "call it by letters, digits, '_' and '-'")


def _renamed(tool: Tool[Any, Any, Any], providers: tuple[Provider, ...]) -> Iterator[Finding]:
    if tool.provider is not None:
        return
    for provider in providers:
        sent = provider.names.of(tool.name)
        if len(tool.name) > provider.names.length:
            most = provider.names.length
            said = f"{len(tool.name)} characters, and {provider.name} takes {most}: it is sent as {sent!r}"
            yield RULES["name-too-long"].finding(tool.name, "/name", said, f"take a name of at most {most} characters")
    short = [provider for provider in providers if len(tool.name) <= provider.names.length]
    for wire in dict.fromkeys(provider.names.of(tool.name) for provider in short):
        if wire != tool.name:
            where = " and ".join(provider.name for provider in short if provider.names.of(tool.name) == wire)
            remedy = "nothing has to be done: calls come back under its own name"
            yield RULES["name-renamed"].finding(tool.name, "/name", f"it is sent to {where} as {wire!r}", remedy)


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
        said = f"{before!r} and {name!r} would both be sent to {' and '.join(providers)} as {wire!r}"
        yield RULES["name-collision"].finding(name, "/name", said, _RENAME)
