"""Approval over MCP: asked where the client can be asked, refused where it cannot, and never run without a yes."""

from __future__ import annotations

from typing import Any, Never

import anyio
import mcp
import pytest
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)
from pydantic import TypeAdapter
from returns.result import Failure, Result, Success

from fxai import BoundToolkit, tool
from fxai.annotations import Title
from fxai.effects import Cause, EffectOf, Interrupt, fx
from fxai.mcp import ToolServer
from fxai.schema import DecodeFailure, Fault
from fxai.tools import Tool, Toolkit
from tests.kit.mcp_client import Era, refused, text, used

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool(needs_approval=True)
def erase(path: str) -> str:
    """Erases a file."""
    ran.append(path)
    return f"{path} is gone"


def answering(action: Any, content: Any, asked: list[Any] | None = None) -> dict[str, Any]:
    """The options of a client whose person answers so."""

    async def answer(_: Any, params: Any) -> ElicitResult:
        if asked is not None:
            asked.append(params)
        return ElicitResult(action=action, content=content)

    return {"elicitation_callback": answer}


async def _call(client: mcp.Client, _: ToolServer) -> CallToolResult:
    return await client.call_tool("erase", {"path": "/tmp/x"})


@both_eras
def test_a_yes_lets_the_call_run(backend: str, era: Era) -> None:
    """The person is asked, told tool and arguments, and after a yes the call runs, once."""
    asked: list[Any] = []
    result = used(erase, _call, backend, era, answering("accept", {"approve": True}, asked))

    assert (result.content[0].text, ran) == ("/tmp/x is gone", ["/tmp/x"])
    assert [('{"path":"/tmp/x"}' in one.message, "erase" in one.message) for one in asked] == [(True, True)]


@both_eras
@pytest.mark.parametrize(
    ("action", "content"),
    [
        ("accept", {"approve": False}),
        ("accept", {}),
        ("accept", None),
        ("accept", {"approve": "yes"}),
        ("accept", {"approve": 1}),
        ("decline", None),
        ("decline", {"approve": True}),
        ("cancel", None),
    ],
)
def test_anything_but_a_yes_is_a_no(backend: str, era: Era, action: Any, content: Any) -> None:
    """Only an accepted form that says true approves; the result says that it was not run."""
    result = used(erase, _call, backend, era, answering(action, content))

    assert ran == []
    assert result.is_error
    assert result.structured_content["type"] == "execution-denied"


@both_eras
def test_a_client_that_cannot_ask_is_refused(backend: str, era: Era) -> None:
    """Without elicitation a call that needs approval is refused in words that a model can read, and not run."""
    result = used(erase, _call, backend, era)

    assert (ran, result.is_error) == ([], True)
    assert result.structured_content["type"] == "approval-unavailable"
    assert "elicitation" in result.content[0].text


def test_nobody_who_answers_is_no_denial(backend: str) -> None:
    """After `approval_timeout` seconds without an answer the call is refused, and the result says that time ran out."""

    async def silent(_: Any, __: Any) -> ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    result = used(erase, _call, backend, "legacy", {"elicitation_callback": silent}, approval_timeout=0.05)

    assert (ran, result.is_error) == ([], True)
    assert result.structured_content["type"] == "approval-expired"
    assert "in time" in result.content[0].text


@both_eras
@pytest.mark.parametrize("refusing", ["a no", "nobody"])
def test_a_refusal_names_the_tool_and_why(backend: str, era: Era, refusing: str) -> None:
    """The result says which call was not run and for what reason, by the tool's own name."""
    client = answering("decline", None) if refusing == "a no" else {}
    result = used(erase, _call, backend, era, client)
    told = result.structured_content

    assert told["name"] == "erase"
    assert told["reason"].startswith("the call needs a person's approval")
    assert ("cannot ask a person" in told["reason"]) is (refusing == "nobody")


