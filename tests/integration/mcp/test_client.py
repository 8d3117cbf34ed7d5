"""What a client does with a server: its tools, calls, failures, progress, cancellation, changes and questions."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any, TypeAlias, cast

import pytest

from fxai import Agent, Outcome, Readonly, Tool, ToolConflictError, ToolSource, fx, mcp
from fxai.annotations import OutputSchema
from fxai.effects import EffectOf
from fxai.mcp import Connection, ElicitAnswer, Elicitation, McpError, McpServer, McpToolError
from fxai.mcp.result import shown_content
from fxai.testing import ScriptedModel
from fxai.testing import call as calling
from fxai.testing import text as problem
from tests.kit.mcp_programs import by_hand, failure_of, used

Run: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]


def _outcome(server: McpServer, name: str, arguments: Any, backend: Any) -> Outcome:
    return fx.run(ToolSource.of(server).use(lambda kit: kit.call(name, arguments)), backend=backend)


# -- tools and calls


def test_tools_are_dynamic_with_their_schema_as_it_was_given(backend: Any) -> None:
    """Each listed tool is a dynamic one whose JSON Schema equals what the server sent."""

    def listed(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.bound.toolkit, connection.info

    kit, info = fx.run(used(by_hand("rich"), listed), backend=backend)

    assert (info.name, info.protocol_version) == ("by-hand", "2025-11-25")
    assert all(Tool.is_dynamic(tool) for tool in kit)
    assert kit.tools["search"].json_schema() == {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
    }
    assert kit.tools["wait"].json_schema() == {"type": "object"}
    assert kit.tools["counted"].get(OutputSchema).get("required") == ["n"]
    assert kit.tools["search"].get(Readonly) is False


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_version_of_the_handshake_is_spoken(version: str) -> None:
    """A server that answers with an older version is spoken to in it, also where the handshake is asked for at once."""

    def listed(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.info.protocol_version, [tool.name for tool in connection.tools]

    modes = [fx.run(used(by_hand("version", version, mode=how), listed)) for how in ("auto", "legacy")]

    assert modes == [(version, ["search"])] * 2


def test_a_version_that_nobody_knows_is_a_clear_failure() -> None:
    """A server that insists on another version is a failure that names it."""
    failure = failure_of(by_hand("version", "1999-01-01").open().pipe(fx.scoped), "asyncio")

    assert failure.kind == "protocol"
    assert "1999-01-01" in failure.problem


def test_a_call_gives_content_or_structured_content(backend: Any) -> None:
    """Text content stays content; structured content, sent or as text under an output schema, is the value itself."""

    def called(connection: Connection) -> Run:
        calls: Any = (
            ("search", {"q": "x"}),
            ("counted", {"as": "structured"}),
            ("counted", {"as": "text"}),
            ("bare", {}),
        )
        return (yield fx.for_each(calls, lambda call: connection.call(*call)))

    values = fx.run(used(by_hand("rich"), called), backend=backend)

    assert values == [{"content": [{"type": "text", "text": 'search {"q": "x"}'}]}, {"n": 2}, {"n": 2}, {"n": 1}]


@pytest.mark.parametrize(
    ("name", "arguments", "failure"),
    [
        ("fail", {}, McpToolError("fail", "the city is unknown")),
        ("broken", {}, "answered with the error -32602: bad params"),
    ],
)
def test_what_goes_wrong_in_a_call_is_a_failure_with_a_type(
    name: str, arguments: Any, failure: Any, backend: Any
) -> None:
    """`isError` is an `McpToolError`, and a protocol error is an `McpError`; models read both."""
    outcome = _outcome(by_hand("rich"), name, arguments, backend)

    assert outcome.is_failure
    assert outcome.encoded_result["tool"] == name
    if isinstance(failure, McpToolError):
        assert outcome.result == failure
    else:
        assert isinstance(outcome.result, McpError)
        assert failure in outcome.result.problem


def test_arguments_are_checked_before_they_are_sent_unless_asked_not_to(backend: Any) -> None:
    """By default arguments that do not fit the schema never reach the server; with validation="none" they do."""
    checked = _outcome(by_hand("rich"), "search", {"nope": 1}, backend)
    unchecked = _outcome(by_hand("rich", validation="none"), "search", {"nope": 1}, backend)

    assert checked.encoded_result["type"] == "invalid-parameters"
    assert unchecked.result == {"content": [{"type": "text", "text": 'search {"nope": 1}'}]}


def test_a_model_is_shown_texts_files_and_the_rest_as_json(backend: Any) -> None:
    """Of a list of content, texts stay texts, images and audio are files, links are the text of their JSON."""

    def shown(connection: Connection) -> Run:
        value = yield connection.call("mixed")
        return shown_content(value), connection.bound.toolkit.tools["mixed"].to_model_output

    parts, shows = fx.run(used(by_hand("rich"), shown), backend=backend)

    assert shows is shown_content
    assert parts == [
        {"type": "text", "text": "a"},
        {"type": "file", "media_type": "image/png", "data": "AA=="},
        {"type": "file", "media_type": "audio/wav", "data": "AQ=="},
        {"type": "text", "text": '{"type":"resource_link","uri":"u://1","name":"n"}'},
        {"type": "text", "text": "held"},
        {"type": "file", "media_type": "application/pdf", "data": "Ag==", "file_name": "u://3"},
    ]


def test_progress_comes_as_preliminary_results_in_order(backend: Any) -> None:
    """Each progress notification of a call is a preliminary outcome; the final one follows them."""
    stream = ToolSource.of(by_hand("rich")).use_stream(lambda kit: kit.handle("slow", {}))

    outcomes = fx.run(stream.collect(), backend=backend)

    assert [outcome.preliminary for outcome in outcomes] == [True, True, True, False]
    assert [outcome.result for outcome in outcomes[:3]] == [
        {"progress": n, "total": 3, "message": f"step {n}"} for n in (1, 2, 3)
    ]
    assert outcomes[3].result == {"content": [{"type": "text", "text": "done"}]}


@pytest.mark.parametrize("by", ["the run", "the server's call_timeout"])
def test_cancelling_a_call_tells_the_server(by: str, backend: Any) -> None:
    """A call that is cut off by its run or by its own timeout is cancelled at the server, which is used on."""
    own = by != "the run"
    server = by_hand("rich", call_timeout=0.3 if own else None)

    def cut(connection: Connection) -> Run:
        call = connection.call("wait")
        end = yield (call if own else call.timeout(0.3)).exit()
        return end.cause.failures, (yield connection.call("cancelled"))

    failures, counted = fx.run(used(server, cut), backend=backend)

    # The server was told of two things: that the client is initialised, and that the call is cancelled.
    assert counted == {"content": [{"type": "text", "text": "2"}]}
    assert len(failures) == 1
    if own:
        assert failures[0].kind == "timeout"
        assert "call_timeout=" in failures[0].remedy


def test_a_server_that_dies_in_a_call_is_a_failure_of_that_call_and_the_next(backend: Any) -> None:
    """The call fails with the exit code and the end of standard error, and so does every later one, at once."""

    def called(connection: Connection) -> Run:
        ends = yield fx.for_each(("die", "search"), lambda name: connection.call(name).exit())
        return [end.cause.failures[0] for end in ends], connection.stderr

    failures, stderr = fx.run(used(by_hand("rich"), called), backend=backend)

    assert [failure.kind for failure in failures] == ["connection", "connection"]
    assert all("exit code 7" in failure.problem for failure in failures)
    assert all(failure.stderr == stderr == "fatal: the disk is full" for failure in failures)


def test_models_are_not_shown_the_standard_error(backend: Any) -> None:
    """The failure that a model reads says what happened, but not what the server wrote to its standard error."""
    outcome = _outcome(by_hand("rich"), "die", {}, backend)

    assert cast(Any, outcome.result).stderr == "fatal: the disk is full"
    assert "disk" not in str(outcome.encoded_result)
    assert "exit code 7" in outcome.encoded_result["problem"]


def test_a_storm_of_notifications_does_not_hold_up_a_call(backend: Any) -> None:
    """Thousands of notifications in a call are read past; the call's answer comes."""

    def called(connection: Connection) -> Run:
        return (yield connection.call("storm"))

    assert fx.run(used(by_hand("rich"), called), backend=backend) == {"content": [{"type": "text", "text": "calm"}]}


