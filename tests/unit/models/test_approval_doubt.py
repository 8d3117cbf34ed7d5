"""Approved calls that were stopped, and calls that nobody answered: what is told, and what never runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from returns.result import Failure, Success

from fxai.agents import Agent, Memory
from fxai.effects import Backend, Failed, fx
from fxai.messages import NetworkError, Prompt, ToolMessage
from fxai.models import ApprovalKey, ApprovalLedger, Chat, ChatStore, LanguageModel
from fxai.testing import ScriptedModel, TestClock, call, fails, text
from fxai.tools import ApprovalExpired, ApprovalUnavailable, Denied, InDoubt, Tool
from tests.kit.approvals import Office, Wipe, answered, ledgers, problem_of, results_of
from tests.kit.every import every

SECRET = "a secret that is long enough"


def _dust(_: object) -> Success[str]:
    return Success("dust")


@ledgers
def test_a_run_that_was_cut_off_is_in_doubt(ledger: Any, tmp_path: Path, backend: Backend) -> None:
    """Its approval does not run the call again; denied then, the model reads of the doubt and of no denial."""
    clock, wipe = TestClock(), cast(Any, Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True))
    office, layer = Office(wipe), ledger(tmp_path)
    history = office.asked()
    began: list[Any] = []

    def hang(params: Wipe) -> Any:
        began.append(params)
        return fx.never()

    asked: Any = LanguageModel.generate_text(answered(history), toolkit=office.kit).provide(wipe.handler(hang))
    model = ScriptedModel.make([])
    cut: Any = asked.provide(office.look.handler(_dust)).provide(model.layer)
    timed = fx.all_(cut.timeout(5).exit(), clock.advance(6)).provide(layer())
    fx.run(timed.provide(clock.layer), backend=backend)
    again = office.exit("execute", answered(history), [], backend, layer=layer())
    denied = office.exit("execute", answered(history, approve=False), [text("Ok.")], backend, layer=layer())
    (result,) = denied.value.steps[0].results

    assert (began, office.ran) == ([Wipe("a")], [])
    assert problem_of(again) == "in-doubt"
    assert "the outcome of its call is unknown" in str(again.cause.failures[0])
    assert isinstance(result.result, InDoubt)
    assert result.encoded_result["type"] == "execution-in-doubt"
    assert "not today" in result.encoded_result["reason"]


@ledgers
@pytest.mark.parametrize("late", ["expire", "abandon"])
def test_what_ran_is_not_told_as_unanswered(ledger: Any, late: str, tmp_path: Path, backend: Backend) -> None:
    """An approval that let its call run, then said to be expired: the model reads that the call may have been run."""
    office, layer = Office(), ledger(tmp_path)
    history = office.asked()
    office.exit("execute", answered(history), [text("Ok.")], backend, layer=layer())
    (one,) = history.pending
    closed = history.append(ToolMessage.make(getattr(one, late)()))
    (result,) = office.exit("generate_text", closed, [text("Ok.")], backend, layer=layer()).value.tool_results

    assert isinstance(result.result, InDoubt)


PROGRAM = """
import os, sys
from returns.result import Success
from fxai.agents import Agent, Memory
from fxai.effects import Failed, fx
from fxai.messages import Prompt
from fxai.messages.message import ToolMessage
from fxai.models import ApprovalKey, ApprovalLedger, Chat
from fxai.models import ChatStore
from fxai.testing import text
from tests.kit.approvals import Office, answered
how, folder = sys.argv[1:]
office = Office()
office.ran = type("Crash", (list,), {"append": lambda self, params: os._exit(3)})() if "crash" in how else office.ran
key = ApprovalKey("a secret that is long enough").layer
if "chat" in how:
    def talk():
        chat = yield from Chat
        waiting = yield from chat.pending
        answer = ToolMessage.make(*[one.approve() for one in waiting])
        yield from chat.generate_text(answer, toolkit=office.kit)
    program = fx.gen(talk)().provide(Chat.stored("c")).provide(ChatStore.files(folder)).provide(office.handlers)
    from fxai.testing import ScriptedModel
    print(fx.run_exit(program.provide(ScriptedModel.make([text("Ok.")]).layer).provide(key)))
