"""Conversations in the form of the local model. Use this module to build the prompts of a turn from messages.

>>> from fxai.messages.message import UserMessage
>>> talk = conversation([UserMessage.make("Hello")])
>>> talk.current.request
'Hello'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, final

import msgspec

from fxai.messages.message import AssistantMessage, FilePart, Message, ToolMessage, ToolResultPart, UserMessage
from fxai.models.prepared_tools import contents_of, file_note

_THREE_WORDS: Final = r"(?=\w++\s++\w++\s++\w)"
_END: Final = re.compile(
    rf"(?:(?<=[.?!;])\s++(?:(?:and|then|also)\s++)*|(?:,|(?<!\s))\s++(?:and then|then|and also|and)\s++){_THREE_WORDS}",
    re.IGNORECASE,
)


@final
class PastCall(msgspec.Struct, frozen=True):
    """A call and its result, or None before the result arrives."""

    id: str
    name: str
    params: Any
    result: str | None = None
    is_failure: bool = False


@final
class PastExchange(msgspec.Struct, frozen=True):
    """A request of the user, its calls, and its answer. The answer is empty until the model writes it."""

    request: str = ""
    calls: tuple[PastCall, ...] = ()
    answer: str = ""


@final
class ModelInput(msgspec.Struct, frozen=True):
    """The instructions, the past exchanges, the current exchange, and the media types of files.

    ``left_out`` contains the media types of the user's files, which the model cannot read. ``noted`` contains the media
    types of the files in results, which a note replaces.
    """

    system: str = ""
    past: tuple[PastExchange, ...] = ()
    current: PastExchange = PastExchange()
    left_out: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def shorter(self) -> ModelInput | None:
        """Return the conversation without its oldest past exchange, or None if it has only the current exchange."""
        return msgspec.structs.replace(self, past=self.past[1:]) if self.past else None


def conversation(messages: Iterable[Message]) -> ModelInput:
    """Convert messages to a conversation. A user message starts an exchange unless it follows another user message."""
    system: list[str] = []
    done: list[PastExchange] = []
    left_out: list[str] = []
    noted: list[str] = []
    current = PastExchange()
    for message in messages:
        match message:
            case UserMessage():
                left_out += [part.media_type for part in message.content if part.type == "file"]
                if current.calls or current.answer:
                    done.append(current)
                    current = PastExchange()
                text = f"{current.request}\n{message.text}".strip()
                current = msgspec.structs.replace(current, request=text)
            case AssistantMessage() | ToolMessage():
                current = _add_message(current, message, noted)
            case _:
                system.append(message.content)
    return ModelInput("\n".join(system), tuple(done), current, tuple(left_out), tuple(noted))


def clauses(request: str) -> tuple[str, ...]:
    """Split a request at its clauses. Each part except the first has at least three words.

    >>> clauses("Add 3 and 9. Then show me notes.txt")
    ('Add 3 and 9.', 'show me notes.txt')
    """
    return tuple(part.strip() for part in _END.split(request) if part.strip())


def _add_message(current: PastExchange, message: AssistantMessage | ToolMessage, noted: list[str]) -> PastExchange:
    calls = list(current.calls)
    answer = current.answer
    for part in message.content:
        match part.type:
            case "text":
                answer += part.text
            case "tool-call":
                calls.append(PastCall(part.id, part.name, part.params))
            case "tool-result":
                text = _result_text(part, noted)
                for index, call in enumerate(calls):
                    if call.id == part.id:
                        calls[index] = msgspec.structs.replace(call, result=text, is_failure=part.is_failure)
            case _:
                pass
    return msgspec.structs.replace(current, calls=tuple(calls), answer=answer)


def _result_text(part: ToolResultPart, noted: list[str]) -> str:
    """Return a result as a string. A note replaces each file, and `noted` receives its media type."""
    contents = contents_of(part, "file")
    if contents is None:
        return part.result if isinstance(part.result, str) else json.dumps(part.result, ensure_ascii=False, default=str)
    noted += [one.media_type for one in contents if isinstance(one, FilePart)]
    return "\n".join(file_note(one) if one.type == "file" else one.text for one in contents)
