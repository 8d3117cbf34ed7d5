"""A FastAPI application with a chat page."""

from fastapi import FastAPI

from fxai import Agent, tool
from fxai.testing import ScriptedModel, call, text
from fxai.ui import AppOptions, chat_app, mount

STOCK = {"tea": 3, "coffee": 0}


@tool
def stock(item: str) -> int:
    """Return the number of pieces in stock."""
    return STOCK.get(item, 0)


@tool(needs_approval=True)  # the page asks the user before each call
def order(item: str, pieces: int) -> str:
    """Order an item from the supplier."""
    return f"{pieces} pieces of {item} are on their way"


agent = Agent.make("shop", instructions="Help the shop keeper.")
agent = agent.with_tools(stock, order)

model = ScriptedModel.make(
    [
        turn
        for _ in range(100)  # the script repeats these turns
        for turn in (
            [text("I check the stock."), call("stock", {"item": "coffee"})],
            call("order", {"item": "coffee", "pieces": 5}),
            text("Five pieces of coffee are on their way."),
        )
    ]
).layer

app = FastAPI()


@app.get("/health")
def health() -> dict[str, bool]:
    """Return the state of the application."""
    return {"ok": True}


options = AppOptions(title="Shop", page=True)
chat = chat_app(agent, layer=model, options=options)
mount(app, chat, "/chat")
