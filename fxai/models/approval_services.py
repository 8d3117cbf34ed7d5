"""Approval services: the key that signs requests, and the ledger of used approvals. Use them to secure approvals.

If a history leaves the process, for example to a page or a file, another program can change it. fxai signs each
request, so that a user can approve only this request. By default each process creates its own key. Then only this
process accepts the answer to a request.

Each approval allows one call. A denial also uses up the request. The ledger stores the used approvals. By default each
process has its own ledger. If several processes answer requests, or a process can restart, use a ledger in a SQLite
database: `ApprovalLedger.sqlite("approvals.db")`.

>>> key = ApprovalKey("a secret of sixteen characters or more")
>>> signature = key.sign(b"wipe the disk")
>>> key.verify(b"wipe the disk", signature), key.verify(b"wipe another disk", signature)
(True, False)
>>> key
ApprovalKey(…)
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Never, TypeAlias, TypeVar, final

from typing_extensions import override

from fxai.effects.concurrency import for_each
from fxai.effects.constructor import attempt_work, fail
from fxai.effects.effect import Effect, EffectOf, Fetch, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.service import Clock, Reference
from fxai.messages.errors import AiError
from fxai.messages.reason import AuthenticationError, UnknownError

if TYPE_CHECKING:
    from fxai.storage.once import Uses

_A = TypeVar("_A")

DAY: Final = 86_400.0
"""The seconds of a day, which is the default lifetime of a request."""

ApprovalUse: TypeAlias = Literal["begun", "ended", "denied", "used"]
"""The use of an approval.

