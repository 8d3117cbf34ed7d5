"""Reports of plain functions that block the event loop, in the development mode."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from fxai.effects import Backend, Gen, fx
from fxai.effects.blocking import HELD_SECONDS

LONG = HELD_SECONDS * 1.2
KINDS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "sync": fx.sync,
    "attempt": lambda f: fx.attempt(f, OSError),
    "suspend": lambda f: fx.suspend(wraps(f)(lambda: fx.succeed(f()))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_blocking_function_is_reported_once(kind: str, backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """The message has the name, the line, and the remedy. Quick functions are not reported."""
    # compiled here, because fxai reports a function once in a process
    scope: dict[str, Any] = {"sleep": time.sleep}
    exec(compile(f"def block():\n    sleep({LONG})\n    return 'page'", f"{kind} {backend}", "exec"), scope)
    block: Callable[[], str] = scope["block"]

    @fx.gen
    def program() -> Gen[list[str]]:
        yield from fx.sleep(0.001)
        return (yield from fx.for_each([lambda: "quick", block, block], KINDS[kind]))

    assert fx.run(program(), backend=backend) == ["quick", "page", "page"]
    (report,) = [one for one in caplog.records if one.name == "fxai.effects"]
    message = report.getMessage()
    assert message.startswith(f"'block' ({kind} {backend}:1) blocked the event loop")
    assert message.endswith("Run it in a thread: fx.in_thread(…).")
    assert report.levelno == logging.WARNING


def test_blocking_function_without_an_event_loop_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """No other program waits there."""
    fx.run_sync(fx.sync(lambda: time.sleep(LONG)))
    fx.run(fx.in_thread(lambda: time.sleep(LONG)))

    assert [one for one in caplog.records if one.name == "fxai.effects"] == []


def test_functions_are_timed_only_in_the_development_mode() -> None:
    """Without it, `fx.sync` is the instruction itself and costs no more."""
    code = "from fxai.effects import fx; from fxai.effects.effect import Sync; print(fx.sync is Sync)"
    ended: dict[str, bytes] = {}
    for mode in ("0", "1"):
        environment = {"FXAI_DEBUG": mode, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", code]
        ended[mode] = subprocess.run(command, env=environment, capture_output=True, check=True).stdout.strip()

    assert ended == {"0": b"True", "1": b"False"}
