"""What tests of rounds share: tools that wait for each other, a script, and one round of it."""

from __future__ import annotations

from typing import Any

from returns.result import Failure, Success

from fxai.effects import Backend, EffectOf, Exit, Layer, fx
from fxai.messages import Prompt, Response
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, TestClock
from fxai.tools import Tool, Toolkit
from tests.kit.journal import Journal
from tests.kit.samples import Sum, TooBig, add, double

__all__ = ["Desk", "asked", "exit_of", "streamed"]


class Desk:
    """Tools whose handlers write into a journal: `add`, `double` (mode "error"), `broken`, `slow` and `raw`."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.clock = TestClock()
        self.broken = Tool.make("broken", success=int)
        self.slow = Tool.make("slow", parameters=Sum, success=int)
        self.raw = Tool.dynamic("raw", parameters={"type": "object"})
        self.kit: Toolkit[Any] = Toolkit.of([add, double, self.broken, self.slow, self.raw])
        self.boom = RuntimeError("boom")

    @property
    def layer(self) -> Layer[Any]:
        """The handlers of all tools."""
        on_add: Any = add.handler(self._add)
        rest: Any = (
            double.handler(self._double)
            | self.broken.handler(self._broken)
            | self.slow.handler(self._slow)
            | self.raw.handler(self._raw)
        )
        return self.kit.to_layer(on_add | rest)

    def _add(self, p: Sum) -> Any:
        self.journal.add(f"add {p.a}")
        return Success(p.a + p.b)

    def _double(self, p: Sum) -> Any:
        self.journal.add(f"double {p.a}")
        return Failure(TooBig(p.a))

    def _broken(self, _: object) -> Any:
        self.journal.add("broken")
        raise self.boom

    def _raw(self, p: object) -> Any:
        return Success(p)

    def _slow(self, p: Sum) -> Any:
        start, end = self.journal.note(f"start {p.a}"), self.journal.note(f"end {p.a}")
        return start.and_then(fx.sleep(p.b)).and_then(end).as_(p.a).ensuring(self.journal.note(f"left {p.a}"))

    def served(self, program: Any, model: ScriptedModel) -> Any:
        """The program with handlers, model and a clock that stands still."""
        return program.provide(self.layer).provide(model.layer)


def asked(desk: Desk, said: Any, backend: Backend = "asyncio", **options: Any) -> Response:
    """The response of one round in which the model says `said`."""
    ended = exit_of(desk, said, backend, **options)
    value: Response = ended.value
    return value


def exit_of(desk: Desk, said: Any, backend: Backend = "asyncio", **options: Any) -> Any:
    """How such a round ended."""
    model = ScriptedModel.make([said])
    options.setdefault("toolkit", desk.kit)
    program = desk.served(LanguageModel.generate_text(Prompt.make("go"), **options), model)
    ended: Exit[Any, Any] = fx.run_exit(program, backend=backend)
    return ended


def streamed(desk: Desk, said: Any, backend: Backend = "asyncio", **options: Any) -> tuple[list[Any], Any]:
    """The parts of one streamed round, and how it ended."""
    model = ScriptedModel.make([said])
    options.setdefault("toolkit", desk.kit)
    parts: list[Any] = []
    stream: Any = desk.served(LanguageModel.stream_text("go", **options), model)

    def keep(part: Any) -> Any:
        return fx.sync(lambda: parts.append(part))

    program: EffectOf[Any, Any, None] = stream.for_each(keep)
    ended: Exit[Any, Any] = fx.run_exit(program, backend=backend)
    return parts, ended
