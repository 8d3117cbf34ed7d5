"""Memories: turns that are kept whole, in process, in a file and in SQLite alike."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.effects import Backend, fx
from fxai.messages import (
    AssistantMessage,
    FilePart,
    Prompt,
    ReasoningPart,
    SystemMessage,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from tests.kit.memories import (
    KINDS,
    answered,
    approved,
    asked,
    begun_with,
    chat,
    commit_all,
    looked_up,
    memory_of,
)

ONE, TWO, THREE = chat("one"), looked_up("two"), chat("three")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
on_disk = pytest.mark.parametrize("kind", ["file", "sqlite"])


def _kept(memory: Memory, turns: Any, backend: Backend) -> Any:
    """What the memory holds, and what it gives, after these commits."""
    program: Any = commit_all(memory, turns).and_then(fx.all_(memory.turns(), memory.load()))
    return fx.run(program, backend=backend)


# -- committing


@of_each_kind
def test_a_memory_is_empty_at_first(kind: str, tmp_path: Path, backend: Backend) -> None:
    """It holds no turn and gives no message, and clearing it is no mistake."""
    memory = memory_of(kind, tmp_path)
    fx.run(memory.clear(), backend=backend)

    assert _kept(memory, [], backend) == ((), Prompt.empty)


@of_each_kind
def test_turns_are_kept_in_order_and_whole(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Each commit is a turn; what is loaded are their messages, one after another."""
    kept = _kept(memory_of(kind, tmp_path), [ONE, TWO, THREE], backend)

    assert kept == ((ONE, TWO, THREE), ONE + TWO + THREE)


