"""The handlers of the durable program that is killed, for the workers of a cluster: what they do stands in a world."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Final

from fxai.effects import EffectOf, Layer, fx
from fxai.tools import BoundToolkit
from tests.kit.durable_program import KIT, World

__all__ = ["WORLD", "desk"]

WORLD: Final = "FXAI_TEST_WORLD"
"""The environment variable of the file that is the world of all workers."""

_LONGEST = 80  # milliseconds that a handler takes


def _handler(name: str) -> Any:
    def handle(key: str) -> EffectOf[str]:
        world, location = World(Path(os.environ[WORLD])), f"{os.getpid()} {name} {key}"

        def start() -> EffectOf[str]:
            world.note("on", location)
            world.note(f"begin-{name}", key)
            return fx.sleep(zlib.crc32(key.encode()) % _LONGEST / 1000).map(lambda _: end())

        def end() -> str:
            world.note(f"end-{name}", key)
            return f"{name} {key}"

        return fx.suspend(start).ensuring(fx.sync(lambda: world.note("off", location)))

    return handle


_LIVE: Any = Layer.merge_all(
    *[tool.handler(_handler(tool.name)) for tool in KIT.tools.values() if tool.requires_handler]
).layer
desk: BoundToolkit[Any] = BoundToolkit.of(KIT, KIT.to_layer(_LIVE))
