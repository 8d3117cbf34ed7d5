"""Settings of an MCP client: endpoints, limits, and answers to a server's questions.

>>> endpoint = ServerProgram("uvx", ("mcp-server-git",))
>>> endpoint.name, endpoint.location, ServerSettings(endpoint, "git").timeout
('mcp-server-git', 'uvx mcp-server-git', 30.0)
>>> McpLimits(tools=20).tools, LIMITS.pages
(20, 200)
>>> def careful(asked: Elicitation) -> ElicitAnswer:
...     return ElicitAnswer("accept", {"sure": True}) if "sure" in asked.fields else ElicitAnswer("decline")
>>> careful(Elicitation("git", "Delete the branch?", {"properties": {"sure": {"type": "boolean"}}})).action
'accept'
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, final, get_args
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

from fxai.effects.effect import EffectOf
from fxai.mcp.pin import Pins
from fxai.schema.budget import MAX_LEVELS
from fxai.tools.identity import FailureMode
from fxai.tools.tool_info import Validation

_RUNNER: Final = re.compile(r"(uvx?|npx|pipx|node|python[\d.]*|bunx?|deno|docker|bash|sh|py|run|exec)(\.exe)?")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # by RFC 9110, 5.6.2
_FIELD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t]*[!-~])*)?")  # by RFC 9110, 5.5, only ASCII


class HeaderError(ValueError):
    """An error for a header that HTTP does not allow. The message does not show the value of the header."""


class Revealing(Protocol):
    """A secret, such as `fxai.providers.http.Secret`. fxai reads its string when it sends it."""

    def reveal(self) -> str:
        """Return the secret string."""
        ...


@final
class Concealed:
    """Strings and secrets by name, hidden from every repr. Two instances are equal if their strings are equal.

    Raises:
        ValueError: If a name is not a string, or a value is neither a string nor a secret.
    """

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str | Revealing]) -> None:
        self._texts = dict(texts)
        given: dict[Any, Any] = {**self._texts}
        for name, text in given.items():
            if not isinstance(name, str):
                raise ValueError(f"name must be a string, got {name!r}")
            if not isinstance(text, str) and not callable(getattr(text, "reveal", None)):
                kind = type(text).__name__
                raise ValueError(f"value of {name!r} must be a string or a secret with `reveal`, got {kind}")

    def reveal(self) -> dict[str, str]:
        """Return the strings."""
        return {name: text if isinstance(text, str) else text.reveal() for name, text in self._texts.items()}

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Concealed) and self.reveal() == other.reveal()

    @override
    def __hash__(self) -> int:
        return hash((Concealed, *sorted(self._texts)))

    @override
    def __repr__(self) -> str:
        return f"Concealed({', '.join(self._texts)})"

    def __reduce__(self) -> Any:
        if not self._texts:
            return Concealed, ({},)
        raise TypeError("headers, tokens, and environments can be secret, so you cannot pickle them")


@final
class ServerProgram(msgspec.Struct, frozen=True):
    """A program that speaks MCP on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Concealed = Concealed({})
    grace: float = 2.0
    """Seconds until the program must end after its input closes, and again after a request to terminate. Then fxai
    kills it."""

    @property
    def location(self) -> str:
        """The command line."""
        return shlex.join((self.command, *self.args))

    @property
    def attributes(self) -> dict[str, str | int]:
        """The transport for the span of a call."""
        return {"network.transport": "pipe"}

    @property
    def name(self) -> str:
        """The default name of the server: the first word of the command that is not a runner, option, or directory."""
        words = [PurePath(word).name for word in (self.command, *self.args) if not word.startswith("-")]
        own = [word for word in words if word and not _RUNNER.fullmatch(word)]
        return own[0] if own else PurePath(self.command).name


