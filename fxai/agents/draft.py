"""Drafts: memories for a single turn. Use a draft if a user can stop a turn, or if a turn has many runs.

A draft contains the messages in a turn until the turn ends. The owner of the conversation then decides which messages
to store: the whole turn, or the partial turn if a user stopped it or it failed.

>>> from fxai.agents import Agent
>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> draft = Draft(Prompt.make("I am Ann."))
>>> parts = draft.stream(Agent.make("greeter"), Prompt.make("Who am I?"))
>>> _ = fx.run(parts.collect().provide(ScriptedModel.make([text("Ann.")]).layer))
>>> [message.role for message in draft.messages]
['user', 'assistant']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

from typing_extensions import override

from fxai.agents.agent import AnyAgent
from fxai.agents.answer import Step
from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.state import PromptState
from fxai.effects.effect import Effect, Sync
from fxai.effects.stream import StreamOf
from fxai.messages.accumulate import gather
from fxai.messages.calls import insert_late, pending_in
from fxai.messages.message import Message, ToolCallPart
from fxai.messages.part import AnyPart, StreamPart
from fxai.messages.prompt import Prompt
from fxai.tools.tool_error import interrupt_calls


@final
class Draft(Memory):
    """A memory that contains the conversation so far and the messages of the current turn. A turn can have many runs.

    It also contains the state of the agent's prompt, before the turn and now.
    """

    def __init__(self, before: Prompt, state: PromptState | None = None, late: Prompt = Prompt.empty) -> None:
        """Create the draft of a turn.

        Args:
            before: The conversation before the turn.
            state: The state of the agent's prompt before the turn.
            late: Answers to approvals that earlier turns did not read. They start the turn, and a run of the turn reads
                each answer directly after its call.
        """
        self._before = before
        self._late = late
        self.messages: Prompt = late
        """The messages in the turn."""
        self.state = state
        """The state after the last step of the turn; None for an agent without a stateful prompt."""
        self._new = Prompt.empty  # first messages of the current run, until the draft contains them
        self._parts: list[AnyPart] = []  # parts of the current run that the draft does not contain yet

    def stream(self, agent: AnyAgent, new: Prompt) -> StreamOf[StreamPart, Any, Any]:
        """Return the parts of a run of the turn that starts with the messages `new`. The draft records each part."""

        def start() -> StreamOf[StreamPart, Any, Any]:
            self.start(new)
            return agent.with_memory(self).on_step(self._note_step).stream(new)

        return StreamOf.suspend(start).tap(lambda part: Sync(lambda: self.note(part)))

    def start(self, new: Prompt) -> None:
        """Start a run that is not a run of an agent, with the messages `new`. Pass each of its parts to `note`."""
        self._new = new
        self._parts.clear()

    def note(self, part: StreamPart) -> None:
        """Record a part of the current run."""
        self._parts.append(part)

    def join(self, messages: Iterable[Message]) -> None:
        """Record messages that joined the current run after its parts so far."""
        self._new = self._new.with_response(gather(self._parts)).extend(messages)
        self._parts.clear()

    def _note_step(self, step: Step) -> None:
        if step.record.is_rendered:
            self.state = step.record.after

    def end(self) -> None:
        """Finish the current run: add the messages that no agent has committed."""
        self.messages = self.messages + self._new.with_response(self._parts)
        self._forget_run()

    def stop(self, reason: str) -> None:
        """Stop the current run: add its messages so far, and add a result for each open call with this reason."""
        whole = gather(self._parts)
        open_ = {one.id for one in pending_in(whole)}
        calls = [part for part in whole if part.type == "tool-call" and part.id in open_]
        self._parts = [*whole, *interrupt_calls([*self._calls_cut_off(whole), *calls], reason)]
        self.end()

    def _calls_cut_off(self, given: Iterable[AnyPart]) -> Iterator[ToolCallPart]:
        """Yield the calls of earlier runs that this run started with an answer to, but did not finish."""
        answers = [part for one in self._late + self._new if one.role == "tool" for part in one.content]
        answered = {part.approval_id for part in answers if part.type == "tool-approval-response"}
        ended = {part.id for part in answers if part.type == "tool-result"}
        ended |= {part.id for part in given if part.type == "tool-result" and not part.preliminary}
        earlier = self._before + self.messages
        parts = [part for one in earlier if one.role == "assistant" for part in one.content] if answered else []
        requests = [part for part in parts if part.type == "tool-approval-request" and part.approval_id in answered]
        cut = {part.tool_call_id for part in requests} - ended
        for part in parts:
            if part.type == "tool-call" and part.id in cut and not part.provider_executed:
                yield part

    def _forget_run(self) -> None:
        self._new = Prompt.empty
        self._parts = []

    # -- as a memory

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        def find() -> Prompt:
            whole = self._before + self.messages
            return Prompt(insert_late(whole)) if len(self._late) else whole

        return Sync(find)

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return self.commit_with(messages, None)

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        return Sync(lambda: self.state)

    @override
    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        def add() -> None:
            self.messages = self.messages + messages.without_system()
            self.state = self.state if state is None else state
            self._forget_run()

        return Sync(add)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return Sync(lambda: tuple(part for part in (self._before, self.messages) if len(part)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def forget() -> None:
            self._before = self.messages = self._late = Prompt.empty
            self.state = None
            self._forget_run()

        return Sync(forget)
