"""What tests of approvals share: a tool that asks, its journal, and histories in which it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from returns.result import Success

from fxai.agents import Agent
from fxai.effects import Backend, Cause, Exit, LayerOf, fx
from fxai.messages import InvalidApprovalError, Message, Prompt, ToolCall, ToolMessage
from fxai.models import ApprovalLedger, LanguageModel
from fxai.testing import ScriptedModel, call
from fxai.tools import Tool, Toolkit
from tests.kit.every import every

__all__ = ["HOW", "How", "Office", "Wipe", "answered", "changed", "layer_of", "ledgers", "problem_of", "results_of"]

How = Literal["generate_text", "generate_object", "stream_text", "execute", "stream"]
HOW: tuple[How, ...] = ("generate_text", "generate_object", "stream_text", "execute", "stream")
"""Every way in which a model is asked."""


class Wipe(msgspec.Struct, frozen=True):
    """Which disk."""

    disk: str


class Office:
    """Tools `wipe`, which asks, and `look`, which does not; what ran; and a model that says what a test wants."""

    def __init__(self, wipe: Tool[Any, Any, Any] | None = None) -> None:
        self.ran: list[Any] = []
        self.wipe: Any = wipe or Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True)
        self.look: Any = Tool.make("look", success=str)
        self.kit: Toolkit[Any] = Toolkit.of([self.wipe, self.look])
        self.models: list[ScriptedModel] = []

    def _wiped(self, params: Any) -> Any:
        self.ran.append(params)
        return Success("gone")

    def _looked(self, _: object) -> Any:
        self.ran.append("look")
        return Success("dust")

    @property
    def handlers(self) -> Any:
        """The handlers of both tools, whichever toolkit they are offered in."""
        on_wipe: Any = self.wipe.handler(self._wiped)
        return on_wipe | self.look.handler(self._looked)

    def program(self, how: How, prompt: Any, states: Sequence[Any], toolkit: Any = None, **options: Any) -> Any:
        """The model asked in one of the ways, with the handlers and a script."""
        kit = self.kit if toolkit is None else toolkit
        model = ScriptedModel.make(list(states))
        self.models.append(model)
        asked: Any
        match how:
            case "generate_text":
                asked = LanguageModel.generate_text(prompt, toolkit=kit, **options)
            case "generate_object":
                asked = LanguageModel.generate_object(prompt, dict[str, str], toolkit=kit, **options)
            case "stream_text":
                asked = LanguageModel.stream_text(prompt, toolkit=kit, **options).collect()
            case "execute":
                asked = Agent.make("a", toolkit=kit, **options).execute(prompt)
            case "stream":
                asked = Agent.make("a", toolkit=kit, **options).stream(prompt).collect()
        return asked.provide(self.handlers).provide(model.layer)

    def exit(self, how: How, prompt: Any, states: Sequence[Any], backend: Backend = "asyncio", **options: Any) -> Any:
        """How such a program ended, with a ledger of its own unless the test gives one."""
        layer = options.pop("layer", None)
        program = self.program(how, prompt, states, **options)
        served = program.provide(layer) if layer is not None else program
        ended: Exit[Any, Any] = fx.run_exit(served.provide(ApprovalLedger.in_process()), backend=backend)
        return ended

    def asked(self, *calls: ToolCall, layer: Any = None) -> Prompt:
        """The history in which these calls (of one `wipe` unless said) were asked for, made by a real round."""
        made = calls or (call("wipe", {"disk": "a"}, id="c1"),)
        ended = self.exit("execute", "Clean up.", [list(made)], layer=layer)
        assert ended.value.finish_reason == "pending", ended
        history: Prompt = ended.value.history
        return history

    @property
    def requests(self) -> int:
        """How often the last model was asked."""
        return len(self.models[-1].requests)


def changed(history: Prompt, change: Any) -> Prompt:
    """The history with each part changed."""

    def one(message: Message) -> Message:
        if message.role == "system":
            return message
        return msgspec.structs.replace(message, content=tuple(change(part) for part in message.content))

    return Prompt(one(message) for message in history)


def problem_of(ended: Any) -> str:
    """Why an approval was refused."""
    cause: Cause[Any] = ended.cause
    (failure,) = cause.failures
    assert (failure.module, failure.method) == ("LanguageModel", "resolve")
    error = failure.reason
    assert isinstance(error, InvalidApprovalError), error
    return error.problem


def answered(history: Prompt, *, approve: bool = True) -> Prompt:
    """The history with every request answered."""
    return history.append(
        ToolMessage(tuple(one.approve() if approve else one.deny("not today") for one in history.pending))
    )


def results_of(history: Prompt) -> list[list[Any]]:
    """The results behind each turn of the model."""
    turns: list[list[Any]] = []
    for message in history:
        if message.role == "assistant":
            turns.append([])
        elif message.role == "tool":
            turns[-1] += [part.result for part in message.content if part.type == "tool-result"]
    return turns


def layer_of(ledger: ApprovalLedger) -> Any:
    """The layer of a ledger that is there."""
    return LayerOf.succeed(ApprovalLedger, ledger)


@fx.gen
def _ledger() -> Any:
    return (yield from ApprovalLedger)


def _in_process(_: Path) -> Callable[[], Any]:
    ledger: Any = fx.run_sync(_ledger().provide(ApprovalLedger.in_process()))
    return lambda: layer_of(ledger)


def _in_file(folder: Path) -> Callable[[], Any]:
    return lambda: ApprovalLedger.file(folder / "ledger.json").layer


def _in_sqlite(folder: Path) -> Callable[[], Any]:
    return lambda: ApprovalLedger.sqlite(folder / "ledger.db").layer


ledgers = every("ledger", [_in_process, _in_file, _in_sqlite], ids=["process", "file", "sqlite"])
"""A ledger of each kind: what is given a folder, and gives what makes its layer."""
