"""Layers: built once, shared, released in reverse."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import anyio
import pytest

from fxai.effects import (
    Backend,
    Cause,
    Clock,
    Context,
    ContextOf,
    Effect,
    EffectOf,
    Exit,
    Fail,
    Failed,
    Gen,
    Layer,
    LayerOf,
    Schedule,
    Scope,
    Service,
    Stream,
    Tag,
    fx,
    runtime,
)
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, StandingClock, boom, ending_of

AnyLayer: TypeAlias = LayerOf[Any, Any, None]


class A(Service):
    """A service."""


class B(Service):
    """Another."""


class C(Service):
    """One more."""


class Number(Tag[int]):
    """A number."""


KEYS: dict[str, type[Service]] = {"a": A, "b": B, "c": C}


def build(journal: Journal, name: str, *needs: str, wait: float | None = None) -> Any:
    """A layer of the service `name` that needs others, and writes when it is built and released."""

    @fx.gen
    def made() -> Gen[Service, Any, Any]:
        for need in needs:
            yield from cast("Any", KEYS[need])
        if wait is not None:
            yield from fx.sleep(wait)
        yield from journal.held(name)
        return KEYS[name]()

    return cast("Any", Layer.scoped(KEYS[name], cast("Any", made())))


def uses(journal: Journal, *names: str) -> Any:
    """A program that asks for services and writes that it runs."""

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        for name in names:
            yield from cast("Any", KEYS[name])
        yield from journal.note("run")

    return cast("Any", program())


def test_each_constructor_gives_its_service() -> None:
    """`succeed`, `sync`, `effect`, `scoped`, `effect_context`, `scoped_context`, `suspend`, `unwrap`."""
    context = Context.make(Number, 7)
    seven = fx.succeed(7)
    layers: list[LayerOf[Number, Any, None]] = [
        Layer.succeed(Number, 7),
        Layer.sync(Number, lambda: 7),
        Layer.effect(Number, seven),
        Layer.scoped(Number, seven),
        Layer.effect_context(fx.succeed(context)),
        Layer.scoped_context(fx.succeed(context)),
        Layer.suspend(lambda: Layer.succeed(Number, 7)),
        Layer.unwrap(fx.succeed(Layer.succeed(Number, 7))),
    ]

    assert [fx.run_sync(fx.service(Number).provide(layer).or_die()) for layer in layers] == [7] * 8
    assert [fx.run_sync(fx.scoped(layer.build()).or_die()).fetch(Number) for layer in layers] == [7] * 8


def test_a_layer_is_built_when_its_program_starts_and_released_when_it_ends(backend: Backend) -> None:
    """Each run builds anew; nothing happens before."""
    journal = Journal()
    program = uses(journal, "a").provide(build(journal, "a"))

    assert journal.lines == []
    for _ in range(2):
        fx.run(program, backend=backend)
    assert journal.lines == ["+a", "run", "-a"] * 2


COMPOSED: list[tuple[Callable[[AnyLayer, AnyLayer, AnyLayer], AnyLayer], str]] = [
    (lambda a, b, c: (b | c).provide_merge(a), "+a +b +c run -c -b -a"),
    (lambda a, b, c: b.provide(a) | c.provide(a) | a, "+a +b +c run -c -b -a"),
    (lambda a, b, c: a | b.provide(a) | c.provide(a), "+a +b +c run -c -b -a"),
    (lambda a, b, c: a | (c.provide(a) | b.provide(a)), "+a +c +b run -b -c -a"),
    (lambda a, b, c: b.provide(a.fresh()) | c.provide(a) | a, "+a +b +a +c run -c -a -b -a"),
    (lambda a, b, c: b.provide_merge(a) | c.provide_merge(a), "+a +b +c run -c -b -a"),
    (lambda a, b, c: (a | a).merge(b.provide(a)) | c.provide(a), "+a +b +c run -c -b -a"),
    (lambda a, b, c: _for_both(a.fresh(), b, c) | a, "+a +b +a +c +a run -a -c -a -b -a"),
    (lambda a, b, c: _for_both(a.fresh() | Layer.empty(), b, c) | a, "+a +b +a +c +a run -a -c -a -b -a"),
    (lambda a, b, c: b.provide(a).fresh() | c.provide(a) | a, "+a +b +a +c run -c -a -b -a"),
    (lambda a, b, c: (a | b.provide(a)).fresh() | c.provide(a), "+a +b +a +c run -c -a -b -a"),
]


def _for_both(needed: AnyLayer, b: AnyLayer, c: AnyLayer) -> AnyLayer:
    """Two layers that are fed by one value."""
    return b.provide(needed) | c.provide(needed)


@every(
    ("composed", "lines"),
    COMPOSED,
)
def test_one_build_builds_a_layer_once_and_releases_in_reverse(
    composed: Callable[[AnyLayer, AnyLayer, AnyLayer], AnyLayer], lines: str, backend: Backend
) -> None:
    """In a diamond the shared layer is built first, once, and released last; `fresh` is built anew."""
    journal = Journal()
    a, b, c = build(journal, "a"), build(journal, "b", "a"), build(journal, "c", "a")

    fx.run(uses(journal, "a", "b", "c").provide(composed(a, b, c)), backend=backend)

    assert journal.lines == lines.split()


def test_provide_takes_the_fed_services_out_and_provide_merge_keeps_them() -> None:
    """The output of `provide` is the layer's own; that of `provide_merge` is both."""
    journal = Journal()
    a, b = build(journal, "a"), build(journal, "b", "a")

    own = fx.run_sync(fx.scoped(b.provide(a).build()))
    both = fx.run_sync(fx.scoped(b.provide_merge(a).build()))

    assert set(own) == {B}
    assert set(both) == {A, B}


