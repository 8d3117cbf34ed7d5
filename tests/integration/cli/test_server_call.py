"""`fxai mcp call` on a tool that needs approval: a person in a terminal is asked, nobody else is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.test_process import command, environment
from tests.kit.terminal import Terminal

pytestmark = pytest.mark.slow

SERVED = """
from fxai.tools.tool import tool


@tool(needs_approval=True)
def wipe(disk: str) -> str:
    '''Wipes a disk.'''
    return f"{disk} is empty"


tools = [wipe]
"""

CALL = ("mcp", "call", shlex.join(command("mcp", "serve", "served.py:tools")), "wipe", '{"disk": "a"}')


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with a tool that needs approval, to be served."""
    (tmp_path / "served.py").write_text(SERVED)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [("y\n", 0, "a is empty\n"), ("n\n", 1, "approval, and no person gave it"), ("\x03", 130, "fxai: interrupted")],
)
def test_a_person_is_asked_for_approval(served: Path, typed: str, code: int, said: str) -> None:
    """The question shows the call; yes runs it, no does not, Ctrl-C ends it."""
    with Terminal(*CALL, cwd=served, columns=200) as terminal:
        shown = terminal.until("(yes | no)", ": ")
        terminal.type(typed)
        ended = terminal.ended()

    assert 'asks: May the tool wipe run with these arguments? {"disk":"a"}' in shown.replace('": "', '":"')
    assert (ended, said in terminal.shown) == (code, True)


def test_where_nobody_sits_the_remedy_is_a_commands(served: Path) -> None:
    """It is refused, in a line that names what can be typed; with --json in an object too."""
    done = subprocess.run(
        command(*CALL, "--json"), cwd=served, env=environment(), input=b"y\n", capture_output=True, check=False
    )
    remedy = "To answer questions, call the tool in a terminal with fxai mcp call or fxai chat."

    assert done.stderr.decode().endswith(f". {remedy}\n")
    assert b"elicit=" not in done.stderr
    assert json.loads(done.stdout)["error"]["remedy"] == remedy
    assert done.returncode == 1
