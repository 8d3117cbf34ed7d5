"""Answers of real servers, recorded, through the whole layer: nothing that they say is lost, there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fxai.messages import UnknownError
from tests.kit.recorded_findings import Finding, findings
from tests.kit.recorded_leaves import lost_of_error, pattern
from tests.kit.recorded_losses import APART, CHANGED, ERRORS, FOREIGN, LOST, OTHERS, UNHEARD, unexplained, unneeded
from tests.kit.recordings import OURS, WIRES, exchanges, replays

pytestmark = pytest.mark.slow

# All tests of a wire look at one replay: they stay in one process.
_EACH = [pytest.param(wire, id=wire, marks=pytest.mark.xdist_group(f"recordings-{wire}")) for wire in WIRES]
wires = pytest.mark.parametrize("wire", _EACH)

_LISTS: list[tuple[Any, Callable[[Finding], Iterable[str]]]] = [
    (LOST, lambda finding: finding.lost),
    (CHANGED, lambda finding: finding.changed),
    (OTHERS, lambda finding: finding.others or ()),
    (UNHEARD, lambda finding: finding.unheard),
    (FOREIGN, lambda finding: finding.foreign),
]


def _without_reason(wire: str, of: Callable[[Finding], Iterable[str]], reasons: Any) -> list[str]:
    left = [(one.replay.exchange.name, unexplained(of(one), reasons[wire])) for one in findings(wire)]
    return [f"{name}: {', '.join(found)}" for name, found in left if found]


@wires
def test_every_recording_is_replayed(wire: str) -> None:
    """Hundreds of exchanges, and each is an answer, or a typed failure where the server did not answer."""
    if not OURS and not exchanges(wire):
        pytest.skip("FXAI_RECORDINGS names a folder without recordings of this wire")
    failed = [one.exchange.name for one in replays(wire) if one.failure is not None and one.exchange.status < 400]

    assert len(exchanges(wire)) >= (200 if OURS else 1)
    assert len(failed) <= 5, failed


@wires
def test_every_leaf_of_an_answer_is_held(wire: str) -> None:
    """Text, reasoning with signatures, calls, hosted tools, sources, files, usage, ids: another leaf, other parts."""
    assert _without_reason(wire, lambda finding: finding.lost, LOST) == []


@wires
def test_a_stream_gives_the_parts_of_the_whole_answer(wire: str) -> None:
    """Split at random places; a stream of Anthropic's also where a whole answer was asked for."""
    apart = {one.replay.exchange.file: one.apart for one in findings(wire) if one.apart}

    assert {file: how for file, how in apart.items() if file not in APART[wire]} == {}
    assert not OURS or apart.keys() == APART[wire].keys()


@wires
def test_events_say_nothing_that_the_answer_does_not(wire: str) -> None:
    """So that nothing is lost where a stream is read for what it amounts to."""
    assert _without_reason(wire, lambda finding: finding.unheard, UNHEARD) == []


@wires
def test_an_answer_goes_back_as_it_came(wire: str) -> None:
    """The next request has each item of the answer again, leaf by leaf."""
    assert [one.exchange.name for one in replays(wire) if one.refusal is not None] == []
    assert _without_reason(wire, lambda finding: finding.changed, CHANGED) == []


@wires
def test_what_goes_back_is_what_others_sent(wire: str) -> None:
    """Where the recording has the next request, it holds no part of the answer that ours has not."""
    assert _without_reason(wire, lambda finding: finding.others or (), OTHERS) == []


@wires
def test_what_goes_back_fits_the_types_of_the_sdk(wire: str) -> None:
    """The official SDK's own parameter types, closed."""
    assert _without_reason(wire, lambda finding: finding.foreign, FOREIGN) == []


@wires
def test_errors_are_typed_and_keep_what_helps(wire: str) -> None:
    """A reason that is not unknown, with the provider's words, its code and the id of the request."""
    failed = [one for one in replays(wire) if one.exchange.status >= 400 and one.failure is not None]
    lost = [pattern(path) for one in failed for path in lost_of_error(one.exchange)]
    reasons = [one.failure.reason for one in failed if one.failure is not None]

    assert [reason for reason in reasons if reason.code is None or isinstance(reason, UnknownError)] == []
    assert unexplained(lost, ERRORS[wire]) == []
    assert not OURS or unneeded(lost, ERRORS[wire]) == []


@pytest.mark.skipif(not OURS, reason="the lists are about the recordings of the repository")
@wires
def test_every_reason_is_needed(wire: str) -> None:
    """A loss that is mended leaves its list."""
    left = [
        location
        for reasons, of in _LISTS
        for location in unneeded({one for finding in findings(wire) for one in of(finding)}, reasons[wire])
    ]

    assert left == []
