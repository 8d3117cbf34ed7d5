"""How many characters the strings have that match a pattern.

>>> width("^[A-Z]{2,3}-x?$"), width("ab"), width("^(?=a)b$")
((3, 5), (2, None), (0, None))
"""

from __future__ import annotations

from fxai.providers.local.expression import Characters, Choice, Node, PatternError, Repeat, parse

__all__ = ["width"]


def width(pattern: str) -> tuple[int, int | None]:
    """The fewest and the most; None for no end. Of a pattern that is beyond this, 0 and None: nothing is known."""
    try:
        least, most = _width(parse(pattern))
    except (PatternError, RecursionError):
        return 0, None
    return least, most if _anchored(pattern) else None


def _anchored(pattern: str) -> bool:
    return pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$") and "|" not in pattern


def _width(node: Node) -> tuple[int, int | None]:
    if isinstance(node, Characters):
        return 1, 1
    if isinstance(node, Repeat):
        least, most = _width(node.node)
        return least * node.least, None if most is None or node.most is None else most * node.most
    widths = [_width(part) for part in (node.branches if isinstance(node, Choice) else node.parts)]
    ends = [most for _, most in widths]
    if isinstance(node, Choice):
        return min(least for least, _ in widths), None if None in ends else max(end or 0 for end in ends)
    return sum(least for least, _ in widths), None if None in ends else sum(end or 0 for end in ends)
