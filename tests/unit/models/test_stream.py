"""A streamed round: parts as they come, results when they are there, one finish at the end."""

from __future__ import annotations

from typing import Any, Never

import anyio
import anyio.lowlevel
from returns.result import Result, Success

from fxai.effects import Backend, Effect, Layer, Stream, fx
from fxai.messages import (
    AiError,
    NetworkError,
    Response,
    TextDelta,
    ToolCall,
    ToolParamsDelta,
    ToolParamsStart,
    ToolResult,
)
from fxai.models import LanguageModel, ToolChoice
from fxai.testing import ScriptedModel, call, delay, fails, finish, reasoning, text
from fxai.tools import CallContext, Denied, HandlerFailed, Interrupted, Tool, Toolkit
from tests.kit.every import every
from tests.kit.journal import Journal
from tests.kit.rounds import Desk, asked, streamed
from tests.kit.samples import Sum, TooBig

ONE = {"a": 1, "b": 2}
SAID: dict[str, Any] = {
    "text": ["Good ", "day."],
    "reasoning": [reasoning("Hm."), "Yes."],
    "calls": ["So: ", call("add", ONE, id="a"), call("raw", {"x": 1}, id="r"), "and"],
    "mistakes": [call("nope", {}, id="u"), call("add", {}, id="p")],
    "cut": [call("add", ONE, id="a"), finish("length")],
    "provider": [ToolCall("p", "add", ONE, provider_executed=True), ToolResult("p", "add", 3, provider_executed=True)],
    "params cut": ["x", ToolParamsStart("c", "raw"), ToolParamsDelta("c", '{"a"'), finish("length")],
    "params broken": [ToolParamsStart("c", "raw"), ToolParamsDelta("c", '{"a"'), finish("stop")],
}


def _noting(journal: Journal) -> Any:
    def note(part: Any) -> Any:
        return journal.note(part.type)

    return note


def _kind(part: Any) -> str:
    return str(part.type)


@every("said", list(SAID))
def test_a_stream_folds_to_what_the_whole_round_gives(said: str, backend: Backend) -> None:
    """`Response.from_stream` of the parts is the response of `generate_text`."""
    whole = asked(Desk(), SAID[said], backend)
    parts, _ = streamed(Desk(), SAID[said], backend)
    folded = Response.from_stream(parts)

    assert (folded.text, folded.reasoning_text) == (whole.text, whole.reasoning_text)
    assert folded.tool_calls == whole.tool_calls
    assert folded.tool_results == whole.tool_results
    assert folded.finish_reason == whole.finish_reason
    assert [part.type for part in parts].count("finish") == 1
    assert parts[-1].type == "finish"


def test_calls_whose_parameters_broke_off_are_answered(backend: Backend) -> None:
    """A turn that was cut in the middle of a call leaves a call that cannot be run, and its result."""
    parts, _ = streamed(Desk(), SAID["params cut"], backend)
    made, result = [part for part in parts if part.type in ("tool-call", "tool-result")]

    assert (made.id, made.params_text, made.dynamic) == ("c", '{"a"', True)
    assert isinstance(result.result, Interrupted)


def test_a_call_of_a_dynamic_tool_is_marked_from_its_beginning(backend: Backend) -> None:
    """Whether or not the provider knows, since the toolkit does."""
    parts, _ = streamed(Desk(), SAID["params cut"], backend)

    assert [part.dynamic for part in parts if isinstance(part, ToolParamsStart)] == [True]


def test_a_call_comes_before_its_result_and_finish_is_held_back(backend: Backend) -> None:
    """The call is there while its handler still runs; finish comes when all have ended."""
    desk = Desk()
    seen = desk.journal
    model = ScriptedModel.make([[call("slow", {"a": 1, "b": 10}, id="s")]])
    stream: Any = desk.served(LanguageModel.stream_text("go", toolkit=desk.kit), model)
    read = stream.for_each(_noting(seen))
    moved = fx.all_(read, desk.clock.advance(9).and_then(seen.note("9 s")).and_then(desk.clock.advance(9)))

    fx.run(moved.provide(desk.clock.layer), backend=backend)

    assert [line for line in seen.lines if not line.startswith("tool-params")] == [
        "tool-call",
        "start 1",
        "9 s",
        "end 1",
        "left 1",
        "tool-result",
        "finish",
    ]


