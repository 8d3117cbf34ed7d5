"""Jobs: an agent run on prompts from the command line: layers built, parts shown as they come, a summary at the end.

>>> from fxai.cli.example import agent, layer
>>> Job(Setting(agent, layer, "local"), ("Hello",)).prompts
('Hello',)

A tool of an MCP server needs approval unless the server marks it read-only. The mark is a hint, and
a client may trust it no more than the server.

>>> from fxai.tools.tool_options import Readonly
>>> from fxai.tools.tool import Tool
>>> look, change = Tool.make("look", success=str).annotate(Readonly, True), Tool.make("change", success=str)
>>> [asks_by_caution(tool) for tool in require_approval(Toolkit.make(look, change))]
[False, True]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, final

import msgspec

from fxai.agents.memory import Memory
from fxai.cli.exit import CliError
from fxai.cli.output import Record, Summary
from fxai.cli.run_program import value_of
from fxai.cli.setting import Setting, close_calls, open_setting
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.scope import Scope
from fxai.messages.calls import Pending
from fxai.messages.part import StreamPart
from fxai.schema.display import in_line
from fxai.tools.tool import AnyTool
from fxai.tools.tool_options import Readonly
from fxai.tools.toolkit import Toolkit


def require_approval(kit: Toolkit[Any]) -> Toolkit[Any]:
    """The tools; those that are not marked read-only need approval."""
    return kit.map(lambda tool: tool if tool.get(Readonly) is True else tool.with_options(needs_approval=_always))


def asks_by_caution(tool: AnyTool) -> bool:
    """Whether the tool needs approval because of `require_approval`, not by its own definition."""
    return tool.needs_approval is _always


def _always(_: Any, __: Any) -> bool:
    return True


class Presenter(Protocol):
    """Shows a run while it happens."""

    def begin(self, agent: str, prompt: str) -> None:
        """A run begins."""

    def part(self, part: StreamPart, turn: int) -> None:
        """A part came, in this turn."""

    def end(self, summary: Summary) -> None:
        """The run ended, well or not."""


@final
class Job(msgspec.Struct, frozen=True):
    """An agent with its setting and its prompts: a run for each; with a memory, they are one conversation."""

    setting: Setting
    prompts: tuple[str, ...]
    memory: Memory | None = None


def run(job: Job, presenter: Presenter, heard: Callable[[Any], None], ready: Callable[[], None]) -> None:
    """Runs the job to its end, finalizers included; the presenter shows the failure of a run before it is raised.

    Args:
        job: what is to be run.
        presenter: shows the runs.
        heard: receives the progress of loading a local model, from any thread.
        ready: is called when the model is ready.
    """
    telling = RunReport(presenter)
    try:
        value_of(fx.scoped(_program(job, telling, heard, ready)))
    except CliError as trouble:
        if not trouble.of_output:
            telling.end(trouble)
        raise


@final
class RunReport:
    """Passes runs, one after another, to a presenter, and records their totals."""

    def __init__(self, presenter: Presenter) -> None:
        self.presenter = presenter
        self.record = Record()
        self.since = time.monotonic()

    def begin(self, agent: str, prompt: str) -> None:
        """A run begins."""
        self.record = Record()
        self.since = time.monotonic()
        self.presenter.begin(agent, prompt)

    def part(self, part: StreamPart) -> None:
        """It gave a part."""
        self.presenter.part(part, self.record.part(part))

    def end(self, trouble: CliError | None = None) -> None:
        """It ended, well or not."""
        self.presenter.end(self.record.summary(time.monotonic() - self.since, trouble))


@fx.gen
def _program(
    job: Job, telling: RunReport, heard: Callable[[Any], None], ready: Callable[[], None]
) -> Gen[None, Any, Scope]:
    there = yield from open_setting(job.setting, heard)
    if job.memory is not None:
        yield from close_calls(job.memory)
    agent = there.agent if job.memory is None else there.agent.with_memory(job.memory)
    ready()
    for prompt in job.prompts:
        telling.begin(there.agent.name, prompt)
        shown = agent.stream(prompt).for_each(lambda part: fx.sync(lambda: telling.part(part)))
        yield from shown.provide_context(there.services)
        if telling.record.waiting:
            now = yield from there.tools.now
            yield from fx.fail(_open_calls_error(telling.record.waiting, now.toolkit))
        telling.end()


def _open_calls_error(waiting: tuple[Pending, ...], kit: Toolkit[Any]) -> CliError:
    calls = ", ".join(f"{one.name} {in_line(one.params)}" for one in waiting)
    if all(one.approval_id is None for one in waiting):
        return CliError(f"somebody else is to run {calls}", "fxai chat asks for the result")
    remedy = "fxai chat asks before it runs"
    if any(one.name in kit and asks_by_caution(kit.tools[one.name]) for one in waiting):
        remedy += ", and --yes runs the tools of --mcp unasked"
    return CliError(f"nobody is here to approve the call of {calls}", remedy)
