"""Counting tokens: the service, its estimate, and the layers around a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fxai.agents import Agent, Compaction, Memory, MemoryFailure
from fxai.effects import Effect, LayerOf, fx
from fxai.messages import AiError, AssistantMessage, InternalProviderError, Prompt, ToolCallPart
from fxai.models import Chat, LanguageModel, ModelRequest, TokenCount, estimated_tokens, fallback, per_step
from fxai.testing import ScriptedModel
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.memories import window_of


class City(msgspec.Struct, frozen=True):
    """A place."""

    name: str


WEATHER = Tool.make("weather", description="How warm it is.", parameters=City, success=str)


def _by_messages(request: ModelRequest) -> int:
    return len(request.prompt)


class Broken(LanguageModel):
    """A model that cannot be asked."""

    def ask(self, request: ModelRequest) -> Effect[Any, AiError]:
        """Fails."""
        return fx.fail(AiError("broken", "ask", InternalProviderError()))

    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Fails."""
        return fx.fail(AiError("broken", "count", InternalProviderError()))


class Plain(LanguageModel):
    """A model of somebody else's, that knows nothing of tokens."""

    def ask(self, request: ModelRequest) -> Effect[Any, AiError]:
        """Says nothing."""
        return fx.succeed(())


def _count(counting: Any, layer: LayerOf[LanguageModel, Any, None]) -> TokenCount:
    count: TokenCount = fx.run(counting.provide(layer))
    return count


def test_a_model_that_counts_nothing_gives_an_estimate() -> None:
    """It grows with the messages, the instructions, the tools and the schema, and says what it is."""
    plain = LayerOf.succeed(LanguageModel, Plain())
    bare = _count(LanguageModel.count_tokens("Hello"), plain)
    told = _count(LanguageModel.count_tokens(Prompt.make("Hello").set_system("Be brief, and kind.")), plain)
    armed = _count(LanguageModel.count_tokens("Hello", toolkit=Toolkit.make(WEATHER)), plain)
    held = _count(LanguageModel.count_tokens("Hello", schema=City), plain)

    assert bare == TokenCount(estimated_tokens(Prompt.make("Hello")), "estimate")
    assert min(told.tokens, armed.tokens, held.tokens) > bare.tokens
    assert all(count.is_estimate for count in (bare, told, armed, held))


def test_a_scripted_model_counts_as_it_is_told() -> None:
    """And records what it was asked to count, apart from what it was asked."""
    model = ScriptedModel.make([], tokens=_by_messages)
    count = _count(LanguageModel.count_tokens("Hello", toolkit=Toolkit.make(WEATHER), tool_choice="none"), model.layer)

    assert count == TokenCount(1, "provider")
    assert [request.tool_choice for request in model.counted] == ["none"]
    assert model.requests == []


def test_an_empty_prompt_is_counted() -> None:
    """Though there is nothing to answer yet: instructions and tools take tokens, too. A wrong choice is a failure."""
    model = ScriptedModel.make([])
    kit = Toolkit.make(WEATHER)
    wrong: Any = {"toolkit": kit, "tool_choice": "often"}

    assert _count(LanguageModel.count_tokens(Prompt.empty, toolkit=kit), model.layer).tokens > 0
    assert fx.run_result(LanguageModel.count_tokens("Hi", **wrong).provide(model.layer)).failure().method == "prepare"


def test_layers_around_models_count_by_the_model_that_would_answer() -> None:
    """A fallback goes over to the next one and says so; a choice for each step is asked for the step."""
    counts = ScriptedModel.make([], tokens=lambda _: 7)
    behind = fallback(LayerOf.succeed(LanguageModel, Broken()), counts.layer)
    chosen = per_step({"a": counts.layer}, lambda _: "a")
    over = _count(LanguageModel.count_tokens("Hello"), behind)
    failed = fx.run_result(
        LanguageModel.count_tokens("Hello").provide(fallback(LayerOf.succeed(LanguageModel, Broken())))
    )

    assert (over.tokens, len(over.warnings)) == (7, 1)
    assert over.warnings[0].message.startswith("another model counts: ")
    assert _count(LanguageModel.count_tokens("Hello"), chosen).tokens == 7
    assert failed.failure().method == "count"


