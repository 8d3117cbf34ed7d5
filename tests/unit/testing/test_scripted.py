"""The scripted model: it says what is written down and keeps what it was asked."""

from __future__ import annotations

from typing import Any

from fxai.effects import Backend, fx
from fxai.messages import (
    AiError,
    Prompt,
    RateLimitError,
    Response,
    Text,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, TestClock, call, delay, fails, finish, reasoning, text
from tests.kit.every import every
from tests.kit.samples import defect_of, failure_of

TURNS: dict[str, Any] = {
    "text": text("Hello"),
    "pieces": ["Hel", "lo"],
    "reasoning": [reasoning("Hm."), "Hello"],
    "call": call("add", {"a": 1}, id="c"),
    "broken call": ToolCall("c", "add", None, params_text="{"),
    "streamed call": [
        ToolParamsStart("c", "add"),
        ToolParamsDelta("c", '{"a"'),
        ToolParamsDelta("c", ":1}"),
        ToolParamsEnd("c"),
        call("add", {"a": 1}, id="c"),
    ],
    "finish": ["Hel", finish("length")],
    "part": [Text("Hello", metadata={"acme": {"id": 1}})],
    "nothing": [],
}


@every("turn", list(TURNS))
def test_it_says_the_same_whole_and_streamed(turn: str, backend: Backend) -> None:
    """The stream of a turn folds to the turn; each has one finish, last."""
    model = ScriptedModel.make([TURNS[turn], TURNS[turn]])
    both = fx.all_(
        LanguageModel.generate_text("go", resolve_tools=False),
        LanguageModel.stream_text("go", resolve_tools=False).collect(),
    )
    whole, parts = fx.run(both.provide(model.layer), backend=backend)

    assert Response.from_stream(parts) == whole
    assert [part.type for part in parts].count("finish") == 1
    assert parts[-1].type == "finish"


def test_texts_are_pieces_of_one_text() -> None:
    """As a model would stream them; a call between them ends the text."""
    model = ScriptedModel.make([["a", "b", call("x", {}), "c"]])
    parts = fx.run(LanguageModel.stream_text("go", resolve_tools=False).provide(model.layer).collect())

    assert [p.delta for p in parts if p.type == "text-delta"] == ["a", "b", "c"]
    assert len({p.id for p in parts if p.type == "text-start"}) == 2
    assert parts[-1].type == "finish"


def test_calls_get_ids_of_their_own() -> None:
    """Unless one is given."""
    one, other = call("add", {}), call("add", {})

    assert one.id != other.id
    assert call("add", {}, id="mine").id == "mine"


def test_turns_in_a_turn_are_its_items() -> None:
    """So that what helpers of a test give can be joined as it comes."""
    greeting = [text("Good "), [text("day."), call("x", {}, id="c")]]
    model = ScriptedModel.make([greeting, [text("Good "), text("day."), call("x", {}, id="c")]])
    asked = LanguageModel.generate_text("go", resolve_tools=False)
    nested, flat = fx.run(fx.all_(asked, asked).provide(model.layer))

    assert nested == flat


def test_a_call_whose_parameters_are_in_the_turn_is_not_taken_apart_again() -> None:
    """They come as they are written down, and the call behind them, once."""
    parts = fx.run(
        LanguageModel.stream_text("go", resolve_tools=False)
        .collect()
        .provide(ScriptedModel.make([TURNS["streamed call"]]).layer)
    )

    assert [part.type for part in parts] == [
        "tool-params-start",
        "tool-params-delta",
        "tool-params-delta",
        "tool-params-end",
        "tool-call",
        "finish",
    ]


def test_requests_are_kept(backend: Backend) -> None:
    """In order, whichever way it was asked, also where the turn fails."""
    model = ScriptedModel.make([text("a"), fails(RateLimitError()), text("c")])

    def program() -> Any:
        yield from LanguageModel.generate_text("one", max_tokens=5)
        yield from LanguageModel.generate_text("two").result()
        yield from LanguageModel.stream_text("three").drain()

    fx.run(fx.gen(program)().provide(model.layer), backend=backend)

    assert [r.prompt for r in model.requests] == [Prompt.make(p) for p in ("one", "two", "three")]
    assert model.requests[0].max_tokens == 5


def test_too_few_turns_is_a_clear_error(backend: Backend) -> None:
    """A defect that counts both."""
    model = ScriptedModel.make([text("a")])
    twice = LanguageModel.generate_text("go").and_then(LanguageModel.generate_text("go")).provide(model.layer)
    streamed = LanguageModel.stream_text("go").drain().provide(model.layer)

    defect = defect_of(twice, backend)
    again = defect_of(streamed, backend)

    assert "1 turns, got 2 requests" in str(defect)
    assert "got 3 requests" in str(again)


def test_a_failure_is_a_reason_or_a_whole_error(backend: Backend) -> None:
    """Both come as `AiError`."""
    error = AiError("Acme", "generate_text", RateLimitError(retry_after=3))
    model = ScriptedModel.make([fails(error), fails(RateLimitError())])
    ask = LanguageModel.generate_text("go").provide(model.layer)

    assert failure_of(ask, backend) == error
    assert failure_of(ask, backend).reason == RateLimitError()


def test_delays_pass_by_the_clock(backend: Backend) -> None:
    """A pause in a turn takes no time of the test."""
    clock = TestClock()
    model = ScriptedModel.make([[delay(3600), "late"], ["a", delay(60), "b"]])

    def program() -> Any:
        whole = LanguageModel.generate_text("go").map(lambda r: (r.text, clock.now()))
        first = yield from fx.all_(whole, clock.advance(3600))
        parts = LanguageModel.stream_text("go").map(lambda p: (p.type, clock.now())).collect()
        second = yield from fx.all_(parts, clock.advance(60))
        return first[0], second[0]

    whole, parts = fx.run(fx.gen(program)().provide(model.layer).provide(clock.layer), backend=backend)

    assert whole == ("late", 3600)
    assert [time for kind, time in parts if kind == "text-delta"] == [3600, 3660]


def test_one_script_serves_programs_at_once(backend: Backend) -> None:
    """Each turn is said once."""
    model = ScriptedModel.make([text(str(n)) for n in range(20)])
    asked = fx.for_each(range(20), lambda _: LanguageModel.generate_text("go"), concurrency=None)
    responses = fx.run(asked.provide(model.layer), backend=backend)

    assert sorted(int(r.text) for r in responses) == list(range(20))
