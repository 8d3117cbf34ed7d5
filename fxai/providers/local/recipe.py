"""Prompts for small base models. The turn uses them to choose a tool, fill its parameters, and answer.

A small base model cannot follow a template for tool calls, but it can continue a list. Each prompt therefore shows
lines of the desired kind, including the example requests of the tools. A grammar limits the output to the choices or to
the schema. The functions of this module have no side effects.

>>> weather = Candidate("weather", "current weather of a city", (("Is it hot in Rome?", {"city": "Rome"}),))
>>> print(choosing((weather,), "Rain in Oslo?").splitlines()[-1])
Rain in Oslo? ->
>>> from fxai.messages.message import UserMessage
>>> conversation([UserMessage.make("Hello")]).current.request
'Hello'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.messages.message import AssistantMessage, Message, ToolMessage, UserMessage
from fxai.models.prepared_tools import contents_of, file_note
from fxai.schema.data import is_array, is_object

_THREE_WORDS: Final = r"(?=\w++\s++\w++\s++\w)"
_END: Final = re.compile(
    rf"(?:(?<=[.?!;])\s++(?:(?:and|then|also)\s++)*|(?:,|(?<!\s))\s++(?:and then|then|and also|and)\s++){_THREE_WORDS}",
    re.IGNORECASE,
)


@final
class PastCall(msgspec.Struct, frozen=True):
    """A call and its result, or None before the result arrives."""

    id: str
    name: str
    params: Any
    result: str | None = None
    is_failure: bool = False


@final
class PastExchange(msgspec.Struct, frozen=True):
    """A request of the user, its calls, and its answer. The answer is empty until the model writes it."""

    request: str = ""
    calls: tuple[PastCall, ...] = ()
    answer: str = ""


@final
class ModelInput(msgspec.Struct, frozen=True):
    """The instructions, the past exchanges, the current exchange, and the media types of files.

    ``left_out`` contains the media types of the user's files, which the model cannot read. ``noted`` contains the media
    types of the files in results, which a note replaces.
    """

    system: str = ""
    past: tuple[PastExchange, ...] = ()
    current: PastExchange = PastExchange()
    left_out: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def shorter(self) -> ModelInput | None:
        """Return the conversation without its oldest past exchange, or None if it has only the current exchange."""
        return msgspec.structs.replace(self, past=self.past[1:]) if self.past else None


def conversation(messages: Iterable[Message]) -> ModelInput:
    """Convert messages to a conversation. A user message starts an exchange unless it follows another user message."""
    system: list[str] = []
    done: list[PastExchange] = []
    left_out: list[str] = []
    noted: list[str] = []
    current = PastExchange()
    for message in messages:
        match message:
            case UserMessage():
                left_out += [part.media_type for part in message.content if part.type == "file"]
                if current.calls or current.answer:
                    done.append(current)
                    current = PastExchange()
                text = f"{current.request}\n{message.text}".strip()
                current = msgspec.structs.replace(current, request=text)
            case AssistantMessage() | ToolMessage():
                current = _add_message(current, message, noted)
            case _:
                system.append(message.content)
    return ModelInput("\n".join(system), tuple(done), current, tuple(left_out), tuple(noted))


def clauses(request: str) -> tuple[str, ...]:
    """Split a request at its clauses. Each part except the first has at least three words.

    >>> clauses("Add 3 and 9. Then show me notes.txt")
    ('Add 3 and 9.', 'show me notes.txt')
    """
    return tuple(part.strip() for part in _END.split(request) if part.strip())


def _add_message(current: PastExchange, message: AssistantMessage | ToolMessage, noted: list[str]) -> PastExchange:
    calls = list(current.calls)
    answer = current.answer
    for part in message.content:
        match part.type:
            case "text":
                answer += part.text
            case "tool-call":
                calls.append(PastCall(part.id, part.name, part.params))
            case "tool-result":
                contents = contents_of(part, "file")
                if contents is not None:  # a note replaces each file
                    noted += [one.media_type for one in contents if one.type == "file"]
                    text = "\n".join(file_note(one) if one.type == "file" else one.text for one in contents)
                elif isinstance(part.result, str):
                    text = part.result
                else:
                    text = json.dumps(part.result, ensure_ascii=False, default=str)
                for index, call in enumerate(calls):
                    if call.id == part.id:
                        calls[index] = msgspec.structs.replace(call, result=text, is_failure=part.is_failure)
            case _:
                pass
    return msgspec.structs.replace(current, calls=tuple(calls), answer=answer)


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
    PastExchange("What is 7 plus 1?", (PastCall("", "add", None, "8"),), "7 plus 1 is 8."),
    PastExchange("What does the note say?", (PastCall("", "open_note", None, "buy milk"),), "The note says: buy milk."),
    PastExchange(
        "How is the weather in Rome?", (PastCall("", "weather", None, "31 C, sunny"),), "It is 31 C and sunny in Rome."
    ),
    PastExchange(
        "When does the next bus leave?",
        (PastCall("", "departures", None, "line: 12; destination: Harbour; departs: 14:05; platform: 3"),),
        "It leaves at 14:05.",
    ),
    PastExchange(
        "Which books do you have?",
        (
            PastCall(
                "", "books", None, "found: 2; books: title Emma, author Austen; books: title Ulysses, author Joyce"
            ),
        ),
        "The books are Emma and Ulysses.",
    ),
)
_FAILED: Final = PastExchange(
    "Delete old.txt", (PastCall("", "delete", None, "no such file", True),), "It failed: no such file."
)
_TALKED: Final = (
    PastExchange("Hello!", (), "Hello! How can I help you?"),
    PastExchange("What are you?", (), "I am a small language model that runs on this computer."),
    PastExchange("What is the capital of France?", (), "The capital of France is Paris."),
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
        """The first sentence of the description. By default the words of the name."""
        first = re.split(r"(?<=[.!?])\s|\n", self.description.strip(), maxsplit=1)[0].rstrip(".")
        return first[:100] or self.words

    @property
    def words(self) -> str:
        """The words of the name."""
        return " ".join(_WORD.findall(self.name)).lower() or self.name

    @property
    def requests(self) -> tuple[tuple[str, Any], ...]:
        """The examples that have a request."""
        return tuple((_line(request), params) for request, params in self.examples if request)


def no_tool(candidates: Sequence[Candidate]) -> str:
    """Return the choice for no tool: a word that differs from all names of tools.

    >>> no_tool([Candidate("none")])
    'none at all'
    """
    return _NONE if all(candidate.name != _NONE for candidate in candidates) else f"{_NONE} at all"


def choosing(candidates: Sequence[Candidate], request: str, past: Sequence[PastExchange] = ()) -> str:
    """Return the prompt for a choice. Its next word is the name of a tool or `no_tool`.

    The lines alternate between small talk and the example requests of the tools. A tool without examples appears with
    its gist. The last two exchanges follow as lines of the same form.
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
    if not any(candidate.requests for candidate in candidates):  # more small talk would outnumber the gists
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


