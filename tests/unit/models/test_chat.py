"""Chats: turns one after another, kept when they have succeeded."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from returns.result import Failure, Result

from fxai.agents import Agent
from fxai.effects import Backend, Effect, EffectOf, Gen, Layer, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    FilePart,
    Prompt,
    RateLimitError,
    ReasoningPart,
    TextPart,
    ToolMessage,
    UserMessage,
)
from fxai.models import Chat, ChatStore, ChatStoreError, LanguageModel, ObjectPending
from fxai.testing import ScriptedModel, TestClock, call, delay, fails, text
from fxai.tools import CallContext, HandlerFailed, Tool, Toolkit
from tests.kit.approvals import Office, Wipe
from tests.kit.every import every
from tests.kit.journal import turns

HELLO = Prompt((UserMessage.make("hello"), AssistantMessage.make("Good day.")))
DAY = 86_400.0


def _said(prompt: Prompt) -> list[tuple[str, str]]:
    return [(m.role, m.content if m.role == "system" else m.text) for m in prompt if m.role != "tool"]


def _turn_of(program: Any) -> EffectOf[Any, Any, Any]:
    """The program, whatever it gives."""
    turn: EffectOf[Any, Any, Any] = program
    return turn


def _run(program: Any, states: Any, backend: Backend, layer: Any = None) -> Any:
    model = ScriptedModel.make(states)
    return fx.run(program.provide(Chat.layer() if layer is None else layer).provide(model.layer), backend=backend)


# -- turns


def test_a_turn_goes_on_from_the_one_before(backend: Backend) -> None:
    """The model is shown everything that was said; the history holds it."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.generate_text("one")
        parts = yield from chat.stream_text("two").collect()
        found = yield from chat.generate_object("three", dict[str, int])
        return parts[-1].type, found.value, (yield from chat.history)

    model = ScriptedModel.make([text("1"), text("2"), text('{"n": 3}')])
    served: Any = talk().provide(Chat.layer("Be brief.")).provide(model.layer)
    last, value, history = fx.run(served, backend=backend)

    assert (last, value) == ("finish", {"n": 3})
    assert _said(history) == [
        *(("user", "Be brief."), ("user", "one"), ("assistant", "1")),
        *(("user", "two"), ("assistant", "2"), ("user", "three"), ("assistant", '{"n": 3}')),
    ]
    assert model.requests[2].prompt == Prompt(history.messages[:-1])


def test_a_turn_without_a_prompt_goes_on(backend: Backend) -> None:
    """After calls the model reads their results."""
    office = Office()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.generate_text("Look.", toolkit=office.kit)
        response = yield from chat.generate_text(toolkit=office.kit)
        return response.text, (yield from chat.history)

    said, history = _run(talk().provide(office.handlers), [call("look", {}), text("Dust.")], backend)

    assert (said, office.ran) == ("Dust.", ["look"])
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]


def test_turns_at_once_take_place_one_after_another(backend: Backend) -> None:
    """In the order in which they came; none is lost, and each sees the ones before it."""
    clock = TestClock()
    turns = 5

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from fx.for_each(range(turns), lambda n: chat.generate_text(f"q{n}"), concurrency=None)
        return (yield from chat.history)

    model = ScriptedModel.make([[delay(turns - n), f"a{n}"] for n in range(turns)])
    program: Any = fx.all_(talk().provide(Chat.layer()).provide(model.layer), clock.advance(100)).map(lambda p: p[0])
    history = fx.run(program.provide(clock.layer), backend=backend)

    assert _said(history) == [one for n in range(turns) for one in (("user", f"q{n}"), ("assistant", f"a{n}"))]
    assert [len(request.prompt) for request in model.requests] == [1, 3, 5, 7, 9]


