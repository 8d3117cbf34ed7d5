"""Contexts and keys: the services of a program."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Never, cast

import pytest
from typing_extensions import override

from fxai.effects import ClassKey, Context, ContextOf, Gen, Layer, MissingServiceError, Reference, Service, Tag, fx


class Store(Service):
    """An interface."""

    @abstractmethod
    def get(self) -> int:
        """A number."""


class Memory(Store):
    """An implementation."""

    @override
    def get(self) -> int:
        return 1


class Name(Tag[str]):
    """A key of a text."""


class Depth(Reference):
    """A reference with a default."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    @override
    def default(cls) -> Depth:
        return cls(0)


class Foreign:
    """A class that knows nothing of fxai."""


def test_a_service_is_had_by_its_key() -> None:
    """`get` gives what `make` and `add` were given."""
    memory = Memory()
    context = Context.make(Store, memory).add(Name, "ann")

    assert Context.get(context, Store) is memory
    assert Context.get(context, Name) == "ann"


def test_contexts_never_change() -> None:
    """`add` and `merge` give new contexts."""
    one = Context.make(Name, "ann")
    two = one.add(Store, Memory()).merge(Context.make(Name, "bob"))

    assert Context.get(one, Name) == "ann"
    assert list(one) == [Name]
    assert Context.get(two, Name) == "bob"
    assert set(two) == {Name, Store}


def test_merging_prefers_the_other() -> None:
    """For keys in both the other's services stand; an empty context changes nothing."""
    one, two = Context.make(Name, "ann"), Context.make(Name, "bob")

    assert Context.get(one.merge(two), Name) == "bob"
    assert one.merge(Context.empty()) is one
    assert Context.empty().merge(one) is one


def test_a_missing_service_says_which_and_what_to_do() -> None:
    """The error names the service and the remedy."""
    empty = cast("ContextOf[Any]", Context.empty())

    with pytest.raises(MissingServiceError, match=r"Store is missing\. .*\.provide"):
        Context.get(empty, Store)
    with pytest.raises(MissingServiceError) as caught:
        fx.run_sync(cast("Any", fx.service(Name)))
    assert caught.value.key is Name


def test_an_implementation_is_no_key() -> None:
    """Asking by an implementation names the interface to ask by."""
    with pytest.raises(TypeError, match=r"Memory implements Store and is not a key itself\. Use Store"):
        _ = fx.service(Memory)
    with pytest.raises(TypeError, match="Use Store"):
        Context.make(Memory, Memory())


def test_an_implementation_asked_by_name_in_a_generator_is_refused() -> None:
    """`yield from Memory` is the same mistake, found when it runs."""

    @fx.gen
    def program() -> Gen[int, Any, Any]:
        return (yield from Memory).get()

    with pytest.raises(TypeError, match="Use Store"):
        fx.run_sync(cast("Any", program()))


def test_an_abstract_service_cannot_be_made() -> None:
    """An interface is not its implementation."""
    with pytest.raises(TypeError, match="abstract"):
        cast("Any", Store)()


def test_a_service_class_is_asked_for_by_its_name() -> None:
    """`yield from Store` gives the service."""

    @fx.gen
    def program() -> Gen[int, Any, Store]:
        return (yield from Store).get()

    assert fx.run_sync(program().provide(Layer.succeed(Store, Memory()))) == 1


def test_a_reference_has_a_default_that_a_layer_replaces() -> None:
    """Nobody has to give it, and whoever does is heard."""
    number = fx.reference(Depth).map(lambda depth: depth.number)

    @fx.gen
    def program() -> Gen[int]:
        return (yield from Depth).number

    assert fx.run_sync(number) == 0
    assert fx.run_sync(program()) == 0
    assert fx.run_sync(cast("Any", number).provide(Layer.succeed(Depth, Depth(3)))) == 3


def test_a_tag_and_a_foreign_class_are_asked_for_by_their_names() -> None:
    """`yield from Name` gives the service of a tag, and `yield from key` that of a `ClassKey`."""
    foreign, thing = ClassKey(Foreign), Foreign()

    @fx.gen
    def program() -> Gen[tuple[str, Foreign], Never, Name | Foreign]:
        name = yield from Name
        return name, (yield from foreign)

    assert fx.run_sync(program().provide(Layer.succeed(Name, "ann") | Layer.succeed(foreign, thing))) == ("ann", thing)


def test_a_foreign_class_is_a_key_by_classkey() -> None:
    """`ClassKey` makes a key of a class; two of one class are one key."""
    thing = Foreign()

    assert fx.run_sync(fx.service(ClassKey(Foreign)).provide(Layer.succeed(ClassKey(Foreign), thing))) is thing


def test_raw_keys_are_for_the_floors_above() -> None:
    """`put`, `find` and `fetch` take any hashable."""
    context = Context.empty().put("raw", 1)

    assert context.fetch("raw") == 1
    assert context.find("none") is None
    assert context.find("none", 2) == 2
    assert context.find("raw", 2) == 1
    with pytest.raises(MissingServiceError, match="none"):
        context.fetch("none")


def test_a_context_shows_its_keys() -> None:
    """The repr names services, and does not show them: they may be secrets."""
    assert repr(Context.make(Name, "secret")) == "Context(Name)"


def test_the_whole_context_can_be_asked_for() -> None:
    """`fx.context()` gives what is there."""
    keys = fx.run_sync(fx.context().map(list).provide_context(Context.make(Name, "ann")))

    assert keys == [Name]
