"""Messages of a prompt, and the parts that they are made of: texts, files, reasoning, tool calls and their results.

A message is an immutable record told apart by `role`, in code and in JSON. Its content is a tuple of parts, told apart
by `type`; which parts depends on the role. A system message holds one text. Both type checkers narrow by role and type.

Messages and parts carry metadata: what a provider adds beside the content (ids, signatures, encrypted reasoning, cache
marks), as plain data under the provider's name. It goes wherever the part goes, to history, to JSON and back to the
provider; only that provider's adapter reads it.

>>> UserMessage.make("Hello").content
(TextPart(text='Hello', metadata={}),)
>>> merge_metadata({"acme": {"id": "a"}}, {"acme": {"signature": "S"}, "other": {"x": 1}})
{'acme': {'id': 'a', 'signature': 'S'}, 'other': {'x': 1}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, final

import msgspec

from fxai.schema.data import frozen, is_listed

Metadata: TypeAlias = Mapping[str, Any]
"""Provider name to that provider's data, which is plain JSON data."""

_TOOLS: Final = "tools"  # in the metadata of a system message: which tools change there, for every provider
_NO_METADATA: Final[Metadata] = frozen({})  # that of all records without any: a long history holds very many of them

# Plain JSON data is held as Python dicts and lists, which have no hash. Equality still sees all of it.
_OUTSIDE_HASH = frozenset({"metadata", "params", "result", "encoded_result"})


# What holds plain data alone is in no circle of references, and a long history costs the garbage collector nothing.
class WithMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An immutable record with metadata of providers: every part and every message is one.

    Equality compares everything. The hash leaves out metadata and JSON payloads, so that parts can be members of sets
    and keys of maps whatever they carry.
    """

    metadata: Metadata = _NO_METADATA

    def __hash__(self) -> int:
        fields = (getattr(self, name) for name in self.__struct_fields__ if name not in _OUTSIDE_HASH)
        return hash((self.__class__.__name__, *fields))


def merge_metadata(*several: Metadata) -> Metadata:
    """One metadata of several: providers side by side, one provider's keys together, the later value winning."""
    merged: dict[str, Any] = {}
    for metadata in several:
        for provider, data in metadata.items():
            before = merged.get(provider)
            if isinstance(before, Mapping) and isinstance(data, Mapping):
                merged[provider] = {**cast("Metadata", before), **cast("Metadata", data)}
            else:
                merged[provider] = data
    return merged


@final
class FileUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a file is, for the provider to fetch; fxai itself never does. `data:` URLs are kept as they are."""

    url: str


@final
class TextPart(WithMetadata, frozen=True, tag_field="type", tag="text"):
    """A text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@final
class ReasoningPart(WithMetadata, frozen=True, tag_field="type", tag="reasoning"):
    """Reasoning of a model. The text may be empty where the provider encrypts it into the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@final
class FilePart(WithMetadata, frozen=True, tag_field="type", tag="file"):
    """A file: its media type, and its bytes or where they are.

    In JSON the bytes are base64 text, and a URL is an object: `"data": "aGk="` or `"data": {"url": "https://…"}`.

    >>> FilePart.of_url("image/png", "https://example.org/cat.png").data
    FileUrl(url='https://example.org/cat.png')
    """

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    data: bytes | FileUrl
    file_name: str | None = None

    @staticmethod
    def of_url(media_type: str, url: str, file_name: str | None = None) -> FilePart:
        """A file that the provider fetches from `url`."""
        return FilePart(media_type, FileUrl(url), file_name)


@final
class ToolCallPart(WithMetadata, frozen=True, tag_field="type", tag="tool-call"):
    """A tool that the model asked for.

    Attributes:
        id: What the result refers to.
        name: The tool's name.
        params: The parameters as plain JSON data, as the tool was run with; None when they were no JSON.
        provider_executed: Whether the provider ran the tool itself.
        dynamic: Whether the tool was a dynamic one.
        params_text: The text that the model wrote where it is not JSON; None when the parameters were JSON.
        json_text: Where the model wrote JSON text in place of an object or an array, as JSON pointers; `params` holds
            the parsed data there.
    """

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    id: str
    name: str
    params: Any
    provider_executed: bool = False
    dynamic: bool = False
    params_text: str | None = None
    json_text: tuple[str, ...] = ()


@final
class ToolResultPart(WithMetadata, frozen=True, tag_field="type", tag="tool-result"):
    """The result of a tool call, as plain JSON data: its success, or with `is_failure` its failure."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    id: str
    name: str
    result: Any
    is_failure: bool = False
    provider_executed: bool = False
    dynamic: bool = False