@final
class Address(msgspec.Struct, frozen=True):
    """The URL of a server over streamable HTTP."""

    url: str
    headers: Concealed = Concealed({})

    @property
    def fields(self) -> dict[str, str]:
        """The headers with the current secrets. Raise `HeaderError` if fxai cannot read or send a header."""
        try:
            fields = self.headers.reveal()
        except Exception as error:  # the message of this error can contain the secret
            raised = type(error).__name__
            message = f"cannot read the secret of a header of {self.location!r}, because `reveal` raised {raised}"
            raise HeaderError(message) from error
        for name, value in fields.items():
            if not _FIELD_NAME.fullmatch(name):
                raise HeaderError(f"invalid header name {name!r}")
            if not isinstance(cast(Any, value), str):
                raise HeaderError(f"secret of the header {name!r} must return a string, got {type(value).__name__}")
            if not _FIELD_VALUE.fullmatch(value):
                message = f"value of the header {name!r} contains a character that HTTP does not allow"
                raise HeaderError(f"{message}, such as the line break at the end of a file")
        return fields

    @property
    def location(self) -> str:
        """The URL, without user, password, and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def attributes(self) -> dict[str, str | int]:
        """The transport, host, and port for the span of a call."""
        reached: dict[str, str | int] = {"network.transport": "tcp", "network.protocol.name": "http"}
        parts = urlsplit(self.url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:  # opening the server reports the invalid port
            return reached
        return reached if parts.hostname is None else {**reached, "server.address": parts.hostname, "server.port": port}

    @property
    def name(self) -> str:
        """The default name of the server: its host."""
        return urlsplit(self.url).hostname or self.url

    @override
    def __repr__(self) -> str:
        return f"Address({self.location!r}, {self.headers!r})"


@final
class Elicitation(msgspec.Struct, frozen=True):
    """A server's question to the user: a form, or a URL to visit."""

    server: str
    """The name of the server."""
    message: str
    """The text for the user."""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of the form, an object of simple fields."""
    url: str | None = None
    """The URL to visit. None if the question is a form."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the form's fields."""
        return tuple(self.schema.get("properties", {}))

    @override
    def __hash__(self) -> int:
        return hash((Elicitation, self.server, self.message, self.url))


@final
class ElicitAnswer(msgspec.Struct, frozen=True):
    """The user's answer. `"accept"` includes the fields of the form."""

    action: Literal["accept", "decline", "cancel"]
    """The user's decision."""
    content: Mapping[str, Any] | None = None
    """The fields of an accepted form."""

    @override
    def __hash__(self) -> int:
        return hash((ElicitAnswer, self.action))


Elicit: TypeAlias = Callable[[Elicitation], ElicitAnswer | EffectOf[ElicitAnswer]]
"""A function that answers an elicitation, immediately or with an effect that waits for a person."""


@final
class McpLimits(msgspec.Struct, frozen=True):
    """The limits of the data that a server can send. An excess is a failure (`"limit"`), or excludes the tool."""

    tools: int = 2_000
    """Maximum number of listed tools. An excess is a failure."""
    pages: int = 200
    """Maximum number of pages of a list. An excess is a failure."""
    message_bytes: int = 16 * 1024 * 1024
    """Maximum size of a message, in bytes. An excess ends the connection (stdio) or fails the request."""
    schema_bytes: int = 512 * 1024
    """Maximum size of a tool's input or output schema, in bytes of JSON. An excess excludes the tool."""
    schema_depth: int = MAX_LEVELS
    """Maximum nesting of a schema. An excess excludes the tool. For every document, `JsonSchema.of` also limits other
    costs, such as references that double and patterns that multiply."""
    contents: int = 10_000
    """Maximum number of content blocks of a result. An excess fails the call."""
    description: int = 64 * 1024
    """Maximum number of characters of a description. An excess excludes the tool."""
    noise: int = 1_000
    """Maximum number of lines on standard output that are not JSON-RPC messages. An excess ends the connection."""
    requests: int = 256
    """Maximum number of the server's requests that wait for an answer. An excess ends the connection."""
    stderr: int = 4 * 1024
    """Number of bytes that fxai keeps from the end of standard error."""


LIMITS: Final = McpLimits()
"""The default limits."""


OnLog: TypeAlias = Callable[[str, Any], None]
"""A function that receives the server's log messages: the level, such as `"warning"`, and the data."""

Mode: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""The negotiation of the protocol. `"auto"`: the newest version, or the handshake of older versions if the server does
not support it. `"legacy"`: only the handshake. `"2026-07-28"`: the newest version without negotiation."""


@final
class ServerSettings(msgspec.Struct, frozen=True):
    """The endpoint and all options of a server, see `ClientOptions`."""

    endpoint: ServerProgram | Address
    name: str
    timeout: float = 30.0
    call_timeout: float | None = 300.0
    total_timeout: float | None = 3_600.0
    mode: Mode = "auto"
    pins: Pins | None = None
    limits: McpLimits = LIMITS
    elicit: Elicit | None = None
    on_log: OnLog | None = None
    failure_mode: FailureMode = "return"
    validation: Validation = "schema"
    prefix: str = ""
    """The prefix of the tools' names."""
    only: tuple[str, ...] | None = None
    """The offered tools, by their names at the server. None: all tools."""
    without: tuple[str, ...] = ()
    """The excluded tools, by their names at the server."""

    def __post_init__(self) -> None:
        modes = get_args(Mode)
        if self.mode not in modes:
            raise ValueError(f"mode must be one of {', '.join(map(repr, modes))}, got {self.mode!r}")
        for name in ("timeout", "call_timeout", "total_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} must be greater than 0 seconds, got {seconds!r}")
