"""Turns of the local model, with a scripted llama.cpp in place of the real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from fxai.messages import (
    AssistantMessage,
    Prompt,
    StreamPart,
    StructuredOutputError,
    TextDelta,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    WarningPart,
)
from fxai.models import ModelRequest
from fxai.providers.local import Bounds
from fxai.providers.local.engine import Engine, Setting
from fxai.providers.local.model import LocalTurn
from fxai.providers.local.weights import Description, LocalError
from fxai.schema import JsonSchema

SOUND: dict[str, Any] = {"type": "file", "media_type": "audio/wav", "data": "aGFyYm91cg=="}


class Noting:
    """Says the same each time, and notes what it is asked."""

    def __init__(self, said: str = " A horn.") -> None:
        self.asked: list[str] = []
        self.said = said

    def handle_completions(self, asked: Mapping[str, Any], hear: Callable[[Mapping[str, Any]], bool]) -> None:
        """Calls ``hear`` with the answer, then with why it ended, then with what it took."""
        self.asked.append(str(asked))
        hear({"choices": [{"text": self.said, "finish_reason": None}]})
        hear({"choices": [{"text": "", "finish_reason": "stop"}]})
        hear({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}})


def _turn(*results: Any) -> tuple[list[StreamPart], Noting]:
    """The parts of a turn that follows the results, and what was asked."""
    calls = [ToolCallPart(str(at), "listen", {}) for at, _ in enumerate(results)]
    given = [ToolResultPart(str(at), "listen", result) for at, result in enumerate(results)]
    said = (UserMessage.make("What do you hear?"), AssistantMessage.make(*calls), ToolMessage.make(*given))
    server, parts = Noting(), list[StreamPart]()
    engine = Engine(server, Path("x.gguf"), Setting(), Description(), None)
    anyio.run(LocalTurn(engine, ModelRequest(Prompt(said)), parts.append, Bounds()).run)
    return parts, server


def test_files_that_tools_gave_are_notes_and_a_warning() -> None:
    """One warning for each media type; the model is shown the notes, and answers."""
    parts, server = _turn([SOUND, {**SOUND, "file_name": "horn.wav"}], [SOUND])

    assert [part for part in parts if isinstance(part, WarningPart)] == [
        WarningPart("a file (audio/wav) in a tool result was omitted: this model reads only text")
    ]
    assert "".join(part.delta for part in parts if isinstance(part, TextDelta)) == "A horn."
    assert "the file 'horn.wav', audio/wav, 7 bytes, is omitted" in server.asked[-1]
    assert "aGFyYm91cg" not in "".join(server.asked)


def test_results_without_files_warn_of_nothing() -> None:
    """A text and other JSON are shown as they are."""
    parts, server = _turn("a horn", {"far": "a bell"})

    assert not [part for part in parts if isinstance(part, WarningPart)]
    assert "a bell" in server.asked[-1]


def test_half_surrogate_pairs_are_replaced_with_a_warning() -> None:
    """llama.cpp reads UTF-8, which has no form for half a pair."""
    parts, server = _turn("caf\udce9.txt")

    assert [part.kind for part in parts if isinstance(part, WarningPart)] == ["history"]
    assert "caf\ufffd.txt" in server.asked[-1]


def _structured(said: str) -> tuple[list[StreamPart], Noting]:
    """Return the parts of a turn that answers by a schema, and what was asked."""
    schema = JsonSchema.of({"type": "object", "properties": {"far": {"type": "string"}}, "required": ["far"]})
    server, parts = Noting(said), list[StreamPart]()
    engine = Engine(server, Path("x.gguf"), Setting(), Description(), None)
    request = ModelRequest(Prompt.make("What do you hear?"), response_schema=schema)
    anyio.run(LocalTurn(engine, request, parts.append, Bounds()).run)
    return parts, server


def test_an_answer_by_a_schema_is_written_within_its_grammar() -> None:
    """The request contains the grammar of the schema, and the text of the answer is the JSON of the model."""
    parts, server = _structured(' {"far": "a bell"}')

    assert "".join(part.delta for part in parts if isinstance(part, TextDelta)) == '{"far": "a bell"}'
    assert "grammar" in server.asked[-1]
    assert "far" in server.asked[-1]
    assert parts[-1].type == "finish"


def test_an_answer_that_does_not_fit_its_schema_is_a_failure() -> None:
    """A model that ignores the grammar gets no answer through. The failure names the location."""
    with pytest.raises(LocalError) as raised:
        _structured(' {"near": "a bell"}')

    assert isinstance(raised.value.reason, StructuredOutputError)
    assert raised.value.reason.text == '{"near": "a bell"}'
