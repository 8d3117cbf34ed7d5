"""MCP, the client's side: the conformance cases of the area `mcp`, and what Concerto's client does.

Each case is played by a server in a process of its own, over stdio.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias

from fxai import Title, Tool, ToolSource, fx, mcp
from fxai.effects import EffectOf
from fxai.mcp import Connection, McpError, McpToolError
from fxai.mcp.result import shown_content
from tests.kit.conformance import Case, case
from tests.kit.mcp_programs import by_hand, failure_of, used

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]

_SEARCH = {"name": "search", "inputSchema": {"type": "object"}}
_OUTPUT = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


def _server(case: Case, folder: Path, **options: Any) -> mcp.McpServer:
    """The server of a case; a schema that the case gives for results is the tool's output schema."""
    given = dict(case.given)
    if given.get("schemas", {}).get("search", {}).get("output"):
        given["definition"] = {**given["definition"], "outputSchema": _OUTPUT}
    return _playing(given, folder, **options)


def _playing(script: dict[str, Any], folder: Path, **options: Any) -> mcp.McpServer:
    (folder / "script.json").write_text(json.dumps(script))
    return by_hand("case", str(folder / "script.json"), **options)


def _tool(connection: Connection) -> Run:
    yield fx.checkpoint()
    (tool,) = connection.bound.toolkit
    return tool


def _called(server: mcp.McpServer, arguments: Any) -> Any:
    return fx.run(ToolSource.of(server).use(lambda kit: kit.call("search", arguments)))


@case("VE-178")
def test_a_schema_without_properties_stays_as_it_was_given(case: Case, tmp_path: Path) -> None:
    """The tool is dynamic. The other system adds empty properties and closes the object: here it is as given."""
    tool = fx.run(used(_server(case, tmp_path), _tool))

    assert case.expect["kind"] == "dynamic"
    assert Tool.is_dynamic(tool)
    assert tool.json_schema() == case.given["definition"]["inputSchema"] != case.expect["json_schema"]


@case("VE-179")
def test_arguments_are_sent_unchecked_where_that_is_asked_for(case: Case, tmp_path: Path) -> None:
    """With validation="none" the arguments go out as they are; by default they are checked, as of any dynamic tool."""
    outcome = _called(_server(case, tmp_path, validation="none"), case.given["input"])
    sent = json.loads((tmp_path / "script.json.sent").read_text())
    checked = _called(_server(case, tmp_path), case.given["input"])

    assert sent == case.expect["sent"]
    assert outcome.result["content"] == case.expect["output"]["content"]
    assert not outcome.is_failure
    assert checked.encoded_result["type"] == "invalid-parameters"


@case("VE-180")
def test_a_model_gets_the_content_list(case: Case, tmp_path: Path) -> None:
    """Text stays text, an image is a file with its media type and data, the rest is the text of its JSON."""

    def shown(connection: Connection) -> Run:
        (tool,) = connection.bound.toolkit
        return shown_content((yield connection.call("search", case.given["input"]))), tool.to_model_output

    parts, shows = fx.run(used(_server(case, tmp_path), shown))
    text, image, link = case.expect["model_output"]["value"]

    assert shows is shown_content
    assert parts[0] == text
    assert parts[1] == {"type": "file", "media_type": image["mediaType"], "data": image["data"]["data"]}
    assert parts[2]["type"] == "text"
    assert json.loads(parts[2]["text"]) == link["text_json"]


@case("VE-181")
def test_an_error_result_is_a_failure(case: Case, tmp_path: Path) -> None:
    """The other system takes it for an ordinary result; here it is a typed failure, marked as one for the model."""
    outcome = _called(_server(case, tmp_path), case.given["input"])

    assert case.kind == "improve"
    assert outcome.is_failure
    assert outcome.result == McpToolError("search", case.given["result"]["content"][0]["text"])


@case("VE-185")
def test_an_output_schema_without_structured_content_parses_the_text(case: Case, tmp_path: Path) -> None:
    """The first text is read as JSON and held to the output schema."""
    outcome = _called(_server(case, tmp_path), case.given["input"])

    assert outcome.result == outcome.encoded_result == case.expect["output"]


