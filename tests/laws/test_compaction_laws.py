"""The laws of compactions: what they keep, what they may change, and the requests that follow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import Any, Final, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from fxai.agents import Agent, Changes, Compaction, Memory
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import EffectOf, fx
from fxai.messages import AiError, Message, Pending, Prompt, ToolResultPart
from fxai.messages.calls import pending_in, unpaired_calls
from fxai.models import Chat, ModelFacts, ModelRequest, PreparationError
from fxai.models.cut import read_compacted
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit
from tests.kit.binding_server import BindingServer, calls, states
from tests.kit.floor import request_breaches
from tests.kit.foreign_histories import NAMES, histories
from tests.kit.reaching import Reached
from tests.kit.trials import examples
from tests.laws.test_history_laws import TOOLS, WIRES

Backend = Literal["asyncio", "trio"]
LOOPS: Final[st.SearchStrategy[Backend]] = st.sampled_from(["asyncio", "asyncio", "trio"])


def _words(messages: Prompt) -> int:
    return sum(len(str(Prompt((one,))).split()) for one in messages)


WINDOWS: Final = st.integers(1, 5).map(Compaction.window) | st.integers(1, 60).map(
    lambda tokens: Compaction.window(tokens=tokens, count=_words)
)
CLEARINGS: Final = st.tuples(st.integers(0, 3), st.lists(st.sampled_from(NAMES), max_size=2)).map(
    lambda both: Compaction.clear_results(keep=both[0], exclude=both[1])
)
SUMMARIES: Final = st.integers(1, 3).map(lambda keep: Compaction.summary(keep=keep))
COMPACTIONS: Final = st.lists(WINDOWS | CLEARINGS | SUMMARIES, min_size=1, max_size=3).map(
    lambda several: reduce(Compaction.then, several)
)


def _apply(compaction: Compaction, prompt: Prompt, backend: Backend = "asyncio") -> Any:
    model = ScriptedModel.make(["They talked."] * 3)
    return fx.run_result(compaction.apply(prompt).provide(model.layer), backend=backend)


def _parts(messages: Iterable[Message]) -> list[Any]:
    return [part for one in messages if one.role != "system" for part in one.content]


def _waiting(messages: Iterable[Message]) -> set[tuple[str, str | None]]:
    return {(one.id, one.approval_id) for one in pending_in(_parts(messages))}


def _newest_turn(prompt: Prompt) -> list[Message]:
    start = next((at for at in range(len(prompt) - 1, -1, -1) if prompt[at].role == "user"), 0)
    return [one for one in [*prompt][start:] if one.role != "system"]


def test_a_compaction_keeps_what_belongs_together() -> None:
    """Pairs, open calls, system messages, and the newest turn survive; twice is once; every API accepts the rest."""
    reached = Reached()

    @settings(max_examples=examples(200, least=60))
    @given(histories(), COMPACTIONS, st.sampled_from(sorted(WIRES)), LOOPS)
    def law(prompt: Prompt, compaction: Compaction, name: str, backend: Backend) -> None:
        applied = _apply(compaction, prompt, backend)
        if isinstance(applied, Failure):
            assert isinstance(applied.failure(), AiError)
            reached("failed")
            return
        left: Prompt = applied.unwrap()
        newest, kept = _newest_turn(prompt), _newest_turn(left)

        assert set(unpaired_calls(left)) <= set(unpaired_calls(prompt))
        assert _waiting(left) >= _waiting(newest)
        assert [one for one in left if one.role == "system"] == [one for one in prompt if one.role == "system"]
        assert [one.role for one in kept] == [one.role for one in newest]
        assert [one for one in kept if one.role != "tool"] == [one for one in newest if one.role != "tool"]
        assert _apply(compaction, left).unwrap() == left
        assert read_compacted(left) == left
        reached("shorter", len(left) < len(prompt))
        reached("unchanged", left is prompt)
        wire, prepare, facts = WIRES[name]
        try:
            body = prepare(ModelRequest(left, TOOLS))
        except PreparationError:
            return
        assert request_breaches(body, wire, **facts) == []
        reached("sent")

    reached.by(law, shorter=10, unchanged=10, sent=20, failed=1)


@settings(max_examples=examples(100))
@given(histories(), CLEARINGS)
def test_clearing_changes_only_results(prompt: Prompt, compaction: Compaction) -> None:
    """Each message remains, and each part except a result that succeeded."""
    left = _apply(compaction, prompt).unwrap()
    before, after = _parts(prompt), _parts(left)

    assert [one.role for one in left] == [one.role for one in prompt]
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old != new:
            assert isinstance(old, ToolResultPart)
            assert not old.is_failure
            assert (old.id, old.name, old.metadata) == (new.id, new.name, new.metadata)


@settings(max_examples=examples(100))
@given(histories(), WINDOWS)
def test_a_window_only_removes(prompt: Prompt, compaction: Compaction) -> None:
    """The messages that remain are messages of the conversation, in their order."""
    applied = _apply(compaction, prompt)
    rest = iter(prompt)

    assert isinstance(applied, Failure) or all(any(one is other for other in rest) for one in applied.unwrap())


@settings(max_examples=examples(100))
@given(histories(), st.integers(1, 60), st.booleans())
def test_the_budget_is_kept_or_the_failure_is_typed(prompt: Prompt, most: int, by_window: bool) -> None:
    """A result has at most the tokens of the budget; otherwise the failure states both numbers."""
    whole = Compaction.window(tokens=most, count=_words)
    steps = Compaction.clear_results(keep=0).then(Compaction.window(1)).at_tokens(most, count=_words)
    applied = _apply(whole if by_window else steps, prompt)

    if isinstance(applied, Success):
        assert _words(cast(Prompt, applied.unwrap())) <= most
        return
    reason = applied.failure().reason
    assert reason.limit == most < reason.tokens


# -- runs


FACTS: Final = ModelFacts(provider="acme", model="m", binds_thinking=True, system_between=True)


class _Script:
    """Questions of a conversation with calls, and the answers of a model."""

    look = Tool.make("look", parameters=dict[str, int], success=str)
    pay = Tool.make("pay", parameters=dict[str, int], success=str, needs_approval=True)
    kit = Toolkit.make(look, pay)
    live = look.handler(lambda given: Success("found " * (5 + given.get("n", 0)))) | pay.handler(
        lambda _: Success("paid " * 20)
    )


RUNS: Final = st.lists(st.lists(st.sampled_from(["look", "pay"]), max_size=3), min_size=1, max_size=6)
RUN_COMPACTIONS: Final[st.SearchStrategy[Compaction]] = st.one_of(
    st.integers(0, 2).map(lambda keep: Compaction.clear_results(keep=keep)),
    st.integers(1, 3).map(Compaction.window),
    st.integers(90, 200).map(lambda most: Compaction.clear_results(keep=0).at_tokens(most, count=_words)),
    st.integers(1, 3).map(lambda every: Compaction.window(1).at_step(every=every)),
    st.integers(60, 120).map(
        lambda most: Compaction.clear_results(keep=1).then(Compaction.window(2)).at_tokens(most, count=_words)
    ),
)


def _turns(runs: list[list[str]]) -> list[Any]:
    return [one for run in runs for one in [*(call(name, {"n": len(run)}) for name in run), text("Done.")]]


def _talk(
    agent: Agent[Any, Any, Any, Any], runs: list[list[str]], backend: Backend, facts: ModelFacts | None = None
) -> tuple[list[Any], Any, Any]:
    model, memory = ScriptedModel.make(_turns(runs), facts=facts), Memory.in_process()
    answers: list[Any] = []
    for number, _ in enumerate(runs):
        prompt: Any = f"Question {number}"
        while True:
            program: EffectOf[Any, Any, Any] = agent.with_memory(memory).execute(prompt)
            answers.append(fx.run(program.provide(_Script.live).provide(model.layer).result(), backend=backend))
            if isinstance(answers[-1], Failure) or answers[-1].unwrap().ended != "pending":
                break
            history = answers[-1].unwrap().history
            prompt = [history.reply(Pending.approve)[len(history)]]
    return answers, model, fx.run(memory.load())


def _plain(history: Prompt) -> str:
    """The messages without the records of compactions, and without ids."""
    return re.sub(r"\[(\w+) \S+\]|call \S+$", r"[\1]", str(history), flags=re.MULTILINE)


def test_a_conversation_with_a_compaction_stays_whole_and_grows() -> None:
    """The memory has each message; a request that does not extend the one before has a recorded break."""
    reached = Reached()

    @settings(max_examples=examples(60, least=20))
    @given(RUNS, RUN_COMPACTIONS, LOOPS, st.sampled_from([None, FACTS]))
    def law(runs: list[list[str]], compaction: Compaction, backend: Backend, facts: ModelFacts | None) -> None:
        compact = Agent.make("a", toolkit=_Script.kit, compaction=compaction)
        answers, model, kept = _talk(compact, runs, backend, facts)
        if any(isinstance(one, Failure) for one in answers):
            reached("failed")
            return
        _, _, whole = _talk(Agent.make("a", toolkit=_Script.kit), runs, backend)
        breaks = [step.record.prefix_break for one in answers for step in one.unwrap().steps if step.text or step.calls]
        sent = [[*request.prompt] for request in model.requests]
        grows = [after[: len(before)] == before for before, after in pairwise(sent)]

        assert _plain(kept) == _plain(whole)
        assert len(breaks) == len(sent)
        assert [one is None for one in breaks[1:]] == grows
        assert {one for one in breaks if one is not None} <= {"compaction"}
        reached("break", any(breaks))
        reached("growth", any(grows))

    reached.by(law, **{"break": 5, "growth": 5})


@pytest.mark.parametrize("changes", ["append", "rewrite"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stateful_prompt_compacts_like_an_agent(backend: Backend, changes: Changes) -> None:
    """Its sections stay, and the conversation around them shrinks."""

    def desk(at: Render[None]) -> None:
        at.system("role", "You look.")
        at.tool(_Script.look, lambda _: Success("found " * 50))

    model = ScriptedModel.make([*[call("look", {})] * 4, text("Done.")])
    prompt = StatefulPrompt.make("desk", desk, compaction=Compaction.clear_results(keep=1), changes=changes)
    answer = fx.run(prompt.execute("Look.").provide(model.layer), backend=backend)

    assert [step.record.prefix_break for step in answer.steps] == [None, None, *["compaction"] * 3]
    assert all("You look." in str(request.prompt) for request in model.requests)
    assert [str(request.prompt).count("found " * 50) for request in model.requests] == [0, 1, 1, 1, 1]
    assert str(answer.history).count("found " * 50) == 4


def test_a_chat_compacts_and_stays_whole() -> None:
    """The store has each message, and the next turn continues from the same shortened messages."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        for number in range(5):
            yield from chat.generate_text(f"Question {number}")
        return (yield from chat.history)

    model = ScriptedModel.make(
        [text("One."), text("Two."), text("They asked."), *map(text, ("Three.", "Four.", "Five."))]
    )
    layer = Chat.layer(compaction=Compaction.summary(keep=1).at_step(3))
    history: Prompt = fx.run(talk().provide(layer).provide(model.layer))
    sent = [[*request.prompt] for request in model.requests]

    assert len(history) == 10
    assert "They asked." in str(sent[3][0])
    assert len(sent[3]) == 2
    assert sent[4][: len(sent[3])] == sent[3]
    assert sent[5][: len(sent[4])] == sent[4]


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "turns"), [("asyncio", 1_000), ("trio", 100)])
def test_a_thousand_turns_are_accepted_and_bounded(backend: Backend, turns: int) -> None:
    """A model that binds its thinking to the prefix refuses no request, and no request exceeds the budget."""
    server = BindingServer(lambda number: calls("look", n=number) if number % 2 == 0 else states(f"Answer {number}."))
    most = 600
    compaction = Compaction.clear_results(keep=2).then(Compaction.window(4)).at_tokens(most, count=_words)
    memory = Memory.in_process()
    agent = Agent.make("a", instructions="Be brief.", toolkit=Toolkit.make(_Script.look), compaction=compaction)
    live = _Script.look.handler(lambda _: Success("found " * 40))
    breaks: list[Any] = []
    for number in range(turns):
        asked = agent.with_memory(memory).execute(f"Question {number}").provide(live).provide(server.layer)
        breaks += [step.record.prefix_break for step in fx.run(asked, backend=backend).steps]

    assert server.refused == []
    assert len(server.bodies) == 2 * turns
    assert max(len(str(body["messages"])) for body in server.bodies) < 15_000
    assert {*breaks} == {None, "compaction"}
    assert breaks.count("compaction") < turns
    assert len(fx.run(memory.load())) == 4 * turns
