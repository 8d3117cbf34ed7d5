"""Functions as tools: the tool, the handler, and the function itself."""

from __future__ import annotations

import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Annotated, Any, Never, cast

import msgspec
import pytest
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult, future_safe
from returns.io import IOFailure, IOResult, IOSuccess
from returns.result import Failure, Result, Success, safe

from fxai import (
    Effect,
    FunctionTool,
    Gen,
    Layer,
    Outcome,
    Readonly,
    Schema,
    SchemaError,
    Stream,
    Tag,
    Title,
    Tool,
    Toolkit,
    fx,
    tool,
)
from fxai.annotations import Annotations
from fxai.effects import Backend
from fxai.tools import CallContext, HandlerError, HandlerFailed, InvalidResult
from tests.kit.every import every


class Odd(msgspec.Struct, frozen=True):
    """A number that has no half."""

    n: int


class Rate(Tag[int]):
    """What to multiply with."""


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool(failure_mode="return")
def half(n: int) -> Result[int, Odd]:
    """Halves a number."""
    return Failure(Odd(n)) if n % 2 else Success(n // 2)


def _called(made: FunctionTool[..., Any, Any, Any, Any], params: object, backend: Backend = "asyncio") -> Outcome:
    kit = Toolkit.make(made.tool)
    layer: Any = made.layer
    outcome: Outcome = fx.run(kit.call(made.name, params).provide(layer), backend=backend)
    return outcome


# -- what it is


def test_the_function_stays_callable() -> None:
    """As it was, with its signature."""
    assert add(2, 3) == 5
    assert add(a=2) == 3
    assert inspect.signature(add) == inspect.signature(add.__wrapped__)
    assert add.__name__ == "add"


def test_the_tool_says_what_the_function_says() -> None:
    """Name, description, parameters, success, failure."""
    assert (add.tool.name, add.tool.description) == ("add", "Adds two numbers.")
    assert add.tool.json_schema() == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "description": "The second.", "default": 1},
        },
        "required": ["a"],
    }
    assert (add.tool.success, add.tool.failure) == (Schema.of(int), Schema.of(Never))
    assert (half.tool.success, half.tool.failure) == (Schema.of(int), Schema.of(Odd))
    assert Tool.is_user_defined(add.tool)


def test_options_are_the_tools() -> None:
    """Those of every tool, and another name."""
    made = Tool.from_function(
        add.__wrapped__, name="plus", description="Sums up.", annotations={Readonly: True}, failure_mode="return"
    )

    assert (made.name, made.description, made.tool.failure_mode) == ("plus", "Sums up.", "return")
    assert made.tool.get(Readonly) is True


def test_an_option_that_there_is_none_of_is_refused() -> None:
    """With those that there are."""
    options: dict[str, Any] = {"nam": "plus"}

    with pytest.raises(SchemaError, match="unknown option 'nam'"):
        tool(**options)(add.__wrapped__)


def test_a_lambda_needs_a_name() -> None:
    """And types, which only `__annotations__` can give it."""
    f: Callable[[], int] = lambda: 1  # noqa: E731  # a function without a name

    with pytest.raises(SchemaError, match="Pass name="):
        tool(f, success=int)

    assert Tool.from_function(f, name="one", success=int).name == "one"


def test_a_tool_is_not_made_twice() -> None:
    """What is a tool already is changed instead."""
    with pytest.raises(SchemaError, match=r"is already a tool\. Use"):
        tool(add)


def test_combinators_keep_the_function() -> None:
    """Each gives a function tool, with the tool changed as the tool's own combinator does."""
    changed = [
        (add.annotate(Title, "Add"), add.tool.annotate(Title, "Add")),
        (add.annotate_all({Readonly: True}), add.tool.annotate_all(Annotations({Readonly: True}))),
        (add.rename("plus"), add.tool.rename("plus")),
        (add.prefix("math."), add.tool.prefix("math.")),
        (add.with_description("Sums."), add.tool.with_description("Sums.")),
        (add.with_options(failure_mode="return"), add.tool.with_options(failure_mode="return")),
    ]

    for made, expected in changed:
        assert isinstance(made, FunctionTool)
        assert made.tool == expected
        assert made != add
        assert made(1, 2) == 3
        assert _called(made, {"a": 1}).result == 2


