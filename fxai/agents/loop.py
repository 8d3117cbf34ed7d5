"""The loop: a model asked again and again, its calls run in between, until it is done.

Ask, run the calls, append the results, ask again: until a turn calls no tool, or leaves calls open that wait for an
approval or for somebody else, or the budget is spent. A turn that the provider paused is asked to go on. Approvals that
the history answers are settled before the first turn.

>>> from fxai.messages.part import Finish, Text
>>> is_done(Response((Text("Good day."), Finish("stop")))), is_done(Response((Finish("pause"),)))
(True, False)
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

import msgspec

from fxai.agents.answer import Answer, Step
from fxai.agents.budget import Budget, BudgetExceeded
from fxai.effects.cause import Cause, Fail
from fxai.effects.channel import END
from fxai.effects.effect import EffectOf, FailCause, FlatMap, Generate, Succeed, Suspend
from fxai.effects.stream import StreamOf
from fxai.messages.errors import AiError
from fxai.messages.fold import fold
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.answered import shown
from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.language_model import LanguageModel, RoundOptions, stream_round, text_round
from fxai.tools.failure import CallFailure, ToolError
from fxai.tools.toolkit import Toolkit

__all__ = ["RunError", "run_loop", "stream_loop"]

RunError: TypeAlias = AiError | ToolError | BudgetExceeded
"""What can go wrong in a run."""


def run_loop(
    prompt: Prompt, toolkit: Toolkit[Any], budget: Budget, options: RoundOptions
) -> EffectOf[Answer, RunError, Any]:
    """The answer of a run that starts from `prompt`."""

    def loop() -> Generator[EffectOf[Any, Any, Any], Any, Answer]:
        response: Response = yield _remembering(LanguageModel.generate_text(prompt, toolkit=toolkit, **options), prompt)
        history, steps, asked = prompt.with_response(response.content), [Step(1, response)], options
        told = shown(history)  # to the model: the same one, unless approvals are settled in it
        while not is_done(response):
            if len(steps) >= budget.rounds:
                yield _exceeded(budget, history)
            asked = later(asked)
            response = yield _remembering(text_round(told, toolkit, asked, settling=False), history)
            steps.append(Step(len(steps) + 1, response))
            history, told = _grown(history, told, response)
        return Answer(tuple(steps), history)

    return Generate(loop, (), {})


def _grown(history: Prompt, told: Prompt, response: Response) -> tuple[Prompt, Prompt]:
    """What was said, and what the model is told of it, with a turn more."""
    messages = fold(response.content)
    grown = history.extend(messages)
    return grown, grown if told is history else told.extend(messages)


def is_done(response: Response) -> bool:
    """Whether it is not the model's turn: a call is open, which somebody else answers; or it called none and ended."""
    reason, ours, answered = "unknown", list[str](), set[str]()
    for part in response.content:
        if part.type == "tool-call":
            if not part.provider_executed:
                ours.append(part.id)
        elif part.type == "tool-result":
            answered.add(part.id)
        elif part.type == "finish":
            reason = part.reason

    if not ours:
        return reason != "pause"
    return reason == "pending" or not answered.issuperset(ours)


def later(options: RoundOptions) -> RoundOptions:
    """The options after the first round: a call that was demanded has been made."""
    choice = options.get("tool_choice", "auto")
    if choice == "auto":
        return options
    if isinstance(choice, ToolChoice):
        narrowed = ToolChoice(choice.names)
        following: ToolChoices = "auto" if choice.mode == "tool" else narrowed
    else:
        following = "auto" if choice == "required" else choice
    return options if following == choice else {**options, "tool_choice": following}


def _exceeded(budget: Budget, history: Prompt) -> EffectOf[Any, BudgetExceeded]:
    return FailCause(Cause((Fail(BudgetExceeded("rounds", budget.rounds, history)),)))


def _remembering(turn: EffectOf[Any, Any, Any], history: Prompt) -> EffectOf[Any, Any, Any]:
    return turn.map_error(lambda error: _with_history(error, history))


def _with_history(error: Any, history: Prompt) -> Any:
    if not isinstance(error, CallFailure):
        return error
    said = () if error.response is None else error.response.content
    return msgspec.structs.replace(error, history=history.with_response(said))


def stream_loop(
    prompt: Prompt, toolkit: Toolkit[Any], budget: Budget, options: RoundOptions
) -> StreamOf[StreamPart, RunError, Any]:
    """The parts of a run that starts from `prompt`, as they come; each round ends with its `finish`."""
    return StreamOf(Suspend(lambda: Succeed(_Streamed(prompt, toolkit, budget, options).pull)))


class _Streamed:
    """One streamed run: the round that is read, and how it goes on from there."""

    __slots__ = ("_budget", "_done", "_history", "_options", "_parts", "_round", "_rounds", "_told", "_toolkit", "pull")

    def __init__(self, prompt: Prompt, toolkit: Toolkit[Any], budget: Budget, options: RoundOptions) -> None:
        self._history = self._told = prompt
        self._toolkit = toolkit
        self._budget = budget
        self._options = options
        self._parts: list[StreamPart] = []
        self._round: EffectOf[Any, Any, Any] | None = None
        self._rounds = 0
        self._done = False
        self.pull: EffectOf[Any, Any, Any] = Suspend(self._following)

    def _following(self) -> EffectOf[Any, Any, Any]:
        if self._done:
            return Succeed(END)
        if self._round is None:
            return self._open()
        return FlatMap(_remembering(self._round, self._history), self._seen)

    def _open(self) -> EffectOf[Any, Any, Any]:
        if self._rounds:
            stream = stream_round(self._told, self._toolkit, self._options, settling=False)
        else:
            stream = LanguageModel.stream_text(self._history, toolkit=self._toolkit, **self._options)

        def opened(pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
            self._round = pull
            self._rounds += 1
            self._parts = []
            return self.pull

        return FlatMap(_remembering(stream.pull(), self._history), opened)

    def _seen(self, part: Any) -> EffectOf[Any, Any, Any]:
        if part is not END:
            self._parts.append(part)
            return Succeed(part)

        response = Response.from_stream(self._parts)
        if self._rounds == 1:
            self._history = self._history.with_response(response.content)
            self._told = shown(self._history)
        else:
            self._history, self._told = _grown(self._history, self._told, response)
        self._round = None
        self._options = later(self._options)
        if is_done(response):
            self._done = True
        elif self._rounds >= self._budget.rounds:
            return _exceeded(self._budget, self._history)
        return self.pull
