"""Play nine conversations for a client of the AI SDK: calls, failures, approvals, and data, with a scripted model.

Run `python examples/ui_scenarios.py --port 8000`, and post `{id, messages, trigger, scenario}` to `/api/chat`, like
`useChat`. `scenario` names a scenario. By default, the user's text names it. Without a port, the program lists the
scenarios.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn
from returns.result import Failure, Result, Success
from starlette.exceptions import HTTPException
from starlette.requests import Request

from fxai import Agent, CallContext, Gen, Tool, Toolkit
from fxai.effects import LayerOf, StreamOf
from fxai.messages import (
    File,
    FileUrl,
    Finish,
    Source,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
)
from fxai.testing import ScriptedModel, Turn, call, text
from fxai.ui import AppOptions, ChatTurn, DataPart, StreamOptions, Version, chat_app

Parts = StreamOf[StreamPart | DataPart, Any, None]


# The tools. `mcp_search` is dynamic, like the tools of an MCP server.


class Location(msgspec.Struct, frozen=True):
    """A city."""

    city: str


class Weather(msgspec.Struct, frozen=True):
    """A temperature."""

    celsius: int


class FileName(msgspec.Struct, frozen=True):
    """A path of a file."""

    path: str


class Deletion(msgspec.Struct, frozen=True):
    """The result of a deletion."""

    deleted: bool


weather = Tool.make("getWeather", parameters=Location, success=Weather, failure=str, failure_mode="return")
search = Tool.dynamic(
    "mcp_search",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    failure=str,
    failure_mode="return",
)
location = Tool.make("getLocation", success=str).external()
delete = Tool.make("deleteFile", parameters=FileName, success=Deletion, needs_approval=True)


def look_up_weather(location: Location) -> Result[Weather, str]:
    """Return the weather in Paris, or a failure."""
    return Success(Weather(21)) if location.city == "Paris" else Failure(f"CityNotFound: {location.city}")


def find_hit(_: object) -> Result[Any, str]:
    """Return the same hit for every query."""
    return Success({"content": [{"type": "text", "text": "hit"}]})


def find_nothing(_: object) -> Result[Any, str]:
    """Fail without an index."""
    return Failure("SearchFailed: there is no index")


def find_slowly(_: object, context: CallContext) -> Gen[Any, str]:
    """Report progress before the result."""
    yield from context.preliminary({"progress": 10})
    yield from context.preliminary({"progress": 60})
    return {"progress": 100}


# The turns of the model. It streams the arguments of its calls in pieces, as real models do.


def stream_call(name: str, params: str, id_: str) -> list[ToolParamsStart | ToolParamsDelta | ToolParamsEnd | ToolCall]:
    """Return a call whose arguments arrive five characters at a time."""
    pieces = [params[at : at + 5] for at in range(0, len(params), 5)]
    return [
        ToolParamsStart(id_, name),
        *(ToolParamsDelta(id_, piece) for piece in pieces),
        ToolParamsEnd(id_),
        call(name, msgspec.json.decode(params), id=id_),
    ]


def run(turn: ChatTurn, kit: Toolkit[Any], handlers: LayerOf[Any, Any, None], *script: Turn) -> Parts:
    """Return the parts of an agent's run with a scripted model."""
    agent = Agent.make("player", toolkit=kit)
    parts: Parts = agent.stream(turn.prompt).provide(handlers).provide(ScriptedModel.make(script).layer)
    return parts


# The scenarios.


def look_up(on_search: Callable[..., Any], *script: Turn) -> Callable[[ChatTurn], Parts]:
    """Return a scenario with the two search tools."""
    kit = Toolkit.make(weather, search)
    handlers = kit.to_layer(weather.handler(look_up_weather) | search.handler(on_search))
    return lambda turn: run(turn, kit, handlers, *script)


def show_data(_: ChatTurn) -> Parts:
    """Return parts of the application, without a model: data, a source, and a file."""
    return StreamOf.make(
        DataPart("progress", {"pct": 10}, id="p"),
        DataPart("toast", {"text": "Saved."}, transient=True),
        DataPart("progress", {"pct": 90}, id="p"),
        Source("source-1", title="Effects", url="https://example.com/effects"),
        File("image/png", FileUrl("https://example.com/effects.png")),
        TextStart("t"),
        TextDelta("t", "Here it is."),
        TextEnd("t"),
        Finish("stop"),
    )


