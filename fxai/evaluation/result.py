"""Results of an evaluation: rates with their confidence, costs, and times. Use them to compare two versions.

>>> law = LawResult("answer contains '3'", passed=9, failed=1, not_judged=0)
>>> low, high = law.interval
>>> f"{law.rate:.0%} passed. The true rate is probably between {low:.0%} and {high:.0%}."
'90% passed. The true rate is probably between 60% and 98%.'
>>> picture = to_svg(EvaluationResult("clerk", (CaseResult("greeting", (law,), (0.1,) * 4),)))
>>> "<title>clerk: 90% of the judged laws passed</title>" in picture
True
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from html import escape
from math import comb, sqrt
from statistics import NormalDist, median
from typing import Annotated, Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.messages.part import Usage
from fxai.schema.codec import Schema
from fxai.schema.display import one_line
from fxai.schema.fault import DecodeFailure

CONFIDENCE: Final = 0.95
"""The confidence of an interval: of 100 intervals of independent evaluations, about 95 contain the true rate."""

_WIDTH: Final = 60  # characters of a name or a reason in a table


def wilson(passed: int, judged: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a rate: the range of true rates that agree with the judged runs.

    Args:
        passed: Number of runs that passed.
        judged: Number of judged runs. With 0, the interval is 0 to 1.
        confidence: Confidence of the interval, between 0 and 1. Default: 0.95.

    Raises:
        ValueError: If a number is out of its range.
    """
    if not 0 <= passed <= judged:
        raise ValueError(f"passed must be between 0 and the {judged} judged runs, got {passed}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    if not judged:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, share = passed / judged, z * z / judged
    middle = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * sqrt(rate * (1 - rate) / judged + share / (4 * judged))
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    return low, 1.0 if passed == judged else min(1.0, middle + half)


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A number of runs."""


@final
class LawResult(msgspec.Struct, frozen=True):
    """The numbers of runs of a case that satisfied a law, did not satisfy it, and were not judged."""

    name: str
    """The name of the law."""
    passed: Count
    """The runs that satisfied the law."""
    failed: Count
    """The runs that did not satisfy the law, and the runs that ended with a failure or a defect."""
    not_judged: Count
    """The runs that the law could not judge. They never count as passed."""
    reasons: tuple[str, ...] = ()
    """Different reasons of runs that did not pass, at most five."""

    @property
    def judged(self) -> int:
        """The number of judged runs."""
        return self.passed + self.failed

    @property
    def rate(self) -> float | None:
        """The share of judged runs that passed, or None if no run was judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of the rate, see `wilson`."""
        return wilson(self.passed, self.judged)


@final
class CaseResult(msgspec.Struct, frozen=True):
    """The results of a case over all its runs."""

    name: str
    """The name of the case."""
    laws: tuple[LawResult, ...]
    """The results of its laws, in their order."""
    seconds: Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]
    """The duration of each run by the `Clock`, in the order of the runs."""
    failures: tuple[str, ...] = ()
    """The failures and defects of runs as text, one for each run that failed."""
    usage: Usage = Usage()
    """The token usage of all runs. A number is None if a run does not state it."""
    cost: Decimal | None = None
    """The cost of all runs, or None if a usage or the price is unknown."""

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.seconds)

    @property
    def median_seconds(self) -> float:
        """The median duration of a run."""
        return median(self.seconds)

    @property
    def p95_seconds(self) -> float:
        """The duration that 95 % of the runs do not exceed (nearest rank)."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


@final
class RateError(AssertionError):
    """An error for an evaluation in which a law does not reach its rate."""

    def __init__(self, message: str, result: EvaluationResult) -> None:
        super().__init__(message)
        self.result = result
        """The whole result."""


@final
class EvaluationResult(msgspec.Struct, frozen=True):
    """The results of an evaluation, as a value that you can show, store, and compare."""

    name: str
    """The name of the evaluation."""
    cases: tuple[CaseResult, ...]
    """The results of its cases, in their order."""
    currency: str = ""
    """The currency of the costs. Empty if there was no price table."""

    # -- reading

    @property
    def rate(self) -> float | None:
        """The share of judged laws that passed, over all cases and runs, or None if nothing was judged."""
        laws = [law for case in self.cases for law in case.laws]
        judged = sum(law.judged for law in laws)
        return sum(law.passed for law in laws) / judged if judged else None

    def below(self, rate: float) -> tuple[str, ...]:
        """Return the laws that do not reach a rate, as text. A law without a judged run reaches no rate above 0."""
        return tuple(
            [
                f"{case.name}: {law.name}: {_rate(law)}{''.join(f' · {one}' for one in law.reasons[:1])}"
                for case in self.cases
                for law in case.laws
                if (law.rate or 0.0) < rate
            ]
        )

    def require(self, rate: float) -> EvaluationResult:
        """Return the result itself if each law reaches a rate. Use it in a test.

        Raises:
            RateError: If a law does not reach the rate. The message shows the laws and the table.
        """
        __tracebackhide__ = True  # the message of an error contains all that a reader needs
        below = self.below(rate)
        if below:
            lines = [f"evaluation {self.name!r}: {len(below)} laws do not reach {rate:.0%}", *below, "", str(self)]
            raise RateError("\n".join(lines), self)
        return self

    # -- forms

    @override
    def __str__(self) -> str:
        """Return a table for a terminal: a row for each law, with its rate, interval, time, and cost."""
        rows = [("case", "law", "passed", "rate", "95 % interval", "median", "p95", "cost"), *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        notes = [f"{case.name}: {one}" for case in self.cases for one in dict.fromkeys(case.failures)]
        return "\n".join([*lines, *[one_line(note) for note in notes]])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        head = ("Case", "Law", "Passed", "Rate", "95 % interval", "Median", "p95", "Cost")
        lines = [" | ".join(head), " | ".join(["---"] * len(head))]
        for row in self._rows():
            cells = [cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in row]
            lines.append(" | ".join(cells))
        return "".join(f"| {line} |\n" for line in lines)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for case in self.cases:
            for at, law in enumerate(case.laws):
                low, high = law.interval
                times = f"{case.median_seconds:.2f} s", f"{case.p95_seconds:.2f} s"
                cost = "unknown" if case.cost is None else f"{case.cost:.4f} {self.currency}"
                about = (*times, cost if self.currency else "") if not at else ("", "", "")
                name = one_line(case.name)[:_WIDTH] if not at else ""
                passed = f"{law.passed} of {law.judged}" + (f" ({law.not_judged} not judged)" if law.not_judged else "")
                yield (name, one_line(law.name)[:_WIDTH], passed, _rate(law), f"{low:.0%} to {high:.0%}", *about)

    def to_data(self) -> dict[str, Any]:
        """Return the results as JSON values."""
        return {"version": 1, **msgspec.to_builtins(self)}

    def to_json(self) -> str:
        """Return the results as indented JSON text."""
        return msgspec.json.format(msgspec.json.encode(self.to_data()), indent=2).decode() + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> Result[EvaluationResult, DecodeFailure]:
        """Return the results from JSON text.

        Fails with:
            DecodeFailure: If the text is not JSON, a field is missing or has a wrong type, or the version is unknown.
        """
        read = _FILE.decode_json(text)
        if isinstance(read, Failure):
            return Failure(read.failure())
        form = read.unwrap()
        return Success(EvaluationResult(form.name, tuple(form.cases), form.currency))


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    name: str
    cases: list[CaseResult]
    currency: str = ""


_FILE: Final = Schema[_Form].of(_Form)


def _rate(law: LawResult) -> str:
    return "not judged" if law.rate is None else f"{law.rate:.0%}"


# -- comparison


@final
class RateChange(msgspec.Struct, frozen=True):
    """A law whose rates in two evaluations differ by more than chance explains."""

    case: str
    """The name of the case."""
    law: str
    """The name of the law."""
    before: LawResult
    """The result of the first evaluation."""
    after: LawResult
    """The result of the second evaluation."""
    p_value: float
    """The probability of a difference at least this large if both versions had the same rate (Fisher's exact test)."""

    @override
    def __str__(self) -> str:
        way = "worse" if (self.after.rate or 0.0) < (self.before.rate or 0.0) else "better"
        rates = f"{_rate(self.before)} before, {_rate(self.after)} now"
        return f"{way}: {self.case}: {self.law}: {rates} (p = {self.p_value:.3f})"


def compare_rates(
    before: EvaluationResult, after: EvaluationResult, *, significance: float = 0.05
) -> tuple[RateChange, ...]:
    """Return the laws whose rates differ by more than chance explains. With few runs, only large differences do.

    The limit is `significance` divided by the number of compared laws (Bonferroni), so that many laws do not produce a
    false difference. Laws that only one result contains are not compared.
    """
    then = {(case.name, law.name): law for case in before.cases for law in case.laws}
    pairs = [
        (case.name, law, then[case.name, law.name])
        for case in after.cases
        for law in case.laws
        if (case.name, law.name) in then
    ]
    changes = [RateChange(case, law.name, old, law, _fisher(old, law)) for case, law, old in pairs]
    return tuple([one for one in changes if one.p_value <= significance / len(pairs)])


def _fisher(before: LawResult, after: LawResult) -> float:
    """Return the p-value of Fisher's exact test, with two sides."""
    whole, passed = before.judged + after.judged, before.passed + after.passed
    ways = comb(whole, passed)

    def chance(of_before: int) -> int:
        return comb(before.judged, of_before) * comb(after.judged, passed - of_before)

    possible = range(max(0, passed - after.judged), min(before.judged, passed) + 1)
    seen = chance(before.passed)
    return sum(one for one in map(chance, possible) if one <= seen) / ways


# -- the picture as SVG, with the colours of a light or a dark page

_PICTURE: Final = 760
_LEFT: Final = 330
_BAR: Final = 320
_ROW: Final = 26
_STYLE: Final = """text{font:13px system-ui,sans-serif;fill:#1f2328}.soft{fill:#59636e}.rail{fill:#8c959f33}
.good{fill:#1a7f37}.some{fill:#bf8700}.bad{fill:#cf222e}.range{stroke:#1f2328;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.good{fill:#3fb950}.some{fill:#d29922}
.bad{fill:#f85149}.range{stroke:#e6edf3}}"""


def to_svg(result: EvaluationResult) -> str:
    """Return the picture of a result as SVG text, with a title and a description for screen readers."""
    rows: list[str | LawResult] = []
    for case in result.cases:
        rows += [case.name, *case.laws]
    height = 50 + _ROW * len(rows) + 34
    rate = "nothing was judged" if result.rate is None else f"{result.rate:.0%} of the judged laws passed"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PICTURE} {height}" role="img">',
        f"<title>{_text(result.name, 200)}: {rate}</title>",
        f"<style>{_STYLE}</style>",
        f'<text x="12" y="28" font-weight="600">{_text(result.name, 60)}</text>',
        f'<text x="{_PICTURE - 12}" y="28" text-anchor="end" class="soft">{rate}</text>',
    ]
    for at, row in enumerate(rows):
        y = 50 + _ROW * at
        if isinstance(row, LawResult):
            parts += _bar(row, y)
        else:
            parts.append(f'<text x="12" y="{y + 16}" font-weight="600">{_text(row, 80)}</text>')
    base = 50 + _ROW * len(rows) + 18
    for share in (0, 50, 100):
        x = _LEFT + _BAR * share / 100
        parts.append(f'<text x="{x:.0f}" y="{base}" text-anchor="middle" class="soft">{share} %</text>')
    return "\n".join([*parts, "</svg>\n"])


