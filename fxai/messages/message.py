"""Messages: who said what, in a prompt.

A message is an immutable record told apart by `role`, in code and in JSON. Its content is a tuple of the parts that
this role can say; a system message holds one text.

>>> UserMessage.make("Hello").content
(TextPart(text='Hello', metadata={}),)
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

from fxai.messages.content import AssistantContent, TextPart, ToolContent, UserContent
from fxai.messages.metadata import Carrier

__all__ = ["AssistantMessage", "Message", "SystemMessage", "ToolMessage", "UserMessage"]


def _refuse_loose(content: object, kind: type[Any]) -> None:
    if content.__class__ is not tuple:
        raise TypeError(
            f"the content of {kind.__name__} is a tuple of parts, not {type(content).__name__}; "
            f"{kind.__name__}.make(…) makes one of parts and strings"
        )


@final
class SystemMessage(Carrier, frozen=True, tag_field="role", tag="system"):
    """What the model is told of its task."""

    role: ClassVar[Literal["system"]] = "system"
    content: str


@final
class UserMessage(Carrier, frozen=True, tag_field="role", tag="user"):
    """What a user said: texts and files."""

    role: ClassVar[Literal["user"]] = "user"
    content: tuple[UserContent, ...]

    def __post_init__(self) -> None:
        _refuse_loose(self.content, UserMessage)

    @staticmethod
    def make(*content: str | UserContent) -> UserMessage:
        """What a user said, of strings and parts."""
        return UserMessage(tuple(TextPart(one) if isinstance(one, str) else one for one in content))

    @property
    def text(self) -> str:
        """The texts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class AssistantMessage(Carrier, frozen=True, tag_field="role", tag="assistant"):
    """What a model said: texts, reasoning, files, tool calls, and results of tools that the provider ran."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[AssistantContent, ...]

    def __post_init__(self) -> None:
        _refuse_loose(self.content, AssistantMessage)

    @staticmethod
    def make(*content: str | AssistantContent) -> AssistantMessage:
        """What a model said, of strings and parts."""
        return AssistantMessage(tuple(TextPart(one) if isinstance(one, str) else one for one in content))

    @property
    def text(self) -> str:
        """The texts, joined; reasoning is not among them."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class ToolMessage(Carrier, frozen=True, tag_field="role", tag="tool"):
    """What came back for a model's calls: results, and answers to approval requests."""

    role: ClassVar[Literal["tool"]] = "tool"
    content: tuple[ToolContent, ...]

    def __post_init__(self) -> None:
        _refuse_loose(self.content, ToolMessage)

    @staticmethod
    def make(*content: ToolContent) -> ToolMessage:
        """What came back, of parts."""
        return ToolMessage(content)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""One message of a prompt, of any role."""
