"""Run an order desk with four tools, an approval, failures, two services, and layers for production and tests.

`beside/order_desk_pydantic_ai.py` is the same program in pydantic-ai. Run `python examples/45_order_desk.py`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Annotated, Never

import msgspec
from typing_extensions import override

from fxai import Agent, Gen, LanguageModel, Layer, RunError, Service, fx, tool
from fxai.messages import Pending, ToolContent
from fxai.testing import ScriptedModel, call, text

Cents = Annotated[int, msgspec.Meta(gt=0)]


class Order(msgspec.Struct, frozen=True):
    """An order and its state."""

    number: int
    customer: str
    cents: int
    state: str = "open"


class NoSuchOrder(msgspec.Struct, frozen=True, tag=True):
    """No order has this number."""

    number: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The action is not allowed."""

    why: str


class Orders(Service):
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
        self.database.execute("replace into orders values (?, ?, ?, ?)", msgspec.structs.astuple(order))


class Mailer(Service):
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


def world(file: str, mailer: Mailer) -> Layer[Orders | Mailer]:
    """Return the layer of both services. The database stays open while the program runs."""
    database = fx.acquire_cm(lambda: closing(sqlite3.connect(file, isolation_level=None)))
    return Layer.scoped(Orders, database.map(Orders)) | Layer.succeed(Mailer, mailer)


live = world("orders.db", Mailer())  # fxai chat --agent examples/45_order_desk.py:desk --layer …:live

desk_tool = tool(failure_mode="return")  # the model reads the failures of these tools and continues


@desk_tool
def place(number: int, customer: str, cents: Cents) -> Gen[None, Never, Orders]:
    """Takes an order."""
    orders = yield from Orders
    orders.put(Order(number, customer, cents))


@desk_tool
def look_up(number: int) -> Gen[Order, NoSuchOrder, Orders]:
    """Shows an order."""
    orders = yield from Orders
    return (yield from fx.some(orders.find(number), NoSuchOrder(number)))


@desk_tool
def cancel(number: int) -> Gen[Order, NoSuchOrder | Refused, Orders | Mailer]:
    """Cancels an order that is not sent yet."""
    order = yield from look_up(number)
    if order.state != "open":
        return (yield from fx.fail(Refused(f"it is {order.state}")))
    return (yield from change(order, "cancelled", order.cents))


@desk_tool(needs_approval=True)
def refund(number: int, cents: Cents) -> Gen[Order, NoSuchOrder | Refused, Orders | Mailer]:
    """Pays money back for an order."""
    order = yield from look_up(number)
    if cents > order.cents:
        return (yield from fx.fail(Refused(f"only {order.cents} were paid")))
    return (yield from change(order, order.state, order.cents - cents))


def change(order: Order, state: str, cents: int) -> Gen[Order, Never, Orders | Mailer]:
    """Store the new state of an order and inform its customer."""
    orders, mailer = (yield from Orders), (yield from Mailer)
    changed = Order(order.number, order.customer, cents, state)
    orders.put(changed)
    mailer.send(order.customer, f"Order {order.number} is {state}, at {cents} cents.")
    return changed


desk = Agent.make("desk", instructions="Help with orders.").with_tools(place, look_up, cancel, refund)


def manager(waiting: Pending) -> ToolContent:
    """Answer a pending call. Approve refunds of up to 20.00."""
    return waiting.approve() if waiting.params["cents"] <= 2000 else waiting.deny("too much at once")


@fx.gen
def serve(request: str) -> Gen[str, RunError, Orders | Mailer | LanguageModel]:
    """Run the desk for a request. The manager answers pending calls."""
    answer = yield from desk.execute(request)
    while answer.pending:
        answer = yield from desk.execute(answer.history.reply(manager))
    return answer.text


if __name__ == "__main__":
    outbox = Outbox()
    model = ScriptedModel.make(
        [
            call("place", {"number": 1, "customer": "ann", "cents": 1500}),
            [call("refund", {"number": 1, "cents": 500}), call("cancel", {"number": 2})],
            [call("cancel", {"number": 1}), call("refund", {"number": 1, "cents": 9000})],
            text("Order 1 is cancelled."),
        ]
    )
    answer = fx.run(serve("An order for Ann.").provide(world(":memory:", outbox) | model.layer))
    print(*outbox.sent, answer, sep="\n")
