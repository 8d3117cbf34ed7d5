"""Nine conversations, played for a client of the AI SDK: calls, failures, approvals, data, by a model with a script.

Start it with `python examples/ui_scenarios.py --port 8000`, and post `{id, messages, trigger, scenario}` to
`/api/chat`, as `useChat` does. A scenario is named by `scenario`, or else by the text of the user; without a port the
program lists them.
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


# The tools. `mcp_search` is one whose types are known only when the program runs, like those of an MCP server.


class Place(msgspec.Struct, frozen=True):
    """Where to look."""

    city: str


class Weather(msgspec.Struct, frozen=True):
    """How warm it is."""

    celsius: int


class FileName(msgspec.Struct, frozen=True):
    """Which file."""

    path: str


class Deletion(msgspec.Struct, frozen=True):
    """What became of the file."""

    deleted: bool


weather = Tool.make("getWeather", parameters=Place, success=Weather, failure=str, failure_mode="return")
search = Tool.dynamic(
    "mcp_search",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    failure=str,
    failure_mode="return",
)
location = Tool.make("getLocation", success=str).external()
delete = Tool.make("deleteFile", parameters=FileName, success=Deletion, needs_approval=True)


def look_up_weather(place: Place) -> Result[Weather, str]:
    """Knows one city."""
    return Success(Weather(21)) if place.city == "Paris" else Failure(f"CityNotFound: {place.city}")


def find_hit(_: object) -> Result[Any, str]:
    """Finds the same for everybody."""
    return Success({"content": [{"type": "text", "text": "hit"}]})


def find_nothing(_: object) -> Result[Any, str]:
    """Has no index."""
    return Failure("SearchFailed: there is no index")


def find_slowly(_: object, context: CallContext) -> Gen[Any, str]:
    """Shows how far it is."""
    yield from context.preliminary({"progress": 10})
    yield from context.preliminary({"progress": 60})
    return {"progress": 100}


# What the model says. It streams the parameters of its calls in pieces, as real models do.


def stream_call(name: str, params: str, id_: str) -> list[ToolParamsStart | ToolParamsDelta | ToolParamsEnd | ToolCall]:
    """A call whose parameters come five characters at a time."""
    pieces = [params[at : at + 5] for at in range(0, len(params), 5)]
    return [
        ToolParamsStart(id_, name),
        *(ToolParamsDelta(id_, piece) for piece in pieces),
        ToolParamsEnd(id_),
        call(name, msgspec.json.decode(params), id=id_),
    ]


def run(turn: ChatTurn, kit: Toolkit[Any], handlers: LayerOf[Any, Any, None], *script: Turn) -> Parts:
    """The parts of an agent's run that a model with this script is asked in."""
    agent = Agent.make("player", toolkit=kit)
    parts: Parts = agent.stream(turn.prompt).provide(handlers).provide(ScriptedModel.make(script).layer)
    return parts


# The scenarios.


def look_up(on_search: Callable[..., Any], *script: Turn) -> Callable[[ChatTurn], Parts]:
    """A scenario of the two tools that look things up."""
    kit = Toolkit.make(weather, search)
    handlers = kit.to_layer(weather.handler(look_up_weather) | search.handler(on_search))
    return lambda turn: run(turn, kit, handlers, *script)


def show_data(_: ChatTurn) -> Parts:
    """Data of the application's own, a source and a file: parts that no model gave."""
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
    """Half an answer."""
    half: Parts = StreamOf.make(TextStart("t"), TextDelta("t", "half"))
    return half.concat(StreamOf.fail("model overloaded"))


def ask_the_client(turn: ChatTurn) -> Parts:
    """A call that the page answers."""
    asks = turn.said[0].role == "user"
    script: Turn = stream_call("getLocation", "{}", "call-client") if asks else text("You are here.")
    kit = Toolkit.make(location)
    return run(turn, kit, LayerOf.empty(), script)


def ask_for_approval(turn: ChatTurn) -> Parts:
    """A call that waits until somebody agrees."""
    (message,) = turn.said
    script: Turn = stream_call("deleteFile", '{"path":"/x"}', "call-approve")
    if message.role == "tool":
        agreed = all(part.approved for part in message.content if part.type == "tool-approval-response")
        script = text("Deleted." if agreed else "Not deleted.")
    kit = Toolkit.make(delete)
    return run(turn, kit, kit.to_layer(delete.handler(lambda _: Success(Deletion(True)))), script)


def call_both(static: str, dynamic: str) -> Turn:
    """A call of each of the two tools, in one turn."""
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
    """The parts of the scenario that a request names, by `scenario` or by the last text of the user."""
    texts = [message.text for message in turn.prompt if message.role == "user"]
    name = str(turn.body.get("scenario", texts[-1]))
    if name not in SCENARIOS:
        return StreamOf.fail(f"there is no scenario {name!r}: {', '.join([*SCENARIOS, REFUSED])}")
    return SCENARIOS[name](turn)


async def identify(request: Request) -> str:
    """Everybody is one user, whose quota is exceeded in one of the scenarios."""
    body: dict[str, Any] = await request.json() if request.url.path == "/api/chat" and request.method == "POST" else {}
    if REFUSED in body.get("scenario", str(body.get("messages", [])[-1:])):
        raise HTTPException(429, "quota exceeded")
    return "user"


def main() -> None:
    """Serves the scenarios on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port", type=int, help="the port to serve at, 0 for a free one; without it the scenarios are listed"
    )
    parser.add_argument("--version", type=int, choices=(5, 6, 7), default=7, help="the major version of the AI SDK")
    asked = parser.parse_args()
    if asked.port is None:
        print("\n".join([*SCENARIOS, REFUSED]))
        return
    version: Version = asked.version
    options = AppOptions(stream=StreamOptions(version, error_text=str), turns_per_minute=6000)
    uvicorn.run(chat_app(answer, identify=identify, options=options), host="127.0.0.1", port=asked.port)


if __name__ == "__main__":
    main()
