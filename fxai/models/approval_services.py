"""The services of approvals: the key that signs requests, and the ledger of those that were used.

A history that leaves the process, to a page or a file, may come back changed. Requests are signed, so that only what
was asked can be approved. By default the process makes up a key: then a request can be answered in the process that
made it and nowhere else.

An approval is used once: it lets one call run, and a denial is used up when it is given. The ledger remembers which
were used. By default a process remembers for itself, which is enough where one process answers. Where several do, or
one that may be started again, a ledger in a SQLite database serves them all: `ApprovalLedger.sqlite("approvals.db")`.

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
"""The seconds of a day: how long a request may be approved, unless a key says otherwise."""

ApprovalUse: TypeAlias = Literal["begun", "ended", "denied", "used"]
"""What became of an approval: its call was begun, and no end of it is known; its call was run to its end; it was
denied; it was used, and that is all that is known."""

_SHORTEST = 16


@final
class ApprovalKey(Reference):
    """A secret that signs approval requests (HMAC-SHA256), and for how long they may be approved.

    It is in no repr, no error, no log and no pickle. A child made by `fork` makes up its own default key.
    """

    def __init__(
        self,
        secret: str | bytes,
        *,
        accept: Iterable[str | bytes] = (),
        lifetime: float | None = DAY,
        realm: str = "",
    ) -> None:
        """A key of a secret of at least 16 bytes.

        Args:
            secret: what signs: the same in all processes that are to trust each other's requests.
            accept: older secrets, whose signatures are still good.
            lifetime: the seconds in which a request may be approved; None: for ever.
            realm: the application and environment, such as `"shop/production"`. An approval of one realm runs no call
                in another realm, even with the same secret and the same tool. Default: empty.

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
        self.realm = realm

    @property
    def layer(self) -> LayerOf[ApprovalKey, Never, None]:
        """The layer that gives this key, in the place of the one that the process made up."""
        return LayerOf.succeed(ApprovalKey, self)

    @staticmethod
    def from_env(
        name: str = "FXAI_APPROVAL_KEY", *, lifetime: float | None = DAY, realm: str = ""
    ) -> LayerOf[ApprovalKey, AiError, None]:
        """The layer of the key in the environment variable `name`, read when it is built.

        Fails with:
            AiError: `AuthenticationError("MissingKey")`, which names the variable: it is not set, or too short.
        """

        def read() -> EffectOf[ApprovalKey, AiError]:
            secret = os.environ.get(name, "").strip()
            if len(secret.encode()) >= _SHORTEST:
                return Succeed(ApprovalKey(secret, lifetime=lifetime, realm=realm))
            problem = "too short" if secret else "not set"
            text = f"the environment variable {name} is {problem}: {_SHORTEST} bytes at least"
            return fail(AiError("ApprovalKey", "from_env", AuthenticationError("MissingKey", text)))

        return LayerOf.effect(ApprovalKey, Suspend(read))

    @classmethod
    @override
    def default(cls) -> ApprovalKey:
        """The key that this process made up."""
        return _OF_PROCESS[0]

    def sign(self, text: bytes) -> str:
        """The signature of a text, in hexadecimal."""
        return _signature(self._secrets[0], text)

    def verify(self, text: bytes, signature: str) -> bool:
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


class ApprovalLedger(Reference):
    """What remembers which approvals were used. A ledger is a value; `ledger.layer` makes it the service.

    An implementation of your own gives `claim`, and the rest if it can.

    >>> from fxai.effects import fx
    >>> ledger = ApprovalLedger.in_process()
    >>> [fx.run_sync(ledger.claim({"doc-1": None})) for _ in range(2)]
    [(), ('doc-1',)]
    >>> fx.run_sync(ledger.look_up(["doc-1"]))
    {'doc-1': 'begun'}
    """

    @abstractmethod
    def claim(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Marks approvals as used: all of them, or, where some were used or denied before, none, and gives those.

        Args:
            uses: by approval id, until when it has to be remembered, in seconds since 1970; None: for ever.

        Fails with:
            AiError: `UnknownError`, where it cannot be known; then nothing is to be run.
        """

    def deny(self, uses: Mapping[str, float | None]) -> Effect[tuple[str, ...], AiError]:
        """Marks approvals as denied, each one that was not used before; gives those that had let a call run.

        Args:
            uses: as for `claim`.

        Fails with:
            AiError: As `claim`.
        """
        denied = for_each(list(uses.items()), lambda one: self.claim({one[0]: one[1]}))
        return denied.map(lambda _: ())

    def finish(self, ids: Iterable[str]) -> Effect[None, AiError]:
        """Marks claimed approvals as those whose calls have ended, well or not.

        Fails with:
            AiError: As `claim`; what is not marked stays in doubt.
        """
        del ids  # a ledger that only claims does not know them
        return Succeed(None)

    def look_up(self, ids: Iterable[str]) -> Effect[Mapping[str, ApprovalUse], AiError]:
        """What became of approvals; those that were never used, or of which that is not known, are not there.

        Fails with:
            AiError: As `claim`.
        """
        del ids
        return Succeed({})

    @property
    def layer(self) -> LayerOf[ApprovalLedger, Never, None]:
        """The layer that gives this ledger, in the place of the one of the process."""
        return LayerOf.succeed(ApprovalLedger, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[ApprovalLedger, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(ledger)`

    # -- constructors

    @classmethod
    @override
    def default(cls) -> ApprovalLedger:
        """The ledger of this process."""
        return _LEDGERS.get("process") or _LEDGERS.setdefault("process", ApprovalLedger.in_process())

    @staticmethod
    def in_process() -> ApprovalLedger:
        """A new ledger that ends with the process."""
        from fxai.storage.once import ProcessUses  # only where calls wait for approval

        return _UsesLedger(ProcessUses())

    @staticmethod
    def file(path: str | os.PathLike[str]) -> ApprovalLedger:
        """The ledger in a JSON file, for all processes that use it; made where it is not there, and replaced whole.

        Raises:
            ValueError: no file can have that path.
        """
        from fxai.storage.once import FileUses  # only where calls wait for approval
        from fxai.storage.private_file import file_path

        return _UsesLedger(FileUses(file_path(path)))

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> ApprovalLedger:
        """The ledger in a SQLite database, for all processes that use it; made where it is not there.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where calls wait for approval
        from fxai.storage.once import TableUses

        return _UsesLedger(TableUses(database_path(path)))


_LEDGERS: dict[str, ApprovalLedger] = {}  # threads that ask for the first time at once get the same one
_CLOCK: EffectOf[Clock] = Fetch(Clock)


@final
class _UsesLedger(ApprovalLedger):
    """A ledger of the uses of `fxai.storage`."""

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
        def fail(error: Exception) -> AiError | None:
            if not isinstance(error, OSError):
                return None
            return AiError("ApprovalLedger", "claim", UnknownError(description=f"which approvals were used: {error}"))

        return attempt_work(work, fail, in_thread=self._uses.blocks)
