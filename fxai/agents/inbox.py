"""Inboxes: send messages to a run in progress. Use this module to steer an agent, or to queue its next task.

>>> from fxai.agents.agent import Agent
>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> inbox = Inbox.in_process()
>>> model = ScriptedModel.make([text("Good day."), text("Auf Wiedersehen.")])
>>> fx.run(inbox.queue("Now say goodbye in German."))
>>> answer = fx.run(Agent.make("greeter").execute("Say hello.").provide(inbox.layer | model.layer))
>>> [step.text for step in answer.steps]
['Good day.', 'Auf Wiedersehen.']
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Any, Literal, TypeAlias, cast, final

import msgspec

from fxai.effects.effect import EffectOf, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.service import Service
from fxai.messages.message import UserMessage
from fxai.messages.prompt import Prompt, PromptInput
from fxai.messages.wire import unwrap_or_raise

OnJoin: TypeAlias = "Callable[[tuple[InboxMessage, ...]], EffectOf[None] | None]"
"""A function that receives the messages that joined a run. It returns None or an effect to run."""


@final
class InboxMessage(msgspec.Struct, frozen=True):
    """A message to a run."""

    messages: tuple[UserMessage, ...]
    """The user messages."""
    delivery: Literal["steer", "queue"]
    """The time when the message joins the run. See `Inbox.steer` and `Inbox.queue`."""
    id: str
    """The id of the message, from the sender or random."""


class InboxFullError(RuntimeError):
    """The error that an inbox contains its maximum number of messages."""


@final
class Inbox(Service):
    """The messages to a run in progress. Provide it to a run with `inbox.layer`.

    One run at a time reads an inbox: the first run that starts. Sub-agents of this run do not read it. Any thread and
    any event loop can send messages, and `fx.run(inbox.steer(…))` never waits.

    An inbox never loses a message. `left` contains the messages that did not join a run. The next run with this inbox
    reads them. A durable run records each message before it joins, so that a resumed run has the same conversation.
    """

    def __init__(self, capacity: int, on_join: OnJoin | None) -> None:
        """Create an empty inbox. Use `Inbox.in_process`."""
        self._capacity = capacity
        self._on_join = on_join
        self._left: deque[InboxMessage] = deque()
        self._reader: object = None
        self._lock = threading.Lock()

    @staticmethod
    def in_process(*, capacity: int = 1_000, on_join: OnJoin | None = None) -> Inbox:
        """Return an empty inbox in this process.

        Args:
            capacity: Maximum number of messages that have not joined a run.
            on_join: Called with the messages that join a run, before the request that contains them. A durable run that
                resumes calls it again. If its effect ends with a defect, the run ends. Default: None.

        Raises:
            ValueError: If `capacity` is less than 1.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        return Inbox(capacity, on_join)

    @property
    def layer(self) -> LayerOf[Inbox]:
        """The layer of the inbox, for `provide`."""
        return LayerOf.succeed(Inbox, self)

    def steer(self, message: PromptInput, *, id: str | None = None) -> EffectOf[None]:
        """Return an effect that sends a message to the next step of the run.

        The message joins the conversation after the results of the current step. If the current turn calls no tool, the
        run continues with another step. If no run reads the inbox, the message joins the first step of the next run.

        Args:
            message: Text, user messages, or a `Prompt` of user messages.
            id: The id of the message, unique in the inbox. Default: a random id.

        The effect raises `InboxFullError` as a defect if the inbox is full.

        Raises:
            TypeError: If a message is not a user message.
            ValueError: If the prompt contains no message.
        """
        return self._send(message, "steer", id)

    def queue(self, message: PromptInput, *, id: str | None = None) -> EffectOf[None]:
        """Return an effect that sends a message to the end of the run. See `steer` for the arguments.

        The run continues the conversation with the message after it answered: after a turn without tool calls. The run
        has one budget for all its turns, and its answer is the answer to the last message. Each further message waits
        for the answer to the message before it.
        """
        return self._send(message, "queue", id)

    @property
    def left(self) -> tuple[InboxMessage, ...]:
        """The messages that have not joined a run, in the order of their arrival."""
        with self._lock:
            return tuple(self._left)

    def clear(self) -> tuple[InboxMessage, ...]:
        """Remove the messages that have not joined a run, and return them."""
        with self._lock:
            left = tuple(self._left)
            self._left.clear()
        return left

    def _send(self, given: PromptInput, delivery: Literal["steer", "queue"], id_: str | None) -> EffectOf[None]:
        messages = user_messages(given)

        def send() -> None:
            message = InboxMessage(messages, delivery, id_ or secrets.token_urlsafe(12))
            with self._lock:
                if len(self._left) >= self._capacity:
                    text = f"inbox is full: its {self._capacity} messages have not joined a run"
                    raise InboxFullError(f"{text}. Wait, or raise `capacity`.")
                self._left.append(message)

        return Sync(send)

    # -- the run

    def claim(self, reader: object) -> bool:
        """Make a run the reader of this inbox. Return False if another run reads it."""
        with self._lock:
            if self._reader is None:
                self._reader = reader
            return self._reader is reader

    def release(self) -> None:
        """Let another run read this inbox."""
        with self._lock:
            self._reader = None

    @property
    def is_empty(self) -> bool:
        """True if every message has joined a run."""
        return not self._left

    def unread(self, known: Container[str]) -> tuple[InboxMessage, ...]:
        """Return the messages whose ids a run does not know yet."""
        with self._lock:
            return tuple(one for one in self._left if one.id not in known)

    def take(self, arrived: Iterable[InboxMessage], known: Container[str], *, at_end: bool) -> tuple[InboxMessage, ...]:
        """Remove and return the messages that join: all steering messages, or at the end the first queued message.

        The inbox may lack messages that arrived, because a journal returns copies. `known` contains the ids of all
        messages that arrived in the run.
        """
        with self._lock:
            here = {one.id for one in self._left}
            self._left.extend(one for one in arrived if one.id not in here)
            mine = [one for one in self._left if one.id in known]
            joining = tuple(one for one in mine if one.delivery == "steer") or (tuple(mine[:1]) if at_end else ())
            joined = {one.id for one in joining}
            self._left = deque(one for one in self._left if one.id not in joined)
        return joining

    def report(self, joined: tuple[InboxMessage, ...]) -> EffectOf[None] | None:
        """Return the effect that reports messages that joined the run, or None."""
        return None if self._on_join is None else self._on_join(joined)


def user_messages(given: PromptInput) -> tuple[UserMessage, ...]:
    """Return the user messages of an input.

    Raises:
        TypeError: If a message is not a user message.
        ValueError: If the input contains no message.
    """
    prompt = Prompt.make(given)
    if not len(prompt):
        raise ValueError("message must not be empty. Pass text, or a user message.")
    for message in prompt:
        if message.role != "user":
            raise TypeError(f"message must be a user message, got a message with the role {message.role!r}")
    return cast("tuple[UserMessage, ...]", tuple(prompt))


def encode_messages(messages: Iterable[InboxMessage]) -> Any:
    """Return messages as JSON values for a journal."""
    return [[one.delivery, one.id, Prompt(one.messages).to_data()] for one in messages]


def decode_messages(data: Any) -> tuple[InboxMessage, ...]:
    """Return the messages in JSON values. Raise `ValueError` if the values are invalid."""
    try:
        return tuple(
            InboxMessage(user_messages(unwrap_or_raise(Prompt.from_data(prompt))), delivery, id_)
            for delivery, id_, prompt in data
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"invalid messages of an inbox: {error}") from None
