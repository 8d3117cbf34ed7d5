"""What a message cannot hold, what a part does not have, and what cannot be changed."""

from __future__ import annotations

from fxai.messages import (
    AiError,
    AssistantMessage,
    FilePart,
    Finish,
    Part,
    Prompt,
    ReasoningPart,
    StreamPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)

text = TextPart("hi")
prompt = Prompt.make("hi")

UserMessage.make(ReasoningPart("hm"))  # wrong: a user does not reason aloud
UserMessage((ToolCallPart("1", "t", {}),))  # wrong: a user calls no tools
ToolMessage.make(text)  # wrong: a tool message holds results
AssistantMessage("hello")  # wrong: content is a tuple; `make` takes a string
FilePart("image/png", "https://example.org/")  # wrong: a URL is a FileUrl
Finish("bored")  # wrong: finish reasons are closed
Prompt.make(3)  # wrong: a number is not a prompt
AiError("M", "f", "too slow")  # wrong: reasons are records
text.text = "changed"  # wrong: parts are immutable
prompt.messages.append  # wrong: messages are a tuple


def not_narrowed(part: StreamPart) -> str:
    return part.delta  # wrong: not every part has a delta


def no_such_kind(part: Part) -> str:
    if part.type == "text":
        return part.delta  # wrong: a whole text has no delta
    return part.type
