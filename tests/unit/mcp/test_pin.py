"""Pins: what was approved, in this process and in a file."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai import fx
from fxai.mcp import McpError, Pins
from tests.kit.every import every

SEEN = {"search": {"description": "a", "inputSchema": "s"}}
CHANGED = {"search": {"description": "b", "inputSchema": "s"}}


@pytest.fixture(params=["in process", "in a file"])
def pins(request: pytest.FixtureRequest, tmp_path: Path) -> Pins:
    """Pins of each kind."""
    return Pins.in_process() if request.param == "in process" else Pins.file(tmp_path / "deep" / "pins.json")


def test_what_was_never_seen_is_trusted_and_pinned(pins: Pins) -> None:
    """The first review holds nothing back; from then on, a part that differs is told."""
    first, again, changed = (fx.run(pins.review("git", seen)) for seen in (SEEN, SEEN, CHANGED))

    assert (first, again) == ({}, {})
    assert changed == {"search": ("description",)}


def test_a_change_stays_held_back_until_it_is_approved(pins: Pins) -> None:
    """A review pins nothing that changed; after approval the new form is the one that is trusted, the old is not."""
    fx.run(pins.review("git", SEEN))
    twice = [fx.run(pins.review("git", CHANGED)) for _ in range(2)]
    fx.run(pins.approve("git", CHANGED))

    assert twice == [{"search": ("description",)}] * 2
    assert fx.run(pins.review("git", CHANGED)) == {}
    assert fx.run(pins.review("git", SEEN)) == {"search": ("description",)}


def test_servers_do_not_share_their_pins_and_can_be_forgotten(pins: Pins) -> None:
    """What one server's tool was says nothing of another's; a server that is forgotten is as if never seen."""
    fx.run(pins.review("git", SEEN))

    assert fx.run(pins.review("other", CHANGED)) == {}
    fx.run(pins.forget("git"))
    assert fx.run(pins.review("git", CHANGED)) == {}
    assert fx.run(pins.review("other", SEEN)) == {"search": ("description",)}


def test_a_part_that_comes_or_goes_is_a_change() -> None:
    """A part that was not there before, or is not there any more, is among those that changed."""
    pins = Pins.in_process()
    fx.run(pins.review("git", {"search": {"title": "t"}}))

    assert fx.run(pins.review("git", {"search": {"annotations": "r"}})) == {"search": ("title", "annotations")}


def test_the_unseen_can_be_held_back(tmp_path: Path) -> None:
    """With `unseen="hold"` a tool that was never approved is new, and stays so until it is approved."""
    pins = Pins.file(tmp_path / "pins.json", unseen="hold")
    held = [fx.run(pins.review("git", SEEN)) for _ in range(2)]
    fx.run(pins.approve("git", SEEN))

    assert held == [{"search": ("new",)}] * 2
    assert fx.run(pins.review("git", SEEN)) == {}


def test_pins_of_one_file_are_equal_and_those_of_a_process_are_their_own(tmp_path: Path) -> None:
    """Two values of one file and policy are one; pins in the process are equal to themselves alone, and stay there."""
    file = Pins.file(tmp_path / "a")

    assert file == Pins.file(tmp_path / "a") == pickle.loads(pickle.dumps(file))
    assert file != Pins.file(tmp_path / "a", unseen="hold")
    assert hash(file) == hash(Pins.file(tmp_path / "a"))
    assert file != Pins.file(tmp_path / "b")
    assert file != str(tmp_path / "a")
    kept = Pins.in_process()
    assert len({kept, kept, Pins.in_process()}) == 2
    assert kept != Pins.in_process()
    assert kept.__eq__(kept)
    assert (repr(kept), repr(file)) == ("Pins.in_process()", f"Pins.file({str(tmp_path / 'a')!r})")
    with pytest.raises(TypeError, match=r"Pins\.file"):
        pickle.dumps(Pins.in_process())


def test_a_file_is_read_by_others_and_loses_nothing_to_them(tmp_path: Path) -> None:
    """Pins of one file see each other's; many that write at once lose none; nothing but the file and its lock stays."""
    path = tmp_path / "pins.json"

    def review(number: int) -> None:
        fx.run(Pins.file(path).review(f"s{number}", SEEN))

    threads = [threading.Thread(target=review, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    held = [fx.run(Pins.file(path).review(f"s{number}", CHANGED)) for number in range(12)]
    assert held == [{"search": ("description",)}] * 12
    assert sorted(one.name for one in tmp_path.iterdir()) == ["pins.json", "pins.json.lock"]


@every("text", ["", "{", "[]", '{"version": 2, "servers": {}}', '{"version": 1, "servers": {"a": 3}}'])
def test_a_file_that_cannot_be_read_trusts_nothing(text: str, tmp_path: Path) -> None:
    """A broken file is a failure that names it and says what to do; it is not overwritten."""
    path = tmp_path / "pins.json"
    path.write_text(text)

    failure = fx.run_result(Pins.file(path).review("git", SEEN)).failure()

    assert isinstance(failure, McpError)
    assert (failure.kind, failure.server) == ("pins", "git")
    assert "pins.json" in failure.problem
    assert path.read_text() == text


def test_a_tool_that_the_server_adds_later_is_blocked(pins: Pins) -> None:
    """A server that is known cannot add a tool without approval, even if its first listing was empty."""
    more = {**SEEN, "delete": {"description": "d"}}
    fx.run(pins.review("git", SEEN))
    fx.run(pins.review("empty", {}))
    held = fx.run(pins.review("git", more)), fx.run(pins.review("empty", SEEN))
    fx.run(pins.approve("git", {"delete": more["delete"]}))

    assert held == ({"delete": ("new",)}, {"search": ("new",)})
    assert fx.run(pins.review("git", more)) == {}


def test_later_tools_can_be_trusted_but_for_doubtful_names() -> None:
    """With `unseen="trust-all"` a later tool is trusted; a look-alike of a known tool is blocked."""
    pins = Pins.in_process(unseen="trust-all")
    fx.run(pins.review("git", SEEN))

    assert fx.run(pins.review("git", {**SEEN, "delete": {}, "se\u0430rch": {}})) == {"se\u0430rch": ("new", "name")}
    assert fx.run(pins.review("git", {"delete": {"title": "t"}})) == {"delete": ("title",)}


IMITATIONS = r"""
re\u0430d_file r\u0435ad_file read\u200b_file read_file\x1b[2J read_file\n \x20read_file read_fiIe read_fi1e
Read_File read-file read\u2010file r\xe9ad_file \uff52ead_file read_\xadfile read_\u202efile read_f\u0131le
"""


@every("name", [one.encode().decode("unicode-escape") for one in IMITATIONS.split()])
def test_a_name_that_looks_like_another_is_blocked(name: str) -> None:
    """Letters of other scripts, invisible characters, escape codes, case and hyphens make no new name."""
    tools = {"read_file": {"a": "1"}, name: {"a": "1"}}
    together, later = Pins.in_process(), Pins.in_process(unseen="trust-all")
    fx.run(later.review("git", {"read_file": {"a": "1"}}))

    assert fx.run(together.review("git", tools)) == {name: ("new", "name")}
    assert fx.run(later.review("git", {name: {"a": "1"}})) == {name: ("new", "name")}
    fx.run(later.approve("git", {name: {"a": "1"}}))
    assert fx.run(later.review("git", tools)) == {}


@every(
    "names",
    [
        ["read", "write"],
        ["a1", "a2"],
        ["get weather", "get news"],
        ["读取", "写入"],
        ["läsa", "skriva"],
        ["t00", "t10"],
    ],
)
def test_names_of_every_language_are_trusted(names: list[str]) -> None:
    """A name is not blocked for its letters alone."""
    assert fx.run(Pins.in_process().review("git", {name: {} for name in names})) == {}


@given(st.lists(st.text(max_size=4), unique=True, max_size=6), st.lists(st.text(max_size=4), unique=True, max_size=6))
def test_a_known_server_gains_no_tool_without_approval(first: list[str], later: list[str]) -> None:
    """After the first review, a tool is offered only if it was offered before, whatever the names are."""
    pins = Pins.in_process()
    held = fx.run(pins.review("git", {name: {} for name in first}))
    offered = {name for name in first if name not in held}

    held_later = fx.run(pins.review("git", {name: {} for name in later}))

    assert {name for name in later if name not in held_later} == offered & set(later)
