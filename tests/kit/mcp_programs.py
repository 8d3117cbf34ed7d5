"""Servers for tests: programs written by hand, and how a test uses them."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from fxai import fx, mcp
from fxai.effects import Effect, EffectOf, Failed

__all__ = ["by_hand", "failure_of", "left_running", "used"]

_A = TypeVar("_A")
_HERE = Path(__file__).parent


def by_hand(mode: str, argument: str = "", /, **options: Any) -> mcp.McpServer:
    """The server written by hand, in a mode; whatever of it runs has the name that `left_running` takes."""
    given: dict[str, Any] = {"name": f"{mode}-{uuid.uuid4().hex}", "grace": 0.3, **options}
    return mcp.stdio(sys.executable, str(_HERE / "hostile_server.py"), mode, argument, given["name"], **given)


def used(
    server: mcp.McpServer, f: Callable[[mcp.Connection], Generator[EffectOf[Any, Any, Any], Any, _A]]
) -> Effect[_A, Any]:
    """What `f` gives with the server open."""
    return fx.scoped(server.open().flat_map(fx.gen(f)))


def failure_of(effect: Effect[Any, Any], backend: Any) -> Any:
    """The one typed failure of an effect."""
    end = fx.run_exit(effect, backend=backend)
    assert isinstance(end, Failed)
    (failure,) = end.cause.failures
    return failure


def left_running(name: str) -> list[str]:
    """The processes that were started for a server and still run; none where the system does not tell."""
    commands: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it ended meanwhile
            continue
    return [command for command in commands if name in command]
