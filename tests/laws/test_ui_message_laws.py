"""What holds for the message of each run: it is of its form, says what the run said, and can be gone on with."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from fxai import Prompt
from fxai.messages import (
    ApprovalRequest,
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    Response,
    StreamPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    ToolResultPart,
    UserMessage,
)
from fxai.tools import Denied
from fxai.ui import (
    Chunk,
    ChunkEncoder,
    MessageBuilder,
    RequestLimits,
    StreamOptions,
    UIMessage,
    from_prompt,
    read_message,
    read_messages,
    to_prompt,
)
from tests.kit.ui_runs import DATA, TEXTS, Sent, chunks, runs


def built(sent: list[Chunk], before: UIMessage | None = None) -> MessageBuilder:
    """The builder of these chunks."""
    builder = MessageBuilder("m", before)
    for chunk in sent:
        builder.add(chunk)
    return builder


def encoded(parts: list[Sent]) -> list[Chunk]:
    """The chunks of a run that ended well."""
    encoder = ChunkEncoder(StreamOptions(signatures=True), message_id="m")
    return [*encoder.start(), *(chunk for part in parts for chunk in encoder.encode(part)), *encoder.finish()]


@given(chunks())
def test_the_message_of_each_stream_is_one_that_a_client_may_send_back(sent: list[Chunk]) -> None:
    """Wherever the stream ends; it is read as it was."""
    message = built(sent).message
    assert read_message(message.to_data()).unwrap() == message


@given(runs())
def test_the_message_says_what_the_run_said(parts: list[Sent]) -> None:
    """Its texts, its calls with their parameters, and what came of each of them."""
    message = built(encoded(parts)).message
    told = Response.from_stream(part for part in parts if isinstance(part, StreamPart))
    calls = [(part["toolCallId"], part["input"]) for part in message.parts if "toolCallId" in part]

    asked = {part.tool_call_id for part in parts if isinstance(part, ApprovalRequest)}

    assert message.text == told.text
    assert calls == [(part.id, part.params) for part in told.tool_calls]
    for part in told.tool_results:
        (shown,) = (each for each in message.parts if each.get("toolCallId") == part.id)
        assert _outcome(shown) == _warned(part, asked=part.id in asked)


def _outcome(part: Any) -> Any:
    return part.get("output") if part["state"] == "output-available" else part.get("errorText", part["state"])


def _warned(result: Any, *, asked: bool) -> Any:
    return "output-denied" if asked and isinstance(result.result, Denied) else result.encoded_result


@given(chunks(), st.data())
def test_a_message_that_is_gone_on_with_is_the_message_of_all_chunks(sent: list[Chunk], data: st.DataObject) -> None:
    """Where the first chunks ended nothing in its middle: a step, or the whole stream."""
    ends = [at + 1 for at, chunk in enumerate(sent) if chunk["type"] in ("start", "finish-step")]
    at = data.draw(st.sampled_from(ends)) if ends else len(sent)
    first = built(sent[:at])
    open_ = {part.get("id") for part in first.message.parts if part.get("state") == "streaming"}
    rest = [chunk for chunk in sent[at:] if chunk.get("id") not in open_ or chunk["type"].endswith("-start")]
    whole = [*sent[:at], *rest]
    assert built(rest, first.message).message == built(whole).message


@given(chunks())
def test_looking_at_a_message_in_between_changes_nothing(sent: list[Chunk]) -> None:
    """Whoever looks, and how often."""
    watched = MessageBuilder("m")
    for chunk in sent:
        watched.add(chunk)
        assert watched.message.id == "m"
    assert watched.message == built(sent).message


# -- prompts

ALL = RequestLimits(file_urls=True)


@given(runs())
def test_the_prompt_of_the_message_of_a_run_is_the_history_of_the_run(parts: list[Sent]) -> None:
    """So that a server that keeps nothing tells the model the same: of a denied call that it was denied."""
    prompt = to_prompt([built(encoded(parts)).message]).unwrap()
    history = Prompt.from_parts(part for part in parts if isinstance(part, StreamPart))
    results = [part for part in parts if isinstance(part, ToolResult)]
    denied = {result.id for result in results if isinstance(result.result, Denied)}
    assert [_read(message, denied) for message in prompt] == [_read(message, denied) for message in history]


def _read(message: Message, denied: set[str]) -> tuple[Any, ...]:
    """What a model reads of a message; requests for approvals behind all else."""
    if message.role == "system":
        return (message.role, message.content)
    content: list[Any] = sorted(message.content, key=lambda part: part.type == "tool-approval-request")
    return (message.role, [part.id if getattr(part, "id", None) in denied else part for part in content])


WORDS = st.text(min_size=1, max_size=8)


def _metadata(data: Any) -> Any:
    return {"acme": {"signature": data}}


NONE: dict[str, Any] = {}
METADATA: st.SearchStrategy[Any] = st.just(NONE) | DATA.map(_metadata)


@st.composite
def said(draw: st.DrawFn) -> Message:
    """What a user says, or instructions."""
    if draw(st.booleans()):
        return SystemMessage(draw(WORDS))
    name = draw(st.none() | WORDS)
    file = st.builds(FilePart, st.just("image/png"), st.binary(max_size=8), st.just(name))
    parts = st.lists(WORDS | file | st.just(FilePart.of_url("text/plain", "https://x", name)), min_size=1, max_size=3)
    return UserMessage.make(*draw(parts))


@st.composite
def turns(draw: st.DrawFn, at: int) -> list[Message]:
    """A turn of an agent, and the answers to its calls, each of which is over, waits, or was answered."""
    content: list[Any] = [draw(st.builds(TextPart, WORDS, metadata=METADATA))]
    answers: list[Any] = []
    for number in range(draw(st.integers(0, 3))):
        id_, dynamic = f"{at}-{number}", draw(st.booleans())
        content.append(draw(st.builds(ReasoningPart, WORDS, metadata=METADATA)))
        params = draw(st.dictionaries(WORDS, DATA, max_size=2))
        content.append(ToolCallPart(id_, "tool", params, dynamic=dynamic, metadata=draw(METADATA)))
        if draw(st.booleans()):
            signed = (draw(WORDS), draw(st.none() | st.floats(0, 1e10)), draw(WORDS))
            content.append(ToolApprovalRequestPart(f"a{id_}", id_, *signed))
            approved = draw(st.sampled_from([None, True, False]))
            answers += [] if approved is None else [ToolApprovalResponsePart(f"a{id_}", approved, draw(WORDS))]
            if approved is None:
                continue
            if not approved:
                denial = {"type": "execution-denied", "reason": answers[-1].reason}
                answers.append(ToolResultPart(id_, "tool", denial, is_failure=True, dynamic=dynamic))
                continue
        result = draw(st.none() | st.tuples(DATA, st.just(False)) | st.tuples(TEXTS, st.just(True)))
        if result is not None:
            output, failed = result
            answers.append(ToolResultPart(id_, "tool", output, failed, dynamic=dynamic, metadata=draw(METADATA)))
    return [AssistantMessage(tuple(content)), *([ToolMessage(tuple(answers))] if answers else [])]


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    """A conversation."""
    some = [draw(said().map(lambda one: [one]) | turns(at)) for at in range(draw(st.integers(0, 5)))]
    return Prompt(message for each in some for message in each)


@given(prompts())
def test_a_prompt_that_went_through_a_page_is_the_prompt_that_it_was(prompt: Prompt) -> None:
    """As JSON, with its signatures, whatever waits in it."""
    page = [message.to_data() for message in from_prompt(prompt)]
    back = read_messages(msgspec.json.decode(msgspec.json.encode(page))).unwrap()
    assert to_prompt(back, limits=ALL, system=True, metadata=True) == Success(prompt)


@given(prompts(), st.integers(0, 5))
def test_a_page_of_a_prompt_begins_as_the_page_of_its_beginning(prompt: Prompt, end: int) -> None:
    """All messages but the last one, which may go on."""
    first = from_prompt(Prompt(list(prompt)[:end]))
    assert from_prompt(prompt)[: len(first[:-1])] == first[:-1]
