"""The server that programs of others are let loose on: the tools that the official conformance tool calls, and ours.

As a program it serves on standard input and output (`stdio`, with the name of an event loop), or over HTTP (`http`) and
says where.
"""

from __future__ import annotations

import signal
import sys
from base64 import b64decode, b64encode
from typing import Annotated, Any, Literal, Never, cast

import msgspec
from returns.result import Failure, Result, Success

from fxai import BoundToolkit, tool
from fxai.annotations import Destructive, Meta, Readonly, Title
from fxai.effects import Effect, Gen, Scope, fx
from fxai.mcp import ServerOptions, ToolServer
from fxai.tools import CallContext, Tool, Toolkit

__all__ = ["OPTIONS", "TOOLS", "City", "Weather", "opened"]

PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
SILENCE = b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
OPTIONS: ServerOptions = {"name": "served", "version": "1.2.3", "title": "Tools to be called", "instructions": "Call."}


APPROVED = (
    "input_required_result_request_state",
    "input_required_result_tampered_state",
    "missing_capability",
    "streaming_elicitation",
)


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: Annotated[str, msgspec.Meta(min_length=1)]


class Weather(msgspec.Struct, frozen=True):
    """The weather somewhere."""

    degrees: float
    sky: Literal["clear", "grey"]


class NoSuchCity(msgspec.Struct, frozen=True, tag_field="type", tag="no-such-city"):
    """Nobody knows that city."""

    name: str


weather = (
    Tool.make("weather", parameters=City, success=Weather, failure=NoSuchCity, description="The weather in a city.")
    .annotate(Title, "Weather")
    .annotate(Readonly, True)
    .annotate(Meta, {"example.org/unit": "C"})
)


def _weather(city: City) -> Result[Weather, NoSuchCity]:
    return Success(Weather(7.5, "grey")) if city.name == "Oslo" else Failure(NoSuchCity(city.name))


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    sys.stdout.write("a handler prints\n")
    return a + b


@tool
def forget() -> None:
    """Gives nothing."""


@tool
def broken() -> str:
    """Has a bug."""
    raise RuntimeError("the password of /etc/secret is 1234")


@tool
async def linger(seconds: float) -> str:
    """Takes its time."""
    import anyio

    try:
        await anyio.sleep(seconds)
    finally:
        sys.stderr.write("linger has ended\n")
    return "at last"


count = Tool.make("count", parameters=int, success=int, description="Counts up to a number.")


@fx.gen
def _count(to: int, call: CallContext) -> Gen[int, Never, None]:
    for number in range(1, to):
        yield from call.preliminary(number)
        yield from fx.sleep(0.02)  # the TypeScript SDKs lose what comes in one piece with the result
    return to


@tool(needs_approval=True)
def erase(path: str) -> str:
    """Erases a file."""
    return f"{path} is gone"


@tool
def test_simple_text() -> str:
    """Gives a text."""
    return "This is a simple text response for testing."


def _file(media_type: str, data: bytes, **more: str) -> dict[str, Any]:
    return {"type": "file", "media_type": media_type, "data": b64encode(data).decode(), **more}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _shows(name: str, *parts: dict[str, Any]) -> BoundToolkit[Any]:
    """A tool that shows the model texts and files."""
    shown = list(parts)
    made = Tool.dynamic(name, description="Gives content.", to_model_output=lambda _: shown)
    return BoundToolkit.of(Toolkit.make(made), made.handler(lambda _: Success(None)))


@tool
def test_error_handling() -> Result[str, str]:
    """Fails."""
    return Failure("This tool intentionally returns an error for testing")


test_tool_with_progress = Tool.make("test_tool_with_progress", success=int, description="Tells how far it is.")


@fx.gen
def _progress(_: Any, call: CallContext) -> Gen[int, Never, None]:
    for done in (0, 50, 100):
        yield from call.preliminary(done)
        yield from fx.sleep(0.01)
    return 100


@tool(needs_approval=True)
def test_elicitation(message: str) -> str:
    """Asks the user."""
    return message


def _approved(name: str) -> BoundToolkit[Any]:
    made = Tool.make(name, success=str, description="Asks the user.", needs_approval=True)
    return BoundToolkit.of(Toolkit.make(made), made.handler(lambda _: Success("approved")))


def _bound(made: Tool[Any, Any, Any], handler: Any) -> BoundToolkit[Any]:
    return BoundToolkit.of(Toolkit.make(made), made.handler(handler))


def _document(name: str, document: dict[str, Any]) -> BoundToolkit[Any]:
    made = Tool.dynamic(name, parameters=document, description="Takes what its document says.")
    return _bound(made, Success)


json_schema_2020_12_tool = _document(
    "json_schema_2020_12_tool",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
region = _document("region", {"type": "object", "properties": {"name": {"type": "string", "x-mcp-header": "Region"}}})
_JSON = _file("text/plain", b'{"test":"data","value":123}', file_name="test://mixed-content-resource")
_EVERY: tuple[Any, ...] = (
    *(test_simple_text, _bound(weather, _weather), add, forget, broken, linger, _bound(count, _count), erase),
    _shows("test_image_content", _file("image/png", PIXEL)),
    _shows("test_audio_content", _file("audio/wav", SILENCE)),
    _shows("test_embedded_resource", _file("text/plain", b"Embedded.", file_name="test://embedded-resource")),
    _shows("test_multiple_content_types", _text("Several:"), _file("image/png", PIXEL), _JSON),
    *(test_error_handling, _bound(test_tool_with_progress, _progress), test_elicitation),
    *(_approved(f"test_{name}") for name in APPROVED),
    *(_shows("test_logging_tool", _text("Nothing is logged.")), json_schema_2020_12_tool, region),
)
TOOLS: BoundToolkit[Any] = cast(Any, BoundToolkit.make)(*_EVERY)


def _renamed() -> BoundToolkit[Any]:
    return TOOLS.with_toolkit(lambda kit: kit.map(lambda one: one.annotate(Destructive, False)))


def opened() -> Effect[ToolServer, Never, Scope]:
    """The server, with one more tool by which its tools change."""

    @fx.gen
    def start() -> Gen[ToolServer, Never, Scope]:
        server = yield from ToolServer.open(TOOLS, **OPTIONS)

        @tool
        def test_trigger_tool_change() -> Effect[str]:
            """Changes the tools."""
            return server.replace(_renamed().merge(BoundToolkit.make(test_trigger_tool_change))).as_("changed")

        yield from server.replace(TOOLS.merge(BoundToolkit.make(test_trigger_tool_change)))
        return server

    return start()


def _said(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def main() -> None:
    """Serves as the arguments say, until it is interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores them
    backend: Literal["asyncio", "trio"] = "trio" if "trio" in sys.argv else "asyncio"

    def serve(server: ToolServer) -> Effect[None, Any]:
        if sys.argv[1] == "stdio":
            return server.serve_stdio()
        return server.serve_http(on_listening=_said, grace=0.5)

    try:
        fx.run(fx.scoped(opened().flat_map(serve)), backend=backend)
    except* KeyboardInterrupt:
        sys.stderr.write("interrupted\n")


if __name__ == "__main__":
    main()