def filling(candidate: Candidate, request: str, schema: Mapping[str, Any], past: Sequence[PastExchange] = ()) -> str:
    """Return the prompt whose continuation is the JSON of the tool's parameters."""
    shown = [*candidate.requests, *((candidate.gist, params) for text, params in candidate.examples if not text)]
    shown += [(e.request, call.params) for e in past[-2:] for call in e.calls[:1] if call.name == candidate.name]
    if not shown:
        described = {
            name: str(about["description"])
            for name, inner in schema.get("properties", {}).items()
            if "description" in (about := _keywords(inner))
        }
        parameter_lines = "".join(f"{name}: {_line(text)[:160]}\n" for name, text in described.items())
        return f"{candidate.name}: {candidate.gist}\n{parameter_lines}\nRequest: {_line(request)}\nParameters:"
    lines = "".join(
        f"{_line(text)} -> {candidate.name} {json.dumps(params, ensure_ascii=False)}\n" for text, params in shown
    )
    return f"{lines}{_line(request)} -> {candidate.name}"


def answering(talk: ModelInput) -> str:
    """Return the prompt whose next line answers the current request from the results of its calls."""
    failed = (_FAILED,) if any(call.is_failure for call in talk.current.calls) else ()
    shown = (*_ANSWERED, *failed, *(exchange for exchange in talk.past[-2:] if exchange.calls))
    lines = "".join(_answer_lines(exchange) for exchange in shown)
    return f"{_head(talk)}{lines}{_answer_lines(talk.current)}"


def talking(talk: ModelInput) -> str:
    """Return the prompt whose next line is a reply without a tool."""
    lines = "".join(_talk_lines(exchange) for exchange in (*_TALKED, *talk.past))
    return f"{_head(talk)}{lines}{_talk_lines(talk.current)}"


def structuring(talk: ModelInput) -> str:
    """Return the prompt whose continuation is JSON for the current request and the results of its calls."""
    lines = "".join(_talk_lines(exchange) for exchange in talk.past[-2:])
    results = "".join(_result(call) for call in talk.current.calls)
    return f"{_head(talk)}{lines}Request: {_line(talk.current.request)}\n{results}The same as JSON:"


def prose(talk: ModelInput) -> tuple[tuple[str, str], ...]:
    """Return the conversation as messages for the chat template of a model: the role and the text of each message."""
    text: list[tuple[str, str]] = [("system", talk.system)] if talk.system else []
    for exchange in (*talk.past, talk.current):
        results = "".join("\n" + _result(call).strip() for call in exchange.calls)
        text.append(("user", exchange.request + results))
        if exchange.answer:
            text.append(("assistant", exchange.answer))
    return tuple(text)


