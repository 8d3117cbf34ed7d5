"""The command in a process of its own: pipes, signals, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TARGETS = ROOT / "tests" / "kit" / "targets.py"

SLOW = """
import signal
from pathlib import Path
from typing import Any

from fxai import Agent, Gen, Scope, Tool, Toolkit, fx
from fxai.testing import ScriptedModel, call


slow = Tool.make("slow", success=str)
kit = Toolkit.make(slow)
agent = Agent.make("sleeper", toolkit=kit)


def write(line: str) -> Any:
    def append() -> None:
        with Path("journal.txt").open("a") as file:
            file.write(line)

    return fx.sync(append)


def on_slow(_: Any) -> Gen[str, Any]:
    held = fx.acquire_release(write("acquired "), lambda _: fx.sleep(0.01).and_then(write("released ")))
    yield from fx.scoped(held.and_then(fx.sleep(600)))
    return "never"


layer = kit.to_layer(slow.handler(on_slow)) | ScriptedModel.make([call("slow", {})]).layer
"""

ECHO = """
from fxai.tools.tool import tool


@tool
def echo(text: str) -> str:
    \"\"\"Says it.\"\"\"
    return text
"""


def command(*arguments: str) -> list[str]:
    """The command line of `fxai` in this environment."""
    return [sys.executable, "-m", "fxai", *arguments]


def environment(**more: str) -> dict[str, str]:
    """The environment with the package in it, and with nothing that asks for colour or says how wide a terminal is."""
    told = ("FORCE_COLOR", "NO_COLOR", "TERM", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in told}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


FORECASTER = command("run", "--agent", f"{TARGETS}:agent", "--layer", f"{TARGETS}:lost", "How is it?")


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes it")
@pytest.mark.parametrize("arguments", [("models",), ("--version",), ("--help",), ("tools", f"{TARGETS}:kit")])
def test_a_closed_output_is_told(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As other programs do it: what could not be said is an error, and no file that is opened takes its place."""
    line = ["sh", "-c", 'exec "$@" >&-', "sh", *command(*arguments)]
    done = subprocess.run(line, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, check=False, text=True)

    assert done.returncode == 1
    assert done.stderr == "fxai: cannot write the output: it is closed. Free space, or write to another file.\n"


def test_piped_output_has_no_escape_codes(tmp_path: Path) -> None:
    """What goes into a pipe is plain text, stderr too, even where the terminal has every colour."""
    shown = environment(TERM="xterm-256color", COLORTERM="truecolor")
    done = subprocess.run(FORECASTER, cwd=tmp_path, env=shown, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    assert "✗ weather failed: NoSuchCity".encode() in done.stdout


def test_odd_encodings_do_not_break_it(tmp_path: Path) -> None:
    """A terminal that knows ASCII alone gets escapes in place of what it lacks, and the run goes on."""
    done = subprocess.run(
        FORECASTER, cwd=tmp_path, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert rb"\u2717 weather failed: NoSuchCity" in done.stdout


@pytest.mark.parametrize(("encoding", "json_lines"), [("ascii", []), ("latin-1", ["--json"])])
def test_no_encoding_changes_data(encoding: str, json_lines: list[str], tmp_path: Path) -> None:
    """JSON is the same data whatever the encoding of stdout lacks; nothing becomes a question mark."""
    (tmp_path / "echoes.py").write_text(ECHO)
    said = command("call", "echoes.py:echo", "echo", '{"text": "é☃😀"}', *json_lines)
    shown = environment(PYTHONIOENCODING=encoding, PYTHONUTF8="1")
    done = subprocess.run(said, cwd=tmp_path, env=shown, capture_output=True, check=False)
    data = json.loads(done.stdout.decode(encoding))

    assert done.returncode == 0, done.stderr
    assert (data["result"] if json_lines else data) == "é☃😀"


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    """When nobody reads stdout any more, it ends as shells expect it, with nothing on stderr."""
    running = subprocess.Popen(
        FORECASTER, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    running.stdout.close()
    _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (141, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pseudo terminals")
@pytest.mark.parametrize(("variable", "coloured"), [("TERM=xterm", True), ("NO_COLOR=1", False), ("TERM=dumb", False)])
def test_a_terminal_gets_colour_unless_it_says_no(tmp_path: Path, variable: str, coloured: bool) -> None:
    """In a terminal there is colour; with NO_COLOR there is none, and with TERM=dumb not one escape code."""
    import pty

    name, _, value = variable.partition("=")
    given = environment(**{"TERM": "xterm", name: value})
    main, terminal = pty.openpty()
    running = subprocess.Popen(FORECASTER, cwd=tmp_path, env=given, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while b" s\r\n" not in shown.replace(b"\x1b[0m", b""):
        shown += os.read(main, 65536)
    running.wait(timeout=60)
    os.close(main)

    assert (re.search(rb"\x1b\[[0-9;]*m", shown) is not None) is coloured
    assert (b"\x1b" in shown) is (variable != "TERM=dumb")
    assert b"Turn 1" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_runs_the_finalizers_once_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Stopped in the middle of a handler, it releases what the handler holds, once, says so in a line, and is gone."""
    (tmp_path / "slow.py").write_text(SLOW)
    asked = command("run", "--agent", "slow.py:agent", "--layer", "slow.py:layer", "Sleep")
    running = subprocess.Popen(
        asked, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    for line in running.stdout:
        if "→ slow" in line:
            break
    while not (tmp_path / "journal.txt").exists():
        pass
    running.send_signal(number)
    _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors.count("\n")) == (code, 1)
    assert (tmp_path / "journal.txt").read_text() == "acquired released "


def test_help_loads_nothing_heavy() -> None:
    """The help of every command comes without the terminal toolkit, the validators and the model's runtime."""
    program = (
        "import sys\nfrom fxai.cli.command import cli\n"
        "cli.main(['run', '--help'], standalone_mode=False)\n"
        "heavy = {'rich', 'jsonschema', 'xllamacpp', 'fxai.providers.local'}\n"
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )

    assert "--agent" in done.stdout
    assert done.stderr.strip() == ""