def test_a_stream_holds_its_turn_until_it_ends(backend: Backend) -> None:
    """The next turn begins behind it, and finds it kept."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        both = fx.all_(chat.stream_text("one").collect(), chat.generate_text("two"))
        yield from both
        return (yield from chat.history)

    history = _run(talk(), [["a", delay(0.001), "b"], text("c")], backend)

    assert _said(history) == [("user", "one"), ("assistant", "ab"), ("user", "two"), ("assistant", "c")]


_Wait = Tool.make("wait", parameters=dict[str, float], success=float)


def _waiting(p: dict[str, float], call: CallContext) -> Any:
    """Says that it waits, and ends after so many seconds."""
    return call.preliminary(-p["s"]).and_then(fx.sleep(p["s"])).as_(p["s"])


@pytest.mark.parametrize("how", ["text", "stream"])
@pytest.mark.parametrize("asks", [False, True])
def test_results_are_kept_in_the_order_of_the_calls(how: str, asks: bool, backend: Backend) -> None:
    """In whatever order the handlers end, streamed or not; of calls that were approved before, too."""
    tool = _Wait.with_options(needs_approval=asks)
    kit = Toolkit.make(tool)
    calls = [call("wait", {"s": seconds}, id=str(seconds)) for seconds in (0.03, 0.01, 0.02, 0.0)]
    clock = TestClock()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat

        def turn(said: Any) -> Any:
            if how == "text":
                return chat.generate_text(said, toolkit=kit)
            return chat.stream_text(said, toolkit=kit).drain()

        yield from turn("go")
        if asks:
            waiting = yield from chat.pending
            yield from turn([ToolMessage(tuple(one.approve() for one in reversed(waiting)))])
        return (yield from chat.history)

    said: list[Any] = [calls, "Done."] if asks else [calls]
    program: Any = talk().provide(tool.handler(_waiting)).provide(Chat.layer())
    served: Any = program.provide(ScriptedModel.make(said).layer)
    moved: Any = fx.all_(served, _advancing(clock)).map(lambda both: both[0]).provide(clock.layer)
    history: Prompt = fx.run(moved, backend=backend)
    results = [part for one in history if one.role == "tool" for part in one.content if part.type == "tool-result"]

    assert [(part.id, part.result) for part in results] == [(one.id, float(one.id)) for one in calls]


def _advancing(clock: TestClock) -> Any:
    """Time that passes when everything waits for it."""
    return fx.for_each(range(8), lambda _: fx.wait(lambda: turns(250)).and_then(clock.advance(0.01)))


def test_a_turn_inside_a_turn_is_a_defect(backend: Backend) -> None:
    """It would wait for ever: a handler that talks in the chat that called it is told so."""
    tool: Any = Tool.make("again", success=str)

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat

        def on_again(_: object) -> Any:
            return chat.generate_text("inner").map(lambda response: response.text)

        asked: Any = chat.generate_text("outer", toolkit=Toolkit.of([tool]))
        return (yield from _turn_of(asked.provide(tool.handler(on_again)).exit()))

    ended = _run(talk(), [call("again", {})], backend)

    cause: Any = ended.cause
    assert "started inside another" in str(cause.defects[0])


# -- failure


@pytest.mark.parametrize("how", ["text", "object", "stream", "turn"])
def test_a_failed_turn_leaves_the_history_as_it_was(how: str, backend: Backend) -> None:
    """So that the same turn can be tried again."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        turns: dict[str, Any] = {
            "text": chat.generate_text("again"),
            "object": chat.generate_object("again", int),
            "stream": chat.stream_text("again").drain(),
            "turn": chat.turn(lambda said: LanguageModel.generate_text(said).map(lambda r: (r, said))),
        }
        ended = yield from _turn_of(turns[how].exit())
        return ended, (yield from chat.history)

    ended, history = _run(talk(), [["par", fails(RateLimitError())]], backend, Chat.layer(HELLO))

    assert isinstance(ended.cause.failures[0], AiError)
    assert history == HELLO