def _answer_lines(exchange: PastExchange) -> str:
    results = "".join(_result(call, render) for call in exchange.calls)
    end = f" {_line(exchange.answer)}\n\n" if exchange.answer else ""
    return f"Request: {_line(exchange.request)}\n{results}Answer:{end}"


def _talk_lines(exchange: PastExchange) -> str:
    end = f" {_line(exchange.answer)}\n\n" if exchange.answer else ""
    return f"User: {_line(exchange.request)}\nAssistant:{end}"


def _result(call: PastCall, shown: Callable[[str], str] = str) -> str:
    kind = "Failure" if call.is_failure else "Result"
    text = shown(call.result) if call.result is not None else "not known yet"
    short = text if len(text) <= _LONGEST_RESULT else text[:_LONGEST_RESULT] + " …"
    return f"{kind} of {call.name}: {_line(short)}\n"


def _head(talk: ModelInput) -> str:
    return f"{talk.system.strip()}\n\n" if talk.system.strip() else ""


def _line(text: str) -> str:
    return " ".join(text.split())


_DEEPEST: Final = 6


def render(text: str) -> str:
    """Format a result for the model. An object or list becomes its values with their keys; empty values are omitted.

    JSON inside a string counts as JSON, and an object with one member counts as the member. Booleans become yes and no.
    """
    try:
        value = _inner(json.loads(text))
        return "; ".join(_lines(value, "", _DEEPEST)) or text if _is_tree(value) else text
    except (ValueError, RecursionError):
        return text


def _inner(value: Any) -> Any:
    """Unwrap a value from JSON strings and from objects with one member."""
    while True:
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            value = json.loads(value)
        elif is_object(value) and len(value) == 1:
            (value,) = value.values()
        else:
            return value


def _lines(value: Any, path: str, depth: int) -> Iterator[str]:
    if value is None or value in ({}, [], ""):
        return
    if depth == 0 or not _is_tree(value):
        yield _with_key(path, _plain(value))
    elif is_object(value):
        for key, member in value.items():
            yield from _lines(member, f"{path} {key}".strip(), depth - 1)
    elif not any(map(_is_tree, value)):
        yield _with_key(path, ", ".join(map(_plain, value)))
    else:
        for item in value:
            if is_object(item) and not any(map(_is_tree, item.values())):
                members = (f"{key} {_plain(member)}" for key, member in item.items() if member is not None)
                yield _with_key(path, ", ".join(members))
            else:
                yield from _lines(item, path, depth - 1)


def _is_tree(value: Any) -> bool:
    return is_object(value) or is_array(value)


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
    """Limit the plain properties of a schema to the values that ``request`` and the examples permit.

    A small model copies its examples instead of the request. If the examples take a value word by word from their
    requests, the value must be words of this request, or the only value of the other examples. If the request names
    one listed value, the property must have this value. If the request names no value, the property has the value of
    the examples whose requests name no value.

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
    """Return the permitted values of a property, or [] if the examples permit any value."""
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
            return _words_named(request, examples)
        case _:
            return []


def _words_named(request: str, examples: Examples) -> list[Any]:
    """Return the words in the request that can be the value, and the value of the examples whose requests name none.

    The words of these examples' requests cannot be values. In "List the files", no word is a name.
    """
    silent = [(text, value) for text, value in examples if value not in _spans(text)]
    defaults = list(dict.fromkeys(value for _, value in silent if isinstance(value, str)))
    if len(examples) - len(silent) < 2 or len(defaults) > 1:
        return []
    common = {word.strip(_EDGE).lower() for text, _ in silent for word in _SPAN.findall(text)}
    spans = _spans(request)
    named = [span for span in spans if not common.issuperset(span.lower().split())]
    return [*named, *defaults] if spans else []


def _values_named(find: Callable[[str], list[Any]], request: str, examples: Examples) -> list[Any]:
    """Return the values in the request. By default return the only value of the examples whose requests name none."""
    named = find(request)
    if named:
        return named
    silent = [value for text, value in examples if not find(text)]
    return silent[:1] if silent and all(value == silent[0] for value in silent) else []


def _listed_values(text: str, listed: list[Any]) -> list[Any]:
    """Return the listed values that are words of the text, or short capitals at the start of a word after the first."""
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
    """Return every run of words of the text without the surrounding punctuation. Return [] for a long text."""
    words = [match.span() for match in _SPAN.finditer(text)]
    if len(words) > _MOST_WORDS:
        return []
    runs = (text[words[i][0] : words[j][1]].strip(_EDGE) for i in range(len(words)) for j in range(i, len(words)))
    return [run for run in dict.fromkeys(runs) if run]


def _keywords(schema: Any) -> Mapping[str, Any]:
    """Return the keywords of a schema. A boolean schema has no keywords."""
    return schema if is_object(schema) else {}
