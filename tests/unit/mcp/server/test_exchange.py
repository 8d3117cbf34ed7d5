"""What a server answers, as the official SDK's client sees it in memory: in both eras, on both event loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Never, TypeAlias

import anyio
import mcp
import msgspec
import pytest
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from returns.result import Failure, Result, Success
from starlette.types import ASGIApp

from fxai import BoundToolkit, tool
from fxai.annotations import Destructive, Idempotent, JsonText, Meta, OpenWorld, Readonly, Title
from fxai.effects import Effect, Gen, Layer, Tag, fx
from fxai.mcp import Defect, ToolServer, http_app
from fxai.tools import CallContext, HandlerError, Tool, Toolkit
from tests.kit.mcp_client import Era, refused, text, used
from tests.kit.mcp_http import INITIALIZE, Client, OnClient, asking, modern, on_client, status_of

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


Handler: TypeAlias = Callable[[Any], Any] | Callable[[Any, CallContext], Any]


class Location(msgspec.Struct, frozen=True):
    """Where."""

    x: int
    y: int = 0


class Step(msgspec.Struct, frozen=True):
    """Where to."""

    to: Location


class Lost(msgspec.Struct, frozen=True):
    """Nobody is there."""

    place: Location


def bound(made: Tool[Any, Any, Any], handler: Handler) -> BoundToolkit[Any]:
    """A tool with its handler."""
    return BoundToolkit.of(Toolkit.make(made), made.handler(handler))


@both_eras
def test_a_tool_is_listed_with_all_that_is_known_of_it(backend: str, era: Era) -> None:
    """Name, title, description, hints, `_meta` and both schemas reach the client."""
    made = Tool.make("go", parameters=Location, success=Location, description="Goes there.")
    known = made.annotate(Title, "Go").annotate(Readonly, True).annotate(Destructive, False)
    known = known.annotate(Idempotent, True).annotate(OpenWorld, False).annotate(Meta, {"team": "maps"})

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return (await client.list_tools()).tools

    (listed,) = used(bound(known, Success), use, backend, era)

    assert (listed.name, listed.title, listed.description) == ("go", "Go", "Goes there.")
    assert listed.annotations.model_dump(exclude_none=True) == {
        "read_only_hint": True,
        "destructive_hint": False,
        "idempotent_hint": True,
        "open_world_hint": False,
    }
    assert listed.meta == {"team": "maps"}
    assert listed.input_schema == made.json_schema()
    assert listed.output_schema == made.success.json_schema()


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_the_title_stands_where_each_version_looks_for_it(backend: str, version: str) -> None:
    """Until 2025-03-26 a title is a hint, later a member of the tool too: each client finds it where it looks."""
    made = Tool.make("go", description="Goes.").annotate(Title, "Go there").annotate(Readonly, True)
    plain = Tool.make("ping").annotate(Readonly, True)

    async def ask(client: Client) -> Any:
        params = {**INITIALIZE["params"], "protocolVersion": version}
        opened = await client.post("/mcp", json={**INITIALIZE, "params": params})
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": version}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        answer = await client.post("/mcp", json=listing, headers=session)
        return answer.json()["result"]["tools"]

    kit = BoundToolkit.of(
        Toolkit.make(made, plain), made.handler(lambda _: Success(None)) | plain.handler(lambda _: Success(None))
    )
    titled, untitled = asking(kit, backend, ask, json_response=True)

    assert titled["title"] == "Go there"
    assert titled["annotations"]["readOnlyHint"] is True
    assert titled["annotations"].get("title") == ("Go there" if version <= "2025-03-26" else None)
    assert untitled["annotations"] == {"readOnlyHint": True}


@both_eras
def test_what_was_not_annotated_is_left_to_the_protocol(backend: str, era: Era) -> None:
    """A tool that says nothing of itself has no hints, no title and no `_meta`: the defaults are the same."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return (await client.list_tools()).tools

    (listed,) = used(bound(Tool.make("ping"), lambda _: Success(None)), use, backend, era)

    assert (listed.title, listed.annotations, listed.meta, listed.output_schema) == (None, None, None, None)


