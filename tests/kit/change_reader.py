"""A reader of requests, as a model reads them: the head, then each appended change in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fxai.messages import Prompt
from fxai.models import ModelRequest

__all__ = ["ShownState", "read_state"]

_CHANGED = re.compile(r"The section <(?P<name>[^<>]+)> (changed\. It now reads|is new):")
_GONE = re.compile(r"The section <(?P<name>[^<>]+)> no longer applies\.")
_TOOL_GONE = re.compile(r"The tool <(?P<name>[^<>]+)> is no longer available\. A call of this tool fails\.")
_TOOL = re.compile(r"The tool <(?P<name>[^<>]+)> is available from now on\.")
_INSTRUCTIONS = "The instructions changed. These instructions replace the earlier ones:\n\n"
_NO_INSTRUCTIONS = "The earlier instructions no longer apply."


class ShownState(NamedTuple):
    """The state that a request shows."""

    instructions: str
    sections: dict[str, str]
    tools: frozenset[str]


def read_state(request: ModelRequest, *, has_instructions: bool = False) -> ShownState:
    """Return the state that a model knows after it read the request from its start.

    Args:
        request: The request.
        has_instructions: True if the first system message contains instructions, and not sections.
    """
    lead, later = _texts(request.prompt)
    instructions = lead[0] if has_instructions and lead else ""
    heads = lead[1:] if has_instructions else lead
    sections = {name: text for head in heads for name, text in _sections(head.split("\n"))}
    tools = {tool.name for tool in request.tools}
    for text in later:
        if text.startswith(_INSTRUCTIONS):
            instructions = text.removeprefix(_INSTRUCTIONS)
        elif text == _NO_INSTRUCTIONS:
            instructions = ""
        else:
            _apply(text.split("\n"), sections, tools)
    return ShownState(instructions, sections, frozenset(tools))


def _texts(prompt: Prompt) -> tuple[list[str], list[str]]:
    """Return the texts of the system messages at the start, and of the later ones."""
    lead: list[str] = []
    later: list[str] = []
    is_head = True
    for message in prompt:
        if message.role == "system":
            (lead if is_head else later).append(message.content)
        is_head = is_head and message.role == "system"
    return lead, later


def _apply(lines: list[str], sections: dict[str, str], tools: set[str]) -> None:
    """Apply the sentences of one text; every line must be a sentence or part of the section after one."""
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if changed := _CHANGED.fullmatch(line):
            name = changed["name"]
            start = at + 1 if lines[at] == "<data>" else at
            end = lines.index(f"</{name}>", start)
            assert lines[start] == f"<{name}>"
            sections[name] = "\n".join(lines[start + 1 : end])
            at = end + 1 if start == at else end + 2
        elif gone := _GONE.fullmatch(line):
            del sections[gone["name"]]
        elif retracted := _TOOL_GONE.fullmatch(line):
            tools.discard(retracted["name"])
        elif offered := _TOOL.fullmatch(line):
            tools.add(offered["name"])
        else:
            assert line == "An earlier message of the program no longer applies.", line


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(lines):
        found = re.fullmatch(r"<(\w+)>", lines[at])
        if found is None or found[1] == "data" or f"</{found[1]}>" not in lines[at:]:
            at += 1
            continue
        end = lines.index(f"</{found[1]}>", at)
        yield found[1], "\n".join(lines[at + 1 : end])
        at = end + 1