@both_eras
def test_a_question_says_what_is_to_run(backend: str, era: Era) -> None:
    """It names the tool for people and by its name, and shows the arguments, of which there may be none."""
    asked: list[Any] = []

    @tool(needs_approval=True)
    def stop() -> str:
        """Stops."""
        return "stopped"

    titled = Tool.make("halt", needs_approval=True, success=str).annotate(Title, "Halt the line")
    kit = BoundToolkit.make(stop).merge(
        BoundToolkit.of(Toolkit.make(titled), titled.handler(lambda _: Success("halted")))
    )

    async def use(client: mcp.Client, _: ToolServer) -> list[str]:
        return [text(await client.call_tool(name)) for name in ("stop", "halt")]

    said = used(kit, use, backend, era, answering("accept", {"approve": True}, asked))

    assert said == ["stopped", "halted"]
    assert [one.message for one in asked] == [
        "May the tool stop run with these arguments? {}",
        "May the tool Halt the line (halt) run with these arguments? {}",
    ]
    assert asked[0].requested_schema["required"] == ["approve"]


@both_eras
def test_a_question_hides_nothing(backend: str, era: Era) -> None:
    """What shows nothing, or turns text around, stands in the question as an escape; all letters are as they are."""
    asked: list[Any] = []

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("erase", {"path": "Tromsø \u202e\x9b\u200b\u2028\x7f\u3164\U000e0041名"})

    used(erase, use, backend, era, answering("decline", None, asked))

    assert asked[0].message.endswith('{"path":"Tromsø \\u202e\\u009b\\u200b\\u2028\\u007f\\u3164\\udb40\\udc41名"}')


@both_eras
@pytest.mark.parametrize(
    ("path", "shown"), [("/tmp", "/tmp"), ("/tmp\x7f", "/tmp\\u007f"), ("/tmp\x1b", "/tmp\\u001b")]
)
def test_plain_text_is_shown_as_it_is(backend: str, era: Era, path: str, shown: str) -> None:
    """Arguments of plain characters stay as they are; those that steer a terminal are escapes, with or without more."""
    asked: list[Any] = []

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("erase", {"path": path})

    used(erase, use, backend, era, answering("decline", None, asked))

    assert [one.message.partition("? ")[2] for one in asked] == [f'{{"path":"{shown}"}}']


@both_eras
def test_a_call_that_was_invalid_when_nobody_was_asked_does_not_run(backend: str, era: Era) -> None:
    """A validation that says no, and then yes, lets no call pass unasked."""
    looks: list[Any] = []

    def validate(value: Any) -> Result[Any, DecodeFailure]:
        looks.append(value)
        return Success(value) if len(looks) > 1 else Failure(DecodeFailure((Fault("", "time", "none left"),)))

    raze = Tool.dynamic("raze", parameters={"type": "object"}, validation=validate, needs_approval=True)

    def on_raze(_: Any) -> Result[None, Never]:
        ran.append("raze")
        return Success(None)

    kit = BoundToolkit.of(Toolkit.make(raze), raze.handler(on_raze))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return (await client.call_tool("raze", {})).is_error

    assert (used(kit, use, backend, era, answering("decline", None)), ran) == (True, [])


@both_eras
def test_a_predicate_that_breaks_asks(backend: str, era: Era) -> None:
    """Where it cannot be said whether approval is needed it is: the person is asked, and a no is a no."""
    asked: list[Any] = []

    def broken(*_: Any) -> bool:
        raise RuntimeError("the rule")

    @tool(needs_approval=broken)
    def go() -> None:
        """Goes."""
        ran.append("go")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("go")

    result = used(go, use, backend, era, answering("decline", None, asked))

    assert (ran, len(asked), result.is_error) == ([], 1, True)
    assert "the rule" not in text(result)


@both_eras
def test_a_predicate_that_ends_itself_lets_nothing_run(backend: str, era: Era) -> None:
    """One that is interrupted is a bug: an internal error that says nothing, and `on_defect` knows the tool."""
    told: list[Any] = []

    def interrupted(*_: Any) -> EffectOf[bool]:
        return fx.fail_cause(Cause((Interrupt(),)))

    @tool(needs_approval=interrupted)
    def go() -> None:
        """Goes."""
        ran.append("go")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("go"))

    error = used(go, use, backend, era, answering("accept", {"approve": True}), on_defect=told.append)

    assert (error.code, ran) == (INTERNAL_ERROR, [])
    assert [(one.tool, one.cause.interrupted) for one in told] == [("go", True)]


