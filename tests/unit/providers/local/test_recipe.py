"""The recipe: what a small model is shown for each stage, and how a conversation is read."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from fxai.messages import (
    AssistantMessage,
    FilePart,
    Message,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import ToolChoice, ToolChoices
from fxai.providers.local.model import Wanted
from fxai.providers.local.recipe import (
    Candidate,
    answering,
    choosing,
    clauses,
    conversation,
    filling,
    narrow,
    prose,
    render,
    structuring,
    talking,
)
from fxai.providers.local.weights import LocalError, describe
from tests.kit.every import every

WEATHER = Candidate(
    "weather",
    "Current weather of a city. In one of two units.",
    (
        ("Is it hot in Rome, in Fahrenheit?", {"city": "Rome", "unit": "F"}),
        ("Rain in Madrid?", {"city": "Madrid", "unit": "C"}),
    ),
)
READ = Candidate("readFile")
HISTORY: tuple[Message, ...] = (
    SystemMessage("Be brief."),
    UserMessage.make("Rain in Oslo?"),
    AssistantMessage.make(ToolCallPart("1", "weather", {"city": "Oslo"})),
    ToolMessage.make(ToolResultPart("1", "weather", {"rain": True})),
    AssistantMessage.make("It rains."),
    UserMessage.make("And", "in Rome?"),
)


def test_a_conversation_is_read_as_exchanges() -> None:
    """A user message begins an exchange; calls, their results and the answer belong to it."""
    talk = conversation(HISTORY)

    assert talk.system == "Be brief."
    assert [(e.request, e.answer) for e in talk.past] == [("Rain in Oslo?", "It rains.")]
    assert talk.past[0].calls[0].result == '{"rain": true}'
    assert talk.current.request == "Andin Rome?"
    assert talk.current.calls == ()


def test_files_are_not_read() -> None:
    """The media types of files are told, for the failure that they become."""
    assert conversation([UserMessage.make("See", FilePart("image/png", b""))]).left_out == ("image/png",)


def test_a_file_that_a_tool_gave_is_a_note() -> None:
    """Its media type is told, for the warning; the model reads a note in its place, and no base64."""
    shot = [{"type": "text", "text": "Done."}, {"type": "file", "media_type": "image/png", "data": "aGFyYm91cg=="}]
    results = ToolMessage.make(ToolResultPart("1", "look", shot), ToolResultPart("2", "list", [{"type": "other"}]))
    calls = AssistantMessage.make(ToolCallPart("1", "look", {}), ToolCallPart("2", "list", {}))
    talk = conversation([UserMessage.make("Look."), calls, results])

    assert talk.current.calls[0].result == (
        "Done.\n(the file, image/png, 7 bytes, is omitted: this model does not accept such files)"
    )
    assert talk.current.calls[1].result == '[{"type": "other"}]'
    assert (talk.left_out, talk.noted) == ((), ("image/png",))


def test_the_oldest_exchange_is_forgotten_first() -> None:
    """A conversation gets shorter from its beginning, and never loses the current request."""
    shorter = conversation(HISTORY).shorter()

    assert shorter is not None
    assert shorter.past == ()
    assert shorter.shorter() is None


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        ("Add 3 and 9", ("Add 3 and 9",)),
        ("Rain in Tokyo, Celsius?", ("Rain in Tokyo, Celsius?",)),
        ("What is 1 plus 2 and how is the weather in Rome?", ("What is 1 plus 2", "how is the weather in Rome?")),
        ("Open a.txt. Then list the docs folder", ("Open a.txt.", "list the docs folder")),
    ],
)
def test_a_request_falls_into_clauses(request_: str, parts: tuple[str, ...]) -> None:
    """Sentences and joined clauses of three words and more may each ask for something."""
    assert clauses(request_) == parts


def test_choosing_shows_examples_small_talk_and_history() -> None:
    """The lines to go on with: requests of examples, small talk for none, earlier requests, and the request last."""
    lines = choosing((WEATHER,), "Rain in\nOslo?", conversation(HISTORY).past).splitlines()

    assert "Rain in Madrid? -> weather" in lines
    assert "Thanks a lot -> none" in lines
    assert lines[-2:] == ["Rain in Oslo? -> weather", "Rain in Oslo? ->"]


def test_a_tool_without_examples_is_shown_by_its_gist() -> None:
    """The first sentence of the description stands for requests; without one, the words of the name do."""
    lines = choosing((Candidate("weather", WEATHER.description), READ), "Rain?").splitlines()

    assert "Current weather of a city -> weather" in lines
    assert "read file -> readFile" in lines


def test_filling_shows_what_there_is() -> None:
    """Examples where there are some; else what the schema says of its properties."""
    schema: dict[str, Any] = {"properties": {"path": {"type": "string", "description": "Path of the file"}}}

    assert filling(WEATHER, "Rain?", {}).endswith("Rain? -> weather")
    assert '-> weather {"city": "Madrid", "unit": "C"}\n' in filling(WEATHER, "Rain?", {})
    assert "path: Path of the file\n" in filling(READ, "Show a.txt", schema)


def test_answers_are_made_from_results() -> None:
    """The results of the calls stand between the request and the answer, failures as such, long ones cut."""
    failed = ToolResultPart("1", "weather", "no such city\nat all", is_failure=True)
    long = ToolResultPart("2", "weather", "x" * 5000)
    calls = (ToolCallPart("1", "weather", {}), ToolCallPart("2", "weather", {}))
    told: list[Message] = [UserMessage.make("Q?"), AssistantMessage.make(*calls), ToolMessage.make(failed, long)]
    prompt = answering(conversation(told))

    assert "Request: Q?\nFailure of weather: no such city at all\nResult of weather: xxx" in prompt
    assert prompt.endswith(" …\nAnswer:")
    assert len(prompt) < 2500


def test_answers_are_made_from_values_with_their_keys() -> None:
    """JSON is shown to the model as values with their keys where it answers in words, and as it is for structure."""
    made = ToolResultPart("1", "book", {"result": {"id": 7, "paid": True, "note": None}})
    call = AssistantMessage.make(ToolCallPart("1", "book", {}))
    talk = conversation((UserMessage.make("Q?"), call, ToolMessage.make(made)))

    assert "Result of book: id: 7; paid: yes\n" in answering(talk)
    assert 'Result of book: {"result": {"id": 7, "paid": true, "note": null}}\n' in structuring(talk)


@every(
    ("result", "shown"),
    [
        ("3.5 degrees, snow", "3.5 degrees, snow"),
        ("42", "42"),
        ('{"a": 1, "b": [], "c": "", "d": null, "e": false}', "a: 1; e: no"),
        ('{"seats": {"free": 17, "sold": 3}, "train": "IC 4"}', "seats free: 17; seats sold: 3; train: IC 4"),
        ('{"found": 2, "days": ["Mon", "Tue"]}', "found: 2; days: Mon, Tue"),
        ('[{"name": "ann", "age": null}, {"name": "bob", "age": 3}]', "name ann; name bob, age 3"),
        ('{"rows": [["rye", 4], ["oat", 6]], "all": true}', "rows: rye, 4; rows: oat, 6; all: yes"),
        ('"{\\"result\\": \\"{\\\\\\"a\\\\\\": 1, \\\\\\"b\\\\\\": 2}\\"}"', "a: 1; b: 2"),
        ('{"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}, "z": 1}', 'a b c d e f: {"g": 1}; z: 1'),
        ("{broken", "{broken"),
        ("[]", "[]"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_results_are_shown_by_their_values(result: str, shown: str) -> None:
    """Keys and values without what is empty, through wrappers; what is no object and no list stays as it came."""
    assert render(result) == shown


def test_talk_and_structure_hold_instructions_and_history() -> None:
    """Plain talk, structured output and chat messages begin with the instructions and hold what was said."""
    talk = conversation(HISTORY)

    assert talking(talk).startswith("Be brief.\n\n")
    assert talking(talk).endswith("User: Rain in Oslo?\nAssistant: It rains.\n\nUser: Andin Rome?\nAssistant:")
    assert structuring(talk).endswith("Request: Andin Rome?\nThe same as JSON:")
    assert [role for role, _ in prose(talk)] == ["system", "user", "assistant", "user"]


UNIT = {"type": "string", "enum": ["C", "F"]}
SUM = (("What is 4 plus 15?", {"a": 4}), ("Add 3 and 9", {"a": 3}))
FILES = (("Show me notes.txt", {"path": "notes.txt"}), ("Print the file main.py", {"path": "main.py"}))
LOG = (("The last 5 commits", {"n": 5}), ("What changed?", {"n": 10}))


@every(
    ("property_", "request_", "shown", "left"),
    [
        (UNIT, "Temperature in Paris in F?", (), ["F"]),
        (UNIT, "Can you say it in Celsius?", (), ["C"]),
        (UNIT, "Is it cold in Oslo?", tuple((q, {"x": p["unit"]}) for q, p in WEATHER.requests), ["C"]),
        (UNIT, "Is it cold?", (), None),
        ({"type": "integer"}, "Add 100 and 2.5", tuple((q, {"x": p["a"]}) for q, p in SUM), [100, 2.5]),
        ({"type": "integer"}, "Recent ones?", tuple((q, {"x": p["n"]}) for q, p in LOG), [10]),
        ({"type": "integer"}, "Add 1", (("How are you, twice?", {"x": 2}),), None),
        (
            {"type": "string"},
            "Open a.txt!",
            tuple((q, {"x": p["path"]}) for q, p in FILES),
            ["Open", "Open a.txt", "a.txt"],
        ),
        ({"type": "string"}, "Open a.txt", (("List it", {"x": "."}), ("See docs", {"x": "docs"})), None),
        ({"type": "boolean"}, "Turn it on", (("Turn it off", {"x": False}),), None),
    ],
)
def test_examples_narrow_what_is_left(property_: Any, request_: str, shown: Any, left: list[Any] | None) -> None:
    """What examples show of a property holds it to the request; where they show nothing, the schema stays."""
    found = narrow({"type": "object", "properties": {"x": property_}}, request_, shown)

    assert found["properties"]["x"].get("enum") == (left if left is not None else property_.get("enum"))


@every(
    ("choice", "names", "forced"),
    [
        ("auto", ("a", "b"), False),
        ("none", (), False),
        ("required", ("a", "b"), True),
        (ToolChoice.tool("b"), ("b",), True),
        (ToolChoice.one_of(["a"]), ("a",), False),
        (ToolChoice.one_of(["a", "b"], mode="required"), ("a", "b"), True),
    ],
)
def test_a_tool_choice_leaves_its_tools(choice: ToolChoices, names: tuple[str, ...], forced: bool) -> None:
    """Which tools a turn may call, and whether it must, is what the choice says."""
    assert Wanted.of(("a", "b"), choice) == Wanted(names, forced)


@pytest.mark.parametrize(("tools", "choice"), [((), "required"), (("a",), ToolChoice.tool("z"))])
def test_a_choice_of_what_is_not_there_fails(tools: tuple[str, ...], choice: ToolChoices) -> None:
    """A choice that asks for a tool which was not given is an invalid request that says so."""
    with pytest.raises(LocalError) as raised:
        Wanted.of(tools, choice)

    assert "tool_choice" in raised.value.reason.message


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def test_a_gguf_header_is_read() -> None:
    """Name, architecture, context and chat template are read; arrays of every kind are stepped over."""
    pairs = [
        _pair("general.architecture", 8, _text("tiny")),
        _pair("tokens", 9, struct.pack("<IQ", 8, 2) + _text("a") + _text("bc")),
        _pair("scores", 9, struct.pack("<IQ", 6, 2) + struct.pack("<ff", 1, 2)),
        _pair("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 0, 1) + b"x"),
        _pair("tiny.context_length", 4, struct.pack("<I", 128)),
        _pair("tokenizer.chat_template", 8, _text("{{ messages }}")),
    ]
    found = describe(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))

    assert (found.name, found.architecture, found.context) == (None, "tiny", 128)
    assert found.chat_template == "{{ messages }}"


@pytest.mark.parametrize("data", [b"GGUF" + struct.pack("<IQQ", 9, 0, 0), b"GGUF" + struct.pack("<IQQ", 3, 0, 1)])
def test_a_broken_gguf_header_is_refused(data: bytes) -> None:
    """An unknown version and a header that ends too early are errors."""
    with pytest.raises(ValueError, match=r"version must be|ends"):
        describe(data)


def test_a_request_of_spaces_is_soon_taken_apart() -> None:
    """Computing time, with far more room than it takes: each run of white space is gone through once."""
    start = time.process_time()

    assert clauses("a" + " " * 100_000 + "b") == ("a" + " " * 100_000 + "b",)

    assert time.process_time() - start < 2
