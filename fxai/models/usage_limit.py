"""Usage limits: define the maximum requests, tokens, and money that models can use together under a name.

>>> team = Limit.budget("team", tokens=1000)
>>> team.key("tokens")
'team tokens'
>>> Limit.per_minute("key of the team", requests=60).key("requests", ModelInfo("openai", "gpt-6-sol"))
'"key of the team" openai:gpt-6-sol per 60 s requests'
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import count
from os import urandom
from typing import Any, Final, Literal, TypeAlias, cast, final

import msgspec

from fxai.effects.cause import Cause
from fxai.messages.errors import AiError
from fxai.messages.part import Usage
from fxai.messages.reason import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    ToolkitRequiredError,
    UnsupportedSchemaError,
)
from fxai.models.model_info import ModelInfo
from fxai.models.price import Price, amount_of
from fxai.storage.allowance import MOST, Claim, LimitExceeded

Kind: TypeAlias = Literal["requests", "tokens", "money"]
"""The kind of usage that fxai counts."""

Unknown: TypeAlias = Literal["commit", "release"]
"""The treatment of a reservation with unknown usage: all of it counts as used (`"commit"`), or none (`"release"`)."""

UNIT: Final = 1_000_000_000
"""Number of units of money in the currency: fxai counts billionths and rounds them up."""

_MILLION: Final = 1_000_000
_KINDS: Final[tuple[Kind, ...]] = ("requests", "tokens", "money")
_LONGEST: Final = 200  # maximum number of characters of a name, because databases limit the length of keys
_SHORTEST: Final = 0.001  # minimum number of seconds of a window
_PLAIN: Final = re.compile(r"[\w.:@/+-]+")
_ID: Final = urandom(8).hex()  # the id of this process
_numbers = count(1)

_NOTHING_USED: Final = (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    QuotaExhaustedError,
    RateLimitError,
    ToolkitRequiredError,
    UnsupportedSchemaError,
)
"""Reasons of errors that refuse a request before a model reads it."""


@final
class Limit(msgspec.Struct, frozen=True):
    """The maximum usage under a name. Create it with `per_minute` or `budget`."""

    name: str
    """The name of the owner, such as an account, a team, or the name of a key (never the key itself)."""
    requests: int | None = None
    """Maximum number of requests, or None for no limit."""
    tokens: int | None = None
    """The sum of input and output tokens."""
    money: Decimal | None = None
    """The money in the currency of the prices."""
    seconds: float | None = None
    """The length of the window in seconds, or None for the total usage."""
    per_model: bool = False
    """True if each model has a separate limit."""

    @staticmethod
    def per_minute(name: str, *, requests: int | None = None, tokens: int | None = None) -> Limit:
        """Return the limit of the rate of each model, shared by all programs that use the name.

        Raises:
            ValueError: If you pass no limit, a limit is less than 1, or the name is empty or has more than 200
                characters.
        """
        return Limit.of(name, requests=requests, tokens=tokens, seconds=60.0, per_model=True)

    @staticmethod
    def budget(
        name: str, *, tokens: int | None = None, money: str | int | Decimal | None = None, seconds: float | None = None
    ) -> Limit:
        """Return the limit for the usage of all models together, in total or within `seconds`.

        Raises:
            TypeError: If the money is a `float`. Pass a string such as `"2.50"`.
            ValueError: If you pass no limit, a limit is less than 1 token or not positive, the window is shorter than 1
                millisecond, or the name is empty or has more than 200 characters.
        """
        return Limit.of(name, tokens=tokens, money=money, seconds=seconds)

    @staticmethod
    def of(
        name: str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        money: str | int | Decimal | None = None,
        seconds: float | None = None,
        per_model: bool = False,
    ) -> Limit:
        """Return a limit with any fields. For fields and errors, see `Limit`, `per_minute`, and `budget`."""
        amount = None if money is None else amount_of(money, "money of a limit")
        return Limit(name, requests, tokens, amount, seconds, per_model)

    def __post_init__(self) -> None:
        most = (self.requests, self.tokens, self.money)
        given = [one for one in (*most, self.seconds) if one is not None]
        if not self.name or most == (None, None, None) or not all(one > 0 for one in given):
            raise ValueError(f"limit {self.name!r} must have a name and at least one limit greater than 0")
        if len(self.name) > _LONGEST:
            raise ValueError(f"name of a limit must have at most {_LONGEST} characters, got {len(self.name)}")
        if self.seconds is not None and self.seconds < _SHORTEST:
            raise ValueError(f"window of the limit {self.name!r} must be at least 0.001 seconds, got {self.seconds}")
        if self.money is not None and self.money * UNIT > MOST:
            raise ValueError(f"money of the limit {self.name!r} must be below 4 billion, got {self.money}")
        for kind, one in (("requests", self.requests), ("tokens", self.tokens)):
            if one is not None and (not isinstance(cast(object, one), int) or one > MOST):
                raise ValueError(f"{kind} of the limit {self.name!r} must be an integer up to {MOST}, got {one!r}")

    @property
    def units(self) -> int | None:
        """The money in units of a billionth of the currency, or None."""
        return None if self.money is None else _units(self.money)

    def key(self, kind: Kind, info: ModelInfo | None = None) -> str:
        """Return the key for the usage in allowances: `allowances.look_up(limit.key("tokens"), now=time.time())`.

        Args:
            kind: The kind of usage.
            info: The model, required if each model has a separate limit.

        Raises:
            ValueError: If each model has a separate limit, but `info` is None.
        """
        if self.per_model and info is None:
            raise ValueError(f"info is missing: the limit {self.name!r} is per model. Pass info=ModelInfo(…).")
        words = [_word(self.name)]
        if self.per_model:
            words.append(_word(str(info)))
        if self.seconds is not None:
            short = f"{self.seconds:g}"
            words.append(f"per {short if float(short) == self.seconds else repr(self.seconds)} s")
        return " ".join((*words, kind))


def _word(text: str) -> str:
    """Return a word of a key, in quotes if it could be ambiguous."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def check_limits(limits: tuple[Limit, ...]) -> None:
    """Raise `ValueError` if two limits have the same name, window, and kind, because they would have the same key."""
    given = ((one.name, kind, one.seconds, one.per_model) for one in limits for kind in _KINDS if getattr(one, kind))
    for (name, kind, *_), number in Counter(given).items():
        if number > 1:
            raise ValueError(f"limits of {kind} have the same name {name!r} and the same window. Rename one.")


