"""Prompts: a whole conversation as an immutable value. Use a prompt to start or continue a conversation.

>>> prompt = Prompt.make("What is 2 + 3?").set_system("You add.")
>>> [message.role for message in prompt]
['system', 'user']
>>> Prompt.from_json(prompt.to_json()).unwrap() == prompt
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from operator import is_
from threading import Lock
from typing import Any, ClassVar, TypeAlias, cast, final

from returns.result import Result

from fxai.messages.accumulate import fold
from fxai.messages.calls import Pending, insert_results, pending_in
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
"""The input of `Prompt.make`: the text of a user, a prompt, a message, or messages as records or JSON values."""


@final
class _Buffer:
    """Messages that prompts share. The buffer only grows, and each prompt reads a prefix of it."""

    __slots__ = ("lock", "messages")

    def __init__(self, messages: list[Message]) -> None:
        self.messages: list[Message] = messages
        self.lock: Lock = Lock()


@final
class Prompt:
    """A sequence of messages: immutable, comparable, hashable, picklable, and a monoid with `concat` and `empty`.

    The time to append is independent of the length of the prompt, because an agent appends thousands of times. The time
    of `messages`, and of methods that edit system messages, is linear in the length.
    """

    # A prompt is a prefix of a shared buffer. If a prompt ends at the end of its buffer, append writes to this buffer,
    # because no other prompt reads this part. Otherwise append copies the messages to a new buffer. Therefore a loop
    # that appends to the newest prompt copies nothing, and branches do not disturb each other. The lock allows only one
    # thread to extend the buffer. A tuple would copy all pointers in each step. The cost: a prompt keeps alive the
    # messages after it in its buffer.
    __slots__ = ("__buffer__", "__length__", "__weakref__")

    __buffer__: _Buffer
    __length__: int

    empty: ClassVar[Prompt]
    """The prompt without messages."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.__buffer__ = _Buffer(list(messages))
        self.__length__ = len(self.__buffer__.messages)

    @staticmethod
    def make(content: PromptInput) -> Prompt:
        """Return a prompt from a string, a message, or messages.

        A string becomes a user message. A message can be a record or a JSON value such as
        `{"role": "user", "content": "hi"}`, in the form of `to_data`. The content of a user or an assistant can be a
        string. A prompt stays unchanged.

        Raises:
            MessageError: If a value is not a message. The error contains the value and its location. For data from
                outside, use `from_data`.

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
        """Return the messages for the history from the parts of a response, streamed or whole.

        Calls become an assistant message. Results become the tool message after it, in encoded form, except results of
        tools that the provider ran, which stay in the assistant message. The function drops preliminary results and
        preserves order and metadata.

        >>> from fxai.messages.part import ToolCall, ToolResult
        >>> [m.role for m in Prompt.from_parts([ToolCall("c", "add", {}), ToolResult("c", "add", 3)])]
        ['assistant', 'tool']
        """
        return Prompt(fold(parts))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as a new tuple."""
        return tuple(self)

    def append(self, *messages: Message) -> Prompt:
        """Return the prompt with these messages at the end."""
        return self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> Prompt:
        """Return the prompt with these messages at the end."""
        more = list(messages)
        if not more:
            return self
        buffer = self.__buffer__
        with buffer.lock:
            # never extend the buffer of `Prompt.empty`, because it would grow forever
            if self.__length__ and len(buffer.messages) == self.__length__:
                buffer.messages.extend(more)
            else:
                buffer = _Buffer([*buffer.messages[: self.__length__], *more])
        prompt = object.__new__(Prompt)
        prompt.__buffer__ = buffer
        prompt.__length__ = self.__length__ + len(more)
        return prompt

    def with_response(self, parts: Iterable[AnyPart]) -> Prompt:
        """Return the prompt with the messages for the history from the parts of a response.

        It works like `extend` with `from_parts`, except that the results of approved earlier calls go to the tool
        message directly after the turn of their call.
        """
        messages = fold(parts)
        if not messages or messages[0].role != "tool":
            return self.extend(messages)
        early = [part for part in messages[0].content if part.type == "tool-result"]
        return Prompt(insert_results(self, early)).extend(messages[1:])

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The open calls in the last turn: approval requests without an answer, and calls without a result."""
        start = self.__length__ - 1
        while start > 0 and self[start].role != "assistant":
            start -= 1
        turn = self.__buffer__.messages[max(start, 0) : self.__length__]
        return pending_in(part for message in turn if message.role != "system" for part in message.content)

    def reply(self, answer: Callable[[Pending], ToolContent | None]) -> Prompt:
        """Return the prompt with a tool message that answers the calls of `pending`, or the prompt itself.

        Another run of an agent or a model continues from it. `answer` can be a method, as in
        `history.reply(Pending.approve)`, or a function that returns `call.approve()`, `call.deny("…")`, or
        `call.answer(result)`. If it returns None, the call stays pending.

        Raises:
            TypeError: If `answer` returns another value, such as a `bool`.
            ValueError: If the answer has the wrong kind, see `Pending`.

        >>> from fxai.messages.message import AssistantMessage, ToolCallPart
        >>> asked = Prompt((AssistantMessage.make(ToolCallPart("c", "add", {"a": 1, "b": 2})),))
        >>> print(asked.reply(lambda call: call.answer(call.params["a"] + call.params["b"])))
        assistant: [call c] add {"a": 1, "b": 2}
        tool: [result c] add 3
        """
        answers = [given for call in self.pending if (given := answer(call)) is not None]
        if strange := [each for each in cast("list[object]", answers) if not isinstance(each, ToolContent)]:
            raise TypeError(
                f"reply: the function must return an answer, got {strange[0]!r}. Return call.approve(), "
                "call.deny('…'), call.answer(…), or None."
            )
        return self.append(ToolMessage.make(*answers)) if answers else self

    def concat(self, other: PromptInput) -> Prompt:
        """Return the prompt with another prompt at the end. `other` can be any input of `make`."""
        behind = Prompt.make(other)
        return self.extend(behind) if self.__length__ else behind

    def count_shared(self, other: Prompt) -> int:
        """Return how many of the first messages are the same objects in both prompts.

        The time is constant if one prompt is an extension of the other.

        >>> hello = Prompt.make("Hello")
        >>> (hello + Prompt.make("Again")).count_shared(hello)
        1
        """
        if self.__buffer__ is other.__buffer__:
            return min(self.__length__, other.__length__)
        return sum(takewhile(bool, map(is_, self, other)))

    def __add__(self, other: Prompt) -> Prompt:
        return self.concat(other)

    def system(self) -> str | None:
        """Return the contents of the system messages with a blank line between them, or None."""
        texts = [message.content for message in self if message.role == "system"]
        return "\n\n".join(texts) if texts else None

    def set_system(self, content: str) -> Prompt:
        """Return the prompt with this system message at the start instead of all its system messages."""
        return Prompt((SystemMessage(content), *self.without_system()))

    def prepend_system(self, content: str) -> Prompt:
        """Return the prompt with this text before the text of its first system message, or as a new system message."""
        return _with_system(self, content, "")

    def append_system(self, content: str) -> Prompt:
        """Return the prompt with this text after the text of its first system message, or as a new system message."""
        return _with_system(self, "", content)

    def without_system(self) -> Prompt:
        """Return the prompt without its system messages."""
        return Prompt(message for message in self if message.role != "system")

    def to_data(self) -> list[dict[str, Any]]:
        """Return the messages as JSON values without loss: `[{"role": "user", "content": [{"type": "text", …}]}, …]`.

        Raises:
            MessageError: If a payload (parameters, a result, metadata) is not a JSON value. The message names it.
        """
        return messages_to_data(self.messages)

    def to_json(self) -> str:
        """Return the messages as a JSON string, in the form of `to_data`. Bytes are in base64.

        Raises:
            MessageError: If a payload (parameters, a result, metadata) is not a JSON value. The message names it.
        """
        return messages_to_json(self.messages)

    @staticmethod
    def from_data(data: object) -> Result[Prompt, DecodeFailure]:
        """Return the prompt from JSON values. The content of a user or an assistant can be a string.

        Fails with:
            DecodeFailure: If a role is unknown, a role does not allow a part, a field is unknown, or a type differs.
                It contains JSON pointers.
        """
        return messages_from_data(data).map(Prompt)

    @staticmethod
    def from_json(text: str | bytes, limits: Limits = HISTORY_LIMITS) -> Result[Prompt, DecodeFailure]:
        """Return the prompt from a JSON string. Default limits: 1 GiB and 256 levels.

        Fails with:
            DecodeFailure: See `from_data`. Also if the string is not JSON or exceeds the limits.

        >>> print(Prompt.from_json('[{"role": "nobody", "content": "A"}]').failure())
        /0/role: expected ..., found ...
        """
        return messages_from_json(text, limits).map(Prompt)

    def __iter__(self) -> Iterator[Message]:
        return islice(self.__buffer__.messages, self.__length__)

    def __len__(self) -> int:
        return self.__length__

    def __getitem__(self, index: int) -> Message:
        location = index + self.__length__ if index < 0 else index
        if not 0 <= location < self.__length__:
            raise IndexError(f"message {index} does not exist: the prompt has {self.__length__} messages")
        return self.__buffer__.messages[location]

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
        """Return the messages as text for people, with the role before each part. fxai cannot read this form back."""
        return "\n".join(
            f"{message.role}: {line}"
            for message in self
            for line in ([message.content] if message.role == "system" else map(_line, message.content))
        )


def _with_system(prompt: Prompt, before: str, behind: str) -> Prompt:
    """Return the prompt with text around the text of its first system message, or as a new system message."""
    messages = list(prompt)
    for index, message in enumerate(messages):
        if message.role == "system":
            messages[index] = SystemMessage(before + message.content + behind, metadata=message.metadata)
            return Prompt(messages)
    return Prompt((SystemMessage(before + behind), *messages))


Prompt.empty = Prompt()


# ---- the form for readers


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
