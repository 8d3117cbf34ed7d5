"""What holds for every memory and every window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from fxai.agents import Compaction, Memory
from fxai.agents.recall import recall
from fxai.agents.stateful import PromptState
from fxai.effects import fx
from fxai.messages import AssistantMessage, Prompt
from fxai.models.compaction import WindowStage
from tests.kit.memories import approved, asked, chat, commit_all, looked_up, window_of
from tests.kit.trials import examples

WORDS = st.text(max_size=6)
MORE = Prompt([AssistantMessage.make("And more.")])


@st.composite
def _commits(draw: st.DrawFn) -> list[Prompt]:
    """What runs said, one after another: words, calls with results, approvals asked for and, later, given."""
    said: list[Prompt] = []
    waiting: list[int] = []
    closed = 0
    for number in range(draw(st.integers(0, 12))):
        kinds = ["chat", "call", "ask", *["more"] * (closed > 0 or not said), *["approve"] * bool(waiting)]
        kind = draw(st.sampled_from(kinds))
        closed += kind != "ask"
        match kind:
            case "chat":
                said.append(chat(draw(WORDS)))
            case "call":
                said.append(looked_up(draw(WORDS)))
            case "ask":
                waiting.append(number)
                said.append(asked(draw(WORDS), f"w{number}", f"a{number}"))
            case "more":
                said.append(MORE)
            case _:
                one = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
                said.append(approved(f"w{one}", f"a{one}"))
    return said


def _one(_: Prompt) -> int:
    return 1


def _window(turns: int | None, tokens: int | None, count: Callable[[Prompt], int]) -> Compaction:
    return Compaction.window(100 if turns is tokens is None else turns, tokens=tokens, count=count)


WINDOWS = st.builds(
    _window, st.none() | st.integers(1, 6), st.none() | st.integers(1, 20), st.sampled_from([len, _one])
)


def _turns(commits: list[Prompt], window: Compaction | None = None) -> tuple[tuple[Prompt, ...], Prompt]:
    memory = Memory.in_process(window)
    program: Any = commit_all(memory, commits).and_then(fx.all_(memory.turns(), memory.load()))
    kept: tuple[tuple[Prompt, ...], Prompt] = fx.run_sync(program)
    return kept


def _calls(prompt: Prompt, kind: str) -> set[str]:
    return {
        part.id
        for message in prompt
        if message.role != "system"
        for part in message.content
        if (part.type == "tool-call" or part.type == "tool-result") and part.type == kind
    }


def _is_answered(prompt: Prompt, at: int) -> bool:
    """Whether the calls of a message have their results in the messages right behind it."""
    behind = list(prompt)[at + 1 :]
    results = Prompt(behind[: next((n for n, one in enumerate(behind) if one.role != "tool"), len(behind))])
    return _calls(Prompt([prompt[at]]), "tool-call") <= _calls(results, "tool-result")


@given(_commits())
def test_nothing_is_lost_and_nothing_is_added(commits: list[Prompt]) -> None:
    """The messages of all turns are the messages of all commits."""
    turns, said = _turns(commits)

    assert said == sum(turns, Prompt.empty)
    assert sorted(map(str, said)) == sorted(str(message) for one in commits for message in one)


@given(_commits())
def test_turns_begin_with_the_user_and_keep_what_belongs_together(commits: list[Prompt]) -> None:
    """A call and its result are in one turn, an approval and what it answers too; only the first may be a greeting."""
    turns, _ = _turns(commits)
    results = [(_calls(turn, "tool-call"), _calls(turn, "tool-result")) for turn in turns]

    assert all(turn[0].role == "user" for turn in turns[1:])
    assert all(answers <= calls for calls, answers in results)
    assert all(not turn.pending or turn.pending[0].approval_id for turn in turns)


def _size(stage: WindowStage, turn: Prompt) -> int:
    return 0 if stage.size == "model" else stage.size(turn)


@given(_commits(), WINDOWS)
def test_a_window_gives_the_newest_turns_whole(commits: list[Prompt], window: Compaction) -> None:
    """What is loaded are the last turns, as many as fit, and at least one where there is any."""
    turns, said = _turns(commits, window)
    fits = [n for n in range(len(turns) + 1) if said == sum(turns[len(turns) - n :], Prompt.empty)]

    assert len(fits) == 1
    given_, stage = fits[0], window_of(window)
    sizes = [_size(stage, turn) for turn in turns]

    def fit(n: int) -> bool:
        few = stage.turns is None or n <= stage.turns
        return few and (n <= 1 or stage.tokens is None or sum(sizes[len(sizes) - n :]) <= stage.tokens)

    assert given_ == max(n for n in range(len(turns) + 1) if all(map(fit, range(n + 1))))


@given(_commits(), WINDOWS, WINDOWS)
def test_a_wider_window_gives_no_less(commits: list[Prompt], one: Compaction, other: Compaction) -> None:
    """Of two windows that count alike, the wider one's turns end with the narrower one's."""
    turns, _ = _turns(commits)
    few, stage = window_of(one), window_of(other)
    narrow = msgspec.structs.replace(stage, turns=few.turns).newest(reversed(turns))
    wide = msgspec.structs.replace(stage, turns=None).newest(reversed(turns))

    assert wide[len(wide) - len(narrow) :] == narrow
    assert narrow == wide[-few.turns :] if few.turns else narrow == wide


@settings(max_examples=examples(50))
@given(_commits(), WINDOWS)
def test_a_run_is_told_a_history_without_open_calls(commits: list[Prompt], window: Compaction) -> None:
    """Each call has its result right behind it; only what the run answers is open, and then it comes last."""
    turns, said = _turns(commits, window)
    told = recall(said, chat("new"))
    waiting = [one for turn in window_of(window).newest(reversed(turns)) for one in turn.pending]

    assert told.pending == ()
    assert all(_is_answered(told, at) for at in range(len(told)))
    for one in waiting:
        answer = approved(one.id, str(one.approval_id))
        mine = recall(said, answer)

        assert [open_.id for open_ in mine.pending] == [one.id]
        assert all(_is_answered(mine, at) for at in range(len(mine) - 1))
        assert len(mine) == len(said) + len(waiting) - 1


@settings(max_examples=examples(15))
@given(st.lists(_commits(), min_size=1, max_size=3), WINDOWS, st.none() | st.integers(1, 4))
def test_memories_of_every_kind_are_one(runs: list[list[Prompt]], window: Compaction, keep: int | None) -> None:
    """In process, in a file and in SQLite: the same turns, the same window, the same refusals, cleared alike."""
    with TemporaryDirectory() as folder:
        memories = [
            Memory.in_process(window, keep=keep),
            Memory.file(Path(folder) / "memory.jsonl", window, keep=keep),
            Memory.sqlite(Path(folder) / "memory.db", window, keep=keep),
        ]

        @fx.gen
        def seen(memory: Memory) -> Any:
            shown: list[Any] = []
            for commits in runs:
                for one in commits:
                    ended = yield from memory.commit(one).result()
                    shown.append(ended.alt(lambda failure: failure.description))
                shown.append((yield from memory.turns()))
                shown.append((yield from memory.load()))
                yield from memory.clear()
            return shown

        first, second, third = [fx.run(seen(memory)) for memory in memories]

    assert first == second == third


# -- the state of a stateful prompt

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | KEYS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
VALUES = st.dictionaries(KEYS, JSON, max_size=3)
STATES = st.fixed_dictionaries({"values": VALUES}, optional={"effects": st.dictionaries(KEYS, KEYS, max_size=2)})


@st.composite
def _commits_with(draw: st.DrawFn) -> list[tuple[Prompt, dict[str, Any] | None]]:
    """Commits, some of them with a state as JSON data; some states without messages."""
    alone = [(Prompt.empty, state) for state in draw(st.lists(STATES, max_size=2))]
    said = [(messages, draw(st.none() | STATES)) for messages in draw(_commits())]
    for one in alone:
        said.insert(draw(st.integers(0, len(said))), one)
    return said


@settings(max_examples=examples(30))
@given(_commits_with(), WINDOWS, st.none() | st.integers(1, 3))
def test_the_state_that_was_committed_last_is_loaded(
    commits: list[tuple[Prompt, dict[str, Any] | None]], window: Compaction, keep: int | None
) -> None:
    """Whatever was committed without one since, opened anew each time; the turns are as they are without states."""
    plain, in_process = (Memory.in_process(window, keep=keep) for _ in range(2))

    @fx.gen
    def follow(make: Callable[[], Memory]) -> Any:
        last: PromptState | None = None
        for messages, data in commits:
            state = None if data is None else PromptState.from_data(data).unwrap()
            ended = yield from make().commit_with(messages, state).result()
            last = state if state is not None and is_successful(ended) else last
            loaded: Any = yield from make().load_state()

            assert loaded == last
        return (yield from fx.all_(make().turns(), make().load()))

    with TemporaryDirectory() as folder:
        kept = [
            fx.run(follow(lambda: in_process)),
            fx.run(follow(lambda: Memory.file(Path(folder) / "memory.jsonl", window, keep=keep))),
            fx.run(follow(lambda: Memory.sqlite(Path(folder) / "memory.db", window, keep=keep))),
        ]
    for messages, _ in commits:
        fx.run(plain.commit(messages).result())
    without = fx.run(fx.all_(plain.turns(), plain.load()))

    assert kept == [without] * 3
