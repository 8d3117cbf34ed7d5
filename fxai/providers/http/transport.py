"""The transport, the secrets, and the time limits of requests. Use `Transport` to answer requests in a test.

>>> from fxai.effects import fx
>>> fx.run_sync(fx.reference(Transport).map(lambda transport: transport.over(lambda: None)))
>>> Timeout(read=30)
Timeout(connect=10.0, read=30, write=60.0, pool=600.0, total=None)
>>> key = Secret("sk-1234")
>>> f"{key} {key!r}", key == Secret("sk-1234"), key.reveal()
('Secret(…) Secret(…)', True, 'sk-1234')
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Never, Self, cast, final

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.effects.service import Reference
from fxai.messages.errors import AiError
from fxai.messages.reason import AuthenticationError

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport


class Transport(Reference):
    """The service that sends requests. Replace it in a test to answer the requests.

    `Transport` is a reference, so `R` does not mention it. Clients use the network unless a layer provides another
    transport.
    """

    @abstractmethod
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        """Return the transport of a client, or None to use the network. The client closes the transport.

        Args:
            live: A function that creates the client's network transport, with its proxies. The caller closes it.
        """

    @property
    def needs_keys(self) -> bool:
        """True if requests can reach a provider, which requires a key. False if a file answers all requests."""
        return True

    @classmethod
    @override
    def default(cls) -> Self:
        """Return the network."""
        network: Any = _NETWORK
        return cast("Self", network)


class _Network(Transport):
    @override
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        return None


_NETWORK = _Network()


@final
class Timeout(msgspec.Struct, frozen=True, kw_only=True):
    """The time limits of an attempt, in seconds. None removes a limit.

    Raises:
        ValueError: If a limit is not greater than 0.
    """

    connect: float | None = 10.0
    """Seconds to open a connection, including the name, TCP, and TLS."""
    read: float | None = 600.0
    """Seconds to wait for the next bytes of an answer. A stream that is silent for longer has stalled."""
    write: float | None = 60.0
    """Seconds until the server accepts the next bytes of the request."""
    pool: float | None = 600.0
    """Seconds to wait for a free connection of the pool."""
    total: float | None = None
    """Seconds from the first byte of the request until the last byte of the answer, also for a stream."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            seconds: float | None = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"timeout {name!r} must be greater than 0 seconds or None (no limit), got {seconds}")

    @staticmethod
    def of(value: Timeout | float | None) -> Timeout:
        """Convert a value to timeouts. A number sets every limit except `total`; None removes all limits.

        >>> Timeout.of(5)
        Timeout(connect=5, read=5, write=5, pool=5, total=None)
        """
        return value if isinstance(value, Timeout) else Timeout(connect=value, read=value, write=value, pool=value)


TIMEOUT = Timeout()
"""The default timeouts. `read` is ten minutes, because a model sends nothing while it thinks."""


@final
class Secret:
    """A string that does not appear in representations, errors, logs, or pickles. `reveal` returns the string.

    A secret is immutable. Equality and the hash use its string.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def from_env(name: str, *, module: str = "Secret") -> Effect[Secret, AiError]:
        """Read the secret from the environment variable `name` when the effect runs, without surrounding space.

        If the `Transport` needs no keys, a missing variable results in a placeholder.

        Args:
            name: The name of the variable.
            module: The name of the origin in the error, such as "openai".

        Fails with:
            AiError: `AuthenticationError("MissingKey")` with the name of the variable, if it is not set or blank.
        """

        def read(transport: Transport) -> Effect[Secret, AiError]:
            text = os.environ.get(name, "").strip()
            if text or not transport.needs_keys:
                return fx.succeed(Secret(text or "no-key-is-needed"))
            problem = f"environment variable {name} is {'blank' if name in os.environ else 'not set'}"
            return fx.fail(AiError(module, "from_env", AuthenticationError("MissingKey", problem)))

        return fx.reference(Transport).flat_map(read)

    def reveal(self) -> str:
        """Return the string."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(…)"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Never:
        raise TypeError("cannot pickle a Secret. Read it again with `Secret.from_env` in the other process.")