def test_a_chat_counts_its_history() -> None:
    """With the prompt that would come next; nothing is asked, and the history stays as it is."""
    model = ScriptedModel.make(["Good day."], tokens=_by_messages)

    @fx.gen
    def talk() -> Any:
        chat: Chat = yield from Chat
        yield from chat.generate_text("Hello")
        now = yield from chat.count_tokens()
        next_ = yield from chat.count_tokens("And now?", toolkit=Toolkit.make(WEATHER))
        return now.tokens, next_.tokens, len((yield from chat.history))

    assert fx.run(talk().provide(Chat.layer()).provide(model.layer)) == (2, 3, 2)


# -- windows of memories


def _first(request: ModelRequest) -> str:
    message = request.prompt[0]
    return message.text if message.role == "user" else ""


def _remembering(window: Compaction, *turns: Prompt) -> Memory:
    memory = Memory.in_process(window)
    for turn in turns:
        fx.run(memory.commit(turn))
    return memory


TURNS = [Prompt.make(f"{number}").append(AssistantMessage.make("Yes.")) for number in range(4)]


def test_a_window_is_counted_by_the_model_of_the_run() -> None:
    """Turn by turn from the newest on, no further than needed; a turn is counted once."""
    model = ScriptedModel.make(["A.", "B."], tokens=lambda request: 10 * len(request.prompt))
    memory = _remembering(Compaction.window(tokens=40, count="model"), *TURNS)
    agent, layer = Agent.make("agent").with_memory(memory), model.layer
    fx.run(agent.execute("Now").provide(layer))
    counted = [_first(request) for request in model.counted]
    fx.run(agent.execute("Then").provide(layer))

    assert [len(request.prompt) for request in model.requests] == [5, 5]
    assert counted == ["3", "2", "1"]
    assert [_first(request) for request in model.counted][3:] == ["Now"]


def test_outside_of_a_run_and_for_open_calls_such_a_window_is_estimated() -> None:
    """There is no model to ask, or what there is cannot be sent to it as it stands."""
    open_ = Prompt.make("Look.").append(AssistantMessage.make(ToolCallPart("c", "look", {})))
    alone = _remembering(Compaction.window(tokens=1, count="model"), *TURNS)
    model = ScriptedModel.make([], tokens=lambda _: 1)
    both = _remembering(Compaction.window(tokens=1000, count="model"), TURNS[0], open_)

    assert [message.text for message in fx.run(alone.load()) if message.role == "user"] == ["3"]
    assert len(fx.run(both.load().provide(model.layer))) == 4
    assert len(model.counted) == 1
    assert [len(turn) for turn in window_of(Compaction.window(tokens=1, count="model")).newest(reversed(TURNS))] == [2]


def test_a_window_that_cannot_be_counted_fails_the_load() -> None:
    """The failure says of which memory, and why."""
    memory = _remembering(Compaction.window(tokens=40, count="model"), *TURNS)
    failure = fx.run_result(memory.load().provide(LayerOf.succeed(LanguageModel, Broken()))).failure()

    assert isinstance(failure, MemoryFailure)
    assert failure.doing == "load"
    assert "the model did not count the tokens of the turns: broken.count" in failure.description


@pytest.mark.parametrize("window", [Compaction.window(tokens=9, count="model"), Compaction.window(3, tokens=9)])
def test_such_a_window_shows_itself(window: Compaction) -> None:
    """As it is made."""
    assert "tokens=9" in repr(window)
    assert window == eval(repr(window))


@pytest.mark.slow
@every("shown", [1, 3, 20, 70, 100])
def test_a_memory_is_read_as_far_back_as_its_window_reaches(shown: int, tmp_path: Path) -> None:
    """Turns before that are not counted, and a damaged line among them matters to nobody."""
    path, turns = tmp_path / "memory.jsonl", [Prompt.make(f"q{number}") for number in range(100)]
    for turn in turns:
        fx.run(Memory.file(path).commit(turn))
    if shown == 1:
        path.write_bytes(path.read_bytes().replace(b"q0", b"q_", 1))
    model = ScriptedModel.make([], tokens=lambda _: 10)
    memory = Memory.file(path, Compaction.window(tokens=10 * shown, count="model"))
    loaded = fx.run(memory.load().provide(model.layer))

    assert [message for turn in turns[-shown:] for message in turn] == list(loaded)
    assert len(model.counted) == min(shown + 1, 100)
