"""Continuations: answers that the provider keeps, so that a request need only say what is new.

An answer is known by all that was sent before it and all that it said. A prompt that begins so, item by item, goes on
from it; any other prompt, a changed one too, is sent whole.

>>> known = Continuation()
>>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}]
>>> known.remember(said, "resp_1")
>>> known.shortened([*said, {"role": "user", "content": "And now?"}])
('resp_1', [{'role': 'user', 'content': 'And now?'}])
>>> known.shortened(said[:1]) is None
True
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from threading import Lock
from typing import Any, final

import msgspec

__all__ = ["Continuation"]


@final
class Continuation:
    """The answers that can be gone on from, the latest ones at most; runs may share it.

    Args:
        most: How many answers are remembered.
    """

    __slots__ = ("_known", "_lock", "_most")

    def __init__(self, most: int = 1024) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._most = most
        self._lock = Lock()

    def remember(self, items: Iterable[Mapping[str, Any]], response: str) -> None:
        """The answer `response` ends what these items say: the request's and its own."""
        *_, last = _digests(items)
        with self._lock:
            self._known[last] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def shortened(self, items: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]] | None:
        """The latest answer that these items go on from, and the items behind it; None if there is none."""
        digests = list(_digests(items))
        for place in range(len(items) - 1, 0, -1):
            found = self._known.get(digests[place])
            if found is not None:
                return found, items[place:]
        return None

    def forget(self, response: str) -> None:
        """The answer is not known any more, as where the provider has lost it."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if known == response]:
                del self._known[digest]

    def clear(self) -> None:
        """No answer is known any more: what is asked next is sent whole."""
        with self._lock:
            self._known.clear()


def _digests(items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The digests of the first 0, 1, 2 … items, in time by their size."""
    running = sha256()
    yield running.digest()
    for item in items:
        running.update(msgspec.json.encode(item, order="deterministic") + b"\n")  # no JSON text holds a line feed
        yield running.digest()
