"""Neither the moments of a person's answers nor crashes change the result of a durable run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from typing import Any, TypeAlias, cast

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import Reply, RunQuestion, Runs, durable
from fxai.effects import Gen, Layer
from fxai.messages import Finish, Part, Text, ToolCall
from fxai.models import ModelRequest
from tests.kit.stopping_journals import stop_after
from tests.kit.trials import examples

Plan: TypeAlias = Any
"""The turns of an agent. Each turn is a tuple of parallel calls: a name, or the plan of a sub-agent."""

_NAMES = ("work", "wipe", "outside")

plans: st.SearchStrategy[Plan] = st.recursive(
    st.sampled_from(_NAMES),
    lambda inner: st.lists(st.lists(inner, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple),
    max_leaves=6,
).filter(lambda plan: isinstance(plan, tuple))

delays_of: st.SearchStrategy[list[int]] = st.lists(st.integers(0, 3), min_size=1, max_size=7)


def _after(delays: Iterator[int], f: Callable[[], Any]) -> Any:
    async def wait() -> Any:
        for _ in range(next(delays)):
            await anyio.lowlevel.checkpoint()
        return f()

    return fx.wait(wait)


def _cycle(delays: list[int]) -> Iterator[int]:
    while True:
        yield from delays


class _Planned(LanguageModel):
    """A model that makes the calls of its prompt, a plan, turn by turn. Then it lists the results."""

    def __init__(self, delays: Iterator[int]) -> None:
        self._delays = delays

    def ask(self, request: ModelRequest) -> Any:
        """Returns one turn after some checkpoints."""
        messages = list(request.prompt)
        asked: Any = next(one for one in reversed(messages) if one.role == "user")
        turn = sum(one.role == "assistant" for one in messages)
        return _after(self._delays, lambda: _turn(asked.text, turn, messages))


def _turn(text: str, turn: int, messages: list[Any]) -> tuple[Part, ...]:
    plan = eval(text, {"__builtins__": {}})  # the test wrote it
    if turn == len(plan):
        results = [part.result for one in messages if one.role == "tool" for part in one.content]
        return (Text(repr(results)), Finish("stop"))
    calls: list[ToolCall] = []
    for at, one in enumerate(plan[turn]):
        name, params = one if isinstance(one[0], str) else ("sub", {"prompt": repr(one)})
        calls.append(ToolCall(f"{turn}.{at}", name, params))
    return (*calls, Finish("tool-calls"))


def _number(plan: Plan, numbers: Iterator[int]) -> Plan:
    """Returns the plan with calls as pairs of a name and a unique number."""
    if isinstance(plan, str):
        return plan, next(numbers)
    return tuple(tuple(_number(one, numbers) for one in turn) for turn in plan)


class _Shop:
    """One run, its programs, and a person who answers questions."""

    def __init__(self, plan: Plan, patience: float) -> None:
        self.runs = Runs.in_process()
        self.done: Counter[int] = Counter()
        self._plan = plan
        self._patience = patience
        self._work = Tool.make("work", parameters=int, success=int)
        self._wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
        self._outside = Tool.make("outside", parameters=int, success=int).external()

    def program(self, delays: Iterator[int], left: int | None = None) -> Any:
        """Returns a program of the run, which crashes after `left` records."""
        store = self.runs if left is None else Runs(stop_after(left, self.runs.store), "this process")

        def handle(number: int) -> Any:
            return _after(delays, lambda: self.done.update([number])).as_(number)

        kit = Toolkit.make(self._work, self._wipe, self._outside)
        agent: Any = Agent.make("sub", toolkit=kit)
        for _ in range(6):
            agent = Agent.make("sub", toolkit=kit).with_tools(agent.as_tool())
        handlers: Any = self._work.handler(handle) | self._wipe.handler(handle)
        layer = handlers | Layer.succeed(LanguageModel, _Planned(delays))
        asked: Any = agent.execute(repr(self._plan))
        return asked.provide(durable(layer, run="r", store=store, patience=self._patience))

    def answer(self) -> Gen[None, Any, Any]:
        """Answers the first open question."""
        found: Any = yield from self.runs.show("r").result()
        report = found.value_or(None)
        if report is not None and report.questions:
            question = report.questions[0]
            yield from self.runs.answer("r", question.id, self._reply(question))

    def _reply(self, question: RunQuestion) -> Reply:
        number: Any = question.params
        if question.kind == "approval":
            return Reply.deny("no") if number % 2 else Reply.approve()
        is_over = question.kind == "result" or self.done[number]
        return Reply.result(number) if is_over else Reply.again()

    def go_on(self, delays: list[int], moments: list[int], left: int | None = None) -> Any:
        """Runs one program while the person answers questions, and returns how the program ended."""
        often = _cycle(moments)

        def answer_all() -> Gen[None, Any, Any]:
            while True:
                yield from _after(often, lambda: None)
                yield from fx.wait(anyio.lowlevel.checkpoint)
                yield from self.answer()

        def both() -> Gen[Any, Any, Any]:
            yield from fx.fork(fx.gen(answer_all)())
            return cast(Any, (yield from self.program(_cycle(delays), left).exit()))

        scope: Any = fx.scoped(fx.gen(both)())
        return fx.run(scope)

    def run_to_its_end(self, run: Callable[[], Any]) -> Any:
        """Runs programs until the run is done. After each program the person answers one open question."""
        for _ in range(100):
            end = run()
            status = fx.run(self.runs.show("r")).state.status
            if status == "done":
                return end
            assert status in ("stopped", "waiting"), end
            fx.run(fx.gen(self.answer)())
        raise AssertionError("the run does not end")


@settings(max_examples=examples(60))
@given(plans, delays_of, delays_of, st.sampled_from([0.0, 1e6]), st.lists(st.integers(1, 25), max_size=3))
def test_answers_and_crashes_at_any_moment_come_to_the_same(
    plan: Plan, delays: list[int], moments: list[int], patience: float, crashes: list[int]
) -> None:
    """The run ends with the same text, no call runs twice, and no program fails or loses an answer.

    The first programs crash after a number of records. Calls in doubt are then questions too.
    """
    plan = _number(plan, count())
    slow, fast = _Shop(plan, 0.0), _Shop(plan, patience)
    expected = slow.run_to_its_end(lambda: fx.run_exit(slow.program(_cycle([0]))))
    lefts: Iterator[int | None] = chain(crashes, repeat(None))
    ended = fast.run_to_its_end(lambda: fast.go_on(delays, moments, next(lefts)))
    assert ended.value.text == expected.value.text
    assert fast.done == slow.done
    assert max(fast.done.values(), default=1) == 1
    again = fast.go_on([0], [0])
    assert (again.value.text, fast.done) == (expected.value.text, slow.done)