def test_a_merge_prefers_the_right_for_one_key() -> None:
    """For a key in both layers the other's service stands."""
    merged = Layer.succeed(Number, 1) | Layer.succeed(Number, 2)

    assert fx.run_sync(fx.service(Number).provide(merged)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("form", ["left", "right"])
def test_very_many_layers_are_merged_in_linear_time(form: str, backend: Backend) -> None:
    """2,000 of them, one by one from either side, with and without a loop; each is built once."""
    built: list[int] = []

    def number(n: int) -> AnyLayer:
        key: Any = type(f"Key{n}", (Tag,), {})
        layer: Any = Layer.sync(key, lambda: built.append(n))
        return cast(AnyLayer, layer)

    merged = cast("AnyLayer", Layer.succeed(Number, 7))
    for n in range(2_000):
        merged = number(n) | merged if form == "right" else merged | number(n)
    program = cast("Effect[int]", fx.service(Number).provide(cast("Any", merged)))

    started = time.process_time()
    assert (fx.run_sync(program), fx.run(program, backend=backend)) == (7, 7)

    assert time.process_time() - started < 10
    assert sorted(built) == sorted([*range(2_000)] * 2)


def test_a_merge_builds_side_by_side(backend: Backend) -> None:
    """Each of two layers waits for the other to have begun: in sequence neither would be built."""
    one, two = anyio.Event(), anyio.Event()

    def meeting(mine: anyio.Event, other: anyio.Event) -> Effect[int]:
        return fx.sync(mine.set).and_then(fx.wait(other.wait)).as_(1)

    merged = Layer.effect(Number, meeting(one, two)) | Layer.effect(A, meeting(two, one).map(lambda _: A()))

    assert fx.run(fx.service(Number).provide(merged).timeout(5).or_die(), backend=backend) == 1


def test_a_layer_that_waits_is_built_once_for_all_who_wait_for_it(backend: Backend) -> None:
    """Two that need a layer at once share the one build, and it is released after both."""
    journal = Journal()
    a, b, c = build(journal, "a", wait=0.001), build(journal, "b", "a"), build(journal, "c", "a")

    fx.run(uses(journal, "b", "c").provide(b.provide(a) | c.provide(a)), backend=backend)

    assert journal.lines.count("+a") == 1
    assert journal.lines[0] == "+a"
    assert journal.lines[-1] == "-a"


@pytest.mark.parametrize("kind", ["failure", "defect"])
def test_a_failing_layer_releases_what_was_acquired(kind: str, backend: Backend) -> None:
    """The program does not start, and nothing that was built stays."""
    journal = Journal()
    a, b = build(journal, "a"), build(journal, "b", "a")
    cause: Effect[C, Lost] = fx.fail(Lost()) if kind == "failure" else fx.sync(boom).map(lambda _: C())
    bad = Layer.scoped(C, journal.held("c").and_then(cause))

    ended = fx.run_exit(uses(journal, "b", "c").provide((b | bad).provide_merge(a)), backend=backend)

    assert ending_of(ended) == kind
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]


