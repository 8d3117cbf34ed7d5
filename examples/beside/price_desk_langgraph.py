"""Run the price desk of `46_price_desk.py` in LangGraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition


@dataclass
class Prices:
    """The prices of a shop in cents."""

    cents: dict[str, int]


@tool
def look_up(item: str, runtime: ToolRuntime[Prices, MessagesState]) -> int:
    """Returns the price of an item in cents."""
    if item not in runtime.context.cents:
        raise ToolException(f"no price for {item}")
    return runtime.context.cents[item]


def tell_failure(error: ToolException) -> str:
    """Return the text for the model if the tool fails."""
    return str(error)


class Scripted(GenericFakeChatModel):
    """A model that plays a script. A real model receives the schemas of the tools in `bind_tools`."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ARG002
        """Return the model unchanged."""
        return self


CALLS = [ToolCall(name="look_up", args={"item": item}, id=item) for item in ("tea", "milk")]
TURNS = [
    AIMessage("", tool_calls=CALLS),
    AIMessage("Tea costs 250 cents. We have no milk."),
    AIMessage("Two teas cost 500 cents."),
]
model = Scripted(messages=iter(TURNS)).bind_tools([look_up])


def ask_model(state: MessagesState) -> dict[str, Any]:
    """Send the conversation to the model."""
    return {"messages": [model.invoke([SystemMessage("Answer questions about prices."), *state["messages"]])]}


builder = StateGraph(MessagesState, context_schema=Prices)
builder.add_node("model", ask_model)
builder.add_node("tools", ToolNode([look_up], handle_tool_errors=tell_failure))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
desk = builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    """Ask two questions in one conversation."""
    thread, prices = RunnableConfig(configurable={"thread_id": "1"}), Prices({"tea": 250})
    first = desk.invoke({"messages": [HumanMessage("What do tea and milk cost?")]}, thread, context=prices)
    print("results:", *(m.content for m in first["messages"] if isinstance(m, ToolMessage)), sep="\n  ")
    print("answer:", first["messages"][-1].content)
    second = desk.invoke({"messages": [HumanMessage("And two teas?")]}, thread, context=prices)
    print("answer:", second["messages"][-1].content)


if __name__ == "__main__":
    main()
