"""MCP, the server's side: the conformance cases of the areas `mcp.toolkit` and `mcp.protocol`, on both event loops."""

from __future__ import annotations

from typing import Any

import anyio
import mcp
import msgspec
import pytest
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from returns.result import Success

from fxai import BoundToolkit, tool
from fxai.effects import fx
from fxai.mcp import ToolServer
from fxai.tools import Tool, Toolkit
from tests.kit.conformance import Case, case
from tests.kit.mcp_client import Era, refused, text, used
from tests.kit.mcp_http import INITIALIZE, Client, asking

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


class Answer(msgspec.Struct, frozen=True):
    """An object with one member."""

    y: str


async def _called(client: mcp.Client, _: ToolServer) -> Any:
    return await client.call_tool("go")


def _serving(made: Tool[Any, Any, Any], gives: Any) -> BoundToolkit[Any]:
    return BoundToolkit.of(Toolkit.make(made), made.handler(lambda _: Success(gives)))


@both_eras
@case("mcp.toolkit/187")
def test_an_object_is_structured_content_plus_its_text(case: Case, backend: str, era: Era) -> None:
    """A success that is an object comes as structured content, and as its JSON text."""
    given = msgspec.convert(case.given["success"], Answer)
    result = used(_serving(Tool.make("go", success=Answer), given), _called, backend, era)

    assert result.structured_content == case.expect["structuredContent"]
    assert [{"type": "text", "text": text(result)}] == case.expect["content"]
    assert result.is_error is case.expect["isError"]


@both_eras
@case("mcp.toolkit/190")
def test_a_tool_without_a_value_answers(case: Case, backend: str, era: Era) -> None:
    """A tool that gives nothing is answered, with no content at all."""
    result = used(_serving(Tool.make("go"), None), _called, backend, era)

    assert case.expect["content"] == "one text or none"
    assert result.content == []
    assert result.is_error is case.expect["isError"]


@both_eras
@case("mcp.toolkit/191")
def test_absent_arguments_mean_an_empty_object(case: Case, backend: str, era: Era) -> None:
    """A call without arguments is a call with none; one that needs some is told which, as for an empty object."""
    made = Tool.make("go", parameters=Answer, success=str)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        nothing: dict[str, Any] = {}
        return [text(await client.call_tool("go", given)) for given in (None, nothing)]

    assert case.expect["ok"] is True
    assert text(used(_serving(Tool.make("go", success=str), "fine"), _called, backend, era)) == "fine"
    absent, empty = used(_serving(made, "fine"), use, backend, era)
    assert absent == empty


@both_eras
@case("mcp.toolkit/192")
def test_invalid_arguments_are_a_result_rather_than_invalid_params(case: Case, backend: str, era: Era) -> None:
    """Otherwise than the case: a result that a model can read (SEP-1303), no error; no trace of the code in either."""

    @tool
    def broken() -> str:
        """Has a bug."""
        raise RuntimeError("/home/ann")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        wrong = await client.call_tool("go", case.given["arguments"])
        return wrong, await refused(client.call_tool("broken"))

    tools = _serving(Tool.make("go", parameters=Answer), None).merge(BoundToolkit.make(broken))
    wrong, bug = used(tools, use, backend, era, on_defect=str)

    assert (case.expect["error"], wrong.is_error) == ("InvalidParams", True)
    assert msgspec.json.decode(text(wrong))["type"] == "invalid-parameters"
    assert bug.code == INTERNAL_ERROR
    assert case.expect["no stack trace"] is True
    assert [said in shown for shown in (text(wrong), repr(bug)) for said in (".py", "Traceback", "ann")] == [False] * 6


@both_eras
@case("mcp.toolkit/194")
def test_a_tool_that_needs_approval_is_not_run_unasked(case: Case, backend: str, era: Era) -> None:
    """Where the client can ask nobody the call is refused, and the handler does not run."""
    ran: list[str] = []

    @tool(needs_approval=case.given["needsApproval"])
    def go() -> None:
        """Goes."""
        ran.append("go")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return text(await client.call_tool("go"))

    said = used(go, use, backend, era)

    assert case.expect["or"] in said
    assert (ran != []) is case.expect["executed"]


@case("mcp.protocol/195")
def test_versions_are_negotiated(case: Case, backend: str) -> None:
    """A known version is echoed; an unknown one gets the newest of the handshake, newer now than the case."""

    async def ask(client: Client) -> list[str]:
        said: list[str] = []
        for version in (*HANDSHAKE_PROTOCOL_VERSIONS, case.given["requested"]):
            params: dict[str, Any] = {**INITIALIZE["params"], "protocolVersion": version}
            said.append((await client.post("/mcp", json={**INITIALIZE, "params": params})).text)
        return said

    go = Tool.make("go")
    said = asking(_serving(go, None), backend, ask)
    expected = (*HANDSHAKE_PROTOCOL_VERSIONS, HANDSHAKE_PROTOCOL_VERSIONS[-1])

    assert [f'"protocolVersion":"{one}"' in answer for one, answer in zip(expected, said, strict=True)] == [True] * 5
    assert case.expect["negotiated"] in HANDSHAKE_PROTOCOL_VERSIONS


@both_eras
@case("mcp.protocol/197")
def test_a_change_reaches_clients_that_are_there(case: Case, backend: str, era: Era) -> None:
    """A tool that is added after the handshake is told of, in each era as it has it."""
    heard: list[str] = []
    told = anyio.Event()

    async def hear(message: Any) -> None:
        heard.append(message.method)
        told.set()

    more = _serving(Tool.make("go"), None).merge(_serving(Tool.make("come"), None))

    async def use(client: mcp.Client, server: ToolServer) -> list[str]:
        await client.list_tools()  # what the server had to hear of the handshake, it has heard
        with anyio.fail_after(60):
            if era == "legacy":
                await fx.run_async(server.replace(more))
                await told.wait()
            else:
                async with client.listen(tools_list_changed=True) as events:
                    await fx.run_async(server.replace(more))
                    await anext(aiter(events))
        return [one.name for one in (await client.list_tools()).tools]

    names = used(_serving(Tool.make("go"), None), use, backend, era, {"message_handler": hear})

    assert (heard, names) == ([case.expect["notification"]], ["go", "come"])