@both_eras
def test_an_object_is_structured_content_and_its_text(backend: str, era: Era) -> None:
    """A success that is an object comes both ways; defaults that were left out of the arguments are filled in."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("go", {"x": 3})

    result = used(bound(Tool.make("go", parameters=Location, success=Location), Success), use, backend, era)

    assert result.structured_content == {"x": 3, "y": 0}
    assert text(result) == '{"x":3,"y":0}'
    assert not result.is_error


@pytest.mark.parametrize(
    ("success", "gives", "shown"),
    [(str, "plain", ["plain"]), (int, 7, ["7"]), (list[int], [1, 2], ["[1,2]"]), (None, None, [])],
)
def test_what_is_no_object_is_a_text(backend: str, success: Any, gives: Any, shown: list[str]) -> None:
    """A text is itself, other values are their JSON, and nothing is no content at all."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("give", {})

    result = used(bound(Tool.make("give", success=success), lambda _: Success(gives)), use, backend)

    assert [block.text for block in result.content] == shown
    assert result.structured_content is None


@both_eras
@pytest.mark.parametrize("mode", ["error", "return"])
def test_a_typed_failure_is_a_result_that_says_so(backend: str, era: Era, mode: Any) -> None:
    """In either failure mode the encoded failure is the text of a result marked `isError`."""
    made = Tool.make("find", parameters=Location, success=str, failure=Lost, failure_mode=mode)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("find", {"x": 1})

    result = used(bound(made, lambda place: Failure(Lost(place))), use, backend, era)

    assert result.is_error
    assert msgspec.json.decode(text(result)) == {"place": {"x": 1, "y": 0}}
    assert result.structured_content == {"place": {"x": 1, "y": 0}}


def test_a_failure_is_not_held_to_the_output_schema(backend: str) -> None:
    """Where results have a schema, a failure is text alone: clients check what is structured, failed or not."""
    made = Tool.make("find", parameters=Location, success=Location, failure=Lost)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("find", {"x": 1})

    result = used(bound(made, lambda place: Failure(Lost(place))), use, backend)

    assert result.is_error
    assert result.structured_content is None
    assert "place" in text(result)


@both_eras
@pytest.mark.parametrize("success", [list[Location], Location])
def test_wrong_arguments_are_a_result_that_names_each(backend: str, era: Era, success: Any) -> None:
    """What the model got wrong is a result marked `isError`, which it can read, with every fault; nothing is run."""
    ran: list[Location] = []
    made = Tool.make("go", parameters=Location, success=success)

    def run(place: Location) -> Result[list[Location], Never]:
        ran.append(place)
        return Success(ran)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("go", {"y": "no"})

    result = used(bound(made, run), use, backend, era)
    told = msgspec.json.decode(text(result))

    assert (result.is_error, ran) == (True, [])
    assert (told["type"], told["name"]) == ("invalid-parameters", "go")
    assert [fault["pointer"] for fault in told["faults"]] == ["/y", "/x"]
    assert "/y: expected integer" in told["message"]
    assert result.structured_content == (None if success is Location else told)


@both_eras
def test_a_tool_that_is_not_there_is_an_error(backend: str, era: Era) -> None:
    """A name that no tool has is "invalid params", and the names that there are come with it."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("pong", {}))

    error = used(bound(Tool.make("ping"), lambda _: Success(None)), use, backend, era)

    assert (error.code, error.data["known"]) == (INVALID_PARAMS, ["ping"])


@both_eras
def test_a_bug_stays_in_the_house(backend: str, era: Era) -> None:
    """A defect is an internal error without a word of what happened, and `on_defect` has all of it."""
    told: list[Defect] = []

    def broken(_: Any) -> Never:
        raise RuntimeError("the key in /home/ann/.key is 1234")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("broken", {}))

    error = used(bound(Tool.make("broken"), broken), use, backend, era, on_defect=told.append)

    assert error.code == INTERNAL_ERROR
    assert "1234" not in repr(error)
    assert ".py" not in repr(error)
    assert [(one.tool, str(one.cause.defects[0])) for one in told] == [("broken", "the key in /home/ann/.key is 1234")]


def test_a_result_of_another_type_is_a_bug(backend: str) -> None:
    """What a handler gave against its type is not sent: it is an internal error, told to `on_defect`."""
    told: list[Defect] = []

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("count", {}))

    wrong = bound(Tool.make("count", success=int), lambda _: Success("many"))
    error = used(wrong, use, backend, on_defect=told.append)

    assert error.code == INTERNAL_ERROR
    assert "many" not in repr(error)
    assert [type(failure).__name__ for one in told for failure in one.cause.failures] == ["InvalidResult"]


def test_a_hook_that_breaks_hides_nothing(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where `on_defect` breaks too, the client is answered as before, and the log has both."""

    def hook(_: Defect) -> None:
        raise ValueError("the hook")

    def broken(_: Any) -> Never:
        raise RuntimeError("the handler")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("broken", {}))

    error = used(bound(Tool.make("broken"), broken), use, backend, on_defect=hook)

    assert error.code == INTERNAL_ERROR
    assert "the hook" in caplog.text
    assert "on_defect raised for a bug in 'broken'" in caplog.text


