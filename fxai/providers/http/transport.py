"""What requests are sent with: the transport that carries them, the secrets in them, and how long each wait may take.

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
    """How requests leave the process, as a service, so that a test can answer them itself.

    It is a reference: clients use the network unless a layer gives another transport, and `R` does not mention it.
    """

    @abstractmethod
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        """The transport of one client, which closes it; None: the client uses the network.

        Args:
            live: Makes what the client would use itself, with its proxies; the caller closes it.
        """

    @property
    def needs_keys(self) -> bool:
        """Whether requests may reach a provider, which wants a key; False where all are answered from a file."""
        return True

    @classmethod
    @override
    def default(cls) -> Self:
        """The network."""
        network: Any = _NETWORK
        return cast("Self", network)


class _Network(Transport):
    @override
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport | None:
        return None


_NETWORK = _Network()


@final
class Timeout(msgspec.Struct, frozen=True, kw_only=True):
    """The longest waits of one attempt to get an answer, in seconds; None is without end.

    Attributes:
        connect: For a connection: the name, TCP, TLS.
        read: For the next bytes of an answer: a stream that is silent for so long has stalled.
        write: Until the next bytes of the request are taken.
        pool: For a connection of the pool to become free.
        total: From the first byte of the request to the last one of the answer; of a stream too.

    Raises:
        ValueError: One of them is not above 0.
    """

    connect: float | None = 10.0
    read: float | None = 600.0
    write: float | None = 60.0
    pool: float | None = 600.0
    total: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            seconds: float | None = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"the timeout {name!r} is {seconds} s: give a number above 0, or None for no end")

    @staticmethod
    def of(value: Timeout | float | None) -> Timeout:
        """The timeouts that a value stands for: a number is for each wait but `total`, None is for no end at all.

        >>> Timeout.of(5)
        Timeout(connect=5, read=5, write=5, pool=5, total=None)
        """
        return value if isinstance(value, Timeout) else Timeout(connect=value, read=value, write=value, pool=value)


TIMEOUT = Timeout()
"""The default timeouts: ten minutes of silence, since a model that thinks sends nothing."""


@final
class Secret:
    """A text that is in no repr, no error, no log and no pickle; `reveal` gives the text, for sending it.

    It compares and hashes by its text, and does not change.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def from_env(name: str, *, module: str = "Secret") -> Effect[Secret, AiError]:
        """The secret in the environment variable `name`, read when the effect runs; space around it is left out.

        Under a `Transport` that needs no keys, a variable that is missing is a secret that opens nothing.

        Args:
            name: The variable.
            module: What the error names as needing it, such as "openai".

        Fails with:
            AiError: `AuthenticationError("MissingKey")`, which names the variable: it is not set, or blank.
        """

        def read(transport: Transport) -> Effect[Secret, AiError]:
            text = os.environ.get(name, "").strip()
            if text or not transport.needs_keys:
                return fx.succeed(Secret(text or "no-key-is-needed"))
            problem = f"the environment variable {name} is {'blank' if name in os.environ else 'not set'}"
            return fx.fail(AiError(module, "from_env", AuthenticationError("MissingKey", problem)))

        return fx.reference(Transport).flat_map(read)

    def reveal(self) -> str:
        """The text."""
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
        raise TypeError("a secret is never pickled: read it again where it is needed, with `Secret.from_env`")
