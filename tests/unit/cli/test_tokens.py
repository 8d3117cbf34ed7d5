"""`fxai tokens`: how many tokens a prompt takes, and who says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxai.cli import model_list
from tests.kit.command_line import Run
from tests.kit.every import every
from tests.kit.http_peer import answer, peer

COUNTED = b'{"object": "response.input_tokens", "input_tokens": 41}'


def _found(name: str) -> object:
    return name


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys and addresses but those of a test; every package counts as installed."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(model_list, "find_spec", _found)


def test_an_estimate_asks_no_one(fxai: Run) -> None:
    """It says that it is one; tools and instructions take tokens, too."""
    bare = fxai("tokens", "--estimate", "How are you today?")
    more = fxai("tokens", "--estimate", "--json", "--system", "Be brief.", "--tools", "fxai.cli.example:agent", "Hi")
    shown = json.loads(more.out)

    assert (bare.code, bare.out, bare.err) == (0, "9 tokens, estimated from the length of the text\n", "")
    assert (shown["method"], shown["is_estimate"], shown["model"]) == ("estimate", True, None)
    assert shown["tokens"] > 100


def test_a_provider_that_counts_is_asked(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the prompt from stdin, the tools and the instructions; nothing is generated."""
    with peer([answer(200, COUNTED)]) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        counted = fxai("tokens", "--model", "openai:gpt-5.5", "--tools", "fxai.cli.example:agent", "-", piped="Hello")
    sent = json.loads(served.seen[0].body)

    assert (counted.code, counted.out) == (0, "41 tokens, counted by the provider\n")
    assert all("has no field for its input examples" in line for line in counted.err.splitlines())
    assert sent["input"][0]["content"] == [{"type": "input_text", "text": "Hello"}]
    assert sent["tools"]
    assert [seen.line.split()[1] for seen in served.seen] == ["/responses/input_tokens"]


def test_a_server_that_counts_none_is_told_of(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate stands on stdout, the reason on stderr, and both in JSON."""
    with peer([answer(404, b"{}")]) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        told = fxai("tokens", "--model", "openai:qwen3", "Hello")
        data = json.loads(fxai("tokens", "--json", "--model", "openai:qwen3", "Hello").out)

    assert told.out == "6 tokens, estimated from the length of the text\n"
    assert told.err == "fxai: the server that runs 'qwen3' counts no tokens on this API\n"
    assert (data["tokens"], data["is_estimate"], len(data["warnings"])) == (6, True, 1)


@every(
    ("arguments", "code", "said"),
    [
        (["tokens"], 2, "missing PROMPT. Write fxai tokens PROMPT"),
        (["tokens", "  "], 2, "PROMPT is empty"),
        (["tokens", "--model", "openai:gpt-5.5", "Hi"], 1, "set OPENAI_API_KEY"),
        (["tokens", "--model", "nowhere:a", "Hi"], 2, "unknown provider 'nowhere'"),
        (["tokens", "--estimate", "--model", "local", "Hi"], 2, "--estimate cannot be used with --model"),
        (["tokens", "--tools", "gone.py:kit", "--estimate", "Hi"], 2, "gone.py"),
    ],
)
def test_what_cannot_be_counted_is_one_line_with_a_remedy(
    fxai: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    """And its exit code."""
    monkeypatch.chdir(tmp_path)
    ended = fxai(*arguments)

    assert ended.code == code
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert said in ended.err
