"""Jobs: one run of an agent from the command line: its layers are built, its parts are shown, and it is summed up.

>>> from fxai.cli.example import agent, layer
>>> Job(Setting(agent, layer, "local"), ("Hello",)).prompts
('Hello',)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, final

import msgspec

from fxai.agents.memory import Memory
from fxai.cli.caution import is_asked
from fxai.cli.program import value_of
from fxai.cli.remembering import closed
from fxai.cli.setting import Setting, opened
from fxai.cli.summary import Record, Summary
from fxai.cli.text import in_line
from fxai.cli.trouble import Trouble
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.scope import Scope
from fxai.messages.part import StreamPart
from fxai.messages.pending import Pending
from fxai.tools.toolkit import Toolkit

__all__ = ["Job", "Presenter", "Telling", "run"]


class Presenter(Protocol):
    """Shows a run while it happens."""

    def began(self, agent: str, prompt: str) -> None:
        """The model is there, and is asked now."""
        ...

    def part(self, part: StreamPart, turn: int) -> None:
        """A part came, in this turn."""
        ...

    def ended(self, summary: Summary) -> None:
        """The run ended, well or not."""
        ...


@final
class Job(msgspec.Struct, frozen=True):
    """An agent in its setting and what it is asked, each prompt a run of its own; with a memory, one after another."""

    setting: Setting
    prompts: tuple[str, ...]
    memory: Memory | None = None


def run(job: Job, presenter: Presenter, heard: Callable[[Any], None], ready: Callable[[], None]) -> None:
    """Runs the job; it is over when this returns, its finalizers have run.

    Args:
        job: what is to be run.
        presenter: is told of everything, of the end of each run too.
        heard: is told how far the model is on its way into memory, from any thread.
        ready: is called when it is there.

    Raises:
        Trouble: it stopped before its end; the presenter has been told.
    """
    telling = Telling(presenter)
    try:
        value_of(fx.scoped(_program(job, telling, heard, ready)))
    except Trouble as trouble:
        if not trouble.of_output:
            telling.ended(trouble)
        raise


@final
class Telling:
    """Tells a presenter of one run after another."""

    def __init__(self, presenter: Presenter) -> None:
        self.presenter = presenter
        self.record = Record()
        self.since = time.monotonic()

    def began(self, agent: str, prompt: str) -> None:
        """A run begins."""
        self.record = Record()
        self.since = time.monotonic()
        self.presenter.began(agent, prompt)

    def part(self, part: StreamPart) -> None:
        """It gave a part."""
        self.presenter.part(part, self.record.part(part))

    def ended(self, trouble: Trouble | None = None) -> None:
        """It ended, well or not."""
        self.presenter.ended(self.record.summary(time.monotonic() - self.since, trouble))


@fx.gen
def _program(
    job: Job, telling: Telling, heard: Callable[[Any], None], ready: Callable[[], None]
) -> Gen[None, Any, Scope]:
    there = yield from opened(job.setting, heard)
    if job.memory is not None:
        yield from closed(job.memory)
    agent = there.agent if job.memory is None else there.agent.with_memory(job.memory)
    ready()
    for prompt in job.prompts:
        telling.began(there.name, prompt)
        shown = agent.stream(prompt).for_each(lambda part: fx.sync(lambda: telling.part(part)))
        yield from shown.provide_context(there.services)
        if telling.record.waiting:
            now = yield from there.tools.now
            yield from fx.fail(_left_open(telling.record.waiting, now.toolkit))
        telling.ended()


def _left_open(waiting: tuple[Pending, ...], kit: Toolkit[Any]) -> Trouble:
    calls = ", ".join(f"{one.name} {in_line(one.params)}" for one in waiting)
    if all(one.approval_id is None for one in waiting):
        return Trouble(f"somebody else is to run {calls}", "fxai chat asks for the result")
    remedy = "fxai chat asks before it runs"
    if any(one.name in kit and is_asked(kit.tools[one.name]) for one in waiting):
        remedy += ", and --yes runs the tools of --mcp unasked"
    return Trouble(f"nobody is here to approve the call of {calls}", remedy)
