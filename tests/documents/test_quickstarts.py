"""The quickstarts: each page shows a program of `examples/quickstart` and its real output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.kit.source import ROOT

PROGRAMS = ROOT / "examples/quickstart"
PAGES = sorted((ROOT / "docs/quickstart").glob("*.md"))
BLOCK = re.compile(r'^```(\w+) title="([^"\n]*)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BLOCKS = [block for page in PAGES for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
OUTPUTS = {title.removeprefix("Output of "): code for _, title, code in BLOCKS if title.startswith("Output of ")}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_each_quickstart_shows_the_whole_program() -> None:
    """The pages show every program of the folder, and each program is a file of the folder, character by character."""
    programs = {path.name: path.read_text(encoding="utf-8") for path in PROGRAMS.glob("*.py")}

    assert {title: code for language, title, code in BLOCKS if language == "python"} == programs


@pytest.mark.parametrize(
    "name", ["weather_agent.py", "read_invoice.py", pytest.param("shop_client.py", marks=pytest.mark.slow)]
)
def test_a_quickstart_prints_the_output_of_its_page(name: str, tmp_path: Path) -> None:
    """The program prints exactly the output that its page shows, and nothing on stderr."""
    command = [sys.executable, "-W", "error", str(PROGRAMS / name)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr, done.stdout) == (0, "", OUTPUTS[name])


def test_the_chat_page_is_in_the_application() -> None:
    """The FastAPI application has its own route and the chat, and a message leads to a call that needs an approval."""
    spec = spec_from_file_location("chat_page", PROGRAMS / "chat_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Is there any coffee?"}]}

    with TestClient(module.app, base_url="http://127.0.0.1:8000") as client:
        health = client.get("/health").json()
        page = client.get("/chat/")
        answer = client.post("/chat/api/chat", json={"id": "c1", "messages": [message]}).text

    assert health == {"ok": True}
    assert "<title>" in page.text
    assert '"output":0' in answer
    assert '"type":"tool-approval-request"' in answer


@pytest.mark.slow
def test_the_batch_continues_after_a_kill(tmp_path: Path) -> None:
    """A batch that is killed twice writes a line for each ticket, and repeats at most the two tickets in progress."""
    command = [sys.executable, "-u", str(PROGRAMS / "triage.py")]
    lines: list[str] = []
    for _ in range(2):
        with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines += [process.stdout.readline() for _ in range(5)]
            process.kill()
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    report = (tmp_path / "triage.txt").read_text(encoding="utf-8").splitlines()

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "20 tickets are sorted.")
    assert len(lines) == 10
    assert {line.partition(":")[0] for line in report} == {f"Ticket {number}" for number in range(1, 21)}
    assert 20 <= len(report) <= 24
    assert len(done.stdout.splitlines()) <= 15
