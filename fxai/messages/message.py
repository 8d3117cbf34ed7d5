"""Messages in a prompt and their parts: text, files, reasoning, tool calls, and results. Use it to build a history.

A message is an immutable record. Its `role` distinguishes messages, in code and in JSON. Its content is a tuple of
parts, and the `type` distinguishes the parts. The role determines the allowed parts. A system message contains a single
string. Both type checkers narrow by role and by type.

Messages and parts carry metadata: data from a provider next to the content (ids, signatures, encrypted reasoning, cache
marks), as JSON values under the provider name. The metadata stays with the part in the history, in JSON, and in
requests. Only the adapter of the same provider reads it.

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
"""The data of providers by their names, as JSON values."""

_TOOLS: Final = "tools"  # key in the metadata of a system message for changes of tools, for every provider
_HANDLE: Final = "fxai_handle"  # key in the metadata of a result for the handle of the stored whole result
_NO_METADATA: Final[Metadata] = frozen({})  # shared by all records without metadata, because histories contain many

# JSON values are dicts and lists without a hash. The hash ignores these fields, but equality compares them.
_OUTSIDE_HASH = frozenset({"metadata", "params", "result", "encoded_result"})


# gc=False: these values are never in a reference cycle, so that a long history costs the garbage collector nothing
class WithMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An immutable record with metadata of providers, which is the base of all parts and messages.

    Equality compares all fields. The hash ignores metadata and JSON payloads, so that sets and keys of maps can contain
    parts with any payload.
    """

    metadata: Metadata = _NO_METADATA

    def __hash__(self) -> int:
        fields = (getattr(self, name) for name in self.__struct_fields__ if name not in _OUTSIDE_HASH)
        return hash((self.__class__.__name__, *fields))


def handle_data(handle: str) -> Metadata:
    """Return the metadata of a result with this handle of a stored large result."""
    return {_HANDLE: handle}


def handle_of(part: WithMetadata) -> str | None:
    """Return the handle of the stored large result of a part, or None.

    >>> handle_of(ToolResultPart("c", "search", "…", metadata=handle_data("r_1")))
    'r_1'
    """
    handle = part.metadata.get(_HANDLE)
    return handle if isinstance(handle, str) else None


def handles_of(messages: Iterable[Message]) -> frozenset[str]:
    """Return the handles of the stored large results in messages."""
    parts = (part for message in messages if message.role == "tool" for part in message.content)
    return frozenset(handle for part in parts if (handle := handle_of(part)) is not None)


def merge_metadata(*several: Metadata) -> Metadata:
    """Return the combined metadata. If providers or their keys repeat, later values override earlier values."""
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
    """The location of a file that the provider fetches. fxai never fetches it, and stores `data:` URLs unchanged."""

    url: str
    """The URL."""


@final
class TextPart(WithMetadata, frozen=True, tag_field="type", tag="text"):
    """A string."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    """The string."""


@final
class ReasoningPart(WithMetadata, frozen=True, tag_field="type", tag="reasoning"):
    """Reasoning of a model. The text can be empty if the provider encrypts it in the metadata."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    """The reasoning. It can be empty."""


@final
class FilePart(WithMetadata, frozen=True, tag_field="type", tag="file"):
    """A file: its media type, and its bytes or its location.

    In JSON, the bytes are a base64 string, and a URL is an object: `"data": "aGk="` or `"data": {"url": "https://…"}`.

    >>> FilePart.of_url("image/png", "https://example.org/cat.png").data
    FileUrl(url='https://example.org/cat.png')
    """

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    """The media type, such as `"image/png"`."""
    data: bytes | FileUrl
    """The bytes, or the location."""
    file_name: str | None = None
    """The name of the file, or None."""

    @staticmethod
    def of_url(media_type: str, url: str, file_name: str | None = None) -> FilePart:
        """Return a file that the provider fetches from `url`."""
        return FilePart(media_type, FileUrl(url), file_name)


@final
class ToolCallPart(WithMetadata, frozen=True, tag_field="type", tag="tool-call"):
    """A call of a tool by the model."""

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    id: str
    """The call id, which its result repeats."""
    name: str
    """The tool name."""
    params: Any
    """The parameters as JSON values, as the tool received them. None if the model wrote invalid JSON."""
    provider_executed: bool = False
    """True if the provider ran the tool."""
    dynamic: bool = False
    """True if the tool is dynamic."""
    params_text: str | None = None
    """The text of the model if it is not JSON, otherwise None."""
    json_text: tuple[str, ...] = ()
    """JSON pointers to objects and arrays that the model wrote as JSON strings. `params` contains the parsed values."""


@final
class ToolResultPart(WithMetadata, frozen=True, tag_field="type", tag="tool-result"):
    """The result of a tool call as a JSON value. It is a failure if `is_failure` is true, otherwise a success."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    id: str
    """The id of the call."""
    name: str
    """The name of the tool."""
    result: Any
    """The result as a JSON value."""
    is_failure: bool = False
    """True if the result is a failure."""
    provider_executed: bool = False
    """True if the provider ran the tool."""
    dynamic: bool = False
    """True if the tool is dynamic."""


