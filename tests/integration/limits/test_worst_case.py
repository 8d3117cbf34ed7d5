"""The law of limits over processes, with a model that always uses the most that it may."""

from __future__ import annotations

import time
from collections.abc import Generator
from decimal import Decimal
from itertools import count
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fxai.models import Limit
from tests.kit.limit_worker import Fate, Plan, Request, Workers, allowances_of, workers
from tests.kit.postgres import fresh_database

pytestmark = pytest.mark.slow

REQUESTS = st.lists(
    st.builds(
        Request,
        st.text(min_size=1, max_size=40).filter(str.strip),
        st.integers(1, 800),
        st.sampled_from(get_args(Fate)),
    ),
    max_size=5,
).map(tuple)

_numbers = count()


@pytest.fixture(scope="module")
def processes() -> Generator[Workers]:
    """Three that ask at once."""
    with workers(3) as started:
        yield started


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the allowances are: a file, or a database of a server."""
    if request.param == "sqlite":
        return str(tmp_path_factory.mktemp("limits") / "limits.db")
    return fresh_database(request.getfixturevalue("postgres_url"))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(plans=st.tuples(REQUESTS, REQUESTS, REQUESTS), tokens=st.integers(1, 6000), money=st.integers(1, 40_000_000))
def test_committed_and_reserved_are_never_more_than_the_cap(
    processes: Workers, where: str, plans: tuple[tuple[Request, ...], ...], tokens: int, money: int
) -> None:
    """At no moment; and at the end what is committed is what was used, however the requests ended."""
    shared, name = allowances_of(where), f"team {next(_numbers)}"
    price = str(Decimal(money) / 1_000_000_000)
    team = Limit.of(name, tokens=tokens, money=price)
    processes.start([Plan(where, name, tokens, price, requests) for requests in plans])
    seen = [shared.look_up(team.key(kind), now=time.time()) for kind in ("tokens", "money") for _ in range(3)]
    reports = list(processes.reports())
    ends = [shared.look_up(team.key(kind), now=time.time()) for kind in ("tokens", "money")]

    for levels, most in ((seen[:3], tokens), (seen[3:], money)):
        assert all(one.committed + one.reserved <= most for one in levels)
    assert [one.reserved for one in ends] == [0, 0]
    assert ends[0].committed == sum(one.tokens for one in reports) <= tokens
    assert ends[1].committed == sum(one.money for one in reports) <= money
    assert sum(one.asked for one in reports) <= 9
