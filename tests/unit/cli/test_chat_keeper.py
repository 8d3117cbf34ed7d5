"""Which conversation `fxai chat --resume` goes on with, and how conversations are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxai.agents.draft import Draft
from fxai.cli.chat_keeper import StoreKeeper, choose_conversation, conversation_lines, store_at
from fxai.cli.exit import CliError
from fxai.cli.run_program import BackgroundRunner
from fxai.effects import fx
from fxai.messages import Prompt
from fxai.ui import Conversations, ConversationSummary
from tests.kit.every import every

EVIL = "\x1b]0;owned\x07\u202e\nowned"


def summary(id_: str, title: str) -> ConversationSummary:
    """A conversation of this title."""
    return ConversationSummary(id_, "local", title, 0.0, 0.0)


KNOWN = [summary("c3", "Trip to Oslo"), summary("b2", "Oslo"), summary("a1", "Rome")]


@every(("wanted", "id_"), [("", "c3"), ("a1", "a1"), ("rom", "a1"), ("OSLO", "b2"), ("trip", "c3")])
def test_a_conversation_is_found_by_its_id_or_title(wanted: str, id_: str) -> None:
    """The newest without words; a whole title goes before a part of one, and upper and lower case are one."""
    assert choose_conversation(KNOWN, wanted) == id_


@pytest.mark.parametrize(
    ("wanted", "said"), [("o", "several conversations"), ("Paris", "no conversation"), (f"{EVIL}x", "no")]
)
def test_none_and_several_are_told_in_one_line(wanted: str, said: str) -> None:
    """Neither the words nor the titles can steer a terminal, or imitate a second line."""
    with pytest.raises(CliError) as refused:
        choose_conversation([*KNOWN, summary("d4", f"o{EVIL}")], wanted)

    assert said in str(refused.value)
    assert str(refused.value).isprintable()


def test_where_nothing_was_kept_that_is_told() -> None:
    """There is nothing to go on with, not even without words."""
    with pytest.raises(CliError, match="no conversation is stored"):
        choose_conversation([], "")


def test_the_list_is_short_and_clean() -> None:
    """A line for each, of twenty at most; titles cannot break it."""
    lines = conversation_lines([summary(f"c{number}", EVIL) for number in range(25)])

    assert len(lines) == 21
    assert lines[-1] == "and 5 older ones"
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", ["kept", "kept.db"])
def test_a_turn_that_fails_leaves_the_conversation_as_it_was(name: str, tmp_path: Path) -> None:
    """The first turn leaves none behind; a later one is left out of what goes on."""
    hello = Prompt.make("Hello")
    with BackgroundRunner() as background:
        store = store_at(str(tmp_path / name))
        keeper = StoreKeeper(background, store)

        def turn(ended: str) -> None:
            draft = Draft(background.value_of(keeper.memory.load()))
            keeper.start(hello)
            draft.messages = hello
            keeper.end(draft, "failed" if ended == "failed" else "done")

        turn("failed")
        nothing = fx.run(store.list("local"))
        turn("done")
        turn("failed")
        found = keeper.find()
        turn("done")
        history = background.value_of(keeper.memory.load())

    assert nothing == ()
    assert found is not None
    assert len(found.history()) == 1
    assert len(history) == 2


def test_no_place_for_conversations_is_told(tmp_path: Path) -> None:
    """A file that is no database, and a folder that is not there, are refused before anything runs."""
    (tmp_path / "notes.txt").write_text("")
    for location in ("notes.txt", "none/kept"):
        with pytest.raises(CliError, match="cannot store conversations in"):
            store_at(str(tmp_path / location))
    assert isinstance(store_at(str(tmp_path)), Conversations)
