"""Approval keys: who may ask for an approval, shown by a signature.

A history that leaves the process, to a page or a file, may come back changed. Requests are signed, so that only what
was asked can be approved. Without a key of yours it is one that this process made up: then a request can be answered
in the process that made it and nowhere else.

>>> key = ApprovalKey("a secret of sixteen characters or more")
>>> signature = key.sign(b"wipe the disk")
>>> key.signed(b"wipe the disk", signature), key.signed(b"wipe another disk", signature)
(True, False)
>>> key
ApprovalKey(…)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, Never, final

from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import EffectOf, FailCause, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.service import Reference
from fxai.messages.errors import AiError, AuthenticationError

__all__ = ["DAY", "ApprovalKey"]

DAY: Final = 86_400.0
"""The seconds of a day: how long a request may be approved, unless a key says otherwise."""

_SHORTEST = 16


@final
class ApprovalKey(Reference):
    """A secret that signs approval requests (HMAC-SHA256), and for how long they may be approved.

    It is in no repr, no error, no log and no pickle. A child made by `fork` makes up its own default key.
    """

    def __init__(
        self, secret: str | bytes, *, accept: Iterable[str | bytes] = (), lifetime: float | None = DAY
    ) -> None:
        """A key of a secret of at least 16 bytes.

        Args:
            secret: what signs: the same in all processes that are to trust each other's requests.
            accept: older secrets, whose signatures are still good.
            lifetime: the seconds in which a request may be approved; None: for ever.

        Raises:
            ValueError: a secret is too short to be one, or the lifetime is not positive.
        """
        self._secrets = [one.encode() if isinstance(one, str) else bytes(one) for one in (secret, *accept)]
        if min(map(len, self._secrets)) < _SHORTEST:
            raise ValueError(
                f"the secret of an ApprovalKey has at least {_SHORTEST} bytes: secrets.token_hex(32) makes one"
            )
        if lifetime is not None and lifetime <= 0:
            raise ValueError(f"the lifetime of an ApprovalKey is {lifetime}: nothing could be approved in that time")
        self.lifetime = lifetime

    @staticmethod
    def layer(
        secret: str | bytes, *, accept: Iterable[str | bytes] = (), lifetime: float | None = DAY
    ) -> LayerOf[ApprovalKey, Never, None]:
        """The layer of a key, in place of the one that the process made up; see `ApprovalKey`.

        Raises:
            ValueError: as `ApprovalKey`.
        """
        return LayerOf.succeed(ApprovalKey, ApprovalKey(secret, accept=accept, lifetime=lifetime))

    @staticmethod
    def from_env(
        name: str = "FXAI_APPROVAL_KEY", *, lifetime: float | None = DAY
    ) -> LayerOf[ApprovalKey, AiError, None]:
        """The layer of the key in the environment variable `name`, read when it is built.

        Fails with:
            AiError: `AuthenticationError("MissingKey")`, which names the variable: it is not set, or too short.
        """

        def read() -> EffectOf[ApprovalKey, AiError]:
            secret = os.environ.get(name, "").strip()
            if len(secret.encode()) >= _SHORTEST:
                return Succeed(ApprovalKey(secret, lifetime=lifetime))
            said = (
                f"the environment variable {name} is {'too short' if secret else 'not set'}: {_SHORTEST} bytes at least"
            )
            return FailCause(
                Cause((Fail(AiError("ApprovalKey", "from_env", AuthenticationError("MissingKey", said))),))
            )

        return LayerOf.effect(ApprovalKey, Suspend(read))

    @classmethod
    @override
    def default(cls) -> ApprovalKey:
        """The key that this process made up."""
        return _OF_PROCESS[0]

    def sign(self, text: bytes) -> str:
        """The signature of a text, in hexadecimal."""
        return _signature(self._secrets[0], text)

    def signed(self, text: bytes, signature: str) -> bool:
        """Whether the signature of a text is good; in constant time."""
        import hmac  # few programs ask for approvals

        given = signature.encode(errors="replace")
        return any(hmac.compare_digest(_signature(one, text).encode(), given) for one in self._secrets)

    @override
    def __repr__(self) -> str:
        return "ApprovalKey(…)"

    def __reduce__(self) -> Never:
        raise TypeError("an approval key is never pickled: give each process its own layer of it")


def _signature(secret: bytes, text: bytes) -> str:
    import hmac  # few programs ask for approvals

    return hmac.new(secret, text, "sha256").hexdigest()


_OF_PROCESS: list[ApprovalKey] = []


def _renew() -> None:
    _OF_PROCESS[:] = [ApprovalKey(os.urandom(32))]


_renew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