def test_a_tool_made_under_another_name_is_another_tool() -> None:
    """Unlike one that is renamed, it is not answered by the same handler."""
    other = add.made_as("plus")

    assert other.tool.identity != add.tool.identity == add.rename("plus").tool.identity
    assert (other.name, other.tool.json_schema()) == ("plus", add.tool.json_schema())
    assert _called(other, {"a": 1}).result == 2


def test_it_is_a_value() -> None:
    """Two tools of one function are equal; their hashes and texts are too."""
    again = Tool.from_function(add.__wrapped__)

    assert again == add
    assert again.tool.identity == add.tool.identity
    assert hash(again) == hash(add)
    assert len({add, again, half}) == 2
    assert repr(add) == "FunctionTool(add)"
    assert add != Tool.from_function(add.__wrapped__, blocking=True)
    assert add != "add"


def test_the_tool_of_a_decorated_function_is_picklable() -> None:
    """Its parameters are found where the function is; the function tool itself holds a function."""
    assert pickle.loads(pickle.dumps(add.tool)) == add.tool


# -- handlers of each form


@tool
async def later(n: int) -> int:
    """Doubles, in a while."""
    await FutureResult.from_value(n)
    return n * 2


@tool
async def later_result(n: int) -> Result[int, Odd]:
    """Doubles, in a while."""
    return Success(n * 2)


@tool
async def later_effect(n: int) -> Effect[int, Odd]:
    """Doubles, in a while."""
    return fx.succeed(n * 2)


@tool
def by_io(n: int) -> IOResult[int, Odd]:
    """Doubles."""
    return IOSuccess(n * 2)


@tool
def by_future(n: int) -> FutureResult[int, Odd]:
    """Doubles."""
    return FutureResult.from_value(n * 2)


@tool
def by_reader(n: int) -> RequiresContextFutureResult[int, Odd, Any]:
    """Doubles."""
    return RequiresContextFutureResult.from_value(n * 2)


@tool
def by_effect(n: int) -> Effect[int, Odd]:
    """Doubles."""
    return fx.sleep(0).as_(n * 2)


@tool
def by_generator(n: int) -> Gen[int, Odd]:
    """Doubles."""
    yield from fx.sleep(0)
    return n * 2


@tool
@fx.gen
def by_gen(n: int) -> Gen[int, Odd]:
    """Doubles."""
    yield from fx.sleep(0)
    return n * 2


@tool
def by_stream(n: int) -> Stream[int, Odd]:
    """Doubles, after less."""
    return Stream.make(n, n * 2)


@tool(blocking=True)
def in_a_thread(n: int) -> int:
    """Doubles, elsewhere."""
    return n * 2 if threading.current_thread() is not threading.main_thread() else -1


@tool(blocking=True)
def result_in_a_thread(n: int) -> Result[int, Odd]:
    """Doubles, elsewhere."""
    return Success(n * 2)


FORMS: list[FunctionTool[..., Any, Any, Any, Any]] = [
    later,
    later_result,
    later_effect,
    by_io,
    by_future,
    by_reader,
    by_effect,
    by_generator,
    by_gen,
    by_stream,
    in_a_thread,
    result_in_a_thread,
]


@every("made", FORMS, ids=lambda made: made.name)
def test_each_form_gives_its_success(made: FunctionTool[..., Any, Any, Any, Any], backend: Backend) -> None:
    """Bare where nothing else is declared, else what the form says; on both event loops."""
    outcome = _called(made, {"n": 4}, backend)

    assert (outcome.result, outcome.encoded_result, outcome.is_failure) == (8, 8, False)
    assert made.tool.success == Schema.of(int)


def test_a_declared_failure_is_the_tools() -> None:
    """To the model or into the error channel, by its mode; encoded by its type."""
    returned = _called(half, {"n": 3})
    stern = half.with_options(failure_mode="error")
    raised = fx.run_result(Toolkit.make(stern.tool).call("half", {"n": 3}).provide(stern.layer))

    assert (returned.is_failure, returned.result, returned.encoded_result) == (True, Odd(3), {"n": 3})
    assert raised == Failure(HandlerFailed("half", Odd(3)))