def test_many_calls_at_once_each_get_their_own_answer(backend: Any) -> None:
    """Fifty calls over one connection: every answer goes to the call that it is for."""

    def called(connection: Connection) -> Run:
        return (yield fx.for_each(range(50), lambda n: connection.call("search", {"q": str(n)}), concurrency=None))

    values = fx.run(used(by_hand("rich"), called), backend=backend)

    assert [value["content"][0]["text"] for value in values] == [f'search {{"q": "{n}"}}' for n in range(50)]


# -- names


def test_two_servers_with_one_name_of_a_tool_need_a_prefix() -> None:
    """Tools of one name at two servers are a conflict that says what to do; with prefixes each reaches its own."""
    first, second = by_hand("rich", name="a"), by_hand("good", name="b")
    both = first.source.merge(second.source)
    apart = first.prefix("a_").source.merge(second.prefix("b_").source)

    with pytest.raises(ToolConflictError, match=r"'search'.*prefix one"):
        fx.run(both.use(lambda kit: kit.call("search", {"q": "x"})))
    called = fx.run(apart.use(lambda kit: fx.all_(kit.call("a_search", {"q": "1"}), kit.call("b_search", {"q": 2}))))
    assert [cast(Any, one.result)["content"][0]["text"] for one in called] == ['search {"q": "1"}', 'search {"q": 2}']


