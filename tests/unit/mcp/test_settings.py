"""Settings of a server, and its progress: the values they cannot have, and what is shown of what was told."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from fxai.effects import Succeeded, fx
from fxai.mcp.connection import progress_channel, show_progress
from fxai.mcp.settings import Mode, ServerProgram, ServerSettings
from fxai.tools import CallContext, Tool
from tests.kit.every import every


@every("name", ["timeout", "call_timeout"])
@every("seconds", [0, -1.0, math.nan])
def test_a_limit_of_time_is_more_than_nothing(name: str, seconds: float) -> None:
    """Zero, less, and what is no number are refused by the option's name; the smallest more, and none, are taken."""
    settings: Any = ServerSettings

    with pytest.raises(ValueError, match=f"^{name} must be greater than 0 seconds, got {seconds!r}$"):
        settings(ServerProgram("a"), "a", **{name: seconds})
    assert getattr(settings(ServerProgram("a"), "a", **{name: 1e-9}), name) == 1e-9
    assert ServerSettings(ServerProgram("a"), "a", call_timeout=None).call_timeout is None


def test_a_mode_is_one_that_there_is() -> None:
    """Each mode is taken; another is refused, with all that there are."""
    wrong: Any = "newest"
    modes: tuple[Mode, ...] = ("auto", "legacy", "2026-07-28")

    assert tuple(ServerSettings(ServerProgram("a"), "a", mode=one).mode for one in modes) == modes
    with pytest.raises(ValueError, match=r"^mode must be one of 'auto', 'legacy', '2026-07-28', got 'newest'$"):
        ServerSettings(ServerProgram("a"), "a", mode=wrong)


def _shown(backend: str, told: int, later: int = 0) -> list[int]:
    """The numbers that are shown where so many were told before anybody looked, and so many afterwards."""
    seen: list[int] = []
    progress = progress_channel()

    def emit(value: Any) -> Any:
        return fx.sync(lambda: seen.append(value["progress"]))

    async def go() -> None:
        for number in range(told):
            progress.offer({"progress": number})
        context = CallContext(Tool.dynamic("wait"), emit=emit)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(fx.run_async, show_progress(progress, context))
                for number in range(told, told + later):
                    await anyio.wait_all_tasks_blocked()
                    progress.offer({"progress": number})
                await anyio.wait_all_tasks_blocked()
                assert len(seen) == min(told, 64) + later
                _ = progress.end(Succeeded(None))

    anyio.run(go, backend=backend)
    return seen


@pytest.mark.parametrize(("told", "first"), [(0, 0), (64, 0), (65, 1), (500, 436)])
def test_the_latest_is_shown_of_what_nobody_read(backend: str, told: int, first: int) -> None:
    """As many as are kept are shown in their order, then the end; the oldest give way."""
    assert _shown(backend, told) == list(range(first, told))


def test_what_is_told_later_is_shown_at_once(backend: str) -> None:
    """Whoever waits is woken by each, and by the end."""
    assert _shown(backend, 2, later=5) == list(range(7))
