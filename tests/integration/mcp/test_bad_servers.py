"""Servers that die, hang, answer garbage, flood, or list what cannot be offered: each is a clear failure, and over."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from fxai import Timeout, fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection
from tests.kit.mcp_programs import by_hand, failure_of, left_running, used

pytestmark = pytest.mark.slow

LOOPS = ("asyncio", "trio")
BAD = {
    "dies_at_start": ("connection", "ended with the exit code 3", "no module named 'config'"),
    "hangs_at_start": ("timeout", "did not answer within 1 s", "longer timeout="),
    "deaf": ("timeout", "did not answer within 1 s", "longer timeout="),
    "hangs_in_list": ("timeout", "did not list its tools within 2 s", "longer timeout="),
    "wrong_types": ("invalid-answer", "breaks the protocol", "tools"),
    "wrong_ids": ("timeout", "did not list its tools within 2 s", "1 answers did not match a request"),
    "list_error": ("protocol", "-32000", "the database is away"),
    "endless_pages": ("limit", "more than 200 pages", "limits="),
    "many": ("limit", "listed more than 2000 tools", "limits="),
    "only_garbage": ("invalid-answer", "were not messages, first 'garbage'", "standard error"),
    "huge": ("limit", "a message of more than 16777216 bytes", "raise its limits"),
    "too_deep": (
        "invalid-answer",
        "cannot read the answer as JSON: nested too deep",
        "Report this to the server's authors",
    ),
    "requests": ("limit", "more than 256 requests at the same time", "raise its limits"),
}

# Where a program is cut off the loop matters; what an answer says is read alike on both.
BOTH = ("hangs_at_start", "dies_at_start", "only_garbage", "huge", "requests")
CASES = [(mode, loop) for at, mode in enumerate(BAD) for loop in (LOOPS if mode in BOTH else (LOOPS[at % 2],))]


def _tools(connection: Connection) -> Generator[EffectOf[Any], Any, list[str]]:
    yield fx.checkpoint()
    return [tool.name for tool in connection.tools]


@pytest.mark.parametrize(("mode", "backend"), CASES)
def test_a_bad_server_is_a_clear_failure_and_leaves_nothing_running(mode: str, backend: Any) -> None:
    """Opening it fails in time with its name, what happened and a remedy; its program and all theirs have ended."""
    kind, *words = BAD[mode]
    server = by_hand(mode, timeout=float(words[0].split()[-2]) if words[0].endswith(" s") else 30.0)

    failure = failure_of(used(server, _tools), backend)

    assert isinstance(failure, mcp.McpError)
    assert failure.kind == kind
    assert failure.server == server.name
    assert all(word in str(failure) for word in words), str(failure)
    assert left_running(server.name) == []


def test_a_program_that_is_not_there_says_so(backend: Any) -> None:
    """A command that does not exist is a failure to start that names the command."""
    failure = failure_of(used(mcp.stdio("no-such-program-here", "-x"), _tools), backend)

    assert failure.kind == "start"
    assert "'no-such-program-here -x': No such file or directory" in str(failure)
    assert "installed" in failure.remedy


def test_a_command_in_one_text_is_told_how_to_be_given() -> None:
    """Words that were given as one are no program: the remedy gives them apart."""
    failure = failure_of(used(mcp.stdio("no-such-program -x"), _tools), "asyncio")

    assert failure.kind == "start"
    assert failure.remedy.endswith("mcp.stdio('no-such-program', '-x')")


@pytest.mark.parametrize("mode", ["chatty", "floods_stderr", "old", "pages"])
def test_a_server_with_bad_manners_can_be_used(mode: str, backend: Any) -> None:
    """Lines that are no messages, an endless standard error, an end at the newest question, many pages: no matter."""
    server = by_hand(mode)

    names = fx.run(used(server, _tools), backend=backend)

    assert names == (["t0", "t1", "t2", "t3", "t4"] if mode == "pages" else ["search"])
    assert left_running(server.name) == []


@pytest.mark.parametrize("mode", ["stubborn", "orphans", "leaves_group", "daemon"])
def test_a_program_that_does_not_want_to_end_is_killed_with_its_children(mode: str, backend: Any) -> None:
    """A server that ignores SIGTERM, or leaves children behind, in its group or out of it: none of them runs after."""
    server = by_hand(mode)

    def during(connection: Connection) -> Generator[EffectOf[Any], Any, int]:
        yield fx.sleep(0.1)
        return len(left_running(server.name))

    running = fx.run(used(server, during), backend=backend)

    assert running == 2
    assert left_running(server.name) == []


def test_a_run_that_is_cancelled_ends_the_program(backend: Any) -> None:
    """A timeout in the middle of opening, and one in the middle of use, end the program too."""
    slow_to_open, in_use = by_hand("hangs_at_start"), by_hand("good")

    def sleeping(connection: Connection) -> Generator[EffectOf[Any], Any, None]:
        yield fx.sleep(60)

    for server in (slow_to_open, in_use):
        failure = failure_of(used(server, sleeping).timeout(0.7), backend)
        assert isinstance(failure, Timeout)

    assert left_running(slow_to_open.name) == left_running(in_use.name) == []


def test_failing_to_open_ends_the_program_at_once(backend: Any) -> None:
    """What failed to open is gone when the failure is there, though the scope around stays open."""
    server = by_hand("list_error")

    @fx.gen
    def program() -> Generator[EffectOf[Any, Any, Any], Any, list[str]]:
        yield server.open().exit()
        return left_running(server.name)

    assert fx.run(fx.scoped(program()), backend=backend) == []


def test_tools_that_cannot_be_offered_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """Bombs, foreign references, bad patterns and malformed tools are refused one by one; the others are offered."""

    def looked(connection: Connection) -> Generator[EffectOf[Any], Any, tuple[list[str], dict[str, str]]]:
        yield fx.checkpoint()
        return [tool.name for tool in connection.tools], {one.name: one.reason for one in connection.refused}

    offered, refused = fx.run(used(by_hand("bombs"), looked))

    assert offered == ["good", "slow"]
    assert set(refused) == {
        *(
            "doubled",
            "deep",
            "large",
            "fetches",
            "reads",
            "pattern",
            "circle",
            "output",
            "wordy",
            "good",
            "",
            "untyped",
        ),
        *("(number 15)", "(number 16)"),
    }
    assert "at most 10000 schemas" in refused["doubled"]
    assert "128 levels" in refused["deep"]
    assert "fetches nothing" in refused["fetches"]
    assert "not offered" in caplog.text


def test_a_pattern_that_never_ends_does_not_hold_up_a_call() -> None:
    """A pattern that backtracks for ever over an argument is a fault of the argument, told in time."""
    kit = fx.scoped(
        by_hand("bombs")
        .open()
        .flat_map(
            lambda connection: connection.bound.toolkit.call("slow", {"x": "a" * 60 + "b"}).provide(
                connection.bound.layer
            )
        )
    )

    outcome = fx.run(kit)

    assert outcome.is_failure
    assert outcome.encoded_result["type"] == "invalid-parameters"