def test_two_servers_of_one_program_keep_their_calls_apart() -> None:
    """Equal tools of two servers are not one tool: under prefixes each call goes to its own server."""
    first, second = (by_hand("rich", argument, name="twin").prefix(f"{argument}_") for argument in ("x", "y"))
    both = first.source.merge(second.source)

    called = fx.run(both.use(lambda kit: fx.all_(kit.call("x_who", {}), kit.call("y_who", {}))))

    assert [cast(Any, one.result)["content"][0]["text"] for one in called] == ["x", "y"]


def test_only_and_without_choose_by_the_servers_names(backend: Any) -> None:
    """`only` offers these tools alone, `without` all but these; `only` with a name that is not there fails."""

    def names(connection: Connection) -> Run:
        yield fx.checkpoint()
        return list(connection.bound.toolkit.tools)

    chosen = by_hand("rich").only("search", "slow", "die").without("die").prefix("x_")
    wrong = failure_of(used(by_hand("rich").only("serch"), names), backend)

    assert fx.run(used(chosen, names), backend=backend) == ["x_search", "x_slow"]
    assert wrong.kind == "no-such-tool"
    assert "search" in str(wrong)


# -- changes


def _changing(how: str, *, approve: bool = False) -> Any:
    def changed(connection: Connection) -> Run:
        before = connection.bound
        yield connection.call("change", {"how": how})
        yield fx.sleep(0.05)
        now = yield before.now
        held = connection.held_back
        refused = yield connection.call("search").exit() if held else fx.succeed(None)
        if approve:
            yield connection.approve()
            now = yield before.now
        return list(before.toolkit.tools), list(now.toolkit.tools), held, refused

    return changed


@pytest.mark.parametrize(("how", "after"), [("remove", []), ("add", ["search", "added"])])
def test_tools_that_come_and_go_show_in_the_live_toolkit(how: str, after: list[str], backend: Any) -> None:
    """When the server says that its tools changed, `now` has what it lists then."""
    before, now, held, _ = fx.run(used(by_hand("good"), _changing(how)), backend=backend)

    assert (before, now, held) == (["search"], after, ())


