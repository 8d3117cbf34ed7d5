"""Measure what fxai and other libraries cost: packages, size, import, and a run of an agent with one tool call.

`python -m tests.kit.peer_costs` installs each library in a new environment and prints the table of the front page. The
command needs `uv` and a package registry. The model is a stub that returns immediately, so the run measures the library
only. The CPU times depend on the machine: compare the libraries with each other.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.kit.source import ROOT

__all__ = ["PEERS", "Peer"]


class Peer(NamedTuple):
    """A library: what to install, its import, and a coroutine function `run` that runs an agent."""

    requirement: str
    imports: str
    run: str


PEERS = {
    "fxai": Peer(
        str(ROOT),
        "from fxai import Agent, fx, tool",
        """
from fxai.messages import Finish, Text, ToolCall
from fxai.models import LanguageModel, ModelInfo
from fxai import Layer, Stream

@tool
def add(first: int, second: int) -> int:
    "Add two numbers."
    return first + second

CALL = (ToolCall("c1", "add", {"first": 2, "second": 3}), Finish("tool-calls"))
TEXT = (Text("5"), Finish("stop"))

class Stub(LanguageModel):
    info = ModelInfo("stub", "stub")
    def ask(self, request):
        return fx.succeed(TEXT if request.prompt.messages[-1].role == "tool" else CALL)
    def ask_stream(self, request):
        return Stream.from_iterable(())

agent = Agent.make("adder").with_tools(add)
model = Layer.succeed(LanguageModel, Stub())

async def run():
    return (await fx.run_async(agent.execute("What is 2 + 3?").provide(model))).text
""",
    ),
    "pydantic-ai": Peer(
        "pydantic-ai-slim>=2.68,<3",
        "from pydantic_ai import Agent, Tool",
        """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

async def add(first: int, second: int) -> int:
    "Add two numbers."
    return first + second

async def stub(messages, info):
    part = ToolCallPart("add", '{"first": 2, "second": 3}', "c1") if len(messages) == 1 else TextPart("5")
    return ModelResponse(parts=[part])

agent = Agent(FunctionModel(stub), tools=[add])

async def run():
    return (await agent.run("What is 2 + 3?")).output
""",
    ),
    "OpenAI Agents SDK": Peer(
        "openai-agents>=0.24,<0.25",
        "from agents import Agent, Runner, function_tool",
        """
from agents import RunConfig
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.testing import assistant_message, function_call
from agents.usage import Usage

@function_tool
async def add(first: int, second: int) -> int:
    "Add two numbers."
    return first + second

class Stub(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        called = not isinstance(input, str) and len(input) > 1
        item = assistant_message("5") if called else function_call("add", {"first": 2, "second": 3}, call_id="c1")
        return ModelResponse(output=[item], usage=Usage(), response_id=None)
    def stream_response(self, *args, **kwargs):
        raise NotImplementedError

agent = Agent(name="adder", model=Stub(), tools=[add])
quiet = RunConfig(tracing_disabled=True)

async def run():
    return (await Runner.run(agent, "What is 2 + 3?", run_config=quiet)).final_output
""",
    ),
    "LangChain": Peer(
        "langchain>=1.4,<2",
        "from langchain.agents import create_agent",
        """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

@tool
async def add(first: int, second: int) -> int:
    "Add two numbers."
    return first + second

class Stub(BaseChatModel):
    @property
    def _llm_type(self):
        return "stub"
    def bind_tools(self, tools, **options):
        return self
    def _generate(self, messages, stop=None, run_manager=None, **options):
        call = {"name": "add", "args": {"first": 2, "second": 3}, "id": "c1"}
        message = AIMessage("", tool_calls=[call]) if len(messages) == 1 else AIMessage("5")
        return ChatResult(generations=[ChatGeneration(message=message)])
    async def _agenerate(self, messages, stop=None, run_manager=None, **options):
        return self._generate(messages)

agent = create_agent(Stub(), [add])

async def run():
    result = await agent.ainvoke({"messages": [HumanMessage("What is 2 + 3?")]})
    return result["messages"][-1].content
""",
    ),
}

IMPORT = """
import time
start = time.process_time()
{imports}
print((time.process_time() - start) * 1e3)
"""

RUN = """
{imports}
{run}
import asyncio, gc, statistics, time
async def main():
    for _ in range(20):
        assert await run() == "5"
    gc.collect()
    times = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(50):
            await run()
        times.append((time.process_time() - start) / 50 * 1e3)
    print(statistics.median(times))
asyncio.run(main())
"""


def _measure(peer: Peer, folder: Path) -> tuple[int, float, float, float]:
    python = folder / "venv/bin/python"
    subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(folder / "venv")], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), peer.requirement], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    packages = len(list(site.glob("*.dist-info")))
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) / 1e6

    def run(code: str) -> float:
        environment = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "OPENAI_API_KEY": "none", "PATH": ""}
        command = [str(python), "-W", "ignore", "-c", code.format(imports=peer.imports, run=peer.run)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    imports = [run(IMPORT) for _ in range(6)][1:]  # the first import compiles the modules
    return packages, size, statistics.median(imports), statistics.median([run(RUN) for _ in range(3)])


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.peer_costs", description="Measure other libraries.")
    parser.add_argument("names", nargs="*", help="Libraries to measure. Default: all.")
    options = parser.parse_args(arguments)
    print(
        "| Library | Packages | MB on disk | Import, CPU ms | Run with one tool call, CPU ms |\n|---|---|---|---|---|"
    )
    for name in options.names or PEERS:
        with tempfile.TemporaryDirectory() as folder:
            packages, size, imported, ran = _measure(PEERS[name], Path(folder))
        print(f"| {name} | {packages} | {size:.0f} | {imported:.0f} | {ran:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