@both_eras
def test_absent_arguments_are_an_empty_object(backend: str, era: Era) -> None:
    """A call that says nothing of arguments is a call without any."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("ping")

    result = used(bound(Tool.make("ping", success=str), lambda _: Success("pong")), use, backend, era)

    assert text(result) == "pong"


@both_eras
def test_preliminary_results_are_progress(backend: str, era: Era) -> None:
    """Each preliminary result reaches the client in order, as the message of a progress notification."""
    heard: list[tuple[float, str | None]] = []

    @fx.gen
    def count(to: int, call: CallContext) -> Gen[int, Never, None]:
        for number in range(to):
            yield from call.preliminary(number)
        return to

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("count", {"value": 3}, progress_callback=hear)

    result = used(bound(Tool.make("count", parameters=int, success=int), count), use, backend, era)

    assert text(result) == "3"
    assert sorted(heard) == [(1, "0"), (2, "1"), (3, "2")]


@both_eras
def test_a_call_that_the_client_takes_back_is_interrupted(backend: str, era: Era) -> None:
    """Cancelling a call stops its handler, whose finalizers run; the next call is answered."""
    ended: list[str] = []

    @tool
    async def linger() -> None:
        """Waits."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("linger")

    @tool
    def ping() -> str:
        """Answers."""
        return "pong"

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        with anyio.move_on_after(0.2):
            await client.call_tool("linger", {})
        return await client.call_tool("ping", {})

    result = used(BoundToolkit.make(linger, ping), use, backend, era)

    assert (text(result), ended) == ("pong", ["linger"])


def test_a_call_that_takes_too_long_fails(backend: str) -> None:
    """After `timeout` seconds a call is interrupted, and its result says so; its handler knew its deadline."""
    deadlines: list[float | None] = []
    made = Tool.make("linger", success=str)

    def linger(_: Any, call: CallContext) -> Any:
        deadlines.append(call.deadline)
        return fx.never()

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("linger", {})

    result = used(bound(made, linger), use, backend, timeout=0.05)

    assert result.is_error
    assert result.structured_content["type"] == "execution-interrupted"
    assert result.structured_content["name"] == "linger"
    assert result.structured_content["reason"] == "the call took longer than 0.05 seconds"
    assert isinstance(deadlines[0], float)


def test_only_so_many_calls_run_at_once(backend: str) -> None:
    """With `concurrency=2` a third call waits for its turn, and all are answered."""
    running = 0
    most = 0

    @tool
    async def work() -> None:
        """Works."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.02)
        running -= 1

    async def use(client: mcp.Client, _: ToolServer) -> None:
        async with anyio.create_task_group() as group:
            for _number in range(6):
                group.start_soon(client.call_tool, "work")

    used(work, use, backend, concurrency=2)

    assert (most, running) == (2, 0)


def test_calls_beyond_those_that_may_wait_are_refused(backend: str) -> None:
    """Where `waiting` calls wait already, another one is told to come again later."""
    refusals: list[Any] = []

    @tool
    async def work() -> None:
        """Works."""
        await anyio.sleep(0.1)

    async def use(client: mcp.Client, _: ToolServer) -> None:
        async def call() -> None:
            try:
                await client.call_tool("work", {})
            except mcp.MCPError as error:
                refusals.append(error.message)

        async with anyio.create_task_group() as group:
            for _number in range(5):
                group.start_soon(call)

    used(work, use, backend, concurrency=1, waiting=1)

    assert len(refusals) == 3
    assert "later" in refusals[0]


def test_parameters_that_are_no_object_are_the_member_value(backend: str) -> None:
    """Arguments are an object over MCP: a tool that takes a number takes it as `value`, and is told of no wrapping."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        (listed,) = (await client.list_tools()).tools
        called = await client.call_tool("double", {"value": 4})
        return listed.input_schema, text(called), await client.call_tool("double", {"n": 4})

    made = Tool.make("double", parameters=int, success=int)
    schema, doubled, wrong = used(bound(made, lambda n: Success(n * 2)), use, backend)

    assert schema["properties"] == {"value": {"type": "integer"}}
    assert schema["required"] == ["value"]
    assert (doubled, wrong.is_error) == ("8", True)
    assert msgspec.json.decode(text(wrong))["type"] == "invalid-parameters"


