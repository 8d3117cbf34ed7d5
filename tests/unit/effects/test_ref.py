"""Refs: cells whose changes are atomic."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.effects import Backend, Effect, Gen, Ref, fx
from tests.kit.journal import Journal, Lost, ending_of


def broken_change(_: int) -> int:
    """A function of the user with a bug in it."""
    raise ZeroDivisionError("boom")


def test_a_cell_gives_what_was_put_in() -> None:
    """`get`, `set`, `update`, `get_and_update`, `update_and_get`, `modify`."""
    cell = Ref.of(1)

    @fx.gen
    def program() -> Gen[list[Any]]:
        first = yield from cell.get()
        yield from cell.set(5)
        yield from cell.update(lambda n: n + 1)
        before = yield from cell.get_and_update(lambda n: n * 2)
        after = yield from cell.update_and_get(lambda n: n + 1)
        given = yield from cell.modify(lambda n: (f"was {n}", 0))
        return [first, before, after, given, (yield from cell.get())]

    assert fx.run_sync(program()) == [1, 6, 13, "was 13", 0]


def test_make_gives_each_run_its_own_cell() -> None:
    """`of` is shared, `make` is not."""
    own = Ref.make(0).flat_map(lambda cell: cell.update_and_get(lambda n: n + 1))
    shared = Ref.of(0).update_and_get(lambda n: n + 1)

    assert [fx.run_sync(own), fx.run_sync(own)] == [1, 1]
    assert [fx.run_sync(shared), fx.run_sync(shared)] == [1, 2]


def test_an_exception_changes_nothing() -> None:
    """A function that raises leaves the value, by `modify` and by `modify_effect`."""
    cell = Ref.of(1)
    broken: list[Effect[Any, Any]] = [
        cell.update(broken_change),
        cell.modify(lambda n: ("given", broken_change(n))),
        cell.modify_effect(lambda n: fx.succeed(("given", broken_change(n)))),
        cell.modify_effect(lambda _: fx.fail(Lost())),
        cell.modify_effect(lambda _: fx.sync(lambda: ("given", broken_change(0)))),
    ]

    kinds = [ending_of(fx.run_sync(effect.exit())) for effect in broken]

    assert kinds == ["defect", "defect", "defect", "failure", "defect"]
    assert fx.run_sync(cell.get()) == 1
    assert fx.run_sync(cell.update_and_get(lambda n: n + 1)) == 2


def test_concurrent_changes_lose_nothing(backend: Backend) -> None:
    """A hundred programs that read, wait and write by `modify_effect`, and a hundred that `update`."""
    cell = Ref.of(0)

    def slowly(n: int) -> Effect[tuple[int, int]]:
        return fx.sleep(0).as_((n, n + 1))

    both = fx.all_(
        fx.for_each(range(100), lambda _: cell.modify_effect(slowly), concurrency=None),
        fx.for_each(range(100), lambda _: fx.sleep(0).and_then(cell.update(lambda n: n + 1)), concurrency=None),
    )

    fx.run(both, backend=backend)

    assert fx.run_sync(cell.get()) == 200


def test_other_changes_wait_for_an_effect_that_changes(backend: Backend) -> None:
    """Reading does not wait and sees the old value."""
    cell, journal = Ref.of(0), Journal()

    def slowly(_: int) -> Effect[tuple[None, int]]:
        return fx.sleep(0).and_then(fx.sleep(0)).and_then(journal.note("slow")).as_((None, 10))

    read = cell.get().flat_map(lambda n: journal.note(f"read {n}"))
    add = cell.update(lambda n: n + 1).and_then(journal.note("added"))
    fx.run(fx.all_(cell.modify_effect(slowly), read, add), backend=backend)

    assert journal.lines == ["read 0", "slow", "added"]
    assert fx.run_sync(cell.get()) == 11


@pytest.mark.parametrize("end", ["failure", "cancellation"])
def test_a_change_that_does_not_end_well_frees_the_cell(end: str, backend: Backend) -> None:
    """A failed or interrupted `modify_effect` leaves the value and lets the others on."""
    cell = Ref.of(0)
    failing: Effect[tuple[None, int], Lost] = fx.fail(Lost())
    change = fx.sleep(0).and_then(failing if end == "failure" else fx.never())
    modified: Effect[None, Lost] = cell.modify_effect(lambda _: change)
    first = modified.timeout(0.002).exit()

    fx.run(fx.all_(first, fx.sleep(0).and_then(cell.update(lambda n: n + 1))).timeout(5), backend=backend)

    assert fx.run_sync(cell.get()) == 1
