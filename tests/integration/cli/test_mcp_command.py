"""`fxai mcp`, and servers beside an agent: real servers in processes of their own, and some that misbehave."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.test_process import command, environment
from tests.kit.command_line import Run, runner

TIME = shlex.join([sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"])
PLAIN = shlex.join([sys.executable, "-S", "plain.py"])
"""A server that starts at once: the protocol by hand, as an older one speaks it."""

SPOKEN = """
import json
import os
import sys

ZONE = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
TOOLS = [
    {"name": "clock", "description": "Tells the time.", "inputSchema": ZONE, "annotations": {"readOnlyHint": True}},
    {"name": "leave", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]


def answered(method, params):
    if method == "initialize":
        about = {"name": "plain", "version": "1.0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if params["name"] == "leave":
        os._exit(3)
    zone = params["arguments"]["zone"]
    if zone == "Nowhere":
        return {"content": [{"type": "text", "text": "there is no such zone"}], "isError": True}
    return {"content": [{"type": "text", "text": zone}], "structuredContent": {"zone": zone, "hour": 12}}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        reply = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] in ("initialize", "tools/list", "tools/call"):
            reply["result"] = answered(asked["method"], asked.get("params", {}))
        else:
            reply["error"] = {"code": -32601, "message": "there is no such method"}
        print(json.dumps(reply), flush=True)
"""

SERVED = """
from fxai import Agent, Layer
from fxai.testing import ScriptedModel, call, text
from fxai.tools.tool import tool


@tool
def add(a: int, b: int = 1) -> int:
    '''Adds two whole numbers.'''
    print("adding")
    return a + b


tools = [add]
agent = Agent.make("caller")
model = Layer.suspend(
    lambda: ScriptedModel.make(
        [call("my_clock", {"zone": "UTC"}), text("Noon."), call("my_leave", {}), text("Gone."), text("Yes.")]
    ).layer
)
"""


@pytest.fixture
def fxai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `fxai` in this process, in a folder with tools that can be served."""
    (tmp_path / "served.py").write_text(SERVED)
    (tmp_path / "plain.py").write_text(SPOKEN)
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


def python(program: str) -> str:
    """The command that runs a program."""
    return shlex.join([sys.executable, "-c", program])


@pytest.mark.slow
def test_tools_shows_the_server_and_its_tools(fxai: Run) -> None:
    """Name, version, protocol and tools with hints and parameters, of a server of others."""
    ended = fxai("mcp", "tools", f"clock={TIME}")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("mcp-time 20")
    assert ", 2 tools\n" in ended.out
    assert "clock_get_current_time  dynamic, readonly," in ended.out
    assert "    timezone  string  IANA timezone name" in ended.out


def test_tools_says_all_in_an_object(fxai: Run) -> None:
    """With --json one object says what the server says of itself, and each tool with its schema."""
    said: dict[str, Any] = json.loads(fxai("mcp", "tools", "--json", PLAIN).out)

    assert (said["server"]["name"], said["server"]["protocol_version"]) == ("plain", "2025-06-18")
    assert [(tool["name"], tool["parameters"]["type"]) for tool in said["tools"]] == [
        ("clock", "object"),
        ("leave", "object"),
    ]
    assert said["tools"][0]["annotations"]["readonly"] is True
    assert (said["held_back"], said["refused"]) == ([], [])


def test_call_gives_the_result_as_json(fxai: Run) -> None:
    """The result is JSON on stdout; a tool that failed is a line in its own words; both may be objects."""
    ended = fxai("mcp", "call", PLAIN, "clock", '{"zone": "UTC"}')
    failed = fxai("mcp", "call", "--json", PLAIN, "clock", '{"zone": "Nowhere"}')
    died = fxai("mcp", "call", PLAIN, "leave")

    assert json.loads(ended.out) == {"zone": "UTC", "hour": 12}
    assert failed.err == "fxai: tool 'clock' failed: there is no such zone\n"
    assert json.loads(failed.out)["error"]["failure"]["problem"] == "there is no such zone"
    assert "the program ended with the exit code 3" in died.err
    assert [each.code for each in (ended, failed, died)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["clok", "{}"], 2, "has no tool 'clok'. Did you mean 'clock'?"),
        (["clock", '{"zone": 1}'], 1, "invalid arguments for 'clock': /zone"),
        (["clock", "{"], 2, "'{' is not valid JSON"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(fxai: Run, arguments: list[str], code: int, said: str) -> None:
    """A tool that is not there, parameters that do not fit, and what is no JSON are told before the tool is called."""
    ended = fxai("mcp", "call", PLAIN, *arguments)

    assert said in ended.err
    assert (ended.code, ended.out) == (code, "")


BROKEN: list[Any] = [
    ("no-such-program", 1, "cannot start 'no-such-program'"),
    (python("raise SystemExit('no key is set')"), 1, "its standard error ends with: no key is set"),
    (python("print('Welcome!'); input()"), 1, "; "),
    pytest.param(python("import time; time.sleep(60)"), 1, "; ", marks=pytest.mark.slow),
    ("http://127.0.0.1:9/mcp", 1, "cannot reach 'http://127.0.0.1:9/mcp'"),
    ("", 2, "missing SERVER. Pass a command such as"),
    ("x=", 2, "missing SERVER"),
    ("uvx 'half", 2, "No closing quotation"),
]


@pytest.mark.parametrize(("server", "code", "said"), BROKEN, ids=lambda value: str(value)[-30:])
def test_a_server_that_cannot_be_opened_is_one_line(fxai: Run, server: str, code: int, said: str) -> None:
    """A program that is not there, dies, talks or says nothing, an address where nobody is: one line, and it ends."""
    ended = fxai("mcp", "tools", "--timeout", "2", server)

    assert said in ended.err
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert "Traceback" not in ended.err


def test_a_tool_that_changed_is_held_back_until_it_is_approved(fxai: Run, tmp_path: Path) -> None:
    """With --pins a tool that is not as it was is not offered, nor can it be called; --approve offers it again."""
    chosen = ("--pins", "pins.json", PLAIN)
    first = fxai("mcp", "tools", *chosen)
    (tmp_path / "plain.py").write_text(SPOKEN.replace("Tells the time.", "Sends your files away."))
    held = fxai("mcp", "tools", "--json", *chosen)
    called = fxai("mcp", "call", *chosen, "clock", '{"zone": "UTC"}')
    approved = fxai("mcp", "tools", *chosen, "--approve", "clock")
    wrong = fxai("mcp", "tools", *chosen, "--approve", "clock")

    assert [each.code for each in (first, held, called, approved, wrong)] == [0, 1, 2, 0, 1]
    assert json.loads(held.out)["held_back"] == [{"name": "clock", "parts": ["description"]}]
    assert "is blocked: it changed since its approval: description. Look at it, then pass --approve clock" in held.err
    assert "tool 'clock' is not blocked" in wrong.err


def test_a_tool_that_was_added_is_held_back_until_it_is_approved(fxai: Run, tmp_path: Path) -> None:
    """With --pins, a new tool is told as new, and one whose name looks like another's is told as that."""
    chosen = ("--pins", "pins.json", PLAIN)
    first = fxai("mcp", "tools", *chosen)
    more = ", ".join(f'{{"name": "{name}", "inputSchema": {{"type": "object"}}}}' for name in ("later", "c1ock"))
    (tmp_path / "plain.py").write_text(SPOKEN.replace("TOOLS = [", f"TOOLS = [{more},"))
    held = fxai("mcp", "tools", *chosen)
    approved = fxai("mcp", "tools", *chosen, "--approve", "later", "--approve", "c1ock")

    assert [each.code for each in (first, held, approved)] == [0, 1, 0]
    assert "tool later is blocked: it is new. Look at it" in held.err
    assert "tool c1ock is blocked: it is new, and its name resembles the name of another tool. Look" in held.err


def test_pins_that_cannot_be_read_offer_nothing(fxai: Run, tmp_path: Path) -> None:
    """A broken file of pins is one line with the remedy, and is left as it is."""
    (tmp_path / "pins.json").write_text("{")
    ended = fxai("mcp", "tools", "--pins", "pins.json", PLAIN)

    assert "pins.json': Input data was truncated. Repair" in ended.err
    assert (ended.code, ended.out, (tmp_path / "pins.json").read_text()) == (1, "", "{")


def test_a_program_is_given_the_variables_that_are_named(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --env names is in the environment of the server, and nothing else of ours; one that is not set is told."""
    monkeypatch.setenv("MY_ZONE", "Mars")
    monkeypatch.setenv("MY_SECRET", "hidden")
    showing = SPOKEN.replace('"name": "plain"', '"name": os.environ["MY_ZONE"] + str("MY_SECRET" in os.environ)')
    Path("plain.py").write_text(showing)
    ended = fxai("mcp", "tools", "--json", "--env", "MY_ZONE", PLAIN)
    wrong = fxai("mcp", "tools", "--env", "NO_SUCH", PLAIN)

    assert json.loads(ended.out)["server"]["name"] == "MarsFalse"
    assert (wrong.code, wrong.err) == (
        2,
        "fxai: environment variable NO_SUCH is not set. Set it, or name another.\n",
    )


def test_a_token_is_for_an_address(fxai: Run) -> None:
    """A program is given no token: one line says how it is given variables."""
    ended = fxai("mcp", "tools", "--token-env", "PATH", PLAIN)

    assert (
        ended.err
        == "fxai: --token-env requires a server with a URL. To pass a variable to a program, use --env PATH.\n"
    )
    assert (ended.code, ended.out) == (2, "")


def test_approvals_need_a_file(fxai: Run) -> None:
    """Without --pins there is nowhere to keep what was approved."""
    ended = fxai("mcp", "tools", "--approve-all", PLAIN)

    assert ended.code == 2
    assert ended.err.startswith(
        "fxai: --approve requires --pins FILE, which stores the approval. Run fxai mcp tools --help"
    )


def test_other_commands_take_a_server_as_their_target(fxai: Run) -> None:
    """`fxai tools`, `fxai schema` and `fxai check` look at the tools of a server as at any others."""
    target = f"mcp:{PLAIN}"
    checked = json.loads(fxai("check", "--json", "--provider", "openai", target).out)

    assert [tool["name"] for tool in json.loads(fxai("tools", "--json", target).out)["tools"]] == ["clock", "leave"]
    assert json.loads(fxai("schema", "--json", target, "clock").out)["tools"][0]["schema"]["required"] == ["zone"]
    assert checked["tools"] == 2
    assert "parameter-undescribed" in {fault["code"] for fault in checked["faults"]}


def test_an_agent_has_the_tools_of_a_server(fxai: Run) -> None:
    """In a chat the server is open from turn to turn; when it dies, the model is told, and the chat goes on."""
    chosen = ("--agent", "served.py:agent", "--layer", "served.py:model", "--mcp", f"my={PLAIN}")
    ended = fxai("chat", *chosen, "--json", "--yes", piped="When?\nLeave\nWell?\n")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    results = [each for each in lines if each["type"] == "tool-result"]

    assert results[0]["result"] == {"zone": "UTC", "hour": 12}
    assert results[1]["result"]["type"] == "mcp-error"
    assert [each["answer"] for each in lines if each["type"] == "done"] == ["Noon.", "Gone.", "Yes."]


def test_a_run_has_the_tools_of_a_server(fxai: Run) -> None:
    """`fxai run --mcp` opens it for the run."""
    chosen = ("--agent", "served.py:agent", "--layer", "served.py:model", "--mcp", f"my={PLAIN}")

    assert fxai("run", "-q", *chosen, "When?") == (0, "Noon.\n", "")


def test_a_tool_that_is_not_marked_read_only_waits(fxai: Run) -> None:
    """In a chat it is asked about and runs when that is approved; the marked one runs unasked."""
    chosen = ("--agent", "served.py:agent", "--layer", "served.py:model", "--mcp", f"my={PLAIN}", "--json")
    asked, denied = (
        [json.loads(line) for line in fxai("chat", *chosen, piped=f"When?\nLeave\n{said}\n").out.splitlines()]
        for said in ("/approve", "/deny")
    )

    assert [each["name"] for each in asked if each["type"] == "question"] == ["my_leave"]
    assert [
        [each["result"].get("type") for each in lines if each["type"] == "tool-result"] for lines in (asked, denied)
    ] == [
        [None, "mcp-error"],
        [None, "execution-denied"],
    ]


def test_a_run_ends_where_such_a_tool_is_called(fxai: Run) -> None:
    """`fxai run` can ask nobody: it ends with 1 and names --yes, with which the tool is called."""
    Path("served.py").write_text(SERVED.replace('call("my_clock", {"zone": "UTC"}), text("Noon."), ', ""))
    chosen = ("--agent", "served.py:agent", "--layer", "served.py:model", "--mcp", f"my={PLAIN}", "Go")
    ended, called = fxai("run", *chosen), fxai("run", "-y", *chosen)

    assert ended.err == (
        "fxai: no user can approve the call of my_leave {}. "
        "fxai chat can ask you for the approval. With --yes, the tools of --mcp run without approval.\n"
    )
    assert "  ? my_leave needs an approval\n" in ended.out
    assert "call of 'leave': the program ended" in called.out
    assert (ended.code, called.code) == (1, 0)


def test_an_agent_says_itself_what_of_its_own_is_asked_about(fxai: Run) -> None:
    """--yes is for the servers' tools: a call of the agent's own that asks for approval still waits."""
    targets = Path(__file__).parents[2] / "kit" / "chat_targets.py"
    chosen = ("--agent", f"{targets}:agent", "--layer", f"{targets}:asks", "--mcp", PLAIN)
    ended = fxai("run", "--yes", *chosen, "Wipe a")

    assert ended.err == 'fxai: no user can approve the call of wipe "a". fxai chat can ask you for the approval.\n'


def test_two_servers_with_a_tool_of_one_name_need_names(fxai: Run) -> None:
    """A name that two servers give a tool is a line that says how to tell them apart."""
    (Path("other.py")).write_text(SPOKEN)
    other = shlex.join([sys.executable, "-S", "other.py"])
    ended = fxai("chat", "--layer", "served.py:model", "--mcp", PLAIN, "--mcp", other, piped="?")

    assert "Add a prefix to the server's tools with --mcp name=SERVER" in ended.err
    assert (ended.code, ended.out) == (1, "")


def test_the_missing_extra_is_named(fxai: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, one line says what to install, from every command that needs it."""

    def nothing(_: str) -> None:
        """No module is installed."""

    monkeypatch.setattr("fxai.cli.target.find_spec", nothing)
    needing = [
        fxai("mcp", "tools", TIME),
        fxai("mcp", "call", TIME, "get_current_time"),
        fxai("mcp", "serve", "served.py:tools"),
        fxai("tools", f"mcp:{TIME}"),
        fxai("run", "--mcp", TIME, "?"),
        fxai("chat", "--mcp", TIME, piped="?"),
    ]

    assert {each.err for each in needing} == {
        "fxai: MCP requires the extra mcp, which is not installed. Run pip install 'fxai[mcp]'.\n"
    }
    assert {each.code for each in needing} == {1}


# ---- a server of ours


WRONG: list[tuple[list[str], int, str]] = [
    (["served.py:agent"], 2, "served.py:agent has no tools"),
    (["fxai.cli.example:kit"], 1, "missing handlers for tools of fxai.cli.example:kit: count_lines"),
    (["served.py:tools", "--http", "nowhere"], 2, "--http must be [HOST:]PORT, got 'nowhere'. Pass"),
    (["served.py:tools", "--http", "99999"], 2, "--http must be [HOST:]PORT, got '99999'"),
    (
        ["served.py:tools", "--http", "0.0.0.0:0"],
        2,
        "--http 0.0.0.0 lets any other machine call the tools",
    ),
    (["served.py:tools", "--http", "0", "--token-env", "NO_SUCH"], 2, "variable NO_SUCH is not set. Set it"),
    (["served.py:tools", "--http", "0.0.0.0:0", "--token-env", "PATH"], 2, "missing --allow-host"),
    (["served.py:tools", "--allow-host", "x"], 2, "require --http. Run fxai mcp serve --help"),
    (["served.py:nothing"], 2, "unknown name 'nothing'"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG, ids=lambda value: str(value)[-40:])
def test_what_cannot_be_served_is_said(fxai: Run, arguments: list[str], code: int, said: str) -> None:
    """Nothing is served that nobody answers, and nothing to other machines unasked: one line says what to do."""
    ended = fxai("mcp", "serve", *arguments)

    assert said in ended.err
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)


def test_a_port_that_is_taken_is_named(fxai: Run) -> None:
    """Where another program listens, one line says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = fxai("mcp", "serve", "served.py:tools", "--http", str(taken.getsockname()[1]))

    assert "fxai: cannot listen on 127.0.0.1:" in ended.err
    assert ended.code == 1


@pytest.mark.slow
def test_stdin_that_is_no_protocol_ends_well(fxai: Run, tmp_path: Path) -> None:
    """Lines that are no messages are refused in messages; when stdin ends, the server ends, with 0."""
    asked = command("mcp", "serve", "served.py:tools")
    done = subprocess.run(
        asked, cwd=tmp_path, env=environment(), input=b"hello\n\xff\n", capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert all("error" in json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_tools_are_served_over_http_to_who_has_the_token(fxai: Run, tmp_path: Path, monkeypatch: Any) -> None:
    """It says where it listens; a client with the token gets results, one without it a clear refusal."""
    monkeypatch.setenv("MY_TOKEN", "correct horse battery staple")
    asked = command("mcp", "serve", "served.py:tools", "--http", "127.0.0.1:0", "--token-env", "MY_TOKEN")
    given = environment(MY_TOKEN=os.environ["MY_TOKEN"])
    serving = subprocess.Popen(asked, cwd=tmp_path, env=given, stderr=subprocess.PIPE, text=True)
    assert serving.stderr is not None
    try:
        said = serving.stderr.readline()
        url = said.rpartition(" ")[2].strip()
        called = fxai("mcp", "call", url, "add", '{"a": 2}', "--token-env", "MY_TOKEN")
        refused = fxai("mcp", "call", url, "add", '{"a": 2}')
        monkeypatch.setenv("FXAI_MCP_TOKEN_MY", os.environ["MY_TOKEN"])
        named = fxai("mcp", "call", f"my={url}", "my_add", '{"a": 2}')
    finally:
        serving.send_signal(signal.SIGTERM)
        _, errors = serving.communicate(timeout=60)

    assert said.startswith("fxai: listening on http://127.0.0.1:")
    assert (called.code, called.out) == (0, named.out)
    assert called.out == "3\n"
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert serving.returncode == 143
    assert errors.splitlines()[-1] == "fxai: terminated"