- `begun`: the call started, but its end is unknown.
- `ended`: the call finished.
- `denied`: a user denied the call.
- `used`: the approval was used. Its outcome is unknown.
"""

_SHORTEST = 16


@final
class ApprovalKey(Reference):
    """A secret that signs approval requests (HMAC-SHA256), and the lifetime of the requests.

    The secret never occurs in a repr, an error, a log, or a pickle. A child process after `fork` creates its own
    default key.
    """

    def __init__(
        self,
        secret: str | bytes,
        *,
        accept: Iterable[str | bytes] = (),
        lifetime: float | None = DAY,
        realm: str = "",
    ) -> None:
        """Create a key from a secret of at least 16 bytes.

        Args:
            secret: The secret that signs requests. Use the same secret in all processes that accept each other's
                requests.
            accept: Older secrets with valid signatures.
            lifetime: Seconds until a request expires, or None for no limit. Default: one day.
            realm: The application and environment, such as `"shop/production"`. An approval for a realm allows no call
                in another realm, even with the same secret and the same tool. Default: an empty string.

        Raises:
            ValueError: If a secret is too short, or the lifetime is not positive.
        """
        self._secrets = [one.encode() if isinstance(one, str) else bytes(one) for one in (secret, *accept)]
        if min(map(len, self._secrets)) < _SHORTEST:
            raise ValueError(
                f"secret of an ApprovalKey must have at least {_SHORTEST} bytes. Create it with secrets.token_hex(32)."
            )
        if lifetime is not None and lifetime <= 0:
            raise ValueError(f"lifetime of an ApprovalKey must be greater than 0 seconds, got {lifetime}")
        self.lifetime = lifetime
        self.realm = realm

    @property
    def layer(self) -> LayerOf[ApprovalKey, Never, None]:
        """The layer that provides this key instead of the default key of the process."""
        return LayerOf.succeed(ApprovalKey, self)

    @staticmethod
    def from_env(
        name: str = "FXAI_APPROVAL_KEY", *, lifetime: float | None = DAY, realm: str = ""
    ) -> LayerOf[ApprovalKey, AiError, None]:
        """Return the layer for the key in the environment variable `name`. fxai reads it when it builds the layer.

        Fails with:
            AiError: `AuthenticationError("MissingKey")` if the variable is not set or too short. It names the variable.
        """

        def read() -> EffectOf[ApprovalKey, AiError]:
            secret = os.environ.get(name, "").strip()
            if len(secret.encode()) >= _SHORTEST:
                return Succeed(ApprovalKey(secret, lifetime=lifetime, realm=realm))
            problem = "too short" if secret else "not set"
            text = f"environment variable {name} is {problem}. Set it to at least {_SHORTEST} bytes."
            return fail(AiError("ApprovalKey", "from_env", AuthenticationError("MissingKey", text)))

        return LayerOf.effect(ApprovalKey, Suspend(read))

    @classmethod
    @override
    def default(cls) -> ApprovalKey:
        """Return the default key of this process."""
        return _OF_PROCESS[0]

    def sign(self, text: bytes) -> str:
        """Return the signature of a byte string, in hexadecimal."""
        return _signature(self._secrets[0], text)

    def verify(self, text: bytes, signature: str) -> bool:
        """Return whether the signature of a byte string is valid. The comparison takes constant time."""
        import hmac  # few programs ask for approvals

        given = signature.encode(errors="replace")
        return any(hmac.compare_digest(_signature(one, text).encode(), given) for one in self._secrets)

    @override
    def __repr__(self) -> str:
        return "ApprovalKey(…)"

    def __reduce__(self) -> Never:
        raise TypeError("ApprovalKey cannot be pickled. Give each process its own layer of the key.")


def _signature(secret: bytes, text: bytes) -> str:
    import hmac  # few programs ask for approvals

    return hmac.new(secret, text, "sha256").hexdigest()


_OF_PROCESS: list[ApprovalKey] = []


def _renew() -> None:
    _OF_PROCESS[:] = [ApprovalKey(os.urandom(32))]


_renew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class ApprovalLedger(Reference):
    """The store of used approvals. A ledger is a value; provide it as a service with `ledger.layer`.

    If you implement a ledger, define `claim`, and preferably the other methods.
    >>> from fxai.effects import fx
    >>> ledger = ApprovalLedger.in_process()
    >>> [fx.run_sync(ledger.claim({"doc-1": None})) for _ in range(2)]
    [(), ('doc-1',)]
    >>> fx.run_sync(ledger.look_up(["doc-1"]))
    {'doc-1': 'begun'}
    """

    @abstractmethod
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Mark approvals as used. If some of them were used or denied before, mark none and return these approvals.

        Args:
            uses: For each approval id, the time until which the ledger must store it, in seconds since 1970, or None
                for no limit.

        Fails with:
            AiError: `UnknownError` if the ledger cannot answer. fxai then runs no call.
        """

    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Mark unused approvals as denied, and return the approvals that had already allowed a call.

        Args:
            uses: See `claim`.

        Fails with:
            AiError: See `claim`.
        """
        denied = for_each(list(uses.items()), lambda one: self.claim({one[0]: one[1]}))
        return denied.map(lambda _: ())

    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        """Mark claimed approvals as ended after their calls succeeded or failed.

        Fails with:
            AiError: See `claim`. The outcome of approvals without this mark stays unknown.
        """
        del ids  # the default implementation stores only claims
        return Succeed(None)

    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        """Return the uses of approvals by id. Unused approvals and approvals with unknown use are missing.

        Fails with:
            AiError: See `claim`.
        """
        del ids
        return Succeed({})

    @property
    def layer(self) -> LayerOf[ApprovalLedger, Never, None]:
        """The layer that provides this ledger instead of the default ledger of the process."""
        return LayerOf.succeed(ApprovalLedger, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[ApprovalLedger, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(ledger)`

    # -- constructors

    @classmethod
    @override
    def default(cls) -> ApprovalLedger:
        """Return the default ledger of this process."""
        return _LEDGERS.get("process") or _LEDGERS.setdefault("process", ApprovalLedger.in_process())

    @staticmethod
    def in_process() -> ApprovalLedger:
        """Return a new ledger that exists until the process ends."""
        from fxai.storage.once import ProcessUses  # imported late, because only approvals need it

        return _UsesLedger(ProcessUses())

    @staticmethod
    def file(path: str | os.PathLike[str]) -> ApprovalLedger:
        """Return the ledger in a JSON file for all processes. fxai creates the file, and each write replaces it.

        Raises:
            ValueError: If `path` is not valid for a file.
        """
        from fxai.storage.once import FileUses  # imported late, because only approvals need it
        from fxai.storage.private_file import file_path

        return _UsesLedger(FileUses(file_path(path)))

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> ApprovalLedger:
        """Return the ledger in a SQLite database for all processes. fxai creates the database if it does not exist.

        Raises:
            ValueError: If `path` is not valid for a database.
        """
        from fxai.storage.database import database_path  # imported late, because only approvals need it
        from fxai.storage.once import TableUses

        return _UsesLedger(TableUses(database_path(path)))


_LEDGERS: dict[str, ApprovalLedger] = {}  # concurrent first calls of threads must get the same ledger
_CLOCK: EffectOf[Clock] = Fetch(Clock)


@final
class _UsesLedger(ApprovalLedger):
    def __init__(self, uses: Uses) -> None:
        self._uses = uses

    @override
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return _CLOCK.flat_map(lambda clock: self._attempt(lambda: self._uses.claim(uses, clock.now())))

    @override
    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        return _CLOCK.flat_map(lambda clock: self._attempt(lambda: self._uses.deny(uses, clock.now())))

    @override
    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        return self._attempt(lambda: self._uses.finish(ids))

    @override
    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        return self._attempt(lambda: self._uses.look_up(ids))

    def _attempt(self, work: Callable[[], _A]) -> EffectOf[_A, AiError]:
        def explain(error: OSError) -> AiError:
            return AiError("ApprovalLedger", "claim", UnknownError(description=f"ledger cannot find uses: {error}"))

        return attempt_work(work, OSError, in_thread=self._uses.blocks).map_error(explain)
