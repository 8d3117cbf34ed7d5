"""What the default local model gets right, and how long it takes: `python tests/benchmarks/local_figures.py`.

For each set of prompts, with the tools' request examples and without: the tools chosen right, the parameters right of
the calls that should be made, the answers that hold what they must, and the seconds. Prints one table. The first
set is the one that the acceptance bar is about (8 of 10 tools, 6 of 8 parameters, 2 of 2 answers, with examples).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from fxai.effects import Gen, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    Prompt,
    Response,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers.local import layer
from fxai.tools import Example, Tool

PROMPTS = Path(__file__).with_name("local_prompts.json")


def tools_of(data: dict[str, Any], *, examples: bool) -> tuple[Tool[Any, Any, Any], ...]:
    """The tools of one set, with their request examples or without."""
    return tuple(
        Tool.dynamic(
            name,
            description=told["description"],
            parameters=told["parameters"],
            input_examples=[Example(e["request"], e["parameters"]) for e in told["input_examples"]] if examples else (),
        )
        for name, told in data["tools"].items()
    )


def answer_prompt(case: dict[str, Any]) -> Prompt:
    """A conversation in which the call was made and its result came back."""
    return Prompt(
        (
            UserMessage.make(case["request"]),
            AssistantMessage.make(ToolCallPart("1", case["tool"], {})),
            ToolMessage.make(ToolResultPart("1", case["tool"], case["result"])),
        )
    )


@fx.gen
def measure(data: dict[str, Any], *, examples: bool) -> Gen[dict[str, Any], AiError, LanguageModel]:
    """The figures of one set, as a table row, and what went wrong."""
    model = yield from LanguageModel
    tools = tools_of(data, examples=examples)
    names = params = calls = answers = 0
    wrong: list[str] = []
    started = time.perf_counter()
    for said, name, expected in data["prompts"]:
        parts = yield from model.ask(ModelRequest(Prompt.make(said), tools))
        made = Response(parts).tool_calls
        got = made[0].name if made else None
        names += got == name
        calls += name is not None
        params += name is not None and got == name and made[0].params == expected
        if got != name or (made and made[0].params != expected):
            wrong.append(f"{said!r} -> {got} {json.dumps(made[0].params) if made else ''}")
    asked = time.perf_counter()
    for case in data.get("answers", ()):
        parts = yield from model.ask(ModelRequest(answer_prompt(case), tools))
        right = case["must_contain"] in Response(parts).text
        answers += right
        if not right:
            wrong.append(f"{case['request']!r} -> {Response(parts).text!r}")
    return {
        "tools": f"{names}/{len(data['prompts'])}",
        "params": f"{params}/{calls}",
        "answers": f"{answers}/{len(data.get('answers', ()))}",
        "s a turn": f"{(asked - started) / len(data['prompts']):.1f}",
        "s an answer": f"{(time.perf_counter() - asked) / max(1, len(data.get('answers', ()))):.1f}",
        "wrong": wrong,
    }


@fx.gen
def report(sets: dict[str, Any]) -> Gen[None, AiError, LanguageModel]:
    """The table of all sets, printed as it is measured."""
    for title, data in sets.items():
        for examples in (True, False):
            row = yield from measure(data, examples=examples)
            wrong = row.pop("wrong")
            told = "with examples   " if examples else "without examples"
            print(f"{title:<10} {told} ", "  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            for line in wrong:
                print("    ", line)


if __name__ == "__main__":
    chosen = json.loads(PROMPTS.read_text())
    only = sys.argv[1:] or list(chosen)
    fx.run(report({title: chosen[title] for title in only}).provide(layer()))
