"""Jobs: one run of an agent from the command line: its layers are built, its parts are shown, and it is summed up.

>>> from fxai.cli.example import agent, layer
>>> Job(agent, layer, "local", ("Hello",)).agent.name
'files'
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, final

import msgspec

from fxai.agents.agent import Agent
from fxai.cli.program import value_of
from fxai.cli.summary import Record, Summary
from fxai.cli.trouble import PIPE_CLOSED, Trouble
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import Gen
from fxai.effects.layer import Layer, LayerOf
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart
from fxai.models.language_model import LanguageModel
from fxai.providers.by_name import from_name

__all__ = ["Job", "Presenter", "model_named", "run"]


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
    """An agent and what it is asked, each prompt a run of its own.

    Without a `model`, the one that the layer gives, else the local one.
    """

    agent: Agent[Any]
    layer: LayerOf[Any, Any, Any] | None
    model: str | None
    prompts: tuple[str, ...]


def run(job: Job, presenter: Presenter, heard: Callable[[Any], None], ready: Callable[[], None]) -> Trouble | None:
    """What the job stopped at, if not at its end; it is over when this returns, its finalizers have run.

    Args:
        job: what is to be run.
        presenter: is told of everything, of the end of each run too.
        heard: is told how far the model is on its way into memory, from any thread.
        ready: is called when it is there.
    """
    telling = _Telling(presenter)
    try:
        value_of(fx.scoped(_program(job, telling, heard, ready)))
    except Trouble as trouble:
        if trouble.code != PIPE_CLOSED:
            telling.ended(trouble)
        return trouble
    return None


class _Telling:
    """Tells a presenter of one run after another."""

    def __init__(self, presenter: Presenter) -> None:
        self.presenter = presenter
        self.record = Record()
        self.since = time.monotonic()

    def began(self, agent: str, prompt: str) -> None:
        self.record = Record()
        self.since = time.monotonic()
        self.presenter.began(agent, prompt)

    def part(self, part: StreamPart) -> None:
        self.presenter.part(part, self.record.part(part))

    def ended(self, trouble: Trouble | None = None) -> None:
        self.presenter.ended(self.record.summary(time.monotonic() - self.since, trouble))


@fx.gen
def _program(
    job: Job, telling: _Telling, heard: Callable[[Any], None], ready: Callable[[], None]
) -> Gen[None, Any, Scope]:
    services = yield from _services(job, heard)
    ready()
    for prompt in job.prompts:
        telling.began(job.agent.name, prompt)
        shown = job.agent.stream(prompt).for_each(lambda part: fx.sync(lambda: telling.part(part)))
        yield from shown.provide_context(services)
        telling.ended()


@fx.gen
def _services(job: Job, heard: Callable[[Any], None]) -> Gen[ContextOf[Any], Any, Scope]:
    """The handlers and the model. The handlers come first: they are quick, and what is wrong with them is told soon."""
    services: ContextOf[Any] = ContextOf({})
    if job.layer is not None:
        services = yield from job.layer.build()
    missing = [t.name for t in job.agent.toolkit if t.requires_handler and services.find(t.identity) is None]
    if missing:
        yield from fx.fail(_unanswered(job, missing))
    if job.model is not None or services.find(LanguageModel) is None:
        services = services.merge((yield from model_named(job.model or "local", heard).build()))
    return services


def model_named(name: str, heard: Callable[[Any], None]) -> Layer[LanguageModel, AiError]:
    """The layer of the model of this name; only one that is loaded into this process has progress to tell."""
    return from_name(name, progress=heard) if name.partition(":")[0] == "local" else from_name(name)


def _unanswered(job: Job, missing: list[str]) -> Trouble:
    said = f"nothing answers the tools of the agent {job.agent.name!r}: {', '.join(missing)}"
    if job.layer is None:
        return Trouble(said, "name the layer of their handlers with --layer module:name")
    return Trouble(said, "give a layer that has a handler for each")
