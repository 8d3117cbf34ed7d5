"""Recall: load a run's messages from a memory and commit its new messages. The agent loop uses this module.

Other runs can happen between a pending call and its answer. Providers accept a history only if each call has its
result directly after it. Therefore `recall` adds a result after each pending call.

A run commits its messages when it succeeds, or when a defect of a handler ends it. It commits answers to approval
requests earlier. Before the approved calls run, it commits them with unknown outcome. When the calls end, it commits
their results, which replace the unknown outcome. If the run stops in between, no approved call runs again. A run
commits the state of a stateful prompt with the results of approved calls and with its last messages.

>>> from fxai.messages.message import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
>>> asked = Prompt([UserMessage.make("2 + 3?"), AssistantMessage.make(ToolCallPart("c", "add", {}))])
>>> past = asked + Prompt.make("Hello?")
>>> [message.role for message in recall(past, Prompt.make("Well?"))]
['user', 'assistant', 'tool', 'user']
>>> [message.role for message in recall(past, Prompt([ToolMessage.make(ToolResultPart("c", "add", 5))]))]
['user', 'user', 'assistant']
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, TypeVar, final

import msgspec

from fxai.agents.answer import Answer
from fxai.agents.change import copy_marks
from fxai.agents.memory import Memory, NotAwaitedError, merge_commits, turn_of
from fxai.agents.state import PromptState, call_key
from fxai.effects.constructor import gen
from fxai.effects.effect import AnyEffect, EffectOf, Gen, Suspend
from fxai.messages.accumulate import fold
from fxai.messages.calls import insert_results, pending_in
from fxai.messages.message import Content, Message, ToolCallPart, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.messages.wire import unwrap_or_raise
from fxai.models.interceptor import Interceptor, WorkInfo
from fxai.tools.tool_error import Interrupted, encode_failure

_A = TypeVar("_A")

_NEWEST: Final = 20  # turns to compare, because other runs can commit their turns after this commit
_WAITS: Final = "the call needs an answer and did not run"


def recall(past: Prompt, new: Prompt) -> Prompt:
    """Return the past messages for a run that starts with the messages `new`.

    If `new` starts with a tool message, the piece that needs it moves to the end, so that the tool message follows it
    directly. Without new messages, the last piece stays open. Each other pending call receives a result that states
    that it is pending. The memory does not change, because the answer can still arrive.
    """
    past = merge_commits(past)  # a custom memory class may return unmerged commits
    pieces = _pieces(past)
    if not any(map(_waiting, pieces)):
        return past
    last = _find_piece(pieces, new)
    shown = [
        insert_results(one, map(_waits, _waiting(one))) if index != last else one for index, one in enumerate(pieces)
    ]
    if last is not None:
        shown.append(shown.pop(last))
    return Prompt(message for piece in shown for message in piece)


def waiting_aside(past: Prompt, new: Prompt) -> frozenset[str]:
    """Return the keys (`call_key`) of pending calls in pieces that `new` does not continue. The run reports them."""
    pieces = _pieces(merge_commits(past))
    last = _find_piece(pieces, new)
    others = (piece for index, piece in enumerate(pieces) if index != last)
    return frozenset(call_key(one) for piece in others for one in pending_in(_parts(piece)))


def _pieces(past: Prompt) -> list[list[Message]]:
    """Split the messages into pieces. Each piece starts with a user message."""
    pieces: list[list[Message]] = []
    for message in past:
        if message.role == "user" or not pieces:
            pieces.append([])
        pieces[-1].append(message)
    return pieces


def _waiting(piece: list[Message]) -> list[ToolCallPart]:
    """Return the calls that need an approval or an external result."""
    parts = _parts(piece)
    waiting = {one.id for one in pending_in(parts)}
    calls = [part for part in parts if part.type == "tool-call" and part.id in waiting and not part.provider_executed]
    return list({call.id: call for call in calls}.values())


def _parts(piece: list[Message]) -> list[Content]:
    return [part for message in piece if message.role != "system" for part in message.content]


def _find_piece(pieces: list[list[Message]], new: Prompt) -> int | None:
    """Return the index of the piece that `new` continues, or None if `new` starts a turn or no piece needs it."""
    if not len(new):
        return len(pieces) - 1
    try:
        index = turn_of(new, map(Prompt, reversed(pieces)))
    except NotAwaitedError:
        return None
    return None if index is None else len(pieces) - 1 - index


def _waits(call: ToolCallPart) -> ToolResultPart:
    encoded = encode_failure(Interrupted(call.name, _WAITS))
    return ToolResultPart(call.id, call.name, encoded, is_failure=True, dynamic=call.dynamic)


@final
class Commits(msgspec.Struct, eq=False):
    """The commits of a run to a memory."""

    _memory: Memory
    _prompt: Prompt  # the start of the run
    _new: Prompt  # its messages that the memory does not contain
    _around: Interceptor | None = None
    _count: int = 0
    _committed: int = 0  # number of committed messages of `new`, including results of approved calls

    @gen
    def commit_approved(self, history: Prompt, state: PromptState | None) -> Gen[None, Any, Any]:
        """Commit the answers to approval requests with the unknown outcomes of their calls, and later the results.

        It commits the state together with the results, because handlers can change the state.

        Fails with:
            MemoryFailure: See `Memory.commit_with`. It contains the history and the state.
        """
        results = _new_results(self._prompt, history)
        if self._committed:
            return (yield from self._commit(Prompt((ToolMessage(results),)), history, state))
        messages = self._messages(results)
        known = {id(part) for part in results}
        end = 1 + max(i for i, one in enumerate(messages) if one.role == "tool" and known & set(map(id, one.content)))
        yield from self._commit(Prompt(messages[:end]), history)
        self._committed = end
        return None

    def end(self, answer: Answer[Any]) -> EffectOf[None, Any]:
        """Commit the remaining messages of the run, and the state of its prompt.

        Fails with:
            MemoryFailure: See `Memory.commit_with`. It contains the history and the state.
        """
        return Suspend(lambda: self._commit(self._rest(answer), answer.history, answer.state))

    def _rest(self, answer: Answer[Any]) -> Prompt:
        early = _early(answer)
        if not early:
            start = len(self._prompt) - len(self._new)
            return Prompt(islice(answer.history, start, None)) if start >= 0 else answer.history
        count = len(insert_results(self._prompt, early))
        rest = islice(answer.history, count, None)
        messages = self._messages(early)
        messages = copy_marks(messages, islice(answer.history, count - len(messages), count))
        if not self._committed:
            return Prompt(messages).extend(rest)
        # repeat the results, because they identify the turn that this commit continues
        again = ToolMessage(early, metadata=messages[self._committed - 1].metadata)
        return Prompt((again, *messages[self._committed :])).extend(rest)

    def _messages(self, early: tuple[ToolResultPart, ...]) -> list[Message]:
        """Return the new messages, with the results of the calls that they approve.

        The results have the same position as in the whole conversation. If the whole conversation has them before the
        new messages, they follow the new messages.
        """
        whole = insert_results(self._prompt, early)
        here = whole[len(self._prompt) - len(self._new) :] if len(whole) == len(self._prompt) else []
        there = {part.id for one in here if one.role == "tool" for part in one.content if part.type == "tool-result"}
        return here if there.issuperset(one.id for one in early) else insert_results(self._new, early)

    def _commit(self, messages: Prompt, history: Prompt, state: PromptState | None = None) -> EffectOf[None, Any]:
        committed: EffectOf[None, Any, Any] = self._memory.commit_with(messages, state)
        if self._around is not None:
            self._count += 1
            name = f"commit {self._count}"
            ended = self._memory.turns().map(lambda turns: _ends_in(turns, messages))
            committed = self._around.work(WorkInfo(name, ended=ended), committed)
        return committed.map_error(lambda failure: msgspec.structs.replace(failure, history=history, state=state))


def load(memory: Memory, *, with_state: bool, around: Interceptor | None) -> AnyEffect:
    """Load the messages from a memory, and also its state if `with_state` is true."""
    loading: AnyEffect = memory.load()
    if with_state:
        loading = loading.flat_map(lambda past: memory.load_state().map(lambda state: (past, state)))
    else:
        loading = loading.map(lambda past: (past, None))
    return loading if around is None else around.work(_LOADING, loading)


def _encode_past(loaded: tuple[Prompt, PromptState | None]) -> Any:
    past, state = loaded
    return {"messages": past.to_data(), "state": None if state is None else state.to_data()}


def _decode_past(data: Any) -> tuple[Prompt, PromptState | None]:
    past, state = Prompt.from_data(data["messages"]), data["state"]
    return unwrap_or_raise(past), None if state is None else unwrap_or_raise(PromptState.from_data(state))


_LOADING: Final = WorkInfo("memory", _encode_past, _decode_past)


def _ends_in(turns: tuple[Prompt, ...], messages: Prompt) -> bool:
    """Return whether one of the newest turns ends with the messages, so that an unfinished commit was successful."""
    ends = [one for one in messages if one.role != "system"]
    return not ends or any([*turn][-len(ends) :] == ends for turn in turns[-_NEWEST:])


def _new_results(prompt: Prompt, history: Prompt) -> tuple[ToolResultPart, ...]:
    """Return the results in a history that the prompt does not contain, without duplicates."""
    before = {id(part) for part in _results(prompt)}
    return tuple({part.id: part for part in _results(history) if id(part) not in before}.values())


def _results(history: Prompt) -> list[ToolResultPart]:
    messages = (message for message in history if message.role == "tool")
    return [part for message in messages for part in message.content if part.type == "tool-result"]


def _early(answer: Answer[Any]) -> tuple[ToolResultPart, ...]:
    """Return the results before the first turn from the model, which are results of approved calls."""
    if not answer.steps:
        return ()
    turn = fold(answer.steps[0].response.content)
    return tuple(_results(Prompt(turn[:1])))
