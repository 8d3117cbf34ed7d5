"""The state of a stateful prompt in a memory: kept with the messages, and apart from the turns and the window."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.agents.stateful import PromptState
from fxai.effects import Backend, Effect, fx
from fxai.messages import Prompt
from tests.kit.memories import KINDS, OwnMemory, approved, asked, chat, commit_all, memory_of

ONE, TWO = chat("one"), chat("two")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
on_disk = pytest.mark.parametrize("kind", KINDS[1:])


def _state(**values: Any) -> PromptState:
    return PromptState.from_data({"values": values}).unwrap()


def _values(memory: Memory, backend: Backend | None = None) -> Any:
    loading = memory.load_state()
    state = fx.run(loading) if backend is None else fx.run(loading, backend=backend)
    return None if state is None else state.to_data()["values"]


def _refused(effect: Effect[Any, MemoryFailure]) -> MemoryFailure:
    return fx.run_result(effect).failure()


# -- what is kept


@of_each_kind
def test_a_state_is_loaded_that_was_committed_last(kind: str, tmp_path: Path, backend: Backend) -> None:
    """A commit without one leaves it; the messages are a turn as ever."""
    memory, seen = memory_of(kind, tmp_path), list[Any]()
    seen.append(_values(memory, backend))
    for messages, state in ((ONE, _state(mode="a", n=[1, None])), (TWO, None), (ONE, _state(mode="b")), (TWO, None)):
        fx.run(memory.commit_with(messages, state), backend=backend)
        seen.append(_values(memory, backend))

    assert seen == [None, *[{"mode": "a", "n": [1, None]}] * 2, *[{"mode": "b"}] * 2]
    assert fx.run(memory.turns(), backend=backend) == (ONE, TWO, ONE, TWO)


@of_each_kind
def test_a_state_goes_with_the_turn_that_waited(kind: str, tmp_path: Path) -> None:
    """It counts though it belongs to an older turn: it is the one that was committed last."""
    memory = memory_of(kind, tmp_path)
    for messages, state in ((asked("a"), "waits"), (ONE, "between"), (approved(), "answered")):
        fx.run(memory.commit_with(messages, _state(at=state)))

    assert _values(memory) == {"at": "answered"}
    assert [len(turn) for turn in fx.run(memory.turns())] == [5, 2]


@of_each_kind
def test_neither_a_window_nor_the_turns_that_are_dropped_take_it_away(kind: str, tmp_path: Path) -> None:
    """It is there when its turn is gone, also where a file is written anew again and again."""
    memory = memory_of(kind, tmp_path, Compaction.window(1), keep=2)
    fx.run(memory.commit_with(ONE, _state(n=1)))
    fx.run(commit_all(memory, [chat(str(n)) for n in range(20)]))

    assert _values(memory) == {"n": 1}
    assert fx.run(memory.turns()) == (chat("18"), chat("19"))


@of_each_kind
def test_a_state_may_be_committed_alone(kind: str, tmp_path: Path) -> None:
    """With no messages, or with none but system messages: there is no turn more, and none that a window counts."""
    memory = memory_of(kind, tmp_path, Compaction.window(1))
    fx.run(memory.commit_with(Prompt.empty, _state(n=1)))
    alone = (_values(memory), fx.run(memory.turns()), fx.run(memory.load()))
    fx.run(memory.commit(ONE))
    fx.run(memory.commit_with(Prompt.empty, _state(n=2)))

    assert alone == ({"n": 1}, (), Prompt.empty)
    assert (_values(memory), fx.run(memory.turns()), fx.run(memory.load())) == ({"n": 2}, (ONE,), ONE)


@of_each_kind
def test_clearing_forgets_the_state_too(kind: str, tmp_path: Path) -> None:
    """As if there had been none."""
    memory = memory_of(kind, tmp_path)
    fx.run(memory.commit_with(ONE, _state(n=1)))
    fx.run(memory.clear())
    fx.run(memory.commit(TWO))

    assert _values(memory) is None


def test_conversations_of_a_database_have_states_of_their_own(tmp_path: Path) -> None:
    """Clearing one leaves those of the others."""
    ann, bob = (Memory.sqlite(tmp_path / "memory.db", conversation=name) for name in ("ann", "bob"))
    fx.run(ann.commit_with(ONE, _state(who="ann")))
    fx.run(bob.commit_with(ONE, _state(who="bob")))
    fx.run(ann.clear())

    assert (_values(ann), _values(bob)) == (None, {"who": "bob"})


@on_disk
def test_nothing_is_kept_of_a_commit_that_fails(kind: str, tmp_path: Path) -> None:
    """Neither the messages nor the state, whichever of them cannot be kept."""
    memory = memory_of(kind, tmp_path)
    fx.run(memory.commit_with(ONE, _state(n=1)))
    unawaited = _refused(memory.commit_with(approved(), _state(n=2)))

    assert "no stored turn needs the first tool message" in unawaited.description
    assert (_values(memory), fx.run(memory.turns())) == ({"n": 1}, (ONE,))


# -- what stands on the disk


def test_a_turn_and_its_state_are_one_line(tmp_path: Path) -> None:
    """A line without a state is as it always was."""
    memory = Memory.file(tmp_path / "memory.jsonl")
    fx.run(memory.commit(ONE))
    fx.run(memory.commit_with(TWO, _state(n=1)))
    _, plain, with_state = [json.loads(line) for line in (tmp_path / "memory.jsonl").read_text().splitlines()]

    assert list(plain) == ["entry", "part", "newest", "data", "commit", "digest"]
    assert with_state["state"] == {"values": {"n": 1}}
    assert Prompt.from_data(with_state["data"]).unwrap() == TWO


def test_a_damaged_state_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    """One that was changed, and one that is none; what was said before it is no remedy."""
    path = tmp_path / "memory.jsonl"
    memory = Memory.file(path)
    fx.run(memory.commit_with(ONE, _state(mode="basic")))
    fx.run(memory.commit_with(TWO, _state(mode="advanced")))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"advanced", b"ADVANCED"))
    changed = _refused(memory.load_state())
    *lines, last = whole.splitlines(keepends=True)
    record = {name: value for name, value in json.loads(last).items() if name != "digest"}
    record["state"]["values"] = ["advanced"]
    path.write_bytes(b"".join(lines) + json.dumps(record).encode() + b"\n")
    no_state = _refused(memory.load_state())

    assert (changed.memory, changed.doing, no_state.doing) == (str(path), "load", "load")
    assert f"line 3 of {path} is damaged: not a commit of a memory, or changed" in changed.description
    assert f"line 3 of {path} is damaged: the entry contains no state of a prompt" in no_state.description
    assert "/values" in no_state.description


@pytest.mark.parametrize("text", ["{}", "rubbish", '{"state":{"values":{}},"digest":"0"}'])
def test_a_damaged_state_in_a_database_is_told_with_its_table(text: str, tmp_path: Path) -> None:
    """What the turns say can be loaded, and the next state takes its place."""
    path = tmp_path / "memory.db"
    memory = Memory.sqlite(path)
    fx.run(memory.commit_with(ONE, _state(mode="basic")))
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("UPDATE memory_state SET state = ?", (text,))
    database.close()
    failure = _refused(memory.load_state())
    said = fx.run(memory.load())
    fx.run(memory.commit_with(TWO, _state(mode="advanced")))

    assert failure.memory == f"{path}, name 'default'"
    assert "the state in the table memory_state is damaged: the row was changed. Restore" in failure.description
    assert (said, _values(memory)) == (ONE, {"mode": "advanced"})


def test_a_state_that_is_missing_in_a_database_is_told(tmp_path: Path) -> None:
    """Also where turns without one came after it; a run that is given a state goes on."""
    path = tmp_path / "memory.db"
    memory = Memory.sqlite(path)
    fx.run(memory.commit_with(ONE, _state(mode="basic")))
    fx.run(memory.commit(TWO))
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("DELETE FROM memory_state")
    database.close()
    failure = _refused(memory.load_state())
    fx.run(memory.commit(ONE))
    again = _refused(memory.load_state())
    fx.run(memory.commit_with(Prompt.empty, _state(mode="advanced")))

    assert "the state in the table memory_state is damaged: the row is missing. Restore" in failure.description
    assert failure == again
    assert _values(memory) == {"mode": "advanced"}


# -- a memory of one's own


def test_a_memory_of_ones_own_keeps_no_state(backend: Backend) -> None:
    """It has none to load; what has no state is committed as ever, and with one it is told what is missing."""
    memory = OwnMemory()
    fx.run(memory.commit_with(ONE, None), backend=backend)
    failure = fx.run_result(memory.commit_with(TWO, _state(n=1)), backend=backend).failure()

    assert (_values(memory, backend), memory.kept) == (None, [ONE])
    assert str(failure) == (
        "memory in OwnMemory could not be committed to: the class stores no state of a stateful prompt. "
        "Define `load_state` and `commit_with` in the class."
    )