def test_results_come_as_they_are_ready(backend: Backend) -> None:
    """A stream does not hold a result back for a slower sibling."""
    desk = Desk()
    model = ScriptedModel.make([[call("slow", {"a": 1, "b": 5}, id="1"), call("slow", {"a": 2, "b": 1}, id="2")]])
    stream: Any = desk.served(LanguageModel.stream_text("go", toolkit=desk.kit), model)
    moved = fx.all_(stream.collect(), desk.clock.advance(9)).provide(desk.clock.layer)

    parts = fx.run(moved, backend=backend)[0]

    assert [part.id for part in parts if part.type == "tool-result"] == ["2", "1"]


def test_preliminary_results_come_first(backend: Backend) -> None:
    """In order, each flagged; then the one that counts."""
    job = Tool.make("job", success=int)

    def handler(_: object, context: CallContext) -> Any:
        return context.preliminary(1).and_then(context.preliminary(2)).and_then(fx.succeed(3))

    model = ScriptedModel.make([[call("job", {}, id="j")]])
    stream = LanguageModel.stream_text("go", toolkit=Toolkit.make(job)).provide(job.handler(handler))
    parts = fx.run(stream.provide(model.layer).collect(), backend=backend)

    assert [(p.result, p.preliminary) for p in parts if p.type == "tool-result"] == [(1, True), (2, True), (3, False)]


def test_refused_calls_are_told_too(backend: Backend) -> None:
    """A call outside the choice has its result in the stream."""
    parts, _ = streamed(
        Desk(), [call("raw", {}, id="r"), call("add", ONE, id="a")], backend, tool_choice=ToolChoice.tool("add")
    )
    results = {part.id: part for part in parts if part.type == "tool-result"}

    assert isinstance(results["r"].result, Denied)
    assert results["a"].result == 3


def test_the_coroutine_of_the_only_call_runs_in_one_task(backend: Backend) -> None:
    """A cancel scope around a wait belongs to one task."""
    tool = Tool.make("slow", success=bool)

    async def on_slow(_: object) -> Result[bool, Never]:
        task = anyio.get_current_task().id
        with anyio.CancelScope():
            await anyio.lowlevel.checkpoint()
        return Success(anyio.get_current_task().id == task)

    model = ScriptedModel.make([call("slow", {}, id="a")])
    stream = LanguageModel.stream_text("go", toolkit=Toolkit.make(tool)).provide(tool.handler(on_slow) | model.layer)
    parts = fx.run(stream.collect(), backend=backend)

    assert [part.result for part in parts if isinstance(part, ToolResult)] == [True]


def test_external_calls_end_a_stream_pending(backend: Backend) -> None:
    """No result, and finish says so."""
    client = Tool.make("client").external()
    desk = Desk()
    kit: Any = Toolkit.make(client).merge(desk.kit)
    parts, _ = streamed(desk, [call("client", {}), call("add", ONE)], backend, toolkit=kit)

    assert [part.name for part in parts if part.type == "tool-result"] == ["add"]
    assert parts[-1].reason == "pending"


def test_resolution_can_be_left_out_of_a_stream(backend: Backend) -> None:
    """The calls come, nothing is run."""
    desk = Desk()
    parts, _ = streamed(desk, [call("add", ONE)], backend, resolve_tools=False)

    assert [part.type for part in parts][-2:] == ["tool-call", "finish"]
    assert desk.journal.lines == []


def test_a_failing_handler_fails_the_stream_after_its_siblings(backend: Backend) -> None:
    """Their results come, the failed one's too, no finish; the failure's response holds all that was said."""
    parts, ended = streamed(Desk(), ["So: ", call("double", ONE, id="d"), call("add", ONE, id="a")], backend)
    failure: Any = ended.cause.failures[0]

    assert type(failure) is HandlerFailed
    assert failure.error == TooBig(1)
    assert {part.id: part.is_failure for part in parts if part.type == "tool-result"} == {"d": True, "a": False}
    assert "finish" not in [part.type for part in parts]
    assert failure.response is not None
    assert failure.response.text == "So: "
    assert [(r.id, r.is_failure) for r in failure.response.tool_results] == [("d", True), ("a", False)]
    assert failure.response.finish_reason == "tool-calls"


