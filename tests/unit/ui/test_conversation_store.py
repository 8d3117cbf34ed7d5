"""Stores of conversations: one writer at a time, nothing lost that was acknowledged, and no id that leads elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.effects import Backend, Effect, Gen, Scope, fx
from fxai.messages import Prompt
from fxai.models import ApprovalLedger
from fxai.ui import Busy, ConversationError, Conversations, Turn, UIMessage
from tests.kit.every import every

ROOT = Path(__file__).parents[3]
KINDS = ("process", "files", "sqlite")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
between_processes = pytest.mark.parametrize("kind", KINDS[1:])


def _store(kind: str, folder: Path) -> Conversations:
    if kind == "process":
        return Conversations.in_process()
    return Conversations.files(folder / "talks") if kind == "files" else Conversations.sqlite(folder / "talks.db")


def _turn(id_: str, parent: str | None = None, added: str = "Hello") -> Turn:
    return Turn.make(id_, parent, UIMessage.make(f"u-{id_}", "user", added), f"a-{id_}", Prompt.make(added), 1.0)


def _ended(turn: Turn) -> Turn:
    return msgspec.structs.replace(turn, message=UIMessage.make(turn.message_id, "assistant", "Hi."), ended="done")


@of_each_kind
def test_a_conversation_is_held_by_one_program(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Another one is told that it is busy; others are not held off, and it is free when the scope has closed."""
    store = _store(kind, tmp_path)

    @fx.gen
    def hold() -> Gen[list[Result[None, Busy | ConversationError]], Busy | ConversationError, Scope]:
        yield from store.hold("c")
        same = yield from fx.scoped(store.hold("c")).result()
        other = yield from fx.scoped(store.hold("d")).result()
        return [same, other]

    busy, other = fx.run(fx.scoped(hold()), backend=backend)
    assert (busy, other) == (Failure(Busy("c")), Success(None))
    assert fx.run(fx.scoped(store.hold("c")).result(), backend=backend) == Success(None)


IDS = [
    "..",
    ".",
    "../c",
    "/etc/passwd",
    "c\0d",
    "c\nd",
    "c" * 3_000,
    "é",
    "e\u0301",
    "\U0001f600",
    "C",
    "c",
]


@of_each_kind
def test_no_id_leads_to_another_conversation_or_out_of_the_folder(kind: str, tmp_path: Path) -> None:
    """Each id is one of its own, and the secret of the store is none of them."""
    store = _store(kind, tmp_path)
    for number, id_ in enumerate(IDS):
        fx.run(store.begin(id_, "ann", _turn(f"t{number}")))
    secret = fx.run(store.secret())
    loaded = [fx.run(store.load(id_)) for id_ in IDS]
    assert [one.head for one in loaded if one is not None] == [f"t{number}" for number in range(len(IDS))]
    assert sorted(one.id for one in fx.run(store.list("ann"))) == sorted(IDS)
    assert fx.run(store.secret()) == secret
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} <= {"talks"}


@between_processes
def test_half_a_character_is_refused(kind: str, tmp_path: Path) -> None:
    """It can be written nowhere: a failure of the store, and no defect."""
    failure = fx.run(_store(kind, tmp_path).begin("\ud800", "ann", _turn("t")).result()).failure()
    assert (failure.doing, "surrogate" in str(failure)) == ("save", True)


@of_each_kind
def test_a_turn_cannot_end_in_what_was_deleted(kind: str, tmp_path: Path) -> None:
    """Nor does it bring the conversation back, also where a new one has the same id."""
    store, turn = _store(kind, tmp_path), _turn("t")
    fx.run(store.begin("c", "ann", turn).and_then(store.delete("c")))
    assert "deleted" in str(fx.run(store.end("c", _ended(turn)).result()).failure())
    assert (fx.run(store.load("c")), fx.run(store.list("ann"))) == (None, ())
    fx.run(store.begin("c", "bob", _turn("s")))
    assert "deleted" in str(fx.run(store.end("c", _ended(turn)).result()).failure())
    assert "does not exist" in str(fx.run(store.rename("d", "x").result()).failure())
    known = fx.run(store.load("c"))
    assert known is not None
    assert (known.owner, [one.id for one in known.turns]) == ("bob", ["s"])


