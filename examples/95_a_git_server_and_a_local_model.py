"""Use a public MCP server with a real local model on a real repository.

The server is a program that runs for one run of the agent. The model has 270 million parameters. It can answer requests
that are similar to the examples of the tools. Install the extras `local` and `mcp` and the package `mcp-server-git`.
Then run `python examples/95_a_git_server_and_a_local_model.py`.
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
    """Create a repository with three commits."""

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


# The server's descriptions are for large models. A small model learns from example requests.

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
    """Return the tools with examples."""
    return kit.map(lambda tool: tool.with_options(input_examples=EXAMPLES[tool.name]))


def show(step: Step) -> None:
    """Print the calls of a step and their results."""
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
