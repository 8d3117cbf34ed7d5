"""Conversations as pages hold them: `useChat` in React, and the chat classes of three versions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.kit.node import Missing, installed, node
from tests.kit.server_process import asked, serving

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CLIENTS = ("useChat", "ai7", "ai6", "ai5")
_ids = count()


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder of the clients, or a reason to skip."""
    try:
        return str(installed(HERE / "ai-clients"))
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, modules: str) -> str:
    """The name of a client."""
    return str(request.param)


@pytest.fixture(scope="module")
def url(client: str) -> Iterator[str]:
    """The address of the scenarios, in the version that the client reads."""
    version = "7" if client == "useChat" else client[-1]
    command = [sys.executable, str(ROOT / "examples/ui_scenarios.py"), "--port", "0", "--version", version]
    with serving(command) as address:
        yield address


@pytest.fixture(scope="module")
def slow(client: str) -> Iterator[str]:
    """The address of an application that answers in many pieces."""
    version = "7" if client == "useChat" else client[-1]
    with serving([sys.executable, str(HERE / "slow_chat.py"), version]) as address:
        yield address


def talk(modules: str, client: str, url: str, *steps: list[Any], **given: Any) -> dict[str, Any]:
    """What a client has seen after these steps."""
    script = {"url": url, "id": f"{client}-{next(_ids)}", **given, "steps": list(steps)}
    done = subprocess.run(
        [node(), str(HERE / "use_chat.mjs"), modules, client],
        input=json.dumps(script),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def play(modules: str, client: str, url: str, scenario: str, *steps: list[Any]) -> dict[str, Any]:
    """What a client has seen after a scenario, and these steps."""
    return talk(modules, client, url, ["send", scenario], *steps, body={"scenario": scenario})


def _calls(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in seen["messages"][-1]["parts"] if "toolCallId" in part]


def _text(seen: dict[str, Any]) -> str:
    return "".join(part["text"] for part in seen["messages"][-1]["parts"] if part["type"] == "text")


def _frames(url: str, scenario: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The headers and the events of a scenario, as they are on the wire; `[DONE]` is of the type `done`."""
    added = {"id": "u", "role": "user", "parts": [{"type": "text", "text": scenario}]}
    body = json.dumps(
        {"id": f"raw-{next(_ids)}", "messages": [added], "trigger": "submit-message", "scenario": scenario}
    )
    request = Request(f"{url}/api/chat", body.encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=30) as response:
        events = re.findall(r"data: (.*)\n\n", response.read().decode())
        return dict(response.headers), [
            json.loads(event) if event != "[DONE]" else {"type": "done"} for event in events
        ]


# -- the scenarios


def test_a_round_of_a_static_and_a_dynamic_tool(modules: str, client: str, url: str) -> None:
    """Each call is one part of its kind, in two steps."""
    seen = play(modules, client, url, "round")
    static, dynamic = _calls(seen)

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert (static["type"], static["state"], static["output"]) == (
        "tool-getWeather",
        "output-available",
        {"celsius": 21},
    )
    assert (dynamic["type"], dynamic["toolName"], dynamic["state"]) == (
        "dynamic-tool",
        "mcp_search",
        "output-available",
    )
    assert dynamic["output"] == {"content": [{"type": "text", "text": "hit"}]}
    assert [part["type"] for part in seen["messages"][-1]["parts"]].count("step-start") == 2
    assert _text(seen) == "21 degrees in Paris."


def test_the_frames_of_a_round_come_in_order(url: str) -> None:
    """The header says the protocol; of each call start, deltas, input and output follow each other within its step."""
    headers, events = _frames(url, "round")
    types = [event["type"] for event in events]

    assert headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert headers["content-type"].startswith("text/event-stream")
    assert types[0] == "start"
    assert types[-2:] == ["finish", "done"]
    for call in ("call-static", "call-dynamic"):
        locations = [
            types.index("start-step"),
            *(at for at, event in enumerate(events) if event.get("toolCallId") == call),
            types.index("finish-step"),
        ]
        kinds = [events[at]["type"] for at in locations[1:-1]]
        assert locations == sorted(locations)
        assert kinds[0] == "tool-input-start"
        assert kinds[-2:] == ["tool-input-available", "tool-output-available"]
        assert kinds[1:-2] == ["tool-input-delta"] * (len(kinds) - 3)
        assert len(kinds) > 5


@pytest.mark.parametrize(
    ("scenario", "types"),
    [("tool-error", ["tool-getWeather", "dynamic-tool"]), ("invalid-input", ["tool-getWeather", "dynamic-tool"])],
)
def test_calls_that_fail_are_parts_that_say_so(
    modules: str, client: str, url: str, scenario: str, types: list[str]
) -> None:
    """Handlers that fail, parameters that do not fit, a tool that is not there: one part a call; the text follows."""
    seen = play(modules, client, url, scenario)
    calls = _calls(seen)

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert [part["type"] for part in calls] == types
    assert [part["state"] for part in calls] == ["output-error", "output-error"]
    assert all(part["errorText"] for part in calls)
    assert seen["messages"][-1]["parts"][-1]["type"] == "text"


def test_preliminary_outputs_come_before_the_last_one(modules: str, client: str, url: str) -> None:
    """Each is marked, and gives way to the next; a page of React may see only the last, as it draws them together."""
    seen = play(modules, client, url, "preliminary")
    (part,) = _calls(seen)
    wanted = [
        ["call-dynamic", {"progress": 10}, True],
        ["call-dynamic", {"progress": 60}, True],
        ["call-dynamic", {"progress": 100}, False],
    ]

    assert part["output"] == {"progress": 100}
    assert not part.get("preliminary")
    assert seen["outputs"] == wanted if client != "useChat" else seen["outputs"][-1] == wanted[-1]


def test_data_parts_take_the_place_of_each_other(modules: str, client: str, url: str) -> None:
    """Transient data is told to the page, and no part of the message."""
    seen = play(modules, client, url, "data-parts")
    parts = seen["messages"][-1]["parts"]
    types = [part["type"] for part in parts]

    assert [part["data"] for part in parts if part["type"] == "data-progress"] == [{"pct": 90}]
    assert "data-toast" not in types
    assert "data-toast" in [part["type"] for part in seen["data"]]
    assert types.count("source-url") == types.count("file") == 1
    assert _text(seen) == "Here it is."


def test_a_stream_that_fails_keeps_what_it_said(modules: str, client: str, url: str) -> None:
    """The page has the error, and the half of the answer."""
    seen = play(modules, client, url, "stream-error")

    assert (seen["status"], seen["error"]) == ("error", "model overloaded")
    assert _text(seen) == "half"


def test_a_refused_request_is_an_error_in_its_words(modules: str, client: str, url: str) -> None:
    """The body of the response is what the page says."""
    seen = play(modules, client, url, "http-error")

    assert (seen["status"], seen["error"]) == ("error", "quota exceeded")
    assert [request["status"] for request in seen["requests"]] == [429]


def test_a_page_answers_a_call_itself(modules: str, client: str, url: str) -> None:
    """Its output goes to the server, which goes on with the same message."""
    seen = play(modules, client, url, "client-tool", ["output", "Paris"])

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert [(request["method"], request["status"]) for request in seen["requests"]] == [("POST", 200), ("POST", 200)]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert [part["state"] for part in _calls(seen)] == ["output-available"]
    assert _text(seen) == "You are here."


@pytest.mark.parametrize(
    ("approved", "state", "text"), [(True, "output-available", "Deleted."), (False, "output-denied", "Not deleted.")]
)
def test_an_approval_is_answered(modules: str, client: str, url: str, approved: bool, state: str, text: str) -> None:
    """The call is run when it is agreed to, and only then; both answers go on in the same message."""
    if client == "ai5":
        pytest.skip("version 5 of the protocol has no approvals")
    seen = play(modules, client, url, "approval", ["approve", approved])

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert [request["status"] for request in seen["requests"]] == [200, 200]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert [part["state"] for part in _calls(seen)] == [state]
    assert _text(seen) == text


def test_nothing_runs_that_could_be_resumed(modules: str, client: str, url: str) -> None:
    """A chat that is not answered has no stream: 204, and the page stays as it is."""
    seen = talk(modules, client, url, ["resume"])

    assert (seen["status"], seen["error"], seen["messages"]) == ("ready", None, [])
    assert [(request["method"], request["status"]) for request in seen["requests"]] == [("GET", 204)]


# -- answers that take a while


def test_a_page_that_is_loaded_again_reads_the_running_answer(modules: str, client: str, slow: str) -> None:
    """One page begins and is gone; another takes up the stream from its beginning, with the messages that are kept."""
    id_ = f"reload-{client}"
    gone = talk(modules, client, slow, ["begin", "Count."], ["read", "3 "], id=id_)
    kept = asked(slow, f"/api/chat/{id_}")
    seen = talk(modules, client, slow, ["resume"], id=id_, messages=kept["messages"][:1])

    assert gone["status"] == "streaming"
    assert kept["running"] is True
    assert seen["status"] == "ready"
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert _text(seen) == _text({"messages": asked(slow, f"/api/chat/{id_}")["messages"]}) == COUNTED


def test_a_stop_ends_the_answer_on_the_server(modules: str, client: str, slow: str) -> None:
    """The route for it cancels the run; what was said by then is kept, and the next message is answered."""
    id_ = f"stop-{client}"
    seen = talk(
        modules,
        client,
        slow,
        ["begin", "Count."],
        ["read", "3 "],
        ["post", f"/api/chat/{id_}/stop"],
        ["stop"],
        ["send", "Again."],
        id=id_,
    )
    kept = asked(slow, f"/api/chat/{id_}")

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert [request["status"] for request in seen["requests"]] == [200, 200, 200]
    first = kept["messages"][1]["parts"][-1]["text"]
    assert COUNTED.startswith(first)
    assert first != COUNTED
    assert _text(seen) == COUNTED


def test_a_message_is_edited_and_an_answer_is_asked_for_again(modules: str, client: str, url: str) -> None:
    """What was edited takes the place of what it was, and so does an answer that was asked for again."""
    id_ = f"edit-{client}"
    seen = talk(modules, client, url, ["send", "data-parts"], ["edit", "round"], ["regenerate"], id=id_)
    kept = asked(url, f"/api/chat/{id_}")

    assert (seen["status"], seen["error"]) == ("ready", None)
    assert [request["status"] for request in seen["requests"]] == [200, 200, 200]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert _text(seen) == "21 degrees in Paris."
    assert [message["id"] for message in kept["messages"]] == [message["id"] for message in seen["messages"]]
    assert next(iter(kept["versions"].values()))["of"] == 3


COUNTED = "".join(f"{n} " for n in range(40))