@final
class Extent(msgspec.Struct, frozen=True):
    """The maximum number of tokens in a request."""

    given: int
    """The input tokens."""
    answer: int


@final
class UsageKey(msgspec.Struct, frozen=True):
    """The key for the usage of a model under a limit."""

    kind: Kind
    claim: Claim
    """An empty claim with this key."""


def usage_keys(limits: tuple[Limit, ...], info: ModelInfo) -> tuple[UsageKey, ...]:
    """Return the keys for the usage of a model, by limit and kind."""
    return tuple(
        UsageKey(kind, Claim(one.key(kind, info), 0, most, one.seconds))
        for one in limits
        for kind, most in zip(_KINDS, (one.requests, one.tokens, one.units), strict=True)
        if most is not None
    )


@final
class Reservation:
    """The maximum usage of a request under each limit, and its actual usage."""

    def __init__(self, locations: tuple[UsageKey, ...], price: Price | None, extent: Extent) -> None:
        self.id: str = f"{_ID}-{next(_numbers)}"
        self.usage: Usage | None = None
        self.extent: Extent = extent
        self._locations = locations
        self._price = price
        self._is_unused = True  # False if the model may have read the request
        self._has_parts = False
        self.claims: tuple[Claim, ...] = self._claim()
        """The reserved amounts."""

    def _claim(self) -> tuple[Claim, ...]:
        given, answer = self.extent.given, self.extent.answer
        return tuple([one.claim.of(self._amount(one.kind, given, answer)) for one in self._locations])

    def _amount(self, kind: Kind, given: int, answer: int) -> int:
        if kind == "requests":
            return 1
        if kind == "tokens":
            return min(given + answer, MOST)
        of_input, of_output = cast(Price, self._price).highest(given)
        return _units((given * of_input + answer * of_output) / _MILLION)

    def shorten(self, refusal: LimitExceeded, least: int) -> bool:
        """Shorten the answer to the remaining budget, and return whether at least `least` tokens are possible.

        For a limit with a window, the request can use the whole window, because it waits until earlier usage expires.
        """
        kind = next(one.kind for one in self._locations if one.claim.key == refusal.claim.key)
        left = refusal.left if refusal.claim.seconds is None else refusal.claim.most
        given, answer = self.extent.given, 0
        if kind == "tokens":
            answer = left - given
        elif kind == "money":
            of_input, of_output = cast(Price, self._price).highest(given)
            rest = Decimal(left) * _MILLION / UNIT - given * of_input
            answer = int((rest / of_output).to_integral_value(ROUND_FLOOR)) if of_output else 0
        if not least <= answer < self.extent.answer:
            return False
        self.extent = Extent(given, answer)
        self.claims = self._claim()
        return True

    # -- the actual usage

    def start(self) -> None:
        """Record that the model may read the request from now on."""
        self._is_unused = False

    def see(self, parts: tuple[Any, ...]) -> None:
        """Record the usage in the parts of a turn."""
        self._has_parts = self._has_parts or bool(parts)
        for part in parts:
            if part.type == "finish":
                self.usage = part.usage

    def fail(self, cause: Cause[Any]) -> None:
        """Record whether a failed request used tokens."""
        self._is_unused = not self._has_parts and not cause.defects and not cause.interrupted and _is_refused(cause)

    def used_claims(self, unknown: Unknown) -> tuple[Claim, ...]:
        """Return the claims for the actual usage. For unknown usage, `unknown` selects the maximum or nothing."""
        if self._is_unused:
            return tuple([one.claim for one in self._locations])
        whole = Extent(0, 0) if unknown == "release" else self.extent
        used = _honest(self.usage or Usage())
        return tuple([one.claim.of(self._used_amount(one.kind, used, whole)) for one in self._locations])

    def _used_amount(self, kind: Kind, used: Usage, whole: Extent) -> int:
        given, answer = used.input_tokens, used.output_tokens
        cost = None if self._price is None or kind != "money" else self._price.cost(used)
        if cost is not None:
            return _units(cost)
        return self._amount(kind, whole.given if given is None else given, whole.answer if answer is None else answer)


def _honest(usage: Usage) -> Usage:
    """Return the usage with a total that is at least the sum of its parts."""
    numbers = msgspec.structs.astuple(usage)
    given, answer, read, written, thought = (None if one is None else min(one, MOST) for one in numbers)
    return Usage(
        None if given is None else max(given, (read or 0) + (written or 0)),
        None if answer is None else max(answer, thought or 0),
        read,
        written,
        thought,
    )


def _is_refused(cause: Cause[Any]) -> bool:
    def refuses(error: Any) -> bool:
        reason = error.reason if isinstance(error, AiError) else None
        unsent = isinstance(reason, NetworkError) and reason.kind != "TransportError"
        return unsent or isinstance(reason, _NOTHING_USED)

    return all(refuses(error) for error in cause.failures)


def _units(money: Decimal) -> int:
    return min(int((money * UNIT).to_integral_value(ROUND_CEILING)), MOST)
