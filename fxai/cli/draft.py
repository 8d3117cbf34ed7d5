"""Drafts: a memory with what a turn has said so far, which goes nowhere else until the turn has ended.

>>> from fxai.effects import fx
>>> draft = Draft(Prompt.make("I am Ann."))
>>> fx.run_sync(draft.commit(Prompt.make("Who am I?")))
>>> [message.role for message in fx.run_sync(draft.load())], len(draft.said)
(['user', 'user'], 1)
"""

from __future__ import annotations

from typing import final

from typing_extensions import override

from fxai.agents.memory import Memory, MemoryFailure
from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.prompt import Prompt

__all__ = ["Draft"]


@final
class Draft(Memory):
    """What was said before, and behind it the messages of one turn, which may take several runs."""

    def __init__(self, before: Prompt) -> None:
        self._before = before
        self.said = Prompt.empty
        """The messages of the turn."""

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return fx.sync(lambda: self._before + self.said)

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        def add() -> None:
            self.said = self.said + messages.without_system()

        return fx.sync(add)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return fx.sync(lambda: tuple(part for part in (self._before, self.said) if len(part)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def forget() -> None:
            self._before = self.said = Prompt.empty

        return fx.sync(forget)
