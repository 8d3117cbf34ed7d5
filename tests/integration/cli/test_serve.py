"""`fxai serve` as a process: asked over HTTP, stopped by signals, killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kit.command_line import Run, runner

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
AGENT = str(ROOT / "tests/kit/served_agent.py")
TARGET = (f"{AGENT}:agent", "--layer", f"{AGENT}:live")
TOKEN = "a-token-of-more-than-sixteen"


class Served(NamedTuple):
    """A process that serves, and where."""

    process: subprocess.Popen[str]
    location: str
    line: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """The status and the body of what it answers."""
        connection = HTTPConnection(self.location, timeout=30)
        sent = {} if body is None else {"content-type": "application/json"}
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {**sent, **{k.replace("_", "-"): v for k, v in headers.items()}})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def say(self, text: str, conversation: str = "c1", **more: Any) -> tuple[int, str]:
        """Says something in a conversation."""
        user = {"id": f"u{time.monotonic_ns()}", "role": "user", "parts": [{"type": "text", "text": text}]}
        return self.ask("POST", "/api/chat", {"id": conversation, "message": user, **more})

    def start(self, text: str, conversation: str = "c1") -> HTTPConnection:
        """Says something, and reads the head of the answer."""
        connection = HTTPConnection(self.location, timeout=30)
        user = {"id": f"u{time.monotonic_ns()}", "role": "user", "parts": [{"type": "text", "text": text}]}
        body = json.dumps({"id": conversation, "message": user})
        connection.request("POST", "/api/chat", body, {"content-type": "application/json"})
        return connection

    def talk(self, conversation: str = "c1") -> dict[str, Any]:
        """A conversation as it is kept."""
        status, body = self.ask("GET", f"/api/chat/{conversation}")
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found


@contextmanager
def served(*arguments: str, env: dict[str, str] | None = None) -> Generator[Served]:
    """A process of `fxai serve`, on a free port of loopback."""
    command = [sys.executable, "-m", "fxai", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://([\w.:]+)/", line)
        assert found is not None, line + process.stderr.read()
        yield Served(process, found[1], line)
    finally:
        process.kill()
        process.communicate()


def _text(talk: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in talk["messages"][-1]["parts"])


def test_it_serves_the_page_and_the_agent() -> None:
    """One line says where; the page, what it is about, an answer, and the conversation are there."""
    with served(*TARGET) as server:
        status, page = server.ask("GET", "/")
        about = json.loads(server.ask("GET", "/api/info")[1])
        told = server.say("hello")
        assert (status, page.startswith("<!doctype html>")) == (200, True)
        assert (about["title"], [tool["name"] for tool in about["tools"]]) == ("clerk", ["deleteFile"])
        assert "You said: hello" in told[1]
        assert _text(server.talk()) == "You said: hello"
        assert server.line.startswith("fxai: clerk at http://127.0.0.1:")
        assert "in memory until the server stops" in server.line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_what_was_written_is_kept(number: int, code: int, tmp_path: Path) -> None:
    """The stream ends in order, as stopped; started again, it has the conversation as far as it came."""
    store = str(tmp_path / "chats.db")
    with served(*TARGET, "--store", store) as server:
        connection = server.start("count")
        response = connection.getresponse()
        read = ""
        while '"3 "' not in read:
            read += response.readline().decode()
        begun = time.monotonic()
        server.process.send_signal(number)
        rest = response.read().decode()
        connection.close()
        _, err = server.process.communicate(timeout=60)
        took = time.monotonic() - begun
    with served(*TARGET, "--store", store) as server:
        talk = server.talk()
        again = server.say("hello")

    assert server.process.returncode is not None
    assert '"type":"abort"' in rest
    assert rest.endswith("data: [DONE]\n\n")
    assert "Traceback" not in err
    assert took < 60
    assert _text(talk).startswith("0 1 2 3")
    assert (talk["ended"], talk["running"]) == ("stopped", False)
    assert again[0] == 200
    assert code in (130, 143)


def test_after_a_kill_the_conversation_goes_on(tmp_path: Path) -> None:
    """A process that is killed in the middle of an answer leaves what was said; the next one goes on from there."""
    store = str(tmp_path / "kept")
    with served(*TARGET, "--store", store) as server:
        server.say("hello")
        connection = server.start("count")
        connection.getresponse().readline()
        server.process.kill()
        server.process.wait()
        connection.close()
    with served(*TARGET, "--store", store) as server:
        talk = server.talk()
        told = server.say("hello again")
        listed = json.loads(server.ask("GET", "/api/chat")[1])["conversations"]

        assert talk["error"] == "the server stopped during the answer"
        assert [message["role"] for message in talk["messages"]] == ["user", "assistant", "user"]
        assert "You said: hello again" in told[1]
        assert [one["title"] for one in listed] == ["hello"]


def test_an_approval_is_answered_by_another_process(tmp_path: Path) -> None:
    """The call waits in the store; the process that comes later runs it."""
    store = str(tmp_path / "chats.db")
    with served(*TARGET, "--store", store) as server:
        assert "tool-approval-request" in server.say('deleteFile {"path": "/x"}')[1]
    with served(*TARGET, "--store", store) as server:
        message = server.talk()["messages"][-1]
        for part in message["parts"]:
            if part.get("state") == "approval-requested":
                part.update(state="approval-responded", approval={**part["approval"], "approved": True})
        status, body = server.ask("POST", "/api/chat", {"id": "c1", "message": message})

    assert status == 200
    assert '"output":"/x is gone"' in body
    assert "Done." in body


@pytest.mark.parametrize("store", ["kept", "chats.db"])
def test_another_process_reads_a_running_answer_and_stops_it(store: str, tmp_path: Path) -> None:
    """Two processes share a store: what one of them runs, the other shows from its beginning, and ends."""
    location = str(tmp_path / store)
    with served(*TARGET, "--store", location) as one, served(*TARGET, "--store", location) as other:
        connection = one.start("count")
        response = connection.getresponse()
        while '"3 "' not in response.readline().decode():
            pass
        running = other.talk()["running"]
        busy = other.say("hello")
        resumed = HTTPConnection(other.location, timeout=30)
        resumed.request("GET", "/api/chat/c1/stream")
        stopped = other.ask("POST", "/api/chat/c1/stop", {})
        read = resumed.getresponse().read().decode()
        rest = response.read().decode()
        connection.close()
        resumed.close()
        talk = other.talk()

    assert (running, busy[0]) == (True, 409)
    assert stopped == (200, '{"stopped":true}')
    assert read.startswith('data: {"type":"start"')
    assert '"type":"abort"' in read
    assert '"type":"abort"' in rest
    assert (talk["ended"], talk["running"]) == ("stopped", False)


def test_a_question_of_an_mcp_server_is_asked_on_the_page() -> None:
    """The server asks in the middle of its tool; the answer that the page sends is what the server gets."""
    program = f"{sys.executable} {ROOT / 'tests/kit/hostile_server.py'} rich"
    with served("--mcp", program, "-y", "--layer", f"{AGENT}:live") as server:
        connection = server.start("asks {}")
        response = connection.getresponse()
        line = ""
        while "data-question" not in line:
            line = response.readline().decode()
            assert line, "the stream ended without a question"
        asked = json.loads(line.removeprefix("data: "))["data"]
        answer = {"questionId": asked["questionId"], "action": "accept", "content": {"sure": True}}
        taken = server.ask("POST", "/api/chat/c1/answers", answer)
        rest = response.read().decode()
        connection.close()

    assert asked["message"] == "Sure?"
    assert taken == (200, '{"taken":true}')
    assert "accept" in rest
    assert "sure" in rest


def test_a_token_is_asked_for() -> None:
    """Without it the page is there and nothing else; with it everything is."""
    with served(*TARGET, "--token-env", "CHAT_TOKEN", env={"CHAT_TOKEN": TOKEN}) as server:
        assert server.ask("GET", "/")[0] == 200
        assert [server.ask("GET", path)[0] for path in ("/api/info", "/api/chat", "/api/chat/c1")] == [401] * 3
        assert server.ask("GET", "/api/info", authorization="Bearer wrong-token-of-some-length")[0] == 401
        assert server.ask("GET", "/api/info", authorization=f"Bearer {TOKEN}")[0] == 200
        assert "The page requires the token" in server.line


def test_a_failure_is_one_line_for_whoever_serves() -> None:
    """The page is told that it failed; the terminal why, without a traceback."""
    with served(*TARGET) as server:
        told = server.say("deleteFile {no json}")
        server.process.terminate()
        _, err = server.process.communicate(timeout=60)

    assert "An error occurred." in told[1]
    lines = [line for line in err.splitlines() if "turn " in line]
    assert len(lines) == 1
    assert lines[0].startswith("fxai: turn ")
    assert "Traceback" not in err


# -- what is told before it listens


@pytest.fixture
def fxai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `fxai` in this process."""
    monkeypatch.setenv("SHORT", "short")
    return runner(monkeypatch, capsys)


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such agent": ((f"{AGENT}:nobody",), 2, "Use one of: "),
    "no agent": ((f"{AGENT}:kit",), 2, "an agent or a stateful prompt"),
    "no handlers": ((f"{AGENT}:agent",), 1, "missing handlers for tools of agent 'clerk': deleteFile"),
    "no such layer": ((f"{AGENT}:agent", "--layer", f"{AGENT}:nothing"), 2, "unknown name 'nothing'"),
    "no such model": ((*TARGET, "--model", "acme:great"), 2, "acme"),
    "other machines": ((*TARGET, "--host", "0.0.0.0"), 2, "--token-env NAME"),
    "no name": ((*TARGET, "--host", "0.0.0.0", "--token-env", "SHORT"), 2, "--allow-host"),
    "no token": ((*TARGET, "--token-env", "NO_SUCH_VARIABLE"), 2, "NO_SUCH_VARIABLE is not set"),
    "a short token": ((*TARGET, "--token-env", "SHORT"), 2, "16 characters"),
    "no port": ((*TARGET, "--port", "70000"), 2, "must be from 0 to 65535"),
    "not our host": ((*TARGET, "--host", "192.0.2.1", "--token-env", "PATH", "--allow-host", "x"), 1, "cannot listen"),
    "no place": ((*TARGET, "--store", f"{AGENT}/chats.db"), 2, "cannot store conversations in"),
    "a file as folder": ((*TARGET, "--store", AGENT), 2, "cannot store conversations in"),
    "servers' options": ((*TARGET, "--yes"), 2, "--yes requires --mcp"),
    "no memory": ((*TARGET, "--memory", "x.db"), 2, "unknown option"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_served_is_told_at_once(fxai: Run, case: str) -> None:
    """One line on stderr says what is wrong and what to do; nothing listens."""
    arguments, code, said = WRONG[case]
    ended = fxai("serve", *arguments)

    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_port_that_is_taken_is_told(fxai: Run) -> None:
    """Another one, or any free one, can be chosen."""
    with served(*TARGET) as server:
        ended = fxai("serve", *TARGET, "--port", server.location.partition(":")[2])

    assert ended.code == 1
    assert "cannot listen" in ended.err
    assert "Choose another port" in ended.err