def test_a_failing_layer_interrupts_the_one_beside_it(backend: Backend) -> None:
    """What is still being built is stopped and released."""
    journal = Journal()
    slow = Layer.scoped(A, journal.held("a").and_then(fx.never()).ensuring(journal.note("stopped")))
    bad: LayerOf[B, Lost, None] = Layer.effect(B, fx.sleep(0).and_then(fx.fail(Lost())))

    ended = fx.run_exit(uses(journal, "a").provide(slow | bad), backend=backend)

    assert ended == Failed(Cause((Fail(Lost()),)))
    assert journal.lines == ["+a", "stopped", "-a"]


def test_a_build_that_is_cancelled_releases_what_it_has(backend: Backend) -> None:
    """Cancellation in the middle of a build leaves nothing behind."""
    journal = Journal()
    a, b = build(journal, "a"), build(journal, "b", "a", wait=60)

    ended = fx.run_exit(uses(journal, "b").provide(b.provide(a)).timeout(0.005), backend=backend)

    assert ending_of(ended) == "failure"
    assert journal.lines == ["+a", "-a"]


def test_a_build_whose_builder_was_cancelled_is_made_by_who_still_waits(backend: Backend) -> None:
    """Two programs share a build; the one that builds is interrupted, the other gets its service all the same."""
    journal = Journal()
    layer = build(journal, "a", wait=0.01)
    one, two = uses(journal, "a").provide(layer).timeout(0.001).exit(), uses(journal, "a").provide(layer)

    fx.run(fx.all_(one, two).provide(Layer.succeed(Number, 1)), backend=backend)

    assert journal.lines == ["+a", "run", "-a"]


def test_a_program_that_is_cancelled_releases_its_layers(backend: Backend) -> None:
    """In reverse, waits included."""
    journal = Journal()
    a, b = build(journal, "a"), build(journal, "b", "a")
    slow = uses(journal, "a", "b").and_then(fx.never())

    fx.run_exit(slow.provide(b.provide_merge(a)).timeout(0.005), backend=backend)

    assert journal.lines == ["+a", "+b", "run", "-b", "-a"]


def test_a_layer_that_is_built_further_out_is_shared(backend: Backend) -> None:
    """A nested `provide` of the same layer builds nothing, and does not release it early."""
    journal = Journal()
    a = build(journal, "a")
    inner = uses(journal, "a").provide(a).and_then(journal.note("inner done"))

    fx.run(uses(journal, "a").and_then(inner).and_then(inner).provide(a), backend=backend)

    assert journal.lines == ["+a", "run", "run", "inner done", "run", "inner done", "-a"]


def test_a_layer_that_is_fed_other_services_is_built_anew() -> None:
    """Sharing is for the same inputs only."""
    twice = Layer.effect(A, fx.service(Number).map(lambda n: _Numbered(n * 2)))
    number = fx.service(A).map(lambda a: cast("_Numbered", a).number)
    inner = number.provide(twice).provide(Layer.succeed(Number, 10))

    both = fx.all_(inner, number).provide(twice).provide(Layer.succeed(Number, 1))

    assert fx.run_sync(both) == (20, 2)


