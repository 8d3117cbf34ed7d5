"""Composites of a stateful prompt: their document is made once, and their handlers are those of each step."""

from __future__ import annotations

from typing import Any

from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import Effect, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import BoundToolkit, Tool, Toolkit
from fxai.tools.aspects import cache

read = Tool.make("read", description="Reads.", parameters=str, success=str)
write = Tool.make("write", description="Writes.", parameters=str, success=str)
READ_X = call("files", {"calls": [{"name": "read", "args": "x"}]})


def _reads(words: str) -> BoundToolkit[Any]:
    return BoundToolkit.of(Toolkit.make(read), read.handler(lambda _: fx.succeed(words)))


def _ask(prompt: StatefulPrompt[Any, Any], steps: int) -> tuple[ScriptedModel, list[Any]]:
    """The model after a run that called the composite in so many steps, and what it read."""
    model = ScriptedModel.make([*([READ_X] * steps), text("done")])
    answer = fx.run(prompt.execute("Read x.").provide(model.layer))
    return model, [result.encoded_result["results"][0]["result"] for step in answer.steps for result in step.results]


def test_the_document_of_a_composite_is_made_once() -> None:
    """It is not made anew for each step, though the handlers are."""

    def files(at: Render) -> None:
        step = at.state("step", 1)

        def on_read(_: str) -> Effect[str]:
            return step.set(step.value + 1).as_(f"step {step.value}")

        at.composite("files", BoundToolkit.of(Toolkit.make(read), read.handler(on_read)), description="Files.")

    model, results = _ask(StatefulPrompt.make("files", files), 3)

    first, *others = [request.tools[0] for request in model.requests]
    assert [tool.parameters is first.parameters for tool in others] == [True] * 3
    assert results == ["step 1", "step 2", "step 3"]


def test_a_composite_that_is_defined_otherwise_is_another_tool() -> None:
    """Other sub-tools or another description show at once, and so does a return to what it was."""

    def files(at: Render) -> None:
        if at.number == 2:
            at.composite("files", _reads("two"), BoundToolkit.of(Toolkit.make(write), write.handler(fx.succeed)))
        else:
            at.composite("files", _reads("one"), description=f"Files of {at.number // 4}.")

    model, results = _ask(StatefulPrompt.make("files", files), 4)

    told = [str(request.tools[0].description).splitlines() for request in model.requests]
    assert [lines[0] for lines in told] == [
        "Files of 0.",
        "Runs several calls of the sub-tools below and returns all their results.",
        "Files of 0.",
        "Files of 1.",
        "Files of 1.",
    ]
    assert [len(lines) for lines in told] == [4, 5, 4, 4, 4]
    assert results == ["one", "two", "one", "one"]


def test_an_aspect_around_a_sub_tool_keeps_its_state_where_its_toolkit_is_made_outside_of_the_render() -> None:
    """What one step has put into a cache, another finds there; a run does not find that of another run."""
    asked: list[str] = []

    def on_read(words: str) -> Effect[str]:
        asked.append(words)
        return fx.succeed(words)

    kept = BoundToolkit.of(Toolkit.make(read), cache(ttl=60).wrap(read.handler(on_read)))

    def files(at: Render) -> None:
        at.composite("files", kept)

    prompt = StatefulPrompt.make("files", files)
    _, results = _ask(prompt, 3)
    assert (results, asked) == (["x", "x", "x"], ["x"])

    _ask(prompt, 2)
    assert asked == ["x", "x"]
