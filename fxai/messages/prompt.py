"""Prompts: a whole conversation as one immutable value.

>>> prompt = Prompt.make("What is 2 + 3?").set_system("You add.")
>>> [message.role for message in prompt]
['system', 'user']
>>> Prompt.from_json(prompt.to_json()).unwrap() == prompt
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from threading import Lock
from typing import Any, ClassVar, TypeAlias, final

from returns.result import Result

from fxai.messages.accumulate import fold
from fxai.messages.calls import Pending, pending_in, place_results
from fxai.messages.message import (
    Content,
    FileUrl,
    Message,
    SystemMessage,
    TextPart,
    ToolContent,
    ToolMessage,
    UserMessage,
)
from fxai.messages.part import AnyPart
from fxai.messages.wire import (
    HISTORY_LIMITS,
    messages_from_data,
    messages_from_json,
    messages_of,
    messages_to_data,
    messages_to_json,
)
from fxai.schema.fault import DecodeFailure
from fxai.schema.parsing import Limits

PromptInput: TypeAlias = "str | Prompt | Message | Iterable[Message | Mapping[str, Any]]"
"""What `Prompt.make` takes: the text of a user, a prompt, a message, or messages as records or as plain data."""


@final
class _Buffer:
    """Messages that several prompts share: it only ever grows, and each prompt sees a prefix of it."""

    __slots__ = ("lock", "messages")

    def __init__(self, messages: list[Message]) -> None:
        self.messages: list[Message] = messages
        self.lock: Lock = Lock()


@final
class Prompt:
    """Messages in order: immutable, comparable, hashable, picklable; a monoid under `concat` with `Prompt.empty`.

    Appending takes the same time however long the prompt is: what an agent's loop does a thousand times. `messages` and
    everything that edits system messages takes time by the length.
    """

    # A prompt is a prefix of a shared buffer. Appending to the prompt that ends where its buffer ends writes behind
    # that end, which no other prompt can see; any other prompt's messages are copied to a buffer of their own first.
    # So a loop that appends to the newest prompt copies nothing, branches never disturb each other, and the lock lets
    # only one of two threads have the end. A tuple would copy all pointers each round. The price: a prompt keeps alive
    # what was appended behind it in its buffer.
    __slots__ = ("__buffer__", "__length__")

    __buffer__: _Buffer
    __length__: int

    empty: ClassVar[Prompt]
    """No messages."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.__buffer__ = _Buffer(list(messages))
        self.__length__ = len(self.__buffer__.messages)

    @staticmethod
    def make(content: PromptInput) -> Prompt:
        """A prompt of a string, a message or messages.

        A string is one user message. A message, or messages, may be records or plain data such as
        `{"role": "user", "content": "hi"}`, in the form of `to_data`, where the content of user and assistant may be a
        string. A prompt is itself.

        Raises:
            MessageError: Something is not a message; the text names it and its place. For data from outside there is
                `from_data`.

        >>> Prompt.make([{"role": "system", "content": "Add."}, UserMessage.make("2 + 3?")]).system()
        'Add.'
        """
        if isinstance(content, Prompt):
            return content
        if isinstance(content, str):
            return Prompt((UserMessage((TextPart(content),)),))
        return Prompt(messages_of(content))

    @staticmethod
    def from_parts(parts: Iterable[AnyPart]) -> Prompt:
        """What the parts of a response, streamed or whole, leave in the history.

        Calls go to an assistant message, results to the tool message after it, encoded; results of tools that the
        provider ran stay in the assistant message. Preliminary results are dropped. Order and metadata are kept.

        >>> from fxai.messages.part import ToolCall, ToolResult
        >>> [m.role for m in Prompt.from_parts([ToolCall("c", "add", {}), ToolResult("c", "add", 3)])]
        ['assistant', 'tool']
        """
        return Prompt(fold(parts))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, as a tuple made anew."""
        return tuple(self)

    def append(self, *messages: Message) -> Prompt:
        """The prompt with these messages behind."""
        return self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> Prompt:
        """The prompt with these messages behind."""
        more = list(messages)
        if not more:
            return self
        buffer = self.__buffer__
        with buffer.lock:
            # The buffer of `Prompt.empty` stays empty: it would live forever.
            if self.__length__ and len(buffer.messages) == self.__length__:
                buffer.messages.extend(more)
            else:
                buffer = _Buffer([*buffer.messages[: self.__length__], *more])
        prompt = object.__new__(Prompt)
        prompt.__buffer__ = buffer
        prompt.__length__ = self.__length__ + len(more)
        return prompt

    def with_response(self, parts: Iterable[AnyPart]) -> Prompt:
        """The prompt with what the parts of a response leave in the history.

        As `extend` with `from_parts`, but for the results of calls made before, which an approval let run: each goes to
        the tool message right behind the turn that made its call.
        """
        messages = fold(parts)
        if not messages or messages[0].role != "tool":
            return self.extend(messages)
        early = [part for part in messages[0].content if part.type == "tool-result"]
        return Prompt(place_results(self, early)).extend(messages[1:])

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The open calls of the last turn, in order: approval requests without an answer, calls without a result."""
        start = self.__length__ - 1
        while start > 0 and self[start].role != "assistant":
            start -= 1
        turn = self.__buffer__.messages[max(start, 0) : self.__length__]
        return pending_in(part for message in turn if message.role != "system" for part in message.content)

    def reply(self, answer: Callable[[Pending], ToolContent | None]) -> Prompt:
        """The prompt with an answer to each call of `pending`, in a tool message; itself where there is none.

        Another run of an agent or a model goes on from it. `answer` may be a method, as in
        `history.reply(Pending.approve)`, or a function that gives `call.approve()`, `call.deny("…")` or
        `call.answer(result)`; where it gives None, the call waits on.

        Raises:
            ValueError: the answer is of the wrong kind, see `Pending`.

        >>> from fxai.messages.message import AssistantMessage, ToolCallPart
        >>> asked = Prompt((AssistantMessage.make(ToolCallPart("c", "add", {"a": 1, "b": 2})),))
        >>> print(asked.reply(lambda call: call.answer(call.params["a"] + call.params["b"])))
        assistant: [call c] add {"a": 1, "b": 2}
        tool: [result c] add 3
        """
        answers = [given for call in self.pending if (given := answer(call)) is not None]
        return self.append(ToolMessage.make(*answers)) if answers else self

    def concat(self, other: PromptInput) -> Prompt:
        """The prompt with another behind it; `other` may be all that `make` takes."""
        behind = Prompt.make(other)
        return self.extend(behind) if self.__length__ else behind

    def __add__(self, other: Prompt) -> Prompt:
        return self.concat(other)

    def system(self) -> str | None:
        """The texts of the system messages, a blank line between them; None when there is none."""
        texts = [message.content for message in self if message.role == "system"]
        return "\n\n".join(texts) if texts else None

    def set_system(self, content: str) -> Prompt:
        """The prompt with this one system message, at the front, in place of all that it had."""
        return Prompt((SystemMessage(content), *self.without_system()))

    def prepend_system(self, content: str) -> Prompt:
        """The prompt with this text before that of its first system message, or as a new one at the front."""
        return _with_system(self, content, "")

    def append_system(self, content: str) -> Prompt:
        """The prompt with this text behind that of its first system message, or as a new one at the front."""
        return _with_system(self, "", content)

    def without_system(self) -> Prompt:
        """The prompt without its system messages."""
        return Prompt(message for message in self if message.role != "system")

    def to_data(self) -> list[dict[str, Any]]:
        """The messages as plain JSON data, nothing lost: `[{"role": "user", "content": [{"type": "text", …}]}, …]`.

        Raises:
            MessageError: A payload (parameters, a result, metadata) is no JSON data; the message names it.
        """
        return messages_to_data(self.messages)

    def to_json(self) -> str:
        """The messages as JSON text, in the form of `to_data`; bytes are base64.

        Raises:
            MessageError: A payload (parameters, a result, metadata) is no JSON data; the message names it.
        """
        return messages_to_json(self.messages)

    @staticmethod
    def from_data(data: object) -> Result[Prompt, DecodeFailure]:
        """The prompt that plain JSON data holds; the content of user and assistant may be a string.

        Fails with:
            DecodeFailure: An unknown role, a part that its role does not have, an unknown field or a wrong type, each
                by JSON pointer.
        """
        return messages_from_data(data).map(Prompt)

    @staticmethod
    def from_json(text: str | bytes, limits: Limits = HISTORY_LIMITS) -> Result[Prompt, DecodeFailure]:
        """The prompt that JSON text holds, of at most 1 GiB and 256 levels unless `limits` says otherwise.

        Fails with:
            DecodeFailure: As `from_data`, and what is not JSON or beyond the limits.

        >>> print(Prompt.from_json('[{"role": "nobody", "content": "A"}]').failure())
        /0/role: expected ..., found ...
        """
        return messages_from_json(text, limits).map(Prompt)

    def __iter__(self) -> Iterator[Message]:
        return islice(self.__buffer__.messages, self.__length__)

    def __len__(self) -> int:
        return self.__length__

    def __getitem__(self, index: int) -> Message:
        place = index + self.__length__ if index < 0 else index
        if not 0 <= place < self.__length__:
            raise IndexError(f"message {index} of a prompt of {self.__length__}")
        return self.__buffer__.messages[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        if self.__length__ != other.__length__:
            return False
        return self.__buffer__ is other.__buffer__ or self.messages == other.messages

    def __hash__(self) -> int:
        return hash(self.messages)

    def __reduce__(self) -> tuple[type[Prompt], tuple[tuple[Message, ...]]]:
        return Prompt, (self.messages,)

    def __repr__(self) -> str:
        return f"Prompt({self.messages!r})"

    def __str__(self) -> str:
        return _transcript(self)


def _with_system(prompt: Prompt, before: str, behind: str) -> Prompt:
    """The prompt with text around that of its first system message, or as a new one at the front."""
    messages = list(prompt)
    for place, message in enumerate(messages):
        if message.role == "system":
            messages[place] = SystemMessage(before + message.content + behind, metadata=message.metadata)
            return Prompt(messages)
    return Prompt((SystemMessage(before + behind), *messages))


Prompt.empty = Prompt()


# ---- as a person reads it


def _transcript(messages: Iterable[Message]) -> str:
    """The messages as text, each part on lines of its own behind its role; for reading, not for reading back."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    if message.role == "system":
        return [f"system: {message.content}"]
    return [f"{message.role}: {_line(part)}" for part in message.content]


def _line(part: Content) -> str:
    match part.type:
        case "text":
            return part.text
        case "reasoning":
            return f"[reasoning] {part.text}"
        case "file":
            data = part.data
            return f"[{part.media_type}] {data.url if isinstance(data, FileUrl) else f'{len(data)} bytes'}"
        case "tool-call":
            params = _plain(part.params) if part.params_text is None else part.params_text
            return f"[call {part.id}] {part.name} {params}"
        case "tool-result":
            return f"[{'failure' if part.is_failure else 'result'} {part.id}] {part.name} {_plain(part.result)}"
        case "tool-approval-request":
            return f"[approval {part.approval_id}] asked for call {part.tool_call_id}"
        case "tool-approval-response":
            reason = f": {part.reason}" if part.reason else ""
            answer = "approved" if part.approved else part.unanswered or "denied"
            return f"[approval {part.approval_id}] {answer}{reason}"


def _plain(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=repr)