class _Numbered(A):
    def __init__(self, number: int) -> None:
        self.number = number


def test_a_layer_is_held_by_each_user_and_released_by_the_last(backend: Backend) -> None:
    """The program that built a layer ends first; the other one that shares it keeps it."""
    journal = Journal()
    a = build(journal, "a")
    joined, over = anyio.Event(), anyio.Event()
    first = uses(journal, "a").and_then(fx.wait(joined.wait)).provide(a).and_then(fx.sync(over.set))
    second = uses(journal, "a").and_then(fx.sync(joined.set)).and_then(fx.wait(over.wait)).provide(a)

    both = fx.all_(first.and_then(journal.note("first over")), second)
    fx.run(both.provide(Layer.succeed(Number, 1)).timeout(5), backend=backend)

    assert journal.lines == ["+a", "run", "run", "first over", "-a"]


def test_a_layer_that_was_released_is_built_again() -> None:
    """In one program, after its last user let go, the next one builds."""
    journal = Journal()
    a = build(journal, "a")
    used = uses(journal, "a").provide(a)

    fx.run_sync(used.and_then(used).provide(Layer.succeed(Number, 1)))

    assert journal.lines == ["+a", "run", "-a"] * 2


def test_failures_of_a_layer_can_be_changed_handled_and_made_defects() -> None:
    """`map_error`, `catch_all` and `or_die`."""
    bad: LayerOf[Number, Lost, None] = Layer.effect(Number, fx.fail(Lost("no")))
    caught: LayerOf[Number, Any, None] = bad.catch_all(lambda error: Layer.succeed(Number, len(error.what)))

    assert fx.run_sync(fx.service(Number).provide(bad.map_error(lambda e: e.what)).exit()) == Failed(
        Cause((Fail("no"),))
    )
    assert ending_of(fx.run_sync(fx.service(Number).provide(bad.or_die()).exit())) == "defect"
    assert fx.run_sync(fx.service(Number).provide(caught)) == 2


def test_a_failed_layer_is_released_before_the_one_that_replaces_it() -> None:
    """What the failed build acquired is gone when the other one is built."""
    journal = Journal()
    bad: LayerOf[Number, Lost, None] = build(journal, "a") | Layer.scoped(
        Number, journal.held("n").and_then(fx.fail(Lost()))
    )
    good = Layer.scoped(Number, journal.held("good").as_(1))

    fx.run_sync(fx.service(Number).provide(bad.catch_all(lambda _: good)))

    assert journal.lines == ["+a", "+n", "-n", "-a", "+good", "-good"]


def test_a_retried_layer_releases_each_failed_attempt(backend: Backend) -> None:
    """Each attempt begins with nothing held; the one that succeeds is held until the end."""
    journal = Journal()
    left = [2]

    def flaky() -> Effect[int, Lost]:
        left[0] -= 1
        return fx.fail(Lost()) if left[0] >= 0 else fx.succeed(7)

    layer = Layer.scoped(Number, journal.held("n").and_then(fx.suspend(flaky))).retry(Schedule.recurs(5))

    assert fx.run(fx.service(Number).tap(lambda _: journal.note("run")).provide(layer).or_die(), backend=backend) == 7
    assert journal.lines == ["+n", "-n", "+n", "-n", "+n", "run", "-n"]


def test_a_finalizer_of_a_layer_that_fails_is_a_defect_of_the_program() -> None:
    """It is told, and the other layers are released."""
    journal = Journal()
    broken = Layer.scoped(B, fx.acquire_release(fx.succeed(B()), lambda _: fx.sync(boom)))

    ended = fx.run_sync(uses(journal, "a", "b").provide(build(journal, "a") | broken).exit())

    assert ending_of(ended) == "defect"
    assert journal.lines == ["+a", "run", "-a"]


