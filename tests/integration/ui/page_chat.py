"""A chat application with the page, on a port of loopback that it says; its answers go by the first word."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import uvicorn
from returns.result import Failure, Result, Success

from fxai import Agent, CallContext, Gen, Tool, Toolkit, fx
from fxai.effects import StreamOf
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, Turn, call, delay, fails, reasoning, text
from fxai.ui import AppOptions, ChatPage, ChatTurn, Question, chat_app

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
HOSTILE = (
    '<img src=x onerror="document.title=1"> <script>document.title=1</script> [click](javascript:document.title=1) '
    "![spy](https://example.com/spy.png) [fine](https://example.com/)"
)
HEAVY = {
    "stars": "*a " * 20_000,
    "quotes": ">" * 6_000,
    "spaced quotes": "> " * 6_000,
    "lists": "- " * 6_000,
    "nested lines": "\n".join("  " * depth + "- a" for depth in range(900)),
    "brackets": "[" * 20_000,
    "links": "[a](" * 10_000,
    "ticks": "`a``b" * 8_000,
    "tildes": "~a " * 20_000,
    "cells": "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + ("|" + "a|" * 300 + "\n") * 200,
    "entities": "&" * 60_000,
    "headings": "# a\n" * 20_000,
    "long": "word " * 60_000,
}
GUIDE = """Three things to know:

1. **Effects** are values, and run when they are asked to.
2. *Layers* supply what a program needs.

```python
answer = fx.run(program.provide(layer))
```

| tool | result |
|---|---|
| `getWeather` | 21 |

> Whatever can fail says so in its type.
"""
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 4},
        "window": {"type": "boolean"},
        "meal": {"type": "string", "enum": ["soup", "salad"]},
    },
    "required": ["name", "seats"],
}


SWEEP = {
    "to": [f"friend{number}" for number in range(250)] + ["ATTACKER"],
    "deep": {"x": {"y": {"note": "a" * 700, "also": "SECRET-TRANSFER"}}},
    "file": "report\u202egpj.exe",
    "shell": "rm -rf ~" + " " * 5_000 + "; ls",
}
"""Parameters with a part that nobody would see."""


class City(msgspec.Struct, frozen=True):
    """A city."""

    city: str


class Path(msgspec.Struct, frozen=True):
    """A file."""

    path: str


class NoSuchTrain(msgspec.Struct, frozen=True, tag_field="type", tag="no-such-train"):
    """A typed failure."""

    city: str


train = Tool.make("find_train", parameters=City, success=str, failure=NoSuchTrain, failure_mode="return")
weather = Tool.make("getWeather", parameters=City, success=int, failure=str, failure_mode="return")
forecast = Tool.make("getForecast", parameters=City, success=list[dict[str, Any]])
paint = Tool.make("paint", parameters=City, success=dict[str, Any])
delete = Tool.make("deleteFile", parameters=Path, success=str, needs_approval=True)
sweep = Tool.dynamic("sweep", parameters={"type": "object"}, needs_approval=True)
book = Tool.make("bookFlight", parameters=City, success=dict[str, Any])
work = Tool.dynamic("mcp_work", parameters={"type": "object"})
locate = Tool.make("getLocation", success=str).external()


def on_weather(asked: City) -> Result[int, str]:
    """Knows all cities but one."""
    return Success(21) if asked.city != "Atlantis" else Failure("there is no such city")


def on_book(asked: City) -> Gen[dict[str, Any]]:
    """Asks the user."""
    page = yield from ChatPage
    reply = yield from page.ask(Question(f"Who flies to {asked.city}?", title="Booking", schema=FORM))
    return {"action": reply.action, "content": reply.content}


def on_work(_: object, context: CallContext) -> Gen[Any]:
    """Shows how far it is."""
    for done in (10, 60):
        yield from context.preliminary({"progress": done})
        yield from fx.sleep(1.0)
    return {"progress": 100}


def rows(asked: City) -> Result[list[dict[str, Any]], Any]:
    """Gives records, and of a wide city more than a page can show."""
    if asked.city == "Wide":
        return Success([{f"k{row}_{column}": 1 for column in range(300)} for row in range(200)])
    return Success([{"day": "Monday", "celsius": 21}, {"day": "Tuesday", "celsius": 18}])


def picture(_: City) -> Result[dict[str, Any], Any]:
    """Gives a picture, as MCP has it."""
    return Success({"content": [{"type": "image", "mimeType": "image/png", "data": PICTURE}]})


kit = Toolkit.make(weather, forecast, paint, delete, sweep, book, work, locate, train)
handlers = kit.to_layer(
    weather.handler(on_weather)
    | forecast.handler(rows)
    | paint.handler(picture)
    | delete.handler(lambda asked: Success(f"{asked.path} is gone"))
    | sweep.handler(lambda _: Success("swept"))
    | book.handler(on_book)
    | work.handler(on_work)
    | train.handler(lambda asked: Failure(NoSuchTrain(asked.city)))
)

_failed: set[str] = set()


def script(turn: ChatTurn) -> list[Turn]:
    """What the model says, from where the turn is."""
    added = next(message.text for message in reversed(turn.prompt) if message.role == "user")
    word = added.split()[0].strip(".,").lower() if added.strip() else ""
    if turn.added[0].role == "tool":
        return [text("Thank you, I go on.")]
    if word == "break" and turn.conversation not in _failed:
        _failed.add(turn.conversation)
        return [["Let me ", fails(NetworkError("TransportError", "the model is away"))]]
    calls: dict[str, Turn] = {
        "weather": call("getWeather", {"city": "Paris"}),
        "atlantis": call("getWeather", {"city": "Atlantis"}),
        "forecast": call("getForecast", {"city": "Paris"}),
        "wide": call("getForecast", {"city": "Wide"}),
        "paint": call("paint", {"city": "Paris"}),
        "delete": call("deleteFile", {"path": "/tmp/report.txt"}),
        "delete-both": [call("deleteFile", {"path": "/a"}), call("deleteFile", {"path": "/b"})],
        "sweep": call("sweep", SWEEP),
        "book": call("bookFlight", {"city": "Rome"}),
        "work": call("mcp_work", {"n": 1}),
        "locate": call("getLocation", {}),
        "train": call("find_train", {"city": "Rome"}),
    }
    if word == "heavy":
        return [text(HEAVY[added.partition(" ")[2]] + "\n\nThe end.")]
    if word in calls:
        return [calls[word], text("That is what I found.")]
    answers: dict[str, Turn] = {
        "think": [reasoning("The user wants a guide."), GUIDE],
        "hostile": text(HOSTILE),
        "code": text('```python\ndef f(x):  # a comment\n    return "text", 12\n```'),
        "count": [part for n in range(60) for part in (f"{n} ", delay(0.05))],
        "long": text("\n\n".join(f"Paragraph {n} of a long answer." for n in range(80))),
    }
    return [answers.get(word, text(f"You said: {added}")), text("I read your message.")]


def answer(turn: ChatTurn) -> StreamOf[Any, Any, None]:
    """The parts of an answer."""
    model = ScriptedModel.make(script(turn))
    agent = Agent.make("desk", toolkit=kit)
    parts: StreamOf[Any, Any, None] = agent.stream(turn.prompt).provide(handlers).provide(model.layer)
    return parts


if __name__ == "__main__":
    options = AppOptions(title="Travel desk", suggestions=("hello there",), page=True, turns_per_minute=6000)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    uvicorn.run(chat_app(answer, options=options), host="127.0.0.1", port=port)