@of_each_kind
def test_nothing_of_a_message_is_lost(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Files, metadata and line ends of every sort come back as they went in."""
    picture = FilePart("image/png", b"\x89PNG\r\n\x1a\n\0", metadata={"openai": {"id": "f1"}})
    spoken = AssistantMessage.make(ReasoningPart("Hm.", metadata={"sig": "x"}), 'a\nb\r\n\u2028\U0001f600\0"\\')
    turn = Prompt([UserMessage.make("look\n", picture), spoken])

    assert _kept(memory_of(kind, tmp_path), [turn, turn], backend)[0] == (turn, turn)


@of_each_kind
def test_system_messages_are_no_part_of_a_memory(kind: str, tmp_path: Path, backend: Backend) -> None:
    """They are left out; a run that said nothing else leaves no turn."""
    told = SystemMessage("Be brief.")
    turns = [Prompt([told, *ONE]), Prompt([told]), Prompt.empty]

    assert _kept(memory_of(kind, tmp_path), turns, backend) == ((ONE,), ONE)


@of_each_kind
def test_a_cleared_memory_begins_anew(kind: str, tmp_path: Path, backend: Backend) -> None:
    """All turns are forgotten, and the next one is the first."""
    memory = memory_of(kind, tmp_path)
    fx.run(commit_all(memory, [ONE, TWO]).and_then(memory.clear()), backend=backend)

    assert _kept(memory, [THREE], backend) == ((THREE,), THREE)


@of_each_kind
def test_a_history_that_grows_later_changes_nothing(kind: str, tmp_path: Path, backend: Backend) -> None:
    """What is kept is what was committed, though prompts share what they are made of."""
    memory = memory_of(kind, tmp_path)
    fx.run(memory.commit(ONE), backend=backend)
    grown = ONE.append(UserMessage.make("more"))

    assert (len(grown), fx.run(memory.load(), backend=backend)) == (3, ONE)


# -- turns that go on


@of_each_kind
def test_an_answer_goes_on_with_the_turn_that_waits_for_it(kind: str, tmp_path: Path, backend: Backend) -> None:
    """An approval and what came of it join the turn that asked, also where another turn ended in between."""
    turns, said = _kept(memory_of(kind, tmp_path), [ONE, asked("a"), THREE, approved()], backend)

    assert turns == (ONE, asked("a") + approved(), THREE)
    assert said == ONE + asked("a") + approved() + THREE


@of_each_kind
def test_one_id_in_many_turns_means_the_one_that_waits(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Some models number the calls of each turn anew: what was answered already waits for nothing."""
    turns, _ = _kept(memory_of(kind, tmp_path), [asked("a"), looked_up("b"), answered()], backend)

    assert turns == (asked("a") + answered(), looked_up("b"))


@of_each_kind
def test_a_turn_goes_on_as_often_as_it_must(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Of two calls that wait, each may be answered in a run of its own."""
    both = asked("a") + Prompt(asked("b", "c2", "a2").messages[1:])
    second = approved("c2", "a2")
    turns, _ = _kept(memory_of(kind, tmp_path), [both, ONE, second, approved(), TWO], backend)

    assert turns == (both + second + approved(), ONE, TWO)


@of_each_kind
def test_words_of_the_model_go_on_with_the_newest_turn(kind: str, tmp_path: Path, backend: Backend) -> None:
    """A run without a prompt goes on; where there is no turn yet, they are the first: a greeting.

    What waits for an answer is left out: nothing may stand between a call and its result.
    """
    more = Prompt([AssistantMessage.make("And more.")])
    commits = [more, more, ONE, more, asked("a"), more]

    assert _kept(memory_of(kind, tmp_path), commits, backend)[0] == (more + more, ONE + more + more, asked("a"))


@of_each_kind
def test_an_answer_that_nobody_waits_for_is_refused(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Twice answered, or the turn is gone: it would make a history that no model takes. The memory stays as it was."""
    memory = memory_of(kind, tmp_path)
    fx.run(commit_all(memory, [asked("a"), approved()]), backend=backend)
    stray = Prompt([ToolMessage.make(ToolResultPart("other", "look", 1))])
    ended = [fx.run_result(memory.commit(one), backend=backend) for one in (approved(), stray)]
    failures: list[MemoryFailure] = [one.failure() for one in ended]

    assert [one.doing for one in failures] == ["commit", "commit"]
    assert "no stored turn needs the first tool message, which answers a1" in str(failures[0])
    assert "answers other." in failures[1].description
    assert fx.run(memory.turns(), backend=backend) == (asked("a") + approved(),)


@of_each_kind
def test_words_that_would_come_between_a_call_and_its_result_are_refused(
    kind: str, tmp_path: Path, backend: Backend
) -> None:
    """Every turn waits for an answer, so there is none that they could go on with."""
    memory = memory_of(kind, tmp_path)
    words = Prompt([AssistantMessage.make("And more.")])
    ended = fx.run_result(commit_all(memory, [asked("a"), words]), backend=backend)

    assert "all stored turns are pending" in ended.failure().description
    assert fx.run(memory.turns(), backend=backend) == (asked("a"),)


# -- windows, and what is kept


@of_each_kind
def test_a_window_narrows_what_is_loaded_and_not_what_is_kept(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Two of three turns are given; all three are there."""
    turns, said = _kept(memory_of(kind, tmp_path, Compaction.window(2)), [ONE, TWO, THREE], backend)

    assert (len(turns), said) == (3, TWO + THREE)


@of_each_kind
def test_a_window_of_tokens_gives_whole_turns(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Those that fit together, from the newest back."""
    window = Compaction.window(tokens=5, count=len)

    assert _kept(memory_of(kind, tmp_path, window), [ONE, TWO, THREE], backend)[1] == THREE
    assert _kept(memory_of(kind, tmp_path / "b", window), [TWO, ONE, THREE], backend)[1] == ONE + THREE


@of_each_kind
def test_old_turns_are_dropped_where_only_some_are_kept(kind: str, tmp_path: Path, backend: Backend) -> None:
    """After each commit the newest are there, and an answer still finds its turn."""
    memory = memory_of(kind, tmp_path, keep=3)
    said = [chat(str(n)) for n in range(9)]
    seen = [_kept(memory, [one], backend)[0] for one in said]
    last, _ = _kept(memory, [asked("a"), chat("b"), approved()], backend)

    assert seen == [tuple(said[max(0, n - 2) : n + 1]) for n in range(9)]
    assert last == (said[-1], asked("a") + approved(), chat("b"))


@of_each_kind
def test_an_answer_to_a_turn_that_was_dropped_is_refused(kind: str, tmp_path: Path, backend: Backend) -> None:
    """What waits for an answer is forgotten like any other turn."""
    memory = memory_of(kind, tmp_path, keep=1)
    ended = fx.run_result(commit_all(memory, [asked("a"), ONE, approved()]), backend=backend)

    assert isinstance(ended.failure(), MemoryFailure)
    assert fx.run(memory.turns(), backend=backend) == (ONE,)


@of_each_kind
@pytest.mark.parametrize("keep", [0, -1])
def test_a_memory_that_keeps_nothing_is_refused(kind: str, keep: int, tmp_path: Path) -> None:
    """The number of turns to keep is at least 1."""
    with pytest.raises(ValueError, match=f"keep must be at least 1, got {keep}"):
        memory_of(kind, tmp_path, keep=keep)


@of_each_kind
def test_what_is_no_window_is_refused(kind: str, tmp_path: Path) -> None:
    """When the memory is made, not when it is loaded."""
    window: Any = 3

    with pytest.raises(TypeError, match=r"compaction must be a Compaction, got 3\. Pass Compaction\.window"):
        memory_of(kind, tmp_path, window)


@of_each_kind
def test_what_is_no_prompt_is_refused(kind: str, tmp_path: Path) -> None:
    """The message says how it is made one."""
    words: Any = "I am Ann."

    with pytest.raises(TypeError, match=r"messages must be a Prompt, got 'I am Ann\.'\. Pass Prompt\.make"):
        fx.run(memory_of(kind, tmp_path).commit(words))


def test_a_memory_shows_how_it_was_made(tmp_path: Path) -> None:
    """Where it is, its window, and how many turns it keeps."""
    location = tmp_path / "notes"

    assert repr(Memory.in_process()) == "Memory.in_process()"
    assert (
        repr(Memory.file(location, Compaction.window(tokens=9)))
        == f"Memory.file({str(location)!r}, Compaction.window(tokens=9))"
    )
    assert (
        repr(Memory.sqlite(location, Compaction.window(3, tokens=9), conversation="ann", keep=5))
        == f"Memory.sqlite({str(location)!r}, Compaction.window(3, tokens=9), conversation='ann', keep=5)"
    )


# -- services


@of_each_kind
def test_a_memory_is_a_service(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Its layer gives it under the key `Memory`; what is committed there is in the value."""
    memory = memory_of(kind, tmp_path)

    @fx.gen
    def program() -> Any:
        found = yield from Memory
        yield from found.commit(ONE)
        return found is memory

    served: Any = program().provide(memory.layer)

    assert fx.run(served, backend=backend)
    assert fx.run(memory.load(), backend=backend) == ONE


def test_a_memory_of_ones_own(backend: Backend) -> None:
    """Whatever implements `Memory` is one."""

    class Nothing(Memory):
        def load(self) -> Any:
            return fx.succeed(Prompt.empty)

        def commit(self, messages: Prompt) -> Any:
            return fx.fail(MemoryFailure("nowhere", "commit", "there is no room"))

        def turns(self) -> Any:
            return fx.succeed(())

        def clear(self) -> Any:
            return fx.succeed(None)

    @fx.gen
    def program() -> Any:
        memory = yield from Memory
        yield from memory.commit(ONE)

    served: Any = program().provide(Nothing().layer)
    ended = fx.run_result(served, backend=backend)

    assert ended == Failure(MemoryFailure("nowhere", "commit", "there is no room"))
    assert str(ended.failure()) == "memory in nowhere could not be committed to: there is no room"


def test_a_memory_in_process_needs_no_event_loop() -> None:
    """Its effects never wait."""
    memory = Memory.in_process()
    fx.run_sync(memory.commit(ONE))

    assert fx.run_sync(memory.load()) == ONE


@on_disk
def test_a_stored_memory_is_a_value(kind: str, tmp_path: Path, backend: Backend) -> None:
    """It can be sent to another process, and one made anew of the same place has what was kept."""
    fx.run(memory_of(kind, tmp_path).commit(ONE), backend=backend)
    sent: Memory = pickle.loads(pickle.dumps(memory_of(kind, tmp_path)))

    assert fx.run(sent.load(), backend=backend) == ONE


@on_disk
def test_a_relative_place_stays_where_it_was(
    kind: str, tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory does not move when the program changes its folder."""
    monkeypatch.chdir(tmp_path)
    memory = memory_of(kind, Path())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    fx.run(memory.commit(ONE), backend=backend)

    assert fx.run(memory_of(kind, tmp_path).load(), backend=backend) == ONE


# -- many at once


@of_each_kind
def test_many_runs_at_once_lose_nothing(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Thirty commits at the same time: each turn is there once, whole, and no other stands inside it."""
    memory = memory_of(kind, tmp_path)
    turns = [looked_up(str(n)) for n in range(30)]
    fx.run(fx.for_each(turns, memory.commit, concurrency=None), backend=backend)
    kept = fx.run(memory.turns(), backend=backend)

    assert sorted(kept, key=str) == sorted(turns, key=str)


@of_each_kind
def test_threads_with_loops_of_their_own_share_a_memory(kind: str, tmp_path: Path) -> None:
    """Four threads, two event loops each way: nothing is lost, and each thread's turns are in its order."""
    memory = memory_of(kind, tmp_path)

    def work(who: int) -> None:
        loop: Backend = "trio" if who % 2 else "asyncio"
        fx.run(commit_all(memory, [chat(f"{who} {n}") for n in range(10)]), backend=loop)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    said = [begun_with(turn) for turn in fx.run(memory.turns())]

    assert [[one for one in said if one.startswith(f"{who} ")] for who in range(4)] == [
        [f"{who} {n}" for n in range(10)] for who in range(4)
    ]


@on_disk
def test_a_commit_that_is_cancelled_is_whole_or_not_there(kind: str, tmp_path: Path, backend: Backend) -> None:
    """A run that is cut off while it commits leaves the memory as before or as after."""
    memory = memory_of(kind, tmp_path)

    @fx.gen
    def program() -> Any:
        yield from memory.commit(ONE)
        fiber = yield from fx.fork(commit_all(memory, [TWO, THREE] * 5))
        yield from fx.sleep(0.004)
        yield from fiber.interrupt()
        return (yield from memory.turns())

    kept: Any = fx.run(fx.scoped(program()), backend=backend)

    assert kept == (ONE, *([TWO, THREE] * 5))[: len(kept)]


@on_disk
def test_a_place_that_cannot_be_written_is_a_failure(kind: str, tmp_path: Path, backend: Backend) -> None:
    """A file stands where the folder should be: it says which memory, and what the system said."""
    (tmp_path / "deep").write_text("no folder")
    memory = memory_of(kind, tmp_path)
    ended: Any = [fx.run_result(one, backend=backend).failure() for one in (memory.commit(ONE), memory.clear())]

    assert [one.doing for one in ended] == ["commit", "clear"]
    assert all(str(tmp_path) in one.memory and one.description for one in ended)


@on_disk
def test_what_cannot_be_read_again_is_not_kept(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Parameters that are no JSON, or nested beyond what is read, are refused, and the memory stays as it was."""
    memory = memory_of(kind, tmp_path)
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    turns = [Prompt([UserMessage.make("x"), looked_up("y")[1], _result(value)]) for value in (object(), deep)]
    failures: Any = [fx.run_result(memory.commit(one), backend=backend).failure() for one in turns]

    assert "JSON cannot carry this" in failures[0].description
    assert "cannot read again" in failures[1].description
    assert fx.run(memory.turns(), backend=backend) == ()


def _result(value: Any) -> ToolMessage:
    return ToolMessage.make(ToolResultPart("c1", "look", value))
