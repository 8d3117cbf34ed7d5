"""What holds of everything that is kept on disk: damage is never read in silence, and nobody else can read it."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from typing_extensions import override

from fxai.agents import Memory
from fxai.agents.stateful import PromptState
from fxai.effects import Fail, Failed, Gen, Succeeded, fx
from fxai.mcp import Pins
from fxai.messages import AiError, Prompt
from fxai.models import ApprovalLedger, ChatStore, ChatStoreError
from tests.kit.memories import approved, asked, chat, commit_all, looked_up
from tests.kit.reaching import Reached
from tests.kit.trials import examples

Damage = Callable[[bytes], bytes]

TURN = st.builds(chat, st.text(max_size=5)) | st.builds(looked_up, st.sampled_from("abc"))
MORE = chat("more")
NAMES = ["memory.jsonl", "memory.db", "chats", "chats.db", "ledger.json", "ledger.db", "pins.json"]
PLACES = st.floats(0, 1, exclude_max=True)


class _Log(logging.Handler):
    """What was told, since it was asked last."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _listening() -> Generator[list[str]]:
    log, handler = logging.getLogger("fxai.storage"), _Log()
    log.addHandler(handler)
    try:
        yield handler.messages
    finally:
        log.removeHandler(handler)


# -- damage


def _spread(data: bytes, start: float, end: float) -> tuple[int, int]:
    locations = sorted(int(location * len(data)) for location in (start, end))
    return locations[0], locations[1] + 1


@st.composite
def _damages(draw: st.DrawFn) -> tuple[str, Damage]:
    """Something that may happen to a file, by its name."""
    start, end, bit = draw(PLACES), draw(PLACES), draw(st.integers(0, 7))
    other, byte = draw(st.binary(min_size=1, max_size=9)), draw(st.sampled_from(b"\0\r\n A\xff"))

    def at(data: bytes) -> tuple[int, int]:
        return _spread(data, start, end)

    def flipped(data: bytes) -> bytes:
        i, _ = at(data)
        return data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :]

    def lines(data: bytes) -> tuple[list[bytes], int, int]:
        split = data.splitlines(keepends=True)
        return split, int(start * len(split)), int(end * len(split))

    def line_twice(data: bytes) -> bytes:
        split, i, j = lines(data)
        return b"".join([*split[:j], split[i], *split[j:]])

    def line_gone(data: bytes) -> bytes:
        split, i, _ = lines(data)
        return b"".join([*split[:i], *split[i + 1 :]])

    kinds: dict[str, Damage] = {
        "flipped": flipped,
        "cut": lambda data: data[: at(data)[0]],
        "cut by a few bytes": lambda data: data[: -1 - int(start * 8)],
        "tail zeroed": lambda data: data[: at(data)[0]] + bytes(len(data) - at(data)[0]),
        "a few bytes zeroed at the end": lambda data: data[: -1 - int(start * 8)] + bytes(1 + int(start * 8)),
        "all zeroed": lambda data: bytes(len(data)),
        "zeroed inside": lambda data: data[: at(data)[0]] + bytes(at(data)[1] - at(data)[0]) + data[at(data)[1] :],
        "taken out": lambda data: data[: at(data)[0]] + data[at(data)[1] :],
        "doubled": lambda data: data[: at(data)[1]] + data[at(data)[0] :],
        "tail doubled": lambda data: data + data[at(data)[0] :],
        "put in": lambda data: data[: at(data)[0]] + other + data[at(data)[0] :],
        "put behind": lambda data: data + other,
        "last byte changed": lambda data: data[:-1] + bytes([byte]),
        "last byte gone": lambda data: data[:-1],
        "a line doubled": line_twice,
        "a line gone": line_gone,
    }
    name = draw(st.sampled_from(sorted(kinds)))
    return name, kinds[name]


DAMAGES = _damages()


def _memory(kind: str, path: Path) -> Memory:
    return Memory.file(path) if kind == "file" else Memory.sqlite(path)


