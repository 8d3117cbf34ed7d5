"""An agent that uses the tools of an MCP server."""

import sys
from pathlib import Path

from fxai import Agent, fx, mcp
from fxai.testing import ScriptedModel, call, text

server = str(Path(__file__).with_name("shop_server.py"))
shop = mcp.stdio(sys.executable, server, name="shop").prefix("shop_")

agent = Agent.make("buyer", instructions="Answer briefly.").with_tools(shop)

model = ScriptedModel.make(
    [
        call("shop_price", {"item": "coffee"}),
        call("shop_total", {"items": ["tea", "bread"]}),
        text("Tea and bread cost 6.50 euros. The shop has no coffee."),
    ]
).layer

if __name__ == "__main__":
    program = agent.execute("What do tea, bread, and coffee cost?")
    answer = fx.run(program.provide(model))
    for step in answer.steps:
        for result in step.results:
            print(f"{result.name}: {result.encoded_result}")
    print(answer.text)
