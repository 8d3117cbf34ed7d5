"""Scopes: what was acquired is released in reverse, exactly once, however the program ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never, cast

import pytest

from fxai.effects import (
    Backend,
    Cause,
    Effect,
    EffectOf,
    Exit,
    Fail,
    Failed,
    Gen,
    Interrupt,
    Layer,
    Scope,
    Service,
    Succeeded,
    Tag,
    fx,
)
from tests.kit.journal import Journal, Lost, boom, ending_of


class Manager:
    """An asynchronous context manager that tells what it hears."""

    def __init__(self, journal: Journal, *, broken: bool = False) -> None:
        self.journal = journal
        self.broken = broken

    async def __aenter__(self) -> int:
        self.journal.add("enter")
        return 7

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self.journal.add(f"leave {kind.__name__ if kind else None}")
        if self.broken:
            raise KeyError("broken")
        return True


class PlainManager:
    """An ordinary context manager that tells what it hears."""

    def __init__(self, journal: Journal, *, broken: bool = False) -> None:
        self.journal = journal
        self.broken = broken

    def __enter__(self) -> int:
        self.journal.add("enter")
        return 7

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self.journal.add(f"leave {kind.__name__ if kind else None}")
        if self.broken:
            raise KeyError("broken")
        return True


MANAGERS = pytest.mark.parametrize("manager", [Manager, PlainManager])
ENDS: dict[str, Effect[None, Lost]] = {
    "success": fx.succeed(None),
    "failure": fx.fail(Lost()),
    "defect": fx.sync(boom),
    "interruption": fx.fail_cause(Cause((Interrupt(),))),
}


@pytest.mark.parametrize("kind", list(ENDS))
def test_resources_are_released_in_reverse_however_it_ended(kind: str, backend: Backend) -> None:
    """Last acquired, first released, once, and the end stays what it was."""
    journal = Journal()
    program = journal.held("a").and_then(journal.held("b")).and_then(fx.sleep(0)).and_then(ENDS[kind])

    ended = fx.run_exit(fx.scoped(program), backend=backend)

    assert ending_of(ended) == kind
    assert journal.lines == ["+a", "+b", "-b", "-a"]


@pytest.mark.parametrize("kind", list(ENDS))
def test_a_finalizer_is_told_how_the_program_ended(kind: str) -> None:
    """`add_finalizer` gives the exit to its finalizer."""
    journal = Journal()

    fx.run_sync(fx.scoped(fx.add_finalizer(journal.ends).and_then(ENDS[kind])).exit())

    assert journal.lines == [kind]


class Name(Tag[str]):
    """Who is told."""


def _holding(tell: Effect[None, Never, Name]) -> Effect[int, Never, Name | Scope]:
    return fx.acquire_release(fx.succeed(1), lambda _: tell)


def _finalizing(tell: Effect[None, Never, Name]) -> Effect[None, Never, Name | Scope]:
    return fx.add_finalizer(lambda _: tell)


@pytest.mark.parametrize("hold", [_holding, _finalizing])
def test_a_release_has_the_services_that_were_there(hold: Callable[..., Effect[Any, Never, Name | Scope]]) -> None:
    """Also where the scope closes outside of what gave them, and where it closes among others."""
    journal = Journal()
    held = hold(fx.service(Name).flat_map(lambda name: journal.note(f"-{name}")))

    first, second = (held.provide(Layer.succeed(Name, name)) for name in ("a", "b"))
    fx.run_sync(fx.scoped(first.and_then(second)).provide(Layer.succeed(Name, "outer")))

    assert journal.lines == ["-b", "-a"]


def test_a_layer_is_released_with_what_it_was_built_from() -> None:
    """What feeds a layer is in none of its output, and is there for its release; it is released after it."""
    journal = Journal()
    name = Layer.scoped(Name, journal.held("name"))
    opened = fx.acquire_release(
        fx.succeed("held"), lambda _: fx.service(Name).flat_map(lambda given: journal.note(f"-by {given}"))
    )

    class Held(Tag[str]):
        """What is held."""

    assert fx.run_sync(fx.service(Held).provide(Layer.scoped(Held, opened).provide(name))) == "held"
    assert journal.lines == ["+name", "-by name", "-name"]


def test_a_failing_finalizer_does_not_stop_the_others() -> None:
    """The others run; what failed is a defect beside the program's own end."""
    journal = Journal()

    def broken(release: Effect[None, Lost]) -> EffectOf[int, Any, Scope | None]:
        return fx.acquire_release(fx.succeed(1), lambda _: release)

    @fx.gen
    def program() -> Gen[None, Lost, Scope]:
        yield from journal.held("a")
        yield from broken(fx.sync(boom))
        yield from journal.held("b")
        yield from broken(fx.fail(Lost("release")))
        yield from fx.fail(Lost("body"))

    ended = cast("Failed[Lost]", fx.run_sync(fx.scoped(program()).exit()))

    assert journal.lines == ["+a", "+b", "-b", "-a"]
    assert ended.cause.failures == (Lost("body"),)
    assert [type(defect).__name__ for defect in ended.cause.defects] == ["FailureError", "ZeroDivisionError"]


def test_scopes_nest() -> None:
    """An inner scope closes before the outer program goes on."""
    journal = Journal()
    inner = fx.scoped(journal.held("inner").and_then(journal.note("in")))

    fx.run_sync(fx.scoped(journal.held("outer").and_then(inner).and_then(journal.note("out"))))

    assert journal.lines == ["+outer", "+inner", "in", "-inner", "out", "-outer"]


