"""Laws of allowances: what is committed and reserved is never more than allowed, in whichever order things happen."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.models import Allowances
from fxai.storage.allowance import Claim, Hold, Holds
from tests.kit.postgres import POSTGRES, fresh_database, server_of
from tests.kit.trials import examples

Kind: TypeAlias = Literal["process", "sqlite", "postgres"]
MOST = 100

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "commit", "renew", "wait"]),
        st.integers(0, 5),  # which reservation
        st.integers(0, 70),  # how much, or how long
        st.booleans(),  # whether the owner's end counts as use
    ),
    max_size=30,
)


_numbers = count()


@contextmanager
def _allowances(kind: Kind, postgres_url: str) -> Generator[tuple[Allowances, str]]:
    """Allowances, and a prefix of keys that nobody else has."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "process":
            yield Allowances.in_process(), "k"
        elif kind == "sqlite":
            yield Allowances.sqlite(Path(folder) / "limits.db"), "k"
        else:
            yield Allowances.postgres(postgres_url), f"k{next(_numbers)}"


def _check_steps(kind: Kind, postgres_url: str, steps: list[tuple[str, int, int, bool]], seconds: float | None) -> None:
    """Plays the steps, beside a model of what must be true."""
    with _allowances(kind, postgres_url) as (allowances, key):
        now, number = 1000.0, count()
        held: dict[int, tuple[str, int, float]] = {}  # the id, the amount, and when its owner is taken for dead
        used: list[tuple[float, int]] = []
        for what, which, size, after in steps:
            claim = Claim(key, size, MOST, seconds)
            if what == "reserve" and which not in held:
                id_ = str(next(number))
                refusal = allowances.reserve(
                    id_, (claim,), now=now, lease=50, after_crash="commit" if after else "release"
                )
                if refusal is None:
                    held[which] = id_, size, now + 50
                else:
                    assert refusal.level.committed + refusal.level.reserved + size > MOST
            elif what == "commit" and which in held:
                id_, reserved, _ = held.pop(which)
                spent = min(size, reserved)
                allowances.commit(id_, (claim.of(spent),), now=now)
                used.append((now, spent))
            elif what == "renew" and which in held:
                id_, reserved, _ = held[which]
                allowances.renew(id_, (claim,), now=now, lease=50)
                held[which] = id_, reserved, now + 50
            elif what == "wait":
                now += size
                held = {at: one for at, one in held.items() if one[2] > now}
            level = allowances.look_up(key, now=now, seconds=seconds)
            recent = sum(spent for at, spent in used if seconds is None or at > now - seconds)
            assert recent <= level.committed
            assert level.reserved >= 0
            assert level.committed + level.reserved <= MOST


@pytest.mark.parametrize("seconds", [None, 60.0])
@given(steps=STEPS)
def test_no_more_is_used_than_is_allowed_in_a_process(steps: Any, seconds: float | None) -> None:
    """After each step, also where owners go away without a word."""
    _check_steps("process", "", steps, seconds)


@pytest.mark.parametrize("seconds", [None, 60.0])
@settings(max_examples=examples(15))
@given(steps=STEPS)
def test_no_more_is_used_than_is_allowed_in_sqlite(steps: Any, seconds: float | None) -> None:
    """The same, in a file."""
    _check_steps("sqlite", "", steps, seconds)


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(steps=STEPS)
def test_no_more_is_used_than_is_allowed_in_postgres(postgres_url: str, steps: Any) -> None:
    """The same, in a server."""
    _check_steps("postgres", postgres_url, steps, 60.0)


@pytest.mark.parametrize("kind", ["process", "sqlite", POSTGRES])
def test_all_claims_hold_or_none(kind: Kind, request: pytest.FixtureRequest) -> None:
    """Where one claim is too much nothing is reserved under the others."""
    with _allowances(kind, server_of(kind, request)) as (allowances, key):
        first, second = Claim(f"{key} a", 10, 100), Claim(f"{key} b", 10, 5)
        refusal = allowances.reserve("one", (first, second), now=0.0)

        assert refusal is not None
        assert (refusal.claim.key, refusal.left, refusal.is_final) == (f"{key} b", 5, True)
        assert allowances.look_up(f"{key} a", now=0.0).reserved == 0


