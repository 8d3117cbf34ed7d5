"""How the tools of real servers fare in strict mode: `python -m tests.integration.strict_table [tool-list.json …]`.

A tool list is what an MCP server answers to `tools/list`: an object whose `tools` have a name and an `inputSchema`.
Without arguments, those beside this file are taken.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from returns.result import Success

from fxai.schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictRules, rule_faults, strict_form
from tests.kit.data import is_object

__all__ = ["table"]

_HERE = Path(__file__).parent / "mcp_schemas"


def table(paths: Sequence[Path]) -> Iterator[str]:
    """The lines of the table: a line for each server and provider, below it what stands against a strict form."""
    yield f"{'server':24}{'provider':12}{'tools':>6}{'as given':>10}{'transformed':>13}{'not possible':>14}  weakened"
    for path in paths:
        listed: Any = json.loads(path.read_text(encoding="utf-8"))
        tools = listed["tools"] if is_object(listed) else listed
        for rules in (OPENAI, ANTHROPIC):
            yield from _server(path.stem, tools, rules)


def _server(server: str, tools: Sequence[dict[str, Any]], rules: StrictRules) -> Iterator[str]:
    given = transformed = 0
    weakened: Counter[str] = Counter()
    against: list[str] = []
    for tool in tools:
        document = JsonSchema.of(tool["inputSchema"])
        given += not rule_faults(document, rules)
        form = strict_form(document, rules)
        if isinstance(form, Success):
            transformed += 1
            weakened.update(one.keyword for one in form.unwrap().weakened)
        else:
            against += [f"    {tool['name']}: {one}" for one in form.failure()]
    lost = ", ".join(f"{keyword} {count}" for keyword, count in weakened.most_common())
    refused = len(tools) - transformed
    yield f"{server:24}{rules.name:12}{len(tools):6}{given:10}{transformed:13}{refused:14}  {lost}".rstrip()
    yield from against


if __name__ == "__main__":
    chosen = [Path(name) for name in sys.argv[1:]] or sorted(_HERE.glob("*.json"))
    sys.stdout.writelines(f"{line}\n" for line in table(chosen))