def test_the_empty_layer_gives_nothing() -> None:
    """It is the identity of `merge`."""
    merged = Layer.succeed(Number, 7) | Layer.empty()

    assert fx.run_sync(fx.service(Number).provide(merged)) == 7
    assert list(fx.run_sync(fx.scoped(Layer.empty().build()))) == []


def test_a_stream_is_provided_a_layer_for_as_long_as_it_is_read(backend: Backend) -> None:
    """Built when first read, released when the reading ends, early too."""
    journal = Journal()
    layer = Layer.scoped(Number, journal.held("n").as_(10))
    stream = Stream.make(1, 2, 3).map_effect(lambda n: fx.service(Number).map(lambda base: base + n)).provide(layer)

    assert fx.run(stream.collect(), backend=backend) == [11, 12, 13]
    assert fx.run(stream.take(1).collect(), backend=backend) == [11]
    assert journal.lines == ["+n", "-n"] * 2


def test_a_layer_is_told_how_the_program_ended() -> None:
    """A layer's finalizer sees the exit of the program it served."""
    journal = Journal()
    told = Layer.scoped(Number, fx.add_finalizer(journal.ends).as_(1))
    program = fx.service(Number)

    fx.run_sync(program.provide(told))
    fx.run_sync(program.and_then(fx.fail(Lost())).provide(told).exit())

    assert journal.lines == ["success", "failure"]


async def _with_runtime(journal: Journal, error: BaseException | None = None) -> None:
    told = Layer.scoped(A, fx.add_finalizer(journal.ends).and_then(journal.held("a")).map(lambda _: A()))
    async with runtime(told) as services:
        await services.run(uses(journal, "a"))
        await services.run(uses(journal, "a"))
        if error is not None:
            raise error


def test_a_runtime_builds_once_and_runs_any_number(backend: Backend) -> None:
    """Released when the block is left."""
    journal = Journal()

    anyio.run(_with_runtime, journal, backend=backend)

    assert journal.lines == ["+a", "run", "run", "-a", "success"]


def test_a_runtime_tells_its_layers_of_the_error_that_ended_the_block(backend: Backend) -> None:
    """A transaction held by a layer can be rolled back."""
    journal = Journal()

    with pytest.raises(ValueError, match="body"):
        anyio.run(_with_runtime, journal, ValueError("body"), backend=backend)
    assert journal.lines == ["+a", "run", "run", "-a", "defect"]


def test_a_runtime_shares_its_layers_with_nested_provides(backend: Backend) -> None:
    """A layer of the runtime that is provided again inside is not built again."""
    journal = Journal()
    a = build(journal, "a")

    async def main() -> None:
        async with runtime(a) as services:
            await services.run(uses(journal, "a").provide(a))

    anyio.run(main, backend=backend)

    assert journal.lines == ["+a", "run", "-a"]


def test_a_runtime_whose_layer_fails_raises_and_releases(backend: Backend) -> None:
    """The block is not entered."""
    journal = Journal()
    bad = cast("AnyLayer", build(journal, "a") | Layer.effect(Number, fx.fail(OSError("gone"))))

    async def main() -> None:
        async with runtime(bad):
            journal.add("entered")

    with pytest.raises(OSError, match="gone"):
        anyio.run(main, backend=backend)
    assert journal.lines == ["+a", "-a"]


def test_a_runtime_that_is_cancelled_while_it_builds_releases(backend: Backend) -> None:
    """Cancellation passes; what was acquired is released."""
    journal = Journal()
    layer = build(journal, "b", "a", wait=60).provide(build(journal, "a"))

    async def main() -> None:
        with anyio.move_on_after(0.005):
            async with runtime(layer):
                journal.add("entered")

    anyio.run(main, backend=backend)

    assert journal.lines == ["+a", "-a"]


def test_a_runtime_whose_release_fails_raises_it(backend: Backend) -> None:
    """A defect on release is raised, unless the block raised already."""
    broken = Layer.scoped(A, fx.acquire_release(fx.succeed(A()), lambda _: fx.sync(boom)))

    async def main(error: Exception | None) -> None:
        async with runtime(broken):
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        anyio.run(main, None, backend=backend)
    with pytest.raises(KeyError):
        anyio.run(main, KeyError("body"), backend=backend)