def test_acquiring_cannot_be_interrupted(backend: Backend) -> None:
    """A cancellation waits until what is being acquired has its release."""
    journal = Journal()
    slow = fx.acquire_release(fx.sleep(0.01).and_then(journal.note("+a")), lambda _: journal.note("-a"))

    fx.run_exit(fx.scoped(slow.and_then(fx.never())).timeout(0.001), backend=backend)

    assert journal.lines == ["+a", "-a"]


def test_what_fails_to_be_acquired_is_not_released() -> None:
    """A failing acquire leaves no finalizer."""
    journal = Journal()
    program = fx.acquire_release(fx.fail(Lost()), lambda _: journal.note("-a"))

    assert ending_of(fx.run_sync(fx.scoped(program).exit())) == "failure"
    assert journal.lines == []


def test_releases_may_wait_and_are_not_interrupted(backend: Backend) -> None:
    """A release that awaits is run to its end, also when the program was cancelled."""
    journal = Journal()
    held = fx.acquire_release(fx.succeed(1), lambda _: fx.sleep(0.005).and_then(journal.note("released")))

    fx.run_exit(fx.scoped(held.and_then(fx.never())).timeout(0.001), backend=backend)

    assert journal.lines == ["released"]


def test_a_closed_scope_refuses_before_anything_is_acquired() -> None:
    """What could never be released is not acquired."""
    journal = Journal()
    scope = Scope()
    kept: list[Any] = []

    def keep(context: Any) -> None:
        kept.append(context)

    fx.run_sync(fx.scoped(fx.context().map(keep)))
    late = cast("EffectOf[str]", journal.held("late")).provide_context(kept[0])

    with pytest.raises(RuntimeError, match="the scope is closed"):
        fx.run_sync(late)
    assert journal.lines == []
    fx.run_sync(scope.close(Succeeded(None)))
    assert scope.closed
    with pytest.raises(RuntimeError, match="Acquire the resource in an open scope"):
        scope.add(lambda _: fx.succeed(None))


def test_a_finalizer_may_add_finalizers() -> None:
    """What is added while the scope closes is run next."""
    journal = Journal()
    scope = Scope()

    def adding(_: Exit[Any, Any]) -> Effect[None]:
        scope.add(lambda _: journal.note("added"))
        return journal.note("adding")

    scope.add(lambda _: journal.note("first"))
    scope.add(adding)
    fx.run_sync(scope.close(Succeeded(None)))

    assert journal.lines == ["adding", "added", "first"]


def test_closing_again_does_nothing() -> None:
    """Each finalizer runs exactly once."""
    journal = Journal()
    scope = Scope()
    scope.add(lambda _: journal.note("once"))

    fx.run_sync(scope.close(Succeeded(None)).and_then(scope.close(Succeeded(None))))

    assert journal.lines == ["once"]


def test_a_finalizer_can_be_removed() -> None:
    """`remove` takes out what has nothing to do any more; removing twice is no matter."""
    journal = Journal()
    scope = Scope()
    token = scope.add(lambda _: journal.note("removed"))

    scope.remove(token)
    scope.remove(token)
    fx.run_sync(scope.close(Succeeded(None)))

    assert scope.empty
    assert journal.lines == []


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("success", None),
        ("failure", "FailureError"),
        ("defect", "ZeroDivisionError"),
        ("interruption", "InterruptedProgramError"),
    ],
)
@MANAGERS
def test_a_context_manager_is_entered_and_told_the_end(
    kind: str, told: str | None, manager: Any, backend: Backend
) -> None:
    """`acquire_cm` gives what it gives and leaves it with the exception that ended the program; it swallows nothing."""
    journal = Journal()
    program: EffectOf[int, Lost, Scope | None] = fx.acquire_cm(lambda: manager(journal)).tap(lambda _: ENDS[kind])

    ended = fx.run_exit(fx.scoped(program), backend=backend)

    assert ending_of(ended) == kind
    assert journal.lines == ["enter", f"leave {told}"]


@MANAGERS
def test_what_a_context_manager_raises_is_a_defect(manager: Any, backend: Backend) -> None:
    """On leaving, and on being made."""
    journal = Journal()
    leaving: Effect[Any] = fx.scoped(fx.acquire_cm(lambda: manager(journal, broken=True)))
    making: Any = fx.scoped(fx.acquire_cm(boom))

    assert ending_of(fx.run_exit(leaving, backend=backend)) == "defect"
    assert ending_of(fx.run_exit(making, backend=backend)) == "defect"


def test_what_is_no_context_manager_is_refused() -> None:
    """The message says what to give, and what was given."""
    program: Any = fx.scoped(fx.acquire_cm(cast(Any, lambda: 7)))

    with pytest.raises(TypeError, match="a function that returns a context manager, got 7"):
        fx.run_sync(program)


def test_the_scope_is_a_service() -> None:
    """A program may ask for the scope around it and add to it."""
    journal = Journal()

    @fx.gen
    def program() -> Gen[bool, Any, Scope]:
        scope = yield from Scope
        scope.add(journal.ends)
        return scope.closed

    assert issubclass(Scope, Service)
    assert fx.run_sync(fx.scoped(program())) is False
    assert journal.lines == ["success"]


def test_failures_of_the_program_reach_the_finalizer_whole() -> None:
    """The exit that a finalizer is given is the program's own."""
    seen: list[Exit[Any, Any]] = []
    program = fx.add_finalizer(lambda end: fx.sync(lambda: seen.append(end))).and_then(fx.fail(Lost("why")))

    fx.run_sync(fx.scoped(program).exit())

    assert seen == [Failed(Cause((Fail(Lost("why")),)))]