def test_a_failure_of_io_is_one() -> None:
    """As of a Result."""

    @tool(failure_mode="return")
    def refuse(n: int) -> IOResult[int, str]:
        return IOFailure("no")

    assert _called(refuse, {"n": 1}).encoded_result == "no"


def test_what_a_function_raises_is_a_defect() -> None:
    """The exception itself, in neither failure nor result."""

    @tool(failure_mode="return")
    def broken(n: int) -> int:
        return n // 0

    with pytest.raises(ZeroDivisionError):
        _called(broken, {"n": 1})


def test_a_bare_result_that_does_not_fit_is_told() -> None:
    """It is not sent to a model."""
    given: Any = "one"

    @tool
    def wrong() -> int:
        return cast(int, given)

    failed = fx.run_result(Toolkit.make(wrong.tool).call("wrong", {}).provide(wrong.layer)).failure()

    assert isinstance(failed, InvalidResult)
    assert "expected integer" in str(failed)


def test_a_wrapper_around_a_coroutine_function_is_awaited() -> None:
    """What comes back decides where the annotation does not say it."""

    async def inner() -> int:
        return 3

    def outer() -> Any:
        return inner()

    assert _called(tool(outer, success=int), {}).result == 3


def test_what_a_wrapper_makes_of_a_bare_value_is_what_it_says() -> None:
    """`safe` and `future_safe` keep the annotation, and return containers; what can go wrong is then given."""
    worded = Schema.codec(wire=str, decode=ZeroDivisionError, encode=str)

    @tool(failure=Annotated[ZeroDivisionError, worded], failure_mode="return")
    @safe(exceptions=(ZeroDivisionError,))
    def divide(a: int, b: int) -> float:
        """Divides."""
        return a / b

    @tool
    @future_safe
    async def slowly(a: int) -> int:
        return a

    assert _called(divide, {"a": 1, "b": 2}).result == 0.5
    assert _called(divide, {"a": 1, "b": 0}).encoded_result == "division by zero"
    assert _called(slowly, {"a": 1}).result == 1


def test_a_function_runs_inline() -> None:
    """In the thread, and without an event loop where nothing waits."""

    @tool
    def where() -> str:
        return threading.current_thread().name

    outcome = fx.run_sync(Toolkit.make(where.tool).call("where", {}).provide(where.layer))

    assert outcome.result == threading.current_thread().name


@every("f", [later, by_effect, by_generator, by_stream, by_future])
def test_only_a_plain_function_can_block(f: FunctionTool[..., Any, Any, Any, Any]) -> None:
    """What waits by itself has nothing to do in a thread."""
    with pytest.raises(SchemaError, match="Omit blocking=True"):
        Tool.from_function(f.__wrapped__, blocking=True)


def test_the_context_is_passed_where_it_is_asked_for() -> None:
    """By its annotation, at any place; it is no parameter."""

    @tool
    def whose(context: CallContext, n: int, *, loud: bool = False) -> str:
        return f"{context.tool.name}:{n}:{loud}"

    @tool
    async def counted(n: int, context: CallContext) -> int:
        return n + len(context.messages)

    @tool
    def plainly_too(n: int, context: CallContext | None = None) -> str:
        return "nobody" if context is None else context.tool.name

    assert (plainly_too(1), _called(plainly_too, {"n": 1}).result) == ("nobody", "plainly_too")
    assert list(plainly_too.tool.json_schema()["properties"]) == ["n"]
    assert set(whose.tool.json_schema()["properties"]) == {"n", "loud"}
    assert _called(whose.rename("mine"), {"n": 2, "loud": True}).result == "mine:2:True"
    assert _called(counted, {"n": 2}).result == 2


