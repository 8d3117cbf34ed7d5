"""The laws of inboxes: a run loses no message, reads each message once, and only extends its requests."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from fxai import Agent, Budget, Gen, Tool, Toolkit, fx
from fxai.agents import Compaction, Inbox, InboxFullError, InboxMessage, Memory, history_of
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.annotations import Idempotent
from fxai.durable import RunEnded, Runs, RunUnknown, durable
from fxai.effects import Backend, EffectOf, Failed
from fxai.messages import Prompt, RateLimitError, Text
from fxai.testing import ScriptedModel, call, fails, text

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
Delivery = Literal["steer", "queue"]

look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)
kit = Toolkit.make(look)


def _texts(prompt: Prompt) -> list[str]:
    """Return the texts of the user messages."""
    return [message.text for message in prompt if message.role == "user"]


def _left(inbox: Inbox) -> list[str]:
    return [message.text for one in inbox.left for message in one.messages]


SENT = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["steer", "queue"])), max_size=8)


@given(SENT, st.integers(1, 5), st.integers(1, 6), st.booleans(), st.sampled_from(BACKENDS), st.booleans())
def test_each_message_is_read_once_or_left(
    sent: list[tuple[int, Delivery]], calls: int, rounds: int, streamed: bool, backend: Backend, limited: bool
) -> None:
    """For messages before a run and during any step, each request extends the request before it."""
    inbox = Inbox.in_process()

    def send(moment: int) -> EffectOf[Any]:
        chosen = [(number, how) for number, (at, how) in enumerate(sent) if at == moment]
        return fx.for_each(chosen, lambda one: getattr(inbox, one[1])(f"message {one[0]}"))

    def handle(number: int) -> Gen[int]:
        yield from send(number)
        return number

    turns = [call("look", number + 1) for number in range(calls)]
    model = ScriptedModel.make([*turns, *[text(f"answer {number}") for number in range(10)]])
    budget = Budget(rounds=rounds if limited else 30)
    agent = Agent.make("worker", toolkit=kit, budget=budget)
    layer = look.handler(handle) | inbox.layer | model.layer
    fx.run(send(0), backend=backend)
    if streamed:
        fx.run_exit(agent.stream("Go.").provide(layer).drain(), backend=backend)
    else:
        fx.run_exit(agent.execute("Go.").provide(layer), backend=backend)
    requests = [list(request.prompt) for request in model.requests]
    read = _texts(model.requests[-1].prompt)[1:]
    arrived = [f"message {number}" for number, (at, _) in enumerate(sent) if at <= min(calls, len(requests))]

    assert all(after[: len(before)] == before for before, after in itertools.pairwise(requests))
    assert len(set(read)) == len(read)
    assert not set(read) & set(_left(inbox))
    assert sorted([*read, *_left(inbox)]) == sorted(arrived)
    if not limited:
        assert not _left(inbox)
    for how in ("steer", "queue"):
        order = [one for one in read if sent[int(one.split()[1])][1] == how]
        moments = [sent[int(one.split()[1])][0] for one in order]
        assert moments == sorted(moments)


class Crash(BaseException):
    """Stands for the end of the process."""


@given(SENT, st.integers(1, 4), st.booleans(), st.booleans())
def test_a_resumed_run_reads_the_recorded_messages(
    sent: list[tuple[int, Delivery]], crash: int, same_inbox: bool, by_store: bool
) -> None:
    """A durable run that crashed in any call ends with the history of a run without a crash.

    A message through the store of the runs joins like a message through the inbox.
    """
    turns = [*[call("look", number, id=f"c{number}") for number in (1, 2, 3)], *map(text, "abcdefghijkl")]

    def run(store: Runs, inbox: Inbox, asked: list[Any], at: int | None) -> Any:
        def handle(number: int) -> Any:
            def send() -> EffectOf[Any]:
                if number == at:
                    raise Crash
                chosen = [(f"m{location}", how) for location, (when, how) in enumerate(sent) if when == number]
                given = ("r",) if by_store else ()
                to: Any = store if by_store else inbox
                return fx.for_each(chosen, lambda one: getattr(to, one[1])(*given, one[0], id=one[0]))

            return fx.suspend(send).as_(number)

        model = ScriptedModel.make(turns[len(asked) :])
        layer = durable(look.handler(handle) | model.layer, run="r", store=store)
        try:
            return fx.run(Agent.make("worker", toolkit=kit).execute("Go.").provide(inbox.layer).provide(layer))
        finally:
            asked.extend(model.requests)

    whole = run(Runs.in_process(), Inbox.in_process(), [], None)
    store, inbox, asked = Runs.in_process(), Inbox.in_process(), list[Any]()
    if crash <= 3:
        with pytest.raises(Crash):
            run(store, inbox, asked, crash)
    resumed = run(store, inbox if same_inbox else Inbox.in_process(), asked, None)

    assert [str(message) for message in resumed.history] == [str(message) for message in whole.history]
    assert resumed.text == whole.text
    assert fx.run(store.show("r")).unread == ()


def test_a_run_that_ended_reads_no_message() -> None:
    """A run that succeeded, was cancelled, or does not exist refuses the message, and the same id is one message."""
    store = Runs.in_process()
    program: Any = Agent.make("worker").execute("Go.").provide(Inbox.in_process().layer)
    live = durable(ScriptedModel.make([text("Done.")]).layer, run="done", store=store)
    fx.run(program.provide(live))
    failing = durable(ScriptedModel.make([fails(RateLimitError())]).layer, run="failed", store=store)
    fx.run_exit(program.provide(failing))

    assert fx.run_result(store.steer("done", "Late.")).failure() == RunEnded("done")
    assert isinstance(fx.run_result(store.queue("none", "Late.")).failure(), RunUnknown)
    for _ in range(2):
        fx.run(store.steer("failed", "Again.", id="m"))
    assert [(one.delivery, one.text) for one in fx.run(store.show("failed")).unread] == [("steer", "Again.")]
    model = ScriptedModel.make([text("Done."), text("Again.")])
    fx.run(program.provide(durable(model.layer, run="failed", store=store)))
    assert [_texts(request.prompt) for request in model.requests] == [["Go."], ["Go.", "Again."]]
    assert fx.run(store.show("failed")).unread == ()
    assert isinstance(fx.run_result(store.steer("failed", "Late.")).failure(), RunEnded)


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_and_event_loops_send_messages(backend: Backend) -> None:
    """Ten threads and another event loop send to one run, and the run reads all messages."""
    inbox = Inbox.in_process()

    def handle(number: int) -> Any:
        def send() -> int:
            threads = [threading.Thread(target=fx.run, args=(inbox.steer(f"t{at}"),)) for at in range(10)]
            loop = threading.Thread(target=anyio.run, args=(fx.run_async, inbox.steer("loop")))
            for thread in (*threads, loop):
                thread.start()
            for thread in (*threads, loop):
                thread.join()
            return number

        return fx.sync(send)

    model = ScriptedModel.make([call("look", 1), text("Done.")])
    agent = Agent.make("worker", toolkit=kit)
    answer = fx.run(agent.execute("Go.").provide(look.handler(handle) | inbox.layer | model.layer), backend=backend)

    assert sorted(_texts(answer.history)) == sorted(["Go.", "loop", *(f"t{at}" for at in range(10))])
    assert not inbox.left


def test_a_sub_agent_does_not_read_the_inbox_of_its_parent() -> None:
    """The message joins the run of the parent."""
    seen = list[tuple[InboxMessage, ...]]()
    inbox = Inbox.in_process(on_join=seen.append)
    child = Agent.make("child").as_tool(description="A child.")

    def handle(number: int) -> Any:
        return inbox.steer("For the parent.").as_(number)

    parent = Agent.make("parent", toolkit=kit).with_tools(child)
    model = ScriptedModel.make([[call("look", 1), call("child", {"prompt": "Go."})], text("Child."), text("Parent.")])
    fx.run(parent.execute("Go.").provide(look.handler(handle) | inbox.layer | model.layer))

    assert [_texts(request.prompt) for request in model.requests] == [["Go."], ["Go."], ["Go.", "For the parent."]]
    assert [[one.delivery for one in joined] for joined in seen] == [["steer"]]


def test_a_failed_run_leaves_its_messages() -> None:
    """A model that fails, and a call that stays pending, leave the messages for the next run."""
    inbox = Inbox.in_process()
    external = Toolkit.make(Tool.make("ask").external())
    model = ScriptedModel.make([call("ask", {}), fails(RateLimitError()), text("Good."), text("Queued.")])
    asking: Any = Agent.make("worker", toolkit=external)
    fx.run(inbox.queue("Later."))
    pending = fx.run(asking.execute("Go.").provide(inbox.layer | model.layer))
    failed = fx.run_exit(Agent.make("worker").execute("Again.").provide(inbox.layer | model.layer))

    assert pending.ended == "pending"
    assert isinstance(failed, Failed)
    assert _left(inbox) == ["Later."]

    history = history_of(failed)
    assert history is not None
    answer = fx.run(Agent.make("worker").execute(history).provide(inbox.layer | model.layer))
    assert answer.text == "Queued."
    assert not inbox.left


def test_a_memory_and_a_stateful_prompt_contain_joined_messages() -> None:
    """The next run of the conversation reads the message at its place."""
    inbox, memory = Inbox.in_process(), Memory.in_process()

    def handle(number: int) -> Any:
        return inbox.steer("Be brief.").as_(number)

    def render(at: Render[None]) -> None:
        at.system("style", "Be kind.")
        at.tool(look, handle)

    agent: Any = Agent.make("worker", prompt=StatefulPrompt.make("desk", render, changes="append")).with_memory(memory)
    model = ScriptedModel.make([call("look", 1), text("Done."), text("Bye.")])
    fx.run(agent.execute("Go.").provide(inbox.layer | model.layer))
    fx.run(agent.execute("Bye.").provide(inbox.layer | model.layer))

    assert _texts(fx.run(memory.load())) == ["Go.", "Be brief.", "Bye."]
    assert _texts(model.requests[-1].prompt) == ["Go.", "Be brief.", "Bye."]


def test_a_typed_run_answers_the_last_message() -> None:
    """The output belongs to the queued message, and a stop condition leaves the message."""
    inbox = Inbox.in_process()
    model = ScriptedModel.make(["1", "2"])
    fx.run(inbox.queue("And then?"))
    answer = fx.run(Agent.make("counter", output=int).execute("First?").provide(inbox.layer | model.layer))
    assert answer.output == 2

    fx.run(inbox.queue("And then?"))
    model = ScriptedModel.make([call("look", 1)])
    stopped = Agent.make("counter", toolkit=kit, stop_when=lambda _: True)
    answers: Any = stopped.execute("Go.").provide(look.handler(Success) | inbox.layer | model.layer)
    assert fx.run(answers).ended == "stopped"
    assert _left(inbox) == ["And then?"]
    assert [one.delivery for one in inbox.clear()] == ["queue"]
    assert inbox.left == ()


def test_invalid_messages_are_refused() -> None:
    """Each error states the remedy or the wrong value."""
    inbox = Inbox.in_process(capacity=1)
    fx.run(inbox.steer("a"))
    with pytest.raises(InboxFullError, match="its 1 messages"):
        fx.run(inbox.steer("b"))
    with pytest.raises(ValueError, match="must not be empty"):
        _ = inbox.steer(Prompt.empty)
    with pytest.raises(TypeError, match="must be a user message, got a message with the role 'system'"):
        _ = inbox.queue(Prompt.empty.set_system("x"))
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        Inbox.in_process(capacity=0)


@pytest.mark.parametrize(
    "compaction", [Compaction.window(1), Compaction.clear_results(keep=1)], ids=["window", "clear"]
)
def test_a_steering_message_belongs_to_the_turn_of_its_run(compaction: Compaction) -> None:
    """A compaction to the newest turn keeps the prompt before the steering message."""
    inbox = Inbox.in_process()

    def handle(number: int) -> Gen[int]:
        yield from inbox.steer("Be quick.")
        return number

    model = ScriptedModel.make([call("look", 1), text("Done.")])
    agent = Agent.make("worker", toolkit=kit, compaction=compaction)
    history = Prompt.make("Earlier.").with_response((Text("Yes."),))
    fx.run(agent.execute(history + Prompt.make("Look.")).provide(look.handler(handle) | inbox.layer | model.layer))

    assert _texts(model.requests[1].prompt)[-2:] == ["Look.", "Be quick."]
