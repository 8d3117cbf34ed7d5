"""A program that is killed at any point and run again: turns, parallel calls, sub-agents, approvals, timers, steps.

It is run in processes of its own, which a server forks, so that none of them has to import anything: `Killing` starts
it. What a handler does it writes into a file, the world, whose lines are whole or not there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any, final

import anyio

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.annotations import Idempotent, Resumable
from fxai.durable import Runs, durable, step
from fxai.effects import Clock, Effect, Exit, Layer, Succeeded
from fxai.messages import Finish, Part, Text, ToolCall
from fxai.models import ModelRequest

__all__ = ["CHANGED", "KIT", "TWIN", "WAITING", "World", "program", "serve"]

WAITING = 3
"""The exit code of a program that waits for answers."""

CHANGED = 5
"""The exit code of a program that is not the program that began the run."""

TWIN = "twin"
"""The prompt of two equal agents that run in parallel."""

_FAST = 100_000  # how much faster the time of the program goes


@final
class World:
    """What handlers have done, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, what: str, key: str) -> None:
        """Writes down that something was done."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{what} {key}\n".encode())
        os.close(descriptor)

    def count(self, what: str) -> dict[str, int]:
        """How often something was done, by key."""
        counts: dict[str, int] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            name, _, key = line.partition(" ")
            if name == what:
                counts[key] = counts.get(key, 0) + 1
        return counts


class _FastClock(Clock):
    """Hours pass in a moment."""

    @staticmethod
    def layer() -> Any:
        """The layer of it."""
        return Layer.succeed(Clock, _FastClock())

    def now(self) -> float:
        return Clock.default().now() * _FAST

    def monotonic(self) -> float:
        return Clock.default().monotonic() * _FAST

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(seconds, 0) / _FAST)

    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        return Clock.default().deadline(scope, seconds / _FAST)


pay = Tool.make("pay", description="Pays.", parameters=str, success=str)
look = Tool.make("look", description="Looks.", parameters=str, success=str).annotate(Idempotent, True)
nap = Tool.make("nap", description="Waits.", parameters=str, success=str).annotate(Resumable, True)
wipe = Tool.make("wipe", description="Wipes.", parameters=str, success=str, needs_approval=True)
outside = Tool.make("outside", description="Asks a person.", parameters=str, success=str).external()
KIT = Toolkit.make(pay, look, nap, wipe, outside)


def _handlers(world: World) -> Any:
    def do(name: str) -> Any:
        def handle(key: str) -> Any:
            def start() -> Any:
                world.note(f"begin-{name}", key)
                return fx.sleep(3000 + len(key) * 13.0).map(lambda _: end())

            def end() -> str:
                world.note(f"end-{name}", key)
                return f"{name} {key}"

            return fx.suspend(start)

        return handle

    def rest(key: str) -> Any:
        noted = step("note", fx.sync(lambda: world.note("step", key)).as_(key), str, idempotent=True)
        return fx.sleep(3600).and_then(noted).map(lambda key: f"nap {key}")

    return Layer.merge_all(
        pay.handler(do("pay")), look.handler(do("look")), wipe.handler(do("wipe")), nap.handler(rest)
    ).layer


@final
class _Planned(LanguageModel):
    """A model whose turns follow from the request alone, so that it would say the same again."""

    def __init__(self, world: World) -> None:
        self._world = world

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], Any]:
        def answer() -> tuple[Part, ...]:
            messages = list(request.prompt)
            seed = next(m.text for m in reversed(messages) if m.role == "user")
            turn = sum(m.role == "assistant" for m in messages)
            self._world.note("turn", f"{seed}/{turn}")
            return _turn(seed, turn, messages)

        return fx.sleep(200).map(lambda _: answer())


def _turn(seed: str, turn: int, messages: list[Any]) -> tuple[Part, ...]:
    random = Random(f"{seed}/{turn}")
    if seed == TWIN and not turn:
        return (ToolCall("call twin", "look", TWIN), Finish("tool-calls"))
    if turn >= 2 or seed == TWIN:
        parts = [part for message in messages if message.role == "tool" for part in message.content]
        results = [part.result for part in parts if part.type == "tool-result"]
        return (Text(json.dumps(results)), Finish("stop"))
    names = ["pay", "pay", "look", "nap", "wipe", "outside"] + ["helper", "helper"] * (seed.count("+") < 1)
    calls: list[Part] = []
    for index in range(random.randint(1, 4)):
        name = random.choice(names)
        key = f"{seed}/{turn}.{index}"
        params: Any = {"prompt": f"{key}+"} if name == "helper" else key
        calls.append(ToolCall(f"call {key}", name, params))
    return (*calls, Finish("tool-calls"))


def program(
    world: World, runs: Runs, run: str, seed: str, handlers: Any = None, *, is_changed: bool = False
) -> Effect[Any, Any, Any]:
    """One run: it sleeps an hour, takes steps, and asks agents; its handlers may be elsewhere.

    Three parallel steps have one name, two parallel agents are equal, and one agent has a sub-agent. A changed program
    has another prompt for that agent.
    """
    helper = Agent.make("helper", toolkit=KIT)
    twin = Agent.make("twin", toolkit=KIT)

    def mail(index: int) -> Any:
        key = f"{run}/{index}"
        sent = fx.sync(lambda: world.note("begin-mail", key)).and_then(fx.sleep(900.0 - 40 * index))
        return step("mail", sent.map(lambda _: world.note("end-mail", key)).as_(f"mail {key}"), str)

    agent = Agent.make("main", toolkit=KIT).with_tools(helper.as_tool(description="Helps."))

    def go() -> Generator[Any, Any, Any]:
        yield from fx.sleep(3600)
        begun = yield from step("begin", fx.sync(lambda: world.note("step", "begin")).as_(seed), str, idempotent=True)
        mails = yield from fx.for_each(range(3), mail, concurrency=None)
        twins = yield from fx.for_each([TWIN, TWIN], twin.execute, concurrency=None)
        if mails != [f"mail {run}/{index}" for index in range(3)] or twins[0].text != twins[1].text:
            world.note("failed", f"swapped: {mails}, {[one.text for one in twins]}")
        return (yield from agent.execute(f"{begun} today" if is_changed else begun))

    live: Any = (handlers or _handlers(world)) | Layer.succeed(LanguageModel, _Planned(world))
    asked: Any = fx.gen(go)()
    program: Effect[Any, Any, Any] = asked.provide(durable(live, run=run, store=runs)).provide(_FastClock.layer())
    return program


def _run(order: dict[str, str]) -> int:
    """Runs the program in this process; gives the exit code."""
    world = World(Path(order["world"]))
    runs, is_changed = Runs.at(order["store"]), bool(order.get("changed"))
    end: Exit[Any, Any] = fx.run_exit(program(world, runs, order["run"], order["seed"], is_changed=is_changed))
    if isinstance(end, Succeeded):
        if end.value.ended == "pending":
            return WAITING
        world.note("answer", end.value.text)
        return 0
    failure: object = next(iter(end.cause.failures), None)
    kind = type(failure).__name__
    world.note("failed", repr(end.cause))
    return {"RunWaiting": WAITING, "OutcomeUnknown": WAITING, "RunOwned": 4, "ProgramChanged": CHANGED}.get(kind, 1)


def serve(run: Callable[[dict[str, str]], int] = _run) -> None:
    """Forks a process for each order on stdin, whose pid it prints; of a pid it prints how that ended.

    Of a negative pid it prints that only if it has ended, else 1000.
    """
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            pid, status = os.waitpid(abs(order), os.WNOHANG if order < 0 else 0)
            _write_message(os.waitstatus_to_exitcode(status) if pid else 1000)
            continue
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = run(order)
            finally:
                os._exit(code)
        _write_message(pid)


def _write_message(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