def test_a_stream_that_is_left_leaves_the_history_as_it_was(backend: Backend) -> None:
    """Unless its finish has come: then the turn is kept."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.stream_text("a").take(1).drain()
        before = yield from chat.history
        yield from chat.stream_text("b").take_while(lambda part: part.type != "finish").drain()
        return before, (yield from chat.history)

    before, after = _run(talk(), [text("1"), text("2")], backend)

    assert (before, _said(after)) == (Prompt.empty, [("user", "b"), ("assistant", "2")])


def test_a_streamed_object_is_a_turn(backend: Backend) -> None:
    """The chat saves the turn before the last part, and also a pending turn, but not a stream that ends early."""
    erase = Tool.make("erase", success=str, needs_approval=True)
    seen: list[int] = []

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.stream_object("a", list[int]).take(1).drain()
        seen.append(len((yield from chat.history)))

        def look(part: Any) -> EffectOf[None]:
            return chat.history.map(lambda history: seen.append(len(history))).or_die()

        yield from chat.stream_object("b", list[int]).for_each(look)
        asked: Any = chat.stream_object("c", list[int], toolkit=Toolkit.make(erase)).drain()
        waiting: EffectOf[object, Any, Any] = asked.provide(erase.handler(lambda _: fx.succeed(""))).catch_all(
            fx.succeed
        )
        pending = yield from waiting
        return pending, (yield from chat.history)

    pending, history = _run(talk(), [["[1", "]"], ["[1, ", "2]"], call("erase", {})], backend)

    assert seen == [0, 0, 0, 2]
    assert isinstance(pending, ObjectPending)
    assert _said(history)[:3] == [("user", "b"), ("assistant", "[1, 2]"), ("user", "c")]
    assert len(history.pending) == 1


def test_a_cancelled_turn_frees_the_chat(backend: Backend) -> None:
    """Also one that waited for its turn."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        first = chat.stream_text("never").drain().timeout(0.2).exit()
        second = chat.generate_text("never").timeout(0.01).exit().delay(0.05)
        yield from fx.all_(first, second)
        yield from chat.generate_text("at last")
        return (yield from chat.history)

    history = _run(talk(), [["a", delay(60)], text("Fine.")], backend)

    assert _said(history) == [("user", "at last"), ("assistant", "Fine.")]


def test_a_failed_handler_tells_the_history(backend: Backend) -> None:
    """The failure holds what would have been kept."""
    tool: Any = Tool.make("jam", success=str, failure=str)

    def on_jam(_: object) -> Result[str, str]:
        return Failure("jammed")

    handler: Any = tool.handler(on_jam)

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        ended = yield from chat.generate_text("go", toolkit=Toolkit.of([tool])).exit()
        return ended, (yield from chat.history)

    ended, history = _run(talk().provide(handler), [call("jam", {})], backend)
    failure = ended.cause.failures[0]

    assert isinstance(failure, HandlerFailed)
    assert [message.role for message in cast(Prompt, failure.history)] == ["user", "assistant", "tool"]
    assert history == Prompt.empty


# -- approvals


@pytest.mark.parametrize("how", ["text", "stream"])
def test_a_chat_waits_for_approvals_and_goes_on(how: str, backend: Backend) -> None:
    """The pending turn is kept; the answer is a turn of its own."""
    office = Office()

    def said(chat: Chat, prompt: Any) -> Any:
        asked: Any = chat.generate_text(prompt, toolkit=office.kit)
        return asked if how == "text" else chat.stream_text(prompt, toolkit=office.kit).drain()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from said(chat, "Clean up.")
        (one,) = yield from chat.pending
        yield from said(chat, ToolMessage.make(one.approve()))
        return (yield from chat.history), (yield from chat.pending)

    model_says = [call("wipe", {"disk": "a"}), text("Done.")]
    history, pending = _run(talk().provide(office.handlers), model_says, backend)

    assert (office.ran, pending) == ([Wipe("a")], ())
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]
    assert [part.type for part in history[2].content] == ["tool-approval-response", "tool-result"]