def fail_in_the_middle(_: ChatTurn) -> Parts:
    """Fail after half an answer."""
    half: Parts = StreamOf.make(TextStart("t"), TextDelta("t", "half"))
    return half.concat(StreamOf.fail("model overloaded"))


def ask_the_client(turn: ChatTurn) -> Parts:
    """Make a call that the page answers."""
    asks = turn.added[0].role == "user"
    script: Turn = stream_call("getLocation", "{}", "call-client") if asks else text("You are here.")
    kit = Toolkit.make(location)
    return run(turn, kit, LayerOf.empty(), script)


def ask_for_approval(turn: ChatTurn) -> Parts:
    """Make a call with a pending approval."""
    (message,) = turn.added
    script: Turn = stream_call("deleteFile", '{"path":"/x"}', "call-approve")
    if message.role == "tool":
        agreed = all(part.approved for part in message.content if part.type == "tool-approval-response")
        script = text("Deleted." if agreed else "Not deleted.")
    kit = Toolkit.make(delete)
    return run(turn, kit, kit.to_layer(delete.handler(lambda _: Success(Deletion(True)))), script)


def call_both(static: str, dynamic: str) -> Turn:
    """Return one call of each of the two tools, in one turn."""
    return [*stream_call("getWeather", static, "call-static"), *stream_call("mcp_search", dynamic, "call-dynamic")]


MISTAKES: Turn = [*stream_call("getWeather", '{"town":1}', "call-static"), *stream_call("nope", "{}", "call-none")]

SCENARIOS: dict[str, Callable[[ChatTurn], Parts]] = {
    "round": look_up(find_hit, call_both('{"city":"Paris"}', '{"query":"effects"}'), text("21 degrees in Paris.")),
    "tool-error": look_up(find_nothing, call_both('{"city":"X"}', '{"query":"x"}'), text("I do not know.")),
    "invalid-input": look_up(find_hit, MISTAKES, text("I called them wrongly.")),
    "preliminary": look_up(find_slowly, stream_call("mcp_search", '{"query":"x"}', "call-dynamic"), text("Found.")),
    "data-parts": show_data,
    "stream-error": fail_in_the_middle,
    "client-tool": ask_the_client,
    "approval": ask_for_approval,
}
REFUSED = "http-error"


def answer(turn: ChatTurn) -> Parts:
    """Return the parts of a request's scenario, named by `scenario` or by the last text of the user."""
    texts = [message.text for message in turn.prompt if message.role == "user"]
    name = str(turn.body.get("scenario", texts[-1]))
    if name not in SCENARIOS:
        return StreamOf.fail(f"unknown scenario {name!r}. Use one of: {', '.join([*SCENARIOS, REFUSED])}")
    return SCENARIOS[name](turn)


async def identify(request: Request) -> str:
    """Return the same user for every request. In one scenario, the quota of the user is exceeded."""
    body: dict[str, Any] = await request.json() if request.url.path == "/api/chat" and request.method == "POST" else {}
    if REFUSED in body.get("scenario", str(body.get("messages", [])[-1:])):
        raise HTTPException(429, "quota exceeded")
    return "user"


def main() -> None:
    """Serve the scenarios on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port", type=int, help="Port of the server, 0 for any free port. Default: none, list the scenarios."
    )
    parser.add_argument("--version", type=int, choices=(5, 6, 7), default=7, help="Major version of the AI SDK.")
    asked = parser.parse_args()
    if asked.port is None:
        print("\n".join([*SCENARIOS, REFUSED]))
        return
    version: Version = asked.version
    options = AppOptions(stream=StreamOptions(version, error_text=str), turns_per_minute=6000)
    uvicorn.run(chat_app(answer, identify=identify, options=options), host="127.0.0.1", port=asked.port)


if __name__ == "__main__":
    main()
