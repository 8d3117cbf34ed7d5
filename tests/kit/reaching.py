"""What laws of hostile data share: documents that are nearly right, and counts of what a law has reached."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import event, seed
from hypothesis import strategies as st

from tests.kit.data import is_array, is_object

__all__ = ["Reached", "bent", "replaced"]

_Location = tuple[Any, Any]
_ROUNDS = 5


class Reached:
    """How often a law came to each of its cases: a law that never reaches one says nothing of it."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def __call__(self, case: str, when: bool = True) -> None:
        """Counts a case, where `when` says that this is one; Hypothesis shows the counts too."""
        if when:
            event(case)
            self._counts[case] += 1

    def by(self, law: Callable[[], None], **least: int) -> None:
        """Tries the law until it came to each of these cases at least so often; fails where it did not.

        What is drawn by chance misses a case now and then. So where one was rare, the law is tried on some more, which
        are drawn alike every time.
        """
        law()
        for number in range(_ROUNDS):
            if not self._rare(least):
                return
            seed(number)(law)()
        assert not self._rare(least), f"reached too rarely: {self._rare(least)}, of {dict(self._counts)}; {least}"

    def _rare(self, least: Mapping[str, int]) -> dict[str, int]:
        return {case: self._counts[case] for case, number in least.items() if self._counts[case] < number}


@st.composite
def bent(draw: st.DrawFn, documents: st.SearchStrategy[Any], others: st.SearchStrategy[Any], most: int = 2) -> Any:
    """A document, changed at up to `most` places: there stands something else, nothing, or the same thing twice."""
    made: Any = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(0, most))):
        locations = list(_locations(made))
        if not locations:
            return draw(others)
        holder, key = locations[draw(st.integers(0, len(locations) - 1))]
        change = draw(st.sampled_from(["other", "other", "gone", "twice"]))
        if change == "gone":
            del holder[key]
        elif change == "twice" and isinstance(key, int):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = draw(others)
    return made


def replaced(document: Any, other: Any) -> Iterator[Any]:
    """The document once for each member of each object and list in it: there stands something else."""
    for number in range(len(list(_locations(document)))):
        made = copy.deepcopy(document)
        holder, key = list(_locations(made))[number]
        holder[key] = other
        yield made


def _locations(data: Any) -> Iterator[_Location]:
    """Each member of each object and list, with what holds it."""
    members: list[tuple[Any, Any]] = []
    if is_object(data):
        members = list(data.items())
    elif is_array(data):
        members = list(enumerate(data))
    for key, member in members:
        yield data, key
        yield from _locations(member)