def test_what_an_approval_ran_is_kept_whatever_comes_after(backend: Backend) -> None:
    """The model fails behind it: the result stays, the approval is used, and the chat goes on without it."""
    office = Office()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.generate_text("Clean up.", toolkit=office.kit)
        (one,) = yield from chat.pending
        yield from chat.generate_text(ToolMessage.make(one.approve()), toolkit=office.kit).exit()
        response = yield from chat.generate_text(toolkit=office.kit)
        return response.text, (yield from chat.history)

    states = [call("wipe", {"disk": "a"}), fails(RateLimitError()), text("Done.")]
    said, history = _run(talk().provide(office.handlers), states, backend)

    assert (said, office.ran) == ("Done.", [Wipe("a")])
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]


def test_an_object_that_waits_is_kept(backend: Backend) -> None:
    """It is a typed failure, and the turn has succeeded so far."""
    office = Office()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        ended = yield from chat.generate_object("go", dict[str, str], toolkit=office.kit).exit()
        (one,) = yield from chat.pending
        done = yield from chat.generate_object(ToolMessage.make(one.deny()), dict[str, str], toolkit=office.kit)
        return ended, done.value

    ended, value = _run(talk().provide(office.handlers), [call("wipe", {"disk": "a"}), text('{"a": "b"}')], backend)

    assert isinstance(ended.cause.failures[0], ObjectPending)
    assert (value, office.ran) == ({"a": "b"}, [])


def test_an_agent_talks_in_a_chat(backend: Backend) -> None:
    """A turn of one's own: the whole run is kept, or nothing."""
    office = Office()
    agent = Agent.make("a", toolkit=office.kit)

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        answer: Any = yield from chat.turn(
            lambda said: agent.execute(said + Prompt.make("Look.")).map(lambda answer: (answer, answer.history))
        )
        return answer.text, (yield from chat.history)

    said, history = _run(talk().provide(office.handlers), [call("look", {}), text("Dust.")], backend)

    assert said == "Dust."
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]


# -- export and import


RICH = Prompt(
    (
        UserMessage.make("Look", FilePart("image/png", b"\x00\xff")),
        AssistantMessage.make(ReasoningPart("", metadata={"acme": {"signature": "S"}}), TextPart("Seen.")),
    )
)


def test_export_and_import_lose_nothing(backend: Backend) -> None:
    """Files, reasoning, signatures; what is no history is refused with its place."""
    exported = fx.run(Chat.from_prompt(RICH).flat_map(lambda chat: chat.to_json()), backend=backend)
    imported = fx.run(Chat.from_json(exported).flat_map(lambda chat: chat.history), backend=backend)
    refused = fx.run_result(Chat.from_json('[{"role": "nobody"}]'), backend=backend).failure()

    assert imported == RICH
    assert refused.faults[0].pointer == "/0/role"