def test_long_lists_come_in_pages(backend: str) -> None:
    """With `page_size` the list comes in pages, led by cursors; a cursor that there is none of is refused."""
    tools = Toolkit.make(*(Tool.make(f"t{n}") for n in range(5)))
    layers = [one.handler(lambda _: Success(None)) for one in tools]
    layer: Any = layers[0]
    for other in layers[1:]:
        layer = layer | other

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        pages: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await client.list_tools(cursor=cursor)
            pages.append([one.name for one in page.tools])
            cursor = page.next_cursor
        return pages, [await refused(client.list_tools(cursor=wrong)) for wrong in wrongs]

    wrongs = ("9", "x", "0", "5", "1", "-2", "02", "", "2.0", "\u0662", "9" * 5_000)
    pages, errors = used(BoundToolkit.of(tools, layer), use, backend, page_size=2)

    assert pages == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert [one.code for one in errors] == [INVALID_PARAMS] * len(wrongs)
    assert {one.message for one in errors} == {"unknown cursor. List the tools again from the first page"}


def test_what_handlers_need_is_needed_to_serve(backend: str) -> None:
    """The services of handlers come from the layers around the server, built once for all calls."""

    class Counter(Tag[list[int]]):
        """What is counted."""

    made = Tool.make("next", success=int)

    @fx.gen
    def count(_: Any) -> Gen[int, Never, Counter]:
        counted = yield from fx.service(Counter)
        counted.append(len(counted))
        return len(counted)

    tools = BoundToolkit.of(Toolkit.make(made), made.handler(count).provide(Layer.sync(Counter, list)))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return [text(await client.call_tool("next", {})) for _ in range(3)]

    assert used(tools, use, backend) == ["1", "2", "3"]


def test_tools_that_somebody_else_runs_cannot_be_served() -> None:
    """A tool without a handler of ours is an error when the server is opened, and the error names it."""
    outside = BoundToolkit.of(Toolkit.make(Tool.make("click").external()), Layer.empty())

    with pytest.raises(HandlerError, match=r"click.*omit"):
        fx.run_sync(fx.scoped(ToolServer.open(outside)))


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"timeout": -1.0}, {"waiting": -1}, {"page_size": 0}])
def test_options_that_cannot_be_are_refused_at_once(wrong: Any) -> None:
    """A number that makes no sense is an error before anything is opened."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        _ = ToolServer.open(bound(Tool.make("ping"), lambda _: Success(None)), **wrong)


def test_what_the_model_is_shown_is_the_text(backend: str) -> None:
    """`to_model_output` makes the content; the structured content stays the success itself."""
    made = Tool.make("go", success=Location, to_model_output=lambda place: f"at {place.x}")

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("go", {})

    result = used(bound(made, lambda _: Success(Location(5))), use, backend)

    assert (text(result), result.structured_content) == ("at 5", {"x": 5, "y": 0})


def test_a_result_function_serves_as_it_is(backend: str) -> None:
    """A function tool is served without a toolkit around it, its declared failure included."""

    @tool
    def half(n: int) -> Result[int, str]:
        """Halves."""
        return Failure("odd") if n % 2 else Success(n // 2)

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return [await client.call_tool("half", {"n": n}) for n in (4, 5)]

    right, wrong = used(half, use, backend)

    assert (text(right), right.is_error) == ("2", False)
    assert (text(wrong), wrong.is_error, wrong.structured_content) == ("odd", True, None)


@both_eras
def test_json_text_in_arguments_is_read(backend: str, era: Era) -> None:
    """A client that sends an object as JSON text is understood; a server that annotates its tools so is exact."""
    made = Tool.make("walk", parameters=Step, success=Location)
    given = {"to": '{"x": 1, "y": 2}'}

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await client.call_tool("walk", given)

    understood = used(bound(made, _reached), use, backend, era)
    exact = used(bound(made.annotate(JsonText, False), _reached), use, backend, era)
    assert (understood.is_error, understood.structured_content) == (False, {"x": 1, "y": 2})
    assert exact.is_error
    assert "/to: expected object" in text(exact)


def _reached(step: Any) -> Result[Location, Never]:
    return Success(step.to)


def test_without_pages_there_is_no_cursor(backend: str) -> None:
    """A list that comes whole has no next page, and no cursor leads into it; nobody is to keep it."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        listed = await client.list_tools()
        kept = listed.ttl_ms, listed.cache_scope
        return kept, listed.next_cursor, (await refused(client.list_tools(cursor="1"))).code

    tools = bound(Tool.make("a"), lambda _: Success(None)).merge(bound(Tool.make("b"), lambda _: Success(None)))

    assert used(tools, use, backend) == ((0, "private"), None, INVALID_PARAMS)


