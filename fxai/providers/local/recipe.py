"""The recipe: how a small model chooses a tool, fills its parameters and answers, in three short completions.

A small base model cannot follow a tool-calling template. It can go on with a list: so each stage shows lines of the
kind it is to write, with the tools' own request examples among them, and a grammar holds it to the choice or the
schema. Everything here is pure: it makes prompts.

>>> weather = Offer("weather", "current weather of a city", (("Is it hot in Rome?", {"city": "Rome"}),))
>>> print(choosing((weather,), "Rain in Oslo?").splitlines()[-1])
Rain in Oslo? ->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import msgspec

from fxai.providers.local.conversation import Call, Conversation, Exchange
from fxai.providers.local.form import members
from fxai.providers.local.rendering import rendered

__all__ = ["Offer", "answering", "choosing", "filling", "no_tool", "prose", "structuring", "talking"]

_NONE: Final = "none"

_SMALL_TALK: Final = (
    "Hello there!",
    "Thanks a lot",
    "What can you do for me?",
    "Nice weather for a walk, isn't it?",
    "That is all for now, goodbye",
    "Tell me who you are",
)
_ANSWERED: Final = (
    Exchange("What is 7 plus 1?", (Call("", "add", None, "8"),), "7 plus 1 is 8."),
    Exchange("What does the note say?", (Call("", "open_note", None, "buy milk"),), "The note says: buy milk."),
    Exchange(
        "How is the weather in Rome?", (Call("", "weather", None, "31 C, sunny"),), "It is 31 C and sunny in Rome."
    ),
    Exchange(
        "When does the next bus leave?",
        (Call("", "departures", None, "line: 12; destination: Harbour; departs: 14:05; platform: 3"),),
        "It leaves at 14:05.",
    ),
    Exchange(
        "Which books do you have?",
        (Call("", "books", None, "found: 2; books: title Emma, author Austen; books: title Ulysses, author Joyce"),),
        "The books are Emma and Ulysses.",
    ),
)
_FAILED: Final = Exchange(
    "Delete old.txt", (Call("", "delete", None, "no such file", True),), "It failed: no such file."
)
_TALKED: Final = (
    Exchange("Hello!", (), "Hello! How can I help you?"),
    Exchange("What are you?", (), "I am a small language model that runs on this computer."),
    Exchange("What is the capital of France?", (), "The capital of France is Paris."),
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_LONGEST_RESULT: Final = 1500


@final
class Offer(msgspec.Struct, frozen=True):
    """A tool as the recipe sees it: its name, what it is for, and requests with the parameters that are right."""

    name: str
    description: str = ""
    examples: tuple[tuple[str | None, Any], ...] = ()

    @property
    def gist(self) -> str:
        """The first sentence of the description, or the words of the name."""
        first = re.split(r"(?<=[.!?])\s|\n", self.description.strip(), maxsplit=1)[0].rstrip(".")
        return first[:100] or self.words

    @property
    def words(self) -> str:
        """The words of the name."""
        return " ".join(_WORD.findall(self.name)).lower() or self.name

    @property
    def requests(self) -> tuple[tuple[str, Any], ...]:
        """The examples that carry a request."""
        return tuple((_line(request), params) for request, params in self.examples if request)


def no_tool(offers: Sequence[Offer]) -> str:
    """What the model chooses when no tool fits: a word that is no tool's name.

    >>> no_tool([Offer("none")])
    'none at all'
    """
    return _NONE if all(offer.name != _NONE for offer in offers) else f"{_NONE} at all"


def choosing(offers: Sequence[Offer], request: str, past: Sequence[Exchange] = ()) -> str:
    """The prompt whose next word is a tool's name, or `no_tool`.

    Requests of the tools' examples and small talk take turns; a tool without such examples is shown by its gist. The
    last exchanges before this one are lines of the same kind.
    """
    rows = _rows(offers)
    names, none = {offer.name for offer in offers}, no_tool(offers)
    for exchange in past[-2:]:
        called = exchange.calls[0].name if exchange.calls else none
        if called in names or called == none:
            rows.append((_line(exchange.request), called))
    return "".join(f"{said} -> {name}\n" for said, name in rows) + f"{_line(request)} ->"


def _rows(offers: Sequence[Offer]) -> list[tuple[str, str]]:
    shown = [[*(said for said, _ in offer.requests)] or [offer.words, offer.gist] for offer in offers]
    rounds, none = max(map(len, shown), default=0), no_tool(offers)
    if not any(offer.requests for offer in offers):  # small talk among what tools are for would drown it
        told = [(lines[turn], offer.name) for turn in range(rounds) for lines, offer in zip(shown, offers, strict=True)]
        return [*((said, none) for said in _SMALL_TALK[:2]), *told]
    talk = list(_SMALL_TALK[: max(4, min(len(_SMALL_TALK), len(offers)))])
    rows: list[tuple[str, str]] = []
    for turn in range(rounds):
        rows += [(lines[turn], offer.name) for lines, offer in zip(shown, offers, strict=True) if turn < len(lines)]
        share = -(-len(talk) // (rounds - turn))
        rows += [(said, none) for said in talk[:share]]
        talk = talk[share:]
    return rows


def filling(offer: Offer, request: str, schema: Mapping[str, Any], past: Sequence[Exchange] = ()) -> str:
    """The prompt whose next text is the JSON of the tool's parameters."""
    told = _properties(schema)
    shown = [*offer.requests, *((offer.gist, params) for said, params in offer.examples if not said)]
    shown += [(e.request, call.params) for e in past[-2:] for call in e.calls[:1] if call.name == offer.name]
    if not shown:
        return f"{offer.name}: {offer.gist}\n{told}\nRequest: {_line(request)}\nParameters:"
    lines = "".join(f"{_line(said)} -> {offer.name} {_json(params)}\n" for said, params in shown)
    return f"{lines}{_line(request)} -> {offer.name}"


