"""What holds for every prompt, every part and every response."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from fxai.messages import (
    AiError,
    AnyPart,
    ApprovalRequest,
    AssistantMessage,
    ErrorPart,
    File,
    FilePart,
    FileUrl,
    Finish,
    InternalProviderError,
    Message,
    NetworkError,
    Part,
    Prompt,
    RateLimitError,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningPart,
    ReasoningStart,
    Response,
    ResponseMetadata,
    Source,
    StreamPart,
    StructuredOutputError,
    SystemMessage,
    Text,
    TextDelta,
    TextEnd,
    TextPart,
    TextStart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    ToolResult,
    ToolResultPart,
    Usage,
    UserMessage,
    WarningPart,
    merge_metadata,
    part_from_data,
    part_to_data,
)

_A = TypeVar("_A")


NAMES = st.text(max_size=5)
FLAGS = st.booleans()
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | FLAGS | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(NAMES, st.dictionaries(NAMES, JSON, max_size=2) | JSON, max_size=2)
DATA = st.binary(max_size=8) | st.builds(FileUrl, NAMES)


def _carrying(
    kind: type[_A], *fields: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]
) -> st.SearchStrategy[_A]:
    return st.builds(kind, *fields, metadata=METADATA, **named)


TEXTS = _carrying(TextPart, NAMES)
FILES = _carrying(FilePart, NAMES, DATA, st.none() | NAMES)
RESULTS = _carrying(ToolResultPart, NAMES, NAMES, JSON, FLAGS, FLAGS, FLAGS)
SAID = st.one_of(
    TEXTS,
    _carrying(ReasoningPart, NAMES),
    FILES,
    _carrying(ToolCallPart, NAMES, NAMES, JSON, FLAGS, FLAGS, st.none() | NAMES),
    RESULTS,
    _carrying(ToolApprovalRequestPart, NAMES, NAMES),
)
ANSWERS = _carrying(ToolApprovalResponsePart, NAMES, FLAGS, st.none() | NAMES)


def _tuple(listed: list[_A]) -> tuple[_A, ...]:
    return tuple(listed)


def _several(parts: st.SearchStrategy[_A]) -> st.SearchStrategy[tuple[_A, ...]]:
    return st.lists(parts, max_size=4).map(_tuple)


MESSAGES: st.SearchStrategy[Message] = st.one_of(
    _carrying(SystemMessage, NAMES),
    _carrying(UserMessage, _several(TEXTS | FILES)),
    _carrying(AssistantMessage, _several(SAID)),
    _carrying(ToolMessage, _several(RESULTS | ANSWERS)),
)
PROMPTS = st.lists(MESSAGES, max_size=4).map(Prompt)

COUNTS = st.none() | st.integers(0, 10**12)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
ERRORS = st.builds(
    AiError,
    NAMES,
    NAMES,
    st.one_of(
        st.builds(RateLimitError, NAMES, retry_after=st.none() | st.floats(0, 100)),
        st.builds(InternalProviderError, NAMES, COUNTS, FLAGS),
        st.builds(NetworkError, st.just("EncodeError"), NAMES),
        st.builds(StructuredOutputError, NAMES, NAMES, NAMES),
    ),
)
REASONS = st.sampled_from(["stop", "length", "content-filter", "tool-calls", "error", "pause", "pending", "other"])
TIMES = st.none() | st.integers(0, 2**34).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
CALLS = st.one_of(
    _carrying(ToolCall, NAMES, NAMES, JSON, FLAGS, FLAGS),
    _carrying(ToolCall, NAMES, NAMES, st.none(), FLAGS, FLAGS, NAMES),
)
FINAL = _carrying(ToolResult, NAMES, NAMES, JSON, is_failure=FLAGS, provider_executed=FLAGS, dynamic=FLAGS)
PARTS: st.SearchStrategy[Part] = st.one_of(
    _carrying(Text, NAMES),
    _carrying(Reasoning, NAMES),
    CALLS,
    FINAL,
    _carrying(ApprovalRequest, NAMES, NAMES),
    _carrying(File, NAMES, DATA, st.none() | NAMES),
    _carrying(Source, NAMES, st.none() | NAMES, st.none() | NAMES),
    _carrying(ResponseMetadata, st.none() | NAMES, st.none() | NAMES, TIMES),
    _carrying(Finish, REASONS, USAGES),
    _carrying(ErrorPart, ERRORS),
    _carrying(WarningPart, NAMES, st.sampled_from(["not-strict", "other"]), st.none() | NAMES),
)
PIECES: st.SearchStrategy[StreamPart] = st.one_of(
    _carrying(TextStart, NAMES),
    _carrying(TextDelta, NAMES, NAMES),
    _carrying(TextEnd, NAMES),
    _carrying(ReasoningStart, NAMES),
    _carrying(ReasoningDelta, NAMES, NAMES),
    _carrying(ReasoningEnd, NAMES),
    _carrying(ToolParamsStart, NAMES, NAMES, FLAGS, FLAGS),
    _carrying(ToolParamsDelta, NAMES, NAMES),
    _carrying(ToolParamsEnd, NAMES),
)


@st.composite
def _cut(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    locations = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *locations], [*locations, len(text)], strict=True)]


def _streamed(draw: st.DrawFn, part: Part, name: str) -> list[StreamPart]:
    """A whole part as it might come in pieces, its metadata at the start, on the way or at the end."""
    first, between, last = draw(st.permutations([part.metadata, {}, {}]))
    if isinstance(part, Text):
        middle = [TextDelta(name, piece) for piece in draw(_cut(part.text))]
        middle[0] = msgspec.structs.replace(middle[0], metadata=between)
        return [TextStart(name, metadata=first), *middle, TextEnd(name, metadata=last)]
    if isinstance(part, Reasoning):
        thoughts = [ReasoningDelta(name, piece) for piece in draw(_cut(part.text))]
        thoughts[0] = msgspec.structs.replace(thoughts[0], metadata=between)
        return [ReasoningStart(name, metadata=first), *thoughts, ReasoningEnd(name, metadata=last)]
    if isinstance(part, ToolCall):
        called = msgspec.structs.replace(part, id=name, metadata=last)
        written = [ToolParamsDelta(name, piece) for piece in draw(_cut("{…}"))]
        return [
            ToolParamsStart(name, part.name, metadata=first),
            *written,
            ToolParamsEnd(name, metadata=between),
            called,
        ]
    return [part]


@st.composite
def _split(draw: st.DrawFn) -> tuple[list[Part], list[StreamPart]]:
    """Whole parts, and a stream of them in which the pieces of different parts interleave in any way."""
    whole: list[Part] = []
    queues: list[list[StreamPart]] = []
    for location, part in enumerate(draw(st.lists(PARTS, max_size=5))):
        whole.append(msgspec.structs.replace(part, id=str(location)) if isinstance(part, ToolCall) else part)
        queues.append(_streamed(draw, part, str(location)))
    stream: list[StreamPart] = []
    started = 0
    while any(queues):
        ready = [queue for queue in queues[:started] if queue]
        if started < len(queues) and (not ready or draw(FLAGS)):
            ready, started = [queues[started]], started + 1
        stream.append(draw(st.sampled_from(ready)).pop(0))
    return whole, stream


@given(PROMPTS)
def test_a_prompt_comes_back_from_json(prompt: Prompt) -> None:
    """Reading what was written gives an equal prompt: text, data, and pickled bytes."""
    assert Prompt.from_json(prompt.to_json()).unwrap() == prompt
    assert Prompt.from_data(prompt.to_data()).unwrap() == prompt
    assert pickle.loads(pickle.dumps(prompt)) == prompt


@given(PROMPTS)
def test_what_was_read_can_be_made(prompt: Prompt) -> None:
    """`make` takes the plain data that `to_data` gives, and a prompt as it is."""
    assert Prompt.make(prompt.to_data()) == prompt == Prompt.make(prompt)


@given(PARTS | PIECES)
def test_a_part_comes_back_from_data(part: AnyPart) -> None:
    """Every part, whole or streamed, is written and read back equal, with an equal hash."""
    back = part_from_data(part_to_data(part)).unwrap()

    assert back == part
    assert hash(back) == hash(part)


@given(st.lists(PARTS, max_size=5))
def test_a_response_comes_back_from_json(parts: list[Part]) -> None:
    """Reading what was written gives an equal response."""
    response = Response(tuple(parts))

    assert Response.from_json(response.to_json()).unwrap() == response


@given(
    st.lists(st.dictionaries(st.sampled_from(["role", "content", "type", "text"]), JSON | st.just("user")) | JSON)
    | JSON
)
def test_reading_never_breaks(data: object) -> None:
    """Whatever data comes from outside, reading gives a prompt, a response and an error, or says what is wrong."""
    for read in (Prompt.from_data, Response.from_data, AiError.from_data, part_from_data):
        outcome = read(data)

        assert is_successful(outcome) or outcome.failure().faults


@given(st.text() | st.binary())
def test_reading_text_never_breaks(text: str | bytes) -> None:
    """Whatever text comes from outside, too."""
    for read in (Prompt.from_json, Response.from_json, AiError.from_json):
        outcome = read(text)

        assert is_successful(outcome) or outcome.failure().faults


@given(PROMPTS, PROMPTS, PROMPTS)
def test_prompts_are_a_monoid(a: Prompt, b: Prompt, c: Prompt) -> None:
    """Concatenation is associative, and the empty prompt is neutral on both sides."""
    assert (a + b) + c == a + (b + c)
    assert a + Prompt.empty == a == Prompt.empty + a
    assert (a + b).messages == a.messages + b.messages


@given(USAGES, USAGES, USAGES)
def test_usages_are_a_commutative_monoid(a: Usage, b: Usage, c: Usage) -> None:
    """Totals do not depend on the order or the grouping of what is added."""
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a


@given(METADATA, METADATA, METADATA)
def test_metadata_merges_associatively(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    """It does not matter how the pieces of a part are grouped."""
    if all(isinstance(said, dict) for metadata in (a, b, c) for said in metadata.values()):
        assert merge_metadata(merge_metadata(a, b), c) == merge_metadata(a, merge_metadata(b, c))
    assert merge_metadata(a, {}) == a == merge_metadata({}, a)


@given(_split())
def test_a_split_response_is_gathered_whole(split: tuple[list[Part], list[StreamPart]]) -> None:
    """However a response is cut into pieces and however they interleave, gathering gives the response."""
    whole, stream = split

    assert list(Response.from_stream(stream).content) == whole


@given(st.lists(PARTS, max_size=6))
def test_gathering_changes_nothing_that_is_whole(parts: list[Part]) -> None:
    """Whole parts pass through, so gathering twice is gathering once."""
    assert list(Response.from_stream(parts).content) == parts


@given(_split(), CALLS)
def test_a_repaired_call_takes_one_place(split: tuple[list[Part], list[StreamPart]], call: ToolCall) -> None:
    """Behind however a turn was told, it changes the call of its id and nothing else."""
    whole, stream = split
    spoken = [part for part in stream if part.type != "finish"]
    said = next((part for part in whole if part.type == "tool-call"), None)
    parts = [part for part in whole if part.type != "finish"]
    mended = msgspec.structs.replace(call, id="none" if said is None else said.id, repaired=True, metadata={})
    gathered = list(Response.from_stream([*spoken, mended]).content)

    if said is None:
        assert gathered == [*parts, mended]
    else:
        kept = msgspec.structs.replace(mended, metadata=said.metadata)
        assert gathered == [kept if part is said else part for part in parts]
        assert part_from_data(part_to_data(kept)).unwrap() == kept


@given(_split(), st.integers(0, 40))
def test_a_cut_stream_is_a_beginning(split: tuple[list[Part], list[StreamPart]], cut: int) -> None:
    """A stream that breaks off gives no more and no other text than the whole one, and as many parts as had started."""
    _, stream = split
    whole, part = Response.from_stream(stream).content, Response.from_stream(stream[:cut]).content

    assert len(part) <= len(whole)
    for before, after in zip(part, whole, strict=False):
        assert before.type == after.type
        if isinstance(before, Text | Reasoning) and isinstance(after, Text | Reasoning):
            assert after.text.startswith(before.text)


def _kept(parts: Sequence[Part]) -> list[tuple[object, ...]]:
    """What of a response belongs to the conversation, in a form that does not know where it went."""
    kept: list[tuple[object, ...]] = []
    for part in parts:
        match part:
            case Text() | Reasoning() if part.text or part.metadata:
                kept.append((part.type, part.text, part.metadata))
            case ToolCall():
                kept.append((part.type, part.id, part.name, part.params, part.params_text, part.dynamic, part.metadata))
            case ToolResult(preliminary=False):
                kept.append((part.type, part.id, part.name, part.encoded_result, part.is_failure, part.metadata))
            case ApprovalRequest():
                kept.append((part.type, part.approval_id, part.tool_call_id, part.metadata))
            case File():
                kept.append((part.type, part.media_type, part.data, part.file_name, part.metadata))
            case _:
                pass
    return kept


def _said(prompt: Prompt) -> list[tuple[object, ...]]:
    """The same of a prompt."""
    said: list[tuple[object, ...]] = []
    for part in (part for message in prompt if message.role != "system" for part in message.content):
        match part.type:
            case "text" | "reasoning":
                said.append((part.type, part.text, part.metadata))
            case "tool-call":
                said.append((part.type, part.id, part.name, part.params, part.params_text, part.dynamic, part.metadata))
            case "tool-result":
                said.append((part.type, part.id, part.name, part.result, part.is_failure, part.metadata))
            case "tool-approval-request":
                said.append((part.type, part.approval_id, part.tool_call_id, part.metadata))
            case "file":
                said.append((part.type, part.media_type, part.data, part.file_name, part.metadata))
            case "tool-approval-response":
                pass
    return said


@given(st.lists(PARTS | st.builds(ToolResult, NAMES, NAMES, JSON, preliminary=st.just(True)), max_size=8))
def test_the_fold_keeps_what_was_said(parts: list[Part]) -> None:
    """Every text, thought, call, request, file and final result is in the history once, with all that it carries."""
    prompt = Prompt.from_parts(parts)

    assert sorted(map(repr, _said(prompt))) == sorted(map(repr, _kept(parts)))
    assert all(message.role in {"assistant", "tool"} and message.content for message in prompt)


@given(st.lists(PARTS, max_size=8))
def test_the_fold_keeps_the_order_of_what_the_model_said(parts: list[Part]) -> None:
    """The parts of assistant messages stand as the model gave them, and where a request for approval stood is one."""
    local = [part for part in parts if not (isinstance(part, ToolResult) and not part.provider_executed)]
    answers = Prompt(message for message in Prompt.from_parts(parts) if message.role == "assistant")

    assert _by_place(_said(answers)) == _by_place(_kept(local))


def _by_place(parts: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The parts, of requests for approval no more than that: they stand in the order of their calls."""
    return [part[:1] if part[0] == "tool-approval-request" else part for part in parts]


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_requests_for_approval_stand_in_the_order_of_their_calls(calls: list[int], requests: list[int]) -> None:
    """In whatever order they came."""
    parts: list[Part] = [ToolCall(str(number), "t", {}) for number in calls]
    parts += [ApprovalRequest(f"a{number}", str(number)) for number in requests]
    said = _said(Prompt.from_parts(parts))

    found = [part[2] for part in said if part[0] == "tool-approval-request"]
    assert found == [str(number) for number in calls]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 3)), max_size=40))
def test_appends_never_disturb_each_other(steps: list[tuple[int, int, int]]) -> None:
    """Whatever grows from whatever, in any order, each prompt holds just what was put into it."""
    grown: list[tuple[Prompt, tuple[Message, ...]]] = [
        (Prompt.empty, ()),
        (Prompt.make("hi"), Prompt.make("hi").messages),
    ]
    for step, (one, other, length) in enumerate(steps):
        (left, held), (right, beside) = grown[one % len(grown)], grown[other % len(grown)]
        if length == 0:
            grown.append((left + right, held + beside))
        else:
            more = tuple(SystemMessage(f"{step}.{number}") for number in range(length))
            grown.append((left.append(*more), held + more))

    for prompt, expected in grown:
        assert prompt.messages == expected
        assert len(prompt) == len(expected)
        assert prompt == Prompt(expected)
