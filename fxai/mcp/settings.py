"""Settings of an MCP client: the server's program or address, limits, answers to the server's questions.

>>> endpoint = ServerProgram("uvx", ("mcp-server-git",))
>>> endpoint.name, endpoint.place, ServerSettings(endpoint, "git").timeout
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
from fxai.tools.tool_options import Validation

_RUNNER: Final = re.compile(r"(uvx?|npx|pipx|node|python[\d.]*|bunx?|deno|docker|bash|sh|py|run|exec)(\.exe)?")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # by RFC 9110, 5.6.2
_FIELD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t]*[!-~])*)?")  # by RFC 9110, 5.5, but for what is not ASCII


class HeaderError(ValueError):
    """A header cannot be sent: HTTP does not allow its name or its value; the message does not show the value."""


class Revealing(Protocol):
    """A secret, whose text is read when it is sent, such as `fxai.providers.http.Secret`."""

    def reveal(self) -> str:
        """The text."""
        ...


@final
class Concealed:
    """Texts by name, plain or secret, that no repr shows; equal where the texts are.

    Raises `ValueError`: a name is no text, or what stands under it is neither a text nor a secret.
    """

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str | Revealing]) -> None:
        self._texts = dict(texts)
        given: dict[Any, Any] = {**self._texts}
        for name, text in given.items():
            if not isinstance(name, str):
                raise ValueError(f"{name!r} is no name: it is a text")
            if not isinstance(text, str) and not callable(getattr(text, "reveal", None)):
                kind = type(text).__name__
                raise ValueError(
                    f"the value of {name!r} is of the type {kind}: it is a text, or a secret with `reveal`"
                )

    def reveal(self) -> dict[str, str]:
        """The texts."""
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
        raise TypeError("headers, tokens and environments may be secret: they are never pickled")


@final
class ServerProgram(msgspec.Struct, frozen=True):
    """A program that speaks MCP on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Concealed = Concealed({})
    grace: float = 2.0
    """Seconds to end by itself when its input is closed, then again when it is asked to terminate, before it is
    killed."""

    @property
    def place(self) -> str:
        """The command line."""
        return shlex.join((self.command, *self.args))

    @property
    def attributes(self) -> dict[str, str | int]:
        """How it is reached, for the span of a call."""
        return {"network.transport": "pipe"}

    @property
    def name(self) -> str:
        """The server's name: the first word of the command that is no runner, option or path of a folder."""
        words = [PurePath(word).name for word in (self.command, *self.args) if not word.startswith("-")]
        own = [word for word in words if word and not _RUNNER.fullmatch(word)]
        return own[0] if own else PurePath(self.command).name


@final
class Address(msgspec.Struct, frozen=True):
    """The URL of a server that speaks streamable HTTP."""

    url: str
    headers: Concealed = Concealed({})

    @property
    def fields(self) -> dict[str, str]:
        """The headers as they are sent, with the secrets of this moment.

        Raises `HeaderError`: one of them cannot be read or sent.
        """
        fields = self._read()
        for name, value in fields.items():
            if not _FIELD_NAME.fullmatch(name):
                raise HeaderError(f"{name!r} can be no name of a header")
            if not isinstance(cast(Any, value), str):
                raise HeaderError(f"the secret of the header {name!r} reveals no text: {type(value).__name__}")
            if not _FIELD_VALUE.fullmatch(value):
                said = f"the value of the header {name!r} holds a character that HTTP does not allow there"
                raise HeaderError(f"{said}, such as the line break at the end of a file")
        return fields

    def _read(self) -> dict[str, str]:
        try:
            return self.headers.reveal()
        except Exception as error:  # the error of a secret may contain the secret
            raised = type(error).__name__
            said = f"the secret of a header of {self.place!r} cannot be read, because `reveal` raised {raised}"
            raise HeaderError(said) from error

    @property
    def place(self) -> str:
        """The URL, without user, password and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def attributes(self) -> dict[str, str | int]:
        """How it is reached, for the span of a call: the host and the port alone of its URL."""
        reached: dict[str, str | int] = {"network.transport": "tcp", "network.protocol.name": "http"}
        parts = urlsplit(self.url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:  # opening it will say so
            return reached
        return reached if parts.hostname is None else {**reached, "server.address": parts.hostname, "server.port": port}

    @property
    def name(self) -> str:
        """The server's name: its host."""
        return urlsplit(self.url).hostname or self.url

    @override
    def __repr__(self) -> str:
        return f"Address({self.place!r}, {self.headers!r})"


