"""The rows of the comparison: a work, its rival, and the ratio that fxai must reach."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ALONE", "FLAT", "ROWS", "SCRIPTS", "Row"]

ALONE: Final = "fxai"
"""The rival of rows that compare fxai with itself."""

FLAT: Final = 1.3
"""The largest growth of the cost of a unit from the smallest to the largest size that is still flat."""

SCRIPTS: Final = {
    "fxai": "with_fxai",
    "anthropic": "with_anthropic",
    "dbos": "with_dbos",
    "mirascope": "with_mirascope",
    "openai": "with_openai",
    "pydantic-ai": "with_pydantic_ai",
    "schemas": "with_schemas",
}
"""The module of each contender. The name is also the name of its environment and of its requirements."""


class Row(NamedTuple):
    """One work of fxai beside the same work of a rival."""

    name: str
    work: str
    rival: str
    target: float
    """The largest allowed ratio of the cost of fxai to the cost of the rival."""
    theirs: str = ""
    """The name of the rival's work. Default: the same name."""
    memory: bool = False
    """True to compare the peak memory instead of the time."""

    @property
    def beside(self) -> str:
        """The name of the rival's library."""
        return self.theirs.partition(",")[0] if self.rival == "schemas" else self.rival

    @property
    def their_work(self) -> str:
        """The name of the rival's work."""
        return self.theirs or self.work


ROWS: Final = (
    Row("define a tool of three scalars", "define", "pydantic-ai", 0.8),
    Row("define a tool of a nested list", "define nested", "pydantic-ai", 0.8),
    Row("call, `run_sync`", "call", "anthropic", 0.8),
    Row("call, async handler", "call async", "anthropic", 0.8),
    Row("bad scalar argument, `run_sync`", "bad call", "anthropic", 1.0),
    Row("bad scalar argument, async", "bad call async", "anthropic", 1.0),
    Row("call with 100 items of 20 fields", "call nested", "pydantic-ai", 0.8),
    Row("100 items of 20 fields, echoed", "echo nested", "pydantic-ai", 0.8),
    Row("bad nested argument", "bad nested", "pydantic-ai", 0.8),
    Row("a run without tools", "run, 0 rounds", "mirascope", 4.0),
    Row("a run of one round", "run, 1 round", "mirascope", 0.8),
    Row("a run of 10 rounds", "run, 10 rounds", "mirascope", 0.8),
    Row("a run of 100 rounds", "run, 100 rounds", "mirascope", 0.8),
    Row("1,000 runs of 3 rounds at once", "1,000 runs", "mirascope", 0.5),
    Row("1,000 runs at once, peak memory", "1,000 runs", "mirascope", 1.1, memory=True),
    Row("Anthropic, 3 rounds, default options", "messages, 1", "anthropic", 0.8),
    Row("Anthropic, 100 runs at once", "messages, 100", "anthropic", 0.6),
    Row("Responses, 3 rounds, whole answers", "responses, 1", "openai", 0.6),
    Row("Responses, whole, 100 runs at once", "responses, 100", "openai", 0.6),
    Row("Responses, 3 rounds, raw events", "responses streamed, 1", "openai", 0.6),
    Row("Responses, raw events, 100 runs at once", "responses streamed, 100", "openai", 0.6),
    Row("first chunk of a chat application", "first chunk", "pydantic-ai", 1.0),
    Row("1,000 deltas of a chat application", "1,000 deltas", "pydantic-ai", 0.8),
    Row("a durable run of one step, SQLite", "durable, 1 step", "dbos", 1.0),
    Row("a durable run of 20 steps, SQLite", "durable, 20 steps", "dbos", 0.8),
    Row("one fault of a raw schema", "one fault", "schemas", 1.0, "jsonschema, one fault"),
    Row("six faults of a raw schema", "six faults", "schemas", 1.0, "jsonschema, six faults"),
    Row("100 valid objects of a raw schema", "100 objects", "schemas", 1.0, "jsonschema, 100 objects"),
    Row("six faults of a raw schema", "six faults", "schemas", 3.0, "jsonschema-rs, six faults"),
    Row("a traced run beside an untraced run", "round, traced", ALONE, 3.5, "round, untraced"),
)
