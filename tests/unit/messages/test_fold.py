"""The fold: what the parts of a response leave in the history."""

from __future__ import annotations

from fxai.messages import (
    AiError,
    AnyPart,
    ApprovalRequest,
    AssistantMessage,
    ErrorPart,
    Finish,
    Prompt,
    Reasoning,
    ReasoningPart,
    ResponseMetadata,
    Source,
    Text,
    TextDelta,
    TextStart,
    ToolApprovalRequestPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolParamsStart,
    ToolResult,
    ToolResultPart,
    UnknownError,
    WarningPart,
)


def test_results_that_come_early_do_not_split_a_turn() -> None:
    """A result that is there before the model's turn has ended still follows the whole turn."""
    prompt = Prompt.from_parts(
        [ToolCall("a", "t", {}), ToolResult("a", "t", 1), Text("and"), ToolCall("b", "t", {}), ToolResult("b", "t", 2)]
    )

    assert prompt.messages == (
        AssistantMessage.make(ToolCallPart("a", "t", {}), "and", ToolCallPart("b", "t", {})),
        ToolMessage.make(ToolResultPart("a", "t", 1), ToolResultPart("b", "t", 2)),
    )


def test_a_finish_ends_a_turn() -> None:
    """The parts of several turns in a row make several turns, even where calls share an id; results may come late."""
    prompt = Prompt.from_parts(
        [
            ToolCall("a", "t", 1),
            ToolResult("a", "t", 1),
            Finish("tool-calls"),
            ToolCall("a", "t", 2),
            Finish("tool-calls"),
            ToolResult("a", "t", 2),
            Text("done"),
            Finish("stop"),
        ]
    )

    assert prompt.messages == (
        AssistantMessage.make(ToolCallPart("a", "t", 1)),
        ToolMessage.make(ToolResultPart("a", "t", 1)),
        AssistantMessage.make(ToolCallPart("a", "t", 2)),
        ToolMessage.make(ToolResultPart("a", "t", 2)),
        AssistantMessage.make("done"),
    )


def test_results_of_an_earlier_turn_come_first() -> None:
    """The result of a call that an earlier turn made stands right behind that turn, before what is said now."""
    prompt = Prompt.from_parts([Text("done"), ToolResult("old", "t", 1), Finish("stop")])

    assert prompt.messages == (ToolMessage.make(ToolResultPart("old", "t", 1)), AssistantMessage.make("done"))


def test_text_that_was_cut_is_kept() -> None:
    """A stream that broke off leaves as much of the text as came."""
    error = ErrorPart(AiError("M", "f", UnknownError()))

    assert Prompt.from_parts([TextStart("1"), TextDelta("1", "par"), error]).messages == (AssistantMessage.make("par"),)


def test_a_call_that_was_cut_is_kept_with_its_text() -> None:
    """Parameters that broke off stay in the history as text, under the call's id."""
    prompt = Prompt.from_parts([ToolParamsStart("1", "t", dynamic=True)])

    assert prompt.messages == (AssistantMessage.make(ToolCallPart("1", "t", None, dynamic=True, params_text="")),)


def test_empty_text_is_no_part_of_a_conversation() -> None:
    """An empty text is dropped, for no provider takes one; an empty part that carries metadata is kept."""
    redacted = Reasoning("", metadata={"acme": {"encrypted": "…"}})

    assert Prompt.from_parts([Text(""), Reasoning("")]) == Prompt.empty
    assert Prompt.from_parts([redacted]).messages == (
        AssistantMessage.make(ReasoningPart("", metadata=redacted.metadata)),
    )


def test_what_is_about_the_response_is_no_part_of_the_conversation() -> None:
    """Sources, warnings, errors, metadata of the response and its finish leave nothing."""
    error = ErrorPart(AiError("M", "f", UnknownError()))
    about: list[AnyPart] = [ResponseMetadata("r"), Source("s"), WarningPart("w"), error, Finish("stop")]

    assert Prompt.from_parts(about) == Prompt.empty


def test_approval_requests_stay_with_their_calls() -> None:
    """A question for a person stands in the assistant message, behind the call."""
    prompt = Prompt.from_parts([ToolCall("1", "t", {}), ApprovalRequest("a", "1"), Finish("pending")])

    assert prompt.messages == (AssistantMessage.make(ToolCallPart("1", "t", {}), ToolApprovalRequestPart("a", "1")),)


def test_flags_and_metadata_stay() -> None:
    """A dynamic call and its failed result keep their flags and what the provider said."""
    prompt = Prompt.from_parts(
        [
            ToolCall("1", "t", {}, dynamic=True, metadata={"acme": {"id": "c"}}),
            ToolResult("1", "t", object(), "bad", is_failure=True, dynamic=True, metadata={"acme": {"id": "r"}}),
        ]
    )

    assert prompt.messages == (
        AssistantMessage.make(ToolCallPart("1", "t", {}, dynamic=True, metadata={"acme": {"id": "c"}})),
        ToolMessage.make(
            ToolResultPart("1", "t", "bad", is_failure=True, dynamic=True, metadata={"acme": {"id": "r"}})
        ),
    )
