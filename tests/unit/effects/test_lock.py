"""Turnstiles: one at a time, in order, and nobody is locked out."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.effects import Backend, fx
from fxai.effects.concurrency import Lock, Locks


def test_the_turn_goes_round_in_order(backend: Backend) -> None:
    """Whoever waits is next, also before somebody who comes when the turn is free."""
    door, seen = Lock(), list[str]()

    def one(name: str) -> Any:
        inside = fx.sync(lambda: seen.append(f"{name} in")).and_then(fx.checkpoint())
        left = inside.and_then(fx.sync(lambda: seen.append(f"{name} out")))
        return fx.scoped(door.hold().and_then(left))

    again: Any = one("a").and_then(one("late"))
    fx.run(fx.all_(again, one("b"), one("c")), backend=backend)

    assert seen == [f"{name} {way}" for name in ("a", "b", "c", "late") for way in ("in", "out")]
    assert not door.is_held


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01])
def test_who_stops_waiting_is_not_waited_for(seconds: float, backend: Backend) -> None:
    """Cancelled before its turn, at its turn, or in it: the turn goes on to the next."""
    door = Lock()
    holding: Any = fx.scoped(door.hold().and_then(fx.sleep(0.001)))
    leaving: Any = fx.scoped(door.hold().and_then(fx.sleep(60))).timeout(seconds).exit()
    entering: Any = door.hold().as_("in")
    last: Any = fx.scoped(entering).delay(0.005)
    ends = fx.run(fx.all_(holding, leaving, last), backend=backend)

    assert ends[2] == "in"
    assert not door.is_held


def test_locks_by_key_exclude_by_key_and_are_there_while_needed(backend: Backend) -> None:
    """Programs with one key take turns, others go on; nothing is left of a lock, also where a program was cancelled."""
    locks, inside, most = Locks(), dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)

    def enter(key: str) -> None:
        inside[key] += 1
        most[key] = max(most[key], inside[key])

    def leave(key: str) -> None:
        inside[key] -= 1

    def one(key: str) -> Any:
        turn = fx.sync(lambda: enter(key)).and_then(fx.sleep(0.001)).and_then(fx.sync(lambda: leave(key)))
        return fx.scoped(locks.hold(key).and_then(turn))

    programs: list[Any] = [one(key) for key in "aabab"]
    programs.append(fx.scoped(locks.hold("a").and_then(fx.sleep(60))).timeout(0.002).exit())
    every: Any = fx.for_each(programs, lambda program: program, concurrency=None)
    fx.run(every, backend=backend)

    assert most == {"a": 1, "b": 1}
    assert len(locks) == 0
