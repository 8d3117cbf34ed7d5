"""Models: the conformance cases of the areas `lm.generate`, `lm.choice` and `lm.stream`."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from fxai.effects import Backend, EffectOf, Layer, fx
from fxai.messages import FinishReason, Part, Response, ToolCall, ToolResult, Usage
from fxai.models import LanguageModel, ModelRequest, ToolChoice
from fxai.testing import ScriptedModel, TestClock, call, finish
from fxai.tools import HandlerFailed, Tool, Toolkit, UnknownTool
from tests.kit.conformance import Case, case
from tests.kit.journal import Journal
from tests.kit.samples import giving

NAMES = ("a", "b", "c")


class Word(msgspec.Struct, frozen=True):
    """The parameters of the cases' tools."""

    testParam: str = ""  # noqa: N815  # the cases' own name


class Pair:
    """The tools `A` and `B`, and `a`, `b`, `c`, which take as long as a case says."""

    def __init__(self, delays: dict[str, int] | None = None) -> None:
        self.journal = Journal()
        self.clock = TestClock()
        self.delays = delays or {}
        tools = [Tool.make(name, parameters=Word, success=str, failure=str) for name in ("A", "B", *NAMES)]
        self.kit: Toolkit[Any] = Toolkit.of(tools)

    def _handler(self, name: str) -> Any:
        def handler(_: Word) -> Any:
            start, end = self.journal.note(f"start {name}"), self.journal.note(f"end {name}")
            return start.and_then(fx.sleep(self.delays.get(name, 0))).and_then(end).as_(name)

        return handler

    def asked(self, program: Any, said: Any, seconds: float = 1000) -> tuple[EffectOf[Any, Any, None], ScriptedModel]:
        """The program with handlers, a model that says `said`, and time enough."""
        model = ScriptedModel.make([said])
        layers: list[Any] = [tool.handler(self._handler(tool.name)) for tool in self.kit]
        handlers: Any = layers[0]
        for layer in layers[1:]:
            handlers = handlers | layer
        served: Any = program.provide(self.kit.to_layer(handlers)).provide(model.layer)
        moved: Any = fx.all_(served, self.clock.advance(seconds)).map(lambda pair: pair[0])
        return moved.provide(self.clock.layer), model

    def response(self, said: Any, backend: Backend, **options: Any) -> Response:
        """The response of one round."""
        options.setdefault("toolkit", self.kit)
        program, _ = self.asked(LanguageModel.generate_text("go", **options), said)
        response: Response = fx.run(program, backend=backend)
        return response


class Silent(LanguageModel):
    """A model that says nothing."""

    def ask(self, request: ModelRequest) -> EffectOf[tuple[Part, ...]]:
        """No part at all."""
        return fx.succeed(())


def _is_one_of(kinds: tuple[str, ...]) -> Any:
    def check(part: Any) -> bool:
        return part.type in kinds

    return check


def _ran(journal: Journal) -> int:
    return sum(line.startswith("start") for line in journal.lines)


# -- lm.generate


@case("lm.generate/061")
def test_the_form_of_a_result(case: Case, backend: Backend) -> None:
    """Id and name of the call, both forms, no flag set."""
    given = case.given["model"][0]
    kit: Any = Toolkit.make(Tool.make("T", parameters=Word, success=str))
    tool = kit.tools["T"]
    model = ScriptedModel.make([call(given["name"], given["params"], id=given["id"])])
    program: Any = LanguageModel.generate_text("go", toolkit=kit).provide(tool.handler(giving(fx.succeed("x"))))
    (result,) = fx.run(program.provide(model.layer), backend=backend).tool_results
    expected = case.expect["toolResults"][0]

    assert (result.type, result.id, result.name) == (expected["type"], expected["id"], expected["name"])
    assert (result.result, result.encoded_result) == ("x", "x")
    assert result.is_failure is expected["isFailure"]
    assert result.provider_executed is expected["providerExecuted"]
    assert result.preliminary is expected["preliminary"]


