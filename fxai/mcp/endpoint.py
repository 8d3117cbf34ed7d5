"""Endpoints: where a server is, as a program to start or as an address.

>>> endpoint = Program("uvx", ("mcp-server-git",))
>>> endpoint.name, endpoint.place
('mcp-server-git', 'uvx mcp-server-git')
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol, cast, final
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

__all__ = ["Address", "Concealed", "HeaderError", "Program", "Revealing", "concealed"]

_RUNNER: Final = re.compile(r"(uvx?|npx|pipx|node|python[\d.]*|bunx?|deno|docker|bash|sh|py|run|exec)(\.exe)?")


_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # by RFC 9110, 5.6.2
_FIELD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t]*[!-~])*)?")  # by RFC 9110, 5.5, but for what is not ASCII


class HeaderError(ValueError):
    """A header cannot be sent: HTTP does not allow its name or its value, of which nothing is shown."""


class Revealing(Protocol):
    """A secret: what gives its text to whoever sends it, such as `fxai.providers.http.Secret`."""

    def reveal(self) -> str:
        """The text."""
        ...


@final
class Concealed:
    """Texts by name that no repr shows, each a plain one or a secret; equal where the texts are.

    Raises:
        ValueError: a name is no text, or what stands under it is neither a text nor a secret.
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


def concealed(texts: Any) -> Concealed:
    """The texts of a mapping, or none."""
    return Concealed(dict(texts or {}))


@final
class Program(msgspec.Struct, frozen=True):
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
        """The command as one would type it."""
        return shlex.join((self.command, *self.args))

    @property
    def name(self) -> str:
        """What to call the server: the first of its words that is no runner, option or path of a folder."""
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
        """The headers as they are sent.

        Raises:
            HeaderError: one of them cannot be sent.
        """
        fields = self.headers.reveal()
        for name, value in fields.items():
            if not _FIELD_NAME.fullmatch(name):
                raise HeaderError(f"{name!r} can be no name of a header")
            if not isinstance(cast(Any, value), str):
                raise HeaderError(f"the secret of the header {name!r} reveals no text: {type(value).__name__}")
            if not _FIELD_VALUE.fullmatch(value):
                said = f"the value of the header {name!r} holds a character that HTTP does not allow there"
                raise HeaderError(f"{said}, such as the line break at the end of a file")
        return fields

    @property
    def place(self) -> str:
        """The URL, without user, password and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def name(self) -> str:
        """What to call the server: its host."""
        return urlsplit(self.url).hostname or self.url

    @override
    def __repr__(self) -> str:
        return f"Address({self.place!r}, {self.headers!r})"
