"""What laws of hostile data share: documents that are nearly right, and counts of what a law has reached."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import event
from hypothesis import strategies as st

from fxai.schema.data import is_array, is_object

__all__ = ["Reached", "bent"]

_Place = tuple[Any, Any]


class Reached:
    """How often a law came to each of its cases: a law that never reaches one says nothing of it."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def __call__(self, case: str) -> None:
        """Counts a case; Hypothesis shows the counts too."""
        event(case)
        self._counts[case] += 1

    def hold(self, **least: int) -> None:
        """Fails where a case was reached less often."""
        rare = {case: self._counts[case] for case, number in least.items() if self._counts[case] < number}
        assert not rare, f"reached too rarely: {rare}, of {dict(self._counts)}; at least {least}"


@st.composite
def bent(draw: st.DrawFn, documents: st.SearchStrategy[Any], others: st.SearchStrategy[Any], most: int = 2) -> Any:
    """A document, changed at up to `most` places: there stands something else, nothing, or the same thing twice."""
    made: Any = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(0, most))):
        places = list(_places(made))
        if not places:
            return draw(others)
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        change = draw(st.sampled_from(["other", "other", "gone", "twice"]))
        if change == "gone":
            del holder[key]
        elif change == "twice" and isinstance(key, int):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = draw(others)
    return made


def _places(data: Any) -> Iterator[_Place]:
    """Each member of each object and list, with what holds it."""
    members: list[tuple[Any, Any]] = []
    if is_object(data):
        members = list(data.items())
    elif is_array(data):
        members = list(enumerate(data))
    for key, member in members:
        yield data, key
        yield from _places(member)