@both_eras
def test_a_predicate_decides_which_calls_are_asked_for(backend: str, era: Era) -> None:
    """A call that the tool's own predicate lets pass runs at once; wrong arguments are told before anybody is asked."""
    asked: list[Any] = []

    @tool(needs_approval=lambda params, _: params.amount > 100)
    def pay(amount: int) -> str:
        """Pays."""
        return f"{amount} paid"

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        small = await client.call_tool("pay", {"amount": 5})
        wrong = await client.call_tool("pay", {"amount": "all"})
        told = wrong.structured_content["type"], len(asked)
        return text(small), *told, (await client.call_tool("pay", {"amount": 500})).is_error

    small, kind, before, denied = used(BoundToolkit.make(pay), use, backend, era, answering("decline", None, asked))

    assert (small, kind, before, len(asked), denied) == ("5 paid", "invalid-parameters", 0, 1, True)


def test_a_client_that_breaks_when_it_is_asked_is_no_denial(backend: str) -> None:
    """Where the question itself fails nobody was asked: the result says so, by the tool's name, and nothing is run."""

    async def broken(_: Any, __: Any) -> ErrorData:
        await anyio.lowlevel.checkpoint()
        return ErrorData(code=-32603, message="no window to ask in")

    result = used(erase, _call, backend, "legacy", {"elicitation_callback": broken})
    told = result.structured_content

    assert (ran, result.is_error) == ([], True)
    assert (told["type"], told["name"]) == ("approval-unavailable", "erase")
    assert told["reason"].startswith("the call needs a person's approval")


_EITHER: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
_YES = {"approval": {"action": "accept", "content": {"approve": True}}}


async def _sent(client: mcp.Client, path: str, **more: Any) -> Any:
    params = CallToolRequestParams.model_validate({"name": "erase", "arguments": {"path": path}, **more})
    session: Any = client.session
    return await session.send_request(CallToolRequest(params=params), _EITHER)


@pytest.mark.parametrize("attack", ["replayed", "other arguments", "made up", "no question asked"])
def test_an_approval_opens_one_call_and_no_other(backend: str, attack: str) -> None:
    """What opened a call does not open it again, nor one with other arguments; and nobody can make it up."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        asked = await _sent(client, "/tmp/x")
        state = asked.request_state
        if attack == "replayed":
            await _sent(client, "/tmp/x", requestState=state, inputResponses=_YES)
            return await _sent(client, "/tmp/x", requestState=state, inputResponses=_YES)
        if attack == "other arguments":
            return await refused(_sent(client, "/etc", requestState=state, inputResponses=_YES))
        if attack == "made up":
            return await refused(_sent(client, "/etc", requestState=f"{state}x", inputResponses=_YES))
        return await _sent(client, "/etc", inputResponses=_YES)

    ended = used(erase, use, backend, "auto", answering("decline", None))

    assert ran == (["/tmp/x"] if attack == "replayed" else [])
    assert isinstance(ended, InputRequiredResult) or ended.code == -32602


@pytest.mark.parametrize("answers", [None, {}, {"other": _YES["approval"]}])
def test_a_question_that_is_not_answered_is_a_no(backend: str, answers: Any) -> None:
    """Who comes back without the answer has not approved, and has used the question up."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        state = (await _sent(client, "/tmp/x")).request_state
        more = {} if answers is None else {"inputResponses": answers}
        first = await _sent(client, "/tmp/x", requestState=state, **more)
        return first, await _sent(client, "/tmp/x", requestState=state, inputResponses=_YES)

    first, second = used(erase, use, backend, "auto", answering("decline", None))

    assert (ran, first.is_error) == ([], True)
    assert isinstance(second, InputRequiredResult)


def test_only_so_many_questions_are_open(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one question too many the oldest is given up: its answer opens nothing, those of the others do."""
    monkeypatch.setattr("fxai.mcp.server.exchange._MOST", 2)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        states = [(await _sent(client, f"/{n}")).request_state for n in range(3)]
        return [await _sent(client, f"/{n}", requestState=states[n], inputResponses=_YES) for n in (1, 0, 2)]

    answers = used(erase, use, backend, "auto", answering("decline", None))

    assert ran == ["/1", "/2"]
    assert isinstance(answers[1], InputRequiredResult)
