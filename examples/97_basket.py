"""Fill a basket with a stateful prompt that reminds, disables, and groups tools, across several processes.

The first process ends when an order waits for approval, and writes the conversation and the state to a file. The second
process reads both, approves the order, and continues. It orders the contents of the basket at the step of the call, and
it orders them once. Run `python examples/97_basket.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from returns.result import Failure

from fxai import Answer, Effect, Step, Tool, bind, fx
from fxai.agents.stateful import PromptState, Render, StatefulPrompt, StepPatch, StepView
from fxai.messages import Pending, Prompt
from fxai.models import ApprovalKey
from fxai.testing import ScriptedModel, call, text
from fxai.tools.aspects import Aspect, Invocation, Return

STOCK = {"tea": 40, "mugs": 2}


class Item(msgspec.Struct, frozen=True):
    """An item of the shop."""

    name: str


class Line(msgspec.Struct, frozen=True):
    """A line of an order."""

    name: str
    pieces: int


look = Tool.make("look", description="Says how much of an item there is.", parameters=Item, success=int)
add = Tool.make("add", description="Puts pieces of an item in.", parameters=Line, success=str, failure=str)
remove = Tool.make("remove", description="Takes an item out.", parameters=Item, success=str)
order = Tool.make("order", description="Orders what is in the basket.", success=str, needs_approval=True)


# Two aspects, each for one operation. The model sees both operations as one tool.


def in_stock(asked: Invocation[Line]) -> Failure[str] | None:
    """Fail if the stock is too small."""
    left = STOCK.get(asked.params.name, 0)
    return Failure(f"there are {left}") if asked.params.pieces > left else None


def in_capitals(_: Invocation[Item], said: str) -> Return[str]:
    """Write the result in capitals."""
    return Return(said.upper())


checked = Aspect.make(tool=add, before=in_stock)
loud = Aspect.make(tool=remove, after=in_capitals)


def desk(at: Render) -> None:
    """Define the tools, their current handlers, and the data for each step of the model."""
    basket = at.state("basket", dict[str, int]())
    looks = at.state("looks", 0)
    held = dict(basket.value)  # the contents at this step: a call of this step orders them, even if approved later

    def on_add(line: Line) -> Effect[str]:
        return basket.update(lambda now: {**now, line.name: now.get(line.name, 0) + line.pieces}).as_("it is in")

    def on_remove(item: Item) -> Effect[str]:
        return basket.update(lambda now: {name: now[name] for name in now if name != item.name}).as_("it is out")

    def on_order(_: object) -> Effect[str]:
        print(f"  The van is loaded with {held}.")
        return basket.update(lambda now: {name: now[name] for name in now if name not in held}).as_("ordered")

    at.system("rules", "Look at the stock before you fill the basket, at most twice.")
    at.data("basket", basket.value)
    seen = at.tool(look, lambda item: looks.update(lambda n: n + 1).as_(STOCK.get(item.name, 0)))
    at.composite(
        "change",
        bind(add, on_add, aspect=checked),
        bind(remove, on_remove, aspect=loud),
        description="Changes the basket.",
    )
    buy = at.tool(order, on_order)

    def weary(_: StepView) -> StepPatch | None:
        return seen.disable() if looks.value >= 2 else None

    at.effect("weary", weary)
    at.effect("filled", lambda _: buy.remind() if basket.value else None, deps=tuple(sorted(basket.value.items())))


prompt = StatefulPrompt.make("desk", desk)
key = ApprovalKey("an example's secret is no secret").layer  # shared by the processes that ask and answer


def show(answer: Answer[str]) -> None:
    """Print the tools, calls, and results of each step."""
    for step in answer.steps:
        print(
            f"  Step {step.number}: basket {step.record.before.values['basket']}, tools {' '.join(step.record.tools)}"
        )
        for key, patch in step.record.patches:
            what = [f"disables {name}" for name in patch.hidden] + [f"reminds of {one}" for one in patch.reminders]
            print(f"    {key} {', '.join(what)}")
        show_turn(step)
    assert answer.state is not None
    print(f"  {answer.ended}: basket {answer.state.values['basket']}, looks {answer.state.values['looks']}")


def show_turn(step: Step) -> None:
    """Print the calls of a step with their results, the inner calls of a composite, and the text of the model."""
    came = {result.id: result.encoded_result for result in step.results}
    for one in step.calls:
        if one.name == "change":
            for inside, each in zip(one.params["calls"], came[one.id]["results"], strict=True):
                print(f"    change {inside['name']} {inside['args']}: {each['result']}")
        else:
            print(f"    {one.name} {one.params}: {came.get(one.id, 'waits')}")
    if step.text:
        print(f"    says {step.text}")


class Saved(msgspec.Struct, frozen=True):
    """The saved data of a process for the next process."""

    history: msgspec.Raw
    state: msgspec.Raw


def save(file: Path, answer: Answer[str]) -> None:
    """Write the conversation and the state to a file."""
    assert answer.state is not None
    saved = Saved(msgspec.Raw(answer.history.to_json().encode()), msgspec.Raw(answer.state.to_json().encode()))
    file.write_bytes(msgspec.json.encode(saved))


def begin(file: Path) -> None:
    """Run the first process. It ends with a pending order."""
    model = ScriptedModel.make(
        [
            [call("look", {"name": "tea"}), call("look", {"name": "mugs"})],
            call("change", {"calls": [_add("tea", 3), _add("mugs", 9), {"name": "remove", "args": {"name": "mugs"}}]}),
            [call("order", {}), call("change", {"calls": [_add("mugs", 1)]})],
        ]
    )
    answer = fx.run(prompt.execute("Three packs of tea, please, and a mug for later.").provide(model.layer | key))
    show(answer)
    save(file, answer)


def _add(name: str, pieces: int) -> dict[str, object]:
    return {"name": "add", "args": {"name": name, "pieces": pieces}}


def go_on(file: Path) -> None:
    """Run the second process, which approves the order and continues. A third process finds no pending order."""
    saved = msgspec.json.decode(file.read_bytes(), type=Saved)
    history = Prompt.from_json(bytes(saved.history)).unwrap()
    state = PromptState.from_json(bytes(saved.state)).unwrap()
    waiting = history.pending
    print(f"  Waiting: {', '.join(one.name for one in waiting) or 'nothing'}.")
    history = history.reply(Pending.approve) if waiting else history + Prompt.make("Thank you.")
    model = ScriptedModel.make([text("It is ordered." if waiting else "You are welcome.")])
    answer = fx.run(prompt.execute(history, state=state).provide(model.layer | key))
    show(answer)
    save(file, answer)


def main() -> None:
    """Run three processes one after another."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "desk.json"
        print("A process begins:")
        begin(file)
        for _ in range(2):
            command = (sys.executable, __file__, "go-on", str(file))
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            print(f"Another process goes on:\n{done.stdout}", end="")


if __name__ == "__main__":
    go_on(Path(sys.argv[2])) if sys.argv[1:2] == ["go-on"] else main()