@final
class ToolApprovalRequestPart(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-request"):
    """A request for a person's approval of the call `tool_call_id`.

    Attributes:
        approval_id: What the answer refers to.
        tool_call_id: Which call of the same turn.
        digest: A digest of tool, schemas and parameters, to which the approval is bound. Empty for a provider's own.
        expires: Until when it may be approved, in seconds since 1970; None: without end.
        signature: Of the asking program, made with an `ApprovalKey`.
    """

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    digest: str = ""
    expires: float | None = None
    signature: str = ""


@final
class ToolApprovalResponsePart(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-response"):
    """A person's answer to the approval request `approval_id`, or that no answer came.

    Attributes:
        approval_id: Which request.
        approved: Whether the call may run.
        reason: Why, for the model.
        unanswered: Why no answer came, with `approved=False`: the time is over, or there is no person to ask. The model
            then reads that, and not a denial.
    """

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    approved: bool
    reason: str | None = None
    unanswered: Literal["expired", "unavailable"] | None = None


UserContent: TypeAlias = TextPart | FilePart
"""The parts of a user message."""

AssistantContent: TypeAlias = (
    TextPart | ReasoningPart | FilePart | ToolCallPart | ToolResultPart | ToolApprovalRequestPart
)
"""The parts of an assistant message. A result is among them where the provider ran the tool."""

ToolContent: TypeAlias = ToolResultPart | ToolApprovalResponsePart
"""The parts of a tool message."""

Content: TypeAlias = AssistantContent | ToolApprovalResponsePart
"""Any part of any message."""


class _WithContent(WithMetadata, frozen=True):
    """A message whose content is a tuple of parts."""

    content: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.content.__class__ is not tuple:
            kind = self.__class__.__name__
            raise TypeError(
                f"the content of {kind} is a tuple of parts, not {type(self.content).__name__}; "
                f"{kind}.make(…) makes one of parts and strings"
            )


@final
class SystemMessage(WithMetadata, frozen=True, tag_field="role", tag="system"):
    """Instructions for the model.

    One that stands in the middle of a conversation may also say which tools there are from there on; see
    `change_tools`.

    >>> message = SystemMessage.change_tools(add=["search"], content="You may search now.")
    >>> message.added_tools, message.removed_tools
    (('search',), ())
    """

    role: ClassVar[Literal["system"]] = "system"
    content: str

    @staticmethod
    def change_tools(*, add: Iterable[str] = (), remove: Iterable[str] = (), content: str = "") -> SystemMessage:
        """A message from which on the model has other tools, so that what is before it stays in the provider's cache.

        The tools themselves are those of the request, also the ones that are removed here. A provider that knows no
        such messages has all of them from the beginning, and a tool that is removed stays there, with a warning.

        Args:
            add: the names of tools that are there from here on.
            remove: the names of tools that are there no more.
            content: instructions beside that.

        Raises:
            ValueError: it names no tool, or one both ways.
        """
        added, removed = list(dict.fromkeys(add)), list(dict.fromkeys(remove))
        both = set(added) & set(removed)
        if both or not (added or removed):
            problem = f"adds and removes {', '.join(sorted(both))}" if both else "names no tool"
            raise ValueError(f"a change of tools {problem}: give the names of some in add, of others in remove")
        return SystemMessage(content, metadata={_TOOLS: {"add": added, "remove": removed}})

    @property
    def added_tools(self) -> tuple[str, ...]:
        """The names of the tools that are there from here on."""
        return self._names("add")

    @property
    def removed_tools(self) -> tuple[str, ...]:
        """The names of the tools that are there no more."""
        return self._names("remove")

    def _names(self, which: str) -> tuple[str, ...]:
        change = self.metadata.get(_TOOLS)
        names = cast("Metadata", change).get(which) if isinstance(change, Mapping) else None
        return tuple(name for name in names if isinstance(name, str)) if is_listed(names) else ()


@final
class UserMessage(_WithContent, frozen=True, tag_field="role", tag="user"):
    """A message of a user: texts and files."""

    role: ClassVar[Literal["user"]] = "user"
    content: tuple[UserContent, ...]

    @staticmethod
    def make(*content: str | UserContent) -> UserMessage:
        """A message of strings and parts."""
        return UserMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @property
    def text(self) -> str:
        """The texts, joined."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class AssistantMessage(_WithContent, frozen=True, tag_field="role", tag="assistant"):
    """A message of a model: texts, reasoning, files, tool calls, and results of tools that the provider ran."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[AssistantContent, ...]

    @staticmethod
    def make(*content: str | AssistantContent) -> AssistantMessage:
        """A message of strings and parts."""
        return AssistantMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @property
    def text(self) -> str:
        """The texts, joined; reasoning is not among them."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class ToolMessage(_WithContent, frozen=True, tag_field="role", tag="tool"):
    """The answers to a model's calls: their results, and answers to approval requests."""

    role: ClassVar[Literal["tool"]] = "tool"
    content: tuple[ToolContent, ...]

    @staticmethod
    def make(*content: ToolContent) -> ToolMessage:
        """A message of parts."""
        return ToolMessage(content)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""One message of a prompt, of any role."""