def test_a_defect_breaks_the_stream_after_its_siblings(backend: Backend) -> None:
    """It is no part of the stream, and is not swallowed."""
    desk = Desk()
    parts, ended = streamed(desk, [call("broken", {}, id="b"), call("add", ONE, id="a")], backend)

    assert ended.cause.defects == (desk.boom,)
    assert [part.result for part in parts if part.type == "tool-result" and part.id == "a"] == [3]
    assert "boom" not in str(parts)


def test_a_stream_that_is_cut_keeps_what_came(backend: Backend) -> None:
    """Parts first, then the typed failure; no handler runs."""
    desk = Desk()
    said = ["Half ", call("add", ONE), delay(0), fails(NetworkError("TransportError"))]
    parts, ended = streamed(desk, said, backend)
    failure: Any = ended.cause.failures[0]

    assert isinstance(failure, AiError)
    assert Response.from_stream(parts).text == "Half "
    assert "tool-call" in [part.type for part in parts]
    assert desk.journal.lines == []


def test_leaving_early_stops_the_model(backend: Backend) -> None:
    """What the model would say next is never asked for, and its finalizers run."""
    journal = Journal()

    class Endless(LanguageModel):
        """Says one word for ever."""

        def ask(self, request: Any) -> Any:
            """Never."""
            return fx.never()

        def ask_stream(self, request: Any) -> Any:
            """Words."""
            return Stream.unfold(0, lambda n: fx.sleep(0).as_((TextDelta("t", str(n)), n + 1))).ensuring(
                journal.note("model stopped")
            )

    async def main() -> list[str]:
        said: list[str] = []
        stream = LanguageModel.stream_text("go").provide(Layer.succeed(LanguageModel, Endless()))
        async with stream.iterate() as parts:
            async for part in parts:
                said.append(part.delta if part.type == "text-delta" else "")
                if len(said) == 3:
                    break
        journal.add("left")
        return said

    assert anyio.run(main, backend=backend) == ["0", "1", "2"]
    assert journal.lines == ["model stopped", "left"]


def test_leaving_early_stops_the_handlers(backend: Backend) -> None:
    """All that run, each once, before the reader goes on."""
    journal = Journal()
    job = Tool.make("job", parameters=Sum, success=int)

    def handler(p: Sum, context: CallContext) -> Effect[int]:
        endless: Effect[int] = context.preliminary(p.a).and_then(fx.never())
        return endless.ensuring(journal.note(f"stopped {p.a}"))

    async def main() -> None:
        model = ScriptedModel.make([[call("job", {"a": n, "b": 0}) for n in (1, 2)]])
        stream = LanguageModel.stream_text("go", toolkit=Toolkit.make(job)).provide(job.handler(handler))
        seen = 0
        async with stream.provide(model.layer).iterate() as parts:
            async for part in parts:
                seen += part.type == "tool-result"
                if seen == 2:
                    break
        journal.add("left")

    anyio.run(main, backend=backend)

    assert sorted(journal.lines[:2]) == ["stopped 1", "stopped 2"]
    assert journal.lines[2:] == ["left"]


def test_the_model_is_read_no_faster_than_its_reader(backend: Backend) -> None:
    """Back-pressure: what was not asked for was not made."""
    made: list[int] = []

    class Counting(LanguageModel):
        """Counts what it makes."""

        def ask(self, request: Any) -> Any:
            """Never."""
            return fx.never()

        def ask_stream(self, request: Any) -> Any:
            """Numbers."""

            def following(n: int) -> Any:
                made.append(n)
                return fx.succeed((TextDelta("t", str(n)), n + 1))

            return Stream.unfold(0, following)

    stream = LanguageModel.stream_text("go").provide(Layer.succeed(LanguageModel, Counting()))

    assert len(fx.run(stream.take(3).collect(), backend=backend)) == 3
    assert made == [0, 1, 2]


def test_a_stream_passes_through_other_streams(backend: Backend) -> None:
    """Buffered, merged and mapped, the handlers still run in the scope of the stream."""
    desk = Desk()
    model = ScriptedModel.make([[call("add", ONE)], text("x")])
    round_: Any = LanguageModel.stream_text("go", toolkit=desk.kit)
    both: Any = desk.served(round_.buffer(2).merge(LanguageModel.stream_text("go")).map(_kind), model)

    kinds = fx.run(both.collect(), backend=backend)

    assert sorted(kinds).count("finish") == 2
    assert "tool-result" in kinds
