"""What tests of stateful prompts share: a render played against a script, and what the model was shown in each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Never, final

from fxai.agents import Answer
from fxai.agents.stateful import PromptState, Render, StatefulPrompt
from fxai.effects import Backend, Cause, Exit, Failed, fx
from fxai.messages import Message
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, Turn
from fxai.tools import Tool

__all__ = ["Play", "cause_of_play", "exit_of_play", "free", "play", "said", "words_of"]


def free(name: str) -> Tool[object, object, Never]:
    """A tool that takes any object and gives anything."""
    return Tool.dynamic(name, description=f"Does {name}.", parameters={"type": "object"})


@final
class Play:
    """A run of a stateful prompt to its end: the answer, and the model that was asked."""

    def __init__(self, answer: Answer[str], model: ScriptedModel) -> None:
        self.answer = answer
        self.requests: list[ModelRequest] = model.requests

    @property
    def tools(self) -> list[list[str]]:
        """The names of the tools that each step offered."""
        return [[tool.name for tool in request.tools] for request in self.requests]

    @property
    def systems(self) -> list[str]:
        """The system prompt of each step."""
        return [request.prompt.system() or "" for request in self.requests]

    @property
    def said(self) -> list[list[tuple[str, str]]]:
        """The messages of each step behind its system prompt, see `said`."""
        return [said(request.prompt) for request in self.requests]

    @property
    def state(self) -> Mapping[str, Any]:
        """The values after the run."""
        state = self.answer.state
        assert state is not None
        return state.values


def said(messages: Any) -> list[tuple[str, str]]:
    """The messages that are no system messages: the role of each, and its words."""
    return [(message.role, words_of(message)) for message in messages if message.role != "system"]


def words_of(message: Message) -> str:
    """The texts of a message, or the names of the tools that it calls or answers."""
    if message.role == "system":
        return message.content
    words = [part.text if part.type == "text" else getattr(part, "name", part.type) for part in message.content]
    return " ".join(words)


def _asked(
    render: Callable[[Render[LanguageModel]], None],
    script: tuple[Turn, ...],
    prompt: str,
    state: PromptState | None,
    backend: Backend,
) -> tuple[ScriptedModel, Exit[Answer[str], Any]]:
    model = ScriptedModel.make([*script, "done"])
    program = StatefulPrompt.make("play", render).execute(prompt, state=state).provide(model.layer)
    return model, fx.run_exit(program, backend=backend)


def play(
    render: Callable[[Render[LanguageModel]], None],
    *script: Turn,
    prompt: str = "go",
    state: PromptState | None = None,
    backend: Backend = "asyncio",
) -> Play:
    """The run of a render by a model that says the script, and then "done"; it must end well."""
    model, ended = _asked(render, script, prompt, state, backend)
    assert not isinstance(ended, Failed), ended.cause
    return Play(ended.value, model)


def exit_of_play(
    render: Callable[[Render[LanguageModel]], None],
    *script: Turn,
    state: PromptState | None = None,
    backend: Backend = "asyncio",
) -> Exit[Answer[str], Any]:
    """How the run of a render ends, well or not."""
    return _asked(render, script, "go", state, backend)[1]


def cause_of_play(
    render: Callable[[Render[LanguageModel]], None],
    *script: Turn,
    state: PromptState | None = None,
    backend: Backend = "asyncio",
) -> Cause[Any]:
    """Why the run of a render fails, which it must."""
    ended = exit_of_play(render, *script, state=state, backend=backend)
    assert isinstance(ended, Failed), ended
    return ended.cause
