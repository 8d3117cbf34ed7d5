"""Tools that the workers of a cluster import; their handlers write into a folder what happens to them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final, Never, cast

import msgspec
from returns.result import Failure, Result, Success

from fxai import tool
from fxai.annotations import Idempotent
from fxai.distributed import Placement
from fxai.effects import EffectOf, Gen, Layer, Scope, Service, fx
from fxai.tools import BoundToolkit, CallContext, Tool, Toolkit

FOLDER: Final = "FXAI_CLUSTER_TEST_FOLDER"
"""The environment variable of the folder where workers write."""


class Pair(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


class Refused(msgspec.Struct, frozen=True):
    """A failure of a tool."""

    reason: str


class Desk(Service):
    """A service that each worker builds once."""

    def __init__(self, number: int) -> None:
        self.number = number


def record(line: str) -> None:
    """Adds a line to the file of this process."""
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def count_built(pid: int) -> int:
    """How often a process has built a desk."""
    lines = (Path(os.environ[FOLDER]) / f"{pid}.txt").read_text(encoding="utf-8").splitlines()
    return lines.count("built desk")


def records(start: str = "") -> list[str]:
    """The lines of other processes that begin so."""
    files = [file for file in sorted(Path(os.environ[FOLDER]).glob("*.txt")) if file.stem != str(os.getpid())]
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.startswith(start)]


add = Tool.make("add", parameters=Pair, success=int)
halve = Tool.make("halve", parameters=int, success=int, failure=Refused)
told = Tool.make("told", parameters=int, success=int, failure=Refused, failure_mode="return")
crash = Tool.make("crash", parameters=int, success=int)
misfit = Tool.make("misfit", success=int)
lost = Tool.make("lost", parameters=int, success=str)
count = Tool.make("count", parameters=int, success=int)
count_on = Tool.make("count_on", parameters=str, success=int)
forever = Tool.make("forever", parameters=str, success=str)
who = Tool.make("who", success=tuple[int, int])
about = Tool.make("about", success=dict[str, Any])
plain = Tool.dynamic("plain", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
kill = Tool.make("kill", parameters=str, success=str)
kill_again = Tool.make("kill_again", parameters=str, success=str).annotate(Idempotent, True)
interrupted = Tool.make("interrupted", success=str)
hungry = Tool.make("hungry", success=str)

_FIRST: list[Any] = [add, halve, told, crash, misfit, count, forever, who, about, plain]
_MORE: list[Any] = [count_on, lost, kill, kill_again, interrupted, hungry]
kit: Toolkit[Any] = Toolkit.of([*_FIRST, *_MORE])


def _halve(n: int) -> Result[int, Refused]:
    return Failure(Refused(f"{n} is odd")) if n % 2 else Success(n // 2)


def _crash(n: int) -> Result[int, Any]:
    raise ValueError(f"no {n}")


async def _lost(_: object) -> Result[str, Any]:
    """Await a future that other code cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return Success(str(await future))


@fx.gen
def _count(n: int, call: CallContext) -> Gen[int]:
    for at in range(n):
        yield from call.preliminary(at)
        record(f"counted {at}")
    return n


def _count_on(name: str, call: CallContext) -> EffectOf[int]:
    """Never ends by itself."""

    @fx.gen
    def counting() -> Gen[int]:
        at = 0
        while True:
            yield from call.preliminary(at)
            record(f"{name} {at}")
            at += 1

    return counting().ensuring(fx.sleep(0.2).and_then(fx.sync(lambda: record(f"{name} stopped"))))


def _forever(name: str) -> EffectOf[str]:
    def start() -> None:
        record(f"begun {name}")

    return (
        fx.sync(start).and_then(fx.never()).ensuring(fx.sleep(0.2).and_then(fx.sync(lambda: record(f"ended {name}"))))
    )


@fx.gen
def _who(_: object) -> Gen[tuple[int, int], Any, Desk]:
    desk = yield from Desk
    return os.getpid(), desk.number


def _about(_: object, call: CallContext) -> Result[dict[str, Any], Any]:
    return Success(
        {
            "call_id": call.call_id,
            "tool": call.tool.name,
            "messages": len(call.messages),
            "has_deadline": call.deadline is not None,
        }
    )


def _plain(data: Any) -> Result[Any, Any]:
    return Success({"n": data["n"] + 1})


def _kill(name: str) -> Result[str, Any]:
    """Ends its worker, the first two times."""
    record(f"kill {name}")
    if len(records(f"kill {name}")) < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return Success("alive")


def _open() -> EffectOf[Desk, Never, Scope | None]:
    def build() -> Desk:
        record("built desk")
        return Desk(len(records("built desk")) + 1)

    return fx.acquire_release(fx.sync(build), lambda _: fx.sync(lambda: record("released desk")))


def _misfit(_: object) -> Any:
    return Success("no number")


@fx.gen
def _add_at_desk(pair: Pair) -> Gen[int, Never, Desk]:
    desk = yield from Desk
    return pair.a + pair.b + desk.number


_no_desk: EffectOf[Desk, str] = fx.fail("no desk is left")

handlers: Any = Layer.merge_all(
    add.handler(lambda pair: Success(pair.a + pair.b)),
    halve.handler(_halve),
    told.handler(_halve),
    crash.handler(_crash),
    misfit.handler(cast(Any, _misfit)),
    lost.handler(_lost),
    count.handler(_count),
    count_on.handler(_count_on),
    forever.handler(_forever),
    who.handler(_who),
    about.handler(_about),
    plain.handler(_plain),
    kill.handler(_kill),
    kill_again.handler(_kill),
    interrupted.handler(lambda _: fx.never()),
    hungry.handler(lambda _: Success("fed")),
).layer

desk: BoundToolkit[Any] = BoundToolkit.of(kit, kit.to_layer(handlers).provide(Layer.scoped(Desk, _open())))

broken: BoundToolkit[Any, str] = BoundToolkit.of(
    Toolkit.make(add), add.handler(_add_at_desk).provide(Layer.effect(Desk, _no_desk))
)

nothing = 3


def placed(resource: str) -> Placement:
    """On the workers that have a resource."""
    return Placement(resources={resource: 1})


@tool
def shout(text: str) -> str:
    """Makes a text loud."""
    return text.upper()


@tool(name="shout")
def whisper(text: str, times: int) -> str:
    """Makes a text quiet."""
    return text.lower() * times
