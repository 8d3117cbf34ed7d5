"""A process that asks a model under limits, as it is told line by line: each request uses the most that it may.

A line is a `Plan` as JSON; the answer is a line with a `Report`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fxai.effects import Effect, EffectOf, Layer, Stream, fx
from fxai.messages import AiError, Finish, NetworkError, Part, RateLimitError, StreamPart, Usage
from fxai.models import Allowances, LanguageModel, Limit, ModelRequest, Price, limit
from fxai.tools import ToolError

__all__ = ["PRICE", "Fate", "Plan", "Report", "Request", "allowances_of", "workers"]

ROOT = Path(__file__).parents[2]
PRICE = Price.per_million("3", "11", cached_input="0.5", cache_write="4")

Fate: TypeAlias = Literal["whole", "stream", "cut", "lost", "refused", "cancelled"]


class Request(msgspec.Struct, frozen=True):
    """A request, and how it ends."""

    text: str
    most: int
    fate: Fate


class Plan(msgspec.Struct, frozen=True):
    """What one process asks, all at once."""

    where: str
    name: str
    tokens: int
    money: str
    requests: tuple[Request, ...]


class Report(msgspec.Struct):
    """What it used, by the model's own account."""

    tokens: int = 0
    money: int = 0
    asked: int = 0


def allowances_of(where: str) -> Allowances:
    """The allowances of a database, by its URL or its path."""
    return Allowances.postgres(where) if where.startswith("postgresql:") else Allowances.sqlite(where)


def most_of(request: ModelRequest) -> int:
    """The most tokens of an input."""
    return len(request.prompt.to_json().encode())


class Greedy(LanguageModel):
    """Reads as many tokens as its input may be, all of the dearest kind, and answers with as many as it may."""

    def __init__(self, fate: Fate, report: Report) -> None:
        self._fate = fate
        self._report = report

    def _use(self, request: ModelRequest) -> Finish:
        given, answer = most_of(request), request.max_tokens or 0
        if self._fate != "refused":
            cost = (given * PRICE.highest(given)[0] + answer * PRICE.output) * 1000  # in billionths, which are whole
            self._report.tokens += given + answer
            self._report.money += int(cost)
            self._report.asked += 1
        return Finish("stop", Usage(given, answer, cache_write_input_tokens=given))

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Ends as it is told."""
        end = self._use(request)
        pause: Effect[None] = fx.sleep(0.002 if self._fate != "cancelled" else 60)
        if self._fate == "refused":
            return pause.and_then(fx.fail(AiError("greedy", "ask", RateLimitError())))
        if self._fate == "lost":
            return pause.and_then(fx.fail(AiError("greedy", "ask", NetworkError("TransportError", "lost"))))
        return pause.as_((end,))

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Whole, or broken off before its end."""
        end = self._use(request)
        if self._fate == "cut":
            return Stream.fail(AiError("greedy", "ask", NetworkError("TransportError", "cut")))
        return Stream.from_iterable([end])


def _asked(one: Request) -> EffectOf[object, AiError | ToolError, LanguageModel | None]:
    if one.fate in ("stream", "cut"):
        return LanguageModel.stream_text(one.text, max_tokens=one.most).collect()
    return LanguageModel.generate_text(one.text, max_tokens=one.most)


def _run(plan: Plan, allowances: Allowances) -> Report:
    report = Report()
    limits = Limit.of(plan.name, tokens=plan.tokens, money=plan.money), Limit.of(plan.name, requests=9, seconds=3600)

    def ask(one: Request) -> Effect[object]:
        layer: Layer[LanguageModel] = Layer.succeed(LanguageModel, Greedy(one.fate, report))
        model = limit(layer, *limits, allowances=allowances, unpriced=PRICE, patience=0, estimate=most_of)
        return _asked(one).provide(model).timeout(0.05 if one.fate == "cancelled" else 60).result()

    fx.run(fx.for_each(plan.requests, ask, concurrency=None))
    return report


def main() -> None:
    """Works until there are no more lines."""
    known: dict[str, Allowances] = {}
    for line in sys.stdin:
        plan = msgspec.json.decode(line, type=Plan)
        report = _run(plan, known.setdefault(plan.where, allowances_of(plan.where)))
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        sys.stdout.flush()


class Workers:
    """Processes that work at once."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def start(self, plans: Sequence[Plan]) -> None:
        """Gives each process a plan."""
        for process, plan in zip(self._processes, plans, strict=True):
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(plan).decode() + "\n")
            process.stdin.flush()

    def reports(self) -> Iterator[Report]:
        """What came of the plans, once all are done."""
        for process in self._processes:
            assert process.stdout is not None
            yield msgspec.json.decode(process.stdout.readline(), type=Report)


@contextmanager
def workers(count: int) -> Generator[Workers]:
    """Processes for the block."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.kit.limit_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        yield Workers(started)
    finally:
        for one in started:
            one.communicate(timeout=30)


if __name__ == "__main__":
    main()
