"""Some clients at once on one process, a tenth of which leave; `nox -s load` has two hundred, for a minute."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.chat_load import run

pytestmark = pytest.mark.slow


def test_no_event_is_lost_and_turns_that_were_left_are_stopped() -> None:
    """Each stream has all its events, once and in order; each turn that nobody reads any more is kept as stopped."""
    found = asyncio.run(run(20, 4))

    assert found.faults == []
    assert found.answers > 20
    assert len(found.stops) == found.left > 0