@pytest.mark.parametrize("kind", ["process", "sqlite", POSTGRES])
def test_use_beyond_a_reservation_is_counted_and_shuts_the_door(kind: Kind, request: pytest.FixtureRequest) -> None:
    """What was used was used; nothing more is reserved until there is room."""
    with _allowances(kind, server_of(kind, request)) as (allowances, key):
        claim = Claim(key, 10, 20, 60.0)
        assert allowances.reserve("one", (claim,), now=0.0) is None
        allowances.commit("one", (claim.of(50),), now=0.0)
        refusal = allowances.reserve("two", (claim,), now=30.0)

        assert refusal is not None
        assert (refusal.level.committed, refusal.retry_at) == (50, 61.0)
        assert allowances.reserve("two", (claim,), now=61.0) is None


def test_use_that_is_told_after_the_end_of_a_reservation_is_counted() -> None:
    """Of an owner that stood still and was taken for dead: what it used was used, though others had its share."""
    allowances, claim = Allowances.in_process(), Claim("k", 80, 100)
    assert allowances.reserve("one", (claim,), now=0.0, lease=50) is None
    assert allowances.reserve("two", (claim,), now=51.0) is None
    allowances.commit("one", (claim.of(30),), now=52.0)

    assert allowances.look_up("k", now=53.0).committed == 30
    refusal = allowances.reserve("three", (claim.of(1),), now=53.0)
    assert refusal is not None
    assert refusal.left == 0


def test_a_server_that_is_not_there_is_an_os_error() -> None:
    """The port knows no other, and the message says what to look at."""
    away = Allowances.postgres("postgresql://nobody:secret@127.0.0.1:1/nothing?connect_timeout=1")

    with pytest.raises(OSError, match="PostgreSQL failed") as raised:
        away.look_up("k", now=0.0)
    assert "secret" not in str(raised.value)


@pytest.mark.slow
def test_each_database_of_a_test_is_its_own(postgres_url: str) -> None:
    """What one has is not in the other."""
    one, other = (Allowances.postgres(fresh_database(postgres_url)) for _ in range(2))
    claim = Claim("k", 10, 100)

    assert one.reserve("a", (claim,), now=0.0) is None
    assert one.look_up("k", now=0.0).reserved == 10
    assert other.look_up("k", now=0.0).reserved == 0


@pytest.mark.parametrize("ahead", [-100.0, 0.0, 100.0])
def test_used_amounts_count_in_the_window_of_the_clock_of_the_store(ahead: float) -> None:
    """A server's clock can differ from the clock of a program by more than the window."""
    allowances: Any = Allowances.in_process()
    allowances._rows.ahead = ahead
    claim = Claim("k", 40, MOST, 60.0)

    assert allowances.reserve("a", [claim], now=0.0) is None
    allowances.commit("a", [claim], now=0.0)
    assert allowances.look_up("k", now=1.0, seconds=60.0).committed == 40
    assert allowances.look_up("k", now=70.0, seconds=60.0).committed == 0


@pytest.mark.parametrize("kind", ["process", "sqlite"])
def test_expired_reservation_leaves_its_room_to_the_next_claim(kind: Kind, tmp_path: Path) -> None:
    """The claim that finds the reservation expired gets the room at once."""
    allowances = Allowances.in_process() if kind == "process" else Allowances.sqlite(tmp_path / "limits.db")
    claim = Claim("k", 80, MOST, 600.0)

    assert allowances.reserve("a", [claim], now=0.0, lease=60.0) is None
    assert allowances.reserve("b", [claim], now=59.0) is not None
    assert allowances.reserve("b", [claim], now=61.0) is None
    assert allowances.look_up("k", now=62.0, seconds=600.0).reserved == 80


_CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.integers(0, 9), st.booleans()))


@given(_CHANGES, st.lists(st.integers(0, 10)))
def test_running_sum_of_reservations_is_their_sum(changes: list[tuple[str, int, int, bool]], times: list[int]) -> None:
    """The sum and the ended reservations are the same as in a plain dictionary, for any changes and times."""
    holds, plain = Holds(), dict[str, Hold]()
    for at, (id_, amount, expires, stays) in enumerate(changes):
        if stays:
            plain[id_] = Hold(amount, float(expires), "release")
            holds.put(id_, plain[id_])
        else:
            plain.pop(id_, None)
            holds.remove(id_)
        now = times[at] if at < len(times) else -1
        expected = {id_: hold for id_, hold in plain.items() if hold.expires <= now}

        assert dict(holds.list_ended(now)) == expected
        for ended in expected:
            holds.remove(ended)
            del plain[ended]
        assert holds.amount == sum(hold.amount for hold in plain.values())
