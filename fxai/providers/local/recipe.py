"""The recipe: how a small model chooses a tool, fills its parameters and answers, in three short completions.

A small base model cannot follow a tool-calling template. It can go on with a list: so each stage shows lines of the
kind it is to write, with the tools' own request examples among them, and a grammar holds it to the choice or the
schema. Everything here is pure: it makes prompts.

>>> weather = Candidate("weather", "current weather of a city", (("Is it hot in Rome?", {"city": "Rome"}),))
>>> print(choosing((weather,), "Rain in Oslo?").splitlines()[-1])
Rain in Oslo? ->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.providers.local.conversation import Call, Conversation, Exchange

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
class Candidate(msgspec.Struct, frozen=True):
    """A tool in the prompts: its name, its description, and example requests with their parameters."""

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


def no_tool(candidates: Sequence[Candidate]) -> str:
    """The choice for no tool: a word that is no tool's name.

    >>> no_tool([Candidate("none")])
    'none at all'
    """
    return _NONE if all(candidate.name != _NONE for candidate in candidates) else f"{_NONE} at all"


def choosing(candidates: Sequence[Candidate], request: str, past: Sequence[Exchange] = ()) -> str:
    """The prompt whose next word is a tool's name, or `no_tool`.

    Requests of the tools' examples and small talk take turns; a tool without such examples is shown by its gist. The
    last exchanges before this one are lines of the same kind.
    """
    rows = _rows(candidates)
    names, none = {candidate.name for candidate in candidates}, no_tool(candidates)
    for exchange in past[-2:]:
        called = exchange.calls[0].name if exchange.calls else none
        if called in names or called == none:
            rows.append((_line(exchange.request), called))
    return "".join(f"{text} -> {name}\n" for text, name in rows) + f"{_line(request)} ->"


def _rows(candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    shown = [
        [*(text for text, _ in candidate.requests)] or [candidate.words, candidate.gist] for candidate in candidates
    ]
    rounds, none = max(map(len, shown), default=0), no_tool(candidates)
    if not any(candidate.requests for candidate in candidates):  # small talk among what tools are for would drown it
        pairs = list(zip(shown, candidates, strict=True))
        known = [(lines[turn], candidate.name) for turn in range(rounds) for lines, candidate in pairs]
        return [*((text, none) for text in _SMALL_TALK[:2]), *known]
    talk = list(_SMALL_TALK[: max(4, min(len(_SMALL_TALK), len(candidates)))])
    rows: list[tuple[str, str]] = []
    for turn in range(rounds):
        rows += [
            (lines[turn], candidate.name)
            for lines, candidate in zip(shown, candidates, strict=True)
            if turn < len(lines)
        ]
        share = -(-len(talk) // (rounds - turn))
        rows += [(text, none) for text in talk[:share]]
        talk = talk[share:]
    return rows


def filling(candidate: Candidate, request: str, schema: Mapping[str, Any], past: Sequence[Exchange] = ()) -> str:
    """The prompt whose next text is the JSON of the tool's parameters."""
    lines_told = _properties(schema)
    shown = [*candidate.requests, *((candidate.gist, params) for text, params in candidate.examples if not text)]
    shown += [(e.request, call.params) for e in past[-2:] for call in e.calls[:1] if call.name == candidate.name]
    if not shown:
        return f"{candidate.name}: {candidate.gist}\n{lines_told}\nRequest: {_line(request)}\nParameters:"
    lines = "".join(
        f"{_line(text)} -> {candidate.name} {json.dumps(params, ensure_ascii=False)}\n" for text, params in shown
    )
    return f"{lines}{_line(request)} -> {candidate.name}"


def _properties(schema: Mapping[str, Any]) -> str:
    """The descriptions of the properties, a line each, for a tool without examples."""
    lines = [
        f"{name}: {_line(str(_keywords(about)['description']))[:160]}\n"
        for name, about in schema.get("properties", {}).items()
        if "description" in _keywords(about)
    ]
    return "".join(lines)


