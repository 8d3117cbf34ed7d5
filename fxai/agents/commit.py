"""Commits: what one run adds to its memory, and when.

What a run said is committed when it has succeeded. What people answered about approvals is committed before: whatever
stops the run then, nothing that they approved is run again. Before approved calls run, they are in doubt in the memory;
when they have ended, their results are.

>>> from fxai.agents.memory import Memory
>>> from fxai.effects import fx
>>> memory, said = Memory.in_process(), Prompt.make("I am Ann.")
>>> fx.run_sync(Commits(memory, said, said).end(Answer((), said + Prompt.make("Thank you."), "done", False)))
>>> len(fx.run_sync(memory.load()))
2
"""

from __future__ import annotations

from itertools import islice
from typing import Any, final

import msgspec

from fxai.agents.answer import Answer
from fxai.agents.memory import Memory
from fxai.effects.effect import EffectOf, Suspend
from fxai.messages.content import ToolResultPart
from fxai.messages.fold import fold
from fxai.messages.message import Message, ToolMessage
from fxai.messages.placement import placed
from fxai.messages.prompt import Prompt

__all__ = ["Commits"]


@final
class Commits:
    """What one run adds to a memory."""

    __slots__ = ("_kept", "_memory", "_new", "_told")

    def __init__(self, memory: Memory, told: Prompt, new: Prompt) -> None:
        """Of a run that is `told` something, of which the last, `new`, is not in the memory yet."""
        self._memory = memory
        self._told = told
        self._new = new
        self._kept = 0  # how many messages of `new`, with the results that belong there, are committed

    def settle(self, history: Prompt) -> EffectOf[None, Any]:
        """Commits the answers about approvals and what `history` says of their calls: in doubt at first, then results.

        Fails with:
            MemoryFailure: As `Memory.commit`, with the history.
        """
        return Suspend(lambda: self._settle(history))

    def _settle(self, history: Prompt) -> EffectOf[None, Any]:
        results = _gained(self._told, history)
        if self._kept:
            return self._commit(Prompt((ToolMessage(results),)), history)
        said = self._messages(results)
        known = {id(part) for part in results}
        end = 1 + max(at for at, one in enumerate(said) if one.role == "tool" and known & set(map(id, one.content)))

        def note(_: None) -> None:
            self._kept = end

        return self._commit(Prompt(said[:end]), history).map(note)

    def end(self, answer: Answer[Any]) -> EffectOf[None, Any]:
        """Commits what the run said, and is not committed yet.

        Fails with:
            MemoryFailure: As `Memory.commit`, with the history.
        """
        return Suspend(lambda: self._commit(self._rest(answer), answer.history))

    def _rest(self, answer: Answer[Any]) -> Prompt:
        early = _early(answer)
        if not early:
            return self._new.extend(islice(answer.history, len(self._told), None))
        rest = islice(answer.history, len(placed(self._told, early)), None)
        if not self._kept:
            return Prompt(self._messages(early)).extend(rest)
        # the results once more: they say which turn it goes on with
        return Prompt((ToolMessage(early), *self._messages(early)[self._kept :])).extend(rest)

    def _messages(self, early: tuple[ToolResultPart, ...]) -> list[Message]:
        """What is new, with the results of calls that it approved.

        They are in it as in the whole conversation; where they are further up there, they are put behind it.
        """
        whole = placed(self._told, early)
        here = whole[len(self._told) - len(self._new) :] if len(whole) == len(self._told) else []
        there = {part.id for one in here if one.role == "tool" for part in one.content if part.type == "tool-result"}
        return here if there.issuperset(one.id for one in early) else placed(self._new, early)

    def _commit(self, messages: Prompt, history: Prompt) -> EffectOf[None, Any]:
        committed = self._memory.commit(messages)
        return committed.map_error(lambda failure: msgspec.structs.replace(failure, history=history))


def _gained(told: Prompt, history: Prompt) -> tuple[ToolResultPart, ...]:
    """The results in a history that were not told, each once."""
    before = {id(part) for part in _results(told)}
    return tuple({part.id: part for part in _results(history) if id(part) not in before}.values())


def _results(history: Prompt) -> list[ToolResultPart]:
    messages = (message for message in history if message.role == "tool")
    return [part for message in messages for part in message.content if part.type == "tool-result"]


def _early(answer: Answer[Any]) -> tuple[ToolResultPart, ...]:
    """The results that stand before the model's first turn: those of calls that were approved."""
    if not answer.steps:
        return ()
    turn = fold(answer.steps[0].response.content)
    return tuple(_results(Prompt(turn[:1])))
