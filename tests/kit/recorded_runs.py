"""Recorded runs for tests: generated records, and a program with deterministic tools that a script drives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from returns.result import Failure, Success

from fxai.agents import Agent, RecordedStep, RunRecord
from fxai.effects import EffectOf, LayerOf
from fxai.messages import Finish, Part, Prompt, Text, ToolCall, ToolResult, Usage
from fxai.tools import Tool, Toolkit

__all__ = ["JSON", "RECORDS", "asked", "clerk", "handlers", "order", "price", "record_of", "rename_ids"]

LEAVES: Final = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.0]) | st.text(max_size=3)
JSON: Final[st.SearchStrategy[Any]] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~é", max_size=2), inner, max_size=3),
    max_leaves=6,
)
_CALLS: Final = st.tuples(st.sampled_from(["price", "order", "a/b"]), JSON, st.none() | st.tuples(st.booleans(), JSON))


def record_of(steps: Sequence[Sequence[tuple[str, Any, Any]]], answer: str = "Done.", **fields: Any) -> RunRecord:
    """A record: for each step its calls, each with the tool, the parameters, and (is it a failure, result) or None."""
    turns: list[RecordedStep] = []
    for number, calls in enumerate(steps):
        parts: list[Part] = [ToolCall(f"c{number}-{at}", name, params) for at, (name, params, _) in enumerate(calls)]
        for at, (name, _, result) in enumerate(calls):
            if result is not None:
                parts.append(ToolResult(f"c{number}-{at}", name, result[1], is_failure=result[0]))
        turns.append(RecordedStep((*parts, Finish("tool-calls", Usage(10, number)))))
    return RunRecord((*turns, RecordedStep((Text(answer), Finish("stop", Usage(10, 1))))), **fields)


RECORDS: Final[st.SearchStrategy[RunRecord]] = st.builds(
    record_of,
    st.lists(st.lists(_CALLS, max_size=3), max_size=5),
    st.text(max_size=5) | JSON.map(lambda value: msgspec.json.encode(value).decode()),
    ended=st.sampled_from(["done", "pending", "failed", "unknown"]),
    failure=st.sampled_from(["", "it broke"]),
    prompt=st.just(Prompt.make("Buy tea.")),
)
"""Records with repeated calls, results, failures, and open calls."""


def rename_ids(record: RunRecord, rename: Callable[[str], str]) -> RunRecord:
    """The record with other ids of calls."""

    def renamed(part: Part) -> Part:
        if part.type == "tool-call" or part.type == "tool-result":  # the checkers narrow by `==`
            return msgspec.structs.replace(part, id=rename(part.id))
        return part

    steps = [msgspec.structs.replace(step, content=tuple(map(renamed, step.content))) for step in record.steps]
    return msgspec.structs.replace(record, steps=tuple(steps))


price = Tool.make("price", parameters=str, success=int, failure=str, failure_mode="return")
order = Tool.make("order", parameters=dict[str, int], success=dict[str, int])
clerk = Agent.make("clerk", toolkit=Toolkit.make(price, order), instructions="Sell.")


def handlers(cents: int = 250) -> LayerOf[Any]:
    """Handlers that return the same results in every run. An empty name is a failure."""
    of_price = price.handler(lambda item: Success(cents + len(item)) if item else Failure("no item"))
    return of_price | order.handler(lambda items: Success({name: 2 * count for name, count in items.items()}))


def asked(model: LayerOf[Any, Any, Any], cents: int = 250, *, streams: bool = False) -> EffectOf[Any]:
    """The run of the clerk with a model, as an answer or as the parts of a stream."""
    running: EffectOf[Any, Any, Any] = clerk.stream("Buy tea.").collect() if streams else clerk.execute("Buy tea.")
    return running.provide(handlers(cents)).provide(model)
