"""Bind tools to an agent for one run: more tools, other tools, a source that opens for the run, or no tools.

Binding returns a new agent, and the original agent stays unchanged. Functions, objects, and sources bring their own
handlers. Run `python examples/80_bind_tools_for_one_run.py`.
"""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Result, Success

from fxai import Agent, BoundToolkit, Gen, Scope, Tool, Toolkit, ToolSource, fx, tool
from fxai.testing import ScriptedModel, call, text
from fxai.tools import MethodsOf


class Sum(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


add = Tool.make("add", description="Adds two integers.", parameters=Sum, success=int)


def on_add(given: Sum) -> Result[int, Never]:
    """Return the sum."""
    return Success(given.a + given.b)


@tool
def double(n: int) -> int:
    """Doubles a number."""
    return 2 * n


class Shelf:
    """A shelf of books."""

    def __init__(self, books: dict[str, str]) -> None:
        self.books = books

    def author(self, title: str) -> str:
        """Says who wrote a book."""
        return self.books.get(title, "nobody that I know")


@fx.gen
def library() -> Gen[BoundToolkit[MethodsOf[Shelf]], Never, Scope]:
    """Open the shelf for the duration of the run, and return its tools."""
    books = {"Emma": "Jane Austen"}
    opened = fx.sync(lambda: print("  the library opens"))
    yield from fx.acquire_release(opened, lambda _: fx.sync(lambda: print("  the library closes")))
    return Toolkit.from_object(Shelf(books))


agent = Agent.make("clerk", instructions="You help.", toolkit=Toolkit.make(add))
adds = add.handler(on_add)


def show(title: str, bound: Agent[Never, str], model: ScriptedModel) -> None:
    """Run an agent once, and print its tools and its results."""
    print(f"{title}: {bound!r}")
    answer = fx.run(bound.execute("?").provide(model.layer))
    for result in (result for step in answer.steps for result in step.results):
        print(f"  {result.name} gave {result.result!r}")
    print(f"  the model had {[one.name for one in model.requests[0].tools]} and said: {answer.text}")


def main() -> None:
    """Run one agent in four ways."""
    own = ScriptedModel.make([call("add", {"a": 2, "b": 3}), call("double", {"n": 5}), text("10.")])
    both = fx.run(agent.with_tools(double).execute("Twice 2 + 3?").provide(adds).provide(own.layer))
    print(f"with one more: {[one.name for one in own.requests[0].tools]}, and the answer is {both.text}")

    bare = agent.without_tools()
    show("without its own", bare, ScriptedModel.make([text("Good day.")]))
    show("with another", bare.with_tools(double), ScriptedModel.make([call("double", {"n": 21}), text("42.")]))
    source = ToolSource(library())
    asked = [call("Shelf.author", {"title": "Emma"}), text("Jane Austen wrote it.")]
    show("with a source", bare.with_tools(source), ScriptedModel.make(asked))
    print(f"and the agent has {[one.name for one in agent.tools]}, as before")


if __name__ == "__main__":
    main()
