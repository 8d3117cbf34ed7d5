"""Where a text begins to repeat itself: what is new of it goes on, and the rest is held back.

A small model that has said everything says it again until its tokens run out.

>>> heard = Unrepeated()
>>> [heard.take(piece) for piece in ("It is 6", ".", " It is", " 6. It", " is 6.")]
['It is 6', '.', '', '', '']
>>> heard.ended
True
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, final

__all__ = ["Unrepeated"]

_SENTENCE: Final = re.compile(r".*?[.!?][\"')\]]*(?=\s)", re.DOTALL)
_LOOP: Final = re.compile(r"(.{1,40}?)\1{3,}\Z", re.DOTALL)
_SHORTEST_LOOP: Final = 6
_FEWEST_WORDS: Final = 3
_LONGEST_LOOP: Final = 24
_LONGEST_COUNT: Final = 24
_WINDOW: Final = 200


@final
class Unrepeated:
    """A text that is taken piece by piece, and ends before a sentence that it has said, or in a loop.

    A sentence is one of at least three words; upper case and blanks do not tell two apart. A loop is a few characters,
    a letter or digit among them, four times and more on 24 characters and more ("1000000…", "ha ha ha …"), or 24
    numbers that count. What may be either is held back until it is known to be another: a sentence that begins like one
    before, and a few characters from their fourth time; numbers that count are not.
    """

    def __init__(self) -> None:
        self.ended = False
        self._said: list[str] = []
        self._sentence = ""
        self._waits = 0
        self._tail = ""

    def take(self, piece: str) -> str:
        """What of the text may be said now; nothing more once it has ended."""
        if self.ended:
            return ""

        self._sentence += piece
        self._waits += len(piece)
        self._tail = (self._tail + piece)[-_WINDOW:]
        free = self._whole()
        looped = _looped(self._tail)
        self.ended = self.ended or looped >= _LONGEST_LOOP or _counts(self._tail)
        if not self.ended and looped < _SHORTEST_LOOP and not self._begins_like_one_said():
            free += self._waiting()
        return free

    def rest(self) -> str:
        """What was held back when the text ended by itself, unless it had been said."""
        return "" if self.ended or self._is_said(self._sentence) else self._waiting()

    def _whole(self) -> str:
        """The sentences that ended, as far as they are new."""
        free = ""
        while found := _SENTENCE.match(self._sentence):
            whole, after = found[0], self._sentence[found.end() :]
            if self._is_said(whole):
                self.ended = True
                return free
            self._said.append(_plain(whole))
            free += whole[max(0, len(self._sentence) - self._waits) :]
            self._sentence, self._waits = after, min(self._waits, len(after))
        return free

    def _waiting(self) -> str:
        waiting = self._sentence[len(self._sentence) - self._waits :]
        self._waits = 0
        return waiting

    def _is_said(self, sentence: str) -> bool:
        return len(sentence.split()) >= _FEWEST_WORDS and _plain(sentence) in self._said

    def _begins_like_one_said(self) -> bool:
        begun = _plain(self._sentence)
        return any(said.startswith(begun) and len(said.split()) >= _FEWEST_WORDS for said in self._said)


def _plain(sentence: str) -> str:
    return " ".join(sentence.casefold().split())


def _looped(tail: str) -> int:
    """On how many characters the text ends in a loop."""
    found = _LOOP.search(tail)
    return len(found[0]) if found and any(map(str.isalnum, found[1])) else 0


def _counts(tail: str) -> bool:
    numbers = [int(digits) for digits in re.findall(r"\d{1,9}(?=\D)", tail)][-_LONGEST_COUNT:]
    return len(numbers) == _LONGEST_COUNT and all(after == before + 1 for before, after in pairwise(numbers))
