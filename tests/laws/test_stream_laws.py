"""Laws of streams: they are lists that come one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, Stream, StreamOf, fx
from tests.kit.trials import examples

Numbers: TypeAlias = StreamOf[int, Any, None]

LISTS = st.lists(st.integers(-9, 9), max_size=8)
SIZES = st.integers(0, 10)
FUNCTIONS: st.SearchStrategy[Callable[[int], int]] = st.sampled_from([lambda n: n + 1, lambda n: n * 2, lambda n: -n])
TESTS: st.SearchStrategy[Callable[[int], bool]] = st.sampled_from(
    [lambda n: n > 0, lambda n: n % 2 == 0, lambda _: True]
)
BRANCHES: st.SearchStrategy[Callable[[int], list[int]]] = st.sampled_from(
    [lambda n: [n, n], lambda _: [], lambda n: list(range(abs(n) % 4)), lambda n: [n]]
)


def read(stream: StreamOf[Any, Any, None]) -> list[Any]:
    """All values."""
    return fx.run_sync(stream.collect())


def inner(branch: Callable[[int], list[int]]) -> Callable[[int], Numbers]:
    """A function to streams, of one to lists."""
    return lambda n: Stream.from_iterable(branch(n))


@given(LISTS)
def test_collecting_an_iterable_is_its_list(items: list[int]) -> None:
    """`from_iterable` and `collect` are each other's inverse; `make` agrees."""
    assert read(Stream.from_iterable(items)) == read(Stream.make(*items)) == items


@given(LISTS, FUNCTIONS, FUNCTIONS)
def test_mapping_twice_is_mapping_once(items: list[int], f: Callable[[int], int], g: Callable[[int], int]) -> None:
    """Functor: identity and composition."""
    stream = Stream.from_iterable(items)

    assert read(stream.map(lambda n: n)) == items
    assert read(stream.map(f).map(g)) == read(stream.map(lambda n: g(f(n)))) == [g(f(n)) for n in items]
    assert read(stream.map_effect(lambda n: fx.succeed(f(n)))) == read(stream.map(f))


@given(LISTS, SIZES)
def test_taking_and_dropping_split_a_stream(items: list[int], number: int) -> None:
    """What `take` gives and what `drop` leaves are the whole."""
    stream = Stream.from_iterable(items)

    assert read(stream.take(number)) == items[:number]
    assert read(stream.drop(number)) == items[number:]
    assert read(stream.take(number).concat(stream.drop(number))) == items


@given(LISTS, SIZES, SIZES)
def test_takes_and_drops_join(items: list[int], one: int, two: int) -> None:
    """Two takes are the smaller, two drops the sum."""
    stream = Stream.from_iterable(items)

    assert read(stream.take(one).take(two)) == read(stream.take(min(one, two)))
    assert read(stream.drop(one).drop(two)) == read(stream.drop(one + two))
    assert read(stream.drop(one).take(two)) == read(stream.take(one + two).drop(one))


@given(LISTS, LISTS, LISTS)
def test_concat_is_a_monoid(a: list[int], b: list[int], c: list[int]) -> None:
    """Associative, with the empty stream on both sides."""
    one, two, three = Stream.from_iterable(a), Stream.from_iterable(b), Stream.from_iterable(c)

    assert read(one.concat(two).concat(three)) == read(one.concat(two.concat(three))) == a + b + c
    assert read(one.concat(Stream.empty())) == read(Stream.empty().concat(one)) == a


@given(LISTS, BRANCHES, BRANCHES)
def test_flat_map_is_a_monad(items: list[int], f: Callable[[int], list[int]], g: Callable[[int], list[int]]) -> None:
    """Left and right identity, associativity."""
    stream = Stream.from_iterable(items)

    assert read(Stream.make(3).flat_map(inner(f))) == f(3)
    assert read(stream.flat_map(Stream.make)) == items
    assert (
        read(stream.flat_map(inner(f)).flat_map(inner(g)))
        == read(stream.flat_map(lambda n: inner(f)(n).flat_map(inner(g))))
        == [z for x in items for y in f(x) for z in g(y)]
    )


@given(LISTS, TESTS, TESTS)
def test_filters_join(items: list[int], p: Callable[[int], bool], q: Callable[[int], bool]) -> None:
    """Two filters are one; `filter` is `flat_map` to one value or none; `take_while` takes a prefix."""
    stream = Stream.from_iterable(items)
    prefix = read(stream.take_while(p))

    assert read(stream.filter(p).filter(q)) == read(stream.filter(lambda n: p(n) and q(n)))
    assert read(stream.filter(p)) == read(stream.flat_map(lambda n: Stream.make(*([n] if p(n) else []))))
    assert prefix == items[: len(prefix)]
    assert all(p(n) for n in prefix)
    assert len(prefix) == len(items) or not p(items[len(prefix)])


@given(LISTS, st.integers(1, 5))
def test_groups_put_together_are_the_stream(items: list[int], size: int) -> None:
    """Every group but the last is full, none is empty."""
    groups = read(Stream.from_iterable(items).grouped(size))

    assert [n for group in groups for n in group] == items
    assert all(len(group) == size for group in groups[:-1])
    assert all(groups)


@given(LISTS, LISTS)
def test_a_zip_is_pythons(a: list[int], b: list[int]) -> None:
    """Pairs until the shorter ends."""
    assert read(Stream.from_iterable(a).zip(Stream.from_iterable(b))) == list(zip(a, b, strict=False))


@given(LISTS)
def test_the_last_state_of_a_scan_is_the_fold(items: list[int]) -> None:
    """`scan` gives every state after the first, `fold` the last."""
    stream = Stream.from_iterable(items)
    states = read(stream.scan(100, lambda a, b: a - b))

    assert len(states) == len(items)
    assert [100, *states][-1] == fx.run_sync(stream.fold(100, lambda a, b: a - b))


@given(LISTS, LISTS)
def test_catching_goes_on_where_it_failed(a: list[int], b: list[int]) -> None:
    """`catch_all` is `concat` after a failure, and nothing without one."""
    one, two = Stream.from_iterable(a), Stream.from_iterable(b)

    assert read(one.concat(Stream.fail("x")).catch_all(lambda _: two)) == a + b
    assert read(one.catch_all(lambda _: two)) == a


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(25))
@given(items=LISTS, other=LISTS, size=st.integers(1, 4))
def test_programs_beside_the_reader_change_no_value(
    backend: Backend, items: list[int], other: list[int], size: int
) -> None:
    """`buffer` and concurrent effects keep the list, `merge` keeps both, each in its order."""
    stream = Stream.from_iterable(items).map_effect(lambda n: fx.checkpoint().as_(n))
    marked = Stream.from_iterable(other).map(lambda n: ("other", n))

    def all_of(read_from: StreamOf[Any, Any, None]) -> list[Any]:
        return fx.run(read_from.collect(), backend=backend)

    merged = all_of(stream.merge(marked))

    assert all_of(stream.buffer(size)) == items
    assert all_of(stream.map_effect(lambda n: fx.checkpoint().as_(n), concurrency=size)) == items
    assert all_of(Stream.emitting(stream.for_each, buffer=size)) == items
    assert [x for x in merged if isinstance(x, int)] == items
    assert [x[1] for x in merged if isinstance(x, tuple)] == other
