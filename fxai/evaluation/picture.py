"""The picture of an evaluation as SVG: a bar for each law with its rate and interval. Use it in a report.

The picture has the colours of a light or a dark page.

>>> from fxai.evaluation.result import CaseResult
>>> law = LawResult("answers", passed=3, failed=1, not_judged=0)
>>> picture = to_svg(EvaluationResult("clerk", (CaseResult("greeting", (law,), (0.1,) * 4),)))
>>> "<title>clerk: 75% of the judged laws passed</title>" in picture
True
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from fxai.evaluation.result import EvaluationResult, LawResult
from fxai.schema.display import one_line

_WIDTH: Final = 760
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
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{_text(result.name, 200)}: {rate}</title>",
        f"<style>{_STYLE}</style>",
        f'<text x="12" y="28" font-weight="600">{_text(result.name, 60)}</text>',
        f'<text x="{_WIDTH - 12}" y="28" text-anchor="end" class="soft">{rate}</text>',
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