@pytest.mark.parametrize(("how", "part"), [("rewrite", "description"), ("schema", "inputSchema")])
def test_a_tool_that_changed_is_held_back_until_it_is_approved_again(
    how: str, part: str, caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """Another description or schema takes a tool out, with a warning; it cannot be called; approval offers it again."""
    with caplog.at_level(logging.WARNING, "fxai.mcp"):
        _, now, held, call = fx.run(used(by_hand("good"), _changing(how)), backend=backend)
    _, approved, _, _ = fx.run(used(by_hand("good"), _changing(how, approve=True)), backend=backend)

    assert (now, approved) == ([], ["search"])
    assert held == (mcp.Change("search", (part,)),)
    assert call.cause.failures[0].kind == "held-back"
    assert f"blocked until you approve it again: differs from the approved definition: {part}" in caplog.text


def test_pins_in_a_file_hold_back_what_changed_since(tmp_path: Any, backend: Any) -> None:
    """A description that another server of the same name had in an earlier process is not trusted any more."""
    server = by_hand("good", name="pinned", pins=mcp.Pins.file(tmp_path / "pins.json"))

    def held(connection: Connection) -> Run:
        yield fx.checkpoint()
        return connection.held_back

    first = fx.run(used(server, held), backend=backend)
    text = (tmp_path / "pins.json").read_text()
    (tmp_path / "pins.json").write_text(text.replace('"description": "', '"description": "0'))
    later = fx.run(used(server, held), backend=backend)

    assert (first, later) == ((), (mcp.Change("search", ("description",)),))


def test_pins_that_hold_back_the_unseen_offer_nothing_before_it_is_approved(backend: Any) -> None:
    """With `unseen="hold"`, a tool that was never approved is held back as new; approving a wrong name says so."""
    server = by_hand("good", pins=mcp.Pins.in_process(unseen="hold"))

    def approved(connection: Connection) -> Run:
        before = list(connection.bound.toolkit.tools), connection.held_back
        wrong = yield connection.approve("serch").exit()
        yield connection.approve("search")
        now = yield connection.now
        return before, wrong.cause.failures[0].problem, list(now.toolkit.tools)

    before, wrong, after = fx.run(used(server, approved), backend=backend)

    assert before == ([], (mcp.Change("search", ("new",)),))
    assert wrong == "tool 'serch' is not blocked. Blocked tools: search"
    assert after == ["search"]


def test_tools_stay_as_they_were_when_they_cannot_be_listed_again(
    caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """A server that died after it said that its tools changed: `now` gives the old ones and logs why."""

    def changed(connection: Connection) -> Run:
        before = connection.bound
        yield connection.call("die").exit()
        connection.mark_stale()
        return before, (yield before.now)

    before, now = fx.run(used(by_hand("rich"), changed), backend=backend)

    assert now is before
    assert "the previous tools stay" in caplog.text


# -- questions of the server


def test_what_a_server_asks_for_is_refused_unless_somebody_answers(backend: Any) -> None:
    """Elicitation and sampling are refused, so the server knows; with `elicit=` it is answered, at once or later."""

    def asked(connection: Connection) -> Run:
        values = yield fx.for_each(("asks", "ask_model"), connection.call)
        return [value["content"][0]["text"] for value in values]

    heard: list[Elicitation] = []

    def later(question: Elicitation) -> EffectOf[ElicitAnswer]:
        heard.append(question)
        return fx.sleep(0.001).as_(ElicitAnswer("accept", {"sure": True}))

    refused = fx.run(used(by_hand("rich"), asked), backend=backend)
    answered = fx.run(used(by_hand("rich", name="asking", elicit=later), asked), backend=backend)

    assert refused == ['{"error": -32600}', '{"error": -32600}']
    assert answered == ['{"action": "accept", "content": {"sure": true}}', '{"error": -32600}']
    assert [(one.server, one.message, one.fields) for one in heard] == [("asking", "Sure?", ("sure",))]


def test_the_time_that_a_person_takes_is_not_the_calls(backend: Any) -> None:
    """A call waits for an answer longer than its own timeout; without a question the same timeout holds."""

    def slowly(_: Elicitation) -> EffectOf[ElicitAnswer]:
        return fx.sleep(0.6).as_(ElicitAnswer("decline"))

    def called(connection: Connection) -> Run:
        first = yield connection.call("asks")
        second = yield connection.call("wait").exit()
        return first["content"][0]["text"], second.cause.failures[0].kind

    asked = fx.run(used(by_hand("rich", call_timeout=0.3, elicit=slowly), called), backend=backend)

    assert asked == ('{"action": "decline"}', "timeout")


def test_what_a_server_logs_is_told_where_it_is_asked_for(backend: Any) -> None:
    """`on_log` hears level and data of each notification; nobody does by default."""
    heard: list[tuple[str, Any]] = []

    def called(connection: Connection) -> Run:
        return (yield connection.call("storm"))

    def hear(level: str, data: Any) -> None:
        heard.append((level, data))

    server = by_hand("rich", on_log=hear)
    fx.run(used(server, called), backend=backend)

    assert heard == [("info", "x" * 100)] * 1_500


@pytest.mark.slow
def test_a_bug_of_whoever_listens_or_answers_does_not_end_the_connection(
    caplog: pytest.LogCaptureFixture, backend: Any
) -> None:
    """A function that raises is logged; the server is told no more than that, and the calls go on."""

    def bad(*_: Any) -> Any:
        raise RuntimeError("secret")

    def called(connection: Connection) -> Run:
        return (yield fx.for_each(("asks", "storm"), connection.call))

    values = fx.run(used(by_hand("rich", on_log=bad, elicit=bad), called), backend=backend)

    assert [value["content"][0]["text"] for value in values] == ['{"error": -32603}', "calm"]
    assert "`on_log` failed" in caplog.text
    assert "`elicit` of the MCP server" in caplog.text


# -- as a value


def test_a_server_is_a_value_that_shows_no_secrets() -> None:
    """Equal settings are equal servers; no repr shows the text of a token, a header or a variable."""
    server = mcp.http("https://u:pass@example.org/mcp?key=hidden", token="tok-1", headers={"X-Key": "key-2"})
    again = mcp.http("https://u:pass@example.org/mcp?key=hidden", token="tok-1", headers={"X-Key": "key-2"})
    program = mcp.stdio("uvx", "x", env={"API_KEY": "key-3"})

    assert server == again
    assert hash(server) == hash(again)
    assert mcp.stdio("uvx", "x") != program
    shown = repr(server) + repr(server.settings) + repr(program) + repr(program.settings)
    assert not any(secret in shown for secret in ("tok-1", "key-2", "key-3", "pass", "hidden"))


# -- in an agent


def test_an_agent_sees_what_changes_in_the_middle_of_its_run(backend: Any) -> None:
    """A tool that the server adds while a run goes on can be called in the next step; one that it rewrites cannot."""
    model = ScriptedModel.make(
        [
            calling("change", {"how": "add"}, id="c1"),
            calling("added", {"n": 1}, id="c2"),
            calling("change", {"how": "rewrite"}, id="c3"),
            calling("search", {}, id="c4"),
            problem("Done."),
        ]
    )
    agent = Agent.make("reader").with_tools(by_hand("living"))

    answer = fx.run(agent.execute("Go on.").provide(model.layer), backend=backend)

    results = [result for step in answer.steps for result in step.results]
    assert [result.is_failure for result in results] == [False, False, False, True]
    assert results[1].encoded_result == 'added {"n": 1}'
    assert results[3].encoded_result["type"] == "unknown-tool"
    assert results[3].encoded_result["known"] == ["change", "added"]