@case("lm.generate/063")
def test_results_come_before_finish(case: Case, backend: Backend) -> None:
    """In the order of the calls, streamed or not: finish is last, where the other system puts it before them."""
    pair = Pair()
    response = pair.response([call("A", {}, id="1")], backend)
    program, _ = pair.asked(LanguageModel.stream_text("go", toolkit=pair.kit).collect(), [call("A", {}, id="1")])
    parts = fx.run(program, backend=backend)

    assert sorted(case.expect["content types"]) == sorted(part.type for part in response.content)
    assert [part.type for part in response.content] == ["tool-call", "tool-result", "finish"]
    assert Response.from_stream(parts) == response


@case("lm.generate/064")
def test_the_providers_own_calls_pass_through(case: Case, backend: Backend) -> None:
    """With their results; no handler of ours runs."""
    called, answered = case.given["model"]
    pair = Pair()
    said = [
        ToolCall("p", "A", called["params"], provider_executed=True),
        ToolResult("p", "A", answered["result"], provider_executed=True),
    ]
    response = pair.response(said, backend)
    (result,) = response.tool_results
    expected = case.expect["toolResults"][0]

    assert (result.result, result.encoded_result) == (expected["result"], expected["encodedResult"])
    assert (result.provider_executed, result.is_failure, result.preliminary) == (True, False, False)
    assert _ran(pair.journal) == case.expect["handlers run"]


@case("lm.generate/066")
def test_one_at_a_time_is_in_call_order(case: Case, backend: Backend) -> None:
    """Each begins when the one before it has ended."""
    pair = Pair(case.given["delays"])
    response = pair.response([call(name, {}, id=name) for name in NAMES], backend, concurrency=1)

    assert [r.result for r in response.tool_results] == case.expect["results"]
    assert pair.journal.lines == case.expect["trace"]


@case("lm.generate/067")
def test_two_at_once_overlap_and_keep_the_order(case: Case, backend: Backend) -> None:
    """They end in the order of the case, and their results are in the order of the calls."""
    pair = Pair(case.given["delays"])
    response = pair.response([call(name, {}, id=name) for name in NAMES], backend, concurrency=2)
    begun = pair.journal.lines.index

    assert {*case.expect["results"]} == {*NAMES}
    assert [r.result for r in response.tool_results] == list(NAMES)
    assert begun("start b") < begun("end b") < begun("start c")
    assert begun("end b") < begun("end a")


@case("lm.generate/069")
def test_cancelling_stops_the_handlers(case: Case, backend: Backend) -> None:
    """Once each."""
    journal, begun = Journal(), anyio.Event()
    tool = Tool.make("A", success=int)
    endless = fx.sync(begun.set).and_then(fx.never()).ensuring(journal.note("cancelled"))
    model = ScriptedModel.make([call("A", {})])
    program: Any = LanguageModel.generate_text("go", toolkit=Toolkit.make(tool)).provide(tool.handler(giving(endless)))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, program.provide(model.layer))
            await begun.wait()
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)

    assert journal.lines == ["cancelled"] * case.expect["cancelled"]


@case("lm.generate/071")
def test_an_empty_response(case: Case, backend: Backend) -> None:
    """No text, no reasoning, no reason, nothing counted."""
    response = fx.run(
        LanguageModel.generate_text("go").provide(Layer.succeed(LanguageModel, Silent())), backend=backend
    )

    assert response.text == case.expect["text"]
    assert response.reasoning_text is case.expect["reasoningText"]
    assert response.finish_reason == case.expect["finishReason"]
    assert response.usage == Usage()


@case("lm.generate/072")
def test_an_unknown_tool_is_a_failed_result(case: Case, backend: Backend) -> None:
    """That lists the tools there are; the round does not fail."""
    tool = Tool.make("A")
    model = ScriptedModel.make([call("Nope", {})])
    program: Any = LanguageModel.generate_text("go", toolkit=Toolkit.make(tool.external())).provide(model.layer)
    (result,) = fx.run(program, backend=backend).tool_results

    assert result.is_failure is case.expect["tool-result"]["isFailure"]
    assert isinstance(result.result, UnknownTool)
    assert list(result.result.known) == case.expect["tool-result"]["availableTools"]