def _damaged(path: Path, damage: Damage, moved: bool) -> Path:
    """The file, damaged in its place or, as from a copy, under another name."""
    content = damage(path.read_bytes())
    location = path.with_name("moved") if moved else path
    location.write_bytes(content)
    location.chmod(0o600)
    return location


@st.composite
def _committed(draw: st.DrawFn) -> list[Prompt]:
    """What runs committed; sometimes one waits for an approval, so that its turn has a second part."""
    turns = draw(st.lists(TURN, min_size=1, max_size=6))
    return [asked("w"), *turns, approved()] if draw(st.booleans()) else turns


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_memory_that_was_damaged_is_never_read_in_silence(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It gives the turns that were committed, or a failure of its type, or says in the log that something is missing.

    What is committed afterwards stands behind the same turns, or is refused.
    """
    reached = Reached()

    @settings(max_examples=examples(120 if kind == "file" else 40))
    @given(_committed(), DAMAGES, st.booleans())
    def holds(commits: list[Prompt], damage: tuple[str, Damage], moved: bool) -> None:
        path = tmp_path_factory.mktemp("damaged") / "memory"
        fx.run(commit_all(_memory(kind, path), commits))
        whole = fx.run(_memory(kind, path).turns())
        memory = _memory(kind, _damaged(path, damage[1], moved))
        with _listening() as told:
            read = fx.run_exit(memory.turns())
        ends = "failed" if isinstance(read, Failed) else "same" if read.value == whole else "told"
        reached(ends)
        event(f"{damage[0]}: {ends}")

        if isinstance(read, Failed):
            assert isinstance(read.cause.reasons[0], Fail)
        elif read.value != whole:
            assert told
        elif isinstance(fx.run_exit(memory.commit(MORE)), Succeeded):
            assert fx.run(memory.turns()) == (*whole, MORE)

    reached.by(holds, failed=5, **({"same": 2, "told": 2} if kind == "file" else {}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_state_that_was_damaged_is_never_read_in_silence(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is the one that was committed last, or a failure of its type, or it is said that something is missing."""
    reached = Reached()

    @settings(max_examples=examples(120 if kind == "file" else 60))
    @given(st.lists(st.tuples(TURN, st.none() | st.integers(0, 9)), min_size=1, max_size=5), DAMAGES)
    def holds(commits: list[tuple[Prompt, int | None]], damage: tuple[str, Damage]) -> None:
        path = tmp_path_factory.mktemp("damaged") / "memory"
        memory = _memory(kind, path)
        for turn, number in [(MORE, 7), *commits]:
            fx.run(memory.commit_with(turn, None if number is None else _state(number)))
        last = [7, *[number for _, number in commits if number is not None]][-1]
        _damaged(path, damage[1], moved=False)
        with _listening() as told:
            read = fx.run_exit(memory.load_state())
        ends = "failed" if isinstance(read, Failed) else "same" if read.value == _state(last) else "told"
        reached(ends)
        event(f"{damage[0]}: {ends}")

        if isinstance(read, Failed):
            assert isinstance(read.cause.reasons[0], Fail)
        else:
            assert read.value == _state(last) or told

    reached.by(holds, failed=5, same=2)


def _state(number: int) -> PromptState:
    return PromptState.from_data({"values": {"number": number}}).unwrap()


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_chat_that_was_damaged_is_never_read_in_silence(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It gives the history that was saved, or a failure of its type; an empty file is told."""
    reached = Reached()

    @settings(max_examples=examples(60 if kind == "files" else 40))
    @given(_committed(), DAMAGES, st.none() | st.just(4e9))
    def holds(commits: list[Prompt], damage: tuple[str, Damage], expires: float | None) -> None:
        folder = tmp_path_factory.mktemp("damaged")
        store = ChatStore.files(folder) if kind == "files" else ChatStore.sqlite(folder / "chats")
        history = Prompt.empty
        for commit in commits:
            history += commit
            fx.run(_saved(history, expires).provide(store))
        (path,) = (one for one in folder.iterdir() if one.is_file() and one.suffix != ".lock")
        _damaged(path, damage[1], moved=False)
        with _listening() as told:
            read = fx.run_exit(_loaded().provide(store))
        ends = "failed" if isinstance(read, Failed) else "same" if read.value == history else "told"
        reached(ends)
        event(f"{damage[0]}: {ends}")

        if isinstance(read, Failed):
            assert isinstance(read.cause.reasons[0], Fail)
        else:
            assert read.value == history or told

    reached.by(holds, failed=20)


@fx.gen
def _saved(history: Prompt, expires: float | None) -> Gen[None, ChatStoreError, ChatStore]:
    store = yield from ChatStore
    yield from store.save("c", history, expires)


@fx.gen
def _loaded() -> Gen[Prompt | None, ChatStoreError, ChatStore]:
    store = yield from ChatStore
    return (yield from store.load("c"))


# -- modes


class _Keepers(RuleBasedStateMachine):
    """Everything that keeps something on disk, under umasks that change, beside files that others may read."""

    def __init__(self) -> None:
        super().__init__()
        self._before = os.umask(0o022)
        self._folder = TemporaryDirectory()
        self._number = count()
        self._root = Path(self._folder.name)
        location = self._root / "deep" / "place"
        self._effects: dict[str, Callable[[int], Any]] = {
            "memory.jsonl": lambda n: Memory.file(location / "memory.jsonl", keep=2).commit(chat(str(n))),
            "memory.db": lambda n: Memory.sqlite(location / "memory.db", keep=2).commit(chat(str(n))),
            "chats": lambda n: _held(chat(str(n))).provide(ChatStore.files(location / "chats")),
            "chats.db": lambda n: _held(chat(str(n))).provide(ChatStore.sqlite(location / "chats.db")),
            "ledger.json": lambda n: _claimed(str(n)).provide(ApprovalLedger.file(location / "ledger.json")),
            "ledger.db": lambda n: _claimed(str(n)).provide(ApprovalLedger.sqlite(location / "ledger.db")),
            "pins.json": lambda n: Pins.file(location / "pins.json").approve("s", {"t": {"description": str(n)}}),
        }

    @rule(umask=st.sampled_from([0, 0o022, 0o077, 0o277, 0o777]))
    def other_umask(self, umask: int) -> None:
        """The umask is another one from now on."""
        os.umask(umask)

    @rule(name=st.sampled_from(NAMES), loosened=st.booleans())
    def keep(self, name: str, loosened: bool) -> None:
        """Something is kept, perhaps in files whose modes somebody has loosened."""
        location = self._root / "deep" / "place"
        touched = [location / name, location / f"{name}.lock", *(location / name).glob("*")]
        for one in touched if loosened else []:
            if one.is_file():
                one.chmod(0o666)
        fx.run(self._effects[name](next(self._number)))

    @invariant()
    def nobody_else_may_do_anything(self) -> None:
        """Every file has the mode 0600, every folder 0700, and no copy is left."""
        kept = list(self._root.rglob("*"))
        modes = {one: stat.S_IMODE(one.stat().st_mode) for one in kept}

        assert {one: oct(mode) for one, mode in modes.items() if mode != (0o700 if one.is_dir() else 0o600)} == {}
        assert [one for one in kept if one.suffix in (".tmp", ".torn")] == []

    @override
    def teardown(self) -> None:
        os.umask(self._before)
        self._folder.cleanup()


@fx.gen
def _held(history: Prompt) -> Gen[None, ChatStoreError, ChatStore]:
    store = yield from ChatStore
    yield from fx.scoped(store.hold("c").and_then(store.save("c", history, None)))


@fx.gen
def _claimed(name: str) -> Gen[None, AiError]:
    ledger = yield from ApprovalLedger
    yield from ledger.claim({name: None})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_what_is_kept_is_its_owners_alone_whatever_happens() -> None:
    """Through every replacement, journal and lock, under any umask, and where somebody has loosened a mode."""
    run_state_machine_as_test(_Keepers, settings=settings(max_examples=examples(15, least=15), stateful_step_count=12))

    assert NAMES