def test_a_history_can_be_replaced(backend: Backend) -> None:
    """When the turn that runs has ended."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from fx.all_(chat.generate_text("one"), chat.replace(HELLO))
        return (yield from chat.history)

    assert _run(talk(), [[delay(0.001), "1"]], backend) == HELLO


def test_each_layer_is_a_chat_of_its_own(backend: Backend) -> None:
    """Built twice, it goes on twice from its prompt."""
    layer = Chat.layer(HELLO)
    talk: Any = fx.service(Chat).flat_map(lambda chat: chat.generate_text("x").and_then(chat.history))

    assert len(_run(talk, [text("y")], backend, layer)) == len(_run(talk, [text("z")], backend, layer)) == 4


# -- stores


def _stores(folder: Path) -> dict[str, Any]:
    return {
        "memory": ChatStore.in_memory(),
        "files": ChatStore.files(folder / "chats"),
        "sqlite": ChatStore.sqlite(folder / "deep" / "chats.db"),
    }


STORES = ("memory", "files", "sqlite")
_HISTORY: Any = fx.service(Chat).flat_map(lambda chat: chat.history)


def _warned(chat_id: str, question: str) -> Any:
    """A turn of a chat in a store."""
    talk: Any = fx.service(Chat).flat_map(lambda chat: chat.generate_text(question))
    return talk.provide(Chat.stored(chat_id))


@pytest.mark.parametrize("kind", STORES)
def test_a_store_keeps_what_was_said(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Each chat under its id, whatever characters that has; a new chat begins with its prompt."""
    names = ["a", "A", "../a", "a" * 500, "", "ü"]

    @fx.gen
    def talk() -> Any:
        for name in names:
            yield from _warned(name, f"say {name}")
        again = yield from _turn_of(_HISTORY.provide(Chat.stored("../a")))
        fresh = yield from _turn_of(_HISTORY.provide(Chat.stored("new", HELLO)))
        store = yield from ChatStore
        yield from store.delete("../a")
        yield from store.delete("nobody")
        return again, fresh, (yield from store.load("../a")), (yield from store.load("a"))

    store = _stores(tmp_path)[kind]
    again, fresh, gone, other = _run(talk(), [text("ok")] * len(names), backend, store)

    assert _said(again) == [("user", "say ../a"), ("assistant", "ok")]
    assert (fresh, gone, _said(other)[0]) == (HELLO, None, ("user", "say a"))


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_store_outlives_its_layer(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Another building of the layer, here on another event loop, goes on where the first one ended."""
    _run(_warned("a", "one"), [text("1")], backend, _stores(tmp_path)[kind])
    _run(_warned("a", "two"), [text("2")], "asyncio", _stores(tmp_path)[kind])
    history = _run(_HISTORY.provide(Chat.stored("a")), [], backend, _stores(tmp_path)[kind])

    assert _said(history) == [("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")]


@pytest.mark.parametrize("kind", STORES)
def test_time_to_live(kind: str, tmp_path: Path, backend: Backend) -> None:
    """A chat is forgotten so long after its last turn, by the clock."""
    clock = TestClock()

    @fx.gen
    def talk() -> Any:
        turn: Any = fx.service(Chat).flat_map(lambda chat: chat.generate_text("hi"))
        seen: list[bool] = []
        store = yield from ChatStore
        for seconds in (0, 29 * DAY, 29 * DAY, DAY):
            yield from clock.advance(seconds)
            seen.append((yield from store.load("a")) is not None)
            if seconds != DAY:
                yield from turn.provide(Chat.stored("a", time_to_live=30 * DAY))
        yield from clock.advance(29 * DAY)
        return seen, (yield from store.load("a"))

    model = ScriptedModel.make([text("ok")] * 3)
    program: Any = talk().provide(_stores(tmp_path)[kind]).provide(model.layer).provide(clock.layer)
    seen, last = fx.run(program, backend=backend)

    assert (seen, last) == ([False, True, True, True], None)
    with pytest.raises(ValueError, match="time_to_live must be greater than 0"):
        Chat.stored("a", time_to_live=0)


@every("kind", ["files", "sqlite"])
@every("garbage", ["garbage", '{"chat": "a", "expires": null, "history": [{"role": "x"}]}', "", "[]"])
def test_what_is_no_history_is_a_typed_failure(kind: str, garbage: str, tmp_path: Path, backend: Backend) -> None:
    """It says where, and what was there is left alone."""
    _run(_warned("a", "one"), [text("1")], backend, _stores(tmp_path)[kind])
    if kind == "files":
        (path,) = (tmp_path / "chats").glob("*.json")
    else:
        path = tmp_path / "deep" / "chats.db"
    kept = garbage if kind == "files" else garbage * 200 + "x" * 999
    path.write_text(kept)
    model = ScriptedModel.make([])
    program: Any = _warned("a", "two").provide(_stores(tmp_path)[kind]).provide(model.layer)
    ended: Any = fx.run_exit(program, backend=backend)
    failure = ended.cause.failures[0]

    assert isinstance(failure, ChatStoreError)
    assert failure.doing == "load"
    assert str(failure).startswith("chat 'a' could not be loaded: ")
    assert path.read_text() == kept


@fx.gen
def _kept_history() -> Gen[Prompt | None, ChatStoreError, ChatStore]:
    store = yield from ChatStore
    return (yield from store.load("a"))


def _load_refused(store: Any) -> ChatStoreError:
    failure: ChatStoreError = fx.run_result(_kept_history().provide(store)).failure()
    assert failure.doing == "load"
    return failure


def test_a_file_that_was_changed_or_is_of_another_chat_is_refused(tmp_path: Path) -> None:
    """What was said is not read as something else, and not as if somebody else had said it."""
    store = ChatStore.files(tmp_path)
    for chat_id in "ab":
        _run(_warned(chat_id, "one"), [text("1")], "asyncio", store)
    (first,), (second,) = tmp_path.glob("a-*.json"), tmp_path.glob("b-*.json")
    whole = first.read_bytes()
    first.write_bytes(whole.replace(b'"one"', b'"two"'))
    changed = _load_refused(store)
    first.write_bytes(second.read_bytes())
    other = _load_refused(store)

    assert changed.description.startswith(f"line 2 of {first} is damaged: not a commit of a chat, or")
    assert other.description.startswith(f"{first} contains another chat, 'b'. Restore it from a backup, or")


def test_a_row_that_was_changed_is_refused_until_the_chat_is_deleted(tmp_path: Path) -> None:
    """What is forgotten on purpose is forgotten without a word."""
    store = ChatStore.sqlite(tmp_path / "deep" / "chats.db")
    _run(_warned("a", "one"), [text("1")], "asyncio", store)
    with closing(sqlite3.connect(tmp_path / "deep" / "chats.db", isolation_level=None)) as database:
        database.execute("UPDATE chat_save SET data = replace(data, 'one', 'two')")
    failure = _load_refused(store)

    @fx.gen
    def begun_anew() -> Gen[Any, ChatStoreError, ChatStore]:
        kept = yield from ChatStore
        yield from kept.delete("a")
        return (yield from kept.load("a"))

    assert failure.description.startswith(
        "save 1 is damaged: the row was changed. Restore the database from a backup, or"
    )
    assert fx.run(begun_anew().provide(store)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_turns_leave_no_descriptor_open(tmp_path: Path, backend: Backend) -> None:
    """Neither those of locks, whoever holds them and however the waiting for them ends, nor of files."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for store in (ChatStore.files(tmp_path), ChatStore.sqlite(tmp_path / "chats.db")):

        @fx.gen
        def waited() -> Gen[bool, ChatStoreError, ChatStore]:
            kept = yield from ChatStore
            waiting = fx.scoped(kept.hold("a")).timeout(0.02).result()
            ended = yield from fx.scoped(kept.hold("a").and_then(waiting))
            return isinstance(ended, Failure)

        for _ in range(3):
            assert fx.run(waited().provide(store), backend=backend)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_unwritten_turn_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    """No part of the turn is in it, no other file remains, and the failure is typed."""
    store = ChatStore.files(tmp_path)
    _run(_warned("a", "one"), [text("1")], backend, store)
    (path,) = tmp_path.glob("*.json")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    program: Any = _warned("a", "two").provide(store).provide(ScriptedModel.make([text("2")]).layer)
    ended: Any = fx.run_exit(program, backend=backend)

    assert ended.cause.failures[0].doing == "save"
    assert path.read_bytes() == before
    assert sorted(one.suffix for one in tmp_path.iterdir()) == [".json", ".lock", ".lock"]


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_turns_of_one_kept_chat_are_serialised(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Also those of several services of it: each sees the one before."""

    @fx.gen
    def talk() -> Any:
        yield from fx.for_each(range(4), lambda n: _warned("a", f"q{n}"), concurrency=None)
        return (yield from _turn_of(_HISTORY.provide(Chat.stored("a"))))

    history = _run(talk(), [[delay(0.002), "ok"]] * 4, backend, _stores(tmp_path)[kind])

    assert sorted(said for role, said in _said(history) if role == "user") == ["q0", "q1", "q2", "q3"]
    assert [role for role, _ in _said(history)] == ["user", "assistant"] * 4


def _bytes_moved() -> int:
    """Return how many bytes this process has read and written."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))


@pytest.mark.skipif(sys.platform != "linux", reason="bytes are counted in /proc")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_chat_turn_moves_as_many_bytes_in_a_long_chat_as_in_a_short_one(kind: str, tmp_path: Path) -> None:
    """A turn reads only the last save, and writes only its own messages."""
    costs: list[int] = []

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        for _ in range(40):
            before = _bytes_moved()
            yield from chat.generate_text("hello")
            costs.append(_bytes_moved() - before)
        return (yield from chat.history)

    stored = talk().provide(Chat.stored("a"))
    history = _run(stored, [text("x" * 20_000)] * 40, "asyncio", _stores(tmp_path)[kind])

    assert len(history) == 80
    assert max(costs[-10:]) < 1.5 * max(costs[5:15]), costs


@pytest.mark.parametrize("kind", STORES)
def test_chat_saves_a_history_with_a_payload_that_was_changed_in_place(
    kind: str, tmp_path: Path, backend: Backend
) -> None:
    """An edit of a loaded history is not taken for the stored history."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        yield from chat.generate_text("look", toolkit=Toolkit.make(Tool.dynamic("look").external()))
        history = yield from chat.history
        cast(Any, history[1]).content[0].params["key"] = "removed"
        yield from chat.replace(history)
        return (yield from chat.history)

    stored = talk().provide(Chat.stored("a"))
    history = _run(stored, [call("look", {"key": "secret"})], backend, _stores(tmp_path)[kind])

    assert history[1].content[0].params == {"key": "removed"}


PROCESS = """
import sys
from pathlib import Path
from fxai.effects import fx
from fxai.models import ChatStore
from fxai.testing import ScriptedModel, delay
from tests.unit.models.test_chat import _stores, _warned
kind, folder, who = sys.argv[1:]
store = _stores(Path(folder))[kind]
for n in range(4):
    model = ScriptedModel.make([[delay(0.01), f"{who}{n}!"]])
    fx.run(_warned("a", f"{who}{n}").provide(store).provide(model.layer))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_many_processes_share_a_chat(kind: str, tmp_path: Path) -> None:
    """Three of them, four turns each: no turn is lost, and none is torn apart by another."""
    command = [sys.executable, "-c", PROCESS, kind, str(tmp_path)]
    root = Path(__file__).parents[3]
    started = [subprocess.Popen([*command, who], cwd=root, stderr=subprocess.PIPE) for who in "xyz"]
    complaints = [one.communicate()[1] for one in started]
    history = _run(_HISTORY.provide(Chat.stored("a")), [], "asyncio", _stores(tmp_path)[kind])
    said = _said(history)

    assert complaints == [b"", b"", b""]
    assert sorted(text for role, text in said if role == "user") == sorted(f"{w}{n}" for w in "xyz" for n in range(4))
    assert all(said[at + 1] == ("assistant", f"{said[at][1]}!") for at in range(0, len(said), 2))


def test_a_store_of_ones_own(backend: Backend) -> None:
    """Whatever implements `ChatStore` keeps chats."""

    class Shelf(ChatStore):
        def __init__(self) -> None:
            self.kept: dict[str, Prompt] = {}

        def hold(self, chat_id: str) -> Effect[None, ChatStoreError, Any]:
            return fx.succeed(None)

        def load(self, chat_id: str) -> Effect[Prompt | None, ChatStoreError]:
            return fx.succeed(self.kept.get(chat_id))

        def save(self, chat_id: str, history: Prompt, expires: float | None) -> Effect[None, ChatStoreError]:
            self.kept[chat_id] = history
            return fx.succeed(None)

        def delete(self, chat_id: str) -> EffectOf[None, ChatStoreError]:
            return fx.succeed(None)

    shelf = Shelf()
    _run(_warned("a", "hi"), [text("ok")], backend, Layer.succeed(ChatStore, shelf))

    assert _said(shelf.kept["a"]) == [("user", "hi"), ("assistant", "ok")]