def answering(talk: Conversation) -> str:
    """The prompt whose next line answers the current request from the results of its calls."""
    failed = (_FAILED,) if any(call.is_failure for call in talk.current.calls) else ()
    shown = (*_ANSWERED, *failed, *(exchange for exchange in talk.past[-2:] if exchange.calls))
    lines = "".join(_answer_lines(exchange) for exchange in shown)
    return f"{_head(talk)}{lines}{_answer_lines(talk.current)}"


def talking(talk: Conversation) -> str:
    """The prompt whose next line is a reply without any tool."""
    lines = "".join(_talk_lines(exchange) for exchange in (*_TALKED, *talk.past))
    return f"{_head(talk)}{lines}{_talk_lines(talk.current)}"


def structuring(talk: Conversation) -> str:
    """The prompt whose next text is JSON in reply to the current request and the results of its calls."""
    lines = "".join(_talk_lines(exchange) for exchange in talk.past[-2:])
    results = "".join(_result(call) for call in talk.current.calls)
    return f"{_head(talk)}{lines}Request: {_line(talk.current.request)}\n{results}The same as JSON:"


def prose(talk: Conversation) -> tuple[tuple[str, str], ...]:
    """The conversation as messages for a model's own chat template: role and text of each."""
    text: list[tuple[str, str]] = [("system", talk.system)] if talk.system else []
    for exchange in (*talk.past, talk.current):
        results = "".join("\n" + _result(call).strip() for call in exchange.calls)
        text.append(("user", exchange.request + results))
        if exchange.answer:
            text.append(("assistant", exchange.answer))
    return tuple(text)


def _answer_lines(exchange: Exchange) -> str:
    results = "".join(_result(call, render) for call in exchange.calls)
    end = f" {_line(exchange.answer)}\n\n" if exchange.answer else ""
    return f"Request: {_line(exchange.request)}\n{results}Answer:{end}"


def _talk_lines(exchange: Exchange) -> str:
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


_DEEPEST: Final = 6

_Tree: TypeAlias = "Mapping[str, Any] | list[Any]"


def render(text: str) -> str:
    """A result in the form for the model: of an object or a list, its values with their keys, without empty ones.

    JSON inside of a text counts as such, and an object of one member as the member. Booleans are yes and no.
    """
    try:
        value = _inner(json.loads(text))
        return "; ".join(_lines(value, "", _DEEPEST)) or text if isinstance(value, dict | list) else text
    except (ValueError, RecursionError):
        return text


def _inner(value: Any) -> Any:
    """The value inside of wrappers: texts of JSON, and objects of one member."""
    while True:
        tree = _tree(value)
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            value = json.loads(value)
        elif isinstance(tree, Mapping) and len(tree) == 1:
            (value,) = tree.values()
        else:
            return value


def _lines(value: Any, path: str, depth: int) -> Iterator[str]:
    if value is None or value in ({}, [], ""):
        return
    tree = _tree(value)
    if tree is None or depth == 0:
        yield _with_key(path, _plain(value))
    elif isinstance(tree, Mapping):
        for key, member in tree.items():
            yield from _lines(member, f"{path} {key}".strip(), depth - 1)
    elif all(_tree(item) is None for item in tree):
        yield _with_key(path, ", ".join(map(_plain, tree)))
    else:
        for item in tree:
            flat = _flat(item)
            yield from _lines(item, path, depth - 1) if flat is None else iter((_with_key(path, flat),))


def _tree(value: Any) -> _Tree | None:
    return cast("_Tree", value) if isinstance(value, dict | list) else None


def _flat(value: Any) -> str | None:
    """An object whose members are plain, in one piece; None for any other value."""
    tree = _tree(value)
    if not isinstance(tree, Mapping) or any(_tree(member) is not None for member in tree.values()):
        return None
    return ", ".join(f"{key} {_plain(member)}" for key, member in tree.items() if member is not None)


