"""What a client makes of the chunks of an answer: the message that a `MessageBuilder` has of them."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.ui import ChunkError, MessageBuilder
from tests.kit.conformance import Case, case


def _parts(case: Case) -> list[dict[str, Any]]:
    builder = MessageBuilder("m")
    for chunk in case.given["chunks"]:
        builder.add(chunk)
    return [dict(part) for part in builder.message.parts]


@case("VE-152", "VE-153", "VE-157", "VE-158", "VE-159", "VE-162", "VE-165")
def test_the_parts_of_the_message(case: Case) -> None:
    """One for each call, whatever came of it; members that are not known are left aside."""
    assert _parts(case) == case.expect["parts"]


@case("VE-154", "VE-156")
def test_the_parts_of_the_message_in_the_newer_version(case: Case) -> None:
    """The text of parameters that are not whole is there, too; and what failed as an input is in `input`."""
    assert case.newer is not None
    assert _parts(case) == case.newer["expect"]["parts"]


@case("VE-155")
def test_a_mark_that_changes_makes_two_parts(case: Case) -> None:
    """One of a static, and one of a dynamic tool."""
    calls = [part["type"] for part in _parts(case) if "toolCallId" in part]
    assert (len(calls), calls) == (case.expect["part_count"], ["dynamic-tool", "tool-plug"])


@case("VE-161", "VE-163", "VE-164")
def test_what_is_no_chunk_or_has_no_place_is_an_error(case: Case) -> None:
    """It says what is wrong."""
    with pytest.raises(ChunkError) as raised:
        _parts(case)
    assert case.expect["error_contains"] in str(raised.value)
