"""Limits: how many requests and tokens, and how much money, those that share a name may use together.

>>> team = Limit.budget("team", tokens=1000)
>>> team.key("tokens")
'team tokens'
>>> Limit.per_minute("key of the team", requests=60).key("requests", ModelInfo("openai", "gpt-6-sol"))
'"key of the team" openai:gpt-6-sol per 60 s requests'
"""

from __future__ import annotations

import json
import re
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
from fxai.storage.allowance_rows import MOST, Claim, Refusal

Kind: TypeAlias = Literal["requests", "tokens", "money"]
"""What is counted."""

Unknown: TypeAlias = Literal["commit", "release"]
"""What becomes of a reservation where nobody says how many tokens a request used: all of it counts as used, or none."""

UNIT: Final = 1_000_000_000
"""Of money, amounts are counted in billionths of the currency, each rounded up."""

_MILLION: Final = 1_000_000
_KINDS: Final[tuple[Kind, ...]] = ("requests", "tokens", "money")
_LONGEST: Final = 200  # characters of a name: databases take no key of any length
_SHORTEST: Final = 0.001  # seconds of a window
_PLAIN: Final = re.compile(r"[\w.:@/+-]+")
_ID: Final = urandom(8).hex()  # of this process
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
"""The reasons with which a request is refused before a model reads it."""


@final
class Limit(msgspec.Struct, frozen=True):
    """The most that may be used, of all that is limited under one name. `per_minute` and `budget` make one."""

    name: str
    """Whose limit it is, such as an account, a key (never the key itself), a team."""
    requests: int | None = None
    tokens: int | None = None
    """Input and output together."""
    money: Decimal | None = None
    """In the currency of the prices."""
    seconds: float | None = None
    """The window in which it may be used; None: in all."""
    per_model: bool = False
    """Whether each model has a limit of its own."""

    @staticmethod
    def per_minute(name: str, *, requests: int | None = None, tokens: int | None = None) -> Limit:
        """The rate at which one model may be asked by all that share the name, such as those of one key.

        Raises:
            ValueError: nothing is limited, or by less than 1; the name is empty or longer than 200 characters.
        """
        return Limit.of(name, requests=requests, tokens=tokens, seconds=60.0, per_model=True)

    @staticmethod
    def budget(
        name: str, *, tokens: int | None = None, money: str | int | Decimal | None = None, seconds: float | None = None
    ) -> Limit:
        """What all that share the name may use together, of any models: in all, or within `seconds`.

        Raises:
            TypeError: the money is a `float`: write `"2.50"`.
            ValueError: nothing is limited, or by less than 1 token, or by no money; the window is shorter than a
                millisecond; the name is empty or longer than 200 characters.
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
        """Any limit; fields and errors as those of `Limit`, `per_minute` and `budget`."""
        amount = None if money is None else amount_of(money, "the money of a limit")
        return Limit(name, requests, tokens, amount, seconds, per_model)

    def __post_init__(self) -> None:
        most = (self.requests, self.tokens, self.money)
        given = [one for one in (*most, self.seconds) if one is not None]
        if not self.name or most == (None, None, None) or not all(one > 0 for one in given):
            raise ValueError(f"the limit {self.name!r} needs a name, and something that is limited by more than 0")
        if len(self.name) > _LONGEST:
            raise ValueError(f"the name of a limit is {len(self.name)} characters long: at most {_LONGEST}")
        if self.seconds is not None and self.seconds < _SHORTEST:
            raise ValueError(f"the window of the limit {self.name!r} is {self.seconds} s: at least a millisecond")
        if self.money is not None and self.money * UNIT > MOST:
            raise ValueError(f"the money of the limit {self.name!r} is {self.money}: it must be below 4 billion")
        for kind, one in (("requests", self.requests), ("tokens", self.tokens)):
            if one is not None and (not isinstance(cast(object, one), int) or one > MOST):
                raise ValueError(f"the {kind} of the limit {self.name!r} are {one!r}: an integer of at most {MOST}")

    @property
    def units(self) -> int | None:
        """The money in whole units, billionths of the currency."""
        return None if self.money is None else _units(self.money)

    def key(self, kind: Kind, info: ModelInfo | None = None) -> str:
        """The key under which allowances count it: `allowances.look_up(limit.key("tokens"), now=time.time())`.

        Args:
            kind: what is counted.
            info: the model, where each has a limit of its own.

        Raises:
            ValueError: each model has a limit of its own, and none is named.
        """
        if self.per_model and info is None:
            raise ValueError(f"each model has a limit of its own under {self.name!r}: say which by info=ModelInfo(…)")
        words = [_word(self.name)]
        if self.per_model:
            words.append(_word(str(info)))
        if self.seconds is not None:
            short = f"{self.seconds:g}"
            words.append(f"per {short if float(short) == self.seconds else repr(self.seconds)} s")
        return " ".join((*words, kind))


def _word(text: str) -> str:
    """A text that no other words of a key can be taken for: as it is, or in quotes."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def check_limits(limits: tuple[Limit, ...]) -> None:
    """Refuses limits that count in one place.

    Raises:
        ValueError: two of them do.
    """
    seen: set[tuple[str, float | None, bool, str]] = set()
    for one in limits:
        for kind in _KINDS:
            place = (one.name, one.seconds, one.per_model, kind)
            if getattr(one, kind) is None:
                continue
            if place in seen:
                raise ValueError(f"two limits of {kind} are named {one.name!r} and have one window: rename one")
            seen.add(place)