def _with_key(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Examples: TypeAlias = Sequence[tuple[str, Any]]
"""Example requests, each with its parameters."""

_SPAN: Final = re.compile(r"[^\s]+")
_EDGE: Final = " \t\n.,;:!?\"'()[]{}“”‘’"
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_MOST_WORDS: Final = 24


def narrow(schema: Mapping[str, Any], request: str, examples: Examples) -> dict[str, Any]:
    """The same schema, its plain properties limited to the values that ``request`` and the examples leave.

    A small model copies its examples where it should copy the request. Where every example takes a value word by word
    from its request, the value is one of the words of this request too; where one listed value is named, it is that
    one; and where nothing is named, it is the value of the examples whose requests name nothing either.

    >>> examples = (("Is it hot in Rome, in Fahrenheit?", {"unit": "F"}), ("Rain in Madrid?", {"unit": "C"}))
    >>> unit = {"type": "string", "enum": ["C", "F"]}
    >>> narrow({"properties": {"unit": unit}}, "Is it cold in Oslo?", examples)["properties"]["unit"]["enum"]
    ['C']
    """
    properties: dict[str, Any] = {}
    for name, inner in schema.get("properties", {}).items():
        known = [(text, _keywords(params)[name]) for text, params in examples if name in _keywords(params)]
        values = _values(_keywords(inner), request, known)
        properties[name] = inner if not values else {**_keywords(inner), "enum": values}
    return {**schema, "properties": properties} if properties else dict(schema)


def _values(schema: Mapping[str, Any], request: str, examples: Examples) -> list[Any]:
    """The values that are left for one property; none where nothing is known."""
    listed = schema.get("enum")
    if isinstance(listed, list):
        return _values_named(lambda text: _listed_values(text, schema["enum"]), request, examples)
    if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "const", "format", "pattern"}:
        return []
    match schema.get("type"):
        case "integer" | "number":
            copied = [value in _numbers(text) for text, value in examples if _numbers(text)]
            return _values_named(_numbers, request, examples) if copied and all(copied) else []
        case "string":
            copied = [isinstance(value, str) and value in _spans(text) for text, value in examples]
            return _spans(request) if len(copied) > 1 and all(copied) else []
        case _:
            return []


def _values_named(find: Callable[[str], list[Any]], request: str, examples: Examples) -> list[Any]:
    """The values that the request names; else the one value of the examples whose requests name none."""
    named = find(request)
    if named:
        return named
    silent = [value for text, value in examples if not find(text)]
    return silent[:1] if silent and all(value == silent[0] for value in silent) else []


def _listed_values(text: str, listed: list[Any]) -> list[Any]:
    """The listed values that are words of the text, or short capitals that a word after the first begins with."""
    words = [word.strip(_EDGE) for word in _SPAN.findall(text)]
    lower = f" {' '.join(words).lower()} "
    exact = [value for value in listed if isinstance(value, str) and f" {value.lower()} " in lower]
    if exact:
        return exact
    short = [value for value in listed if isinstance(value, str) and len(value) <= 2 and value.isupper()]
    return [value for value in short if any(word.startswith(value) for word in words[1:])]


def _numbers(text: str) -> list[Any]:
    found = (float(number) if "." in number else int(number) for number in _NUMBER.findall(text))
    return list(dict.fromkeys(found))


def _spans(text: str) -> list[Any]:
    """Every run of words of the text, without the punctuation around it; none of a long text."""
    words = [match.span() for match in _SPAN.finditer(text)]
    if len(words) > _MOST_WORDS:
        return []
    runs = (text[words[i][0] : words[j][1]].strip(_EDGE) for i in range(len(words)) for j in range(i, len(words)))
    return [run for run in dict.fromkeys(runs) if run]


def _keywords(schema: Any) -> Mapping[str, Any]:
    """The keywords of a schema; none where it is a boolean."""
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
