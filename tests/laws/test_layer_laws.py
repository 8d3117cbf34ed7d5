"""Laws of layers: merging, providing, sharing."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, Gen, Layer, LayerOf, Tag, fx
from tests.kit.journal import running_tasks, turns
from tests.kit.trials import examples

AnyLayer: TypeAlias = LayerOf[Any, Any, Any]

KEYS: list[type[Tag[int]]] = [type(f"Key{n}", (Tag,), {}) for n in range(7)]

SERVICES = st.dictionaries(st.integers(0, len(KEYS) - 1), st.integers(-9, 9), max_size=4)


def layer_of(services: dict[int, int]) -> AnyLayer:
    """The layer of numbers by the numbers of their keys."""
    layer: AnyLayer = cast("AnyLayer", Layer.empty())
    for key, number in services.items():
        layer = layer | Layer.succeed(KEYS[key], number)
    return layer


def built(layer: AnyLayer) -> dict[int, int]:
    """The services that a layer builds."""
    context: Any = fx.run_sync(cast("Any", fx.scoped(layer.build())))
    return {n: context.find(key) for n, key in enumerate(KEYS) if context.find(key) is not None}


@given(SERVICES, SERVICES, SERVICES)
def test_merging_is_associative(a: dict[int, int], b: dict[int, int], c: dict[int, int]) -> None:
    """It does not matter which two are merged first; the later one stands for a key in both."""
    one, two, three = layer_of(a), layer_of(b), layer_of(c)

    assert built((one | two) | three) == built(one | (two | three)) == a | b | c


@given(SERVICES)
def test_the_empty_layer_is_the_identity_of_merging(services: dict[int, int]) -> None:
    """On both sides."""
    layer = layer_of(services)

    assert built(layer | Layer.empty()) == built(Layer.empty() | layer) == built(layer) == services


@given(SERVICES, SERVICES)
def test_merging_commutes_where_outputs_are_disjoint(a: dict[int, int], b: dict[int, int]) -> None:
    """Order matters for keys in both only."""
    b = {key: number for key, number in b.items() if key not in a}

    assert built(layer_of(a) | layer_of(b)) == built(layer_of(b) | layer_of(a))


@given(SERVICES)
def test_merging_with_itself_changes_nothing(services: dict[int, int]) -> None:
    """Idempotent."""
    layer = layer_of(services)

    assert built(layer | layer) == services


@given(st.lists(SERVICES, min_size=1), st.data())
def test_any_shape_of_merges_has_the_services_of_the_last_layers(
    every: list[dict[int, int]], data: st.DataObject
) -> None:
    """The order of the merges, and earlier uses of their parts, change nothing."""
    layers = [layer_of(one) for one in every]
    while len(layers) > 1:
        at = data.draw(st.integers(0, len(layers) - 2))
        if data.draw(st.booleans()):
            built(layers[at])
        layers[at : at + 2] = [layers[at] | layers[at + 1]]

    assert built(layers[0]) == {key: number for one in every for key, number in one.items()}


def sum_of(key: int, needs: list[int]) -> AnyLayer:
    """A layer that adds up the services that it needs, and one."""

    @fx.gen
    def made() -> Gen[int, Any, Any]:
        total = 1
        for need in needs:
            total += yield from fx.service(KEYS[need])
        return total

    return cast("AnyLayer", Layer.effect(KEYS[key], cast("Any", made())))


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_providing_one_after_another_is_providing_the_merge(a: int, b: int) -> None:
    """For dependencies that do not need one another, in either order."""
    both = sum_of(2, [0, 1])
    one, two = layer_of({0: a}), layer_of({1: b})

    assert built(both.provide(one | two)) == built(both.provide(one).provide(two)) == {2: a + b + 1}
    assert built(both.provide(two).provide(one)) == {2: a + b + 1}


@given(st.integers(-9, 9))
def test_feeding_is_associative(number: int) -> None:
    """A chain of layers can be joined from either end."""
    base, middle, top = layer_of({0: number}), sum_of(1, [0]), sum_of(2, [1])

    assert built(top.provide(middle.provide(base))) == built(top.provide(middle).provide(base)) == {2: number + 2}


@given(st.integers(-9, 9))
def test_provide_merge_is_provide_beside_the_dependency(number: int) -> None:
    """`a.provide_merge(b)` gives what `a.provide(b) | b` gives."""
    base, top = layer_of({0: number}), sum_of(1, [0])

    assert built(top.provide_merge(base)) == built(top.provide(base) | base)


@given(st.integers(-9, 9))
def test_providing_an_effect_is_providing_what_the_layer_builds(number: int) -> None:
    """`effect.provide(layer)` runs with the services of the layer, however these were joined."""
    needs = fx.service(KEYS[0]).flat_map(lambda a: fx.service(KEYS[1]).map(lambda b: (a, b)))
    base, top = layer_of({0: number}), sum_of(1, [0])
    expected = (number, number + 1)

    assert fx.run_sync(needs.provide(cast("Any", top.provide_merge(base)))) == expected
    assert fx.run_sync(needs.provide(cast("Any", top)).provide(cast("Any", base))) == expected


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each of some layers, which earlier ones it needs."""
    size = draw(st.integers(1, len(KEYS)))
    return [draw(st.lists(st.sampled_from(range(n)), unique=True)) if n else [] for n in range(size)]