@of_each_kind
def test_a_turn_whose_process_ended_keeps_what_was_said(kind: str, tmp_path: Path) -> None:
    """The page is told of it, and a reader of the conversation, too."""
    store = _store(kind, tmp_path)
    fx.run(store.begin("c", "ann", _turn("t", added="Ünïcode \U0001f600")))
    known = fx.run(store.load("c"))
    assert known is not None
    told = known.describe(is_running=False)
    assert (told["error"], told["title"]) == ("the server stopped during the answer", "Ünïcode \U0001f600")
    assert known.history() == Prompt.make("Ünïcode \U0001f600")
    assert known.describe(is_running=True)["error"] is None


@of_each_kind
def test_a_list_is_of_its_owner_and_goes_back_in_time(kind: str, tmp_path: Path) -> None:
    """So many as are asked for, those that changed last first."""
    store = _store(kind, tmp_path)
    for number in range(6):
        turn = msgspec.structs.replace(_turn(f"t{number}"), created=float(number))
        fx.run(store.begin(f"c{number}", "bob" if number == 3 else "ann", turn))
    first = fx.run(store.list("ann", limit=2))
    then = fx.run(store.list("ann", limit=9, before=first[-1].changed))
    assert [one.id for one in (*first, *then)] == ["c5", "c4", "c2", "c1", "c0"]


# -- other processes

WRITER = """
import sys
from pathlib import Path
from fxai.effects import fx
from tests.unit.ui.test_conversation_store import _ended, _store, _turn
kind, folder, who, count = sys.argv[1:]
store, parent = _store(kind, Path(folder)), None
for n in range(int(count)):
    turn = _turn(f"{who}{n}", parent)
    fx.run(store.begin("c", "ann", turn).and_then(store.end("c", _ended(turn))))
    parent = turn.id
    print(turn.id, flush=True)
"""
HOLDER = """
import sys
from pathlib import Path
from fxai.effects import fx
from tests.unit.ui.test_conversation_store import _store
store = _store(sys.argv[1], Path(sys.argv[2]))
fx.run(fx.scoped(store.hold("c").map(lambda _: (print("held", flush=True), sys.stdin.read()))))
"""


def _start(program: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *args]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


@pytest.mark.slow
@between_processes
def test_two_processes_write_the_same_conversation(kind: str, tmp_path: Path) -> None:
    """Each turn of both is there, ended, in its own branch."""
    writers = [_start(WRITER, kind, str(tmp_path), who, "5") for who in "xy"]
    told = [one.communicate()[0].split() for one in writers]
    assert told == [[f"{who}{n}" for n in range(5)] for who in "xy"]
    known = fx.run(_store(kind, tmp_path).load("c"))
    assert known is not None
    assert sorted(turn.id for turn in known.turns if turn.ended == "done") == sorted(told[0] + told[1])
    assert [turn.id for turn in known.path("x4")] == [f"x{n}" for n in range(5)]


@pytest.mark.slow
@between_processes
def test_a_process_that_is_killed_loses_nothing_that_it_acknowledged(kind: str, tmp_path: Path) -> None:
    """However far the write came that it was killed in."""
    writer = _start(WRITER, kind, str(tmp_path), "x", "100000")
    assert writer.stdout is not None
    told = [writer.stdout.readline().strip() for _ in range(7)]
    writer.kill()
    told += writer.communicate()[0].split()
    store = _store(kind, tmp_path)
    known = fx.run(store.load("c"))
    assert known is not None
    ended = [turn.id for turn in known.turns if turn.ended == "done"]
    assert (ended[: len(told)], len(ended) - len(told) <= 1) == (told, True)
    fx.run(store.begin("c", "ann", _turn("after", known.head)))
    assert [one.head for one in [fx.run(store.load("c"))] if one is not None] == ["after"]


@pytest.mark.slow
@between_processes
def test_a_conversation_is_busy_while_another_process_holds_it(kind: str, tmp_path: Path) -> None:
    """And free as soon as that process has died, however it did."""
    holder, store = _start(HOLDER, kind, str(tmp_path)), _store(kind, tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert fx.run(fx.scoped(store.hold("c")).result()).failure() == Busy("c")
    holder.kill()
    holder.communicate()
    assert fx.run(fx.scoped(store.hold("c")).result()).unwrap() is None


def test_what_was_changed_by_hand_is_told(tmp_path: Path) -> None:
    """A file that somebody else wrote into is a failure that names it, and no other conversation."""
    store = Conversations.files(tmp_path / "talks")
    fx.run(store.begin("c", "ann", _turn("t")))
    (path,) = (tmp_path / "talks").glob("c-*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Hullo"))
    failure = fx.run(store.load("c").result()).failure()
    assert (failure.conversation_id, failure.doing, path.name in str(failure)) == ("c", "load", True)


