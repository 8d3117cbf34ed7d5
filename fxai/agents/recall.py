"""Recall: what a run reads from a memory before it begins, and what it commits to it.

Other runs may come between a call that waits and its answer. Providers take a history only where each call has its
result right behind it, so `recall` puts a result behind each call that still waits.

The messages of a run are committed when it has succeeded, or when a defect of a handler ended it. Answers to approval
requests are committed earlier: before the approved calls run, they are committed as in doubt, and their results replace
that as soon as they have ended. So whatever stops the run in between, no approved call is run again. The state of a
stateful prompt is committed with the results of approved calls, and with the messages that the run ends with.

>>> from fxai.messages.message import ToolCallPart, ToolResultPart
>>> from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
>>> asked = Prompt([UserMessage.make("2 + 3?"), AssistantMessage.make(ToolCallPart("c", "add", {}))])
>>> past = asked + Prompt.make("Hello?")
>>> [message.role for message in recall(past, Prompt.make("Well?"))]
['user', 'assistant', 'tool', 'user']
>>> [message.role for message in recall(past, Prompt([ToolMessage.make(ToolResultPart("c", "add", 5))]))]
['user', 'user', 'assistant']

>>> from fxai.effects import fx
>>> memory, new = Memory.in_process(), Prompt.make("I am Ann.")
>>> fx.run_sync(Commits(memory, new, new).end(Answer((), new + Prompt.make("Thank you."), "done", False)))
>>> len(fx.run_sync(memory.load()))
2
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, TypeVar, final

import msgspec
from returns.result import Result, Success

from fxai.agents.answer import Answer
from fxai.agents.change import copy_marks
from fxai.agents.memory import Memory, NotAwaitedError, merge_commits, turn_of
from fxai.agents.state import PromptState, call_key
from fxai.effects.effect import EffectOf, Suspend
from fxai.messages.accumulate import fold
from fxai.messages.calls import pending_in, place_results
from fxai.messages.message import Content, Message, ToolCallPart, ToolMessage, ToolResultPart
from fxai.messages.prompt import Prompt
from fxai.models.interceptor import Interceptor, WorkInfo
from fxai.tools.tool_error import Interrupted, encode_failure

_A = TypeVar("_A")

_NEWEST: Final = 20  # turns that are looked at, as other runs may have committed theirs behind it
_WAITS: Final = "it waits for an answer, and has not been run"


def recall(past: Prompt, new: Prompt) -> Prompt:
    """The past, as a run begins with it whose new messages are `new`.

    The piece that waits for the tool message that `new` begins with comes last, so that this stands right behind it;
    without new messages, the last piece stays open. Each other call that waits gets a result that says so. The memory
    itself is not changed: the answer may still come.
    """
    past = merge_commits(past)  # a memory of the user's own class may give the commits as they are
    pieces = _pieces(past)
    if not any(map(_waiting, pieces)):
        return past
    last = _find_piece(pieces, new)
    shown = [
        place_results(one, map(_waits, _waiting(one))) if index != last else one for index, one in enumerate(pieces)
    ]
    if last is not None:
        shown.append(shown.pop(last))
    return Prompt(message for piece in shown for message in piece)


def waiting_aside(past: Prompt, new: Prompt) -> frozenset[str]:
    """The calls that wait in pieces which `new` does not go on with, by `call_key`: a run is told that they wait."""
    pieces = _pieces(merge_commits(past))
    last = _find_piece(pieces, new)
    others = (piece for index, piece in enumerate(pieces) if index != last)
    return frozenset(call_key(one) for piece in others for one in pending_in(_parts(piece)))


def _pieces(past: Prompt) -> list[list[Message]]:
    """The messages in pieces; each begins with a user message."""
    pieces: list[list[Message]] = []
    for message in past:
        if message.role == "user" or not pieces:
            pieces.append([])
        pieces[-1].append(message)
    return pieces


def _waiting(piece: list[Message]) -> list[ToolCallPart]:
    """The calls that wait for an approval, or for a result from outside."""
    parts = _parts(piece)
    waiting = {one.id for one in pending_in(parts)}
    calls = [part for part in parts if part.type == "tool-call" and part.id in waiting and not part.provider_executed]
    return list({call.id: call for call in calls}.values())


def _parts(piece: list[Message]) -> list[Content]:
    return [part for message in piece if message.role != "system" for part in message.content]


def _find_piece(pieces: list[list[Message]], new: Prompt) -> int | None:
    """The index of the piece that `new` goes on with; None: it begins a turn, or no piece waits for it."""
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
class Commits:
    """The commits of one run to a memory."""

    __slots__ = ("_around", "_committed", "_count", "_memory", "_new", "_prompt")

    def __init__(self, memory: Memory, prompt: Prompt, new: Prompt, around: Interceptor | None = None) -> None:
        """Of a run that begins with `prompt`, whose last messages, `new`, are not in the memory yet."""
        self._memory = memory
        self._around = around
        self._count = 0
        self._prompt = prompt
        self._new = new
        self._committed = 0  # how many messages of `new`, with the results that belong there

    def settle(self, history: Prompt, state: PromptState | None) -> EffectOf[None, Any]:
        """Commits the answers to approval requests, and what is known of their calls: a doubt, then their results.

        With the results goes the state, which their handlers may have changed.

        Fails with:
            MemoryFailure: As `Memory.commit_with`, with the history and the state.
        """
        return Suspend(lambda: self._settle(history, state))

    def _settle(self, history: Prompt, state: PromptState | None) -> EffectOf[None, Any]:
        results = _new_results(self._prompt, history)
        if self._committed:
            return self._commit(Prompt((ToolMessage(results),)), history, state)
        messages = self._messages(results)
        known = {id(part) for part in results}
        end = 1 + max(i for i, one in enumerate(messages) if one.role == "tool" and known & set(map(id, one.content)))

        def note(_: None) -> None:
            self._committed = end

        return self._commit(Prompt(messages[:end]), history).map(note)

    def end(self, answer: Answer[Any]) -> EffectOf[None, Any]:
        """Commits the messages of the run that are not committed yet, and the state of its prompt, if it has one.

        Fails with:
            MemoryFailure: As `Memory.commit_with`, with the history and the state.
        """
        return Suspend(lambda: self._commit(self._rest(answer), answer.history, answer.state))

    def _rest(self, answer: Answer[Any]) -> Prompt:
        early = _early(answer)
        if not early:
            start = len(self._prompt) - len(self._new)
            return Prompt(islice(answer.history, start, None)) if start >= 0 else answer.history
        count = len(place_results(self._prompt, early))
        rest = islice(answer.history, count, None)
        messages = self._messages(early)
        messages = copy_marks(messages, islice(answer.history, count - len(messages), count))
        if not self._committed:
            return Prompt(messages).extend(rest)
        # the results once more: they say which turn it goes on with
        again = ToolMessage(early, metadata=messages[self._committed - 1].metadata)
        return Prompt((again, *messages[self._committed :])).extend(rest)

    def _messages(self, early: tuple[ToolResultPart, ...]) -> list[Message]:
        """The new messages, with the results of the calls that they approve.

        They stand in it as in the whole conversation; where that has them further up, they are put behind it.
        """
        whole = place_results(self._prompt, early)
        here = whole[len(self._prompt) - len(self._new) :] if len(whole) == len(self._prompt) else []
        there = {part.id for one in here if one.role == "tool" for part in one.content if part.type == "tool-result"}
        return here if there.issuperset(one.id for one in early) else place_results(self._new, early)

    def _commit(self, messages: Prompt, history: Prompt, state: PromptState | None = None) -> EffectOf[None, Any]:
        committed: EffectOf[None, Any, Any] = self._memory.commit_with(messages, state)
        if self._around is not None:
            self._count += 1
            name = f"commit {self._count}"
            ended = self._memory.turns().map(lambda turns: _ends_in(turns, messages))
            committed = self._around.work(WorkInfo(name, ended=ended), committed)
        return committed.map_error(lambda failure: msgspec.structs.replace(failure, history=history, state=state))


def load(memory: Memory, *, with_state: bool, around: Interceptor | None) -> EffectOf[Any, Any, Any]:
    """The messages that a memory holds, and its state where that is asked for."""
    loading: EffectOf[Any, Any, Any] = memory.load()
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
    return _check_read(past), None if state is None else _check_read(PromptState.from_data(state))


def _check_read(read: Result[_A, object]) -> _A:
    if isinstance(read, Success):
        value: _A = read.unwrap()
        return value
    raise ValueError(str(read.failure()))


_LOADING: Final = WorkInfo("memory", _encode_past, _decode_past)


def _ends_in(turns: tuple[Prompt, ...], messages: Prompt) -> bool:
    """Whether one of the newest turns ends in messages: a commit that was not seen to end was done."""
    ends = [one for one in messages if one.role != "system"]
    return not ends or any([*turn][-len(ends) :] == ends for turn in turns[-_NEWEST:])


def _new_results(prompt: Prompt, history: Prompt) -> tuple[ToolResultPart, ...]:
    """The results in a history that the prompt did not hold, each once."""
    before = {id(part) for part in _results(prompt)}
    return tuple({part.id: part for part in _results(history) if id(part) not in before}.values())


def _results(history: Prompt) -> list[ToolResultPart]:
    messages = (message for message in history if message.role == "tool")
    return [part for message in messages for part in message.content if part.type == "tool-result"]


def _early(answer: Answer[Any]) -> tuple[ToolResultPart, ...]:
    """The results before the model's first turn: those of approved calls."""
    if not answer.steps:
        return ()
    turn = fold(answer.steps[0].response.content)
    return tuple(_results(Prompt(turn[:1])))