def test_a_runtime_gives_exits_and_results_too(backend: Backend) -> None:
    """`run`, `run_exit` and `run_result` as the functions of the same names."""

    async def main() -> tuple[int, Exit[int, Any], str]:
        async with runtime(Layer.succeed(Number, 7)) as services:
            number = fx.service(Number)
            result = await services.run_result(number.and_then(fx.fail(Lost("x"))))
            return await services.run(number), await services.run_exit(number), result.failure().what

    value, exit_, failure = anyio.run(main, backend=backend)

    assert (value, ending_of(exit_), failure) == (7, "success", "x")


def test_building_needs_a_scope_and_gives_a_context() -> None:
    """`build` is an effect of a context, released with the scope around."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[ContextOf[Any], Any, Scope]:
        building: EffectOf[ContextOf[Any], Any, Scope | None] = build(journal, "a").build()
        context = yield from building
        yield from journal.note("built")
        return context

    context = fx.run_sync(fx.scoped(program()))

    assert isinstance(context.fetch(A), A)
    assert journal.lines == ["+a", "built", "-a"]


def test_a_service_that_a_layer_does_not_need_does_not_make_it_another() -> None:
    """A layer fed one after another is shared with the one beside it."""
    journal = Journal()
    a, b = build(journal, "a"), build(journal, "b")
    c = build(journal, "c", "a", "b").provide(a).provide(b)

    fx.run_sync(uses(journal, "a", "b", "c").provide(c | a | b))

    assert journal.lines == ["+b", "+a", "+c", "run", "-c", "-a", "-b"]


def test_a_layer_built_with_another_reference_is_another(backend: Backend) -> None:
    """What was built by a clock of its own does not serve where the default one holds at the same time."""
    journal = Journal()
    a = build(journal, "a")
    one, two = anyio.Event(), anyio.Event()

    def meeting(mine: anyio.Event, other: anyio.Event) -> Any:
        return uses(journal, "a").and_then(fx.sync(mine.set)).and_then(fx.wait(other.wait)).provide(a)

    standing = meeting(one, two).provide(Layer.succeed(Clock, StandingClock()))
    both: Effect[Any] = fx.all_(standing, meeting(two, one))
    fx.run(both.provide(Layer.succeed(Number, 1)).timeout(5), backend=backend)

    assert journal.lines == ["+a", "run", "+a", "run", "-a", "-a"]


def test_any_number_of_layers_is_one(backend: Backend) -> None:
    """They are built side by side, each once, and released in reverse; of two for one key the later one is taken."""
    journal = Journal()
    merged = Layer.merge_all(build(journal, "a"), build(journal, "b").merge(build(journal, "c")))
    fx.run(uses(journal, "a", "b", "c").provide(merged), backend=backend)
    numbers = [fx.run_sync(fx.service(Number).provide(Layer.merge_all(*map(_number, some)))) for some in ([1], [1, 2])]

    assert sorted(journal.lines[:3]) == ["+a", "+b", "+c"]
    assert journal.lines[3:] == ["run", *(f"-{line[1:]}" for line in reversed(journal.lines[:3]))]
    assert numbers == [1, 2]
    assert fx.run_sync(fx.succeed(3).provide(cast("Any", Layer.merge_all()))) == 3


def _number(n: int) -> LayerOf[Number]:
    return Layer.succeed(Number, n)


def test_an_abstract_class_makes_no_service() -> None:
    """The layer is refused when it is made, and the error names what the class does not define."""

    class Store(Service):
        @abstractmethod
        def read(self) -> str: ...

        @abstractmethod
        def count(self) -> int: ...

    store: Any = Store
    with pytest.raises(TypeError, match=r"Layer\.sync cannot call .*Store'>, which does not define count, read\."):
        Layer.sync(store, store)