@pytest.mark.parametrize("grace", [0.05, 60])
def test_a_server_that_stops_gives_its_calls_a_while(
    backend: str, grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two calls both are answered where they end within `grace` seconds, not only the first; else neither is."""
    monkeypatch.setattr("fxai.mcp.server.server_transport._SENT", 20)
    statuses: list[int | None] = []
    go = anyio.Event()

    @tool
    async def work(last: bool) -> str:
        """Works until it may end."""
        await go.wait()
        await anyio.sleep(0.02 if last else 0)
        return "done"

    async def call(app: ASGIApp, last: bool) -> None:
        headers, body = modern("work", {"last": last})
        statuses.append(await status_of(app, [json.dumps(body).encode()], ends=True, more=headers))

    async def program() -> float:
        began = anyio.current_time()
        async with anyio.create_task_group() as group:

            def use(app: ASGIApp) -> Effect[None]:
                group.start_soon(call, app, False)
                group.start_soon(call, app, True)
                return fx.sleep(0.1).tap(lambda _: fx.sync(go.set if grace > 1 else bool))

            with anyio.fail_after(30):
                await fx.run_async(fx.scoped(http_app(work, grace=grace).flat_map(use)))
            go.set()
        return anyio.current_time() - began

    assert anyio.run(program, backend=backend) < 10
    assert statuses == ([200, 200] if grace > 1 else [None, None])


def test_a_server_without_calls_stops_at_once(backend: str) -> None:
    """Where no call runs nothing is waited for: neither before the first, nor after the last."""

    async def ask(client: Client) -> int:
        headers, body = modern("ping", {})
        return (await client.post("/mcp", json=body, headers=headers)).status_code

    made = bound(Tool.make("ping", success=str), lambda _: Success("pong"))

    async def idle(_: Client) -> int:
        await anyio.lowlevel.checkpoint()
        return 0

    async def served(use: OnClient) -> int:
        app = http_app(made, grace=3_600)
        found: int = await fx.run_async(fx.scoped(app.flat_map(lambda app: fx.wait(lambda: on_client(app, use)))))
        return found

    async def program() -> list[int]:
        with anyio.fail_after(30):
            return [await served(idle), await served(ask)]

    assert anyio.run(program, backend=backend) == [0, 200]


def test_a_server_is_idle_when_its_last_call_has_ended(backend: str) -> None:
    """Whoever waits for that waits for calls that began later too, not for the first; and again the next time."""
    gates = [anyio.Event() for _ in range(4)]
    log: list[Any] = []

    @tool
    async def work(number: int) -> None:
        """Works until it may end."""
        await gates[number].wait()
        log.append(number)

    async def use(client: mcp.Client, server: ToolServer) -> None:
        async def wait() -> None:
            await server._exchange.idle()
            log.append("idle")

        await wait()
        for pair in ((0, 1), (2, 3)):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for number in pair:
                        group.start_soon(client.call_tool, "work", {"number": number})
                        await anyio.wait_all_tasks_blocked()
                        group.start_soon(wait)
                        await anyio.wait_all_tasks_blocked()
                    for number in pair:
                        gates[number].set()
                        await anyio.wait_all_tasks_blocked()

    used(work, use, backend)

    assert log == ["idle", 0, 1, "idle", "idle", 2, 3, "idle", "idle"]


@both_eras
def test_a_failure_whose_finalizer_breaks_is_a_bug(backend: str, era: Era) -> None:
    """A typed failure beside a defect is told as the bug that it is, and `on_defect` has both."""
    told: list[Defect] = []
    made = Tool.make("find", success=str, failure=Lost)

    def find(_: Any) -> Effect[str, Lost]:
        return fx.fail(Lost(Location(1))).ensuring(fx.die(RuntimeError("the finalizer")))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return await refused(client.call_tool("find", {}))

    error = used(bound(made, find), use, backend, era, on_defect=told.append)

    assert error.code == INTERNAL_ERROR
    assert [(one.tool, [str(bug) for bug in one.cause.defects]) for one in told] == [("find", ["the finalizer"])]
