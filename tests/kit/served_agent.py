"""An agent for the tests of `fxai serve`, which does what the user says, and its layer."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai import Agent, Tool, Toolkit, fx
from fxai.effects import Effect, LayerOf, Stream, StreamOf
from fxai.messages import AiError, Part, StreamPart
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, Turn, call, delay, text


class File(msgspec.Struct, frozen=True):
    """A file."""

    path: str


delete = Tool.make("deleteFile", parameters=File, success=str, needs_approval=True)
kit = Toolkit.make(delete)
agent = Agent.make("clerk", toolkit=kit)
handlers = kit.to_layer(delete.handler(lambda file: Success(f"{file.path} is gone")))


class Obedient(LanguageModel):
    """A model that calls the tool that the user names, counts when told to, and else repeats what was said."""

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The turn, whole."""
        asked: Any = fx.service(LanguageModel).flat_map(lambda one: one.ask(request))
        parts: Effect[tuple[Part, ...], AiError] = asked.provide(ScriptedModel.make([_turn(request)]).layer)
        return parts

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The turn as it comes."""
        asked: Any = StreamOf.unwrap(fx.service(LanguageModel).map(lambda one: one.ask_stream(request)))
        parts: Stream[StreamPart, AiError] = asked.provide(ScriptedModel.make([_turn(request)]).layer)
        return parts


def _turn(request: ModelRequest) -> Turn:
    if request.prompt[-1].role == "tool":
        return text("Done.")
    said = next(message.text for message in reversed(request.prompt) if message.role == "user")
    if said == "count":
        return [part for n in range(200) for part in (f"{n} ", delay(0.05))]
    name, _, params = said.partition(" ")
    return call(name, msgspec.json.decode(params)) if params.startswith("{") else text(f"You said: {said}")


live = handlers | LayerOf.succeed(LanguageModel, Obedient())
