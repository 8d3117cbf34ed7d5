"""The commands that look at tools and call them, in processes of their own: pipes, signals, terminals, imports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.test_process import command, environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
FAULTY = ROOT / "tests" / "kit" / "faulty_tools.py"

SLOW = """
from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from fxai import CallContext, Gen, fx
from fxai.tools.tool import tool


def write(line: str) -> Any:
    def append() -> None:
        with Path("journal.txt").open("a") as file:
            file.write(line)

    return fx.sync(append)


@tool
def slow(context: CallContext) -> Gen[str, Any, Any]:
    '''Waits for long.'''
    held = fx.acquire_release(write("acquired "), lambda _: fx.sleep(0.01).and_then(write("released ")))
    yield from fx.scoped(held.and_then(context.preliminary("waiting")).and_then(fx.sleep(600)))
    return "never"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_call_and_runs_the_finalizers(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Stopped in the middle of a call, it releases what the handler holds, once, and says so in a line."""
    (tmp_path / "slow.py").write_text(SLOW)
    running = subprocess.Popen(
        command("call", "slow.py:slow", "slow"),
        cwd=tmp_path,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stderr is not None
    waiting = running.stderr.readline()
    running.send_signal(number)
    out, errors = running.communicate(timeout=60)

    assert waiting == '… "waiting"\n'
    assert (running.returncode, out, errors.count("\n")) == (code, "", 1)
    assert (tmp_path / "journal.txt").read_text() == "acquired released "


@pytest.mark.parametrize("arguments", [("tools",), ("schema",), ("schema", "--provider", "openai"), ("check",)])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """When nobody reads stdout any more, it ends as shells expect it, without a traceback."""
    asked = command(*arguments, f"{FAULTY}:ten", "--json")
    running = subprocess.Popen(asked, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    _, errors = running.communicate(timeout=60)

    assert running.returncode == 141
    assert b"Traceback" not in errors
    assert b"Broken" not in errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pseudo terminals")
@pytest.mark.parametrize(("variable", "coloured"), [("TERM=xterm", True), ("NO_COLOR=1", False)])
def test_a_terminal_gets_colour_unless_it_says_no(tmp_path: Path, variable: str, coloured: bool) -> None:
    """In a terminal the severity of a fault is coloured; with NO_COLOR it is not."""
    import pty

    name, _, value = variable.partition("=")
    given = environment(**{"TERM": "xterm", name: value})
    main, terminal = pty.openpty()
    running = subprocess.Popen(
        command("check", f"{FAULTY}:ten"), cwd=tmp_path, env=given, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    while b"10 problems" not in shown:
        shown += os.read(main, 65536)
    running.wait(timeout=60)
    os.close(main)

    assert bool(re.search(rb"\x1b\[[0-9;]*m", shown)) is coloured
    assert running.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (
            ["--help"],
            {"rich", "jsonschema", "fxai.providers", "fxai.cli.target", "fxai.lint"},
        ),
        (["tools", "--help"], {"rich", "jsonschema", "fxai.providers", "fxai.lint"}),
        (["check", "--help"], {"rich", "jsonschema", "fxai.providers"}),
        (["schema", "--help"], {"rich", "jsonschema", "fxai.providers"}),
        (["call", "--help"], {"rich", "jsonschema", "fxai.providers"}),
        (["check", f"{FAULTY}:search", "--json"], {"rich", "hypothesis", "openai", "anthropic", "httpx2", "pytest"}),
    ],
    ids=["help", "tools", "check", "schema", "call", "check of a toolkit"],
)
def test_a_command_loads_what_it_needs(arguments: list[str], left_out: set[str]) -> None:
    """Help comes without the terminal toolkit, validators and providers; a check without SDKs and test tools."""
    program = (
        "import sys\nfrom fxai.cli.command import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\n"
        f"print(*sorted({left_out!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("fxai ", {"run", "tools", "schema", "check", "call"}),
        ("fxai check x --ignore strict-", {"strict-impossible", "strict-weakened"}),
        ("fxai check x --provider a", {"anthropic"}),
        ("fxai schema x --provider o", {"openai"}),
        ("fxai check x --level e", {"error"}),
        ("fxai tools --c", {"--color"}),
    ],
)
def test_a_shell_completes(typed: str, offered: set[str]) -> None:
    """Commands, options, rules and providers are completed by the shell's own way."""
    words = typed.split(" ")
    asked = environment(_FXAI_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1))
    done = subprocess.run(command(), env=asked, capture_output=True, text=True, check=False)

    assert offered <= {line.partition(",")[2] for line in done.stdout.splitlines()}


def test_a_target_completes_to_files() -> None:
    """Where a target belongs the shell offers files."""
    asked = environment(_FXAI_COMPLETE="bash_complete", COMP_WORDS="fxai tools to", COMP_CWORD="2")
    done = subprocess.run(command(), env=asked, capture_output=True, text=True, check=False)

    assert done.stdout.startswith("file,")


def test_commands_join_through_pipes(tmp_path: Path) -> None:
    """What one command writes as JSON another reads: the tools of a program are checked as a list."""
    listed = subprocess.run(
        command("tools", f"{FAULTY}:sensible", "--json"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
    )
    tools = [{**tool, "inputSchema": tool["parameters"]} for tool in json.loads(listed.stdout)["tools"]]
    done = subprocess.run(
        command("schema", "-", "--provider", "anthropic", "--json"),
        cwd=tmp_path,
        env=environment(),
        input=json.dumps(tools).encode(),
        capture_output=True,
        check=True,
    )

    assert [tool["strict"] for tool in json.loads(done.stdout)["tools"]] == [True, True, True, False]