def _properties(schema: Mapping[str, Any]) -> str:
    """What the schema says of each property, a line each: all that a tool without examples has to show."""
    lines = [
        f"{name}: {_line(str(members(about)['description']))[:160]}\n"
        for name, about in schema.get("properties", {}).items()
        if "description" in members(about)
    ]
    return "".join(lines)


def answering(talk: Conversation) -> str:
    """The prompt whose next line answers the current request from the results of its calls."""
    failed = (_FAILED,) if any(call.is_failure for call in talk.current.calls) else ()
    shown = (*_ANSWERED, *failed, *(exchange for exchange in talk.past[-2:] if exchange.calls))
    lines = "".join(_answered(exchange) for exchange in shown)
    return f"{_head(talk)}{lines}{_answered(talk.current)}"


def talking(talk: Conversation) -> str:
    """The prompt whose next line is said in reply, without any tool."""
    lines = "".join(_talked(exchange) for exchange in (*_TALKED, *talk.past))
    return f"{_head(talk)}{lines}{_talked(talk.current)}"


def structuring(talk: Conversation) -> str:
    """The prompt whose next text is JSON in reply to the current request and the results of its calls."""
    lines = "".join(_talked(exchange) for exchange in talk.past[-2:])
    results = "".join(_result(call) for call in talk.current.calls)
    return f"{_head(talk)}{lines}Request: {_line(talk.current.request)}\n{results}The same as JSON:"


def prose(talk: Conversation) -> tuple[tuple[str, str], ...]:
    """The conversation as messages for a model's own chat template: role and text of each."""
    said: list[tuple[str, str]] = [("system", talk.system)] if talk.system else []
    for exchange in (*talk.past, talk.current):
        results = "".join("\n" + _result(call).strip() for call in exchange.calls)
        said.append(("user", exchange.request + results))
        if exchange.answer:
            said.append(("assistant", exchange.answer))
    return tuple(said)


def _answered(exchange: Exchange) -> str:
    results = "".join(_result(call, rendered) for call in exchange.calls)
    end = f" {_line(exchange.answer)}\n\n" if exchange.answer else ""
    return f"Request: {_line(exchange.request)}\n{results}Answer:{end}"


def _talked(exchange: Exchange) -> str:
    end = f" {_line(exchange.answer)}\n\n" if exchange.answer else ""
    return f"User: {_line(exchange.request)}\nAssistant:{end}"


def _result(call: Call, shown: Callable[[str], str] = str) -> str:
    kind = "Failure" if call.is_failure else "Result"
    text = shown(call.result) if call.result is not None else "not known yet"
    short = text if len(text) <= _LONGEST_RESULT else text[:_LONGEST_RESULT] + " …"
    return f"{kind} of {call.name}: {_line(short)}\n"


def _head(talk: Conversation) -> str:
    return f"{talk.system.strip()}\n\n" if talk.system.strip() else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _json(params: Any) -> str:
    return json.dumps(params, ensure_ascii=False)