elif "agent" in how:
    memory = Memory.sqlite(folder + "/notes.db") if "sqlite" in how else Memory.file(folder + "/notes.jsonl")
    agent = Agent.make("a", toolkit=office.kit).with_memory(memory)
    answer = ToolMessage.make(*[one.approve() for one in fx.run(memory.turns())[0].pending])
    asked = agent.stream(answer).collect() if "stream" in how else agent.execute(answer)
    from fxai.testing import ScriptedModel
    print(fx.run_exit(asked.provide(office.handlers).provide(ScriptedModel.make([text("Ok.")]).layer).provide(key)))
else:
    with open(os.path.join(folder, "history.json")) as file:
        history = Prompt.from_json(file.read()).unwrap()
    layer = key | ApprovalLedger.sqlite(os.path.join(folder, "ledger.db")).layer
    for answer in how.split("+"):
        said = answered(history, approve=answer != "deny")
        ended = office.exit("execute", said, [text("Ok.")], layer=layer)
        cause = getattr(ended, "cause", None)
        print(cause.failures[0] if cause else ended.value.history.to_json(), office.ran)
"""


def _process_of(how: str, folder: Path) -> tuple[int, str]:
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, str(folder)], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_crash_leaves_a_call_in_doubt(tmp_path: Path) -> None:
    """The process ends in the middle of an approved call: the next one says so, and runs it under no answer."""
    history = Office().asked(layer=ApprovalKey(SECRET).layer)
    (tmp_path / "history.json").write_text(history.to_json())
    crashed, after = (_process_of(how, tmp_path) for how in ("crash", "approve+deny"))
    again, denied = after[1].splitlines()

    assert crashed[0] == 3, crashed
    assert "the outcome of its call is unknown" in again
    assert "execution-in-doubt" in denied
    assert again.endswith(" []")
    assert denied.endswith(" []")


@pytest.mark.slow
def test_processes_share_what_was_denied(tmp_path: Path) -> None:
    """A denial in one process holds in the next one, by the ledger in a file."""
    office, key = Office(), ApprovalKey(SECRET).layer
    history = office.asked(layer=key)
    (tmp_path / "history.json").write_text(history.to_json())
    layer = key | ApprovalLedger.sqlite(tmp_path / "ledger.db").layer
    office.exit("execute", answered(history, approve=False), [text("Ok.")], layer=layer)
    code, said = _process_of("approve", tmp_path)

    assert code == 0, said
    assert "it was denied before" in said
    assert said.endswith(" []\n")


@pytest.mark.slow
def test_of_many_processes_one_runs_it(tmp_path: Path) -> None:
    """They hear the same yes at the same time, and one ledger in a file lets one of them run the call."""
    history = Office().asked(layer=ApprovalKey(SECRET).layer)
    (tmp_path / "history.json").write_text(history.to_json())
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(_process_of, ["approve"] * 2, [tmp_path] * 2))

    assert [code for code, _ in ends] == [0, 0], ends
    assert sorted(said.count("[Wipe(disk='a')]") for _, said in ends) == [0, 1], ends


@ledgers
def test_of_many_threads_one_runs_it(ledger: Any, tmp_path: Path, backend: Backend) -> None:
    """Each with an event loop of its own, and the same ledger."""
    office, layer = Office(), ledger(tmp_path)
    history = answered(office.asked())
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(office.exit, "execute", history, [text("Ok.")], backend, layer=layer()) for _ in range(4)]
        ends = [run.result() for run in runs]

    assert office.ran == [Wipe("a")]
    assert sum(isinstance(end, Failed) for end in ends) == 3


# -- in chats


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: ChatStore.in_memory(),
    "files": lambda folder: ChatStore.files(folder / "chats"),
    "sqlite": lambda folder: ChatStore.sqlite(folder / "chats.db"),
}


def _talk(office: Office, talk: Any, layer: Any, states: Any, backend: Backend) -> Any:
    program: Any = fx.gen(talk)().provide(layer).provide(office.handlers)
    return fx.run(
        program.provide(ScriptedModel.make(states).layer).provide(ApprovalLedger.in_process()), backend=backend
    )


@every("store", [None, *STORES])
@every("how", ["generate_text", "stream_text"])
def test_a_chat_runs_a_call_once(store: str | None, how: str, tmp_path: Path, backend: Backend) -> None:
    """A prompt of a yes, the same turn and another yes: the call runs once, and is told once behind each copy."""
    office = Office()
    layer: Any = Chat.layer() if store is None else Chat.stored("c").provide(STORES[store](tmp_path))

    def said(chat: Chat, prompt: Any) -> Any:
        parts = chat.stream_text(prompt, toolkit=office.kit).collect()
        return parts if how == "stream_text" else chat.generate_text(prompt, toolkit=office.kit)

    def talk() -> Any:
        chat = yield from Chat
        yield from said(chat, "Clean up.")
        history = yield from chat.history
        turn, yes = history[1], ToolMessage.make(history.pending[0].approve())
        yield from said(chat, Prompt((yes, turn, yes)))
        yield from said(chat, Prompt((turn, yes))).exit()
        return (yield from chat.history)

    states = [[call("wipe", {"disk": "a"}, id="c1")], text("Done."), text("Not again.")]
    history: Prompt = _talk(office, talk, layer, states, backend)

    assert office.ran == [Wipe("a")]
    assert results_of(history)[:2] == [["gone"], ["gone"]]


@pytest.mark.parametrize("store", STORES)
def test_a_chat_knows_what_runs(store: str, tmp_path: Path, backend: Backend) -> None:
    """While an approved call runs, the store holds it as in doubt; afterwards its result."""
    wipe: Any = Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True)
    office, seen = Office(wipe), list[Any]()
    stored: Any = STORES[store](tmp_path)

    def look(_: Wipe) -> Any:
        kept = yield from (yield from ChatStore).load("c")
        seen.append(results_of(cast(Prompt, kept))[0][0]["type"])
        return "gone"

    def talk() -> Any:
        chat = yield from Chat
        yield from chat.generate_text("Clean up.", toolkit=office.kit)
        (one,) = yield from chat.pending
        yield from chat.generate_text(ToolMessage.make(one.approve()), toolkit=office.kit)
        return (yield from chat.history)

    states = [[call("wipe", {"disk": "a"}, id="c1")], text("Done.")]
    handled: Any = fx.gen(talk)().provide(Chat.stored("c")).provide(wipe.handler(fx.gen(look)))
    program: Any = handled.provide(office.look.handler(_dust)).provide(stored)
    history: Prompt = fx.run(program.provide(ScriptedModel.make(states).layer), backend=backend)

    assert seen == ["execution-in-doubt"]
    assert results_of(history)[0] == ["gone"]


def test_a_chat_after_a_crash_asks_again(tmp_path: Path) -> None:
    """Also without a ledger in a file: the stored history says that the call is in doubt, and the model reads it.

    Where it calls again somebody is asked again, and nothing runs before.
    """
    office = Office()

    @fx.gen
    def talk(said: str) -> Any:
        chat = yield from Chat
        yield from chat.generate_text(said, toolkit=office.kit)
        return (yield from chat.history)

    def run(said: str, call_id: str) -> Prompt:
        model = ScriptedModel.make([[call("wipe", {"disk": "a"}, id=call_id)]])
        layer: Any = Chat.stored("c").provide(ChatStore.files(tmp_path))
        program: Any = talk(said).provide(layer).provide(office.handlers).provide(ApprovalKey(SECRET).layer)
        history: Prompt = fx.run(program.provide(model.layer))
        return history

    run("Clean up.", "c1")
    crashed, _ = _process_of("chat crash", tmp_path)
    history = run("Well?", "c2")

    assert crashed == 3
    assert results_of(history)[0][0]["type"] == "execution-in-doubt"
    assert [one.id for one in history.pending] == ["c2"]
    assert office.ran == []


MEMORIES: dict[str, Callable[[Path], Memory]] = {
    "process": lambda _: Memory.in_process(),
    "file": lambda folder: Memory.file(folder / "notes.jsonl"),
    "sqlite": lambda folder: Memory.sqlite(folder / "notes.db"),
}


@every("kind", MEMORIES)
@every("streams", [False, True])
def test_a_memory_runs_a_call_once(kind: str, streams: bool, tmp_path: Path, backend: Backend) -> None:
    """What is remembered of a yes, the same turn and another yes has one result behind each, and goes on."""
    office, memory = Office(), MEMORIES[kind](tmp_path)
    agent = Agent.make("a", toolkit=office.kit).with_memory(memory)

    def run(prompt: Any, *states: Any) -> Any:
        asked: Any = agent.stream(prompt).collect() if streams else agent.execute(prompt)
        ended = asked.provide(office.handlers).provide(ScriptedModel.make(list(states)).layer)
        return fx.run_exit(ended, backend=backend)

    run("Clean up.", [call("wipe", {"disk": "a"}, id="c1")])
    history = fx.run(memory.load())
    turn, yes = history[1], ToolMessage.make(history.pending[0].approve())
    first, more = run(Prompt((yes, turn, yes)), text("Done.")), run("Thank you.", text("Ok."))
    again = run(Prompt((turn, yes)))

    assert not isinstance(first, Failed), first
    assert not isinstance(more, Failed), more
    assert problem_of(again) == "used"
    assert office.ran == [Wipe("a")]
    assert results_of(fx.run(memory.load())) == [["gone"], ["gone"], [], []]


def _agent_in(memory: Memory, office: Office) -> Callable[..., Any]:
    """Runs an agent with that memory: the exit of one run, and with it what its model was shown."""
    agent = Agent.make("a", toolkit=office.kit).with_memory(memory)

    def run(prompt: Any, *states: Any, streams: bool = False, backend: Backend = "asyncio", layer: Any = None) -> Any:
        model = ScriptedModel.make(list(states))
        office.models.append(model)
        asked: Any = agent.stream(prompt).collect() if streams else agent.execute(prompt)
        program = asked.provide(office.handlers if layer is None else layer).provide(model.layer)
        keyed = program.provide(ApprovalKey(SECRET).layer).provide(ApprovalLedger.in_process())
        return fx.run_exit(keyed, backend=backend)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("how", ["agent file crash", "agent sqlite stream crash"])
def test_an_agent_with_a_memory_after_a_crash_asks_again(how: str, tmp_path: Path) -> None:
    """Also without a ledger in a file: the memory says that the call is in doubt, and no yes runs it again."""
    office, memory = Office(), MEMORIES["sqlite" if "sqlite" in how else "file"](tmp_path)
    run = _agent_in(memory, office)
    run("Clean up.", [call("wipe", {"disk": "a"}, id="c1")])
    (waiting,) = fx.run(memory.turns())[0].pending
    crashed, said = _process_of(how, tmp_path)
    (turn,) = fx.run(memory.turns())
    again = run(ToolMessage.make(waiting.approve()))
    run("Well?", [call("wipe", {"disk": "a"}, id="c2")])
    shown = office.models[-1].requests[0].prompt

    assert (crashed, said) == (3, "")
    assert results_of(turn)[0][0]["type"] == "execution-in-doubt"
    assert problem_of(again) == "used"
    assert results_of(shown)[0][0]["type"] == "execution-in-doubt"
    assert fx.run(memory.turns())[-1].pending[0].id == "c2"
    assert office.ran == []


@every("kind", MEMORIES)
@every("streams", [False, True])
def test_a_memory_knows_what_runs(kind: str, streams: bool, tmp_path: Path, backend: Backend) -> None:
    """While an approved call runs, its memory holds it as in doubt; afterwards its result, once, in its place."""
    wipe: Any = Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True)
    office, memory, seen = Office(wipe), MEMORIES[kind](tmp_path), list[Any]()
    run = _agent_in(memory, office)

    def look(_: Wipe) -> Any:
        seen.append(results_of((yield from memory.load()))[0][0]["type"])
        return "gone"

    run("Clean up.", [call("wipe", {"disk": "a"}, id="c1")], backend=backend)
    run("Wait.", text("I do."), backend=backend)
    yes = ToolMessage.make(fx.run(memory.turns())[0].pending[0].approve())
    layer = wipe.handler(fx.gen(look)) | office.look.handler(_dust)
    ended = run(yes, text("Done."), streams=streams, backend=backend, layer=layer)
    first, second = fx.run(memory.turns(), backend=backend)

    assert not isinstance(ended, Failed), ended
    assert seen == ["execution-in-doubt"]
    assert [one.role for one in first] == ["user", "assistant", "tool", "assistant"]
    assert results_of(first)[0] == ["gone"]
    assert [one.role for one in second] == ["user", "assistant"]


@every("kind", MEMORIES)
@every("streams", [False, True])
@every("fault", ["model", "call", "cut"])
def test_what_was_approved_stays_known_where_the_run_fails(
    kind: str, streams: bool, fault: str, tmp_path: Path, backend: Backend
) -> None:
    """The model fails behind it, its own call fails, or it is cut off: the memory never says that it was not run."""
    wipe: Any = Tool.make("wipe", parameters=Wipe, success=str, failure=str, needs_approval=True)
    office, memory, clock = Office(wipe), MEMORIES[kind](tmp_path), TestClock()
    agent = Agent.make("a", toolkit=office.kit).with_memory(memory)

    def end(_: Wipe) -> Any:
        if fault == "cut":
            return clock.advance(6).and_then(fx.never())
        return Success("gone") if fault == "model" else Failure("no such disk")

    _agent_in(memory, office)("Clean up.", [call("wipe", {"disk": "a"}, id="c1")], backend=backend)
    yes = ToolMessage.make(fx.run(memory.turns())[0].pending[0].approve())
    asked: Any = agent.stream(yes).collect() if streams else agent.execute(yes)
    served = asked.provide(wipe.handler(end) | office.look.handler(_dust))
    program: Any = served.provide(ScriptedModel.make([fails(NetworkError("TransportError"))]).layer)
    keyed = program.timeout(5).provide(ApprovalKey(SECRET).layer).provide(ApprovalLedger.in_process())
    ended = fx.run_exit(keyed.provide(clock.layer), backend=backend)
    (turn,) = fx.run(memory.turns(), backend=backend)
    (result,) = results_of(turn)[0]

    assert isinstance(ended, Failed)
    assert [one.role for one in turn] == ["user", "assistant", "tool"]
    assert {"model": "gone", "call": "no such disk", "cut": "execution-in-doubt"}[fault] in str(result)


@pytest.mark.parametrize("kind", MEMORIES)
def test_of_two_runs_on_one_memory_one_runs_it(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Each with a ledger of its own, as in two processes: the memory lets one of them take the answer."""
    office, memory = Office(), MEMORIES[kind](tmp_path)
    run = _agent_in(memory, office)
    run("Clean up.", [call("wipe", {"disk": "a"}, id="c1")], backend=backend)
    yes = ToolMessage.make(fx.run(memory.turns())[0].pending[0].approve())
    agent = Agent.make("a", toolkit=office.kit).with_memory(memory)

    def once() -> Any:
        asked: Any = agent.execute(yes).provide(office.handlers)
        return asked.provide(ScriptedModel.make([text("Done.")]).layer).provide(ApprovalLedger.in_process()).exit()

    both: Any = fx.all_(once(), once()).provide(ApprovalKey(SECRET).layer)
    ends = fx.run(both, backend=backend)
    (turn,) = fx.run(memory.turns(), backend=backend)

    assert office.ran == [Wipe("a")]
    assert sorted(isinstance(end, Failed) for end in ends) == [False, True]
    assert results_of(turn)[0] == ["gone"]