@case("VE-186")
def test_a_result_against_its_output_schema_is_kept(case: Case, tmp_path: Path) -> None:
    """The other system loses the result of a tool that ran; fxai returns the result and logs the flaw."""
    outcome = _called(_server(case, tmp_path), case.given["input"])

    assert case.expect["error"] == "MCPClientError"
    assert not outcome.is_failure
    assert outcome.result == case.given["result"]["structuredContent"]


@case("VE-189")
def test_a_protocol_error_is_a_failure_of_the_server(case: Case, tmp_path: Path) -> None:
    """A JSON-RPC error is a failure of the server, not of the tool."""
    outcome = _called(_server(case, tmp_path), case.given["input"])

    assert case.expect["error"] == "MCPClientError"
    assert outcome.is_failure
    assert isinstance(outcome.result, McpError)
    assert (outcome.result.kind, outcome.result.code) == ("protocol", case.given["rpc_error"]["code"])


@case("VE-190")
def test_the_title_is_the_tools_own_else_its_annotations(case: Case, tmp_path: Path) -> None:
    """The title among the annotations is taken where the tool has none of its own."""
    hinted = fx.run(used(_server(case, tmp_path), _tool))
    own = {**case.given["definition"], "title": "Own"}
    titled = fx.run(used(_playing({"definition": own}, tmp_path), _tool))

    assert hinted.get(Title) == case.expect["title"]
    assert titled.get(Title) == "Own"


@case("CO035")
def test_a_program_without_a_command_is_a_failure_not_a_crash(case: Case) -> None:
    """Where the other system warns and goes on without the server, opening it fails and says that it did not start."""
    failure = failure_of(used(mcp.stdio(""), _tool), "asyncio")

    assert isinstance(failure, McpError)
    assert failure.kind == "start"


@case("CO038")
def test_a_listing_of_one_tool_is_one_tool(case: Case, tmp_path: Path) -> None:
    """What `tools/list` answers becomes the toolkit."""
    tool = fx.run(used(_playing({"definition": _SEARCH}, tmp_path), _tool))

    assert tool.name == "search"


@case("CO039")
def test_a_json_rpc_error_keeps_its_code_and_message(case: Case, tmp_path: Path) -> None:
    """The failure of a call that the server refuses has the code and the message of its answer."""
    script = {"definition": _SEARCH, "rpc_error": {"code": int(case.given), "message": "Method not found"}}

    outcome = _called(_playing(script, tmp_path), {})

    assert outcome.result.code == -32601
    assert "Method not found" in outcome.result.problem


@case("CO-M04")
def test_every_block_counts_and_so_does_the_mark_of_failure(case: Case, tmp_path: Path) -> None:
    """All blocks are the result, text is not taken for JSON unasked, none is an empty list; `isError` is a failure."""
    text = {"type": "text", "text": '{"n": 1}'}
    results: list[Any] = [{"content": [text, text]}, {"content": []}, {"content": [text], "isError": True}]

    outcomes = [_called(_playing({"definition": _SEARCH, "result": one}, tmp_path), {}) for one in results]

    assert [outcome.result for outcome in outcomes[:2]] == [{"content": [text, text]}, {"content": []}]
    assert [outcome.is_failure for outcome in outcomes] == [False, False, True]


@case("CO-M05")
def test_answers_find_their_calls_whatever_comes_between(case: Case, tmp_path: Path) -> None:
    """Notifications before an answer, and lines that come together, lose nothing; the server is told it is ready."""
    script = {
        "definition": _SEARCH,
        "before": ["notifications/message"] * 3,
        "result": {"content": [{"type": "text", "text": "found"}]},
    }

    def twice(connection: Connection) -> Run:
        return (yield fx.for_each(range(5), lambda _: connection.call("search"), concurrency=None))

    values = fx.run(used(_playing(script, tmp_path), twice))

    assert values == [script["result"]] * 5
