"""Checks: each law finds the fault that was planted for it, and a sound tool passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai import Strict, Tool, Toolkit, fx
from fxai.schema import Schema
from fxai.testing import LawError, check_handler, check_layer, check_tool, check_toolkit, laws_of
from fxai.tools import Example
from tests.kit.every import every


class Share(msgspec.Struct, frozen=True):
    """What to share, among how many."""

    of: int
    among: int


class Found(NamedTuple):
    """What is told of a planted fault."""

    law: str
    value: Any
    said: str


share = Tool.make("share", parameters=Share, success=int, failure=str)
Lossy = Annotated[int, Schema.codec(wire=int, decode=lambda n: n, encode=lambda n: min(n, 5))]
Odd = Annotated[int, Schema.codec(wire=str, decode=int, encode=str)]
Bounded = Annotated[
    int, Schema.codec(wire=int, decode=lambda n: n, encode=lambda n: max(n, 3), json_schema={"minimum": 3})
]


class Losing(msgspec.Struct):
    """A codec that loses."""

    n: Lossy


class Asking(msgspec.Struct):
    """A codec that asks more than its schema says."""

    n: Odd


class Claiming(msgspec.Struct):
    """A codec that asks less than its schema says."""

    n: Bounded


def _half(given: Share) -> Result[int, str]:
    return Success(given.of // given.among)


def _three(_: Share) -> Any:
    return Success("three")


FAULTS: list[tuple[Callable[[], None], Found]] = [
    (
        lambda: check_tool(Tool.make("t", parameters=Losing)),
        Found("decoding an encoded value", {"n": 6}, "after encoding and decoding"),
    ),
    (
        lambda: check_tool(Tool.make("t", parameters=Asking)),
        Found("accepts the same data", {"n": ""}, "the decoder does not"),
    ),
    (
        lambda: check_tool(Tool.make("t", parameters=Claiming)),
        Found("accepts the same data", {"n": 2}, "the decoder accepts it"),
    ),
    (
        lambda: check_tool(Tool.make("t", success=Schema.of(Odd))),
        Found("encoded successes", "", "the decoder does not"),
    ),
    (
        lambda: check_tool(
            msgspec.structs.replace(share, input_examples=(Example(None, {"of": "x", "among": 1}),))  # else refused
        ),
        Found("examples", {"of": "x", "among": 1}, "expected integer"),
    ),
    (
        lambda: check_tool(Tool.dynamic("t", parameters={"type": "object"}).annotate(Strict, True)),
        Found("OpenAI", None, "Strict is set"),
    ),
    (
        lambda: check_toolkit(Toolkit.make(Tool.make("a.b"), Tool.make("a__b")), max_examples=5),
        Found("names", ["a.b", "a__b"], "'a__b'"),
    ),
    (
        lambda: check_handler(share, share.handler(_half)),
        Found("every valid call", {"of": 0, "among": 0}, "ZeroDivision"),
    ),
    (
        lambda: check_handler(share, share.handler(_three)),
        Found("every valid call", {"of": 0, "among": 0}, "expected integer"),
    ),
    (
        lambda: check_handler(share, share.handler(lambda _: Success(1)), parameters=st.just({"of": 1})),
        Found("every valid call", {"of": 1}, "expected integer, found nothing"),
    ),
    (
        lambda: check_layer(Toolkit.make(share, Tool.make("other")), share.handler(lambda _: Success(1))),
        Found("one handler", ["share", "other"], "no handler for: other"),
    ),
]


@pytest.mark.slow
@every(("check", "found"), FAULTS, ids=lambda given: given.said if isinstance(given, Found) else "")
def test_a_planted_fault_is_found(check: Callable[[], None], found: Found) -> None:
    """By the law that it breaks, with the smallest data that shows it."""
    with pytest.raises(LawError) as caught:
        check()

    assert found.law in caught.value.law
    assert caught.value.broken.value == found.value
    assert found.said in caught.value.broken.found


def test_a_sound_tool_passes() -> None:
    """Its failures are declared, so the handler may fail."""
    handler = share.handler(lambda given: Success(given.of // given.among) if given.among else Failure("among nobody"))
    returning = share.with_options(failure_mode="return")
    shown = returning.handler(lambda given: Failure("no"))

    check_layer(Toolkit.make(share), handler, max_examples=20)
    check_handler(returning, shown, max_examples=20)
    check_tool(share, max_examples=20)
    assert [str(case) for case in laws_of(share, handler)][-1] == "share: invalid calls are refused"


def test_a_toolkit_has_the_laws_of_its_tools_and_its_own() -> None:
    """One case each, by name; those of handlers with a layer only."""
    kit = Toolkit.make(share)
    named = [str(case) for case in laws_of(kit)]

    assert len(set(named)) == len(named) == len(laws_of(share)) + 2
    assert len(laws_of(kit, share.handler(_half))) == len(named) + 3


def test_handlers_are_checked_within_a_running_loop() -> None:
    """In a thread of their own: a check is an ordinary call in an asyncio test too."""

    async def asked() -> None:
        check_handler(share, share.handler(lambda _: fx.sleep(0).as_(1)), max_examples=5)
        with pytest.raises(LawError):
            check_handler(share, share.handler(_half), max_examples=50)

    asyncio.run(asked())

    assert asked.__name__ == "asked"


def test_own_parameters_are_taken_instead() -> None:
    """By a tool's name, for a whole layer."""
    seen: list[Share] = []

    def on_share(given: Share) -> Result[int, str]:
        seen.append(given)
        return Success(1)

    check_layer(Toolkit.make(share), share.handler(on_share), parameters={"share": st.just({"of": 1, "among": 2})})

    assert set(seen) == {Share(1, 2)}
