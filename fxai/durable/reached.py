"""Compare a program with the journal of its run. A program that resumes a run must reach the parts of earlier programs.

fxai identifies a part of a run by its place, which is its path. The journal contains the parts that earlier programs
reached. The program differs from them if it starts new work in a sequence before it has reached all recorded parts of
the sequence, or if it ends without them.

>>> from fxai.durable.record import Begun
>>> known = Known("order-17")
>>> known.add(Begun("/step charge", "charge"), 1)
>>> reached = Reached(known)
>>> reached.left()
('/step charge',)
>>> reached.meet("/step charge")
>>> reached.left()
()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from fxai.durable.record import Known, Part

_UNORDERED: Final = ("inside ", "sleep")  # calls of a composite run concurrently; sleeps have no effect


@final
class Reached:
    """The recorded parts that this program has reached.

    Args:
        known: The records of earlier programs.
        tolerant: True if the program may differ from the program of the journal. Default: False.
    """

    def __init__(self, known: Known, *, tolerant: bool = False) -> None:
        self.tolerant: bool = tolerant
        self._recorded: dict[str, None] = {}
        self._waiting: dict[str, set[str]] = {}
        self._met: set[str] = set()
        self._over: set[str] = set()
        for path, part in [*known.parts.items()]:
            if _is_done(part):
                self._recorded[path] = None
                self._await(path)
        for path in known.contents:
            self._await(path)

    def _await(self, path: str) -> None:
        for parent, name in _steps_to(path):
            self._waiting.setdefault(parent, set()).add(name)

    def meet(self, path: str) -> None:
        """Record that the program has reached a part."""
        parent, _, name = path.rpartition("/")
        self._waiting.get(parent, set[str]()).discard(name)
        self._met.add(path)

    def end(self, path: str) -> None:
        """Record that the program need not reach the parts inside a part, because it has a value or was interrupted."""
        self._over.add(path)

    def left_in(self, sequence: str) -> tuple[str, ...]:
        """Return the paths of recorded parts of a sequence that the program has not reached."""
        names = self._waiting.get(sequence, ())
        return tuple([f"{sequence}/{name}" for name in sorted(names) if not name.startswith(_UNORDERED)])

    def left(self) -> tuple[str, ...]:
        """Return the paths of all recorded parts that the program has not reached."""
        if self.tolerant:
            return ()
        return tuple([path for path in self._recorded if path not in self._met and not self._is_over(path)])

    def _is_over(self, path: str) -> bool:
        return any(parent in self._over for parent, _ in _steps_to(path))


def _is_done(part: Part) -> bool:
    """Return True if programs must reach a part: an earlier program did work for it, and no question is open."""
    return any(record is not None and not record.aside for record in (part.begun, part.ended, part.turn))


def _steps_to(path: str) -> Iterator[tuple[str, str]]:
    """Yield each sequence on the way to a path, with the name of its next part."""
    parent = ""
    for name in path.split("/")[1:]:
        yield parent, name
        parent = f"{parent}/{name}"
