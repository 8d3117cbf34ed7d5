"""An MCP server that others wrote, a real repository, and a model in this process: nothing is scripted.

The server is a program; it is started for one run and ended with it. The model has 270 million parameters: requests
that it has seen alike, which the tools' examples show it, are what it can do. Run it, with the extras `local` and
`mcp` and the package `mcp-server-git`: `python examples/95_a_git_server_and_a_local_model.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fxai import Agent, Budget, Example, Step, Toolkit, ToolSource, fx, mcp
from fxai.mcp import McpHandler
from fxai.providers import local


def bakery(folder: Path) -> None:
    """Makes a repository with three commits."""

    def git(*words: str) -> None:
        known = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *known, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for name, text, message in (
        ("README.md", "# Bakery\n", "Start the bakery"),
        ("oven.py", "HEAT = 220\n", "Add the oven"),
        ("bread.py", "LOAVES = 4\n", "Bake four loaves"),
    ):
        (folder / name).write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", message)


# What the server says of its tools is for large models. A small one learns from what others asked.

EXAMPLES = {
    "git_log": (
        Example("Show the last 3 commits.", {"repo_path": ".", "max_count": 3}),
        Example("What was the latest change?", {"repo_path": ".", "max_count": 1}),
    ),
    "git_status": (
        Example("Which files are changed?", {"repo_path": "."}),
        Example("Is the work all committed?", {"repo_path": "."}),
    ),
}


def taught(kit: Toolkit[McpHandler]) -> Toolkit[McpHandler]:
    """The same tools, with examples."""
    return kit.map(lambda tool: tool.with_options(input_examples=EXAMPLES[tool.name]))


def show(step: Step) -> None:
    """Prints what a step called, and what came of it."""
    for call, result in zip(step.response.tool_calls, step.response.tool_results, strict=True):
        print(f"{call.name} {call.params}")
        print("\n".join(f"  | {line}" for line in str(result.encoded_result).splitlines() if line))


with TemporaryDirectory() as name:
    folder = Path(name)
    bakery(folder)
    command = (sys.executable, "-m", "mcp_server_git", "--repository", str(folder))
    server = mcp.stdio(*command, cwd=folder, name="git").only("git_log", "git_status")

    agent = Agent.make("historian", budget=Budget(rounds=3), at_limit="answer")
    asked = agent.with_tools(ToolSource.of(server).with_toolkit(taught)).on_step(show)

    answer = fx.run(asked.execute("Show the last 2 commits.").provide(local.layer()))
    print(f"Steps: {len(answer.steps)}. Answer: {answer.text}")