def _bar(law: LawResult, y: int) -> Iterator[str]:
    low, high = law.interval
    middle = y + 11
    yield f'<text x="24" y="{y + 16}">{_text(law.name, 44)}</text>'
    yield f'<rect x="{_LEFT}" y="{y + 4}" width="{_BAR}" height="14" rx="3" class="rail"/>'
    if law.rate is not None:
        kind = "good" if law.rate >= 0.9 else "some" if law.rate >= 0.5 else "bad"
        yield f'<rect x="{_LEFT}" y="{y + 4}" width="{_BAR * law.rate:.1f}" height="14" rx="3" class="{kind}"/>'
    start, end = _LEFT + _BAR * low, _LEFT + _BAR * high
    yield f'<path class="range" d="M{start:.1f} {middle}H{end:.1f}M{start:.1f} {y + 6}v10M{end:.1f} {y + 6}v10"/>'
    left_out = f", {law.not_judged} not judged" if law.not_judged else ""
    yield f'<text x="{_LEFT + _BAR + 12}" y="{y + 16}" class="soft">{law.passed} of {law.judged}{left_out}</text>'


def _text(text: str, most: int) -> str:
    """Return text of at most `most` characters on one line, escaped for XML."""
    line = one_line(text)
    return escape(line if len(line) <= most else line[: most - 1] + "…")
