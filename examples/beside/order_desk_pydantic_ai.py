"""Run the order desk of `45_order_desk.py` in pydantic-ai, with the same tools, services, conversation, and output.

It needs `pydantic-ai-slim`, which fxai does not need. `nox -s beside` checks and runs it in its own environment.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from typing import Annotated

from pydantic import Field
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    ModelMessage,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolDenied,
    ToolFailed,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from typing_extensions import override

Cents = Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Order:
    """An order and its state."""

    number: int
    customer: str
    cents: int
    state: str = "open"


class Orders:
    """Orders in SQLite."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.database.execute("create table if not exists orders (number primary key, customer, cents, state)")

    def find(self, number: int) -> Order | None:
        """Return the order with this number, or None."""
        row = self.database.execute("select * from orders where number = ?", (number,)).fetchone()
        return Order(*row) if row else None

    def put(self, order: Order) -> None:
        """Store the order. It replaces an order with the same number."""
        self.database.execute("replace into orders values (?, ?, ?, ?)", astuple(order))


class Mailer:
    """A sender of mail, which prints each mail."""

    def send(self, to: str, text: str) -> None:
        """Send a mail."""
        print(f"To {to}: {text}")


class Outbox(Mailer):
    """A mailer for tests, which stores each mail."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    @override
    def send(self, to: str, text: str) -> None:
        self.sent.append(text)


@dataclass
class Desk:
    """The two services that the tools need."""

    orders: Orders
    mailer: Mailer


desk = Agent(deps_type=Desk, output_type=[str, DeferredToolRequests], instructions="Help with orders.")


@desk.tool
async def place(ctx: RunContext[Desk], number: int, customer: str, cents: Cents) -> None:
    """Takes an order."""
    ctx.deps.orders.put(Order(number, customer, cents))


@desk.tool
async def look_up(ctx: RunContext[Desk], number: int) -> Order:
    """Shows an order."""
    return find(ctx.deps, number)


@desk.tool
async def cancel(ctx: RunContext[Desk], number: int) -> Order:
    """Cancels an order that is not sent yet."""
    order = find(ctx.deps, number)
    if order.state != "open":
        raise ToolFailed(f"it is {order.state}")
    return change(ctx.deps, replace(order, state="cancelled"))


@desk.tool(requires_approval=True)
async def refund(ctx: RunContext[Desk], number: int, cents: Cents) -> Order:
    """Pays money back for an order."""
    order = find(ctx.deps, number)
    if cents > order.cents:
        raise ToolFailed(f"only {order.cents} were paid")
    return change(ctx.deps, replace(order, cents=order.cents - cents))


def find(services: Desk, number: int) -> Order:
    """Return the order with this number. If no order exists, the model reads a failure."""
    order = services.orders.find(number)
    if order is None:
        raise ToolFailed(f"there is no order {number}")
    return order


def change(services: Desk, order: Order) -> Order:
    """Store the new state of an order and inform its customer."""
    services.orders.put(order)
    services.mailer.send(order.customer, f"Order {order.number} is {order.state}, at {order.cents} cents.")
    return order


def manager(waiting: ToolCallPart) -> bool | ToolDenied:
    """Answer a pending call. Approve refunds of up to 20.00."""
    return waiting.args_as_dict()["cents"] <= 2000 or ToolDenied("too much at once")


def serve(request: str, services: Desk, model: FunctionModel) -> str:
    """Run the desk for a request. The manager answers pending calls."""
    result = desk.run_sync(request, deps=services, model=model)
    while isinstance(result.output, DeferredToolRequests):
        answers = {call.tool_call_id: manager(call) for call in result.output.approvals}
        result = desk.run_sync(
            message_history=result.all_messages(),
            deferred_tool_results=result.output.build_results(approvals=answers),
            deps=services,
            model=model,
        )
    return result.output


def script(turns: list[list[TextPart | ToolCallPart]]) -> FunctionModel:
    """Return a model with these turns."""
    left = iter(turns)

    async def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=next(left))

    return FunctionModel(answer)


if __name__ == "__main__":
    outbox = Outbox()
    model = script(
        [
            [ToolCallPart("place", {"number": 1, "customer": "ann", "cents": 1500})],
            [ToolCallPart("refund", {"number": 1, "cents": 500}), ToolCallPart("cancel", {"number": 2})],
            [ToolCallPart("cancel", {"number": 1}), ToolCallPart("refund", {"number": 1, "cents": 9000})],
            [TextPart("Order 1 is cancelled.")],
        ]
    )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        answer = serve("An order for Ann.", Desk(Orders(database), outbox), model)
    print(*outbox.sent, answer, sep="\n")