@final
class ToolApprovalRequestPart(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-request"):
    """A request for approval of the call `tool_call_id`."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    """The request id, which the answer repeats."""
    tool_call_id: str
    """The call id in the same turn."""
    digest: str = ""
    """The digest of the approved tool, schemas, and parameters. Empty for a request of the provider."""
    expires: float | None = None
    """The time when the request expires, in seconds since 1970, or None for no limit."""
    signature: str = ""
    """The signature of the requesting program by its `ApprovalKey`."""


@final
class ToolApprovalResponsePart(WithMetadata, frozen=True, tag_field="type", tag="tool-approval-response"):
    """An answer to the approval request `approval_id`, or the information that no answer arrived."""

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    """The request id."""
    approved: bool
    """True if the call can run."""
    reason: str | None = None
    """The reason for the model."""
    unanswered: Literal["expired", "unavailable"] | None = None
    """The reason for a missing answer, with `approved=False`: the request expired, or no user was available. The model
    then does not receive a denial."""


UserContent: TypeAlias = TextPart | FilePart
"""The parts of a user message."""

AssistantContent: TypeAlias = (
    TextPart | ReasoningPart | FilePart | ToolCallPart | ToolResultPart | ToolApprovalRequestPart
)
"""The parts of an assistant message. They include the results of tools that the provider ran."""

ToolContent: TypeAlias = ToolResultPart | ToolApprovalResponsePart
"""The parts of a tool message."""

Content: TypeAlias = AssistantContent | ToolApprovalResponsePart
"""A part of any message."""


class _WithContent(WithMetadata, frozen=True):
    """A message whose content is a tuple of parts."""

    content: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.content.__class__ is not tuple:
            kind = self.__class__.__name__
            raise TypeError(
                f"content of {kind} must be a tuple of parts, got {type(self.content).__name__}. "
                f"Create it from parts and strings with {kind}.make(…)."
            )


@final
class SystemMessage(WithMetadata, frozen=True, tag_field="role", tag="system"):
    """Instructions for the model.

    A system message inside a conversation can also change the tools from this message on. See `change_tools`.

    >>> message = SystemMessage.change_tools(add=["search"], content="You may search now.")
    >>> message.added_tools, message.removed_tools
    (('search',), ())
    """

    role: ClassVar[Literal["system"]] = "system"
    content: str
    """The instructions."""

    @staticmethod
    def change_tools(*, add: Iterable[str] = (), remove: Iterable[str] = (), content: str = "") -> SystemMessage:
        """Return a message that changes the tools for the rest of the conversation, without a break of the prefix.

        The request declares all tools, including the removed tools. If a provider does not support these messages, the
        model has all tools from the start, a removed tool stays available, and the response contains a warning.

        Args:
            add: The tool names that are available from this message on.
            remove: The tool names that are no longer available.
            content: Instructions in the same message.

        Raises:
            ValueError: If it names no tool, or names a tool in both arguments.
        """
        added, removed = list(dict.fromkeys(add)), list(dict.fromkeys(remove))
        both = set(added) & set(removed)
        if both or not (added or removed):
            problem = f"both contain {', '.join(sorted(both))}" if both else "are empty"
            raise ValueError(f"add and remove {problem}. Pass the name of each tool in exactly one of them.")
        return SystemMessage(content, metadata={_TOOLS: {"add": added, "remove": removed}})

    @property
    def added_tools(self) -> tuple[str, ...]:
        """The tool names that are available from this message on."""
        return self._names("add")

    @property
    def removed_tools(self) -> tuple[str, ...]:
        """The tool names that are no longer available."""
        return self._names("remove")

    def _names(self, which: str) -> tuple[str, ...]:
        change = self.metadata.get(_TOOLS)
        names = cast("Metadata", change).get(which) if isinstance(change, Mapping) else None
        return tuple(name for name in names if isinstance(name, str)) if is_listed(names) else ()


@final
class UserMessage(_WithContent, frozen=True, tag_field="role", tag="user"):
    """A message from a user with strings and files."""

    role: ClassVar[Literal["user"]] = "user"
    content: tuple[UserContent, ...]
    """The strings and files."""

    @staticmethod
    def make(*content: str | UserContent) -> UserMessage:
        """Return a message of strings and parts."""
        return UserMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @property
    def text(self) -> str:
        """The joined text parts."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class AssistantMessage(_WithContent, frozen=True, tag_field="role", tag="assistant"):
    """A message from a model with strings, reasoning, files, tool calls, and results of tools that the provider ran."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[AssistantContent, ...]
    """The parts of the turn."""

    @staticmethod
    def make(*content: str | AssistantContent) -> AssistantMessage:
        """Return a message of strings and parts."""
        return AssistantMessage(tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @property
    def text(self) -> str:
        """The joined text parts, without reasoning."""
        return "".join(part.text for part in self.content if part.type == "text")


@final
class ToolMessage(_WithContent, frozen=True, tag_field="role", tag="tool"):
    """The answers to the calls from a model: their results, and answers to approval requests."""

    role: ClassVar[Literal["tool"]] = "tool"
    content: tuple[ToolContent, ...]
    """The results, and the answers to approval requests."""

    @staticmethod
    def make(*content: ToolContent) -> ToolMessage:
        """Return a message of parts."""
        return ToolMessage(content)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of a prompt with any role."""