@case("lm.generate/073")
def test_a_call_outside_the_choice_is_not_run(case: Case, backend: Backend) -> None:
    """Neither outside of `one_of` nor with no tool allowed."""
    for choice in (ToolChoice.one_of(case.given["tool_choice"]["oneOf"]), "none"):
        pair = Pair()
        response = pair.response([call("B", {})], backend, tool_choice=choice)

        assert (_ran(pair.journal) > 0) is case.expect["B executed"]
        assert [r.is_failure for r in response.tool_results] == [True]


@case("lm.generate/074")
def test_a_turn_that_was_cut_runs_nothing(case: Case, backend: Backend) -> None:
    """Its calls are answered as interrupted, and the reason is said."""
    reasons: tuple[FinishReason, ...] = ("length", "content-filter", "error", "other", "unknown")
    for reason in reasons:
        pair = Pair()
        (result,) = pair.response([call("A", {}), finish(reason)], backend).tool_results
        expected = case.expect["tool-result"]

        assert _ran(pair.journal) == case.expect["handlers run"]
        assert result.is_failure is expected["isFailure"]
        assert result.encoded_result["type"] == expected["encodedResult"]["type"]
        assert reason in result.encoded_result["reason"]


# -- lm.choice


@case("lm.choice/075")
def test_one_of_narrows_what_the_model_is_shown(case: Case, backend: Backend) -> None:
    """And the choice is passed on."""
    pair = Pair()
    choice = ToolChoice.one_of(case.given["tool_choice"]["oneOf"])
    program, model = pair.asked(LanguageModel.generate_text("go", toolkit=pair.kit, tool_choice=choice), "ok")
    fx.run(program, backend=backend)

    assert [tool.name for tool in model.requests[0].tools] == case.expect["provider.tools"]
    assert model.requests[0].tool_choice == choice


@case("lm.choice/077")
def test_calls_can_be_left_to_the_caller(case: Case, backend: Backend) -> None:
    """Given back, and not run."""
    pair = Pair()
    response = pair.response([call("A", {})], backend, resolve_tools=False)

    assert [part.type for part in response.content if part.type != "finish"] == case.expect["content types"]
    assert _ran(pair.journal) == case.expect["handlers run"]


# -- lm.stream


@case("lm.stream/078", "lm.stream/079")
def test_a_call_is_told_at_once_and_finish_last(case: Case, backend: Backend) -> None:
    """The call while its handler runs, the result after it, then finish."""
    pair = Pair({"A": 10})
    told: list[tuple[float, str]] = []
    stream: Any = LanguageModel.stream_text("go", toolkit=pair.kit)
    kinds = ("tool-call", "tool-result", "finish")

    def note(part: Any) -> Any:
        return fx.sync(lambda: told.append((pair.clock.now(), part.type)))

    shown: Any = stream.filter(_is_one_of(kinds))
    noted = shown.for_each(note)
    program, _ = pair.asked(noted, [call("A", {})])
    fx.run(program, backend=backend)
    expected = case.expect.get("types") or [*case.expect["after 10 s"], "finish"]

    assert [kind for _, kind in told] == expected
    assert [time for time, _ in told] == [0, 10, 10]


@case("lm.stream/083")
def test_a_failing_handler_lets_its_siblings_finish(case: Case, backend: Backend) -> None:
    """Where the other system cancels them: then the stream fails, and there is no finish."""
    pair = Pair({"A": 30})
    fails = Tool.make("fails", success=int, failure=str)
    kit: Any = pair.kit.merge(Toolkit.make(fails))
    seen: list[str] = []
    stream: Any = LanguageModel.stream_text("go", toolkit=kit).provide(fails.handler(giving(fx.fail("no"))))

    def note(part: Any) -> Any:
        return fx.sync(lambda: seen.append(part.type))

    noted = stream.for_each(note).exit()
    program, _ = pair.asked(noted, [call("A", {}, id="1"), call("fails", {}, id="2")])
    ended: Any = fx.run(program, backend=backend)
    kinds = [kind for kind in seen if not kind.startswith("tool-params")]

    assert case.expect["types before error"] == kinds[:2]
    assert kinds[2:] == ["tool-result", "tool-result"]
    failure: Any = ended.cause.failures[0]
    assert isinstance(failure, HandlerFailed)
    assert failure.response is not None
    assert [r.id for r in failure.response.tool_results] == ["1", "2"]