@final
class Extent(msgspec.Struct, frozen=True):
    """How many tokens a request may take, at most."""

    given: int
    """Of its input."""
    answer: int


@final
class Place(msgspec.Struct, frozen=True):
    """Where the requests to one model are counted under one limit."""

    kind: Kind
    claim: Claim
    """A claim to nothing."""


def places_of(limits: tuple[Limit, ...], info: ModelInfo) -> tuple[Place, ...]:
    """Where requests to a model are counted, by limit and kind."""
    return tuple(
        Place(kind, Claim(one.key(kind, info), 0, most, one.seconds))
        for one in limits
        for kind, most in zip(_KINDS, (one.requests, one.tokens, one.units), strict=True)
        if most is not None
    )


@final
class Reservation:
    """What one request may use under each limit, and what it turned out to use."""

    def __init__(self, places: tuple[Place, ...], price: Price | None, extent: Extent) -> None:
        self.id: str = f"{_ID}-{next(_numbers)}"
        self.usage: Usage | None = None
        self.extent: Extent = extent
        self._places = places
        self._price = price
        self._is_unused = True  # whether the model never read the request
        self._has_parts = False
        self.claims: tuple[Claim, ...] = self._claim()
        """What is reserved."""

    def _claim(self) -> tuple[Claim, ...]:
        given, answer = self.extent.given, self.extent.answer
        return tuple([one.claim.of(self._amount(one.kind, given, answer)) for one in self._places])

    def _amount(self, kind: Kind, given: int, answer: int) -> int:
        """How much so many tokens are, at most."""
        if kind == "requests":
            return 1
        if kind == "tokens":
            return min(given + answer, MOST)
        of_input, of_output = cast(Price, self._price).highest(given)
        return _units((given * of_input + answer * of_output) / _MILLION)

    def shorten(self, refusal: Refusal, least: int) -> bool:
        """Takes a shorter answer, where that would fit into what is left; whether there is one, of `least` at least.

        What a window alone is too small for has the whole window: what of it is used now is waited for.
        """
        kind = next(one.kind for one in self._places if one.claim.key == refusal.claim.key)
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

    # -- what became of it

    def begin(self) -> None:
        """From now on the model may have read it."""
        self._is_unused = False

    def see(self, parts: tuple[Any, ...]) -> None:
        """Takes the usage out of parts that came."""
        self._has_parts = self._has_parts or bool(parts)
        for part in parts:
            if part.type == "finish":
                self.usage = part.usage

    def fail(self, cause: Cause[Any]) -> None:
        """Takes from a failure whether anything was used."""
        self._is_unused = not self._has_parts and not cause.defects and not cause.interrupted and _is_refused(cause)

    def settle(self, unknown: Unknown) -> tuple[Claim, ...]:
        """The claims to what was used; of what nobody counted the most is taken, or nothing."""
        if self._is_unused:
            return tuple([one.claim for one in self._places])
        whole = Extent(0, 0) if unknown == "release" else self.extent
        used = _honest(self.usage or Usage())
        return tuple([one.claim.of(self._settle(one.kind, used, whole)) for one in self._places])

    def _settle(self, kind: Kind, used: Usage, whole: Extent) -> int:
        given, answer = used.input_tokens, used.output_tokens
        cost = None if self._price is None or kind != "money" else self._price.cost(used)
        if cost is not None:
            return _units(cost)
        return self._amount(kind, whole.given if given is None else given, whole.answer if answer is None else answer)


def _honest(usage: Usage) -> Usage:
    """The usage, in which a part of the tokens is never more than all of them."""
    read, written = _number(usage.cached_input_tokens), _number(usage.cache_write_input_tokens)
    thought = _number(usage.reasoning_tokens)
    given, answer = _number(usage.input_tokens), _number(usage.output_tokens)
    return Usage(
        None if given is None else max(given, (read or 0) + (written or 0)),
        None if answer is None else max(answer, thought or 0),
        read,
        written,
        thought,
    )


def _number(given: int | None) -> int | None:
    return None if given is None else min(given, MOST)


def _is_refused(cause: Cause[Any]) -> bool:
    """Whether a request failed before a model read it."""

    def refuses(error: Any) -> bool:
        reason = error.reason if isinstance(error, AiError) else None
        unsent = isinstance(reason, NetworkError) and reason.kind != "TransportError"
        return unsent or isinstance(reason, _NOTHING_USED)

    return all(refuses(error) for error in cause.failures)


def _units(money: Decimal) -> int:
    return min(int((money * UNIT).to_integral_value(ROUND_CEILING)), MOST)
