"""What tests of stateful prompts share: tools with plain parameters, and runs of a render on a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from returns.result import Failure, Result, Success

from fxai.agents import Answer
from fxai.agents.stateful import PromptState, Render, StatefulPrompt, StepRecord
from fxai.effects import Backend, Cause, Exit, Failed, fx
from fxai.messages import Message
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, Turn
from fxai.tools import Tool

__all__ = ["Calls", "Played", "cause_of_play", "exit_of_play", "plain_tool", "play", "play_failing", "play_out"]


def plain_tool(name: str, **options: Any) -> Tool[Any, Any, str]:
    """A tool that takes any object, gives anything, and fails with a text that the model reads."""
    options = {"parameters": {"type": "object"}, "failure": str, "failure_mode": "return", **options}
    return Tool.dynamic(name, **options)


class Calls:
    """A handler that notes what it was given, and answers as it was told to: what `gives` makes of the parameters."""

    def __init__(self, gives: Callable[[Any], Any] | None = None, fails: str | None = None) -> None:
        self.given: list[Any] = []
        self._gives = gives
        self._fails = fails

    def __call__(self, params: Any) -> Result[Any, str]:
        """As a handler."""
        self.given.append(params)
        if self._fails is not None:
            return Failure(self._fails)
        return Success("done" if self._gives is None else self._gives(params))


class Played(msgspec.Struct, frozen=True):
    """A run that is over: its answer, and the model that it asked."""

    answer: Answer[str]
    model: ScriptedModel

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked, in order."""
        return self.model.requests

    @property
    def offered(self) -> list[list[str]]:
        """The names of the tools of each request."""
        return [[tool.name for tool in request.tools] for request in self.requests]

    @property
    def systems(self) -> list[str]:
        """The system prompt of each request."""
        return [request.prompt.system() or "" for request in self.requests]

    @property
    def values(self) -> dict[str, Any]:
        """The state after the run."""
        assert self.answer.state is not None
        return dict(self.answer.state.values)

    def record(self, step: int) -> StepRecord:
        """The record of a step, from 1."""
        return self.answer.steps[step - 1].record

    def shown(self, step: int) -> list[tuple[str, str]]:
        """Role and text of the messages of the request of a step, from 1, without the system prompt."""
        return [(message.role, _text(message)) for message in self.requests[step - 1].prompt.without_system()]

    @property
    def said(self) -> list[list[tuple[str, str]]]:
        """Role and words of the messages of each request, as `shown`; of calls and results the names of their tools."""
        return [[(message.role, _words(message)) for message in one.prompt.without_system()] for one in self.requests]

    def results(self, step: int) -> list[Any]:
        """What the model was given as the results of the calls of a step, from 1."""
        return [result.encoded_result for result in self.answer.steps[step - 1].results]


def _text(message: Message) -> str:
    content: Any = message.content
    return content if isinstance(content, str) else "".join(getattr(part, "text", "") for part in content)


def _words(message: Message) -> str:
    content: Any = message.content
    return _text(message) or " ".join(part.name for part in content)


def play(
    render: Callable[[Any], None],
    *turns: Any,
    prompt: Any = "go",
    state: PromptState | None = None,
    layer: Any = None,
    backend: Backend = "asyncio",
) -> Played:
    """A run of a prompt of this render to its end; `layer` has the services that it needs."""
    model = ScriptedModel.make(list(turns))
    make: Any = StatefulPrompt.make
    run = make("prompt", render).execute(prompt, state=state)
    run = run if layer is None else run.provide(layer)
    return Played(fx.run(run.provide(model.layer), backend=backend), model)


def play_out(
    render: Callable[[Render[LanguageModel]], None],
    *turns: Turn,
    state: PromptState | None = None,
    backend: Backend = "asyncio",
) -> Played:
    """As `play`, of a render that needs nothing but a model; behind the turns the model says "done"."""
    return play(render, *turns, "done", state=state, backend=backend)


def exit_of_play(
    render: Callable[[Any], None],
    *turns: Any,
    prompt: Any = "go",
    state: PromptState | None = None,
    backend: Backend = "asyncio",
) -> tuple[Exit[Answer[str], Any], ScriptedModel]:
    """How a run of a prompt of this render ends, and the model that it asked."""
    model = ScriptedModel.make(list(turns))
    make: Any = StatefulPrompt.make
    run = make("prompt", render).execute(prompt, state=state)
    return fx.run_exit(run.provide(model.layer), backend=backend), model


def play_failing(
    render: Callable[[Any], None], *turns: Any, prompt: Any = "go", backend: Backend = "asyncio"
) -> tuple[Cause[Any], ScriptedModel]:
    """The cause of a run that does not end well, and the model that it asked."""
    ended, model = exit_of_play(render, *turns, prompt=prompt, backend=backend)
    assert isinstance(ended, Failed), ended
    return ended.cause, model


def cause_of_play(
    render: Callable[[Render[LanguageModel]], None], *turns: Turn, state: PromptState | None = None
) -> Cause[Any]:
    """Why a run fails, which it must, though the model says "done" behind the turns."""
    ended, _ = exit_of_play(render, *turns, "done", state=state)
    assert isinstance(ended, Failed), ended
    return ended.cause
