"""Windows: how much of a memory a run is given, in whole turns.

>>> turns = [Prompt.make("One"), Prompt.make("Two"), Prompt.make("Three")]
>>> [turn[0].text for turn in Window.turns(2).newest(reversed(turns))]
['Two', 'Three']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

import msgspec
from typing_extensions import override

from fxai.messages.message import Content, FilePart
from fxai.messages.prompt import Prompt

__all__ = ["Window", "estimated_tokens"]

_BYTES_OF_TOKEN = 4
_OF_MESSAGE = 4  # tokens that say who speaks
_OF_PICTURE = 1500  # tokens; what the large providers take for one of a megapixel


def estimated_tokens(messages: Prompt) -> int:
    """About how many tokens messages take: an estimate for English text, with no tokenizer asked.

    A token for 4 bytes of UTF-8 in texts, names, parameters and results, 4 for each message, 1,500 for each picture
    and each file that is named by its address. Other languages and code take up to twice as many.

    >>> estimated_tokens(Prompt.make("How are you today?"))
    9
    """
    return sum(_OF_MESSAGE + (0 if one.role == "system" else sum(map(_of_part, one.content))) for one in messages)


def _of_part(part: Content) -> int:
    match part.type:
        case "text" | "reasoning":
            return _of_bytes(len(part.text.encode()))
        case "file":
            return _of_file(part)
        case "tool-call":
            return _of_data([part.name, part.params])
        case "tool-result":
            return _of_data([part.name, part.result])
        case "tool-approval-request" | "tool-approval-response":
            return _OF_MESSAGE


def _of_file(part: FilePart) -> int:
    if isinstance(part.data, bytes) and not part.media_type.startswith("image/"):
        return _of_bytes(len(part.data))
    return _OF_PICTURE


def _of_data(data: object) -> int:
    return _of_bytes(len(msgspec.json.encode(data, enc_hook=repr)))


def _of_bytes(count: int) -> int:
    return -(-count // _BYTES_OF_TOKEN)


@final
class Window(msgspec.Struct, frozen=True):
    """The newest turns of a memory, as many as fit; the very newest always, so that what is open can be answered.

    A turn is given whole or not at all: no call without its result, no approval without what it was asked for. Behind
    a turn that does not fit, no older one is given, so nothing is missing in between.
    """

    most_turns: int | None = None
    """How many turns at most; None: no bound."""
    most_tokens: int | None = None
    """How many tokens all turns together take at most, by `count`; None: no bound. The newest turn may take more."""
    count: Callable[[Prompt], int] = estimated_tokens
    """How many tokens the messages of one turn take."""

    @staticmethod
    def turns(most: int) -> Window:
        """The newest `most` turns.

        Raises:
            ValueError: it is less than 1.
        """
        return Window(most)

    @staticmethod
    def tokens(most: int, *, count: Callable[[Prompt], int] = estimated_tokens) -> Window:
        """The newest turns that take at most `most` tokens together.

        Args:
            most: how many tokens.
            count: how many the messages of one turn take; by default an estimate, see `estimated_tokens`. Give the
                tokenizer of your model where it must be exact.

        Raises:
            ValueError: `most` is less than 1.
        """
        return Window(None, most, count)

    def __post_init__(self) -> None:
        for bound, noun in ((self.most_turns, "turns"), (self.most_tokens, "tokens")):
            if bound is not None and bound < 1:
                raise ValueError(f"a window of {bound} {noun} shows nothing: give at least 1, or None for no bound")

    @override
    def __repr__(self) -> str:
        if self.most_tokens is None:
            return f"Window.turns({self.most_turns})"
        if self.most_turns is not None:
            return f"Window({self.most_turns}, {self.most_tokens})"
        counted = "" if self.count is estimated_tokens else f", count={self.count!r}"
        return f"Window.tokens({self.most_tokens}{counted})"

    def newest(self, newest_first: Iterable[Prompt]) -> tuple[Prompt, ...]:
        """The turns that fit, the oldest first, of turns given the newest first: no more are asked for than needed."""
        kept: list[Prompt] = []
        tokens = 0
        for turn in newest_first:
            tokens += 0 if self.most_tokens is None else self.count(turn)
            if kept and self.most_tokens is not None and tokens > self.most_tokens:
                break
            kept.append(turn)
            if len(kept) == self.most_turns:
                break
        return tuple(reversed(kept))