class _SecretAlone(Conversations):
    """A store that keeps its secret, and no ledger."""

    @override
    def secret(self) -> Effect[bytes, ConversationError]:
        return fx.succeed(b"a secret of thirty-two bytes ...")


class _Both(_SecretAlone):
    @override
    def ledger(self) -> ApprovalLedger:
        return ApprovalLedger.in_process()


class _Neither(_SecretAlone):
    secret = Conversations.secret


@every(("kind", "signs"), [(_SecretAlone, False), (_Both, True), (_Neither, True)])
def test_a_store_that_keeps_the_secret_alone_signs_nothing(kind: type[Conversations], signs: bool) -> None:
    """After a restart, such a store would trust an approval that was used before."""
    kind.__abstractmethods__ = frozenset()
    signed = fx.run(kind().signer().result())

    assert isinstance(signed, Success) is signs
    assert signs or "Override ledger() also" in str(signed.failure())


@of_each_kind
def test_all_that_share_a_store_share_its_ledger(kind: str, tmp_path: Path) -> None:
    """An approval that was claimed by one is used for the other."""
    one = _store(kind, tmp_path)
    other = one if kind == "process" else _store(kind, tmp_path)
    uses: dict[str, float | None] = {"approval_1": None}

    assert fx.run(one.ledger().claim(uses)) == ()
    assert fx.run(other.ledger().claim(uses)) == ("approval_1",)


# -- the list


def _talk(store: Conversations, owner: str, id_: str, number: int) -> None:
    turn = msgspec.structs.replace(_turn(f"t-{id_}-{number}"), created=float(number))
    fx.run(store.begin(id_, owner, turn))


@of_each_kind
def test_a_list_reads_what_it_shows(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversations of others, and those beyond the limit, are not read."""
    store = _store(kind, tmp_path)
    for number in range(12):
        _talk(store, "bob", f"b{number}", number)
    for number in range(6):
        _talk(store, "ann", f"a{number}", 100 + number)
    fx.run(store.list("ann"))
    read: list[str] = []
    find = cast(Any, store)._find_summary

    def noted(id_: str) -> Any:
        read.append(id_)
        return find(id_)

    monkeypatch.setattr(store, "_find_summary", noted)

    assert [one.id for one in fx.run(store.list("ann", limit=2))] == ["a5", "a4"]
    assert read == ["a5", "a4"]
    assert [one.id for one in fx.run(store.list("ann", limit=2, before=104.0))] == ["a3", "a2"]
    assert read[2:] == ["a3", "a2"]


KINDS_OF_STEP = st.sampled_from(["begin", "rename", "delete"])
STEPS = st.lists(st.tuples(KINDS_OF_STEP, st.sampled_from("abc"), st.sampled_from(["ann", "bob"])), max_size=14)


@given(STEPS, st.integers(1, 4))
def test_a_list_is_the_conversations_that_changed_last(steps: list[tuple[str, str, str]], limit: int) -> None:
    """After any steps, the list of an owner is what a look at every conversation would give."""
    store, model, turns = Conversations.in_process(), dict[str, tuple[str, float]](), dict[str, Turn]()
    for number, (step, id_, owner) in enumerate(steps, 1):
        if step == "begin":
            turns[id_] = msgspec.structs.replace(_turn(f"t{number}"), created=float(number))
            fx.run(store.begin(id_, owner, turns[id_]))
            model[id_] = (model[id_][0] if id_ in model else owner, float(number))
        elif id_ not in model:
            continue
        elif step == "rename":
            fx.run(store.rename(id_, "New"))
        elif step == "delete":
            fx.run(store.delete(id_))
            del model[id_]

    for owner in ("ann", "bob"):
        own = sorted(((changed, id_) for id_, (of, changed) in model.items() if of == owner), reverse=True)
        assert [one.id for one in fx.run(store.list(owner, limit=limit))] == [id_ for _, id_ in own][:limit]