def test_preliminary_results_are_shown() -> None:
    """By the context, and by a stream."""

    @tool
    def climb(n: int, context: CallContext) -> Gen[int]:
        yield from context.preliminary(n - 1)
        return n

    shown = fx.run(Toolkit.make(climb.tool).handle("climb", {"n": 2}).collect().provide(climb.layer))
    streamed = fx.run(Toolkit.make(by_stream.tool).handle("by_stream", {"n": 2}).collect().provide(by_stream.layer))

    assert [(o.result, o.preliminary) for o in shown] == [(1, True), (2, False)]
    assert [(o.result, o.preliminary) for o in streamed] == [(2, True), (4, False)]


def test_services_come_by_layers() -> None:
    """What the function needs, its layer needs."""

    @tool
    def rated(n: int) -> Gen[int, Never, Rate]:
        rate = yield from fx.service(Rate)
        return n * rate

    layer = rated.layer.provide(Layer.succeed(Rate, 3))

    assert fx.run(Toolkit.make(rated.tool).call("rated", {"n": 2}).provide(layer)).result == 6


def test_invalid_parameters_name_the_place() -> None:
    """As of every tool."""
    outcome = _called(add, {"a": "one"})

    assert outcome.is_failure
    assert "/a" in str(outcome.encoded_result)


def test_a_typed_call_takes_arguments() -> None:
    """As the function does, defaults included; the context is left out."""
    assert fx.run(add.tool.call(add.arguments(2)).provide(add.layer)) == 3
    assert fx.run(add.tool.call(add.arguments(b=2, a=5)).provide(add.layer)) == 7
    with pytest.raises(TypeError, match="a"):
        add.arguments(b=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_another_handler_may_answer_it() -> None:
    """A tool from a function is a tool: a test gives it another layer."""
    other = add.tool.handler(lambda _: Success(42))

    assert fx.run(Toolkit.make(add.tool).call("add", {"a": 1}).provide(other)).result == 42


def test_a_handler_given_twice_is_given_once() -> None:
    """Toolkits demand each handler; that of a renamed tool is the same one."""
    kit = Toolkit.make(add.tool, half.tool)
    twice = kit.to_layer(add.layer | half.layer | add.rename("plus").layer)

    assert list(kit.tools) == ["add", "half"]
    assert fx.run(kit.call("half", {"n": 4}).provide(twice)).result == 2
    with pytest.raises(HandlerError, match="no handler for: half"):
        fx.run(kit.call("add", {"a": 1}).provide(kit.to_layer(add.layer)))  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


# -- methods


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        """Begin at `start`."""
        self.n = start

    @tool
    def count(self, by: int = 1) -> int:
        """Counts on."""
        self.n += by
        return self.n

    def plain(self, by: int) -> int:
        """Counts."""
        return self.n + by


def test_a_decorated_method_is_bound_to_its_object() -> None:
    """It has no `self` among its parameters, and each object its own handler."""
    one, two = Counter(1), Counter(10)

    assert list(one.count.tool.json_schema()["properties"]) == ["by"]
    assert one.count(2) == 3
    assert _called(one.count, {"by": 2}).result == 5
    assert _called(two.count, {}).result == 11
    assert one.count.tool == two.count.tool
    assert one.count.tool.identity == Counter.count.tool.identity
    assert one.count == one.count
    assert one.count != two.count


def test_a_method_of_no_object_has_no_handler() -> None:
    """It has a tool; the error says what to do."""
    with pytest.raises(SchemaError, match=r"Pass obj\.count"):
        _ = Counter.count.layer


def test_a_bound_method_is_a_function() -> None:
    """As `Tool.from_function` takes it."""
    made = Tool.from_function(Counter(1).plain)

    assert (made.name, made.description, made(2)) == ("plain", "Counts.", 3)
    assert _called(made, {"by": 4}).result == 5


@every("hint", [Effect, Stream, Gen])
def test_types_are_kept_where_annotations_are_no_text(hint: Any) -> None:
    """A hint keeps success and failure in a module without `from __future__ import annotations`."""
    names: dict[str, Any] = {"Hint": hint, "tool": tool}
    source = "@tool\ndef weather(city: str) -> Hint[float, str]:\n    return 21.0\n    yield"
    exec(compile(source, "<weather>", "exec", dont_inherit=True), names)
    found = names["weather"].tool
    assert (found.success, found.failure) == (Schema.of(float), Schema.of(str))