class Building:
    """A graph of layers, and what happened to them."""

    def __init__(self, graph: list[list[int]], *, waits: bool = False, failing: int | None = None) -> None:
        self.lines: list[tuple[str, int]] = []
        self.graph = graph
        self.waits = waits
        self.failing = failing
        self.layers: list[AnyLayer] = []
        for n, needs in enumerate(graph):
            layer = self._layer(n)
            for need in needs:
                layer = cast("AnyLayer", layer.provide(cast("Any", self.layers[need])))
            self.layers.append(layer)

    def _layer(self, n: int) -> AnyLayer:
        @fx.gen
        def made() -> Gen[int, str, Any]:
            for need in self.graph[n]:
                yield from fx.service(KEYS[need])
            if self.waits:
                yield from fx.checkpoint()
            yield from fx.acquire_release(
                fx.sync(lambda: self.lines.append(("+", n))), lambda _: fx.sync(lambda: self.lines.append(("-", n)))
            )
            if self.failing == n:
                yield from fx.fail("failing")
            return n

        return cast("AnyLayer", Layer.scoped(KEYS[n], cast("Any", made())))

    @property
    def whole(self) -> AnyLayer:
        """All layers."""
        layer: AnyLayer = cast("AnyLayer", Layer.empty())
        for other in self.layers:
            layer = layer | other
        return layer

    def order(self, sign: str) -> list[int]:
        """Which were built or released, in order."""
        return [n for kind, n in self.lines if kind == sign]


@given(graphs(), st.booleans())
def test_a_graph_builds_each_layer_once_and_releases_in_reverse(graph: list[list[int]], reverse: bool) -> None:
    """Any diamonds, merged in any order: one build each, dependencies first, released in the opposite order."""
    building = Building(graph)
    layer: AnyLayer = cast("AnyLayer", Layer.empty())
    for other in reversed(building.layers) if reverse else building.layers:
        layer = layer | other

    fx.run_sync(fx.succeed(1).provide(cast("Any", layer)))

    order = building.order("+")
    assert sorted(order) == list(range(len(graph)))
    assert all(order.index(need) < order.index(n) for n, needs in enumerate(graph) for need in needs)
    assert building.order("-") == order[::-1]


@given(graphs(), st.data())
def test_a_graph_with_a_failing_layer_releases_what_was_built(graph: list[list[int]], data: st.DataObject) -> None:
    """Everything that was acquired, in the opposite order, and the program does not start."""
    building = Building(graph, failing=data.draw(st.integers(0, len(graph) - 1)))
    started: list[int] = []
    program = fx.sync(lambda: started.append(1)).provide(cast("Any", building.whole))

    fx.run_sync(program.exit())

    assert started == []
    assert building.order("-") == building.order("+")[::-1]
    assert len(set(building.order("+"))) == len(building.order("+"))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(40))
@given(graph=graphs(), after=st.integers(0, 12), nested=st.booleans())
def test_a_graph_cancelled_at_any_point_releases_what_was_built(
    backend: Backend, graph: list[list[int]], after: int, nested: bool
) -> None:
    """After any number of turns, while it builds or runs: one release each, no dependency before who needs it."""
    building = Building(graph, waits=True)
    program: Any = fx.never()
    if nested:
        program = program.provide(cast("Any", building.layers[-1]))
    program = program.provide(cast("Any", building.whole))

    async def main() -> tuple[int, int]:
        before = running_tasks()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async_exit, program)
            await turns(after)
            tasks.cancel_scope.cancel()
        await turns(1)
        return before, running_tasks()

    before, left = anyio.run(main, backend=backend)
    acquired, released = building.order("+"), building.order("-")

    assert before == left
    assert sorted(acquired) == sorted(released) == sorted(set(acquired))
    assert all(released.index(n) < released.index(need) for n in released for need in graph[n] if need in released)
