"""How costs grow with a size, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from math import log10
from typing import Final

import msgspec

from tests.benchmarks.rivals.table import FLAT

__all__ = ["GROWTH", "Growth", "draw"]

GROWTH: Final[Mapping[str, tuple[int, ...]]] = {
    "a round of a run": (1, 10, 100, 1000),
    "a round over Anthropic": (10, 100, 500),
    "a round over Responses": (10, 100, 500),
    "a round over Chat": (10, 100, 500),
    "a handler joined by |": (10, 100, 1000, 2000),
    "a request under a limit": (100, 500, 2000),
    "a delta of a stream": (200, 2000, 8000),
}
"""Works whose unit must cost the same at each size, with their sizes."""

_WIDTH: Final = 640
_HEIGHT: Final = 300
_COLOURS: Final = ("#2f6fd6", "#c4501b", "#2a8a4a", "#8a4ac2", "#b8860b", "#128a94", "#b03070")


class Growth(msgspec.Struct, frozen=True):
    """The cost of one unit of a work at each size, in seconds."""

    name: str
    costs: dict[int, float]

    @property
    def factor(self) -> float:
        """The cost of a unit at the largest size by its cost at the smallest size above 1."""
        sizes = [size for size in sorted(self.costs) if size > 1]
        return self.costs[sizes[-1]] / self.costs[sizes[0]]

    def line(self) -> str:
        """Return the row of a terminal."""
        units = ", ".join(f"{size:,}: {cost * 1e6:.3g} µs" for size, cost in sorted(self.costs.items()))
        met = "flat" if self.factor <= FLAT else "not flat"
        return f"{self.name:44}{self.factor:.2f} × ({met})   {units}"


def draw(growths: Iterable[Growth]) -> str:
    """Return an SVG picture: the cost of a unit by the size, both on logarithmic axes. Flat costs are level lines."""
    each = list(growths)
    sizes = [log10(size) for one in each for size in one.costs]
    costs = [log10(cost * 1e6) for one in each for cost in one.costs.values()]
    left, right, low, high = min(sizes), max(sizes), min(costs) - 0.2, max(costs) + 0.2

    def point(size: int, cost: float) -> tuple[float, float]:
        x = 60 + (log10(size) - left) / (right - left) * (_WIDTH - 280)
        return x, _HEIGHT - 40 - (log10(cost * 1e6) - low) / (high - low) * (_HEIGHT - 70)

    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12" fill="#777"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        '<text x="60" y="18">µs for one unit, by the number of units</text>',
    ]
    for exponent in range(int(left), int(right) + 1):
        x, _ = point(10**exponent, 10**low * 1e-6)
        lines.append(f'<text x="{x:.0f}" y="{_HEIGHT - 16}" text-anchor="middle">{10**exponent:,}</text>')
    for exponent in range(int(low) + 1, int(high) + 1):
        _, y = point(10, 10.0**exponent * 1e-6)
        lines.append(f'<path d="M60 {y:.0f}H{_WIDTH - 220}" stroke="#7774"/>')
        lines.append(f'<text x="52" y="{y + 4:.0f}" text-anchor="end">{10**exponent:g}</text>')
    ends: list[tuple[float, float, str, str]] = []
    for colour, one in zip(_COLOURS, each, strict=False):
        points = [point(size, cost) for size, cost in sorted(one.costs.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((points[-1][1], points[-1][0], colour, one.name))
    below = 0.0
    for y, x, colour, name in sorted(ends):
        below = max(y + 4, below + 13)  # names of lines that end close together must not overlap
        lines.append(f'<text x="{x + 8:.0f}" y="{below:.0f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>\n"])
