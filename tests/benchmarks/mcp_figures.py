"""What the default local model gets right with servers of others: `python -m tests.benchmarks.mcp_figures [SET]...`.

An agent with the model in this process, and a third-party MCP server over stdio: on a real repository (`git`), a real
database (`duckdb`) and the clock (`time`). Three of each server's tools are offered, with request examples. For each
set: how often the first tool called was the right one, how often with the right parameters, how often one call of the
run gave what was asked for, and how often the answer told it. None of the requests stands among the examples.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from fxai import ToolSource, mcp
from fxai.agents import Agent, Budget
from fxai.effects import Gen, fx
from fxai.mcp import McpServer
from fxai.models import LanguageModel
from fxai.providers.local import layer
from fxai.tools import Example

__all__ = ["SETS"]

Wanted: TypeAlias = "tuple[str, str, dict[str, Any], tuple[str, ...]]"
"""A request, the tool it calls for, its parameters, and what stands in the right result, and so in a right answer."""


def repository(folder: Path) -> McpServer:
    """The git server on a repository of three commits, two branches and a file that is changed."""

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
    git("branch", "rye")
    (folder / "oven.py").write_text("HEAT = 240\n")
    server = mcp.stdio(sys.executable, "-m", "mcp_server_git", "--repository", str(folder), cwd=folder, name="git")
    return server.only("git_log", "git_status", "git_branch")


def database(folder: Path) -> McpServer:
    """The DuckDB server on a database of one table."""
    import duckdb

    path = folder / "bakery.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE loaves (name TEXT, price INTEGER)")
        connection.execute("INSERT INTO loaves VALUES ('rye', 4), ('spelt', 6), ('wheat', 3)")
    server = mcp.stdio("mcp-server-motherduck", "--db-path", str(path), env={"HOME": str(folder)}, name="duckdb")
    return server.only("execute_query", "list_tables", "list_columns")


def clock(_: Path) -> McpServer:
    """The server of the time."""
    return mcp.stdio(sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC", name="time")


HERE = {"repo_path": "."}
LOCAL = {**HERE, "branch_type": "local"}

EXAMPLES: Mapping[str, tuple[Example, ...]] = {
    "git_log": (
        Example("Show the last 3 commits.", {**HERE, "max_count": 3}),
        Example("What was the latest change?", {**HERE, "max_count": 1}),
    ),
    "git_status": (Example("Which files are changed?", HERE), Example("Is the work all committed?", HERE)),
    "git_branch": (Example("Which branches are there?", LOCAL), Example("Show me all branches.", LOCAL)),
    "execute_query": (
        Example("What does the wheat cost?", {"sql": "SELECT price FROM loaves WHERE name = 'wheat'"}),
        Example("How many loaves cost 3?", {"sql": "SELECT count(*) FROM loaves WHERE price = 3"}),
        Example("List the prices.", {"sql": "SELECT price FROM loaves"}),
    ),
    "list_tables": (Example("Which tables are there?", {}),),
    "list_columns": (Example("Which columns does loaves have?", {"table": "loaves"}),),
    "get_current_time": (
        Example("What time is it in Paris?", {"timezone": "Europe/Paris"}),
        Example("Tell me the time in New York.", {"timezone": "America/New_York"}),
    ),
    "convert_time": (
        Example(
            "It is 14:30 in Rome. What time is that in London?",
            {"source_timezone": "Europe/Rome", "time": "14:30", "target_timezone": "Europe/London"},
        ),
        Example(
            "Convert 09:00 from Paris to Tokyo.",
            {"source_timezone": "Europe/Paris", "time": "09:00", "target_timezone": "Asia/Tokyo"},
        ),
    ),
}


def _price(name: str) -> dict[str, Any]:
    return {"sql": f"SELECT price FROM loaves WHERE name = '{name}'"}


def _between(source: str, clock: str, target: str) -> dict[str, Any]:
    return {"source_timezone": source, "time": clock, "target_timezone": target}


SETS: Mapping[str, tuple[Callable[[Path], McpServer], tuple[Wanted, ...]]] = {
    "git": (
        repository,
        (
            ("Show the last commit.", "git_log", {**HERE, "max_count": 1}, ("Bake four loaves",)),
            ("Show the last 2 commits.", "git_log", {**HERE, "max_count": 2}, ("Bake four loaves", "Add the oven")),
            ("What were the newest 3 commits?", "git_log", {**HERE, "max_count": 3}, ("Start the bakery",)),
            ("Who made the last change?", "git_log", {**HERE, "max_count": 1}, ("Ann",)),
            ("Is there something to commit?", "git_status", HERE, ("oven.py",)),
            ("Which files did I change?", "git_status", HERE, ("oven.py",)),
            ("What is the status?", "git_status", HERE, ("oven.py",)),
            ("Which branch am I on?", "git_branch", LOCAL, ("main",)),
            ("List the branches.", "git_branch", LOCAL, ("main", "rye")),
            ("What branches does it have?", "git_branch", LOCAL, ("main", "rye")),
        ),
    ),
    "duckdb": (
        database,
        (
            ("What does the rye cost?", "execute_query", _price("rye"), ("4",)),
            ("What does the spelt cost?", "execute_query", _price("spelt"), ("6",)),
            ("How much is the rye?", "execute_query", _price("rye"), ("4",)),
            (
                "How many loaves cost 6?",
                "execute_query",
                {"sql": "SELECT count(*) FROM loaves WHERE price = 6"},
                ("1",),
            ),
            ("List the names.", "execute_query", {"sql": "SELECT name FROM loaves"}, ("rye", "spelt", "wheat")),
            ("What tables does it have?", "list_tables", {}, ("loaves",)),
            ("Show me the tables.", "list_tables", {}, ("loaves",)),
            ("What columns has loaves?", "list_columns", {"table": "loaves"}, ("name", "price")),
        ),
    ),
    "time": (
        clock,
        (
            ("What time is it in Tokyo?", "get_current_time", {"timezone": "Asia/Tokyo"}, ("+09:00",)),
            ("What is the time in London now?", "get_current_time", {"timezone": "Europe/London"}, ("Europe/London",)),
            ("Tell me the time in Berlin.", "get_current_time", {"timezone": "Europe/Berlin"}, ("Europe/Berlin",)),
            (
                "Convert 18:00 from Madrid to Tokyo.",
                "convert_time",
                _between("Europe/Madrid", "18:00", "Asia/Tokyo"),
                ("+9.0h", "+8.0h", "+7.0h"),
            ),
            (
                "It is 10:00 in Paris. What time is that in Rome?",
                "convert_time",
                _between("Europe/Paris", "10:00", "Europe/Rome"),
                ("10:00:00",),
            ),
            (
                "It is 08:15 in Berlin. What time is that in New York?",
                "convert_time",
                _between("Europe/Berlin", "08:15", "America/New_York"),
                ("-6.0h", "-5.0h"),
            ),
        ),
    ),
}


@fx.gen
def measure(server: McpServer, wanted: tuple[Wanted, ...]) -> Gen[None, Any, LanguageModel]:
    """Prints what became of each request, and the figures of the set."""
    shown = ToolSource.of(server).with_toolkit(
        lambda kit: kit.map(lambda tool: tool.with_options(input_examples=EXAMPLES.get(tool.name, ())))
    )
    agent = Agent.make("clerk", budget=Budget(rounds=2), at_limit="answer").with_tools(shown)
    tools = parameters = results = answers = 0
    started = time.perf_counter()
    for request, name, params, telling in wanted:
        answer = yield from agent.execute(request)
        calls = [call for step in answer.steps for call in step.response.tool_calls]
        told = [str(one.encoded_result) for step in answer.steps for one in step.response.tool_results]
        chose = bool(calls) and calls[0].name == name
        gave = any(_tells(said, telling) for said in told)
        tools += chose
        parameters += chose and calls[0].params == params
        results += gave
        answers += gave and _tells(answer.text, telling)
        made = ", ".join(f"{call.name} {call.params}" for call in calls) or "no call"
        print(f"    {request!r} -> {made} -> {answer.text[:100]!r}", flush=True)
    seconds = (time.perf_counter() - started) / len(wanted)
    of = len(wanted)
    print(f"  tools {tools}/{of}  parameters {parameters}/{of}  results {results}/{of}  answers {answers}/{of}", end="")
    print(f"  {seconds:.1f} s a run", flush=True)


def _tells(said: str, telling: tuple[str, ...]) -> bool:
    if telling[0].endswith("h"):  # an offset: which one depends on the season
        return any(one in said for one in telling)
    return all(one in said for one in telling)


def main(names: list[str]) -> None:
    """Measures the sets of these names, or all."""
    for name in names or list(SETS):
        server, wanted = SETS[name]
        with TemporaryDirectory() as folder:
            print(name, flush=True)
            fx.run(measure(server(Path(folder)), wanted).provide(layer()))


if __name__ == "__main__":
    main(sys.argv[1:])
