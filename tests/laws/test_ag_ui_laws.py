"""What holds for each run as events of AG-UI: they are of their forms, all that starts ends, the messages are ours."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fxai.ui import AgUiEncoder, Chunk, MessageBuilder, to_ag_ui
from tests.kit.ag_ui_client import check_events, read_messages, without_ids
from tests.kit.ui_runs import chunks


def events_of(sent: list[Chunk]) -> list[dict[str, Any]]:
    """The events of a run."""
    encoder = AgUiEncoder("thread", "run")
    return [event for chunk in sent for event in encoder.encode(chunk)] + encoder.end()


@given(chunks())
def test_each_event_is_of_its_form_and_each_start_has_its_end(sent: list[Chunk]) -> None:
    """However the run ends."""
    check_events(events_of(sent))


@given(chunks())
def test_the_messages_of_a_client_are_those_of_the_server(sent: list[Chunk]) -> None:
    """But for their ids: a client that read the run has what one has that reads the conversation."""
    builder = MessageBuilder("m")
    for chunk in sent:
        builder.add(chunk)
    theirs, ours = read_messages(events_of(sent)), to_ag_ui([builder.message])
    assert without_ids(theirs) == without_ids(ours)
    assert len({message["id"] for message in theirs}) == len(theirs)
    assert len({message["id"] for message in ours}) == len(ours)


@given(
    st.lists(chunks(), min_size=1, max_size=2).flatmap(
        lambda some: st.permutations([one for run in some for one in run])
    )
)
def test_chunks_in_any_order_give_events_in_a_right_one(sent: list[Chunk]) -> None:
    """A producer that does not keep to the order of chunks does not break a client."""
    check_events(events_of([{"type": "start"}, *(chunk for chunk in sent if chunk["type"] != "start")]))