# -- denied, expired, nobody


def test_the_model_is_told_why_a_call_was_not_run(backend: Backend) -> None:
    """A denial, a time that was over and nobody to be asked are told apart, by type and in words."""
    office = Office()
    history = office.asked()
    (one,) = history.pending
    told: list[tuple[Any, str, str]] = []
    for answer in (one.deny(), one.expire(), one.abandon()):
        said = Prompt.from_json(history.append(ToolMessage.make(answer)).to_json()).unwrap()
        (result,) = office.exit("generate_text", said, [text("Ok.")], backend).value.tool_results
        told.append((result.result.__class__, result.encoded_result["type"], result.encoded_result["reason"]))

    assert office.ran == []
    assert told == [
        (Denied, "execution-denied", "the user denied the call without a reason"),
        (
            ApprovalExpired,
            "approval-expired",
            "no user answered the approval request in time, and no user denied the call",
        ),
        (
            ApprovalUnavailable,
            "approval-unavailable",
            "no user was available for the approval, and no user denied the call",
        ),
    ]
    assert str(told[0][0]("wipe", "no")) == "tool 'wipe' did not run: no"
    assert str(InDoubt("wipe", "it was cut off")) == "outcome of 'wipe' unknown: it was cut off"


def test_a_denial_wins_over_no_answer_and_that_over_a_yes(backend: Backend) -> None:
    """In whichever order they are said."""
    office = Office()
    history = office.asked()
    (one,) = history.pending
    for answers, kind in (
        ((one.expire(), one.deny("no")), "execution-denied"),
        ((one.deny("no"), one.expire()), "execution-denied"),
        ((one.approve(), one.abandon()), "approval-unavailable"),
        ((one.expire(), one.approve()), "approval-expired"),
        ((msgspec.structs.replace(one.expire(), approved=True),), "approval-expired"),
    ):
        said = history.append(ToolMessage.make(*answers))
        (result,) = office.exit("generate_text", said, [text("Ok.")], backend).value.tool_results
        assert result.encoded_result["type"] == kind
    assert office.ran == []