@final
class Elicitation(msgspec.Struct, frozen=True):
    """A question of a server to the person behind the client: a form to fill in, or with `url` an address to visit."""

    server: str
    message: str
    """The text for the person."""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of the form: an object of plain fields."""
    url: str | None = None
    """The address that the person should visit; None where a form is asked for."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the form's fields."""
        return tuple(self.schema.get("properties", {}))

    @override
    def __hash__(self) -> int:
        return hash((Elicitation, self.server, self.message, self.url))


@final
class ElicitAnswer(msgspec.Struct, frozen=True):
    """The answer of the person: accepted, with the form's fields; declined; or cancelled."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    """The form's fields, where it was accepted."""

    @override
    def __hash__(self) -> int:
        return hash((ElicitAnswer, self.action))


Elicit: TypeAlias = Callable[[Elicitation], ElicitAnswer | EffectOf[ElicitAnswer]]
"""Answers an elicitation: at once, or by an effect that waits for a person."""


@final
class McpLimits(msgspec.Struct, frozen=True):
    """How much a server may send. What is more is a failure of the kind `"limit"`, or the tool is refused.

    Attributes:
        tools: how many tools it may list; more are a failure.
        pages: how many pages a listing may have; more are a failure.
        message_bytes: the largest message, in bytes; a larger one ends the connection (stdio) or fails its request.
        schema_bytes: the largest input or output schema of a tool, in bytes of JSON; a larger one refuses the tool.
        schema_depth: the deepest nesting of a schema; deeper ones refuse the tool. What a schema may ask for beyond
            size and depth (references that double, patterns that multiply) is bounded for every document alike, by
            `JsonSchema.of`.
        contents: the most content blocks of a result; more fail the call.
        description: how many characters a description may have; more refuse the tool.
        noise: how many lines that are no JSON-RPC messages a server may write to its standard output; more end the
            connection.
        requests: how many requests of a server may wait for our answers; more end the connection.
        stderr: how many bytes of the end of its standard error are kept.
    """

    tools: int = 2_000
    pages: int = 200
    message_bytes: int = 16 * 1024 * 1024
    schema_bytes: int = 512 * 1024
    schema_depth: int = MAX_LEVELS
    contents: int = 10_000
    description: int = 64 * 1024
    noise: int = 1_000
    requests: int = 256
    stderr: int = 4 * 1024


LIMITS: Final = McpLimits()
"""The default limits."""


OnLog: TypeAlias = Callable[[str, Any], None]
"""Called with what a server logs over the protocol: the level, such as `"warning"`, and the data."""

Mode: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""How the protocol is agreed on: the newest, and the handshake of older ones where the server does not know it
(`"auto"`); the handshake at once (`"legacy"`); or the newest without asking."""


@final
class ServerSettings(msgspec.Struct, frozen=True):
    """A server's endpoint and options, complete; the options are those of `ClientOptions`."""

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
    """The prefix of its tools' names."""
    only: tuple[str, ...] | None = None
    """The tools to offer, by their names at the server; None: all."""
    without: tuple[str, ...] = ()
    """The tools not to offer, by their names at the server."""

    def __post_init__(self) -> None:
        modes = get_args(Mode)
        if self.mode not in modes:
            raise ValueError(f"mode is {self.mode!r}: it is one of {', '.join(map(repr, modes))}")
        for name in ("timeout", "call_timeout", "total_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is {seconds!r}: it is more than 0 seconds")
